// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Neighbours`]: MAC addresses of peers, and answers to peers that ask for this card's.
//!
//! Programs name a peer by its GID, and an address vector of the card needs a MAC address. In Linux the kernel finds it; here the IP stack of
//! `ferrowire-net` does, over the raw Ethernet queue pair, which this library takes when it opens the card. The service thread answers peers.
//!
//! A card has one raw Ethernet queue pair. If the program makes one (`IBV_QPT_RAW_PACKET`), the library gives its own up: from then on the card itself
//! answers peers, if it has the feature `neighbour_responder`, or the program does.
//!
//! With a TAP interface ([`crate::tap`]) the kernel of this machine has the port, too: a [`Bridge`] between the queue pair and the stack shares the frames,
//! and the service thread moves those of the interface.

use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use ferrowire::{EventQueue, ProtectionDomain};
use ferrowire_cards::gids;
use ferrowire_net::{Bridge, Bridged, Config, Link, Net, RawLink};
use rustix::io::Errno;

use crate::failure::{Failure, Result};
use crate::log::say;
use crate::tap::Interface;

/// Frames that wait in memory each way.
const FRAMES: u32 = 64;

/// Addresses that the IP stack takes.
const ADDRESSES: usize = 8;

/// Seconds of this machine that make one of the IP stack of a Verilated card. All that passes on its wire takes some hundred times as long as on a card's, so
/// that time-outs of programs and of the stack would be over before an answer can come.
const VERILATED: u32 = 20;

/// How much slower the stack's clock is than this machine's, with a card whose clock counts so many cycles, if it is simulated. An emulated card (`engine`) is as
/// fast as its peers.
fn slowness(cycles: Option<u64>, engine: bool) -> u32 {
    match cycles {
        Some(_) if !engine => VERILATED,
        _ => 1,
    }
}

/// What the log is to say after a turn that ended as `now`, where it has said `last`: each failure once, and again after a turn that did not fail.
fn new_failure(last: &mut Option<String>, now: Option<String>) -> Option<&str> {
    let is_new = *last != now;
    *last = now;
    last.as_deref().filter(|_| is_new)
}

/// The IP stack of the card's port.
pub struct Neighbours {
    context: ferrowire::Context,
    events: EventQueue,
    mac: [u8; 6],
    /// Addresses that the stack has: not all of the card's, if they are too many or the TAP interface has lost them.
    own: Mutex<Vec<IpAddr>>,
    /// Addresses that the card has without the TAP interface.
    fixed: Vec<IpAddr>,
    tap: Option<Attached>,
    /// Read by threads that use it, each as long as it does.
    stack: RwLock<Stack>,
    /// The connection manager has it, too.
    kept: AtomicBool,
    /// Why its last turn failed, if it did.
    failure: Mutex<Option<String>>,
}

/// The TAP interface, if there is one.
struct Attached {
    interface: Interface,
    bridged: Bridged,
    /// The stack has failed or the interface is gone, and no frames move any more.
    failed: AtomicBool,
    /// Lost frames at which the log says so next.
    next: AtomicU64,
}

/// What the service thread waits for beside the card: frames and addresses of the TAP interface.
pub struct Waits<'a>(&'a Attached);

impl Waits<'_> {
    /// Whether more frames may be there already.
    pub fn are_over(&self) -> bool {
        self.0.lives() && self.0.bridged.has_more()
    }

    /// The files that say so.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let Attached { interface, bridged, .. } = self.0;
        let frames = (self.0.lives() && !bridged.is_blocked()).then(|| interface.frames());
        frames.into_iter().chain([interface.watch()])
    }

    /// Whether no file says it: frames wait until the card has sent others.
    pub fn limited(&self) -> bool {
        self.0.lives() && self.0.bridged.is_blocked()
    }
}

impl Attached {
    fn lives(&self) -> bool {
        !self.failed.load(Ordering::Relaxed)
    }

    /// Says which frames were lost, whenever they are twice as many as the last time.
    fn say_losses(&self) {
        let (counts, next) = (self.bridged.counts(), self.next.load(Ordering::Relaxed));
        if counts.dropped() >= next {
            self.next.store(2 * counts.dropped(), Ordering::Relaxed);
            say!(
                "{}: lost {} frames that the kernel did not take, {} of a bad length, and {} that may be RoCE",
                self.interface.name,
                counts.dropped_by_tap,
                counts.bad_length,
                counts.roce
            );
        }
    }
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
    /// Over the card's raw Ethernet queue pair, whose events go to `events`. The card's addresses are `all`; `fixed` are those that do not come of the
    /// TAP interface.
    ///
    /// # Errors
    /// With an interface: the card has no such queue pair.
    pub fn new(
        context: &ferrowire::Context,
        mac: [u8; 6],
        fixed: Vec<IpAddr>,
        all: &[IpAddr],
        events: &EventQueue,
        interface: Option<Interface>,
    ) -> Result<Self> {
        if context.capabilities().neighbour_responder {
            if let Err(error) = context.set_neighbour_responder(true) {
                say!("{error}");
            }
        }
        if all.len() > ADDRESSES {
            say!("of the card's {} addresses the first {ADDRESSES} are answered for", all.len());
        }
        let mut new = Self {
            context: context.clone(),
            events: events.clone(),
            mac,
            own: Mutex::new(all[..all.len().min(ADDRESSES)].to_vec()),
            fixed,
            tap: None,
            stack: RwLock::new(Stack::Lent),
            kept: AtomicBool::new(false),
            failure: Mutex::default(),
        };
        let Some(interface) = interface else {
            *new.alone() = new.start();
            return Ok(new);
        };
        let kernel = interface.addresses()?;
        let bridged = new.attach(&interface).map_err(|error| {
            let why =
                format!("{}: frames of it need the card's raw Ethernet queue pair: {error}", interface.name);
            Failure::text(Failure::from(error).errno, why)
        })?;
        let (failed, next) = (AtomicBool::new(false), AtomicU64::new(1));
        new.tap = Some(Attached { interface, bridged, failed, next });
        new.follow(all, &kernel);
        Ok(new)
    }

    /// Takes the raw Ethernet queue pair, for the stack and the interface.
    fn attach(&self, interface: &Interface) -> ferrowire_net::Result<Bridged> {
        let (bridge, bridged) = Bridge::new(Box::new(self.link()?), Box::new(interface.tap()))?;
        *self.alone() = Stack::Running(self.over(Box::new(bridge))?);
        Ok(bridged)
    }

    fn own(&self) -> Vec<IpAddr> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The addresses that the kernel has at the TAP interface, if there is one and they may have changed.
    pub fn changed(&self) -> Option<Vec<IpAddr>> {
        let tap = self.tap.as_ref()?;
        if !tap.interface.has_changed() {
            return None;
        }
        let addresses = tap.interface.addresses();
        addresses.inspect_err(|error| say!("{error}; the card keeps those that it has")).ok()
    }

    /// The card has the addresses `all` by now, and the kernel has `kernel` at the TAP interface.
    pub fn follow(&self, all: &[IpAddr], kernel: &[IpAddr]) {
        let Some(tap) = &self.tap else { return };
        let lasting = |ip: &&IpAddr| self.fixed.contains(ip) || kernel.contains(ip);
        let own: Vec<IpAddr> = all.iter().filter(lasting).take(ADDRESSES).copied().collect();
        // First the kernel is left to answer, then the stack has its addresses: in no order is a question answered twice.
        tap.bridged.set_alone(own.iter().filter(|ip| !kernel.contains(ip)).copied().collect());
        if let Stack::Running(net) = &*self.stack() {
            // There are not too many.
            let _ = net.set_addresses(&own);
        }
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = own;
    }

    /// Gives the TAP interface up, for the card is gone.
    pub fn release_interface(&self) {
        if let Some(tap) = &self.tap {
            tap.failed.store(true, Ordering::Relaxed);
            tap.interface.release();
        }
    }

    /// What the service thread waits for beside the card, if there is a TAP interface.
    pub fn waits(&self) -> Option<Waits<'_>> {
        self.tap.as_ref().map(Waits)
    }

    fn stack(&self) -> RwLockReadGuard<'_, Stack> {
        self.stack.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stack, when no thread uses it.
    fn alone(&self) -> RwLockWriteGuard<'_, Stack> {
        self.stack.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self) -> ferrowire::Result<RawLink> {
        let pd: ProtectionDomain = self.context.alloc_pd()?;
        RawLink::with_events(&self.context, &pd, FRAMES, Some(&self.events))
    }

    /// A stack over a link.
    fn over(&self, link: Box<dyn Link>) -> ferrowire_net::Result<Net> {
        let seed = (0..3).try_fold(0u64, |seed, _| {
            Ok::<_, ferrowire::Error>(seed << 24 ^ u64::from(self.context.random_psn()?.get()))
        })?;
        // Peers are on the link, whatever their addresses: the card's own have no prefix length.
        let config = Config {
            prefix_v4: 0,
            prefix_v6: 0,
            neighbour_timeout: Duration::from_millis(500),
            slowness: slowness(self.context.card_cycles()?, self.context.is_engine()),
            ..Config::default()
        };
        let net = Net::over(link, self.mac, &self.own(), seed, config)?;
        net.arm()?;
        Ok(net)
    }

    /// Takes the raw Ethernet queue pair.
    fn start(&self) -> Stack {
        match self.link().map_err(Into::into).and_then(|link| self.over(Box::new(link))) {
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
            let turned = net.poll().and_then(|()| net.arm()).and_then(|()| net.poll());
            let Some(tap) = self.tap.as_ref().filter(|tap| tap.lives()) else {
                return self.say_failure(turned.err().map(|error| error.to_string()));
            };
            let name = &tap.interface.name;
            if let Err(error) = &turned {
                say!("IP stack: {error}; {name} has no frames any more");
            } else if tap.bridged.is_gone() {
                say!("{name}: the TAP interface was removed; start the program again if it is to have one");
            }
            tap.failed.store(turned.is_err() || tap.bridged.is_gone(), Ordering::Relaxed);
            tap.say_losses();
        }
    }

    /// Logs a failure of the stack, unless the turn before had the same.
    fn say_failure(&self, now: Option<String>) {
        let mut last = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = new_failure(&mut last, now) {
            say!("IP stack: {error}");
        }
    }

    /// The MAC address to which packets for a GID go. A link-local one is made of it, as Linux does; for any other the peer is asked.
    pub fn resolve(&self, gid: Ipv6Addr) -> Result<[u8; 6]> {
        let ip = gid.to_canonical();
        if self.own().contains(&ip) {
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
        if let Some(tap) = &self.tap {
            let why = format!(
                "{} has the card's raw Ethernet queue pair; run the program without --tap",
                tap.interface.name
            );
            return Err(Failure::text(Errno::BUSY, why));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_on_the_wire_of_a_verilated_card_get_more_time() {
        assert_eq!(slowness(Some(0), false), VERILATED);
        assert_eq!([slowness(Some(0), true), slowness(None, false)], [1, 1]);
    }

    #[test]
    fn the_log_has_each_failure_of_the_stack_once() {
        let mut last = None;
        let mut said = |now: Option<&str>| new_failure(&mut last, now.map(String::from)).map(String::from);
        let turns = [Some("a"), Some("a"), Some("b"), None, None, Some("b")];
        let told = turns.map(|turn| said(turn).is_some());
        assert_eq!(told, [true, false, true, false, false, true]);
    }
}
