// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Card`]: an engine behind the registers, doorbells and rings of a card.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ferrowire::{BusError, DmaBuffer, DmaMapping, HostMemory, MemoryMap};
use ferrowire_spec::csr::port::{GidEntry, GIDS};
use ferrowire_spec::csr::{
    capabilities, command_queue as queue, congestion, drops, hw_counters, port, timers, traffic, DropReason,
    HwCounter, TrafficCounter,
};
use ferrowire_spec::queue::doorbell;
use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::{Block, QpState, Register};

use super::host::Host;
use super::msix::{Message, Msix};
use super::push::Push;
use super::registers::{Registers, BAR_BYTES};
use super::rings::{CqRing, EqRing, WorkRing};
use super::wqe;
use crate::model::network::Station;
use crate::model::{
    AddressVector, Config, Engine, Event, Instant, RawFilter, SelectiveCounters, Transmitted,
};

/// What only a card counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) commands: u64,
    pub(super) events: u64,
    pub(super) events_lost: u64,
    pub(super) doorbells: u64,
    pub(super) doorbells_ignored: u64,
}

/// Receives of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) enum Receives {
    Own(WorkRing),
    Shared,
}

/// What a card has of a queue pair beside the engine.
#[derive(Debug)]
pub(super) struct QpRings {
    pub(super) service: Service,
    pub(super) page: u16,
    pub(super) signal_all: bool,
    pub(super) sends: WorkRing,
    pub(super) receives: Receives,
    /// Of `SET_AV`, for the next `MODIFY_QP`.
    pub(super) av: Option<AddressVector>,
}

/// A shared receive queue.
#[derive(Debug)]
pub(super) struct SrqRing {
    pub(super) page: u16,
    pub(super) ring: WorkRing,
}

/// Objects, as far as the engine does not have them.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) pds: BTreeSet<u32>,
    pub(super) cqs: BTreeMap<u32, CqRing>,
    pub(super) eqs: BTreeMap<u32, EqRing>,
    /// The event queue of what belongs to no completion queue.
    pub(super) asynchronous: Option<u32>,
    pub(super) srqs: BTreeMap<u32, SrqRing>,
    pub(super) qps: BTreeMap<u32, QpRings>,
    /// Queue pairs with sends that are told of and not read, for their state is before RTS.
    pub(super) waiting: BTreeSet<u32>,
    /// Page table entries by the first of each region: how many, and whose.
    pub(super) pages: BTreeMap<u32, (u32, u32)>,
}

/// A card without hardware: sans-IO, like the engine inside. It acts when something is done to it, at once: a doorbell's WQEs are read, what the engine
/// tells is in host memory, and commands are answered when the register write returns. Of many commands the first ones are, and the others soon after,
/// by [`Station::handle_timeout`].
#[derive(Debug)]
pub struct Card {
    pub(super) engine: Engine,
    pub(super) host: Host,
    pub(super) registers: Registers,
    pub(super) objects: Objects,
    pub(super) counts: Counts,
    push: Push,
    gids: [Option<GidEntry>; GIDS as usize],
    msix: Msix,
    /// When the commands are carried out that are left.
    pub(super) next_commands: Option<Instant>,
    /// The time of the last thing that happened.
    pub(super) now: Instant,
}

const fn at(block: &Block, register: &Register) -> u32 {
    block.address(register)
}

impl Card {
    /// A card as after power-on, with that MAC address, a 48-bit number.
    pub fn new(mac: u64) -> Self {
        let mut registers = Registers::new();
        registers.put(&port::BLOCK, &port::MAC_LO, "value", mac as u32);
        registers.put(&port::BLOCK, &port::MAC_HI, "value", (mac >> 32) as u32);
        // It has no address but those of its table, which is empty.
        let config = Config { selective: true, ..Config::new(mac, IpAddr::from([0; 4])) };
        let mut engine = Engine::new(config);
        engine.set_gids(Vec::new());
        Self {
            engine,
            host: Host::default(),
            registers,
            objects: Objects::default(),
            counts: Counts::default(),
            push: Push::default(),
            gids: [None; GIDS as usize],
            msix: Msix::new(),
            next_commands: None,
            now: 0,
        }
    }

    /// Leaves out selective retransmission, which the hardware does not have yet. For a card that no program has used.
    pub fn leave_out_selective(&mut self) {
        self.registers.put(&capabilities::BLOCK, &capabilities::FEATURES, "selective", 0);
        self.engine = Engine::new(Config { selective: false, ..*self.engine.config() });
        self.engine.set_gids(Vec::new());
    }

    /// What selective retransmission did. The registers do not have these counters yet.
    pub fn selective_counters(&self) -> SelectiveCounters {
        self.engine.counters().selective()
    }

    /// The card as after power-on. What its host has mapped stays mapped, and so do the counts of accesses that were refused.
    pub fn power_on(&mut self, mac: u64) {
        let (host, now) = (self.host.clone(), self.now);
        let up = self.registers.get(&port::BLOCK, &port::LINK, "up");
        let selective = self.engine.config().selective;
        *self = Self { host, now, ..Self::new(mac) };
        if !selective {
            self.leave_out_selective();
        }
        self.registers.put(&port::BLOCK, &port::LINK, "up", up);
    }

    /// Tells it the time, for what is done to it next.
    pub fn set_now(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.engine.set_now(self.now);
        self.msix.set_now(self.now);
    }

    /// Whether its link is up from now on: it tells of a change. Frames are not its business.
    pub fn set_link(&mut self, up: bool) {
        if self.registers.get(&port::BLOCK, &port::LINK, "up") == u32::from(up) {
            return;
        }
        self.registers.put(&port::BLOCK, &port::LINK, "up", up.into());
        let kind = if up { EventKind::PortUp } else { EventKind::PortDown };
        self.tell_of(Event { kind, object: 0, cause: 0 });
        self.raise_interrupts();
    }

    /// What the configuration space says of interrupts: whether MSI-X is enabled, and whether all vectors are masked. Without one it is not enabled.
    pub fn set_interrupts(&mut self, enabled: bool, masked: bool) {
        self.msix.set_function(enabled, masked);
    }

    /// The next interrupt, as a message to the host.
    pub fn interrupt(&mut self) -> Option<Message> {
        self.msix.take()
    }

    /// Builds the next frame; one to the card itself comes back to it before this returns.
    pub fn transmit_one(&mut self, now: Instant) -> Transmitted {
        self.set_now(now);
        let done = self.engine.transmit_one(now);
        self.tell();
        done
    }

    /// Raises a vector, as an event queue does.
    #[cfg(test)]
    pub fn raise(&mut self, vector: u8) {
        self.msix.raise(vector);
    }

    /// Does something with what its host has mapped.
    pub fn with_memory<T>(&self, f: impl FnOnce(&mut MemoryMap) -> T) -> T {
        self.host.with_map(f)
    }

    /// Reads a register.
    ///
    /// # Errors
    /// The address is not in BAR 0, or not aligned.
    pub fn read32(&self, offset: u32) -> Result<u32, BusError> {
        if offset >= BAR_BYTES || offset % 4 != 0 {
            return Err(BusError::BadOffset { offset });
        }
        if Msix::covers(offset) {
            return Ok(self.msix.read(offset));
        }
        Ok(self.counter(offset).unwrap_or_else(|| self.registers.read(offset)))
    }

    /// Writes a register, and does what that asks for.
    ///
    /// # Errors
    /// As [`Card::read32`].
    pub fn write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        if offset >= BAR_BYTES || offset % 4 != 0 {
            return Err(BusError::BadOffset { offset });
        }
        if offset >= doorbell::BASE {
            // Doorbells have 64 bits.
            self.counts.doorbells_ignored += 1;
            return Ok(());
        }
        match Msix::covers(offset) {
            true => self.msix.write(offset, value),
            false => self.write_register(offset, value),
        }
        Ok(())
    }

    /// Writes 64 bits: a doorbell, a word of a pushed WQE, or two registers.
    ///
    /// # Errors
    /// As [`Card::read32`].
    pub fn write64(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
        if offset >= BAR_BYTES || offset % 8 != 0 {
            return Err(BusError::BadOffset { offset });
        }
        let Some(within) = offset.checked_sub(doorbell::BASE) else {
            self.write32(offset, value as u32)?;
            return self.write32(offset + 4, (value >> 32) as u32);
        };
        let (page, place) = ((within / doorbell::PAGE_BYTES) as u16, within % doorbell::PAGE_BYTES);
        if u32::from(page) < super::limits::DOORBELL_PAGES && self.push.word(page, place, value) {
            return Ok(());
        }
        match self.ring(page, place, value.to_le_bytes()) {
            true => self.counts.doorbells += 1,
            false => self.counts.doorbells_ignored += 1,
        }
        self.tell();
        Ok(())
    }

    /// A WQE that was pushed to a place, if it is there.
    pub(super) fn pushed(&self, page: u16, slot: u8) -> Option<Vec<u8>> {
        self.push.wqe(page, slot)
    }

    /// For [`ferrowire::Bus::dma_alloc`].
    ///
    /// # Errors
    /// There is no such memory.
    pub fn dma_alloc(&self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        self.host.alloc(bytes, align)
    }

    /// For [`ferrowire::Bus::dma_free`].
    ///
    /// # Errors
    /// The buffer is not of this card.
    pub fn dma_free(&self, buffer: &DmaBuffer) -> Result<(), BusError> {
        self.host.free(buffer)
    }

    /// For [`ferrowire::Bus::dma_map`].
    ///
    /// # Errors
    /// No address is left.
    pub fn dma_map(&self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        self.host.map(memory, page_shift)
    }

    /// For [`ferrowire::Bus::dma_unmap`].
    ///
    /// # Errors
    /// There is no such mapping.
    pub fn dma_unmap(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        self.host.unmap(mapping)
    }

    /// Takes away a page that a program has mapped, by the address in this process of its first byte there: so a test has memory that does not
    /// answer. Whether it was mapped.
    pub fn forget_page(&self, address: u64) -> bool {
        self.host.forget_page(address)
    }

    /// Pieces of memory that are mapped for it.
    pub fn mapped(&self) -> usize {
        self.host.mapped()
    }

    /// Accesses to host memory that was not mapped: none of them took place.
    pub fn refused(&self) -> u64 {
        let (reads, writes) = self.refusals();
        reads + writes
    }

    /// The same, reads and writes apart.
    pub fn refusals(&self) -> (u64, u64) {
        self.host.refusals()
    }

    /// The engine inside, to be looked at.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn counter(&self, address: u32) -> Option<u32> {
        let place = |block: &Block| {
            let offset = address.checked_sub(block.base).filter(|offset| *offset < block.bytes)?;
            Some((u8::try_from(offset / 8).ok()?, offset % 8 != 0))
        };
        let counters = self.engine.counters();
        let (value, high) = if let Some((code, high)) = place(&traffic::BLOCK) {
            (TrafficCounter::from_code(code).map(|counter| self.traffic(counter)), high)
        } else if let Some((code, high)) = place(&drops::BLOCK) {
            (DropReason::from_code(code).map(|reason| counters.drops(reason)), high)
        } else {
            let (code, high) = place(&hw_counters::BLOCK)?;
            (HwCounter::from_code(code).map(|counter| counters.hw(counter)), high)
        };
        let value = value.unwrap_or(0);
        Some(if high { (value >> 32) as u32 } else { value as u32 })
    }

    /// A counter of frames, bytes and what lies between host and card. What is about PCIe, AXI and pauses stays zero: there are none.
    fn traffic(&self, counter: TrafficCounter) -> u64 {
        match counter {
            TrafficCounter::Commands => self.counts.commands,
            TrafficCounter::Events => self.counts.events,
            TrafficCounter::EventsLost => self.counts.events_lost,
            TrafficCounter::Doorbells => self.counts.doorbells,
            TrafficCounter::DoorbellsIgnored => self.counts.doorbells_ignored,
            other => self.engine.counters().traffic(other),
        }
    }

    fn write_register(&mut self, offset: u32, value: u32) {
        const CMDQ: [u32; 6] = [
            at(&queue::BLOCK, &queue::CMDQ_BASE_LO),
            at(&queue::BLOCK, &queue::CMDQ_BASE_HI),
            at(&queue::BLOCK, &queue::CMDQ_LOG2),
            at(&queue::BLOCK, &queue::COMPL_BASE_LO),
            at(&queue::BLOCK, &queue::COMPL_BASE_HI),
            at(&queue::BLOCK, &queue::COMPL_LOG2),
        ];
        let producer = at(&queue::BLOCK, &queue::CMDQ_PRODUCER);
        let enabled = self.is_enabled();
        // The place of the rings stays while they are in use; without them there is nothing to be told of.
        if enabled && CMDQ.contains(&offset) || !enabled && offset == producer {
            return;
        }
        if offset == at(&queue::BLOCK, &queue::CONTROL) {
            return self.control(value);
        }
        if !self.registers.write(offset, value) {
            return;
        }
        if offset == producer {
            // Not in the pause after others: a program that writes the register in a loop gets no more done.
            if self.next_commands.is_none() {
                self.take_commands();
            }
            self.tell();
        } else if offset == at(&port::BLOCK, &port::GID_WRITE) {
            self.write_gid();
        } else {
            self.configure();
        }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.registers.get(&queue::BLOCK, &queue::CONTROL, "enable") == 1
    }

    fn control(&mut self, value: u32) {
        let bit = |name| queue::CONTROL.field(name).is_some_and(|field| value >> field.offset & 1 == 1);
        if bit("reset") {
            return self.reset();
        }
        if bit("enable") != self.is_enabled() {
            self.begin_rings();
        }
        self.registers.put(&queue::BLOCK, &queue::CONTROL, "enable", bit("enable").into());
    }

    /// Both rings begin at entry 0.
    fn begin_rings(&mut self) {
        self.next_commands = None;
        for register in [&queue::CMDQ_PRODUCER, &queue::CMDQ_CONSUMER] {
            self.registers.put(&queue::BLOCK, register, "value", 0);
        }
    }

    /// Forgets all objects, the port's IP addresses and what was counted. The MAC address stays, and so do the time base and what else the registers say.
    fn reset(&mut self) {
        self.begin_rings();
        self.registers.put(&queue::BLOCK, &queue::CONTROL, "enable", 0);
        self.registers.put(&queue::BLOCK, &queue::STATUS, "fatal", 0);
        self.registers.put(&port::BLOCK, &port::LINK, "promiscuous", 0);
        for register in [&port::RAW, &port::RAW_HASH_LO, &port::RAW_HASH_HI, &port::GID_SALT] {
            self.registers.restore(&port::BLOCK, register);
        }
        self.engine = Engine::new(*self.engine.config());
        self.gids = [None; GIDS as usize];
        self.counts = Counts::default();
        self.push = Push::default();
        self.objects = Objects::default();
        self.msix.forget();
        self.set_gids();
        self.configure();
    }

    /// `RESET_ALL`: forgets all objects, and nothing else.
    pub(super) fn reclaim(&mut self) {
        self.engine.clear();
        self.objects = Objects::default();
    }

    /// Puts an entry into the table of GIDs, or takes it out. It is found by its address here, so its slot says nothing.
    fn write_gid(&mut self) {
        let get = |register, name| self.registers.get(&port::BLOCK, register, name);
        let words = [&port::GID_IP3, &port::GID_IP2, &port::GID_IP1, &port::GID_IP0];
        let ip = words.iter().fold(0, |all: u128, word| all << 32 | u128::from(get(word, "value")));
        let tagged = get(&port::GID_KIND, "tagged") == 1;
        let entry = GidEntry {
            ip,
            ipv6: get(&port::GID_KIND, "ipv6") == 1,
            vid: tagged.then(|| get(&port::GID_KIND, "vid") as u16),
        };
        let index = get(&port::GID_WRITE, "index") as usize;
        let valid = get(&port::GID_WRITE, "valid") == 1;
        if let Some(place) = self.gids.get_mut(index) {
            *place = valid.then_some(entry);
        }
        self.set_gids();
    }

    fn set_gids(&mut self) {
        let all = self.gids.iter().flatten();
        self.engine.set_gids(all.map(|gid| (address(gid.ip, gid.ipv6), gid.vid)).collect());
    }

    /// Tells the engine what the registers say. Of congestion control it takes when it tells and up to which rate it sends; it reacts with the parameters
    /// that DCQCN was published with, whatever the others say. Flow control has no meaning on its wire, which nobody pauses.
    fn configure(&mut self) {
        let get = |block, register, name| self.registers.get(block, register, name);
        let mac = self.registers.pair(&port::BLOCK, &port::MAC_LO, &port::MAC_HI);
        let raw = |name| get(&port::BLOCK, &port::RAW, name) == 1;
        let filter = RawFilter {
            unicast: raw("unicast"),
            broadcast: raw("broadcast"),
            multicast: raw("multicast"),
            groups: self.registers.pair(&port::BLOCK, &port::RAW_HASH_LO, &port::RAW_HASH_HI),
            promiscuous: get(&port::BLOCK, &port::LINK, "promiscuous") == 1,
        };
        let raw_roce = raw("roce");
        let interval = get(&congestion::BLOCK, &congestion::NOTIFY, "interval_us");
        let line = get(&congestion::BLOCK, &congestion::LINE_RATE, "mbps");
        // A cycle is a nanosecond.
        let tick = get(&timers::BLOCK, &timers::TICK, "cycles");
        let before = *self.engine.config();
        let config = Config {
            mac,
            cnp_interval: Instant::from(interval) * 1000,
            line_rate: (line > 0).then(|| u64::from(line) * 1_000_000),
            tick: if tick == 0 { Config::new(mac, before.ip).tick } else { tick.into() },
            ..before
        };
        *self.engine.config_mut() = config;
        self.engine.set_raw_filter(filter);
        self.engine.set_raw_roce(raw_roce);
    }

    /// Gives the engine the sends that a queue pair has been told of, as far as its state takes them: `pushed` in place of what stands in the ring.
    pub(super) fn read_sends(&mut self, qpn: u32, mut pushed: Option<Vec<u8>>) {
        let Some(rings) = self.objects.qps.get_mut(&qpn) else { return };
        let takes = |state| !matches!(state, QpState::Reset | QpState::Init | QpState::Rtr);
        if !self.engine.state(qpn).is_some_and(takes) {
            if rings.sends.waiting() > 0 {
                self.objects.waiting.insert(qpn);
            }
            return;
        }
        self.objects.waiting.remove(&qpn);
        while let Some((index, wqe)) = rings.sends.next(&self.host) {
            let wqe = pushed.take().or(wqe);
            let wr = wqe::send(index, wqe.as_deref(), rings.service, rings.signal_all);
            // There is room for as many as the ring has.
            if self.engine.post_send(qpn, wr).is_err() {
                break;
            }
        }
    }

    /// Brings to host memory what the engine has to tell: completions, and events behind them.
    pub(super) fn tell(&mut self) {
        loop {
            while let Some(cqn) = self.engine.poll_ready() {
                while let Some(done) = self.engine.take_completion(cqn) {
                    if let Some(ring) = self.objects.cqs.get_mut(&cqn) {
                        ring.write(&self.host, &done);
                    }
                }
            }
            while let Some(event) = self.engine.poll_event() {
                self.tell_of(event);
            }
            // What was told before a queue pair was up is flushed when it fails by itself.
            let in_error = |qpn: &&u32| self.engine.state(**qpn) == Some(QpState::Err);
            let Some(qpn) = self.objects.waiting.iter().find(in_error).copied() else { break };
            self.read_sends(qpn, None);
        }
        self.raise_interrupts();
    }

    /// Raises the interrupts of event queues that are due: their entries are in host memory.
    fn raise_interrupts(&mut self) {
        for eq in self.objects.eqs.values_mut() {
            if let Some(vector) = eq.interrupt(self.now) {
                self.msix.raise(vector);
            }
        }
    }

    /// Writes an event into the queue where it belongs.
    pub(super) fn tell_of(&mut self, event: Event) {
        let of_cq = matches!(event.kind, EventKind::Completion | EventKind::CqOverrun);
        // The overrun of a completion queue is told once, and not of its queue pairs as well.
        if event.kind == EventKind::QpFatal && event.cause == 0 {
            return;
        }
        let own = self.objects.cqs.get(&event.object).filter(|_| of_cq).map_or(0, |cq| cq.eqn);
        let eqn = if own != 0 { Some(own.into()) } else { self.objects.asynchronous };
        let Some(ring) = eqn.and_then(|eqn| self.objects.eqs.get_mut(&eqn)) else { return };
        if !ring.tell(&self.host, event, of_cq, &mut self.counts.events) {
            self.counts.events_lost += 1;
        }
    }
}

/// An address as the tables have it: IPv4 in the low 32 bits.
pub(super) fn address(ip: u128, ipv6: bool) -> IpAddr {
    match ipv6 {
        true => IpAddr::from(ip.to_be_bytes()),
        false => IpAddr::from((ip as u32).to_be_bytes()),
    }
}

impl Station for Card {
    fn mac(&self) -> u64 {
        self.engine.config().mac
    }

    fn handle_frame(&mut self, now: Instant, bytes: &[u8]) {
        self.set_now(now);
        self.engine.handle_frame(now, bytes);
        self.tell();
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.set_now(now);
        let frame = self.engine.poll_transmit(now);
        self.tell();
        frame
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let interrupts = self.objects.eqs.values().filter_map(EqRing::deadline).min();
        self.engine.poll_timeout().into_iter().chain(interrupts).chain(self.next_commands).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.set_now(now);
        self.engine.handle_timeout(now);
        if self.next_commands.is_some_and(|due| due <= now) {
            self.take_commands();
        }
        self.tell();
    }
}
