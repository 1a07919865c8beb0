// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the FPGA's reset to a memory that can be used: the device's start (JEDEC 21-C 3.11.5.1), then a search for the cycle in which its words are caught.
//!
//! ```text
//!  wait --> PRE all --> REF x 8 --> MRS --> write two lines --> read them at each place --> done
//!  200 us                     bursts of 2, CL 2                        |
//!                                              [ place ] <-------------+
//! ```
//!
//! The device's clock is the core's, inverted: commands and data change half a cycle before its edge. A word begins some 8 ns (at CL 2) and what both ways take, 3 to 6 ns, behind that edge, and ends by the ways and 1.8 ns behind the next. The core's falling edge, a cycle behind the device's, is 6 ns or more from either end at 50 MHz.
//! What is not known is how many cycles the FPGA's cells take there and back: [`PLACES`] are tried. Two lines must be read, four times each; each wire differs between them and from word to word. If they never are, the memory is `broken`, which is said and stays so.
//!
//! **Time**: 0.2 ms, and some hundred cycles for the search. What was in memory is lost, of the first two lines in any case.
//!
//! Reset begins from the start. Longest path: the word read against what it must be.

use ferrowire_rtl::{clog2, lit, module, Fsm, Interface, Scope, Sig, Stream};

use super::config::{BURST, CL};
use super::{Line, SdrConfig};
use crate::lines::Beat;
use crate::rows::{self, code, Access, Command};
use crate::start::Status;

/// Cycles behind a command in which its first word is looked for.
pub(super) const PLACES: u32 = 16;
/// Refreshes before the mode is set.
const REFRESHES: u32 = 8;
/// How often both lines are read at a place.
const TIMES: u32 = 4;
/// What is written for the search: the second word is the first, inverted, and so is the second line.
const PATTERN: u64 = 0x1c4f_f091_e3b0_0f6e;
/// The mode: bursts of two in sequence, both ways.
const MODE: u32 = CL << 4 | BURST.trailing_zeros();
/// MRS to the next command.
const MODE_CYCLES: u32 = 2;

/// What leaves.
#[derive(Interface)]
pub(crate) struct Started {
    pub command: Command,
    /// Lines are taken, and the memory is refreshed.
    pub up: Sig,
    pub line: Stream<Line>,
    /// Cycles behind a command in which its first word is caught.
    pub place: Sig,
    pub status: Status,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    /// Nothing but the clock.
    Wait,
    /// Rows that are open, as behind a new bitstream.
    Close,
    Refresh,
    Mode,
    /// A line is handed on.
    Write,
    Read,
    /// It is awaited.
    Look,
    Done,
}

/// See the page's top. `beat`: what was read, at the place that is asked for.
#[module]
pub(crate) fn start(m: &Scope, cfg: &SdrConfig, beat: Beat) -> Started {
    let state = m.fsm("state", State::Wait);
    let times = cfg.device().times;
    let first = cfg.microseconds(cfg.start_us).max(times.rfc);
    let wait = m.reg("wait", clog2(u64::from(first) + 1)).reset(first);
    let over = !wait.any();
    m.when(!over, |m| m.set(&wait, wait - 1));
    let refreshes = m.reg("refreshes", clog2(REFRESHES.into())).reset(0);
    let (up, done, broken) =
        (m.reg("up", 1).reset(0), m.reg("done", 1).reset(0), m.reg("broken", 1).reset(0));
    let command = m.wire_of("command", &Command::of(&cfg.device()));
    command.give(m, code::NOP, 0, 0);
    // `wait` is seen to be over so many cycles behind that in which it is set.
    let go = |m: &Scope, to: State, cycles: u32| {
        m.set(&state, to);
        m.set(&wait, cycles - 1);
    };
    m.when(state.is(State::Wait) & over, |m| go(m, State::Close, 1));
    m.when(state.is(State::Close) & over, |m| {
        command.give(m, code::PRECHARGE, 0, rows::ALL);
        go(m, State::Refresh, times.rp);
    });
    m.when(state.is(State::Refresh) & over, |m| {
        command.give(m, code::REFRESH, 0, 0);
        m.set(&refreshes, refreshes + 1);
        go(m, State::Refresh, times.rfc);
        m.when(refreshes.all(), |m| m.set(&state, State::Mode));
    });
    m.when(state.is(State::Mode) & over, |m| {
        command.give(m, code::MODE, 0, MODE);
        go(m, State::Write, MODE_CYCLES);
    });

    // The search.
    let place = m.reg("place", clog2(PLACES.into())).reset(0);
    let second = m.reg("second", 1).reset(0);
    let times = m.reg("times", clog2(TIMES.into())).reset(0);
    let pattern = |second: Sig| lit(64, PATTERN) ^ second.repeat(64);
    let (writes, reads) = (state.is(State::Write) & over, state.is(State::Read));
    m.when(writes, |m| m.set(&up, 1));
    let shape = Access::of(&cfg.device());
    let access = Access { write: writes, ..shape.numbered(second.zext(shape.number().width())) };
    let line = Stream::new(m, "line", (writes & up) | reads, Line { access, data: pattern(second) });
    m.when(line.fire(), |m| {
        m.when(reads, |m| m.set(&state, State::Look)).otherwise(|m| {
            m.set(&second, !second);
            m.when(second, |m| m.set(&state, State::Read));
        });
    });
    let right = beat.data.eq(pattern(second));
    m.when(state.is(State::Look) & beat.valid, |m| {
        m.set(&state, State::Read);
        m.set(&second, !second);
        m.when(second, |m| m.set(&times, times + 1));
        m.when(!right, |m| {
            m.set(&second, 0);
            m.set(&times, 0);
            m.set(&place, place + 1);
        });
        m.when((right & second & times.all()) | (!right & place.all()), |m| {
            m.set(&done, 1);
            m.set(&broken, !right);
            m.set(&state, State::Done);
        });
    });
    Started { command, up, line, place, status: Status { done, broken } }
}
