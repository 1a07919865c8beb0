// SPDX-License-Identifier: MIT OR Apache-2.0
//! What went over a guest's wire, by the guest's clock: kept as pcapng, and looked through for requests that were sent again.
//!
//! soft-RoCE does not begin its transport timer anew with each request: what fires is the one of an earlier request, and whatever is unanswered just
//! then is sent again, however short it has been out (`docs/src/interop.md`). So a packet that comes again counts as **late** only if the time-out had
//! passed since it was sent last (IBTA 9.7.6.1.3): that is what a peer that is too slow, or a loss, looks like.

use std::collections::HashMap;
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

/// Local ACK timeout 14, which the pingpong tools set: 4.096 us times 2^14 (IBTA 9.7.6.1.3).
pub const TIMEOUT: Duration = Duration::from_nanos(4096 << 14);

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
    /// Of the guest, before its time-out.
    pub early: u64,
    /// Of the guest, behind its time-out.
    pub late: u64,
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
    // By queue pair and PSN, when it was sent last.
    let mut sent: HashMap<(bool, u32, u32), Duration> = HashMap::new();
    for Passed { time, bytes } in frames {
        let Ok(frame) = Frame::parse(bytes) else { continue };
        let Ok(opcode) = frame.opcode() else { continue };
        if !opcode.is_acknowledged() {
            continue;
        }
        let of_card = bytes[6..12] == card;
        let key = (of_card, frame.bth.destqp, frame.bth.psn);
        let Some(before) = sent.insert(key, *time) else { continue };
        match time.saturating_sub(before) {
            _ if of_card => again.card += 1,
            out if out < TIMEOUT => again.early += 1,
            _ => again.late += 1,
        }
    }
    again
}

#[cfg(test)]
mod tests {
    use ferrowire_spec::wire::bth::Bth;
    use ferrowire_spec::wire::eth::Eth;

    use super::*;

    const CARD: u64 = 0x02fe_0000_0001;
    const MAC: [u8; 6] = [2, 0xfe, 0, 0, 0, 1];

    /// A packet at a time in milliseconds.
    fn packet(ms: u64, of_card: bool, opcode: u8, psn: u32) -> Passed {
        let (src, dst) = if of_card { (CARD, 2) } else { (2, CARD) };
        let mut frame = Frame {
            eth: Eth { dst, src, ..Eth::default() },
            bth: Bth { opcode, destqp: 7, psn, ..Bth::default() },
            payload: &[1; 64],
            ..Frame::default()
        };
        frame.seal().unwrap();
        let mut bytes = vec![0; frame.len()];
        frame.emit(&mut bytes).unwrap();
        Passed { time: Duration::from_millis(ms), bytes }
    }

    const SEND_ONLY: u8 = 0x04;

    #[test]
    fn what_comes_again_is_late_when_the_time_out_has_passed_since_it_was_sent_last() {
        let frames = [
            packet(0, false, SEND_ONLY, 5),
            packet(0, true, SEND_ONLY, 5),
            packet(60, false, SEND_ONLY, 6),
            // Early: the timer of 5 has fired.
            packet(68, false, SEND_ONLY, 6),
            packet(134, false, SEND_ONLY, 6),
            // Late: 68 milliseconds behind the one before.
            packet(202, false, SEND_ONLY, 6),
            packet(203, true, SEND_ONLY, 5),
        ];
        assert_eq!(again(&frames, MAC), Again { early: 2, late: 1, card: 1 });
        assert_eq!(again(&frames[..3], MAC), Again::default());
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
