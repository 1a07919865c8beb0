// SPDX-License-Identifier: MIT OR Apache-2.0
//! The adapter, a core at one side, and at the other what PG203 says of the block: beats without a way to refuse them, and a taker that is never to be let down within a frame.

use ferrowire_cmac::{ahead, netlist, MacConfig, BYTES};
use ferrowire_rtl::{Bits, Netlist, PortIndex, Sim};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use std::collections::{BTreeMap, VecDeque};

/// The block's clock, in femtoseconds: 322.265625 MHz.
pub const BLOCK: u64 = 3_103_030;
/// 250 MHz.
pub const CORE: u64 = 4_000_000;

const WIDTH: usize = BYTES as usize;

/// A random generator, from `FERROWIRE_SEED` or else from `seed`.
pub fn random(seed: u64) -> SmallRng {
    let seed = std::env::var("FERROWIRE_SEED").ok().map_or(seed, |text| text.parse().expect("a number"));
    println!("seed {seed}: FERROWIRE_SEED={seed} repeats this run");
    SmallRng::seed_from_u64(seed)
}

/// Random bytes.
pub fn bytes(rng: &mut SmallRng, n: usize) -> Vec<u8> {
    let mut bytes = vec![0; n];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// From the shortest frame without its FCS to the longest, often near a beat's end.
pub fn length(rng: &mut SmallRng) -> usize {
    match rng.random_range(0..10) {
        0..4 => rng.random_range(60..200),
        4..7 => (64 * rng.random_range(1usize..20) + rng.random_range(0..3) - 1).max(60),
        7..9 => rng.random_range(60..1600),
        _ => rng.random_range(1600..=9018),
    }
}

/// What the block hands over.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub frame: Vec<u8>,
    /// `tuser` with the last beat.
    pub bad: bool,
    /// Cycles without a beat before it.
    pub gap: u32,
}

/// How often each side pauses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stalls {
    /// Of the core, before a frame.
    pub tx: f64,
    /// Of the core, before a beat of a frame, which it promises not to.
    pub breaks: f64,
    /// Of the core's taking.
    pub rx: f64,
    /// Of the block's beats within a frame.
    pub arrivals: f64,
    /// Of the block's taking.
    pub ready: f64,
}

struct Stream {
    valid: PortIndex,
    ready: Option<PortIndex>,
    data: PortIndex,
    last: PortIndex,
    /// `empty` or `keep`.
    rest: PortIndex,
    user: Option<PortIndex>,
}

type Seen = (Bits, bool, u64);

pub const COUNTS: [&str; 8] =
    ["rx_good", "rx_bad", "rx_cut", "rx_overflow", "tx_good", "tx_oversize", "tx_no_link", "tx_dry"];

/// See the page's top.
pub struct Bench {
    pub sim: Sim,
    pub rng: SmallRng,
    periods: [u64; 2],
    next: [u64; 2],
    pub stalls: Stalls,
    pub now: u64,
    pub block_cycles: u64,
    streams: [Stream; 4],
    counters: Vec<(&'static str, PortIndex)>,
    pub counts: BTreeMap<&'static str, u64>,
    // The core's side.
    to_send: VecDeque<Seen>,
    offered: bool,
    /// It has sent a frame's first beat, and not its last.
    inside: bool,
    pub received: Vec<Vec<u8>>,
    partial: Vec<u8>,
    waiting: Option<Seen>,
    // The block's side.
    pub arrivals: VecDeque<Arrival>,
    beats: VecDeque<(Vec<u8>, bool, bool)>,
    gap: u32,
    pub sent: Vec<Vec<u8>>,
    sending: Vec<u8>,
    offer: Option<Seen>,
    /// The block takes nothing.
    pub blocked: bool,
    /// Cycles in which nothing has moved.
    quiet: u64,
    /// Both domains are in reset: the core does nothing.
    in_reset: bool,
    /// Frames that ended with `tuser`, which a reset may cause and nothing else.
    pub spoiled: u64,
    pub may_spoil: bool,
}

const CLOCKS: [&str; 2] = ["clk", "cmac_clk"];

/// For a core of 250 MHz, and frames up to the longest that the adapter takes.
pub fn built(cfg: &MacConfig) -> Netlist {
    built_for(cfg, ahead(250_000, cfg.max_frame))
}

/// Frames begin to leave with so many beats.
pub fn built_for(cfg: &MacConfig, ahead: u32) -> Netlist {
    netlist(cfg, ahead).unwrap_or_else(|errors| panic!("{errors}"))
}

impl Bench {
    /// The link is up.
    pub fn new(netlist: &Netlist, core: u64, block: u64, mut rng: SmallRng) -> Bench {
        let mut sim = Sim::new(netlist);
        sim.reset();
        let streams = ["tx", "rx", "rx_axis", "tx_axis"].map(|name| {
            let axis = name.ends_with("axis");
            let port = |field: &str| sim.port(&format!("{name}_{field}"));
            Stream {
                valid: port("valid"),
                ready: (name != "rx_axis").then(|| port("ready")),
                data: port("data"),
                last: port("last"),
                rest: port(if axis { "keep" } else { "empty" }),
                user: axis.then(|| port("user")),
            }
        });
        let counters = COUNTS.iter().map(|name| (*name, sim.port(&format!("counts_{name}")))).collect();
        let periods = [core, block];
        let next = periods.map(|period| rng.random_range(0..period));
        sim.set("stat_aligned", 1);
        let mut bench = Bench {
            sim,
            rng,
            periods,
            next,
            stalls: Stalls::default(),
            now: 0,
            block_cycles: 0,
            streams,
            counters,
            counts: COUNTS.iter().map(|name| (*name, 0)).collect(),
            to_send: VecDeque::new(),
            offered: false,
            inside: false,
            received: Vec::new(),
            partial: Vec::new(),
            waiting: None,
            arrivals: VecDeque::new(),
            beats: VecDeque::new(),
            gap: 0,
            sent: Vec::new(),
            sending: Vec::new(),
            offer: None,
            blocked: false,
            quiet: 0,
            in_reset: false,
            spoiled: 0,
            may_spoil: false,
        };
        bench.run(10);
        bench
    }

    /// The core wants to send this.
    pub fn send(&mut self, frame: &[u8]) {
        let n = frame.len().div_ceil(WIDTH);
        for (i, chunk) in frame.chunks(WIDTH).enumerate() {
            let mut beat = chunk.to_vec();
            // What is above the end is not the frame's.
            beat.resize(WIDTH, self.rng.random());
            let beat = Bits::from_bytes(8 * BYTES, &beat);
            self.to_send.push_back((beat, i + 1 == n, (WIDTH - chunk.len()) as u64));
        }
    }

    /// The host resets the core and the adapter for so many cycles of the block, which goes on. What it is told of the link stays.
    pub fn host_reset(&mut self, cycles: u64) {
        const TOLD: [&str; 3] = ["ctl_tx_enable", "ctl_tx_send_rfi", "ctl_tx_send_idle"];
        let told = TOLD.map(|port| self.sim.get(port));
        (self.in_reset, self.may_spoil) = (true, true);
        self.to_send.clear();
        self.partial.clear();
        (self.offered, self.inside, self.waiting) = (false, false, None);
        ["rst", "cmac_rst"].iter().for_each(|port| self.sim.set(port, 1));
        self.sim.set("tx_valid", 0);
        for _ in 0..cycles {
            self.run(1);
            assert_eq!(TOLD.map(|port| self.sim.get(port)), told, "a reset of the host changes the link");
        }
        ["rst", "cmac_rst"].iter().for_each(|port| self.sim.set(port, 0));
        self.in_reset = false;
    }

    /// All edges of the next instant at which there are any.
    pub fn step(&mut self) {
        self.now = *self.next.iter().min().expect("two clocks");
        let mut on = Vec::with_capacity(2);
        for (clock, name) in CLOCKS.iter().enumerate() {
            if self.next[clock] != self.now {
                continue;
            }
            on.push(*name);
            self.next[clock] += self.periods[clock];
            match clock {
                0 => self.core(),
                _ => self.block(),
            }
        }
        self.sim.tick_clocks(&on);
    }

    fn pauses(&mut self, often: f64) -> bool {
        often > 0.0 && self.rng.random_bool(often)
    }

    fn core(&mut self) {
        if self.in_reset {
            return;
        }
        let [tx, rx, ..] = &self.streams;
        let (tx_ready, rx_ready) = (tx.ready.expect("a ready"), rx.ready.expect("a ready"));
        let (tx, rx) = ((tx.valid, tx.data, tx.last, tx.rest), (rx.valid, rx.data, rx.last, rx.rest));
        let often = if self.inside { self.stalls.breaks } else { self.stalls.tx };
        self.offered |= !self.to_send.is_empty() && !self.pauses(often);
        self.sim.set_at(tx.0, self.offered.into());
        if self.offered {
            let beat = &self.to_send[0];
            self.sim.set_bits_at(tx.1, &beat.0);
            self.sim.set_at(tx.2, beat.1.into());
            self.sim.set_at(tx.3, beat.2);
            if self.sim.get_at(tx_ready) == 1 {
                self.inside = !beat.1;
                self.to_send.pop_front();
                self.offered = false;
                self.quiet = 0;
            }
        }
        let ready = !self.pauses(self.stalls.rx);
        self.sim.set_at(rx_ready, ready.into());
        if self.sim.get_at(rx.0) == 1 {
            self.quiet = 0;
            let beat = (self.sim.get_bits_at(rx.1), self.sim.get_at(rx.2) == 1, self.sim.get_at(rx.3));
            if let Some(waiting) = &self.waiting {
                assert_eq!(*waiting, beat, "an offer changed");
            }
            self.waiting = (!ready).then_some(beat.clone());
            if ready {
                let (data, last, empty) = beat;
                let (bytes, n) = (data.to_bytes(), WIDTH - empty as usize);
                assert!(last || empty == 0, "bytes are missing in the midst of a frame");
                assert!(bytes[n..].iter().all(|byte| *byte == 0), "there is something above the end");
                self.partial.extend(&bytes[..n]);
                if last {
                    self.received.push(std::mem::take(&mut self.partial));
                }
            }
        } else {
            assert!(self.waiting.is_none(), "an offer was taken back");
        }
    }

    fn block(&mut self) {
        self.block_cycles += 1;
        self.quiet += 1;
        self.arrive();
        self.take();
        for (name, port) in &self.counters {
            *self.counts.get_mut(name).expect("all of them") += self.sim.get_at(*port);
        }
    }

    fn arrive(&mut self) {
        if self.beats.is_empty() {
            if let Some(Arrival { frame, bad, gap }) = self.arrivals.pop_front() {
                self.gap = gap;
                let n = frame.len().div_ceil(WIDTH);
                let beats = frame.chunks(WIDTH).enumerate();
                self.beats =
                    beats.map(|(i, chunk)| (chunk.to_vec(), i + 1 == n, bad && i + 1 == n)).collect();
            }
        }
        let pauses = self.pauses(self.stalls.arrivals);
        let axis = &self.streams[2];
        let beat = if self.gap > 0 || pauses { None } else { self.beats.pop_front() };
        self.gap = self.gap.saturating_sub(1);
        self.sim.set_at(axis.valid, beat.is_some().into());
        let Some((bytes, last, bad)) = beat else { return };
        self.quiet = 0;
        let keep = u64::MAX >> (WIDTH - bytes.len());
        let mut data = bytes;
        // The block says nothing of these lanes.
        data.resize(WIDTH, self.rng.random());
        self.sim.set_bits_at(axis.data, &Bits::from_bytes(8 * BYTES, &data));
        self.sim.set_at(axis.rest, keep);
        self.sim.set_at(axis.last, last.into());
        self.sim.set_at(axis.user.expect("tuser"), bad.into());
    }

    fn take(&mut self) {
        let ready = !self.blocked && !self.pauses(self.stalls.ready);
        let axis = &self.streams[3];
        self.sim.set_at(axis.ready.expect("tready"), ready.into());
        if self.sim.get_at(axis.valid) == 0 {
            // The block would run dry.
            assert!(self.sending.is_empty(), "a gap in a frame");
            assert!(self.offer.is_none(), "an offer was taken back");
            return;
        }
        let (last, keep) = (self.sim.get_at(axis.last) == 1, self.sim.get_at(axis.rest));
        let data = self.sim.get_bits_at(axis.data);
        let spoiled = self.sim.get_at(axis.user.expect("tuser")) == 1;
        assert!(!spoiled || (last && self.may_spoil), "a frame that is to be spoiled");
        let beat = (data, last, keep);
        if let Some(offer) = &self.offer {
            assert!(*offer == beat || spoiled, "an offer changed");
        }
        self.offer = (!ready).then_some(beat.clone());
        if !ready {
            return;
        }
        self.quiet = 0;
        let n = keep.trailing_ones() as usize;
        assert_eq!(keep, u64::MAX >> (WIDTH - n), "a hole in tkeep");
        assert!(last || n == WIDTH, "bytes are missing in the midst of a frame");
        self.sending.extend(&beat.0.to_bytes()[..n]);
        if spoiled {
            self.sending.clear();
            self.spoiled += 1;
        } else if last {
            assert!(self.sending.len() >= 60, "a runt");
            self.sent.push(std::mem::take(&mut self.sending));
        }
    }

    /// The block has taken a frame's first beat, and not its last.
    pub fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// The block has lost what it was sending.
    pub fn forget_sending(&mut self) {
        self.sending.clear();
        self.offer = None;
    }

    /// The block hands over nothing of what it had.
    pub fn lose_arrivals(&mut self) {
        self.arrivals.clear();
        self.beats.clear();
    }

    /// So many cycles of the block.
    pub fn run(&mut self, cycles: u64) {
        let until = self.block_cycles + cycles;
        while self.block_cycles < until {
            self.step();
        }
    }

    /// Runs until nothing has moved for long.
    pub fn drain(&mut self) {
        self.quiet = 0;
        while self.quiet < 1000 || !self.to_send.is_empty() || !self.arrivals.is_empty() {
            self.step();
        }
        assert!(self.partial.is_empty() && self.sending.is_empty(), "half a frame");
    }

    /// What was counted, other than zero.
    pub fn counted(&self) -> Vec<(&'static str, u64)> {
        self.counts.iter().filter(|(_, n)| **n > 0).map(|(name, n)| (*name, *n)).collect()
    }
}
