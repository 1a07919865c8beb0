// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests whose payload is still on its way from host memory let others go before them.
//!
//! ```text
//!  packets ----> open? ----> packets
//!                ^  ^
//!  others -------+  +-- payloads at hand, less packets that have passed <--- came
//! ```
//!
//! A request goes to `build` before its payload has come, so that its headers are ready then. What is chosen behind it waits, and answers would
//! leave at the pace at which the host brings payload: so slow that the responder, which waits for the answers, holds up what is received. So
//! a packet whose payload is not at hand is offered only where nobody else offered one in the cycle before, or has been
//! already. `others` is of that cycle; of answers it tells those that come, too.
//!
//! `came`: payloads that are at hand now, in the packets' order. Nobody waits for ever: payload comes whether its packet has passed or
//! not, and then `arbitrate` gives it its turn.
//!
//! Latency 0; paths from `others` and `valid` to `valid`, and from `ready` to `ready`. Reset: nothing is at hand.

use crate::requester::PENDING;
use crate::types::TxPacket;
use ferrowire_rtl::{clog2, module, Scope, Sig, Stream};

/// Payloads that may come in a cycle, as a number: one from memory, one that came with its WQE.
pub const CAME: u32 = 2;

/// Lets packets pass. `others`: another source offered one in the cycle before.
#[module]
pub fn give_way(m: &Scope, others: Sig, came: Sig, packets: Stream<TxPacket>) -> Stream<TxPacket> {
    // Below zero where packets are ahead of their payload.
    let bits = clog2(u64::from(2 * PENDING)) + 2;
    let ahead = m.reg("ahead", bits).reset(0);
    let at_hand = m.reg("at_hand", 1).reset(0);
    let offered = m.reg("offered", 1).reset(0);
    let pays = packets.payload_bytes.any();
    let open = !others | at_hand | offered | !pays;
    let out = Stream::new(m, "out", packets.valid & open, packets.payload.clone());
    packets.accept(out.ready & open);
    // An offer stands.
    m.set(&offered, out.valid & !out.ready);
    // What passes is known late, and counted a cycle later.
    let passed = m.reg("passed", 1).reset(0);
    m.set(&passed, out.fire() & pays);
    m.set(&ahead, ahead + came.zext(bits) - passed.zext(bits));
    m.set(&at_hand, !ahead.msb() & ahead.any() & !(passed & ahead.eq(1)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RnicConfig;
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};

    fn sim(cfg: &RnicConfig) -> Sim {
        let netlist = build("bench", |m| {
            let packets = m.stream_in("packets", &TxPacket::of(cfg));
            m.stream_out("out", give_way(m, m.input("others", 1), m.input("came", CAME), packets));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        sim
    }

    #[test]
    fn a_packet_goes_before_its_payload_only_where_nobody_waits() {
        let cfg = RnicConfig::named("generic-64b").unwrap();
        for (others, bytes, came, passes) in
            [(0, 64, 0, true), (1, 64, 0, false), (1, 64, 1, true), (1, 0, 0, true), (1, 64, 2, true)]
        {
            let what = format!("others {others}, {bytes} bytes, {came} at hand");
            let mut sim = sim(&cfg);
            let mut random = Random::new(1);
            let mut sources = [Source::new("packets", &TxPacket::of(&cfg))];
            let mut sinks = [Sink::new("out", &TxPacket::of(&cfg))];
            sim.set("others", others);
            sim.set("came", came);
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
            sim.set("came", 0);
            for _ in 0..4 {
                step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
            }
            for psn in 0..3 {
                sources[0].push_values(&[("psn", psn), ("payload_bytes", bytes)]);
            }
            for _ in 0..20 {
                step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
            }
            let passed = sinks[0].items.len();
            assert_eq!(passed > 0, passes, "{what}");
            // The count is a cycle old.
            let at_hand = came as usize + 1;
            assert!(others == 0 || bytes == 0 || passed <= at_hand, "{what}: {passed} passed");
            sim.set("others", 0);
            for _ in 0..20 {
                step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
            }
            assert_eq!(sinks[0].values("psn"), [0, 1, 2], "{what}");
        }
    }

    #[test]
    fn an_offer_stands_and_all_pass_in_order_when_their_payload_has_come() {
        let cfg = RnicConfig::named("generic-64b").unwrap();
        for seed in 1..5 {
            let mut sim = sim(&cfg);
            let mut random = Random::new(seed);
            let mut sources = [Source::new("packets", &TxPacket::of(&cfg))];
            let mut sinks = [Sink::new("out", &TxPacket::of(&cfg))];
            let mut left = 0u32;
            for psn in 0..200u32 {
                let pays = random.chance(0.7);
                left += u32::from(pays);
                sources[0].push_values(&[("psn", psn.into()), ("payload_bytes", if pays { 64 } else { 0 })]);
            }
            let mut stood = false;
            for _ in 0..4000 {
                let came = u32::from(random.chance(0.2)).min(left);
                left -= came;
                sim.set("came", came.into());
                sim.set("others", u64::from(random.chance(0.8)));
                let before = sinks[0].items.len();
                step(&mut sim, &mut sources, &mut sinks, &mut random, 0.4);
                let offers = sim.get("out_valid") == 1;
                assert!(
                    !stood || offers || sinks[0].items.len() > before,
                    "seed {seed}: an offer was taken back"
                );
                stood = offers && sinks[0].items.len() == before;
            }
            assert!(sinks[0].values("psn").into_iter().eq(0..200), "seed {seed}");
        }
    }
}
