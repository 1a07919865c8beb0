// SPDX-License-Identifier: MIT OR Apache-2.0
//! READs of a queue pair that has as many outstanding as it may.

use super::*;
use ferrowire_spec::wire::opcode::Service;

const DEPTH: u64 = 2;

/// A segmenter with an RC QP that may have [`DEPTH`] READs outstanding, and WQEs of READs.
pub(super) fn with_reads(seed: u64, count: u16) -> Bench {
    with_reads_at(seed, count, 64)
}

fn with_reads_at(seed: u64, count: u16, beat_bytes: u32) -> Bench {
    with_reads_of(seed, count, beat_bytes, |_| DEPTH)
}

/// As many READs may be outstanding as `depth` makes of the configuration.
fn with_reads_of(seed: u64, count: u16, beat_bytes: u32, depth: fn(&RnicConfig) -> u64) -> Bench {
    let mut bench = Bench::new(seed, beat_bytes);
    let depth = depth(&bench.cfg);
    let fields = [("service", Service::Rc.code().into()), ("mtu", 3), ("max_rd_atomic", depth)];
    for (name, value) in fields {
        bench.sim.set(&format!("broadcast_attributes_entry_{name}"), value);
    }
    bench.sim.set("broadcast_attributes_index", 0);
    bench.sim.set("broadcast_attributes_enable", 1);
    cycles(&mut bench, 1);
    bench.sim.set("broadcast_attributes_enable", 0);
    bench.sim.set("starting_psn", 100);
    bench.sources[FETCHED].push_values(&[("start", 1)]);
    for (name, value) in [("index", 0), ("entry_index", 0), ("entry_psn", 100), ("entry_first_psn", 100)] {
        bench.sim.set(&format!("oldest_{name}"), value);
    }
    bench.sim.set("oldest_enable", 1);
    cycles(&mut bench, 1);
    bench.sim.set("oldest_enable", 0);
    done(&mut bench, 0);
    cycles(&mut bench, 20);
    (0..count).for_each(|index| read(&mut bench, index));
    bench
}

/// The WQE of a READ of QP 0 comes.
fn read(bench: &mut Bench, index: u16) {
    read_of(bench, index, 64);
}

fn read_of(bench: &mut Bench, index: u16, length: u32) {
    let opcode = SendOpcode::Read.code();
    let unit = SendWqe { opcode, num_sge: 1, sge0_len: length, ..SendWqe::default() };
    let mut bytes = [0; 64];
    unit.emit(&mut bytes).unwrap();
    let mut wqe = item(&Wqe::of(&bench.cfg), &[("index", index.into()), ("total", length.into())]);
    wqe.insert("unit".into(), Bits::from_bytes(512, &bytes));
    bench.sources[FETCHED].push(wqe);
}

pub(super) fn cycles(bench: &mut Bench, n: u32) {
    let Bench { sim, sources, sinks, random, .. } = bench;
    (0..n).for_each(|_| step(sim, sources, sinks, random, 0.0));
}

/// So many READs have been answered.
fn answered(bench: &mut Bench, reads: u64) {
    bench.sim.set("oldest_entry_reads", reads % 32);
    bench.sim.set("oldest_enable", 1);
    cycles(bench, 1);
    bench.sim.set("oldest_enable", 0);
}

/// And what they bring is in memory.
fn done(bench: &mut Bench, reads: u64) {
    answered(bench, reads);
    bench.sim.set("reads_done_index", 0);
    bench.sim.set("reads_done_entry", reads);
    bench.sim.set("reads_done_enable", 1);
    cycles(bench, 1);
    bench.sim.set("reads_done_enable", 0);
}

/// Its peer has room for another. As many as are not in memory are counted modulo 32.
#[test]
fn a_read_follows_an_answer_that_is_not_in_memory_until_too_many_are_not() {
    let mut bench = with_reads(5, 40);
    cycles(&mut bench, 30);
    let packets = bench.sinks[CANDIDATE].items.len() as u64 - DEPTH;
    let sent = |bench: &Bench| bench.sinks[CANDIDATE].items.len() as u64 - packets;
    for reads in 1..=36 {
        answered(&mut bench, reads);
        cycles(&mut bench, 10);
        assert_eq!(sent(&bench), (reads + DEPTH).min(31), "{reads} are answered");
    }
    done(&mut bench, 3);
    answered(&mut bench, 31);
    cycles(&mut bench, 40);
    assert_eq!(sent(&bench), 33, "three are in memory, and all but two that were sent are answered");
}

/// What it brings finds room where that of as many READs as the depth says does.
#[test]
fn a_large_read_waits_until_one_before_it_is_in_memory() {
    for (length, small) in [(511, true), (512, false), (4096, false)] {
        let mut bench = with_reads(6, 0);
        (0..6).for_each(|index| read_of(&mut bench, index, length));
        cycles(&mut bench, 60);
        let sent = |bench: &Bench| bench.sinks[CANDIDATE].items.len() as u64;
        let before = sent(&bench);
        for reads in 1..=3 {
            answered(&mut bench, reads);
            cycles(&mut bench, 20);
            assert_eq!(sent(&bench) - before, if small { reads } else { reads - 1 }, "{length} bytes");
            done(&mut bench, reads);
            cycles(&mut bench, 20);
            assert_eq!(sent(&bench) - before, reads, "{length} bytes");
        }
    }
}

#[test]
fn who_waits_for_an_answer_keeps_its_wqes_while_nobody_else_wants_to_send() {
    let mut bench = with_reads(1, 6);
    cycles(&mut bench, 30);
    let (packets, told) = (bench.sinks[CANDIDATE].items.len(), bench.sinks[RESUME].items.len());
    let sent = |bench: &Bench| bench.sinks[CANDIDATE].items.len() - packets;
    cycles(&mut bench, 300);
    assert_eq!((sent(&bench), bench.sources[FETCHED].left()), (0, 4));
    for reads in 1..5u64 {
        done(&mut bench, reads);
        cycles(&mut bench, 6);
        assert_eq!(sent(&bench), reads as usize, "the next one follows at once");
    }
    cycles(&mut bench, 100);
    assert_eq!((sent(&bench), bench.sinks[RESUME].items.len()), (4, told), "nothing is fetched again");
}

/// Its flush waits for the places that they have.
#[test]
fn who_fails_while_it_waits_for_an_answer_keeps_no_wqes() {
    for beat_bytes in [8, 64] {
        let mut bench = with_reads_at(5, 6, beat_bytes);
        cycles(&mut bench, 300);
        assert_eq!(bench.sources[FETCHED].left(), 4, "{beat_bytes} bytes a beat");
        bench.enter(0, QpState::Err);
        cycles(&mut bench, 60);
        assert_eq!(bench.sources[FETCHED].left(), 0, "{beat_bytes} bytes a beat");
    }
}

/// Its own WQEs are what others wait for, until it is told that they are here.
#[test]
fn who_comes_as_another_keeps_its_wqes_where_nobody_stands_behind() {
    for beat_bytes in [8, 64] {
        let mut bench = with_reads_at(3, 4, beat_bytes);
        cycles(&mut bench, 60);
        let told = bench.sinks[RESUME].items.len();
        // It makes way for QP 1.
        bench.sim.set("waiting_others", 1);
        cycles(&mut bench, 20);
        assert_eq!((bench.sources[FETCHED].left(), bench.sinks[RESUME].items.len()), (0, told + 1));
        bench.sources[FETCHED].push_values(&[("qp", 1), ("error", 1)]);
        let mut arrivals = 0;
        for _ in 0..20 {
            cycles(&mut bench, 1);
            arrivals += bench.sim.get("another");
        }
        assert_eq!(arrivals, 1);
        // Again QP 0, from where it was told to go on.
        (2..4).for_each(|index| read(&mut bench, index));
        for _ in 0..60 {
            let arrived = bench.sim.get("another") == 1;
            cycles(&mut bench, 1);
            if arrived {
                bench.sim.set("waiting_others", 0);
            }
        }
        let resumes = bench.sinks[RESUME].items.len();
        assert_eq!((bench.sources[FETCHED].left(), resumes), (2, told + 1), "{beat_bytes} bytes a beat");
    }
}

#[test]
fn who_waits_for_an_answer_makes_way_for_another() {
    let mut bench = with_reads(2, 6);
    cycles(&mut bench, 200);
    let told = bench.sinks[RESUME].items.len();
    bench.sim.set("waiting_others", 1);
    cycles(&mut bench, 40);
    let resume = &bench.sinks[RESUME].items[told];
    assert_eq!((resume["index"].to_u64(), resume["limited"].to_u64()), (DEPTH, 1));
    assert_eq!(bench.sources[FETCHED].left(), 0, "what is behind it falls out");
    assert_eq!(bench.sinks[RESUME].items.len(), told + 1);
}

/// It has as many as a batch of WQEs: it yields when it has waited for its time, not each time that it waits.
#[test]
fn a_qp_of_many_reads_keeps_its_turn_for_a_time_while_others_wait() {
    let patience = 1 << PATIENCE_BITS;
    for beat_bytes in [8, 64] {
        let depth = |cfg: &RnicConfig| patient_depth(cfg).into();
        let mut bench = with_reads_of(7, 40, beat_bytes, depth);
        let deep = patient_depth(&bench.cfg) as usize;
        cycles(&mut bench, 200);
        assert_eq!(bench.sources[FETCHED].left(), 40 - deep);
        let (packets, told) = (bench.sinks[CANDIDATE].items.len(), bench.sinks[RESUME].items.len());
        bench.sim.set("waiting_others", 1);
        for reads in 1..5 {
            cycles(&mut bench, patience / 8);
            done(&mut bench, reads);
            cycles(&mut bench, 10);
            let sent = bench.sinks[CANDIDATE].items.len() - packets;
            assert_eq!(
                (sent, bench.sinks[RESUME].items.len()),
                (reads as usize, told),
                "{beat_bytes} bytes a beat"
            );
        }
        cycles(&mut bench, patience / 2);
        let resume = &bench.sinks[RESUME].items[told..];
        assert_eq!(resume.len(), 1, "it yields once, however often it has been answered");
        assert_eq!((resume[0]["index"].to_u64(), resume[0]["limited"].to_u64()), (deep as u64 + 4, 1));
        cycles(&mut bench, 200);
        assert_eq!(bench.sources[FETCHED].left(), 0, "what was fetched after it falls out");
    }
}

/// When nothing waits, the time begins anew.
#[test]
fn a_qp_of_many_reads_waits_anew_after_a_time_without_others() {
    let patience = 1 << PATIENCE_BITS;
    let mut bench = with_reads_of(8, 40, 64, |cfg| patient_depth(cfg).into());
    cycles(&mut bench, 200);
    let told = bench.sinks[RESUME].items.len();
    for _ in 0..3 {
        bench.sim.set("waiting_others", 1);
        cycles(&mut bench, patience * 3 / 4);
        bench.sim.set("waiting_others", 0);
        cycles(&mut bench, 5);
    }
    assert_eq!(bench.sinks[RESUME].items.len(), told);
    bench.sim.set("waiting_others", 1);
    cycles(&mut bench, patience + 20);
    assert_eq!(bench.sinks[RESUME].items.len(), told + 1);
}
