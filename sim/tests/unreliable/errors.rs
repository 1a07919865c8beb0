// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of unreliable send queues: the queue goes to SQE, the rest of it is flushed, and it goes on when it is told to (IBTA volume 1,
//! 10.3.1.7).

use crate::tier::{chosen, number};
use ferrowire::{
    Completion, LocalCause, QpAttributes, QpState, QueuePair, RemoteAddress, SendOp, SendWr, Sge, WcStatus,
};
use ferrowire_spec::wire::opcode::Service;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::rig::{part, post, state, Expected, Rig, CARDS, CONFIGS, NOBODY, QKEY};

const WELL: WcStatus = WcStatus::Success;
const FLUSHED: WcStatus = WcStatus::WrFlushErr;
const REMOTE: RemoteAddress = RemoteAddress { address: 0x1000, rkey: 0x99 };

/// The request that is bad.
fn asks(op: SendOp, sges: &[Sge]) -> SendWr<'_> {
    SendWr::new(100, op, sges)
}

fn recover(qp: &mut QueuePair) {
    qp.modify(QpState::Rts, &QpAttributes::default()).unwrap();
}

/// A bad work request between good ones ends with its cause; what is before it is sent and what is behind flushed. Then the queue goes
/// on, over and over.
fn each_fails_alone(
    rig: &mut Rig,
    qp: &mut QueuePair,
    good: &dyn Fn(u64) -> SendWr<'static>,
    bad: &[(SendWr<'_>, WcStatus, LocalCause)],
) {
    for (round, (wr, status, cause)) in bad.iter().enumerate() {
        let many = 1 + 5 * (round % 3) as u64;
        let mut requests: Vec<SendWr<'_>> = (0..many).map(|id| good(id).signaled()).collect();
        requests.push(*wr);
        // Flushed whether they are signalled or not.
        requests.extend((0..many).map(|id| good(200 + id)));
        post(qp, &requests);
        let mut expected: Vec<_> = (0..many).map(|id| (id, WELL, 0)).collect();
        expected.push((100, *status, cause.code()));
        expected.extend((0..many).map(|id| (200 + id, FLUSHED, 0)));
        assert_eq!(rig.ends(expected.len()), expected, "round {round}: {wr:?}");
        assert_eq!(rig.sent().len(), many as usize, "round {round}: {wr:?}");
        assert_eq!((state(qp), qp.state()), (QpState::Sqe, QpState::Sqe));
        // What is posted meanwhile is flushed too.
        post(qp, &[good(300)]);
        assert_eq!(rig.ends(1), [(300, FLUSHED, 0)]);
        recover(qp);
        assert_eq!((state(qp), qp.state()), (QpState::Rts, QpState::Rts));
        post(qp, &[good(400).signaled()]);
        assert_eq!(rig.ends(1), [(400, WELL, 0)], "round {round}: {wr:?}");
        assert_eq!(rig.sent().len(), 1);
    }
}

#[test]
fn connections_refuse_what_they_do_not_have_and_go_on_when_told() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config);
        let way = rig.way(false, None);
        let mut qp = rig.up(Service::Uc, Some(way));
        let pd = rig.node().pd.clone();
        let foreign = rig.node().context.alloc_pd().unwrap();
        let (from, others) = (rig.source(&pd, 8192), rig.source(&foreign, 4096));
        let data: &'static [u8] = b"good";
        let good = |id: u64| SendWr::new(id, SendOp::Send, ferrowire::Payload::Inline(data));
        let word = [from.sge(0, 8)];
        let (not_mine, beyond) = ([others.sge(0, 64)], [Sge { bytes: 9000, ..from.sge(0, 64) }]);
        let has_not = (WcStatus::LocQpOpErr, LocalCause::WqeOpcode);
        let bad = [
            (asks(SendOp::Read { remote: REMOTE }, &word), has_not.0, has_not.1),
            (asks(SendOp::FetchAdd { remote: REMOTE, add: 1 }, &word), has_not.0, has_not.1),
            (asks(SendOp::CompareSwap { remote: REMOTE, compare: 0, swap: 0 }, &word), has_not.0, has_not.1),
            (asks(SendOp::SendInv { key: 7 }, &word), has_not.0, has_not.1),
            (asks(SendOp::Send, &not_mine), WcStatus::LocProtErr, LocalCause::KeyPd),
            (asks(SendOp::Write { remote: REMOTE }, &beyond), WcStatus::LocProtErr, LocalCause::KeyBounds),
        ];
        each_fails_alone(&mut rig, &mut qp, &good, &bad);
    }
}

#[test]
fn datagrams_that_are_too_long_or_have_no_handle_of_their_domain_are_not_sent() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config);
        let mut qp = rig.up(Service::Ud, None);
        let pd = rig.node().pd.clone();
        let foreign = rig.node().context.alloc_pd().unwrap();
        let from = rig.source(&pd, 8192);
        let way = rig.way(false, None);
        let handle: &'static _ = Box::leak(Box::new(pd.create_ah(&way).unwrap()));
        let theirs = foreign.create_ah(&way).unwrap();
        let data: &'static [u8] = b"good";
        let good = |id: u64| {
            SendWr::new(id, SendOp::Send, ferrowire::Payload::Inline(data)).to(handle, NOBODY, QKEY)
        };
        let (short, long) = ([from.sge(0, 8)], [from.sge(0, 4000), from.sge(0, 97)]);
        let has_not = (WcStatus::LocQpOpErr, LocalCause::WqeOpcode);
        let bad = [
            (asks(SendOp::Send, &long).to(handle, NOBODY, QKEY), WcStatus::LocLenErr, LocalCause::Length),
            (asks(SendOp::Write { remote: REMOTE }, &short).to(handle, NOBODY, QKEY), has_not.0, has_not.1),
            (
                asks(SendOp::WriteImm { remote: REMOTE, imm: 1 }, &short).to(handle, NOBODY, QKEY),
                has_not.0,
                has_not.1,
            ),
            (asks(SendOp::Read { remote: REMOTE }, &short).to(handle, NOBODY, QKEY), has_not.0, has_not.1),
            (asks(SendOp::SendInv { key: 7 }, &short).to(handle, NOBODY, QKEY), has_not.0, has_not.1),
            (
                SendWr::send(100, &short).to(&theirs, NOBODY, QKEY),
                WcStatus::LocQpOpErr,
                LocalCause::AddressHandle,
            ),
        ];
        each_fails_alone(&mut rig, &mut qp, &good, &bad);
        // One of nothing, and one whose handle was taken away.
        let number = theirs.number();
        theirs.destroy().unwrap();
        let again = foreign.create_ah(&way).unwrap();
        assert_ne!(again.number(), number, "numbers are used again last");
    }
}

#[test]
fn a_connection_that_went_on_sends_what_is_posted_then_and_its_psns_go_on() {
    for config in chosen!(CARDS) {
        let mut rig = Rig::new(config);
        let way = rig.way(false, None);
        let mut qp = rig.up(Service::Uc, Some(way));
        let pd = rig.node().pd.clone();
        let from = rig.source(&pd, 8192);
        for round in 0..30 {
            let sges = [from.sge(round, 3000)];
            post(&mut qp, &[SendWr::send(1, &sges).signaled()]);
            assert_eq!(rig.ends(1), [(1, WELL, 0)]);
            let frames = rig.sent();
            let wr = Expected {
                op: SendOp::Send,
                bytes: 3000,
                way: &way,
                dest_qpn: NOBODY,
                qkey: 0,
                solicited: false,
            };
            assert_eq!(rig.message(&qp, &frames, &wr), part(&from, round, 3000), "{config}: {round}");
            // Fails at its second packet: the first is on the wire. Many more than the queue was told at once stand behind.
            let sges = [from.sge(0, 1500), Sge { lkey: 0x77, ..from.sge(0, 100) }];
            let mut requests = vec![SendWr::send(2, &sges)];
            requests.extend((0..60).map(|id| SendWr::send(3 + id, &sges[..1])));
            post(&mut qp, &requests);
            let ends = rig.ends(61);
            assert_eq!(ends[0].1, WcStatus::LocProtErr);
            assert!(ends[1..].iter().all(|end| end.1 == FLUSHED));
            let frames = rig.sent();
            assert_eq!(frames.len(), 1, "{config}: {round}");
            recover(&mut qp);
            // What was given to packets that were never sent is passed over.
            post(&mut qp, &[SendWr::send(99, &[from.sge(0, 1)]).signaled()]);
            assert_eq!(rig.ends(1), [(99, WELL, 0)]);
            let frames = rig.sent();
            let first = ferrowire_spec::wire::frame::Frame::parse(&frames[0]).unwrap();
            let psn = ferrowire::Psn::new(first.bth.psn);
            assert!(psn.distance_from(rig.psn) < 200, "{config}: {psn:?} behind {:?}", rig.psn);
            rig.psn = psn + 1;
        }
    }
}

#[test]
fn payload_that_cannot_be_read_stops_the_send_queue_alone_and_it_goes_on() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config);
        let mut qp = rig.up(Service::Uc, Some(rig.way(false, None)));
        let pd = rig.node().pd.clone();
        let (from, broken) = (rig.source(&pd, 8192), rig.source(&pd, 8192));
        rig.pair.unmap(0, broken.memory().address() + 4096);
        for round in 0..20 {
            let (good, bad) = ([from.sge(0, 2000)], [broken.sge(0, 5000)]);
            let mut requests = vec![SendWr::send(1, &good).signaled(), SendWr::send(2, &bad)];
            requests.extend((3..20).map(|id| SendWr::send(id, &good)));
            post(&mut qp, &requests);
            let mut expected = vec![(1, WELL, 0), (2, WcStatus::LocQpOpErr, LocalCause::Dma.code())];
            expected.extend((3..20).map(|id| (id, FLUSHED, 0)));
            assert_eq!(rig.ends(19), expected, "{config}, round {round}");
            assert_eq!(state(&qp), QpState::Sqe);
            recover(&mut qp);
        }
        post(&mut qp, &[SendWr::send(1, &[from.sge(0, 4000)]).signaled()]);
        assert_eq!(rig.ends(1), [(1, WELL, 0)], "{config}");
    }
}

/// A queue pair, what was posted to it and what became of that.
struct Line {
    qp: QueuePair,
    /// Whether each was bad.
    posted: Vec<bool>,
    /// So many had been posted each time that it went on.
    marks: Vec<usize>,
    done: Vec<(u64, WcStatus)>,
}

impl Line {
    /// How each should end: behind a bad one everything is flushed, up to the next mark.
    fn expected(&self) -> Vec<(u64, WcStatus)> {
        let mut failed = false;
        (0..self.posted.len())
            .map(|i| {
                failed &= !self.marks.contains(&i);
                let status = match (failed, self.posted[i]) {
                    (true, _) => FLUSHED,
                    (false, true) => WcStatus::LocQpOpErr,
                    (false, false) => WELL,
                };
                failed |= self.posted[i];
                (i as u64, status)
            })
            .collect()
    }
}

#[test]
fn send_queues_that_fail_and_go_on_at_any_moment_end_each_work_request_once() {
    for (config, seed) in
        chosen!(CONFIGS).into_iter().flat_map(|config| (1..=number(1, 2)).map(move |seed| (config, seed)))
    {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut rig = Rig::new(config);
        let pd = rig.node().pd.clone();
        let (way, from) = (rig.way(false, None), rig.source(&pd, 8192));
        let handle = pd.create_ah(&way).unwrap();
        let mut lines: Vec<Line> = (0..6)
            .map(|i| {
                let qp = match i % 2 {
                    0 => rig.up(Service::Uc, Some(way)),
                    _ => rig.up(Service::Ud, None),
                };
                Line { qp, posted: Vec::new(), marks: Vec::new(), done: Vec::new() }
            })
            .collect();
        let mut polled = [Completion::default(); 8];
        for turn in 0..3600 {
            let line = &mut lines[rng.random_range(0..6)];
            if line.qp.state() == QpState::Sqe && rng.random_bool(0.5) {
                line.marks.push(line.posted.len());
                recover(&mut line.qp);
            } else {
                let datagrams = line.qp.service() == Service::Ud;
                let mut batch = line.qp.start_post_send();
                for _ in 0..rng.random_range(0..12) {
                    let bad = turn < 3500 && rng.random_bool(0.05);
                    let sges = [from.sge(rng.random_range(0..4096), rng.random_range(0..3000))];
                    // Nobody of these has it.
                    let op = if bad { SendOp::SendInv { key: 1 } } else { SendOp::Send };
                    let wr = SendWr::new(line.posted.len() as u64, op, &sges).signaled();
                    let wr = if datagrams { wr.to(&handle, NOBODY, QKEY) } else { wr };
                    if batch.room() > 0 {
                        batch.post(&wr).unwrap();
                        line.posted.push(bad);
                    }
                }
                batch.ring().unwrap();
            }
            rig.pair.world.lock().run(rng.random_range(0..100));
            let n = rig.node().cq.poll(&mut polled[..rng.random_range(1..8)]).unwrap();
            for done in &polled[..n] {
                let line = lines.iter_mut().find(|line| line.qp.number() == done.qpn()).unwrap();
                line.done.push((done.wr_id(), done.status().known().unwrap()));
            }
        }
        let left: usize = lines.iter().map(|line| line.posted.len() - line.done.len()).sum();
        for done in rig.wait(left) {
            let line = lines.iter_mut().find(|line| line.qp.number() == done.qpn()).unwrap();
            line.done.push((done.wr_id(), done.status().known().unwrap()));
        }
        let went_on: usize = lines.iter().map(|line| line.marks.len()).sum();
        assert!(went_on > 50, "{config}, seed {seed}: {went_on}");
        for line in &lines {
            assert_eq!(line.done, line.expected(), "{config}, seed {seed}: {:?}", line.qp);
        }
    }
}

#[test]
fn an_unreliable_queue_pair_goes_to_err_and_reset_as_others_do() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config);
        let mut qp = rig.up(Service::Uc, Some(rig.way(false, None)));
        let pd = rig.node().pd.clone();
        let from = rig.source(&pd, 4096);
        post(&mut qp, &[SendWr::send(1, &[Sge { lkey: 0x77, ..from.sge(0, 1) }])]);
        assert_eq!(rig.ends(1)[0].1, WcStatus::LocProtErr);
        qp.modify(QpState::Err, &QpAttributes::default()).unwrap();
        post(&mut qp, &[SendWr::send(2, &[from.sge(0, 1)])]);
        assert_eq!(rig.ends(1), [(2, FLUSHED, 0)]);
        assert!(qp.modify(QpState::Rts, &QpAttributes::default()).is_err());
        drop(qp.reset().unwrap());
        let mut qp = rig.up(Service::Uc, Some(rig.way(false, None)));
        post(&mut qp, &[SendWr::send(3, &[from.sge(0, 1)]).signaled()]);
        assert_eq!(rig.ends(1), [(3, WELL, 0)]);
        // Drained and back.
        qp.modify(QpState::Sqd, &QpAttributes::default()).unwrap();
        post(&mut qp, &[SendWr::send(4, &[from.sge(0, 1)]).signaled()]);
        rig.sent();
        recover(&mut qp);
        assert_eq!(rig.ends(1), [(4, WELL, 0)]);
    }
}
