// SPDX-License-Identifier: MIT OR Apache-2.0
//! A UART with 8 data bits, no parity, one stop bit.
//!
//! ```text
//!             fraction += step ----> sample, 16 (or 8) a bit
//!                                       |
//!  rx pin --> two flops --> start? --> count --> three samples in the middle --> majority --> shift --> byte, framing error
//!  byte ----> shift --> tx pin          (its own fraction, which begins with the byte)
//! ```
//!
//! **Sampling.** A fraction of 20 bits counts samples, so a rate needs not divide the clock: it is right within 2^-20, and a byte begins anew at its start bit. A bit is what two
//! of the three samples in its middle say. With 16 samples a bit the middle of the stop bit is met within 1/16 of a bit, which leaves some 4% for both clocks' error.
//!
//! **Rates.** A byte in ten bits. A byte is given in the middle of its stop bit, so that a sender who is faster by some percent is followed. It is a pulse
//! without `ready`: who receives takes it.
//!
//! **Bad input.** A start bit that is not low in its middle is noise, and forgotten. A stop bit that is low is a framing error, told with the byte; a line
//! that stays low (a break) is one such byte, and nothing more until it has been high.
//!
//! **Reset** forgets the byte under way; `tx` goes high. Longest path: the addition of the fraction, 20 bits.

use crate::config::SerialConfig;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Fsm, Scope, Sig, Stream};

/// What a line brings, in one cycle.
#[derive(Clone, Bundle)]
pub struct Received {
    /// A byte has come.
    pub valid: Sig,
    /// The byte.
    pub byte: Sig,
    /// Its stop bit was low.
    pub broken: Sig,
}

impl Received {
    /// The shape.
    pub fn of() -> Self {
        Received { valid: bits(1), byte: bits(8), broken: bits(1) }
    }
}

#[derive(Clone, Copy, Fsm)]
enum Line {
    /// Waits for a start bit.
    Idle,
    /// Within it.
    Start,
    /// Within a data bit.
    Data,
    /// Within the stop bit.
    Stop,
    /// Waits for the line to be high.
    Break,
}

/// A sample is due: counts from `begin` on.
fn samples(m: &Scope, cfg: &SerialConfig, begin: Sig) -> Sig {
    let width = SerialConfig::FRACTION;
    let fraction = m.reg("fraction", width).reset(0);
    let sum = fraction.zext(width + 1) + lit(width + 1, cfg.step());
    m.set(&fraction, begin.then(0, sum.trunc(width)));
    !begin & sum.msb()
}

/// Bytes from the line `rx`, which is of no clock.
#[module]
pub fn receive(m: &Scope, cfg: &SerialConfig, rx: Sig) -> Received {
    // An idle line is high, from reset on.
    let first = m.reg("first", 1).reset(1);
    let line = m.reg("line", 1).reset(1);
    m.set(&first, rx);
    m.set(&line, first);

    let most = cfg.oversampling();
    let state = m.fsm("state", Line::Idle);
    let begin = (state.is(Line::Idle) & !line).named("begin");
    let sample = samples(m, cfg, begin);
    let place = m.reg("place", clog2(u64::from(most))).no_reset();
    let index = m.reg("index", 3).no_reset();
    let shift = m.reg("shift", 8).no_reset();
    let before = m.reg("before", 2).no_reset();
    m.when(begin, |m| {
        m.set(&state, Line::Start);
        m.set(&place, 0);
    })
    .otherwise_when(sample, |m| {
        m.set(&place, place + 1);
        m.set(&before, cat(&[line, before.bit(0)]));
    });
    // Three samples, of which this is the last.
    let votes = [line & before.bit(0), line & before.bit(1), before.bit(0) & before.bit(1)];
    let level = cat(&votes).any().named("level");
    let middle = (sample & place.eq(most / 2 - 1)).named("middle");
    let ends = (sample & place.all()).named("ends");

    m.when(state.is(Line::Start), |m| {
        m.when(middle & level, |m| m.set(&state, Line::Idle));
        m.when(ends, |m| {
            m.set(&state, Line::Data);
            m.set(&index, 0);
        });
    });
    m.when(state.is(Line::Data), |m| {
        m.when(middle, |m| m.set(&shift, cat(&[shift.slice(1, 7), level])));
        m.when(ends, |m| {
            m.set(&index, index + 1);
            m.when(index.all(), |m| m.set(&state, Line::Stop));
        });
    });
    let done = state.is(Line::Stop) & middle;
    // The next start bit may come early: only a line that is low is waited for.
    m.when(done, |m| {
        m.set(&state, Line::Idle);
        m.when(!level, |m| m.set(&state, Line::Break));
    });
    m.when(state.is(Line::Break) & line, |m| m.set(&state, Line::Idle));

    let valid = m.reg("valid", 1).reset(0);
    m.set(&valid, done);
    let byte = m.reg("byte", 8).no_reset();
    let broken = m.reg("broken", 1).no_reset();
    m.when(done, |m| {
        m.set(&byte, shift);
        m.set(&broken, !level);
    });
    Received { valid, byte, broken }
}

/// The line `tx` from bytes: one is taken when the stop bit of the one before has ended.
#[module]
pub fn transmit(m: &Scope, cfg: &SerialConfig, byte: Stream<Sig>) -> Sig {
    let most = cfg.oversampling();
    let busy = m.reg("busy", 1).reset(0);
    let sample = samples(m, cfg, byte.fire());
    let place = m.reg("place", clog2(u64::from(most))).no_reset();
    // Bits that are left: data and the stop bit.
    let left = m.reg("left", 4).no_reset();
    let shift = m.reg("shift", 9).no_reset();
    let tx = m.reg("tx", 1).reset(1);
    byte.accept(!busy);
    m.when(byte.fire(), |m| {
        m.set(&busy, 1);
        m.set(&place, 0);
        m.set(&left, 9);
        m.set(&shift, cat(&[byte.payload, lit(1, 1)]));
        m.set(&tx, 0);
    })
    .otherwise_when(busy & sample, |m| {
        m.set(&place, place + 1);
        m.when(place.all(), |m| {
            m.set(&busy, left.any());
            m.set(&left, left - 1);
            m.set(&tx, !left.any() | shift.bit(0));
            m.set(&shift, cat(&[shift.slice(1, 8), lit(1, 1)]));
        });
    });
    tx
}
