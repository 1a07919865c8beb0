// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames for the tests of the receive path, and what the specification says of them.

use crate::config::RnicConfig;
use crate::types::{extension_bytes, NEIGHBOUR_OPCODE, RAW_OPCODE};
use ferrowire_rtl::{Bits, Sim};
use ferrowire_spec::csr::port::{multicast_hash, GidEntry, GIDS, GID_SLOTS};
use ferrowire_spec::csr::DropReason;
use ferrowire_spec::qp_state::{MAX_RAW_FRAME, RAW_QPN};
use ferrowire_spec::wire::frame::Extensions;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::*;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use rand::rngs::SmallRng;
use rand::Rng;
use std::collections::BTreeSet;
use std::path::Path;

/// The port's MAC address.
pub const OWN_MAC: u64 = 0x0200_5e00_5301;

/// The port's GIDs: the captures' addresses, others of both families, and two addresses in several VLANs.
pub fn gids() -> Vec<GidEntry> {
    let v4 = |host: u32, vid| GidEntry { ip: (0x0a00_0000 | host).into(), ipv6: false, vid };
    let v6 = |host: u128, vid| GidEntry { ip: 0xfdfe << 112 | 0xab << 64 | host, ipv6: true, vid };
    let mut all = vec![v4(1, None), v4(2, None), v4(7, Some(5)), v4(7, Some(0xfff)), v4(7, None)];
    all.extend([v6(1, None), v6(1, Some(5)), v6(1, Some(6)), v6(1 << 80 | 1, None), v6(0x0a00_0001, None)]);
    // As number an address of the other family.
    all.push(GidEntry { ip: 0x0a00_0001, ipv6: true, vid: None });
    all.extend((11..GIDS).map(|host| v4(host << 8, Some(host as u16))));
    all
}

/// Which of them a packet is sent to; none where it is not for the port.
pub fn destination(frame: &Frame<'_>) -> Option<usize> {
    let (ip, ipv6) = match frame.ip {
        Ip::V4(h) => (h.dst.into(), false),
        Ip::V6(h) => (h.dst, true),
    };
    let vid = frame.vlan.map(|tag| tag.vid).filter(|vid| *vid != 0);
    let found = gids().iter().position(|gid| *gid == GidEntry { ip, ipv6, vid });
    found.filter(|_| frame.eth.dst == OWN_MAC)
}

/// Gives these to the port of a bench, whose parser has the input `addresses`.
pub fn set_addresses(sim: &mut Sim) {
    let gids = gids();
    // A salt with which no two of them share a slot.
    let distinct =
        |salt: &u16| gids.iter().map(|g| g.slot(*salt)).collect::<BTreeSet<_>>().len() == gids.len();
    let salt = (1..u16::MAX).step_by(2).find(distinct).expect("a salt");
    sim.set("addresses_mac", OWN_MAC);
    sim.set("addresses_salt", salt.into());
    (0..GID_SLOTS + 2).for_each(|_| sim.tick());
    let set = |sim: &mut Sim, name: &str, value: u128, width| {
        sim.set_bits(&format!("addresses_write_{name}"), &Bits::new(width, value));
    };
    for (i, gid) in gids.iter().enumerate() {
        set(sim, "enable", 1, 1);
        set(sim, "index", i as u128, 4);
        set(sim, "slot", gid.slot(salt).into(), 8);
        set(sim, "valid", 1, 1);
        set(sim, "entry_ip", gid.ip, 128);
        set(sim, "entry_vid", gid.vid.unwrap_or(0).into(), 12);
        set(sim, "entry_tagged", gid.vid.is_some().into(), 1);
        set(sim, "entry_ipv6", gid.ipv6.into(), 1);
        sim.tick();
    }
    set(sim, "enable", 0, 1);
}

/// Every captured frame of the golden folders, those that are not RoCE included, sent to the port's MAC address.
pub fn captured() -> Vec<Vec<u8>> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/golden");
    let mut files = Vec::new();
    for folder in ["v4", "tools"] {
        for entry in std::fs::read_dir(golden.join(folder)).expect("the captures") {
            files.push(entry.expect("an entry").path());
        }
    }
    files.retain(|path| path.extension().is_some_and(|e| e == "pcap"));
    files.sort();
    let mut frames = Vec::new();
    for path in files {
        let open = || std::io::BufReader::new(std::fs::File::open(&path).expect("a capture"));
        if let Ok(mut reader) = PcapReader::new(open()) {
            while let Some(packet) = reader.next_packet() {
                frames.push(packet.expect("a packet").data.to_vec());
            }
            continue;
        }
        let mut reader = PcapNgReader::new(open()).expect("pcap or pcapng");
        while let Some(block) = reader.next_block() {
            match block.expect("a block") {
                Block::EnhancedPacket(packet) => frames.push(packet.data.to_vec()),
                Block::SimplePacket(packet) => frames.push(packet.data.to_vec()),
                _ => {}
            }
        }
    }
    for frame in frames.iter_mut().filter(|frame| frame.len() >= 6) {
        frame[..6].copy_from_slice(&OWN_MAC.to_be_bytes()[2..]);
    }
    frames
}

fn extensions(opcode: Opcode, rng: &mut SmallRng) -> Extensions {
    let mut bytes = [0u8; 64];
    rng.fill(&mut bytes);
    Extensions::parse(opcode, &bytes).expect("enough bytes").0
}

fn frame_with(rng: &mut SmallRng, opcode: Opcode, payload: &[u8], trailer: usize) -> Vec<u8> {
    let gids = gids();
    let to = gids[rng.random_range(0..gids.len())];
    // Without a VLAN there may be a tag with nothing but a priority.
    let tagged = to.vid.or_else(|| rng.random_bool(0.2).then_some(0));
    let mut frame = Frame {
        eth: Eth { dst: OWN_MAC, src: rng.random::<u64>() >> 16, ethertype: 0 },
        vlan: tagged.map(|vid| Vlan { pcp: rng.random::<u8>() >> 5, dei: rng.random(), vid, ethertype: 0 }),
        bth: Bth {
            opcode: opcode.code(),
            se: rng.random(),
            pkey: rng.random(),
            becn: rng.random(),
            fecn: rng.random(),
            destqp: rng.random::<u32>() >> 8,
            ackreq: rng.random(),
            psn: rng.random::<u32>() >> 8,
            ..Bth::default()
        },
        ext: extensions(opcode, rng),
        payload,
        ..Frame::default()
    };
    frame.ip = if !to.ipv6 {
        let Ip::V4(h) = frame.ip else { unreachable!("the default") };
        Ip::V4(Ipv4 { ecn: rng.random_range(0..4), src: rng.random(), dst: to.ip as u32, ..h })
    } else {
        let ecn = rng.random_range(0..4);
        Ip::V6(Ipv6 { ecn, src: rng.random(), dst: to.ip, ..Ipv6::default() })
    };
    frame.udp.sport = rng.random();
    let tail: Vec<u8> = (0..trailer).map(|_| rng.random()).collect();
    frame.trailer = &tail;
    frame.seal().expect("a sound frame");
    let mut bytes = vec![0; frame.len()];
    frame.emit(&mut bytes).expect("a sound frame");
    if rng.random_bool(0.4) {
        set_udp_checksum(&mut bytes);
    }
    bytes
}

/// Opcodes of the packets that a whole card looks at.
pub fn opcodes() -> Vec<Opcode> {
    let cfg = RnicConfig {
        selective: false,
        ..RnicConfig::named("generic-64b").expect("a built-in configuration")
    };
    Opcode::ALL.iter().copied().filter(|opcode| cfg.hears(*opcode)).collect()
}

fn any_of(rng: &mut SmallRng, opcodes: &[Opcode]) -> Opcode {
    opcodes[rng.random_range(0..opcodes.len())]
}

/// A sound frame: IPv4 or IPv6, tagged or not, any opcode of a whole card, with or without UDP checksum and Ethernet padding.
pub fn random_frame(rng: &mut SmallRng) -> Vec<u8> {
    let opcode = any_of(rng, &opcodes());
    random_frame_of(rng, opcode)
}

/// A sound frame with this opcode.
pub fn random_frame_of(rng: &mut SmallRng, opcode: Opcode) -> Vec<u8> {
    let most = if rng.random_bool(0.1) { 4096 } else { 200 };
    let payload: Vec<u8> = match opcode.carries_payload() {
        true => (0..rng.random_range(0..=most)).map(|_| rng.random()).collect(),
        false => Vec::new(),
    };
    let trailer = if rng.random_bool(0.3) { rng.random_range(0..70) } else { 0 };
    frame_with(rng, opcode, &payload, trailer)
}

/// A sound frame of 58 bytes or not many more.
pub fn short_frame(rng: &mut SmallRng) -> Vec<u8> {
    let opcodes = [Opcode::RcAcknowledge, Opcode::RcSendOnly, Opcode::UcSendLast];
    let opcode = opcodes[rng.random_range(0..3)];
    frame_with(rng, opcode, &[], 0)
}

/// Where IP, UDP and the packet's end lie, by the frame's own account.
fn places(bytes: &[u8]) -> Option<(usize, usize, usize)> {
    let be16 = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let ip = if be16(12)? == eth::ethertype::VLAN { 18 } else { 14 };
    let (udp, total) = match be16(ip - 2)? {
        eth::ethertype::IPV4 => (ip + 20, be16(ip + 2)? as usize),
        eth::ethertype::IPV6 => (ip + 40, be16(ip + 4)? as usize + 40),
        _ => return None,
    };
    (ip + total <= bytes.len() && udp + 24 <= ip + total).then_some((ip, udp, ip + total))
}

/// Puts the right checksum into a datagram.
pub fn set_udp_checksum(bytes: &mut [u8]) {
    let Some((ip, udp, end)) = places(bytes) else { return };
    let addresses = match udp - ip {
        20 => Ip::V4(Ipv4::parse(&bytes[ip..]).expect("its bytes")).addresses(),
        _ => Ip::V6(Ipv6::parse(&bytes[ip..]).expect("its bytes")).addresses(),
    };
    bytes[udp + 6..udp + 8].fill(0);
    let sum = checksum::udp(addresses, &bytes[udp..end]);
    bytes[udp + 6..udp + 8].copy_from_slice(&sum.to_be_bytes());
}

/// Puts the right ICRC into a packet.
pub fn set_icrc(bytes: &mut [u8]) {
    let Some((ip, _, end)) = places(bytes) else { return };
    if let Ok(crc) = icrc::icrc(&bytes[ip..end - 4]) {
        bytes[end - 4..end].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Puts the right checksum into an IPv4 header.
fn set_ip_checksum(bytes: &mut [u8]) {
    let Some((ip, udp, _)) = places(bytes) else { return };
    if udp - ip == 20 {
        bytes[ip + 10..ip + 12].fill(0);
        let sum = checksum::ipv4(&bytes[ip..ip + 20]);
        bytes[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// What the port takes beside RoCE.
#[derive(Clone, Copy, Default, Debug)]
pub struct Filter {
    pub promiscuous: bool,
    pub unicast: bool,
    pub broadcast: bool,
    pub multicast: bool,
    pub hash: u64,
    pub respond: bool,
}

impl Filter {
    /// Any; often with a bit or two of the hash.
    pub fn random(rng: &mut SmallRng) -> Self {
        Filter {
            promiscuous: rng.random_bool(0.3),
            unicast: rng.random_bool(0.7),
            broadcast: rng.random_bool(0.5),
            multicast: rng.random_bool(0.3),
            hash: rng.random::<u64>() & rng.random::<u64>(),
            respond: rng.random_bool(0.5),
        }
    }

    pub fn set(&self, sim: &mut Sim) {
        sim.set("addresses_promiscuous", self.promiscuous.into());
        sim.set("addresses_raw_unicast", self.unicast.into());
        sim.set("addresses_raw_broadcast", self.broadcast.into());
        sim.set("addresses_raw_multicast", self.multicast.into());
        sim.set("addresses_raw_hash", self.hash);
        sim.set("addresses_respond", self.respond.into());
    }

    /// Whether a frame asks for an address of the port, which the card answers itself.
    pub fn answers(&self, bytes: &[u8]) -> bool {
        let reason = verdict_without_icrc(bytes).err();
        let Ok(Eth { dst, ethertype, .. }) = Eth::parse(bytes) else { return false };
        let behind = match ethertype {
            eth::ethertype::VLAN => bytes.get(16..),
            _ => bytes.get(12..),
        };
        let asks = match behind {
            Some([0x08, 0x06, arp @ ..]) => arp.get(6..8) == Some(&[0, 1]),
            Some([0x86, 0xdd, ip @ ..]) => ip.get(6) == Some(&58) && ip.get(40) == Some(&135),
            _ => false,
        };
        let heard = self.promiscuous || dst == OWN_MAC || dst == 0xffff_ffff_ffff || dst >> 24 == 0x3333ff;
        self.respond && asks && heard && bytes.len() <= 128 && reason.is_some_and(DropReason::may_be_raw)
    }

    /// Whether a frame goes to the raw Ethernet queue pair.
    pub fn takes(&self, bytes: &[u8]) -> bool {
        let reason = verdict_without_icrc(bytes).err();
        if !reason.is_some_and(DropReason::may_be_raw) || bytes.len() > MAX_RAW_FRAME as usize {
            return false;
        }
        let Ok(Eth { dst, .. }) = Eth::parse(bytes) else { return false };
        let of_group = match dst {
            0xffff_ffff_ffff => self.broadcast,
            _ => self.multicast || self.hash >> multicast_hash(dst) & 1 == 1,
        };
        let is_group = dst >> 40 & 1 == 1;
        (self.unicast && (self.promiscuous || dst == OWN_MAC)) || (is_group && of_group)
    }
}

/// A frame that is no RoCE packet, to the port, to a group or to somebody else.
pub fn other_frame(rng: &mut SmallRng) -> Vec<u8> {
    let mut bytes = match rng.random_range(0..7) {
        // Somebody asks for an address.
        6 => {
            let lengths = if rng.random_bool(0.2) { 18..130 } else { 60..90 };
            let length = rng.random_range(lengths);
            let mut bytes: Vec<u8> = (0..length).map(|_| rng.random()).collect();
            let at = if rng.random_bool(0.3) { 16 } else { 12 };
            bytes[12..14].copy_from_slice(&[0x81, 0]);
            let (what, parts): (&[u8], _) = match rng.random_bool(0.5) {
                true => (&[0x08, 0x06], [(0, 0, 0), (6, 0, 0), (7, 1, 2)]),
                false => (&[0x86, 0xdd], [(0, 0x60, 0x60), (6, 58, 17), (40, 135, 136)]),
            };
            bytes[at..at + 2].copy_from_slice(what);
            for (place, value, other) in parts {
                if let Some(byte) = bytes.get_mut(at + 2 + place) {
                    *byte = if rng.random_bool(0.9) { value } else { other };
                }
            }
            bytes
        }
        // UDP to another port, or not UDP, or a fragment.
        0..=2 => {
            let mut bytes = random_frame(rng);
            let (ip, udp, _) = places(&bytes).expect("a sound frame");
            let v6 = udp - ip == 40;
            match rng.random_range(0..3) {
                0 => bytes[udp + 2] ^= 0x40,
                1 if v6 => bytes[ip + 6] = [6, 44, 58][rng.random_range(0..3)],
                1 => bytes[ip + 9] = 6,
                _ if v6 => bytes[ip + 6] = 0,
                _ => bytes[ip + 6] = rng.random::<u8>() & 0x3f,
            }
            bytes
        }
        // ARP, or anything else.
        n => {
            let length =
                if rng.random_bool(0.1) { rng.random_range(14..4200) } else { rng.random_range(14..120) };
            let mut bytes: Vec<u8> = (0..length).map(|_| rng.random()).collect();
            let ethertype: u16 = if n == 3 { 0x0806 } else { rng.random() };
            bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
            bytes
        }
    };
    let to: u64 = match rng.random_range(0..6) {
        3 => 0x3333_ff00_0000 | rng.random::<u64>() >> 40,
        0 => 0xffff_ffff_ffff,
        1 => rng.random::<u64>() >> 16 | 1 << 40,
        2 => rng.random::<u64>() >> 16 & !(1 << 40),
        _ => OWN_MAC,
    };
    bytes[..6].copy_from_slice(&to.to_be_bytes()[2..]);
    bytes
}

/// A frame with something wrong, or merely changed, in it.
pub fn mutated(rng: &mut SmallRng) -> Vec<u8> {
    // A report is among them, whose opcode is reserved.
    let opcode = any_of(rng, Opcode::ALL);
    let mut bytes = random_frame_of(rng, opcode);
    let (ip, udp, end) = places(&bytes).expect("a sound frame");
    let (v6, bth) = (udp - ip == 40, udp + 8);
    let put =
        |bytes: &mut [u8], at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    let mut repair = rng.random_bool(0.7);
    match rng.random_range(0..18) {
        0 => {
            let n = rng.random_range(1..bytes.len());
            bytes.truncate(n);
            repair = false;
        }
        // Inside the headers.
        1 => {
            bytes.truncate(rng.random_range(1..90).min(bytes.len()));
            repair = false;
        }
        2 => put(&mut bytes, ip - 2, rng.random()),
        3 => bytes[ip] = rng.random(),
        4 if v6 => bytes[ip + 6] = [44, 6, 0][rng.random_range(0..3)],
        4 => bytes[ip + 9] = rng.random(),
        5 if v6 => {
            bytes[ip + 6] = 44;
            bytes[ip + 40] = [17, 6][rng.random_range(0..2)];
        }
        5 => {
            let value = [0x2000, 0x0001, 0x3fff, 0x8000][rng.random_range(0..4)];
            put(&mut bytes, ip + 6, value);
        }
        6 => put(&mut bytes, udp + 2, [4791, 4790, 0x12b6][rng.random_range(0..3)]),
        7 => {
            let at = ip + if v6 { 4 } else { 2 };
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            put(&mut bytes, at, old.wrapping_add_signed(rng.random_range(-60..60)));
        }
        8 => put(&mut bytes, udp + 4, rng.random()),
        9 => put(&mut bytes, udp + 6, rng.random()),
        10 => bytes[bth + 1] = rng.random(),
        11 => bytes[bth] = rng.random(),
        // A packet cut or grown, with lengths that agree.
        12 | 13 => {
            let by = if rng.random_bool(0.5) { rng.random_range(1..40) } else { 4 * rng.random_range(1..10) };
            if rng.random_bool(0.5) {
                bytes.truncate(end);
                bytes.truncate((end - by).max(bth + 12));
            } else {
                bytes.splice(end..end, std::iter::repeat_n(0, by));
            }
            let trailer = if bytes.len() > end + by { bytes.len() - end - by } else { 0 };
            let total = bytes.len() - trailer - ip;
            let field = if v6 { (ip + 4, total - 40) } else { (ip + 2, total) };
            put(&mut bytes, field.0, field.1 as u16);
            put(&mut bytes, udp + 4, (total - (udp - ip)) as u16);
        }
        // A payload past the largest MTU.
        14 => {
            let grown = 4 * rng.random_range(1000..1100);
            bytes.splice(end..end, std::iter::repeat_n(0, grown));
            let total = end + grown - ip;
            let field = if v6 { (ip + 4, total - 40) } else { (ip + 2, total) };
            put(&mut bytes, field.0, field.1 as u16);
            put(&mut bytes, udp + 4, (total - (udp - ip)) as u16);
        }
        // To somebody else: another MAC address, IP address or VLAN.
        15 | 16 => {
            let (from, length) = if v6 { (ip + 24, 16) } else { (ip + 16, 4) };
            let at = match rng.random_range(0..3) {
                0 => rng.random_range(0..6),
                1 if ip == 18 => rng.random_range(14..16),
                _ => rng.random_range(from..from + length),
            };
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
        _ => {
            let at = rng.random_range(0..bytes.len());
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
    }
    if repair {
        set_ip_checksum(&mut bytes);
        set_icrc(&mut bytes);
        if let Some((_, udp, _)) = places(&bytes) {
            if bytes[udp + 6..udp + 8] != [0, 0] && rng.random_bool(0.8) {
                set_udp_checksum(&mut bytes);
            }
        }
    }
    bytes
}

/// What the card does with a frame.
pub fn verdict(bytes: &[u8]) -> Result<Frame<'_>, DropReason> {
    let frame = Frame::parse_standard(bytes).map_err(|e| e.drop_reason().expect("an error of decoding"))?;
    // The specification's parser knows no MTU.
    if frame.payload.len() > 4096 {
        return Err(DropReason::Malformed);
    }
    destination(&frame).ok_or(DropReason::Destination)?;
    Ok(frame)
}

/// What the card would do with the frame if its ICRC were right; in that case a frame whose ICRC is.
pub fn verdict_without_icrc(bytes: &[u8]) -> Result<Vec<u8>, DropReason> {
    let mut bytes = bytes.to_vec();
    if verdict(&bytes).err() == Some(DropReason::Icrc) {
        set_icrc(&mut bytes);
        if let Some((_, udp, _)) = places(&bytes) {
            if bytes[udp + 6..udp + 8] != [0, 0] {
                set_udp_checksum(&mut bytes);
            }
        }
    }
    verdict(&bytes)?;
    Ok(bytes)
}

/// A sound frame as the responder gets it, and from where on that is known: of a datagram, a GRH stands before the payload.
pub fn with_grh(bytes: &[u8]) -> (usize, Vec<u8>) {
    let frame = verdict(bytes).expect("a sound frame");
    let mut bytes = bytes.to_vec();
    if frame.opcode().map(Opcode::service) != Ok(Service::Ud) {
        return (0, bytes);
    }
    let ip = eth::BYTES + frame.vlan.map_or(0, |_| vlan::BYTES);
    let payload = ip + frame.ip.bytes() + udp::BYTES + frame.opcode().expect("a sound frame").header_bytes();
    let header = bytes[ip..ip + frame.ip.bytes()].to_vec();
    bytes[payload - 40..payload].fill(0);
    bytes[payload - header.len()..payload].copy_from_slice(&header);
    (payload - 40, bytes)
}

/// The fields of `Headers` that have a meaning in this sound frame.
pub fn expected_item(bytes: &[u8]) -> Vec<(&'static str, u128)> {
    let frame = verdict(bytes).expect("a sound frame");
    let gid = destination(&frame).expect("a frame for the port");
    let bth = &frame.bth;
    let opcode = frame.opcode().expect("a sound frame");
    let behind_ip = udp::BYTES + bth::BYTES + extension_bytes(opcode);
    let offset = eth::BYTES + frame.vlan.map_or(0, |_| vlan::BYTES) + frame.ip.bytes() + behind_ip;
    let mut fields: Vec<(&'static str, u128)> = vec![
        ("gid", gid as u128),
        ("ecn", frame.ip.ecn().into()),
        ("opcode", bth.opcode.into()),
        ("solicited", bth.se.into()),
        ("pad", bth.pad.into()),
        ("pkey", bth.pkey.into()),
        ("becn", bth.becn.into()),
        ("dest_qpn", bth.destqp.into()),
        ("ack_req", bth.ackreq.into()),
        ("again", (!bth.migreq).into()),
        ("distance", bth.resv7.into()),
        ("psn", bth.psn.into()),
        ("payload_offset", offset as u128),
        // What a report tells passes as payload.
        (
            "payload_bytes",
            (frame.payload.len() + opcode.header_bytes() - bth::BYTES - extension_bytes(opcode)) as u128,
        ),
    ];
    let ext = &frame.ext;
    if let Some(h) = ext.reth {
        fields.extend([("va", h.va.into()), ("rkey", h.rkey.into()), ("dma_length", h.len.into())]);
    }
    if let Some(h) = ext.atomic {
        let operands = [("swap", h.swap.into()), ("compare", h.compare.into())];
        fields.extend([("va", h.va.into()), ("rkey", h.rkey.into())].into_iter().chain(operands));
    }
    if let Some(h) = ext.atomic_ack {
        fields.push(("va", h.orig.into()));
    }
    if let Some(h) = ext.deth {
        fields.push(("va", u128::from(h.qkey) << 32 | u128::from(h.resv) << 24 | u128::from(h.srcqp)));
    }
    if let Some(h) = ext.aeth {
        fields.extend([("syndrome", h.syndrome.into()), ("msn", h.msn.into())]);
    }
    if let Some(h) = ext.imm {
        fields.push(("imm", h.imm.into()));
    }
    if let Some(h) = ext.ieth {
        fields.push(("imm", h.rkey.into()));
    }
    fields
}

/// The fields of `Headers` that have a meaning in a raw frame.
pub fn expected_raw(bytes: &[u8], asks: bool) -> [(&'static str, u128); 5] {
    [
        ("opcode", if asks { NEIGHBOUR_OPCODE } else { RAW_OPCODE }.into()),
        ("dest_qpn", RAW_QPN.into()),
        ("solicited", 0),
        ("payload_offset", 0),
        ("payload_bytes", bytes.len() as u128),
    ]
}
