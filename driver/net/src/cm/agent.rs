// SPDX-License-Identifier: MIT OR Apache-2.0
//! QP1: brings the manager's messages to others, and theirs to it.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use ferrowire::spec::qp_state::{GSI_QKEY, GSI_QPN};
use ferrowire::{
    AccessFlags, AddressHandle, AddressVector, Completion, CompletionQueue, Context, InitAttributes,
    MemoryRegion, PageSize, ProtectionDomain, QpInitAttr, QueuePair, RecvWr, RtrAttributes, RtsAttributes,
    SendWr,
};

use super::machine::{Event, Manager, Timing};
use crate::error::{Error, Result};
use crate::mad::{self, Mad, RejectReason, Req};
use crate::stack::Net;

/// Messages that wait in memory each way.
const PLACES: u32 = 64;

/// Bytes that a datagram has before its own (IBTA 11.4.1.2).
const GRH: usize = 40;

/// Bytes of a place.
const PLACE: usize = 512;

/// Messages that wait for the way to their receivers; the oldest one goes, for who wants an answer asks again.
const WAITING: usize = 64;

/// Handles that are kept.
const HANDLES: usize = 64;

/// QP1 and the protocol.
pub(super) struct Agent {
    pub(super) context: Context,
    pub(super) manager: Manager<IpAddr>,
    pd: ProtectionDomain,
    sends: CompletionQueue,
    receives: CompletionQueue,
    qp: QueuePair,
    inbox: MemoryRegion,
    outbox: MemoryRegion,
    sending: u32,
    next: u64,
    handles: BTreeMap<IpAddr, (AddressVector, AddressHandle)>,
    /// Those that are other ways now, as long as something may be under way there.
    old: Vec<AddressHandle>,
    waiting: VecDeque<(IpAddr, Mad)>,
    /// What those that programs have are told; others' is nobody's.
    events: BTreeMap<u32, VecDeque<Event>>,
    requests: VecDeque<(u32, IpAddr, Req)>,
    next_port: u16,
}

impl Agent {
    pub(super) fn new(context: &Context, pd: &ProtectionDomain, timing: Timing) -> Result<Self> {
        let (sends, receives) = (context.create_cq(PLACES)?, context.create_cq(PLACES)?);
        let mut attr = QpInitAttr::ud(&sends, &receives);
        (attr.gsi, attr.sq_sig_all) = (true, true);
        (attr.max_send_wr, attr.max_recv_wr) = (PLACES, PLACES);
        let init = InitAttributes::new().pkey(0xffff).qkey(GSI_QKEY);
        let mut qp = pd.create_qp(&attr)?.init(init).map_err(ferrowire::Error::from)?;
        let region = |access| {
            let memory = context.alloc(PLACES as usize * PLACE, 4096)?;
            pd.register(&memory, access, PageSize::Size4K)
        };
        let (inbox, outbox) = (region(AccessFlags::LOCAL_WRITE)?, region(AccessFlags::LOCAL_READ)?);
        let mut batch = qp.start_post_recv();
        for place in 0..PLACES as usize {
            batch.post(&RecvWr::new(place as u64, &[inbox.sge(place * PLACE, (GRH + mad::BYTES) as u32)]))?;
        }
        batch.ring()?;
        let psn = context.random_psn()?;
        let qp = qp.rtr(RtrAttributes::default()).map_err(ferrowire::Error::from)?;
        let rts = RtsAttributes::new().sq_psn(psn);
        let qp = qp.rts(rts).map_err(ferrowire::Error::from)?;
        let seed = context.random_psn()?.get() << 8 ^ context.random_psn()?.get();
        Ok(Self {
            context: context.clone(),
            manager: Manager::new(seed, timing),
            pd: pd.clone(),
            sends,
            receives,
            qp,
            inbox,
            outbox,
            sending: 0,
            next: 0,
            handles: BTreeMap::new(),
            old: Vec::new(),
            waiting: VecDeque::new(),
            events: BTreeMap::new(),
            requests: VecDeque::new(),
            next_port: seed as u16,
        })
    }

    /// A port to ask from: it is told to the other side, and of no other use.
    pub(super) fn port(&mut self) -> u16 {
        self.next_port = self.next_port.wrapping_add(1) | 0xc000;
        self.next_port
    }

    /// Asks for a connection, of which the program is told.
    pub(super) fn connect(&mut self, now: Duration, peer: IpAddr, req: Req) -> u32 {
        let id = self.manager.connect(now, peer, req);
        self.events.insert(id, VecDeque::new());
        id
    }

    /// The oldest request for a service.
    pub(super) fn next_request(&mut self, service: u64) -> Option<(u32, IpAddr, Req)> {
        let at = self.requests.iter().position(|(_, _, req)| req.service_id == service)?;
        self.requests.remove(at)
    }

    /// What is told next of a connection.
    pub(super) fn next_event(&mut self, id: u32) -> Option<Event> {
        self.events.get_mut(&id)?.pop_front()
    }

    pub(super) fn reject(&mut self, id: u32, reason: RejectReason, private_data: [u8; 148]) {
        self.manager.reject(id, reason, private_data);
        self.forget(id);
    }

    /// The program has given a connection up.
    pub(super) fn forget(&mut self, id: u32) {
        self.events.remove(&id);
    }

    pub(super) fn poll(&mut self, net: &Net) -> Result<()> {
        let now = net.now();
        self.receive(now)?;
        self.manager.tick(now);
        while let Some((id, event)) = self.manager.poll_event() {
            match event {
                Event::Requested(req) => {
                    let Some(peer) = self.manager.peer(id).copied() else { continue };
                    self.events.insert(id, VecDeque::new());
                    self.requests.push_back((id, peer, req));
                }
                event => {
                    self.requests.retain(|request| request.0 != id);
                    self.events.entry(id).and_modify(|events| events.push_back(event));
                }
            }
        }
        while let Some(message) = self.manager.poll_transmit() {
            if self.waiting.len() == WAITING {
                self.waiting.pop_front();
            }
            self.waiting.push_back(message);
        }
        for (ip, mad) in std::mem::take(&mut self.waiting) {
            if !self.send(net, ip, &mad)? {
                self.waiting.push_back((ip, mad));
            }
        }
        Ok(())
    }

    /// Takes what has come.
    fn receive(&mut self, now: Duration) -> Result<()> {
        let mut some = [Completion::default(); 16];
        let n = self.receives.poll(&mut some)?;
        for done in some[..n].iter().filter(|done| done.is_success()) {
            let at = done.wr_id() as usize * PLACE;
            let mut bytes = [0; GRH + mad::BYTES];
            let length = bytes.len().min(done.byte_len() as usize);
            self.inbox.memory().read(at, &mut bytes[..length]);
            let sge = self.inbox.sge(at, (GRH + mad::BYTES) as u32);
            self.qp.start_post_recv().post(&RecvWr::new(done.wr_id(), &[sge]))?;
            // Managers are QP1 (IBTA 13.5.1). What is none of their messages is for agents that there are not.
            if done.src_qpn() == Some(GSI_QPN) {
                if let Ok(mad) = Mad::parse(&bytes[GRH..length.max(GRH)]) {
                    self.manager.receive(now, &source(&bytes), &mad);
                }
            }
        }
        Ok(())
    }

    /// Sends a message, if there is room and the way is known; whether it is done with.
    fn send(&mut self, net: &Net, ip: IpAddr, mad: &Mad) -> Result<bool> {
        let mut some = [Completion::default(); 16];
        if self.sending > 0 {
            self.sending -= self.sends.poll(&mut some)? as u32;
        }
        if self.sending == 0 {
            self.old.clear();
        }
        let way = match net.try_address_vector(ip) {
            Ok(Some(way)) => way,
            // Nobody can be told anything there.
            Err(Error::NoRoute { .. } | Error::NoAddress { .. }) => return Ok(true),
            Ok(None) => return Ok(false),
            Err(error) => return Err(error),
        };
        if self.sending == PLACES {
            return Ok(false);
        }
        if self.handles.get(&ip).is_none_or(|(known, _)| *known != way) {
            if self.handles.len() >= HANDLES {
                self.old.extend(std::mem::take(&mut self.handles).into_values().map(|(_, handle)| handle));
            }
            let handle = self.pd.create_ah(&way)?;
            self.old.extend(self.handles.insert(ip, (way, handle)).map(|(_, handle)| handle));
        }
        let at = (self.next % u64::from(PLACES)) as usize * PLACE;
        self.outbox.memory().write(at, &mad.to_bytes());
        let sges = [self.outbox.sge(at, mad::BYTES as u32)];
        let mut batch = self.qp.start_post_send();
        let handle = &self.handles[&ip].1;
        batch.post(&SendWr::send(self.next, &sges).to(handle, GSI_QPN, GSI_QKEY))?;
        batch.ring()?;
        (self.next, self.sending) = (self.next + 1, self.sending + 1);
        Ok(true)
    }
}

/// Who has sent a datagram, by the 40 bytes before it (IBTA A17.4.5.2).
fn source(bytes: &[u8; GRH + mad::BYTES]) -> IpAddr {
    match bytes[0] >> 4 {
        6 => {
            let mut ip = [0; 16];
            ip.copy_from_slice(&bytes[8..24]);
            ip.into()
        }
        _ => Ipv4Addr::new(bytes[32], bytes[33], bytes[34], bytes[35]).into(),
    }
}
