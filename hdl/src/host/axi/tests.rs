// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part alone before a subordinate that answers when it likes, and its pieces.

use super::barrier::{barrier, Bursts, COUNT, MOST};
use super::bursts::{bursts, Burst, Run};
use super::*;
use crate::testing::{run, step, Random, Sink, Source};
use ferrowire_rtl::{Bits, Sim};
use rand::Rng;
use std::collections::{BTreeMap, VecDeque};

fn config(beat_bytes: u32, axi_burst_beats: u32) -> RnicConfig {
    RnicConfig { beat_bytes, axi_burst_beats, ..RnicConfig::named("axi-8b").unwrap() }
}

#[test]
fn the_engine_passes_the_build_time_checks_at_every_width_and_burst() {
    for beat_bytes in [8, 16, 32, 64] {
        for burst in [1, 4, 16, 256] {
            let cfg = config(beat_bytes, burst);
            cfg.validate().unwrap();
            engine(&cfg).unwrap_or_else(|e| panic!("{beat_bytes} bytes a beat, bursts of {burst}:\n{e}"));
        }
    }
}

#[test]
fn bursts_cover_a_run_and_leave_no_page_nor_their_length() {
    for (beat_bytes, most) in [(8u32, 1u32), (8, 16), (8, 256), (64, 1), (64, 16), (64, 256)] {
        let cfg = config(beat_bytes, most);
        let run_shape = Run { address: bits(64), length: bits(13), id: bits(ID_BITS) };
        let burst_shape = Burst { address: bits(64), len: bits(8), id: bits(ID_BITS), last: bits(1) };
        let netlist = build("top", |m| {
            let input = m.stream_in("run", &run_shape);
            m.stream_out("burst", bursts(m, &cfg, input));
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        let mut random = Random::new(u64::from(beat_bytes + most));
        let mut sources = [Source::new("run", &run_shape)];
        let mut sinks = [Sink::new("burst", &burst_shape)];
        let beat = u64::from(beat_bytes);
        let mut expected = Vec::new();
        for i in 0..300u64 {
            let at = if i % 3 == 0 { 0 } else { random.rng.random_range(0..4096) };
            let length = if i % 5 == 0 { 4096 - at } else { random.rng.random_range(1..=4096 - at) };
            let address = random.rng.random::<u64>() & !0xfff | at;
            let fields = [("address", address.into()), ("length", length.into()), ("id", u128::from(i & 3))];
            sources[0].push_values(&fields);
            let mut beats: Vec<u64> =
                (address / beat..=(address + length - 1) / beat).map(|n| n * beat).collect();
            while !beats.is_empty() {
                let end = beats
                    .iter()
                    .position(|b| (b / beat + 1) % u64::from(most) == 0 || b % 4096 == 4096 - beat);
                let rest = beats.split_off(end.map_or(beats.len(), |end| end + 1));
                expected.push((beats[0], beats.len() as u64 - 1, i & 3, u64::from(rest.is_empty())));
                beats = rest;
            }
        }
        let count = expected.len();
        run(&mut sim, &mut sources, &mut sinks, &mut random, 0.3, 1_000_000, |s| s[0].items.len() == count);
        let field = |item: &crate::testing::Item, name: &str| item[name].to_u64();
        let got: Vec<_> = sinks[0]
            .items
            .iter()
            .map(|item| (field(item, "address"), field(item, "len"), field(item, "id"), field(item, "last")))
            .collect();
        assert_eq!(got, expected, "{beat_bytes} bytes a beat, bursts of {most}, seed {}", random.seed);
    }
}

#[test]
fn nothing_leaves_a_barrier_early_however_often_the_counts_wrap_while_it_waits() {
    let netlist = build("top", |m| {
        let counts = (0..2).map(|k| m.input_of(&format!("bursts{k}"), &Bursts::of())).collect();
        let input = m.stream_in("beat", &bits(32));
        m.stream_out("out", barrier(m, 8, counts, input));
    });
    let netlist = netlist.unwrap();
    for seed in 0..10 {
        let mut sim = Sim::new(&netlist);
        sim.reset();
        let mut random = Random::new(seed);
        let mut sources = [Source::new("beat", &bits(32))];
        let mut sinks = [Sink::new("out", &bits(32))];
        // Each beat's number, and what had been taken with it.
        let (mut taken, mut done) = ([0u64; 2], [0u64; 2]);
        let mut before: VecDeque<[u64; 2]> = VecDeque::new();
        (0..400).for_each(|i| sources[0].push_values(&[("", i)]));
        let (mut entered, mut left, mut cycle) = (400, 0, 0);
        while left < 400 {
            cycle += 1;
            assert!(cycle < 200_000, "seed {seed}: {left} of 400 left");
            for k in 0..2 {
                taken[k] += u64::from(taken[k] - done[k] < u64::from(MOST) && random.chance(0.9));
                // Counted before this cycle.
                let wrap = (1 << COUNT) - 1;
                sim.set(&format!("bursts{k}_taken"), taken[k] & wrap);
                sim.set(&format!("bursts{k}_done"), done[k] & wrap);
            }
            // Nobody takes anything for longer than the counts need to wrap.
            sinks[0].stall = Some(if cycle % 5000 < 3000 { 1.0 } else { 0.3 });
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.3);
            let now = sources[0].left();
            if now < entered {
                before.push_back(taken);
            }
            entered = now;
            if sinks[0].items.len() > left {
                let wanted = before.pop_front().expect("what left has entered");
                assert!(wanted[0] <= done[0] && wanted[1] <= done[1], "seed {seed}: beat {left} left early");
                assert_eq!(sinks[0].items[left][""].to_u64(), left as u64);
                left += 1;
            }
            for k in 0..2 {
                done[k] += u64::from(done[k] < taken[k] && random.chance(0.8));
            }
        }
    }
}

/// A beat of a write that is handed over.
#[derive(Clone)]
struct Beat {
    order: u64,
    address: u64,
    length: u64,
    at: u64,
    data: Vec<u8>,
    strobe: u64,
    last: bool,
}

/// A burst of writes on the bus.
struct Under {
    order: u64,
    due: u64,
    page: u64,
}

/// A subordinate that keeps the rules, and what the card handed over.
struct Bench {
    sim: Sim,
    beat: u64,
    random: Random,
    cycle: u64,
    /// Bursts of each kind that were handed over and answered.
    taken: [u64; 3],
    done: [u64; 3],
    /// Of the bursts of each kind that are not out yet: what had been handed over of each kind.
    before: [VecDeque<[u64; 3]>; 3],
    /// AW, and bursts of W, that wait for each other.
    addresses: VecDeque<(u64, u64, u64)>,
    beats: VecDeque<Vec<(Bits, Bits)>>,
    open: Vec<(Bits, Bits)>,
    under_way: Vec<Under>,
    memory: BTreeMap<u64, u8>,
    /// Reads that were asked for: beats that are left, and when they may come.
    reads: VecDeque<(u64, u64, u64)>,
    /// How often a write fails, and the kind and page of the first that did since the last reset.
    fails: f64,
    first: Option<(u64, u64)>,
}

impl Bench {
    fn new(cfg: &RnicConfig, seed: u64) -> Self {
        let mut sim = Sim::new(&engine(cfg).unwrap());
        sim.reset();
        for port in ["data_ready", "csr_ready"] {
            sim.set(port, 1);
        }
        Bench {
            sim,
            beat: cfg.beat_bytes.into(),
            random: Random::new(seed),
            cycle: 0,
            taken: [0; 3],
            done: [0; 3],
            before: Default::default(),
            addresses: VecDeque::new(),
            beats: VecDeque::new(),
            open: Vec::new(),
            under_way: Vec::new(),
            memory: BTreeMap::new(),
            reads: VecDeque::new(),
            fails: 0.0,
            first: None,
        }
    }

    /// The subordinate's side of a cycle, before the clock.
    fn drive(&mut self) {
        for channel in ["aw", "w", "ar"] {
            let ready = self.random.chance(0.6);
            self.sim.set(&format!("m_axi_{channel}ready"), ready.into());
        }
        // The oldest of any kind may be answered.
        let due: Vec<usize> = (0..3)
            .filter_map(|order| self.under_way.iter().position(|u| u.order == order))
            .filter(|oldest| self.under_way[*oldest].due <= self.cycle)
            .collect();
        let chosen =
            if due.is_empty() { None } else { Some(due[self.random.rng.random_range(0..due.len())]) };
        self.sim.set("m_axi_bvalid", chosen.is_some().into());
        if let Some(chosen) = chosen {
            let under = self.under_way.remove(chosen);
            self.sim.set("m_axi_bid", under.order);
            let fails = self.random.chance(self.fails);
            let response = if fails { self.random.rng.random_range(2..4) } else { 0 };
            self.sim.set("m_axi_bresp", response);
            if fails && self.sim.get("quiesce_shut") == 0 {
                self.first.get_or_insert((under.order, under.page));
            }
        }
        let read =
            self.reads.front().is_some_and(|(_, _, due)| *due <= self.cycle) && self.random.chance(0.8);
        self.sim.set("m_axi_rvalid", read.into());
        if read {
            let (address, left, _) = self.reads[0];
            let bytes: Vec<u8> =
                (address..address + self.beat).map(|at| *self.memory.get(&at).unwrap_or(&0)).collect();
            self.sim.set_bits("m_axi_rdata", &Bits::from_bytes(8 * self.beat as u32, &bytes));
            self.sim.set("m_axi_rlast", u64::from(left == 0));
        }
    }

    /// What passes, and the clock.
    fn clock(&mut self) {
        let fires = |sim: &mut Sim, channel: &str| {
            sim.get(&format!("m_axi_{channel}valid")) & sim.get(&format!("m_axi_{channel}ready")) == 1
        };
        if fires(&mut self.sim, "b") {
            self.done[self.sim.get("m_axi_bid") as usize] += 1;
        }
        let of = |sim: &mut Sim, field: &str| sim.get(&format!("m_axi_{field}"));
        if fires(&mut self.sim, "aw") {
            let order = of(&mut self.sim, "awid");
            let before = self.before[order as usize].pop_front().expect("a burst that was handed over");
            for (lower, before) in before.iter().enumerate().take(order as usize) {
                assert!(self.done[lower] >= *before, "{order} before {lower}, seed {}", self.random.seed);
            }
            self.addresses.push_back((order, of(&mut self.sim, "awaddr"), of(&mut self.sim, "awlen")));
        }
        if fires(&mut self.sim, "w") {
            self.open.push((self.sim.get_bits("m_axi_wdata"), self.sim.get_bits("m_axi_wstrb")));
            if of(&mut self.sim, "wlast") == 1 {
                self.beats.push_back(std::mem::take(&mut self.open));
            }
        }
        while !self.addresses.is_empty() && !self.beats.is_empty() {
            let (order, address, len) = self.addresses.pop_front().expect("looked at");
            let beats = self.beats.pop_front().expect("looked at");
            assert_eq!(beats.len() as u64, len + 1, "WLAST, seed {}", self.random.seed);
            for (i, (data, strobe)) in (0..).zip(beats) {
                for (lane, byte) in (0..self.beat).zip(data.to_bytes()) {
                    if strobe.bit(lane as u32) {
                        self.memory.insert(address + i * self.beat + lane, byte);
                    }
                }
            }
            let due = self.cycle + self.random.rng.random_range(1..200);
            self.under_way.push(Under { order, due, page: address >> 12 });
        }
        if fires(&mut self.sim, "r") {
            let (address, left, due) = self.reads[0];
            self.reads[0] = (address + self.beat, left.wrapping_sub(1), due);
            if left == 0 {
                self.reads.pop_front();
            }
        }
        if fires(&mut self.sim, "ar") {
            let due = self.cycle + self.random.rng.random_range(1..100);
            self.reads.push_back((of(&mut self.sim, "araddr"), of(&mut self.sim, "arlen"), due));
        }
        self.sim.tick();
        self.cycle += 1;
    }
}

#[test]
fn writes_are_seen_in_the_order_of_their_kinds_and_reads_see_them() {
    for (beat_bytes, burst, seed) in [(8, 1, 1), (8, 32, 2), (8, 256, 3), (64, 4, 4), (64, 64, 5)] {
        let cfg = config(beat_bytes, burst);
        let mut bench = Bench::new(&cfg, seed);
        let beat = bench.beat;
        // What was written to a byte, and when: by the beats handed over.
        let mut written: BTreeMap<u64, Vec<(u64, u8)>> = BTreeMap::new();
        let mut handed = 0;
        // Beats of the write under way, and reads with when they were asked for.
        let mut beats: VecDeque<Beat> = VecDeque::new();
        let mut asked: VecDeque<(u64, u64, u64)> = VecDeque::new();
        let mut reading: Option<(u64, u64)> = None;
        let (mut writes, mut brought, mut reads) = (0, Vec::new(), 0);
        let (mut interrupts, mut raised, mut events_before) = (0, 0, 0);
        // An interrupt comes some cycles behind the response that it waits for.
        while writes < 400
            || reads < 200
            || !asked.is_empty()
            || !beats.is_empty()
            || raised != interrupts
            || bench.sim.get("idle") == 0
        {
            assert!(bench.cycle < 400_000, "seed {seed}: {writes} writes, {reads} reads");
            bench.drive();
            // Writes: entries of 32 and 16 bytes among payload of any length.
            if beats.is_empty() && writes < 400 && bench.random.chance(0.4) {
                let order = [0, 0, 0, 1, 1, 2][bench.random.rng.random_range(0..6)];
                let page = bench.random.rng.random_range(0..4u64) << 12 | order << 16;
                let (at, length) = match order {
                    0 => {
                        let at = bench.random.rng.random_range(0..4096);
                        (at, bench.random.rng.random_range(1..=4096 - at))
                    }
                    1 => (32 * bench.random.rng.random_range(0..128), 32),
                    _ => (16 * bench.random.rng.random_range(0..256), 16),
                };
                let address = page | at;
                let (first, last) = (address / beat, (address + length - 1) / beat);
                let entry = bench.random.bytes(32);
                for n in first..=last {
                    // Entries are repeated in all lanes.
                    let data: Vec<u8> = match order {
                        0 => bench.random.bytes(beat as usize),
                        _ => (0..beat).map(|lane| entry[(lane % length.min(32)) as usize]).collect(),
                    };
                    let meant = |lane: u64| (address..address + length).contains(&(n * beat + lane));
                    let strobe = (0..beat).filter(|lane| meant(*lane)).fold(0, |s, lane| s | 1u64 << lane);
                    let (at, last) = (n * beat, n == last);
                    beats.push_back(Beat { order, address, length, at, data, strobe, last });
                }
                writes += 1;
            }
            let write = beats.front().cloned();
            bench.sim.set("write_valid", write.is_some().into());
            if let Some(Beat { order, address, length, strobe, last, data, .. }) = write {
                for (field, value) in [("address", address), ("length", length), ("strobe", strobe)] {
                    bench.sim.set(&format!("write_{field}"), value);
                }
                bench.sim.set("write_order", order);
                bench.sim.set("write_last", last.into());
                bench.sim.set_bits("write_data", &Bits::from_bytes(8 * beat as u32, &data));
            }
            if reading.is_none() && reads < 200 && bench.random.chance(0.2) {
                let at = bench.random.rng.random_range(0..4096);
                let length = bench.random.rng.random_range(1..=(4096 - at).min(512));
                reading = Some((bench.random.rng.random_range(0..4) << 12 | at, length));
                reads += 1;
            }
            bench.sim.set("read_valid", reading.is_some().into());
            if let Some((address, length)) = reading {
                bench.sim.set("read_address", address);
                bench.sim.set("read_length", length);
            }
            // An interrupt for what was written before it.
            let event = bench.taken[2];
            let interrupt = event > interrupts && raised == interrupts;
            bench.sim.set("interrupt_valid", interrupt.into());
            if interrupt {
                (interrupts, events_before) = (event, event);
            }
            let taken = !beats.is_empty() && bench.sim.get("write_ready") == 1;
            let read_taken = reading.is_some() && bench.sim.get("read_ready") == 1;
            if bench.sim.get("raised_valid") == 1 {
                assert!(bench.done[2] >= events_before, "seed {seed}: an interrupt before its event");
                raised = interrupts;
            }
            let data = (bench.sim.get("data_valid") == 1).then(|| {
                assert_eq!(bench.sim.get("data_error"), 0);
                (bench.sim.get_bits("data_data").to_bytes(), bench.sim.get("data_last") == 1)
            });
            bench.clock();
            if taken {
                let Beat { order, address, length, at, data, strobe, last } =
                    beats.pop_front().expect("on offer");
                handed += 1;
                if at / beat == address / beat {
                    // All its bursts may begin now.
                    let size = beat * u64::from(burst);
                    let count = (address + length - 1) / size - address / size + 1;
                    let before = bench.taken;
                    bench.before[order as usize].extend((0..count).map(|_| before));
                }
                for lane in (0..beat).filter(|lane| strobe >> lane & 1 == 1) {
                    written.entry(at + lane).or_default().push((handed, data[lane as usize]));
                }
                if last || (at / beat + 1) % u64::from(burst) == 0 {
                    bench.taken[order as usize] += 1;
                }
            }
            if read_taken {
                let (address, length) = reading.take().expect("on offer");
                asked.push_back((address, length, handed));
            }
            if let Some((data, last)) = data {
                brought.extend(data);
                if last {
                    let (address, length, when) = asked.pop_front().expect("it was asked for");
                    for at in address..address + length {
                        let got = brought[(at - address / beat * beat) as usize];
                        // What was written before must be seen, what is written later may be.
                        let history = written.get(&at).map_or(&[][..], Vec::as_slice);
                        let before = history.iter().rev().find(|(n, _)| *n <= when).map_or(0, |(_, v)| *v);
                        let later = history.iter().any(|(n, v)| *n > when && *v == got);
                        assert!(got == before || later, "seed {seed}: byte {at:#x}");
                    }
                    brought.clear();
                }
            }
        }
        let end: BTreeMap<u64, u8> = written.iter().map(|(at, h)| (*at, h[h.len() - 1].1)).collect();
        assert!(bench.memory == end, "seed {seed}");
        assert!(interrupts > 0 && raised == interrupts, "seed {seed}");
    }
}

#[test]
fn the_first_write_that_fails_is_kept_with_its_kind_and_page_until_a_reset() {
    for (beat_bytes, bus_bits, seed) in [(8, 32, 6), (8, 64, 7), (64, 64, 8)] {
        let cfg = RnicConfig { bus_bits, ..config(beat_bytes, 16) };
        let mut bench = Bench::new(&cfg, seed);
        let beat = u64::from(beat_bytes);
        bench.fails = 0.05;
        let (mut resets, mut kinds, mut write) = (0, [0; 3], None);
        while resets < 60 {
            assert!(bench.cycle < 100_000, "seed {seed}: {resets} resets");
            // A reset forgets the fault, and does not record what fails meanwhile.
            let shut = bench.first.is_some() && bench.random.chance(0.02);
            bench.sim.set("quiesce_shut", shut.into());
            let (order, page) = *write.get_or_insert_with(|| {
                let page = bench.random.rng.random::<u64>() >> (64 - bus_bits + 12);
                (bench.random.rng.random_range(0..3u64), page)
            });
            bench.sim.set("write_valid", 1);
            bench.sim.set("write_order", order);
            bench.sim.set("write_address", page << 12 | 0x340);
            bench.sim.set("write_length", beat);
            bench.sim.set("write_strobe", u64::MAX >> (64 - beat));
            bench.sim.set("write_last", 1);
            let before = bench.first;
            bench.drive();
            let taken = bench.sim.get("write_ready") == 1;
            bench.clock();
            if taken {
                let all = bench.taken;
                bench.before[order as usize].push_back(all);
                bench.taken[order as usize] += 1;
                write = None;
            }
            if shut {
                resets += 1;
                kinds[before.expect("a reset follows a fault").0 as usize] += 1;
                bench.first = None;
            }
            // A fault shows a cycle later than the memory of pages.
            if before == bench.first && !shut {
                let mut get = |field: &str| bench.sim.get(&format!("events_fault_{field}"));
                let shown = (get("valid") == 1).then(|| (get("kind"), get("page")));
                assert_eq!(shown, bench.first, "seed {seed}, cycle {}", bench.cycle);
            }
        }
        assert!(kinds.iter().all(|n| *n > 3), "seed {seed}: {kinds:?}");
    }
}
