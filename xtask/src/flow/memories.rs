// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sites for block RAMs, so that the wires to them are short.
//!
//! nextpnr's placers put each block RAM of an ECP5 on a free site near where it wants to be, once and one after the other; nothing moves
//! it again. Where most sites are taken, the last ones get what is left, and their wires cross the chip; and the wires along a row of sites
//! that is full are wanted by more nets than there are. So a design is placed twice: after the first time the block RAMs change sites
//! among each other and with free ones while everything else stays (simulated annealing over half the bounding boxes' perimeters), and
//! the second time they stand there from the start. Some sites stay free ([`open`]).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, Context, Result};
use ferrowire_boards::nextpnr::{ANNEALING, MEMORY_COLUMNS, MEMORY_FREE, MEMORY_GROUP, MEMORY_ROWS};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Deserialize;
use serde_json::Value;

const BLOCK_RAM: &str = "DP16KD";

/// A tile: column and row.
pub type At = (i32, i32);

/// The sites of a row by nextpnr's names.
fn row(y: u32) -> Vec<String> {
    let group = |x: u32| (0..MEMORY_GROUP).map(move |i| format!("X{}/Y{y}/EBR{i}", x + 2 * i));
    MEMORY_COLUMNS.into_iter().flat_map(group).collect()
}

/// All sites.
fn sites() -> Vec<String> {
    MEMORY_ROWS.into_iter().flat_map(row).collect()
}

/// The sites that are used for so many block RAMs, evenly along each row. One in sixteen is to spare where there are so many.
fn open(memories: usize) -> Vec<String> {
    let most: usize = MEMORY_FREE.iter().sum();
    let free = most.min(sites().len().saturating_sub(memories + memories / 16));
    let open = |(y, share): (u32, usize)| {
        let all = row(y);
        let (there, wanted) = (all.len(), all.len() - share * free / most);
        let is_open = move |i: usize| (i + 1) * wanted / there > i * wanted / there;
        all.into_iter().enumerate().filter(move |(i, _)| is_open(*i)).map(|(_, site)| site)
    };
    MEMORY_ROWS.into_iter().zip(MEMORY_FREE).flat_map(open).collect()
}

/// The tile of a place by nextpnr's name for it: `X3/Y7/SLICEA.FF0`.
pub fn at(site: &str) -> Option<At> {
    let mut parts = site.split('/');
    let mut number = |letter: char| parts.next()?.strip_prefix(letter)?.parse().ok();
    Some((number('X')?, number('Y')?))
}

/// What of nextpnr's design is needed here.
#[derive(Deserialize)]
struct Design {
    modules: BTreeMap<String, Module>,
}

#[derive(Deserialize)]
struct Module {
    cells: BTreeMap<String, Cell>,
}

#[derive(Deserialize)]
struct Cell {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
    #[serde(default)]
    connections: BTreeMap<String, Vec<Bit>>,
}

/// A net, or a constant.
#[derive(Deserialize)]
#[serde(untagged)]
enum Bit {
    Net(u32),
    Constant(#[allow(dead_code)] String),
}

/// A box round tiles, empty to begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Extent {
    low: At,
    high: At,
}

impl Extent {
    const NONE: Extent = Extent { low: (i32::MAX, i32::MAX), high: (i32::MIN, i32::MIN) };

    fn with(self, (x, y): At) -> Extent {
        let low = (self.low.0.min(x), self.low.1.min(y));
        Extent { low, high: (self.high.0.max(x), self.high.1.max(y)) }
    }

    fn half_perimeter(self) -> i64 {
        i64::from(self.high.0 - self.low.0) + i64::from(self.high.1 - self.low.1)
    }
}

/// A net with a block RAM: the box of all its other pins, and the block RAMs.
struct Net {
    others: Extent,
    memories: Vec<usize>,
}

/// Which block RAM stands where.
pub struct Sites {
    of: BTreeMap<String, String>,
    /// Half perimeters of the nets of block RAMs, in tiles: as the placer left them, and now.
    pub before: i64,
    pub after: i64,
}

/// Chooses sites for the block RAMs of a placed design, which nextpnr has written.
pub fn choose(placed: &str, seed: u32) -> Result<Sites> {
    let design: Design = serde_json::from_str(placed)?;
    let module = design.modules.into_values().max_by_key(|m| m.cells.len()).context("no module")?;
    let mut board = Board::read(&module)?;
    let before = board.length();
    board.anneal(u64::from(seed));
    let of = board.names.iter().zip(&board.on).map(|(name, site)| (name.clone(), board.sites[*site].clone()));
    Ok(Sites { of: of.collect(), before, after: board.length() })
}

impl Sites {
    /// The rows in which there are any.
    pub fn rows(&self) -> BTreeSet<i32> {
        self.of.values().filter_map(|site| Some(at(site)?.1)).collect()
    }

    /// The design that is to be placed, with its block RAMs on their sites.
    pub fn fix(&self, design: &str) -> Result<String> {
        let mut design: Value = serde_json::from_str(design)?;
        let mut left: BTreeSet<&String> = self.of.keys().collect();
        let modules = design.get_mut("modules").and_then(Value::as_object_mut).context("no modules")?;
        for module in modules.values_mut() {
            let Some(cells) = module.get_mut("cells").and_then(Value::as_object_mut) else { continue };
            for (name, site) in &self.of {
                let Some(cell) = cells.get_mut(name) else { continue };
                cell["attributes"]["BEL"] = Value::String(site.clone());
                left.remove(name);
            }
        }
        if let Some(name) = left.first() {
            bail!("the placed design has a block RAM `{name}`, and the one to be placed has not");
        }
        Ok(serde_json::to_string(&design)?)
    }
}

/// Block RAMs by number on sites by number.
struct Board {
    names: Vec<String>,
    sites: Vec<String>,
    tiles: Vec<At>,
    /// The site of each block RAM, and the block RAM of each site.
    on: Vec<usize>,
    held: Vec<Option<usize>>,
    nets: Vec<Net>,
    /// The nets of each block RAM.
    of: Vec<Vec<usize>>,
}

impl Board {
    fn read(module: &Module) -> Result<Board> {
        let all = sites();
        let (mut names, mut from) = (vec![], vec![]);
        let mut pins: BTreeMap<u32, (usize, Net)> = BTreeMap::new();
        for (name, cell) in &module.cells {
            let Some(site) = cell.attributes.get("NEXTPNR_BEL").and_then(Value::as_str) else { continue };
            let memory = (cell.kind == BLOCK_RAM).then_some(names.len());
            let tile = at(site).with_context(|| format!("`{name}` stands on `{site}`"))?;
            if memory.is_some() {
                if !all.iter().any(|s| s == site) {
                    bail!("block RAM on an unknown site `{site}`");
                }
                names.push(name.clone());
                from.push(tile);
            }
            let clock = |port: &str| matches!(port, "CLK" | "WCK" | "CLKA" | "CLKB");
            for bits in cell.connections.iter().filter(|(port, _)| !clock(port)).map(|c| c.1) {
                for bit in bits {
                    let Bit::Net(number) = bit else { continue };
                    let empty = || (0, Net { others: Extent::NONE, memories: vec![] });
                    let (count, net) = pins.entry(*number).or_insert_with(empty);
                    *count += 1;
                    match memory {
                        None => net.others = net.others.with(tile),
                        Some(memory) if net.memories.last() == Some(&memory) => {}
                        Some(memory) => net.memories.push(memory),
                    }
                }
            }
        }
        let matters = |(count, net): &(usize, Net)| {
            !net.memories.is_empty() && (2..=ANNEALING.most_pins).contains(count)
        };
        let nets: Vec<Net> = pins.into_values().filter(matters).map(|(_, net)| net).collect();
        let mut of = vec![vec![]; names.len()];
        for (number, net) in nets.iter().enumerate() {
            net.memories.iter().for_each(|memory| of[*memory].push(number));
        }
        let sites = open(names.len());
        let tiles: Vec<At> = sites.iter().filter_map(|site| at(site)).collect();
        let (on, held) = (vec![0; names.len()], vec![None; sites.len()]);
        let mut board = Board { names, sites, tiles, on, held, nets, of };
        for (memory, tile) in from.into_iter().enumerate() {
            let free = (0..board.sites.len()).filter(|site| board.held[*site].is_none());
            let far = |site: &usize| Extent::NONE.with(tile).with(board.tiles[*site]).half_perimeter();
            let nearest = free.min_by_key(far).context("there are more block RAMs than sites")?;
            board.put(Some(memory), nearest);
        }
        Ok(board)
    }

    fn length_of(&self, net: usize) -> i64 {
        let net = &self.nets[net];
        let grow = |extent: Extent, memory: &usize| extent.with(self.tiles[self.on[*memory]]);
        net.memories.iter().fold(net.others, grow).half_perimeter()
    }

    fn length(&self) -> i64 {
        (0..self.nets.len()).map(|net| self.length_of(net)).sum()
    }

    fn put(&mut self, memory: Option<usize>, site: usize) {
        self.held[site] = memory;
        if let Some(memory) = memory {
            self.on[memory] = site;
        }
    }

    /// Tries exchanges; one that makes the wires longer by some `warmth` is taken at times, which falls to nothing.
    fn anneal(&mut self, seed: u64) {
        let mut random = SmallRng::seed_from_u64(seed);
        let memories = self.names.len();
        if memories == 0 {
            return;
        }
        let tries = ANNEALING.tries * u32::try_from(memories).unwrap_or(u32::MAX / ANNEALING.tries);
        let mut warmth = 0.2 * self.length() as f64 / memories as f64;
        let cooling = 1e-3f64.powf(1.0 / f64::from(tries));
        for _ in 0..tries {
            warmth *= cooling;
            let (memory, to) = (random.random_range(0..memories), random.random_range(0..self.sites.len()));
            let (from, other) = (self.on[memory], self.held[to]);
            if from == to {
                continue;
            }
            let mut nets = self.of[memory].clone();
            nets.extend(other.iter().flat_map(|other| &self.of[*other]));
            nets.sort_unstable();
            nets.dedup();
            let sum = |board: &Board| nets.iter().map(|net| board.length_of(*net)).sum::<i64>();
            let before = sum(self);
            self.put(Some(memory), to);
            self.put(other, from);
            let longer = (sum(self) - before) as f64;
            if longer > 0.0 && random.random::<f64>() >= (-longer / warmth).exp() {
                self.put(other, to);
                self.put(Some(memory), from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Flip-flops in a row, each with a wire to a block RAM; the block RAMs stand in the opposite order.
    fn design(placed: bool) -> String {
        let sites = open(40);
        let mut cells = serde_json::Map::new();
        for i in 0..40usize {
            let place = |site: String| if placed { json!({ "NEXTPNR_BEL": site }) } else { json!({}) };
            let flop = format!("X{}/Y22/SLICEA.FF0", at(&sites[i]).unwrap().0);
            let (net, memory) = (i + 2, place(sites[39 - i].clone()));
            cells.insert(
                format!("flop{i}"),
                json!({ "type": "TRELLIS_FF", "attributes": place(flop), "connections": { "Q": [net], "CLK": [1] } }),
            );
            cells.insert(
                format!("memory{i}"),
                json!({ "type": "DP16KD", "attributes": memory,
                        "connections": { "DIA0": [net], "DIA1": ["0"], "CLKA": [1] } }),
            );
        }
        json!({ "modules": { "top": { "cells": cells } } }).to_string()
    }

    #[test]
    fn the_device_has_208_sites_of_which_no_two_are_one() {
        let sites = sites();
        assert_eq!(sites.iter().collect::<BTreeSet<_>>().len(), 208);
        assert_eq!(at("X120/Y82/EBR3"), Some((120, 82)));
        assert_eq!(sites.last().map(String::as_str), Some("X120/Y82/EBR3"));
        assert_eq!(at("EBR3"), None);
    }

    #[test]
    fn sites_of_the_lower_rows_stay_free_while_the_others_are_enough() {
        let rows = |memories: usize| {
            let mut rows = BTreeMap::new();
            open(memories).iter().for_each(|site| *rows.entry(at(site).unwrap().1).or_insert(0) += 1);
            rows.into_values().collect::<Vec<usize>>()
        };
        assert_eq!(rows(40), [52, 46, 38, 38]);
        assert_eq!(rows(163), [52, 46, 38, 38]);
        assert_eq!(rows(180), [52, 49, 45, 45]);
        assert_eq!(rows(208), [52; 4]);
    }

    #[test]
    fn memories_go_to_their_flops_no_two_to_one_site_and_a_seed_repeats_it() {
        let sites = choose(&design(true), 7).unwrap();
        assert!(sites.before >= 1_000, "they begin far away: {}", sites.before);
        assert!(sites.after * 20 <= sites.before, "{} of {} are left", sites.after, sites.before);
        assert_eq!(sites.of.values().collect::<BTreeSet<_>>().len(), 40);
        assert_eq!(choose(&design(true), 7).unwrap().of, sites.of);

        let fixed: Value = serde_json::from_str(&sites.fix(&design(false)).unwrap()).unwrap();
        let cells = &fixed["modules"]["top"]["cells"];
        assert_eq!(cells["memory3"]["attributes"]["BEL"], json!(sites.of["memory3"]));
        assert_eq!(cells["flop3"]["attributes"], json!({}));
    }

    #[test]
    fn a_block_ram_on_a_site_that_the_device_has_not_and_one_that_is_gone_are_told() {
        let strange = design(true).replace("X6/Y22/EBR1", "X5/Y22/EBR1");
        let told = choose(&strange, 1).err().unwrap().to_string();
        assert_eq!(told, "block RAM on an unknown site `X5/Y22/EBR1`");
        let sites = choose(&design(true), 1).unwrap();
        let told = sites.fix(&design(false).replace("memory7", "other")).err().unwrap().to_string();
        assert!(told.contains("`memory7`"), "{told}");
    }

    #[test]
    fn a_design_without_block_rams_stays_as_it_is() {
        let none = json!({ "modules": { "top": { "cells": {} } } }).to_string();
        let sites = choose(&none, 1).unwrap();
        assert_eq!((sites.before, sites.after), (0, 0));
        assert_eq!(sites.fix(&none).unwrap(), none);
    }
}
