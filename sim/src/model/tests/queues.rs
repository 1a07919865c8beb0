// SPDX-License-Identifier: MIT OR Apache-2.0
//! States, completion queues, shared receive queues.

use ferrowire_spec::qp_state::TransitionError;
use ferrowire_spec::queue::event::EventKind;

use super::super::types::{Error, SendWr};
use super::*;

fn writes(p: &mut Pair, count: u64) {
    let (va, key) = (p.b.va, p.b.key);
    for i in 0..count {
        p.a.engine.post_send(p.a.qpn, SendWr::write(i, &[p.a.sge(8 * i, 8)], va, key)).unwrap();
    }
}

#[test]
fn work_is_taken_and_packets_are_as_the_state_allows() {
    let options = Options::default();
    let (mut a, mut b) = (end(1, &options), end(2, &options));
    assert_eq!(a.engine.post_recv(a.qpn, RecvWr::default()), Err(Error::State(QpState::Reset)));
    assert_eq!(a.engine.post_send(a.qpn, SendWr::send(1, &[])), Err(Error::State(QpState::Reset)));
    for attr in steps(2, a.qpn, &options) {
        b.engine.modify_qp(b.qpn, &attr).unwrap();
    }
    for attr in &steps(1, b.qpn, &options)[..1] {
        a.engine.modify_qp(a.qpn, attr).unwrap();
    }
    a.recv(1, 0, 8);
    a.recv(2, 0, 8);
    assert_eq!(a.engine.post_send(a.qpn, SendWr::send(1, &[])), Err(Error::State(QpState::Init)));
    b.engine.post_send(b.qpn, SendWr::send(1, &[])).unwrap();
    let frame = b.engine.poll_transmit(0).unwrap();
    a.engine.handle_frame(0, &frame);
    assert_eq!(a.engine.poll_transmit(0), None, "INIT does not answer");
    a.engine.modify_qp(a.qpn, &steps(1, b.qpn, &options)[1]).unwrap();
    a.engine.handle_frame(0, &frame);
    a.engine.handle_frame(0, &frame);
    assert_eq!(a.events(), [EventKind::CommEstablished]);
    assert_eq!(aeth(&a.engine.poll_transmit(0).unwrap()), (0x800, 0x1f, 1), "RTR does");
    assert_eq!(a.all_done(), [ok(1)]);
}

#[test]
fn transitions_are_those_of_the_standard() {
    let mut p = Pair::new();
    let illegal = |from, to| Err(Error::Transition(TransitionError::Illegal { from, to }));
    use QpState as S;
    assert_eq!(p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(S::Rtr)), illegal(S::Rts, S::Rtr));
    p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(S::Err)).unwrap();
    assert_eq!(p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(S::Rts)), illegal(S::Err, S::Rts));
    p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(S::Reset)).unwrap();
    assert_eq!(p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(S::Err)), illegal(S::Reset, S::Err));
}

#[test]
fn sqd_finishes_what_was_begun_and_begins_nothing() {
    let mut p = Pair::new();
    writes(&mut p, 3);
    let first = p.a.engine.poll_transmit(0).unwrap();
    p.a.engine.modify_qp(p.a.qpn, &QpAttr { sqd_event: Some(true), ..QpAttr::to(QpState::Sqd) }).unwrap();
    assert_eq!(p.a_sends().len(), 0);
    // The time-out works on: what was begun is sent again.
    p.wait();
    assert_eq!(packets(&p.a_sends()), packets(&[first]));
    p.wait();
    p.run();
    assert_eq!((p.a.all_done(), p.a.events()), (vec![ok(0)], vec![EventKind::SqDrained]));
    p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(QpState::Rts)).unwrap();
    p.run();
    assert_eq!((p.a.all_done(), p.a.events()), (vec![ok(1), ok(2)], vec![]));
}

#[test]
fn a_failed_send_of_an_unreliable_service_leaves_receiving_as_it_is() {
    let mut p = Pair::of(Service::Uc);
    p.a.recv(5, 0, 64);
    p.a.engine.post_send(p.a.qpn, SendWr::read(1, &[p.a.sge(0, 8)], 0, 0)).unwrap();
    p.a.engine.post_send(p.a.qpn, SendWr::send(2, &[])).unwrap();
    p.run();
    assert_eq!(p.a.state(), QpState::Sqe);
    assert_eq!(p.a.all_done(), [(1, WcStatus::LocQpOpErr), flushed(2)]);
    p.a.engine.post_send(p.a.qpn, SendWr::send(3, &[])).unwrap();
    p.b.engine.post_send(p.b.qpn, SendWr::send(4, &[p.b.sge(0, 8)])).unwrap();
    p.run();
    assert_eq!(p.a.all_done(), [flushed(3), ok(5)]);
    p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(QpState::Rts)).unwrap();
    p.b.recv(6, 0, 0);
    p.a.engine.post_send(p.a.qpn, SendWr::send(7, &[])).unwrap();
    p.run();
    assert_eq!((p.a.all_done(), p.b.all_done()), (vec![ok(7)], vec![ok(4), ok(6)]));
}

#[test]
fn error_flushes_every_request_in_order_with_one_completion_each() {
    let mut p = Pair::new();
    writes(&mut p, 3);
    p.a.engine.post_send(p.a.qpn, SendWr::send(3, &[]).unsignaled()).unwrap();
    p.a.recv(10, 0, 8);
    p.a.recv(11, 0, 8);
    p.a_sends();
    p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(QpState::Err)).unwrap();
    assert_eq!(p.a.all_done(), [0, 1, 2, 3, 10, 11].map(flushed));
    assert_eq!((p.a_sends().len(), p.a.engine.poll_timeout()), (0, None));
}

#[test]
fn reset_forgets_everything() {
    let mut p = Pair::new();
    writes(&mut p, 3);
    p.a.recv(10, 0, 8);
    p.run();
    writes(&mut p, 1);
    p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(QpState::Reset)).unwrap();
    assert_eq!((p.a.all_done(), p.a_sends().len()), (vec![], 0));
    let qpn = p.b.qpn;
    for attr in steps(1, qpn, &Options::default()) {
        p.a.engine.modify_qp(p.a.qpn, &attr).unwrap();
    }
    writes(&mut p, 1);
    assert_eq!(packets(&p.a_sends()), [(Opcode::RcWriteOnly, 0x100)]);
}

#[test]
fn an_armed_queue_gives_one_event_and_solicited_means_solicited_or_failed() {
    let mut p = Pair::new();
    let (cq, qpn) = (p.b.cq, p.a.qpn);
    for i in 0..6 {
        p.b.recv(i, 0, 8);
    }
    let send = |p: &mut Pair, solicited: bool| {
        let wr = SendWr::send(1, &[]);
        p.a.engine.post_send(qpn, if solicited { wr.solicited() } else { wr }).unwrap();
        p.run();
        p.b.events().len()
    };
    assert_eq!(send(&mut p, true), 0, "not armed");
    p.b.engine.arm_cq(cq, true).unwrap();
    assert_eq!((send(&mut p, false), send(&mut p, true), send(&mut p, true)), (0, 1, 0));
    p.b.engine.arm_cq(cq, false).unwrap();
    p.b.engine.arm_cq(cq, true).unwrap();
    assert_eq!(send(&mut p, false), 1, "any wins over solicited");
    p.b.engine.arm_cq(cq, true).unwrap();
    p.b.engine.modify_qp(p.b.qpn, &QpAttr::to(QpState::Err)).unwrap();
    assert_eq!(p.b.events(), [EventKind::Completion]);
}

#[test]
fn a_moderated_queue_tells_at_its_count_or_after_its_period() {
    let mut p = Pair::new();
    let (cq, qpn) = (p.b.cq, p.a.qpn);
    for i in 0..32 {
        p.b.recv(i, 0, 8);
    }
    let send = |p: &mut Pair, solicited: bool| {
        let wr = SendWr::send(1, &[]);
        p.a.engine.post_send(qpn, if solicited { wr.solicited() } else { wr }).unwrap();
        p.run();
        p.b.events().len()
    };
    const PERIOD: Instant = 50_000;
    p.b.engine.moderate_cq(cq, 3, PERIOD).unwrap();
    let three = |p: &mut Pair| [send(p, false), send(p, false), send(p, false)];
    assert_eq!(three(&mut p), [0, 0, 0], "not armed");
    // The third since it was armed, and that once.
    p.b.engine.arm_cq(cq, false).unwrap();
    assert_eq!((three(&mut p), send(&mut p, false)), ([0, 0, 1], 0));
    // Those that were there when it was armed count, solicited ones as one.
    p.b.engine.arm_cq_behind(cq, false, (2, false)).unwrap();
    assert_eq!(send(&mut p, false), 1);
    p.b.engine.arm_cq_behind(cq, false, (3, false)).unwrap();
    assert_eq!(p.b.events().len(), 1, "at once");
    p.b.engine.arm_cq_behind(cq, true, (7, true)).unwrap();
    assert_eq!([send(&mut p, true), send(&mut p, false), send(&mut p, true)], [0, 0, 1]);
    // One alone waits for the period, and another arming does not put that off.
    p.b.engine.arm_cq(cq, false).unwrap();
    assert_eq!(p.b.engine.poll_timeout(), None);
    let first = p.now;
    assert_eq!(send(&mut p, false), 0);
    p.now += PERIOD / 2;
    p.b.engine.set_now(p.now);
    p.b.engine.arm_cq_behind(cq, false, (1, false)).unwrap();
    let due = p.b.engine.poll_timeout().unwrap();
    assert!((first + PERIOD..first + PERIOD + PERIOD / 4).contains(&due), "{first} to {due}");
    p.b.engine.handle_timeout(due - 1);
    assert_eq!(p.b.events(), []);
    p.b.engine.handle_timeout(due);
    assert_eq!((p.b.events().len(), p.b.engine.poll_timeout()), (1, None));
    // New limits hold at once.
    p.now = due;
    for (count, period) in [(2, PERIOD), (1, PERIOD), (0, PERIOD), (3, 0)] {
        p.b.engine.moderate_cq(cq, 5, PERIOD).unwrap();
        p.b.engine.arm_cq(cq, false).unwrap();
        assert_eq!([send(&mut p, false), send(&mut p, false)], [0, 0]);
        p.b.engine.moderate_cq(cq, 4, PERIOD).unwrap();
        assert_eq!(p.b.events(), []);
        p.b.engine.moderate_cq(cq, count, period).unwrap();
        assert_eq!((p.b.events().len(), p.b.engine.poll_timeout()), (1, None));
    }
}

#[test]
fn a_completion_queue_that_runs_over_ends_its_queue_pairs() {
    let mut p = Pair::new();
    let cq = p.a.engine.create_cq(2);
    let init = QpInit { send_cq: cq, ..QpInit::new(Service::Rc, PD, p.a.cq) };
    let qpn = p.a.engine.create_qp(init).unwrap();
    for attr in steps(1, p.b.qpn, &Options::default()) {
        p.a.engine.modify_qp(qpn, &attr).unwrap();
    }
    p.a.qpn = qpn;
    let options = Options::default();
    p.b.engine.modify_qp(p.b.qpn, &QpAttr::to(QpState::Reset)).unwrap();
    for attr in steps(2, qpn, &options) {
        p.b.engine.modify_qp(p.b.qpn, &attr).unwrap();
    }
    writes(&mut p, 3);
    p.run();
    assert_eq!(p.a.engine.state(qpn), Some(QpState::Err));
    assert_eq!(p.a.events(), [EventKind::CqOverrun, EventKind::QpFatal]);
    let got: Vec<_> = std::iter::from_fn(|| p.a.engine.poll_cq(cq)).map(|done| done.wr_id).collect();
    assert_eq!(got, [0, 1]);
}

#[test]
fn a_completion_queue_that_is_resized_keeps_its_entries_its_order_and_its_arming() {
    let mut p = Pair::new();
    let cq = p.a.cq;
    p.a.engine.arm_cq(cq, true).unwrap();
    writes(&mut p, 3);
    p.run();
    assert_eq!(p.a.engine.resize_cq(cq + 77, 8), Err(Error::Unknown { what: "cq", number: cq + 77 }));
    assert_eq!(p.a.engine.resize_cq(cq, 2), Err(Error::Full));
    p.a.engine.resize_cq(cq, 4).unwrap();
    writes(&mut p, 1);
    p.run();
    assert_eq!(p.a.events(), []);
    // It is full, and gets room; then it is armed still, for a failure.
    p.a.engine.resize_cq(cq, 5).unwrap();
    p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(QpState::Err)).unwrap();
    p.a.engine.post_send(p.a.qpn, SendWr::send(9, &[])).unwrap();
    p.run();
    assert_eq!(p.a.events(), [EventKind::Completion]);
    let got: Vec<_> = std::iter::from_fn(|| p.a.engine.poll_cq(cq)).map(|done| done.wr_id).collect();
    assert_eq!(got, [0, 1, 2, 0, 9]);
}

#[test]
fn queues_take_no_more_than_they_have_room_for() {
    let mut p = Pair::new();
    let wr = || SendWr::send(1, &[]);
    for _ in 0..256 {
        p.a.engine.post_send(p.a.qpn, wr()).unwrap();
        p.a.recv(1, 0, 0);
    }
    assert_eq!(p.a.engine.post_send(p.a.qpn, wr()), Err(Error::Full));
    assert_eq!(p.a.engine.post_recv(p.a.qpn, RecvWr::default()), Err(Error::Full));
}

#[test]
fn a_shared_receive_queue_serves_all_and_tells_once_when_it_runs_low() {
    let mut p = Pair::new();
    let srq = p.b.engine.create_srq(PD, 16);
    let init = QpInit { srq: Some(srq), ..QpInit::new(Service::Rc, PD, p.b.cq) };
    p.b.qpn = p.b.engine.create_qp(init).unwrap();
    let options = Options { credits: true, ..Options::default() };
    for attr in steps(2, p.a.qpn, &options) {
        p.b.engine.modify_qp(p.b.qpn, &attr).unwrap();
    }
    p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(QpState::Reset)).unwrap();
    for attr in steps(1, p.b.qpn, &options) {
        p.a.engine.modify_qp(p.a.qpn, &attr).unwrap();
    }
    assert_eq!(p.b.engine.post_recv(p.b.qpn, RecvWr::default()), Err(Error::HasSrq));
    for i in 0..4 {
        p.b.engine.post_srq_recv(srq, RecvWr::new(i, &[p.b.sge(64 * i, 64)])).unwrap();
    }
    p.b.engine.arm_srq(srq, 2).unwrap();
    for i in 0..4 {
        p.a.engine.post_send(p.a.qpn, SendWr::send(i, &[p.a.sge(0, 40)])).unwrap();
    }
    let answers = p.answers();
    assert_eq!(aeth(answers.last().unwrap()).1, 0x1f, "no credits can be promised");
    assert_eq!(p.b.all_done(), [0, 1, 2, 3].map(ok));
    assert_eq!(p.b.events(), [EventKind::SrqLimit]);
    p.b.engine.modify_qp(p.b.qpn, &QpAttr::to(QpState::Err)).unwrap();
    assert_eq!(p.b.events(), [EventKind::LastWqe]);
}

#[test]
fn a_receive_of_a_shared_queue_that_was_begun_is_flushed_by_its_queue_pair() {
    let mut p = Pair::new();
    let srq = p.b.engine.create_srq(PD, 16);
    let init = QpInit { srq: Some(srq), qpn: Some(0x77), ..QpInit::new(Service::Rc, PD, p.b.cq) };
    p.b.qpn = p.b.engine.create_qp(init).unwrap();
    let options = Options::default();
    for attr in steps(2, p.a.qpn, &options) {
        p.b.engine.modify_qp(p.b.qpn, &attr).unwrap();
    }
    p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(QpState::Reset)).unwrap();
    for attr in steps(1, 0x77, &options) {
        p.a.engine.modify_qp(p.a.qpn, &attr).unwrap();
    }
    for i in 0..2 {
        p.b.engine.post_srq_recv(srq, RecvWr::new(i, &[p.b.sge(0, 4096)])).unwrap();
    }
    p.a.engine.post_send(p.a.qpn, SendWr::send(1, &[p.a.sge(0, 600)])).unwrap();
    let frames = p.a_sends();
    p.b_gets(&frames[..1]);
    p.b.engine.modify_qp(0x77, &QpAttr::to(QpState::Err)).unwrap();
    assert_eq!(p.b.all_done(), [flushed(0)], "the other stays for other queue pairs");
}

#[test]
fn a_receive_of_a_shared_queue_that_was_not_needed_is_for_the_next_message() {
    let options = Options { service: Service::Uc, ..Options::default() };
    let mut p = Pair::with(options);
    let srq = p.b.engine.create_srq(PD, 16);
    let init = QpInit { srq: Some(srq), ..QpInit::new(Service::Uc, PD, p.b.cq) };
    p.b.qpn = p.b.engine.create_qp(init).unwrap();
    for attr in steps(2, p.a.qpn, &options) {
        p.b.engine.modify_qp(p.b.qpn, &attr).unwrap();
    }
    p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(QpState::Reset)).unwrap();
    for attr in steps(1, p.b.qpn, &options) {
        p.a.engine.modify_qp(p.a.qpn, &attr).unwrap();
    }
    for i in 0..2 {
        p.b.engine.post_srq_recv(srq, RecvWr::new(i, &[p.b.sge(4096 * i, 4096)])).unwrap();
        p.a.engine.post_send(p.a.qpn, SendWr::send(i, &[p.a.sge(i, 2 * MTU)])).unwrap();
    }
    let frames = p.a_sends();
    p.b_gets(&frames[..1]);
    p.b_gets(&frames[2..]);
    assert_eq!(p.b.all_done(), [ok(0)]);
    assert_eq!(p.b.bytes(0, 2 * MTU), p.a.bytes(1, 2 * MTU));
}

#[test]
fn queue_pairs_without_work_are_not_looked_at_for_a_frame_or_a_deadline() {
    let mut p = Pair::new();
    for _ in 0..300 {
        p.a.engine.create_qp(QpInit::new(Service::Rc, PD, p.a.cq)).unwrap();
    }
    let earliest = |p: &Pair| p.a.engine.qps.values().filter_map(|qp| qp.next_deadline()).min();
    assert_eq!(p.a.engine.poll_transmit(0), None);
    assert_eq!((p.a.engine.qps.active(), p.a.engine.poll_timeout()), (0, None));
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::write(1, &[p.a.sge(0, 8)], va, key)).unwrap();
    assert_eq!(p.a.engine.qps.active(), 1);
    let asked = p.a_sends();
    assert_eq!((asked.len(), p.a.engine.qps.active()), (1, 0));
    assert!(p.a.engine.poll_timeout().is_some());
    assert_eq!(p.a.engine.poll_timeout(), earliest(&p));
    // It is lost, and sent again after its time-out.
    p.wait().unwrap();
    assert_eq!((p.a.engine.qps.active(), p.a.engine.poll_timeout()), (1, earliest(&p)));
    p.run();
    assert_eq!((p.a.all_done(), p.a.engine.poll_timeout()), (vec![ok(1)], None));
    p.a.engine.destroy_qp(p.a.qpn).unwrap();
    assert_eq!(p.a.engine.poll_timeout(), None);
}
