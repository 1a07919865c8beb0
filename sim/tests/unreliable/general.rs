// SPDX-License-Identifier: MIT OR Apache-2.0
//! QP1 of both cards, to which their managers send each other datagrams (IBTA volume 1, 13.5).

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, AddressHandle, Completion, DropReason, MemoryRegion, QpInitAttr, QpState, QueuePair, RecvWr,
    SendOp, SendWr, WorkKind,
};
use ferrowire_sim::pair::{Connection, Node, Pair, PairOptions};
use ferrowire_spec::qp_state::{GSI_QKEY, GSI_QPN};
use ferrowire_spec::wire::opcode::Service;

use super::rig::{part, post, state, CONFIGS, LIMIT};

/// Bytes of a MAD, and of what is put before it.
const MAD: usize = 256;
const GRH: usize = 40;

/// A receive's place.
const PLACE: usize = 512;

/// One card's side.
struct Side<'a> {
    node: &'a Node,
    qp: QueuePair,
    /// What it sends, and what it receives into.
    out: MemoryRegion,
    inbox: MemoryRegion,
    /// By way.
    handles: Vec<AddressHandle>,
}

/// The ways between the cards: IP version, VLAN with its priority, traffic class.
const WAYS: [(bool, Option<u16>, u8); 4] =
    [(false, None, 0x68), (true, None, 0xb9), (false, Some(0x6123), 0), (true, Some(0xa123), 0x12)];

fn general(node: &Node) -> QpInitAttr<'static> {
    let mut attr = QpInitAttr::ud(&node.cq, &node.cq);
    attr.gsi = true;
    attr
}

fn side<'a>(node: &'a Node, peer: &Node, qp: QueuePair) -> Side<'a> {
    let out = node.region(3, 4 * MAD, AccessFlags::LOCAL_READ).unwrap();
    let data: Vec<u8> = (0..4 * MAD).map(|i| (i * 31 + i / 256 + 7 * node.card) as u8).collect();
    out.memory().write(0, &data);
    let handle = |(ipv6, vlan, traffic_class)| {
        node.context.add_gid(node.ip(ipv6), vlan).unwrap();
        let way = Connection { ipv6, vlan, traffic_class, ..Connection::default() };
        node.pd.create_ah(&node.way(peer, &way)).unwrap()
    };
    let inbox = node.region(0, 16 * PLACE, AccessFlags::LOCAL_WRITE).unwrap();
    Side { node, qp, out, inbox, handles: WAYS.into_iter().map(handle).collect() }
}

impl Side<'_> {
    fn receive(&mut self, id: u64) {
        let sges = [self.inbox.sge(id as usize * PLACE, (GRH + MAD) as u32)];
        self.qp.start_post_recv().post(&RecvWr::new(id, &sges)).unwrap();
    }
}

/// The network header of a frame, as it is put before a datagram (IBTA A17.4.5.2).
fn header(frame: &[u8], (ipv6, vlan, _): (bool, Option<u16>, u8)) -> Vec<u8> {
    let at = if vlan.is_some() { 18 } else { 14 };
    match ipv6 {
        true => frame[at..at + GRH].to_vec(),
        false => [&[0; 20], &frame[at..at + 20]].concat(),
    }
}

#[track_caller]
fn wait(pair: &Pair, node: &Node, count: usize) -> Vec<Completion> {
    match node.wait(&pair.world, count, LIMIT) {
        Ok(done) => done,
        Err(error) => panic!("{error}{}", pair.diagnose()),
    }
}

#[test]
fn the_general_services_of_two_cards_hear_each_other_over_every_way() {
    for config in chosen!(CONFIGS) {
        let pair = Pair::named(config, &PairOptions::default()).unwrap();
        (0..2).for_each(|link| pair.world.lock().link_mut(link).keep_frames(true));
        let [a, b] = [&pair.a, &pair.b].map(|node| node.pd.create_qp(&general(node)).unwrap());
        let connection = Connection { qkey: GSI_QKEY, ..Connection::default() };
        let (a, b) = pair.bring_up(a, b, &connection).unwrap();
        let mut sides = [side(&pair.a, &pair.b, a), side(&pair.b, &pair.a, b)];
        for from in 0..2 {
            for (i, way) in WAYS.into_iter().enumerate() {
                let what = format!("{config}, from card {from}, {way:x?}");
                let [sender, receiver] = match &mut sides {
                    [a, b] if from == 0 => [a, b],
                    [a, b] => [b, a],
                };
                // With an immediate and without, each into its own place.
                let imm = 0xc0ff_ee00 | i as u32;
                let ops = [SendOp::Send, SendOp::SendImm { imm }];
                receiver.inbox.memory().fill(0, 16 * PLACE, 0xee);
                (0..2).for_each(|id| receiver.receive(2 * i as u64 + id));
                // One whole MAD, and the beginning of one.
                let sges = [[sender.out.sge(i * MAD, MAD as u32)], [sender.out.sge(i * MAD, 100)]];
                let text = part(&sender.out, i * MAD, MAD);
                for (id, (op, sges)) in (0..).zip(ops.into_iter().zip(&sges)) {
                    let wr = SendWr::new(id, op, sges).to(&sender.handles[i], GSI_QPN, GSI_QKEY).signaled();
                    post(&mut sender.qp, &[if id == 1 { wr.solicited() } else { wr }]);
                }
                assert!(wait(&pair, sender.node, 2).iter().all(Completion::is_success), "{what}");
                let done = wait(&pair, receiver.node, 2);
                let frames = pair.world.lock().link_mut(from).take_frames();
                assert_eq!(frames.len(), 2, "{what}");
                for (n, (done, frame)) in done.iter().zip(&frames).enumerate() {
                    let (id, bytes) = (2 * i + n, [MAD, 100][n]);
                    assert!(done.is_success() && done.kind() == WorkKind::Receive, "{what}: {done:?}");
                    assert_eq!(
                        (done.wr_id(), done.qpn(), done.src_qpn()),
                        (id as u64, GSI_QPN, Some(GSI_QPN)),
                        "{what}"
                    );
                    assert_eq!(done.byte_len() as usize, GRH + bytes, "{what}");
                    assert_eq!((done.imm(), done.solicited()), ((n == 1).then_some(imm), n == 1), "{what}");
                    let place = part(&receiver.inbox, id * PLACE, PLACE);
                    let expected = [&header(&frame.bytes, way)[..], &text[..bytes]].concat();
                    assert!(place[..GRH + bytes] == expected, "{what}: {:x?}", &place[..GRH + bytes]);
                    assert!(place[GRH + bytes..].iter().all(|byte| *byte == 0xee), "{what}");
                }
            }
        }
        assert!(sides.iter().all(|side| state(&side.qp) == QpState::Rts), "{config}");
    }
}

#[test]
fn the_general_services_hear_nobody_who_does_not_have_their_queue_key() {
    for config in chosen!(CONFIGS) {
        let pair = Pair::named(config, &PairOptions::default()).unwrap();
        let other = |node: &Node| node.pd.create_qp(&QpInitAttr::ud(&node.cq, &node.cq)).unwrap();
        // The peers are of no matter: UD has none.
        let gsi = pair.b.pd.create_qp(&general(&pair.b)).unwrap();
        let connection = Connection { service: Service::Ud, ..Connection::default() };
        let gsi_connection = Connection { qkey: GSI_QKEY, ..connection };
        let (mut stranger, _) = pair.connect(&connection).unwrap();
        let (_, gsi) = pair.bring_up(other(&pair.a), gsi, &gsi_connection).unwrap();
        let mut services = side(&pair.b, &pair.a, gsi);
        let out = pair.a.region(0, MAD, AccessFlags::LOCAL_READ).unwrap();
        let handle = pair.a.pd.create_ah(&pair.a.way(&pair.b, &connection)).unwrap();
        let drops = |reason| pair.b.context.drop_counter(reason).unwrap();
        services.receive(0);
        // Its own key goes out where the well known one is asked for, for that has the highest bit set (10.2.5).
        for (n, key) in (1..).zip([GSI_QKEY, GSI_QKEY & !(1 << 31), 0, connection.qkey, 1 << 31]) {
            let sges = [out.sge(0, MAD as u32)];
            post(&mut stranger, &[SendWr::send(n, &sges).to(&handle, GSI_QPN, key).signaled()]);
            assert!(wait(&pair, &pair.a, 1)[0].is_success(), "{config}, {key:#x}");
            pair.world.lock().run(2000);
            assert_eq!(drops(DropReason::Qkey), n, "{config}, {key:#x}");
        }
        assert!(pair.b.wait(&pair.world, 1, 0).is_err(), "{config}: nobody was heard");
        assert_eq!(part(&services.inbox, 0, PLACE), [0; PLACE], "{config}");
        // One who may have the key is, and the receive is still there; who finds none is dropped.
        let manager = pair.a.pd.create_qp(&general(&pair.a)).unwrap();
        let (mut manager, _) = pair.bring_up(manager, other(&pair.b), &gsi_connection).unwrap();
        for n in 0..2 {
            let sges = [out.sge(0, MAD as u32)];
            post(&mut manager, &[SendWr::send(n, &sges).to(&handle, GSI_QPN, GSI_QKEY).signaled()]);
            assert!(wait(&pair, &pair.a, 1)[0].is_success(), "{config}");
        }
        let done = wait(&pair, &pair.b, 1)[0];
        assert!(
            done.is_success() && done.wr_id() == 0 && done.src_qpn() == Some(GSI_QPN),
            "{config}: {done:?}"
        );
        pair.world.lock().run(2000);
        assert_eq!((drops(DropReason::NoReceive), drops(DropReason::Qkey)), (1, 5), "{config}");
        assert_eq!(state(&services.qp), QpState::Rts, "{config}");
    }
}
