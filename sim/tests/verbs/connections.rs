// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of librdmacm, in C: `driver/verbs/tests/c/connections.c` says what each case does.

use super::{run_of, Rig};

#[track_caller]
fn run(case: &str) -> String {
    run_of("connections", case)
}

#[test]
fn a_connection_begins_with_private_data_carries_messages_and_ends() {
    run("rc");
}

#[test]
fn a_request_is_refused_with_its_reason_by_the_program_by_its_end_and_by_a_port_without_listener() {
    run("reject");
}

#[test]
fn endpoints_wait_for_their_events_and_a_refusal_is_an_errno() {
    run("endpoints");
}

#[test]
fn a_datagram_service_is_found_by_sidr() {
    run("ud");
}

#[test]
fn receives_of_a_connection_come_from_a_shared_queue() {
    run("srq");
}

#[test]
fn both_ends_of_a_connection_are_in_one_process() {
    run("loopback");
}

#[test]
fn threads_connect_and_accept_at_the_same_time() {
    run("threads");
}

#[test]
fn threads_wait_for_requests_to_one_listener_which_has_the_domain_of_the_program() {
    run("takers");
}

#[test]
fn a_request_goes_on_in_the_channel_to_which_its_listener_has_moved() {
    run("moves");
}

#[test]
fn a_datagram_service_answers_with_synchronous_identifiers() {
    run("services");
}

#[test]
fn a_wait_for_an_event_goes_on_after_a_signal_unless_its_handler_does_not_restart() {
    run("interrupted");
}

#[test]
fn what_ends_before_it_is_connected_is_told_once_or_not_at_all() {
    run("early");
}

#[test]
fn an_address_for_which_the_card_has_no_domain_is_an_error() {
    run("domains");
}

#[test]
fn a_channel_works_without_blocking_with_epoll_and_for_identifiers_that_migrate() {
    run("events");
}

#[test]
fn a_call_at_the_wrong_time_has_the_errno_of_its_manual_page_and_a_reason_in_the_log() {
    let log = run("errors");
    for reason in [
        "rdma_connect: EINVAL: the identifier has no address; call rdma_bind_addr or rdma_resolve_addr first",
        "rdma_bind_addr: EADDRNOTAVAIL: 10.9.9.9 is no address of the card",
        "rdma_connect: EINVAL: the identifier is without a route",
        "rdma_connect: EINVAL: responder_resources is 254; the card takes up to",
        "rdma_join_multicast: EOPNOTSUPP: the card has no multicast groups",
        "rsocket: EOPNOTSUPP: this library has no rsockets",
    ] {
        assert!(log.contains(reason), "{reason}: {log}");
    }
}

#[test]
fn requests_that_nobody_takes_are_refused_when_their_listener_or_its_program_ends() {
    run("pending");
}

#[test]
fn a_program_takes_its_own_queue_pairs_through_their_states() {
    run("attributes");
}

#[test]
fn a_forked_child_has_no_part_in_its_parents_identifiers() {
    run("forks");
}

#[test]
fn the_end_of_a_peer_that_was_killed_is_seen_by_the_queue_pair_and_holds_nothing_up() {
    run("killed");
}

#[test]
fn without_a_card_a_channel_works_and_an_address_is_enodev() {
    let log = run("alone");
    assert!(log.contains("rdma_resolve_addr: ENODEV: no card is here"), "{log}");
}

#[test]
fn identifiers_of_a_card_that_goes_away_get_device_removal_and_calls_do_not_wait() {
    let rig = Rig::of("connections", "gone");
    let mut program = rig.start("gone");
    program.says("ready");
    drop(rig.server);
    let (good, said) = program.end();
    assert!(good, "{said}");
}
