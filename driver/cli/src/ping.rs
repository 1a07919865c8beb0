// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire ping`: ICMP echoes over the raw Ethernet queue pair, and who answers them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use ferrowire_net::{Config, Error, Net};
use serde_json::json;

use crate::args::Common;
use crate::card::{AddressArgs, Card};
use crate::device::Device;
use crate::failure::Failure;
use crate::{inproc, out, stop};

/// Asks a host on the card's wire whether it is there, as ping; or answers those who ask
///
/// The echoes go over the raw Ethernet queue pair of the card, and so does the question for the host's MAC address. A card answers nobody by
/// itself: on the other side a program must run, which `--answer` does. Times of a simulated card are by the clock of that card, which goes on
/// while the programs look whether something has come.
#[derive(Args, Debug)]
#[command(after_help = "Examples, each on its side:\n  \
    ferrowire -d sim:ferrowire0.sock ping --answer --ip 10.0.0.1\n  \
    ferrowire -d sim:ferrowire1.sock ping --ip 10.0.0.2 10.0.0.1 -c 3")]
pub struct PingArgs {
    /// Address of the host, IPv4 or IPv6; without one, of cards in this process, the other card
    #[arg(value_name = "ADDRESS", conflicts_with = "answer")]
    host: Option<IpAddr>,
    /// Answer neighbours and echoes until a signal comes
    #[arg(long)]
    answer: bool,
    /// Echoes
    #[arg(short, long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Bytes of data in each
    #[arg(short, long, default_value_t = 56, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(0..=1400))]
    size: u16,
    /// Milliseconds between two echoes
    #[arg(short, long, default_value_t = 200, value_name = "MS")]
    interval: u64,
    /// Seconds that an answer may take; in this process thousandths of the card's seconds, for these take long
    #[arg(short = 'W', long, default_value_t = 2, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,
    /// The port's addresses.
    #[command(flatten)]
    addresses: AddressArgs,
}

/// How much faster the stack's clock is than that of a card in this process, in whose time it lives.
const FASTER: u32 = 1000;

/// Carries it out.
pub fn run(common: &Common, args: &PingArgs) -> Result<(), Failure> {
    stop::listen();
    let device = &common.device()?;
    if let Device::InProcess(kind) = device {
        return in_process(common, args, device, *kind);
    }
    if args.host.is_none() && !args.answer {
        let fix = "give its address, or --answer to be asked";
        return Err(Failure::usage("ping: no host is named", fix));
    }
    let card = Card::open(device, device.open()?, &args.addresses)?;
    let net = net(&card, 1)?;
    match args.host {
        Some(host) => ask(common, args, &card, &net, host),
        None => {
            let answers = format!("{} answers to {}; a signal ends it", card.name, card.ip);
            match common.json {
                true => out::json_line(&json!({ "card": card.name, "ip": card.ip }))?,
                false => out::line(&answers)?,
            }
            while !stop::stopped() {
                net.poll()?;
                std::thread::sleep(Duration::from_micros(50));
            }
            Ok(())
        }
    }
}

fn net(card: &Card, speed: u32) -> Result<Net, Failure> {
    Ok(Net::new(&card.context, &card.pd, Config { speed, vlan: card.vlan, ..Config::default() })?)
}

/// Both sides.
fn in_process(common: &Common, args: &PingArgs, device: &Device, kind: inproc::Kind) -> Result<(), Failure> {
    if args.host.is_some() || args.answer {
        let fix = "leave address and --answer out";
        return Err(Failure::usage("inproc has both sides in this process", fix));
    }
    let (other, own) = inproc::pair(kind)?;
    let there = Card::open(device, other, &AddressArgs::default())?;
    let here = Card::open(device, own, &args.addresses)?;
    let (answering, asking) = (net(&there, FASTER)?, net(&here, FASTER)?);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (answering, ended) = (&answering, &ended);
        let answers = scope.spawn(move || {
            while !ended.load(Ordering::Acquire) {
                answering.poll()?;
                // The lock of a simulation is not fair.
                std::thread::sleep(Duration::from_micros(50));
            }
            Ok::<(), Error>(())
        });
        let asked = ask(common, args, &here, &asking, there.ip);
        ended.store(true, Ordering::Release);
        let fault = || Failure::failed("the other side's thread ended", "this is a fault of the command");
        asked.and(answers.join().map_err(|_| fault())?.map_err(Failure::from))
    })
}

/// Asks, and says what came of it.
fn ask(common: &Common, args: &PingArgs, card: &Card, net: &Net, host: IpAddr) -> Result<(), Failure> {
    let limit = Duration::from_secs(args.timeout.into());
    let bytes = usize::from(args.size);
    if !common.json {
        out::line(&format!("PING {host} from {} {}: {bytes} data bytes", card.ip, card.name))?;
        if let Some(note) = card.clock_note() {
            out::line(&note)?;
        }
    }
    let mut times = Vec::new();
    let mut sent = 0;
    for sequence in 1..=args.count {
        if stop::stopped() {
            break;
        }
        sent += 1;
        // Who it is is asked before, and not counted.
        let known = net.resolve(host);
        let before = card.now()?;
        let said = match known.and_then(|_| net.ping(host, bytes, limit)) {
            Ok(_) => {
                let us = card.clock.seconds(card.now()?.saturating_sub(before)) * 1e6;
                times.push(us);
                format!("{bytes} bytes from {host}: seq={sequence} time={us:.3} us")
            }
            Err(error @ (Error::Timeout { .. } | Error::Unresolved { .. })) => {
                format!("seq={sequence}: {error}")
            }
            Err(error) => return Err(error.into()),
        };
        if !common.json {
            out::line(&said)?;
        }
        let next = Instant::now() + Duration::from_millis(args.interval);
        while sequence < args.count && Instant::now() < next && !stop::stopped() {
            net.poll()?;
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let received = times.len() as u32;
    let average = times.iter().sum::<f64>() / f64::from(received.max(1));
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    if common.json {
        let usec = match received {
            0 => json!(null),
            _ => json!({ "min": least, "avg": average, "max": most }),
        };
        out::json(&json!({
            "host": host, "from": card.ip, "bytes": bytes, "sent": sent, "received": received, "usec": usec, "clock": card.clock_name()
        }))?;
    } else {
        out::line(&format!("{sent} sent, {received} received, {} lost", sent - received))?;
        if received > 0 {
            out::line(&format!("time min/avg/max = {least:.3}/{average:.3}/{most:.3} us"))?;
        }
    }
    stop::check()?;
    match received {
        0 => Err(Failure::failed(
            format!("ping {host}: no answer"),
            "see whether a program answers there: `ferrowire ping --answer` does",
        )),
        _ => Ok(()),
    }
}
