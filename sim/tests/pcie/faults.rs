// SPDX-License-Identifier: MIT OR Apache-2.0
//! A root complex that answers badly: who is hurt, and what is left afterwards.

use crate::tier::number;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::root::{Fault, FaultKind, ReadInfo};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::client::Done;
use super::rig::Rig;
use super::setup::{config, seeds, settings};

/// Reads, and what was done to them.
pub type Log = Arc<Mutex<Vec<(ReadInfo, Option<Fault>)>>>;

const ALL: [Fault; 11] = [
    Fault::UnsupportedRequest,
    Fault::CompleterAbort,
    Fault::Poisoned,
    Fault::Lost,
    Fault::Unexpected,
    Fault::WrongByteCount,
    Fault::WrongLowerAddress,
    Fault::WrongLength,
    Fault::Twice,
    Fault::Late(300),
    Fault::StatusInTheMiddle,
];

/// Whether the read that it happens to fails.
pub fn hurts(fault: Fault) -> bool {
    !matches!(fault, Fault::Unexpected | Fault::Twice | Fault::Late(..1000))
}

/// Whether the tag is gone until the next reset, because nothing that fits ever comes: `None` where that depends on the split.
fn keeps_tag(fault: Fault) -> Option<bool> {
    match fault {
        Fault::Lost | Fault::WrongByteCount | Fault::WrongLowerAddress => Some(true),
        Fault::WrongLength => None,
        _ => Some(false),
    }
}

/// Each read gets one of these faults with so much probability; those that may keep a tag at most `keep` times.
pub fn plan(rig: &mut Rig, faults: &[Fault], rate: f64, mut keep: usize) -> Log {
    let log = Log::default();
    let (faults, own) = (faults.to_vec(), log.clone());
    let mut random = SmallRng::seed_from_u64(rig.root.settings().seed ^ 0xfa17);
    rig.root.set_fault_predicate(Some(Box::new(move |read| {
        let hit = !faults.is_empty() && random.random_bool(rate);
        let mut fault = hit.then(|| faults[random.random_range(0..faults.len())]);
        if fault.is_some_and(|fault| keeps_tag(fault) != Some(false)) {
            fault = fault.filter(|_| keep > 0);
            keep -= usize::from(fault.is_some());
        }
        own.lock().unwrap().push((*read, fault));
        fault
    })));
    log
}

/// What was done to the requests of a read.
pub fn hits(log: &Log, done: &Done) -> Vec<Fault> {
    let end = done.address + done.length as u64;
    let of = |read: &ReadInfo| {
        let place = read.address < end && done.address < read.address + u64::from(read.bytes);
        place && (done.taken..=done.last).contains(&read.cycle)
    };
    log.lock().unwrap().iter().filter(|(read, _)| of(read)).filter_map(|(_, fault)| *fault).collect()
}

/// Tags of the reads to which that happened.
pub fn tags(log: &Log, is: impl Fn(Option<Fault>) -> bool) -> BTreeSet<u8> {
    log.lock().unwrap().iter().filter(|(_, fault)| is(*fault)).map(|(read, _)| read.tag).collect()
}

/// What happened to a tag: when, how many bytes it was asked for, and the fault.
fn story(log: &Log, tag: u8) -> Vec<(u64, u32, Option<Fault>)> {
    let log = log.lock().unwrap();
    let of = log.iter().filter(|(read, _)| read.tag == tag);
    of.map(|(read, fault)| (read.cycle, read.bytes, *fault)).collect()
}

/// Reads and writes; no two reads under way touch the same byte, so one knows which of them was hit.
pub fn traffic(rig: &mut Rig, reads: u64) {
    let end = rig.client.reads_taken + reads;
    let begin = rig.cycle;
    while rig.client.reads_taken < end {
        if rig.client.reads.len() < 2 {
            let (address, length) = rig.free_place();
            rig.read(address, length);
        }
        if rig.client.writes.is_empty() {
            let (address, length) = rig.place();
            rig.write(address, length);
        }
        rig.step();
        assert!(rig.cycle - begin < reads * 20_000, "cycle {}: it stands still", rig.cycle);
    }
}

/// Exactly those fail that were hit by something that hurts.
fn judge(rig: &mut Rig, log: &Log) -> usize {
    let done = std::mem::take(&mut rig.client.done);
    for done in &done {
        let hits = hits(log, done);
        let wanted = hits.iter().any(|fault| hurts(*fault));
        assert_eq!(
            done.failed(),
            wanted,
            "read of {} bytes at {:#x}, cycles {} to {}, {} beats with an error: hit by {hits:?}",
            done.length,
            done.address,
            done.taken,
            done.last,
            done.errors
        );
    }
    done.iter().filter(|done| done.failed()).count()
}

/// Tags that small reads use, all of which succeed.
pub fn census(rig: &mut Rig) -> BTreeSet<u8> {
    rig.client.stall = [0.0; 3];
    let log = plan(rig, &[], 0.0, 0);
    for _ in 0..4 * rig.tags {
        let (address, length) = rig.place();
        rig.read(address, length.min(64));
    }
    rig.finish();
    let failed = rig.client.done.drain(..).filter(Done::failed).count();
    assert_eq!(failed, 0, "reads fail though nothing is wrong any more");
    tags(&log, |_| true)
}

fn run(cfg: &RnicConfig, seed: u64, faults: &[Fault], reads: u64) {
    let mut rig = Rig::new(cfg, settings(seed));
    rig.stall([0.0, 0.2][seed as usize % 2]);
    let keep = rig.tags / 2;
    let log = plan(&mut rig, faults, 0.06, keep);
    traffic(&mut rig, reads);
    rig.finish();
    let failed = judge(&mut rig, &log);
    let kept = tags(&log, |fault| fault.is_some_and(|fault| keeps_tag(fault) == Some(true)));
    let unknown = tags(&log, |fault| fault == Some(Fault::WrongLength)).len();
    let of = |kinds: &[FaultKind]| kinds.iter().map(|kind| rig.root.faults(*kind)).sum::<u64>();
    let (events, timeouts) = (rig.events, kept.len() as u64);
    let kinds = [FaultKind::Unexpected, FaultKind::Twice];
    let mismatches = [FaultKind::WrongByteCount, FaultKind::WrongLowerAddress];
    println!("{failed} failed, {events:?}, faults {:?}", rig.root.stats().faults);
    assert!((timeouts..=timeouts + unknown as u64).contains(&events.timeout), "{events:?}, {timeouts} lost");
    let least = of(&kinds) + of(&mismatches);
    if of(&mismatches) + unknown as u64 == 0 {
        assert_eq!(events.unexpected, least, "{events:?}");
    }
    assert!(events.unexpected >= least, "{events:?}, at least {least} are wrong");
    assert_eq!(events.refused, 0);

    let left = census(&mut rig);
    let both: Vec<_> = left.intersection(&kept).map(|tag| (tag, story(&log, *tag))).collect();
    assert!(both.is_empty(), "tags that wait for completions are used: {both:?}");
    assert!(left.len() + kept.len() + unknown >= rig.tags, "{left:?} of {} are used", rig.tags);
    assert_eq!(rig.events.timeout, events.timeout);
    rig.reset();
    assert_eq!(census(&mut rig).len(), rig.tags, "tags after a reset");
}

/// Time-outs of some 5,000 cycles, far over what an answer needs.
fn configs() -> [RnicConfig; 3] {
    [
        config("pcie-64b", 64, |config| config.pcie_timeout_us = 20),
        config("pcie-8b", 8, |config| config.pcie_timeout_us = 80),
        config("pcie-64b", 32, |config| (config.pcie_timeout_us, config.pcie_tags) = (20, 32)),
    ]
}

#[test]
fn each_fault_alone_fails_the_reads_that_it_hits_and_no_other() {
    let test = "each_fault_alone_fails_the_reads_that_it_hits_and_no_other";
    seeds(test, 0..number(1, 2), |seed| {
        for (i, fault) in (0..).zip(ALL) {
            for (j, cfg) in (0..).zip(configs()) {
                println!("{fault:?} alone");
                run(&cfg, seed + 10 * i + 1000 * j, &[fault], 250);
            }
        }
    });
}

/// All but one kind: what comes for a tag that the root complex takes for free may fit a read that waits for an answer that was wrong, and
/// then nobody can tell.
#[test]
fn all_faults_together_fail_the_reads_that_they_hit_and_no_other() {
    let test = "all_faults_together_fail_the_reads_that_they_hit_and_no_other";
    let without =
        |not: &dyn Fn(Fault) -> bool| ALL.into_iter().filter(|fault| !not(*fault)).collect::<Vec<_>>();
    let known = without(&|fault| fault == Fault::Unexpected);
    let clean = without(&|fault| keeps_tag(fault) != Some(false));
    seeds(test, 0..number(2, 4), |seed| {
        for (j, cfg) in (0..).zip(configs()) {
            run(&cfg, seed + 1000 * j, &known, 600);
            run(&cfg, seed + 1000 * j, &clean, 300);
        }
    });
}
