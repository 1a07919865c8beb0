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

use super::limits;
use super::line::{self, Line, LineSpec, Plug};
use super::outage::{Dark, Outage};
use super::{
    Cables, Cards, Device, Engines, Guests, Listener, Losses, Port, Server, Signals, Tracer, Tty, Verilated,
};
use crate::bus::World;
use crate::card::CardModel;
use crate::config::{resolve, SetArgs};
use crate::demo;
use crate::emulated::{Card, Fabric, FIRST_MAC};
use crate::measure;
use crate::say::{print, say};
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
    /// Serve emulated cards: the reference engine in the place of each. That takes neither Verilator nor a compiler, starts at once and is fast; no design is simulated, so
    /// there is no configuration, and figures measure nothing
    #[arg(long, conflicts_with_all = ["config", "set", "clock_khz", "eager"])]
    engine: bool,
    /// Tell when clients leave, and why, how often the card wanted memory that its client has not mapped, and frames that the switch has lost
    #[arg(long, short)]
    verbose: bool,
}

/// What all commands take.
#[derive(Args, Debug)]
struct Common {
    /// What the wire does to frames, each way, with its probability: `drop=0.01,duplicate=0.01,stale=0.01,reorder=0.01,corrupt=0.01,delay=0.01`; `hold=N`
    /// is the longest delay in cycles (2000, at most 1000000000), `seed=N` makes it another run. `dark=N` has it lose everything, both ways, from the Nth RoCE packet on, for
    /// `dark_ms=N` milliseconds (1000) of the card's clock
    #[arg(long, value_name = "LIST", value_parser = parse_faults)]
    faults: Option<SeededFaults>,
    /// Let SIGUSR1 begin and end traces in this folder: frames in pcapng, waves in FST. The cards are a little slower. Emulated cards have no waves
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    trace: Option<PathBuf>,
    /// Write all frames of the wire to this file, as pcapng. The server is to end by a signal, or the last ones are missing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "trace")]
    capture: Option<PathBuf>,
    /// Never rest while a driver is there, and a board never at all. Without it, cards without anything to do but timers take 5 % of a processor, and timers last
    /// longer. Not of emulated cards, which have timers in real time and take no processor for these
    #[arg(long)]
    eager: bool,
}

/// Serves a simulated card on a Unix socket, as a vfio-user PCI device
///
/// One program at a time opens it, with `ferrowire -d sim:PATH`, the driver's `VfioUserBus`, or as a guest's device with
/// QEMU's `vfio-user-pci`. When it ends, however it ends, the card is reset and waits for the next. SIGUSR2 takes the card's link down, and the
/// next one up again. SIGINT ends the server and removes the socket.
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

/// Serves simulated cards, each on a socket of its own: two on one wire, or more on a switch
///
/// The switch learns addresses as an Ethernet switch does. SIGUSR2 takes the links of all cards down, and the next one up again. SIGINT ends the server and
/// removes the sockets.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    ferrowire-sim up\n  \
    ferrowire-sim up --engine --cards 4 --ip 10.0.0.1\n  \
    ferrowire-sim up /tmp/cards --cards 3 --config generic-8b")]
pub struct UpArgs {
    /// Folder of the sockets `ferrowire0.sock`, `ferrowire1.sock` and so on
    #[arg(default_value = ".", value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// How many: 2 on one wire, 3 to 64 on a switch
    #[arg(long, default_value = "2", value_name = "N", value_parser = parse_cards)]
    cards: usize,
    /// Frames that wait at a port of the switch at most, 1 to 1048576; those that come to a full queue are lost, which `--verbose` tells. 1024 if not given
    #[arg(long, value_name = "FRAMES", value_parser = parse_queue)]
    queue: Option<usize>,
    /// IP address of the first card, in each family at most one; the next cards have those that follow. `ferrowire` gives them to a card when it opens it, and other
    /// programs can ask for them
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = parse_ip)]
    ip: Vec<IpAddr>,
    /// Emulated cards without selective retransmission, as the hardware is today: their numbers, counted from 0, with commas between
    #[arg(long, value_name = "CARD", value_delimiter = ',', requires = "engine")]
    without_selective: Vec<usize>,
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    common: Common,
}

/// Cycles of a bit of a board's serial line: as few as it can be.
const BIT_CYCLES: u32 = 8;

/// Cards that `up` serves.
const CARDS: std::ops::RangeInclusive<usize> = 2..=64;

/// Frames that wait at a port of the switch, and the most that may be asked for.
const QUEUE: usize = 1024;
const QUEUE_MAX: usize = 1 << 20;

fn parse_cards(text: &str) -> Result<usize, String> {
    let (least, most) = (CARDS.start(), CARDS.end());
    text.parse().ok().filter(|cards| CARDS.contains(cards)).ok_or_else(|| {
        format!("`{text}`: give {least} to {most} cards; `ferrowire-sim card` serves one, on a wire that leads elsewhere")
    })
}

fn parse_queue(text: &str) -> Result<usize, String> {
    let known = text.parse().ok().filter(|queue| (1..=QUEUE_MAX).contains(queue));
    known.ok_or_else(|| format!("`{text}`: give 1 to {QUEUE_MAX} frames"))
}

/// The address `cards` after another one, if it is of a single station.
fn following(first: IpAddr, cards: usize) -> Option<IpAddr> {
    let next: IpAddr = match first {
        IpAddr::V4(ip) => u32::from(ip).checked_add(cards as u32)?.to_be_bytes().into(),
        IpAddr::V6(ip) => u128::from(ip).checked_add(cards as u128)?.to_be_bytes().into(),
    };
    (!next.is_multicast() && !next.is_unspecified()).then_some(next)
}

/// The addresses of each of `cards` cards.
fn addresses(first: &[IpAddr], cards: usize) -> Result<Vec<Vec<IpAddr>>> {
    for (ip, family) in [(IpAddr::is_ipv4 as fn(&IpAddr) -> bool, "IPv4"), (IpAddr::is_ipv6, "IPv6")] {
        ensure!(
            first.iter().filter(|address| ip(address)).count() <= 1,
            "--ip: give one {family} address, that of the first card; the other cards have those that follow"
        );
    }
    for ip in first {
        let has = (0..cards).take_while(|card| following(*ip, *card).is_some()).count();
        ensure!(
            has == cards,
            "--ip {ip}: {cards} cards need {cards} addresses of single stations from there on, and there are {has}; begin lower"
        );
    }
    Ok((0..cards).map(|card| first.iter().filter_map(|ip| following(*ip, card)).collect()).collect())
}

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

/// Longest delay that may be asked for, in cycles: a second of emulated cards.
const HOLD_MAX: u64 = 1_000_000_000;

/// How long a wire is dark if nobody says.
const DARK_MS: u64 = 1000;

fn parse_faults(text: &str) -> Result<SeededFaults, String> {
    let mut all = SeededFaults { faults: Faults { hold: 2000, ..Faults::default() }, seed: 1, dark: None };
    let (mut dark, mut dark_ms) = (None, None);
    for item in text.split(',') {
        let bad = || {
            format!("`{item}`: give `drop`, `duplicate`, `stale`, `reorder`, `corrupt` or `delay` a probability from 0 to 1, `hold` a number up to {HOLD_MAX}, `seed`, `dark` or `dark_ms` a number")
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
            let most = if name == "hold" { HOLD_MAX } else { u64::MAX };
            *number = value.parse().ok().filter(|number| *number <= most).ok_or_else(bad)?;
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

/// What becomes of wires while they are served.
struct Wires {
    outage: Option<Outage>,
    cables: Cables,
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

/// As `carries`, but for the two MAC addresses: a switch drops a frame in which bits of these are wrong, as the frame check sequence says so.
fn with_addresses(mut carries: TimedFilter) -> TimedFilter {
    const ADDRESSES: std::ops::Range<usize> = 0..12;
    Box::new(move |frame| {
        let mut delivered = carries(frame);
        for delivery in &mut delivered {
            if let (Some(to), Some(from)) = (delivery.frame.get_mut(ADDRESSES), frame.get(ADDRESSES)) {
                to.copy_from_slice(from);
            }
        }
        delivered
    })
}

impl Common {
    /// Links store frames whole, so that a card may end in the middle of one; what wires do to frames. When they go dark, if they do, and their cables.
    fn wires(&self, cards: &mut impl Cards) -> Wires {
        let cables = Cables::default();
        let dark = self.faults.and_then(|faults| faults.dark);
        let outage = dark.map(|dark| Outage::new(dark, cards.clock_khz()));
        let switched = cards.is_switched();
        let links = cards.links();
        let ways = links.iter().filter(|(_, is_way)| *is_way).count() as u64;
        let mut seeds = 0..ways;
        for (link, is_way) in links {
            // A number for each link on which frames meet faults.
            let way = is_way.then(|| seeds.next()).flatten();
            let filter: TimedFilter = match self.faults.zip(way) {
                Some((SeededFaults { faults, seed, .. }, way)) => {
                    let filter = faults.filter(seed.wrapping_mul(ways).wrapping_add(way));
                    if switched {
                        with_addresses(filter)
                    } else {
                        filter
                    }
                }
                None => Box::new(|frame| vec![Delivery::at_once(frame.to_vec())]),
            };
            let filter = match outage.as_ref().filter(|_| is_way) {
                Some(outage) => outage.filter(filter),
                None => filter,
            };
            link.set_timed_filter(Some(cables.filter(filter)));
        }
        Wires { outage, cables }
    }

    /// Serves cards whose wire ends among them, and without guests.
    fn server<C: Cards>(&self, mut cards: C, ports: Vec<Port>, wires: Wires) -> Result<Server<C>> {
        if let Some(file) = &self.capture {
            cards.capture(file)?;
        }
        let tracer = self.trace.as_deref().map(Tracer::new).transpose()?;
        let (serial, line, guests, losses) = (None, None, None, None);
        let Wires { outage, cables } = wires;
        Ok(Server { cards, ports, serial, line, guests, outage, cables, tracer, losses })
    }
}

/// The end of a card's wire, and what is there.
type Far = Option<(Plug, Box<dyn Line>)>;

fn far(wire: &LineSpec) -> Result<Far> {
    Ok(line::open(wire).context("wire")?.map(|line| (Plug::default(), line)))
}

/// A world of one card, before that end of its wire.
fn single(model: &CardModel, config: &RnicConfig, far: &Far) -> Result<World> {
    let mut world = match far {
        Some((plug, _)) => World::with_peer(model, 0, 0, Box::new(plug.clone()))?,
        None => World::single(model, 0)?,
    };
    world.set_line_rate(Some(line_gbps(config)));
    Ok(world)
}

/// Rate of the wires of a configuration's cards.
fn line_gbps(config: &RnicConfig) -> f64 {
    measure::line_gbps(config.beat_bytes, config.clock_khz)
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
    let line = far(&args.wire)?;
    let world = single(&model, &config, &line)?;
    let mut cards = Verilated::new(world, model, common.eager);
    let wires = common.wires(&mut cards);
    let tty = Tty::open(&args.port)?;
    print(format_args!("ferrowire -d serial:{}@1200 info", args.port.display()));
    let server = common.server(cards, Vec::new(), wires)?;
    Server { line, guests, serial: Some(tty), ..server }.run(&signals)
}

/// Serves one card.
///
/// # Errors
/// The model cannot be built, the socket or the wire is in use, or the server fails.
pub fn card(args: &CardArgs) -> Result<()> {
    if args.chosen.engine {
        let line = far(&args.wire)?;
        let peer = line.as_ref().map(|(plug, _)| Box::new(plug.clone()) as Box<_>);
        return serve_card(args, Engines::new(Fabric::single(peer)), MSIX_MAX, line);
    }
    let (config, model) = args.chosen.model(args.common.trace.is_some())?;
    let line = far(&args.wire)?;
    let world = single(&model, &config, &line)?;
    serve_card(args, Verilated::new(world, model, args.common.eager), config.eqs, line)
}

fn serve_card(args: &CardArgs, mut cards: impl Cards, vectors: u32, line: Far) -> Result<()> {
    let common = &args.common;
    limits::raise_files(1);
    let signals = Signals::new()?;
    let listener = Listener::bind(&args.socket)?;
    let guests = args.qmp.as_deref().map(Guests::bind).transpose()?;
    let wires = common.wires(&mut cards);
    let device = Device::new(&mut cards, 0, 1, vectors, args.mac)?.with_addresses(args.ip.clone());
    print(format_args!("ferrowire -d sim:{} info", args.socket.display()));
    let ports = vec![Port::new(listener, device, args.chosen.verbose)];
    Server { line, guests, ..common.server(cards, ports, wires)? }.run(&signals)
}

/// Serves two cards or more.
///
/// # Errors
/// As [`card`].
pub fn up(args: &UpArgs) -> Result<()> {
    if !args.folder.is_dir() {
        bail!("{} is no folder; make it, or choose another", args.folder.display());
    }
    ensure!(
        args.cards > 2 || args.queue.is_none(),
        "--queue: two cards have no switch; give --cards 3 or more"
    );
    // Wrong ones are told before a model is built.
    addresses(&args.ip, args.cards)?;
    if let Some(card) = args.without_selective.iter().find(|card| **card >= args.cards) {
        bail!("--without-selective {card}: give numbers from 0 to {}", args.cards - 1);
    }
    let queue = args.queue.unwrap_or(QUEUE);
    if args.chosen.engine {
        let mut fabric = match args.cards {
            2 => Fabric::pair(),
            cards => Fabric::switched(cards, queue),
        };
        for card in &args.without_selective {
            fabric.with(*card, Card::leave_out_selective);
        }
        return serve_up(args, Engines::new(fabric), MSIX_MAX);
    }
    let (config, model) = args.chosen.model(args.common.trace.is_some())?;
    let mut world = match args.cards {
        2 => World::pair(&model, 0, 0)?,
        cards => World::switched(&model, cards, 0, queue)?,
    };
    world.set_line_rate(Some(line_gbps(&config)));
    serve_up(args, Verilated::new(world, model, args.common.eager), config.eqs)
}

fn serve_up(args: &UpArgs, mut cards: impl Cards, vectors: u32) -> Result<()> {
    let common = &args.common;
    limits::raise_files(args.cards);
    let signals = Signals::new()?;
    let wires = common.wires(&mut cards);
    let path = |card| args.folder.join(format!("ferrowire{card}.sock"));
    let mut ports = Vec::new();
    for (card, addresses) in addresses(&args.ip, args.cards)?.into_iter().enumerate() {
        let mac = Some(FIRST_MAC + card as u64);
        let device = Device::new(&mut cards, card, args.cards, vectors, mac)?.with_addresses(addresses);
        ports.push(Port::new(Listener::bind(&path(card))?, device, args.chosen.verbose));
    }
    // After the last one: a program that reads this finds all of them.
    for card in 0..args.cards {
        print(format_args!("ferrowire -d sim:{} info", path(card).display()));
    }
    let kind = if args.chosen.engine { "emulated cards" } else { "cards" };
    let joined = if cards.is_switched() { "a switch" } else { "one wire" };
    let [a, b] = [0, 1].map(|card| path(card).display().to_string());
    say(format_args!(
        "{} {kind} on {joined}, until Ctrl-C. Each of these in a terminal of its own:\n  \
         ferrowire -d sim:{a} bw write\n  \
         ferrowire -d sim:{b} bw write localhost\n  \
         ferrowire -d sim:{a} top",
        if args.cards == 2 { "Two".into() } else { args.cards.to_string() }
    ));
    let server = common.server(cards, ports, wires)?;
    let losses = args.chosen.verbose.then(Losses::default);
    Server { losses, ..server }.run(&signals)
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
        // Emulated cards have none.
        let wrong: [&[&str]; 4] =
            [&["--config", "axi-8b"], &["--set", "qps=9"], &["--clock-khz", "1000"], &["--eager"]];
        for wrong in wrong {
            let words = [&["ferrowire-sim", "--engine"], wrong].concat();
            let error = <Line<UpArgs> as clap::Parser>::try_parse_from(words).err().unwrap();
            assert_eq!(error.kind(), clap::error::ErrorKind::ArgumentConflict, "{error}");
        }
    }

    #[test]
    fn there_are_2_to_64_cards_and_others_are_refused_with_the_range() {
        assert_eq!(["2", "3", "64"].map(parse_cards), [Ok(2), Ok(3), Ok(64)]);
        for bad in ["0", "1", "65", "-3", "two", "", "18446744073709551618"] {
            let error = parse_cards(bad).unwrap_err();
            assert!(error.contains("2 to 64") && error.contains("ferrowire-sim card"), "{error}");
        }
        assert_eq!((parse_queue("1"), parse_queue("1048576")), (Ok(1), Ok(1 << 20)));
        assert!(["0", "1048577", "x"].iter().all(|bad| parse_queue(bad).is_err()));
    }

    #[test]
    fn the_next_cards_have_the_addresses_that_follow() {
        let ip = |text: &str| parse_ip(text).unwrap();
        let all = addresses(&[ip("10.0.0.255"), ip("fd00::fffe")], 3).unwrap();
        assert_eq!(all[0], [ip("10.0.0.255"), ip("fd00::fffe")]);
        assert_eq!(all[2], [ip("10.0.1.1"), ip("fd00::1:0")]);
        assert_eq!(addresses(&[], 2).unwrap(), [[], []] as [[IpAddr; 0]; 2]);
        let error = |list: &[IpAddr], cards| addresses(list, cards).unwrap_err().to_string();
        assert!(error(&[ip("10.0.0.1"), ip("10.0.0.9")], 2).contains("one IPv4 address"));
        for last in ["223.255.255.255", "255.255.255.255", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] {
            let error = error(&[ip(last)], 2);
            assert!(error.contains(last) && error.contains("there are 1; begin lower"), "{error}");
        }
    }

    #[test]
    fn a_switch_gets_frames_with_the_addresses_that_they_were_sent_with() {
        let all = Faults { corrupt: 1.0, ..Faults::default() };
        let mut filter = with_addresses(all.filter(3));
        let frame: Vec<u8> = (0..20).collect();
        let out: Vec<Vec<u8>> =
            (0..200).flat_map(|_| filter(&frame)).map(|delivery| delivery.frame).collect();
        assert_eq!(out.len(), 200);
        assert!(out.iter().all(|out| out[..12] == frame[..12]));
        let changed = out.iter().filter(|out| **out != frame).count();
        assert!((40..120).contains(&changed), "{changed} of 200 changed in 8 of 20 bytes");
        assert_eq!(
            with_addresses(Box::new(|_| vec![Delivery::at_once(vec![7; 3])]))(&frame)[0].frame,
            [7; 3]
        );
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
        let bad = ["", "drop", "drop=2", "drop=-0.1", "drop=x", "lose=0.1", "hold=0.5", "drop=NaN", "dark=x"];
        for bad in bad.into_iter().chain(["hold=1000000001", "hold=18446744073709551615"]) {
            assert!(parse_faults(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_faults("hold=1000000000").unwrap().faults.hold, HOLD_MAX);
    }
}
