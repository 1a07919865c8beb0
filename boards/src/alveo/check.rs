// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an Alveo card's description may not say.

use super::Alveo;
use crate::part::ball;
use crate::BoardError;
use std::collections::HashMap;

/// Packages by their number in the part's name, with rows and columns of balls (UG575).
const PACKAGES: &[(&str, u32)] = &[("2104", 46), ("2892", 54)];
/// Reference clocks that the Ethernet block's IP takes, of those that cards have.
const REFCLKS: &[&str] = &["156.25", "161.1328125", "322.265625"];
const IO: &[&str] = &["LVCMOS12", "LVCMOS18", "LVDS"];

pub(super) fn wrong<T>(
    board: &Alveo,
    field: impl Into<String>,
    value: impl ToString,
    why: impl Into<String>,
) -> Result<T, BoardError> {
    let (board, field, value) = (board.name.clone(), field.into(), value.to_string());
    Err(BoardError::Field { board, field, value, why: why.into() })
}

/// Rows and columns of the package.
fn side(board: &Alveo) -> Option<u32> {
    let mut parts = board.part.split('-');
    let (device, package) = (parts.next()?, parts.next()?);
    let known = (device.starts_with("xcu") || device == "xcvu9p") && parts.clone().count() == 2;
    let (_, side) = PACKAGES.iter().find(|(number, _)| package.ends_with(number))?;
    known.then_some(*side)
}

/// Checks all of it.
pub(super) fn check(board: &Alveo) -> Result<(), BoardError> {
    let Some(side) = side(board) else {
        let packages: Vec<&str> = PACKAGES.iter().map(|(number, _)| *number).collect();
        let why =
            format!("no part that is known; as xcu50-fsvh2104-2-e, with {} balls", packages.join(" or "));
        return wrong(board, "part", &board.part, why);
    };
    if board.slrs == 0 {
        return wrong(board, "slrs", 0, "must be one at least");
    }
    clock(board)?;
    pcie(board)?;
    if board.qsfp.is_empty() {
        return wrong(board, "qsfp", "[]", "a card has a cage at least");
    }
    for (i, qsfp) in board.qsfp.iter().enumerate() {
        let field = |name: &str| format!("qsfp[{i}].{name}");
        if qsfp.gt_place().is_none_or(|(_, y)| y % 4 != 0) {
            return wrong(board, field("gt"), &qsfp.gt, "must be the first of a quad, as X0Y28");
        }
        if !qsfp.cmac.starts_with("CMACE4_X") {
            return wrong(board, field("cmac"), &qsfp.cmac, "must be a place, as CMACE4_X0Y4");
        }
        if !REFCLKS.contains(&qsfp.refclk_mhz.as_str()) {
            let why = format!("must be one of {}", REFCLKS.join(", "));
            return wrong(board, field("refclk_mhz"), &qsfp.refclk_mhz, why);
        }
        if qsfp.slr >= board.slrs {
            return wrong(board, field("slr"), qsfp.slr, format!("must be below slrs, {}", board.slrs));
        }
    }
    if !board.flash.part.ends_with("-spi-x1_x2_x4") {
        let why = "must be a memory behind four wires, as mt25qu01g-spi-x1_x2_x4";
        return wrong(board, "flash.part", &board.flash.part, why);
    }
    if board.flash.mcs_mib == 0 || board.flash.offset >> 20 >= board.flash.mcs_mib {
        return wrong(board, "flash.offset", board.flash.offset, "must lie in mcs_mib MiB");
    }
    balls(board, side)
}

fn clock(board: &Alveo) -> Result<(), BoardError> {
    let clock = &board.clock;
    if !(1..=8).contains(&clock.divide) || clock.khz % clock.divide != 0 {
        return wrong(board, "clock.divide", clock.divide, "must be from 1 to 8, and divide khz");
    }
    if clock.khz == 0 {
        return wrong(board, "clock.khz", 0, "must be more");
    }
    Ok(())
}

fn pcie(board: &Alveo) -> Result<(), BoardError> {
    let pcie = &board.pcie;
    let (generation, lanes) = (pcie.generation, pcie.lanes);
    if (generation, lanes) != (3, 16) {
        let why = "must be 3 with 16 lanes: as many bytes as 512 bits at 250 MHz bring";
        return wrong(board, "pcie.generation", format!("{generation} with {lanes} lanes"), why);
    }
    if pcie.slr >= board.slrs {
        return wrong(board, "pcie.slr", pcie.slr, format!("must be below slrs, {}", board.slrs));
    }
    for (name, pins) in
        [("rx_p", &pcie.rx_p), ("rx_n", &pcie.rx_n), ("tx_p", &pcie.tx_p), ("tx_n", &pcie.tx_n)]
    {
        if pins.len() != pcie.lanes as usize {
            let why = format!("must be a ball for each of {} lanes", pcie.lanes);
            return wrong(board, format!("pcie.{name}"), pins.len(), why);
        }
    }
    Ok(())
}

/// Every ball is of the package, and has one use.
fn balls(board: &Alveo, side: u32) -> Result<(), BoardError> {
    let mut seen: HashMap<String, String> = HashMap::new();
    for pin in board.pins() {
        if !ball(&pin.pin, side) {
            return wrong(board, &pin.name, &pin.pin, format!("no ball of {}", board.part));
        }
        if let Some(io) = pin.io.as_ref().filter(|io| !IO.contains(&io.as_str())) {
            return wrong(board, &pin.name, io, format!("must be one of {}", IO.join(", ")));
        }
        if let Some(other) = seen.insert(pin.pin.clone(), pin.name.clone()) {
            return wrong(board, &pin.name, &pin.pin, format!("that ball is {other} already"));
        }
    }
    Ok(())
}
