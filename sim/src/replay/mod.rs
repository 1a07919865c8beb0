// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire-sim replay`: captured conversations are played again, with a card as one of the ends.
//!
//! ```text
//!  scenarios.json --> scenario, log ---+--------------> play: card, driver, memory, work
//!  *.pcap ----------> trace -----------+--> peer --> packet --> link --> card
//!                                      |                                  |
//!                     report <-- compare, memory <-- packet <-- link -----+
//! ```
//!
//! - [`scenario`] and [`log`] read what was set up and what the ends logged, [`trace`] the frames.
//! - [`support`] names what a case needs that is not built yet. Such a case is not played and never counts as passed.
//! - [`peer`] plays the frames of the other end in the order of the capture, each behind those of the card that stand
//!   before it there.
//! - [`packet`] puts the card's queue pair number and key in place of the captured ones: the driver chooses them. PSNs,
//!   addresses, the region's address, path MTU and the like are those of the case.
//! - [`play`] runs one case; [`compare`] and [`memory`] say what differs; [`report`] tells.

pub mod compare;
pub mod log;
pub mod memory;
pub mod packet;
pub mod peer;
pub mod play;
pub mod report;
pub mod scenario;
pub mod support;
pub mod trace;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use self::report::{Entry, Outcome, Report};
use self::scenario::{Case, Role};
use self::trace::Trace;
use crate::config::{resolve, SetArgs};

/// Ends that the card plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Roles {
    /// It answers captured requests
    Responder,
    /// It posts the work and gets captured answers
    Requester,
    /// One after the other
    Both,
}

impl Roles {
    fn list(self) -> &'static [Role] {
        match self {
            Roles::Responder => &[Role::Responder],
            Roles::Requester => &[Role::Requester],
            Roles::Both => &[Role::Responder, Role::Requester],
        }
    }
}

/// Plays captured conversations again, with a simulated card as one of the ends
///
/// DIR holds scenarios.json, which says what was set up, done and logged, and the captures that it names (pcap or pcapng).
/// The repository's are in sim/golden: what two Linux machines with soft-RoCE said to each other.
///
/// The card is set up through the driver as one end of a case, and gets the other end's frames in the order of the
/// capture. Compared are:
///
///   frames       each that the card sends: every header field, every payload byte, its own ICRC
///   completions  status, opcode and length, against the log
///   memory       the logged FNV-1a sums; where all or nothing succeeds, every byte
///
/// The card's own queue pair number and key stand in place of the captured ones. Free are IP identification, UDP source port
/// and whether there is a UDP checksum. Where Linux is not the specification, the specification counts: the migration bit
/// is 1, the flow label is sent, credits may be real, a receive that is too short is an invalid request.
///
/// A case that needs what is not built yet is `unsupported`; it is not played. The last line counts, and the exit code is
/// not 0 when a case failed or the files make no sense.
///
/// Example: cargo xtask replay sim/golden/v4 --role responder --case write_multi
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct ReplayArgs {
    /// Folder with scenarios.json and captures
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The end that the card plays
    #[arg(long, value_enum, default_value_t = Roles::Both)]
    role: Roles,
    /// Only this case
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Configurations of the card, separated by commas: built-in names, TOML files, or `all`
    #[arg(long, value_delimiter = ',', default_value = "generic-8b", value_name = "NAME|FILE")]
    config: Vec<String>,
    #[command(flatten)]
    set: SetArgs,
    /// Print JSON on the standard output
    #[arg(long)]
    json: bool,
}

/// A case with its captures.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The case.
    pub case: Case,
    /// For each end that the card is to play, what is on its wire.
    pub traces: Vec<(Role, Trace)>,
}

/// Reads the cases of a folder, or the one named, and their captures.
///
/// # Errors
/// Whatever is wrong with the files, in a line with what to do.
pub fn load(folder: &Path, name: Option<&str>, roles: Roles) -> Result<Vec<Loaded>> {
    let cases = scenario::read(folder, name)?;
    cases
        .into_iter()
        .map(|case| {
            let traces: Result<Vec<_>> =
                roles.list().iter().map(|&role| Ok((role, Trace::read(folder, &case, role)?))).collect();
            Ok(Loaded { traces: traces?, case })
        })
        .collect()
}

/// Plays cases on cards of a configuration, and adds what comes of them. `each` is called before each one.
///
/// # Errors
/// The model cannot be built or is not that of a card.
pub fn play_all(
    cases: &[Loaded],
    config: &str,
    report: &mut Report,
    mut each: impl FnMut(&Case, Role),
) -> Result<()> {
    let model = crate::demo::build(config, &resolve(config)?, false)?;
    let can = play::capabilities(&model)?;
    for Loaded { case, traces } in cases {
        for (role, trace) in traces {
            each(case, *role);
            let missing = support::missing(case, *role, &can);
            let played = match missing {
                Some(_) => None,
                None => Some(
                    play::play(&model, case, trace, *role)
                        .with_context(|| format!("case `{}` as {role}", case.name))?,
                ),
            };
            let outcome = match &played {
                None => Outcome::Unsupported,
                Some(played) if played.differences.is_empty() => Outcome::Passed,
                Some(_) => Outcome::Failed,
            };
            let (frames, cycles, differences) = played
                .map_or((0, 0, Vec::new()), |played| (played.frames, played.cycles, played.differences));
            report.add(Entry {
                case: case.name.clone(),
                role: *role,
                config: config.to_string(),
                outcome,
                missing,
                frames,
                cycles,
                differences,
            });
        }
    }
    Ok(())
}

/// Runs the replay; whether no case failed.
///
/// # Errors
/// The files make no sense, or a model cannot be built; nothing was printed.
pub fn run(args: &ReplayArgs) -> Result<bool> {
    // All that may be wrong with what was given is told before anything is built.
    let configs = args.set.over_all(&args.config)?;
    let cases = load(&args.folder, args.case.as_deref(), args.role)?;
    let mut report = Report::new(args.folder.display().to_string());
    for config in &configs {
        let length = cases.len() * args.role.list().len();
        let bar = crate::progress::Progress::new(length as u64, "{msg:48} {wide_bar} {pos}/{len}");
        play_all(&cases, config, &mut report, |case, role| {
            bar.set_message(format!("{config}, {role}: {}", case.name));
            bar.inc(1);
        })?;
        bar.finish_and_clear();
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        report.print(&mut out)?;
    }
    Ok(report.failed == 0)
}
