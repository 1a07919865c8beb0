// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random commands, good and bad, against a model of the tables and of the queue pairs.

use super::*;
use crate::context::qp::qp as context;
use crate::host::reset::{reset, Progress};
use crate::testing::{step, Random, Sink, Source};
use crate::types::{Drained, Kick, Mark, OfQp, QpInit, SqStart};
use ferrowire_rtl::{build, Bits, Sim};
use ferrowire_spec::qp_state::{check, Attributes, RAW_QPN};
use ferrowire_spec::queue::command::{
    alloc_mw::AllocMw, create_ah::CreateAh, create_cq::CreateCq, create_eq::CreateEq, create_qp::CreateQp,
    create_srq::CreateSrq, modify_cq::ModifyCq, modify_qp::ModifyQp, modify_srq::ModifySrq, reg_mr::RegMr,
    resize_cq::ResizeCq, set_av::SetAv, Command,
};
use ferrowire_spec::queue::{
    command_completion, command_completion::srq_summary::SrqSummary, CommandCompletion,
};
use ferrowire_spec::wire::opcode::Service;
use rand::Rng;
use std::collections::HashMap;

const RING: u64 = 0x10_0000;
const COMPLETIONS: u64 = 0x20_0000;

/// The command processor with the QP context, and a host's memory.
struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    random: Random,
    stall: f64,
    memory: HashMap<u64, u8>,
    poisoned: Option<u64>,
    producer: u16,
    answered: usize,
    written: usize,
    write_at: Option<u64>,
    /// Table writes by table, index and some of the fields.
    keys: Vec<HashMap<&'static str, u64>>,
    /// Keys that were to be removed, and the one to which windows are bound.
    removed: Vec<u64>,
    busy: Option<u64>,
    pages: HashMap<u64, u64>,
    cqs: Vec<(u64, u64, u64, u64)>,
    /// CQ, entries that are spare, period.
    limits: Vec<(u64, u64, u64)>,
    eqs: Vec<[u64; 7]>,
    /// Number, entry, limit.
    srqs: Vec<(u64, Option<[u64; 6]>, Option<u64>)>,
    /// QP, whether it has a shared receive queue, which.
    shares: Vec<(u64, u64, u64)>,
    vectors: Vec<(u64, u64, u64, u64)>,
    /// Number, whether it exists, domain.
    ahs: Vec<(u64, u64, u64)>,
    /// QP, path MTU, queue key.
    datagrams: Vec<(u64, u64, u64)>,
    states: Vec<(u64, u64)>,
}

const READ: usize = 0;
const WRITE: usize = 1;
const REMOVAL: usize = 5;
const RESIZE: usize = 6;

fn bench(beat_bytes: u32, stall: f64) -> Bench {
    bench_of(RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() }, stall)
}

fn bench_of(cfg: RnicConfig, stall: f64) -> Bench {
    let number = bits(cfg.qp_bits());
    let netlist = build("top", |m| {
        let (progress, reclaims) = (m.wire_of("resets", &Progress::of()), m.wire("reclaims", 1));
        let steps = reset(m, lit(1, 0), lit(1, 0), reclaims, progress.clone());
        [steps.stops, steps.done, steps.flr_done].iter().for_each(|unused| m.discard(unused));
        m.discard(&steps.quiesce);
        let reclaimed = steps.by_command;
        let (ready, asks) = m.restarted(steps.restart, |m| {
            let (reply, connect) = m.later("reply", &QpFound::of(&cfg));
            let data = m.stream_in("data", &DmaReadData::of(&cfg));
            let control = m.input_of("control", &CommandControl::of());
            let status = m.input_of("srq_status", &SrqStatus::of());
            let (events_busy, srqs_busy) = (m.input("events_busy", 1), m.input("srqs_busy", 1));
            let removed = m.input_of("removed", &Done::of());
            let psns = m.input_of("psns", &QpPsns::of());
            let out = command(
                m,
                &cfg,
                control,
                data,
                reply,
                removed,
                events_busy,
                status,
                srqs_busy,
                m.input("fenced", 1),
                m.input("produced", 32),
                psns,
                reclaimed,
                m.input("own_mac", 48),
            );
            // A queue pair that goes to RESET has no completion under way, and no read.
            let drained = m.wire_of("drained", &Drained::of(&cfg));
            let unread = m.wire_of("unread", &OfQp::of(&cfg));
            let fault = m.stream_in("fault", &number);
            let marks = m.stream_in("mark", &Mark::of(&cfg));
            let ctx = context(
                m,
                &cfg,
                out.query,
                out.update,
                fault,
                vec![],
                drained.clone(),
                unread.clone(),
                marks,
            );
            let state = &ctx.broadcast.state;
            let ends = state.enable & state.entry.eq(QpState::Reset.code());
            let send = m.delay("drained_send", &Drained { valid: ends, qp: state.index, receive: lit(1, 0) });
            m.set_all(&unread, &OfQp { valid: send.valid, qp: send.qp });
            let later = m.delay("drained_receive", &send);
            let receive = Drained { receive: lit(1, 1), ..later.clone() };
            m.discard(&later.receive);
            m.drive(&drained, m.mux(later.valid, &receive, &send));
            connect.connect(ctx.reply);
            m.stream_out("read", out.read);
            m.stream_out("write", out.write);
            m.stream_out("kick", ctx.kick);
            m.stream_out("report", ctx.reports);
            m.stream_out("responder", ctx.responder);
            m.stream_out("requester", ctx.requester);
            m.output("progress", &out.progress);
            m.output("taken", &out.taken);
            m.output("keys", &out.keys);
            m.stream_out("removal", out.removals);
            m.output("pages", &out.pages);
            m.output("cqs", &out.cqs);
            m.output("cq_limits", &out.cq_limits);
            m.stream_out("resize", out.resize);
            m.output("fences", &out.fences);
            m.output("eqs", &out.eqs);
            m.output("srqs", &out.srqs);
            m.output("vectors", &out.vectors);
            m.output("ahs", &out.ahs);
            m.output("broadcast", &ctx.broadcast);
            m.output("asked_qp", &out.asked_qp);
            (out.progress.ready, out.reclaims)
        });
        m.drive(&reclaims, asks);
        // Nothing else is under way.
        let (wire_shut, wire_moves, quiet) = (lit(1, 1), lit(1, 0), lit(1, 1));
        m.drive(&progress, &Progress { wire_shut, wire_moves, quiet, clear: ready });
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.reset();
    for (port, value) in
        [("base", RING), ("log2", 2), ("completion_base", COMPLETIONS), ("completion_log2", 3)]
    {
        sim.set(&format!("control_{port}"), value);
    }
    let mut sinks = vec![Sink::new("read", &DmaReadRequest::of()), Sink::new("write", &DmaWrite::of(&cfg))];
    sinks.push(Sink::new("kick", &Kick::of(&cfg)));
    sinks.push(Sink::new("responder", &QpInit::of(&cfg)));
    sinks.push(Sink::new("requester", &SqStart::of(&cfg)));
    sinks.push(Sink::new("removal", &Operation::of(&cfg)));
    sinks.push(Sink::new("resize", &CqResize::of(&cfg)));
    let mut bench = Bench {
        sources: vec![Source::new("data", &DmaReadData::of(&cfg)), Source::new("fault", &number)],
        cfg,
        sim,
        sinks,
        random: Random::new(10),
        stall,
        memory: HashMap::new(),
        poisoned: None,
        producer: 0,
        answered: 0,
        written: 0,
        write_at: None,
        keys: Vec::new(),
        removed: Vec::new(),
        busy: None,
        pages: HashMap::new(),
        cqs: Vec::new(),
        limits: Vec::new(),
        eqs: Vec::new(),
        srqs: Vec::new(),
        shares: Vec::new(),
        vectors: Vec::new(),
        ahs: Vec::new(),
        datagrams: Vec::new(),
        states: Vec::new(),
    };
    while bench.sim.get("progress_ready") == 0 {
        bench.step();
    }
    bench.sim.set("control_enable", 1);
    bench.forget();
    bench
}

impl Bench {
    fn step(&mut self) {
        if self.sim.get("keys_enable") == 1 {
            let fields = ["index", "entry_valid", "entry_tag", "entry_pd", "entry_access", "entry_page_size"];
            let more = ["entry_va", "entry_length", "entry_first_entry", "entry_window", "entry_type_1"];
            let all = fields.iter().chain(&more);
            self.keys.push(all.map(|f| (*f, self.sim.get(&format!("keys_{f}")))).collect());
        }
        if self.sim.get("pages_enable") == 1 {
            self.pages.insert(self.sim.get("pages_index"), self.sim.get("pages_entry"));
        }
        if self.sim.get("cqs_enable") == 1 {
            let get = |sim: &mut Sim, f: &str| sim.get(&format!("cqs_{f}"));
            let sim = &mut self.sim;
            let row =
                (get(sim, "index"), get(sim, "entry_valid"), get(sim, "entry_base"), get(sim, "entry_log2"));
            self.cqs.push(row);
        }
        if self.sim.get("cq_limits_enable") == 1 {
            let row = ["index", "entry_spare", "entry_period_us"];
            self.limits.push(row.map(|f| self.sim.get(&format!("cq_limits_{f}"))).into());
        }
        if self.sim.get("eqs_enable") == 1 {
            let fields = ["valid", "base", "log2", "doorbell_page", "vector", "asynchronous"];
            let mut row = [self.sim.get("eqs_index"); 7];
            for (value, field) in row[1..].iter_mut().zip(fields) {
                *value = self.sim.get(&format!("eqs_entry_{field}"));
            }
            self.eqs.push(row);
        }
        let (entry, limit) = (self.sim.get("srqs_entry_enable") == 1, self.sim.get("srqs_limit_enable") == 1);
        if entry || limit {
            let port = if entry { "entry" } else { "limit" };
            let number = self.sim.get(&format!("srqs_{port}_index"));
            let fields = ["valid", "pd", "base", "log2", "stride", "doorbell_page"];
            let entry = entry.then(|| fields.map(|f| self.sim.get(&format!("srqs_entry_entry_{f}"))));
            let limit = limit.then(|| self.sim.get("srqs_limit_entry"));
            self.srqs.push((number, entry, limit));
        }
        if self.sim.get("broadcast_attributes_enable") == 1 {
            let get = |sim: &mut Sim, f: &str| sim.get(&format!("broadcast_attributes_{f}"));
            let sim = &mut self.sim;
            self.shares.push((get(sim, "index"), get(sim, "entry_has_srq"), get(sim, "entry_srqn")));
            self.datagrams.push((get(sim, "index"), get(sim, "entry_mtu"), get(sim, "entry_qkey")));
        }
        if self.sim.get("ahs_enable") == 1 {
            let row = ["index", "entry_valid", "entry_pd"].map(|f| self.sim.get(&format!("ahs_{f}")));
            self.ahs.push(row.into());
        }
        if self.sim.get("vectors_enable") == 1 {
            let get = |sim: &mut Sim, f: &str| sim.get(&format!("vectors_{f}"));
            let sim = &mut self.sim;
            let row = (
                get(sim, "index"),
                get(sim, "entry_dst_mac"),
                get(sim, "entry_dest_qpn"),
                get(sim, "entry_udp_sport"),
            );
            self.vectors.push(row);
        }
        if self.sim.get("broadcast_state_enable") == 1 {
            let state = (self.sim.get("broadcast_state_index"), self.sim.get("broadcast_state_entry"));
            self.states.push(state);
        }
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        // The owner of the keys answers in the next cycle.
        let removal = self.sinks[REMOVAL].items.pop().map(|item| item["key"].to_u64());
        self.sim.set("removed_valid", removal.is_some().into());
        self.sim.set("removed_ok", (removal != self.busy).into());
        self.removed.extend(removal);
        self.host();
    }

    /// Answers reads and takes writes.
    fn host(&mut self) {
        let beat = u64::from(self.cfg.beat_bytes);
        for item in &self.sinks[READ].items[self.answered..] {
            let (address, length) = (item["address"].to_u64(), item["length"].to_u64());
            assert!(length > 0 && (address & 0xfff) + length <= 4096, "a read across a page");
            let (first, end) = (address & !(beat - 1), address + length);
            let mut at = first;
            while at < end {
                let bytes: Vec<u8> =
                    (at..at + beat).map(|a| self.memory.get(&a).copied().unwrap_or(0xee)).collect();
                let mut data = crate::testing::Item::from([
                    ("data".into(), Bits::from_bytes(8 * self.cfg.beat_bytes, &bytes)),
                    ("last".into(), Bits::new(1, u128::from(at + beat >= end))),
                    ("error".into(), Bits::zero(1)),
                ]);
                if self.poisoned.is_some_and(|p| (at..at + beat).contains(&p)) {
                    data.insert("error".into(), Bits::new(1, 1));
                }
                self.sources[0].push(data);
                at += beat;
            }
        }
        self.answered = self.sinks[READ].items.len();
        for item in &self.sinks[WRITE].items[self.written..] {
            let at = self.write_at.unwrap_or(item["address"].to_u64() & !(beat - 1));
            for (i, byte) in item["data"].to_bytes().iter().enumerate() {
                if item["strobe"].bit(i as u32) {
                    self.memory.insert(at + i as u64, *byte);
                }
            }
            self.write_at = item["last"].is_zero().then_some(at + beat);
        }
        self.written = self.sinks[WRITE].items.len();
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            self.memory.insert(address + i as u64, *byte);
        }
    }

    fn forget(&mut self) {
        self.keys.clear();
        self.removed.clear();
        self.pages.clear();
        self.cqs.clear();
        self.limits.clear();
        self.sinks[RESIZE].items.clear();
        self.eqs.clear();
        self.srqs.clear();
        self.shares.clear();
        self.vectors.clear();
        self.ahs.clear();
        self.datagrams.clear();
        self.states.clear();
    }

    fn post(&mut self, bytes: &[u8]) {
        self.put(RING + 64 * u64::from(self.producer & 3), bytes);
        self.producer = self.producer.wrapping_add(1);
        self.sim.set("control_producer", u64::from(self.producer));
    }

    /// Gives a command and waits for its completion.
    fn give(&mut self, bytes: &[u8]) -> CommandCompletion {
        let slot = COMPLETIONS + 16 * u64::from(self.producer & 7);
        let phase = self.producer >> 3 & 1 == 0;
        self.post(bytes);
        for _ in 0..20_000 {
            self.step();
            let bytes: Vec<u8> =
                (slot..slot + 16).map(|a| self.memory.get(&a).copied().unwrap_or(0)).collect();
            let completion = CommandCompletion::parse(&bytes).unwrap();
            if completion.phase == phase && self.write_at.is_none() {
                return completion;
            }
        }
        panic!("seed {}: no completion", self.random.seed);
    }

    #[track_caller]
    fn ok(&mut self, bytes: &[u8]) -> u64 {
        let completion = self.give(bytes);
        assert_eq!(ended(&completion), (Status::Ok, Attribute::None));
        completion.value
    }

    /// A refused command changes nothing.
    #[track_caller]
    fn refused(&mut self, bytes: &[u8], status: Status, attribute: Attribute) {
        self.forget();
        let completion = self.give(bytes);
        assert_eq!(ended(&completion), (status, attribute));
        assert!(self.keys.is_empty() && self.cqs.is_empty() && self.vectors.is_empty());
        assert!(self.pages.is_empty());
        assert!(self.ahs.is_empty() && self.datagrams.is_empty());
        assert!(self.eqs.is_empty() && self.srqs.is_empty() && self.limits.is_empty());
        assert!(self.sinks[RESIZE].items.is_empty());
        assert!(self.states.is_empty());
    }

    fn pd_and_cqs(&mut self) {
        self.ok(&simple(Op::AllocPd, 7));
        self.ok(&cq(3).to_bytes().unwrap());
        self.ok(&cq(4).to_bytes().unwrap());
    }

    fn state(&mut self, qpn: u32) -> u64 {
        self.ok(&simple(Op::QueryQp, qpn)) & 7
    }
}

fn ended(completion: &CommandCompletion) -> (Status, Attribute) {
    (Status::try_from(completion.status).unwrap(), Attribute::try_from(completion.attribute).unwrap())
}

fn simple(op: Op, object: u32) -> [u8; 64] {
    Command { opcode: op.code(), object, ..Default::default() }.to_bytes().unwrap()
}

fn cq(object: u32) -> CreateCq {
    let base = 0x1_0000_0000 + (u64::from(object) << 20);
    CreateCq { object, base, log2_entries: 6, ..Default::default() }
}

fn eq(object: u32) -> CreateEq {
    CreateEq {
        object,
        base: 0x2_0000_0000 + (u64::from(object) << 20),
        log2_entries: 5,
        vector: 1,
        doorbell_page: 3,
        asynchronous: true,
        ..Default::default()
    }
}

fn mr(object: u32, pages: u32) -> RegMr {
    RegMr {
        object,
        pd: 7,
        access: 0x0f,
        va: 0x7fff_0000_0123,
        length: u64::from(pages) * 4096 - 0x200,
        page_list_addr: 0x30_0ff8,
        page_count: pages,
        mtt_index: 40,
        ..Default::default()
    }
}

fn qp(object: u32) -> CreateQp {
    CreateQp {
        object,
        pd: 7,
        sq_log2: 6,
        rq_log2: 5,
        send_cqn: 3,
        recv_cqn: 4,
        sq_base: 0x4000_0000,
        rq_base: 0x5000_0000,
        doorbell_page: 1,
        ..Default::default()
    }
}

fn av(object: u32) -> SetAv {
    SetAv {
        object,
        dst_mac: 0x0200_0000_0002,
        src_mac: 0x0200_0000_0001,
        dst_ip: 0x0a00_0002,
        src_ip: 0x0a00_0001,
        ..Default::default()
    }
}

fn modify(object: u32, state: QpState, attributes: Attributes) -> ModifyQp {
    ModifyQp {
        object,
        state: state.code(),
        attr_mask: attributes.0,
        path_mtu: 5,
        dest_qpn: 0x99,
        rq_psn: 0x123456,
        sq_psn: 0x654321,
        access: 0x0e,
        max_rd_atomic: 16,
        max_dest_rd_atomic: 16,
        ..Default::default()
    }
}

/// What the transition requires, with all else zero.
fn required(from: QpState, to: QpState) -> Attributes {
    required_of(Service::Rc, from, to)
}

fn required_of(service: Service, from: QpState, to: QpState) -> Attributes {
    ferrowire_spec::qp_state::transition(service, from, to).unwrap().required
}

fn up(bench: &mut Bench, object: u32, to: QpState) {
    bench.ok(&av(object).to_bytes().unwrap());
    let path = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd];
    for pair in path.windows(2).take_while(|pair| pair[0] != to) {
        bench.ok(&modify(object, pair[1], required(pair[0], pair[1])).to_bytes().unwrap());
    }
}

const BENCHES: [(u32, f64); 3] = [(8, 0.0), (16, 0.3), (64, 0.3)];

#[test]
fn completions_follow_the_commands_and_their_phase_turns() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        for token in 0..20 {
            let command = Command { opcode: 0x7f, token, ..Default::default() };
            let completion = bench.give(&command.to_bytes().unwrap());
            assert_eq!((completion.token, completion.opcode), (token, 0x7f));
            assert_eq!(ended(&completion), (Status::BadOpcode, Attribute::Opcode));
        }
        bench.step();
        assert_eq!(bench.sim.get("progress_consumer"), 20);
        assert_eq!(command_completion::BYTES, 16);
    }
}

/// The next one may make the core begin anew, which forgets what has not left it.
#[test]
fn a_completion_leaves_before_the_next_command_is_read() {
    for beat_bytes in [8, 64] {
        let mut bench = bench(beat_bytes, 0.0);
        let command = |token| Command { opcode: 0x7f, token, ..Default::default() }.to_bytes().unwrap();
        bench.sinks[WRITE].stall = Some(1.0);
        let before = bench.sinks[READ].items.len();
        bench.post(&command(1));
        bench.post(&command(2));
        (0..300).for_each(|_| bench.step());
        assert_eq!(bench.sinks[READ].items.len(), before + 1, "{beat_bytes} bytes a beat");
        bench.sinks[WRITE].stall = Some(0.0);
        (0..300).for_each(|_| bench.step());
        assert_eq!(bench.sinks[READ].items.len(), before + 2, "{beat_bytes} bytes a beat");
        assert_eq!(bench.sim.get("progress_consumer"), 2);
    }
}

#[test]
fn domains_and_completion_queues_come_and_go() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        bench.ok(&simple(Op::AllocPd, 7));
        bench.refused(&simple(Op::AllocPd, 7), Status::BadObject, Attribute::Object);
        bench.refused(&simple(Op::AllocPd, 0), Status::BadObject, Attribute::Object);
        bench.refused(&simple(Op::AllocPd, 1 << 20 | 8), Status::BadObject, Attribute::Object);
        bench.ok(&simple(Op::FreePd, 7));
        bench.refused(&simple(Op::FreePd, 7), Status::BadObject, Attribute::Object);
        bench.ok(&cq(3).to_bytes().unwrap());
        assert_eq!(bench.cqs, [(3, 1, 0x1_0030_0000, 6)]);
        bench.refused(&cq(3).to_bytes().unwrap(), Status::BadObject, Attribute::Object);
        let mut bad = |change: &dyn Fn(&mut CreateCq), status, attribute| {
            let mut command = cq(5);
            change(&mut command);
            bench.refused(&command.to_bytes().unwrap(), status, attribute);
        };
        bad(&|c| c.object = 1 << 16 | 5, Status::BadObject, Attribute::Object);
        bad(&|c| c.log2_entries = 23, Status::BadSize, Attribute::Log2Entries);
        bad(&|c| c.base |= 0x800, Status::BadAddress, Attribute::Base);
        bad(&|c| c.base = !0xfff, Status::BadAddress, Attribute::Base);
        bad(&|c| c.doorbell_page = 4, Status::BadAttribute, Attribute::DoorbellPage);
        bad(&|c| c.rsvd3 = 1, Status::BadReserved, Attribute::None);
        bad(&|c| c.flags = 1, Status::BadReserved, Attribute::Flags);
        bench.forget();
        bench.ok(&simple(Op::DestroyCq, 3));
        assert_eq!((bench.cqs.len(), bench.cqs[0].0, bench.cqs[0].1), (1, 3, 0));
        bench.refused(&simple(Op::DestroyCq, 3), Status::BadObject, Attribute::Object);
    }
}

fn resize(object: u32) -> ResizeCq {
    ResizeCq { object, base: 0x3_0000_0000, log2_entries: 7, ..Default::default() }
}

#[test]
fn a_completion_queue_gets_another_ring_from_its_owner_and_stays_what_it_is() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        bench.refused(&resize(3).to_bytes().unwrap(), Status::BadObject, Attribute::Object);
        bench.pd_and_cqs();
        // In use, and not.
        bench.ok(&qp(5).to_bytes().unwrap());
        bench.ok(&cq(2).to_bytes().unwrap());
        bench.sim.set("fenced", 1);
        for (object, produced) in [(3, 0x1234_5678), (2, u64::from(u32::MAX))] {
            bench.forget();
            bench.sim.set("produced", produced);
            assert_eq!(bench.ok(&resize(object).to_bytes().unwrap()), produced);
            let asked = bench.sinks[RESIZE].items.iter();
            let asked = asked.map(|item| ["cq", "base", "log2"].map(|field| item[field].to_u64()));
            assert_eq!(asked.collect::<Vec<_>>(), [[u64::from(object), 0x3_0000_0000, 7]]);
            assert!(bench.cqs.is_empty() && bench.states.is_empty());
        }
        let mut bad = |change: &dyn Fn(&mut ResizeCq), status, attribute| {
            let mut command = resize(3);
            change(&mut command);
            bench.refused(&command.to_bytes().unwrap(), status, attribute);
        };
        bad(&|c| c.object = 5, Status::BadObject, Attribute::Object);
        bad(&|c| c.object = 1 << 16 | 3, Status::BadObject, Attribute::Object);
        bad(&|c| c.log2_entries = 23, Status::BadSize, Attribute::Log2Entries);
        bad(&|c| c.base |= 0x800, Status::BadAddress, Attribute::Base);
        bad(&|c| c.base = !0xfff, Status::BadAddress, Attribute::Base);
        bad(&|c| c.rsvd0 = 1, Status::BadReserved, Attribute::None);
        bad(&|c| c.rsvd5 = 1, Status::BadReserved, Attribute::None);
        bad(&|c| c.flags = 1, Status::BadReserved, Attribute::Flags);
        // Its users are still counted.
        bench.refused(&simple(Op::DestroyCq, 3), Status::Busy, Attribute::Object);
        bench.ok(&simple(Op::DestroyCq, 2));
        bench.ok(&simple(Op::DestroyQp, 5));
        bench.ok(&simple(Op::DestroyCq, 3));
    }
}

#[test]
fn a_new_ring_waits_for_the_doorbells_before_it_and_its_completion_for_the_old_ring() {
    let mut bench = bench(8, 0.0);
    bench.ok(&cq(3).to_bytes().unwrap());
    bench.forget();
    let before = u64::from(bench.producer);
    bench.put(RING + 64 * (before & 3), &resize(3).to_bytes().unwrap());
    bench.sinks[RESIZE].stall = Some(1.0);
    bench.sim.set("control_producer", before + 1);
    (0..100).for_each(|_| bench.step());
    assert_eq!((bench.sim.get("fences"), bench.sim.get("resize_valid")), (1, 0));
    bench.sim.set("fenced", 1);
    (0..100).for_each(|_| bench.step());
    assert_eq!((bench.sim.get("fences"), bench.sim.get("resize_valid")), (0, 1));
    assert_eq!(bench.sim.get("progress_consumer"), before);
    bench.sinks[RESIZE].stall = None;
    (0..10).for_each(|_| bench.step());
    assert_eq!(bench.sim.get("progress_consumer"), before + 1);
}

#[test]
fn completion_queues_are_moderated_until_they_end() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        let moderate = |object, count, period_us| ModifyCq { object, count, period_us, ..Default::default() };
        let none = moderate(3, 8, 20).to_bytes().unwrap();
        bench.refused(&none, Status::BadObject, Attribute::Object);
        bench.pd_and_cqs();
        bench.forget();
        let last = u64::from(u16::MAX);
        let cases =
            [(8, 20, 7), (1, 20, 0), (0, 20, 0), (8, 0, 0), (0, 0, 0), (u16::MAX, u16::MAX, last - 1)];
        for (count, period, spare) in cases {
            bench.ok(&moderate(3, count, period).to_bytes().unwrap());
            assert_eq!(bench.limits.pop(), Some((3, spare, period.into())));
        }
        assert!(bench.cqs.is_empty() && bench.limits.is_empty());
        let mut bad = |change: &dyn Fn(&mut ModifyCq), status, attribute| {
            let mut command = moderate(4, 8, 20);
            change(&mut command);
            bench.refused(&command.to_bytes().unwrap(), status, attribute);
        };
        bad(&|c| c.object = 5, Status::BadObject, Attribute::Object);
        bad(&|c| c.object = 1 << 16 | 4, Status::BadObject, Attribute::Object);
        bad(&|c| c.rsvd0 = 1, Status::BadReserved, Attribute::None);
        bad(&|c| c.rsvd1 = 1, Status::BadReserved, Attribute::None);
        bad(&|c| c.flags = 1, Status::BadReserved, Attribute::Flags);
        // A queue pair may use it meanwhile.
        bench.ok(&qp(9).to_bytes().unwrap());
        bench.ok(&moderate(4, 3, 5).to_bytes().unwrap());
        bench.ok(&simple(Op::DestroyQp, 9));
        // The next one of that number knows nothing of it.
        bench.forget();
        bench.ok(&simple(Op::DestroyCq, 4));
        bench.refused(&moderate(4, 8, 20).to_bytes().unwrap(), Status::BadObject, Attribute::Object);
        bench.forget();
        bench.ok(&cq(4).to_bytes().unwrap());
        assert_eq!(bench.limits, [(4, 0, 0)]);
    }
}

#[test]
fn new_limits_hold_when_their_command_completes() {
    let mut bench = bench(8, 0.0);
    bench.pd_and_cqs();
    let before = u64::from(bench.producer);
    bench.sim.set("events_busy", 1);
    bench.forget();
    bench.post(&ModifyCq { object: 4, count: 9, period_us: 7, ..Default::default() }.to_bytes().unwrap());
    (0..200).for_each(|_| bench.step());
    assert_eq!((bench.limits.len(), bench.sim.get("progress_consumer")), (1, before));
    bench.sim.set("events_busy", 0);
    (0..10).for_each(|_| bench.step());
    assert_eq!(bench.sim.get("progress_consumer"), before + 1);
}

#[test]
fn event_queues_come_and_go_and_are_held_by_their_completion_queues() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        bench.ok(&eq(2).to_bytes().unwrap());
        assert_eq!(bench.eqs, [[2, 1, 0x2_0020_0000, 5, 3, 1, 1]]);
        bench.refused(&eq(2).to_bytes().unwrap(), Status::BadObject, Attribute::Object);
        let mut bad = |change: &dyn Fn(&mut CreateEq), status, attribute| {
            let mut command = eq(3);
            change(&mut command);
            bench.refused(&command.to_bytes().unwrap(), status, attribute);
        };
        bad(&|c| c.object = 0, Status::BadObject, Attribute::Object);
        bad(&|c| c.object = 4, Status::BadObject, Attribute::Object);
        bad(&|c| c.object = 1 << 16 | 3, Status::BadObject, Attribute::Object);
        bad(&|c| c.log2_entries = 23, Status::BadSize, Attribute::Log2Entries);
        bad(&|c| c.base |= 0x10, Status::BadAddress, Attribute::Base);
        bad(&|c| c.base = !0xfff, Status::BadAddress, Attribute::Base);
        bad(&|c| c.vector = 4, Status::BadAttribute, Attribute::Vector);
        bad(&|c| c.doorbell_page = 4, Status::BadAttribute, Attribute::DoorbellPage);
        bad(&|c| c.rsvd0 = 1, Status::BadReserved, Attribute::None);
        bad(&|c| c.rsvd5 = 1, Status::BadReserved, Attribute::None);
        // Completion queues name one that there is, or none.
        for eqn in [1, 3, 4, 6, 255] {
            let command = CreateCq { eqn, ..cq(5) };
            bench.refused(&command.to_bytes().unwrap(), Status::BadAttribute, Attribute::Eqn);
        }
        for (object, eqn) in [(5, 2), (6, 0), (7, 2)] {
            bench.ok(&CreateCq { eqn, ..cq(object) }.to_bytes().unwrap());
        }
        bench.refused(&simple(Op::DestroyEq, 2), Status::Busy, Attribute::Object);
        bench.ok(&simple(Op::DestroyCq, 5));
        bench.ok(&simple(Op::DestroyCq, 6));
        bench.refused(&simple(Op::DestroyEq, 2), Status::Busy, Attribute::Object);
        bench.ok(&simple(Op::DestroyCq, 7));
        bench.forget();
        bench.ok(&simple(Op::DestroyEq, 2));
        assert_eq!((bench.eqs.len(), bench.eqs[0][..2].to_vec()), (1, vec![2, 0]));
        bench.refused(&simple(Op::DestroyEq, 2), Status::BadObject, Attribute::Object);
        // A queue pair that uses a completion queue leaves its event queue alone.
        bench.ok(&eq(1).to_bytes().unwrap());
        bench.ok(&simple(Op::AllocPd, 7));
        bench.ok(&CreateCq { eqn: 1, ..cq(3) }.to_bytes().unwrap());
        bench.ok(&cq(4).to_bytes().unwrap());
        bench.ok(&qp(9).to_bytes().unwrap());
        bench.ok(&simple(Op::DestroyQp, 9));
        bench.refused(&simple(Op::DestroyEq, 1), Status::Busy, Attribute::Object);
        bench.ok(&simple(Op::DestroyCq, 3));
        bench.ok(&simple(Op::DestroyEq, 1));
        bench.ok(&eq(1).to_bytes().unwrap());
        bench.ok(&simple(Op::ResetAll, 0));
        bench.refused(&simple(Op::DestroyEq, 1), Status::BadObject, Attribute::Object);
    }
}

#[test]
fn a_queue_is_gone_when_the_event_writer_is_quiet() {
    let mut bench = bench(8, 0.0);
    bench.ok(&eq(2).to_bytes().unwrap());
    bench.ok(&CreateCq { eqn: 2, ..cq(3) }.to_bytes().unwrap());
    bench.ok(&cq(4).to_bytes().unwrap());
    for command in [simple(Op::DestroyCq, 3), simple(Op::DestroyCq, 4), simple(Op::DestroyEq, 2)] {
        let before = u64::from(bench.producer);
        bench.sim.set("events_busy", 1);
        bench.put(RING + 64 * (before & 3), &command);
        bench.sim.set("control_producer", before + 1);
        bench.forget();
        (0..200).for_each(|_| bench.step());
        assert_eq!(bench.cqs.len() + bench.eqs.len(), 1);
        assert_eq!(bench.sim.get("progress_consumer"), before);
        bench.sim.set("events_busy", 0);
        (0..10).for_each(|_| bench.step());
        bench.producer += 1;
        assert_eq!(bench.sim.get("progress_consumer"), before + 1);
    }
}

#[test]
fn a_region_is_registered_with_all_its_pages_and_the_key_last() {
    for (beat_bytes, stall) in BENCHES {
        for pages in [1, 2, 9, 200] {
            let mut bench = bench(beat_bytes, stall);
            bench.ok(&simple(Op::AllocPd, 7));
            let list: Vec<u64> = (0..u64::from(pages)).map(|i| (0xabc0_0000_0000 + i * 3) << 12).collect();
            for (i, page) in list.iter().enumerate() {
                bench.put(0x30_0ff8 + 8 * i as u64, &page.to_le_bytes());
            }
            bench.ok(&mr(0x5aa, pages).to_bytes().unwrap());
            let expected: HashMap<u64, u64> = (40..).zip(list.iter().map(|p| p >> 12)).collect();
            assert_eq!(bench.pages, expected);
            assert_eq!(bench.keys.len(), 1);
            let key = &bench.keys[0];
            assert_eq!((key["index"], key["entry_valid"], key["entry_tag"]), (5, 1, 0xaa));
            assert_eq!((key["entry_pd"], key["entry_access"], key["entry_first_entry"]), (7, 0xf, 40));
            assert_eq!((key["entry_va"], key["entry_page_size"]), (0x7fff_0000_0123, 0));
            bench.refused(&simple(Op::FreePd, 7), Status::Busy, Attribute::Object);
            bench.refused(&simple(Op::DeregMr, 0x5ab), Status::BadKey, Attribute::Object);
            bench.ok(&simple(Op::DeregMr, 0x5aa));
            assert_eq!((&bench.removed[..], bench.keys.len()), (&[0x5aa][..], 0));
            bench.refused(&simple(Op::DeregMr, 0x5aa), Status::BadObject, Attribute::Object);
            bench.ok(&simple(Op::FreePd, 7));
        }
    }
}

#[test]
fn a_region_that_makes_no_sense_is_refused() {
    let mut bench = bench(8, 0.2);
    bench.ok(&simple(Op::AllocPd, 7));
    let mut bad = |change: &dyn Fn(&mut RegMr), status, attribute| {
        let mut command = mr(0x5aa, 3);
        change(&mut command);
        bench.refused(&command.to_bytes().unwrap(), status, attribute);
    };
    bad(&|c| c.object = 0xaa, Status::BadObject, Attribute::Object);
    bad(&|c| c.object = 32 << 8, Status::BadObject, Attribute::Object);
    bad(&|c| c.pd = 8, Status::BadAttribute, Attribute::Pd);
    bad(&|c| c.pd = 1 << 20 | 7, Status::BadAttribute, Attribute::Pd);
    bad(&|c| c.access = 0x80, Status::BadAttribute, Attribute::MrAccess);
    bad(&|c| c.access = 0x02, Status::BadAttribute, Attribute::MrAccess);
    bad(&|c| c.access = 0x08, Status::BadAttribute, Attribute::MrAccess);
    bad(&|c| c.page_shift = 13, Status::BadAttribute, Attribute::PageShift);
    bad(&|c| c.length = 0, Status::BadSize, Attribute::Length);
    bad(&|c| c.va = u64::MAX - 0xfff, Status::BadAddress, Attribute::Va);
    bad(&|c| c.access |= 0x20, Status::BadAddress, Attribute::Va);
    bad(&|c| c.page_count = 2, Status::BadSize, Attribute::PageCount);
    bad(&|c| c.page_count = 4, Status::BadSize, Attribute::PageCount);
    bad(&|c| c.length = u64::MAX >> 1, Status::BadSize, Attribute::PageCount);
    bad(&|c| c.mtt_index = 1022, Status::BadAttribute, Attribute::MttIndex);
    bad(&|c| c.mtt_index = u32::MAX, Status::BadAttribute, Attribute::MttIndex);
    bad(&|c| c.page_list_addr = 0x30_0004, Status::BadAddress, Attribute::PageListAddr);
    bad(&|c| c.page_list_addr = u64::MAX - 7, Status::BadAddress, Attribute::PageListAddr);
    bad(&|c| c.rsvd1 = 1, Status::BadReserved, Attribute::None);
}

#[test]
fn a_region_may_end_with_the_last_address_of_all() {
    let mut bench = bench(8, 0.2);
    bench.ok(&simple(Op::AllocPd, 7));
    bench.put(0x30_0ff8, &0xabc0_0000_0000u64.to_le_bytes());
    let of = |length, page_count| RegMr { va: u64::MAX - 0xfff, length, ..mr(0x5aa, page_count) };
    bench.refused(&of(0x1001, 2).to_bytes().unwrap(), Status::BadAddress, Attribute::Va);
    bench.refused(&of(u64::MAX, 2).to_bytes().unwrap(), Status::BadAddress, Attribute::Va);
    bench.ok(&of(0x1000, 1).to_bytes().unwrap());
}

#[test]
fn what_the_bus_has_no_address_for_is_refused() {
    for bus_bits in [32, 40] {
        let cfg = RnicConfig { bus_bits, ..RnicConfig::named("generic-8b").unwrap() };
        let mut bench = bench_of(cfg, 0.2);
        bench.ok(&simple(Op::AllocPd, 7));
        // The first address that is not there, and the last 128 MiB of those that are: no queue may end behind the bus.
        let (end, last) = (1u64 << bus_bits, (1 << bus_bits) - (128 << 20));
        for base in [end, 1 << 63, last, end - 0x1000] {
            let queue = CreateCq { base, ..cq(3) };
            bench.refused(&queue.to_bytes().unwrap(), Status::BadAddress, Attribute::Base);
            let queue = CreateEq { base, ..eq(2) };
            bench.refused(&queue.to_bytes().unwrap(), Status::BadAddress, Attribute::Base);
        }
        bench.ok(&CreateCq { base: last - 0x1000, ..cq(3) }.to_bytes().unwrap());
        assert_eq!(
            bench.cqs.last().map(|(at, valid, base, _)| (*at, *valid, *base)),
            Some((3, 1, last - 0x1000))
        );
        for list in [end, end - 8, end + 0x30_0ff8] {
            let region = RegMr { page_list_addr: list, ..mr(0x5aa, 3) };
            bench.refused(&region.to_bytes().unwrap(), Status::BadAddress, Attribute::PageListAddr);
        }
        for (page, fits) in [(end, false), (end + 0x1000, false), (1 << 63, false), (end - 0x1000, true)] {
            [0, 0x1000, page]
                .iter()
                .zip(0..)
                .for_each(|(page, i)| bench.put(0x30_0ff8 + 8 * i, &u64::to_le_bytes(*page)));
            bench.forget();
            let completion = bench.give(&mr(0x5aa, 3).to_bytes().unwrap());
            let expected = match fits {
                true => (Status::Ok, Attribute::None),
                false => (Status::BadAddress, Attribute::PageListEntry),
            };
            assert_eq!(ended(&completion), expected, "a page at {page:#x}");
            assert_eq!(bench.keys.len(), usize::from(fits));
            assert!(fits || completion.value == 2);
        }
        assert_eq!(bench.pages[&42], (end >> 12) - 1);
    }
}

#[test]
fn what_a_card_is_built_without_is_refused() {
    for beat_bytes in [8, 64] {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
        let mut bench = bench_of(cfg.plain(), 0.2);
        bench.pd_and_cqs();
        let gone = [Op::AllocMw, Op::FreeMw, Op::CreateAh, Op::DestroyAh];
        for op in gone.into_iter().chain([Op::CreateSrq, Op::ModifySrq, Op::DestroySrq, Op::QuerySrq]) {
            bench.refused(&simple(op, 5), Status::BadOpcode, Attribute::Opcode);
        }
        for (service, qpn) in [(Service::Uc, 9), (Service::Ud, 9), (Service::Ud, 1), (Service::Raw, 2)] {
            let queue_pair = CreateQp { service: service.code(), ..qp(qpn) };
            bench.refused(&queue_pair.to_bytes().unwrap(), Status::BadAttribute, Attribute::Service);
        }
        let sharing = CreateQp { has_srq: true, srqn: 0, rq_log2: 0, rq_base: 0, ..qp(9) };
        bench.refused(&sharing.to_bytes().unwrap(), Status::BadAttribute, Attribute::Srqn);
        (0..3u64).for_each(|i| bench.put(0x30_0ff8 + 8 * i, &(i << 12).to_le_bytes()));
        for right in [Access::RemoteAtomic, Access::MwBind] {
            let access = mr(0x5aa, 3).access | right.code();
            let region = RegMr { access, ..mr(0x5aa, 3) };
            bench.refused(&region.to_bytes().unwrap(), Status::BadAttribute, Attribute::MrAccess);
        }
        bench.ok(&qp(9).to_bytes().unwrap());
        let init = required(QpState::Reset, QpState::Init);
        let access = Access::RemoteWrite.code() | Access::RemoteRead.code();
        let command = ModifyQp { access, ..modify(9, QpState::Init, init) };
        let atomic = ModifyQp { access: access | Access::RemoteAtomic.code(), ..command };
        bench.refused(&atomic.to_bytes().unwrap(), Status::BadAttribute, Attribute::QpAccess);
        bench.ok(&command.to_bytes().unwrap());
        let vector = SetAv { ipv6: true, dst_ip: 1 << 100, src_ip: 1 << 99, ..av(9) };
        bench.refused(&vector.to_bytes().unwrap(), Status::BadAttribute, Attribute::Ipv6);
        let vector = SetAv { vlan: true, vlan_tci: 7, ..av(9) };
        bench.refused(&vector.to_bytes().unwrap(), Status::BadAttribute, Attribute::Vlan);
        bench.ok(&av(9).to_bytes().unwrap());
        let rtr = required(QpState::Init, QpState::Rtr);
        bench.ok(&modify(9, QpState::Rtr, rtr).to_bytes().unwrap());
        assert_eq!(bench.state(9), QpState::Rtr.code().into());
    }
}

#[test]
fn page_table_entries_belong_to_one_region() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        bench.ok(&simple(Op::AllocPd, 7));
        (0..1024u64).for_each(|i| bench.put(0x30_0ff8 + 8 * i, &(i << 12).to_le_bytes()));
        let at = |key: u32, first: u32, pages: u32| {
            RegMr { mtt_index: first, ..mr(key << 8 | 0xaa, pages) }.to_bytes().unwrap()
        };
        // The first key, the last, and one with the last entries of the table.
        for (key, first, pages) in [(1, 40, 10), (31, 60, 1), (7, 1000, 24)] {
            bench.ok(&at(key, first, pages));
        }
        let window = AllocMw { object: 0x9aa, pd: 7, ..Default::default() };
        bench.ok(&window.to_bytes().unwrap());
        for (first, pages) in [(40, 10), (30, 11), (49, 1), (45, 2), (0, 1024), (60, 1), (59, 2), (1023, 1)] {
            bench.refused(&at(5, first, pages), Status::BadAttribute, Attribute::MttIndex);
        }
        for (key, first, pages) in [(2, 0, 40), (3, 50, 10), (4, 61, 939)] {
            bench.ok(&at(key, first, pages));
        }
        // Given back, they are anybody's.
        bench.ok(&simple(Op::DeregMr, 31 << 8 | 0xaa));
        bench.ok(&at(5, 60, 1));
    }
}

#[test]
fn a_bad_page_list_leaves_no_key() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        bench.ok(&simple(Op::AllocPd, 7));
        for i in 0..100u64 {
            let page: u64 = if i == 77 { 0x8_0800 } else { i << 12 };
            bench.put(0x30_0ff8 + 8 * i, &page.to_le_bytes());
        }
        bench.forget();
        let completion = bench.give(&mr(0x5aa, 100).to_bytes().unwrap());
        assert_eq!(ended(&completion), (Status::BadAddress, Attribute::PageListEntry));
        assert_eq!((completion.value, bench.keys.len()), (77, 0));
        bench.poisoned = Some(0x30_0ff8 + 8 * 30);
        let completion = bench.give(&mr(0x5aa, 70).to_bytes().unwrap());
        assert_eq!(ended(&completion), (Status::DmaError, Attribute::PageListAddr));
        assert_eq!(bench.keys.len(), 0);
        bench.poisoned = None;
        bench.ok(&mr(0x5aa, 70).to_bytes().unwrap());
        assert_eq!(bench.keys.len(), 1);
    }
}

#[test]
fn large_pages_are_counted_and_aligned() {
    let mut bench = bench(64, 0.1);
    bench.ok(&simple(Op::AllocPd, 7));
    for (shift, size) in [(21, 1), (30, 2)] {
        let command = RegMr { page_shift: shift, va: 0x1000, length: 1 << shift, ..mr(0x5aa, 2) };
        bench.put(0x30_0ff8, &(1u64 << shift).to_le_bytes());
        bench.put(0x30_1000, &(3u64 << shift | 1 << 12).to_le_bytes());
        let completion = bench.give(&command.to_bytes().unwrap());
        assert_eq!((ended(&completion).1, completion.value), (Attribute::PageListEntry, 1));
        bench.put(0x30_1000, &(3u64 << shift).to_le_bytes());
        bench.forget();
        bench.ok(&command.to_bytes().unwrap());
        assert_eq!(bench.keys[0]["entry_page_size"], size);
        assert_eq!(bench.pages, HashMap::from([(40, 1 << (shift - 12)), (41, 3 << (shift - 12))]));
        bench.ok(&simple(Op::DeregMr, 0x5aa));
    }
}

#[test]
fn a_window_is_made_and_removed_whatever_its_tag_and_a_region_with_windows_stays() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        bench.pd_and_cqs();
        let window = |object, pd| AllocMw { object, pd, ..AllocMw::default() }.to_bytes().unwrap();
        bench.refused(&window(0x677, 6), Status::BadAttribute, Attribute::Pd);
        bench.refused(&window(0x77, 7), Status::BadObject, Attribute::Object);
        bench.forget();
        bench.ok(&window(0x677, 7));
        let all = ["index", "entry_valid", "entry_tag", "entry_pd", "entry_window", "entry_type_1"];
        assert_eq!(all.map(|f| bench.keys[0][f]), [6, 1, 0x77, 7, 1, 0]);
        let of_type_1 = AllocMw { object: 0x933, pd: 7, type_1: true, ..AllocMw::default() };
        bench.ok(&of_type_1.to_bytes().unwrap());
        assert_eq!(all.map(|f| bench.keys[1][f]), [9, 1, 0x33, 7, 1, 1]);
        bench.ok(&simple(Op::FreeMw, 0x933));
        bench.refused(&window(0x678, 7), Status::BadObject, Attribute::Object);
        bench.refused(&simple(Op::DeregMr, 0x677), Status::BadObject, Attribute::Object);
        bench.refused(&simple(Op::FreePd, 7), Status::Busy, Attribute::Object);
        let command = mr(0x5aa, 1);
        bench.put(0x30_0ff8, &0x1000u64.to_le_bytes());
        bench.ok(&command.to_bytes().unwrap());
        bench.refused(&simple(Op::FreeMw, command.object), Status::BadObject, Attribute::Object);
        // Its owner knows of windows that are bound.
        bench.busy = Some(command.object.into());
        bench.refused(&simple(Op::DeregMr, command.object), Status::Busy, Attribute::Object);
        bench.busy = None;
        bench.forget();
        bench.ok(&simple(Op::FreeMw, 0x6ff));
        bench.ok(&simple(Op::DeregMr, command.object));
        assert_eq!(bench.removed, [0x6ff, command.object.into()]);
        bench.refused(&simple(Op::FreeMw, 0x6ff), Status::BadObject, Attribute::Object);
        bench.ok(&simple(Op::FreePd, 7));
    }
}

fn srq(number: u32) -> CreateSrq {
    CreateSrq {
        token: 5,
        object: number,
        pd: 7,
        log2_entries: 4,
        doorbell_page: 2,
        limit: 3,
        base: 0x55_5000,
        rq_stride: 1,
        ..CreateSrq::default()
    }
}

#[test]
fn a_shared_receive_queue_lives_as_long_as_queue_pairs_use_it() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        bench.pd_and_cqs();
        bench.ok(&srq(5).to_bytes().unwrap());
        assert_eq!(bench.srqs, [(5, Some([1, 7, 0x55_5000, 4, 1, 2]), Some(3))]);
        bench.refused(&simple(Op::FreePd, 7), Status::Busy, Attribute::Object);
        bench.ok(&ModifySrq { object: 5, limit: 16, ..ModifySrq::default() }.to_bytes().unwrap());
        assert_eq!(bench.srqs, [(5, None, Some(16))]);
        for (name, value) in [("taken", 0xfff0), ("posted", 0x0003), ("limit", 16)] {
            bench.sim.set(&format!("srq_status_{name}"), value);
        }
        let status = bench.give(&simple(Op::QuerySrq, 5));
        let summary = SrqSummary::parse(&status.value.to_le_bytes()).unwrap();
        assert_eq!((summary.taken, summary.posted, summary.limit), (0xfff0, 3, 16));
        let user = CreateQp { has_srq: true, srqn: 5, rq_log2: 0, rq_base: 0, ..qp(9) };
        bench.ok(&user.to_bytes().unwrap());
        assert_eq!(bench.shares, [(9, 1, 5)]);
        bench.ok(&CreateQp { object: 10, ..user }.to_bytes().unwrap());
        bench.refused(&simple(Op::DestroySrq, 5), Status::Busy, Attribute::Object);
        bench.ok(&simple(Op::DestroyQp, 9));
        bench.refused(&simple(Op::DestroySrq, 5), Status::Busy, Attribute::Object);
        bench.ok(&simple(Op::DestroyQp, 10));
        // It is destroyed when nothing is read from it any more.
        bench.sim.set("srqs_busy", 1);
        bench.forget();
        bench.post(&simple(Op::DestroySrq, 5));
        (0..400).for_each(|_| bench.step());
        assert_eq!(bench.srqs, [(5, Some([0, 0, 0, 0, 0, 0]), None)]);
        assert_eq!(bench.sim.get("progress_consumer"), u64::from(bench.producer) - 1);
        bench.sim.set("srqs_busy", 0);
        (0..400).for_each(|_| bench.step());
        assert_eq!(bench.sim.get("progress_consumer"), u64::from(bench.producer));
        bench.refused(&simple(Op::QuerySrq, 5), Status::BadObject, Attribute::Object);
        bench.ok(&simple(Op::FreePd, 7));
    }
}

#[test]
fn a_shared_receive_queue_that_makes_no_sense_is_refused() {
    let mut bench = bench(64, 0.2);
    bench.pd_and_cqs();
    let mut bad = |change: &dyn Fn(&mut CreateSrq), status, attribute| {
        let mut command = srq(5);
        change(&mut command);
        bench.refused(&command.to_bytes().unwrap(), status, attribute);
    };
    bad(&|c| c.object = 8, Status::BadObject, Attribute::Object);
    bad(&|c| c.pd = 6, Status::BadAttribute, Attribute::Pd);
    bad(&|c| c.log2_entries = 16, Status::BadSize, Attribute::Log2Entries);
    bad(&|c| c.rq_stride = 3, Status::BadSize, Attribute::RqStride);
    bad(&|c| c.base |= 64, Status::BadAddress, Attribute::Base);
    bad(&|c| c.base = !0xfff, Status::BadAddress, Attribute::Base);
    bad(&|c| c.doorbell_page = 4, Status::BadAttribute, Attribute::DoorbellPage);
    bad(&|c| c.limit = 17, Status::BadAttribute, Attribute::Limit);
    bad(&|c| c.rsvd0 = 1, Status::BadReserved, Attribute::None);
    let arm = |object, limit| ModifySrq { object, limit, ..ModifySrq::default() }.to_bytes().unwrap();
    bench.refused(&arm(5, 1), Status::BadObject, Attribute::Object);
    bench.refused(&simple(Op::DestroySrq, 5), Status::BadObject, Attribute::Object);
    bench.refused(&simple(Op::QuerySrq, 8), Status::BadObject, Attribute::Object);
    bench.ok(&srq(5).to_bytes().unwrap());
    bench.refused(&srq(5).to_bytes().unwrap(), Status::BadObject, Attribute::Object);
    bench.refused(&arm(5, 17), Status::BadAttribute, Attribute::Limit);
    let user = CreateQp { has_srq: true, srqn: 5, rq_log2: 0, rq_base: 0, ..qp(9) };
    let mut bad = |change: &dyn Fn(&mut CreateQp), status, attribute| {
        let mut command = user;
        change(&mut command);
        bench.refused(&command.to_bytes().unwrap(), status, attribute);
    };
    bad(&|c| c.srqn = 4, Status::BadAttribute, Attribute::Srqn);
    bad(&|c| c.srqn = 5 + 8, Status::BadAttribute, Attribute::Srqn);
    bad(&|c| c.has_srq = false, Status::BadAttribute, Attribute::Srqn);
    bad(&|c| c.rq_log2 = 1, Status::BadSize, Attribute::RqLog2);
    bad(&|c| c.rq_stride = 1, Status::BadSize, Attribute::RqStride);
    bad(&|c| c.rq_base = 0x1000, Status::BadAddress, Attribute::RqBase);
    bench.ok(&user.to_bytes().unwrap());
    bench.ok(&simple(Op::ResetAll, 0));
    bench.refused(&simple(Op::QuerySrq, 5), Status::BadObject, Attribute::Object);
}

#[test]
fn a_qp_goes_up_to_rts_and_its_engines_start() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        bench.pd_and_cqs();
        bench.ok(&qp(9).to_bytes().unwrap());
        up(&mut bench, 9, QpState::Rts);
        assert_eq!(bench.state(9), 3);
        for (sink, psn) in [(3, 0x123456), (4, 0x654321)] {
            assert_eq!(
                (bench.sinks[sink].values("qp"), bench.sinks[sink].values("psn")),
                (vec![9], vec![psn])
            );
        }
        assert_eq!(*bench.vectors.last().unwrap(), (9, 0x0200_0000_0002, 0x99, 0xc000));
        bench.refused(&simple(Op::FreePd, 7), Status::Busy, Attribute::Object);
        bench.refused(&simple(Op::DestroyCq, 3), Status::Busy, Attribute::Object);
        bench.refused(&simple(Op::DestroyCq, 4), Status::Busy, Attribute::Object);
        bench.ok(&simple(Op::DestroyQp, 9));
        assert_eq!(*bench.states.last().unwrap(), (9, 0));
        bench.refused(&simple(Op::QueryQp, 9), Status::BadObject, Attribute::Object);
        for command in [simple(Op::FreePd, 7), simple(Op::DestroyCq, 3), simple(Op::DestroyCq, 4)] {
            bench.ok(&command);
        }
    }
}

#[test]
fn a_qp_that_makes_no_sense_is_refused() {
    let mut bench = bench(16, 0.2);
    bench.pd_and_cqs();
    let mut bad = |change: &dyn Fn(&mut CreateQp), status, attribute| {
        let mut command = qp(9);
        change(&mut command);
        bench.refused(&command.to_bytes().unwrap(), status, attribute);
    };
    bad(&|c| c.object = RAW_QPN, Status::BadAttribute, Attribute::Service);
    bad(&|c| c.object = 1, Status::BadAttribute, Attribute::Service);
    bad(&|c| c.object = 16, Status::BadObject, Attribute::Object);
    bad(&|c| c.pd = 6, Status::BadAttribute, Attribute::Pd);
    bad(&|c| c.service = Service::Raw.code(), Status::BadAttribute, Attribute::Service);
    bad(&|c| c.service = 4, Status::BadAttribute, Attribute::Service);
    bad(&|c| c.doorbell_page = 4, Status::BadAttribute, Attribute::DoorbellPage);
    bad(&|c| c.sq_log2 = 16, Status::BadSize, Attribute::SqLog2);
    bad(&|c| c.rq_log2 = 255, Status::BadSize, Attribute::RqLog2);
    bad(&|c| c.rq_stride = 3, Status::BadSize, Attribute::RqStride);
    bad(&|c| c.sq_base |= 64, Status::BadAddress, Attribute::SqBase);
    bad(&|c| c.rq_base = !0xfff, Status::BadAddress, Attribute::RqBase);
    bad(&|c| c.send_cqn = 5, Status::BadAttribute, Attribute::SendCqn);
    bad(&|c| c.recv_cqn = 16 + 4, Status::BadAttribute, Attribute::RecvCqn);
    bad(&|c| c.has_srq = true, Status::BadAttribute, Attribute::Srqn);
    bad(&|c| c.rsvd1 = 1, Status::BadReserved, Attribute::None);
    bench.ok(&qp(9).to_bytes().unwrap());
    bench.refused(&qp(9).to_bytes().unwrap(), Status::BadObject, Attribute::Object);
}

#[test]
fn transitions_are_those_of_the_specification() {
    for (service, transitions) in
        [(Service::Rc, 12), (Service::Uc, 13), (Service::Ud, 13), (Service::Raw, 13)]
    {
        follows(service, transitions);
    }
}

fn follows(service: Service, transitions: usize) {
    let mut bench = bench(64, 0.0);
    bench.pd_and_cqs();
    let qpn = if service == Service::Raw { RAW_QPN } else { 9 };
    bench.ok(&CreateQp { service: service.code(), ..qp(qpn) }.to_bytes().unwrap());
    match service {
        // It has no way to a peer of its own.
        Service::Ud | Service::Raw => {
            bench.refused(&av(qpn).to_bytes().unwrap(), Status::BadAttribute, Attribute::Service);
        }
        _ => assert_eq!(bench.ok(&av(qpn).to_bytes().unwrap()), 0),
    }
    let mut state = QpState::Reset;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1500 {
        let to = QpState::ALL[bench.random.rng.random_range(0..QpState::ALL.len())];
        let legal = ferrowire_spec::qp_state::transition(service, state, to);
        let mut given = legal.map_or(Attributes::NONE, |t| t.required);
        for _ in 0..bench.random.rng.random_range(0..3) {
            let bit = 1u32 << bench.random.rng.random_range(0..17);
            let allowed = legal.map_or(0, |t| t.required.with(t.optional).0);
            if allowed & bit != 0 || bench.random.chance(0.3) {
                given.0 ^= bit;
            }
        }
        let command = ModifyQp { cur_state: state.code(), ..modify(qpn, to, given) };
        bench.forget();
        let completion = bench.give(&command.to_bytes().unwrap());
        let expected = match check(service, state, to, given) {
            Ok(_) => (Status::Ok, Attribute::None),
            Err(ferrowire_spec::qp_state::TransitionError::Illegal { .. }) => {
                (Status::BadTransition, Attribute::State)
            }
            Err(
                ferrowire_spec::qp_state::TransitionError::Missing(set)
                | ferrowire_spec::qp_state::TransitionError::NotAllowed(set),
            ) => {
                let code = set.lowest().unwrap().code() + 1;
                (Status::BadAttribute, Attribute::try_from(code).unwrap())
            }
        };
        assert_eq!(
            ended(&completion),
            expected,
            "seed {}: {service}: {state} to {to}, {given:?}",
            bench.random.seed
        );
        if expected.0 == Status::Ok {
            seen.insert((state.code(), to.code()));
            assert_eq!(bench.states, [(u64::from(qpn), u64::from(to.code()))]);
            state = to;
        } else {
            assert!(bench.states.is_empty() && bench.vectors.is_empty());
        }
    }
    assert!(seen.len() >= transitions, "{service}: {} transitions seen", seen.len());
}

#[test]
fn datagram_queue_pairs_have_a_queue_key_and_the_largest_path_mtu() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        bench.pd_and_cqs();
        let ud = CreateQp { service: Service::Ud.code(), ..qp(9) };
        bench.ok(&ud.to_bytes().unwrap());
        assert_eq!(bench.datagrams, [(9, 5, 0)]);
        let init = required_of(Service::Ud, QpState::Reset, QpState::Init);
        let command = ModifyQp { qkey: 0x1234_5678, pkey: 0x8001, ..modify(9, QpState::Init, init) };
        bench.ok(&command.to_bytes().unwrap());
        assert_eq!(bench.datagrams, [(9, 5, 0), (9, 5, 0x1234_5678)]);
        // The address vector that the card has of it says where it sends from.
        assert_eq!(bench.vectors, [(9, 0, 0, 0xc000)]);
        bench.ok(&modify(9, QpState::Rtr, Attributes::NONE).to_bytes().unwrap());
        let rts = required_of(Service::Ud, QpState::Rtr, QpState::Rts);
        bench.ok(&modify(9, QpState::Rts, rts).to_bytes().unwrap());
        assert_eq!(bench.sinks[4].values("psn"), [0x654321]);
    }
}

#[test]
fn the_general_services_have_queue_pair_1_and_its_well_known_queue_key() {
    let mut bench = bench(64, 0.2);
    bench.pd_and_cqs();
    for service in [Service::Rc, Service::Uc] {
        let other = CreateQp { service: service.code(), ..qp(1) };
        bench.refused(&other.to_bytes().unwrap(), Status::BadAttribute, Attribute::Service);
    }
    bench.ok(&CreateQp { service: Service::Ud.code(), ..qp(1) }.to_bytes().unwrap());
    let init = required_of(Service::Ud, QpState::Reset, QpState::Init);
    let command = ModifyQp { qkey: 0x8001_0001, ..modify(1, QpState::Init, init) };
    bench.refused(&command.to_bytes().unwrap(), Status::BadAttribute, Attribute::Qkey);
    bench.ok(&ModifyQp { qkey: GSI_QKEY, ..command }.to_bytes().unwrap());
    assert_eq!(bench.state(1), 1);
    bench.ok(&simple(Op::DestroyQp, 1));
}

fn ah(object: u32) -> CreateAh {
    CreateAh {
        object,
        pd: 7,
        dst_mac: 0x0200_0000_0007,
        src_mac: 0x0200_0000_0001,
        dst_ip: 0x0a00_0007,
        src_ip: 0x0a00_0001,
        ..Default::default()
    }
}

#[test]
fn a_handle_leaves_the_address_vector_alone_that_a_queue_pair_waits_to_use() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        bench.pd_and_cqs();
        bench.ok(&qp(9).to_bytes().unwrap());
        bench.ok(&qp(2).to_bytes().unwrap());
        bench.ok(&av(9).to_bytes().unwrap());
        bench.ok(&SetAv { dst_mac: 0x0200_0000_0003, ..av(2) }.to_bytes().unwrap());
        // Handles of their numbers, and a command in between that is refused.
        bench.ok(&ah(9).to_bytes().unwrap());
        bench.ok(&ah(2).to_bytes().unwrap());
        bench.refused(&ah(2).to_bytes().unwrap(), Status::BadObject, Attribute::Object);
        bench.forget();
        for (number, mac) in [(9, 0x0200_0000_0002), (2, 0x0200_0000_0003)] {
            for (from, to) in [(QpState::Reset, QpState::Init), (QpState::Init, QpState::Rtr)] {
                bench.ok(&modify(number, to, required(from, to)).to_bytes().unwrap());
            }
            assert_eq!(*bench.vectors.last().unwrap(), (number.into(), mac, 0x99, 0xc000));
        }
        // A queue pair that is made anew has none.
        bench.ok(&simple(Op::DestroyQp, 9));
        bench.ok(&qp(9).to_bytes().unwrap());
        let init = required(QpState::Reset, QpState::Init);
        bench.ok(&modify(9, QpState::Init, init).to_bytes().unwrap());
        let rtr = required(QpState::Init, QpState::Rtr);
        let command = modify(9, QpState::Rtr, rtr).to_bytes().unwrap();
        bench.refused(&command, Status::BadAttribute, Attribute::Av);
        bench.ok(&av(9).to_bytes().unwrap());
        bench.ok(&command);
    }
}

#[test]
fn address_handles_come_and_go_and_hold_their_domain() {
    for (beat_bytes, stall) in BENCHES {
        let mut bench = bench(beat_bytes, stall);
        bench.pd_and_cqs();
        let first = 1 << (bench.cfg.av_bits() - 1);
        for number in [0, 63] {
            bench.forget();
            bench.ok(&ah(number).to_bytes().unwrap());
            assert_eq!(bench.ahs, [(number.into(), 1, 7)]);
            let vector = (first | u64::from(number), 0x0200_0000_0007);
            assert_eq!((bench.vectors[0].0, bench.vectors[0].1), vector);
            bench.refused(&ah(number).to_bytes().unwrap(), Status::BadObject, Attribute::Object);
        }
        let mut bad = |change: &dyn Fn(&mut CreateAh), status, attribute| {
            let mut command = ah(5);
            change(&mut command);
            bench.refused(&command.to_bytes().unwrap(), status, attribute);
        };
        bad(&|c| c.object = 64, Status::BadObject, Attribute::Object);
        bad(&|c| c.pd = 6, Status::BadAttribute, Attribute::Pd);
        bad(&|c| c.pd = 0, Status::BadAttribute, Attribute::Pd);
        bad(&|c| c.src_mac = 0x0100_5e00_0001, Status::BadAttribute, Attribute::SrcMac);
        bad(&|c| c.dst_mac = 0, Status::BadAttribute, Attribute::DstMac);
        bad(&|c| c.dst_ip = 1 << 40, Status::BadAttribute, Attribute::DstIp);
        bad(&|c| c.src_ip = 1 << 40, Status::BadAttribute, Attribute::SrcIp);
        bad(&|c| c.rsvd0 = 1, Status::BadReserved, Attribute::None);
        bench.refused(&simple(Op::DestroyAh, 5), Status::BadObject, Attribute::Object);
        bench.forget();
        bench.ok(&simple(Op::DestroyAh, 63));
        assert_eq!((bench.ahs.len(), bench.ahs[0].0, bench.ahs[0].1), (1, 63, 0));
        bench.refused(&simple(Op::FreePd, 7), Status::Busy, Attribute::Object);
        bench.ok(&simple(Op::DestroyAh, 0));
        bench.refused(&simple(Op::DestroyAh, 0), Status::BadObject, Attribute::Object);
        bench.ok(&simple(Op::FreePd, 7));
        bench.ok(&simple(Op::AllocPd, 7));
        bench.ok(&ah(2).to_bytes().unwrap());
        bench.ok(&simple(Op::ResetAll, 0));
        bench.refused(&simple(Op::DestroyAh, 2), Status::BadObject, Attribute::Object);
    }
}

#[test]
fn attributes_out_of_range_are_refused() {
    let mut bench = bench(8, 0.0);
    bench.pd_and_cqs();
    bench.ok(&qp(9).to_bytes().unwrap());
    let init = required(QpState::Reset, QpState::Init);
    let rtr = required(QpState::Init, QpState::Rtr);
    let command = ModifyQp { access: 0x01, ..modify(9, QpState::Init, init) };
    bench.refused(&command.to_bytes().unwrap(), Status::BadAttribute, Attribute::QpAccess);
    let believed = init.with(Attributes::of(&[AttributeBit::CurState]));
    let command = ModifyQp { cur_state: 3, ..modify(9, QpState::Init, believed) };
    bench.refused(&command.to_bytes().unwrap(), Status::BadState, Attribute::CurState);
    bench.ok(&modify(9, QpState::Init, init).to_bytes().unwrap());
    // No address vector yet.
    bench.refused(&modify(9, QpState::Rtr, rtr).to_bytes().unwrap(), Status::BadAttribute, Attribute::Av);
    let bad_av = SetAv { dst_ip: 1 << 40, ..av(9) };
    bench.refused(&bad_av.to_bytes().unwrap(), Status::BadAttribute, Attribute::DstIp);
    let bad_av = SetAv { src_mac: 0x0100_5e00_0001, ..av(9) };
    bench.refused(&bad_av.to_bytes().unwrap(), Status::BadAttribute, Attribute::SrcMac);
    bench.ok(&av(9).to_bytes().unwrap());
    for path_mtu in [0, 6, 7] {
        let command = ModifyQp { path_mtu, ..modify(9, QpState::Rtr, rtr) };
        bench.refused(&command.to_bytes().unwrap(), Status::BadAttribute, Attribute::PathMtu);
    }
    let command = ModifyQp { max_dest_rd_atomic: 17, ..modify(9, QpState::Rtr, rtr) };
    bench.refused(&command.to_bytes().unwrap(), Status::BadAttribute, Attribute::MaxDestRdAtomic);
    let selects = rtr.with(Attributes::of(&[AttributeBit::Selective]));
    let command = ModifyQp { selective: true, ..modify(9, QpState::Rtr, selects) };
    bench.refused(&command.to_bytes().unwrap(), Status::BadAttribute, Attribute::Selective);
    bench.refused(&simple(Op::ModifyQp, 8), Status::BadObject, Attribute::Object);
    assert_eq!(bench.state(9), 1);
}

#[test]
fn a_fault_of_a_qp_is_seen_by_the_next_query() {
    let mut bench = bench(8, 0.2);
    bench.pd_and_cqs();
    bench.ok(&qp(9).to_bytes().unwrap());
    up(&mut bench, 9, QpState::Rts);
    bench.sources[1].push_values(&[("", 9)]);
    (0..50).for_each(|_| bench.step());
    assert_eq!(bench.state(9), 6);
    assert_eq!(bench.sinks[2].values("qp"), [9]);
}

#[test]
fn reset_all_removes_everything_and_its_completion_follows() {
    let mut bench = bench(16, 0.2);
    bench.pd_and_cqs();
    bench.ok(&qp(9).to_bytes().unwrap());
    up(&mut bench, 9, QpState::Rts);
    bench.ok(&simple(Op::ResetAll, 0));
    bench.refused(&simple(Op::QueryQp, 9), Status::BadObject, Attribute::Object);
    bench.refused(&simple(Op::FreePd, 7), Status::BadObject, Attribute::Object);
    bench.pd_and_cqs();
    bench.ok(&qp(9).to_bytes().unwrap());
    assert_eq!(bench.state(9), 0);
}

#[test]
fn a_ring_that_cannot_be_read_stops_until_a_reset() {
    let mut bench = bench(8, 0.2);
    bench.poisoned = Some(RING + 32);
    bench.sim.set("control_producer", 1);
    (0..500).for_each(|_| bench.step());
    assert_eq!((bench.sim.get("progress_fatal"), bench.sim.get("progress_consumer")), (1, 0));
    bench.poisoned = None;
    bench.sim.set("control_enable", 0);
    bench.sim.set("control_producer", 0);
    bench.sim.reset();
    assert_eq!(bench.sim.get("progress_ready"), 0);
    (0..5000).for_each(|_| bench.step());
    assert_eq!((bench.sim.get("progress_ready"), bench.sim.get("progress_fatal")), (1, 0));
    bench.sim.set("control_enable", 1);
    bench.ok(&simple(Op::AllocPd, 3));
}

#[test]
fn a_simple_command_takes_few_cycles() {
    let mut bench = bench(64, 0.0);
    bench.ok(&simple(Op::AllocPd, 3));
    let start = bench.sim.cycles();
    bench.ok(&simple(Op::FreePd, 3));
    let cycles = bench.sim.cycles() - start;
    println!("{cycles} cycles");
    assert!(cycles <= 18, "{cycles} cycles");
}
