// SPDX-License-Identifier: MIT OR Apache-2.0
//! Responses that are errors: of a read they fail the queue that asked and no other; of a write they hold nothing up, and the card reports the first one.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrowire::{
    Coded, Completion, Context, ContextOptions, Error, Event, EventKind, LocalCause, MemoryRegion, QpState,
    SendWr, TrafficCounter, WcStatus, WriteFault, WriteKind,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::axi::{Fault, Response};
use ferrowire_sim::bus::{SharedWorld, World};
use ferrowire_sim::card::CardModel;
use ferrowire_sim::pair::{bytes, post, Pair};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::setup::{connection, pair, region, seeds, settings};

const ROOM: usize = 16 << 10;
const LIMIT: u64 = 400_000;
const BAD: [Response; 2] = [Response::SubordinateError, Response::DecodeError];

/// Pages of a region, in bus addresses.
fn pages(pair: &Pair, card: usize, region: &MemoryRegion) -> Vec<Range<u64>> {
    let world = pair.world.lock();
    let host = world.card(card).host();
    let memory = region.memory();
    let places = (0..memory.len()).step_by(4096).chain([memory.len() - 1]);
    let page = |at| host.bus_address(memory.address() + at as u64).unwrap() & !4095;
    places.map(|at| page(at)..page(at) + 4096).collect()
}

/// Reads of the region fail, in a beat or as a whole.
fn spoil(pair: &Pair, card: usize, region: &MemoryRegion, seed: u64) {
    let pages = pages(pair, card, region);
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut world = pair.world.lock();
    let axi = world.card_mut(card).axi_mut().unwrap();
    axi.set_fault_predicate(Some(Box::new(move |access| {
        let hit = !access.write && pages.iter().any(|page| page.contains(&access.address));
        let bad = BAD[rng.random_range(0..2)];
        let fault = if rng.random() { Fault::Whole(bad) } else { Fault::Beat(rng.random_range(0..70), bad) };
        hit.then_some(fault)
    })));
}

fn fails_alone(config: &RnicConfig, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let pair = pair(config, &settings(seed), seed);
    let good = [&pair.a, &pair.b].map(|node| region(node, ROOM, &mut rng));
    let to = [&pair.a, &pair.b].map(|node| region(node, ROOM, &mut rng));
    let broken = [&pair.a, &pair.b].map(|node| region(node, ROOM, &mut rng));
    spoil(&pair, 0, &broken[0], seed);
    spoil(&pair, 1, &broken[1], !seed);
    // Whose payload fails, whose READ fails there, and who has nothing to do with either.
    let mut qps: Vec<_> = (0..3).map(|_| pair.connect(&connection()).unwrap()).collect();
    let length = rng.random_range(1..9000u32);
    let write = [broken[0].sge(rng.random_range(0..4000), length)];
    post(&mut qps[0].0, &[SendWr::write(1, &write, to[1].remote(0)).signaled()]);
    let read = [to[0].sge(0, length)];
    post(&mut qps[1].0, &[SendWr::read(2, &read, broken[1].remote(rng.random_range(0..4000))).signaled()]);
    for i in 0..20 {
        let length = rng.random_range(1..1200u32);
        let sge = [good[0].sge(rng.random_range(0..4096), length)];
        post(&mut qps[2].0, &[SendWr::write(10 + i, &sge, to[1].remote(ROOM - 1200)).signaled()]);
    }
    let done = pair.a.wait(&pair.world, 22, LIMIT).unwrap_or_else(|e| panic!("{e}{}", pair.diagnose()));
    let status = |qp: usize| {
        let of = done.iter().filter(|c| c.qpn() == qps[qp].0.number());
        of.map(|c| c.status().known().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(status(0), [WcStatus::LocQpOpErr]);
    assert_eq!(status(1), [WcStatus::RemOpErr]);
    assert_eq!(status(2), [WcStatus::Success; 20]);
    let states = [0, 1, 2].map(|qp| qps[qp].0.query().unwrap().state.known().unwrap());
    assert_eq!(states, [QpState::Err, QpState::Err, QpState::Rts]);
    let world = pair.world.lock();
    world.check().unwrap();
    let stats = [0, 1].map(|card| world.card(card).axi().unwrap().stats());
    drop(world);
    for (node, stats) in [&pair.a, &pair.b].into_iter().zip(stats) {
        let counted = node.context.traffic_counter(TrafficCounter::AxiReadErrors).unwrap();
        assert!(stats.faults[0] > 0, "card {}", node.card);
        // A read may be several bursts.
        assert!((1..=stats.read_errors).contains(&counted), "card {}: {counted}, {stats:?}", node.card);
    }
}

#[test]
fn a_read_that_fails_ends_the_queue_pair_that_asked_and_no_other() {
    seeds("a_read_that_fails", 0..16, fails_alone);
}

/// A WRITE's payload that memory refuses is lost, as a posted write of PCIe is; all else goes on.
#[test]
fn writes_that_are_refused_hold_nothing_up() {
    seeds("writes_that_are_refused", 0..8, |config, seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let pair = pair(config, &settings(seed), seed);
        let from = region(&pair.a, ROOM, &mut rng);
        let to = [0, 1].map(|_| region(&pair.b, ROOM, &mut rng));
        let pages = pages(&pair, 1, &to[0]);
        let before = bytes(to[0].memory());
        pair.world.lock().card_mut(1).axi_mut().unwrap().set_fault_predicate(Some(Box::new(move |access| {
            let hit = access.write && pages.iter().any(|page| page.contains(&access.address));
            hit.then_some(Fault::Whole(BAD[access.index as usize % 2]))
        })));
        let (mut qp, _peer) = pair.connect(&connection()).unwrap();
        for i in 0..20 {
            let sge = [from.sge(500 * i, 500)];
            post(&mut qp, &[SendWr::write(i as u64, &sge, to[i % 2].remote(500 * i)).signaled()]);
        }
        let done = pair.a.wait(&pair.world, 20, LIMIT).unwrap_or_else(|e| panic!("{e}{}", pair.diagnose()));
        assert!(done.iter().all(Completion::is_success), "{done:?}");
        pair.world.lock().run(3000);
        let world = pair.world.lock();
        world.check().unwrap();
        let axi = world.card(1).axi().unwrap();
        let stats = axi.stats();
        assert!(axi.idle() && stats.faults[1] >= 10, "{stats:?}");
        drop(world);
        let counted = pair.b.context.traffic_counter(TrafficCounter::AxiWriteErrors).unwrap();
        assert_eq!(counted, stats.write_errors);
        assert!(bytes(to[0].memory()) == before);
        for i in (1..20).step_by(2) {
            let at = 500 * i..500 * i + 500;
            assert_eq!(bytes(to[1].memory())[at.clone()], bytes(from.memory())[at]);
        }
    });
}

/// The writes of one kind are refused from now on; the page of the first one.
fn refuse(world: &SharedWorld, card: usize, kind: WriteKind) -> Arc<Mutex<Option<u64>>> {
    let first = Arc::new(Mutex::new(None));
    let page = Arc::clone(&first);
    let mut world = world.lock();
    world.card_mut(card).axi_mut().unwrap().set_fault_predicate(Some(Box::new(move |access| {
        let hit = access.write && access.id == kind.code();
        if hit {
            page.lock().unwrap().get_or_insert(access.address & !4095);
        }
        hit.then_some(Fault::Whole(BAD[access.index as usize % 2]))
    })));
    first
}

/// An ACK has left when payload is lost, and a completion that is lost is never seen: an event must tell of both.
#[test]
fn a_write_that_is_refused_is_reported_once_with_its_page() {
    seeds("a_write_that_is_refused", 0..8, |config, seed| {
        let kind = [WriteKind::Payload, WriteKind::Completion][seed as usize / 2 % 2];
        let mut rng = SmallRng::seed_from_u64(seed);
        let pair = pair(config, &settings(seed), seed);
        let from = region(&pair.a, ROOM, &mut rng);
        let to = region(&pair.b, ROOM, &mut rng);
        // Payload is lost where it arrives, completions where they are waited for.
        let victim = [&pair.b, &pair.a][usize::from(kind == WriteKind::Completion)];
        let events = victim.context.create_async_eq(16).unwrap();
        let (mut qp, _peer) = pair.connect(&connection()).unwrap();
        assert_eq!(victim.context.write_fault(), Ok(None));
        let first = refuse(&pair.world, victim.card, kind);
        for i in 0..8 {
            post(&mut qp, &[SendWr::write(i, &[from.sge(0, 900)], to.remote(64)).signaled()]);
        }
        match kind {
            WriteKind::Payload => {
                let done = pair.a.wait(&pair.world, 8, LIMIT).unwrap_or_else(|e| panic!("{e}"));
                assert!(done.iter().all(Completion::is_success), "{done:?}");
            }
            _ => pair.world.lock().run(20_000),
        }
        pair.world.lock().run(5000);
        let mut some = [Event::default(); 16];
        let n = events.poll(&mut some).unwrap();
        let page = first.lock().unwrap().expect("a write was refused");
        let fault = WriteFault { kind: Coded::Known(kind), page };
        let told: Vec<_> =
            some[..n].iter().filter(|event| event.kind == EventKind::DeviceFatal).copied().collect();
        assert_eq!(told.len(), 1, "{:?}{}", &some[..n], pair.diagnose());
        assert_eq!((told[0].cause, told[0].fault), (LocalCause::Dma.code(), Some(fault)));
        assert!(told[0].to_string().contains(&format!("{page:#x}")), "{}", told[0]);
        assert_eq!(victim.context.write_fault(), Ok(Some(fault)));
        assert!(victim.context.traffic_counter(TrafficCounter::AxiWriteErrors).unwrap() >= 8);
        pair.world.lock().check().unwrap();
    });
}

#[test]
fn a_command_whose_answer_is_refused_says_so_and_a_reset_forgets_it() {
    seeds("a_command_whose_answer", 0..4, |config, seed| {
        let settings = settings(seed);
        let model = CardModel::rnic(config, false).unwrap().with_axi(settings.clone());
        let world = World::single(&model, settings.latency).unwrap().share();
        let patience =
            ContextOptions { command_timeout: Duration::from_micros(500), ..ContextOptions::default() };
        let open = || Context::open_with(world.bus(0), patience.clone()).unwrap();
        let context = open();
        let first = refuse(&world, 0, WriteKind::Event);
        let error = context.create_cq(16).unwrap_err();
        let page = first.lock().unwrap().expect("a write was refused");
        let Error::WriteFault { fault, .. } = &error else { panic!("{error}") };
        assert_eq!(*fault, WriteFault { kind: Coded::Known(WriteKind::Event), page });
        world.lock().card_mut(0).axi_mut().unwrap().set_fault_predicate(None);
        let again = open();
        assert_eq!(again.write_fault(), Ok(None));
        again.create_cq(16).unwrap();
        world.lock().check().unwrap();
    });
}
