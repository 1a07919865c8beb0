// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs with selective retransmission (`docs/src/selective.md`): responses with any opcode of a part, and acknowledgements that
//! come before the responses that they follow.

use super::*;
use crate::responder::{Class, Run};
use ferrowire_spec::queue::SendOpcode;
use ferrowire_spec::wire::opcode::Opcode;

const RUN: usize = 4;
const RNR: u8 = 0x21;

/// A message that has been sent.
#[derive(Clone, Debug)]
struct Sent {
    first: u32,
    last: u32,
    index: u16,
    /// Of a READ: its bytes. Of an atomic: none.
    read: Option<u32>,
    answered: bool,
    va: u64,
}

/// What a run should be: class, address, bytes.
type Place = (u64, Option<(u64, u64)>);

/// The requester of the contract.
#[derive(Clone, Debug, Default)]
struct Qp {
    peer: u64,
    runs: bool,
    messages: VecDeque<Sent>,
    next_psn: u32,
    oldest_psn: u32,
    next_index: u16,
    kept: Option<(u32, u8)>,
    asked: bool,
    paused: bool,
    /// What must have been seen of this life: ends with their status, restarts, and the sequence NAKs that counted.
    done: Vec<(u16, u8)>,
    restarts: Vec<bool>,
    /// How often an answer was kept, and taken up.
    waits: usize,
    taken_up: usize,
}

fn ahead(from: u32, psn: u32) -> u32 {
    psn.wrapping_sub(from) % MODULUS
}

impl Qp {
    fn is_ghost(&self, psn: u32) -> bool {
        ahead(self.oldest_psn, psn) >= ahead(self.oldest_psn, self.next_psn)
    }

    fn end(&mut self, status: u8) {
        let message = self.messages.pop_front().unwrap();
        self.done.push((message.index, status));
    }

    /// What lies before `upto` has arrived, up to a READ or an atomic that is not answered. Returns whether that is all.
    fn before(&mut self, upto: u32) -> bool {
        let start = self.oldest_psn;
        while let Some(message) = self.messages.front() {
            let (answered, last) = (message.answered, message.last);
            if answered || ahead(start, last) >= ahead(start, upto) {
                break;
            }
            self.end(0);
            self.oldest_psn = (last + 1) % MODULUS;
            self.asked = false;
        }
        let all = self.oldest_psn == upto || !self.messages.front().is_some_and(|m| m.answered);
        if all && self.oldest_psn != upto {
            self.oldest_psn = upto;
            self.asked = false;
        }
        all
    }

    fn acknowledge(&mut self, psn: u32, syndrome: u8) {
        if !self.runs || self.is_ghost(psn) {
            return;
        }
        let is_ack = syndrome < 0x20;
        if !self.before((psn + u32::from(is_ack)) % MODULUS) {
            self.waits += 1;
            if self.kept.is_none_or(|(kept, _)| ahead(kept, psn) < MODULUS / 2) {
                self.kept = Some((psn, syndrome));
            }
            return;
        }
        match syndrome {
            0..=0x1f => {}
            SEQUENCE if self.paused || self.asked => {}
            RNR if self.paused => {}
            SEQUENCE | RNR => {
                self.asked = syndrome == SEQUENCE;
                self.paused = syndrome == RNR;
                self.restarts.push(self.paused);
                self.kept = self.kept.filter(|(_, syndrome)| !matches!(*syndrome, SEQUENCE | RNR));
            }
            _ => {
                self.end(WcStatus::RemAccessErr.code());
                self.runs = false;
            }
        }
    }

    /// A response that is the next one; `right`: of the right length.
    fn respond(&mut self, psn: u32, bytes: u64, right: bool) -> Place {
        if !self.runs || self.is_ghost(psn) {
            return (Class::Stray.code().into(), None);
        }
        assert!(self.before(psn), "responses are in order: {psn:x} {self:x?}");
        let message = self.messages[0].clone();
        assert!(message.answered && self.oldest_psn == psn, "{psn:x} {self:x?}");
        let offset = 1024 * u64::from(ahead(message.first, psn));
        let class = if right { Class::Answer } else { Class::BadAnswer };
        let place = (right && bytes > 0).then_some((message.va.wrapping_add(offset), bytes));
        self.oldest_psn = (psn + 1) % MODULUS;
        self.asked = false;
        let ends = message.last == psn;
        if ends {
            self.end(0);
        }
        if let Some((kept, syndrome)) = self.kept {
            if ends || kept == self.oldest_psn {
                self.kept = None;
                self.taken_up += 1;
                self.acknowledge(kept, syndrome);
            }
        }
        (class.code().into(), place)
    }
}

struct Cards {
    sim: Sim,
    sources: [Source; 4],
    sinks: [Sink; 5],
    random: Random,
    stall: f64,
    qps: Vec<Qp>,
    places: Vec<Place>,
    /// The next message's PSN of which something is missing, as the keeper of responses counts.
    responses: Vec<VecDeque<Sent>>,
    base: Vec<u32>,
    /// What was told: PSN and number; whether something newer was told than by the last time that the QP was named.
    words: Vec<(u32, u64)>,
    told: Vec<(u32, u64)>,
    due: Vec<bool>,
    seen: [usize; 2],
    resets: u64,
    implied: u64,
}

fn cards(cfg: &RnicConfig, seed: u64, stall: f64) -> Cards {
    let mut sim = Sim::new(&netlist(cfg));
    sim.reset();
    sim.set("value_ready", 1);
    // What answers bring is placed at once.
    sim.set("outcome_valid", 1);
    let qps = cfg.qps as usize;
    let mut sinks = [
        Sink::new("completion", &Completion::of(cfg)),
        Sink::new("fault", &bits(cfg.qp_bits())),
        Sink::new("kick", &bits(cfg.qp_bits())),
        Sink::new("restart", &Restart::of(cfg)),
        Sink::new("run", &Run::of(cfg)),
    ];
    sinks[RESTART].stall = Some(0.0);
    let mut cards = Cards {
        sim,
        sources: [
            Source::new("start", &SqStart::of(cfg)),
            Source::new("sent", &super::Sent::of(cfg)),
            Source::new("answer", &Headers::of()),
            Source::new("flush", &Flush::of(cfg)),
        ],
        sinks,
        random: Random::new(seed),
        stall,
        qps: vec![Qp::default(); qps],
        places: Vec::new(),
        responses: vec![VecDeque::new(); qps],
        base: vec![0; qps],
        words: vec![(0, 0); qps],
        told: vec![(0, 0); qps],
        due: vec![false; qps],
        seen: [0; 2],
        resets: 0,
        implied: 0,
    };
    (0..2 * qps).for_each(|_| cards.step());
    cards
}

impl Cards {
    fn step(&mut self) {
        self.sim.set("tick", u64::from(self.sim.cycles() % TICK == 0));
        let Cards { sim, sources, sinks, random, stall, .. } = self;
        step(sim, sources, sinks, random, *stall);
        let seed = self.random.seed;
        if self.sim.get("oldest_enable") == 1 {
            let qp = self.sim.get("oldest_index") as usize;
            let word = (self.sim.get("oldest_entry_psn") as u32, self.sim.get("oldest_entry_told"));
            self.due[qp] |= word.0 != self.words[qp].0;
            self.words[qp] = word;
        }
        if self.sim.get("eased") == 1 {
            let qp = self.sim.get("eased_qp") as usize;
            let (now, then) = (self.words[qp], self.told[qp]);
            assert!(now.0 == then.0 || now.1 != then.1, "seed {seed}: QP {qp} is named for nothing new");
            (self.due[qp], self.told[qp]) = (false, now);
        }
        self.implied += self.sim.get("counts_implied_naks");
    }

    fn settle(&mut self) {
        let mut waited = 0;
        while self.sources.iter().any(|s| s.left() > 0) {
            self.step();
            waited += 1;
            assert!(waited < 20_000, "seed {}: what comes is not taken", self.random.seed);
        }
        let more = if self.stall > 0.0 { 400 } else { 120 };
        (0..more).for_each(|_| self.step());
    }

    fn set_state(&mut self, qp: usize, state: QpState) {
        self.sim.set("broadcast_state_enable", 1);
        self.sim.set("broadcast_state_index", qp as u64);
        self.sim.set("broadcast_state_entry", state.code().into());
        self.step();
        self.sim.set("broadcast_state_enable", 0);
    }

    fn start(&mut self, qp: usize) {
        self.settle();
        let rng = &mut self.random.rng;
        let peer = u64::from(rng.random::<u8>());
        let psn = if rng.random() { MODULUS - rng.random_range(1..40) } else { rng.random_range(0..MODULUS) };
        self.set_state(qp, QpState::Reset);
        self.resets += 1;
        let fields = [
            ("send_cq", 3),
            ("mtu", 3),
            ("pkey", 0xffff),
            ("peer", peer),
            ("gid", 5),
            ("timeout", 0),
            ("retry_cnt", 7),
            ("rnr_retry", 7),
            ("selective", 1),
        ];
        for (name, value) in fields {
            self.sim.set(&format!("broadcast_attributes_entry_{name}"), value);
        }
        self.sim.set("broadcast_attributes_index", qp as u64);
        self.sim.set("broadcast_attributes_enable", 1);
        self.step();
        self.sim.set("broadcast_attributes_enable", 0);
        self.settle();
        assert_eq!(self.sim.get("marks"), self.resets, "seed {}: the life before ends", self.random.seed);
        self.sources[START].push_values(&[("qp", qp as u128), ("psn", psn.into())]);
        self.settle();
        self.set_state(qp, QpState::Rts);
        self.sinks.iter_mut().for_each(Sink::clear);
        self.places.clear();
        self.seen = [0; 2];
        for other in &mut self.qps {
            (other.done, other.restarts) = (Vec::new(), Vec::new());
        }
        let (waits, taken_up) = (self.qps[qp].waits, self.qps[qp].taken_up);
        let new = Qp { peer, runs: true, next_psn: psn, oldest_psn: psn, waits, taken_up, ..Qp::default() };
        self.qps[qp] = new;
        self.responses[qp].clear();
        self.words[qp].0 = psn;
        self.told[qp] = self.words[qp];
        self.due[qp] = false;
    }

    /// A message of some packets: a SEND or WRITE, an atomic, or a READ.
    fn send(&mut self, qp: usize, kind: u32) {
        let rng = &mut self.random.rng;
        let packets = if kind == 1 { 1 } else { rng.random_range(1..=5u32) };
        let rest = rng.random_range(1..=1024);
        let length =
            (packets - 1) * 1024 + if packets == 1 && rng.random_range(0..4) == 0 { 0 } else { rest };
        let opcode = match kind {
            0 => rng.random_range(0..4u8),
            1 => SendOpcode::CmpSwap.code(),
            _ => SendOpcode::Read.code(),
        };
        let va = rng.random::<u64>() >> 1;
        let q = &mut self.qps[qp];
        let (first, index) = (q.next_psn, q.next_index);
        let last = (first + packets - 1) % MODULUS;
        (q.next_psn, q.next_index) = ((last + 1) % MODULUS, index.wrapping_add(1));
        let answered = kind > 0;
        let message = Sent { first, last, index, read: (kind == 2).then_some(length), answered, va };
        q.messages.push_back(message.clone());
        if answered {
            if self.responses[qp].is_empty() {
                self.base[qp] = first;
            }
            self.responses[qp].push_back(message);
        }
        // A READ is a packet, though it has many PSNs.
        for k in if kind == 2 { packets - 1..packets } else { 0..packets } {
            let values = [
                ("qp", qp as u128),
                ("psn", ((first + k) % MODULUS).into()),
                ("index", index.into()),
                ("fresh", 1),
                ("last", u128::from(k == packets - 1)),
                ("signaled", 1),
                ("wqe_opcode", opcode.into()),
                ("length", length.into()),
                ("answered", answered.into()),
                ("sge_va", va.into()),
                ("sge_length", length.max(8).into()),
            ];
            self.sources[SENT].push_values(&values);
        }
    }

    fn answer(&mut self, qp: usize, opcode: Opcode, psn: u32, syndrome: u8, bytes: u64) {
        let values = [
            ("opcode", opcode.code().into()),
            ("dest_qpn", qp as u128),
            ("psn", psn.into()),
            ("syndrome", syndrome.into()),
            ("origin_from_peer", 1),
            ("origin_peer", self.qps[qp].peer.into()),
            ("gid", 5),
            ("pkey", 0xffff),
            ("payload_bytes", bytes.into()),
        ];
        self.sources[ANSWER].push_values(&values);
    }

    fn acknowledge(&mut self, qp: usize, psn: u32, syndrome: u8) {
        self.answer(qp, Opcode::RcAcknowledge, psn, syndrome, 0);
        self.qps[qp].acknowledge(psn, syndrome);
    }

    /// The next response, or one that has come before, with any opcode that a part of the READ may have.
    fn respond(&mut self, qp: usize, again: bool) {
        let rng = &mut self.random.rng;
        let Some(message) = self.responses[qp].front().cloned() else { return };
        let psn = if again {
            self.qps[qp].oldest_psn.wrapping_sub(rng.random_range(1..20)) % MODULUS
        } else {
            self.base[qp]
        };
        let right = rng.random_range(0..30) > 0;
        let (opcode, bytes) = match message.read {
            None => (Opcode::RcAtomicAcknowledge, 8),
            Some(length) => {
                let opcodes = [
                    Opcode::RcReadResponseFirst,
                    Opcode::RcReadResponseMiddle,
                    Opcode::RcReadResponseLast,
                    Opcode::RcReadResponseOnly,
                ];
                let rest = length - 1024 * ahead(message.first, self.base[qp]);
                let bytes = rest.min(1024) + u32::from(!right);
                (opcodes[rng.random_range(0..4)], bytes)
            }
        };
        let right = right || message.read.is_none();
        if !again {
            if psn == message.last {
                self.responses[qp].pop_front();
            }
            let next = self.responses[qp].front().map_or(psn + 1, |m| m.first);
            self.base[qp] = if psn == message.last { next } else { (psn + 1) % MODULUS };
        }
        // A response in the middle has no AETH: what stands there means nothing.
        let syndrome = if opcode == Opcode::RcReadResponseMiddle { 0x62 } else { ACK };
        self.answer(qp, opcode, psn, syndrome, bytes.into());
        let place = self.qps[qp].respond(psn, bytes.into(), right);
        self.places.push(place);
    }

    fn compare(&mut self) {
        self.settle();
        // A pause ends.
        let seed = self.random.seed;
        let mut waited = 0;
        while self.qps.iter().any(|q| q.paused) {
            self.step();
            waited += 1;
            assert!(waited < 2000, "seed {seed}: a pause does not end");
            for item in &self.sinks[RESTART].items[self.seen[0]..] {
                let qp = item["qp"].to_u64() as usize;
                let hold = !item["hold"].is_zero();
                if !hold && self.qps[qp].paused && self.qps[qp].restarts.last() == Some(&true) {
                    self.qps[qp].paused = false;
                    self.qps[qp].restarts.push(false);
                    self.qps[qp].asked = false;
                    let kept = self.qps[qp].kept;
                    self.qps[qp].kept = kept.filter(|(_, syndrome)| !matches!(*syndrome, SEQUENCE | RNR));
                }
            }
            let items = self.sinks[RESTART].items.iter();
            self.seen[0] = items.take_while(|item| item["qp"].to_u64() < QPS as u64).count();
        }
        self.settle();
        for (i, q) in self.qps.iter().enumerate() {
            let of = |sink: &Sink, name: &str| {
                let items = sink.items.iter().filter(|item| item[name].to_u64() == i as u64);
                items.cloned().collect::<Vec<_>>()
            };
            let ends = of(&self.sinks[COMPLETION], "qpn").into_iter();
            let ends = ends.map(|item| (item["wqe_index"].to_u64() as u16, item["status"].to_u64() as u8));
            assert_eq!(ends.collect::<Vec<_>>(), q.done, "seed {seed}: QP {i}: {q:x?}");
            let restarts = of(&self.sinks[RESTART], "qp").into_iter().map(|item| !item["hold"].is_zero());
            assert_eq!(restarts.collect::<Vec<_>>(), q.restarts, "seed {seed}: QP {i}: {q:x?}");
            if q.runs {
                assert_eq!(self.words[i].0, q.oldest_psn, "seed {seed}: QP {i}: {q:x?}");
                assert!(!self.due[i], "seed {seed}: QP {i} is not named: {q:x?}");
            }
        }
        let runs = self.sinks[RUN].items.iter();
        let places: Vec<Place> = runs
            .map(|run| {
                let (va, bytes) = (run["va"].to_u64(), run["bytes"].to_u64());
                (run["facts_class"].to_u64(), (bytes > 0).then_some((va, bytes)))
            })
            .collect();
        assert_eq!(places, self.places, "seed {seed}");
        assert_eq!(self.implied, 0, "seed {seed}: nothing is missing for ever");
    }
}

/// A card that has no time to lose, and one that has.
fn card(beat_bytes: u32) -> RnicConfig {
    RnicConfig { selective: true, beat_bytes, ..config(64, 16) }
}

#[test]
fn answers_wait_for_the_responses_before_them() {
    let (mut waits, mut taken_up, mut failed, mut forgotten) = (0, 0, 0, 0);
    for (seed, beat_bytes, stall) in [(1, 64, 0.0), (2, 8, 0.0), (3, 64, 0.4), (4, 8, 0.4), (5, 64, 0.1)] {
        let mut cards = cards(&card(beat_bytes), seed, stall);
        (0..QPS).for_each(|qp| cards.start(qp));
        for turn in 0..2500 {
            let qp = cards.random.rng.random_range(0..QPS);
            let runs = cards.qps[qp].runs;
            if cards.random.chance(if runs { 0.01 } else { 0.2 }) {
                // What was kept belongs to the life that ends.
                cards.compare();
                failed += usize::from(!runs);
                forgotten += usize::from(cards.qps[qp].kept.is_some());
                cards.start(qp);
            }
            if !cards.qps[qp].runs {
                continue;
            }
            let q = &cards.qps[qp];
            let (oldest, under_way) = (q.oldest_psn, ahead(q.oldest_psn, q.next_psn));
            match cards.random.rng.random_range(0..20) {
                0..8 if q.messages.len() < 7 => {
                    let kind = [0, 0, 1, 2, 2][cards.random.rng.random_range(0..5)];
                    cards.send(qp, kind);
                    // What is answered has been recorded.
                    cards.settle();
                }
                0..13 => cards.respond(qp, false),
                13 => cards.respond(qp, true),
                _ if under_way > 0 => {
                    let psn = oldest + cards.random.rng.random_range(0..under_way);
                    let syndrome = match cards.random.rng.random_range(0..100) {
                        0..4 => 0x62,
                        4..14 => SEQUENCE,
                        14..18 => RNR,
                        _ => ACK,
                    };
                    cards.acknowledge(qp, psn % MODULUS, syndrome);
                }
                _ => {}
            }
            // A pause ends before other answers come.
            if turn % 16 == 0 || cards.qps[qp].paused {
                cards.compare();
            }
        }
        cards.compare();
        waits += cards.qps.iter().map(|q| q.waits).sum::<usize>();
        taken_up += cards.qps.iter().map(|q| q.taken_up).sum::<usize>();
    }
    println!("{waits} answers waited, {taken_up} were taken up, {failed} failures, {forgotten} forgotten");
    assert!(waits > 500 && taken_up > 300 && failed > 8 && forgotten > 8);
}

#[test]
fn a_response_that_comes_early_makes_the_queue_pair_go_back() {
    for beat_bytes in [64, 8] {
        let mut cards = cards(&card(beat_bytes), 6, 0.0);
        cards.start(2);
        (0..2).for_each(|_| cards.send(2, 1));
        cards.settle();
        let psn = cards.qps[2].oldest_psn;
        // Nothing watches the responses here: the second one comes alone, and its value is dropped.
        cards.answer(2, Opcode::RcAtomicAcknowledge, (psn + 1) % MODULUS, ACK, 8);
        cards.settle();
        assert_eq!(cards.sinks[RESTART].values("hold"), [0]);
        assert_eq!((cards.implied, cards.words[2].0), (1, psn));
        assert_eq!(cards.sinks[RUN].values("facts_class"), [u64::from(Class::Stray.code())]);
        cards.implied = 0;
        cards.places.push((Class::Stray.code().into(), None));
        cards.qps[2].restarts.push(false);
        (0..2).for_each(|_| cards.respond(2, false));
        cards.compare();
        assert_eq!(cards.qps[2].done.len(), 2);
    }
}

#[test]
fn a_queue_pair_is_probed_while_something_is_not_acknowledged_but_not_in_a_pause() {
    let cfg = RnicConfig { clock_khz: 4000, ..card(64) };
    let mut cards = cards(&cfg, 7, 0.0);
    cards.sim.set("probe_time", 20);
    cards.sim.set("probe_ready", 1);
    let probes = |cards: &mut Cards, cycles: u32| {
        let mut seen = Vec::new();
        for _ in 0..cycles {
            if cards.sim.get("probe_valid") == 1 {
                seen.push(cards.sim.get("probe"));
            }
            cards.step();
        }
        seen
    };
    cards.start(3);
    assert_eq!(probes(&mut cards, 500), []);
    (0..2).for_each(|_| cards.send(3, 1));
    // After 80 cycles, and 160 more.
    assert_eq!(probes(&mut cards, 320), [3, 3]);
    cards.respond(3, false);
    assert_eq!(probes(&mut cards, 150), [3]);
    cards.respond(3, false);
    assert_eq!(probes(&mut cards, 500), []);
    cards.compare();
    // The peer is not ready for 4 ticks or so, and nothing is sent again here afterwards.
    cards.send(3, 1);
    cards.settle();
    let psn = cards.qps[3].oldest_psn;
    cards.acknowledge(3, psn, RNR);
    assert_eq!(probes(&mut cards, 500), []);
    cards.compare();
}
