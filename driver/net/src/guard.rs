// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that the card's raw Ethernet queue pair does not send: RoCE, and what a receiver could take for it.
//!
//! The card puts the queue pair into an error state for such a frame, so frames of others are looked at before they are posted. The rule is that of the
//! card (host interface, raw Ethernet).

use ferrowire_spec::wire::{eth, ipv4, ipv6, udp};

/// VLAN tags that the card parses; a frame with more may be anything.
const TAGS: usize = 2;
/// Extension headers of IPv6 that it parses.
const EXTENSIONS: usize = 8;
/// EtherTypes of tags: of customers, of providers, and what came before the latter.
const TAG_TYPES: [u16; 3] = [eth::ethertype::VLAN, 0x88a8, 0x9100];
/// Extension headers of IPv6 that have their length in their second byte, in units of 8 bytes, less one (IANA's list).
const LONG: [u8; 6] = [0, 43, 60, 135, 139, 140];
/// That whose length is in units of 4 bytes, less two (RFC 4302, 2.2).
const AUTHENTICATION: u8 = 51;

/// Whether the card refuses to send a frame.
pub(crate) fn refuses(frame: &[u8]) -> bool {
    let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let is_tag = |at: &usize| word(*at).is_some_and(|word| TAG_TYPES.contains(&word));
    let mut places = (0..=TAGS).map(|tags| eth::BYTES - 2 + 4 * tags);
    let Some(at) = places.find(|at| !is_tag(at)) else { return true };
    let udp = match word(at) {
        Some(eth::ethertype::ROCE) => return true,
        Some(eth::ethertype::IPV4) => udp_of_ipv4(frame, at + 2),
        Some(eth::ethertype::IPV6) => match udp_of_ipv6(frame, at + 2) {
            Some(place) => place,
            None => return true,
        },
        _ => None,
    };
    udp.is_some_and(|at| word(at + 2) == Some(udp::ROCE_PORT))
}

/// Where the UDP header is, if there is one: a fragment that does not begin its packet has none (RFC 1858, 2.1).
fn udp_of_ipv4(frame: &[u8], at: usize) -> Option<usize> {
    let header = frame.get(at..at + 10)?;
    let length = 4 * usize::from(header[0] & 15);
    let sound = header[0] >> 4 == 4 && length >= ipv4::BYTES;
    let begins = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    (sound && begins && header[9] == ipv4::PROTOCOL_UDP).then_some(at + length)
}

/// The same of IPv6 (RFC 8200, 4); the outer `None`: it has more extension headers than the card parses.
fn udp_of_ipv6(frame: &[u8], start: usize) -> Option<Option<usize>> {
    let Some(mut next) = frame.get(start + 6).copied() else { return Some(None) };
    let mut at = start + ipv6::BYTES;
    for passed in 0..=EXTENSIONS {
        let is_fragment = next == ipv6::NEXT_FRAGMENT;
        if next == ipv4::PROTOCOL_UDP {
            return Some(Some(at));
        }
        if !LONG.contains(&next) && !is_fragment && next != AUTHENTICATION {
            return Some(None);
        }
        if passed == EXTENSIONS {
            break;
        }
        let Some(&[following, length]) = frame.get(at..at + 2) else { return Some(None) };
        let units = usize::from(length);
        at += match next {
            AUTHENTICATION => 4 * (units + 2),
            _ if !is_fragment => 8 * (units + 1),
            _ => match frame.get(at + 2..at + 4) {
                Some(&[0, low]) if low < 8 => 8,
                // One that does not begin its packet has no UDP header.
                _ => return Some(None),
            },
        };
        next = following;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of an EtherType after tags.
    fn frame(tags: &[u16], kind: u16, rest: &[u8]) -> Vec<u8> {
        let tags = tags.iter().flat_map(|tag| [tag.to_be_bytes(), [0, 5]]).flatten();
        [2u8; 12].into_iter().chain(tags).chain(kind.to_be_bytes()).chain(rest.iter().copied()).collect()
    }

    /// UDP to a port over IPv4 with words of options.
    fn v4(options: u8, offset: u16, port: u16) -> Vec<u8> {
        let [high, low] = offset.to_be_bytes();
        let mut header = vec![0x45 + options, 0, 0, 0, 0, 0, high, low, 64, 17, 0, 0];
        header.resize(20 + 4 * usize::from(options), 10);
        [header, vec![0xc0, 0, (port >> 8) as u8, port as u8, 0, 8, 0, 0]].concat()
    }

    /// UDP to a port over IPv6 after extension headers: their kinds, and their own bytes from the second on.
    fn v6(extensions: &[(u8, &[u8])], port: u16) -> Vec<u8> {
        let kinds: Vec<u8> = extensions.iter().map(|(kind, _)| *kind).chain([17]).collect();
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, kinds[0], 64];
        packet.resize(40, 0xfd);
        for ((_, rest), next) in extensions.iter().zip(&kinds[1..]) {
            packet.push(*next);
            packet.extend_from_slice(rest);
        }
        [packet, vec![0xc0, 0, (port >> 8) as u8, port as u8, 0, 8, 0, 0]].concat()
    }

    #[test]
    fn roce_does_not_leave_over_a_tap_interface_whatever_it_is_wrapped_in() {
        let (ip, ip6) = (eth::ethertype::IPV4, eth::ethertype::IPV6);
        let options: &[u8] = &[0; 7];
        let longer: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let authentication: &[u8] = &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let bad = [
            frame(&[], eth::ethertype::ROCE, &[0; 50]),
            frame(&[0x8100, 0x88a8], eth::ethertype::ROCE, &[0; 50]),
            frame(&[0x8100, 0x88a8, 0x9100], ip, &v4(0, 0, 53)),
            frame(&[], ip, &v4(0, 0, 4791)),
            frame(&[0x8100], ip, &v4(10, 0x4000, 4791)),
            // The first fragment.
            frame(&[], ip, &v4(0, 0x2000, 4791)),
            frame(&[], ip6, &v6(&[], 4791)),
            frame(&[0x88a8], ip6, &v6(&[(0, options), (60, longer), (51, authentication)], 4791)),
            frame(&[], ip6, &v6(&[(44, &[0, 0, 1, 0, 0, 0, 1])], 4791)),
            // More than the card parses.
            frame(&[], ip6, &v6(&[(60, options); 9], 53)),
        ];
        for (i, bad) in bad.iter().enumerate() {
            assert!(refuses(bad), "{i}: {bad:02x?}");
        }
        let good = [
            frame(&[], eth::ethertype::ARP, &[0; 28]),
            frame(&[0x8100, 0x88a8], ip, &v4(0, 0, 53)),
            // What is no first fragment has no ports.
            frame(&[], ip, &v4(0, 1, 4791)),
            frame(&[], ip6, &v6(&[(44, &[0, 0, 8, 0, 0, 0, 1])], 4791)),
            frame(&[], ip6, &v6(&[(60, options); 8], 53)),
            frame(&[], ip6, &v6(&[(6, options)], 4791)),
            vec![2; 13],
        ];
        for (i, good) in good.iter().enumerate() {
            assert!(!refuses(good), "{i}: {good:02x?}");
            // Each piece of it is nothing either, and none is a panic.
            (0..good.len()).for_each(|bytes| assert!(!refuses(&good[..bytes]), "{i}: {bytes}"));
        }
        for bad in &bad {
            let pieces = (0..bad.len()).filter(|bytes| refuses(&bad[..*bytes]));
            // What is cut before the field that counts may be anything.
            assert!(pieces.count() <= bad.len() - 14);
        }
    }
}
