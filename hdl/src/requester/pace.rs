// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds requests back while the card is behind with what it receives.
//!
//! ```text
//!  parts ----> open? ----> parts
//!                ^
//!  pressed ------+-- cycles since the last packet
//!  receives -----+
//! ```
//!
//! Sending and receiving share the host's memory. A message that is sent and one that is received take three reads there, a write, and two
//! completions, so messages in both directions have one in 4 cycles, and one direction alone in 3. Who sends faster than that only fills the peer's packet
//! buffer, and what finds no room there is lost: the wire does not wait, requests can.
//!
//! So packets pass at the first pace of [`PACES`] while messages that take a receive come (`receives`), each of which counts for [`EACH`] cycles, or
//! a quarter of the packet buffer is taken (bit 0 of `pressed`), at the second while a half is (bit 1), and at the third while three quarters are
//! (bit 2). The first is the one that both directions can keep, so a buffer that was filled while the first receives came from the host fills no
//! further. Large packets take longer than any of these, and are not held back. It is never nothing, so nothing waits for ever, and a peer that
//! floods the card stops nothing.
//!
//! Latency 0; paths from `valid` to `valid` and from `ready` to `ready`, one gate each. Reset: open.

use crate::requester::gather::Part;
use crate::rx::buffer::PRESSED;
use ferrowire_rtl::{cat, clog2, lit, module, Scope, Sig, Stream};

/// Cycles from packet to packet, one for each level of [`pace`].
const PACES: [u32; PRESSED as usize] = [4, 5, 8];

/// Cycles for which a message that takes a receive counts.
const EACH: u32 = 16;
/// Cycles for which many of them count.
const HOLD: u32 = 256;

/// Lets packets pass.
#[module]
pub fn pace(m: &Scope, pressed: Sig, receives: Sig, parts: Stream<Part>) -> Stream<Part> {
    let hold = m.reg("hold", clog2(u64::from(HOLD)) + 1).reset(0);
    m.when(receives & !hold.msb(), |m| m.set(&hold, hold + (EACH - 1)))
        .otherwise_when(hold.any(), |m| m.set(&hold, hold - 1));
    let slow = pressed.bit(0) | hold.any();
    let behind = m.delay("behind", &cat([&slow, &pressed.bit(1), &pressed.bit(2)]));
    let bits = clog2(u64::from(PACES[2]));
    let left = m.reg("left", bits).reset(0);
    let shut = m.reg("shut", 1).reset(0);
    let out = Stream::new(m, "out", parts.valid & !shut, parts.payload.clone());
    parts.accept(out.ready & !shut);
    let ends = (out.fire() & out.last).named("ends");
    let rest = |pace: u32| lit(bits, pace - 1);
    let slower = m.mux(behind.bit(2), &rest(PACES[2]), &rest(PACES[1]));
    let gap = m.mux(behind.bit(1), &slower, &rest(PACES[0]));
    m.when(ends, |m| m.set(&left, behind.any().then(gap, lit(bits, 0))))
        .otherwise_when(left.any(), |m| m.set(&left, left - 1));
    m.set(&shut, m.mux(ends, &behind.any(), &left.ge(lit(bits, 2))));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RnicConfig;
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};

    /// Cycles with the same pace in the test, and those after which it is known.
    const TURN: u64 = 1024;
    const KNOWN: u64 = HOLD as u64 + 4;

    #[test]
    fn packets_pass_at_a_slow_pace_while_the_packet_buffer_fills_and_at_full_rate_otherwise() {
        let cfg = RnicConfig::named("generic-64b").unwrap();
        let shape = Part::of(&cfg);
        let netlist = build("bench", |m| {
            let parts = m.stream_in("parts", &shape);
            m.stream_out("out", pace(m, m.input("pressed", PRESSED), m.input("receives", 1), parts));
        });
        let netlist = netlist.unwrap_or_else(|e| panic!("{e}"));
        for stall in [0.0, 0.4] {
            let mut sim = Sim::new(&netlist);
            sim.reset();
            let mut random = Random::new(3);
            let (mut sources, mut sinks) = ([Source::new("parts", &shape)], [Sink::new("out", &shape)]);
            let mut pushed = Vec::new();
            for packet in 0..3000u32 {
                let parts = 1 + packet % 3;
                for part in 0..parts {
                    let last = part + 1 == parts;
                    sources[0].push_values(&[("packet_psn", packet.into()), ("last", last.into())]);
                    pushed.push((u64::from(packet), last));
                }
            }
            // From packet to packet, by what is told of the buffer.
            let mut gaps = [const { Vec::new() }; 5];
            let (mut cycle, mut before) = (0u64, None);
            while sinks[0].items.len() < pushed.len() {
                let turn = cycle / TURN % 5;
                sim.set("pressed", [0, 1, 3, 7, 0][turn as usize]);
                sim.set("receives", u64::from(turn == 4 && cycle % 8 == 0));
                let came = sinks[0].items.len();
                step(&mut sim, &mut sources, &mut sinks, &mut random, stall);
                if cycle % TURN < KNOWN + u64::from(PACES[2]) {
                    before = None;
                } else if sinks[0].items[came..].iter().any(|item| !item["last"].is_zero()) {
                    gaps[turn as usize].extend(before.map(|before| cycle - before));
                    before = Some(cycle);
                }
                cycle += 1;
                assert!(cycle < 80_000, "it stands still");
            }
            let out: Vec<(u64, bool)> =
                sinks[0].items.iter().map(|i| (i["packet_psn"].to_u64(), !i["last"].is_zero())).collect();
            assert_eq!(out, pushed);
            for (gaps, pace) in gaps.iter().zip([1, PACES[0], PACES[1], PACES[2], PACES[0]].map(u64::from)) {
                assert!(gaps.len() > 20 && gaps.iter().all(|gap| *gap >= pace), "{pace}: {gaps:?}");
                // A packet has up to three parts.
                assert!(stall > 0.0 || gaps.iter().all(|gap| *gap < pace + 3), "{pace}: {gaps:?}");
            }
        }
    }
}
