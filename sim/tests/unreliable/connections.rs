// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unreliable connections: SEND and WRITE, with and without an immediate.

use crate::tier::chosen;
use ferrowire::{DropReason, Payload, QpState, RemoteAddress, SendOp, SendWr, Sge, WcStatus};
use ferrowire_sim::wire::encoded;
use ferrowire_spec::wire::frame::Frame;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::Opcode;

use super::rig::{part, post, state, Expected, Rig, CONFIGS, NOBODY};

const REMOTE: RemoteAddress = RemoteAddress { address: 0x1234_5678_9abc_0def, rkey: 0xa1b2_c3d4 };

const VERBS: [SendOp; 4] = [
    SendOp::Send,
    SendOp::SendImm { imm: 0xdead_beef },
    SendOp::Write { remote: REMOTE },
    SendOp::WriteImm { remote: REMOTE, imm: 0x0102_0304 },
];

#[test]
fn messages_of_every_verb_and_size_are_sent_and_complete_without_an_answer() {
    for (config, ipv6) in chosen!(CONFIGS).into_iter().flat_map(|config| [(config, false), (config, true)]) {
        let mut rig = Rig::new(config);
        let way = rig.way(ipv6, ipv6.then_some(0x6123));
        let mut qp = rig.up(Service::Uc, Some(way));
        let pd = rig.node().pd.clone();
        let from = rig.source(&pd, 100_000);
        let mut wr_id = 0;
        for op in VERBS {
            for bytes in [0, 1, 64, 1024, 1025, 4097, 60_000] {
                let (at, solicited) = (wr_id as usize * 37 % 4096, wr_id % 2 == 0);
                let sges = [from.sge(at, bytes as u32)];
                let wr = SendWr::new(wr_id, op, &sges).signaled();
                post(&mut qp, &[if solicited { wr.solicited() } else { wr }]);
                let done = rig.wait(1)[0];
                assert!(done.is_success() && done.wr_id() == wr_id, "{config}: {done:?}");
                let frames = rig.sent();
                let wr = Expected { op, bytes, way: &way, dest_qpn: NOBODY, qkey: 0, solicited };
                assert_eq!(rig.message(&qp, &frames, &wr), part(&from, at, bytes), "{config}: {op:?}");
                wr_id += 1;
            }
        }
        assert_eq!(state(&qp), QpState::Rts);
    }
}

#[test]
fn inline_data_and_many_elements_are_sent_and_unsignalled_messages_complete_with_the_next() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config);
        let way = rig.way(false, None);
        let mut qp = rig.up(Service::Uc, Some(way));
        let pd = rig.node().pd.clone();
        let from = rig.source(&pd, 40_000);
        // At odd places, one of nothing among them.
        let sges: Vec<Sge> = (0..16).map(|i| from.sge(1 + i * 2001, (i as u32 * 97) % 1500)).collect();
        let text: Vec<u8> = (0..=255).collect();
        for round in 0..40 {
            let mut requests = vec![SendWr::new(3 * round, VERBS[2], &sges[..])];
            requests.push(SendWr::new(3 * round + 1, SendOp::Send, Payload::Inline(&text)));
            requests.push(SendWr::new(3 * round + 2, VERBS[1], Payload::Inline(&text[..7])).signaled());
            post(&mut qp, &requests);
            let done = rig.wait(1);
            assert!(done.len() == 1 && done[0].is_success(), "{config}: {done:?}");
            assert_eq!(done[0].wr_id(), 3 * round + 2);
            let frames = rig.sent();
            let all: Vec<u8> = (sges.iter().enumerate())
                .flat_map(|(i, sge)| part(&from, 1 + i * 2001, sge.bytes as usize))
                .collect();
            let (written, rest) = frames.split_at(all.len().div_ceil(1024));
            for (op, frames, data) in [
                (VERBS[2], written, &all[..]),
                (SendOp::Send, &rest[..1], &text[..]),
                (VERBS[1], &rest[1..], &text[..7]),
            ] {
                let bytes = data.len();
                let wr = Expected { op, bytes, way: &way, dest_qpn: NOBODY, qkey: 0, solicited: false };
                assert_eq!(rig.message(&qp, frames, &wr), data, "{config}: {op:?}");
            }
        }
    }
}

#[test]
fn acknowledgements_that_come_for_an_unreliable_connection_are_dropped() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config);
        let way = rig.way(false, None);
        let mut qp = rig.up(Service::Uc, Some(way));
        let pd = rig.node().pd.clone();
        let from = rig.source(&pd, 4096);
        post(&mut qp, &[SendWr::write(1, &[from.sge(0, 64)], REMOTE).signaled()]);
        assert_eq!(rig.ends(1), [(1, WcStatus::Success, 0)]);
        let sent = rig.sent();
        let request = Frame::parse(&sent[0]).unwrap();
        // One of its PSN, and a NAK that would end a reliable one: from the right peer, with the right key.
        for syndrome in [0x1f, 0x62] {
            let mut answer = request;
            std::mem::swap(&mut answer.eth.src, &mut answer.eth.dst);
            if let ferrowire_spec::wire::frame::Ip::V4(ip) = &mut answer.ip {
                std::mem::swap(&mut ip.src, &mut ip.dst);
            }
            answer.bth.opcode = Opcode::RcAcknowledge.code();
            answer.bth.destqp = qp.number();
            answer.ext = ferrowire_spec::wire::frame::Extensions::default();
            answer.ext.aeth = Some(ferrowire_spec::wire::Aeth { syndrome, ..Default::default() });
            answer.payload = &[];
            answer.seal().unwrap();
            let bytes = encoded(&answer).unwrap();
            rig.pair.world.lock().inject(1, bytes);
        }
        rig.sent();
        let drops = [DropReason::Service, DropReason::GhostAck];
        assert_eq!(drops.map(|reason| rig.node().context.drop_counter(reason).unwrap()), [2, 0], "{config}");
        assert_eq!(state(&qp), QpState::Rts);
        post(&mut qp, &[SendWr::write(2, &[from.sge(0, 64)], REMOTE).signaled()]);
        assert_eq!(rig.ends(1), [(2, WcStatus::Success, 0)]);
    }
}
