// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC-32 of IEEE 802.3 (3.2.9), a byte a cycle: a frame's check.
//!
//! It finds every burst of up to 32 bits and, in frames as short as these, every error of up to four bits; of longer noise one in 2^32 passes. A CRC of 16 bits would
//! let one in 65,536 pass, and a write that was not asked for is worse than two bytes.
//!
//! Two or three levels of LUTs: a bit of the next state adds up ten bits at most.

use ferrowire_rtl::{cat, lit, Sig};

/// State before the first byte.
pub const START: u32 = !0;

/// State behind a frame and its CRC, least significant byte first.
pub const RESIDUE: u32 = 0xdebb_20e3;

/// The polynomial, least significant bit first.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// Width of the state.
pub const WIDTH: u32 = 32;

/// The state behind one more byte.
pub fn next(state: Sig, byte: Sig) -> Sig {
    // What each bit of the sum of state and byte adds to the next state.
    let sum = state.trunc(8) ^ byte;
    let adds =
        |bit: u32| (0..8).fold(1u32 << bit, |s, _| if s & 1 == 1 { s >> 1 ^ POLYNOMIAL } else { s >> 1 });
    let table: Vec<u32> = (0..8).map(adds).collect();
    let moved = state.slice(8, 24);
    let bits: Vec<Sig> = (0..WIDTH)
        .map(|i| {
            let kept = if i < 24 { moved.bit(i) } else { lit(1, 0) };
            let with = (0..8).filter(|b| table[*b as usize] >> i & 1 == 1).map(|b| sum.bit(b));
            with.fold(kept, |a, b| a ^ b)
        })
        .collect();
    cat(&bits)
}
