// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of random SGEs, cut into packets from anywhere on, against their bytes counted one by one.

use super::*;
use crate::testing::{item, step, Item, Random, Sink, Source};
use ferrowire_rtl::{build, Bits, Sim};
use ferrowire_spec::queue::send_wqe::sge::Sge;
use rand::Rng;
use std::collections::HashMap;

// Sinks.
const PARTS: usize = 0;
const INLINE: usize = 1;

/// A message: its SGEs, or its inline data.
#[derive(Clone, Debug)]
struct Message {
    sges: Vec<Sge>,
    inline: Option<Vec<u8>>,
    bank: Option<usize>,
    /// Of a READ: one packet, whose SGEs are looked up whole.
    answered: bool,
}

impl Message {
    fn length(&self) -> u64 {
        match &self.inline {
            Some(data) => data.len() as u64,
            None => self.sges.iter().map(|sge| u64::from(sge.len)).sum(),
        }
    }

    /// The WQE's bytes from the first SGE's place on, as many as four continuation units hold.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 16 + 4 * 64];
        match &self.inline {
            Some(data) => bytes[..data.len()].copy_from_slice(data),
            None => {
                for (sge, at) in self.sges.iter().zip(bytes.chunks_mut(16)) {
                    sge.emit(at).unwrap();
                }
            }
        }
        bytes
    }
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: [Source; 1],
    sinks: [Sink; 2],
    random: Random,
    parts: Vec<Item>,
    /// Bytes of inline data, message by message.
    inline: Vec<Vec<u8>>,
    /// Banks in use: each with the number of parts behind which it may be given back.
    banks: [Option<usize>; 4],
    seen: usize,
    /// Further SGEs of READs, by the index of their packet, and whether each has come or is not needed.
    further: HashMap<u64, (Vec<u8>, Vec<bool>)>,
    packets: u64,
}

impl Bench {
    fn new(seed: u64, beat_bytes: u32) -> Bench {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
        let netlist = build("bench", |m| {
            let candidates = m.stream_in("candidate", &Candidate::of(&cfg));
            let stored = crate::requester::list::stored_of(&cfg);
            let out = gather(m, &cfg, candidates, m.input_of("stored", &stored));
            m.stream_out("part", out.parts);
            m.stream_out("inline", out.inline);
            m.output("kept", &out.kept);
            // Of the cycle before.
            m.output("released", &m.delay("was_released", &out.released));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        Bench {
            sim,
            sources: [Source::new("candidate", &Candidate::of(&cfg))],
            sinks: [Sink::new("part", &Part::of(&cfg)), Sink::new("inline", &Inline::of(&cfg))],
            cfg,
            random: Random::new(seed),
            parts: Vec::new(),
            inline: Vec::new(),
            banks: [None; 4],
            seen: 0,
            further: HashMap::new(),
            packets: 0,
        }
    }

    fn message(&mut self, most: u32) -> Message {
        let rng = &mut self.random.rng;
        let bank = self.banks.iter().position(Option::is_none).filter(|_| rng.random());
        if rng.random_range(0..6) == 0 {
            let room = if bank.is_some() { 256 } else { 16 };
            let bytes = rng.random_range(1..=room);
            let inline = Some(self.random.bytes(bytes));
            return Message { sges: Vec::new(), inline, bank, answered: false };
        }
        let count = if bank.is_some() { rng.random_range(1..=16) } else { 1 };
        let sge = |rng: &mut rand::rngs::SmallRng| {
            let len = match rng.random_range(0..6) {
                0 => 0,
                1 => rng.random_range(0..=most),
                _ => rng.random_range(0..=most / 20 + 1),
            };
            let addr: u64 = match rng.random() {
                true => rng.random(),
                false => {
                    (rng.random::<u64>() & !0xfff).wrapping_sub(rng.random_range(0..=u64::from(len) + 70))
                }
            };
            Sge { addr, lkey: rng.random(), len }
        };
        let sges = (0..count).map(|_| sge(rng)).collect();
        Message { sges, inline: None, bank, answered: rng.random_range(0..3) == 0 }
    }

    /// The units of a message come into its bank.
    fn store(&mut self, message: &Message) {
        let Some(bank) = message.bank else { return };
        self.banks[bank] = Some(usize::MAX);
        let grain = grain(&self.cfg) as usize;
        let per_bank = UNITS as usize * 64 / grain;
        for (i, unit) in message.bytes()[16..].chunks(grain).enumerate() {
            self.sim.set("stored_index", (per_bank * bank + i) as u64);
            self.sim.set_bits("stored_entry", &Bits::from_bytes(8 * grain as u32, unit));
            self.sim.set("stored_enable", 1);
            self.step(0.5);
        }
        self.sim.set("stored_enable", 0);
    }

    /// The packets from `from` on, `count` of them at most. Returns the offset behind them.
    fn run(&mut self, message: &Message, from: u64, mtu: u64, count: usize) -> u64 {
        let (length, raw) = (message.length(), message.bytes());
        let first = Sge::parse(&raw[..16]).unwrap();
        let mut offset = from;
        for n in 0..count {
            let bytes = if message.answered { length - offset } else { (length - offset).min(mtu) };
            let last = message.answered || length - offset <= mtu;
            self.packets += 1;
            let index = self.packets & 0xffff;
            let rng = &mut self.random.rng;
            let packet = [
                ("packet_qp", rng.random_range(0..16)),
                ("packet_psn", rng.random_range(0..1 << 24)),
                ("packet_index", index.into()),
                ("packet_bytes", if message.answered { 0 } else { bytes.into() }),
                ("packet_length", (length - offset).into()),
                ("packet_answered", message.answered.into()),
                ("packet_last", last.into()),
            ];
            let left = u128::from(u64::from(first.len).wrapping_sub(from) & ((1 << 33) - 1));
            let walk = [
                ("pays", u128::from(bytes > 0)),
                ("begins", u128::from(n == 0)),
                ("sge_va", first.addr.wrapping_add(from).into()),
                ("sge_key", first.lkey.into()),
                ("sge_left", left),
                ("inline", message.inline.is_some().into()),
                ("banked", message.bank.is_some().into()),
                ("bank", message.bank.unwrap_or(3) as u128),
            ];
            self.sources[0].push_values(&[&packet[..], &walk].concat());
            self.expect(message, &packet, offset, bytes);
            if message.answered && bytes > 0 {
                // Those of the SGEs that hold something.
                let used = message.sges.iter().rposition(|sge| sge.len > 0).unwrap();
                let come = (0..16).map(|number| number >= used).collect();
                self.further.insert(index, (raw[16..].to_vec(), come));
            }
            offset += bytes;
            if last {
                break;
            }
        }
        if let Some(bank) = message.bank {
            self.banks[bank] = Some(self.parts.len());
        }
        offset
    }

    fn expect(&mut self, message: &Message, packet: &[(&str, u128)], offset: u64, bytes: u64) {
        let mut pieces = Vec::new();
        if let Some(data) = &message.inline {
            pieces.push(vec![("inline", 1), ("va", 48), ("bytes", bytes.into())]);
            self.inline.push(data.clone());
        }
        let (mut at, mut done) = (0, 0);
        for (number, sge) in message.sges.iter().enumerate().filter(|_| message.inline.is_none()) {
            let (begin, end) = (at, at + u64::from(sge.len));
            at = end;
            while done < bytes && offset + done >= begin && offset + done < end {
                let va = sge.addr.wrapping_add(offset + done - begin);
                let rest = end - offset - done;
                let n = match message.answered {
                    true => rest,
                    false => rest.min(bytes - done).min(4096 - va % 4096),
                };
                let piece = [("key", sge.lkey.into()), ("va", va.into()), ("rest", rest.into())];
                let size = if message.answered { 0 } else { n.into() };
                let size = [("asks", 1), ("bytes", size), ("number", number as u128)];
                pieces.push([&piece[..], &size].concat());
                done += n;
            }
        }
        if pieces.is_empty() {
            pieces.push(Vec::new());
        }
        for (i, piece) in pieces.iter().enumerate() {
            let last = [("last", u128::from(i + 1 == pieces.len()))];
            self.parts.push(item(&Part::of(&self.cfg), &[packet, piece, &last].concat()));
        }
    }

    /// A start, or a WQE that cannot be sent, whatever else it says.
    fn odd(&mut self) {
        let rng = &mut self.random.rng;
        let start = rng.random::<bool>();
        let packet = [
            ("packet_start", start.into()),
            ("packet_status", if start { 0 } else { 2 }),
            ("packet_bytes", rng.random_range(0..4096)),
            ("packet_last", 1),
        ];
        let walk =
            [("begins", 1), ("inline", rng.random::<bool>().into()), ("sge_left", rng.random_range(0..99))];
        self.sources[0].push_values(&[&packet[..], &walk].concat());
        self.parts.push(item(&Part::of(&self.cfg), &[&packet[..], &[("last", 1)]].concat()));
    }

    fn step(&mut self, stall: f64) {
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, stall);
        let seed = self.random.seed;
        for part in &self.sinks[PARTS].items[self.seen..] {
            let (mut found, expected) = (part.clone(), &self.parts[self.seen]);
            // What means nothing.
            let asks = !found["asks"].is_zero();
            let inline = !found["inline"].is_zero();
            let whole = !found["packet_answered"].is_zero();
            for (field, means) in [
                ("key", asks),
                ("rest", asks),
                ("number", asks),
                ("va", asks || inline),
                ("bytes", (asks && !whole) || inline),
            ] {
                if !means {
                    let width = found[field].width();
                    found.insert(field.into(), Bits::zero(width));
                }
            }
            assert_eq!(&found, expected, "seed {seed}: part {}", self.seen);
            self.seen += 1;
        }
        if self.sim.get("kept_valid") == 1 {
            let (index, number) = (self.sim.get("kept_index"), self.sim.get("kept_number") as usize);
            let (sges, come) = self.further.get_mut(&index).expect("of a READ");
            let sge = self.sim.get_bits("kept_sge").to_bytes();
            assert_eq!(sge, sges[16 * number..][..16], "seed {seed}: SGE {number} of {index}");
            come[number] = true;
        }
        let released = self.sim.get("released");
        for bank in (0..4).filter(|bank| released >> bank & 1 == 1) {
            let until = self.banks[bank].take().expect("a bank in use");
            assert!(until <= self.seen, "seed {seed}: bank {bank} is given back too early");
        }
    }

    fn drain(&mut self, stall: f64) {
        for _ in 0..50_000 {
            if self.seen == self.parts.len() && self.sources[0].left() == 0 {
                break;
            }
            self.step(stall);
        }
        assert_eq!((self.seen, self.sources[0].left()), (self.parts.len(), 0), "seed {}", self.random.seed);
        (0..INLINE_BEATS + 6).for_each(|_| self.step(0.0));
        let all = self.further.drain().all(|(_, (_, come))| come.iter().all(|come| *come));
        assert!(all, "seed {}: an SGE that an answer needs is not kept", self.random.seed);
    }

    fn check_inline(&self) {
        let b = self.cfg.beat_bytes as usize;
        let mut beats = self.sinks[INLINE].items.iter();
        for data in &self.inline {
            let count = (48 % b + data.len()).div_ceil(b);
            let mut found = Vec::new();
            for i in 0..count {
                let beat = beats.next().expect("a beat");
                assert_eq!(!beat["last"].is_zero(), i + 1 == count, "seed {}", self.random.seed);
                found.extend(beat["data"].to_bytes());
            }
            assert_eq!(&found[48 % b..][..data.len()], &data[..], "seed {}", self.random.seed);
        }
        assert!(beats.next().is_none(), "seed {}: a beat too many", self.random.seed);
    }
}

#[test]
fn every_byte_of_a_packet_is_in_its_piece_wherever_the_message_goes_on() {
    for (seed, beat_bytes) in [(1, 8), (2, 16), (3, 32), (4, 64), (5, 64)] {
        let mut bench = Bench::new(seed, beat_bytes);
        let mut inside = 0;
        for n in 0..400 {
            let mtu = 256 << bench.random.rng.random_range(0..5);
            let most = [300, 3000, 40_000, 2_000_000][bench.random.rng.random_range(0..4)];
            let message = bench.message(most);
            bench.store(&message);
            // Some packets, and later again from anywhere.
            let mut offset = 0;
            let packets = message.length().div_ceil(mtu).max(1);
            if message.inline.is_none() && bench.random.chance(0.5) {
                offset = mtu * bench.random.rng.random_range(0..packets);
            }
            inside += u32::from(offset > 0);
            let count = bench.random.rng.random_range(1..8);
            bench.run(&message, offset, mtu, count);
            if bench.random.chance(0.1) {
                bench.odd();
            }
            for _ in 0..bench.random.rng.random_range(0..20) {
                bench.step([0.0, 0.3, 0.7][n % 3]);
            }
            if n % 8 == 0 {
                bench.drain(0.3);
            }
        }
        bench.odd();
        bench.drain(0.0);
        bench.check_inline();
        assert_eq!(bench.banks, [None; 4], "seed {seed}");
        assert!(inside > 50, "seed {seed}: {inside}");
    }
}

#[test]
fn a_part_a_cycle_and_one_for_each_sge_without_bytes_and_each_packet() {
    let mut bench = Bench::new(11, 64);
    bench.sources[0].stall = Some(0.0);
    bench.sinks[PARTS].stall = Some(0.0);
    let sge = |len| Sge { addr: 0x1000, lkey: 7, len };
    let lengths = [64, 0, 10, 0, 0, 20, 8192 + 100, 256];
    let message = Message { sges: lengths.map(sge).to_vec(), inline: None, bank: Some(2), answered: false };
    bench.store(&message);
    let one = Message { sges: vec![sge(64)], inline: None, bank: None, answered: false };
    for _ in 0..5 {
        bench.run(&one, 0, 1024, 1);
    }
    bench.run(&message, 0, 4096, 9);
    bench.run(&one, 0, 1024, 1);
    bench.drain(0.0);
    let cycles = &bench.sinks[PARTS].cycles;
    assert_eq!(bench.sources[0].cycles[0] + 1, cycles[0]);
    // Packets of 4096, 4096 and 450 bytes: four pieces, two and three; three SGEs without bytes. Each of the nine packets enters in a cycle of its own.
    assert_eq!(cycles.len(), 5 + 4 + 2 + 3 + 1);
    assert_eq!(cycles[cycles.len() - 1] - cycles[0] + 1, cycles.len() as u64 + 3 + 8);
}

#[test]
fn a_message_that_goes_on_finds_its_place_at_an_sge_a_cycle() {
    let mut bench = Bench::new(12, 64);
    bench.sources[0].stall = Some(0.0);
    bench.sinks[PARTS].stall = Some(0.0);
    let sges: Vec<Sge> = (0..16).map(|i| Sge { addr: i << 32, lkey: i as u32, len: 1000 }).collect();
    let message = Message { sges, inline: None, bank: Some(0), answered: false };
    bench.store(&message);
    let one =
        Message { sges: vec![Sge { addr: 0, lkey: 1, len: 64 }], inline: None, bank: None, answered: false };
    bench.run(&one, 0, 1024, 1);
    // Byte 14,336 is in the SGE number 14, counted from 0.
    bench.run(&message, 14 * 1024, 1024, 1);
    bench.drain(0.0);
    let cycles = &bench.sinks[PARTS].cycles;
    assert_eq!(cycles[1] - cycles[0], 2 + 14);
}

#[test]
fn the_largest_packet_has_two_parts_an_sge() {
    let mut bench = Bench::new(13, 8);
    let sges = (0..16).map(|i| Sge { addr: ((i + 1) << 20) - 128, lkey: i as u32, len: 256 }).collect();
    let message = Message { sges, inline: None, bank: Some(1), answered: false };
    bench.store(&message);
    bench.run(&message, 0, 4096, 1);
    bench.drain(0.2);
    assert_eq!(bench.parts.len(), 32);
}
