// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine before the block, by hand: what random traffic seldom meets.

use super::*;
use ferrowire_rtl::{Bits, Sim};
use ferrowire_spec::pcie::pcie4::{cq, CqUser, RcDescriptor, RcUser};

fn engine_sim() -> Sim {
    sim_of(&RnicConfig::named("pcie4-64b").unwrap())
}

fn sim_of(cfg: &RnicConfig) -> Sim {
    let mut sim = Sim::new(&engine(cfg).unwrap());
    for (name, value) in [("bus_master", 1), ("extended_tags", 1), ("max_read_request", 5)] {
        sim.set(&format!("pcie_{name}"), value);
    }
    sim.set("tfc_nph_av", 15);
    sim.reset();
    for stream in ["rq", "cc", "csr", "data"] {
        sim.set(&format!("{stream}_ready"), 1);
    }
    (0..300).for_each(|_| sim.tick());
    sim
}

/// The CPU reads a double word, or writes one.
fn access(sim: &mut Sim, write: bool, discontinue: bool) {
    let mut data = [0xaa; BEAT];
    let request_type = u8::from(write);
    let request =
        cq::CqDescriptor { address: 0x100 >> 2, dwords: 1, request_type, tag: 5, ..Default::default() };
    request.emit(&mut data).unwrap();
    let words = if write { 5 } else { 4 };
    let user =
        CqUser { first_be: 15, is_sop: 1, is_eop: 1, eop0_ptr: words - 1, discontinue, ..Default::default() };
    sim.set_bits("cq_data", &Bits::from_bytes(BITS, &data));
    sim.set("cq_keep", (1 << words) - 1);
    sim.set("cq_last", 1);
    sim.set_bits("cq_user", &Bits::from_bytes(wires(&cq_user::LAYOUT), &user.to_bytes().unwrap()));
    sim.set("cq_valid", 1);
    assert_eq!(sim.get("cq_ready"), 1);
    sim.tick();
    sim.set("cq_valid", 0);
}

#[test]
fn a_request_that_was_spoiled_changes_nothing_has_no_answer_and_is_counted() {
    for write in [false, true] {
        for discontinue in [false, true] {
            let mut sim = engine_sim();
            sim.set("csr_response_valid", 1);
            access(&mut sim, write, discontinue);
            let (mut accesses, mut answers, mut refused) = (0, 0, 0);
            for _ in 0..30 {
                accesses += sim.get("csr_valid");
                answers += sim.get("cc_valid");
                refused += sim.get("events_refused");
                sim.tick();
            }
            let fine = u64::from(!discontinue);
            assert_eq!((accesses, answers, refused), (fine, fine * u64::from(!write), 1 - fine));
        }
    }
}

#[test]
fn an_answer_on_offer_stays_when_the_card_becomes_a_bus_master() {
    let mut sim = engine_sim();
    sim.set("pcie_bus_master", 0);
    sim.set("cc_ready", 0);
    for (name, value) in [("valid", 1), ("address", 0x1000), ("length", 4), ("strobe", 15), ("last", 1)] {
        sim.set(&format!("write_{name}"), value);
    }
    sim.tick();
    sim.set("write_valid", 0);
    (0..30).for_each(|_| sim.tick());
    sim.set("csr_response_valid", 1);
    access(&mut sim, false, false);
    (0..20).for_each(|_| sim.tick());
    assert_eq!(sim.get("cc_valid"), 1);
    sim.set("pcie_bus_master", 1);
    sim.set("rq_ready", 0);
    for _ in 0..20 {
        sim.tick();
        assert_eq!(sim.get("cc_valid"), 1);
    }
}

/// Completions that cross rows come faster than rows go: nothing is lost where they wait (an assertion of the block watches).
#[test]
fn short_completions_that_share_beats_and_cross_rows_wait_in_line() {
    const COUNT: usize = 60;
    for (lane, words) in [(32, 13), (60, 5), (60, 1), (0, 16)] {
        let mut sim = engine_sim();
        for (name, value) in [("valid", 1), ("address", 0x1000 + lane), ("length", 4096 - lane)] {
            sim.set(&format!("read_{name}"), value);
        }
        assert_eq!(sim.get("read_ready"), 1);
        sim.tick();
        sim.set("read_valid", 0);
        (0..50).for_each(|_| sim.tick());
        // Each at the next multiple of 16 bytes; nobody's, so that the rows go on.
        let pitch = (words + 3usize).next_multiple_of(4);
        let mut bytes = vec![0; (4 * pitch * COUNT).next_multiple_of(BEAT)];
        let mut users = vec![RcUser::default(); bytes.len() / BEAT];
        for i in 0..COUNT {
            let error = ferrowire_spec::pcie::pcie4::ErrorCode::Tag.code();
            let dwords = words as u16;
            let descriptor = RcDescriptor { error, dwords, byte_count: 4 * dwords, ..Default::default() };
            let (first, last) = (pitch * i, pitch * i + words + 2);
            descriptor.emit(&mut bytes[4 * first..]).unwrap();
            let user = &mut users[first / 16];
            let place = (first % 16 / 4) as u8;
            match user.is_sop.count_ones() {
                0 => user.sop0_ptr = place,
                1 => user.sop1_ptr = place,
                2 => user.sop2_ptr = place,
                _ => user.sop3_ptr = place,
            }
            user.is_sop = user.is_sop << 1 | 1;
            let user = &mut users[last / 16];
            let place = (last % 16) as u8;
            match user.is_eop.count_ones() {
                0 => user.eop0_ptr = place,
                1 => user.eop1_ptr = place,
                2 => user.eop2_ptr = place,
                _ => user.eop3_ptr = place,
            }
            user.is_eop = user.is_eop << 1 | 1;
        }
        let mut unexpected = 0;
        let mut beats = bytes.chunks(BEAT).zip(&users).peekable();
        for _ in 0..1000 {
            sim.set("rc_valid", u64::from(beats.peek().is_some()));
            if let Some((data, user)) = beats.peek() {
                sim.set_bits("rc_data", &Bits::from_bytes(BITS, data));
                let user = user.to_bytes().unwrap();
                sim.set_bits("rc_user", &Bits::from_bytes(wires(&rc_user::LAYOUT), &user));
                if sim.get("rc_ready") == 1 {
                    beats.next();
                }
            }
            unexpected += sim.get("events_unexpected");
            sim.tick();
        }
        assert_eq!((beats.count(), unexpected), (0, COUNT as u64), "{words} double words in lane {lane}");
    }
}

/// One write, or one read, of four bytes.
fn request(sim: &mut Sim, stream: &str) {
    for (name, value) in [("valid", 1), ("address", 0x1000), ("length", 4)] {
        sim.set(&format!("{stream}_{name}"), value);
    }
    if stream == "write" {
        sim.set("write_strobe", 15);
        sim.set("write_last", 1);
    }
    assert_eq!(sim.get(&format!("{stream}_ready")), 1);
    sim.tick();
    sim.set(&format!("{stream}_valid"), 0);
}

/// What passes on RQ in a cycle: a read, a write, nothing.
fn passes(sim: &mut Sim) -> Option<bool> {
    let kind = sim.get_bits("rq_data").to_bytes()[9] >> 3 & 15;
    (sim.get("rq_valid") & sim.get("rq_ready") == 1).then_some(kind == 0)
}

#[test]
fn a_read_without_a_credit_lets_writes_pass() {
    let mut sim = engine_sim();
    sim.set("tfc_nph_av", 0);
    (0..5).for_each(|_| sim.tick());
    request(&mut sim, "read");
    (0..20).for_each(|_| sim.tick());
    request(&mut sim, "write");
    let seen: Vec<bool> = (0..60).filter_map(|_| (passes(&mut sim), sim.tick()).0).collect();
    assert_eq!(seen, [false], "the write alone: the host gives a credit when it has seen it");
    sim.set("tfc_nph_av", 1);
    let seen: Vec<bool> = (0..60).filter_map(|_| (passes(&mut sim), sim.tick()).0).collect();
    assert_eq!(seen, [true]);
}

/// However many writes have passed reads that wait for credits, these leave when there are some.
#[test]
fn writes_that_pass_waiting_reads_keep_none_of_them() {
    let mut sim = engine_sim();
    sim.set("tfc_nph_av", 0);
    (0..5).for_each(|_| sim.tick());
    for _ in 0..4 {
        request(&mut sim, "read");
        (0..20).for_each(|_| sim.tick());
    }
    let mut writes = 0;
    for _ in 0..600 {
        request(&mut sim, "write");
        writes += (0..10).filter(|_| (passes(&mut sim), sim.tick()).0 == Some(false)).count();
    }
    assert_eq!(writes, 600);
    sim.set("tfc_nph_av", 15);
    let seen: Vec<bool> = (0..100).filter_map(|_| (passes(&mut sim), sim.tick()).0).collect();
    assert_eq!(seen, [true; 4]);
}

#[test]
fn no_more_reads_leave_than_there_are_credits_however_late_these_are_told() {
    for credits in [1u64, 2, 3, 7, 14] {
        for stall in [0, 1, 3] {
            let mut sim = engine_sim();
            sim.set("tfc_nph_av", credits);
            (0..10).for_each(|_| sim.tick());
            for (name, value) in [("valid", 1), ("address", 0x1000), ("length", 4)] {
                sim.set(&format!("read_{name}"), value);
            }
            // Those of the last two cycles are not taken off.
            let mut last = [0u64; 2];
            let mut left = 0;
            for cycle in 0..200u64 {
                sim.set("rq_ready", u64::from(stall == 0 || cycle % (stall + 1) == 0));
                sim.set("tfc_nph_av", credits - left + last[0] + last[1]);
                let now = u64::from(passes(&mut sim) == Some(true));
                sim.tick();
                (left, last) = (left + now, [last[1], now]);
            }
            assert_eq!(left, credits, "a stall of {stall}");
        }
    }
}

/// A read that times out does not end the next one, which left later and has a time of its own.
#[test]
fn a_read_has_its_own_time_even_where_the_one_before_it_is_given_up() {
    for apart in [40, 100, 200] {
        let cfg = RnicConfig { pcie_timeout_us: 1, ..RnicConfig::named("pcie4-64b").unwrap() };
        let mut sim = sim_of(&cfg);
        request(&mut sim, "read");
        (0..apart - 1).for_each(|_| sim.tick());
        request(&mut sim, "read");
        let mut over = Vec::new();
        for cycle in 0..1000 {
            if sim.get("events_timeout") == 1 {
                over.push(cycle);
            }
            sim.tick();
        }
        let [first, second] = over[..] else { panic!("{over:?}") };
        // Time is counted in sixteenths of 250 cycles.
        assert!(i32::abs(second - first - apart) <= 16, "{apart} cycles apart: {over:?}");
    }
}

/// Completions of one read come without a gap, some of which do not fit the read: each is compared with what the one before it left.
#[test]
fn completions_of_a_read_right_behind_each_other_each_count() {
    // Of a read of 192 bytes from 60 bytes into a row: place and length of the pieces, and whether they are wrong by count or by address.
    let good = [(60u16, 4u16, 0, 0), (64, 64, 0, 0), (128, 64, 0, 0), (192, 60, 0, 0)];
    for (at, count, lower) in [(9, 0, 0), (1, 4, 0), (2, 0, 4), (3, 64, 0), (3, 0, 64), (4, 0, 0)] {
        let mut sim = engine_sim();
        for (name, value) in [("valid", 1), ("address", 0x1000 + 60), ("length", 192)] {
            sim.set(&format!("read_{name}"), value);
        }
        sim.tick();
        sim.set("read_valid", 0);
        (0..30).for_each(|_| sim.tick());
        let mut pieces = good.to_vec();
        if at <= good.len() {
            // After the last one all has come, and nothing is expected.
            let (place, length, ..) = good[at.min(good.len() - 1)];
            pieces.insert(at, (place, length, count, lower));
        }
        let (mut unexpected, mut rows, mut errors) = (0, 0, 0);
        let mut pieces = pieces.iter().peekable();
        for _ in 0..200 {
            sim.set("rc_valid", u64::from(pieces.peek().is_some()));
            if let Some((place, length, count, lower)) = pieces.peek() {
                let descriptor = RcDescriptor {
                    dwords: length / 4,
                    byte_count: 252 - place + count,
                    lower_address: (place + lower) & 127,
                    ..Default::default()
                };
                // In a beat of its own where it is short; a row needs a second one.
                let mut data = [0; 2 * BEAT];
                descriptor.emit(&mut data).unwrap();
                data[12..12 + usize::from(*length)].fill(*place as u8);
                let words = 3 + length / 4;
                for part in 0..words.div_ceil(16) {
                    let ends = words <= 16 * (part + 1);
                    let user = RcUser {
                        is_sop: u8::from(part == 0),
                        is_eop: u8::from(ends),
                        eop0_ptr: if ends { ((words - 1) % 16) as u8 } else { 0 },
                        ..Default::default()
                    };
                    sim.set_bits(
                        "rc_data",
                        &Bits::from_bytes(BITS, &data[usize::from(part) * BEAT..][..BEAT]),
                    );
                    let user = user.to_bytes().unwrap();
                    sim.set_bits("rc_user", &Bits::from_bytes(wires(&rc_user::LAYOUT), &user));
                    while sim.get("rc_ready") == 0 {
                        unexpected += sim.get("events_unexpected");
                        (rows, errors) = of_data(&mut sim, rows, errors);
                        sim.tick();
                    }
                    unexpected += sim.get("events_unexpected");
                    (rows, errors) = of_data(&mut sim, rows, errors);
                    sim.tick();
                }
                pieces.next();
                continue;
            }
            unexpected += sim.get("events_unexpected");
            (rows, errors) = of_data(&mut sim, rows, errors);
            sim.tick();
        }
        let wrong = u64::from(at <= good.len());
        assert_eq!((unexpected, rows, errors), (wrong, 4, 0), "{at}: {count} and {lower} too much");
    }
}

/// After a completion has aborted its read no other completion of it is expected, not even in the next cycle.
#[test]
fn what_comes_right_behind_an_abort_is_nobodys() {
    for again in [true, false] {
        let mut sim = engine_sim();
        request(&mut sim, "read");
        (0..30).for_each(|_| sim.tick());
        let (mut unexpected, mut errors, mut rows) = (0, 0, 0);
        for cycle in 0..100 {
            let aborted = cycle == 0 || again;
            let descriptor = RcDescriptor {
                dwords: u16::from(!aborted),
                byte_count: if aborted { 4 } else { 0 },
                status: if aborted { 4 } else { 0 },
                ..Default::default()
            };
            let mut data = [0; BEAT];
            descriptor.emit(&mut data).unwrap();
            let user =
                RcUser { is_sop: 1, is_eop: 1, eop0_ptr: if aborted { 2 } else { 3 }, ..Default::default() };
            sim.set_bits("rc_data", &Bits::from_bytes(BITS, &data));
            let user = user.to_bytes().unwrap();
            sim.set_bits("rc_user", &Bits::from_bytes(wires(&rc_user::LAYOUT), &user));
            sim.set("rc_valid", u64::from(cycle < 2));
            assert!(cycle > 1 || sim.get("rc_ready") == 1);
            unexpected += sim.get("events_unexpected");
            rows += sim.get("data_valid");
            errors += sim.get("data_valid") & sim.get("data_error");
            sim.tick();
        }
        assert_eq!((unexpected, rows, errors), (1, 1, 1), "again: {again}");
    }
}

/// Rows that came, and those with an error, and this cycle's. Each has what its completion brought.
fn of_data(sim: &mut Sim, rows: u64, errors: u64) -> (u64, u64) {
    if sim.get("data_valid") == 0 {
        return (rows, errors);
    }
    let lanes = sim.get_bits("data_data").to_bytes();
    let (lane, value) = [(60, 60), (0, 64), (0, 128), (0, 192)][rows as usize];
    assert_eq!(lanes[lane], value, "row {rows}");
    (rows + 1, errors + sim.get("data_error"))
}

/// A read that has waited for the read before it, which needs no write, still waits for its own writes.
#[test]
fn a_read_behind_another_one_waits_for_the_writes_before_it() {
    for gap in 0..16 {
        let mut sim = engine_sim();
        sim.set("tfc_nph_av", 0);
        (0..5).for_each(|_| sim.tick());
        request(&mut sim, "read");
        (0..20).for_each(|_| sim.tick());
        let mut seen = Vec::new();
        for cycle in 0..80 {
            sim.set("tfc_nph_av", if cycle < gap { 0 } else { 15 });
            sim.set("write_address", 0x1000);
            for (name, value) in [("length", 4), ("strobe", 15), ("last", 1)] {
                sim.set(&format!("write_{name}"), value);
            }
            for (stream, at) in [("write", 3), ("read", 4)] {
                sim.set(&format!("{stream}_valid"), u64::from(cycle == at));
            }
            seen.extend(passes(&mut sim));
            sim.tick();
        }
        assert_eq!((seen.len(), seen[2]), (3, true), "credits after {gap} cycles: {seen:?}");
    }
}
