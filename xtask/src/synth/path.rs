// SPDX-License-Identifier: MIT OR Apache-2.0
//! The longest path through a mapped netlist, counted in LUTs.
//!
//! There is no place-and-route for UltraScale+ that is free software, so the depth of the logic stands in for time. The
//! netlist is read as BLIF, bit by bit. A path begins at a port or at the output of a flip-flop, a block RAM or a
//! multiplier and ends at the next of these. Each LUT on it counts one, and so does the reading of a LUT RAM. Wide
//! multiplexers behind LUTs (`MUXF7`, `PFUMX`, ...) and the way along a carry chain count nothing, as both are several
//! times faster than a LUT with its wires; a sum still counts the LUT in front of the chain, which on ECP5 is inside
//! `CCU2C`. Carry cells are followed output by output, so low bits of a sum do not seem to depend on high bits. Nothing
//! begins at a constant.
//!
//! A netlist that keeps its modules is put together again, and each block gets the longest path that ends in it,
//! wherever that begins.

use std::collections::{BTreeMap, HashMap};

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};

use super::cells::{carry, lut_ram};
use super::order::order;
use crate::flow::blif::{self, Blif, Model};

/// The longest path.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// LUTs on it.
    pub luts: u32,
    /// The net that it begins with.
    pub from: String,
    /// An output of the cell that it ends at, or the last net itself if that is a port.
    pub to: String,
    /// Nets on the way that still have a name of the source.
    pub through: Vec<String>,
}

/// One arc through a cell, or an alias.
struct Arc {
    from: u32,
    to: u32,
    luts: u32,
}

/// The longest path of a design.
///
/// # Errors
/// A cell that is not known here, a loop.
pub fn longest(blif: &Blif<'_>) -> Result<Path> {
    let mut all = by_block(blif)?;
    all.remove("").context("the netlist is empty")
}

/// The longest path that ends in each block or below it. A block's name is that of the modules from the top down,
/// without the top; the top's is empty.
///
/// # Errors
/// Those of [`longest`].
pub fn by_block(blif: &Blif<'_>) -> Result<BTreeMap<String, Path>> {
    let models = blif.by_name();
    let top = blif.models.first().context("the netlist is empty")?;
    let mut all = Netlist::default();
    let ports = HashMap::new();
    all.add(&models, top, &Place { block: String::new(), prefix: String::new(), ports: &ports })?;
    all.walk()
}

/// Where an instance stands.
struct Place<'a> {
    block: String,
    /// In front of the names of its nets.
    prefix: String,
    /// The nets at its ports; none where a constant is.
    ports: &'a HashMap<&'a str, Option<u32>>,
}

/// All instances put together.
#[derive(Default)]
struct Netlist {
    nets: Nets,
    arcs: Vec<Arc>,
    blocks: Vec<String>,
    ends: Vec<End>,
    instances: u32,
}

/// A path's end.
struct End {
    net: u32,
    /// An output of the cell that keeps it.
    to: u32,
    block: u32,
}

impl Netlist {
    fn add(&mut self, models: &HashMap<&str, &Model<'_>>, model: &Model<'_>, at: &Place<'_>) -> Result<()> {
        let block = match self.blocks.iter().position(|b| *b == at.block) {
            Some(block) => block,
            None => {
                self.blocks.push(at.block.clone());
                self.blocks.len() - 1
            }
        } as u32;
        for (from, to) in &model.aliases {
            if let (Some(from), Some(to)) = (self.net(from, at), self.net(to, at)) {
                self.arcs.push(Arc { from, to, luts: 0 });
            }
        }
        for cell in &model.cells {
            let ports: Vec<(&str, Option<u32>)> =
                cell.pins.iter().map(|(pin, net)| (*pin, self.net(net, at))).collect();
            let cell = cell.kind;
            if let Some(inner) = models.get(cell) {
                let name = if at.block.is_empty() { cell.into() } else { format!("{}/{cell}", at.block) };
                self.instances += 1;
                // Two instances of a module differ by a number, for the file has no names of instances.
                let prefix = format!("{name}#{}.", self.instances);
                let ports = ports.into_iter().collect();
                self.add(models, inner, &Place { block: name, prefix, ports: &ports })?;
                continue;
            }
            let pins: Vec<(&str, u32)> =
                ports.into_iter().filter_map(|(pin, net)| Some((pin, net?))).collect();
            let Some(arcs_of) = through(cell) else {
                if !keeps(cell) {
                    bail!("the cell {cell} is not known to the measure of paths");
                }
                let out = pins.iter().find(|(pin, _)| *pin == "Q");
                let out = out.or_else(|| pins.iter().find(|(pin, _)| pin.starts_with(['Q', 'D', 'P', 'S'])));
                if let Some(to) = out.map(|pin| pin.1) {
                    self.ends.extend(pins.iter().map(|(_, net)| End { net: *net, to, block }));
                }
                continue;
            };
            for (out, to) in &pins {
                for (pin, from) in &pins {
                    if let Some(luts) = arcs_of(pin, out) {
                        self.arcs.push(Arc { from: *from, to: *to, luts });
                    }
                }
            }
            // What a memory in LUTs keeps.
            let out = pins.iter().find(|(out, _)| pins.iter().any(|(pin, _)| arcs_of(pin, out).is_some()));
            if let Some((_, to)) = out.filter(|_| writes(cell)) {
                let kept = pins
                    .iter()
                    .filter(|(pin, _)| *pin == "D" || pin.starts_with("DI") || pin.starts_with('W'));
                self.ends.extend(kept.map(|(_, net)| End { net: *net, to: *to, block }));
            }
        }
        Ok(())
    }

    /// The net, unless it is a constant.
    fn net(&mut self, name: &str, at: &Place<'_>) -> Option<u32> {
        if blif::is_constant(name) {
            return None;
        }
        if let Some(net) = at.ports.get(name) {
            return *net;
        }
        Some(match at.prefix.is_empty() {
            true => self.nets.id(name),
            false => self.nets.id(&format!("{}{name}", at.prefix)),
        })
    }
}

#[derive(Default)]
struct Nets {
    ids: HashMap<String, u32>,
    names: Vec<String>,
}

impl Nets {
    fn id(&mut self, name: &str) -> u32 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.names.len() as u32;
        self.names.push(name.into());
        self.ids.insert(name.into(), id);
        id
    }
}

impl Netlist {
    fn walk(&self) -> Result<BTreeMap<String, Path>> {
        let names = &self.nets.names;
        let count = names.len();
        let mut depth = vec![0u32; count];
        let mut before: Vec<Option<u32>> = vec![None; count];
        let nets: Vec<(u32, u32)> = self.arcs.iter().map(|arc| (arc.from, arc.to)).collect();
        for index in order(names, &nets)? {
            let arc = &self.arcs[index as usize];
            let there = depth[arc.from as usize] + arc.luts;
            let to = arc.to as usize;
            if before[to].is_none() || there > depth[to] {
                (depth[to], before[to]) = (there, Some(arc.from));
            }
        }
        let name = |net: u32| names[net as usize].clone();
        let path = |last: u32, to: u32| {
            let mut way = vec![last];
            while let Some(net) = way.last().and_then(|net| before[*net as usize]) {
                way.push(net);
            }
            way.reverse();
            let mut through: Vec<String> = Vec::new();
            for net in way.iter().skip(1).map(|net| name(*net)) {
                if !net.starts_with('$') && through.last() != Some(&net) {
                    through.push(net);
                }
            }
            Path { luts: depth[last as usize], from: name(way[0]), to: name(to), through }
        };

        // The longest of all may end at a port; that of a block ends in it.
        let last = (0..count as u32).max_by_key(|net| (depth[*net as usize], std::cmp::Reverse(*net)));
        let last = last.context("the netlist is empty")?;
        let to = self.ends.iter().find(|end| end.net == last).map_or(last, |end| end.to);
        let mut all = BTreeMap::from([(String::new(), path(last, to))]);
        let mut worst: BTreeMap<&str, &End> = BTreeMap::new();
        for end in &self.ends {
            let mut block = self.blocks[end.block as usize].as_str();
            while !block.is_empty() {
                let known = worst.entry(block).or_insert(end);
                if depth[end.net as usize] > depth[known.net as usize] {
                    *known = end;
                }
                block = block.rsplit_once('/').map_or("", |(above, _)| above);
            }
        }
        all.extend(worst.into_iter().map(|(block, end)| (block.to_string(), path(end.net, end.to))));
        Ok(all)
    }
}

/// Whether paths that go through the cell may also end in it: memory in LUTs.
fn writes(cell: &str) -> bool {
    cell == "TRELLIS_DPR16X4"
        || cell.starts_with("SRL")
        || cell.starts_with("RAM") && !cell.starts_with("RAMB")
}

/// Whether a path ends at the cell.
fn keeps(cell: &str) -> bool {
    const KEEPING: [&str; 19] = [
        "FDRE",
        "FDSE",
        "FDCE",
        "FDPE",
        "RAMB",
        "URAM",
        "DSP48",
        "TRELLIS_FF",
        "DP16KD",
        "PDPW16KD",
        "MULT18X18D",
        "ALU54B",
        "LDCE",
        "LDPE",
        // Of a board's top: AMD's blocks, clocks, and the RNIC if it is left out.
        "card",
        "pcie_block",
        "cmac_block",
        "IBUFDS",
        "BUFGCE_DIV",
    ];
    KEEPING.iter().any(|k| cell.starts_with(k))
}

/// For a cell that paths go through: the LUTs from an input pin to an output pin, if one depends on the other.
type Through = fn(&str, &str) -> Option<u32>;

fn through(cell: &str) -> Option<Through> {
    let of: Through = match cell {
        "LUT1" | "LUT2" | "LUT3" | "LUT4" | "LUT5" | "LUT6" | "INV" => {
            |pin, out| (matches!(out, "O" | "Z") && !matches!(pin, "O" | "Z")).then_some(1)
        }
        "MUXF7" | "MUXF8" | "MUXF9" => |pin, out| (out == "O" && pin != "O").then_some(0),
        "PFUMX" | "L6MUX21" => |pin, out| (out == "Z" && pin != "Z").then_some(0),
        "CARRY4" | "CARRY8" => |pin, out| carry(pin, out).then_some(0),
        "CCU2C" => ccu2c,
        "TRELLIS_DPR16X4" => |pin, out| (out.starts_with("DO") && pin.starts_with("RAD")).then_some(1),
        "SRL16E" | "SRLC16E" | "SRLC32E" => |pin, out| (out == "Q" && pin.starts_with('A')).then_some(1),
        _ if cell.starts_with("RAM") && !cell.starts_with("RAMB") => {
            |pin, out| lut_ram(pin, out).then_some(1)
        }
        _ => return None,
    };
    Some(of)
}

fn ccu2c(pin: &str, out: &str) -> Option<u32> {
    let operand = pin.len() == 2 && pin.starts_with(['A', 'B', 'C', 'D']);
    match out {
        "S0" if pin == "CIN" => Some(0),
        "S0" => (operand && pin.ends_with('0')).then_some(1),
        "S1" | "COUT" if pin == "CIN" => Some(0),
        "S1" | "COUT" => operand.then_some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(text: &str) -> Result<Path> {
        super::longest(&Blif::read(&blif::join(text))?)
    }

    fn by_block(text: &str) -> Result<BTreeMap<String, Path>> {
        super::by_block(&Blif::read(&blif::join(text))?)
    }

    #[test]
    fn luts_between_flip_flops_are_counted() {
        let blif = ".model t\n.inputs a\n\
            .subckt FDRE C=clk CE=$true D=x Q=q R=$false\n\
            .subckt LUT2 I0=q I1=a O=$1\n\
            .subckt MUXF7 I0=$1 I1=a O=y S=a\n\
            .subckt LUT1 I0=y O=x\n.end\n";
        let path = longest(blif).unwrap();
        assert_eq!((path.luts, path.to.as_str()), (2, "q"));
        assert_eq!(path.through, ["y", "x"]);
    }

    #[test]
    fn nothing_begins_at_a_constant() {
        let blif = ".subckt LUT2 A=$false B=q Z=x\n.subckt LUT1 A=x Z=y\n.subckt TRELLIS_FF CLK=c DI=y Q=q\n";
        let path = longest(blif).unwrap();
        assert_eq!((path.luts, path.from.as_str(), path.to.as_str()), (2, "q", "q"));
    }

    #[test]
    fn a_block_gets_the_longest_path_that_ends_in_it_or_below() {
        let blif = ".model top\n.inputs c\n\
            .subckt outer c=c in=q out=a\n\
            .subckt LUT1 A=a Z=b\n\
            .subckt TRELLIS_FF CLK=c DI=b Q=q\n.end\n\
            .model outer\n.inputs c in\n.outputs out\n\
            .subckt LUT1 A=in Z=x\n\
            .subckt LUT1 A=x Z=y\n\
            .subckt inner c=c in=y out=z\n\
            .subckt inner c=c in=in out=w\n\
            .subckt LUT2 A=z B=w Z=out\n.end\n\
            .model inner\n.inputs c in\n.outputs out\n\
            .subckt LUT1 A=in Z=n\n\
            .subckt TRELLIS_FF CLK=c DI=n Q=k\n\
            .names n out\n1 1\n.end\n";
        let all = by_block(blif).unwrap();
        let luts: Vec<(&str, u32)> = all.iter().map(|(block, path)| (block.as_str(), path.luts)).collect();
        assert_eq!(luts, [("", 5), ("outer", 3), ("outer/inner", 3)]);
        let path = &all["outer/inner"];
        assert_eq!((path.from.as_str(), path.to.as_str()), ("q", "outer/inner#2.k"));
    }

    #[test]
    fn a_carry_counts_the_luts_before_it_and_low_bits_do_not_wait_for_high_ones() {
        let blif = ".subckt LUT1 I0=a O=s0\n\
            .subckt CARRY8 S[0]=s0 S[1]=s1 O[0]=o0 O[1]=o1\n\
            .subckt LUT1 I0=o0 O=s1\n";
        assert_eq!(longest(blif).unwrap().luts, 2);
        let blif = ".subckt CCU2C A0=a A1=b CIN=c COUT=d S0=e S1=f\n.subckt CCU2C A0=g A1=h CIN=d S0=i\n";
        assert_eq!(longest(blif).unwrap().luts, 1);
    }

    #[test]
    fn a_lut_ram_is_read_by_its_own_ports_address() {
        let blif = ".subckt LUT1 I0=a O=b\n\
            .subckt RAM64M8 ADDRA[0]=b ADDRB[0]=c DOA=d DOB=e WCLK=clk\n\
            .subckt LUT1 I0=e O=f\n";
        assert_eq!(longest(blif).unwrap().luts, 2);
    }

    #[test]
    fn loops_and_unknown_cells_are_errors() {
        let blif = ".subckt LUT1 I0=a O=b\n.conn b a\n";
        assert!(longest(blif).unwrap_err().to_string().starts_with("a combinational loop"));
        assert!(longest(".subckt NOVEL A=b\n").unwrap_err().to_string().contains("NOVEL"));
    }
}
