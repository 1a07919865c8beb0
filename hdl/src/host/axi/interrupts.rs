// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts behind the events that they tell of.
//!
//! ```text
//!  interrupt --> pending bits --> one event queue a cycle is looked at --> wait for the events before --> interrupt
//! ```
//!
//! An event queue's interrupt leaves when the events that were taken before it have their responses: whoever it wakes finds them. Several interrupts of
//! a queue before that are one. Latency: up to as many cycles as there are event queues, two, and what the responses take.
//!
//! Reset, and that of the card by its host while it lasts, forgets what is pending.

use super::barrier::{Bursts, COUNT};
use crate::config::RnicConfig;
use crate::host::event::Interrupt;
use ferrowire_rtl::{lit, module, Scope, Sig, Style};

/// Holds interrupts back. `shut`: those that come are forgotten.
#[module]
pub fn interrupts(m: &Scope, cfg: &RnicConfig, interrupt: Interrupt, events: Bursts, shut: Sig) -> Interrupt {
    let (eqs, width) = (cfg.eqs, cfg.eq_bits());
    let one = |index: Sig| lit(eqs, 1).shl_by(index);
    let pending = m.reg("pending", eqs).reset(0);
    let eqn = interrupt.eqn.trunc(width);
    let vectors = m.mem("vectors", eqs, &interrupt.vector).style(Style::Distributed).build();
    vectors.write(interrupt.valid, eqn, &interrupt.vector);

    let at = m.reg("at", width).reset(0);
    m.set(&at, at + 1);
    let held = m.reg("held", 1).reset(0);
    let (held_eqn, before) = (m.reg("held_eqn", width).no_reset(), m.reg("before", COUNT).no_reset());
    let takes = (!held & pending.bit_at(at)).named("takes");
    m.when(takes, |m| {
        m.set(&held_eqn, at);
        m.set(&before, events.taken);
    });
    let goes = (held & events.reached(before)).named("goes");
    m.set(&held, !shut & (takes | (held & !goes)));
    let raised = interrupt.valid.repeat(eqs) & one(eqn);
    let kept = (pending & !(takes.repeat(eqs) & one(at))) | raised;
    m.set(&pending, kept & (!shut).repeat(eqs));
    Interrupt { valid: goes & !shut, eqn: held_eqn.zext(8), vector: vectors.read_now(held_eqn) }
}
