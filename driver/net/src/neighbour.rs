// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Neighbours`]: which MAC address an IP address of the link has: ARP (RFC 826) and neighbour discovery (RFC 4861, 7.2).
//!
//! The IP stack has a table of its own, which it shows nobody and fills once a second at most. This one asks as often as told, and hears what that one
//! hears: both learn from the same answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv6Packet,
    Icmpv6Repr, IpProtocol, Ipv6Packet, Ipv6Repr, NdiscRepr,
};

/// How long an answer holds.
const LIFETIME: Duration = Duration::from_secs(60);

/// Neighbours that are kept; the one that was heard of longest ago goes.
const LIMIT: usize = 1024;

/// What is known of neighbours.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    known: BTreeMap<IpAddr, ([u8; 6], Duration)>,
}

impl Neighbours {
    /// The address, if it was heard of lately; by a clock that is so many times as slow.
    pub(crate) fn lookup(&self, ip: IpAddr, now: Duration, slowness: u32) -> Option<[u8; 6]> {
        let lifetime = LIFETIME / slowness;
        self.known.get(&ip).filter(|(_, heard)| now < *heard + lifetime).map(|(mac, _)| *mac)
    }

    /// Learns from a frame to this port.
    pub(crate) fn hear(&mut self, frame: &[u8], own: &[IpAddr], now: Duration) {
        let Some((ip, mac)) = heard(frame, own) else { return };
        if self.known.len() >= LIMIT && !self.known.contains_key(&ip) {
            let oldest = self.known.iter().min_by_key(|(_, (_, heard))| *heard).map(|(ip, _)| *ip);
            oldest.map(|ip| self.known.remove(&ip));
        }
        self.known.insert(ip, (mac, now));
    }
}

/// Neighbours that are asked for at once. Others are asked for later: a peer with many addresses that nobody has costs no more than that.
const QUESTIONS: usize = 1024;

/// Which neighbours were asked for lately.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    asked: BTreeSet<IpAddr>,
    /// The same, by time.
    order: VecDeque<(Duration, IpAddr)>,
}

impl Questions {
    /// Whether to ask for one: it was not asked for within `pause`.
    pub(crate) fn may_ask(&mut self, ip: IpAddr, now: Duration, pause: Duration) -> bool {
        while let Some((_, ip)) = self.order.front().copied().filter(|(asked, _)| now >= *asked + pause) {
            self.order.pop_front();
            self.asked.remove(&ip);
        }
        self.asked.len() < QUESTIONS && !self.asked.contains(&ip)
    }

    /// It was asked for.
    pub(crate) fn asked(&mut self, ip: IpAddr, now: Duration) {
        if self.asked.insert(ip) {
            self.order.push_back((now, ip));
        }
    }
}

/// What a frame says about its sender, if it is an ARP packet or a neighbour's message to one of these addresses.
fn heard(frame: &[u8], own: &[IpAddr]) -> Option<(IpAddr, [u8; 6])> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    let (ip, mac): (IpAddr, _) = match frame.ethertype() {
        EthernetProtocol::Arp => {
            let arp = ArpRepr::parse(&ArpPacket::new_checked(frame.payload()).ok()?).ok()?;
            let ArpRepr::EthernetIpv4 {
                source_hardware_addr,
                source_protocol_addr,
                target_protocol_addr,
                ..
            } = arp
            else {
                return None;
            };
            own.contains(&target_protocol_addr.into()).then_some(())?;
            (source_protocol_addr.into(), source_hardware_addr)
        }
        EthernetProtocol::Ipv6 => {
            let packet = Ipv6Packet::new_checked(frame.payload()).ok()?;
            let ip = Ipv6Repr::parse(&packet).ok()?;
            // Only neighbours can send the greatest hop limit (RFC 4861, 7.1).
            (ip.next_header == IpProtocol::Icmpv6 && ip.hop_limit == 255).then_some(())?;
            let icmp = Icmpv6Packet::new_checked(packet.payload()).ok()?;
            let checksums = ChecksumCapabilities::default();
            match Icmpv6Repr::parse(&ip.src_addr, &ip.dst_addr, &icmp, &checksums).ok()? {
                Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { target_addr, lladdr, .. }) => {
                    own.contains(&ip.dst_addr.into()).then_some(())?;
                    (target_addr.into(), ethernet(lladdr?.as_bytes())?)
                }
                Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, lladdr }) => {
                    own.contains(&target_addr.into()).then_some(())?;
                    (ip.src_addr.into(), ethernet(lladdr?.as_bytes())?)
                }
                _ => return None,
            }
        }
        _ => return None,
    };
    (mac.is_unicast() && !ip.is_multicast() && !ip.is_unspecified()).then_some((ip, mac.0))
}

fn ethernet(bytes: &[u8]) -> Option<EthernetAddress> {
    bytes.first_chunk().map(|mac| EthernetAddress(*mac))
}

/// The frame that asks everybody for the MAC address of `ip`. Both addresses are of one family.
pub(crate) fn question(mac: [u8; 6], own: IpAddr, ip: IpAddr) -> Vec<u8> {
    match (own, ip) {
        (IpAddr::V4(own), IpAddr::V4(ip)) => arp(mac, own, ip),
        (IpAddr::V6(own), IpAddr::V6(ip)) => solicitation(mac, own, ip),
        _ => unreachable!("addresses of two families: {own}, {ip}"),
    }
}

fn ethernet_frame(
    src: [u8; 6],
    dst: EthernetAddress,
    ethertype: EthernetProtocol,
    payload: usize,
) -> Vec<u8> {
    let mut bytes = vec![0; EthernetFrame::<&[u8]>::buffer_len(payload)];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    frame.set_src_addr(EthernetAddress(src));
    frame.set_dst_addr(dst);
    frame.set_ethertype(ethertype);
    bytes
}

fn arp(mac: [u8; 6], own: Ipv4Addr, ip: Ipv4Addr) -> Vec<u8> {
    let arp = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: EthernetAddress(mac),
        source_protocol_addr: own,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: ip,
    };
    let mut bytes = ethernet_frame(mac, EthernetAddress::BROADCAST, EthernetProtocol::Arp, arp.buffer_len());
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    arp.emit(&mut ArpPacket::new_unchecked(frame.payload_mut()));
    bytes
}

fn solicitation(mac: [u8; 6], own: Ipv6Addr, ip: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c] = ip.octets();
    // The solicited-node group, and its MAC address (RFC 4291, 2.7.1; RFC 2464, 7).
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    let solicit = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit {
        target_addr: ip,
        lladdr: Some(EthernetAddress(mac).into()),
    });
    let repr = Ipv6Repr {
        src_addr: own,
        dst_addr: group,
        next_header: IpProtocol::Icmpv6,
        payload_len: solicit.buffer_len(),
        hop_limit: 255,
    };
    let to = EthernetAddress([0x33, 0x33, 0xff, a, b, c]);
    let mut bytes = ethernet_frame(mac, to, EthernetProtocol::Ipv6, repr.buffer_len() + solicit.buffer_len());
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    let mut packet = Ipv6Packet::new_unchecked(frame.payload_mut());
    repr.emit(&mut packet);
    let mut icmp = Icmpv6Packet::new_unchecked(packet.payload_mut());
    solicit.emit(&own, &group, &mut icmp, &ChecksumCapabilities::default());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_is_asked_for_once_in_a_while_and_not_too_many_at_once() {
        let (mut questions, pause) = (Questions::default(), Duration::from_millis(500));
        let ip = |n: u32| IpAddr::from(Ipv4Addr::from(n));
        let mut ask = |n, now| {
            let may = questions.may_ask(ip(n), now, pause);
            if may {
                questions.asked(ip(n), now);
            }
            may
        };
        assert!(ask(1, Duration::ZERO));
        assert!(!ask(1, pause / 2));
        let count = (2..5000).filter(|n| ask(*n, pause / 2)).count();
        assert_eq!(count, QUESTIONS - 1);
        // The first may be asked for again, and the others have to wait.
        assert!(ask(1, pause) && !ask(2, pause) && !ask(5000, pause));
        assert!(ask(2, pause * 2) && ask(5000, pause * 2));
    }
}
