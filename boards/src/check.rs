// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a board's description may not say.

use crate::{Board, BoardError, Led, Memory, Supplies, LINKS};
use std::collections::HashMap;

/// Types of inputs and outputs that boards use, each with whether it is one of memory.
const TYPES: &[(&str, bool)] =
    &[("LVCMOS33", false), ("LVCMOS25", false), ("LVCMOS18", false), ("SSTL15_I", true), ("SSTL135_I", true)];
/// What a PLL of an ECP5 takes, in kHz (FPGA-DS-02012, table 3.20).
const CLOCK_KHZ: std::ops::RangeInclusive<u32> = 8_000..=400_000;
/// The most that inputs and outputs of an ECP5 are supplied with (FPGA-DS-02012, recommended operating conditions: 3.3 V and 5 per cent).
const MOST_MV: u32 = 3_465;
/// The longest that filters of a supply's pulses may take.
const SETTLE_MS: u32 = 1_000;
/// A step of `DELAYG`, and how many it has.
const DELAY_PS: (u32, u32) = (25, 127);

struct Checker<'b> {
    board: &'b Board,
}

impl Checker<'_> {
    fn wrong<T>(&self, field: &str, value: impl ToString, why: impl Into<String>) -> Result<T, BoardError> {
        let (board, field, value) = (self.board.name.clone(), field.into(), value.to_string());
        Err(BoardError::Field { board, field, value, why: why.into() })
    }

    fn io(&self, field: &str, io: &str, of_memory: bool) -> Result<(), BoardError> {
        let allowed: Vec<&str> =
            TYPES.iter().filter(|(_, memory)| of_memory == *memory).map(|(name, _)| *name).collect();
        match allowed.contains(&io) {
            true => Ok(()),
            false => self.wrong(field, io, format!("must be one of {}", allowed.join(", "))),
        }
    }

    fn led(&self, field: &str, led: &Led) -> Result<(), BoardError> {
        if ![1, 3].contains(&led.pins.len()) {
            return self.wrong(&format!("{field}.pins"), led.pins.len(), "must be one pin, or three");
        }
        self.io(&format!("{field}.io"), &led.io, false)
    }

    fn supplies(&self, supplies: &Supplies) -> Result<(), BoardError> {
        self.io("supplies.io", &supplies.io, false)?;
        let Supplies { low_mv, high_mv, settle_ms, .. } = *supplies;
        if low_mv <= high_mv {
            return self.wrong(
                "supplies.low_mv",
                low_mv,
                "must be above high_mv: pulses pull the voltage down",
            );
        }
        if !(1..=SETTLE_MS).contains(&settle_ms) {
            return self.wrong("supplies.settle_ms", settle_ms, format!("must be from 1 to {SETTLE_MS}"));
        }
        if supplies.each.is_empty() {
            return self.wrong("supplies.supply", "[]", "must be one at least");
        }
        for (i, supply) in supplies.each.iter().enumerate() {
            if !(high_mv..=low_mv.min(MOST_MV)).contains(&supply.mv) {
                let why = format!("must be from {high_mv} to {}", low_mv.min(MOST_MV));
                return self.wrong(&format!("supplies.supply[{i}].mv"), supply.mv, why);
            }
        }
        Ok(())
    }

    fn memory(&self, memory: &Memory) -> Result<(), BoardError> {
        self.io("memory.io", &memory.io, true)?;
        if !memory.bytes.is_power_of_two() {
            return self.wrong("memory.bytes", memory.bytes, "must be a power of two");
        }
        let bits = memory.dq.len();
        if bits == 0 || bits % 8 != 0 {
            return self.wrong("memory.dq", bits, "must be whole bytes of pins");
        }
        for (field, pins) in [("memory.dm", &memory.dm), ("memory.dqs_p", &memory.dqs_p)] {
            if pins.len() != bits / 8 {
                return self.wrong(
                    field,
                    pins.len(),
                    format!("must be a pin for each of {} bytes", bits / 8),
                );
            }
        }
        for (field, pins) in
            [("memory.clk_p", &memory.clk_p), ("memory.a", &memory.a), ("memory.ba", &memory.ba)]
        {
            if pins.is_empty() {
                return self.wrong(field, 0, "must be a pin at least");
            }
        }
        Ok(())
    }
}

/// Checks all of it.
pub(crate) fn check(board: &Board) -> Result<(), BoardError> {
    let checker = Checker { board };
    if board.clocks.is_empty() {
        return checker.wrong("clock", "[]", "a board has a clock at least");
    }
    for (i, clock) in board.clocks.iter().enumerate() {
        let field = |name: &str| format!("clock[{i}].{name}");
        checker.io(&field("io"), &clock.io, false)?;
        if !CLOCK_KHZ.contains(&clock.khz) {
            return checker.wrong(&field("khz"), clock.khz, "must be from 8000 to 400000");
        }
        let sound = clock.name.starts_with(|c: char| c.is_ascii_lowercase())
            && clock.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !sound {
            return checker.wrong(&field("name"), &clock.name, "must be lower-case letters, digits and `_`");
        }
    }
    for (i, led) in board.leds.iter().enumerate() {
        checker.led(&format!("led[{i}]"), led)?;
    }
    if let Some(led) = &board.led_colours {
        checker.led("led_colours", led)?;
    }
    if let Some(serial) = &board.serial {
        checker.io("serial.io", &serial.io, false)?;
    }
    for (i, phy) in board.rgmii.iter().enumerate() {
        checker.io(&format!("rgmii[{i}].io"), &phy.io, false)?;
        for (name, ps) in
            [("tx_clk_delay_ps", phy.tx_clk_delay_ps), ("rx_data_delay_ps", phy.rx_data_delay_ps)]
        {
            let (step, most) = DELAY_PS;
            if ps % step != 0 || ps / step > most {
                let why = format!("must be a multiple of {step}, at most {}", step * most);
                return checker.wrong(&format!("rgmii[{i}].{name}"), ps, why);
            }
        }
        if !LINKS.contains(&phy.link.as_str()) {
            let why = format!("must be one of {}", LINKS.join(", "));
            return checker.wrong(&format!("rgmii[{i}].link"), &phy.link, why);
        }
    }
    if let Some(supplies) = &board.supplies {
        checker.supplies(supplies)?;
    }
    if let Some(memory) = &board.memory {
        checker.memory(memory)?;
    }
    // Every ball is of the package, and has one use; so has every name.
    let (mut pins, mut names) = (HashMap::new(), HashMap::new());
    for port in board.ports() {
        if !board.part().has_ball(&port.pin) {
            return checker.wrong(&port.name, &port.pin, format!("no ball of {}", board.part_number));
        }
        if let Some(other) = pins.insert(port.pin.clone(), port.name.clone()) {
            return checker.wrong(&port.name, &port.pin, format!("that ball is {other} already"));
        }
        if names.insert(port.name.clone(), ()).is_some() {
            return checker.wrong(&port.name, &port.pin, "there are two ports of that name");
        }
    }
    Ok(())
}
