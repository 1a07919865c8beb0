// SPDX-License-Identifier: MIT OR Apache-2.0
//! A module with four kinds of pins round a design with thousands of ports, so that it can be placed alone.
//!
//! All inputs come out of one long shift register, all outputs go into another, which either takes them or shifts. So
//! every port has a flip-flop behind it, and the slowest path is one of the design's own or from or to these
//! flip-flops, as it would be in a board with registered neighbours. It is written in the cells of ECP5, so that it goes
//! round a mapped design without mapping anything again.

use std::fmt::Write;

use crate::flow::Port;

/// The shell's name.
pub const NAME: &str = "ferrowire_shell";

const FLOP: &str =
    ".GSR(\"DISABLED\"), .CEMUX(\"1\"), .CLKMUX(\"CLK\"), .LSRMUX(\"LSR\"), .REGSET(\"RESET\")";

/// Pins of the CABGA756 along its upper edge, the first of them a clock's.
const PINS: [&str; 8] = ["A17", "A14", "A15", "A16", "A18", "A10", "A11", "A13"];

/// Names of its clocks.
fn clocks(ports: &[Port]) -> Vec<&str> {
    let clocks: Vec<&str> = ports.iter().filter(|p| p.kind == "clock").map(|p| p.name.as_str()).collect();
    if clocks.is_empty() {
        vec!["clk"]
    } else {
        clocks
    }
}

/// Where its pins are, as an LPF: nextpnr's static placer does not choose them.
pub fn pins(ports: &[Port]) -> anyhow::Result<String> {
    let names: Vec<&str> = clocks(ports).into_iter().chain(["serial_in", "capture", "serial_out"]).collect();
    anyhow::ensure!(names.len() <= PINS.len(), "the shell has pins for {} clocks at most", PINS.len() - 3);
    let line = |(name, pin): (&&str, &str)| {
        format!("LOCATE COMP \"{name}\" SITE \"{pin}\";\nIOBUF PORT \"{name}\" IO_TYPE=LVCMOS33;\n")
    };
    Ok(names.iter().zip(PINS).map(line).collect())
}

/// Its Verilog.
pub fn shell(top: &str, ports: &[Port]) -> String {
    let clocks = clocks(ports);
    let clock = clocks[0];
    let width = |kind: &str| ports.iter().filter(|p| p.kind == kind).map(|p| p.width).sum::<u32>().max(1);
    let (ins, outs) = (width("input"), width("output"));
    let mut text = format!("// Made for place-and-route; see xtask/src/synth/shell.rs.\nmodule {NAME} (\n");
    for name in &clocks {
        let _ = writeln!(text, "    input wire {name},");
    }
    let _ = writeln!(
        text,
        "    input wire serial_in,
    input wire capture,
    output wire serial_out
);
    wire [{ins}:0] shell_in;
    wire [{outs}:0] shell_out;
    wire [{}:0] outs, next;
    assign shell_in[0] = serial_in;
    assign shell_out[0] = serial_in;
    assign serial_out = shell_out[{outs}];
    genvar i;
    generate
        for (i = 0; i < {ins}; i = i + 1) begin : into
            TRELLIS_FF #({FLOP}) flop (.CLK({clock}), .LSR(1'b0), .DI(shell_in[i]), .Q(shell_in[i + 1]));
        end
        for (i = 0; i < {outs}; i = i + 1) begin : out_of
            // A ? B : C
            LUT4 #(.INIT(16'hD8D8)) mux (.A(capture), .B(outs[i]), .C(shell_out[i]), .D(1'b0), .Z(next[i]));
            TRELLIS_FF #({FLOP}) flop (.CLK({clock}), .LSR(1'b0), .DI(next[i]), .Q(shell_out[i + 1]));
        end
    endgenerate",
        outs - 1,
    );
    let (mut next_in, mut next_out) = (1, 0); // bit 0 of `shell_in` is the pin
    let pins: Vec<String> = ports
        .iter()
        .map(|Port { name, width, kind }| {
            let (from, next) = match kind.as_str() {
                "clock" => return format!("        .{name}({name})"),
                "input" => ("shell_in", &mut next_in),
                _ => ("outs", &mut next_out),
            };
            let low = *next;
            *next += width;
            format!("        .{name}({from}[{}:{low}])", low + width - 1)
        })
        .collect();
    for unused in next_out..outs {
        let _ = writeln!(text, "    assign outs[{unused}] = 1'b0;");
    }
    let _ = writeln!(text, "    {top} design (\n{}\n    );\nendmodule", pins.join(",\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pin_has_a_place_and_too_many_clocks_are_refused() {
        let clock = |i: u32| Port { name: format!("clk{i}"), width: 1, kind: "clock".into() };
        let text = pins(&[clock(0)]).unwrap();
        for part in ["\"clk0\" SITE \"A17\"", "\"serial_in\" SITE \"A14\"", "PORT \"serial_out\" IO_TYPE"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(pins(&[]).unwrap().contains("\"clk\" SITE"));
        let many: Vec<Port> = (0..6).map(clock).collect();
        assert_eq!(pins(&many).unwrap_err().to_string(), "the shell has pins for 5 clocks at most");
    }

    #[test]
    fn every_port_has_bits_of_its_own() {
        let port = |name: &str, width, kind: &str| Port { name: name.into(), width, kind: kind.into() };
        let ports =
            [port("clk", 1, "clock"), port("a", 8, "input"), port("b", 1, "input"), port("c", 4, "output")];
        let text = shell("top", &ports);
        for part in [
            "wire [9:0] shell_in;",
            ".clk(clk)",
            ".a(shell_in[8:1])",
            ".b(shell_in[9:9])",
            ".c(outs[3:0])",
            "    top design (",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
