// SPDX-License-Identifier: MIT OR Apache-2.0
//! The notification point: for whom a CNP is to be sent when a packet came in that a switch has marked (IBTA A17.9.3).
//!
//! ```text
//!  marked --+--> read: quiet? --> decide --+--> gather --> CNPs to send
//!           |                       ^  |   |
//!           +--- time is over <---- line of the quiet QPs, a due time each
//! ```
//!
//! A marked packet of a QP that is not quiet asks for a CNP and makes its QP quiet; those of a quiet QP ask for nothing. The
//! interval is the same for all, so the quiet QPs stand in the order in which their time is over: the line's head is all that
//! is looked at. Two CNPs of a QP are asked for at least `interval_us` - 1 microseconds apart, and at most `interval_us` and some
//! cycles when packets keep being marked. A shorter interval holds from the next CNPs on.
//!
//! One packet a cycle. A CNP follows its packet after 6 cycles, after 7 with more than 64 QPs, and after 8 with many. In the first `qps`
//! cycles after reset, in which all QPs become loud, `marked` may wait; after that it never does. CNPs that are not taken merge into one
//! a QP. Reset forgets which QPs were quiet.

use crate::config::RnicConfig;
use crate::stream::{deep_fifo, gather, Flagged, Forget};
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Scope, Sig, Stream, Style};

/// A quiet QP.
#[derive(Clone, Bundle)]
struct Quiet {
    qp: Sig,
    due: Sig,
}

/// Bits of a time in microseconds: intervals are less than half of what they count.
const TIME: u32 = 16;

/// Chooses for whom to send a CNP. `marked`: the QPs of the packets that came marked; `microsecond` pulses once in one.
#[module]
pub fn notify(
    m: &Scope,
    cfg: &RnicConfig,
    marked: Stream<Sig>,
    interval_us: Sig,
    microsecond: Sig,
) -> Stream<Sig> {
    let qp_bits = cfg.qp_bits();
    let now = m.reg("now", TIME).reset(0);
    m.when(microsecond, |m| m.set(&now, now + 1));
    let quiet = m.mem("quiet", cfg.qps, &bits(1)).style(Style::Block).build();

    let pushes = m.wire("pushes", 1);
    let pushed = m.wire_of("pushed", &Quiet { qp: bits(qp_bits), due: bits(TIME) });
    let line = Stream::new(m, "line", pushes, pushed.clone());
    m.assert(!pushes | line.ready, "a QP is quiet once");
    let line = deep_fifo(m, cfg.qps, line);

    // After reset every row is made loud.
    let clearing = m.reg("clearing", 1).reset(1);
    let row = m.reg("row", qp_bits).reset(0);
    m.when(clearing, |m| m.set(&row, row + 1));
    m.when(row.all(), |m| m.set(&clearing, 0));

    // One QP in a cycle: cleared, marked, or loud again.
    let over = !(now - line.due).msb();
    let ends = line.valid & over & !clearing & !marked.valid;
    marked.accept(!clearing);
    line.accept(over & !clearing & !marked.valid);
    let at = clearing.then(row, marked.valid.then(marked.payload, line.qp));
    let asks = m.reg("asks", 1).reset(0);
    let loud = m.reg("loud", 1).reset(0);
    let qp = m.delay("qp", &at);
    m.set(&asks, marked.fire());
    m.set(&loud, clearing | ends);
    let told = m.wire("told", 1);
    quiet.write(told | loud, qp, &told);
    let was_quiet = quiet.read(m, lit(1, 1), at, Collision::New);
    m.drive(&told, asks & !was_quiet);
    m.drive(&pushes, told);
    m.drive(&pushed, &Quiet { qp, due: now + interval_us.zext(TIME) });

    // Whether it was quiet comes from block RAM: it is gathered a cycle later.
    let tells = m.reg("tells", 1).reset(0);
    m.set(&tells, told);
    let cnp = Stream::new(m, "cnp", tells, Flagged { row: m.delay("told_qp", &qp), flags: lit(1, 1) });
    m.assert(!tells | cnp.ready, "who gathers waits for nobody");
    gather(m, cfg.qps, cnp, Forget::nothing(cfg.qps)).map(|cnp| cnp.row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    const CYCLES: u64 = 10;

    struct Bench {
        sim: Sim,
        source: [Source; 1],
        sink: [Sink; 1],
        random: Random,
    }

    fn bench(interval: u64, seed: u64) -> Bench {
        let cfg = RnicConfig::named("generic-8b").unwrap();
        let qp = bits(cfg.qp_bits());
        let netlist = build("top", |m| {
            let marked = m.stream_in("marked", &qp);
            let cnps = notify(m, &cfg, marked, m.input("interval", 15), m.input("microsecond", 1));
            m.stream_out("cnps", cnps);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        sim.set("interval", interval);
        (0..cfg.qps).for_each(|_| sim.tick());
        Bench {
            sim,
            source: [Source::new("marked", &qp)],
            sink: [Sink::new("cnps", &qp)],
            random: Random::new(seed),
        }
    }

    impl Bench {
        fn step(&mut self) {
            let now = self.sim.cycles();
            self.sim.set("microsecond", u64::from(now % CYCLES == 0));
            step(&mut self.sim, &mut self.source, &mut self.sink, &mut self.random, 0.0);
        }
    }

    #[test]
    fn a_queue_pair_is_told_once_in_an_interval() {
        for (interval, often) in [(5, 0.5), (50, 1.0), (50, 0.02), (0, 0.3)] {
            let mut bench = bench(interval, 61);
            let mut marks = Vec::new();
            for _ in 0..20_000 {
                if bench.random.chance(often) {
                    let qp = bench.random.rng.random_range(0..4u64);
                    marks.push((bench.sim.cycles(), qp));
                    bench.source[0].push_values(&[("", qp.into())]);
                }
                bench.step();
                assert_eq!(bench.source[0].left(), 0, "a packet waited");
            }
            (0..20).for_each(|_| bench.step());
            let sink = &bench.sink[0];
            for qp in 0..4 {
                let told = sink.values("").into_iter().zip(&sink.cycles).filter(|t| t.0 == qp).map(|t| *t.1);
                let told: Vec<u64> = told.collect();
                let marks: Vec<u64> = marks.iter().filter(|mark| mark.1 == qp).map(|mark| mark.0).collect();
                // The gatherer may hold one back while packets keep it busy.
                let (least, most) = ((interval.max(1) - 1) * CYCLES, interval * CYCLES + 40);
                if often < 0.6 {
                    assert!(told.windows(2).all(|w| w[1] - w[0] + 30 > least), "QP {qp}: {told:?}");
                    for pair in told.windows(2) {
                        let first = marks.iter().find(|mark| **mark > pair[0] + most).unwrap_or(&u64::MAX);
                        assert!(pair[1] <= first.saturating_add(40), "QP {qp}: {pair:?}, {first}");
                    }
                }
                let rounds = 20_000 / (interval.max(1) * CYCLES);
                assert!(told.len() as u64 <= rounds + 1 || interval == 0, "QP {qp}: {} CNPs", told.len());
                assert!(!told.is_empty() && told[0] >= marks[0], "QP {qp}");
            }
        }
    }

    #[test]
    fn cnps_that_nobody_takes_merge_and_marks_do_not_wait() {
        let mut bench = bench(2, 62);
        bench.sink[0].stall = Some(1.0);
        for i in 0..5000 {
            bench.source[0].push_values(&[("", i % 16)]);
            bench.step();
            assert_eq!(bench.source[0].left(), 0);
        }
        bench.sink[0].stall = None;
        (0..200).for_each(|_| bench.step());
        // One on offer, and one more of each.
        assert!((16..=17).contains(&bench.sink[0].items.len()), "{}", bench.sink[0].items.len());
    }

    #[test]
    fn a_cnp_comes_six_cycles_after_its_packet() {
        let mut bench = bench(50, 63);
        bench.source[0].push_values(&[("", 3)]);
        (0..20).for_each(|_| bench.step());
        assert_eq!(bench.sink[0].cycles[0] - bench.source[0].cycles[0], 5);
    }
}
