// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Sig`]: a handle to a signal, its operators and their width checks.

use crate::bits::Bits;
use crate::design::{with_at, Design, Loc};
use crate::netlist::{Binary, NodeId, Unary};
use std::fmt;
use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Not, Shl, Shr, Sub};
use std::panic::Location;

/// A signal of the design under construction: a handle, free to copy.
///
/// All values are unsigned. Operators demand equal widths and panic with both widths and the caller's line where
/// they differ; integer literals take the other operand's width and must fit. Sums and differences wrap.
#[derive(Clone, Copy)]
pub struct Sig {
    pub(crate) id: NodeId,
    pub(crate) width: u32,
    pub(crate) design: u32,
}

impl fmt::Debug for Sig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sig({} bits)", self.width)
    }
}

/// A shape of `width` bits: it stands for a signal where only the width counts, as in the fields of a bundle that
/// describes a port or a memory.
#[track_caller]
pub fn bits(width: u32) -> Sig {
    assert!(width > 0, "{}: a signal has at least one bit", Location::caller());
    Sig { id: NodeId::MAX, width, design: 0 }
}

/// Number of bits that count `0..n`, at least one.
pub fn clog2(n: u64) -> u32 {
    n.max(2).next_power_of_two().trailing_zeros()
}

/// What an operator takes beside a signal: another signal, or an integer of the signal's width.
pub trait Operand {
    /// The signal, or a constant of `width` bits.
    #[doc(hidden)]
    fn operand(self, width: u32, loc: Loc) -> Sig;
}

impl Operand for Sig {
    fn operand(self, _width: u32, _loc: Loc) -> Sig {
        self
    }
}

impl Operand for &Sig {
    fn operand(self, _width: u32, _loc: Loc) -> Sig {
        *self
    }
}

impl Operand for &Bits {
    fn operand(self, _width: u32, loc: Loc) -> Sig {
        with_at(loc, |d| {
            let id = d.literal(self.clone(), loc);
            d.sig(id)
        })
    }
}

impl Operand for bool {
    fn operand(self, width: u32, loc: Loc) -> Sig {
        u8::from(self).operand(width, loc)
    }
}

macro_rules! integer_operand {
    ($($t:ty)*) => {$(
        impl Operand for $t {
            fn operand(self, width: u32, loc: Loc) -> Sig {
                let value = match u128::try_from(self) {
                    Ok(value) => value,
                    #[allow(unreachable_patterns)]
                    Err(_) => panic!("{loc}: literal {self} is negative; signals are unsigned"),
                };
                let need = 128 - value.leading_zeros();
                assert!(need <= width, "{loc}: literal {value} needs {need} bits but the signal has {width}");
                (&Bits::new(width, value)).operand(width, loc)
            }
        }
    )*};
}
integer_operand!(i32 u8 u16 u32 u64 u128 usize);

/// A constant of `width` bits.
#[track_caller]
pub fn lit(width: u32, value: impl Operand) -> Sig {
    let loc = Location::caller();
    assert!(width != 0, "{loc}: a constant has at least one bit");
    let sig = value.operand(width, loc);
    assert!(sig.width == width, "{loc}: a value of {} bits where {width} were asked for", sig.width);
    sig
}

/// A constant of any width.
#[track_caller]
pub fn lit_bits(value: &Bits) -> Sig {
    value.operand(value.width(), Location::caller())
}

/// Concatenation, least significant part first.
#[track_caller]
pub fn cat<'a>(parts: impl IntoIterator<Item = &'a Sig>) -> Sig {
    let loc = Location::caller();
    let parts: Vec<Sig> = parts.into_iter().copied().collect();
    assert!(!parts.is_empty(), "{loc}: a concatenation of nothing");
    make(loc, |d| {
        let ids = parts.iter().map(|p| d.resolve(*p, loc)).collect::<Result<Vec<_>, _>>()?;
        Ok(d.cat(&ids, loc))
    })
}

/// `yes` where `cond` holds, else `no`; for whole bundles see [`crate::Scope::mux`].
pub(crate) fn mux_sig(cond: Sig, yes: Sig, no: Sig, loc: Loc) -> Sig {
    assert!(cond.width == 1, "{loc}: a condition has one bit, not {}", cond.width);
    assert!(
        yes.width == no.width,
        "{loc}: mux of different widths: {} bits where the condition holds, {} where not",
        yes.width,
        no.width
    );
    make(loc, |d| {
        let (cond, yes, no) = (d.resolve(cond, loc)?, d.resolve(yes, loc)?, d.resolve(no, loc)?);
        Ok(d.mux(cond, yes, no, loc))
    })
}

pub(crate) fn make(loc: Loc, f: impl FnOnce(&mut Design) -> Result<NodeId, String>) -> Sig {
    match with_at(loc, |d| f(d).map(|id| d.sig(id))) {
        Ok(sig) => sig,
        Err(message) => panic!("{message}"),
    }
}

#[track_caller]
fn unary(op: Unary, a: Sig) -> Sig {
    let loc = Location::caller();
    make(loc, |d| {
        let a = d.resolve(a, loc)?;
        Ok(d.unary(op, a, loc))
    })
}

fn binary(op: Binary, what: &str, a: Sig, b: impl Operand, loc: Loc) -> Sig {
    let b = b.operand(a.width, loc);
    assert!(
        a.width == b.width,
        "{loc}: width mismatch in {what}: {} bits on the left, {} bits on the right",
        a.width,
        b.width
    );
    raw_binary(op, a, b, loc)
}

fn raw_binary(op: Binary, a: Sig, b: Sig, loc: Loc) -> Sig {
    make(loc, |d| {
        let (a, b) = (d.resolve(a, loc)?, d.resolve(b, loc)?);
        Ok(d.binary(op, a, b, loc))
    })
}

macro_rules! operator {
    ($($trait:ident $method:ident $op:ident $what:literal;)*) => {$(
        impl<T: Operand> $trait<T> for Sig {
            type Output = Sig;
            #[track_caller]
            fn $method(self, rhs: T) -> Sig {
                binary(Binary::$op, $what, self, rhs, Location::caller())
            }
        }
        impl<T: Operand> $trait<T> for &Sig {
            type Output = Sig;
            #[track_caller]
            fn $method(self, rhs: T) -> Sig {
                binary(Binary::$op, $what, *self, rhs, Location::caller())
            }
        }
    )*};
}
operator! {
    Add add Add "`+`";
    Sub sub Sub "`-`";
    BitAnd bitand And "`&`";
    BitOr bitor Or "`|`";
    BitXor bitxor Xor "`^`";
}

impl Not for Sig {
    type Output = Sig;
    #[track_caller]
    fn not(self) -> Sig {
        unary(Unary::Not, self)
    }
}

impl Not for &Sig {
    type Output = Sig;
    #[track_caller]
    fn not(self) -> Sig {
        unary(Unary::Not, *self)
    }
}

/// The product, as wide as both operands together.
impl Mul<Sig> for Sig {
    type Output = Sig;
    #[track_caller]
    fn mul(self, rhs: Sig) -> Sig {
        raw_binary(Binary::Mul, self, rhs, Location::caller())
    }
}

/// Shift by a constant; the width stays, what is shifted out is lost.
impl Shl<u32> for Sig {
    type Output = Sig;
    #[track_caller]
    fn shl(self, by: u32) -> Sig {
        let loc = Location::caller();
        assert!(by < self.width, "{loc}: shift by {by} of a signal of {} bits", self.width);
        make(loc, |d| {
            let a = d.resolve(self, loc)?;
            Ok(d.shift(true, a, by.into(), loc))
        })
    }
}

/// Shift by a constant; the width stays, zeros come in.
impl Shr<u32> for Sig {
    type Output = Sig;
    #[track_caller]
    fn shr(self, by: u32) -> Sig {
        let loc = Location::caller();
        assert!(by < self.width, "{loc}: shift by {by} of a signal of {} bits", self.width);
        make(loc, |d| {
            let a = d.resolve(self, loc)?;
            Ok(d.shift(false, a, by.into(), loc))
        })
    }
}

impl Sig {
    pub(crate) fn is_shape(&self) -> bool {
        self.id == NodeId::MAX
    }

    /// Width in bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Gives the signal a name for the Verilog and for traces.
    #[track_caller]
    pub fn named(self, name: &str) -> Sig {
        let loc = Location::caller();
        make(loc, |d| {
            let id = d.resolve(self, loc)?;
            d.name(id, name, false);
            Ok(id)
        })
    }

    /// Equal.
    #[track_caller]
    pub fn eq(&self, rhs: impl Operand) -> Sig {
        binary(Binary::Eq, "`eq`", *self, rhs, Location::caller())
    }

    /// Not equal.
    #[track_caller]
    pub fn ne(&self, rhs: impl Operand) -> Sig {
        binary(Binary::Ne, "`ne`", *self, rhs, Location::caller())
    }

    /// Less, unsigned.
    #[track_caller]
    pub fn lt(&self, rhs: impl Operand) -> Sig {
        binary(Binary::Lt, "`lt`", *self, rhs, Location::caller())
    }

    /// Less or equal, unsigned.
    #[track_caller]
    pub fn le(&self, rhs: impl Operand) -> Sig {
        binary(Binary::Le, "`le`", *self, rhs, Location::caller())
    }

    /// Greater, unsigned.
    #[track_caller]
    pub fn gt(&self, rhs: impl Operand) -> Sig {
        let loc = Location::caller();
        binary(Binary::Lt, "`gt`", rhs.operand(self.width, loc), *self, loc)
    }

    /// Greater or equal, unsigned.
    #[track_caller]
    pub fn ge(&self, rhs: impl Operand) -> Sig {
        let loc = Location::caller();
        binary(Binary::Le, "`ge`", rhs.operand(self.width, loc), *self, loc)
    }

    /// Less, both read as two's complement.
    #[track_caller]
    pub fn slt(&self, rhs: impl Operand) -> Sig {
        binary(Binary::Slt, "`slt`", *self, rhs, Location::caller())
    }

    /// Shift left by a signal of any width; what is shifted out is lost.
    #[track_caller]
    pub fn shl_by(&self, by: Sig) -> Sig {
        raw_binary(Binary::Shl, *self, by, Location::caller())
    }

    /// Shift right by a signal of any width; zeros come in.
    #[track_caller]
    pub fn shr_by(&self, by: Sig) -> Sig {
        raw_binary(Binary::Shr, *self, by, Location::caller())
    }

    /// Whether all bits are one.
    #[track_caller]
    pub fn all(&self) -> Sig {
        unary(Unary::All, *self)
    }

    /// Whether any bit is one.
    #[track_caller]
    pub fn any(&self) -> Sig {
        unary(Unary::Any, *self)
    }

    /// The exclusive or of all bits.
    #[track_caller]
    pub fn parity(&self) -> Sig {
        unary(Unary::Parity, *self)
    }

    /// `width` bits from bit `low` on.
    #[track_caller]
    pub fn slice(&self, low: u32, width: u32) -> Sig {
        self.slice_at(low, width, Location::caller())
    }

    pub(crate) fn slice_at(&self, low: u32, width: u32, loc: Loc) -> Sig {
        assert!(
            width > 0 && u64::from(low) + u64::from(width) <= u64::from(self.width),
            "{loc}: slice of {width} bits from bit {low} of a signal of {} bits",
            self.width
        );
        make(loc, |d| {
            let a = d.resolve(*self, loc)?;
            Ok(d.slice(a, low, width, loc))
        })
    }

    /// One bit.
    #[track_caller]
    pub fn bit(&self, index: u32) -> Sig {
        let loc = Location::caller();
        assert!(index < self.width, "{loc}: bit {index} of a signal of {} bits", self.width);
        self.slice(index, 1)
    }

    /// The bit that `index` tells; past the end it is zero.
    #[track_caller]
    pub fn bit_at(&self, index: Sig) -> Sig {
        let loc = Location::caller();
        raw_binary(Binary::Shr, *self, index, loc).slice(0, 1)
    }

    /// The most significant bit.
    #[track_caller]
    pub fn msb(&self) -> Sig {
        self.slice(self.width - 1, 1)
    }

    /// The low `width` bits; at most as many as there are.
    #[track_caller]
    pub fn trunc(&self, width: u32) -> Sig {
        let loc = Location::caller();
        assert!(width <= self.width, "{loc}: trunc to {width} bits of a signal of {} bits", self.width);
        self.slice(0, width)
    }

    /// Widened with zeros to `width` bits.
    #[track_caller]
    pub fn zext(&self, width: u32) -> Sig {
        let loc = Location::caller();
        assert!(width >= self.width, "{loc}: zext to {width} bits of a signal of {} bits", self.width);
        if width == self.width {
            return *self;
        }
        make(loc, |d| {
            let a = d.resolve(*self, loc)?;
            let zeros = d.literal(Bits::zero(width - self.width), loc);
            Ok(d.cat(&[a, zeros], loc))
        })
    }

    /// Widened with copies of the top bit to `width` bits.
    #[track_caller]
    pub fn sext(&self, width: u32) -> Sig {
        let loc = Location::caller();
        assert!(width >= self.width, "{loc}: sext to {width} bits of a signal of {} bits", self.width);
        if width == self.width {
            return *self;
        }
        let top = self.msb();
        make(loc, |d| {
            let (a, top) = (d.resolve(*self, loc)?, d.resolve(top, loc)?);
            let mut parts = vec![a];
            parts.resize((width - self.width) as usize + 1, top);
            Ok(d.cat(&parts, loc))
        })
    }

    /// `n` copies side by side.
    #[track_caller]
    pub fn repeat(&self, n: u32) -> Sig {
        cat(&vec![*self; n as usize])
    }

    /// `yes` where this one bit holds, else `no`.
    #[track_caller]
    pub fn then(&self, yes: impl Operand, no: Sig) -> Sig {
        let loc = Location::caller();
        mux_sig(*self, yes.operand(no.width, loc), no, loc)
    }

    /// Split into parts of `width` bits, least significant first.
    #[track_caller]
    pub fn chunks(&self, width: u32) -> Vec<Sig> {
        let loc = Location::caller();
        let even = width > 0 && self.width % width == 0;
        assert!(even, "{loc}: {} bits do not split into parts of {width}", self.width);
        (0..self.width / width).map(|i| self.slice_at(i * width, width, loc)).collect()
    }

    /// The bytes in reverse order.
    #[track_caller]
    pub fn swap_bytes(&self) -> Sig {
        let mut bytes = self.chunks(8);
        bytes.reverse();
        cat(&bytes)
    }
}
