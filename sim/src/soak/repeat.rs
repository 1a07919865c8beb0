// SPDX-License-Identifier: MIT OR Apache-2.0
//! What commands that run case after case have in common: Ctrl-C, and a case that failed, once more with waves and frames.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use serde::Serialize;

use super::Record;

/// Set by Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The case that runs, for who asks after a panic: its seed, and how to run it again.
static RUNNING: Mutex<Option<(u64, String)>> = Mutex::new(None);

/// A case that can be run again.
pub trait Repeat: Serialize {
    /// Of everything random.
    fn seed(&self) -> u64;
    /// All of it, for people.
    fn name(&self) -> String;
    /// The command that runs it again.
    fn rerun(&self) -> String;
    /// Where waves and frames go.
    fn folder(&self) -> PathBuf;
}

/// A case that failed.
#[derive(Debug, Serialize)]
pub struct Failure<C> {
    case: C,
    difference: String,
    ends: Vec<String>,
    rerun: String,
    files: Vec<String>,
}

/// Whether Ctrl-C was pressed.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Takes note of the case that runs.
pub fn running(case: &impl Repeat) {
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some((case.seed(), case.rerun()));
}

/// A case that failed with `difference`: `run` runs it once more, with waves and frames.
///
/// # Errors
/// It cannot be run.
pub fn again<C: Repeat>(
    case: C,
    difference: String,
    ends: Vec<String>,
    run: impl FnOnce(&C, &Record) -> Result<Option<String>>,
) -> Result<Failure<C>> {
    eprintln!("seed {} differs: {difference}\nonce more, with waves and frames", case.seed());
    let record = Record { folder: case.folder(), waves: true };
    let second = run(&case, &record)?;
    if second.as_ref() != Some(&difference) {
        let what = second.as_deref().unwrap_or("nothing differs");
        eprintln!("the second time it is another: {what}");
    }
    let files = [record.capture(), record.wave(0), record.wave(1)];
    let files = files.iter().filter(|file| file.exists()).map(|file| file.display().to_string()).collect();
    Ok(Failure { rerun: case.rerun(), case, difference, ends, files })
}

impl<C: Repeat> Failure<C> {
    /// How to run it again.
    pub fn rerun(&self) -> &str {
        &self.rerun
    }

    /// Says what failed, and where to look.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn tell(&self, out: &mut impl std::io::Write) -> Result<()> {
        let Failure { case, difference, ends, rerun, files } = self;
        writeln!(out, "FAILED: {}", case.name())?;
        writeln!(out, "  {difference}")?;
        for (side, end) in ends.iter().enumerate() {
            writeln!(out, "  side {side}: {end}")?;
        }
        for file in files {
            writeln!(out, "  {file}")?;
        }
        writeln!(out, "to run it again: {rerun}")?;
        Ok(())
    }
}

/// The first one ends the run after the case, the second one at once; a panic names the case.
pub fn watch_for_ctrl_c() {
    let handler = || {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        eprintln!("warning: Ctrl-C ends this at once, without a summary: {error}");
    }
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        if let Ok(running) = RUNNING.try_lock() {
            if let Some((seed, rerun)) = &*running {
                eprintln!("in seed {seed}; to run it again: {rerun}");
            }
        }
    }));
}
