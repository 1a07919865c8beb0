// SPDX-License-Identifier: MIT OR Apache-2.0
//! What our techmap for ECP5 makes of sums and LUT RAMs is the same as what stood there, as Yosys's SAT solver finds. It needs `cargo xtask setup --synth`, so it is run by name:
//! `cargo test -p ferrowire-sim --test all board::mapped -- --ignored`.

use std::fs;
use std::path::PathBuf;

use ferrowire_boards::ecp5::MAP;
use serde_json::Value;

use crate::alveo::yosys::yosys;

/// Sums of signed and unsigned numbers, one of which is too wide for gates; comparisons, and a carry.
const SUMS: &str = "
module sums (input [7:0] a, b, input signed [5:0] c, d, input k, output [8:0] sum, output [7:0] less, output signed [6:0] both, output [7:0] next, output below);
    assign sum = a + b, less = a - b, both = k ? c + d : c - d, next = a + k, below = a < b;
endmodule
";

/// LUT RAMs of 2 to 32 rows, and one that is not empty from the start.
const RAMS: &str = r#"
module rams (input clk, input we, input [4:0] w, r, input [5:0] d, output [5:0] q1, q2, q3, q4, q5, q6);
    (* ram_style = "distributed" *) reg [5:0] m1 [0:1];
    (* ram_style = "distributed" *) reg [5:0] m2 [0:3];
    (* ram_style = "distributed" *) reg [5:0] m3 [0:7];
    (* ram_style = "distributed" *) reg [5:0] m4 [0:15];
    (* ram_style = "distributed" *) reg [5:0] m5 [0:31];
    (* ram_style = "distributed" *) reg [5:0] m6 [0:3];
    integer i;
    initial for (i = 0; i < 4; i = i + 1) m6[i] = 9 * i + 5;
    always @(posedge clk) if (we) begin
        m1[w[0]] <= d; m2[w[1:0]] <= d; m3[w[2:0]] <= d; m4[w[3:0]] <= d; m5[w] <= d; m6[w[1:0]] <= d;
    end
    assign q1 = m1[r[0]], q2 = m2[r[1:0]], q3 = m3[r[2:0]], q4 = m4[r[3:0]], q5 = m5[r], q6 = m6[r[1:0]];
endmodule
"#;

/// Proves that a design does the same before the map and behind it, where `count` holds; `sat` are options of the solver. Gives what is mapped, as JSON.
fn prove(top: &str, verilog: &str, count: &str, sat: &str) -> PathBuf {
    let (name, map) = MAP;
    let script = format!(
        "read_verilog all.v; hierarchy -top {top}; proc; opt; design -save gold
         synth_ecp5 -cmp2softlogic -top {top} -run begin:map_gates; techmap -map {name}; opt; {count}; select {top}; write_json -selected mapped.json; select -clear
         rename {top} gate; read_verilog -overwrite +/ecp5/cells_sim.v; hierarchy -top gate
         proc; flatten -wb; delete t:$specify*; opt_clean; memory_map; opt -full; design -stash gate
         design -load gold; memory_map; opt -full; rename {top} gold; design -stash gold
         design -copy-from gold -as gold gold; design -copy-from gate -as gate gate
         miter -equiv -make_assert -flatten gold gate miter; hierarchy -top miter
         sat -verify -prove-asserts {sat} miter"
    );
    yosys(&format!("mapped-{top}"), &[("all.v", verilog), (name, map)], &script.replace('\n', "; "))
        .join("mapped.json")
}

#[test]
#[ignore = "needs `cargo xtask setup --synth`"]
fn narrow_sums_of_gates_are_the_same_sums() {
    // The wide one stays.
    prove("sums", SUMS, "select -assert-count 1 t:$alu", "");
}

#[test]
#[ignore = "needs `cargo xtask setup --synth`"]
fn lut_rams_without_constants_in_their_addresses_hold_the_same() {
    // Two cells for six bits, of 32 rows four. The RAMs begin empty; so many steps are enough to write, to write over it and to read.
    let mapped = prove("rams", RAMS, "select -assert-count 14 t:TRELLIS_DPR16X4", "-set-init-zero -seq 4");
    let mapped: Value = serde_json::from_str(&fs::read_to_string(mapped).unwrap()).unwrap();
    let cells = mapped["modules"]["rams"]["cells"].as_object().unwrap();
    let rams = cells.iter().filter(|(_, cell)| cell["type"] == "TRELLIS_DPR16X4");
    for (name, cell) in rams {
        let pins = ["RAD", "WAD"].map(|port| cell["connections"][port].as_array().unwrap());
        let constants = pins.into_iter().flatten().filter(|bit| bit.is_string()).count();
        // One that holds something from the start keeps its addresses, of two bits here.
        assert_eq!(constants, if name.starts_with("m6.") { 4 } else { 0 }, "{name}");
    }
}
