// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds requests back while the card is behind with what it receives.
//!
//! ```text
//!  parts ----> open? ----> parts
//!                ^
//!  pressed ------+-- cycles since the last packet
//!  both ---------+
//! ```
//!
//! Sending and receiving share the host's memory. A message that is sent and one that is received take three reads there, a write, and two
//! completions, so messages in both directions have one in 4 cycles, and one direction alone in 3. Who sends faster than that only fills the peer's packet
//! buffer, and what finds no room there is lost: the wire does not wait, requests can.
//!
//! So packets pass at the first pace of [`PACES`] where completions of both directions waited for each other in the last [`HOLD`] cycles (`both`),
//! or half of the packet buffer is taken (bit 0 of `pressed`), and at the second while three quarters are (bit 1). Large packets take longer
//! than either, and are not held back. It is never nothing, so nobody behind waits for ever, and a peer that floods the card stops nobody.
//!
//! Latency 0; paths from `valid` to `valid` and from `ready` to `ready`, one gate each. Reset: open.

use crate::requester::gather::Part;
use crate::rx::buffer::PRESSED;
use ferrowire_rtl::{cat, clog2, lit, module, Scope, Sig, Stream};

/// Cycles from packet to packet, by how far the card is behind.
pub const PACES: [u32; PRESSED as usize] = [4, 8];

/// Cycles for which completions of both directions count.
const HOLD: u32 = 256;

/// Lets packets pass.
#[module]
pub fn pace(m: &Scope, pressed: Sig, both: Sig, parts: Stream<Part>) -> Stream<Part> {
    let hold = m.reg("hold", clog2(u64::from(HOLD))).reset(0);
    m.when(both, |m| m.set(&hold, HOLD - 1)).otherwise_when(hold.any(), |m| m.set(&hold, hold - 1));
    let behind = m.delay("behind", &cat([&(pressed.bit(0) | hold.any()), &pressed.bit(1)]));
    let bits = PACES[1].ilog2();
    let left = m.reg("left", bits).reset(0);
    let shut = m.reg("shut", 1).reset(0);
    let out = Stream::new(m, "out", parts.valid & !shut, parts.payload.clone());
    parts.accept(out.ready & !shut);
    let ends = (out.fire() & out.last).named("ends");
    let rest = |pace: u32| lit(bits, pace - 1);
    let gap = m.select(behind, &[rest(1), rest(PACES[0]), rest(PACES[1]), rest(PACES[1])]);
    m.when(ends, |m| m.set(&left, gap)).otherwise_when(left.any(), |m| m.set(&left, left - 1));
    m.set(&shut, m.mux(ends, &behind.any(), &left.gt(lit(bits, 1))));
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
            m.stream_out("out", pace(m, m.input("pressed", PRESSED), m.input("both", 1), parts));
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
            let mut gaps = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
            let (mut cycle, mut before) = (0u64, None);
            while sinks[0].items.len() < pushed.len() {
                let turn = cycle / TURN % 4;
                sim.set("pressed", [0, 1, 3, 0][turn as usize]);
                sim.set("both", u64::from(turn == 3 && cycle % 64 == 0));
                let came = sinks[0].items.len();
                step(&mut sim, &mut sources, &mut sinks, &mut random, stall);
                if cycle % TURN < KNOWN + u64::from(PACES[1]) {
                    before = None;
                } else if sinks[0].items[came..].iter().any(|item| !item["last"].is_zero()) {
                    gaps[turn as usize].extend(before.map(|before| cycle - before));
                    before = Some(cycle);
                }
                cycle += 1;
                assert!(cycle < 60_000, "it stands still");
            }
            let out: Vec<(u64, bool)> =
                sinks[0].items.iter().map(|i| (i["packet_psn"].to_u64(), !i["last"].is_zero())).collect();
            assert_eq!(out, pushed);
            for (gaps, least) in gaps.iter().zip([1, PACES[0], PACES[1], PACES[0]].map(u64::from)) {
                assert!(gaps.len() > 20 && gaps.iter().all(|gap| *gap >= least), "{least}: {gaps:?}");
                // A packet has up to three parts.
                assert!(stall > 0.0 || gaps.iter().all(|gap| *gap < least + 3), "{least}: {gaps:?}");
            }
        }
    }
}
