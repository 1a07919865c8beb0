// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet sequence numbers: 24 bits that wrap, compared in a window of 2^23 (IBTA 9.7.2, 9.7.3).

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A packet sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

/// What a responder makes of a PSN, given the one it expects (IBTA 9.7.4.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PsnClass {
    /// The expected one.
    Expected,
    /// One of the 2^23 before it.
    Duplicate,
    /// One of the 2^23 - 1 behind it: packets are missing.
    Ahead,
}

impl Psn {
    /// Bits of a PSN.
    pub const BITS: u32 = 24;
    /// The largest.
    pub const MAX: Psn = Psn(0xff_ffff);
    /// Half of all: PSNs that far apart cannot be compared.
    pub const WINDOW: u32 = 1 << 23;

    /// From the low 24 bits of a number.
    pub const fn new(value: u32) -> Self {
        Psn(value & Self::MAX.0)
    }

    /// As a number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The one that follows.
    pub const fn next(self) -> Self {
        Psn::new(self.0 + 1)
    }

    /// The one before.
    pub const fn previous(self) -> Self {
        Psn::new(self.0.wrapping_sub(1))
    }

    /// `n` behind, wrapping.
    pub const fn plus(self, n: u32) -> Self {
        Psn::new(self.0.wrapping_add(n))
    }

    /// Steps from `from` forward to `self`, 0 to 2^24 - 1.
    pub const fn distance_from(self, from: Psn) -> u32 {
        self.0.wrapping_sub(from.0) & Self::MAX.0
    }

    /// Steps from `from` to `self` by the shorter way, -2^23 to 2^23 - 1; negative when `self` is before.
    pub const fn offset_from(self, from: Psn) -> i32 {
        (self.distance_from(from) << 8) as i32 >> 8
    }

    /// Whether `self` is before `other`: by at most 2^23.
    pub const fn is_before(self, other: Psn) -> bool {
        self.offset_from(other) < 0
    }

    /// Whether `self` is one of the `count` PSNs that begin at `first`.
    pub const fn is_within(self, first: Psn, count: u32) -> bool {
        self.distance_from(first) < count
    }

    /// What a responder that expects `self` makes of `received`.
    pub const fn classify(self, received: Psn) -> PsnClass {
        match received.offset_from(self) {
            0 => PsnClass::Expected,
            1.. => PsnClass::Ahead,
            _ => PsnClass::Duplicate,
        }
    }
}

impl Add<u32> for Psn {
    type Output = Psn;
    fn add(self, n: u32) -> Psn {
        self.plus(n)
    }
}

impl AddAssign<u32> for Psn {
    fn add_assign(&mut self, n: u32) {
        *self = self.plus(n);
    }
}

impl Sub<u32> for Psn {
    type Output = Psn;
    fn sub(self, n: u32) -> Psn {
        Psn::new(self.0.wrapping_sub(n))
    }
}

/// The signed distance, see [`Psn::offset_from`].
impl Sub for Psn {
    type Output = i32;
    fn sub(self, from: Psn) -> i32 {
        self.offset_from(from)
    }
}

impl From<Psn> for u32 {
    fn from(psn: Psn) -> u32 {
        psn.0
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}
