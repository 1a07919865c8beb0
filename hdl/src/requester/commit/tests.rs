// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random candidates, tables that answer late or refuse, and scarce room, against a model of what must come of each. Here
//! nothing changes while a packet is on its way: for that see `edges`.

use super::*;
use crate::testing::{item, step, Item, Random, Sink, Source};
use crate::types::RAW_OPCODE;
use ferrowire_rtl::{build, Sim};
use ferrowire_spec::queue::cqe::LocalCause;
use ferrowire_spec::wire::opcode::{Opcode, Service};
use rand::Rng;
use std::collections::VecDeque;

mod edges;

const QPS: usize = 8;

// Sources.
const UNBARRED: usize = 0;
const BARRED: usize = 1;
const PARTS: usize = 2;
// Sinks.
const LOOKUP: usize = 0;
const READ: usize = 1;
const ENDS: usize = 2;
const PACKETS_OUT: usize = 3;
const REPORTS: usize = 4;
const TURNS_OUT: usize = 5;

#[derive(Clone, Copy)]
struct Given {
    ok: bool,
    address: u64,
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    random: Random,
    stall: f64,
    /// What the tables will say, and which answers are due from which cycle on.
    tables: VecDeque<Given>,
    answers: VecDeque<(u64, Given)>,
    delay: (u64, u64),
    /// Beats asked for that are still in the payload buffer, messages at the completer.
    beats: u64,
    messages: u64,
    taking: f64,
    freeing: f64,
    seen: [usize; 6],
    most: (u64, u64),
    /// Pulses of `again`.
    again: usize,
}

impl Bench {
    fn new(seed: u64, beat_bytes: u32) -> Bench {
        let cfg = RnicConfig {
            qps: QPS as u32,
            outstanding: 16,
            beat_bytes,
            ..RnicConfig::named("generic-8b").unwrap()
        };
        let netlist = build("bench", |m| {
            let answer = Translation::of();
            let out = commit(
                m,
                &cfg,
                m.input_of("broadcast", &QpBroadcast::of(&cfg)),
                m.input_of("handles", &crate::host::AhEntry::write_of(&cfg)),
                m.stream_in("unbarred", &QpInit::of(&cfg)),
                m.stream_in("barred", &Bar::of(&cfg)),
                m.input_of("oldest", &Oldest::write_of(&cfg)),
                m.stream_in("parts", &Part::of(&cfg)),
                m.stream_in("operands", &Operands::of()),
                m.input_of("answer", &answer),
                m.input_of("operated", &Done::of()),
                m.input("taken", 1),
                m.input("freed", 2),
            );
            m.stream_out("lookup", out.lookup);
            m.stream_out("operation", out.operations);
            m.output("taken_back", &out.taken_back);
            m.stream_out("read", out.read);
            m.stream_out("ends", out.ends);
            m.stream_out("packets", out.packets);
            m.stream_out("reports", out.reports);
            m.stream_out("turns", out.turns);
            m.output("plenty", &out.plenty);
            // Of the cycle before.
            m.output("again", &m.delay("was_again", &out.again));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources = vec![
            Source::new("unbarred", &QpInit::of(&cfg)),
            Source::new("barred", &Bar::of(&cfg)),
            Source::new("parts", &Part::of(&cfg)),
        ];
        let sinks = vec![
            Sink::new("lookup", &Lookup::of()),
            Sink::new("read", &DmaReadRequest::of()),
            Sink::new("ends", &End::of(&cfg)),
            Sink::new("packets", &TxPacket::of(&cfg)),
            Sink::new("reports", &Report::of(&cfg)),
            Sink::new("turns", &Turn::of()),
        ];
        let mut bench = Bench {
            cfg,
            sim,
            sources,
            sinks,
            random: Random::new(seed),
            stall: 0.0,
            tables: VecDeque::new(),
            answers: VecDeque::new(),
            delay: (4, 4),
            beats: 0,
            messages: 0,
            taking: 1.0,
            freeing: 1.0,
            seen: [0; 6],
            most: (0, 0),
            again: 0,
        };
        // Every second queue pair's packets loop, and those to every second handle.
        for number in 0..u64::from(bench.cfg.ahs) {
            let qp = number % QPS as u64;
            for (table, index, field) in [("broadcast_attributes", qp, "loops"), ("handles", number, "loops")]
            {
                bench.sim.set(&format!("{table}_enable"), 1);
                bench.sim.set(&format!("{table}_index"), index);
                bench.sim.set(&format!("{table}_entry_{field}"), index & 1);
            }
            bench.sim.tick();
        }
        bench.sim.set("broadcast_attributes_enable", 0);
        bench.sim.set("handles_enable", 0);
        for qp in 0..QPS {
            bench.oldest(qp, 0);
            bench.state(qp, QpState::Rts);
        }
        bench
    }

    fn state(&mut self, qp: usize, state: QpState) {
        self.sim.set("broadcast_state_index", qp as u64);
        self.sim.set("broadcast_state_entry", state.code().into());
        self.sim.set("broadcast_state_enable", 1);
        self.step();
        self.sim.set("broadcast_state_enable", 0);
    }

    fn oldest(&mut self, qp: usize, index: u16) {
        self.sim.set("oldest_index", qp as u64);
        self.sim.set("oldest_entry_index", index.into());
        self.sim.set("oldest_enable", 1);
        self.step();
        self.sim.set("oldest_enable", 0);
    }

    fn step(&mut self) {
        let seed = self.random.seed;
        let cycle = self.sim.cycles();
        let taken = self.beats > 0 && self.random.chance(self.taking);
        self.beats -= u64::from(taken);
        self.sim.set("taken", taken.into());
        let freed = (0..3).filter(|_| self.random.chance(self.freeing)).count() as u64;
        let freed = freed.min(self.messages);
        self.messages -= freed;
        self.sim.set("freed", freed);
        let answer = self.answers.front().filter(|a| a.0 <= cycle).map(|a| a.1);
        self.sim.set("answer_valid", answer.is_some().into());
        // Without valid it means nothing.
        let junk = Given { ok: self.random.chance(0.5), address: self.random.rng.random() };
        let said = answer.unwrap_or(junk);
        self.sim.set("answer_ok", said.ok.into());
        self.sim.set("answer_cause", LocalCause::KeyBounds.code().into());
        self.sim.set("answer_address", said.address);
        if answer.is_some() {
            self.answers.pop_front();
        }
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        self.again += self.sim.get("again") as usize;
        for _ in self.seen[LOOKUP]..self.sinks[LOOKUP].items.len() {
            let given = self.tables.pop_front().expect("a lookup that nobody expects");
            self.answers
                .push_back((cycle + self.random.rng.random_range(self.delay.0..=self.delay.1), given));
        }
        let b = u64::from(self.cfg.beat_bytes);
        for read in &self.sinks[READ].items[self.seen[READ]..] {
            let (address, length) = (read["address"].to_u64(), read["length"].to_u64());
            assert!(length > 0 && address % 4096 + length <= 4096, "seed {seed}: {address:#x}, {length}");
        }
        for read in &self.sinks[READ].items[self.seen[READ]..] {
            self.beats += (read["address"].to_u64() % b + read["length"].to_u64()).div_ceil(b);
        }
        for report in &self.sinks[REPORTS].items[self.seen[REPORTS]..] {
            let fields = ["packet", "sent_last", "sent_fresh"];
            self.messages += u64::from(fields.iter().all(|f| report[*f].to_u64() == 1));
        }
        for (seen, sink) in self.seen.iter_mut().zip(&self.sinks) {
            *seen = sink.items.len();
        }
        assert!(
            self.beats <= u64::from(self.cfg.payload_buffer_bytes) / b,
            "seed {seed}: no room for payload"
        );
        assert!(self.messages <= u64::from(messages(&self.cfg)), "seed {seed}: no room for messages");
        self.most = (self.most.0.max(self.beats), self.most.1.max(self.messages));
    }

    /// Until all is over; where the completer frees nothing, but for that.
    fn drain(&mut self) {
        let mut idle = 0;
        for _ in 0..100_000 {
            self.step();
            let busy = self.sources.iter().any(|s| s.left() > 0) || !self.answers.is_empty();
            let held = self.freeing > 0.0 && self.messages > 0;
            idle = if busy || self.beats > 0 || held { 0 } else { idle + 1 };
            if idle > 60 {
                return;
            }
        }
        panic!("seed {}: stands still, {} candidates left", self.random.seed, self.sources[PARTS].left());
    }
}

/// A piece as it is asked for.
#[derive(Clone, Copy, Default)]
struct Asked {
    key: u32,
    va: u64,
    rest: u64,
    bytes: u64,
}

/// What is left of an SGE from `va` on, for `bytes` of a packet: cut at pages.
fn cut(key: u32, va: u64, rest: u64, bytes: u64) -> Vec<Asked> {
    let (mut pieces, mut done) = (Vec::new(), 0);
    while done < bytes {
        let va = va.wrapping_add(done);
        let n = (bytes - done).min(4096 - va % 4096);
        pieces.push(Asked { key, va, rest: rest - done, bytes: n });
        done += n;
    }
    pieces
}

impl Bench {
    /// A packet, by the names of its fields, and where its payload lies.
    fn packet(&mut self, values: &[(&str, u128)], pieces: &[Asked], inline: bool) {
        let names: Vec<String> = values.iter().map(|(name, _)| format!("packet_{name}")).collect();
        let packet: Vec<(&str, u128)> =
            names.iter().zip(values).map(|(name, (_, value))| (name.as_str(), *value)).collect();
        let get = |name: &str| values.iter().rfind(|v| v.0 == name).map_or(0, |v| v.1);
        let of_qp = [("packet_last_psn", get("psn")), ("packet_pd", 100 + get("qp"))];
        let packet = [&packet[..], &of_qp].concat();
        if pieces.is_empty() {
            let fields = [("inline", inline.into()), ("va", 48 * u128::from(inline)), ("last", 1)];
            let bytes = ("bytes", if inline { get("bytes") } else { 0 });
            self.sources[PARTS].push_values(&[&packet[..], &fields, &[bytes]].concat());
        }
        for (i, piece) in pieces.iter().enumerate() {
            let fields = [
                ("asks", 1),
                ("key", piece.key.into()),
                ("va", piece.va.into()),
                ("rest", piece.rest.into()),
                ("bytes", piece.bytes.into()),
                ("last", u128::from(i + 1 == pieces.len())),
            ];
            self.sources[PARTS].push_values(&[&packet[..], &fields].concat());
        }
    }
}

/// Whether a bar keeps a WQE back.
fn stops(bar: Option<u16>, index: u16) -> bool {
    bar.is_some_and(|bar| index.wrapping_sub(bar) < 0x8000)
}

/// What must come out.
#[derive(Default)]
struct Model {
    /// The oldest WQE of each QP that failed.
    bars: [Option<u16>; QPS],
    sends: [bool; QPS],
    oldest: [u16; QPS],
    again: usize,
    /// Stopped though sent before, sent though its QP is barred, a bar behind another.
    kinds: [usize; 3],
    psn: u128,
    lookups: Vec<Item>,
    reads: Vec<Item>,
    ends: Vec<Item>,
    packets: Vec<Item>,
    reports: Vec<Item>,
    turns: Vec<Item>,
}

impl Model {
    /// A WQE failed. What stands before it stays.
    fn bar(&mut self, qp: usize, index: u16) {
        if !stops(self.bars[qp], index) {
            self.kinds[2] += usize::from(self.bars[qp].is_some());
            self.bars[qp] = Some(index);
        }
    }

    fn candidate(&mut self, bench: &mut Bench) {
        let qp = bench.random.rng.random_range(0..QPS);
        let refuses = bench.random.chance(0.02);
        let broken = bench.random.chance(0.02);
        let start = bench.random.chance(0.03);
        let fresh = bench.random.chance(0.7);
        let done = bench.random.chance(0.1);
        let rng = &mut bench.random.rng;
        let ahead = [0, 1, rng.random_range(0..0x8000), 0x7fff][rng.random_range(0..4)];
        let ahead = if done { !ahead } else { ahead };
        let index = self.oldest[qp].wrapping_add(ahead);
        // Where its QP is barred, mostly about there.
        let near = [0x8000, 0x7fff, 0xffff, 0, 1, 0xfff0, rng.random()];
        let index = match self.bars[qp] {
            Some(bar) if rng.random_range(0..4) > 0 => {
                bar.wrapping_add(near[rng.random_range(0..near.len())])
            }
            _ => index,
        };
        let done = index.wrapping_sub(self.oldest[qp]) >= 0x8000;
        let inline = rng.random_range(0..8) == 0;
        let bytes: u64 = match rng.random_range(0..8) {
            _ if inline => rng.random_range(0..=256),
            0 => 0,
            1 => 4096,
            2 => rng.random_range(1..4097),
            _ => rng.random_range(1..300),
        };
        // One SGE, or some; near a page's end as often as not.
        let sges = if rng.random() { 1 } else { rng.random_range(1..=16u64).min(bytes.max(1)) };
        let mut ends: Vec<u64> = (1..sges).map(|_| rng.random_range(0..=bytes)).chain([bytes]).collect();
        ends.sort_unstable();
        let (mut pieces, mut begin) = (Vec::new(), 0);
        for end in ends {
            let n = end - begin;
            let va: u64 = match rng.random() {
                true => rng.random(),
                false => (rng.random::<u64>() & !0xfff).wrapping_sub(rng.random_range(0..n + 70)),
            };
            let rest =
                if end < bytes { n } else { n + rng.random_range(0..2) * rng.random_range(0..1u64 << 30) };
            pieces.append(&mut cut(rng.random(), va, rest, n));
            begin = end;
        }
        let inline = inline && bytes > 0 && !broken && !start;
        if inline || broken || start {
            pieces.clear();
        }
        let last = rng.random();
        self.psn = (self.psn + 1) & 0xff_ffff;
        let status = if broken { rng.random_range(1..20) } else { 0 };
        let values = [
            ("qp", qp as u128),
            ("index", index.into()),
            ("opcode", rng.random::<u8>().into()),
            ("psn", self.psn),
            ("ack_req", rng.random::<bool>().into()),
            ("last", u128::from(last || broken)),
            ("signaled", rng.random::<bool>().into()),
            ("wqe_opcode", rng.random_range(0..8u8).into()),
            ("solicited", rng.random::<bool>().into()),
            ("imm", rng.random::<u32>().into()),
            ("remote_va", rng.random::<u64>().into()),
            ("rkey", rng.random::<u32>().into()),
            ("length", rng.random::<u32>().into()),
            ("bytes", bytes.into()),
            ("status", status),
            ("cause", if broken { 0x86 } else { 0 }),
            ("fresh", fresh.into()),
            ("start", start.into()),
        ];
        let get = |name: &str| values.iter().find(|v| v.0 == name).unwrap().1;
        bench.packet(&values, &pieces, inline);
        if start {
            // It passes always; only the QP counts.
            let report = [("sent_qp", qp as u128), ("start", 1)];
            self.reports.push(item(&Report::of(&bench.cfg), &report));
            return;
        }

        // One question for each piece.
        let rng = &mut bench.random.rng;
        let refused = refuses.then(|| rng.random_range(0..3)).filter(|n| *n < pieces.len());
        let mut reads = Vec::new();
        for (i, piece) in pieces.iter().enumerate() {
            let address = (rng.random::<u64>() & !0xfff) | (piece.va & 0xfff);
            bench.tables.push_back(Given { ok: refused != Some(i), address });
            let question = [
                ("key", piece.key.into()),
                ("pd", 100 + qp as u128),
                ("qpn", qp as u128),
                ("va", piece.va.into()),
                ("length", piece.rest.into()),
            ];
            self.lookups.push(item(&Lookup::of(), &question));
            let read = [("address", u128::from(address)), ("length", piece.bytes.into())];
            reads.push(item(&DmaReadRequest::of(), &read));
        }
        let b = u64::from(bench.cfg.beat_bytes);
        let lanes: Vec<(u64, u64)> = pieces.iter().map(|p| (p.va % b, p.bytes)).collect();
        let lane = if inline { 48 % b } else { lanes.first().map_or(0, |lane| lane.0) };
        let turn = |skip: bool| item(&Turn::of(), &[("inline", inline.into()), ("skip", skip.into())]);

        let failed = broken || refused.is_some();
        if !self.sends[qp] || done {
            self.turns.extend(inline.then(|| turn(true)));
            return;
        }
        if stops(self.bars[qp], index) {
            self.turns.extend(inline.then(|| turn(true)));
            self.kinds[0] += usize::from(!fresh && !failed);
            return;
        }
        self.kinds[1] += usize::from(self.bars[qp].is_some() && !failed);
        let fields = ["qp", "psn", "index", "signaled", "wqe_opcode", "length", "fresh"];
        let mut sent: Vec<(String, u128)> = fields.iter().map(|f| (format!("sent_{f}"), get(f))).collect();
        let (status, cause) = match (broken, refused) {
            (true, _) => (get("status"), get("cause")),
            (false, Some(_)) => (WcStatus::LocProtErr.code().into(), LocalCause::KeyBounds.code().into()),
            (false, None) => (0, 0),
        };
        sent.extend([
            ("sent_last".into(), u128::from(failed || last)),
            ("sent_status".into(), status),
            ("sent_cause".into(), cause),
            ("packet".into(), u128::from(!failed)),
            ("payload".into(), u128::from(!failed && bytes > 0)),
            ("inline".into(), inline.into()),
        ]);
        let sent: Vec<(&str, u128)> = sent.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        self.reports.push(item(&Report::of(&bench.cfg), &sent));
        if failed {
            self.bar(qp, index);
            return;
        }
        for (i, (from, bytes)) in lanes.iter().enumerate() {
            let end = [
                ("qp", qp as u128),
                ("last", u128::from(i + 1 == lanes.len())),
                ("index", index.into()),
                ("from", u128::from(*from)),
                ("end", u128::from((from + bytes - 1) % b)),
            ];
            self.ends.push(item(&End::of(&bench.cfg), &end));
        }
        self.turns.extend((bytes > 0).then(|| turn(false)));
        self.reads.append(&mut reads);
        self.again += usize::from(!fresh);
        let opcode = get("opcode") as u8;
        let datagram = Opcode::ALL.iter().any(|o| o.code() == opcode && o.service() == Service::Ud);
        let whose = if datagram { get("remote_va") >> 32 } else { qp as u128 };
        let loops = opcode >> 5 == RAW_OPCODE >> 5 || whose & 1 == 1;
        let packet = [
            ("qp", qp as u128),
            ("opcode", get("opcode")),
            ("solicited", get("solicited")),
            ("imm", get("imm")),
            ("ack_req", get("ack_req")),
            ("psn", self.psn),
            ("fresh", get("fresh")),
            ("va", get("remote_va")),
            ("rkey", get("rkey")),
            ("dma_length", get("length")),
            ("payload_bytes", bytes.into()),
            ("payload_lane", lane.into()),
            ("loops", loops.into()),
        ];
        self.packets.push(item(&TxPacket::of(&bench.cfg), &packet));
    }
}

#[test]
fn what_is_granted_is_read_within_its_pages_and_sent_and_a_refusal_bars_the_queue_pair() {
    for (seed, beat_bytes) in [(1, 8), (2, 64), (3, 64)] {
        let mut bench = Bench::new(seed, beat_bytes);
        let mut model = Model { sends: [true; QPS], ..Model::default() };
        for round in 0..24 {
            bench.stall = [0.0, 0.2, 0.6][bench.random.rng.random_range(0..3)];
            bench.delay = (1, [1, 6, 40][bench.random.rng.random_range(0..3)]);
            // Sometimes payload stays long in its buffer.
            bench.taking = if round % 4 == 1 { 0.15 } else { 1.0 };
            bench.freeing = 0.7;
            for _ in 0..100 {
                model.candidate(&mut bench);
            }
            if round % 4 == 2 {
                // The completer forgets nothing for long: nobody waits for that, only `plenty` tells.
                bench.freeing = 0.0;
                bench.drain();
                let plenty = bench.messages <= bench.cfg.outstanding.into();
                assert_eq!(
                    bench.sim.get("plenty"),
                    plenty.into(),
                    "seed {seed}: {} messages",
                    bench.messages
                );
                bench.freeing = 0.7;
            }
            bench.drain();
            assert_eq!(bench.sim.get("plenty"), 1, "seed {seed}: all is free");
            assert_eq!(bench.again, model.again, "seed {seed}: sent again");
            for qp in 0..QPS {
                if bench.random.chance(0.5) {
                    model.oldest[qp] = bench.random.rng.random();
                    bench.oldest(qp, model.oldest[qp]);
                }
                match if round % 4 == 1 { 9 } else { bench.random.rng.random_range(0..10) } {
                    0 => {
                        // As often as not beside a bar that is there.
                        let base = model.bars[qp].unwrap_or(model.oldest[qp]);
                        let aside = [0, 1, 0xffff, 0x7fff, 0x8000, bench.random.rng.random()];
                        let index = base.wrapping_add(aside[bench.random.rng.random_range(0..aside.len())]);
                        bench.sources[BARRED].push_values(&[("qp", qp as u128), ("index", index.into())]);
                        model.bar(qp, index);
                    }
                    1 => {
                        let all = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Sqd, QpState::Err];
                        let state = all[bench.random.rng.random_range(0..all.len())];
                        bench.state(qp, state);
                        model.sends[qp] = state == QpState::Sqd;
                    }
                    // All of them, where room at the completer is to run out.
                    n if n <= 5 || round % 4 == 1 => {
                        bench.sources[UNBARRED].push_values(&[("qp", qp as u128)]);
                        model.bars[qp] = None;
                        bench.drain();
                        bench.state(qp, QpState::Rts);
                        model.sends[qp] = true;
                    }
                    _ => {}
                }
            }
            bench.drain();
        }
        let what = format!("seed {seed}, {beat_bytes} bytes a beat");
        for report in bench.sinks[REPORTS].items.iter_mut().filter(|r| r["start"].to_u64() == 1) {
            let start = [("sent_qp", report["sent_qp"].to_u128()), ("start", 1)];
            // Whatever else it says, it is neither a packet nor a failure.
            for none in ["packet", "payload", "sent_status"] {
                assert!(report[none].is_zero(), "{what}: {none} of a start");
            }
            *report = item(&Report::of(&bench.cfg), &start);
        }
        // Where there is no answer, nobody looks at where it would go.
        for report in &mut bench.sinks[REPORTS].items {
            report.retain(|field, _| !field.starts_with("sent_sge"));
        }
        for report in &mut model.reports {
            report.retain(|field, _| !field.starts_with("sent_sge"));
        }
        let expected = [model.lookups, model.reads, model.ends, model.packets, model.reports, model.turns];
        let names = ["lookups", "reads", "ends", "packets", "reports", "turns"];
        for (sink, (expected, name)) in bench.sinks.iter().zip(expected.iter().zip(names)) {
            let differs = sink.items.iter().zip(expected).position(|(got, want)| got != want);
            assert_eq!(differs, None, "{what}: {name}");
            assert_eq!(sink.items.len(), expected.len(), "{what}: {name}");
        }
        assert!(model.kinds.iter().all(|n| *n > 0), "{what}: too little of something: {:?}", model.kinds);
        // The rounds were such that room was scarce.
        let room = u64::from(bench.cfg.payload_buffer_bytes / beat_bytes);
        assert!(bench.most.0 > room / 2 && bench.most.1 > 16, "{what}: {:?}", bench.most);
        bench.room_is_whole();
    }
}

#[test]
fn a_packet_in_two_cycles_while_the_tables_answer_in_four() {
    let mut bench = Bench::new(4, 64);
    bench.sinks.iter_mut().for_each(|sink| sink.stall = Some(0.0));
    for psn in 0..100u64 {
        let piece = Asked { va: 4096, rest: 64, bytes: 64, ..Asked::default() };
        bench.packet(&[("psn", psn.into()), ("bytes", 64)], &[piece], false);
        bench.tables.push_back(Given { ok: true, address: 0 });
    }
    // Answers come exactly four cycles behind the questions, as those of the tables.
    for _ in 0..300 {
        bench.step();
    }
    let cycles = &bench.sinks[PACKETS_OUT].cycles;
    assert_eq!(cycles.len(), 100);
    assert!(cycles[99] - cycles[0] < 203, "{} cycles for 100 packets", cycles[99] - cycles[0]);
}

#[test]
fn a_packet_costs_a_cycle_for_each_of_its_pieces_and_one_more() {
    for pieces in [2, 4, 32] {
        let mut bench = Bench::new(5, 64);
        bench.sinks.iter_mut().for_each(|sink| sink.stall = Some(0.0));
        bench.sources[PARTS].stall = Some(0.0);
        for psn in 0..40u64 {
            let piece = |i| Asked { va: 4096 * i + 8, rest: 8, bytes: 8, ..Asked::default() };
            let all: Vec<Asked> = (0..pieces).map(piece).collect();
            bench.packet(&[("psn", psn.into()), ("bytes", 8 * u128::from(pieces))], &all, false);
            (0..pieces).for_each(|_| bench.tables.push_back(Given { ok: true, address: 8 }));
        }
        bench.drain();
        let cycles = &bench.sinks[PACKETS_OUT].cycles;
        assert_eq!(cycles.len(), 40);
        // Of the largest no two are looked up at once.
        let most = if pieces == 32 { 2 * pieces + 8 } else { pieces + 1 };
        let spent = cycles[39] - cycles[0];
        assert!(spent <= 39 * most, "{pieces} pieces: {spent} cycles for 39 packets");
    }
}
