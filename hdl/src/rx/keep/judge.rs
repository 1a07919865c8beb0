// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a packet is the next one of its flow, a duplicate, or too early.
//!
//! ```text
//!  starts ---> ring --+
//!  asks -----> ring --+--> [ base of each flow: a table ] --> rulings
//!  packets --> ring --+
//! ```
//!
//! A queue pair has two flows: the requests that it receives as a responder, and the responses that it receives as a requester. `base` is the first
//! PSN of a flow that no packet covers yet (`docs/src/selective.md`, "Receiving"). This block is its owner. A packet covers the PSNs from `first` to `last`:
//!
//! | | ruling | `base` after it |
//! |---|---|---|
//! | `last` before `base` | before | stays |
//! | `first` not after `base` | next | `last` + 1 |
//! | `first` at most 255 after `base` | ahead | stays |
//! | otherwise | far | stays |
//!
//! `asks` are those of whoever keeps packets: of one that may have become the next, and is released if the ruling is *next*. All rulings leave in
//! the order in which the table made them, so what is handed on in their order is in the order of the flow.
//!
//! **Throughput:** a packet a cycle, of one flow too. **Latency:** [`LATENCY`]. **Backpressure:** nothing is issued unless its ruling has a place; starts never
//! wait for that. **Reset:** every `base` is 0, one row a cycle. The longest path is the subtraction of two PSNs and what follows from its sign.

use crate::config::RnicConfig;
use crate::engine::{Shape, Source, Table, Verdict, Visit};
use crate::stream::fifo;
use crate::types::QpInit;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Scope, Sig, Stream};
use ferrowire_spec::wire::report::REACH;

/// Cycles from a packet to its ruling.
pub const LATENCY: u32 = 4;
/// Rulings that may wait.
const RULINGS: u32 = 16;
/// Events that may be in the stages when no more are issued.
const UNDER_WAY: u32 = 4;

/// What a packet is in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// All that it covers has come before.
    Before,
    /// The next one: it is handed on.
    Next,
    /// Something before it is missing, and it can be kept.
    Ahead,
    /// Likewise, but it is too far away.
    Far,
}

impl Class {
    /// Its number between the blocks.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Whether a signal is this class.
    pub fn is(self, class: Sig) -> Sig {
        class.eq(self.code())
    }
}

/// Bits of the number of a flow: that of its queue pair, and above it whether it is the one of responses.
pub fn flow_bits(cfg: &RnicConfig) -> u32 {
    cfg.qp_bits() + 1
}

/// What a packet covers.
#[derive(Clone, Bundle)]
pub struct Claim {
    /// Its flow.
    pub flow: Sig,
    /// The first PSN.
    pub first: Sig,
    /// The last PSN.
    pub last: Sig,
}

impl Claim {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Claim { flow: bits(flow_bits(cfg)), first: bits(24), last: bits(24) }
    }
}

/// A flow begins.
#[derive(Clone, Bundle)]
pub struct Start {
    /// Which.
    pub flow: Sig,
    /// Its `base`.
    pub psn: Sig,
}

impl Start {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Start { flow: bits(flow_bits(cfg)), psn: bits(24) }
    }

    /// The requests of a queue pair.
    pub fn of_requests(init: &QpInit) -> Self {
        Start { flow: cat(&[init.qp, lit(1, 0)]), psn: init.psn }
    }

    /// The responses to it.
    pub fn of_responses(init: &QpInit) -> Self {
        Start { flow: cat(&[init.qp, lit(1, 1)]), psn: init.psn }
    }
}

/// What was found.
#[derive(Clone, Bundle)]
pub struct Ruling {
    /// It is of what was asked, and not of a packet.
    pub asked: Sig,
    /// A [`Class`].
    pub class: Sig,
    /// The flow.
    pub flow: Sig,
    /// The first PSN of the packet.
    pub first: Sig,
    /// `base`, after it.
    pub base: Sig,
}

impl Ruling {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Ruling { asked: bits(1), class: bits(2), flow: bits(flow_bits(cfg)), first: bits(24), base: bits(24) }
    }
}

/// An event of the table.
#[derive(Clone, Bundle)]
struct Event {
    starts: Sig,
    asked: Sig,
    claim: Claim,
}

/// A flow.
#[derive(Clone, Bundle)]
struct Row {
    base: Sig,
}

/// Rules on packets; see the page's top.
#[module]
pub fn judge(
    m: &Scope,
    cfg: &RnicConfig,
    starts: Stream<Start>,
    asks: Stream<Claim>,
    packets: Stream<Claim>,
) -> Stream<Ruling> {
    // Rulings that wait, and events that may become some.
    let count_bits = clog2(u64::from(RULINGS) + 1);
    let waiting = m.reg("waiting", count_bits).reset(0);
    let full = m.reg("full", 1).reset(0);
    let (starting, start) = Source::new(m, "starting", starts, lit(1, 0));
    let (asking, ask) = Source::new(m, "asking", asks, full);
    let (passing, packet) = Source::new(m, "passing", packets, full);
    let shape = Shape {
        keys: 2 * cfg.qps,
        row: Row { base: bits(24) },
        stages: 1,
        style: cfg.large(2 * cfg.qps),
        turns: 0,
        first: &|_| Row { base: lit(24, 0) },
    };
    let sources = vec![starting, asking, passing];
    let (rows, at) = Table::begin(m, &shape, sources, &|picked| {
        let claim = m.mux(picked[1], &ask, &packet);
        let flow = picked[0].then(start.flow, claim.flow);
        let first = picked[0].then(start.psn, claim.first);
        let event =
            Event { starts: picked[0], asked: picked[1], claim: Claim { flow, first, ..claim.clone() } };
        (flow, event)
    });
    let acts = rows.valid;
    let Visit { key: flow, row, event, coming } = at;
    m.discard(&(coming, event.claim.flow));
    let Event { starts, asked, claim } = event;
    let beyond = (claim.first - row.base).named("beyond");
    let before = (claim.last - row.base).bit(23).named("before");
    let reached = (beyond.eq(0) | beyond.bit(23)).named("reached");
    let near = !beyond.slice(clog2(REACH.into()), 24 - clog2(REACH.into())).any();
    let next = !before & reached;
    let base = starts.then(claim.first, next.then(claim.last + 1, row.base));
    let late = near.then(lit(2, Class::Ahead.code()), lit(2, Class::Far.code()));
    let on_time = before.then(lit(2, Class::Before.code()), lit(2, Class::Next.code()));
    let class = (before | reached).then(on_time, late);
    let done = rows.end(m, &Verdict { again: lit(1, 0), row: Row { base } });
    m.assert(done.eq(acts), "each event is done at once");
    let ruling = Ruling { asked, class, flow, first: claim.first, base };
    let ruling = Stream::new(m, "ruling", acts & !starts, ruling);
    m.assert(!ruling.valid | ruling.ready, "each ruling has a place");
    let comes = ruling.fire();
    let out = fifo(&m.label("rulings"), RULINGS, ruling);
    let one = |s: Sig| s.zext(count_bits);
    let now = waiting + one(comes) - one(out.fire());
    m.set(&waiting, now);
    m.set(&full, now.ge(RULINGS - UNDER_WAY));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;
    use std::collections::VecDeque;

    const QPS: u32 = 4;
    const CIRCLE: u64 = 1 << 24;

    fn bench() -> (Sim, [Source; 3], [Sink; 1]) {
        let cfg = RnicConfig { qps: QPS, ..RnicConfig::named("generic-64b").unwrap() };
        let netlist = build("bench", |m| {
            let starts = m.stream_in("starts", &Start::of(&cfg));
            let asks = m.stream_in("asks", &Claim::of(&cfg));
            let packets = m.stream_in("packets", &Claim::of(&cfg));
            m.stream_out("rulings", judge(m, &cfg, starts, asks, packets));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        (0..2 * QPS + 4).for_each(|_| sim.tick());
        let claim = Claim::of(&cfg);
        let sources = [
            Source::new("starts", &Start::of(&cfg)),
            Source::new("asks", &claim),
            Source::new("packets", &claim),
        ];
        (sim, sources, [Sink::new("rulings", &Ruling::of(&cfg))])
    }

    fn claim(source: &mut Source, flow: usize, first: u64, last: u64) {
        source.push_values(&[("flow", flow as u128), ("first", first.into()), ("last", last.into())]);
    }

    /// By the words of the contract.
    fn ruled(base: u64, first: u64, last: u64) -> (Class, u64) {
        let is_before = |a: u64, b: u64| b != a && (b + CIRCLE - a) % CIRCLE <= CIRCLE / 2;
        if is_before(last, base) {
            (Class::Before, base)
        } else if first == base || is_before(first, base) {
            (Class::Next, (last + 1) % CIRCLE)
        } else if (first + CIRCLE - base) % CIRCLE < 256 {
            (Class::Ahead, base)
        } else {
            (Class::Far, base)
        }
    }

    #[test]
    fn rulings_are_those_of_the_contract_whatever_comes_when() {
        for (stall, seed) in [(0.0, 1), (0.2, 2), (0.7, 3)] {
            let (mut sim, mut sources, mut sinks) = bench();
            let mut random = Random::new(seed);
            let flows = 2 * QPS as usize;
            // What the model says of each source's events, once the block has said which of them it took.
            let mut bases = vec![0; flows];
            let mut waiting: [VecDeque<(usize, u64, u64)>; 2] = Default::default();
            let (mut seen, mut counts) = (0, [0; 4]);
            for round in 0..30_000 {
                let flow = random.rng.random_range(0..flows);
                let which = random.rng.random_range(0..2);
                if round < 29_000 && sources[1 + which].left() < 3 {
                    let near = [
                        0,
                        0,
                        0,
                        1,
                        2,
                        5,
                        255,
                        256,
                        257,
                        1 << 22,
                        CIRCLE - 1,
                        CIRCLE - 3,
                        1 << 23,
                        (1 << 23) - 1,
                    ];
                    let ahead = near[random.rng.random_range(0..near.len())];
                    let first = (bases[flow] + ahead) % CIRCLE;
                    let last = (first + [0, 0, 1, 3, 300][random.rng.random_range(0..5)]) % CIRCLE;
                    claim(&mut sources[1 + which], flow, first, last);
                    waiting[which].push_back((flow, first, last));
                }
                step(&mut sim, &mut sources, &mut sinks, &mut random, stall);
                for item in &sinks[0].items[seen..] {
                    let asked = item["asked"].to_u64() == 1;
                    let (flow, first, last) = waiting[usize::from(!asked)].pop_front().expect("it was asked");
                    let (class, base) = ruled(bases[flow], first, last);
                    bases[flow] = base;
                    counts[class as usize] += 1;
                    let got = ["class", "flow", "first", "base"].map(|field| item[field].to_u64());
                    assert_eq!(got, [class.code().into(), flow as u64, first, base], "seed {seed}");
                }
                seen = sinks[0].items.len();
            }
            assert!(waiting.iter().all(VecDeque::is_empty), "seed {seed}");
            assert!(counts.iter().all(|count| *count > 300), "seed {seed}: {counts:?}");
        }
    }

    #[test]
    fn a_flow_starts_where_it_is_told_to_though_nobody_takes_rulings() {
        let (mut sim, mut sources, mut sinks) = bench();
        let mut random = Random::new(1);
        for n in 0..100 {
            claim(&mut sources[2], 1, n, n);
        }
        let psn = CIRCLE - 1;
        for flow in 0..4 {
            sources[0].push_values(&[("flow", flow), ("psn", psn.into())]);
        }
        // No ruling leaves.
        (0..200).for_each(|_| step(&mut sim, &mut sources, &mut sinks[..0], &mut random, 0.0));
        assert_eq!(sources[0].left(), 0);
        while sinks[0].items.len() < 100 {
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
        }
        let classes = sinks[0].values("class");
        // Those that came before the start are the next ones; one is missing after it.
        assert!(classes.iter().any(|class| *class == u64::from(Class::Ahead.code())), "{classes:?}");
        claim(&mut sources[2], 2, psn, psn);
        claim(&mut sources[2], 2, 0, 0);
        while sinks[0].items.len() < 102 {
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
        }
        assert_eq!(sinks[0].values("class")[100..], [Class::Next.code().into(); 2]);
        assert_eq!(sinks[0].values("base")[100..], [0, 1]);
    }

    #[test]
    fn packets_of_one_flow_pass_in_successive_cycles() {
        let (mut sim, mut sources, mut sinks) = bench();
        let mut random = Random::new(1);
        (0..200).for_each(|psn| claim(&mut sources[2], 3, psn, psn));
        while sinks[0].items.len() < 200 {
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
        }
        let cycles = &sinks[0].cycles;
        assert_eq!(cycles[199] - cycles[0], 199);
        assert_eq!(cycles[0] - sources[2].cycles[0], LATENCY.into());
        assert!(sinks[0].values("class").iter().all(|class| *class == u64::from(Class::Next.code())));
    }
}
