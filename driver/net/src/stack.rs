// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Net`]: an IP stack over a link, and what one asks it for: neighbours and echoes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrowire::{AddressVector, Context, EventQueue, ProtectionDomain};
use smoltcp::iface::{Interface, PollIngressSingleResult, SocketHandle, SocketSet};
use smoltcp::phy::{DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{icmp, tcp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, EthernetFrame, IpCidr};

use crate::echo::{is_reply, request};
use crate::error::{Error, Result};
use crate::link::{Link, RawLink};
use crate::neighbour::{question, Neighbours, Questions};
use crate::vlan::{Tagged, VID};

/// Addresses that the IP stack takes: the feature `iface-max-addr-count-8`.
const MAX_ADDRESSES: usize = 8;

/// Frames that are taken before others have a turn.
const BURST: usize = 64;

/// What a wait leaves to others between two looks. Threads that share a simulation need it: its lock is not fair, and who took it again at once would
/// keep the other hosts from it while their time passes.
pub(crate) const PAUSE: Duration = Duration::from_micros(20);

/// How the network is.
#[derive(Debug, Clone)]
pub struct Config {
    /// Bits of an IPv4 address that are those of the link.
    pub prefix_v4: u8,
    /// Bits of an IPv6 address that are those of the link. Addresses of `fe80::/10` have 64.
    pub prefix_v6: u8,
    /// Who brings IPv4 packets to others.
    pub gateway_v4: Option<Ipv4Addr>,
    /// Who brings IPv6 packets to others.
    pub gateway_v6: Option<Ipv6Addr>,
    /// Bytes of an IP packet, at most.
    pub mtu: usize,
    /// The VLAN that the stack is in, as a tag's control information, with the priority that its frames have; `None`: in none.
    pub vlan: Option<u16>,
    /// Frames that wait in memory each way.
    pub frames: u32,
    /// How long the answer to a question for a neighbour may take.
    pub neighbour_timeout: Duration,
    /// How often it is asked.
    pub neighbour_tries: u32,
    /// How often the stack's second passes in one second of the card's clock. More than 1 is for simulations, where time is dear, as
    /// [`Context::set_timer_tick`] is: all time-outs of this crate, and all times that it gives, are of this clock.
    pub speed: u32,
    /// How many seconds of the card's clock pass in one of the stack's. More than 1 is for a simulated card whose clock is that of the wall: all that passes on its wire
    /// takes longer there, and time-outs are to be as much longer.
    pub slowness: u32,
    /// Asked while something is waited for: whether the wait is to end with `Stopped`. For programs that end when a signal has come.
    pub stop: fn() -> bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            prefix_v4: 24,
            prefix_v6: 64,
            gateway_v4: None,
            gateway_v6: None,
            mtu: 1500,
            vlan: None,
            frames: 64,
            neighbour_timeout: Duration::from_millis(500),
            neighbour_tries: 6,
            speed: 1,
            slowness: 1,
            stop: || false,
        }
    }
}

impl Config {
    /// How long a time of the card's clock lasts by the stack's.
    fn of_stack(&self, time: Duration) -> Duration {
        time * self.speed / self.slowness
    }
}

/// The link as the IP stack wants it.
pub(crate) struct Device {
    link: Box<dyn Link>,
    neighbours: Neighbours,
    own: Vec<IpAddr>,
    now: Duration,
    mtu: usize,
    rx: Vec<u8>,
    tx: Vec<u8>,
    /// What the card failed with; the stack itself knows no errors.
    failed: Option<ferrowire::Error>,
}

/// A frame that has come.
pub(crate) struct Received<'a>(&'a [u8]);

/// Room for a frame.
pub(crate) struct Room<'a> {
    link: &'a mut dyn Link,
    tx: &'a mut Vec<u8>,
    failed: &'a mut Option<ferrowire::Error>,
}

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        self.tx.clear();
        self.tx.resize(len, 0);
        let result = f(self.tx);
        if let Err(error) = self.link.send(self.tx) {
            self.failed.get_or_insert(error);
        }
        result
    }
}

impl Device {
    /// The value, if the card has not failed.
    fn of<T>(&mut self, result: ferrowire::Result<T>) -> Option<T> {
        result.map_err(|error| self.failed.get_or_insert(error).clone()).ok()
    }

    fn has_room(&mut self) -> bool {
        let room = self.link.has_room();
        self.of(room).unwrap_or(false)
    }
}

impl smoltcp::phy::Device for Device {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Room<'a>;

    /// A frame may want an answer: as long as there is no room for one, frames wait in the card's memory.
    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Room<'_>)> {
        self.has_room().then_some(())?;
        let came = self.link.receive(&mut self.rx);
        let bytes = self.of(came)??;
        let Self { link, neighbours, own, now, rx, tx, failed, .. } = self;
        neighbours.hear(&rx[..bytes], own, *now);
        Some((Received(&rx[..bytes]), Room { link: link.as_mut(), tx, failed }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        self.has_room().then_some(())?;
        let Self { link, tx, failed, .. } = self;
        Some(Room { link: link.as_mut(), tx, failed })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu + EthernetFrame::<&[u8]>::header_len();
        capabilities
    }
}

/// The stack behind its lock.
pub(crate) struct Stack {
    pub(crate) device: Device,
    pub(crate) iface: Interface,
    pub(crate) sockets: SocketSet<'static>,
    pub(crate) config: Config,
    mac: [u8; 6],
    /// Neighbours that were asked for by callers that do not wait.
    questions: Questions,
    /// Sockets whose owners have gone.
    pub(crate) closing: Vec<SocketHandle>,
    pub(crate) next_port: u16,
    next_ping: u16,
}

fn cidr(ip: IpAddr, config: &Config) -> IpCidr {
    let prefix = match ip {
        IpAddr::V4(_) => config.prefix_v4.min(32),
        IpAddr::V6(ip) if ip.segments()[0] & 0xffc0 == 0xfe80 => 64,
        IpAddr::V6(_) => config.prefix_v6.min(128),
    };
    IpCidr::new(ip.into(), prefix)
}

/// The bits in which two addresses of a family differ, from the first such bit on.
fn distance(a: IpAddr, b: IpAddr) -> u32 {
    let bits = |ip| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    };
    u128::BITS - (bits(a) ^ bits(b)).leading_zeros()
}

/// The scope of an address of one interface (RFC 6724, 3.1 and 3.2), as that of multicast addresses is numbered (RFC 4291, 2.7).
fn scope(ip: IpAddr) -> u8 {
    const LINK: u8 = 2;
    const SITE: u8 = 5;
    const GLOBAL: u8 = 14;
    match ip {
        IpAddr::V4(ip) if ip.is_link_local() || ip.is_loopback() => LINK,
        IpAddr::V6(ip) if ip.is_multicast() => ip.octets()[1] & 0xf,
        IpAddr::V6(ip) if ip.is_unicast_link_local() || ip.is_loopback() => LINK,
        // fec0::/10
        IpAddr::V6(ip) if ip.segments()[0] & 0xffc0 == 0xfec0 => SITE,
        _ => GLOBAL,
    }
}

/// How badly the scope of an own address suits that of a peer's, smallest first (RFC 6724, 5, rule 2): the smallest that reaches the peer, or else the largest.
fn misfit(own: u8, peer: u8) -> (bool, u8) {
    match own >= peer {
        true => (false, own),
        false => (true, u8::MAX - own),
    }
}

/// Those that a stack can have.
fn single(ip: &IpAddr) -> bool {
    !ip.is_multicast() && !ip.is_unspecified() && *ip != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Those of these addresses that a stack can have, if it can have them all.
fn checked(addresses: &[IpAddr]) -> Result<Vec<IpAddr>> {
    let addresses: Vec<IpAddr> = addresses.iter().copied().filter(single).collect();
    match addresses.len() > MAX_ADDRESSES {
        true => Err(Error::TooManyAddresses { found: addresses.len(), limit: MAX_ADDRESSES }),
        false => Ok(addresses),
    }
}

impl Stack {
    pub(crate) fn now(&self) -> Duration {
        self.config.of_stack(self.device.link.now())
    }

    /// Takes what has come, answers it, and sends what waits.
    pub(crate) fn poll(&mut self) -> Result<()> {
        let now = self.now();
        self.device.now = now;
        let instant = Instant::from_micros(now.as_micros() as i64);
        let Self { device, iface, sockets, .. } = self;
        for _ in 0..BURST {
            if iface.poll_ingress_single(instant, device, sockets) == PollIngressSingleResult::None {
                break;
            }
        }
        iface.poll_egress(instant, device, sockets);
        let turned = device.link.turn();
        let _ = device.of(turned);
        let ended = |sockets: &SocketSet<'_>, handle| {
            let state = sockets.get::<tcp::Socket<'_>>(handle).state();
            matches!(state, tcp::State::Closed | tcp::State::TimeWait)
        };
        let (gone, closing) =
            std::mem::take(&mut self.closing).into_iter().partition(|handle| ended(sockets, *handle));
        self.closing = closing;
        Vec::into_iter(gone).for_each(|handle: SocketHandle| drop(sockets.remove(handle)));
        self.device.failed.take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// An own address from which `ip` is reached, and who is asked for the way there.
    fn hop(&self, operation: &'static str, ip: IpAddr) -> Result<(IpAddr, IpAddr)> {
        let family = |own: &&IpAddr| own.is_ipv6() == ip.is_ipv6();
        // Of several, the one of the appropriate scope (RFC 6724, 5, rule 2), then with the longest prefix in common (rule 8); of equals the first.
        let near = |to: IpAddr| {
            let on_link = |own: &&IpAddr| cidr(**own, &self.config).contains_addr(&to.into());
            let own = self.device.own.iter().filter(family).filter(on_link);
            own.min_by_key(|own| (misfit(scope(**own), scope(ip)), distance(**own, to))).copied()
        };
        self.device.own.iter().find(family).ok_or(Error::NoAddress { operation, peer: ip })?;
        if let Some(own) = near(ip) {
            return Ok((own, ip));
        }
        let gateway = match ip {
            IpAddr::V4(_) => self.config.gateway_v4.map(IpAddr::from),
            IpAddr::V6(_) => self.config.gateway_v6.map(IpAddr::from),
        };
        let hop = gateway.and_then(|gateway| Some((near(gateway)?, gateway)));
        hop.ok_or(Error::NoRoute { operation, peer: ip })
    }

    /// From an own address to `ip` by way of `mac`, in the stack's VLAN.
    fn vector(&self, own: IpAddr, mac: [u8; 6], ip: IpAddr) -> AddressVector {
        AddressVector { vlan: self.config.vlan, ..AddressVector::new(self.mac, own, mac, ip) }
    }

    /// Asks everybody, if there is room; whether there was.
    fn ask(&mut self, own: IpAddr, ip: IpAddr) -> Result<bool> {
        let room = self.device.link.has_room()?;
        if room {
            self.device.link.send(&question(self.mac, own, ip))?;
        }
        Ok(room)
    }
}

/// An IP stack on the port of a card: it answers ARP, neighbour solicitations and echo requests while somebody calls [`poll`](Self::poll) or waits in
/// one of the other methods.
///
/// `Send` and `Sync`; clones are the same stack, and threads that wait take turns.
#[derive(Clone)]
pub struct Net {
    stack: Arc<Mutex<Stack>>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net").field("addresses", &self.lock().device.own).finish_non_exhaustive()
    }
}

impl Net {
    /// A stack over the raw Ethernet queue pair of a card, with the MAC address of its port and those of its GIDs that are in the VLAN of
    /// [`Config::vlan`], or in none.
    ///
    /// # Errors
    /// The card has no such queue pair, or it is in use; the port has too many addresses.
    pub fn new(context: &Context, pd: &ProtectionDomain, config: Config) -> Result<Self> {
        Self::with_events(context, pd, config, None)
    }

    /// The same. Frames raise events of that queue once [`arm`](Self::arm) has asked for one.
    pub(crate) fn with_events(
        context: &Context,
        pd: &ProtectionDomain,
        config: Config,
        events: Option<&EventQueue>,
    ) -> Result<Self> {
        let vid = |tci: u16| tci & VID;
        let same = |vlan: &Option<u16>| vlan.map(vid) == config.vlan.map(vid);
        let own: Vec<IpAddr> =
            context.gids().into_iter().filter(|(_, vlan)| same(vlan)).map(|(ip, _)| ip).collect();
        // First sequence numbers of TCP must not be guessed; PSNs have 24 bits.
        let mut seed = 0;
        for _ in 0..3 {
            seed = seed << 24 ^ u64::from(context.random_psn()?.get());
        }
        let link = RawLink::with_events(context, pd, config.frames, events)?;
        Self::over(Box::new(link), context.mac(), &own, seed, config)
    }

    /// A stack over another link.
    ///
    /// # Errors
    /// There are too many addresses.
    pub fn over(
        link: Box<dyn Link>,
        mac: [u8; 6],
        addresses: &[IpAddr],
        seed: u64,
        config: Config,
    ) -> Result<Self> {
        let addresses = checked(addresses)?;
        let link: Box<dyn Link> = match config.vlan {
            Some(tci) => Box::new(Tagged::new(link, tci)),
            None => link,
        };
        let longest = link.max_frame();
        let config = Config {
            speed: config.speed.max(1),
            slowness: config.slowness.max(1),
            mtu: config.mtu.clamp(576, longest - EthernetFrame::<&[u8]>::header_len()),
            ..config
        };
        let mut device = Device {
            neighbours: Neighbours::default(),
            own: addresses.clone(),
            now: Duration::ZERO,
            mtu: config.mtu,
            rx: vec![0; longest],
            tx: Vec::with_capacity(longest),
            failed: None,
            link,
        };
        let mut iface_config = smoltcp::iface::Config::new(EthernetAddress(mac).into());
        iface_config.random_seed = seed;
        let now = config.of_stack(device.link.now());
        let mut iface =
            Interface::new(iface_config, &mut device, Instant::from_micros(now.as_micros() as i64));
        iface.update_ip_addrs(|all| {
            // There is room, as was seen above.
            all.extend(addresses.iter().map(|ip| cidr(*ip, &config)));
        });
        // The table has room for two routes.
        let _ = config.gateway_v4.map(|gateway| iface.routes_mut().add_default_ipv4_route(gateway));
        let _ = config.gateway_v6.map(|gateway| iface.routes_mut().add_default_ipv6_route(gateway));
        let stack = Stack {
            device,
            iface,
            sockets: SocketSet::new(Vec::new()),
            config,
            mac,
            questions: Questions::default(),
            closing: Vec::new(),
            // The dynamic ports, from a place that others do not know.
            next_port: 0xc000 | (seed >> 40) as u16,
            next_ping: seed as u16,
        };
        Ok(Self { stack: Arc::new(Mutex::new(stack)) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Stack> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what has come, answers it, and sends what waits; a simulated card runs for a while. Call it often: nobody else does.
    ///
    /// # Errors
    /// The card fails.
    pub fn poll(&self) -> Result<()> {
        self.lock().poll()
    }

    /// The stack's clock: that of the card, times [`Config::speed`], by [`Config::slowness`].
    pub fn now(&self) -> Duration {
        self.lock().now()
    }

    /// Whether the program is to end.
    pub(crate) fn stop(&self) -> fn() -> bool {
        self.lock().config.stop
    }

    /// Polls until `done` gives something, at most for `limit`; `None`: it did not.
    pub(crate) fn wait<T>(
        &self,
        limit: Duration,
        mut done: impl FnMut(&mut Stack) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let start = self.now();
        loop {
            let mut stack = self.lock();
            // The time is taken before the look: what has come just in time is not missed after a long pause.
            let late = stack.now() > start + limit;
            stack.poll()?;
            if let Some(value) = done(&mut stack)? {
                return Ok(Some(value));
            }
            if late {
                return Ok(None);
            }
            let stop = stack.config.stop;
            drop(stack);
            if stop() {
                return Err(Error::Stopped);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The MAC address to which packets for `ip` go: that of the neighbour, or of the gateway. It is asked for by ARP or neighbour discovery, as often as
    /// [`Config::neighbour_tries`] says, unless it was heard of within the last minute.
    ///
    /// # Errors
    /// `Unresolved` when nobody answers, `NoAddress`, `NoRoute`; the card fails.
    pub fn resolve(&self, ip: IpAddr) -> Result<[u8; 6]> {
        self.way(ip).map(|(mac, _)| mac)
    }

    /// The same, with the own address to send from.
    fn way(&self, ip: IpAddr) -> Result<([u8; 6], IpAddr)> {
        let (own, hop, limit, tries) = {
            let stack = self.lock();
            let Config { neighbour_timeout, neighbour_tries, .. } = stack.config;
            if stack.device.own.contains(&ip) {
                return Ok((stack.mac, ip));
            }
            let (own, hop) = stack.hop("resolve", ip)?;
            (own, hop, neighbour_timeout, neighbour_tries.max(1))
        };
        for _ in 0..tries {
            let mut asked = false;
            let found = self.wait(limit, |stack| {
                let now = stack.now();
                let known = stack.device.neighbours.lookup(hop, now, stack.config.slowness);
                if known.is_none() && !asked {
                    asked = stack.ask(own, hop)?;
                }
                Ok(known)
            })?;
            if let Some(mac) = found {
                return Ok((mac, own));
            }
        }
        Err(Error::Unresolved { peer: ip, asked: hop, tries, after: limit * tries })
    }

    /// The way to `ip` for queue pairs and address handles, with an own address of its family.
    ///
    /// # Errors
    /// Those of [`resolve`](Self::resolve).
    pub fn address_vector(&self, ip: IpAddr) -> Result<AddressVector> {
        let (mac, own) = self.way(ip)?;
        let stack = self.lock();
        Ok(stack.vector(own, mac, ip))
    }

    /// The same without waiting: `None` when the neighbour is not known yet; it was asked then.
    ///
    /// # Errors
    /// `NoAddress`, `NoRoute`; the card fails.
    pub fn try_address_vector(&self, ip: IpAddr) -> Result<Option<AddressVector>> {
        let own = self.source(ip)?;
        self.try_way(own, ip)
    }

    /// The same from an own address of the same family.
    ///
    /// # Errors
    /// As [`try_address_vector`](Self::try_address_vector).
    pub fn try_way(&self, own: IpAddr, ip: IpAddr) -> Result<Option<AddressVector>> {
        let mut stack = self.lock();
        if stack.device.own.contains(&ip) {
            return Ok(Some(stack.vector(own, stack.mac, ip)));
        }
        let (near, hop) = stack.hop("resolve", ip)?;
        let now = stack.now();
        let known = stack.device.neighbours.lookup(hop, now, stack.config.slowness);
        if known.is_none() {
            let pause = stack.config.neighbour_timeout;
            if stack.questions.may_ask(hop, now, pause) && stack.ask(near, hop)? {
                stack.questions.asked(hop, now);
            }
        }
        Ok(known.map(|mac| stack.vector(own, mac, ip)))
    }

    /// The own address from which packets go to `ip`.
    ///
    /// # Errors
    /// `NoAddress`, `NoRoute`.
    pub fn source(&self, ip: IpAddr) -> Result<IpAddr> {
        let stack = self.lock();
        match stack.device.own.contains(&ip) {
            true => Ok(ip),
            false => stack.hop("resolve", ip).map(|(own, _)| own),
        }
    }

    /// The own addresses.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.lock().device.own.clone()
    }

    /// Gives the stack other addresses in place of those that it has. Connections of addresses that go are left to their time-outs.
    ///
    /// # Errors
    /// There are too many: the stack keeps those that it has.
    pub fn set_addresses(&self, addresses: &[IpAddr]) -> Result<()> {
        let addresses = checked(addresses)?;
        let mut stack = self.lock();
        let Stack { iface, config, device, .. } = &mut *stack;
        iface.update_ip_addrs(|all| {
            all.clear();
            // There is room, as was seen above.
            all.extend(addresses.iter().map(|ip| cidr(*ip, config)));
        });
        device.own = addresses;
        Ok(())
    }

    /// The own MAC address.
    pub fn mac(&self) -> [u8; 6] {
        self.lock().mac
    }

    /// Asks for an event for the next frame, where the link has events.
    ///
    /// # Errors
    /// The card fails.
    pub fn arm(&self) -> Result<()> {
        Ok(self.lock().device.link.arm()?)
    }

    /// How long the stack needs no poll if no frame comes; `None`: for ever.
    pub(crate) fn idle_for(&self) -> Option<Duration> {
        let mut stack = self.lock();
        let now = Instant::from_micros(stack.now().as_micros() as i64);
        let Stack { iface, sockets, .. } = &mut *stack;
        iface.poll_delay(now, sockets).map(Duration::from)
    }

    /// How long a time of the stack's clock lasts by the card's.
    pub(crate) fn of_card(&self, time: Duration) -> Duration {
        let stack = self.lock();
        time.saturating_mul(stack.config.slowness) / stack.config.speed
    }

    /// Sends an echo request of so many bytes, and how long the answer took.
    ///
    /// # Errors
    /// `Timeout` when none comes within `limit`; those of [`resolve`](Self::resolve).
    pub fn ping(&self, ip: IpAddr, bytes: usize, limit: Duration) -> Result<Duration> {
        let (_, own) = self.way(ip)?;
        let (handle, ident, sent, data) = {
            let mut stack = self.lock();
            let ident = stack.next_ping;
            stack.next_ping = ident.wrapping_add(1);
            // More than fits a packet would be a packet in pieces.
            let bytes = bytes.min(stack.config.mtu - 48);
            let data: Vec<u8> = (0..bytes).map(|i| i as u8 ^ ident as u8).collect();
            let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 4], vec![0; 8192]);
            let mut socket = icmp::Socket::new(buffer(), buffer());
            // It is new, and has room.
            let _ = socket.bind(icmp::Endpoint::Ident(ident));
            let _ = socket.send_slice(&request(own, ip, ident, &data), ip.into());
            let sent = stack.now();
            (stack.sockets.add(socket), ident, sent, data)
        };
        let answered = self.wait(limit, |stack| {
            let socket = stack.sockets.get_mut::<icmp::Socket<'_>>(handle);
            let mut came = false;
            while let Ok((packet, from)) = socket.recv() {
                came |= from == ip.into() && is_reply(packet, ip, own, ident, &data);
            }
            Ok(came.then(|| stack.now()))
        });
        self.lock().sockets.remove(handle);
        match answered? {
            Some(now) => Ok(now.saturating_sub(sent)),
            None => Err(Error::Timeout { operation: "ping", peer: ip, after: limit }),
        }
    }
}
