// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Client`]: reads and writes host memory as an engine of the card would, and knows what each read must bring.
//!
//! A read brings what memory held when its request was taken, with every write in it whose last beat was taken by then, also in the
//! same cycle. Writes that are under way meanwhile may be seen or not, byte by byte.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

/// A read that has ended.
#[derive(Clone, Debug)]
pub struct Done {
    pub address: u64,
    pub length: usize,
    /// Beats with an error.
    pub errors: usize,
    /// When the request was taken, and the first and the last beat.
    pub taken: u64,
    pub first: u64,
    pub last: u64,
    pub bytes: Vec<u8>,
}

impl Done {
    pub fn failed(&self) -> bool {
        self.errors > 0
    }
}

/// A read that waits for its data.
struct Waiting {
    done: Done,
    beat: usize,
    beats: usize,
    /// `None`: not all of it is mapped.
    expected: Option<Vec<u8>>,
    /// Writes under way since it was taken.
    races: Vec<(u64, Vec<u8>)>,
}

/// Memory as it must be.
#[derive(Default)]
pub struct Shadow {
    pub regions: Vec<(u64, Vec<u8>)>,
}

impl Shadow {
    fn find(&self, address: u64, length: usize) -> Option<(usize, usize)> {
        self.regions.iter().enumerate().find_map(|(i, (base, bytes))| {
            let at = address.checked_sub(*base)? as usize;
            (at + length <= bytes.len()).then_some((i, at))
        })
    }

    pub fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let (region, at) = self.find(address, length)?;
        Some(self.regions[region].1[at..at + length].to_vec())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        if let Some((region, at)) = self.find(address, bytes.len()) {
            self.regions[region].1[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// A beat of a write.
pub struct WriteBeat {
    pub address: u64,
    pub length: u64,
    pub data: Vec<u8>,
    pub strobe: u64,
    pub last: bool,
}

pub struct Client {
    beat: usize,
    pub random: SmallRng,
    /// How probable it is that a stream stands still: reads, writes, data.
    pub stall: [f64; 3],
    pub shadow: Shadow,
    /// What is to be asked for and written.
    pub reads: VecDeque<(u64, usize)>,
    pub writes: VecDeque<(u64, Vec<u8>)>,
    read_offered: bool,
    write_offer: Option<WriteBeat>,
    /// Beats of the first write that were taken.
    write_beat: usize,
    waiting: VecDeque<Waiting>,
    pub done: Vec<Done>,
    /// Cycles in which a request, a write's last beat and a beat of data were taken the last time.
    pub read_at: u64,
    pub write_at: u64,
    pub reads_taken: u64,
    pub writes_taken: u64,
}

impl Client {
    pub fn new(beat: usize, seed: u64) -> Self {
        Self {
            beat,
            random: SmallRng::seed_from_u64(seed ^ 0xc11e_4700),
            stall: [0.0; 3],
            shadow: Shadow::default(),
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            read_offered: false,
            write_offer: None,
            write_beat: 0,
            waiting: VecDeque::new(),
            done: Vec::new(),
            read_at: 0,
            write_at: 0,
            reads_taken: 0,
            writes_taken: 0,
        }
    }

    /// After a reset: what is under way is gone.
    pub fn forget(&mut self) {
        self.waiting.clear();
        self.reads.clear();
        self.writes.clear();
        (self.read_offered, self.write_offer, self.write_beat) = (false, None, 0);
    }

    pub fn idle(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.waiting.is_empty()
    }

    /// Whether a read that waits or is to come touches these bytes.
    pub fn overlaps(&self, address: u64, length: usize) -> bool {
        let hit = |at: u64, bytes: usize| at < address + length as u64 && address < at + bytes as u64;
        let waiting = self.waiting.iter().any(|read| hit(read.done.address, read.done.length));
        waiting || self.reads.iter().any(|(at, bytes)| hit(*at, *bytes))
    }

    /// Whether of the first write only the last beat is still to be taken.
    pub fn at_last_beat(&self) -> bool {
        self.writes.front().is_some_and(|(address, bytes)| {
            (self.write_beat + 1) * self.beat >= *address as usize % self.beat + bytes.len()
        })
    }

    /// Reads taken that have not ended.
    pub fn under_way(&self) -> usize {
        self.waiting.len()
    }

    fn stalls(&mut self, stream: usize) -> bool {
        self.stall[stream] > 0.0 && self.random.random_bool(self.stall[stream])
    }

    /// The request on offer.
    pub fn read_offer(&mut self) -> Option<(u64, u64)> {
        let (address, length) = *self.reads.front()?;
        if !self.read_offered && self.stalls(0) {
            return None;
        }
        self.read_offered = true;
        Some((address, length as u64))
    }

    /// The beat of a write on offer; lanes that are not written hold noise.
    pub fn write_offer(&mut self) -> Option<&WriteBeat> {
        if self.write_offer.is_none() {
            let stall = self.writes.is_empty() || self.stalls(1);
            if stall {
                return None;
            }
            let (address, bytes) = &self.writes[0];
            let mut data = vec![0; self.beat];
            self.random.fill(&mut data[..]);
            let (lane, end) = (*address as usize % self.beat, *address as usize % self.beat + bytes.len());
            let mut strobe = 0;
            for (i, byte) in data.iter_mut().enumerate() {
                let place = self.write_beat * self.beat + i;
                if (lane..end).contains(&place) {
                    *byte = bytes[place - lane];
                    strobe |= 1 << i;
                }
            }
            let last = (self.write_beat + 1) * self.beat >= end;
            let (address, length) = (*address, bytes.len() as u64);
            self.write_offer = Some(WriteBeat { address, length, data, strobe, last });
        }
        self.write_offer.as_ref()
    }

    /// The beat of a write was taken.
    pub fn write_taken(&mut self, cycle: u64) {
        let Some(beat) = self.write_offer.take() else { return };
        if self.write_beat == 0 {
            let write = self.writes[0].clone();
            self.waiting.iter_mut().for_each(|read| read.races.push(write.clone()));
        }
        self.write_beat += 1;
        if beat.last {
            self.write_beat = 0;
            self.writes_taken += 1;
            self.write_at = cycle;
            if let Some((address, bytes)) = self.writes.pop_front() {
                self.shadow.write(address, &bytes);
            }
        }
    }

    /// The request was taken; behind a write of the same cycle.
    pub fn read_taken(&mut self, cycle: u64) {
        self.read_offered = false;
        self.reads_taken += 1;
        self.read_at = cycle;
        let Some((address, length)) = self.reads.pop_front() else { return };
        let beats = (address as usize % self.beat + length).div_ceil(self.beat);
        let races = if self.write_beat > 0 { vec![self.writes[0].clone()] } else { Vec::new() };
        self.waiting.push_back(Waiting {
            done: Done { address, length, errors: 0, taken: cycle, first: 0, last: 0, bytes: Vec::new() },
            beat: 0,
            beats,
            expected: self.shadow.read(address, length),
            races,
        });
    }

    pub fn data_ready(&mut self) -> bool {
        !self.stalls(2)
    }

    /// A beat of data came.
    pub fn data(&mut self, cycle: u64, data: &[u8], last: bool, error: bool) {
        let Some(read) = self.waiting.front_mut() else {
            panic!("cycle {cycle}, data: a beat though no read waits")
        };
        let Done { address, length, taken, .. } = read.done;
        let name =
            format!("cycle {cycle}, data: read of {length} bytes at {address:#x}, taken in cycle {taken}");
        let lane = address as usize % self.beat;
        let (from, to) = (read.beat * self.beat, (read.beat + 1) * self.beat);
        let lanes = from.max(lane) - from..to.min(lane + length) - from;
        if read.beat == 0 {
            read.done.first = cycle;
        }
        read.beat += 1;
        assert_eq!(last, read.beat == read.beats, "{name}: `last` at beat {} of {}", read.beat, read.beats);
        read.done.errors += usize::from(error);
        read.done.bytes.extend_from_slice(&data[lanes]);
        if !last {
            return;
        }
        let Some(Waiting { mut done, expected, races, .. }) = self.waiting.pop_front() else { return };
        done.last = cycle;
        match expected {
            None => assert!(done.failed(), "{name}: no error, though not all of it is mapped"),
            Some(expected) if !done.failed() => {
                for (i, (got, wanted)) in done.bytes.iter().zip(&expected).enumerate() {
                    let place = address + i as u64;
                    let raced = races.iter().any(|(at, bytes)| {
                        place.checked_sub(*at).and_then(|at| bytes.get(at as usize)) == Some(got)
                    });
                    assert!(
                        got == wanted || raced,
                        "{name}: byte {i} is {got:#04x} and not {wanted:#04x}; expected {expected:02x?}, got {:02x?}",
                        done.bytes
                    );
                }
            }
            Some(_) => {}
        }
        self.done.push(done);
    }
}
