// SPDX-License-Identifier: MIT OR Apache-2.0
//! `test`: what continuous integration runs.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::outcomes::{self, Outcomes, Reader};
use crate::{cargo, check, setup, workspace};

/// Runs the steps up to the first that fails.
pub fn run() -> Result<u8> {
    let begin = Instant::now();
    let steps: [(&str, &dyn Fn() -> Result<u8>); 5] = [
        ("xtask setup", &|| setup::run(&setup::Args::default())),
        ("fmt --all --check", &|| plain(&["fmt", "--all", "--check"])),
        (CLIPPY, &|| plain(&CLIPPY.split(' ').collect::<Vec<_>>())),
        ("test --workspace", &tests),
        ("xtask check", &check::run),
    ];
    for (index, (name, step)) in steps.iter().enumerate() {
        eprintln!("\n==> {}/{} cargo {name}", index + 1, steps.len());
        let code = step()?;
        if code != 0 {
            let how = if code == 130 { "was interrupted" } else { "failed" };
            eprintln!("\nThis step {how}; to run it alone: cargo {name}");
            return Ok(code);
        }
    }
    eprintln!("\nAll {} steps passed in {} s.", steps.len(), begin.elapsed().as_secs());
    Ok(0)
}

const CLIPPY: &str = "clippy --workspace --all-targets -- -D warnings";

fn plain(arguments: &[&str]) -> Result<u8> {
    workspace::exit_code(cargo(arguments.iter().copied()))
}

/// How long a line may take behind the end of `cargo`: children of tests may hold its pipe.
const LAST_LINE: Duration = Duration::from_secs(1);

/// Runs the tests, shows what they say, and keeps what came of them.
fn tests() -> Result<u8> {
    workspace::remove_old(&outcomes::path())?;
    let mut build = cargo(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]);
    let built = build.stderr(Stdio::inherit()).output().context("running cargo")?;
    if !built.status.success() {
        return Ok(workspace::code(built.status));
    }
    let mut reader = Reader::new(outcomes::programs(&String::from_utf8_lossy(&built.stdout)));
    // Through one pipe: what `cargo` says tells whose tests those are that the programs print.
    let (from, to) = rustix::pipe::pipe().context("making a pipe")?;
    let mut command = cargo(["test", "--workspace"]);
    command.stdout(to.try_clone()?).stderr(to);
    let mut child = command.spawn().context("running cargo")?;
    drop(command);
    let (send, lines) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(File::from(from)).split(b'\n').map_while(Result::ok);
        lines.take_while(|line| send.send(line.clone()).is_ok()).for_each(drop);
    });
    let mut stdout = std::io::stdout();
    let mut status = None;
    loop {
        match lines.recv_timeout(LAST_LINE) {
            Ok(line) => {
                let line = String::from_utf8_lossy(&line);
                reader.line(&line);
                let _ = writeln!(stdout, "{line}");
            }
            Err(RecvTimeoutError::Timeout) if status.is_none() => status = child.try_wait()?,
            Err(_) => break,
        }
    }
    let status = child.wait()?;
    let whole = status.success();
    Outcomes { commit: workspace::commit(), whole, tests: reader.tests }.keep()?;
    Ok(workspace::code(status))
}
