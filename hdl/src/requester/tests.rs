// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requester's blocks joined, from units of WQEs to packets and their payload, against the bytes of the messages.
//!
//! The bench plays the scheduler, which fetches from where it is told, the tables, host memory whose every byte follows from
//! its address, and the completer, which asks to go back now and then.

use super::*;
use crate::config::RnicConfig;
use crate::memory::{Lookup, Translation};
use crate::testing::{item, step, Item, Random, Sink, Source};
use crate::tx::Payload;
use crate::types::{
    DmaReadData, DmaReadRequest, Oldest, QpAttributes, QpBroadcast, QpInit, SqStart, TxPacket,
};
use ferrowire_rtl::{build, Bits, Sim};
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::queue::cqe::WcStatus;
use ferrowire_spec::queue::send_wqe::{sge::Sge, SendOpcode, SendWqe};
use rand::Rng;
use std::collections::VecDeque;

const QPS: usize = 4;
const FIRST_PSN: u64 = 0xff_fff0;
/// A key that grants nothing.
const BAD: u32 = 666;

// Sources.
const GRANT: usize = 0;
const WQE: usize = 1;
const READ_DATA: usize = 2;
const RESTART: usize = 3;
// Sinks.
const LOOKUP: usize = 0;
const READ: usize = 1;
const PACKET: usize = 2;
const PAYLOAD: usize = 3;
const REPORT: usize = 4;
const RESUME: usize = 5;

/// What stands in host memory.
fn byte(address: u64) -> u8 {
    (address ^ (address >> 7) ^ (address >> 15)) as u8
}

#[derive(Clone)]
struct Message {
    wqe: Vec<u8>,
    bytes: Vec<u8>,
}

#[derive(Clone, Default)]
struct Qp {
    mtu: u64,
    stride: u32,
    messages: Vec<Message>,
    /// The first PSN of each, from 0, and that behind the last.
    psns: Vec<u64>,
    /// How far it has come.
    sent: u64,
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: [Source; 4],
    sinks: [Sink; 6],
    random: Random,
    qps: Vec<Qp>,
    answers: VecDeque<(u64, bool, u64)>,
    /// Packets whose payload has not come yet: QP and PSN.
    due: VecDeque<(usize, u64, u64)>,
    beats: Vec<u8>,
    /// A piece begins.
    opens: bool,
    /// Payload of packets that have not come yet.
    paid: VecDeque<Vec<u8>>,
    seen: [usize; 6],
    to_free: u64,
    failures: Vec<Item>,
    again: u64,
}

impl Bench {
    fn new(seed: u64, beat_bytes: u32) -> Bench {
        let cfg = RnicConfig { qps: QPS as u32, beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
        let netlist = build("bench", |m| {
            let broadcast = m.input_of("broadcast", &QpBroadcast::of(&cfg));
            let oldest = m.input_of("oldest", &Oldest::write_of(&cfg));
            let starting = m.input_of("starting", &SqStart::of(&cfg));
            let units = fetch(
                m,
                &cfg,
                grain(&cfg),
                m.stream_in("grant", &Grant::of(&cfg)),
                m.stream_in("wqe", &DmaReadData::of(&cfg)),
                vec![],
            )
            .0;
            let forgotten = m.wire_of("forgotten", &Released::of());
            let released = m.wire("released", BANKS);
            let listed = list(m, &cfg, units, forgotten.clone(), released);
            m.output("returned", &listed.returned);
            let segmented = segment(
                m,
                &cfg,
                broadcast.clone(),
                starting.clone(),
                listed.wqes,
                m.stream_in("restart", &Restart::of(&cfg)),
                oldest.clone(),
                m.input_of("reads_done", &crate::types::reads_done_of(&cfg)),
                m.input_of("waiting", &Waiting::of(&cfg)),
                m.input_of("gate", &crate::context::congestion::Gate::write_of(&cfg)),
                m.input("paused", 8),
                m.input_of("handles", &crate::host::AhEntry::write_of(&cfg)),
                m.input_of("withdrawals", &crate::memory::Withdrawals::write_of(&cfg)),
                None,
            );
            m.output("charge", &segmented.charge);
            m.output("another", &segmented.another);
            m.stream_out("resume", segmented.resume);
            m.set_all(&forgotten, &segmented.forgotten);
            let candidates = crate::stream::fifo(&m.label("candidates"), 2, segmented.candidates);
            let gathered = gather(m, &cfg, candidates, listed.stored);
            m.drive(&released, gathered.released);
            m.output("kept", &gathered.kept);
            let taken = m.wire("taken", 1);
            let out = commit(
                m,
                &cfg,
                broadcast,
                m.input_of("handles2", &crate::host::AhEntry::write_of(&cfg)),
                m.stream_in("unbarred", &QpInit::of(&cfg)),
                m.stream_in("barred", &Bar::of(&cfg)),
                oldest,
                gathered.parts,
                segmented.operands,
                m.input_of("answer", &Translation::of()),
                m.input_of("operated", &crate::memory::Done::of()),
                taken,
                m.input("freed", 2),
            );
            m.output("plenty", &out.plenty);
            m.output("again", &out.again);
            m.stream_out("lookup", out.lookup);
            m.stream_out("operation", out.operations);
            m.output("taken_back", &out.taken_back);
            m.stream_out("read", out.read);
            let data = m.stream_in("data", &DmaReadData::of(&cfg));
            let started = m.stream_in("started", &QpInit::of(&cfg));
            let (coming, room) = (data.valid, data.ready);
            let paid = payload(m, &cfg, data, out.ends, started);
            m.assert(!coming | room, "read data is never held up");
            m.drive(&taken, paid.taken);
            let launched = launch(
                m,
                &cfg,
                starting,
                out.reports,
                out.packets,
                paid.verdicts,
                m.stream_in("flush", &Flush::of(&cfg)),
            );
            m.stream_out("packet", launched.packets);
            m.stream_out("report", launched.sent);
            m.discard(&launched.barred.payload);
            launched.barred.accept(ferrowire_rtl::lit(1, 1));
            m.discard(&launched.flush.payload);
            launched.flush.accept(ferrowire_rtl::lit(1, 1));
            for started in launched.started {
                m.discard(&started.payload);
                started.accept(ferrowire_rtl::lit(1, 1));
            }
            for unused in [launched.done, launched.late, launched.credit] {
                m.discard(&unused);
            }
            let sources = Sources { read: paid.payload, inline: gathered.inline, verdicts: launched.inline };
            m.stream_out("payload", take_turns(m, out.turns, sources));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources = [
            Source::new("grant", &Grant::of(&cfg)),
            Source::new("wqe", &DmaReadData::of(&cfg)),
            Source::new("data", &DmaReadData::of(&cfg)),
            Source::new("restart", &Restart::of(&cfg)),
        ];
        let sinks = [
            Sink::new("lookup", &Lookup::of()),
            Sink::new("read", &DmaReadRequest::of()),
            Sink::new("packet", &TxPacket::of(&cfg)),
            Sink::new("payload", &Payload::of(&cfg)),
            Sink::new("report", &Sent::of(&cfg)),
            Sink::new("resume", &Resume::of(&cfg)),
        ];
        let mut bench = Bench {
            cfg,
            sim,
            sources,
            sinks,
            random: Random::new(seed),
            qps: vec![Qp::default(); QPS],
            answers: VecDeque::new(),
            due: VecDeque::new(),
            beats: Vec::new(),
            opens: true,
            paid: VecDeque::new(),
            seen: [0; 6],
            to_free: 0,
            failures: Vec::new(),
            again: 0,
        };
        for qp in 0..QPS {
            bench.start(qp);
        }
        bench
    }

    fn start(&mut self, qp: usize) {
        let mtu = self.random.rng.random_range(1..6);
        // Each stride once.
        self.qps[qp] = Qp { mtu: 128 << mtu, stride: qp as u32, psns: vec![0], ..Qp::default() };
        for (path, bits) in item(&QpAttributes::of(&self.cfg), &[("mtu", mtu)]) {
            self.sim.set_bits(&format!("broadcast_attributes_entry_{path}"), &bits);
        }
        self.sim.set("broadcast_attributes_index", qp as u64);
        self.sim.set("broadcast_attributes_enable", 1);
        self.sim.set("broadcast_state_index", qp as u64);
        self.sim.set("broadcast_state_entry", QpState::Rts.code().into());
        self.sim.set("broadcast_state_enable", 1);
        self.sim.set("starting_qp", qp as u64);
        self.sim.set("starting_psn", FIRST_PSN);
        self.step(0.0);
        self.sim.set("broadcast_attributes_enable", 0);
        self.sim.set("broadcast_state_enable", 0);
        self.sources[GRANT].push_values(&[("qp", qp as u128), ("start", 1)]);
        self.oldest(qp, 0);
        (0..30).for_each(|_| self.step(0.0));
    }

    /// The completer has this as the oldest PSN that is not acknowledged.
    fn oldest(&mut self, qp: usize, psn: u64) {
        let psns = &self.qps[qp].psns;
        let index = psns.partition_point(|first| *first <= psn) - 1;
        let wire = |psn: u64| (FIRST_PSN + psn) & 0xff_ffff;
        let first = wire(psns[index]);
        self.sim.set("oldest_index", qp as u64);
        self.sim.set("oldest_entry_index", index as u64);
        self.sim.set("oldest_entry_first_psn", first);
        self.sim.set("oldest_entry_psn", wire(psn));
        self.sim.set("oldest_enable", 1);
        self.step(0.3);
        self.sim.set("oldest_enable", 0);
    }

    /// A message of so many SGEs, or inline, as its slot holds.
    fn message(&mut self, qp: usize) -> Message {
        let units = 1usize << self.qps[qp].stride;
        let rng = &mut self.random.rng;
        let mut wqe = vec![0; 64 * units];
        let kinds = [SendOpcode::Send, SendOpcode::SendImm, SendOpcode::Write, SendOpcode::WriteImm];
        let opcode = kinds[rng.random_range(0..4)].code();
        let mut head = SendWqe { opcode, ..SendWqe::default() };
        let mut bytes = Vec::new();
        if rng.random_range(0..4) == 0 {
            let most = (64 * units - 48).min(256);
            let n = rng.random_range(0..=most);
            (head.inline, head.inline_len) = (true, n as u16);
            bytes = self.random.bytes(n);
            head.emit(&mut wqe[..64]).unwrap();
            wqe[48..48 + n].copy_from_slice(&bytes);
            return Message { wqe, bytes };
        }
        let sges = rng.random_range(0..=(4 * units - 3).min(16));
        head.num_sge = sges as u8;
        head.emit(&mut wqe[..64]).unwrap();
        for i in 0..sges {
            let len = match rng.random_range(0..8) {
                0 => 0,
                1 => rng.random_range(0..9000),
                _ => rng.random_range(0..200),
            };
            let addr = rng.random_range(1..1u64 << 40);
            let page_end = (addr | 0xfff) + 1;
            let addr = if rng.random() { addr } else { page_end - rng.random_range(0..=u64::from(len) + 9) };
            let sge = Sge { addr, lkey: 7, len };
            let at = if i == 0 { 48 } else { 48 + 16 * i };
            sge.emit(&mut wqe[at..at + 16]).unwrap();
            bytes.extend((0..u64::from(len)).map(|i| byte(addr + i)));
        }
        Message { wqe, bytes }
    }

    fn post(&mut self, qp: usize, message: Message) {
        let q = &mut self.qps[qp];
        let packets = (message.bytes.len() as u64).div_ceil(q.mtu).max(1);
        q.psns.push(q.psns[q.messages.len()] + packets);
        q.messages.push(message);
        self.fetch(qp, self.qps[qp].messages.len() - 1);
    }

    /// Everything from a WQE on is fetched.
    fn fetch(&mut self, qp: usize, from: usize) {
        let stride = self.qps[qp].stride;
        for index in from..self.qps[qp].messages.len() {
            let fields =
                [("qp", qp as u128), ("index", index as u128), ("count", 1), ("stride", stride.into())];
            self.sources[GRANT].push_values(&fields);
            let wqe = self.qps[qp].messages[index].wqe.clone();
            self.read(WQE, &wqe);
        }
    }

    /// Beats of read data.
    fn read(&mut self, source: usize, bytes: &[u8]) {
        let b = self.cfg.beat_bytes as usize;
        let beats = bytes.len() / b;
        for (i, beat) in bytes.chunks(b).enumerate() {
            let mut data = item(&DmaReadData::of(&self.cfg), &[("last", u128::from(i + 1 == beats))]);
            data.insert("data".into(), Bits::from_bytes(8 * b as u32, beat));
            self.sources[source].push(data);
        }
    }

    fn step(&mut self, stall: f64) {
        let cycle = self.sim.cycles();
        let answer = self.answers.front().filter(|a| a.0 <= cycle).copied();
        self.sim.set("answer_valid", answer.is_some().into());
        if let Some((_, ok, address)) = answer {
            self.sim.set("answer_ok", ok.into());
            self.sim.set("answer_cause", ferrowire_spec::queue::cqe::LocalCause::KeyBounds.code().into());
            self.sim.set("answer_address", address);
            self.answers.pop_front();
        }
        let freed = self.to_free.min(3);
        self.to_free -= freed;
        self.sim.set("freed", freed);
        // Others want to send, now and then.
        self.sim.set("waiting_others", u64::from(cycle % 2000 < 700));
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, stall);
        let new: Vec<Vec<Item>> =
            self.sinks.iter().zip(self.seen).map(|(sink, seen)| sink.items[seen..].to_vec()).collect();
        for (seen, sink) in self.seen.iter_mut().zip(&self.sinks) {
            *seen = sink.items.len();
        }
        for lookup in &new[LOOKUP] {
            let ok = lookup["key"].to_u64() != BAD.into();
            self.answers.push_back((cycle + 4, ok, lookup["va"].to_u64()));
        }
        for read in &new[READ] {
            let (address, length) = (read["address"].to_u64(), read["length"].to_u64());
            let b = u64::from(self.cfg.beat_bytes);
            let (from, to) = (address / b * b, (address + length).div_ceil(b) * b);
            let bytes: Vec<u8> = (from..to)
                .map(|at| if (address..address + length).contains(&at) { byte(at) } else { 0xee })
                .collect();
            self.read(READ_DATA, &bytes);
        }
        new[PACKET].iter().for_each(|packet| self.packet(packet));
        new[PAYLOAD].iter().for_each(|beat| self.payload(beat));
        while !self.paid.is_empty() && !self.due.is_empty() {
            let beats = self.paid.pop_front().expect("payload");
            self.check(&beats);
        }
        for report in &new[REPORT] {
            let value = |field: &str| report[field].to_u64();
            if value("status") != 0 {
                self.failures.push(report.clone());
            } else {
                self.to_free += value("last") & value("fresh");
            }
        }
        for resume in &new[RESUME] {
            if resume["start"].is_zero() {
                self.fetch(resume["qp"].to_u64() as usize, resume["index"].to_u64() as usize);
            }
        }
    }

    /// PSNs are in order, but for those that are sent again.
    fn packet(&mut self, packet: &Item) {
        let value = |field: &str| packet[field].to_u64();
        let qp = value("qp") as usize;
        let psn = (value("psn").wrapping_sub(FIRST_PSN)) & 0xff_ffff;
        let q = &mut self.qps[qp];
        assert!(psn <= q.sent, "seed {}: a gap", self.random.seed);
        assert_eq!(value("fresh") == 1, psn == q.sent, "seed {}", self.random.seed);
        self.again += u64::from(psn < q.sent);
        q.sent = q.sent.max(psn + 1);
        let index = q.psns.partition_point(|first| *first <= psn) - 1;
        let message = &q.messages[index];
        let offset = (psn - q.psns[index]) * q.mtu;
        let bytes = (message.bytes.len() as u64 - offset).min(q.mtu);
        let found = (value("payload_bytes"), value("dma_length"));
        assert_eq!(found, (bytes, message.bytes.len() as u64), "seed {}: QP {qp}", self.random.seed);
        if bytes > 0 {
            self.due.push_back((qp, psn, value("payload_lane")));
        }
    }

    fn payload(&mut self, beat: &Item) {
        assert!(beat["poisoned"].is_zero(), "seed {}", self.random.seed);
        // What a piece holds, without what lies round it; its first beat says where it begins, but the packet does of its first.
        let (bytes, b) = (beat["data"].to_bytes(), self.cfg.beat_bytes as usize);
        let (first, opens) = (self.beats.is_empty(), std::mem::replace(&mut self.opens, false));
        let from = if opens && !first { beat["from"].to_u64() as usize } else { 0 };
        self.opens = !beat["ends_piece"].is_zero();
        let whole = !self.opens || !beat["last"].is_zero();
        let end = if whole { b - 1 } else { beat["end"].to_u64() as usize };
        self.beats.extend(&bytes[from..=end]);
        if !beat["last"].is_zero() {
            self.paid.push_back(std::mem::take(&mut self.beats));
        }
    }

    /// Payload and packet have come: is it the packet's?
    fn check(&mut self, beats: &[u8]) {
        let what = format!("seed {}: {:?}", self.random.seed, self.due.front());
        let (qp, psn, lane) = self.due.pop_front().expect("payload of a packet");
        let q = &self.qps[qp];
        let index = q.psns.partition_point(|first| *first <= psn) - 1;
        let message = &q.messages[index].bytes;
        let offset = ((psn - q.psns[index]) * q.mtu) as usize;
        let bytes = (message.len() - offset).min(q.mtu as usize);
        let b = self.cfg.beat_bytes as usize;
        let lane = lane as usize;
        assert!((lane + bytes..lane + bytes + b).contains(&beats.len()), "{what}");
        assert!(beats[lane..lane + bytes] == message[offset..offset + bytes], "{what}: other bytes");
    }

    fn settle(&mut self, stall: f64) {
        let mut idle = 0;
        for _ in 0..60_000 {
            self.step(stall);
            let busy =
                self.sources.iter().any(|s| s.left() > 0) || !self.due.is_empty() || !self.paid.is_empty();
            idle = if busy || !self.answers.is_empty() { 0 } else { idle + 1 };
            if idle > 100 {
                return;
            }
        }
        panic!("seed {}: stands still", self.random.seed);
    }
}

#[test]
fn the_bytes_of_every_message_are_sent_whatever_is_sent_again() {
    for (seed, beat_bytes) in [(1, 8), (2, 64), (3, 32), (4, 64)] {
        let mut bench = Bench::new(seed, beat_bytes);
        for round in 0..30 {
            for _ in 0..8 {
                let qp = bench.random.rng.random_range(0..QPS);
                let message = bench.message(qp);
                bench.post(qp, message);
            }
            for _ in 0..bench.random.rng.random_range(0..400) {
                bench.step([0.0, 0.2, 0.5][round % 3]);
            }
            if bench.random.chance(0.7) {
                // Back to something that was sent.
                let qp = bench.random.rng.random_range(0..QPS);
                let sent = bench.qps[qp].sent;
                if sent > 0 {
                    let psn = bench.random.rng.random_range(0..sent);
                    bench.oldest(qp, psn);
                    bench.sources[RESTART].push_values(&[("qp", qp as u128)]);
                }
            }
            if round % 4 == 3 {
                bench.settle(0.1);
            }
        }
        bench.settle(0.0);
        for (i, qp) in bench.qps.iter().enumerate() {
            assert_eq!(qp.sent, *qp.psns.last().unwrap(), "seed {seed}: QP {i}");
        }
        assert!(bench.failures.is_empty() && bench.again > 50, "seed {seed}: {} again", bench.again);
    }
}

#[test]
fn a_bad_key_ends_its_message_where_it_is_reached() {
    let mut bench = Bench::new(11, 64);
    let qp = 3;
    let mtu = bench.qps[qp].mtu;
    // The third SGE, which the fourth packet needs, may not be read.
    let lengths = [mtu + 5, 2 * mtu, 7, 100];
    let mut wqe = vec![0; 512];
    let head = SendWqe { opcode: SendOpcode::Send.code(), num_sge: 4, ..SendWqe::default() };
    head.emit(&mut wqe[..64]).unwrap();
    let mut bytes = Vec::new();
    for (i, len) in (0..).zip(lengths) {
        let (addr, lkey) = (0x10_0000 * (i + 1), if i == 2 { BAD } else { 7 });
        let at = 48 + 16 * i as usize;
        Sge { addr, lkey, len: len as u32 }.emit(&mut wqe[at..at + 16]).unwrap();
        bytes.extend((0..len).map(|i| byte(addr + i)));
    }
    bench.post(qp, Message { wqe, bytes });
    let message = bench.message(qp);
    bench.post(qp, message);
    let other = bench.message(0);
    bench.post(0, other);
    bench.settle(0.0);
    assert_eq!((bench.qps[qp].sent, bench.qps[0].sent), (3, bench.qps[0].psns[1]));
    assert_eq!(bench.failures.len(), 1);
    let failure = &bench.failures[0];
    let found = ["qp", "index", "status", "last"].map(|field| failure[field].to_u64());
    assert_eq!(found, [qp as u64, 0, WcStatus::LocProtErr.code().into(), 1]);
}

#[test]
fn small_messages_cost_three_cycles_and_one_more_for_each_sge_after_the_second() {
    for (stride, sges, most) in [(0, 1, 3.0), (1, 2, 3.1), (1, 5, 6.1), (2, 4, 5.1), (3, 16, 17.1)] {
        let mut bench = Bench::new(12, 64);
        bench.qps[0].stride = stride;
        bench.sources.iter_mut().for_each(|source| source.stall = Some(0.0));
        bench.sinks.iter_mut().for_each(|sink| sink.stall = Some(0.0));
        let messages = 60;
        for _ in 0..messages {
            let mut wqe = vec![0; 64 << stride];
            let head = SendWqe { opcode: SendOpcode::Write.code(), num_sge: sges, ..SendWqe::default() };
            head.emit(&mut wqe[..64]).unwrap();
            let mut bytes = Vec::new();
            for i in 0..u64::from(sges) {
                let (addr, len) = (0x1003 + 0x1000 * i, 64 / u32::from(sges));
                let at = 48 + 16 * i as usize;
                Sge { addr, lkey: 7, len }.emit(&mut wqe[at..at + 16]).unwrap();
                bytes.extend((0..u64::from(len)).map(|i| byte(addr + i)));
            }
            bench.post(0, Message { wqe, bytes });
        }
        bench.settle(0.0);
        let cycles = &bench.sinks[PACKET].cycles;
        let spent = (cycles[messages - 1] - cycles[0]) as f64 / (messages - 1) as f64;
        println!("{sges} SGEs in slots of {} units: {spent:.2} cycles a message", 1 << stride);
        assert!(spent <= most, "{sges} SGEs, stride {stride}: {spent:.2} cycles a message");
    }
}
