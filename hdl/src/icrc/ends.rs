// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the ICRC adds to the CRC of Ethernet: what it begins with, and what it leaves.

use ferrowire_parts::crc::{Matrix, POLYNOMIAL};
use ferrowire_spec::wire::icrc::{self, Crc32, LRH_BYTES};

const _: () = assert!(POLYNOMIAL == icrc::POLYNOMIAL);

/// The state after the eight bytes of ones that come before the IP header: what its first four bytes are added to.
pub fn seed() -> u32 {
    let mut crc = Crc32::new();
    crc.update(&[0xff; LRH_BYTES]);
    !crc.finish()
}

/// The state that a packet with its right ICRC leaves when `zeros` zero bytes follow it.
pub fn residue_after(zeros: u32) -> u32 {
    // The ICRC is the inverted state; added to the state it gives ones, whatever the packet was.
    Matrix::advance(4 + zeros).apply(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_residue_is_the_published_one() {
        assert_eq!(residue_after(0), ferrowire_parts::crc::RESIDUE);
        let mut crc = Crc32::new();
        crc.update(&[0xff; 8]);
        assert_eq!(seed(), !crc.finish());
    }
}
