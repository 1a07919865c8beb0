// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many messages an emulated pair takes in the processor time of a Verilated one: a ratio, of one run on one machine.
//!
//! ```text
//! cargo test -p ferrowire-sim --test all emulated:: -- --ignored --nocapture messages_of_an_emulated_card
//! ```

use ferrowire::{AccessFlags, Completion, SendWr};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::bus::World;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::emulated::EngineWorld;
use ferrowire_sim::pair::{post, Connection, Node, PairOptions};

/// Messages that are under way at once.
const DEPTH: u64 = 16;

/// Nanoseconds of processor time that this thread has had.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel that counts it");
    text.split(' ').next().and_then(|field| field.parse().ok()).expect("a number")
}

/// Processor time a message of so many WRITEs of so many bytes.
fn cost(a: &Node, b: &Node, messages: u64, size: u32) -> f64 {
    let (mut qp, _peer) = a.connect(b, &Connection { signal_all: true, ..Connection::default() }).unwrap();
    let from = a.region(0, size as usize, AccessFlags::LOCAL_READ).unwrap();
    let to = b.region(0, size as usize, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
    let begin = processor_time();
    let (mut posted, mut done) = (0, 0);
    let mut some = [Completion::default(); 64];
    while done < messages {
        let new = (done + DEPTH).min(messages) - posted;
        let sges = [from.sge(0, size)];
        let all: Vec<_> = (0..new).map(|i| SendWr::write(posted + i, &sges, to.remote(0))).collect();
        post(&mut qp, &all);
        posted += new;
        let n = a.cq.poll(&mut some).unwrap();
        assert!(some[..n].iter().all(Completion::is_success));
        done += n as u64;
    }
    (processor_time() - begin) as f64 / messages as f64
}

#[test]
#[ignore = "takes its time, and asserts little: a measurement"]
fn messages_of_an_emulated_card_cost_a_small_part_of_those_of_a_verilated_one() {
    let model = CardModel::rnic(&RnicConfig::named("generic-8b").unwrap(), false).unwrap();
    let world = World::pair(&model, 0, 0).unwrap().share();
    let open = |bus, card| Node::open(bus, card, &PairOptions::default()).unwrap();
    let cards = [open(world.bus(0), 0), open(world.bus(1), 1)];
    let engines = EngineWorld::pair();
    let emulated = [0, 1].map(|card| Node::open(engines.bus(card), card, &PairOptions::default()).unwrap());
    for size in [64, 1024, 16384] {
        let verilated = cost(&cards[0], &cards[1], 400, size);
        let without = cost(&emulated[0], &emulated[1], 40_000, size);
        println!("WRITEs of {size} bytes: {:.0} emulated ones for each Verilated one", verilated / without);
        assert!(verilated > 10.0 * without, "{size} bytes: {verilated} ns, {without} ns");
    }
}
