// SPDX-License-Identifier: MIT OR Apache-2.0
//! LUTs that stay free where wires are short.
//!
//! nextpnr's placers know how many cells there are room for and not how many wires, and fill the chip evenly. Beside a row of block RAMs, whose wires
//! cross the same tiles, and where many nets pass, that is too full: the router ends with a few hundred wires of a million wanted twice, all in a few
//! places. So some LUTs of these places are taken by cells that do nothing, and the design is placed anew round them. The places are beside the block
//! RAMs to begin with, and then where the router's last rounds wanted wires twice ([`Spread::learn`]).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use ferrowire_boards::nextpnr::{LUTS, SPREAD};
use serde_json::{json, Value};

use super::memories::{at, At};

/// LUTs that stay free: how many of which tile.
#[derive(Default)]
pub struct Spread {
    free: BTreeMap<At, usize>,
}

impl Spread {
    /// Of a placed design: nothing but block RAM is connected beside these rows of block RAMs.
    pub fn beside(&mut self, rows: &BTreeSet<i32>, placed: &str) {
        let beside = |(_, y): &At| rows.iter().any(|row| row.abs_diff(*y) == 1);
        self.free.extend(tiles(placed).into_iter().filter(beside).map(|tile| (tile, LUTS.len())));
    }

    /// How many LUTs stay free.
    pub fn luts(&self) -> usize {
        self.free.values().sum()
    }

    /// Leaves more free where these maps of nextpnr, a line of numbers for each column, show wires of a placed design that are wanted twice;
    /// tells how many more.
    pub fn learn(&mut self, placed: &str, maps: &[String]) -> usize {
        let mut wanted: BTreeMap<At, u64> = BTreeMap::new();
        for map in maps {
            for (x, line) in (0..).zip(map.lines()) {
                let numbers = line.split(',').map(|number| number.trim().parse().unwrap_or(0));
                let wires = (0..).zip(numbers).filter(|(_, n)| *n > 0);
                wires.for_each(|(y, n)| *wanted.entry((x, y)).or_default() += n);
            }
        }
        let (step, most, reach) = (SPREAD.step as usize, SPREAD.most as usize, SPREAD.reach as i32);
        let near = |(x, y): At| -> u64 {
            let columns = x - reach..=x + reach;
            columns.flat_map(|x| wanted.range((x, y - reach)..=(x, y + reach))).map(|(_, n)| n).sum()
        };
        let near: BTreeMap<At, u64> = tiles(placed).into_iter().map(|tile| (tile, near(tile))).collect();
        let worst = near.values().copied().max().unwrap_or(0);
        let (before, (share, of)) = (self.luts(), SPREAD.share);
        for (tile, n) in near {
            if n > 0 && n * u64::from(of) >= worst * u64::from(share) {
                let free = self.free.entry(tile).or_default();
                *free = (*free).max((*free + step).min(most));
            }
        }
        self.luts() - before
    }

    /// The design that is to be placed, with what keeps these LUTs free.
    pub fn leave(&self, design: &str) -> Result<String> {
        let mut design: Value = serde_json::from_str(design)?;
        let modules = design.get_mut("modules").and_then(Value::as_object_mut).context("no modules")?;
        let top = modules.values_mut().find(|module| module["attributes"].get("top").is_some());
        let top = top.context("no top module")?;
        let cells = top.get_mut("cells").and_then(Value::as_object_mut).context("no cells")?;
        let free =
            self.free.iter().flat_map(|(tile, count)| LUTS[..*count].iter().map(move |lut| (tile, lut)));
        for ((x, y), lut) in free {
            let cell = json!({
                "hide_name": 0, "type": "LUT4", "parameters": { "INIT": "0000000000000000" },
                "attributes": { "BEL": format!("X{x}/Y{y}/{lut}") },
                "port_directions": { "A": "input", "B": "input", "C": "input", "D": "input", "Z": "output" },
                "connections": { "A": ["0"], "B": ["0"], "C": ["0"], "D": ["0"], "Z": [] },
            });
            cells.insert(format!("left_free_X{x}_Y{y}_{lut}"), cell);
        }
        Ok(serde_json::to_string(&design)?)
    }
}

/// The tiles with LUTs of the device, as far as a design that nextpnr has placed and written has anything there.
fn tiles(placed: &str) -> BTreeSet<At> {
    let places = placed.split("\"NEXTPNR_BEL\": \"").skip(1).filter_map(|rest| rest.split('"').next());
    places.filter(|place| place.contains("/SLICE")).filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something in each of 40 times 40 tiles but those of row 20, where a block RAM is.
    fn placed() -> String {
        let tiles = (0..40).flat_map(|x| (0..40).map(move |y| (x, y))).filter(|(_, y)| *y != 20);
        let bels = tiles.map(|(x, y)| format!("X{x}/Y{y}/SLICEA.FF0"));
        let bels = bels.chain(["X7/Y20/EBR2".into(), "X40/Y3/PIOA".into()]);
        let cells: String =
            bels.map(|bel| format!("{{ \"attributes\": {{ \"NEXTPNR_BEL\": \"{bel}\" }} }},\n")).collect();
        format!("[{cells} 0]")
    }

    /// A map on which one tile has wires that are wanted twice.
    fn map((x, y): At, wires: u32) -> String {
        let at = |c, r| if (c, r) == (x, y) { format!("{wires},") } else { "0,".into() };
        (0..41).map(|c| (0..40).map(|r| at(c, r)).collect::<String>() + "\n").collect()
    }

    #[test]
    fn beside_block_rams_all_luts_stay_free_and_elsewhere_none() {
        let mut spread = Spread::default();
        spread.beside(&BTreeSet::from([20]), &placed());
        assert_eq!(spread.luts(), 2 * 40 * 8);
        assert_eq!(spread.free.keys().map(|(_, y)| *y).collect::<BTreeSet<_>>(), BTreeSet::from([19, 21]));
    }

    #[test]
    fn round_the_worst_places_two_more_stay_free_each_time_up_to_six() {
        let mut spread = Spread::default();
        spread.beside(&BTreeSet::from([20]), &placed());
        let beside = spread.luts();
        // Two rounds, of which the second has a place that is a fifth as bad.
        let maps = [map((10, 8), 3), map((10, 8), 2), map((30, 8), 1)];
        let reach = SPREAD.reach as i32;
        let tiles = (2 * reach as usize + 1).pow(2);
        for free in [2, 4, 6] {
            assert_eq!(spread.learn(&placed(), &maps), 2 * tiles);
            assert_eq!(spread.free[&(10 + reach, 8 - reach)], free);
            assert!(!spread.free.contains_key(&(30, 8)) && !spread.free.contains_key(&(10, 9 + reach)));
        }
        assert_eq!(spread.learn(&placed(), &maps), 0);
        assert_eq!(spread.learn(&placed(), &[map((10, 8), 0)]), 0);
        assert_eq!(spread.luts(), beside + 6 * tiles);
        // Where all stay free already, none is given back.
        spread.learn(&placed(), &[map((10, 20), 9)]);
        assert_eq!(spread.free[&(10, 19)], LUTS.len());
    }

    #[test]
    fn a_lut_stays_free_by_a_cell_that_stands_there() {
        let mut spread = Spread::default();
        spread.learn(&placed(), &[map((0, 0), 1)]);
        let design = json!({ "modules": { "other": { "cells": {} }, "top": { "attributes": { "top": "1" }, "cells": {} } } });
        let left: Value = serde_json::from_str(&spread.leave(&design.to_string()).unwrap()).unwrap();
        let cells = left["modules"]["top"]["cells"].as_object().unwrap();
        assert_eq!((cells.len(), spread.luts()), (2 * 49, 2 * 49));
        assert_eq!(cells["left_free_X6_Y5_SLICED.K1"]["attributes"]["BEL"], "X6/Y5/SLICED.K1");
        assert_eq!(left["modules"]["other"], design["modules"]["other"]);
        assert!(spread.leave(r#"{ "modules": {} }"#).is_err());
    }
}
