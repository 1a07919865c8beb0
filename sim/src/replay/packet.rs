// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that are the card's own, put in place of those of the capture.
//!
//! A card chooses its queue pair numbers and keys itself, so in a replay they are other ones than in the capture. Frames
//! that are played to the card get its numbers; frames that it sends are given the capture's before they are compared.
//! Nothing else of a frame changes but what follows from these: the ICRC, and a UDP checksum, which is left out. An ICRC that
//! was wrong stays wrong: it differs from the right one by the same bits as before.
//!
//! Numbers move by what they differ in, `have ^ captured ^ own`. So the end's own number becomes the card's own, and
//! another one (a key that is wrong on purpose) stays another one, never the card's by chance.

use std::net::IpAddr;

use ferrowire_spec::wire::opcode::{Ext, Opcode};
use ferrowire_spec::wire::{atomic_eth, bth, deth, eth, icrc, ieth, ipv4, ipv6, reth, udp, vlan};
use ferrowire_spec::{Field, Order};

/// Where the parts of a RoCE frame begin, whether or not its checks pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    ip: usize,
    udp: usize,
    bth: usize,
    icrc: usize,
    v6: bool,
}

fn get(field: &Field, bytes: &[u8]) -> Option<u128> {
    (field.end().div_ceil(8) <= bytes.len()).then(|| field.get(Order::Network, bytes))
}

impl Parts {
    /// `None` when it is not RoCE v2, or not whole.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let mut ip = eth::BYTES;
        let mut ethertype = get(&eth::ETHERTYPE, frame)?;
        if ethertype == u128::from(eth::ethertype::VLAN) {
            ethertype = get(&vlan::ETHERTYPE, frame.get(ip..)?)?;
            ip += vlan::BYTES;
        }
        let header = frame.get(ip..)?;
        let v6 = ethertype == u128::from(eth::ethertype::IPV6);
        let (udp, total, protocol) = if v6 {
            let total = ipv6::BYTES + get(&ipv6::PAYLOAD_LEN, header)? as usize;
            (ip + ipv6::BYTES, total, get(&ipv6::NEXT_HEADER, header)?)
        } else if ethertype == u128::from(eth::ethertype::IPV4) {
            let words = get(&ipv4::IHL, header)? as usize;
            (ip + words * 4, get(&ipv4::TOTAL_LEN, header)? as usize, get(&ipv4::PROTOCOL, header)?)
        } else {
            return None;
        };
        let port = get(&udp::DPORT, frame.get(udp..)?)?;
        if protocol != u128::from(ipv4::PROTOCOL_UDP) || port != u128::from(udp::ROCE_PORT) {
            return None;
        }
        let (bth, end) = (udp + udp::BYTES, ip + total);
        (end <= frame.len() && end >= bth + bth::BYTES + icrc::BYTES).then_some(Self {
            ip,
            udp,
            bth,
            icrc: end - icrc::BYTES,
            v6,
        })
    }

    /// Who it says that it comes from.
    pub fn source(&self, frame: &[u8]) -> IpAddr {
        let header = &frame[self.ip..];
        match self.v6 {
            true => IpAddr::from((ipv6::SRC.get(Order::Network, header)).to_be_bytes()),
            false => IpAddr::from((ipv4::SRC.get(Order::Network, header) as u32).to_be_bytes()),
        }
    }

    /// Where the base transport header begins.
    pub fn transport(&self) -> usize {
        self.bth
    }

    /// Where an extension header begins, if it is there.
    fn extension(&self, frame: &[u8], ext: Ext) -> Option<usize> {
        let opcode = Opcode::from_code(bth::OPCODE.get(Order::Network, &frame[self.bth..]) as u8)?;
        let mut at = self.bth + bth::BYTES;
        for &there in opcode.extensions() {
            if there == ext {
                return (at + ext.bytes() <= self.icrc).then_some(at);
            }
            at += there.bytes();
        }
        None
    }

    /// By which bits the ICRC differs from the right one; 0 when it is right.
    fn icrc_error(&self, frame: &[u8]) -> u32 {
        let right = icrc::icrc(&frame[self.ip..self.icrc]).unwrap_or_default();
        let have = frame[self.icrc..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        right ^ have
    }
}

/// A number of the capture, and the card's in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// As captured.
    pub captured: u32,
    /// The card's.
    pub card: u32,
}

impl Own {
    fn swap(self, have: u128) -> u128 {
        have ^ u128::from(self.captured ^ self.card)
    }
}

/// The card's numbers in a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Its queue pair.
    pub qpn: Option<Own>,
    /// The key of its region, where peers name it.
    pub rkey: Option<Own>,
    /// The key of its window, where peers invalidate it.
    pub window: Option<Own>,
}

impl Numbers {
    /// A captured frame as the card is to get it.
    pub fn to_card(&self, frame: &[u8]) -> Vec<u8> {
        self.change(frame, |parts, frame| {
            if let Some(qpn) = self.qpn {
                swap(frame, parts.bth, &bth::DESTQP, qpn);
            }
            if let (Some(window), Some(at)) = (self.window, parts.extension(frame, Ext::Ieth)) {
                swap(frame, at, &ieth::RKEY, window);
            }
            let Some(rkey) = self.rkey else { return };
            if let Some(at) = parts.extension(frame, Ext::Reth) {
                swap(frame, at, &reth::RKEY, rkey);
            }
            if let Some(at) = parts.extension(frame, Ext::AtomicEth) {
                swap(frame, at, &atomic_eth::RKEY, rkey);
            }
        })
    }

    /// A frame of the card as the capture would have it.
    pub fn from_card(&self, frame: &[u8]) -> Vec<u8> {
        self.change(frame, |parts, frame| {
            if let (Some(qpn), Some(at)) = (self.qpn, parts.extension(frame, Ext::Deth)) {
                swap(frame, at, &deth::SRCQP, qpn);
            }
        })
    }

    fn change(&self, frame: &[u8], change: impl FnOnce(&Parts, &mut [u8])) -> Vec<u8> {
        let mut changed = frame.to_vec();
        let Some(parts) = Parts::of(frame) else { return changed };
        let error = parts.icrc_error(frame);
        change(&parts, &mut changed);
        if changed != frame {
            udp::CHECKSUM.set(Order::Network, &mut changed[parts.udp..], 0);
            let right = parts.icrc_error(&changed);
            let have = u32::from_le_bytes(*changed[parts.icrc..].first_chunk().unwrap_or(&[0; 4]));
            changed[parts.icrc..][..icrc::BYTES].copy_from_slice(&(have ^ right ^ error).to_le_bytes());
        }
        changed
    }
}

fn swap(frame: &mut [u8], at: usize, field: &Field, own: Own) {
    let have = field.get(Order::Network, &frame[at..]);
    field.set(Order::Network, &mut frame[at..], own.swap(have));
}

#[cfg(test)]
pub(crate) mod tests {
    use ferrowire_spec::wire::{Aeth, Extensions, Frame, FrameError, Ieth, Ip, Ipv6, Reth, Vlan};

    use super::*;
    use crate::wire::encoded;

    /// A WRITE ONLY of `payload`, sealed.
    pub(crate) fn write<'a>(payload: &'a [u8], v6: bool, tagged: bool) -> Frame<'a> {
        let mut frame = Frame { payload, ..Frame::default() };
        if v6 {
            let ip = Ipv6 {
                version: 6,
                next_header: 17,
                hop_limit: 64,
                src: 0xfd << 120 | 2,
                dst: 0xfd << 120 | 1,
                ..Ipv6::default()
            };
            frame.ip = Ip::V6(ip);
        } else if let Ip::V4(ip) = &mut frame.ip {
            (ip.src, ip.dst) = (0x0a00_0002, 0x0a00_0001);
        }
        frame.vlan = tagged.then(Vlan::default);
        frame.bth.opcode = Opcode::RcWriteOnly.code();
        frame.bth.destqp = 41;
        frame.ext.reth = Some(Reth { va: 0x1000, rkey: 630, len: payload.len() as u32 });
        frame.seal().unwrap();
        frame
    }

    /// A sealed ACK.
    pub(crate) fn ack(psn: u32) -> Frame<'static> {
        let mut frame = Frame::default();
        frame.bth.opcode = Opcode::RcAcknowledge.code();
        frame.bth.psn = psn;
        frame.ext.aeth = Some(Aeth { syndrome: 0x1f, msn: 1 });
        frame.seal().unwrap();
        frame
    }

    pub(crate) fn emit(frame: &Frame<'_>) -> Vec<u8> {
        encoded(frame).unwrap()
    }

    fn numbers() -> Numbers {
        Numbers {
            qpn: Some(Own { captured: 41, card: 2 }),
            rkey: Some(Own { captured: 630, card: 0x1_2345 }),
            window: Some(Own { captured: 0x0800_010a, card: 0x777 }),
        }
    }

    #[test]
    fn a_window_that_is_invalidated_is_the_cards() {
        let mut frame = write(&[7; 8], false, false);
        frame.bth.opcode = Opcode::RcSendOnlyInv.code();
        frame.ext = Extensions { ieth: Some(Ieth { rkey: 0x0800_010a }), ..Extensions::default() };
        frame.seal().unwrap();
        let played = numbers().to_card(&emit(&frame));
        assert_eq!(Frame::parse(&played).unwrap().ext.ieth.unwrap().rkey, 0x777);
    }

    #[test]
    fn the_cards_numbers_stand_in_place_of_the_captured_ones_and_the_icrc_is_right() {
        for (v6, tagged) in [(false, false), (true, false), (false, true), (true, true)] {
            let captured = emit(&write(&[1, 2, 3, 4, 5], v6, tagged));
            let played = numbers().to_card(&captured);
            let frame = Frame::parse(&played).unwrap();
            assert_eq!((frame.bth.destqp, frame.ext.reth.unwrap().rkey), (2, 0x1_2345));
            assert_eq!(frame.payload, [1, 2, 3, 4, 5]);
            let host: IpAddr = if v6 { "fd00::2".parse().unwrap() } else { "10.0.0.2".parse().unwrap() };
            assert_eq!(Parts::of(&captured).unwrap().source(&captured), host);
        }
    }

    #[test]
    fn a_key_that_was_wrong_stays_another_one() {
        let mut frame = write(&[7; 8], false, false);
        for wrong in [22_390, 0x1_2345, 631] {
            frame.ext.reth = Some(Reth { rkey: wrong, ..frame.ext.reth.unwrap() });
            let played = numbers().to_card(&emit(&frame));
            assert_ne!(Frame::parse(&played).unwrap().ext.reth.unwrap().rkey, 0x1_2345);
        }
    }

    #[test]
    fn a_corrupted_frame_stays_corrupted() {
        let good = emit(&write(&[7; 8], false, false));
        for at in [good.len() - 1, good.len() - 6] {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            let played = numbers().to_card(&bad);
            assert!(matches!(Frame::parse(&played), Err(FrameError::BadIcrc { .. })), "byte {at}");
            assert_ne!(played, bad);
        }
    }

    #[test]
    fn a_frame_that_is_not_roce_is_not_touched() {
        let mut arp = emit(&ack(1));
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(Parts::of(&arp), None);
        assert_eq!(numbers().to_card(&arp), arp);
        let whole = emit(&ack(1));
        assert_eq!(Parts::of(&whole[..whole.len() - 1]), None);
        assert_eq!(numbers().from_card(&whole), whole);
    }
}
