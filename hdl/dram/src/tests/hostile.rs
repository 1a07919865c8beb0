// SPDX-License-Identifier: MIT OR Apache-2.0
//! A manager that reads what it is writing, and holds each channel back for as long as it likes.

use super::*;
use std::collections::{HashMap, VecDeque};

/// Two rows of a bank, a row of another, and the end of the window, of 2 KiB each.
const PARTS: [u64; 4] = [0, 0x4000, 0x800, BYTES - 0x800];
const PART: u64 = 0x800;
/// Channels, as `shut` and `offers` have them.
const CHANNELS: [&str; 5] = ["aw", "w", "ar", "b", "r"];
struct Asked {
    id: u64,
    /// Of the next beat.
    word: u64,
    left: u64,
    outside: bool,
    /// Writes that had their response when the address passed.
    floor: usize,
}

struct Beat {
    write: usize,
    word: u64,
    data: u64,
    strobe: u64,
    last: bool,
    outside: bool,
}

/// Knows of each byte what a read may bring: the last write that had its response before the read's address passed, or one behind it.
pub struct Hostile {
    rng: SmallRng,
    first: HashMap<u64, u64>,
    /// Of a word, in order: the write's number, data, strobe.
    history: HashMap<u64, Vec<(usize, u64, u64)>>,
    aw: VecDeque<(u64, u64, u64)>,
    w: VecDeque<Beat>,
    ar: VecDeque<(u64, u64, u64, bool)>,
    written: VecDeque<(u64, bool)>,
    asked: VecDeque<Asked>,
    /// Writes, IDs and lines that are yet to be told of.
    wrote: VecDeque<(usize, u64, u64)>,
    begun: usize,
    answered: usize,
    beats: u64,
    shut: [bool; 5],
    stall: f64,
    offers: [bool; 3],
    last_r: Option<u64>,
    held: Held,
    /// Bytes that are written at once.
    line: u64,
}

/// The eight bytes of the device that are at this address.
fn device_word(board: &impl Bench, address: u64) -> u64 {
    (0..8).fold(0, |all, i| all | u64::from(board.byte(address - BASE + i)) << (8 * i))
}

impl Hostile {
    pub fn new(board: &impl Bench, seed: u64) -> Self {
        let words = PARTS.iter().flat_map(|part| (0..PART / 8).map(move |i| BASE + part + 8 * i));
        Self {
            rng: SmallRng::seed_from_u64(seed),
            first: words.map(|word| (word, device_word(board, word))).collect(),
            history: HashMap::new(),
            aw: VecDeque::new(),
            w: VecDeque::new(),
            ar: VecDeque::new(),
            written: VecDeque::new(),
            asked: VecDeque::new(),
            wrote: VecDeque::new(),
            begun: 0,
            answered: 0,
            beats: 0,
            shut: [false; 5],
            stall: 0.0,
            offers: [false; 3],
            last_r: None,
            held: Held::default(),
            line: board.line_bytes(),
        }
    }

    fn strobe(&mut self) -> u64 {
        let some = self.rng.random::<u8>().into();
        [0xff, 0xff, 0, some, 1 << self.rng.random_range(0..8)][self.rng.random_range(0..5)]
    }

    /// A burst of either direction, often to the few lines where many are.
    fn begin(&mut self) {
        let outside = self.rng.random_bool(0.04);
        let part = PARTS[self.rng.random_range(0..4)];
        let words = PART / 8;
        let beats = [1, 1, 1, 2, 2, 3, 4, 9, self.rng.random_range(1..40), 256][self.rng.random_range(0..10)];
        let at = match self.rng.random_range(0..3) {
            0 => self.rng.random_range(0..=words - beats),
            1 => self.rng.random_range(0..6).min(words - beats),
            _ => words - beats,
        };
        let word = if outside { BASE + BYTES } else { BASE + part } + 8 * at;
        let write = self.rng.random();
        self.burst(write, word, beats, outside);
    }

    fn burst(&mut self, write: bool, word: u64, beats: u64, outside: bool) {
        let (id, skip) = (self.rng.random_range(0..8), self.rng.random_range(0..8));
        if !write {
            self.ar.push_back((id, word + skip, beats, outside));
            return;
        }
        self.aw.push_back((id, word + skip, beats));
        self.written.push_back((id, outside));
        for i in 0..beats {
            let strobe = self.strobe() & if i == 0 { 0xff << skip & 0xff } else { 0xff };
            let (word, data, last) = (word + 8 * i, self.rng.random(), i + 1 == beats);
            self.w.push_back(Beat { write: self.begun, word, data, strobe, last, outside });
            let line = (word - BASE) / self.line;
            let ends = last || (word + 8) % self.line == 0;
            if !outside && ends && (strobe != 0 || self.line > 8) {
                self.wrote.push_back((self.begun, id, line));
            }
        }
        self.begun += 1;
    }

    fn under_way(&self) -> usize {
        self.written.len() + self.ar.len() + self.asked.len()
    }

    /// Which channels are held shut from now on.
    fn mood(&mut self) {
        let open = self.rng.random_bool(0.3);
        self.shut = std::array::from_fn(|_| !open && self.rng.random_bool(0.3));
        self.stall = [0.0, 0.3][self.rng.random_range(0..2)];
    }

    /// Just before the core's edge.
    fn edge(&mut self, sim: &mut Sim) {
        let mut passes = [false; 5];
        let waiting = [!self.aw.is_empty(), !self.w.is_empty(), !self.ar.is_empty()];
        for (c, channel) in CHANNELS.into_iter().enumerate() {
            let free = !self.shut[c] && !self.rng.random_bool(self.stall);
            if c < 3 {
                self.offers[c] |= waiting[c] && free;
                sim.set(&format!("s_axi_{channel}valid"), self.offers[c].into());
            } else {
                sim.set(&format!("s_axi_{channel}ready"), free.into());
            }
        }
        let mut put = |(name, value): (&str, u64)| sim.set(&format!("s_axi_{name}"), value);
        if let Some((id, addr, beats)) = self.aw.front() {
            [("awid", *id), ("awaddr", *addr), ("awlen", beats - 1)].into_iter().for_each(&mut put);
        }
        if let Some(beat) = self.w.front() {
            let all = [("wdata", beat.data), ("wstrb", beat.strobe), ("wlast", beat.last.into())];
            all.into_iter().for_each(&mut put);
        }
        if let Some((id, addr, beats, _)) = self.ar.front() {
            [("arid", *id), ("araddr", *addr), ("arlen", beats - 1)].into_iter().for_each(&mut put);
        }
        for (c, channel) in CHANNELS.into_iter().enumerate() {
            let mut high = |end: &str| sim.get(&format!("s_axi_{channel}{end}")) == 1;
            passes[c] = high("valid") && high("ready");
        }
        self.held.judge(sim, &["s_axi_"]);
        let mut get = |name: &str| sim.get(name);
        if get("wrote_valid") == 1 {
            let (_, id, line) = self.wrote.pop_front().expect("nothing was written");
            assert_eq!((get("wrote_id"), get("wrote_line")), (id, line), "what was written");
        }
        // What passes in this cycle is not seen by an address of the same.
        if passes[2] {
            let (id, addr, left, outside) = self.ar.pop_front().unwrap();
            self.asked.push_back(Asked { id, word: addr & !7, left, outside, floor: self.answered });
        }
        if passes[0] {
            self.aw.pop_front();
        }
        if passes[1] {
            let Beat { write, word, data, strobe, outside, .. } = self.w.pop_front().unwrap();
            if !outside {
                self.history.entry(word).or_default().push((write, data, strobe));
            }
        }
        (0..3).for_each(|c| self.offers[c] &= !passes[c]);
        if passes[3] {
            let (id, outside) = self.written.pop_front().expect("a response to nothing");
            assert_eq!((get("s_axi_bid"), get("s_axi_bresp")), (id, if outside { 3 } else { 0 }));
            assert!(self.w.front().is_none_or(|beat| beat.write > self.answered), "B before the last beat");
            assert!(self.wrote.front().is_none_or(|told| told.0 > self.answered), "B before it was written");
            self.answered += 1;
        }
        let r = (get("s_axi_rvalid") == 1).then(|| get("s_axi_rlast") << 2 | get("s_axi_rresp"));
        assert!(self.last_r.is_none() || self.last_r == r, "RLAST or RRESP changes");
        self.last_r = r.filter(|_| !passes[4]);
        if passes[4] {
            let data = get("s_axi_rdata");
            let read = self.asked.front_mut().expect("data for nobody");
            let Asked { id, word, left, outside, floor } = *read;
            let wanted = (id, if outside { 3 } else { 0 }, u64::from(left == 1));
            assert_eq!((get("s_axi_rid"), get("s_axi_rresp"), get("s_axi_rlast")), wanted);
            (read.word, read.left) = (word + 8, left - 1);
            if left == 1 {
                self.asked.pop_front();
            }
            self.beats += 1;
            assert!(outside || self.may_be(word, data, floor), "{word:#x} was not {data:#x} since");
        }
    }

    fn may_be(&self, word: u64, data: u64, floor: usize) -> bool {
        let writes = self.history.get(&word).map_or(&[][..], |writes| writes);
        (0..8).all(|lane| {
            let byte = |word: u64| word >> (8 * lane) & 0xff;
            let own = |write: &&(usize, u64, u64)| write.2 >> lane & 1 == 1;
            let before = writes.iter().rfind(|write| write.0 < floor && own(write));
            let before = before.map_or(self.first[&word], |write| write.1);
            let behind = writes.iter().filter(|write| write.0 >= floor && own(write)).map(|write| write.1);
            behind.chain([before]).any(|may| byte(may) == byte(data))
        })
    }

    /// For so many cycles something new begins now and then; then all ends, and memory has what it must.
    pub fn run(&mut self, board: &mut impl Bench, cycles: u64) {
        let mut left = 0;
        for _ in 0..cycles {
            if left == 0 {
                self.mood();
                left = self.rng.random_range(1..400);
            }
            left -= 1;
            if self.under_way() < 8 && self.rng.random_bool(0.1) {
                self.begin();
            }
            board.cycle(|sim| self.edge(sim));
        }
        self.finish(board);
    }

    fn finish(&mut self, board: &mut impl Bench) {
        (self.shut, self.stall) = ([false; 5], 0.0);
        let mut quiet = 0;
        for _ in 0..20_000 {
            quiet = if self.under_way() == 0 { quiet + 1 } else { 0 };
            if quiet == 40 {
                break;
            }
            board.cycle(|sim| self.edge(sim));
        }
        assert!(self.under_way() == 0 && self.w.is_empty(), "it does not end");
        assert!(self.wrote.is_empty(), "what was written is not told");
        for word in self.first.keys() {
            let has = device_word(board, *word);
            assert!(self.may_be(*word, has, self.answered), "{word:#x} ends as {has:#x}");
        }
    }
}

/// Reads and writes at once keep their order, whatever is held back, and the device is refreshed meanwhile, once in `refi` cycles.
pub fn keeps_order(board: &mut impl Bench, seed: u64, refi: u64, cycles: u64) {
    board.start();
    let mut hostile = Hostile::new(board, seed);
    let before = board.refreshes();
    hostile.run(board, cycles);
    assert!(hostile.answered > 60 && hostile.beats > 600, "{} and {}", hostile.answered, hostile.beats);
    let refreshes = board.refreshes() - before;
    assert!((cycles / refi..2 * cycles / refi + 2).contains(&refreshes), "{refreshes}");
    println!("seed {seed}: {} writes, {} beats read", hostile.answered, hostile.beats);
}

/// It is refreshed as often while nothing is asked, while data are missing in the middle of a burst, and while nobody takes a burst of reads.
pub fn is_refreshed_whatever_waits<B: Bench>(new: impl Fn() -> B, refi: u64) {
    for (waits, channel) in [(false, None), (true, Some(1)), (false, Some(4))] {
        let mut board = new();
        board.start();
        let mut hostile = Hostile::new(&board, 11);
        if let Some(channel) = channel {
            hostile.burst(waits, BASE, 256, false);
            (0..60).for_each(|_| board.cycle(|sim| hostile.edge(sim)));
            hostile.shut[channel] = true;
        }
        let before = board.refreshes();
        (0..20 * refi).for_each(|_| board.cycle(|sim| hostile.edge(sim)));
        let refreshes = board.refreshes() - before;
        assert!((19..=21).contains(&refreshes), "{channel:?}: {refreshes} in 20 intervals");
        hostile.finish(&mut board);
    }
}

/// Writes go on while the beats of a read wait.
pub fn writes_pass_reads_that_wait(board: &mut impl Bench) {
    board.start();
    let mut hostile = Hostile::new(board, 12);
    hostile.shut[4] = true;
    hostile.burst(false, BASE, 16, false);
    (0..100).for_each(|_| board.cycle(|sim| hostile.edge(sim)));
    (0..8).for_each(|i| hostile.burst(true, BASE + 16 * i, 2, false));
    (0..400).for_each(|_| board.cycle(|sim| hostile.edge(sim)));
    assert_eq!((hostile.answered, hostile.beats), (8, 0));
    hostile.finish(board);
    assert_eq!(hostile.beats, 16);
}

/// Resets in the middle of bursts, each later in them.
pub fn resets_in_the_middle(board: &mut impl Bench, rounds: std::ops::Range<u64>) {
    for round in rounds {
        board.start();
        let mut hostile = Hostile::new(board, round);
        for write in [true, false] {
            hostile.burst(write, BASE, 64, false);
        }
        (0..60 + 37 * round).for_each(|_| board.cycle(|sim| hostile.edge(sim)));
        for port in ["awvalid", "wvalid", "arvalid"] {
            board.sim().set(&format!("s_axi_{port}"), 0);
        }
        board.reset(5);
    }
    board.start();
    Hostile::new(board, 17).run(board, 300);
    board.reset(5);
}
