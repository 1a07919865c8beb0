// SPDX-License-Identifier: MIT OR Apache-2.0
//! The completer: what has been sent and not yet acknowledged, and how it ended.

mod record;
mod track;

pub use record::{record, Freed, Front, Message, Recorded};
pub use track::{track, Events, Tracked, Written};

use crate::config::RnicConfig;
use crate::requester::{Flush, Sent};
use crate::types::{Headers, QpBroadcast, QpInit};
use ferrowire_rtl::{Scope, Stream};

/// Both halves, joined.
pub fn completer(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    init: Stream<QpInit>,
    sent: Stream<Sent>,
    answers: Stream<Headers>,
    flush: Stream<Flush>,
) -> Tracked {
    let freed = m.wire_of("freed", &Freed::of(cfg));
    let recorded = record(m, cfg, broadcast.state.clone(), init, sent, flush, freed.clone());
    let written = Written { pool: recorded.pool, links: recorded.links, front: recorded.front };
    let events = Events {
        reset: recorded.reset,
        init: recorded.init,
        answer: answers,
        failed: recorded.failed,
        flush: recorded.flush,
    };
    let tracked = track(m, cfg, broadcast, written, events);
    m.set_all(&freed, &tracked.freed);
    tracked
}

#[cfg(test)]
mod tests;
