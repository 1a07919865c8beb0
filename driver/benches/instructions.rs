// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions of a post and of a poll, counted by callgrind.
//!
//! `cargo bench -p ferrowire` runs this program once for each case under callgrind, which counts inside [`counted`] alone: what the card
//! does in between, in plain memory, is not in the figures. They are exact and the same in each run of one build.
//!
//! `-- --check` compares with the counts in `instructions.txt`, which are of one compiler, and fails where one is more than 5 % above its own.
//! `-- --record` writes that file anew.

#[path = "../tests/common/mod.rs"]
mod common;

use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};

use common::mapped::{pushing, rig, Rig};
use ferrowire::*;

/// Rounds of a case, each of which is counted once.
const ROUNDS: u64 = 1000;

/// Entries of the queues.
const ENTRIES: u32 = 64;

struct Case {
    name: &'static str,
    what: &'static str,
    /// What a figure is divided by.
    each: usize,
    /// By a queue pair that pushes.
    push: bool,
    round: fn(&mut Rig, &mut [Completion], u64),
}

const CASES: &[Case] = &[
    Case {
        name: "write-1",
        what: "post a WRITE of one SGE, and ring",
        each: 1,
        push: false,
        round: writes::<1, 0>,
    },
    Case {
        name: "write-32",
        what: "the same, each of 32 with one doorbell",
        each: 32,
        push: false,
        round: writes::<32, 0>,
    },
    Case {
        name: "inline-1",
        what: "post a WRITE of 16 bytes inline, and ring",
        each: 1,
        push: false,
        round: writes::<1, 16>,
    },
    Case {
        name: "inline-32",
        what: "the same, each of 32 with one doorbell",
        each: 32,
        push: false,
        round: writes::<32, 16>,
    },
    Case {
        name: "push-1",
        what: "post a WRITE of one SGE, push it, and ring",
        each: 1,
        push: true,
        round: writes::<1, 0>,
    },
    Case {
        name: "recv-1",
        what: "post a receive of one SGE, and ring",
        each: 1,
        push: false,
        round: receives::<1>,
    },
    Case {
        name: "recv-32",
        what: "the same, each of 32 with one doorbell",
        each: 32,
        push: false,
        round: receives::<32>,
    },
    Case { name: "poll-0", what: "poll, and find nothing", each: 1, push: false, round: polls::<0> },
    Case { name: "poll-1", what: "poll, and find one completion", each: 1, push: false, round: polls::<1> },
    Case {
        name: "poll-16",
        what: "the same, each of 16 in one poll",
        each: 16,
        push: false,
        round: polls::<16>,
    },
    Case { name: "arm", what: "ask for an event", each: 1, push: false, round: arm },
];

/// The only function that callgrind looks into.
#[inline(never)]
fn counted<T>(f: impl FnOnce() -> T) -> T {
    black_box(f())
}

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
    let mut rig = if case.push { pushing(ENTRIES) } else { rig(ENTRIES) };
    let mut done = [Completion::default(); 16];
    // What was made is taken over, once: one poll of it would be in the figures otherwise.
    rig.qp.start_post_send().post(&SendWr::new(0, SendOp::Send, &[]).signaled()).unwrap();
    rig.card.complete(false);
    drain(&mut rig, &mut done);
    for number in 0..ROUNDS {
        (case.round)(&mut rig, &mut done, number);
    }
}

/// Instructions in [`counted`], all rounds together.
fn measure(case: &Case) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|e| format!("this program's path: {e}"))?;
    let out = std::env::temp_dir().join(format!("ferrowire-callgrind-{}-{}", std::process::id(), case.name));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*instructions::counted*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args(["--run", case.name])
        .output()
        .map_err(|e| {
            format!("callgrind counts the instructions, and valgrind does not start ({e}): install valgrind")
        })?;
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    let _ = std::fs::remove_file(&out);
    if !output.status.success() {
        return Err(format!("{}: {}", case.name, String::from_utf8_lossy(&output.stderr)));
    }
    let total =
        text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    let total = total.and_then(|number| number.trim().parse().ok()).filter(|total| *total > 0);
    total.ok_or_else(|| format!("{}: callgrind counted nothing", case.name))
}

/// Counts of a compiler, one a line.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");

/// How far above its recorded count a case may be, in percent.
const MARGIN: u64 = 5;

/// The count of a case in the file.
fn recorded(text: &str, case: &Case) -> Result<u64, String> {
    let line = text.lines().find_map(|line| line.strip_prefix(case.name)?.strip_prefix(' '));
    line.and_then(|count| count.trim().parse().ok())
        .ok_or_else(|| format!("{RECORDED}: no count of {}; write it with --record", case.name))
}

/// The compiler, as the file names it: its version, and what it compiles for.
fn compiler() -> Result<String, String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let said = Command::new(&rustc).arg("-vV").output().map_err(|e| format!("{rustc} -vV: {e}"))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    match (said.lines().next(), host) {
        (Some(version), Some(host)) => Ok(format!("{version} for {host}")),
        _ => Err(format!("{rustc} -vV does not say its version and host")),
    }
}

/// Measures all cases, prints them, and does with the counts what was asked for.
fn all(check: bool, record: bool) -> Result<(), String> {
    let kept = match check {
        true => std::fs::read_to_string(RECORDED).map_err(|e| format!("{RECORDED}: {e}"))?,
        false => String::new(),
    };
    let mut new = format!(
        "# Instructions of each case of instructions.rs. Written by: cargo bench -p ferrowire --bench instructions -- --record\ncompiler {}\n",
        compiler()?
    );
    let mut worse = Vec::new();
    println!("| case | instructions |\n|---|---|");
    for case in CASES {
        let count = measure(case)? / (ROUNDS * case.each as u64);
        println!("| {} | {count} |", case.what);
        let _ = writeln!(new, "{} {count}", case.name);
        if check {
            let kept = recorded(&kept, case)?;
            if count * 100 > kept * (100 + MARGIN) {
                worse.push(format!("{}: {count} instructions, {kept} are recorded", case.name));
            } else if count * (100 + MARGIN) < kept * 100 {
                eprintln!("{}: {count} instructions, {kept} are recorded; record the new counts", case.name);
            }
        }
    }
    if record {
        std::fs::write(Path::new(RECORDED), new).map_err(|e| format!("{RECORDED}: {e}"))?;
    }
    match worse.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "more than {MARGIN} % above the counts in {RECORDED}:\n  {}\nMake the path as short as it was; or, for a reason, write the new \
             counts with --record",
            worse.join("\n  ")
        )),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    if let Some(at) = args.iter().position(|arg| arg == "--run") {
        let case = args.get(at + 1).and_then(|name| CASES.iter().find(|case| case.name == *name));
        run(case.expect("a case's name behind --run"));
        return ExitCode::SUCCESS;
    }
    if has("--test") {
        // `cargo test --benches`: each case once, uncounted.
        CASES.iter().for_each(run);
        return ExitCode::SUCCESS;
    }
    match all(has("--check"), has("--record")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
