// SPDX-License-Identifier: MIT OR Apache-2.0
//! The raw Ethernet queue pair.

use ferrowire_spec::csr::port::multicast_hash;
use ferrowire_spec::csr::DropReason;
use ferrowire_spec::queue::cqe::{CqeOpcode, LocalCause};

use super::super::raw::RawFilter;
use super::super::types::{Error, SendWr};
use super::*;

const ALL: RawFilter =
    RawFilter { unicast: true, broadcast: true, multicast: true, groups: 0, promiscuous: false };

fn raw() -> Pair {
    let options = Options { service: Service::Raw, ..Options::default() };
    let (mut a, mut b) = (end(1, &options), end(2, &options));
    for end in [&mut a, &mut b] {
        assert_eq!(end.qpn, 0);
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            end.engine.modify_qp(0, &QpAttr::to(state)).unwrap();
        }
        end.engine.set_raw_filter(ALL);
    }
    Pair { a, b, now: 0 }
}

/// A frame that is no RoCE packet.
fn frame(to: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (i * 31 + len) as u8).collect();
    bytes[..6].copy_from_slice(&to.to_be_bytes()[2..]);
    bytes[12..14].copy_from_slice(&[8, 6]);
    bytes
}

#[test]
fn raw_frames_leave_and_come_as_they_are() {
    let mut p = raw();
    for (i, len) in [14, 60, 61, 1514, 4096].into_iter().enumerate() {
        let sent = frame(2, len);
        p.a.fill(0, &sent);
        p.b.recv(i as u64, 4096, 4096);
        let pieces = [p.a.sge(0, 5), p.a.sge(5, 0), p.a.sge(5, len - 5)];
        p.a.engine.post_send(0, SendWr::send(7, &pieces)).unwrap();
        let frames = p.a_sends();
        assert_eq!((&frames[..], p.a.all_done()), (&[sent.clone()][..], vec![ok(7)]));
        p.b_gets(&frames);
        let done = p.b.done().unwrap();
        assert_eq!((done.opcode, done.byte_len, done.wr_id), (CqeOpcode::Recv, len as u32, i as u64));
        assert_eq!((done.grh, done.imm, done.src_qpn), (false, None, 0));
        assert_eq!(p.b.bytes(4096, len), sent);
    }
    assert_eq!((p.a.engine.raw_frames(), p.b.engine.raw_frames()), ([0, 5], [5, 0]));
    let inline = frame(2, 20);
    p.a.engine.post_send(0, SendWr::send(8, &[]).with_inline(&inline)).unwrap();
    assert_eq!(p.a_sends(), [inline]);
}

#[test]
fn the_filter_looks_at_the_destination_and_lets_nothing_pass_by_default() {
    let (own, other, everyone) = (2, 3, (1 << 48) - 1);
    let groups = [0x3333_ff00_0002, 0x0100_5e00_0001];
    let only = RawFilter::default();
    let filters = [
        (only, [false; 5]),
        (RawFilter { unicast: true, ..only }, [true, false, false, false, false]),
        (RawFilter { unicast: true, promiscuous: true, ..only }, [true; 5]),
        (RawFilter { promiscuous: true, ..only }, [false; 5]),
        (RawFilter { broadcast: true, ..only }, [false, false, true, false, false]),
        (RawFilter { multicast: true, ..only }, [false, false, false, true, true]),
        (RawFilter { groups: 1 << multicast_hash(groups[1]), ..only }, [false, false, false, false, true]),
    ];
    for (filter, comes) in filters {
        let mut p = raw();
        p.b.engine.set_raw_filter(filter);
        for (to, comes) in [own, other, everyone, groups[0], groups[1]].into_iter().zip(comes) {
            p.b.recv(1, 0, 4096);
            p.b_gets(&[frame(to, 60)]);
            assert_eq!(p.b.all_done().len(), usize::from(comes), "{filter:?}: {to:012x}");
        }
    }
}

#[test]
fn raw_frames_that_cannot_be_received_are_dropped_and_leave_the_receive() {
    let mut p = raw();
    p.b_gets(&[frame(2, 60)]);
    p.b.recv(1, 0, 100);
    p.b_gets(&[frame(2, 101), frame(2, 4097), frame(2, 14)[..13].to_vec()]);
    let counts = [DropReason::NoReceive, DropReason::TooLong, DropReason::NotRoce, DropReason::Runt];
    assert_eq!(counts.map(|reason| p.b.engine.dropped(reason)), [1; 4]);
    p.b_gets(&[frame(2, 100)]);
    assert_eq!(p.b.all_done(), [ok(1)]);
    // A key that is none ends the receive and the queue pair, as it does for datagrams.
    let bad = Sge { lkey: p.b.key ^ 1, ..p.b.sge(0, 100) };
    p.b.engine.post_recv(0, RecvWr::new(2, &[bad])).unwrap();
    p.b.recv(3, 0, 100);
    p.b_gets(&[frame(2, 60)]);
    assert_eq!(p.b.all_done(), [(2, WcStatus::LocProtErr), flushed(3)]);
    p.b_gets(&[frame(2, 60)]);
    assert_eq!(p.b.engine.dropped(DropReason::QpState), 1);
}

#[test]
fn roce_packets_are_nothing_for_the_raw_queue_pair_and_fragments_are() {
    let mut p = raw();
    let mut datagrams = Pair::of(Service::Uc);
    let wr = SendWr::send(1, &[datagrams.a.sge(0, 8)]);
    datagrams.a.engine.post_send(datagrams.a.qpn, wr).unwrap();
    let packet = datagrams.a_sends().remove(0);
    p.b.recv(1, 0, 4096);
    p.b_gets(&[changed(&packet, |frame| frame.bth.destqp = 0)]);
    assert_eq!((p.b.all_done(), p.b.engine.dropped(DropReason::Service)), (vec![], 1));
    // Cut short it is still meant as one.
    p.b_gets(&[packet[..packet.len() - 5].to_vec()]);
    assert_eq!((p.b.all_done(), p.b.engine.dropped(DropReason::Length)), (vec![], 1));
    let mut fragment = packet;
    fragment[20] = 0x20;
    p.b_gets(&[fragment.clone()]);
    assert_eq!((p.b.all_done(), p.b.bytes(0, fragment.len())), (vec![ok(1)], fragment));
}

#[test]
fn only_sends_of_a_frame_leave_and_what_is_wrong_leaves_the_queue_in_sqe() {
    let mut p = raw();
    let whole = |p: &Pair, len| [p.a.sge(0, len)];
    let wrong = [
        (SendWr::send(1, &whole(&p, 13)), WcStatus::LocLenErr, LocalCause::Length),
        (SendWr::send(1, &whole(&p, 4097)), WcStatus::LocLenErr, LocalCause::Length),
        (SendWr::send(1, &whole(&p, 60)).with_imm(1), WcStatus::LocQpOpErr, LocalCause::WqeOpcode),
        (SendWr::write(1, &whole(&p, 60), 0, 0), WcStatus::LocQpOpErr, LocalCause::WqeOpcode),
    ];
    for (wr, status, cause) in wrong {
        p.a.engine.post_send(0, wr).unwrap();
        assert_eq!(p.a_sends().len(), 0);
        let done = p.a.done().unwrap();
        assert_eq!((done.status, done.syndrome), (status, cause as u8));
        assert_eq!(p.a.state(), QpState::Sqe);
        p.a.engine.modify_qp(0, &QpAttr::to(QpState::Rts)).unwrap();
    }
    p.a.engine.post_send(0, SendWr::send(2, &whole(&p, 60))).unwrap();
    assert_eq!((p.a_sends().len(), p.a.all_done()), (1, vec![ok(2)]));
    let init = QpInit::new(Service::Raw, PD, p.a.cq);
    assert_eq!(p.a.engine.create_qp(init), Err(Error::Exists { what: "qp", number: 0 }));
    let other = QpInit { qpn: Some(0), ..QpInit::new(Service::Ud, PD, p.a.cq) };
    assert_eq!(p.a.engine.create_qp(other), Err(Error::BadAttribute("qpn")));
}
