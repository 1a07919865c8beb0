// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire gids`: the addresses that this command gives a card.
//!
//! What is added is kept in a file: [`ferrowire_cards::gids`].

use std::net::IpAddr;

use clap::{Args, Subcommand};
use ferrowire::spec::csr::port::GIDS;
use ferrowire_cards::gids::{as_gid, load, of, store};
use serde_json::json;

use crate::args::Common;
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

/// Carries it out.
pub fn run(common: &Common, args: &GidsArgs) -> Result<(), Failure> {
    let device = &common.device()?;
    let mut monitor = device.observe()?;
    let (mac, ipv6) = (monitor.port()?.mac, monitor.capabilities().ipv6);
    let key = device.key();
    let list = || of(&key, mac, monitor.addresses(), ipv6);
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
                kept.entry(key.clone()).or_default().push(address);
                store(&kept)?;
            }
        }
        Some(What::Remove { address }) => {
            let mut kept = load()?;
            let list = kept.entry(key.clone()).or_default();
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
