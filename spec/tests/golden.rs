// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames from Linux soft-RoCE decode, encode to the same bytes and have a right ICRC.

use crate::common::{captured, icrc_by_hand};
use ferrowire_spec::csr::DropReason;
use ferrowire_spec::wire::opcode::PayloadRule;
use ferrowire_spec::wire::{Frame, FrameError, Opcode, Syndrome};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn every_captured_frame_decodes_and_encodes_to_the_same_bytes() {
    let mut checked = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    for captured in captured().iter().filter(|c| c.is_roce()) {
        let frame = match Frame::parse(&captured.bytes) {
            Ok(frame) => frame,
            Err(FrameError::BadIcrc { .. }) => {
                wrong.push(format!("{}/{}", captured.folder, captured.file));
                continue;
            }
            Err(e) => panic!("{}: {e}", captured.name()),
        };
        let mut out = vec![0xee; captured.bytes.len()];
        let len = frame.emit(&mut out).unwrap();
        assert_eq!(len, frame.len(), "{}", captured.name());
        assert_eq!(out[..len], captured.bytes, "{}", captured.name());

        // What the sender computed follows from the rest, except for the identification and source port, which
        // are part of the rest: sealing changes nothing.
        let mut sealed = frame;
        sealed.seal().unwrap();
        assert_eq!(sealed, frame, "{}", captured.name());
        *checked.entry(captured.folder.clone()).or_default() += 1;
    }
    let folders: Vec<_> = checked.keys().cloned().collect();
    println!("frames checked: {checked:?}");
    assert!(checked["v4"] >= 300 && checked["tools"] >= 1000, "captures are missing: {checked:?}");

    // One frame of each folder of cases was corrupted on its way, and only the responder's wire shows it.
    let corrupted: Vec<_> = folders
        .iter()
        .filter(|f| crate::common::golden().join(f).join("corrupt_icrc.resp.pcap").exists())
        .map(|f| format!("{f}/corrupt_icrc.resp.pcap"))
        .collect();
    assert_eq!(wrong, corrupted);
}

#[test]
fn the_icrc_agrees_with_a_bit_by_bit_computation_on_every_captured_frame() {
    for captured in captured().iter().filter(|c| c.is_roce()) {
        let Ok(frame) = Frame::parse(&captured.bytes) else { continue };
        let packet = captured.bytes.len() - frame.trailer.len();
        let ip = 14 + if frame.vlan.is_some() { 4 } else { 0 };
        assert_eq!(frame.icrc, icrc_by_hand(&captured.bytes[ip..packet]), "{}", captured.name());
    }
}

#[test]
fn the_corrupted_frame_is_rejected_with_both_icrcs_named() {
    let all = captured();
    let case = |file: &str| all.iter().find(|c| c.folder == "v4" && c.file == file).unwrap();
    let sent = Frame::parse(&case("corrupt_icrc.pcap").bytes).unwrap();
    let arrived = Frame::parse(&case("corrupt_icrc.resp.pcap").bytes).unwrap_err();
    let FrameError::BadIcrc { want, have } = arrived else { panic!("{arrived}") };
    // The relay turned over one byte of the ICRC itself; the rest arrived as it was sent.
    assert_eq!(want, sent.icrc);
    assert_ne!(have, want);
    assert_eq!(arrived.drop_reason(), Some(DropReason::Icrc));
}

#[test]
fn any_single_corrupted_covered_byte_is_rejected() {
    let all = captured();
    let mut bytes = all.iter().find(|c| c.file == "write_imm.pcap").unwrap().bytes.clone();
    Frame::parse(&bytes).unwrap();
    for at in 14 + 20 + 8 + 5..bytes.len() {
        bytes[at] ^= 0x10;
        assert!(matches!(Frame::parse(&bytes), Err(FrameError::BadIcrc { .. })), "byte {at}");
        bytes[at] ^= 0x10;
    }
}

#[test]
fn captured_payloads_obey_the_rule_of_their_opcode_at_an_mtu_of_1024() {
    for captured in captured().iter().filter(|c| c.is_roce() && c.folder != "tools") {
        // A retried READ is answered with MIDDLE packets by this peer, the last of them short.
        if captured.file.starts_with("drop_read_resp_middle") {
            continue;
        }
        let Ok(frame) = Frame::parse(&captured.bytes) else { continue };
        let opcode = frame.opcode().unwrap();
        assert!(
            opcode.payload().allows(frame.payload.len(), 1024),
            "{}: {opcode} with {} bytes",
            captured.name(),
            frame.payload.len()
        );
    }
}

#[test]
fn captures_show_most_opcodes_and_every_kind_of_syndrome() {
    let mut opcodes = BTreeSet::new();
    let mut syndromes = BTreeSet::new();
    for captured in captured().iter().filter(|c| c.is_roce()) {
        let Ok(frame) = Frame::parse(&captured.bytes) else { continue };
        opcodes.insert(frame.bth.opcode);
        if let Some(aeth) = frame.ext.aeth {
            let decoded = Syndrome::decode(aeth.syndrome);
            assert_eq!(decoded.encode(), aeth.syndrome);
            assert!(!matches!(decoded, Syndrome::Reserved(_)), "{}", captured.name());
            syndromes.insert(aeth.syndrome);
        }
    }
    let rc_seen = Opcode::ALL.iter().filter(|o| o.code() < 0x20 && opcodes.contains(&o.code())).count();
    assert!(rc_seen >= 21, "{opcodes:x?}");
    for syndrome in [0x1f, 0x2e, 0x60, 0x62, 0x63] {
        assert!(syndromes.contains(&syndrome), "{syndrome:#x} is not in {syndromes:x?}");
    }
    assert_eq!(Opcode::RcReadResponseMiddle.payload(), PayloadRule::Mtu);
}
