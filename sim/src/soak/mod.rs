// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs on random networks: two ends, each a Verilated card, the reference engine or that behind a card's registers, and a wire with
//! faults between.
//!
//! ```text
//!  seed --> program --> run --+--> End: card, or engine --- wire: network --- End: card, or engine
//!                             |                                    |
//!                             +--> compare <-- completions, memory, states, frames
//! ```
//!
//! - [`program`] and [`generate`] make of a seed what both ends do and what the wire does.
//! - [`ends`] is what a program needs of an end; [`card`] and [`engine`] are the two kinds. What is behind the driver of the first is a
//!   Verilated card, or a [`crate::emulated`] one.
//! - [`network`] is the wire: it drops, repeats, reorders, corrupts and delays, within what retries must be enough for.
//! - [`run`] plays a program; [`compare`] and [`inbox`] say in plain Rust what must come of it.
//! - [`quiet`] does both for UC and UD, [`windows`] for memory windows, [`raw`] for raw Ethernet.
//! - [`repeat`] runs a case that failed once more.
//! - [`command`] is `ferrowire-sim soak`: case after case, and waves and frames of the first that fails.
//!
//! What is compared: each completion and its order in its queue, the states of queue pairs, every byte of both memories (those
//! between regions too), that packets sent again are what they were, and that cards ask for no memory they were not given.

pub mod card;
pub mod command;
pub mod compare;
pub mod ends;
pub mod engine;
pub mod generate;
pub mod inbox;
mod lives;
pub mod network;
mod pool;
mod post;
pub mod program;
pub mod quiet;
pub mod raw;
pub mod repeat;
pub mod run;
mod taken;
pub mod windows;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use anyhow::{anyhow, bail, ensure, Result};
use clap::ValueEnum;
use ferrowire_hdl::config::RnicConfig;
use ferrowire_spec::wire::eth::mac_number;
use serde::Serialize;

use self::card::CardEnd;
use self::ends::End;
use self::engine::EngineEnd;
use self::network::{Counts, Watch};
use self::program::{Limits, Program};
use self::run::{Ends, Play};
use crate::bus::{Peer, SharedWorld, World};
use crate::card::{datapath_gbps, CardModel};
use crate::emulated::{Card, Wired};
use crate::on_wire::OnWire;
use crate::wire::TimedFilter;

/// The line's rate, of a beat a cycle: that is more than a card takes without end. So copies find room.
const SHARE: f64 = 0.75;

/// Cycles between two looks at the ends, at most.
const STRIDE: u64 = 160;

/// Time-outs without anything new after which a program stands still: more than all retries take.
const STILL: u64 = 64;

/// Cycles beside these.
const STILL_MORE: u64 = 500_000;

/// Cycles after the last frame, in which anything more would be too much.
const SETTLE: u64 = 2_000;

/// What the ends are. The first makes most requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Two cards
    RtlRtl,
    /// A card, and the reference engine, which answers it more often than it asks
    RtlModel,
    /// The reference engine, and a card, which answers it more often than it asks
    ModelRtl,
    /// Two reference engines, no card: proof of the programs and of what is said of them, with all verbs
    ModelModel,
    /// The reference engine behind the registers and rings of a card, with the driver, and the plain engine
    EmulatedModel,
    /// The same, with the roles exchanged
    ModelEmulated,
    /// Two engines behind registers and rings
    EmulatedEmulated,
}

/// What an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Verilated card, with the driver.
    Rtl,
    /// The reference engine behind the registers and rings of a card, with the driver.
    Emulated,
    /// The reference engine.
    Model,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 7] = [
        Mode::RtlRtl,
        Mode::RtlModel,
        Mode::ModelRtl,
        Mode::ModelModel,
        Mode::EmulatedModel,
        Mode::ModelEmulated,
        Mode::EmulatedEmulated,
    ];

    /// Whether a Verilated card is one of the ends.
    pub fn has_card(self) -> bool {
        self.kinds().contains(&Kind::Rtl)
    }

    /// Whether an end is an engine behind the registers and rings of a card.
    pub fn has_emulated(self) -> bool {
        self.kinds().contains(&Kind::Emulated)
    }

    /// What each side is.
    pub fn kinds(self) -> [Kind; 2] {
        match self {
            Mode::RtlRtl => [Kind::Rtl; 2],
            Mode::RtlModel => [Kind::Rtl, Kind::Model],
            Mode::ModelRtl => [Kind::Model, Kind::Rtl],
            Mode::ModelModel => [Kind::Model; 2],
            Mode::EmulatedModel => [Kind::Emulated, Kind::Model],
            Mode::ModelEmulated => [Kind::Model, Kind::Emulated],
            Mode::EmulatedEmulated => [Kind::Emulated; 2],
        }
    }

    /// Verilated cards among the ends.
    fn cards(self) -> usize {
        self.kinds().iter().filter(|kind| **kind == Kind::Rtl).count()
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::RtlRtl => "rtl-rtl",
            Mode::RtlModel => "rtl-model",
            Mode::ModelRtl => "model-rtl",
            Mode::ModelModel => "model-model",
            Mode::EmulatedModel => "emulated-model",
            Mode::ModelEmulated => "model-emulated",
            Mode::EmulatedEmulated => "emulated-emulated",
        })
    }
}

/// A case: with the same one, everything happens in the same cycle again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// Of everything random.
    pub seed: u64,
    /// What the cards are.
    pub config: String,
    /// What the ends are.
    pub mode: Mode,
    /// Only this lane of the program.
    pub lane: Option<usize>,
}

impl Case {
    /// The command that runs it again.
    pub fn rerun(&self) -> String {
        let Case { seed, config, mode, lane } = self;
        let lane = lane.map_or_else(String::new, |lane| format!(" --lane {lane}"));
        format!("cargo xtask soak --cases 1 --seed {seed} --config {config} --mode {mode}{lane}")
    }
}

/// Where to leave waves and frames.
#[derive(Clone, Debug)]
pub struct Record {
    /// The folder.
    pub folder: PathBuf,
    /// Waves of the cards too; the model must have been built with traces.
    pub waves: bool,
}

impl Record {
    /// Where the frames go.
    pub fn capture(&self) -> PathBuf {
        self.folder.join("wire.pcapng")
    }

    /// Where the waves of a card go.
    pub fn wave(&self, card: usize) -> PathBuf {
        self.folder.join(if card == 0 { "wave.fst" } else { "wave.b.fst" })
    }
}

/// How often something happened, by name.
pub type Tally = BTreeMap<String, u64>;

/// What came of a case.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// What happened to frames.
    pub counts: Counts,
    /// Completions compared.
    pub completions: u64,
    /// How often requests ended in each way, and how often else something was done to a queue pair.
    pub tally: Tally,
    /// Cycles it took.
    pub cycles: u64,
    /// What is not as it must be.
    pub difference: Option<String>,
    /// Counters of the ends, when something differs.
    pub diagnosis: Vec<String>,
}

/// An end that is no Verilated card, before there is a wire.
enum Seat {
    Card(OnWire<Card>),
    Engine(EngineEnd),
}

/// Both ends and the world that they are in.
fn ends(
    model: Option<&CardModel>,
    case: &Case,
    program: &Program,
    config: &RnicConfig,
) -> Result<(SharedWorld, Ends)> {
    let Program { ipv6, tick, host_latency, wire_latency, .. } = *program;
    let engine = |side: usize| EngineEnd::new(side, case.seed, ipv6, tick);
    let without = |side: usize| -> (Seat, Box<dyn Peer>) {
        match case.mode.kinds()[side] {
            Kind::Emulated => {
                let card = Wired::card(mac_number(ends::mac(side)));
                (Seat::Card(card.clone()), Box::new(card))
            }
            _ => {
                let (end, peer) = engine(side);
                (Seat::Engine(end), peer)
            }
        }
    };
    let seated = |seat: Seat, world: &SharedWorld, side: usize| -> Result<Box<dyn End>> {
        Ok(match seat {
            Seat::Engine(end) => Box::new(end),
            Seat::Card(card) => {
                let place = Wired::new(card, world);
                Box::new(CardEnd::open_before(place.bus(), Box::new(place), side, case.seed, tick)?)
            }
        })
    };
    let model = model.map(|model| model.clone().with_random_host(case.seed));
    let cards = || model.as_ref().ok_or_else(|| anyhow!("mode {} needs the model of a card", case.mode));
    let open = |world: &SharedWorld, card: usize, side: usize| -> Result<Box<dyn End>> {
        let end = CardEnd::open(world, card, side, case.seed, tick)?;
        if let Some(marks) = program.marks {
            let line = SHARE * f64::from(config.beat_bytes) * 8e-3 * f64::from(config.clock_khz);
            end.slow_down(line as u32, marks.slowest)?;
        }
        Ok(Box::new(end))
    };
    let mixed = |card_side: usize| -> Result<(SharedWorld, Ends)> {
        let (engine, peer) = engine(1 - card_side);
        let world = World::with_peer(cards()?, host_latency, wire_latency, peer)?.share();
        let (card, engine) = (open(&world, 0, card_side)?, Box::new(engine) as Box<dyn End>);
        Ok((world, if card_side == 0 { [card, engine] } else { [engine, card] }))
    };
    match case.mode {
        Mode::RtlRtl => {
            let world = World::pair(cards()?, host_latency, wire_latency)?.share();
            let ends = [open(&world, 0, 0)?, open(&world, 1, 1)?];
            Ok((world, ends))
        }
        Mode::RtlModel => mixed(0),
        Mode::ModelRtl => mixed(1),
        Mode::ModelModel | Mode::EmulatedModel | Mode::ModelEmulated | Mode::EmulatedEmulated => {
            let ((first, one), (second, other)) = (without(0), without(1));
            let beat = config.beat_bytes as usize;
            let world = World::peers(beat, config.clock_khz, wire_latency, [one, other]).share();
            let ends = [seated(first, &world, 0)?, seated(second, &world, 1)?];
            Ok((world, ends))
        }
    }
}

/// What programs for ends of a mode are made of, with cards of a configuration.
///
/// # Errors
/// There is no such configuration.
pub fn limits(config: &str, mode: Mode) -> Result<Limits> {
    let config = crate::config::resolve(config)?;
    let kinds = mode.kinds();
    let verbs = [0, 1].map(|side: usize| {
        let of = |kind| if kind == Kind::Model { engine::VERBS } else { card::VERBS };
        let both = |verb: &&_| of(kinds[side]).contains(verb) && of(kinds[1 - side]).contains(verb);
        program::VERBS.iter().filter(both).copied().collect()
    });
    // Two queue pairs are not for programs; a lane has up to four regions at an end.
    let [qps, keys] = [config.qps - 2, (config.keys - 2) / 4];
    let pages = config.page_entries.saturating_sub(64) / generate::LANE_PAGES;
    let all = qps.min(keys).min(pages) as usize;
    ensure!(all > 0, "the card is too small for a program: give it more `qps`, `keys` or `page_entries`");
    let quiet = quiet::LANES.min(all / 4);
    let lanes = (all - quiet).min(24);
    let windows = windows::LANES.min(lanes / (2 * windows::COST));
    let (pieces, inline) =
        if mode == Mode::ModelModel { (4, 200) } else { (card::SEND_PIECES, card::INLINE) };
    let beat = config.beat_bytes as usize;
    // No card has it yet.
    let selective = !mode.has_card();
    Ok(Limits { verbs, pieces, inline, lanes, quiet, windows, raw: true, beat, selective })
}

/// The program of a case.
///
/// # Errors
/// There is no such configuration, or no such lane.
pub fn program(case: &Case) -> Result<Program> {
    let mut program = Program::of(case.seed, &limits(&case.config, case.mode)?);
    if let Some(only) = case.lane {
        let count = |program: &Program| {
            program.lanes.len() + program.quiet.len() + program.windows.len() + program.raw.len()
        };
        let there = count(&program);
        program.lanes.retain(|lane| lane.number == only);
        program.quiet.retain(|lane| lane.number == only);
        program.windows.retain(|lane| lane.number == only);
        program.raw.retain(|lane| lane.number == only);
        if count(&program) == 0 {
            bail!("no lane {only}: the program of seed {} has {there}, counted from 0", case.seed);
        }
    }
    Ok(program)
}

/// Runs a case on cards of `model`, which must be of the case's configuration; without cards, there is none.
///
/// # Errors
/// The case cannot be run at all; what goes wrong in it is a difference.
pub fn run_case(model: Option<&CardModel>, case: &Case, record: Option<&Record>) -> Result<Outcome> {
    run_program(model, case, &program(case)?, record, |_, filter| filter)
}

/// The same with a program of the caller's, and a wire from each side on of which the program's is a part: so a test can let an
/// end look as if it did what it must not.
///
/// # Errors
/// As [`run_case`].
pub fn run_program(
    model: Option<&CardModel>,
    case: &Case,
    program: &Program,
    record: Option<&Record>,
    wire: impl Fn(usize, TimedFilter) -> TimedFilter,
) -> Result<Outcome> {
    let config = crate::config::resolve(&case.config)?;
    let (world, mut ends) = ends(model, case, program, &config)?;
    let beats = datapath_gbps(config.beat_bytes, config.clock_khz);
    let watch = Watch::default();
    if model.is_some_and(|model| model.has_pcie() || model.has_axi()) {
        watch.lock().allow_late_reads();
    }
    {
        let mut world = world.lock();
        world.set_line_rate(Some(SHARE * beats));
        for side in 0..2 {
            // Side 0 is at link 0 in two of the modes; the engine, if it is side 0, is at link 1.
            let link = if case.mode == Mode::ModelRtl { 1 - side } else { side };
            let (faults, seed) = (program.faults[side], program.fault_seeds[side]);
            let marks = program.marks.map_or(0.0, |marks| marks.shares[side]);
            let filter = watch.filter(side, faults, marks, seed, program.patience() / 2);
            world.link_mut(link).set_timed_filter(Some(wire(side, filter)));
        }
        if let Some(record) = record {
            std::fs::create_dir_all(&record.folder)?;
            world.capture(&record.capture())?;
            for card in (0..case.mode.cards()).filter(|_| record.waves) {
                world.card_mut(card).open_wave(&record.wave(card))?;
            }
        }
    }
    let mut outcome = Outcome::default();
    let played = play(program, &mut ends, case.seed, &world, &watch, &mut outcome);
    outcome.difference = played.err().map(|error| format!("{error:#}"));
    outcome.counts = watch.lock().counts;
    outcome.cycles = world.lock().cycle();
    if outcome.difference.is_some() {
        outcome.diagnosis = ends.iter().map(|end| end.diagnose()).collect();
    }
    world.lock().end_capture();
    Ok(outcome)
}

fn play(
    program: &Program,
    ends: &mut Ends,
    seed: u64,
    world: &SharedWorld,
    watch: &Watch,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut play = Play::new(program, ends, seed, watch)?;
    let patience = STILL * program.timeout() + STILL_MORE;
    let mut news = world.lock().cycle();
    let mut i = 0;
    while !play.is_over() {
        let stepped = play.step();
        outcome.completions = play.completions;
        outcome.tally.clone_from(&play.tally);
        let moved = stepped?;
        let mut world = world.lock();
        i = (i * 31 + 17) % STRIDE;
        world.run(1 + i);
        world.check()?;
        let now = world.cycle();
        drop(world);
        if let Some(offence) = &watch.lock().offence {
            bail!("on the wire: {offence}");
        }
        if moved {
            news = now;
        } else if now - news > patience {
            if play.stands_for_a_loss()? {
                outcome.tally.clone_from(&play.tally);
                return Ok(());
            }
            bail!("nothing new in {patience} cycles; {}", play.waits());
        }
    }
    let mut world = world.lock();
    let calm = world.run_until(patience, |world| (0..2).all(|link| world.link(link).idle()));
    world.run(SETTLE);
    world.check()?;
    drop(world);
    if !calm {
        bail!("frames without end, though nothing is under way");
    }
    if let Some(offence) = &watch.lock().offence {
        return Err(anyhow!("on the wire: {offence}"));
    }
    play.finish()
}

/// The folder of a seed's waves and frames.
pub fn folder(case: &Case) -> PathBuf {
    ferrowire_verilator::target_dir().join(format!("soak/{}", case.seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_posts_what_both_have() {
        let posted = |mode| limits("generic-8b", mode).unwrap().verbs;
        let card: Vec<_> = program::VERBS.iter().filter(|verb| card::VERBS.contains(verb)).copied().collect();
        assert!(card.iter().any(|verb| program::is_answered(*verb)));
        for mode in [Mode::RtlRtl, Mode::RtlModel, Mode::ModelRtl] {
            assert_eq!(posted(mode), [card.clone(), card.clone()], "{mode}");
        }
        assert_eq!(posted(Mode::ModelModel), [program::VERBS.to_vec(), program::VERBS.to_vec()]);
    }

    /// The ends make the rights of a queue pair of `rd_atomic`, and its `max_rd_atomic` and `max_dest_rd_atomic`.
    #[test]
    fn lanes_whose_peer_reads_have_places_and_rights_for_it() {
        let mut reads = [0; 2];
        for (seed, mode) in (0..100).flat_map(|seed| [(seed, Mode::RtlModel), (seed, Mode::ModelRtl)]) {
            let program = Program::of(seed, &limits("generic-8b", mode).unwrap());
            for lane in &program.lanes {
                for (side, reads) in reads.iter_mut().enumerate() {
                    let mut work = lane.lives.iter().flat_map(|life| &life.work[side]);
                    if !work.any(|message| program::is_answered(message.verb)) {
                        continue;
                    }
                    let target = lane.memory[side].as_ref().map(|memory| memory.target.rights);
                    assert_eq!(target, Some(ends::Rights::Shared), "seed {seed}, {mode}");
                    assert!(lane.rd_atomic > 0, "seed {seed}, {mode}");
                    *reads += 1;
                }
            }
        }
        assert!(reads.iter().all(|n| *n > 20), "{reads:?}");
    }
}
