// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Wire`]: hosts, each with a service, and what they say to each other.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ferrowire::{AddressVector, BusError, PathMtu, QpAttributes, QpState};
use ferrowire_net::cm::machine::Timing;
use ferrowire_net::mad::{Mad, Message, PortSpace, BYTES};
use ferrowire_net::rdma::{Channel, ConnParam, Event, EventKind, Id, ManagedQp, Service, ServiceConfig};
use ferrowire_net::{Config, Gsi, Limits, Link, Net, Path};
use rustix::event::{poll, PollFd, PollFlags, Timespec};

/// Longest wait for what comes at once on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long the tests' programs look for a neighbour, by the wire's clock.
pub const RESOLVE: Duration = Duration::from_secs(2);

/// What becomes of a message of a host: how often it arrives.
type Fate = Box<dyn FnMut(usize, &Message) -> usize + Send>;

struct Ends {
    frames: Vec<VecDeque<Vec<u8>>>,
    mads: Vec<VecDeque<(Path, [u8; BYTES])>>,
    now: Duration,
    fate: Fate,
    /// Names of the messages sent, with their senders.
    log: Vec<(usize, &'static str)>,
    sent: Vec<(usize, Mad)>,
    dead: Vec<bool>,
    /// The next turn of a host's thread panics.
    upset: Vec<bool>,
    /// Ends that a host has: its thread takes turns while there are any.
    ends: Vec<usize>,
    /// How often a host has taken all frames that were there: once in each turn.
    turns: Vec<u64>,
    /// Frames and messages that were sent.
    activity: u64,
    /// Hosts with a card that has selective retransmission.
    selective: Vec<bool>,
}

impl Ends {
    /// Hosts whose threads take turns.
    fn living(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.dead.len()).filter(|host| !self.dead[*host] && self.ends[*host] > 0)
    }
}

/// Hosts on a wire.
#[derive(Clone)]
pub struct Wire(Arc<Mutex<Ends>>);

impl Wire {
    /// So many hosts, none of which has a service yet.
    pub fn new(hosts: usize) -> Self {
        let queues = || (0..hosts).map(|_| VecDeque::new()).collect();
        Self(Arc::new(Mutex::new(Ends {
            frames: queues(),
            mads: (0..hosts).map(|_| VecDeque::new()).collect(),
            now: Duration::ZERO,
            fate: Box::new(|_, _| 1),
            log: Vec::new(),
            sent: Vec::new(),
            dead: vec![false; hosts],
            upset: vec![false; hosts],
            ends: vec![0; hosts],
            turns: vec![0; hosts],
            activity: 0,
            selective: vec![false; hosts],
        })))
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.0.lock().unwrap()
    }

    /// Lets time pass, and all hosts do what is due by then and answer each other: nothing depends on the speed of this machine.
    pub fn pass(&self, time: Duration) {
        self.ends().now += time;
        self.settle();
    }

    /// Until no host has anything to do at this time.
    #[track_caller]
    pub fn settle(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let (start, activity) = {
                let ends = self.ends();
                (ends.turns.clone(), ends.activity)
            };
            // The first turn that ends may have begun before; the second one has seen all that was there at its beginning.
            let turned = |ends: &Ends| ends.living().all(|host| ends.turns[host] >= start[host] + 2);
            loop {
                let ends = self.ends();
                if turned(&ends) {
                    let empty = |host: usize| ends.frames[host].is_empty() && ends.mads[host].is_empty();
                    if ends.activity == activity && ends.living().all(empty) {
                        return;
                    }
                    break;
                }
                drop(ends);
                assert!(Instant::now() < end, "a host's thread takes no turn");
                std::thread::sleep(Duration::from_micros(20));
            }
        }
    }

    /// Says what becomes of messages from now on.
    pub fn set_fate(&self, fate: impl FnMut(usize, &Message) -> usize + Send + 'static) {
        self.ends().fate = Box::new(fate);
    }

    /// The card of a host has selective retransmission. Before its service begins.
    pub fn has_selective(&self, host: usize) {
        self.ends().selective[host] = true;
    }

    /// A card fails from now on.
    pub fn kill(&self, host: usize) {
        self.ends().dead[host] = true;
    }

    /// The next turn of a host's thread panics, and there is none after it.
    pub fn upset(&self, host: usize) {
        let mut ends = self.ends();
        (ends.upset[host], ends.dead[host]) = (true, true);
    }

    /// Whether a host has taken all that was sent to it. It is done with it when it answers the next call.
    pub fn delivered(&self, host: usize) -> bool {
        self.ends().mads[host].is_empty()
    }

    /// How often a host has sent a message.
    pub fn count(&self, host: usize, name: &str) -> usize {
        self.ends().log.iter().filter(|entry| **entry == (host, name)).count()
    }

    /// A message that no service of the test has sent.
    pub fn inject(&self, host: usize, path: Path, message: Message) {
        let mad = Mad { transaction_id: 7, message };
        self.ends().mads[host].push_back((path, mad.to_bytes()));
    }

    /// The messages that were sent, with their senders.
    pub fn sent(&self) -> Vec<(usize, Mad)> {
        self.ends().sent.clone()
    }
}

/// The address of a host.
pub fn ip(host: usize, ipv6: bool) -> IpAddr {
    match ipv6 {
        false => [10, 0, 0, 1 + host as u8].into(),
        true => [0xfd00, 0, 0, 0, 0, 0, 0, 1 + host as u16].into(),
    }
}

/// An address and a port of a host.
pub fn at(host: usize, ipv6: bool, port: u16) -> SocketAddr {
    SocketAddr::new(ip(host, ipv6), port)
}

pub fn mac(host: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, host as u8]
}

/// A host's end.
struct End {
    wire: Wire,
    host: usize,
    random: u32,
}

impl Drop for End {
    fn drop(&mut self) {
        self.wire.ends().ends[self.host] -= 1;
    }
}

impl End {
    fn new(wire: &Wire, host: usize, random: u32) -> Self {
        wire.ends().ends[host] += 1;
        Self { wire: wire.clone(), host, random }
    }

    fn alive(&self) -> ferrowire::Result<()> {
        let upset = std::mem::take(&mut self.wire.ends().upset[self.host]);
        assert!(!upset, "the test wants this panic");
        match self.wire.ends().dead[self.host] {
            true => Err(BusError::Gone("the test has killed it".into()).into()),
            false => Ok(()),
        }
    }
}

impl Link for End {
    fn receive(&mut self, frame: &mut [u8]) -> ferrowire::Result<Option<usize>> {
        self.alive()?;
        let mut ends = self.wire.ends();
        let came = ends.frames[self.host].pop_front();
        ends.turns[self.host] += u64::from(came.is_none());
        Ok(came.map(|came| {
            frame[..came.len()].copy_from_slice(&came);
            came.len()
        }))
    }

    fn has_room(&mut self) -> ferrowire::Result<bool> {
        Ok(true)
    }

    fn send(&mut self, frame: &[u8]) -> ferrowire::Result<()> {
        self.alive()?;
        let mut ends = self.wire.ends();
        ends.activity += 1;
        let mut frame = frame.to_vec();
        frame.resize(frame.len().max(60), 0);
        let others = (0..ends.frames.len()).filter(|host| *host != self.host);
        for host in others.collect::<Vec<_>>() {
            if frame[0] & 1 == 1 || frame[..6] == mac(host) {
                ends.frames[host].push_back(frame.clone());
            }
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.wire.ends().now
    }
}

impl Gsi for End {
    fn receive(&mut self) -> ferrowire::Result<Option<(Path, [u8; BYTES])>> {
        self.alive()?;
        Ok(self.wire.ends().mads[self.host].pop_front())
    }

    fn send(&mut self, way: &AddressVector, bytes: &[u8; BYTES]) -> ferrowire::Result<bool> {
        self.alive()?;
        let mad = Mad::parse(bytes).unwrap();
        let mut ends = self.wire.ends();
        ends.activity += 1;
        ends.log.push((self.host, mad.message.name()));
        ends.sent.push((self.host, mad));
        let copies = (ends.fate)(self.host, &mad.message);
        let host = usize::from(way.dst_mac[5]);
        assert_eq!((way.src_mac, way.dst_ip), (mac(self.host), ip(host, way.dst_ip.is_ipv6())));
        let path = Path { local: way.dst_ip, remote: way.src_ip };
        (0..copies).for_each(|_| ends.mads[host].push_back((path, *bytes)));
        Ok(true)
    }

    fn is_idle(&mut self) -> ferrowire::Result<bool> {
        Ok(true)
    }

    fn random(&mut self) -> ferrowire::Result<u32> {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Ok(self.random >> 8)
    }

    fn limits(&self) -> Limits {
        Limits {
            max_rd_atomic: 16,
            max_dest_rd_atomic: 8,
            max_mtu: PathMtu::B4096,
            atomics: true,
            selective: self.wire.ends().selective[self.host],
        }
    }
}

/// A host: its service, and a channel.
pub struct Host {
    pub service: Service,
    pub channel: Channel,
    wire: Wire,
    host: usize,
    seed: u32,
}

impl Host {
    /// A service at a host of a wire.
    pub fn new(wire: &Wire, host: usize) -> Self {
        Self::with(wire, host, ServiceConfig::default(), 1)
    }

    pub fn with(wire: &Wire, host: usize, config: ServiceConfig, seed: u32) -> Self {
        let end = || End::new(wire, host, seed * 1000 + host as u32);
        let own = [ip(host, false), ip(host, true)];
        let net = Net::over(Box::new(end()), mac(host), &own, 77 + host as u64, Config::default()).unwrap();
        let service = Service::over(&net, Box::new(end()), &config).unwrap();
        Self { service, channel: Channel::new().unwrap(), wire: wire.clone(), host, seed }
    }

    /// The same host after its program was killed and started anew.
    pub fn restart(self, wire: &Wire) -> Self {
        // Nothing of the old one leaves any more.
        let host = self.host;
        wire.kill(host);
        until("the old one has stopped", || self.service.failure().is_some());
        wire.ends().dead[host] = false;
        Self::with(wire, host, ServiceConfig::default(), self.seed + 1)
    }

    /// An identifier of connections.
    pub fn id(&self) -> Id {
        self.id_of(PortSpace::Tcp)
    }

    pub fn id_of(&self, space: PortSpace) -> Id {
        self.service.create_id(&self.channel, space, 0).unwrap()
    }

    /// A listener.
    pub fn listen(&self, space: PortSpace, port: u16) -> Id {
        let id = self.id_of(space);
        id.bind(SocketAddr::from(([0u16; 8], port))).unwrap();
        id.listen(0).unwrap();
        id
    }

    /// An identifier that can connect.
    pub fn resolved(&self, space: PortSpace, to: SocketAddr) -> Id {
        let id = self.id_of(space);
        id.resolve_address(None, to, RESOLVE).unwrap();
        self.expect(EventKind::AddressResolved);
        id.resolve_route().unwrap();
        self.expect(EventKind::RouteResolved);
        id
    }

    /// The next event.
    #[track_caller]
    pub fn next(&self) -> Event {
        next(&self.channel)
    }

    /// The next event, which is of this kind.
    #[track_caller]
    pub fn expect(&self, kind: EventKind) -> Event {
        let event = self.next();
        assert_eq!(event.kind(), kind, "{event:?}");
        event
    }

    /// A request, with its identifier.
    #[track_caller]
    pub fn request(&self) -> (Id, Event) {
        let mut event = self.expect(EventKind::ConnectRequest);
        (event.take_request().unwrap(), event)
    }

    /// No event comes before time passes.
    #[track_caller]
    pub fn quiet(&self) {
        self.wire.settle();
        if let Some(event) = self.channel.try_next() {
            panic!("{event:?}");
        }
    }
}

/// The next event of a channel.
#[track_caller]
pub fn next(channel: &Channel) -> Event {
    let timeout = Timespec::try_from(PATIENCE).unwrap();
    let ready = poll(&mut [PollFd::new(channel, PollFlags::IN)], Some(&timeout)).unwrap();
    assert_eq!(ready, 1, "no event comes");
    channel.try_next().expect("a file that can be read has an event")
}

/// The next event of a channel, while time passes on the wire.
#[track_caller]
pub fn next_while_time_passes(wire: &Wire, channel: &Channel, step: Duration) -> Event {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(event) = channel.try_next() {
            return event;
        }
        wire.pass(step);
    }
    panic!("no event comes");
}

/// Until something is so.
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A queue pair that only notes where it is taken.
#[derive(Debug, Default)]
pub struct Noted {
    pub number: u32,
    pub steps: Vec<(QpState, QpAttributes)>,
    /// It does not go there.
    pub fails: Option<QpState>,
}

impl Noted {
    pub fn new(number: u32) -> Self {
        Self { number, ..Self::default() }
    }

    pub fn states(&self) -> Vec<QpState> {
        self.steps.iter().map(|step| step.0).collect()
    }

    /// The attributes with which it went to a state.
    pub fn to(&self, state: QpState) -> QpAttributes {
        self.steps.iter().find(|step| step.0 == state).unwrap().1
    }
}

impl ManagedQp for Noted {
    fn number(&self) -> u32 {
        self.number
    }

    fn modify(&mut self, to: QpState, attributes: &QpAttributes) -> ferrowire::Result<()> {
        if self.fails == Some(to) {
            return Err(BusError::Gone("the queue pair has failed".into()).into());
        }
        self.steps.push((to, *attributes));
        Ok(())
    }
}

/// Parameters with some bytes.
pub fn param(qp_num: u32, private_data: &[u8]) -> ConnParam {
    ConnParam {
        private_data: private_data.to_vec(),
        responder_resources: 4,
        initiator_depth: 3,
        retry_count: 7,
        rnr_retry_count: 6,
        qp_num,
        ..ConnParam::default()
    }
}

/// A connection between two hosts; both ends and queue pairs.
pub fn connected(a: &Host, b: &Host, port: u16) -> ((Id, Noted), (Id, Noted)) {
    let listener = b.listen(PortSpace::Tcp, port);
    let (mut near, mut far) = (Noted::new(17), Noted::new(40));
    let id = a.resolved(PortSpace::Tcp, at(b.host, false, port));
    id.connect(&param(17, b"hello")).unwrap();
    let (other, request) = b.request();
    drop(request);
    other.accept(&param(0, b"welcome"), Some(&mut far)).unwrap();
    let mut event = a.expect(EventKind::ConnectResponse);
    id.complete(&mut event, &mut near);
    assert_eq!(event.kind(), EventKind::Established);
    b.expect(EventKind::Established);
    listener.destroy();
    ((id, near), (other, far))
}

/// A short time until messages are repeated, and few tries.
pub fn hasty() -> ServiceConfig {
    let mut config = ServiceConfig::default();
    config.timing = Timing { response: 14, retries: 3, time_wait: 14, service: 16 };
    config
}
