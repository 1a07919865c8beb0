// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire list`: the cards that `-d` can name on this machine.

use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use ferrowire::spec::pci;
use ferrowire::vfio_user::SocketError;
use ferrowire::{Monitor, VfioUserBus};
use serde::Serialize;

use crate::args::Common;
use crate::device::Device;
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

/// How long a socket may take to answer, which is not known to be a card's.
const ANSWER: Duration = Duration::from_secs(2);

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
    fn new(device: &Device, kind: &'static str) -> Self {
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
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    let runtime = runtime.map(|path| Path::new(&path).join("ferrowire")).filter(|path| path.is_dir());
    let mut seen = BTreeSet::new();
    let mut cards = Vec::new();
    for folder in [PathBuf::from(".")].iter().chain(given).chain(&runtime) {
        let failed = || Failure::os(format!("list {}", folder.display()), "give a folder that can be read");
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            // Through links, for it is the socket that counts.
            let is_socket = std::fs::metadata(&path).is_ok_and(|file| file.file_type().is_socket());
            let whole = std::fs::canonicalize(&path);
            if is_socket && whole.is_ok_and(|whole| seen.insert(whole)) {
                paths.push(path.strip_prefix(".").map(Path::to_path_buf).unwrap_or(path));
            }
        }
        paths.sort_by_cached_key(|path| counted(&path.to_string_lossy()));
        cards.extend(paths.into_iter().filter_map(ask));
    }
    Ok(cards)
}

/// A name by which `card10` comes after `card9`: each number in it has as many digits as the largest.
fn counted(name: &str) -> String {
    let mut key = String::new();
    let mut rest = name;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (text, from) = rest.split_at(at);
        let end = from.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(from.len());
        let (number, more) = from.split_at(end);
        key += &format!("{text}{number:0>20}");
        rest = more;
    }
    key + rest
}

/// Whether a card's server listens on a socket.
fn ask(path: PathBuf) -> Option<Found> {
    let mut card = Found::new(&Device::Socket(path.clone()), "simulated");
    let look = |bus| {
        let mut monitor = Monitor::open(bus)?;
        Ok::<_, ferrowire::Error>((monitor.is_engine(), monitor.port()?.mac))
    };
    match VfioUserBus::observe_within(&path, ANSWER) {
        Ok(bus) => match look(bus) {
            Ok((engine, mac)) => {
                card.kind = if engine { "emulated" } else { "simulated" };
                card.mac = Some(mac.map(|byte| format!("{byte:02x}")).join(":"));
            }
            Err(error) => card.note = Some(error.to_string()),
        },
        Err(SocketError::Connect { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            card.note = Some("permission denied: it is another user's".into());
        }
        // Nobody listens, or it is no card's.
        Err(_) => return None,
    }
    Some(card)
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
        let mut card = Found::new(&Device::Pci(address.clone()), "PCI");
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
        ..Found::new(&Device::Serial(path, ferrowire::serial::BAUD), "serial")
    };
    paths.into_iter().map(port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_in_the_order_of_their_numbers() {
        let mut names = ["b9", "ferrowire10.sock", "ferrowire9.sock", "a", "ferrowire2.sock", "ferrowire"];
        names.sort_by_cached_key(|name| counted(name));
        assert_eq!(names, ["a", "b9", "ferrowire", "ferrowire2.sock", "ferrowire9.sock", "ferrowire10.sock"]);
        assert_eq!(counted("7x12"), "00000000000000000007x00000000000000000012");
    }
}
