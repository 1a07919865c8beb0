// SPDX-License-Identifier: MIT OR Apache-2.0
//! BAR 0: accesses of any length become accesses to the card's registers.
//!
//! A piece of 8 bytes at a multiple of 8 is a wide access, one of 4 at a multiple of 4 a narrow one. Registers are read and written whole:
//! of a smaller piece, a read takes its bytes from the register round it, and a write is ignored, as the card ignores doorbells that are not
//! 64 bits wide.

use ferrowire::BusError;

use super::cards::Cards;
use super::msix::Msix;
use crate::card::CsrAccess;

/// A piece of an access: what is left is cut into these.
fn piece(offset: u64, left: usize) -> usize {
    match left {
        8.. if offset % 8 == 0 => 8,
        4.. if offset % 4 == 0 => 4,
        _ => left.min(4 - (offset % 4) as usize),
    }
}

/// Reads `out.len()` bytes at `offset`; all of them lie in the BAR.
///
/// # Errors
/// The card fails.
pub fn read(
    cards: &mut impl Cards,
    card: usize,
    msix: &Msix,
    offset: u64,
    out: &mut [u8],
) -> Result<(), BusError> {
    let (mut at, mut out) = (offset, out);
    while !out.is_empty() {
        let bytes = piece(at, out.len());
        let (now, later) = out.split_at_mut(bytes);
        let aligned = at & !3;
        let mut word = |address: u64, wide| {
            cards.access(card, CsrAccess { address: address as u32, write: false, wide, data: 0 })
        };
        let mut half = |at: u64| match msix.is_of_card(at) {
            true => word(at, false),
            false => Ok(u64::from(msix.read(at))),
        };
        let value = match (Msix::covers(at), bytes) {
            (true, 8) => half(at + 4)? << 32 | half(at)?,
            (true, _) => half(aligned)?,
            (false, 8) => word(at, true)?,
            (false, _) => word(aligned, false)?,
        };
        let skip = if bytes == 8 { 0 } else { (at - aligned) as usize };
        now.copy_from_slice(&value.to_le_bytes()[skip..skip + bytes]);
        (at, out) = (at + bytes as u64, later);
    }
    Ok(())
}

/// Writes `data` at `offset`; all of it lies in the BAR.
///
/// # Errors
/// The card fails.
pub fn write(
    cards: &mut impl Cards,
    card: usize,
    msix: &mut Msix,
    offset: u64,
    data: &[u8],
) -> Result<(), BusError> {
    let (mut at, mut data) = (offset, data);
    while !data.is_empty() {
        let bytes = piece(at, data.len());
        let (now, later) = data.split_at(bytes);
        if bytes >= 4 {
            let mut value = [0; 8];
            value[..bytes].copy_from_slice(now);
            let (wide, value) = (bytes == 8, u64::from_le_bytes(value));
            if Msix::covers(at) {
                msix.write(at, value as u32);
                if wide {
                    msix.write(at + 4, (value >> 32) as u32);
                }
            } else {
                cards.access(card, CsrAccess { address: at as u32, write: true, wide, data: value })?;
            }
        }
        (at, data) = (at + bytes as u64, later);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_and_cover_everything() {
        for offset in 0..16 {
            for length in 1..40 {
                let (mut at, mut left) = (offset, length);
                while left > 0 {
                    let bytes = piece(at, left);
                    assert!((1..=left).contains(&bytes));
                    assert!(at % 4 + bytes as u64 <= 4 || bytes == 4 || bytes == 8 && at % 8 == 0);
                    (at, left) = (at + bytes as u64, left - bytes);
                }
            }
        }
        assert_eq!(
            [(8, 16), (4, 16), (4, 3), (7, 9), (2, 2)].map(|(at, left)| piece(at, left)),
            [8, 4, 3, 1, 2]
        );
    }
}
