// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Subordinate`]: memory at the other end of a card's AXI4 manager interface, and the judge of what the card does there; [`Cpu`]: the
//! manager of its registers on AXI4-Lite.
//!
//! ```text
//!            +------------------------------------------------------+
//!   aw ----->| judge --> writes --> [ random moments ] --> memory   |
//!   w  ----->| judge ------/   \--> delay, order, faults -----------|-----> b
//!   ar ----->| judge --> reads --> delay, order, faults ------------|-----> r
//!            +------------------------------------------------------+
//! ```
//!
//! It is made from the AXI specification alone (ARM IHI 0022; clauses are those of issue H), and knows no more of the card than its documentation
//! promises: bursts of increasing addresses in beats of the whole width, and IDs.
//!
//! The model has no clock of its own. In each cycle one asks for what it drives ([`offers`](Subordinate::offers)), and then says what the manager
//! drives ([`take`](Subordinate::take)): nothing of the first depends on the second. Cycles only rise; some may be left out. The same calls with the
//! same seed give the same.
//!
//! AXI has no order of what is seen before a write's response: if the settings say so, memory has a write's blocks in any order and at any moment
//! between its last beat and its response, and a read looks at any moment between its address and its data. So whoever lets an
//! observer rely on more is found.
//!
//! What breaks a rule is a bug of the card: it is counted, and the first one is kept in [`violation`](Subordinate::violation) with the clause. Memory
//! that is not mapped answers with DECERR; [`Host`] counts both.

mod channel;
mod cpu;
mod faults;
mod reads;
mod rules;
mod settings;
#[cfg(test)]
mod tests;
mod writes;

pub use channel::{Address, ReadBeat, Response, WriteBeat, WriteResponse, INCR};
pub use cpu::{Cpu, LiteOffers, LiteSubordinate};
pub use faults::{AccessInfo, Fault, Predicate};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
pub use settings::{AxiSettings, AxiStats, WriteOrder};

use crate::host::Host;
use crate::wire::MAX_BEAT;
use channel::Watch;
use faults::Plan;
use reads::Reads;
use writes::Writes;

/// Channels, as indices of what stands still in a cycle.
const AW: usize = 0;
const W: usize = 1;
const B: usize = 2;
const AR: usize = 3;
const R: usize = 4;

/// Cycles for which an address waits for its data where data is taken first.
const PATIENCE: u64 = 20_000;

/// What the manager drives in a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manager {
    /// On AW.
    pub aw: Option<Address>,
    /// On W.
    pub w: Option<WriteBeat>,
    /// On AR.
    pub ar: Option<Address>,
    /// BREADY.
    pub b_ready: bool,
    /// RREADY.
    pub r_ready: bool,
}

/// What the subordinate drives in a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// AWREADY.
    pub aw_ready: bool,
    /// WREADY.
    pub w_ready: bool,
    /// ARREADY.
    pub ar_ready: bool,
    /// On B.
    pub b: Option<WriteResponse>,
    /// On R.
    pub r: Option<ReadBeat>,
}

/// What reads and writes need of the model.
struct Around<'a> {
    cycle: u64,
    width: usize,
    settings: &'a AxiSettings,
    host: &'a mut Host,
    plan: &'a mut Plan,
    random: &'a mut SmallRng,
    stats: &'a mut AxiStats,
}

/// A subordinate with its host's memory.
pub struct Subordinate {
    settings: AxiSettings,
    width: usize,
    /// The next cycle that has not begun.
    next: u64,
    random: SmallRng,
    stall_random: SmallRng,
    host: Host,
    writes: Writes,
    reads: Reads,
    plan: Plan,
    offers: Offers,
    aw: Watch<Address>,
    w: Watch<WriteBeat>,
    ar: Watch<Address>,
    stats: AxiStats,
    violation: Option<String>,
}

impl Subordinate {
    /// One with nothing mapped, whose data buses are `width` bytes wide: 8, 16, 32 or 64.
    ///
    /// # Panics
    /// A setting makes no sense, or `width` is another number.
    pub fn new(width: usize, settings: AxiSettings) -> Self {
        settings.check();
        assert!([8, 16, 32, MAX_BEAT].contains(&width), "buses of {width} bytes: not 8, 16, 32 or 64");
        Self {
            width,
            next: 0,
            random: SmallRng::seed_from_u64(settings.seed),
            // Of its own, so that how long a run takes does not change what happens in it.
            stall_random: SmallRng::seed_from_u64(!settings.seed),
            host: Host::new(width, settings.latency),
            writes: Writes::new(),
            reads: Reads::default(),
            plan: Plan::default(),
            offers: Offers::default(),
            aw: Watch::default(),
            w: Watch::default(),
            ar: Watch::default(),
            stats: AxiStats::default(),
            violation: None,
            settings,
        }
    }

    /// What it was made with.
    pub fn settings(&self) -> &AxiSettings {
        &self.settings
    }

    /// Its memory: the map, watching, the log of accesses and the counters.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Its memory.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// What went through it so far.
    pub fn stats(&self) -> AxiStats {
        self.stats
    }

    /// How the card broke a rule, the first time: cycle, channel, rule and clause.
    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// Whether nothing is under way: no channel has begun a handshake, nothing waits for data, response or memory.
    pub fn idle(&self) -> bool {
        let offers = self.aw.waits() || self.w.waits() || self.ar.waits();
        let answers = self.offers.b.is_some() || self.offers.r.is_some();
        !offers && !answers && self.writes.idle() && self.reads.idle()
    }

    /// Whether a read waits for its last beat.
    pub fn reading(&self) -> bool {
        self.ar.waits() || self.offers.r.is_some() || !self.reads.idle()
    }

    /// Lets a predicate decide about each access from now on, or nobody.
    pub fn set_fault_predicate(&mut self, predicate: Option<Predicate>) {
        self.plan.predicate = predicate;
    }

    /// Does that to writes, or to reads, with so much probability from now on, as well as what was asked for before.
    ///
    /// # Panics
    /// `probability` is not from 0 to 1.
    pub fn set_fault_rate(&mut self, write: bool, fault: Fault, probability: f64) {
        assert!((0.0..=1.0).contains(&probability), "{fault:?}: probability {probability}");
        self.plan.rates.retain(|(to, other, _)| (*to, *other) != (write, fault));
        self.plan.rates.push((write, fault, probability));
    }

    /// What it drives in this cycle.
    pub fn offers(&mut self, cycle: u64) -> Offers {
        if cycle < self.next {
            return self.offers;
        }
        self.next = cycle + 1;
        let stalled = self.settings.stalls.map(|stall| stall > 0.0 && self.stall_random.random_bool(stall));
        let (order, seed) = (self.settings.write_order, self.settings.seed);
        let around = &mut Around {
            cycle,
            width: self.width,
            settings: &self.settings,
            host: &mut self.host,
            plan: &mut self.plan,
            random: &mut self.random,
            stats: &mut self.stats,
        };
        self.writes.work(around);
        self.reads.work(around);
        // What is on offer stays until it is taken.
        if self.offers.b.is_none() && !stalled[B] {
            self.offers.b = self.writes.response(around);
        }
        if self.offers.r.is_none() && !stalled[R] {
            self.offers.r = self.reads.beat(around);
        }
        let most_reads = self.settings.most_reads;
        self.offers.aw_ready =
            !stalled[AW] && self.writes.takes_address(self.settings.most_writes, order, seed);
        self.offers.w_ready = !stalled[W] && self.writes.takes_data(order, seed);
        self.offers.ar_ready =
            !stalled[AR] && most_reads.is_none_or(|most| self.reads.under_way() < most.into());
        self.offers
    }

    /// What the manager drives in this cycle: takes what passes, and judges it.
    pub fn take(&mut self, cycle: u64, manager: &Manager) {
        let offers = self.offers(cycle);
        let aw = self.aw.cycle(manager.aw, offers.aw_ready);
        let w = self.w.cycle(manager.w, offers.w_ready);
        let ar = self.ar.cycle(manager.ar, offers.ar_ready);
        let aw = self.judge(cycle, "AW", aw).flatten();
        let w = self.judge(cycle, "W", w).flatten();
        let ar = self.judge(cycle, "AR", ar).flatten();
        if self.aw.waited > PATIENCE && manager.w.is_none() {
            let waited = self.aw.waited;
            self.aw.waited = 0;
            let why = format!("an address waits for {waited} cycles without data: WVALID may not wait for AWREADY (AXI4 A3.3.1)");
            self.judge::<()>(cycle, "W", Err(why));
        }
        if manager.b_ready && self.offers.b.take().is_some() {
            self.stats.responses += 1;
            self.writes.response_taken();
        }
        if manager.r_ready {
            if let Some(beat) = self.offers.r.take() {
                self.stats.read_beats += 1;
                if beat.last {
                    self.reads.beat_taken();
                }
            }
        }
        let around = &mut Around {
            cycle,
            width: self.width,
            settings: &self.settings,
            host: &mut self.host,
            plan: &mut self.plan,
            random: &mut self.random,
            stats: &mut self.stats,
        };
        let (width, ids) = (self.width, self.settings.write_ids);
        let address = aw.map_or(Ok(()), |aw| {
            rules::address(&aw, width, ids).and(self.writes.address(clamped(aw, width), around))
        });
        let data = w.map_or(Ok(()), |w| self.writes.beat(w, around));
        let read = ar.map_or(Ok(()), |ar| {
            self.reads.address(clamped(ar, width), around);
            rules::address(&ar, width, self.settings.read_ids)
        });
        for (channel, judged) in [("AW", address), ("W", data), ("AR", read)] {
            self.judge(cycle, channel, judged);
        }
    }

    /// Judges a manager during its reset (AXI4 A3.1.2).
    pub fn in_reset(&mut self, manager: &Manager) {
        let valids = [("AW", manager.aw.is_some()), ("W", manager.w.is_some()), ("AR", manager.ar.is_some())];
        for (channel, _) in valids.into_iter().filter(|(_, valid)| *valid) {
            self.judge::<()>(0, channel, Err("VALID is high during reset (AXI4 A3.1.2)".into()));
        }
    }

    /// A manager's output that depends on inputs of the same cycle (AXI4 A3.1.1).
    pub fn depends(&mut self, cycle: u64) {
        let why = "an output depends on inputs of the same cycle (AXI4 A3.1.1)";
        self.judge::<()>(cycle, "manager", Err(why.into()));
    }

    /// What was judged, if nothing was wrong.
    fn judge<T>(&mut self, cycle: u64, channel: &str, judged: Result<T, String>) -> Option<T> {
        match judged {
            Ok(what) => Some(what),
            Err(why) => {
                self.stats.violations += 1;
                self.violation.get_or_insert_with(|| format!("cycle {cycle}, {channel}: {why}"));
                None
            }
        }
    }
}

/// What the model makes of an address, lawful or not: increasing addresses in beats that fit the bus.
fn clamped(address: Address, width: usize) -> Address {
    Address { size: address.size.min(width.trailing_zeros() as u8), ..address }
}
