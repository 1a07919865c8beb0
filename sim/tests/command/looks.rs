// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that look at a card, or put it right.

use ferrowire::spec::csr::port::GIDS;
use ferrowire::{DropReason, HwCounter, TrafficCounter};

use super::process::run_in;
use super::rig::{cards, exchange, Cards};
use crate::socket::rig::{Folder, Node, Server};

#[test]
fn info_has_the_keys_and_the_order_of_ibv_devinfo_and_the_values_of_the_card() {
    let cards = cards();
    let text = cards.on(0, &["info"]).good();
    let keys: Vec<&str> =
        text.lines().filter_map(|line| line.trim().split_once(':').map(|(key, _)| key)).collect();
    let wanted = [
        "hca_id",
        "transport",
        "fw_ver",
        "node_guid",
        "sys_image_guid",
        "vendor_id",
        "vendor_part_id",
        "hw_ver",
        "phys_port_cnt",
        "max_mr_size",
        "page_size_cap",
        "max_qp",
        "max_qp_wr",
        "device_cap_flags",
        "max_sge",
        "max_sge_rd",
        "max_cq",
        "max_cqe",
        "max_mr",
        "max_pd",
        "max_qp_rd_atom",
        "max_ee_rd_atom",
        "max_res_rd_atom",
        "max_qp_init_rd_atom",
        "max_ee_init_rd_atom",
        "atomic_cap",
        "max_ee",
        "max_rdd",
        "max_mw",
        "max_raw_ipv6_qp",
        "max_raw_ethy_qp",
        "max_mcast_grp",
        "max_mcast_qp_attach",
        "max_total_mcast_qp_attach",
        "max_ah",
        "max_fmr",
        "max_srq",
        "max_srq_wr",
        "max_srq_sge",
        "max_pkeys",
        "local_ca_ack_delay",
        "features",
        "port",
        "state",
        "max_mtu",
        "active_mtu",
        "sm_lid",
        "port_lid",
        "port_lmc",
        "link_layer",
        "max_msg_sz",
        "port_cap_flags",
        "port_cap_flags2",
        "max_vl_num",
        "bad_pkey_cntr",
        "qkey_viol_cntr",
        "sm_sl",
        "pkey_tbl_len",
        "gid_tbl_len",
        "subnet_timeout",
        "init_type_reply",
        "active_width",
        "active_speed",
        "phys_state",
        "GID[  0]",
    ];
    let found: Vec<&str> = keys.into_iter().filter(|key| wanted.contains(key)).collect();
    assert_eq!(found, wanted);
    let json = cards.on(0, &["info", "--json"]).json();
    let node = Node::open(cards.socket(0), 1);
    let can = node.context.capabilities();
    assert_eq!(json["max_qp"], can.max_qp);
    assert_eq!(json["max_mr"], can.max_mr);
    assert_eq!(json["max_cqe"], can.max_cqe());
    assert_eq!(json["max_sge"], can.max_send_sge.min(can.max_recv_sge));
    let features = [
        ("rc", can.rc),
        ("uc", can.uc),
        ("ud", can.ud),
        ("atomics", can.atomics),
        ("memory_windows", can.memory_windows),
        ("srq", can.srq),
        ("congestion", can.congestion),
        ("raw_ethernet", can.raw_ethernet),
        ("selective", can.selective),
        ("ipv6", can.ipv6),
        ("vlan", can.vlan),
        ("msix", can.msix),
        ("neighbour_responder", can.neighbour_responder),
        ("wqe_push", can.wqe_push),
        ("loopback", can.loopback),
    ];
    let features: Vec<&str> = features.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
    assert!(features.contains(&"ud") && features.len() < 15, "{features:?}");
    assert_eq!(json["features"], serde_json::json!(features));
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert!(lines
        .windows(features.len() + 1)
        .any(|lines| lines[0] == "features:" && lines[1..] == features[..]));
    assert_eq!(json["node_guid"], "00fe:00ff:fe00:0001");
    assert_eq!(json["ports"][0]["gid_tbl_len"], GIDS);
    assert_eq!(json["ports"][0]["state"], "PORT_ACTIVE (4)");
}

#[test]
fn counters_regs_and_top_look_beside_the_program_that_has_the_card() {
    let cards = cards();
    let (a, b) = (Node::open(cards.socket(0), 1), Node::open(cards.socket(1), 2));
    let json = |arguments: &[&str]| cards.on(0, arguments).json();
    let top = cards
        .start(&["-d", &cards.name(0), "--json", "top", "--interval", "0.3", "-n", "3"])
        .until("\"device\"");
    exchange(&a, &b);
    let counters = json(&["counters", "--json"]);
    let kinds = [
        ("traffic", TrafficCounter::ALL.len()),
        ("drops", DropReason::ALL.len()),
        ("hw_counters", HwCounter::ALL.len()),
    ];
    for (group, count) in kinds {
        assert_eq!(counters["counters"][group].as_object().unwrap().len(), count, "{group}");
    }
    let frames = a.context.traffic_counter(TrafficCounter::TxFrames).unwrap();
    assert!(frames > 0);
    assert_eq!(counters["counters"]["traffic"]["tx_frames"], frames);
    let nonzero = cards.on(0, &["counters", "--nonzero"]).good();
    assert!(nonzero.contains("tx_frames") && nonzero.lines().all(|line| !line.ends_with(" 0")), "{nonzero}");
    let lines = top.end().good();
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["clock"], &last["counters"]["traffic"]["tx_frames"]), (&"card".into(), &frames.into()));
    // The tick that the program sets is seen; who would write is told to wait.
    a.context.set_timer_tick(4321).unwrap();
    assert_eq!(json(&["regs", "tick", "--json"])["registers"][0]["value"], 4321);
    for arguments in [&["regs", "--write", "timers.tick=1"][..], &["reset"], &["pingpong"]] {
        let said = cards.on(0, arguments);
        assert!(said.code == 1 && said.err.contains("in use by another program"), "{said:?}");
    }
    exchange(&a, &b);
    drop((a, b));
    let text = cards.on(0, &["regs", "--write", "timers.tick=0x123"]).good();
    assert!(text.contains("timers.tick") && text.contains("0x00000123"), "{text}");
    let said = cards.on(0, &["regs", "--write", "identity.magic=0"]);
    assert!(said.code == 2 && said.err.contains("read only"), "{said:?}");
    let all = cards.on(0, &["regs"]).good();
    assert!(all.contains("0x57524546") && all.contains("port.mac_lo") && all.contains("write only"), "{all}");
}

#[test]
fn top_ends_with_ctrl_c_and_leaves_the_card_alone() {
    let cards = cards();
    // A look takes longer than the shortest interval.
    let top = cards.start(&["-d", &cards.name(0), "top", "--all", "--interval", "0.01"]).until("tx_frames");
    let reset = cards.on(0, &["reset", "--json"]).json();
    assert_eq!(reset["reset"], true);
    let top = top.until("tx_frames");
    top.interrupt();
    let said = top.end();
    assert_eq!(said.code, 0, "{said:?}");
}

/// The addresses of the first card.
fn list(cards: &Cards) -> Vec<String> {
    let json = cards.on(0, &["gids", "--json"]).json();
    json["gids"].as_array().unwrap().iter().map(|gid| gid["address"].as_str().unwrap().into()).collect()
}

#[test]
fn gids_that_the_card_was_started_with_come_behind_that_of_its_mac_address() {
    let folder = Folder::new("given");
    let socket = folder.join("card.sock");
    let addresses = ["--mac", "02:fe:00:00:00:2a", "--ip", "10.0.0.7,fd00::7"];
    let server = Server::card(&socket, &addresses);
    let cards = Cards { server, folder };
    assert_eq!(list(&cards), ["fe80::fe:ff:fe00:2a", "10.0.0.7", "fd00::7"]);
    cards.on(0, &["gids", "add", "10.0.0.7"]).good();
    cards.on(0, &["gids", "add", "10.0.0.8"]).good();
    assert_eq!(list(&cards)[1..], ["10.0.0.7", "fd00::7", "10.0.0.8"]);
    let said = cards.on(0, &["gids", "remove", "10.0.0.7"]);
    assert!(said.code == 1 && said.err.contains("given with --ip"), "{said:?}");
    assert!(cards.on(0, &["info"]).good().contains("0000:0000:0000:0000:0000:ffff:0a00:0007, RoCE v2"));
}

#[test]
fn gids_are_kept_and_given_to_the_card() {
    let cards = cards();
    assert_eq!(list(&cards), ["fe80::fe:ff:fe00:1"]);
    cards.on(0, &["gids", "add", "10.0.0.1"]).good();
    cards.on(0, &["gids", "add", "10.0.0.1"]).good();
    assert_eq!(list(&cards), ["fe80::fe:ff:fe00:1", "10.0.0.1"]);
    assert!(cards
        .on(0, &["info"])
        .good()
        .contains("GID[  1]:\t\t0000:0000:0000:0000:0000:ffff:0a00:0001, RoCE v2"));
    // The other card's address is of the other family, which both sides are told.
    let (server, client) = cards.both(&["pingpong", "-x", "1"], &["pingpong", "-n", "2"]);
    let (client, server) = (client.end(), server.end());
    assert!(client.code == 1 && server.code == 1, "{client:?} {server:?}");
    assert!(format!("{client:?}{server:?}").contains("addresses of one family"), "{client:?} {server:?}");
    let (server, client) =
        cards.both(&["pingpong", "-x", "1"], &["pingpong", "--ip", "10.0.0.2", "-n", "2", "-s", "64"]);
    assert!(client.end().good().contains("GID ::ffff:10.0.0.1"));
    server.end().good();
    cards.on(0, &["gids", "remove", "10.0.0.1"]).good();
    assert_eq!(list(&cards).len(), 1);
    let said = cards.on(0, &["gids", "remove", "10.0.0.1"]);
    assert!(said.code == 1 && said.err.contains("was not added"), "{said:?}");
}

#[test]
fn list_finds_cards_beside_the_programs_that_have_them_and_takes_no_wire_for_one() {
    let folder = Folder::new("list");
    let (socket, wire) = (folder.join("a.sock"), folder.join("wire.sock"));
    let wire = format!("stream:{}", wire.display());
    let server = Server::card(&socket, &["--wire", &wire, "--mac", "02:fe:00:00:00:2a"]);
    let place = folder.0.to_str().unwrap();
    let list = || run_in(&folder.0, &["--json", "list", "--sysfs", "/nowhere", place]).end().json();
    let alone = list();
    let cards = alone["cards"].as_array().unwrap();
    assert_eq!(cards.len(), 1, "{alone}");
    let card = &cards[0];
    let device = format!("sim:{}", socket.display());
    let expected = (&*device, "simulated", "02:fe:00:00:00:2a");
    let found = [&card["device"], &card["kind"], &card["mac"]].map(|value| value.as_str().unwrap());
    assert_eq!(found, [expected.0, expected.1, expected.2]);
    let taken = ferrowire::VfioUserBus::connect(&server.sockets[0]).unwrap();
    assert_eq!(list(), alone);
    drop(taken);
}
