// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `ferrowire`, as a library: [`run`] is all of it.
//!
//! | module | what |
//! |---|---|
//! | `args` | the command line |
//! | `device` | which card, and the way to it |
//! | `info`, `counters`, `regs`, `top` | look at a card, beside whoever has it |
//! | `card`, `link`, `side`, `twosided` | open a card, connect queue pairs with those of another process |
//! | `pingpong`, `perf` | programs over these |
//! | `ping` | asks hosts over the raw Ethernet queue pair |
//! | `rping` | READs and WRITEs over a connection of the communication manager |
//! | `list` | which cards there are |
//! | `run` | runs a program of others on a card, with the libraries of verbs |
//! | `gids`, `reset`, `bind`, `sim`, `man` | the rest |
#![forbid(unsafe_code)]

mod args;
mod bind;
mod card;
mod counters;
mod device;
mod failure;
mod gids;
mod info;
mod inproc;
mod link;
mod list;
mod man;
mod out;
mod perf;
mod ping;
mod pingpong;
mod regs;
mod reset;
mod rping;
mod run;
mod side;
mod sim;
mod stock;
mod stop;
mod sysfs;
mod top;
mod twosided;

use std::ffi::OsString;

use clap::Parser;

use args::{Cli, Command};
use failure::Failure;

/// Carries out a command line, the program's name first. The exit code: 0 when all went well, 1 when something failed, 2 for a command line that
/// makes no sense.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to be told when the terminal is gone.
            let _ = error.print();
            return error.exit_code().clamp(0, 2) as u8;
        }
    };
    match carry_out(&cli) {
        Ok(()) => 0,
        // Who reads no more has seen enough.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(failure) => {
            eprintln!("ferrowire: {failure}");
            failure.exit_code()
        }
    }
}

fn carry_out(cli: &Cli) -> Result<(), Failure> {
    let common = &cli.common;
    match &cli.command {
        Command::List(args) => list::run(common, args),
        Command::Info(args) => info::run(common, args),
        Command::Counters(args) => counters::run(common, args),
        Command::Regs(args) => regs::run(common, args),
        Command::Top(args) => top::run(common, args),
        Command::Gids(args) => gids::run(common, args),
        Command::Ping(args) => ping::run(common, args),
        Command::Pingpong(args) => pingpong::run(common, args),
        Command::Rping(args) => rping::run(common, args),
        Command::Bw(args) => perf::run(common, perf::Test::Bw, args),
        Command::Lat(args) => perf::run(common, perf::Test::Lat, args),
        Command::Run(args) => run::run(common, args),
        Command::Reset(args) => reset::run(common, args),
        Command::Bind(args) => bind::bind(common, args),
        Command::Unbind(args) => bind::unbind(common, args),
        Command::Sim(args) => sim::run(args),
        Command::Completion(args) => man::completion(args),
        Command::Man(args) => man::man(args),
    }
}
