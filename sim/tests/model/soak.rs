// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs on random networks: two engines, many queue pairs of all services, frames lost, doubled, overtaken, changed
//! and delayed. Every completion, in its order, and every byte of memory is compared with what plain Rust says.
//!
//! `FERROWIRE_SOAK_SECONDS` makes it run longer, `FERROWIRE_SOAK_SEED` begins with that seed.

use std::time::{Duration, Instant};

use ferrowire_sim::model::network::{Counts, Faults, Network};
use ferrowire_sim::model::{Completion, Config, Engine};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::program::Flow;
use super::world::{Kind, World};

/// Steps after which a network that still moves is taken for one that never rests.
const STEPS: usize = 4_000_000;

fn faults(rng: &mut SmallRng) -> Faults {
    let bad = rng.random_range(0..4);
    let mut share = |most: u32| if bad == 0 { 0 } else { rng.random_range(0..=most * bad / 3) };
    let (drop, duplicate, reorder, corrupt) = (share(60), share(60), share(100), share(20));
    Faults {
        drop,
        duplicate,
        reorder,
        corrupt,
        mark: 100,
        delay: rng.random_range(200..5_000),
        // Now and then longer than the time-out: copies of what was answered long ago.
        hold: if rng.random_range(0..4) == 0 { 5_000_000 } else { rng.random_range(1..30_000) },
    }
}

fn engines(seed: u64) -> Vec<Engine> {
    let ip = |n: u8| match seed % 4 {
        0 => std::net::IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(n)]),
        _ => std::net::IpAddr::from([10, 0, 0, n]),
    };
    let config = |n: u8| Config {
        seed: seed + u64::from(n),
        credits: (seed >> n) & 1 == 0,
        line_rate: (seed % 3 == 0).then_some(100_000_000_000),
        selective: true,
        ..Config::new(0x0200_0000_0000 | u64::from(n), ip(n))
    };
    vec![Engine::new(config(1)), Engine::new(config(2))]
}

/// One program on one network; gives what happened to frames.
fn run(seed: u64, selective: bool) -> Counts {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut network = Network::new(engines(seed), Faults::none(), rng.random());
    network.keep_frames();
    let vlan = (seed % 5 == 0).then(|| rng.random());
    let mut world = World::new(network, vlan);
    world.selective = selective;
    let pairs = rng.random_range(1..=8);
    for _ in 0..pairs {
        let kind = match rng.random_range(0..10) {
            0 => Kind::Uc,
            1 => Kind::Ud,
            2 => Kind::RcSrq,
            _ => Kind::Rc,
        };
        world.connect(&mut rng, kind);
    }
    world.set_up();
    let ops = rng.random_range(5..60);
    let mut flows: Vec<Flow> = (0..2 * pairs).map(|i| Flow::generate(&mut rng, &mut world, i, ops)).collect();
    world.network.faults = faults(&mut rng);
    let mut steps = 0;
    loop {
        for flow in &mut flows {
            flow.post_some(&mut rng, &mut world);
            flow.pause_or_go_on(&mut rng, &mut world);
        }
        let burst = rng.random_range(1..200);
        let moved = (0..burst).all(|_| world.network.step());
        steps += burst;
        for flow in &mut flows {
            flow.collect(&mut world);
        }
        world.check_events();
        let posted = flows.iter().all(Flow::is_posted);
        if posted && !moved {
            break;
        }
        let at = world.network.now();
        assert!(steps < STEPS, "still moving after {steps} steps, at {at} ns");
    }
    for flow in &mut flows {
        flow.finish(&mut world);
    }
    world.compare_memory();
    end_with_a_mistake(&flows, &mut world);
    world.network.counts
}

/// Every other connection ends with a mistake of one of its ends; nothing may come of it but errors in order.
fn end_with_a_mistake(flows: &[Flow], world: &mut World) {
    let reliable = || flows.iter().step_by(2).filter(|flow| flow.is_reliable());
    for flow in reliable() {
        flow.post_a_mistake(world, 8, 0xffff_ff00);
    }
    assert!(world.network.run(STEPS));
    for node in 0..2 {
        let cq = world.cqs[node];
        let done: Vec<Completion> = std::iter::from_fn(|| world.network.engines[node].poll_cq(cq)).collect();
        reliable().filter(|flow| flow.node() == node).for_each(|flow| flow.finish_mistake(world, &done));
    }
    world.compare_memory();
}

#[test]
fn random_programs_on_random_networks_end_as_plain_rust_says() {
    soak(false);
}

#[test]
fn they_do_so_when_some_connections_agree_on_selective_retransmission() {
    soak(true);
}

fn soak(selective: bool) {
    let seconds =
        std::env::var("FERROWIRE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let first: u64 =
        std::env::var("FERROWIRE_SOAK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let begin = Instant::now();
    let mut seed = first;
    let mut all = [0; 5];
    while begin.elapsed() < Duration::from_secs(seconds) {
        // The last line before a failure names its seed.
        println!("FERROWIRE_SOAK_SEED={seed}");
        let more = run(seed, selective);
        for (sum, count) in
            all.iter_mut().zip([more.sent, more.dropped, more.duplicated, more.reordered, more.corrupted])
        {
            *sum += count;
        }
        seed += 1;
    }
    let [sent, dropped, duplicated, reordered, corrupted] = all;
    println!("{} programs; of {sent} frames, {dropped} dropped, {duplicated} doubled, {reordered} held, {corrupted} changed", seed - first);
}
