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
    /// Headers, frames, reports.
    sinks: [Sink; 3],
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
    again: bool,
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
            m.stream_out("gaps", out.of.gaps);
            out.of.proofs.accept(1);
            m.discard(&out.of.proofs.payload);
            m.discard(&out.of.proofs.valid);
            m.output("keeps", &out.of.keeps);
            m.output("full", &out.of.full);
            m.output("empty", &out.of.empty);
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
        let sinks = [
            Sink::new("given", &bits(ITEM_BITS)),
            Sink::new("out", &beat),
            Sink::new("gaps", &Gap::of(&cfg)),
        ];
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
                ("again", packet.again.into()),
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
                let packet = Packet {
                    flow: Some(flow),
                    psn,
                    distance,
                    further,
                    again: false,
                    bytes: random.bytes(length),
                };
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
        let mut senders: Vec<Sender> = (0..8)
            .map(|n| {
                // Requests of some queue pairs, and responses of others.
                let flow = if n < 4 { n } else { n - 2 + QPS as usize };
                Sender::new(&mut bench.random, flow, n >= 4, 300)
            })
            .collect();
        for sender in &senders {
            bench.start(sender.flow, sender.first);
        }
        let (mut plain, mut seen) = (0, 0);
        while senders.iter().any(|sender| !sender.over()) {
            if bench.sources[0].left() < 6 {
                let n = bench.random.rng.random_range(0..9);
                let packet = match senders.get_mut(n) {
                    Some(sender) => sender.send(&mut bench.random, loss),
                    None => {
                        plain += 1;
                        let bytes = bench.random.bytes(70);
                        Some(Packet { flow: None, psn: plain, distance: 0, further: 0, again: false, bytes })
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

/// A report: of which flow, from which PSN on, how much was heard and is lost, and the marks.
#[derive(Debug)]
struct Report {
    flow: usize,
    base: u64,
    heard: u64,
    lost: u64,
    marks: [bool; 256],
}

impl Bench {
    /// Reports that are whole, from the `seen`-th on.
    fn reports(&self, seen: usize) -> Vec<Report> {
        let parts = &self.sinks[2].items[8 * seen..];
        parts
            .chunks_exact(8)
            .map(|parts| {
                let of = |item: &crate::testing::Item, field: &str| item[field].to_u128() as u64;
                let mut marks = [false; 256];
                for (w, part) in parts.iter().enumerate() {
                    for field in ["flow", "base", "heard", "lost"] {
                        assert_eq!(of(part, field), of(&parts[0], field));
                    }
                    assert_eq!(of(part, "last"), u64::from(w == 7));
                    (0..32).for_each(|i| marks[32 * w + i] = of(part, "word") >> i & 1 == 1);
                }
                let field = |name: &str| of(&parts[0], name);
                let flow = field("flow") as usize;
                Report { flow, base: field("base"), heard: field("heard"), lost: field("lost"), marks }
            })
            .collect()
    }
}

impl Report {
    fn marked(&self, psn: u64) -> bool {
        self.marks[psn as usize % 256]
    }

    /// What it says is so, as the contract has it.
    fn check(&self, seed: u64) {
        let inside = |psn: u64| (psn + CIRCLE - self.base) % CIRCLE < self.heard;
        let kept: Vec<u64> = (0..256).filter(|i| self.marked(self.base + i)).collect();
        assert!(kept.iter().all(|i| inside(self.base + i)), "seed {seed}: {self:?}");
        // What begins at `base` may be kept, and about to be handed on.
        assert!(kept.last() == Some(&(self.heard - 1)), "seed {seed}: {self:?}");
        let after = kept.iter().filter(|i| **i >= self.lost).count();
        // One or two may be kept while a report is made.
        let told = |tolerance: &usize| (*tolerance..tolerance + 3).contains(&after);
        let by_tolerance = [32, 16, 8, 4, 2].iter().any(told) && self.marked(self.base + self.lost);
        assert!(self.lost == self.heard || by_tolerance, "seed {seed}: {self:?}");
    }
}

#[test]
fn what_a_report_names_is_all_that_a_sender_has_to_repeat() {
    for (loss, stall, seed) in [(0.01, 0.0, 1), (0.05, 0.1, 2), (0.2, 0.0, 3), (0.05, 0.4, 4)] {
        let mut bench = Bench::new(64, 1024, seed, stall);
        let mut senders: Vec<Sender> =
            (0..6).map(|flow| Sender::new(&mut bench.random, flow, false, 600)).collect();
        for sender in &senders {
            bench.start(sender.flow, sender.first);
        }
        let (mut seen, mut told, mut quiet) = (0, 0, 0);
        let mut again: VecDeque<Packet> = VecDeque::new();
        // When each packet was sent last, and how often.
        let mut sent = vec![vec![(0, 0); 600]; 6];
        let mut now = 0;
        let (mut lost, mut probes) = (0, 0);
        while senders.iter().any(|sender| sender.given < sender.all.len()) {
            if bench.sources[0].left() < 6 {
                let n = bench.random.rng.random_range(0..6);
                let packet = again.pop_front().or_else(|| {
                    let sender = &mut senders[n];
                    let packet = sender.all.get(sender.next)?;
                    if (packet.psn + CIRCLE - sender.all[sender.given].psn) % CIRCLE >= 4 * WINDOW {
                        return None;
                    }
                    sender.next += 1;
                    sent[n][sender.next - 1].0 = now;
                    Some(packet.clone())
                });
                if let Some(packet) = packet {
                    match bench.random.chance(loss) {
                        true => lost += 1,
                        false => bench.send(&packet),
                    }
                }
            }
            bench.step();
            now += 1;
            for item in &bench.sinks[0].items[seen..] {
                let packet = &bench.sent[number(item)];
                let sender = &mut senders[packet.flow.expect("there are no others")];
                if sender.all.get(sender.given).is_some_and(|next| next.psn == packet.psn) {
                    sender.given += 1;
                    quiet = 0;
                }
            }
            seen = bench.sinks[0].items.len();
            let reports = bench.reports(told);
            told += reports.len();
            for report in reports {
                report.check(seed);
                let sender = &senders[report.flow];
                for (i, packet) in sender.all[..sender.next].iter().enumerate().skip(sender.given) {
                    let is_lost = (packet.psn + CIRCLE - report.base) % CIRCLE < report.lost;
                    if is_lost && !report.marked(packet.psn) && now - sent[report.flow][i].0 > 400 {
                        sent[report.flow][i] = (now, sent[report.flow][i].1 + 1);
                        again.push_back(Packet { again: true, ..packet.clone() });
                    }
                }
            }
            quiet += 1;
            if quiet > 1500 {
                // The probe: the oldest packet of each.
                for sender in senders.iter().filter(|sender| sender.given < sender.all.len()) {
                    again.push_back(Packet { again: true, ..sender.all[sender.given].clone() });
                    probes += 1;
                }
                quiet = 0;
            }
            assert!(probes < 400, "seed {seed}: {:?}", senders.iter().map(|s| s.given).collect::<Vec<_>>());
        }
        bench.drain();
        check(&bench.given(), &senders, seed);
        assert_eq!(bench.sim.get("empty"), 1, "seed {seed}");
        let repeated: usize = sent.iter().flatten().map(|(_, times)| times).sum();
        println!("seed {seed}: {lost} lost, {repeated} repeated, {probes} probes, {told} reports");
        assert!(
            told > 10 && repeated + probes < 2 * lost + 30,
            "seed {seed}: {repeated}, {probes} for {lost}"
        );
    }
}

/// What was kept leaves as fast as it can be written: so a queue pair that sends at the rate of the line comes to its end.
#[test]
fn what_is_kept_leaves_faster_than_the_line_brings_it() {
    for (length, most) in [(1082, 20), (4154, 68)] {
        let mut bench = Bench::new(64, 1024, 1, 0.0);
        bench.start(0, 0);
        let packet = |psn: u64| Packet {
            flow: Some(0),
            psn,
            distance: 0,
            further: 0,
            again: false,
            bytes: (0..length).map(|i| (psn + i) as u8).collect(),
        };
        (1..40).for_each(|psn| bench.send(&packet(psn)));
        while bench.sources[1].left() > 0 {
            bench.step();
        }
        (0..200).for_each(|_| bench.step());
        // And others come meanwhile, a packet in 22 cycles of the line.
        bench.send(&packet(0));
        let mut cycles = 0;
        let mut next = 40;
        while bench.sinks[1].frames_seen() < 40 {
            if bench.sinks[1].frames_seen() > 0 {
                cycles += 1;
                if cycles % (length / 48) == 0 {
                    bench.send(&packet(next));
                    next += 1;
                }
            }
            bench.step();
            assert!(cycles < 10_000);
        }
        println!("{length}: {} cycles a packet", cycles / 39);
        assert!(cycles / 39 <= most, "{length}: {} cycles a packet", cycles / 39);
    }
}
