// SPDX-License-Identifier: MIT OR Apache-2.0
//! The completer as a whole, recorder, tracker and timers, against a list of messages for each QP.
//!
//! The model follows event by event: an answer counts when it is taken, a report when the recorder has taken it, a time-out
//! when it is counted, the end of a pause when it is seen.

mod back;
mod credits;
mod cycles;
mod drains;
mod drive;
mod failures;
mod flushes;
mod lives;
mod marks;
mod model;
mod own;
mod pauses;
mod random;
mod selective;
mod withdrawn;

use self::model::{Done, Report, Requester};
use super::{completer, Flush, Headers, Input, QpBroadcast, Restart, RnicConfig, Sent, SqStart};
use crate::context::timer::{Departed, PROBE_BITS};
use crate::memory::Withdrawals;
use crate::requester::{messages, KeptSge};
use crate::responder::Outcome;
use crate::testing::{step, Random, Sink, Source};
use crate::types::{Completion, DmaReadData};
use ferrowire_rtl::{bits, build, Netlist, Sig, Sim, Stream};
use ferrowire_spec::csr::DropReason;
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::queue::cqe::WcStatus;
use rand::Rng;
use std::collections::VecDeque;

const QPS: usize = 8;
const LIMIT: u16 = 8;
const MODULUS: u32 = 1 << 24;

/// Cycles of a unit of the timers.
const TICK: u64 = 16;

/// Syndromes.
const ACK: u8 = 0x1f;
const SEQUENCE: u8 = 0x60;

/// The sources, in order.
const START: usize = 0;
const SENT: usize = 1;
const ANSWER: usize = 2;
const FLUSH: usize = 3;

/// The sinks, in order.
const COMPLETION: usize = 0;
const FAULT: usize = 1;
const KICK: usize = 2;
const RESTART: usize = 3;

fn netlist(cfg: &RnicConfig) -> Netlist {
    let net = build("top", |m| {
        let sent = m.stream_in("sent", &Sent::of(cfg));
        // A packet leaves for the wire as soon as it is told.
        let has_packet = sent.status.eq(0) & !crate::requester::is_local(cfg, sent.wqe_opcode);
        let leaves = m.delay("leaves", &(sent.fire() & has_packet));
        let departed = Stream::new(
            m,
            "departed",
            leaves,
            m.delay("leaving", &Departed { qp: sent.qp, fresh: sent.fresh }),
        );
        let input = Input {
            init: m.stream_in("start", &SqStart::of(cfg)),
            sent,
            departed,
            answers: m.stream_in("answer", &Headers::of()),
            flush: m.stream_in("flush", &Flush::of(cfg)),
            outcomes: m.stream_in("outcome", &Outcome::of()),
            kept: m.input_of("kept", &KeptSge::of(cfg)),
            data: m.stream_in("recalled", &DmaReadData::of(cfg)),
            late: m.input("late", 1),
            tick: m.input("tick", 1),
            probe: m.input("probe_time", PROBE_BITS),
            withdrawals: m.input_of("withdrawals", &Withdrawals::write_of(cfg)),
            over: m.stream_in("over", &bits(cfg.qp_bits())),
            query: m.input("query", cfg.qp_bits()),
        };
        let t = completer(m, cfg, m.input_of("broadcast", &QpBroadcast::of(cfg)), input);
        // One mark for each life that ends, behind its last completion; those of drains stand among the completions.
        let marker = t.completions.marker & !t.completions.solicited;
        let marks = m.reg("marks_seen", 16).reset(0);
        m.set(&marks, marks + (t.completions.fire() & marker).zext(16));
        m.output("marks", &marks);
        m.stream_out("completion", t.completions.discard_if(m, marker));
        let single = |_: &Sig| ferrowire_rtl::lit(1, 1);
        m.stream_out("fault", crate::stream::arbiter(m, &single, t.faults));
        m.stream_out("run", t.runs);
        m.stream_out("value", t.values);
        m.stream_out("recall", t.read);
        let single = |_: &Sig| ferrowire_rtl::lit(1, 1);
        m.stream_out("kick", crate::stream::arbiter(m, &single, t.kicks));
        t.eased.accept(ferrowire_rtl::lit(1, 1));
        m.output("eased", &m.delay("eased", &t.eased.valid));
        m.output("eased_qp", &m.delay("eased_qp", &t.eased.payload));
        m.output("reads_done", &m.delay("reads_done", &t.reads_done));
        m.stream_out("restart", t.restarts);
        // Pulses a cycle late: they may follow from inputs of the same cycle.
        m.output("oldest", &m.delay("oldest", &t.oldest));
        m.output("freed", &m.delay("freed", &t.freed));
        m.output("recovered", &m.delay("recovered", &t.recovered));
        m.output("credit", &m.delay("credit", &t.credit));
        m.output("marked", &m.delay("marked", &t.marked));
        m.output("counts", &m.delay("counts", &t.counts));
        m.output("next_psn", &t.next_psn);
        if let Some(probe) = t.probe {
            m.stream_out("probe", probe);
        }
    });
    net.unwrap_or_else(|e| panic!("{e}"))
}

struct Bench {
    sim: Sim,
    sources: [Source; 4],
    sinks: [Sink; 4],
    random: Random,
    stall: f64,
    limit: u16,
    room: usize,
    late: bool,
    /// Some messages have no packet.
    silent: bool,
    /// A restart is followed by some packets.
    resends: bool,
    /// Cycles that an event may wait for others, and of that an expiry.
    slack: u64,
    wait: u64,
    qps: Vec<Requester>,
    reports: VecDeque<(usize, Report)>,
    answers: VecDeque<Option<(usize, u32, u8)>>,
    dropped: u64,
    /// Why.
    reasons: Vec<DropReason>,
    dropped_due: u64,
    /// Answers that found a failure that was about to be handled.
    dropped_maybe: u64,
    spent: usize,
    freed: usize,
    credited: usize,
    forgotten: usize,
    timeouts: usize,
    kicks: usize,
    restarts: usize,
    faults: usize,
    completions: usize,
    resets: usize,
    /// What was told last of each QP's credits: whether there is a limit, and how many are left.
    words: Vec<(bool, u64)>,
    /// How often each was named for that.
    eased: Vec<u64>,
    /// ECN field of what is answered, and of how many of each it was said that they met congestion.
    ecn: u8,
    marked: Vec<u64>,
}

fn bench_of(cfg: &RnicConfig, seed: u64, stall: f64) -> Bench {
    let mut sim = Sim::new(&netlist(cfg));
    sim.reset();
    // Nobody waits for what answers bring.
    sim.set("run_ready", 1);
    let mut bench = Bench {
        sim,
        sources: [
            Source::new("start", &SqStart::of(cfg)),
            Source::new("sent", &Sent::of(cfg)),
            Source::new("answer", &Headers::of()),
            Source::new("flush", &Flush::of(cfg)),
        ],
        sinks: [
            Sink::new("completion", &Completion::of(cfg)),
            Sink::new("fault", &bits(cfg.qp_bits())),
            Sink::new("kick", &bits(cfg.qp_bits())),
            Sink::new("restart", &Restart::of(cfg)),
        ],
        random: Random::new(seed),
        stall,
        limit: cfg.outstanding_per_qp as u16,
        room: messages(cfg) as usize,
        late: false,
        silent: false,
        resends: true,
        slack: 600,
        wait: 40,
        qps: vec![Requester::default(); cfg.qps as usize],
        reports: VecDeque::new(),
        answers: VecDeque::new(),
        dropped: 0,
        reasons: Vec::new(),
        dropped_due: 0,
        dropped_maybe: 0,
        spent: 0,
        freed: 0,
        credited: 0,
        forgotten: 0,
        timeouts: 0,
        kicks: 0,
        restarts: 0,
        faults: 0,
        completions: 0,
        resets: 0,
        words: vec![(false, 0); cfg.qps as usize],
        eased: vec![0; cfg.qps as usize],
        ecn: 1,
        marked: vec![0; cfg.qps as usize],
    };
    // The model sees restarts in time.
    bench.sinks[RESTART].stall = Some(0.0);
    bench
}

fn config(outstanding: u32, per_qp: u32) -> RnicConfig {
    RnicConfig {
        qps: QPS as u32,
        outstanding,
        outstanding_per_qp: per_qp,
        fetch_batch: 1,
        ..RnicConfig::named("generic-8b").unwrap()
    }
}

/// A seed that is odd makes a card with time, another one without. A card that has selective retransmission treats other queue pairs alike.
fn bench(seed: u64, stall: f64) -> Bench {
    let beat_bytes = if seed % 2 == 1 { 8 } else { 64 };
    bench_of(&RnicConfig { beat_bytes, selective: seed % 4 < 2, ..config(32, LIMIT.into()) }, seed, stall)
}

impl Bench {
    fn step(&mut self) {
        let cycle = self.sim.cycles();
        self.sim.set("tick", u64::from(cycle % TICK == 0));
        self.sim.set("late", self.late.into());
        let sent = self.sources[SENT].cycles.len();
        let answered = self.sources[ANSWER].cycles.len();
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        let seed = self.random.seed;
        for i in self.restarts..self.sinks[RESTART].items.len() {
            let item = &self.sinks[RESTART].items[i];
            let (qp, hold) = (item["qp"].to_u64() as usize, !item["hold"].is_zero());
            self.restarted(qp, hold, cycle);
        }
        self.restarts = self.sinks[RESTART].items.len();
        self.pulses(cycle);
        self.completed();
        for _ in answered..self.sources[ANSWER].cycles.len() {
            match self.answers.pop_front().unwrap() {
                None => self.dropped_due += 1,
                Some((qp, psn, syndrome)) => {
                    let q = &mut self.qps[qp];
                    let settles = q.local() || q.overtaken();
                    let dropped = q.answer(psn, syndrome, cycle);
                    self.dropped_due += u64::from(dropped && !settles);
                    self.dropped_maybe += u64::from(settles);
                }
            }
        }
        for _ in sent..self.sources[SENT].cycles.len() {
            let (qp, report) = self.reports.pop_front().unwrap();
            let q = &mut self.qps[qp];
            if q.remembers {
                if matches!(report, Report::Failure(..)) {
                    q.quiet_until = cycle + 200;
                }
                q.record(report, cycle);
            } else {
                self.forgotten += usize::from(matches!(report, Report::Packet(_, true, Some(_))));
            }
        }
        for item in &self.sinks[FAULT].items[self.faults..] {
            let q = &mut self.qps[item[""].to_u64() as usize];
            if !q.dead && q.overtaken() {
                q.die();
            }
        }
        self.faults = self.sinks[FAULT].items.len();
        self.qps.iter_mut().for_each(|q| q.watch(cycle, self.slack, seed));
        for item in &self.sinks[KICK].items[self.kicks..] {
            let qp = &mut self.qps[item[""].to_u64() as usize];
            let room = self.limit - qp.sent_index.wrapping_sub(qp.told).min(self.limit);
            // One from before it came to its limit finds no room.
            qp.blocked &= room == 0;
        }
        self.kicks = self.sinks[KICK].items.len();
    }

    /// The host may use a WQE's place again as soon as it sees the completion: who checks its doorbells knows by then.
    fn completed(&mut self) {
        let seed = self.random.seed;
        let seen = std::mem::replace(&mut self.completions, self.sinks[COMPLETION].items.len());
        // Until all lives that have ended are marked, a completion may be of a former one.
        if (self.sim.get("marks") as usize) < self.resets {
            return;
        }
        for item in &self.sinks[COMPLETION].items[seen..] {
            let (qp, index) = (item["qpn"].to_u64() as usize, item["wqe_index"].to_u64() as u16);
            let q = &self.qps[qp];
            let known = !item["marker"].is_zero() || q.told.wrapping_sub(index) as i16 > 0;
            let what = format!("seed {seed}: QP {qp} completes {index:#x} before {:#x} is told", q.told);
            assert!(!q.remembers || known, "{what}");
        }
    }

    fn pulses(&mut self, cycle: u64) {
        let seed = self.random.seed;
        if self.sim.get("counts_dropped_valid") == 1 {
            self.dropped += 1;
            let reason = self.sim.get("counts_dropped_reason") as u8;
            self.reasons.push(DropReason::from_code(reason).unwrap());
        }
        self.freed += self.sim.get("freed") as usize;
        self.credited += self.sim.get("credit") as usize;
        assert!(
            self.freed + self.credited <= self.spent,
            "seed {seed}: a place comes back that was not taken"
        );
        if self.sim.get("marked_valid") == 1 {
            self.marked[self.sim.get("marked_qp") as usize] += 1;
        }
        if self.sim.get("eased") == 1 {
            self.eased[self.sim.get("eased_qp") as usize] += 1;
        }
        if self.sim.get("oldest_enable") == 1 {
            let (bounded, credits) =
                (self.sim.get("oldest_entry_bounded") == 1, self.sim.get("oldest_entry_credits"));
            self.words[self.sim.get("oldest_index") as usize] = (bounded, credits);
        }
        // Whatever is counted belongs to the QP whose oldest may be written.
        let q = &mut self.qps[self.sim.get("oldest_index") as usize];
        if self.sim.get("counts_timeouts") == 1 {
            self.timeouts += 1;
            q.time_out(cycle, self.wait, seed);
        }
        if self.sim.get("counts_errors") == 1 {
            q.fail(seed);
        }
        if self.sim.get("oldest_enable") == 1 {
            let (old_index, old_psn) = (q.told, q.told_psn);
            let first = self.sim.get("oldest_entry_first_psn") as u32;
            q.told = self.sim.get("oldest_entry_index") as u16;
            q.told_psn = self.sim.get("oldest_entry_psn") as u32;
            if q.runs && !q.dead && !q.overtaken() {
                let told = (q.told, first, q.told_psn);
                assert_eq!(Some(&first), q.firsts.get(usize::from(q.told)), "seed {seed}: {told:x?}: {q:x?}");
                let forward = |from: u32, to: u32| to.wrapping_sub(from) % MODULUS < MODULUS / 2;
                let ordered = forward(first, q.told_psn)
                    && forward(old_psn, q.told_psn)
                    && forward(q.told_psn, q.oldest_psn)
                    && q.told >= old_index;
                assert!(ordered, "seed {seed}: {told:x?} behind {old_index:x} {old_psn:x}: {q:x?}");
            }
        }
    }

    fn restarted(&mut self, qp: usize, hold: bool, cycle: u64) {
        let seed = self.random.seed;
        let q = &mut self.qps[qp];
        q.restart(hold, cycle, self.wait, seed);
        if !hold && self.resends && q.runs && !q.dead {
            let (from, all) = (q.oldest_psn, q.ahead(q.to_send));
            for k in 0..all.min(4) {
                self.send_again(qp, (from + k) % MODULUS);
            }
        }
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

    fn taken(&mut self, source: usize) {
        self.until("what comes is not taken", |b| b.sources[source].left() == 0);
    }

    fn set_state(&mut self, qp: usize, state: QpState) {
        self.resets += usize::from(state == QpState::Reset);
        self.sim.set("broadcast_state_enable", 1);
        self.sim.set("broadcast_state_index", qp as u64);
        self.sim.set("broadcast_state_entry", state.code().into());
        // What is taken in this cycle meets the new state.
        let q = &mut self.qps[qp];
        q.runs = matches!(state, QpState::Rts | QpState::Sqd);
        q.remembers = q.runs || state == QpState::Err;
        self.step();
        self.sim.set("broadcast_state_enable", 0);
        let q = &mut self.qps[qp];
        if !q.runs {
            q.fails = None;
        }
        if state == QpState::Reset {
            q.messages.clear();
            (q.oldest_index, q.sent_index) = (0, 0);
        }
    }

    /// A QP starts; its CQ has its number, its partition key is 0xffff. It sends again without end, but has no time-out.
    fn start(&mut self, qp: usize) {
        self.start_with(qp, 0, 7, 7);
    }

    fn start_with(&mut self, qp: usize, timeout: u8, retry_cnt: u8, rnr_retry: u8) {
        let rng = &mut self.random.rng;
        let peer = u64::from(rng.random::<u8>());
        let psn = if rng.random() { MODULUS - rng.random_range(1..20) } else { rng.random_range(0..MODULUS) };
        let fields = [
            ("send_cq", qp as u64),
            ("mtu", 3),
            ("pkey", 0xffff),
            ("peer", peer),
            ("gid", qp as u64 % 16),
            ("timeout", timeout.into()),
            ("retry_cnt", retry_cnt.into()),
            ("rnr_retry", rnr_retry.into()),
        ];
        for (name, value) in fields {
            self.sim.set(&format!("broadcast_attributes_entry_{name}"), value);
        }
        self.sim.set("broadcast_attributes_index", qp as u64);
        self.sim.set("broadcast_attributes_enable", 1);
        self.step();
        self.sim.set("broadcast_attributes_enable", 0);
        // It comes behind all that was sent before.
        self.taken(SENT);
        self.sources[START].push_values(&[("qp", qp as u128), ("psn", psn.into())]);
        self.taken(START);
        let old = &self.qps[qp];
        self.qps[qp] = Requester {
            peer,
            timeout,
            retry_cnt,
            rnr_retry,
            to_send: psn,
            next_psn: psn,
            oldest_psn: psn,
            told_psn: psn,
            firsts: vec![psn],
            done: old.done.clone(),
            faults: old.faults,
            told: old.told,
            ..Requester::default()
        };
        self.set_state(qp, QpState::Rts);
        assert_eq!(self.qps[qp].told, 0, "the start is known before the queue pair may send");
    }

    fn restart_life(&mut self, qp: usize) {
        self.set_state(qp, QpState::Reset);
        self.start(qp);
    }

    fn flush_pushed(&mut self, qp: usize, producer: u16) {
        self.sources[FLUSH].push_values(&[("qp", qp as u128), ("producer", producer.into())]);
    }

    /// A QP in the error state is flushed up to its producer's index.
    fn flush(&mut self, qp: usize, beyond: u16) {
        self.taken(ANSWER);
        self.taken(SENT);
        self.steps(30);
        self.faulted(qp);
        self.set_state(qp, QpState::Err);
        let q = &mut self.qps[qp];
        // A message of which a part was sent has its WQE, too.
        let producer = q.sent_index.wrapping_add(beyond + u16::from(q.open));
        while q.oldest_index != producer {
            q.done.push((0, 0, q.oldest_index, WcStatus::WrFlushErr.code(), 0));
            q.oldest_index = q.oldest_index.wrapping_add(1);
        }
        (q.dead, q.open, q.sent_index) = (true, false, producer);
        q.messages.clear();
        self.flush_pushed(qp, producer);
    }

    fn faulted(&mut self, qp: usize) {
        self.until("a fault does not come", |b| b.faults_of(qp) == b.qps[qp].faults);
    }

    fn faults_of(&self, qp: usize) -> usize {
        self.sinks[FAULT].values("").iter().filter(|f| **f == qp as u64).count()
    }

    /// `hold` of each restart of a QP.
    fn restarts_of(&self, qp: usize) -> Vec<bool> {
        let items = self.sinks[RESTART].items.iter().filter(|item| item["qp"].to_u64() == qp as u64);
        items.map(|item| !item["hold"].is_zero()).collect()
    }

    fn completions_of(&self, qp: usize) -> Vec<Done> {
        let mut got: Vec<Done> = Vec::new();
        for item in &self.sinks[COMPLETION].items {
            let field = |name: &str| item[name].to_u64();
            if field("qpn") == qp as u64 {
                assert_eq!(field("cq"), qp as u64);
                let (opcode, status, syndrome) = (field("opcode"), field("status"), field("syndrome"));
                let (bytes, index) = (field("byte_len") as u32, field("wqe_index") as u16);
                got.push((opcode as u8, bytes, index, status as u8, syndrome as u8));
            }
        }
        got
    }

    /// WQE, status and cause of the last completion.
    fn last_of(&self, qp: usize) -> (u16, WcStatus, u8) {
        let (.., index, status, cause) = *self.completions_of(qp).last().expect("a completion");
        (index, WcStatus::from_code(status).unwrap(), cause)
    }

    /// What has begun is done: no failure waits for its turn, no restart is due.
    fn settled(&self) -> bool {
        let due: usize = self.qps.iter().map(|q| q.done.len()).sum();
        let quiet = |q: &Requester| {
            let waits = q.local() || q.overtaken() || q.fails.is_some() || !q.restarts.is_empty();
            q.told == q.oldest_index && !(q.runs && !q.dead && waits)
        };
        self.sources.iter().all(|s| s.left() == 0)
            && self.sinks[COMPLETION].items.len() >= due
            && self.qps.iter().all(quiet)
    }

    fn compare(&mut self) {
        self.until("what comes is not taken", |b| b.sources.iter().all(|s| s.left() == 0));
        self.steps(400);
        self.until("what has begun does not end", Bench::settled);
        let seed = self.random.seed;
        for (i, qp) in self.qps.iter().enumerate() {
            let got = self.completions_of(i);
            let wrong = got.iter().zip(&qp.done).position(|(got, due)| got != due);
            let at = wrong.map(|w| (got[w], qp.done[w]));
            assert_eq!(at, None, "seed {seed}: QP {i}, completion {wrong:?}");
            assert_eq!(got.len(), qp.done.len(), "seed {seed}: QP {i}");
            assert!(!qp.runs || qp.dead || qp.told_psn == qp.oldest_psn, "seed {seed}: QP {i}'s oldest");
        }
        (0..self.qps.len()).for_each(|i| self.faulted(i));
        assert_eq!(self.sim.get("marks") as usize, self.resets, "seed {seed}: lives that have ended");
        let dropped = self.dropped_due..=self.dropped_due + self.dropped_maybe;
        assert!(dropped.contains(&self.dropped), "seed {seed}: {} dropped, not {dropped:?}", self.dropped);
        assert_eq!(self.credited, self.forgotten, "seed {seed}: what was forgotten");
        let under_way: usize = self.qps.iter().map(|q| q.messages.len()).sum();
        assert_eq!(self.spent - self.freed - self.credited, under_way, "seed {seed}: places");
    }

    /// All QPs from the start: nothing is left in the pool.
    fn end(&mut self) {
        self.compare();
        (0..self.qps.len()).for_each(|qp| self.restart_life(qp));
        self.compare();
        assert_eq!(self.freed + self.credited, self.spent, "seed {}: places leak", self.random.seed);
    }
}
