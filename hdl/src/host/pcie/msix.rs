// SPDX-License-Identifier: MIT OR Apache-2.0
//! MSI-X: the table of vectors, the pending bits, and the writes that are the interrupts.
//!
//! ```text
//!  interrupt --> pending bits --> one vector a cycle is looked at: pending, not masked? --> write of its message
//!                    |                                  ^
//!  access <------ PBA, table: address, message, mask ---+
//! ```
//!
//! A vector that is masked, or whose function is, stays pending and is sent when the mask is taken off (PCI 3.0, 6.8.3.4). Several
//! interrupts of a vector before it is sent are one. Latency from the pulse to the write: up to as many cycles as there are vectors, and two.
//! An access takes two cycles.
//!
//! Reset masks every vector and forgets what is pending; addresses and messages are then whatever they were. A reset of the card by its host forgets
//! what is pending, and masks if it is one of the whole function; what is on offer by then is sent.
//!
//! Bad input: an interrupt of a vector that the table does not have is forgotten; accesses behind the table read zero and write nothing;
//! the pending bits cannot be written.

use super::PcieSettings;
use crate::config::RnicConfig;
use crate::host::csr::{CsrRequest, CsrResponse};
use crate::host::dma::Order;
use crate::host::event::Interrupt;
use crate::host::reset::Quiesce;
use crate::types::DmaWrite;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Interface, Scope, Sig, Stream, Style};

/// What comes out.
#[derive(Interface)]
pub struct Msix {
    /// Answers to reads of table and pending bits.
    pub response: Stream<CsrResponse>,
    /// Interrupts.
    pub write: Stream<DmaWrite>,
}

/// Bytes of a message and of a table entry.
const MESSAGE: u32 = 4;

/// The table and its interrupts.
#[module]
pub fn msix(
    m: &Scope,
    cfg: &RnicConfig,
    settings: PcieSettings,
    quiesce: Quiesce,
    access: Stream<CsrRequest>,
    interrupt: Interrupt,
) -> Msix {
    m.discard(&quiesce);
    m.discard(&interrupt.eqn);
    m.discard(&settings);
    let vectors = cfg.eqs;
    let width = clog2(u64::from(vectors));
    let addresses = m.mem("addresses", vectors, &bits(64)).style(Style::Distributed).build();
    let messages = m.mem("messages", vectors, &bits(32)).style(Style::Distributed).build();
    let masks = m.reg("masks", vectors).reset(&ferrowire_rtl::Bits::ones(vectors));
    let pending = m.reg("pending", vectors).reset(0);
    let one = |index: Sig| lit(vectors, 1).shl_by(index);

    // The host's accesses.
    let answered = m.reg("answered", 1).reset(0);
    let answer = m.reg("answer", 64).no_reset();
    let held = m.reg("held", 1).reset(0);
    // Who reads a mask back that he has set must not meet an interrupt behind it that was on its way out before.
    access.accept(!answered & (access.write | !held | !settings.bus_master));
    let (of_pba, entry) = (access.address.bit(11), access.address.slice(4, 7));
    let there = entry.zext(8).lt(vectors);
    let entry = entry.trunc(width);
    let (high, upper) = (access.address.bit(3), access.address.bit(2));
    let writes = access.fire() & access.write & there & !of_pba;
    // Which double words of the aligned eight bytes are written, and with what.
    let words = cat(&[!upper, upper | access.wide]);
    let low = access.data.trunc(32);
    let value = cat(&[low, access.wide.then(access.data.slice(32, 32), low)]);
    addresses.write_lanes(writes & !high, entry, &value, words, 32);
    messages.write(writes & high & words.bit(0), entry, &low);
    let masked = masks.bit_at(entry);
    let table =
        m.mux(high, &cat(&[messages.read_now(entry), masked, lit(31, 0)]), &addresses.read_now(entry));
    let quads = pending.zext(128).chunks(64);
    let row = m.mux(of_pba, &m.mux(high, &quads[1], &quads[0]), &table);
    let known = m.mux(of_pba, &access.address.slice(4, 7).eq(0), &there);
    let row = known.repeat(64) & row;
    m.when(access.fire() & !access.write, |m| {
        m.set(&answered, 1);
        m.set(&answer, (!access.wide & upper).then(row >> 32, row));
    });
    let response = Stream::new(m, "response", answered, CsrResponse { data: answer });
    m.when(response.fire(), |m| m.set(&answered, 0));
    let mask_written = writes & high & words.bit(1);
    let chosen = one(entry);
    let mask = value.bit(32).then(masks | chosen, masks & !chosen);
    m.when(mask_written, |m| m.set(&masks, mask));
    m.when(quiesce.wipe, |m| m.set(&masks, lit(1, 1).repeat(vectors)));

    // A vector a cycle.
    let at = m.reg("at", width).reset(0);
    let on = m.delay("on", &(settings.msix_enable & !settings.msix_mask));
    let (address, message) = (m.reg("address", 64).no_reset(), m.reg("message", 32).no_reset());
    let sends = (!held & on & !quiesce.shut & pending.bit_at(at) & !masks.bit_at(at)).named("sends");
    m.set(&at, at.eq(vectors - 1).then(lit(width, 0), at + 1));
    m.when(sends, |m| {
        m.set(&address, addresses.read_now(at));
        m.set(&message, messages.read_now(at));
    });
    let valid = interrupt.valid & interrupt.vector.zext(9).lt(vectors);
    let raised = valid.repeat(vectors) & one(interrupt.vector.trunc(width));
    let kept = (pending & !(sends.repeat(vectors) & one(at))) | raised;
    m.set(&pending, kept & (!quiesce.shut).repeat(vectors));

    let lanes = cfg.lane_bits();
    let first = cat(&[lit(2, 0), address.slice(2, lanes - 2)]);
    let write = DmaWrite {
        address: cat(&[lit(2, 0), address.slice(2, 62)]),
        length: lit(13, MESSAGE),
        data: message.repeat(cfg.beat_bytes / MESSAGE),
        strobe: lit(cfg.beat_bytes, 0xf).shl_by(first),
        last: lit(1, 1),
        order: Order::Event.code(),
    };
    let write = Stream::new(m, "write", held, write);
    m.set(&held, sends | (held & !write.ready));
    Msix { response, write }
}
