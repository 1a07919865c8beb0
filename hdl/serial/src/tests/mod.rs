// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the parts and of the whole.

mod dirty;
mod memory;
mod uart;

use crate::{bridge, interconnect, SerialConfig};

#[test]
fn the_parts_pass_the_build_time_checks() {
    for (clock_khz, baud) in [(50_000, 115_200), (75_000, 3_000_000), (25_000, 3_000_000), (8_000, 1_000_000)]
    {
        let cfg = SerialConfig { clock_khz, baud, ..SerialConfig::default() };
        cfg.validate().unwrap();
        bridge::engine(&cfg).unwrap_or_else(|e| panic!("bridge at {baud}:\n{e}"));
        crate::memory::engine(&cfg, 3).unwrap_or_else(|e| panic!("memory:\n{e}"));
        crate::board::serial_board(&cfg).unwrap_or_else(|e| panic!("board:\n{e}"));
    }
    interconnect::engine(2, 8).unwrap_or_else(|e| panic!("interconnect:\n{e}"));
}
