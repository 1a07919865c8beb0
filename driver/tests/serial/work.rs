// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs on a card at the other end of a line, and lines that fail.

use ferrowire::serial::{SerialBus, SerialError};
use ferrowire::spec::serial::Command;
use ferrowire::*;

use super::board::{Board, Faults, PATIENCE};
use crate::common::{bench_of, bytes, Bench, Mock, REGION_BYTES};

fn bench(board: &Board) -> Bench {
    let bus = SerialBus::over(board.clone(), PATIENCE).unwrap();
    let mock = board.state().mock.clone();
    bench_of(mock, Mock::open_over(bus), 8, 16)
}

/// Bytes that are others each time.
fn noise(seed: u64, n: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..n).map(|_| next()).collect()
}

fn run(faults: Faults, rounds: u64) {
    println!("{faults:?}");
    let board = Board::new(faults, 1);
    let mut b = bench(&board);
    for round in 0..rounds {
        let n = 1 + (round as usize * 977) % 5000;
        let (from, to) = (round as usize * 131 % 4000, round as usize * 257 % 4000);
        let data = noise(round, n);
        b.source.memory().write(from, &data);
        // A WRITE that fills a receive's number, too: two completions, and data of either direction.
        let mut receives = b.qp.start_post_recv();
        receives.post(&RecvWr::new(round, &[])).unwrap();
        receives.ring().unwrap();
        let sges = [b.source.sge(from, n as u32)];
        let mut batch = b.qp.start_post_send();
        batch.post(&SendWr::write_imm(round, &sges, b.target.remote(to), 7).signaled()).unwrap();
        batch.ring().unwrap();
        let mut some = [Completion::default(); 4];
        let mut done = 0;
        while done < 2 {
            let n_done = b.cq.poll(&mut some).unwrap();
            for completion in &some[..n_done] {
                assert!(completion.is_success(), "{completion:?}");
                // With the first of them, all is there.
                assert_eq!(bytes(b.target.memory(), to, n), data, "round {round}, {faults:?}");
            }
            done += n_done;
        }
    }
    let left = b.target.memory().clone();
    let before = bytes(&left, 0, REGION_BYTES);
    b.target.destroy().unwrap();
    assert_eq!(bytes(&left, 0, REGION_BYTES), before);
    drop((b.qp, b.cq, b.source, b.pd, b.context));
    assert_eq!(board.state().mock.card().resets, 2, "reset when it was opened, and at the end");
}

#[test]
fn a_completion_is_never_seen_before_its_data() {
    run(Faults::default(), 40);
    run(Faults { hurried: true, ..Faults::default() }, 60);
}

#[test]
fn a_noisy_line_changes_nothing_but_time() {
    run(Faults { noise: Some(1000), hurried: true, ..Faults::default() }, 40);
}

#[test]
fn doorbells_find_what_was_written_before_them() {
    let board = Board::new(Faults::default(), 2);
    let mut b = bench(&board);
    b.source.memory().write(0, &[7; 300]);
    board.state().done.clear();
    let mut batch = b.qp.start_post_send();
    batch.post(&SendWr::write(1, &[b.source.sge(0, 300)], b.target.remote(0))).unwrap();
    batch.ring().unwrap();
    let state = board.state();
    let (last, before) = state.done.split_last().unwrap();
    assert_eq!((last.0, last.2), (Command::CsrWrite as u8, 8));
    let before: Vec<_> = before.iter().filter(|(command, ..)| *command != Command::Dirty as u8).collect();
    assert!(before.iter().all(|(command, ..)| *command == Command::Write as u8), "{before:?}");
    let written: u32 = before.iter().map(|(_, _, bytes)| u32::from(*bytes)).sum();
    // The buffer, and what of a WQE is not zero.
    assert!((300..=364).contains(&written), "{written}: {before:?}");
}

fn refused(faults: Faults) -> String {
    SerialBus::over(Board::new(faults, 3), PATIENCE).unwrap_err().to_string()
}

#[test]
fn a_board_that_is_silent_or_other_is_told_with_what_to_do() {
    let silent = refused(Faults { silent: true, ..Faults::default() });
    assert!(silent.contains("no answer") && silent.contains("baud"), "{silent}");
    let other = refused(Faults { version: Some(9), ..Faults::default() });
    assert!(other.contains("version 9") && other.contains("load a bitstream"), "{other}");
    // Noise alone is no board.
    let noise = refused(Faults { noise: Some(2), ..Faults::default() });
    assert!(noise.contains("frames were broken") || noise.contains("notice"), "{noise}");
}

#[test]
fn a_board_that_is_reset_is_gone_until_it_is_opened_again() {
    let board = Board::new(Faults::default(), 4);
    let mut b = bench(&board);
    board.state().reset();
    for _ in 0..2 {
        let error = b.context.is_fatal().unwrap_err();
        assert!(matches!(&error, Error::Bus(BusError::Gone(why)) if why.contains("reset")), "{error}");
    }
    assert!(b.cq.poll(&mut [Completion::default()]).is_err());
    drop(b);
    let again = SerialBus::over(board.clone(), PATIENCE).unwrap();
    assert!(!Mock::open_over(again).is_fatal().unwrap());
}

#[test]
fn registers_that_are_not_there_are_told_and_the_session_goes_on() {
    let board = Board::new(Faults::default(), 5);
    let mut bus = SerialBus::over(board, PATIENCE).unwrap();
    for offset in [2, 0xff_0000, 0x100_0000] {
        assert_eq!(bus.csr_read32(offset), Err(BusError::BadOffset { offset }));
        assert_eq!(bus.csr_write32(offset, 1), Err(BusError::BadOffset { offset }));
    }
    assert_eq!(bus.csr_read32(0).map(|_| ()), Ok(()));
    assert_eq!((bus.interrupt(0).unwrap().is_none(), bus.card_cycles()), (true, Ok(None)));
    let error: BusError = SerialError::Line("gone".into()).into();
    assert!(error.to_string().contains("adapter"), "{error}");
}
