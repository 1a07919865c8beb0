// SPDX-License-Identifier: MIT OR Apache-2.0
//! A board's DRAM in place of block RAM: the controller answers for memory, and its cells are at the balls.

use std::cell::RefCell;

use ferrowire_boards::{Board, Memory as Described, MemoryKind};
use ferrowire_dram::sdr::{self, SdrConfig, Sent};
use ferrowire_dram::{dram, ecp5, Clocks, Delay, DramConfig, Halves, Sampled, Status, BANK_BITS, WORD_BITS};
use ferrowire_rtl::{Scope, Sig};
use ferrowire_serial::axi::{Answers, Requests};
use ferrowire_serial::dirty::Wrote;
use ferrowire_serial::{protocol, SerialConfig};

use crate::ShellError;

fn balls(pins: &[String]) -> u32 {
    pins.len() as u32
}

/// Which controller, and for what device.
#[derive(Clone, Debug)]
pub(crate) enum Dram {
    Ddr3(DramConfig),
    Sdr(SdrConfig),
}

impl Dram {
    /// Bits of its words.
    pub fn word_bits(&self) -> u32 {
        match self {
            Dram::Ddr3(_) => WORD_BITS,
            Dram::Sdr(_) => sdr::WORD_BITS,
        }
    }

    /// It wants twice the core's clock.
    pub fn is_twice(&self) -> bool {
        matches!(self, Dram::Ddr3(_))
    }
}

/// The controller for what a board's description says of its memory.
pub(crate) fn config(board: &Board, clock_khz: u32, serial: &SerialConfig) -> Result<Dram, ShellError> {
    let missing = |what| ShellError::Missing { board: board.name.clone(), what };
    let memory = board.memory.as_ref().ok_or_else(|| missing("memory, which `dram` wants"))?;
    let (bytes, memory_base) = (serial.memory_bytes, serial.memory_base);
    let (wanted, valid, dram) = match memory.kind {
        MemoryKind::Ddr3 => {
            let rows = DramConfig::row_bits_of(memory.bytes);
            let cfg = DramConfig { memory_base, ..DramConfig::new(clock_khz, rows, bytes) };
            (balls_of_ddr3(memory, rows), cfg.validate(), Dram::Ddr3(cfg))
        }
        MemoryKind::Sdram => {
            let rows = SdrConfig::row_bits_of(memory.bytes);
            let cfg = SdrConfig { memory_base, ..SdrConfig::new(clock_khz, rows, bytes) };
            (balls_of_sdr(memory, rows), cfg.validate(), Dram::Sdr(cfg))
        }
    };
    if let Some((_, what)) = wanted.iter().find(|(there, _)| !there) {
        return Err(missing(what));
    }
    valid.map_err(|source| ShellError::Dram { board: board.name.clone(), source })?;
    Ok(dram)
}

/// What DDR3 must have, in words.
fn balls_of_ddr3(memory: &Described, rows: u32) -> Vec<(bool, &'static str)> {
    vec![
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

/// What SDRAM must have and what it may not, for the board is to hold it.
fn balls_of_sdr(memory: &Described, rows: u32) -> Vec<(bool, &'static str)> {
    vec![
        (balls(&memory.dq) == sdr::WORD_BITS, "SDRAM of 32 bits, which `dram` wants"),
        (balls(&memory.clk_p) == 1, "SDRAM with one clock, which `dram` wants"),
        (
            balls(&memory.ba) == sdr::BANK_BITS && balls(&memory.a) >= rows,
            "balls for all rows and banks of its SDRAM, which `dram` wants",
        ),
        (
            [&memory.cke, &memory.cs_n, &memory.dm].iter().all(|pins| pins.is_empty()),
            "SDRAM whose CKE, CS# and DQM the board holds, which `dram` wants",
        ),
    ]
}

/// A controller that is being built: what cells have for it, and once it answers for memory, what it has for them.
pub(crate) enum Memory {
    /// In a clock domain of its own.
    Ddr3 {
        cfg: DramConfig,
        clocks: Clocks,
        sampled: Sampled,
        pins: RefCell<Option<(Halves, Delay, Status)>>,
    },
    Sdr {
        cfg: SdrConfig,
        caught: Sig,
        pins: RefCell<Option<(Sent, Status)>>,
    },
}

impl Memory {
    /// Before it is one.
    pub fn new(m: &Scope, cfg: &Dram) -> Self {
        match cfg.clone() {
            Dram::Ddr3(cfg) => {
                let clocks = Clocks { core: m.current_domain(), twice: m.domain("memory") };
                let sampled = m.in_domain(clocks.twice, |m| m.wire_of("sampled", &Sampled::of()));
                Memory::Ddr3 { cfg, clocks, sampled, pins: RefCell::new(None) }
            }
            Dram::Sdr(cfg) => {
                let caught = m.wire("caught", sdr::WORD_BITS);
                Memory::Sdr { cfg, caught, pins: RefCell::new(None) }
            }
        }
    }

    /// In place of block RAM.
    pub fn answer(&self, m: &Scope, serial: &SerialConfig, requests: Requests) -> (Answers, Wrote) {
        let Requests { aw, w, ar } = requests;
        let (answers, wrote, line_bytes) = match self {
            Memory::Ddr3 { cfg, clocks, sampled, pins } => {
                let made = dram(m, cfg, *clocks, aw, w, ar, sampled.clone());
                *pins.borrow_mut() = Some((made.halves, made.delay, made.status));
                (Answers { b: made.b, r: made.r }, made.wrote, ferrowire_dram::LINE_BYTES)
            }
            Memory::Sdr { cfg, caught, pins } => {
                let made = sdr::sdram(m, cfg, aw, w, ar, *caught);
                *pins.borrow_mut() = Some((made.sent, made.status));
                (Answers { b: made.b, r: made.r }, made.wrote, sdr::LINE_BYTES)
            }
        };
        // The card's IDs have no highest bit, and a block has some lines.
        let block = (protocol::BLOCK / line_bytes).trailing_zeros();
        let (line, shape) = (wrote.line, Wrote::of(serial));
        let block = line.slice(block, line.width() - block).zext(shape.block.width());
        (answers, Wrote { valid: wrote.valid & !wrote.id.msb(), block })
    }

    /// With what cells send and catch as ports.
    pub fn edges(self, m: &Scope) {
        match self {
            Memory::Ddr3 { clocks, sampled, pins, .. } => {
                let (halves, delay, status) = there(pins);
                m.output("dram", &status);
                m.output("dram_delay", &delay);
                m.in_domain(clocks.twice, |m| {
                    m.drive(&sampled, m.input_of("dram_sampled", &Sampled::of()));
                    m.output("dram", &halves);
                });
            }
            Memory::Sdr { caught, pins, .. } => {
                let (sent, status) = there(pins);
                m.output("dram", &status);
                m.drive(&caught, m.input("dram_caught", sdr::WORD_BITS));
                m.output("dram", &sent);
            }
        }
    }

    /// With cells.
    pub fn cells(self, m: &Scope, board: &Board) {
        let memory = board.memory.as_ref().expect("looked at already");
        let address = balls(&memory.a);
        match self {
            Memory::Ddr3 { clocks, sampled, pins, .. } => {
                let (halves, delay, status) = there(pins);
                m.output("dram", &status);
                m.in_domain(clocks.twice, |m| {
                    let dq = m.input("dram_dq_in", balls(&memory.dq));
                    let pads = ecp5::pads(m, balls(&memory.clk_p), address, halves, delay, dq);
                    m.drive(&sampled, pads.sampled);
                    m.output("dram", &pads.out);
                });
            }
            Memory::Sdr { caught, pins, .. } => {
                let (sent, status) = there(pins);
                m.output("dram", &status);
                let pads = sdr::ecp5::pads(m, address, sent, m.input("dram_dq_in", balls(&memory.dq)));
                m.drive(&caught, pads.caught);
                m.output("dram", &pads.out);
            }
        }
    }
}

fn there<T>(pins: RefCell<Option<T>>) -> T {
    pins.into_inner().expect("it answers for memory")
}
