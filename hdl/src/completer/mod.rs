// SPDX-License-Identifier: MIT OR Apache-2.0
//! The completer: what has been sent and not yet acknowledged, and how it ended.
//!
//! ```text
//!  sent -----> record ----------> track --> entries ----------------> settle --> completions, faults
//!                                 ^  |  \--> answered --> scatter --> runs ...
//!                                 |  |  \--> restarts --> segment, kicks --> schedule
//!  departed --> timer --- expiry -+  |             (timer: probes --> whoever sends again)
//!                 ^-- progress, pause+
//! ```

mod recall;
mod record;
mod scatter;
mod settle;
mod track;

pub use recall::{recall, Recall, Recalled, Wanted};
pub use record::{record, Freed, Front, Message, Recorded};
pub use scatter::{scatter, AnswerClass, Answered, Scattered};
pub use settle::{settle, Entry, Settled};
pub use track::{track, Counts, Events, Tracked, Written};

use crate::config::RnicConfig;
use crate::context::congestion::Marked;
use crate::context::timer::{timer, Departed, Pause, Progress, Timeout};
use crate::memory::Withdrawals;
use crate::requester::{Flush, KeptSge, Restart, Sent};
use crate::responder::{Outcome, Run};
use crate::stream::{breath, fifo};
use crate::types::{
    Completion, DmaReadData, DmaReadRequest, Headers, Oldest, QpBroadcast, ReadsDone, SqStart, TableWrite,
};
use ferrowire_rtl::{Interface, Scope, Sig, Stream};

/// What comes out of the completer.
#[derive(Interface)]
pub struct Completer {
    /// Completions, in order for each QP.
    pub completions: Stream<Completion>,
    /// QPs that go to the error state.
    pub faults: Vec<Stream<Sig>>,
    /// Where READ responses and atomics' values go, in order.
    pub runs: Stream<Run>,
    /// The values.
    pub values: Stream<Sig>,
    /// Reads of send WQEs.
    pub read: Stream<DmaReadRequest>,
    /// QPs that may have room for more messages, or for READs and atomics.
    pub kicks: Vec<Stream<Sig>>,
    /// QPs whose peer may have receives, as `oldest` tells.
    pub eased: Stream<Sig>,
    /// READs and atomics that are done.
    pub reads_done: ReadsDone,
    /// What is oldest of a QP has moved.
    pub oldest: TableWrite<Oldest>,
    /// QPs that send again, or hold.
    pub restarts: Stream<Restart>,
    /// A message's place is free again.
    pub freed: Sig,
    /// A send queue that goes on after an error has been flushed.
    pub recovered: Sig,
    /// A place that was kept for a message is not needed.
    pub credit: Sig,
    /// Answers that met congestion.
    pub marked: Marked,
    /// QPs to probe, of a card with selective retransmission.
    pub probe: Option<Stream<Sig>>,
    /// Of the QP that is asked for: the PSN behind the newest packet that was sent.
    pub next_psn: Sig,
    /// Counted events.
    pub counts: Counts,
}

/// What the completer is told.
#[derive(Interface)]
pub struct Input {
    /// QPs that start.
    pub init: Stream<SqStart>,
    /// What was sent.
    pub sent: Stream<Sent>,
    /// QPs of which a request leaves for the wire. It is always taken.
    pub departed: Stream<Departed>,
    /// What the peers answer.
    pub answers: Stream<Headers>,
    /// What became of what was placed: an outcome for each good or bad answer among the runs.
    pub outcomes: Stream<Outcome>,
    /// A unit of a READ or an atomic that is being sent.
    pub kept: KeptSge,
    /// What its reads bring.
    pub data: Stream<DmaReadData>,
    /// QPs to flush.
    pub flush: Stream<Flush>,
    /// Packets may be on the wire that are not in `sent` yet.
    pub late: Sig,
    /// The unit of the timers has passed.
    pub tick: Sig,
    /// Microseconds without progress until a QP is probed, of [`PROBE_BITS`](crate::context::timer::PROBE_BITS) bits; 0: never.
    pub probe: Sig,
    /// What was taken back, and is not over.
    pub withdrawals: TableWrite<Withdrawals>,
    /// QPs of which all is over.
    pub over: Stream<Sig>,
    /// The QP that is asked for.
    pub query: Sig,
}

/// Its parts, joined.
pub fn completer(m: &Scope, cfg: &RnicConfig, broadcast: QpBroadcast, input: Input) -> Completer {
    let Input {
        init,
        sent,
        departed,
        answers,
        outcomes,
        kept,
        data,
        flush,
        late,
        tick,
        probe,
        withdrawals,
        over,
        query,
    } = input;
    let freed = m.wire_of("freed", &Freed::of(cfg));
    let (progress, progresses) = m.later("progress", &Progress::of(cfg));
    let (pause, pauses) = m.later("pause", &Pause::of(cfg));
    let recorded = record(m, cfg, broadcast.clone(), init, sent, flush, freed.clone(), over, query);
    let given = &broadcast.attributes;
    let timeout = Timeout { code: given.entry.timeout, selective: given.entry.selective };
    let timeouts = TableWrite { enable: given.enable, index: given.index, entry: timeout };
    let timers = timer(m, cfg, tick, timeouts, departed, progress, pause, probe);
    let written = Written { pool: recorded.pool, links: recorded.links, front: recorded.front };
    let events = Events {
        reset: recorded.reset,
        init: recorded.init,
        answer: answers,
        failed: breath(&m.label("failed"), cfg.unhurried(), recorded.failed),
        own: breath(&m.label("own"), cfg.unhurried(), recorded.own),
        flush: recorded.flush,
        expired: breath(&m.label("expired"), cfg.unhurried(), timers.expired),
    };
    let tracked = track(m, cfg, broadcast.clone(), written, events, withdrawals, late);
    m.set_all(&freed, &tracked.freed);
    progresses.connect(tracked.progress);
    pauses.connect(tracked.pause);
    let (wanted, wants) = m.later("wanted", &Wanted::of(cfg));
    let recalls = recall(m, cfg, broadcast, kept, wanted, data);
    let scattered = scatter(m, cfg, tracked.answered, recalls.recalled);
    wants.connect(scattered.wanted);
    let settled = settle(m, cfg, tracked.entries, outcomes);
    // Two failures of one cycle are counted one after the other.
    let another = m.reg("another_error", 1).reset(0);
    let (here, there) = (tracked.counts.errors, settled.failed);
    m.set(&another, (here & there) | (another & (here | there)));
    let errors = here | there | another;
    Completer {
        completions: settled.completions,
        faults: vec![tracked.faults, settled.faults],
        runs: fifo(&m.label("runs"), 2, scattered.runs),
        values: tracked.values,
        read: recalls.read,
        kicks: vec![tracked.kicks, settled.kicks],
        eased: tracked.eased,
        reads_done: settled.reads_done,
        oldest: tracked.oldest,
        restarts: tracked.restarts,
        freed: tracked.freed.valid,
        recovered: tracked.recovered,
        credit: recorded.credit,
        marked: tracked.marked,
        probe: timers.probe,
        next_psn: recorded.next_psn,
        counts: Counts { errors, ..tracked.counts },
    }
}

#[cfg(test)]
mod tests;
