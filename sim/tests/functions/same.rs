// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nobody asks for what is not there.

use crate::tier::number;
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::bus::World;
use ferrowire_sim::host::Access;
use ferrowire_sim::soak::card::CardEnd;
use ferrowire_sim::soak::ends::End;
use ferrowire_sim::soak::network::{Counts, Watch};
use ferrowire_sim::soak::program::{is_atomic, Program};
use ferrowire_sim::soak::run::Play;
use ferrowire_sim::soak::{limits, run_program, Case, Mode, Tally};
use ferrowire_sim::wire::SentFrame;

use super::{full, model, small};

/// Cycles that a test gives for opening a card, with a host that answers at once. A card without IPv6 is opened in fewer steps and waits for
/// the rest, so all that follows happens in the same cycle with both cards.
const OPENING: u64 = 4_000;

/// Share of the line's rate that copies of frames leave to the ends, as in the soak.
const SHARE: f64 = 0.75;

/// All that two cards did from the beginning of a program on, in which cycles.
struct Life {
    frames: [Vec<SentFrame>; 2],
    /// Reads and writes of host memory: completions, answers of commands, payload.
    accesses: [Vec<Access>; 2],
    completions: u64,
    tally: Tally,
    counts: Counts,
    cycles: u64,
}

/// A random program of RC without atomics, on a random wire.
fn rc_program(seed: u64, mode: Mode) -> Program {
    let mut limits = limits("generic-8b", mode).unwrap();
    limits.verbs.iter_mut().for_each(|verbs| verbs.retain(|verb| !is_atomic(*verb)));
    (limits.quiet, limits.windows, limits.raw) = (0, 0, false);
    let mut program = Program::of(seed, &limits);
    program.lanes.retain(|lane| !lane.room.shared);
    program.ipv6 = false;
    program
}

/// Plays it on two cards.
fn play(config: &RnicConfig, program: &Program, seed: u64) -> Life {
    let model = model(config).with_random_host(seed);
    let world = World::pair(&model, program.host_latency, program.wire_latency).unwrap().share();
    let opening = OPENING + 10 * program.host_latency;
    let open = |side: usize| {
        let end = CardEnd::open(&world, side, side, seed, program.tick).unwrap();
        if let Some(marks) = program.marks {
            let line = SHARE * f64::from(config.beat_bytes) * 8e-3 * f64::from(config.clock_khz);
            end.slow_down(line as u32, marks.slowest).unwrap();
        }
        let mut world = world.lock();
        let left = (opening * (1 + side as u64)).checked_sub(world.cycle());
        world.run(left.expect("it is open by now"));
        Box::new(end) as Box<dyn End>
    };
    let mut ends = [open(0), open(1)];
    let watch = Watch::default();
    if model.has_pcie() || model.has_axi() {
        watch.lock().allow_late_reads();
    }
    {
        let mut world = world.lock();
        world.set_line_share(SHARE);
        for side in 0..2 {
            let marks = program.marks.map_or(0.0, |marks| marks.shares[side]);
            let (faults, seed) = (program.faults[side], program.fault_seeds[side]);
            let filter = watch.filter(side, faults, marks, seed, program.patience() / 2);
            world.link_mut(side).set_timed_filter(Some(filter));
            world.link_mut(side).keep_frames(true);
            world.card_mut(side).host_mut().keep_accesses(true);
        }
    }
    let mut play = Play::new(program, &mut ends, seed, &watch).unwrap();
    let (patience, mut stride) = (64 * program.timeout() + 500_000, 0);
    let limit = 8 * patience;
    while !play.is_over() {
        play.step().unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
        stride = (stride * 31 + 17) % 160;
        let mut world = world.lock();
        world.run(1 + stride);
        world.check().unwrap();
        assert!(world.cycle() < limit, "seed {seed}: {}", play.waits());
    }
    {
        let mut world = world.lock();
        assert!(world.run_until(patience, |world| (0..2).all(|link| world.link(link).idle())));
        world.run(2_000);
        world.check().unwrap();
    }
    // Every byte of both memories is as plain Rust says.
    play.finish().unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
    let (completions, tally) = (play.completions, play.tally.clone());
    let seen = watch.lock();
    assert_eq!(seen.offence, None, "seed {seed}");
    let mut world = world.lock();
    Life {
        frames: [0, 1].map(|link| world.link_mut(link).take_frames()),
        accesses: [0, 1].map(|card| world.card_mut(card).host_mut().take_accesses()),
        completions,
        tally,
        counts: seen.counts,
        cycles: world.cycle(),
    }
}

/// What a card did, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed<'a> {
    Frame(&'a SentFrame),
    Access(&'a Access),
}

impl Life {
    /// All that a side did, in the order of the cycles in which it began.
    fn deeds(&self, side: usize) -> Vec<(u64, Deed<'_>)> {
        let frames = self.frames[side].iter().map(|frame| (frame.first, Deed::Frame(frame)));
        let accesses = self.accesses[side].iter().map(|access| (access.cycle, Deed::Access(access)));
        let mut all: Vec<_> = frames.chain(accesses).collect();
        all.sort_by_key(|(cycle, _)| *cycle);
        all
    }
}

/// The first cycle in which a side of both did something else, and what.
fn difference(one: &Life, other: &Life) -> Option<(u64, String)> {
    let first = |side: usize| {
        let (one, other) = (one.deeds(side), other.deeds(side));
        let at = (0..one.len().max(other.len())).find(|at| one.get(*at) != other.get(*at))?;
        let (one, other) = (one.get(at), other.get(at));
        let cycle = [one, other].into_iter().flatten().map(|(cycle, _)| *cycle).min();
        let text = format!("side {side}, {at} deeds later: {one:x?}\nand\n{other:x?}");
        cycle.map(|cycle| (cycle, text))
    };
    (0..2).filter_map(first).min_by_key(|(cycle, _)| *cycle)
}

/// Every frame and every access to host memory, with their cycles: so every completion too. What happens to the queue pairs is of all kinds: loss,
/// copies, mistakes, refusals, late receives, SQD, ERR, RESET, queue pairs that come and go.
#[test]
fn a_card_without_functions_is_cycle_for_cycle_the_card_with_them_where_nobody_asks_for_them() {
    let given = std::env::var("FERROWIRE_SEED").ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds: Vec<u64> = given.map_or_else(|| (1..=number(3, 6)).collect(), |seed| vec![seed]);
    let (mut all, mut counts, mut both) = (Tally::new(), Counts::default(), 0);
    for seed in seeds {
        println!("seed {seed}: FERROWIRE_SEED={seed} repeats this run");
        let program = rc_program(seed, Mode::RtlRtl);
        let [full, small] = [full(), small()].map(|config| play(&config, &program, seed));
        if let Some((cycle, what)) = difference(&full, &small) {
            panic!("seed {seed}: other things happen from cycle {cycle} on: {what}");
        }
        assert!((0..2).all(|side| !full.frames[side].is_empty() && !full.accesses[side].is_empty()));
        assert_eq!(
            (full.completions, &full.tally, full.counts, full.cycles),
            (small.completions, &small.tally, small.counts, small.cycles),
            "seed {seed}"
        );
        full.tally.into_iter().for_each(|(what, n)| *all.entry(what).or_default() += n);
        counts += full.counts;
        let asks = |side: usize| {
            program.lanes.iter().flat_map(|lane| &lane.lives).any(|life| !life.work[side].is_empty())
        };
        both += u64::from(asks(0) && asks(1) && program.lanes.len() > 1);
    }
    println!("{all:?}, {counts:?}, both sides ask on several queue pairs in {both}");
    if given.is_none() {
        let met = |what: &str| all.get(what).is_some_and(|n| *n > 0);
        for what in ["SUCCESS", "receive: SUCCESS", "WR_FLUSH_ERR"] {
            assert!(met(what), "nothing ended as {what}: {all:?}");
        }
        assert!(counts.dropped > 0 && counts.corrupted > 0 && counts.reordered > 0, "{counts:?}");
        assert!(both > 0, "one side asked, or on one queue pair");
    }
}

/// The same against an implementation that shares nothing with the card.
#[test]
fn random_programs_of_rc_on_a_card_without_functions_and_the_reference_engine_end_as_plain_rust_says() {
    let model = model(&small());
    for (seed, mode) in [(11, Mode::RtlModel), (12, Mode::ModelRtl)] {
        println!("seed {seed}, {mode}");
        let case = Case { seed, config: "generic-8b".into(), mode, lane: None };
        let outcome =
            run_program(Some(&model), &case, &rc_program(seed, mode), None, |_, filter| filter).unwrap();
        assert_eq!(outcome.difference, None, "seed {seed}, {mode}: {:#?}", outcome.diagnosis);
        assert!(outcome.completions > 10, "seed {seed}, {mode}: {}", outcome.completions);
    }
}
