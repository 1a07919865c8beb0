// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

use clap::{Args, Parser, Subcommand};
use ferrowire::{PathMtu, Service};

use crate::device::Device;
use crate::failure::Failure;
use crate::{bind, counters, gids, info, list, man, perf, ping, pingpong, regs, reset, rping, run, sim, top};

/// Ferrowire cards: what they are, what they do, and how fast
#[derive(Parser, Debug)]
#[command(
    name = "ferrowire",
    version,
    after_help = "Two simulated cards, and what goes over their wire:\n  \
        ferrowire sim up &\n  \
        ferrowire list\n  \
        ferrowire -d sim:ferrowire0.sock info\n  \
        ferrowire -d sim:ferrowire0.sock bw write &\n  \
        ferrowire -d sim:ferrowire1.sock bw write localhost\n\n\
        Exit codes: 0 all went well, 1 something failed, 2 the command line makes no sense."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// For every command.
    #[command(flatten)]
    pub common: Common,
}

/// The environment variable with the card that a command takes without `-d`.
pub const DEVICE: &str = "FERROWIRE_DEVICE";

/// What every command takes.
#[derive(Args, Debug)]
pub struct Common {
    /// The card: a PCI address as 0000:03:00.0, `sim:SOCKET` of a simulated card, `serial:PORT[@BAUD]` of a board, `inproc`: simulated cards in this process, or `inproc:engine`: the reference engine in the place of cards. Without it, the card that FERROWIRE_DEVICE names; `ferrowire list` lists cards
    #[arg(short = 'd', long = "ib-dev", visible_alias = "device", value_name = "CARD", global = true)]
    device: Option<Device>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

impl Common {
    /// The card: of `-d`, or else of the environment.
    ///
    /// # Errors
    /// None is named, or the environment names nothing.
    pub fn device(&self) -> Result<Device, Failure> {
        let fix = format!("give `-d` a PCI address, `sim:SOCKET`, `serial:PORT`, `inproc`, or `inproc:engine`, or set {DEVICE} to one; `ferrowire list` lists the cards that are there, `ferrowire sim up` starts two simulated ones");
        self.named_device()?.ok_or_else(|| Failure::usage("no card is named", fix))
    }

    /// The same; `None`: no card is named.
    ///
    /// # Errors
    /// The environment names nothing.
    pub fn named_device(&self) -> Result<Option<Device>, Failure> {
        if let Some(device) = &self.device {
            return Ok(Some(device.clone()));
        }
        let named = std::env::var(DEVICE).ok().filter(|name| !name.is_empty());
        let parsed = named.map(|name| name.parse()).transpose();
        parsed.map_err(|why: String| Failure::usage(format!("{DEVICE} names no card"), why))
    }

    /// That of `-d` alone: for what changes the machine.
    pub fn given_device(&self) -> Option<&Device> {
        self.device.as_ref()
    }
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    List(list::ListArgs),
    Info(info::InfoArgs),
    Counters(counters::CountersArgs),
    Regs(regs::RegsArgs),
    Top(top::TopArgs),
    Gids(gids::GidsArgs),
    Ping(ping::PingArgs),
    Pingpong(pingpong::PingpongArgs),
    Rping(rping::RpingArgs),
    /// Measures bandwidth, as perftest's ib_write_bw, ib_send_bw, ib_read_bw and ib_atomic_bw
    ///
    /// Without a host it is the server, and waits for a client; with one it is the client. The client's options count. Figures of a
    /// simulated card are by the clock of that card.
    #[command(after_help = "Examples, each on its side:\n  \
        ferrowire -d sim:ferrowire0.sock bw write\n  \
        ferrowire -d sim:ferrowire1.sock bw write localhost --report_gbits -s 4096 -n 200\n\n\
        Both sides in one process, of a command built with `--features inproc`:\n  \
        ferrowire -d inproc bw read -a\n\n\
        The same without any card, to see that all works: fast, and no measurement:\n  \
        ferrowire -d inproc:engine bw read -a")]
    Bw(perf::PerfArgs),
    /// Measures latency, as perftest's ib_write_lat, ib_send_lat, ib_read_lat and ib_atomic_lat
    ///
    /// Without a host it is the server, and waits for a client; with one it is the client. The client's options count. Of WRITE and SEND
    /// it is half of the time there and back. Figures of a simulated card are by the clock of that card.
    #[command(after_help = "Examples, each on its side:\n  \
        ferrowire -d sim:ferrowire0.sock lat send\n  \
        ferrowire -d sim:ferrowire1.sock lat send localhost -s 64 -I 64")]
    Lat(perf::PerfArgs),
    Run(run::RunArgs),
    Reset(reset::ResetArgs),
    Bind(bind::BindArgs),
    Unbind(bind::UnbindArgs),
    Sim(sim::SimArgs),
    Completion(man::CompletionArgs),
    Man(man::ManArgs),
}

/// A path MTU from its bytes.
pub fn parse_mtu(text: &str) -> Result<PathMtu, String> {
    let found = PathMtu::ALL.iter().copied().find(|mtu| mtu.bytes().to_string() == text);
    found.ok_or_else(|| format!("`{text}`: give 256, 512, 1024, 2048 or 4096"))
}

/// A service of the transport.
pub fn parse_service(text: &str) -> Result<Service, String> {
    match text.to_ascii_uppercase().as_str() {
        "RC" => Ok(Service::Rc),
        "UC" => Ok(Service::Uc),
        "UD" => Ok(Service::Ud),
        _ => Err(format!("`{text}`: give RC, UC or UD")),
    }
}

/// The name of a service.
pub fn service_name(service: Service) -> &'static str {
    match service {
        Service::Uc => "UC",
        Service::Ud => "UD",
        _ => "RC",
    }
}

/// The MAC address of a single station.
pub fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|part| {
            let digits = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            u8::from_str_radix(part, 16).ok().filter(|_| digits)
        })
        .collect();
    match bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok()) {
        Some(mac) if mac[0] & 1 == 0 && mac != [0; 6] => Ok(mac),
        _ => Err(format!("`{text}`: give the address of a single station, as 02:fe:00:00:00:01")),
    }
}

/// A number, with K, M or G behind it for 1,024 and its powers.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.ok_or_else(|| format!("`{text}`: give a number of bytes, as 4096, 64K or 1M"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_and_addresses_are_what_they_say() {
        assert_eq!(
            ["0", "64", "64K", "1M", "2g"].map(|text| parse_size(text).unwrap()),
            [0, 64, 65536, 1 << 20, 2 << 30]
        );
        for bad in ["", "K", "-1", "1.5M", "99999999999999999999", "18446744073709551615G"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_mac("02:fe:00:00:00:2a"), Ok([2, 0xfe, 0, 0, 0, 0x2a]));
        for bad in ["", "02:fe:00:00:00", "2:fe:0:0:0:1", "03:00:00:00:00:01", "00:00:00:00:00:00"] {
            assert!(parse_mac(bad).is_err(), "{bad}");
        }
    }
}
