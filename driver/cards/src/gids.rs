// SPDX-License-Identifier: MIT OR Apache-2.0
//! IP addresses of a card.
//!
//! A card has its table of GIDs for one program: each reset empties it, and it cannot be read (`GID_WRITE`). So what is to last is kept in a file
//! of the user, and each program that opens the card puts it into the table.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use crate::Place;

/// Why the file of addresses cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The environment names no folder.
    #[error("gids: there is no folder for settings; set HOME or XDG_CONFIG_HOME")]
    NoFolder,
    /// The system refused to read it.
    #[error("read {}: {source}; make it readable", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system refused to write it.
    #[error("write {}: {source}; make its folder writable", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It holds something else.
    #[error("{}: {source}; repair the file, or remove it", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// Addresses that were added, by [`key`].
pub type Kept = BTreeMap<String, Vec<IpAddr>>;

/// An EUI-64 of a MAC address, as RoCE makes GUIDs; zeros without one.
pub fn guid(mac: [u8; 6]) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac;
    if mac == [0; 6] {
        [0; 8]
    } else {
        [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
    }
}

/// The link-local address that a port has by its MAC address (RFC 4291, appendix A); `None` without one.
pub fn link_local(mac: [u8; 6]) -> Option<IpAddr> {
    let id = u64::from_be_bytes(guid(mac));
    (mac != [0; 6]).then(|| Ipv6Addr::from(0xfe80 << 112 | u128::from(id)).into())
}

/// The MAC address that [`link_local`] was made of; `None` for any other address.
pub fn link_local_mac(ip: Ipv6Addr) -> Option<[u8; 6]> {
    let [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, 0xff, 0xfe, d, e, f] = ip.octets() else { return None };
    Some([a ^ 2, b, c, d, e, f])
}

/// An address as a GID is written: eight groups of four digits (IBTA A17.4.3; IPv4 as ::ffff:a.b.c.d).
pub fn as_gid(address: IpAddr) -> String {
    as_v6(address).segments().map(|group| format!("{group:04x}")).join(":")
}

/// The address whose 16 bytes a GID has: IPv4 is mapped (IBTA A17.4.3).
pub fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn file() -> Result<PathBuf, Error> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    Ok(folder.ok_or(Error::NoFolder)?.join("ferrowire").join("gids.json"))
}

/// What the file holds.
///
/// # Errors
/// It cannot be read, or holds something else. A file that is not there is empty.
pub fn load() -> Result<Kept, Error> {
    let path = file()?;
    match std::fs::read_to_string(&path) {
        Ok(text) => parse(&text).map_err(|source| Error::Format { path, source }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Kept::new()),
        Err(source) => Err(Error::Read { path, source }),
    }
}

fn parse(text: &str) -> Result<Kept, serde_json::Error> {
    serde_json::from_str(text)
}

/// Writes the file, whole or not at all.
///
/// # Errors
/// The system refuses.
pub fn store(kept: &Kept) -> Result<(), Error> {
    let path = file()?;
    let written = || -> Result<(), std::io::Error> {
        let text = serde_json::to_string_pretty(kept)?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let new = path.with_extension(format!("{}.new", std::process::id()));
        std::fs::write(&new, text + "\n")?;
        std::fs::rename(&new, &path)
    };
    written().map_err(|source| Error::Write { path: path.clone(), source })
}

/// The name that a card has in the file: the same from every folder.
pub fn key(place: &Place) -> String {
    match place.clone().absolute() {
        // Whatever its rate.
        Place::Serial(path, _) => format!("serial:{}", path.display()),
        other => other.to_string(),
    }
}

/// The addresses of a card with this MAC address: that of the MAC address, those that its owner has given it, and those of the file.
/// `key` is the card's name in the file.
///
/// # Errors
/// The file cannot be used.
pub fn of(key: &str, mac: [u8; 6], given: Vec<IpAddr>, ipv6: bool) -> Result<Vec<IpAddr>, Error> {
    let kept = load()?.remove(key).unwrap_or_default();
    Ok(merged(mac, given, kept, ipv6))
}

/// The same, of what the file holds.
pub fn merged(mac: [u8; 6], given: Vec<IpAddr>, kept: Vec<IpAddr>, ipv6: bool) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = link_local(mac).filter(|_| ipv6).into_iter().collect();
    let given = given.into_iter().filter(|address| ipv6 || address.is_ipv4());
    for address in given.chain(kept) {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [0x02, 0xfe, 0, 0, 0, 0x2a];

    #[test]
    fn the_first_gid_is_the_one_that_linux_makes() {
        let address = link_local(MAC).unwrap();
        assert_eq!(address.to_string(), "fe80::fe:ff:fe00:2a");
        assert_eq!(as_gid(address), "fe80:0000:0000:0000:00fe:00ff:fe00:002a");
        assert_eq!(as_gid([10, 0, 0, 1].into()), "0000:0000:0000:0000:0000:ffff:0a00:0001");
        assert_eq!(link_local([0; 6]), None);
    }

    #[test]
    fn a_link_local_address_gives_its_mac_address_back() {
        assert_eq!(link_local_mac(as_v6(link_local(MAC).unwrap())), Some(MAC));
        for other in ["fe80::1", "fd00::fe:ff:fe00:2a", "::ffff:10.0.0.1"] {
            assert_eq!(link_local_mac(other.parse().unwrap()), None, "{other}");
        }
    }

    #[test]
    fn addresses_come_once_and_in_order() {
        let v4 = |last| IpAddr::from([10, 0, 0, last]);
        let v6: IpAddr = "fd00::1".parse().unwrap();
        let all = merged(MAC, vec![v4(1), v6], vec![v4(2), v4(1)], true);
        assert_eq!(all, [link_local(MAC).unwrap(), v4(1), v6, v4(2)]);
        assert_eq!(merged(MAC, vec![v4(1), v6], vec![v4(2)], false), [v4(1), v4(2)]);
    }

    #[test]
    fn the_file_is_a_table_of_addresses() {
        let kept = parse(r#"{"sim:/tmp/a.sock": ["10.0.0.1", "fd00::1"]}"#).unwrap();
        assert_eq!(kept["sim:/tmp/a.sock"].len(), 2);
        assert!(parse(r#"{"sim:/tmp/a.sock": ["ten"]}"#).is_err());
    }
}
