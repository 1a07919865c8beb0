// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serial ports: pseudo-terminals, whose other end is a board in another thread.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ferrowire::serial::{Line, Patience, SerialBus, SerialError, Stream, Tty};
use ferrowire::*;
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};

use super::board::{Board, Faults};
use crate::common::Mock;

/// A pair: the board's end, and the name of the PC's.
fn pair() -> (File, PathBuf) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    (master.into(), name.into())
}

/// Serves a board until the port is closed.
fn serve(mut master: File, mut board: Board) {
    let mut bytes = [0; 200];
    loop {
        let waits = rustix::event::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let mut files = [rustix::event::PollFd::new(&master, rustix::event::PollFlags::IN)];
        if rustix::event::poll(&mut files, Some(&waits)).unwrap() > 0 {
            match master.read(&mut bytes) {
                // Nobody has it open any more.
                Ok(0) | Err(_) => return,
                Ok(n) => board.send(&bytes[..n]).unwrap(),
            }
        }
        while let n @ 1.. = board.receive(&mut bytes, Duration::ZERO).unwrap() {
            master.write_all(&bytes[..n]).unwrap();
        }
    }
}

#[test]
fn a_card_is_driven_over_a_serial_port_which_is_this_programs_alone() {
    let (master, name) = pair();
    let board = Board::new(Faults::default(), 1);
    let port = Tty::open(&name, 115_200).unwrap();
    let server = std::thread::spawn({
        let board = board.clone();
        move || serve(master, board)
    });
    let error = Tty::open(&name, 115_200).unwrap_err();
    assert!(matches!(error, SerialError::Busy { .. }), "{error}");
    assert!(error.to_string().contains("another program"), "{error}");
    let modes = rustix::termios::tcgetattr(port.0.as_fd()).unwrap();
    assert_eq!(modes.output_speed(), 115_200);
    let raw = rustix::termios::LocalModes::ICANON | rustix::termios::LocalModes::ECHO;
    assert!(!modes.local_modes.intersects(raw));
    let context = Mock::open_over(SerialBus::over(port, Patience::of_baud(115_200)).unwrap());
    let pd = context.alloc_pd().unwrap();
    let memory = context.alloc(4096, 4096).unwrap();
    // All bytes there are, so one that a terminal would take for itself is among them.
    let all: Vec<u8> = (0..=255).cycle().take(4096).collect();
    memory.write(0, &all);
    let region = pd.register(&memory, AccessFlags::LOCAL_WRITE, PageSize::Size4K).unwrap();
    let on_board = {
        let state = board.state();
        let mut bytes = vec![0; state.memory.len()];
        state.memory.read(0, &mut bytes);
        bytes
    };
    assert!(on_board.chunks(4096).any(|page| page == all));
    drop((region, pd, context));
    server.join().unwrap();
}

#[test]
fn what_is_no_port_is_told_with_what_to_do() {
    let error = SerialBus::open("/dev/ttyNOTHERE7", 115_200).unwrap_err();
    assert!(matches!(error, SerialError::NoPort { .. }));
    assert!(error.to_string().contains("/dev/serial/by-id"), "{error}");
    let file = std::env::current_exe().unwrap();
    let error = Tty::open(&file, 115_200).unwrap_err();
    let no_port = matches!(error, SerialError::NotATty { .. } | SerialError::Os { .. });
    assert!(no_port && error.to_string().contains("open"), "{error}");
    let error = Tty::open(Path::new("/dev/null"), 115_200).unwrap_err();
    assert!(matches!(error, SerialError::NotATty { .. }) && error.to_string().contains("ttyUSB"), "{error}");
}

#[test]
fn a_port_on_which_nobody_answers_and_one_that_is_pulled_out_end_in_time() {
    let (master, name) = pair();
    let port = Tty::open(&name, 3_000_000).unwrap();
    let patience = Patience { wait: Duration::from_millis(5), tries: 3 };
    let error = SerialBus::over(port, patience).unwrap_err().to_string();
    assert!(error.contains("no answer after 3 tries"), "{error}");
    let port = Tty::open(&name, 3_000_000).unwrap();
    drop(master);
    let error = SerialBus::over(port, patience).unwrap_err().to_string();
    assert!(error.contains("is the adapter plugged in?"), "{error}");
    // A socket is a line, too.
    let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
    drop(there);
    assert!(SerialBus::over(Stream(here), patience).is_err());
}
