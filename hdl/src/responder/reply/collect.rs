// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was read of host memory: payload into a buffer, words of atomics to `atomic`.
//!
//! ```text
//!  ends --+
//!         v            +--> begun, verdict of each packet --> depart
//!  data -> join -------+--> FIFO, block RAM --> gate --> payload
//!           |                                    ^
//!           +--> words                 passes ---+ of each packet whether it goes or is forgotten
//! ```
//!
//! Room was reserved before anything was asked: data is never held up, one beat a cycle. A packet on two pages came with two
//! reads and becomes one run of beats. A packet whose read failed has the mark `poisoned` with its last beat, so that its
//! frame never leaves, and a bad verdict.
//!
//! A packet's payload leaves only once `depart` has said what becomes of it; what is to be forgotten leaves at one beat a
//! cycle, too. A beat is at the output 2 cycles after it came. Reset: nothing under way.

use super::atomic::{Word, ATOMICS};
use super::issue::{End, DEPARTURES};
use crate::config::RnicConfig;
use crate::stream::{deep_fifo, fifo, spare_fifo};
use crate::tx::Payload;
use crate::types::DmaReadData;
use ferrowire_rtl::{module, Interface, Scope, Sig, Stream};

/// Packets that have been let go, and whose payload has not.
const PASSES: u32 = 16;

/// What comes out.
#[derive(Interface)]
pub(super) struct Collected {
    pub(super) payload: Stream<Payload>,
    /// The first beat of a packet's payload comes in this cycle.
    pub(super) begun: Sig,
    /// For each packet, behind its last beat: its payload is good.
    pub(super) verdicts: Stream<Sig>,
    /// What the atomics read, in order.
    pub(super) words: Stream<Word>,
    /// A beat has left the buffer.
    pub(super) taken: Sig,
}

/// The collector. `passes`: for each packet with payload, in order, whether it goes.
#[module]
pub(super) fn collect(
    m: &Scope,
    cfg: &RnicConfig,
    data: Stream<DmaReadData>,
    ends: Stream<End>,
    passes: Stream<Sig>,
) -> Collected {
    m.assert(!data.valid | ends.valid, "data comes for what was asked");
    let comes = data.valid & ends.valid;
    let failed = m.reg("failed", 1).reset(0);
    let inside = m.reg("inside", 1).reset(0);
    let bad = data.error | failed;
    let last = data.last & ends.last;
    m.when(comes, |m| m.set(&failed, bad & !last));
    m.when(comes & !ends.atomic, |m| m.set(&inside, !last));
    ends.accept(comes & data.last);

    // An atomic's 8 bytes lie in one beat.
    let word = m.select(ends.word, &data.data.chunks(64));
    let words = Stream::new(m, "word", comes & ends.atomic, Word { value: word, error: data.error });
    m.assert(!words.valid | words.ready, "every atomic has room for its word");
    let words = spare_fifo(&m.label("words"), ATOMICS, cfg.unhurried(), words);

    let beat = Payload::of_one_piece(data.data, last, last & bad);
    let beats = Stream::new(m, "beats", comes & !ends.atomic, beat);
    data.accept(ends.valid & (beats.ready | ends.atomic));
    m.assert(!data.valid | data.ready, "data finds room");
    let begun = beats.valid & !inside;
    let verdict = Stream::new(m, "verdict", beats.valid & last, !bad);
    m.assert(!verdict.valid | verdict.ready, "there are no more verdicts than departures");
    let verdicts = fifo(&m.label("verdicts"), 2 * DEPARTURES, verdict);

    let stored = deep_fifo(&m.label("payload"), cfg.payload_buffer_bytes / cfg.beat_bytes, beats);
    let passes = fifo(&m.label("passes"), PASSES, passes);
    let payload =
        Stream::new(m, "payload", stored.valid & passes.valid & passes.payload, stored.payload.clone());
    stored.accept(passes.valid & (payload.ready | !passes.payload));
    let taken = stored.fire();
    passes.accept(taken & stored.last);
    Collected { payload, begun, verdicts, words, taken }
}

#[cfg(test)]
mod tests;
