// SPDX-License-Identifier: MIT OR Apache-2.0
//! How nextpnr places and routes a card that fills an ECP5: where LUTs stay free, what its router is told, and how long that is given.
//!
//! Of both that run it: `cargo xtask bitstream`, and the script that a board's folder has.

use std::ops::RangeInclusive;

use crate::Part;

/// Rows of block RAMs of the LFE5UM5G-85F.
pub const MEMORY_ROWS: [u32; 4] = [22, 46, 70, 82];

/// Rows of a device's block RAMs, as far as they are known here.
pub fn memory_rows(part: &Part) -> &'static [u32] {
    if part.size == 85 {
        &MEMORY_ROWS
    } else {
        &[]
    }
}

/// In which columns a group of these begins, in each row.
pub const MEMORY_COLUMNS: [u32; 13] = [4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114];

/// Block RAMs of a group; each is two columns wide.
pub const MEMORY_GROUP: u32 = 4;

/// How many sites of each row are left free while the others are enough: the lower rows have half the wires of the upper ones round them.
pub const MEMORY_FREE: [usize; MEMORY_ROWS.len()] = [0, 6, 14, 14];

/// How block RAMs get sites near what they are wired to, once a design has been placed.
pub struct Annealing {
    /// Nets with more pins than this (clock, resets, enables of whole tables) reach everywhere anyhow.
    pub most_pins: usize,
    /// Exchanges that are tried, for each block RAM.
    pub tries: u32,
}

/// What was found to do.
pub const ANNEALING: Annealing = Annealing { most_pins: 600, tries: 2_000 };

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
    /// And never more than these, but beside block RAMs.
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

/// What was found to do.
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

/// What was found to do.
pub const PATIENCE: Patience = Patience { rounds: 20, last: 100, few: 500 };
