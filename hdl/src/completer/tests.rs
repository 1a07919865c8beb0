// SPDX-License-Identifier: MIT OR Apache-2.0
//! The completer as a whole, `record` and `track`, against a list of messages for each QP.

mod model;

use self::model::{Done, Message, Requester};
use super::{completer, Flush, Headers, QpBroadcast, QpInit, RnicConfig, Sent};
use crate::testing::{step, Random, Sink, Source};
use crate::types::Completion;
use ferrowire_rtl::{bits, build, Bits, Netlist, Sim};
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::queue::cqe::WcStatus;
use ferrowire_spec::wire::opcode::Opcode;
use rand::Rng;

const QPS: usize = 8;
const LIMIT: u16 = 8;
const MODULUS: u32 = 1 << 24;

/// The sources, in order.
const START: usize = 0;
const SENT: usize = 1;
const ANSWER: usize = 2;
const FLUSH: usize = 3;

/// The sinks, in order.
const COMPLETION: usize = 0;
const FAULT: usize = 1;
const KICK: usize = 2;

fn netlist(cfg: &RnicConfig) -> Netlist {
    let net = build("top", |m| {
        let t = completer(
            m,
            cfg,
            m.input_of("broadcast", &QpBroadcast::of(cfg)),
            m.stream_in("start", &QpInit::of(cfg)),
            m.stream_in("sent", &Sent::of(cfg)),
            m.stream_in("answer", &Headers::of()),
            m.stream_in("flush", &Flush::of(cfg)),
        );
        m.stream_out("completion", t.completions);
        m.stream_out("fault", t.faults);
        m.stream_out("kick", t.kicks);
        // Pulses a cycle late: they may follow from inputs of the same cycle.
        m.output("oldest", &m.delay("oldest", &t.oldest));
        m.output("freed", &m.delay("freed", &t.freed));
        m.output("dropped", &m.delay("dropped", &t.dropped));
    });
    net.unwrap_or_else(|e| panic!("{e}"))
}

struct Bench {
    sim: Sim,
    sources: [Source; 4],
    sinks: [Sink; 3],
    random: Random,
    stall: f64,
    limit: u16,
    room: usize,
    qps: Vec<Requester>,
    dropped: u64,
    dropped_due: u64,
    pushed: usize,
    freed: usize,
    kicks: usize,
}

fn bench_of(cfg: &RnicConfig, seed: u64, stall: f64) -> Bench {
    let mut sim = Sim::new(&netlist(cfg));
    sim.reset();
    Bench {
        sim,
        sources: [
            Source::new("start", &QpInit::of(cfg)),
            Source::new("sent", &Sent::of(cfg)),
            Source::new("answer", &Headers::of()),
            Source::new("flush", &Flush::of(cfg)),
        ],
        sinks: [
            Sink::new("completion", &Completion::of(cfg)),
            Sink::new("fault", &bits(cfg.qp_bits())),
            Sink::new("kick", &bits(cfg.qp_bits())),
        ],
        random: Random::new(seed),
        stall,
        limit: cfg.outstanding_per_qp as u16,
        room: cfg.outstanding as usize,
        qps: vec![Requester::default(); cfg.qps as usize],
        dropped: 0,
        dropped_due: 0,
        pushed: 0,
        freed: 0,
        kicks: 0,
    }
}

fn bench(seed: u64, stall: f64) -> Bench {
    let cfg = RnicConfig {
        qps: QPS as u32,
        outstanding: 32,
        outstanding_per_qp: LIMIT.into(),
        ..RnicConfig::named("generic-8b").unwrap()
    };
    bench_of(&cfg, seed, stall)
}

impl Bench {
    fn step(&mut self) {
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        let seed = self.random.seed;
        self.dropped += self.sim.get("dropped");
        self.freed += self.sim.get("freed_valid") as usize;
        assert!(self.freed <= self.pushed, "seed {seed}: a place comes back that was not taken");
        if self.sim.get("oldest_enable") == 1 {
            let (qp, index) = (self.sim.get("oldest_index") as usize, self.sim.get("oldest_entry") as u16);
            self.qps[qp].told = index;
        }
        for item in &self.sinks[KICK].items[self.kicks..] {
            let qp = &mut self.qps[item[""].to_u64() as usize];
            let room = self.limit - qp.sent_index.wrapping_sub(qp.told).min(self.limit);
            // One from before it came to its limit finds no room.
            qp.blocked &= room == 0;
        }
        self.kicks = self.sinks[KICK].items.len();
    }

    fn steps(&mut self, n: usize) {
        (0..n).for_each(|_| self.step());
    }

    fn until(&mut self, what: &str, done: impl Fn(&Bench) -> bool) {
        let mut waited = 0;
        while !done(self) {
            self.step();
            waited += 1;
            if waited == 20_000 {
                self.qps.iter().for_each(|qp| println!("{qp:?}"));
                panic!("seed {}: {what}", self.random.seed);
            }
        }
    }

    fn set_state(&mut self, qp: usize, state: QpState) {
        self.sim.set("broadcast_state_enable", 1);
        self.sim.set("broadcast_state_index", qp as u64);
        self.sim.set("broadcast_state_entry", state.code().into());
        self.step();
        self.sim.set("broadcast_state_enable", 0);
        let qp = &mut self.qps[qp];
        qp.runs = matches!(state, QpState::Rts | QpState::Sqd);
        if state == QpState::Reset {
            qp.messages.clear();
        }
    }

    /// A QP starts; its CQ has its number, its partition key is 0xffff.
    fn start(&mut self, qp: usize) {
        let rng = &mut self.random.rng;
        let ipv6 = rng.random();
        let peer = if ipv6 { rng.random() } else { rng.random::<u32>().into() };
        let psn = if rng.random() { MODULUS - rng.random_range(1..20) } else { rng.random_range(0..MODULUS) };
        self.sim.set("broadcast_attributes_entry_send_cq", qp as u64);
        self.sim.set("broadcast_attributes_entry_pkey", 0xffff);
        self.sim.set("broadcast_attributes_entry_peer_ipv6", u64::from(ipv6));
        self.sim.set_bits("broadcast_attributes_entry_peer_ip", &Bits::new(128, peer));
        self.sim.set("broadcast_attributes_index", qp as u64);
        self.sim.set("broadcast_attributes_enable", 1);
        self.step();
        self.sim.set("broadcast_attributes_enable", 0);
        self.sources[START].push_values(&[("qp", qp as u128), ("psn", psn.into())]);
        self.until("a start is not taken", |b| b.sources[START].left() == 0);
        let old = &self.qps[qp];
        let (done, faults, sent_beats) = (old.done.clone(), old.faults, old.sent_beats);
        let fresh = Requester { ipv6, peer, next_psn: psn, oldest_psn: psn, ..Requester::default() };
        self.qps[qp] = Requester { done, faults, sent_beats, told: old.told, ..fresh };
        self.set_state(qp, QpState::Rts);
    }

    fn push_sent(&mut self, qp: usize, psn: u32, message: Option<&Message>) {
        let mut values = vec![("qp", qp as u128), ("psn", psn.into()), ("last", message.is_some().into())];
        if let Some(m) = message {
            values.extend([
                ("index", self.qps[qp].sent_index.into()),
                ("signaled", m.signaled.into()),
                ("wqe_opcode", m.opcode.into()),
                ("length", m.length.into()),
                ("status", m.status.into()),
                ("cause", u128::from(m.cause)),
            ]);
        }
        self.sources[SENT].push_values(&values);
        self.qps[qp].sent_beats = self.sources[SENT].cycles.len() + self.sources[SENT].left();
    }

    /// Whether a message may be sent, as `commit` and the scheduler see it.
    fn may_send(&self, qp: usize) -> bool {
        let q = &self.qps[qp];
        let under_way = q.sent_index.wrapping_sub(q.told);
        q.runs && !q.blocked && under_way < self.limit && self.pushed - self.freed < self.room
    }

    /// One packet of a message that does not end with it.
    fn send_part(&mut self, qp: usize) {
        let q = &mut self.qps[qp];
        let psn = q.next_psn;
        q.open = q.open.or(Some(psn));
        q.next_psn = (psn + 1) % MODULUS;
        self.push_sent(qp, psn, None);
    }

    /// The last packet of a message, or its failure.
    fn send_end(&mut self, qp: usize, signaled: bool, status: u8) {
        let (length, opcode, cause) =
            (self.random.rng.random(), self.random.rng.random(), self.random.rng.random());
        let psn = self.qps[qp].next_psn;
        let first = self.qps[qp].open.take().unwrap_or(psn);
        let message = Message { first, last: psn, signaled, opcode, length, status, cause };
        self.push_sent(qp, psn, Some(&message));
        self.pushed += 1;
        let q = &mut self.qps[qp];
        q.sent_index = q.sent_index.wrapping_add(1);
        q.messages.push_back(message);
        if status == 0 {
            q.next_psn = (psn + 1) % MODULUS;
        }
        q.settle();
        q.blocked = q.sent_index.wrapping_sub(q.told) == self.limit;
    }

    /// An answer from the QP's peer.
    fn answer(&mut self, qp: usize, psn: u32, syndrome: u8) {
        self.dropped_due += u64::from(self.qps[qp].answer(psn, syndrome));
        self.push_answer(qp, psn, syndrome, &[]);
    }

    fn push_answer(&mut self, qp: usize, psn: u32, syndrome: u8, other: &[(&str, u128)]) {
        let q = &self.qps[qp];
        let mut values = vec![
            ("opcode", Opcode::RcAcknowledge.code().into()),
            ("dest_qpn", qp as u128),
            ("psn", psn.into()),
            ("syndrome", syndrome.into()),
            ("ipv6", q.ipv6.into()),
            ("src_ip", q.peer),
            ("pkey", 0xffff),
        ];
        for (name, value) in other {
            values.retain(|(n, _)| n != name);
            values.push((name, *value));
        }
        self.sources[ANSWER].push_values(&values);
    }

    /// All that was sent of this QP is recorded.
    fn recorded(&self, qp: usize) -> bool {
        let taken = &self.sources[SENT].cycles;
        let beats = self.qps[qp].sent_beats;
        beats <= taken.len() && (beats == 0 || taken[beats - 1] + 3 <= self.sim.cycles())
    }

    /// A QP in the error state is flushed up to its producer's index.
    fn flush(&mut self, qp: usize, beyond: u16) {
        self.until("answers are not taken", |b| b.sources[ANSWER].left() == 0);
        self.until("sent packets are not taken", |b| b.sources[SENT].left() == 0);
        self.steps(30);
        let faults = self.qps[qp].faults;
        self.until("a fault does not come", |b| {
            b.sinks[FAULT].values("").iter().filter(|f| **f == qp as u64).count() == faults
        });
        self.set_state(qp, QpState::Err);
        let q = &mut self.qps[qp];
        // A message of which a part was sent has its WQE, too.
        let producer = q.sent_index.wrapping_add(beyond + u16::from(q.open.is_some()));
        while q.oldest_index != producer {
            q.done.push((0, 0, q.oldest_index, WcStatus::WrFlushErr.code(), 0));
            q.oldest_index = q.oldest_index.wrapping_add(1);
        }
        (q.dead, q.sent_index) = (true, producer);
        q.messages.clear();
        self.sources[FLUSH].push_values(&[("qp", qp as u128), ("producer", producer.into())]);
    }

    fn compare(&mut self) {
        self.until("what comes is not taken", |b| b.sources.iter().all(|s| s.left() == 0));
        self.steps(400);
        let seed = self.random.seed;
        for (i, qp) in self.qps.iter().enumerate() {
            let mut got: Vec<Done> = Vec::new();
            for item in &self.sinks[COMPLETION].items {
                let field = |name: &str| item[name].to_u64();
                if field("qpn") == i as u64 {
                    assert_eq!(field("cq"), i as u64);
                    let (opcode, status, syndrome) = (field("opcode"), field("status"), field("syndrome"));
                    let (bytes, index) = (field("byte_len") as u32, field("wqe_index") as u16);
                    got.push((opcode as u8, bytes, index, status as u8, syndrome as u8));
                }
            }
            let wrong = got.iter().zip(&qp.done).position(|(got, due)| got != due);
            let at = wrong.map(|w| (got[w], qp.done[w]));
            assert_eq!(at, None, "seed {seed}: QP {i}, completion {wrong:?}");
            assert_eq!(got.len(), qp.done.len(), "seed {seed}: QP {i}");
            assert_eq!(qp.told, qp.oldest_index, "seed {seed}: QP {i}'s oldest");
            let faults = self.sinks[FAULT].values("").iter().filter(|f| **f == i as u64).count();
            assert_eq!(faults, qp.faults, "seed {seed}: QP {i}");
        }
        assert_eq!(self.dropped, self.dropped_due, "seed {seed}");
        let under_way: usize = self.qps.iter().map(|q| q.messages.len()).sum();
        assert_eq!(self.pushed - self.freed, under_way, "seed {seed}: places");
    }

    /// All QPs from the start: nothing is left in the pool.
    fn end(&mut self) {
        self.compare();
        for qp in 0..self.qps.len() {
            self.set_state(qp, QpState::Reset);
            self.start(qp);
        }
        self.compare();
        assert_eq!(self.freed, self.pushed, "seed {}: places leak", self.random.seed);
    }
}

/// Random messages, answers, failures, flushes and starts.
fn play(bench: &mut Bench, turns: usize) {
    (0..QPS).for_each(|qp| bench.start(qp));
    for _ in 0..turns {
        let qp = bench.random.rng.random_range(0..QPS);
        let idle = bench.random.rng.random_range(0..4);
        bench.steps(idle);
        let q = bench.qps[qp].clone();
        // At its end it is flushed, or starts anew with messages left behind.
        if !q.runs || (q.dead && bench.random.chance(0.3)) || bench.random.chance(0.004) {
            if bench.random.chance(0.7) {
                let beyond = if bench.random.chance(0.5) { 0 } else { bench.random.rng.random_range(0..20) };
                bench.flush(qp, beyond);
                if bench.random.chance(0.2) {
                    let beyond = bench.random.rng.random_range(0..3);
                    bench.until("a flush is not taken", |b| b.sources[FLUSH].left() == 0);
                    bench.flush(qp, beyond);
                }
            }
            bench.until("answers are not taken", |b| b.sources.iter().all(|s| s.left() == 0));
            bench.steps(60);
            let faults = bench.qps[qp].faults;
            bench.until("a fault does not come", |b| {
                b.sinks[FAULT].values("").iter().filter(|f| **f == qp as u64).count() == faults
            });
            bench.until("a flush ends", |b| b.qps[qp].told == b.qps[qp].oldest_index);
            bench.set_state(qp, QpState::Reset);
            bench.start(qp);
            continue;
        }
        let failed = q.messages.back().is_some_and(|m| m.status != 0);
        if bench.random.chance(0.5) {
            if !failed && bench.may_send(qp) {
                while bench.random.chance(0.25) {
                    bench.send_part(qp);
                }
                // An answer to its first packets and its failure here could meet: either might come first.
                let may_fail = !q.dead && bench.sources[ANSWER].left() == 0;
                let fails = may_fail && bench.random.chance(0.02);
                let signaled = bench.random.chance(0.7);
                bench.send_end(qp, signaled, if fails { WcStatus::LocProtErr.code() } else { 0 });
            } else if !failed && q.open.is_none() && bench.random.chance(0.1) {
                bench.send_part(qp);
            }
            continue;
        }
        if !bench.recorded(qp) {
            continue;
        }
        let rng = &mut bench.random.rng;
        let last = q.messages.back().map_or(q.oldest_psn, |m| if m.status == 0 { m.last } else { m.first });
        let window = q.ahead(last);
        let psn = match rng.random_range(0..20) {
            0 => q.oldest_psn.wrapping_sub(rng.random_range(1..50)) % MODULUS,
            1 => (q.next_psn + rng.random_range(1000..MODULUS / 2)) % MODULUS,
            2..5 => last,
            // Mostly the oldest message, or any packet.
            5..15 => {
                q.messages.front().map_or(q.oldest_psn, |m| if m.status == 0 { m.last } else { m.first })
            }
            _ => (q.oldest_psn + rng.random_range(0..=window)) % MODULUS,
        };
        // One that is a ghost now must be one when its turn comes.
        if psn == q.next_psn {
            continue;
        }
        // The packets of a message that failed here are never answered: which comes first would be chance.
        let of_failed = failed && q.ahead(psn) >= q.ahead(q.messages.back().unwrap().first);
        if of_failed && q.ahead(psn) < q.ahead(q.next_psn) {
            continue;
        }
        let syndrome = match rng.random_range(0..60) {
            0 => rng.random_range(0x60..0x65),
            1 => 0x20 + rng.random_range(0..32),
            2 => [0x40, 0x80, 0xa0, 0xff][rng.random_range(0..4)],
            _ => rng.random_range(0..0x20),
        };
        match rng.random_range(0..40) {
            0 => {
                let other: [(&str, u128); 4] = [
                    ("src_ip", q.peer ^ 1),
                    ("ipv6", u128::from(!q.ipv6)),
                    ("opcode", Opcode::RcReadResponseOnly.code().into()),
                    ("dest_qpn", (qp + QPS) as u128),
                ];
                let other = other[rng.random_range(0..4)];
                bench.dropped_due += 1;
                bench.push_answer(qp, psn, syndrome, &[other]);
            }
            _ => bench.answer(qp, psn, syndrome),
        }
    }
}

#[test]
fn random_messages_end_once_and_in_order_with_their_cause() {
    for (stall, seed) in [(0.0, 1), (0.2, 2), (0.5, 3)] {
        let mut bench = bench(seed, stall);
        bench.sinks[COMPLETION].stall = (stall == 0.2).then_some(0.8);
        play(&mut bench, 4000);
        bench.end();
        let done = bench.sinks[COMPLETION].items.len();
        println!("{} cycles: {} messages, {done} completions", bench.sim.cycles(), bench.pushed);
        assert!(bench.pushed > 200, "the pool is used several times over: {}", bench.pushed);
    }
}

#[test]
fn a_reset_under_way_leaves_nothing_behind() {
    let mut first = bench(4, 0.1);
    play(&mut first, 300);
    first.sim.reset();
    let mut second = bench(5, 0.1);
    std::mem::swap(&mut first.sim, &mut second.sim);
    play(&mut second, 1000);
    second.end();
}

#[test]
fn a_queue_pair_at_its_limit_always_comes_back() {
    for (stall, seed) in [(0.0, 6), (0.4, 7)] {
        let mut bench = bench(seed, stall);
        (0..3).for_each(|qp| bench.start(qp));
        let mut sent = 0;
        bench.sources[ANSWER].stall = Some(0.0);
        for turn in 0..3000 {
            let qp = turn % 3;
            // As much as may be, then everything is acknowledged: one by one, or together.
            while bench.may_send(qp) {
                bench.send_end(qp, turn % 2 == 0, 0);
                sent += 1;
            }
            bench.step();
            if bench.recorded(qp) && bench.random.chance(0.3) {
                let messages = bench.qps[qp].messages.clone();
                let together = bench.random.chance(0.5);
                let skip = if together { messages.len().saturating_sub(1) } else { 0 };
                for message in messages.iter().skip(skip) {
                    bench.answer(qp, message.last, 0x1f);
                }
            }
        }
        assert!(sent > 1000, "seed {}: {sent} messages", bench.random.seed);
        bench.end();
    }
}

#[test]
fn a_start_waits_for_no_fault() {
    // The QP context takes no fault before an update that it has in hand, and so not before the start is taken.
    let mut bench = bench(8, 0.0);
    (0..QPS).for_each(|qp| bench.start(qp));
    bench.sinks[FAULT].stall = Some(1.0);
    for qp in 1..QPS {
        bench.send_end(qp, true, 0);
        bench.steps(5);
        let psn = bench.qps[qp].oldest_psn;
        bench.answer(qp, psn, 0x62);
    }
    bench.until("answers are not taken", |b| b.sources[ANSWER].left() == 0);
    bench.set_state(0, QpState::Reset);
    bench.start(0);
    bench.sinks[FAULT].stall = None;
    bench.end();
}

#[test]
fn an_answer_to_a_queue_pair_that_does_not_run_completes_nothing() {
    for state in [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Err] {
        let mut bench = bench(9, 0.0);
        bench.start(3);
        bench.send_end(3, true, 0);
        bench.steps(10);
        let psn = bench.qps[3].oldest_psn;
        bench.set_state(3, state);
        for syndrome in [0x1f, 0x62] {
            bench.answer(3, psn, syndrome);
        }
        bench.compare();
        assert_eq!((bench.dropped, bench.sinks[COMPLETION].items.len()), (2, 0), "{state}");
        // Nor does a failure that is found only now.
        bench.qps[3].runs = true;
        bench.send_end(3, true, 0);
        bench.qps[3].runs = false;
        bench.end();
    }
}

#[test]
fn a_flush_from_before_a_start_is_forgotten() {
    let mut bench = bench(10, 0.0);
    bench.start(2);
    for state in [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts] {
        match state {
            QpState::Rts => bench.start(2),
            state => bench.set_state(2, state),
        }
        bench.sources[FLUSH].push_values(&[("qp", 2), ("producer", 5)]);
        bench.steps(30);
    }
    bench.send_end(2, true, 0);
    bench.steps(10);
    let psn = bench.qps[2].oldest_psn;
    bench.answer(2, psn, 0x1f);
    bench.compare();
    assert_eq!(bench.sinks[COMPLETION].items.len(), 1);
}

#[test]
fn the_scheduler_learns_of_a_start_before_the_queue_pair_may_send() {
    let mut bench = bench(11, 0.0);
    bench.start(1);
    for i in 0..6 {
        bench.send_end(1, true, 0);
        bench.steps(8);
        if i < 2 {
            let psn = bench.qps[1].oldest_psn;
            bench.answer(1, psn, 0x1f);
        }
    }
    bench.steps(10);
    assert_eq!(bench.qps[1].told, 2);
    // Four messages are left behind: the row says so when the state is known at the latest.
    bench.set_state(1, QpState::Reset);
    bench.start(1);
    bench.step();
    assert_eq!(bench.qps[1].told, 0);
    bench.end();
}

#[test]
fn an_answer_with_a_foreign_partition_key_is_dropped() {
    let mut bench = bench(12, 0.0);
    bench.start(0);
    bench.send_end(0, true, 0);
    bench.steps(10);
    let psn = bench.qps[0].oldest_psn;
    bench.push_answer(0, psn, 0x1f, &[("pkey", 0xfffe)]);
    bench.dropped_due += 1;
    bench.compare();
    // A limited member may answer a full one.
    bench.qps[0].answer(psn, 0x1f);
    bench.push_answer(0, psn, 0x1f, &[("pkey", 0x7fff)]);
    bench.end();
}

#[test]
fn an_acknowledgement_a_message_takes_three_cycles() {
    for qps in [1, 8] {
        let cfg = RnicConfig {
            qps: QPS as u32,
            outstanding: 256,
            outstanding_per_qp: 128,
            ..RnicConfig::named("generic-8b").unwrap()
        };
        let mut bench = bench_of(&cfg, 13, 0.0);
        (0..qps).for_each(|qp| bench.start(qp));
        for i in 0..64 {
            bench.send_end(i % qps, true, 0);
        }
        bench.steps(140);
        // The next ones are recorded meanwhile.
        for i in 0..64 {
            bench.send_end(i % qps, true, 0);
        }
        for i in 0..64 {
            let psn = bench.qps[i % qps].oldest_psn;
            bench.answer(i % qps, psn, 0x1f);
        }
        bench.until("answers are not taken", |b| b.sources[ANSWER].left() == 0);
        let taken = &bench.sources[ANSWER].cycles;
        let most = taken.windows(2).map(|w| w[1] - w[0]).max();
        assert_eq!(most, Some(3), "{qps} queue pairs");
        bench.end();
    }
}

#[test]
fn other_answers_take_the_cycles_that_the_page_says() {
    let mut bench = bench(14, 0.0);
    bench.start(0);
    bench.send_part(0);
    (0..6).for_each(|_| bench.send_end(0, true, 0));
    bench.steps(40);
    let psn = bench.qps[0].oldest_psn;
    // A part of a message, a message, three messages, a duplicate, another message.
    for ahead in [0, 1, 4, 1, 5, 6] {
        bench.answer(0, (psn + ahead) % MODULUS, 0x1f);
    }
    bench.compare();
    let taken = &bench.sources[ANSWER].cycles;
    let cycles: Vec<u64> = taken.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(cycles, [3, 3, 5, 3, 3]);
    bench.end();
}
