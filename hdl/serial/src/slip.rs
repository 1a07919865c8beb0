// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames on a line of bytes (SLIP, RFC 1055): a mark before and behind each, which is no byte of any.
//!
//! ```text
//!  line --> [ ESC? ] --> byte, mark, broken          byte or mark --> [ one or two ] --> line
//! ```
//!
//! `END` (0xc0) is the mark. Within a frame 0xc0 is `ESC ESC_END`, and 0xdb `ESC ESC_ESC`. So whatever came before, a receiver finds the next frame's beginning: the mark cannot be in its middle. Decoding needs
//! no memory, and encoding no look ahead, as COBS would; frames of nothing but 0xc0 are twice as long.
//!
//! [`decode`]: no latency; a byte of the line in each cycle. `ESC` before another byte, or a byte with a framing error, breaks the frame: `broken` is told, and whoever
//! receives drops the frame to its mark. [`encode`]: a byte of the line a cycle, latency 1.
//!
//! Reset forgets half an escape.

pub use crate::protocol::{END, ESC, ESC_END, ESC_ESC};
use crate::uart::Received;
use ferrowire_rtl::{bits, lit, module, Bundle, Scope, Sig, Stream};

/// What a line means, in one cycle: none or one of these is high.
#[derive(Clone, Bundle)]
pub struct Decoded {
    /// A byte of a frame.
    pub valid: Sig,
    /// The byte.
    pub byte: Sig,
    /// A frame ends, and another begins.
    pub mark: Sig,
    /// What came is of no frame.
    pub broken: Sig,
}

impl Decoded {
    /// The shape.
    pub fn of() -> Self {
        Decoded { valid: bits(1), byte: bits(8), mark: bits(1), broken: bits(1) }
    }
}

/// What is to be sent.
#[derive(Clone, Bundle)]
pub struct Symbol {
    /// A byte of a frame.
    pub byte: Sig,
    /// A mark, and no byte.
    pub mark: Sig,
}

/// Understands what a line brings.
#[module]
pub fn decode(m: &Scope, line: Received) -> Decoded {
    let escaped = m.reg("escaped", 1).reset(0);
    let is = |byte: u8| line.byte.eq(byte);
    let whole = line.valid & !line.broken;
    let mark = whole & is(END);
    m.when(line.valid, |m| m.set(&escaped, whole & is(ESC) & !escaped));
    let known = is(ESC_END) | is(ESC_ESC);
    let plain = !escaped & !is(ESC);
    let valid = whole & !mark & (plain | (escaped & known));
    let byte = escaped.then(is(ESC_END).then(lit(8, END), lit(8, ESC)), line.byte);
    // A mark behind an escape ends a frame that has lost a byte.
    let broken = line.valid & (line.broken | (escaped & !known & !mark));
    Decoded { valid, byte, mark, broken }
}

/// Bytes of a line.
#[module]
pub fn encode(m: &Scope, symbol: Stream<Symbol>) -> Stream<Sig> {
    let held = m.reg("held", 1).reset(0);
    let byte = m.reg("byte", 8).no_reset();
    // What follows an escape.
    let second = m.reg("second", 1).reset(0);
    let behind = m.reg("behind", 8).no_reset();
    let out = Stream::new(m, "out", held, byte);
    let free = !held | out.ready;
    symbol.accept(free & !second);
    let is = |byte: u8| symbol.byte.eq(byte);
    let escapes = !symbol.mark & (is(END) | is(ESC));
    m.when(out.fire(), |m| m.set(&held, 0));
    m.when(free & second, |m| {
        m.set(&held, 1);
        m.set(&byte, behind);
        m.set(&second, 0);
    });
    m.when(symbol.fire(), |m| {
        m.set(&held, 1);
        m.set(&byte, symbol.mark.then(lit(8, END), escapes.then(lit(8, ESC), symbol.byte)));
        m.set(&second, escapes);
        m.set(&behind, is(END).then(lit(8, ESC_END), lit(8, ESC_ESC)));
    });
    out
}
