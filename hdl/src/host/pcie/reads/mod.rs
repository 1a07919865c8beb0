// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads of host memory: requests with tags, completions in any order, data in the order of the requests.
//!
//! ```text
//!  dma_read --> split --> issue ---> asked[tag] -----+       +--> ended[tag] --+
//!                          |  |                      v       |                 v
//!                          |  +--> order ------------|-------|-------------> deliver --> dma_data
//!                          |                         |       |                 ^
//!                          +--> request (send)       |       |                 |
//!  rc --> strip --+--> head -----------------------> judge --+--> place --> rows (block RAM)
//!                 +--> data --> realign -------------------------> ^
//! ```
//!
//! Each request has a tag and a run of rows of the read buffer, both given out in a ring and given back when the data has been delivered.
//! A row is a beat, its bytes in the lanes in which the card wants them: completions are split at multiples of 64 bytes (PCIe
//! 2.3.1.1), so no two of them meet in a row.
//!
//! Who writes what of a tag, and in which phase (a bit that changes each time that a tag is given out):
//!
//! | table | written by | says |
//! |---|---|---|
//! | `asked` | `issue` | phase, first row, lower address, length |
//! | `progress` | `judge` | phase, what is still to come and where, data was poisoned |
//! | `ended` | `place` | phase, whether it failed: all is in the rows |
//! | `spoiled` | `place` | something that has come means nothing |
//! | `passed` | `deliver` | phase: delivered, or given up |
//!
//! A tag is free where `passed` and `ended` have the phase of `asked`; it is *late* where `passed` alone has it.
//!
//! **Rates.** A request a cycle, a beat of completions a cycle, a row delivered a cycle without a gap. Latency from the completion's first
//! beat to the first beat of data: 9 cycles where it is all there is.
//!
//! **What goes wrong**, and what becomes of it:
//!
//! | what | the read | the tag |
//! |---|---|---|
//! | unsupported request, completer abort, any other status (2.3.2) | fails | free |
//! | poisoned data (2.7.2) | fails when all has come | free |
//! | data shorter or longer than the header says, or spoiled on its way | fails when all has come | free |
//! | nothing comes within the time-out (2.8) | fails | late, until its completion comes or the card is reset |
//! | tag that is not in use; byte count, lower address or length that does not fit; a split elsewhere than at 64 bytes (2.3.2) | goes on, at worst into the time-out | as before |
//! | what comes for a late tag | has failed | free with the last of it |
//! | it may not leave, and the card is being reset | fails | free |
//!
//! A read that fails brings as many beats as another, each with `error`. Late tags are passed over; where no other is left, reads fail at once.
//! The time runs from when the request leaves, so a link that stands still is no time-out.
//!
//! After reset, as many cycles as there are tags pass before the first request.

mod deliver;
mod issue;
mod judge;
mod place;

use super::split::{split, Run};
use super::strip::Parts;
use super::writes::{Passed, Taken};
use super::PcieSettings;
use crate::config::RnicConfig;
use crate::fields::assemble;
use crate::stream::{arbiter_held, catch};
use crate::types::{DmaReadData, DmaReadRequest};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Interface, Mem, Scope, Sig, Stream, Style};
use ferrowire_spec::pcie::completion::{self, CompletionStatus};
use ferrowire_spec::pcie::kind;

/// A read request for the wire.
#[derive(Clone, Bundle)]
pub struct ReadTlp {
    /// The header, its first byte in bits 7:0.
    pub header: Sig,
    /// It has four double words.
    pub long: Sig,
    /// Writes taken before it.
    pub behind: Taken,
}

/// What was asked with a tag.
#[derive(Clone, Bundle)]
struct Asked {
    phase: Sig,
    row: Sig,
    /// The lower bits of its address.
    at: Sig,
    length: Sig,
}

/// What has come of it.
#[derive(Clone, Bundle)]
struct Progress {
    phase: Sig,
    failed: Sig,
    /// Nothing is to come; what follows means nothing then.
    over: Sig,
    /// Of the next byte that is to come: its row, and the lower bits of its address.
    row: Sig,
    at: Sig,
    /// Bytes that are to come.
    left: Sig,
}

/// Bits of an address that a completion repeats (PCIe 2.2.9).
const LOWER: u32 = 7;

impl Progress {
    fn of(s: Sizes) -> Self {
        let (phase, failed, over) = (bits(1), bits(1), bits(1));
        Progress { phase, failed, over, row: bits(s.row), at: bits(LOWER), left: bits(13) }
    }
}

/// How it ended.
#[derive(Clone, Bundle)]
struct Ended {
    phase: Sig,
    failed: Sig,
}

/// Widths.
#[derive(Clone, Copy)]
struct Sizes {
    beat_bytes: u32,
    /// Of a place in a beat.
    lanes: u32,
    tags: u32,
    tag: u32,
    rows: u32,
    row: u32,
    /// Where the data of a completion begins.
    from_lane: u32,
    long_headers: bool,
}

impl Sizes {
    fn of(cfg: &RnicConfig) -> Self {
        let (beat_bytes, tags) = (cfg.beat_bytes, cfg.pcie_tags);
        let rows = cfg.pcie_read_bytes / beat_bytes;
        let (tag, row) = (clog2(u64::from(tags)), clog2(u64::from(rows)));
        let from_lane = if cfg.pcie4 { 0 } else { super::strip::HEADER % beat_bytes };
        let lanes = cfg.lane_bits();
        Sizes { beat_bytes, lanes, tags, tag, rows, row, from_lane, long_headers: cfg.pcie4 }
    }
}

/// Tables by tag, and the rows.
struct Tables {
    phases: Mem<Sig>,
    asked: Mem<Asked>,
    progress: Mem<Progress>,
    ended: Mem<Ended>,
    spoiled: Mem<Sig>,
    passed: Mem<Sig>,
    rows: Mem<Sig>,
}

/// Until all tables are clear.
struct Sweep {
    /// They are.
    done: Sig,
    tag: Sig,
}

impl Tables {
    fn of(m: &Scope, s: Sizes) -> Self {
        let small = |name: &str| m.mem(name, s.tags, &bits(1)).style(Style::Distributed).build();
        let asked = Asked { phase: bits(1), row: bits(s.row), at: bits(LOWER), length: bits(13) };
        let progress = Progress::of(s);
        let ended = Ended { phase: bits(1), failed: bits(1) };
        Tables {
            phases: small("phases"),
            asked: m.mem("asked", s.tags, &asked).style(Style::Distributed).build(),
            progress: m.mem("progress", s.tags, &progress).style(Style::Distributed).build(),
            ended: m.mem("ended", s.tags, &ended).style(Style::Distributed).build(),
            spoiled: small("spoiled"),
            passed: small("passed"),
            rows: m.mem("rows", s.rows, &bits(8 * s.beat_bytes)).style(Style::Block).build(),
        }
    }
}

/// Writes a table, or clears it after reset.
fn write<T: Bundle>(m: &Scope, table: &Mem<T>, sweep: &Sweep, enable: Sig, tag: Sig, entry: &T) {
    let entry = m.mux(sweep.done, entry, &entry.zeros());
    table.write(enable | !sweep.done, m.mux(sweep.done, &tag, &sweep.tag), &entry);
}

/// A run to be read, and the writes that were taken before it came.
#[derive(Clone, Bundle)]
struct Asking {
    run: Run,
    behind: Taken,
}

/// What leaves.
#[derive(Interface)]
pub struct Reads {
    /// Requests for the wire.
    pub requests: Stream<ReadTlp>,
    /// Of the one on offer: the writes taken before it have passed.
    pub clear: Sig,
    /// What was read.
    pub data: Stream<DmaReadData>,
    /// A completion fits nothing that was asked.
    pub unexpected: Sig,
    /// A read was given up.
    pub timeout: Sig,
}

/// What nobody was asked for has an answer of the engine's own: unsupported request.
fn refusal(tag: Sig) -> Sig {
    use completion::{FMT, LAYOUT, STATUS, TAG, TYPE};
    let kind = lit(8, kind::COMPLETION);
    let status = lit(3, CompletionStatus::UnsupportedRequest.code());
    assemble(&LAYOUT, &[(FMT, kind.slice(5, 3)), (TYPE, kind.trunc(5)), (STATUS, status), (TAG, tag)])
}

/// Reads host memory. `passed`: writes that no read passes any more; `departed`: a request leaves in this cycle; `returned`: tags of those that were thrown away instead.
#[allow(clippy::too_many_arguments)]
#[module]
pub fn reads(
    m: &Scope,
    cfg: &RnicConfig,
    settings: PcieSettings,
    request: Stream<DmaReadRequest>,
    taken: Taken,
    passed: Passed,
    completion: Parts,
    bad: Stream<Sig>,
    departed: Sig,
    returned: Stream<Sig>,
) -> Reads {
    let s = Sizes::of(cfg);
    let tables = Tables::of(m, s);
    let swept = m.reg("swept", s.tag + 1).reset(0);
    let sweep = Sweep { done: swept.bit(s.tag), tag: swept.trunc(s.tag) };
    m.when(!sweep.done, |m| m.set(&swept, swept + 1));

    // What a read without it may not pass, it sees.
    let runs = request.map(|read| Asking {
        run: Run { address: read.address, length: read.length, relaxed: lit(1, 0) },
        behind: taken.clone(),
    });
    let runs = catch(&m.label("runs"), runs);
    // `behind` is what was taken when the request came; a run's chunks share it, for later ones leave later.
    let behind = m.reg_of("behind", &taken);
    m.when(runs.fire(), |m| m.set_all(&behind, &runs.behind));
    let chunks = split(m, settings.max_read_request, runs.map(|asking| asking.run.clone()));
    m.discard(&chunks.relaxed);
    let freed = m.wire("freed", 1);
    let issued = issue::issue(m, s, &tables, &sweep, &settings, chunks, behind, passed, freed);
    let heads = vec![completion.head, returned.map(|tag| refusal(*tag))];
    let head = arbiter_held(&m.label("heads"), &|_: &Sig| lit(1, 1), heads);
    let completion = Parts { head, data: completion.data };
    let (aligned, places) = judge::judge(m, s, &tables, &sweep, completion);
    let unexpected = places.unexpected;
    place::place(m, s, &tables, &sweep, aligned, places.places, bad);
    let delivered = deliver::deliver(m, cfg, s, &tables, &sweep, issued.order, departed);
    m.drive(&freed, delivered.freed);
    Reads {
        requests: issued.requests,
        clear: issued.clear,
        data: delivered.data,
        unexpected,
        timeout: delivered.timeout,
    }
}
