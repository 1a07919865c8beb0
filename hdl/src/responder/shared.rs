// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared receive queues: which WQE the next message takes, and whether few are left (IBTA volume 1, 10.2.9).
//!
//! ```text
//!  posted ----> producers --+                +--> there is one, its index, domain, stride --> check
//!  CREATE_SRQ --> entries --+--> [queue] ----+
//!  take -----> indices -----+
//!     \         ^ ask                +--> fewer than the limit? --> gather --> reports (SRQ_LIMIT)
//!      +---> look at the queue ------+            |
//!  MODIFY_SRQ ---> limits -----------+<-- disarm -+
//! ```
//!
//! The messages of all QPs that share a queue take its WQEs in the order in which they begin. A message keeps the index of its WQE
//! until it ends: so several are under way at once, and end in any order. Nothing is given back: a WQE that was taken is
//! completed by the QP that took it, with an error if need be.
//!
//! What `check` looks at is there in the same cycle; a WQE can be taken every third cycle. The limit is compared in the cycle behind a take,
//! or behind its arming where no take comes: so it tells at once what was true before. It tells once for each arming. A queue that
//! begins is not looked at until something is taken: it is empty.
//!
//! All tables are LUT RAM of a few dozen rows. The longest path is the comparison with the limit. Reset leaves the tables as they
//! are; a queue's creation writes its rows.

use crate::config::RnicConfig;
use crate::host::event::Report;
use crate::host::{SrqControl, SrqStatus};
use crate::stream::{gather, Flagged, Forget};
use crate::types::TableWrite;
use ferrowire_rtl::{bits, lit, module, Bundle, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::EventKind;

/// What `check` does with a queue.
#[derive(Clone, Bundle)]
pub struct Take {
    /// Which one it looks at, and takes from.
    pub srq: Sig,
    /// In this cycle the oldest WQE is taken.
    pub valid: Sig,
}

impl Take {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Take { srq: bits(cfg.srq_bits()), valid: bits(1) }
    }
}

/// What `check` sees of the queue that it looks at.
#[derive(Clone, Bundle)]
pub struct Seen {
    /// There is a WQE.
    pub ready: Sig,
    /// The index of the next one.
    pub index: Sig,
    /// Protection domain.
    pub pd: Sig,
    /// Log2 of the units of a WQE.
    pub stride: Sig,
}

impl Seen {
    /// The shape.
    pub fn of() -> Self {
        Seen { ready: bits(1), index: bits(16), pd: bits(24), stride: bits(2) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Shared {
    /// The queue that `check` looks at.
    pub seen: Seen,
    /// The queue that the command processor asks for.
    pub status: SrqStatus,
    /// Of the queue that `receive` asked for in the cycle before: how many WQEs have been taken, free-running.
    pub taken: Sig,
    /// Queues that have fewer WQEs than their limit.
    pub reports: Stream<Report>,
}

/// What is kept of a queue that does not change.
#[derive(Clone, Bundle)]
struct Entry {
    pd: Sig,
    stride: Sig,
}

/// The shared queues. `posted`: the index behind the newest WQE of each receive queue; `ask`: of which one `receive` asks how many have been taken.
#[module]
pub fn shared(
    m: &Scope,
    cfg: &RnicConfig,
    control: SrqControl,
    posted: TableWrite<Sig>,
    take: Take,
    ask: Sig,
) -> Shared {
    let (entry, limit) = (&control.entry, &control.limit);
    m.discard(&entry.entry);
    let srq_bits = cfg.srq_bits();
    let table = |name: &str| m.mem(name, cfg.srq_rows(), &bits(16)).style(Style::Distributed).build();
    let (producers, indices, limits) = (table("producers"), table("indices"), table("limits"));
    let entries = m.mem("entries", cfg.srq_rows(), &Entry { pd: bits(24), stride: bits(2) });
    let entries = entries.style(Style::Distributed).build();
    entries.write(entry.enable, entry.index, &Entry { pd: entry.entry.pd, stride: entry.entry.stride });
    producers.write(posted.enable & posted.index.msb(), posted.index.trunc(srq_bits), &posted.entry);

    // What `check` looks at.
    let index = indices.read_now(take.srq).named("next_index");
    let kept = entries.read_now(take.srq);
    let ready = producers.read_now(take.srq).ne(index);
    let seen = Seen { ready, index, pd: kept.pd, stride: kept.stride };

    // What the command processor says waits for a cycle without a take: its next word is far.
    let few = m.wire("few", 1);
    let few_srq = m.reg("few_srq", srq_bits).no_reset();
    let (pending, begins) = (m.reg("pending", 1).reset(0), m.reg("begins", 1).no_reset());
    let (srq, armed) = (m.reg("srq", srq_bits).no_reset(), m.reg("armed", 16).no_reset());
    let acts = pending & !take.valid & !few;
    let says = entry.enable | limit.enable;
    m.assert(!(says & pending) | acts, "a command comes after the one before it is done");
    m.when(says, |m| {
        m.set(&pending, 1);
        m.set(&begins, entry.enable);
        m.set(&srq, m.mux(entry.enable, &entry.index, &limit.index));
        m.set(&armed, limit.enable.then(limit.entry, lit(16, 0)));
    })
    .otherwise_when(acts, |m| m.set(&pending, 0));
    indices.write(
        take.valid | (acts & begins),
        m.mux(take.valid, &take.srq, &srq),
        &m.mux(take.valid, &(index + 1), &lit(16, 0)),
    );
    limits.write(acts | few, m.mux(few, &few_srq, &srq), &m.mux(few, &lit(16, 0), &armed));

    // Few left? Behind each take, and behind an arming of a queue that is there already.
    let looks = m.delay("looks", &(take.valid | (acts & !begins)));
    let looked = m.delay("looked", &m.mux(take.valid, &take.srq, &srq));
    let left = producers.read_now(looked) - indices.read_now(looked);
    let found = m.reg("found", 1).reset(0);
    m.set(&found, looks & left.lt(limits.read_now(looked)));
    m.drive(&few, found);
    m.set(&few_srq, looked);
    let (telling, told) = (m.reg("telling", 1).reset(0), m.reg("told", srq_bits).no_reset());
    let tell = Stream::new(m, "tell", telling, Flagged { row: told, flags: lit(1, 1) });
    m.when(few, |m| {
        m.set(&telling, 1);
        m.set(&told, few_srq);
    })
    .otherwise_when(tell.ready, |m| m.set(&telling, 0));
    m.assert(!(few & telling) | tell.ready, "who gathers waits for nobody");
    let forget = Forget { valid: entry.enable, row: entry.index };
    let low = gather(&m.label("low"), cfg.srq_rows(), tell, forget);
    let reports = low.map(|low| Report {
        kind: lit(8, EventKind::SrqLimit.code()),
        object: low.row.zext(24),
        cause: lit(8, 0),
    });

    let asked = control.query;
    let status = SrqStatus {
        taken: indices.read_now(asked),
        posted: producers.read_now(asked),
        limit: limits.read_now(asked),
    };
    let taken = m.delay("taken", &indices.read_now(ask));
    Shared { seen, status: m.delay("status", &status), taken, reports }
}

#[cfg(test)]
mod tests;
