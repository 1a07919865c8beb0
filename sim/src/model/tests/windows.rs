// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory windows of both types, and keys that the peer invalidates.

use ferrowire_spec::queue::cqe::CqeOpcode;

use super::super::types::{Bind, Error, SendWr, WindowType};
use super::*;

/// A window over 64 bytes from 128 on, bound by `b`.
fn bound(p: &mut Pair, rights: Rights) -> u32 {
    let key = p.b.engine.alloc_window(PD, WindowType::default(), None).unwrap() ^ 0x55;
    let bind = Bind { key, lkey: p.b.key, addr: p.b.va + 128, len: 64, rights, ..Bind::default() };
    p.b.engine.post_send(p.b.qpn, SendWr::bind(100, bind)).unwrap();
    p.run();
    assert_eq!(good(p.b.done()).0, CqeOpcode::BindMw);
    key
}

fn write(p: &mut Pair, va: u64, key: u32, len: usize) -> (u64, WcStatus) {
    p.a.engine.post_send(p.a.qpn, SendWr::write(1, &[p.a.sge(0, len)], va, key)).unwrap();
    p.run();
    p.a.all_done()[0]
}

#[test]
fn a_window_gives_its_rights_within_its_bounds() {
    let all = Rights::REMOTE;
    for (from, len, rights, good) in [
        (128, 64, all, true),
        (127, 8, all, false),
        (128, 65, all, false),
        (191, 1, all, true),
        (128, 8, Rights::REMOTE_READ, false),
    ] {
        let mut p = Pair::new();
        let key = bound(&mut p, rights);
        let va = p.b.va + from;
        let want = if good { ok(1) } else { (1, WcStatus::RemAccessErr) };
        assert_eq!(write(&mut p, va, key, len), want, "{from}, {len}, {rights:?}");
    }
}

#[test]
fn a_zero_based_window_counts_from_zero() {
    let mut p = Pair::new();
    let key = bound(&mut p, Rights::REMOTE | Rights::ZERO_BASED);
    assert_eq!(write(&mut p, 56, key, 8), ok(1));
    assert_eq!(p.b.bytes(128 + 56, 8), p.a.bytes(0, 8));
    let va = p.b.va + 128;
    assert_eq!(write(&mut p, va, key, 8).1, WcStatus::RemAccessErr);
}

#[test]
fn a_peer_invalidates_a_window_with_a_send_and_it_is_told() {
    let mut p = Pair::new();
    let key = bound(&mut p, Rights::REMOTE);
    p.b.recv(1, 0, 64);
    let va = p.b.va + 128;
    assert_eq!(write(&mut p, va, key, 8), ok(1));
    p.a.engine.post_send(p.a.qpn, SendWr::send_inv(2, &[p.a.sge(0, 8)], key)).unwrap();
    p.run();
    let done = p.b.done().unwrap();
    assert_eq!((done.opcode, done.invalidated, done.imm), (CqeOpcode::RecvInv, Some(key), None));
    assert_eq!(p.a.all_done(), [ok(2)]);
    assert_eq!(write(&mut p, va, key, 8).1, WcStatus::RemAccessErr);
}

#[test]
fn only_windows_of_that_queue_pair_can_be_invalidated_by_its_peer() {
    type Key = fn(&mut Pair) -> u32;
    let keys: [Key; 3] = [
        |p| p.b.key,
        |p| p.b.engine.alloc_window(PD, WindowType::default(), None).unwrap(),
        |p| bound(p, Rights::REMOTE) ^ 1,
    ];
    for key in keys {
        let mut p = Pair::new();
        let key = key(&mut p);
        p.b.recv(1, 0, 64);
        p.a.engine.post_send(p.a.qpn, SendWr::send_inv(2, &[p.a.sge(0, 8)], key)).unwrap();
        let before = p.b.bytes(0, 64);
        p.run();
        assert_eq!(p.a.all_done(), [(2, WcStatus::RemAccessErr)]);
        assert_eq!((p.b.all_done()[0], p.b.bytes(0, 64)), ((1, WcStatus::RemAccessErr), before));
    }
}

#[test]
fn a_local_invalidation_waits_for_what_is_before_it_and_works_for_what_follows() {
    let mut p = Pair::new();
    let key = bound(&mut p, Rights::REMOTE);
    let (va, peer) = (p.a.va, p.a.key);
    p.b.engine.post_send(p.b.qpn, SendWr::write(1, &[p.b.sge(0, 8)], va, peer)).unwrap();
    p.b.engine.post_send(p.b.qpn, SendWr::local_inv(2, key)).unwrap();
    p.b.engine.post_send(p.b.qpn, SendWr::local_inv(3, key)).unwrap();
    assert_eq!((p.b_sends().len(), p.b.all_done()), (1, vec![]));
    p.now += 1 << 30;
    p.b.engine.handle_timeout(p.now);
    p.run();
    assert_eq!(p.b.all_done(), [ok(1), ok(2), (3, WcStatus::MwBindErr)], "it was not bound any more");
}

#[test]
fn a_bind_that_the_region_does_not_allow_fails() {
    type Change = fn(&mut Pair, &mut Bind);
    let changes: [Change; 6] = [
        |p, bind| bind.lkey = p.b.region(PD, Rights::LOCAL_WRITE),
        |p, bind| bind.lkey = p.b.region(PD, Rights::MW_BIND),
        |p, bind| bind.lkey = p.b.region(PD + 1, Rights::ALL),
        |_, bind| bind.len = AREA + 1,
        |p, bind| bind.key = p.b.engine.alloc_window(PD + 1, WindowType::default(), None).unwrap(),
        |p, bind| bind.key = bound(p, Rights::REMOTE),
    ];
    for change in changes {
        let mut p = Pair::new();
        let key = p.b.engine.alloc_window(PD, WindowType::default(), None).unwrap();
        let mut bind =
            Bind { key, lkey: p.b.key, addr: p.b.va, len: 64, rights: Rights::REMOTE, ..Bind::default() };
        change(&mut p, &mut bind);
        p.b.engine.post_send(p.b.qpn, SendWr::bind(1, bind)).unwrap();
        p.run();
        assert_eq!(p.b.all_done(), [(1, WcStatus::MwBindErr)], "{bind:?}");
    }
}

#[test]
fn a_window_is_of_no_use_to_other_queue_pairs_and_holds_its_region() {
    let mut p = Pair::new();
    let key = bound(&mut p, Rights::REMOTE);
    assert_eq!(p.b.engine.deregister(p.b.key), Err(Error::Busy));
    reconnect(&mut p, PD);
    let va = p.b.va + 128;
    assert_eq!(write(&mut p, va, key, 8).1, WcStatus::RemAccessErr);
}

#[test]
fn a_bind_of_no_length_unbinds() {
    let mut p = Pair::new();
    let key = bound(&mut p, Rights::REMOTE);
    let bind = Bind { key: key ^ 1, ..Bind::default() };
    p.b.engine.post_send(p.b.qpn, SendWr::bind(1, bind)).unwrap();
    p.run();
    assert_eq!(p.b.all_done(), [ok(1)]);
    let region = p.b.key;
    assert_eq!(p.b.engine.deregister(region), Ok(()));
}

/// Binds a window of type 1 by `b` to 64 bytes from `at` on.
fn bind_again(p: &mut Pair, key: u32, at: u64) {
    let (addr, rights, kind) = (p.b.va + at, Rights::REMOTE, WindowType::Type1);
    let bind = Bind { key, lkey: p.b.key, addr, len: 64, rights, kind };
    p.b.engine.post_send(p.b.qpn, SendWr::bind(100, bind)).unwrap();
    p.run();
    assert_eq!(p.b.all_done(), [ok(100)]);
}

/// `a` and another queue pair of `b`, in a domain, as a new connection.
fn reconnect(p: &mut Pair, pd: u32) -> u32 {
    let qpn = p.b.engine.create_qp(QpInit::new(Service::Rc, pd, p.b.cq)).unwrap();
    let options = Options::default();
    for attr in steps(2, p.a.qpn, &options) {
        p.b.engine.modify_qp(qpn, &attr).unwrap();
    }
    p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(QpState::Reset)).unwrap();
    for attr in steps(1, qpn, &options) {
        p.a.engine.modify_qp(p.a.qpn, &attr).unwrap();
    }
    qpn
}

#[test]
fn a_window_of_type_1_is_bound_while_it_is_bound_and_its_old_key_gives_nothing() {
    let mut p = Pair::new();
    let old = p.b.engine.alloc_window(PD, WindowType::Type1, None).unwrap() ^ 1;
    bind_again(&mut p, old, 128);
    let va = p.b.va + 128;
    assert_eq!(write(&mut p, va, old, 8), ok(1));
    let new = old ^ 3;
    bind_again(&mut p, new, 256);
    let va = p.b.va + 256;
    assert_eq!(write(&mut p, va, new, 8), ok(1));
    assert_eq!(p.b.engine.deregister(p.b.key), Err(Error::Busy));
    assert_eq!(write(&mut p, va, old, 8).1, WcStatus::RemAccessErr);
}

#[test]
fn a_window_of_type_1_serves_all_queue_pairs_of_its_domain_and_no_other() {
    for (pd, good) in [(PD, true), (PD + 1, false)] {
        let mut p = Pair::new();
        let key = p.b.engine.alloc_window(PD, WindowType::Type1, None).unwrap();
        bind_again(&mut p, key, 128);
        // It outlives the queue pair that bound it.
        let binder = p.b.qpn;
        let qpn = reconnect(&mut p, pd);
        p.b.engine.destroy_qp(binder).unwrap();
        let va = p.b.va + 128;
        let want = if good { ok(1) } else { (1, WcStatus::RemAccessErr) };
        assert_eq!(write(&mut p, va, key, 8), want);
        if good {
            // And another one takes it back.
            let bind = Bind { key: key ^ 1, kind: WindowType::Type1, ..Bind::default() };
            p.b.engine.post_send(qpn, SendWr::bind(2, bind)).unwrap();
            p.run();
            assert_eq!(p.b.all_done(), [ok(2)]);
            assert_eq!(write(&mut p, va, key ^ 1, 8).1, WcStatus::RemAccessErr);
            assert_eq!(p.b.engine.deregister(p.b.key), Ok(()));
        }
    }
}

#[test]
fn no_invalidation_works_on_a_window_of_type_1() {
    for by_peer in [true, false] {
        let mut p = Pair::new();
        let key = p.b.engine.alloc_window(PD, WindowType::Type1, None).unwrap();
        bind_again(&mut p, key, 128);
        p.b.recv(1, 0, 64);
        if by_peer {
            p.a.engine.post_send(p.a.qpn, SendWr::send_inv(2, &[p.a.sge(0, 8)], key)).unwrap();
            p.run();
            assert_eq!(p.a.all_done(), [(2, WcStatus::RemAccessErr)]);
        } else {
            p.b.engine.post_send(p.b.qpn, SendWr::local_inv(3, key)).unwrap();
            p.run();
            assert_eq!(p.b.all_done()[0], (3, WcStatus::MwBindErr));
        }
        reconnect(&mut p, PD);
        let va = p.b.va + 128;
        assert_eq!(write(&mut p, va, key, 8), ok(1), "it is bound still");
    }
}

#[test]
fn a_bind_names_the_type_of_its_window() {
    for (kind, other) in [(WindowType::Type1, WindowType::Type2B), (WindowType::Type2B, WindowType::Type1)] {
        for len in [64, 0] {
            let mut p = Pair::new();
            let key = p.b.engine.alloc_window(PD, kind, None).unwrap();
            let (lkey, addr, rights) = (p.b.key, p.b.va, Rights::REMOTE);
            p.b.engine
                .post_send(p.b.qpn, SendWr::bind(1, Bind { key, lkey, addr, len, rights, kind: other }))
                .unwrap();
            p.run();
            assert_eq!(p.b.all_done(), [(1, WcStatus::MwBindErr)], "{kind:?} of {len}");
        }
    }
}
