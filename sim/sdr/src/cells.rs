// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Cells`]: what lies between a controller's clock and the device.

use std::collections::BTreeMap;

use crate::{Pins, Sdr};

/// What is not known of a board, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// From an edge of the controller's clock to the balls.
    pub out_ps: u64,
    /// What a wire is later by than `out_ps`, at the least and at the most; each wire is somewhere between, one of them at either end.
    pub skew_ps: [i64; 2],
    /// From an edge of the controller's clock, either of them, to the device's CLK, which is its inverse.
    pub clk_ps: u64,
    /// What the driver of a wire of DQ is later by than the wire, where it is switched on and off.
    pub enable_ps: [i64; 2],
    /// From the balls to what catches, its setup time included.
    pub back_ps: u64,
}

impl Default for Ways {
    fn default() -> Self {
        Self { out_ps: 1_500, skew_ps: [-300, 300], clk_ps: 1_500, enable_ps: [200, 200], back_ps: 900 }
    }
}

/// What is sent in a cycle of the controller's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Sent {
    pub ras_n: bool,
    pub cas_n: bool,
    pub we_n: bool,
    pub ba: u8,
    pub a: u32,
    pub drive: bool,
    pub dq: u32,
}

impl Sent {
    /// What a controller's wires are called.
    pub const WIRES: [&'static str; 7] = ["ras_n", "cas_n", "we_n", "ba", "a", "drive", "dq"];

    /// From the levels of these.
    pub fn of(levels: [u64; 7]) -> Self {
        let [ras_n, cas_n, we_n, ba, a, drive, dq] = levels;
        Self {
            ras_n: ras_n == 1,
            cas_n: cas_n == 1,
            we_n: we_n == 1,
            ba: ba as u8,
            a: a as u32,
            drive: drive == 1,
            dq: dq as u32,
        }
    }

    /// A bit for each wire but the drivers': RAS#, CAS#, WE#, BA, A and DQ from the lowest on.
    fn bits(self) -> u64 {
        let command = u64::from(self.ras_n) | u64::from(self.cas_n) << 1 | u64::from(self.we_n) << 2;
        command | u64::from(self.ba & 3) << 3 | u64::from(self.a & 0x7ff) << 5 | u64::from(self.dq) << DQ
    }
}

/// The first wire of DQ, and how many there are in all.
const DQ: usize = 16;
const WIRES: usize = 48;

/// NOP.
const IDLE: Sent = Sent { ras_n: true, cas_n: true, we_n: true, ba: 0, a: 0, drive: false, dq: 0 };

#[derive(Clone, Copy)]
enum Change {
    Clk(bool),
    Wire(usize, bool),
    Driver(usize, bool),
}

/// A flop in each wire outwards and inwards, a cell that sends the clock's inverse as CLK, and delays.
///
/// ```text
///              edge n       n + 1/2       edge n+1      n+1+1/2        ...      edge n+CL
///  clock    ____/~~~~~~~~~~~~\______________/~~~~~~~~~~~~\_____________ ... ______/~~~
///  sent     READ\ NOP                        (the controller's own flops)
///  balls    ______|READ____________________| NOP                         out_ps behind the edge
///  CLK      ~~~~~~~~\________________/~~~~~~~~~~~~~~\_______________/~~ clk_ps behind the clock's inverse
///                                    ^ taken                    access_ps  |== data ==|
///  returned                                                                       ^ back_ps before the edge
/// ```
///
/// What the controller's own flops hold just before edge `n`
/// of its clock is what [`edge`](Self::edge) is given for `n`; the cells' flops catch it there, so that it is at the balls
/// `out_ps` behind `n` and the device takes it at its next rising edge, half a cycle behind `n` and `clk_ps`. The first
/// word of a READ then comes `CL - 1` cycles and `access_ps` behind this, and the call for edge `n + CL` is the one that
/// returns it while `back_ps + clk_ps + access_ps` is no more than half a cycle. It is what the inward flops hold from
/// that edge on, so that a simulator sets it behind the tick and the controller's logic has it in the cycle that edge
/// `n + CL` begins. The word of a WRITE goes with the command, in the same [`Sent`].
pub struct Cells {
    /// The device.
    pub device: Sdr,
    /// Nothing is ever caught.
    pub deaf: bool,
    ways: Ways,
    period_ps: u64,
    /// What the outward flops hold.
    held: Sent,
    pins: Pins,
    /// What is under way to the balls.
    pending: BTreeMap<u64, Vec<Change>>,
}

impl Cells {
    /// Before a device, with a controller's clock of this period.
    pub fn new(mut device: Sdr, ways: Ways, period_ps: u64) -> Self {
        let [least, most] = ways.skew_ps;
        assert!(least <= most, "skew_ps is {least} to {most}");
        for late in [0, ways.enable_ps[0], ways.enable_ps[1]] {
            for skew in ways.skew_ps {
                let way = ways.out_ps as i64 + skew + late;
                let fits = (0..period_ps as i64).contains(&way);
                assert!(fits, "a wire is {way} ps behind the clock, not 0 to a period");
            }
        }
        let pins = Pins::default();
        device.drive(0, pins);
        Self { device, deaf: false, ways, period_ps, held: IDLE, pins, pending: BTreeMap::new() }
    }

    /// A rising edge of the controller's clock: what its flops held until then, and what the cells' inward flops hold from then on.
    pub fn edge(&mut self, now_ps: u64, sent: Sent) -> u32 {
        let Ways { clk_ps, back_ps, enable_ps, .. } = self.ways;
        assert!(sent.ba < 4 && sent.a < 0x800, "BA is {}, A is {:#x}", sent.ba, sent.a);
        self.later(now_ps + clk_ps, Change::Clk(false));
        self.later(now_ps + self.period_ps / 2 + clk_ps, Change::Clk(true));
        let old = std::mem::replace(&mut self.held, sent);
        for wire in 0..WIRES {
            let at = now_ps + self.way(wire);
            let level = sent.bits() >> wire & 1 == 1;
            if (old.bits() >> wire & 1 == 1) != level {
                self.later(at, Change::Wire(wire, level));
            }
            if wire >= DQ && old.drive != sent.drive {
                let late = enable_ps[usize::from(!sent.drive)];
                let at = at.checked_add_signed(late).expect("checked by new()");
                self.later(at, Change::Driver(wire - DQ, sent.drive));
            }
        }
        while let Some(next) = self.pending.first_entry().filter(|next| *next.key() <= now_ps) {
            let (ps, changes) = next.remove_entry();
            changes.into_iter().for_each(|change| self.apply(change));
            self.device.drive(ps, self.pins);
        }
        self.device.drive(now_ps, self.pins);
        let word = self.device.sample(now_ps.saturating_sub(back_ps));
        if self.deaf {
            0
        } else {
            word
        }
    }

    /// From an edge of the controller's clock to a wire's ball. 29 and 48 have no divisor, so that no two wires are alike.
    fn way(&self, wire: usize) -> u64 {
        let [least, most] = self.ways.skew_ps;
        let skew = least + (most - least) * (wire * 29 % WIRES) as i64 / (WIRES as i64 - 1);
        self.ways.out_ps.checked_add_signed(skew).expect("checked by new()")
    }

    fn later(&mut self, ps: u64, change: Change) {
        self.pending.entry(ps).or_default().push(change);
    }

    fn apply(&mut self, change: Change) {
        let pins = &mut self.pins;
        let set = |word: u32, bit: usize, level: bool| word & !(1 << bit) | u32::from(level) << bit;
        match change {
            Change::Clk(level) => pins.clk = level,
            Change::Wire(0, level) => pins.ras_n = level,
            Change::Wire(1, level) => pins.cas_n = level,
            Change::Wire(2, level) => pins.we_n = level,
            Change::Wire(wire @ 3..5, level) => pins.ba = set(pins.ba.into(), wire - 3, level) as u8,
            Change::Wire(wire @ 5..DQ, level) => pins.a = set(pins.a, wire - 5, level),
            Change::Wire(wire, level) => pins.dq = set(pins.dq, wire - DQ, level),
            Change::Driver(bit, level) => pins.drive = set(pins.drive, bit, level),
        }
    }
}
