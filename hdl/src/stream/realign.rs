// SPDX-License-Identifier: MIT OR Apache-2.0
//! The byte rotator: moves a run of bytes from the lanes where it lies to the lanes where it belongs.
//!
//! A command says that `length` bytes come, the first of them in lane `from_lane` of its first beat, and that the first
//! is to leave in lane `to_lane`. So `ceil((from_lane + length) / B)` beats are taken and
//! `ceil((to_lane + length) / B)` beats given. Input bytes outside the run mean nothing; output bytes outside it are
//! zero and their `strobe` bits too.
//!
//! ```text
//!  command --> plan --> skid ----+---------------+
//!                                |               |
//!                           +---------+     +---------+     +-----+
//!  data ------------------> | rotate  |---->|  merge  |---->| out |--->
//!                           | log2 B  |  +--| & strobe|     +-----+
//!                           +---------+  |  +---------+
//!                                        |    ^
//!                                        +->held (the lanes that fell into the next beat)
//! ```
//!
//! With `r = (to_lane - from_lane) mod B`, each beat is rotated up by `r` lanes; an output beat is the lanes from `r` on
//! of one rotated beat and the lanes below `r` of the one before. Where `to_lane < from_lane`, the first beat yields
//! nothing by itself and is only held; where held lanes are left at the end, they leave in a beat of their own, and the
//! next packet's first beat is taken in the same cycle if it is only held.
//!
//! Latency: 2 cycles from a beat to the beat out of it, 3 from the command. Throughput: a beat a cycle; a packet takes
//! as many cycles as the larger number of its beats in and out. Between packets no cycle is lost, for commands are
//! taken ahead; the one exception is a packet with `to_lane < from_lane` behind one with `to_lane >= from_lane`, whose
//! first beat costs a cycle without output. That is hidden where the taker does not want payload in every cycle.
//!
//! A run may `keep` its last beat: the next one, which begins in it, takes it again.
//!
//! `length` 0: no beat is taken and none given. Every other command is good. There is a path from the output's `ready`
//! to `data`'s, through one gate: a register between would be as wide as the beat, and the users have one behind.

use super::skid;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bits, Bundle, Scope, Sig, Stream};

/// What to do with a run of bytes.
#[derive(Clone, Bundle)]
pub struct Realign {
    /// Lane of the first byte on the way in.
    pub from_lane: Sig,
    /// Lane of the first byte on the way out.
    pub to_lane: Sig,
    /// Bytes in the run.
    pub length: Sig,
    /// Its last beat is taken again by the next run.
    pub keep: Sig,
}

impl Realign {
    /// The shape for beats of `beat_bytes` bytes: lengths are 13 bits.
    pub fn of(beat_bytes: u32) -> Realign {
        let lane = clog2(u64::from(beat_bytes));
        Realign { from_lane: bits(lane), to_lane: bits(lane), length: bits(13), keep: bits(1) }
    }
}

/// A beat of a run in its new lanes.
#[derive(Clone, Bundle)]
pub struct Realigned {
    /// The bytes; zero outside the run.
    pub data: Sig,
    /// Which bytes belong to the run.
    pub strobe: Sig,
    /// Last beat of the run.
    pub last: Sig,
}

impl Realigned {
    /// The shape of a beat of `beat_bytes` bytes.
    pub fn of(beat_bytes: u32) -> Realigned {
        Realigned { data: bits(8 * beat_bytes), strobe: bits(beat_bytes), last: bits(1) }
    }
}

/// A command worked out.
#[derive(Clone, Bundle)]
struct Plan {
    /// Lanes to rotate by.
    rotate: Sig,
    /// Beats to take, less one.
    beats: Sig,
    /// The first beat is only held.
    hold: Sig,
    /// Held lanes are left behind the last beat.
    flush: Sig,
    /// Lane of the first byte.
    first: Sig,
    /// Lane of the last byte.
    end: Sig,
    /// The last beat is not taken.
    keep: Sig,
}

/// A rotated beat.
#[derive(Clone, Bundle)]
struct Rotated {
    data: Sig,
    /// Lanes that belong to this output beat; the others to the next one.
    here: Sig,
    /// Lanes from the first byte on, in the first output beat.
    from_first: Sig,
    /// Lanes up to the last byte, in the last output beat.
    to_end: Sig,
    /// The first beat of a packet, to be held only.
    hold: Sig,
    /// The first beat of a packet that gives a beat at once.
    first: Sig,
    last: Sig,
    flush: Sig,
}

fn plan(command: &Realign) -> Plan {
    let lane = command.from_lane.width();
    let width = command.length.width().max(lane) + 1;
    let before_end = command.length.zext(width) - 1;
    let end_in = command.from_lane.zext(width) + before_end;
    let end_out = command.to_lane.zext(width) + before_end;
    let beats_in = end_in.slice(lane, width - lane);
    let beats_out = end_out.slice(lane, width - lane);
    let hold = command.to_lane.lt(command.from_lane);
    Plan {
        rotate: command.to_lane - command.from_lane,
        beats: beats_in,
        hold,
        flush: beats_in.ne(beats_out) ^ hold,
        first: command.to_lane,
        end: end_out.trunc(lane),
        keep: command.keep,
    }
}

/// One bit a lane: whether the lane is `from` or above.
pub(crate) fn lanes_from(from: Sig) -> Sig {
    let lanes: Vec<Sig> = (0..1u32 << from.width()).map(|lane| from.le(lane)).collect();
    cat(&lanes)
}

/// `data` rotated up by `by` bytes. A module of its own, which synthesis maps by itself: two levels of it are a LUT of six inputs, and where a choice
/// of two comes after it, the mapper would join that and the last level for one reader and build that level once more for another.
#[module]
pub(crate) fn rotate(m: &Scope, data: Sig, by: Sig) -> Sig {
    (0..by.width()).fold(data, |data, level| {
        let (k, width) = (8 << level, data.width());
        let rotated = cat(&[data.slice(width - k, k), data.slice(0, width - k)]);
        m.mux(by.bit(level), &rotated, &data)
    })
}

/// One enable a byte, for all its bits.
pub(crate) fn byte_mask(lanes: Sig) -> Sig {
    let bytes: Vec<Sig> = lanes.chunks(1).iter().map(|lane| lane.repeat(8)).collect();
    cat(&bytes)
}

/// Of each lane the new byte, the old one, or zero outside the strobe. A module of its own, as [`rotate`]: a LUT a bit, which the mapper would
/// join with what makes the lanes.
#[module]
pub(crate) fn blend(_m: &Scope, new_lanes: Sig, strobe: Sig, new: Sig, old: Sig) -> Sig {
    let new_lanes = byte_mask(new_lanes);
    ((new & new_lanes) | (old & !new_lanes)) & byte_mask(strobe)
}

/// Rotates runs of bytes, one command a run.
#[module]
pub fn realign(m: &Scope, command: Stream<Realign>, data: Stream<Sig>) -> Stream<Realigned> {
    let beat_bytes = data.payload.width() / 8;
    let lane = command.from_lane.width();
    assert!(
        clog2(u64::from(beat_bytes)) == lane && command.to_lane.width() == lane,
        "lanes of {lane} bits do not count the {beat_bytes} bytes of a beat"
    );

    let nothing = command.length.eq(0);
    let plans = skid(m, command.discard_if(m, nothing).map(plan));

    // Rotate.
    let rotated_valid = m.reg("rotated_valid", 1).reset(0);
    let taken = m.wire("taken", 1);
    let rotated_free = !rotated_valid | taken;
    let index = m.reg("index", plans.beats.width()).reset(0);
    let first = index.eq(0);
    let last = index.eq(plans.beats);
    let enters = data.valid & plans.valid & rotated_free;
    // The same from registers of their own, for the enables of the wide registers come late to so many.
    let moves = m.wire("moves", 1);
    data.accept(plans.valid & moves & !(last & plans.keep));
    plans.accept(data.valid & moves & last);
    let beat = Rotated {
        data: rotate(m, data.payload, plans.rotate),
        here: lanes_from(plans.rotate),
        from_first: lanes_from(plans.first),
        to_end: !(lanes_from(plans.end) << 1),
        hold: first & plans.hold,
        first: first & !plans.hold,
        last,
        flush: last & plans.flush,
    };
    let rotated = m.reg_of("rotated", &beat);
    // That a beat comes is known late: the wide registers load what is there.
    m.when(rotated_free, |m| {
        m.set(&rotated_valid, enters);
        m.set_all(&rotated, &beat);
    });
    let rotated_empty = m.reg("rotated_empty", 1).reset(1);
    m.set(&rotated_empty, m.mux(moves, &!(data.valid & plans.valid), &rotated_empty));
    m.when(enters, |m| m.set(&index, last.then(lit(index.width(), 0), index + 1)));

    // Merge with what the beat before left.
    let shape = Realigned::of(beat_bytes);
    let shown_valid = m.reg("shown_valid", 1).reset(0);
    let shown = m.reg_of("shown", &shape);
    let out = Stream::new(m, "out", shown_valid, shown.clone());
    let shown_free = !shown_valid | out.ready;
    let shown_empty = m.reg("shown_empty", 1).reset(1);
    let frees = shown_empty | out.ready;
    let held = m.reg("held", data.payload.width()).no_reset();
    // The beat before was the packet's first and only held.
    let only_held = m.reg("only_held", 1).reset(0);
    // Held lanes are to leave in a beat of their own, with this strobe.
    let flushing = m.reg("flushing", 1).reset(0);
    let flush_strobe = m.reg("flush_strobe", beat_bytes).no_reset();

    let all = lit(beat_bytes, &Bits::ones(beat_bytes));
    let begins = rotated.first | only_held;
    let ends = rotated.last & !rotated.flush;
    let strobe = begins.then(rotated.from_first, all) & ends.then(rotated.to_end, all);
    m.drive(&taken, rotated_valid & ((rotated.hold & !flushing) | (shown_free & (rotated.hold | !flushing))));
    m.drive(&moves, rotated_empty | (rotated.hold & !flushing) | (frees & (rotated.hold | !flushing)));
    m.assert(moves.eq(rotated_free) & frees.eq(shown_free), "both say the same");
    m.set(&shown_empty, m.mux(frees, &!(flushing | (rotated_valid & !rotated.hold)), &shown_empty));
    m.when(shown_free, |m| {
        m.set(&shown_valid, flushing | (rotated_valid & !rotated.hold));
        let strobe = flushing.then(flush_strobe, strobe);
        let here = byte_mask(rotated.here & !flushing.repeat(beat_bytes));
        m.set(&shown.data, ((rotated.data & here) | (held & !here)) & byte_mask(strobe));
        m.set(&shown.strobe, strobe);
        m.set(&shown.last, flushing | ends);
        m.set(&flushing, 0);
    });
    m.when(taken, |m| {
        m.set(&held, rotated.data);
        m.set(&only_held, rotated.hold);
        m.set(&flushing, rotated.flush);
        m.set(&flush_strobe, rotated.to_end & rotated.hold.then(rotated.from_first, all));
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{drain, item, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    fn sim(beat_bytes: u32) -> Sim {
        let netlist = build("top", |m| {
            let command = m.stream_in("command", &Realign::of(beat_bytes));
            let data = m.stream_in("data", &bits(8 * beat_bytes));
            let out = realign(m, command, data);
            m.stream_out("out", out);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        sim
    }

    struct Bench {
        sim: Sim,
        beat_bytes: usize,
        sources: [Source; 2],
        sinks: [Sink; 1],
        random: Random,
        /// Bytes and strobes of each beat that must come, and whether it is the last.
        expected: Vec<(Vec<u8>, Vec<bool>, bool)>,
        beats_in: usize,
    }

    impl Bench {
        fn new(beat_bytes: u32, seed: u64) -> Bench {
            let shape = Realigned::of(beat_bytes);
            Bench {
                sim: sim(beat_bytes),
                beat_bytes: beat_bytes as usize,
                sources: [
                    Source::new("command", &Realign::of(beat_bytes)),
                    Source::new("data", &bits(8 * beat_bytes)),
                ],
                sinks: [Sink::new("out", &shape)],
                random: Random::new(seed),
                expected: Vec::new(),
                beats_in: 0,
            }
        }

        fn push(&mut self, from: usize, to: usize, length: usize) {
            let b = self.beat_bytes;
            let values = [("from_lane", from as u128), ("to_lane", to as u128), ("length", length as u128)];
            self.sources[0].push(item(&Realign::of(b as u32), &values));
            let run = self.random.bytes(length);
            if length == 0 {
                return;
            }
            let beats = (from + length).div_ceil(b);
            self.beats_in += beats;
            // What lies outside the run is noise.
            let mut lying = self.random.bytes(beats * b);
            lying[from..from + length].copy_from_slice(&run);
            for beat in lying.chunks(b) {
                let bits = Bits::from_bytes(8 * b as u32, beat);
                self.sources[1].push([("".into(), bits)].into());
            }
            let beats = (to + length).div_ceil(b);
            let (mut bytes, mut strobes) = (vec![0; beats * b], vec![false; beats * b]);
            bytes[to..to + length].copy_from_slice(&run);
            strobes[to..to + length].fill(true);
            for (i, (bytes, strobes)) in bytes.chunks(b).zip(strobes.chunks(b)).enumerate() {
                self.expected.push((bytes.to_vec(), strobes.to_vec(), i + 1 == beats));
            }
        }

        fn run(&mut self, stall: f64) {
            let cycles = 1000 + 20 * (self.beats_in + self.expected.len()) as u64;
            drain(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, stall, cycles, 30);
            let seed = self.random.seed;
            assert_eq!(self.sinks[0].items.len(), self.expected.len(), "seed {seed}");
            for (i, (item, (bytes, strobes, last))) in
                self.sinks[0].items.iter().zip(&self.expected).enumerate()
            {
                assert_eq!(&item["data"].to_bytes(), bytes, "seed {seed}, beat {i}");
                let strobe: Vec<bool> = (0..self.beat_bytes as u32).map(|l| item["strobe"].bit(l)).collect();
                assert_eq!(&strobe, strobes, "seed {seed}, beat {i}");
                assert_eq!(item["last"].bit(0), *last, "seed {seed}, beat {i}");
            }
        }

        /// Cycles from the first to the last beat out.
        fn span(&self) -> u64 {
            let cycles = &self.sinks[0].cycles;
            cycles[cycles.len() - 1] - cycles[0] + 1
        }
    }

    #[test]
    fn every_pair_of_lanes_and_every_short_length_moves_the_right_bytes() {
        let mut bench = Bench::new(8, 1);
        for from in 0..8 {
            for to in 0..8 {
                for length in 0..=26 {
                    bench.push(from, to, length);
                }
            }
        }
        bench.run(0.0);
    }

    #[test]
    fn random_runs_survive_random_stalls_at_every_beat_size() {
        for (beat_bytes, seed) in [(8, 2), (16, 3), (32, 4), (64, 5)] {
            for stall in [0.0, 0.1, 0.5] {
                let mut bench = Bench::new(beat_bytes, seed);
                for _ in 0..150 {
                    let lanes = beat_bytes as usize;
                    let (from, to) =
                        (bench.random.rng.random_range(0..lanes), bench.random.rng.random_range(0..lanes));
                    let short = bench.random.chance(0.8);
                    let length = bench.random.rng.random_range(0..if short { 3 * lanes } else { 4097 });
                    bench.push(from, to, length);
                }
                bench.run(stall);
            }
        }
    }

    #[test]
    fn the_longest_run_from_the_last_lane_is_complete() {
        for beat_bytes in [8, 16, 32, 64] {
            let mut bench = Bench::new(beat_bytes, 6);
            let top = beat_bytes as usize - 1;
            for (from, to) in [(top, 0), (0, top), (top, top), (0, 0)] {
                bench.push(from, to, 4096);
                bench.push(from, to, 8191);
            }
            bench.run(0.0);
        }
    }

    #[test]
    fn runs_of_one_kind_leave_without_a_bubble() {
        for (from, to, length) in
            [(0, 54, 1024), (60, 54, 1024), (63, 0, 64), (20, 6, 64), (54, 54, 10), (10, 0, 20)]
        {
            let mut bench = Bench::new(64, 7);
            for _ in 0..20 {
                bench.push(from, to, length);
            }
            bench.run(0.0);
            // The first beat of the first packet may be held, and each beat takes a cycle on either side.
            let most = bench.expected.len().max(bench.beats_in) as u64;
            assert!(
                bench.span() <= most,
                "{from} to {to}, {length} bytes: {} cycles, not {most}",
                bench.span()
            );
        }
    }

    #[test]
    fn a_beat_passes_in_two_cycles() {
        let mut bench = Bench::new(64, 8);
        bench.push(0, 0, 64);
        bench.sources[1].stall = Some(0.0);
        bench.run(0.0);
        let (command, data) = (bench.sources[0].cycles[0], bench.sources[1].cycles[0]);
        assert_eq!(bench.sinks[0].cycles[0] - data, 2);
        assert_eq!(bench.sinks[0].cycles[0] - command, 3);
    }
}
