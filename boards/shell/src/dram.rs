// SPDX-License-Identifier: MIT OR Apache-2.0
//! A board's DRAM in place of block RAM: the controller answers for memory, and its cells are at the balls.

use std::cell::RefCell;

use ferrowire_boards::{Board, Memory as Described};
use ferrowire_dram::{
    dram, ecp5, Clocks, Delay, DramConfig, Halves, Sampled, Status, BANK_BITS, LINE_BYTES, WORD_BITS,
};
use ferrowire_rtl::Scope;
use ferrowire_serial::axi::{Answers, Requests};
use ferrowire_serial::dirty::Wrote;
use ferrowire_serial::{protocol, SerialConfig};

use crate::ShellError;

fn balls(pins: &[String]) -> u32 {
    pins.len() as u32
}

/// The controller for what a board's description says of its memory.
pub(crate) fn config(board: &Board, clock_khz: u32, serial: &SerialConfig) -> Result<DramConfig, ShellError> {
    let missing = |what| ShellError::Missing { board: board.name.clone(), what };
    let memory = board.memory.as_ref().ok_or_else(|| missing("memory, which `dram` wants"))?;
    let rows = DramConfig::row_bits_of(memory.bytes);
    let cfg = DramConfig {
        memory_base: serial.memory_base,
        ..DramConfig::new(clock_khz, rows, serial.memory_bytes)
    };
    if let Some((_, what)) = wanted_balls(memory, rows).into_iter().find(|(there, _)| !there) {
        return Err(missing(what));
    }
    cfg.validate().map_err(|source| ShellError::Dram { board: board.name.clone(), source })?;
    Ok(cfg)
}

/// What DDR3 must have, in words.
fn wanted_balls(memory: &Described, rows: u32) -> [(bool, &'static str); 3] {
    [
        (
            balls(&memory.dq) == WORD_BITS
                && [&memory.dqs_p, &memory.dm].iter().all(|pins| balls(pins) == WORD_BITS / 8),
            "DDR3 of 16 bits, which `dram` wants",
        ),
        (
            balls(&memory.ba) == BANK_BITS && balls(&memory.a) >= rows,
            "balls for all rows and banks of its DDR3, which `dram` wants",
        ),
        (
            !memory.cke.is_empty() && !memory.odt.is_empty(),
            "balls for CKE and ODT of its DDR3, which `dram` wants",
        ),
    ]
}

/// A controller that is being built, in a clock domain of its own: what cells have for it, and once it answers for
/// memory, what it has for them.
pub(crate) struct Memory {
    cfg: DramConfig,
    clocks: Clocks,
    sampled: Sampled,
    pins: RefCell<Option<(Halves, Delay, Status)>>,
}

impl Memory {
    /// Before it is one.
    pub fn new(m: &Scope, cfg: &DramConfig) -> Self {
        let clocks = Clocks { core: m.current_domain(), twice: m.domain("memory") };
        let sampled = m.in_domain(clocks.twice, |m| m.wire_of("sampled", &Sampled::of()));
        Memory { cfg: cfg.clone(), clocks, sampled, pins: RefCell::new(None) }
    }

    /// In place of block RAM.
    pub fn answer(&self, m: &Scope, serial: &SerialConfig, requests: Requests) -> (Answers, Wrote) {
        let Requests { aw, w, ar } = requests;
        let made = dram(m, &self.cfg, self.clocks, aw, w, ar, self.sampled.clone());
        *self.pins.borrow_mut() = Some((made.halves, made.delay, made.status));
        // The card's IDs have no highest bit, and a block has some lines.
        let block = (protocol::BLOCK / LINE_BYTES).trailing_zeros();
        let (line, shape) = (made.wrote.line, Wrote::of(serial));
        let block = line.slice(block, line.width() - block).zext(shape.block.width());
        let wrote = Wrote { valid: made.wrote.valid & !made.wrote.id.msb(), block };
        (Answers { b: made.b, r: made.r }, wrote)
    }

    /// With what cells send and catch as ports.
    pub fn edges(self, m: &Scope) {
        let (halves, delay, status) = there(self.pins);
        m.output("dram", &status);
        m.output("dram_delay", &delay);
        m.in_domain(self.clocks.twice, |m| {
            m.drive(&self.sampled, m.input_of("dram_sampled", &Sampled::of()));
            m.output("dram", &halves);
        });
    }

    /// With cells.
    pub fn cells(self, m: &Scope, board: &Board) {
        let memory = board.memory.as_ref().expect("looked at already");
        let (halves, delay, status) = there(self.pins);
        m.output("dram", &status);
        m.in_domain(self.clocks.twice, |m| {
            let dq = m.input("dram_dq_in", balls(&memory.dq));
            let pads = ecp5::pads(m, balls(&memory.clk_p), balls(&memory.a), halves, delay, dq);
            m.drive(&self.sampled, pads.sampled);
            m.output("dram", &pads.out);
        });
    }
}

fn there<T>(pins: RefCell<Option<T>>) -> T {
    pins.into_inner().expect("it answers for memory")
}
