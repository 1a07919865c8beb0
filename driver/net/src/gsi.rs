// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Gsi`]: what the communication manager needs of a card; [`Qp1`]: that of a card's QP1.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ferrowire::spec::qp_state::{GSI_QKEY, GSI_QPN};
use ferrowire::{
    AccessFlags, AddressHandle, AddressVector, Completion, CompletionQueue, Context, Error, EventQueue,
    InitAttributes, MemoryRegion, PageSize, PathMtu, ProtectionDomain, QpInitAttr, QueuePair, RecvWr,
    RtrAttributes, RtsAttributes, SendWr,
};

use crate::link::check;
use crate::mad;

const QP1: &str = "queue pair QP1";

/// Messages that wait in memory to be sent.
const PLACES: u32 = 64;

/// Messages that wait in memory to be read: as many as come at once if a program has hundreds of connections. Others are lost, and sent again a second later.
const RECEIVES: u32 = 256;

/// Bytes that a datagram has before its own (IBTA 11.4.1.2).
const GRH: usize = 40;

/// Bytes of a place.
const PLACE: usize = 512;

/// Handles that are kept.
const HANDLES: usize = 64;

/// Between which addresses a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The own one.
    pub local: IpAddr,
    /// The other side's.
    pub remote: IpAddr,
}

/// What a card can do, as far as a connection has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// READs and atomics of a queue pair under way.
    pub max_rd_atomic: u8,
    /// READs and atomics that a queue pair answers at once.
    pub max_dest_rd_atomic: u8,
    /// Largest path MTU.
    pub max_mtu: PathMtu,
    /// Peers may do atomics.
    pub atomics: bool,
    /// RC queue pairs can retransmit selectively, by version [`SELECTIVE`](crate::exchange::SELECTIVE).
    pub selective: bool,
}

/// What the communication manager needs of a card: messages from QP1 to QP1, and random numbers.
pub trait Gsi: Send {
    /// The next message, if there is one.
    ///
    /// # Errors
    /// The card fails.
    fn receive(&mut self) -> ferrowire::Result<Option<(Path, [u8; mad::BYTES])>>;

    /// Sends a message; `false`: there is no room now.
    ///
    /// # Errors
    /// The card fails.
    fn send(&mut self, way: &AddressVector, mad: &[u8; mad::BYTES]) -> ferrowire::Result<bool>;

    /// Whether all messages have left.
    ///
    /// # Errors
    /// The card fails.
    fn is_idle(&mut self) -> ferrowire::Result<bool>;

    /// Asks for an event for the next message, where there are events.
    ///
    /// # Errors
    /// The card fails.
    fn arm(&mut self) -> ferrowire::Result<()> {
        Ok(())
    }

    /// 24 random bits.
    ///
    /// # Errors
    /// The system has none.
    fn random(&mut self) -> ferrowire::Result<u32>;

    /// What the card can do.
    fn limits(&self) -> Limits;
}

/// QP1 of a card.
pub(crate) struct Qp1 {
    context: Context,
    pd: ProtectionDomain,
    sends: CompletionQueue,
    receives: CompletionQueue,
    qp: QueuePair,
    inbox: MemoryRegion,
    outbox: MemoryRegion,
    sending: u32,
    next: u64,
    handles: BTreeMap<(IpAddr, IpAddr), (AddressVector, AddressHandle)>,
    /// Those that are other ways now, as long as something may be under way there.
    old: Vec<AddressHandle>,
    /// Messages raise events.
    events: bool,
}

impl Qp1 {
    /// Takes QP1 of a card. Its messages raise events of that queue once [`arm`](Gsi::arm) has asked for one.
    pub(crate) fn new(
        context: &Context,
        pd: &ProtectionDomain,
        events: Option<&EventQueue>,
    ) -> ferrowire::Result<Self> {
        let sends = context.create_cq(PLACES)?;
        let can = context.capabilities();
        let waiting = RECEIVES.min(1 << can.max_rq_log2.min(can.max_cq_log2).min(30));
        let receives = match events {
            Some(events) => context.create_cq_with_events(waiting, events)?,
            None => context.create_cq(waiting)?,
        };
        let mut attr = QpInitAttr::ud(&sends, &receives);
        (attr.gsi, attr.sq_sig_all) = (true, true);
        (attr.max_send_wr, attr.max_recv_wr) = (PLACES, waiting);
        let init = InitAttributes::new().pkey(0xffff).qkey(GSI_QKEY);
        let mut qp = pd.create_qp(&attr)?.init(init)?;
        let region = |places: u32, access| {
            let memory = context.alloc(places as usize * PLACE, 4096)?;
            pd.register(&memory, access, PageSize::Size4K)
        };
        let inbox = region(waiting, AccessFlags::LOCAL_WRITE)?;
        let outbox = region(PLACES, AccessFlags::LOCAL_READ)?;
        let mut batch = qp.start_post_recv();
        for place in 0..waiting as usize {
            batch.post(&RecvWr::new(place as u64, &[inbox.sge(place * PLACE, (GRH + mad::BYTES) as u32)]))?;
        }
        batch.ring()?;
        let rts = RtsAttributes::new().sq_psn(context.random_psn()?);
        let qp = qp.rtr(RtrAttributes::default())?.rts(rts)?;
        Ok(Self {
            context: context.clone(),
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
            events: events.is_some(),
        })
    }
}

impl Gsi for Qp1 {
    fn receive(&mut self) -> ferrowire::Result<Option<(Path, [u8; mad::BYTES])>> {
        let mut one = [Completion::default()];
        while self.receives.poll(&mut one)? == 1 {
            let done = &one[0];
            check("receive MAD", QP1, done)?;
            let at = done.wr_id() as usize * PLACE;
            let mut bytes = [0; GRH + mad::BYTES];
            self.inbox.memory().read(at, &mut bytes);
            let sge = self.inbox.sge(at, (GRH + mad::BYTES) as u32);
            self.qp.start_post_recv().post(&RecvWr::new(done.wr_id(), &[sge]))?;
            // Managers are QP1 (IBTA 13.5.1), and their messages have one length.
            if done.src_qpn() == Some(GSI_QPN) && done.byte_len() as usize == bytes.len() {
                let mut mad = [0; mad::BYTES];
                mad.copy_from_slice(&bytes[GRH..]);
                return Ok(Some((path(&bytes, done.is_ipv4() == Some(true)), mad)));
            }
        }
        Ok(None)
    }

    fn send(&mut self, way: &AddressVector, mad: &[u8; mad::BYTES]) -> ferrowire::Result<bool> {
        if self.is_idle()? {
            self.old.clear();
        }
        if self.sending == PLACES {
            return Ok(false);
        }
        let ends = (way.src_ip, way.dst_ip);
        if self.handles.get(&ends).is_none_or(|(known, _)| known != way) {
            if self.handles.len() >= HANDLES {
                self.old.extend(std::mem::take(&mut self.handles).into_values().map(|(_, handle)| handle));
            }
            let handle = match self.pd.create_ah(way) {
                Ok(handle) => handle,
                // The card has no place for the handle, or its port has the address no more: the message is lost, as on a wire.
                Err(Error::Attribute { .. } | Error::NoResource { .. } | Error::Command { .. }) => {
                    return Ok(true)
                }
                Err(error) => return Err(error),
            };
            self.old.extend(self.handles.insert(ends, (*way, handle)).map(|(_, handle)| handle));
        }
        let at = (self.next % u64::from(PLACES)) as usize * PLACE;
        self.outbox.memory().write(at, mad);
        let sges = [self.outbox.sge(at, mad::BYTES as u32)];
        let mut batch = self.qp.start_post_send();
        let handle = &self.handles[&ends].1;
        batch.post(&SendWr::send(self.next, &sges).to(handle, GSI_QPN, GSI_QKEY))?;
        batch.ring()?;
        (self.next, self.sending) = (self.next + 1, self.sending + 1);
        Ok(true)
    }

    fn is_idle(&mut self) -> ferrowire::Result<bool> {
        if self.sending > 0 {
            let mut some = [Completion::default(); PLACES as usize];
            let n = self.sends.poll(&mut some)?;
            self.sending -= n as u32;
            some[..n].iter().try_for_each(|done| check("send MAD", QP1, done))?;
        }
        Ok(self.sending == 0)
    }

    fn arm(&mut self) -> ferrowire::Result<()> {
        match self.events {
            true => self.receives.request_notify(false),
            false => Ok(()),
        }
    }

    fn random(&mut self) -> ferrowire::Result<u32> {
        Ok(self.context.random_psn()?.get())
    }

    fn limits(&self) -> Limits {
        let can = self.context.capabilities();
        Limits {
            max_rd_atomic: can.max_rd_atomic,
            max_dest_rd_atomic: can.max_dest_rd_atomic,
            max_mtu: can.max_mtu.known().unwrap_or(PathMtu::B1024),
            atomics: can.atomics,
            selective: can.selective,
        }
    }
}

/// Between whom a datagram went, by the 40 bytes before it (IBTA A17.4.5.2), of the family that the completion tells (A17.4.5.1).
fn path(bytes: &[u8; GRH + mad::BYTES], ipv4: bool) -> Path {
    let v6 = |at: usize| {
        let mut ip = [0; 16];
        ip.copy_from_slice(&bytes[at..at + 16]);
        IpAddr::from(ip)
    };
    let v4 = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]).into();
    match ipv4 {
        true => Path { remote: v4(32), local: v4(36) },
        false => Path { remote: v6(8), local: v6(24) },
    }
}
