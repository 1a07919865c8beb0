// SPDX-License-Identifier: MIT OR Apache-2.0
//! WQEs that fail here: known by their index, ended in their place.

use super::*;
use ferrowire_spec::queue::SendOpcode;

fn going(seed: u64, n: usize) -> Bench {
    let mut bench = bench(seed, 0.0);
    bench.steps(2 * QPS);
    bench.start(1);
    bench.send(1, n);
    bench
}

#[test]
fn a_failure_completes_once_it_is_the_oldest() {
    for together in [false, true] {
        for part in [false, true] {
            let mut bench = going(60, 3);
            if part {
                bench.send_part(1);
            }
            bench.send_failure(1, 3, WcStatus::LocProtErr);
            bench.taken(SENT);
            bench.steps(40);
            assert_eq!(bench.completions_of(1).len(), 0);
            if together {
                bench.answer_at(1, 2, ACK);
            } else {
                for n in 1..4 {
                    bench.answer_at(1, 0, ACK);
                    assert_eq!(bench.completions_of(1).len(), if n == 3 { 4 } else { n });
                }
            }
            bench.compare();
            let (index, status, _) = bench.last_of(1);
            assert_eq!((index, status), (3, WcStatus::LocProtErr));
            bench.flush(1, 5);
            bench.compare();
            assert_eq!(bench.completions_of(1).len(), 9);
            bench.end();
        }
    }
}

#[test]
fn a_failure_needs_no_place() {
    let mut bench = going(61, 0);
    bench.send_failure(1, 0, WcStatus::LocLenErr);
    bench.compare();
    assert_eq!(bench.last_of(1).0, 0);
    assert_eq!((bench.spent, bench.freed, bench.credited), (0, 0, 0));
    assert_eq!(bench.faults_of(1), 1);
    bench.end();
}

#[test]
fn the_older_of_two_failures_wins() {
    for swap in [false, true] {
        for oldest in [0u16, 1, 3] {
            let mut bench = going(62, 4);
            let mut failures = [(4, WcStatus::LocProtErr), (oldest, WcStatus::LocQpOpErr)];
            if swap {
                failures.reverse();
            }
            for (index, status) in failures {
                bench.send_failure(1, index, status);
                bench.taken(SENT);
                bench.steps(30);
            }
            if oldest > 0 {
                assert!(!bench.qps[1].dead);
                bench.answer_at(1, 3, ACK);
            }
            bench.compare();
            let (index, status, _) = bench.last_of(1);
            assert_eq!((index, status), (oldest, WcStatus::LocQpOpErr));
            assert_eq!(bench.completions_of(1).len(), usize::from(oldest) + 1);
            bench.end();
        }
    }
}

#[test]
fn a_failure_wins_over_a_nak_of_its_own() {
    for syndrome in [SEQUENCE, 0x21, 0x62, ACK] {
        let mut bench = going(63, 3);
        bench.send_failure(1, 2, WcStatus::LocQpOpErr);
        bench.taken(SENT);
        bench.steps(30);
        bench.answer_at(1, 2, syndrome);
        bench.compare();
        let (index, status, _) = bench.last_of(1);
        assert_eq!((index, status), (2, WcStatus::LocQpOpErr), "{syndrome:#x}");
        assert_eq!(bench.restarts_of(1).len(), 0);
        bench.end();
    }
}

#[test]
fn what_was_acknowledged_after_it_failed_sends_the_queue_pair_to_error() {
    for acked in [1, 3] {
        let mut bench = going(64, 3);
        bench.answer_at(1, acked - 1, ACK);
        bench.send_failure(1, 0, WcStatus::LocQpOpErr);
        bench.taken(SENT);
        bench.compare();
        // No completion of its own: its message succeeded.
        assert_eq!(bench.completions_of(1).len(), acked as usize);
        assert_eq!((bench.faults_of(1), bench.qps[1].dead), (1, true));
        bench.flush(1, 2);
        bench.compare();
        assert_eq!(bench.completions_of(1).len(), 5);
        bench.end();
    }
}

/// Whichever comes first, the QP ends, once, and every WQE completes once.
#[test]
fn a_failure_that_meets_its_acknowledgement_never_hangs() {
    let mut kinds = [0; 2];
    for offset in -14i32..=14 {
        let mut bench = going(65, 3);
        let last = (bench.qps[1].oldest_psn + 2) % MODULUS;
        if offset < 0 {
            bench.send_failure(1, 1, WcStatus::LocQpOpErr);
            bench.steps(-offset as usize);
            bench.answer(1, last, ACK);
        } else {
            bench.answer(1, last, ACK);
            bench.steps(offset as usize);
            bench.send_failure(1, 1, WcStatus::LocQpOpErr);
        }
        bench.taken(ANSWER);
        bench.compare();
        let (index, status, _) = bench.last_of(1);
        let fails = (index, status) == (1, WcStatus::LocQpOpErr);
        assert!(fails || (index, status) == (2, WcStatus::Success), "{offset}: {index} {status:?}");
        assert_eq!(bench.faults_of(1), 1, "{offset}");
        kinds[usize::from(fails)] += 1;
        bench.flush(1, 3);
        bench.compare();
        assert_eq!(bench.completions_of(1).len(), 6);
        bench.end();
    }
    assert!(kinds.iter().all(|n| *n > 5), "{kinds:?}");
}

#[test]
fn a_failure_that_meets_the_end_of_a_pause_never_hangs() {
    for offset in 60..110 {
        let mut bench = going(66, 2);
        bench.answer_at(1, 0, 0x21);
        bench.steps(offset - 40);
        bench.send_failure(1, 0, WcStatus::LocQpOpErr);
        bench.compare();
        assert_eq!(bench.last_of(1).1, WcStatus::LocQpOpErr, "{offset}");
        bench.end();
    }
}

#[test]
fn a_time_out_ends_what_is_before_a_failure() {
    let mut bench = bench(67, 0.0);
    bench.steps(2 * QPS);
    bench.start_with(1, 2, 1, 0);
    bench.send(1, 2);
    bench.send_failure(1, 2, WcStatus::LocProtErr);
    bench.until("no time-out ends it", |b| b.qps[1].dead);
    bench.compare();
    assert_eq!(bench.restarts_of(1), [false]);
    let (index, status, _) = bench.last_of(1);
    assert_eq!((index, status), (0, WcStatus::RetryExcErr));
    bench.end();
}

#[test]
fn a_failure_that_waits_for_room_is_not_told_of_a_queue_pair_that_is_gone() {
    // What ends has so many places on its way to the host; one more in a card with time.
    let places = [(68, 34), (67, 35)];
    let places = places
        .into_iter()
        .flat_map(|(seed, places)| (places - 2..places + 2).map(move |n| (seed, places, n)));
    for (seed, places, before) in places {
        let mut bench = going(seed, 1);
        bench.start(2);
        bench.sinks[COMPLETION].stall = Some(1.0);
        for _ in 0..before {
            bench.send(2, 1);
            bench.answer(2, bench.qps[2].oldest_psn, ACK);
            bench.steps(10);
        }
        let psn = (bench.qps[1].next_psn + MODULUS - 1) % MODULUS;
        bench.answer(1, psn, 0x62);
        bench.steps(50);
        bench.set_state(1, QpState::Reset);
        bench.steps(10);
        bench.sinks[COMPLETION].stall = None;
        bench.start(1);
        bench.steps(100);
        // Told before it was gone, or never.
        let faults = bench.faults_of(1);
        assert_eq!(bench.completions_of(1).len(), faults);
        assert_eq!(faults, usize::from(before < places), "{before}");
        bench.send(1, 1);
        bench.answer_at(1, 0, ACK);
        bench.end();
    }
}

#[test]
fn an_acknowledgement_that_ends_before_a_read_does_not_ask_for_the_read_again() {
    for seed in [70, 71] {
        let mut bench = going(seed, 1);
        let q = &mut bench.qps[1];
        let (psn, index) = (q.to_send, q.sent_index);
        (q.to_send, q.sent_index) = ((psn + 1) % MODULUS, index + 1);
        bench.spent += 1;
        let opcode = SendOpcode::Read.code();
        let values = [
            ("psn", psn.into()),
            ("index", index.into()),
            ("fresh", 1),
            ("last", 1),
            ("signaled", 1),
            ("wqe_opcode", opcode.into()),
            ("answered", 1),
        ];
        let message = model::Message { last: psn, signaled: true, opcode, length: 0 };
        bench.push_report(1, &values, model::Report::Packet(psn, true, Some(message)));
        // After a failure each acknowledgement is followed by a look at the message behind it.
        bench.send_failure(1, 2, WcStatus::LocProtErr);
        bench.taken(SENT);
        bench.steps(40);
        bench.answer_at(1, 0, ACK);
        bench.steps(40);
        assert_eq!(bench.completions_of(1).len(), 1, "seed {seed}");
        assert!(bench.restarts_of(1).is_empty(), "seed {seed}");
    }
}
