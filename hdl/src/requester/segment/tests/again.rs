// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is sent again.

use super::*;

/// The completer goes on, at random and not always to the newest.
fn ack(bench: &mut Bench, qp: usize, stall: f64, others: bool) {
    let q = &bench.qps[qp];
    let span = ahead(q.high, q.oldest.psn);
    let by = match bench.random.rng.random_range(0..8) {
        0 => span,
        1 | 2 => bench.random.rng.random_range(0..=span),
        _ => bench.random.rng.random_range(0..=span.min(20)),
    };
    let to = q.place((q.oldest.psn + by) & 0xff_ffff);
    bench.oldest(qp, to, stall, others);
}

#[test]
fn every_psn_is_fresh_once_and_goes_out_whole_whatever_is_sent_again() {
    for (seed, beat_bytes) in [(11, 8), (12, 64), (13, 64), (14, 64)] {
        let mut bench = Bench::new(seed, beat_bytes);
        // As the last restart said.
        let mut held = [false; QPS];
        let mut restarts = 0;
        for _ in 0..800 {
            let qp = bench.random.rng.random_range(0..QPS);
            match bench.random.rng.random_range(0..10) {
                0..=3 => {
                    let wqe = bench.any(qp);
                    bench.post(qp, wqe);
                    if bench.random.chance(0.2) {
                        let index = bench.random.rng.random_range(0..bench.qps[qp].wqes.len() as u16);
                        bench.hand(qp, index);
                    }
                }
                4 | 5 => {
                    held[qp] = bench.random.chance(0.3);
                    bench.restart(qp, held[qp]);
                    restarts += 1;
                }
                6 if bench.random.chance(0.2) => {
                    let mtu = bench.qps[qp].mtu.trailing_zeros() - 7;
                    while !bench.restarts.is_empty() {
                        bench.step(0.1, false);
                    }
                    bench.start(qp, mtu);
                    held[qp] = false;
                }
                7 | 8 if held[qp] => {
                    held[qp] = false;
                    bench.restart(qp, false);
                }
                _ => {}
            }
            let (stall, others) =
                ([0.0, 0.3, 0.7][bench.random.rng.random_range(0..3)], bench.random.chance(0.5));
            for _ in 0..bench.random.rng.random_range(1..80) {
                let qp = bench.random.rng.random_range(0..QPS);
                match bench.random.chance(0.03) {
                    true => ack(&mut bench, qp, stall, others),
                    false => bench.step(stall, others),
                }
            }
        }
        for qp in (0..QPS).filter(|qp| held[*qp]) {
            bench.restart(qp, false);
        }
        bench.settle();
        bench.check_all_sent();
        let seen = (bench.packets, bench.again, bench.stale, bench.yields);
        println!("seed {seed}: {restarts} restarts, {seen:?} packets, again, stale, yields");
        assert!(bench.passed > 3, "seed {seed}: {} binds passed over", bench.passed);
        assert!(restarts > 30 && seen.1 > 50 && seen.2 > 50 && seen.3 > 10, "seed {seed}: {seen:?}");
    }
}

#[test]
fn a_restart_goes_back_into_the_middle_of_its_message() {
    for (mtu, bytes) in [(1, 256), (3, 1024), (5, 4096)] {
        let mut bench = Bench::new(21, 64);
        bench.start(1, mtu);
        let wqes = [bench.sound(3 * bytes + 5), bench.sound(bytes)];
        for wqe in &wqes {
            bench.post(1, wqe.clone());
        }
        bench.settle();
        let psn = bench.qps[1].psns[0];
        let all = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)];
        // The last one: everything is acknowledged, nothing is sent again.
        for from in 0..=5u32 {
            let to = bench.qps[1].place((psn + from) & 0xff_ffff);
            bench.oldest(1, to, 0.0, false);
            bench.restart(1, false);
            bench.sinks.iter_mut().for_each(Sink::clear);
            bench.settle();
            let found = &bench.sinks[CANDIDATE].items;
            assert_eq!(found.len() as u32, 5 - from);
            for (packet, (wqe, place)) in found.iter().zip(&all[from as usize..]) {
                let value = |field: &str| packet[&*format!("packet_{field}")].to_u64();
                let (unit, offset) = (&wqes[*wqe].unit, u64::from(place * bytes));
                let opcode = wqes[*wqe].opcode(*place == 0, *wqe == 1 || *place == 3);
                assert_eq!(value("opcode"), u64::from(opcode.code()), "from {from}");
                if !packet["begins"].is_zero() {
                    let va = unit.sge0_addr.wrapping_add(offset);
                    assert_eq!(packet["sge_va"].to_u64(), va, "from {from}");
                }
                assert_eq!((value("index"), value("fresh")), (*wqe as u64, 0), "from {from}");
            }
            // It may give way once more, for what it has sent.
            assert_eq!(bench.sinks[RESUME].values("index")[0], u64::from(to.index));
        }
    }
}

#[test]
fn a_queue_pair_that_holds_sends_nothing_until_it_is_released() {
    let mut bench = Bench::new(22, 64);
    for _ in 0..3 {
        let wqe = bench.sound(9_000);
        bench.post(1, wqe);
    }
    for _ in 0..8 {
        bench.step(0.0, false);
    }
    bench.restart(1, true);
    bench.step(0.0, false);
    bench.step(0.0, false);
    let from = bench.sinks[CANDIDATE].items.len();
    for _ in 0..5 {
        for qp in [1, 2] {
            let wqe = bench.sound(300);
            bench.post(qp, wqe);
        }
        bench.settle();
    }
    let qps = |bench: &Bench| bench.sinks[CANDIDATE].values("packet_qp")[from..].to_vec();
    assert!(!qps(&bench).is_empty() && qps(&bench).iter().all(|qp| *qp == 2), "{:?}", qps(&bench));
    assert_eq!(bench.sinks[RESUME].values("hold").last(), Some(&1));
    // Held again, which changes nothing.
    bench.restart(1, true);
    bench.hand(1, 0);
    bench.settle();
    assert!(qps(&bench).iter().all(|qp| *qp == 2), "{:?}", qps(&bench));
    bench.restart(1, false);
    bench.settle();
    bench.check_all_sent();
}

#[test]
fn a_message_that_is_being_cut_up_yields_to_a_restart_after_its_packet() {
    for (seed, other) in [(23, 1), (24, 2)] {
        let mut bench = Bench::new(seed, 64);
        bench.start(1, 3);
        let wqe = bench.sound(60_000);
        bench.post(1, wqe);
        for _ in 0..10 {
            bench.step(0.0, false);
        }
        bench.sinks[CANDIDATE].stall = Some(1.0);
        bench.restart(other, false);
        for _ in 0..5 {
            bench.step(0.0, false);
        }
        let packets = bench.sinks[CANDIDATE].items.len();
        assert_eq!(bench.restarts.len(), 1);
        bench.sinks[CANDIDATE].stall = None;
        bench.sinks[RESUME].clear();
        while !bench.restarts.is_empty() {
            bench.step(0.0, false);
        }
        assert_eq!(bench.sinks[CANDIDATE].items.len(), packets + 1);
        while !bench.under_way.is_empty() || bench.told.is_some() {
            bench.step(0.1, false);
        }
        let resumes = &bench.sinks[RESUME];
        assert_eq!((resumes.values("qp"), resumes.values("index")), (vec![1, other as u64], vec![0, 0]));
        bench.check_all_sent();
        assert_eq!(bench.again, if other == 1 { packets as u64 + 1 - 5 } else { 0 });
    }
}

/// Five messages of QP 3 have been sent, and are not fetched again; their first PSNs.
fn five_sent(seed: u64, beat_bytes: u32) -> (Bench, Vec<u32>) {
    let mut bench = Bench::new(seed, beat_bytes);
    bench.start(3, 1);
    bench.refetch = false;
    for _ in 0..5 {
        let wqe = bench.sound(700);
        bench.post(3, wqe);
    }
    bench.settle();
    let first = bench.qps[3].psns.clone();
    (bench, first)
}

#[test]
fn what_is_done_meanwhile_is_not_sent_again() {
    let (mut bench, first) = five_sent(25, 64);
    let middle = |index: usize| (first[index] + 2) & 0xff_ffff;
    let to = bench.qps[3].place(middle(1));
    bench.oldest(3, to, 0.0, false);
    bench.restart(3, false);
    bench.settle();
    // The row is in WQE 1. All up to WQE 3 is done, and some of that.
    let to = bench.qps[3].place(middle(3));
    assert_eq!((to.index, to.first_psn), (3, first[3]));
    bench.oldest(3, to, 0.0, false);
    let (from, stale) = (bench.sinks[CANDIDATE].items.len(), bench.stale);
    for index in [1, 2, 4, 3, 4, 3] {
        bench.hand(3, index);
    }
    bench.settle();
    let found = &bench.sinks[CANDIDATE].items[from..];
    let found: Vec<_> =
        found.iter().map(|p| (p["packet_index"].to_u64(), p["packet_psn"].to_u64() as u32)).collect();
    let expected: Vec<_> = (0..6).map(|i| (3 + i / 3, (first[3] + i as u32) & 0xff_ffff)).collect();
    assert_eq!(found, expected);
    assert_eq!(bench.stale, stale + 4);
}

#[test]
fn nothing_is_begun_where_too_many_psns_wait_for_their_acknowledgement() {
    let mut bench = Bench::new(26, 64);
    for unacknowledged in [0, 1, (1 << 22) - 1, 1 << 22, (1 << 22) + 77, (1 << 23) - 1, (1 << 24) - 1] {
        let at = bench.qps[0].at;
        let far = Place { psn: at.psn.wrapping_sub(unacknowledged) & 0xff_ffff, ..at };
        bench.oldest(0, far, 0.0, false);
        let packets = bench.packets;
        let wqe = bench.sound(100);
        bench.post(0, wqe);
        for _ in 0..40 {
            bench.step(0.3, true);
        }
        let full = (1 << 22..1 << 23).contains(&unacknowledged);
        assert_eq!(bench.packets == packets, full, "{unacknowledged}");
        // Others send; and it goes on when something is acknowledged.
        let wqe = bench.sound(100);
        bench.post(1, wqe);
        for _ in 0..20 {
            bench.step(0.0, true);
        }
        let near = Place { psn: at.psn.wrapping_sub((1 << 22) - 1) & 0xff_ffff, ..at };
        bench.oldest(0, near, 0.0, false);
        bench.settle();
        bench.check_all_sent();
    }
}

#[test]
fn a_message_without_end_stops_to_look_at_its_window() {
    let mut bench = Bench::new(27, 64);
    bench.start(0, 1);
    let wqe = bench.sound(1 << 31);
    bench.post(0, wqe);
    for _ in 0..10 {
        bench.step(0.0, false);
    }
    // What was offered and taken last stays so.
    let first = bench.qps[0].psns[0];
    let (valid, psn) = (bench.sim.port("candidate_valid"), bench.sim.port("candidate_packet_psn"));
    let mut last = 0;
    while bench.sim.get_at(valid) == 1 {
        last = bench.sim.get_at(psn);
        bench.sim.tick();
        assert!(ahead(last as u32, first) < 1 << 22);
    }
    assert_eq!(ahead(last as u32, first), (1 << 22) - 1);
    let resume = (bench.sim.get("resume_valid"), bench.sim.get("resume_index"));
    assert_eq!(resume, (1, 0));
}

#[test]
fn a_wqe_that_got_shorter_since_its_first_packets_were_sent_ends_with_an_error() {
    for (bytes, ends) in [(3000, false), (2049, false), (2048, true), (2047, true), (0, true)] {
        let mut bench = Bench::new(28, 64);
        bench.start(1, 3);
        let wqe = bench.sound(5000);
        bench.post(1, wqe);
        bench.settle();
        // The first two packets are acknowledged; the rest comes again, of another WQE in the same place.
        let to = bench.qps[1].place((bench.qps[1].psns[0] + 2) & 0xff_ffff);
        bench.oldest(1, to, 0.0, false);
        bench.qps[1].wqes[0].total = bytes;
        bench.refetch = false;
        bench.restart(1, false);
        bench.settle();
        let packets = bench.sinks[CANDIDATE].items.len();
        let index = bench.qps[1].at.index;
        let mut fetched = item(&Wqe::of(&bench.cfg), &[("qp", 1), ("index", index.into())]);
        let unit = SendWqe { opcode: SendOpcode::Write.code(), ..SendWqe::default() };
        fetched.insert("unit".into(), Bits::from_bytes(512, &unit.to_bytes().unwrap()));
        fetched.insert("total".into(), Bits::new(36, bytes.into()));
        // The model knows nothing of it.
        bench.sources[FETCHED].push(fetched);
        let Bench { sim, sources, sinks, random, .. } = &mut bench;
        (0..30).for_each(|_| step(sim, sources, sinks, random, 0.0));
        let found = &bench.sinks[CANDIDATE].items[packets..];
        assert_eq!(found.len(), 1, "{bytes} bytes");
        let value = |field: &str| found[0][&*format!("packet_{field}")].to_u64();
        let (status, cause) = match ends {
            true => (WcStatus::LocLenErr.code(), LocalCause::WqeSize.code()),
            false => (0, 0),
        };
        let ended = (value("status"), value("cause"), value("last"));
        assert_eq!(ended, (status.into(), cause.into(), 1), "{bytes} bytes");
    }
}

/// The completer goes on in each cycle from the first look to long after the second.
#[test]
fn a_row_that_follows_is_looked_up_again_and_sees_where_the_completer_is_then() {
    for beat_bytes in [8, 64] {
        let (mut fell_out, mut sent) = (0, 0);
        for delay in 0..16 {
            let (mut bench, first) = five_sent(29, beat_bytes);
            let to = |bench: &Bench, index: usize| bench.qps[3].place((first[index] + 2) & 0xff_ffff);
            let place = to(&bench, 1);
            bench.oldest(3, place, 0.0, false);
            bench.restart(3, false);
            bench.settle();
            // The row is in WQE 1, the completer in WQE 3, and soon in WQE 4.
            let place = to(&bench, 3);
            bench.oldest(3, place, 0.0, false);
            let stale = bench.stale;
            bench.hand(3, 3);
            (0..delay).for_each(|_| bench.step(0.0, false));
            let place = to(&bench, 4);
            bench.oldest(3, place, 0.0, false);
            bench.hand(3, 4);
            bench.settle();
            bench.check_all_sent();
            fell_out += bench.stale - stale;
            sent += 1 - (bench.stale - stale);
        }
        assert!(fell_out > 2 && sent > 2, "{beat_bytes}: {fell_out} fell out, {sent} were sent");
    }
}
