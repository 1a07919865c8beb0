// SPDX-License-Identifier: MIT OR Apache-2.0
//! WQEs that the host has pushed: whose they are, until they are wanted.
//!
//! ```text
//!  words -----> place in the slot that is filled --> write --> store of `fetch`
//!  doorbell --> slot: QP, index; or forget what the QP has
//!  QP, index that is looked at --> compare --> found, slot
//! ```
//!
//! The WQE lies in the queue as well, so any slot may be forgotten at any time: it is then fetched as others are. Slots are filled in turns; one that is given out is
//! kept until its WQE was taken from the store.
//!
//! Each doorbell of a QP ends what is there of it, and begins anew with what it brings. A WQE is not wanted before a doorbell has told of it, in
//! this life of the QP, so what is found is that doorbell's.
//!
//! `found` comes a cycle after the look. A word that comes for a slot that is given out in that cycle is not written, nor those behind it.
//! Reset empties the slots.

use crate::config::RnicConfig;
use crate::types::Pushes;
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Interface, Scope, Sig};

/// A word for the store.
#[derive(Clone, Bundle)]
pub struct SlotWrite {
    /// In this cycle.
    pub valid: Sig,
    /// Which slot.
    pub slot: Sig,
    /// Which word of it.
    pub word: Sig,
    /// Its eight bytes.
    pub data: Sig,
}

impl SlotWrite {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        SlotWrite { valid: bits(1), slot: bits(cfg.push_bits()), word: bits(3), data: bits(64) }
    }
}

/// A WQE that is wanted.
#[derive(Clone, Bundle)]
pub struct Wanted {
    /// Whose.
    pub qp: Sig,
    /// Its index.
    pub index: Sig,
}

/// A slot whose WQE was taken.
#[derive(Clone, Bundle)]
pub struct Freed {
    /// In this cycle.
    pub valid: Sig,
    /// Which.
    pub slot: Sig,
}

impl Freed {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Freed { valid: bits(1), slot: bits(cfg.push_bits()) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Slots {
    /// What was wanted a cycle before is there, and has not been forgotten since.
    pub found: Sig,
    /// Where.
    pub slot: Sig,
    /// Words.
    pub write: SlotWrite,
}

/// The slots. `takes`: what is found is given out.
#[module]
pub fn push(m: &Scope, cfg: &RnicConfig, pushes: Pushes, wanted: Wanted, takes: Sig, freed: Freed) -> Slots {
    let (slots, width) = (cfg.push_slots, cfg.push_bits());
    let fill = m.reg("fill", width).reset(0);
    let good = m.reg("good", 1).reset(0);
    let flags = |name: &str| -> Vec<Sig> {
        (0..slots).map(|slot| m.reg(&format!("{name}{slot}"), 1).reset(0)).collect()
    };
    let (valid, given) = (flags("valid"), flags("given"));
    let bell = &pushes.bell;

    let is_fill: Vec<Sig> = (0..slots).map(|slot| fill.eq(slot)).collect();
    let first = pushes.word.valid & pushes.word.word.eq(0);
    let ends = (pushes.rings & pushes.pushed & good).named("is_whole");
    let mut founds = Vec::new();
    let refuses = m.wire("refuses", 1);
    for slot in 0..slots as usize {
        let label = |name: &str| format!("{name}{slot}");
        let (valid, given) = (valid[slot], given[slot]);
        let (qp, index) =
            (m.reg(&label("qp"), cfg.qp_bits()).no_reset(), m.reg(&label("index"), 16).no_reset());
        let fits = valid & qp.eq(wanted.qp) & index.eq(wanted.index);
        let found = m.delay(&label("fits"), &fits) & valid;
        let (fills, leaves) = (ends & is_fill[slot], takes & found);
        let forgets = (pushes.rings & qp.eq(bell.qp)) | (first & !refuses & is_fill[slot]) | leaves;
        m.set(&valid, fills | (valid & !forgets));
        m.when(fills, |m| {
            m.set(&qp, bell.qp);
            m.set(&index, bell.producer - 1);
        });
        m.set(&given, leaves | (given & !(freed.valid & freed.slot.eq(slot))));
        founds.push(found);
    }
    let busy: Vec<Sig> = (0..slots as usize).map(|slot| given[slot] | (takes & founds[slot])).collect();
    m.drive(&refuses, m.select(fill, &busy));
    let writes = (pushes.word.valid & m.mux(first, &!refuses, &good)).named("writes");
    m.when(first, |m| m.set(&good, !refuses)).otherwise_when(ends, |m| m.set(&good, 0));
    m.when(ends, |m| m.set(&fill, fill + 1));

    let slot = (1..slots).fold(lit(width, 0), |slot, i| founds[i as usize].then(lit(width, i), slot));
    let write = SlotWrite { valid: writes, slot: fill, word: pushes.word.word, data: pushes.word.data };
    Slots { found: cat(&founds).any(), slot, write }
}

#[cfg(test)]
mod tests;
