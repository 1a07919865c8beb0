// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acknowledgements that loop: a row for each QP, in which the newest waits for room.
//!
//! ```text
//!  ACK, NAK --> row of its QP (block RAM), waiting? --> line of QPs --> may? --> row --> packet
//! ```
//!
//! The receive path must never wait for the transmit path to have room in the loop, for that room comes free as the receive path goes on. So an acknowledgement is
//! always taken: while an older one of its QP waits, it takes its place, for it acknowledges as much (IBTA volume 1, 9.7.5.1.2). An ACK does not take the place of a
//! NAK: it is that of a duplicate, and the responder sends the NAK only once (9.7.5.2.8; the same rule as in `responder::reply::order`).
//!
//! **Latency:** 2 cycles. **Throughput:** an ACK in, and one out in two cycles. **Reset:** the marks are swept, a QP a cycle; what comes meanwhile waits.

use crate::config::RnicConfig;
use crate::responder::reply::NAK_BIT;
use crate::stream::deep_fifo;
use crate::types::TxPacket;
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::wire::Opcode;

/// What an acknowledgement says.
#[derive(Clone, Bundle)]
struct Ack {
    psn: Sig,
    syndrome: Sig,
    msn: Sig,
}

/// What waits of a QP.
#[derive(Clone, Bundle)]
struct Waiting {
    /// An acknowledgement.
    any: Sig,
    /// That is a NAK.
    nak: Sig,
}

/// What comes out.
#[derive(Interface)]
pub struct Admitted {
    /// Acknowledgements.
    pub packets: Stream<TxPacket>,
    /// One leaves its row, and has its room from this cycle on.
    pub reserves: Sig,
}

/// Keeps acknowledgements until they `may` pass. Without loopback none comes.
#[module]
pub fn acks(m: &Scope, cfg: &RnicConfig, may: Sig, input: Stream<TxPacket>) -> Admitted {
    if !cfg.loopback {
        m.discard(&may);
        return Admitted { packets: input, reserves: lit(1, 0) };
    }
    let qp_bits = cfg.qp_bits();
    let (sweeping, swept) = (m.reg("sweeping", 1).reset(1), m.reg("swept", qp_bits).reset(0));
    m.when(sweeping, |m| {
        m.set(&swept, swept + 1);
        m.when(swept.all(), |m| m.set(&sweeping, 0));
    });
    let rows = m.mem("rows", cfg.qps, &Ack { psn: bits(24), syndrome: bits(8), msn: bits(24) });
    let rows = rows.style(Style::Block).build();
    let waiting = m.mem("waiting", cfg.qps, &Waiting { any: bits(1), nak: bits(1) });
    let waiting = waiting.style(Style::Distributed).build();
    let (line, lined) = m.later("line", &bits(qp_bits));

    // Out: the row is read in one cycle and offered in the next ones. In: in the other cycles.
    let held = m.reg("held", 1).reset(0);
    let qp = m.reg("qp", qp_bits).no_reset();
    let leaves = line.valid & may & !held & !sweeping;
    line.accept(may & !held & !sweeping);
    input.accept(!leaves & !sweeping);
    let comes = input.fire();
    let there = waiting.read_now(input.qp);
    let nak = input.syndrome.bit(NAK_BIT);
    let stays = comes & (nak | !(there.any & there.nak));
    rows.write(stays, input.qp, &Ack { psn: input.psn, syndrome: input.syndrome, msn: input.msn });
    let row = rows.read(m, leaves, line.payload, Collision::Never);
    m.when(leaves, |m| m.set(&qp, line.payload));
    let packet = TxPacket {
        qp,
        opcode: lit(8, Opcode::RcAcknowledge.code()),
        psn: row.psn,
        syndrome: row.syndrome,
        msn: row.msn,
        loops: lit(1, 1),
        ..TxPacket::of(cfg).zeros()
    };
    let out = Stream::new(m, "out", held, packet);
    m.when(leaves, |m| m.set(&held, 1)).otherwise_when(out.ready, |m| m.set(&held, 0));

    let is_new = comes & !there.any;
    let pushed = Stream::new(m, "pushed", is_new, input.qp);
    m.assert(!pushed.valid | pushed.ready, "the line has a place for every QP");
    lined.connect(deep_fifo(&m.label("queue"), cfg.qps, pushed));
    let at = sweeping.then(swept, leaves.then(line.payload, input.qp));
    waiting.write(sweeping | leaves | stays, at, &Waiting { any: stays, nak: nak & stays });
    m.discard(&input.payload);
    Admitted { packets: out, reserves: leaves }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    fn bench(qps: u32) -> (Sim, [Source; 1], [Sink; 1]) {
        let cfg = RnicConfig { qps, ..RnicConfig::named("generic-8b").unwrap() };
        let shape = TxPacket::of(&cfg);
        let netlist = build("bench", |m| {
            let admitted = acks(m, &cfg, m.input("may", 1), m.stream_in("in", &shape));
            m.stream_out("out", admitted.packets);
            let reserved = m.reg("reserved", 16).reset(0);
            m.set(&reserved, reserved + admitted.reserves.zext(16));
            m.output("reserved", &reserved);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        (0..qps + 2).for_each(|_| sim.tick());
        (sim, [Source::new("in", &shape)], [Sink::new("out", &shape)])
    }

    #[test]
    fn the_newest_of_each_queue_pair_comes_and_none_is_held_up() {
        for (seed, stall) in [(1, 0.0), (2, 0.3), (3, 0.8)] {
            let (mut sim, mut sources, mut sinks) = bench(16);
            let mut random = Random::new(seed);
            let mut newest = [None; 16];
            let mut open = 0u64;
            sources[0].stall = Some(0.2);
            for psn in 1..2_000u64 {
                let qp = random.rng.random_range(0..16usize);
                newest[qp] = Some(psn);
                sources[0].push_values(&[("qp", qp as u128), ("psn", psn.into()), ("msn", (psn + 7).into())]);
            }
            let mut cycles = 0;
            while sources[0].left() > 0 {
                if random.chance(0.02) {
                    open = 1 - open;
                }
                sim.set("may", open);
                step(&mut sim, &mut sources, &mut sinks, &mut random, stall);
                cycles += 1;
            }
            // A cycle for each that leaves, at most, and the source's own pauses.
            assert!(cycles < 4_000, "seed {}: {cycles} cycles", random.seed);
            sim.set("may", 1);
            (0..600).for_each(|_| step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0));
            let mut last = [None; 16];
            for item in &sinks[0].items {
                let (qp, psn) = (item["qp"].to_u64() as usize, item["psn"].to_u64());
                assert!(last[qp] < Some(psn), "seed {}: an older one came", random.seed);
                assert_eq!((item["msn"].to_u64(), item["loops"].to_u64()), (psn + 7, 1));
                last[qp] = Some(psn);
            }
            assert_eq!(last, newest, "seed {}", random.seed);
            assert_eq!(sim.get("reserved"), sinks[0].items.len() as u64, "seed {}: rooms", random.seed);
        }
    }

    #[test]
    fn an_ack_does_not_take_the_place_of_a_nak_and_a_newer_nak_does() {
        let (mut sim, mut sources, mut sinks) = bench(16);
        let mut random = Random::new(5);
        // Sequence NAK, the ACK of a duplicate, and of another QP an RNR NAK, that ACK, and a sequence NAK.
        for (qp, psn, syndrome) in
            [(3, 8, 0x60), (3, 7, 0x1f), (5, 2, 0x25), (5, 1, 0x1f), (5, 3, 0x60), (9, 4, 0x1f)]
        {
            sources[0].push_values(&[("qp", qp), ("psn", psn), ("syndrome", syndrome)]);
        }
        (0..10).for_each(|_| step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0));
        sim.set("may", 1);
        run(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 100, |s| s[0].items.len() == 3);
        assert_eq!(sinks[0].values("psn"), [8, 3, 4]);
        assert_eq!(sinks[0].values("syndrome"), [0x60, 0x60, 0x1f]);
        // The place of a NAK that has left is free for an ACK.
        sources[0].push_values(&[("qp", 3), ("psn", 9), ("syndrome", 0x1f)]);
        run(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 100, |s| s[0].items.len() == 4);
        assert_eq!(sinks[0].values("psn")[3], 9);
    }

    #[test]
    fn queue_pairs_have_their_turns_in_the_order_in_which_they_came() {
        let (mut sim, mut sources, mut sinks) = bench(16);
        let mut random = Random::new(4);
        for (qp, psn) in [(3, 1), (5, 2), (3, 3), (9, 4), (3, 5)] {
            sources[0].push_values(&[("qp", qp), ("psn", psn)]);
        }
        (0..10).for_each(|_| step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0));
        sim.set("may", 1);
        run(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 100, |s| s[0].items.len() == 3);
        assert_eq!(sinks[0].values("qp"), [3, 5, 9]);
        assert_eq!(sinks[0].values("psn"), [5, 2, 4]);
    }
}
