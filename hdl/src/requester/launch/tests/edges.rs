// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each rule of the queue alone: its order, its room, bars and what they spare, and `late`.

use super::*;

impl Bench {
    fn report(&mut self, values: &[(&str, u128)]) {
        self.sources[REPORTS].push_values(values);
    }

    /// Packets with payload, of a QP, from a PSN on.
    fn packets(&mut self, qp: u128, psns: std::ops::Range<u128>) {
        for psn in psns {
            let kind = [("packet", 1), ("payload", 1), ("sent_fresh", 1)];
            self.report(&[&[("sent_qp", qp), ("sent_psn", psn)], &kind[..]].concat());
        }
    }

    fn verdicts(&mut self, n: usize) {
        (0..n).for_each(|_| self.sources[VERDICTS].push_values(&[("", 0)]));
    }

    /// As fast as reports leave.
    fn verdicts_apart(&mut self, n: usize) {
        for _ in 0..n {
            self.verdicts(1);
            self.steps(2);
        }
    }

    fn steps(&mut self, n: u32) {
        (0..n).for_each(|_| self.step());
    }
}

#[test]
fn a_flush_that_waits_goes_before_a_start_and_behind_the_reports() {
    let mut bench = Bench::new(11);
    bench.sinks[FLUSHED].stall = Some(1.0);
    // The queue is full: all wait before it.
    bench.packets(1, 0..PENDING as u128 + 10);
    bench.steps(PENDING + 20);
    bench.sources[FLUSH].push_values(&[("qp", 2), ("producer", 7)]);
    bench.start(2, 0x1234);
    bench.steps(5);
    bench.verdicts(PENDING as usize + 10);
    bench.steps(2 * PENDING + 50);
    assert_eq!(bench.sinks[SENT].items.len(), PENDING as usize + 10);
    assert_eq!((bench.started, bench.starts.len()), (0, 1), "the flush is before it");
    assert_eq!(bench.sources[REPORTS].left(), 0);
    bench.sinks[FLUSHED].stall = None;
    bench.steps(10);
    assert_eq!(bench.sinks[FLUSHED].values("producer"), [7]);
    assert_eq!(bench.started, 1);
    assert_eq!(bench.sinks[STARTED].values("psn"), [0x1234]);
    // A flush behind the start stays there.
    bench.start(3, 5);
    bench.steps(1);
    bench.sources[FLUSH].push_values(&[("qp", 3), ("producer", 8)]);
    bench.sinks[STARTED + 1].stall = Some(1.0);
    bench.steps(30);
    assert_eq!(bench.sinks[FLUSHED].items.len(), 1);
    bench.sinks[STARTED + 1].stall = None;
    bench.steps(10);
    assert_eq!((bench.started, bench.sinks[FLUSHED].items.len()), (2, 2));
}

#[test]
fn a_start_is_done_when_the_last_of_its_takers_has_it() {
    for (slow, beat_bytes) in (0..3).zip([8, 64, 8]) {
        let mut bench = Bench::of(beat_bytes, 12);
        bench.sinks[STARTED + slow].stall = Some(1.0);
        bench.start(4, 0xabcdef);
        bench.packets(4, 0..1);
        bench.verdicts(1);
        bench.steps(20);
        let takers: Vec<usize> = bench.sinks[STARTED..].iter().map(|sink| sink.items.len()).collect();
        assert_eq!(takers, [0, 1, 2].map(|i| usize::from(i != slow)));
        assert_eq!((bench.started, bench.sinks[SENT].items.len()), (0, 0), "nothing overtakes it");
        bench.sinks[STARTED + slow].stall = None;
        bench.steps(10);
        assert_eq!((bench.started, bench.sinks[SENT].items.len()), (1, 1));
    }
}

#[test]
fn a_bar_forgets_its_wqe_and_later_ones_and_a_start_lifts_it() {
    let (fresh, last) = (("sent_fresh", 1), ("sent_last", 1));
    let (packet, payload, fault) = (("packet", 1), ("payload", 1), ("sent_status", 4));
    let (again, new) = ([packet, payload, last], [packet, payload, fresh, last]);
    // Offset of the index, report, verdict of its payload, whether it is told, whether a message's place comes back.
    type Case<'a> = (u16, &'a [(&'a str, u128)], Option<u128>, bool, usize);
    let cases: [Case; 37] = [
        (6, &[packet, payload, fresh], Some(0), true, 0),
        (6, &new, Some(1), true, 1),
        // At once: the bar is not written yet.
        (6, &new, Some(1), false, 1),
        (7, &[packet, payload, fresh], Some(1), false, 0),
        // An earlier WQE, whole and in part; sent again, and new.
        (5, &again, Some(0), true, 0),
        (5, &[packet, payload], Some(0), true, 0),
        (4, &new, Some(0), true, 0),
        (0x8006, &again, Some(0), true, 0),
        // Later ones that were sent before the bar, and this one: whatever their payload.
        (6, &again, Some(0), false, 0),
        (7, &again, Some(0), false, 0),
        (7, &again, Some(1), false, 0),
        (0x8005, &again, Some(1), false, 0),
        // Without payload: new and again.
        (7, &[packet, fresh, last], None, false, 1),
        (6, &[packet, last], None, false, 0),
        (5, &[packet, last], None, true, 0),
        (5, &[packet, fresh, last], None, true, 0),
        // Failures: new and again. They bar nobody here.
        (6, &[fault, fresh, last], None, false, 0),
        (7, &[fault, last], None, false, 0),
        (5, &[fault, last], None, true, 0),
        (4, &[fault, fresh, last], None, true, 0),
        (5, &again, Some(0), true, 0),
        // New, in the middle of a message; with a good verdict, for it was read before the bar.
        (7, &[packet, fresh], None, false, 0),
        (8, &new, Some(0), false, 1),
        // An earlier one fails: its bar takes the place of the other, and no message's place comes back.
        (4, &again, Some(1), true, 0),
        (4, &again, Some(1), false, 0),
        (5, &again, Some(0), false, 0),
        (5, &[packet, fresh, last], None, false, 1),
        (0x8004, &again, Some(0), true, 0),
        (3, &[packet, last], None, true, 0),
        // In the middle of its message, for the first time.
        (2, &[packet, payload, fresh], Some(1), true, 0),
        (2, &new, Some(1), false, 1),
        (3, &[packet, last], None, false, 0),
        (1, &again, Some(0), true, 0),
        // The last of a message that is new.
        (0, &new, Some(1), true, 1),
        (0, &[packet, last], None, false, 0),
        (0xffff, &[packet, last], None, true, 0),
        (0x7fff, &[fault, last], None, false, 0),
    ];
    let behind: [Case; 4] = [
        (7, &[packet, fresh, last], None, true, 0),
        (6, &[fault, fresh, last], None, true, 0),
        // A packet that is sent again fails: it bars, and no place comes back.
        (6, &again, Some(1), true, 0),
        (6, &[packet, fresh, last], None, false, 1),
    ];
    // One behind the other, or another QP's between; over the end of the numbers or not.
    for (others, base) in [(true, 0xfff9), (false, 0xfffc), (false, 20), (true, 0x7ffc)] {
        let mut bench = Bench::new(13);
        let (mut told, mut sent, mut credits, mut psn) = (Vec::new(), Vec::new(), 0, 0);
        for (round, cases) in [&cases[..], &behind[..]].into_iter().enumerate() {
            if round > 0 {
                bench.start(5, 1);
            }
            for (ahead, report, verdict, tells, back) in cases {
                let index = ahead.wrapping_add(base).into();
                let of = [("sent_qp", 5), ("sent_psn", psn), ("sent_index", index)];
                bench.report(&[&of[..], *report].concat());
                if let Some(bad) = *verdict {
                    bench.sources[VERDICTS].push_values(&[("", bad)]);
                }
                if report.contains(&packet) {
                    let bytes = if verdict.is_some() { 64 } else { 0 };
                    bench.sources[PACKETS_IN].push_values(&[("psn", psn), ("payload_bytes", bytes)]);
                    if *tells || verdict.is_some() {
                        sent.push(psn as u64);
                    }
                }
                if *tells {
                    told.push(psn as u64);
                }
                credits += back;
                psn += 1;
                if others {
                    // It is none the worse.
                    let other = [("sent_qp", 6), ("sent_psn", 0xffff), ("sent_index", index)];
                    bench.report(&[&other[..], &[packet, fresh, last]].concat());
                    bench.sources[PACKETS_IN].push_values(&[("psn", 0xffff)]);
                }
            }
        }
        bench.steps(250);
        let mine = |sink: usize| {
            let psns = bench.sinks[sink].values("psn");
            let count = psns.iter().filter(|psn| **psn == 0xffff).count();
            assert_eq!(count, if others { psn as usize } else { 0 });
            psns.into_iter().filter(|psn| *psn != 0xffff).collect::<Vec<u64>>()
        };
        assert_eq!(mine(SENT), told);
        assert_eq!(mine(PACKETS_OUT), sent);
        assert_eq!(bench.credits, credits);
        let bars = [6, 4, 2, 0, 6].map(|ahead: u16| (5, ahead.wrapping_add(base).into()));
        assert_eq!(bench.bars(), bars);
        assert_eq!(bench.started, 1);
    }
}

#[test]
fn all_verdicts_have_a_place_while_the_head_of_the_queue_stands_still() {
    for by_flush in [true, false] {
        let mut bench = Bench::new(14);
        if by_flush {
            bench.sinks[FLUSHED].stall = Some(1.0);
            bench.sources[FLUSH].push_values(&[("qp", 2)]);
        } else {
            bench.sinks[STARTED].stall = Some(1.0);
            bench.start(2, 0);
        }
        bench.steps(5);
        // All the queue holds, and those that wait before it.
        let n = PENDING as usize + 20;
        bench.packets(1, 0..n as u128);
        bench.verdicts(n);
        bench.steps(2 * PENDING);
        assert_eq!(bench.sources[VERDICTS].left(), 0);
        assert_eq!(bench.sinks[SENT].items.len(), 0);
        assert!(bench.sources[REPORTS].left() > 0, "the queue is full");
        bench.sinks[FLUSHED].stall = None;
        bench.sinks[STARTED].stall = None;
        bench.steps(3 * PENDING);
        assert_eq!(bench.sinks[SENT].values("psn"), (0..n as u64).collect::<Vec<u64>>());
    }
}

#[test]
fn late_begins_when_a_report_stands_still_and_ends_when_all_are_told() {
    let mut bench = Bench::new(15);
    // Payload that does not come is no reason: its packet is not on the wire.
    bench.packets(1, 0..40);
    bench.steps(60);
    assert_eq!(bench.late, []);
    bench.verdicts(5);
    bench.steps(60);
    assert_eq!((bench.sinks[SENT].items.len(), bench.late.len()), (5, 0), "they went at once");
    // The completer stands still: from a few cycles on, for as long as it does, and some more.
    bench.sinks[SENT].stall = Some(1.0);
    bench.verdicts(20);
    let from = bench.sim.cycles();
    bench.steps(80);
    let first = bench.late[0];
    assert!((from + 4..from + 10).contains(&first), "{}", first - from);
    assert_eq!(bench.late.len() as u64, bench.sim.cycles() - first, "all the time");
    bench.sinks[SENT].stall = None;
    bench.steps(60);
    let (told, last) = (*bench.sinks[SENT].cycles.last().unwrap(), *bench.late.last().unwrap());
    assert_eq!(bench.sinks[SENT].items.len(), 25);
    assert_eq!(bench.late.len() as u64, last + 1 - first, "without a gap");
    assert!((told + 10..told + 15).contains(&last), "told {told}, late to {last}");
    // A flush or a start that waits does the same.
    for by_flush in [true, false] {
        let (before, told) = (bench.late.len(), bench.sinks[SENT].items.len());
        let from = bench.sim.cycles();
        bench.steps(30);
        bench.verdicts_apart(40 - 25);
        bench.steps(40);
        bench.packets(1, 0..15);
        if by_flush {
            bench.sinks[FLUSHED].stall = Some(1.0);
            bench.sources[FLUSH].push_values(&[("qp", 2)]);
            // It goes behind the reports that wait.
            bench.steps(20);
            bench.packets(1, 0..15);
            bench.verdicts_apart(15);
        } else {
            bench.sinks[STARTED + 2].stall = Some(1.0);
            bench.start(2, 0);
            bench.packets(1, 0..15);
            bench.verdicts_apart(15);
        }
        bench.steps(40);
        assert_eq!(bench.late.len(), before, "since {from}: nothing waits but for its payload");
        assert_eq!(bench.sinks[SENT].items.len(), told + 30);
        bench.verdicts(15);
        bench.steps(40);
        assert!(bench.late.len() > before + 30, "{} cycles", bench.late.len() - before);
        bench.sinks[FLUSHED].stall = None;
        bench.sinks[STARTED + 2].stall = None;
        bench.steps(46);
        assert_eq!(bench.sinks[SENT].items.len(), told + 45);
        let end = *bench.late.last().unwrap();
        bench.steps(20);
        assert_eq!(*bench.late.last().unwrap(), end, "it ends");
        // As in the beginning: 15 whose payload is missing.
        bench.packets(1, 0..15);
    }
}

/// No report waits longer than so many cycles while nothing says so; `late` stays until the completer has seen it.
fn all_that_is_late_is_covered(bench: &Bench, most: u64) -> usize {
    let late: std::collections::BTreeSet<u64> = bench.late.iter().copied().collect();
    let (came, told) = (&bench.sources[VERDICTS].cycles, &bench.sinks[SENT].cycles);
    assert_eq!(came.len(), told.len());
    let mut waited = 0;
    for (came, told) in came.iter().zip(told).filter(|(came, told)| **came + most < **told) {
        let bare = (came + most..=told + 10).find(|cycle| !late.contains(cycle));
        assert_eq!(bare, None, "seed {}: came {came}, told {told}", bench.random.seed);
        waited += 1;
    }
    waited
}

#[test]
fn late_covers_what_waits_for_a_completer_that_takes_a_report_every_few_cycles() {
    // Slower than every third cycle is to stand still.
    for every in [2, 3, 4, 5] {
        for n in [1, 4, 8, 16, 24, 40, 150] {
            let mut bench = Bench::new(15);
            bench.packets(1, 0..n);
            // All reports are there before the first verdict.
            bench.steps(n as u32 + 10);
            bench.verdicts(n as usize);
            for i in 0..every * n as u32 + 40 {
                bench.sinks[SENT].stall = Some(f64::from(i % every != 0));
                bench.step();
            }
            assert_eq!(bench.sinks[SENT].items.len(), n as usize);
            let came = &bench.sources[VERDICTS].cycles;
            assert_eq!(came[came.len() - 1] - came[0] + 1, n as u64, "a cycle apart");
            let waited = all_that_is_late_is_covered(&bench, u64::from(every.min(3) * MANY + 4));
            // From the beginning to the end at once; a few are no delay to speak of.
            let runs = bench.late.windows(2).filter(|two| two[0] + 1 != two[1]).count();
            assert_eq!(runs, 0, "every {every}, {n}: once");
            let none = n <= 8 && every < 4;
            assert!(n == 1 || bench.late.is_empty() == none, "every {every}, {n}");
            assert!(n < 40 || waited as u128 > n / 2, "every {every}, {n}: {waited} waited");
            let end = bench.sinks[SENT].cycles.last().unwrap() + 17;
            assert!(bench.late.iter().all(|cycle| *cycle < end), "every {every}, {n}: it ends");
        }
    }
}

#[test]
fn a_report_that_is_told_late_is_told_while_late_is_high() {
    for (seed, beat_bytes) in (16..20).zip([64, 8].into_iter().cycle()) {
        let mut bench = Bench::of(beat_bytes, seed);
        let mut last = 0;
        for _ in 0..200 {
            // Bursts, of a completer that is away for some time or takes one report in two cycles.
            let n = bench.random.rng.random_range(1..20);
            bench.packets(1, last..last + n);
            last += n;
            // Where beats are narrow it takes three cycles to write a report, and a verdict comes long after its own.
            if beat_bytes == 8 {
                bench.steps(3 * n as u32 + 10);
            }
            bench.verdicts(n as usize);
            bench.sinks[SENT].stall = Some(1.0);
            let away = [0, 2, 8, 30][bench.random.rng.random_range(0..4)];
            bench.steps(away);
            for i in 0..40 {
                bench.sinks[SENT].stall = Some(f64::from(i % 2));
                bench.step();
            }
        }
        bench.steps(100);
        assert_eq!(bench.sinks[SENT].items.len(), last as usize);
        let waited = all_that_is_late_is_covered(&bench, u64::from(2 * MANY + 4));
        let quiet = bench.sinks[SENT].cycles.iter().filter(|told| !bench.late.contains(told)).count();
        assert!(waited > 50 && quiet > 50, "seed {seed}: {waited} waited, {quiet} at once");
    }
}
