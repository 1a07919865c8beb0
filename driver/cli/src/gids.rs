// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire gids`: the addresses that this command gives a card.
//!
//! A card has its table of GIDs for one program: each reset empties it, and it cannot be read (`GID_WRITE`). So what is to last is kept in a file
//! of the user, and given to the card whenever a command opens it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ferrowire::spec::csr::port::GIDS;
use serde_json::json;

use crate::args::Common;
use crate::device::Device;
use crate::failure::Failure;
use crate::out;

/// Lists, adds and removes the addresses that `pingpong`, `bw` and `lat` give a card
///
/// The first is the link-local address of the card's MAC address, as Linux makes it; behind it come those that a simulated card was given with `--ip`. A card forgets its addresses when a program opens or leaves it, so those
/// that are added here are kept in a file, $XDG_CONFIG_HOME/ferrowire/gids.json or ~/.config/ferrowire/gids.json, and given to it each time. `-x` chooses one by its number.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    ferrowire -d sim:ferrowire0.sock gids\n  \
    ferrowire -d sim:ferrowire0.sock gids add 10.0.0.1\n  \
    ferrowire -d sim:ferrowire0.sock bw send -x 1")]
pub struct GidsArgs {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List them, which is done without a word, too
    List,
    /// Add an address
    Add {
        /// IPv4 or IPv6
        address: IpAddr,
    },
    /// Remove an address
    Remove {
        /// IPv4 or IPv6
        address: IpAddr,
    },
}

/// The link-local address that a port has by its MAC address (RFC 4291, appendix A); `None` without one.
pub fn link_local(mac: [u8; 6]) -> Option<IpAddr> {
    let [a, b, c, d, e, f] = mac;
    let id = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    (mac != [0; 6]).then(|| Ipv6Addr::from(0xfe80 << 112 | u128::from(id)).into())
}

/// An address as a GID is written: eight groups of four digits (IBTA A17.4.3; IPv4 as ::ffff:a.b.c.d).
pub fn as_gid(address: IpAddr) -> String {
    as_v6(address).segments().map(|group| format!("{group:04x}")).join(":")
}

/// The address whose 16 bytes a GID has: IPv4 is mapped (IBTA A17.4.3).
pub fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn file() -> Result<PathBuf, Failure> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    let none = || Failure::failed("gids: there is no folder for settings", "set HOME or XDG_CONFIG_HOME");
    Ok(folder.ok_or_else(none)?.join("ferrowire").join("gids.json"))
}

type Kept = BTreeMap<String, Vec<IpAddr>>;

fn load() -> Result<Kept, Failure> {
    let path = file()?;
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Kept::new()),
        Err(error) => return Err(Failure::os(format!("read {}", path.display()), "make it readable")(error)),
    };
    let bad =
        |error| Failure::failed(format!("{}: {error}", path.display()), "repair the file, or remove it");
    serde_json::from_str(&text).map_err(bad)
}

fn store(kept: &Kept) -> Result<(), Failure> {
    let path = file()?;
    let failed = || Failure::os(format!("write {}", path.display()), "make its folder writable");
    let text = serde_json::to_string_pretty(kept).map_err(|error| failed()(error.into()))?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed())?;
    }
    // Whole, or as it was.
    let new = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&new, text + "\n").and_then(|()| std::fs::rename(&new, &path)).map_err(failed())
}

/// The name that a card has in the file: the same from every folder.
fn key(device: &Device) -> String {
    match device {
        Device::Socket(path) => {
            let whole = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
            format!("sim:{}", whole.as_deref().unwrap_or(path).display())
        }
        // Whatever its rate.
        Device::Serial(path, _) => format!("serial:{}", path.display()),
        other => other.to_string(),
    }
}

/// The addresses of a card with this MAC address: by its own, those that its owner has given it, and those that were added.
pub fn of(device: &Device, mac: [u8; 6], given: Vec<IpAddr>, ipv6: bool) -> Result<Vec<IpAddr>, Failure> {
    let mut all: Vec<IpAddr> = link_local(mac).filter(|_| ipv6).into_iter().collect();
    let given = given.into_iter().filter(|address| ipv6 || address.is_ipv4());
    for address in given.chain(load()?.remove(&key(device)).unwrap_or_default()) {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    Ok(all)
}

/// Carries it out.
pub fn run(common: &Common, args: &GidsArgs) -> Result<(), Failure> {
    let device = &common.device()?;
    let mut monitor = device.observe()?;
    let (mac, ipv6) = (monitor.port()?.mac, monitor.capabilities().ipv6);
    let list = || of(device, mac, monitor.addresses(), ipv6);
    let now = list()?;
    match args.what {
        None | Some(What::List) => {}
        Some(What::Add { address }) => {
            if address.is_ipv6() && !ipv6 {
                return Err(Failure::failed(format!("gids: {device} has IPv4 only"), "give an IPv4 address"));
            }
            if address.is_unspecified() || address.is_multicast() {
                return Err(Failure::usage(
                    format!("{address} is of no single station"),
                    "give a unicast address",
                ));
            }
            if !now.contains(&address) {
                if now.len() >= GIDS as usize {
                    let what = format!("gids: all {GIDS} entries of {device} are taken");
                    return Err(Failure::failed(what, "remove one"));
                }
                let mut kept = load()?;
                kept.entry(key(device)).or_default().push(address);
                store(&kept)?;
            }
        }
        Some(What::Remove { address }) => {
            let mut kept = load()?;
            let list = kept.entry(key(device)).or_default();
            let before = list.len();
            list.retain(|entry| *entry != address);
            if list.len() == before {
                let what = format!("gids: {address} was not added to {device}");
                return Err(Failure::failed(
                    what,
                    "`ferrowire gids` lists them; that of the MAC address stays, and so do those that the card was given with --ip",
                ));
            }
            kept.retain(|_, list| !list.is_empty());
            store(&kept)?;
        }
    }
    let all = list()?;
    if common.json {
        let list: Vec<_> =
            (0..).zip(&all).map(|(i, a)| json!({ "index": i, "gid": as_gid(*a), "address": a })).collect();
        return out::json(&json!({ "device": device.to_string(), "gids": list }));
    }
    let text: String =
        (0..).zip(&all).map(|(i, a)| format!("GID[{i:>3}]:\t{}\tRoCE v2\t{a}\n", as_gid(*a))).collect();
    out::text(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_gid_is_the_one_that_linux_makes() {
        let address = link_local([0x02, 0xfe, 0, 0, 0, 0x2a]).unwrap();
        assert_eq!(address.to_string(), "fe80::fe:ff:fe00:2a");
        assert_eq!(as_gid(address), "fe80:0000:0000:0000:00fe:00ff:fe00:002a");
        assert_eq!(as_gid([10, 0, 0, 1].into()), "0000:0000:0000:0000:0000:ffff:0a00:0001");
        assert_eq!(link_local([0; 6]), None);
    }
}
