// SPDX-License-Identifier: MIT OR Apache-2.0
//! DRAM as the memory of a board without a host: AXI4 on one side, DDR3 at the pads of an ECP5 on the other. Banks, times and refreshes are in `rows`.
//!
//! ```text
//!                    core's clock                        |   twice that
//!  AXI4 <--> lines --> commands --> [ asynchronous FIFO ] --> gear --> cells --> CK, commands, DQS, DQ
//!              ^          ^                              |
//!              |          +-- start --> delay ---------------------------------> DELAYF
//!              +-- capture <------- [ asynchronous FIFO ] <-- gear <-- cells <-- DQ
//! ```
//!
//! **The device's DLL is off**, for the memory's clock is the core's, some 50 MHz: its words are half a cycle long, so they need no strobe to be caught, and are sampled at twice the core's clock at both edges.
//! The [start](start) finds out when. Half the core's bandwidth is there either way: four bytes a cycle, 200 MB/s at 50 MHz, for a wire of 125.
//!
//! **Twice the core's clock** comes of the same PLL, at whatever phase. Everything that goes to the device in a cycle is one entry of a FIFO, and the four samples of a cycle another: neither runs empty or full, for both sides are as fast as each other,
//! so the way there and back always takes as long.
//!
//! **Latency** of a line that is read in a row that is open: see [`commands`](commands::commands), and 20 to 24 cycles for both ways, the device's five and the FIFOs.
#![forbid(unsafe_code)]

mod bursts;
mod capture;
mod cells;
mod commands;
mod config;
pub mod ecp5;
mod gear;
mod lines;
mod rows;
mod start;
#[cfg(test)]
mod tests;

pub use config::{ConfigError, DramConfig, BANK_BITS, LINE_BYTES, WORD_BITS};
pub use gear::{Halves, Sampled};
pub use start::{Delay, Status};

use ferrowire_rtl::{
    async_fifo, build, module, BuildErrors, DomainId, Interface, Netlist, Scope, Sig, Stream,
};
use ferrowire_serial::axi::{self, Address, Answers, ReadBeat, Requests, Response, WriteBeat};

use crate::gear::Entry;

/// Cycles that are under way between the clocks, at most.
const CROSSING: u32 = 16;

/// The clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The core's, which is the memory's.
    pub core: DomainId,
    /// Twice that, of the same source.
    pub twice: DomainId,
}

/// What has been written.
#[derive(Clone, ferrowire_rtl::Bundle)]
pub struct Wrote {
    /// A line is in memory for all who read behind it.
    pub valid: Sig,
    /// The line's number, from the memory's first.
    pub line: Sig,
    /// The ID.
    pub id: Sig,
}

/// What leaves.
#[derive(Interface)]
pub struct Dram {
    /// B.
    pub b: Stream<Response>,
    /// R.
    pub r: Stream<ReadBeat>,
    /// What has been written.
    pub wrote: Wrote,
    /// To the cells, in twice the core's clock.
    pub halves: Halves,
    /// To the delays of the data wires.
    pub delay: Delay,
    /// Whether the memory can be used.
    pub status: Status,
}

/// See the page's top. `sampled`: what the cells caught, in twice the core's clock, as `halves` are.
#[module]
pub fn dram(
    m: &Scope,
    cfg: &DramConfig,
    #[param] clocks: Clocks,
    aw: Stream<Address>,
    w: Stream<WriteBeat>,
    ar: Stream<Address>,
    sampled: Sampled,
) -> Dram {
    // Nothing gathers while one side is still in reset: the way would be longer by that, for ever.
    let runs = m.in_domain(clocks.twice, |m| {
        let runs = m.reg("runs", 1).reset(0);
        m.set(&runs, 1);
        runs
    });
    let runs = m.synchronise("memory_runs", runs);
    let beat = m.wire_of("beat", &lines::Beat::of());
    let started = start::start(m, cfg, runs, beat.clone());
    let ready = started.status.done;
    let lines::Parts { b, r, line, wrote } = lines::lines(
        m,
        cfg,
        aw,
        w,
        ar,
        lines::Beat { valid: beat.valid & ready, data: beat.data },
        started.status.clone(),
    );
    // The search has all lines first, then AXI has.
    let payload = m.mux(ready, &line.payload, &started.line.payload);
    let either = Stream::new(m, "either", ready.then(line.valid, started.line.valid), payload);
    line.accept(either.ready & ready);
    started.line.accept(either.ready & !ready);
    let issued = commands::commands(m, cfg, started.up, started.command, either);

    let entry = Entry {
        reset_n: started.reset_n,
        cke: started.cke,
        command: issued.command,
        written: issued.written,
    };
    let entries = Stream::new(m, "entries", runs, entry);
    m.assert(!runs | entries.ready, "the memory's side is as fast");
    let entries = async_fifo(&m.label("out"), CROSSING, clocks.core, clocks.twice, entries);
    let geared = m.in_domain(clocks.twice, |m| gear::gear(m, entries, sampled));
    let samples = async_fifo(&m.label("back"), CROSSING, clocks.twice, clocks.core, geared.samples);
    let (_, samples) = gear::steady(m, "samples", ferrowire_rtl::lit(1, 1), samples);
    m.drive(&beat, capture::capture(m, issued.read, started.place, samples));
    Dram { b, r, wrote, halves: geared.halves, delay: started.delay, status: started.status }
}

/// The memory between ports `s_axi_*` and `dram_*`: for tests, and for boards that are not described in Rust. Its clocks are `clk` and `memory_clk`.
///
/// # Errors
/// What the build-time checks find; none for a valid configuration.
///
/// # Panics
/// If the configuration is not [valid](DramConfig::validate).
pub fn netlist(cfg: &DramConfig, id_bits: u32) -> Result<Netlist, BuildErrors> {
    cfg.validate().unwrap_or_else(|error| panic!("{error}"));
    build("dram", |m| {
        let clocks = Clocks { core: m.current_domain(), twice: m.domain("memory") };
        let Requests { aw, w, ar } = axi::subordinate_in(m, "s_axi_", id_bits, 8);
        let sampled = m.in_domain(clocks.twice, |m| m.input_of("dram_sampled", &Sampled::of()));
        let made = dram(m, cfg, clocks, aw, w, ar, sampled);
        axi::subordinate_out(m, "s_axi_", Answers { b: made.b, r: made.r });
        m.output("wrote", &made.wrote);
        m.in_domain(clocks.twice, |m| m.output("dram", &made.halves));
        m.output("dram_delay", &made.delay);
        m.output("dram", &made.status);
    })
}
