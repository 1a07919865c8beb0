// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts of AXI4 in lines of the memory, which are as long as a beat.
//!
//! ```text
//!  AW, AR --> in turns --> [ burst ] --+--> line --> rows
//!  W --> [ 8 bytes, strobes ] ---------+      |
//!             ^ the bytes that stay           v
//!             +----------------------------[ tags ]
//!  R <-- [ 16 beats ] <-----------------------+<-------- what was read
//!  B <-- [ ] <-- the last line was handed on
//! ```
//!
//! Bursts of increasing addresses in beats of eight bytes (AXI4 A3.4.1), of 1 to 256 beats. Any ID comes back with its answer, and all answers are in order.
//!
//! **Strobes.** The board holds the device's DQM low, so that a line is always written whole: of one with bytes that stay as they are, these are read first.
//!
//! **Order.** Lines go to the memory one behind the other, and it does them in that order: a write's response comes when its last line was handed on, and what is read behind that sees it.
//!
//! **Rates.** A line in two cycles either way, which is what the memory's wires carry; one cycle between bursts; some 20 for a line of which bytes stay. A line is read only where its beat finds room, so R may wait as long as it likes; writes go on meanwhile once the last beat of a burst has been asked for, which a burst of up to 16 always is.
//!
//! **Bad input.** A burst outside of the memory's window is answered with DECERR: what it writes is not, what it reads means nothing. If the memory [could not be used](super::start), all are answered with SLVERR.
//!
//! Reset forgets bursts. Longest path: the line's `ready`, which comes of a row's comparison, to the next address.

use ferrowire_hdl::stream::fifo;
use ferrowire_rtl::{cat, module, Bundle, Fsm, Interface, Scope, Sig, Stream};
use ferrowire_serial::axi::{Address, ReadBeat, Response, WriteBeat};

use super::{Line, SdrConfig};
use crate::bursts::{bursts, Burst, State};
use crate::lines::Beat;
use crate::rows::Access;
use crate::start::Status;
use crate::Wrote;

/// Beats of R that wait, and those that were asked for.
const BEATS: u32 = 16;

/// Lines that are under way, and more.
const LINES: u32 = 16;

/// A line that is being read.
#[derive(Clone, Bundle)]
struct Tag {
    id: Sig,
    resp: Sig,
    /// The burst's last.
    last: Sig,
    /// For the bytes that stay.
    stays: Sig,
}

/// What leaves.
#[derive(Interface)]
pub(crate) struct Parts {
    pub b: Stream<Response>,
    pub r: Stream<ReadBeat>,
    pub line: Stream<Line>,
    pub wrote: Wrote,
}

#[derive(Clone, Copy, Fsm)]
enum Held {
    /// No beat of W.
    None,
    /// One of which bytes stay; they are to be read.
    Asks,
    /// They come.
    Waits,
    /// One that is written.
    Whole,
    /// One that is not.
    Skipped,
}

/// See the page's top.
#[module]
pub(crate) fn lines(
    m: &Scope,
    cfg: &SdrConfig,
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

    // A beat that is written: whole, or with the bytes that stay.
    let held = m.fsm("held", Held::None);
    let ends = m.reg("ends", 1).no_reset();
    let (data, strobes) = (m.reg("data", 64).no_reset(), m.reg("strobes", 8).no_reset());
    let answered = m.reg("answered", 1).reset(0);
    // The next burst may have begun when this leaves.
    let response = m.reg_of("response", &Response { id, resp });
    let b = Stream::new(m, "b", answered, response.clone());
    m.when(b.fire(), |m| m.set(&answered, 0));
    w.accept(writing & held.is(Held::None) & !answered);
    m.when(w.fire(), |m| {
        m.set(&data, w.data);
        m.set(&strobes, w.strb);
        m.set(&ends, w.last);
        m.set(&held, Held::Asks);
        m.when(w.strb.all(), |m| m.set(&held, Held::Whole));
        m.when(!w.strb.any() | resp.any(), |m| m.set(&held, Held::Skipped));
    });

    // What is asked of the memory.
    let room = m.reg("room", 5).reset(BEATS);
    let (whole, asks) = (held.is(Held::Whole), held.is(Held::Asks));
    let offers = ((reading & room.any()) | asks).named("offers");
    let number = at.zext(shape.number().width());
    let access = Access { write: whole, ..shape.numbered(number) };
    let line = Stream::new(m, "line", whole | offers, Line { access, data });
    let (written, asked) = (line.fire() & whole, line.fire() & !whole);
    m.when(written | held.is(Held::Skipped), |m| {
        m.set(&held, Held::None);
        m.set(&at, at + 1);
        m.when(ends, |m| {
            m.set(&answered, 1);
            m.set_all(&response, &Response { id, resp });
            m.set(&state, State::Idle);
        });
    });
    m.when(asked & asks, |m| m.set(&held, Held::Waits));
    let last = left.eq(0);
    m.when(asked & reading, |m| {
        m.set(&at, at + 1);
        m.set(&left, left - 1);
        m.when(last, |m| m.set(&state, State::Idle));
    });

    // Tags find room: a line comes before twelve more have been asked for, wherever its place is.
    let pushed = Stream::new(m, "pushed", asked, Tag { id, resp, last, stays: asks });
    m.assert(!asked | pushed.ready, "a tag finds its place");
    let tag = fifo(&m.label("tags"), LINES, pushed);
    tag.accept(beat.valid);
    m.assert(!beat.valid | tag.valid, "who reads has asked");
    m.when(beat.valid & tag.stays, |m| {
        let bytes: Vec<Sig> =
            (0..8).map(|i| strobes.bit(i).then(data.slice(8 * i, 8), beat.data.slice(8 * i, 8))).collect();
        m.set(&data, cat(&bytes));
        m.set(&held, Held::Whole);
    });
    let wanted = beat.valid & !tag.stays;
    let read = ReadBeat { id: tag.id, data: beat.data, resp: tag.resp, last: tag.last };
    let arrives = Stream::new(m, "arrives", wanted, read);
    m.assert(!wanted | arrives.ready, "a beat of R finds its place");
    let r = fifo(&m.label("beats"), BEATS, arrives);
    // A place is taken with a line of a burst that is read, and given back with its beat: bytes that stay wait for nobody who reads.
    m.set(&room, room + r.fire().zext(5) - (asked & reading).zext(5));
    let wrote = Wrote {
        valid: m.reg("wrote", 1).reset(0),
        line: m.delay("wrote_line", &at),
        id: m.delay("wrote_id", &id),
    };
    m.set(&wrote.valid, written);
    Parts { b, r, line, wrote }
}
