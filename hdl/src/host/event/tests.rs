// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::host::dma;
use crate::testing::{step, Random, Sink, Source};
use ferrowire_rtl::{build, Sim};
use ferrowire_spec::queue::Event;
use rand::Rng;
use std::collections::HashMap;

const NOTICE: usize = 0;
const REPORT: usize = 1;
const OTHER: usize = 2;
const BELL: usize = 3;

/// The event writer with the card's write channel behind it.
struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: [Source; 4],
    sinks: [Sink; 1],
    random: Random,
    stall: f64,
    /// Memory, as the writes left the port, and how many writes were looked at.
    memory: HashMap<u64, u8>,
    at: Option<u64>,
    seen: usize,
    /// Interrupts: EQN, vector.
    interrupts: Vec<(u64, u64)>,
    lost: u64,
    written: u64,
}

fn bench(beat_bytes: u32, stall: f64, seed: u64) -> Bench {
    let cfg = RnicConfig { beat_bytes, eqs: 8, ..RnicConfig::named("generic-8b").unwrap() };
    let cqs = TableWrite { enable: bits(1), index: bits(cfg.cq_bits()), entry: CqEntry::of() };
    let eqs = TableWrite { enable: bits(1), index: bits(cfg.eq_bits()), entry: EqEntry::of() };
    let netlist = build("top", |m| {
        let notices = m.stream_in("notice", &Flagged::of(cfg.cqs, NOTICES));
        let reports = vec![m.stream_in("report", &Report::of()), m.stream_in("other", &Report::of())];
        let doorbell = m.stream_in("bell", &EqDoorbell::of(&cfg));
        let (cqs, eqs) = (m.input_of("cqs", &cqs), m.input_of("eqs", &eqs));
        let port = m.wire_of("port", &WritePort { valid: bits(1), fire: bits(1) });
        let out = event(m, &cfg, notices, reports, cqs, eqs, doorbell, port.clone());
        let write = dma::write(m, 0, vec![out.write]);
        m.drive(&port, &WritePort { valid: write.valid, fire: write.fire() });
        m.stream_out("write", write);
        m.output("interrupt", &out.interrupt);
        m.output("written", &out.written);
        m.output("lost", &out.lost);
        m.output("busy", &out.busy);
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.reset();
    (0..cfg.cqs).for_each(|_| sim.tick());
    let sources = [
        Source::new("notice", &Flagged::of(cfg.cqs, NOTICES)),
        Source::new("report", &Report::of()),
        Source::new("other", &Report::of()),
        Source::new("bell", &EqDoorbell::of(&cfg)),
    ];
    let sinks = [Sink::new("write", &DmaWrite::of(&cfg))];
    Bench {
        cfg,
        sim,
        sources,
        sinks,
        random: Random::new(seed),
        stall,
        memory: HashMap::new(),
        at: None,
        seen: 0,
        interrupts: Vec::new(),
        lost: 0,
        written: 0,
    }
}

fn base(eqn: u64) -> u64 {
    eqn << 20
}

impl Bench {
    fn pulse(&mut self, table: &str, index: u64, fields: &[(&str, u64)]) {
        self.sim.set(&format!("{table}_index"), index);
        for (field, value) in fields {
            self.sim.set(&format!("{table}_entry_{field}"), *value);
        }
        self.sim.set(&format!("{table}_enable"), 1);
        self.step();
        self.sim.set(&format!("{table}_enable"), 0);
    }

    fn eq(&mut self, eqn: u64, log2: u64, asynchronous: bool) {
        let fields = [("valid", 1), ("base", base(eqn)), ("log2", log2), ("vector", eqn ^ 5)];
        self.pulse("eqs", eqn, &[&fields[..], &[("asynchronous", asynchronous.into())]].concat());
    }

    fn no_eq(&mut self, eqn: u64) {
        let fields = ["valid", "base", "log2", "vector", "asynchronous"].map(|f| (f, 0));
        self.pulse("eqs", eqn, &fields);
    }

    fn cq(&mut self, cq: u64, eqn: u64) {
        self.pulse("cqs", cq, &[("valid", 1), ("eqn", eqn)]);
    }

    fn notice(&mut self, cq: u64, flags: u64) {
        self.sources[NOTICE].push_values(&[("row", cq.into()), ("flags", flags.into())]);
    }

    fn report(&mut self, source: usize, kind: EventKind, object: u64, cause: u64) {
        let fields = [("kind", kind.code().into()), ("object", object.into()), ("cause", cause.into())];
        self.sources[source].push_values(&fields);
    }

    fn ring(&mut self, eqn: u64, consumer: u64, arm: bool) {
        let fields = [("eq", eqn.into()), ("consumer", consumer.into()), ("arm", arm.into())];
        self.sources[BELL].push_values(&fields);
    }

    fn step(&mut self) {
        self.lost += self.sim.get("lost");
        self.written += self.sim.get("written");
        let interrupt = (self.sim.get("interrupt_valid") == 1)
            .then(|| (self.sim.get("interrupt_eqn"), self.sim.get("interrupt_vector")));
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        self.interrupts.extend(interrupt);
        let beat = u64::from(self.cfg.beat_bytes);
        for item in &self.sinks[0].items[self.seen..] {
            let at = self.at.unwrap_or(item["address"].to_u64() & !(beat - 1));
            for (i, byte) in item["data"].to_bytes().iter().enumerate() {
                if item["strobe"].bit(i as u32) {
                    self.memory.insert(at + i as u64, *byte);
                }
            }
            self.at = item["last"].is_zero().then_some(at + beat);
        }
        self.seen = self.sinks[0].items.len();
    }

    fn settle(&mut self, cycles: u64) {
        (0..cycles).for_each(|_| self.step());
    }

    /// Entry `index` of a queue, if it is written.
    fn entry(&self, eqn: u64, log2: u64, index: u64) -> Option<Event> {
        let at = base(eqn) + 16 * (index & ((1 << log2) - 1));
        let bytes: Vec<u8> = (at..at + 16).map(|a| self.memory.get(&a).copied().unwrap_or(0)).collect();
        let event = Event::parse(&bytes).unwrap();
        (event.phase == (index >> log2 & 1 == 0)).then_some(event)
    }

    fn entries(&self, eqn: u64) -> Vec<(u8, u32, u8, bool)> {
        (0..64)
            .map_while(|i| self.entry(eqn, 6, i))
            .map(|event| (event.kind, event.object, event.cause, event.lost))
            .collect()
    }
}

const COMPLETION: u8 = EventKind::Completion as u8;
const OVERRUN: u8 = EventKind::CqOverrun as u8;

#[test]
fn what_is_told_goes_to_the_queue_that_asked_for_it() {
    for (beat_bytes, stall) in [(8, 0.0), (16, 0.4), (64, 0.4)] {
        let mut bench = bench(beat_bytes, stall, 41);
        bench.eq(2, 6, false);
        bench.eq(3, 6, true);
        bench.cq(4, 2);
        bench.cq(5, 0);
        bench.cq(6, 7);
        for (cq, flags) in [(4, 1), (5, 3), (6, 3), (4, 3)] {
            bench.notice(cq, flags);
            bench.settle(60);
        }
        bench.report(REPORT, EventKind::QpFatal, 0xabcdef, 0x85);
        bench.settle(60);
        bench.report(OTHER, EventKind::PortUp, 0, 0);
        bench.settle(60);
        assert_eq!(
            bench.entries(2),
            [(COMPLETION, 4, 0, false), (COMPLETION, 4, 0, false), (OVERRUN, 4, 0, false)]
        );
        // The overrun of a CQ without a queue, and what is of no CQ.
        let fatal = (EventKind::QpFatal.code(), 0xabcdef, 0x85, false);
        assert_eq!(
            bench.entries(3),
            [(OVERRUN, 5, 0, false), fatal, (EventKind::PortUp.code(), 0, 0, false)]
        );
        assert_eq!((bench.lost, bench.written), (0, 6));
        // The asynchronous queue changes, and goes.
        bench.eq(1, 6, true);
        bench.report(REPORT, EventKind::SqDrained, 1, 0);
        bench.settle(60);
        bench.no_eq(1);
        bench.report(REPORT, EventKind::SqDrained, 2, 0);
        bench.settle(60);
        assert_eq!(bench.entries(1), [(EventKind::SqDrained.code(), 1, 0, false)]);
        assert_eq!((bench.lost, bench.written), (0, 7));
    }
}

#[test]
fn a_report_for_a_full_queue_is_lost_and_the_next_entry_says_so() {
    let mut bench = bench(8, 0.2, 42);
    bench.eq(3, 2, true);
    for i in 0..7 {
        bench.report(REPORT, EventKind::CommEstablished, i, 0);
        bench.settle(40);
    }
    assert_eq!((bench.lost, bench.written), (3, 4));
    bench.ring(3, 2, false);
    bench.settle(10);
    for i in 7..9 {
        bench.report(REPORT, EventKind::CommEstablished, i, 0);
        bench.settle(40);
    }
    let news: Vec<_> = (4..6).map(|i| bench.entry(3, 2, i).unwrap()).map(|e| (e.object, e.lost)).collect();
    assert_eq!(news, [(7, true), (8, false)]);
    assert_eq!(bench.sources[REPORT].left(), 0);
}

#[test]
fn an_interrupt_follows_the_first_event_behind_the_consumer_once() {
    for (beat_bytes, stall) in [(8, 0.0), (8, 0.5), (64, 0.5)] {
        let mut bench = bench(beat_bytes, stall, 43);
        bench.eq(2, 6, false);
        bench.cq(4, 2);
        let tell = |bench: &mut Bench| {
            bench.notice(4, 1);
            bench.settle(80);
        };
        tell(&mut bench);
        assert_eq!(bench.interrupts, []);
        // There is one already.
        bench.ring(2, 0, true);
        bench.settle(30);
        assert_eq!(bench.interrupts, [(2, 7)]);
        tell(&mut bench);
        bench.ring(2, 2, true);
        bench.settle(30);
        assert_eq!(bench.interrupts.len(), 1);
        tell(&mut bench);
        tell(&mut bench);
        assert_eq!(bench.interrupts.len(), 2);
        bench.ring(2, 3, false);
        bench.settle(30);
        assert_eq!(bench.interrupts.len(), 2);
    }
}

#[test]
fn no_interrupt_comes_before_its_entry_has_left_and_none_is_missing() {
    const LOG2: u64 = 3;
    for (beat_bytes, stall) in [(8, 0.0), (8, 0.6), (64, 0.6)] {
        let mut bench = bench(beat_bytes, stall, 44);
        for eqn in 1..4 {
            bench.eq(eqn, LOG2, false);
        }
        (0..12).for_each(|cq| bench.cq(cq, 1 + cq % 3));
        // A host that sleeps until it is interrupted, then takes some or all, and goes to sleep again.
        let (mut taken, mut asleep, mut wakes) = ([0u64; 4], [false; 4], 0);
        let mut got: HashMap<u32, u64> = HashMap::new();
        let mut told: HashMap<u32, u64> = HashMap::new();
        for cycle in 0..30_000 {
            if cycle < 28_000 && bench.sources[NOTICE].left() == 0 && bench.random.chance(0.1) {
                let cq = bench.random.rng.random_range(0..12);
                bench.notice(cq, 1);
                *told.entry(cq as u32).or_default() += 1;
            }
            let before = bench.interrupts.len();
            for eqn in 1..4usize {
                if asleep[eqn] || !bench.random.chance(0.05) {
                    continue;
                }
                let most = if bench.random.chance(0.7) { 100 } else { 1 };
                let mut n = 0;
                while let Some(event) = bench.entry(eqn as u64, LOG2, taken[eqn]).filter(|_| n < most) {
                    assert_eq!(u64::from(event.object) % 3 + 1, eqn as u64);
                    *got.entry(event.object).or_default() += 1;
                    (taken[eqn], n) = (taken[eqn] + 1, n + 1);
                }
                asleep[eqn] = true;
                bench.ring(eqn as u64, taken[eqn], true);
            }
            // What leaves the port in this cycle is not seen by an interrupt of this cycle.
            let seen: Vec<bool> = (0..4).map(|e| bench.entry(e, LOG2, taken[e as usize]).is_some()).collect();
            bench.step();
            for (eqn, _) in bench.interrupts[before..].iter().copied() {
                let eqn = eqn as usize;
                assert!(
                    asleep[eqn] && seen[eqn],
                    "seed {}, cycle {cycle}: woken for nothing",
                    bench.random.seed
                );
                asleep[eqn] = false;
                wakes += 1;
            }
        }
        for eqn in 1..4u64 {
            let unseen = bench.entry(eqn, LOG2, taken[eqn as usize]).is_some();
            assert!(!unseen, "seed {}: EQ {eqn} was left asleep", bench.random.seed);
        }
        for (cq, told) in told {
            let got = got[&cq];
            assert!(got > 0 && got <= told, "seed {}: CQ {cq}: {got} of {told}", bench.random.seed);
        }
        assert!(wakes > 200, "seed {}: {wakes} wakes", bench.random.seed);
        assert_eq!(bench.lost, 0);
    }
}

#[test]
fn a_full_queue_holds_up_no_other_and_loses_no_cq() {
    for beat_bytes in [8, 64] {
        let mut bench = bench(beat_bytes, 0.2, 45);
        bench.eq(1, 1, false);
        bench.eq(2, 6, false);
        (0..16).for_each(|cq| bench.cq(cq, 1 + u64::from(cq > 9)));
        (0..16).for_each(|cq| bench.notice(cq, 1 + 2 * (cq & 1)));
        bench.settle(1500);
        // All that go to the other queue have come.
        assert_eq!(bench.entries(2).len(), 9);
        let (mut taken, mut got) = (0, Vec::new());
        for _ in 0..40 {
            while let Some(event) = bench.entry(1, 1, taken) {
                got.push((event.object, event.kind));
                taken += 1;
            }
            bench.ring(1, taken, false);
            bench.settle(400);
        }
        got.sort_unstable();
        let expected: Vec<_> = (0..10)
            .flat_map(|cq| [(cq, COMPLETION), (cq, OVERRUN)].into_iter().take(1 + (cq as usize & 1)))
            .collect();
        assert_eq!(got, expected, "seed {}", bench.random.seed);
    }
}

#[test]
fn behind_the_removal_of_a_cq_nothing_is_written_about_it() {
    for stall in [0.0, 0.7] {
        let mut bench = bench(8, stall, 49);
        bench.eq(2, 6, true);
        let mut told = 0;
        for round in 0..300 {
            bench.cq(4, if round & 1 == 1 { 2 } else { 0 });
            for _ in 0..bench.random.rng.random_range(1..4) {
                bench.notice(4, 3);
            }
            let pause = bench.random.rng.random_range(0..40);
            bench.settle(pause);
            // Its completions are over, so no more notices come.
            while bench.sources[NOTICE].left() > 0 {
                bench.step();
            }
            bench.pulse("cqs", 4, &[("valid", 0), ("eqn", 0)]);
            while bench.sim.get("busy") == 1 {
                bench.step();
            }
            let taken = bench.written;
            bench.settle(80);
            assert_eq!(bench.written, taken, "seed {}, round {round}", bench.random.seed);
            bench.ring(2, taken, false);
            told = taken;
        }
        assert!(told > 100, "{told}");
    }
}

#[test]
fn what_is_told_of_a_cq_ends_with_its_life_whatever_queue_the_next_one_has() {
    for beat_bytes in [8, 64] {
        // Other CQs before it: its notice is taken, on offer, or in line; cycles until its life ends, and from there to the next one.
        for (others, until, gap) in
            (0..3).flat_map(|o| (0..12).flat_map(move |u| [0, 12, 13].map(|gap| (o, u, gap))))
        {
            let mut bench = bench(beat_bytes, 0.0, 50);
            (1..4).for_each(|eqn| bench.eq(eqn, 6, eqn == 1));
            (4..7).for_each(|cq| bench.cq(cq, 2));
            bench.sinks[0].stall = Some(1.0);
            // Reports fill the write channel, and one waits for it.
            (0..4).for_each(|_| bench.report(REPORT, EventKind::PortDown, 0, 0));
            bench.settle(40);
            (0..others).for_each(|i| bench.notice(5 + i, 1));
            bench.notice(4, 1);
            bench.settle(until);
            while bench.sources[NOTICE].left() > 0 {
                bench.step();
            }
            if gap > 0 {
                bench.pulse("cqs", 4, &[("valid", 0), ("eqn", 0)]);
                bench.settle(gap);
            }
            bench.cq(4, 3);
            bench.sinks[0].stall = Some(0.0);
            bench.settle(100);
            let case = format!("{beat_bytes} bytes, {others} before, {until}, {gap}");
            assert_eq!(bench.entries(3), [], "{case}");
            assert_eq!((bench.entries(1).len(), bench.entries(2).len() as u64), (4, others), "{case}");
        }
    }
}

#[test]
fn behind_the_removal_of_a_queue_nothing_is_written_into_it() {
    for stall in [0.0, 0.7] {
        let mut bench = bench(8, stall, 46);
        for round in 0..200 {
            bench.eq(2, 6, true);
            bench.cq(4, 2);
            for _ in 0..bench.random.rng.random_range(0..4) {
                bench.notice(4, 3);
                bench.report(REPORT, EventKind::PortDown, 0, 0);
            }
            let pause = bench.random.rng.random_range(0..40);
            bench.settle(pause);
            bench.no_eq(2);
            while bench.sim.get("busy") == 1 {
                bench.step();
            }
            // What the write channel has taken stands before what it is offered now.
            let taken = bench.written;
            bench.settle(80);
            assert_eq!(bench.written, taken, "seed {}, round {round}", bench.random.seed);
            bench.cq(4, 0);
            bench.settle(80);
        }
        assert!(bench.written > 100);
    }
}

#[test]
fn the_link_tells_what_it_has_become() {
    let netlist = build("top", |m| m.stream_out("out", link_changes(m, m.input("up", 1)))).unwrap();
    let mut sim = Sim::new(&netlist);
    sim.reset();
    let mut random = Random::new(48);
    let mut sinks = [Sink::new("out", &Report::of())];
    let (mut up, mut changes) = (0, 0);
    for cycle in 0..2000 {
        if cycle < 1900 && random.chance(0.1) {
            up ^= 1;
            changes += 1;
        }
        sim.set("up", up);
        step(&mut sim, &mut [], &mut sinks, &mut random, 0.8);
    }
    let kinds = sinks[0].values("kind");
    let known = |up: u64| u64::from(if up == 1 { EventKind::PortUp } else { EventKind::PortDown }.code());
    assert!(
        kinds.iter().enumerate().all(|(i, kind)| *kind == known((i as u64 + 1) & 1)),
        "seed {}",
        random.seed
    );
    assert!(kinds.len() < changes && kinds.last().is_none_or(|last| *last == known(up)));
}

#[test]
fn an_event_takes_few_cycles() {
    let mut bench = bench(64, 0.0, 47);
    bench.eq(2, 6, false);
    (0..16).for_each(|cq| bench.cq(cq, 2));
    bench.notice(0, 1);
    bench.settle(40);
    // One cycle of these is the slice of the write channel.
    assert_eq!(bench.sinks[0].cycles[0] - bench.sources[NOTICE].cycles[0], 7 + 1);
    (0..16).for_each(|cq| bench.notice(cq, 1));
    bench.settle(120);
    let cycles = &bench.sinks[0].cycles;
    assert_eq!(cycles.len(), 17);
    assert_eq!(cycles[16] - cycles[8], 8 * 6);
}

/// Interrupts of random events of several queues, some of them moderated: never more often than their time, never later than it and a
/// little, and none lost.
#[test]
fn a_moderated_queue_interrupts_at_most_once_in_its_time_and_never_forgets() {
    const QUEUES: [(u64, u64); 3] = [(1, 0), (2, 1), (3, 6)];
    for seed in 0..6 {
        let (beat_bytes, stall) = [(8, 0.0), (64, 0.3), (16, 0.6)][seed as usize % 3];
        let mut bench = bench(beat_bytes, stall, 70 + seed);
        let cycles_us = u64::from(bench.cfg.clock_khz.div_ceil(1000));
        // How long the event writer may take for one event, with a write channel that stalls.
        let slack = 120 + bench.cfg.eqs as u64 + cycles_us;
        for (eqn, us) in QUEUES {
            bench.sim.set("eqs_entry_moderation_us", us);
            bench.eq(eqn, 6, false);
            bench.cq(eqn + 2, eqn);
            bench.ring(eqn, 0, true);
        }
        // The last interrupt, the events that were consumed, and since when an event waits that finds its queue armed.
        let (mut last, mut taken, mut waits) = ([None; 3], [0u64; 3], [None::<u64>; 3]);
        let mut counts = [0; 3];
        let mut handlers: Vec<(u64, usize)> = Vec::new();
        for cycle in 0..40_000u64 {
            if bench.random.chance(0.01) {
                let eqn = QUEUES[bench.random.rng.random_range(0..3)].0;
                bench.notice(eqn + 2, 1);
            }
            let seen = bench.interrupts.len();
            bench.step();
            for (i, (eqn, us)) in QUEUES.iter().enumerate() {
                let written = bench.entry(*eqn, 6, taken[i]).is_some();
                let asks = handlers.iter().all(|(_, queue)| *queue != i);
                if written && asks {
                    waits[i].get_or_insert(cycle);
                }
                let limit = us * cycles_us + slack;
                let since = waits[i].map_or(0, |from| cycle - from);
                assert!(since <= limit, "seed {seed}: EQ {eqn} has waited {since} cycles of {limit}");
            }
            for (eqn, _) in bench.interrupts[seen..].iter().copied() {
                let i = QUEUES.iter().position(|(other, _)| *other == eqn).unwrap();
                let least = QUEUES[i].1 * cycles_us;
                let passed = last[i].map_or(u64::MAX, |before| cycle - before);
                assert!(passed >= least, "seed {seed}: EQ {eqn} interrupts after {passed} cycles of {least}");
                (last[i], counts[i], waits[i]) = (Some(cycle), counts[i] + 1, None);
                handlers.push((cycle + bench.random.rng.random_range(1..100), i));
            }
            // The host takes what is there and arms.
            let (now, later): (Vec<_>, Vec<_>) = handlers.drain(..).partition(|(at, _)| *at <= cycle);
            handlers = later;
            for (_, i) in now {
                let eqn = QUEUES[i].0;
                while bench.entry(eqn, 6, taken[i]).is_some() {
                    taken[i] += 1;
                }
                bench.ring(eqn, taken[i], true);
            }
        }
        println!("seed {seed}: {taken:?} events, {counts:?} interrupts");
        assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
        assert!(counts[2] < counts[0], "{counts:?}");
        bench.settle(8 * cycles_us + slack);
        for (i, (eqn, _)) in QUEUES.iter().enumerate() {
            assert!(
                bench.entry(*eqn, 6, taken[i]).is_none() || bench.interrupts.iter().any(|(e, _)| e == eqn)
            );
        }
    }
}

#[test]
fn a_queue_that_is_gone_interrupts_nobody() {
    let mut raised = [0; 2];
    for wait in 0..50 {
        let mut bench = bench(64, 0.0, 49);
        bench.eq(2, 6, false);
        bench.cq(4, 2);
        bench.ring(2, 0, true);
        bench.settle(10);
        // In the second half the write port stands still, and the interrupt waits for it.
        let stands = wait >= 25;
        bench.sinks[0].stall = stands.then_some(1.0);
        bench.notice(4, 1);
        bench.settle(wait);
        bench.no_eq(2);
        let before = bench.interrupts.len();
        bench.settle(5);
        bench.sinks[0].stall = None;
        bench.settle(60);
        assert_eq!(bench.interrupts.len(), before, "gone {wait} cycles behind the notice");
        raised[before] += 1;
    }
    assert!(raised.iter().all(|count| *count > 2), "{raised:?}");
}
