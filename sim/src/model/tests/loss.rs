// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that are lost, come twice or too late, and peers that are not ready.

use ferrowire_spec::csr::DropReason;

use super::super::types::SendWr;
use super::*;

/// `count` WRITEs of 8 bytes, with numbers from 0, posted at `a`.
fn writes(p: &mut Pair, count: u64) {
    let (va, key) = (p.b.va, p.b.key);
    for i in 0..count {
        p.a.engine.post_send(p.a.qpn, SendWr::write(i, &[p.a.sge(8 * i, 8)], va + 8 * i, key)).unwrap();
    }
}

#[test]
fn a_gap_is_answered_with_one_nak_and_then_with_silence() {
    let mut p = Pair::new();
    writes(&mut p, 5);
    let frames = p.a_sends();
    p.b_gets(&frames[..1]);
    p.b_gets(&frames[2..]);
    let answers = p.b_sends();
    assert_eq!((aeth(&answers[0]), aeth(&answers[1])), ((0x100, 0x1f, 1), (0x101, 0x60, 1)));
    assert_eq!(answers.len(), 2);
    p.b_gets(&frames[3..]);
    assert_eq!(p.b_sends().len(), 0);
    p.a_gets(&answers);
    let again = p.a_sends();
    assert_eq!(packets(&again), packets(&frames[1..]));
    p.b_gets(&again);
    p.run();
    assert_eq!(p.a.all_done(), [0, 1, 2, 3, 4].map(ok));
}

#[test]
fn the_same_nak_twice_makes_it_go_back_once() {
    let mut p = Pair::new();
    writes(&mut p, 3);
    let frames = p.a_sends();
    p.b_gets(&frames[1..]);
    let nak = p.b_sends();
    p.a_gets(&nak);
    assert_eq!(p.a_sends().len(), 3);
    p.a_gets(&nak);
    assert_eq!(p.a_sends().len(), 0);
}

#[test]
fn duplicate_sends_and_writes_are_acknowledged_and_not_executed() {
    let mut p = Pair::new();
    p.b.recv(1, 0, 64);
    p.b.recv(2, 64, 64);
    p.a.engine.post_send(p.a.qpn, SendWr::send(0, &[p.a.sge(0, 8)])).unwrap();
    writes(&mut p, 2);
    let frames = p.a_sends();
    p.b_gets(&frames);
    p.b_sends();
    p.b.fill(0, &[0; 64]);
    p.b_gets(&frames[..1]);
    assert_eq!(aeth(&p.b_sends()[0]), (0x102, 0x1f, 3), "the newest");
    p.b_gets(&frames[1..2]);
    assert_eq!(p.b.bytes(0, 64), [0; 64]);
    assert_eq!(p.b.all_done(), [ok(1)]);
}

#[test]
fn a_read_goes_on_where_responses_are_missing_and_is_answered_from_first_on() {
    use Opcode as O;
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::read(1, &[p.a.sge(0, 1200)], va + 8, key)).unwrap();
    let answers = p.answers();
    p.a_gets(&answers[..1]);
    p.a_gets(&answers[2..]);
    let again = p.a_sends();
    assert_eq!(packets(&again), [(O::RcReadRequest, 0x101)], "once, however many responses follow");
    let reth = ferrowire_spec::wire::Frame::parse(&again[0]).unwrap().ext.reth.unwrap();
    assert_eq!((reth.va, reth.len), (va + 8 + 256, 1200 - 256));
    p.b_gets(&again);
    let answers = p.b_sends();
    let kinds: Vec<_> = packets(&answers);
    assert_eq!((kinds[0], kinds[3]), ((O::RcReadResponseFirst, 0x101), (O::RcReadResponseLast, 0x104)));
    p.a_gets(&answers);
    assert_eq!(p.a.all_done(), [ok(1)]);
    assert_eq!(p.a.bytes(0, 1200), p.b.bytes(8, 1200));
}

#[test]
fn the_last_response_of_a_read_alone_is_asked_for_again_and_is_an_only() {
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::read(1, &[p.a.sge(0, 600)], va, key)).unwrap();
    let answers = p.answers();
    p.a_gets(&answers[..2]);
    p.wait();
    let again = p.answers();
    assert_eq!(packets(&again), [(Opcode::RcReadResponseOnly, 0x102)]);
    // The answer to the first request, late: the same data, in another form.
    p.a_gets(&answers[2..]);
    p.a_gets(&again);
    assert_eq!(p.a.all_done(), [ok(1)]);
    assert_eq!(p.a.bytes(0, 600), p.b.bytes(0, 600));
}

#[test]
fn an_acknowledgement_behind_a_missing_answer_is_an_implied_nak() {
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::read(1, &[p.a.sge(0, 8)], va, key)).unwrap();
    p.a.engine.post_send(p.a.qpn, SendWr::fetch_add(2, p.a.sge(8, 8), va, key, 1)).unwrap();
    p.a.engine.post_send(p.a.qpn, SendWr::write(3, &[p.a.sge(0, 8)], va, key)).unwrap();
    let answers = p.answers();
    p.a_gets(&answers[2..]);
    assert_eq!(p.a.all_done(), []);
    assert_eq!(packets(&p.a_sends())[0], (Opcode::RcReadRequest, 0x100));
}

#[test]
fn answers_acknowledge_the_requests_before_them() {
    let mut p = Pair::new();
    writes(&mut p, 2);
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::read(2, &[p.a.sge(0, 8)], va, key)).unwrap();
    let answers = p.answers();
    p.a_gets(&answers[1..]);
    assert_eq!(p.a.all_done(), [ok(0), ok(1), ok(2)]);
}

#[test]
fn a_duplicate_atomic_gets_the_old_answer_and_one_that_is_forgotten_none() {
    let mut p = Pair::new();
    p.b.fill(0, &5u64.to_le_bytes());
    let (va, key) = (p.b.va, p.b.key);
    let mut all = Vec::new();
    for i in 0..3 {
        p.a.engine.post_send(p.a.qpn, SendWr::fetch_add(i, p.a.sge(8 * i, 8), va, key, 1)).unwrap();
        let frames = p.a_sends();
        p.b_gets(&frames);
        let answers = p.b_sends();
        p.a_gets(&answers);
        all.push((frames, answers));
    }
    p.b_gets(&all[2].0);
    let again = p.b_sends();
    let orig = |frame: &[u8]| ferrowire_spec::wire::Frame::parse(frame).unwrap().ext.atomic_ack.unwrap().orig;
    assert_eq!((orig(&again[0]), orig(&all[2].1[0])), (7, 7));
    p.b_gets(&all[0].0);
    assert_eq!(p.b_sends().len(), 0, "two are kept");
    assert_eq!(p.b.engine.dropped(DropReason::DuplicateAtomic), 1);
    assert_eq!(p.b.bytes(0, 8), 8u64.to_le_bytes());
}

#[test]
fn acknowledgements_outside_the_window_are_ghosts() {
    let mut p = Pair::new();
    writes(&mut p, 2);
    let answers = p.answers();
    for psn in [0xff, 0x102, 0x80_0000] {
        for syndrome in [0x1f, 0x60, 0x62, 0x21] {
            let ghost = answer(&p, &answers[0], psn, syndrome, 9);
            p.a_gets(&[ghost]);
        }
    }
    assert_eq!(p.a.engine.dropped(DropReason::GhostAck), 12);
    assert_eq!((p.a.all_done(), p.a.state()), (vec![], QpState::Rts));
    p.a_gets(&answers);
    assert_eq!(p.a.all_done(), [ok(0), ok(1)]);
}

#[test]
fn a_missing_acknowledgement_is_waited_for_as_long_as_the_code_says() {
    for (code, ns) in [(1, 8_192), (10, 4_194_304), (31, 4096 << 31)] {
        let mut p = Pair::with(Options { timeout: code, ..Options::default() });
        writes(&mut p, 1);
        p.a_sends();
        assert_eq!(p.wait(), Some(ns));
        assert_eq!(p.a_sends().len(), 1);
    }
    let mut p = Pair::with(Options { timeout: 0, ..Options::default() });
    writes(&mut p, 1);
    p.a_sends();
    assert_eq!(p.wait(), None, "code 0: for ever");
}

#[test]
fn after_the_last_retry_the_oldest_fails_and_the_rest_is_flushed_in_order() {
    let mut p = Pair::new();
    p.a.recv(9, 0, 8);
    writes(&mut p, 3);
    let mut sent = p.a_sends().len();
    while p.wait().is_some() {
        sent += p.a_sends().len();
    }
    assert_eq!(sent, 3 * 4, "once and three retries");
    assert_eq!(p.a.state(), QpState::Err);
    let want = [(0, WcStatus::RetryExcErr), flushed(1), flushed(2), flushed(9)];
    assert_eq!(p.a.all_done(), want);
    p.a.engine.post_send(p.a.qpn, SendWr::send(7, &[])).unwrap();
    p.a.recv(8, 0, 8);
    assert_eq!(p.a.all_done(), [flushed(7), flushed(8)]);
}

#[test]
fn progress_gives_all_retries_back() {
    let mut p = Pair::new();
    writes(&mut p, 6);
    for n in 1..=6 {
        for _ in 0..3 {
            p.a_sends();
            p.wait();
        }
        let frames = p.a_sends();
        p.b_gets(&frames[..1]);
        let answers = p.b_sends();
        p.a_gets(&answers);
        assert_eq!(p.a.all_done(), [ok(n - 1)]);
    }
}

#[test]
fn a_peer_that_is_not_ready_is_waited_for_as_long_as_it_says() {
    let mut p = Pair::new();
    p.a.engine.post_send(p.a.qpn, SendWr::send(0, &[p.a.sge(0, 8)])).unwrap();
    writes(&mut p, 1);
    let answers = p.answers();
    assert_eq!(answers.len(), 1, "the WRITE behind it is discarded, without a NAK");
    assert_eq!(aeth(&answers[0]), (0x100, 0x20 | 14, 0));
    p.a_gets(&answers);
    assert_eq!(p.a_sends().len(), 0);
    assert_eq!(p.wait(), Some(1_280_000));
    p.b.recv(1, 0, 8);
    p.run();
    assert_eq!(p.a.all_done(), [ok(0), ok(0)]);
}

#[test]
fn a_peer_that_is_never_ready_ends_it_unless_the_count_is_seven() {
    let mut p = Pair::new();
    p.a.engine.post_send(p.a.qpn, SendWr::send(0, &[])).unwrap();
    p.run();
    assert!(p.wait().is_some());
    p.run();
    assert!(p.wait().is_some());
    p.run();
    assert_eq!((p.wait(), p.a.all_done()), (None, vec![(0, WcStatus::RnrRetryExcErr)]));

    let mut p = Pair::with(Options { rnr_retries: 7, retries: 0, ..Options::default() });
    p.a.engine.post_send(p.a.qpn, SendWr::send(0, &[])).unwrap();
    for _ in 0..100 {
        p.run();
        assert_eq!(p.wait(), Some(1_280_000));
    }
    p.b.recv(1, 0, 0);
    p.run();
    assert_eq!(p.a.all_done(), [ok(0)]);
}

#[test]
fn a_write_with_immediate_waits_for_a_receive_only_with_its_last_packet() {
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::write(1, &[p.a.sge(0, 600)], va, key).with_imm(5)).unwrap();
    let answers = p.answers();
    assert_eq!(aeth(&answers[0]), (0x102, 0x2e, 0));
    p.a_gets(&answers);
    p.b.recv(4, 0, 0);
    p.wait();
    let again = p.a_sends();
    assert_eq!(packets(&again), [(Opcode::RcWriteLastImm, 0x102)]);
    p.b_gets(&again);
    p.run();
    assert_eq!((p.a.all_done(), p.b.all_done()), (vec![ok(1)], vec![ok(4)]));
    assert_eq!(p.b.bytes(0, 600), p.a.bytes(0, 600));
}

#[test]
fn a_lost_nak_is_made_up_for_by_the_time_out() {
    let mut p = Pair::new();
    writes(&mut p, 3);
    let frames = p.a_sends();
    p.b_gets(&frames[1..]);
    p.b_sends();
    p.wait();
    p.run();
    assert_eq!(p.a.all_done(), [0, 1, 2].map(ok));
}

#[test]
fn late_copies_of_old_packets_do_no_harm() {
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    let mut asked = Vec::new();
    let mut answered = Vec::new();
    p.b.recv(1, 4096, 600);
    p.a.engine.post_send(p.a.qpn, SendWr::send(1, &[p.a.sge(0, 600)])).unwrap();
    p.a.engine.post_send(p.a.qpn, SendWr::read(2, &[p.a.sge(4096, 600)], va, key)).unwrap();
    p.a.engine.post_send(p.a.qpn, SendWr::fetch_add(3, p.a.sge(0, 8), va, key, 1)).unwrap();
    asked.extend(p.a_sends());
    p.b_gets(&asked);
    answered.extend(p.b_sends());
    p.a_gets(&answered);
    assert_eq!(p.a.all_done(), [1, 2, 3].map(ok));
    p.b.engine.deregister(key).unwrap();
    let before = p.b.bytes(0, AREA as usize);
    p.b_gets(&asked);
    p.a_gets(&answered);
    p.run();
    assert_eq!((p.a.state(), p.b.state()), (QpState::Rts, QpState::Rts));
    assert_eq!(p.b.bytes(0, AREA as usize), before);
}

#[test]
fn every_gap_has_a_nak_of_its_own() {
    let mut p = Pair::new();
    writes(&mut p, 5);
    let frames = p.a_sends();
    p.b_gets(&[frames[1].clone(), frames[0].clone(), frames[2].clone()]);
    let naks: Vec<_> = p.b_sends().iter().map(|frame| aeth(frame)).collect();
    assert_eq!(naks, [(0x100, 0x60, 0), (0x100, 0x1f, 1), (0x101, 0x60, 1)]);
}

#[test]
fn after_a_time_out_the_same_nak_counts_again() {
    let mut p = Pair::new();
    writes(&mut p, 3);
    let frames = p.a_sends();
    p.b_gets(&frames[1..2]);
    let nak = p.b_sends();
    p.a_gets(&nak);
    p.a_sends();
    p.wait();
    p.a_sends();
    p.a_gets(&nak);
    assert_eq!(p.a_sends().len(), 3);
}
