// SPDX-License-Identifier: MIT OR Apache-2.0
//! What went over a guest's wire, by the guest's clock: kept as pcapng, and looked through for requests that were sent again.

use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use ferrowire_spec::wire::frame::Frame;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::DataLink;
use serde::Serialize;

/// A frame, and when it passed.
pub struct Passed {
    /// By the guest's clock.
    pub time: Duration,
    /// From the destination's MAC address on, without FCS.
    pub bytes: Vec<u8>,
}

/// Request packets of RC that passed more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Again {
    /// Of the guest.
    pub guest: u64,
    /// Of the card.
    pub card: u64,
}

/// Reads what QEMU's `filter-dump` has written; the last frame may be cut off.
pub fn read(path: &Path) -> Result<Vec<Passed>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut reader = PcapReader::new(file).with_context(|| format!("reading {}", path.display()))?;
    let frames = std::iter::from_fn(|| {
        let packet = reader.next_packet()?.ok()?;
        Some(Passed { time: packet.timestamp, bytes: packet.data.into_owned() })
    });
    let frames: Vec<Passed> = frames.collect();
    ensure!(!frames.is_empty(), "QEMU has not written what went over the wire to {}", path.display());
    Ok(frames)
}

/// Writes them, with times from the first.
pub fn write(path: &Path, frames: &[Passed]) -> Result<()> {
    let failed = || format!("writing {}", path.display());
    let file = File::create(path).with_context(failed)?;
    let mut writer = PcapNgWriter::new(BufWriter::new(file)).with_context(failed)?;
    let options = vec![
        InterfaceDescriptionOption::IfName("wire".into()),
        InterfaceDescriptionOption::IfTsResol(9),
        InterfaceDescriptionOption::IfFcsLen(0),
    ];
    let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
    writer.write_block(&interface.into_block()).with_context(failed)?;
    let first = frames.first().map_or(Duration::ZERO, |frame| frame.time);
    for frame in frames {
        let packet = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: frame.time.saturating_sub(first),
            original_len: frame.bytes.len() as u32,
            data: (&frame.bytes[..]).into(),
            options: Vec::new(),
        };
        writer.write_block(&packet.into_block()).with_context(failed)?;
    }
    Ok(())
}

/// Looks through frames in their order; `card` is the card's MAC address.
pub fn again(frames: &[Passed], card: [u8; 6]) -> Again {
    let mut again = Again::default();
    // By queue pair and PSN.
    let mut sent: HashSet<(bool, u32, u32)> = HashSet::new();
    for Passed { bytes, .. } in frames {
        let Ok(frame) = Frame::parse(bytes) else { continue };
        let Ok(opcode) = frame.opcode() else { continue };
        if !opcode.is_acknowledged() {
            continue;
        }
        let of_card = bytes[6..12] == card;
        match sent.insert((of_card, frame.bth.destqp, frame.bth.psn)) {
            true => {}
            false if of_card => again.card += 1,
            false => again.guest += 1,
        }
    }
    again
}

#[cfg(test)]
mod tests {
    use ferrowire_spec::wire::aeth::Aeth;
    use ferrowire_spec::wire::bth::Bth;
    use ferrowire_spec::wire::eth::Eth;
    use ferrowire_spec::wire::frame::Extensions;

    use super::*;

    const CARD: u64 = 0x02fe_0000_0001;
    const MAC: [u8; 6] = [2, 0xfe, 0, 0, 0, 1];

    /// A packet at a time in milliseconds.
    fn packet(ms: u64, of_card: bool, opcode: u8, psn: u32) -> Passed {
        let (src, dst) = if of_card { (CARD, 2) } else { (2, CARD) };
        let mut frame = Frame {
            eth: Eth { dst, src, ..Eth::default() },
            bth: Bth { opcode, destqp: 7, psn, ..Bth::default() },
            ext: Extensions {
                aeth: (opcode == READ_RESPONSE_ONLY).then(Aeth::default),
                ..Extensions::default()
            },
            payload: &[1; 64],
            ..Frame::default()
        };
        frame.seal().unwrap();
        let mut bytes = vec![0; frame.len()];
        frame.emit(&mut bytes).unwrap();
        Passed { time: Duration::from_millis(ms), bytes }
    }

    const SEND_ONLY: u8 = 0x04;
    const READ_RESPONSE_ONLY: u8 = 0x10;

    #[test]
    fn a_psn_that_a_side_sends_twice_to_a_queue_pair_is_sent_again() {
        let frames = [
            packet(0, false, SEND_ONLY, 5),
            packet(0, true, SEND_ONLY, 5),
            packet(60, false, SEND_ONLY, 6),
            // An answer has the PSN of what it answers.
            packet(61, true, READ_RESPONSE_ONLY, 6),
            packet(62, true, READ_RESPONSE_ONLY, 6),
            packet(68, false, SEND_ONLY, 6),
            packet(134, false, SEND_ONLY, 6),
            packet(203, true, SEND_ONLY, 5),
        ];
        assert_eq!(again(&frames, MAC), Again { guest: 2, card: 1 });
        assert_eq!(again(&frames[..5], MAC), Again::default());
    }

    #[test]
    fn what_was_read_is_written_in_the_same_order() {
        let path = std::env::temp_dir().join(format!("ferrowire-capture-{}.pcapng", std::process::id()));
        let frames = [packet(1000, false, SEND_ONLY, 1), packet(1002, true, SEND_ONLY, 2)];
        write(&path, &frames).unwrap();
        let mut reader = pcap_file::pcapng::PcapNgReader::new(File::open(&path).unwrap()).unwrap();
        let mut found = Vec::new();
        while let Some(block) = reader.next_block() {
            if let pcap_file::pcapng::Block::EnhancedPacket(packet) = block.unwrap() {
                found.push((packet.timestamp.as_millis(), packet.data.into_owned()));
            }
        }
        let wanted = [(0, frames[0].bytes.clone()), (2, frames[1].bytes.clone())];
        assert_eq!(found, wanted);
        std::fs::remove_file(path).unwrap();
    }
}
