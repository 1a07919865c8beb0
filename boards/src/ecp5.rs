// SPDX-License-Identifier: MIT OR Apache-2.0
//! How Yosys maps to ECP5: `synth_ecp5`, and what makes the result smaller.
//!
//! - No LUT of more than four inputs. Two LUT4s and a multiplexer make one of five; the mapper takes these for speed, and what it saves on a path costs a
//!   tenth of the LUTs.
//! - Comparisons with constants as gates: whether a number of 24 bits is below 16 is no subtraction.
//! - Sums of up to eight bits as gates, and no constants as addresses of LUT RAM ([`MAP`]).
//! - Bits of memories that are always the same are found, and then those of memories that these are written to: a card that has fewer bits of an
//!   address (`bus_bits`) has it in a row of FIFOs and tables.

use std::ops::RangeInclusive;

/// A techmap: a file's name, and what is in it.
pub const MAP: (&str, &str) = ("ecp5_map.v", include_str!("ecp5_map.v"));

/// Outputs of the PLL in a board's top, and what each clocks: the wire at 125 MHz, the core, and DRAM at twice that.
pub const PLL_CLOCKS: [(&str, &str); 3] = [("CLKOP", "wire"), ("CLKOS", "core"), ("CLKOS3", "dram")];

/// Rows of block RAMs of the LFE5UM5G-85F.
pub const MEMORY_ROWS: [u32; 4] = [22, 46, 70, 82];

/// Columns of tiles with LUTs above and below these.
pub const LUT_COLUMNS: RangeInclusive<u32> = 2..=124;

/// The share of a device's block RAMs, as a numerator and a denominator, from which on the router lacks wires round them.
pub const CROWDED: (u32, u32) = (3, 5);

/// The LUTs of a tile by nextpnr's names, in the order in which they are left free: LUT RAM lies in the slices A and B, its write port in C.
pub const LUTS: [&str; 8] =
    ["SLICED.K0", "SLICED.K1", "SLICEC.K0", "SLICEC.K1", "SLICEB.K0", "SLICEB.K1", "SLICEA.K0", "SLICEA.K1"];

/// How LUTs are left free where the router has found wires to be short.
pub struct Spread {
    /// So many more of a tile each time.
    pub step: u32,
    /// And never more than these.
    pub most: u32,
    /// How far round a tile wires that are wanted twice count for it, in tiles.
    pub reach: u32,
    /// A place is one of those where wires are short if it has this share of what the worst has: a numerator and a denominator.
    pub share: (u32, u32),
    /// In so many of the last rounds: in each other nets want the wires that are short.
    pub rounds: usize,
    /// So often a design is placed anew.
    pub again: u32,
}

/// Of both flows.
pub const SPREAD: Spread = Spread { step: 2, most: 6, reach: 6, share: (3, 10), rounds: 20, again: 4 };

/// What nextpnr's `router2` is told, for which it has no options. A net may leave the box round its pins by so many tiles as a row of
/// block RAMs has neighbours that are full too; it looks for the shortest way and not for one that is found soon; and what a wire costs that others
/// want rises slowly, or nets take detours that take more wires than they leave.
pub const ROUTER: [(&str, &str); 5] = [
    ("router2/bbMargin/x", "20"),
    ("router2/bbMargin/y", "20"),
    ("router2/estimateWeight", "1.0"),
    ("router2/currCongWeightMult", "0.5"),
    ("router2/histCongWeight", "1.0"),
];

/// How long that router is given where it gets no further, in rounds. It does not end by itself.
pub struct Patience {
    /// Rounds without fewer contested wires than in any before.
    pub rounds: u64,
    /// Likewise where fewer than `few` are left: such a round takes no time, and the last wires may take some forty.
    pub last: u64,
    /// Where so many are contested again, it gets worse from round to round.
    pub few: u64,
}

/// Of both flows.
pub const PATIENCE: Patience = Patience { rounds: 20, last: 100, few: 500 };

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
