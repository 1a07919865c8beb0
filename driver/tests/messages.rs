// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives, and the verbs beside WRITE, against a card in plain Rust.

use crate::common::*;
use ferrowire::spec::queue::cqe::Cqe;
use ferrowire::*;

/// The places of a region's bytes as elements: offset and length of each.
fn sges<const N: usize>(region: &MemoryRegion, places: [(usize, u32); N]) -> [Sge; N] {
    places.map(|(offset, bytes)| region.sge(offset, bytes))
}

fn receive(qp: &mut QueuePair, wr_id: u64, sges: &[Sge]) {
    let mut batch = qp.start_post_recv();
    batch.post(&RecvWr::new(wr_id, sges)).unwrap();
    batch.ring().unwrap();
}

fn send(qp: &mut QueuePair, wr: SendWr<'_>) {
    let mut batch = qp.start_post_send();
    batch.post(&wr.signaled()).unwrap();
    batch.ring().unwrap();
}

/// Of both queues, in the order in which they came: kind, number, status.
fn ends(done: &[Completion]) -> Vec<(WorkKind, u64, WcStatus)> {
    done.iter().map(|done| (done.kind(), done.wr_id(), done.status().known().unwrap())).collect()
}

const WELL: WcStatus = WcStatus::Success;

#[test]
fn a_message_fills_the_elements_of_the_oldest_receive_in_their_order() {
    let mut b = bench(8, 16);
    let data: Vec<u8> = (0..200).collect();
    b.source.memory().write(5, &data);
    b.target.memory().fill(0, REGION_BYTES, 0xee);
    let places = sges(&b.target, [(1000, 7), (0, 0), (4095, 3), (20, 100), (400, 40), (300, 500)]);
    receive(&mut b.qp, 70, &places);
    receive(&mut b.qp, 71, &[]);
    send(&mut b.qp, SendWr::send(1, &[b.source.sge(5, 60), b.source.sge(65, 100)]));
    send(&mut b.qp, SendWr::send(2, &[]).solicited());
    let done = b.completions(4);
    let both = [
        (WorkKind::Receive, 70, WELL),
        (WorkKind::Send, 1, WELL),
        (WorkKind::Receive, 71, WELL),
        (WorkKind::Send, 2, WELL),
    ];
    assert_eq!(ends(&done), both);
    assert_eq!((done[0].byte_len(), done[0].opcode()), (160, Coded::Known(CqeOpcode::Recv)));
    assert_eq!((done[2].byte_len(), done[2].solicited(), done[0].solicited()), (0, true, false));
    assert_eq!((done[0].imm(), done[0].invalidated(), done[0].cause()), (None, None, None));
    let mut expected = vec![0xee; REGION_BYTES];
    expected[1000..1007].copy_from_slice(&data[..7]);
    expected[4095..4098].copy_from_slice(&data[7..10]);
    expected[20..120].copy_from_slice(&data[10..110]);
    expected[400..440].copy_from_slice(&data[110..150]);
    expected[300..310].copy_from_slice(&data[150..160]);
    assert_eq!(bytes(b.target.memory(), 0, REGION_BYTES), expected);
}

#[test]
fn immediates_and_invalidated_keys_come_with_the_receive() {
    let mut b = bench(8, 16);
    let memory = b.context.alloc(64, 64).unwrap();
    let given = b.pd.register(&memory, AccessFlags::LOCAL_WRITE, PageSize::Size4K).unwrap();
    (0..3).for_each(|i| receive(&mut b.qp, i, &[b.target.sge(0, 64)]));
    send(&mut b.qp, SendWr::send_imm(10, Payload::Inline(&[1; 17]), 0xdead_beef));
    send(&mut b.qp, SendWr::write_imm(11, &[b.source.sge(0, 40)], b.target.remote(100), 7).solicited());
    send(&mut b.qp, SendWr::send_inv(12, &[], given.rkey()));
    let done: Vec<_> = b.completions(6).into_iter().filter(|c| c.kind() == WorkKind::Receive).collect();
    use CqeOpcode as C;
    let opcodes: Vec<_> = done.iter().map(|c| c.opcode().known().unwrap()).collect();
    assert_eq!(opcodes, [C::RecvImm, C::RecvWriteImm, C::RecvInv]);
    assert_eq!(done.iter().map(|c| c.imm()).collect::<Vec<_>>(), [Some(0xdead_beef), Some(7), None]);
    assert_eq!(done.iter().map(|c| c.invalidated()).collect::<Vec<_>>(), [None, None, Some(given.rkey())]);
    assert_eq!(
        done.iter().map(|c| (c.byte_len(), c.solicited())).collect::<Vec<_>>(),
        [(17, false), (40, true), (0, false)]
    );
    assert_eq!(bytes(b.target.memory(), 0, 18), [vec![1; 17], vec![0]].concat());
}

#[test]
fn reads_and_atomics_bring_what_was_there() {
    let mut b = bench(8, 16);
    b.target.memory().write(64, &7u64.to_le_bytes());
    b.target.memory().write(100, b"far away");
    let here =
        b.pd.register(&b.context.alloc(4096, 4096).unwrap(), AccessFlags::LOCAL_WRITE, PageSize::Size4K);
    let here = here.unwrap();
    let (one, two, old) = (sges(&here, [(0, 3), (10, 5)]), [here.sge(64, 8)], [here.sge(72, 8)]);
    send(&mut b.qp, SendWr::read(1, &one, b.target.remote(100)));
    send(&mut b.qp, SendWr::fetch_add(2, &two, b.target.remote(64), 5));
    send(&mut b.qp, SendWr::compare_swap(3, &old, b.target.remote(64), 12, 99).fenced());
    let done = b.completions(3);
    let seen: Vec<_> = done.iter().map(|c| (c.wr_id(), c.opcode().known().unwrap(), c.byte_len())).collect();
    use CqeOpcode as C;
    assert_eq!(seen, [(1, C::Read, 8), (2, C::FetchAdd, 8), (3, C::CmpSwap, 8)]);
    assert_eq!([bytes(here.memory(), 0, 3), bytes(here.memory(), 10, 5)].concat(), b"far away");
    assert_eq!(bytes(here.memory(), 64, 16), [7u64.to_le_bytes(), 12u64.to_le_bytes()].concat());
    assert_eq!(bytes(b.target.memory(), 64, 8), 99u64.to_le_bytes());
    send(&mut b.qp, SendWr::local_inv(4, here.lkey()));
    assert_eq!(b.completions(1)[0].opcode(), CqeOpcode::LocalInv);
}

#[test]
fn receives_are_posted_from_init_on_and_a_message_waits_for_one() {
    let mock = Mock::new();
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    let (mut sends, mut receives) = (context.create_cq(8).unwrap(), context.create_cq(8).unwrap());
    let qp = pd.create_qp(&QpInitAttr::rc(&sends, &receives)).unwrap();
    let (number, mut done) = (qp.number(), [Completion::default(); 8]);
    let mut qp = qp.init(init()).unwrap();
    qp.start_post_recv().post(&RecvWr::new(1, &[])).unwrap();
    let mut qp = qp.rtr(rtr(number)).unwrap();
    qp.start_post_recv().post(&RecvWr::new(2, &[])).unwrap();
    let mut qp = qp.rts(rts()).unwrap();
    for i in 0..3 {
        send(&mut qp, SendWr::send(10 + i, &[]));
    }
    let take = |cq: &mut CompletionQueue, done: &mut [Completion]| {
        (0..5).for_each(|_| mock.step());
        let n = cq.poll(done).unwrap();
        done[..n].iter().map(|done| (done.kind(), done.wr_id())).collect::<Vec<_>>()
    };
    let (send, receive) = (WorkKind::Send, WorkKind::Receive);
    assert_eq!(take(&mut receives, &mut done), [(receive, 1), (receive, 2)]);
    assert_eq!(take(&mut sends, &mut done), [(send, 10), (send, 11)]);
    qp.start_post_recv().post(&RecvWr::new(3, &[])).unwrap();
    assert_eq!(take(&mut receives, &mut done), [(receive, 3)]);
    assert_eq!(take(&mut sends, &mut done), [(send, 12)]);
}

#[test]
fn a_batch_of_receives_rings_once_and_a_full_queue_says_so() {
    let mut b = bench(8, 16);
    let qpn = b.qp.number();
    {
        let mut batch = b.qp.start_post_recv();
        (0..8).for_each(|i| batch.post(&RecvWr::new(i, &[])).unwrap());
        assert_eq!(batch.room(), 0);
        assert_eq!(batch.post(&RecvWr::new(8, &[])), Err(Error::RecvQueueFull { qpn, size: 8 }));
        // Dropped, and so rung.
    }
    send(&mut b.qp, SendWr::send(99, &[]));
    assert_eq!(b.completions(2)[0].wr_id(), 0);
    assert_eq!(b.mock.card().qps[&qpn].recv_doorbells, 1);
    assert_eq!(b.qp.start_post_recv().room(), 1);
    b.context.progress().unwrap();
    assert_eq!(b.mock.card().qps[&qpn].recv_doorbells, 1, "nothing posted, no doorbell");
}

#[test]
fn work_that_card_or_queue_do_not_take_is_refused_and_not_posted() {
    let mut b = bench(8, 16);
    let small = b.pd.create_qp(&QpInitAttr::rc(&b.cq, &b.cq)).unwrap();
    let number = small.number();
    let mut small = small.init(init()).unwrap().rtr(rtr(number)).unwrap().rts(rts()).unwrap();
    let (sge, remote) = (b.target.sge(0, 8), b.target.remote(0));
    let name = |result: Result<()>| match result.unwrap_err() {
        Error::Attribute { attribute, fix, .. } => (attribute, fix),
        other => panic!("{other}"),
    };
    let mut batch = small.start_post_recv();
    let (attribute, fix) = name(batch.post(&RecvWr::new(1, &[sge; 5])));
    assert!(attribute == "num_sge" && fix.contains("max_recv_sge"), "{fix}");
    let (attribute, fix) = name(batch.post(&RecvWr::new(1, &[sge; 17])));
    assert!(attribute == "num_sge" && fix.contains("the card takes 16"), "{fix}");
    let huge = Sge { bytes: 1 << 31, ..sge };
    assert_eq!(name(batch.post(&RecvWr::new(1, &[huge, sge]))).0, "length");
    drop(batch);
    let mut batch = small.start_post_send();
    let (attribute, fix) = name(batch.post(&SendWr::send(1, &[sge; 2])));
    assert!(attribute == "num_sge" && fix.contains("max_send_sge"), "{fix}");
    let (attribute, fix) = name(batch.post(&SendWr::send(1, Payload::Inline(&[0; 17]))));
    assert!(attribute == "inline_len" && fix.contains("max_inline"), "{fix}");
    batch.post(&SendWr::send(1, Payload::Inline(&[0; 16]))).unwrap();
    drop(batch);
    let mut batch = b.qp.start_post_send();
    let inline = Payload::Inline(&[0; 8]);
    for (op, attribute) in [
        (SendOp::Read { remote }, "inline_len"),
        (SendOp::FetchAdd { remote, add: 1 }, "inline_len"),
        (SendOp::LocalInv { key: 1 }, "length"),
    ] {
        assert_eq!(name(batch.post(&SendWr::new(1, op, inline))).0, attribute);
    }
    let (nine, add) = ([b.target.sge(0, 9)], 1);
    assert_eq!(name(batch.post(&SendWr::fetch_add(1, &nine, remote, add))).0, "length");
    assert_eq!(batch.room(), 8);
}

#[test]
fn a_receive_that_is_too_short_or_has_a_bad_key_ends_both_sides() {
    let none = |_: &mut Sge| ();
    let key = |sge: &mut Sge| sge.lkey ^= 1;
    type Spoil = fn(&mut Sge);
    let cases: [(u32, Spoil, WcStatus, LocalCause, WcStatus, u8); 2] = [
        (63, none, WcStatus::LocLenErr, LocalCause::Length, WcStatus::RemInvReqErr, 0x61),
        (64, key, WcStatus::LocProtErr, LocalCause::KeyTag, WcStatus::RemOpErr, 0x63),
    ];
    for (room, spoil, there, cause, here, nak) in cases {
        let mut b = bench(8, 16);
        let mut sge = b.target.sge(0, room);
        spoil(&mut sge);
        receive(&mut b.qp, 1, &[sge]);
        receive(&mut b.qp, 2, &[sge]);
        send(&mut b.qp, SendWr::send(3, &[b.source.sge(0, 64)]));
        let done = b.completions(3);
        let flushed = (WorkKind::Receive, 2, WcStatus::WrFlushErr);
        assert_eq!(ends(&done), [(WorkKind::Receive, 1, there), (WorkKind::Send, 3, here), flushed]);
        assert_eq!((done[0].cause(), done[1].syndrome(), done[1].cause()), (Some(cause), nak, None));
        assert_eq!(b.qp.state(), QpState::Err);
    }
}

#[test]
fn receives_are_flushed_in_error_and_forgotten_by_reset() {
    let mut b = bench(8, 16);
    let number = b.qp.number();
    (0..3).for_each(|i| receive(&mut b.qp, i, &[]));
    b.qp.modify(QpState::Err, &QpAttributes::default()).unwrap();
    let flushed = |i| (WorkKind::Receive, i, WcStatus::WrFlushErr);
    assert_eq!(ends(&b.completions(3)), [flushed(0), flushed(1), flushed(2)]);
    // So is what is posted now.
    receive(&mut b.qp, 3, &[]);
    assert_eq!(ends(&b.completions(1)), [flushed(3)]);
    // Two that nobody polls for, two in the queue: all are of the old life.
    let mut batch = b.qp.start_post_recv();
    (4..6).for_each(|i| batch.post(&RecvWr::new(i, &[])).unwrap());
    batch.ring().unwrap();
    (0..4).for_each(|_| b.mock.step());
    receive(&mut b.qp, 6, &[]);
    let qp = b.qp.reset().unwrap();
    let mut qp = qp.init(init()).unwrap();
    assert_eq!(qp.start_post_recv().room(), 8);
    qp.start_post_recv().post(&RecvWr::new(100, &[])).unwrap();
    b.qp = qp.rtr(rtr(number)).unwrap().rts(rts()).unwrap();
    send(&mut b.qp, SendWr::send(101, &[]));
    assert_eq!(ends(&b.completions(2)), [(WorkKind::Receive, 100, WELL), (WorkKind::Send, 101, WELL)]);
    assert_eq!(b.qp.state(), QpState::Rts);
}

#[test]
fn wr_ids_of_both_queues_come_back_in_order_over_many_wraps() {
    let seed = 0xabcd_u64;
    let mut random = seed;
    let mut next = move || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize
    };
    let mut b = bench(8, 64);
    let (mut sent, mut given) = (0, 0);
    let mut taken = [0; 2];
    let mut some = [Completion::default(); 7];
    // Receives wrap their 2^16 too.
    while taken[1] < 70_000 {
        let mut batch = b.qp.start_post_recv();
        for _ in 0..next() % 5 {
            let sges = [b.target.sge(0, 4); 6];
            match batch.post(&RecvWr::new(given, &sges[..1 + next() % 6])) {
                Ok(()) => given += 1,
                Err(Error::RecvQueueFull { .. }) => break,
                Err(other) => panic!("{other}"),
            }
        }
        drop(batch);
        let mut batch = b.qp.start_post_send();
        for _ in 0..next() % 5 {
            let sges = [b.source.sge(0, 1); 4];
            match batch.post(&SendWr::send(sent, &sges[..next() % 5]).signaled()) {
                Ok(()) => sent += 1,
                Err(Error::SendQueueFull { .. }) => break,
                Err(other) => panic!("{other}"),
            }
        }
        drop(batch);
        let room = next() % 8;
        let n = b.cq.poll(&mut some[..room]).unwrap();
        for done in &some[..n] {
            let count = &mut taken[usize::from(done.kind() == WorkKind::Receive)];
            assert!(done.is_success() && done.wr_id() == *count, "seed {seed:#x}: {done:?}, not {count}");
            *count += 1;
        }
    }
}

#[test]
fn a_receive_that_is_not_the_oldest_is_an_error() {
    let mut b = bench(8, 16);
    let (qpn, cqn) = (b.qp.number(), b.cq.number());
    (0..2).for_each(|i| receive(&mut b.qp, i, &[]));
    let mut done = [Completion::default(); 4];
    for wqe_index in [1, 2] {
        b.mock.card().complete(cqn, Cqe { qpn, receive: true, wqe_index, ..Cqe::default() });
        assert_eq!(b.cq.poll(&mut done), Err(Error::UnexpectedCompletion { qpn, wqe_index }));
    }
    // Nor is a send one of the receives.
    b.mock.card().complete(cqn, Cqe { qpn, ..Cqe::default() });
    assert_eq!(b.cq.poll(&mut done), Err(Error::UnexpectedCompletion { qpn, wqe_index: 0 }));
    b.mock.card().complete(cqn, Cqe { qpn, receive: true, ..Cqe::default() });
    assert_eq!(b.cq.poll(&mut done), Ok(1));
}
