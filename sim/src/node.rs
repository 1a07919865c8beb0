// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Node`]: a card of whatever kind, opened by a driver of its own, and how its queue pairs are connected with those of another.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{bail, Context as _, Result};
use ferrowire::{
    AccessFlags, AddressVector, Bus, Completion, Context, ContextOptions, DropReason, HwCounter,
    InitAttributes, MemoryRegion, PageSize, PathMtu, ProtectionDomain, Psn, Qp, QpInitAttr, QueuePair, Reset,
    Rtr, RtrAttributes, RtsAttributes, Service, SharedReceiveQueue, TrafficCounter,
};

use crate::bus::SharedWorld;
use crate::shared_cq::SharedCq;

/// Longest wait for a command, in simulated time.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(20);

/// How a pair is made.
#[derive(Clone, Copy, Debug)]
pub struct PairOptions {
    /// Cycles that a read of host memory takes beyond the least.
    pub host_latency: u64,
    /// Cycles on the wire, each way.
    pub wire_latency: u64,
    /// Entries of each completion queue.
    pub cq_entries: u32,
    /// Of keys and PSNs.
    pub seed: u64,
}

impl Default for PairOptions {
    fn default() -> Self {
        Self { host_latency: 0, wire_latency: 0, cq_entries: 4096, seed: 1 }
    }
}

/// How queue pairs are connected. What the service does not have does not count: UD has no peer, no path MTU and no rights.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// Service of those that [`Pair::connect`] makes.
    pub service: Service,
    /// Path MTU.
    pub mtu: PathMtu,
    /// What the peer may do, both ways.
    pub access: AccessFlags,
    /// Work requests of the send queues.
    pub send_wr: u32,
    /// SGEs of each.
    pub send_sge: u8,
    /// Bytes of inline data of each.
    pub inline: u16,
    /// Work requests of the receive queues.
    pub recv_wr: u32,
    /// SGEs of each.
    pub recv_sge: u8,
    /// Every send is signalled.
    pub signal_all: bool,
    /// IPv6 rather than IPv4.
    pub ipv6: bool,
    /// Tag control information of all packets; of a VLAN the cards must have addresses.
    pub vlan: Option<u16>,
    /// IPv4 type of service or IPv6 traffic class.
    pub traffic_class: u8,
    /// First PSNs of card 0 and card 1; random ones without.
    pub psns: Option<(u32, u32)>,
    /// Time-out code: an acknowledgement is waited for `2^n` ticks; 0: for ever.
    pub timeout: u8,
    /// How often a request is sent again before the queue pair gives up.
    pub retry_cnt: u8,
    /// The same for a receiver that is not ready; 7: without end.
    pub rnr_retry: u8,
    /// Timer code of a receiver that is not ready.
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding each way.
    pub rd_atomic: u8,
    /// Queue key of both.
    pub qkey: u32,
    /// They push WQEs.
    pub push: bool,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            service: Service::Rc,
            mtu: PathMtu::B1024,
            access: AccessFlags::REMOTE_WRITE,
            send_wr: 64,
            send_sge: 1,
            inline: 0,
            recv_wr: 64,
            recv_sge: 1,
            signal_all: false,
            ipv6: false,
            vlan: None,
            traffic_class: 0,
            psns: None,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            rd_atomic: 0,
            qkey: 0x1357_9bdf,
            push: false,
        }
    }
}

/// A card, opened, with one domain and one completion queue.
pub struct Node {
    /// Which card of the world.
    pub card: usize,
    /// Where sends and receives complete.
    pub cq: SharedCq,
    /// The domain of everything.
    pub pd: ProtectionDomain,
    /// The open card.
    pub context: Context,
}

impl Node {
    /// Opens a card, and gives it its addresses.
    ///
    /// # Errors
    /// The card does not come up.
    pub fn open(bus: impl Bus + 'static, card: usize, options: &PairOptions) -> Result<Self> {
        let failed = || format!("opening card {card}");
        let context = ContextOptions {
            command_timeout: COMMAND_TIMEOUT,
            seed: Some(options.seed.wrapping_mul(2).wrapping_add(card as u64)),
            ..ContextOptions::default()
        };
        let context = Context::open_with(bus, context).with_context(failed)?;
        let pd = context.alloc_pd().with_context(failed)?;
        let cq = context.create_cq(options.cq_entries).with_context(failed)?.into();
        let node = Self { card, cq, pd, context };
        node.context.set_mac(node.mac()).with_context(failed)?;
        for ipv6 in families(&node.context) {
            node.context.add_gid(node.ip(ipv6), None).with_context(failed)?;
        }
        Ok(node)
    }

    /// Its MAC address.
    pub fn mac(&self) -> [u8; 6] {
        mac(self.card)
    }

    /// Its IP address.
    pub fn ip(&self, ipv6: bool) -> IpAddr {
        ip(self.card, ipv6)
    }

    /// Zeroed memory, `offset` bytes behind a page's start, registered with 4 KiB pages.
    ///
    /// # Errors
    /// The card has no room for it.
    pub fn region(&self, offset: usize, bytes: usize, access: AccessFlags) -> Result<MemoryRegion> {
        let memory = self.context.alloc(offset + bytes, 4096)?.slice(offset, bytes);
        Ok(self.pd.register(&memory, access, PageSize::Size4K)?)
    }

    /// Polls until there are `count` completions, for at most `cycles` clocks; all that came.
    ///
    /// # Errors
    /// The card fails, or too few came.
    pub fn wait(&self, world: &SharedWorld, count: usize, cycles: u64) -> Result<Vec<Completion>> {
        let limit = world.lock().cycle() + cycles;
        let mut all = Vec::new();
        let mut some = [Completion::default(); 64];
        while all.len() < count {
            let n = self.cq.poll(&mut some)?;
            all.extend_from_slice(&some[..n]);
            if n == 0 && world.lock().cycle() > limit {
                bail!("{} of {count} completions after {cycles} cycles", all.len());
            }
        }
        Ok(all)
    }

    /// A queue pair in RESET, with room as the connection says; where there is one, its receives come from a shared queue.
    pub(crate) fn queue_pair(
        &self,
        connection: &Connection,
        srq: Option<&SharedReceiveQueue>,
    ) -> Result<Qp<Reset>> {
        let mut attr = QpInitAttr::rc(&self.cq, &self.cq);
        attr.service = connection.service;
        attr.srq = srq;
        (attr.max_send_wr, attr.max_recv_wr) = (connection.send_wr, connection.recv_wr);
        (attr.max_send_sge, attr.max_recv_sge) = (connection.send_sge, connection.recv_sge);
        attr.max_inline = connection.inline;
        attr.sq_sig_all = connection.signal_all;
        attr.push = connection.push;
        Ok(self.pd.create_qp(&attr)?)
    }

    /// A queue pair here and one at a peer, connected with each other.
    ///
    /// # Errors
    /// A card refuses.
    pub fn connect(&self, peer: &Node, connection: &Connection) -> Result<(QueuePair, QueuePair)> {
        let (a, b) = (self.queue_pair(connection, None)?, peer.queue_pair(connection, None)?);
        self.bring_up(peer, a, b, connection)
    }

    pub(crate) fn bring_up(
        &self,
        peer: &Node,
        a: Qp<Reset>,
        b: Qp<Reset>,
        connection: &Connection,
    ) -> Result<(QueuePair, QueuePair)> {
        let (a, b, last) = self.half_up(peer, a, b, connection)?;
        let b = b.rts(last).map_err(|step| failed(step.error))?;
        Ok((a, b))
    }

    pub(crate) fn half_up(
        &self,
        peer: &Node,
        a: Qp<Reset>,
        b: Qp<Reset>,
        connection: &Connection,
    ) -> Result<(QueuePair, Qp<Rtr>, RtsAttributes)> {
        let (psn_a, psn_b) = match connection.psns {
            Some(psns) => psns,
            None => (self.context.random_psn()?.get(), peer.context.random_psn()?.get()),
        };
        let (qpn_a, qpn_b, service) = (a.number(), b.number(), a.service());
        let up = |qp: Qp<Reset>, (init, rtr, rts): Attributes| -> Result<(Qp<Rtr>, RtsAttributes)> {
            let qp = qp.init(init).map_err(|step| failed(step.error))?;
            Ok((qp.rtr(rtr).map_err(|step| failed(step.error))?, rts))
        };
        let (a, last) = up(a, self.attributes(service, peer, connection, psn_a, qpn_b, psn_b))?;
        let a = a.rts(last).map_err(|step| failed(step.error))?;
        let (b, last) = up(b, peer.attributes(service, self, connection, psn_b, qpn_a, psn_a))?;
        Ok((a, b, last))
    }

    /// The way from here to a peer.
    pub fn way(&self, peer: &Node, connection: &Connection) -> AddressVector {
        let (from, to) = (self.ip(connection.ipv6), peer.ip(connection.ipv6));
        AddressVector {
            vlan: connection.vlan,
            traffic_class: connection.traffic_class,
            ..AddressVector::new(self.mac(), from, peer.mac(), to)
        }
    }

    fn attributes(
        &self,
        service: Service,
        peer: &Node,
        connection: &Connection,
        own: u32,
        dest_qpn: u32,
        peers: u32,
    ) -> Attributes {
        let (reliable, connected) = (service == Service::Rc, service != Service::Ud);
        (
            InitAttributes::new()
                .access(connected.then_some(connection.access))
                .pkey(0xffff)
                .qkey((!connected).then_some(connection.qkey)),
            RtrAttributes::new()
                .av(connected.then(|| self.way(peer, connection)))
                .path_mtu(connected.then_some(connection.mtu))
                .dest_qpn(connected.then_some(dest_qpn))
                .rq_psn(connected.then(|| Psn::new(peers)))
                .max_dest_rd_atomic(reliable.then_some(connection.rd_atomic))
                .min_rnr_timer(reliable.then_some(connection.min_rnr_timer)),
            RtsAttributes::new()
                .sq_psn(Psn::new(own))
                .timeout(reliable.then_some(connection.timeout))
                .retry_cnt(reliable.then_some(connection.retry_cnt))
                .rnr_retry(reliable.then_some(connection.rnr_retry))
                .max_rd_atomic(reliable.then_some(connection.rd_atomic)),
        )
    }
}

type Attributes = (InitAttributes, RtrAttributes, RtsAttributes);

/// Every counter of a card that is not zero.
pub(crate) fn counters(context: &Context) -> String {
    let mut counters: Vec<String> = Vec::new();
    let mut note = |name: &str, value: ferrowire::Result<u64>| match value {
        Ok(0) => {}
        Ok(value) => counters.push(format!("{name} {value}")),
        Err(error) => counters.push(format!("{name}: {error}")),
    };
    for counter in TrafficCounter::ALL {
        note(counter.name(), context.traffic_counter(*counter));
    }
    for reason in DropReason::ALL {
        note(reason.name(), context.drop_counter(*reason));
    }
    for counter in HwCounter::ALL {
        note(counter.name(), context.hw_counter(*counter));
    }
    counters.join(", ")
}

/// MAC address of an end.
pub fn mac(side: usize) -> [u8; 6] {
    [2, 0xfe, 0, 0, 0, 1 + side as u8]
}

/// IP address of an end.
pub fn ip(side: usize, ipv6: bool) -> IpAddr {
    let host = 1 + side as u8;
    match ipv6 {
        false => IpAddr::from([10, 0, 0, host]),
        true => IpAddr::from([0xfd, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]),
    }
}

/// Whether IPv6: for each family that the card has.
pub(crate) fn families(context: &Context) -> impl Iterator<Item = bool> {
    let can = context.capabilities().ipv6;
    [false, true].into_iter().filter(move |ipv6| can || !ipv6)
}

fn failed(error: ferrowire::Error) -> anyhow::Error {
    anyhow::Error::new(error).context("connecting queue pairs")
}
