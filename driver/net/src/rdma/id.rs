// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Id`]: an end of a connection, a listener, or an end of datagrams, as `rdma_cm_id` is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use ferrowire::{AddressVector, PathMtu, Psn, QpAttributes, QpState, Service as Transport};

use super::channel::{Account, Channel};
use super::event::{ConnParam, Event, EventKind, Param};
use super::ports::Claim;
use super::qp::{attributes, ManagedQp, PKEY};
use super::service::Owner;
use super::shared::{guid, unspecified, Core, Entry, Shared};
use crate::error::{Error, Result};
use crate::exchange::SELECTIVE;
use crate::mad::{gid, Dreq, IpCm, PortSpace, Rej, RejectReason, Rep, Req, SidrRep, SidrReq, SidrStatus};

/// Queue key of datagrams (`RDMA_UDP_QKEY`), of both port spaces that have them.
pub const QKEY: u32 = 0x0123_4567;

/// Requests that may wait for the program where it names no number, or a larger one.
pub const MAX_BACKLOG: u32 = 1024;

/// Declares the phases: name and text of each.
macro_rules! phases {
    ($($Phase:ident, $text:literal;)+) => {
        /// The state of an identifier.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Phase {
            $(#[doc = concat!("It is ", $text, ".")] $Phase,)+
        }

        impl Phase {
            fn text(self) -> &'static str {
                match self { $(Phase::$Phase => $text,)+ }
            }
        }
    };
}

phases! {
    Idle, "new, and has no address";
    Bound, "bound to a port, and knows no way to another side";
    Listening, "listening";
    ResolvingAddress, "resolving an address";
    AddressResolved, "without a route";
    RouteResolved, "not connected";
    Connecting, "connecting";
    Replied, "accepted by the other side, and waits for its queue pair";
    Requested, "a request that is not answered";
    Accepted, "a request that is accepted, and waits for the asker";
    Connected, "connected";
    Disconnecting, "disconnecting";
    Disconnected, "disconnected";
    Ended, "refused, or its other side does not answer";
    Removed, "of a card that has failed";
}

/// How an identifier behaves; those of a listener are those of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Others that say so, too, may have the same port (`RDMA_OPTION_ID_REUSEADDR`).
    pub reuse_address: bool,
    /// `::` means IPv6 addresses alone (`RDMA_OPTION_ID_AFONLY`).
    pub only_family: bool,
    /// IPv4 type of service or IPv6 traffic class (`RDMA_OPTION_ID_TOS`).
    pub traffic_class: u8,
    /// ACK time-out (`RDMA_OPTION_ID_ACK_TIMEOUT`): 4.096 us times 2 to that power; 0: never. The asker's is that of both queue pairs; what is
    /// set after the request is that of the own one.
    pub ack_timeout: u8,
    /// Timer code of the RNR NAKs that the queue pair sends. As with all options, what is set before the bring-up counts.
    pub min_rnr_timer: u8,
    /// Largest path MTU.
    pub path_mtu: PathMtu,
    /// Queue key of datagrams.
    pub qkey: u32,
    /// The bring-up leaves the queue pair the rights that its owner has given it in INIT; the owner takes it there, as [`Id::init_qp`] gives none. Without
    /// this, peers may write, and read and do atomics if any may be outstanding, as on Linux.
    pub keep_access: bool,
    /// Wish for selective retransmission, of RC. It comes if the other side wishes it, too, and both cards have it; [`Id::selective`] says whether it does. What
    /// is set before the request or its answer counts.
    pub selective: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reuse_address: false,
            only_family: false,
            traffic_class: 0,
            ack_timeout: 14,
            min_rnr_timer: 12,
            path_mtu: PathMtu::B1024,
            qkey: QKEY,
            keep_access: false,
            selective: false,
        }
    }
}

/// The way to the other side, as a path record has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Addresses of Ethernet and IP.
    pub way: AddressVector,
    /// Path MTU.
    pub path_mtu: PathMtu,
    /// Partition key.
    pub pkey: u16,
    /// ACK time-out.
    pub ack_timeout: u8,
}

/// An end of a connection, a listener, or an end of datagrams.
///
/// `Send` and `Sync`. Dropping it refuses a request, gives up an attempt, or disconnects, as its state needs; [`destroy`](Self::destroy) also waits until
/// the program has acknowledged its events.
pub struct Id {
    shared: Arc<Shared>,
    account: Arc<Account>,
    closed: bool,
    /// Keeps the thread.
    _owner: Option<Arc<Owner>>,
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.account.key)
    }
}

/// Puts a program's bytes into a message, if it has room for them.
fn put(operation: &'static str, room: &mut [u8], private_data: &[u8]) -> Result<()> {
    let (length, limit) = (private_data.len(), room.len());
    let Some(room) = room.get_mut(..length) else {
        return Err(Error::Verb(ferrowire::Error::Attribute {
            operation,
            attribute: "private_data",
            value: length as u64,
            fix: format!("the message has room for {limit} bytes; send the rest over the connection"),
        }));
    };
    room.copy_from_slice(private_data);
    Ok(())
}

/// An address with another IP address and port. The scope and the flow of IPv6 stay.
fn with(mut address: SocketAddr, ip: IpAddr, port: u16) -> SocketAddr {
    address.set_ip(ip);
    address.set_port(port);
    address
}

impl Id {
    pub(super) fn new(shared: Arc<Shared>, owner: Option<Arc<Owner>>, account: Arc<Account>) -> Self {
        Self { shared, account, closed: false, _owner: owner }
    }

    /// One that belongs to no address yet.
    pub(crate) fn create(
        shared: &Arc<Shared>,
        channel: &Channel,
        space: PortSpace,
        context: usize,
        options: Options,
    ) -> Result<Self> {
        let mut core = shared.live("create identifier")?;
        let psn = Psn::new(core.random()?);
        let account = Account::new(context, channel);
        let entry = Entry {
            account: Arc::clone(&account),
            space,
            transport: if space.is_datagram() { Transport::Ud } else { Transport::Rc },
            phase: Phase::Idle,
            options,
            local: None,
            remote: None,
            bound: false,
            way: None,
            deadline: Duration::ZERO,
            cm: None,
            psn,
            gone: false,
            silent: false,
            link: None,
            asked: ConnParam::default(),
            path_mtu: options.path_mtu,
            backlog: 0,
            waiting: Arc::default(),
        };
        core.insert(entry);
        drop(core);
        Ok(Self::new(Arc::clone(shared), shared.owner(), account))
    }

    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Its number, which no other identifier of the process has had.
    pub fn number(&self) -> u64 {
        self.account.key
    }

    /// The program's context, which its events carry.
    pub fn context(&self) -> usize {
        self.account.context()
    }

    /// Sets the program's context: of requests it is 0 at first.
    pub fn set_context(&self, context: usize) {
        self.account.context.store(context, Ordering::Relaxed);
    }

    /// The channel of its events.
    pub fn channel(&self) -> Channel {
        self.account.channel().clone()
    }

    /// The same for an attempt that the other side may have given up meanwhile.
    fn enter_attempt(&self, operation: &'static str, phase: Phase) -> Result<MutexGuard<'_, Core>> {
        self.enter(operation, &[phase]).map_err(|error| match error {
            Error::State { .. } if self.with(|entry| entry.gone) => self.gone(operation),
            error => error,
        })
    }

    /// Looks at its entry, or changes it.
    fn with<T>(&self, f: impl FnOnce(&mut Entry) -> T) -> T {
        let mut core = self.shared.core();
        // It has one until it is closed, and `close` is its last call.
        f(core.entry(self.account.key).expect("an identifier has an entry until it is closed"))
    }

    /// The core and its entry, which must be in one of these phases.
    fn enter(&self, operation: &'static str, phases: &[Phase]) -> Result<MutexGuard<'_, Core>> {
        let mut core = self.shared.live(operation)?;
        let phase = core.entry(self.account.key).map_or(Phase::Removed, |entry| entry.phase);
        match phases.contains(&phase) {
            true => Ok(core),
            false => Err(Error::State { operation, state: phase.text() }),
        }
    }

    /// Its state.
    pub fn phase(&self) -> Phase {
        self.with(|entry| entry.phase)
    }

    /// Number of its connection in the manager.
    pub(crate) fn connection(&self) -> Option<u32> {
        self.with(|entry| entry.cm)
    }

    /// Its port space.
    pub fn port_space(&self) -> PortSpace {
        self.with(|entry| entry.space)
    }

    /// The transport service of its queue pair. RC and UD as the port space has it; a request may also be of UC.
    pub fn transport(&self) -> Transport {
        self.with(|entry| entry.transport)
    }

    /// Makes it one of UC, or of RC again, before it connects.
    ///
    /// # Errors
    /// `State` when it connects already, or has datagrams.
    pub fn set_transport(&self, transport: Transport) -> Result<()> {
        const OPERATION: &str = "set transport";
        let phases = [
            Phase::Idle,
            Phase::Bound,
            Phase::ResolvingAddress,
            Phase::AddressResolved,
            Phase::RouteResolved,
        ];
        let mut core = self.enter(OPERATION, &phases)?;
        let entry = core.entry(self.account.key).filter(|entry| !entry.space.is_datagram());
        match (entry, transport) {
            (Some(entry), Transport::Rc | Transport::Uc) => entry.transport = transport,
            _ => return Err(Error::State { operation: OPERATION, state: "of another service" }),
        }
        Ok(())
    }

    /// How it behaves.
    pub fn options(&self) -> Options {
        self.with(|entry| entry.options)
    }

    /// Changes how it behaves from its next operation on. A request has the options of its listener, and the ACK time-out of its asker until that is
    /// changed here.
    pub fn set_options(&self, change: impl FnOnce(&mut Options)) {
        let key = self.account.key;
        let mut core = self.shared.core();
        let Some(entry) = core.entry(key) else { return };
        let before = entry.options.ack_timeout;
        change(&mut entry.options);
        let options = entry.options;
        if let Some(link) = entry.link.as_mut().filter(|_| before != options.ack_timeout) {
            link.ack_timeout = options.ack_timeout;
        }
        if let (Some(link), Phase::Requested) = (&mut entry.link, entry.phase) {
            link.selective = link.offered && options.selective;
        }
        if let (true, space, Some(local)) = (entry.bound, entry.space, entry.local) {
            // Others that bind or listen after this meet the new ones.
            core.ports.change(space, local.port(), key, options.reuse_address, options.only_family);
        }
    }

    /// Whether the queue pair retransmits selectively: both sides have agreed, or this one will by its answer to the request.
    pub fn selective(&self) -> bool {
        self.with(|entry| entry.link.is_some_and(|link| link.selective))
    }

    /// Own address and port.
    pub fn local(&self) -> Option<SocketAddr> {
        self.with(|entry| entry.local)
    }

    /// The other side's address and port.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.with(|entry| entry.remote)
    }

    /// The way to the other side, once it is known.
    pub fn route(&self) -> Option<Route> {
        self.with(|entry| {
            let way = entry.way?;
            let ack_timeout = entry.link.map_or(entry.options.ack_timeout, |link| link.ack_timeout);
            Some(Route { way, path_mtu: entry.path_mtu, pkey: PKEY, ack_timeout })
        })
    }

    /// Gives it an own address, or all with the unspecified one, and a port; 0: a free one.
    ///
    /// # Errors
    /// `State` when it has one, `AddressInUse`, `NotLocal`, `NoPort`; `Removed`.
    pub fn bind(&self, address: SocketAddr) -> Result<()> {
        let core = self.enter("bind", &[Phase::Idle])?;
        self.bind_in(core, address).map(drop)
    }

    fn bind_in<'a>(
        &self,
        mut core: MutexGuard<'a, Core>,
        address: SocketAddr,
    ) -> Result<MutexGuard<'a, Core>> {
        let key = self.account.key;
        let ip = match address.ip() {
            ip if ip.is_unspecified() => ip,
            ip => self.shared.own(ip)?,
        };
        let random = core.random()?;
        let Some((space, options)) = core.entry(key).map(|entry| (entry.space, entry.options)) else {
            return Ok(core);
        };
        let Options { only_family, reuse_address: reuse, .. } = options;
        let claim = Claim { key, ip, only_family, reuse, listening: false };
        let port = core.ports.bind(space, address.port(), claim, random)?;
        if let Some(entry) = core.entry(key) {
            let local = with(address, ip, port);
            (entry.local, entry.bound, entry.phase) = (Some(local), true, Phase::Bound);
        }
        Ok(core)
    }

    /// Takes requests to its address and port, which are any if it has none. Each is an event [`ConnectRequest`](EventKind::ConnectRequest). `backlog` may wait
    /// there until the program takes them; 0 is as good as [`MAX_BACKLOG`]. Others are dropped, so that the asker asks again.
    ///
    /// # Errors
    /// `State`, `AddressInUse` when another identifier shares the port, those of [`bind`](Self::bind).
    pub fn listen(&self, backlog: u32) -> Result<()> {
        const OPERATION: &str = "listen";
        let key = self.account.key;
        let mut core = self.enter(OPERATION, &[Phase::Idle, Phase::Bound, Phase::Listening])?;
        if core.entry(key).is_some_and(|entry| entry.local.is_none()) {
            // As on Linux, where an identifier without an address is one of IPv4.
            core = self.bind_in(core, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?;
        }
        let Some((space, Some(local))) = core.entry(key).map(|entry| (entry.space, entry.local)) else {
            return Ok(());
        };
        core.ports.listen(space, local.port(), key)?;
        core.manager.listen(space.service_id(local.port()));
        if let Some(entry) = core.entry(key) {
            entry.phase = Phase::Listening;
            entry.backlog = match backlog {
                1..=MAX_BACKLOG => backlog as usize,
                _ => MAX_BACKLOG as usize,
            };
        }
        Ok(())
    }

    /// Looks for the way to an address, from an own address or from the one that fits. An event follows:
    /// [`AddressResolved`](EventKind::AddressResolved), or [`AddressError`](EventKind::AddressError) when `timeout` is over. A loopback address, or the
    /// unspecified one, is an own address.
    ///
    /// # Errors
    /// `State`, `NoRoute`, `NoAddress`, `NotUnicast`, those of [`bind`](Self::bind).
    pub fn resolve_address(
        &self,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        timeout: Duration,
    ) -> Result<()> {
        const OPERATION: &str = "resolve address";
        let key = self.account.key;
        let mut core = self.enter(OPERATION, &[Phase::Idle, Phase::Bound])?;
        let net = &self.shared.net;
        let remote = match destination.ip() {
            ip if ip.is_multicast() || ip == IpAddr::from(Ipv4Addr::BROADCAST) => {
                return Err(Error::NotUnicast(ip))
            }
            ip if ip.is_loopback() || ip.is_unspecified() => {
                let none = Error::NoAddress { operation: OPERATION, peer: ip };
                self.shared.first(ip).ok_or(none)?
            }
            ip => ip,
        };
        let chosen = net.source(remote)?;
        let bound = core.entry(key).and_then(|entry| entry.local);
        let wanted = bound.or(source).unwrap_or(SocketAddr::new(unspecified(chosen), 0));
        let own = match wanted.ip() {
            ip if ip.is_unspecified() => chosen,
            ip => self.shared.own(ip)?,
        };
        if own.is_ipv6() != remote.is_ipv6() {
            return Err(Error::NoAddress { operation: OPERATION, peer: remote });
        }
        if bound.is_none() {
            core = self.bind_in(core, with(wanted, own, wanted.port()))?;
        }
        let now = net.now();
        if let Some(entry) = core.entry(key) {
            // What was bound to all addresses goes out from one of them.
            entry.local = entry.local.map(|local| with(local, own, local.port()));
            entry.remote = Some(with(destination, remote, destination.port()));
        }
        core.begin_to_resolve(key, now + timeout);
        core.resolve(now, net)?;
        self.shared.flush(core);
        Ok(())
    }

    /// Finds the route, which Ethernet has with the address: the event [`RouteResolved`](EventKind::RouteResolved) follows at once.
    ///
    /// # Errors
    /// `State`.
    pub fn resolve_route(&self) -> Result<()> {
        let mut core = self.enter("resolve route", &[Phase::AddressResolved])?;
        let max = core.limits.max_mtu;
        if let Some(entry) = core.entry(self.account.key) {
            let wanted = entry.options.path_mtu;
            entry.path_mtu = if wanted.code() > max.code() { max } else { wanted };
            if let Some(way) = &mut entry.way {
                way.traffic_class = entry.options.traffic_class;
            }
            entry.phase = Phase::RouteResolved;
            entry.report(EventKind::RouteResolved, 0, Param::None);
        }
        Ok(())
    }

    /// Asks for a connection, or for the queue pair of a datagram service. An event reports the answer: [`ConnectResponse`](EventKind::ConnectResponse), and for
    /// datagrams [`Established`](EventKind::Established); [`Rejected`](EventKind::Rejected), [`Unreachable`](EventKind::Unreachable).
    ///
    /// # Errors
    /// `State`; too many bytes for the other side's program: 56 with connections, 180 with datagrams.
    pub fn connect(&self, param: &ConnParam) -> Result<()> {
        const OPERATION: &str = "connect";
        let key = self.account.key;
        let mut core = self.enter(OPERATION, &[Phase::RouteResolved])?;
        let (now, mac, limits) = (self.shared.net.now(), self.shared.net.mac(), core.limits);
        let Some(entry) = core.entry(key) else { return Ok(()) };
        let (Some(local), Some(remote), Some(way)) = (entry.local, entry.remote, entry.way) else {
            return Ok(());
        };
        let ip = IpCm { source_port: local.port(), source: local.ip(), destination: remote.ip() };
        let service_id = entry.space.service_id(remote.port());
        let path = crate::gsi::Path { local: local.ip(), remote: remote.ip() };
        let cm = if entry.space.is_datagram() {
            let mut req = SidrReq { pkey: PKEY, service_id, ..SidrReq::default() };
            req.private_data[..IpCm::BYTES].copy_from_slice(&ip.to_bytes());
            put(OPERATION, &mut req.private_data[IpCm::BYTES..], &param.private_data)?;
            entry.phase = Phase::Connecting;
            core.manager.resolve(now, path, req)
        } else {
            let asked = ConnParam {
                responder_resources: param.responder_resources.min(limits.max_dest_rd_atomic),
                initiator_depth: param.initiator_depth.min(limits.max_rd_atomic),
                ..param.clone()
            };
            let selective = entry.options.selective && limits.selective && entry.transport == Transport::Rc;
            let mut req = Req {
                service_id,
                local_ca_guid: guid(mac),
                selective: if selective { SELECTIVE } else { 0 },
                local_qpn: asked.qp_num,
                responder_resources: asked.responder_resources,
                initiator_depth: asked.initiator_depth,
                transport_service: u8::from(entry.transport == Transport::Uc),
                flow_control: asked.flow_control,
                starting_psn: entry.psn.get(),
                retry_count: asked.retry_count.min(7),
                pkey: PKEY,
                path_mtu: entry.path_mtu.code(),
                rnr_retry_count: asked.rnr_retry_count.min(7),
                srq: asked.srq,
                primary_local_lid: 0xffff,
                primary_remote_lid: 0xffff,
                primary_local_gid: gid(local.ip()),
                primary_remote_gid: gid(remote.ip()),
                primary_flow_label: way.flow_label,
                primary_traffic_class: way.traffic_class,
                primary_hop_limit: way.hop_limit,
                primary_subnet_local: way.hop_limit <= 1,
                primary_local_ack_timeout: entry.options.ack_timeout,
                ..Req::default()
            };
            req.private_data[..IpCm::BYTES].copy_from_slice(&ip.to_bytes());
            put(OPERATION, &mut req.private_data[IpCm::BYTES..], &asked.private_data)?;
            (entry.phase, entry.asked) = (Phase::Connecting, asked);
            core.manager.connect(now, path, req)
        };
        core.attach(key, cm);
        self.shared.flush(core);
        Ok(())
    }

    /// Accepts a request. With a queue pair in INIT, of a connection, this takes it to RTS first; its number counts. Without one the program does
    /// that with [`qp_attributes`](Self::qp_attributes). The event [`Established`](EventKind::Established) follows when the asker of a connection is ready.
    ///
    /// # Errors
    /// `State`; too many bytes for the other side's program: 196 with connections, 136 with datagrams; those of the verbs: the request can still be
    /// answered; `Gone` when the asker has given up.
    pub fn accept(&self, param: &ConnParam, mut qp: Option<&mut dyn ManagedQp>) -> Result<()> {
        const OPERATION: &str = "accept";
        let key = self.account.key;
        let mut core = self.enter_attempt(OPERATION, Phase::Requested)?;
        let limits = core.limits;
        let Some(entry) = core.entry(key) else { return Ok(()) };
        let qp_num = qp.as_ref().map_or(param.qp_num, |qp| qp.number());
        if entry.space.is_datagram() {
            let qkey = entry.options.qkey;
            let status = SidrStatus::Valid.code();
            let mut rep = SidrRep { status, qpn: qp_num, qkey, ..SidrRep::default() };
            put(OPERATION, &mut rep.private_data, &param.private_data)?;
            return self.answer(core, OPERATION, rep, Phase::Connected);
        }
        let (psn, mut private_data) = (entry.psn, [0; Rep::PRIVATE]);
        put(OPERATION, &mut private_data, &param.private_data)?;
        let Some(link) = &mut entry.link else { return Ok(()) };
        // Not more than the asker answers, or asks for.
        link.responder_resources =
            link.responder_resources.min(param.responder_resources).min(limits.max_dest_rd_atomic);
        link.initiator_depth = link.initiator_depth.min(param.initiator_depth).min(limits.max_rd_atomic);
        let rep = Rep {
            local_qpn: qp_num,
            starting_psn: psn.get(),
            responder_resources: link.responder_resources,
            initiator_depth: link.initiator_depth,
            target_ack_delay: 15,
            flow_control: param.flow_control,
            rnr_retry_count: param.rnr_retry_count.min(7),
            srq: param.srq,
            selective: if link.selective { SELECTIVE } else { 0 },
            local_ca_guid: guid(self.shared.net.mac()),
            private_data,
            ..Rep::default()
        };
        drop(core);
        if let Some(qp) = &mut qp {
            self.bring_up(*qp)?;
        }
        let mut core = self.enter_attempt(OPERATION, Phase::Requested)?;
        let now = self.shared.net.now();
        let cm = core.entry(key).and_then(|entry| entry.cm);
        if !cm.is_some_and(|cm| core.manager.accept(now, cm, rep)) {
            drop(core);
            return Err(self.gone(OPERATION));
        }
        if let Some(entry) = core.entry(key) {
            (entry.phase, entry.silent) = (Phase::Accepted, false);
        }
        self.shared.flush(core);
        Ok(())
    }

    /// Answers a lookup.
    fn answer(
        &self,
        mut core: MutexGuard<'_, Core>,
        operation: &'static str,
        rep: SidrRep,
        then: Phase,
    ) -> Result<()> {
        let now = self.shared.net.now();
        let cm = core.entry(self.account.key).and_then(|entry| entry.cm);
        if !cm.is_some_and(|cm| core.manager.answer(now, cm, rep)) {
            drop(core);
            return Err(self.gone(operation));
        }
        // The manager answers the same request by itself from now on.
        core.finish(self.account.key, then);
        if let Some(entry) = core.entry(self.account.key) {
            entry.silent = then != Phase::Connected;
        }
        self.shared.flush(core);
        Ok(())
    }

    fn gone(&self, operation: &'static str) -> Error {
        let peer = self.remote().map_or(Ipv4Addr::UNSPECIFIED.into(), |remote| remote.ip());
        Error::Gone { operation, peer }
    }

    /// Refuses a request, or the other side's acceptance, as the program.
    ///
    /// # Errors
    /// `State`; more than 148 bytes for the other side's program, 136 with datagrams.
    pub fn reject(&self, private_data: &[u8]) -> Result<()> {
        self.reject_with(RejectReason::Consumer, private_data)
    }

    /// The same for another reason. Datagrams know one alone.
    ///
    /// # Errors
    /// As [`reject`](Self::reject).
    pub fn reject_with(&self, reason: RejectReason, private_data: &[u8]) -> Result<()> {
        const OPERATION: &str = "reject";
        let key = self.account.key;
        let mut core = self.enter(OPERATION, &[Phase::Requested, Phase::Replied])?;
        if core.entry(key).is_some_and(|entry| entry.space.is_datagram()) {
            let mut rep = SidrRep { status: SidrStatus::Rejected.code(), ..SidrRep::default() };
            put(OPERATION, &mut rep.private_data, private_data)?;
            return self.answer(core, OPERATION, rep, Phase::Ended);
        }
        let mut bytes = [0; Rej::PRIVATE];
        put(OPERATION, &mut bytes, private_data)?;
        let now = self.shared.net.now();
        if let Some(cm) = core.entry(key).and_then(|entry| entry.cm) {
            core.manager.reject(now, cm, reason, bytes);
        }
        core.finish(key, Phase::Ended);
        self.shared.flush(core);
        Ok(())
    }

    /// The other side has accepted, and the program has its queue pair in RTS: reports that it is ready, as `rdma_establish` does.
    ///
    /// # Errors
    /// `State`; `Gone` when the other side has given up.
    pub fn establish(&self) -> Result<()> {
        const OPERATION: &str = "establish";
        let key = self.account.key;
        let mut core = self.enter_attempt(OPERATION, Phase::Replied)?;
        let now = self.shared.net.now();
        let cm = core.entry(key).and_then(|entry| entry.cm);
        if !cm.is_some_and(|cm| core.manager.ready(now, cm)) {
            drop(core);
            return Err(self.gone(OPERATION));
        }
        if let Some(entry) = core.entry(key) {
            entry.phase = Phase::Connected;
        }
        self.shared.flush(core);
        Ok(())
    }

    /// The other side has accepted, as this event reports: takes the queue pair from INIT to RTS and reports that it is ready. The event is
    /// [`Established`](EventKind::Established) then, or [`ConnectError`](EventKind::ConnectError) with the number of the system; the other side is refused
    /// in that case. Events of other kinds stay as they are.
    pub fn complete(&self, event: &mut Event, qp: &mut dyn ManagedQp) {
        if event.kind() != EventKind::ConnectResponse || event.id() != self.number() {
            return;
        }
        match self.bring_up(qp).and_then(|()| self.establish()) {
            Ok(()) => event.turn(EventKind::Established, None),
            Err(error) => {
                // It may have ended already.
                let _ = self.reject(&[]);
                event.turn(EventKind::ConnectError, Some(error.errno()));
            }
        }
    }

    /// Takes a queue pair from INIT to RTS.
    pub(crate) fn bring_up(&self, qp: &mut dyn ManagedQp) -> Result<()> {
        for to in [QpState::Rtr, QpState::Rts] {
            qp.modify(to, &self.qp_attributes(to)?)?;
        }
        Ok(())
    }

    /// Takes a new queue pair to INIT, and one of datagrams to RTS, as `rdma_create_qp` does.
    ///
    /// # Errors
    /// Those of the verbs.
    pub fn init_qp(&self, qp: &mut dyn ManagedQp) -> Result<()> {
        qp.modify(QpState::Init, &self.qp_attributes(QpState::Init)?)?;
        match self.transport() {
            Transport::Ud => self.bring_up(qp),
            _ => Ok(()),
        }
    }

    /// The attributes with which the queue pair goes to a state, as `rdma_init_qp_attr` gives them: INIT at any time, RTR and RTS of a connection
    /// once the other side has asked or accepted.
    ///
    /// # Errors
    /// `State` when the connection is not so far.
    pub fn qp_attributes(&self, to: QpState) -> Result<QpAttributes> {
        let mut core = self.shared.live("give attributes of the queue pair")?;
        let atomics = core.limits.atomics;
        let Some(entry) = core.entry(self.account.key) else { return Ok(QpAttributes::default()) };
        // Between the request and its answer the asker goes by what it has asked for (as Linux).
        let asked = entry.cm.map(|_| entry.asked.responder_resources);
        let found =
            attributes(to, entry.transport, entry.link.as_ref(), asked, entry.psn, &entry.options, atomics);
        let mut found = found.ok_or(Error::State {
            operation: "give attributes of the queue pair",
            state: entry.phase.text(),
        })?;
        if entry.options.keep_access && to != QpState::Init {
            found.access = None;
        }
        Ok(found)
    }

    /// The queue pair has received something, so the asker is ready, whatever became of its word (IBTA 12.9.7.2). For a program that has
    /// [accepted](Self::accept) and gets the event `COMM_EST` of its queue pair, as `rdma_notify` does.
    pub fn communication_established(&self) {
        let mut core = self.shared.core();
        if let Some(cm) = core.entry(self.account.key).and_then(|entry| entry.cm) {
            core.manager.communication_established(cm);
        }
        // The next step reports it.
        self.shared.flush(core);
    }

    /// Ends a connection: takes the queue pair, if there is one, to ERR, whatever the state is, and asks the other side to end it. The event
    /// [`Disconnected`](EventKind::Disconnected) follows. One that has ended already, has datagrams, or is not connected yet, sends nothing and has no event:
    /// [`reject`](Self::reject) says no to the other side, and so does the end of the identifier.
    ///
    /// # Errors
    /// `State` before the first message of a connection; those of the verbs; more than 220 bytes for the other side's program.
    pub fn disconnect(&self, private_data: &[u8], qp: Option<&mut dyn ManagedQp>) -> Result<()> {
        const OPERATION: &str = "disconnect";
        let phases = [
            Phase::Connecting,
            Phase::Requested,
            Phase::Replied,
            Phase::Accepted,
            Phase::Connected,
            Phase::Disconnecting,
            Phase::Disconnected,
            Phase::Ended,
        ];
        let key = self.account.key;
        let mut bytes = [0; Dreq::PRIVATE];
        put(OPERATION, &mut bytes, private_data)?;
        if let Some(qp) = qp {
            qp.modify(QpState::Err, &self.qp_attributes(QpState::Err)?)?;
        }
        let mut core = self.enter(OPERATION, &phases)?;
        let now = self.shared.net.now();
        let cm = core.entry(key).and_then(|entry| entry.cm);
        if cm.is_some_and(|cm| core.manager.disconnect(now, cm, bytes)) {
            if let Some(entry) = core.entry(key) {
                entry.phase = Phase::Disconnecting;
            }
        }
        self.shared.flush(core);
        Ok(())
    }

    /// Gives it another channel, and takes the events there that the program does not have yet. Waits until those that it has are acknowledged, as
    /// `rdma_migrate_id` does.
    pub fn migrate(&self, channel: &Channel) {
        self.account.migrate(channel);
        self.account.settle();
    }

    /// Ends it, and waits until the program has acknowledged the events that it has of it, as `rdma_destroy_id` does; events that the program does not have
    /// are gone. Not to be called by a thread that holds such an event.
    pub fn destroy(mut self) {
        self.close();
        self.account.settle();
    }

    fn close(&mut self) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let mut core = self.shared.core();
        core.remove(self.shared.net.now(), self.account.key);
        self.shared.flush(core);
        // Requests among them end here, which takes the lock.
        let gone = self.account.channel().remove(self.account.key);
        drop(gone);
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        self.close();
    }
}
