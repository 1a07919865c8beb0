// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a well-behaved controller reads and writes.
use super::*;

const ROWS: u32 = 3;

/// What a burst of words goes to, in order.
fn columns(column: u32, length: u32) -> impl Iterator<Item = u32> {
    (0..length).map(move |i| column / length * length + (column + i) % length)
}

/// A plain array, and the bench whose device is held against it.
struct Pair {
    b: Bench,
    copy: HashMap<(u8, u32, u32), u32>,
    rng: SmallRng,
    burst: u32,
    cl: u64,
}

impl Pair {
    fn word(&mut self, key: (u8, u32, u32)) -> u32 {
        let dev = &self.b.dev;
        *self.copy.entry(key).or_insert_with(|| dev.word(key.0, key.1, key.2))
    }

    /// WRITEs of an open row, some of them cut short by the next.
    fn write(&mut self, ba: u8, row: u32, single: bool, auto: bool) {
        let bursts = self.rng.random_range(1..5);
        let length = if single { 1 } else { self.burst };
        for i in 0..bursts {
            let last = i + 1 == bursts;
            let column = self.rng.random_range(0..24);
            let words: [u32; 8] = self.rng.random();
            let words = &words[..length as usize];
            // Only another WRITE may cut one short here, and no auto precharge.
            let taken = if last { length } else { self.rng.random_range(1..=length) };
            for (column, word) in columns(column, length).zip(words).take(taken as usize) {
                self.copy.insert((ba, row, column), *word);
            }
            let a = column | u32::from(auto && last) << 10 | self.rng.random_range(0..4) << 8;
            self.b.write(ba, a, words);
            let idle = if taken < length { 0 } else { self.rng.random_range(0..3) };
            self.b.edges(u64::from(taken) - 1 + idle);
        }
    }

    /// READs of an open row, likewise.
    fn read(&mut self, ba: u8, row: u32, auto: bool) {
        let bursts = self.rng.random_range(1..5);
        let mut wanted = Vec::new();
        for i in 0..bursts {
            let last = i + 1 == bursts;
            let column = self.rng.random_range(0..24);
            let words = if last { self.burst } else { self.rng.random_range(1..=self.burst) };
            for column in columns(column, self.burst).take(words as usize) {
                wanted.push(self.word((ba, row, column)));
            }
            let taken = self.b.read(ba, column | u32::from(auto && last) << 10);
            self.b.fetch(taken, words.into());
            let idle = if words < self.burst { 0 } else { self.rng.random_range(0..3) };
            self.b.edges(u64::from(words) - 1 + idle);
        }
        self.b.edges(self.cl + 1);
        assert_eq!(std::mem::take(&mut self.b.sampled), wanted);
    }
}

/// Bursts in random places, cut short or not, with and without auto precharge.
fn traffic(tck: u64, power: u32, cl: u64, single: bool, seed: u64) {
    println!("tck {tck}, bursts of {}, CL {cl}, single writes {single}, seed {seed}", 1 << power);
    let mut t = Timing { startup_divisor: 1_000, ..Timing::m12l64322a_7() };
    t.access_ps = [t.oh_ps, 4_000, t.ac_ps[1]][seed as usize % 3];
    let value = mode(power, cl as u32) | u32::from(single) << 9;
    let b = Bench::ready(t, tck, seed, value);
    let (copy, rng) = (HashMap::new(), SmallRng::seed_from_u64(seed));
    let mut p = Pair { b, copy, rng, burst: 1 << power, cl };
    // As many edges as keep any distance of the device.
    let rest = 150_000 / tck;
    for _ in 0..30 {
        let (ba, row) = (p.rng.random_range(0..4), p.rng.random_range(0..ROWS));
        p.b.act(ba, row);
        p.b.edges(rest);
        let auto = p.rng.random();
        match p.rng.random_range(0..3) {
            0 => p.write(ba, row, single, auto),
            1 => p.read(ba, row, auto),
            _ => {
                p.write(ba, row, single, false);
                p.read(ba, row, auto);
            }
        }
        p.b.edges(rest);
        if !auto {
            p.b.pre(ba);
            p.b.edges(rest);
        }
        p.b.refresh();
        p.b.edges(rest);
    }
    let counts = p.b.dev.counts();
    assert_eq!(counts.precharges + counts.auto_precharges, 31);
    for ((ba, row, column), word) in p.copy {
        assert_eq!(p.b.dev.word(ba, row, column), word);
    }
}

#[test]
fn what_is_written_is_read_back() {
    let mut seed = 0;
    for tck in [10_000, 13_333, 20_000, 40_000] {
        for power in 0..4 {
            for cl in [2, 3] {
                for single in [false, true] {
                    traffic(tck, power, cl, single, seed);
                    seed += 1;
                }
            }
        }
    }
    traffic(7_000, 3, 3, false, 1_000);
}

#[test]
fn the_tightest_timing_is_legal() {
    let mut b = ready();
    b.act(0, 5);
    b.edges(1);
    b.act(1, 6);
    b.write(0, 0, &[1, 2, 3, 4]);
    b.edges(3);
    let taken = b.read(1, 8);
    b.fetch(taken, 4);
    b.pre(0);
    b.edges(1);
    b.act(0, 6);
    b.edges(4);
    b.write(0, 0, &[9; 4]);
    b.pre(1);
    b.edges(3);
    b.pre(0);
    b.edges(1);
    b.refresh();
    b.edges(6);
    b.set_mode(mode(0, 2));
    b.edges(1);
    b.act(3, 2_047);
    let counts = Counts {
        activates: 4,
        precharges: 4,
        auto_precharges: 0,
        reads: 1,
        writes: 2,
        terminates: 0,
        refreshes: 9,
        mode_writes: 2,
    };
    assert_eq!(b.dev.counts(), counts);
    let words: Vec<u32> = (8..12).map(|column| b.dev.word(1, 6, column)).collect();
    assert_eq!(b.sampled, words);
    assert_eq!([0, 1, 2, 3].map(|column| b.dev.word(0, 5, column)), [1, 2, 3, 4]);
}

/// A row whose first words are 0 to 15, with bursts of 8, open.
fn numbered(cl: u32) -> Bench {
    let mut b = opened(Bench::ready(timing(), 10_000, 1, mode(3, cl)));
    b.write(0, 0, &[0, 1, 2, 3, 4, 5, 6, 7]);
    b.edges(7);
    b.write(0, 8, &[8, 9, 10, 11, 12, 13, 14, 15]);
    b.edges(9);
    b
}

/// Whether DQ is the device's `ps` behind the edge that took something.
fn is_driven(b: &mut Bench, ps: u64) -> bool {
    let words: BTreeSet<u32> = (0..9).map(|_| b.dev.sample(ps)).collect();
    words.len() == 1
}

#[test]
fn a_read_is_cut_short_by_precharge_and_terminate_a_latency_later() {
    for cl in [2, 3] {
        for ends in [Bench::terminate as fn(&mut Bench), |b| b.pre(0), |b| _ = b.command(2, 3, 0x400)] {
            for words in 1..8 {
                let mut b = numbered(cl);
                let taken = b.read(0, 3);
                b.fetch(taken, words);
                b.edges(words - 1);
                ends(&mut b);
                b.edges(12);
                let order = [3, 4, 5, 6, 7, 0, 1, 2];
                assert_eq!(b.sampled, order[..words as usize]);
                let behind = taken + (u64::from(cl) - 1 + words) * 10_000 + 7_000;
                assert!(!is_driven(&mut b, behind), "CL {cl}, {words} words");
            }
        }
    }
}

#[test]
fn a_precharge_of_another_bank_cuts_nothing_short() {
    let mut b = numbered(3);
    let taken = b.read(0, 0);
    b.fetch(taken, 8);
    b.pre(1);
    b.edges(12);
    assert_eq!(b.sampled, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_write_is_cut_short_before_the_edge() {
    // By a READ, a BURST TERMINATE, and a PRECHARGE where tWR would let it be.
    for ends in 0..3 {
        let mut b = opened(Bench::ready(Timing { wr: Span::default(), ..timing() }, 10_000, 1, mode(3, 3)));
        b.write(0, 0, &[0; 8]);
        b.edges(9);
        b.write(0, 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
        b.edges(2);
        match ends {
            0 => {
                b.hush();
                let taken = b.read(0, 0);
                b.fetch(taken, 4);
            }
            1 => b.terminate(),
            _ => b.pre(0),
        }
        b.edges(12);
        assert_eq!([0, 1, 2, 3, 4].map(|column| b.dev.word(0, 5, column)), [1, 2, 3, 0, 0]);
        assert_eq!(b.sampled, if ends == 0 { vec![1, 2, 3, 0] } else { vec![] });
    }
}

#[test]
fn a_write_in_time_cuts_a_read_short() {
    // CL is 3: of a READ one edge before, no word is due before two edges behind the WRITE.
    let mut b = numbered(3);
    let taken = b.read(0, 0);
    b.write(0, 8, &[20, 21, 22, 23, 24, 25, 26, 27]);
    b.edges(9);
    assert!(!is_driven(&mut b, taken + 37_000));
    assert_eq!([8, 15].map(|column| b.dev.word(0, 5, column)), [20, 27]);
}

#[test]
fn data_are_valid_from_access_to_hold_and_random_elsewhere() {
    let mut b = numbered(2);
    b.dev.drift(4_000);
    let start = b.read(0, 0) + 10_000;
    b.edges(12);
    let mut seen = |ps: u64| {
        let words: Vec<u32> = (0..99).map(|_| b.dev.sample(start + ps)).collect();
        let (low, high) = words.iter().fold((0, 0), |(low, high), word| (low | !word, high | word));
        (low & high == u32::MAX, words[0])
    };
    assert!(seen(3_999).0);
    assert_eq!(seen(4_000), (false, 0));
    assert_eq!(seen(11_999), (false, 0));
    assert!(seen(12_000).0 && seen(13_999).0);
    assert_eq!(seen(14_000), (false, 1));
    assert_eq!(seen(81_999), (false, 7));
    assert!(seen(82_000).0 && seen(95_000).0);
}

#[test]
fn words_that_were_never_written_depend_on_seed_and_address() {
    let word = |seed, ba, row, column| Sdr::new(timing(), seed).word(ba, row, column);
    let words: BTreeSet<u32> = (0..100).map(|column| word(1, 0, 0, column)).collect();
    assert_eq!(words.len(), 100);
    assert_eq!(word(1, 2, 3, 4), word(1, 2, 3, 4));
    assert!(word(1, 2, 3, 4) != word(2, 2, 3, 4) && word(1, 2, 3, 4) != word(1, 2, 4, 4));
}
