// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC-32 as linear algebra over bits, worked out while the circuit is described.
//!
//! The CRC of Ethernet, bits reflected: the state's bit 0 is the next to leave, and the first byte's bit 0 is the
//! first to enter. Taking `n` bytes is `state' = M^n * state ^ D_n * data`; both matrices are constant, and a row of
//! either is the exclusive or of some input bits.

use ferrowire_rtl::{cat, circuit, Bits, Sig};

/// The generator polynomial of the frame check sequence (IEEE 802.3 3.2.9), bits reflected: that of x^31 is bit 0.
pub const POLYNOMIAL: u32 = 0xedb8_8320;

/// The state that a message followed by its check value leaves, whatever the message was.
pub const RESIDUE: u32 = 0xdebb_20e3;

/// A matrix of bits with 32 rows: the image of each input bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    columns: Vec<u32>,
}

/// A state after so many zero bits.
fn zero_bits(state: u32, bits: u32) -> u32 {
    (0..bits).fold(state, |s, _| (s >> 1) ^ if s & 1 == 1 { POLYNOMIAL } else { 0 })
}

/// A state after eight zero bits.
fn zero_byte(state: u32) -> u32 {
    zero_bits(state, 8)
}

/// The state before eight zero bits. The polynomial's top bit is set, so the state's top bit tells what had left.
fn before_zero_byte(state: u32) -> u32 {
    (0..8).fold(state, |s, _| if s >> 31 == 1 { (s ^ POLYNOMIAL) << 1 | 1 } else { s << 1 })
}

impl Matrix {
    /// The identity.
    pub fn one() -> Matrix {
        Matrix { columns: (0..32).map(|i| 1 << i).collect() }
    }

    fn each(self, f: impl Fn(u32) -> u32) -> Matrix {
        Matrix { columns: self.columns.into_iter().map(f).collect() }
    }

    /// What `bytes` zero bytes do to the state: `M^bytes`, which is `x^(8 bytes)`.
    pub fn advance(bytes: u32) -> Matrix {
        (0..bytes).fold(Matrix::one(), |matrix, _| matrix.each(zero_byte))
    }

    /// The inverse of [`Matrix::advance`].
    pub fn retreat(bytes: u32) -> Matrix {
        (0..bytes).fold(Matrix::one(), |matrix, _| matrix.each(before_zero_byte))
    }

    /// What `bytes` bytes of data, the first in the low bits, leave in a state that was zero.
    pub fn data(bytes: u32) -> Matrix {
        // A data bit enters as if it stood in the state's low byte, and passes all bytes from its own on.
        let mut columns = Vec::new();
        for byte in 0..bytes {
            let behind = Matrix::advance(bytes - byte);
            columns.extend((0..8).map(|bit| behind.apply(1 << bit)));
        }
        Matrix { columns }
    }

    /// What squares a state `times` times. A state is a polynomial modulo the generator, its bit 31 the coefficient of 1. Coefficients are bits, so
    /// squaring is linear; the generator is irreducible, so it is one to one, and 32 times of it change nothing.
    pub fn square(times: u32) -> Matrix {
        let square = Matrix { columns: (0..32).map(|i| zero_bits(1 << 31, 2 * (31 - i))).collect() };
        (0..times).fold(Matrix::one(), |matrix, _| matrix.each(|column| square.apply(column)))
    }

    /// The inverse of [`Matrix::square`].
    pub fn root(times: u32) -> Matrix {
        Matrix::square(32 - times)
    }

    /// The same map where the root of each state is kept in its place. What adds `2^times` zero bits to a state adds one to its root: of dense
    /// matrices it makes sparse ones.
    pub fn of_roots(&self, times: u32) -> Matrix {
        Matrix::root(times).after(&self.after(&Matrix::square(times)))
    }

    /// The image of each input bit: a bit for each row.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Width of the input.
    pub fn inputs(&self) -> u32 {
        self.columns.len() as u32
    }

    /// The product with a constant of at most 32 bits.
    pub fn apply(&self, value: u32) -> u32 {
        self.columns
            .iter()
            .take(32)
            .enumerate()
            .fold(0, |sum, (i, c)| sum ^ if value >> i & 1 == 1 { *c } else { 0 })
    }

    /// First `first`, then `self`.
    pub fn after(&self, first: &Matrix) -> Matrix {
        first.clone().each(|column| self.apply(column))
    }

    /// The columns of `width` input bits from `low` on.
    pub fn part(&self, low: u32, width: u32) -> Matrix {
        Matrix { columns: self.columns[low as usize..(low + width) as usize].to_vec() }
    }

    /// For each of the 32 rows, the input bits that it adds up.
    pub fn rows(&self) -> Vec<Bits> {
        let row = |r: u32| {
            let mut bytes = vec![0u8; self.columns.len().div_ceil(8)];
            for (i, column) in self.columns.iter().enumerate() {
                bytes[i / 8] |= ((column >> r & 1) as u8) << (i % 8);
            }
            Bits::from_bytes(self.inputs(), &bytes)
        };
        (0..32).map(row).collect()
    }
}

/// The product of a constant matrix and a signal: 32 exclusive ors, no register.
#[track_caller]
pub fn multiply(matrix: &Matrix, input: Sig) -> Sig {
    let rows: Vec<Sig> = matrix.rows().iter().map(|row| (input & row).parity()).collect();
    cat(&rows)
}

/// The state after whole bytes of data, in one step without a register.
#[circuit]
#[track_caller]
pub fn crc_step(state: Sig, data: Sig) -> Sig {
    assert!(data.width() % 8 == 0, "a CRC takes whole bytes, not {} bits", data.width());
    let bytes = data.width() / 8;
    let kept = multiply(&Matrix::advance(bytes), state);
    let entered = multiply(&Matrix::data(bytes), data);
    kept ^ entered
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowire_rtl::{build, Sim};

    #[test]
    fn retreat_undoes_advance() {
        for n in [1, 2, 3, 4, 7, 8, 31, 63, 64] {
            assert_eq!(Matrix::retreat(n).after(&Matrix::advance(n)), Matrix::one());
            assert_eq!(Matrix::advance(n).after(&Matrix::retreat(n)), Matrix::one());
        }
    }

    #[test]
    fn a_root_passes_a_zero_bit_where_its_state_passes_many() {
        assert_eq!(Matrix::square(32), Matrix::one());
        for times in [0, 3, 5, 9] {
            assert_eq!(Matrix::root(times).after(&Matrix::square(times)), Matrix::one());
        }
        let bit = Matrix { columns: (0..32).map(|i| zero_bits(1 << i, 1)).collect() };
        for (bytes, times) in [(1, 3), (4, 5), (64, 9)] {
            assert_eq!(Matrix::advance(bytes).of_roots(times), bit, "{bytes} bytes");
        }
    }

    #[test]
    fn the_residue_is_the_published_one() {
        // The check value is the inverted state; added to the state it gives ones.
        assert_eq!(Matrix::advance(4).apply(u32::MAX), RESIDUE);
    }

    #[test]
    fn a_step_equals_the_crc_of_others() {
        let mut byte = 7u8;
        let mut bytes = |n: u32| -> Vec<u8> {
            let next = |_| {
                byte = byte.wrapping_mul(109).wrapping_add(89);
                byte
            };
            (0..n).map(next).collect()
        };
        for n in [1u32, 4, 8, 16, 32, 64] {
            let netlist = build("top", |m| {
                let next = crc_step(m.input("state", 32), m.input("data", 8 * n));
                m.output("next", &next);
            });
            let mut sim = Sim::new(&netlist.unwrap());
            for _ in 0..20 {
                let (before, data) = (bytes(9), bytes(n));
                sim.set("state", u64::from(!crc32fast::hash(&before)));
                sim.set_bits("data", &Bits::from_bytes(8 * n, &data));
                let all = [before, data].concat();
                assert_eq!(sim.get("next"), u64::from(!crc32fast::hash(&all)), "{n} bytes");
            }
        }
        assert_eq!(Matrix::one().apply(0x1234_5678), 0x1234_5678);
    }
}
