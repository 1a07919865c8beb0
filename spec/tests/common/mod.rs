// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captured frames from `sim/golden`, pcap or pcapng, every folder that is there.
#![allow(dead_code)]

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::fs;
use std::path::{Path, PathBuf};

/// One captured frame and where it came from.
#[derive(Clone)]
pub struct Captured {
    pub folder: String,
    pub file: String,
    pub number: usize,
    pub bytes: Vec<u8>,
}

impl Captured {
    pub fn name(&self) -> String {
        format!("{}/{} frame {}", self.folder, self.file, self.number)
    }

    /// Whether it is UDP to port 4791, found without the crate under test.
    pub fn is_roce(&self) -> bool {
        let b = &self.bytes;
        let mut at = 12;
        if b[at..at + 2] == [0x81, 0x00] {
            at += 4;
        }
        let (protocol, udp) = match b[at..at + 2] {
            [0x08, 0x00] => (b[at + 2 + 9], at + 2 + (b[at + 2] & 15) as usize * 4),
            [0x86, 0xdd] => (b[at + 2 + 6], at + 2 + 40),
            _ => return false,
        };
        protocol == 17 && b[udp + 2..udp + 4] == 4791u16.to_be_bytes()
    }
}

pub fn golden() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/golden")).to_path_buf()
}

fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let file = fs::read(path).unwrap();
    let mut frames = Vec::new();
    if file.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
        let mut reader = PcapNgReader::new(&file[..]).unwrap();
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::EnhancedPacket(p) => frames.push(p.data.into_owned()),
                Block::SimplePacket(p) => frames.push(p.data.into_owned()),
                _ => {}
            }
        }
    } else {
        let mut reader = PcapReader::new(&file[..]).unwrap();
        while let Some(packet) = reader.next_packet() {
            frames.push(packet.unwrap().data.into_owned());
        }
    }
    frames
}

/// Every captured frame, in the order of folders, files and capture.
pub fn captured() -> Vec<Captured> {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in fs::read_dir(golden()).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()) {
        let inside = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
        files.extend(inside.filter(|p| p.extension().is_some_and(|e| e == "pcap")));
    }
    files.sort();
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap().to_string_lossy().into_owned();
    let mut all = Vec::new();
    for path in files {
        let folder = text(path.parent().unwrap().file_name());
        let file = text(path.file_name());
        for (number, bytes) in frames_of(&path).into_iter().enumerate() {
            all.push(Captured { folder: folder.clone(), file: file.clone(), number: number + 1, bytes });
        }
    }
    all
}

/// CRC-32 of Ethernet, one bit at a time: shares nothing with the crate.
pub fn crc32_bit_by_bit(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        for bit in 0..8 {
            let feedback = (crc ^ u32::from(byte >> bit)) & 1;
            crc >>= 1;
            if feedback == 1 {
                crc ^= 0xedb8_8320;
            }
        }
    }
    !crc
}

/// ICRC of a packet from its IP header on, without its last four bytes; masks by byte positions.
pub fn icrc_by_hand(packet: &[u8]) -> u32 {
    let mut p = packet[..packet.len() - 4].to_vec();
    let udp = if p[0] >> 4 == 4 {
        for at in [1, 8, 10, 11] {
            p[at] = 0xff;
        }
        20
    } else {
        p[0] |= 0x0f;
        for at in [1, 2, 3, 7] {
            p[at] = 0xff;
        }
        40
    };
    for at in [udp + 6, udp + 7, udp + 8 + 4] {
        p[at] = 0xff;
    }
    crc32_bit_by_bit([0xff; 8].into_iter().chain(p))
}
