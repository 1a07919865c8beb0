// SPDX-License-Identifier: MIT OR Apache-2.0
//! UC and UD: what the specification says of single packets. Random ones are in the test of all services.

use super::*;

/// A connection without answers, with receives of these lengths.
fn connection(bench: &mut Bench, qp: u32, shared: bool, lengths: &[u64]) {
    bench.model.qps[qp as usize].service = 1;
    begin(bench, qp, shared, lengths);
}

/// A queue pair of datagrams, likewise.
fn datagrams(bench: &mut Bench, qp: u32, shared: bool, lengths: &[u64]) {
    bench.model.qps[qp as usize].service = 2;
    begin(bench, qp, shared, lengths);
}

fn begin(bench: &mut Bench, qp: u32, shared: bool, lengths: &[u64]) {
    if shared {
        bench.create_srq(0);
        bench.model.qps[qp as usize].shared = Some(0);
    }
    let row = &mut bench.model.qps[qp as usize];
    (row.mtu, row.peer, row.pkey) = (256, 0x0a00_0001, 0xffff);
    bench.start(qp, 0x10_0000 * qp, QpState::Rts, 0..1);
    let row = &bench.model.qps[qp as usize];
    let pd = row.shared.map_or(row.pd, |srq| bench.model.srqs[srq].pd);
    let region = bench.model.regions.iter().find(|r| r.pd == pd).unwrap();
    let (va, key) = (region.va, region.key);
    for (i, length) in lengths.iter().enumerate() {
        bench.post(qp, &[Sge { va: va + 600 * i as u64, key, length: *length }]);
    }
}

/// A packet of a connection; FIRST and MIDDLE have a path MTU of bytes.
fn of_connection(bench: &mut Bench, qpn: u32, opcode: Opcode) -> Packet {
    let ends = opcode.position().ends();
    let mut packet = only(bench, qpn, 0, if ends { 64 } else { 256 });
    packet.opcode = opcode.code();
    packet
}

fn datagram(bench: &mut Bench, qpn: u32, length: usize) -> Packet {
    let mut packet = only(bench, qpn, 0, length);
    packet.opcode = Opcode::UdSendOnlyImm.code();
    packet.va = u64::from(bench.model.qps[qpn as usize].qkey) << 32 | 0xffab_cdef;
    packet.imm = 0x1234_5678;
    packet.grh = bench.random.bytes(40);
    packet
}

/// Drops, by name, without those of none.
fn drops(bench: &Bench) -> Vec<(&'static str, u64)> {
    COUNTERS.into_iter().zip(bench.counts).filter(|(_, n)| *n > 0).collect()
}

const BENCHES: [(u32, u64, f64); 3] = [(8, 30, 0.0), (64, 31, 0.0), (64, 32, 0.4)];

#[test]
fn a_datagram_tells_its_source_and_lies_behind_its_header() {
    for (beat_bytes, seed, stall) in BENCHES {
        for shared in [false, true] {
            let mut bench = bench(beat_bytes, seed, stall);
            datagrams(&mut bench, 0, shared, &[40, 104, 297, 600]);
            for length in [0, 64, 256, 255] {
                let packet = datagram(&mut bench, 0, length);
                bench.send(&packet);
            }
            bench.compare();
            assert_eq!(bench.ended.iter().map(|e| e.length).collect::<Vec<_>>(), [40, 104, 296, 295]);
            assert!(bench
                .ended
                .iter()
                .all(|e| e.source.is_some_and(|s| s.0 == 0xab_cdef) && e.opcode == 0x81));
            assert!(bench.answers.is_empty());
        }
    }
}

#[test]
fn a_datagram_that_does_not_fit_leaves_its_receive_to_the_next() {
    for (beat_bytes, seed, stall) in BENCHES {
        for shared in [false, true] {
            let mut bench = bench(beat_bytes, seed, stall);
            datagrams(&mut bench, 0, shared, &[100, 200, 60]);
            // Back to back: what follows is on its way before it is known that the one before does not fit.
            for length in [61, 60, 256, 161, 160, 21, 20, 0] {
                let packet = datagram(&mut bench, 0, length);
                bench.send(&packet);
            }
            bench.compare();
            assert_eq!(bench.ended.iter().map(|e| e.length).collect::<Vec<_>>(), [100, 200, 60]);
            assert_eq!(drops(&bench), [("no_receive", 1), ("too_long", 4)]);
            assert!(bench.sinks[FAULT].items.is_empty());
        }
    }
}

#[test]
fn a_datagram_with_another_queue_key_or_partition_is_dropped_whoever_sent_it() {
    let mut bench = bench(64, 33, 0.0);
    datagrams(&mut bench, 0, false, &[100; 3]);
    let good = datagram(&mut bench, 0, 10);
    let wrong_key = Packet { va: good.va ^ 1 << 32, ..good.clone() };
    let limited = Packet { va: good.va ^ 1 << 63, ..good.clone() };
    let partition = Packet { pkey: 0xfffe, ..good.clone() };
    // Also of the other family, which has its payload elsewhere.
    let offset = if good.ipv6 { good.offset - 20 } else { good.offset + 20 };
    let anybody = Packet { ipv6: !good.ipv6, source: 77, offset, ..good.clone() };
    for packet in [wrong_key, limited, partition, anybody, good] {
        bench.send(&packet);
    }
    bench.compare();
    assert_eq!(drops(&bench), [("pkey", 1), ("qkey", 2)]);
    assert_eq!(bench.ended.len(), 2);
    assert_ne!(bench.ended[0].source.unwrap().1, bench.ended[1].source.unwrap().1, "one of each family");
}

#[test]
fn the_fault_of_a_receive_ends_a_queue_pair_without_an_answer() {
    for service in [1, 2] {
        let mut bench = bench(64, 34, 0.0);
        bench.model.qps[0].service = service;
        begin(&mut bench, 0, false, &[]);
        bench.post(0, &[Sge { va: 0x1000, key: 0xdead_be00, length: 100 }]);
        let packet = match service {
            1 => of_connection(&mut bench, 0, Opcode::UcSendOnly),
            _ => datagram(&mut bench, 0, 10),
        };
        bench.send(&packet);
        bench.compare();
        assert_eq!(ends(&bench), [(0, 0, WcStatus::LocProtErr)]);
        assert!(bench.answers.is_empty());
        assert_eq!(bench.sinks[FAULT].items.len(), 1);
    }
}

#[test]
fn a_message_of_which_a_packet_is_missing_is_given_up_and_its_receive_is_for_the_next() {
    use Opcode::*;
    // Which packets are lost, of messages of three packets; and how many messages arrive.
    for (lost, arrive) in [(vec![4], 2), (vec![5], 2), (vec![3], 2), (vec![1, 6], 1), (vec![2, 3], 1)] {
        for (beat_bytes, seed, stall) in BENCHES {
            for shared in [false, true] {
                let mut bench = bench(beat_bytes, seed, stall);
                connection(&mut bench, 0, shared, &[600; 3]);
                let from = bench.model.qps[0].expected;
                for i in 0..9 {
                    let opcode = [UcSendFirst, UcSendMiddle, UcSendLast][i % 3];
                    let mut packet = of_connection(&mut bench, 0, opcode);
                    packet.psn = from + i as u32;
                    if !lost.contains(&i) {
                        bench.send(&packet);
                    }
                }
                bench.compare();
                assert_eq!(bench.ended.len(), arrive, "{lost:?}");
                assert!(bench.answers.is_empty());
                assert!(bench.ended.iter().all(|e| e.length == 576 && e.status == WcStatus::Success));
            }
        }
    }
}

#[test]
fn a_message_begins_in_the_middle_of_another_and_takes_its_place() {
    use Opcode::*;
    for shared in [false, true] {
        let mut bench = bench(64, 35, 0.0);
        connection(&mut bench, 0, shared, &[600; 2]);
        for opcode in [UcSendFirst, UcSendFirst, UcSendMiddle, UcSendOnly, UcSendLast, UcSendOnlyImm] {
            let packet = of_connection(&mut bench, 0, opcode);
            bench.send(&packet);
        }
        bench.compare();
        assert_eq!(bench.ended.iter().map(|e| e.length).collect::<Vec<_>>(), [64, 64]);
        assert_eq!(drops(&bench), [("sequence", 1)]);
    }
}

#[test]
fn a_message_longer_than_its_receive_is_given_up_and_the_next_is_not() {
    use Opcode::*;
    for (beat_bytes, seed, stall) in BENCHES {
        for shared in [false, true] {
            let mut bench = bench(beat_bytes, seed, stall);
            connection(&mut bench, 0, shared, &[511, 600]);
            for opcode in [UcSendFirst, UcSendMiddle, UcSendMiddle, UcSendLast, UcSendOnly, UcSendOnly] {
                let packet = of_connection(&mut bench, 0, opcode);
                bench.send(&packet);
            }
            bench.compare();
            assert_eq!(bench.ended.iter().map(|e| e.length).collect::<Vec<_>>(), [64, 64]);
            assert_eq!(drops(&bench), [("too_long", 1), ("sequence", 2)]);
        }
    }
}

#[test]
fn writes_without_a_right_are_dropped_with_all_of_their_message() {
    use Opcode::*;
    for (beat_bytes, seed, stall) in BENCHES {
        for shared in [false, true] {
            let mut bench = bench(beat_bytes, seed, stall);
            connection(&mut bench, 0, shared, &[0]);
            bench.latency = 30..=30;
            // It begins before its region: what lies in there is not written either.
            for opcode in [UcWriteFirst, UcWriteMiddle, UcWriteLastImm] {
                let mut packet = of_connection(&mut bench, 0, opcode);
                (packet.va, packet.dma_length) = (packet.va.wrapping_sub(128), 576);
                bench.send(&packet);
            }
            let mut wrong = of_connection(&mut bench, 0, UcWriteOnlyImm);
            wrong.rkey ^= 1;
            bench.send(&wrong);
            let good = of_connection(&mut bench, 0, UcWriteOnlyImm);
            bench.send(&good);
            bench.compare();
            assert_eq!(bench.ended.iter().map(|e| (e.opcode, e.length)).collect::<Vec<_>>(), [(0x84, 64)]);
            assert_eq!(drops(&bench), [("sequence", 2), ("malformed", 2), ("writes", 1)]);
            assert!(bench.answers.is_empty() && bench.sinks[FAULT].items.is_empty());
        }
    }
}

/// What follows in a message that has been given up is out of sequence, whatever else is wrong with it.
#[test]
fn the_rest_of_a_message_that_was_refused_is_out_of_sequence() {
    use Opcode::*;
    for (beat_bytes, seed, stall) in BENCHES {
        for (rest, length, receives) in [
            (UcWriteLast, 30, vec![]),
            (UcWriteMiddle, 255, vec![]),
            (UcWriteLastImm, 64, vec![]),
            (UcWriteLastImm, 64, vec![100]),
            (UcSendMiddle, 200, vec![100]),
            (UcSendLast, 0, vec![100]),
        ] {
            let mut bench = bench(beat_bytes, seed, stall);
            connection(&mut bench, 0, false, &receives);
            bench.latency = 30..=30;
            let send = matches!(rest, UcSendMiddle | UcSendLast);
            let mut first = of_connection(&mut bench, 0, if send { UcSendFirst } else { UcWriteFirst });
            (first.rkey, first.dma_length) = (first.rkey ^ 1, 320);
            let mut last = of_connection(&mut bench, 0, rest);
            (last.psn, last.payload) = (first.psn + 1, vec![7; length]);
            [first, last].iter().for_each(|packet| bench.send(packet));
            bench.compare();
            let why = if send { "too_long" } else { "malformed" };
            let mut due = vec![(why, 1), ("sequence", 1)];
            due.sort_by_key(|(name, _)| COUNTERS.iter().position(|other| name == other));
            assert_eq!(drops(&bench), due, "{rest:?} of {length} bytes");
        }
    }
}

#[test]
fn a_receive_that_a_given_up_message_took_of_a_shared_queue_is_flushed_with_its_queue_pair() {
    for by_datagram in [false, true] {
        for to_error in [false, true] {
            let mut bench = bench(64, 36, 0.0);
            if by_datagram {
                datagrams(&mut bench, 0, true, &[100, 100]);
                let packet = datagram(&mut bench, 0, 100);
                bench.send(&packet);
            } else {
                connection(&mut bench, 0, true, &[600, 600]);
                let first = of_connection(&mut bench, 0, Opcode::UcSendFirst);
                bench.send(&first);
                let mut late = of_connection(&mut bench, 0, Opcode::UcSendLast);
                late.psn += 1;
                bench.send(&late);
            }
            bench.drain();
            assert!(bench.ended.is_empty());
            match to_error {
                true => {
                    bench.set_state(0, QpState::Err);
                    bench.model.flush(0);
                    bench.drain();
                }
                false => bench.set_state(0, QpState::Reset),
            }
            assert_eq!(ends(&bench), [(0, 0, WcStatus::WrFlushErr)]);
            bench.compare();
        }
    }
}

#[test]
fn a_new_life_does_not_begin_with_what_is_to_be_put_right_of_the_old_one() {
    for (beat_bytes, seed, stall) in BENCHES {
        let mut bench = bench(beat_bytes, seed, stall);
        datagrams(&mut bench, 0, false, &[50, 100]);
        // Too long; the queue pair is reset while that is found out.
        let packet = datagram(&mut bench, 0, 100);
        bench.push(&packet);
        bench.taken();
        bench.set_state(0, QpState::Reset);
        datagrams(&mut bench, 0, false, &[100, 100]);
        for _ in 0..2 {
            let packet = datagram(&mut bench, 0, 60);
            bench.send(&packet);
        }
        bench.drain();
        assert_eq!(ends(&bench), [(0, 0, WcStatus::Success), (0, 1, WcStatus::Success)], "seed {seed}");
    }
}

#[test]
fn no_packet_waits_until_what_became_of_the_one_before_is_known() {
    for (opcode, length) in [
        (Opcode::UdSendOnly, 64),
        (Opcode::UcSendOnly, 64),
        (Opcode::UcWriteOnly, 64),
        (Opcode::UcWriteMiddle, 256),
    ] {
        let mut bench = bench(64, 37, 0.0);
        bench.latency = 4..=4;
        bench.model.qps[0].service = if opcode == Opcode::UdSendOnly { 2 } else { 1 };
        begin(&mut bench, 0, false, &[600; RECEIVES as usize]);
        bench.sources[FRAME].stall = Some(0.0);
        bench.drain();
        let mut first = of_connection(&mut bench, 0, Opcode::UcWriteFirst);
        first.dma_length = 8000;
        if opcode == Opcode::UcWriteMiddle {
            bench.send(&first);
        }
        let from = bench.sources[FRAME].cycles.len();
        for _ in 0..RECEIVES {
            let mut packet = of_connection(&mut bench, 0, opcode);
            packet.dma_length = length as u32;
            if opcode == Opcode::UdSendOnly {
                packet = datagram(&mut bench, 0, length);
            }
            bench.send(&packet);
        }
        let placed = bench.placed(from, RECEIVES as usize);
        let each = |cycles: &[u64]| {
            let n = cycles.len();
            (cycles[n - 1] - cycles[n - 17]) as f64 / 16.0
        };
        let (checked, placed) = (each(&bench.sources[REQUEST].cycles), each(&placed));
        println!("{opcode:?}: {checked} cycles to check, {placed} to place");
        // Those of a path MTU have more beats.
        assert!(checked <= 3.0 && (length > 64 || placed <= 4.0), "{opcode:?}: {checked}, {placed} cycles");
        bench.compare();
    }
}
