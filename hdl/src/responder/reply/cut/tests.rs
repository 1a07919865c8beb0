// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists that the bench writes as `order` would, and the candidates that come of them.

use super::*;
use crate::testing::{step, Random, Sink, Source};
use ferrowire_rtl::{build, clog2, Sim};
use ferrowire_spec::wire::opcode::Opcode;
use rand::Rng;

struct Bench {
    sim: Sim,
    sources: [Source; 1],
    sinks: [Sink; 3],
    random: Random,
    tails: [u64; 4],
    finished: [u64; 4],
    /// The number of a run's first repetition.
    runs: [Option<u64>; 4],
    next: u64,
}

impl Bench {
    /// A seed that is even makes a card with time, another one without.
    fn new(seed: u64) -> Bench {
        Bench::of(if seed % 2 == 0 { 8 } else { 64 }, seed)
    }

    fn of(beat_bytes: u32, seed: u64) -> Bench {
        let cfg = RnicConfig { beat_bytes, qps: 4, ..RnicConfig::named("generic-8b").unwrap() };
        let place = bits(clog2(places(&cfg).into()));
        let netlist = build("bench", |m| {
            let lists = Lists {
                pool: m.input_of("pool", &TableWrite { enable: bits(1), index: place, entry: Entry::of() }),
                links: m.input_of("links", &TableWrite { enable: bits(1), index: place, entry: place }),
                front: m.input_of(
                    "front",
                    &TableWrite { enable: bits(1), index: bits(2), entry: Front::of(&cfg) },
                ),
                start: m.input_of("start", &TableWrite { enable: bits(1), index: bits(2), entry: bits(24) }),
            };
            let failed = TableWrite { enable: bits(1), index: bits(2), entry: bits(1) };
            let out = cut(
                m,
                &cfg,
                m.input_of("broadcast", &QpBroadcast::of(&cfg)),
                lists,
                m.stream_in("wake", &Wake::of(&cfg)),
                m.input_of("failed", &failed),
                Waits {
                    gate: m.input_of("gate", &Gate::write_of(&cfg)),
                    paused: m.input("paused", 8),
                    may_loop: m.input("may_loop", 1),
                },
            );
            m.output("reserves", &m.delay("reserves_late", &out.reserves));
            // The opcode is told where packets leave.
            let opcode = out.candidates.about.opcode(m);
            m.output("opcode", &m.delay("opcode_late", &opcode));
            m.stream_out("candidate", out.candidates);
            m.stream_out("operand", out.operands);
            m.stream_out("charge", out.charges);
            m.output("freed", &m.delay("freed_late", &out.freed));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let about = About {
            qp: bits(2),
            work: bits(WORK_BITS),
            closes: bits(1),
            new: bits(1),
            atomic: bits(1),
            psn: bits(24),
            syndrome: bits(8),
            msn: bits(24),
            first: bits(1),
            last: bits(1),
            bytes: bits(13),
            loops: bits(1),
        };
        let mut bench = Bench {
            sim,
            sources: [Source::new("wake", &Wake::of(&cfg))],
            sinks: [
                Sink::new(
                    "candidate",
                    &Candidate { about, va: bits(64), crosses: bits(1), rkey: bits(32), pd: bits(24) },
                ),
                Sink::new("operand", &Operands::of()),
                Sink::new("charge", &Charge::of(&cfg)),
            ],
            random: Random::new(seed),
            tails: [0, 1, 2, 3],
            finished: [0; 4],
            runs: [None; 4],
            next: 4,
        };
        // Sweeping, and the attributes: MTU 256, 512, 1,024, 4,096.
        bench.steps(8, 0.0);
        for (qp, mtu) in [1, 2, 3, 5].into_iter().enumerate() {
            bench.sim.set("broadcast_attributes_enable", 1);
            bench.sim.set("broadcast_attributes_index", qp as u64);
            bench.sim.set("broadcast_attributes_entry_mtu", mtu);
            bench.sim.set("broadcast_attributes_entry_pd", 70 + qp as u64);
            bench.sim.set("broadcast_attributes_entry_priority", 2 * qp as u64);
            bench.front(qp);
            bench.sim.set("broadcast_attributes_enable", 0);
        }
        bench
    }

    fn steps(&mut self, n: u64, stall: f64) {
        for _ in 0..n {
            step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, stall);
        }
    }

    /// Writes a QP's front, with what else is to be written in this cycle.
    fn front(&mut self, qp: usize) {
        self.sim.set("front_enable", 1);
        self.sim.set("front_index", qp as u64);
        self.sim.set("front_entry_tail", self.tails[qp]);
        self.sim.set("front_entry_finished", self.finished[qp] % 256);
        self.sim.set("front_entry_since", self.runs[qp].unwrap_or(0) % 256);
        self.sim.set("front_entry_whole", self.runs[qp].is_some().into());
        self.steps(1, 0.0);
        self.sim.set("front_enable", 0);
    }

    /// Holds back a QP, or lets it go.
    fn gate(&mut self, qp: u64, shut: bool) {
        for (name, value) in [("enable", 1), ("index", qp), ("entry_shut", shut.into())] {
            self.sim.set(&format!("gate_{name}"), value);
        }
        self.steps(1, 0.0);
        self.sim.set("gate_enable", 0);
    }

    fn append(&mut self, qp: usize, fields: &[(&str, u64)]) {
        let entry =
            ["atomic", "again", "psn", "va", "rkey", "swap", "compare", "compares", "msn", "syndrome"];
        for name in entry {
            let value = fields.iter().find(|f| f.0 == name).map_or(0, |f| f.1);
            self.sim.set(&format!("pool_entry_{name}"), value);
        }
        self.sim.set("pool_index", self.tails[qp]);
        self.sim.set("links_index", self.tails[qp]);
        self.tails[qp] = self.next;
        // Those of the QPs' first entries are not used again.
        self.next = if self.next == 255 { 4 } else { self.next + 1 };
        self.sim.set("links_entry", self.tails[qp]);
        self.sim.set("pool_enable", 1);
        self.sim.set("links_enable", 1);
        self.sources[0].push_values(&[("qp", qp as u128), ("new", 1)]);
        self.front(qp);
        self.sim.set("pool_enable", 0);
        self.sim.set("links_enable", 0);
    }

    fn field(&self, name: &str) -> Vec<u64> {
        self.sinks[0].values(name)
    }
}

#[test]
fn a_read_becomes_packets_of_the_path_mtu_wherever_it_ends() {
    for (qp, mtu) in [256, 512, 1024, 4096].into_iter().enumerate() {
        for length in [0, 1, mtu - 1, mtu, mtu + 1, 700 * mtu, 700 * mtu + 17] {
            let mut bench = Bench::new(1);
            let (va, psn) = (0xffff_ffff_0000_1234, 0xff_ff00);
            bench.append(qp, &[("psn", psn), ("va", va), ("swap", length), ("rkey", 5)]);
            let count = length.div_ceil(mtu).max(1);
            bench.steps(20 + 5 * count, if length > 100 * mtu { 0.0 } else { 0.3 });
            let expected: Vec<(u64, u64, u64)> = (0..count)
                .map(|i| (va + i * mtu, (psn + i) % (1 << 24), mtu.min(length - i * mtu)))
                .collect();
            let got =
                bench.field("va").into_iter().zip(bench.field("about_psn")).zip(bench.field("about_bytes"));
            let got: Vec<(u64, u64, u64)> = got.map(|((va, psn), bytes)| (va, psn, bytes)).collect();
            assert_eq!(got, expected, "{length} bytes, MTU {mtu}");
            let flags = bench.field("about_first").into_iter().zip(bench.field("about_closes"));
            let only = |i| (u64::from(i == 0), u64::from(i + 1 == count));
            assert!(flags.eq((0..count).map(only)), "{length} bytes, MTU {mtu}");
            assert_eq!(bench.field("pd")[0], 70 + qp as u64);
        }
    }
}

#[test]
fn opcodes_follow_from_first_and_last() {
    for (length, opcodes) in [
        (700, vec![Opcode::RcReadResponseFirst, Opcode::RcReadResponseMiddle, Opcode::RcReadResponseLast]),
        (256, vec![Opcode::RcReadResponseOnly]),
    ] {
        let mut bench = Bench::new(2);
        bench.append(0, &[("swap", length)]);
        let mut seen = Vec::new();
        for _ in 0..30 {
            let before = bench.sinks[0].items.len();
            bench.steps(1, 0.0);
            if bench.sinks[0].items.len() > before {
                seen.push(bench.sim.get("opcode"));
            }
        }
        assert_eq!(seen, opcodes.iter().map(|o| u64::from(o.code())).collect::<Vec<_>>());
    }
}

#[test]
fn queue_pairs_take_turns_packet_by_packet_at_three_cycles_each() {
    for (beat_bytes, cycles) in [(64, 3), (8, 4)] {
        let mut bench = Bench::of(beat_bytes, 3);
        for qp in [0, 2, 3] {
            // The longest READ that there is.
            bench.append(qp, &[("swap", 1 << 31)]);
        }
        bench.steps(100 * cycles, 0.0);
        let order = &bench.field("about_qp")[6..];
        assert!(
            order.len() > 80 && order.windows(4).all(|w| w[0] == w[3] && w[0] != w[1] && w[1] != w[2]),
            "{order:?}"
        );
        let went = &bench.sinks[0].cycles[6..];
        assert!(went.windows(2).all(|w| w[1] - w[0] == cycles), "{went:?}");
    }
}

#[test]
fn a_read_waits_for_the_atomic_before_it_and_keeps_nobody_else() {
    let mut bench = Bench::new(4);
    let atomic = [("atomic", 1), ("swap", 7), ("compare", 8), ("compares", 1), ("psn", 1)];
    bench.append(1, &[("swap", 10)]);
    bench.append(1, &atomic);
    bench.append(1, &[("swap", 10), ("psn", 2)]);
    bench.append(2, &[("swap", 10), ("psn", 99)]);
    bench.steps(40, 0.0);
    assert_eq!(bench.field("about_psn"), [0, 1, 99]);
    let operands = |f| bench.sinks[1].values(f);
    assert_eq!((operands("swap"), operands("compare"), operands("compares")), (vec![7], vec![8], vec![1]));
    // Without a wake nothing happens, and a wake is not enough.
    bench.finished[1] = 1;
    bench.front(1);
    bench.sources[0].push_values(&[("qp", 1)]);
    bench.steps(20, 0.0);
    assert_eq!(bench.field("about_psn").len(), 3);
    bench.finished[1] = 2;
    bench.front(1);
    bench.sources[0].push_values(&[("qp", 1)]);
    bench.steps(20, 0.0);
    assert_eq!(bench.field("about_psn"), [0, 1, 99, 2]);
    // It waited once: what follows does not.
    bench.append(1, &[("swap", 10), ("psn", 3)]);
    bench.steps(20, 0.0);
    assert_eq!(bench.field("about_psn").len(), 5);
}

#[test]
fn what_has_failed_or_ends_is_dropped_an_entry_a_turn_and_the_end_comes_last() {
    let mut bench = Bench::new(5);
    bench.append(0, &[("swap", 1 << 31)]);
    bench.append(0, &[("atomic", 1)]);
    bench.append(0, &[("swap", 1000), ("again", 1)]);
    bench.steps(100, 0.0);
    for (name, value) in [("enable", 1), ("index", 0), ("entry", 1)] {
        bench.sim.set(&format!("failed_{name}"), value);
    }
    bench.steps(1, 0.0);
    bench.sim.set("failed_enable", 0);
    bench.steps(30, 0.0);
    let work = |bench: &Bench, n: usize| {
        let all = bench.field("about_work");
        all[all.len() - n..].to_vec()
    };
    let code = |w: Work| u64::from(w.code());
    assert_eq!(work(&bench, 4), [Work::Read, Work::Drop, Work::Drop, Work::Drop].map(code));
    assert_eq!(bench.field("about_new").last(), Some(&0), "a repetition");
    assert!(bench.sinks[1].items.is_empty(), "an atomic that is dropped has no operands");
    bench.append(0, &[("swap", 1)]);
    bench.sources[0].push_values(&[("qp", 0), ("end", 1)]);
    bench.sources[0].push_values(&[("qp", 3), ("end", 1)]);
    bench.steps(30, 0.0);
    let ends: Vec<(u64, u64)> = bench.field("about_qp").into_iter().zip(bench.field("about_work")).collect();
    assert!(ends.contains(&(0, code(Work::End))) && ends.contains(&(3, code(Work::End))), "{ends:?}");
    assert_eq!(ends.iter().filter(|e| e.1 == code(Work::End)).count(), 2);
    assert_eq!(ends.iter().filter(|e| e.1 == code(Work::Drop)).count(), 4);
}

#[test]
fn reads_of_a_priority_that_stands_still_wait_without_a_wake_and_others_go_on() {
    let mut bench = Bench::new(6);
    for qp in [0, 2, 3] {
        bench.append(qp, &[("swap", 1 << 31)]);
    }
    let went = |bench: &mut Bench, n: u64| {
        let before = bench.sinks[0].items.len();
        bench.steps(n, 0.0);
        let of = bench.field("about_qp")[before..].to_vec();
        [0, 2, 3].map(|qp| of.iter().filter(|q| **q == qp).count())
    };
    let [a, b, c] = went(&mut bench, 400);
    assert!(a > 25 && b > 25 && c > 25, "{a} {b} {c}");
    // QP 2's: its turns cost the others as many cycles.
    bench.sim.set("paused", 1 << 4 | 1 << 5);
    bench.steps(10, 0.0);
    let [a, b, c] = went(&mut bench, 400);
    assert!(a > 30 && b == 0 && c > 30, "{a} {b} {c}");
    // One alone, which waits with its atomic behind it.
    bench.sim.set("paused", 0xff);
    bench.steps(10, 0.0);
    bench.append(1, &[("swap", 10), ("psn", 5)]);
    bench.append(1, &[("atomic", 1), ("psn", 6)]);
    assert_eq!(went(&mut bench, 100), [0, 0, 0]);
    assert!(!bench.field("about_qp").contains(&1));
    bench.sim.set("paused", 0);
    let [a, b, c] = went(&mut bench, 400);
    assert!(a > 25 && b > 25 && c > 25, "{a} {b} {c}");
    let psns = bench.field("about_psn").into_iter().zip(bench.field("about_qp"));
    assert_eq!(psns.filter(|(_, qp)| *qp == 1).map(|(psn, _)| psn).collect::<Vec<_>>(), [5, 6]);
    // No packet was left out.
    let of_two = bench.field("about_psn").into_iter().zip(bench.field("about_qp")).filter(|(_, qp)| *qp == 2);
    assert!(of_two.enumerate().all(|(i, (psn, _))| psn == i as u64));
}

#[test]
fn reads_of_a_queue_pair_that_is_held_back_wait_for_their_gate_and_cost_others_nothing() {
    let mut bench = Bench::new(7);
    for qp in [0, 2, 3] {
        bench.append(qp, &[("swap", 1 << 31)]);
    }
    bench.steps(100, 0.0);
    bench.gate(2, true);
    bench.steps(10, 0.0);
    let from = bench.sinks[0].items.len();
    bench.steps(300, 0.0);
    let order = bench.field("about_qp")[from..].to_vec();
    assert!(order.len() >= 99 && order.windows(2).all(|w| w[0] != w[1] && w[0] != 2), "{order:?}");
    // A wake does not let it go, nor the gate of another; an atomic behind it waits for its turn, one alone for nothing.
    bench.append(2, &[("atomic", 1), ("psn", 5)]);
    bench.gate(1, true);
    bench.append(1, &[("atomic", 1), ("psn", 6)]);
    bench.append(1, &[("swap", 10), ("psn", 7)]);
    bench.finished[1] = 1;
    bench.front(1);
    bench.sources[0].push_values(&[("qp", 1)]);
    bench.gate(3, false);
    let from = bench.sinks[0].items.len();
    bench.steps(100, 0.0);
    let order = bench.field("about_qp")[from..].to_vec();
    assert!(!order.contains(&2) && order.iter().filter(|qp| **qp == 1).count() <= 1, "{order:?}");
    assert!(bench.field("about_psn").contains(&6) && !bench.field("about_qp")[..from].contains(&1));
    // It opens, without a wake of its own.
    bench.gate(2, false);
    bench.gate(1, false);
    bench.steps(20, 0.0);
    let from = bench.sinks[0].items.len();
    assert_eq!(bench.field("about_psn").iter().zip(bench.field("about_qp")).filter(|p| p.1 == 1).count(), 2);
    bench.steps(300, 0.0);
    let order = &bench.field("about_qp")[from..];
    assert!(order.len() >= 99 && order.windows(4).all(|w| w[0] == w[3] && w[0] != w[1] && w[1] != w[2]));
}

#[test]
fn one_that_fails_or_ends_while_it_is_held_back_is_done_with() {
    let mut bench = Bench::new(8);
    bench.gate(0, true);
    bench.append(0, &[("swap", 1 << 31)]);
    bench.append(0, &[("swap", 1000)]);
    bench.steps(30, 0.0);
    assert!(bench.sinks[0].items.is_empty());
    bench.sources[0].push_values(&[("qp", 0), ("end", 1)]);
    bench.steps(30, 0.0);
    assert_eq!(bench.field("about_work"), [Work::Drop, Work::Drop, Work::End].map(|w| w.code().into()));
    assert!(bench.sinks[2].items.is_empty(), "what is dropped is not charged");
}

/// A repetition with this number, which begins a run.
fn begin_run(bench: &mut Bench, qp: usize, since: u64, fields: &[(&str, u64)]) {
    bench.runs[qp] = Some(since);
    let psn = fields.iter().find(|f| f.0 == "psn").unwrap().1;
    for (name, value) in [("enable", 1), ("index", qp as u64), ("entry", psn)] {
        bench.sim.set(&format!("start_{name}"), value);
    }
    bench.append(qp, &[fields, &[("again", 1)]].concat());
    bench.sim.set("start_enable", 0);
}

#[test]
fn a_read_that_is_asked_for_once_more_is_dropped_where_the_repetition_goes_on_and_no_other() {
    for (seed, first) in [(12, 5), (13, 0xff_fff0)] {
        let psn = |n: u64| (first + n) % (1 << 24);
        let mut bench = Bench::new(seed);
        // Entries before, so that numbers go round; the third from the end is an atomic.
        for _ in 0..254 {
            bench.append(0, &[("swap", 1)]);
            bench.steps(8, 0.0);
        }
        bench.finished[0] = 254;
        bench.append(0, &[("psn", psn(0)), ("swap", 20 * 256)]);
        bench.append(0, &[("psn", psn(20)), ("swap", 256)]);
        bench.append(0, &[("psn", psn(21)), ("atomic", 1)]);
        bench.gate(0, true);
        bench.steps(20, 0.0);
        let cut = bench.field("about_psn").len() as u64 - 254;
        assert!((1..12).contains(&cut), "{cut}");
        bench.sinks.iter_mut().for_each(|sink| sink.items.clear());
        // From where it has not come yet: nothing happens while it is held back, and it goes on as far as that.
        begin_run(&mut bench, 0, 257, &[("psn", psn(14)), ("swap", 6 * 256)]);
        bench.steps(30, 0.0);
        assert!(bench.sinks[0].items.is_empty());
        bench.gate(0, false);
        bench.steps(400, 0.2);
        let code = |w: Work| u64::from(w.code());
        let mut expected: Vec<(u64, u64, u64)> = (cut..14).map(|n| (code(Work::Read), psn(n), 1)).collect();
        // The rest of it, and what was asked for behind it. The atomic is not a READ: it is executed.
        expected.extend([(code(Work::Drop), psn(14), 1), (code(Work::Drop), psn(20), 1)]);
        expected.push((code(Work::Atomic), psn(21), 1));
        // A READ waits for the atomic.
        let got = |bench: &Bench| -> Vec<(u64, u64, u64)> {
            let (work, psns, new) =
                (bench.field("about_work"), bench.field("about_psn"), bench.field("about_new"));
            work.into_iter().zip(psns).zip(new).map(|((w, p), n)| (w, p, n)).collect()
        };
        assert_eq!(got(&bench), expected);
        bench.finished[0] = 257;
        bench.front(0);
        bench.sources[0].push_values(&[("qp", 0)]);
        bench.steps(60, 0.0);
        // The repetition itself comes whole.
        expected.extend((14..20).map(|n| (code(Work::Read), psn(n), 0)));
        assert_eq!(got(&bench), expected);
        let closes = bench.field("about_closes");
        assert_eq!(closes.iter().sum::<u64>(), 4, "each entry is closed once: {closes:?}");
    }
}

#[test]
fn a_repetition_takes_the_place_of_one_that_is_held_back() {
    let mut bench = Bench::new(14);
    bench.append(2, &[("psn", 100), ("swap", 50 << 10)]);
    bench.steps(30, 0.0);
    bench.gate(2, true);
    bench.steps(20, 0.0);
    let cut = bench.field("about_psn").len();
    for again in 1..=5 {
        begin_run(&mut bench, 2, again, &[("psn", 102), ("swap", 48 << 10)]);
        bench.steps(20, 0.0);
        // Whatever is before is done with, without a charge.
        let drops = bench.field("about_work")[cut..].to_vec();
        assert_eq!(drops, vec![u64::from(Work::Drop.code()); again as usize]);
        assert_eq!(bench.sinks[2].items.len(), cut);
    }
    bench.gate(2, false);
    bench.steps(300, 0.0);
    assert_eq!(bench.field("about_psn")[cut + 5..], (102..150).collect::<Vec<u64>>());
}

#[test]
fn every_packet_is_charged_and_no_more_are_cut_than_the_gate_takes_to_shut() {
    for (seed, stall) in [(9, 0.0), (10, 0.3), (11, 0.6)] {
        let mut bench = Bench::new(seed);
        let all = [3, 2, 1, 0].map(|qp| (qp, 256u64 << [0, 1, 2, 4][qp]));
        for (qp, mtu) in all {
            bench.append(qp, &[("swap", 40 * mtu + 17)]);
        }
        let mut shut = [false; 4];
        let mut since = [0; 4];
        for _ in 0..400 {
            let qp = bench.random.rng.random_range(0..4);
            shut[qp] = !shut[qp];
            bench.gate(qp as u64, shut[qp]);
            since[qp] = bench.sim.cycles();
            let steps = bench.random.rng.random_range(6..12);
            bench.steps(steps, stall);
            // The turn that had begun may stand at the output for long.
            let (of, at) = (bench.field("about_qp"), &bench.sinks[0].cycles);
            let late = (0..4).filter(|qp| shut[*qp]).map(|qp| {
                of.iter().zip(at).filter(|(of, at)| **of == qp as u64 && **at > since[qp] + 1).count()
            });
            assert!(late.max().unwrap_or(0) <= 2, "seed {seed}");
        }
        (0..4).for_each(|qp| bench.gate(qp, false));
        bench.steps(3000, stall);
        for (qp, mtu) in all {
            let is = |of: &u64| *of == qp as u64;
            let cut: Vec<u64> = bench
                .field("about_qp")
                .iter()
                .zip(bench.field("about_bytes"))
                .filter(|p| is(p.0))
                .map(|p| p.1)
                .collect();
            let charged = bench.sinks[2].values("qp").into_iter().zip(bench.sinks[2].values("bytes"));
            let charged: Vec<u64> = charged.filter(|p| is(&p.0)).map(|p| p.1).collect();
            assert_eq!(cut, charged, "seed {seed}");
            assert_eq!((cut.len(), cut.iter().sum::<u64>()), (41, 40 * mtu + 17), "seed {seed}");
        }
    }
}

/// A wake may be looked at while the last cycle of a turn waits for room: it is that QP which enters the line, and not the one that has the turn.
#[test]
fn who_is_woken_while_a_turn_waits_for_room_has_a_turn() {
    for seed in [16, 17, 18, 19] {
        let mut bench = Bench::new(seed);
        let mut appended = [0u64; 4];
        bench.sinks[0].stall = Some([0.0, 0.8][seed as usize / 2 % 2]);
        for _ in 0..3_000 {
            let qp = bench.random.rng.random_range(0..4usize);
            let room = appended.iter().sum::<u64>() < bench.sinks[0].items.len() as u64 + 40;
            if room && bench.random.chance(0.25) {
                bench.append(qp, &[("psn", appended[qp]), ("swap", 1)]);
                appended[qp] += 1;
            } else {
                bench.steps(1, 0.0);
            }
        }
        bench.sinks[0].stall = None;
        bench.steps(400, 0.0);
        let all: Vec<(u64, u64)> =
            bench.field("about_qp").into_iter().zip(bench.field("about_psn")).collect();
        for qp in 0..4 {
            let psns = all.iter().filter(|one| one.0 == qp).map(|one| one.1);
            assert!(psns.eq(0..appended[qp as usize]), "seed {seed}: an entry is missing, or comes twice");
        }
    }
}

#[test]
fn who_is_woken_in_any_cycle_of_its_last_turn_or_behind_it_has_another() {
    for (seed, gap) in [20, 21].into_iter().flat_map(|seed| (0..16).map(move |gap| (seed, gap))) {
        let mut bench = Bench::new(seed);
        for psn in 0..8 {
            bench.append(2, &[("psn", psn), ("swap", 1)]);
            bench.steps(gap, 0.0);
        }
        bench.steps(80, 0.0);
        assert_eq!(bench.field("about_psn"), (0..8).collect::<Vec<_>>(), "seed {seed}, gap {gap}");
    }
}
