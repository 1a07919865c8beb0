// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a card says that it is simulated, and how far its clock is: a vendor-specific extended capability (PCIe 7.9.5) of its configuration
//! space, the first one there.
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 3 | capability 0x000b, version 1, no next one |
//! | 4 to 7 | [`ID`], revision 1, or 2 of an emulated card, [`BYTES`] |
//! | 8 to 15 | cycles of the card's clock since the simulation began |

use crate::spec::pci;

/// Where it is: where extended capabilities begin (PCIe 7.6.2).
pub const AT: u64 = 0x100;
/// Bytes of it.
pub const BYTES: usize = 16;
/// Which one of the vendor's it is.
pub const ID: u16 = pci::SUBSYSTEM;

/// Code of a vendor-specific extended capability, and the version of its form.
const CAPABILITY: u32 = 0x1_000b;

/// The two headers, as one number. `engine`: of an emulated card.
const fn head(engine: bool) -> u64 {
    let revision = 1 + engine as u64;
    CAPABILITY as u64 | (ID as u64 | revision << 16 | (BYTES as u64) << 20) << 32
}

/// The capability of a card whose clock is so far; `engine`: it is emulated.
pub fn to_bytes(cycles: u64, engine: bool) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&head(engine).to_le_bytes());
    bytes[8..].copy_from_slice(&cycles.to_le_bytes());
    bytes
}

/// The cycles, and whether the card is emulated; `None` when it is not this capability.
pub fn parse(bytes: &[u8; BYTES]) -> Option<(u64, bool)> {
    let (begin, cycles) = bytes.split_first_chunk()?;
    let cycles = u64::from_le_bytes(*cycles.first_chunk()?);
    let engine = [false, true].into_iter().find(|engine| u64::from_le_bytes(*begin) == head(*engine))?;
    Some((cycles, engine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_is_where_pcie_has_it() {
        let bytes = to_bytes(0x0102_0304_0506_0708, false);
        assert_eq!(bytes, [0x0b, 0, 1, 0, 0x57, 0x46, 1, 1, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(parse(&bytes), Some((0x0102_0304_0506_0708, false)));
        assert_eq!(parse(&to_bytes(7, true)), Some((7, true)));
        assert_eq!(parse(&[0; BYTES]), None);
    }
}
