// SPDX-License-Identifier: MIT OR Apache-2.0
//! RNR NAKs: the QP pauses.

use super::*;
use ferrowire_spec::wire::syndrome::rnr_timer_us;

fn going(seed: u64, timeout: u8, retry_cnt: u8, rnr_retry: u8) -> Bench {
    let mut bench = bench(seed, 0.0);
    bench.steps(2 * QPS);
    bench.start_with(1, timeout, retry_cnt, rnr_retry);
    bench.send(1, 4);
    bench
}

impl Bench {
    /// The pause that began in a cycle ends after its time.
    fn pause_ends(&mut self, code: u8) {
        let n = self.sinks[RESTART].items.len();
        let since = *self.sinks[RESTART].cycles.last().unwrap();
        self.until("a pause does not end", |b| b.sinks[RESTART].items.len() > n);
        let passed = self.sinks[RESTART].cycles[n] - since;
        let least = u64::from(rnr_timer_us(code)) * 1000 / 4096 * TICK;
        assert!(passed >= least && passed <= least + 4 * TICK, "code {code}: {passed} cycles");
        self.steps(10);
    }
}

#[test]
fn a_pause_lasts_its_time_then_the_queue_pair_sends_again() {
    for code in [1u8, 2, 3, 5, 7, 9, 11] {
        // Its time-out would come in the middle.
        let mut bench = going(40, 1, 7, 1);
        bench.answer_at(1, 0, 0x20 + code);
        assert_eq!(bench.restarts_of(1), [true]);
        bench.pause_ends(code);
        assert_eq!((bench.restarts_of(1), bench.timeouts), (vec![true, false], 0));
        bench.answer_at(1, 3, ACK);
        bench.end();
    }
}

#[test]
fn pauses_end_after_as_many_as_are_allowed() {
    for rnr_retry in 0..7 {
        let mut bench = going(41, 0, 0, rnr_retry);
        // Progress gives back what was used up by then.
        for ahead in 0..2 {
            for n in 0..rnr_retry {
                bench.answer_at(1, if n == 0 { ahead } else { 0 }, 0x21);
                bench.pause_ends(1);
            }
        }
        assert_eq!(bench.restarts_of(1).len(), 4 * usize::from(rnr_retry));
        let ahead = u32::from(rnr_retry == 0);
        bench.answer_at(1, ahead, 0x35);
        bench.compare();
        assert_eq!(bench.last_of(1), (1, WcStatus::RnrRetryExcErr, 0x35));
        assert_eq!(bench.restarts_of(1).len(), 4 * usize::from(rnr_retry));
        bench.end();
    }
}

#[test]
fn seven_is_for_ever() {
    let mut bench = going(42, 0, 0, 7);
    for n in 1..20 {
        bench.answer_at(1, 0, 0x21);
        bench.pause_ends(1);
        assert_eq!(bench.restarts_of(1).len(), 2 * n);
    }
    bench.answer_at(1, 3, ACK);
    bench.end();
}

#[test]
fn naks_in_a_pause_say_nothing_new() {
    let mut bench = going(43, 1, 0, 1);
    bench.answer_at(1, 0, 0x24);
    for syndrome in [0x24, 0x21, SEQUENCE, 0x3f, SEQUENCE] {
        bench.answer_at(1, 0, syndrome);
        assert_eq!(bench.restarts_of(1), [true]);
    }
    // What they acknowledge counts.
    bench.answer_at(1, 1, SEQUENCE);
    bench.answer_at(1, 1, 0x22);
    assert_eq!((bench.restarts_of(1), bench.completions_of(1).len()), (vec![true], 2));
    bench.pause_ends(4);
    assert_eq!(bench.restarts_of(1), [true, false]);
    bench.answer_at(1, 1, ACK);
    bench.end();
}

#[test]
fn an_acknowledgement_in_a_pause_counts_and_the_pause_goes_on() {
    let mut bench = going(44, 1, 0, 1);
    bench.answer_at(1, 0, 0x24);
    bench.answer_at(1, 1, ACK);
    assert_eq!((bench.restarts_of(1), bench.completions_of(1).len()), (vec![true], 2));
    bench.pause_ends(4);
    // It was progress: one retry is there again.
    bench.answer_at(1, 0, 0x21);
    bench.pause_ends(1);
    assert_eq!(bench.restarts_of(1), [true, false, true, false]);
    bench.answer_at(1, 1, ACK);
    bench.end();
}

#[test]
fn an_rnr_nak_gives_back_the_transport_retries() {
    let mut bench = going(45, 2, 2, 7);
    for turn in 1..4 {
        bench.until("no time-out", |b| b.timeouts == 2 * turn);
        bench.steps(8);
        assert!(!bench.qps[1].dead);
        bench.answer_at(1, 0, 0x21);
        bench.pause_ends(1);
    }
    bench.until("it goes on for ever", |b| b.qps[1].dead);
    bench.compare();
    // Each turn two and a pause, then the last two; the expiry that ends it is no restart.
    assert_eq!(bench.restarts_of(1).len(), 3 * 4 + 2);
    assert_eq!(bench.last_of(1).1, WcStatus::RetryExcErr);
    bench.end();
}

#[test]
fn a_sequence_nak_counts_again_after_a_pause() {
    let mut bench = going(46, 0, 7, 7);
    bench.answer_at(1, 0, SEQUENCE);
    bench.answer_at(1, 0, 0x21);
    bench.pause_ends(1);
    bench.answer_at(1, 0, SEQUENCE);
    bench.answer_at(1, 0, SEQUENCE);
    assert_eq!(bench.restarts_of(1), [false, true, false, false]);
    bench.answer_at(1, 3, ACK);
    bench.end();
}

/// However a time-out meets the NAK, the pause lasts its time; the model sees to it.
#[test]
fn a_time_out_that_meets_an_rnr_nak_does_not_end_the_pause() {
    let mut bench = bench(47, 0.0);
    bench.steps(2 * QPS);
    let mut times = (0, 0);
    for offset in 0..110 {
        // A tick begins with the start, so that the offset is the NAK's from the expiry.
        while bench.sim.cycles() % TICK != 0 {
            bench.step();
        }
        bench.start_with(1, 2, 7, 7);
        bench.start_with(2, 0, 7, 7);
        bench.send_end(2, true);
        bench.send(1, 1);
        bench.steps(offset);
        let (timeouts, psn) = (bench.timeouts, bench.qps[1].oldest_psn);
        // Answers around it, so that an expiry has to wait for its turn.
        bench.answer(2, bench.qps[2].oldest_psn, 0x40);
        bench.answer(1, psn, 0x22);
        for _ in 0..3 {
            bench.answer(2, bench.qps[2].oldest_psn, 0x40);
        }
        bench.taken(ANSWER);
        bench.steps(10);
        bench.until("a pause does not end", |b| b.qps[1].paused.is_none());
        if bench.timeouts == timeouts {
            times.0 += 1;
        } else {
            times.1 += 1;
        }
        bench.answer_at(1, 0, ACK);
        bench.set_state(1, QpState::Reset);
        bench.set_state(2, QpState::Reset);
    }
    assert!(times.0 > 10 && times.1 > 3, "{times:?}");
    bench.end();
}

#[test]
fn a_start_forgets_a_pause_and_a_timer() {
    let mut bench = going(48, 2, 0, 7);
    bench.answer_at(1, 0, 0x23);
    bench.set_state(1, QpState::Reset);
    bench.start_with(1, 2, 0, 7);
    bench.steps(TICK as usize * 30);
    assert_eq!(bench.restarts_of(1), [true]);
    bench.send(1, 1);
    bench.steps(TICK as usize);
    bench.restart_life(1);
    bench.steps(TICK as usize * 30);
    bench.send(1, 1);
    bench.answer_at(1, 0, 0x21);
    bench.pause_ends(1);
    bench.answer_at(1, 0, ACK);
    assert_eq!((bench.timeouts, bench.completions_of(1).len()), (0, 1));
    bench.end();
}

/// The end of a pause that waits for its turn while the QP starts anew is not the new life's.
#[test]
fn the_end_of_a_former_pause_restarts_nothing() {
    let mut bench = bench(49, 0.0);
    bench.steps(2 * QPS);
    for offset in 20..90 {
        bench.start_with(1, 0, 0, 7);
        bench.start(2);
        bench.send(1, 1);
        bench.answer_at(1, 0, 0x21);
        // The flush of another takes its time between.
        bench.set_state(2, QpState::Err);
        bench.flush_pushed(2, 60);
        bench.steps(offset);
        bench.set_state(1, QpState::Reset);
        bench.start_with(1, 0, 0, 7);
        bench.steps(150);
        bench.set_state(1, QpState::Reset);
        bench.set_state(2, QpState::Reset);
    }
}
