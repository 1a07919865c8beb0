// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each operator means, on little-endian 64-bit words. Constant folding and the native simulator both
//! call these, so there is one meaning.

use crate::bits::{top_mask, words};
use crate::netlist::{Binary, Unary};

/// `out = op a`.
pub(crate) fn unary(op: Unary, a: &[u64], a_width: u32, out: &mut [u64]) {
    match op {
        Unary::Not => {
            for (o, a) in out.iter_mut().zip(a) {
                *o = !a;
            }
            let last = out.len() - 1;
            out[last] &= top_mask(a_width);
        }
        Unary::All => {
            let last = a.len() - 1;
            let full = a[..last].iter().all(|w| *w == u64::MAX) && a[last] == top_mask(a_width);
            out[0] = u64::from(full);
        }
        Unary::Any => out[0] = u64::from(a.iter().any(|w| *w != 0)),
        Unary::Parity => out[0] = u64::from(a.iter().fold(0, |x, w| x ^ w).count_ones() & 1),
    }
}

fn less(a: &[u64], b: &[u64]) -> bool {
    a.iter().rev().cmp(b.iter().rev()).is_lt()
}

fn sign(a: &[u64], width: u32) -> bool {
    a[((width - 1) / 64) as usize] >> ((width - 1) % 64) & 1 == 1
}

/// `out = a op b`; `width` is the width of `a`, `out_width` that of the result.
pub(crate) fn binary(op: Binary, a: &[u64], b: &[u64], width: u32, out: &mut [u64], out_width: u32) {
    match op {
        Binary::And => each(a, b, out, |a, b| a & b),
        Binary::Or => each(a, b, out, |a, b| a | b),
        Binary::Xor => each(a, b, out, |a, b| a ^ b),
        Binary::Add | Binary::Sub => {
            let invert = if op == Binary::Sub { u64::MAX } else { 0 };
            let mut carry = op == Binary::Sub;
            for i in 0..out.len() {
                let (sum, c1) = a[i].overflowing_add(b[i] ^ invert);
                let (sum, c2) = sum.overflowing_add(u64::from(carry));
                out[i] = sum;
                carry = c1 | c2;
            }
        }
        Binary::Mul => {
            out.fill(0);
            for (i, x) in a.iter().enumerate() {
                let mut carry = 0u128;
                for j in 0..out.len() - i.min(out.len()) {
                    let y = b.get(j).copied().unwrap_or(0);
                    let t = u128::from(*x) * u128::from(y) + u128::from(out[i + j]) + carry;
                    out[i + j] = t as u64;
                    carry = t >> 64;
                }
            }
        }
        Binary::Eq => out[0] = u64::from(a == b),
        Binary::Ne => out[0] = u64::from(a != b),
        Binary::Lt => out[0] = u64::from(less(a, b)),
        Binary::Le => out[0] = u64::from(!less(b, a)),
        Binary::Slt => {
            out[0] = match (sign(a, width), sign(b, width)) {
                (true, false) => 1,
                (false, true) => 0,
                _ => u64::from(less(a, b)),
            }
        }
        Binary::Shl => {
            let by = amount(b, width);
            shift_left(a, by, out);
        }
        Binary::Shr => {
            let by = amount(b, width);
            slice(a, by, out, out_width);
        }
    }
    let last = out.len() - 1;
    out[last] &= top_mask(out_width);
}

fn each(a: &[u64], b: &[u64], out: &mut [u64], f: impl Fn(u64, u64) -> u64) {
    for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
        *o = f(*a, *b);
    }
}

/// A shift amount; anything past the width shifts everything out.
fn amount(b: &[u64], width: u32) -> u32 {
    if b[1..].iter().any(|w| *w != 0) || b[0] > u64::from(width) {
        width
    } else {
        b[0] as u32
    }
}

fn shift_left(a: &[u64], by: u32, out: &mut [u64]) {
    let (skip, bits) = ((by / 64) as usize, by % 64);
    for i in (0..out.len()).rev() {
        let high = if i >= skip { a[i - skip] } else { 0 };
        let low = if bits != 0 && i > skip { a[i - skip - 1] >> (64 - bits) } else { 0 };
        out[i] = high << bits | low;
    }
}

/// `out = a[low + out_width - 1 : low]`, zeros past the end of `a`.
pub(crate) fn slice(a: &[u64], low: u32, out: &mut [u64], out_width: u32) {
    let (skip, bits) = ((low / 64) as usize, low % 64);
    for (i, o) in out.iter_mut().enumerate() {
        let first = a.get(i + skip).copied().unwrap_or(0) >> bits;
        let next = if bits == 0 { 0 } else { a.get(i + skip + 1).copied().unwrap_or(0) << (64 - bits) };
        *o = first | next;
    }
    let last = out.len() - 1;
    out[last] &= top_mask(out_width);
}

/// Ors `part` into `out` at bit `low`.
pub(crate) fn place(part: &[u64], part_width: u32, low: u32, out: &mut [u64]) {
    let (skip, bits) = ((low / 64) as usize, low % 64);
    for i in 0..words(part_width) {
        out[i + skip] |= part[i] << bits;
        if bits != 0 && i + skip + 1 < out.len() {
            out[i + skip + 1] |= part[i] >> (64 - bits);
        }
    }
}
