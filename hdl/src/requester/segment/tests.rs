// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random WQEs against a segmenter written from the specification (IBTA volume 1, 9.4.3, 9.7.2 and 9.7.5).
//!
//! The bench plays the scheduler, which fetches again from where it is told, and the completer, which goes on at random
//! and asks for restarts. What each cycle may bring follows from what went before: nothing is left to chance.

use super::*;
use crate::context::congestion::react::HEADERS;
use crate::testing::{item, step, Item, Random, Sink, Source};
use crate::types::QpAttributes;
use ferrowire_rtl::{build, Bits, Sim};
use ferrowire_spec::queue::send_wqe::SendWqe;
use model::{ahead, Fault, Place, Posted, Qp, SENDS};
use rand::Rng;
use std::collections::VecDeque;

mod again;
mod credits;
mod gate;
mod model;
mod plain;
mod reads;
mod selective;
mod services;
mod withdrawn;

const QPS: usize = 4;

// Sources.
const FETCHED: usize = 0;
const RESTART: usize = 1;
/// With selective retransmission.
const REPEAT: usize = 2;
// Sinks.
const CANDIDATE: usize = 0;
const RESUME: usize = 1;
const OPERANDS: usize = 2;
/// With selective retransmission.
const MOVED: usize = 3;

/// WQEs of a QP between its first packet and its last, or the place where it stops.
struct Go {
    /// None of its packets has come.
    begins: bool,
    /// Where in the message they begin.
    from: u64,
    /// It must not go on: others wait, and the quantum is used up, or a restart does.
    ends: bool,
    /// It may stop here.
    may_end: bool,
}

/// Who sends, and how many bytes since another did or it gave way, while others waited: at least and at most, for whether they did while a WQE of
/// another was at the head is left to chance.
#[derive(Clone, Copy, Default)]
struct Turn {
    qp: usize,
    least: u64,
    most: u64,
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    random: Random,
    qps: Vec<Qp>,
    /// QP and index of what has been handed over and is not back, oldest first; a start has no index.
    under_way: VecDeque<(usize, Option<u16>)>,
    /// Restarts that have not been taken.
    restarts: VecDeque<(usize, bool)>,
    /// What the QP that starts will be.
    starting: Qp,
    handed: u64,
    returned: u64,
    go: Option<Go>,
    turn: Turn,
    /// Whether others waited in the last cycles, this one last.
    others: VecDeque<bool>,
    /// A QP gave way behind a message.
    gave_way: u64,
    /// A resume that must come: QP, index, hold, start.
    told: Option<(usize, u16, bool, bool)>,
    /// It is of a restart.
    by_restart: bool,
    /// The oldest of the QPs in the last cycles, the present one last.
    past: VecDeque<Vec<Place>>,
    was_resuming: bool,
    /// A resume was taken in the last cycle: its WQE leaves in this one.
    has_resumed: bool,
    packets: u64,
    again: u64,
    /// Packets that have operands.
    operands: usize,
    /// WQEs that fell out.
    stale: u64,
    yields: u64,
    /// Binds and invalidations that were not executed again.
    passed: u64,
    refetch: bool,
    gates: gate::Gates,
}

impl Bench {
    fn new(seed: u64, beat_bytes: u32) -> Bench {
        Bench::of(seed, RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() })
    }

    fn of(seed: u64, cfg: RnicConfig) -> Bench {
        let cfg = RnicConfig { qps: QPS as u32, ..cfg };
        let netlist = build("bench", |m| {
            let withdrawals = m.wire_of("withdrawals", &Withdrawals::write_of(&cfg));
            let out = segment(
                m,
                &cfg,
                m.input_of("broadcast", &QpBroadcast::of(&cfg)),
                m.input_of("starting", &SqStart::of(&cfg)),
                m.stream_in("fetched", &Wqe::of(&cfg)),
                m.stream_in("restart", &Restart::of(&cfg)),
                m.input_of("oldest", &Oldest::write_of(&cfg)),
                m.input_of("reads_done", &crate::types::reads_done_of(&cfg)),
                m.input_of("waiting", &Waiting::of(&cfg)),
                m.input_of("gate", &Gate::write_of(&cfg)),
                m.input("paused", 8),
                m.input_of("handles", &AhEntry::write_of(&cfg)),
                withdrawals.clone(),
                cfg.selective.then(|| m.stream_in("repeat", &Wqe::of(&cfg))),
            );
            // What is taken back is over at once, or as the bench says.
            let counts = m.mem("counts", cfg.qps, &bits(WITHDRAWN_BITS)).style(Style::Distributed).build();
            let packet = &out.candidates.packet;
            let executed = out.candidates.fire() & packet.withdraws & packet.status.eq(0);
            let count = counts.read_now(packet.qp) + 1;
            counts.write(executed, packet.qp, &count);
            let told = m.input_of("told", &Withdrawals::write_of(&cfg));
            let over = !m.input("by_hand", 1);
            let entry = Withdrawals { count, open: lit(1, 0) };
            let by_itself = TableWrite { enable: executed & over, index: packet.qp, entry };
            m.set_all(&withdrawals, &m.mux(told.enable, &told, &by_itself));
            m.output("charge", &out.charge);
            m.output("another", &out.another);
            m.stream_out("candidate", out.candidates);
            m.stream_out("resume", out.resume);
            m.stream_out("operands", out.operands);
            // Of the cycle before, for that is over when the bench looks.
            m.output("forgotten", &m.delay("was_forgotten", &out.forgotten));
            m.output("repeated", &m.delay("was_repeated", &out.repeated));
            out.moved.into_iter().for_each(|moved| m.stream_out("moved", moved));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let mut sources =
            vec![Source::new("fetched", &Wqe::of(&cfg)), Source::new("restart", &Restart::of(&cfg))];
        // So that it is known from when on one waits.
        sources[RESTART].stall = Some(0.0);
        let mut sinks = vec![
            Sink::new("candidate", &Candidate::of(&cfg)),
            Sink::new("resume", &Resume::of(&cfg)),
            Sink::new("operands", &Operands::of()),
        ];
        sinks[OPERANDS].stall = Some(0.0);
        if cfg.selective {
            sources.push(Source::new("repeat", &Wqe::of(&cfg)));
            sinks.push(Sink::new("moved", &QpInit::of(&cfg)));
            sinks[MOVED].stall = Some(0.0);
        }
        let mut bench = Bench {
            cfg,
            sim,
            sources,
            sinks,
            random: Random::new(seed),
            qps: vec![Qp::default(); QPS],
            under_way: VecDeque::new(),
            restarts: VecDeque::new(),
            starting: Qp::default(),
            handed: 0,
            returned: 0,
            go: None,
            turn: Turn::default(),
            others: VecDeque::new(),
            gave_way: 0,
            told: None,
            by_restart: false,
            past: VecDeque::new(),
            was_resuming: false,
            has_resumed: false,
            packets: 0,
            again: 0,
            operands: 0,
            stale: 0,
            yields: 0,
            passed: 0,
            refetch: true,
            gates: gate::Gates::default(),
        };
        (0..QPS).for_each(|qp| bench.enter(qp, QpState::Rts));
        for qp in 0..QPS {
            let mtu = bench.random.rng.random_range(1..6);
            bench.start(qp, mtu);
        }
        bench
    }

    /// A queue pair has another state.
    fn enter(&mut self, qp: usize, state: QpState) {
        self.sim.set("broadcast_state_index", qp as u64);
        self.sim.set("broadcast_state_entry", state.code().into());
        self.sim.set("broadcast_state_enable", 1);
        self.sim.tick();
        self.sim.set("broadcast_state_enable", 0);
    }

    /// A start passes, behind everything that has been fetched.
    fn start(&mut self, qp: usize, mtu: u32) {
        // What is to be fetched again is of the life before, and comes before this.
        while self.told.is_some() || self.go.is_some() {
            self.step(0.0, false);
        }
        let rng = &mut self.random.rng;
        // Near the wrap as often as not.
        let psn =
            if rng.random() { rng.random_range(0..1 << 24) } else { (1 << 24) - rng.random_range(1..9) };
        let at = Place { index: 0, first_psn: psn, psn };
        let mtu_bytes = 128 << mtu;
        // What is still under way of the former life is cut up as it was.
        let busy = self.under_way.iter().any(|w| w.0 == qp);
        let sig_all = if busy { self.qps[qp].sig_all } else { rng.random() };
        assert!(!busy || self.qps[qp].mtu == mtu_bytes);
        self.starting =
            Qp { mtu: mtu_bytes, sig_all, psns: vec![psn], at, high: psn, oldest: at, ..Qp::default() };
        let fields = [("mtu", mtu.into()), ("sq_sig_all", sig_all.into()), ("priority", 2 * qp as u128)];
        for (path, bits) in item(&QpAttributes::of(&self.cfg), &fields) {
            self.sim.set_bits(&format!("broadcast_attributes_entry_{path}"), &bits);
        }
        self.sim.set("broadcast_attributes_index", qp as u64);
        self.sim.set("broadcast_attributes_enable", 1);
        self.sim.set("starting_qp", qp as u64);
        self.sim.set("starting_psn", psn.into());
        self.step(0.0, false);
        self.sim.set("broadcast_attributes_enable", 0);
        // What stands in the place of a WQE is of another one, or a half of one.
        let rng = &mut self.random.rng;
        let mut stale: [u8; 64] = rng.random();
        stale[0] = rng.random_range(5..10);
        let mut token = item(&Wqe::of(&self.cfg), &[("qp", qp as u128), ("start", 1)]);
        token.insert("unit".into(), Bits::from_bytes(512, &stale));
        self.sources[FETCHED].push(token);
        self.under_way.push_back((qp, None));
        while self.under_way.iter().any(|(_, index)| index.is_none()) {
            self.step(0.0, false);
        }
        // The completer's turn.
        self.oldest(qp, at, 0.0, false);
    }

    fn wqe(&mut self, bytes: u32) -> Posted {
        let fault = self.random.chance(0.15).then(|| {
            let all = [Fault::Read, Fault::Opcode, Fault::Large, Fault::Long];
            all[self.random.rng.random_range(0..all.len())]
        });
        let mut wqe = self.sound(bytes);
        let rng = &mut self.random.rng;
        let unit = &mut wqe.unit;
        match fault {
            Some(Fault::Opcode) => {
                // READs and atomics have tests of their own.
                while unit.opcode < 10 {
                    // Those that the format nearly knows as often as others.
                    unit.opcode = if rng.random() { rng.random_range(10..16) } else { rng.random() };
                }
            }
            Some(Fault::Large) => unit.inline = rng.random(),
            Some(Fault::Long) => {
                (unit.inline, wqe.total) = (false, rng.random_range((1 << 31) + 1..1 << 36));
            }
            Some(Fault::Read) | None => {}
        }
        Posted { fault, ..wqe }
    }

    /// With nothing wrong.
    fn sound(&mut self, bytes: u32) -> Posted {
        let rng = &mut self.random.rng;
        let unit = SendWqe {
            opcode: SENDS[rng.random_range(0..SENDS.len())].code(),
            signaled: rng.random(),
            solicited: rng.random(),
            imm: rng.random(),
            num_sge: rng.random(),
            inline: bytes <= 256 && rng.random(),
            inline_len: if bytes <= 256 { bytes as u16 } else { rng.random() },
            remote_va: rng.random(),
            rkey: rng.random(),
            sge0_addr: rng.random(),
            sge0_lkey: rng.random(),
            // The first of several, or all there is.
            sge0_len: if rng.random() { bytes } else { rng.random_range(0..=bytes) },
            ..SendWqe::default()
        };
        let total = if unit.inline { rng.random_range(0..1 << 36) } else { bytes.into() };
        let bank = rng.random::<bool>().then(|| rng.random_range(0..4));
        Posted { unit, total, bank, fault: None }
    }

    /// A bind or an invalidation.
    fn local(&mut self) -> Posted {
        let mut wqe = self.sound(0);
        let rng = &mut self.random.rng;
        (wqe.unit.opcode, wqe.unit.num_sge, wqe.unit.inline) = (rng.random_range(8..10), 0, false);
        wqe.total = 0;
        // Of a bind, its bytes, and whether the window is of type 1.
        (wqe.unit.compare_add, wqe.unit.rsvd0) = (rng.random_range(0..3), rng.random());
        wqe
    }

    /// Mostly of few packets.
    fn any(&mut self, qp: usize) -> Posted {
        if self.random.chance(0.25) {
            return self.local();
        }
        let (rng, mtu) = (&mut self.random.rng, self.qps[qp].mtu);
        let bytes = match rng.random_range(0..6) {
            0 => rng.random_range(0..3),
            1 => mtu * rng.random_range(1..4) + rng.random_range(0..3) - 1,
            2 => rng.random_range(20_000..60_000),
            _ => rng.random_range(0..3 * mtu),
        };
        self.wqe(bytes)
    }

    /// Hands a WQE over, as the fetch does.
    fn hand(&mut self, qp: usize, index: u16) {
        let wqe = &self.qps[qp].wqes[index as usize];
        let mut bytes = [0; 64];
        wqe.unit.emit(&mut bytes).unwrap();
        if wqe.fault == Some(Fault::Read) {
            bytes = [0xa5; 64];
        }
        let error = u128::from(wqe.fault == Some(Fault::Read));
        let fields = [("qp", qp as u128), ("index", index.into()), ("error", error)];
        let large = u128::from(wqe.fault == Some(Fault::Large));
        let more = [
            ("total", wqe.total.into()),
            ("too_large", large),
            ("banked", wqe.bank.is_some().into()),
            ("bank", wqe.bank.unwrap_or(0).into()),
        ];
        let mut fetched = item(&Wqe::of(&self.cfg), &[&fields[..], &more].concat());
        fetched.insert("unit".into(), Bits::from_bytes(512, &bytes));
        self.sources[FETCHED].push(fetched);
        self.under_way.push_back((qp, Some(index)));
        self.handed += 1;
    }

    /// A new WQE comes.
    fn post(&mut self, qp: usize, wqe: Posted) {
        let index = self.qps[qp].push(wqe);
        self.hand(qp, index);
    }

    fn restart(&mut self, qp: usize, hold: bool) {
        self.sources[RESTART].push_values(&[("qp", qp as u128), ("hold", hold.into())]);
        self.restarts.push_back((qp, hold));
    }

    /// The completer's oldest moves.
    fn oldest(&mut self, qp: usize, to: Place, stall: f64, others: bool) {
        self.qps[qp].oldest = to;
        self.sim.set("oldest_index", qp as u64);
        self.sim.set("oldest_entry_index", to.index.into());
        self.sim.set("oldest_entry_first_psn", to.first_psn.into());
        self.sim.set("oldest_entry_psn", to.psn.into());
        self.sim.set("oldest_enable", 1);
        self.step(stall, others);
        self.sim.set("oldest_enable", 0);
    }

    /// Cycles from the lookup of a QP to its first packet.
    fn lookup(&self) -> usize {
        if self.cfg.unhurried() {
            4
        } else {
            2
        }
    }

    fn step(&mut self, stall: f64, others: bool) {
        // The packet's QP is never the head of the line itself, unless nobody else waits.
        let head = self.under_way.front().map_or(0, |w| w.0 as u64);
        let by_head = others && self.random.chance(0.5);
        self.sim.set("waiting_any", u64::from(by_head || self.random.chance(0.5)));
        self.sim.set("waiting_head", if by_head { (head + 1) % QPS as u64 } else { head });
        self.sim.set("waiting_others", u64::from(others && !by_head));
        self.others.push_back(others);
        if self.others.len() > 3 {
            self.others.pop_front();
        }
        self.past.push_back(self.qps.iter().map(|q| q.oldest).collect());
        if self.past.len() > self.lookup() + 1 {
            self.past.pop_front();
        }
        let mut peek = |name: &str| self.sim.peek(&format!("bench.segment.{name}")).map(|bits| bits.to_u64());
        // One that is refused in its first cycle there is not passed over.
        let refused = ["stands_back", "is_behind"].iter().any(|why| peek(why).expect("a register") == 1);
        let skips = peek("skips").expect("a register") == 1 && peek("state") == Some(State::Send as u64);
        let skips = skips && !refused;
        let (packets, resumes) = (self.sinks[CANDIDATE].items.len(), self.sinks[RESUME].items.len());
        let left = [FETCHED, RESTART].map(|source| self.sources[source].left());
        let (sending, resuming) = (self.sim.get("candidate_valid") == 1, self.sim.get("resume_valid") == 1);
        if sending && self.go.is_none() {
            self.begin();
        }
        if resuming && !self.was_resuming && self.go.is_none() && self.told.is_none() {
            self.refuse();
        }
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, stall);
        if let Some(packet) = self.sinks[CANDIDATE].items.get(packets).cloned() {
            let of = |name: &str| packet[&*format!("packet_{name}")].to_u64();
            let with = [SendOpcode::CmpSwap, SendOpcode::FetchAdd, SendOpcode::LocalInv, SendOpcode::BindMw];
            let has = with.iter().any(|opcode| of("wqe_opcode") == u64::from(opcode.code()));
            self.operands += usize::from(has && of("start") == 0);
            self.packet(&packet, others, left[RESTART] > 0);
        }
        let sender = self.turn.qp as u64;
        let calm = if by_head { (head + 1) % QPS as u64 == sender } else { !others && head == sender };
        if calm || !others {
            self.turn.least = 0;
        }
        if calm {
            self.turn.most = 0;
        }
        let operands = self.sinks[OPERANDS].items.len();
        assert!(operands <= self.operands, "seed {}: operands of nothing", self.random.seed);
        self.gates.charged +=
            self.sim.get("charge_valid") * (self.sim.get("charge_bytes") + u64::from(HEADERS));
        let [finished, goes_back] =
            [FETCHED, RESTART].map(|source| self.sources[source].left() < left[source]);
        let resumed = self.sinks[RESUME].items.get(resumes).cloned();
        if let Some(resume) = &resumed {
            self.resume(resume);
        }
        self.was_resuming = resuming && resumed.is_none();
        if goes_back {
            let (qp, hold) = self.restarts.pop_front().unwrap();
            assert!(self.go.is_none() && self.told.is_none(), "seed {}: a restart", self.random.seed);
            let q = &mut self.qps[qp];
            (q.at, q.held) = (q.oldest, hold);
            self.told = Some((qp, q.oldest.index, hold, false));
            self.by_restart = true;
        }
        let mut forgotten = None;
        if finished {
            let (qp, index) = self.under_way.pop_front().unwrap();
            if skips {
                self.turn_of(qp);
            }
            let go = self.go.take();
            if skips {
                // Once is enough.
                let (oldest, q) = (self.past[0][qp], &mut self.qps[qp]);
                let index = index.expect("no start is passed over");
                let what = format!("seed {}: WQE {index} of QP {qp}, {:?}", self.random.seed, q.at);
                assert!(q.due(index, oldest) && q.wqes[usize::from(index)].is_local(), "{what}");
                assert!(index < q.begun, "{what} has not been executed");
                if q.behind(oldest) {
                    q.at = oldest;
                }
                let psn = q.at.first_psn;
                q.at = Place { index: index + 1, first_psn: psn, psn };
                self.passed += 1;
            } else if go.is_none() && !self.has_resumed {
                // It fell out.
                let (q, index) = (&self.qps[qp], index.expect("no start falls out"));
                let oldest = self.past[0][qp];
                let what = format!("seed {}: WQE {index} of QP {qp}, {:?}", self.random.seed, q.at);
                assert!(!q.due(index, oldest), "{what} was due: {oldest:?}, {}", q.held);
                self.stale += 1;
            }
            if let (None, Some(index)) = (go, index) {
                forgotten = self.qps[qp].wqes[index as usize].bank;
            }
            self.returned += u64::from(index.is_some());
        }
        self.has_resumed = resumed.is_some();
        let found = (self.sim.get("forgotten_valid") == 1).then(|| self.sim.get("forgotten_bank") as u32);
        assert_eq!(found, forgotten, "seed {}: a bank", self.random.seed);
    }

    /// A WQE of this QP is due.
    fn turn_of(&mut self, qp: usize) {
        if self.turn.qp != qp {
            self.turn = Turn { qp, ..Turn::default() };
        }
    }

    fn quantum(&self) -> u64 {
        u64::from(quantum(&self.cfg))
    }

    /// Its QP must, or may, give way to others before it: so it stood when it was looked up.
    fn gives_way(&mut self, qp: usize) -> (bool, bool) {
        let Turn { qp: sender, least, most } = self.turn;
        let stood = self.others[0] && sender == qp;
        self.turn_of(qp);
        (stood && least >= self.quantum(), stood && most >= self.quantum())
    }

    /// A WQE comes to its first packet: the row was looked at two cycles ago.
    fn begin(&mut self) {
        let (qp, index) = self.under_way[0];
        let spent = index.is_some() && self.gives_way(qp).0;
        let (oldest, q) = (self.past[0][qp], &mut self.qps[qp]);
        self.go = Some(Go { begins: true, from: 0, ends: false, may_end: false });
        let Some(index) = index else { return };
        let what = format!("seed {}: WQE {index} of QP {qp}, {:?}, {oldest:?}", self.random.seed, q.at);
        assert!(!q.held, "{what}: it is to hold");
        assert!(!self.gates.must_stop(qp), "{what}: it must not begin");
        assert!(!spent, "{what}: others wait");
        assert!(q.due(index, oldest), "{what}: not due");
        assert!(!q.full(oldest), "{what}: too much is not acknowledged");
        if q.behind(oldest) {
            q.at = Place { psn: oldest.first_psn, ..oldest };
        }
    }

    /// A WQE is not begun, though it is due.
    fn refuse(&mut self) {
        let (qp, index) = self.under_way[0];
        let spent = self.gives_way(qp).1;
        let (oldest, q) = (self.past[0][qp], &self.qps[qp]);
        let index = index.expect("a start is never refused");
        let what = format!("seed {}: WQE {index} of QP {qp}, {:?}, {oldest:?}", self.random.seed, q.at);
        let stopped = self.gates.may_stop(qp);
        assert!(q.due(index, oldest) && (spent || stopped || q.full(oldest)), "{what}");
        self.gates.refused += u64::from(stopped);
        self.gave_way += u64::from(spent);
        self.told = Some((qp, index, false, false));
    }

    /// The scheduler is told to go on from somewhere.
    fn resume(&mut self, resume: &Item) {
        let seed = self.random.seed;
        let value = |field: &str| resume[field].to_u64();
        let found = (value("qp") as usize, value("index") as u16, value("hold") == 1, value("start") == 1);
        if !std::mem::take(&mut self.by_restart) {
            (self.turn.least, self.turn.most) = (0, 0);
        }
        if found.3 {
            assert_eq!(self.told.take().map(|t| (t.0, t.3)), Some((found.0, true)), "seed {seed}");
            return;
        }
        if let Some(told) = self.told.take() {
            assert_eq!(found, told, "seed {seed}");
        } else {
            let (qp, _) = self.under_way[0];
            assert_eq!(found, (qp, self.qps[qp].at.index, false, false), "seed {seed}");
            let go = self.go.as_ref().expect("a yield");
            assert!(go.may_end, "seed {seed}: yields too soon");
            self.yields += 1;
        }
        // It is fetched again, as far as it was fetched before; what is under way is stale mostly.
        let (qp, index, hold, _) = found;
        let until = self.qps[qp].wqes.len() as u16;
        if self.refetch && !hold && !self.under_way.iter().any(|w| *w == (qp, None)) {
            (index..until).for_each(|index| self.hand(qp, index));
        }
    }

    /// A packet came: is it the one that is due?
    fn packet(&mut self, packet: &Item, others: bool, restarting: bool) {
        let seed = self.random.seed;
        let (qp, index) = self.under_way[0];
        let value = |field: &str| packet[&*format!("packet_{field}")].to_u64();
        if index.is_none() {
            assert_eq!((value("qp"), value("start")), (qp as u64, 1), "seed {seed}");
            self.qps[qp] = self.starting.clone();
            (self.turn.least, self.turn.most) = (0, 0);
            self.told = Some((qp, 0, false, true));
            return;
        }
        self.turn.least += value("bytes");
        self.turn.most += value("bytes");
        let (turn, quantum) = (self.turn, self.quantum());
        let q = &mut self.qps[qp];
        let wqe = &q.wqes[q.at.index as usize];
        let offset = u64::from(ahead(q.at.psn, q.at.first_psn)) * u64::from(q.mtu);
        let what = format!("seed {seed}: QP {qp}, {:?}, {wqe:?}, offset {offset}", q.at);
        let go = self.go.as_mut().expect(&what);
        assert!(!go.ends, "{what}: it had to yield");
        if go.begins {
            go.from = offset;
        }
        let bank = (!packet["banked"].is_zero()).then(|| packet["bank"].to_u64() as u32);
        let walk = (packet["begins"].to_u64() == 1, bank);
        assert_eq!(walk, (go.begins, wqe.bank), "{what}");
        if wqe.fault.is_none() {
            let left = u64::from(wqe.unit.sge0_len).wrapping_sub(go.from) & ((1 << 33) - 1);
            let place = ["sge_va", "sge_key", "sge_left"].map(|field| packet[field].to_u64());
            let va = wqe.unit.sge0_addr.wrapping_add(go.from);
            assert_eq!(place, [va, wqe.unit.sge0_lkey.into(), left], "{what}");
            assert_eq!(packet["inline"].to_u64() == 1, wqe.unit.inline, "{what}");
        }
        go.begins = false;
        let pays = wqe.fault.is_none() && wqe.length() > 0;
        assert_eq!(packet["pays"].to_u64() == 1, pays, "{what}");
        let place = (value("qp"), value("index"), value("start"));
        assert_eq!(place, (qp as u64, q.at.index.into(), 0), "{what}");
        // New is what comes for the first time, and nothing is left out.
        let fresh = q.at.psn == q.high;
        assert!(fresh || ahead(q.high, q.at.psn) < 1 << 23, "{what}: {} is next", q.high);
        assert_eq!((value("psn"), value("fresh")), (q.at.psn.into(), fresh.into()), "{what}");
        self.packets += 1;
        self.again += u64::from(!fresh);
        if wqe.is_local() {
            assert!(q.at.index >= q.begun && fresh && offset == 0, "{what}: executed before");
            let wanted = [
                ("last", 1),
                ("last_psn", u64::from(q.at.psn.wrapping_sub(1) & 0xff_ffff)),
                ("signaled", (wqe.unit.signaled || q.sig_all).into()),
                ("wqe_opcode", wqe.unit.opcode.into()),
                ("imm", wqe.unit.imm.into()),
                ("remote_va", wqe.unit.remote_va),
                ("rkey", wqe.unit.rkey.into()),
                ("bytes", 0),
                ("status", 0),
                ("withdraws", wqe.withdraws().into()),
            ];
            for (field, wanted) in wanted {
                assert_eq!(value(field), wanted, "{what}: {field}");
            }
            go.ends = true;
            q.at.index += 1;
            q.begun = q.at.index;
            return;
        }
        q.at.psn = (q.at.psn + 1) & 0xff_ffff;
        if fresh {
            q.high = q.at.psn;
        }
        let following = Place { index: q.at.index.wrapping_add(1), first_psn: q.at.psn, psn: q.at.psn };
        if let Some(fault) = wqe.fault {
            let (status, cause) = match fault {
                Fault::Read => (WcStatus::LocQpOpErr, LocalCause::Dma),
                Fault::Opcode => (WcStatus::LocQpOpErr, LocalCause::WqeOpcode),
                Fault::Long => (WcStatus::LocLenErr, LocalCause::Length),
                Fault::Large => (WcStatus::LocLenErr, LocalCause::WqeSize),
            };
            let ended = (value("status"), value("cause"), value("last"));
            assert_eq!(ended, (status.code().into(), cause.code().into(), 1), "{what}");
            (q.at, go.ends) = (following, true);
            q.begun = q.begun.max(following.index);
            return;
        }
        let length = wqe.length();
        let left = length - offset;
        let (first, last) = (offset == 0, left <= u64::from(q.mtu));
        let bytes = left.min(u64::from(q.mtu));
        let opcode = wqe.opcode(first, last);
        let asks = last && wqe.unit.solicited && wqe.unit.opcode != SendOpcode::Write.code();
        self.gates.expected += bytes + u64::from(HEADERS);
        let now_and_then = !first && offset % (1 << ACK_BITS) == 0;
        let ack = self.gates.ack_req(qp, last || now_and_then, value("ack_req") == 1);
        let expected = [
            ("opcode", u64::from(opcode.code())),
            ("ack_req", ack.into()),
            ("last", last.into()),
            ("signaled", (wqe.unit.signaled || q.sig_all).into()),
            ("wqe_opcode", wqe.unit.opcode.into()),
            ("solicited", asks.into()),
            ("imm", wqe.unit.imm.into()),
            ("remote_va", wqe.unit.remote_va.wrapping_add(go.from)),
            ("rkey", wqe.unit.rkey.into()),
            ("length", length),
            ("bytes", bytes),
            ("status", 0),
            ("cause", 0),
        ];
        for (field, expected) in expected {
            assert_eq!(value(field), expected, "{what}: {field}");
        }
        self.gates.stopped += u64::from(!last && self.gates.is_stopped(qp));
        let (may_stop, must_stop) = (self.gates.may_stop(qp), self.gates.must_stop(qp));
        go.may_end = !last && (restarting || may_stop || (others && turn.most >= quantum - 4096));
        go.ends = last || restarting || must_stop || (others && turn.least >= quantum);
        if last {
            q.at = following;
            q.begun = q.begun.max(following.index);
        }
    }

    /// Until everything has been sent.
    fn settle(&mut self) {
        for n in 0.. {
            if self.under_way.is_empty() && self.restarts.is_empty() && self.told.is_none() {
                break;
            }
            assert!(n < 50_000, "seed {}: {:?} are left", self.random.seed, self.under_way);
            self.step(0.1, n % 1000 < 500);
        }
        for _ in 0..20 {
            self.step(0.0, true);
        }
        assert_eq!(self.handed, self.returned, "seed {}", self.random.seed);
    }

    fn check_all_sent(&self) {
        for (i, qp) in self.qps.iter().enumerate() {
            // What was acknowledged after a restart went back before it is not sent again.
            let at = if qp.behind(qp.oldest) { qp.oldest } else { qp.at };
            assert_eq!(at.index as usize, qp.wqes.len(), "seed {}: QP {i}", self.random.seed);
            assert_eq!(qp.high, *qp.psns.last().unwrap(), "seed {}: QP {i}", self.random.seed);
        }
    }
}
