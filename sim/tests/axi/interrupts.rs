// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events and interrupts: who is told finds what he is told of.

use crate::tier::number;
use ferrowire::{AccessFlags, Completion, Event, EventQueue, QpInitAttr, SendWr};
use ferrowire_sim::axi::AxiSettings;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::setup::{connection, pair, seeds, settings};

const LIMIT: u64 = 100_000;

/// Runs until the card interrupts.
fn interrupted(pair: &ferrowire_sim::pair::Pair, eq: &EventQueue) {
    let mut world = pair.world.lock();
    for _ in 0..LIMIT {
        world.step();
        world.check().unwrap();
        if let Some(interrupt) = world.card_mut(0).interrupt() {
            assert_eq!(interrupt.eqn, eq.number());
            return;
        }
    }
    drop(world);
    panic!("no interrupt{}", pair.diagnose());
}

fn told(config: &ferrowire_hdl::config::RnicConfig, settings: &AxiSettings, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let pair = pair(config, settings, seed);
    let eq = pair.a.context.create_eq(16).unwrap();
    let mut cq = pair.a.context.create_cq_with_events(64, &eq).unwrap();
    let own = pair.a.pd.create_qp(&QpInitAttr::rc(&cq, &cq)).unwrap();
    let peer = pair.b.pd.create_qp(&QpInitAttr::rc(&pair.b.cq, &pair.b.cq)).unwrap();
    let (mut qp, _peer) = pair.bring_up(own, peer, &connection()).unwrap();
    let from = pair.a.region(0, 4096, AccessFlags::LOCAL_READ).unwrap();
    let to = pair.b.region(0, 4096, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
    let (mut events, mut some) = ([Event::default(); 4], [Completion::default(); 8]);
    for round in 0..40 {
        cq.request_notify(false).unwrap();
        eq.request_interrupt().unwrap();
        let count = rng.random_range(1..4);
        let mut batch = qp.start_post_send();
        for i in 0..count {
            let sge = from.sge(0, rng.random_range(1..600));
            batch.post(&SendWr::write(i, &[sge], to.remote(0)).signaled()).unwrap();
        }
        batch.ring().unwrap();
        interrupted(&pair, &eq);
        // In that cycle, without another one: the poll looks before it lets time pass.
        let before = pair.world.lock().cycle();
        let n = eq.poll(&mut events).unwrap();
        assert_eq!(n, 1, "round {round}, cycle {before}: an interrupt before its event");
        assert_eq!(events[0].object, cq.number());
        let mut left = count as usize;
        let mut first = true;
        while left > 0 {
            let n = cq.poll(&mut some).unwrap();
            assert!(n > 0 || !first, "round {round}, cycle {before}: an event before its completion");
            assert!(some[..n].iter().all(Completion::is_success));
            (first, left) = (false, left - n);
            assert!(pair.world.lock().cycle() < before + LIMIT, "{}", pair.diagnose());
        }
        // One for each that was asked for.
        pair.world.lock().run(rng.random_range(0..1200));
        assert_eq!(pair.world.lock().card_mut(0).interrupt(), None, "round {round}");
    }
}

#[test]
fn an_interrupt_comes_behind_its_event_and_this_behind_its_completion() {
    seeds("an_interrupt_comes", 0..number(4, 12), |config, seed| told(config, &settings(seed), seed));
}

#[test]
fn and_where_writes_are_seen_late_and_in_any_order_too() {
    seeds("and_where_writes", 0..4, |config, seed| {
        let late = AxiSettings {
            late_writes: true,
            reorder: true,
            write_spread: 300,
            seed,
            ..AxiSettings::default()
        };
        told(config, &late, seed);
    });
}
