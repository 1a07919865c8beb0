// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams and unreliable connections.

use ferrowire_spec::csr::DropReason;
use ferrowire_spec::queue::cqe::CqeOpcode;
use ferrowire_spec::wire::Frame;

use super::super::types::SendWr;
use super::*;

fn datagrams(v6: bool) -> (Pair, u32) {
    let options = Options { service: Service::Ud, v6, ..Options::default() };
    let mut p = Pair::with(options);
    let ah = p.a.engine.create_ah(PD, vector(2, &options));
    (p, ah)
}

#[test]
fn a_datagram_comes_with_the_header_that_brought_it() {
    for v6 in [false, true] {
        let (mut p, ah) = datagrams(v6);
        p.b.recv(1, 0, 40 + 100);
        let wr = SendWr::send(1, &[p.a.sge(0, 100)]).with_imm(6).solicited().to(ah, p.b.qpn, QKEY);
        p.a.engine.post_send(p.a.qpn, wr).unwrap();
        let frames = p.a_sends();
        assert_eq!(packets(&frames), [(Opcode::UdSendOnlyImm, 0x100)]);
        assert_eq!(p.a.all_done(), [ok(1)], "when it is sent");
        p.b_gets(&frames);
        let done = p.b.done().unwrap();
        assert_eq!((done.opcode, done.byte_len, done.imm), (CqeOpcode::RecvImm, 140, Some(6)));
        assert_eq!((done.src_qpn, done.grh, done.solicited), (p.a.qpn, true, true));
        assert_eq!(done.ipv4, !v6);
        assert_eq!(p.b.bytes(40, 100), p.a.bytes(0, 100));
        match v6 {
            true => assert_eq!(p.b.bytes(0, 40), frames[0][14..54]),
            false => {
                assert_eq!(p.b.bytes(20, 20), frames[0][14..34]);
                assert_eq!(p.b.bytes(0, 20), [0; 20]);
            }
        }
    }
}

#[test]
fn datagrams_that_do_not_fit_are_dropped_and_leave_the_receive() {
    let (mut p, ah) = datagrams(false);
    let send = |p: &mut Pair, len: usize, qkey: u32| {
        let wr = SendWr::send(1, &[p.a.sge(0, len)]).to(ah, p.b.qpn, qkey);
        p.a.engine.post_send(p.a.qpn, wr).unwrap();
        p.run();
    };
    send(&mut p, 8, QKEY);
    p.b.recv(1, 0, 48);
    send(&mut p, 8, QKEY + 1);
    send(&mut p, 9, QKEY);
    let counts = [DropReason::NoReceive, DropReason::Qkey, DropReason::TooLong];
    assert_eq!(counts.map(|reason| p.b.engine.dropped(reason)), [1, 1, 1]);
    assert_eq!(p.b.all_done(), []);
    send(&mut p, 8, QKEY);
    assert_eq!(p.b.all_done(), [ok(1)]);
    assert_eq!(p.b.state(), QpState::Rts);
}

#[test]
fn the_high_bit_of_a_queue_key_asks_for_that_of_the_queue_pair() {
    let (mut p, ah) = datagrams(false);
    let wr = SendWr::send(1, &[]).to(ah, p.b.qpn, 0x8000_0001);
    p.a.engine.post_send(p.a.qpn, wr).unwrap();
    assert_eq!(Frame::parse(&p.a_sends()[0]).unwrap().ext.deth.unwrap().qkey, QKEY);
}

#[test]
fn an_address_handle_of_another_domain_or_a_message_over_the_mtu_is_not_sent() {
    let (mut p, ah) = datagrams(false);
    let foreign = p.a.engine.create_ah(PD + 1, vector(2, &Options::default()));
    for (ah, len, status) in
        [(foreign, 8, WcStatus::LocQpOpErr), (99, 8, WcStatus::LocQpOpErr), (ah, 4097, WcStatus::LocLenErr)]
    {
        p.a.engine.post_send(p.a.qpn, SendWr::send(1, &[p.a.sge(0, len)]).to(ah, p.b.qpn, QKEY)).unwrap();
        assert_eq!((p.a_sends().len(), p.a.all_done()), (0, vec![(1, status)]));
        p.a.engine.modify_qp(p.a.qpn, &QpAttr::to(QpState::Rts)).unwrap();
    }
}

#[test]
fn a_lost_packet_of_an_unreliable_connection_drops_its_message_silently() {
    let mut p = Pair::of(Service::Uc);
    for i in 0..3 {
        p.b.recv(i, 4096 * i, 4096);
    }
    for i in 0..4 {
        p.a.engine.post_send(p.a.qpn, SendWr::send(i, &[p.a.sge(i, 3 * MTU)]).with_imm(i as u32)).unwrap();
    }
    let frames = p.a_sends();
    assert_eq!((frames.len(), p.a.all_done()), (12, [0, 1, 2, 3].map(ok).to_vec()));
    // The middle of the second, and the end of the third.
    p.b_gets(&frames[..4]);
    p.b_gets(&frames[5..8]);
    p.b_gets(&frames[9..]);
    assert_eq!(p.b_sends().len(), 0);
    let done: Vec<_> = std::iter::from_fn(|| p.b.done()).map(|done| (done.wr_id, done.imm)).collect();
    assert_eq!(done, [(0, Some(0)), (1, Some(3))], "the receive of the second is that of the fourth");
    assert_eq!(p.b.bytes(4096, 3 * MTU), p.a.bytes(3, 3 * MTU));
}

#[test]
fn writes_of_an_unreliable_connection_are_checked_and_dropped_without_an_answer() {
    let mut p = Pair::of(Service::Uc);
    let (va, key, qpn) = (p.b.va, p.b.key, p.a.qpn);
    p.b.recv(1, 0, 0);
    let before = p.b.bytes(0, 600);
    p.a.engine.post_send(qpn, SendWr::write(1, &[p.a.sge(0, 600)], va, key ^ 1)).unwrap();
    p.a.engine.post_send(qpn, SendWr::write(2, &[p.a.sge(0, 600)], va, key).with_imm(4)).unwrap();
    let frames = p.a_sends();
    p.b_gets(&frames[..3]);
    assert_eq!((p.b.bytes(0, 600), p.b.state()), (before, QpState::Rts));
    p.b_gets(&frames[3..]);
    assert_eq!((p.b.bytes(0, 600), p.b.all_done()), (p.a.bytes(0, 600), vec![ok(1)]));
    assert_eq!(p.b_sends().len(), 0);
}
