// SPDX-License-Identifier: MIT OR Apache-2.0
//! A manager of AXI4 in plain Rust, for simulations of memories: it does what it likes, and knows what comes back.

use ferrowire_rtl::Sim;
use rand::rngs::SmallRng;
use rand::Rng;
use std::collections::VecDeque;
use std::ops::Range;

struct Burst {
    id: u64,
    addr: u64,
    beats: Vec<(u64, u64)>,
}

/// A manager who writes and reads at random, and knows what a read may bring.
pub struct Manager {
    prefix: String,
    /// Its part of memory: nobody else writes there.
    part: Range<u64>,
    outside: u64,
    stall: f64,
    aw: VecDeque<Burst>,
    w: VecDeque<(u64, u64, bool)>,
    ar: VecDeque<Burst>,
    /// Under way: IDs of writes, reads.
    written: VecDeque<(u64, bool)>,
    asked: VecDeque<(u64, bool, VecDeque<u64>)>,
    bytes: Vec<u8>,
    offers: [bool; 3],
    /// Bursts that have been answered.
    pub done: u64,
    /// Beats of R.
    pub beats: u64,
}

impl Manager {
    /// One whose ports begin with `prefix`. `outside`: an address that is not memory's; `stall`: how often it pauses.
    pub fn new(prefix: &str, part: Range<u64>, outside: u64, stall: f64) -> Self {
        Self {
            prefix: prefix.into(),
            bytes: vec![0; (part.end - part.start) as usize],
            part,
            outside,
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

    /// What its part of memory holds now, byte by byte; zeros otherwise.
    pub fn fill(&mut self, byte: impl Fn(usize) -> u8) {
        self.bytes.iter_mut().enumerate().for_each(|(i, own)| *own = byte(i));
    }

    /// What its ports begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Something new, when nothing of the other kind is under way: so what a read brings is known.
    pub fn begin(&mut self, rng: &mut SmallRng, ids: u64) {
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
        let base = if outside { self.outside } else { self.part.start };
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

    /// What it offers, before an edge.
    pub fn drive(&mut self, sim: &mut Sim, rng: &mut SmallRng) {
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

    /// What has passed, before an edge; it panics where that is wrong.
    pub fn take(&mut self, sim: &mut Sim) {
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
pub struct Held(Vec<Option<(u64, u64)>>);

impl Held {
    /// Before an edge.
    pub fn judge(&mut self, sim: &mut Sim, prefixes: &[&str]) {
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
