// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random WQEs against a segmenter written from the specification (IBTA volume 1, 9.4.3 and 9.7.2).

use super::*;
use crate::testing::{item, step, Item, Random, Sink, Source};
use crate::types::QpAttributes;
use ferrowire_rtl::{build, Bits, Sim};
use ferrowire_spec::queue::send_wqe::SendWqe;
use rand::Rng;
use std::collections::VecDeque;

const QPS: usize = 4;

/// What is wrong with a WQE.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    Read,
    Opcode,
    Inline,
    Sges,
    Units,
    Long,
}

#[derive(Clone, Debug)]
struct Wqe {
    unit: SendWqe,
    fault: Option<Fault>,
}

#[derive(Clone, Default)]
struct Qp {
    wqes: Vec<Wqe>,
    mtu: u32,
    sig_all: bool,
    /// What comes next.
    index: u16,
    psn: u32,
    offset: u64,
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    random: Random,
    qps: Vec<Qp>,
    /// QP and index of what has been handed over and is not back, oldest first.
    under_way: VecDeque<(usize, u16)>,
    handed: u64,
    returned: u64,
    /// Bytes that the QP of the last packet has sent in one go.
    go: (usize, u64),
    must_yield: bool,
    packets: u64,
    refetch: bool,
}

impl Bench {
    fn new(seed: u64, beat_bytes: u32) -> Bench {
        let cfg = RnicConfig { qps: QPS as u32, beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
        let netlist = build("bench", |m| {
            let out = segment(
                m,
                &cfg,
                m.input_of("broadcast", &QpBroadcast::of(&cfg)),
                m.stream_in("init", &QpInit::of(&cfg)),
                m.stream_in("fetched", &Fetched::of(&cfg)),
                m.input_of("waiting", &Waiting::of(&cfg)),
            );
            m.stream_out("candidate", out.candidates);
            m.stream_out("rewind", out.rewind);
            m.output("returned", &out.returned);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources =
            vec![Source::new("init", &QpInit::of(&cfg)), Source::new("fetched", &Fetched::of(&cfg))];
        let sinks =
            vec![Sink::new("candidate", &Candidate::of(&cfg)), Sink::new("rewind", &Rewind::of(&cfg))];
        let mut bench = Bench {
            cfg,
            sim,
            sources,
            sinks,
            random: Random::new(seed),
            qps: vec![Qp::default(); QPS],
            under_way: VecDeque::new(),
            handed: 0,
            returned: 0,
            go: (0, 0),
            must_yield: false,
            packets: 0,
            refetch: true,
        };
        for qp in 0..QPS {
            let mtu = bench.random.rng.random_range(1..6);
            bench.start(qp, mtu);
        }
        bench
    }

    fn start(&mut self, qp: usize, mtu: u32) {
        let rng = &mut self.random.rng;
        // Near the wrap as often as not.
        let psn =
            if rng.random() { rng.random_range(0..1 << 24) } else { (1 << 24) - rng.random_range(1..9) };
        self.qps[qp] = Qp { mtu: 128 << mtu, sig_all: rng.random(), psn, ..Qp::default() };
        let fields = [("mtu", mtu.into()), ("sq_sig_all", self.qps[qp].sig_all.into())];
        for (path, bits) in item(&QpAttributes::of(&self.cfg), &fields) {
            self.sim.set_bits(&format!("broadcast_attributes_entry_{path}"), &bits);
        }
        self.sim.set("broadcast_attributes_index", qp as u64);
        self.sim.set("broadcast_attributes_enable", 1);
        self.sim.tick();
        self.sim.set("broadcast_attributes_enable", 0);
        self.sources[0].push_values(&[("qp", qp as u128), ("psn", psn.into())]);
        while self.sources[0].left() > 0 {
            self.step(0.0, false);
        }
    }

    fn wqe(&mut self, bytes: u32) -> Wqe {
        let fault = self.random.chance(0.15).then(|| {
            let all = [Fault::Read, Fault::Opcode, Fault::Inline, Fault::Sges, Fault::Units, Fault::Long];
            all[self.random.rng.random_range(0..all.len())]
        });
        let rng = &mut self.random.rng;
        let mut unit = SendWqe {
            opcode: SendOpcode::Write.code(),
            signaled: rng.random(),
            num_sge: 1,
            units: 1,
            remote_va: rng.random(),
            rkey: rng.random(),
            sge0_addr: rng.random(),
            sge0_lkey: rng.random(),
            sge0_len: bytes,
            ..SendWqe::default()
        };
        if bytes == 0 && rng.random() {
            // No SGE at all: what stands in its place does not count.
            (unit.num_sge, unit.sge0_len) = (0, rng.random());
        }
        match fault {
            Some(Fault::Opcode) => {
                while unit.opcode == SendOpcode::Write.code() {
                    unit.opcode = rng.random();
                }
            }
            Some(Fault::Inline) => unit.inline = true,
            Some(Fault::Sges) => unit.num_sge = rng.random_range(2..=255),
            Some(Fault::Units) => unit.units = if rng.random() { 0 } else { rng.random_range(2..=255) },
            Some(Fault::Long) => {
                (unit.num_sge, unit.sge0_len) = (1, rng.random_range((1 << 31) + 1..=u32::MAX))
            }
            Some(Fault::Read) | None => {}
        }
        Wqe { unit, fault }
    }

    /// Hands a WQE over, as the fetch does.
    fn hand(&mut self, qp: usize, index: u16) {
        let wqe = &self.qps[qp].wqes[index as usize];
        let mut bytes = [0; 64];
        wqe.unit.emit(&mut bytes).unwrap();
        if wqe.fault == Some(Fault::Read) {
            bytes = [0xa5; 64];
        }
        let mut fetched = item(
            &Fetched::of(&self.cfg),
            &[
                ("qp", qp as u128),
                ("index", index.into()),
                ("error", (wqe.fault == Some(Fault::Read)).into()),
            ],
        );
        fetched.insert("unit".into(), Bits::from_bytes(512, &bytes));
        self.sources[1].push(fetched);
        self.under_way.push_back((qp, index));
        self.handed += 1;
    }

    fn step(&mut self, stall: f64, others: bool) {
        // The packet's QP is never the head of the line itself, unless nobody else waits.
        let head = self.under_way.front().map_or(0, |w| w.0 as u64);
        let by_head = others && self.random.chance(0.5);
        self.sim.set("waiting_any", u64::from(by_head || self.random.chance(0.5)));
        self.sim.set("waiting_head", if by_head { (head + 1) % QPS as u64 } else { head });
        self.sim.set("waiting_others", u64::from(others && !by_head));
        let (packets, rewinds) = (self.sinks[0].items.len(), self.sinks[1].items.len());
        let taken = self.sources[1].left();
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, stall);
        let finished = self.sources[1].left() < taken;
        if let Some(packet) = self.sinks[0].items.get(packets).cloned() {
            self.packet(&packet, others);
        }
        if let Some(rewind) = self.sinks[1].items.get(rewinds).cloned() {
            let qp = rewind["qp"].to_u64() as usize;
            let seed = self.random.seed;
            assert_eq!(rewind["index"].to_u64(), u64::from(self.qps[qp].index), "seed {seed}");
            assert!(self.go.1 >= u64::from(QUANTUM) - 4096, "seed {seed}: yields early");
            assert!(self.go.0 == qp && self.qps[qp].offset > 0, "seed {seed}: yields outside a message");
            self.must_yield = false;
            // What had been fetched of it is stale now; it is fetched again.
            let index = self.qps[qp].index;
            let until =
                self.under_way.iter().filter(|w| w.0 == qp).map(|w| w.1 + 1).max().unwrap_or(index + 1);
            for index in index..until.max(index + 1) {
                if !self.refetch {
                    break;
                }
                self.hand(qp, index);
            }
        }
        if finished {
            self.under_way.pop_front();
            self.returned += 1;
            self.go.1 = 0;
        }
    }

    /// A packet came: is it the one that is due?
    fn packet(&mut self, packet: &Item, others: bool) {
        let seed = self.random.seed;
        let (qp, _) = self.under_way[0];
        let q = &mut self.qps[qp];
        let wqe = &q.wqes[q.index as usize];
        let what = format!("seed {seed}: QP {qp}, WQE {}, {wqe:?}, offset {}", q.index, q.offset);
        assert!(!self.must_yield, "{what}: more than a quantum while others wait");
        let value = |field: &str| packet[field].to_u64();
        assert_eq!((value("qp"), value("index")), (qp as u64, q.index.into()), "{what}");
        assert_eq!(value("psn"), u64::from(q.psn), "{what}");
        self.packets += 1;
        q.psn = (q.psn + 1) & 0xff_ffff;
        if let Some(fault) = wqe.fault {
            let (status, cause) = match fault {
                Fault::Read => (WcStatus::LocQpOpErr, LocalCause::Dma),
                Fault::Opcode => (WcStatus::LocQpOpErr, LocalCause::WqeOpcode),
                _ => (WcStatus::LocLenErr, LocalCause::WqeSize),
            };
            let ended = (value("status"), value("cause"), value("last"));
            assert_eq!(ended, (status.code().into(), cause.code().into(), 1), "{what}");
            (q.index, q.offset) = (q.index + 1, 0);
            return;
        }
        let length = if wqe.unit.num_sge == 0 { 0 } else { u64::from(wqe.unit.sge0_len) };
        let left = length - q.offset;
        let (first, last) = (q.offset == 0, left <= u64::from(q.mtu));
        let bytes = left.min(u64::from(q.mtu));
        let opcode = match (first, last) {
            (true, true) => Opcode::RcWriteOnly,
            (true, false) => Opcode::RcWriteFirst,
            (false, false) => Opcode::RcWriteMiddle,
            (false, true) => Opcode::RcWriteLast,
        };
        let ack = last || (!first && q.offset % (1 << ACK_BITS) == 0);
        let expected = [
            ("opcode", u64::from(opcode.code())),
            ("ack_req", ack.into()),
            ("last", last.into()),
            ("signaled", (wqe.unit.signaled || q.sig_all).into()),
            ("wqe_opcode", wqe.unit.opcode.into()),
            ("remote_va", wqe.unit.remote_va),
            ("rkey", wqe.unit.rkey.into()),
            ("length", length),
            ("local_va", wqe.unit.sge0_addr.wrapping_add(q.offset)),
            ("lkey", wqe.unit.sge0_lkey.into()),
            ("remaining", left),
            ("bytes", bytes),
            ("status", 0),
            ("cause", 0),
        ];
        for (field, expected) in expected {
            assert_eq!(value(field), expected, "{what}: {field}");
        }
        self.go = (qp, if self.go.0 == qp { self.go.1 + bytes } else { bytes });
        (q.index, q.offset) = if last { (q.index + 1, 0) } else { (q.index, q.offset + bytes) };
        self.must_yield = others && !last && self.go.1 >= u64::from(QUANTUM);
    }
}

#[test]
fn packets_are_those_of_the_specification_and_broken_wqes_come_out_once_with_their_cause() {
    for (seed, beat_bytes) in [(1, 8), (2, 64), (3, 64)] {
        let mut bench = Bench::new(seed, beat_bytes);
        for _ in 0..120 {
            let qp = bench.random.rng.random_range(0..QPS);
            let rng = &mut bench.random.rng;
            let mtu = bench.qps[qp].mtu;
            let bytes = match rng.random_range(0..6) {
                0 => rng.random_range(0..3),
                1 => mtu * rng.random_range(1..4) + rng.random_range(0..3) - 1,
                2 => rng.random_range(20_000..60_000),
                _ => rng.random_range(0..3 * mtu),
            };
            let wqe = bench.wqe(bytes);
            let due = bench.qps[qp].wqes.len() as u16;
            bench.qps[qp].wqes.push(wqe);
            bench.hand(qp, due);
            if bench.random.chance(0.2) {
                // Fetched twice: stale when it comes, for its turn is over.
                let index = bench.random.rng.random_range(0..=due);
                bench.hand(qp, index);
            }
            let (stall, others) =
                ([0.0, 0.3, 0.7][bench.random.rng.random_range(0..3)], bench.random.chance(0.5));
            for _ in 0..bench.random.rng.random_range(1..60) {
                bench.step(stall, others);
            }
        }
        for n in 0.. {
            if bench.under_way.is_empty() {
                break;
            }
            assert!(n < 50_000, "seed {seed}: {:?} are left", bench.under_way);
            bench.step(0.1, n % 1000 < 500);
        }
        for _ in 0..20 {
            bench.step(0.0, true);
        }
        for (i, qp) in bench.qps.iter().enumerate() {
            assert_eq!(qp.index as usize, qp.wqes.len(), "seed {seed}: QP {i}");
        }
        assert_eq!(bench.handed, bench.returned, "seed {seed}");
        assert!(bench.packets > 300 && !bench.sinks[1].items.is_empty(), "seed {seed}: {}", bench.packets);
    }
}

#[test]
fn the_longest_message_asks_for_acknowledgements_on_its_way() {
    let mut bench = Bench::new(4, 64);
    bench.start(0, 5);
    let mut wqe = bench.wqe(1 << 31);
    while wqe.fault.is_some() {
        wqe = bench.wqe(1 << 31);
    }
    bench.qps[0].wqes.push(wqe);
    bench.hand(0, 0);
    for _ in 0..(1 << ACK_BITS) / 4096 * 2 + 20 {
        bench.step(0.0, false);
    }
    let asked: Vec<u64> = bench.sinks[0]
        .items
        .iter()
        .filter(|p| !p["ack_req"].is_zero())
        .map(|p| p["remaining"].to_u64())
        .collect();
    assert_eq!(asked, [(1 << 31) - (1 << 24), (1 << 31) - (2 << 24)]);
}

#[test]
fn a_queue_pair_that_starts_anew_begins_at_its_first_wqe_wherever_it_stopped() {
    let mut bench = Bench::new(5, 64);
    for _ in 0..10 {
        let mtu = bench.random.rng.random_range(1..6);
        bench.start(1, mtu);
        let mut wqe = bench.wqe(40_000);
        wqe.fault = None;
        wqe.unit = SendWqe { opcode: 3, inline: false, num_sge: 1, units: 1, sge0_len: 40_000, ..wqe.unit };
        bench.qps[1].wqes.push(wqe.clone());
        bench.hand(1, 0);
        // It yields inside the message, and nobody fetches that again.
        bench.refetch = false;
        while !bench.under_way.is_empty() {
            bench.step(0.2, true);
        }
        bench.refetch = true;
        assert!(bench.qps[1].offset > 0);
        bench.start(1, mtu);
        bench.qps[1].wqes.push(wqe);
        bench.hand(1, 0);
        while !bench.under_way.is_empty() {
            bench.step(0.2, false);
        }
        assert_eq!((bench.qps[1].index, bench.qps[1].offset), (1, 0));
    }
}
