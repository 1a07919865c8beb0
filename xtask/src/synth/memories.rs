// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which memories of the design a mapped netlist has, and what each takes.
//!
//! Yosys names the cells of a memory after the memory, with two numbers: `transport.receive.slots.0.12`. The Verilog says how many rows
//! it has, of how many bits.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;

use super::timing::Sources;
use crate::flow::blif::Blif;

/// Bits of a block RAM of 18 Kb, and of an UltraRAM.
const BRAM18_BITS: u64 = 18 * 1024;
const URAM_BITS: u64 = 288 * 1024;

/// What a memory takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Taken {
    /// Block RAMs of 18 Kb; one of 36 Kb counts two.
    bram18: u64,
    uram: u64,
    /// Cells of LUT RAM.
    lut_rams: u64,
}

impl Taken {
    fn add(&mut self, kind: &str) {
        match kind {
            "RAMB18E2" => self.bram18 += 1,
            "RAMB36E2" => self.bram18 += 2,
            "URAM288" => self.uram += 1,
            _ => self.lut_rams += 1,
        }
    }
}

/// Whether cells of this kind are memory. Shift registers are none: their names are not those of memories.
fn is_memory(kind: &str) -> bool {
    kind.starts_with("RAM") || kind == "URAM288"
}

/// The memory of which a cell is a part.
fn memory_of(cell: &str) -> &str {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut name = cell;
    for _ in 0..2 {
        match name.rsplit_once('.') {
            Some((before, part)) if number(part) => name = before,
            _ => break,
        }
    }
    name
}

/// A line for each memory: those of most block RAM first, then those of UltraRAM, then LUT RAM.
///
/// # Errors
/// None of a netlist that [`Blif`] has read.
pub fn report(title: &str, blif: &Blif<'_>, sources: &Sources) -> Result<String> {
    let mut memories: BTreeMap<&str, Taken> = BTreeMap::new();
    let mut all = Taken::default();
    for cell in blif.models.iter().take(1).flat_map(|model| &model.cells).filter(|cell| is_memory(cell.kind))
    {
        memories.entry(memory_of(cell.name)).or_default().add(cell.kind);
        all.add(cell.kind);
    }
    let mut rows: Vec<(&str, Taken)> = memories.into_iter().collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let mut text = format!("{title}\n\n");
    writeln!(text, "BRAM18   URAM  LUT RAM   rows x bits      full  memory")?;
    writeln!(
        text,
        "{:>6} {:>6} {:>8}  {:>6}   {:<6}  {:>6}  all",
        all.bram18, all.uram, all.lut_rams, "", "", ""
    )?;
    for (name, taken) in rows {
        let place = sources.place(name);
        let Taken { bram18, uram, lut_rams } = taken;
        let (depth, bits) = match place.memory {
            Some((depth, bits)) => (depth.to_string(), bits.to_string()),
            None => ("?".into(), "?".into()),
        };
        let room = bram18 * BRAM18_BITS + uram * URAM_BITS;
        let full = match (place.memory, room) {
            (Some((depth, bits)), 1..) => format!("{} %", 100 * depth * bits / room),
            _ => String::new(),
        };
        writeln!(
            text,
            "{bram18:>6} {uram:>6} {lut_rams:>8}  {depth:>6} x {bits:<6}  {full:>6}  {name}  {}",
            place.line
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERILOG: &str = "\
// hdl/src/top.rs:10
module top (
    input  wire clk
);
    inner first (
        .clk(clk)
    );
endmodule
// hdl/src/inner.rs:5
module inner (
    input  wire clk
);
    (* ram_style = \"block\", no_rw_check *)
    reg [71:0] store [0:1023]; // hdl/src/inner.rs:7
    reg live [0:63]; // hdl/src/inner.rs:8
endmodule
";

    #[test]
    fn memories_are_listed_with_what_they_take_the_largest_first() {
        let netlist = "\
.model top
.subckt RAM64M8 WCLK=clk
.cname first.live.0.0
.subckt RAMB36E2 CLKARDCLK=clk
.cname first.store.0.0
.subckt RAMB36E2 CLKARDCLK=clk
.cname first.store.0.1
.subckt URAM288 CLK=clk
.cname first.other.0.0
.subckt FDRE C=clk
.cname first.live.0.1
.end
";
        let report =
            report("a card", &Blif::read(netlist).unwrap(), &Sources::read("top", [VERILOG])).unwrap();
        let lines: Vec<Vec<&str>> =
            report.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["4", "1", "1", "all"]);
        assert_eq!(
            lines[1],
            ["4", "0", "0", "1024", "x", "72", "100", "%", "first.store", "hdl/src/inner.rs:7"]
        );
        assert_eq!(lines[2], ["0", "1", "0", "?", "x", "?", "first.other", "hdl/src/inner.rs:5"]);
        assert_eq!(lines[3], ["0", "0", "1", "64", "x", "1", "first.live", "hdl/src/inner.rs:8"]);
    }

    #[test]
    fn two_numbers_at_the_end_of_a_name_are_those_of_the_part() {
        for (cell, memory) in
            [("a.b.0.12", "a.b"), ("a.b0.0.1", "a.b0"), ("a.b.3", "a.b"), ("plain", "plain")]
        {
            assert_eq!(memory_of(cell), memory);
        }
    }
}
