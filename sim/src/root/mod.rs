// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`RootComplex`]: the other end of a card's PCI Express link, as packets in beats, and the judge of what the card sends.
//!
//! ```text
//!            +-----------------------------------------------------------+
//!   rq ----->| check --> read  --> cut, delay, order, faults ------------|-----> rc
//!            |       \-> write --> order --> Host memory, or interrupts  |
//!   cc ----->| check --> answers of the CPU's reads                      |
//!            |           the CPU's reads and writes of BAR 0 ------------|-----> cq
//!            +-----------------------------------------------------------+
//! ```
//!
//! Each of the four streams carries transaction layer packets as [`ferrowire_spec::pcie`] describes them, in [`Beat`]s: a packet
//! begins in a beat of its own. It is made from the PCI Express standard alone, and knows no more of the card than that.
//!
//! The model has no clock of its own. In each cycle one asks for what is on offer ([`rc`](RootComplex::rc),
//! [`cq`](RootComplex::cq)) and for readiness, and then says what was taken: of [`rc`](RootComplex::rc_taken) first, because that frees
//! tags. Cycles only rise; some may be left out. The same calls with the same seed give the same.
//!
//! The order is that of PCIe 2.4.1: what the card sends on `rq` and `cc` is seen in the order in which it came, as far as the standard
//! promises that. Between `rc` and `cq` the model keeps no order, less than the standard, in which a completion passes no write of the CPU:
//! the streams stand still each for itself.
//!
//! What breaks a rule is a bug of the card: it is counted, the first one is kept in [`violation`](RootComplex::violation) with the
//! clause, and the packet is thrown away. Reads of memory that is not mapped are answered with UR, writes there are dropped;
//! [`Host`] counts both.

mod access;
mod cpu;
mod faults;
mod memory;
pub mod pcie4;
mod reads;
mod request;
mod settings;
mod stream;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use cpu::{Answer, ReadId};
pub use faults::{Fault, FaultKind, Predicate, ReadInfo};
use ferrowire_spec::pcie::{kind, Completion};
pub use memory::Interrupt;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
pub use settings::{RootSettings, RootStats, Split};

use crate::host::Host;
use crate::wire::{Beat, MAX_BEAT};
use cpu::Cpu;
use faults::Plan;
use memory::Memory;
use reads::{Around, Reads};
use request::Request;
use stream::{Collector, Sender};

/// Streams, as indices of what stands still in a cycle.
const RQ: usize = 0;
const RC: usize = 1;
const CQ: usize = 2;
const CC: usize = 3;

/// A root complex with its host's memory and CPU.
pub struct RootComplex {
    settings: RootSettings,
    /// The next cycle that has not begun.
    next: u64,
    stalled: [bool; 4],
    random: SmallRng,
    stall_random: SmallRng,
    memory: Memory,
    reads: Reads,
    cpu: Cpu,
    plan: Plan,
    rq: Collector,
    rc: Sender,
    cq: Sender,
    cc: Collector,
    stats: RootStats,
    violation: Option<String>,
}

impl RootComplex {
    /// One with nothing mapped, whose streams have beats of `beat` bytes: 8, 16, 32 or 64.
    ///
    /// # Panics
    /// A setting is none that the standard knows, or `beat` is another number.
    pub fn new(beat: usize, settings: RootSettings) -> Self {
        settings.check();
        let known = [8, 16, 32, MAX_BEAT].contains(&beat);
        assert!(known, "beats of {beat} bytes: not 8, 16, 32 or 64");
        Self {
            next: 0,
            stalled: [false; 4],
            random: SmallRng::seed_from_u64(settings.seed),
            // Of its own, so that how long a run takes does not change what happens in it.
            stall_random: SmallRng::seed_from_u64(!settings.seed),
            memory: Memory::new(Host::new(beat, settings.latency)),
            reads: Reads::new(),
            cpu: Cpu::new(),
            plan: Plan::default(),
            rq: Collector::new(beat),
            rc: Sender::new(beat),
            cq: Sender::new(beat),
            cc: Collector::new(beat),
            stats: RootStats::default(),
            violation: None,
            settings,
        }
    }

    /// What it was made with.
    pub fn settings(&self) -> &RootSettings {
        &self.settings
    }

    /// Its memory: the map, watching, the log of accesses and the counters.
    pub fn host(&self) -> &Host {
        &self.memory.host
    }

    /// Its memory.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.memory.host
    }

    /// What went through it so far.
    pub fn stats(&self) -> RootStats {
        RootStats { cpu_reads: self.cpu.answered, ..self.stats }
    }

    /// How the card broke a rule, the first time: cycle, stream, packet, rule and clause.
    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// Whether nothing is under way: no packet has begun, no read of either side is without its answer, no write waits.
    pub fn idle(&self) -> bool {
        let streams = !self.rq.open() && !self.cc.open() && self.rc.free() && self.cq.free();
        streams && self.reads.idle() && self.cpu.idle() && !self.memory.busy()
    }

    /// Whether a read of the card waits for a completion.
    pub fn reading(&self) -> bool {
        self.reads.under_way() > 0
    }

    /// Lets a predicate decide about each read from now on, or nobody.
    pub fn set_fault_predicate(&mut self, predicate: Option<Predicate>) {
        self.plan.predicate = predicate;
    }

    /// Does that to reads with so much probability from now on, as well as what was asked for before.
    ///
    /// # Panics
    /// `probability` is not from 0 to 1.
    pub fn set_fault_rate(&mut self, fault: Fault, probability: f64) {
        assert!((0.0..=1.0).contains(&probability), "{fault:?}: probability {probability}");
        self.plan.rates.retain(|(other, _)| *other != fault);
        self.plan.rates.push((fault, probability));
    }

    /// How often that was done.
    pub fn faults(&self, kind: FaultKind) -> u64 {
        self.stats.faults[kind as usize]
    }

    /// Writes to these addresses are interrupts and not memory.
    pub fn set_interrupt_window(&mut self, window: Range<u64>) {
        self.memory.window = window;
    }

    /// The next interrupt that nobody has looked at.
    pub fn interrupt(&mut self) -> Option<Interrupt> {
        self.memory.interrupts.pop_front()
    }

    /// Whether it takes a beat of `rq` in this cycle, whatever it is. While reads have no credit left, no packet may begin: a
    /// hard block that has one stream for all behaves like that.
    pub fn rq_ready(&mut self, cycle: u64) -> bool {
        self.begin(cycle);
        !self.stalled[RQ] && (self.rq.open() || self.has_credit())
    }

    /// Whether it takes that beat in this cycle. Here only reads wait for credits: writes pass them, as PCIe 2.4.1 wants it.
    pub fn rq_ready_for(&mut self, cycle: u64, beat: &Beat) -> bool {
        self.begin(cycle);
        let writes = matches!(beat.data[0], kind::WRITE32 | kind::WRITE64);
        !self.stalled[RQ] && (self.rq.open() || writes || self.has_credit())
    }

    fn has_credit(&self) -> bool {
        self.settings.non_posted_credits.is_none_or(|credits| self.reads.under_way() < credits)
    }

    /// Reads for which there is a credit; `None`: any number.
    fn credits(&self) -> Option<u32> {
        self.settings.non_posted_credits.map(|credits| credits.saturating_sub(self.reads.under_way()))
    }

    /// A beat of `rq` was taken.
    pub fn rq_beat(&mut self, cycle: u64, beat: &Beat) {
        self.begin(cycle);
        match self.rq.beat(cycle, beat).map(|packet| packet.is_some()) {
            Ok(false) => {}
            Ok(true) => {
                let packet = self.rq.take();
                self.rq_packet(cycle, &packet);
                self.rq.restore(packet);
            }
            Err(what) => {
                self.judge(cycle, "rq", Err(what));
            }
        }
    }

    /// A whole packet came on `rq`. Whether it was lawful.
    fn rq_packet(&mut self, cycle: u64, packet: &[u8]) -> bool {
        let around = &mut Around {
            cycle,
            settings: &self.settings,
            memory: &mut self.memory,
            plan: &mut self.plan,
            random: &mut self.random,
            stats: &mut self.stats,
        };
        let taken = request(packet, &mut self.reads, around);
        self.judge(cycle, "rq", taken)
    }

    /// The beat of `rc` on offer in this cycle.
    pub fn rc(&mut self, cycle: u64) -> Option<Beat> {
        self.begin(cycle);
        self.rc.offer(self.stalled[RC])
    }

    /// The beat of `rc` on offer was taken.
    pub fn rc_taken(&mut self, cycle: u64) {
        self.begin(cycle);
        self.stats.rc_beats += 1;
        if self.rc.taken() {
            self.reads.ended();
        }
    }

    /// The beat of `cq` on offer in this cycle.
    pub fn cq(&mut self, cycle: u64) -> Option<Beat> {
        self.begin(cycle);
        self.cq.offer(self.stalled[CQ])
    }

    /// The beat of `cq` on offer was taken.
    pub fn cq_taken(&mut self, cycle: u64) {
        self.begin(cycle);
        if self.cq.taken() {
            self.cpu.ended(cycle);
        }
    }

    /// Whether it takes a beat of `cc` in this cycle.
    pub fn cc_ready(&mut self, cycle: u64) -> bool {
        self.begin(cycle);
        !self.stalled[CC]
    }

    /// A beat of `cc` was taken. An answer pushes the writes that came before it in front of itself (PCIe 2.4.1, table 2-40), unless it has
    /// relaxed ordering.
    pub fn cc_beat(&mut self, cycle: u64, beat: &Beat) {
        self.begin(cycle);
        match self.cc.beat(cycle, beat).map(|packet| packet.is_some()) {
            Ok(false) => {}
            Ok(true) => {
                let packet = self.cc.take();
                self.cc_packet(cycle, &packet);
                self.cc.restore(packet);
            }
            Err(what) => {
                self.judge(cycle, "cc", Err(what));
            }
        }
    }

    /// A whole packet came on `cc`.
    fn cc_packet(&mut self, cycle: u64, packet: &[u8]) {
        if !Completion::parse(packet).is_ok_and(|header| header.relaxed) {
            self.memory.push_out(cycle, u64::MAX);
        }
        let taken = self.cpu.completion(packet, &self.settings);
        self.judge(cycle, "cc", taken);
    }

    /// Begins a cycle, if it has not begun: decides what stands still, does what is due, and sends what comes next.
    fn begin(&mut self, cycle: u64) {
        if cycle < self.next {
            return;
        }
        if self.settings.gapless && self.next > 0 {
            let before = self.next - 1;
            let gaps = [("rq", self.rq.gap(before), RQ), ("cc", self.cc.gap(before), CC)];
            for (stream, gap, index) in gaps {
                if gap && !self.stalled[index] {
                    self.judge(
                        before,
                        stream,
                        Err("a packet has no beat in a cycle in which one was taken".into()),
                    );
                }
            }
        }
        self.next = cycle + 1;
        if self.settings.stall > 0.0 {
            self.stalled = std::array::from_fn(|_| self.stall_random.random_bool(self.settings.stall));
        }
        self.memory.work(cycle);
        let around = &mut Around {
            cycle,
            settings: &self.settings,
            memory: &mut self.memory,
            plan: &mut self.plan,
            random: &mut self.random,
            stats: &mut self.stats,
        };
        self.reads.work(around);
        self.next_completion(cycle);
        if self.cq.free() {
            self.cpu.begin(&mut self.cq);
        }
    }

    /// Begins the next completion, if none is on its way.
    fn next_completion(&mut self, cycle: u64) {
        if !self.rc.free() || self.reads.idle() {
            return;
        }
        let around = &mut Around {
            cycle,
            settings: &self.settings,
            memory: &mut self.memory,
            plan: &mut self.plan,
            random: &mut self.random,
            stats: &mut self.stats,
        };
        self.reads.complete(self.rc.begin(), around);
    }

    /// A whole completion that may be sent in this cycle.
    fn rc_packet(&mut self, cycle: u64) -> Option<Vec<u8>> {
        self.next_completion(cycle);
        let packet = self.rc.take()?;
        self.reads.ended();
        Some(packet)
    }

    /// A whole request of the CPU that may be sent in this cycle.
    fn cq_packet(&mut self) -> Option<Vec<u8>> {
        if self.cq.free() {
            self.cpu.begin(&mut self.cq);
        }
        self.cq.take()
    }

    /// Whether nothing was wrong.
    fn judge(&mut self, cycle: u64, stream: &str, taken: Result<(), String>) -> bool {
        let Err(what) = taken else { return true };
        self.stats.violations += 1;
        self.violation.get_or_insert_with(|| format!("cycle {cycle}, {stream}: {what}"));
        false
    }
}

/// Takes a packet of `rq`.
fn request(packet: &[u8], reads: &mut Reads, around: &mut Around<'_>) -> Result<(), String> {
    let whole = Request::parse(packet);
    let Some(request) = whole else { return Err(format!("a packet of {} bytes (PCIe 2.2.1)", packet.len())) };
    if !matches!(request.kind, kind::READ32 | kind::READ64 | kind::WRITE32 | kind::WRITE64) {
        return Err(format!("fmt and type are {:#04x}, no memory read or write (PCIe 2.2.1)", request.kind));
    }
    request.check(packet, around.settings)?;
    if !request.has_data() {
        return reads.accept(request, around);
    }
    around.stats.writes += 1;
    around.stats.relaxed += u64::from(request.header.relaxed);
    if around.memory.is_interrupt(&request) {
        around.stats.interrupts += 1;
        if (request.dwords(), request.header.first_be) != (1, 15) {
            return Err(format!("{}: an interrupt is one double word (PCIe 6.1.4)", request.name()));
        }
        if request.header.relaxed || request.header.no_snoop {
            let name = request.name();
            return Err(format!("{name}: an interrupt with relaxed ordering or no snoop (PCIe 2.2.6.4)"));
        }
    }
    let settings = around.settings;
    let most = if settings.reorder { around.memory.host.latency() + settings.spread } else { 0 };
    let wait = if most > 0 { around.random.random_range(0..=most) } else { 0 };
    around.memory.write(around.cycle, request, packet, wait);
    Ok(())
}
