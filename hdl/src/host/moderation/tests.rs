// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use ferrowire_rtl::{build, Sim};
use ferrowire_testing::Random;
use rand::Rng;

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    cycle: u64,
}

fn bench(beat_bytes: u32, clock_khz: u32) -> Bench {
    let cfg = RnicConfig { beat_bytes, clock_khz, ..RnicConfig::named("generic-8b").unwrap() };
    let waits = TableWrite { enable: bits(1), index: bits(cfg.cq_bits()), entry: bits(1) };
    let netlist = build("top", |m| {
        let (limits, waits) = (m.input_of("limits", &CqLimits::write_of(&cfg)), m.input_of("waits", &waits));
        let out = moderation(m, &cfg, limits, waits);
        m.stream_out("looks", out.looks);
        m.output("changing", &m.delay("changing", &out.changing));
    });
    let mut sim = Sim::new(&netlist.unwrap_or_else(|errors| panic!("{errors}")));
    sim.reset();
    // The marks are taken back.
    (0..cfg.cqs).for_each(|_| sim.tick());
    Bench { cfg, sim, cycle: 0 }
}

impl Bench {
    fn tick(&mut self) {
        self.sim.tick();
        self.cycle += 1;
        self.sim.set("waits_enable", 0);
        self.sim.set("limits_enable", 0);
    }

    /// In this cycle.
    fn waits(&mut self, cq: usize, waits: bool) {
        self.sim.set("waits_enable", 1);
        self.sim.set("waits_index", cq as u64);
        self.sim.set("waits_entry", waits.into());
    }

    fn limit(&mut self, cq: usize, period_us: u64) {
        self.sim.set("limits_enable", 1);
        self.sim.set("limits_index", cq as u64);
        self.sim.set("limits_entry_period_us", period_us);
    }

    /// What is taken in this cycle: the CQ, and whether it is late.
    fn taken(&mut self) -> Option<(usize, bool)> {
        let sim = &mut self.sim;
        let offered = sim.get("looks_valid") == 1 && sim.get("looks_ready") == 1;
        offered.then(|| (sim.get("looks_row") as usize, sim.get("looks_flags") == 1))
    }
}

/// A writer that says, when it is asked, that nothing waits any more, or what it pleases at other times.
#[test]
fn one_that_waits_is_late_at_the_end_of_its_period_and_no_other_is() {
    for (beat_bytes, clock_khz) in [(8, 4_000), (64, 7_500)] {
        let mut bench = bench(beat_bytes, clock_khz);
        let mut random = Random::new(21);
        let cqs = bench.cfg.cqs as usize;
        let cycles_us = u64::from(clock_khz.div_ceil(1000));
        let mut periods = vec![0; cqs];
        // Since when each waits, and what is left to be looked at.
        let mut since: Vec<Option<u64>> = vec![None; cqs];
        let (mut late, mut early, mut changed) = (0, u64::MAX, None);
        // What the writer says of those that it has taken.
        let mut answers: Vec<(u64, usize)> = Vec::new();
        let mut said = vec![0; cqs];
        bench.sim.set("looks_ready", 1);
        for _ in 0..200_000 {
            let now = bench.cycle;
            match bench.taken() {
                Some((cq, false)) => assert_eq!(changed.take(), Some(cq), "seed {}", random.seed),
                Some((cq, true)) => {
                    let asked = answers.iter().any(|(_, other)| *other == cq);
                    let passed = since[cq].map(|since| now - since);
                    if passed.is_none() {
                        // It was on offer when the writer spoke of it.
                        assert!(now - said[cq] < 2, "seed {}: CQ {cq} does not wait", random.seed);
                    }
                    // Until the writer has answered it may be asked again.
                    if let (Some(passed), false) = (passed, asked) {
                        let over = passed.saturating_sub(periods[cq] * cycles_us);
                        let least = (periods[cq] * cycles_us).saturating_sub(cycles_us);
                        assert!(passed >= least, "seed {}: CQ {cq} after {passed} cycles", random.seed);
                        (late, early) = (late.max(over), early.min(passed - least));
                        answers.push((now + random.rng.random_range(1..4), cq));
                    }
                }
                None => {}
            }
            // One thing a cycle, as the writer and the command processor do.
            if let Some(i) = answers.iter().position(|(when, _)| *when <= now) {
                let (_, cq) = answers.swap_remove(i);
                bench.waits(cq, false);
                (since[cq], said[cq]) = (None, now);
            } else if random.chance(0.02) {
                let cq = random.rng.random_range(0..cqs);
                let asked = answers.iter().any(|(_, other)| *other == cq);
                if !asked {
                    let waits = since[cq].is_none();
                    bench.waits(cq, waits);
                    (since[cq], said[cq]) = (waits.then_some(now), now);
                }
            } else if changed.is_none() && random.chance(0.01) {
                let cq = random.rng.random_range(0..cqs);
                if since[cq].is_none() {
                    periods[cq] = random.rng.random_range(1..200);
                    bench.limit(cq, periods[cq]);
                    changed = Some(cq);
                }
            }
            bench.tick();
            // None waits for longer than its period, a sweep, and the others that are late.
            let most = 3 * cqs as u64 + 10;
            for (cq, since) in since.iter().enumerate() {
                let asked = answers.iter().any(|(_, other)| *other == cq);
                let passed = since.map_or(0, |since| bench.cycle - since);
                let due = periods[cq] * cycles_us + most;
                assert!(asked || passed <= due, "seed {}: CQ {cq} waits {passed} of {due}", random.seed);
            }
        }
        assert!(late > 2 && early < cycles_us, "seed {}: late by {late}, early by {early}", random.seed);
    }
}

#[test]
fn one_that_is_late_stays_on_offer_until_nothing_waits() {
    let mut bench = bench(64, 4_000);
    let cqs = u64::from(bench.cfg.cqs);
    bench.limit(3, 10);
    bench.tick();
    // The change is asked about once, and says so until then.
    let mut held = 0;
    for _ in 0..20 {
        held += bench.sim.get("changing");
        assert_eq!((bench.sim.get("looks_valid"), bench.sim.get("looks_flags")), (1, 0));
        bench.tick();
    }
    assert!(held >= 19);
    bench.sim.set("looks_ready", 1);
    bench.tick();
    bench.sim.set("looks_ready", 0);
    bench.tick();
    assert_eq!((bench.sim.get("looks_valid"), bench.sim.get("changing")), (0, 0));
    bench.waits(3, true);
    (0..40 + cqs + 4).for_each(|_| bench.tick());
    for _ in 0..3 {
        assert_eq!((bench.sim.get("looks_valid"), bench.sim.get("looks_row")), (1, 3));
        assert_eq!(bench.sim.get("looks_flags"), 1);
        bench.tick();
    }
    // Taken, but nothing is said of it: it comes again.
    bench.sim.set("looks_ready", 1);
    bench.tick();
    bench.sim.set("looks_ready", 0);
    (0..cqs + 4).for_each(|_| bench.tick());
    assert_eq!((bench.sim.get("looks_valid"), bench.sim.get("looks_row")), (1, 3));
    // A new life: taken back while it is on offer, and it does not come again.
    bench.waits(3, false);
    bench.tick();
    bench.tick();
    for _ in 0..1000 {
        assert_eq!(bench.sim.get("looks_valid"), 0);
        bench.tick();
    }
}

#[test]
fn a_period_that_is_over_when_new_limits_come_stays_over_and_the_next_one_is_the_new() {
    for beat_bytes in [8, 64] {
        let mut bench = bench(beat_bytes, 4_000);
        let cqs = u64::from(bench.cfg.cqs);
        let ready = |bench: &mut Bench, ready: u64| bench.sim.set("looks_ready", ready);
        bench.limit(3, 10);
        bench.tick();
        ready(&mut bench, 1);
        bench.tick();
        ready(&mut bench, 0);
        bench.waits(3, true);
        (0..40 + cqs + 4).for_each(|_| bench.tick());
        assert_eq!(bench.sim.get("looks_flags"), 1);
        // It is on offer when a longer period comes. The writer looks at the new limits, and then at the time that was over before.
        bench.limit(3, 500);
        bench.tick();
        ready(&mut bench, 1);
        assert_eq!(bench.taken(), Some((3, false)));
        bench.tick();
        assert_eq!(bench.taken(), Some((3, true)));
        bench.tick();
        // It has told. What begins to wait now has the new period, as has what goes on waiting.
        bench.waits(3, false);
        bench.tick();
        bench.waits(3, true);
        let since = bench.cycle;
        bench.tick();
        let late = (0..5000).find_map(|_| {
            let taken = bench.taken();
            bench.tick();
            taken.map(|taken| (taken, bench.cycle - since))
        });
        let (taken, after) = late.unwrap();
        assert_eq!(taken, (3, true));
        assert!((499 * 4..=500 * 4 + cqs + 4).contains(&after), "after {after} cycles");
        // One that has not been found late before the limits change.
        bench.waits(3, false);
        bench.tick();
        bench.waits(3, true);
        let since = bench.cycle;
        (0..499 * 4 - 8).for_each(|_| {
            bench.tick();
            assert_eq!(bench.taken(), None);
        });
        bench.limit(3, 700);
        bench.tick();
        assert_eq!(bench.taken(), Some((3, false)));
        bench.tick();
        while bench.taken().is_none() {
            bench.tick();
        }
        let after = bench.cycle - since;
        assert!((699 * 4..=700 * 4 + cqs + 4).contains(&after), "after {after} cycles");
    }
}

#[test]
fn reset_takes_every_mark_back() {
    let mut bench = bench(8, 4_000);
    for cq in 0..bench.cfg.cqs as usize {
        bench.limit(cq, 50);
        bench.sim.set("looks_ready", 1);
        bench.waits(cq, true);
        bench.tick();
        bench.tick();
    }
    bench.sim.set("looks_ready", 0);
    bench.sim.reset();
    for _ in 0..2000 {
        assert_eq!(bench.sim.get("looks_valid"), 0);
        bench.tick();
    }
}
