// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames made by hand: VLAN, IPv6, padding, and every way to be wrong.

use crate::common::icrc_by_hand;
use ferrowire_spec::csr::DropReason;
use ferrowire_spec::wire::checksum::{self, Addresses};
use ferrowire_spec::wire::frame::NotRoce;
use ferrowire_spec::wire::opcode::Ext;
use ferrowire_spec::wire::{icrc, AtomicEth, Deth, Ipv6, Reth, Vlan};
use ferrowire_spec::wire::{Bth, Eth, Extensions, Frame, FrameError, Ip, Ipv4, Opcode};

fn v4() -> Ip {
    Ip::V4(Ipv4 { src: 0x0a00_0002, dst: 0x0a00_0001, dscp: 26, ecn: 1, ..Ipv4::default() })
}

fn v6() -> Ip {
    let (src, dst) = (0xfd00_0000_0000_0000_0000_0000_0000_0002, 0xfd00_0000_0000_0000_0000_0000_0000_0001);
    Ip::V6(Ipv6 { src, dst, dscp: 26, flow_label: 0xabcde, ..Ipv6::default() })
}

/// A sealed frame with every extension header that the opcode has.
fn frame(opcode: Opcode, ip: Ip, vlan: Option<Vlan>, payload: &[u8]) -> Frame<'_> {
    let mut ext = Extensions::default();
    for kind in opcode.extensions() {
        match kind {
            Ext::Deth => ext.deth = Some(Deth { qkey: 0x1122_3344, srcqp: 0x12, ..Default::default() }),
            Ext::Reth => ext.reth = Some(Reth { va: 0x7fff_0000_1234, rkey: 0x1_00, len: 5 }),
            Ext::AtomicEth => ext.atomic = Some(AtomicEth { va: 8, rkey: 9, swap: 10, compare: 11 }),
            Ext::Aeth => ext.aeth = Some(Default::default()),
            Ext::AtomicAckEth => ext.atomic_ack = Some(Default::default()),
            Ext::ImmDt => ext.imm = Some(Default::default()),
            Ext::Ieth => ext.ieth = Some(Default::default()),
            Ext::Cnp => ext.cnp = Some(Default::default()),
            Ext::Report => ext.report = Some(Default::default()),
        }
    }
    let mut frame = Frame {
        eth: Eth { dst: 0x0200_0000_0001, src: 0x0200_0000_0002, ethertype: 0 },
        vlan,
        ip,
        bth: Bth { opcode: opcode.code(), destqp: 0x11, psn: 0xff_fffe, ackreq: true, ..Bth::default() },
        ext,
        payload,
        ..Frame::default()
    };
    frame.seal().unwrap();
    frame
}

fn bytes(frame: &Frame) -> Vec<u8> {
    let mut out = vec![0; frame.len()];
    assert_eq!(frame.emit(&mut out).unwrap(), out.len());
    out
}

fn error(bytes: &[u8]) -> FrameError {
    Frame::parse(bytes).unwrap_err()
}

#[test]
fn every_opcode_makes_a_frame_over_both_address_families_with_and_without_a_tag() {
    let tag = Vlan::from_tci(0x6005, 0);
    assert_eq!((tag.pcp, tag.dei, tag.vid, tag.tci()), (3, false, 5, 0x6005));
    for &opcode in Opcode::ALL {
        for ip in [v4(), v6()] {
            for vlan in [None, Some(tag)] {
                let payload: &[u8] = if opcode.carries_payload() { b"12345" } else { b"" };
                let made = frame(opcode, ip, vlan, payload);
                let wire = bytes(&made);
                let read = Frame::parse(&wire).unwrap_or_else(|e| panic!("{opcode}: {e}"));
                assert_eq!(read, made, "{opcode}");
                assert_eq!(bytes(&read), wire, "{opcode}");
                assert_eq!(read.payload, payload);
                assert_eq!(read.bth.pad as usize, if payload.is_empty() { 0 } else { 3 });
            }
        }
    }
}

#[test]
fn the_icrc_over_ipv6_and_over_a_tag_agrees_with_a_bit_by_bit_computation() {
    for (ip, ip_at, vlan) in [(v6(), 14, None), (v6(), 18, Some(Vlan::from_tci(0x6005, 0))), (v4(), 14, None)]
    {
        let wire = bytes(&frame(Opcode::RcWriteOnly, ip, vlan, &[0xa5; 999]));
        let sent = u32::from_le_bytes(wire[wire.len() - 4..].try_into().unwrap());
        assert_eq!(sent, icrc_by_hand(&wire[ip_at..]));
        assert_eq!(icrc::check(&wire[ip_at..]), Ok(()));
    }
}

#[test]
fn the_crc_of_the_standard_check_string_is_right_in_any_pieces() {
    for cut in 0..=9 {
        let mut crc = icrc::Crc32::new();
        crc.update(&b"123456789"[..cut]);
        crc.update(&b"123456789"[cut..]);
        assert_eq!(crc.finish(), 0xcbf4_3926);
    }
}

#[test]
fn what_routers_change_does_not_change_the_icrc() {
    let made = frame(Opcode::RcSendOnly, v6(), None, b"abcd");
    let mut changed = made;
    let Ip::V6(h) = &mut changed.ip else { unreachable!() };
    (h.hop_limit, h.dscp, h.ecn, h.flow_label) = (3, 1, 3, 0x12345);
    (changed.bth.fecn, changed.bth.becn, changed.bth.resv6) = (true, true, 0x2a);
    changed.seal().unwrap();
    assert_eq!(changed.icrc, made.icrc);
    changed.bth.resv7 = 1;
    changed.seal().unwrap();
    assert_ne!(changed.icrc, made.icrc, "the second reserved field is covered");
}

#[test]
fn ethernet_padding_behind_the_ip_length_is_kept_and_not_counted() {
    let mut wire = bytes(&frame(Opcode::RcAcknowledge, v4(), None, b""));
    let len = wire.len();
    wire.extend([0; 7]);
    let read = Frame::parse(&wire).unwrap();
    assert_eq!((read.trailer, read.len()), (&[0; 7][..], len + 7));
    assert_eq!(bytes(&read), wire);
}

#[test]
fn a_udp_checksum_is_optional_and_checked_when_there_is_one() {
    for ip in [v4(), v6()] {
        let mut made = frame(Opcode::RcSendOnly, ip, None, b"checksummed!");
        let udp_at = 14 + made.ip.bytes();
        assert_eq!(made.udp.checksum, 0);
        made.udp.checksum = checksum::udp(made.ip.addresses(), &bytes(&made)[udp_at..]);
        assert_ne!(made.udp.checksum, 0);
        let mut wire = bytes(&made);
        assert_eq!(Frame::parse(&wire).unwrap(), made);
        wire[udp_at + 6] ^= 1;
        assert_eq!(error(&wire), FrameError::BadUdpChecksum);
    }
    // A sum that comes out as zero is sent as ones.
    let mut datagram = [0u8; 8];
    datagram[..2].copy_from_slice(&(0xffff - 17 - 8 - 8u16).to_be_bytes());
    datagram[4..6].copy_from_slice(&8u16.to_be_bytes());
    assert_eq!(checksum::udp(Addresses::V4(0, 0), &datagram), 0xffff);
}

#[test]
fn each_way_to_be_wrong_has_its_error_and_its_counter() {
    let good = bytes(&frame(Opcode::RcSendOnly, v4(), None, b"payload"));
    // Patch bytes of a good frame, and make the IPv4 checksum right again.
    let patched = |patches: &[(usize, u8)]| {
        let mut wire = good.clone();
        patches.iter().for_each(|&(at, byte)| wire[at] = byte);
        wire[24..26].fill(0);
        let sum = checksum::ipv4(&wire[14..34]);
        wire[24..26].copy_from_slice(&sum.to_be_bytes());
        wire
    };
    // And the ICRC too.
    let sealed = |patches: &[(usize, u8)]| {
        let mut wire = patched(patches);
        let body = wire.len() - 4;
        let icrc = icrc::icrc(&wire[14..body]).unwrap();
        wire[body..].copy_from_slice(&icrc.to_le_bytes());
        wire
    };
    let reason = |e: FrameError| e.drop_reason().unwrap();
    let arp = patched(&[(12, 0x08), (13, 0x06)]);
    assert_eq!(error(&arp), FrameError::NotRoce(NotRoce::Ethertype(0x0806)));
    assert_eq!(error(&patched(&[(23, 6)])), FrameError::NotRoce(NotRoce::Protocol(6)));
    assert_eq!(error(&patched(&[(37, 53)])), FrameError::NotRoce(NotRoce::Port(0x1235)));
    assert_eq!(reason(error(&arp)), DropReason::NotRoce);
    assert_eq!(error(&patched(&[(14, 0x65)])), FrameError::BadVersion { want: 4, have: 6 });
    assert_eq!(error(&patched(&[(14, 0x44)])), FrameError::BadHeaderLength { ihl: 4 });
    assert_eq!(error(&patched(&[(20, 0x20)])), FrameError::Fragment { offset: 0, more: true });
    assert_eq!(error(&patched(&[(21, 9)])), FrameError::Fragment { offset: 9, more: false });
    let mut wrong_sum = good.clone();
    wrong_sum[24] ^= 1;
    assert_eq!(reason(error(&wrong_sum)), DropReason::IpChecksum);
    let total = u16::from_be_bytes([good[16], good[17]]);
    let length = |n: u16| patched(&[(16, n.to_be_bytes()[0]), (17, n.to_be_bytes()[1])]);
    for n in [0, 43, total - 1, total + 1, u16::MAX] {
        assert_eq!(reason(error(&length(n))), DropReason::Length, "IP length {n}");
    }
    for (at, byte) in [(38, 0xff), (39, 0)] {
        assert!(matches!(error(&patched(&[(at, byte)])), FrameError::LengthMismatch { what: "udp", .. }));
    }
    assert_eq!(reason(error(&patched(&[(54, 1)]))), DropReason::Icrc);
    assert_eq!(error(&sealed(&[(43, 0x57)])), FrameError::BadTver { tver: 7 });
    for opcode in (0..=255u8).filter(|o| Opcode::from_code(*o).is_none()) {
        assert_eq!(error(&sealed(&[(42, opcode)])), FrameError::ReservedOpcode { opcode });
    }
    // 12 bytes of base header and 8 of payload are less than the headers of an atomic.
    let short = error(&sealed(&[(42, Opcode::RcFetchAdd.code())]));
    assert_eq!(
        short,
        FrameError::BadTransportLength { opcode: Opcode::RcFetchAdd, want: 12 + 28 + 1, have: 20 }
    );
    let ack = error(&sealed(&[(42, Opcode::RcAcknowledge.code())]));
    assert_eq!(ack, FrameError::UnexpectedPayload { opcode: Opcode::RcAcknowledge, bytes: 4 });
    assert_eq!((reason(short), reason(ack)), (DropReason::Malformed, DropReason::Malformed));
    for len in 0..42 {
        assert_eq!(reason(error(&good[..len])), DropReason::Runt, "{len} bytes");
    }
    for len in 42..good.len() {
        assert_eq!(reason(error(&good[..len])), DropReason::Length, "{len} bytes");
    }
}

#[test]
fn an_ipv4_header_with_options_and_an_ipv6_fragment_are_refused() {
    let mut wire = bytes(&frame(Opcode::RcSendOnly, v4(), None, b""));
    wire.splice(34..34, [1, 1, 1, 0]);
    wire[14] = 0x46;
    assert_eq!(error(&wire), FrameError::BadHeaderLength { ihl: 6 });

    let mut wire = bytes(&frame(Opcode::RcSendOnly, v6(), None, b""));
    wire[20] = 44;
    wire.splice(54..54, [17, 0, 0x00, 0x59, 0, 0, 0, 1]);
    assert_eq!(error(&wire), FrameError::Fragment { offset: 11, more: true });
    wire[54] = 6;
    assert_eq!(error(&wire), FrameError::NotRoce(NotRoce::Protocol(44)));
}

#[test]
fn a_body_that_is_not_a_multiple_of_four_bytes_is_refused() {
    let mut made = frame(Opcode::RcSendOnly, v4(), None, b"12345");
    made.bth.pad = 0;
    let Ip::V4(h) = &mut made.ip else { unreachable!() };
    h.total_len -= 3;
    h.checksum = 0;
    h.checksum = checksum::ipv4(&h.to_bytes().unwrap());
    made.udp.len -= 3;
    let opcode = Opcode::RcSendOnly;
    assert_eq!(error(&bytes(&made)), FrameError::BadTransportLength { opcode, want: 20, have: 17 });
}

#[test]
fn a_pad_count_larger_than_the_body_is_refused() {
    for pad in 1..=3 {
        let mut wire = bytes(&frame(Opcode::RcSendOnly, v4(), None, b""));
        wire[43] |= pad << 4;
        let body = wire.len() - 4;
        let icrc = icrc::icrc(&wire[14..body]).unwrap();
        wire[body..].copy_from_slice(&icrc.to_le_bytes());
        let (opcode, want) = (Opcode::RcSendOnly, 12 + usize::from(pad));
        assert_eq!(error(&wire), FrameError::BadTransportLength { opcode, want, have: 12 });
    }
}

#[test]
fn encoding_refuses_headers_that_are_not_the_opcodes_and_buffers_too_short() {
    let mut made = frame(Opcode::RcWriteOnly, v4(), None, b"x");
    let mut out = [0; 200];
    assert!(matches!(made.emit(&mut out[..10]), Err(FrameError::Encode(_))));
    made.ext.reth = None;
    let opcode = Opcode::RcWriteOnly;
    assert_eq!(made.emit(&mut out), Err(FrameError::WrongExtensions { opcode }));
    made.bth.opcode = 0x15;
    assert_eq!(made.emit(&mut out), Err(FrameError::ReservedOpcode { opcode: 0x15 }));
    let mut long = frame(Opcode::RcSendOnly, v4(), None, b"");
    let payload = vec![0; 65536];
    long.payload = &payload;
    assert!(matches!(long.seal(), Err(FrameError::LengthMismatch { what: "ip", .. })));
}

#[test]
fn without_selective_retransmission_the_opcode_of_its_report_is_reserved_whatever_comes_after_it() {
    let reserved = FrameError::ReservedOpcode { opcode: 0xc0 };
    let report = bytes(&frame(Opcode::RcReport, v4(), None, b""));
    assert_eq!(Frame::parse(&report).unwrap().opcode(), Ok(Opcode::RcReport));
    assert_eq!(Frame::parse_standard(&report), Err(reserved));
    // The opcode of another packet, which is shorter, and of one that is longer.
    for payload in [&[0; 36][..], &[0; 44]] {
        let mut wire = bytes(&frame(Opcode::RcSendOnly, v4(), None, payload));
        wire[42] = 0xc0;
        let body = wire.len() - 4;
        let icrc = icrc::icrc(&wire[14..body]).unwrap();
        wire[body..].copy_from_slice(&icrc.to_le_bytes());
        let plain = Frame::parse(&wire).unwrap_err();
        assert_eq!(plain.drop_reason(), Some(ferrowire_spec::csr::DropReason::Malformed));
        assert_eq!(Frame::parse_standard(&wire), Err(reserved));
        // What comes before the opcode counts first.
        wire[60] ^= 1;
        assert_eq!(Frame::parse_standard(&wire), Err(error(&wire)));
    }
}
