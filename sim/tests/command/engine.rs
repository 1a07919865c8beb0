// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `ferrowire` over emulated cards on sockets: two on a wire, and four on a switch.

use super::process::run_in;
use super::rig::Cards;

fn up(name: &str, cards: &str) -> Cards {
    Cards::up(name, &["--engine", "--cards", cards])
}

#[test]
fn list_and_info_say_that_emulated_cards_are_none() {
    let cards = up("engine-list", "11");
    let place = cards.folder.0.to_str().unwrap();
    let json = run_in(&cards.folder.0, &["--json", "list", "--sysfs", "/nowhere", place]).end().json();
    let list = json["cards"].as_array().unwrap();
    let found: Vec<[&str; 3]> =
        list.iter().map(|card| ["device", "kind", "mac"].map(|key| card[key].as_str().unwrap())).collect();
    let names: Vec<String> = (0..11).map(|card| cards.name(card)).collect();
    let macs: Vec<String> = (1..=11).map(|card| format!("02:fe:00:00:00:{card:02x}")).collect();
    let wanted: Vec<[&str; 3]> =
        names.iter().zip(&macs).map(|(name, mac)| [name.as_str(), "emulated", mac.as_str()]).collect();
    assert_eq!(found, wanted, "each, in the order of their numbers");
    let info = cards.on(10, &["info", "--json"]).json();
    assert_eq!(info["node_guid"], "00fe:00ff:fe00:000b");
    assert_eq!(info["ports"][0]["state"], "PORT_ACTIVE (4)");
    assert!(cards.on(3, &["info"]).good().contains("transport:"));
}

#[test]
fn pingpong_bandwidth_and_latency_over_two_emulated_cards() {
    let cards = up("engine-two", "2");
    for more in [
        &["-n", "50", "-c", "-s", "3000"][..],
        &["-n", "20", "-c", "-e", "-s", "300"],
        &["-n", "20", "-c", "-e", "--transport", "UD"],
        &["-n", "20", "-c", "--srq", "-q", "5", "-r", "8"],
    ] {
        let (server, client) = cards.both_json(&["pingpong"], more);
        for side in [&server, &client] {
            // The time is the model's own, and says so.
            assert_eq!(side["clock"], "engine", "{side}");
        }
    }
    for (what, more) in [
        (["bw", "write"], &["-s", "65536", "-n", "50"][..]),
        (["bw", "send"], &["-n", "50", "-q", "4"]),
        (["bw", "read"], &["-s", "4096", "-n", "50"]),
        (["bw", "atomic"], &["-n", "50"]),
        (["lat", "write"], &["-n", "50"]),
        (["lat", "send"], &["-n", "50"]),
        (["lat", "read"], &["-n", "50"]),
    ] {
        let (_, client) = cards.both_json(&what, more);
        let (info, results) = (&client["test_info"], &client["results"]);
        assert_eq!((&info["clock"]["of"], &info["simulated"]), (&"engine".into(), &true.into()), "{what:?}");
        assert_eq!(results["n_iterations"], 50, "{what:?}");
    }
    let (server, client) = cards.both(&["lat", "write"], &["lat", "write", "-n", "20"]);
    let text = client.end().good();
    server.end().good();
    assert!(
        text.contains("the reference engine in the place of one") && text.contains("no measurement"),
        "{text}"
    );
}

#[test]
fn pingpong_bandwidth_and_latency_between_cards_on_a_switch() {
    let cards = up("engine-four", "4");
    for on in [[0, 1], [3, 1], [2, 3]] {
        let (_, client) = cards.both_json_on(on, &["pingpong"], &["-n", "20", "-c", "-s", "3000"]);
        assert_eq!((&client["iterations"], &client["clock"]), (&20.into(), &"engine".into()));
    }
    let (_, client) = cards.both_json_on([1, 3], &["bw", "write"], &["-s", "65536", "-n", "20"]);
    assert_eq!(client["results"]["MsgSize"], 65536);
    let (_, client) = cards.both_json_on([3, 0], &["lat", "send"], &["-n", "20"]);
    assert_eq!(client["results"]["n_iterations"], 20);
    // Three programs answer echoes and one asks each of them: neighbours are found by broadcasts.
    let answers: Vec<_> = (0..3)
        .map(|card| {
            let ip = format!("10.0.0.{}", card + 1);
            let running = cards.start(&["-d", &cards.name(card), "ping", "--answer", "--ip", &ip]);
            running.until(&format!("answers to {ip}"))
        })
        .collect();
    for card in 0..3 {
        let host = format!("10.0.0.{}", card + 1);
        let said = cards.on(3, &["ping", "--ip", "10.0.0.4", "-i", "1", "-c", "2", "--json", &host]).json();
        assert_eq!((&said["received"], &said["clock"]), (&2.into(), &"engine".into()), "{said}");
    }
    for running in answers {
        running.interrupt();
        running.end().good();
    }
}
