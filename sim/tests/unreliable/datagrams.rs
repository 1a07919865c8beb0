// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams: each with an address handle, a destination and a queue key of its own.

use crate::tier::chosen;
use ferrowire::{
    InitAttributes, Payload, Psn, QpInitAttr, QpState, RtrAttributes, RtsAttributes, SendOp, SendWr,
};
use ferrowire_spec::qp_state::{GSI_QKEY, GSI_QPN};
use ferrowire_spec::wire::opcode::Service;

use super::rig::{part, post, state, Expected, Rig, CONFIGS, PKEY, QKEY, SPORT};

#[test]
fn datagrams_go_where_their_handles_point_with_the_queue_key_that_they_name() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config);
        let mut qp = rig.up(Service::Ud, None);
        let pd = rig.node().pd.clone();
        let from = rig.source(&pd, 20_000);
        let ways = [
            rig.way(false, None),
            rig.way(true, None),
            rig.way(false, Some(0x2345)),
            rig.way(true, Some(0xe001)),
        ];
        let handles = ways.map(|way| pd.create_ah(&way).unwrap());
        for (i, bytes) in [0, 1, 5, 64, 255, 256, 1025, 4095, 4096].into_iter().enumerate() {
            for (op, asked, sent) in [
                (SendOp::Send, 0x7654_3210, 0x7654_3210),
                (SendOp::SendImm { imm: 0xfeed_0000 + i as u32 }, 0x8000_0000 | i as u32, QKEY),
            ] {
                let dest_qpn = 0xff_0000 | bytes;
                let sges = [from.sge(3 * i, bytes / 3), from.sge(9000 + i, bytes - bytes / 3)];
                let requests: Vec<SendWr<'_>> = (0..)
                    .zip(&handles)
                    .map(|(id, ah)| SendWr::new(id, op, &sges).to(ah, dest_qpn, asked).signaled().solicited())
                    .collect();
                post(&mut qp, &requests);
                let done = rig.wait(4);
                assert!(done.iter().all(|done| done.is_success()), "{config}: {done:?}");
                assert_eq!(done.iter().map(|done| done.wr_id()).collect::<Vec<_>>(), [0, 1, 2, 3]);
                let frames = rig.sent();
                assert_eq!(frames.len(), 4);
                let mut data = part(&from, 3 * i, (bytes / 3) as usize);
                data.extend(part(&from, 9000 + i, (bytes - bytes / 3) as usize));
                for (way, frame) in ways.iter().zip(&frames) {
                    let bytes = bytes as usize;
                    let wr = Expected { op, bytes, way, dest_qpn, qkey: sent, solicited: true };
                    assert_eq!(rig.message(&qp, std::slice::from_ref(frame), &wr), data, "{config}");
                }
            }
        }
        let text: Vec<u8> = (0..=255).collect();
        for bytes in [1, 16, 17, 100, 256] {
            let payload = Payload::Inline(&text[..bytes]);
            post(&mut qp, &[SendWr::send(9, payload).to(&handles[1], 77, QKEY).signaled()]);
            assert!(rig.wait(1)[0].is_success());
            let (frames, op, way) = (rig.sent(), SendOp::Send, &ways[1]);
            let wr = Expected { op, bytes, way, dest_qpn: 77, qkey: QKEY, solicited: false };
            assert_eq!(rig.message(&qp, &frames, &wr), &text[..bytes], "{config}");
        }
    }
}

#[test]
fn the_general_services_send_from_queue_pair_1_with_their_own_queue_key() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config);
        rig.psn = Psn::new(9);
        let pd = rig.node().pd.clone();
        let mut attr = QpInitAttr::ud(&rig.node().cq, &rig.node().cq);
        attr.gsi = true;
        let qp = pd.create_qp(&attr).unwrap();
        assert_eq!(qp.number(), GSI_QPN);
        assert!(pd.create_qp(&attr).is_err(), "there is one");
        let init = InitAttributes::new().pkey(PKEY).qkey(QKEY);
        let refused = qp.init(init).expect_err("its queue key is well known");
        let qp = refused.qp.init(init.qkey(GSI_QKEY)).unwrap();
        let qp = qp.rtr(RtrAttributes::default()).unwrap();
        let rts = RtsAttributes::new().sq_psn(rig.psn).sport(SPORT);
        let mut qp = qp.rts(rts).unwrap();
        let (way, from) = (rig.way(true, None), rig.source(&pd, 256));
        let handle = pd.create_ah(&way).unwrap();
        // A MAD.
        let sges = [from.sge(0, 256)];
        post(&mut qp, &[SendWr::send(1, &sges).to(&handle, GSI_QPN, GSI_QKEY).signaled()]);
        assert!(rig.wait(1)[0].is_success());
        let (frames, op) = (rig.sent(), SendOp::Send);
        let wr = Expected { op, bytes: 256, way: &way, dest_qpn: GSI_QPN, qkey: GSI_QKEY, solicited: false };
        assert_eq!(rig.message(&qp, &frames, &wr), part(&from, 0, 256), "{config}");
        assert_eq!(state(&qp), QpState::Rts);
        qp.destroy().unwrap();
        let mut attr = QpInitAttr::ud(&rig.node().cq, &rig.node().cq);
        attr.gsi = true;
        pd.create_qp(&attr).unwrap();
    }
}
