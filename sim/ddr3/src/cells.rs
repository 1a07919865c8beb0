// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Cells`]: what lies between a controller's fast clock and the device.

use crate::{Ddr3, Pins};

/// What is not known of a board, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// From an edge of the fast clock to the balls.
    pub out_ps: u64,
    /// From the balls to what catches.
    pub back_ps: u64,
    /// By how many edges what leaves by a flop, the enable of the data wires, CKE and RESET#, is earlier than what leaves by a cell that sends at both edges: 0 to 2.
    pub enable_early: usize,
}

impl Default for Ways {
    fn default() -> Self {
        Self { out_ps: 1_500, back_ps: 900, enable_early: 1 }
    }
}

/// What is sent in a cycle of the fast clock. Where there are two bits of a wire, they are its halves, the first lowest.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Sent {
    pub reset_n: bool,
    pub cke: bool,
    pub ck: u8,
    pub ras_n: bool,
    pub cas_n: bool,
    pub we_n: bool,
    pub ba: u8,
    pub a: u32,
    pub drive: bool,
    pub dqs: u8,
    pub dq: u16,
    pub dm: u8,
}

impl Sent {
    /// What a controller's wires are called.
    pub const WIRES: [&'static str; 12] =
        ["reset_n", "cke", "ck", "ras_n", "cas_n", "we_n", "ba", "a", "drive", "dqs", "dq", "dm"];

    /// From the levels of these.
    pub fn of(levels: [u64; 12]) -> Self {
        let [reset_n, cke, ck, ras_n, cas_n, we_n, ba, a, drive, dqs, dq, dm] = levels;
        Self {
            reset_n: reset_n == 1,
            cke: cke == 1,
            ck: ck as u8,
            ras_n: ras_n == 1,
            cas_n: cas_n == 1,
            we_n: we_n == 1,
            ba: ba as u8,
            a: a as u32,
            drive: drive == 1,
            dqs: dqs as u8,
            dq: dq as u16,
            dm: dm as u8,
        }
    }
}

/// Cells that send at both edges of a clock, cells that catch at both, and between balls and these a delay of 25 ps a step.
pub struct Cells {
    /// The device.
    pub device: Ddr3,
    /// Nothing is ever caught.
    pub deaf: bool,
    ways: Ways,
    period_ps: u64,
    /// What was sent at the last edges, the latest first.
    sent: [Option<Sent>; 3],
    steps: u64,
    moving: bool,
}

/// Picoseconds of a step, and how many there are.
const STEP_PS: u64 = 25;
const STEPS: u64 = 127;

impl Cells {
    /// Before a device, with a fast clock of this period.
    pub fn new(device: Ddr3, ways: Ways, period_ps: u64) -> Self {
        Self { device, deaf: false, ways, period_ps, sent: [None; 3], steps: 0, moving: false }
    }

    /// A rising edge of the fast clock: what is sent from it on, and what was caught at the edges before it, the rising and the falling one.
    pub fn edge(&mut self, now_ps: u64, sent: Sent) -> [u16; 2] {
        let Sent { reset_n, cke, drive, .. } = sent;
        self.sent = [Some(sent), self.sent[0], self.sent[1]];
        let sent = self.sent[self.ways.enable_early].unwrap_or(sent);
        let half = self.period_ps / 2;
        for part in 0..2 {
            let bit = |levels: u8| levels >> part & 1 == 1;
            let pins = Pins {
                reset_n,
                ck: bit(sent.ck),
                cke,
                cs_n: false,
                ras_n: sent.ras_n,
                cas_n: sent.cas_n,
                we_n: sent.we_n,
                odt: false,
                ba: sent.ba,
                a: sent.a,
                dm: sent.dm,
                dqs: drive.then(|| if bit(sent.dqs) { 3 } else { 0 }),
                dq: drive.then_some(sent.dq),
            };
            self.device.drive(now_ps + self.ways.out_ps + part * half, pins);
        }
        let late = self.ways.back_ps + STEP_PS * self.steps;
        [self.period_ps, half].map(|ago| {
            let word = self.device.sample(now_ps - ago - late);
            if self.deaf {
                0
            } else {
                word
            }
        })
    }

    /// Levels of the delays' inputs: a step at the falling edge of `step`, none while `load_n` is low.
    pub fn delay(&mut self, load_n: bool, step: bool) {
        if self.moving && !step {
            self.steps = (self.steps + 1).min(STEPS);
        }
        self.moving = step;
        if !load_n {
            self.steps = 0;
        }
    }
}
