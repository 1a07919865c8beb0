// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Link`]: queue pairs that are connected with those of the peer. Numbers, PSNs, addresses and keys go over the side channel.

use std::net::IpAddr;

use ferrowire::{
    AccessFlags, AddressHandle, AddressVector, CompletionQueue, InitAttributes, MemoryRegion, PathMtu, Psn,
    Qp, QpInitAttr, QueuePair, RemoteAddress, Reset, RtrAttributes, RtsAttributes, SendWr, Service,
    SharedReceiveQueue,
};
use ferrowire_cards::gids::as_v6;
use ferrowire_net::exchange::SELECTIVE;
use serde::{Deserialize, Serialize};

use crate::args::parse_service;
use crate::card::Card;
use crate::failure::Failure;
use crate::side::Channel;
use crate::stock::{End, Stock};

/// Queue key of datagrams, that of perftest.
const QKEY: u32 = 0x1111_1111;
/// Bytes in front of a datagram that is received (IBTA 11.4.1.2).
pub const GRH: usize = 40;

/// How queue pairs are to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Wish {
    /// RC, UC or UD.
    pub service: String,
    /// How many.
    pub qps: u32,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// Work requests of each send queue.
    pub send_wr: u32,
    /// Work requests of each receive queue.
    pub recv_wr: u32,
    /// Bytes of inline data.
    pub inline: u16,
    /// READs and atomics outstanding; the card's limits hold.
    pub outstanding: u8,
    /// Time-out code.
    pub timeout: u8,
    /// Retries.
    pub retry: u8,
    /// Work requests that are posted alone are pushed.
    #[serde(default)]
    pub push: bool,
    /// Lost packets alone are sent again, if both cards can.
    #[serde(default)]
    pub selective: bool,
}

impl Wish {
    /// The service.
    pub fn service(&self) -> Result<Service, Failure> {
        parse_service(&self.service)
            .map_err(|why| Failure::failed(format!("the peer's service is {why}"), "start both sides alike"))
    }

    /// Whether a card has room for it.
    ///
    /// # Errors
    /// It has fewer queue pairs, or no such path MTU.
    pub fn fits(&self, card: &Card) -> Result<(), Failure> {
        // Numbers 0 and 1 are of management.
        let most = card.context.capabilities().max_qp.saturating_sub(2);
        if self.qps > most {
            let what = format!("-q {}: {} has {most} queue pairs", self.qps, card.name);
            return Err(Failure::failed(what, format!("give -q up to {most}")));
        }
        self.mtu(card).map(drop)
    }

    /// The path MTU, if the card has it.
    pub fn mtu(&self, card: &Card) -> Result<PathMtu, Failure> {
        card.path_mtu(self.mtu)
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Number {
    qpn: u32,
    psn: u32,
}

/// What a side tells of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Address {
    mac: [u8; 6],
    ip: IpAddr,
    qps: Vec<Number>,
    /// READs and atomics that it takes.
    takes: u8,
    va: u64,
    rkey: u32,
    bytes: u64,
    /// Version of selective retransmission that its card has, if the client wishes it; 0: none.
    #[serde(default)]
    selective: u8,
}

impl Address {
    /// A place in its memory.
    pub fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { address: self.va + offset, rkey: self.rkey }
    }

    /// Whether queue pairs between these two ends retransmit selectively.
    pub fn is_selective_with(&self, peer: &Address) -> bool {
        self.selective != 0 && self.selective == peer.selective
    }

    /// The same of its queue pairs, for a peer of rdma-core.
    pub fn ends(&self) -> Vec<End> {
        self.qps.iter().map(|&Number { qpn, psn }| End { qpn, psn, ip: self.ip }).collect()
    }

    /// As perftest prints it.
    pub fn perftest_lines(&self, side: &str, memory: bool) -> String {
        let lines = self.qps.iter().map(|Number { qpn, psn }| {
            let memory = match memory {
                true => format!(" RKey {:#08x} VAddr {:#018x}", self.rkey, self.va),
                false => String::new(),
            };
            format!(
                " {side} address: LID 0000 QPN {qpn:#06x} PSN {psn:#08x}{memory}\n GID: {}\n",
                decimal_gid(self.ip)
            )
        });
        lines.collect()
    }

    /// As ibv_rc_pingpong prints it.
    pub fn pingpong_lines(&self, side: &str) -> String {
        let ip = as_v6(self.ip);
        let lines = self.qps.iter().map(|Number { qpn, psn }| {
            format!(
                "  {:<15} LID 0x0000, QPN {qpn:#08x}, PSN {psn:#08x}, GID {ip}\n",
                format!("{side} address:")
            )
        });
        lines.collect()
    }
}

/// A GID as perftest writes it: its bytes.
fn decimal_gid(ip: IpAddr) -> String {
    as_v6(ip).octets().map(|byte| format!("{byte:02}")).join(":")
}

/// A queue pair that is up.
pub struct Link {
    /// The queue pair.
    pub qp: QueuePair,
    /// Where its datagrams go.
    to: Option<(AddressHandle, u32)>,
}

impl Link {
    /// A work request, with its way if it is a datagram.
    pub fn address<'a>(to: &'a Option<(AddressHandle, u32)>, wr: SendWr<'a>) -> SendWr<'a> {
        match to {
            Some((ah, qpn)) => wr.to(ah, *qpn, QKEY),
            None => wr,
        }
    }

    /// The queue pair, and where its datagrams go.
    pub fn parts(&mut self) -> (&mut QueuePair, &Option<(AddressHandle, u32)>) {
        (&mut self.qp, &self.to)
    }
}

/// The rights of regions that the peer reads and writes.
pub fn rights(card: &Card) -> AccessFlags {
    let atomic = if card.context.capabilities().atomics {
        AccessFlags::REMOTE_ATOMIC
    } else {
        AccessFlags::LOCAL_READ
    };
    AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ | atomic
}

/// Where queue pairs have their completions and, if they share it, their receives.
#[derive(Clone, Copy)]
pub struct Queues<'a> {
    /// Of sends and receives.
    pub cq: &'a CompletionQueue,
    /// The shared receive queue.
    pub srq: Option<&'a SharedReceiveQueue>,
}

/// Makes queue pairs and connects them with the peer's. What both told.
///
/// # Errors
/// The card refuses; the peer does, is gone, or has an address of another family.
pub fn connect(
    card: &Card,
    channel: &mut Channel,
    wish: &Wish,
    queues: Queues<'_>,
    region: &MemoryRegion,
) -> Result<(Vec<Link>, Address, Address), Failure> {
    let made = Made::new(card, wish, queues, region)?;
    let peer: Address = channel.exchange("address", &made.own)?;
    if peer.qps.len() != made.qps.len() {
        let what = format!("the peer has {} queue pairs, this side {}", peer.qps.len(), made.qps.len());
        return Err(Failure::failed(what, "run the same version of ferrowire on both sides"));
    }
    let (links, own) = made.bring_up(card, wish, &peer)?;
    Ok((links, own, peer))
}

/// The same with a peer of rdma-core.
///
/// # Errors
/// Likewise; nobody on the wire has the peer's address.
pub fn connect_stock(
    card: &Card,
    stock: &mut Stock<'_>,
    client: bool,
    wish: &Wish,
    queues: Queues<'_>,
    region: &MemoryRegion,
) -> Result<(Vec<Link>, Address, Address), Failure> {
    let made = Made::new(card, wish, queues, region)?;
    // A server tells its own when it can receive.
    if client {
        stock.tell(&made.own.ends())?;
    }
    let ends = stock.hear(made.qps.len())?;
    let ip = ends[0].ip;
    let mac = stock.mac(ip)?;
    let qps = ends.iter().map(|end| Number { qpn: end.qpn, psn: end.psn }).collect();
    let peer = Address { mac, ip, qps, takes: 1, va: 0, rkey: 0, bytes: 0, selective: 0 };
    let (links, own) = made.bring_up(card, wish, &peer)?;
    Ok((links, own, peer))
}

/// Queue pairs that wait for their peers.
struct Made {
    qps: Vec<(Qp<Reset>, Psn)>,
    own: Address,
}

impl Made {
    fn new(card: &Card, wish: &Wish, queues: Queues<'_>, region: &MemoryRegion) -> Result<Self, Failure> {
        let service = wish.service()?;
        let mut qps = Vec::new();
        let mut numbers = Vec::new();
        for _ in 0..wish.qps {
            let mut attr = QpInitAttr::rc(queues.cq, queues.cq);
            (attr.service, attr.srq) = (service, queues.srq);
            (attr.max_send_wr, attr.max_recv_wr, attr.max_inline) = (wish.send_wr, wish.recv_wr, wish.inline);
            attr.push = wish.push;
            let qp = card.pd.create_qp(&attr)?;
            let psn = card.context.random_psn()?;
            numbers.push(Number { qpn: qp.number(), psn: psn.get() });
            qps.push((qp, psn));
        }
        let own = Address {
            mac: card.mac,
            ip: card.ip,
            qps: numbers,
            takes: card.context.capabilities().max_dest_rd_atomic,
            va: region.address(),
            rkey: region.rkey(),
            bytes: region.len() as u64,
            selective: version(
                wish.selective && service == Service::Rc,
                card.context.capabilities().selective,
            ),
        };
        Ok(Self { qps, own })
    }

    fn bring_up(self, card: &Card, wish: &Wish, peer: &Address) -> Result<(Vec<Link>, Address), Failure> {
        let (service, mtu) = (wish.service()?, wish.mtu(card)?);
        let own = self.own;
        if peer.ip.is_ipv6() != own.ip.is_ipv6() {
            let what = format!("the peer's address is {}, this side's is {}", peer.ip, own.ip);
            return Err(Failure::failed(what, "choose addresses of one family with -x or --ip"));
        }
        if peer.mac == own.mac {
            let fix = "give one of them another with --mac; and are they two cards?";
            return Err(Failure::failed("both cards have the same MAC address", fix));
        }
        let av = AddressVector { vlan: card.vlan, ..AddressVector::new(own.mac, own.ip, peer.mac, peer.ip) };
        let mut links = Vec::new();
        for ((qp, psn), number) in self.qps.into_iter().zip(&peer.qps) {
            let selective = own.is_selective_with(peer);
            links.push(bring_up(card, (service, mtu), wish, qp, psn, av, number, peer.takes, selective)?);
        }
        Ok((links, own))
    }
}

/// The version of selective retransmission that an end names.
fn version(wish: bool, card: bool) -> u8 {
    if wish && card {
        SELECTIVE
    } else {
        0
    }
}

#[allow(clippy::too_many_arguments)]
fn bring_up(
    card: &Card,
    (service, mtu): (Service, PathMtu),
    wish: &Wish,
    qp: Qp<Reset>,
    psn: Psn,
    av: AddressVector,
    peer: &Number,
    takes: u8,
    selective: bool,
) -> Result<Link, Failure> {
    let can = card.context.capabilities();
    let (reliable, connected) = (service == Service::Rc, service != Service::Ud);
    let access = match reliable {
        true => rights(card).without(AccessFlags::LOCAL_WRITE),
        false => AccessFlags::REMOTE_WRITE,
    };
    let init = InitAttributes::new()
        .access(connected.then_some(access))
        .pkey(0xffff)
        .qkey((!connected).then_some(QKEY));
    let rtr = RtrAttributes::new()
        .av(connected.then_some(av))
        .path_mtu(connected.then_some(mtu))
        .dest_qpn(connected.then_some(peer.qpn))
        .rq_psn(connected.then(|| Psn::new(peer.psn)))
        .max_dest_rd_atomic(reliable.then_some(can.max_dest_rd_atomic))
        .min_rnr_timer(reliable.then_some(12))
        .selective((reliable && selective).then_some(true));
    let rts = RtsAttributes::new()
        .sq_psn(psn)
        .timeout(reliable.then_some(wish.timeout))
        .retry_cnt(reliable.then_some(wish.retry))
        .rnr_retry(reliable.then_some(7))
        .max_rd_atomic(reliable.then_some(wish.outstanding.min(can.max_rd_atomic).min(takes)));
    let to = match connected {
        true => None,
        false => Some((card.pd.create_ah(&av)?, peer.qpn)),
    };
    let qp = qp.init(init).map_err(ferrowire::Error::from)?;
    let qp = qp.rtr(rtr).map_err(ferrowire::Error::from)?;
    let qp = qp.rts(rts).map_err(ferrowire::Error::from)?;
    Ok(Link { qp, to })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What a command without `--selective` sends.
    fn old() -> serde_json::Value {
        json!({
            "mac": [2, 254, 0, 0, 0, 1], "ip": "10.0.0.1", "qps": [{ "qpn": 5, "psn": 6 }], "takes": 16, "va": 4096, "rkey": 7, "bytes": 64
        })
    }

    fn naming(selective: u8) -> Address {
        Address { selective, ..serde_json::from_value(old()).unwrap() }
    }

    #[test]
    fn ends_agree_on_selective_retransmission_if_both_name_the_same_version() {
        assert_eq!(
            [(true, true), (true, false), (false, true)].map(|(wish, card)| version(wish, card)),
            [1, 0, 0]
        );
        for (own, peer, agreed) in [(1, 1, true), (1, 0, false), (0, 1, false), (0, 0, false), (1, 2, false)]
        {
            assert_eq!(naming(own).is_selective_with(&naming(peer)), agreed, "{own} and {peer}");
        }
    }

    #[test]
    fn a_peer_that_does_not_know_selective_retransmission_is_understood_and_understands() {
        let address: Address = serde_json::from_value(old()).unwrap();
        assert_eq!(address.selective, 0);
        let wish = json!({
            "service": "RC", "qps": 1, "mtu": 1024, "send_wr": 1, "recv_wr": 1, "inline": 0, "outstanding": 0, "timeout": 14, "retry": 7
        });
        let wish: Wish = serde_json::from_value(wish).unwrap();
        assert!(!wish.selective && !wish.push);
        // It passes over fields that it does not know.
        let mut new = serde_json::to_value(naming(1)).unwrap();
        new["later"] = json!(1);
        assert!(serde_json::from_value::<Address>(new).is_ok());
    }
}
