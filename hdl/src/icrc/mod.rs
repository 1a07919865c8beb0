// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ICRC in hardware, shared by both directions: which bytes count as what, and the CRC over a beat a cycle.
//!
//! ```text
//!  beats --> mask ----------> core ---------------> state, for rx::icrc to compare
//!            ones, zeros,     D*data, then          |
//!            seed             state = M*state ^ D   unpad --> CRC, for tx::icrc to send
//! ```
//!
//! Two tricks keep shifters out. *Zeros before:* the CRC begins at state zero, for which leading zeros change
//! nothing, and the state that the eight bytes of ones leave behind is added to the first four bytes of the IP header
//! instead (A17.3.3). *Zeros after:* the last beat is filled up with zeros; n of them multiply the state by a
//! constant matrix, which can be undone ([`unpad`]) or put into what it is compared with ([`residue_after`]). In place of the state its root
//! stands, of a power of two that each direction chooses: it passes fewer bits, so the matrices of zeros are sparse.

mod core;
mod ends;
mod mask;

pub use self::core::{icrc_core, unpad, Remainder, GROUP, UNPAD_ROOT, UNPAD_STAGES};
pub use ends::{residue_after, seed};
pub use ferrowire_parts::crc::{crc_step, multiply, Matrix};
pub use mask::{mask, Covered, CrcBeat, PacketEnd, MASK_LATENCY_FRAME, MASK_LATENCY_IP};

/// Cycles from a beat at [`icrc_core`] to the state that it leaves.
pub const CORE_LATENCY: u32 = 3;

#[cfg(test)]
pub(crate) mod sample {
    //! Frames for the tests of everything that deals with the ICRC.

    use crate::testing::Random;
    use ferrowire_spec::wire::icrc::{icrc, Crc32};
    use rand::Rng;

    /// Every frame of every golden capture, with its file's name.
    pub fn golden() -> Vec<(String, Vec<u8>)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/golden/v4");
        let mut frames = Vec::new();
        for entry in std::fs::read_dir(folder).expect("the golden captures") {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "pcap") {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                let mut pcap = pcap_file::pcap::PcapReader::new(std::fs::File::open(&path).unwrap()).unwrap();
                while let Some(packet) = pcap.next_packet() {
                    frames.push((name.clone(), packet.unwrap().data.into_owned()));
                }
            }
        }
        frames.sort();
        assert!(frames.len() > 200, "only {} golden frames", frames.len());
        frames
    }

    /// What a frame is made of.
    #[derive(Clone, Copy, Debug)]
    pub struct Kind {
        /// IPv6 rather than IPv4.
        pub ipv6: bool,
        /// With an 802.1Q tag.
        pub vlan: bool,
        /// Bytes between BTH and ICRC.
        pub body: usize,
    }

    impl Kind {
        /// Any.
        pub fn random(random: &mut Random) -> Kind {
            let body = match random.rng.random_range(0..8) {
                0 => random.rng.random_range(0..1100),
                1 => 0,
                _ => random.rng.random_range(0..200),
            };
            Kind { ipv6: random.rng.random(), vlan: random.rng.random(), body }
        }
    }

    /// Place of the IP header.
    pub fn l3(frame: &[u8]) -> usize {
        if frame[12..14] == [0x81, 0x00] {
            18
        } else {
            14
        }
    }

    /// A RoCE frame of random content without padding, with its right ICRC.
    pub fn frame(random: &mut Random, kind: Kind) -> Vec<u8> {
        let mut frame = random.bytes(12);
        if kind.vlan {
            frame.extend([0x81, 0x00]);
            frame.extend(random.bytes(2));
        }
        let after_ip = 8 + 12 + kind.body + 4;
        let ip = match kind.ipv6 {
            false => {
                frame.extend([0x08, 0x00]);
                let mut ip = random.bytes(20);
                ip[0] = 0x45;
                ip[2..4].copy_from_slice(&(20 + after_ip as u16).to_be_bytes());
                ip[9] = 17;
                ip
            }
            true => {
                frame.extend([0x86, 0xdd]);
                let mut ip = random.bytes(40);
                ip[0] = 0x60 | ip[0] & 0xf;
                ip[4..6].copy_from_slice(&(after_ip as u16).to_be_bytes());
                ip[6] = 17;
                ip
            }
        };
        let l3 = frame.len();
        frame.extend(ip);
        let mut rest = random.bytes(after_ip - 4);
        rest[2..4].copy_from_slice(&4791u16.to_be_bytes());
        rest[4..6].copy_from_slice(&(after_ip as u16).to_be_bytes());
        frame.extend(rest);
        let crc = icrc(&frame[l3..]).unwrap();
        frame.extend(crc.to_le_bytes());
        frame
    }

    /// A RoCE frame of any kind.
    pub fn any(random: &mut Random) -> Vec<u8> {
        let kind = Kind::random(random);
        frame(random, kind)
    }

    /// Likewise, with whole groups of four bytes after the Ethernet header, as in frames that the card sends.
    pub fn of_groups(random: &mut Random) -> Vec<u8> {
        let kind = Kind::random(random);
        frame(random, Kind { body: kind.body / 4 * 4, ..kind })
    }

    /// The state of a CRC that begins at zero, after these bytes: in the words of the published one, which begins at
    /// ones and inverts the result.
    pub fn state_from_zero(bytes: &[u8]) -> u32 {
        let mut ones = Crc32::new();
        ones.update(&vec![0; bytes.len()]);
        let mut crc = Crc32::new();
        crc.update(bytes);
        ones.finish() ^ crc.finish()
    }
}
