// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::testing::{drain, run, Random, Sink, Source};
use ferrowire_rtl::{build, Sim};
use ferrowire_spec::queue::Cqe;
use rand::Rng;
use std::collections::HashMap;

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: [Source; 2],
    sinks: [Sink; 5],
}

fn bench(beat_bytes: u32) -> Bench {
    let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
    let shape = TableWrite { enable: bits(1), index: bits(cfg.cq_bits()), entry: CqEntry::of() };
    let netlist = build("top", |m| {
        let completion = m.stream_in("completion", &Completion::of(&cfg));
        let doorbell = m.stream_in("doorbell", &CqDoorbell::of(&cfg));
        let out = cq(m, &cfg, completion, m.input_of("create", &shape), doorbell);
        m.stream_out("write", out.write);
        m.stream_out("notices", out.notices);
        m.stream_out("faults", out.faults);
        m.stream_out("reports", out.reports);
        m.stream_out("marks", out.marks);
        m.output("written", &out.written);
        m.output("dropped", &out.dropped);
        // A cycle late: it may follow from inputs of the same cycle.
        m.output("drained", &m.delay("drained", &out.drained));
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.reset();
    // The lines of rows are made.
    (0..cfg.qps.max(cfg.cqs)).for_each(|_| sim.tick());
    let sources =
        [Source::new("completion", &Completion::of(&cfg)), Source::new("doorbell", &CqDoorbell::of(&cfg))];
    let sinks = [
        Sink::new("write", &DmaWrite::of(&cfg)),
        Sink::new("notices", &Flagged::of(cfg.cqs, NOTICES)),
        Sink::new("faults", &bits(cfg.qp_bits())),
        Sink::new("reports", &Report::of()),
        Sink::new("marks", &Mark::of(&cfg)),
    ];
    Bench { cfg, sim, sources, sinks }
}

impl Bench {
    fn create(&mut self, cq: u64, base: u64, log2: u64) {
        for (port, value) in [("index", cq), ("entry_valid", 1), ("entry_base", base), ("entry_log2", log2)] {
            self.sim.set(&format!("create_{port}"), value);
        }
        self.sim.set("create_enable", 1);
        self.sim.tick();
        self.sim.set("create_enable", 0);
    }

    fn complete(&mut self, cq: u64, wqe_index: u64) {
        let fields = [("cq", cq), ("wqe_index", wqe_index), ("qpn", 5), ("opcode", 0x80), ("byte_len", 99)];
        self.sources[0].push_values(&fields.map(|(name, value)| (name, u128::from(value))));
    }

    /// Replays the writes into memory, and gives the entries' addresses in the order of their last beats.
    fn memory(&self) -> (HashMap<u64, u8>, Vec<u64>) {
        let (mut memory, mut order, mut at) = (HashMap::new(), Vec::new(), None);
        let lanes = u64::from(self.cfg.beat_bytes);
        for item in &self.sinks[0].items {
            let address = item["address"].to_u64();
            assert_eq!(item["length"].to_u64(), 32);
            let beat = at.unwrap_or(address & !(lanes - 1));
            for (i, byte) in item["data"].to_bytes().iter().enumerate() {
                if item["strobe"].bit(i as u32) {
                    memory.insert(beat + i as u64, *byte);
                }
            }
            at = Some(beat + lanes);
            if !item["last"].is_zero() {
                order.push(address);
                at = None;
            }
        }
        (memory, order)
    }
}

fn entry(memory: &HashMap<u64, u8>, address: u64) -> Cqe {
    let bytes: Vec<u8> = (0..32).map(|i| memory[&(address + i)]).collect();
    Cqe::parse(&bytes).unwrap()
}

#[test]
fn a_mark_is_told_when_all_before_it_is_written_and_writes_nothing() {
    for beat_bytes in [8, 64] {
        let mut bench = bench(beat_bytes);
        bench.create(0, 0x1000, 4);
        let mut random = Random::new(12);
        bench.sinks[0].stall = Some(0.8);
        let (mut sent, mut told) = (0, 0);
        for round in 0..5 {
            for i in 0..round {
                bench.complete(0, i);
            }
            sent += round as usize;
            bench.sources[0].push_values(&[("cq", 3), ("qpn", 7), ("marker", 1)]);
            for _ in 0..400 {
                if bench.sim.get("drained_valid") == 1 {
                    told += 1;
                    assert_eq!(bench.sim.get("drained_qp"), 7);
                    let lasts = bench.sinks[0].values("last").iter().filter(|last| **last == 1).count();
                    assert_eq!(lasts, sent, "are written");
                }
                let Bench { sim, sources, sinks, .. } = &mut bench;
                crate::testing::step(sim, sources, sinks, &mut random, 0.0);
            }
            assert_eq!(told, round + 1);
        }
        assert_eq!(bench.sinks[0].values("last").iter().filter(|last| **last == 1).count(), sent);
        assert_eq!(bench.sim.get("dropped"), 0);
    }
}

#[test]
fn that_a_queue_pair_has_its_last_shared_receive_or_has_drained_is_told_behind_the_entries_before() {
    for beat_bytes in [8, 64] {
        let mut bench = bench(beat_bytes);
        bench.create(0, 0x1000, 4);
        let mut random = Random::new(13);
        bench.sinks[0].stall = Some(0.8);
        bench.sinks[3].stall = Some(0.5);
        for round in 0..5u32 {
            let before = [3, 4].map(|sink: usize| bench.sinks[sink].items.len());
            for i in 0..=round {
                bench.complete(0, i.into());
                // Of every second one the send queue has drained.
                let receive = u128::from(i % 2 == 0);
                let marks = [("cq", 3), ("qpn", u128::from(i + 1)), ("marker", 1), ("solicited", 1)];
                let more = [("opcode", 0x80 * receive), ("wqe_index", 0x1200 + u128::from(i))];
                bench.sources[0].push_values(&[&marks[..], &more].concat());
            }
            for _ in 0..800 {
                let told = bench.sinks[3].items.len() + bench.sinks[4].items.len();
                let Bench { sim, sources, sinks, .. } = &mut bench;
                crate::testing::step(sim, sources, sinks, &mut random, 0.0);
                let lasts = sinks[0].values("last").iter().filter(|last| **last == 1).count();
                let now = sinks[3].items.len() + sinks[4].items.len();
                assert!(now == told || lasts > told, "an event before its completion");
                assert_eq!(sim.get("drained_valid"), 0);
            }
            let ended = &bench.sinks[3].items[before[0]..];
            assert!(ended.iter().all(|item| item["kind"].to_u64() == u64::from(EventKind::LastWqe.code())));
            let ended: Vec<u64> = ended.iter().map(|item| item["object"].to_u64()).collect();
            assert_eq!(ended, (1..=u64::from(round) + 1).step_by(2).collect::<Vec<_>>());
            let drained = &bench.sinks[4].items[before[1]..];
            let drained: Vec<_> =
                drained.iter().map(|item| (item["qp"].to_u64(), item["stay"].to_u64())).collect();
            let expected = (0..=u64::from(round)).skip(1).step_by(2).map(|i| (i + 1, i));
            assert_eq!(drained, expected.collect::<Vec<_>>());
        }
    }
}

#[test]
fn entries_follow_each_other_and_the_phase_turns_with_each_pass() {
    for beat_bytes in [8, 16, 32, 64] {
        let mut bench = bench(beat_bytes);
        let mut random = Random::new(3);
        bench.create(3, 0x1_0000, 2);
        bench.create(5, 0x8_0000_3000, 4);
        let mut sent: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut expected = Vec::new();
        for i in 0..200u64 {
            let cq = [3, 5][random.rng.random_range(0..2usize)];
            bench.complete(cq, i);
            let list = sent.entry(cq).or_default();
            list.push(i);
            let (base, log2) = if cq == 3 { (0x1_0000, 2) } else { (0x8_0000_3000, 4) };
            expected.push(base + 32 * ((list.len() as u64 - 1) % (1 << log2)));
            // The host has taken all: never full.
            run(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.3, 1000, |s| {
                s[0].frames_seen() as u64 == i + 1
            });
            let (memory, order) = bench.memory();
            let cqe = entry(&memory, *order.last().unwrap());
            assert_eq!(u64::from(cqe.wqe_index), i, "seed {}", random.seed);
            assert_eq!((cqe.qpn, cqe.opcode, cqe.byte_len, cqe.receive), (5, 0x80, 99, true));
            assert_eq!(cqe.phase, (sent[&cq].len() - 1) >> log2 & 1 == 0, "seed {}", random.seed);
            let consumer = sent[&cq].len() as u128;
            bench.sources[1].push_values(&[("cq", u128::from(cq)), ("consumer", consumer)]);
            drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.3, 1000, 2);
        }
        assert_eq!(bench.memory().1, expected);
    }
}

#[test]
fn a_full_or_absent_queue_drops_and_overwrites_nothing() {
    for beat_bytes in [8, 64] {
        let mut bench = bench(beat_bytes);
        let mut random = Random::new(4);
        bench.create(3, 0x1_0000, 2);
        for i in 0..6 {
            bench.complete(3, i);
        }
        bench.complete(4, 7);
        let mut dropped = 0;
        for _ in 0..200 {
            crate::testing::step(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0);
            dropped += bench.sim.get("dropped");
        }
        assert_eq!((bench.sinks[0].frames_seen(), dropped), (4, 3));
        // It tells so once, and the queue pair must not go on; one that does not exist tells nothing.
        assert_eq!((bench.sinks[1].values("row"), bench.sinks[1].values("flags")), (vec![3], vec![2]));
        let faults = bench.sinks[2].values("");
        assert!(!faults.is_empty() && faults.iter().all(|qp| *qp == 5), "{faults:?}");
        // Room does not bring it back: what was lost cannot be told apart.
        bench.sources[1].push_values(&[("cq", 3), ("consumer", 4)]);
        drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 2);
        bench.complete(3, 8);
        drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 20);
        assert_eq!((bench.sinks[0].frames_seen(), bench.sinks[1].items.len()), (4, 1));
        assert_eq!(bench.sinks[2].values("").len(), faults.len() + 1);
        // Only a new life does.
        bench.create(3, 0x1_0000, 2);
        bench.complete(3, 9);
        drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 20);
        let (memory, order) = bench.memory();
        assert_eq!(order[4..], [0x1_0000]);
        let cqe = entry(&memory, 0x1_0000);
        assert_eq!((cqe.wqe_index, cqe.phase), (9, true));
    }
}

#[test]
fn a_fault_is_forgotten_with_the_life_of_its_queue_pair() {
    let mut bench = bench(8);
    let mut random = Random::new(13);
    bench.create(3, 0x1_0000, 0);
    bench.sinks[2].stall = Some(1.0);
    let push = |bench: &mut Bench, qpn: u128, marker: u128| {
        bench.sources[0].push_values(&[("cq", 3), ("qpn", qpn), ("marker", marker)]);
    };
    for qpn in [1, 2, 6, 7] {
        push(&mut bench, qpn, 0);
    }
    push(&mut bench, 6, 1);
    drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 20);
    bench.sinks[2].stall = None;
    drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 20);
    assert_eq!(bench.sinks[2].values(""), [2, 7]);
}

/// What a CQ is armed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Armed {
    No,
    Solicited,
    Next,
}

/// A CQ as the standard has it.
struct Model {
    log2: u32,
    producer: u32,
    consumer: u32,
    /// Index behind the newest solicited or failed entry.
    notable: u32,
    armed: Armed,
    broken: bool,
}

impl Model {
    fn new(log2: u32) -> Self {
        Model { log2, producer: 0, consumer: 0, notable: 0, armed: Armed::No, broken: false }
    }

    fn fires(&mut self) -> Option<u64> {
        let fires = match self.armed {
            Armed::No => false,
            Armed::Next => self.producer > self.consumer,
            Armed::Solicited => self.notable > self.consumer,
        };
        fires.then(|| {
            self.armed = Armed::No;
            1
        })
    }

    /// Flags of the notice, and whether the QP faults.
    fn complete(&mut self, notable: bool) -> (Option<u64>, bool) {
        if self.broken {
            return (None, true);
        }
        if self.producer - self.consumer == 1 << self.log2 {
            self.broken = true;
            return (Some(2), true);
        }
        self.producer += 1;
        if notable {
            self.notable = self.producer;
        }
        (self.fires(), false)
    }

    fn ring(&mut self, consumer: u32, next: bool, solicited: bool) -> Option<u64> {
        self.consumer = consumer;
        match (next, solicited) {
            (true, _) => self.armed = Armed::Next,
            (false, true) if self.armed == Armed::No => self.armed = Armed::Solicited,
            _ => {}
        }
        // Without arming, what the CQ was armed for lies behind the consumer still.
        if next || solicited {
            self.fires()
        } else {
            None
        }
    }
}

#[test]
fn an_armed_queue_tells_as_the_standard_says() {
    for (beat_bytes, stall) in [(8, 0.0), (8, 0.4), (64, 0.4)] {
        let mut bench = bench(beat_bytes);
        let mut random = Random::new(14);
        let mut models: HashMap<u64, Model> = HashMap::new();
        let (mut told, mut faults, mut seen) = (Vec::new(), Vec::new(), [0; 4]);
        for turn in 0..1500u128 {
            let cq = random.rng.random_range(2..5u64);
            if models.get(&cq).is_none_or(|m| m.broken && random.chance(0.3)) || random.chance(0.01) {
                let log2 = random.rng.random_range(1..5);
                bench.create(cq, 0x1_0000 * cq, log2.into());
                models.insert(cq, Model::new(log2));
            }
            let model = models.get_mut(&cq).unwrap();
            let notice = if random.chance(0.6) {
                let (solicited, failed) = (random.chance(0.2), random.chance(0.1));
                let (qpn, status) = (turn % 7, if failed { 5 } else { 0 });
                let values = [("cq", cq.into()), ("qpn", qpn), ("status", status)];
                let more = [("solicited", u128::from(solicited)), ("wqe_index", turn)];
                bench.sources[0].push_values(&[&values[..], &more[..]].concat());
                let (notice, fault) = model.complete(solicited || failed);
                faults.extend(fault.then_some(qpn as u64));
                notice
            } else {
                let arms = (random.chance(0.4), random.chance(0.4));
                let consumer = random.rng.random_range(model.consumer..=model.producer);
                let values = [("cq", cq.into()), ("consumer", consumer.into())];
                let more = [("arm_next", u128::from(arms.0)), ("arm_solicited", u128::from(arms.1))];
                bench.sources[1].push_values(&[&values[..], &more[..]].concat());
                model.ring(consumer, arms.0, arms.1)
            };
            if let Some(flags) = notice {
                told.push((cq, flags));
                seen[flags as usize] += 1;
            }
            let Bench { sim, sources, sinks, .. } = &mut bench;
            drain(sim, sources, sinks, &mut random, stall, 1000, 60);
            let got: Vec<_> = sinks[1].values("row").into_iter().zip(sinks[1].values("flags")).collect();
            assert_eq!(got, told, "seed {}, turn {turn}, CQ {cq}", random.seed);
            assert_eq!(sinks[2].values(""), faults, "seed {}, turn {turn}", random.seed);
        }
        assert!(seen[1] > 100 && seen[2] > 10, "seed {}: {seen:?}", random.seed);
    }
}

#[test]
fn no_wake_up_is_lost_and_none_comes_before_its_entry() {
    const CQS: usize = 3;
    for (beat_bytes, stall) in [(8, 0.0), (8, 0.5), (64, 0.0), (64, 0.5)] {
        let mut bench = bench(beat_bytes);
        let mut random = Random::new(15);
        (0..CQS as u64).for_each(|cq| bench.create(cq, 0x1_0000 * cq, 8));
        // A host that takes what it sees and then arms. By CQ: notable entries, as they were sent; what is seen, what is taken;
        // what it waits for.
        let mut sent: [Vec<bool>; CQS] = Default::default();
        let (mut seen, mut taken, mut armed) = ([0usize; CQS], [0usize; CQS], [Armed::No; CQS]);
        let (mut written, mut told, mut wakes) = (0, 0, 0);
        for cycle in 0..20_000 {
            let busy = cycle < 19_000;
            let cq = random.rng.random_range(0..CQS);
            if busy && bench.sources[0].left() == 0 && sent[cq].len() - taken[cq] < 200 && random.chance(0.2)
            {
                let notable = random.chance(0.1);
                bench.sources[0].push_values(&[("cq", cq as u128), ("solicited", notable.into())]);
                sent[cq].push(notable);
            }
            let cq = random.rng.random_range(0..CQS);
            if busy && armed[cq] == Armed::No && bench.sources[1].left() < 3 && random.chance(0.3) {
                taken[cq] = seen[cq];
                armed[cq] = if random.chance(0.5) { Armed::Next } else { Armed::Solicited };
                let (next, solicited) = (armed[cq] == Armed::Next, armed[cq] == Armed::Solicited);
                bench.sources[1].push_values(&[
                    ("cq", cq as u128),
                    ("consumer", taken[cq] as u128),
                    ("arm_next", next.into()),
                    ("arm_solicited", solicited.into()),
                ]);
            }
            crate::testing::step(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, stall);
            // What was written in this cycle is seen only by a notice of a later one.
            let items = &bench.sinks[1].items[told..];
            for item in items {
                let cq = item["row"].to_u64() as usize;
                let news = taken[cq]..seen[cq];
                let met = match armed[cq] {
                    Armed::No => false,
                    Armed::Next => !news.is_empty(),
                    Armed::Solicited => sent[cq][news].contains(&true),
                };
                assert!(met, "seed {}, cycle {cycle}: CQ {cq} tells of nothing", random.seed);
                armed[cq] = Armed::No;
                wakes += 1;
            }
            told += items.len();
            for item in &bench.sinks[0].items[written..] {
                if !item["last"].is_zero() {
                    seen[(item["address"].to_u64() >> 16) as usize] += 1;
                }
            }
            written = bench.sinks[0].items.len();
        }
        for cq in 0..CQS {
            assert_eq!(seen[cq], sent[cq].len(), "seed {}", random.seed);
            let asleep = match armed[cq] {
                Armed::No => false,
                Armed::Next => taken[cq] < seen[cq],
                Armed::Solicited => sent[cq][taken[cq]..].contains(&true),
            };
            assert!(!asleep, "seed {}: CQ {cq} was not told of", random.seed);
        }
        assert!(wakes > 300, "seed {}: {wakes} wakes", random.seed);
    }
}

#[test]
fn doorbells_do_not_wait_for_the_host() {
    let mut bench = bench(8);
    let mut random = Random::new(16);
    bench.create(3, 0x1_0000, 4);
    bench.sinks[0].stall = Some(1.0);
    (0..4).for_each(|i| bench.complete(3, i));
    for i in 0..100 {
        let arms = [("arm_next", i & 1), ("arm_solicited", i >> 1 & 1)];
        bench.sources[1].push_values(&[&[("cq", i % 16), ("consumer", 0)][..], &arms[..]].concat());
    }
    (0..150).for_each(|_| {
        crate::testing::step(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0);
    });
    assert_eq!(bench.sources[1].left(), 0);
    assert!(bench.sources[0].left() > 0);
}

#[test]
fn two_entries_take_three_cycles_or_as_many_as_they_have_beats() {
    // Five each where there is time: that one has left is known late.
    for (beat_bytes, cycles) in [(8, 10), (16, 4), (32, 3), (64, 3)] {
        for queues in [1, 3] {
            let mut bench = bench(beat_bytes);
            let mut random = Random::new(5);
            (0..queues).for_each(|cq| bench.create(cq, 0x1000 * (cq + 1), 8));
            for i in 0..64 {
                bench.complete(i % queues, i);
            }
            drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 1000, 20);
            assert_eq!(bench.sinks[0].frames_seen(), 64);
            let taken = &bench.sources[0].cycles;
            assert_eq!(taken[63] - taken[31], 16 * cycles, "{beat_bytes} bytes, {queues} queues");
            assert_eq!(bench.sinks[0].cycles[0] - taken[0], if beat_bytes < 16 { 4 } else { 2 });
        }
    }
}
