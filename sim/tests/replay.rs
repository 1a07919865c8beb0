// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captured conversations of two Linux machines, with the card as either end; and proof that a difference is found.

use crate::tier::chosen;
use std::path::{Path, PathBuf};

use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::replay::compare::{Difference, Place};
use ferrowire_sim::replay::report::{Outcome, Report};
use ferrowire_sim::replay::scenario::{Case, Role};
use ferrowire_sim::replay::trace::Trace;
use ferrowire_sim::replay::{load, play, play_all, Loaded, Roles};
use ferrowire_sim::wire::encoded;
use ferrowire_spec::wire::Frame;

const CONFIGS: [&str; 2] = ["generic-8b", "generic-64b"];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/v4")
}

fn model(config: &str) -> CardModel {
    CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap()
}

fn one(name: &str, role: Role) -> (Case, Trace) {
    let Loaded { mut case, traces } = load(&golden(), Some(name), Roles::Both).unwrap().remove(0);
    let trace = traces.into_iter().find(|(of, _)| *of == role).unwrap().1;
    // Some of these cases wait for a frame that never comes: eight ACK time-outs long, and the captured one is long.
    case.ack_timeout = 12;
    (case, trace)
}

/// What differs between the card and a case, on the small card.
fn differences(case: &Case, trace: &Trace, role: Role) -> Vec<Difference> {
    play::play(&model("generic-8b"), case, trace, role).unwrap().differences
}

#[track_caller]
fn assert_found(found: &[Difference], place: fn(&Place) -> bool, field: &str) {
    let there = found.iter().any(|d| place(&d.place) && d.field.starts_with(field));
    assert!(there, "no difference of {field} in {found:#?}");
}

fn in_frame(place: &Place) -> bool {
    matches!(place, Place::Frame { .. })
}

fn in_memory(place: &Place) -> bool {
    matches!(place, Place::Memory)
}

fn in_completion(place: &Place) -> bool {
    matches!(place, Place::Completion(_))
}

#[test]
fn what_is_built_agrees_with_linux_at_both_ends_and_configurations() {
    let cases = load(&golden(), None, Roles::Both).unwrap();
    for config in chosen!(CONFIGS) {
        let mut report = Report::default();
        play_all(&cases, config, &mut report, |_, _| {}).unwrap();
        let failed: Vec<_> = report.results.iter().filter(|entry| entry.outcome == Outcome::Failed).collect();
        assert!(failed.is_empty(), "{failed:#?}");
        for entry in &report.results {
            // Nobody answers on an unreliable connection, nor where no request arrives.
            let case = &cases.iter().find(|loaded| loaded.case.name == entry.case).unwrap().case;
            let silent = entry.role == Role::Responder && (case.service != "RC" || entry.case == "drop_all");
            assert_eq!(entry.frames == 0, silent, "{config}: {} as {}", entry.case, entry.role);
        }
        assert_eq!((report.passed, report.results.len()), (2 * cases.len(), 2 * cases.len()), "{config}");
    }
}

#[test]
fn what_is_not_built_is_named_and_never_passes() {
    let mut cases = load(&golden(), Some("write_small"), Roles::Responder).unwrap();
    type Change = fn(&mut Case);
    let changes: [(Change, &str); 3] = [
        (|case| case.work.verb = "FLUSH".into(), "verb FLUSH"),
        (|case| case.service = "XRC".into(), "service XRC"),
        (|case| case.logged.responder.push("a write_small slept 5 s".into()), "`a write_small slept 5 s`"),
    ];
    for (change, missing) in changes {
        let good = cases[0].case.clone();
        change(&mut cases[0].case);
        let mut report = Report::default();
        play_all(&cases, "generic-8b", &mut report, |_, _| {}).unwrap();
        assert_eq!((report.passed, report.failed, report.unsupported), (0, 0, 1));
        assert!(report.results[0].missing.as_ref().unwrap().contains(missing), "{:?}", report.results[0]);
        cases[0].case = good;
    }
}

#[test]
fn a_wrong_number_in_an_answer_is_found() {
    let (case, mut trace) = one("write_multi", Role::Responder);
    let ack = trace.frames.iter_mut().find(|frame| frame.of_card).unwrap();
    let mut frame = Frame::parse(&ack.bytes).unwrap();
    frame.bth.psn ^= 1;
    frame.ext.aeth.as_mut().unwrap().msn += 1;
    let bytes = encoded(&frame).unwrap();
    ack.bytes = bytes;
    let found = differences(&case, &trace, Role::Responder);
    assert_found(&found, in_frame, "bth.psn");
    assert_found(&found, in_frame, "aeth.msn");
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[test]
fn a_wrong_byte_of_payload_is_found_at_either_end() {
    for (role, place) in [(Role::Responder, in_memory as fn(&Place) -> bool), (Role::Requester, in_frame)] {
        let (case, mut trace) = one("write_multi", role);
        let request = &mut trace.frames[1];
        let frame = Frame::parse(&request.bytes).unwrap();
        let mut payload = frame.payload.to_vec();
        payload[700] ^= 0x40;
        let frame = Frame { payload: &payload, ..frame };
        let bytes = encoded(&frame).unwrap();
        request.bytes = bytes;
        let found = differences(&case, &trace, role);
        match role {
            Role::Responder => {
                assert_found(&found, place, "head");
                assert_found(&found, place, "byte 1727");
            }
            Role::Requester => {
                assert_found(&found, place, "payload byte 700, 1 in all");
                assert_eq!(found.len(), 1, "{found:#?}");
            }
        }
    }
}

#[test]
fn a_corrupted_request_has_no_effect_and_no_answer() {
    let (case, mut trace) = one("write_small", Role::Responder);
    let request = &mut trace.frames[0].bytes;
    *request.last_mut().unwrap() ^= 1;
    let found = differences(&case, &trace, Role::Responder);
    // The card drops it: no ACK, and its memory is as before.
    assert_found(&found, in_frame, "sent");
    assert_found(&found, in_memory, "head");
}

#[test]
fn frames_too_few_or_too_many_are_found() {
    let (case, trace) = one("write_batch", Role::Responder);
    let mut more = trace.clone();
    more.frames.push(more.frames.last().unwrap().clone());
    let found = differences(&case, &more, Role::Responder);
    assert_found(&found, in_frame, "sent");
    assert_eq!(found[0].got, "nothing");
    let mut less = trace;
    less.frames.pop();
    let found = differences(&case, &less, Role::Responder);
    assert_eq!((&found[0].expected[..], found.len()), ("nothing more", 1), "{found:#?}");
}

#[test]
fn another_sum_status_length_or_number_of_completions_is_found() {
    let (case, trace) = one("write_small", Role::Requester);
    let line = |at: usize, from: &str, to: &str| {
        let mut case = case.clone();
        assert!(case.logged.requester[at].contains(from));
        case.logged.requester[at] = case.logged.requester[at].replace(from, to);
        differences(&case, &trace, Role::Requester)
    };
    assert_found(&line(0, "success(0)", "remote access error(10)"), in_completion, "status");
    assert_found(&line(0, "opcode=1", "opcode=2"), in_completion, "opcode");
    assert_found(&line(0, "len=5", "len=6"), in_completion, "byte_len");
    assert_found(&line(1, "sum=f7", "sum=f8"), in_memory, "local sum");
    assert_found(&line(1, "u64=34", "u64=35"), in_memory, "first 8 bytes");
    let mut twice = case.clone();
    twice.logged.requester.insert(0, twice.logged.requester[0].clone());
    assert_found(&differences(&twice, &trace, Role::Requester), in_completion, "number of completions");
    let mut none = case.clone();
    none.logged.requester.remove(0);
    assert_found(&differences(&none, &trace, Role::Requester), in_completion, "number of completions");
}

#[test]
fn a_case_of_another_address_or_mtu_than_its_frames_is_found() {
    let (case, trace) = one("write_multi", Role::Requester);
    let mut other = case.clone();
    other.traffic_class ^= 4;
    assert_found(&differences(&other, &trace, Role::Requester), in_frame, "ipv4.dscp");
    let mut other = case.clone();
    other.responder.mac[5] ^= 1;
    assert_found(&differences(&other, &trace, Role::Requester), in_frame, "eth.dst");
    let mut other = case.clone();
    other.path_mtu = ferrowire::PathMtu::B512;
    assert_found(&differences(&other, &trace, Role::Requester), in_frame, "payload");
}

#[test]
fn ipv6_and_vlan_cases_are_played_too() {
    // The conversation of the IPv4 case, as it would be over IPv6 and with a tag: the same code reads those captures.
    for role in [Role::Responder, Role::Requester] {
        for (v6, tag) in [(true, None), (false, Some(0x6005)), (true, Some(0x6005))] {
            let (mut case, mut trace) = one("write_multi", role);
            if v6 {
                case.requester.ip = "fd00::2".parse().unwrap();
                case.responder.ip = "fd00::1".parse().unwrap();
            }
            case.vlan_tci = tag;
            for frame in &mut trace.frames {
                frame.bytes = translated(&frame.bytes, &case, v6);
            }
            let found = differences(&case, &trace, role);
            assert!(found.is_empty(), "{role}, IPv6 {v6}, tag {tag:?}: {found:#?}");
        }
    }
}

/// A captured frame with other headers of link and network, and the ICRC that follows.
fn translated(bytes: &[u8], case: &Case, v6: bool) -> Vec<u8> {
    use ferrowire_spec::wire::{Ip, Ipv4, Ipv6, Vlan};
    let mut frame = Frame::parse(bytes).unwrap();
    let Ip::V4(Ipv4 { src, .. }) = frame.ip else { panic!("an IPv4 capture") };
    let (from, to) = if src == 0x0a00_0002 {
        (&case.requester, &case.responder)
    } else {
        (&case.responder, &case.requester)
    };
    if v6 {
        let number = |ip: std::net::IpAddr| match ip {
            std::net::IpAddr::V6(ip) => u128::from(ip),
            std::net::IpAddr::V4(ip) => panic!("{ip}"),
        };
        frame.ip = Ip::V6(Ipv6 {
            dscp: case.traffic_class >> 2,
            ecn: case.traffic_class & 3,
            hop_limit: case.hop_limit,
            src: number(from.ip),
            dst: number(to.ip),
            ..Ipv6::default()
        });
    }
    frame.vlan = case.vlan_tci.map(|tci| Vlan {
        pcp: (tci >> 13) as u8,
        dei: tci >> 12 & 1 == 1,
        vid: tci & 0xfff,
        ..Vlan::default()
    });
    frame.seal().unwrap();
    encoded(&frame).unwrap()
}
