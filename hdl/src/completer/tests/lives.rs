// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts, resets, and what comes late of a former life.

use super::*;

#[test]
fn a_start_waits_for_no_fault() {
    // The QP context takes no fault before an update that it has in hand, and so not before the start is taken.
    let mut bench = bench(8, 0.0);
    (0..QPS).for_each(|qp| bench.start(qp));
    bench.sinks[FAULT].stall = Some(1.0);
    for qp in 1..QPS {
        bench.send(qp, 1);
        bench.answer_at(qp, 0, 0x62);
    }
    bench.restart_life(0);
    bench.sinks[FAULT].stall = None;
    bench.end();
}

#[test]
fn an_answer_to_a_queue_pair_that_does_not_run_completes_nothing() {
    for state in [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Err] {
        let mut bench = bench(9, 0.0);
        bench.start(3);
        bench.send(3, 1);
        let psn = bench.qps[3].oldest_psn;
        bench.set_state(3, state);
        for syndrome in [ACK, 0x62, SEQUENCE, 0x21] {
            bench.answer(3, psn, syndrome);
        }
        bench.taken(ANSWER);
        // Nor does a failure that is found only now, or a restart that was under way.
        bench.send_failure(3, 1, WcStatus::LocProtErr);
        bench.taken(SENT);
        bench.steps(200);
        assert_eq!(bench.reasons, [DropReason::QpState; 4], "{state}");
        assert_eq!(bench.sinks[COMPLETION].items.len(), 0, "{state}");
        assert_eq!(bench.sinks[RESTART].items.len() + bench.sinks[FAULT].items.len(), 0, "{state}");
        bench.end();
    }
}

#[test]
fn nothing_expires_for_a_queue_pair_that_does_not_run() {
    for (state, syndrome) in
        [QpState::Reset, QpState::Init, QpState::Err].into_iter().flat_map(|s| [(s, 0x40), (s, 0x22)])
    {
        let mut bench = bench(15, 0.0);
        bench.steps(2 * QPS);
        bench.start_with(3, 1, 0, 7);
        bench.send(3, 1);
        bench.answer_at(3, 0, syndrome);
        let before = bench.sinks[RESTART].items.len();
        bench.set_state(3, state);
        bench.steps(TICK as usize * 60);
        assert_eq!((bench.sinks[RESTART].items.len(), bench.timeouts), (before, 0), "{state}");
        assert_eq!(bench.sinks[COMPLETION].items.len(), 0);
        bench.end();
    }
}

#[test]
fn the_scheduler_learns_of_a_start_before_the_queue_pair_may_send() {
    let mut bench = bench(11, 0.0);
    bench.start(1);
    bench.send(1, 6);
    (0..2).for_each(|_| bench.answer_at(1, 0, ACK));
    assert_eq!(bench.qps[1].told, 2);
    // Four messages are left behind: the row says so when the state is known at the latest.
    bench.set_state(1, QpState::Reset);
    bench.start(1);
    assert_eq!((bench.qps[1].told, bench.qps[1].told_psn), (0, bench.qps[1].oldest_psn));
    bench.end();
}

#[test]
fn a_reset_gives_the_places_back() {
    let mut bench = bench(16, 0.0);
    for qp in 0..QPS {
        bench.start(qp);
        bench.send(qp, 6);
    }
    for qp in 0..QPS {
        bench.set_state(qp, QpState::Reset);
    }
    // Nobody starts them again.
    bench.steps(300);
    assert_eq!((bench.freed, bench.credited), (6 * QPS, 0));
    (0..QPS).for_each(|qp| assert_eq!(bench.qps[qp].told, 0));
    bench.end();
}

#[test]
fn reports_of_a_former_life_are_forgotten_and_give_their_place_back() {
    for state in [QpState::Reset, QpState::Init, QpState::Rtr] {
        let mut bench = bench(17, 0.0);
        bench.start(4);
        bench.send(4, 2);
        bench.set_state(4, QpState::Reset);
        if state != QpState::Reset {
            bench.set_state(4, state);
        }
        bench.steps(30);
        bench.send_part(4);
        (0..3).for_each(|_| bench.send_end(4, true));
        bench.send_again(4, 7);
        bench.send_failure(4, 3, WcStatus::LocQpOpErr);
        bench.taken(SENT);
        bench.steps(50);
        // Three messages; neither a part, nor what is sent again, nor a failure has a place.
        assert_eq!((bench.freed, bench.credited), (2, 3), "{state}");
        // They are not the next life's.
        bench.set_state(4, QpState::Reset);
        bench.start(4);
        bench.steps(300);
        assert!(!bench.qps[4].dead);
        bench.send(4, 1);
        bench.answer_at(4, 0, ACK);
        assert_eq!(bench.completions_of(4).len(), 1);
        bench.end();
    }
}

/// A reset in the middle of the reports: each is remembered and freed, or forgotten.
#[test]
fn a_reset_between_reports_loses_no_place() {
    for offset in 0..24 {
        let mut bench = bench(18, 0.0);
        bench.start(4);
        (0..8).for_each(|_| bench.send_end(4, true));
        bench.steps(offset);
        bench.set_state(4, QpState::Reset);
        bench.taken(SENT);
        bench.steps(100);
        assert_eq!(bench.freed + bench.credited, 8, "{offset}");
        bench.end();
    }
}

#[test]
fn an_answer_with_a_foreign_partition_key_is_dropped() {
    let mut bench = bench(12, 0.0);
    bench.start(0);
    bench.send(0, 1);
    let psn = bench.qps[0].oldest_psn;
    bench.push_answer(0, psn, ACK, &[("pkey", 0xfffe)]);
    bench.compare();
    // A limited member may answer a full one.
    bench.push_answer(0, psn, ACK, &[("pkey", 0x7fff)]);
    *bench.answers.back_mut().unwrap() = Some((0, psn, ACK));
    bench.end();
    assert_eq!((&bench.reasons[..], bench.completions_of(0).len()), (&[DropReason::Pkey][..], 1));
}

#[test]
fn late_holds_answers_and_nothing_else() {
    let mut bench = bench(19, 0.0);
    bench.steps(2 * QPS);
    for qp in 0..5 {
        bench.start_with(qp, 0, 7, 7);
    }
    bench.start_with(1, 2, 1, 7);
    (0..5).for_each(|qp| bench.send(qp, 2));
    bench.answer_at(2, 0, 0x21);
    bench.late = true;
    bench.step();
    let psn = bench.qps[0].oldest_psn;
    bench.answer(0, psn, ACK);
    // A time-out, the end of a pause, a failure, a reset, a start; then a flush.
    bench.send_failure(3, 0, WcStatus::LocProtErr);
    bench.restart_life(4);
    bench.send(4, 1);
    bench.until("no time-out", |b| b.timeouts == 2 && b.qps[1].dead);
    bench.until("no end of a pause", |b| b.restarts_of(2) == [true, false]);
    bench.until("no failure", |b| b.qps[3].dead);
    bench.faulted(3);
    bench.set_state(3, QpState::Err);
    bench.flush_pushed(3, 30);
    bench.until("no flush", |b| b.completions_of(3).len() == 30);
    let q = &mut bench.qps[3];
    (1..30).for_each(|i| q.done.push((0, 0, i, WcStatus::WrFlushErr.code(), 0)));
    q.oldest_index = 30;
    q.messages.clear();
    assert_eq!((bench.sources[ANSWER].left(), bench.completions_of(0).len()), (1, 0));
    bench.late = false;
    bench.taken(ANSWER);
    bench.end();
    assert_eq!(bench.completions_of(0).len(), 1);
}
