// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire's door: shut until the card's tables are clear.
//!
//! After a reset the tables still hold what they held before, until the command processor has been through them. A frame
//! that begins meanwhile is dropped whole, uncounted, like one on a wire without a card. A beat a cycle, no latency.
//! Reset: between frames. The door outlives a reset of the card by its host: of a frame that is let in when the card begins anew (`cut`) the rest is dropped.

use crate::stream::Beat;
use ferrowire_rtl::{module, Scope, Sig, Stream};

/// Lets frames in that begin while `open`. `cut`: who takes them begins anew behind this cycle.
#[module]
pub fn door(m: &Scope, open: Sig, cut: Sig, wire: Stream<Beat>) -> Stream<Beat> {
    let inside = m.reg("inside", 1).reset(0);
    let passing = m.reg("passing", 1).reset(0);
    let passes = inside.then(passing, open).named("passes");
    let out = Stream::new(m, "out", wire.valid & passes, wire.payload.clone());
    wire.accept(out.ready | !passes);
    // From the offer of the first beat on.
    m.when(wire.valid, |m| {
        m.set(&inside, 1);
        m.set(&passing, passes);
    });
    m.when(cut, |m| m.set(&passing, 0));
    m.when(wire.fire() & wire.last, |m| m.set(&inside, 0));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{beats_to_frames, frames_to_beats, step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    #[test]
    fn frames_pass_whole_or_not_at_all() {
        for beat_bytes in [8, 64] {
            let shape = Beat::of(beat_bytes);
            let netlist = build("bench", |m| {
                let wire = m.stream_in("wire", &shape);
                m.output("offered", &wire.valid);
                m.stream_out("out", door(m, m.input("open", 1), m.input("cut", 1), wire));
            });
            let mut sim = Sim::new(&netlist.unwrap());
            sim.reset();
            let mut random = Random::new(6);
            let mut sources = [Source::new("wire", &shape)];
            let mut sinks = [Sink::new("out", &shape)];
            let frames: Vec<Vec<u8>> = (0..200u32)
                .map(|i| {
                    let mut frame = i.to_be_bytes().to_vec();
                    frame.extend(random.bytes(60 + i as usize));
                    frame
                })
                .collect();
            for beat in frames_to_beats(frames.iter().map(Vec::as_slice), beat_bytes) {
                sources[0].push(beat);
            }
            // Beats up to the end of each frame; whether the door was open when its first beat was offered.
            let mut to_end = frames.iter().map(|frame| frame.len().div_ceil(beat_bytes as usize));
            let (mut open, mut left, mut let_in) = (0, 0, Vec::new());
            while sources[0].left() > 0 {
                if random.chance(0.05) {
                    open = random.rng.random_range(0..2);
                }
                sim.set("open", open);
                let before = sources[0].left();
                step(&mut sim, &mut sources, &mut sinks, &mut random, 0.2);
                if left == 0 && sim.get("offered") == 1 {
                    let_in.push(open == 1);
                    left = to_end.next().expect("a frame");
                }
                left -= before - sources[0].left();
            }
            let passed = beats_to_frames(&sinks[0].items);
            assert!(passed.len() > 50 && passed.len() < 150, "{} passed", passed.len());
            let expected: Vec<_> = frames.iter().zip(&let_in).filter(|(_, yes)| **yes).collect();
            assert_eq!((let_in.len(), passed.len()), (frames.len(), expected.len()));
            assert!(passed.iter().zip(expected).all(|(frame, (wanted, _))| frame == wanted));
        }
    }

    #[test]
    fn what_is_shut_out_goes_at_the_pace_of_the_wire() {
        let shape = Beat::of(8);
        let netlist = build("bench", |m| {
            let wire = m.stream_in("wire", &shape);
            m.stream_out("out", door(m, m.input("open", 1), m.input("cut", 1), wire));
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        let mut random = Random::new(7);
        let mut sources = [Source::new("wire", &shape)];
        let mut sinks = [Sink::new("out", &shape)];
        // Shut, then open in the middle of the third frame: the fourth is the first to wait for its taker.
        (0..4).for_each(|i| sources[0].push_frame(&[i; 80]));
        sinks[0].stall = Some(1.0);
        sim.set("open", 0);
        for cycle in 0..50 {
            if cycle == 25 {
                sim.set("open", 1);
            }
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
        }
        assert_eq!(sources[0].left(), 10);
        assert_eq!(sources[0].cycles[29] - sources[0].cycles[0], 29);
        // Shutting does not take back what was offered.
        sim.set("open", 0);
        sinks[0].stall = None;
        for _ in 0..10 {
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
        }
        assert_eq!(sources[0].cycles[30..], sinks[0].cycles);
        assert_eq!(beats_to_frames(&sinks[0].items), [vec![3; 80]]);
    }

    #[test]
    fn the_rest_of_a_frame_is_dropped_where_its_taker_begins_anew() {
        let shape = Beat::of(8);
        let netlist = build("bench", |m| {
            let wire = m.stream_in("wire", &shape);
            m.stream_out("out", door(m, m.input("open", 1), m.input("cut", 1), wire));
        });
        for at in 0..30 {
            let mut sim = Sim::new(netlist.as_ref().unwrap());
            sim.reset();
            let mut random = Random::new(8);
            let mut sources = [Source::new("wire", &shape)];
            let mut sinks = [Sink::new("out", &shape)];
            (0..4).for_each(|i| sources[0].push_frame(&[i; 80]));
            sim.set("open", 1);
            let mut taken = 0;
            for cycle in 0..80 {
                sim.set("cut", u64::from(cycle == at));
                // The door is shut while tables are cleared.
                sim.set("open", u64::from(!(at + 1..at + 5).contains(&cycle)));
                step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
                if cycle == at {
                    taken = sinks[0].items.len();
                }
            }
            // What was there before, up to its end at most, and then whole frames alone.
            let after = sinks[0].items.split_off(taken);
            assert!(beats_to_frames(&after).iter().all(|frame| frame.len() == 80), "cut at {at}");
            assert!(
                after.len() >= 10 * 3usize.saturating_sub(taken.div_ceil(10)),
                "cut at {at}: {}",
                after.len()
            );
        }
    }
}
