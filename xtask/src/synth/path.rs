// SPDX-License-Identifier: MIT OR Apache-2.0
//! The longest path through a mapped netlist, counted in LUTs.
//!
//! There is no place-and-route for UltraScale+ that is free software, so the depth of the logic stands in for time. The
//! netlist is read as BLIF, bit by bit. A path begins at a port or at the output of a flip-flop, a block RAM or a
//! multiplier and ends at the next of these. Each LUT on it counts one, and so does the reading of a LUT RAM. Wide
//! multiplexers behind LUTs (`MUXF7`, `PFUMX`, ...) and the way along a carry chain count nothing, as both are several
//! times faster than a LUT with its wires; a sum still counts the LUT in front of the chain, which on ECP5 is inside
//! `CCU2C`. Carry cells are followed output by output, so low bits of a sum do not seem to depend on high bits.

use std::collections::HashMap;

use anyhow::{bail, Context, Result};
use serde::Serialize;

/// The longest path.
#[derive(Debug, PartialEq, Eq, Serialize)]
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

/// Finds it.
///
/// # Errors
/// What is not BLIF as Yosys writes it, a cell that is not known here, a loop.
pub fn longest(blif: &str) -> Result<Path> {
    let mut nets = Nets::default();
    let mut arcs: Vec<Arc> = Vec::new();
    // Where a net ends: an output of the cell that keeps it.
    let mut ends: HashMap<u32, u32> = HashMap::new();
    let joined = blif.replace("\\\n", " ");
    for line in joined.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some(".subckt" | ".gate") => {
                let cell = words.next().context("a cell without a type")?;
                let mut pins: Vec<(&str, u32)> = Vec::new();
                for word in words {
                    let (pin, net) = word.split_once('=').with_context(|| format!("cell {cell}: {word}"))?;
                    pins.push((pin, nets.id(net)));
                }
                let Some(arcs_of) = through(cell) else {
                    let out = pins.iter().find(|(pin, _)| pin.starts_with(['Q', 'D', 'P', 'S'])).map(|p| p.1);
                    let out = pins.iter().find(|(pin, _)| *pin == "Q").map(|p| p.1).or(out);
                    if let Some(out) = out {
                        ends.extend(pins.iter().map(|(_, net)| (*net, out)));
                    }
                    if !keeps(cell) {
                        bail!("the cell {cell} is not known to the measure of paths");
                    }
                    continue;
                };
                for (out, to) in &pins {
                    for (pin, from) in &pins {
                        if let Some(luts) = arcs_of(pin, out) {
                            arcs.push(Arc { from: *from, to: *to, luts });
                        }
                    }
                }
            }
            Some(".names" | ".conn") => {
                if let (Some(from), Some(to)) = (words.next(), words.next()) {
                    let (from, to) = (nets.id(from), nets.id(to));
                    arcs.push(Arc { from, to, luts: 0 });
                }
            }
            _ => {}
        }
    }
    walk(&nets, &arcs, &ends)
}

#[derive(Default)]
struct Nets<'a> {
    ids: HashMap<&'a str, u32>,
    names: Vec<&'a str>,
}

impl<'a> Nets<'a> {
    fn id(&mut self, name: &'a str) -> u32 {
        *self.ids.entry(name).or_insert_with(|| {
            self.names.push(name);
            self.names.len() as u32 - 1
        })
    }
}

fn walk(nets: &Nets<'_>, arcs: &[Arc], ends: &HashMap<u32, u32>) -> Result<Path> {
    let count = nets.names.len();
    let mut waiting = vec![0u32; count];
    let mut leaving: Vec<Vec<u32>> = vec![Vec::new(); count];
    for (index, arc) in arcs.iter().enumerate() {
        waiting[arc.to as usize] += 1;
        leaving[arc.from as usize].push(index as u32);
    }
    let mut depth = vec![0u32; count];
    let mut before: Vec<Option<u32>> = vec![None; count];
    let mut ready: Vec<u32> = (0..count as u32).filter(|net| waiting[*net as usize] == 0).collect();
    let mut done = 0;
    while let Some(net) = ready.pop() {
        done += 1;
        for index in &leaving[net as usize] {
            let arc = &arcs[*index as usize];
            let there = depth[net as usize] + arc.luts;
            let to = arc.to as usize;
            if before[to].is_none() || there > depth[to] {
                (depth[to], before[to]) = (there, Some(net));
            }
            waiting[to] -= 1;
            if waiting[to] == 0 {
                ready.push(arc.to);
            }
        }
    }
    if done < count {
        let named = |net: &&u32| !nets.names[**net as usize].starts_with('$');
        let stuck: Vec<u32> = (0..count as u32).filter(|net| waiting[*net as usize] > 0).collect();
        let shown = stuck.iter().find(named).or(stuck.first()).map_or("", |net| nets.names[*net as usize]);
        bail!("a combinational loop, at or behind the net {shown}");
    }
    let Some(last) = (0..count as u32).max_by_key(|net| (depth[*net as usize], std::cmp::Reverse(*net)))
    else {
        bail!("the netlist is empty");
    };
    let mut way = vec![last];
    while let Some(net) = way.last().and_then(|net| before[*net as usize]) {
        way.push(net);
    }
    way.reverse();
    let name = |net: u32| nets.names[net as usize].to_string();
    let mut through: Vec<String> = Vec::new();
    for net in way.iter().skip(1).map(|net| name(*net)) {
        if !net.starts_with('$') && through.last() != Some(&net) {
            through.push(net);
        }
    }
    Ok(Path {
        luts: depth[last as usize],
        from: name(way[0]),
        to: name(ends.get(&last).copied().unwrap_or(last)),
        through,
    })
}

/// Whether a path ends at the cell.
fn keeps(cell: &str) -> bool {
    const KEEPING: [&str; 14] = [
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
        "CARRY4" | "CARRY8" => carry,
        "CCU2C" => ccu2c,
        "TRELLIS_DPR16X4" => |pin, out| (out.starts_with("DO") && pin.starts_with("RAD")).then_some(1),
        "SRL16E" | "SRLC16E" | "SRLC32E" => |pin, out| (out == "Q" && pin.starts_with('A')).then_some(1),
        _ if cell.starts_with("RAM") && !cell.starts_with("RAMB") => lut_ram,
        _ => return None,
    };
    Some(of)
}

/// The number in `S[3]`.
fn index(pin: &str) -> Option<u32> {
    pin.split_once('[')?.1.strip_suffix(']')?.parse().ok()
}

/// Bit `i` of the sum depends on `S[i]`, and on `S` and `DI` below it; bit `i` of the carry also on `DI[i]`.
fn carry(pin: &str, out: &str) -> Option<u32> {
    let bit = index(out).filter(|_| out.starts_with("O[") || out.starts_with("CO["))?;
    let depends = match index(pin) {
        Some(at) if pin.starts_with("S[") => at <= bit,
        Some(at) if pin.starts_with("DI[") => at < bit || at == bit && out.starts_with("CO["),
        None => pin == "CI" || pin == "CYINIT" || pin == "CI_TOP" && bit >= 4,
        _ => false,
    };
    depends.then_some(0)
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

/// Reading at an address, port by port: `DOA` by `ADDRA`, `DPO` by `DPRA`, `SPO` and `O` by `A`.
fn lut_ram(pin: &str, out: &str) -> Option<u32> {
    let plain = |name: &str| {
        name.split('[').next().unwrap_or(name).trim_end_matches(|c: char| c.is_ascii_digit()).to_string()
    };
    let (pin, out) = (plain(pin), plain(out));
    let reads = match out.as_str() {
        "SPO" | "O" => pin == "A",
        "DPO" => pin == "DPRA",
        _ => out.strip_prefix("DO").is_some_and(|port| pin.strip_prefix("ADDR") == Some(port)),
    };
    reads.then_some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

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
