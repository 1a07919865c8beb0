// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random lives of all QPs at once.

use super::*;

impl Bench {
    fn start_randomly(&mut self, qp: usize) {
        let rng = &mut self.random.rng;
        let timeout = if rng.random_range(0..4) == 0 { 0 } else { rng.random_range(3..7) };
        let (retry_cnt, rnr_retry) = (rng.random_range(0..8), rng.random_range(0..8));
        self.start_with(qp, timeout, retry_cnt, rnr_retry);
        // The first WQE is fetched meanwhile, and what waits of the former life is ignored.
        self.steps(100);
    }

    /// A life ends: flushed, or just forgotten with what is still on its way.
    fn ends(&mut self, qp: usize) {
        if self.silent {
            // What is done when it is recorded is done before the state changes.
            self.taken(SENT);
            self.steps(100);
        }
        if self.random.chance(0.7) {
            let beyond = if self.random.chance(0.5) { 0 } else { self.random.rng.random_range(0..40) };
            self.flush(qp, beyond);
            if self.random.chance(0.3) {
                if self.random.chance(0.5) {
                    self.taken(FLUSH);
                }
                let beyond = self.random.rng.random_range(0..40);
                self.flush(qp, beyond);
            }
            self.taken(FLUSH);
            self.until("a flush ends", |b| b.qps[qp].told == b.qps[qp].oldest_index);
        } else {
            self.taken(SENT);
        }
        self.taken(ANSWER);
        self.steps(60);
        self.faulted(qp);
        // Reports that are still on their way are forgotten.
        if self.random.chance(0.5) {
            for _ in 0..3 {
                if self.may_send(qp) {
                    self.send_part(qp);
                    self.send_end(qp, true);
                }
            }
        }
        self.set_state(qp, QpState::Reset);
        self.start_randomly(qp);
    }

    fn sends(&mut self, qp: usize) {
        let q = &self.qps[qp];
        let alive = q.runs && !q.dead && self.sources[ANSWER].left() == 0;
        if alive && q.failures < 2 && self.random.chance(0.02) {
            let index = match self.random.chance(0.5) {
                true if self.qps[qp].failures == 0 => self.qps[qp].sent_index,
                _ => {
                    let under_way = self.qps[qp].sent_index.wrapping_sub(self.qps[qp].told);
                    let ahead = self.random.rng.random_range(0..under_way + 1);
                    self.qps[qp].told.wrapping_add(ahead)
                }
            };
            let q = &self.qps[qp];
            if index != q.sent_index || q.failures == 0 {
                self.send_failure(qp, index, WcStatus::LocProtErr);
            }
        } else if self.may_send(qp) {
            while self.random.chance(0.25) {
                self.send_part(qp);
            }
            let signaled = self.random.chance(0.7);
            match self.qps[qp].open {
                false if self.silent && self.random.chance(0.3) => self.send_silent(qp, signaled),
                _ => self.send_end(qp, signaled),
            }
        }
    }

    fn answers(&mut self, qp: usize) {
        let q = self.qps[qp].clone();
        if self.sim.cycles() < q.quiet_until {
            return;
        }
        let rng = &mut self.random.rng;
        let front = q.messages.front().map_or(q.oldest_psn, |m| m.last);
        let last = q.messages.back().map_or(q.oldest_psn, |m| m.last);
        let psn = match rng.random_range(0..20) {
            0 => q.oldest_psn.wrapping_sub(rng.random_range(1..50)) % MODULUS,
            1 => (q.next_psn + rng.random_range(0..MODULUS / 2)) % MODULUS,
            2..5 => last,
            // Mostly the oldest message, or any packet.
            5..13 => front,
            13..16 => q.oldest_psn,
            _ => (q.oldest_psn + rng.random_range(0..=q.ahead(last))) % MODULUS,
        };
        let syndrome = match rng.random_range(0..100) {
            0 => rng.random_range(0x61..0x64),
            1..8 => 0x20 + rng.random_range(1..6),
            8..16 => SEQUENCE,
            16..19 => [0x40, 0x5f, 0x64, 0x7f, 0x80, 0xa0, 0xff][rng.random_range(0..7)],
            _ => rng.random_range(0..0x20),
        };
        if rng.random_range(0..40) == 0 {
            let other: [(&str, u128); 4] = [
                ("origin_from_peer", 0),
                ("gid", (qp as u128 % 16) ^ 4),
                ("origin_peer", (q.peer ^ 1).into()),
                ("dest_qpn", (qp + QPS) as u128),
            ];
            let other = other[rng.random_range(0..4)];
            self.push_answer(qp, psn, syndrome, &[other]);
        } else {
            self.answer(qp, psn, syndrome);
        }
    }

    /// Random messages, answers, failures, flushes and starts.
    pub fn play(&mut self, turns: usize) {
        self.steps(2 * QPS);
        (0..QPS).for_each(|qp| self.start_randomly(qp));
        for _ in 0..turns {
            let qp = self.random.rng.random_range(0..QPS);
            let idle = self.random.rng.random_range(0..4);
            self.late = self.random.chance(if self.late { 0.7 } else { 0.02 });
            self.steps(idle);
            let q = &self.qps[qp];
            if (q.dead && self.random.chance(0.3)) || self.random.chance(0.004) {
                self.late = false;
                self.ends(qp);
            } else if self.random.chance(0.5) {
                self.sends(qp);
            } else {
                self.answers(qp);
            }
        }
        self.late = false;
    }
}

#[test]
fn random_messages_end_once_and_in_order_with_their_cause() {
    let mut statuses = std::collections::BTreeMap::new();
    for (stall, seed) in [(0.0, 1), (0.2, 2), (0.5, 3), (0.05, 4)] {
        let mut bench = bench(seed, stall);
        if stall > 0.0 {
            (bench.slack, bench.wait) = (2500, 400);
        }
        bench.sinks[COMPLETION].stall = (stall == 0.2).then_some(0.8);
        bench.play(8000);
        bench.end();
        let (done, back) = (bench.sinks[COMPLETION].items.len(), bench.sinks[RESTART].items.len());
        let (spent, timeouts) = (bench.spent, bench.timeouts);
        println!("{} cycles: {spent} messages, {done} completions, {back} restarts", bench.sim.cycles());
        assert!(spent > 200, "the pool is used several times over: {spent}");
        assert!(bench.credited > 3 && back > 100 && timeouts > 20, "{} {back} {timeouts}", bench.credited);
        let ends = bench.sinks[COMPLETION].items.iter();
        for end in ends.map(|item| (item["status"].to_u64(), item["syndrome"].to_u64() & 0xe0)) {
            *statuses.entry(end).or_insert(0) += 1;
        }
    }
    println!("{statuses:?}");
    let ends =
        [WcStatus::LocProtErr, WcStatus::RemAccessErr, WcStatus::RetryExcErr, WcStatus::RnrRetryExcErr];
    for status in ends {
        assert!(statuses.keys().any(|(s, _)| *s == u64::from(status.code())), "{status:?}: {statuses:?}");
    }
}

#[test]
fn messages_without_a_packet_end_in_their_place() {
    for (stall, seed) in [(0.0, 11), (0.2, 12), (0.05, 13)] {
        let mut bench = bench(seed, stall);
        (bench.slack, bench.wait, bench.silent) = (2500, 400, true);
        bench.play(4000);
        bench.end();
        let silent = bench.sinks[COMPLETION].items.iter();
        let silent = silent.filter(|item| matches!(item["opcode"].to_u64(), 8 | 9)).count();
        println!("{} messages, {silent} completions of such without a packet", bench.spent);
        assert!(silent > 50, "{silent}");
    }
}

#[test]
fn an_acknowledgement_ends_what_stands_without_a_packet_behind_its_message() {
    let mut bench = bench(14, 0.0);
    bench.start(0);
    // Alone; behind a message; between two; and when its event was long ago.
    bench.send_silent(0, true);
    bench.taken(SENT);
    bench.steps(30);
    assert_eq!(bench.sinks[COMPLETION].items.len(), 1);
    bench.send_end(0, true);
    bench.send_silent(0, true);
    bench.send_silent(0, true);
    bench.send_end(0, true);
    bench.send_silent(0, true);
    bench.taken(SENT);
    bench.steps(100);
    assert_eq!(bench.sinks[COMPLETION].items.len(), 1);
    bench.answer_at(0, 0, ACK);
    bench.steps(30);
    assert_eq!(bench.sinks[COMPLETION].items.len(), 4);
    bench.answer_at(0, 0, ACK);
    bench.steps(30);
    assert_eq!(bench.sinks[COMPLETION].items.len(), 6);
    // Then an acknowledgement takes what it took before.
    bench.send_end(0, true);
    bench.taken(SENT);
    bench.steps(30);
    bench.answer_at(0, 0, ACK);
    bench.steps(30);
    bench.end();
}

#[test]
fn a_reset_under_way_leaves_nothing_behind() {
    let mut first = bench(4, 0.1);
    (first.slack, first.wait) = (2500, 400);
    first.play(300);
    first.sim.reset();
    let mut second = bench(5, 0.1);
    std::mem::swap(&mut first.sim, &mut second.sim);
    (second.slack, second.wait) = (2500, 400);
    second.play(1000);
    second.end();
}

#[test]
fn a_queue_pair_at_its_limit_always_comes_back() {
    // What is completed along takes two cycles, and three in a card with narrow beats.
    for (beat_bytes, turns, stall, seed) in
        [(64, 5000, 0.0, 6), (64, 5000, 0.4, 7), (8, 6000, 0.0, 6), (8, 6000, 0.4, 7)]
    {
        let mut bench = bench_of(&RnicConfig { beat_bytes, ..config(32, LIMIT.into()) }, seed, stall);
        (0..3).for_each(|qp| bench.start(qp));
        let mut sent = 0;
        bench.sources[ANSWER].stall = Some(0.0);
        for turn in 0..turns {
            let qp = turn % 3;
            // As much as may be, then everything is acknowledged: one by one, or together.
            while bench.may_send(qp) {
                bench.send_end(qp, turn % 2 == 0);
                sent += 1;
            }
            bench.step();
            let recorded = bench.reports.iter().all(|(q, _)| *q != qp);
            if recorded && bench.sources[ANSWER].left() < 4 && bench.random.chance(0.3) {
                let messages = bench.qps[qp].messages.clone();
                let together = bench.random.chance(0.5);
                let skip = if together { messages.len().saturating_sub(1) } else { 0 };
                for message in messages.iter().skip(skip) {
                    bench.answer(qp, message.last, ACK);
                }
            }
        }
        assert!(sent > 1000, "seed {}: {sent} messages", bench.random.seed);
        bench.end();
    }
}
