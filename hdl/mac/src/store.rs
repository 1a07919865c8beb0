// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps frames until they are whole, in the core's clock: those that come, because only their end tells whether they are good; those that go, because the
//! wire does not wait for the rest of a frame.
//!
//! ```text
//!             +-------------------------------------+     +-----+
//!   input --->| tail    ring of beats, block RAM    |---->| reg |---> out
//!             |         begin                 head  |     +-----+
//!             +-------------------------------------+
//!      last, outcome, room -----------------------------------------> done
//! ```
//!
//! Beats are written at `tail` as they come. With the last one of a good frame `begin` moves behind it, and the reader may go that far; otherwise `tail` moves
//! back to `begin`, and the frame was never there. Of what [`passes`](Full::Passes) a frame is `begun` when so many of its beats are there: from then on the reader may go
//! up to `tail`.
//!
//! **Backpressure:** of what [`drops`](Full::Drops) where it finds no room, `input.ready` is always high; the frame is given up at once and whole. Of what
//! [`waits`](Full::Waits) or [`passes`](Full::Passes) it is low while the ring is full, and a frame that is longer than the longest is given up, so that the ring always holds
//! what it waits for. If such a frame has begun, its last beat comes out with `cut`.
//! `out` stops for its taker.
//!
//! **Latency:** the first beat is on offer 2 cycles after the last one came, or after the one with which the frame has begun. **Throughput:** a beat a cycle in and out, no
//! bubble between frames. Inside a frame that passes there is a bubble if the reader has taken all that `input` has brought.
//! **Reset** empties. **Bad input:** exactly one `done` a frame, with the outcome that the last beat brought, or why it is dropped here.

use crate::config::MacConfig;
use crate::pack::{Entry, MISSED_BITS};
use crate::rx::Outcome;
use ferrowire_parts::Beat;
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};

/// What happens where there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Full {
    /// The frame is lost.
    Drops,
    /// Its sender waits.
    Waits,
    /// Its sender waits, and a frame leaves when it is whole or has so many beats here, at least one: from then on its sender keeps ahead of its reader.
    Passes(u32),
}

/// A frame has ended.
#[derive(Clone, Bundle)]
pub struct Done {
    /// In this cycle.
    pub valid: Sig,
    /// What became of it: the code of an [`Outcome`].
    pub outcome: Sig,
    /// The same has happened to so many: more than one only of [`Outcome::Overflow`].
    pub frames: Sig,
}

impl Done {
    /// The shape.
    pub fn of() -> Done {
        Done { valid: bits(1), outcome: bits(Outcome::BITS), frames: bits(MISSED_BITS) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Stored {
    /// Frames, each good but for those that are cut.
    pub out: Stream<Beat>,
    /// With the last beat on offer: the frame has passed, and was longer than the longest. Beats of it are lost.
    pub cut: Sig,
    /// One pulse a frame that came.
    pub done: Done,
}

/// What is kept of a beat.
#[derive(Clone, Bundle)]
struct Kept {
    beat: Beat,
    /// It ends a frame that has lost beats.
    cut: Sig,
}

/// A store of `bytes` bytes; see the page's top.
#[module]
pub fn store(
    m: &Scope,
    cfg: &MacConfig,
    #[param] bytes: u32,
    #[param] full: Full,
    input: Stream<Entry>,
) -> Stored {
    let depth = bytes / cfg.beat_bytes;
    let address = clog2(u64::from(depth));
    let entry = Kept { beat: Beat::of(cfg.beat_bytes), cut: bits(1) };
    let ring = m.mem("ring", depth, &entry).style(Style::Block).build();
    // One bit more than an address, so that full and empty differ.
    let pointer = |name: &str| m.reg(name, address + 1).reset(0);
    let (tail, begin, head) = (pointer("tail"), pointer("begin"), pointer("head"));
    let given_up = m.reg("given_up", 1).reset(0);

    let waits = full != Full::Drops;
    let used = tail - head;
    // What is waited for is known from a register; nothing comes while it is high, so `tail` goes on or back only from below it.
    let is_full = if waits { m.reg("is_full", 1).reset(0) } else { used.eq(depth).named("is_full") };
    input.accept(if waits { !is_full } else { lit(1, 1) });
    let (fire, last) = (input.fire().named("fire"), input.beat.last);
    let position = |name: &str, beats: u32| at_beat(m, name, fire, last, beats);
    // Received frames were cut to the longest one before.
    let lost = match waits {
        true => given_up | too_long(cfg, position("at_most", cfg.most_beats() - 1), &input.beat),
        false => given_up | is_full,
    };
    let lost = lost.named("lost");
    let good = input.outcome.eq(Outcome::Good.lit());
    let after = tail + 1;
    let begun = match full {
        Full::Passes(beats) => {
            assert!(beats > 0, "a frame that passes has a first beat");
            let begun = m.reg("begun", 1).reset(0);
            let enough = position("is_enough", beats - 1);
            m.when(fire, |m| m.set(&begun, !last & (begun | (enough & !lost))));
            begun
        }
        _ => lit(1, 0),
    };
    // One that has begun has an end in any case: what stands there tells whether it is its own.
    let ends = last & (begun | (good & !lost));
    // If the store waits for room, the next beat writes over a beat that was not kept.
    let writes = if waits { !is_full } else { fire & !lost };
    ring.write(writes, tail.trunc(address), &Kept { beat: input.beat.clone(), cut: lost | !good });
    // The tail goes on after a beat that is kept, of a frame that has not ended badly. Whether it is lost is known late.
    let goes_on = (last & begun | !lost & (good | !last)).named("goes_on");
    m.when(fire, |m| {
        m.set(&given_up, lost & !last);
        m.when(goes_on, |m| m.set(&tail, after)).otherwise_when(!begun, |m| m.set(&tail, begin));
        m.when(ends, |m| m.set(&begin, after));
    });

    let held = m.reg("held", 1).reset(0);
    let take = m.wire("take", 1);
    // A word is read only after it was written, and not written again before `head` has passed it.
    let word = ring.read(m, take, head.trunc(address), Collision::Never);
    let cut = (word.cut & word.beat.last).named("cut");
    let out = Stream::new(m, "out", held, word.beat);
    let until = m.mux(begun, &tail, &begin);
    m.drive(&take, head.ne(until) & (!held | out.ready));
    m.set(&held, take | held & !out.ready);
    m.when(take, |m| m.set(&head, head + 1));
    if waits {
        m.set(&is_full, !take & (is_full | (fire & goes_on & used.eq(depth - 1))));
        m.assert(is_full.eq(used.eq(depth)), "it is full where nothing is free");
    }

    let done = m.reg_zero("done", &Done::of());
    let why = if waits { Outcome::Oversize } else { Outcome::Overflow };
    let here = good & lost;
    m.set(&done.valid, fire & last);
    m.set(&done.outcome, here.then(why.lit(), input.outcome));
    let many = input.outcome.eq(Outcome::Overflow.lit());
    m.set(&done.frames, many.then(input.beat.data.trunc(MISSED_BITS), lit(MISSED_BITS, 1)));
    m.assert((tail - head).le(depth), "what is stored fits the ring");
    Stored { out, cut, done }
}

/// High while the beat on offer has `beats` others of its frame before it, kept or not. Of a frame that is longer than the longest it may be high once more.
fn at_beat(m: &Scope, name: &str, fire: Sig, last: Sig, beats: u32) -> Sig {
    let here = m.reg(name, 1).reset(u64::from(beats == 0));
    let next = match beats {
        0 => lit(1, 0),
        _ => {
            let width = clog2(u64::from(beats) + 1);
            let count = m.reg(&format!("{name}_count"), width).reset(0);
            m.when(fire, |m| m.set(&count, m.mux(last, &lit(width, 0), &(count + 1))));
            count.eq(beats - 1)
        }
    };
    m.when(fire, |m| m.set(&here, m.mux(last, &lit(1, u64::from(beats == 0)), &next)));
    here
}

/// With this beat, `at_most` where it is the last one that a frame may have, the frame is longer than the longest.
fn too_long(cfg: &MacConfig, at_most: Sig, beat: &Beat) -> Sig {
    let most = cfg.most_empty();
    let fits = if most == 0 { lit(1, 1) } else { beat.empty.ge(most) };
    at_most & !(beat.last & fits)
}
