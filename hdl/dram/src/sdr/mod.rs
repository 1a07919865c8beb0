// SPDX-License-Identifier: MIT OR Apache-2.0
//! SDRAM of single data rate as the memory of a board without a host: AXI4 on one side, the pads of an ECP5 on the other, all on the core's clock.
//!
//! ```text
//!  AXI4 <--> lines --> rows --> cells --> CLK, commands, DQ
//!              ^        ^ start
//!              +-- capture <--- cells <-- DQ
//! ```
//!
//! The device's clock is the core's, inverted, so that commands and data stand for half a cycle before its edge and half a cycle behind it; what it sends is caught at the core's falling edge. In which cycle, the [start] finds out.
//! 200 MB/s at 50 MHz, for a wire of 125. The board ties CKE high, and CS# and DQM low.
//!
//! **Latency** of a line that is read in a row that is open: 4 cycles, CL 2, and those of the cells both ways, which the start counts.

mod config;
pub mod ecp5;
mod lines;
mod start;

pub use config::{SdrConfig, BANK_BITS, LINE_BYTES, WORD_BITS};

use ferrowire_rtl::{build, cat, module, BuildErrors, Bundle, Interface, Netlist, Scope, Sig, Stream};
use ferrowire_serial::axi::{self, Address, Answers, ReadBeat, Requests, Response, WriteBeat};

use crate::lines::Beat;
use crate::rows::{rows, Access, Command};
use crate::start::Status;
use crate::Wrote;

/// A line of the memory, to be read or written.
#[derive(Clone, Bundle)]
pub(crate) struct Line {
    /// Which, and which way.
    pub access: Access,
    /// What is written.
    pub data: Sig,
}

/// What the cells send in a cycle.
#[derive(Clone, Bundle)]
pub struct Sent {
    /// RAS#.
    pub ras_n: Sig,
    /// CAS#.
    pub cas_n: Sig,
    /// WE#.
    pub we_n: Sig,
    /// Bank.
    pub ba: Sig,
    /// Address.
    pub a: Sig,
    /// Data are driven.
    pub drive: Sig,
    /// DQ.
    pub dq: Sig,
}

/// What leaves.
#[derive(Interface)]
pub struct Sdram {
    /// B.
    pub b: Stream<Response>,
    /// R.
    pub r: Stream<ReadBeat>,
    /// What has been written.
    pub wrote: Wrote,
    /// To the cells.
    pub sent: Sent,
    /// Whether the memory can be used.
    pub status: Status,
}

/// See the page's top. `caught`: what the cells caught at the falling edge.
#[module]
pub fn sdram(
    m: &Scope,
    cfg: &SdrConfig,
    aw: Stream<Address>,
    w: Stream<WriteBeat>,
    ar: Stream<Address>,
    caught: Sig,
) -> Sdram {
    let beat = m.wire_of("beat", &Beat::of());
    let started = start::start(m, cfg, beat.clone());
    let ready = started.status.done;
    let own = Beat { valid: beat.valid & ready, data: beat.data };
    let lines::Parts { b, r, line, wrote } = lines::lines(m, cfg, aw, w, ar, own, started.status.clone());
    // The search has all lines first, then AXI has.
    let payload = m.mux(ready, &line.payload, &started.line.payload);
    let either = Stream::new(m, "either", ready.then(line.valid, started.line.valid), payload);
    line.accept(either.ready & ready);
    started.line.accept(either.ready & !ready);
    let data = either.data;
    let chosen = rows(m, &cfg.device(), started.up, started.command, either.map(|line| line.access.clone()));
    m.drive(&beat, capture(m, chosen.read, started.place, caught));

    // A line's words are on the wires with its WRITE and in the cycle behind it; drivers are on for a cycle more on either side.
    let words = m.reg("words", 2 * WORD_BITS).no_reset();
    let ago = m.reg("ago", config::BURST + 1).reset(0);
    m.set(&words, words >> WORD_BITS);
    m.when(chosen.writes, |m| m.set(&words, data));
    m.set(&ago, cat(&[chosen.writes, ago.trunc(config::BURST)]));
    let Command { ras_n, cas_n, we_n, ba, a } = chosen.command;
    let sent =
        Sent { ras_n, cas_n, we_n, ba, a, drive: chosen.writes | ago.any(), dq: words.trunc(WORD_BITS) };
    Sdram { b, r, wrote, sent, status: started.status }
}

/// Two words behind a READ. Three cycles and the place behind it.
fn capture(m: &Scope, read: Sig, place: Sig, caught: Sig) -> Beat {
    let asked = m.reg("asked", start::PLACES).reset(0);
    m.set(&asked, cat(&[read, asked.trunc(start::PLACES - 1)]));
    let begins = m.reg("begins", 1).reset(0);
    m.set(&begins, asked.bit_at(place));
    let valid = m.reg("valid", 1).reset(0);
    m.set(&valid, begins);
    let (word, earlier) = (m.reg("word", WORD_BITS).no_reset(), m.reg("earlier", WORD_BITS).no_reset());
    m.set(&word, caught);
    m.set(&earlier, word);
    Beat { valid, data: cat(&[earlier, word]) }
}

/// The memory between ports `s_axi_*` and `dram_*`: for tests, and for boards that are not described in Rust.
///
/// # Errors
/// What the build-time checks find; none for a valid configuration.
///
/// # Panics
/// If the configuration is not [valid](SdrConfig::validate).
pub fn netlist(cfg: &SdrConfig, id_bits: u32) -> Result<Netlist, BuildErrors> {
    cfg.validate().unwrap_or_else(|error| panic!("{error}"));
    build("sdram", |m| {
        let Requests { aw, w, ar } = axi::subordinate_in(m, "s_axi_", id_bits, 8);
        let made = sdram(m, cfg, aw, w, ar, m.input("dram_caught", WORD_BITS));
        axi::subordinate_out(m, "s_axi_", Answers { b: made.b, r: made.r });
        m.output("wrote", &made.wrote);
        m.output("dram", &made.sent);
        m.output("dram", &made.status);
    })
}
