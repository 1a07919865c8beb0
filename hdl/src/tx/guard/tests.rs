// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random frames against a classifier that is written from the standards, at every width.

use super::*;
use crate::testing::{drain, frames_to_beats, Item, Random, Sink, Source};
use crate::tx::FrameOf;
use ferrowire_rtl::{bits, build, Bits, Sim};
use rand::Rng;

const WIDTHS: [u32; 4] = [8, 16, 32, 64];
const OWN_MAC: u64 = 0x0200_5e00_5301;

/// What a receiver makes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Nothing that is RoCE.
    Other,
    /// RoCE of either version.
    Roce,
    /// More headers than are walked.
    Deep,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// The destination port of UDP.
fn class_of_udp(udp: &[u8]) -> Option<Class> {
    Some(if be16(udp, 2)? == 4791 { Class::Roce } else { Class::Other })
}

fn class_of_ipv4(packet: &[u8]) -> Option<Class> {
    let header = usize::from(packet.first()? & 15) * 4;
    if packet[0] >> 4 != 4 || header < 20 {
        return None;
    }
    let (fragment, protocol) = (be16(packet, 6)? & 0x1fff, be16(packet, 8)? & 0xff);
    if fragment > 0 || protocol != 17 {
        return None;
    }
    class_of_udp(packet.get(header..)?)
}

fn class_of_ipv6(packet: &[u8]) -> Option<Class> {
    let mut next = be16(packet, 6)? >> 8;
    let mut rest = packet.get(40..)?;
    for walked in 0.. {
        let length = match next {
            17 => return class_of_udp(rest),
            0 | 43 | 44 | 51 | 60 | 135 | 139 | 140 if walked == EXTENSIONS => return Some(Class::Deep),
            0 | 43 | 60 | 135 | 139 | 140 => 8 * (1 + usize::from(be16(rest, 0)? & 0xff)),
            51 => 4 * (2 + usize::from(be16(rest, 0)? & 0xff)),
            44 if be16(rest, 2)? >> 3 > 0 => return None,
            44 => 8,
            _ => return None,
        };
        next = be16(rest, 0)? >> 8;
        // What is next counts, though the frame may end before it.
        rest = rest.get(length..).unwrap_or_default();
    }
    unreachable!("the walk ends")
}

fn class(frame: &[u8]) -> Class {
    let mut at = 12;
    for tag in 0.. {
        match be16(frame, at) {
            Some(0x8100 | 0x88a8 | 0x9100) if tag == TAGS => return Class::Deep,
            Some(0x8100 | 0x88a8 | 0x9100) => at += 4,
            Some(0x8915) => return Class::Roce,
            Some(0x0800) => return class_of_ipv4(&frame[at + 2..]).unwrap_or(Class::Other),
            Some(0x86dd) => return class_of_ipv6(&frame[at + 2..]).unwrap_or(Class::Other),
            _ => break,
        }
    }
    Class::Other
}

/// A frame that is, or is nearly, RoCE.
fn any(random: &mut Random) -> Vec<u8> {
    let mut frame = random.bytes(12);
    let rng = &mut random.rng;
    for _ in 0..[0, 0, 0, 1, 1, 2, 3][rng.random_range(0..7)] {
        frame.extend([[0x81, 0], [0x88, 0xa8], [0x91, 0]][rng.random_range(0..3)]);
        frame.extend(rng.random::<[u8; 2]>());
    }
    let port = if rng.random_bool(0.6) { 4791u16 } else { [4790, 4792, 53, 0xb712][rng.random_range(0..4)] };
    let udp = [&rng.random::<[u8; 2]>()[..], &port.to_be_bytes(), &rng.random::<[u8; 4]>()].concat();
    let protocol = if rng.random_bool(0.8) { 17 } else { [6, 1, 58, 136][rng.random_range(0..4)] };
    match rng.random_range(0..10) {
        0 => frame.extend([0x89, 0x15]),
        1 => frame.extend([[8, 6], [0x88, 0x08], [0, 60]][rng.random_range(0..3)]),
        2..=5 => {
            let words = if rng.random_bool(0.5) { 5 } else { rng.random_range(0..16u8) };
            let version = if rng.random_bool(0.9) { 4 } else { rng.random_range(0..16u8) };
            let fragment: u16 = match rng.random_range(0..4) {
                0 => rng.random(),
                1 => 0x2000,
                _ => 0x4000,
            };
            let mut header = rng.random::<[u8; 60]>().to_vec();
            header.truncate(4 * usize::from(words).max(5));
            header[0] = version << 4 | words;
            header[6..8].copy_from_slice(&fragment.to_be_bytes());
            header[9] = protocol;
            frame.extend([8, 0]);
            frame.extend(header);
        }
        _ => {
            let mut header = rng.random::<[u8; 40]>().to_vec();
            header[0] = 0x60;
            let chain = match rng.random_range(0..3) {
                0 => 0,
                1 => rng.random_range(1..4),
                _ => rng.random_range(1..11),
            };
            let kinds = [0, 43, 44, 51, 60, 135, 139, 140];
            let chain: Vec<u8> = (0..chain).map(|_| kinds[rng.random_range(0..kinds.len())]).collect();
            header[6] = *chain.first().unwrap_or(&protocol);
            for (i, kind) in chain.iter().enumerate() {
                let length = [0, 0, 1, 2, 7, rng.random_range(0..60)][rng.random_range(0..6)];
                let bytes = match kind {
                    44 => 8,
                    51 => 4 * (2 + usize::from(length)),
                    _ => 8 * (1 + usize::from(length)),
                };
                let mut extension: Vec<u8> = (0..bytes).map(|_| rng.random()).collect();
                extension[..2].copy_from_slice(&[*chain.get(i + 1).unwrap_or(&protocol), length]);
                if *kind == 44 {
                    let offset: u16 =
                        if rng.random_bool(0.2) { rng.random() } else { rng.random_range(0..8) };
                    extension[2..4].copy_from_slice(&offset.to_be_bytes());
                }
                header.extend(extension);
            }
            frame.extend([0x86, 0xdd]);
            frame.extend(header);
        }
    }
    frame.extend(udp);
    let more = rng.random_range(0..40);
    frame.extend((0..more).map(|_| rng.random::<u8>()));
    // Some end in the middle of a header.
    if rng.random_bool(0.2) {
        frame.truncate(rng.random_range(14..=frame.len()));
    }
    frame.truncate(4096);
    frame
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    source: [Source; 1],
    sinks: [Sink; 2],
}

impl Bench {
    fn new(beat_bytes: u32) -> Bench {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-64b").unwrap() };
        let netlist = build("bench", |m| {
            let frame = m.stream_in("frame", &FrameBeat::of(&cfg));
            let out =
                guard(m, &cfg, frame, m.input("allowed", 1), m.input("anew", 1), m.input("own_mac", 48));
            m.stream_out("out", out.frame);
            m.stream_out("verdict", out.verdicts);
            let count = m.reg("count", 16).reset(0);
            m.set(&count, count + out.refused.zext(16));
            m.output("refused", &count);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        sim.set("own_mac", OWN_MAC);
        let source = [Source::new("frame", &FrameBeat::of(&cfg))];
        let sinks = [Sink::new("out", &FrameBeat::of(&cfg)), Sink::new("verdict", &bits(1))];
        Bench { cfg, sim, source, sinks }
    }

    /// The beats of a frame; those of a raw one of the queue pair have both marks.
    fn beats(&self, frame: &[u8], raw: bool, request: bool, poisoned: bool, loops: bool) -> Vec<Item> {
        let mut beats = frames_to_beats([frame], self.cfg.beat_bytes);
        for beat in &mut beats {
            let last = !beat["last"].is_zero();
            let values = [("raw", raw.into()), ("request", request.into()), ("loops", loops.into())];
            let of = crate::testing::item(&FrameOf::of(&self.cfg), &values);
            beat.extend(
                of.into_iter().map(|(field, value)| (ferrowire_rtl::join("of", &field).into(), value)),
            );
            beat.insert("poisoned".into(), Bits::new(1, u128::from(poisoned && last)));
        }
        beats
    }

    fn push(&mut self, frame: &[u8], raw: bool, request: bool, poisoned: bool, loops: bool) {
        self.beats(frame, raw, request, poisoned, loops)
            .into_iter()
            .for_each(|beat| self.source[0].push(beat));
    }

    fn drain(&mut self, random: &mut Random, stall: f64) {
        drain(&mut self.sim, &mut self.source, &mut self.sinks, random, stall, 2_000_000, 100);
    }

    fn start_anew(&mut self) {
        self.sim.set("anew", 1);
        self.sim.tick();
        self.sim.set("anew", 0);
    }
}

#[test]
fn raw_frames_that_a_receiver_takes_for_roce_do_not_leave_all_others_do_and_those_to_the_port_loop() {
    for (seed, beat_bytes) in (1..).zip(WIDTHS) {
        let mut random = Random::new(seed);
        let mut bench = Bench::new(beat_bytes);
        let (mut classes, mut bystanders, mut count) = ([0; 3], 0, 0);
        for round in 0..500 {
            let allowed = random.chance(0.1);
            bench.sim.set("allowed", allowed.into());
            let (mut expected, mut verdicts, mut barred) = (Vec::new(), Vec::new(), false);
            let mut frames = Vec::new();
            for _ in 0..3 {
                let mut frame = any(&mut random);
                let own = random.chance(0.5);
                // Another address differs in one bit.
                let mac = if own { OWN_MAC } else { OWN_MAC ^ 1 << random.rng.random_range(0..48) };
                frame[..6].copy_from_slice(&mac.to_be_bytes()[2..]);
                let (raw, request) = (random.chance(0.9), random.chance(0.9));
                let poisoned = random.chance(0.05);
                let class = class(&frame);
                let of_qp = raw && request;
                let refused = of_qp && class > Class::Other && !allowed;
                classes[class as usize] += usize::from(of_qp);
                bystanders += usize::from(of_qp && barred && !refused && !poisoned);
                count += u64::from(refused && !poisoned && !barred);
                let stops = refused || (of_qp && barred);
                if of_qp && !poisoned {
                    verdicts.push(u64::from(stops));
                }
                // Each frame of the queue pair may loop; whether others do is known before.
                let loops = of_qp || random.chance(0.5);
                bench.push(&frame, raw, request, poisoned, loops);
                let loops = if of_qp { own } else { loops };
                expected.extend(bench.beats(&frame, raw, request, poisoned || stops, loops));
                barred |= of_qp && (refused || poisoned);
                frames.push((class, of_qp, poisoned, frame));
            }
            bench.drain(&mut random, [0.0, 0.3, 0.7][round % 3]);
            assert!(bench.sinks[0].items == expected, "seed {seed}, round {round}: {frames:02x?}");
            assert_eq!(bench.sinks[1].values(""), verdicts, "seed {seed}, round {round}");
            assert_eq!(bench.sim.get("refused"), count & 0xffff, "seed {seed}, round {round}");
            bench.sinks.iter_mut().for_each(Sink::clear);
            bench.start_anew();
        }
        assert!(classes.iter().all(|n| *n > 20) && bystanders > 20, "{classes:?}, {bystanders}");
    }
}

#[test]
fn the_classifier_of_the_test_knows_its_frames() {
    let ethernet = |tags: &[u8], kind: [u8; 2]| [&[0; 12][..], tags, &kind].concat();
    let udp = [0, 53, 0x12, 0xb7, 0, 0, 0, 0];
    let v4 = |words: u8, fragment: u8| {
        let mut header = vec![0; 4 * usize::from(words)];
        (header[0], header[6], header[9]) = (0x40 | words, fragment, 17);
        header
    };
    let roce = |parts: &[&[u8]]| class(&parts.concat());
    assert_eq!(roce(&[&ethernet(&[], [0x89, 0x15]), &udp]), Class::Roce);
    assert_eq!(roce(&[&ethernet(&[0x81, 0, 0, 5], [8, 0]), &v4(5, 0), &udp]), Class::Roce);
    assert_eq!(roce(&[&ethernet(&[], [8, 0]), &v4(15, 0x20), &udp]), Class::Roce);
    assert_eq!(roce(&[&ethernet(&[], [8, 0]), &v4(5, 1), &udp]), Class::Other);
    assert_eq!(roce(&[&ethernet(&[], [8, 0]), &v4(5, 0), &udp[..3]]), Class::Other);
    let mut v6 = [0x60; 48];
    (v6[6], v6[40], v6[41]) = (0, 17, 0);
    assert_eq!(roce(&[&ethernet(&[], [0x86, 0xdd]), &v6, &udp]), Class::Roce);
    assert_eq!(roce(&[&ethernet(&[0x81, 0, 0, 5].repeat(3), [8, 0]), &v4(5, 0), &udp]), Class::Deep);
}

#[test]
fn other_frames_take_a_cycle_a_beat_and_raw_ones_two_more_a_word_and_one_a_beat_until_all_is_known() {
    for beat_bytes in WIDTHS {
        let mut random = Random::new(9);
        let mut bench = Bench::new(beat_bytes);
        bench.sinks[1].stall = Some(0.0);
        let frame = [&[0; 12][..], &[8, 0], &[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17], &[0; 60]].concat();
        let beats = frame.len().div_ceil(beat_bytes as usize) as u64;
        let mut takes = |raw: bool| {
            (0..10).for_each(|_| bench.push(&frame, raw, true, false, true));
            bench.drain(&mut random, 0.0);
            let cycles = &bench.sinks[0].cycles;
            let last = cycles.len() - 1;
            let took = cycles[last] + 1 - cycles[last + 1 - 10 * beats as usize];
            bench.sinks.iter_mut().for_each(Sink::clear);
            took
        };
        assert_eq!(takes(false), 10 * beats);
        // EtherType, version, offset, protocol and port; and a cycle in each beat up to that of the port. The first frame's wait for the first beat is before
        // what is counted.
        let words = [12, 14, 20, 22, 36];
        let first = 1 + 2 * words.iter().filter(|at| **at < beat_bytes).count() as u64;
        let waits = 10 + u64::from(36 / beat_bytes) + 1;
        assert_eq!(takes(true), 10 * (beats + waits) - first, "{beat_bytes} bytes a beat");
    }
}
