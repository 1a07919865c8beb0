// SPDX-License-Identifier: MIT OR Apache-2.0
//! The completer: what has been sent and not yet acknowledged, and how it ended.

mod record;
mod track;

pub use record::{record, Freed, Front, Message, Recorded};
pub use track::{track, Tracked, Written};

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
    let recorded = record(m, cfg, init, sent, flush, freed.clone());
    let written = Written { pool: recorded.pool, links: recorded.links, front: recorded.front };
    let tracked = track(m, cfg, broadcast, written, recorded.init, answers, recorded.failed, recorded.flush);
    m.set_all(&freed, &tracked.freed);
    tracked
}
