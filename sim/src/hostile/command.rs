// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire-sim hostile`: case after case, until so many packets have been sent or the card does what it must not.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::{run_case, Case, Outcome, CASE};
use crate::config::{resolve, SetArgs};
use crate::demo::build;
use crate::progress::NEWS;
use crate::soak::repeat::{again, interrupted, running, watch_for_ctrl_c, Failure, Repeat};
use crate::soak::{Record, Tally};

/// Lets an attacker have a card's wire, and judges all that the card does
///
/// The attacker knows all queue pairs, keys and sequence numbers. At line rate, in bursts, he forges keys and addresses, repeats and
/// leaps, sends every opcode in any order, lengths that contradict each other, mangled frames, answers nobody asked for, and floods
/// of READs, of tiny packets and to nobody. Meanwhile a well-behaved peer and queue pairs of its own exchange messages. What must be:
///
///   memory       every byte that the card writes or reads was granted; the rest is as it was
///   answers      bring only what was granted for reading, as it was, and end in no state that was not led to
///   innocents    each of their messages ends well, and with the right bytes
///   liveness     after each burst, the next good message of each queue pair is answered
///   counters     what must be dropped is counted
///
/// Packets are sent in cases of at most 10,000; case number i has seed SEED + i, its own queue pairs, regions and latencies. The first
/// difference ends the run: the case runs once more with waves and frames, in target/hostile/SEED, and the command that repeats it is
/// printed; the exit code is not 0. Ctrl-C ends it after the case that is running; a second one ends it at once.
///
/// Examples:
///   cargo xtask hostile --packets 1000000
///   cargo xtask hostile --packets 10000 --seed 17 --config generic-64b
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct HostileArgs {
    /// Hostile packets to send
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    packets: u64,
    /// Seed of the first case
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Configuration of the card: a built-in name, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "generic-8b")]
    config: String,
    #[command(flatten)]
    set: SetArgs,
    /// Leave waves and frames of every case, not just of one that fails
    #[arg(long)]
    record: bool,
    /// Print JSON on the standard output
    #[arg(long)]
    json: bool,
}

/// What came of a run.
#[derive(Debug, Default, Serialize)]
struct Summary {
    config: String,
    seconds: f64,
    cases: u64,
    packets: u64,
    bursts: u64,
    cycles: u64,
    lives: u64,
    completions: u64,
    compared: u64,
    /// Longest wait for the acknowledgement of a good message, in cycles.
    waited: u64,
    moods: Tally,
    kinds: Tally,
    drops: Tally,
    interrupted: bool,
    failure: Option<Failure<Case>>,
}

impl Summary {
    fn add(&mut self, outcome: &Outcome) {
        self.cases += 1;
        self.packets += outcome.packets;
        self.bursts += outcome.bursts;
        self.cycles += outcome.cycles;
        self.lives += outcome.lives;
        self.completions += outcome.completions;
        self.compared += outcome.compared;
        self.waited = self.waited.max(outcome.waited);
        for (all, more) in [
            (&mut self.moods, &outcome.moods),
            (&mut self.kinds, &outcome.kinds),
            (&mut self.drops, &outcome.drops),
        ] {
            more.iter().for_each(|(what, count)| *all.entry(what.clone()).or_default() += count);
        }
    }

    fn line(&self) -> String {
        format!(
            "{} hostile packets in {} bursts and {} cycles; {} queue pairs lost and made anew; {} accesses and answers judged; {} completions of innocents; {} differences",
            self.packets,
            self.bursts,
            self.cycles,
            self.lives,
            self.compared,
            self.completions,
            u8::from(self.failure.is_some())
        )
    }
}

/// Runs cases; whether nothing differed.
///
/// # Errors
/// A case cannot be run: no such configuration, or a model that cannot be built.
pub fn run(args: &HostileArgs) -> Result<bool> {
    let name = args.set.over(&args.config);
    let config = resolve(&name)?;
    let model = build(&name, &config, args.record)?;
    watch_for_ctrl_c();
    let begin = Instant::now();
    let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(args.packets));
    if let Some(bar) = &bar {
        bar.set_style(ProgressStyle::with_template(
            "{bar:30} {human_pos}/{human_len} packets, {eta} left; {msg}",
        )?);
    }
    let mut told = begin;
    let mut summary = Summary { config: name.clone(), ..Summary::default() };
    while summary.packets < args.packets {
        summary.interrupted = interrupted();
        if summary.interrupted {
            break;
        }
        let case = Case {
            seed: args.seed.wrapping_add(summary.cases),
            config: name.clone(),
            packets: CASE.min(args.packets - summary.packets),
        };
        running(&case);
        match &bar {
            Some(bar) => bar.set_message(case.name()),
            None if told.elapsed() >= NEWS => {
                eprintln!("{}; so far {}", case.name(), summary.line());
                told = Instant::now();
            }
            None => {}
        }
        let record = args.record.then(|| Record { folder: case.folder(), waves: true });
        let outcome = run_case(&model, &case, record.as_ref())?;
        summary.add(&outcome);
        if let Some(bar) = &bar {
            bar.set_position(summary.packets);
        }
        if let Some(difference) = outcome.difference {
            if let Some(bar) = &bar {
                bar.finish_and_clear();
            }
            let failure = again(case, difference, outcome.diagnosis, |case, record| {
                let traced = build(&case.config, &config, true)?;
                Ok(run_case(&traced, case, Some(record))?.difference)
            });
            summary.failure = Some(failure?);
            break;
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    summary.seconds = begin.elapsed().as_secs_f64();
    let mut out = std::io::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
    } else {
        if let Some(failure) = &summary.failure {
            failure.tell(&mut out)?;
        }
        let list = |tally: &Tally| {
            let all: Vec<String> = tally.iter().map(|(what, count)| format!("{what} {count}")).collect();
            all.join(", ")
        };
        writeln!(out, "packets: {}", list(&summary.kinds))?;
        writeln!(out, "dropped: {}", list(&summary.drops))?;
        writeln!(out, "longest wait for the answer to a good message: {} cycles", summary.waited)?;
        writeln!(out, "{}{}", if summary.interrupted { "interrupted: " } else { "" }, summary.line())?;
    }
    Ok(summary.failure.is_none())
}

impl Repeat for Case {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn name(&self) -> String {
        format!("seed {}, {}, {} packets", self.seed, self.config, self.packets)
    }

    fn rerun(&self) -> String {
        Case::rerun(self)
    }

    fn folder(&self) -> PathBuf {
        Case::folder(self)
    }
}
