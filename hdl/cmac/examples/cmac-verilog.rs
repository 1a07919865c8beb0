// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the adapter's Verilog: `cargo run -p ferrowire-cmac --example cmac-verilog > cmac.v`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    print!("{}", ferrowire_cmac::netlist(&ferrowire_cmac::config())?.verilog());
    Ok(())
}
