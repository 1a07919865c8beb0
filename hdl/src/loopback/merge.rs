// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames of the wire and of the loop in turn, before the parser.
//!
//! ```text
//!  wire ------>|\
//!              | >----> frame, looped
//!  loop ------>|/
//!     roomy ----^       loop waits for room ----> claims
//! ```
//!
//! One frame each where both have one that waits. A looped frame begins only while the receive buffer is `roomy`: it has room for the largest frame and for all that is
//! between here and its level. So no looped frame is dropped there. One that has waited for [`PATIENCE`] cycles `claims` that room: frames of the wire that would
//! take it are dropped as in a buffer that is smaller by it. Nothing claims while no frame loops.
//!
//! **Latency:** 0, for the wire one multiplexer. **Throughput:** a beat a cycle, no cycle between frames. `ready` of the inputs follows that of the output in the same
//! cycle; inputs and output have registers on their other side. **Reset:** between frames.

use super::largest;
use crate::config::RnicConfig;
use crate::stream::Beat;
use ferrowire_rtl::{clog2, module, Interface, Scope, Sig, Stream};

/// Beats between here and the level of the receive buffer, and in the cycles until that is known here.
pub const SLACK: u32 = 16;
/// Cycles that a frame waits before it claims room: more than a beat before it is on its way to the buffer.
pub const PATIENCE: u32 = 64;

/// Beats that the receive buffer must have free when a looped frame begins.
pub fn least_room(cfg: &RnicConfig) -> u32 {
    largest(cfg) + SLACK
}

/// What comes out.
#[derive(Interface)]
pub struct Merged {
    /// Frames.
    pub frame: Stream<Beat>,
    /// With each beat: it is of a looped frame.
    pub looped: Sig,
    /// Room is to be kept free for a looped frame.
    pub claims: Sig,
}

/// Takes turns; see the page's top.
#[module]
pub fn merge(m: &Scope, wire: Stream<Beat>, looped: Stream<Beat>, roomy: Sig) -> Merged {
    // The frame or the offer under way, and whose it is.
    let busy = m.reg("busy", 1).reset(0);
    let holder = m.reg("holder", 1).reset(0);
    // The loop was served last.
    let served = m.reg("served", 1).reset(0);
    // The wire has an offer from a cycle before: whether one comes in this cycle is no part of the choice.
    let wire_waits = m.reg("wire_waits", 1).reset(0);
    m.set(&wire_waits, wire.valid & !wire.ready);
    let may = looped.valid & roomy & !(wire_waits & served);
    let pick = busy.then(holder, may).named("pick");
    let beat = m.mux(pick, &looped.payload, &wire.payload);
    let frame = Stream::new(m, "frame", pick.then(looped.valid, wire.valid), beat);
    wire.accept(frame.ready & !pick);
    looped.accept(frame.ready & pick);
    m.when(frame.valid, |m| {
        m.set(&busy, !(frame.ready & frame.last));
        m.set(&holder, pick);
        m.set(&served, pick);
    });
    let waited = m.reg("waited", clog2(u64::from(PATIENCE))).reset(0);
    let waits = looped.valid & !roomy & !(busy & holder);
    m.when(!waits, |m| m.set(&waited, 0)).otherwise_when(!waited.all(), |m| m.set(&waited, waited + 1));
    let claims = m.reg("claims", 1).reset(0);
    m.set(&claims, waits & waited.all());
    Merged { frame, looped: pick, claims }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    struct Bench {
        sim: Sim,
        sources: [Source; 2],
        sinks: [Sink; 1],
        /// Whether the frames that began looped.
        began: Vec<bool>,
        inside: bool,
    }

    fn bench(beat_bytes: u32) -> Bench {
        let shape = Beat::of(beat_bytes);
        let netlist = build("bench", |m| {
            let (wire, looped) = (m.stream_in("wire", &shape), m.stream_in("loop", &shape));
            let merged = merge(m, wire, looped, m.input("roomy", 1));
            m.output("looped", &merged.looped);
            m.output("claims", &merged.claims);
            m.stream_out("frame", merged.frame);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources = [Source::new("wire", &shape), Source::new("loop", &shape)];
        Bench { sim, sources, sinks: [Sink::new("frame", &shape)], began: Vec::new(), inside: false }
    }

    impl Bench {
        /// A cycle with this room; a looped frame begins only with it.
        fn step(&mut self, roomy: bool, random: &mut Random, stall: f64) {
            self.sim.set("roomy", roomy.into());
            let before = self.sinks[0].items.len();
            step(&mut self.sim, &mut self.sources, &mut self.sinks, random, stall);
            if self.sinks[0].items.len() > before {
                let beat = &self.sinks[0].items[before];
                if !self.inside {
                    // The first byte of a frame says where it comes from.
                    self.began.push(beat["data"].to_bytes()[0] == 1);
                }
                self.inside = beat["last"].is_zero();
            }
        }
    }

    fn frame(looped: bool, number: usize, bytes: usize) -> Vec<u8> {
        let mut frame = vec![number as u8; bytes];
        frame[0] = looped.into();
        frame[1] = (number >> 8) as u8;
        frame
    }

    #[test]
    fn both_keep_their_order_and_no_frame_is_mixed_with_another_under_random_stalls() {
        for beat_bytes in [8, 16, 32, 64] {
            for (seed, stall) in [(1, 0.0), (2, 0.3), (3, 0.7)] {
                let mut bench = bench(beat_bytes);
                let mut random = Random::new(seed);
                let mut sent = [Vec::new(), Vec::new()];
                for number in 0..200 {
                    for (i, sent) in sent.iter_mut().enumerate() {
                        let frame = frame(i == 1, number, random.rng.random_range(14..300));
                        bench.sources[i].push_frame(&frame);
                        sent.push(frame);
                    }
                }
                for _ in 0..100_000 {
                    if bench.sinks[0].frames_seen() == 400 {
                        break;
                    }
                    let roomy = random.chance(0.5);
                    bench.step(roomy, &mut random, stall);
                }
                let came = bench.sinks[0].frames();
                let of = |looped: u8| came.iter().filter(|f| f[0] == looped).cloned().collect::<Vec<_>>();
                assert!(of(0) == sent[0] && of(1) == sent[1], "seed {}: {}", random.seed, came.len());
            }
        }
    }

    #[test]
    fn frames_take_turns_and_no_cycle_is_lost() {
        for beat_bytes in [8, 64] {
            let mut bench = bench(beat_bytes);
            let mut random = Random::new(4);
            for number in 0..50 {
                bench.sources[0].push_frame(&frame(false, number, 200));
                bench.sources[1].push_frame(&frame(true, number, 100));
            }
            let beats = bench.sources.iter().map(Source::left).sum::<usize>() as u64;
            (0..beats + 4).for_each(|_| bench.step(true, &mut random, 0.0));
            let cycles = &bench.sinks[0].cycles;
            assert_eq!(cycles[cycles.len() - 1] - cycles[0], beats - 1, "{beat_bytes}");
            assert_eq!(bench.began.len(), 100);
            assert!(bench.began.windows(2).all(|two| two[0] != two[1]), "{:?}", bench.began);
        }
    }

    #[test]
    fn a_looped_frame_waits_for_room_which_it_claims_while_the_wire_goes_on() {
        let mut bench = bench(64);
        let mut random = Random::new(5);
        bench.sources[1].push_frame(&frame(true, 0, 300));
        (0..500).for_each(|number| bench.sources[0].push_frame(&frame(false, number, 64)));
        for cycle in 0..2 * PATIENCE {
            bench.step(false, &mut random, 0.0);
            assert!(!bench.began.contains(&true), "cycle {cycle}");
            assert!(cycle < PATIENCE + 2 || bench.sim.get("claims") == 1, "cycle {cycle}");
        }
        assert!(bench.began.len() as u32 > 2 * PATIENCE - 4, "the wire waited: {}", bench.began.len());
        (0..3).for_each(|_| bench.step(true, &mut random, 0.0));
        assert_eq!(bench.sim.get("claims"), 0);
        // Begun, it goes on whatever the room.
        (0..10).for_each(|_| bench.step(false, &mut random, 0.0));
        assert!(bench.sinks[0].frames().contains(&frame(true, 0, 300)));
    }

    #[test]
    fn the_wire_passes_in_the_cycle_in_which_it_comes() {
        let mut bench = bench(8);
        let mut random = Random::new(6);
        (0..20).for_each(|number| bench.sources[0].push_frame(&frame(false, number, 80)));
        (0..210).for_each(|_| bench.step(true, &mut random, 0.0));
        assert_eq!(bench.sources[0].cycles, bench.sinks[0].cycles);
        assert_eq!(bench.sources[0].left(), 0);
    }
}
