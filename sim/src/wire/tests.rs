// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a link does to beats and frames, and that captures read back.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;

const WIDTH: usize = 8;

fn frames(n: usize) -> Vec<Vec<u8>> {
    (0..n).map(|i| (0..20 + 7 * i).map(|b| (b * 3 + i) as u8).collect()).collect()
}

/// Sends `frames` as fast as the link takes them, to a receiver that takes a beat when `stall` is false. What arrives, and
/// in which cycle its first beat did.
fn run(link: &mut Link, frames: &[Vec<u8>], mut stall: impl FnMut(u64) -> bool) -> Vec<(u64, Vec<u8>)> {
    let mut beats: VecDeque<Beat> = frames
        .iter()
        .flat_map(|frame| (0..frame.len()).step_by(WIDTH).map(|at| Beat::of(frame, at, WIDTH)))
        .collect();
    let (mut got, mut open) = (Vec::new(), None);
    let mut before: Option<Beat> = None;
    for cycle in 0..1000 {
        let tx = beats.front().copied();
        let ready = link.ready(cycle);
        let beat = link.deliver(cycle, tx.as_ref());
        let taken = beat.is_some() && !stall(cycle);
        if before.is_some() {
            assert_eq!(beat, before, "a beat on offer stays, cycle {cycle}");
        }
        before = beat.filter(|_| !taken);
        if let Some(beat) = beat.filter(|_| taken) {
            let (_, frame) = open.get_or_insert((cycle, Vec::new()));
            frame.extend_from_slice(&beat.data[..WIDTH - usize::from(beat.empty)]);
            if beat.last {
                got.extend(open.take());
            }
        }
        let sent = tx.filter(|_| ready);
        link.commit(cycle, sent.as_ref(), taken);
        if sent.is_some() {
            beats.pop_front();
        }
    }
    assert!(link.idle());
    got
}

#[test]
fn beats_cross_in_the_cycle_they_are_sent_or_the_latency_later() {
    for latency in [0, 1, 9] {
        let mut link = Link::new(WIDTH, latency);
        link.mark(true);
        let got = run(&mut link, &frames(5), |_| false);
        assert_eq!(got.iter().map(|(_, f)| f.clone()).collect::<Vec<_>>(), frames(5));
        let sent: Vec<u64> = link.marks().iter().map(|mark| mark.first + latency).collect();
        assert_eq!(got.iter().map(|(cycle, _)| *cycle).collect::<Vec<_>>(), sent);
        // Without a bubble.
        assert_eq!(sent[4] - sent[0], frames(4).iter().map(|f| f.len().div_ceil(WIDTH) as u64).sum::<u64>());
    }
}

#[test]
fn a_wire_with_a_rate_keeps_the_sender_waiting() {
    let mut link = Link::new(WIDTH, 0);
    link.set_rate(Some(2.5));
    link.mark(true);
    let frames = vec![vec![1; 76]; 5];
    run(&mut link, &frames, |_| false);
    let starts: Vec<u64> = link.marks().iter().map(|mark| mark.first).collect();
    assert_eq!(starts, [0, 40, 80, 120, 160]);
}

#[test]
fn whole_frames_come_when_they_are_due_and_no_faster_than_the_wire() {
    for filtered in [false, true] {
        let mut link = Link::new(WIDTH, 10);
        link.set_rate(Some(2.5));
        link.set_filter(filtered.then(|| -> Filter { Box::new(|frame| vec![frame.to_vec()]) }));
        assert_eq!((link.due(), link.free_at(), link.ready(0)), (None, 0, true));
        link.send(0, vec![1; 76]);
        // 100 bytes with all that Ethernet adds, from the middle of the cycle before on.
        assert_eq!((link.due(), link.free_at()), (Some(11), 40));
        assert!(!link.ready(39) && link.ready(40) && !link.idle());
        link.send(40, vec![2; 76]);
        assert_eq!(link.arrived(10), None);
        assert_eq!(link.arrived(11), Some(vec![1; 76]));
        assert_eq!((link.arrived(50), link.due()), (None, Some(51)));
        assert_eq!(link.arrived(99), Some(vec![2; 76]));
        assert!(link.idle() && link.frames() == 2);
    }
}

#[test]
fn a_receiver_may_stall_and_frames_may_be_injected_between() {
    for (latency, seed) in [(0, 1), (0, 2), (3, 3), (3, 4)] {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut link = Link::new(WIDTH, latency);
        link.inject(7, vec![0xee; 33]);
        link.inject(20, vec![0xdd; 9]);
        let got = run(&mut link, &frames(9), |_| rng.random_bool(0.4));
        let (mut injected, rest): (Vec<_>, Vec<_>) =
            got.into_iter().map(|(_, f)| f).partition(|f| f[0] >= 0xdd && f[0] == f[1]);
        assert_eq!(rest, frames(9), "seed {seed}");
        injected.sort();
        assert_eq!(injected, [vec![0xdd; 9], vec![0xee; 33]], "seed {seed}");
    }
}

#[test]
fn a_filter_sees_whole_frames_and_decides_what_arrives() {
    let mut link = Link::new(WIDTH, 2);
    link.keep_frames(true);
    let mut n = 0;
    link.set_filter(Some(Box::new(move |frame| {
        n += 1;
        match n {
            2 => Vec::new(),
            3 => vec![frame.to_vec(), vec![1, 2, 3]],
            _ => vec![frame.to_vec()],
        }
    })));
    let sent = frames(4);
    let got: Vec<Vec<u8>> = run(&mut link, &sent, |_| false).into_iter().map(|(_, f)| f).collect();
    assert_eq!(got, [sent[0].clone(), sent[2].clone(), vec![1, 2, 3], sent[3].clone()]);
    let notes: Vec<Option<String>> = link.take_frames().into_iter().map(|f| f.note).collect();
    assert_eq!(notes, [None, Some("dropped".into()), Some("2 delivered instead".into()), None]);
}

#[test]
fn what_changes_while_a_frame_passes_is_for_the_next_one() {
    for latency in [0, 3] {
        for (at, drops) in [(2, true), (2, false), (0, true)] {
            let mut link = Link::new(WIDTH, latency);
            let drop_all = || -> Option<Filter> { Some(Box::new(|_| Vec::new())) };
            if !drops {
                link.set_filter(drop_all());
            }
            let sent = frames(3);
            assert!(sent.iter().all(|frame| frame.len() > WIDTH));
            let beats: Vec<Beat> = sent
                .iter()
                .flat_map(|frame| (0..frame.len()).step_by(WIDTH).map(|from| Beat::of(frame, from, WIDTH)))
                .collect();
            let in_first = sent[0].len().div_ceil(WIDTH).min(at);
            let (mut got, mut frame) = (Vec::new(), Vec::new());
            for cycle in 0..beats.len() + 20 {
                if cycle == in_first {
                    link.set_filter(if drops { drop_all() } else { None });
                    link.keep_frames(true);
                }
                let tx = beats.get(cycle);
                let beat = link.deliver(cycle as u64, tx);
                link.commit(cycle as u64, tx, beat.is_some());
                if let Some(beat) = beat {
                    frame.extend_from_slice(&beat.data[..WIDTH - usize::from(beat.empty)]);
                    if beat.last {
                        got.push(std::mem::take(&mut frame));
                    }
                }
            }
            // All of a frame, or nothing.
            let changed = usize::from(in_first > 0);
            let expected = if drops { &sent[..changed] } else { &sent[changed..] };
            assert_eq!((&got[..], frame.len()), (expected, 0), "{latency}, {at}");
            let kept: Vec<Vec<u8>> = link.take_frames().into_iter().map(|f| f.bytes).collect();
            assert_eq!(kept, &sent[changed..], "{latency}, {at}");
        }
    }
}

#[test]
fn frames_held_back_are_overtaken_and_come_in_time() {
    for stall in [0.0, 0.4] {
        let mut rng = SmallRng::seed_from_u64(9);
        let mut link = Link::new(WIDTH, 3);
        link.keep_frames(true);
        let mut n = 0;
        link.set_timed_filter(Some(Box::new(move |frame| {
            n += 1;
            let mut delivery = Delivery::at_once(frame.to_vec());
            match n {
                1 => delivery = Delivery { delay: 500, behind: 2, ..delivery },
                3 => delivery.delay = 250,
                // Nobody comes behind it.
                6 => delivery = Delivery { delay: 400, behind: 1, ..delivery },
                _ => {}
            }
            vec![delivery]
        })));
        let sent = frames(6);
        let got = run(&mut link, &sent, |_| rng.random_bool(stall));
        let order: Vec<usize> = got.iter().map(|(_, f)| sent.iter().position(|s| s == f).unwrap()).collect();
        assert_eq!(order, [1, 3, 0, 4, 2, 5]);
        let kept = link.take_frames();
        assert!(got[4].0 >= kept[2].last + 250 && got[5].0 >= kept[5].last + 400);
        assert!(got[5].0 < kept[5].last + 450);
        let notes: Vec<bool> = kept.iter().map(|f| f.note.as_deref() == Some("held back")).collect();
        assert_eq!(notes, [true, false, true, false, false, true]);
    }
}

#[test]
fn a_frame_in_progress_is_not_cut_by_one_that_was_late() {
    let mut link = Link::new(WIDTH, 0);
    let mut rng = SmallRng::seed_from_u64(12);
    let faults = Faults { reorder: 0.5, delay: 0.5, duplicate: 0.5, hold: 60, ..Faults::default() };
    link.set_timed_filter(Some(faults.filter(3)));
    link.inject(30, vec![0xee; 33]);
    let sent = frames(20);
    let got = run(&mut link, &sent, |_| rng.random_bool(0.3));
    let mut got: Vec<Vec<u8>> = got.into_iter().map(|(_, frame)| frame).collect();
    assert_ne!(got, sent);
    got.sort_by_key(Vec::len);
    got.dedup();
    let mut expected = sent;
    expected.push(vec![0xee; 33]);
    expected.sort_by_key(Vec::len);
    assert_eq!(got, expected);
}

#[test]
fn a_capture_reads_back_with_times_interfaces_and_notes() {
    let path = std::env::temp_dir().join(format!("ferrowire-wire-{}.pcapng", std::process::id()));
    let mut capture = Capture::create(&path, &["a", "b"], 250_000).unwrap();
    for (i, bytes) in frames(4).into_iter().enumerate() {
        let note = (i == 2).then(|| "dropped".to_string());
        let frame = SentFrame { first: 100 * i as u64, last: 0, bytes, note };
        capture.write(i as u32 % 2, &frame).unwrap();
    }
    drop(capture);
    let back = read_frames(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(back.iter().map(|f| f.bytes.clone()).collect::<Vec<_>>(), frames(4));
    assert_eq!(back[3].time, Duration::from_nanos(1200));
    assert_eq!(back.iter().map(|f| f.interface).collect::<Vec<_>>(), [0, 1, 0, 1]);
}

#[test]
fn the_wire_counts_preamble_gap_and_padding() {
    assert_eq!(wire_bytes(42), 84);
    assert_eq!(wire_bytes(1500 + 14), 1538);
}

#[test]
fn half_a_frame_goes_with_whoever_sends_or_takes_it() {
    let all = frames(3);
    let prompt =
        || -> Option<TimedFilter> { Some(Box::new(|frame| vec![Delivery::at_once(frame.to_vec())])) };
    let mut link = Link::new(WIDTH, 0);
    link.set_timed_filter(prompt());
    let beat = Beat::of(&all[2], 0, WIDTH);
    link.deliver(0, Some(&beat));
    link.commit(0, Some(&beat), false);
    assert!(!link.idle());
    link.end_sender();
    assert!(link.idle());
    assert_eq!(run(&mut link, &all, |_| false).into_iter().map(|(_, frame)| frame).collect::<Vec<_>>(), all);

    let mut link = Link::new(WIDTH, 0);
    link.set_timed_filter(prompt());
    all[..2].iter().for_each(|frame| link.inject(0, frame.clone()));
    assert_eq!(link.deliver(1, None), Some(Beat::of(&all[0], 0, WIDTH)));
    link.commit(1, None, true);
    link.end_receiver();
    let rest = run(&mut link, &[], |_| false);
    assert_eq!(rest.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>(), all[1..2]);
}
