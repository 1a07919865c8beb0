// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the Verilog of a MAC: `cargo run -p ferrowire-mac --example verilog -- 8 > mac_1g.v`, with the bytes a beat of its core.

use ferrowire_mac::{netlist, MacConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let width = std::env::args().nth(1).map_or(Ok(8), |text| text.parse())?;
    let cfg = MacConfig::jumbo(width);
    cfg.validate()?;
    print!("{}", netlist(&cfg)?.verilog());
    Ok(())
}
