// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selective retransmission, a rule of its contract a test.

use ferrowire_spec::csr::DropReason;
use ferrowire_spec::wire::{Bth, Report};

use super::super::counters::SelectiveCounters;
use super::super::flow::{Flow, Loss, Place};
use super::super::types::SendWr;
use super::*;

const OPTIONS: fn() -> Options = || Options { selective: true, depth: 8, ..Options::default() };

fn pair() -> Pair {
    Pair::with(OPTIONS())
}

/// WRITEs of 8 bytes with these numbers, posted at `a`.
fn writes(p: &mut Pair, numbers: std::ops::Range<u64>) {
    let (va, key) = (p.b.va, p.b.key);
    for i in numbers {
        let at = 8 * (i % 1024);
        p.a.engine.post_send(p.a.qpn, SendWr::write(i, &[p.a.sge(at, 8)], va + at, key)).unwrap();
    }
}

fn read(p: &mut Pair, number: u64, at: u64, len: usize) {
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::read(number, &[p.a.sge(at, len)], va + at, key)).unwrap();
}

fn bths(frames: &[Vec<u8>]) -> Vec<Bth> {
    frames.iter().map(|frame| Frame::parse(frame).unwrap().bth).collect()
}

/// PSN, `MigReq`, distance.
fn marks(frames: &[Vec<u8>]) -> Vec<(u32, bool, u8)> {
    bths(frames).iter().map(|bth| (bth.psn, bth.migreq, bth.resv7)).collect()
}

fn reports(frames: &[Vec<u8>]) -> Vec<Report> {
    frames.iter().filter_map(|frame| Frame::parse(frame).unwrap().ext.report).collect()
}

/// Base, heard, lost.
fn said(frames: &[Vec<u8>]) -> Vec<(u32, u16, u16)> {
    reports(frames).iter().map(|report| (report.base, report.heard, report.lost)).collect()
}

fn counted(end: &End) -> SelectiveCounters {
    end.engine.counters().selective()
}

fn set(end: &mut End, at: Instant) {
    end.engine.handle_timeout(at);
}

#[test]
fn only_an_engine_with_the_feature_takes_the_attribute() {
    let mut p = Pair::with(OPTIONS());
    let options = Options::default();
    let mut end = end(1, &options);
    let mut steps = steps(1, 0x10, &options);
    end.engine.modify_qp(end.qpn, &steps[0]).unwrap();
    steps[1].selective = Some(true);
    let refused = end.engine.modify_qp(end.qpn, &steps[1]);
    assert_eq!(refused, Err(super::super::types::Error::BadAttribute("selective")));
    steps[1].selective = Some(false);
    end.engine.modify_qp(end.qpn, &steps[1]).unwrap();
    // Later it cannot be changed.
    let late = QpAttr { selective: Some(false), ..QpAttr::to(QpState::Rts) };
    assert!(p.a.engine.modify_qp(p.a.qpn, &late).is_err());
}

/// A report to a queue pair of `a`, as `b` would send it.
fn made_up(p: &mut Pair, report: Report) -> Vec<u8> {
    let frame = |bth: Bth| {
        let mut frame = Frame {
            eth: ferrowire_spec::wire::Eth { dst: 1, src: 2, ..Default::default() },
            udp: ferrowire_spec::wire::Udp { sport: 0xc000, ..Default::default() },
            bth,
            ext: ferrowire_spec::wire::Extensions { report: Some(report), ..Default::default() },
            ..Frame::default()
        };
        if let ferrowire_spec::wire::Ip::V4(ip) = &mut frame.ip {
            (ip.src, ip.dst) = (0x0a00_0002, 0x0a00_0001);
        }
        frame.seal().unwrap();
        let mut bytes = vec![0; frame.len()];
        frame.emit(&mut bytes).unwrap();
        bytes
    };
    let (destqp, psn) = (p.a.qpn, report.base);
    frame(Bth { opcode: Opcode::RcReport as u8, destqp, psn, ..Bth::default() })
}

#[test]
fn without_agreement_a_report_is_a_reserved_opcode() {
    for feature in [false, true] {
        let mut p = Pair::new();
        p.a.engine.config_mut().selective = feature;
        writes(&mut p, 0..2);
        p.a_sends();
        let report = Report { base: 0x100, heard: 2, lost: 2, ..Report::default() };
        let frame = made_up(&mut p, report);
        p.a_gets(&[frame]);
        assert_eq!(p.a.engine.dropped(DropReason::ReservedOpcode), 1);
        assert_eq!(counted(&p.a).reports_dropped, u64::from(feature));
        assert_eq!(p.a_sends().len(), 0);
    }
}

#[test]
fn without_agreement_the_header_means_what_it_always_did() {
    let mut p = Pair::new();
    (p.a.engine.config_mut().selective, p.b.engine.config_mut().selective) = (true, true);
    writes(&mut p, 0..1);
    read(&mut p, 1, 0, 600);
    let asked = p.a_sends();
    assert!(bths(&asked).iter().all(|bth| bth.migreq && bth.resv7 == 0));
    let odd: Vec<_> =
        asked.iter().map(|frame| changed(frame, |f| (f.bth.migreq, f.bth.resv7) = (false, 99))).collect();
    p.b_gets(&odd);
    let answers = p.b_sends();
    assert!(bths(&answers).iter().all(|bth| bth.migreq && bth.resv7 == 0));
    let odd: Vec<_> =
        answers.iter().map(|frame| changed(frame, |f| (f.bth.migreq, f.bth.resv7) = (false, 99))).collect();
    p.a_gets(&odd);
    assert_eq!(p.a.all_done(), [ok(0), ok(1)]);
}

#[test]
fn a_packet_after_a_gap_is_kept_and_nothing_of_it_happens_before_its_turn() {
    let mut p = pair();
    p.a.fill(0, &[7; 64]);
    writes(&mut p, 0..4);
    let frames = p.a_sends();
    p.b_gets(&frames[..1]);
    let before = p.b.bytes(8, 24);
    p.b_gets(&[frames[2].clone(), frames[3].clone(), frames[2].clone()]);
    assert_eq!(p.b.bytes(8, 24), before);
    assert_eq!((counted(&p.b).kept, p.b.engine.dropped(DropReason::Sequence)), (2, 1), "a copy is dropped");
    assert_eq!(packets(&p.b_sends()), [(Opcode::RcAcknowledge, 0x100)]);
    p.b_gets(&frames[1..2]);
    assert_eq!(p.b.bytes(8, 24), [7; 24]);
    let answers = p.b_sends();
    assert_eq!(aeth(answers.last().unwrap()), (0x103, 0x1f, 4));
    p.a_gets(&answers);
    assert_eq!(p.a.all_done(), [0, 1, 2, 3].map(ok));
}

#[test]
fn a_flow_knows_where_a_packet_lies() {
    // Also across the wrap of PSNs.
    for base in [0x100, 0xff_fff0, 0] {
        let mut flow = Flow::default();
        flow.move_to(Psn::new(base));
        let at = |n: i32| Psn::new(base.wrapping_add_signed(n) & 0xff_ffff);
        assert_eq!(flow.place(at(-1), at(-1)), Place::Duplicate);
        assert_eq!(flow.place(at(-5), at(-1)), Place::Duplicate);
        assert_eq!(flow.place(at(-5), at(0)), Place::Next);
        assert_eq!(flow.place(at(0), at(9)), Place::Next);
        assert_eq!(flow.place(at(1), at(1)), Place::Early);
        assert_eq!(flow.place(at(255), at(999)), Place::Early);
        assert_eq!(flow.place(at(256), at(256)), Place::Beyond);
        flow.keep(0, at(2), at(5), b"2");
        flow.keep(0, at(7), at(7), b"7");
        flow.keep(0, at(1), at(1), b"1");
        assert_eq!(flow.place(at(2), at(2)), Place::Copy);
        assert_eq!(flow.place(at(3), at(3)), Place::Early, "covered, and no copy");
        assert_eq!(flow.missing(flow.heard()), [at(0), at(6)]);
        assert_eq!((flow.heard(), flow.bytes), (8, 3));
        flow.pass(5, at(0), true);
        assert_eq!(flow.take(5).as_deref(), Some(&b"1"[..]));
        assert_eq!(flow.take(5).as_deref(), Some(&b"2"[..]));
        assert_eq!((flow.take(5), flow.base), (None, at(6)));
        flow.pass(6, at(6), true);
        assert_eq!(flow.take(6).as_deref(), Some(&b"7"[..]));
        assert_eq!((flow.base, flow.keeps(), flow.bytes), (at(8), false, 0));
        // What lies before `base` when its turn comes has been handed on.
        flow.keep(7, at(10), at(10), b"x");
        flow.pass(7, at(20), true);
        assert_eq!((flow.take(7), flow.bytes), (None, 0));
    }
}

#[test]
fn the_tolerance_is_halved_by_repetitions_and_is_32_again_when_one_was_not_needed() {
    let mut flow = Flow::default();
    let mut next = 0;
    // One PSN is missing, and a packet fills it.
    let mut fill = |flow: &mut Flow, first_time: bool| {
        let at = Psn::new(next);
        flow.keep(0, at.next(), at.next(), b"x");
        flow.pass(0, at, first_time);
        assert!(flow.take(0).is_some());
        next += 2;
        flow.tolerance
    };
    assert_eq!([(); 6].map(|()| fill(&mut flow, false)), [16, 8, 4, 2, 2, 2]);
    assert_eq!(fill(&mut flow, true), 32);
    assert_eq!(fill(&mut flow, false), 16);
    flow.pass_duplicate(0, false);
    assert_eq!(flow.tolerance, 16);
    flow.pass_duplicate(0, true);
    assert_eq!(flow.tolerance, 32);
    let base = flow.base;
    flow.pass(0, base, false);
    assert_eq!(flow.tolerance, 32, "there was no gap");
}

#[test]
fn psns_are_lost_when_as_many_kept_packets_as_the_tolerance_begin_after_them() {
    let mut flow = Flow::default();
    // 0 and 10 are missing.
    for at in (1..10).chain(11..34) {
        flow.keep(0, Psn::new(at), Psn::new(at), b"");
        let due = flow.report_is_due(false);
        assert_eq!(due.is_some(), at == 33, "{at}");
    }
    assert_eq!(flow.lost(Loss::Tolerated), 1, "the first one only");
    let mut due = Vec::new();
    for at in 34..60 {
        flow.keep(0, Psn::new(at), Psn::new(at), b"");
        due.extend(flow.report_is_due(false).map(|_| at));
    }
    // The second one is lost with the 32nd packet after it; else every eighth packet.
    assert_eq!(due, [41, 42, 50, 58]);
    assert_eq!((flow.heard(), flow.lost(Loss::All)), (60, 60));
    let report = flow.report(Loss::Tolerated).unwrap();
    assert_eq!((report.version, report.base, report.heard, report.lost), (1, 0, 60, 28));
    assert!((0..256).all(|psn| report.has(psn) == (psn < 60 && psn != 0 && psn != 10)));
}

#[test]
fn a_repetition_that_leaves_packets_kept_is_reported_at_once_and_then_every_eighth() {
    let mut flow = Flow::default();
    for at in [2, 4] {
        flow.keep(0, Psn::new(at), Psn::new(at), b"");
        assert_eq!(flow.report_is_due(false), None);
    }
    flow.pass(0, Psn::new(0), false);
    let due: Vec<_> = (0..18).map(|_| flow.report_is_due(true)).collect();
    assert!((0..18).all(|at| due[at] == (at % 8 == 0).then_some(Loss::All)), "{due:?}");
    // The gap is filled: another `base`.
    flow.pass(0, Psn::new(1), false);
    flow.take(0);
    assert_eq!(flow.base, Psn::new(3));
    assert_eq!(flow.report_is_due(true), Some(Loss::All));
}

/// `b` gets all of `count` WRITEs but some.
fn lose(p: &mut Pair, count: u64, lost: &[usize]) -> Vec<Vec<u8>> {
    writes(p, 0..count);
    let frames = p.a_sends();
    for (at, frame) in frames.iter().enumerate() {
        if !lost.contains(&at) {
            p.b_gets(std::slice::from_ref(frame));
        }
    }
    frames
}

#[test]
fn only_what_is_missing_is_sent_again() {
    let mut p = pair();
    let frames = lose(&mut p, 60, &[3, 9, 50]);
    let answers = p.b_sends();
    assert_eq!(said(&answers), [(0x103, 57, 24)]);
    p.a_gets(&answers);
    let again = p.a_sends();
    assert_eq!(marks(&again), [(0x103, false, 0), (0x109, false, 0)]);
    assert!(bths(&again).iter().all(|bth| bth.ackreq));
    let body = |frame: &[u8]| Frame::parse(frame).unwrap().ext;
    assert_eq!(body(&again[0]), body(&frames[3]), "the same packet");
    p.b_gets(&again);
    let answers = p.b_sends();
    // A repetition filled the gap, and 50 is missing: no tolerance any more.
    assert_eq!(said(&answers), [(0x132, 10, 10)]);
    p.a_gets(&answers);
    let again = p.a_sends();
    assert_eq!(marks(&again), [(0x132, false, 0)]);
    p.b_gets(&again);
    p.run();
    assert_eq!(p.a.all_done(), (0..60).map(ok).collect::<Vec<_>>());
    let a = counted(&p.a);
    assert_eq!((a.repeats, a.reports_received, a.reports_dropped, a.probes), (3, 2, 0, 0));
    assert_eq!((counted(&p.b).reports_sent, counted(&p.b).kept), (2, 54));
    assert_eq!(p.a.engine.counters().hw(ferrowire_spec::csr::HwCounter::Retransmitted), 3);
}

#[test]
fn what_was_sent_again_is_sent_once_more_only_with_proof_and_not_within_a_quarter() {
    let mut p = pair();
    lose(&mut p, 40, &[0]);
    let answers = p.b_sends();
    p.a_gets(&answers);
    assert_eq!(marks(&p.a_sends()), [(0x100, false, 0)]);
    // The same report again, long after: no proof.
    p.now = 10_000;
    p.a_gets(&answers);
    assert_eq!(p.a_sends().len(), 0);
    // Of packets that were sent for the first time after the repetition: proof.
    writes(&mut p, 40..48);
    let frames = p.a_sends();
    assert!(bths(&frames).iter().all(|bth| bth.migreq));
    p.b_gets(&frames);
    let answers = p.b_sends();
    assert_eq!(said(&answers), [(0x100, 48, 16)]);
    p.a_gets(&answers);
    assert_eq!(marks(&p.a_sends()), [(0x100, false, 0)]);
    // Proof again, but too early, and then late enough.
    writes(&mut p, 48..56);
    let frames = p.a_sends();
    p.b_gets(&frames);
    let answers = p.b_sends();
    p.now += 3_999;
    p.a_gets(&answers);
    assert_eq!(p.a_sends().len(), 0);
    p.now += 1;
    p.a_gets(&answers);
    assert_eq!(marks(&p.a_sends()), [(0x100, false, 0)]);
}

#[test]
fn what_is_acknowledged_is_not_sent_any_more() {
    let mut p = pair();
    let frames = lose(&mut p, 40, &[0]);
    let answers = p.b_sends();
    // It was only late.
    p.b_gets(&frames[..1]);
    let acks = p.b_sends();
    p.a_gets(&answers);
    p.a_gets(&acks);
    assert_eq!((p.a_sends().len(), p.a.all_done().len()), (0, 40));
    // A report of what is acknowledged says nothing, and is none of the bad ones.
    p.a_gets(&answers);
    assert_eq!((p.a_sends().len(), counted(&p.a).reports_dropped), (0, 0));
}

#[test]
fn reports_that_make_no_sense_are_dropped_and_counted() {
    let mut p = pair();
    writes(&mut p, 0..10);
    p.a_sends();
    let good = Report { base: 0x100, heard: 10, lost: 5, ..Report::default() };
    let bad = [
        Report { version: 0, ..good },
        Report { version: 2, ..good },
        Report { heard: 1, lost: 1, ..good },
        Report { heard: 0, lost: 0, ..good },
        Report { heard: 257, ..good },
        Report { lost: 11, ..good },
        Report { heard: 11, ..good },
        Report { base: 0x109, heard: 2, lost: 1, ..good },
        Report { base: 0x10a, heard: 2, lost: 1, ..good },
        Report { base: 0x7f_ffff, heard: 2, lost: 1, ..good },
    ];
    for (at, report) in bad.into_iter().enumerate() {
        let frame = made_up(&mut p, report);
        p.a_gets(&[frame]);
        assert_eq!((p.a_sends().len(), counted(&p.a).reports_dropped), (0, at as u64 + 1), "{report:?}");
    }
    let frame = made_up(&mut p, Report { base: 0xff, heard: 3, lost: 3, ..good });
    p.a_gets(&[frame]);
    assert_eq!((p.a_sends().len(), counted(&p.a).reports_dropped), (0, 10), "acknowledged");
    let good = made_up(&mut p, good);
    let foreign = changed(&good, |frame| {
        if let ferrowire_spec::wire::Ip::V4(ip) = &mut frame.ip {
            ip.src += 1;
        }
    });
    p.a_gets(&[foreign]);
    assert_eq!((p.a_sends().len(), counted(&p.a).reports_dropped), (0, 11), "not of the peer");
    p.a_gets(&[good]);
    assert_eq!(p.a_sends().len(), 5);
    assert_eq!(p.a.state(), QpState::Rts);
}

#[test]
fn the_window_is_what_a_receiver_keeps() {
    for (mtu, window) in [(256, 176), (1024, 176), (2048, 96), (4096, 52)] {
        let mut p = Pair::with(Options { mtu, ..OPTIONS() });
        let (va, key) = (p.b.va, p.b.key);
        // A long message first, then short ones.
        p.a.engine.post_send(p.a.qpn, SendWr::write(0, &[p.a.sge(0, AREA as usize)], va, key)).unwrap();
        for i in 1..=255 {
            p.a.engine.post_send(p.a.qpn, SendWr::write(i, &[p.a.sge(0, 8)], va, key)).unwrap();
        }
        let frames = p.a_sends();
        assert_eq!(frames.len(), window, "{mtu}");
        // Acknowledgements are asked for long before it is full.
        assert!(bths(&frames[..window / 4]).iter().any(|bth| bth.ackreq));
        p.b_gets(&frames[..(AREA as usize / mtu).min(window)]);
        let answers = p.b_sends();
        p.a_gets(&answers);
        assert!(!p.a_sends().is_empty());
        p.run();
    }
    // Of a message of more packets than the window.
    let mut p = Pair::with(OPTIONS());
    let sges = [p.a.sge(0, AREA as usize); 8];
    let attr = RegionAttr { pd: PD, base: 0x20_0000, va: 0, len: 8 * AREA, rights: Rights::ALL, page: 1 };
    p.b.engine.memory_mut().map(0x20_0000, vec![0; 8 * AREA as usize]);
    let key = p.b.engine.register(attr, None).unwrap();
    p.a.engine.post_send(p.a.qpn, SendWr::write(0, &sges, 0, key)).unwrap();
    assert_eq!(p.a_sends().len(), 176);
}

#[test]
fn the_distance_is_the_number_of_psns_between_two_reads_up_to_127() {
    for (between, holds) in [(0, false), (1, false), (127, false), (128, true)] {
        let mut p = pair();
        // Three responses, and then a READ that is answered completely before.
        read(&mut p, 900, 0, 600);
        p.run();
        writes(&mut p, 0..3);
        read(&mut p, 901, 0, 600);
        writes(&mut p, 0..between);
        read(&mut p, 902, 1024, 8);
        let frames = p.a_sends();
        let reads: Vec<Bth> =
            bths(&frames).into_iter().filter(|bth| bth.opcode == Opcode::RcReadRequest as u8).collect();
        let second = (0x103 + 3 + 3 + between as u32, between as u8);
        let wanted = if holds { vec![(0x106, 0)] } else { vec![(0x106, 0), second] };
        let found: Vec<_> = reads.iter().map(|bth| (bth.psn, bth.resv7)).collect();
        assert_eq!(found, wanted, "{between}");
        p.b_gets(&frames);
        let answers = p.b_sends();
        let told: Vec<u8> = bths(&answers)
            .into_iter()
            .filter(|bth| bth.opcode != Opcode::RcAcknowledge as u8)
            .map(|bth| bth.resv7)
            .collect();
        let only = if holds { &[][..] } else { &[between as u8][..] };
        assert_eq!(told, [&[0, 0, 0][..], only].concat(), "FIRST and ONLY have it");
        p.a_gets(&answers);
        if holds {
            // When all are answered, it begins anew.
            let frames = p.a_sends();
            let read = bths(&frames).into_iter().find(|bth| bth.opcode == Opcode::RcReadRequest as u8);
            assert_eq!(read.map(|bth| (bth.psn, bth.resv7)), Some((second.0, 0)));
            p.b_gets(&frames);
        }
        p.run();
        assert_eq!(p.a.all_done().len(), between as usize + 3 + 3);
        assert_eq!(counted(&p.a).kept, 0);
    }
}

#[test]
fn missing_responses_are_asked_for_one_by_one() {
    let mut p = pair();
    read(&mut p, 1, 0, 40 * MTU);
    let answers = p.answers();
    assert!(marks(&answers).iter().all(|mark| mark.1 && mark.2 == 0));
    for (at, frame) in answers.iter().enumerate() {
        if ![2, 5].contains(&at) {
            p.a_gets(std::slice::from_ref(frame));
        }
    }
    let asked = p.a_sends();
    assert_eq!(marks(&asked), [(0x102, false, 0), (0x105, false, 0)]);
    let reths: Vec<_> = asked.iter().map(|frame| Frame::parse(frame).unwrap().ext.reth.unwrap()).collect();
    assert_eq!(reths.iter().map(|r| (r.va - p.b.va, r.len)).collect::<Vec<_>>(), [(512, 256), (1280, 256)]);
    p.b_gets(&asked);
    let again = p.b_sends();
    assert_eq!(packets(&again), [(Opcode::RcReadResponseOnly, 0x102), (Opcode::RcReadResponseOnly, 0x105)]);
    assert_eq!(marks(&again), [(0x102, false, 0), (0x105, false, 0)], "as in the request");
    p.a_gets(&again);
    assert_eq!(p.a.all_done(), [ok(1)]);
    assert_eq!(p.a.bytes(0, 40 * MTU), p.b.bytes(0, 40 * MTU));
    assert_eq!((counted(&p.a).repeats, p.a.engine.counters().selective().kept), (2, 36));
}

#[test]
fn a_response_is_lost_once_more_when_that_to_a_later_request_has_come() {
    let mut p = pair();
    read(&mut p, 1, 0, 40 * MTU);
    let answers = p.answers();
    for (at, frame) in answers.iter().enumerate() {
        if ![2, 5, 7].contains(&at) {
            p.a_gets(std::slice::from_ref(frame));
        }
    }
    let asked = p.a_sends();
    assert_eq!(asked.len(), 3);
    p.b_gets(&asked);
    let again = p.b_sends();
    p.now = 4_000;
    // A late copy of a response proves nothing.
    p.a_gets(&answers[..1]);
    assert_eq!(p.a_sends().len(), 0);
    // Of the three responses the first is lost.
    p.a_gets(&again[1..2]);
    for frame in &answers[30..38] {
        p.a_gets(std::slice::from_ref(frame));
    }
    assert_eq!(marks(&p.a_sends()), [(0x102, false, 0)]);
}

#[test]
fn a_lost_atomic_response_is_asked_for_with_the_same_atomic() {
    let mut p = pair();
    p.b.fill(0, &5u64.to_le_bytes());
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::fetch_add(0, p.a.sge(8, 8), va, key, 3)).unwrap();
    read(&mut p, 1, 1024, 40 * MTU);
    let answers = p.answers();
    p.a_gets(&answers[1..]);
    let asked = p.a_sends();
    assert_eq!(packets(&asked), [(Opcode::RcFetchAdd, 0x100)]);
    assert_eq!(marks(&asked), [(0x100, false, 0)]);
    p.b_gets(&asked);
    let again = p.b_sends();
    assert_eq!(marks(&again), [(0x100, false, 0)]);
    p.a_gets(&again);
    assert_eq!(p.a.all_done(), [ok(0), ok(1)]);
    assert_eq!((p.b.bytes(0, 8), p.a.bytes(8, 8)), (8u64.to_le_bytes().into(), 5u64.to_le_bytes().into()));
}

#[test]
fn duplicate_reads_of_one_packet_are_answered_before_all_that_is_pending() {
    let mut p = pair();
    read(&mut p, 1, 0, 10 * MTU);
    read(&mut p, 2, 4096, 2 * MTU);
    let asked = p.a_sends();
    p.b_gets(&asked);
    let begun: Vec<_> = (0..5).map(|_| p.b.engine.poll_transmit(0).unwrap()).collect();
    assert_eq!(packets(&begun)[4], (Opcode::RcReadResponseMiddle, 0x104));
    let again = |psn: u32, count: usize| {
        changed(&asked[0], |frame| {
            (frame.bth.psn, frame.bth.migreq) = (psn, false);
            let reth = frame.ext.reth.as_mut().unwrap();
            (reth.va, reth.len) = (reth.va + u64::from(psn - 0x100) * MTU as u64, (count * MTU) as u32);
        })
    };
    // A duplicate of many packets comes after what is pending, and what is pending need not be asked for again.
    let second = changed(&asked[1], |frame| frame.bth.migreq = false);
    p.b_gets(&[again(0x104, 6), again(0x103, 1), again(0x101, 1), again(0x105, 1), again(0x106, 4), second]);
    let answers = p.b_sends();
    let psns: Vec<u32> = bths(&answers).iter().map(|bth| bth.psn).collect();
    let pending = (0x105..=0x10b).chain(0x104..=0x109);
    assert_eq!(psns, [0x103, 0x101].into_iter().chain(pending).collect::<Vec<_>>());
    assert_eq!(packets(&answers)[0].0, Opcode::RcReadResponseOnly);
}

#[test]
fn an_acknowledgement_after_a_missing_response_counts_when_that_has_come() {
    let mut p = pair();
    writes(&mut p, 0..1);
    read(&mut p, 1, 0, 8);
    writes(&mut p, 2..4);
    let answers = p.answers();
    assert_eq!(packets(&answers)[1].0, Opcode::RcReadResponseOnly);
    p.a_gets(&answers[2..]);
    assert_eq!(p.a.all_done(), [ok(0)], "what is before the READ");
    assert_eq!(p.a_sends().len(), 0, "and it does not go back");
    p.a_gets(&answers[1..2]);
    assert_eq!(p.a.all_done(), [ok(1), ok(2), ok(3)]);
}

#[test]
fn a_nak_after_a_missing_response_counts_when_that_has_come() {
    let mut p = pair();
    read(&mut p, 0, 0, 8);
    let va = p.b.va;
    p.a.engine.post_send(p.a.qpn, SendWr::write(1, &[p.a.sge(0, 8)], va, 0xdead)).unwrap();
    let answers = p.answers();
    p.a_gets(&answers[1..]);
    assert_eq!((p.a.all_done(), p.a.state()), (vec![], QpState::Rts));
    p.a_gets(&answers[..1]);
    assert_eq!(p.a.all_done(), [ok(0), (1, WcStatus::RemAccessErr)]);
}

#[test]
fn the_oldest_packet_is_sent_again_as_a_probe_after_twice_the_time_each_time() {
    let mut p = pair();
    writes(&mut p, 0..3);
    p.a_sends();
    for wait in [16_000, 32_000, 64_000, 128_000] {
        assert_eq!(p.wait(), Some(wait));
        let probe = p.a_sends();
        assert_eq!(marks(&probe), [(0x100, false, 0)]);
        assert!(bths(&probe)[0].ackreq);
    }
    assert_eq!(counted(&p.a).probes, 4);
    // The time-out of the specification is where it was: 4.2 ms after the first packet.
    let all = loop {
        p.wait();
        let sent = p.a_sends();
        if sent.len() > 1 {
            break sent;
        }
    };
    assert_eq!(p.now, 4_194_304);
    assert_eq!(marks(&all), [(0x100, false, 0), (0x101, false, 0), (0x102, false, 0)]);
    p.b_gets(&all);
    p.run();
    assert_eq!(p.a.all_done(), [0, 1, 2].map(ok));
}

#[test]
fn a_probe_of_a_read_asks_for_all_from_the_first_missing_response_on() {
    let mut p = pair();
    read(&mut p, 0, 0, 5 * MTU);
    let answers = p.answers();
    p.a_gets(&answers[..2]);
    p.a_gets(&answers[3..4]);
    p.wait();
    let probe = p.a_sends();
    assert_eq!(marks(&probe), [(0x102, false, 0)]);
    let reth = Frame::parse(&probe[0]).unwrap().ext.reth.unwrap();
    assert_eq!((reth.va, reth.len), (p.b.va + 512, 3 * MTU as u32));
    p.b_gets(&probe);
    let answers = p.b_sends();
    assert!(marks(&answers).iter().all(|mark| !mark.1));
    p.a_gets(&answers);
    assert_eq!(p.a.all_done(), [ok(0)]);
    assert_eq!(p.a.bytes(0, 5 * MTU), p.b.bytes(0, 5 * MTU));
}

#[test]
fn a_repetition_starts_no_time_out_and_is_no_retry() {
    let mut p = Pair::with(Options { retries: 0, ..OPTIONS() });
    lose(&mut p, 40, &[0, 1]);
    let answers = p.b_sends();
    p.now = 5_000;
    p.a_gets(&answers);
    let again = p.a_sends();
    assert_eq!(again.len(), 2);
    p.b_gets(&again);
    p.run();
    assert_eq!(p.a.all_done().len(), 40);
}

#[test]
fn after_an_rnr_nak_there_is_neither_probe_nor_repetition_and_all_goes_again() {
    let mut p = pair();
    p.a.engine.post_send(p.a.qpn, SendWr::send(0, &[p.a.sge(0, 8)])).unwrap();
    writes(&mut p, 1..3);
    let frames = p.a_sends();
    p.b_gets(&[frames[0].clone(), frames[2].clone()]);
    let answers = p.b_sends();
    assert_eq!(aeth(&answers[0]), (0x100, 0x20 | 14, 0));
    p.a_gets(&answers);
    let report = made_up(&mut p, Report { base: 0x101, heard: 2, lost: 2, ..Report::default() });
    p.a_gets(&[report]);
    assert_eq!((p.a_sends().len(), counted(&p.a).reports_received), (0, 1));
    p.b.recv(9, 0, 8);
    while p.a_sends().is_empty() {
        assert_eq!(counted(&p.a).probes, 0);
        p.wait();
    }
    assert_eq!(p.now, 1_280_000);
    p.now += 10_000_000;
    set(&mut p.a, p.now);
    let again = p.a_sends();
    assert_eq!(marks(&again), [(0x100, false, 0), (0x101, false, 0), (0x102, false, 0)]);
    p.b_gets(&again);
    p.run();
    assert_eq!(p.a.all_done(), [0, 1, 2].map(ok));
}

#[test]
fn when_it_goes_back_everything_says_that_it_was_sent_before() {
    let mut p = pair();
    writes(&mut p, 0..2);
    read(&mut p, 2, 0, 8);
    writes(&mut p, 3..4);
    p.a_sends();
    while p.now < 4_194_304 {
        p.wait();
        if p.now < 4_194_304 {
            p.a_sends();
        }
    }
    writes(&mut p, 4..5);
    let frames = p.a_sends();
    let wanted =
        [(0x100, false, 0), (0x101, false, 0), (0x102, false, 0), (0x103, false, 0), (0x104, true, 0)];
    assert_eq!(marks(&frames), wanted);
}

#[test]
fn a_flow_takes_no_more_than_its_share_of_the_store() {
    // A frame of these WRITEs is 82 bytes.
    let mut p = Pair::with(Options { reorder_buffer: 800, ..OPTIONS() });
    writes(&mut p, 0..20);
    let frames = p.a_sends();
    let len = frames[0].len() as u64;
    p.b_gets(&frames[1..]);
    let kept = counted(&p.b).kept;
    // The next one is taken as long as what there is is less than seven times what is free, and fits.
    let fits = (0..).take_while(|n| n * len < 7 * (800 - n * len) && len <= 800 - n * len).count() as u64;
    assert_eq!((kept, counted(&p.b).reorder_buffer_full), (fits, 19 - fits));
    p.b_gets(&frames[..1]);
    let answers = p.b_sends();
    assert_eq!(aeth(answers.last().unwrap()).0, 0x100 + fits as u32);
    // All of it is free again.
    p.b_gets(&frames[fits as usize + 2..][..fits as usize]);
    assert_eq!(counted(&p.b).kept, 2 * fits);
}

#[test]
fn what_is_kept_is_given_up_after_a_millisecond_without_progress() {
    let mut p = pair();
    writes(&mut p, 0..4);
    let frames = p.a_sends();
    p.now = 50_000;
    p.b_gets(&frames[2..3]);
    assert_eq!(p.b.engine.poll_timeout(), Some(1_050_000));
    p.now = 500_000;
    p.b_gets(&frames[3..4]);
    assert_eq!(p.b.engine.poll_timeout(), Some(1_050_000));
    p.b_gets(&frames[..1]);
    assert_eq!(p.b.engine.poll_timeout(), Some(1_500_000), "something was handed on");
    set(&mut p.b, 1_500_000);
    p.now = 1_500_000;
    p.b_sends();
    p.b_gets(&frames[1..2]);
    let answers = p.b_sends();
    assert_eq!(aeth(&answers[0]).0, 0x101, "they are missing again");
    p.b_gets(&frames[2..]);
    assert_eq!(aeth(p.b_sends().last().unwrap()).0, 0x103);
}

#[test]
fn what_is_kept_is_given_up_with_the_states_that_take_packets() {
    let mut p = Pair::with(Options { reorder_buffer: 100, ..OPTIONS() });
    writes(&mut p, 0..2);
    let frames = p.a_sends();
    p.b_gets(&frames[1..]);
    assert_eq!(counted(&p.b).kept, 1);
    p.b.engine.modify_qp(p.b.qpn, &QpAttr::to(QpState::Err)).unwrap();
    assert_eq!(p.b.engine.poll_timeout(), None);
    assert_eq!(p.b_sends().len(), 0);
    // The store is empty: another life of the queue pair can fill it.
    p.b.engine.modify_qp(p.b.qpn, &QpAttr::to(QpState::Reset)).unwrap();
    for attr in steps(2, p.a.qpn, &Options { reorder_buffer: 100, ..OPTIONS() }) {
        p.b.engine.modify_qp(p.b.qpn, &attr).unwrap();
    }
    p.b_gets(&frames[1..]);
    assert_eq!(counted(&p.b).kept, 2);
    p.b.engine.destroy_qp(p.b.qpn).unwrap();
}

#[test]
fn packets_that_are_late_by_less_than_32_are_not_sent_again() {
    let mut p = pair();
    read(&mut p, 0, 0, 8);
    writes(&mut p, 1..161);
    let frames = p.a_sends();
    // Each packet of a block of 32 the other way round.
    for block in frames.chunks(32) {
        block.iter().rev().for_each(|frame| p.b_gets(std::slice::from_ref(frame)));
    }
    let answers = p.b_sends();
    assert_eq!(reports(&answers).len(), 0);
    p.a_gets(&answers);
    assert_eq!(p.a.all_done().len(), 161);
    read(&mut p, 0, 0, 60 * MTU);
    let answers = p.answers();
    for block in answers.chunks(32) {
        block.iter().rev().for_each(|frame| p.a_gets(std::slice::from_ref(frame)));
    }
    assert_eq!((p.a.all_done().len(), p.a_sends().len()), (1, 0));
    assert_eq!((counted(&p.a).repeats, counted(&p.b).reports_sent), (0, 0));
}

#[test]
fn a_sack_works_across_the_wrap_of_psns() {
    let options = OPTIONS();
    let (mut a, mut b) = (end(1, &options), end(2, &options));
    for (n, end, peer) in [(1, &mut a, b.qpn), (2, &mut b, 0x10)] {
        for mut attr in steps(n, peer, &options) {
            let start = Some(Psn::new(0xff_fff0));
            attr.rq_psn = attr.rq_psn.and(start);
            attr.sq_psn = attr.sq_psn.and(start);
            end.engine.modify_qp(end.qpn, &attr).unwrap();
        }
    }
    let mut p = Pair { a, b, now: 0 };
    lose(&mut p, 60, &[3, 20]);
    let answers = p.b_sends();
    assert_eq!(said(&answers)[0].0, 0xff_fff3);
    p.a_gets(&answers);
    let again = p.a_sends();
    assert_eq!(marks(&again), [(0xff_fff3, false, 0), (4, false, 0)]);
    p.b_gets(&again);
    p.run();
    assert_eq!(p.a.all_done().len(), 60);
}
