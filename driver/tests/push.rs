// SPDX-License-Identifier: MIT OR Apache-2.0
//! WQEs that are pushed into the doorbell page.

use crate::common::*;
use ferrowire::spec::csr::capabilities as cap;
use ferrowire::spec::queue::doorbell::PUSH_SLOTS;
use ferrowire::*;

/// What is wrong with a queue pair, and how it is put right.
fn refused(pd: &ProtectionDomain, attr: &QpInitAttr<'_>) -> (&'static str, String) {
    match pd.create_qp(attr) {
        Err(Error::Attribute { operation: "create_qp", attribute, fix, .. }) => (attribute, fix),
        other => panic!("{other:?}"),
    }
}

/// A queue pair that pushes, connected to itself.
fn pushing(bench: &Bench, send_wr: u32) -> QueuePair {
    let mut attr = QpInitAttr::rc(&bench.cq, &bench.cq);
    (attr.max_send_wr, attr.max_inline, attr.push) = (send_wr, 16, true);
    let qp = bench.pd.create_qp(&attr).unwrap();
    let number = qp.number();
    qp.init(init()).unwrap().rtr(rtr(number)).unwrap().rts(rts()).unwrap()
}

#[test]
fn a_work_request_alone_is_pushed_and_written_to_the_queue_as_well() {
    let mut b = bench(8, 16);
    let (mut one, mut other) = (pushing(&b, 4), pushing(&b, 4));
    let data: Vec<u8> = (0..64).collect();
    b.source.memory().write(0, &data);
    // Round the ring, and each with a batch of two in between.
    for round in 0..10 {
        for (at, qp) in [(0, &mut one), (128, &mut other)] {
            let (sges, inline) = ([b.source.sge(round, 8)], [round as u8; 16]);
            qp.start_post_send().post(&SendWr::write(1, &sges, b.target.remote(at)).signaled()).unwrap();
            let mut batch = qp.start_post_send();
            for i in 1..3 {
                let wr = SendWr::write(i, Payload::Inline(&inline), b.target.remote(at + 16 * i as usize));
                batch.post(&wr.signaled()).unwrap();
            }
            batch.ring().unwrap();
            let wr = SendWr::write(4, Payload::Inline(&inline[..3]), b.target.remote(at + 48));
            qp.start_post_send().post(&wr.signaled()).unwrap();
            let done = b.completions(4);
            assert!(done.iter().all(|done| done.status() == Coded::Known(WcStatus::Success)), "{done:?}");
            assert_eq!(bytes(b.target.memory(), at, 8), data[round..round + 8]);
            assert_eq!(bytes(b.target.memory(), at + 16, 35), [round as u8; 35]);
        }
    }
    let card = b.mock.card();
    let pushed = |qp: &QueuePair| (card.qps[&qp.number()].pushed.clone(), card.qps[&qp.number()].doorbells);
    // Each has a place of its own.
    assert_eq!((pushed(&one), pushed(&other)), ((vec![0; 20], 30), (vec![1; 20], 30)));
}

#[test]
fn an_empty_batch_and_one_that_does_not_push_ring_as_ever() {
    let mut b = bench(8, 16);
    let mut qp = pushing(&b, 4);
    qp.start_post_send().ring().unwrap();
    let sges = [b.source.sge(0, 8)];
    b.qp.start_post_send().post(&SendWr::write(1, &sges, b.target.remote(0)).signaled()).unwrap();
    assert_eq!(b.completions(1)[0].wr_id(), 1);
    let card = b.mock.card();
    assert_eq!((card.qps[&qp.number()].doorbells, card.qps[&b.qp.number()].doorbells), (0, 1));
    assert!(card.qps.values().all(|qp| qp.pushed.is_empty()));
}

#[test]
fn what_cannot_be_pushed_is_refused_and_the_error_says_what_to_do() {
    let b = bench(8, 16);
    let mut attr = QpInitAttr::rc(&b.cq, &b.cq);
    (attr.push, attr.max_send_sge) = (true, 2);
    let (attribute, fix) = refused(&b.pd, &attr);
    assert_eq!((attribute, fix.contains("max_send_sge 1")), ("push", true), "{fix}");
    (attr.max_send_sge, attr.max_inline) = (1, 17);
    let (attribute, fix) = refused(&b.pd, &attr);
    assert_eq!((attribute, fix.contains("max_inline up to 16")), ("push", true), "{fix}");
    assert!(b.context.capabilities().wqe_push);

    let mock = Mock::new().without("wqe_push");
    let context = mock.open();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(16).unwrap());
    let mut attr = QpInitAttr::rc(&cq, &cq);
    attr.push = true;
    let (attribute, fix) = refused(&pd, &attr);
    assert_eq!((attribute, fix.contains("push_slots")), ("push", true), "{fix}");
    assert!(!context.capabilities().wqe_push);
}

#[test]
fn a_page_has_so_many_places_and_each_is_given_back() {
    let mock = Mock::new();
    mock.card().registers.insert(cap::BLOCK.address(&cap::MAX_QP), 64);
    let context = mock.open();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(16).unwrap());
    let mut attr = QpInitAttr::rc(&cq, &cq);
    attr.push = true;
    for _ in 0..3 {
        let mut all: Vec<_> = (0..PUSH_SLOTS).map(|_| pd.create_qp(&attr).unwrap()).collect();
        let (attribute, fix) = refused(&pd, &attr);
        assert_eq!((attribute, fix.contains("leave push out")), ("push", true), "{fix}");
        // Without a place, one that does not push.
        pd.create_qp(&QpInitAttr::rc(&cq, &cq)).unwrap();
        all.swap_remove(7).destroy().unwrap();
        // One that the card refuses takes none along.
        mock.card().refuse.push_back((CommandStatus::NoResource.code(), 0, 0));
        pd.create_qp(&attr).unwrap_err();
        let again = pd.create_qp(&attr).unwrap();
        refused(&pd, &attr);
        drop(again);
    }
}
