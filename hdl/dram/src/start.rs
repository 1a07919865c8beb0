// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the FPGA's reset to a memory that can be used: the device's start (JESD79-3F 3.3.1), then a search for the time at which its words are caught.
//!
//! ```text
//!  RESET# low --> CKE low --> PRE --> MR2, MR3, MR1, MR0 --> ZQCL --> write two lines --> read them at each delay --> up
//!     200 us        500 us              CWL 6    DLL off      512                            |
//!                                               CL 6                [ earliest, latest ] <---+
//! ```
//!
//! **DLL off** (4.4): the memory's clock is as slow as the core's, far below what its DLL takes. Words come 1 to 10 ns behind the clock's edge then, by the device, its voltage and temperature. What is between the FPGA's cells and the
//! device is not known either. So a word is sampled every quarter of a cycle, and each sample can be [delayed](Delay) by a third or two thirds of that: there are some six places in a word of half a cycle, of which the one in the middle is used.
//!
//! **Search.** Two lines that differ in each bit are read four times at each place, in the order of delays. The window must be three places wide; else the memory is `broken`, which is said and stays so.
//!
//! **Time**: 0.7 ms, and about as much for the search at 50 MHz. What was in memory is lost, of the first two lines in any case.
//!
//! Reset begins from the start. Longest path: the first read word against what it must be.

use ferrowire_rtl::{clog2, lit, module, Bits, Bundle, Fsm, Interface, Scope, Sig, Stream};

use crate::commands::Line;
use crate::config::{DramConfig, LINE_BYTES};
use crate::lines::Beat;
use crate::rows::{self, code, Access, Command};

/// Steps of `DELAYF` in a third of a quarter of a cycle, at most: 25 ps each.
const MOST_STEPS: u32 = 63;
/// Quarters of a cycle in which words are looked for, from their command on.
pub(crate) const QUARTERS: u32 = 128;
/// How often both lines are read at a place.
const TIMES: u32 = 4;
/// Places in a row that must be good.
const WIDE_ENOUGH: u32 = 3;

/// What is written for the search: no line is another, shifted; the second is the first, inverted.
const PATTERN: u128 = 0x9d1c_5a27_e3b0_0f6e_4187_c2d9_36f5_a85b;

/// What moves the delays of all data wires: `DELAYF` of an ECP5 (FPGA-TN-02035).
#[derive(Clone, Bundle)]
pub struct Delay {
    /// Low: back to none.
    pub load_n: Sig,
    /// A step more at its falling edge.
    pub step: Sig,
}

/// Where words are caught.
#[derive(Clone, Bundle)]
pub(crate) struct Place {
    /// Quarters of a cycle behind the command.
    pub quarters: Sig,
}

/// What became of the search.
#[derive(Clone, Bundle)]
pub struct Status {
    /// It is over: memory can be used, or else it is broken.
    pub done: Sig,
    /// It found nothing: all answers are SLVERR.
    pub broken: Sig,
}

/// What leaves.
#[derive(Interface)]
pub(crate) struct Started {
    pub reset_n: Sig,
    pub cke: Sig,
    pub command: Command,
    /// Lines are taken, and the memory is refreshed.
    pub up: Sig,
    pub line: Stream<Line>,
    pub place: Place,
    pub delay: Delay,
    pub status: Status,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    Reset,
    CkeLow,
    Exit,
    /// Rows that are open where RESET# is not ours, as behind a new bitstream.
    Close,
    Mode2,
    Mode3,
    Mode1,
    Mode0,
    Calibrate,
    /// A delay is set up.
    Load,
    Step,
    /// A line is handed on.
    Write,
    Read,
    /// Its two halves are awaited.
    Lower,
    Upper,
    /// From place to place.
    Next,
    /// To the middle.
    Count,
    Done,
}

/// Values of the mode registers (JESD79-3F 3.4).
mod mode {
    /// Bursts of 8 in sequence, CL 6, write recovery of 5 cycles, which nobody asks for.
    pub const MR0: u32 = 0x220;
    /// DLL off, RZQ / 6, no termination, no additive latency.
    pub const MR1: u32 = 0x001;
    /// CWL 6, no dynamic termination.
    pub const MR2: u32 = 0x008;
    /// No predefined pattern.
    pub const MR3: u32 = 0x000;
}

/// See the page's top. `runs`: what leaves gets to the device; `beat`: what was read, at the place and with the delay that are asked for.
#[module]
pub(crate) fn start(m: &Scope, cfg: &DramConfig, runs: Sig, beat: Beat) -> Started {
    let state = m.fsm("state", State::Reset);
    // From one command to the next: tXPR, tMRD, tMOD, tZQinit.
    let after_cke = (cfg.times().rfc + 1).max(5);
    let (between_modes, after_modes, calibrated) = (4, 12, 512);
    let longest = cfg.microseconds(cfg.reset_us.max(cfg.cke_us)).max(calibrated);
    let wait = m.reg("wait", clog2(u64::from(longest) + 1)).reset(cfg.microseconds(cfg.reset_us));
    let over = !wait.any();
    m.when(!over & runs, |m| m.set(&wait, wait - 1));
    let (reset_n, cke) = (m.reg("reset_n", 1).reset(0), m.reg("cke", 1).reset(0));
    let (up, done, broken) =
        (m.reg("up", 1).reset(0), m.reg("done", 1).reset(0), m.reg("broken", 1).reset(0));

    let shape = Command::of(&cfg.device());
    let command = m.wire_of("command", &shape);
    command.give(m, code::NOP, 0, 0);
    let go = |m: &Scope, to: State, cycles: u32| {
        m.set(&state, to);
        m.set(&wait, cycles);
    };
    m.when(state.is(State::Reset) & over, |m| {
        m.set(&reset_n, 1);
        go(m, State::CkeLow, cfg.microseconds(cfg.cke_us));
    });
    m.when(state.is(State::CkeLow) & over, |m| {
        m.set(&cke, 1);
        go(m, State::Exit, after_cke);
    });
    m.when(state.is(State::Exit) & over, |m| go(m, State::Close, 0));
    let modes = [
        (State::Mode2, 2, mode::MR2, State::Mode3, between_modes),
        (State::Mode3, 3, mode::MR3, State::Mode1, between_modes),
        (State::Mode1, 1, mode::MR1, State::Mode0, between_modes),
        (State::Mode0, 0, mode::MR0, State::Calibrate, after_modes),
    ];
    m.when(state.is(State::Close) & over, |m| {
        command.give(m, code::PRECHARGE, 0, rows::ALL);
        go(m, State::Mode2, between_modes);
    });
    for (own, register, value, next, cycles) in modes {
        m.when(state.is(own) & over, |m| {
            command.give(m, code::MODE, register, value);
            go(m, next, cycles);
        });
    }
    m.when(state.is(State::Calibrate) & over, |m| {
        command.give(m, code::CALIBRATE, 0, rows::ALL);
        go(m, State::Write, calibrated);
    });

    // The search: of three delays, from the longest to none, all quarters.
    let quarters = m.reg("quarters", clog2(QUARTERS.into())).reset(0);
    let thirds = m.reg("thirds", 2).reset(2);
    let second = m.reg("second", 1).reset(0);
    let times = m.reg("times", clog2(TIMES.into())).reset(0);
    // Places in the order of time: three to a quarter, a longer delay looks at what was earlier.
    let places = clog2(u64::from(QUARTERS) * 3);
    let tripled = (quarters.zext(places) + quarters.zext(places)) + quarters.zext(places);
    let number = tripled + (lit(places, 2) - thirds.zext(places));
    let (earliest, latest) = (m.reg("earliest", places).no_reset(), m.reg("latest", places).no_reset());
    let found = m.reg("found", 1).reset(0);

    let pattern = |second: Sig| {
        let all = ferrowire_rtl::lit_bits(&Bits::new(8 * LINE_BYTES, PATTERN));
        all ^ second.repeat(8 * LINE_BYTES)
    };
    let writes = (state.is(State::Write) & over).named("writes");
    let reads = state.is(State::Read);
    let shape = Access::of(&cfg.device());
    let place = shape.numbered(second.zext(shape.number().width()));
    let line =
        Line { access: Access { write: writes, ..place }, data: pattern(second), mask: lit(LINE_BYTES, 0) };
    let line = Stream::new(m, "line", writes | reads, line);
    m.when(writes, |m| m.set(&up, 1));
    m.when(line.fire(), |m| {
        m.set(&second, !second);
        m.when(reads, |m| m.set(&state, State::Lower));
        m.when(writes & second, |m| m.set(&state, State::Load));
    });
    // `second` has gone on: it tells of the other line.
    let wanted = pattern(!second);
    let lower = state.is(State::Lower);
    let right = m.reg("right", 1).no_reset();
    m.when(beat.valid & lower, |m| {
        m.set(&right, beat.data.eq(wanted.trunc(64)));
        m.set(&state, State::Upper);
    });
    let good = right & beat.data.eq(wanted.slice(64, 64));
    m.when(beat.valid & state.is(State::Upper), |m| {
        let all = times.all() & !second;
        m.when(good & !all, |m| {
            m.set(&times, times + second.then(lit(times.width(), 0), lit(times.width(), 1)));
            m.set(&state, State::Read);
        })
        .otherwise(|m| {
            m.set(&state, State::Next);
            m.set(&second, 0);
            m.set(&times, 0);
        });
        m.when(good & all, |m| {
            m.set(&found, 1);
            m.when(!found | number.lt(earliest), |m| m.set(&earliest, number));
            m.when(!found | number.gt(latest), |m| m.set(&latest, number));
        });
    });
    let middle = ((earliest.zext(places + 1) + latest.zext(places + 1)) >> 1).trunc(places);
    let wide = found & latest.ge(earliest + (WIDE_ENOUGH - 1));
    m.when(state.is(State::Next), |m| {
        m.set(&quarters, quarters + 1);
        m.set(&state, State::Read);
        m.when(quarters.all(), |m| {
            m.set(&thirds, thirds - 1);
            m.set(&state, State::Load);
            m.when(!thirds.any(), |m| {
                m.set(&thirds, 2);
                m.set(&broken, !wide);
                m.set(&state, State::Count);
            });
        });
    });
    m.when(state.is(State::Count), |m| {
        m.when(number.eq(middle) | broken, |m| {
            m.set(&done, 1);
            m.set(&state, State::Load);
        })
        .otherwise_when(thirds.any(), |m| m.set(&thirds, thirds - 1))
        .otherwise(|m| {
            m.set(&thirds, 2);
            m.set(&quarters, quarters + 1);
        });
    });

    // A third of a quarter of a cycle is so many steps, or as many as there are.
    let step = (10_000_000_000u64 / 12 / u64::from(cfg.clock_khz) / 250) as u32;
    let third = step.min(MOST_STEPS);
    let steps = m.reg("steps", 7).no_reset();
    let (load_n, moves) = (m.reg("load_n", 1).reset(0), m.reg("moves", 1).reset(0));
    let settle = 15;
    m.when(state.is(State::Load), |m| {
        m.set(&load_n, 0);
        m.set(&moves, 0);
        let longer = thirds.bit(0).then(lit(7, third), lit(7, 0));
        m.set(&steps, thirds.bit(1).then(lit(7, 2 * third), longer));
        go(m, State::Step, settle);
    });
    m.when(state.is(State::Step) & over, |m| {
        m.set(&load_n, 1);
        m.set(&moves, !moves & steps.any() & load_n);
        m.set(&wait, 3);
        m.when(moves, |m| m.set(&steps, steps - 1));
        m.when(load_n & !moves & !steps.any(), |m| {
            m.set(&state, State::Read);
            m.when(done, |m| m.set(&state, State::Done));
        });
    });
    let settled = state.is(State::Done);
    Started {
        reset_n,
        cke,
        command,
        up,
        line,
        place: Place { quarters },
        delay: Delay { load_n, step: moves },
        status: Status { done: settled, broken },
    }
}
