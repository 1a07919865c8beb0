// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selective retransmission (`docs/src/selective.md`): queue pairs on a wire that loses and reorders packets.
//!
//! The bench is the scheduler, the completer, what decides which packets are sent again, and a peer of the contract. PSNs count from 0 here.

use super::*;
use ferrowire_spec::wire::opcode::Service;
use std::collections::BTreeMap;

/// Cycles after which a restart or an acknowledgement is obeyed for certain.
const SOON: u64 = 20;

/// Cycles without progress after which a queue pair goes back.
const PATIENCE: u64 = 3000;

#[derive(Clone, Debug)]
struct Message {
    opcode: SendOpcode,
    bytes: u32,
    remote_va: u64,
    sge_va: u64,
    bank: Option<u32>,
}

impl Message {
    fn answered(&self) -> bool {
        matches!(self.opcode, SendOpcode::Read | SendOpcode::FetchAdd)
    }

    fn psns(&self, mtu: u32) -> u32 {
        if self.opcode == SendOpcode::FetchAdd {
            1
        } else {
            self.bytes.div_ceil(mtu).max(1)
        }
    }

    fn packet(&self, first: bool, last: bool) -> Opcode {
        use Opcode::*;
        match (self.opcode, first, last) {
            (SendOpcode::Read, ..) => RcReadRequest,
            (SendOpcode::FetchAdd, ..) => RcFetchAdd,
            (SendOpcode::Send, true, true) => RcSendOnly,
            (SendOpcode::Send, true, _) => RcSendFirst,
            (SendOpcode::Send, _, true) => RcSendLast,
            (SendOpcode::Send, ..) => RcSendMiddle,
            (_, true, true) => RcWriteOnly,
            (_, true, _) => RcWriteFirst,
            (_, _, true) => RcWriteLast,
            _ => RcWriteMiddle,
        }
    }
}

/// A packet on the wire.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: u32,
    /// The last PSN that it covers.
    end: u32,
    distance: u32,
    ack_req: bool,
    again: bool,
}

enum Arrival {
    Request(Request),
    Ack { all_before: u32 },
    Response { at: u32, distance: u32 },
}

/// A queue pair, and its peer.
struct Side {
    selective: bool,
    start: u32,
    code: u32,
    mtu: u32,
    messages: Vec<Message>,
    /// The first PSN of each, and the one after all.
    firsts: Vec<u32>,
    /// The scheduler's.
    fetch: usize,
    /// It waits: for the completer to tell something, or for a READ.
    parked: Option<bool>,
    released: Option<u64>,
    /// The completer's, and what of it has been told.
    index: usize,
    oldest: u32,
    all_before: u32,
    reads: u32,
    told: u32,
    told_oldest: u32,
    /// What it was in the last cycles.
    past: VecDeque<u32>,
    /// READs that will be in memory, and those that are.
    placed: VecDeque<u64>,
    done: u32,
    progress: u64,
    /// The segmenter's: the PSN that comes next, and the one that has not been sent.
    at: u32,
    high: u32,
    held: bool,
    stopped: bool,
    /// When it last was to send nothing again, and when it last might.
    unsteady: u64,
    steady: u64,
    /// The peer's flow of requests, and the own one of responses.
    base: u32,
    early: BTreeMap<u32, Request>,
    answers: u32,
    early_answers: BTreeMap<u32, u32>,
    arrivals: Vec<(u64, Arrival)>,
    latest: u64,
}

impl Side {
    fn window(&self) -> u32 {
        ferrowire_spec::wire::report::window(128 << self.code)
    }

    fn total(&self) -> u32 {
        *self.firsts.last().unwrap()
    }

    fn message_of(&self, at: u32) -> usize {
        self.firsts.partition_point(|first| *first <= at) - 1
    }

    fn last_of(&self, index: usize) -> u32 {
        self.firsts[index + 1] - 1
    }

    fn psn(&self, at: u32) -> u64 {
        u64::from(self.start.wrapping_add(at) & 0xff_ffff)
    }

    /// Whether a PSN from there on, before `to`, has a response.
    fn has_response(&self, from: u32, to: u32) -> bool {
        from < to
            && (self.message_of(from)..self.messages.len())
                .any(|i| self.firsts[i] < to && self.messages[i].answered())
    }

    /// What the completer makes of what has come.
    fn advance(&mut self, now: u64, delay: u64) {
        while self.index < self.messages.len() {
            let (first, end) = (self.firsts[self.index], self.firsts[self.index + 1]);
            let answered = self.messages[self.index].answered();
            let come = if answered { self.answers } else { self.all_before };
            let oldest = come.clamp(first, end);
            if oldest > self.oldest {
                self.progress = now;
            }
            self.oldest = oldest;
            if oldest < end {
                break;
            }
            self.index += 1;
            self.reads += u32::from(answered);
            if answered {
                let before = self.placed.back().copied().unwrap_or(0);
                self.placed.push_back(before.max(now + delay));
            }
        }
    }
}

/// A packet that is to be sent again, in the order in which they are handed over.
#[derive(Debug)]
struct Wanted {
    qp: usize,
    at: u32,
    part: bool,
    probe: bool,
    distance: u32,
    context: u64,
}

#[derive(Default, Debug)]
struct Seen {
    fresh: u32,
    back: u32,
    repeats: u32,
    parts: u32,
    refused: u32,
    moved: u32,
    apart: u32,
    furthest: u32,
    /// READs that were too far away from the one before.
    far: u32,
    resumes: u32,
    /// Of these, those that wait for the completer, and for READs.
    parked: u32,
    for_reads: u32,
    full: u32,
    forgotten: u32,
}

impl Seen {
    fn add(&mut self, other: &Seen) {
        for (sum, more) in [
            (&mut self.fresh, other.fresh),
            (&mut self.back, other.back),
            (&mut self.repeats, other.repeats),
            (&mut self.parts, other.parts),
            (&mut self.refused, other.refused),
            (&mut self.moved, other.moved),
            (&mut self.apart, other.apart),
            (&mut self.furthest, other.furthest),
            (&mut self.far, other.far),
            (&mut self.parked, other.parked),
            (&mut self.full, other.full),
            (&mut self.forgotten, other.forgotten),
        ] {
            *sum += more;
        }
    }
}

struct World {
    bench: Bench,
    sides: Vec<Side>,
    wanted: VecDeque<Wanted>,
    handed: VecDeque<(usize, usize)>,
    restarts: VecDeque<(usize, bool)>,
    /// The first WQE handed over has had a packet.
    begun: bool,
    untold: VecDeque<usize>,
    loss: f64,
    /// Cycles on the wire, at most.
    delay: u64,
    /// If not zero, packets come in their order, and one in so many cycles.
    pace: u64,
    /// Chances of a packet that is sent again, and of a restart, in a cycle.
    again: f64,
    back: f64,
    stops: f64,
    others: f64,
    seen: Seen,
    charged: i64,
    operands: usize,
    turn: usize,
}

impl World {
    /// Queue pair 0 has not agreed.
    fn new(
        seed: u64,
        beat_bytes: u32,
        mut messages: impl FnMut(&mut Random, usize, u32) -> Vec<Message>,
    ) -> World {
        let cfg = RnicConfig {
            beat_bytes,
            selective: true,
            atomics: true,
            ..RnicConfig::named("generic-8b").unwrap()
        };
        let mut bench = Bench::of(seed, cfg);
        let mut sides = Vec::new();
        for qp in 0..QPS {
            let code = bench.random.rng.random_range(1..6);
            let rng = &mut bench.random.rng;
            let start = if rng.random() {
                rng.random_range(0..1 << 24)
            } else {
                (1 << 24) - rng.random_range(1..300)
            };
            let mtu = 128 << code;
            let messages = messages(&mut bench.random, qp, mtu);
            let mut firsts = vec![0];
            messages.iter().for_each(|message| firsts.push(firsts[firsts.len() - 1] + message.psns(mtu)));
            sides.push(Side {
                selective: qp != 0,
                start,
                code,
                mtu,
                messages,
                firsts,
                fetch: 0,
                parked: None,
                released: None,
                index: 0,
                oldest: 0,
                all_before: 0,
                reads: 0,
                told: 0,
                told_oldest: 0,
                past: VecDeque::new(),
                placed: VecDeque::new(),
                done: 0,
                progress: 0,
                at: 0,
                high: 0,
                held: false,
                stopped: false,
                unsteady: 0,
                steady: 0,
                base: 0,
                early: BTreeMap::new(),
                answers: 0,
                early_answers: BTreeMap::new(),
                arrivals: Vec::new(),
                latest: 0,
            });
        }
        let depth: u64 = bench.random.rng.random_range(2..20);
        for (qp, side) in sides.iter().enumerate() {
            let fields = [
                ("service", Service::Rc.code().into()),
                ("mtu", side.code.into()),
                ("max_rd_atomic", depth),
                ("selective", side.selective.into()),
            ];
            let Bench { sim, sources, sinks, random, .. } = &mut bench;
            for (name, value) in fields {
                sim.set(&format!("broadcast_attributes_entry_{name}"), value);
            }
            sim.set("broadcast_attributes_index", qp as u64);
            sim.set("broadcast_attributes_enable", 1);
            sim.set("starting_psn", side.psn(0));
            for (name, value) in
                [("index", 0), ("psn", side.psn(0)), ("first_psn", side.psn(0)), ("reads", 0), ("told", 0)]
            {
                sim.set(&format!("oldest_entry_{name}"), value);
            }
            sim.set("oldest_index", qp as u64);
            sim.set("oldest_enable", 1);
            sim.set("reads_done_index", qp as u64);
            sim.set("reads_done_entry", 0);
            sim.set("reads_done_enable", 1);
            step(sim, sources, sinks, random, 0.0);
            for enable in ["broadcast_attributes_enable", "oldest_enable", "reads_done_enable"] {
                sim.set(enable, 0);
            }
            sources[FETCHED].push_values(&[("qp", qp as u128), ("start", 1)]);
            (0..40).for_each(|_| step(sim, sources, sinks, random, 0.0));
            assert_eq!(sources[FETCHED].left(), 0);
        }
        bench.sinks.iter_mut().for_each(Sink::clear);
        let now = bench.sim.cycles();
        sides.iter_mut().for_each(|side| side.progress = now);
        World {
            bench,
            sides,
            wanted: VecDeque::new(),
            handed: VecDeque::new(),
            restarts: VecDeque::new(),
            begun: false,
            untold: VecDeque::new(),
            loss: 0.03,
            delay: 60,
            pace: 0,
            again: 0.05,
            back: 0.0005,
            stops: 0.0005,
            others: 0.3,
            seen: Seen::default(),
            charged: 0,
            operands: 0,
            turn: 0,
        }
    }

    fn wqe(&self, qp: usize, index: usize) -> Item {
        let message = &self.sides[qp].messages[index];
        let unit = SendWqe {
            opcode: message.opcode.code(),
            num_sge: 1,
            remote_va: message.remote_va,
            sge0_addr: message.sge_va,
            sge0_len: message.bytes,
            ..SendWqe::default()
        };
        let mut bytes = [0; 64];
        unit.emit(&mut bytes).unwrap();
        let fields = [("qp", qp as u128), ("index", index as u128), ("total", message.bytes.into())];
        let mut wqe = item(&Wqe::of(&self.bench.cfg), &fields);
        wqe.insert("unit".into(), Bits::from_bytes(512, &bytes));
        wqe
    }

    /// Some WQEs are fetched ahead, of the queue pairs in turn.
    fn fetch(&mut self) {
        if self.bench.sources[FETCHED].left() >= 4 {
            return;
        }
        self.turn = (self.turn + 1) % QPS;
        let qp = self.turn;
        let side = &self.sides[qp];
        let most = side.index + self.bench.cfg.outstanding_per_qp as usize;
        if side.fetch >= side.messages.len().min(most) || side.parked.is_some() || side.released.is_some() {
            return;
        }
        let index = side.fetch;
        let mut wqe = self.wqe(qp, index);
        if let Some(bank) = self.sides[qp].messages[index].bank {
            wqe.insert("banked".into(), Bits::new(1, 1));
            wqe.insert("bank".into(), Bits::new(2, bank.into()));
        }
        self.bench.sources[FETCHED].push(wqe);
        self.handed.push_back((qp, index));
        self.sides[qp].fetch += 1;
    }

    /// A packet that may be missing, or any.
    fn want(&mut self, qp: usize) {
        let rng = &mut self.bench.random.rng;
        let side = &self.sides[qp];
        let Side { base, answers, high, .. } = *side;
        let kind = rng.random_range(0..10);
        let (mut part, mut probe) = (false, false);
        let at = match kind {
            0 => rng.random_range(0..side.total()),
            1 => {
                probe = true;
                side.oldest
            }
            2..=5 => {
                let missing = (base..high.min(base + 200)).find(|at| !side.early.contains_key(at));
                let Some(missing) = missing else { return };
                missing
            }
            _ => {
                part = true;
                let is_missing = |at: &u32| {
                    side.messages[side.message_of(*at)].opcode == SendOpcode::Read
                        && !side.early_answers.contains_key(at)
                };
                let Some(missing) = (answers..base).find(is_missing) else { return };
                missing
            }
        };
        if at >= side.total() {
            return;
        }
        let index = side.message_of(at);
        let message = &side.messages[index];
        // The first PSN of a READ stands for all of it.
        let at = if message.answered() && !part && !probe { side.firsts[index] } else { at };
        let reads = message.answered() && at == side.firsts[index];
        let before = (side.index..index).rev().find(|i| side.messages[*i].answered());
        let distance = before.map_or(127, |before| (at - 1 - side.last_of(before)).min(127));
        let distance = if reads { distance } else { 0 };
        let (psn, offset) = (side.psn(at), u64::from(at - side.firsts[index]) * u64::from(side.mtu));
        let context = rng.random_range(0..8);
        let mut wqe = self.wqe(qp, index);
        for (name, bits, value) in [
            ("valid", 1, 1),
            ("probe", 1, probe.into()),
            ("part", 1, part.into()),
            ("first", 1, 1),
            ("psn", 24, psn),
            ("offset", 32, offset),
            ("context", 3, context),
            ("distance", 7, distance.into()),
        ] {
            wqe.insert(format!("repeat_{name}").into(), Bits::new(bits, value.into()));
        }
        self.bench.sources[REPEAT].push(wqe);
        self.wanted.push_back(Wanted { qp, at, part, probe, distance, context });
    }

    fn restart(&mut self, qp: usize, hold: bool) {
        let now = self.bench.sim.cycles();
        self.sides[qp].released = None;
        if hold {
            self.sides[qp].released = Some(now + self.bench.random.rng.random_range(50..300));
        }
        self.bench.sources[RESTART].push_values(&[("qp", qp as u128), ("hold", hold.into())]);
        self.restarts.push_back((qp, hold));
    }

    fn step(&mut self) {
        let now = self.bench.sim.cycles();
        self.fetch();
        let qp = self.bench.random.rng.random_range(0..QPS);
        if self.bench.sources[REPEAT].left() < 3
            && self.bench.random.chance(self.again)
            && self.sides[qp].selective
        {
            self.want(qp);
        }
        let side = &self.sides[qp];
        let stands = side.oldest < side.high && now > side.progress + PATIENCE;
        if side.released.is_none()
            && self.restarts.is_empty()
            && (stands || self.bench.random.chance(self.back))
        {
            self.sides[qp].progress = now;
            let hold = self.bench.random.chance(0.2);
            self.restart(qp, hold);
        }
        if self.sides[qp].released.is_some_and(|at| at <= now) && self.restarts.is_empty() {
            self.restart(qp, false);
        }
        let stopped = self.sides[qp].stopped;
        if self.bench.random.chance(if stopped { 0.02 } else { self.stops }) {
            self.sides[qp].stopped = !stopped;
            self.bench.sim.set("gate_index", qp as u64);
            self.bench.sim.set("gate_entry_shut", (!stopped).into());
            self.bench.sim.set("gate_entry_stop", (!stopped).into());
            self.bench.sim.set("gate_enable", 1);
        }
        let told = self.tell();
        let placed = self.place(now);
        let others = self.bench.random.chance(self.others);
        self.bench.sim.set("waiting_others", others.into());
        self.bench.sim.set("waiting_any", 0);

        let left = [FETCHED, RESTART].map(|source| self.bench.sources[source].left());
        let Bench { sim, sources, sinks, random, .. } = &mut self.bench;
        step(sim, sources, sinks, random, 0.2);
        for enable in ["oldest_enable", "reads_done_enable", "gate_enable"] {
            sim.set(enable, 0);
        }
        let went = [FETCHED, RESTART].map(|source| sources[source].left() < left[source]);
        // What was told is there from now on.
        if let Some(qp) = told {
            self.sides[qp].told_oldest = self.sides[qp].oldest;
            self.sides[qp].parked.take_if(|unheard| *unheard);
        }
        if let Some(qp) = placed {
            self.sides[qp].parked.take_if(|unheard| !*unheard);
        }
        for init in self.bench.sinks[MOVED].items.split_off(0) {
            self.moves(init["qp"].to_u64() as usize, init["psn"].to_u64());
        }
        let packet = self.bench.sinks[CANDIDATE].items.pop();
        let repeated = self.bench.sim.get("repeated_valid") == 1;
        let again = repeated && self.bench.sim.get("repeated_sent") == 1;
        if repeated {
            self.repeated(now, packet.as_ref().filter(|_| again));
        }
        match packet {
            Some(packet) if !again => self.packet(now, &packet),
            _ => assert!(packet.is_some() == again, "what was sent again is there"),
        }
        self.charged += self.bench.sim.get("charge_valid") as i64;
        if went[1] {
            let (qp, hold) = self.restarts.pop_front().unwrap();
            let side = &mut self.sides[qp];
            (side.at, side.held) = (side.told_oldest, hold);
        }
        for resume in self.bench.sinks[RESUME].items.split_off(0) {
            self.resume(&resume);
        }
        let mut forgotten = None;
        if went[0] {
            let (qp, index) = self.handed.pop_front().unwrap();
            forgotten = self.sides[qp].messages[index].bank.filter(|_| !self.begun);
            self.begun = false;
            self.seen.forgotten += u32::from(forgotten.is_some());
        }
        let sim = &mut self.bench.sim;
        let found = (sim.get("forgotten_valid") == 1).then(|| sim.get("forgotten_bank") as u32);
        assert_eq!(found, forgotten, "seed {}, cycle {now}: a bank", self.bench.random.seed);
        for qp in 0..QPS {
            let pending = self.restarts.iter().any(|restart| restart.0 == qp);
            let side = &mut self.sides[qp];
            side.past.push_back(side.told_oldest);
            if side.past.len() > SOON as usize {
                side.past.pop_front();
            }
            if side.at != side.high || side.held || side.stopped {
                side.unsteady = now;
            } else {
                side.steady = now;
            }
            if pending {
                side.unsteady = now;
            }
            self.arrivals(qp, now);
        }
    }

    /// The completer's word, for one queue pair a cycle.
    fn tell(&mut self) -> Option<usize> {
        let qp = self.untold.pop_front()?;
        let side = &mut self.sides[qp];
        side.told = (side.told + 1) % 32;
        let sim = &mut self.bench.sim;
        sim.set("oldest_index", qp as u64);
        for (name, value) in [
            ("index", side.index as u64),
            ("first_psn", side.psn(side.firsts[side.index])),
            ("psn", side.psn(side.oldest)),
            ("told", side.told.into()),
            ("reads", u64::from(side.reads % 32)),
        ] {
            sim.set(&format!("oldest_entry_{name}"), value);
        }
        sim.set("oldest_enable", 1);
        Some(qp)
    }

    fn place(&mut self, now: u64) -> Option<usize> {
        let is_due = |side: &Side| side.placed.front().is_some_and(|at| *at <= now);
        let qp = self.sides.iter().position(is_due)?;
        let side = &mut self.sides[qp];
        side.placed.pop_front();
        side.done += 1;
        self.bench.sim.set("reads_done_index", qp as u64);
        self.bench.sim.set("reads_done_entry", u64::from(side.done % 32));
        self.bench.sim.set("reads_done_enable", 1);
        Some(qp)
    }

    fn resume(&mut self, resume: &Item) {
        let of = |name: &str| resume[name].to_u64();
        let side = &mut self.sides[of("qp") as usize];
        side.fetch = of("index") as usize;
        side.parked = None;
        self.seen.resumes += 1;
        if of("limited") == 1 {
            let unheard = of("unheard") == 1;
            self.seen.for_reads += u32::from(!unheard);
            let now = if unheard { side.told } else { side.done % 32 };
            side.parked = (of("known") == u64::from(now)).then_some(unheard);
            self.seen.parked += u32::from(unheard);
        }
        assert!(of("start") == 0 && of("stands") == 0);
    }

    /// The responses' first missing PSN is this one now.
    fn moves(&mut self, qp: usize, psn: u64) {
        let side = &mut self.sides[qp];
        let at = ((psn as u32).wrapping_sub(side.start)) & 0xff_ffff;
        let what = format!("seed {}: QP {qp} moves to {at}", self.bench.random.seed);
        assert!(side.selective && at >= side.answers, "{what}");
        assert!(!side.has_response(side.answers, at), "{what}, and {} is missing", side.answers);
        assert!(side.messages[side.message_of(at)].answered() && side.firsts.contains(&at), "{what}");
        side.answers = at;
        self.seen.moved += 1;
    }

    /// What every packet has in common: returns the PSN, the last PSN and the distance.
    fn check(&mut self, now: u64, packet: &Item, part: bool) -> (usize, Request) {
        let of = |name: &str| packet[&*format!("packet_{name}")].to_u64();
        let qp = of("qp") as usize;
        let side = &self.sides[qp];
        let at = (of("psn") as u32).wrapping_sub(side.start) & 0xff_ffff;
        let index = side.message_of(at);
        let message = &side.messages[index];
        let what = format!("seed {}, cycle {now}: QP {qp}, PSN {at} of {message:?}", self.bench.random.seed);
        let (first, last) = (at == side.firsts[index], at == side.last_of(index));
        let reads = message.answered();
        let offset = u64::from(at - side.firsts[index]) * u64::from(side.mtu);
        let rest = u64::from(message.bytes) - offset;
        let end = if message.opcode == SendOpcode::Read && !part { side.last_of(index) } else { at };
        let length = match (message.opcode, part) {
            (SendOpcode::Read, true) => rest.min(side.mtu.into()),
            (SendOpcode::Read, false) => rest,
            _ => message.bytes.into(),
        };
        let expected = [
            ("index", index as u64),
            ("status", 0),
            ("opcode", message.packet(first, last).code().into()),
            ("last", u64::from(last || reads)),
            ("last_psn", side.psn(end)),
            ("answered", reads.into()),
            ("bytes", if reads { 0 } else { rest.min(side.mtu.into()) }),
            ("length", length),
            ("start", 0),
        ];
        for (name, wanted) in expected {
            assert_eq!(of(name), wanted, "{what}: {name}");
        }
        if packet["begins"].to_u64() == 1 {
            assert_eq!(packet["sge_va"].to_u64(), message.sge_va.wrapping_add(offset), "{what}");
        }
        self.charged -= 1;
        self.operands += usize::from(message.opcode == SendOpcode::FetchAdd);
        let request = Request {
            at,
            end,
            distance: of("distance") as u32,
            ack_req: of("ack_req") == 1,
            again: of("again") == 1,
        };
        assert!(request.distance == 0 || (reads && first && side.selective), "{what}: {request:?}");
        (qp, request)
    }

    /// What comes of a packet that was to be sent again.
    fn repeated(&mut self, now: u64, packet: Option<&Item>) {
        let of = |name: &str| self.bench.sim.port(&format!("repeated_{name}"));
        let [qp, psn, context, probe, high] = ["qp", "psn", "context", "probe", "high"].map(of);
        let [qp, psn, context, probe, high] =
            [qp, psn, context, probe, high].map(|port| self.bench.sim.get_at(port));
        let wanted = self.wanted.pop_front().expect("it was wanted");
        let side = &self.sides[wanted.qp];
        let what = format!("seed {}, cycle {now}: {wanted:?}", self.bench.random.seed);
        let found = (qp, psn, context, probe, high);
        let told =
            (wanted.qp as u64, side.psn(wanted.at), wanted.context, wanted.probe.into(), side.psn(side.high));
        assert_eq!(found, told, "{what}");
        let was_oldest = side.past.front().copied().unwrap_or(0);
        let Some(packet) = packet else {
            let gone = wanted.at < side.told_oldest || wanted.at >= side.high;
            assert!(gone || now - side.unsteady < SOON, "{what}: nothing keeps it back");
            self.seen.refused += 1;
            return;
        };
        assert!(now - side.steady < SOON, "{what}: the queue pair goes back, or must wait");
        assert!(wanted.at >= was_oldest, "{what}: acknowledged");
        assert!(wanted.at < side.high, "{what}: never sent");
        let (qp, request) = self.check(now, packet, wanted.part);
        assert_eq!((qp, request.at, request.distance), (wanted.qp, wanted.at, wanted.distance), "{what}");
        let marks =
            ["packet_fresh", "packet_again", "packet_ack_req", "begins"].map(|name| packet[name].to_u64());
        assert_eq!(marks, [0, 1, 1, 1], "{what}");
        self.seen.repeats += 1;
        self.seen.parts += u32::from(wanted.part);
        self.send(qp, now, request);
    }

    /// A packet in its turn.
    fn packet(&mut self, now: u64, packet: &Item) {
        let (qp, request) = self.check(now, packet, false);
        self.begun = true;
        let Request { at, end, distance, ack_req, again } = request;
        let side = &mut self.sides[qp];
        let what = format!("seed {}, cycle {now}: QP {qp}, {request:?}", self.bench.random.seed);
        assert_eq!(self.handed[0].0, qp, "{what}");
        assert!(at == side.at || (at > side.at && at <= side.told_oldest), "{what}: {} was due", side.at);
        let fresh = at == side.high;
        assert!(fresh || at < side.high, "{what}: {} is next", side.high);
        assert!(!side.held, "{what}");
        let marks = ["packet_fresh", "packet_again"].map(|name| packet[name].to_u64());
        assert_eq!(marks, [fresh.into(), (side.selective && !fresh).into()], "{what}");
        let index = side.message_of(at);
        let message = &side.messages[index];
        // A power of two that is no more than a quarter.
        let quarter = 1u64 << (side.window() / 4).ilog2();
        let ends_quarter = side.selective && (side.psn(at) + 1) % quarter == 0;
        let last = at == side.last_of(index) || message.answered();
        if !side.stopped {
            // One that is about to be stopped asks as well.
            assert!(ack_req || !(last || ends_quarter), "{what}");
        }
        if side.selective {
            let open = at < side.told_oldest || at - side.told_oldest < side.window();
            assert!(open, "{what}: {} is the oldest", side.told_oldest);
            self.seen.full += u32::from(at > side.told_oldest && at - side.told_oldest == side.window() - 1);
        }
        // What comes for the first time has the exact distance, or is the first that waits for an answer.
        let before = (0..index).rev().find(|i| side.messages[*i].answered());
        if message.answered() && side.selective && fresh {
            let exact = before.map(|before| at - 1 - side.last_of(before));
            assert!(distance == 0 || exact == Some(distance), "{what}: {exact:?}");
            self.seen.far += u32::from(exact.is_some_and(|exact| exact > 127));
        }
        self.seen.apart += u32::from(distance > 0 && distance < 127);
        self.seen.furthest += u32::from(distance == 127);
        side.at = end + 1;
        if fresh {
            side.high = end + 1;
            self.seen.fresh += 1;
        } else {
            self.seen.back += 1;
        }
        assert!(again != fresh || !side.selective);
        self.send(qp, now, request);
    }

    fn send(&mut self, qp: usize, now: u64, request: Request) {
        self.put(qp, now, Arrival::Request(request));
    }

    /// On the wire: what has not agreed loses nothing, and keeps its order.
    fn put(&mut self, qp: usize, now: u64, arrival: Arrival) {
        let side = &mut self.sides[qp];
        if side.selective && self.bench.random.chance(self.loss) {
            return;
        }
        let mut at = now + self.bench.random.rng.random_range(10..self.delay);
        if !side.selective || self.pace > 0 {
            at = at.max(side.latest + self.pace.max(1));
            side.latest = at;
        }
        side.arrivals.push((at, arrival));
    }

    fn arrivals(&mut self, qp: usize, now: u64) {
        while let Some(i) = self.sides[qp].arrivals.iter().position(|(at, _)| *at <= now) {
            match self.sides[qp].arrivals.remove(i).1 {
                Arrival::Request(request) => self.request(qp, now, request),
                Arrival::Ack { all_before } => {
                    let side = &mut self.sides[qp];
                    side.all_before = side.all_before.max(all_before);
                    self.learn(qp, now);
                }
                Arrival::Response { at, distance } => self.response(qp, now, at, distance),
            }
        }
    }

    /// The completer has heard something.
    fn learn(&mut self, qp: usize, now: u64) {
        let delay = self.bench.random.rng.random_range(1..80);
        self.sides[qp].advance(now, delay);
        if !self.untold.contains(&qp) {
            self.untold.push_back(qp);
        }
    }

    /// The peer gets a request.
    fn request(&mut self, qp: usize, now: u64, request: Request) {
        let side = &mut self.sides[qp];
        if request.end < side.base {
            let all_before = side.base;
            self.answer(qp, now, request);
            if request.ack_req {
                self.put(qp, now, Arrival::Ack { all_before });
            }
            return;
        }
        if request.at > side.base {
            assert!(side.selective, "seed {}: PSN {} is missing", self.bench.random.seed, side.base);
            if request.at - side.base < 256 {
                side.early.insert(request.at, request);
            }
            return;
        }
        let mut next = Some(request);
        while let Some(request) = next {
            self.sides[qp].base = request.end + 1;
            self.answer(qp, now, request);
            if request.ack_req {
                self.put(qp, now, Arrival::Ack { all_before: request.end + 1 });
            }
            let side = &mut self.sides[qp];
            let base = side.base;
            side.early.retain(|_, early| early.end >= base);
            next = side.early.remove(&base);
        }
    }

    /// The responses of a READ or an atomic.
    fn answer(&mut self, qp: usize, now: u64, request: Request) {
        let side = &self.sides[qp];
        if !side.messages[side.message_of(request.at)].answered() {
            return;
        }
        for at in request.at..=request.end {
            let distance = if at == request.at { request.distance } else { 0 };
            self.put(qp, now, Arrival::Response { at, distance });
        }
    }

    fn response(&mut self, qp: usize, now: u64, at: u32, distance: u32) {
        let side = &mut self.sides[qp];
        let what = format!(
            "seed {}, cycle {now}: QP {qp}, response {at}, distance {distance}",
            self.bench.random.seed
        );
        if at < side.answers {
            return;
        }
        // No other response is among what it covers, and if none is missing before it, it is the next.
        let from = if side.selective { at.saturating_sub(distance) } else { side.answers };
        assert!(!side.has_response(from.max(side.answers), at), "{what}: {} is missing", side.answers);
        let is_next = from <= side.answers;
        assert!(is_next || side.has_response(side.answers, at), "{what}: {} is next", side.answers);
        if !is_next {
            side.early_answers.insert(at, from);
            return;
        }
        side.answers = at + 1;
        side.all_before = side.all_before.max(at);
        loop {
            let base = side.answers;
            side.early_answers.retain(|at, _| *at >= base);
            let Some((&at, _)) = side.early_answers.iter().find(|(_, from)| **from <= base) else { break };
            side.early_answers.remove(&at);
            side.answers = at + 1;
            side.all_before = side.all_before.max(at);
        }
        self.learn(qp, now);
    }

    /// Until all is acknowledged.
    fn run(&mut self, most: u64) {
        for _ in 0..most {
            if self.sides.iter().all(|side| side.index == side.messages.len()) && self.wanted.is_empty() {
                (0..5).for_each(|_| self.step());
                self.finish();
                return;
            }
            self.step();
        }
        let at: Vec<_> =
            self.sides.iter().map(|s| (s.oldest, s.at, s.high, s.total(), s.parked, s.fetch)).collect();
        panic!(
            "seed {}: (oldest, at, high, total, parked, fetch) {at:?}; {:?}",
            self.bench.random.seed, self.seen
        );
    }

    fn finish(&self) {
        let seed = self.bench.random.seed;
        assert_eq!(self.charged, 0, "seed {seed}: each packet is charged once");
        assert_eq!(self.bench.sinks[OPERANDS].items.len(), self.operands, "seed {seed}");
    }
}

fn message(random: &mut Random, opcode: SendOpcode, bytes: u32, banked: bool) -> Message {
    let rng = &mut random.rng;
    let bank = banked.then(|| rng.random_range(0..4));
    Message { opcode, bytes, remote_va: rng.random::<u64>() & !7, sge_va: rng.random(), bank }
}

/// Of all kinds, some longer than the window.
fn messages(random: &mut Random, qp: usize, mtu: u32) -> Vec<Message> {
    (0..40)
        .map(|_| {
            let kind = random.rng.random_range(0..10);
            let opcode = match kind {
                0..=2 => SendOpcode::Send,
                3..=5 => SendOpcode::Write,
                6..=8 => SendOpcode::Read,
                _ => SendOpcode::FetchAdd,
            };
            let packets = match random.rng.random_range(0..12) {
                0 if qp != 0 => random.rng.random_range(60..300),
                1..=4 => random.rng.random_range(2..30),
                _ => 1,
            };
            let bytes = if opcode == SendOpcode::FetchAdd {
                8
            } else {
                packets * mtu - random.rng.random_range(0..mtu)
            };
            let banked = opcode != SendOpcode::FetchAdd && random.chance(0.3);
            message(random, opcode, bytes, banked)
        })
        .collect()
}

#[test]
fn what_is_missing_is_sent_again_within_the_window_and_nothing_else() {
    let mut seen = Seen::default();
    for seed in 1..=40 {
        let beat_bytes = if seed % 3 == 0 { 8 } else { 64 };
        let mut world = World::new(seed, beat_bytes, messages);
        // Some wires lose nothing, or much; some queue pairs go back often.
        (world.loss, world.back) =
            [(0.03, 0.0005), (0.0, 0.0), (0.15, 0.0), (0.02, 0.005)][seed as usize % 4];
        world.delay = [60, 600, 200][seed as usize % 7 % 3];
        (world.others, world.stops) = [(0.3, 0.0005), (0.0, 0.0), (1.0, 0.0)][seed as usize % 5 % 3];
        world.run(1_000_000);
        println!("{beat_bytes} bytes a beat: {:?}", world.seen);
        seen.add(&world.seen);
    }
    println!("{seen:?}");
    assert!(seen.fresh > 40_000 && seen.back > 2_000 && seen.repeats > 4_000 && seen.parts > 500, "{seen:?}");
    assert!(seen.refused > 1_000 && seen.moved > 300 && seen.apart > 300 && seen.furthest > 10, "{seen:?}");
    assert!(seen.far > 10 && seen.full > 300 && seen.parked > 300 && seen.forgotten > 300, "{seen:?}");
}

/// One queue pair alone, on a wire that loses nothing.
fn alone(seed: u64, beat_bytes: u32, messages: impl Fn(&mut Random, u32) -> Vec<Message>) -> World {
    let of = |random: &mut Random, qp, mtu| if qp == 1 { messages(random, mtu) } else { Vec::new() };
    let mut world = World::new(seed, beat_bytes, of);
    (world.loss, world.again, world.back, world.stops, world.others) = (0.0, 0.0, 0.0, 0.0, 0.0);
    world
}

/// Messages that are longer than the window, and many short ones.
fn long(random: &mut Random, mtu: u32, banked: bool) -> Vec<Message> {
    let packets = [600, 1, 1, 1, 700].into_iter().chain([1; 300]);
    packets.map(|packets| message(random, SendOpcode::Write, packets * mtu, banked)).collect()
}

#[test]
fn a_queue_pair_at_the_end_of_its_window_keeps_its_wqes_while_nobody_else_wants_to_send() {
    for (seed, beat_bytes) in [(1, 8), (2, 64), (3, 64), (4, 64)] {
        let mut world = alone(seed, beat_bytes, |random, mtu| long(random, mtu, false));
        world.delay = 400;
        world.run(100_000);
        assert!(world.seen.full > 8, "seed {seed}: {:?}", world.seen);
        assert_eq!(world.seen.resumes, 0, "seed {seed}: nothing is fetched again");
    }
}

#[test]
fn a_queue_pair_at_the_end_of_its_window_makes_way_for_others_until_something_is_acknowledged() {
    for (seed, beat_bytes, banked) in [(1, 8, false), (2, 64, false), (3, 64, true), (4, 8, true)] {
        let mut world = alone(seed, beat_bytes, |random, mtu| long(random, mtu, banked));
        (world.delay, world.others) = (400, 1.0);
        world.run(100_000);
        let Seen { full, parked, for_reads, .. } = world.seen;
        assert!(full > 5 && parked > 5 && for_reads == 0, "seed {seed}: {:?}", world.seen);
    }
}

/// Each response opens it.
#[test]
fn reads_that_fill_the_window_wait_for_responses_and_not_for_their_ends() {
    for (seed, beat_bytes) in [(1, 8), (2, 64), (3, 64)] {
        let mut world = alone(seed, beat_bytes, |random, mtu| {
            (0..2).map(|_| message(random, SendOpcode::Read, 300 * mtu, false)).collect()
        });
        (world.others, world.pace) = (1.0, 4);
        while world.sides[1].high < 600 {
            world.step();
        }
        assert!(world.sides[1].index == 0 && world.sides[1].oldest > 40, "seed {seed}");
        world.run(20_000);
        let Seen { parked, for_reads, .. } = world.seen;
        assert!(parked > 0 && for_reads == 0, "seed {seed}: {:?}", world.seen);
    }
}

/// The host has written another WQE in its place: a program that does so harms itself, and nothing is executed twice.
#[test]
fn a_wqe_that_is_another_one_by_now_is_not_sent_again() {
    for beat_bytes in [8, 64] {
        let mut world = alone(7, beat_bytes, |random, mtu| {
            let mut message = |opcode, packets: u32| message(random, opcode, packets * mtu, false);
            vec![message(SendOpcode::Write, 9), message(SendOpcode::Write, 1), message(SendOpcode::Read, 1)]
        });
        world.loss = 1.0;
        (0..100).for_each(|_| world.step());
        assert_eq!(world.sides[1].high, 11);
        let before = world.bench.sinks[CANDIDATE].items.len();
        let (bytes, psn) = (9 * world.sides[1].mtu, world.sides[1].psn(5));
        for (opcode, length, sent) in [
            (SendOpcode::Write, bytes, 1),
            (SendOpcode::Write, bytes / 9 * 5, 0),
            (SendOpcode::Write, 0, 0),
            (SendOpcode::LocalInv, 0, 0),
            (SendOpcode::LocalInv, bytes, 0),
            (SendOpcode::FetchAdd, bytes, 0),
        ] {
            let unit = SendWqe { opcode: opcode.code(), sge0_len: length, num_sge: 1, ..SendWqe::default() };
            let mut unit_bytes = [0; 64];
            unit.emit(&mut unit_bytes).unwrap();
            let fields =
                [("qp", 1), ("total", length.into()), ("repeat_valid", 1), ("repeat_psn", psn.into())];
            let offset = [("repeat_offset", (5 * world.sides[1].mtu).into())];
            let mut wqe = item(&Wqe::of(&world.bench.cfg), &[&fields[..], &offset].concat());
            wqe.insert("unit".into(), Bits::from_bytes(512, &unit_bytes));
            let Bench { sim, sources, sinks, random, .. } = &mut world.bench;
            sources[REPEAT].push(wqe);
            let (mut told, before) = (Vec::new(), sinks[CANDIDATE].items.len());
            for _ in 0..30 {
                step(sim, sources, sinks, random, 0.0);
                if sim.get("repeated_valid") == 1 {
                    told.push(sim.get("repeated_sent"));
                }
            }
            assert_eq!(
                (told, sinks[CANDIDATE].items.len() - before),
                (vec![sent], sent as usize),
                "{opcode}, {length}"
            );
        }
        assert_eq!(world.bench.sinks[CANDIDATE].items.len(), before + 1);
    }
}
