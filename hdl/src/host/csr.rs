// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers and counters: the target side of BAR 0.
//!
//! ```text
//!             +---------> register read ----------+
//!  request ---+---------> counter memory ---------+--> response
//!             |              ^ one slot a cycle
//!             |     sweep: memory + pending events
//!             |              ^
//!             |    events ---+   (a few bits each)
//!             +---------> doorbell page ---> FIFO ---> doorbells
//! ```
//!
//! A request takes 2 cycles, a read until its response is taken; the response comes 2 cycles after the request.
//! A narrow access (`wide` low) is 32 bits in `data[31:0]`; a wide one is 64 bits, two registers, the lower address in
//! the low word. A wide write of a doorbell page becomes a [`RawDoorbell`].
//!
//! A counter is 64 bits in a memory and a small count of events that are still to be added; a sweep visits each slot
//! within 192 cycles. So a counter lags by that much and the cycle of the addition, two where there is time, and no event
//! is lost. The first sweep after reset clears the
//! memory; requests wait for it.
//!
//! Bad input: reads of an address without a register, and of doorbell pages, give zero; writes there are ignored;
//! doorbells that are not 64 bits wide and aligned, or past the last page, are counted as ignored. The command queue's
//! place cannot be written while it is enabled. Doorbells are ignored while the card is being reset by its host; all else goes on meanwhile. A request waits only for the doorbell FIFO, whose taker does not wait
//! for the host.

use super::axi::faults::WriteFault;
use super::{pds, CommandControl, CommandProgress, RawDoorbell, MAX_CQ_LOG2, MAX_RD_ATOMIC};
use crate::config::RnicConfig;
use crate::context::congestion::CongestionControl;
use crate::rx::address::{Addresses, GidKey, GidWrite, RawFilter};
use crate::stream::fifo;
use crate::tx::pause::FlowControl;
use ferrowire_rtl::{
    bits, cat, clog2, lit, module, Bundle, Collision, Fsm, Interface, Scope, Sig, Stream, Style,
};
use ferrowire_spec::csr::{
    capabilities, command_queue, congestion, flow_control, host_memory, hw_counters, identity, port, timers,
    traffic,
};
use ferrowire_spec::csr::{DropReason, HwCounter, TrafficCounter};
use ferrowire_spec::queue::doorbell;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::{Block, Register, LAYOUT_HASH};
use std::collections::BTreeMap;

/// An access to BAR 0.
#[derive(Clone, Bundle)]
pub struct CsrRequest {
    /// Byte address.
    pub address: Sig,
    /// A write.
    pub write: Sig,
    /// 8 bytes rather than 4.
    pub wide: Sig,
    /// What is written, in the low bits.
    pub data: Sig,
}

impl CsrRequest {
    /// The shape.
    pub fn of() -> Self {
        CsrRequest { address: bits(24), write: bits(1), wide: bits(1), data: bits(64) }
    }
}

/// The answer to a read.
#[derive(Clone, Bundle)]
pub struct CsrResponse {
    /// What was read; a narrow read in the low half.
    pub data: Sig,
}

impl CsrResponse {
    /// The shape.
    pub fn of() -> Self {
        CsrResponse { data: bits(64) }
    }
}

/// A packet that was dropped.
#[derive(Clone, Bundle)]
pub struct DropEvent {
    /// In this cycle.
    pub pulse: Sig,
    /// Why, as `DropReason`.
    pub code: Sig,
}

impl DropEvent {
    /// The shape.
    pub fn of() -> Self {
        DropEvent { pulse: bits(1), code: bits(5) }
    }
}

/// What is counted. An amount is added in each cycle: a pulse of 1 bit, or a number of up to 12. A counter that nobody
/// feeds reads zero.
#[derive(Interface)]
pub struct Events {
    /// Sources of drops.
    pub drops: Vec<DropEvent>,
    /// By code of `TrafficCounter`.
    pub traffic: Vec<Option<Sig>>,
    /// By code of `HwCounter`.
    pub hw: Vec<Option<Sig>>,
}

impl Default for Events {
    fn default() -> Self {
        Events {
            drops: Vec::new(),
            traffic: vec![None; TrafficCounter::ALL.len()],
            hw: vec![None; HwCounter::ALL.len()],
        }
    }
}

impl Events {
    /// Feeds a counter of frames or bytes.
    pub fn traffic(mut self, counter: TrafficCounter, amount: Sig) -> Self {
        self.traffic[usize::from(counter.code())] = Some(amount);
        self
    }

    /// Feeds a counter of the transport.
    pub fn hw(mut self, counter: HwCounter, amount: Sig) -> Self {
        self.hw[usize::from(counter.code())] = Some(amount);
        self
    }

    /// Adds a source of drops.
    pub fn drops(mut self, event: DropEvent) -> Self {
        self.drops.push(event);
        self
    }
}

/// State of the link, from the MAC.
#[derive(Clone, Bundle)]
pub struct Link {
    /// The link is up.
    pub up: Sig,
    /// In units of 100 Mb/s.
    pub speed: Sig,
}

impl Link {
    /// That of a MAC with one speed.
    pub fn at(up: Sig, speed: u32) -> Self {
        Link { up, speed: up.then(lit(16, speed), lit(16, 0)) }
    }

    /// The shape.
    pub fn of() -> Self {
        Link { up: bits(1), speed: bits(16) }
    }
}

/// What AMD's 100 Gb/s Ethernet block says of its link, in the core's clock.
#[derive(Clone, Bundle)]
pub struct MacStatus {
    /// The receiver is aligned.
    pub aligned: Sig,
    /// It has no signal that it can use, or the peer says so of its own.
    pub local_fault: Sig,
    /// The peer does not hear this end.
    pub remote_fault: Sig,
    /// Too many bit errors.
    pub high_ber: Sig,
    /// The receiver is in reset.
    pub rx_reset: Sig,
    /// The transmitter is in reset.
    pub tx_reset: Sig,
    /// Code words of RS-FEC that were corrected.
    pub fec_corrected: Sig,
    /// And those that could not be.
    pub fec_uncorrected: Sig,
}

impl MacStatus {
    /// The shape.
    pub fn of() -> Self {
        MacStatus {
            aligned: bits(1),
            local_fault: bits(1),
            remote_fault: bits(1),
            high_ber: bits(1),
            rx_reset: bits(1),
            tx_reset: bits(1),
            fec_corrected: bits(32),
            fec_uncorrected: bits(32),
        }
    }
}

/// What AMD's blocks say of their links.
#[derive(Clone, Bundle)]
pub struct Phy {
    /// `cfg_ltssm_state` of the PCIe block.
    pub ltssm: Sig,
    /// Of the Ethernet block.
    pub mac: MacStatus,
}

impl Phy {
    /// The shape.
    pub fn of() -> Self {
        Phy { ltssm: bits(6), mac: MacStatus::of() }
    }
}

/// What leaves the registers.
#[derive(Interface)]
pub struct Csr {
    /// Answers to reads, in order.
    pub response: Stream<CsrResponse>,
    /// Writes into doorbell pages.
    pub doorbells: Stream<RawDoorbell>,
    /// For the command processor.
    pub commands: CommandControl,
    /// The card is to be reset.
    pub reset: Sig,
    /// For the port.
    pub port: Addresses,
    /// Pulses once in a unit of the transport's timers.
    pub tick: Sig,
    /// For congestion control.
    pub congestion: CongestionControl,
    /// For flow control.
    pub flow: FlowControl,
    /// The raw Ethernet queue pair may send RoCE.
    pub raw_roce: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    Idle,
    /// The request is carried out.
    Act,
    /// The response is on offer.
    Respond,
}

/// Counter slots of 8 bytes between the first counter block and the end of the last.
const SLOTS: u32 = 128;
/// Longest time between two visits of a slot: reads take every third cycle at most.
const SWEEP: u64 = 192;
const COUNTERS: u32 = traffic::BLOCK.base;
const _: () = assert!(hw_counters::BLOCK.base + hw_counters::BLOCK.bytes == COUNTERS + 8 * SLOTS);
const _: () = assert!(COUNTERS % (8 * SLOTS) == 0);

/// The value of a register: fields by name, others as after reset.
fn word(register: &Register, values: &[(&str, Sig)]) -> Sig {
    let mut parts = Vec::new();
    let mut at = 0;
    for field in register.fields {
        let (offset, width) = (u32::from(field.offset), u32::from(field.width));
        if offset > at {
            parts.push(lit(offset - at, 0));
        }
        let given = values.iter().find(|(name, _)| *name == field.name);
        parts.push(given.map_or_else(|| lit(width, field.reset), |(_, value)| lit(width, *value)));
        at = offset + width;
    }
    if at < 32 {
        parts.push(lit(32 - at, 0));
    }
    for (name, _) in values {
        assert!(register.field(name).is_some(), "`{}` has no field `{name}`", register.name);
    }
    cat(&parts)
}

/// Registers by address.
#[derive(Default)]
struct Map(BTreeMap<u32, Sig>);

impl Map {
    fn add(&mut self, block: &Block, register: &Register, values: &[(&str, Sig)]) {
        let before = self.0.insert(block.address(register), word(register, values));
        assert!(before.is_none(), "`{}` is mapped twice", register.name);
    }

    fn constant(&mut self, block: &Block, register: &Register, values: &[(&str, u32)]) {
        let values: Vec<(&str, Sig)> = values
            .iter()
            .map(|(name, value)| {
                let field = register.field(name).expect("a field of the register");
                (*name, lit(u32::from(field.width), *value))
            })
            .collect();
        self.add(block, register, &values);
    }

    fn identity(&mut self, cfg: &RnicConfig) {
        use identity::*;
        self.constant(&BLOCK, &MAGIC, &[]);
        self.constant(&BLOCK, &VERSION, &[]);
        self.constant(&BLOCK, &LAYOUT_HASH_LO, &[("value", LAYOUT_HASH as u32)]);
        self.constant(&BLOCK, &LAYOUT_HASH_HI, &[("value", (LAYOUT_HASH >> 32) as u32)]);
        self.constant(&BLOCK, &BEAT_BYTES, &[("value", cfg.beat_bytes)]);
        self.constant(&BLOCK, &CLOCK_KHZ, &[("value", cfg.clock_khz)]);
    }

    fn capabilities(&mut self, cfg: &RnicConfig) {
        use capabilities::*;
        let mut count = |register, value| self.constant(&BLOCK, register, &[("value", value)]);
        count(&MAX_QP, cfg.qps);
        count(&MAX_CQ, cfg.cqs);
        count(&MAX_MR, cfg.keys);
        count(&MTT_ENTRIES, cfg.page_entries);
        count(&MAX_SRQ, cfg.srqs);
        count(&MAX_AH, if cfg.ud { cfg.ahs } else { 0 });
        count(&MAX_PD, pds(cfg));
        count(&MAX_EQ, cfg.eqs);
        count(&MAX_GID, port::GIDS);
        count(&DOORBELL_PAGES, cfg.doorbell_pages);
        self.constant(&BLOCK, &MAX_MTU, &[]);
        self.constant(&BLOCK, &PAGE_SHIFTS, &[]);
        self.constant(&BLOCK, &LOG_LIMITS, &[("max_cq_log2", MAX_CQ_LOG2)]);
        self.constant(&BLOCK, &WQE_LIMITS, &[("max_send_sge", 16), ("max_inline", 256)]);
        let reads = [("max_rd_atomic", MAX_RD_ATOMIC), ("max_dest_rd_atomic", MAX_RD_ATOMIC)];
        self.constant(&BLOCK, &READ_LIMITS, &reads);
        let has = |service| u32::from(cfg.serves(service));
        let services = [
            ("rc", has(Service::Rc)),
            ("uc", has(Service::Uc)),
            ("ud", has(Service::Ud)),
            ("raw_ethernet", has(Service::Raw)),
            ("atomics", cfg.atomics.into()),
            ("memory_windows", cfg.memory_windows.into()),
            ("srq", cfg.has_srqs().into()),
            ("congestion", cfg.congestion.into()),
            ("ipv6", cfg.ipv6.into()),
            ("vlan", cfg.vlan.into()),
            ("neighbour_responder", cfg.neighbour_responder.into()),
            ("wqe_push", (cfg.push_slots > 0).into()),
            ("loopback", cfg.loopback.into()),
            ("selective", cfg.selective.into()),
        ];
        self.constant(&BLOCK, &FEATURES, &services);
    }

    /// What a read of the 8 bytes at `address` gives.
    fn read(&self, address: Sig) -> Sig {
        let mut pairs: BTreeMap<u32, [Option<Sig>; 2]> = BTreeMap::new();
        for (at, value) in &self.0 {
            pairs.entry(at >> 3).or_default()[(at >> 2 & 1) as usize] = Some(*value);
        }
        let row = address.slice(3, address.width() - 3);
        pairs.iter().fold(lit(64, 0), |data, (at, halves)| {
            let pair = cat(&halves.map(|half| half.unwrap_or_else(|| lit(32, 0))));
            data | (pair & row.eq(*at).repeat(64))
        })
    }
}

/// All counters, 8 bytes a slot: what is added to each in a cycle.
fn amounts(events: &Events, ignored: Sig) -> BTreeMap<u32, Sig> {
    let slot = |address: u32| (address - COUNTERS) / 8;
    let mut amounts = BTreeMap::new();
    if !events.drops.is_empty() {
        let width = clog2(events.drops.len() as u64 + 1);
        for reason in DropReason::ALL {
            let hits = events.drops.iter().map(|d| (d.pulse & d.code.eq(reason.code())).zext(width));
            amounts.insert(slot(reason.address()), hits.fold(lit(width, 0), |sum, hit| sum + hit));
        }
    }
    for (counter, amount) in TrafficCounter::ALL.iter().zip(&events.traffic) {
        if let Some(amount) = amount {
            amounts.insert(slot(counter.address()), *amount);
        }
    }
    for (counter, amount) in HwCounter::ALL.iter().zip(&events.hw) {
        if let Some(amount) = amount {
            amounts.insert(slot(counter.address()), *amount);
        }
    }
    let ignored_slot = slot(TrafficCounter::DoorbellsIgnored.address());
    let here = match amounts.get(&ignored_slot) {
        Some(amount) => amount.zext(amount.width() + 1) + ignored.zext(amount.width() + 1),
        None => ignored,
    };
    amounts.insert(ignored_slot, here);
    amounts
}

/// The counter memory: gives the counter at `slot` one cycle after `read`, and whether it may be asked already. What is
/// added and what it is added to are chosen a cycle before the addition.
fn counters(m: &Scope, amounts: &BTreeMap<u32, Sig>, read: Sig, slot: Sig) -> (Sig, Sig) {
    let swept = m.reg("swept", 1).reset(0);
    let turn = m.reg("turn", clog2(u64::from(SLOTS))).reset(0);
    let adding = m.reg("adding", 1).reset(0);
    let adding_slot = m.delay("adding_slot", &turn);
    m.set(&adding, !read);
    m.when(!read, |m| m.set(&turn, turn + 1));

    let mut table = vec![lit(32, 0); SLOTS as usize];
    for (at, amount) in amounts {
        assert!(amount.width() <= 12, "a counter's amount of {} bits", amount.width());
        let width = clog2(SWEEP * ((1 << amount.width()) - 1) + 1);
        let pending = m.reg(&format!("pending{at}"), width).reset(0);
        let here = adding & adding_slot.eq(*at);
        let kept = here.then(lit(width, 0), pending);
        m.set(&pending, kept + amount.zext(width));
        table[*at as usize] = pending.zext(32);
    }
    let store = m.mem("counters", SLOTS, &bits(64)).style(Style::Block).build();
    let sum = m.wire("sum", 64);
    let (writes, written) = (m.delay("writes", &adding), m.delay("written", &adding_slot));
    store.write(writes, written, &sum);
    m.when(writes & written.all(), |m| m.set(&swept, 1));
    let value = store.read(m, lit(1, 1), read.then(slot, turn), Collision::New);
    let amount = m.delay("amount", &m.select(adding_slot, &table));
    m.drive(&sum, swept.then(m.delay("before", &value), lit(64, 0)) + amount.zext(64));
    (value, swept)
}

/// What a reset does with the registers.
#[derive(Clone, Bundle)]
pub struct CsrReset {
    /// A pulse: the reset that was asked for is done.
    pub done: Sig,
    /// The card is being reset, or taken back from its process: doorbells are ignored.
    pub under_way: Sig,
    /// A pulse: what the host has set is as after power-on.
    pub wipe: Sig,
}

impl CsrReset {
    /// The shape.
    pub fn of() -> Self {
        CsrReset { done: bits(1), under_way: bits(1), wipe: bits(1) }
    }
}

/// Registers, counters and the doorbell pages. `paused`: the priorities that stand still; `fault`: the first write that failed, on buses that report it.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn csr(
    m: &Scope,
    cfg: &RnicConfig,
    request: Stream<CsrRequest>,
    progress: CommandProgress,
    resets: CsrReset,
    link: Link,
    phy: Option<Phy>,
    paused: Sig,
    fault: Option<WriteFault>,
    events: Events,
) -> Csr {
    let state = m.fsm("state", State::Idle);
    let held = m.reg_of("held", &request.payload);
    let act = state.is(State::Act);
    let ignored = m.wire("ignored", 1);
    let slot = request.address.slice(3, clog2(u64::from(SLOTS)));
    let (counter, swept) = counters(m, &amounts(&events, ignored), request.fire(), slot);
    request.accept(state.is(State::Idle) & swept);

    // Writes.
    let writes = act & held.write;
    let field = |block: &Block, register: &Register, name: &str, open: Sig| {
        let address = block.address(register);
        let field = register.field(name).expect("a field of the register");
        let label = match register.fields {
            [_] => register.name.to_string(),
            _ => format!("{}_{name}", register.name),
        };
        let reg = m.reg(&label, field.width.into()).reset(field.reset);
        let high = lit(1, address >> 2 & 1);
        let hit =
            writes & held.address.slice(3, 21).eq(address >> 3) & (held.wide | held.address.bit(2).eq(high));
        let upper = held.wide & high;
        let data = upper.then(held.data.slice(32, 32), held.data.trunc(32));
        m.when(hit & open, |m| m.set(&reg, data.slice(field.offset.into(), field.width.into())));
        m.when(resets.wipe, |m| m.set(&reg, lit(field.width.into(), field.reset)));
        (reg, hit.named(&format!("{}_hit", register.name)), data)
    };
    let always = lit(1, 1);
    use command_queue as queue;
    let (control, control_hit, control_data) = field(&queue::BLOCK, &queue::CONTROL, "enable", always);
    let enable = control;
    let reset = m.reg("reset", 1).reset(0);
    let reset_bit = queue::CONTROL.field("reset").expect("a field of the register").offset;
    m.when(resets.done, |m| m.set(&reset, 0));
    m.when(control_hit & control_data.bit(reset_bit.into()), |m| {
        m.set(&reset, 1);
        m.set(&enable, 0);
    });
    // The table of GIDs is emptied meanwhile; a reset shows until that is done, too.
    let emptied = m.reg("emptied", clog2(u64::from(port::GID_SLOTS)) + 1).reset(0);
    let emptying = (!emptied.all()).named("emptying");
    let empties = (reset | resets.wipe).named("empties");
    m.when(empties, |m| m.set(&emptied, 0)).otherwise_when(emptying, |m| m.set(&emptied, emptied + 1));
    let set_up = |register: &Register| field(&queue::BLOCK, register, "value", !enable).0;
    // Of an address that the bus does not have, these keep what it has.
    let halves = |low: Sig, high: Sig| {
        let on_bus = cfg.bus(cat(&[low, high]));
        [on_bus.trunc(32), on_bus.slice(32, 32)]
    };
    let base = halves(set_up(&queue::CMDQ_BASE_LO), set_up(&queue::CMDQ_BASE_HI));
    let log2 = set_up(&queue::CMDQ_LOG2);
    let completion_base = halves(set_up(&queue::COMPL_BASE_LO), set_up(&queue::COMPL_BASE_HI));
    let completion_log2 = set_up(&queue::COMPL_LOG2);
    let producer = field(&queue::BLOCK, &queue::CMDQ_PRODUCER, "value", enable).0;
    m.when(!enable, |m| m.set(&producer, 0));
    let mac = [
        field(&port::BLOCK, &port::MAC_LO, "value", always).0,
        field(&port::BLOCK, &port::MAC_HI, "value", always).0,
    ];
    let promiscuous = field(&port::BLOCK, &port::LINK, "promiscuous", always).0;
    // Where nobody would look at a bit, there is none.
    let there = |has: bool, block: &Block, register: &Register, name: &str| match has {
        true => field(block, register, name, always).0,
        false => lit(register.field(name).expect("a field of the register").width.into(), 0),
    };
    let raw = |name| there(cfg.raw_ethernet, &port::BLOCK, &port::RAW, name);
    let hash = [&port::RAW_HASH_LO, &port::RAW_HASH_HI]
        .map(|register| there(cfg.raw_ethernet, &port::BLOCK, register, "value"));
    let filter = RawFilter {
        unicast: raw("unicast"),
        broadcast: raw("broadcast"),
        multicast: raw("multicast"),
        hash: cat(&hash),
    };
    let respond = there(cfg.neighbour_responder, &port::BLOCK, &port::RAW, "respond");
    let raw_roce = raw("roce");
    // Whoever comes next takes what it asks for.
    m.when(reset, |m| {
        m.set(&promiscuous, 0);
        let filters = [filter.unicast, filter.broadcast, filter.multicast, raw_roce];
        let filters = filters.iter().chain(&hash).filter(|_| cfg.raw_ethernet);
        let responds = cfg.neighbour_responder.then_some(&respond);
        filters.chain(responds).for_each(|field| m.set(field, 0));
    });
    // Address and kind of a GID are written first, one register after the other, and go into the table together.
    let gid_ip = [
        (&port::GID_IP0, true),
        (&port::GID_IP1, cfg.ipv6),
        (&port::GID_IP2, cfg.ipv6),
        (&port::GID_IP3, cfg.ipv6),
    ]
    .map(|(register, has)| there(has, &port::BLOCK, register, "value"));
    let kind = [("vid", cfg.vlan), ("tagged", cfg.vlan), ("ipv6", cfg.ipv6)]
        .map(|(name, has)| there(has, &port::BLOCK, &port::GID_KIND, name));
    let salt = field(&port::BLOCK, &port::GID_SALT, "value", always).0;
    m.when(reset, |m| m.set(&salt, lit(16, port::GID_SALT.reset())));
    let place = ["index", "slot", "valid"].map(|name| field(&port::BLOCK, &port::GID_WRITE, name, always));
    let write_gid = m.reg("write_gid", 1).reset(0);
    m.set(&write_gid, place[0].1);
    let tick_cycles = field(&timers::BLOCK, &timers::TICK, "cycles", always).0;

    let react = |register: &Register, name: &str| there(cfg.congestion, &congestion::BLOCK, register, name);
    let congestion = {
        use congestion::*;
        CongestionControl {
            interval_us: react(&NOTIFY, "interval_us"),
            line_mbps: react(&LINE_RATE, "mbps"),
            least_mbps: react(&MIN_RATE, "mbps"),
            gain: react(&GAIN, "shift"),
            alpha_us: react(&PERIODS, "alpha_us"),
            rate_us: react(&PERIODS, "rate_us"),
            bytes: react(&BYTE_COUNTER, "bytes"),
            steps: react(&RECOVERY, "steps"),
            additive_mbps: react(&INCREASE, "additive_mbps"),
            hyper_mbps: react(&INCREASE, "hyper_mbps"),
        }
    };

    let flow = {
        use flow_control::*;
        let set = |register: &Register, name: &str| field(&BLOCK, register, name, always).0;
        FlowControl {
            pause: set(&FLOW_MODE, "pause"),
            pfc: set(&FLOW_MODE, "pfc"),
            quantum: set(&QUANTUM, "cycles"),
        }
    };

    // Reads.
    let mut map = Map::default();
    map.identity(cfg);
    map.capabilities(cfg);
    for (register, value) in [
        (&queue::CMDQ_BASE_LO, base[0]),
        (&queue::CMDQ_BASE_HI, base[1]),
        (&queue::CMDQ_LOG2, log2),
        (&queue::CMDQ_PRODUCER, producer),
        (&queue::COMPL_BASE_LO, completion_base[0]),
        (&queue::COMPL_BASE_HI, completion_base[1]),
        (&queue::COMPL_LOG2, completion_log2),
        (&queue::CMDQ_CONSUMER, progress.consumer),
    ] {
        map.add(&queue::BLOCK, register, &[("value", value)]);
    }
    map.add(&queue::BLOCK, &queue::CONTROL, &[("enable", enable), ("reset", reset | emptying)]);
    map.add(&queue::BLOCK, &queue::STATUS, &[("ready", progress.ready), ("fatal", progress.fatal)]);
    map.add(&port::BLOCK, &port::MAC_LO, &[("value", mac[0])]);
    map.add(&port::BLOCK, &port::MAC_HI, &[("value", mac[1])]);
    let link_values = [("up", link.up), ("promiscuous", promiscuous), ("speed", link.speed)];
    map.add(&port::BLOCK, &port::LINK, &link_values);
    if let Some(Phy { ltssm, mac }) = phy {
        let values = [
            ("ltssm", ltssm),
            ("aligned", mac.aligned),
            ("local_fault", mac.local_fault),
            ("remote_fault", mac.remote_fault),
            ("high_ber", mac.high_ber),
            ("rx_reset", mac.rx_reset),
            ("tx_reset", mac.tx_reset),
        ];
        map.add(&port::BLOCK, &port::PHY, &values);
        map.add(&port::BLOCK, &port::FEC_CORRECTED, &[("value", mac.fec_corrected)]);
        map.add(&port::BLOCK, &port::FEC_UNCORRECTED, &[("value", mac.fec_uncorrected)]);
    }
    map.add(&port::BLOCK, &port::GID_SALT, &[("value", salt)]);
    let passes = [
        ("unicast", filter.unicast),
        ("broadcast", filter.broadcast),
        ("multicast", filter.multicast),
        ("respond", respond),
        ("roce", raw_roce),
    ];
    map.add(&port::BLOCK, &port::RAW, &passes);
    map.add(&port::BLOCK, &port::RAW_HASH_LO, &[("value", hash[0])]);
    map.add(&port::BLOCK, &port::RAW_HASH_HI, &[("value", hash[1])]);
    map.add(&timers::BLOCK, &timers::TICK, &[("cycles", tick_cycles)]);
    if let Some(WriteFault { valid, kind, page }) = fault {
        use host_memory::*;
        let low = [("valid", valid), ("kind", kind), ("page", page.trunc(20))];
        map.add(&BLOCK, &WRITE_FAULT, &low.map(|(name, value)| (name, value & valid.repeat(value.width()))));
        map.add(&BLOCK, &WRITE_FAULT_HI, &[("page", page.slice(20, 32) & valid.repeat(32))]);
    }
    {
        use congestion::*;
        let c = &congestion;
        let periods = [("alpha_us", c.alpha_us), ("rate_us", c.rate_us)];
        let increase = [("additive_mbps", c.additive_mbps), ("hyper_mbps", c.hyper_mbps)];
        map.add(&BLOCK, &NOTIFY, &[("interval_us", c.interval_us)]);
        map.add(&BLOCK, &LINE_RATE, &[("mbps", c.line_mbps)]);
        map.add(&BLOCK, &MIN_RATE, &[("mbps", c.least_mbps)]);
        map.add(&BLOCK, &GAIN, &[("shift", c.gain)]);
        map.add(&BLOCK, &PERIODS, &periods);
        map.add(&BLOCK, &BYTE_COUNTER, &[("bytes", c.bytes)]);
        map.add(&BLOCK, &RECOVERY, &[("steps", c.steps)]);
        map.add(&BLOCK, &INCREASE, &increase);
    }
    {
        use flow_control::*;
        map.add(&BLOCK, &FLOW_MODE, &[("pause", flow.pause), ("pfc", flow.pfc)]);
        map.add(&BLOCK, &QUANTUM, &[("cycles", flow.quantum)]);
        map.add(&BLOCK, &PAUSED, &[("priorities", paused)]);
    }
    let is_counter = (held.address >> clog2(8 * u64::from(SLOTS))).eq(COUNTERS / (8 * SLOTS));
    let pair = map.read(held.address) | (counter & is_counter.repeat(64));
    let half = held.address.bit(2).then(pair.slice(32, 32), pair.trunc(32));
    let answer = m.reg("answer", 64).no_reset();
    let response = Stream::new(m, "response", state.is(State::Respond), CsrResponse { data: answer });

    // Doorbells.
    let page = held.address.slice(12, 12) - (doorbell::BASE / doorbell::PAGE_BYTES);
    let is_doorbell = held.address.ge(doorbell::BASE);
    let rings = held.wide & held.address.trunc(3).eq(0) & page.zext(13).lt(cfg.doorbell_pages);
    let raw = RawDoorbell { page: page.zext(16), offset: held.address.trunc(12), data: held.data };
    // What was rung in a life that is over, or rings between two lives, is for nobody.
    let ring = Stream::new(m, "ring", writes & is_doorbell & rings & !resets.under_way, raw);
    let waits = ring.valid & !ring.ready;
    m.drive(&ignored, writes & is_doorbell & !(rings & !resets.under_way));
    let doorbells = fifo(m, 16, ring).discard_if(m, resets.under_way);

    m.when(request.fire(), |m| {
        m.set_all(&held, &request.payload);
        m.set(&state, State::Act);
    });
    m.when(act & !waits, |m| {
        m.set(&answer, held.wide.then(pair, half.zext(64)));
        m.set(&state, State::Idle);
        m.when(!held.write, |m| m.set(&state, State::Respond));
    });
    m.when(response.fire(), |m| m.set(&state, State::Idle));

    let commands = CommandControl {
        enable,
        base: cat(&base),
        log2,
        producer,
        completion_base: cat(&completion_base),
        completion_log2,
    };
    let entry = GidKey { ip: cat(&gid_ip), vid: kind[0], tagged: kind[1], ipv6: kind[2] };
    let write = GidWrite { enable: write_gid, index: place[0].0, slot: place[1].0, valid: place[2].0, entry };
    let port = Addresses { mac: cat(&mac), promiscuous, raw: filter, respond, salt, write, clear: empties };
    let tick = ticks(m, cfg, tick_cycles);
    Csr { response, doorbells, commands, reset, port, tick, congestion, flow, raw_roce }
}

/// Cycles of the clock in 4.096 us.
fn tick_cycles(cfg: &RnicConfig) -> u32 {
    (u64::from(cfg.clock_khz) * 4096 / 1_000_000) as u32
}

/// A pulse every so many cycles, 0 for 4.096 us.
fn ticks(m: &Scope, cfg: &RnicConfig, cycles: Sig) -> Sig {
    let width = cycles.width();
    let period = m.delay("period", &cycles.any().then(cycles, lit(width, tick_cycles(cfg))));
    let passed = m.reg("passed", width).reset(0);
    let tick = m.reg("tick_now", 1).reset(0);
    let over = passed.ge(period - 1);
    m.set(&tick, over);
    m.set(&passed, over.then(lit(width, 0), passed + 1));
    tick
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use ferrowire_spec::ALL_BLOCKS;
    use rand::Rng;

    struct Bench {
        cfg: RnicConfig,
        sim: Sim,
        sources: [Source; 1],
        sinks: [Sink; 2],
        random: Random,
        stall: f64,
    }

    fn bench(beat_bytes: u32, stall: f64) -> Bench {
        bench_of(RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() }, stall)
    }

    fn bench_of(cfg: RnicConfig, stall: f64) -> Bench {
        let netlist = build("top", |m| {
            let request = m.stream_in("request", &CsrRequest::of());
            let events = Events::default()
                .drops(m.input_of("drop0", &DropEvent::of()))
                .drops(m.input_of("drop1", &DropEvent::of()))
                .traffic(TrafficCounter::RxFrames, m.input("rx_frames", 1))
                .traffic(TrafficCounter::RxBytes, m.input("rx_bytes", 7))
                .hw(HwCounter::Retransmitted, m.input("retransmitted", 1));
            let progress = m.input_of("progress", &CommandProgress::of());
            let out = csr(
                m,
                &cfg,
                request,
                progress,
                m.input_of("resets", &CsrReset::of()),
                m.input_of("link", &Link::of()),
                Some(m.input_of("phy", &Phy::of())),
                m.input("paused", 8),
                Some(m.input_of("fault", &WriteFault::of())),
                events,
            );
            m.stream_out("response", out.response);
            m.stream_out("doorbells", out.doorbells);
            m.output("commands", &out.commands);
            m.output("reset", &out.reset);
            m.output("port", &out.port);
            m.output("tick", &out.tick);
            m.output("congestion", &out.congestion);
            m.output("flow", &out.flow);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        Bench {
            sim,
            sources: [Source::new("request", &CsrRequest::of())],
            sinks: [Sink::new("response", &CsrResponse::of()), Sink::new("doorbells", &RawDoorbell::of())],
            random: Random::new(9),
            stall,
            cfg,
        }
    }

    impl Bench {
        fn step(&mut self) {
            step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        }

        fn access(&mut self, address: u32, write: bool, wide: bool, data: u64) {
            self.sources[0].push_values(&[
                ("address", u128::from(address)),
                ("write", u128::from(write)),
                ("wide", u128::from(wide)),
                ("data", u128::from(data)),
            ]);
        }

        fn read(&mut self, address: u32, wide: bool) -> u64 {
            let before = self.sinks[0].items.len();
            self.access(address, false, wide, 0);
            for _ in 0..1000 {
                self.step();
                if let Some(item) = self.sinks[0].items.get(before) {
                    return item["data"].to_u64();
                }
            }
            panic!("seed {}: no response", self.random.seed);
        }

        fn write(&mut self, address: u32, wide: bool, data: u64) {
            self.access(address, true, wide, data);
            while self.sources[0].left() > 0 {
                self.step();
            }
            (0..3).for_each(|_| self.step());
        }
    }

    #[test]
    fn a_tick_takes_4096_ns_unless_another_length_is_set() {
        let mut bench = bench(8, 0.0);
        let lengths = |bench: &mut Bench| -> Vec<u64> {
            let (mut since, mut found) = (0, Vec::new());
            while found.len() < 4 {
                bench.step();
                since += 1;
                if bench.sim.get("tick") == 1 {
                    found.push(since);
                    since = 0;
                }
            }
            found.split_off(1)
        };
        let usual = u64::from(bench.cfg.clock_khz) * 4096 / 1_000_000;
        assert_eq!(lengths(&mut bench), [usual; 3]);
        for cycles in [1, 2, 7, 300] {
            bench.write(timers::BLOCK.address(&timers::TICK), false, cycles);
            bench.write(port::BLOCK.address(&port::MAC_HI), false, 0);
            assert_eq!(lengths(&mut bench), [cycles; 3]);
            assert_eq!(bench.read(timers::BLOCK.address(&timers::TICK), false), cycles);
        }
        bench.write(timers::BLOCK.address(&timers::TICK), false, 0);
        bench.write(port::BLOCK.address(&port::MAC_HI), false, 0);
        assert_eq!(lengths(&mut bench), [usual; 3]);
    }

    #[test]
    fn identity_and_capabilities_say_what_the_card_is() {
        for (beat_bytes, stall) in [(8, 0.0), (64, 0.4)] {
            let mut bench = bench(beat_bytes, stall);
            let id = |r: &Register| identity::BLOCK.address(r);
            let cap = |r: &Register| capabilities::BLOCK.address(r);
            assert_eq!(bench.read(id(&identity::MAGIC), false), u64::from(identity::MAGIC_VALUE));
            assert_eq!(bench.read(id(&identity::LAYOUT_HASH_LO), true), LAYOUT_HASH);
            assert_eq!(bench.read(id(&identity::LAYOUT_HASH_HI), false), LAYOUT_HASH >> 32);
            assert_eq!(bench.read(id(&identity::BEAT_BYTES), false), u64::from(beat_bytes));
            assert_eq!(bench.read(cap(&capabilities::MAX_QP), false), u64::from(bench.cfg.qps));
            assert_eq!(bench.read(cap(&capabilities::MTT_ENTRIES), false), u64::from(bench.cfg.page_entries));
            assert_eq!(bench.read(cap(&capabilities::PAGE_SHIFTS), false), 1 << 12 | 1 << 21 | 1 << 30);
            assert_eq!(bench.read(cap(&capabilities::FEATURES), false) & 0xf, 0xf);
            assert_eq!(bench.read(cap(&capabilities::MAX_AH), false), u64::from(bench.cfg.ahs));
            assert_eq!(bench.read(0x3000, true), 0);
            assert_eq!(bench.read(0xff_fff8, true), 0);
        }
    }

    #[test]
    fn every_constant_register_reads_its_reset_value_where_the_card_does_not_say_otherwise() {
        let mut bench = bench(8, 0.0);
        for block in ALL_BLOCKS {
            for register in block.registers.iter().filter(|r| r.reset() != 0) {
                let got = bench.read(block.address(register), register.bytes == 8);
                for field in register.fields.iter().filter(|f| f.reset != 0) {
                    let value = got >> field.offset & field.max() as u64;
                    assert_eq!(value, field.reset, "{}.{}.{}", block.name, register.name, field.name);
                }
            }
        }
    }

    #[test]
    fn rings_lie_where_the_bus_has_addresses() {
        let mut bench =
            bench_of(RnicConfig { bus_bits: 40, ..RnicConfig::named("generic-8b").unwrap() }, 0.3);
        let at = |r: &Register| command_queue::BLOCK.address(r);
        for (low, output) in
            [(&command_queue::CMDQ_BASE_LO, "base"), (&command_queue::COMPL_BASE_LO, "completion_base")]
        {
            bench.write(at(low), true, 0x1234_5678_9abc_d000);
            assert_eq!(bench.sim.get(&format!("commands_{output}")), 0x78_9abc_d000);
            assert_eq!(bench.read(at(low), true), 0x78_9abc_d000);
        }
    }

    #[test]
    fn the_command_queue_is_set_up_only_while_it_is_off() {
        let mut bench = bench(8, 0.3);
        let at = |r: &Register| command_queue::BLOCK.address(r);
        bench.write(at(&command_queue::CMDQ_BASE_LO), true, 0x1234_5678_9abc_d000);
        bench.write(at(&command_queue::COMPL_BASE_LO), false, 0x5000);
        bench.write(at(&command_queue::COMPL_BASE_HI), false, 0x77);
        bench.write(at(&command_queue::CMDQ_LOG2), false, 6);
        bench.write(at(&command_queue::CMDQ_PRODUCER), false, 9);
        bench.write(at(&command_queue::CONTROL), false, 1);
        assert_eq!(bench.sim.get("commands_enable"), 1);
        assert_eq!(bench.sim.get("commands_producer"), 0);
        bench.write(at(&command_queue::CMDQ_PRODUCER), false, 9);
        bench.write(at(&command_queue::CMDQ_BASE_HI), false, 0xffff);
        assert_eq!(bench.sim.get("commands_base"), 0x1234_5678_9abc_d000);
        assert_eq!(bench.sim.get("commands_completion_base"), 0x77_0000_5000);
        assert_eq!((bench.sim.get("commands_log2"), bench.sim.get("commands_producer")), (6, 9));
        assert_eq!(bench.read(at(&command_queue::CMDQ_BASE_LO), true), 0x1234_5678_9abc_d000);
        // A reset shows until it is done, and switches off.
        bench.write(at(&command_queue::CONTROL), false, 2);
        assert_eq!(bench.read(at(&command_queue::CONTROL), false), 2);
        bench.sim.set("resets_done", 1);
        bench.step();
        bench.sim.set("resets_done", 0);
        bench.sim.set("progress_ready", 1);
        bench.sim.set("progress_consumer", 0x1234);
        assert_eq!(bench.read(at(&command_queue::CONTROL), false), 2);
        (0..2 * port::GID_SLOTS).for_each(|_| bench.step());
        assert_eq!(bench.read(at(&command_queue::CONTROL), false), 0);
        assert_eq!(bench.read(at(&command_queue::STATUS), false), 1);
        assert_eq!(bench.read(at(&command_queue::CMDQ_CONSUMER), false), 0x1234);
    }

    #[test]
    fn the_phy_registers_show_what_the_blocks_say() {
        let mut bench = bench(64, 0.2);
        let read = |bench: &mut Bench, register: &Register| bench.read(port::BLOCK.address(register), false);
        assert_eq!(read(&mut bench, &port::PHY), 0);
        bench.sim.set("phy_ltssm", 0x10);
        assert_eq!(read(&mut bench, &port::PHY), 0x10);
        bench.sim.set("phy_ltssm", 0);
        for name in ["aligned", "local_fault", "remote_fault", "high_ber", "rx_reset", "tx_reset"] {
            bench.sim.set(&format!("phy_mac_{name}"), 1);
            let offset = port::PHY.field(name).unwrap().offset;
            assert_eq!(read(&mut bench, &port::PHY), 1 << offset, "{name}");
            bench.sim.set(&format!("phy_mac_{name}"), 0);
        }
        bench.sim.set("phy_mac_fec_corrected", 0x8765_4321);
        bench.sim.set("phy_mac_fec_uncorrected", 3);
        assert_eq!(read(&mut bench, &port::FEC_CORRECTED), 0x8765_4321);
        assert_eq!(read(&mut bench, &port::FEC_UNCORRECTED), 3);
    }

    #[test]
    fn the_port_is_read_and_written() {
        let mut bench = bench(64, 0.2);
        bench.write(port::BLOCK.address(&port::MAC_LO), true, 0x0211_2233_4455);
        bench.write(port::BLOCK.address(&port::RAW), false, 0x105);
        bench.write(port::BLOCK.address(&port::RAW_HASH_LO), true, 0x1234_5678_9abc_def0);
        bench.write(port::BLOCK.address(&port::LINK), false, 0xffff_ffff);
        bench.sim.set("link_up", 1);
        bench.sim.set("link_speed", 1000);
        assert_eq!(bench.sim.get("port_mac"), 0x0211_2233_4455);
        let filter =
            ["unicast", "broadcast", "multicast"].map(|kind| bench.sim.get(&format!("port_raw_{kind}")));
        assert_eq!((filter, bench.sim.get("port_respond")), ([1, 0, 1], 1));
        assert_eq!(bench.sim.get("port_raw_hash"), 0x1234_5678_9abc_def0);
        assert_eq!(bench.read(port::BLOCK.address(&port::LINK), false), 1000 << 16 | 3);
        assert_eq!(bench.read(port::BLOCK.address(&port::RAW), false), 0x105);
        assert_eq!(bench.read(port::BLOCK.address(&port::RAW_HASH_LO), true), 0x1234_5678_9abc_def0);
        // Whoever comes behind a reset hears what it asks for, from the same address.
        let reset = 1 << command_queue::CONTROL.field("reset").unwrap().offset;
        bench.write(command_queue::BLOCK.address(&command_queue::CONTROL), false, reset);
        bench.step();
        assert_eq!(bench.read(port::BLOCK.address(&port::LINK), false), 1000 << 16 | 1);
        for register in [&port::RAW, &port::RAW_HASH_LO, &port::RAW_HASH_HI] {
            assert_eq!(bench.read(port::BLOCK.address(register), false), 0, "{}", register.name);
        }
        assert_eq!(bench.read(port::BLOCK.address(&port::MAC_LO), true), 0x0211_2233_4455);
    }

    #[test]
    fn a_gid_goes_into_the_table_whole() {
        let mut bench = bench(64, 0.2);
        let at = |register: &Register| port::BLOCK.address(register);
        let ip = 0x2001_0db8_0123_4567_89ab_cdef_0011_2233_u128;
        bench.write(at(&port::GID_IP0), true, ip as u64);
        bench.write(at(&port::GID_IP2), true, (ip >> 64) as u64);
        bench.write(at(&port::GID_KIND), false, 0x3123);
        bench.access(at(&port::GID_WRITE), true, false, 1 << 16 | 0xa5 << 8 | 7);
        let mut written = 0;
        for _ in 0..50 {
            bench.step();
            if bench.sim.get("port_write_enable") == 1 {
                written += 1;
                let mut get = |name: &str| bench.sim.get(&format!("port_write_{name}"));
                assert_eq!((get("index"), get("slot"), get("valid")), (7, 0xa5, 1));
                assert_eq!((get("entry_vid"), get("entry_tagged"), get("entry_ipv6")), (0x123, 1, 1));
                assert_eq!(bench.sim.get_bits("port_write_entry_ip").to_u128(), ip);
            }
        }
        assert_eq!(written, 1);
        assert_eq!(bench.read(at(&port::GID_WRITE), false), 0);
        bench.write(at(&port::GID_SALT), false, 0x1235);
        assert_eq!(bench.read(at(&port::GID_SALT), false), 0x1235);
        assert_eq!(bench.sim.get("port_salt"), 0x1235);
        bench.write(command_queue::BLOCK.address(&command_queue::CONTROL), false, 2);
        assert_eq!(bench.read(at(&port::GID_SALT), false), port::GID_SALT.reset());
    }

    #[test]
    fn congestion_control_begins_with_the_published_parameters_and_takes_others() {
        let mut bench = bench(8, 0.2);
        let at = |r: &Register| congestion::BLOCK.address(r);
        let values = |bench: &mut Bench| {
            ["interval_us", "line_mbps", "least_mbps", "gain", "alpha_us", "rate_us", "bytes", "steps"]
                .map(|name| bench.sim.get(&format!("congestion_{name}")))
        };
        assert_eq!(values(&mut bench), [50, 0, 10, 8, 55, 55, 10_000_000, 5]);
        bench.write(at(&congestion::LINE_RATE), false, 100_000);
        bench.write(at(&congestion::PERIODS), false, 300 << 16 | 20);
        bench.write(at(&congestion::INCREASE), false, 77 << 16 | 5);
        assert_eq!(values(&mut bench), [50, 100_000, 10, 8, 20, 300, 10_000_000, 5]);
        assert_eq!(bench.sim.get("congestion_additive_mbps"), 5);
        assert_eq!(bench.sim.get("congestion_hyper_mbps"), 77);
        assert_eq!(bench.read(at(&congestion::INCREASE), false), 77 << 16 | 5);
    }

    #[test]
    fn counters_lose_no_event() {
        for (beat_bytes, stall) in [(8, 0.0), (64, 0.5)] {
            let mut bench = bench(beat_bytes, stall);
            let (mut drops, mut frames, mut bytes, mut again) = ([0u64; DropReason::ALL.len()], 0, 0, 0);
            for cycle in 0..4000 {
                for source in ["drop0", "drop1"] {
                    let code = bench.random.rng.random_range(0..4usize);
                    bench.sim.set(&format!("{source}_pulse"), 1);
                    bench.sim.set(&format!("{source}_code"), code as u64);
                    drops[code] += 1;
                }
                bench.sim.set("rx_frames", 1);
                frames += 1;
                bench.sim.set("rx_bytes", 127);
                bytes += 127;
                let pulse = u64::from(bench.random.chance(0.5));
                bench.sim.set("retransmitted", pulse);
                again += pulse;
                if cycle % 3 == 0 {
                    bench.access(TrafficCounter::RxFrames.address(), false, true, 0);
                }
                bench.step();
            }
            for port in ["drop0_pulse", "drop1_pulse", "rx_frames", "rx_bytes", "retransmitted"] {
                bench.sim.set(port, 0);
            }
            for _ in 0..400_000 {
                if bench.sources[0].left() == 0 {
                    break;
                }
                bench.step();
            }
            (0..400).for_each(|_| bench.step());
            for reason in DropReason::ALL {
                let count = drops[usize::from(reason.code())];
                assert_eq!(bench.read(reason.address(), true), count, "{reason}");
            }
            assert_eq!(bench.read(TrafficCounter::RxFrames.address(), true), frames);
            assert_eq!(bench.read(TrafficCounter::RxBytes.address(), false), bytes);
            assert_eq!(bench.read(TrafficCounter::RxBytes.address() + 4, false), 0);
            assert_eq!(bench.read(HwCounter::Retransmitted.address(), true), again);
            assert_eq!(bench.read(HwCounter::RxReadRequests.address(), true), 0);
        }
    }

    #[test]
    fn only_wide_aligned_writes_ring_a_doorbell() {
        for (beat_bytes, stall) in [(8, 0.0), (64, 0.4)] {
            let mut bench = bench(beat_bytes, stall);
            let pages = bench.cfg.doorbell_pages as u16;
            bench.write(doorbell::address(0, doorbell::SQ), true, 0x11);
            bench.write(doorbell::address(pages - 1, doorbell::CQ), true, u64::MAX);
            bench.write(doorbell::address(pages, doorbell::SQ), true, 1);
            bench.write(doorbell::address(1, doorbell::SQ), false, 1);
            bench.write(doorbell::address(1, doorbell::SQ + 4), true, 1);
            assert_eq!(bench.read(doorbell::address(0, doorbell::SQ), true), 0);
            (0..400).for_each(|_| bench.step());
            assert_eq!(bench.sinks[1].values("page"), [0, u64::from(pages) - 1]);
            assert_eq!(bench.sinks[1].values("offset"), [u64::from(doorbell::SQ), u64::from(doorbell::CQ)]);
            assert_eq!(bench.sinks[1].values("data"), [0x11, u64::MAX]);
            assert_eq!(bench.read(TrafficCounter::DoorbellsIgnored.address(), true), 3);
        }
    }

    #[test]
    fn a_response_comes_two_cycles_after_its_request() {
        let mut bench = bench(8, 0.0);
        (0..200).for_each(|_| bench.step());
        bench.read(0, false);
        assert_eq!(bench.sinks[0].cycles[0] - bench.sources[0].cycles[0], 2);
    }
}
