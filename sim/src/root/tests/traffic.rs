// SPDX-License-Identifier: MIT OR Apache-2.0
//! Legal traffic: every byte arrives, however it is cut, delayed and stalled; and it is fast.

use rand::Rng as _;

use super::endpoint::{Endpoint, Event, MEMORY};
use crate::root::request::Request;
use crate::root::{RootSettings, Split};

const LOW: u64 = 0x4_0000;
const HIGH: u64 = 0x12_3456_0000;

/// Settings that a seed chooses.
pub fn any(seed: u64) -> RootSettings {
    let pick = |n: u64, shift: u64| (seed >> shift) % n;
    RootSettings {
        latency: [0, 7, 60][pick(3, 0) as usize],
        spread: [0, 30][pick(2, 1) as usize],
        max_payload: 128 << pick(4, 2),
        max_read_request: 128 << pick(6, 0),
        read_completion_boundary: [64, 128][pick(2, 3) as usize],
        extended_tags: pick(3, 0) > 0,
        chunk: [Split::Largest, Split::Fixed(256), Split::Fixed(64), Split::Random][pick(4, 0) as usize],
        reorder: pick(2, 2) == 1,
        late_reads: true,
        relaxed_ordering: pick(2, 4) == 1,
        non_posted_credits: [None, Some(1), Some(5)][pick(3, 1) as usize],
        stall: [0.0, 0.3][pick(2, 0) as usize],
        bar0: [0xf000_0000, 0x38_0000_0000][pick(2, 1) as usize],
        seed,
        ..RootSettings::default()
    }
}

/// A random address in one of the two memories, for so many bytes in a page.
fn place(endpoint: &mut Endpoint, bytes: usize) -> (bool, usize) {
    let page = endpoint.random.random_range(0..MEMORY / 4096) * 4096;
    (endpoint.random.random(), page + endpoint.random.random_range(0..=4096 - bytes))
}

/// Bytes that fit a packet of so many, wherever they begin.
fn size(endpoint: &mut Endpoint, most: u32) -> usize {
    let most = most as usize - 3;
    match endpoint.random.random_range(0..3) {
        0 => endpoint.random.random_range(1..=8),
        1 => most,
        _ => endpoint.random.random_range(1..=most),
    }
}

#[test]
fn every_byte_arrives_whatever_the_root_complex_is_like() {
    for seed in 0..64 {
        let mut card = Endpoint::new([8, 16, 32, 64][seed as usize % 4], any(seed));
        card.stall = [0.0, 0.2][seed as usize / 2 % 2];
        let mut memory = [card.memory(LOW), card.memory(HIGH)];
        let settings = card.root.settings().clone();
        let mut asked = vec![None; 256];
        let (mut writes, mut reads, mut bytes_read) = (0, 0, 0);
        for _ in 0..2500 {
            // What is written is never read while it is: halves of the memory are for one or the other.
            let tag = card.random.random_range(0..settings.tags()) as u8;
            if card.random.random() && card.rq_queue.len() < 4 {
                let bytes = size(&mut card, settings.max_payload);
                let (high, at) = place(&mut card, bytes);
                let at = at | (MEMORY / 2);
                let mut data = vec![0; bytes];
                card.random.fill(&mut data[..]);
                // Writes to one place stay in order only without relaxed ordering.
                card.write([LOW, HIGH][usize::from(high)] + at as u64, &data, false);
                memory[usize::from(high)][at..at + bytes].copy_from_slice(&data);
                writes += 1;
            } else if card.is_free(tag) && card.rq_queue.len() < 4 {
                let bytes = size(&mut card, settings.max_read_request.min(4096));
                let (high, at) = place(&mut card, bytes);
                let at = at & (MEMORY / 2 - 1);
                card.read(tag, [LOW, HIGH][usize::from(high)] + at as u64, bytes);
                asked[usize::from(tag)] = Some(memory[usize::from(high)][at..at + bytes].to_vec());
                reads += 1;
                bytes_read += bytes as u64;
            }
            card.step();
            for event in card.events.drain(..) {
                let Event::Data(tag, data) = event else { panic!("seed {seed}: {event:?}") };
                assert_eq!(asked[usize::from(tag)].take(), Some(data), "seed {seed}, tag {tag}");
            }
        }
        card.finish();
        for event in card.events.drain(..) {
            let Event::Data(tag, data) = event else { panic!("seed {seed}: {event:?}") };
            assert_eq!(asked[usize::from(tag)].take(), Some(data), "seed {seed}, tag {tag}");
        }
        assert_eq!(card.root.violation(), None, "seed {seed}");
        assert!(asked.iter().all(Option::is_none));
        for (base, expected) in [LOW, HIGH].into_iter().zip(&memory) {
            let mut now = vec![0; MEMORY];
            card.root.host().map().read(base, &mut now).unwrap();
            assert!(now == *expected, "seed {seed}: other bytes in memory than were written");
        }
        let stats = card.root.stats();
        assert_eq!((stats.reads, stats.read_bytes, stats.writes), (reads, bytes_read, writes));
        assert_eq!(stats.completions as usize, card.rc_packets.len());
        assert_eq!(stats.rc_beats as usize, card.rc_cycles.len());
        let host = card.root.host().stats();
        assert_eq!(
            (host.reads, host.read_bytes, host.writes, host.violations),
            (reads, bytes_read, writes, 0)
        );
        if let Some(credits) = settings.non_posted_credits {
            assert!(stats.most_reads <= credits.into());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let run = |seed| {
        let settings = RootSettings {
            reorder: true,
            late_reads: true,
            chunk: Split::Random,
            spread: 40,
            stall: 0.2,
            seed,
            ..RootSettings::default()
        };
        let mut card = Endpoint::new(16, settings);
        card.random = rand::SeedableRng::seed_from_u64(1);
        card.memory(LOW);
        (0..64).for_each(|tag| card.read(tag, LOW + 512 * u64::from(tag), 400));
        card.finish();
        (card.rc_cycles, card.rc_packets)
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn completions_fill_rc_without_a_lost_cycle() {
    for (beat, beats) in [(8, 34), (16, 17), (32, 9), (64, 5)] {
        let settings = RootSettings { chunk: Split::Fixed(256), ..RootSettings::default() };
        let mut card = Endpoint::new(beat, settings);
        card.memory(HIGH);
        (0..40).for_each(|tag| card.read(tag, HIGH + 512 * u64::from(tag), 512));
        card.finish();
        assert_eq!(card.rc_cycles.len(), 80 * beats);
        let (first, last) = (card.rc_cycles[0], card.rc_cycles[80 * beats - 1]);
        assert_eq!(last - first + 1, 80 * beats as u64, "beats of {beat} bytes");
    }
}

#[test]
fn the_first_completion_comes_after_the_latency_and_one_cycle() {
    for latency in [0, 13] {
        let mut card = Endpoint::new(64, RootSettings { latency, ..RootSettings::default() });
        card.memory(HIGH);
        card.read(0, HIGH, 4);
        card.finish();
        assert_eq!(card.rc_cycles, [1 + latency]);
    }
}

#[test]
fn completions_are_cut_where_the_setting_says() {
    let cut = |settings: RootSettings| {
        let mut card = Endpoint::new(64, settings);
        card.memory(HIGH);
        card.read(0, HIGH + 60, 1030);
        card.finish();
        card.rc_packets.iter().map(|packet| packet.len() - 12).collect::<Vec<_>>()
    };
    let base = RootSettings { max_read_request: 4096, max_payload: 256, ..RootSettings::default() };
    // From 60 to 1,092 in double words: the largest end at 256, 512, 768, 1024.
    assert_eq!(cut(base.clone()), [196, 256, 256, 256, 68]);
    assert_eq!(cut(RootSettings { max_payload: 512, ..base.clone() }), [452, 512, 68]);
    let fixed = |bytes| RootSettings { chunk: Split::Fixed(bytes), max_payload: 512, ..base.clone() };
    assert_eq!(cut(fixed(256)), [196, 256, 256, 256, 68]);
    assert_eq!(cut(fixed(200)), [132, 192, 192, 192, 192, 132]);
    assert_eq!(cut(fixed(1)).len(), 18);
    assert_eq!(cut(fixed(99999)), [452, 512, 68]);
    let wide = RootSettings { read_completion_boundary: 128, ..fixed(64) };
    assert_eq!(cut(wide), [68, 128, 128, 128, 128, 128, 128, 128, 68]);
}

#[test]
fn reads_that_enable_few_bytes_get_those_and_one_that_enables_none_is_answered() {
    let mut card = Endpoint::new(8, RootSettings::default());
    let memory = card.memory(HIGH);
    for (tag, first_be) in (0..16).enumerate() {
        card.read_request(tag as u8, Request::new(false, HIGH + 40, 1, first_be, 0));
    }
    card.read_request(20, Request::new(false, HIGH + 8, 2, 0b0101, 0b1010));
    card.finish();
    assert_eq!(card.root.violation(), None);
    for (event, first_be) in card.events[..16].iter().zip(0..16u8) {
        let Event::Data(tag, data) = event else { panic!("{event:?}") };
        let first = first_be.trailing_zeros() as usize % 8;
        assert_eq!(*tag, first_be);
        for (i, byte) in data.iter().enumerate() {
            let enabled = first_be >> (first + i) & 1 == 1;
            assert_eq!(*byte, if enabled { memory[40 + first + i] } else { 0xa5 });
        }
    }
    let (a, j) = (&memory[8..16], 0xa5);
    assert_eq!(card.events[16], Event::Data(20, vec![a[0], j, a[2], j, j, a[5], j, a[7]]));
}

#[test]
fn what_is_not_mapped_is_refused_and_counted() {
    let mut card = Endpoint::new(32, RootSettings::default());
    card.memory(HIGH);
    card.read(1, HIGH + MEMORY as u64, 4);
    card.write(HIGH - 4, &[1; 4], false);
    card.finish();
    assert_eq!(
        card.events,
        [Event::Refused(1, ferrowire_spec::pcie::CompletionStatus::UnsupportedRequest, 0)]
    );
    let stats = card.root.host().stats();
    assert_eq!((stats.reads_refused, stats.writes_refused), (1, 1));
    assert_eq!(card.root.violation(), None);
}

#[test]
fn without_credits_reads_wait_and_writes_pass() {
    let settings = RootSettings { non_posted_credits: Some(1), latency: 50, ..RootSettings::default() };
    let mut card = Endpoint::new(64, settings);
    card.memory(HIGH);
    card.read(0, HIGH, 4);
    card.run(3);
    let read = Request::new(false, HIGH, 1, 15, 0).emit(&[]);
    let write = Request::new(true, HIGH, 1, 15, 0).emit(&[0; 4]);
    let beat = |packet: &[u8]| crate::wire::Beat::of(packet, 0, 64);
    assert!(!card.root.rq_ready(3));
    assert!(!card.root.rq_ready_for(3, &beat(&read)));
    assert!(card.root.rq_ready_for(3, &beat(&write)));
    card.finish();
    let cycle = card.cycle;
    assert!(card.root.rq_ready(cycle) && card.root.rq_ready_for(cycle, &beat(&read)));
}
