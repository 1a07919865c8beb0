// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moderation of completion queues: for how long entries have waited to be told of.
//!
//! ```text
//!  MODIFY_CQ -----+---> changed ---------------------------------+--> looks, to the completion writer
//!                 |                                              |
//!                 v                                              |
//!              periods --+                                       |
//!  waits -----> marks ---+--> passed? --> one that is late ------+
//!                   ^ a CQ a cycle
//! ```
//!
//! The [completion writer](super::cq) says when the first entry of an armed CQ begins to wait, and when none waits any more. A mark
//! holds the microsecond of the first; a sweep looks at one CQ a cycle, and asks the writer to look at one whose period is over. It asks
//! again until the writer says that nothing waits. A change of the limits is asked about once, `changing` until the writer has taken it.
//! A CQ that is late and on offer when its limits change stays on offer: its event was due before.
//!
//! Time counts in microseconds, of which one has begun already: a CQ is looked at when its period is over, at most a microsecond before,
//! and at most a sweep (`cqs` cycles) and five cycles for each other CQ that is late after that. Where the writer cannot write for
//! 65 ms, it may be as much later.
//!
//! What the writer says of a CQ takes one that is late off the offer, a cycle after the writer has changed its row. Until then the row
//! says that nothing waits: one that begins to wait anew is never taken for the one before. Reset: nothing waits; for `cqs` cycles nothing is looked at.

use super::CqLimits;
use crate::config::RnicConfig;
use crate::stream::Flagged;
use crate::types::TableWrite;
use ferrowire_rtl::{bits, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};

/// Bits of the time in microseconds: twice the longest period. With `waits`, a mark fills the width of a block RAM.
const TIME: u32 = 17;

/// What leaves.
#[derive(Interface)]
pub struct Moderation {
    /// CQs that the writer is to look at. The flag: the period is over.
    pub looks: Stream<Flagged>,
    /// Limits have changed, and the writer has not looked at the CQ yet.
    pub changing: Sig,
}

/// Since when an entry waits.
#[derive(Clone, Bundle)]
struct Mark {
    waits: Sig,
    since: Sig,
}

/// The times of all CQs. `waits`: the first entry begins to wait, or none waits any more.
#[module]
pub fn moderation(
    m: &Scope,
    cfg: &RnicConfig,
    limits: TableWrite<CqLimits>,
    waits: TableWrite<Sig>,
) -> Moderation {
    m.discard(&limits.entry.spare);
    let cq_bits = cfg.cq_bits();
    let now = m.reg("now_us", TIME).reset(0);
    m.when(cfg.microsecond(m), |m| m.set(&now, now + 1));

    // After reset every mark is taken back, one a cycle.
    let sweep = m.reg("sweep", cq_bits).reset(0);
    let ready = m.reg("ready", 1).reset(0);
    m.when(sweep.all(), |m| m.set(&ready, 1));

    // The writer says it late in its cycle.
    let told = m.reg("told", 1).reset(0);
    m.set(&told, waits.enable);
    let (cq, begins) = (m.delay("cq", &waits.index), m.delay("begins", &waits.entry));
    let shape = Mark { waits: bits(1), since: bits(TIME) };
    let marks = m.mem("marks", cfg.cqs, &shape).style(Style::Block).build();
    marks.write(told | !ready, ready.then(cq, sweep), &Mark { waits: begins & ready, since: now });
    let periods = m.mem("periods", cfg.cqs, &bits(16)).init(vec![]).build();
    periods.write(limits.enable, limits.index, &limits.entry.period_us);

    // The sweep: read, keep, compare. It stands still in the cycle of a write, which may be of the same row, and while one that is late
    // is on offer, so that this does not cost the next a sweep.
    let holds = m.reg("holds", 1).reset(0);
    let late_cq = m.reg("late_cq", cq_bits).no_reset();
    let stands = m.wire("stands", 1);
    m.when(!stands | !ready, |m| m.set(&sweep, sweep + 1));
    let looks = ready & !stands;
    let looking = m.reg("looking", 1).reset(0);
    m.set(&looking, looks);
    let looked_cq = m.delay("looked_cq", &sweep);
    let mark = marks.read(m, looks, sweep, Collision::Any);
    let period = periods.read(m, looks, sweep, Collision::Any);
    // Block RAM is slow to read: what it says is compared in the next cycle. One that is late behind another stays there.
    let weighing = m.reg("weighing", 1).reset(0);
    let weighed_cq = m.reg("weighed_cq", cq_bits).no_reset();
    let weighed = m.reg_of("weighed", &mark);
    let limit = m.reg("limit", 16).no_reset();
    let passed = (now - weighed.since).named("passed_us");
    let over = weighing & weighed.waits & passed.ge(limit.zext(TIME));
    let outdated = |at: Sig| (told & cq.eq(at)) | (limits.enable & limits.index.eq(at));
    let counts = over & !outdated(weighed_cq);
    let finds = (counts & !holds).named("finds");
    let stays = counts & holds;
    m.set(&weighing, stays | (looking & !outdated(looked_cq)));
    m.when(!stays, |m| {
        m.set(&weighed_cq, looked_cq);
        m.set_all(&weighed, &mark);
        m.set(&limit, period);
    });
    m.drive(&stands, over | holds | told | limits.enable);

    // What the writer is to look at.
    let stale = told & cq.eq(late_cq);
    let changed = m.reg("changed", 1).reset(0);
    let changed_cq = m.reg("changed_cq", cq_bits).no_reset();
    let offer = Flagged { row: changed.then(changed_cq, late_cq), flags: !changed };
    let out = Stream::new(m, "out", changed | holds, offer);
    m.when(finds, |m| {
        m.set(&holds, 1);
        m.set(&late_cq, weighed_cq);
    })
    .otherwise_when((out.ready & !changed) | stale, |m| m.set(&holds, 0));
    m.when(limits.enable, |m| {
        m.set(&changed, 1);
        m.set(&changed_cq, limits.index);
    })
    .otherwise_when(out.ready, |m| m.set(&changed, 0));
    Moderation { looks: out, changing: limits.enable | changed }
}

#[cfg(test)]
mod tests;
