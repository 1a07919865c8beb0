// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that are wrong, and work that is.

use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::wire::{AtomicEth, Reth};

use super::super::types::SendWr;
use super::*;

/// A WRITE of that many packets, as `a` sends it.
fn write(p: &mut Pair, len: usize) -> Vec<Vec<u8>> {
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::write(1, &[p.a.sge(0, len)], va, key)).unwrap();
    p.a_sends()
}

/// What `b` answers to made-up requests, and that it is in error then and has changed nothing.
#[track_caller]
fn refused(p: &mut Pair, frames: &[Vec<u8>], psn: u32, syndrome: u8) {
    let before = p.b.bytes(0, AREA as usize);
    p.b_gets(frames);
    let answers = p.b_sends();
    assert_eq!(answers.len(), 1, "{:?}", packets(&answers));
    assert_eq!(aeth(&answers[0]), (psn, syndrome, 0));
    assert_eq!((p.b.state(), p.b.bytes(0, AREA as usize)), (QpState::Err, before));
}

#[test]
fn opcodes_out_of_sequence_are_invalid_requests() {
    type Make = fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>;
    let cases: [(Make, u32, &str); 4] = [
        (|f| vec![changed(&f[1], |f| f.bth.psn = 0x100)], 0x100, "MIDDLE first"),
        (|f| vec![changed(&f[3], |f| f.bth.psn = 0x100)], 0x100, "LAST first"),
        (
            |f| vec![f[0].clone(), changed(&f[1], |f| f.bth.opcode = Opcode::RcSendMiddle as u8)],
            0x101,
            "SEND in a WRITE",
        ),
        (|f| vec![f[0].clone(), changed(&f[0], |f| f.bth.psn = 0x101)], 0x101, "FIRST after FIRST"),
    ];
    for (make, psn, what) in cases {
        let mut p = Pair::new();
        let frames = write(&mut p, 4 * MTU);
        let bad = make(frames);
        println!("{what}");
        p.b_gets(&bad);
        let answers = p.b_sends();
        assert_eq!(aeth(answers.last().unwrap()), (psn, 0x61, 0));
        assert_eq!(p.b.state(), QpState::Err);
        assert_eq!(p.b.events().last(), Some(&EventKind::QpRequestError));
    }
}

#[test]
fn lengths_that_do_not_add_up_are_invalid_requests() {
    let lengths: [(usize, u32, usize, u32); 6] = [
        // Packets of a true message, length told, packets sent, PSN refused.
        (2 * MTU, 2 * MTU as u32 + 1, 2, 0x101),
        (2 * MTU, 2 * MTU as u32 - 1, 2, 0x101),
        (3 * MTU, 2 * MTU as u32, 2, 0x101),
        (2 * MTU, MTU as u32, 1, 0x100),
        (8, 9, 1, 0x100),
        (3 * MTU, (1 << 31) + 1, 1, 0x100),
    ];
    for (len, told, sent, psn) in lengths {
        let mut p = Pair::new();
        let mut frames = write(&mut p, len);
        frames[0] = changed(&frames[0], |frame| frame.ext.reth.as_mut().unwrap().len = told);
        p.b_gets(&frames[..sent]);
        let answers = p.b_sends();
        println!("{len} bytes told as {told}");
        assert_eq!(aeth(answers.last().unwrap()), (psn, 0x61, 0));
    }
}

#[test]
fn packets_that_are_not_of_the_mtu_are_invalid_requests() {
    for cut in [1, MTU] {
        let mut p = Pair::new();
        let frames = write(&mut p, 3 * MTU);
        let short = changed(&frames[0], |frame| frame.payload = &frame.payload[cut..]);
        refused(&mut p, &[short], 0x100, 0x61);
    }
    let mut p = Pair::new();
    let frame = write(&mut p, 8).remove(0);
    let long = changed(&frame, |frame| {
        frame.payload = &[7; MTU + 1];
        frame.ext.reth.as_mut().unwrap().len = MTU as u32 + 1;
    });
    refused(&mut p, &[long], 0x100, 0x61);
}

#[test]
fn keys_domains_rights_and_bounds_are_remote_access_errors() {
    type Change = fn(&mut Pair, &mut Reth);
    let changes: [(Change, &str); 9] = [
        (|_, reth| reth.rkey ^= 1, "tag"),
        (|_, reth| reth.rkey ^= 1 << 20, "index"),
        (|p, reth| reth.rkey = p.b.region(PD + 1, Rights::ALL), "domain"),
        (|p, reth| reth.rkey = p.b.region(PD, Rights::LOCAL_WRITE), "rights"),
        (|p, reth| reth.rkey = p.b.region(PD, Rights::REMOTE_READ | Rights::REMOTE_ATOMIC), "other rights"),
        (|p, reth| reth.va = p.b.va - 1, "before"),
        (|p, reth| reth.va = p.b.va + AREA - 7, "behind"),
        (|_, reth| reth.va = u64::MAX - 3, "wrap"),
        (|p, reth| reth.va = p.b.va.wrapping_sub(1 << 63), "far"),
    ];
    for (change, what) in changes {
        println!("{what}");
        let mut p = Pair::new();
        let frame = write(&mut p, 8).remove(0);
        let mut reth = ferrowire_spec::wire::Frame::parse(&frame).unwrap().ext.reth.unwrap();
        change(&mut p, &mut reth);
        let bad = changed(&frame, |frame| frame.ext.reth = Some(reth));
        refused(&mut p, &[bad], 0x100, 0x62);
        assert_eq!(p.b.events().last(), Some(&EventKind::QpAccessError));
    }
}

#[test]
fn a_write_past_its_region_changes_nothing_even_in_its_first_packet() {
    let mut p = Pair::new();
    let frames = write(&mut p, 3 * MTU);
    let end = p.b.va + AREA - 2 * MTU as u64;
    let first = changed(&frames[0], |frame| frame.ext.reth.as_mut().unwrap().va = end);
    refused(&mut p, &[first, frames[1].clone(), frames[2].clone()], 0x100, 0x62);
}

#[test]
fn a_key_that_is_taken_away_in_the_middle_of_a_write_ends_it() {
    let mut p = Pair::new();
    let frames = write(&mut p, 3 * MTU);
    p.b_gets(&frames[..1]);
    p.b.engine.deregister(p.b.key).unwrap();
    refused(&mut p, &frames[1..], 0x101, 0x62);
}

#[test]
fn what_the_queue_pair_does_not_allow_is_an_invalid_request() {
    for (allowed, wr) in [
        (Rights::REMOTE_READ | Rights::REMOTE_ATOMIC, 0),
        (Rights::REMOTE_WRITE | Rights::REMOTE_ATOMIC, 1),
        (Rights::REMOTE_WRITE | Rights::REMOTE_READ, 2),
    ] {
        let mut p = Pair::with(Options { access: allowed, ..Options::default() });
        let (va, key, sge) = (p.b.va, p.b.key, p.a.sge(0, 8));
        let wr = match wr {
            0 => SendWr::write(1, &[sge], va, key),
            1 => SendWr::read(1, &[sge], va, key),
            _ => SendWr::fetch_add(1, sge, va, key, 1),
        };
        p.a.engine.post_send(p.a.qpn, wr).unwrap();
        p.run();
        assert_eq!(p.a.all_done(), [(1, WcStatus::RemInvReqErr)]);
    }
}

#[test]
fn more_reads_than_were_granted_are_an_invalid_request() {
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::read(1, &[p.a.sge(0, 8)], va, key)).unwrap();
    let frame = p.a_sends().remove(0);
    let flood: Vec<_> = (0..3).map(|i| changed(&frame, |frame| frame.bth.psn += i)).collect();
    p.b_gets(&flood);
    let answers = p.b_sends();
    let last = answers.last().unwrap();
    assert_eq!((answers.len(), aeth(last)), (3, (0x102, 0x61, 2)), "behind the answers before it");
}

#[test]
fn an_atomic_that_is_not_aligned_is_an_invalid_request_and_is_not_sent_by_us() {
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::fetch_add(1, p.a.sge(0, 8), va, key, 1)).unwrap();
    let frame = p.a_sends().remove(0);
    let odd = changed(&frame, |frame| {
        let eth = frame.ext.atomic.unwrap();
        frame.ext.atomic = Some(AtomicEth { va: eth.va + 4, ..eth });
    });
    refused(&mut p, &[odd], 0x100, 0x61);

    let mut p = Pair::new();
    p.a.engine.post_send(p.a.qpn, SendWr::fetch_add(1, p.a.sge(0, 8), va + 4, key, 1)).unwrap();
    assert_eq!((p.a_sends().len(), p.a.all_done()), (0, vec![(1, WcStatus::LocQpOpErr)]));
}

#[test]
fn a_message_that_is_too_long_for_its_receive_is_an_error_at_both_ends() {
    for room in [0, MTU - 1, MTU, 2 * MTU - 1] {
        let mut p = Pair::new();
        p.b.recv(1, 0, room);
        p.b.recv(2, 0, 4096);
        p.a.engine.post_send(p.a.qpn, SendWr::send(1, &[p.a.sge(0, 2 * MTU)])).unwrap();
        p.run();
        assert_eq!(p.a.all_done(), [(1, WcStatus::RemInvReqErr)]);
        assert_eq!(p.b.all_done(), [(1, WcStatus::LocLenErr), flushed(2)]);
    }
}

#[test]
fn a_receive_with_a_bad_key_is_a_fault_of_the_responder() {
    type Change = fn(&mut Pair) -> Sge;
    let changes: [Change; 4] = [
        |p| Sge { lkey: p.b.key ^ 1, ..p.b.sge(0, 64) },
        |p| Sge { lkey: p.b.region(PD, Rights::REMOTE), ..p.b.sge(0, 64) },
        |p| Sge { lkey: p.b.region(PD + 1, Rights::ALL), ..p.b.sge(0, 64) },
        |p| p.b.sge(AREA - 8, 64),
    ];
    for change in changes {
        let mut p = Pair::new();
        let sge = change(&mut p);
        p.b.engine.post_recv(p.b.qpn, RecvWr::new(1, &[sge])).unwrap();
        p.a.engine.post_send(p.a.qpn, SendWr::send(1, &[p.a.sge(0, 64)])).unwrap();
        let before = p.b.bytes(0, AREA as usize);
        p.run();
        assert_eq!(p.a.all_done(), [(1, WcStatus::RemOpErr)]);
        assert_eq!(p.b.all_done(), [(1, WcStatus::LocProtErr)]);
        assert_eq!(p.b.bytes(0, AREA as usize), before);
    }
}

#[test]
fn work_with_a_bad_local_key_fails_behind_what_was_before_it_and_sends_nothing() {
    type Change = fn(&mut Pair) -> Sge;
    let changes: [Change; 4] = [
        |p| Sge { lkey: p.a.key ^ 1, ..p.a.sge(0, 600) },
        |p| Sge { lkey: p.a.region(PD + 1, Rights::ALL), ..p.a.sge(0, 600) },
        |p| p.a.sge(AREA - 599, 600),
        |p| Sge { addr: u64::MAX - 8, ..p.a.sge(0, 600) },
    ];
    for change in changes {
        let mut p = Pair::new();
        let (va, key, qpn) = (p.b.va, p.b.key, p.a.qpn);
        let bad = change(&mut p);
        let good = p.a.sge(0, 8);
        p.a.engine.post_send(qpn, SendWr::write(1, &[good], va, key)).unwrap();
        p.a.engine.post_send(qpn, SendWr::write(2, &[bad], va, key)).unwrap();
        p.a.engine.post_send(qpn, SendWr::write(3, &[good], va, key)).unwrap();
        let frames = p.a_sends();
        assert_eq!((frames.len(), p.a.all_done()), (1, vec![]));
        p.b_gets(&frames);
        p.run();
        assert_eq!(p.a.all_done(), [ok(1), (2, WcStatus::LocProtErr), flushed(3)]);
        assert_eq!(p.b.state(), QpState::Rts, "the peer has not noticed");
    }
}

#[test]
fn a_read_needs_memory_that_may_be_written() {
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    let lkey = p.a.region(PD, Rights::REMOTE);
    p.a.engine.post_send(p.a.qpn, SendWr::read(1, &[Sge { lkey, ..p.a.sge(0, 8) }], va, key)).unwrap();
    assert_eq!((p.a_sends().len(), p.a.all_done()), (0, vec![(1, WcStatus::LocProtErr)]));
}

#[test]
fn answers_of_the_wrong_kind_place_or_length_are_bad_responses() {
    use Opcode as O;
    type Change = fn(&mut ferrowire_spec::wire::Frame<'_>);
    let changes: [(usize, Change); 5] = [
        (0, |f| f.bth.opcode = O::RcReadResponseOnly as u8),
        (0, |f| f.payload = &f.payload[4..]),
        (1, |f| f.payload = &f.payload[4..]),
        (2, |f| f.payload = &f.payload[1..]),
        (2, |f| f.bth.opcode = O::RcReadResponseFirst as u8),
    ];
    for (at, change) in changes {
        let mut p = Pair::new();
        let (va, key) = (p.b.va, p.b.key);
        p.a.engine.post_send(p.a.qpn, SendWr::read(1, &[p.a.sge(0, 600)], va, key)).unwrap();
        let mut answers = p.answers();
        answers[at] = changed(&answers[at], change);
        p.a_gets(&answers);
        assert_eq!(p.a.all_done(), [(1, WcStatus::BadRespErr)]);
    }
}

#[test]
fn a_refusal_completes_what_was_before_it_and_flushes_what_follows() {
    let mut p = Pair::new();
    let (va, key, qpn) = (p.b.va, p.b.key, p.a.qpn);
    p.a.recv(8, 0, 8);
    p.b.recv(9, 0, 8);
    for i in 0..4 {
        let key = if i == 2 { key ^ 1 } else { key };
        p.a.engine.post_send(qpn, SendWr::write(i, &[p.a.sge(0, 8)], va, key)).unwrap();
    }
    p.run();
    assert_eq!(p.a.all_done(), [ok(0), ok(1), (2, WcStatus::RemAccessErr), flushed(3), flushed(8)]);
    assert_eq!(p.b.all_done(), [flushed(9)]);
}
