// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flags of many rows, gathered: however often a row is flagged, it waits once.
//!
//! ```text
//!             +--------------------------+
//!  input ---->| flags of each row, ORed  |<---- forget
//!             |      a row's first flag  |
//!             |          v               |
//!             | line of the rows, a place each |----> out: row and flags
//!             +--------------------------------+
//! ```
//!
//! For what must be taken from others without ever making them wait, and can be said once for all: a doorbell, an event,
//! a fault. The line has a place for each row, so the input waits for nobody, whatever becomes of the output: it is taken in the
//! cycle in which it comes, or a cycle later where `forget` comes in the same. Rows leave in the order of their first flags, with
//! all flags that came until then; what comes while a row is on offer waits behind.
//!
//! `forget` takes a row's flags back, except those on offer ([`Forget::outdates`]); a row without flags does not leave.
//!
//! One row a cycle in, and one every other cycle out while none comes in; latency 4, 3 with at most [`SHORT`] rows, and 5 with more than [`FEW`]. The flags of each
//! row, and whether it waits, lie in LUT RAM, the line in block RAM, or a short one in LUT RAM, too. Reset empties all; the input waits for as many cycles as there are rows, in which
//! `forget` says nothing.

use super::{deep_fifo, fifo, forward};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Scope, Sig, Stream, Style};

/// Rows of a line for which block RAM is too much.
const SHORT: u32 = 64;

/// Rows whose flags are read in time by what block RAM shows.
const FEW: u32 = 256;

/// A row and its flags.
#[derive(Clone, Bundle)]
pub struct Flagged {
    /// Which row.
    pub row: Sig,
    /// What is said of it.
    pub flags: Sig,
}

impl Flagged {
    /// The shape.
    pub fn of(rows: u32, flags: u32) -> Self {
        Flagged { row: bits(clog2(u64::from(rows))), flags: bits(flags) }
    }
}

/// What is not to be said any more.
#[derive(Clone, Bundle)]
pub struct Forget {
    /// In this cycle.
    pub valid: Sig,
    /// Of which row.
    pub row: Sig,
}

impl Forget {
    /// Nothing, ever.
    pub fn nothing(rows: u32) -> Self {
        let width = clog2(u64::from(rows));
        Forget { valid: lit(1, 0), row: lit(width, 0) }
    }

    /// Whether what is on offer has been forgotten since it was offered, or is in this cycle. A [`gather`] does not take an offer back.
    pub fn outdates(&self, m: &Scope, offer: &Stream<Flagged>) -> Sig {
        let was = m.reg("outdated", 1).reset(0);
        let outdated = was | (self.valid & offer.valid & offer.row.eq(self.row));
        m.set(&was, outdated & !offer.fire());
        outdated
    }
}

/// What is kept of a row.
#[derive(Clone, Bundle)]
struct Row {
    waits: Sig,
    flags: Sig,
}

/// Gathers flags.
#[module]
pub fn gather(m: &Scope, #[param] rows: u32, input: Stream<Flagged>, forget: Forget) -> Stream<Flagged> {
    let (index, width) = (input.row.width(), input.flags.width());
    let kept = m.mem("kept", rows, &Row { waits: bits(1), flags: bits(width) });
    let kept = kept.style(Style::Distributed).build();

    // What was written in the cycle before is on its way still: reading and writing have a port each.
    let changes = m.reg("changes", 1).reset(0);
    let changed = m.reg("changed", index).no_reset();
    let change = m.reg_of("change", &Row { waits: bits(1), flags: bits(width) });
    // A row joins the line with that write.
    let pushes = m.reg("pushes", 1).reset(0);
    let line = Stream::new(m, "line", pushes, changed);
    m.assert(!pushes | line.ready, "a row waits once");
    let line = if rows <= SHORT { fifo(m, rows, line) } else { deep_fifo(m, rows, line) };
    // The row's flags are read by what the line shows: of many rows from deep LUT RAM, which block RAM's output is too late for.
    let line = if rows > FEW { forward(&m.label("line"), line) } else { line };

    let shown = m.reg("shown", 1).reset(0);
    let offer = m.reg_of("offer", &Flagged { row: bits(index), flags: bits(width) });
    // After reset nobody waits: a row a cycle is cleared.
    let clearing = m.reg("clearing", 1).reset(1);
    let cleared = m.reg("cleared", index).reset(0);
    m.when(clearing, |m| m.set(&cleared, cleared + 1));
    m.when(cleared.all(), |m| m.set(&clearing, 0));
    let open = !clearing & !forget.valid;
    let put = input.valid & open;
    let free = open & !input.valid & !shown;
    let take = line.valid & free;
    input.accept(open);
    line.accept(free);

    // One row in a cycle: cleared, forgotten, flagged, or taken from the line.
    let at = forget.valid.then(forget.row, input.valid.then(input.row, line.payload));
    let at = clearing.then(cleared, at);
    kept.write(changes, changed, &change);
    let row = m.mux(changes & changed.eq(at), &change, &kept.read_now(at));
    let after = Row {
        waits: (row.waits | put) & !take & !clearing,
        flags: put.then(row.flags | input.flags, lit(width, 0)),
    };
    m.set(&changes, clearing | forget.valid | put | take);
    m.set(&changed, at);
    m.set_all(&change, &after);
    m.set(&pushes, put & !row.waits);

    let out = Stream::new(m, "out", shown, offer.clone());
    m.when(take, |m| {
        m.set(&shown, row.flags.any());
        m.set_all(&offer, &Flagged { row: line.payload, flags: row.flags });
    })
    .otherwise_when(out.ready, |m| m.set(&shown, 0));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    /// Rows that are flagged; there may be more.
    const ROWS: u32 = 8;

    /// With the line's head from block RAM, and from a register.
    const SIZES: [u32; 2] = [ROWS, 2 * FEW];

    fn sim(rows: u32) -> Sim {
        let netlist = build("top", |m| {
            let input = m.stream_in("in", &Flagged::of(rows, 3));
            let forget = m.input_of("forget", &Forget { valid: bits(1), row: bits(clog2(u64::from(rows))) });
            m.stream_out("out", gather(m, rows, input, forget));
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        (0..rows).for_each(|_| sim.tick());
        sim
    }

    #[test]
    fn no_flag_is_lost_or_made_up_and_a_forgotten_one_does_not_leave() {
        for (stall, rows) in [0.0, 0.5, 0.95].into_iter().flat_map(|stall| SIZES.map(|rows| (stall, rows))) {
            let mut sim = sim(rows);
            let mut random = Random::new(31);
            let mut sources = [Source::new("in", &Flagged::of(rows, 3))];
            let mut sinks = [Sink::new("out", &Flagged::of(rows, 3))];
            sinks[0].stall = Some(stall);
            // What was said of each row and has not been offered, what waits at the input, and whether an offer stands.
            let (mut pending, mut coming, mut stands) = ([0u64; ROWS as usize], None, false);
            let mut offers = 0;
            for cycle in 0..6000 {
                if coming.is_none() && cycle < 5000 && random.chance(0.6) {
                    let (row, flags) = (random.rng.random_range(0..8usize), random.rng.random_range(1..8u64));
                    sources[0].push_values(&[("row", row as u128), ("flags", flags.into())]);
                    coming = Some((row, flags));
                }
                let forget =
                    (cycle < 5000 && random.chance(0.05)).then(|| random.rng.random_range(0..8usize));
                sim.set("forget_valid", forget.is_some().into());
                sim.set("forget_row", forget.unwrap_or(0) as u64);
                let valid = sim.get("out_valid") == 1;
                if valid && !stands {
                    offers += 1;
                    let (row, flags) = (sim.get("out_row") as usize, sim.get("out_flags"));
                    assert_eq!(flags, pending[row], "seed {}", random.seed);
                    assert_ne!(flags, 0, "seed {}", random.seed);
                    pending[row] = 0;
                }
                let before = sinks[0].items.len();
                step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
                stands = valid && sinks[0].items.len() == before;
                assert!(forget.is_some() || sources[0].left() == 0, "seed {}: the input waits", random.seed);
                if let Some(row) = forget {
                    pending[row] = 0;
                } else if let Some((row, flags)) = coming.take() {
                    pending[row] |= flags;
                }
            }
            assert_eq!(pending, [0; ROWS as usize], "seed {}", random.seed);
            assert!(offers > 200, "seed {}: {offers} offers", random.seed);
        }
    }

    #[test]
    fn a_row_that_is_forgotten_before_its_turn_does_not_leave() {
        SIZES.into_iter().for_each(forgotten);
    }

    fn forgotten(rows: u32) {
        let mut sim = sim(rows);
        let mut random = Random::new(32);
        let mut sources = [Source::new("in", &Flagged::of(rows, 3))];
        let mut sinks = [Sink::new("out", &Flagged::of(rows, 3))];
        sinks[0].stall = Some(1.0);
        for (row, flags) in [(1, 1), (2, 2), (3, 4), (2, 1)] {
            sources[0].push_values(&[("row", row), ("flags", flags)]);
        }
        let mut run = |sim: &mut Sim, sinks: &mut [Sink; 1], sources: &mut [Source; 1]| {
            (0..20).for_each(|_| step(sim, sources, sinks, &mut random, 0.0));
        };
        run(&mut sim, &mut sinks, &mut sources);
        sim.set("forget_valid", 1);
        sim.set("forget_row", 2);
        sim.tick();
        sim.set("forget_valid", 0);
        sinks[0].stall = None;
        run(&mut sim, &mut sinks, &mut sources);
        let left: Vec<_> = sinks[0].values("row").into_iter().zip(sinks[0].values("flags")).collect();
        assert_eq!(left, [(1, 1), (3, 4)]);
    }
}
