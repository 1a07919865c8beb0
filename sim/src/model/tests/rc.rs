// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reliable connections when nothing goes wrong.

use ferrowire_spec::queue::cqe::CqeOpcode;
use ferrowire_spec::wire::Frame;

use super::super::types::SendWr;
use super::*;

#[test]
fn a_message_is_cut_at_the_mtu_and_asks_for_an_answer_at_its_end() {
    use Opcode as O;
    let mut p = Pair::new();
    p.b.recv(1, 0, 4096);
    p.a.engine
        .post_send(p.a.qpn, SendWr::send(1, &[p.a.sge(5, 2 * MTU + 1)]).with_imm(9).solicited())
        .unwrap();
    let frames = p.a_sends();
    let want = [(O::RcSendFirst, 0x100), (O::RcSendMiddle, 0x101), (O::RcSendLastImm, 0x102)];
    assert_eq!(packets(&frames), want);
    let flags: Vec<_> = frames
        .iter()
        .map(|f| Frame::parse(f).unwrap().bth)
        .map(|bth| (bth.ackreq, bth.se, bth.pad))
        .collect();
    assert_eq!(flags, [(false, false, 0), (false, false, 0), (true, true, 3)]);
    p.b_gets(&frames);
    assert_eq!(p.b.bytes(0, 513), p.a.bytes(5, 513));
    let done = p.b.done().unwrap();
    assert_eq!(
        (done.opcode, done.byte_len, done.imm, done.solicited),
        (CqeOpcode::RecvImm, 513, Some(9), true)
    );
    assert_eq!(p.a.done(), None, "not before it is acknowledged");
    p.run();
    assert_eq!(good(p.a.done()), (CqeOpcode::SendImm, 513));
}

#[test]
fn messages_of_no_bytes_need_no_key_and_no_address() {
    let mut p = Pair::new();
    p.b.recv(1, 0, 0);
    p.b.recv(2, 0, 0);
    let qpn = p.a.qpn;
    p.a.engine.post_send(qpn, SendWr::send(1, &[])).unwrap();
    p.a.engine.post_send(qpn, SendWr::write(2, &[], u64::MAX, 0xdead)).unwrap();
    p.a.engine.post_send(qpn, SendWr::write(3, &[], u64::MAX, 0xdead).with_imm(4)).unwrap();
    p.a.engine.post_send(qpn, SendWr::read(4, &[], u64::MAX, 0xdead)).unwrap();
    p.run();
    assert_eq!(p.a.all_done(), [ok(1), ok(2), ok(3), ok(4)]);
    assert_eq!(good(p.b.done()), (CqeOpcode::Recv, 0));
    assert_eq!(good(p.b.done()), (CqeOpcode::RecvWriteImm, 0));
}

#[test]
fn sixteen_elements_are_gathered_and_scattered_in_order_whatever_the_packets() {
    let mut p = Pair::new();
    let lengths = [0, 1, 255, 256, 257, 0, 3, 90, 1, 1, 500, 2, 7, 64, 63, 10];
    let mut at = 0;
    let sges: Vec<Sge> = lengths
        .iter()
        .map(|len| {
            at += 1000;
            p.a.sge(at, *len)
        })
        .collect();
    let total: usize = lengths.iter().sum();
    p.b.engine
        .post_recv(p.b.qpn, RecvWr::new(1, &[p.b.sge(9000, 700), p.b.sge(0, 0), p.b.sge(3, 2000)]))
        .unwrap();
    p.a.engine.post_send(p.a.qpn, SendWr::send(1, &sges)).unwrap();
    let want: Vec<u8> =
        lengths.iter().enumerate().flat_map(|(i, len)| p.a.bytes(1000 * (i as u64 + 1), *len)).collect();
    p.run();
    assert_eq!([p.b.bytes(9000, 700), p.b.bytes(3, total - 700)].concat(), want);
    let sges = vec![p.a.sge(0, 1); 17];
    p.a.engine.post_send(p.a.qpn, SendWr::send(2, &sges)).unwrap();
    p.run();
    assert_eq!(p.a.all_done(), [ok(1), (2, WcStatus::LocQpOpErr)]);
}

#[test]
fn a_read_takes_a_psn_for_each_response_and_middles_have_no_aeth() {
    use Opcode as O;
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::read(1, &[p.a.sge(0, 1000)], va + 40, key)).unwrap();
    p.a.engine.post_send(p.a.qpn, SendWr::write(2, &[p.a.sge(2000, 4)], va, key)).unwrap();
    let asked = p.a_sends();
    assert_eq!(packets(&asked), [(O::RcReadRequest, 0x100), (O::RcWriteOnly, 0x104)]);
    p.b_gets(&asked);
    let answers = p.b_sends();
    let want = [
        (O::RcReadResponseFirst, 0x100),
        (O::RcReadResponseMiddle, 0x101),
        (O::RcReadResponseMiddle, 0x102),
        (O::RcReadResponseLast, 0x103),
        (O::RcAcknowledge, 0x104),
    ];
    assert_eq!(packets(&answers), want);
    assert_eq!((aeth(&answers[3]).2, aeth(&answers[4]).2), (1, 2), "the READ counts as one message");
    p.a_gets(&answers);
    assert_eq!(p.a.bytes(0, 1000), p.b.bytes(40, 1000));
    assert_eq!(p.a.all_done(), [ok(1), ok(2)]);
}

#[test]
fn atomics_give_the_value_before_and_change_memory_once() {
    let mut p = Pair::new();
    p.b.fill(8, &100u64.to_le_bytes());
    let (va, key) = (p.b.va + 8, p.b.key);
    let sge = |p: &Pair, n: u64| p.a.sge(n * 8, 8);
    let wrs = [
        SendWr::fetch_add(1, sge(&p, 0), va, key, u64::MAX),
        SendWr::cmp_swap(2, sge(&p, 1), va, key, 99, 7),
        SendWr::cmp_swap(3, sge(&p, 2), va, key, 99, 8),
    ];
    for wr in wrs {
        p.a.engine.post_send(p.a.qpn, wr).unwrap();
    }
    p.run();
    assert_eq!(p.a.all_done(), [ok(1), ok(2), ok(3)]);
    let want = [100u64, 99, 7].map(u64::to_le_bytes).concat();
    assert_eq!((p.a.bytes(0, 24), p.b.bytes(8, 8)), (want, 7u64.to_le_bytes().to_vec()));
}

#[test]
fn no_more_reads_and_atomics_are_outstanding_than_were_granted() {
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    for i in 0..5 {
        p.a.engine.post_send(p.a.qpn, SendWr::read(i, &[p.a.sge(8 * i, 8)], va, key)).unwrap();
    }
    assert_eq!(p.a_sends().len(), 2);
}

#[test]
fn a_fence_waits_for_earlier_reads_and_for_nothing_else() {
    let mut p = Pair::new();
    let (va, key, qpn) = (p.b.va, p.b.key, p.a.qpn);
    p.a.engine.post_send(qpn, SendWr::write(1, &[p.a.sge(0, 8)], va, key)).unwrap();
    p.a.engine.post_send(qpn, SendWr::write(2, &[p.a.sge(0, 8)], va, key).fenced()).unwrap();
    p.a.engine.post_send(qpn, SendWr::read(3, &[p.a.sge(0, 8)], va, key)).unwrap();
    p.a.engine.post_send(qpn, SendWr::write(4, &[p.a.sge(0, 8)], va, key).fenced()).unwrap();
    let asked = p.a_sends();
    assert_eq!(asked.len(), 3);
    p.b_gets(&asked);
    let answers = p.b_sends();
    p.a_gets(&answers);
    assert_eq!(packets(&p.a_sends()), [(Opcode::RcWriteOnly, 0x103)]);
}

#[test]
fn unsignalled_work_is_silent_unless_it_fails() {
    let mut p = Pair::new();
    let (va, key, qpn) = (p.b.va, p.b.key, p.a.qpn);
    for wr in [
        SendWr::write(1, &[p.a.sge(0, 8)], va, key).unsignaled(),
        SendWr::write(2, &[p.a.sge(0, 8)], va, key),
        SendWr::write(3, &[p.a.sge(0, 8)], va, key ^ 1).unsignaled(),
    ] {
        p.a.engine.post_send(qpn, wr).unwrap();
    }
    p.run();
    assert_eq!(p.a.all_done(), [ok(2), (3, WcStatus::RemAccessErr)]);
}

#[test]
fn inline_data_are_those_of_the_request() {
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::write(1, &[], va, key).with_inline(&[1, 2, 3])).unwrap();
    p.run();
    assert_eq!((p.b.bytes(0, 3), p.a.all_done()), (vec![1, 2, 3], vec![ok(1)]));
}

#[test]
fn acknowledgements_that_wait_are_coalesced_and_never_overtake_read_responses() {
    use Opcode as O;
    let mut p = Pair::new();
    let (va, key, qpn) = (p.b.va, p.b.key, p.a.qpn);
    for i in 0..3 {
        p.a.engine.post_send(qpn, SendWr::write(i, &[p.a.sge(0, 8)], va, key)).unwrap();
    }
    p.a.engine.post_send(qpn, SendWr::read(3, &[p.a.sge(0, 8)], va, key)).unwrap();
    p.a.engine.post_send(qpn, SendWr::write(4, &[p.a.sge(0, 8)], va, key)).unwrap();
    let answers = p.answers();
    let want = [(O::RcAcknowledge, 0x102), (O::RcReadResponseOnly, 0x103), (O::RcAcknowledge, 0x104)];
    assert_eq!(packets(&answers), want);
    assert_eq!(aeth(&answers[0]).2, 3);
    p.a_gets(&answers);
    assert_eq!(p.a.all_done(), [0, 1, 2, 3, 4].map(ok));
}

#[test]
fn without_credits_one_message_is_sent_and_its_first_packet_asks() {
    let mut p = Pair::with(Options { credits: true, ..Options::default() });
    let (qpn, sge) = (p.a.qpn, p.a.sge(0, 2 * MTU));
    p.b.recv(1, 0, 1024);
    p.a.engine.post_send(qpn, SendWr::send(1, &[sge])).unwrap();
    let answers = p.answers();
    assert_eq!(aeth(&answers[0]), (0x101, 0, 1), "code 0: no receive is left");
    p.a_gets(&answers);
    for i in 2..4 {
        p.a.engine.post_send(qpn, SendWr::send(i, &[sge])).unwrap();
    }
    let frames = p.a_sends();
    assert_eq!(packets(&frames), [(Opcode::RcSendFirst, 0x102), (Opcode::RcSendLast, 0x103)]);
    assert!(Frame::parse(&frames[0]).unwrap().bth.ackreq);
    p.b.recv(2, 0, 1024);
    p.b.recv(3, 0, 1024);
    p.b_gets(&frames);
    p.run();
    assert_eq!(p.a.all_done(), [ok(1), ok(2), ok(3)]);
}

#[test]
fn an_acknowledgement_out_of_turn_grants_credits() {
    let mut p = Pair::with(Options { credits: true, ..Options::default() });
    let (qpn, sge) = (p.a.qpn, p.a.sge(0, 8));
    p.b.recv(1, 0, 1024);
    p.a.engine.post_send(qpn, SendWr::send(1, &[sge])).unwrap();
    let answers = p.answers();
    p.a_gets(&answers);
    let more = answer(&p, &answers[0], 0x100, 3, 1);
    p.a_gets(&[more]);
    for i in 2..8 {
        p.a.engine.post_send(qpn, SendWr::send(i, &[sge])).unwrap();
    }
    assert_eq!(p.a_sends().len(), 4, "three that there is room for, and one to ask");
}

#[test]
fn ipv6_and_vlan_tags_work_as_well() {
    for (v6, vlan) in [(true, None), (false, Some(0x6005)), (true, Some(0xa123))] {
        let mut p = Pair::with(Options { v6, vlan, ..Options::default() });
        let (va, key) = (p.b.va, p.b.key);
        p.a.engine.post_send(p.a.qpn, SendWr::write(1, &[p.a.sge(3, 700)], va, key)).unwrap();
        let frames = p.a_sends();
        assert_eq!(Frame::parse(&frames[0]).unwrap().vlan.map(|tag| tag.tci()), vlan);
        p.b_gets(&frames);
        p.run();
        assert_eq!((p.a.all_done(), p.b.bytes(0, 700)), (vec![ok(1)], p.a.bytes(3, 700)));
    }
}

#[test]
fn a_congestion_mark_is_answered_with_one_notification_an_interval() {
    use ferrowire_spec::wire::Ip;
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    for i in 0..4 {
        p.a.engine.post_send(p.a.qpn, SendWr::write(i, &[p.a.sge(0, 8)], va, key)).unwrap();
    }
    let mark = |frame: &Vec<u8>| {
        changed(frame, |frame| {
            if let Ip::V4(header) = &mut frame.ip {
                header.ecn = 3;
            }
        })
    };
    let frames: Vec<_> = p.a_sends().iter().map(mark).collect();
    p.b_gets(&frames[..3]);
    let answers = p.b_sends();
    assert_eq!(packets(&answers), [(Opcode::Cnp, 0), (Opcode::RcAcknowledge, 0x102)]);
    let cnp = Frame::parse(&answers[0]).unwrap();
    assert_eq!((cnp.bth.becn, cnp.bth.destqp), (true, p.a.qpn));
    p.a_gets(&answers);
    assert_eq!(p.a.engine.cnps(p.a.qpn), 1);
    p.now += 50_000;
    p.b_gets(&frames[3..]);
    assert_eq!(p.b_sends().len(), 2);
}

#[test]
fn a_queue_pair_that_is_told_of_congestion_slows_down_and_recovers() {
    let mut p = Pair::with(Options { line_rate: Some(100_000_000_000), ..Options::default() });
    let (va, key, qpn) = (p.b.va, p.b.key, p.a.qpn);
    p.a.engine.post_send(qpn, SendWr::write(1, &[p.a.sge(0, 8)], va, key)).unwrap();
    let ack = p.answers().remove(0);
    p.a_gets(std::slice::from_ref(&ack));
    let cnp = changed(&ack, |frame| {
        (frame.bth.opcode, frame.bth.psn, frame.bth.becn) = (Opcode::Cnp as u8, 0, true);
        frame.ext = Default::default();
        frame.ext.cnp = Some(Default::default());
    });
    assert_eq!(p.a.engine.rate(qpn), None);
    p.a_gets(&[cnp.clone(), cnp.clone()]);
    assert_eq!(p.a.engine.rate(qpn), Some(25_000_000_000), "half and half again");
    for i in 0..2 {
        p.a.engine.post_send(qpn, SendWr::write(2 + i, &[p.a.sge(0, 200)], va, key)).unwrap();
    }
    let frames = p.a_sends();
    assert_eq!(frames.len(), 1, "the second waits for its time");
    assert_eq!(p.wait(), Some((frames[0].len() as u64 * 8).div_ceil(25)));
    assert_eq!(p.a_sends().len(), 1);
    let mut last = 0;
    for _ in 0..1300 {
        p.now += 55_000;
        p.a.engine.post_send(qpn, SendWr::write(9, &[], va, key)).unwrap();
        p.run();
        p.a.all_done();
        let Some(rate) = p.a.engine.rate(qpn) else { return };
        assert!(rate >= last);
        last = rate;
    }
    panic!("still at {last}");
}
