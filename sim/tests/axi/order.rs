// SPDX-License-Identifier: MIT OR Apache-2.0
//! All verbs both ways: in the cycle in which a completion can be seen in memory, so can all that it tells of, whatever order writes are seen in.

use crate::few_tables;
use crate::tier::number;
use ferrowire::{Completion, QueuePair, RecvWr, SendWr};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::axi::AxiSettings;
use ferrowire_sim::pair::bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::setup::{connection, pair, region, seeds, settings, Expected, Observer, CONFIGS};

const ROOM: usize = 256 << 10;
const MESSAGES: usize = 24;
/// Cycles for all of them.
const LIMIT: u64 = 4_000_000;

/// Places one behind the other: nothing is written twice.
struct Places(usize);

impl Places {
    fn next(&mut self, bytes: usize, align: usize, rng: &mut SmallRng) -> usize {
        let at = (self.0 + rng.random_range(0..64)).next_multiple_of(align);
        self.0 = at + bytes;
        assert!(self.0 <= ROOM, "no room is left");
        at
    }
}

fn traffic(config: &RnicConfig, settings: &AxiSettings, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let pair = pair(config, settings, seed);
    // For each card what is sent and read, and what is written.
    let from = [&pair.a, &pair.b].map(|node| region(node, ROOM, &mut rng));
    let to = [&pair.a, &pair.b].map(|node| region(node, ROOM, &mut rng));
    let data = [0, 1].map(|card| bytes(from[card].memory()));
    let mut places = [0, 1].map(|_| Places(0));
    let mut words = [0, 1].map(|_| Places(ROOM / 2));
    let mut qps: Vec<[QueuePair; 2]> = (0..3).map(|_| pair.connect(&connection()).unwrap().into()).collect();
    let mut observers = [0, 1].map(|card| Observer::begin(&pair, card, &[&to[card], &from[card]]));
    let mut wanted = [0; 2];
    for side in [0, 1] {
        for qps in &mut qps {
            let number = |qps: &[QueuePair; 2], side: usize| qps[side].number();
            let (own, peers) = (number(qps, side), number(qps, 1 - side));
            let (mut wrs, mut sges, mut receives) = (Vec::new(), Vec::new(), Vec::new());
            let mut before: Vec<(usize, usize, usize)> = Vec::new();
            for i in 0..MESSAGES as u16 {
                let length = match rng.random_range(0..4) {
                    0 => rng.random_range(1..64),
                    1 => rng.random_range(1..4096),
                    _ => rng.random_range(1..700),
                };
                let at = rng.random_range(0..ROOM / 2 - length);
                let kind = rng.random_range(0..5);
                match kind {
                    // Written there; the next message tells of it.
                    0 => {
                        let place = places[1 - side].next(length, 1, &mut rng);
                        before.push((place, at, length));
                        sges.push(from[side].sge(at, length as u32));
                        wrs.push((kind, place));
                        observers[side].expected.insert((own, false, i), Vec::new());
                    }
                    // Sent, or written with immediate data: the peer's completion tells of it, and of what was written before it.
                    1 | 2 => {
                        let place = places[1 - side].next(length, 1, &mut rng);
                        let mut told: Vec<_> = std::mem::take(&mut before);
                        told.push((place, at, length));
                        let expected = told.into_iter().map(|(place, at, length)| Expected {
                            memory: to[1 - side].memory().clone(),
                            at: place,
                            data: data[side][at..at + length].to_vec(),
                        });
                        let key = (peers, true, receives.len() as u16);
                        observers[1 - side].expected.insert(key, expected.collect());
                        wanted[1 - side] += 1;
                        receives.push(to[1 - side].sge(place, length as u32));
                        sges.push(from[side].sge(at, length as u32));
                        wrs.push((kind, place));
                        observers[side].expected.insert((own, false, i), Vec::new());
                    }
                    // Read: the own completion tells of it.
                    3 => {
                        let place = places[side].next(length, 1, &mut rng);
                        let expected = Expected {
                            memory: to[side].memory().clone(),
                            at: place,
                            data: data[1 - side][at..at + length].to_vec(),
                        };
                        observers[side].expected.insert((own, false, i), vec![expected]);
                        sges.push(to[side].sge(place, length as u32));
                        wrs.push((kind, at));
                    }
                    // An atomic of a word that is its own.
                    _ => {
                        let place = places[side].next(8, 1, &mut rng);
                        let word = words[1 - side].next(8, 8, &mut rng);
                        // The memory begins at a multiple of 8.
                        let old = data[1 - side][word..word + 8].to_vec();
                        let expected = Expected { memory: to[side].memory().clone(), at: place, data: old };
                        observers[side].expected.insert((own, false, i), vec![expected]);
                        sges.push(to[side].sge(place, 8));
                        wrs.push((kind, word));
                    }
                }
                wanted[side] += 1;
            }
            let mut batch = qps[1 - side].start_post_recv();
            for (i, sge) in receives.iter().enumerate() {
                batch.post(&RecvWr::new(i as u64, &[*sge])).unwrap();
            }
            batch.ring().unwrap();
            let mut batch = qps[side].start_post_send();
            for (i, ((kind, place), sge)) in wrs.iter().zip(&sges).enumerate() {
                let (i, sge) = (i as u64, std::slice::from_ref(sge));
                let wr = match kind {
                    0 => SendWr::write(i, sge, to[1 - side].remote(*place)),
                    1 => SendWr::send(i, sge),
                    2 => SendWr::write_imm(i, sge, to[1 - side].remote(*place), 7),
                    3 => SendWr::read(i, sge, from[1 - side].remote(*place)),
                    _ => SendWr::fetch_add(i, sge, from[1 - side].remote(*place), 3),
                };
                batch.post(&wr.signaled()).unwrap();
            }
            batch.ring().unwrap();
            // What the doorbells let pass is looked at late: it is said so far, and nothing more.
            let mut world = pair.world.lock();
            observers.iter_mut().for_each(|observer| observer.look(&mut world));
        }
    }
    let limit = pair.world.lock().cycle() + LIMIT;
    while (0..2).any(|card| observers[card].seen < wanted[card]) {
        let mut world = pair.world.lock();
        world.step();
        world.check().unwrap();
        observers.iter_mut().for_each(|observer| observer.look(&mut world));
        let cycle = world.cycle();
        drop(world);
        let seen = [0, 1].map(|card| observers[card].seen);
        assert!(cycle < limit, "{seen:?} of {wanted:?} completions{}", pair.diagnose());
    }
    // Through the driver, all went well.
    for (node, wanted) in [&pair.a, &pair.b].into_iter().zip(wanted) {
        let done = node.wait(&pair.world, wanted, 100_000).unwrap();
        assert!(done.iter().all(Completion::is_success), "{done:?}");
    }
    // Written words have what was added.
    pair.world.lock().run(2000);
    let world = pair.world.lock();
    world.check().unwrap();
    for card in [0, 1] {
        let axi = world.card(card).axi().unwrap();
        assert!(axi.idle(), "card {card}: something is under way");
        assert_eq!((axi.stats().read_errors, axi.stats().write_errors), (0, 0));
        assert_eq!((axi.host().stats().reads_refused, axi.host().stats().writes_refused), (0, 0));
    }
    drop(world);
    for card in [0, 1] {
        let now = bytes(from[card].memory());
        let changed = (0..ROOM / 8).filter(|i| now[8 * i..8 * i + 8] != data[card][8 * i..8 * i + 8]);
        for at in changed.map(|i| 8 * i) {
            let word = |bytes: &[u8]| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            assert_eq!(word(&now), word(&data[card]).wrapping_add(3), "card {card}, word at {at:#x}");
        }
    }
}

#[test]
fn what_a_completion_tells_of_is_there_when_it_can_be_seen() {
    seeds("what_a_completion", 0..number(8, 24), |config, seed| traffic(config, &settings(seed), seed));
}

/// The worst for who does not wait for responses: writes are seen late and in any order, all else is fast.
#[test]
fn writes_that_are_seen_late_and_in_any_order_are_waited_for() {
    seeds("writes_that_are_seen_late", 0..8, |config, seed| {
        let settings = AxiSettings {
            late_writes: true,
            late_reads: true,
            reorder: true,
            write_spread: [30, 400][seed as usize / 2 % 2],
            seed,
            ..AxiSettings::default()
        };
        traffic(config, &settings, seed);
    });
}

/// A host whose writes are answered from where they can be buffered: the card's must not be such.
#[test]
fn responses_are_those_of_memory_and_not_of_a_buffer_before_it() {
    seeds("responses_are_those_of_memory", 0..4, |config, seed| {
        let settings = AxiSettings {
            late_writes: true,
            early_responses: true,
            reorder: true,
            write_spread: 200,
            seed,
            ..AxiSettings::default()
        };
        traffic(config, &settings, seed);
    });
}

/// An entry of a queue is 32 bytes at most: so many of an aligned block are seen at once, and that is all.
#[test]
fn a_host_that_sees_blocks_of_32_bytes_one_by_one_finds_no_half_of_an_entry() {
    seeds("a_host_that_sees_blocks", 0..4, |config, seed| {
        let settings =
            AxiSettings { late_writes: true, atomic: 32, write_spread: 100, seed, ..AxiSettings::default() };
        traffic(config, &settings, seed);
    });
}

/// That the CPU of these tests finds it: a card which says that its writes may be buffered, and gets its responses from the buffer.
#[test]
fn completions_before_their_data_are_found() {
    for seed in 0..2 {
        let buffered = RnicConfig { axi_cache: 3, ..few_tables(CONFIGS[0]) };
        let settings = AxiSettings {
            late_writes: true,
            early_responses: true,
            write_spread: 200,
            seed,
            ..AxiSettings::default()
        };
        let run = || traffic(&buffered, &settings, seed);
        let Err(found) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) else {
            panic!("seed {seed}: nothing was found")
        };
        let found = found.downcast_ref::<String>().cloned().unwrap_or_default();
        // In the cycle of a completion, or because a command's reply tells of nothing yet.
        assert!(found.contains("is not there"), "{found}");
    }
}
