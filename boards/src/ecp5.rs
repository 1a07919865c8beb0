// SPDX-License-Identifier: MIT OR Apache-2.0
//! How Yosys maps to ECP5: `synth_ecp5`, and what makes the result smaller.
//!
//! - No LUT of more than four inputs. Two LUT4s and a multiplexer make one of five; the mapper takes these for speed, and what it saves on a path costs a
//!   tenth of the LUTs.
//! - Comparisons with constants as gates: whether a number of 24 bits is below 16 is no subtraction.
//! - Sums of up to eight bits as gates, and no constants as addresses of LUT RAM ([`MAP`]).
//! - Bits of memories that are always the same are found, and then those of memories that these are written to: a card that has fewer bits of an
//!   address (`bus_bits`) has it in a row of FIFOs and tables.

/// A techmap: a file's name, and what is in it.
pub const MAP: (&str, &str) = ("ecp5_map.v", include_str!("ecp5_map.v"));

/// Outputs of the PLL in a board's top, and what each clocks: the wire at 125 MHz, the core, and DRAM at twice that.
pub const PLL_CLOCKS: [(&str, &str); 3] = [("CLKOP", "wire"), ("CLKOS", "core"), ("CLKOS3", "dram")];

/// Memories in a row, the longest in the card, with one to spare.
const ROUNDS: usize = 8;

/// Yosys's commands, for a design that has been read; it is not flattened where blocks are to be told apart. `map` is the path of [`MAP`].
pub fn synth(top: &str, flat: bool, map: &str) -> String {
    let flatten = if flat { "" } else { "-noflatten " };
    let synth = |run: &str| format!("synth_ecp5 -nowidelut -cmp2softlogic {flatten}-top {top} -run {run}\n");
    // What is written while nothing is written is of no account (`-mux_undef`), or no bit would always be the same.
    let constant = "opt_expr -mux_undef\nopt_mem\nopt -fast\n".repeat(ROUNDS);
    let own = format!("techmap -map {map}\nopt\n");
    [synth("begin:map_ram"), constant, synth("map_ram:map_gates"), own, synth("map_gates:")].concat()
}
