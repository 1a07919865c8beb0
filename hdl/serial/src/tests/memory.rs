// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory, alone and behind the interconnect, before managers that do what they like.

use crate::{interconnect, memory, SerialConfig};
use ferrowire_rtl::{build, Sim};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;

const BYTES: u64 = 8192;
const BASE: u64 = 0x4000;

struct Burst {
    id: u64,
    addr: u64,
    beats: Vec<(u64, u64)>,
}

/// A manager who writes and reads at random, and knows what a read may bring.
struct Manager {
    prefix: String,
    /// Its part of memory: nobody else writes there.
    part: std::ops::Range<u64>,
    stall: f64,
    aw: VecDeque<Burst>,
    w: VecDeque<(u64, u64, bool)>,
    ar: VecDeque<Burst>,
    /// Under way: IDs of writes, reads.
    written: VecDeque<(u64, bool)>,
    asked: VecDeque<(u64, bool, VecDeque<u64>)>,
    bytes: Vec<u8>,
    offers: [bool; 3],
    done: u64,
    beats: u64,
}

impl Manager {
    fn new(prefix: &str, part: std::ops::Range<u64>, stall: f64) -> Self {
        Self {
            prefix: prefix.into(),
            bytes: vec![0; (part.end - part.start) as usize],
            part,
            stall,
            aw: VecDeque::new(),
            w: VecDeque::new(),
            ar: VecDeque::new(),
            written: VecDeque::new(),
            asked: VecDeque::new(),
            offers: [false; 3],
            done: 0,
            beats: 0,
        }
    }

    /// Something new, when nothing of the other kind is under way: so what a read brings is known.
    fn begin(&mut self, rng: &mut SmallRng, ids: u64) {
        let writing = !self.aw.is_empty() || !self.written.is_empty();
        let reading = !self.ar.is_empty() || !self.asked.is_empty();
        if self.aw.len() + self.written.len() + self.ar.len() + self.asked.len() > 5 {
            return;
        }
        let outside = rng.random_bool(0.05);
        let words = (self.part.end - self.part.start) / 8;
        let beats = [1, 1, 2, 32, rng.random_range(1..=64u64)][rng.random_range(0..5)];
        let at = rng.random_range(0..=words - beats);
        // None crosses 4 KiB.
        let at = if (self.part.start + at * 8) % 4096 + beats * 8 > 4096 { 0 } else { at };
        let base = if outside { BASE + BYTES } else { self.part.start };
        let (id, addr) = (rng.random_range(0..ids), base + at * 8);
        let skip = rng.random_range(0..8);
        if !reading && (writing || rng.random()) {
            let data: Vec<(u64, u64)> = (0..beats)
                .map(|i| {
                    let strobe = [0xff, rng.random::<u8>()][rng.random_range(0..2)];
                    (rng.random(), u64::from(if i == 0 { strobe & 0xff << skip } else { strobe }))
                })
                .collect();
            for (i, (word, strobe)) in data.iter().enumerate() {
                self.w.push_back((*word, *strobe, i + 1 == data.len()));
                for lane in (0..8).filter(|lane| !outside && strobe >> lane & 1 == 1) {
                    self.bytes[(at as usize + i) * 8 + lane] = (word >> (8 * lane)) as u8;
                }
            }
            self.aw.push_back(Burst { id, addr: addr + skip, beats: data });
            self.written.push_back((id, outside));
        } else if !writing {
            let word = |i: u64| {
                let at = (at + i) as usize * 8;
                u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
            };
            let wanted: Vec<(u64, u64)> = (0..beats).map(|i| (word(i), 0)).collect();
            self.asked.push_back((id, outside, wanted.iter().map(|(word, _)| *word).collect()));
            self.ar.push_back(Burst { id, addr: addr + skip, beats: wanted });
        }
    }

    fn port(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn drive(&mut self, sim: &mut Sim, rng: &mut SmallRng) {
        let some = [!self.aw.is_empty(), !self.w.is_empty(), !self.ar.is_empty()];
        for (offer, some) in self.offers.iter_mut().zip(some) {
            *offer |= some && !rng.random_bool(self.stall);
        }
        for (name, burst, valid) in
            [("aw", self.aw.front(), self.offers[0]), ("ar", self.ar.front(), self.offers[2])]
        {
            sim.set(&self.port(&format!("{name}valid")), valid.into());
            if let Some(burst) = burst {
                sim.set(&self.port(&format!("{name}id")), burst.id);
                sim.set(&self.port(&format!("{name}addr")), burst.addr);
                sim.set(&self.port(&format!("{name}len")), burst.beats.len() as u64 - 1);
            }
        }
        sim.set(&self.port("wvalid"), self.offers[1].into());
        if let Some((word, strobe, last)) = self.w.front() {
            sim.set(&self.port("wdata"), *word);
            sim.set(&self.port("wstrb"), *strobe);
            sim.set(&self.port("wlast"), (*last).into());
        }
        sim.set(&self.port("bready"), (!rng.random_bool(self.stall)).into());
        sim.set(&self.port("rready"), (!rng.random_bool(self.stall)).into());
    }

    fn take(&mut self, sim: &mut Sim) {
        let passes = |sim: &mut Sim, name: &str| sim.get(&format!("{}{name}ready", self.prefix)) == 1;
        if self.offers[0] && passes(sim, "aw") {
            self.aw.pop_front();
            self.offers[0] = false;
        }
        if self.offers[1] && passes(sim, "w") {
            self.w.pop_front();
            self.offers[1] = false;
        }
        if self.offers[2] && passes(sim, "ar") {
            self.ar.pop_front();
            self.offers[2] = false;
        }
        let mut fires = |name: &str| {
            let valid = format!("{}{name}valid", self.prefix);
            let ready = format!("{}{name}ready", self.prefix);
            sim.get(&valid) == 1 && sim.get(&ready) == 1
        };
        let (b, r) = (fires("b"), fires("r"));
        if b {
            let (id, outside) = self.written.pop_front().expect("a response to nothing");
            assert_eq!(sim.get(&self.port("bid")), id);
            assert_eq!(sim.get(&self.port("bresp")), if outside { 3 } else { 0 });
            self.done += 1;
        }
        if r {
            let (id, outside, words) = self.asked.front_mut().expect("data for nobody");
            let word = words.pop_front().expect("RLAST was missing");
            let (id, outside, last) = (*id, *outside, words.is_empty());
            assert_eq!(sim.get(&self.port("rid")), id);
            assert_eq!(sim.get(&self.port("rresp")), if outside { 3 } else { 0 });
            assert_eq!(sim.get(&self.port("rlast")), u64::from(last));
            assert!(outside || sim.get(&self.port("rdata")) == word, "a word is not what was written");
            self.beats += 1;
            if last {
                self.asked.pop_front();
                self.done += 1;
            }
        }
    }
}

/// Whether B and R keep what they offer until it is taken (AXI4 A3.2.1).
#[derive(Default)]
struct Held(Vec<Option<(u64, u64)>>);

impl Held {
    fn judge(&mut self, sim: &mut Sim, prefixes: &[&str]) {
        self.0.resize(2 * prefixes.len(), None);
        for (k, prefix) in prefixes.iter().enumerate() {
            for (c, (channel, what)) in [("b", "bresp"), ("r", "rdata")].into_iter().enumerate() {
                let valid = sim.get(&format!("{prefix}{channel}valid")) == 1;
                let ready = sim.get(&format!("{prefix}{channel}ready")) == 1;
                let now = valid
                    .then(|| (sim.get(&format!("{prefix}{what}")), sim.get(&format!("{prefix}{channel}id"))));
                let held = &mut self.0[2 * k + c];
                assert!(held.is_none() || *held == now, "{prefix}{channel} takes an offer back");
                *held = now.filter(|_| !ready);
            }
        }
    }
}

fn config() -> SerialConfig {
    SerialConfig { memory_bytes: BYTES, memory_base: BASE, ..SerialConfig::default() }
}

fn run(sim: &mut Sim, managers: &mut [Manager], ids: u64, seed: u64, operations: u64) -> u64 {
    let mut rng = SmallRng::seed_from_u64(seed);
    let prefixes: Vec<String> = managers.iter().map(|manager| manager.prefix.clone()).collect();
    let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
    let mut held = Held::default();
    for cycle in 0..400_000 {
        if managers.iter().all(|manager| manager.done >= operations) {
            return cycle;
        }
        for manager in managers.iter_mut() {
            if rng.random_bool(0.5) {
                manager.begin(&mut rng, ids);
            }
            manager.drive(sim, &mut rng);
        }
        held.judge(sim, &prefixes);
        managers.iter_mut().for_each(|manager| manager.take(sim));
        sim.tick();
    }
    panic!("seed {seed}: it does not end");
}

#[test]
fn memory_has_what_was_written_and_answers_in_order_with_the_right_ids() {
    let netlist = memory::engine(&config(), 3).unwrap();
    for seed in 0..12 {
        let mut sim = Sim::new(&netlist);
        sim.reset();
        let stall = [0.0, 0.2, 0.6][seed as usize % 3];
        let mut managers = [Manager::new("s_axi_", BASE..BASE + BYTES, stall)];
        run(&mut sim, &mut managers, 8, seed, 400);
    }
}

#[test]
fn memory_takes_and_gives_a_beat_a_cycle() {
    let netlist = memory::engine(&config(), 3).unwrap();
    for write in [true, false] {
        let mut sim = Sim::new(&netlist);
        sim.reset();
        let address = if write { "aw" } else { "ar" };
        sim.set(&format!("s_axi_{address}addr"), BASE);
        sim.set(&format!("s_axi_{address}len"), 63);
        sim.set(&format!("s_axi_{address}valid"), 1);
        sim.set("s_axi_wstrb", 0xff);
        ["s_axi_bready", "s_axi_rready"].iter().for_each(|ready| sim.set(ready, 1));
        let (mut beats, mut cycles, mut first) = (0, 0, None);
        while beats < 64 {
            sim.set("s_axi_wvalid", 1);
            sim.set("s_axi_wlast", u64::from(beats == 63));
            let passes = if write { "s_axi_wready" } else { "s_axi_rvalid" };
            if sim.get(passes) == 1 {
                beats += 1;
                first.get_or_insert(cycles);
            }
            sim.tick();
            sim.set(&format!("s_axi_{address}valid"), 0);
            cycles += 1;
        }
        assert_eq!((first, cycles), (Some(if write { 1 } else { 3 }), if write { 65 } else { 67 }));
    }
}

/// The interconnect and memory behind it.
fn joined() -> ferrowire_rtl::Netlist {
    build("joined", |m| {
        let cfg = config();
        let managers = [0, 1].map(|k| crate::axi::subordinate_in(m, &format!("s{k}_axi_"), 2, 8));
        let (b, later_b) = m.later("b", &crate::axi::response(3));
        let (r, later_r) = m.later("r", &crate::axi::read_beat(3, 8));
        let answers = crate::axi::Answers { b, r };
        let (requests, [first, second]) = interconnect::interconnect(m, managers, answers);
        let (answers, wrote) = memory::memory(m, &cfg, requests);
        m.output("wrote", &wrote);
        later_b.connect(answers.b);
        later_r.connect(answers.r);
        crate::axi::subordinate_out(m, "s0_axi_", first);
        crate::axi::subordinate_out(m, "s1_axi_", second);
    })
    .unwrap()
}

#[test]
fn two_managers_share_memory_and_each_gets_its_own_answers() {
    let netlist = joined();
    for seed in 0..12 {
        let mut sim = Sim::new(&netlist);
        sim.reset();
        let stalls = [(0.0, 0.0), (0.3, 0.0), (0.0, 0.5), (0.6, 0.6)][seed as usize % 4];
        let half = BASE + BYTES / 2;
        let mut managers = [
            Manager::new("s0_axi_", BASE..half, stalls.0),
            Manager::new("s1_axi_", half..BASE + BYTES, stalls.1),
        ];
        run(&mut sim, &mut managers, 4, seed, 300);
    }
}

#[test]
fn a_manager_waits_for_one_burst_of_the_other_at_most() {
    // The first never pauses; the second has its turn all the same.
    let netlist = joined();
    let mut sim = Sim::new(&netlist);
    sim.reset();
    let half = BASE + BYTES / 2;
    let mut managers =
        [Manager::new("s0_axi_", BASE..half, 0.0), Manager::new("s1_axi_", half..BASE + BYTES, 0.0)];
    run(&mut sim, &mut managers, 4, 99, 500);
    let [first, second] = &managers;
    assert!(
        first.done < 2 * second.done && second.done < 2 * first.done,
        "{} and {}",
        first.done,
        second.done
    );
}

#[test]
fn a_read_that_meets_writes_of_its_word_sees_one_of_them_whole() {
    let netlist = memory::engine(&config(), 3).unwrap();
    let mut sim = Sim::new(&netlist);
    sim.reset();
    let mut rng = SmallRng::seed_from_u64(5);
    ["s_axi_bready", "s_axi_awvalid", "s_axi_arvalid", "s_axi_wvalid"]
        .iter()
        .for_each(|port| sim.set(port, 1));
    sim.set("s_axi_awaddr", BASE + 64);
    sim.set("s_axi_araddr", BASE + 64);
    sim.set("s_axi_wlast", 1);
    sim.set("s_axi_wstrb", 0xff);
    // All words have eight equal bytes and the next is one more: what is read never goes back.
    let (mut written, mut seen, mut reads, mut data) = (0u64, 0u64, 0, 1u64);
    for _ in 0..20_000 {
        sim.set("s_axi_wdata", data * 0x0101_0101_0101_0101);
        sim.set("s_axi_rready", rng.random_bool(0.8).into());
        if sim.get("s_axi_rvalid") == 1 && sim.get("s_axi_rready") == 1 {
            let word = sim.get("s_axi_rdata");
            assert_eq!(word, (word & 0xff) * 0x0101_0101_0101_0101, "a word of two writes");
            // Of the words that were written since the last read, or the same.
            assert!(
                (word & 0xff).wrapping_sub(seen) & 0xff <= written.wrapping_sub(seen) & 0xff,
                "{word:#x}"
            );
            (seen, reads) = (word & 0xff, reads + 1);
        }
        let writes = sim.get("s_axi_wready") == 1;
        sim.tick();
        if writes {
            (written, data) = (data, (data + 1) & 0xff);
        }
    }
    assert!(reads > 3000, "{reads} reads");
}
