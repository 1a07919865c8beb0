// SPDX-License-Identifier: MIT OR Apache-2.0
//! The serial bridge between its pins, registers that count each access, and the judge of AXI4 as memory.

mod bench;
mod frames;
mod lockstep;
mod noise;
