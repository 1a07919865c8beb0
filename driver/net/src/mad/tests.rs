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
fn captured() -> Vec<Vec<u8>> {
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
    assert_eq!(rdma_port(req.service_id), Some(7174));
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
    other[17] = 0x17;
    assert_eq!(Mad::parse(&other), Err(MadError::Attribute(0x17)));
}

proptest! {
    #[test]
    fn whatever_bytes_come_what_is_understood_encodes_to_what_decodes_the_same(
        mut bytes in proptest::collection::vec(any::<u8>(), BYTES),
        attribute in 0x10u8..=0x16,
    ) {
        bytes[..4].copy_from_slice(&[1, CLASS, CLASS_VERSION, METHOD]);
        bytes[16..18].copy_from_slice(&[0, attribute]);
        let mad = Mad::parse(&bytes).unwrap();
        prop_assert_eq!(Mad::parse(&mad.to_bytes()).unwrap(), mad);
    }
}
