// SPDX-License-Identifier: MIT OR Apache-2.0
//! A MAC between a PHY and a core, with three clocks.

use crate::phy::{Line, Tap, Wires};
use ferrowire_mac::{netlist, MacConfig};
use ferrowire_rtl::{Bits, Netlist, PortIndex, Sim};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};

/// The period of 125 MHz, in femtoseconds.
pub const WIRE: u64 = 8_000_000;

/// That clock, faster by parts of a million.
pub fn wire_clock(ppm: i64) -> u64 {
    (WIRE as f64 / (1.0 + ppm as f64 * 1e-6)).round() as u64
}

/// The period of a clock of so many kHz.
pub fn khz(khz: u64) -> u64 {
    1_000_000_000_000 / khz
}

/// A random generator, from `FERROWIRE_SEED` or else from `seed`.
pub fn random(seed: u64) -> SmallRng {
    let seed = std::env::var("FERROWIRE_SEED").ok().map_or(seed, |text| text.parse().expect("a number"));
    println!("seed {seed}: FERROWIRE_SEED={seed} repeats this run");
    SmallRng::seed_from_u64(seed)
}

/// Periods of the three clocks, in femtoseconds. A period of [`STILL`] stands still.
#[derive(Clone, Copy, Debug)]
pub struct Periods {
    pub core: u64,
    pub rx: u64,
    pub tx: u64,
}

pub const STILL: u64 = u64::MAX;

/// How often a stream pauses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stalls {
    /// Of the core's frames, between any two beats.
    pub tx: f64,
    /// Of the core's taking.
    pub rx: f64,
}

const CORE: usize = 0;
const RX: usize = 1;
const TX: usize = 2;
const CLOCKS: [&str; 3] = ["clk", "rgmii_rx_clk", "rgmii_tx_clk"];

struct Ports {
    wires_in: [PortIndex; 4],
    wires_out: [PortIndex; 4],
    tx: [PortIndex; 4],
    tx_ready: PortIndex,
    rx: [PortIndex; 4],
    rx_ready: PortIndex,
    link: [PortIndex; 3],
    counts: Vec<(&'static str, PortIndex)>,
}

const COUNTS: [&str; 10] = [
    "rx_good",
    "rx_bad_fcs",
    "rx_runt",
    "rx_oversize",
    "rx_error",
    "rx_no_sfd",
    "rx_overflow",
    "tx_good",
    "tx_oversize",
    "tx_underrun",
];

type BeatSeen = (Bits, bool, u64);

/// When things happened first, in femtoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    /// A carrier came.
    pub carrier: Option<u64>,
    /// The core was offered a beat.
    pub offered: Option<u64>,
    /// The core's last beat was taken.
    pub taken: Option<u64>,
    /// A carrier went.
    pub sent: Option<u64>,
}

/// See the page's top.
pub struct Bench {
    pub sim: Sim,
    pub cfg: MacConfig,
    ports: Ports,
    next: [u64; 3],
    pub periods: [u64; 3],
    pub now: u64,
    pub rng: SmallRng,
    pub line: Line,
    pub tap: Tap,
    pub stalls: Stalls,
    /// Wires that come from elsewhere than `line`.
    pub from: Option<Wires>,
    to_send: VecDeque<BeatSeen>,
    offered: bool,
    /// Frames that the core got.
    pub received: Vec<Vec<u8>>,
    partial: Vec<u8>,
    waiting: Option<BeatSeen>,
    pub counts: BTreeMap<&'static str, u64>,
    /// The wires of the last transmit cycle.
    pub sent: Wires,
    pub rx_cycles: u64,
    pub tx_cycles: u64,
    pub moments: Moments,
    /// Cycles of the core since it was offered something.
    core_idle: u64,
}

/// A MAC of this configuration.
pub fn built(cfg: &MacConfig) -> Netlist {
    netlist(cfg).unwrap_or_else(|errors| panic!("{errors}"))
}

impl Bench {
    pub fn new(netlist: &Netlist, cfg: MacConfig, periods: Periods, mut rng: SmallRng) -> Bench {
        let mut sim = Sim::new(netlist);
        sim.reset();
        let wires = |side: &str| {
            ["data_rise", "data_fall", "ctl_rise", "ctl_fall"].map(|w| sim.port(&format!("rgmii_{side}_{w}")))
        };
        let stream =
            |name: &str| ["valid", "data", "last", "empty"].map(|field| sim.port(&format!("{name}_{field}")));
        let ports = Ports {
            wires_in: wires("rx"),
            wires_out: wires("tx"),
            tx: stream("tx"),
            tx_ready: sim.port("tx_ready"),
            rx: stream("rx"),
            rx_ready: sim.port("rx_ready"),
            link: ["up", "speed", "full_duplex"].map(|field| sim.port(&format!("link_{field}"))),
            counts: COUNTS.iter().map(|name| (*name, sim.port(&format!("counts_{name}")))).collect(),
        };
        let periods = [periods.core, periods.rx, periods.tx];
        let next = periods.map(|period| rng.random_range(0..period));
        Bench {
            sim,
            cfg,
            ports,
            next,
            periods,
            now: 0,
            rng,
            line: Line::new(),
            tap: Tap::default(),
            stalls: Stalls::default(),
            from: None,
            to_send: VecDeque::new(),
            offered: false,
            received: Vec::new(),
            partial: Vec::new(),
            waiting: None,
            counts: COUNTS.iter().map(|name| (*name, 0)).collect(),
            sent: Wires::default(),
            rx_cycles: 0,
            tx_cycles: 0,
            moments: Moments::default(),
            core_idle: 0,
        }
    }

    /// The core wants to send this.
    pub fn send(&mut self, frame: &[u8]) {
        let width = self.cfg.beat_bytes as usize;
        let beats = frame.chunks(width).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let n = beats.len();
        for (i, mut beat) in beats.into_iter().enumerate() {
            let empty = width - beat.len();
            // What is above the end is not the frame's.
            beat.resize(width, self.rng.random());
            self.to_send.push_back((Bits::from_bytes(8 * width as u32, &beat), i + 1 == n, empty as u64));
        }
    }

    /// Beats that the MAC has not taken.
    pub fn unsent(&self) -> usize {
        self.to_send.len()
    }

    /// Stops a clock, or lets it go on.
    pub fn set_core(&mut self, period: u64) {
        self.next[CORE] = if period == STILL { STILL } else { self.now + period };
        self.periods[CORE] = period;
    }

    /// What the core is told of the link: up, speed, full duplex.
    pub fn link(&mut self) -> [u64; 3] {
        self.ports.link.map(|port| self.sim.get_at(port))
    }

    /// When the next edge is.
    pub fn next_edge(&self) -> u64 {
        *self.next.iter().min().expect("three clocks")
    }

    /// All edges of the next instant at which there are any.
    pub fn step(&mut self) {
        self.now = self.next_edge();
        let mut on = Vec::with_capacity(3);
        for (clock, name) in CLOCKS.iter().enumerate() {
            if self.next[clock] == self.now {
                on.push(*name);
                self.next[clock] += self.periods[clock];
                match clock {
                    CORE => self.core(),
                    RX => self.receive(),
                    TX => self.transmit(),
                    _ => unreachable!("three clocks"),
                }
            }
        }
        self.sim.tick_clocks(&on);
    }

    fn receive(&mut self) {
        self.rx_cycles += 1;
        let wires = match self.from {
            Some(wires) => wires,
            None => self.line.next(&mut self.rng),
        };
        if wires.ctl_rise {
            self.moments.carrier.get_or_insert(self.now);
        }
        let values =
            [wires.data_rise.into(), wires.data_fall.into(), wires.ctl_rise.into(), wires.ctl_fall.into()];
        for (port, value) in self.ports.wires_in.iter().zip(values) {
            self.sim.set_at(*port, value);
        }
    }

    fn transmit(&mut self) {
        let [data_rise, data_fall, ctl_rise, ctl_fall] =
            self.ports.wires_out.map(|port| self.sim.get_at(port));
        self.sent = Wires {
            data_rise: data_rise as u8,
            data_fall: data_fall as u8,
            ctl_rise: ctl_rise == 1,
            ctl_fall: ctl_fall == 1,
        };
        if self.sent.ctl_rise {
            self.moments.sent.get_or_insert(self.now);
        }
        self.tap.see(self.sent);
        self.tx_cycles += 1;
    }

    fn core(&mut self) {
        // To be sent: an offer stays.
        let [valid, data, last, empty] = self.ports.tx;
        let pauses = self.stalls.tx > 0.0 && self.rng.random_bool(self.stalls.tx);
        self.offered |= !self.to_send.is_empty() && !pauses;
        self.sim.set_at(valid, self.offered.into());
        if self.offered {
            let beat = &self.to_send[0];
            self.sim.set_bits_at(data, &beat.0);
            self.sim.set_at(last, beat.1.into());
            self.sim.set_at(empty, beat.2);
        }
        if self.offered && self.sim.get_at(self.ports.tx_ready) == 1 {
            self.to_send.pop_front();
            self.offered = false;
            if self.to_send.is_empty() {
                self.moments.taken.get_or_insert(self.now);
            }
        }
        // Received.
        let ready = !(self.stalls.rx > 0.0 && self.rng.random_bool(self.stalls.rx));
        self.sim.set_at(self.ports.rx_ready, ready.into());
        let [valid, data, last, empty] = self.ports.rx;
        self.core_idle += 1;
        if self.sim.get_at(valid) == 1 {
            self.core_idle = 0;
            self.moments.offered.get_or_insert(self.now);
            let beat = (self.sim.get_bits_at(data), self.sim.get_at(last) == 1, self.sim.get_at(empty));
            if let Some(waiting) = &self.waiting {
                assert_eq!(*waiting, beat, "an offer changed");
            }
            self.waiting = (!ready).then_some(beat.clone());
            if ready {
                self.take(beat);
            }
        } else {
            assert!(self.waiting.is_none(), "an offer was taken back");
        }
        for (name, port) in &self.ports.counts {
            let n = self.sim.get_at(*port);
            if n > 0 {
                *self.counts.get_mut(name).expect("all of them") += n;
            }
        }
    }

    fn take(&mut self, (data, last, empty): BeatSeen) {
        let bytes = data.to_bytes();
        let n = bytes.len() - empty as usize;
        assert!(last || empty == 0, "bytes are missing in the midst of a frame");
        assert!(bytes[n..].iter().all(|byte| *byte == 0), "there is something above the end");
        self.partial.extend(&bytes[..n]);
        if last {
            self.received.push(std::mem::take(&mut self.partial));
        }
    }

    /// Runs so many cycles of the receive clock.
    pub fn run(&mut self, cycles: u64) {
        let until = self.rx_cycles + cycles;
        while self.rx_cycles < until {
            self.step();
        }
    }

    /// Whether the line has nothing more, the core has sent all, and everything has arrived.
    pub fn is_quiet(&self) -> bool {
        (self.from.is_some() || self.line.is_done())
            && self.unsent() == 0
            && self.tap.quiet_for() > 200
            && self.core_idle > 100
    }

    /// Runs until all is quiet.
    pub fn drain(&mut self) {
        while !self.is_quiet() {
            self.step();
        }
        assert!(self.partial.is_empty(), "half a frame");
    }
}
