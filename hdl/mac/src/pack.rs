// SPDX-License-Identifier: MIT OR Apache-2.0
//! From bytes to beats, before the crossing to the core's clock.
//!
//! ```text
//!              +--------------+           +-------+
//!   byte ----->| lane at a    |-- push -->| entry |---> out     to the crossing
//!   end ------>| time         |           +-------+
//!   outcome -->|              |               ^
//!              +--------------+      losing --+-- missed
//! ```
//!
//! A full beat waits for the next byte, which tells that it is not the last, or for the end. Each frame ends with an entry of its own outcome, one
//! without a byte too, so that whoever counts needs no other way between the clocks. Bytes above the end are zero.
//!
//! **Backpressure:** there is none towards the wire. Where the crossing is full as a second entry comes, the frame's rest is lost, and so are those that come
//! until the crossing has room between two frames; then one entry ends what was begun and tells how many frames were lost ([`Outcome::Overflow`], their
//! number in the data's low byte, 255 for more). That happens only where the core's clock is too slow, or storms of fragments are faster than it.
//!
//! **Latency:** an entry is on offer a cycle after what completes it. **Longest path:** from whether the crossing has room to the entry's
//! enable.

use crate::rx::{Heard, Outcome};
use ferrowire_parts::Beat;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Scope, Sig, Stream};

/// A beat with what became of its frame.
#[derive(Clone, Bundle)]
pub struct Entry {
    /// The beat.
    pub beat: Beat,
    /// With the last beat: the code of an [`Outcome`]. Where it is not good, the beat may be without bytes.
    pub outcome: Sig,
}

impl Entry {
    /// The shape for beats of `beat_bytes` bytes.
    pub fn of(beat_bytes: u32) -> Entry {
        Entry { beat: Beat::of(beat_bytes), outcome: bits(Outcome::BITS) }
    }
}

/// Bits of the number of frames that were lost at once.
pub const MISSED_BITS: u32 = 8;

/// Collects beats; see the page's top.
#[module]
pub fn pack(m: &Scope, #[param] beat_bytes: u32, heard: Heard) -> Stream<Entry> {
    // The lane that the next byte goes to, and how many behind the last byte are empty.
    let at = m.reg("at", beat_bytes).reset(1);
    let empty = m.reg("empty", clog2(u64::from(beat_bytes))).reset(0);
    let full = m.reg("full", 1).reset(0);
    let push = (heard.end | heard.valid & full).named("push");
    m.when(heard.end, |m| {
        m.set(&at, 1);
        m.set(&empty, 0);
        m.set(&full, 0);
    })
    .otherwise_when(heard.valid, |m| {
        m.set(&at, cat(&[at.msb(), at.trunc(beat_bytes - 1)]));
        m.set(&empty, empty - 1);
        m.set(&full, at.msb());
    });
    let lanes: Vec<Sig> = (0..beat_bytes)
        .map(|i| {
            let lane = m.reg(&format!("lane{i}"), 8).reset(0);
            let here = heard.valid & at.bit(i);
            m.when(here | push, |m| m.set(&lane, heard.byte & here.repeat(8)));
            lane
        })
        .collect();

    let held = m.reg("held", 1).reset(0);
    let shape = Entry::of(beat_bytes);
    let entry = m.reg_of("entry", &shape);
    let out = Stream::new(m, "out", held, entry.clone());
    let free = !held | out.ready;
    // Within a frame of which something was pushed.
    let inside = m.reg("inside", 1).reset(0);
    m.when(push, |m| m.set(&inside, !heard.end));
    let losing = m.reg("losing", 1).reset(0);
    let missed = m.reg("missed", MISSED_BITS).reset(0);
    let lost = (push & (losing | !free)).named("lost");
    let tells = (losing & free & !push & !inside).named("tells");
    m.when(lost, |m| {
        m.set(&losing, 1);
        m.when(heard.end & !missed.all(), |m| m.set(&missed, missed + 1));
    })
    .otherwise_when(tells, |m| {
        m.set(&losing, 0);
        m.set(&missed, 0);
    });
    m.when((push & !lost) | tells, |m| m.set(&held, 1)).otherwise_when(out.ready, |m| m.set(&held, 0));
    m.when(free, |m| {
        let collected = Beat { data: cat(&lanes), last: heard.end, empty };
        let told = Beat { data: missed.zext(8 * beat_bytes), last: lit(1, 1), empty: lit(empty.width(), 0) };
        let beat = m.mux(tells, &told, &collected);
        m.set_all(&entry, &Entry { beat, outcome: m.mux(tells, &Outcome::Overflow.lit(), &heard.outcome) });
    });
    out
}
