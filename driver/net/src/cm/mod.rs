// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections by the RDMA communication manager's messages over QP1 (IBTA volume 1, chapter 12 and annex A11): [`Cm`], [`CmListener`],
//! [`CmConnection`].
//!
//! The protocol is in [`machine`]; here it meets QP1, the IP stack that knows the ways, and the queue pairs that come up.

mod agent;
pub mod machine;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrowire::{
    Context, Init, PathMtu, ProtectionDomain, Psn, Qp, QpAttributes, QpState, QueuePair, RemoteAddress,
};

use self::agent::Agent;
use self::machine::{Event, State, Timing};
use crate::error::{Error, Result};
use crate::exchange::{bring_up, End, RcOptions};
use crate::mad::{gid, rdma_service_id, IpCm, RejectReason, Rep, Req};
use crate::stack::{Net, PAUSE};

/// How a connection shall be.
#[derive(Debug, Clone)]
pub struct CmOptions {
    /// How the queue pair behaves. The asked side takes time-out and retries of the request; `rnr_retry` is what the other side shall do.
    pub rc: RcOptions,
    /// Path MTU; the asker's counts.
    pub path_mtu: PathMtu,
    /// Bytes for the other side's program: of a request up to 56, of an answer up to 196.
    pub private_data: Vec<u8>,
}

impl Default for CmOptions {
    fn default() -> Self {
        Self { rc: RcOptions::default(), path_mtu: PathMtu::B1024, private_data: Vec::new() }
    }
}

/// The communication manager of a card: it has QP1.
///
/// It answers while somebody calls [`poll`](Self::poll) or waits in one of its methods. `Send` and `Sync`; clones are the same.
#[derive(Clone)]
pub struct Cm {
    net: Net,
    agent: Arc<Mutex<Agent>>,
}

impl std::fmt::Debug for Cm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cm").field("net", &self.net).finish_non_exhaustive()
    }
}

impl Cm {
    /// Takes the card's QP1. `net` must be of the same card.
    ///
    /// # Errors
    /// QP1 is in use, or there is no memory.
    pub fn new(context: &Context, pd: &ProtectionDomain, net: &Net, timing: Timing) -> Result<Self> {
        let agent = Agent::new(context, pd, timing)?;
        Ok(Self { net: net.clone(), agent: Arc::new(Mutex::new(agent)) })
    }

    fn lock(&self) -> MutexGuard<'_, Agent> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what has come, for the manager and for the IP stack, answers it, and sends what waits.
    ///
    /// # Errors
    /// The card fails.
    pub fn poll(&self) -> Result<()> {
        self.net.poll()?;
        self.lock().poll(&self.net)
    }

    /// Polls until `done` gives something, at most for `limit`; `None`: it did not. Ends when the program is to end.
    fn wait<T>(
        &self,
        limit: Duration,
        done: impl FnMut(&mut Agent) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let stop = self.net.stop();
        self.wait_unless(stop, limit, done)
    }

    /// The same; `stop` says whether the program is to end.
    fn wait_unless<T>(
        &self,
        stop: fn() -> bool,
        limit: Duration,
        mut done: impl FnMut(&mut Agent) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let start = self.net.now();
        loop {
            let late = self.net.now() > start + limit;
            self.poll()?;
            if let Some(value) = done(&mut self.lock())? {
                return Ok(Some(value));
            }
            if late {
                return Ok(None);
            }
            if stop() {
                return Err(Error::Stopped);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Takes requests to a port of `RDMA_PS_TCP`.
    ///
    /// # Errors
    /// `PortInUse`.
    pub fn listen(&self, port: u16) -> Result<CmListener> {
        match port != 0 && self.lock().manager.listen(rdma_service_id(port)) {
            true => Ok(CmListener { cm: self.clone(), port }),
            false => Err(Error::PortInUse(port)),
        }
    }

    /// Asks for a connection to a listener and takes the queue pair, of RC, from INIT to RTS.
    ///
    /// # Errors
    /// `Rejected` with the other side's reason, `Timeout`; those of [`Net::resolve`] and of the verbs. The queue pair is destroyed then.
    pub fn connect(
        &self,
        to: SocketAddr,
        qp: Qp<Init>,
        options: &CmOptions,
        limit: Duration,
    ) -> Result<CmConnection> {
        const OPERATION: &str = "connect to";
        let peer = to.ip();
        let way = self.net.address_vector(peer)?;
        let psn = self.lock().context.random_psn()?;
        let ip = IpCm { source_port: self.lock().port(), source: way.src_ip, destination: peer };
        let mut req = Req {
            service_id: rdma_service_id(to.port()),
            local_ca_guid: guid(way.src_mac),
            local_qpn: qp.number(),
            responder_resources: options.rc.rd_atomic,
            initiator_depth: options.rc.rd_atomic,
            starting_psn: psn.get(),
            retry_count: options.rc.retry_cnt,
            pkey: 0xffff,
            path_mtu: options.path_mtu.code(),
            rnr_retry_count: options.rc.rnr_retry,
            primary_local_lid: 0xffff,
            primary_remote_lid: 0xffff,
            primary_local_gid: gid(way.src_ip),
            primary_remote_gid: gid(peer),
            primary_hop_limit: way.hop_limit,
            primary_subnet_local: true,
            primary_local_ack_timeout: options.rc.timeout,
            ..Req::default()
        };
        req.private_data[..IpCm::BYTES].copy_from_slice(&ip.to_bytes());
        put(OPERATION, &mut req.private_data[IpCm::BYTES..], &options.private_data)?;
        let now = self.net.now();
        let mut connection = {
            let id = self.lock().connect(now, peer, req);
            CmConnection { cm: self.clone(), id, peer, private_data: Vec::new(), qp: None }
        };
        let replied = connection.next_event(OPERATION, limit)?;
        let Event::Replied(rep) = replied else { return Err(Error::Gone { operation: OPERATION, peer }) };
        // Each side has told the PSN that the other one begins with.
        let first = Psn::new(rep.starting_psn);
        let local = end(first, way.src_ip, options.path_mtu, options.rc.rd_atomic);
        let remote = End { qpn: rep.local_qpn, ..end(psn, peer, options.path_mtu, rep.responder_resources) };
        let rc = RcOptions { rnr_retry: rep.rnr_retry_count, ..options.rc };
        match bring_up(qp, way, &local, &remote, &rc) {
            Ok(qp) => connection.qp = Some(qp),
            Err(error) => {
                self.lock().manager.reject(connection.id, RejectReason::Consumer, [0; 148]);
                self.poll()?;
                return Err(error.into());
            }
        }
        connection.private_data = rep.private_data.to_vec();
        if !self.lock().manager.ready(self.net.now(), connection.id) {
            return Err(Error::Gone { operation: OPERATION, peer });
        }
        self.poll()?;
        Ok(connection)
    }
}

/// An EUI-64 of a MAC address (RFC 4291, appendix A).
fn guid([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// Without memory, which private data may tell.
fn end(psn: Psn, ip: IpAddr, path_mtu: PathMtu, rd_atomic: u8) -> End {
    let memory = RemoteAddress { address: 0, rkey: 0 };
    End { qpn: 0, psn, ip, memory, bytes: 0, path_mtu, rd_atomic }
}

/// Puts a program's bytes where a message has room for them.
fn put(operation: &'static str, room: &mut [u8], private_data: &[u8]) -> ferrowire::Result<()> {
    let (length, limit) = (private_data.len(), room.len());
    let Some(room) = room.get_mut(..length) else {
        return Err(ferrowire::Error::Attribute {
            operation,
            attribute: "private_data",
            value: length as u64,
            fix: format!("the message has room for {limit} bytes; tell the rest over the connection"),
        });
    };
    room.copy_from_slice(private_data);
    Ok(())
}

/// Takes requests to a port. Dropping it refuses those that wait.
#[derive(Debug)]
pub struct CmListener {
    cm: Cm,
    port: u16,
}

impl CmListener {
    /// The next request.
    ///
    /// # Errors
    /// `Timeout` when none comes within `limit`; the card fails.
    pub fn accept(&self, limit: Duration) -> Result<CmRequest> {
        let service = rdma_service_id(self.port);
        let request = self.cm.wait(limit, |agent| Ok(agent.next_request(service)))?;
        let nobody = IpAddr::from([0, 0, 0, 0]);
        let (id, peer, req) =
            request.ok_or(Error::Timeout { operation: "accept from", peer: nobody, after: limit })?;
        Ok(CmRequest { cm: self.cm.clone(), id, peer, req, answered: false })
    }
}

impl Drop for CmListener {
    fn drop(&mut self) {
        let service = rdma_service_id(self.port);
        let mut agent = self.cm.lock();
        agent.manager.unlisten(service);
        while let Some((id, _, _)) = agent.next_request(service) {
            agent.reject(id, RejectReason::InvalidServiceId, [0; 148]);
        }
    }
}

const ACCEPT: &str = "accept";

/// Somebody who asks. Dropping it says no.
#[derive(Debug)]
pub struct CmRequest {
    cm: Cm,
    id: u32,
    peer: IpAddr,
    req: Req,
    answered: bool,
}

impl CmRequest {
    /// Who asks.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// What the asker says.
    pub fn req(&self) -> &Req {
        &self.req
    }

    /// The bytes of the asker's program.
    pub fn private_data(&self) -> &[u8] {
        &self.req.private_data[IpCm::BYTES..]
    }

    /// Says yes: takes the queue pair, of RC, from INIT to RTS, and waits until the asker is ready, too.
    ///
    /// # Errors
    /// `Timeout` when the asker does not answer, `Gone` when it has given up; those of [`Net::resolve`] and of the verbs. The queue pair is
    /// destroyed then, and the asker is told no.
    pub fn accept(self, qp: Qp<Init>, options: &CmOptions, limit: Duration) -> Result<CmConnection> {
        let (peer, connection) = (self.peer, self.answer(qp, options)?);
        match connection.next_event(ACCEPT, limit)? {
            Event::Established => Ok(connection),
            _ => Err(Error::Gone { operation: ACCEPT, peer }),
        }
    }

    /// Says yes, and does not wait: the asker may send before its word that it is ready has come, and the first that is received says as much. Who
    /// takes that way calls [`CmConnection::communication_established`] then, and looks at [`CmConnection::state`] meanwhile.
    ///
    /// # Errors
    /// `Gone` when the asker has given up; those of [`Net::resolve`] and of the verbs. The queue pair is destroyed then, and the asker is told no.
    pub fn answer(mut self, qp: Qp<Init>, options: &CmOptions) -> Result<CmConnection> {
        const OPERATION: &str = ACCEPT;
        let (req, peer) = (self.req, self.peer);
        let Ok(path_mtu) = PathMtu::try_from(req.path_mtu) else {
            self.refuse(RejectReason::InvalidMtu, [0; 148]);
            return Err(Error::Rejected { peer, reason: RejectReason::InvalidMtu });
        };
        let way = self.cm.net.address_vector(peer)?;
        let psn = self.cm.lock().context.random_psn()?;
        let mut rep = Rep {
            local_qpn: qp.number(),
            starting_psn: psn.get(),
            responder_resources: options.rc.rd_atomic.min(req.initiator_depth),
            initiator_depth: options.rc.rd_atomic.min(req.responder_resources),
            target_ack_delay: 15,
            rnr_retry_count: options.rc.rnr_retry,
            local_ca_guid: guid(way.src_mac),
            ..Rep::default()
        };
        put(OPERATION, &mut rep.private_data, &options.private_data)?;
        let local = end(Psn::new(req.starting_psn), way.src_ip, path_mtu, rep.responder_resources);
        let remote = End { qpn: req.local_qpn, ..end(psn, peer, path_mtu, req.responder_resources) };
        let rc = RcOptions {
            timeout: req.primary_local_ack_timeout,
            retry_cnt: req.retry_count,
            rnr_retry: req.rnr_retry_count,
            ..options.rc
        };
        let qp = bring_up(qp, way, &local, &remote, &rc)?;
        self.answered = true;
        let connection = CmConnection {
            cm: self.cm.clone(),
            id: self.id,
            peer,
            private_data: self.private_data().to_vec(),
            qp: Some(qp),
        };
        let now = self.cm.net.now();
        if !self.cm.lock().manager.accept(now, self.id, rep) {
            return Err(Error::Gone { operation: OPERATION, peer });
        }
        self.cm.poll()?;
        Ok(connection)
    }

    /// Says no, with up to 148 bytes for the asker's program.
    ///
    /// # Errors
    /// There are more bytes; the card fails. The asker is told no all the same.
    pub fn reject(mut self, reason: RejectReason, private_data: &[u8]) -> Result<()> {
        let mut bytes = [0; 148];
        put("reject", &mut bytes, private_data)?;
        self.refuse(reason, bytes);
        self.cm.poll()
    }

    fn refuse(&mut self, reason: RejectReason, bytes: [u8; 148]) {
        if !std::mem::replace(&mut self.answered, true) {
            self.cm.lock().reject(self.id, reason, bytes);
        }
    }
}

impl Drop for CmRequest {
    fn drop(&mut self) {
        self.refuse(RejectReason::Consumer, [0; 148]);
    }
}

/// A queue pair that is connected. Dropping it ends the connection as far as one message does; [`disconnect`](Self::disconnect) sees to it.
#[derive(Debug)]
pub struct CmConnection {
    cm: Cm,
    id: u32,
    peer: IpAddr,
    private_data: Vec<u8>,
    qp: Option<QueuePair>,
}

impl CmConnection {
    /// The other side.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// The bytes of the other side's program.
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// The queue pair, in RTS.
    ///
    /// # Panics
    /// Never: a connection that a program has, has one.
    pub fn qp(&mut self) -> &mut QueuePair {
        self.qp.as_mut().expect("a connection is given to a program with its queue pair")
    }

    /// Whether neither side has ended it. Polls.
    ///
    /// # Errors
    /// The card fails.
    pub fn is_connected(&self) -> Result<bool> {
        Ok(self.state()? == Some(State::Established))
    }

    /// Where it stands; `None`: it was refused or given up, or its end is long ago. Polls.
    ///
    /// # Errors
    /// The card fails.
    pub fn state(&self) -> Result<Option<State>> {
        self.cm.poll()?;
        Ok(self.cm.lock().manager.state(self.id))
    }

    /// The queue pair has received something, so the other side is ready, whatever became of its word (IBTA 12.9.7.2). Of who has
    /// [answered](CmRequest::answer) without waiting for that.
    pub fn communication_established(&self) {
        self.cm.lock().manager.communication_established(self.id);
    }

    /// The next event; what ends the connection is an error.
    fn next_event(&self, operation: &'static str, limit: Duration) -> Result<Event> {
        let peer = self.peer;
        match self.cm.wait(limit, |agent| Ok(agent.next_event(self.id)))? {
            Some(Event::Rejected(rej)) => Err(Error::Rejected { peer, reason: rej.reason.into() }),
            Some(Event::TimedOut) | None => Err(Error::Timeout { operation, peer, after: limit }),
            Some(event) => Ok(event),
        }
    }

    /// Waits until the other side ends it.
    ///
    /// # Errors
    /// `Timeout` when it does not within `limit`; the card fails.
    pub fn wait_disconnected(&self, limit: Duration) -> Result<()> {
        const OPERATION: &str = "wait for the end of the connection";
        while self.next_event(OPERATION, limit)? == Event::Established {}
        Ok(())
    }

    /// Ends it: tells the other side, waits for its answer, and takes the queue pair to ERR, which flushes what is left of its work requests. It waits
    /// in a program that is to end, too: the other side would not hear of that otherwise.
    ///
    /// # Errors
    /// `Timeout` when the manager has not given up asking within `limit`; those of the verbs.
    pub fn disconnect(mut self, limit: Duration) -> Result<Option<QueuePair>> {
        let now = self.cm.net.now();
        let asked = self.cm.lock().manager.disconnect(now, self.id);
        if asked {
            let ended = |agent: &mut Agent| {
                let state = agent.manager.state(self.id);
                Ok((state != Some(State::DreqSent)).then_some(()))
            };
            let peer = self.peer;
            let ended = self.cm.wait_unless(|| false, limit, ended)?;
            ended.ok_or(Error::Timeout { operation: "disconnect", peer, after: limit })?;
        }
        let mut qp = self.qp.take();
        if let Some(qp) = &mut qp {
            qp.modify(QpState::Err, &QpAttributes::default())?;
        }
        Ok(qp)
    }
}

impl Drop for CmConnection {
    fn drop(&mut self) {
        let now = self.cm.net.now();
        let mut agent = self.cm.lock();
        if !agent.manager.disconnect(now, self.id) {
            // One that is not whole yet; one that has ended is not refused.
            agent.manager.reject(self.id, RejectReason::Consumer, [0; 148]);
        }
        agent.forget(self.id);
    }
}
