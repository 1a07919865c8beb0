// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port's addresses: what comes to others is dropped.

use std::net::IpAddr;

use ferrowire_spec::csr::port::{self as csr, GidEntry, GIDS};
use ferrowire_spec::wire::eth::mac_number;
use ferrowire_spec::{Field, Register};

use crate::av::{self, AddressVector};
use crate::bus::{Bus, BusError};
use crate::context::{Context, Device};
use crate::error::{Error, Result};

/// The addresses as the card has them.
pub(crate) struct Port {
    mac: u64,
    promiscuous: bool,
    /// The register `raw`.
    pub(crate) raw: u32,
    gids: [Option<GidEntry>; GIDS as usize],
    salt: u16,
}

const SALT: Field = crate::csr::field(&csr::GID_SALT, "value");
const PROMISCUOUS: Field = crate::csr::field(&csr::LINK, "promiscuous");

impl Port {
    /// After a reset, which leaves the MAC address: a card may have one from the start.
    pub(crate) fn new(bus: &mut dyn Bus) -> Result<Self> {
        Ok(Self {
            mac: read_mac(bus)?,
            promiscuous: false,
            raw: 0,
            gids: [None; GIDS as usize],
            salt: SALT.reset as u16,
        })
    }

    fn find(&self, gid: &GidEntry) -> Option<usize> {
        self.gids.iter().position(|entry| entry.as_ref() == Some(gid))
    }

    /// Whether no two of these share a slot.
    fn fits(salt: u16, gids: &[Option<GidEntry>]) -> bool {
        let mut taken = [false; csr::GID_SLOTS as usize];
        gids.iter().flatten().all(|gid| !std::mem::replace(&mut taken[usize::from(gid.slot(salt))], true))
    }

    /// Which entry packets come to that answer this address vector's.
    pub(crate) fn gid_of(&self, av: &AddressVector) -> Result<u8> {
        let refuse = |attribute, value, fix: &str| {
            Err(Error::Attribute { operation: "set address vector", attribute, value, fix: fix.into() })
        };
        let mac = mac_number(av.src_mac);
        if mac != self.mac && !self.promiscuous {
            return refuse("src_mac", mac, "take the port's, which `set_mac` sets");
        }
        match self.find(&entry(av.src_ip, av.vlan)) {
            Some(index) => Ok(index as u8),
            None => {
                let vlan = av.vlan.unwrap_or(0).into();
                refuse("src_ip", vlan, "make it one of the port's, in that VLAN, with `add_gid`")
            }
        }
    }
}

/// An address in the VLAN of a tag; a tag of VLAN 0 is a priority alone.
fn entry(ip: IpAddr, vlan: Option<u16>) -> GidEntry {
    let vid = vlan.map(|tci| tci & 0xfff).filter(|vid| *vid != 0);
    GidEntry { ip: av::ip(ip), ipv6: ip.is_ipv6(), vid }
}

/// The MAC address that the card has, as a number whose high byte is sent first.
pub(crate) fn read_mac(bus: &mut dyn Bus) -> std::result::Result<u64, BusError> {
    let mut read = |register: &Register| bus.csr_read32(csr::BLOCK.address(register));
    Ok(u64::from(read(&csr::MAC_HI)? & 0xffff) << 32 | u64::from(read(&csr::MAC_LO)?))
}

fn write(bus: &mut dyn Bus, register: &Register, value: u32) -> std::result::Result<(), BusError> {
    bus.csr_write32(csr::BLOCK.address(register), value)
}

/// Puts an entry into the table, or takes it out.
fn put(
    bus: &mut dyn Bus,
    index: usize,
    gid: &GidEntry,
    salt: u16,
    valid: bool,
) -> std::result::Result<(), BusError> {
    const INDEX: Field = crate::csr::field(&csr::GID_WRITE, "index");
    const SLOT: Field = crate::csr::field(&csr::GID_WRITE, "slot");
    const VALID: Field = crate::csr::field(&csr::GID_WRITE, "valid");
    let words = [&csr::GID_IP0, &csr::GID_IP1, &csr::GID_IP2, &csr::GID_IP3];
    for (i, register) in words.into_iter().enumerate() {
        write(bus, register, (gid.ip >> (32 * i)) as u32)?;
    }
    write(bus, &csr::GID_KIND, gid.kind())?;
    let place = crate::csr::put(&INDEX, index as u32) | crate::csr::put(&SLOT, gid.slot(salt).into());
    write(bus, &csr::GID_WRITE, place | crate::csr::put(&VALID, valid.into()))
}

impl Device {
    /// What an address vector needs of the port.
    pub(crate) fn gid_of(&self, av: &AddressVector) -> Result<u8> {
        self.tables(|t| t.port.gid_of(av))
    }
}

impl Context {
    /// The port's MAC address: the last that was set, or the one that the card had before; zeros without any.
    pub fn mac(&self) -> [u8; 6] {
        let [_, _, mac @ ..] = self.device.tables(|t| t.port.mac).to_be_bytes();
        mac
    }

    /// The port's GIDs, each with its VLAN, in the order of the card's table: what [`add_gid`](Self::add_gid) has put there.
    pub fn gids(&self) -> Vec<(IpAddr, Option<u16>)> {
        let ip = |gid: &GidEntry| match gid.ipv6 {
            true => IpAddr::from(gid.ip.to_be_bytes()),
            false => IpAddr::from((gid.ip as u32).to_be_bytes()),
        };
        self.device.tables(|t| t.port.gids.iter().flatten().map(|gid| (ip(gid), gid.vid)).collect())
    }

    /// Sets the port's MAC address: frames to others are dropped.
    ///
    /// # Errors
    /// It is zero or a group's; the bus failed.
    pub fn set_mac(&self, mac: [u8; 6]) -> Result<()> {
        let number = mac_number(mac);
        if number == 0 || mac[0] & 1 == 1 {
            return Err(Error::Attribute {
                operation: "set MAC address",
                attribute: "mac",
                value: number,
                fix: "take an address of a single station".into(),
            });
        }
        self.device.tables(|t| {
            self.device.bus.with(|bus| {
                write(bus, &csr::MAC_LO, number as u32)?;
                write(bus, &csr::MAC_HI, (number >> 32) as u32)
            })?;
            t.port.mac = number;
            Ok(())
        })
    }

    /// Takes frames whatever their MAC address, or no longer so.
    ///
    /// # Errors
    /// The bus failed.
    pub fn set_promiscuous(&self, promiscuous: bool) -> Result<()> {
        self.device.tables(|t| {
            let value = crate::csr::put(&PROMISCUOUS, promiscuous.into());
            self.device.bus.with(|bus| write(bus, &csr::LINK, value))?;
            t.port.promiscuous = promiscuous;
            Ok(())
        })
    }

    /// Makes an IP address one of the port's GIDs (IBTA A17.4.3), in a VLAN or in none: packets to others are dropped, and address
    /// vectors send from these. Of `vlan`, a tag's control information, only the VLAN counts. What is there already stays.
    ///
    /// # Errors
    /// `NoResource` when the table is full, `Attribute` for IPv6 or a VLAN where the card has none, or when the addresses do not fit the table together; the bus failed.
    pub fn add_gid(&self, ip: IpAddr, vlan: Option<u16>) -> Result<()> {
        const OPERATION: &str = "add GID";
        let can = self.capabilities();
        let refuse = |attribute, value, fix: &str| {
            Err(Error::Attribute { operation: OPERATION, attribute, value, fix: fix.into() })
        };
        if ip.is_ipv6() && !can.ipv6 {
            return refuse("ip", 6, av::IPV4_ONLY);
        }
        if let Some(tci) = vlan.filter(|_| !can.vlan) {
            return refuse("vlan", tci.into(), av::NO_TAGS);
        }
        let new = entry(ip, vlan);
        self.device.tables(|t| {
            let port = &mut t.port;
            if port.find(&new).is_some() {
                return Ok(());
            }
            let limit = GIDS.into();
            let Some(index) = port.gids.iter().position(Option::is_none) else {
                return Err(Error::NoResource { operation: OPERATION, what: "GIDs", limit });
            };
            let mut gids = port.gids;
            gids[index] = Some(new);
            if Port::fits(port.salt, &gids) {
                self.device.bus.with(|bus| put(bus, index, &new, port.salt, true))?;
                port.gids = gids;
                return Ok(());
            }
            // Two addresses share a slot: all get others.
            let Some(salt) = (1..=u16::MAX).step_by(2).find(|salt| Port::fits(*salt, &gids)) else {
                return Err(Error::Attribute {
                    operation: OPERATION,
                    attribute: "ip",
                    value: new.slot(port.salt).into(),
                    fix: "take out another address".into(),
                });
            };
            self.device.bus.with(|bus| {
                for (i, gid) in port.gids.iter().enumerate() {
                    gid.as_ref().map_or(Ok(()), |gid| put(bus, i, gid, port.salt, false))?;
                }
                write(bus, &csr::GID_SALT, salt.into())?;
                for (i, gid) in gids.iter().enumerate() {
                    gid.as_ref().map_or(Ok(()), |gid| put(bus, i, gid, salt, true))?;
                }
                Ok::<_, BusError>(())
            })?;
            (port.gids, port.salt) = (gids, salt);
            Ok(())
        })
    }

    /// Takes an address out of the port's GIDs; one that is not there is no matter. Queue pairs that have it receive nothing any more,
    /// so destroy them before: the place may become another address's.
    ///
    /// # Errors
    /// The bus failed.
    pub fn remove_gid(&self, ip: IpAddr, vlan: Option<u16>) -> Result<()> {
        let old = entry(ip, vlan);
        self.device.tables(|t| {
            if let Some(index) = t.port.find(&old) {
                self.device.bus.with(|bus| put(bus, index, &old, t.port.salt, false))?;
                t.port.gids[index] = None;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_neighbours_and_their_vlans_find_a_salt() {
        for vids in [1, 2, 4] {
            let mut gids = [None; GIDS as usize];
            for (i, gid) in gids.iter_mut().enumerate() {
                let host = (i / vids) as u8;
                let vlan = (i % vids != 0).then_some((i % vids) as u16);
                *gid = Some(entry([192, 168, 1, host].into(), vlan));
            }
            assert!((1..=u16::MAX).step_by(2).any(|salt| Port::fits(salt, &gids)), "{vids}");
        }
    }
}
