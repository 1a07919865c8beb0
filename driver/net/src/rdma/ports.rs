// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Ports`]: which identifier has which port of which address.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use crate::error::{Error, Result};
use crate::mad::PortSpace;

/// Ports that the system chooses from: as Linux, `ip_local_port_range`.
const DYNAMIC: RangeInclusive<u16> = 32_768..=60_999;

/// An identifier's claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    pub(super) key: u64,
    /// May be the unspecified one: every address of the family.
    pub(super) ip: IpAddr,
    /// `::` does not stand for IPv4 addresses too.
    pub(super) only_family: bool,
    /// Another identifier may have the same, if it says so, too.
    pub(super) reuse: bool,
    pub(super) listening: bool,
}

impl Claim {
    /// Whether requests to an address are meant.
    fn covers(&self, ip: IpAddr) -> bool {
        match (self.ip, ip) {
            _ if self.ip == ip => true,
            (IpAddr::V4(own), IpAddr::V4(_)) => own.is_unspecified(),
            (IpAddr::V6(own), IpAddr::V6(_)) => own.is_unspecified(),
            (IpAddr::V6(own), IpAddr::V4(_)) => own.is_unspecified() && !self.only_family,
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }

    fn overlaps(&self, other: &Claim) -> bool {
        self.covers(other.ip) || other.covers(self.ip)
    }
}

/// The claims.
#[derive(Debug, Default)]
pub(super) struct Ports(BTreeMap<(PortSpace, u16), Vec<Claim>>);

impl Ports {
    fn at(&self, space: PortSpace, port: u16) -> &[Claim] {
        self.0.get(&(space, port)).map_or(&[], Vec::as_slice)
    }

    /// Takes a port, or a free one for 0; `random` says where the search begins.
    pub(super) fn bind(&mut self, space: PortSpace, port: u16, claim: Claim, random: u32) -> Result<u16> {
        let port = match port {
            0 => {
                let (first, count) = (*DYNAMIC.start(), u32::from(*DYNAMIC.end() - *DYNAMIC.start()) + 1);
                let mut all = (0..count).map(|n| first + (random.wrapping_add(n) % count) as u16);
                all.find(|port| self.at(space, *port).is_empty()).ok_or(Error::NoPort(space))?
            }
            port => {
                let taken = |other: &&Claim| other.overlaps(&claim) && !(other.reuse && claim.reuse);
                if self.at(space, port).iter().any(|other| taken(&other)) {
                    return Err(Error::AddressInUse(SocketAddr::new(claim.ip, port)));
                }
                port
            }
        };
        self.0.entry((space, port)).or_default().push(claim);
        Ok(port)
    }

    /// A claim is shared from now on, or of its family alone, or not any more.
    pub(super) fn change(&mut self, space: PortSpace, port: u16, key: u64, reuse: bool, only_family: bool) {
        let claims = self.0.get_mut(&(space, port)).into_iter().flatten();
        for claim in claims.filter(|claim| claim.key == key) {
            (claim.reuse, claim.only_family) = (reuse, only_family);
        }
    }

    /// Takes requests to a claim, which no other one may share when it begins to.
    pub(super) fn listen(&mut self, space: PortSpace, port: u16, key: u64) -> Result<()> {
        let claims = self.0.entry((space, port)).or_default();
        let Some(at) = claims.iter().position(|claim| claim.key == key) else { return Ok(()) };
        let own = claims[at];
        // Again, for another backlog: one that shares the port since then does not take it away.
        if own.listening {
            return Ok(());
        }
        if claims.iter().any(|other| other.key != key && other.overlaps(&own)) {
            return Err(Error::AddressInUse(SocketAddr::new(own.ip, port)));
        }
        claims[at].listening = true;
        Ok(())
    }

    /// Gives a port back. Whether requests to it were taken, and are no more.
    pub(super) fn release(&mut self, space: PortSpace, port: u16, key: u64) -> bool {
        let Some(claims) = self.0.get_mut(&(space, port)) else { return false };
        let listened = |claims: &[Claim]| claims.iter().any(|claim| claim.listening);
        let before = listened(claims);
        claims.retain(|claim| claim.key != key);
        let after = listened(claims);
        if claims.is_empty() {
            self.0.remove(&(space, port));
        }
        before && !after
    }

    /// The listener of a request: the identifier with that very address, or with all.
    pub(super) fn listener(&self, space: PortSpace, port: u16, ip: IpAddr) -> Option<u64> {
        let mut all = self.at(space, port).iter().filter(|claim| claim.listening);
        let exact = all.clone().find(|claim| claim.ip == ip);
        exact.or_else(|| all.find(|claim| claim.covers(ip))).map(|claim| claim.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: PortSpace = PortSpace::Tcp;

    fn claim(key: u64, ip: &str) -> Claim {
        Claim { key, ip: ip.parse().unwrap(), only_family: false, reuse: false, listening: false }
    }

    #[test]
    fn an_address_and_port_is_one_identifiers_and_the_unspecified_address_is_all() {
        let conflicts = [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("0.0.0.0", "10.0.0.2", true),
            ("10.0.0.2", "0.0.0.0", true),
            ("0.0.0.0", "0.0.0.0", true),
            ("0.0.0.0", "fd00::1", false),
            ("::", "10.0.0.1", true),
            ("::", "fd00::1", true),
            ("0.0.0.0", "::", true),
        ];
        for (first, second, conflict) in conflicts {
            let mut ports = Ports::default();
            assert_eq!(ports.bind(TCP, 7174, claim(1, first), 0).unwrap(), 7174);
            assert_eq!(ports.bind(TCP, 7174, claim(2, second), 0).is_err(), conflict, "{first} {second}");
            // Other spaces and other ports are others.
            ports.bind(PortSpace::Udp, 7174, claim(3, second), 0).unwrap();
            ports.bind(TCP, 7175, claim(4, second), 0).unwrap();
            assert!(!ports.release(TCP, 7174, 1));
            assert_eq!(ports.bind(TCP, 7174, claim(5, second), 0).is_err(), !conflict);
        }
    }

    #[test]
    fn a_family_alone_leaves_the_other_one_free() {
        let mut ports = Ports::default();
        ports.bind(TCP, 1, Claim { only_family: true, ..claim(1, "::") }, 0).unwrap();
        ports.bind(TCP, 1, claim(2, "0.0.0.0"), 0).unwrap();
        for key in [1, 2] {
            ports.listen(TCP, 1, key).unwrap();
        }
        assert_eq!(ports.listener(TCP, 1, "10.0.0.1".parse().unwrap()), Some(2));
        assert_eq!(ports.listener(TCP, 1, "fd00::1".parse().unwrap()), Some(1));
    }

    #[test]
    fn a_port_may_be_shared_and_one_of_those_that_share_it_listens() {
        let mut ports = Ports::default();
        let shared = |key| Claim { reuse: true, ..claim(key, "10.0.0.1") };
        ports.bind(TCP, 1, shared(1), 0).unwrap();
        assert!(ports.bind(TCP, 1, claim(2, "10.0.0.1"), 0).is_err());
        ports.bind(TCP, 1, shared(2), 0).unwrap();
        assert!(ports.listen(TCP, 1, 1).is_err());
        assert!(!ports.release(TCP, 1, 2));
        ports.listen(TCP, 1, 1).unwrap();
        // Another one may bind after that, as on Linux, and does not listen.
        ports.bind(TCP, 1, shared(3), 0).unwrap();
        ports.listen(TCP, 1, 1).unwrap();
        assert!(ports.listen(TCP, 1, 3).is_err());
        assert_eq!(ports.listener(TCP, 1, "10.0.0.1".parse().unwrap()), Some(1));
        assert!(!ports.release(TCP, 1, 3));
        assert!(ports.release(TCP, 1, 1));
    }

    #[test]
    fn a_request_goes_to_the_listener_of_its_address_and_else_to_that_of_all() {
        let mut ports = Ports::default();
        for (key, ip) in [(1, "10.0.0.1"), (2, "10.0.0.2"), (3, "fd00::1")] {
            ports.bind(TCP, 7, claim(key, ip), 0).unwrap();
            assert_eq!(ports.listener(TCP, 7, ip.parse().unwrap()), None, "it does not listen yet");
            ports.listen(TCP, 7, key).unwrap();
            assert_eq!(ports.listener(TCP, 7, ip.parse().unwrap()), Some(key));
        }
        assert_eq!(ports.listener(TCP, 7, "10.0.0.3".parse().unwrap()), None);
        ports.bind(TCP, 8, claim(4, "::"), 0).unwrap();
        ports.listen(TCP, 8, 4).unwrap();
        for ip in ["10.0.0.3", "fd00::3"] {
            assert_eq!(ports.listener(TCP, 8, ip.parse().unwrap()), Some(4));
        }
    }

    #[test]
    fn the_system_chooses_a_free_port_until_there_is_none() {
        let mut ports = Ports::default();
        ports.bind(TCP, 32_768, claim(0, "10.0.0.1"), 0).unwrap();
        let all = u32::from(DYNAMIC.end() - DYNAMIC.start()) + 1;
        assert_eq!(ports.bind(TCP, 0, claim(1, "10.0.0.1"), 0).unwrap(), 32_769);
        assert_eq!(ports.bind(TCP, 0, claim(2, "10.0.0.1"), all - 1).unwrap(), 60_999);
        for key in 3..u64::from(all) {
            let port = ports.bind(TCP, 0, claim(key, "10.0.0.1"), key as u32).unwrap();
            assert!(DYNAMIC.contains(&port));
        }
        assert!(matches!(ports.bind(TCP, 0, claim(0, "fd00::1"), 0), Err(Error::NoPort(TCP))));
        ports.bind(PortSpace::Ipoib, 0, claim(0, "fd00::1"), 0).unwrap();
    }
}
