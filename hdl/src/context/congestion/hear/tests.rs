// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::testing::{step, Random, Sink, Source};
use ferrowire_rtl::{build, Sim};
use rand::Rng;

const QPS: usize = 16;

/// What a QP was given.
#[derive(Clone, Copy, Default)]
struct Given {
    live: bool,
    service: u64,
    peer: u64,
    gid: u64,
    pkey: u64,
    mtu: u64,
}

#[test]
fn a_cnp_counts_when_it_is_for_a_live_queue_pair_and_of_its_peer() {
    let cfg = RnicConfig::named("generic-8b").unwrap();
    assert_eq!(cfg.qps as usize, QPS);
    let netlist = build("top", |m| {
        let cnps = m.stream_in("cnp", &Notification::of());
        let out = hear(m, &cfg, m.input_of("broadcast", &QpBroadcast::of(&cfg)), cnps);
        m.output("dropped", &out.dropped);
        m.stream_out("qps", out.qps);
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.reset();
    let mut random = Random::new(81);
    let mut sources = [Source::new("cnp", &Notification::of())];
    let mut sinks = [Sink::new("qps", &bits(cfg.qp_bits()))];
    let mut given = [Given::default(); QPS];
    let (mut told, mut drops, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..2_000 {
        sim.set("broadcast_attributes_enable", 0);
        sim.set("broadcast_state_enable", 0);
        let qp = random.rng.random_range(0..QPS);
        if random.chance(0.05) {
            let states =
                [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Err];
            let state = states[random.rng.random_range(0..states.len())];
            sim.set("broadcast_state_enable", 1);
            sim.set("broadcast_state_index", qp as u64);
            sim.set("broadcast_state_entry", u64::from(state.code()));
            given[qp].live = matches!(state, QpState::Rtr | QpState::Rts | QpState::Sqd);
        } else if random.chance(0.1) || round < 100 {
            let one = Given {
                live: given[qp].live,
                service: [0, 0, 1, 2][random.rng.random_range(0..4)],
                peer: random.rng.random_range(0..256),
                gid: random.rng.random_range(0..16),
                pkey: [0xffff, 0x7fff, 0x8001][random.rng.random_range(0..3)],
                // Without one it was not created.
                mtu: if random.chance(0.1) { 0 } else { random.rng.random_range(1..6) },
            };
            given[qp] = one;
            sim.set("broadcast_attributes_enable", 1);
            sim.set("broadcast_attributes_index", qp as u64);
            sim.set("broadcast_attributes_entry_service", one.service);
            sim.set("broadcast_attributes_entry_peer", one.peer);
            sim.set("broadcast_attributes_entry_gid", one.gid);
            sim.set("broadcast_attributes_entry_mtu", one.mtu);
            sim.set("broadcast_attributes_entry_pkey", one.pkey);
        }
        // What was broadcast in this cycle counts for a CNP of the next one.
        step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
        sim.set("broadcast_attributes_enable", 0);
        sim.set("broadcast_state_enable", 0);
        for _ in 0..random.rng.random_range(0..3) {
            let qpn = random.rng.random_range(0..QPS + 2);
            let mut its = given.get(qpn).copied().unwrap_or_default();
            if random.chance(0.1) {
                its.peer ^= 1 << random.rng.random_range(0..8);
            }
            let from_peer = random.chance(0.9);
            if random.chance(0.1) {
                its.gid ^= 1 << random.rng.random_range(0..4);
            }
            let pkey = if random.chance(0.2) { 0x7fff } else { its.pkey };
            let values = [("qpn", qpn as u128), ("pkey", pkey.into())];
            let origin = [("origin_from_peer", from_peer.into()), ("origin_peer", its.peer.into())];
            let more = [origin[0], origin[1], ("gid", its.gid.into())];
            sources[0].push_values(&[&values[..], &more].concat());
            let right = given.get(qpn).copied().unwrap_or_default();
            let same_key = pkey & 0x7fff == right.pkey & 0x7fff && (pkey | right.pkey) & 0x8000 != 0;
            match (right.live && right.service != 2, same_key) {
                _ if right.mtu == 0 => drops.push(DropReason::NoQp),
                (false, _) => drops.push(DropReason::QpState),
                (true, false) => drops.push(DropReason::Pkey),
                _ if !from_peer || its.peer != right.peer => drops.push(DropReason::SourceAddress),
                _ if its.gid != right.gid => drops.push(DropReason::Destination),
                _ => told.push(qpn as u64),
            }
        }
        let mut left = 4;
        while left > 0 {
            left = if sources[0].left() > 0 { 4 } else { left - 1 };
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
            if sim.get("dropped_valid") == 1 {
                seen.push(DropReason::from_code(sim.get("dropped_reason") as u8).unwrap());
            }
        }
    }
    assert_eq!(sinks[0].values(""), told, "seed {}", random.seed);
    assert_eq!(seen, drops, "seed {}", random.seed);
    assert!(told.len() > 200, "{}", told.len());
    use DropReason as Reason;
    let all = [Reason::NoQp, Reason::QpState, Reason::Pkey, Reason::SourceAddress, Reason::Destination];
    for reason in all {
        assert!(seen.iter().filter(|r| **r == reason).count() > 20, "{reason:?}");
    }
}

#[test]
fn cnps_in_every_cycle_wait_for_nobody() {
    let cfg = RnicConfig::named("generic-8b").unwrap();
    let netlist = build("top", |m| {
        let cnps = m.stream_in("cnp", &Notification::of());
        let out = hear(m, &cfg, m.input_of("broadcast", &QpBroadcast::of(&cfg)), cnps);
        m.output("dropped", &out.dropped);
        m.stream_out("qps", out.qps);
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.reset();
    let mut random = Random::new(82);
    sim.set("broadcast_state_enable", 1);
    sim.set("broadcast_state_index", 3);
    sim.set("broadcast_state_entry", u64::from(QpState::Rts.code()));
    sim.set("broadcast_attributes_enable", 1);
    sim.set("broadcast_attributes_index", 3);
    sim.set("broadcast_attributes_entry_pkey", 0xffff);
    sim.set("broadcast_attributes_entry_mtu", 3);
    sim.tick();
    let mut sources = [Source::new("cnp", &Notification::of())];
    let mut sinks = [Sink::new("qps", &bits(cfg.qp_bits()))];
    let cnp = [("qpn", 3), ("pkey", 0xffff), ("origin_from_peer", 1)];
    (0..50).for_each(|_| sources[0].push_values(&cnp));
    (0..60).for_each(|_| step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0));
    let (came, told) = (&sources[0].cycles, &sinks[0].cycles);
    assert!(told.len() == 50 && came[49] - came[0] == 49 && told.iter().zip(came).all(|(t, c)| t - c == 2));
}
