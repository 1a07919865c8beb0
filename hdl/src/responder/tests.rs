// SPDX-License-Identifier: MIT OR Apache-2.0
//! The responder as a whole against the rules of the specification.
//!
//! The model is written from IBTA volume 1, chapter 9, one packet at a time and without any pipeline. The key and
//! page tables are played by the bench: answers come late, at random, and pages may have holes. So is the host memory with
//! the receive queues.

mod model;
mod quiet;
mod room;

use self::model::{region, Answer, Ended, Model, Packet, Region, Responder, Sge, Srq};
use super::*;
use crate::config::RnicConfig;
use crate::host::event::Report;
use crate::host::SrqControl;
use crate::memory::{Lookup, Translation};
use crate::stream::Beat;
use crate::testing::{item, step, Item, Random, Sink, Source};
use crate::types::{
    Completion, DmaReadData, DmaReadRequest, DmaWrite, Headers, QpBroadcast, QpFault, QpInit, TxPacket,
};
use ferrowire_rtl::{bits, build, Bits, Sim};
use ferrowire_spec::csr::DropReason;
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::queue::{recv_wqe::RecvWqe, EventKind, WcStatus};
use ferrowire_spec::wire::opcode::Opcode;
use rand::Rng;
use std::collections::{HashMap, VecDeque};

const QPS: u32 = 8;
const MODULUS: u32 = 1 << 24;
const PAGE: u64 = 4096;

/// The sinks, in order.
const LOOKUP: usize = 0;
const WRITE: usize = 1;
const ANSWER: usize = 2;
const FAULT: usize = 3;
const READ: usize = 4;
const COMPLETION: usize = 5;
const OVERRUN: usize = 7;

/// The sources, in order.
const REQUEST: usize = 0;
const FRAME: usize = 1;
const START: usize = 2;
const DOORBELL: usize = 3;
const DATA: usize = 4;

/// The counters, in order.
const COUNTERS: [&str; 18] = [
    "no_qp",
    "service",
    "qp_state",
    "pkey",
    "source",
    "destination",
    "qkey",
    "no_receive",
    "too_long",
    "sequence",
    "malformed",
    "duplicate",
    "out_of_sequence",
    "rnr_naks",
    "invalid",
    "access",
    "operation",
    "writes",
];

/// The first of them: reasons to drop a packet.
const REASONS: [DropReason; 11] = [
    DropReason::NoQp,
    DropReason::Service,
    DropReason::QpState,
    DropReason::Pkey,
    DropReason::SourceAddress,
    DropReason::Destination,
    DropReason::Qkey,
    DropReason::NoReceive,
    DropReason::TooLong,
    DropReason::Sequence,
    DropReason::Malformed,
];

/// WQEs of each receive queue.
const RECEIVES: u64 = 32;

/// Shared receive queues, and their WQEs.
const SRQS: usize = 2;
const SHARED_RECEIVES: u64 = 1 << 15;

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: [Source; 5],
    sinks: [Sink; 8],
    random: Random,
    stall: f64,
    model: Model,
    asked: usize,
    /// Write beats seen, and their bytes.
    beats: usize,
    written: usize,
    /// Answers of the tables, and the cycles before which they do not come.
    translations: VecDeque<(u64, Option<u64>)>,
    counts: [u64; COUNTERS.len()],
    answers: Vec<Answer>,
    /// Ends of receives, and ends of lives.
    ended: Vec<Ended>,
    lives: Vec<u32>,
    /// Which peer each QP has.
    peers: Vec<u8>,
    /// Of whom the first packet in RTR has come.
    greeted: Vec<u32>,
    /// Those in error that have none left of a shared queue, and how many there have to be.
    lasts: Vec<u32>,
    errors: usize,
    memory: HashMap<u64, Vec<u8>>,
    reads: usize,
    latency: std::ops::RangeInclusive<u64>,
}

fn bench(beat_bytes: u32, seed: u64, stall: f64) -> Bench {
    let cfg =
        RnicConfig { beat_bytes, qps: QPS, srqs: SRQS as u32, ..RnicConfig::named("generic-8b").unwrap() };
    let netlist = build("top", |m| {
        // Nothing but requests comes.
        let arrivals = ferrowire_rtl::Stream::new(m, "arrivals", lit(1, 1), lit(1, 0));
        m.discard(&arrivals.ready);
        let input = Input {
            arrivals,
            runs: m.stream_in("brought", &Run::of(&cfg)),
            values: m.stream_in("value", &ferrowire_rtl::bits(64)),
            init: m.stream_in("start", &QpInit::of(&cfg)),
            shared: m.input_of("shared", &SrqControl::of(&cfg)),
            doorbell: m.stream_in("doorbell", &RqDoorbell::of(&cfg)),
            data: m.stream_in("data", &DmaReadData::of(&cfg)),
            requests: m.stream_in("request", &Headers::of()),
            frames: m.stream_in("frame", &Beat::of(cfg.beat_bytes)),
            answer: m.input_of("answer", &Translation::of()),
            reply_answer: m.input_of("reply_answer", &Translation::of()),
            operated: m.input_of("operated", &memory::Done::of()),
            changed: m.input("changed", 1),
            reply_data: m.stream_in("reply_data", &DmaReadData::of(&cfg)),
            gate: m.input_of("gate", &Gate::write_of(&cfg)),
            paused: m.input("paused", 8),
            may_loop: m.input("may_loop", 1),
            query: m.input("query", cfg.qp_bits()),
        };
        let out = responder(m, &cfg, m.input_of("broadcast", &QpBroadcast::of(&cfg)), input);
        m.stream_out("lookup", out.lookup);
        m.stream_out("operation", out.operations);
        m.stream_out("outcome", out.outcomes);
        let single = |_: &QpFault| ferrowire_rtl::lit(1, 1);
        let faults = crate::stream::arbiter(m, &single, out.faults);
        // Who has only been heard of goes on.
        let greets = faults.event.eq(u32::from(EventKind::CommEstablished.code()));
        m.output("greeted", &m.delay("greeted", &(faults.fire() & greets)));
        m.output("greeted_qp", &m.delay("greeted_qp", &faults.qp));
        m.stream_out("fault", faults.discard_if(m, greets));
        m.output("expected_psn", &out.expected_psn);
        let counts = m.reg_of("counts", &out.counts);
        m.set_all(&counts, &out.counts);
        m.output("counts", &counts);
        m.stream_out("read", out.read);
        m.stream_out("write", out.write);
        m.stream_out("reply", out.source.packet);
        m.stream_out("reply_payload", out.source.payload.expect("payload of responses"));
        m.stream_out("reply_lookup", out.reply_lookup);
        m.stream_out("reply_read", out.reply_read);
        m.stream_out("atomic_write", out.atomic_write);
        m.output("reply_counts", &out.reply_counts);
        m.output("reserves", &m.delay("reserves_late", &out.reserves));
        m.output("unspent", &m.delay("unspent_late", &out.unspent));
        let single = |_: &Completion| ferrowire_rtl::lit(1, 1);
        m.stream_out("completion", crate::stream::arbiter(m, &single, out.completions));
        m.stream_out("report", out.reports);
        m.stream_out("overrun", out.overruns);
        let charges = out.charges;
        charges.accept(lit(1, 1));
        m.discard(&charges.valid);
        m.discard(&charges.payload);
        m.output("status", &out.status);
        m.output("busy", &out.busy);
    });
    let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
    sim.reset();
    let sources = [
        Source::new("request", &Headers::of()),
        Source::new("frame", &Beat::of(beat_bytes)),
        Source::new("start", &QpInit::of(&cfg)),
        Source::new("doorbell", &RqDoorbell::of(&cfg)),
        Source::new("data", &DmaReadData::of(&cfg)),
    ];
    let sinks = [
        Sink::new("lookup", &Lookup::of()),
        Sink::new("write", &DmaWrite::of(&cfg)),
        Sink::new("reply", &TxPacket::of(&cfg)),
        Sink::new("fault", &QpFault::of(&cfg)),
        Sink::new("read", &DmaReadRequest::of()),
        Sink::new("completion", &Completion::of(&cfg)),
        Sink::new("report", &Report::of()),
        Sink::new("overrun", &bits(cfg.rq_bits())),
    ];
    let mut random = Random::new(seed);
    // Two regions of each of two domains: the second one has a hole. One more may not be written.
    let mut regions = Vec::new();
    for i in 0..5u64 {
        let mut pages: Vec<_> = (0..6).map(|p| Some(0x10_0000 + i * 0x1111 + 3 * p)).collect();
        if i == 1 || i == 3 {
            pages[3] = None;
        }
        let va = match i {
            // The first one ends with the address space.
            0 => 0u64.wrapping_sub(6 * PAGE) + 100,
            _ => 0x7f00_0000_0000 + (i << 32) + random.rng.random_range(0..PAGE),
        };
        let length = if i == 0 { 6 * PAGE - 100 } else { 5 * PAGE };
        let key = (i as u32 + 3) << 8 | random.rng.random_range(0..256);
        regions.push(Region { key, pd: (i as u32 / 2) % 2 + 5, remote_write: i != 4, va, length, pages });
    }
    let qps = (0..QPS)
        .map(|i| Responder {
            state: QpState::Reset,
            ended: false,
            service: 0,
            pd: i % 2 + 5,
            mtu: 256,
            allows_write: true,
            allows_atomics: false,
            ipv6: false,
            peer: 0,
            pkey: 0,
            qkey: 0x1234_0000 + i,
            expected: 0,
            msn: 0,
            message: None,
            silent: false,
            timer: 0,
            oldest: 0,
            receives: VecDeque::new(),
            shared: None,
        })
        .collect();
    let srqs = (5..).take(SRQS).map(|pd| Srq { pd, next: 0, receives: VecDeque::new() }).collect();
    let model = Model {
        qps,
        srqs,
        regions,
        answers: Vec::new(),
        bytes: Vec::new(),
        faults: Vec::new(),
        ended: Vec::new(),
        sends: 0,
        counts: Default::default(),
    };
    let mut bench = Bench {
        cfg,
        sim,
        sources,
        sinks,
        random,
        stall,
        model,
        asked: 0,
        beats: 0,
        written: 0,
        translations: VecDeque::new(),
        counts: Default::default(),
        answers: Vec::new(),
        ended: Vec::new(),
        lives: Vec::new(),
        peers: vec![0; QPS as usize],
        greeted: Vec::new(),
        lasts: Vec::new(),
        errors: 0,
        memory: HashMap::new(),
        reads: 0,
        latency: 1..=12,
    };
    (0..300).for_each(|_| bench.step());
    bench
}

/// Where the receive queue of a QP lies.
fn queue(qp: u32) -> u64 {
    0x4000_0000 + u64::from(qp) * 0x1_0000
}

/// Where a shared receive queue lies.
fn shared_queue(srq: usize) -> u64 {
    0x5000_0000 + srq as u64 * 0x1000_0000
}

impl Bench {
    fn step(&mut self) {
        let now = self.sim.cycles();
        let ready = self.translations.front().is_some_and(|(at, _)| *at <= now);
        self.sim.set("answer_valid", u64::from(ready));
        let answer = if ready { self.translations.pop_front().unwrap().1 } else { None };
        self.sim.set("answer_ok", u64::from(answer.is_some()));
        self.sim.set("answer_address", answer.unwrap_or_else(|| self.random.rng.random()));
        let before = self.written;
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        for (count, name) in self.counts.iter_mut().zip(COUNTERS).skip(REASONS.len()) {
            *count += self.sim.get(&format!("counts_{name}"));
        }
        if self.sim.get("greeted") == 1 {
            self.greeted.push(self.sim.get("greeted_qp") as u32);
        }
        if self.sim.get("counts_dropped_valid") == 1 {
            let reason = DropReason::from_code(self.sim.get("counts_dropped_reason") as u8).unwrap();
            self.counts[REASONS.iter().position(|r| *r == reason).unwrap()] += 1;
        }
        for item in &self.sinks[LOOKUP].items[self.asked..] {
            let (va, length) = (item["va"].to_u64(), item["length"].to_u64());
            let (key, pd) = (item["key"].to_u64() as u32, item["pd"].to_u64() as u32);
            let region = region(&self.model.regions, key, pd, item["access"].to_u64());
            let region = region.filter(|r| r.holds(va, length));
            let answer = region.and_then(|r| Some(r.page(va)? * PAGE + va % PAGE));
            let wait = self.random.rng.random_range(self.latency.clone());
            self.translations.push_back((now + wait, answer));
        }
        self.asked = self.sinks[LOOKUP].items.len();
        for item in &self.sinks[WRITE].items[self.beats..] {
            self.written += item["strobe"].to_u64().count_ones() as usize;
        }
        self.beats = self.sinks[WRITE].items.len();
        for item in &self.sinks[ANSWER].items[self.answers.len()..] {
            assert_eq!(item["opcode"].to_u64(), u64::from(Opcode::RcAcknowledge.code()));
            let field = |name: &str| item[name].to_u64() as u32;
            let (qp, psn, syndrome, msn) = (field("qp"), field("psn"), field("syndrome"), field("msn"));
            self.answers.push((qp, psn, syndrome, msn, before));
        }
        for item in &self.sinks[COMPLETION].items[self.ended.len() + self.lives.len() + self.lasts.len()..] {
            let field = |name: &str| item[name].to_u64();
            if field("marker") == 1 {
                let told = if field("solicited") == 1 { &mut self.lasts } else { &mut self.lives };
                told.push(field("qpn") as u32);
                continue;
            }
            assert_eq!(field("cq"), field("qpn") % 3);
            let (length, datagram) = (field("byte_len"), field("datagram") == 1);
            self.ended.push(Ended {
                qp: field("qpn") as u32,
                index: field("wqe_index") as u16,
                status: WcStatus::from_code(field("status") as u8).unwrap(),
                opcode: field("opcode") as u8,
                length: if datagram { length & 0x7fff } else { length },
                source: datagram
                    .then(|| (((length >> 16) | field("syndrome") << 16) as u32, length >> 15 & 1 == 1)),
                imm: (field("imm_valid") == 1).then_some(field("imm") as u32),
                solicited: field("solicited") == 1,
                before,
            });
        }
        // Host memory: the receive queues.
        let beat = self.cfg.beat_bytes as usize;
        for item in &self.sinks[READ].items[self.reads..] {
            let (address, length) = (item["address"].to_u64(), item["length"].to_u64());
            for unit in (address..address + length).step_by(64) {
                let bytes = &self.memory[&unit];
                for (i, chunk) in bytes.chunks(beat).enumerate() {
                    let last = unit + 64 == address + length && (i + 1) * beat == 64;
                    let mut data = testing_item(&self.cfg, last);
                    data.insert("data".into(), Bits::from_bytes(8 * beat as u32, chunk));
                    self.sources[DATA].push(data);
                }
            }
        }
        self.reads = self.sinks[READ].items.len();
    }

    /// A shared queue begins.
    fn create_srq(&mut self, srq: usize) {
        self.create_srq_of(srq, SHARED_RECEIVES);
    }

    fn create_srq_of(&mut self, srq: usize, receives: u64) {
        let pd = self.model.srqs[srq].pd;
        let log2 = u64::from(receives.ilog2());
        for (field, value) in
            [("valid", 1), ("pd", pd.into()), ("base", shared_queue(srq)), ("log2", log2), ("stride", 0)]
        {
            self.sim.set(&format!("shared_entry_entry_{field}"), value);
        }
        self.sim.set("shared_entry_index", srq as u64);
        self.sim.set("shared_entry_enable", 1);
        self.step();
        self.sim.set("shared_entry_enable", 0);
        (0..12).for_each(|_| self.step());
    }

    /// Posts a receive of these elements to a QP's queue, its own or the shared one.
    fn post(&mut self, qp: u32, sges: &[Sge]) {
        // What has been sent before finds none of it.
        self.taken();
        (0..3).for_each(|_| self.step());
        if let Some(srq) = self.model.qps[qp as usize].shared {
            let row = &mut self.model.srqs[srq];
            let index = row.next.wrapping_add(row.receives.len() as u16);
            row.receives.push_back(sges.to_vec());
            let number = 1 << (self.cfg.rq_bits() - 1) | srq as u32;
            return self.put(number, shared_queue(srq) + u64::from(index) * 64, index, sges);
        }
        // A WQE's place is free when its completion has been seen.
        let of = |all: &[Ended]| all.iter().filter(|e| e.qp == qp).count();
        let unseen = of(&self.model.ended).saturating_sub(of(&self.ended));
        let row = &mut self.model.qps[qp as usize];
        if (row.receives.len() + unseen) as u64 >= RECEIVES {
            return;
        }
        let index = row.oldest.wrapping_add(row.receives.len() as u16);
        row.receives.push_back(sges.to_vec());
        self.put(qp, queue(qp) + u64::from(index) % RECEIVES * 64, index, sges);
        if self.model.qps[qp as usize].state == QpState::Err {
            self.model.flush(qp);
        }
    }

    /// Writes a WQE and rings.
    fn put(&mut self, number: u32, at: u64, index: u16, sges: &[Sge]) {
        let place = at;
        let at = |i: usize| sges.get(i).map_or((0, 0, 0), |s| (s.va, s.key, s.length as u32));
        let [a, b, c, d] = [0, 1, 2, 3].map(at);
        let wqe = RecvWqe {
            sge0_addr: a.0,
            sge0_lkey: a.1,
            sge0_len: a.2,
            sge1_addr: b.0,
            sge1_lkey: b.1,
            sge1_len: b.2,
            sge2_addr: c.0,
            sge2_lkey: c.1,
            sge2_len: c.2,
            sge3_addr: d.0,
            sge3_lkey: d.1,
            sge3_len: d.2,
        };
        let bytes = wqe.to_bytes().unwrap().to_vec();
        self.memory.insert(place, bytes);
        let producer = index.wrapping_add(1);
        self.sources[DOORBELL].push_values(&[("queue", number.into()), ("producer", producer.into())]);
        // Who is sent something knows that it has been posted.
        while self.sources[DOORBELL].left() > 0 {
            self.step();
        }
        (0..8).for_each(|_| self.step());
    }

    /// Posts a receive of a few elements in the QP's regions; now and then one that may not be written.
    fn post_random(&mut self, qp: u32) {
        let row = &self.model.qps[qp as usize];
        let pd = row.shared.map_or(row.pd, |srq| self.model.srqs[srq].pd);
        let rng = &mut self.random.rng;
        let mut sges = Vec::new();
        // A datagram's header has its place.
        if row.service == 2 {
            let region = self.model.regions.iter().find(|r| r.pd == pd).expect("one of the domain");
            sges.push(Sge { va: region.va, key: region.key, length: 40 });
        }
        for _ in 0..rng.random_range(0..=4 - sges.len()) {
            let which = if rng.random_bool(0.97) { pd } else { 11 - pd };
            let regions: Vec<_> = self.model.regions.iter().filter(|r| r.pd == which).collect();
            // Mostly not the one with the hole.
            let region = regions[usize::from(rng.random_bool(0.03)) % regions.len()];
            let length = [0, 1, 40, 250, 600][rng.random_range(0..5)];
            let at = rng.random_range(0..=region.length - length);
            sges.push(Sge { va: region.va.wrapping_add(at), key: region.key, length });
        }
        self.post(qp, &sges);
    }

    fn set_state(&mut self, qp: u32, state: QpState) {
        if state == QpState::Reset {
            // What is flushed comes out.
            if self.model.qps[qp as usize].state == QpState::Err {
                self.drain();
            }
            // What it holds of a shared queue is flushed even so.
            if self.model.qps[qp as usize].shared.is_some() {
                self.taken();
                self.model.flush(qp);
            }
            let row = &mut self.model.qps[qp as usize];
            row.oldest = 0;
            row.receives.clear();
        }
        if state == QpState::Err && self.model.qps[qp as usize].shared.is_some() {
            self.errors += 1;
        }
        let lives = self.lives_of(qp);
        self.tell_state(qp, state);
        if state == QpState::Reset {
            self.ended_life(qp, lives);
        }
    }

    fn lives_of(&self, qp: u32) -> usize {
        self.lives.iter().filter(|l| **l == qp).count()
    }

    fn tell_state(&mut self, qp: u32, state: QpState) {
        self.sim.set("broadcast_state_enable", 1);
        self.sim.set("broadcast_state_index", qp.into());
        self.sim.set("broadcast_state_entry", state.code().into());
        self.step();
        self.sim.set("broadcast_state_enable", 0);
        self.model.qps[qp as usize].state = state;
    }

    /// The host goes on when the end of the life is told.
    fn ended_life(&mut self, qp: u32, lives: usize) {
        let mut waited = 0;
        while self.lives_of(qp) == lives {
            self.step();
            waited += 1;
            assert!(waited < 20_000, "seed {}: the life of QP {qp} does not end", self.random.seed);
        }
    }

    /// Starts a QP with what the model says of it.
    fn start(&mut self, qp: u32, psn: u32, state: QpState, receives: std::ops::Range<u32>) {
        if self.model.qps[qp as usize].state != QpState::Reset {
            self.set_state(qp, QpState::Reset);
        }
        (0..20).for_each(|_| self.step());
        let row = &mut self.model.qps[qp as usize];
        (row.expected, row.msn, row.message) = (psn, 0, None);
        (row.silent, row.ended, row.timer) = (false, false, psn % 32);
        let row = row.clone();
        let peer = &mut self.peers[qp as usize];
        *peer = peer.wrapping_add(1);
        for (name, value) in [
            ("service", row.service),
            ("pd", row.pd),
            ("mtu", row.mtu.trailing_zeros() - 7),
            ("access", u32::from(row.allows_write) << 1 | u32::from(row.allows_atomics) << 3),
            ("max_dest_rd_atomic", 16),
            ("peer", self.peers[qp as usize].into()),
            ("gid", qp % 16),
            ("pkey", row.pkey.into()),
            ("qkey", row.qkey),
            ("min_rnr_timer", row.timer),
            ("recv_cq", qp % 3),
            ("rq_base", queue(qp) as u32),
            ("rq_log2", RECEIVES.ilog2()),
            ("has_srq", row.shared.is_some().into()),
            ("srqn", row.shared.unwrap_or(0) as u32),
        ] {
            self.sim.set(&format!("broadcast_attributes_entry_{name}"), value.into());
        }
        self.sim.set("broadcast_attributes_index", qp.into());
        self.sim.set("broadcast_attributes_enable", 1);
        self.step();
        self.sim.set("broadcast_attributes_enable", 0);
        self.set_state(qp, QpState::Init);
        (0..self.random.rng.random_range(receives)).for_each(|_| self.post_random(qp));
        self.sources[START].push_values(&[("qp", qp.into()), ("psn", psn.into())]);
        let mut waited = 0;
        while self.sources[START].left() > 0 {
            self.step();
            waited += 1;
            assert!(waited < 5000, "seed {}: the start of QP {qp} is not taken", self.random.seed);
        }
        if state == QpState::Reset {
            return self.set_state(qp, state);
        }
        self.set_state(qp, state);
        if state == QpState::Err {
            self.model.flush(qp);
        }
    }

    /// Random attributes, then a start.
    fn restart(&mut self, qp: u32) {
        let rng = &mut self.random.rng;
        let row = &mut self.model.qps[qp as usize];
        row.mtu = 256 << rng.random_range(0..2);
        row.allows_write = rng.random_bool(0.95);
        row.service = [0, 0, 0, 0, 1, 2][rng.random_range(0..6)];
        row.qkey = rng.random();
        row.ipv6 = rng.random();
        row.peer = if row.ipv6 { rng.random() } else { rng.random::<u32>().into() };
        row.pkey = rng.random();
        row.shared = (row.service < 2 && rng.random()).then(|| rng.random_range(0..SRQS));
        let near_wrap = rng.random_bool(0.5);
        let psn = if near_wrap { MODULUS - rng.random_range(1..30) } else { rng.random_range(0..MODULUS) };
        let state = match rng.random_range(0..12) {
            0 => QpState::ALL[rng.random_range(0..QpState::ALL.len())],
            n => [QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe][n % 4],
        };
        self.start(qp, psn, state, 0..5);
    }

    fn send(&mut self, p: &Packet) {
        self.model.take(p);
        self.push(p);
    }

    fn push(&mut self, p: &Packet) {
        // What the receive path says of a source. Of two wrong ones, one is right for a former peer.
        let at = (p.qpn % QPS) as usize;
        let row = &self.model.qps[at];
        let former = self.peers[at].wrapping_sub((p.ipv6 != row.ipv6).into());
        self.sources[REQUEST].push_values(&[
            ("opcode", p.opcode.into()),
            ("dest_qpn", p.qpn.into()),
            ("psn", p.psn.into()),
            ("ack_req", p.ack_req.into()),
            ("pkey", p.pkey.into()),
            ("origin_from_peer", (p.source == row.peer).into()),
            ("origin_peer", former.into()),
            ("gid", p.gid.into()),
            ("va", p.va.into()),
            ("rkey", p.rkey.into()),
            ("dma_length", p.dma_length.into()),
            ("imm", p.imm.into()),
            ("solicited", p.solicited.into()),
            ("pad", p.pad() as u128),
            ("payload_offset", p.offset as u128),
            ("payload_bytes", p.payload.len() as u128),
        ]);
        let mut frame = self.random.bytes(p.offset - p.grh.len());
        frame.extend(p.grh.iter().chain(&p.payload));
        frame.extend(self.random.bytes(p.pad() + 4));
        self.sources[FRAME].push_frame(&frame);
    }

    /// The packet that is due for this QP: a valid one, of a message within its region.
    fn due(&mut self, qpn: u32) -> Packet {
        let qp = self.model.qps[qpn as usize].clone();
        let rng = &mut self.random.rng;
        let mut packet = Packet {
            opcode: 0,
            qpn,
            psn: qp.expected,
            ack_req: rng.random_bool(0.5),
            pkey: if qp.pkey >> 15 == 1 {
                qp.pkey ^ (rng.random::<u16>() & 0x8000)
            } else {
                qp.pkey | 0x8000
            },
            ipv6: qp.ipv6,
            source: qp.peer,
            gid: qpn % 16,
            va: rng.random(),
            rkey: rng.random(),
            dma_length: rng.random(),
            imm: rng.random(),
            solicited: rng.random(),
            payload: Vec::new(),
            offset: if qp.ipv6 { 74 } else { 54 } + if rng.random() { 4 } else { 0 },
            grh: Vec::new(),
        };
        let next = qp.shared.and_then(|srq| self.model.srqs[srq].receives.front());
        let capacity =
            qp.receives.front().or(next).map_or(100, |r| r.iter().map(|sge| sge.length).sum::<u64>());
        if qp.service == 2 {
            let room = capacity.saturating_sub(40).min(qp.mtu.into());
            let length = match rng.random_range(0..10) {
                0 => room + 1,
                1..4 => rng.random_range(0..=room),
                _ => room,
            };
            let imm: bool = rng.random();
            packet.va = u64::from(qp.qkey) << 32 | u64::from(rng.random::<u32>());
            packet.psn = rng.random_range(0..MODULUS);
            packet.opcode = 0x64 + u8::from(imm);
            packet.offset += 8 + if imm { 4 } else { 0 };
            packet.payload = self.random.bytes(length as usize);
            packet.grh = self.random.bytes(40);
            return packet;
        }
        let send = qp.message.map_or(rng.random_bool(0.5), |m| m.send);
        let remaining = match qp.message {
            // A SEND ends where it likes.
            Some(message) if send => match rng.random_range(0..6) {
                0 => u64::MAX,
                _ => capacity.saturating_sub(message.received).max(1),
            },
            Some(message) => message.remaining,
            None if send => match rng.random_range(0..20) {
                0 => capacity + 1,
                1..4 => 0,
                4..10 => rng.random_range(0..=capacity),
                _ => capacity,
            },
            None => {
                let length = match rng.random_range(0..10) {
                    0 => 0,
                    1..6 => rng.random_range(1..=qp.mtu),
                    6 => qp.mtu * rng.random_range(1..4),
                    _ => rng.random_range(1..=5 * qp.mtu),
                };
                // The first region of the QP's domain, or now and then the one with a hole.
                let (which, pd) = (usize::from(rng.random_bool(0.1)), qp.pd);
                let region = self.model.regions.iter().filter(|r| r.pd == pd && r.remote_write).nth(which);
                let region = region.unwrap();
                let room = region.length - u64::from(length);
                let at = match rng.random_range(0..4) {
                    0 => rng.random_range(0..=room),
                    // A page's end lies near.
                    1 | 2 => {
                        let end = (region.va / PAGE + rng.random_range(1..5)) * PAGE - region.va;
                        end.saturating_sub(rng.random_range(0..300)).min(room)
                    }
                    _ => [0, room][rng.random_range(0..2)],
                };
                packet.va = region.va.wrapping_add(at);
                packet.rkey = region.key;
                packet.dma_length = length;
                packet.offset += 16;
                length.into()
            }
        };
        let inside = qp.message.is_some();
        let ends = remaining <= u64::from(qp.mtu);
        let immediate = rng.random_bool(0.3);
        packet.opcode = match send {
            true => [[0x00, 0x04], [0x01, 0x02]],
            false => [[0x06, 0x0a], [0x07, 0x08]],
        }[usize::from(inside)][usize::from(ends)]
            + u8::from(ends & immediate)
            + if qp.service == 1 { 0x20 } else { 0 };
        packet.payload = self.random.bytes(remaining.min(qp.mtu.into()) as usize);
        packet
    }

    /// Makes a packet wrong in one way; `deadly` ones end the connection.
    fn spoil(&mut self, p: &mut Packet, deadly: bool) {
        let other = self.model.regions[self.random.rng.random_range(0..5)].key;
        let ended = self.model.qps[p.qpn as usize].ended;
        let service = p.opcode & 0xe0;
        let rng = &mut self.random.rng;
        let length = p.payload.len();
        match rng.random_range(0..6) + if deadly { 6 } else { 0 } {
            0 => p.psn = (p.psn + rng.random_range(1..6)) % MODULUS,
            1 => p.psn = p.psn.wrapping_sub(rng.random_range(1..40)) % MODULUS,
            // The ends of both windows.
            2 => p.psn = (p.psn + MODULUS / 2 - rng.random_range(0..2)) % MODULUS,
            // A QP that has ended is about to be in the error state: both counters would be right.
            3 if !ended => {
                p.pkey = [p.pkey ^ 1 << rng.random_range(0..15), p.pkey & 0x7fff][rng.random_range(0..2)]
            }
            4 if !ended => match rng.random() {
                _ if service == 0x60 => p.va ^= 1 << rng.random_range(32..64),
                _ if rng.random_bool(0.3) => p.gid ^= 1 << rng.random_range(0..4),
                true => p.ipv6 = !p.ipv6,
                false => p.source ^= 1 << rng.random_range(0..128),
            },
            3..6 => match rng.random() {
                true => p.qpn |= rng.random_range(1..=0xff_ffff / QPS) * QPS,
                false => {
                    p.opcode ^= match service {
                        0 => [0x20, 0x60][rng.random_range(0..2)],
                        other => other,
                    };
                    // What the responder of a datagram puts before its payload is not there.
                    p.grh.clear();
                }
            },
            // Invalidations have tests of their own.
            6 => {
                let operation = rng.random_range(0..0x20);
                p.opcode = match (service, operation) {
                    (0, 0x16 | 0x17) => 0x1e,
                    _ => service | operation,
                };
            }
            7 => p.payload.truncate(length - length.min(rng.random_range(1..9))),
            8 => p.payload.extend(vec![7; rng.random_range(1..9)]),
            9 => {
                p.dma_length = match rng.random_range(0..5) {
                    0 => p.dma_length.wrapping_add(1),
                    1 => p.dma_length.wrapping_sub(1),
                    2 => 0,
                    3 => (1 << 31) + rng.random_range(0..2),
                    _ => u32::MAX,
                }
            }
            10 => p.rkey = [p.rkey ^ 1 << rng.random_range(0..32), other][rng.random_range(0..2)],
            _ => {
                p.va = match rng.random_range(0..4) {
                    0 => p.va.wrapping_add(5 * PAGE),
                    1 => p.va.wrapping_sub(6 * PAGE),
                    2 => u64::MAX - rng.random_range(0..64),
                    _ => rng.random(),
                }
            }
        }
    }

    fn drain(&mut self) {
        let mut waited = 0;
        while self.sources.iter().any(|s| s.left() > 0) {
            self.step();
            waited += 1;
            assert!(waited < 200_000, "seed {}: requests are not taken", self.random.seed);
        }
        for _ in 0..300 {
            self.step();
        }
        let on_way = self.sim.peek("top.check.on_way").expect("a register").to_u64();
        assert_eq!(on_way, 0, "seed {}: what has passed is counted as on its way", self.random.seed);
    }

    /// Writes as bytes in their order; each write is what it says.
    fn bytes(&self) -> Vec<(u64, u8)> {
        let (mut all, mut write, mut lane) = (Vec::new(), Vec::new(), None);
        let lanes = u64::from(self.cfg.beat_bytes);
        for item in &self.sinks[WRITE].items {
            let (address, length) = (item["address"].to_u64(), item["length"].to_u64());
            let beat: u64 = lane.unwrap_or(address / lanes * lanes);
            for (i, byte) in item["data"].to_bytes().into_iter().enumerate() {
                if item["strobe"].bit(i as u32) {
                    write.push((beat + i as u64, byte));
                }
            }
            lane = Some(beat + lanes);
            if !item["last"].is_zero() {
                assert_eq!((write[0].0, write.len() as u64), (address, length), "the write is what it says");
                assert_eq!(address / PAGE, (address + length - 1) / PAGE, "within a page");
                all.append(&mut write);
                lane = None;
            }
        }
        assert!(write.is_empty());
        all
    }

    /// All that came against all that had to come.
    fn compare(&mut self) {
        self.drain();
        let seed = self.random.seed;
        for (i, (got, due)) in self.answers.iter().zip(&self.model.answers).enumerate() {
            assert_eq!((got.0, got.1, got.2, got.3), (due.0, due.1, due.2, due.3), "seed {seed}: answer {i}");
            assert!(got.4 >= due.4, "seed {seed}: answer {i} with {} of {} bytes out", got.4, due.4);
        }
        assert_eq!(self.answers.len(), self.model.answers.len(), "seed {seed}");
        let bytes = self.bytes();
        let wrong = bytes.iter().zip(&self.model.bytes).position(|(got, due)| got != due);
        if let Some(w) = wrong {
            panic!("seed {seed}: byte {w} is {:x?}, not {:x?}", bytes[w], self.model.bytes[w]);
        }
        assert_eq!(bytes.len(), self.model.bytes.len(), "seed {seed}");
        assert_eq!(self.counts, self.model.counts, "seed {seed}: {COUNTERS:?}");
        for qp in 0..QPS {
            let of = |all: &[Ended]| all.iter().filter(|e| e.qp == qp).cloned().collect::<Vec<_>>();
            let (got, due) = (of(&self.ended), of(&self.model.ended));
            for (i, (got, due)) in got.iter().zip(&due).enumerate() {
                assert_eq!(got, &Ended { before: got.before, ..due.clone() }, "seed {seed}: {i} of {qp}");
                assert!(got.before >= due.before, "seed {seed}: {got:?} before its data: {due:?}");
            }
            assert_eq!(got.len(), due.len(), "seed {seed}: receives of {qp}");
        }
        assert_eq!(self.lasts.len(), self.errors, "seed {seed}");
        assert!(self.sinks[OVERRUN].items.is_empty(), "seed {seed}: the host keeps to its queues");
        let of = |fault: &Item| (fault["qp"].to_u64() as u32, fault["event"].to_u64() as u8);
        let faults: Vec<(u32, u8)> = self.sinks[FAULT].items.iter().map(of).collect();
        assert_eq!(faults, self.model.faults, "seed {seed}: who fails, and what is told of it");
    }

    /// Sends all, and gives the cycle in which the last beat of each frame was placed, of so many of one length: requests wait in a queue.
    fn placed(&mut self, from: usize, frames: usize) -> Vec<u64> {
        self.drain();
        let cycles = &self.sources[FRAME].cycles[from..];
        let beats = cycles.len() / frames;
        cycles.chunks(beats).map(|frame| frame[beats - 1]).collect()
    }

    /// Until `check` has taken all that was sent, and told what it is.
    fn taken(&mut self) {
        let mut waited = 0;
        let busy = |sim: &mut Sim| {
            ["state", "again"]
                .iter()
                .any(|name| sim.peek(&format!("top.check.{name}")).expect("a register").to_u64() != 0)
        };
        while self.sources[REQUEST].left() > 0 || busy(&mut self.sim) {
            self.step();
            waited += 1;
            assert!(waited < 100_000, "seed {}: requests are not taken", self.random.seed);
        }
    }

    /// Until `walk` has found their receives as well.
    fn walked(&mut self) {
        self.taken();
        let (mut waited, mut empty) = (0, 0);
        // So long may one take from `check` to there.
        while empty < 20 {
            self.step();
            let waits = self.sim.peek("top.walk.orders_valid").expect("a port").bit(0);
            empty = if waits { 0 } else { empty + 1 };
            waited += 1;
            assert!(waited < 100_000, "seed {}: receives are not found", self.random.seed);
        }
    }
}

fn testing_item(cfg: &RnicConfig, last: bool) -> crate::testing::Item {
    item(&DmaReadData::of(cfg), &[("last", last.into())])
}

#[test]
fn random_requests_are_answered_and_written_as_the_specification_says() {
    let mut all = [0; COUNTERS.len()];
    for (beat_bytes, stall, seed) in [(8, 0.0, 1), (64, 0.0, 2), (8, 0.3, 3), (64, 0.3, 4), (64, 0.6, 5)] {
        let mut bench = bench(beat_bytes, seed, stall);
        (0..SRQS).for_each(|srq| bench.create_srq(srq));
        (0..QPS).for_each(|qp| bench.restart(qp));
        let mut packets = 0u64;
        let mut behind = vec![0; QPS as usize];
        while packets < 1400 {
            let qpn = bench.random.rng.random_range(0..QPS);
            let qp = &bench.model.qps[qpn as usize];
            // One that ended, or never took anything, lives again after some packets more.
            if qp.ended || !qp.takes() {
                behind[qpn as usize] += 1;
                if behind[qpn as usize] > 4 {
                    behind[qpn as usize] = 0;
                    // Its packets have been looked at, but their effects may still be under way; not where receives are
                    // to be flushed. The receives of a queue of its own go with it: what has not found one by then, never will.
                    match bench.model.qps[qpn as usize].shared {
                        Some(_) => bench.taken(),
                        None => bench.walked(),
                    }
                    if bench.random.chance(0.5) && bench.model.qps[qpn as usize].ended {
                        bench.drain();
                        bench.set_state(qpn, QpState::Err);
                        bench.model.flush(qpn);
                        (0..bench.random.rng.random_range(0..3)).for_each(|_| bench.post_random(qpn));
                        bench.drain();
                    }
                    bench.set_state(qpn, QpState::Reset);
                    for _ in 0..bench.random.rng.random_range(1..5) {
                        let other = bench.random.rng.random_range(0..QPS);
                        let row = &bench.model.qps[other as usize];
                        if other != qpn && !(row.ended && (row.shared.is_some() || row.service != 0)) {
                            let packet = bench.due(other);
                            bench.send(&packet);
                            packets += 1;
                        }
                    }
                    bench.restart(qpn);
                }
            }
            while bench.random.chance(0.4) {
                bench.post_random(qpn);
            }
            // What a shared queue loses to one that has ended is another test's.
            let qp = &bench.model.qps[qpn as usize];
            if qp.ended && (qp.shared.is_some() || qp.service != 0) {
                continue;
            }
            let mut packet = bench.due(qpn);
            if bench.random.chance(0.2) {
                let deadly = bench.random.chance(0.25);
                bench.spoil(&mut packet, deadly);
            }
            bench.send(&packet);
            packets += 1;
            while bench.sources[REQUEST].left() > 12 {
                bench.step();
            }
        }
        bench.compare();
        let sends = bench.model.sends;
        assert_eq!(bench.counts.iter().sum::<u64>() + sends, bench.sources[REQUEST].cycles.len() as u64);
        println!("{beat_bytes}: {} cycles, {:?}", bench.sim.cycles(), bench.counts);
        assert!(sends > 0);
        all.iter_mut().zip(bench.counts).for_each(|(all, n)| *all += n);
    }
    assert!(all.iter().all(|n| *n > 0), "every way is taken: {COUNTERS:?} {all:?}");
}

#[test]
fn a_write_that_comes_alone_goes_past_the_queue_and_not_past_what_came_before() {
    let mut bench = bench(64, 21, 0.0);
    plain(&mut bench, 1);
    bench.drain();
    // Alone, some together, and behind a SEND without payload, which is not looked up.
    for (writes, behind_a_send) in [(1, false), (4, false), (1, false), (1, true), (3, true)] {
        let (requests, lookups) = (bench.sources[REQUEST].cycles.len(), bench.sinks[LOOKUP].items.len());
        if behind_a_send {
            let write = only(&mut bench, 1, 0, 0);
            bench.send(&Packet { opcode: 0x04, ..write });
        }
        let mut due = Vec::new();
        for at in (0..writes).map(|i| 0x80 * (writes - i)) {
            let write = only(&mut bench, 1, at, 64);
            due.push(write.va);
            bench.send(&write);
        }
        bench.drain();
        let asked = &bench.sinks[LOOKUP];
        let seen: Vec<u64> = asked.items[lookups..].iter().map(|item| item["va"].to_u64()).collect();
        assert_eq!(seen, due);
        if writes == 1 && !behind_a_send {
            assert_eq!(asked.cycles[lookups] - bench.sources[REQUEST].cycles[requests], 4);
        }
    }
    bench.compare();
}

/// Attributes for tests that choose their packets, and some receives.
fn plain(bench: &mut Bench, qp: u32) {
    // One with a shared queue is given its receives apart.
    let receives = if bench.model.qps[qp as usize].shared.is_some() { 0..1 } else { 0..5 };
    bare(bench, qp, receives);
}

/// The same with so many receives.
fn bare(bench: &mut Bench, qp: u32, receives: std::ops::Range<u32>) {
    let row = &mut bench.model.qps[qp as usize];
    (row.mtu, row.peer, row.pkey) = (256, 0x0a00_0001, 0xffff);
    bench.start(qp, 0x10_0000 * qp, QpState::Rts, receives);
}

/// A WRITE ONLY of `length` bytes to `at` in the first region of the QP's domain.
fn only(bench: &mut Bench, qpn: u32, at: u64, length: usize) -> Packet {
    let qp = &bench.model.qps[qpn as usize];
    let region = bench.model.regions.iter().find(|r| r.pd == qp.pd).unwrap();
    Packet {
        opcode: 0x0a,
        qpn,
        psn: qp.expected,
        ack_req: true,
        pkey: qp.pkey,
        ipv6: false,
        source: qp.peer,
        gid: qpn % 16,
        va: region.va + at,
        rkey: region.key,
        dma_length: length as u32,
        imm: 0,
        solicited: false,
        payload: (0..length).map(|i| i as u8).collect(),
        offset: 70,
        grh: Vec::new(),
    }
}

#[test]
fn the_first_packet_in_rtr_is_told_once_in_a_life_and_a_query_finds_the_psn_that_is_expected() {
    let mut bench = bench(64, 6, 0.0);
    for (qp, state) in [(1, QpState::Rtr), (2, QpState::Rts), (3, QpState::Rtr)] {
        plain(&mut bench, qp);
        bench.start(qp, 0x10_0000 * qp, state, 0..5);
    }
    // What is not the peer's says nothing.
    let mut foreign = only(&mut bench, 1, 0, 64);
    foreign.source += 1;
    bench.send(&foreign);
    for round in 0..3 {
        for qp in [1, 2] {
            let packet = only(&mut bench, qp, 64 * round, 64);
            bench.send(&packet);
            bench.taken();
            (0..60).for_each(|_| bench.step());
            bench.sim.set("query", qp.into());
            (0..3).for_each(|_| bench.step());
            assert_eq!(bench.sim.get("expected_psn"), u64::from(0x10_0000 * qp) + round + 1);
        }
        assert_eq!(bench.greeted, [1]);
    }
    // Another life.
    bench.start(1, 7, QpState::Rtr, 0..5);
    let packet = only(&mut bench, 1, 0, 64);
    bench.send(&packet);
    bench.compare();
    assert_eq!(bench.greeted, [1, 1]);
}

#[test]
fn a_start_waits_for_no_fault() {
    // The QP context takes no fault before an update that it has in hand, and so not before the start is taken.
    let mut bench = bench(64, 6, 0.0);
    (0..QPS).for_each(|qp| plain(&mut bench, qp));
    bench.sinks[FAULT].stall = Some(1.0);
    for qp in 0..QPS {
        let mut packet = only(&mut bench, qp, 0, 64);
        packet.rkey ^= 1;
        bench.send(&packet);
    }
    bench.taken();
    bench.set_state(0, QpState::Reset);
    plain(&mut bench, 0);
    let packet = only(&mut bench, 0, 0, 64);
    bench.send(&packet);
    for _ in 0..200 {
        bench.step();
    }
    bench.sinks[FAULT].stall = None;
    bench.compare();
}

#[test]
fn nothing_of_an_ended_queue_pair_has_an_effect() {
    for (deadly, syndrome) in [("key", 0x62), ("second page", 0x62), ("opcode", 0x61), ("length", 0x61)] {
        let mut bench = bench(64, 7, 0.0);
        // The tables are slow: all packets are on their way before the first answer.
        bench.latency = 60..=60;
        plain(&mut bench, 0);
        plain(&mut bench, 1);
        let good = only(&mut bench, 0, 8, 100);
        bench.send(&good);
        let mut bad = only(&mut bench, 0, 0, 200);
        match deadly {
            "key" => bad.rkey ^= 0x40,
            "second page" => {
                // The region of this domain with the hole.
                let region = &bench.model.regions[1];
                bad.rkey = region.key;
                bad.va = (region.va / PAGE + 3) * PAGE - 5;
            }
            "opcode" => bad.opcode = 0x01,
            _ => bad.dma_length = 201,
        }
        bench.send(&bad);
        for _ in 0..3 {
            // To the peer all is well, so it goes on.
            let mut behind = only(&mut bench, 0, 300, 50);
            behind.psn = bad.psn + 1;
            bad.psn += 1;
            bench.send(&behind);
            let other = only(&mut bench, 1, 300, 50);
            bench.send(&other);
        }
        bench.compare();
        assert_eq!(
            bench.answers.iter().filter(|a| a.0 == 0).map(|a| a.2 & 0xe0).collect::<Vec<_>>(),
            [0, syndrome & 0xe0]
        );
        assert_eq!(bench.answers.iter().filter(|a| a.0 == 1).count(), 3, "{deadly}");
    }
}

/// An acknowledgement of what is behind it would be one of the SEND, too.
#[test]
fn nothing_is_acknowledged_behind_a_send_whose_receive_has_gone_with_the_life_of_its_queue() {
    for (beat_bytes, seed, stall) in [(8, 13, 0.0), (64, 14, 0.0), (64, 15, 0.4)] {
        let mut bench = bench(beat_bytes, seed, stall);
        bare(&mut bench, 0, 0..1);
        // The WQE is under way when the life ends.
        bench.sources[DATA].stall = Some(1.0);
        let region = bench.model.regions.iter().find(|r| r.pd == bench.model.qps[0].pd).unwrap();
        let sge = Sge { va: region.va, key: region.key, length: 600 };
        bench.post(0, &[sge]);
        let good = only(&mut bench, 0, 0, 64);
        bench.send(&good);
        let gone = message(&mut bench, 0, true);
        let mut behind = only(&mut bench, 0, 300, 50);
        behind.psn += 1;
        for packet in [&gone, &gone, &behind] {
            bench.push(packet);
            bench.model.count("qp_state");
        }
        bench.taken();
        let lives = bench.lives_of(0);
        bench.tell_state(0, QpState::Reset);
        (0..60).for_each(|_| bench.step());
        bench.sources[DATA].stall = None;
        bench.ended_life(0, lives);
        assert_eq!(bench.answers.iter().map(|a| a.1).collect::<Vec<_>>(), [good.psn], "seed {seed}");
        assert!(bench.ended.is_empty(), "seed {seed}");
        // Another life.
        bench.model.qps[0].receives.clear();
        plain(&mut bench, 0);
        let packet = only(&mut bench, 0, 0, 64);
        bench.send(&packet);
        bench.compare();
    }
}

#[test]
fn an_empty_write_needs_no_key_but_the_right_of_the_queue_pair() {
    for allowed in [true, false] {
        let mut bench = bench(8, 8, 0.0);
        bench.model.qps[0].allows_write = allowed;
        plain(&mut bench, 0);
        let mut packet = only(&mut bench, 0, 0, 0);
        (packet.rkey, packet.va) = (0xdead_be00, u64::MAX);
        bench.send(&packet);
        bench.compare();
        assert_eq!(bench.answers[0].2 & 0xe0, if allowed { 0 } else { 0x60 });
    }
}

#[test]
fn a_write_takes_three_cycles_and_four_over_a_page() {
    for (at, cycles) in [(0, 3), (PAGE - 30, 4)] {
        let mut bench = bench(64, 9, 0.0);
        bench.latency = 4..=4;
        // The first region of this domain begins 100 bytes into a page.
        (0..QPS).step_by(2).for_each(|qp| plain(&mut bench, qp));
        bench.sources[FRAME].stall = Some(0.0);
        for several in [0, 6] {
            bench.drain();
            let from = bench.sources[FRAME].cycles.len();
            for i in 0..100 {
                let packet = only(&mut bench, (2 * i) & several, at + PAGE - 100, 64);
                bench.send(&packet);
            }
            let taken = bench.placed(from, 100);
            assert_eq!(taken[99] - taken[49], 50 * cycles, "queue pairs of the mask {several}");
        }
        bench.compare();
    }
}

#[test]
fn a_send_takes_at_most_four_cycles() {
    let mut bench = bench(64, 11, 0.0);
    bench.latency = 4..=4;
    // Without receives of other shapes.
    (0..QPS).for_each(|qp| bare(&mut bench, qp, 0..1));
    bench.sources[FRAME].stall = Some(0.0);
    for several in [0, 7] {
        for qp in 0..QPS {
            let row = &bench.model.qps[qp as usize];
            let region = bench.model.regions.iter().find(|r| r.pd == row.pd).unwrap();
            let sge = Sge { va: region.va, key: region.key, length: 64 };
            (0..RECEIVES).for_each(|_| bench.post(qp, &[sge]));
        }
        bench.drain();
        let from = bench.sources[FRAME].cycles.len();
        let sent = if several == 0 { RECEIVES } else { RECEIVES * u64::from(QPS) } as usize;
        for i in 0..sent {
            let mut packet = only(&mut bench, i as u32 & several, 0, 64);
            packet.opcode = 0x04;
            bench.send(&packet);
        }
        let taken = bench.placed(from, sent);
        let each = (taken[sent - 1] - taken[0]) as f64 / (sent - 1) as f64;
        println!("{each} cycles, queue pairs of the mask {several}");
        assert!(each <= 4.0, "{each} cycles, queue pairs of the mask {several}");
    }
    bench.compare();
}

/// It must not hold up what comes behind it, of its QP or of others.
#[test]
fn an_atomic_that_is_refused_is_waited_for_by_nobody() {
    let mut bench = bench(64, 11, 0.0);
    bench.latency = 40..=40;
    bench.model.qps[0].allows_atomics = true;
    plain(&mut bench, 0);
    plain(&mut bench, 1);
    let mut atomic = only(&mut bench, 0, 0, 0);
    (atomic.opcode, atomic.rkey, atomic.va, atomic.offset) = (0x14, 0xdead_be00, 0x1000, 82);
    let mut behind = only(&mut bench, 0, 300, 50);
    behind.psn += 1;
    let other = only(&mut bench, 1, 300, 50);
    [&atomic, &behind, &other].into_iter().for_each(|packet| bench.push(packet));
    bench.drain();
    let answers: Vec<_> = bench.answers.iter().map(|a| (a.0, a.1, a.2 < 0x20)).collect();
    assert_eq!((answers, bench.answers[0].2), (vec![(0, atomic.psn, false), (1, other.psn, true)], 0x62));
}

/// However many wait for what is before them to be placed.
#[test]
fn what_an_atomic_asks_for_stays_with_it() {
    let mut bench = bench(64, 12, 0.0);
    bench.model.qps[0].allows_atomics = true;
    plain(&mut bench, 0);
    bench.sources[FRAME].stall = Some(1.0);
    // The region begins 4 bytes behind a place for an atomic.
    let mut atomic = only(&mut bench, 0, 4, 0);
    (atomic.opcode, atomic.offset) = (0x14, 82);
    let nobodys = Packet { qpn: QPS, va: 0, ..atomic.clone() };
    (0..200).for_each(|_| bench.push(&nobodys));
    atomic.va += 0x120;
    bench.push(&atomic);
    (0..2_000).for_each(|_| bench.step());
    bench.sources[FRAME].stall = None;
    bench.drain();
    assert_eq!(bench.sim.get("reply_lookup_valid"), 1);
    assert_eq!(bench.sim.get("reply_lookup_va"), atomic.va);
}

/// A SEND ONLY, or the FIRST of a message.
fn message(bench: &mut Bench, qpn: u32, ends: bool) -> Packet {
    let mut packet = only(bench, qpn, 0, if ends { 64 } else { 256 });
    packet.opcode = if ends { 0x04 } else { 0x00 };
    packet
}

/// A pair of QPs on one shared queue, with so many receives of 600 bytes.
fn sharing(bench: &mut Bench, receives: usize) {
    bench.create_srq(0);
    for qp in 0..2 {
        bench.model.qps[qp as usize].shared = Some(0);
        plain(bench, qp);
    }
    bench.drain();
    let region = bench.model.regions.iter().find(|r| r.pd == bench.model.srqs[0].pd).unwrap();
    let sge = Sge { va: region.va, key: region.key, length: 600 };
    let there = bench.model.srqs[0].receives.len();
    (there..receives).for_each(|_| bench.post(0, &[sge]));
}

/// All receives that ended: queue pair, index, status.
fn ends(bench: &Bench) -> Vec<(u32, u16, WcStatus)> {
    bench.ended.iter().map(|e| (e.qp, e.index, e.status)).collect()
}

#[test]
fn what_an_ended_queue_pair_has_taken_of_a_shared_queue_is_flushed() {
    for (beat_bytes, seed, stall) in [(8, 20, 0.0), (64, 21, 0.0), (64, 22, 0.4)] {
        let mut bench = bench(beat_bytes, seed, stall);
        bench.latency = 60..=60;
        sharing(&mut bench, 12);
        let first = bench.model.srqs[0].next;
        let base = bench.ended.len();
        // Its length is wrong; those behind have left before the peer knows.
        let mut bad = message(&mut bench, 0, false);
        bad.payload.truncate(100);
        bench.push(&bad);
        for i in 0..3 {
            let mut behind = message(&mut bench, 0, true);
            behind.psn = bad.psn + i;
            bench.push(&behind);
            let mut other = message(&mut bench, 1, true);
            other.psn += i;
            bench.push(&other);
        }
        bench.drain();
        bench.set_state(0, QpState::Err);
        bench.drain();
        let got: Vec<_> = ends(&bench).split_off(base);
        let of = |qp: u32| got.iter().filter(|e| e.0 == qp).map(|e| (e.1 - first, e.2)).collect::<Vec<_>>();
        let flushed = |i| (i, WcStatus::WrFlushErr);
        let expected: Vec<_> =
            std::iter::once((0, WcStatus::RemInvReqErr)).chain([1, 3, 5].map(flushed)).collect();
        assert_eq!(of(0), expected, "seed {seed}");
        assert_eq!(of(1), [2, 4, 6].map(|i| (i, WcStatus::Success)), "seed {seed}");
        assert_eq!(bench.lasts, [0], "seed {seed}");
    }
}

#[test]
fn a_held_receive_of_a_shared_queue_is_flushed_in_error_and_with_the_end_of_its_queue_pair() {
    for (beat_bytes, seed, stall) in [(8, 23, 0.0), (64, 24, 0.5)] {
        for by_error in [true, false] {
            let mut bench = bench(beat_bytes, seed, stall);
            sharing(&mut bench, 6);
            let base = bench.ended.len();
            let first = message(&mut bench, 0, false);
            bench.send(&first);
            for _ in 0..3 {
                let other = message(&mut bench, 1, true);
                bench.send(&other);
            }
            bench.drain();
            if by_error {
                bench.set_state(0, QpState::Err);
                bench.drain();
                bench.model.flush(0);
                let other = message(&mut bench, 1, true);
                bench.send(&other);
                bench.drain();
                assert_eq!(bench.lasts, [0]);
            } else {
                let lives = bench.lives.len();
                bench.set_state(0, QpState::Reset);
                assert_eq!(bench.lives.len(), lives + 1);
                assert_eq!(
                    ends(&bench)[base..].iter().filter(|e| e.0 == 0).count(),
                    1,
                    "before the end is told"
                );
            }
            let own: Vec<_> = ends(&bench).split_off(base).into_iter().filter(|e| e.0 == 0).collect();
            assert_eq!(own.iter().map(|e| e.2).collect::<Vec<_>>(), [WcStatus::WrFlushErr], "seed {seed}");
            // A new life holds nothing.
            plain(&mut bench, 0);
            let packet = message(&mut bench, 0, true);
            bench.send(&packet);
            bench.compare();
        }
    }
}

#[test]
fn a_send_of_many_queue_pairs_with_one_shared_queue_takes_at_most_four_cycles() {
    let mut bench = bench(64, 25, 0.0);
    bench.latency = 4..=4;
    bench.create_srq(0);
    for qp in 0..QPS {
        bench.model.qps[qp as usize].shared = Some(0);
        plain(&mut bench, qp);
    }
    bench.sources[FRAME].stall = Some(0.0);
    let region = bench.model.regions.iter().find(|r| r.pd == bench.model.srqs[0].pd).unwrap();
    let sge = Sge { va: region.va, key: region.key, length: 64 };
    (0..200).for_each(|_| bench.post(0, &[sge]));
    bench.drain();
    let from = bench.sources[FRAME].cycles.len();
    for i in 0..100 {
        let packet = message(&mut bench, i % QPS, true);
        bench.send(&packet);
    }
    let taken = bench.placed(from, 100);
    let each = (taken[99] - taken[19]) as f64 / 80.0;
    println!("{each} cycles");
    assert!(each <= 4.0, "{each} cycles");
    bench.compare();
}
