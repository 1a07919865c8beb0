// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Bits`]: a value of any width, as ports, constants and memories hold it.

use std::fmt;

use smallvec::{smallvec, SmallVec};

/// Number of 64-bit words that hold `width` bits.
pub(crate) fn words(width: u32) -> usize {
    width.div_ceil(64) as usize
}

/// The bits of the last word that belong to a value of `width` bits.
pub(crate) fn top_mask(width: u32) -> u64 {
    match width % 64 {
        0 => u64::MAX,
        n => (1 << n) - 1,
    }
}

/// An unsigned value of a fixed width. Bit 0 is the least significant one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Bits {
    width: u32,
    /// In place up to 128 bits: nearly all ports, constants and fields.
    words: SmallVec<[u64; 2]>,
}

impl Bits {
    /// All zeros.
    pub fn zero(width: u32) -> Self {
        Bits { width, words: smallvec![0; words(width)] }
    }

    /// All ones.
    pub fn ones(width: u32) -> Self {
        Bits { width, words: smallvec![u64::MAX; words(width)] }.cut()
    }

    /// The value `value`, cut to `width` bits.
    pub fn new(width: u32, value: u128) -> Self {
        Bits::from_words(width, &[value as u64, (value >> 64) as u64])
    }

    /// From little-endian 64-bit words; missing words are zero, surplus bits are cut.
    pub fn from_words(width: u32, source: &[u64]) -> Self {
        let mut bits = Bits::zero(width);
        for (to, from) in bits.words.iter_mut().zip(source) {
            *to = *from;
        }
        bits.cut()
    }

    /// From little-endian bytes; missing bytes are zero, surplus bits are cut.
    pub fn from_bytes(width: u32, bytes: &[u8]) -> Self {
        let mut bits = Bits::zero(width);
        for (word, bytes) in bits.words.iter_mut().zip(bytes.chunks(8)) {
            bytes.iter().rev().for_each(|byte| *word = *word << 8 | u64::from(*byte));
        }
        bits.cut()
    }

    /// With the bits of the last word beyond the width cleared.
    fn cut(mut self) -> Self {
        if let Some(last) = self.words.last_mut() {
            *last &= top_mask(self.width);
        }
        self
    }

    /// Width in bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Little-endian 64-bit words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Little-endian bytes, the last one padded with zeros.
    pub fn to_bytes(&self) -> Vec<u8> {
        (0..self.width.div_ceil(8) as usize).map(|i| (self.words[i / 8] >> (8 * (i % 8))) as u8).collect()
    }

    /// The low 64 bits.
    pub fn to_u64(&self) -> u64 {
        self.words.first().copied().unwrap_or(0)
    }

    /// The low 128 bits.
    pub fn to_u128(&self) -> u128 {
        u128::from(self.to_u64()) | u128::from(self.words.get(1).copied().unwrap_or(0)) << 64
    }

    /// Whether every bit is zero.
    pub fn is_zero(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// Whether every bit is one.
    pub fn is_ones(&self) -> bool {
        *self == Bits::ones(self.width)
    }

    /// Number of bits that the value needs.
    pub fn significant(&self) -> u32 {
        (0..self.words.len())
            .rev()
            .find(|i| self.words[*i] != 0)
            .map_or(0, |i| 64 * i as u32 + 64 - self.words[i].leading_zeros())
    }

    /// One bit.
    pub fn bit(&self, index: u32) -> bool {
        self.words[(index / 64) as usize] >> (index % 64) & 1 == 1
    }
}

impl fmt::LowerHex for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.width.div_ceil(4).max(1) as usize;
        for i in (0..digits).rev() {
            let digit = self.words.get(i / 16).map_or(0, |w| w >> (4 * (i % 16)) & 15);
            write!(f, "{digit:x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'h{:x}", self.width, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_words_agree_at_odd_widths() {
        for width in [1, 7, 8, 63, 64, 65, 127, 512] {
            let all = Bits::ones(width);
            assert_eq!(Bits::from_bytes(width, &all.to_bytes()), all);
            assert_eq!(all.significant(), width);
            assert!(all.is_ones() && !all.is_zero());
        }
    }

    #[test]
    fn hex_shows_the_whole_width() {
        assert_eq!(format!("{:?}", Bits::new(12, 0xabc)), "12'habc");
        assert_eq!(format!("{:?}", Bits::new(65, 5)), "65'h00000000000000005");
    }
}
