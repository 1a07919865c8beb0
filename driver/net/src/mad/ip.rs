// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the RDMA IP CM service (IBTA annex A11) says in these messages: ports and addresses.

use std::net::{IpAddr, Ipv4Addr};

use super::get;

/// Port space of the RDMA IP CM service (IBTA A11.2). The numbers are those of `RDMA_PS_TCP` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortSpace {
    /// Datagrams, for IP over InfiniBand.
    Ipoib = 0x0002,
    /// Connections.
    Tcp = 0x0106,
    /// Datagrams.
    Udp = 0x0111,
    /// Connections, as InfiniBand counts services.
    Ib = 0x013f,
}

impl PortSpace {
    /// All of them.
    pub const ALL: [PortSpace; 4] = [PortSpace::Ipoib, PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib];

    /// Whether its services are asked for by SIDR, and not by REQ.
    pub fn is_datagram(self) -> bool {
        matches!(self, PortSpace::Ipoib | PortSpace::Udp)
    }

    /// The service at a port.
    pub fn service_id(self, port: u16) -> u64 {
        (self as u64) << 16 | u64::from(port)
    }

    /// Port space and port of a service. `None`: it is not one of the RDMA IP CM service.
    pub fn of_service_id(service_id: u64) -> Option<(Self, u16)> {
        let space = Self::ALL.into_iter().find(|space| *space as u64 == service_id >> 16)?;
        Some((space, service_id as u16))
    }
}

/// An IP address as a GID (IBTA A17.4.3): IPv4 as an IPv4-mapped one.
pub fn gid(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

/// The IP address of a GID.
pub fn gid_ip(gid: u128) -> IpAddr {
    std::net::Ipv6Addr::from(gid).to_canonical()
}

/// The IP addresses of a request: the first 36 bytes of the private data of a REQ or SIDR_REQ of the RDMA IP CM service (IBTA A11.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpCm {
    /// Port of the asker.
    pub source_port: u16,
    /// Address of the asker.
    pub source: IpAddr,
    /// Address of the asked side.
    pub destination: IpAddr,
}

impl IpCm {
    /// Bytes of it.
    pub const BYTES: usize = 36;

    /// As bytes. Both addresses must be of one family.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[1] = if self.source.is_ipv6() { 0x60 } else { 0x40 };
        bytes[2..4].copy_from_slice(&self.source_port.to_be_bytes());
        for (at, ip) in [(4, self.source), (20, self.destination)] {
            match ip {
                IpAddr::V4(ip) => bytes[at + 12..at + 16].copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) => bytes[at..at + 16].copy_from_slice(&ip.octets()),
            }
        }
        bytes
    }

    /// From private data; `None`: it is of another version, or too short.
    pub fn parse(private_data: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = private_data.first_chunk()?;
        let ip = |at: usize| match bytes[1] >> 4 {
            4 => Some(IpAddr::from(Ipv4Addr::from(get(bytes, 8 * (at + 12), 32) as u32))),
            6 => Some(IpAddr::from(get(bytes, 8 * at, 128).to_be_bytes())),
            _ => None,
        };
        // The major version is the upper half of the first byte.
        (bytes[0] >> 4 == 0).then_some(())?;
        let source_port = u16::from_be_bytes([bytes[2], bytes[3]]);
        Some(Self { source_port, source: ip(4)?, destination: ip(20)? })
    }
}
