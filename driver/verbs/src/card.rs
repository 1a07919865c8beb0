// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Card`]: the card of this process, which all its contexts share.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrowire::{Bus, EventQueue, PortStatus};
use ferrowire_cards::{gids, Place};

use crate::context::Context;
use crate::cq::Cq;
use crate::failure::{Failure, Result};
use crate::fork;
use crate::log::say;
use crate::neighbour::Neighbours;
use crate::qp::Qp;
use crate::service;
use crate::srq::Srq;

/// Longest wait for a command: a simulated card on a busy machine is slow.
const COMMAND: Duration = Duration::from_secs(60);

/// Entries of the event queue that the service thread reads.
const EVENTS: u32 = 256;

/// The environment variable with the MAC address of a card that has none.
const MAC: &str = "FERROWIRE_MAC";

/// Objects of the card that events name, by their numbers.
#[derive(Default)]
pub struct Objects {
    /// All contexts.
    pub contexts: Vec<*const Context>,
    /// Queue pairs.
    pub qps: HashMap<u32, *const Qp>,
    /// Completion queues.
    pub cqs: HashMap<u32, *const Cq>,
    /// Shared receive queues.
    pub srqs: HashMap<u32, *const Srq>,
}

// SAFETY: an object is taken out of its table, under the table's lock, before it ends; all of them may be used from any thread.
unsafe impl Send for Objects {}

/// An open card. It is this process's until the process ends.
pub struct Card {
    /// The card as the driver has it.
    pub context: ferrowire::Context,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its addresses, in the order of their GID indices.
    pub gids: Vec<IpAddr>,
    /// Its neighbours on the wire.
    pub neighbours: Neighbours,
    /// What the service thread reads: asynchronous events, and those of completion queues with a channel.
    pub events: EventQueue,
    objects: Mutex<Objects>,
    dead: AtomicBool,
}

impl Card {
    /// Opens the card behind a bus, gives it its addresses, and starts the thread that reads its events.
    pub fn open(mut bus: Box<dyn Bus>, place: &Place) -> Result<&'static Self> {
        fork::own(bus.as_mut());
        let lifeline = bus.lifeline().map_err(ferrowire::Error::from)?;
        let options =
            ferrowire::ContextOptions { command_timeout: COMMAND, ..ferrowire::ContextOptions::default() };
        let context = ferrowire::Context::open_with(bus, options)?;
        let mac = address(&context, place)?;
        let key = gids::key(place);
        let kept = gids::load().map(|mut kept| kept.remove(&key).unwrap_or_default());
        let kept = kept.unwrap_or_else(|error| {
            say!("{error}; going on without it");
            Vec::new()
        });
        let all = gids::merged(mac, context.addresses(), kept, context.capabilities().ipv6);
        let mut added = Vec::new();
        for ip in all {
            match context.add_gid(ip, None) {
                Ok(()) => added.push(ip),
                Err(error) => say!("{place}: the card does not take {ip}: {error}"),
            }
        }
        if added.is_empty() {
            say!("{place}: the card has no address: give it one with --ip of the simulator, or `ferrowire gids add`");
        }
        let events = context.create_async_eq(EVENTS)?;
        let neighbours = Neighbours::new(&context, mac, &added, &events);
        let card = Box::leak(Box::new(Self {
            context,
            mac,
            gids: added,
            neighbours,
            events,
            objects: Mutex::default(),
            dead: AtomicBool::new(false),
        }));
        service::start(card, lifeline)?;
        Ok(card)
    }

    /// The tables of objects, locked.
    pub fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its server has ended, or its bus has failed.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Notes that it is gone; whether it was there until now.
    pub fn bury(&self) -> bool {
        !self.dead.swap(true, Ordering::Relaxed)
    }

    /// The port, as it is now.
    pub fn port(&self) -> Result<PortStatus> {
        Ok(self.context.port()?)
    }

    /// The GID of an index, if the card has it.
    pub fn gid(&self, index: usize) -> Option<Ipv6Addr> {
        self.gids.get(index).map(|ip| gids::as_v6(*ip))
    }
}

/// The MAC address: the card's own, that of the environment, or one made of this machine and the card's name, which stays the same.
fn address(context: &ferrowire::Context, place: &Place) -> Result<[u8; 6]> {
    let set = std::env::var(MAC).ok().filter(|text| !text.is_empty());
    let new = match &set {
        Some(text) => parse(text).ok_or_else(|| {
            Failure::text(
                rustix::io::Errno::INVAL,
                format!("{MAC}: `{text}`; give six bytes as 02:fe:00:00:00:01"),
            )
        })?,
        None if context.mac() != [0; 6] => return Ok(context.mac()),
        None => {
            let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
            made(&machine, place.to_string().as_bytes())
        }
    };
    context.set_mac(new)?;
    say!("{place}: MAC address {}", new.map(|byte| format!("{byte:02x}")).join(":"));
    Ok(new)
}

fn parse(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    bytes?.try_into().ok()
}

/// A locally administered address (IEEE 802 8.4) with a hash (FNV-1a).
fn made(machine: &[u8], name: &[u8]) -> [u8; 6] {
    let hash = machine.iter().chain(name).fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let [a, b, c, d, e, ..] = hash.to_be_bytes();
    [0x02, a, b, c, d, e]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_made_of_the_machine_and_the_card() {
        let one = made(b"machine", b"0000:03:00.0");
        assert_eq!(one, made(b"machine", b"0000:03:00.0"));
        assert_ne!(one, made(b"machine", b"0000:04:00.0"));
        assert_ne!(one, made(b"other", b"0000:03:00.0"));
        assert_eq!(one[0], 2);
    }

    #[test]
    fn an_address_has_six_bytes() {
        assert_eq!(parse("02:fe:00:00:00:2a"), Some([2, 0xfe, 0, 0, 0, 0x2a]));
        for bad in ["", "02:fe:00:00:00", "02:fe:00:00:00:00:01", "02:fe:00:00:00:xx"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
