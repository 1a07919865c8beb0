// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flows of packets that are lost, reordered and repeated: each is handed on in order, with its frame.

use super::*;
use crate::testing::{step, Random, Sink, Source};
use ferrowire_rtl::{build, Bits, Sim};
use rand::Rng;
use std::collections::VecDeque;

const QPS: u32 = 8;
const ITEM_BITS: u32 = 450;
const CIRCLE: u64 = 1 << 24;
/// PSNs that a sender may be ahead, so few that a response that reaches back has its slot even if the walk is late.
const WINDOW: u64 = 60;

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    /// Headers, frames, starts.
    sources: [Source; 3],
    /// Headers, frames.
    sinks: [Sink; 2],
    random: Random,
    stall: f64,
    /// The number of each packet that was sent: what it is.
    sent: Vec<Packet>,
}

#[derive(Clone, Debug)]
struct Packet {
    /// None: of a queue pair without selective retransmission.
    flow: Option<usize>,
    psn: u64,
    distance: u64,
    /// PSNs that it covers after its own.
    further: u64,
    bytes: Vec<u8>,
}

impl Bench {
    fn new(beat_bytes: u32, chunks: u32, seed: u64, stall: f64) -> Bench {
        let cfg = RnicConfig { beat_bytes, qps: QPS, ..RnicConfig::named("generic-64b").unwrap() };
        let front = Front::of(&cfg, bits(ITEM_BITS));
        let beat = Beat::of(beat_bytes);
        let mtu = TableWrite { enable: bits(1), index: bits(cfg.qp_bits()), entry: bits(3) };
        let netlist = build("bench", |m| {
            let out = keep(
                m,
                &cfg,
                chunks,
                m.stream_in("headers", &front),
                m.stream_in("frame", &beat),
                m.input_of("mtus", &mtu),
                m.stream_in("starts", &Start::of(&cfg)),
                m.input_of("stops", &Stops::of(&cfg)),
                m.input("tick", 1),
            );
            m.stream_out("given", out.headers);
            m.stream_out("out", out.frame);
            m.output("full", &out.full);
            m.output("empty", &out.empty);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        for qp in 0..QPS {
            sim.set("mtus_enable", 1);
            sim.set("mtus_index", qp.into());
            // 256 bytes.
            sim.set("mtus_entry", 1);
            sim.tick();
        }
        sim.set("mtus_enable", 0);
        // Slots are swept.
        (0..shelf::CONTEXTS * 256 + 8).for_each(|_| sim.tick());
        let sources = [
            Source::new("headers", &front),
            Source::new("frame", &beat),
            Source::new("starts", &Start::of(&cfg)),
        ];
        let sinks = [Sink::new("given", &bits(ITEM_BITS)), Sink::new("out", &beat)];
        Bench { cfg, sim, sources, sinks, random: Random::new(seed), stall, sent: Vec::new() }
    }

    fn start(&mut self, flow: usize, psn: u64) {
        self.sources[2].push_values(&[("flow", flow as u128), ("psn", psn.into())]);
        while self.sources[2].left() > 0 {
            self.step();
        }
        (0..8).for_each(|_| self.step());
    }

    fn send(&mut self, packet: &Packet) {
        let number = self.sent.len() as u128;
        self.sent.push(packet.clone());
        let mut bytes = vec![0; (ITEM_BITS / 8) as usize];
        bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
        bytes[48..56].copy_from_slice(&(!number as u64).to_le_bytes());
        let mut item = crate::testing::item(
            &Front::of(&self.cfg, bits(ITEM_BITS)),
            &[
                ("selective", packet.flow.is_some().into()),
                ("flow", packet.flow.unwrap_or(0) as u128),
                ("psn", packet.psn.into()),
                ("last_byte", (256 * packet.further).into()),
                ("reads", (packet.further > 0).into()),
                ("distance", packet.distance.into()),
            ],
        );
        item.insert("item".into(), Bits::from_bytes(ITEM_BITS, &bytes));
        self.sources[0].push(item);
        self.sources[1].push_frame(&packet.bytes);
    }

    fn step(&mut self) {
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
    }

    fn drain(&mut self) {
        let (mut quiet, mut seen) = (0, 0);
        while quiet < 400 {
            self.step();
            let left: usize = self.sources.iter().map(Source::left).sum();
            let now = self.sinks[0].items.len() + self.sinks[1].items.len() + left;
            quiet = if now == seen && left == 0 { quiet + 1 } else { 0 };
            seen = now;
        }
    }

    /// Packets that were handed on, in their order; each with its own frame.
    fn given(&self) -> Vec<Packet> {
        let frames = self.sinks[1].frames();
        assert_eq!(frames.len(), self.sinks[0].items.len(), "seed {}", self.random.seed);
        let given: Vec<Packet> =
            self.sinks[0].items.iter().map(|item| self.sent[number(item)].clone()).collect();
        for (packet, frame) in given.iter().zip(&frames) {
            assert!(packet.bytes == *frame, "seed {}: the frame of {:?}", self.random.seed, packet.psn);
        }
        given
    }
}

/// The number of the packet that an item of headers is of.
fn number(item: &crate::testing::Item) -> usize {
    let bytes = item[""].to_bytes();
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(u64::from_le_bytes(bytes[48..56].try_into().unwrap()), !number);
    number as usize
}

/// What a sender of a flow does: it sends on, and what was lost once more.
struct Sender {
    flow: usize,
    first: u64,
    /// All packets, in order.
    all: Vec<Packet>,
    next: usize,
    /// Packets that were lost or are late, to be sent after so many others.
    late: VecDeque<(usize, usize)>,
    /// Packets that were handed on in order: the window begins after them.
    given: usize,
}

impl Sender {
    fn new(random: &mut Random, flow: usize, responses: bool, packets: usize) -> Sender {
        let first = random.rng.random_range(0..CIRCLE);
        let first = if random.chance(0.3) { CIRCLE - 20 } else { first };
        let mut psn = first;
        let all = (0..packets)
            .map(|_| {
                let some = random.chance(0.2);
                let distance = if responses && some { random.rng.random_range(0..128) } else { 0 };
                let further = if !responses && some { random.rng.random_range(1..20) } else { 0 };
                psn = (psn + distance) % CIRCLE;
                let length = if random.chance(0.2) { 1500 } else { 100 };
                let length = random.rng.random_range(58..58 + length);
                let packet = Packet { flow: Some(flow), psn, distance, further, bytes: random.bytes(length) };
                psn = (psn + 1 + further) % CIRCLE;
                packet
            })
            .collect();
        Sender { flow, first, all, next: 0, late: VecDeque::new(), given: 0 }
    }

    fn over(&self) -> bool {
        self.next == self.all.len() && self.late.is_empty()
    }

    /// The next packet on the wire: nothing goes further than the window from what is missing.
    fn send(&mut self, random: &mut Random, loss: f64) -> Option<Packet> {
        self.late.iter_mut().for_each(|(_, after)| *after = after.saturating_sub(1));
        if let Some(at) = self.late.iter().position(|(_, after)| *after == 0) {
            let (number, _) = self.late[at];
            if random.chance(loss) {
                self.late[at].1 = random.rng.random_range(1..40);
                return None;
            }
            self.late.remove(at);
            return Some(self.all[number].clone());
        }
        let packet = self.all.get(self.next)?;
        if (packet.psn + CIRCLE - self.all[self.given].psn) % CIRCLE >= WINDOW {
            return None;
        }
        self.next += 1;
        if random.chance(loss) {
            self.late.push_back((self.next - 1, random.rng.random_range(1..40)));
            return None;
        }
        if random.chance(0.02) {
            // A copy comes later.
            self.late.push_back((self.next - 1, random.rng.random_range(1..60)));
        }
        Some(packet.clone())
    }
}

/// Each flow in order, each packet once, but for copies of those that came before.
fn check(given: &[Packet], senders: &[Sender], seed: u64) {
    for sender in senders {
        let mut expected = 0;
        for packet in given.iter().filter(|packet| packet.flow == Some(sender.flow)) {
            let behind = |number: usize| sender.all[..number].iter().any(|p| p.psn == packet.psn);
            match sender.all.get(expected) {
                Some(next) if next.psn == packet.psn => expected += 1,
                _ => assert!(
                    behind(expected),
                    "seed {seed}: flow {} hands on {:#x} too early, {expected} of {} were",
                    sender.flow,
                    packet.psn,
                    sender.all.len()
                ),
            }
        }
        assert_eq!(expected, sender.all.len(), "seed {seed}: flow {}", sender.flow);
    }
}

#[test]
fn flows_come_in_order_whatever_the_network_does() {
    for (beat_bytes, loss, stall, seed) in [
        (64, 0.0, 0.0, 1),
        (64, 0.05, 0.0, 2),
        (64, 0.2, 0.0, 3),
        (64, 0.3, 0.3, 4),
        (16, 0.1, 0.1, 5),
        (64, 0.5, 0.0, 6),
    ] {
        let mut bench = Bench::new(beat_bytes, 1024 * 64 / beat_bytes, seed, stall);
        let mut senders: Vec<Sender> = (0..12)
            .map(|n| {
                // Requests of some queue pairs, and responses of others.
                let flow = if n < 6 { n } else { n - 4 + QPS as usize };
                Sender::new(&mut bench.random, flow, n >= 6, 300)
            })
            .collect();
        for sender in &senders {
            bench.start(sender.flow, sender.first);
        }
        let (mut plain, mut seen) = (0, 0);
        while senders.iter().any(|sender| !sender.over()) {
            if bench.sources[0].left() < 6 {
                let n = bench.random.rng.random_range(0..13);
                let packet = match senders.get_mut(n) {
                    Some(sender) => sender.send(&mut bench.random, loss),
                    None => {
                        plain += 1;
                        let bytes = bench.random.bytes(70);
                        Some(Packet { flow: None, psn: plain, distance: 0, further: 0, bytes })
                    }
                };
                if let Some(packet) = packet {
                    bench.send(&packet);
                }
            }
            bench.step();
            for item in &bench.sinks[0].items[seen..] {
                let packet = &bench.sent[number(item)];
                let sender = senders.iter_mut().find(|sender| Some(sender.flow) == packet.flow);
                if let Some(sender) = sender
                    .filter(|sender| sender.all.get(sender.given).is_some_and(|next| next.psn == packet.psn))
                {
                    sender.given += 1;
                }
            }
            seen = bench.sinks[0].items.len();
            assert_eq!(bench.sim.get("full"), 0, "seed {seed}: there is room");
        }
        bench.drain();
        let given = bench.given();
        check(&given, &senders, seed);
        let others: Vec<u64> = given.iter().filter(|p| p.flow.is_none()).map(|p| p.psn).collect();
        assert_eq!(others, (1..=plain).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(bench.sim.get("empty"), 1, "seed {seed}: nothing is kept in the end");
    }
}
