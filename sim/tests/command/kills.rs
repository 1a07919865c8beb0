// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that are killed at any moment and started again.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::process::Running;
use super::rig::Cards;
use crate::socket::rig::{take_everything, Node, PATIENCE};

/// What is killed: more of each than there is time for.
const WORK: [&[&str]; 7] = [
    &["kv_store", "race", "counter", "1000000"],
    &["pingpong", "-n", "1000000", "-c", "-s", "2000"],
    &["pingpong", "-n", "1000000", "-e", "--transport", "UD"],
    &["bw", "write", "-n", "1000000", "-s", "8192", "-q", "4"],
    &["bw", "send", "-n", "1000000", "-s", "1024", "-b"],
    &["bw", "read", "-n", "1000000", "-s", "4096"],
    &["lat", "write", "-n", "1000000"],
];

/// Starts a server and a client.
fn start(cards: &Cards, work: &[&str]) -> (Running, Running) {
    match work {
        ["kv_store", client @ ..] => cards.both_kv(client),
        // The client alone says how often.
        ["pingpong", ..] => cards.both(&work[..1], work),
        _ => cards.both(&work[..2], work),
    }
}

/// Waits for the end of a server whose client is dead. One that has never heard of its client waits for another, and is told to stop.
#[track_caller]
fn ends(mut server: Running, work: &[&str]) {
    let end = Instant::now() + PATIENCE / 3;
    while !server.has_ended() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    let waits = !server.has_ended();
    if waits {
        server.interrupt();
    }
    let said = server.end();
    let heard = if work[0] == "kv_store" {
        // A store without a client has done its work, and one that waits for the first has nothing to do when it is stopped.
        assert!(said.code == 1 || waits || said.out.ends_with(" PUTs\n"), "the server, {work:?}: {said:?}");
        said.err.contains("the other program is there")
    } else {
        assert_eq!(said.code, 1, "the server, {work:?}");
        said.out.contains("remote address")
    };
    assert!(!waits || !heard, "the client is dead, and the server waits: {said:?}");
}

/// `FERROWIRE_KILLS` is how often, `FERROWIRE_SEED` which ones, `FERROWIRE_CONFIG` what the cards are.
#[test]
fn programs_that_are_killed_at_random_moments_leave_no_queue_pair_key_or_page() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("FERROWIRE_KILLS").unwrap_or(WORK.len() as u64);
    let seed = number("FERROWIRE_SEED")
        .unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
    println!(
        "FERROWIRE_KILLS={kills} FERROWIRE_SEED={seed} cargo test -p ferrowire-sim --test all command::kills::"
    );
    let mut rng = SmallRng::seed_from_u64(seed);
    // Cards of their own, whose server's files and mappings nobody else changes.
    let config = std::env::var("FERROWIRE_CONFIG").unwrap_or_else(|_| "generic-8b".into());
    let mut cards = Cards::up("kills", &["--config", &config]);
    let (files, mappings) = (cards.server.files(), cards.server.mappings());
    let mut rest = Vec::new();
    for kill in 0..kills {
        // All of it in turn, each time in another order.
        if rest.is_empty() {
            rest = WORK.to_vec();
            rest.shuffle(&mut rng);
        }
        let Some(work) = rest.pop() else { unreachable!("there is work") };
        let (server, client) = start(&cards, work);
        std::thread::sleep(Duration::from_millis(rng.random_range(0..1500)));
        let victims = rng.random_range(1..4u8);
        println!("{kill}: {} {}, victims {victims}", work[0], work[1]);
        match victims {
            1 => {
                server.kill();
                assert_eq!(client.end().code, 1, "the client, {work:?}");
            }
            2 => {
                client.kill();
                ends(server, work);
            }
            _ => {
                server.kill();
                client.kill();
            }
        }
        cards.server.lives();
    }
    // Those that come now have both cards whole, and what they send arrives.
    let (_, client) = cards.both_json(&["pingpong"], &["-n", "3", "-c"]);
    assert_eq!(client["iterations"], 3);
    let (a, b) = (Node::open(cards.socket(0), 1), Node::open(cards.socket(1), 2));
    take_everything(&a);
    take_everything(&b);
    super::rig::exchange(&a, &b);
    drop((a, b));
    // And of the dead the server keeps no file and no page.
    let end = Instant::now() + PATIENCE;
    while (cards.server.files(), cards.server.mappings()) != (files, mappings) {
        let (f, m) = (cards.server.files(), cards.server.mappings());
        assert!(Instant::now() < end, "{files} files and {mappings} mappings became {f} and {m}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
