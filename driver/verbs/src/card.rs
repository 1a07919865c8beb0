// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Card`]: the card of this process, which all its contexts share.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use ferrowire::{Bus, Capabilities, EventQueue, PortStatus};
use ferrowire_cards::{gids, Place};

use crate::abi::IBV_EVENT_GID_CHANGE;
use crate::channel::Channel;
use crate::cm::Manager;
use crate::context::Context;
use crate::cq::Cq;
use crate::events;
use crate::failure::{Failure, Result};
use crate::fork::{Files, INHERITED};
use crate::log::say;
use crate::neighbour::Neighbours;
use crate::qp::Qp;
use crate::selective;
use crate::service;
use crate::srq::Srq;
use crate::tap::{self, Interface};

/// Longest wait for a command: a simulated card on a busy machine is slow.
const COMMAND: Duration = Duration::from_secs(60);

/// Fewest entries of the event queue that the service thread reads.
const EVENTS: u32 = 256;

/// The card is gone.
const GONE: Failure = Failure::new(
    rustix::io::Errno::IO,
    "the card is gone; end the program, and start the card's server again",
);

/// The environment variable with the MAC address of a card that has none.
const MAC: &str = "FERROWIRE_MAC";

/// Objects of the card that events name, by their numbers.
#[derive(Default)]
pub struct Objects {
    /// All contexts.
    pub contexts: Vec<*const Context>,
    /// Queue pairs.
    pub qps: HashMap<u32, *const Qp>,
    /// Completion channels.
    pub channels: Vec<*const Channel>,
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
    /// Its addresses, in the order of their GID indices. New ones come at the end, and none goes.
    gids: RwLock<Vec<IpAddr>>,
    /// Its neighbours on the wire.
    pub neighbours: Neighbours,
    /// What the service thread reads: asynchronous events, and those of completion queues with a channel.
    pub events: EventQueue,
    /// Its connection manager.
    pub cm: Manager,
    /// Its RC queue pairs ask for selective retransmission: see [`selective`].
    pub selective: bool,
    objects: Mutex<Objects>,
    /// It takes no calls any more.
    dead: AtomicBool,
    /// It is that of the process that this one was forked from.
    inherited: AtomicBool,
    /// The card that was opened before it.
    older: AtomicPtr<Card>,
    /// Its files, while its server is there.
    files: Mutex<Option<Files>>,
}

/// The card that was opened last, from which a forked child finds all.
static NEWEST: AtomicPtr<Card> = AtomicPtr::new(ptr::null_mut());

/// In a forked child: the parent's cards take no calls. Takes no lock and allocates nothing.
pub fn forget_parent() {
    let mut next = NEWEST.load(Ordering::Acquire);
    while !next.is_null() {
        // SAFETY: a card that is in the list is never freed.
        let card = unsafe { &*next };
        card.inherited.store(true, Ordering::Relaxed);
        card.dead.store(true, Ordering::Relaxed);
        next = card.older.load(Ordering::Relaxed);
    }
}

impl Card {
    /// Opens the card of a bus, gives it its addresses, and starts the thread that reads its events. `files` are those of the bus.
    /// `interface` is the TAP interface that it gets.
    pub fn open(
        bus: Box<dyn Bus>,
        files: Files,
        place: &Place,
        interface: Option<Interface>,
    ) -> Result<&'static Self> {
        let lifeline = bus.lifeline().map_err(ferrowire::Error::from)?;
        let options =
            ferrowire::ContextOptions { command_timeout: COMMAND, ..ferrowire::ContextOptions::default() };
        let context = ferrowire::Context::open_with(bus, options)?;
        let mac = address(context.mac(), place)?;
        if mac != context.mac() {
            context.set_mac(mac)?;
            say!("{place}: MAC address {}", text(mac));
        }
        let selective = selective::begin(selective::wanted(), context.capabilities().selective, place);
        let kernel =
            interface.as_ref().map(|interface| interface.start(mac)).transpose()?.unwrap_or_default();
        let key = gids::key(place);
        let kept = gids::load().map(|mut kept| kept.remove(&key).unwrap_or_default());
        let kept = kept.unwrap_or_else(|error| {
            say!("{error}; going on without it");
            Vec::new()
        });
        let ipv6 = context.capabilities().ipv6;
        let fixed = gids::merged(mac, context.addresses(), kept, ipv6);
        let all =
            gids::merged(mac, fixed.iter().copied().chain(tap::gids(&kernel)).collect(), Vec::new(), ipv6);
        let mut added = Vec::new();
        for ip in all {
            match context.add_gid(ip, None) {
                Ok(()) => added.push(ip),
                Err(error) => say!("{place}: the card does not take {ip}: {error}"),
            }
        }
        if added.is_empty() && interface.is_none() {
            say!("{place}: the card has no address: give it one with --ip of the simulator, or `ferrowire gids add`");
        }
        let events = context.create_async_eq(events_of(context.capabilities()))?;
        let neighbours = Neighbours::new(&context, mac, fixed, &added, &events, interface)?;
        // Before the card is there for good: without a thread it is given up.
        let start = service::prepare(lifeline)?;
        let card: &'static Self = Box::leak(Box::new(Self {
            context,
            mac,
            gids: RwLock::new(added),
            neighbours,
            events,
            cm: Manager::default(),
            selective,
            objects: Mutex::default(),
            dead: AtomicBool::new(false),
            inherited: AtomicBool::new(false),
            older: AtomicPtr::new(ptr::null_mut()),
            files: Mutex::new(Some(files)),
        }));
        card.enlist();
        start(card);
        Ok(card)
    }

    /// Puts it into the list that a forked child goes through.
    fn enlist(&'static self) {
        let own = ptr::from_ref(self).cast_mut();
        let mut older = NEWEST.load(Ordering::Relaxed);
        loop {
            self.older.store(older, Ordering::Relaxed);
            match NEWEST.compare_exchange(older, own, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => older = other,
            }
        }
    }

    /// The tables of objects, locked.
    pub fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it takes no calls any more: its server has ended, its bus has failed, or it is [inherited](Self::is_inherited).
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Whether it is that of the process that this one was forked from. Then nothing of it is touched: see [`crate::fork`].
    #[inline]
    pub fn is_inherited(&self) -> bool {
        self.inherited.load(Ordering::Relaxed)
    }

    /// Why it takes no calls.
    #[cold]
    pub fn gone(&self) -> Failure {
        match self.is_inherited() {
            true => INHERITED,
            false => GONE,
        }
    }

    /// Notes that it is gone, under the lock of [`objects`](Self::objects); whether it was there until now.
    pub fn bury(&self) -> bool {
        !self.dead.swap(true, Ordering::Relaxed)
    }

    /// Its server is gone, and lets no forked child keep the card: other cards have room among the files that are noted.
    pub fn forget_files(&self) {
        drop(self.files.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The port, as it is now.
    pub fn port(&self) -> Result<PortStatus> {
        Ok(self.context.port()?)
    }

    /// Its addresses, in the order of their GID indices.
    pub fn gids(&self) -> Vec<IpAddr> {
        self.gids.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The GID of an index, if the card has it.
    pub fn gid(&self, index: usize) -> Option<Ipv6Addr> {
        let all = self.gids.read().unwrap_or_else(PoisonError::into_inner);
        all.get(index).map(|ip| gids::as_v6(*ip))
    }

    /// Follows the addresses of the TAP interface, if it has one and they have changed. New ones become GIDs. Those that go stay GIDs, for queue pairs may use
    /// them, but nothing answers for them.
    pub fn follow(&self) {
        let Some(kernel) = self.neighbours.changed() else { return };
        let mut all = self.gids();
        let known = all.len();
        let ipv6 = self.context.capabilities().ipv6;
        for ip in tap::gids(&kernel).filter(|ip| ipv6 || ip.is_ipv4()) {
            if all.contains(&ip) {
                continue;
            }
            match self.context.add_gid(ip, None) {
                Ok(()) => all.push(ip),
                Err(error) => say!("the card does not take {ip}: {error}"),
            }
        }
        let is_new = all.len() > known;
        (*self.gids.write().unwrap_or_else(PoisonError::into_inner)).clone_from(&all);
        self.neighbours.follow(&all, &kernel);
        if is_new {
            say!("addresses of the TAP interface: {:?}", &all[known..]);
            events::port_event(self, IBV_EVENT_GID_CHANGE);
        }
    }
}

/// Entries of the event queue: a completion event waits for room, and any other is lost without. So there is room for one of each object at once, as when
/// a peer of all queue pairs dies, and for two of each queue pair, which has an error and then its last receive.
fn events_of(can: &Capabilities) -> u32 {
    let objects = 2 * u64::from(can.max_qp) + u64::from(can.max_cq) + u64::from(can.max_srq);
    let largest = 1 << can.max_cq_log2.min(31);
    u32::try_from(objects.next_power_of_two()).unwrap_or(u32::MAX).clamp(EVENTS.min(largest), largest)
}

/// The MAC address that a card gets whose own is `own`: that of the environment, its own, or one made of this machine and the card's name, which stays the
/// same.
pub fn address(own: [u8; 6], place: &Place) -> Result<[u8; 6]> {
    let set = std::env::var(MAC).ok().filter(|text| !text.is_empty());
    match &set {
        Some(text) => parse(text).ok_or_else(|| {
            Failure::text(
                rustix::io::Errno::INVAL,
                format!("{MAC}: `{text}`; give six bytes as 02:fe:00:00:00:01"),
            )
        }),
        None if own != [0; 6] => Ok(own),
        None => {
            let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
            Ok(made(&machine, place.to_string().as_bytes()))
        }
    }
}

/// A MAC address as it is written.
pub fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
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
