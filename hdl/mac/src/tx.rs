// SPDX-License-Identifier: MIT OR Apache-2.0
//! From beats to the PHY's bytes: preamble, frame, padding, FCS, gap.
//!
//! ```text
//!             +------+  byte  +------+   byte   +------------+
//!   beats --->| word |------->| kind |--------->| FCS?  mux  |---> gmii
//!             +------+        | byte |--> crc ->|            |
//!                ^            +------+          +------------+
//!   Gap -> Preamble -> Data -> Pad? -> Fcs -> Gap
//!                        +--> Abort --> Gap                 +-----> underrun
//! ```
//!
//! Seven bytes of preamble and the delimiter (IEEE 802.3 3.2.1, 3.2.2), the frame, zeros up to 60 bytes (3.2.8, 4.2.3.3), the FCS (3.2.9), and twelve bytes
//! at least in which nothing is sent (4.2.3.2.1, 4.4.2).
//!
//! A frame begins when its first beat is here, and a beat is wanted every `beat_bytes` cycles from then on. Whoever feeds this has the whole frame
//! ([`store`](crate::store)) and a clock that brings beats at least as fast, so it cannot run dry. If it does nevertheless, because that clock stands still, the frame is
//! cut and marked by TX_ER (35.2.1.6), so that nobody takes it, and its rest is swallowed: `underrun`, for a cycle.
//!
//! **Latency:** the first byte of preamble 2 cycles after the first beat is on offer, if the gap is over. **Throughput:** frames follow each other with twelve bytes
//! between them. **Longest path:** the counter's and the state's next values.

use crate::config::{FCS_BYTES, GAP_BYTES, MIN_FRAME, PREAMBLE, PREAMBLE_BYTES, SFD};
use crate::rgmii::Gmii;
use ferrowire_parts::crc::crc_step;
use ferrowire_parts::Beat;
use ferrowire_rtl::{cat, clog2, lit, module, Fsm, Interface, Scope, Sig, Stream};

/// What is sent.
#[derive(Interface)]
pub struct Sent {
    /// To the PHY: a function of registers.
    pub gmii: Gmii,
    /// A frame was cut for want of its rest.
    pub underrun: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    /// Nothing is sent, for twelve cycles or until there is a frame.
    Gap,
    Preamble,
    Data,
    Pad,
    Fcs,
    /// The frame is cut.
    Abort,
}

/// What a byte is.
#[derive(Clone, Copy, Fsm)]
enum Kind {
    Nothing,
    /// Outside of what the FCS covers.
    Preamble,
    Data,
    Fcs,
    Error,
}

/// Bytes that are sent with TX_ER where a frame is cut.
const ERROR_BYTES: u32 = 4;

/// Sends frames; see the page's top.
#[module]
pub fn tx(m: &Scope, beats: Stream<Beat>) -> Sent {
    let width = beats.bytes();
    let state = m.fsm("state", State::Gap);
    let count = m.reg("count", 4).reset(GAP_BYTES - 1);
    let over = count.eq(0).named("over");
    m.when(!over, |m| m.set(&count, count - 1));

    let word = m.reg("word", 8 * width).no_reset();
    let left = m.reg("left", clog2(u64::from(width))).no_reset();
    let (last, drained) = (m.reg("last", 1).no_reset(), m.reg("drained", 1).no_reset());
    // Bytes of the frame so far, up to one below the shortest frame's.
    let least = MIN_FRAME - FCS_BYTES - 1;
    let sent = m.reg("sent", clog2(u64::from(least) + 1)).no_reset();
    let enough = sent.eq(least);

    let (data, preamble, aborts) = (state.is(State::Data), state.is(State::Preamble), state.is(State::Abort));
    let spent = (data & left.eq(0)).named("spent");
    let wants = ((preamble & over) | (spent & !last)).named("wants");
    beats.accept(wants | (aborts & !drained));
    m.when(data, |m| {
        m.set(&word, word >> 8);
        m.set(&left, left - 1);
    });
    m.when(wants, |m| {
        m.set(&word, beats.data);
        // As many as lie above the first: `width - 1 - empty`.
        m.set(&left, !beats.empty);
        m.set(&last, beats.last);
    });
    m.when(preamble, |m| m.set(&sent, 0))
        .otherwise_when((data | state.is(State::Pad)) & !enough, |m| m.set(&sent, sent + 1));

    let go = |m: &Scope, next: State, cycles: u32| {
        m.set(&state, next);
        m.set(&count, cycles - 1);
    };
    m.when(state.is(State::Gap) & over & beats.valid, |m| go(m, State::Preamble, PREAMBLE_BYTES + 1))
        .otherwise_when(preamble & over, |m| m.set(&state, State::Data))
        .otherwise_when(spent & last, |m| {
            m.when(enough, |m| go(m, State::Fcs, FCS_BYTES)).otherwise(|m| m.set(&state, State::Pad));
        })
        .otherwise_when(spent & !beats.valid, |m| go(m, State::Abort, ERROR_BYTES + 1))
        .otherwise_when(state.is(State::Pad) & enough, |m| go(m, State::Fcs, FCS_BYTES))
        .otherwise_when(state.is(State::Fcs) & over, |m| go(m, State::Gap, GAP_BYTES))
        .otherwise_when(aborts & over & drained, |m| go(m, State::Gap, GAP_BYTES));
    m.when(data, |m| m.set(&drained, 0))
        .otherwise_when(aborts & beats.fire() & beats.last, |m| m.set(&drained, 1));
    let underrun = m.reg("underrun", 1).reset(0);
    m.set(&underrun, spent & !last & !beats.valid);

    // A register, and then the byte or the FCS.
    let kind = m.fsm("kind", Kind::Nothing);
    m.set(&kind, Kind::Nothing);
    m.when(preamble, |m| m.set(&kind, Kind::Preamble));
    m.when(data | state.is(State::Pad), |m| m.set(&kind, Kind::Data));
    m.when(state.is(State::Fcs), |m| m.set(&kind, Kind::Fcs));
    m.when(aborts & !over, |m| m.set(&kind, Kind::Error));
    let byte = m.reg("byte", 8).no_reset();
    m.set(&byte, data.then(word.trunc(8), lit(8, 0)));
    m.when(preamble, |m| m.set(&byte, over.then(SFD, lit(8, PREAMBLE))));
    let crc = m.reg("crc", 32).no_reset();
    let is_fcs = kind.is(Kind::Fcs);
    m.set(&crc, u32::MAX);
    m.when(kind.is(Kind::Data), |m| m.set(&crc, crc_step(crc, byte)));
    m.when(is_fcs, |m| m.set(&crc, cat(&[crc.slice(8, 24), lit(8, 0)])));
    let gmii = Gmii {
        data: is_fcs.then(!crc.trunc(8), byte),
        valid: !kind.is(Kind::Nothing),
        error: kind.is(Kind::Error),
    };
    Sent { gmii, underrun }
}
