// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the PHY's bytes: where a frame begins and ends, and what is to be said against it.
//!
//! ```text
//!                       SFD?                          4 bytes
//!   gmii --+--> Wait --> Search --> Frame --+--> [d0 d1 d2 d3] --> byte      the frame without its FCS
//!          |                                +--> crc --> residue? --+
//!          |                                +--> length ------------+--> end, outcome
//!          +--> error? ---------------------------------------------+
//! ```
//!
//! A frame is what follows a start frame delimiter until `valid` falls. What comes before the delimiter is not looked at (IEEE 802.3 4.2.9,
//! `PhysicalSignalDecap`): a preamble may have lost bytes, or all. One gap of a cycle is enough, for a gap of 96 bits may shrink on its way (a note to
//! 4.4.2 tells of 64 bits at the GMII of a receiver at 1 Gb/s).
//!
//! The last four bytes are the FCS (3.2.9): they wait in the delay line when the frame ends, and are forgotten. A frame with its FCS leaves a
//! known residue in the CRC, a byte a cycle.
//!
//! **Outcome**, one a carrier event, the first that holds: an [`Error`](Outcome::Error) of the PHY anywhere while `valid` was high (35.2.1.5); no
//! delimiter; a [`Runt`](Outcome::Runt) below 64 bytes (4.2.9: it is discarded, whatever its FCS); [`Oversize`](Outcome::Oversize), of which no more than the
//! longest frame is handed on; a wrong FCS; good. Whether a length field tells the truth (3.2.6) is the core's affair, which has what is behind it.
//!
//! **Latency:** byte n is told when byte n + 4 is here, a cycle later; the end a cycle after the cycle in which `valid` is low. **Throughput:** a byte a cycle,
//! always. **Reset:** a frame that is under way when the reset ends is not looked at. **Longest path:** the comparison of the CRC and the order of outcomes.

use crate::config::{FCS_BYTES, MIN_FRAME, SFD};
use crate::rgmii::Gmii;
use ferrowire_parts::crc::{crc_step, RESIDUE};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Fsm, Scope, Sig};

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// It is handed on.
    Good,
    /// The FCS is wrong.
    BadFcs,
    /// It is shorter than 64 bytes.
    Runt,
    /// It is longer than the longest frame.
    Oversize,
    /// The PHY told of an error.
    Error,
    /// The carrier came and went without a start frame delimiter.
    NoSfd,
    /// There was no room.
    Overflow,
}

impl Outcome {
    /// All of them, by their code.
    pub const ALL: [Outcome; 7] = [
        Outcome::Good,
        Outcome::BadFcs,
        Outcome::Runt,
        Outcome::Oversize,
        Outcome::Error,
        Outcome::NoSfd,
        Outcome::Overflow,
    ];
    /// Bits of a code.
    pub const BITS: u32 = 3;

    /// As constant.
    pub fn lit(self) -> Sig {
        lit(Outcome::BITS, self as u32)
    }
}

/// One cycle of a frame, which cannot wait.
#[derive(Clone, Bundle)]
pub struct Heard {
    /// A byte comes.
    pub valid: Sig,
    /// The byte.
    pub byte: Sig,
    /// The frame has ended, with the byte before this cycle; never together with a byte.
    pub end: Sig,
    /// With `end`: the code of an [`Outcome`].
    pub outcome: Sig,
}

impl Heard {
    /// The shape.
    pub fn of() -> Heard {
        Heard { valid: bits(1), byte: bits(8), end: bits(1), outcome: bits(Outcome::BITS) }
    }
}

#[derive(Clone, Copy, Fsm)]
enum State {
    /// What is under way after a reset is not looked at.
    Wait,
    /// Between frames, and before a delimiter.
    Search,
    /// Behind it.
    Frame,
}

/// Finds frames of up to `max_frame` bytes; see the page's top.
#[module]
pub fn rx(m: &Scope, #[param] max_frame: u32, gmii: Gmii) -> Heard {
    let state = m.fsm("state", State::Wait);
    let carrier = gmii.valid;
    let searches = state.is(State::Search);
    let inside = state.is(State::Frame);
    let sfd = (carrier & !gmii.error & gmii.data.eq(SFD)).named("sfd");
    m.when(state.is(State::Wait) & !carrier, |m| m.set(&state, State::Search))
        .otherwise_when(searches & sfd, |m| m.set(&state, State::Frame))
        .otherwise_when(inside & !carrier, |m| m.set(&state, State::Search));

    // The carrier was there in the cycle before, and no delimiter has come.
    let heard = m.reg("heard", 1).reset(0);
    m.set(&heard, searches & carrier & !sfd);
    let error = m.reg("error", 1).reset(0);
    m.when(!carrier, |m| m.set(&error, 0)).otherwise_when(gmii.error, |m| m.set(&error, 1));

    let takes = (inside & carrier).named("takes");
    let crc = m.reg("crc", 32).no_reset();
    let length = m.reg("length", clog2(u64::from(max_frame) + 1)).no_reset();
    let (enough, too_long) = (m.reg("enough", 1).no_reset(), m.reg("too_long", 1).no_reset());
    // Which places of the delay line hold a byte of this frame.
    let filled = m.reg("filled", FCS_BYTES).no_reset();
    m.when(takes, |m| {
        m.set(&crc, crc_step(crc, gmii.data));
        m.set(&filled, cat(&[lit(1, 1), filled.trunc(FCS_BYTES - 1)]));
        m.set(&enough, enough | length.eq(MIN_FRAME - 1));
        let most = length.eq(max_frame);
        m.set(&too_long, most);
        m.set(&length, most.then(length, length + 1));
    })
    .otherwise_when(searches, |m| {
        m.set(&crc, u32::MAX);
        m.set(&filled, 0);
        m.set(&enough, 0);
        m.set(&too_long, 0);
        m.set(&length, 0);
    });
    let mut oldest = gmii.data;
    for place in 0..FCS_BYTES {
        let next = m.reg(&format!("d{place}"), 8).no_reset();
        m.when(takes, |m| m.set(&next, oldest));
        oldest = next;
    }

    let told = m.reg_zero("told", &Heard::of());
    // What is longer than the longest frame is cut there.
    m.set(&told.valid, takes & filled.msb() & length.ne(max_frame));
    m.set(&told.byte, oldest);
    m.set(&told.end, !carrier & (inside | heard));
    let first = [
        (error, Outcome::Error),
        (!inside, Outcome::NoSfd),
        (!enough, Outcome::Runt),
        (too_long, Outcome::Oversize),
        (crc.ne(RESIDUE), Outcome::BadFcs),
    ];
    let outcome = first
        .iter()
        .rev()
        .fold(Outcome::Good.lit(), |rest, (holds, outcome)| m.mux(*holds, &outcome.lit(), &rest));
    m.set(&told.outcome, outcome);
    told
}
