// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills in the ICRC of what goes to the wire, and keeps frames until they can leave without a gap.
//!
//! ```text
//!  frame --+--> whole-frame buffer, block RAM ---------------------> patch --> reg ---> out
//!          |                                                           ^
//!          +--> mask --> icrc_core --> unpad --> FIFO, 32 --> job -----+
//!          |    2        3             1 or 2               ^
//!          +--> number of beats, empty --------> FIFO, 32 --+
//! ```
//!
//! A frame comes with four zero bytes at its end, where the ICRC belongs; zeros behind a packet are taken back from the
//! CRC together with the empty bytes of the last beat. A frame leaves only when its CRC is known, hence when it is
//! there to its end: once its first beat is on offer, a beat is on offer in every cycle until its last (a MAC must not
//! see a gap). The ICRC may lie in two beats; the frame's length is known from the start, so the beat before the last
//! is patched when it comes.
//!
//! One beat a cycle, frames back to back. The first beat is on offer [`latency`] cycles after the last was taken; no
//! path runs from the consumer's `ready` to `frame`'s. The buffer holds [`BUFFER_BYTES`], at most [`FRAMES`] frames
//! of which not all beats have left.
//!
//! A frame whose last beat is poisoned is forgotten when its turn comes, in one cycle.
//!
//! Bad input: a frame longer than the buffer would never leave; the block asserts that there is none. Frames that are
//! not IP get four bytes that mean nothing.

use super::FrameBeat;
use crate::config::RnicConfig;
use crate::icrc::{icrc_core, mask, unpad, unpad_stages, PacketEnd, CORE_LATENCY, MASK_LATENCY_FRAME};
use crate::stream::{fifo, forward, Beat};
use ferrowire_rtl::{bits, cat, clog2, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::wire::icrc::BYTES;

/// Room for frames: at least two of the largest.
pub const BUFFER_BYTES: u32 = 16384;
/// Frames in the buffer.
pub const FRAMES: u32 = 32;

/// Cycles from the last beat of a frame in to its first beat out, where nothing is in its way.
pub fn latency(beat_bytes: u32) -> u32 {
    // Behind the CRC: its FIFO, the RAM, the register slice.
    MASK_LATENCY_FRAME + CORE_LATENCY + unpad_stages(beat_bytes) + 3
}

/// What comes out.
#[derive(Interface)]
pub struct Appended {
    /// Frames for the MAC.
    pub wire: Stream<Beat>,
    /// The oldest frame is on its way to the wire: it has been read from the buffer to its end.
    pub left: Sig,
    /// The oldest frame was poisoned and is forgotten.
    pub dropped: Sig,
}

/// Where a frame ends.
#[derive(Clone, Bundle)]
struct End {
    /// Number of the last beat, from zero.
    index: Sig,
    /// Empty bytes in it.
    empty: Sig,
    /// It does not leave.
    poisoned: Sig,
}

/// The lanes of the last beat, and of the one before, that hold the ICRC.
fn icrc_lanes(lane_bits: u32, empty: Sig) -> (Sig, Sig) {
    let (lanes, n) = (1u32 << lane_bits, BYTES as u32);
    // The frame's last byte.
    let end = !empty;
    let any = |hits: Vec<Sig>| hits.into_iter().reduce(|a, b| a | b).expect("a lane");
    let last: Vec<Sig> =
        (0..lanes).map(|lane| any((lane..(lane + n).min(lanes)).map(|at| end.eq(at)).collect())).collect();
    let before: Vec<Sig> = (0..lanes)
        .map(|lane| match (lane + n).checked_sub(lanes) {
            None | Some(0) => ferrowire_rtl::lit(1, 0),
            Some(beyond) => end.lt(beyond),
        })
        .collect();
    (cat(&last), cat(&before))
}

/// The ICRC turned so that each byte stands in its lane modulo four.
fn turned(m: &Scope, icrc: Sig, empty: Sig) -> Sig {
    let (bytes, n) = (icrc.chunks(8), BYTES);
    let turns: Vec<Sig> = (0..n)
        .map(|end| cat(&(0..n).map(|lane| bytes[(lane + n - 1 - end) % n]).collect::<Vec<_>>()))
        .collect();
    m.select((!empty).trunc(2), &turns)
}

/// Buffers frames, fills in their ICRC and sends them on without gaps.
#[module]
pub fn append(m: &Scope, cfg: &RnicConfig, frame: Stream<FrameBeat>) -> Appended {
    let beat_bytes = cfg.beat_bytes;
    let lane_bits = cfg.lane_bits();
    let depth = BUFFER_BYTES / beat_bytes;
    let address = clog2(u64::from(depth));

    // In: beats to the buffer and to the CRC.
    let head = m.reg("head", address + 1).reset(0);
    let tail = m.reg("tail", address + 1).reset(0);
    // Frames that came whole and have not left whole.
    let waiting = m.reg("waiting", clog2(u64::from(FRAMES) + 1)).reset(0);
    // Known a cycle before, in which one more beat may come: the way back to who makes the beats is long.
    let full = m.delay("full", &(tail - head).ge(depth - 1));
    let many = m.delay("many", &waiting.ge(FRAMES - 1));
    frame.accept(!full & !many);
    let enters = frame.fire();
    m.assert(!full | waiting.ne(0), "a frame fits into the buffer");
    let store = m.mem("store", depth, &bits(8 * beat_bytes)).style(Style::Block).build();
    store.write(enters, tail.trunc(address), &frame.data);
    let index = m.reg("index", address).reset(0);
    m.when(enters, |m| {
        m.set(&tail, tail + 1);
        m.set(&index, frame.last.then(0, index + 1));
    });

    let ended = Stream::new(
        m,
        "ended",
        enters & frame.last,
        End { index, empty: frame.empty, poisoned: frame.poisoned },
    );
    m.assert(!ended.valid | ended.ready, "a frame's end finds room");
    let end = fifo(m, FRAMES, ended);

    let (masked, covered) = mask(m, PacketEnd::Frame, enters, frame.payload.beat());
    let remainder = icrc_core(m, masked, covered.empty);
    let crc = unpad(m, beat_bytes, BYTES as u32, remainder);
    let sealed = Stream::new(m, "sealed", crc.valid, crc.state);
    m.assert(!sealed.valid | sealed.ready, "a CRC finds room");
    let icrc = fifo(m, FRAMES, sealed);

    // Out: one read a beat, from the moment on that the CRC is there.
    let known = icrc.valid & end.valid;
    let job = known & !end.poisoned;
    // A poisoned frame is forgotten at once.
    let drops = known & end.poisoned;
    m.when(drops, |m| m.set(&head, head + end.index.zext(address + 1) + 1));
    let held = m.reg("held", 1).reset(0);
    let take = m.wire("take", 1);
    let word = store.read(m, take, head.trunc(address), Collision::Never);
    let position = m.reg("position", address).reset(0);
    let is_last = position.eq(end.index);
    let (last_lanes, before_lanes) = icrc_lanes(lane_bits, end.empty);
    let is_before = (position + 1).eq(end.index) & !is_last;

    let last = m.reg("last", 1).no_reset();
    let empty = m.reg("empty", lane_bits).no_reset();
    let lanes = m.reg("lanes", beat_bytes).no_reset();
    let patch = m.reg("patch", 8 * BYTES as u32).no_reset();
    m.when(take, |m| {
        m.set(&head, head + 1);
        m.set(&position, is_last.then(0, position + 1));
        m.set(&held, 1);
        m.set(&last, is_last);
        m.set(&empty, end.empty & is_last.repeat(lane_bits));
        m.set(
            &lanes,
            (last_lanes & is_last.repeat(beat_bytes)) | (before_lanes & is_before.repeat(beat_bytes)),
        );
        m.set(&patch, turned(m, icrc.payload, end.empty));
    });

    let patches = patch.chunks(8);
    let bytes: Vec<Sig> = word
        .chunks(8)
        .into_iter()
        .enumerate()
        .map(|(lane, byte)| lanes.bit(lane as u32).then(patches[lane % BYTES], byte))
        .collect();
    let filled = Stream::new(m, "filled", held, Beat { data: cat(&bytes), last, empty });
    m.when(filled.fire() & !take, |m| m.set(&held, 0));
    m.drive(&take, job & (!held | filled.ready));
    let leaves = (take & is_last) | drops;
    icrc.accept(leaves);
    end.accept(leaves);

    let enters_last = enters & frame.last;
    m.when(enters_last & !leaves, |m| m.set(&waiting, waiting + 1))
        .otherwise_when(leaves & !enters_last, |m| m.set(&waiting, waiting - 1));
    Appended { wire: forward(m, filled), left: take & is_last, dropped: drops }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icrc::sample::{self, Kind};
    use crate::testing::{frames_to_beats, run, Random, Sink, Source};
    use ferrowire_rtl::{build, Bits, Sim};
    use rand::Rng;

    const WIDTHS: [u32; 4] = [8, 16, 32, 64];

    struct Bench {
        sim: Sim,
        source: [Source; 1],
        sink: [Sink; 1],
        beat_bytes: u32,
    }

    fn bench(beat_bytes: u32) -> Bench {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-64b").unwrap() };
        let shape = Beat::of(beat_bytes);
        let netlist = build("top", |m| {
            let out = append(m, &cfg, m.stream_in("frame", &FrameBeat::of(beat_bytes)));
            m.stream_out("out", out.wire);
            // Frames by how they ended.
            for (name, ends) in [("left", out.left), ("dropped", out.dropped)] {
                let count = m.reg(&format!("{name}_count"), 16).reset(0);
                m.set(&count, count + ends.zext(16));
                m.output(name, &count);
            }
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        Bench {
            sim,
            source: [Source::new("frame", &FrameBeat::of(beat_bytes))],
            sink: [Sink::new("out", &shape)],
            beat_bytes,
        }
    }

    impl Bench {
        /// Sends the frames with zeros in place of the ICRC; all must come out as they are, without gaps.
        fn send(&mut self, frames: &[Vec<u8>], random: &mut Random, stall: f64) {
            let mut beats = 0;
            for frame in frames {
                let mut bare = frame.clone();
                let n = bare.len();
                bare[n - 4..].fill(0);
                self.push(&bare, false);
                beats += self.beats(frame);
            }
            let n = frames.len();
            run(&mut self.sim, &mut self.source, &mut self.sink, random, stall, 20 * beats + 1000, |s| {
                s[0].frames_seen() >= n
            });
            let got = self.sink[0].frames();
            for (i, (got, want)) in got.iter().zip(frames).enumerate() {
                assert_eq!(got, want, "seed {}, {} bytes a beat, frame {i}", random.seed, self.beat_bytes);
            }
            assert_eq!(got.len(), n);
            assert_eq!(self.sink[0].gaps, 0, "seed {}: a gap inside a frame", random.seed);
        }

        fn push(&mut self, frame: &[u8], poisoned: bool) {
            for mut beat in frames_to_beats([frame], self.beat_bytes) {
                let last = !beat["last"].is_zero();
                beat.insert("poisoned".into(), Bits::new(1, u128::from(poisoned && last)));
                self.source[0].push(beat);
            }
        }

        fn beats(&self, frame: &[u8]) -> u64 {
            frame.len().div_ceil(self.beat_bytes as usize) as u64
        }
    }

    #[test]
    fn icrc_of_the_golden_frames_is_filled_in() {
        let golden = sample::golden().into_iter().map(|(_, frame)| frame);
        let right = |f: &Vec<u8>| ferrowire_spec::wire::icrc::check(&f[sample::l3(f)..]).is_ok();
        let frames: Vec<_> = golden.filter(right).collect();
        for beat_bytes in WIDTHS {
            bench(beat_bytes).send(&frames, &mut Random::new(1), 0.0);
        }
    }

    #[test]
    fn icrc_is_filled_in_under_random_stalls() {
        for beat_bytes in WIDTHS {
            for (seed, stall) in [0.0, 0.2, 0.5, 0.8].into_iter().enumerate() {
                let mut random = Random::new(200 + seed as u64);
                let frames: Vec<_> = (0..150).map(|_| sample::any(&mut random)).collect();
                bench(beat_bytes).send(&frames, &mut random, stall);
            }
        }
    }

    #[test]
    fn icrc_lies_anywhere_in_the_last_two_beats() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(3);
            let mut frames = Vec::new();
            for (ipv6, vlan) in [(false, false), (false, true), (true, false), (true, true)] {
                let bodies = (0..140).chain([4096, 4096 + 28]);
                frames.extend(bodies.map(|body| sample::frame(&mut random, Kind { ipv6, vlan, body })));
            }
            bench(beat_bytes).send(&frames, &mut random, 0.05);
        }
    }

    #[test]
    fn icrc_append_sends_small_frames_back_to_back() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(4);
            // The smallest frame there is: one beat of 64 bytes.
            let kind = Kind { ipv6: false, vlan: false, body: 0 };
            let frames: Vec<_> = (0..200).map(|_| sample::frame(&mut random, kind)).collect();
            let mut bench = bench(beat_bytes);
            bench.send(&frames, &mut random, 0.0);
            let each = bench.beats(&frames[0]);
            let (came, left) = (&bench.source[0].cycles, &bench.sink[0].cycles);
            assert_eq!(came[came.len() - 1] - came[0], 200 * each - 1);
            assert_eq!(left[0], came[each as usize - 1] + u64::from(latency(beat_bytes)));
            assert_eq!(left[left.len() - 1] - left[0], 200 * each - 1, "{beat_bytes} bytes a beat");
        }
    }

    #[test]
    fn icrc_append_sends_the_largest_frames_back_to_back() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(5);
            let kind = Kind { ipv6: true, vlan: true, body: 4096 + 16 };
            let frames: Vec<_> = (0..20).map(|_| sample::frame(&mut random, kind)).collect();
            let mut bench = bench(beat_bytes);
            bench.send(&frames, &mut random, 0.0);
            let each = bench.beats(&frames[0]);
            let (came, left) = (&bench.source[0].cycles, &bench.sink[0].cycles);
            assert_eq!(came[came.len() - 1] - came[0], 20 * each - 1);
            assert_eq!(left[0], came[each as usize - 1] + u64::from(latency(beat_bytes)));
            assert_eq!(left[left.len() - 1] - left[0], 20 * each - 1);
        }
    }

    #[test]
    fn icrc_buffer_fills_up_and_empties_without_loss() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(6);
            let mut bench = bench(beat_bytes);
            let frames: Vec<_> = (0..80)
                .map(|_| {
                    let body = if random.rng.random() { 4096 } else { random.rng.random_range(0..64) };
                    sample::frame(&mut random, Kind { ipv6: false, vlan: true, body })
                })
                .collect();
            bench.source[0].stall = Some(0.0);
            bench.send(&frames, &mut random, 0.6);
        }
    }

    #[test]
    fn poisoned_frames_never_leave_and_cost_the_others_nothing() {
        for beat_bytes in WIDTHS {
            for stall in [0.0, 0.4] {
                let mut random = Random::new(7);
                let mut bench = bench(beat_bytes);
                let mut sent = Vec::new();
                for i in 0..150 {
                    let frame = sample::any(&mut random);
                    let poisoned = random.chance(0.4) || (60..80).contains(&i);
                    let mut bare = frame.clone();
                    let n = bare.len();
                    bare[n - 4..].fill(0);
                    bench.push(&bare, poisoned);
                    if !poisoned {
                        sent.push(frame);
                    }
                }
                let beats = bench.source[0].left() as u64;
                let Bench { sim, source, sink, .. } = &mut bench;
                run(sim, source, sink, &mut random, stall, 20 * beats + 1000, |s| {
                    s[0].frames_seen() >= sent.len()
                });
                crate::testing::drain(sim, source, sink, &mut random, 0.0, 20 * beats, 1000);
                assert!(sink[0].frames() == sent, "seed {}: {beat_bytes} bytes a beat", random.seed);
                assert_eq!(sink[0].gaps, 0, "seed {}: a gap inside a frame", random.seed);
                let ends = (sim.get("left"), sim.get("dropped"));
                assert_eq!(ends, (sent.len() as u64, 150 - sent.len() as u64), "seed {}", random.seed);
            }
        }
    }
}
