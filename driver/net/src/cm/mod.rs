// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections by the RDMA communication manager's messages over QP1 (IBTA volume 1, chapter 12 and annex A11): [`Cm`], [`CmListener`],
//! [`CmConnection`]. Their methods wait.
//!
//! The protocol is in [`machine`] and [`sidr`]. The calls here are those of [`rdma`](crate::rdma) and a wait for their events, without a thread.

pub mod machine;
pub(crate) mod sidr;
mod table;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ferrowire::{Context, Init, PathMtu, ProtectionDomain, Qp, QpAttributes, QpState, QueuePair};

use self::machine::{State, Timing};
use crate::error::{Error, Result};
use crate::exchange::{check_selective, RcOptions};
use crate::gsi::Qp1;
use crate::mad::{PortSpace, RejectReason};
use crate::rdma::{Channel, ConnParam, Event, EventKind, Id, Options, Shared, StagedQp};
use crate::stack::{Net, PAUSE};

/// How a connection shall be.
#[derive(Debug, Clone)]
pub struct CmOptions {
    /// How the queue pair behaves. The asked side takes time-out and retries of the request; `rnr_retry` is what the other side shall do. With `selective`, the
    /// messages of the manager agree on selective retransmission: [`CmConnection::selective`] says whether they have.
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

impl CmOptions {
    fn param(&self, qp_num: u32) -> ConnParam {
        ConnParam {
            private_data: self.private_data.clone(),
            responder_resources: self.rc.rd_atomic,
            initiator_depth: self.rc.rd_atomic,
            retry_count: self.rc.retry_cnt,
            rnr_retry_count: self.rc.rnr_retry,
            qp_num,
            ..ConnParam::default()
        }
    }

    /// The queue pair's rights are its owner's.
    fn ask(&self, options: &mut Options) {
        self.answer(options);
        options.path_mtu = self.path_mtu;
        options.ack_timeout = self.rc.timeout;
    }

    /// Path MTU and time-out are the asker's.
    fn answer(&self, options: &mut Options) {
        options.keep_access = true;
        options.min_rnr_timer = self.rc.min_rnr_timer;
        options.selective = self.rc.selective;
    }
}

/// The communication manager of a card: it has QP1.
///
/// It answers while a thread calls [`poll`](Self::poll) or waits in one of its methods. `Send` and `Sync`; clones are the same.
#[derive(Clone)]
pub struct Cm {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Cm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cm").field("net", &self.shared.net).finish_non_exhaustive()
    }
}

impl Cm {
    /// Takes the card's QP1. `net` must be of the same card.
    ///
    /// # Errors
    /// QP1 is in use, or there is no memory.
    pub fn new(context: &Context, pd: &ProtectionDomain, net: &Net, timing: Timing) -> Result<Self> {
        let gsi = Qp1::new(context, pd, None)?;
        Ok(Self { shared: Shared::new(net, Box::new(gsi), timing)? })
    }

    /// Takes what has come, for the manager and for the IP stack, answers it, and sends what waits.
    ///
    /// # Errors
    /// The card fails.
    pub fn poll(&self) -> Result<()> {
        self.shared.step().map(drop)
    }

    /// The end of a call that may take so long.
    fn until(&self, limit: Duration) -> Duration {
        self.shared.net.now().saturating_add(limit)
    }

    /// Polls until `done` gives something, at most until then; `None`: it did not. `stop` says whether the program is to end.
    fn wait<T>(
        &self,
        stop: fn() -> bool,
        until: Duration,
        mut done: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>> {
        let net = &self.shared.net;
        loop {
            let late = net.now() > until;
            self.poll()?;
            if let Some(value) = done() {
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

    /// The next event; `None`: there is none until then. Ends when the program is to end.
    fn event(&self, channel: &Channel, until: Duration) -> Result<Option<Event>> {
        self.wait(self.shared.net.stop(), until, || channel.try_next())
    }

    fn id(&self, channel: &Channel) -> Result<Id> {
        Id::create(&self.shared, channel, PortSpace::Tcp, 0, Options::default())
    }

    /// Takes requests to a port of `RDMA_PS_TCP`.
    ///
    /// # Errors
    /// `PortInUse`.
    pub fn listen(&self, port: u16) -> Result<CmListener> {
        let channel = Channel::new()?;
        let id = self.id(&channel)?;
        let all = SocketAddr::from(([0; 16], port));
        match port {
            0 => Err(Error::PortInUse(0)),
            _ => id.bind(all).and_then(|()| id.listen(0)).map_err(|error| match error {
                Error::AddressInUse(_) => Error::PortInUse(port),
                error => error,
            }),
        }?;
        Ok(CmListener { cm: self.clone(), channel, _id: id })
    }

    /// Asks for a connection to a listener and takes the queue pair, of RC, from INIT to RTS.
    ///
    /// # Errors
    /// `NoSelective` before anything is sent; `Rejected` with the other side's reason, `Timeout`; those of [`Net::resolve`] and of the verbs. The queue pair is destroyed then.
    pub fn connect(
        &self,
        to: SocketAddr,
        qp: Qp<Init>,
        options: &CmOptions,
        limit: Duration,
    ) -> Result<CmConnection> {
        const OPERATION: &str = "connect to";
        check_selective("connect", options.rc.selective, qp.capabilities().selective)?;
        let (peer, limit) = (to.ip(), Limit { until: self.until(limit), limit });
        // With the errors of the stack, and all its tries; then it is known.
        self.shared.net.resolve(peer)?;
        let channel = Channel::new()?;
        let id = self.id(&channel)?;
        id.set_options(|all| options.ask(all));
        let mut connection =
            CmConnection { cm: self.clone(), id, channel, peer, private_data: Vec::new(), qp: None };
        connection.id.resolve_address(None, to, limit.limit)?;
        connection.expect(OPERATION, EventKind::AddressResolved, limit)?;
        connection.id.resolve_route()?;
        connection.expect(OPERATION, EventKind::RouteResolved, limit)?;
        connection.id.connect(&options.param(qp.number()))?;
        let reply = connection.expect(OPERATION, EventKind::ConnectResponse, limit)?;
        let mut qp = Some(StagedQp::from(qp));
        if let Err(error) = connection.id.bring_up(&mut qp) {
            // It may have ended by now, which is as good.
            let _ = connection.id.reject(&[]);
            self.poll()?;
            return Err(error);
        }
        connection.id.establish()?;
        connection.private_data = reply.private_data().to_vec();
        connection.qp = up(qp);
        self.poll()?;
        Ok(connection)
    }
}

/// How long a call may take, and until when that is: each wait of the call ends then.
#[derive(Clone, Copy)]
struct Limit {
    limit: Duration,
    until: Duration,
}

/// The queue pair after its bring-up.
fn up(qp: Option<StagedQp>) -> Option<QueuePair> {
    match qp {
        Some(StagedQp::Rts(qp)) => Some(qp),
        _ => None,
    }
}

/// Takes requests to a port. Dropping it refuses those that wait.
#[derive(Debug)]
pub struct CmListener {
    cm: Cm,
    channel: Channel,
    _id: Id,
}

impl CmListener {
    /// The next request.
    ///
    /// # Errors
    /// `Timeout` when none comes within `limit`; the card fails.
    pub fn accept(&self, limit: Duration) -> Result<CmRequest> {
        let until = self.cm.until(limit);
        loop {
            let timeout =
                Error::Timeout { operation: ACCEPT_FROM, peer: Ipv4Addr::UNSPECIFIED.into(), after: limit };
            let mut event = self.cm.event(&self.channel, until)?.ok_or(timeout)?;
            if event.kind() == EventKind::DeviceRemoval {
                let cause = "it takes no more requests".into();
                return Err(Error::Removed { operation: ACCEPT, cause });
            }
            // Other events are of a request that another thread has taken, and has not moved to a channel of its own yet: it finds that out.
            let (Some(id), Some(param)) = (event.take_request(), event.conn().cloned()) else { continue };
            let peer = id.remote().map_or(Ipv4Addr::UNSPECIFIED.into(), |remote| remote.ip());
            let channel = Channel::new()?;
            id.migrate(&channel);
            return Ok(CmRequest { cm: self.cm.clone(), id, channel, peer, param });
        }
    }
}

const ACCEPT: &str = "accept";
const ACCEPT_FROM: &str = "accept from";

/// A request. Dropping it refuses it.
#[derive(Debug)]
pub struct CmRequest {
    cm: Cm,
    id: Id,
    channel: Channel,
    peer: IpAddr,
    param: ConnParam,
}

impl CmRequest {
    /// The asker's address.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Parameters of the request, as this side sees them: `initiator_depth` is what the asker answers at once.
    pub fn param(&self) -> &ConnParam {
        &self.param
    }

    /// The bytes of the asker's program.
    pub fn private_data(&self) -> &[u8] {
        &self.param.private_data
    }

    /// Accepts it: takes the queue pair, of RC, from INIT to RTS, and waits until the asker is ready, too.
    ///
    /// # Errors
    /// `Timeout` when the asker does not answer, `Gone` when it has given up; those of the verbs. The queue pair is destroyed then, and the asker gets a
    /// REJ.
    pub fn accept(self, qp: Qp<Init>, options: &CmOptions, limit: Duration) -> Result<CmConnection> {
        let limit = Limit { until: self.cm.until(limit), limit };
        let (peer, connection) = (self.peer, self.answer(qp, options)?);
        match connection.next_event(ACCEPT, limit)?.kind() {
            EventKind::Established => Ok(connection),
            _ => Err(Error::Gone { operation: ACCEPT, peer }),
        }
    }

    /// Accepts it, and does not wait: the asker may send before its RTU has come, and the first message that the queue pair receives shows the same. The
    /// program calls [`CmConnection::communication_established`] then, and looks at [`CmConnection::state`] meanwhile.
    ///
    /// # Errors
    /// `NoSelective`; `Gone` when the asker has given up; those of the verbs. The queue pair is destroyed then, and the asker gets a REJ.
    pub fn answer(self, qp: Qp<Init>, options: &CmOptions) -> Result<CmConnection> {
        check_selective(ACCEPT, options.rc.selective, qp.capabilities().selective)?;
        let Self { cm, id, channel, peer, param } = self;
        id.set_options(|all| options.answer(all));
        let mut qp = Some(StagedQp::from(qp));
        id.accept(&options.param(0), Some(&mut qp))?;
        let connection = CmConnection { cm, id, channel, peer, private_data: param.private_data, qp: up(qp) };
        connection.cm.poll()?;
        Ok(connection)
    }

    /// Refuses it, with up to 148 bytes for the asker's program.
    ///
    /// # Errors
    /// There are more bytes; the card fails. The asker gets a REJ all the same.
    pub fn reject(self, reason: RejectReason, private_data: &[u8]) -> Result<()> {
        self.id.reject_with(reason, private_data)?;
        self.cm.poll()
    }
}

/// A queue pair that is connected. Dropping it ends the connection as far as one message does; [`disconnect`](Self::disconnect) sees to it.
#[derive(Debug)]
pub struct CmConnection {
    cm: Cm,
    id: Id,
    channel: Channel,
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

    /// Whether both sides have agreed on selective retransmission; go-back-N otherwise.
    pub fn selective(&self) -> bool {
        self.id.selective()
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
        Ok(self.now())
    }

    /// The same as of the last poll.
    fn now(&self) -> Option<State> {
        self.id.connection().and_then(|cm| self.cm.shared.state(cm))
    }

    /// The queue pair has received something, so the other side is ready, whatever became of its RTU (IBTA 12.9.7.2). For a program that
    /// called [`answer`](CmRequest::answer).
    pub fn communication_established(&self) {
        self.id.communication_established();
    }

    /// The next event; what ends an attempt is an error.
    fn next_event(&self, operation: &'static str, Limit { limit, until }: Limit) -> Result<Event> {
        let peer = self.peer;
        let timeout = Error::Timeout { operation, peer, after: limit };
        let event = self.cm.event(&self.channel, until)?.ok_or(timeout)?;
        match event.kind() {
            EventKind::Rejected => {
                let reason = RejectReason::from(event.status() as u16);
                Err(Error::Rejected { peer, reason })
            }
            EventKind::Unreachable | EventKind::AddressError => {
                Err(Error::Timeout { operation, peer, after: limit })
            }
            _ => Ok(event),
        }
    }

    /// The next event, which is of that kind unless the other side gives up.
    fn expect(&self, operation: &'static str, kind: EventKind, limit: Limit) -> Result<Event> {
        let event = self.next_event(operation, limit)?;
        match event.kind() == kind {
            true => Ok(event),
            false => Err(Error::Gone { operation, peer: self.peer }),
        }
    }

    /// Waits until the other side ends it.
    ///
    /// # Errors
    /// `Timeout` when it does not within `limit`; the card fails.
    pub fn wait_disconnected(&self, limit: Duration) -> Result<()> {
        const OPERATION: &str = "wait for the end of the connection";
        let limit = Limit { until: self.cm.until(limit), limit };
        while self.next_event(OPERATION, limit)?.kind() != EventKind::Disconnected {}
        Ok(())
    }

    /// Ends it: sends a DREQ, waits for the answer, and takes the queue pair to ERR, which flushes what is left of its work requests. It waits
    /// in a program that is to end, too: the other side would not hear of that otherwise.
    ///
    /// # Errors
    /// `Timeout` when the manager has not given up asking within `limit`; those of the verbs.
    pub fn disconnect(mut self, limit: Duration) -> Result<Option<QueuePair>> {
        let until = self.cm.until(limit);
        self.id.disconnect(&[], None)?;
        let ended = || (self.now() != Some(State::DreqSent)).then_some(());
        let ended = self.cm.wait(|| false, until, ended)?;
        ended.ok_or(Error::Timeout { operation: "disconnect", peer: self.peer, after: limit })?;
        let mut qp = self.qp.take();
        if let Some(qp) = &mut qp {
            qp.modify(QpState::Err, &QpAttributes::default())?;
        }
        Ok(qp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::Rej;
    use crate::rdma::fakes::{request, stack, Feed, Still, OWN};

    /// A manager whose clock goes on by `step` each time that it is read.
    fn manager(step: Duration) -> (Cm, Feed) {
        let (link, feed) = (Still { step, ..Still::default() }, Feed::default());
        let shared = Shared::new(&stack(&link, 24), Box::new(feed.clone()), Timing::default()).unwrap();
        (Cm { shared }, feed)
    }

    #[test]
    fn a_thread_that_accepts_does_not_mind_the_request_of_another_one() {
        let (cm, feed) = manager(Duration::from_millis(1));
        let listener = cm.listen(1).unwrap();
        feed.give(OWN, request(OWN, OWN, 5));
        cm.poll().unwrap();
        // Another thread has taken it, and has not moved it yet. Its asker gives up.
        let _taken = listener.channel.try_next().unwrap();
        feed.give(OWN, Rej { local_comm_id: 5, message: 2, reason: 4, ..Rej::default() });
        cm.poll().unwrap();
        feed.give(OWN, request(OWN, OWN, 6));
        assert_eq!(listener.accept(Duration::from_secs(1)).unwrap().param().qp_num, 6);
        let error = listener.accept(Duration::from_secs(1)).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
    }

    #[test]
    fn a_limit_is_that_of_the_call_and_not_of_each_event() {
        let (cm, _feed) = manager(Duration::from_millis(1));
        let listener = cm.listen(1).unwrap();
        // Events that are none of a request's come meanwhile.
        let nobody: IpAddr = [10, 0, 0, 9].into();
        let _ids = [300, 600, 900, 1200, 1500].map(|end| {
            let id = cm.id(&listener.channel).unwrap();
            id.resolve_address(None, (nobody, 1).into(), Duration::from_millis(end)).unwrap();
            id
        });
        let start = cm.shared.net.now();
        let error = listener.accept(Duration::from_secs(1)).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        let took = cm.shared.net.now() - start;
        assert!(took < Duration::from_millis(1200), "{took:?}");
    }

    #[test]
    fn an_answer_has_the_rnr_timer_of_its_own_and_what_the_request_says_for_both() {
        let mut options = CmOptions { path_mtu: PathMtu::B4096, ..CmOptions::default() };
        (options.rc.min_rnr_timer, options.rc.timeout) = (3, 20);
        let (mut asker, mut answers) = (Options::default(), Options::default());
        options.ask(&mut asker);
        options.answer(&mut answers);
        assert_eq!((asker.min_rnr_timer, asker.ack_timeout, asker.path_mtu), (3, 20, PathMtu::B4096));
        assert_eq!((answers.min_rnr_timer, answers.ack_timeout), (3, Options::default().ack_timeout));
        assert!(asker.keep_access && answers.keep_access);
    }
}
