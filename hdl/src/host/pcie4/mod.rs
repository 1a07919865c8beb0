// SPDX-License-Identifier: MIT OR Apache-2.0
//! The adapter to the PCIe4 integrated block of AMD's UltraScale+ devices, at 512 bits (product guide PG213).
//!
//! ```text
//!             +-----------------------------------------+
//!  RQ <-------| descriptor <-- header, 16 bytes         |<--- pcie engine
//!  seq_num -->| writes that no completion passes        |
//!  RC ------->| packets that share beats --> head, data |--->
//!  CQ ------->| descriptor --> header, 16 bytes         |--->
//!  CC <-------| descriptor <-- header, 12 bytes         |<---
//!             +-----------------------------------------+
//! ```
//!
//! A descriptor is as long as the header that it stands for, so on RQ, CQ and CC the first beat of a packet is written over and nothing is moved.
//! `ferrowire_spec::pcie::pcie4` has the tables.
//!
//! The block is to be configured so: 512 bits, data behind the descriptor at once ("DWORD-aligned"), tags chosen by the card ("client tag"), packets may
//! share beats on RC and nowhere else, `pcie_cq_np_req` always 1, no parity. With packets that share beats 256 bytes of a completion take 4.25 beats, more
//! than a Gen3 x16 link brings; without, five.
//!
//! **Order.** The block promises nothing between RQ and CC (PG213, "Transaction ordering"): it gives back the sequence number of a request when nothing that
//! is handed to CC later can pass it. The packet that ends a write of the card has sequence number 1, others 0; a completion for the CPU waits for as many 1s as
//! there were writes before it.
//!
//! **Credits.** The block holds up all that is behind a read for which the host gives no credit, so it is offered none without one: `tfc_nph_av` is the block's output
//! `pcie_tfc_nph_av`, at most "15 or more", which does not have the requests of the last two cycles in it. Reads have no data, hence `pcie_tfc_npd_av` does not count.
//!
//! What the block finds wrong with a completion ends its read: poisoned data, another status, a byte count that does not fit, time-out, function
//! reset. A beat with `discontinue` spoils its packet: of a read it ends the read, and a request of the CPU is dropped and counted.
//!
//! **Poisoned requests of the CPU** cannot be told from others: bit 79 of the CQ descriptor, which is the poisoned bit on RQ, is reserved there, and none of the
//! 183 wires of `m_axis_cq_tuser` has the EP bit (PG213, "Completer Request Descriptor Formats" and "Completer Request Interface"; the block of Versal CPM5 has more
//! wires). So such a write of BAR 0 is carried out. The host learns of it from the block's configuration space: its advanced error reporting has "poisoned TLP
//! received" (PCIe 6.2.3, 7.8.4).

mod cc;
mod cq;
mod rc;
mod rq;

pub use super::pcie::send::CREDITS;
use super::pcie::{core, writes, FromHost, PcieSettings, ToHost};
use crate::config::RnicConfig;
use ferrowire_rtl::{bits, build, BuildErrors, Bundle, Netlist, Scope, Sig, Stream};
use ferrowire_spec::pcie::pcie4::{cc_user, cq_user, rc_user, rq_user, BEAT};
use ferrowire_spec::Layout;

/// Bytes in a beat.
const BYTES: u32 = BEAT as u32;
/// Bits of data.
const BITS: u32 = 8 * BYTES;
/// Double words.
const WORDS: u32 = BYTES / 4;

/// A beat of one of the block's streams.
#[derive(Clone, Bundle)]
pub struct Axis {
    /// `tdata`.
    pub data: Sig,
    /// `tkeep`: a bit a double word.
    pub keep: Sig,
    /// `tlast`.
    pub last: Sig,
    /// `tuser`.
    pub user: Sig,
}

/// Wires of a table of side signals: its last field fills the last byte and is not there.
fn wires(layout: &Layout) -> u32 {
    u32::from(layout.fields.last().expect("a table has fields").offset)
}

impl Axis {
    fn of(user: &Layout) -> Self {
        Axis { data: bits(BITS), keep: bits(WORDS), last: bits(1), user: bits(wires(user)) }
    }

    /// Requests of the card.
    pub fn rq() -> Self {
        Self::of(&rq_user::LAYOUT)
    }

    /// Completions for the card.
    pub fn rc() -> Self {
        Self::of(&rc_user::LAYOUT)
    }

    /// Requests of the CPU.
    pub fn cq() -> Self {
        Self::of(&cq_user::LAYOUT)
    }

    /// Completions of the card.
    pub fn cc() -> Self {
        Self::of(&cc_user::LAYOUT)
    }
}

/// Sequence numbers that come back: `pcie_rq_seq_num0` and `1`, with their valids.
#[derive(Clone, Bundle)]
pub struct SeqNums {
    /// Whether there is one, either of two.
    pub valid: Sig,
    /// The first.
    pub number0: Sig,
    /// The second.
    pub number1: Sig,
}

impl SeqNums {
    /// The shape.
    pub fn of() -> Self {
        SeqNums { valid: bits(2), number0: bits(6), number1: bits(6) }
    }
}

/// The engine before the block, alone: ports as of [`pcie::engine`](super::pcie::engine), `rq_seq` and
/// `tfc_nph_av`.
///
/// # Errors
/// What the build-time checks find; none for a valid configuration with the block.
pub fn engine(cfg: &RnicConfig) -> Result<Netlist, BuildErrors> {
    build("engine", |m| {
        let host = ToHost::ports(m, cfg);
        let settings = m.input_of("pcie", &PcieSettings::of());
        let (rc, cq) = (m.stream_in("rc", &Axis::rc()), m.stream_in("cq", &Axis::cq()));
        let sent = m.input_of("rq_seq", &SeqNums::of());
        let credits = m.input("tfc_nph_av", CREDITS);
        pcie4(m, cfg, settings, rc, cq, sent, credits, host).into_ports(m);
    })
}

/// The engine before the block.
#[allow(clippy::too_many_arguments)]
pub fn pcie4(
    m: &Scope,
    cfg: &RnicConfig,
    settings: PcieSettings,
    rc: Stream<Axis>,
    cq: Stream<Axis>,
    sent: SeqNums,
    credits: Sig,
    host: ToHost,
) -> FromHost<Axis> {
    let completions = rc::rc(m, rc);
    let cq = cq::cq(m, cq);
    // Writes that the block says are on their way.
    let departed = m.reg("writes_departed", writes::COUNT).reset(0);
    let ended = |valid: Sig, number: Sig| (valid & number.eq(rq::ENDS)).zext(writes::COUNT);
    let more = ended(sent.valid.bit(0), sent.number0) + ended(sent.valid.bit(1), sent.number1);
    let core = core(m, cfg, settings, completions, cq, departed, Some(credits), host);
    m.set(&departed, departed + more + core.dropped.zext(writes::COUNT));
    m.discard(&core.departed);
    FromHost {
        data: core.data,
        csr: core.csr,
        rq: rq::rq(m, core.rq),
        cc: cc::cc(m, core.cc),
        events: core.events,
        idle: core.idle,
    }
}

#[cfg(test)]
mod tests;
