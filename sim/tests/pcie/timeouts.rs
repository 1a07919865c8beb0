// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers that come too late or never.

use std::sync::{Arc, Mutex};

use crate::tier::number;
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::root::{Fault, RootSettings};
use rand::Rng as _;

use super::faults::{census, hits, hurts, plan, tags, traffic};
use super::rig::Rig;
use super::setup::{config, seeds, settings, REGIONS};

/// What a read without an answer takes, over many that begin at any moment: the time-out, the least and the most, in cycles.
fn measured(cfg: &RnicConfig, seed: u64) -> (u64, u64, u64) {
    let mut rig = Rig::new(cfg, fast(seed));
    let (mut least, mut most) = (u64::MAX, 0);
    for i in 0..40 {
        let wait = rig.client.random.random_range(0..rig.timeout.min(1000));
        rig.run(wait);
        plan(&mut rig, &[Fault::Lost], 1.0, 1);
        rig.read(REGIONS[2] + 8 * i, 8);
        rig.until(100 * rig.timeout, "over", |rig| rig.client.done.len() == 1);
        let done = rig.client.done.remove(0);
        let took = done.first - rig.rq_ended.last().unwrap();
        (least, most) = (least.min(took), most.max(took));
        assert_eq!((done.errors, rig.events.timeout), (1, i + 1));
        if i % 4 == 3 {
            rig.reset();
        }
    }
    println!("time-out {}: {least} to {most} cycles", rig.timeout);
    (rig.timeout, least, most)
}

/// Short time-outs: 250 cycles, and 625.
fn configs() -> [RnicConfig; 2] {
    [
        config("pcie-64b", 64, |config| config.pcie_timeout_us = 1),
        config("pcie-8b", 8, |config| config.pcie_timeout_us = 10),
    ]
}

/// Nothing but speed.
fn fast(seed: u64) -> RootSettings {
    RootSettings { seed, ..RootSettings::default() }
}

#[test]
fn a_read_without_an_answer_fails_after_the_time_out_and_not_before() {
    let test = "a_read_without_an_answer_fails_after_the_time_out_and_not_before";
    seeds(test, 0..1, |seed| {
        let other = |name, beat, us| config(name, beat, |config| config.pcie_timeout_us = us);
        let others = [(50, 64), (7, 8), (50, 8)];
        let others =
            others.map(|(us, beat)| other(["pcie-64b", "pcie-8b"][usize::from(beat == 8)], beat, us));
        let all: Vec<_> = configs().iter().chain(&others).map(|cfg| measured(cfg, seed)).collect();
        let early = all.iter().any(|(timeout, least, _)| least < timeout);
        assert!(!early, "time-out, least, most: {all:?}");
        let late = all.iter().any(|(timeout, _, most)| *most > timeout + timeout / 4 + 32);
        assert!(!late, "time-out, least, most: {all:?}");
    });
}

#[test]
fn the_longest_time_out_is_as_long_as_it_says() {
    let mut rig = Rig::new(&config("pcie-8b", 8, |_| {}), fast(0));
    rig.run(300);
    plan(&mut rig, &[Fault::Lost], 1.0, 1);
    rig.read(REGIONS[2], 8);
    rig.until(2 * rig.timeout, "over", |rig| rig.client.done.len() == 1);
    let took = rig.client.done[0].first - rig.rq_ended[0];
    println!("time-out {}: {took} cycles", rig.timeout);
    assert!((rig.timeout..rig.timeout + rig.timeout / 4).contains(&took));
}

#[test]
fn reads_that_are_lost_together_fail_together() {
    for cfg in configs() {
        let mut rig = Rig::new(&cfg, fast(0));
        rig.run(300);
        plan(&mut rig, &[Fault::Lost], 1.0, 6);
        (0..6).for_each(|i| rig.read(REGIONS[0] + 64 * i, 64));
        rig.until(20 * rig.timeout, "over", |rig| rig.client.done.len() == 6);
        let took = rig.client.done[5].last - rig.client.done[0].taken;
        assert!(took < rig.timeout + rig.timeout / 4 + 150, "{took} cycles");
        assert!(rig.client.done.iter().all(|done| done.failed()));
        assert_eq!(rig.events.timeout, 6);
    }
}

#[test]
fn an_answer_just_before_the_time_out_is_taken() {
    for cfg in configs() {
        let latency = u64::from(cfg.pcie_timeout_us * cfg.clock_khz / 1000) - 40;
        let mut rig = Rig::new(&cfg, RootSettings { latency, ..fast(0) });
        for i in 0..50 {
            rig.read(REGIONS[0] + 8 * i, 8);
            rig.until(3000, "over", |rig| rig.client.idle());
        }
        rig.finish();
        assert!(rig.client.done.iter().all(|done| !done.failed()));
        assert_eq!(rig.events.timeout, 0);
    }
}

#[test]
fn what_comes_after_the_time_out_is_thrown_away_and_its_tag_comes_back() {
    let test = "what_comes_after_the_time_out_is_thrown_away_and_its_tag_comes_back";
    seeds(test, 0..number(2, 5), |seed| {
        for cfg in [
            config("pcie-64b", 64, |config| config.pcie_timeout_us = 8),
            config("pcie-8b", 8, |config| config.pcie_timeout_us = 64),
        ] {
            let any = settings(seed);
            let latency = any.latency / 4;
            let mut rig = Rig::new(&cfg, RootSettings { latency, stall: any.stall.min(0.1), ..any });
            let late = 4 * rig.timeout;
            let room = rig.tags / 2;
            let under_way = Arc::new(Mutex::new(Vec::<u64>::new()));
            let log = plan(&mut rig, &[Fault::Late(late)], 0.04, usize::MAX);
            // As the plan says, but never so many that tags run out.
            let own = log.clone();
            let mut random = rig.client.random.clone();
            rig.root.set_fault_predicate(Some(Box::new(move |read| {
                let mut ends = under_way.lock().unwrap();
                ends.retain(|end| *end > read.cycle);
                let fault = (ends.len() < room && random.random_bool(0.04)).then_some(Fault::Late(late));
                if fault.is_some() {
                    ends.push(read.cycle + late + 2000);
                }
                own.lock().unwrap().push((*read, fault));
                fault
            })));
            traffic(&mut rig, 400);
            rig.finish();
            let hit = log.lock().unwrap().iter().filter(|(_, fault)| fault.is_some()).count() as u64;
            println!("{hit} late, {:?}", rig.events);
            for done in std::mem::take(&mut rig.client.done) {
                let hits = hits(&log, &done);
                assert_eq!(done.failed(), hits.iter().any(|fault| hurts(*fault)), "{done:?}: {hits:?}");
            }
            assert!(hit > 0);
            assert_eq!(rig.events.timeout, hit);
            assert_eq!(census(&mut rig).len(), rig.tags);
        }
    });
}

#[test]
fn reads_fail_at_once_while_all_tags_are_late_and_succeed_when_answers_have_come() {
    let few = config("pcie-64b", 64, |config| (config.pcie_timeout_us, config.pcie_tags) = (1, 8));
    let [many, small] = configs();
    for cfg in [few, many, small] {
        let late = 60 * u64::from(cfg.pcie_timeout_us * cfg.clock_khz / 1000);
        for fault in [Fault::Lost, Fault::Late(late)] {
            let mut rig = Rig::new(&cfg, RootSettings { extended_tags: false, ..fast(1) });
            let log = plan(&mut rig, &[fault], 1.0, usize::MAX);
            let tags_there = rig.tags;
            (0..tags_there as u64).for_each(|i| rig.read(REGIONS[0] + 64 * i, 64));
            rig.until(50 * rig.timeout, "over", |rig| rig.client.done.len() == tags_there);
            assert!(rig.client.done.drain(..).all(|done| done.failed()));
            assert_eq!(tags(&log, |fault| fault.is_some()).len(), tags_there);
            assert_eq!(rig.events.timeout, tags_there as u64);
            for i in 0..20 {
                let before = rig.rq_beats;
                let length = rig.client.random.random_range(1..=4096);
                rig.read(REGIONS[1], length);
                let beats = length / rig.beat;
                let limit = 2 * rig.tags as u64 + beats as u64 + 200;
                rig.until(limit, "over", |rig| rig.client.done.len() == i + 1);
                assert_eq!(rig.client.done[i].errors, length.div_ceil(rig.beat));
                assert_eq!(rig.rq_beats, before, "a request without a tag");
            }
            rig.client.done.clear();
            if fault == Fault::Lost {
                rig.reset();
            }
            rig.finish();
            assert_eq!(census(&mut rig).len(), rig.tags);
        }
    }
}

#[test]
fn a_link_that_stands_still_is_no_time_out() {
    seeds("a_link_that_stands_still_is_no_time_out", 0..4, |seed| {
        for cfg in configs() {
            let settings = RootSettings { latency: 20, max_read_request: 128, ..fast(seed) };
            let mut rig = Rig::new(&cfg, settings);
            for _ in 0..20 {
                for _ in 0..4 {
                    let (address, length) = rig.place();
                    rig.read(address, length.min(200));
                }
                let before = rig.client.random.random_range(0..30);
                rig.run(before);
                rig.standstill = true;
                rig.run(3 * rig.timeout);
                rig.standstill = false;
                rig.until(20_000, "over", |rig| rig.client.idle());
            }
            rig.finish();
            let failed = rig.client.done.iter().find(|done| done.failed());
            let times = failed.map(|done| (done.taken, done.first, done.last));
            assert_eq!(times, None, "{:?}; a read was taken, and failed in these cycles", rig.events);
            assert_eq!(rig.events.timeout, 0);
        }
    });
}

/// The smallest case of the above: the request waits on rq the whole time.
#[test]
fn a_request_that_nobody_takes_does_not_run_into_the_time_out() {
    for cfg in configs() {
        let mut rig = Rig::new(&cfg, fast(0));
        rig.run(300);
        rig.standstill = true;
        rig.read(REGIONS[0], 8);
        rig.run(3 * rig.timeout);
        let early = rig.client.done.first().map(|done| (done.taken, done.first));
        assert_eq!(early, None, "cycles in which it was taken and failed; {} beats left", rig.rq_beats);
        rig.standstill = false;
        rig.finish();
        assert!(!rig.client.done[0].failed());
    }
}
