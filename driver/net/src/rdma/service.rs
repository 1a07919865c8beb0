// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Service`]: the thread behind a card's identifiers.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use ferrowire::{Context, Event as CardEvent, EventQueue, ProtectionDomain};
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::{read, Errno};

use super::channel::Channel;
use super::id::{Id, Options};
use super::shared::Shared;
use crate::cm::machine::Timing;
use crate::error::{Error, Result};
use crate::gsi::{Gsi, Qp1};
use crate::mad::PortSpace;
use crate::stack::{Config, Net};

/// Entries of the event queue: each of two completion queues has one event at most.
const EVENTS: u32 = 16;

/// How long the thread rests between two looks where the card has no interrupts.
const PAUSE: Duration = Duration::from_micros(50);

/// Longest sleep until an interrupt: a card that is gone raises none.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How long the last messages may take to leave.
const LINGER: Duration = Duration::from_millis(200);

/// Settings of a service.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServiceConfig {
    /// The network.
    pub net: Config,
    /// How messages are repeated.
    pub timing: Timing,
    /// How identifiers behave that say nothing else.
    pub options: Options,
}

/// One second until a message is sent again, for the other side may be simulated.
impl Default for ServiceConfig {
    fn default() -> Self {
        let timing = Timing { response: 18, ..Timing::default() };
        Self { net: Config::default(), timing, options: Options::default() }
    }
}

/// What wakes the thread.
enum Wake {
    /// Nothing: it looks often.
    Never,
    /// The interrupt of this queue, which it reads itself.
    Interrupts(EventQueue),
    /// [`Service::wake`], called by a reader of another queue.
    Called,
}

/// The owner of the thread, which ends with the last clone of the service and the last identifier.
pub(super) struct Owner {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
    id: ThreadId,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.shared.wake();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|_| std::thread::current().id() != self.id) {
            // A thread that has panicked has nothing left to do.
            let _ = thread.join();
        }
        linger(&self.shared);
    }
}

/// Waits until the last messages have left.
fn linger(shared: &Shared) {
    let until = Instant::now() + LINGER;
    while matches!(shared.is_idle(), Ok(false)) && Instant::now() < until {
        std::thread::sleep(PAUSE);
    }
}

/// A card's IP stack and communication manager, with a thread that answers neighbours, echoes and peers while the program does something else.
///
/// `Send` and `Sync`; clones are the same service. A card has one, for it has one QP1 and one raw Ethernet queue pair. The thread ends when the last
/// clone and the last [`Id`] are gone.
#[derive(Clone)]
pub struct Service {
    owner: Arc<Owner>,
    options: Options,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("net", &self.owner.shared.net).finish_non_exhaustive()
    }
}

impl Service {
    /// Takes the raw Ethernet queue pair and QP1 of a card and starts the thread, which has the signal mask of the calling one. The port has the addresses
    /// that the card has by now. The thread sleeps while nothing comes where the card has an event queue with an interrupt left, and looks often where it
    /// has none.
    ///
    /// # Errors
    /// The card lacks one of the queue pairs, or one is in use; `TooManyAddresses`; `System`.
    pub fn new(context: &Context, pd: &ProtectionDomain, config: ServiceConfig) -> Result<Self> {
        let events = match context.create_eq(EVENTS) {
            Ok(events) => events.interrupt_file().is_some().then_some(events),
            // The program has them all: the thread looks.
            Err(ferrowire::Error::NoResource { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let net = Net::with_events(context, pd, config.net.clone(), events.as_ref())?;
        let gsi = Qp1::new(context, pd, events.as_ref())?;
        Self::start(&net, Box::new(gsi), &config, events.map_or(Wake::Never, Wake::Interrupts))
    }

    /// One over a stack that the caller has made and polls, too. Messages of QP1 raise events of `events`, whose reader calls [`wake`](Self::wake) after
    /// each event of a completion queue that it does not know, and after it has polled the stack for one.
    ///
    /// # Errors
    /// The card lacks QP1, or it is in use; `System`.
    pub fn beside(
        net: &Net,
        context: &Context,
        pd: &ProtectionDomain,
        events: &EventQueue,
        config: &ServiceConfig,
    ) -> Result<Self> {
        let gsi = Qp1::new(context, pd, Some(events))?;
        Self::start(net, Box::new(gsi), config, Wake::Called)
    }

    /// Whether the RC connection with this queue pair of a peer retransmits selectively; `None`: no identifier has such a connection. For programs that bring their
    /// queue pairs up without the attributes of the identifier.
    pub fn selective_with(&self, peer: IpAddr, qpn: u32) -> Option<bool> {
        self.owner.shared.selective_with(peer, qpn)
    }

    /// One over another stack and another way for the manager's messages, without interrupts.
    ///
    /// # Errors
    /// `System`.
    pub fn over(net: &Net, gsi: Box<dyn Gsi>, config: &ServiceConfig) -> Result<Self> {
        Self::start(net, gsi, config, Wake::Never)
    }

    fn start(net: &Net, gsi: Box<dyn Gsi>, config: &ServiceConfig, wake: Wake) -> Result<Self> {
        const OPERATION: &str = "start service";
        let shared = Shared::new(net, gsi, config.timing)?;
        let system = |errno: Errno| Error::System { operation: OPERATION, source: errno.into() };
        let events = match wake {
            Wake::Never => None,
            Wake::Interrupts(events) => Some(Some(events)),
            Wake::Called => Some(None),
        };
        let sleeper = match events {
            Some(events) => {
                let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system)?;
                let own =
                    wake.try_clone().map_err(|source| Error::System { operation: OPERATION, source })?;
                // It is set once.
                let _ = shared.wake.set(own);
                Some(Sleeper { events, wake })
            }
            None => None,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (moved, stopped) = (Arc::clone(&shared), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("ferrowire-cm".into())
            .spawn(move || run(&moved, sleeper.as_ref(), &stopped))
            .map_err(|source| Error::System { operation: OPERATION, source })?;
        let id = thread.thread().id();
        let owner = Arc::new(Owner { shared, stop, thread: Mutex::new(Some(thread)), id });
        // It is set once.
        let _ = owner.shared.owner.set(Arc::downgrade(&owner));
        Ok(Self { owner, options: config.options })
    }

    /// Makes an identifier, whose events go to a channel. `context` is for the program: see [`Id::set_context`].
    ///
    /// # Errors
    /// `Removed`.
    pub fn create_id(&self, channel: &Channel, space: PortSpace, context: usize) -> Result<Id> {
        Id::create(&self.owner.shared, channel, space, context, self.options)
    }

    /// The IP stack.
    pub fn net(&self) -> &Net {
        &self.owner.shared.net
    }

    /// Has the thread look whether something has come. For readers of an event queue: see [`beside`](Self::beside).
    pub fn wake(&self) {
        self.owner.shared.wake();
    }

    /// The card is gone, as the caller knows: every identifier gets the event `DeviceRemoval`, and the thread ends.
    pub fn remove(&self, cause: &str) {
        self.owner.stop.store(true, Ordering::Release);
        self.owner.shared.fail(cause.to_string());
        self.owner.shared.wake();
    }

    /// The program ends: has the thread give all connections, requests and lookups up, and waits a moment for the last messages to leave. Identifiers get
    /// no events of this, and may still be used and destroyed.
    ///
    /// This takes no lock: a program may end in a handler of a signal that has interrupted a call of this crate or of the driver. It waits a quarter of a
    /// second at most.
    pub fn end(&self) {
        let shared = &self.owner.shared;
        shared.ending.store(true, Ordering::Release);
        shared.wake();
        let until = Instant::now() + LINGER + Duration::from_millis(50);
        while !shared.ended.load(Ordering::Acquire) && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
    }

    /// What the card failed with, if it has.
    pub fn failure(&self) -> Option<String> {
        self.owner.shared.core().failed.clone()
    }
}

/// How the thread rests where the card has interrupts.
trait Rest {
    /// Forgets what has come, and asks to be woken by what comes next.
    fn arm(&self, shared: &Shared) -> Result<()>;

    /// Until something comes, or is due.
    fn sleep(&self, shared: &Shared) -> Result<()>;
}

/// What the thread sleeps with.
struct Sleeper {
    /// The queue that the thread reads itself, if it does.
    events: Option<EventQueue>,
    wake: OwnedFd,
}

impl Rest for Sleeper {
    fn arm(&self, shared: &Shared) -> Result<()> {
        match read(&self.wake, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(Error::System { operation: "wait for the card", source: errno.into() }),
        }
        if let Some(events) = &self.events {
            events.acknowledge()?;
            let mut some = [CardEvent::default(); EVENTS as usize];
            while events.poll(&mut some)? > 0 {}
            events.request_interrupt()?;
        }
        shared.arm()
    }

    fn sleep(&self, shared: &Shared) -> Result<()> {
        let system = |errno: Errno| Error::System { operation: "wait for the card", source: errno.into() };
        let next = shared.idle_for().map_or(LONGEST_SLEEP, |idle| shared.net.of_card(idle));
        // A time that rounds to nothing is waited for, too.
        let next = next.clamp(Duration::from_micros(10), LONGEST_SLEEP);
        let timeout = Timespec::try_from(next).map_err(|_| system(Errno::INVAL))?;
        let interrupt = self.events.as_ref().and_then(EventQueue::interrupt_file);
        let interrupt = interrupt.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
        let wake = PollFd::new(&self.wake, PollFlags::IN);
        let mut files: Vec<_> = interrupt.into_iter().chain([wake]).collect();
        match poll(&mut files, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(system(errno)),
        }
    }
}

/// The thread.
fn run<R: Rest>(shared: &Shared, rest: Option<&R>, stop: &AtomicBool) {
    let stopped = || stop.load(Ordering::Acquire);
    let turn = || -> Result<()> {
        if shared.step()? {
            return Ok(());
        }
        let Some(rest) = rest else {
            std::thread::sleep(PAUSE);
            return Ok(());
        };
        // Armed before the last look: what comes after the look wakes the thread, and what came before it is seen. The wake-up of an owner that stops
        // the thread, and that of a program that ends, may be among what was forgotten, so these are looked at, too.
        rest.arm(shared)?;
        match shared.step()? || stopped() || shared.is_ending() {
            true => Ok(()),
            false => rest.sleep(shared),
        }
    };
    let _alarm = Alarm { shared, stop };
    while !stopped() {
        if shared.is_ending() {
            shared.abandon();
            linger(shared);
            shared.ended.store(true, Ordering::Release);
        }
        if let Err(error) = turn() {
            return shared.fail(error.to_string());
        }
    }
}

/// A thread that ends by a panic leaves no program waiting.
struct Alarm<'a> {
    shared: &'a Shared,
    stop: &'a AtomicBool,
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.stop.load(Ordering::Acquire) {
            self.shared.fail(
                "the service's thread has panicked; its message is in the program's error output".into(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::shared::tests::{quiet, Feed};

    /// The owner stops the thread, and arming reads its wake-up away.
    struct StopsWhileArming<'a>(&'a AtomicBool);

    impl Rest for StopsWhileArming<'_> {
        fn arm(&self, _: &Shared) -> Result<()> {
            self.0.store(true, Ordering::Release);
            Ok(())
        }

        fn sleep(&self, _: &Shared) -> Result<()> {
            panic!("it sleeps, and nothing wakes it");
        }
    }

    #[test]
    fn a_thread_that_is_stopped_while_it_arms_does_not_sleep() {
        let shared = Shared::new(&quiet(), Box::new(Feed::default()), Timing::default()).unwrap();
        let stop = AtomicBool::new(false);
        run(&shared, Some(&StopsWhileArming(&stop)), &stop);
    }
}
