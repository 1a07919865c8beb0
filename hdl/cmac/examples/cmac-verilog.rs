// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the adapter's Verilog, for a card of 250 MHz: `cargo run -p ferrowire-cmac --example cmac-verilog > cmac.v`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ahead = ferrowire_cmac::ahead(250_000, ferrowire_hdl::tx::build::LONGEST_FRAME);
    print!("{}", ferrowire_cmac::netlist(&ferrowire_cmac::config(), ahead)?.verilog());
    Ok(())
}
