// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire-sim card`, `ferrowire-sim up` and `ferrowire-sim board`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use clap::{Args, ValueHint};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_serial::SerialConfig;
use ferrowire_spec::pci::MSIX_MAX;
use ferrowire_spec::wire::eth::mac_number;

use super::line::{self, Line, LineSpec, Plug};
use super::outage::{Dark, Outage};
use super::{Clock, Device, Guests, Listener, Port, Server, Signals, Tracer, Tty};
use crate::bus::World;
use crate::card::CardModel;
use crate::config::{resolve, SetArgs};
use crate::demo;
use crate::measure;
use crate::wire::{Delivery, Faults, TimedFilter};

/// The card, where it may be any.
#[derive(Args, Debug)]
struct Chosen {
    /// Configuration: a built-in name, or a TOML file
    #[arg(long, default_value = "generic-64b", value_name = "NAME|FILE")]
    config: String,
    #[command(flatten)]
    set: SetArgs,
    /// Clock of the card in kHz, if not that of its configuration. A slow one has fewer cycles in each time-out, so that simulating them takes less time
    #[arg(long, value_name = "KHZ")]
    clock_khz: Option<u32>,
    /// Tell when clients leave, and why, and how often the card wanted memory that its client has not mapped
    #[arg(long, short)]
    verbose: bool,
}

/// What all commands take.
#[derive(Args, Debug)]
struct Common {
    /// What the wire does to frames, each way, with its probability: `drop=0.01,duplicate=0.01,stale=0.01,reorder=0.01,corrupt=0.01,delay=0.01`; `hold=N`
    /// is the longest delay in cycles, `seed=N` makes it another run. `dark=N` has it lose everything, both ways, from the Nth RoCE packet on, for
    /// `dark_ms=N` milliseconds (1000) of the card's clock
    #[arg(long, value_name = "LIST", value_parser = parse_faults)]
    faults: Option<SeededFaults>,
    /// Let SIGUSR1 begin and end traces in this folder: frames in pcapng, waves in FST. The cards are a little slower
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    trace: Option<PathBuf>,
    /// Write all frames of the wire to this file, as pcapng. The server is to end by a signal, or the last ones are missing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "trace")]
    capture: Option<PathBuf>,
    /// Never rest while a driver is there, and a board never at all. Without it, cards without anything to do but timers take 5 % of a processor, and timers last
    /// longer
    #[arg(long)]
    eager: bool,
}

/// Serves a simulated card on a Unix socket, as a vfio-user PCI device
///
/// One program at a time opens it, with `ferrowire -d sim:PATH`, the driver's `VfioUserBus`, or as a guest's device with
/// QEMU's `vfio-user-pci`. When it ends, however it ends, the card is reset and waits for the next. SIGINT ends the server and removes the
/// socket.
#[derive(Args, Debug)]
#[command(after_help = "Example, two cards in two processes on one wire:\n  \
    ferrowire-sim card --socket a.sock --wire stream:wire.sock\n  \
    ferrowire-sim card --socket b.sock --wire stream:wire.sock")]
pub struct CardArgs {
    /// Where to listen; a socket that a dead server left is replaced
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    socket: PathBuf,
    /// What is at the other end of the wire: `stream:PATH` (as QEMU's `-netdev stream`; connects, or listens where nobody does),
    /// `dgram:LOCAL,REMOTE` (as `-netdev dgram`), `tap:NAME` (an interface of this machine), or `none`
    #[arg(long, value_name = "WIRE", default_value = "none")]
    wire: LineSpec,
    /// The card's MAC address, which it has until a program sets another one
    #[arg(long, value_name = "ADDRESS", value_parser = parse_mac)]
    mac: Option<u64>,
    /// IP addresses of the card, with commas between: `ferrowire` gives it these when it opens it, and other programs can ask for them
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = parse_ip)]
    ip: Vec<IpAddr>,
    /// Where a QEMU connects (`-qmp unix:PATH`) whose guest is on this wire, or has this card: its clock stands while the card computes, so that
    /// its timers do not see how slow a simulation is. As many as want may connect
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    qmp: Option<PathBuf>,
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    common: Common,
}

/// Serves a simulated board without PCIe, on a serial port of this machine
///
/// A card on AXI4, its serial line and on-board memory, as boards with an ECP5 have them; the Ethernet MAC and the memory's controller are not there. One program at a time
/// opens the port, with `ferrowire -d serial:PATH@1200` or the driver's `SerialBus`: the rate says how patient it is with a board that is simulated, the line has another.
/// The card has no MAC address until a program gives it one. SIGINT ends the server and removes the port.
#[derive(Args, Debug)]
#[command(after_help = "Example, two boards on one wire:\n  \
    ferrowire-sim board --port a.tty --wire stream:wire.sock\n  \
    ferrowire-sim board --port b.tty --wire stream:wire.sock\n  \
    ferrowire -d serial:a.tty@1200 pingpong --mac 02:fe:00:00:00:01 -s 300 -n 2\n  \
    ferrowire -d serial:b.tty@1200 pingpong --mac 02:fe:00:00:00:02 -s 300 -n 2 localhost")]
pub struct BoardArgs {
    /// The serial port, a link to a pseudo-terminal; one that a dead server left is replaced
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    port: PathBuf,
    /// What is at the other end of the wire, as of `card`
    #[arg(long, value_name = "WIRE", default_value = "none")]
    wire: LineSpec,
    /// Where a QEMU connects whose guest is on this wire, as of `card`: its clock stands while frames pass, and goes on while a program uses the serial line
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    qmp: Option<PathBuf>,
    /// Configuration of the card, on AXI4 with 8 bytes a beat: a built-in name, or a TOML file
    #[arg(long, default_value = "axi-8b", value_name = "NAME|FILE")]
    config: String,
    #[command(flatten)]
    set: SetArgs,
    /// Bytes of on-board memory, which queues and registered memory lie in
    #[arg(long, default_value_t = 4 << 20, value_name = "BYTES")]
    memory: u64,
    #[command(flatten)]
    common: Common,
}

/// Serves two simulated cards on one wire, each on a socket of its own
///
/// SIGINT ends it and removes the sockets.
#[derive(Args, Debug)]
pub struct UpArgs {
    /// Folder of the sockets `ferrowire0.sock` and `ferrowire1.sock`
    #[arg(default_value = ".", value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    common: Common,
}

/// Cycles of a bit of a board's serial line: as few as it can be.
const BIT_CYCLES: u32 = 8;

/// MAC addresses of the cards of `up`: this and the next, of a range that is nobody's.
const FIRST_MAC: u64 = 0x02fe_0000_0001;

fn parse_mac(text: &str) -> Result<u64, String> {
    let parts: Vec<u8> = text
        .split(':')
        .map(|part| {
            let digits = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            u8::from_str_radix(part, 16).ok().filter(|_| digits)
        })
        .collect::<Option<_>>()
        .unwrap_or_default();
    match <[u8; 6]>::try_from(parts) {
        Ok(mac) if mac[0] & 1 == 0 && mac != [0; 6] => Ok(mac_number(mac)),
        _ => Err(format!("`{text}`: give the address of a single station, as 02:fe:00:00:00:01")),
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    match text.parse::<IpAddr>() {
        Ok(address) if !address.is_unspecified() && !address.is_multicast() => Ok(address),
        _ => Err(format!("`{text}`: give the address of a single station, as 10.0.0.1 or fd00::1")),
    }
}

/// Faults and their seed, and the one that is not by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SeededFaults {
    faults: Faults,
    seed: u64,
    dark: Option<Dark>,
}

/// How long a wire is dark if nobody says.
const DARK_MS: u64 = 1000;

fn parse_faults(text: &str) -> Result<SeededFaults, String> {
    let mut all = SeededFaults { faults: Faults { hold: 2000, ..Faults::default() }, seed: 1, dark: None };
    let (mut dark, mut dark_ms) = (None, None);
    for item in text.split(',') {
        let bad = || {
            format!("`{item}`: give `drop`, `duplicate`, `stale`, `reorder`, `corrupt` or `delay` a probability from 0 to 1, `hold`, `seed`, `dark` or `dark_ms` a number")
        };
        let (name, value) = item.split_once('=').ok_or_else(bad)?;
        let faults = &mut all.faults;
        let number = match name {
            "hold" => Some(&mut faults.hold),
            "seed" => Some(&mut all.seed),
            "dark" => Some(dark.insert(0)),
            "dark_ms" => Some(dark_ms.insert(0)),
            _ => None,
        };
        if let Some(number) = number {
            *number = value.parse().map_err(|_| bad())?;
            continue;
        }
        let chance = match name {
            "drop" => &mut faults.drop,
            "duplicate" => &mut faults.duplicate,
            "stale" => &mut faults.stale,
            "reorder" => &mut faults.reorder,
            "corrupt" => &mut faults.corrupt,
            "delay" => &mut faults.delay,
            _ => return Err(bad()),
        };
        *chance = value.parse().ok().filter(|p| (0.0..=1.0).contains(p)).ok_or_else(bad)?;
    }
    if dark.is_none() && dark_ms.is_some() {
        return Err("`dark_ms` is of `dark`: give the packet with which the wire goes dark".into());
    }
    let time = Duration::from_millis(dark_ms.unwrap_or(DARK_MS));
    all.dark = dark.map(|packet| Dark { packet: packet.max(1), time });
    Ok(all)
}

impl Chosen {
    /// The configuration, and the model of it.
    fn model(&self, trace: bool) -> Result<(RnicConfig, CardModel)> {
        let name = self.set.over(&self.config);
        let mut config = resolve(&name)?;
        if let Some(khz) = self.clock_khz {
            config.clock_khz = khz;
            config.validate().context("--clock-khz")?;
        }
        ensure!(config.eqs <= MSIX_MAX, "eqs = {}: BAR 0 has room for {MSIX_MAX} MSI-X vectors", config.eqs);
        let model = demo::build(&name, &config, trace)?;
        Ok((config, model))
    }
}

impl Common {
    /// Links store frames whole, so that a card may end in the middle of one; what the wire does, and at which rate. When it goes dark, if it does.
    fn wires(&self, world: &mut World, config: &RnicConfig) -> Option<Outage> {
        let dark = self.faults.and_then(|faults| faults.dark);
        let outage = dark.map(|dark| Outage::new(dark, config.clock_khz));
        for link in 0..2 {
            let filter: TimedFilter = match self.faults {
                Some(SeededFaults { faults, seed, .. }) => {
                    faults.filter(seed.wrapping_mul(2).wrapping_add(link as u64))
                }
                None => Box::new(|frame| vec![Delivery::at_once(frame.to_vec())]),
            };
            let filter = match &outage {
                Some(outage) => outage.filter(filter),
                None => filter,
            };
            world.link_mut(link).set_timed_filter(Some(filter));
        }
        world.set_line_rate(Some(measure::line_gbps(config.beat_bytes, config.clock_khz)));
        outage
    }

    /// Serves cards whose wire ends within their world, and without guests.
    fn server(&self, mut world: World, ports: Vec<Port>, outage: Option<Outage>) -> Result<Server> {
        if let Some(file) = &self.capture {
            world.capture(file)?;
        }
        let tracer = self.trace.as_deref().map(Tracer::new).transpose()?;
        let clock = Clock::new(self.eager);
        Ok(Server { world, ports, serial: None, line: None, clock, guests: None, outage, tracer })
    }
}

/// A world of one card, and what is at the other end of its wire.
#[allow(clippy::type_complexity)]
fn single(model: &CardModel, wire: &LineSpec) -> Result<(World, Option<(Plug, Box<dyn Line>)>)> {
    let plug = Plug::default();
    let line = line::open(wire).context("wire")?.map(|line| (plug.clone(), line));
    let world = match line {
        Some(_) => World::with_peer(model, 0, 0, Box::new(plug))?,
        None => World::single(model, 0)?,
    };
    Ok((world, line))
}

/// Serves a board.
///
/// # Errors
/// As [`card`].
pub fn board(args: &BoardArgs) -> Result<()> {
    let common = &args.common;
    let name = args.set.over(&args.config);
    let config = resolve(&name)?;
    let (clock_khz, beat_bytes) = (config.clock_khz, config.beat_bytes);
    let serial = SerialConfig {
        clock_khz,
        baud: clock_khz * 1000 / BIT_CYCLES,
        memory_bytes: args.memory,
        memory_base: SerialConfig::base_of(args.memory),
        beat_bytes,
    };
    ensure!(config.axi, "--config {name}: the card of a board is on AXI4, as axi-8b");
    serial.validate().context("on a board with a serial line")?;
    let trace = common.trace.is_some();
    let model =
        demo::built(&format!("{name} on a board"), || CardModel::on_a_board(&config, &serial, trace))?;
    let signals = Signals::new()?;
    let guests = args.qmp.as_deref().map(Guests::bind).transpose()?;
    let (mut world, line) = single(&model, &args.wire)?;
    let outage = common.wires(&mut world, &config);
    let tty = Tty::open(&args.port)?;
    println!("ferrowire -d serial:{}@1200 info", args.port.display());
    let server = common.server(world, Vec::new(), outage)?;
    Server { line, guests, serial: Some(tty), ..server }.run(&signals)
}

/// Serves one card.
///
/// # Errors
/// The model cannot be built, the socket or the wire is in use, or the server fails.
pub fn card(args: &CardArgs) -> Result<()> {
    let common = &args.common;
    let (config, model) = args.chosen.model(common.trace.is_some())?;
    let signals = Signals::new()?;
    let listener = Listener::bind(&args.socket)?;
    let guests = args.qmp.as_deref().map(Guests::bind).transpose()?;
    let (mut world, line) = single(&model, &args.wire)?;
    let outage = common.wires(&mut world, &config);
    let device = Device::new(&mut world, 0, model, config.eqs, args.mac)?.with_addresses(args.ip.clone());
    println!("ferrowire -d sim:{} info", args.socket.display());
    let ports = vec![Port::new(listener, device, args.chosen.verbose)];
    Server { line, guests, ..common.server(world, ports, outage)? }.run(&signals)
}

/// Serves two cards.
///
/// # Errors
/// As [`card`].
pub fn up(args: &UpArgs) -> Result<()> {
    let common = &args.common;
    if !args.folder.is_dir() {
        bail!("{} is no folder; make it, or choose another", args.folder.display());
    }
    let (config, model) = args.chosen.model(common.trace.is_some())?;
    let signals = Signals::new()?;
    let mut world = World::pair(&model, 0, 0)?;
    let outage = common.wires(&mut world, &config);
    let mut ports = Vec::new();
    for card in 0..2 {
        let path = args.folder.join(format!("ferrowire{card}.sock"));
        let mac = Some(FIRST_MAC + card as u64);
        let device = Device::new(&mut world, card, model.clone(), config.eqs, mac)?;
        ports.push(Port::new(Listener::bind(&path)?, device, args.chosen.verbose));
        println!("ferrowire -d sim:{} info", path.display());
    }
    let [a, b] = [0, 1].map(|card| args.folder.join(format!("ferrowire{card}.sock")).display().to_string());
    eprintln!(
        "Two cards on one wire, until Ctrl-C. Each of these in a terminal of its own:\n  \
         ferrowire -d sim:{a} bw write\n  \
         ferrowire -d sim:{b} bw write localhost\n  \
         ferrowire -d sim:{a} top"
    );
    common.server(world, ports, outage)?.run(&signals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ip_address_is_of_a_single_station() {
        assert_eq!(parse_ip("10.0.0.1"), Ok([10, 0, 0, 1].into()));
        assert!(parse_ip("fd00::1").is_ok());
        for bad in ["", "10.0.0", "0.0.0.0", "224.0.0.1", "ff02::1", "10.0.0.1/24"] {
            assert!(parse_ip(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mac_address_is_of_a_single_station() {
        assert_eq!(parse_mac("02:fe:00:00:00:2a"), Ok(0x02fe_0000_002a));
        for bad in [
            "",
            "02:fe:00:00:00",
            "2:fe:0:0:0:1",
            "03:00:00:00:00:01",
            "00:00:00:00:00:00",
            "02:fe:00:00:00:+1",
        ] {
            assert!(parse_mac(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cards_are_those_of_100g_unless_another_configuration_is_asked_for() {
        #[derive(clap::Parser)]
        struct Line<T: Args> {
            #[command(flatten)]
            args: T,
        }
        fn config<T: Args>(words: &[&str], of: fn(T) -> Chosen) -> String {
            let words = ["ferrowire-sim"].iter().chain(words);
            of(<Line<T> as clap::Parser>::try_parse_from(words).unwrap().args).config
        }
        assert_eq!(config(&[], |up: UpArgs| up.chosen), "generic-64b");
        assert_eq!(config(&["--socket", "a.sock"], |card: CardArgs| card.chosen), "generic-64b");
        assert_eq!(config(&["--config", "axi-8b"], |up: UpArgs| up.chosen), "axi-8b");
    }

    #[test]
    fn faults_are_a_list_of_names_and_numbers() {
        let all = parse_faults("drop=0.25,hold=9,seed=7,corrupt=1,stale=0.5").unwrap();
        let faults = Faults { drop: 0.25, corrupt: 1.0, stale: 0.5, hold: 9, ..Faults::default() };
        assert_eq!(all, SeededFaults { faults, seed: 7, dark: None });
        let dark = |text| parse_faults(text).map(|all| all.dark);
        let of = |packet, ms| Ok(Some(Dark { packet, time: Duration::from_millis(ms) }));
        assert_eq!((dark("dark=30"), dark("dark_ms=5,drop=0.1,dark=2")), (of(30, 1000), of(2, 5)));
        assert!(dark("dark_ms=5").unwrap_err().contains("the packet"));
        for bad in ["", "drop", "drop=2", "drop=-0.1", "drop=x", "lose=0.1", "hold=0.5", "drop=NaN", "dark=x"]
        {
            assert!(parse_faults(bad).is_err(), "{bad}");
        }
    }
}
