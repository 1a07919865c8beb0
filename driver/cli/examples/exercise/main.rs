// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every verb, in both directions, between a simulated card and a program of libibverbs on its wire (`xtask/src/interop/verbs.c`): what `ibv_rc_pingpong` and
//! its brothers leave out. `cargo xtask interop --only verbs` runs both.
//!
//! ```text
//!  exercise --- a.sock --- ferrowire-sim card --- wire --- guest: soft-RoCE, verbs
//!     +-------------------------- TCP ----------------------------------+
//! ```
//!
//! This program knows the steps ([`steps`]), tells both sides what to post ([`side::Side`]), and works out for itself what must come of it ([`plan`]): completions and every byte of
//! memory, of both sides. So a step is the same whoever asks.

mod card;
mod guest;
mod plan;
mod run;
mod side;
mod steps;
mod streams;

use std::io;
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ferrowire::Service;

use card::Card;
use guest::Guest;
use run::Addresses;
use side::{Result, Side};
use steps::Step;

/// Exercises all verbs between a simulated card and a guest on its wire, in both directions
#[derive(Parser)]
struct Args {
    /// The card's socket
    socket: PathBuf,
    /// TCP port at which the guest's program is waited for
    #[arg(long, default_value_t = 18516)]
    port: u16,
    /// The guest's address on the wire
    #[arg(long, default_value = "10.0.0.2")]
    guest: IpAddr,
    /// Only steps with one of these in their name
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<String>,
    /// The wire loses frames: of UC and UD many messages of which some are lost, in place of the steps
    #[arg(long)]
    lossy: bool,
}

fn main() -> ExitCode {
    match exercise(&Args::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("exercise: {failed} steps failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("exercise: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The number of steps that failed.
fn exercise(args: &Args) -> Result<usize> {
    let mut card = Card::open(&args.socket, args.guest)?;
    let addresses = Addresses { card: card.address()?, guest: args.guest };
    let listener = TcpListener::bind(("127.0.0.1", args.port))?;
    println!("exercise: waiting for the guest's program at port {}", args.port);
    let mut guest = Guest::accept(&listener, card.net(), addresses.card)?;
    let wanted =
        |name: &str| args.only.is_empty() || args.only.iter().any(|part| name.contains(part.as_str()));
    // Of what nobody acknowledges there are streams where the wire loses frames.
    let streams = |step: &Step| args.lossy && step.service != Service::Rc;
    let mut all = steps::steps();
    if args.lossy {
        all = all
            .into_iter()
            .filter(|step| !streams(step))
            .map(Step::lossy)
            .chain(streams::streams())
            .collect();
    }
    let directions =
        |step: Step| ["guest", "card"].map(|asks| (format!("{}-{asks}-asks", step.name), step.clone()));
    let all = all.into_iter().flat_map(directions);
    let (mut failed, mut count) = (0, 0);
    let (mut sent, mut came) = (0, 0);
    for (number, (name, step)) in (0..).zip(all).filter(|(_, (name, _))| wanted(name)) {
        let sides: [&mut dyn Side; 2] = match name.ends_with("-guest-asks") {
            true => [&mut guest, &mut card],
            false => [&mut card, &mut guest],
        };
        let mut more = String::new();
        let ran = match streams(&step) {
            false => run::run(&step, number, sides, &addresses, args.lossy),
            true => streams::run(&step, number, sides, &addresses).map(|result| {
                more = format!(", {} of {} messages came", result.messages, step.asks.len());
                (sent, came) = (sent + step.asks.len(), came + result.messages);
                result.wrong
            }),
        };
        let wrong = match ran {
            Err(error) if error.is::<io::Error>() => return Err(error),
            Err(error) => vec![error.to_string()],
            Ok(wrong) => wrong,
        };
        println!("{name:<44} {}{more}", if wrong.is_empty() { "ok" } else { "FAILED" });
        wrong.iter().for_each(|what| println!("    {what}"));
        failed += usize::from(!wrong.is_empty());
        count += 1;
    }
    // All of them: then the wire is not what it is taken for. Hardly any: then what was looked at is not much.
    if sent > 0 && !(sent / 2..sent).contains(&came) {
        println!("    of {sent} messages that nobody acknowledges {came} came");
        failed += 1;
        count += 1;
    }
    guest.leave()?;
    println!("{} of {count} steps passed", count - failed);
    Ok(failed)
}
