// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Neighbours`]: MAC addresses of peers, and answers to peers that ask for this card's.
//!
//! Programs name a peer by its GID, and an address vector of the card needs a MAC address. In Linux the kernel finds it; here the IP stack of
//! `ferrowire-net` does, over the raw Ethernet queue pair, which this library takes when it opens the card. The service thread answers peers.
//!
//! A card has one raw Ethernet queue pair. If the program makes one (`IBV_QPT_RAW_PACKET`), the library gives its own up: from then on the card itself
//! answers peers, if it has the feature `neighbour_responder`, or the program does.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use ferrowire::{EventQueue, ProtectionDomain};
use ferrowire_cards::gids;
use ferrowire_net::{Config, Net, RawLink};
use rustix::io::Errno;

use crate::failure::{Failure, Result};
use crate::log::say;

/// Frames that wait in memory each way.
const FRAMES: u32 = 64;

/// Addresses that the IP stack takes.
const ADDRESSES: usize = 8;

/// The IP stack of the card's port.
pub struct Neighbours {
    context: ferrowire::Context,
    events: EventQueue,
    mac: [u8; 6],
    own: Vec<IpAddr>,
    /// Read by threads that use it, each as long as it does.
    stack: RwLock<Stack>,
    /// The connection manager has it, too.
    kept: AtomicBool,
}

enum Stack {
    /// It has the raw Ethernet queue pair.
    Running(Net),
    /// The program has that queue pair.
    Lent,
    /// There is none, for this reason.
    Absent(String),
}

impl Neighbours {
    /// Over the card's raw Ethernet queue pair, whose events go to `events`.
    pub fn new(context: &ferrowire::Context, mac: [u8; 6], own: &[IpAddr], events: &EventQueue) -> Self {
        if context.capabilities().neighbour_responder {
            if let Err(error) = context.set_neighbour_responder(true) {
                say!("{error}");
            }
        }
        let new = Self {
            context: context.clone(),
            events: events.clone(),
            mac,
            own: own.to_vec(),
            stack: RwLock::new(Stack::Lent),
            kept: AtomicBool::new(false),
        };
        *new.alone() = new.start();
        new
    }

    fn stack(&self) -> RwLockReadGuard<'_, Stack> {
        self.stack.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stack, when no thread uses it.
    fn alone(&self) -> RwLockWriteGuard<'_, Stack> {
        self.stack.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the raw Ethernet queue pair.
    fn start(&self) -> Stack {
        let begin = || -> ferrowire_net::Result<Net> {
            let pd: ProtectionDomain = self.context.alloc_pd()?;
            let link = RawLink::with_events(&self.context, &pd, FRAMES, Some(&self.events))?;
            let seed = (0..3).try_fold(0u64, |seed, _| {
                Ok::<_, ferrowire::Error>(seed << 24 ^ u64::from(self.context.random_psn()?.get()))
            })?;
            // Peers are on the link, whatever their addresses: the card's own have no prefix length.
            let config = Config {
                prefix_v4: 0,
                prefix_v6: 0,
                neighbour_timeout: Duration::from_millis(500),
                ..Config::default()
            };
            if self.own.len() > ADDRESSES {
                say!("of the card's {} addresses the first {ADDRESSES} are answered for", self.own.len());
            }
            let own = &self.own[..self.own.len().min(ADDRESSES)];
            let net = Net::over(Box::new(link), self.mac, own, seed, config)?;
            net.arm()?;
            Ok(net)
        };
        match begin() {
            Ok(net) => Stack::Running(net),
            Err(error) => {
                say!("no IP stack, so peers are found by link-local GIDs only: {error}");
                Stack::Absent(error.to_string())
            }
        }
    }

    /// Takes what has come, and answers it; the next frame raises an event.
    pub fn turn(&self) {
        if let Stack::Running(net) = &*self.stack() {
            // Armed before the last look: what comes after the look raises an event, and what came before it is seen.
            if let Err(error) = net.poll().and_then(|()| net.arm()).and_then(|()| net.poll()) {
                say!("IP stack: {error}");
            }
        }
    }

    /// The MAC address to which packets for a GID go. A link-local one is made of it, as Linux does; for any other the peer is asked.
    pub fn resolve(&self, gid: Ipv6Addr) -> Result<[u8; 6]> {
        let ip = gid.to_canonical();
        if self.own.contains(&ip) {
            return Ok(self.mac);
        }
        if let Some(mac) = gids::link_local_mac(gid) {
            return Ok(mac);
        }
        match &*self.stack() {
            Stack::Running(net) => Ok(net.resolve(ip)?),
            Stack::Lent => Err(Failure::text(
                Errno::HOSTUNREACH,
                format!("{ip}: the program has the raw Ethernet queue pair, over which neighbours are asked; use link-local GIDs"),
            )),
            Stack::Absent(why) => {
                Err(Failure::text(Errno::HOSTUNREACH, format!("{ip}: no neighbour can be asked: {why}")))
            }
        }
    }

    /// The IP stack, for the connection manager: the raw Ethernet queue pair is not lent any more.
    ///
    /// # Errors
    /// The program has that queue pair, or there is none.
    pub fn net(&self) -> Result<Net> {
        let stack = self.stack();
        match &*stack {
            Stack::Running(net) => {
                // Under the lock, so that it is not lent meanwhile.
                self.kept.store(true, Ordering::Relaxed);
                Ok(net.clone())
            }
            Stack::Lent => Err(Failure::new(
                Errno::BUSY,
                "the program has the raw Ethernet queue pair, over which neighbours are asked; destroy it first",
            )),
            Stack::Absent(why) => {
                Err(Failure::text(Errno::NODEV, format!("no neighbour can be asked: {why}")))
            }
        }
    }

    /// Gives the raw Ethernet queue pair up, for the program, which makes its own by `make`. If that fails, it is taken back.
    ///
    /// # Errors
    /// `EBUSY` if the program has it already; those of `make`.
    pub fn lend<T>(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        // Threads that ask for a neighbour have it until they are answered, or their time is over.
        let mut stack = self.alone();
        if self.kept.load(Ordering::Relaxed) {
            let why = "the connection manager of this process has the card's raw Ethernet queue pair";
            return Err(Failure::new(Errno::BUSY, why));
        }
        if matches!(*stack, Stack::Lent) {
            let why = "the card has one raw Ethernet queue pair, and the program has made it already";
            return Err(Failure::new(Errno::BUSY, why));
        }
        drop(std::mem::replace(&mut *stack, Stack::Lent));
        // Under the lock, so that two threads take turns.
        make().inspect_err(|_| *stack = self.start())
    }

    /// Takes it back, from a program that has destroyed its own.
    pub fn take_back(&self) {
        *self.alone() = self.start();
    }
}
