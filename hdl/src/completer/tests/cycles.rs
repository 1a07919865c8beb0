// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each event costs.

use super::*;
use ferrowire_spec::queue::SendOpcode;
use ferrowire_spec::wire::opcode::Opcode;

/// A card that has no time to lose, and one that has.
const BEATS: [u32; 2] = [64, 8];

#[test]
fn an_acknowledgement_a_message_takes_three_cycles_or_five() {
    for (beat_bytes, qps) in BEATS.into_iter().flat_map(|beat_bytes| [1, 8].map(|qps| (beat_bytes, qps))) {
        let cfg = RnicConfig { beat_bytes, selective: true, ..config(256, 128) };
        let mut bench = bench_of(&cfg, 13, 0.0);
        (0..qps).for_each(|qp| bench.start(qp));
        for i in 0..64 {
            bench.send_end(i % qps, true);
        }
        bench.steps(140);
        // The next ones are recorded meanwhile.
        for i in 0..64 {
            bench.send_end(i % qps, true);
        }
        for i in 0..64 {
            let psn = (bench.qps[i % qps].oldest_psn + (i / qps) as u32) % MODULUS;
            bench.answer(i % qps, psn, ACK);
        }
        bench.taken(ANSWER);
        let taken = &bench.sources[ANSWER].cycles;
        let most = taken.windows(2).map(|w| w[1] - w[0]).max();
        assert_eq!(most, Some(if cfg.unhurried() { 5 } else { 3 }), "{qps} queue pairs");
        bench.end();
    }
}

#[test]
fn other_answers_take_the_cycles_that_the_page_says() {
    for (beat_bytes, expected) in BEATS.into_iter().zip([[4, 3, 7, 4, 5, 4, 3], [5, 5, 11, 5, 6, 5, 5]]) {
        let mut bench =
            bench_of(&RnicConfig { beat_bytes, selective: true, ..config(32, LIMIT.into()) }, 14, 0.0);
        bench.start(0);
        bench.send_part(0);
        (0..6).for_each(|_| bench.send_end(0, true));
        bench.steps(40);
        let psn = bench.qps[0].oldest_psn;
        // A part of a message, a message, three messages, a duplicate, a NAK, the same once more, another message.
        let answers =
            [(0, ACK), (1, ACK), (4, ACK), (1, ACK), (5, SEQUENCE), (5, SEQUENCE), (5, ACK), (6, ACK)];
        for (ahead, syndrome) in answers {
            bench.answer(0, (psn + ahead) % MODULUS, syndrome);
        }
        bench.compare();
        let taken = &bench.sources[ANSWER].cycles;
        let cycles: Vec<u64> = taken.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!(cycles, expected);
        bench.end();
    }
}

#[test]
fn a_packet_takes_two_cycles() {
    let mut bench = bench_of(&config(256, 128), 70, 0.0);
    bench.start(0);
    bench.send_end(0, true);
    bench.taken(SENT);
    for _ in 0..20 {
        bench.send_part(0);
        bench.send_end(0, true);
        let psn = bench.qps[0].to_send;
        bench.send_again(0, (psn + MODULUS - 1) % MODULUS);
    }
    bench.taken(SENT);
    let taken = &bench.sources[SENT].cycles[1..];
    assert!(taken.windows(2).all(|w| w[1] - w[0] == 2), "{taken:?}");
    bench.end();
}

#[test]
fn the_values_of_atomics_leave_one_a_cycle() {
    for beat_bytes in BEATS {
        let mut bench =
            bench_of(&RnicConfig { beat_bytes, selective: true, ..config(32, LIMIT.into()) }, 15, 0.0);
        bench.start(0);
        bench.steps(2 * QPS);
        let psn = |i: u32| (bench.qps[0].to_send + i) % MODULUS;
        let psns: Vec<u32> = (0..6).map(psn).collect();
        for (i, psn) in psns.iter().enumerate() {
            bench.sources[SENT].push_values(&[
                ("psn", u128::from(*psn)),
                ("index", i as u128),
                ("fresh", 1),
                ("last", 1),
                ("signaled", 1),
                ("wqe_opcode", SendOpcode::CmpSwap.code().into()),
                ("answered", 1),
            ]);
        }
        let peer = u128::from(bench.qps[0].peer);
        let Bench { mut sim, mut sources, mut sinks, mut random, .. } = bench;
        let mut go = |sim: &mut Sim, sources: &mut [Source]| step(sim, sources, &mut sinks, &mut random, 0.0);
        (0..60).for_each(|_| go(&mut sim, &mut sources));
        for (i, psn) in psns.iter().enumerate() {
            sources[ANSWER].push_values(&[
                ("opcode", Opcode::RcAtomicAcknowledge.code().into()),
                ("psn", u128::from(*psn)),
                ("origin_from_peer", 1),
                ("origin_peer", peer),
                ("pkey", 0xffff),
                ("va", 1000 + i as u128),
            ]);
        }
        (0..120).for_each(|_| go(&mut sim, &mut sources));
        assert_eq!(sources[ANSWER].left(), 0);
        // `place` takes values in successive cycles, and does not ask whether they are there.
        sim.set("value_ready", 1);
        for i in 0..6 {
            assert_eq!((sim.get("value_valid"), sim.get("value")), (1, 1000 + i));
            go(&mut sim, &mut sources);
        }
        assert_eq!(sim.get("value_valid"), 0);
    }
}
