// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pingpong`, `bw` and `lat` between two cards.

use std::time::Duration;

use serde_json::Value;

use super::process::{free_port, run_in};
use super::rig::{cards, Cards};
use crate::socket::rig::{Folder, Node};

/// No message goes from one host's memory to the other's in less: the fastest card needs 75 cycles of 4 ns, and some fewer when the work request is
/// pushed. How much more a host sees depends on how often it looks.
const LEAST_US: f64 = 0.2;

#[test]
fn pingpong_goes_there_and_back_over_every_service_and_looks_at_each_byte() {
    let cards = cards();
    for (more, service, size) in [
        (&["-n", "4", "-c", "-s", "3000"][..], "RC", 3000),
        (&["-n", "4", "-c", "-e", "-s", "300"], "RC", 300),
        (&["-n", "4", "-c", "-e", "--transport", "UD", "-r", "2"], "UD", 1024),
        (&["-n", "4", "-c", "--transport", "uc", "-m", "256", "-s", "1000"], "UC", 1000),
        (&["-n", "2", "-s", "0"], "RC", 0),
        (&["-n", "20", "-c", "--srq", "-q", "5", "-r", "8", "-s", "1500"], "RC", 1500),
        (&["-n", "3", "-c", "-e", "--srq", "-q", "4", "-s", "100"], "RC", 100),
        (&["-n", "3", "-c", "-s", "2000", "--vlan", "7:5"], "RC", 2000),
    ] {
        // The VLAN is each side's own.
        let vlan = more.iter().position(|word| *word == "--vlan").unwrap_or(more.len());
        let (more, vlan) = more.split_at(vlan);
        let (server, client) = cards.both_json(&[&["pingpong"], vlan].concat(), more);
        for side in [&server, &client] {
            assert_eq!(
                (&side["transport"], &side["size"], &side["clock"]),
                (&service.into(), &size.into(), &"card".into())
            );
            assert!(
                side["cycles"].as_u64().unwrap() > 0 && side["iterations"].as_u64().unwrap() > 0,
                "{side}"
            );
            assert_eq!(side["bytes"].as_u64().unwrap(), 2 * size * side["iterations"].as_u64().unwrap());
        }
    }
    let (server, client) = cards.both(&["pingpong"], &["pingpong", "-n", "3", "-s", "64"]);
    let text = client.end().good();
    server.end().good();
    assert!(
        text.contains("local address:  LID 0x0000, QPN 0x0000") && text.contains("remote address: LID"),
        "{text}"
    );
    assert!(
        text.contains("384 bytes in ") && text.contains("3 iters in ") && text.contains(" usec/iter"),
        "{text}"
    );
}

#[test]
fn pingpong_and_bandwidth_between_cards_that_face_pcie() {
    let cards = Cards::up("pcie", &["--config", "pcie-8b"]);
    for more in [&["-n", "4", "-c", "-s", "3000"][..], &["-n", "4", "-c", "-e", "--transport", "UD"]] {
        let (_, client) = cards.both_json(&["pingpong"], more);
        assert_eq!(client["iterations"], 4);
    }
    plausible(&cards.both_json(&["bw", "read"], &["-s", "4096", "-n", "12"]), "RDMA_Read_BW_Test", 119.3);
    for more in [&["-n", "8", "-s", "16", "-I", "16", "--push"][..], &["-n", "8", "-s", "500", "--push"]] {
        let (_, client) = cards.both_json(&["lat", "write"], more);
        assert_eq!(client["results"]["n_iterations"], 8);
    }
}

#[test]
fn cards_that_take_no_pushed_work_requests_say_so() {
    let cards = cards();
    let (server, client) = cards.both(&["lat", "write"], &["lat", "write", "--push"]);
    let (client, server) = (client.end(), server.end());
    assert!(client.code == 1 && client.err.contains("leave push out"), "{client:?}");
    assert_eq!(server.code, 1, "{server:?}");
}

#[test]
fn ping_asks_who_answers_and_says_so_when_nobody_does() {
    let cards = cards();
    let (a, b) = (cards.name(0), cards.name(1));
    let answers =
        cards.start(&["-d", &a, "ping", "--answer", "--ip", "10.0.0.1"]).until("answers to 10.0.0.1");
    let ask =
        |more: &[&str]| cards.start(&[&["-d", &b, "ping", "--ip", "10.0.0.2", "-i", "1"], more].concat());
    let said = ask(&["10.0.0.1", "-c", "3", "-s", "100", "--json"]).end().json();
    assert_eq!((&said["sent"], &said["received"], &said["bytes"]), (&3.into(), &3.into(), &100.into()));
    assert_eq!((&said["host"], &said["clock"]), (&"10.0.0.1".into(), &"card".into()));
    let number = |key: &str| said["usec"][key].as_f64().unwrap();
    assert!(
        0.0 < number("min") && number("min") <= number("avg") && number("avg") <= number("max"),
        "{said}"
    );
    let text = ask(&["10.0.0.1", "-c", "1"]).end().good();
    assert!(
        text.contains("56 bytes from 10.0.0.1: seq=1 time=") && text.contains("1 sent, 1 received, 0 lost")
    );
    let nobody = ask(&["10.0.0.77", "-c", "1", "-W", "1"]).end();
    assert_eq!(nobody.code, 1, "{nobody:?}");
    assert!(nobody.err.contains("no answer; see whether"), "{nobody:?}");
    answers.interrupt();
    answers.end().good();
    assert_eq!(cards.on(0, &["ping"]).code, 2);
}

/// Asserts that figures of bandwidth fit each other and the wire of 1 Gb/s.
#[track_caller]
fn plausible(sides: &(Value, Value), title: &str, most: f64) {
    for side in [&sides.0, &sides.1] {
        let (info, results) = (&side["test_info"], &side["results"]);
        assert_eq!(info["test"], title);
        assert_eq!(info["clock"]["of"], "card");
        let number = |key: &str| results[key].as_f64().unwrap();
        let (size, average) = (number("MsgSize"), number("BW_average"));
        assert!((number("MsgRate") * 1e6 * size / 1048576.0 - average).abs() < 0.01 * average, "{results}");
        assert!(average > 0.1 && average < most, "{results}");
        assert!(number("BW_peak") >= 0.9 * average && number("cycles") > 0.0, "{results}");
    }
    assert_eq!(sides.0["results"], sides.1["results"], "the server tells what the client has measured");
}

#[test]
fn bandwidth_of_write_send_and_read() {
    let cards = cards();
    // A wire of 1 Gb/s carries 119 MB/s, and its packets have headers.
    let most = 119.3;
    plausible(&cards.both_json(&["bw", "write"], &["-s", "4096", "-n", "12"]), "RDMA_Write_BW_Test", most);
    plausible(
        &cards.both_json(&["bw", "send"], &["-s", "4096", "-n", "12", "-q", "3"]),
        "Send_BW_Test",
        most,
    );
    plausible(
        &cards.both_json(&["bw", "read"], &["-s", "4096", "-n", "12", "-o", "4"]),
        "RDMA_Read_BW_Test",
        most,
    );
    let inline = ["-s", "64", "-I", "64", "-n", "40", "-Q", "8", "-t", "16"];
    plausible(&cards.both_json(&["bw", "send"], &inline), "Send_BW_Test", most);
    let both = cards.both_json(&["bw", "write"], &["-s", "2048", "-n", "16", "-b"]);
    assert_eq!(both.1["test_info"]["test"], "RDMA_Write_Bidirectional_BW_Test");
    assert!(both.1["results"]["BW_average"].as_f64().unwrap() < 2.0 * most, "{}", both.1);
    // Datagrams complete when the card has taken them, so its buffer counts.
    let (_, client) = cards.both_json(&["bw", "send"], &["-c", "UD", "-n", "20"]);
    assert_eq!(
        (&client["results"]["MsgSize"], &client["results"]["n_iterations"]),
        (&1024.into(), &20.into())
    );
    let (_, client) = cards.both_json(&["bw", "write"], &["-c", "UC", "-s", "1500", "-D", "1"]);
    assert!(
        client["results"]["n_iterations"].as_u64().unwrap() > 0 && client["results"]["BW_peak"] == 0.0,
        "{client}"
    );
    let (server, client) = cards.both(&["bw", "write"], &["bw", "write", "-a", "-n", "1", "--report_gbits"]);
    let (server, client) = (server.until(" 65536 "), client.until(" 65536 "));
    let (client, _) = (client.end().good(), server.end().good());
    assert!(
        client.contains(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"),
        "{client}"
    );
    assert!(
        client.contains("RDMA_Write BW Test") && client.contains("that of the simulated card, 62.500 MHz"),
        "{client}"
    );
}

#[test]
fn latency_of_write_send_and_read() {
    let cards = cards();
    for (verb, title) in [("write", "RDMA_Write"), ("send", "Send"), ("read", "RDMA_Read")] {
        let (_, client) = cards.both_json(&["lat", verb], &["-n", "10", "-s", "16", "-I", "16"]);
        assert_eq!(client["test_info"]["test"], format!("{title}_Latency_Test"));
        let results = &client["results"];
        let time = |key: &str| results[key].as_f64().unwrap();
        assert_eq!(results["n_iterations"], 10);
        assert!(time("t_min") > LEAST_US && time("t_min") <= time("t_typical"), "{results}");
        assert!(
            time("t_typical") <= time("percentile_99") && time("percentile_99") <= time("t_max"),
            "{results}"
        );
        assert!(time("t_avg") >= time("t_min") && time("t_avg") <= time("t_max"), "{results}");
    }
    let (_, client) = cards.both_json(&["lat", "send"], &["-n", "5", "-c", "UD", "-C"]);
    assert_eq!(client["test_info"]["time_unit"], "cycles");
    let (server, client) = cards.both(&["lat", "read"], &["lat", "read", "-n", "3"]);
    let text = client.end().good();
    server.end().good();
    assert!(text.contains(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"), "{text}");
}

#[test]
fn atomics_count_and_swap() {
    let cards = cards();
    let (server, client) = cards.both_json(&["bw", "atomic"], &["-n", "20"]);
    assert_eq!(client["test_info"]["test"], "Atomic_FETCH_AND_ADD_BW_Test");
    assert_eq!(server["results"], client["results"]);
    assert_eq!(client["results"]["n_iterations"], 20);
    let (_, client) = cards.both_json(&["lat", "atomic"], &["-n", "5", "-A", "CMP_AND_SWAP"]);
    assert!(client["results"]["t_min"].as_f64().unwrap() > LEAST_US, "{client}");
}

#[test]
fn both_sides_run_in_one_process_with_cards_of_its_own() {
    both_in_one_process("inproc", "card");
}

#[test]
fn both_sides_run_in_one_process_without_cards_and_say_so() {
    both_in_one_process("inproc:engine", "engine");
    let nowhere = Folder::new("no cards");
    for (command, said) in [
        ("bw", "no card, and no measurement"),
        ("lat", "no card, and no measurement"),
        ("pingpong", "reference engine, no card"),
        ("ping", "reference engine, no card"),
    ] {
        let arguments: &[&str] = match command {
            "bw" | "lat" => &["-d", "inproc:engine", command, "send", "-n", "5"],
            "ping" => &["-d", "inproc:engine", command, "-c", "1"],
            _ => &["-d", "inproc:engine", command, "-n", "5"],
        };
        let end = run_in(&nowhere.0, arguments).end();
        assert!(end.code == 0 && end.out.contains(said), "{end:?}");
    }
}

#[test]
fn too_many_queue_pairs_are_refused_with_the_limit_before_the_sides_talk() {
    let nowhere = Folder::new("too many");
    for (arguments, words) in [
        (&["-q", "16384"][..], "-q 16384: inproc:engine has 16382 queue pairs; give -q up to 16382"),
        (&["-q", "9999", "-t", "1024"], "has up to 4194303 entries; give -q up to 4095, or a smaller -t"),
    ] {
        let arguments = [&["-d", "inproc:engine", "bw", "write"], arguments].concat();
        let said = run_in(&nowhere.0, &arguments).end();
        assert!(said.code == 1 && said.err.contains(words), "{said:?}");
    }
}

fn both_in_one_process(device: &str, clock: &str) {
    let nowhere = Folder::new(clock);
    let inproc = |arguments: &[&str]| {
        let arguments = [&["-d", device, "--json"], arguments].concat();
        run_in(&nowhere.0, &arguments).end().json()
    };
    assert_eq!(inproc(&["info"])["node_guid"], "00fe:00ff:fe00:0001");
    let pingpong = inproc(&["pingpong", "-n", "5", "-c"]);
    assert_eq!((&pingpong["iterations"], &pingpong["clock"]), (&5.into(), &clock.into()));
    let lat = inproc(&["lat", "write", "-n", "5"]);
    assert!(lat["results"]["t_min"].as_f64().unwrap() > LEAST_US, "{lat}");
    let ping = inproc(&["ping", "-c", "2", "-i", "1"]);
    assert_eq!((&ping["received"], &ping["clock"]), (&2.into(), &clock.into()));
    let bw = inproc(&["bw", "atomic", "-n", "10"]);
    assert_eq!(bw["results"]["n_iterations"], 10);
    assert_eq!(bw["test_info"]["clock"]["of"], clock);
}

#[test]
fn sides_that_do_not_fit_tell_each_other() {
    let cards = cards();
    let (server, client) = cards.both(&["bw", "write"], &["bw", "read"]);
    let (client, server) = (client.end(), server.end());
    assert!(
        server.code == 1 && server.err.contains("the client wishes `bw read`, this is `bw write`"),
        "{server:?}"
    );
    assert!(client.code == 1 && client.err.contains("gave up: the client wishes"), "{client:?}");
    let (server, client) = cards.both(&["pingpong"], &["lat", "send"]);
    let (client, server) = (client.end(), server.end());
    assert!(
        server.code == 1 && server.err.contains("`perf` came where `pingpong` is expected"),
        "{server:?}"
    );
    assert_eq!(client.code, 1, "{client:?}");
}

#[test]
fn a_side_whose_other_side_dies_or_is_stopped_ends_and_leaves_its_card_free() {
    let cards = cards();
    for dies in ["client", "server"] {
        let (server, client) = cards.both(&["bw", "write"], &["bw", "write", "-n", "100000"]);
        let (server, client) = (server.until("#bytes"), client.until("#bytes"));
        std::thread::sleep(Duration::from_millis(200));
        let (victim, other) = if dies == "client" { (client, server) } else { (server, client) };
        victim.kill();
        let said = other.end();
        assert!(said.code == 1 && said.err.contains("ended while"), "{dies}: {said:?}");
    }
    let (server, client) = cards.both(&["pingpong"], &["pingpong", "-n", "100000"]);
    let (server, client) = (server.until("remote"), client.until("remote"));
    client.interrupt();
    let (client, server) = (client.end(), server.end());
    assert!(client.code == 1 && client.err.contains("stopped by a signal"), "{client:?}");
    assert!(server.code == 1 && server.err.contains("gave up: stopped by a signal"), "{server:?}");
    let waiting = cards.start(&["-d", &cards.name(0), "lat", "read", "-p", &free_port().to_string()]);
    let waiting = waiting.until("Waiting for client");
    waiting.interrupt();
    assert_eq!(waiting.end().code, 1);
    let (a, b) = (Node::open(cards.socket(0), 1), Node::open(cards.socket(1), 2));
    super::rig::exchange(&a, &b);
}

#[test]
fn what_the_card_cannot_do_is_said_before_the_other_side_is_waited_for() {
    let cards = cards();
    // Nobody listens there.
    let port = free_port().to_string();
    for (arguments, word) in [
        (&["bw", "write", "-x", "9"][..], "no GID 9"),
        (&["pingpong", "-x", "9"], "no GID 9"),
        (&["bw", "write", "-q", "9999"], "give -q up to"),
        (&["lat", "write", "-I", "999"], "give a smaller -I"),
    ] {
        let said = cards.on(1, &[arguments, &["-p", &port, "localhost"]].concat());
        assert!(said.code != 0 && said.err.contains(word), "{arguments:?}: {said:?}");
        assert!(!said.err.contains("no server"), "{arguments:?}: {said:?}");
    }
    let said = cards.on(1, &["pingpong", "-p", &port, "localhost"]);
    let waits = format!("no server at localhost:{port} yet; waiting for one for up to 5 s");
    assert!(
        said.code == 1 && said.err.contains(&waits) && said.err.contains("start the other side"),
        "{said:?}"
    );
}
