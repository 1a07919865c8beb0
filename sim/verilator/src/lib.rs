// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs Verilog under Verilator from Rust.
//!
//! ```text
//!  Source --build()--> verilator --cc --> C++ --compiler--> model.so --dlopen--> Library --instantiate()--> Model
//!                 \______________ skipped when the cache holds it ______________/
//! ```
//!
//! A [`Source`] is Verilog text, the name of its top module and its ports. [`build`] turns it into a [`Library`], kept
//! in a cache under a hash of everything that went in, so that only a changed design is compiled. Any number of
//! [`Model`]s, of one library or of several, live in one process; each may move to another thread.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use ferrowire_verilator::{build, Options, PortSpec, Source};
//!
//! let source = Source::new(
//!     "counter",
//!     "module counter(input wire clk, output reg [7:0] n); always @(posedge clk) n <= n + 8'd1; endmodule",
//!     vec![PortSpec::input("clk", 1), PortSpec::output("n", 8)],
//! );
//! let mut counter = build(&source, &Options::default())?.instantiate();
//! let (clk, n) = (counter.port("clk")?, counter.port("n")?);
//! counter.ticks(clk, 5);
//! assert_eq!(counter.get_u64(n), 5);
//! # Ok(())
//! # }
//! ```
//!
//! # Time and clocks
//!
//! Time is a count of picoseconds that the caller moves. A clock is an ordinary 1-bit input: [`Model::tick`] serves a
//! design with one, [`Clocks`] several unrelated ones, and `set_u64`, [`Model::eval`], [`Model::advance`] everything else.
//!
//! # Checks in the Verilog
//!
//! `$stop` and `$fatal` make the `eval` that meets them panic, with the Verilog's and the Rust source's place, after
//! the waves are flushed; see [`Model::panic_on_stop`]. `$finish` sets [`Model::finished`]. SystemVerilog `assert` is
//! compiled only with [`Options::assertions`].

#![deny(unsafe_code)]

mod cache;
mod clocks;
mod compile;
mod error;
mod find;
mod shim;
#[allow(unsafe_code)]
mod sys;

pub use cache::target_dir;
pub use clocks::{ClockId, Clocks, Edges};
pub use compile::{build, compiler_runs, lint, verilator_runs};
pub use error::{BuildError, Diagnostic, PortError};
pub use find::{find, Verilator};
pub use sys::{Library, Model, PortId};

use std::path::PathBuf;

/// A port of the top module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortSpec {
    /// Name as in the Verilog.
    pub name: String,
    /// Width in bits, at least 1.
    pub width: u32,
    /// `true` for an input, `false` for an output.
    pub input: bool,
}

impl PortSpec {
    /// An input of `width` bits.
    pub fn input(name: impl Into<String>, width: u32) -> Self {
        Self { name: name.into(), width, input: true }
    }

    /// An output of `width` bits.
    pub fn output(name: impl Into<String>, width: u32) -> Self {
        Self { name: name.into(), width, input: false }
    }
}

/// Verilog to simulate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// Name of the top module.
    pub top: String,
    /// Text of the whole design.
    pub verilog: String,
    /// Every port of the top module, in any order.
    pub ports: Vec<PortSpec>,
    /// Preprocessor symbols, as `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
}

impl Source {
    /// A design without preprocessor symbols.
    pub fn new(top: impl Into<String>, verilog: impl Into<String>, ports: Vec<PortSpec>) -> Self {
        Self { top: top.into(), verilog: verilog.into(), ports, defines: Vec::new() }
    }
}

/// How hard the C++ compiler works on a model. Verilator itself always optimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OptLevel {
    /// Fastest to compile, many times slower to run.
    O0,
    /// Good for a test that runs some thousand cycles.
    #[default]
    O1,
    /// Between the two.
    O2,
    /// For long runs and benches.
    O3,
    /// For size.
    Os,
}

/// How a model is built. Every option but `cache_dir` makes a model of its own.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Allow [`Model::open_fst`]. A model that can trace is a little slower even when it does not.
    pub trace: bool,
    /// Optimisation of the C++ compiler.
    pub opt: OptLevel,
    /// Compile SystemVerilog `assert` statements. `$stop` and `$fatal` work without.
    pub assertions: bool,
    /// Where models are kept. `None`: `FERROWIRE_CACHE`, or else `verilated` in the target folder of a program that cargo runs or has built, or else the
    /// user's cache folder: `$XDG_CACHE_HOME/ferrowire` or `~/.cache/ferrowire`.
    pub cache_dir: Option<PathBuf>,
}
