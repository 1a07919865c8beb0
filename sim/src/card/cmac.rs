// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire's side of a card before AMD's 100 Gb/s Ethernet block: the block's user interface in its own clock, and behind it the beats of a wire.
//!
//! The block takes and brings three beats in five cycles, as 100 Gb/s want of 512 bits at 322.27 MHz; it takes a frame only if that comes without a gap (PG203). The link is up some cycles behind the reset.

use std::collections::VecDeque;

use ferrowire_verilator::{Library, Model, PortError, PortId};

use crate::wire::Beat;

/// Period of the block's clock, in femtoseconds: 322.265625 MHz.
const PERIOD: u64 = 3_103_030;
/// Cycles until the receiver is aligned.
const ALIGNED: u64 = 200;
/// Of so many cycles so many have a beat.
const BEATS: (u64, u64) = (3, 5);
/// Beats that wait in the block, either way.
const ROOM: usize = 8;

/// A stream of the block.
#[derive(Clone, Copy)]
struct Axis {
    valid: PortId,
    data: PortId,
    keep: PortId,
    last: PortId,
    user: PortId,
}

impl Axis {
    fn of(library: &Library, name: &str) -> Result<Self, PortError> {
        let port = |field: &str| library.port(&format!("{name}_{field}"));
        let (valid, data, keep) = (port("valid")?, port("data")?, port("keep")?);
        Ok(Self { valid, data, keep, last: port("last")?, user: port("user")? })
    }
}

/// The block.
pub struct CmacSide {
    clk: PortId,
    rst: PortId,
    aligned: PortId,
    tx_ready: PortId,
    tx_enable: PortId,
    rx: Axis,
    tx: Axis,
    /// A core's cycle, and the time of the core and of the block's next edge, in femtoseconds.
    core: u64,
    now: u64,
    next: u64,
    cycle: u64,
    /// The receiver hears the peer.
    hears: bool,
    to_card: VecDeque<Beat>,
    to_wire: VecDeque<Beat>,
    within: bool,
    violation: Option<String>,
}

impl CmacSide {
    /// With the model in reset.
    pub fn new(library: &Library, clock_khz: u32, model: &mut Model) -> Result<Self, PortError> {
        let port = |name: &str| library.port(name);
        let side = Self {
            clk: port("cmac_clk")?,
            rst: port("cmac_rst")?,
            aligned: port("stat_aligned")?,
            tx_ready: port("tx_axis_ready")?,
            tx_enable: port("ctl_tx_enable")?,
            rx: Axis::of(library, "rx_axis")?,
            tx: Axis::of(library, "tx_axis")?,
            core: 1_000_000_000_000 / u64::from(clock_khz),
            now: 0,
            next: PERIOD / 3,
            cycle: 0,
            hears: true,
            to_card: VecDeque::new(),
            to_wire: VecDeque::new(),
            within: false,
            violation: None,
        };
        model.set_u64(side.rst, 1);
        model.ticks(side.clk, super::RESET_CYCLES);
        model.set_u64(side.rst, 0);
        Ok(side)
    }

    /// What it has for the wire.
    pub fn tx(&self) -> Option<Beat> {
        self.to_wire.front().copied()
    }

    /// The wire has taken it.
    pub fn tx_taken(&mut self) {
        self.to_wire.pop_front();
    }

    /// A beat from the wire, if there is room.
    pub fn offer(&mut self, beat: &Beat) -> bool {
        let room = self.to_card.len() < ROOM;
        if room {
            self.to_card.push_back(*beat);
        }
        room
    }

    /// Whether the receiver hears the peer from now on.
    pub fn set_hears(&mut self, hears: bool) {
        self.hears = hears;
    }

    /// How the card broke a rule of the block, the first time.
    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// All edges of the block's clock in one cycle of the core's.
    pub fn core_cycle(&mut self, model: &mut Model) {
        self.now += self.core;
        while self.next <= self.now {
            self.edge(model);
            self.next += PERIOD;
        }
    }

    fn edge(&mut self, model: &mut Model) {
        self.cycle += 1;
        let aligned = self.hears && self.cycle > ALIGNED;
        model.set_u64(self.aligned, aligned.into());
        let moves = self.cycle % BEATS.1 < BEATS.0;
        let beat = if moves { self.to_card.pop_front() } else { None };
        // What comes to a receiver that is not aligned is nothing.
        let beat = beat.filter(|_| aligned);
        model.set_u64(self.rx.valid, beat.is_some().into());
        if let Some(beat) = beat {
            model.set_bytes(self.rx.data, &beat.data);
            model.set_u64(self.rx.keep, u64::MAX >> beat.empty);
            model.set_u64(self.rx.last, beat.last.into());
            model.set_u64(self.rx.user, 0);
        }
        let ready = moves && self.to_wire.len() < ROOM;
        model.set_u64(self.tx_ready, ready.into());
        model.eval();
        let valid = model.get_u64(self.tx.valid) == 1;
        if self.within && !valid {
            self.violation
                .get_or_insert_with(|| format!("a gap in a frame, in the block's cycle {}", self.cycle));
        }
        if valid && ready {
            if !self.within && model.get_u64(self.tx_enable) == 0 {
                let cycle = self.cycle;
                self.violation
                    .get_or_insert_with(|| format!("a frame without a link, in the block's cycle {cycle}"));
            }
            let mut beat = Beat::EMPTY;
            model.get_bytes(self.tx.data, &mut beat.data);
            beat.empty = model.get_u64(self.tx.keep).leading_zeros() as u8;
            beat.last = model.get_u64(self.tx.last) == 1;
            self.within = !beat.last;
            if beat.last && model.get_u64(self.tx.user) == 1 {
                let cycle = self.cycle;
                self.violation.get_or_insert_with(|| {
                    format!("the adapter spoilt a frame, in the block's cycle {cycle}")
                });
            }
            self.to_wire.push_back(beat);
        }
        model.tick(self.clk);
    }
}
