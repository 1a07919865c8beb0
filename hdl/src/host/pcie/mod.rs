// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PCIe TLP engine: host memory and BAR 0 behind four streams of transaction layer packets.
//!
//! ```text
//!  dma_read --> split --> issue: tag, rows --------------------> +------+
//!                           |  order                             | send |--> rq   memory reads and writes
//!  dma_write --+--> split --|--> realign --> whole TLPs --------> +------+
//!  interrupt --> msix       v                                       | departures
//!                ^   +--> deliver <-- rows <-- realign <-- judge <--|------- rc   completions
//!  dma_data <----|---+                                              v
//!  csr <---------+-- target <---------------------------------------|------- cq   reads and writes of BAR 0
//!                      +--------------------------------------------+------> cc   completions
//! ```
//!
//! A packet is bytes in the order of the standard, its first byte in lane 0 of a beat of its own; see `ferrowire_spec::pcie`. What
//! a board's hard block wants beside that (descriptors, credits) is an adapter's matter.
//!
//! **Order.** Writes leave in the order in which they came. A read leaves behind every write that was taken before it, and may not pass
//! it on the way (PCIe 2.4.1, table 2-40, B2a), so it sees what was written before. A completion for the CPU leaves behind
//! the writes that were taken before its data was read. An interrupt is a write that is taken behind the event that it tells of.
//! Nothing keeps a later write from passing an earlier read. Payload of regions with relaxed ordering is marked so where the host allows it, and nothing
//! else: what tells of it passes none of it (A2b is about what passes, not about what is passed).
//!
//! **What goes wrong** ends as an error of the read that it happened to: see [`reads`].
//!
//! While the host has not made the card a bus master, nothing leaves but completions, and these wait for no write.
//!
//! **Reset** of the card by its host ([`reset`](crate::host::reset)) does not reset the engine: it goes on until what was handed to it has ended (`idle`). Requests
//! that may not leave are thrown away meanwhile, and pending interrupts forgotten. Tags that are late stay so.

mod msix;
mod reads;
pub(super) mod send;
mod split;
pub(super) mod strip;
mod target;
pub(super) mod writes;

use crate::config::RnicConfig;
use crate::host::csr::{CsrRequest, CsrResponse};
use crate::host::event::Interrupt;
use crate::host::reset::Quiesce;
use crate::stream::{arbiter, arbiter_held, half, Beat};
use crate::types::{DmaReadData, DmaReadRequest, DmaWrite};
use ferrowire_rtl::{bits, build, lit, BuildErrors, Bundle, Interface, Netlist, Scope, Sig, Stream};

/// What the host's configuration software has set, from the hard block's configuration space.
#[derive(Clone, Bundle)]
pub struct PcieSettings {
    /// Bus, device and function of the card.
    pub requester: Sig,
    /// The card may send requests.
    pub bus_master: Sig,
    /// Code of the largest payload: 128 bytes at 0, 1,024 at 3 (PCIe 7.5.3.4).
    pub max_payload: Sig,
    /// Code of the largest read request: 128 bytes at 0, 4,096 at 5.
    pub max_read_request: Sig,
    /// Tags of 8 bits may be used, not of 5 alone.
    pub extended_tags: Sig,
    /// Relaxed ordering may be used (PCIe 7.5.3.4).
    pub relaxed_ordering: Sig,
    /// MSI-X is on.
    pub msix_enable: Sig,
    /// All vectors are masked.
    pub msix_mask: Sig,
}

impl PcieSettings {
    /// The shape.
    pub fn of() -> Self {
        PcieSettings {
            requester: bits(16),
            bus_master: bits(1),
            max_payload: bits(3),
            max_read_request: bits(3),
            extended_tags: bits(1),
            relaxed_ordering: bits(1),
            msix_enable: bits(1),
            msix_mask: bits(1),
        }
    }
}

/// What is counted.
#[derive(Clone, Bundle)]
pub struct PcieEvents {
    /// A completion for nothing that was asked, or one that does not fit what was asked.
    pub unexpected: Sig,
    /// A read was given up.
    pub timeout: Sig,
    /// A request for BAR 0 was refused.
    pub refused: Sig,
}

impl PcieEvents {
    /// The shape.
    pub fn of() -> Self {
        PcieEvents { unexpected: bits(1), timeout: bits(1), refused: bits(1) }
    }
}

/// What the card hands to the engine.
#[derive(Interface)]
pub struct ToHost {
    /// Reads of host memory.
    pub read: Stream<DmaReadRequest>,
    /// Writes to host memory.
    pub write: Stream<DmaWrite>,
    /// Answers to accesses of BAR 0.
    pub response: Stream<CsrResponse>,
    /// An event queue has something new.
    pub interrupt: Interrupt,
    /// The card is being reset.
    pub quiesce: Quiesce,
}

impl ToHost {
    /// Ports in place of a card.
    pub(super) fn ports(m: &Scope, cfg: &RnicConfig) -> Self {
        ToHost {
            read: m.stream_in("read", &DmaReadRequest::of()),
            write: m.stream_in("write", &DmaWrite::of(cfg)),
            response: m.stream_in("csr_response", &CsrResponse::of()),
            interrupt: m.input_of("interrupt", &Interrupt::of()),
            quiesce: m.input_of("quiesce", &Quiesce::of()),
        }
    }
}

/// What comes from the engine; `T` is a beat on its way to the host.
pub struct FromHost<T: Bundle> {
    /// What was read.
    pub data: Stream<DmaReadData>,
    /// Accesses of BAR 0.
    pub csr: Stream<CsrRequest>,
    /// Requests to the root complex.
    pub rq: Stream<T>,
    /// Completions to the root complex.
    pub cc: Stream<T>,
    /// What is counted.
    pub events: PcieEvents,
    /// Every write and every interrupt has left.
    pub idle: Sig,
}

impl<T: Bundle> FromHost<T> {
    /// Ports in place of a card.
    pub(super) fn into_ports(self, m: &Scope) {
        m.stream_out("data", self.data);
        m.stream_out("csr", self.csr);
        m.stream_out("rq", self.rq);
        m.stream_out("cc", self.cc);
        m.output("events", &self.events);
        m.output("idle", &self.idle);
    }
}

/// The engine alone, between its ports: `read`, `data`, `write`, `csr`, `csr_response`, `interrupt`, `quiesce` and `idle` towards the card, `rq`, `rc`, `cq`, `cc`
/// and `pcie` towards the host, and `events`.
///
/// # Errors
/// What the build-time checks find; none for a valid configuration with PCIe.
pub fn engine(cfg: &RnicConfig) -> Result<Netlist, BuildErrors> {
    build("engine", |m| {
        let host = ToHost::ports(m, cfg);
        let beat = Beat::of(cfg.beat_bytes);
        let settings = m.input_of("pcie", &PcieSettings::of());
        pcie(m, cfg, settings, m.stream_in("rc", &beat), m.stream_in("cq", &beat), host).into_ports(m);
    })
}

/// The engine before streams of packets.
pub fn pcie(
    m: &Scope,
    cfg: &RnicConfig,
    settings: PcieSettings,
    rc: Stream<Beat>,
    cq: Stream<Beat>,
    host: ToHost,
) -> FromHost<Beat> {
    let (parts, bad) = strip::strip(m, rc);
    let departed = m.wire("writes_departed", writes::COUNT);
    let core = core(m, cfg, settings, (parts, bad), cq, departed, None, host);
    m.drive(&departed, core.departed);
    m.discard(&core.dropped);
    let rq = core.rq.map(|packet| packet.beat.clone());
    FromHost { data: core.data, csr: core.csr, rq, cc: core.cc, events: core.events, idle: core.idle }
}

/// What comes from the engine behind an adapter.
pub(super) struct Core {
    pub data: Stream<DmaReadData>,
    pub csr: Stream<CsrRequest>,
    pub rq: Stream<send::RequestBeat>,
    pub cc: Stream<Beat>,
    /// Writes of the card that have left `rq` to their ends, free-running.
    pub departed: Sig,
    /// The end of a write was thrown away in this cycle.
    pub dropped: Sig,
    pub events: PcieEvents,
    pub idle: Sig,
}

/// The engine. `completions`: their parts, and whether each that has data is as long as it says; `departed`: writes of the card, free-running, that no
/// completion passes which leaves now; `credits`: for reads, where a hard block tells of them.
#[allow(clippy::too_many_arguments)]
pub(super) fn core(
    m: &Scope,
    cfg: &RnicConfig,
    settings: PcieSettings,
    completions: (strip::Parts, Stream<Sig>),
    cq: Stream<Beat>,
    departed: Sig,
    credits: Option<Sig>,
    host: ToHost,
) -> Core {
    let read_leaves = m.wire("read_leaves", 1);
    let (returned, returns) = m.later("returned", &bits(8));
    let quiesce = host.quiesce;
    // Writes of the card, and interrupts behind them.
    let (access, accesses) = m.later("msix_access", &CsrRequest::of());
    let msix = msix::msix(m, cfg, settings.clone(), quiesce.clone(), access, host.interrupt);
    let waits = msix.write.valid;
    let write = arbiter_held(m, &|beat: &DmaWrite| beat.last, vec![host.write, msix.write]);
    let takes = (write.fire() & write.last).named("takes_write");
    let (taken, taken_before) = writes::taken(m, takes);
    let written = writes::writes(m, cfg, settings.clone(), write);

    let (parts, bad) = completions;
    let passed = m.wire_of("writes_passed", &writes::Passed::of());
    let reads = reads::reads(
        m,
        cfg,
        settings.clone(),
        host.read,
        taken.clone(),
        passed.clone(),
        parts,
        bad,
        read_leaves,
        returned,
    );
    let sent =
        send::send(m, cfg, settings.bus_master, quiesce.drops, credits, reads.requests, reads.clear, written);
    m.set_all(&passed, &sent.passed);
    // A register between the `ready` of what judges completions and the reads that leave.
    returns.connect(half(&m.label("returned"), sent.returned));
    // What is taken now has not left.
    let idle = (departed.eq(taken_before) & !takes & !waits).named("is_idle");
    m.drive(&read_leaves, sent.departed.read);

    // The target: registers of the card, and the MSI-X table.
    let (response, responses) = m.later("target_response", &CsrResponse::of());
    let target = target::target(m, cfg, settings, cq, response, taken, departed);
    let (csr, to_msix) = target::route(m, target.access);
    accesses.connect(to_msix);
    responses.connect(arbiter(m, &|_: &CsrResponse| lit(1, 1), vec![host.response, msix.response]));
    Core {
        data: reads.data,
        csr,
        rq: sent.rq,
        cc: target.cc,
        departed: sent.departed.writes,
        dropped: sent.departed.dropped,
        idle,
        events: PcieEvents { unexpected: reads.unexpected, timeout: reads.timeout, refused: target.refused },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowire_rtl::{Bits, Sim};

    #[test]
    fn the_engine_passes_the_build_time_checks_at_every_width() {
        for beat_bytes in [8, 16, 32, 64] {
            for tags in [8, 32, 256] {
                let cfg = RnicConfig::named("pcie-8b").unwrap();
                let cfg = RnicConfig { beat_bytes, pcie_tags: tags, ..cfg };
                engine(&cfg).unwrap_or_else(|e| panic!("{beat_bytes} bytes a beat, {tags} tags:\n{e}"));
            }
        }
    }

    /// A write of four bytes at each beat while `rq` stands still; how many the engine takes.
    fn fill(sim: &mut Sim) -> u64 {
        for (name, value) in [("valid", 1), ("address", 0x1000), ("length", 4), ("strobe", 0xf), ("last", 1)]
        {
            sim.set(&format!("write_{name}"), value);
        }
        let mut taken = 0;
        for _ in 0..3000 {
            taken += sim.get("write_ready");
            sim.tick();
        }
        sim.set("write_valid", 0);
        taken
    }

    #[test]
    fn however_many_writes_wait_none_is_passed() {
        for beat_bytes in [8u32, 16, 32, 64] {
            let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("pcie-8b").unwrap() };
            let mut sim = Sim::new(&engine(&cfg).unwrap());
            sim.set("pcie_bus_master", 1);
            sim.reset();
            sim.set("cc_ready", 1);
            (0..100).for_each(|_| sim.tick());
            let taken = fill(&mut sim);
            // The CPU reads a word of the MSI-X table; the card reads memory.
            let at = ferrowire_spec::csr::MSIX_TABLE.to_be_bytes();
            let packet = [0, 0, 0, 1, 0, 0, 9, 0xf, at[0], at[1], at[2], at[3]];
            let beats: Vec<&[u8]> = packet.chunks(beat_bytes as usize).collect();
            sim.set("cq_valid", 1);
            for (i, part) in beats.iter().enumerate() {
                let mut bytes = part.to_vec();
                sim.set("cq_empty", u64::from(beat_bytes) - bytes.len() as u64);
                bytes.resize(beat_bytes as usize, 0);
                sim.set_bits("cq_data", &Bits::from_bytes(8 * beat_bytes, &bytes));
                sim.set("cq_last", u64::from(i + 1 == beats.len()));
                assert_eq!(sim.get("cq_ready"), 1);
                sim.tick();
            }
            sim.set("cq_valid", 0);
            for (name, value) in [("valid", 1), ("address", 0x2000), ("length", 4)] {
                sim.set(&format!("read_{name}"), value);
            }
            assert_eq!(sim.get("read_ready"), 1);
            sim.tick();
            sim.set("read_valid", 0);
            for _ in 0..200 {
                assert_eq!(
                    sim.get("cc_valid"),
                    0,
                    "{beat_bytes} bytes a beat: an answer before {taken} writes"
                );
                sim.tick();
            }
            sim.set("rq_ready", 1);
            let (mut writes, mut first, mut reads) = (0, true, 0);
            for _ in 0..3000 {
                if sim.get("rq_valid") == 1 {
                    let begins = std::mem::replace(&mut first, sim.get("rq_last") == 1);
                    if begins && sim.get_bits("rq_data").to_bytes()[0] & 0x40 == 0 {
                        reads += 1;
                        assert_eq!(writes, taken, "{beat_bytes} bytes a beat");
                    }
                    writes += u64::from(first && reads == 0);
                }
                sim.tick();
            }
            assert_eq!((reads, sim.get("cc_valid")), (1, 0), "{beat_bytes} bytes a beat, {taken} writes");
        }
    }

    /// One beat on an input that is taken some time.
    fn give(sim: &mut Sim, stream: &str, fields: &[(&str, u64)]) {
        for (name, value) in fields {
            sim.set(&format!("{stream}_{name}"), *value);
        }
        sim.set(&format!("{stream}_valid"), 1);
        for _ in 0..50 {
            let taken = sim.get(&format!("{stream}_ready")) == 1;
            sim.tick();
            if taken {
                sim.set(&format!("{stream}_valid"), 0);
                return;
            }
        }
        panic!("{stream} takes nothing");
    }

    #[test]
    fn what_may_not_leave_is_thrown_away_by_a_reset_and_the_engine_goes_on() {
        const WRITE: [(&str, u64); 4] = [("address", 0x1000), ("length", 4), ("strobe", 0xf), ("last", 1)];
        const READ: [(&str, u64); 2] = [("address", 0x2000), ("length", 4)];
        for beat_bytes in [8u32, 64] {
            let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("pcie-8b").unwrap() };
            let engine = engine(&cfg).unwrap();
            // Some requests wait, and a link that may stand still, when the host takes the right away.
            for case in 0..128 {
                let (kinds, still, late) = (case & 15, case >> 4 & 1, case >> 5);
                let mut sim = Sim::new(&engine);
                sim.set("pcie_bus_master", 1);
                sim.reset();
                sim.set("rq_ready", u64::from(still == 0));
                sim.set("data_ready", 1);
                (0..100).for_each(|_| sim.tick());
                let mut reads = 0;
                for i in 0..4 {
                    if kinds >> i & 1 == 1 {
                        give(&mut sim, "read", &READ);
                        reads += 1;
                    } else {
                        give(&mut sim, "write", &WRITE);
                    }
                }
                let (mut failed, mut left, mut first) = (0, 0, true);
                let mut step = |sim: &mut Sim, failed: &mut u32, left: &mut u32| {
                    if sim.get("rq_valid") == 1 && sim.get("rq_ready") == 1 {
                        let begins = std::mem::replace(&mut first, sim.get("rq_last") == 1);
                        let write = sim.get_bits("rq_data").to_bytes()[0] & 0x40 != 0;
                        *left += u32::from(begins && !write);
                    }
                    *failed += (sim.get("data_valid") & sim.get("data_error")) as u32;
                    sim.tick();
                };
                (0..5 * late).for_each(|_| step(&mut sim, &mut failed, &mut left));
                sim.set("pcie_bus_master", 0);
                sim.set("quiesce_drops", 1);
                (0..100).for_each(|_| step(&mut sim, &mut failed, &mut left));
                sim.set("rq_ready", 1);
                (0..200).for_each(|_| step(&mut sim, &mut failed, &mut left));
                assert_eq!(sim.get("idle"), 1, "case {case}: writes are under way");
                // Those that left before the link stood open were not looked at.
                assert!(
                    still == 0 || failed + left >= reads || left > 0,
                    "case {case}: {failed}, {left} of {reads}"
                );
                sim.set("quiesce_drops", 0);
                sim.set("pcie_bus_master", 1);
                let before = left;
                give(&mut sim, "read", &READ);
                (0..100).for_each(|_| step(&mut sim, &mut failed, &mut left));
                assert_eq!(
                    left,
                    before + 1,
                    "case {case}, {beat_bytes} bytes a beat: no read leaves any more"
                );
                give(&mut sim, "write", &WRITE);
                (0..100).for_each(|_| step(&mut sim, &mut failed, &mut left));
                assert_eq!(
                    sim.get("idle"),
                    1,
                    "case {case}, {beat_bytes} bytes a beat: no write leaves any more"
                );
            }
        }
    }
}
