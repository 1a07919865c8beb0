// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions of a post and of a poll, counted by callgrind: `cargo bench -p ferrowire`. What the card does in between, in plain memory, is not in the
//! figures. See [`counting`] for `--check` and `--record`.

#[path = "../tests/common/mod.rs"]
mod common;
mod counting;

use std::hint::black_box;
use std::process::ExitCode;

use common::mapped::{pushing, rig, Rig};
use counting::{counted, Bench};
use ferrowire::*;

/// Rounds of a case, each of which is counted once.
const ROUNDS: u64 = 1000;

/// Entries of the queues.
const ENTRIES: u32 = 64;

/// A round, with the queue pair of its case.
struct Round {
    /// By a queue pair that pushes.
    push: bool,
    round: fn(&mut Rig, &mut [Completion], u64),
}

type Case = counting::Case<Round>;

/// A round of a queue pair that does not push.
const fn plain(round: fn(&mut Rig, &mut [Completion], u64)) -> Round {
    Round { push: false, round }
}

const CASES: &[Case] = &[
    Case { name: "write-1", what: "post a WRITE of one SGE, and ring", each: 1, run: plain(writes::<1, 0>) },
    Case {
        name: "write-32",
        what: "the same, each of 32 with one doorbell",
        each: 32,
        run: plain(writes::<32, 0>),
    },
    Case {
        name: "inline-1",
        what: "post a WRITE of 16 bytes inline, and ring",
        each: 1,
        run: plain(writes::<1, 16>),
    },
    Case {
        name: "inline-32",
        what: "the same, each of 32 with one doorbell",
        each: 32,
        run: plain(writes::<32, 16>),
    },
    Case {
        name: "push-1",
        what: "post a WRITE of one SGE, push it, and ring",
        each: 1,
        run: Round { push: true, round: writes::<1, 0> },
    },
    Case { name: "recv-1", what: "post a receive of one SGE, and ring", each: 1, run: plain(receives::<1>) },
    Case {
        name: "recv-32",
        what: "the same, each of 32 with one doorbell",
        each: 32,
        run: plain(receives::<32>),
    },
    Case { name: "poll-0", what: "poll, and find nothing", each: 1, run: plain(polls::<0>) },
    Case { name: "poll-1", what: "poll, and find one completion", each: 1, run: plain(polls::<1>) },
    Case { name: "poll-16", what: "the same, each of 16 in one poll", each: 16, run: plain(polls::<16>) },
    Case { name: "arm", what: "ask for an event", each: 1, run: plain(arm) },
];

fn drain(rig: &mut Rig, done: &mut [Completion]) {
    while rig.cq.poll(done).unwrap() > 0 {}
}

fn post_writes<const COUNT: usize, const INLINE: usize>(rig: &mut Rig, number: u64) {
    let sges = black_box([rig.region.sge(0, 8)]);
    let remote = black_box(RemoteAddress { address: 0x1000, rkey: 0x101 });
    let data = black_box([0x5a; INLINE]);
    let payload = if INLINE > 0 { Payload::Inline(&data) } else { Payload::Sges(&sges) };
    counted(|| {
        let mut batch = rig.qp.start_post_send();
        for i in 0..black_box(COUNT as u64) {
            batch.post(&SendWr::write(number + i, payload, remote).signaled()).unwrap();
        }
        batch.ring().unwrap();
    });
}

fn writes<const COUNT: usize, const INLINE: usize>(rig: &mut Rig, done: &mut [Completion], number: u64) {
    post_writes::<COUNT, INLINE>(rig, number);
    assert_eq!(rig.card.complete(false), COUNT);
    drain(rig, done);
}

fn receives<const COUNT: usize>(rig: &mut Rig, done: &mut [Completion], number: u64) {
    let sges = black_box([rig.region.sge(0, 8)]);
    counted(|| {
        let mut batch = rig.qp.start_post_recv();
        for i in 0..black_box(COUNT as u64) {
            batch.post(&RecvWr::new(number + i, &sges)).unwrap();
        }
        batch.ring().unwrap();
    });
    assert_eq!(rig.card.complete(true), COUNT);
    drain(rig, done);
}

fn polls<const COUNT: usize>(rig: &mut Rig, done: &mut [Completion], number: u64) {
    let sges = [rig.region.sge(0, 8)];
    let mut batch = rig.qp.start_post_send();
    for i in 0..COUNT as u64 {
        let remote = RemoteAddress { address: 0x1000, rkey: 0x101 };
        batch.post(&SendWr::write(number + i, &sges, remote).signaled()).unwrap();
    }
    batch.ring().unwrap();
    assert_eq!(rig.card.complete(false), COUNT);
    assert_eq!(counted(|| rig.cq.poll(done).unwrap()), COUNT);
}

fn arm(rig: &mut Rig, _: &mut [Completion], _: u64) {
    counted(|| rig.cq.request_notify(false).unwrap());
}

/// A case, as it runs under callgrind.
fn run(case: &Case) {
    let mut rig = if case.run.push { pushing(ENTRIES) } else { rig(ENTRIES) };
    let mut done = [Completion::default(); 16];
    // What was made is taken over, once: one poll of it would be in the figures otherwise.
    rig.qp.start_post_send().post(&SendWr::new(0, SendOp::Send, &[]).signaled()).unwrap();
    rig.card.complete(false);
    drain(&mut rig, &mut done);
    for number in 0..ROUNDS {
        (case.run.round)(&mut rig, &mut done, number);
    }
}

fn main() -> ExitCode {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");
    let command = "cargo bench -p ferrowire --bench instructions";
    Bench { cases: CASES, rounds: ROUNDS, recorded, command, run }.main()
}
