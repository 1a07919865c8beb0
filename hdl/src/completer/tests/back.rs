// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequence NAKs and time-outs: the QP goes back, as often as it may.

use super::*;
use ferrowire_spec::queue::cqe::LocalCause;

/// A QP with some messages under way.
fn going(seed: u64, timeout: u8, retry_cnt: u8) -> Bench {
    let mut bench = bench(seed, 0.0);
    bench.steps(2 * QPS);
    bench.start_with(1, timeout, retry_cnt, 7);
    bench.send(1, 4);
    bench
}

#[test]
fn a_sequence_nak_counts_once_until_progress() {
    let mut bench = going(20, 0, 1);
    for turn in 1..4 {
        // Once, though it comes again: and so with one retry only.
        for _ in 0..5 {
            bench.answer_at(1, 0, SEQUENCE);
            assert_eq!(bench.restarts_of(1), vec![false; turn]);
        }
        bench.answer_at(1, 0, ACK);
    }
    // One that itself acknowledges something is another one.
    bench.send(1, 3);
    bench.answer_at(1, 0, SEQUENCE);
    bench.answer_at(1, 2, SEQUENCE);
    assert_eq!(bench.restarts_of(1), [false; 5]);
    assert_eq!(bench.completions_of(1).len(), 5);
    bench.answer_at(1, 1, ACK);
    bench.end();
}

#[test]
fn a_sequence_nak_counts_again_after_a_time_out() {
    let mut bench = going(21, 3, 7);
    for turn in 0..3 {
        bench.answer_at(1, 0, SEQUENCE);
        bench.answer_at(1, 0, SEQUENCE);
        assert_eq!(bench.restarts_of(1).len(), 2 * turn + 1);
        bench.until("no time-out", |b| b.timeouts == turn + 1);
        bench.steps(20);
        assert_eq!(bench.restarts_of(1).len(), 2 * turn + 2);
    }
    bench.answer_at(1, 3, ACK);
    bench.end();
}

#[test]
fn time_outs_end_after_as_many_restarts_as_are_allowed() {
    for retry_cnt in 0..8 {
        let mut bench = going(22, 2, retry_cnt);
        // What comes before it succeeds, and gives back what was used up by then.
        bench.until("no time-out", |b| b.timeouts == usize::from(retry_cnt.min(1)));
        if retry_cnt > 0 {
            bench.steps(10);
            bench.answer_at(1, 0, ACK);
        }
        let before = bench.restarts_of(1).len();
        bench.until("it goes on for ever", |b| b.qps[1].dead);
        bench.compare();
        assert_eq!(bench.restarts_of(1).len() - before, usize::from(retry_cnt));
        let index = u16::from(retry_cnt > 0);
        assert_eq!(bench.last_of(1), (index, WcStatus::RetryExcErr, LocalCause::Timeout.code()));
        bench.flush(1, 0);
        bench.compare();
        assert_eq!(bench.completions_of(1).len(), 4);
        bench.end();
    }
}

#[test]
fn a_sequence_nak_without_a_retry_left_ends_the_queue_pair() {
    for retry_cnt in 0..8usize {
        let mut bench = going(23, if retry_cnt > 0 { 2 } else { 0 }, retry_cnt as u8);
        bench.until("no time-out", |b| b.timeouts == retry_cnt);
        bench.steps(6);
        assert_eq!(bench.restarts_of(1), vec![false; retry_cnt]);
        bench.answer_at(1, 0, SEQUENCE);
        bench.compare();
        assert_eq!(bench.last_of(1), (0, WcStatus::RetryExcErr, LocalCause::Sequence.code()));
        assert_eq!(bench.restarts_of(1).len(), retry_cnt);
        bench.end();
    }
}

#[test]
fn an_expiry_with_nothing_outstanding_means_nothing() {
    let mut bench = going(24, 2, 0);
    let psn = bench.qps[1].oldest_psn;
    bench.answer_at(1, 3, ACK);
    // A packet that is still sent again starts the timer, and nobody answers it.
    bench.send_again(1, psn);
    bench.steps(TICK as usize * 40);
    assert_eq!((bench.timeouts, bench.restarts_of(1).len(), bench.qps[1].dead), (0, 0, false));
    bench.send(1, 1);
    bench.answer_at(1, 0, ACK);
    bench.end();
}

/// A packet that is recorded while all before it is acknowledged: whichever comes first, its time-out comes.
#[test]
fn a_packet_that_meets_an_acknowledgement_has_its_time() {
    for parts in [false, true] {
        for offset in -12i32..=12 {
            let mut bench = bench(25, 0.0);
            bench.steps(2 * QPS);
            bench.start_with(1, 2, 0, 7);
            (0..3).for_each(|_| bench.send_end(1, true));
            if parts {
                bench.send_part(1);
            }
            bench.taken(SENT);
            bench.steps(10);
            let last = (bench.qps[1].next_psn + MODULUS - 1) % MODULUS;
            if offset < 0 {
                bench.send_end(1, true);
                bench.steps(-offset as usize);
                bench.answer(1, last, ACK);
            } else {
                bench.answer(1, last, ACK);
                bench.steps(offset as usize);
                bench.send_end(1, true);
            }
            bench.taken(SENT);
            bench.until("it has no time-out", |b| b.qps[1].dead);
            bench.compare();
            let index = 3;
            assert_eq!(bench.last_of(1), (index, WcStatus::RetryExcErr, LocalCause::Timeout.code()));
        }
    }
}

#[test]
fn the_time_runs_anew_after_progress() {
    let mut bench = going(26, 4, 0);
    for _ in 0..4 {
        bench.steps(TICK as usize * 12);
        bench.answer_at(1, 0, ACK);
    }
    assert_eq!((bench.timeouts, bench.completions_of(1).len()), (0, 4));
    bench.steps(TICK as usize * 40);
    assert!(!bench.qps[1].dead);
    bench.end();
}

#[test]
fn ghosts_and_reserved_codes_are_dropped_and_counted() {
    let mut bench = going(27, 0, 0);
    bench.answer_at(1, 0, ACK);
    for syndrome in [ACK, SEQUENCE, 0x21, 0x62] {
        bench.answer_at(1, MODULUS - 1, syndrome);
        bench.answer_at(1, 3, syndrome);
        bench.answer_at(1, MODULUS / 2, syndrome);
    }
    let reserved = (0x40..0x60u8).chain(0x64..=0xff);
    let n = reserved.clone().count();
    reserved.for_each(|syndrome| bench.answer_at(1, 0, syndrome));
    let reasons = [vec![DropReason::GhostAck; 12], vec![DropReason::Malformed; n]].concat();
    assert_eq!(bench.reasons, reasons);
    assert_eq!((bench.restarts_of(1).len(), bench.completions_of(1).len()), (0, 1));
    bench.answer_at(1, 2, ACK);
    bench.end();
}

#[test]
fn a_restart_that_finds_no_room_is_lost_like_a_nak_on_the_wire() {
    // With loopback each queue pair's restarts have their places.
    let mut bench =
        bench_of(&RnicConfig { loopback: false, beat_bytes: 64, ..config(32, LIMIT.into()) }, 28, 0.0);
    bench.steps(2 * QPS);
    (0..QPS).for_each(|qp| bench.start_with(qp, 6, 7, 7));
    (0..QPS).for_each(|qp| bench.send(qp, 4));
    bench.sinks[RESTART].stall = Some(1.0);
    // More than the way to the segmenter holds: those that are lost count nothing.
    for _ in 0..3 {
        for qp in 0..QPS {
            bench.answer(qp, bench.qps[qp].oldest_psn, ACK);
            bench.taken(ANSWER);
            let full: usize = bench.qps.iter().map(|q| q.restarts.len()).sum();
            let psn = bench.qps[qp].oldest_psn;
            if full < 16 {
                bench.answer(qp, psn, SEQUENCE);
            } else {
                bench.push_answer(qp, psn, SEQUENCE, &[]);
                bench.dropped += 1;
            }
        }
        bench.taken(ANSWER);
        bench.steps(10);
    }
    bench.sinks[RESTART].stall = Some(0.0);
    bench.steps(30);
    assert_eq!(bench.sinks[RESTART].items.len(), 16);
    // The next NAK says it again.
    bench.answer_at(7, 0, SEQUENCE);
    assert_eq!(bench.sinks[RESTART].items.len(), 17);
    (0..QPS).for_each(|qp| bench.answer_at(qp, 0, ACK));
    bench.end();
}
