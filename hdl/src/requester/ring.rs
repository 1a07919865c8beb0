// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the WQEs of a queue lie in host memory, and how many of them one read may bring.

use ferrowire_rtl::{bits, cat, lit, Bundle, Scope, Sig};

/// The smallest of three, compared side by side, and whether that is the first.
pub(crate) fn least_of_three(m: &Scope, first: Sig, second: Sig, third: Sig) -> (Sig, Sig) {
    let is_first = first.le(second) & first.le(third);
    let others = m.mux(second.le(third), &second, &third);
    (m.mux(is_first, &first, &others), is_first)
}

/// A doorbell tells of fewer WQEs than the one before. Half way round may be a whole queue, and if not, that is too many.
pub(crate) fn steps_back(index: Sig, producer: Sig) -> Sig {
    let step = index - producer;
    step.msb() & step.trunc(15).any()
}

/// A doorbell tells of more WQEs than the queue has places for: one more than it has bits for (`indices`), counted from behind the oldest.
pub(crate) fn overfills(index: Sig, oldest: Sig, indices: Sig) -> Sig {
    // One less than their difference, with one adder.
    let newest = index + !oldest;
    index.ne(oldest) & (newest & !indices).any()
}

/// A queue of WQEs in host memory. A WQE is 1, 2, 4 or 8 units of 64 bytes.
#[derive(Clone, Bundle)]
pub struct Ring {
    /// Bus address.
    pub base: Sig,
    /// Log2 of its WQEs, at most 15.
    pub log2: Sig,
    /// Log2 of the units of each.
    pub stride: Sig,
}

/// What lies in one piece of memory.
pub struct Piece {
    /// WQEs, at most as many as were asked for: up to the page's end and the queue's; 7 bits.
    pub most: Sig,
    /// Bus address of the first.
    pub address: Sig,
}

/// Which bits of an index count.
#[derive(Clone, Bundle)]
pub struct Bounds {
    /// Within a page and the queue; 6 bits.
    pub piece: Sig,
    /// Within the queue.
    pub queue: Sig,
}

impl Ring {
    /// The shape.
    pub fn of() -> Self {
        Ring { base: bits(64), log2: bits(4), stride: bits(2) }
    }

    /// The bits of an index that say which WQE of the queue it is.
    pub fn indices(&self) -> Sig {
        let bits: Vec<Sig> = (0..16).map(|bit| self.log2.gt(bit)).collect();
        cat(&bits)
    }

    /// The piece that begins with the WQE at a free-running index. A page holds 64 units, and the queue a power of two of WQEs:
    /// what is left of both shows in the low bits of the index, and the fewer bits mean the smaller rest.
    pub fn piece(&self, m: &Scope, index: Sig, most: Sig) -> Piece {
        self.piece_within(m, &self.bounds(), index, most)
    }

    /// What of an index counts.
    pub fn bounds(&self) -> Bounds {
        let page = cat(&[lit(3, 7), self.stride.ne(3), !self.stride.bit(1), self.stride.eq(0)]);
        let queue = self.indices();
        Bounds { piece: page & queue.trunc(6), queue }
    }

    /// [`piece`](Self::piece), of which the bounds were worked out before.
    pub fn piece_within(&self, m: &Scope, bounds: &Bounds, index: Sig, most: Sig) -> Piece {
        let rest = self.rest(bounds, index);
        Piece {
            most: m.mux(rest.zext(7).lt(most), &(rest.zext(7) + 1), &most),
            address: self.base + self.bytes_to(bounds, index),
        }
    }

    /// WQEs behind the one at an index, up to the page's end and the queue's; 6 bits.
    pub fn rest(&self, bounds: &Bounds, index: Sig) -> Sig {
        !index.trunc(6) & bounds.piece
    }

    /// How far the WQE at an index is behind the base.
    pub fn bytes_to(&self, bounds: &Bounds, index: Sig) -> Sig {
        let units = (index & bounds.queue).zext(19).shl_by(self.stride);
        cat(&[lit(6, 0), units]).zext(64)
    }
}
