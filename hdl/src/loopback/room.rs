// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the free beats of the loop's ring, and says which looped packets may be sent.
//!
//! ```text
//!  packet passes its gate, cut begins a response --> - reserved --> [ free of requests ] --> may_request --> gate of requests
//!  frame has left the ring, or will not come ------> + reserved --> [ free of answers  ] --> may_answer ---> gates of ACKs and CNPs, cut
//! ```
//!
//! Each half of the ring is for one class, so requests that fill theirs leave the answers' alone. A class is open while the largest packet finds room; the
//! flag is three cycles old, because packets that pass are counted from a register: their way here goes through the arbiter. The answers' limit allows for that,
//! [`admit`] lets a looped packet pass in every third cycle, and [`acks`](super::acks::acks) one in every second.
//!
//! **Latency:** gates 0. **Reset:** the ring is free. **Bad input:** more returned than reserved fails an assertion.

use super::{beat_bits, beats, largest, nothing, reserved, small_report, smallest};
use crate::config::RnicConfig;
use crate::types::TxPacket;
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Interface, Scope, Sig, Stream};

/// Beats that a looped frame gives back.
#[derive(Clone, Bundle)]
pub struct Returned {
    /// So many; 0: none.
    pub beats: Sig,
    /// Those of a request.
    pub request: Sig,
}

impl Returned {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Returned { beats: bits(beat_bits(cfg)), request: bits(1) }
    }
}

/// What is reserved and given back in a cycle.
#[derive(Clone, Bundle)]
pub struct Changes {
    /// Beats of the request that passed in the cycle before.
    pub request: Sig,
    /// Beats of the response that begins.
    pub response: Sig,
    /// A CNP that passed in the cycle before, an acknowledgement that passes.
    pub small: [Sig; 2],
    /// Beats of the report that passed in the cycle before.
    pub report: Sig,
    /// A response that will not come.
    pub unspent: Sig,
    /// A frame has left the ring.
    pub left: Returned,
    /// Beats of a raw frame that goes to the wire.
    pub raw: Sig,
}

impl Changes {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        let beats = bits(beat_bits(cfg));
        Changes {
            request: beats,
            response: beats,
            small: [bits(1); 2],
            report: beats,
            unspent: beats,
            left: Returned::of(cfg),
            raw: beats,
        }
    }
}

/// Who may send.
#[derive(Interface)]
pub struct Room {
    /// A request.
    pub may_request: Sig,
    /// An answer.
    pub may_answer: Sig,
}

/// Counts; see the page's top.
#[module]
pub fn room(m: &Scope, cfg: &RnicConfig, changes: Changes) -> Room {
    let (width, half) = (beat_bits(cfg), beats(cfg) / 2);
    let only = |there: Sig, value: Sig| value & there.repeat(width);
    let response = m.delay_zero("response", &changes.response);
    let unspent = m.delay_zero("unspent", &changes.unspent);
    let [notice, ack] = [changes.small[0], m.delay_zero("small", &changes.small[1])]
        .map(|small| only(small, lit(width, smallest(cfg))));
    let small = notice + ack;
    let left = &changes.left;
    let requests = m.reg("requests", width).reset(half);
    m.set(&requests, requests - changes.request + changes.raw + only(left.request, left.beats));
    let answers = m.reg("answers", width).reset(half);
    m.set(&answers, answers - response - small - changes.report + unspent + only(!left.request, left.beats));
    m.assert(requests.le(half) & answers.le(half), "no more comes back to the loop's ring than was reserved");
    // Small ones may pass for three cycles more.
    let reports = if cfg.selective { 2 * small_report(cfg) } else { 0 };
    let least = largest(cfg) + 6 * smallest(cfg) + reports;
    Room {
        may_request: m.delay("may_request", &requests.ge(largest(cfg))),
        may_answer: m.delay("may_answer", &answers.ge(least)),
    }
}

/// A packet's way through its gate.
#[derive(Interface)]
pub struct Gated {
    /// The packets.
    pub packets: Stream<TxPacket>,
    /// One that loops passed in the cycle before.
    pub passed: Sig,
    /// Its beats, which are reserved; 0: none.
    pub reserves: Sig,
}

/// Holds looped packets back until they may pass; others pass at once.
#[module]
pub fn admit(m: &Scope, cfg: &RnicConfig, may: Sig, packets: Stream<TxPacket>) -> Gated {
    // The flag does not know of the last one yet, for two cycles.
    let recent = m.reg("recent", 2).reset(0);
    // An offer stands.
    let offered = m.reg("offered", 1).reset(0);
    let open = !packets.loops | offered | (may & !recent.any());
    let out = Stream::new(m, "out", packets.valid & open, packets.payload.clone());
    packets.accept(out.ready & open);
    m.set(&offered, out.valid & !out.ready);
    let passes = out.fire() & out.loops;
    m.set(&recent, cat([&passes, &recent.trunc(1)]));
    // Whether it passes is known late: of how many beats is known all the time.
    let passed = recent.bit(0);
    let beats = m.delay("beats", &reserved(cfg, out.payload_bytes));
    Gated { packets: out, passed, reserves: passed.then(beats, nothing(cfg)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;
    use std::collections::VecDeque;

    /// A gate for requests, a gate for CNPs, and a block that begins responses as `cut` does.
    struct Bench {
        cfg: RnicConfig,
        sim: Sim,
        sources: [Source; 2],
        sinks: [Sink; 2],
        /// Frames in the ring: beats, whether of a request.
        ring: VecDeque<(u64, bool)>,
        /// Cycles until the next response may begin.
        pause: u32,
    }

    impl Bench {
        fn new(name: &str) -> Bench {
            let cfg = RnicConfig::named(name).unwrap();
            let netlist = build("bench", |m| {
                let mut changes = m.input_of("changes", &Changes::of(&cfg));
                let given = m.wire_of("given", &Changes::of(&cfg));
                m.discard(&(changes.request, changes.small[0], changes.report));
                changes.report = nothing(&cfg);
                let room = room(m, &cfg, given.clone());
                let packets = |name: &str| m.stream_in(name, &TxPacket::of(&cfg));
                let requests = admit(&m.label("requests"), &cfg, room.may_request, packets("request"));
                let cnps = admit(&m.label("cnps"), &cfg, room.may_answer, packets("cnp"));
                changes.request = requests.reserves;
                changes.small[0] = cnps.passed;
                m.set_all(&given, &changes);
                m.output("may_answer", &room.may_answer);
                m.stream_out("request_out", requests.packets);
                m.stream_out("cnp_out", cnps.packets);
            });
            let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
            sim.reset();
            let shape = TxPacket::of(&cfg);
            Bench {
                sim,
                sources: ["request", "cnp"].map(|name| Source::new(name, &shape)),
                sinks: ["request_out", "cnp_out"].map(|name| Sink::new(name, &shape)),
                ring: VecDeque::new(),
                pause: 0,
                cfg,
            }
        }

        fn beats(&self, bytes: u64) -> u64 {
            (bytes + u64::from(AROUND_OF_TEST)).div_ceil(self.cfg.beat_bytes.into())
        }

        fn held(&self, request: bool) -> u64 {
            self.ring.iter().filter(|frame| frame.1 == request).map(|frame| frame.0).sum()
        }

        fn step(&mut self, random: &mut Random, drains: f64, stall: f64) {
            let mut left = (0, false);
            if random.chance(drains) {
                left = self.ring.pop_front().unwrap_or(left);
            }
            self.sim.set("changes_left_beats", left.0);
            self.sim.set("changes_left_request", left.1.into());
            // A response begins on what was known a cycle before.
            let begins = self.pause == 0 && self.sim.get("may_answer") == 1 && random.chance(0.3);
            let bytes = random.rng.random_range(0..=4096);
            let beats = if begins { self.beats(bytes) } else { 0 };
            self.sim.set("changes_response", beats);
            if begins {
                self.ring.push_back((beats, false));
            }
            self.pause = if begins { 2 } else { self.pause.saturating_sub(1) };
            let before = [0, 1].map(|i| self.sinks[i].items.len());
            step(&mut self.sim, &mut self.sources, &mut self.sinks, random, stall);
            for i in [0, 1] {
                if let Some(packet) = self.sinks[i].items.get(before[i]) {
                    if !packet["loops"].is_zero() {
                        let beats = self.beats(packet["payload_bytes"].to_u64());
                        self.ring.push_back((beats, i == 0));
                    }
                }
            }
            let half = u64::from(beats_of(&self.cfg) / 2);
            assert!(self.held(true) <= half && self.held(false) <= half, "seed {}", random.seed);
        }
    }

    const AROUND_OF_TEST: u32 = 14 + 4 + 40 + 8 + 12 + 28 + 4 + 3;

    fn beats_of(cfg: &RnicConfig) -> u32 {
        crate::loopback::beats(cfg)
    }

    #[test]
    fn no_half_of_the_ring_is_ever_overfull_and_all_pass_in_order() {
        for (seed, name) in [(1, "generic-8b"), (2, "generic-64b"), (3, "generic-64b")] {
            let mut bench = Bench::new(name);
            let mut random = Random::new(seed);
            for psn in 0..600u128 {
                let loops = u128::from(random.chance(0.8));
                let bytes = [0, 64, 1024, 4096][random.rng.random_range(0..4)];
                bench.sources[0].push_values(&[("psn", psn), ("payload_bytes", bytes), ("loops", loops)]);
                bench.sources[1].push_values(&[("psn", psn), ("loops", loops)]);
            }
            let mut drains = 0.5;
            for cycle in 0..400_000 {
                if bench.sources.iter().all(|source| source.left() == 0) {
                    break;
                }
                if cycle % 500 == 0 {
                    drains = [0.0, 0.02, 0.5, 1.0][random.rng.random_range(0..4)];
                }
                bench.step(&mut random, drains, 0.2);
            }
            (0..3000).for_each(|_| bench.step(&mut random, 1.0, 0.0));
            for sink in &bench.sinks {
                assert!(sink.values("psn").into_iter().eq(0..600), "seed {}: {name}", random.seed);
            }
        }
    }

    #[test]
    fn what_goes_to_the_wire_passes_in_its_cycle_however_full_the_ring_is() {
        let mut bench = Bench::new("generic-64b");
        let mut random = Random::new(4);
        for psn in 0..50 {
            bench.sources[0].push_values(&[("psn", psn), ("payload_bytes", 4096), ("loops", 1)]);
        }
        (0..200).for_each(|_| bench.step(&mut random, 0.0, 0.0));
        assert!(bench.sources[0].left() > 40, "the ring holds {}", 50 - bench.sources[0].left());
        let mut bench = Bench::new("generic-64b");
        for psn in 0..50 {
            bench.sources[0].push_values(&[("psn", psn), ("payload_bytes", 4096)]);
        }
        (0..60).for_each(|_| bench.step(&mut random, 0.0, 0.0));
        assert_eq!(bench.sources[0].cycles, bench.sinks[0].cycles);
        assert_eq!(bench.sinks[0].cycles[49] - bench.sinks[0].cycles[0], 49);
    }
}
