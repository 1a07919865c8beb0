// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rping's two sides tell each other, and what they move: [`Place`], and the [`pattern`] of a round.

use ferrowire::RemoteAddress;

/// Bytes of a message.
pub const BYTES: usize = 16;

/// Where a side's memory is: address, key and length, each with its highest byte first. What tells the other side to go on is as long and says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Address.
    pub address: u64,
    /// Key.
    pub rkey: u32,
    /// Bytes.
    pub bytes: u32,
}

impl Place {
    /// As a message.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&self.address.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[12..].copy_from_slice(&self.bytes.to_be_bytes());
        bytes
    }

    /// From a message.
    pub fn parse(bytes: [u8; BYTES]) -> Self {
        let number = u128::from_be_bytes(bytes);
        Self { address: (number >> 64) as u64, rkey: (number >> 32) as u32, bytes: number as u32 }
    }

    /// For work requests.
    pub fn remote(self) -> RemoteAddress {
        RemoteAddress { address: self.address, rkey: self.rkey }
    }
}

/// Least bytes of a round that rping takes: its text has room for every number.
pub const LEAST: u64 = 26;
/// Most of them.
pub const MOST: u64 = 65535;

/// The printable characters of the pattern begin and end here.
const FIRST: u8 = b'A';
const LAST: u8 = b'z';

/// The bytes of a round: its number as text, then characters in a row, which begins one later in each round, and a zero at the end.
pub fn pattern(round: u64, bytes: usize) -> Vec<u8> {
    let text = format!("rdma-ping-{round}: ");
    let row = u64::from(LAST - FIRST + 1);
    let characters = (round..).map(|number| FIRST + (number % row) as u8);
    let mut all: Vec<u8> = text.into_bytes().into_iter().chain(characters).take(bytes).collect();
    if let Some(last) = all.last_mut() {
        *last = 0;
    }
    all
}

/// The first byte that is not as it should be: its place, what it is, what it should be.
pub fn difference(found: &[u8], right: &[u8]) -> Option<(usize, u8, u8)> {
    let at = found.iter().zip(right).position(|(found, right)| found != right)?;
    Some((at, found[at], right[at]))
}

/// The bytes up to the zero, for a terminal.
pub fn shown(bytes: &[u8]) -> String {
    let text = bytes.iter().take_while(|byte| **byte != 0);
    text.map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_sixteen_bytes_with_the_highest_first() {
        let place = Place { address: 0x0102_0304_0506_0708, rkey: 0x1112_1314, bytes: 0x2122_2324 };
        let bytes: [u8; BYTES] = [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24];
        assert_eq!(place.to_bytes(), bytes);
        assert_eq!(Place::parse(bytes), place);
        assert_eq!(place.remote(), RemoteAddress { address: place.address, rkey: place.rkey });
    }

    /// What `rping -v` of rdma-core prints for its rounds of 64 bytes, with the zero that ends it.
    #[test]
    fn rounds_are_rpings() {
        let text = |round| String::from_utf8(pattern(round, 64)).unwrap();
        assert_eq!(text(0), "rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr\0");
        assert_eq!(text(1), "rdma-ping-1: BCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrs\0");
        assert_eq!(text(10), "rdma-ping-10: KLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyzA\0");
        // The row begins anew behind its last character, and so do the rounds.
        assert_eq!(text(57), "rdma-ping-57: zABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnop\0");
        assert_eq!(text(58), "rdma-ping-58: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopq\0");
    }

    #[test]
    fn every_size_has_its_zero_at_the_end_alone() {
        for bytes in [1, 5, LEAST as usize, 64, 1000, MOST as usize] {
            for round in [0, 7, 12_345, i32::MAX as u64] {
                let all = pattern(round, bytes);
                assert_eq!((all.len(), all.iter().position(|byte| *byte == 0)), (bytes, Some(bytes - 1)));
            }
        }
        assert!(pattern(0, 0).is_empty());
        let longest = format!("rdma-ping-{}: ", i32::MAX);
        assert!(pattern(i32::MAX as u64, LEAST as usize).starts_with(longest.as_bytes()));
    }

    #[test]
    fn a_byte_that_is_wrong_is_found_and_named() {
        let right = pattern(3, 100);
        assert_eq!(difference(&right, &right), None);
        for at in [0, 57, 99] {
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            assert_eq!(difference(&wrong, &right), Some((at, wrong[at], right[at])));
        }
    }

    #[test]
    fn what_comes_from_others_cannot_write_to_a_terminal() {
        assert_eq!(shown(b"rdma-ping-0: A\\`\0B"), "rdma-ping-0: A\\`");
        assert_eq!(shown(b"\x1b[2J\xff\n"), ".[2J..");
    }
}
