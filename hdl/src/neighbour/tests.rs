// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions of neighbours, right and wrong, and what the standards say to each.

use super::*;
use crate::rx::frames::{gids, set_addresses, OWN_MAC};
use crate::testing::{drain, Random, Sink, Source};
use ferrowire_rtl::{build, Sim};
use ferrowire_spec::csr::port::GidEntry;
use rand::Rng;

const WIDTHS: [u32; 4] = [8, 16, 32, 64];

struct Bench {
    sim: Sim,
    source: [Source; 1],
    /// Packets, payload.
    sinks: [Sink; 2],
}

fn bench(beat_bytes: u32) -> Bench {
    let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-64b").unwrap() };
    let netlist = build("top", |m| {
        let frames = m.stream_in("frames", &Beat::of(beat_bytes));
        let (addresses, restart) = (m.input_of("addresses", &Addresses::of()), m.input("restart", 1));
        let TxSource { packet, payload } = m.restarted(restart, |m| neighbour(m, &cfg, addresses, frames));
        m.stream_out("packet", packet);
        // It follows its packet.
        m.stream_out("payload", payload.expect("answers are payload"));
    });
    let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
    sim.reset();
    set_addresses(&mut sim);
    let sinks = [Sink::new("packet", &TxPacket::of(&cfg)), Sink::new("payload", &Payload::of(&cfg))];
    Bench { sim, source: [Source::new("frames", &Beat::of(beat_bytes))], sinks }
}

impl Bench {
    /// Asks, and waits until nothing comes any more; the answers.
    fn ask(&mut self, frame: &[u8], random: &mut Random, stall: f64) -> Vec<Vec<u8>> {
        self.sinks.iter_mut().for_each(Sink::clear);
        self.source[0].push_frame(frame);
        // As long as the longest walk through all entries, at least.
        drain(&mut self.sim, &mut self.source, &mut self.sinks, random, stall, 10_000, 500);
        let lengths = self.sinks[0].values("payload_bytes");
        assert!(self.sinks[0].values("opcode").iter().all(|code| *code == u64::from(NEIGHBOUR_OPCODE)));
        assert!(self.sinks[0].values("payload_lane").iter().all(|lane| *lane == 0));
        let mut answers = vec![Vec::new()];
        for beat in &self.sinks[1].items {
            answers.last_mut().expect("one").extend(beat["data"].to_bytes());
            assert!(beat["poisoned"].is_zero());
            if !beat["last"].is_zero() {
                answers.push(Vec::new());
            }
        }
        assert!(answers.pop().is_some_and(|rest| rest.is_empty()), "all of the payload");
        assert_eq!(answers.len(), lengths.len());
        for (answer, length) in answers.iter_mut().zip(lengths) {
            assert!(answer[length as usize..].iter().all(|byte| *byte == 0));
            answer.truncate(length as usize);
        }
        answers
    }
}

fn mac_bytes(mac: u64) -> [u8; 6] {
    mac.to_be_bytes()[2..].try_into().unwrap()
}

/// An ones' complement sum of bytes, the checksum field among them (RFC 1071).
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.concat();
    let total: u32 = words.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum();
    let once = (total & 0xffff) + (total >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// A question and the answer that it must have.
struct Case {
    tci: Option<u16>,
    asker: u64,
    asker_ip: u128,
    target: u128,
    v6: bool,
    /// Bytes of options behind a solicitation.
    options: Vec<u8>,
}

impl Case {
    fn random(random: &mut Random) -> Case {
        let all = gids();
        let to: GidEntry = all[random.rng.random_range(0..all.len())];
        let asker = random.rng.random::<u64>() >> 16 & !(1 << 40);
        let priority = random.rng.random::<u16>() & 0xf000;
        let tci = match to.vid {
            Some(vid) => Some(priority | vid),
            None => random.chance(0.3).then_some(priority),
        };
        let asker_ip = random.rng.random::<u128>() >> if to.ipv6 { 0 } else { 96 };
        let options = match random.rng.random_range(0..4) {
            0 => Vec::new(),
            n => {
                let mut options = vec![1, 1];
                options.extend(mac_bytes(asker));
                for _ in 1..n {
                    // Of one unit.
                    let mut other = random.bytes(8);
                    other[1] = 1;
                    options.extend(other);
                }
                options
            }
        };
        Case { tci, asker, asker_ip, target: to.ip, v6: to.ipv6, options }
    }

    /// Looks whether the address is free: there is no source address.
    fn looks(mut self) -> Case {
        (self.asker_ip, self.options) = (0, Vec::new());
        self
    }

    fn link(&self, dst: [u8; 6], src: u64, ethertype: u16) -> Vec<u8> {
        let mut frame = [dst, mac_bytes(src)].concat();
        if let Some(tci) = self.tci {
            frame.extend(eth::ethertype::VLAN.to_be_bytes());
            frame.extend(tci.to_be_bytes());
        }
        frame.extend(ethertype.to_be_bytes());
        frame
    }

    fn arp(&self, operation: u16, from: (u64, u128), to: (u64, u128)) -> Vec<u8> {
        let mut arp = vec![0, 1, 8, 0, 6, 4];
        arp.extend(operation.to_be_bytes());
        for (mac, ip) in [from, to] {
            arp.extend(mac_bytes(mac));
            arp.extend((ip as u32).to_be_bytes());
        }
        arp
    }

    fn message(&self, src: u128, dst: u128, message: &[u8]) -> Vec<u8> {
        let length = message.len() as u32;
        let pseudo =
            [&src.to_be_bytes()[..], &dst.to_be_bytes(), &length.to_be_bytes(), &[0, 0, 0, 58]].concat();
        let mut message = message.to_vec();
        let checksum = !sum(&[&pseudo, &message]);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        let mut packet = vec![0x60, 0, 0, 0, 0, length as u8, 58, 255];
        packet.extend(src.to_be_bytes());
        packet.extend(dst.to_be_bytes());
        packet.extend(message);
        packet
    }

    /// What the neighbour sends.
    fn question(&self) -> Vec<u8> {
        if !self.v6 {
            let arp = self.arp(1, (self.asker, self.asker_ip), (0, self.target));
            return [self.link([0xff; 6], self.asker, ARP), arp].concat();
        }
        self.solicitation_to(0xff02 << 112 | 0x1_ff00_0000 | self.target & 0xff_ffff)
    }

    fn solicitation_to(&self, dst: u128) -> Vec<u8> {
        let low = (self.target & 0xff_ffff) as u32;
        let group = [&[0x33, 0x33, 0xff], &low.to_be_bytes()[1..]].concat().try_into().unwrap();
        let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
        message.extend(self.target.to_be_bytes());
        message.extend(&self.options);
        let packet = self.message(self.asker_ip, dst, &message);
        [self.link(group, self.asker, eth::ethertype::IPV6), packet].concat()
    }

    /// What it must get.
    fn answer(&self) -> Vec<u8> {
        if !self.v6 {
            let arp = self.arp(2, (OWN_MAC, self.target), (self.asker, self.asker_ip));
            return [self.link(mac_bytes(self.asker), OWN_MAC, ARP), arp].concat();
        }
        let to_all = self.asker_ip == 0;
        let dst = if to_all { 0xff02 << 112 | 1 } else { self.asker_ip };
        let station = if to_all { [0x33, 0x33, 0, 0, 0, 1] } else { mac_bytes(self.asker) };
        let mut message = vec![136, 0, 0, 0, if to_all { 0x20 } else { 0x60 }, 0, 0, 0];
        message.extend(self.target.to_be_bytes());
        message.extend([2, 1]);
        message.extend(mac_bytes(OWN_MAC));
        let packet = self.message(self.target, dst, &message);
        [self.link(station, OWN_MAC, eth::ethertype::IPV6), packet].concat()
    }
}

#[test]
fn every_neighbour_that_asks_for_an_address_of_the_port_is_answered() {
    let mut random = Random::new(1);
    for beat_bytes in WIDTHS {
        let mut bench = bench(beat_bytes);
        for n in 0..120 {
            let mut case = Case::random(&mut random);
            if n % 6 == 5 {
                case = case.looks();
            }
            let mut question = case.question();
            // Ethernet pads it.
            if random.chance(0.5) && question.len() < 60 {
                question.extend(random.bytes(60 - question.len()));
            }
            let stall = if n % 2 == 0 { 0.0 } else { 0.4 };
            let answers = bench.ask(&question, &mut random, stall);
            assert_eq!(answers.len(), 1, "seed {}, {beat_bytes}: {question:02x?}", random.seed);
            assert!(
                answers[0] == case.answer(),
                "seed {}, {beat_bytes}: {question:02x?}: {:02x?} for {:02x?}",
                random.seed,
                answers[0],
                case.answer()
            );
        }
    }
}

#[test]
fn what_is_wrong_or_for_somebody_else_is_not_answered_and_the_next_is() {
    let mut random = Random::new(2);
    for beat_bytes in WIDTHS {
        let mut bench = bench(beat_bytes);
        for n in 0..240 {
            let mut case = Case::random(&mut random);
            let own = |case: &Case| {
                let vid = case.tci.map(|tci| tci & 0xfff).filter(|vid| *vid != 0);
                gids().contains(&GidEntry { ip: case.target, ipv6: case.v6, vid })
            };
            let question = match n % 6 {
                // Another address, or the same in another VLAN.
                0 => {
                    case.target ^= 1 << random.rng.random_range(0..if case.v6 { 128 } else { 32 });
                    case.question()
                }
                1 => {
                    case.tci = Some(random.rng.random_range(0x100..0xffe));
                    case.question()
                }
                // Too short.
                2 => {
                    let mut question = case.question();
                    question.truncate(random.rng.random_range(14..question.len()));
                    question
                }
                // Any bit of a solicitation behind the flow label is in its sum, or a condition of its own; of a request
                // those up to the operation are.
                3 | 4 => {
                    let mut question = case.question();
                    let at = if case.tci.is_some() { 18 } else { 14 };
                    let (from, to) = if case.v6 { (at + 4, question.len()) } else { (at, at + 8) };
                    question[random.rng.random_range(from..to)] ^= 1 << random.rng.random_range(0..8);
                    question
                }
                // Without a source address, but with the link-layer address of one.
                _ if case.v6 => {
                    case.asker_ip = 0;
                    case.options = [&[1, 1][..], &mac_bytes(case.asker)].concat();
                    case.question()
                }
                _ => {
                    let mut question = case.question();
                    question.resize(random.rng.random_range(129..300), 0);
                    question
                }
            };
            let is_own = n % 6 < 2 && own(&case);
            let answers = bench.ask(&question, &mut random, 0.2);
            assert_eq!(answers.len(), usize::from(is_own), "seed {}: {question:02x?}", random.seed);
            let good = Case::random(&mut random);
            let answers = bench.ask(&good.question(), &mut random, 0.2);
            assert!(
                answers == [good.answer()],
                "seed {}, {n}: {question:02x?}, {:02x?}",
                random.seed,
                good.question()
            );
        }
    }
}

#[test]
fn questions_back_to_back_are_answered_or_forgotten_whole() {
    let mut random = Random::new(3);
    for beat_bytes in WIDTHS {
        let mut bench = bench(beat_bytes);
        let cases: Vec<Case> = (0..200).map(|_| Case::random(&mut random)).collect();
        cases.iter().for_each(|case| bench.source[0].push_frame(&case.question()));
        let last = Case::random(&mut random);
        bench.source[0].stall = Some(0.1);
        let answers = bench.ask(&last.question(), &mut random, 0.3);
        assert!(answers.len() > 1 && answers[0] == cases[0].answer(), "some of {}", cases.len());
        let mut all = cases.iter().chain([&last]);
        for answer in &answers {
            assert!(all.any(|case| case.answer() == *answer), "seed {}: in their order", random.seed);
        }
    }
}

#[test]
fn nobody_is_answered_for_an_address_that_was_taken_out() {
    let mut random = Random::new(4);
    let mut bench = bench(64);
    let mut case = Case::random(&mut random);
    (case.target, case.v6, case.tci) = (0x0a00_0001, false, None);
    assert_eq!(bench.ask(&case.question(), &mut random, 0.0).len(), 1);
    bench.sim.set("addresses_write_enable", 1);
    bench.sim.set("addresses_write_index", 0);
    bench.sim.set("addresses_write_valid", 0);
    bench.sim.tick();
    bench.sim.set("addresses_write_enable", 0);
    assert_eq!(bench.ask(&case.question(), &mut random, 0.0).len(), 0);
    case.target = 0x0a00_0002;
    assert_eq!(bench.ask(&case.question(), &mut random, 0.0).len(), 1);
    // Addresses outlive the objects of a process.
    bench.sim.set("restart", 1);
    (0..2).for_each(|_| bench.sim.tick());
    bench.sim.set("restart", 0);
    assert_eq!(bench.ask(&case.question(), &mut random, 0.0).len(), 1);
    bench.sim.set("addresses_clear", 1);
    bench.sim.tick();
    bench.sim.set("addresses_clear", 0);
    assert_eq!(bench.ask(&case.question(), &mut random, 0.0).len(), 0);
}

#[test]
fn conditions_of_options_and_of_who_has_no_address_hold_wherever_they_stand() {
    let mut random = Random::new(5);
    let option =
        |kind: u8, units: u8| [&[kind, units][..], &vec![0x5a; (8 * usize::from(units.max(1))) - 2]].concat();
    for beat_bytes in WIDTHS {
        let mut bench = bench(beat_bytes);
        let mut case = Case::random(&mut random);
        while !case.v6 {
            case = Case::random(&mut random);
        }
        let source = case.asker_ip;
        let group = 0xff02 << 112 | 0x1_ff00_0000 | case.target & 0xff_ffff;
        let nodes = 0xff02 << 112 | 1;
        // A length of 0, in the first option or behind others; somebody without an address that names a station, or asks another group than that of
        // solicited nodes (RFC 4861, 7.1.1).
        for (has_source, dst, options, right) in [
            (true, group, vec![option(1, 1)], true),
            (true, group, vec![option(14, 2), option(1, 1), option(9, 2)], true),
            (true, group, vec![option(14, 9)[..40].to_vec()], true),
            (true, group, vec![option(14, 0)], false),
            (true, group, vec![option(1, 1), option(14, 0)], false),
            (true, group, vec![option(1, 1), option(14, 3), option(9, 0)], false),
            (true, case.target, vec![option(1, 1)], true),
            (true, nodes, vec![], true),
            (false, group, vec![option(14, 1)], true),
            // What looks like one within another.
            (false, group, vec![option(14, 2)[..8].to_vec(), option(1, 1)], true),
            (false, group, vec![option(14, 1), option(1, 1)], false),
            (false, group, vec![option(14, 3), option(9, 1), option(1, 1)], false),
            (false, case.target, vec![], false),
            (false, nodes, vec![], false),
            (false, nodes | 0xff00_0000, vec![], false),
            (false, group | 1 << 33, vec![], false),
            (false, group | 1 << 90, vec![], false),
            (false, group & !(1 << 31), vec![], false),
        ] {
            case.asker_ip = if has_source { source } else { 0 };
            case.options = options.concat();
            let answers = bench.ask(&case.solicitation_to(dst), &mut random, 0.1);
            assert_eq!(
                answers.len(),
                usize::from(right),
                "{beat_bytes}: from {:x} to {dst:x}, {options:x?}",
                case.asker_ip
            );
        }
    }
}
