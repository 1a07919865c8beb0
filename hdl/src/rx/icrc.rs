// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the ICRC of what comes from the wire: frames pass unchanged, a verdict follows each.
//!
//! ```text
//!  frame --> room? --+--> reg ----------------------------------------------> out
//!                    |
//!                    +--> mask --> icrc_core --> = residue? --> FIFO, 32 --> verdict
//!                         3        3             1
//! ```
//!
//! The ICRC itself runs through the CRC, so that a right packet leaves a constant behind; which one depends on how
//! many zeros fill its last beat, and is looked up. No matrix has to be undone. Both are roots of the state, of as many bits as a beat has, so that
//! a beat moves the root by one bit.
//!
//! One beat a cycle. Latency 1 for beats; a verdict is on offer [`VERDICT_LATENCY`] cycles after the last beat was
//! taken. Verdicts keep the order of the frames. At most [`VERDICTS`] frames may have passed whose verdict has not
//! been taken; then beats wait. The consumer must therefore not let a verdict wait for a beat of a later frame. There is a
//! path of one gate from the beats' `ready` to `frame`'s, and none from the verdicts'.
//!
//! Bad input: every frame, of any length and content, gets exactly one verdict. It is not `ok` for what is neither
//! IPv4 nor IPv6, with or without one 802.1Q tag; for a frame that ends before its IP length says; for one too short
//! for UDP, BTH and ICRC. Ethernet padding behind the packet is ignored. Whether an IP packet is RoCE at all is for
//! the parser to say: without it the verdict means nothing.

use crate::config::RnicConfig;
use crate::icrc::{icrc_core, mask, residue_after, Matrix, PacketEnd, CORE_LATENCY, MASK_LATENCY_IP};
use crate::stream::{fifo, forward, Beat};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Scope, Sig, Stream};

/// Frames that may wait for their verdict to be taken.
pub const VERDICTS: u32 = 32;

/// Cycles from the last beat of a frame to the offer of its verdict.
pub const VERDICT_LATENCY: u32 = MASK_LATENCY_IP + CORE_LATENCY + 2;

/// What the check of a frame found.
#[derive(Clone, Bundle)]
pub struct Verdict {
    /// The frame is an IP packet with a right ICRC.
    pub ok: Sig,
}

impl Verdict {
    /// The shape.
    pub fn of() -> Verdict {
        Verdict { ok: bits(1) }
    }
}

/// Passes frames on and gives a verdict for each.
#[module]
pub fn check(m: &Scope, cfg: &RnicConfig, frame: Stream<Beat>) -> (Stream<Beat>, Stream<Verdict>) {
    // Frames that passed and whose verdict has not been taken.
    let waiting = m.reg("waiting", clog2(u64::from(VERDICTS) + 1)).reset(0);
    let all_wait = m.reg("all_wait", 1).reset(0);
    let frame = frame.gate(m, !all_wait);
    let passes = frame.fire();
    let beat = frame.payload.clone();
    let out = forward(m, frame);

    let (masked, covered) = mask(m, PacketEnd::IpLength, passes, beat.clone());
    let root = (8 * cfg.beat_bytes).ilog2();
    let end = icrc_core(m, root, masked, covered);
    let residues = (0..cfg.beat_bytes).map(|n| lit(32, Matrix::root(root).apply(residue_after(n))));
    let residues: Vec<Sig> = residues.collect();
    let difference = m.delay("difference", &(end.state ^ m.select(end.tag.empty, &residues)));
    let whole = m.delay("whole", &end.tag.whole);
    let judged_valid = m.reg("judged_valid", 1).reset(0);
    m.set(&judged_valid, end.valid);

    let judged = Stream::new(m, "judged", judged_valid, Verdict { ok: whole & !difference.any() });
    m.assert(!judged.valid | judged.ready, "a verdict finds room");
    let verdict = fifo(m, VERDICTS, judged);

    let enters = passes & beat.last;
    let leaves = verdict.fire();
    m.when(enters & !leaves, |m| m.set(&waiting, waiting + 1))
        .otherwise_when(leaves & !enters, |m| m.set(&waiting, waiting - 1));
    m.set(&all_wait, !leaves & (all_wait | (enters & waiting.eq(VERDICTS - 1))));
    m.assert(all_wait.eq(waiting.eq(VERDICTS)), "the flag tells of the count");
    (out, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icrc::sample::{self, Kind};
    use crate::testing::{run, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use ferrowire_spec::wire::icrc;
    use rand::Rng;

    const WIDTHS: [u32; 4] = [8, 16, 32, 64];

    struct Bench {
        sim: Sim,
        source: [Source; 1],
        sinks: [Sink; 2],
    }

    fn bench(beat_bytes: u32) -> Bench {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-64b").unwrap() };
        let shape = Beat::of(beat_bytes);
        let netlist = build("top", |m| {
            let (out, verdict) = check(m, &cfg, m.stream_in("frame", &shape));
            m.stream_out("out", out);
            m.stream_out("verdict", verdict);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sinks = [Sink::new("out", &shape), Sink::new("verdict", &Verdict::of())];
        Bench { sim, source: [Source::new("frame", &shape)], sinks }
    }

    impl Bench {
        /// Sends the frames, checks that they pass and gives the verdicts.
        fn send(&mut self, frames: &[Vec<u8>], random: &mut Random, stall: f64) -> Vec<bool> {
            let beats: usize = frames.iter().map(|f| f.len().div_ceil(8)).sum();
            frames.iter().for_each(|frame| self.source[0].push_frame(frame));
            self.sinks.iter_mut().for_each(Sink::clear);
            let n = frames.len();
            run(
                &mut self.sim,
                &mut self.source,
                &mut self.sinks,
                random,
                stall,
                20 * beats as u64 + 1000,
                |s| s[0].frames_seen() >= n && s[1].items.len() >= n,
            );
            for _ in 0..20 {
                crate::testing::step(&mut self.sim, &mut self.source, &mut self.sinks, random, stall);
            }
            assert_eq!(self.sinks[0].frames(), frames, "seed {}", random.seed);
            assert_eq!(self.sinks[1].items.len(), n, "seed {}: one verdict a frame", random.seed);
            self.sinks[1].values("ok").into_iter().map(|ok| ok == 1).collect()
        }
    }

    /// What the specification says of an unpadded frame.
    fn right(frame: &[u8]) -> bool {
        icrc::check(&frame[sample::l3(frame)..]).is_ok()
    }

    #[test]
    fn icrc_golden_frames_are_judged_as_the_specification_says() {
        let golden = sample::golden();
        let frames: Vec<Vec<u8>> = golden.iter().map(|(_, frame)| frame.clone()).collect();
        let want: Vec<bool> = frames.iter().map(|frame| right(frame)).collect();
        assert_eq!(want.iter().filter(|ok| !**ok).count(), 1, "one frame was corrupted on purpose");
        for beat_bytes in WIDTHS {
            let mut random = Random::new(u64::from(beat_bytes));
            let got = bench(beat_bytes).send(&frames, &mut random, 0.0);
            for (((name, _), got), want) in golden.iter().zip(got).zip(&want) {
                assert_eq!(got, *want, "{name} at {beat_bytes} bytes a beat");
            }
        }
    }

    /// A frame and whether its ICRC should be found right.
    fn any_frame(random: &mut Random) -> (Vec<u8>, bool) {
        let mut frame = sample::any(random);
        let l3 = sample::l3(&frame);
        match random.rng.random_range(0..10) {
            // One bit wrong somewhere behind the IP version and lengths.
            0 | 1 => {
                let from = 8 * (l3 + 8);
                let bit = random.rng.random_range(from..8 * frame.len());
                frame[bit / 8] ^= 1 << (bit % 8);
                let ok = right(&frame);
                (frame, ok)
            }
            // Padding.
            2 | 3 => {
                let n = random.rng.random_range(1..100);
                frame.extend(random.bytes(n));
                (frame, true)
            }
            // Cut off.
            4 => {
                let n = random.rng.random_range(1..frame.len());
                frame.truncate(n);
                (frame, false)
            }
            // A wrong length.
            5 => {
                let at = if frame[l3] >> 4 == 6 { l3 + 4 } else { l3 + 2 };
                let short: bool = random.rng.random();
                let wrong = if short {
                    random.rng.random_range(0..24)
                } else {
                    random.rng.random_range(4000..=65535)
                };
                frame[at..at + 2].copy_from_slice(&u16::to_be_bytes(wrong));
                (frame, false)
            }
            // Not IP.
            6 => {
                frame[l3 - 1] ^= 1;
                (frame, false)
            }
            _ => (frame, true),
        }
    }

    #[test]
    fn icrc_random_frames_get_the_right_verdict_under_random_stalls() {
        for beat_bytes in WIDTHS {
            for seed in 0..4 {
                let mut random = Random::new(100 + seed);
                let (frames, want): (Vec<_>, Vec<_>) = (0..150).map(|_| any_frame(&mut random)).unzip();
                let stall = [0.0, 0.2, 0.5, 0.8][seed as usize];
                let got = bench(beat_bytes).send(&frames, &mut random, stall);
                for (i, frame) in frames.iter().enumerate() {
                    assert_eq!(
                        got[i], want[i],
                        "{beat_bytes} bytes a beat, seed {seed}, frame {i}: {frame:02x?}"
                    );
                }
            }
        }
    }

    #[test]
    fn icrc_every_payload_length_works_with_each_kind_of_header() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(7);
            let mut frames = Vec::new();
            for (ipv6, vlan) in [(false, false), (false, true), (true, false), (true, true)] {
                let bodies = (0..140).chain([4096, 4096 + 28]);
                frames.extend(bodies.map(|body| sample::frame(&mut random, Kind { ipv6, vlan, body })));
            }
            let got = bench(beat_bytes).send(&frames, &mut random, 0.0);
            assert!(got.into_iter().all(|ok| ok));
        }
    }

    #[test]
    fn icrc_runts_get_one_verdict_each_and_do_not_disturb_what_follows() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(8);
            let mut frames = Vec::new();
            for n in 1..80 {
                // A length that the next frame must not take for its own.
                let mut bad =
                    sample::frame(&mut random, Kind { ipv6: n % 2 == 0, vlan: n % 3 == 0, body: 0 });
                let l3 = sample::l3(&bad);
                let end = bad.len().min(l3 + 6);
                bad[l3 + 2..end].fill((n % 5) as u8);
                frames.push(bad);
                frames.push(random.bytes(n));
                frames.push(sample::any(&mut random));
                frames.push(sample::any(&mut random)[..n.min(57)].to_vec());
                frames.push(sample::any(&mut random));
            }
            let got = bench(beat_bytes).send(&frames, &mut random, 0.1);
            for (i, ok) in got.into_iter().enumerate() {
                match i % 5 {
                    2 | 4 => assert!(ok, "frame {i} at {beat_bytes}"),
                    3 => assert!(!ok, "frame {i} at {beat_bytes}"),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn icrc_frames_beyond_any_packet_do_not_confuse_the_count_of_beats() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(12);
            let mut frames = Vec::new();
            // The largest IP packets, and padding until any counter of beats has gone round.
            for (ipv6, vlan, body) in [(false, false, 65535 - 44), (true, true, 65535 - 24), (true, false, 3)]
            {
                let frame = sample::frame(&mut random, Kind { ipv6, vlan, body });
                let mut padded = frame.clone();
                padded.resize(300_000, 0x77);
                frames.extend([frame, padded]);
            }
            let got = bench(beat_bytes).send(&frames, &mut random, 0.0);
            assert!(got.into_iter().all(|ok| ok), "{beat_bytes} bytes a beat");
        }
    }

    #[test]
    fn icrc_check_takes_a_beat_a_cycle_and_answers_at_a_fixed_latency() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(9);
            let frames: Vec<_> = (0..100).map(|_| sample::any(&mut random)).collect();
            let mut bench = bench(beat_bytes);
            bench.send(&frames, &mut random, 0.0);
            let taken = &bench.source[0].cycles;
            let beats: usize = frames.iter().map(|f| f.len().div_ceil(beat_bytes as usize)).sum();
            assert_eq!(taken.len(), beats);
            assert_eq!(taken[beats - 1] - taken[0], beats as u64 - 1);
            assert!(taken.iter().zip(&bench.sinks[0].cycles).all(|(a, b)| a + 1 == *b));
            let mut end = 0;
            for (frame, cycle) in frames.iter().zip(&bench.sinks[1].cycles) {
                end += frame.len().div_ceil(beat_bytes as usize);
                assert_eq!(*cycle, taken[end - 1] + u64::from(VERDICT_LATENCY));
            }
        }
    }

    #[test]
    fn icrc_verdicts_wait_for_a_consumer_that_sleeps() {
        let mut bench = bench(64);
        let mut random = Random::new(10);
        let (frames, want): (Vec<_>, Vec<_>) = (0..200).map(|_| any_frame(&mut random)).unzip();
        bench.sinks[1].stall = Some(0.97);
        assert_eq!(bench.send(&frames, &mut random, 0.0), want);
    }
}
