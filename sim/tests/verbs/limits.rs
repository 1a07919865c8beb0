// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of a card and ends of programs, in C: `driver/verbs/tests/c/limits.c` says what each case does.

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use ferrowire::spec::csr::identity;
use ferrowire::spec::{Register, LAYOUT_HASH};
use ferrowire::vfio_user::message::{command, pci, RegionAccess};
use ferrowire::vfio_user::{Message, SocketError, Stream, VfioUserBus};
use rustix::process::Signal;

use super::{run_of, Rig};
use crate::socket::rig::{connect, PATIENCE};

#[track_caller]
fn run(case: &str) -> String {
    run_of("limits", case)
}

#[test]
fn a_completion_queue_that_is_kept_full_is_not_overrun() {
    run("full");
}

#[test]
fn an_overrun_is_an_event_takes_its_queue_pairs_to_error_and_leaves_the_rest_alone() {
    let log = run("overrun");
    assert!(log.contains("ibv_poll_cq: EIO: "), "{log}");
}

#[test]
fn asynchronous_events_come_once_in_each_way_to_wait_and_hold_their_objects_until_acknowledged() {
    run("asynchronous");
}

#[test]
fn a_port_whose_link_goes_down_and_comes_back_is_told_to_every_context_and_connections_go_on() {
    let mut rig = Rig::of("limits", "port");
    let mut program = rig.start("port");
    for _ in 0..2 {
        program.says("ready");
        rig.server.signal(Signal::USR2);
    }
    let (good, said) = program.end();
    assert!(good, "{said}");
    rig.is_clean();
}

#[test]
fn a_device_is_opened_again_after_it_was_closed_with_objects_or_without() {
    let log = run("again");
    assert!(log.contains("ibv_close_device: 2 objects use the context"), "{log}");
}

#[test]
fn a_program_that_ends_in_any_way_leaves_a_clean_card_to_the_next() {
    run("heirs");
}

#[test]
fn a_device_whose_server_was_killed_is_opened_again_when_there_is_another_one() {
    let mut rig = Rig::of("limits", "returns");
    let mut program = rig.start("returns");
    program.says("ready");
    rig.replace_server(&mut program);
    let (good, said) = program.end();
    assert!(good, "{said}");
    for reason in
        ["the server of the card is gone", "its server is gone: start the card again with `ferrowire-sim up`"]
    {
        assert!(said.contains(reason), "{reason}: {said}");
    }
    rig.is_clean();
}

#[test]
fn a_peer_that_is_killed_is_a_failed_request_and_nothing_waits_for_it() {
    run("bereaved");
}

#[test]
fn a_child_of_a_program_that_never_prepared_for_forks_has_no_part_in_the_card() {
    run("unprepared");
}

#[test]
fn without_a_card_the_list_is_empty_and_the_log_says_how_to_start_some() {
    let log = run("alone");
    for reason in [
        "sim:/nowhere/card.sock: connect to /nowhere/card.sock: No such file or directory (os error 2); \
         start the card with `ferrowire-sim up`",
        "no cards are here: start two with `ferrowire sim up`, or name one with `ferrowire run -d CARD`",
    ] {
        assert!(log.contains(reason), "{reason}: {log}");
    }
}

/// A server that asks a card's server, and changes its answers.
fn between(socket: &Path, card: &Path, change: impl Fn(&Message, &mut Message) + Copy + Send + 'static) {
    let (listener, card) = (UnixListener::bind(socket).unwrap(), card.to_path_buf());
    let serve = move |program: UnixStream, card: UnixStream| -> Option<()> {
        let (mut program, mut card) = (Stream::new(program), Stream::new(card));
        loop {
            let question = program.receive().ok()??;
            let files: Vec<_> = question.files.iter().map(AsFd::as_fd).collect();
            card.send(&question.header, &[&question.body], &files).ok()?;
            if question.header.wants_no_reply() {
                continue;
            }
            let mut answer = card.receive().ok()??;
            change(&question, &mut answer);
            program.send(&answer.header, &[&answer.body], &[]).ok()?;
        }
    };
    // It ends with this process.
    std::thread::spawn(move || {
        for program in listener.incoming() {
            let (program, card) = (program.unwrap(), UnixStream::connect(&card).unwrap());
            std::thread::spawn(move || serve(program, card));
        }
    });
}

/// Runs a case whose cards' answers are changed.
#[track_caller]
fn changed(case: &str, change: impl Fn(&Message, &mut Message) + Copy + Send + 'static) -> String {
    let mut rig = Rig::of("limits", case);
    let sockets: Vec<_> = rig.server.sockets.iter().map(|card| card.with_extension("changed")).collect();
    for (socket, card) in sockets.iter().zip(&rig.server.sockets) {
        between(socket, card, change);
    }
    let cards = std::mem::replace(&mut rig.server.sockets, sockets);
    let (good, said) = rig.start(case).end();
    assert!(good, "{said}");
    // The cards are free again, when what is between has hung up on them.
    let begin = Instant::now();
    for card in &cards {
        while matches!(VfioUserBus::connect(card), Err(SocketError::Busy)) {
            assert!(begin.elapsed() < PATIENCE, "{} is not free again", card.display());
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(connect(card));
    }
    rig.server.lives();
    said
}

/// A card that has another value in a register of what it is.
#[track_caller]
fn foreign(register: &Register, value: u32, reason: &str) {
    let offset = u64::from(identity::BLOCK.address(register));
    let log = changed("foreign", move |question, answer| {
        let asked = RegionAccess::parse(&question.body).map(|(access, _)| (access.region, access.offset));
        if question.header.command == command::REGION_READ && asked == Some((pci::BAR0, offset)) {
            answer.body[RegionAccess::BYTES..][..4].copy_from_slice(&value.to_le_bytes());
        }
    });
    assert!(log.contains(&format!("ibv_open_device: EPROTO: {reason}")), "{reason}: {log}");
}

#[test]
fn a_card_of_other_tables_is_refused_with_both_hashes_and_one_of_another_version_with_both_versions() {
    let card = LAYOUT_HASH >> 32 << 32 | 0x1234_5678;
    let tables = format!(
        "open: the card has layout hash {card:#018x}, this driver knows {LAYOUT_HASH:#018x}; \
         build card and driver from one revision"
    );
    foreign(&identity::LAYOUT_HASH_LO, 0x1234_5678, &tables);
    let version = "open: the card has version 9, this driver knows 0; use a driver of the card's version";
    foreign(&identity::VERSION, 9 << 16, version);
}

#[test]
fn a_server_of_another_protocol_is_no_card() {
    let log = changed("protocol", |question, answer| {
        if question.header.command == command::VERSION {
            answer.body[..2].copy_from_slice(&7u16.to_le_bytes());
        }
    });
    let reason = "version: version 7.1; is this the socket of a Ferrowire card of this driver's version?";
    assert!(log.contains(reason), "{reason}: {log}");
}
