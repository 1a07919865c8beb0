// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire-sim soak`: random programs, one after the other, until one ends as it must not.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;

use super::network::Counts;
use super::repeat::{again, interrupted, running, watch_for_ctrl_c, Failure, Repeat};
use super::{folder, program, run_case, Case, Mode, Outcome, Record, Tally};
use crate::card::CardModel;
use crate::config::{resolve, SetArgs};
use crate::demo::build;
use crate::progress::NEWS;

/// Runs random programs on random networks and compares all that comes of them
///
/// Each case is made of a seed alone: connections with messages of any length and alignment, some with a wrong key or wrong
/// bounds; queue pairs that are drained, moved to ERR, reset and connected anew; and a wire that drops, repeats, reorders,
/// corrupts and delays frames, 0 to 10 % each, and delivers late copies. The ends are two simulated cards, or a card and the reference engine, which was
/// written from the specification and not from the hardware. What must come of it is worked out in plain Rust:
///
///   completions  each one, and its order in its queue
///   memory       every byte at both ends, those round the regions too
///   states       of each queue pair, when its work is done
///   frames       one that is sent again is what it was the first time
///
/// Case number i has seed SEED + i and takes its configuration and its ends in turn. The first difference ends the soak: the case
/// runs once more with waves and frames, in target/soak/SEED, and the command that repeats it is printed; the exit code is not
/// 0. Ctrl-C ends it after the case that is running; a second one ends it at once.
///
/// Examples:
///   cargo xtask soak --seconds 600 --seed 1000
///   cargo xtask soak --cases 1 --seed 17 --config generic-8b --mode rtl-model
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct SoakArgs {
    /// Begin no case after so many seconds
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Run so many cases, however long they take
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    cases: Option<u64>,
    /// Seed of the first case
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Configurations of the cards, separated by commas: built-in names, TOML files, or `all`
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',', default_value = "all")]
    config: Vec<String>,
    #[command(flatten)]
    set: SetArgs,
    /// What the ends are, separated by commas; all without
    #[arg(long, value_name = "M", value_enum, value_delimiter = ',')]
    mode: Vec<Mode>,
    /// Run only this lane of each program, counted from 0: to make a case smaller
    #[arg(long, value_name = "L")]
    lane: Option<usize>,
    /// Print what the program of the first seed does, and run nothing
    #[arg(long)]
    show: bool,
    /// Leave waves and frames of every case, not just of one that fails
    #[arg(long)]
    record: bool,
    /// Print JSON on the standard output
    #[arg(long)]
    json: bool,
}

/// What came of a soak.
#[derive(Debug, Default, Serialize)]
struct Summary {
    cases: u64,
    #[serde(flatten)]
    counts: Counts,
    completions: u64,
    tally: Tally,
    cycles: u64,
    differences: u64,
    interrupted: bool,
    failure: Option<Failure<Case>>,
}

impl Summary {
    fn add(&mut self, outcome: &Outcome) {
        self.cases += 1;
        self.counts += outcome.counts;
        self.completions += outcome.completions;
        self.cycles += outcome.cycles;
        for (what, count) in &outcome.tally {
            *self.tally.entry(what.clone()).or_default() += count;
        }
    }

    fn line(&self) -> String {
        let Counts { frames, dropped, duplicated, reordered, corrupted, delayed, marked, cnps } = self.counts;
        format!(
            "{} cases, {frames} frames ({dropped} dropped, {duplicated} duplicated, {reordered} reordered, {corrupted} corrupted, {delayed} delayed, {marked} marked, {cnps} CNPs), {} completions, {} differences",
            self.cases, self.completions, self.differences
        )
    }
}

/// Runs cases; whether nothing differed.
///
/// # Errors
/// A case cannot be run: no such configuration or lane, or a model that cannot be built.
pub fn run(args: &SoakArgs) -> Result<bool> {
    let configs = args.set.over_all(&args.config)?;
    let modes = if args.mode.is_empty() { &Mode::ALL[..] } else { &args.mode };
    let case = |i: u64| {
        let config = &configs[i as usize % configs.len()];
        let mode = modes[i as usize / configs.len() % modes.len()];
        Case { seed: args.seed.wrapping_add(i), config: config.clone(), mode, lane: args.lane }
    };
    // All that may be wrong with what was given is told before anything is built.
    let first = program(&case(0))?;
    let mut out = std::io::stdout();
    if args.show {
        writeln!(out, "{first:#?}")?;
        return Ok(true);
    }
    let mut models: HashMap<&str, CardModel> = HashMap::new();
    for config in configs.iter().filter(|_| modes.iter().any(|mode| mode.has_card())) {
        models.insert(config, build(config, &resolve(config)?, args.record)?);
    }
    watch_for_ctrl_c();
    let summary = all(args, &models, case)?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
    } else {
        if let Some(failure) = &summary.failure {
            failure.tell(&mut out)?;
            writeln!(out, "to see the program: {} --show", failure.rerun())?;
        }
        writeln!(out, "{}{}", if summary.interrupted { "interrupted: " } else { "" }, summary.line())?;
    }
    Ok(summary.failure.is_none())
}

fn all(args: &SoakArgs, models: &HashMap<&str, CardModel>, case: impl Fn(u64) -> Case) -> Result<Summary> {
    let begin = Instant::now();
    let spinner = std::io::stderr().is_terminal().then(ProgressBar::new_spinner);
    let mut told = begin;
    let mut summary = Summary::default();
    loop {
        let over = match args.cases {
            Some(cases) => summary.cases >= cases,
            None => begin.elapsed() >= Duration::from_secs(args.seconds),
        };
        summary.interrupted = interrupted();
        if over || summary.interrupted {
            break;
        }
        let case = case(summary.cases);
        let at = case.name();
        match &spinner {
            Some(spinner) => spinner.set_message(format!("{at}; {}", summary.line())),
            None if told.elapsed() >= NEWS => {
                eprintln!("{at}; so far {}", summary.line());
                told = Instant::now();
            }
            None => {}
        }
        if let Some(spinner) = &spinner {
            spinner.tick();
        }
        running(&case);
        let record = args.record.then(|| Record { folder: folder(&case), waves: true });
        let outcome = run_case(models.get(&case.config[..]), &case, record.as_ref())?;
        summary.add(&outcome);
        if let Some(difference) = outcome.difference {
            summary.differences += 1;
            if let Some(spinner) = &spinner {
                spinner.finish_and_clear();
            }
            let failure = again(case, difference, outcome.diagnosis, |case, record| {
                let traced = match case.mode.has_card() {
                    true => Some(build(&case.config, &resolve(&case.config)?, true)?),
                    false => None,
                };
                Ok(run_case(traced.as_ref(), case, Some(record))?.difference)
            });
            summary.failure = Some(failure?);
            break;
        }
    }
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    Ok(summary)
}

impl Repeat for Case {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn name(&self) -> String {
        format!("seed {}, {}, {}", self.seed, self.config, self.mode)
    }

    fn rerun(&self) -> String {
        Case::rerun(self)
    }

    fn folder(&self) -> PathBuf {
        folder(self)
    }
}
