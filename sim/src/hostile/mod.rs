// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hostile peer: one card, whose wire is an attacker's, and what must be true whatever he sends.
//!
//! ```text
//!                       +--- Stage: queue pairs, regions, receives, guards        Attacker --+
//!  driver --- card -----+                                                                    +--- HostilePeer
//!                |      +--- the soak's program, on queue pairs of its own ---- the engine --+
//!                +-- every read and write of host memory, every frame --> Judge
//! ```
//!
//! - [`attack`] makes hostile packets, sans IO; [`forge`] makes frames of them, and damages these.
//! - [`peer`] is the far end of the wire: the attacker, and a well-behaved peer for the innocent queue pairs.
//! - [`stage`] is what is attacked, made with the driver; [`ledger`] writes down what the card can reach.
//! - [`ground`] is a shadow of host memory; [`life`] says what a queue pair may make of the packets that it was sent, [`unreliable`] of UC and
//!   UD; [`drops`] why they must be dropped; [`judge`] compares.
//! - [`run`] plays burst after burst; [`command`] is `ferrowire-sim hostile`.

pub mod attack;
pub mod command;
mod drops;
pub mod forge;
pub mod ground;
mod innocents;
pub mod judge;
pub mod ledger;
pub mod life;
pub mod peer;
pub mod run;
pub mod stage;
mod unreliable;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use self::attack::Innocent;
use self::forge::{CARD, FRIEND};
use self::judge::Judge;
use self::ledger::{LedgerBus, Place, SharedLedger};
use self::peer::{HostilePeer, Shared};
use self::run::Game;
use self::stage::Stage;
use crate::bus::World;
use crate::card::{datapath_gbps, CardModel};
use crate::soak::card::CardEnd;
use crate::soak::engine::EngineEnd;
use crate::soak::network::Watch;
use crate::soak::run::{Ends, Play};
use crate::soak::{Record, Tally};

/// Packets of a case, at most: more are several cases, so that one that fails is short to repeat.
pub const CASE: u64 = 10_000;

/// A case: with the same one, everything happens in the same cycle again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// Of everything random.
    pub seed: u64,
    /// What the card is.
    pub config: String,
    /// Hostile packets.
    pub packets: u64,
}

impl Case {
    /// The command that runs it again.
    pub fn rerun(&self) -> String {
        let Case { seed, config, packets } = self;
        format!("cargo xtask hostile --packets {packets} --seed {seed} --config {config}")
    }

    /// The folder of its waves and frames.
    pub fn folder(&self) -> PathBuf {
        ferrowire_verilator::target_dir().join(format!("hostile/{}", self.seed))
    }
}

/// What came of a case.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Hostile packets that were sent.
    pub packets: u64,
    /// Bursts of these.
    pub bursts: u64,
    /// How often each kind of packet was sent.
    pub kinds: Tally,
    /// Packets of the bursts of each mood.
    pub moods: Tally,
    /// How often queue pairs that were lost began another life.
    pub lives: u64,
    /// Packets dropped, by the card's counters.
    pub drops: Tally,
    /// Completions of the innocents.
    pub completions: u64,
    /// Reads, writes and answers that were compared.
    pub compared: u64,
    /// Longest wait for the acknowledgement of a good message, in cycles.
    pub waited: u64,
    /// Cycles it took.
    pub cycles: u64,
    /// What is not as it must be.
    pub difference: Option<String>,
    /// Counters of the card, when something differs.
    pub diagnosis: Vec<String>,
}

/// Runs a case on a card of `model`, which must be of the case's configuration.
///
/// # Errors
/// The case cannot be run at all; what goes wrong in it is a difference.
pub fn run_case(model: &CardModel, case: &Case, record: Option<&Record>) -> Result<Outcome> {
    let config = crate::config::resolve(&case.config)?;
    let mut rng = SmallRng::seed_from_u64(case.seed);
    let host_latency = [0, 20, 250][rng.random_range(0..3)];
    let wire_latency = [0, 3, 100][rng.random_range(0..3)];
    let (lanes, targets, quiet) = if config.qps < 32 { (2, 5, 1) } else { (4, 16, 3) };
    let program = innocents::program(rng.random(), &case.config, lanes)?;
    let (engine, friend) = EngineEnd::new(FRIEND, case.seed, program.ipv6, program.tick);
    let watch = Watch::default();
    let wire = Shared::new(rng.random(), friend, &watch);
    let model = model.clone().with_random_host(case.seed);
    let world = World::with_peer(&model, host_latency, wire_latency, Box::new(HostilePeer(wire.clone())))?;
    let world = world.share();
    let ledger = SharedLedger::default();
    {
        let mut world = world.lock();
        // Ethernet of a beat a cycle, but no faster than 100 Gb/s.
        let beats = datapath_gbps(config.beat_bytes, config.clock_khz);
        world.set_line_rate(Some(beats.min(100.0)));
        world.card_mut(0).host_mut().keep_accesses(true);
        if let Some(record) = record {
            std::fs::create_dir_all(&record.folder)?;
            world.capture(&record.capture())?;
            if record.waves {
                world.card_mut(0).open_wave(&record.wave(0))?;
            }
        }
    }
    let mut outcome = Outcome::default();
    ledger.lock().set_next(Some(Place::Both));
    let card =
        CardEnd::open_on(LedgerBus::new(world.bus(0), &ledger), &world, 0, CARD, case.seed, program.tick)?;
    ledger.lock().set_next(None);
    let context = card.context().clone();
    let mut ends: Ends = [Box::new(card), Box::new(engine)];
    let played = (|| {
        let mut judge = Judge::new(&ledger);
        let mut play = Play::new(&program, &mut ends, case.seed, &watch).context("the innocents")?;
        let (own, peers) = (play.qpns(CARD), play.qpns(FRIEND));
        let innocent = |(qpn, peer)| Innocent { qpn, peer, ..Innocent::default() };
        let innocents = own.iter().copied().zip(peers).map(innocent).collect();
        (judge.innocents, judge.innocents_v6) = (own, program.ipv6);
        {
            let sight = &mut wire.lock().sight;
            (sight.innocents, sight.v6) = (innocents, program.ipv6);
            (sight.qps, sight.key_count) = (config.qps, config.keys);
        }
        let stage = Stage::new(&context, &ledger, &mut judge, &wire, rng.random(), targets, quiet)?;
        let mut game = Game::new(&world, &wire, (judge, stage), &mut play, &mut outcome, rng.random());
        game.play(case.packets)?;
        game.finish()?;
        outcome.completions = play.completions;
        Ok::<_, anyhow::Error>(())
    })();
    outcome.difference = played.err().map(|error| format!("{error:#}"));
    outcome.kinds = wire.lock().kinds.clone();
    outcome.cycles = world.lock().cycle();
    if outcome.difference.is_some() {
        outcome.diagnosis = vec![crate::node::counters(&context)];
    }
    world.lock().end_capture();
    Ok(outcome)
}
