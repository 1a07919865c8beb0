// SPDX-License-Identifier: MIT OR Apache-2.0
//! Building blocks for streams: what every stage is joined with.

mod arbiter;
mod fifo;
mod gather;
mod proof;
mod realign;
mod row;
mod skid;

pub use arbiter::{arbiter, arbiter_from, arbiter_held, fork, Chosen};
pub use ferrowire_parts::Beat;
pub use fifo::{
    deep_fifo, few, fifo, folded_fifo, keyed, prompt_fifo, shown_fifo, spare_fifo, through_fifo, wide_fifo,
    Keyed,
};
pub use gather::{gather, Flagged, Forget};
pub(crate) use proof::proofs;
pub(crate) use realign::{blend, byte_mask, lanes_from, rotate};
pub use realign::{realign, Realign, Realigned};
pub(crate) use row::{fact_of, row_of};
pub use skid::{breath, catch, forward, half, skid, wide_skid, Wide};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, Random, Sink, Source};
    use ferrowire_rtl::{build, Scope, Sim, Stream};
    use rand::Rng;

    fn sim_of(beat_bytes: u32, block: impl FnOnce(&Scope, Stream<Beat>) -> Stream<Beat>) -> Sim {
        let netlist = build("top", |m| {
            let out = block(m, m.stream_in("frame", &Beat::of(beat_bytes)));
            m.stream_out("out", out);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        sim
    }

    fn passes_frames(beat_bytes: u32, mut sim: Sim) {
        let mut random = Random::new(1);
        let mut source = [Source::new("frame", &Beat::of(beat_bytes))];
        let mut sink = [Sink::new("out", &Beat::of(beat_bytes))];
        let mut sent = Vec::new();
        for _ in 0..50 {
            let n = random.rng.random_range(1..200);
            sent.push(random.bytes(n));
            source[0].push_frame(sent.last().unwrap());
        }
        run(&mut sim, &mut source, &mut sink, &mut random, 0.4, 50_000, |sinks| sinks[0].frames_seen() == 50);
        assert_eq!(sink[0].frames(), sent);
    }

    #[test]
    fn skid_and_fifos_pass_the_random_stall_test() {
        for beat_bytes in [8, 64] {
            passes_frames(beat_bytes, sim_of(beat_bytes, skid));
            passes_frames(beat_bytes, sim_of(beat_bytes, |m, s| fifo(m, 4, s)));
            passes_frames(beat_bytes, sim_of(beat_bytes, |m, s| deep_fifo(m, 4, s)));
            passes_frames(beat_bytes, sim_of(beat_bytes, |m, s| prompt_fifo(m, 4, s)));
            passes_frames(beat_bytes, sim_of(beat_bytes, |m, s| shown_fifo(m, 4, s)));
            passes_frames(
                beat_bytes,
                sim_of(beat_bytes, |m, s| keyed(m, None, 4, &|b: &Beat| b.last, s).out),
            );
        }
    }
}
