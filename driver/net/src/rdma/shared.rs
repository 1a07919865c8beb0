// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Shared`]: the IP stack, the manager and the identifiers of one card, moved by the callers of [`Shared::step`]: the service's thread, or the waits of
//! [`Cm`](crate::Cm).
//!
//! ```text
//!  Id::connect, accept, ... --> Core --> Manager --> waiting --> neighbour known? --> Gsi (QP1)
//!                                |          ^                                          |
//!                 Channel <------+          +------------------------------------------+
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use ferrowire::{AddressVector, PathMtu, Psn, Service as Transport};
use rustix::io::Errno;

use super::channel::Account;
use super::event::{status, ConnParam, Event, EventKind, Param, UdParam, Waiting};
use super::id::{Id, Options, Phase};
use super::ports::Ports;
use super::qp::Link;
use super::service::Owner;
use crate::cm::machine::{self, End, Manager, Timing};
use crate::error::{Error, Result};
use crate::gsi::{Gsi, Limits, Path};
use crate::mad::{Dreq, IpCm, Mad, PortSpace, RejectReason, Rep, Req, SidrRep, SidrReq, SidrStatus};
use crate::stack::Net;

/// Messages that are taken before others have a turn.
const BURST: usize = 64;

/// Messages of connections that wait for the way to their receivers. Beyond, the oldest is lost; a sender that wants an answer asks again.
const WAITING: usize = 4096;

/// The same of messages that every peer can cause, from addresses that nobody has. Few, as each is looked at each time.
const ANSWERS: usize = 64;

/// Requests that wait for the way back, of all listeners. Beyond, the oldest is forgotten, and its asker asks again.
const PENDING: usize = 256;

/// How long they wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// An identifier as the card's side of it knows it.
pub(super) struct Entry {
    pub(super) account: Arc<Account>,
    pub(super) space: PortSpace,
    pub(super) transport: Transport,
    pub(super) phase: Phase,
    pub(super) options: Options,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    /// It has a port to give back.
    pub(super) bound: bool,
    pub(super) way: Option<AddressVector>,
    /// When the resolution of an address has taken too long.
    pub(super) deadline: Duration,
    /// Number of the connection or lookup.
    pub(super) cm: Option<u32>,
    /// First PSN that the other side sends; of datagrams that this side sends.
    pub(super) psn: Psn,
    /// The other side has ended or given up what it had with this one.
    pub(super) gone: bool,
    /// A request that was not accepted: it has no events, for the program may not know it yet (as Linux).
    pub(super) silent: bool,
    pub(super) link: Option<Link>,
    /// What was asked for, until the answer comes.
    pub(super) asked: ConnParam,
    pub(super) path_mtu: PathMtu,
    /// Of a listener: requests that may wait, and those that do.
    pub(super) backlog: usize,
    pub(super) waiting: Arc<AtomicUsize>,
}

/// A request.
#[derive(Clone, Copy)]
#[allow(clippy::large_enum_variant)] // They are messages, and not many.
enum Request {
    Connection(Req),
    Datagrams(SidrReq),
}

impl Request {
    fn service_id(&self) -> u64 {
        match self {
            Request::Connection(req) => req.service_id,
            Request::Datagrams(req) => req.service_id,
        }
    }

    fn private_data(&self) -> &[u8] {
        match self {
            Request::Connection(req) => &req.private_data,
            Request::Datagrams(req) => &req.private_data,
        }
    }
}

/// A request that waits until the way back is known.
struct Pending {
    cm: u32,
    path: Path,
    listener: u64,
    ip: IpCm,
    port: u16,
    request: Request,
    until: Duration,
}

/// Messages that wait for the way to their receivers, and until when.
type Queue = VecDeque<(Path, Mad, Duration)>;

/// What the lock protects.
pub(super) struct Core {
    pub(super) manager: Manager<Path>,
    gsi: Box<dyn Gsi>,
    pub(super) limits: Limits,
    waiting: Queue,
    answers: Queue,
    pub(super) ids: BTreeMap<u64, Entry>,
    by_cm: BTreeMap<u32, u64>,
    /// Identifiers that are resolving an address.
    resolving: BTreeSet<u64>,
    pending: VecDeque<Pending>,
    pub(super) ports: Ports,
    /// The card has no room for another message.
    full: bool,
    /// What the card failed with.
    pub(super) failed: Option<String>,
    me: Weak<Shared>,
}

/// A card's identifiers, and what moves them.
pub(crate) struct Shared {
    pub(crate) net: Net,
    core: Mutex<Core>,
    /// The owner of the thread, if there is one.
    pub(super) owner: OnceLock<Weak<Owner>>,
    /// Wakes the thread, if it sleeps until an interrupt.
    pub(super) wake: OnceLock<OwnedFd>,
    /// The program ends, and the thread is to tell the other sides.
    pub(super) ending: AtomicBool,
    /// It has, or it has nothing to tell any more.
    pub(super) ended: AtomicBool,
}

impl Shared {
    pub(crate) fn new(net: &Net, mut gsi: Box<dyn Gsi>, timing: Timing) -> Result<Arc<Self>> {
        let seed = gsi.random()? << 8 ^ gsi.random()?;
        let limits = gsi.limits();
        Ok(Arc::new_cyclic(|me| {
            let core = Core {
                manager: Manager::new(seed, guid(net.mac()), timing),
                gsi,
                limits,
                waiting: VecDeque::new(),
                answers: VecDeque::new(),
                ids: BTreeMap::new(),
                by_cm: BTreeMap::new(),
                resolving: BTreeSet::new(),
                pending: VecDeque::new(),
                ports: Ports::default(),
                full: false,
                failed: None,
                me: me.clone(),
            };
            Self {
                net: net.clone(),
                core: Mutex::new(core),
                owner: OnceLock::new(),
                wake: OnceLock::new(),
                ending: AtomicBool::new(false),
                ended: AtomicBool::new(false),
            }
        }))
    }

    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, of a card that has not failed.
    pub(super) fn live(&self, operation: &'static str) -> Result<MutexGuard<'_, Core>> {
        let core = self.core();
        match &core.failed {
            Some(cause) => Err(Error::Removed { operation, cause: cause.clone() }),
            None => Ok(core),
        }
    }

    pub(super) fn owner(&self) -> Option<Arc<Owner>> {
        self.owner.get().and_then(Weak::upgrade)
    }

    /// The state of a connection of the manager.
    pub(crate) fn state(&self, cm: u32) -> Option<machine::State> {
        self.core().manager.state(cm)
    }

    /// Whether the newest RC connection with that queue pair of a peer retransmits selectively; `None`: there is none. It looks at each identifier.
    pub(super) fn selective_with(&self, peer: IpAddr, qpn: u32) -> Option<bool> {
        let core = self.core();
        core.ids.values().rev().filter(|entry| entry.transport == Transport::Rc && !entry.gone).find_map(
            |entry| {
                let link = entry.link.filter(|link| (link.way.dst_ip, link.remote_qpn) == (peer, qpn))?;
                Some(link.selective)
            },
        )
    }

    /// Takes what has come, answers it, reports it, and sends what waits. Whether there was anything.
    ///
    /// # Errors
    /// The card fails.
    pub(crate) fn step(&self) -> Result<bool> {
        self.net.poll()?;
        self.core().step(&self.net)
    }

    /// Sends what an operation has made, and has the thread look at its times again.
    pub(super) fn flush(&self, mut core: MutexGuard<'_, Core>) {
        // What fails here fails in the next step as well, which reports it.
        let _ = core.transmit(&self.net);
        drop(core);
        self.wake();
    }

    pub(super) fn wake(&self) {
        if let Some(file) = self.wake.get() {
            // Its counter has room for more than it is ever given.
            let _ = rustix::io::write(file, &1u64.to_ne_bytes());
        }
    }

    /// Asks for events of the card.
    pub(super) fn arm(&self) -> Result<()> {
        self.net.arm()?;
        Ok(self.core().gsi.arm()?)
    }

    /// How long nothing is to be done if nothing comes, by the stack's clock.
    pub(super) fn idle_for(&self) -> Option<Duration> {
        let net = self.net.idle_for();
        let now = self.net.now();
        let core = self.core();
        let next = core.next_deadline(now).map(|next| next.saturating_sub(now));
        net.into_iter().chain(next).min()
    }

    /// The card has failed: every identifier gets an event.
    pub(super) fn fail(&self, cause: String) {
        let mut core = self.core();
        self.ended.store(true, Ordering::Release);
        // Once: both the thread and the owner of the card may see it.
        if core.failed.is_some() {
            return;
        }
        core.failed = Some(cause);
        for entry in core.ids.values_mut() {
            entry.phase = Phase::Removed;
            entry.report(EventKind::DeviceRemoval, status(Errno::NODEV), Param::None);
        }
        core.pending.clear();
        core.resolving.clear();
    }

    /// Whether the thread has to tell the other sides that the program ends.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire) && !self.ended.load(Ordering::Acquire)
    }

    /// Gives all connections, requests and lookups up: the other sides are told.
    pub(super) fn abandon(&self) {
        let now = self.net.now();
        let mut core = self.core();
        let pending = core.pending.iter().map(|pending| pending.cm);
        let all: Vec<u32> = core.by_cm.keys().copied().chain(pending).collect();
        all.into_iter().for_each(|cm| core.manager.abandon(now, cm));
        self.flush(core);
    }

    /// Whether all messages have left.
    pub(super) fn is_idle(&self) -> Result<bool> {
        self.step()?;
        let mut core = self.core();
        Ok(core.waiting.is_empty() && core.answers.is_empty() && core.gsi.is_idle()?)
    }

    /// The own address that a program means: of a loopback address the first one of its family.
    pub(super) fn own(&self, ip: IpAddr) -> Result<IpAddr> {
        match ip {
            _ if self.net.addresses().contains(&ip) => Ok(ip),
            _ if ip.is_loopback() => self.first(ip).ok_or(Error::NotLocal(ip)),
            _ => Err(Error::NotLocal(ip)),
        }
    }

    /// The card's first address of the family of one.
    pub(super) fn first(&self, ip: IpAddr) -> Option<IpAddr> {
        self.net.addresses().into_iter().find(|own| own.is_ipv6() == ip.is_ipv6())
    }
}

/// Every address of the family of one.
pub(super) fn unspecified(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// An EUI-64 of a MAC address (RFC 4291, appendix A).
pub(super) fn guid([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

impl Entry {
    pub(super) fn report(&self, kind: EventKind, status: i32, param: Param) {
        if self.silent {
            return;
        }
        let event = Event::new(&self.account, kind, status, param);
        self.account.channel().push(event);
    }

    /// Parameters of an answer.
    fn conn(private_data: &[u8]) -> Param {
        Param::Conn(ConnParam { private_data: private_data.to_vec(), ..ConnParam::default() })
    }
}

impl Core {
    pub(super) fn random(&mut self) -> Result<u32> {
        Ok(self.gsi.random()?)
    }

    pub(super) fn insert(&mut self, entry: Entry) {
        self.ids.insert(entry.account.key, entry);
    }

    pub(super) fn entry(&mut self, key: u64) -> Option<&mut Entry> {
        self.ids.get_mut(&key)
    }

    /// A connection or lookup is an identifier's.
    pub(super) fn attach(&mut self, key: u64, cm: u32) {
        self.by_cm.insert(cm, key);
        if let Some(entry) = self.ids.get_mut(&key) {
            entry.cm = Some(cm);
        }
    }

    /// An identifier has nothing to do with its connection or lookup any more.
    pub(super) fn finish(&mut self, key: u64, phase: Phase) {
        if let Some(entry) = self.ids.get_mut(&key) {
            entry.phase = phase;
            entry.cm.take().map(|cm| self.by_cm.remove(&cm));
        }
    }

    fn detach(&mut self, cm: u32) {
        if let Some(entry) = self.by_cm.remove(&cm).and_then(|key| self.ids.get_mut(&key)) {
            entry.cm = None;
        }
    }

    /// An identifier is gone: ends what it has.
    pub(super) fn remove(&mut self, now: Duration, key: u64) {
        let Some(entry) = self.ids.remove(&key) else { return };
        if let Some(cm) = entry.cm {
            self.by_cm.remove(&cm);
            self.manager.abandon(now, cm);
        }
        if let (true, Some(local)) = (entry.bound, entry.local) {
            if self.ports.release(entry.space, local.port(), key) {
                self.manager.unlisten(entry.space.service_id(local.port()));
            }
        }
        for pending in self.pending.iter().filter(|pending| pending.listener == key) {
            self.manager.abandon(now, pending.cm);
        }
        self.pending.retain(|pending| pending.listener != key);
    }

    fn step(&mut self, net: &Net) -> Result<bool> {
        let now = net.now();
        let mut busy = false;
        for _ in 0..BURST {
            let Some((path, bytes)) = self.gsi.receive()? else { break };
            busy = true;
            // Other messages are for agents that this port does not have.
            if let Ok(mad) = Mad::parse(&bytes) {
                self.manager.receive(now, &path, &mad);
            }
        }
        self.manager.tick(now);
        self.resolve(now, net)?;
        while let Some((cm, event)) = self.manager.poll_event() {
            busy = true;
            self.event(now, net, cm, event);
        }
        self.announce(now, net)?;
        Ok(self.transmit(net)? || busy)
    }

    /// Sends the waiting messages with a known way. Whether anything was sent.
    fn transmit(&mut self, net: &Net) -> Result<bool> {
        let until = net.now() + PATIENCE;
        while let Some(out) = self.manager.poll_outgoing() {
            let (queue, room) = match out.unsolicited {
                true => (&mut self.answers, ANSWERS),
                false => (&mut self.waiting, WAITING),
            };
            if queue.len() >= room {
                queue.pop_front();
            }
            queue.push_back((out.peer, out.mad, until));
        }
        self.full = false;
        let mut ways = Ways::new(net);
        let (waiting, answers) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.answers));
        let (waiting, sent) = self.send(&mut ways, waiting)?;
        let (answers, answered) = self.send(&mut ways, answers)?;
        (self.waiting, self.answers) = (waiting, answers);
        Ok(sent || answered)
    }

    /// Sends messages with a known way. Those that go on waiting, and whether any was sent.
    fn send(&mut self, ways: &mut Ways<'_>, queue: Queue) -> Result<(Queue, bool)> {
        let (mut left, mut sent) = (Queue::new(), false);
        for (path, mad, until) in queue {
            if self.full {
                left.push_back((path, mad, until));
                continue;
            }
            match ways.to(path)? {
                Way::Known(way) if self.gsi.send(&way, &mad.to_bytes())? => sent = true,
                Way::Known(_) => {
                    self.full = true;
                    left.push_back((path, mad, until));
                }
                Way::Asked if ways.net.now() < until => left.push_back((path, mad, until)),
                Way::Asked | Way::Nowhere => {}
            }
        }
        Ok((left, sent))
    }

    /// When something is to be done, if nothing comes.
    fn next_deadline(&self, now: Duration) -> Option<Duration> {
        let resolving = self.resolving.iter().filter_map(|key| self.ids.get(key)).map(|entry| entry.deadline);
        // A neighbour is asked again now and then, and a full queue looked at soon.
        let full = self.full.then(|| now + Duration::from_millis(1));
        let asks = !(self.pending.is_empty() && self.waiting.is_empty() && self.answers.is_empty());
        let asks = (asks || resolving.clone().next().is_some()).then(|| now + Duration::from_millis(100));
        resolving.chain(full).chain(asks).chain(self.manager.poll_timeout()).min()
    }

    /// An identifier looks for the way to its other side.
    pub(super) fn begin_to_resolve(&mut self, key: u64, deadline: Duration) {
        if let Some(entry) = self.ids.get_mut(&key) {
            (entry.phase, entry.deadline) = (Phase::ResolvingAddress, deadline);
            self.resolving.insert(key);
        }
    }

    /// Looks whether addresses that are being resolved are known by now.
    pub(super) fn resolve(&mut self, now: Duration, net: &Net) -> Result<()> {
        let mut ways = Ways::new(net);
        for key in std::mem::take(&mut self.resolving) {
            let Some(entry) = self.ids.get_mut(&key) else { continue };
            let (Some(local), Some(remote)) = (entry.local, entry.remote) else { continue };
            match ways.to(Path { local: local.ip(), remote: remote.ip() })? {
                Way::Known(way) => {
                    entry.way = Some(way);
                    entry.phase = Phase::AddressResolved;
                    entry.report(EventKind::AddressResolved, 0, Param::None);
                }
                Way::Asked if now < entry.deadline => {
                    self.resolving.insert(key);
                }
                failed => {
                    let errno = match failed {
                        Way::Nowhere => Errno::NETUNREACH,
                        _ => Errno::TIMEDOUT,
                    };
                    entry.phase = Phase::Bound;
                    entry.report(EventKind::AddressError, status(errno), Param::None);
                }
            }
        }
        Ok(())
    }

    /// Turns an event of the manager into one of an identifier.
    fn event(&mut self, now: Duration, net: &Net, cm: u32, event: machine::Event) {
        match event {
            machine::Event::Requested(req) => return self.requested(now, net, cm, Request::Connection(req)),
            machine::Event::SidrRequested(req) => {
                return self.requested(now, net, cm, Request::Datagrams(req))
            }
            machine::Event::Rejected(_) | machine::Event::TimedOut => {
                // A request that its asker has given up, and of which the program does not know yet.
                self.pending.retain(|pending| pending.cm != cm);
            }
            // The answer is at once, for the program has nothing to say to it.
            machine::Event::Disconnected(End::Dreq(_)) => {
                self.manager.disconnect(now, cm, [0; Dreq::PRIVATE]);
            }
            _ => {}
        }
        let Some(key) = self.by_cm.get(&cm).copied() else { return };
        let limits = self.limits;
        let Some(entry) = self.ids.get_mut(&key) else { return };
        match event {
            machine::Event::Replied(rep) => entry.replied(&rep, &limits),
            machine::Event::Established(_) => {
                entry.phase = Phase::Connected;
                entry.report(EventKind::Established, 0, Param::None);
            }
            machine::Event::Rejected(rej) => {
                (entry.phase, entry.gone) = (Phase::Ended, true);
                entry.report(EventKind::Rejected, rej.reason.into(), Entry::conn(&rej.private_data));
                self.detach(cm);
            }
            machine::Event::TimedOut => {
                (entry.phase, entry.gone) = (Phase::Ended, true);
                entry.report(EventKind::Unreachable, status(Errno::TIMEDOUT), Param::None);
                self.detach(cm);
            }
            machine::Event::Disconnected(end) => {
                (entry.phase, entry.gone) = (Phase::Disconnected, !matches!(end, End::Drep(_)));
                let (status, param) = match end {
                    End::Dreq(dreq) => (0, Entry::conn(&dreq.private_data)),
                    End::Drep(drep) => (0, Entry::conn(&drep.private_data)),
                    End::Rejected(_) => (status(Errno::CONNRESET), Param::None),
                    End::TimedOut => (status(Errno::TIMEDOUT), Param::None),
                };
                entry.report(EventKind::Disconnected, status, param);
            }
            machine::Event::TimeWaitOver => {
                entry.report(EventKind::TimeWaitExit, 0, Param::None);
                self.detach(cm);
            }
            machine::Event::SidrReplied(rep) => {
                entry.found(&rep);
                self.detach(cm);
            }
            machine::Event::Requested(_) | machine::Event::SidrRequested(_) => {}
        }
    }

    /// Refuses a request without an event.
    fn refuse(
        &mut self,
        now: Duration,
        cm: u32,
        request: &Request,
        reason: RejectReason,
        status: SidrStatus,
    ) {
        match request {
            Request::Connection(_) => {
                self.manager.refuse(cm, reason);
            }
            Request::Datagrams(_) => {
                let rep = SidrRep { status: status.code(), ..SidrRep::default() };
                self.manager.answer(now, cm, rep);
            }
        }
    }

    /// A peer asks.
    fn requested(&mut self, now: Duration, net: &Net, cm: u32, request: Request) {
        let Some(path) = self.manager.peer(cm).copied() else { return };
        let own = net.addresses();
        let service = PortSpace::of_service_id(request.service_id());
        // The program admits by the addresses in the message, and its queue pair sends to those of the packet: on RoCE v2, where a GID is an IP
        // address (IBTA A17.4.3), they are the same, unless the sender pretends to be another host.
        let same = |ip: &IpCm| ip.source == path.remote && ip.destination == path.local;
        let ip = IpCm::parse(request.private_data()).filter(|ip| same(ip) && own.contains(&ip.destination));
        let listener = service.zip(ip).and_then(|((space, port), ip)| {
            let fits = space.is_datagram() == matches!(request, Request::Datagrams(_));
            let key = self.ports.listener(space, port, ip.destination).filter(|_| fits)?;
            Some((key, ip, port))
        });
        let Some((listener, ip, port)) = listener else {
            return self.refuse(now, cm, &request, RejectReason::InvalidServiceId, SidrStatus::Unsupported);
        };
        if let Request::Connection(req) = &request {
            if PathMtu::try_from(req.path_mtu).map_or(true, |mtu| mtu.code() > self.limits.max_mtu.code()) {
                return self.refuse(now, cm, &request, RejectReason::InvalidMtu, SidrStatus::Rejected);
            }
        }
        if self.pending.len() >= PENDING {
            if let Some(oldest) = self.pending.pop_front() {
                self.manager.forget(oldest.cm);
            }
        }
        let until = now + PATIENCE;
        self.pending.push_back(Pending { cm, path, listener, ip, port, request, until });
    }

    /// Reports requests with a known way back.
    fn announce(&mut self, now: Duration, net: &Net) -> Result<()> {
        let mut ways = Ways::new(net);
        for pending in std::mem::take(&mut self.pending) {
            match ways.to(pending.path)? {
                Way::Known(way) => self.report_request(now, way, pending)?,
                Way::Asked if now < pending.until => self.pending.push_back(pending),
                Way::Asked | Way::Nowhere => self.manager.forget(pending.cm),
            }
        }
        Ok(())
    }

    fn report_request(&mut self, now: Duration, way: AddressVector, pending: Pending) -> Result<()> {
        let Pending { cm, listener, ip, port, request, .. } = pending;
        let psn = Psn::new(self.gsi.random()?);
        let limits = self.limits;
        let (Some(shared), Some(entry)) = (self.me.upgrade(), self.ids.get(&listener)) else {
            self.manager.abandon(now, cm);
            return Ok(());
        };
        if entry.waiting.load(Ordering::Relaxed) >= entry.backlog {
            // The asker asks again.
            self.manager.forget(cm);
            return Ok(());
        }
        let waiting = Waiting::new(&entry.waiting);
        let to = Arc::clone(&entry.account);
        // Held until the request is there: its listener does not migrate in between.
        let channel = to.channel();
        let account = Account::new(0, &channel);
        let key = account.key;
        let options = entry.options;
        let (transport, link, param) = match &request {
            Request::Datagrams(req) => {
                let private_data = req.private_data[IpCm::BYTES..].to_vec();
                (
                    Transport::Ud,
                    None,
                    Param::Ud(UdParam { private_data, way: Some(way), ..UdParam::default() }),
                )
            }
            Request::Connection(req) => {
                let transport = if req.transport_service == 1 { Transport::Uc } else { Transport::Rc };
                let link = Link::of_request(req, way, psn, &limits, options.selective);
                (transport, Some(link), Param::Conn(ConnParam::of_request(req)))
            }
        };
        let entry = Entry {
            account: Arc::clone(&account),
            space: entry.space,
            transport,
            phase: Phase::Requested,
            options,
            local: Some(SocketAddr::new(ip.destination, port)),
            remote: Some(SocketAddr::new(ip.source, ip.source_port)),
            bound: false,
            way: Some(link.map_or(way, |link| link.way)),
            deadline: Duration::ZERO,
            cm: Some(cm),
            psn,
            gone: false,
            silent: true,
            link,
            asked: ConnParam::default(),
            path_mtu: link.map_or(PathMtu::B1024, |link| link.path_mtu),
            backlog: 0,
            waiting: Arc::default(),
        };
        self.insert(entry);
        self.by_cm.insert(cm, key);
        let owner = shared.owner();
        let id = Id::new(shared, owner, account);
        channel.push(Event::request(&to, id, waiting, param));
        Ok(())
    }
}

impl Entry {
    /// The other side has accepted.
    fn replied(&mut self, rep: &Rep, limits: &Limits) {
        let Some(way) = self.way else { return };
        self.phase = Phase::Replied;
        self.link = Some(Link {
            way,
            path_mtu: self.path_mtu,
            remote_qpn: rep.local_qpn,
            rq_psn: self.psn,
            sq_psn: Psn::new(rep.starting_psn),
            // Those of the answer, which may exceed what was asked for (as Linux).
            responder_resources: rep.initiator_depth.min(limits.max_dest_rd_atomic),
            initiator_depth: rep.responder_resources.min(limits.max_rd_atomic),
            ack_timeout: self.options.ack_timeout,
            retry_count: self.asked.retry_count.min(7),
            rnr_retry: rep.rnr_retry_count,
            offered: false,
            // The manager passes on the version that was asked for, or 0.
            selective: rep.selective != 0,
        });
        let param = ConnParam {
            private_data: rep.private_data.to_vec(),
            responder_resources: rep.initiator_depth,
            initiator_depth: rep.responder_resources,
            flow_control: rep.flow_control,
            retry_count: 0,
            rnr_retry_count: rep.rnr_retry_count,
            srq: rep.srq,
            qp_num: rep.local_qpn,
        };
        self.report(EventKind::ConnectResponse, 0, Param::Conn(param));
    }

    /// A lookup of a datagram service is answered.
    fn found(&mut self, rep: &SidrRep) {
        let valid = rep.status == SidrStatus::Valid.code();
        self.phase = if valid { Phase::Connected } else { Phase::Ended };
        let param = Param::Ud(UdParam {
            private_data: rep.private_data.to_vec(),
            way: self.way.filter(|_| valid),
            qp_num: rep.qpn,
            qkey: rep.qkey,
        });
        match valid {
            true => self.report(EventKind::Established, 0, param),
            false => self.report(EventKind::Unreachable, rep.status.into(), param),
        }
    }
}

/// Ways that are looked up once, however many messages go there.
struct Ways<'a> {
    net: &'a Net,
    found: BTreeMap<Path, Way>,
}

impl<'a> Ways<'a> {
    fn new(net: &'a Net) -> Self {
        Self { net, found: BTreeMap::new() }
    }

    fn to(&mut self, path: Path) -> Result<Way> {
        if let Some(way) = self.found.get(&path) {
            return Ok(*way);
        }
        let way = known(self.net.try_way(path.local, path.remote))?;
        self.found.insert(path, way);
        Ok(way)
    }
}

/// What is known of a way.
#[derive(Clone, Copy)]
#[allow(clippy::large_enum_variant)] // There are few.
enum Way {
    Known(AddressVector),
    /// The neighbour was asked.
    Asked,
    /// There is none.
    Nowhere,
}

fn known(way: Result<Option<AddressVector>>) -> Result<Way> {
    match way {
        Ok(Some(way)) => Ok(Way::Known(way)),
        Ok(None) => Ok(Way::Asked),
        Err(Error::NoRoute { .. } | Error::NoAddress { .. }) => Ok(Way::Nowhere),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "shared_tests.rs"]
pub(crate) mod tests;
