// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cuts a run of bytes into bursts (AMBA AXI4, A3.4.1).
//!
//! ```text
//!  run --> [ page, first beat, last beat ] --> burst: what lies before the next multiple of the longest one
//! ```
//!
//! A burst is incrementing, of whole beats, and begins at a multiple of a beat's bytes: the strobes of a write say which bytes are meant. It is no
//! longer than the configuration says and ends at multiples of that length, so none crosses 4 KiB: a run lies within a page.
//!
//! A burst a cycle, latency 1; with the last burst of a run the next run is taken: a path from the output's `ready` to the input's. Reset forgets the
//! run.

use crate::config::RnicConfig;
use ferrowire_rtl::{cat, lit, module, Bundle, Scope, Sig, Stream};

/// Bytes to be read or written, within one page of 4 KiB.
#[derive(Clone, Bundle)]
pub struct Run {
    /// Bus address of the first byte.
    pub address: Sig,
    /// Bytes, 1 to 4,096.
    pub length: Sig,
    /// AXI ID.
    pub id: Sig,
}

/// A burst of a run.
#[derive(Clone, Bundle)]
pub struct Burst {
    /// Bus address of its first beat.
    pub address: Sig,
    /// Beats after the first, as `AxLEN`.
    pub len: Sig,
    /// AXI ID.
    pub id: Sig,
    /// The run ends with it.
    pub last: Sig,
}

/// Bits of a beat's place in a page.
pub fn place_bits(cfg: &RnicConfig) -> u32 {
    12 - cfg.lane_bits()
}

/// Whether a burst ends with the beat at a place of a page, at the latest.
pub fn ends_at(cfg: &RnicConfig, place: Sig) -> Sig {
    let bits = cfg.axi_burst_beats.trailing_zeros().min(place.width());
    match bits {
        0 => lit(1, 1),
        _ => place.trunc(bits).all(),
    }
}

/// Cuts runs into bursts.
#[module]
pub fn bursts(m: &Scope, cfg: &RnicConfig, run: Stream<Run>) -> Stream<Burst> {
    let width = place_bits(cfg);
    let held = m.reg("held", 1).reset(0);
    let page = m.reg("page", 52).no_reset();
    let id = m.reg("id", run.id.width()).no_reset();
    let (at, end) = (m.reg("at", width).no_reset(), m.reg("end", width).no_reset());

    let most = at | lit(width, (cfg.axi_burst_beats - 1) & ((1 << width) - 1));
    let over = most.lt(end).named("over");
    let stop = over.then(most, end);
    let len = (stop - at).zext(8.max(width)).trunc(8);
    let address = cat(&[lit(cfg.lane_bits(), 0), at, page]);
    let out = Stream::new(m, "out", held, Burst { address, len, id, last: !over });

    run.accept(!held | (out.ready & !over));
    m.when(run.fire(), |m| {
        let last_byte = run.address.trunc(12) + (run.length - 1).trunc(12);
        m.set(&held, 1);
        m.set(&page, run.address.slice(12, 52));
        m.set(&id, run.id);
        m.set(&at, run.address.slice(cfg.lane_bits(), width));
        m.set(&end, last_byte.slice(cfg.lane_bits(), width));
    })
    .otherwise_when(out.fire(), |m| {
        m.set(&held, over);
        m.set(&at, most + 1);
    });
    out
}
