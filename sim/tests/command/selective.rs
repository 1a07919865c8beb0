// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--selective` of the commands over emulated cards. The wire loses frames, and its capture shows what the queue pairs have agreed on.

use std::path::PathBuf;

use serde_json::Value;

use super::process::{free_port, run_in, Running};
use super::rig::Cards;
use crate::socket::rig::{Folder, Selective};

/// Two cards on a wire that loses frames and is captured.
struct Rig {
    cards: Cards,
    capture: PathBuf,
    _folder: Folder,
}

impl Rig {
    fn new(name: &str, more: &[&str]) -> Self {
        let folder = Folder::new(&format!("selective-{name}"));
        let capture = folder.join("wire.pcapng");
        let captures = ["--engine", "--capture", capture.to_str().unwrap()];
        Self { cards: Cards::up(name, &[&captures, more].concat()), capture, _folder: folder }
    }

    /// Ends the cards; what was on the wire.
    #[track_caller]
    fn seen(self) -> Selective {
        assert!(self.cards.server.interrupt());
        Selective::of(&self.capture)
    }

    /// The server and the client of `rping`.
    fn rping(&self, server: &[&str], client: &[&str]) -> (Running, Running) {
        let names = [0, 1].map(|card| self.cards.name(card));
        let server = [&["-d", &names[0], "rping", "--ip", "10.0.0.1"], server].concat();
        let server = self.cards.start(&server).until("listens on 10.0.0.1");
        let client = [&["-d", &names[1], "--json", "rping", "--ip", "10.0.0.2", "10.0.0.1"], client].concat();
        (server, self.cards.start(&client))
    }
}

const LOSSES: [&str; 2] = ["--faults", "drop=0.02,seed=5"];

/// What each command says of it.
fn said(json: &Value) -> &Value {
    let info = &json["test_info"]["selective"];
    if info.is_null() {
        &json["selective"]
    } else {
        info
    }
}

/// Commands with so many messages that some frames are lost, and whether more than one packet of theirs is under way.
const COMMANDS: [(&[&str], &[&str], bool); 5] = [
    (&["bw", "write"], &["-s", "65536", "-n", "40"], true),
    (&["bw", "send"], &["-s", "8192", "-n", "200", "-q", "2"], true),
    (&["bw", "read"], &["-s", "65536", "-n", "40"], false),
    (&["lat", "write"], &["-n", "200"], false),
    (&["pingpong"], &["-s", "3000", "-n", "150", "-c"], false),
];

#[test]
fn both_sides_agree_and_what_is_lost_is_sent_again_alone() {
    for (what, more, reports) in COMMANDS {
        let rig = Rig::new("agree", &LOSSES);
        // The client's option counts.
        let (server, client) = rig.cards.both_json(what, &[more, &["--selective"]].concat());
        assert_eq!((said(&server), said(&client)), (&true.into(), &true.into()), "{what:?}");
        let seen = rig.seen();
        assert!(seen.again > 0 && (seen.reports > 0 || !reports), "{what:?}: {seen:?}");
    }
}

#[test]
fn without_the_option_queue_pairs_of_the_same_cards_use_go_back_n() {
    for (what, more, _) in COMMANDS {
        let rig = Rig::new("plain", &LOSSES);
        let (server, client) = rig.cards.both_json(what, more);
        assert_eq!((said(&server), said(&client)), (&false.into(), &false.into()), "{what:?}");
        assert_eq!(rig.seen(), Selective::NONE, "{what:?}");
    }
}

#[test]
fn rping_agrees_if_both_sides_have_the_option() {
    let rounds = ["-C", "40", "-S", "20000", "-V"];
    for (at_server, at_client) in [(true, true), (true, false), (false, true)] {
        let rig = Rig::new("rping-selective", &LOSSES);
        let option = |has: bool| if has { &["--selective"][..] } else { &[] };
        let server = [&["-C", "40"], option(at_server)].concat();
        let (server, client) = rig.rping(&server, &[&rounds, option(at_client)].concat());
        let (client, server) = (client.end(), server.end());
        assert_eq!((client.code, server.code), (0, 0), "{client:?}\n{server:?}");
        let agreed = at_server && at_client;
        let alone = "does not agree to selective retransmission; both sides use go-back-N";
        assert_eq!(client.err.contains(alone), at_client && !agreed, "{client:?}");
        assert_eq!(server.err.contains(alone), at_server && !agreed, "{server:?}");
        let json = client.json();
        assert_eq!((said(&json), &json["validated"]), (&agreed.into(), &true.into()));
        let seen = rig.seen();
        assert!(if agreed { seen.again > 0 } else { seen == Selective::NONE }, "{seen:?}");
    }
}

#[test]
fn a_card_without_the_feature_is_named_before_the_other_side_is_waited_for() {
    let cards = Cards::up("without", &["--engine", "--without-selective", "1"]);
    let port = free_port().to_string();
    for (what, to) in [
        (&["bw", "write"][..], "localhost"),
        (&["lat", "read"], "localhost"),
        (&["pingpong"], "localhost"),
        (&["rping"], "10.0.0.1"),
    ] {
        let said = cards.on(1, &[what, &["--selective", "-p", &port, to]].concat());
        assert!(said.code == 1 && said.err.contains("does not have the feature `selective`"), "{said:?}");
        assert!(said.err.contains("leave --selective out for go-back-N"), "{said:?}");
        assert!(!said.err.contains("no server"), "{what:?}: {said:?}");
    }
    let features = |card: usize| {
        let info = cards.on(card, &["info", "--json"]).json();
        info["features"].as_array().unwrap().iter().any(|feature| feature == "selective")
    };
    assert_eq!([0, 1].map(features), [true, false]);
}

#[test]
fn a_peer_whose_card_does_not_have_the_feature_gets_go_back_n_and_the_command_says_so() {
    let more = [&LOSSES[..], &["--without-selective", "0"]].concat();
    for (what, option, _) in COMMANDS {
        let rig = Rig::new("peer", &more);
        let server = [&["--json"], what].concat();
        let client = [&["--json"], what, option, &["--selective"]].concat();
        let (server, client) = rig.cards.both(&server, &client);
        let (client, server) = (client.end(), server.end());
        let alone = "the server does not agree to selective retransmission; both sides use go-back-N";
        assert!(client.err.contains(alone), "{what:?}: {client:?}");
        assert_eq!((said(&client.json()), said(&server.json())), (&false.into(), &false.into()));
        assert_eq!(rig.seen(), Selective::NONE, "{what:?}");
    }
    let rig = Rig::new("peer", &more);
    let (server, client) = rig.rping(&["-C", "20"], &["-C", "20", "-S", "20000", "--selective"]);
    let (client, server) = (client.end(), server.end());
    assert!(client.err.contains("10.0.0.1 does not agree to selective retransmission"), "{client:?}");
    assert_eq!((said(&client.json()), server.code), (&false.into(), 0));
    assert_eq!(rig.seen(), Selective::NONE);
}

#[test]
fn both_sides_of_one_process_agree() {
    let nowhere = Folder::new("selective-inproc");
    let run = |arguments: &[&str]| run_in(&nowhere.0, &[&["-d", "inproc:engine"], arguments].concat()).end();
    for what in [&["bw", "write"][..], &["lat", "send"], &["pingpong"], &["rping"]] {
        let json = run(&[&["--json"], what, &["--selective"]].concat()).json();
        assert_eq!(said(&json), &true, "{what:?}");
    }
    let text = run(&["bw", "write", "-n", "20", "--selective"]).good();
    assert!(text.contains("Retransmission  : selective"), "{text}");
}
