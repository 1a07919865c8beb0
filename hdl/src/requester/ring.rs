// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the units of a queue lie in host memory, and how many of them one read may bring.

use ferrowire_rtl::{bits, cat, lit, Bundle, Scope, Sig};

/// The smaller of two numbers.
pub(crate) fn least(m: &Scope, a: Sig, b: Sig) -> Sig {
    m.mux(a.lt(b), &a, &b)
}

/// A queue of 64-byte units in host memory.
#[derive(Clone, Bundle)]
pub struct Ring {
    /// Bus address.
    pub base: Sig,
    /// Log2 of its units, at most 15.
    pub log2: Sig,
}

/// What lies in one piece of memory.
pub struct Piece {
    /// Units, at most as many as were asked for: up to the page's end and the queue's; 7 bits.
    pub most: Sig,
    /// Bus address of the first.
    pub address: Sig,
}

impl Ring {
    /// The shape.
    pub fn of() -> Self {
        Ring { base: bits(64), log2: bits(4) }
    }

    /// The piece that begins with the unit at a free-running index. The limits are sums and comparisons side by side.
    pub fn piece(&self, m: &Scope, index: Sig, most: Sig) -> Piece {
        let to_page_end = lit(7, 64) - index.trunc(6).zext(7);
        let size = lit(16, 1).shl_by(self.log2);
        let slot = index & (size - 1);
        let to_queue_end = size - slot;
        let near_end = to_queue_end.slice(6, 10).any();
        let to_end = m.mux(near_end, &lit(7, 64), &to_queue_end.trunc(6).zext(7));
        Piece {
            most: least(m, least(m, to_page_end, to_end), most),
            address: self.base + cat(&[lit(6, 0), slot]).zext(64),
        }
    }
}
