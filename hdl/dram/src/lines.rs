// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts of AXI4 in lines of the memory: 16 bytes, which it reads and writes at once.
//!
//! ```text
//!  AW, AR --> in turns --> [ burst ] --+--> line ------> commands
//!  W --> [ 16 bytes, mask ] -----------+      |
//!                                             v
//!  R <-- [ 16 beats ] <-- those asked for <-- [ tags ]
//!                                  ^ beats <------------ capture
//!  B <-- [ ] <-- the last line was handed on
//! ```
//!
//! Bursts of increasing addresses in beats of eight bytes (AXI4 A3.4.1), of 1 to 256 beats; strobes say what is written. Any ID comes back with its answer, and all answers are in order.
//!
//! **Order.** Lines go to the memory one behind the other, and it does them in that order: a write's response comes when its last line was handed on, and what is read behind that sees it.
//!
//! **Rates.** A line in four cycles either way, which is what the memory's wires carry; two cycles between bursts. A line is read only where its beats find room, so R may wait as long as it likes.
//!
//! **Bad input.** A burst outside of the memory's window is answered with DECERR: what it writes is masked, what it reads means nothing. If the memory [could not be used](crate::start), all are answered with SLVERR.
//!
//! Reset forgets bursts. Longest path: the line's `ready`, which comes of a row's comparison, to the next address.

use ferrowire_hdl::stream::fifo;
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Interface, Scope, Sig, Stream};
use ferrowire_serial::axi::{Address, ReadBeat, Response, WriteBeat};

use crate::bursts::{bursts, Burst, State};
use crate::commands::Line;
use crate::config::{DramConfig, LINE_BYTES};
use crate::rows::Access;
use crate::start::Status;
use crate::Wrote;

/// Beats of R that wait, and those that were asked for.
const BEATS: u32 = 16;
/// Lines under way; as many as have room, or more.
const LINES: u32 = 16;

/// Eight bytes that were read.
#[derive(Clone, Bundle)]
pub(crate) struct Beat {
    /// In this cycle.
    pub valid: Sig,
    /// The bytes.
    pub data: Sig,
}

impl Beat {
    /// The shape.
    pub fn of() -> Self {
        Beat { valid: bits(1), data: bits(64) }
    }
}

/// A line that is being read.
#[derive(Clone, Bundle)]
struct Tag {
    id: Sig,
    resp: Sig,
    /// Which of its beats were asked for.
    lower: Sig,
    upper: Sig,
    /// The second of these, or the only one, is the burst's last.
    last: Sig,
}

/// What leaves.
#[derive(Interface)]
pub(crate) struct Parts {
    pub b: Stream<Response>,
    pub r: Stream<ReadBeat>,
    pub line: Stream<Line>,
    pub wrote: Wrote,
}

/// See the page's top.
#[module]
pub(crate) fn lines(
    m: &Scope,
    cfg: &DramConfig,
    aw: Stream<Address>,
    w: Stream<WriteBeat>,
    ar: Stream<Address>,
    beat: Beat,
    status: Status,
) -> Parts {
    let shape = Access::of(&cfg.device());
    let Burst { state, at, left, resp, id } =
        bursts(m, (cfg.memory_bytes, cfg.memory_base), &aw, &ar, &status);
    let (writing, reading) = (state.is(State::Write), state.is(State::Read));
    let window = cfg.memory_bytes.trailing_zeros();

    // A line that is written, from one or two beats.
    let whole = m.reg("whole", 1).reset(0);
    let ends = m.reg("ends", 1).no_reset();
    let row = m.reg("line", window - 4).no_reset();
    let (lower, upper) = (m.reg("lower", 64).no_reset(), m.reg("upper", 64).no_reset());
    let mask = m.reg("mask", LINE_BYTES).reset(u64::from(u16::MAX));
    let answered = m.reg("answered", 1).reset(0);
    // The next burst may have begun when this leaves.
    let response = m.reg_of("response", &Response { id, resp });
    let b = Stream::new(m, "b", answered, response.clone());
    m.when(b.fire(), |m| m.set(&answered, 0));
    w.accept(writing & !whole & !answered);
    let masks = !w.strb | resp.any().repeat(8);
    m.when(w.fire(), |m| {
        m.set(&at, at + 1);
        m.set(&row, at.slice(1, window - 4));
        m.when(at.bit(0), |m| {
            m.set(&upper, w.data);
            m.set(&mask, cat(&[mask.trunc(8), masks]));
        })
        .otherwise(|m| {
            m.set(&lower, w.data);
            m.set(&mask, cat(&[masks, mask.slice(8, 8)]));
        });
        m.set(&whole, at.bit(0) | w.last);
        m.set(&ends, w.last);
    });

    // A line that is read, where there is room for both of its beats.
    let room = m.reg("room", 5).reset(BEATS);
    let offers = (reading & room.ge(2)).named("offers");
    let both = !at.bit(0) & left.any();
    let number = m.mux(whole, &row, &at.slice(1, window - 4)).zext(shape.number().width());
    let access = Access { write: whole, ..shape.numbered(number) };
    let line = Line { access, data: cat(&[lower, upper]), mask };
    let line = Stream::new(m, "line", whole | offers, line);
    let (written, asked) = (line.fire() & whole, line.fire() & !whole);
    m.when(written, |m| {
        m.set(&whole, 0);
        m.set(&mask, u64::from(u16::MAX));
        m.when(ends, |m| {
            m.set(&answered, 1);
            m.set_all(&response, &Response { id, resp });
            m.set(&state, State::Idle);
        });
    });
    let finishes = left.eq(0) | (left.eq(1) & both);
    m.when(asked, |m| {
        m.set(&at, cat(&[lit(1, 0), at.slice(1, window - 4) + 1]));
        m.set(&left, left - both.then(lit(8, 2), lit(8, 1)));
        m.when(finishes, |m| m.set(&state, State::Idle));
    });

    // Tags find room: there are as many places as beats.
    let tag = Tag { id, resp, lower: !at.bit(0), upper: at.bit(0) | both, last: finishes };
    let pushed = Stream::new(m, "pushed", asked, tag);
    m.assert(!asked | pushed.ready, "a tag finds its place");
    let tag = fifo(&m.label("tags"), LINES, pushed);
    let second = m.reg("second", 1).reset(0);
    m.when(beat.valid, |m| m.set(&second, !second));
    tag.accept(beat.valid & second);
    m.assert(!beat.valid | tag.valid, "who reads has asked");
    let wanted = beat.valid & second.then(tag.upper, tag.lower);
    let last = tag.last & (second | !tag.upper);
    let read = ReadBeat { id: tag.id, data: beat.data, resp: tag.resp, last };
    let arrives = Stream::new(m, "arrives", wanted, read);
    m.assert(!wanted | arrives.ready, "a beat of R finds its place");
    let r = fifo(&m.label("beats"), BEATS, arrives);
    // Two places are taken with a line, and those given back that it does not need.
    let unwanted = beat.valid & !wanted;
    let back = r.fire().zext(5) + unwanted.zext(5);
    m.set(&room, room + back - asked.then(lit(5, 2), lit(5, 0)));
    let wrote = Wrote {
        valid: m.reg("wrote", 1).reset(0),
        line: m.delay("wrote_line", &row),
        id: m.delay("wrote_id", &id),
    };
    m.set(&wrote.valid, written & !resp.any());
    Parts { b, r, line, wrote }
}
