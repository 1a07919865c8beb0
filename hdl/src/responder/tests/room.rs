// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host that keeps its receive queue full to the last place, and one that does not count.

use super::*;

/// Fills a queue with receives of 600 bytes, and rings for each.
fn fill(bench: &mut Bench, number: u32, place: u64, pd: u32) {
    let region = bench.model.regions.iter().find(|r| r.pd == pd).unwrap();
    let sge = Sge { va: region.va, key: region.key, length: 600 };
    (0..RECEIVES as u16).for_each(|i| bench.put(number, place + 64 * u64::from(i), i, &[sge]));
}

/// QP 0, and QP 1 beside it if they share a queue. The number of their queue.
fn begin(bench: &mut Bench, shared: bool) -> u32 {
    if shared {
        bench.create_srq_of(0, RECEIVES);
    }
    for qp in 0..2 {
        bench.model.qps[qp as usize].shared = shared.then_some(0);
        bare(bench, qp, 0..1);
    }
    let number = if shared { 1 << (bench.cfg.rq_bits() - 1) } else { 0 };
    let place = if shared { shared_queue(0) } else { queue(0) };
    // The first shared queue is of the first QP's domain.
    fill(bench, number, place, 5);
    number
}

/// Sends SENDs for some cycles, and posts a receive for each that has ended, as soon as its completion has come.
fn race(bench: &mut Bench, number: u32, cycles: u32, sent: &mut [u32; 2], producer: &mut u16) {
    let sharers = if number == 0 { 1 } else { 2 };
    for _ in 0..cycles {
        bench.step();
        let done = bench.ended.len() as u32;
        let all: u32 = sent.iter().sum();
        if bench.sources[REQUEST].left() < 4 && all < done + 16 {
            let qp = bench.random.rng.random_range(0..sharers);
            let mut packet = message(bench, qp, true);
            packet.psn += sent[qp as usize];
            bench.push(&packet);
            sent[qp as usize] += 1;
        }
        let newest = (done + RECEIVES as u32) as u16;
        if newest != *producer && bench.sources[DOORBELL].left() == 0 {
            *producer = newest;
            bench.sources[DOORBELL].push_values(&[("queue", number.into()), ("producer", newest.into())]);
        }
    }
}

#[test]
fn a_host_that_keeps_its_queue_full_is_never_refused() {
    for (beat_bytes, seed, stall) in [(64, 31, 0.0), (8, 32, 0.0), (64, 33, 0.3), (8, 34, 0.5)] {
        for shared in [false, true] {
            let mut bench = bench(beat_bytes, seed, stall);
            let number = begin(&mut bench, shared);
            bench.sources[DOORBELL].stall = Some(0.0);
            bench.sinks[COMPLETION].stall = Some(0.0);
            let (mut sent, mut producer) = ([0; 2], RECEIVES as u16);
            race(&mut bench, number, 6000, &mut sent, &mut producer);
            let good = bench.ended.len();
            assert!(good > 100, "seed {seed}: {good} messages");
            if !shared {
                // The same with what is flushed.
                bench.set_state(0, QpState::Err);
                race(&mut bench, number, 2000, &mut sent, &mut producer);
                assert!(bench.ended.len() > good + 30, "seed {seed}: {} flushed", bench.ended.len() - good);
            }
            let what = format!("seed {seed}, shared {shared}");
            assert!(bench.sinks[OVERRUN].items.is_empty(), "{what}");
            for (i, end) in bench.ended.iter().enumerate() {
                assert_eq!(usize::from(end.index), i, "{what}");
                let flushed = end.status == WcStatus::WrFlushErr;
                assert!(flushed || end.status == WcStatus::Success, "{what}: {end:?}");
                assert!(!flushed || i >= good.saturating_sub(1), "{what}: {i}");
            }
            bench.drain();
            if !shared {
                assert_eq!(bench.ended.len(), usize::from(producer), "{what}: all is flushed");
            }
        }
    }
}

#[test]
fn a_shared_queue_that_is_overrun_ends_those_who_take_from_it() {
    for (beat_bytes, seed, stall) in [(64, 35, 0.0), (8, 36, 0.4)] {
        let mut bench = bench(beat_bytes, seed, stall);
        let number = begin(&mut bench, true);
        let (mut sent, mut producer) = ([0; 2], RECEIVES as u16);
        race(&mut bench, number, 400, &mut sent, &mut producer);
        bench.drain();
        let (good, bytes) = (bench.ended.len(), bench.bytes().len());
        let beyond = bench.ended.len() as u16 + RECEIVES as u16 + 1;
        bench.sources[DOORBELL].push_values(&[("queue", number.into()), ("producer", beyond.into())]);
        bench.drain();
        assert_eq!(bench.sinks[OVERRUN].values(""), [u64::from(number)], "seed {seed}");
        assert!(bench.sinks[FAULT].items.is_empty(), "seed {seed}: who takes nothing goes on");
        // A WRITE needs no receive.
        let mut write = only(&mut bench, 0, 0, 64);
        write.psn += sent[0];
        bench.push(&write);
        bench.drain();
        assert_eq!(bench.bytes().len(), bytes + 64, "seed {seed}");
        let mut packet = message(&mut bench, 1, true);
        packet.psn += sent[1];
        bench.push(&packet);
        bench.drain();
        assert_eq!(bench.sinks[FAULT].values("qp"), [1], "seed {seed}");
        assert_eq!(bench.bytes().len(), bytes + 64, "seed {seed}: nothing is placed");
        assert_eq!(ends(&bench)[good..], [(1, good as u16, WcStatus::LocProtErr)], "seed {seed}");
        let last = bench.answers.last().unwrap();
        assert_eq!((last.0, last.2), (1, 0x63), "seed {seed}");
    }
}
