// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire list`: the cards that `-d` can name on this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use ferrowire::spec::pci;
use ferrowire_cards::{find, Place};
use serde::Serialize;

use crate::args::Common;
use crate::failure::Failure;
use crate::out;
use crate::sysfs::Sysfs;

/// Lists the cards that are there: simulated and emulated ones on sockets, and those on a PCI bus
///
/// It looks for sockets in the folder where it is started and in $XDG_RUNTIME_DIR/ferrowire, and asks each that listens whether it is a card's. No card is taken from
/// the program that has it. Serial ports are listed with --serial alone, and not opened: what is at their other end is not known.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    ferrowire list\n  \
    ferrowire list /tmp/cards --json\n  \
    export FERROWIRE_DEVICE=$(ferrowire list --json | jq -r '.cards[0].device')")]
pub struct ListArgs {
    /// Folder of sockets, besides those
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folders: Vec<PathBuf>,
    /// Also list serial ports, to which boards may be connected
    #[arg(long)]
    serial: bool,
    /// Where sysfs is
    #[arg(long, hide = true, default_value = "/sys", value_hint = ValueHint::DirPath)]
    sysfs: PathBuf,
    /// Where device files are
    #[arg(long, hide = true, default_value = "/dev", value_hint = ValueHint::DirPath)]
    dev: PathBuf,
}

/// Something that `-d` can name.
#[derive(Debug, Serialize)]
struct Found {
    /// As `-d` names it.
    device: String,
    kind: &'static str,
    /// Its MAC address, if it could be asked.
    mac: Option<String>,
    /// The driver that has it, of a card on a PCI bus.
    driver: Option<String>,
    /// What is to be known or done.
    note: Option<String>,
}

impl Found {
    fn new(device: &Place, kind: &'static str) -> Self {
        Self { device: device.to_string(), kind, mac: None, driver: None, note: None }
    }
}

/// Lists them.
pub fn run(common: &Common, args: &ListArgs) -> Result<(), Failure> {
    let mut cards = sockets(&args.folders)?;
    cards.extend(on_a_bus(&Sysfs(args.sysfs.clone()))?);
    if args.serial {
        cards.extend(serial_ports(&args.dev));
    }
    if common.json {
        return out::json(&serde_json::json!({ "cards": cards }));
    }
    if cards.is_empty() {
        eprintln!("ferrowire: no cards are here; `ferrowire sim up` starts two simulated ones");
        return Ok(());
    }
    let width = cards.iter().map(|card| card.device.len()).max().unwrap_or(0).max(6);
    let mut text = format!("{:<width$}  {:<9}  {:<17}  note\n", "card", "kind", "MAC address");
    for Found { device, kind, mac, driver, note } in &cards {
        let mac = mac.as_deref().unwrap_or("-");
        let driver = driver.as_ref().map(|driver| format!("driver {driver}"));
        let notes: Vec<String> = driver.into_iter().chain(note.clone()).collect();
        text += format!("{device:<width$}  {kind:<9}  {mac:<17}  {}", notes.join("; ")).trim_end();
        text += "\n";
    }
    out::text(&text)
}

/// Simulated cards whose sockets are in the folders given, where the command was started, and in the user's folder for such.
fn sockets(given: &[PathBuf]) -> Result<Vec<Found>, Failure> {
    let mut seen = BTreeSet::new();
    let mut cards = Vec::new();
    for folder in find::folders(given) {
        let found = find::sockets(&folder, &mut seen);
        let found = found
            .map_err(Failure::os(format!("list {}", folder.display()), "give a folder that can be read"))?;
        cards.extend(found.into_iter().map(|socket| Found {
            mac: socket.mac.map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":")),
            note: socket.note,
            ..Found::new(&Place::Socket(socket.path), if socket.engine { "emulated" } else { "simulated" })
        }));
    }
    Ok(cards)
}

/// Cards on a PCI bus, whoever has them.
fn on_a_bus(sysfs: &Sysfs) -> Result<Vec<Found>, Failure> {
    let mut cards = Vec::new();
    for address in sysfs.addresses() {
        let device = sysfs.device(&address)?;
        if device.ids != (pci::VENDOR, pci::DEVICE) {
            continue;
        }
        let bound = device.driver.as_deref() == Some("vfio-pci");
        let mut card = Found::new(&Place::Pci(address.clone()), "PCI");
        card.note = (!bound).then(|| format!("`sudo ferrowire bind {address}` gives it to programs"));
        card.driver = Some(device.driver.unwrap_or_else(|| "none".into()));
        cards.push(card);
    }
    Ok(cards)
}

/// Serial ports as USB adapters have them.
fn serial_ports(dev: &Path) -> Vec<Found> {
    let entries = std::fs::read_dir(dev).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("ttyUSB") || name.starts_with("ttyACM")
    });
    paths.sort();
    let port = |path: PathBuf| Found {
        note: Some("not opened: a board may be there".into()),
        ..Found::new(&Place::Serial(path, ferrowire::serial::BAUD), "serial")
    };
    paths.into_iter().map(port).collect()
}
