// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many streams into one, and one into many.
//!
//! ```text
//!  input 0 --->|\                            +--> out 0
//!  input 1 --->| >---> out      input -------+--> out 1
//!  input 2 --->|/                            +--> out 2
//!        round robin                  fork: each takes a beat when it likes
//! ```
//!
//! [`arbiter`] gives the output to one input for a whole packet, which ends with a beat for which `last` holds, and
//! then to the next input that has a beat, counted upwards round from the one just served: of `n` inputs, one that has
//! a beat waits for at most one packet of each of the others. An offer stays until it is taken, even if another
//! input's beat comes meanwhile. No cycle is lost when the output changes hands. An input that pauses within its packet
//! keeps the output.
//!
//! [`fork`] offers each beat to all its outputs; the input's beat has passed when the slowest has taken it. No cycle is
//! lost when all are ready.
//!
//! Latency 0 for both, and paths from the outputs' `ready` to the inputs': put a [`skid`](super::skid) where they grow
//! too long. Reset forgets packets under way.
//!
//! [`arbiter_held`] takes turns as [`arbiter`] does, but from a register: no path runs from an input's `valid` to any
//! `ready`. No cycle is lost between packets of inputs that wait; one that finds the output idle and at another
//! input waits a cycle for it, and it stays there.

use ferrowire_rtl::{cat, clog2, lit, module, Bits, Bundle, Interface, Scope, Sig, Stream};

/// A beat and the input that it came from.
#[derive(Clone, Bundle)]
pub struct Chosen<T: Bundle> {
    /// Number of the input.
    pub source: Sig,
    /// Its beat.
    pub item: T,
}

/// Index of the lowest bit that is set; the last one where none is.
fn lowest(set: &[Sig], width: u32) -> Sig {
    let last = lit(width, set.len() - 1);
    (0..set.len() - 1).rev().fold(last, |index, i| set[i].then(lit(width, i), index))
}

fn choose<T: Bundle>(m: &Scope, inputs: Vec<Stream<T>>, last: &dyn Fn(&T) -> Sig) -> Stream<Chosen<T>> {
    let n = inputs.len();
    assert!(n > 0, "an arbiter without inputs");
    let width = clog2(n as u64);
    // The packet or the offer under way, and whose it is.
    let locked = m.reg("locked", 1).reset(0);
    let holder = m.reg("holder", width).reset(0);
    // The inputs behind the one served last.
    let behind = m.reg("behind", n as u32).reset(0);

    let valids: Vec<Sig> = inputs.iter().map(|s| s.valid).collect();
    let due: Vec<Sig> = valids.iter().enumerate().map(|(i, v)| v & behind.bit(i as u32)).collect();
    let next = cat(&due).any().then(lowest(&due, width), lowest(&valids, width));
    let pick = locked.then(holder, next).named("pick");
    let payloads: Vec<T> = inputs.iter().map(|s| s.payload.clone()).collect();
    let item = m.select(pick, &payloads);
    let ends = last(&item);
    // Whether there is a beat does not wait for the choice.
    let valid = locked.then(m.select(holder, &valids), cat(&valids).any());
    let out = Stream::new(m, "out", valid, Chosen { source: pick, item });
    for (i, input) in inputs.iter().enumerate() {
        input.accept(out.ready & pick.eq(i));
    }
    let all = Bits::ones(n as u32);
    let masks: Vec<Sig> = (0..n as u32)
        .map(|i| if i + 1 < n as u32 { lit(n as u32, &all) << (i + 1) } else { lit(n as u32, 0) })
        .collect();
    m.when(out.valid, |m| {
        m.set(&holder, pick);
        m.set(&locked, !(out.ready & ends));
        m.set(&behind, m.select(pick, &masks));
    });
    out
}

/// Round robin over the inputs, a packet at a time. `last` tells a packet's last beat.
#[module]
pub fn arbiter<T: Bundle + Interface>(
    m: &Scope,
    last: &dyn Fn(&T) -> Sig,
    inputs: Vec<Stream<T>>,
) -> Stream<T> {
    choose(m, inputs, last).map(|chosen| chosen.item.clone())
}

/// As [`arbiter`], and tells with each beat which input it came from.
#[module]
pub fn arbiter_from<T: Bundle + Interface>(
    m: &Scope,
    last: &dyn Fn(&T) -> Sig,
    inputs: Vec<Stream<T>>,
) -> Stream<Chosen<T>> {
    choose(m, inputs, last)
}

/// As [`arbiter`], with the choice made a cycle before, where the packet before ends or the output is idle.
#[module]
pub fn arbiter_held<T: Bundle + Interface>(
    m: &Scope,
    last: &dyn Fn(&T) -> Sig,
    inputs: Vec<Stream<T>>,
) -> Stream<T> {
    let n = inputs.len();
    assert!(n > 0, "an arbiter without inputs");
    let width = clog2(n as u64);
    let holder = m.reg("holder", width).reset(0);
    // Its packet has begun.
    let within = m.reg("within", 1).reset(0);

    let valids: Vec<Sig> = inputs.iter().map(|s| s.valid).collect();
    let payloads: Vec<T> = inputs.iter().map(|s| s.payload.clone()).collect();
    let item = m.select(holder, &payloads);
    let ends = last(&item);
    let out = Stream::new(m, "out", m.select(holder, &valids), item);
    for (i, input) in inputs.iter().enumerate() {
        input.accept(out.ready & holder.eq(i));
    }

    // The holder comes last of all: it is chosen where nobody else waits.
    let due: Vec<Sig> = valids.iter().enumerate().map(|(i, v)| v & holder.lt(i)).collect();
    let next = cat(&due).any().then(lowest(&due, width), lowest(&valids, width));
    let free = out.valid.then(out.ready & ends, !within).named("free");
    m.when(out.fire(), |m| m.set(&within, !ends));
    m.when(free & cat(&valids).any(), |m| m.set(&holder, next));
    out
}

/// Offers each beat to `n` takers, each of which may take it at its own time.
#[module]
pub fn fork<T: Bundle + Interface>(m: &Scope, #[param] n: usize, input: Stream<T>) -> Vec<Stream<T>> {
    let done: Vec<Sig> = (0..n).map(|i| m.reg(&format!("done{i}"), 1).reset(0)).collect();
    let out: Vec<Stream<T>> = done
        .iter()
        .enumerate()
        .map(|(i, done)| Stream::new(m, &format!("out{i}"), input.valid & !done, input.payload.clone()))
        .collect();
    let after: Vec<Sig> = out.iter().zip(&done).map(|(out, done)| done | out.ready).collect();
    let passes = cat(&after).all().named("passes");
    input.accept(passes);
    m.when(input.valid, |m| {
        for (done, after) in done.iter().zip(&after) {
            m.set(done, after & !passes);
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Beat;
    use crate::testing::{beats_to_frames, drain, run, step, Random, Sink, Source};
    use ferrowire_rtl::{bits, build, Sim};
    use rand::Rng;

    fn arbiter_sim(n: usize) -> Sim {
        let netlist = build("top", |m| {
            let inputs = (0..n).map(|i| m.stream_in(&format!("in{i}"), &Beat::of(8))).collect();
            let out = arbiter_from(m, &|beat: &Beat| beat.last, inputs);
            m.stream_out("out", out);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        sim
    }

    /// [`arbiter_held`], told by tags in the beats who sent them.
    fn held_sim(n: usize) -> Sim {
        let tagged =
            |i: usize| move |beat: &Beat| Chosen { source: lit(clog2(n as u64), i), item: beat.clone() };
        let netlist = build("top", |m| {
            let input = |i: usize| m.stream_in(&format!("in{i}"), &Beat::of(8)).map(tagged(i));
            let out = arbiter_held(m, &|c: &Chosen<Beat>| c.item.last, (0..n).map(input).collect());
            m.stream_out("out", out);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        sim
    }

    fn shape(n: usize) -> Chosen<Beat> {
        Chosen { source: bits(clog2(n as u64)), item: Beat::of(8) }
    }

    fn inputs(n: usize) -> Vec<Source> {
        (0..n).map(|i| Source::new(&format!("in{i}"), &Beat::of(8))).collect()
    }

    /// Sources of the packets that came, in order, and the packets of each.
    fn packets(sink: &Sink, n: usize) -> (Vec<usize>, Vec<Vec<Vec<u8>>>) {
        let (mut order, mut of) = (Vec::new(), vec![Vec::new(); n]);
        let mut packet = Vec::new();
        for item in &sink.items {
            packet.push(
                item.iter().map(|(path, b)| (path.trim_start_matches("item_").into(), b.clone())).collect(),
            );
            if !item["item_last"].is_zero() {
                let source = item["source"].to_u64() as usize;
                order.push(source);
                of[source].extend(beats_to_frames(&packet));
                packet.clear();
            }
        }
        (order, of)
    }

    #[test]
    fn packets_pass_whole_and_in_order_under_random_stalls() {
        let sims = [1, 2, 3, 5].into_iter().flat_map(|n| [(n, arbiter_sim(n)), (n, held_sim(n))]);
        for (n, mut sim) in sims {
            let mut random = Random::new(n as u64);
            let (mut sources, mut sinks) = (inputs(n), [Sink::new("out", &shape(n))]);
            let mut sent = vec![Vec::new(); n];
            for _ in 0..60 {
                for (source, sent) in sources.iter_mut().zip(&mut sent) {
                    let length = random.rng.random_range(1..40);
                    let frame = random.bytes(length);
                    source.push_frame(&frame);
                    sent.push(frame);
                }
            }
            drain(&mut sim, &mut sources, &mut sinks, &mut random, 0.4, 100_000, 10);
            // Each packet's beats name one source: else the frames would differ.
            assert_eq!(packets(&sinks[0], n).1, sent, "seed {}", random.seed);
        }
    }

    #[test]
    fn busy_inputs_take_turns_without_a_bubble() {
        let n = 3;
        for mut sim in [arbiter_sim(n), held_sim(n)] {
            let mut random = Random::new(1);
            let (mut sources, mut sinks) = (inputs(n), [Sink::new("out", &shape(n))]);
            for source in &mut sources {
                for _ in 0..10 {
                    source.push_frame(&random.bytes(20));
                }
            }
            run(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 200, |s| s[0].items.len() == 90);
            let cycles = &sinks[0].cycles;
            assert_eq!(cycles[89] - cycles[0], 89);
            let (order, _) = packets(&sinks[0], n);
            assert!(order.iter().enumerate().all(|(i, source)| *source == i % 3), "{order:?}");
        }
    }

    #[test]
    fn an_input_waits_for_at_most_one_packet_of_each_other() {
        let n = 4;
        for mut sim in [arbiter_sim(n), held_sim(n)] {
            let mut random = Random::new(2);
            let (mut sources, mut sinks) = (inputs(n), [Sink::new("out", &shape(n))]);
            for source in &mut sources[..3] {
                for _ in 0..200 {
                    source.push_frame(&random.bytes(12));
                }
            }
            for _ in 0..30 {
                // The fourth asks now and then, with a beat that is there at once.
                for _ in 0..random.rng.random_range(1..9) {
                    step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
                }
                let before = packets(&sinks[0], n).0.len();
                sources[3].push_frame(&[7; 12]);
                for _ in 0..8 {
                    step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
                }
                let (order, _) = packets(&sinks[0], n);
                let waited = order[before..].iter().position(|s| *s == 3);
                assert!(waited.is_some_and(|w| w <= 3), "seed {}: {:?}", random.seed, &order[before..]);
            }
        }
    }

    #[test]
    fn a_held_output_costs_a_cycle_only_from_idle_at_another_input() {
        let mut sim = held_sim(3);
        let mut random = Random::new(4);
        let (mut sources, mut sinks) = (inputs(3), [Sink::new("out", &shape(3))]);
        for (source, wait) in [(0, 0), (2, 1), (2, 0), (1, 1)] {
            let (before, begin) = (sinks[0].items.len(), sim.cycles());
            sources[source].push_frame(&[1; 16]);
            run(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 20, |s| s[0].items.len() == before + 2);
            assert_eq!(sinks[0].cycles[before..], [begin + wait, begin + wait + 1], "from input {source}");
        }
    }

    #[test]
    fn every_taker_of_a_fork_gets_every_beat_once() {
        let netlist = build("top", |m| {
            let out = fork(m, 3, m.stream_in("frame", &Beat::of(8)));
            for (i, out) in out.into_iter().enumerate() {
                m.stream_out(&format!("out{i}"), out);
            }
        })
        .unwrap();
        for stall in [0.0, 0.5] {
            let mut sim = Sim::new(&netlist);
            sim.reset();
            let mut random = Random::new(3);
            let mut sources = [Source::new("frame", &Beat::of(8))];
            let mut sinks: Vec<Sink> = (0..3).map(|i| Sink::new(&format!("out{i}"), &Beat::of(8))).collect();
            let mut sent = Vec::new();
            for _ in 0..50 {
                sent.push(random.bytes(24));
                sources[0].push_frame(sent.last().unwrap());
            }
            drain(&mut sim, &mut sources, &mut sinks, &mut random, stall, 10_000, 20);
            for sink in &sinks {
                assert_eq!(sink.frames(), sent, "seed {}", random.seed);
                assert!(stall > 0.0 || sink.cycles[149] - sink.cycles[0] == 149);
            }
        }
    }
}
