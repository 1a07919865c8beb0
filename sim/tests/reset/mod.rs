// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host that resets a card in the middle of its work: by the register, and by a function level reset; or takes all objects back by command. When the card says
//! that it is done, it touches nothing of its former life any more, and works anew.
//!
//! Each test prints its seeds; `FERROWIRE_SEED` replaces them, and then it is the only one. `FERROWIRE_ROUNDS` is how many each configuration has.

use crate::few_tables;
use crate::tier;
use ferrowire::{
    AccessFlags, Completion, CompletionQueue, EventQueue, MemoryRegion, QpInitAttr, QueuePair, RecvWr, SendWr,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::axi::AxiSettings;
use ferrowire_sim::bus::{SharedWorld, World};
use ferrowire_sim::card::{CardModel, CsrAccess};
use ferrowire_sim::pair::{bytes, post, Connection, Pair, PairOptions};
use ferrowire_sim::root::RootSettings;
use ferrowire_spec::csr::command_queue;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

mod queue_pairs;
mod reclaim;

/// Cycles in which a reset must be done: a small card's tables, and the slowest read.
const LIMIT: u64 = 400_000;
/// Cycles in which a card that has been reset is watched.
const WATCHED: u64 = 3000;
const ROOM: usize = 64 << 10;
const QPS: usize = 3;

/// Some of each configuration in the full tier, and one of one configuration in the default tier, the same in all of these tests.
fn seeds(configs: &[&str]) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    match (number("FERROWIRE_SEED"), number("FERROWIRE_ROUNDS")) {
        (Some(seed), _) => vec![seed],
        (None, None) if !tier::full() => vec![tier::turn(configs[0], configs.len()) as u64],
        (None, rounds) => (0..rounds.unwrap_or(1) * configs.len() as u64).collect(),
    }
}

/// Runs a test with each seed, of each of these configurations.
fn each(configs: &[&str], mut test: impl FnMut(&RnicConfig, u64)) {
    for seed in seeds(configs) {
        test(&config(configs[seed as usize % configs.len()]), seed);
    }
}

/// Few tables, so that a life is short.
fn config(name: &str) -> RnicConfig {
    // Longer than any host of these tests takes.
    RnicConfig { pcie_timeout_us: 200, ..few_tables(name) }
}

/// A card's software in one life.
struct Life {
    pair: Pair,
    qps: Vec<(QueuePair, QueuePair)>,
    regions: [MemoryRegion; 2],
    events: Vec<(EventQueue, CompletionQueue)>,
}

impl Life {
    fn begin(world: &SharedWorld, rng: &mut SmallRng) -> Self {
        let options = PairOptions { seed: rng.random(), cq_entries: 256, ..PairOptions::default() };
        let pair = Pair::of(world.clone(), &options).unwrap();
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let offset = rng.random_range(0..64);
        let regions = [&pair.a, &pair.b].map(|node| node.region(offset, ROOM, access).unwrap());
        for region in &regions {
            let mut noise = vec![0; ROOM];
            rng.fill(&mut noise[..]);
            region.memory().write(0, &noise);
        }
        let events: Vec<_> = [&pair.a, &pair.b]
            .map(|node| {
                let eq = node.context.create_eq(64).unwrap();
                let mut cq = node.context.create_cq_with_events(256, &eq).unwrap();
                eq.request_interrupt().unwrap();
                cq.request_notify(false).unwrap();
                (eq, cq)
            })
            .into();
        let connection = Connection {
            access: AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ,
            rd_atomic: 8,
            ..Connection::default()
        };
        let make = |side: usize| {
            let node = [&pair.a, &pair.b][side];
            let mut attr = QpInitAttr::rc(&events[side].1, &events[side].1);
            (attr.max_send_wr, attr.max_recv_wr) = (64, 64);
            attr.push = node.context.capabilities().wqe_push;
            node.pd.create_qp(&attr).unwrap()
        };
        let qps = (0..QPS).map(|_| pair.bring_up(make(0), make(1), &connection).unwrap()).collect();
        Self { pair, qps, regions, events }
    }

    /// A WRITE and a READ each way bring what they should.
    fn works(&mut self, rng: &mut SmallRng) {
        let world = self.pair.world.clone();
        for side in [0, 1] {
            let (from, to) = (&self.regions[side], &self.regions[1 - side]);
            let (here, there, length) =
                (rng.random_range(0..9000), rng.random_range(0..9000), rng.random_range(1..6000u32));
            let pair = &mut self.qps[rng.random_range(0..QPS)];
            let qp = if side == 0 { &mut pair.0 } else { &mut pair.1 };
            let (sent, got) = ([from.sge(here, length)], [from.sge(40_000, length)]);
            let requests = [
                SendWr::write(1, &sent, to.remote(there)).signaled(),
                SendWr::read(2, &got, to.remote(there)).signaled(),
            ];
            // What is rung for alone is pushed where the card has that.
            let each = rng.random_range(1..=2);
            requests.chunks(each).for_each(|some| post(qp, some));
            let cq = &mut self.events[side].1;
            let (mut done, limit) = (Vec::new(), world.lock().cycle() + 200_000);
            let mut some = [Completion::default(); 8];
            while done.len() < 2 {
                let n = cq.poll(&mut some).unwrap();
                done.extend_from_slice(&some[..n]);
                assert!(world.lock().cycle() < limit, "{done:?}{}", self.pair.diagnose());
            }
            assert!(done.iter().all(Completion::is_success), "{done:?}");
            let (own, peers) = (bytes(from.memory()), bytes(to.memory()));
            let length = length as usize;
            assert_eq!(own[here..here + length], peers[there..there + length]);
            assert_eq!(own[here..here + length], own[40_000..40_000 + length]);
        }
    }

    /// Posts as much of everything as there is room for.
    fn work_hard(&mut self, rng: &mut SmallRng) {
        for (a, b) in &mut self.qps {
            for (side, qp) in [a, b].into_iter().enumerate() {
                let (from, to) = (&self.regions[side], &self.regions[1 - side]);
                let mut receives = qp.start_post_recv();
                for i in 0..32 {
                    let sge = [from.sge(rng.random_range(0..4096), 4096)];
                    receives.post(&RecvWr::new(i, &sge)).unwrap();
                }
                receives.ring().unwrap();
                let mut batch = qp.start_post_send();
                for i in 0..48 {
                    let length = match rng.random_range(0..3) {
                        0 => rng.random_range(1..100u32),
                        _ => rng.random_range(1..12_000),
                    };
                    let place = |rng: &mut SmallRng| rng.random_range(0..ROOM - 12_000);
                    let (sge, short) =
                        ([from.sge(place(rng), length)], [from.sge(place(rng), length.min(4096))]);
                    let wr = match rng.random_range(0..3) {
                        0 => SendWr::write(i, &sge, to.remote(place(rng))),
                        1 => SendWr::read(i, &sge, to.remote(place(rng))),
                        _ => SendWr::send(i, &short),
                    };
                    let wr = if rng.random() { wr.signaled() } else { wr };
                    batch.post(&wr).unwrap();
                }
                batch.ring().unwrap();
            }
        }
    }

    /// The process is gone, without a word to its card.
    fn dies(self) {
        std::mem::forget(self);
    }
}

/// How a card is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By its register.
    Register,
    /// By the register, where the card has lost the right to send requests.
    Mute,
    /// By a function level reset.
    Function,
}

fn read(world: &SharedWorld, card: usize, address: u32) -> u64 {
    let access = CsrAccess { address, write: false, wide: false, data: 0 };
    world.lock().access(card, access).unwrap()
}

/// Resets a card; how many cycles that took.
fn reset(world: &SharedWorld, card: usize, way: Way) -> u64 {
    let from = world.lock().cycle();
    let over = |what: &str| {
        let took = world.lock().cycle() - from;
        assert!(took < LIMIT, "card {card}, {way:?}: {what} after {took} cycles");
        took
    };
    let control = command_queue::BLOCK.address(&command_queue::CONTROL);
    if way == Way::Function {
        // What the CPU has asked by then is answered.
        let access = CsrAccess { address: 0, write: false, wide: true, data: 0 };
        let mut waiting = 5;
        (0..waiting).for_each(|_| world.lock().card_mut(card).csr(access));
        assert!(world.lock().card_mut(card).begin_function_reset());
        while !world.lock().card(card).function_reset_done() {
            world.lock().step();
            waiting -= usize::from(world.lock().card_mut(card).csr_response().is_some());
            over("the function level reset is not done");
        }
        assert_eq!(waiting, 0, "reads of the CPU without an answer");
        world.lock().card_mut(card).end_function_reset();
        // The table of GIDs is emptied yet.
        while read(world, card, control) != 0 {
            over("the table of GIDs is not empty");
        }
    } else {
        if way == Way::Mute {
            assert!(world.lock().card_mut(card).set_bus_master(false));
        }
        let access = CsrAccess { address: control, write: true, wide: false, data: 2 };
        world.lock().access(card, access).unwrap();
        while read(world, card, control) != 0 {
            over("the reset is not done");
        }
    }
    assert_eq!(read(world, card, command_queue::BLOCK.address(&command_queue::STATUS)), 1, "not ready");
    over("not ready")
}

/// Takes all memory away from cards that have been reset, and watches whether they touch any, or interrupt anybody.
fn nothing_of_a_former_life(world: &SharedWorld, cards: &[usize]) {
    let mut world = world.lock();
    let mut before = Vec::new();
    for card in cards {
        let card = world.card_mut(*card);
        assert!(card.axi().is_none_or(|axi| axi.idle()), "something is under way on AXI after the reset");
        drop(std::mem::take(card.host_mut().map_mut()));
        // What came before.
        while card.interrupt().is_some() {}
        before.push(card.host().stats());
    }
    world.run(WATCHED);
    for (card, before) in cards.iter().zip(before) {
        assert_eq!(world.card(*card).host().stats(), before, "card {card} uses memory of its former life");
        assert_eq!(world.card_mut(*card).interrupt(), None, "card {card} interrupts for its former life");
        assert_eq!(world.card(*card).violation(), None);
        assert_eq!(world.card(*card).held_reads(), 0, "card {card}: a read without a credit before a write");
    }
}

/// Lives of two cards, each of which ends with a reset in the middle of everything.
fn lives(config: &RnicConfig, seed: u64, count: usize) {
    println!("seed {seed}, {} bytes a beat, {} tags", config.beat_bytes, config.pcie_tags);
    let mut rng = SmallRng::seed_from_u64(seed);
    let latency = [0, 100, 1500][rng.random_range(0..3)];
    let root = RootSettings { latency, ..RootSettings::random(seed) };
    let axi = AxiSettings { latency, ..AxiSettings::random(seed) };
    let model = CardModel::rnic(config, false).unwrap().with_root(root).with_axi(axi);
    let pcie = model.has_pcie();
    let world = World::pair(&model, latency, rng.random_range(0..50)).unwrap().share();
    let mut longest = 0;
    for life in 0..count {
        let mut own = Life::begin(&world, &mut rng);
        own.works(&mut rng);
        own.work_hard(&mut rng);
        let moment = rng.random_range(0..6000);
        world.lock().run(moment);
        let ways = if pcie { &[Way::Register, Way::Mute, Way::Function][..] } else { &[Way::Register] };
        let way = ways[rng.random_range(0..ways.len())];
        let first = rng.random_range(0..2);
        println!("life {life}: card {first}, {way:?}, {moment} cycles");
        longest = longest.max(reset(&world, first, way));
        nothing_of_a_former_life(&world, &[first]);
        // The other one has gone on meanwhile.
        longest = longest.max(reset(&world, 1 - first, Way::Register));
        nothing_of_a_former_life(&world, &[0, 1]);
        if way == Way::Mute {
            world.lock().card_mut(first).set_bus_master(true);
            nothing_of_a_former_life(&world, &[first]);
        }
        own.dies();
    }
    println!("the longest reset took {longest} cycles");
    Life::begin(&world, &mut rng).works(&mut rng);
}

#[test]
fn a_card_that_is_reset_in_the_middle_of_everything_touches_nothing_and_works_anew() {
    each(&["generic-8b", "generic-64b"], |config, seed| lives(config, seed, tier::number(2, 12)));
}

#[test]
fn over_pcie_too_by_the_register_without_the_right_to_send_and_by_a_function_level_reset() {
    each(&["pcie-8b", "pcie-64b", "pcie4-64b"], |config, seed| lives(config, seed, tier::number(2, 12)));
}

#[test]
fn over_axi_too_and_nothing_stays_under_way_there() {
    each(&["axi-8b", "axi-64b"], |config, seed| lives(config, seed, tier::number(2, 12)));
}
