// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers that met congestion.

use super::*;
use ferrowire_spec::wire::ipv4::ECN_CE;
use ferrowire_spec::wire::opcode::Opcode;

/// All answers are marked: each is its QP's, and said to be, or is dropped.
#[test]
fn every_marked_answer_that_is_not_dropped_is_told_of_once() {
    for (stall, seed) in [(0.0, 61), (0.3, 62)] {
        let mut bench = bench(seed, stall);
        if stall > 0.0 {
            (bench.slack, bench.wait) = (2500, 400);
        }
        bench.ecn = ECN_CE;
        bench.play(1800);
        bench.compare();
        let (told, taken) = (bench.marked.iter().sum::<u64>(), bench.sources[ANSWER].cycles.len() as u64);
        assert!(bench.dropped > 20 && told > 200, "seed {seed}: {told}, {} dropped", bench.dropped);
        assert_eq!(told + bench.dropped, taken, "seed {seed}");
    }
}

#[test]
fn what_is_not_marked_or_not_of_the_queue_pair_is_not_told_of() {
    let mut bench = bench(63, 0.0);
    bench.start(0);
    bench.start(1);
    bench.send(0, 4);
    let psn = bench.qps[0].oldest_psn;
    for ecn in [0, 1, 2] {
        bench.ecn = ecn;
        bench.answer_at(0, 0, ACK);
    }
    bench.ecn = ECN_CE;
    // Seen before, not sent yet, of a reserved code; of another peer, to another address, of another partition, and of nobody.
    let oldest = bench.qps[0].oldest_psn;
    bench.push_answer(0, psn, ACK, &[]);
    bench.push_answer(0, (oldest + 9) % MODULUS, ACK, &[]);
    bench.push_answer(0, oldest, 0x45, &[]);
    let response = Opcode::RcReadResponseOnly.code().into();
    for other in [("origin_from_peer", 0), ("gid", 1), ("pkey", 0xfffe), ("dest_qpn", QPS as u128)] {
        bench.push_answer(0, oldest, ACK, &[other]);
        bench.push_answer(0, oldest, ACK, &[other, ("opcode", response)]);
    }
    // A QP that has sent nothing.
    bench.push_answer(1, bench.qps[1].oldest_psn, ACK, &[]);
    bench.compare();
    assert_eq!((bench.marked.iter().sum::<u64>(), bench.dropped), (0, 12));
    use DropReason as Reason;
    let others = [Reason::SourceAddress, Reason::Destination, Reason::Pkey, Reason::NoQp];
    let mut reasons = vec![Reason::GhostAck, Reason::GhostAck, Reason::Malformed];
    others.iter().for_each(|reason| reasons.extend([*reason; 2]));
    assert_eq!(bench.reasons[..11], reasons);
    for (syndrome, told) in [(SEQUENCE, 1), (ACK, 2)] {
        bench.answer_at(0, 0, syndrome);
        assert_eq!(bench.marked[..2], [told, 0]);
    }
    bench.end();
}
