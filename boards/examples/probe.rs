// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a design that uses every ball of a board and is good for nothing else, so that place-and-route says what it thinks of them:
//! `cargo run -p ferrowire-boards --example probe -- ecpix5 DIR` writes `probe.v` and `probe.lpf` there, and prints what to run.

use ferrowire_boards::{Board, Direction};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(folder)) = (args.next(), args.next().map(PathBuf::from)) else {
        return Err("usage: probe BOARD DIR".into());
    };
    let board = Board::named(&name)?;
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("probe.v"), verilog(&board))?;
    std::fs::write(folder.join("probe.lpf"), board.lpf())?;
    println!("yosys -p 'read_verilog probe.v; synth_ecp5 -top probe; write_json probe.json'");
    println!(
        "nextpnr-ecp5 {} --json probe.json --lpf probe.lpf --textcfg probe.config",
        board.part().nextpnr().join(" ")
    );
    Ok(())
}

/// Each output is the parity of all inputs, a cycle later.
fn verilog(board: &Board) -> String {
    let ports = board.ports();
    let mut vectors: BTreeMap<&str, (u32, Direction)> = BTreeMap::new();
    for port in &ports {
        vectors.entry(port.base()).or_insert((0, port.direction)).0 += u32::from(port.name.contains('['));
    }
    let (mut list, mut inputs, mut body) = (Vec::new(), Vec::new(), String::new());
    for (name, (bits, direction)) in vectors {
        let width = if bits > 0 { format!("[{}:0] ", bits - 1) } else { String::new() };
        let way = match direction {
            Direction::In => "input wire",
            Direction::Out => "output wire",
            Direction::InOut => "inout wire",
        };
        list.push(format!("    {way} {width}{name}"));
        let bits = bits.max(1);
        match direction {
            Direction::In => inputs.push(name.to_string()),
            Direction::Out => {
                let _ = writeln!(body, "    assign {name} = {{{bits}{{any}}}};");
            }
            Direction::InOut => {
                inputs.push(name.to_string());
                let _ = writeln!(body, "    assign {name} = any ? {{{bits}{{any}}}} : {bits}'bz;");
            }
        }
    }
    let clock = &board.clocks[0].name;
    let all = inputs.join(", ");
    format!(
        "module probe (\n{}\n);\n    reg any;\n    always @(posedge {clock}) any <= ^{{{all}}};\n{body}endmodule\n",
        list.join(",\n")
    )
}
