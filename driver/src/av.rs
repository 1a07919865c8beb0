// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`AddressVector`]: the way to a peer.

use std::net::IpAddr;

use ferrowire_spec::queue::command::set_av::SetAv;
use ferrowire_spec::wire::eth::mac_number;

use crate::error::{Error, Result};

/// What to do about an IPv6 address that the card cannot use.
pub(crate) const IPV4_ONLY: &str = "the card has IPv4 only";

/// The same of a VLAN.
pub(crate) const NO_TAGS: &str = "the card has no VLAN tags; leave it out";

/// The way to a peer: addresses of Ethernet and IP, and what else stands in these headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressVector {
    /// MAC address of the next hop.
    pub dst_mac: [u8; 6],
    /// MAC address to send from: the port's, see [`Context::set_mac`](crate::Context::set_mac).
    pub src_mac: [u8; 6],
    /// Address of the peer.
    pub dst_ip: IpAddr,
    /// Own address, of the same family: one of the port's in that VLAN, see [`Context::add_gid`](crate::Context::add_gid).
    pub src_ip: IpAddr,
    /// IPv4 type of service or IPv6 traffic class.
    pub traffic_class: u8,
    /// IPv4 time to live or IPv6 hop limit.
    pub hop_limit: u8,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// Tag control information of the VLAN, if there is one.
    pub vlan: Option<u16>,
}

impl AddressVector {
    /// From `src` to `dst`, without VLAN; hop limit 64.
    pub fn new(src_mac: [u8; 6], src_ip: IpAddr, dst_mac: [u8; 6], dst_ip: IpAddr) -> Self {
        let hop_limit = SetAv::default().hop_limit;
        Self { dst_mac, src_mac, dst_ip, src_ip, traffic_class: 0, hop_limit, flow_label: 0, vlan: None }
    }

    /// As `SET_AV` takes it; `sgid_index`: where `src_ip` is among the port's GIDs.
    pub(crate) fn command(&self, token: u16, object: u32, sgid_index: u8) -> SetAv {
        SetAv {
            token,
            object,
            dst_mac: mac_number(self.dst_mac),
            src_mac: mac_number(self.src_mac),
            vlan_tci: self.vlan.unwrap_or(0),
            vlan: self.vlan.is_some(),
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            flow_label: self.flow_label,
            ipv6: self.dst_ip.is_ipv6(),
            dst_ip: ip(self.dst_ip),
            src_ip: ip(self.src_ip),
            sgid_index,
            ..SetAv::default()
        }
    }

    pub(crate) fn check(&self, ipv6: bool, vlan: bool) -> Result<()> {
        let refuse = |attribute, value: u64, fix: &str| {
            Err(Error::Attribute { operation: "set address vector", attribute, value, fix: fix.into() })
        };
        if self.dst_ip.is_ipv6() != self.src_ip.is_ipv6() {
            return refuse("src_ip", 0, "take an address of the peer's family");
        }
        if self.dst_ip.is_ipv6() && !ipv6 {
            return refuse("dst_ip", 6, IPV4_ONLY);
        }
        if let Some(vlan_tci) = self.vlan.filter(|_| !vlan) {
            return refuse("vlan_tci", vlan_tci.into(), NO_TAGS);
        }
        Ok(())
    }
}

pub(crate) fn ip(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}
