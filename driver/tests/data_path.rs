// SPDX-License-Identifier: MIT OR Apache-2.0
//! With mapped doorbells, posting and polling take no lock of the bus and make no system call.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::mapped::{pushing, rig, Rig};
use ferrowire::*;
use rustix::thread::{set_secure_computing_mode, SecureComputingMode};

const PATIENCE: Duration = Duration::from_secs(60);

/// A round of everything: batches of sends and receives, a send that is pushed, polls that find something and nothing, arming.
fn round(rig: &mut Rig, number: u64) {
    let Rig { card, qp, cq, region, .. } = rig;
    let mut done = [Completion::default(); 16];
    let sges = [region.sge(0, 8)];
    let remote = RemoteAddress { address: 0, rkey: 0 };
    let mut batch = qp.start_post_send();
    for i in 0..3 {
        batch.post(&SendWr::write(5 * number + i, &sges, remote).signaled()).unwrap();
    }
    batch.post(&SendWr::write(5 * number + 3, Payload::Inline(&[7; 16]), remote).signaled()).unwrap();
    batch.ring().unwrap();
    assert!(card.pushed().is_none(), "a batch is not pushed");
    assert_eq!(card.complete(false), 4);
    qp.start_post_send().post(&SendWr::write(5 * number + 4, &sges, remote).signaled()).unwrap();
    assert!(card.pushed().is_some(), "one alone is pushed");
    qp.start_post_recv().post(&RecvWr::new(number, &sges)).unwrap();
    assert_eq!(cq.poll(&mut done).unwrap(), 4);
    assert_eq!(cq.poll(&mut done[4..]).unwrap(), 0);
    cq.request_notify(false).unwrap();
    assert_eq!(u64::from(card.consumer()), 6 * number + 4, "the card is told how far the host is");
    assert_eq!(card.complete(false) + card.complete(true), 2);
    assert_eq!(cq.poll(&mut done[4..]).unwrap(), 2);
    for (i, completion) in done[..5].iter().enumerate() {
        assert_eq!((completion.wr_id(), completion.kind()), (5 * number + i as u64, WorkKind::Send));
    }
    assert_eq!((done[5].wr_id(), done[5].kind()), (number, WorkKind::Receive));
}

#[test]
fn posting_and_polling_go_on_while_another_thread_has_the_bus() {
    let mut rig = pushing(16);
    let (context, hold) = (rig.context.clone(), std::sync::Arc::clone(&rig.hold));
    std::thread::scope(|scope| {
        // It has the bus's mutex until it is let go, in the middle of a read of a register.
        hold[0].store(true, Ordering::Release);
        let holder = scope.spawn(move || context.is_fatal().unwrap());
        while !hold[1].load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (tell, told) = mpsc::channel();
        scope.spawn(move || {
            (0..100).for_each(|number| round(&mut rig, number));
            tell.send(()).unwrap();
            // Given back only when the bus is free.
            rig
        });
        let went_on = told.recv_timeout(PATIENCE);
        assert!(!holder.is_finished(), "it had the bus all the time");
        hold[0].store(false, Ordering::Release);
        went_on.expect("posting and polling waited for the bus");
    });
}

/// Polls end before, at and behind the places where the card is told, and nothing but these tells it.
#[test]
fn the_card_is_told_each_quarter_of_the_ring_however_polls_end() {
    for entries in [1, 2, 5, 16, 24] {
        let mut rig = rig(entries);
        let (room, quarter) = (rig.cq.capacity(), (rig.card.ring() / 4).max(1));
        let sges = [rig.region.sge(0, 8)];
        let remote = RemoteAddress { address: 0, rkey: 0 };
        let mut done = [Completion::default(); 64];
        let (mut posted, mut taken) = (0, 0);
        while taken < 2000 {
            let mut batch = rig.qp.start_post_send();
            while posted - taken < room && batch.room() > 0 {
                batch.post(&SendWr::write(posted.into(), &sges, remote).signaled()).unwrap();
                posted += 1;
            }
            batch.ring().unwrap();
            rig.card.complete(false);
            let most = 1 + taken * 7 % room;
            let n = rig.cq.poll(&mut done[..most as usize]).unwrap() as u32;
            assert_eq!(n, most.min(posted - taken), "{entries}: as many as there are");
            for (i, done) in done[..n as usize].iter().enumerate() {
                assert_eq!((done.wr_id(), done.is_success()), (u64::from(taken) + i as u64, true));
            }
            taken += n;
            assert_eq!(rig.card.consumer(), taken / quarter * quarter, "{entries}: each quarter");
        }
    }
}

/// What the child says when it has done all of it.
const SAID: &[u8] = b"no system call\n";

/// The thread that the next test starts in a process of its own: after the first line it is killed at any system call but read and write.
#[test]
#[ignore = "a process of its own, which another test starts"]
fn a_thread_that_may_only_read_and_write() {
    if std::env::var_os("FERROWIRE_TEST_SECCOMP").is_none() {
        return;
    }
    let mut rig = pushing(16);
    // What was made is taken over by the first poll.
    round(&mut rig, 0);
    set_secure_computing_mode(SecureComputingMode::Strict).unwrap();
    (1..1000).for_each(|number| round(&mut rig, number));
    if std::env::var("FERROWIRE_TEST_SECCOMP").is_ok_and(|what| what == "break") {
        // Not allowed: the test would not be one if it were.
        std::thread::sleep(Duration::from_millis(1));
    }
    rustix::io::write(rustix::stdio::stdout(), SAID).unwrap();
    loop {
        // Any end of a thread is a system call.
        std::hint::spin_loop();
    }
}

/// Runs the thread, and waits for what it says.
fn said(how: &str, patience: Duration) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "data_path::a_thread_that_may_only_read_and_write"])
        .env("FERROWIRE_TEST_SECCOMP", how)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut all = Vec::new();
        let mut some = [0; 256];
        while let Ok(n @ 1..) = out.read(&mut some) {
            all.extend_from_slice(&some[..n]);
            if all.windows(SAID.len()).any(|part| part == SAID) {
                let _ = tell.send(());
                break;
            }
        }
    });
    let start = Instant::now();
    let said = loop {
        match told.recv_timeout(Duration::from_millis(10)) {
            Ok(()) => break true,
            Err(mpsc::RecvTimeoutError::Disconnected) => break false,
            Err(mpsc::RecvTimeoutError::Timeout) if start.elapsed() > patience => break false,
            Err(_) => {}
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    said
}

#[test]
fn posting_and_polling_make_no_system_call() {
    assert!(said("keep", PATIENCE), "the thread was killed at a system call");
    assert!(!said("break", Duration::from_secs(2)), "the kernel does not judge");
}
