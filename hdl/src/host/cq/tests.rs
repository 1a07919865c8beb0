// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::testing::{drain, run, Random, Sink, Source};
use ferrowire_rtl::{build, Sim};
use ferrowire_spec::queue::Cqe;
use rand::Rng;
use std::collections::{HashMap, VecDeque};

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: [Source; 3],
    sinks: [Sink; 5],
}

fn bench(beat_bytes: u32) -> Bench {
    bench_of(RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() })
}

fn bench_of(cfg: RnicConfig) -> Bench {
    let shape = TableWrite { enable: bits(1), index: bits(cfg.cq_bits()), entry: CqEntry::of() };
    let netlist = build("top", |m| {
        let completion = m.stream_in("completion", &Completion::of(&cfg));
        let doorbell = m.stream_in("doorbell", &CqDoorbell::of(&cfg));
        let (create, limits) =
            (m.input_of("create", &shape), m.input_of("limits", &CqLimits::write_of(&cfg)));
        let resize = m.stream_in("resize", &CqResize::of(&cfg));
        let out = cq(m, &cfg, completion, create, limits, resize, doorbell);
        m.stream_out("write", out.write);
        m.stream_out("notices", out.notices);
        m.stream_out("faults", out.faults);
        m.stream_out("reports", out.reports);
        m.stream_out("marks", out.marks);
        m.output("written", &out.written);
        m.output("changing", &m.delay("changing", &out.changing));
        m.output("dropped", &out.dropped);
        // When the ring is taken, a cycle late.
        m.output("produced_before", &m.delay("produced_then", &out.produced));
        // A cycle late: it may follow from inputs of the same cycle.
        m.output("drained", &m.delay("drained", &out.drained));
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.reset();
    // The lines of rows are made.
    (0..cfg.qps.max(cfg.cqs)).for_each(|_| sim.tick());
    let sources = [
        Source::new("completion", &Completion::of(&cfg)),
        Source::new("doorbell", &CqDoorbell::of(&cfg)),
        Source::new("resize", &CqResize::of(&cfg)),
    ];
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
        self.moderate(cq, 0, 0);
        self.sim.set("create_enable", 0);
    }

    /// In the next cycle.
    fn set_limits(&mut self, cq: u64, count: u64, period_us: u64) {
        let spare = if period_us > 0 { count.saturating_sub(1) } else { 0 };
        for (port, value) in [("index", cq), ("entry_spare", spare), ("entry_period_us", period_us)] {
            self.sim.set(&format!("limits_{port}"), value);
        }
        self.sim.set("limits_enable", 1);
    }

    /// Takes a cycle, in which nothing else comes or leaves.
    fn moderate(&mut self, cq: u64, count: u64, period_us: u64) {
        self.set_limits(cq, count, period_us);
        self.sim.tick();
        self.sim.set("limits_enable", 0);
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

/// The source and the family of a datagram are beside its length.
#[test]
fn a_datagram_s_entry_has_its_source_and_says_whether_its_packet_was_of_ipv4() {
    let mut bench = bench(64);
    let mut random = Random::new(11);
    bench.create(3, 0x1_0000, 4);
    for (i, (datagram, ipv4)) in [(true, true), (true, false), (false, true)].into_iter().enumerate() {
        let byte_len = 0x1234_0000 | u128::from(ipv4) << 15 | 4136;
        let fields = [
            ("cq", 3),
            ("wqe_index", i as u128),
            ("opcode", 0x80),
            ("byte_len", byte_len),
            ("syndrome", 0x56),
            ("datagram", datagram.into()),
        ];
        bench.sources[0].push_values(&fields);
        drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 1000, 20);
        let (memory, order) = bench.memory();
        let cqe = entry(&memory, *order.last().unwrap());
        assert_eq!((cqe.grh, cqe.ipv4), (datagram, datagram && ipv4), "entry {i}");
        let wanted = if datagram { (4136, 0x56_1234, 0) } else { (byte_len as u32, 0, 0x56) };
        assert_eq!((cqe.byte_len, cqe.src_qpn, cqe.syndrome), wanted, "entry {i}");
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
    /// Entries before this one were seen when it was armed.
    seen: u32,
    armed: Armed,
    broken: bool,
}

impl Model {
    fn new(log2: u32) -> Self {
        Model { log2, producer: 0, consumer: 0, notable: 0, seen: 0, armed: Armed::No, broken: false }
    }

    fn fires(&mut self) -> Option<u64> {
        let fires = match self.armed {
            Armed::No => false,
            Armed::Next => self.producer > self.seen,
            Armed::Solicited => self.notable > self.seen,
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

    fn ring(&mut self, consumer: u32, seen: u32, next: bool, solicited: bool) -> Option<u64> {
        self.consumer = consumer;
        if next || solicited {
            self.seen = consumer + seen;
        }
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
                let seen = random.rng.random_range(0..=model.producer - consumer);
                let values = [("cq", cq.into()), ("consumer", consumer.into()), ("seen", seen.into())];
                let more = [("arm_next", u128::from(arms.0)), ("arm_solicited", u128::from(arms.1))];
                bench.sources[1].push_values(&[&values[..], &more[..]].concat());
                model.ring(consumer, seen, arms.0, arms.1)
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
        // A host that takes some of what it sees and then arms. By CQ: notable entries, as they were sent; what is seen, what is taken, what was seen
        // when it armed; what it waits for.
        let mut sent: [Vec<bool>; CQS] = Default::default();
        let (mut seen, mut taken, mut known) = ([0usize; CQS], [0usize; CQS], [0usize; CQS]);
        let mut armed = [Armed::No; CQS];
        let (mut written, mut noticed, mut wakes) = (0, 0, 0);
        for cycle in 0..30_000 {
            let busy = cycle < 29_000;
            let cq = random.rng.random_range(0..CQS);
            if busy && bench.sources[0].left() == 0 && sent[cq].len() - taken[cq] < 200 && random.chance(0.2)
            {
                let notable = random.chance(0.1);
                bench.sources[0].push_values(&[("cq", cq as u128), ("solicited", notable.into())]);
                sent[cq].push(notable);
            }
            let cq = random.rng.random_range(0..CQS);
            if busy && armed[cq] == Armed::No && bench.sources[1].left() < 3 && random.chance(0.3) {
                taken[cq] = match random.chance(0.5) {
                    true => seen[cq],
                    false => random.rng.random_range(taken[cq]..=seen[cq]),
                };
                let told = (seen[cq] - taken[cq]).min(63);
                known[cq] = taken[cq] + told;
                armed[cq] = if random.chance(0.5) { Armed::Next } else { Armed::Solicited };
                let (next, solicited) = (armed[cq] == Armed::Next, armed[cq] == Armed::Solicited);
                bench.sources[1].push_values(&[
                    ("cq", cq as u128),
                    ("consumer", taken[cq] as u128),
                    ("seen", told as u128),
                    ("arm_next", next.into()),
                    ("arm_solicited", solicited.into()),
                ]);
            }
            crate::testing::step(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, stall);
            // What was written in this cycle is seen only by a notice of a later one.
            let items = &bench.sinks[1].items[noticed..];
            for item in items {
                let cq = item["row"].to_u64() as usize;
                let news = known[cq]..seen[cq];
                let met = match armed[cq] {
                    Armed::No => false,
                    Armed::Next => !news.is_empty(),
                    Armed::Solicited => sent[cq][news].contains(&true),
                };
                assert!(met, "seed {}, cycle {cycle}: CQ {cq} tells of nothing", random.seed);
                armed[cq] = Armed::No;
                wakes += 1;
            }
            noticed += items.len();
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
                Armed::Next => known[cq] < seen[cq],
                Armed::Solicited => sent[cq][known[cq]..].contains(&true),
            };
            assert!(!asleep, "seed {}: CQ {cq} was not told of", random.seed);
        }
        assert!(wakes > 300, "seed {}: {wakes} wakes", random.seed);
    }
}

/// Cycles a microsecond, in tests of moderation.
const CYCLES_US: u64 = 4;

fn moderated_bench(beat_bytes: u32) -> Bench {
    let clock_khz = 1000 * CYCLES_US as u32;
    bench_of(RnicConfig { beat_bytes, clock_khz, ..RnicConfig::named("generic-8b").unwrap() })
}

/// A CQ that is moderated, as MODIFY_CQ has it.
struct Moderated {
    of: Model,
    count: u32,
    period_us: u64,
    /// Entries that wait to be told of, and since when the first of them does.
    waiting: u32,
    since: Option<u64>,
    /// When the limits changed.
    changed: u64,
}

impl Moderated {
    fn new(log2: u32) -> Self {
        Moderated { of: Model::new(log2), count: 0, period_us: 0, waiting: 0, since: None, changed: 0 }
    }

    /// Whether it tells, after something has happened to it.
    fn tells(&mut self, now: u64) -> bool {
        if self.waiting == 0 || self.of.armed == Armed::No {
            (self.waiting, self.since) = (0, None);
            return false;
        }
        self.since.get_or_insert(now);
        let tells = self.waiting >= self.count || self.period_us == 0;
        if tells {
            self.told();
        }
        tells
    }

    fn told(&mut self) {
        (self.of.armed, self.waiting, self.since) = (Armed::No, 0, None);
    }

    fn complete(&mut self, notable: bool, now: u64) -> Option<u64> {
        let armed = std::mem::replace(&mut self.of.armed, Armed::No);
        let full = self.of.complete(notable).0;
        self.of.armed = armed;
        if full.is_some() || self.of.broken {
            return full;
        }
        let wakes = armed == Armed::Next || armed == Armed::Solicited && notable;
        self.waiting += u32::from(wakes);
        (self.tells(now) && wakes).then_some(1)
    }

    fn ring(&mut self, consumer: u32, next: bool, solicited: bool, now: u64) -> bool {
        self.of.consumer = consumer;
        match (next, solicited) {
            (true, _) => self.of.armed = Armed::Next,
            (false, true) if self.of.armed == Armed::No => self.of.armed = Armed::Solicited,
            (false, true) => {}
            (false, false) => return false,
        }
        let there = match self.of.armed {
            Armed::Next => self.of.producer - consumer,
            _ => u32::from(self.of.notable > consumer),
        };
        if there > 0 {
            self.waiting = there;
        }
        self.tells(now)
    }

    fn moderate(&mut self, count: u32, period_us: u64, now: u64) -> bool {
        (self.count, self.period_us, self.changed) = (count, period_us, now);
        self.tells(now)
    }

    /// The cycles in which the end of the period may come to be told of: a microsecond has begun already.
    fn due(&self) -> Option<(u64, u64)> {
        let over = self.since? + self.period_us * CYCLES_US;
        Some((over - CYCLES_US, over.max(self.changed)))
    }
}

#[test]
fn a_moderated_queue_tells_at_the_count_or_at_the_end_of_the_period() {
    // From an input to its notice, and a sweep.
    const WITHIN: u64 = 80;
    for (beat_bytes, stall) in [(8, 0.0), (8, 0.3), (64, 0.3)] {
        let mut bench = moderated_bench(beat_bytes);
        let mut random = Random::new(17);
        let most = WITHIN + u64::from(bench.cfg.cqs);
        let mut models: HashMap<u64, Moderated> = HashMap::new();
        let (mut now, mut told) = (0, 0);
        // By what it was told: an entry, an arming, new limits, the time; and how many were overrun.
        let mut seen = [0; 5];
        for turn in 0..2500u128 {
            let seed = random.seed;
            let cq = random.rng.random_range(2..5u64);
            let end = now + random.rng.random_range(WITHIN..2 * WITHIN);
            // A notice of it that may come at any time now stands in the way of saying what comes first.
            let soon = models.get(&cq).and_then(Moderated::due).is_some_and(|(from, _)| from <= end);
            let mut expected = None;
            if models.get(&cq).is_none_or(|m| m.of.broken && random.chance(0.3))
                || !soon && random.chance(0.02)
            {
                let log2 = random.rng.random_range(2..7);
                bench.create(cq, 0x1_0000 * cq, log2.into());
                now += 1;
                models.insert(cq, Moderated::new(log2));
            } else if !soon {
                let model = models.get_mut(&cq).unwrap();
                match random.rng.random_range(0..10) {
                    0..=5 => {
                        let (solicited, failed) = (random.chance(0.3), random.chance(0.1));
                        let status = if failed { 5 } else { 0 };
                        let values = [("cq", cq.into()), ("status", status)];
                        let more = [("solicited", u128::from(solicited)), ("wqe_index", turn)];
                        bench.sources[0].push_values(&[&values[..], &more[..]].concat());
                        expected = model.complete(solicited || failed, now);
                        match expected {
                            Some(1) => seen[0] += 1,
                            Some(_) => seen[4] += 1,
                            None => {}
                        }
                    }
                    6..=7 => {
                        let arms = (random.chance(0.4), random.chance(0.4));
                        let some = random.rng.random_range(model.of.consumer..=model.of.producer);
                        let consumer = if random.chance(0.5) { model.of.producer } else { some };
                        let values = [("cq", cq.into()), ("consumer", consumer.into())];
                        let more = [("arm_next", u128::from(arms.0)), ("arm_solicited", u128::from(arms.1))];
                        bench.sources[1].push_values(&[&values[..], &more[..]].concat());
                        expected = model.ring(consumer, arms.0, arms.1, now).then_some(1);
                        seen[1] += u32::from(expected.is_some());
                    }
                    _ => {
                        let count = random.rng.random_range(0..9);
                        let none = random.chance(0.1);
                        let period_us = if none { 0 } else { random.rng.random_range(1..600) };
                        bench.moderate(cq, count.into(), period_us);
                        expected = model.moderate(count, period_us, now).then_some(1);
                        seen[2] += u32::from(expected.is_some());
                        now += 1;
                    }
                }
            }
            while now < end {
                let Bench { sim, sources, sinks, .. } = &mut bench;
                crate::testing::step(sim, sources, sinks, &mut random, stall);
                now += 1;
                for item in &sinks[1].items[told..] {
                    let (row, flags) = (item["row"].to_u64(), item["flags"].to_u64());
                    if row == cq && expected == Some(flags) {
                        expected = None;
                        continue;
                    }
                    // No other notice than that of the time.
                    let model = models.get_mut(&row).unwrap();
                    let due = model.due().filter(|_| flags == 1);
                    let (from, _) =
                        due.unwrap_or_else(|| panic!("seed {seed}, turn {turn}: CQ {row}, {flags}"));
                    assert!(from <= now, "seed {seed}, turn {turn}: CQ {row} at {now} instead of {from}");
                    model.told();
                    seen[3] += 1;
                }
                told = sinks[1].items.len();
                for (cq, model) in &models {
                    let late = model.due().is_some_and(|(_, until)| until + most < now);
                    assert!(!late, "seed {seed}, turn {turn}: CQ {cq} is late");
                }
            }
            assert_eq!(expected, None, "seed {seed}, turn {turn}: CQ {cq} tells nothing");
        }
        assert!(seen.iter().all(|n| *n > 10), "seed {}: {seen:?}", random.seed);
    }
}

#[test]
fn no_entry_waits_for_longer_than_its_period_and_none_is_told_of_twice() {
    const CQS: usize = 3;
    // What an entry or a doorbell needs on its way, where the host stalls, and a sweep.
    const WITHIN: u64 = 400;
    for (beat_bytes, stall) in [(8, 0.0), (8, 0.4), (64, 0.0), (64, 0.4)] {
        let mut bench = moderated_bench(beat_bytes);
        let mut random = Random::new(18);
        (0..CQS as u64).for_each(|cq| bench.create(cq, 0x1_0000 * cq, 8));
        let (mut sent, mut seen, mut taken) = ([0usize; CQS], [0usize; CQS], [0usize; CQS]);
        // Since when each is armed, and since when an entry is there that it waits for; its period.
        let (mut armed, mut there) = ([None; CQS], [None; CQS]);
        let (mut periods, mut settled) = ([0u64; CQS], [0u64; CQS]);
        let (mut written, mut told, mut wakes) = (0, 0, 0);
        // Arms by another thread, each of which may bring an event more.
        let mut others = [0u32; CQS];
        for now in 0..60_000u64 {
            let seed = random.seed;
            let busy = now < 58_000;
            let cq = random.rng.random_range(0..CQS);
            if busy && bench.sources[0].left() == 0 && sent[cq] - taken[cq] < 200 && random.chance(0.05) {
                bench.sources[0].push_values(&[("cq", cq as u128)]);
                sent[cq] += 1;
            }
            let cq = random.rng.random_range(0..CQS);
            if busy && armed[cq].is_none() && bench.sources[1].left() < 3 && random.chance(0.1) {
                (taken[cq], armed[cq]) = (seen[cq], Some(now));
                let consumer = taken[cq] as u128;
                bench.sources[1].push_values(&[("cq", cq as u128), ("consumer", consumer), ("arm_next", 1)]);
            }
            if busy && armed[cq].is_some() && bench.sources[1].left() < 3 && random.chance(0.02) {
                // It polls nothing and has seen what is there: the thread that sleeps must wake all the same.
                let seen = (seen[cq] - taken[cq]).min(63) as u128;
                let values = [("cq", cq as u128), ("consumer", taken[cq] as u128), ("seen", seen)];
                bench.sources[1].push_values(&[&values[..], &[("arm_next", 1)]].concat());
                others[cq] += 1;
            }
            if busy && random.chance(0.002) {
                (periods[cq], settled[cq]) = (random.rng.random_range(0..150), now);
                bench.set_limits(cq as u64, random.rng.random_range(0..20), periods[cq]);
            }
            crate::testing::step(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, stall);
            bench.sim.set("limits_enable", 0);
            for item in &bench.sinks[1].items[told..] {
                let cq = item["row"].to_u64() as usize;
                if armed[cq].is_none() {
                    assert!(others[cq] > 0, "seed {seed}, cycle {now}: CQ {cq} tells twice");
                    others[cq] -= 1;
                    continue;
                }
                // What another thread armed for may have been taken meanwhile.
                let news = seen[cq] > taken[cq] || others[cq] > 0;
                assert!(news, "seed {seed}, cycle {now}: CQ {cq} tells of nothing");
                (armed[cq], there[cq]) = (None, None);
                wakes += 1;
            }
            told = bench.sinks[1].items.len();
            for item in &bench.sinks[0].items[written..] {
                if !item["last"].is_zero() {
                    seen[(item["address"].to_u64() >> 16) as usize] += 1;
                }
            }
            written = bench.sinks[0].items.len();
            for cq in 0..CQS {
                if armed[cq].is_some() && seen[cq] > taken[cq] {
                    let since = *there[cq].get_or_insert(now);
                    let until = since.max(settled[cq]) + periods[cq] * CYCLES_US + WITHIN;
                    assert!(now <= until, "seed {seed}, cycle {now}: CQ {cq} sleeps since {since}");
                }
            }
        }
        assert_eq!(seen, sent);
        // Fewer than one an entry: some waited for others.
        let all: usize = sent.iter().sum();
        assert!(wakes > 200 && 2 * wakes < all, "seed {}: {wakes} wakes, {all} entries", random.seed);
    }
}

#[test]
fn moderation_ends_with_the_life_of_its_queue() {
    for beat_bytes in [8, 64] {
        let mut bench = moderated_bench(beat_bytes);
        let mut random = Random::new(19);
        for _ in 0..3 {
            bench.create(3, 0x1_0000, 4);
            bench.moderate(3, 8, 40);
            bench.sources[1].push_values(&[("cq", 3), ("consumer", 0), ("arm_next", 1)]);
            drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 20);
            bench.complete(3, 7);
            drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 20);
            // It waits, and the next one of that number is armed within its time.
            bench.create(3, 0x1_0000, 4);
            bench.sources[1].push_values(&[("cq", 3), ("consumer", 0), ("arm_next", 1)]);
            drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 1000, 300);
            assert_eq!(bench.sinks[1].items.len(), 0);
        }
        // It is not moderated.
        bench.complete(3, 7);
        drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 20);
        assert_eq!(bench.sinks[1].values("row"), [3]);
    }
}

#[test]
fn doorbells_do_not_wait_for_the_host() {
    let mut bench = bench(8);
    let mut random = Random::new(16);
    bench.create(3, 0x1_0000, 4);
    bench.sinks[0].stall = Some(1.0);
    // More than there are places on the way.
    (0..40).for_each(|i| bench.complete(3, i));
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
fn entries_take_as_many_cycles_as_they_have_beats() {
    for (beat_bytes, beats) in [(8, 4), (16, 2), (32, 1), (64, 1)] {
        for queues in [1, 3] {
            let mut bench = bench(beat_bytes);
            let mut random = Random::new(5);
            (0..queues).for_each(|cq| bench.create(cq, 0x1000 * (cq + 1), 8));
            // The looks of new limits are over.
            (0..20).for_each(|_| bench.sim.tick());
            for i in 0..64 {
                bench.complete(i % queues, i);
            }
            drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 1000, 200);
            assert_eq!(bench.sinks[0].frames_seen(), 64);
            // No cycle without a beat, whichever queues they are for.
            let (taken, written) = (&bench.sources[0].cycles, &bench.sinks[0].cycles);
            assert_eq!(written[64 * beats - 1] - written[0], 64 * beats as u64 - 1, "{beat_bytes} bytes");
            assert_eq!(written[0] - taken[0], 5, "{beat_bytes} bytes, {queues} queues");
        }
    }
}

#[test]
fn a_notice_that_waits_for_entries_ends_with_the_life_of_its_queue() {
    for beat_bytes in [8, 64] {
        // The cycles from the last completion to the end of the queue, and whether the queue was overrun or is armed.
        for (gap, overrun) in (0..24).flat_map(|gap| [(gap, false), (gap, true)]) {
            let mut bench = bench(beat_bytes);
            let mut random = Random::new(23);
            bench.create(3, 0x1_0000, 1);
            bench.create(4, 0x2_0000, 4);
            bench.sinks[0].stall = Some(1.0);
            let steps = |bench: &mut Bench, random: &mut Random, cycles: u32| {
                for _ in 0..cycles {
                    let Bench { sim, sources, sinks, .. } = bench;
                    crate::testing::step(sim, sources, sinks, random, 0.0);
                }
            };
            if !overrun {
                bench.sources[1].push_values(&[("cq", 3), ("arm_next", 1)]);
            }
            while bench.sources[1].left() > 0 {
                steps(&mut bench, &mut random, 1);
            }
            bench.complete(4, 0);
            (0..if overrun { 3 } else { 1 }).for_each(|i| bench.complete(3, i));
            steps(&mut bench, &mut random, gap);
            bench.create(3, 0x3_0000, 4);
            // Of the one that is armed when it is made anew, the next entry tells.
            bench.sources[1].push_values(&[("cq", 3), ("arm_next", u128::from(gap % 2 == 0))]);
            steps(&mut bench, &mut random, 20);
            bench.sinks[0].stall = Some(0.0);
            steps(&mut bench, &mut random, 100);
            let case = format!("{beat_bytes} bytes, {gap} cycles, overrun: {overrun}");
            // An entry that is not through the table when its queue ends counts for the next one, if that is armed.
            let (armed, early) = (gap % 2 == 0, bench.sinks[1].items.len());
            assert!(early == 0 || (armed && gap < 12), "{case}: told of a former life");
            bench.complete(3, 7);
            steps(&mut bench, &mut random, 100);
            assert_eq!(bench.sinks[1].values("row"), [3][..usize::from(armed)], "{case}");
            assert!(bench.sinks[1].values("flags").iter().all(|flags| *flags == 1), "{case}");
        }
    }
}

/// Entries as they come by, beat by beat.
struct Entries {
    lanes: u64,
    read: usize,
    address: u64,
    bytes: Vec<u8>,
}

impl Entries {
    fn of(beat_bytes: u32) -> Self {
        Entries { lanes: beat_bytes.into(), read: 0, address: 0, bytes: Vec::new() }
    }

    /// Those that have left since the last call, with their addresses.
    fn take(&mut self, sink: &Sink) -> Vec<(u64, Cqe)> {
        let mut whole = Vec::new();
        for item in &sink.items[self.read..] {
            self.address = item["address"].to_u64();
            let strobe = &item["strobe"];
            let bytes = item["data"].to_bytes();
            self.bytes.extend((0..self.lanes as u32).filter(|i| strobe.bit(*i)).map(|i| bytes[i as usize]));
            if !item["last"].is_zero() {
                whole.push((self.address, Cqe::parse(&std::mem::take(&mut self.bytes)).unwrap()));
            }
        }
        self.read = sink.items.len();
        whole
    }
}

/// Completions, arms and new rings at random times: the host finds each entry once, in order, over all rings, and is told as in one.
#[test]
fn a_queue_that_goes_to_new_rings_loses_no_entry_and_no_notice() {
    const CQS: usize = 3;
    for (beat_bytes, stall) in [(8, 0.0), (8, 0.5), (64, 0.0), (64, 0.5)] {
        let mut bench = bench(beat_bytes);
        let mut random = Random::new(18);
        let mut entries = Entries::of(beat_bytes);
        // Rings by number, which is in their addresses: whose, log2, how many entries went there.
        let mut rings: Vec<(usize, u32, u32)> = Vec::new();
        // By CQ: the ring of the card, and the one that it is to have.
        let (mut current, mut coming) = ([0; CQS], [None; CQS]);
        for (cq, ring) in current.iter_mut().enumerate() {
            bench.create(cq as u64, (cq as u64) << 20, 8);
            *ring = cq;
            rings.push((cq, 8, 0));
        }
        // Entries that were sent: whether they are notable. How many are seen, and taken, and were before the present ring.
        let mut sent: [Vec<bool>; CQS] = Default::default();
        let (mut seen, mut taken, mut before) = ([0usize; CQS], [0usize; CQS], [0usize; CQS]);
        let mut armed = [Armed::No; CQS];
        let (mut told, mut wakes, mut moves, mut full_moves, mut armed_moves) = (0, 0, 0, 0, 0);
        let mut asked: VecDeque<usize> = VecDeque::new();
        for cycle in 0..30_000 {
            let busy = cycle < 29_000;
            let cq = random.rng.random_range(0..CQS);
            if busy && bench.sources[0].left() == 0 && sent[cq].len() - taken[cq] < 200 && random.chance(0.3)
            {
                let notable = random.chance(0.1);
                let values = [("cq", cq as u128), ("solicited", notable.into())];
                let index = [("wqe_index", sent[cq].len() as u128 & 0xffff)];
                bench.sources[0].push_values(&[&values[..], &index].concat());
                sent[cq].push(notable);
            }
            let cq = random.rng.random_range(0..CQS);
            let quiet = bench.sources[1].left() < 3 && coming[cq].is_none();
            if busy && quiet && armed[cq] == Armed::No && random.chance(0.2) {
                taken[cq] = seen[cq];
                armed[cq] = if random.chance(0.5) { Armed::Next } else { Armed::Solicited };
                let (next, solicited) = (armed[cq] == Armed::Next, armed[cq] == Armed::Solicited);
                bench.sources[1].push_values(&[
                    ("cq", cq as u128),
                    ("consumer", (taken[cq] - before[cq]) as u128),
                    ("arm_next", next.into()),
                    ("arm_solicited", solicited.into()),
                ]);
            }
            // The doorbells of before have come.
            let cq = random.rng.random_range(0..CQS);
            let free = bench.sources[2].left() == 0 && bench.sources[1].left() == 0;
            if busy && free && coming[cq].is_none() && random.chance(0.01) {
                let log2 = random.rng.random_range(8..11);
                let ring = rings.len();
                rings.push((cq, log2, 0));
                coming[cq] = Some(ring);
                asked.push_back(cq);
                let values = [("cq", cq as u128), ("base", (ring as u128) << 20), ("log2", log2.into())];
                bench.sources[2].push_values(&values);
            }
            let waiting = bench.sources[2].left();
            crate::testing::step(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, stall);
            assert_eq!(bench.sim.get("dropped"), 0, "seed {}", random.seed);
            for item in &bench.sinks[1].items[told..] {
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
            told = bench.sinks[1].items.len();
            for (address, cqe) in entries.take(&bench.sinks[0]) {
                let (cq, log2, count) = &mut rings[(address >> 20) as usize];
                let slot = u64::from(*count & ((1 << *log2) - 1));
                assert_eq!(address & 0xf_ffff, 32 * slot, "seed {}, cycle {cycle}", random.seed);
                assert_eq!(cqe.phase, *count >> *log2 & 1 == 0, "seed {}", random.seed);
                assert_eq!(usize::from(cqe.wqe_index), seen[*cq] & 0xffff, "seed {}", random.seed);
                *count += 1;
                seen[*cq] += 1;
            }
            if bench.sources[2].left() < waiting {
                let cq = asked.pop_front().unwrap();
                let old = std::mem::replace(&mut current[cq], coming[cq].take().unwrap());
                // All of the old ring have left, and the host is told how many they are.
                let produced = bench.sim.get("produced_before");
                assert_eq!(produced, u64::from(rings[old].2), "seed {}, cycle {cycle}", random.seed);
                before[cq] += produced as usize;
                // What is seen already of the new one came in the same cycle.
                assert_eq!(before[cq] + rings[current[cq]].2 as usize, seen[cq]);
                moves += 1;
                full_moves += usize::from(taken[cq] < before[cq]);
                armed_moves += usize::from(armed[cq] != Armed::No);
            }
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
        assert!(wakes > 150 && moves > 100, "seed {}: {wakes} wakes, {moves} new rings", random.seed);
        assert!(full_moves > 10 && armed_moves > 10, "seed {}: {full_moves}, {armed_moves}", random.seed);
    }
}

#[test]
fn a_queue_that_was_overrun_stays_so_in_a_new_ring_and_one_that_is_full_has_room() {
    for beat_bytes in [8, 64] {
        let mut bench = bench(beat_bytes);
        let mut random = Random::new(19);
        for (cq, entries) in [(3, 2), (4, 3)] {
            bench.create(cq, 0x1_0000 * cq, 1);
            (0..entries).for_each(|i| bench.complete(cq, i));
        }
        drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 20);
        assert_eq!((bench.sinks[1].values("row"), bench.sinks[1].values("flags")), (vec![4], vec![2]));
        for cq in [3u128, 4] {
            bench.sources[2].push_values(&[("cq", cq), ("base", 0x10_0000 * cq), ("log2", 1)]);
            drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 20);
            assert_eq!(bench.sources[2].left(), 0);
            bench.complete(cq as u64, 7);
        }
        drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 20);
        let (_, order) = bench.memory();
        assert_eq!(order[order.len() - 1], 0x30_0000);
        assert_eq!(order.len(), 5);
    }
}

#[test]
fn entries_that_were_there_when_an_event_was_asked_for_send_none_and_the_next_one_does() {
    for beat_bytes in [8, 64] {
        let mut bench = bench(beat_bytes);
        let mut random = Random::new(20);
        bench.create(3, 0x1_0000, 8);
        let turn = |bench: &mut Bench, random: &mut Random| {
            drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, random, 0.0, 2000, 40);
            bench.sinks[1].items.len()
        };
        (0..100).for_each(|i| bench.complete(3, i));
        turn(&mut bench, &mut random);
        // The race: entry 99 is written before the doorbell comes, and the host had not seen it.
        for (consumer, seen, events) in [(99, 1, 0), (40, 60, 0), (99, 0, 1), (37, 63, 1), (36, 63, 2)] {
            let values = [("cq", 3), ("consumer", consumer), ("seen", seen), ("arm_next", 1)];
            bench.sources[1].push_values(&values);
            assert_eq!(turn(&mut bench, &mut random), events, "{beat_bytes}: {consumer}, {seen}");
        }
        // It is not armed any more; then it is, for the next one.
        bench.complete(3, 100);
        assert_eq!(turn(&mut bench, &mut random), 2);
        bench.sources[1].push_values(&[("cq", 3), ("consumer", 99), ("seen", 2), ("arm_next", 1)]);
        assert_eq!(turn(&mut bench, &mut random), 2);
        bench.complete(3, 101);
        assert_eq!(turn(&mut bench, &mut random), 3);
    }
}

#[test]
fn an_arm_does_not_hide_what_an_earlier_one_asked_for() {
    // Arms of other queues before it: each looks when it comes, and none waits for them.
    for others in [vec![], vec![5], vec![5, 6]] {
        let mut bench = bench(64);
        let mut random = Random::new(21);
        for cq in 3..7 {
            bench.create(cq, 0x1_0000 * cq, 4);
        }
        let steps = |bench: &mut Bench, random: &mut Random, cycles: u32| {
            for _ in 0..cycles {
                let Bench { sim, sources, sinks, .. } = bench;
                crate::testing::step(sim, sources, sinks, random, 0.0);
            }
        };
        let arm = |bench: &mut Bench, cq: u128, seen: u128| {
            bench.sources[1].push_values(&[("cq", cq), ("seen", seen), ("arm_next", 1)]);
        };
        // An entry waits for the write channel, and another queue's after it.
        bench.sinks[0].stall = Some(1.0);
        bench.complete(3, 0);
        bench.complete(4, 0);
        steps(&mut bench, &mut random, 20);
        for cq in &others {
            arm(&mut bench, *cq, 0);
        }
        arm(&mut bench, 3, 0);
        steps(&mut bench, &mut random, 20);
        // It leaves: the host sees it and arms again, while what the first arm asked for waits for the other entry.
        bench.sinks[0].stall = Some(0.0);
        while bench.sinks[0].items.is_empty() {
            steps(&mut bench, &mut random, 1);
        }
        bench.sinks[0].stall = Some(1.0);
        steps(&mut bench, &mut random, 10);
        assert_eq!((bench.sinks[0].items.len(), bench.sinks[1].items.len()), (1, 0));
        arm(&mut bench, 3, 1);
        steps(&mut bench, &mut random, 20);
        bench.sinks[0].stall = Some(0.0);
        steps(&mut bench, &mut random, 60);
        assert_eq!(bench.sinks[1].values("row"), [3], "after arms of {others:?}");
        // And the second arm asks for the next one.
        bench.complete(3, 1);
        steps(&mut bench, &mut random, 60);
        assert_eq!(bench.sinks[1].values("row"), [3, 3], "after arms of {others:?}");
    }
}

#[test]
fn what_an_arm_asked_for_ends_with_the_life_of_its_queue() {
    // Entries of another queue that wait for the write channel, and arms of others before it.
    let places = [(1, vec![]), (2, vec![]), (2, vec![5])];
    for (beat_bytes, (entries, others)) in [8, 64].into_iter().flat_map(|b| places.clone().map(|p| (b, p))) {
        // Cycles from the doorbell to DESTROY_CQ, and from there to CREATE_CQ; whether the new queue is armed too.
        for (turn, until) in (0..60).enumerate() {
            let (gap, arms_anew) = ([0, 12, 13, 20][turn % 4], turn % 8 < 4);
            let case =
                format!("{beat_bytes} bytes, {entries} entries, {others:?}, {until}, {gap}, {arms_anew}");
            let mut bench = bench(beat_bytes);
            let mut random = Random::new(22);
            (3..6).for_each(|cq| bench.create(cq, 0x1_0000 * cq, 4));
            let steps = |bench: &mut Bench, random: &mut Random, cycles: u32| {
                for _ in 0..cycles {
                    let Bench { sim, sources, sinks, .. } = bench;
                    crate::testing::step(sim, sources, sinks, random, 0.0);
                }
            };
            let arm = |bench: &mut Bench, cq: u128| {
                bench.sources[1].push_values(&[("cq", cq), ("arm_next", 1)]);
            };
            bench.sinks[0].stall = Some(1.0);
            (0..entries).for_each(|i| bench.complete(4, i));
            steps(&mut bench, &mut random, 20);
            others.iter().for_each(|cq| arm(&mut bench, *cq));
            arm(&mut bench, 3);
            while bench.sources[1].left() > 0 {
                steps(&mut bench, &mut random, 1);
            }
            steps(&mut bench, &mut random, until / 4);
            // Without a gap the queue is made anew at once, as after RESET_ALL.
            if gap > 0 {
                bench.sim.set("create_enable", 1);
                for (port, value) in [("index", 3), ("entry_valid", 0)] {
                    bench.sim.set(&format!("create_{port}"), value);
                }
                bench.moderate(3, 0, 0);
                bench.sim.set("create_enable", 0);
                steps(&mut bench, &mut random, gap);
            }
            bench.create(3, 0x3_0000, 4);
            if arms_anew {
                arm(&mut bench, 3);
                steps(&mut bench, &mut random, 10);
            }
            bench.complete(3, 7);
            bench.sinks[0].stall = Some(0.0);
            steps(&mut bench, &mut random, 100);
            assert_eq!(bench.sinks[0].frames_seen(), entries as usize + 1, "{case}");
            let told = if arms_anew { vec![3] } else { vec![] };
            assert_eq!(bench.sinks[1].values("row"), told, "{case}");
        }
    }
}
