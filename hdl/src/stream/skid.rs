// SPDX-License-Identifier: MIT OR Apache-2.0
//! Register slices.
//!
//! [`skid`] cuts valid, payload and ready. Two places: what the output shows, and one for the beat that comes in the
//! cycle in which the output stalls. One beat a cycle, latency 1; both handshake directions start and end at registers.
//!
//! [`catch`] cuts ready alone: it has the second place only, and shows what comes in the cycle in which it comes. One
//! beat a cycle, latency 0.
//!
//! [`forward`] cuts valid and payload alone: it has the first place only, and costs no multiplexer. One beat a cycle, latency 1.
//!
//! [`half`] cuts all three with one place, which takes nothing while it is full: a beat in two cycles, latency 1.
//!
//! [`wide_skid`] is a [`skid`] for beats that have a wide part: that lies in LUT RAM, where two places cost no more than one, and all else in registers.
//! Reset empties all five.

use ferrowire_rtl::{module, Bundle, Interface, Scope, Sig, Stream, Style};

/// A full register slice.
#[module]
pub fn skid<T: Bundle + Interface>(m: &Scope, input: Stream<T>) -> Stream<T> {
    let shown_valid = m.reg("shown_valid", 1).reset(0);
    let shown = m.reg_of("shown", &input.payload);
    let spare_valid = m.reg("spare_valid", 1).reset(0);
    let spare = m.reg_of("spare", &input.payload);
    let out = Stream::new(m, "out", shown_valid, shown.clone());
    input.accept(!spare_valid);
    let moves = out.ready | !shown_valid;
    m.when(moves, |m| {
        m.set(&shown_valid, spare_valid | input.valid);
        m.set_all(&shown, &m.mux(spare_valid, &spare, &input.payload));
        m.set(&spare_valid, 0);
    })
    .otherwise_when(input.fire(), |m| m.set(&spare_valid, 1));
    // Whether it was needed is known late: what lies there without need is overwritten.
    m.when(!spare_valid, |m| m.set_all(&spare, &input.payload));
    out
}

/// What [`wide_skid`] shows.
#[derive(Interface)]
pub struct Wide<T: Bundle + Interface> {
    /// The output.
    pub out: Stream<T>,
    /// The wide part of its beat.
    pub wide: Sig,
}

/// A full register slice with the `wide` part of each beat in LUT RAM.
#[module]
pub fn wide_skid<T: Bundle + Interface>(m: &Scope, input: Stream<T>, wide: Sig) -> Wide<T> {
    let (head, tail) = (m.reg("head", 1).reset(0), m.reg("tail", 1).reset(0));
    let store = m.mem("store", 2, &wide).style(Style::Distributed).build();
    // What is not taken is written once more.
    store.write(input.ready, tail, &wide);
    m.when(input.fire(), |m| m.set(&tail, !tail));
    let out = skid(m, input);
    m.when(out.fire(), |m| m.set(&head, !head));
    Wide { out, wide: store.read_now(head) }
}

/// Half a register slice: no path from the output's `ready` to the input's.
#[module]
pub fn catch<T: Bundle + Interface>(m: &Scope, input: Stream<T>) -> Stream<T> {
    let caught = m.reg("caught", 1).reset(0);
    let kept = m.reg_of("kept", &input.payload);
    let out = Stream::new(m, "out", caught | input.valid, m.mux(caught, &kept, &input.payload));
    input.accept(!caught);
    m.when(!caught, |m| m.set_all(&kept, &input.payload));
    m.set(&caught, out.valid & !out.ready);
    out
}

/// The other half of one: no path from the input to the output.
#[module]
pub fn forward<T: Bundle + Interface>(m: &Scope, input: Stream<T>) -> Stream<T> {
    let held = m.reg("held", 1).reset(0);
    let shown = m.reg_of("shown", &input.payload);
    let out = Stream::new(m, "out", held, shown.clone());
    let moves = out.ready | !held;
    input.accept(moves);
    m.when(moves, |m| {
        m.set(&held, input.valid);
        m.set_all(&shown, &input.payload);
    });
    out
}

/// A register slice at half the rate, for what comes in three cycles or more: no path through it at all.
#[module]
pub fn half<T: Bundle + Interface>(m: &Scope, input: Stream<T>) -> Stream<T> {
    let held = m.reg("held", 1).reset(0);
    let shown = m.reg_of("shown", &input.payload);
    let out = Stream::new(m, "out", held, shown.clone());
    input.accept(!held);
    m.set(&held, m.mux(held, &!out.ready, &input.valid));
    m.when(!held, |m| m.set_all(&shown, &input.payload));
    out
}

/// [`half`] where there is time, nothing where not.
pub fn breath<T: Bundle + Interface>(m: &Scope, time: bool, input: Stream<T>) -> Stream<T> {
    if time {
        half(m, input)
    } else {
        input
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Beat;
    use crate::testing::{drain, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};

    #[test]
    fn slices_pass_beats_in_order_at_their_rate_and_latency() {
        let skid = |m: &Scope| m.stream_out("out", skid(m, m.stream_in("in", &Beat::of(8))));
        let catch = |m: &Scope| m.stream_out("out", catch(m, m.stream_in("in", &Beat::of(8))));
        let forward = |m: &Scope| m.stream_out("out", forward(m, m.stream_in("in", &Beat::of(8))));
        let half = |m: &Scope| m.stream_out("out", half(m, m.stream_in("in", &Beat::of(8))));
        let wide = |m: &Scope| {
            let input = m.stream_in("in", &Beat::of(8));
            let data = input.data;
            let rest = input.map(|beat| crate::stream::Chosen { source: beat.last, item: beat.empty });
            let Wide { out, wide } = wide_skid(m, rest, data);
            let out = out.map(|rest| Beat { data: wide, last: rest.source, empty: rest.item });
            m.stream_out("out", out);
        };
        let built = [
            (build("wide", wide).unwrap(), 1, 1),
            (build("skid", skid).unwrap(), 1, 1),
            (build("catch", catch).unwrap(), 0, 1),
            (build("forward", forward).unwrap(), 1, 1),
            (build("half", half).unwrap(), 1, 2),
        ];
        for (netlist, latency, cycles) in &built {
            for stall in [0.0, 0.5] {
                let mut sim = Sim::new(netlist);
                sim.reset();
                let mut random = Random::new(5);
                let mut sources = [Source::new("in", &Beat::of(8))];
                let mut sinks = [Sink::new("out", &Beat::of(8))];
                let sent: Vec<Vec<u8>> = (0..50).map(|_| random.bytes(24)).collect();
                sent.iter().for_each(|frame| sources[0].push_frame(frame));
                drain(&mut sim, &mut sources, &mut sinks, &mut random, stall, 10_000, 5);
                assert_eq!(sinks[0].frames(), sent, "seed {}", random.seed);
                let pairs = sources[0].cycles.iter().zip(&sinks[0].cycles);
                assert!(stall > 0.0 || pairs.into_iter().all(|(a, b)| a + latency == *b));
                assert!(stall > 0.0 || sinks[0].cycles[149] - sinks[0].cycles[0] == 149 * cycles);
            }
        }
    }
}
