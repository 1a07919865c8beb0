// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire-sim`: the simulated card at work.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ferrowire_sim::{bench, demo, hostile, replay, soak, socket};

/// Simulated Ferrowire cards
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sends a file from one simulated card to another, and shows how fast
    Demo(demo::DemoArgs),
    Up(socket::command::UpArgs),
    Card(socket::command::CardArgs),
    Board(socket::command::BoardArgs),
    Replay(replay::ReplayArgs),
    Soak(soak::command::SoakArgs),
    Hostile(hostile::command::HostileArgs),
    /// Measures what the design has budgets for, in clock cycles
    Bench(bench::BenchArgs),
}

/// An error and its causes, each said once: many name their cause themselves.
fn told(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| match cause.to_string() {
        cause if told.is_empty() => cause,
        cause if told.contains(&cause) => told,
        cause => format!("{told}: {cause}"),
    })
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args).map(|()| true),
        Command::Up(args) => socket::command::up(&args).map(|()| true),
        Command::Card(args) => socket::command::card(&args).map(|()| true),
        Command::Board(args) => socket::command::board(&args).map(|()| true),
        Command::Replay(args) => replay::run(&args),
        Command::Soak(args) => soak::command::run(&args),
        Command::Hostile(args) => hostile::command::run(&args),
        Command::Bench(args) => bench::run(&args).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // The reader may be gone.
            let _ = writeln!(std::io::stderr(), "error: {}", told(&error));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use ferrowire_verilator::BuildError;

    #[test]
    fn a_cause_that_an_error_names_itself_is_not_said_again() {
        let full = || std::io::Error::from_raw_os_error(28);
        let error = BuildError::Io { action: "writing", path: "wire.pcapng".into(), source: full() };
        let error = anyhow::Error::from(error).context("the demo");
        let text = "the demo: writing wire.pcapng: No space left on device (os error 28)";
        assert_eq!(super::told(&error), text);
        let plain = Err::<(), _>(full()).context("writing wire.pcapng").unwrap_err();
        assert_eq!(super::told(&plain), "writing wire.pcapng: No space left on device (os error 28)");
    }
}
