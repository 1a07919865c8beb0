// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the Verilog of a MAC for a core of 8 bytes a beat: `cargo run -p ferrowire-mac --example mac-verilog -- 8 > mac_1g.v`; with the cells of an ECP5, of which
//! RXD is delayed by 2,000 ps and TXC by none: `cargo run -p ferrowire-mac --example mac-verilog -- 8 ecp5 2000 0`.

use ferrowire_mac::{ecp5, netlist, MacConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, else_: u32| args.get(i).map_or(Ok(else_), |text| text.parse());
    let cfg = MacConfig::jumbo(number(0, 8)?);
    cfg.validate()?;
    let netlist = match args.get(1).map(String::as_str) {
        None => netlist(&cfg)?,
        Some("ecp5") => {
            ecp5::netlist(&cfg, ecp5::Delays { rx_data_ps: number(2, 0)?, tx_clk_ps: number(3, 0)? })?
        }
        Some(other) => return Err(format!("no cells `{other}`; there are ecp5").into()),
    };
    print!("{}", netlist.verilog());
    Ok(())
}
