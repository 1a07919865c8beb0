// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Script`]: a manager that does what a test says, and notes what it gets.

use std::collections::VecDeque;

use ferrowire::HostMemory;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use crate::axi::{
    Address, AxiSettings, Manager, Offers, ReadBeat, Response, Subordinate, WriteBeat, WriteResponse,
};
use crate::wire::MAX_BEAT;

/// Where [`Script::memory`] is, and its bytes.
pub const AT: u64 = 0x12_3456_0000;
pub const MEMORY: usize = 1 << 16;

/// A read under way: its address, and what has come.
struct Asked {
    address: Address,
    beats: Vec<ReadBeat>,
}

/// A read that has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Read {
    pub address: Address,
    pub data: Vec<u8>,
    pub responses: Vec<Response>,
}

pub struct Script {
    pub axi: Subordinate,
    pub width: usize,
    pub cycle: u64,
    pub stall: f64,
    pub random: SmallRng,
    pub aw: VecDeque<Address>,
    pub w: VecDeque<WriteBeat>,
    pub ar: VecDeque<Address>,
    /// What came back, and when.
    pub reads: Vec<(u64, Read)>,
    pub responses: Vec<(u64, WriteResponse)>,
    /// Beats of R, by ID, in the order in which they came.
    pub beats: Vec<u8>,
    asked: Vec<Asked>,
    drives: Manager,
    offers: Offers,
}

impl Script {
    pub fn new(width: usize, settings: AxiSettings) -> Self {
        let random = SmallRng::seed_from_u64(settings.seed ^ 0x5555);
        Self {
            axi: Subordinate::new(width, settings),
            width,
            cycle: 0,
            stall: 0.0,
            random,
            aw: VecDeque::new(),
            w: VecDeque::new(),
            ar: VecDeque::new(),
            reads: Vec::new(),
            responses: Vec::new(),
            beats: Vec::new(),
            asked: Vec::new(),
            drives: Manager::default(),
            offers: Offers::default(),
        }
    }

    /// Maps random bytes.
    pub fn memory(&mut self) -> Vec<u8> {
        let memory = HostMemory::zeroed(MEMORY, 4096).unwrap();
        let mut bytes = vec![0; MEMORY];
        self.random.fill(&mut bytes[..]);
        memory.write(0, &bytes);
        self.axi.host_mut().map_mut().insert(AT, memory).unwrap();
        bytes
    }

    /// The bytes that are there now.
    pub fn now(&self) -> Vec<u8> {
        let mut now = vec![0; MEMORY];
        self.axi.host().map().read(AT, &mut now).unwrap();
        now
    }

    pub fn write(&mut self, id: u8, address: u64, data: &[u8]) {
        let what = Address::of(id, address, data.len(), self.width);
        self.aw.push_back(what);
        let skip = address as usize % self.width;
        for at in 0..what.beats() {
            let mut beat = WriteBeat { data: [0xee; MAX_BEAT], strobe: 0, last: at + 1 == what.beats() };
            for lane in 0..self.width {
                let byte = (at * self.width + lane).checked_sub(skip).and_then(|byte| data.get(byte));
                if let Some(byte) = byte {
                    beat.data[lane] = *byte;
                    beat.strobe |= 1 << lane;
                }
            }
            self.w.push_back(beat);
        }
    }

    pub fn read(&mut self, id: u8, address: u64, bytes: usize) {
        self.ar.push_back(Address::of(id, address, bytes, self.width));
    }

    fn stalls(&mut self) -> bool {
        self.stall > 0.0 && self.random.random_bool(self.stall)
    }

    /// One cycle.
    pub fn step(&mut self) {
        let cycle = self.cycle;
        self.cycle += 1;
        let before = self.offers;
        self.offers = self.axi.offers(cycle);
        let offers = self.offers;
        // The subordinate keeps the same rules: what it offers stays until it is taken.
        if before.b.is_some() && !self.drives.b_ready {
            assert_eq!(offers.b, before.b, "B changes");
        }
        if before.r.is_some() && !self.drives.r_ready {
            assert_eq!(offers.r, before.r, "R changes");
        }
        let stalls: [bool; 5] = std::array::from_fn(|_| self.stalls());
        let drives = &mut self.drives;
        drives.aw = drives.aw.or_else(|| self.aw.front().copied().filter(|_| !stalls[0]));
        drives.w = drives.w.or_else(|| self.w.front().copied().filter(|_| !stalls[1]));
        drives.ar = drives.ar.or_else(|| self.ar.front().copied().filter(|_| !stalls[2]));
        (drives.b_ready, drives.r_ready) = (!stalls[3], !stalls[4]);
        let drives = *drives;
        self.axi.take(cycle, &drives);
        if drives.aw.is_some() && offers.aw_ready {
            self.aw.pop_front();
            self.drives.aw = None;
        }
        if drives.w.is_some() && offers.w_ready {
            self.w.pop_front();
            self.drives.w = None;
        }
        if let Some(address) = drives.ar.filter(|_| offers.ar_ready) {
            self.ar.pop_front();
            self.drives.ar = None;
            self.asked.push(Asked { address, beats: Vec::new() });
        }
        self.responses.extend(offers.b.filter(|_| drives.b_ready).map(|b| (cycle, b)));
        if let Some(beat) = offers.r.filter(|_| drives.r_ready) {
            self.beat(cycle, beat);
        }
    }

    /// A beat of R: of the oldest read of its ID.
    fn beat(&mut self, cycle: u64, beat: ReadBeat) {
        self.beats.push(beat.id);
        let at = self.asked.iter().position(|asked| asked.address.id == beat.id).expect("nobody asked");
        let asked = &mut self.asked[at];
        asked.beats.push(beat);
        assert_eq!(beat.last, asked.beats.len() == asked.address.beats(), "RLAST");
        if !beat.last {
            return;
        }
        let Asked { address, beats } = self.asked.remove(at);
        let (mut data, mut responses) = (Vec::new(), Vec::new());
        for (i, beat) in beats.iter().enumerate() {
            let first = if i == 0 { address.address as usize % self.width } else { 0 };
            data.extend_from_slice(&beat.data[first..self.width]);
            responses.push(beat.response);
        }
        self.reads.push((cycle, Read { address, data, responses }));
    }

    pub fn run(&mut self, cycles: u64) {
        (0..cycles).for_each(|_| self.step());
    }

    /// Whether nothing is under way on either side.
    pub fn is_idle(&self) -> bool {
        let queues = self.aw.is_empty() && self.w.is_empty() && self.ar.is_empty();
        queues && self.asked.is_empty() && self.axi.idle()
    }

    /// Until nothing is under way.
    pub fn finish(&mut self) {
        for _ in 0..200_000 {
            if self.is_idle() {
                return;
            }
            self.step();
        }
        panic!("it does not end: {:?}", self.axi.violation());
    }
}
