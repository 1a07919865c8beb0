// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables against what Linux has sent, and against themselves.

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use proptest::prelude::*;

use super::*;

/// The MADs of the capture: Ethernet, IPv4, UDP, BTH and DETH before each, the ICRC behind it.
pub(crate) fn captured() -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sim/golden/tools/rdma_cm.pcap");
    let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
    let mut mads = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            let frame = &packet.data;
            assert_eq!((frame[23], &frame[36..38], frame[42]), (17, &[0x12, 0xb7][..], 0x64));
            mads.push(frame[62..frame.len() - 4].to_vec());
        }
    }
    mads
}

#[test]
fn every_captured_mad_decodes_and_encodes_to_the_same_bytes() {
    let mads = captured();
    let names: Vec<_> = mads
        .iter()
        .map(|bytes| {
            let mad = Mad::parse(bytes).unwrap();
            assert_eq!(mad.to_bytes()[..], bytes[..], "{mad:?}");
            mad.message.name()
        })
        .collect();
    let connect = ["Req", "Rep", "Rtu"];
    let end = ["Dreq", "Drep"];
    assert_eq!(names, [&connect[..], &connect, &end, &end, &connect, &end].concat());
}

#[test]
fn the_captured_request_says_what_its_program_asked_for() {
    let mads = captured();
    let Message::Req(req) = Mad::parse(&mads[10]).unwrap().message else { panic!("rping asks first") };
    // rping listens on 7174, and asks for one READ each way.
    assert_eq!(PortSpace::of_service_id(req.service_id), Some((PortSpace::Tcp, 7174)));
    assert_eq!((req.local_qpn, req.responder_resources, req.initiator_depth), (0x2b, 1, 1));
    assert_eq!((req.starting_psn, req.pkey, req.path_mtu), (0x8f0ea1, 0xffff, 3));
    assert_eq!((req.retry_count, req.rnr_retry_count, req.max_cm_retries), (7, 7, 15));
    assert_eq!((req.primary_hop_limit, req.primary_local_ack_timeout), (64, 19));
    let [a, b] = [IpAddr::from([10, 0, 0, 2]), IpAddr::from([10, 0, 0, 1])];
    assert_eq!((gid_ip(req.primary_local_gid), gid_ip(req.primary_remote_gid)), (a, b));
    let ip = IpCm::parse(&req.private_data).unwrap();
    assert_eq!(ip, IpCm { source_port: 0x8f01, source: a, destination: b });
    assert_eq!(ip.to_bytes(), req.private_data[..IpCm::BYTES]);
    let Message::Rep(rep) = Mad::parse(&mads[11]).unwrap().message else { panic!("then comes the answer") };
    assert_eq!((rep.remote_comm_id, rep.local_qpn), (req.local_comm_id, 0x2b));
    assert_eq!((rep.responder_resources, rep.initiator_depth, rep.rnr_retry_count), (1, 1, 7));
}

/// What a message calls its starting PSN is not the sender's, but what the other side begins with (IBTA 12.7).
#[test]
fn what_linux_sends_first_has_the_psn_that_it_was_told() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sim/golden/tools/rping.pcap");
    let mut reader = PcapReader::new(File::open(path).unwrap()).unwrap();
    let (mut told, mut sent) = (None, Vec::new());
    while let Some(packet) = reader.next_packet() {
        let frame = packet.unwrap().data.into_owned();
        let is_linux = frame[6..12] == [2, 0, 0, 0, 0, 2];
        match frame[42] {
            0x64 => {
                let mad = Mad::parse(&frame[62..frame.len() - 4]).unwrap();
                if let (false, Message::Rep(rep)) = (is_linux, mad.message) {
                    told = Some(rep.starting_psn);
                }
            }
            // SENDs.
            4 if is_linux => sent.push(u32::from_be_bytes([0, frame[51], frame[52], frame[53]])),
            _ => {}
        }
    }
    let first = told.expect("the card has answered");
    assert_eq!(sent, [first, first + 1, first + 2, first + 3], "two rounds of two messages");
}

#[test]
fn no_two_fields_share_a_bit_and_none_reaches_into_the_private_data() {
    for (fields, private) in [
        (Req::FIELDS, Req::PRIVATE_AT),
        (Mra::FIELDS, Mra::PRIVATE_AT),
        (Rej::FIELDS, Rej::PRIVATE_AT),
        (Rep::FIELDS, Rep::PRIVATE_AT),
        (Rtu::FIELDS, Rtu::PRIVATE_AT),
        (Dreq::FIELDS, Dreq::PRIVATE_AT),
        (Drep::FIELDS, Drep::PRIVATE_AT),
        (SidrReq::FIELDS, SidrReq::PRIVATE_AT),
        (SidrRep::FIELDS, SidrRep::PRIVATE_AT),
    ] {
        let mut taken = [false; 8 * BYTES];
        for (name, at, width) in fields {
            assert!(at + width <= 8 * private, "{name}");
            for bit in &mut taken[*at..at + width] {
                assert!(!std::mem::replace(bit, true), "{name}");
            }
        }
    }
}

#[test]
fn what_is_no_message_of_the_manager_is_named() {
    let bytes = captured().remove(0);
    assert_eq!(Mad::parse(&bytes[1..]), Err(MadError::Length(255)));
    for (at, field) in [(0, "base version"), (1, "management class"), (2, "class version"), (3, "method")] {
        let mut other = bytes.clone();
        other[at] ^= 0x80;
        let error = Mad::parse(&other).unwrap_err();
        assert!(matches!(error, MadError::Header { field: f, .. } if f == field), "{error}");
    }
    let mut other = bytes;
    // LAP.
    other[17] = 0x19;
    assert_eq!(Mad::parse(&other), Err(MadError::Attribute(0x19)));
}

/// The tables of IBTA 12.6 and 12.11.
#[test]
fn each_message_has_the_private_data_that_the_standard_gives_it() {
    let lengths = [
        Req::PRIVATE,
        Mra::PRIVATE,
        Rej::PRIVATE,
        Rep::PRIVATE,
        Rtu::PRIVATE,
        Dreq::PRIVATE,
        Drep::PRIVATE,
        SidrReq::PRIVATE,
        SidrRep::PRIVATE,
    ];
    assert_eq!(lengths, [92, 222, 148, 196, 224, 220, 224, 216, 136]);
}

/// Byte 24 of the REQ and the low half of byte 27 of the REP after the header: 0 in what Linux sends (see the capture), and no other byte changes.
#[test]
fn selective_retransmission_is_in_bits_that_the_standard_reserves() {
    let changed = |one: Message, other: Message| {
        let bytes = |message| Mad { transaction_id: 9, message }.to_bytes();
        let (one, other) = (bytes(one), bytes(other));
        let differ = (0..BYTES).filter(|at| one[*at] != other[*at]);
        differ.map(|at| (at - HEADER, one[at] ^ other[at])).collect::<Vec<_>>()
    };
    let req = Req { local_ca_guid: u64::MAX, local_qkey: 0, ..Req::default() };
    assert_eq!(changed(req.into(), Req { selective: 1, ..req }.into()), [(24, 1)]);
    let rep = Rep { rnr_retry_count: 7, srq: true, local_ca_guid: u64::MAX, ..Rep::default() };
    assert_eq!(changed(rep.into(), Rep { selective: 1, ..rep }.into()), [(27, 1)]);
    for bytes in captured() {
        match Mad::parse(&bytes).unwrap().message {
            Message::Req(req) => assert_eq!(req.selective, 0),
            Message::Rep(rep) => assert_eq!(rep.selective, 0),
            _ => {}
        }
    }
}

#[test]
fn a_request_for_a_datagram_service_and_its_answer_have_the_bytes_of_the_standard() {
    let ip = IpCm { source_port: 0x8001, source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let mut req = SidrReq {
        request_id: 0x0102_0304,
        pkey: 0xffff,
        service_id: PortSpace::Udp.service_id(7174),
        ..SidrReq::default()
    };
    req.private_data[..IpCm::BYTES].copy_from_slice(&ip.to_bytes());
    let bytes = Mad { transaction_id: 9, message: req.into() }.to_bytes();
    assert_eq!(bytes[..4], [1, 7, 2, 3]);
    assert_eq!((&bytes[8..16], &bytes[16..18]), (&[0, 0, 0, 0, 0, 0, 0, 9][..], &[0, 0x17][..]));
    let body = [1, 2, 3, 4, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x01, 0x11, 0x1c, 0x06];
    assert_eq!(bytes[24..40], body);
    assert_eq!(bytes[40..44], [0, 0x40, 0x80, 0x01]);
    assert_eq!((&bytes[56..60], &bytes[72..76]), (&[10, 0, 0, 1][..], &[10, 0, 0, 2][..]));
    let rep = SidrRep {
        request_id: 0x0102_0304,
        status: SidrStatus::Valid.code(),
        qpn: 0xabcdef,
        service_id: req.service_id,
        qkey: 0x0123_4567,
        private_data: [0x5a; SidrRep::PRIVATE],
        ..SidrRep::default()
    };
    let bytes = Mad { transaction_id: 9, message: rep.into() }.to_bytes();
    assert_eq!(bytes[16..18], [0, 0x18]);
    assert_eq!(bytes[24..36], [1, 2, 3, 4, 0, 0, 0, 0, 0xab, 0xcd, 0xef, 0]);
    assert_eq!(bytes[36..48], [0, 0, 0, 0, 0x01, 0x11, 0x1c, 0x06, 0x01, 0x23, 0x45, 0x67]);
    assert!(bytes[48..120].iter().all(|byte| *byte == 0) && bytes[120..].iter().all(|byte| *byte == 0x5a));
}

#[test]
fn a_service_names_its_port_space_and_port() {
    for space in PortSpace::ALL {
        assert_eq!(PortSpace::of_service_id(space.service_id(7174)), Some((space, 7174)));
    }
    // Services of other kinds, and a port space that nobody has.
    for other in [7174, 0x1_0106_0000, 0x0140_0000] {
        assert_eq!(PortSpace::of_service_id(other), None);
    }
}

#[test]
fn every_reason_has_its_number_and_a_text() {
    for reason in RejectReason::ALL {
        assert_eq!(RejectReason::from(reason.code()), *reason);
        assert!(reason.to_string().ends_with(&format!("(reason {})", reason.code())), "{reason}");
    }
    for status in SidrStatus::ALL {
        assert_eq!(SidrStatus::from(status.code()), *status);
    }
    assert_eq!(RejectReason::Consumer.code(), 28);
    assert_eq!(RejectReason::from(99).to_string(), "reason 99 of IBTA 12.6.7.2");
    assert_eq!(
        (RejectReason::from(34), SidrStatus::from(6)),
        (RejectReason::Other(34), SidrStatus::Other(6))
    );
}

proptest! {
    #[test]
    fn whatever_bytes_come_what_is_understood_encodes_to_what_decodes_the_same(
        mut bytes in proptest::collection::vec(any::<u8>(), BYTES),
        attribute in 0x10u8..=0x18,
    ) {
        bytes[..4].copy_from_slice(&[1, CLASS, CLASS_VERSION, METHOD]);
        bytes[16..18].copy_from_slice(&[0, attribute]);
        let mad = Mad::parse(&bytes).unwrap();
        prop_assert_eq!(Mad::parse(&mad.to_bytes()).unwrap(), mad);
    }
}
