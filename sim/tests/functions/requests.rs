// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work requests for what is not there.

use ferrowire::{AccessFlags, LocalCause, QpInitAttr, QpState, RecvWr, RemoteAddress, SendWr, WcStatus};
use ferrowire_sim::pair::{bytes, post, Connection, Pair, PairOptions};
use ferrowire_spec::queue::send_wqe::SendWqe;
use ferrowire_spec::queue::{SendOpcode, WQE_UNIT};

use super::{full, model, rights, small};

/// Cycles for what a test waits for.
const LIMIT: u64 = 400_000;

/// Work requests for functions, as a program may write them into its queue itself: the driver refuses them.
#[test]
fn work_requests_for_what_is_not_there_end_as_those_with_an_unknown_opcode_and_others_go_on() {
    const ASKED: [SendOpcode; 5] = [
        SendOpcode::CmpSwap,
        SendOpcode::FetchAdd,
        SendOpcode::SendInv,
        SendOpcode::LocalInv,
        SendOpcode::BindMw,
    ];
    let unknown = ASKED.iter().map(|opcode| opcode.code()).max().unwrap() + 1;
    assert_eq!(SendOpcode::from_code(unknown), None);
    for (config, there) in [(full(), true), (small(), false)] {
        let pair = Pair::new(&model(&config), &PairOptions::default()).unwrap();
        let extra = if there { AccessFlags::REMOTE_ATOMIC } else { AccessFlags::LOCAL_READ };
        let access = rights() | extra;
        let [from, to] =
            [&pair.a, &pair.b].map(|node| node.region(0, 4096, AccessFlags::LOCAL_WRITE | access).unwrap());
        from.memory().fill(0, 4096, 0x5a);
        // A SEND to the queue pairs that are looked at finds no receive.
        let connection = Connection {
            access,
            rd_atomic: 4,
            signal_all: true,
            min_rnr_timer: 1,
            rnr_retry: 1,
            ..Connection::default()
        };
        let (mut other, mut others_peer) = pair.connect(&connection).unwrap();
        for code in ASKED.iter().map(|opcode| opcode.code()).chain([unknown]) {
            // The memory that a queue pair's queues are in is what is mapped meanwhile: the send queue first.
            let last = || pair.world.lock().card(0).host().map().iter().last().map(|(at, _)| at);
            let before = last();
            let own = pair.a.pd.create_qp(&QpInitAttr::rc(&pair.a.cq, &pair.a.cq)).unwrap();
            let ring = {
                let world = pair.world.lock();
                let map = world.card(0).host().map();
                let ring = map.iter().find(|(at, _)| Some(*at) > before).map(|(_, memory)| memory.clone());
                ring.unwrap()
            };
            let theirs = pair.b.pd.create_qp(&QpInitAttr::rc(&pair.b.cq, &pair.b.cq)).unwrap();
            let (mut qp, peer) = pair.bring_up(own, theirs, &connection).unwrap();
            to.memory().fill(0, 4096, 0);
            let (eight, remote) = ([from.sge(0, 8)], to.remote(0));
            let frames = pair.world.lock().link(0).frames();
            let mut batch = qp.start_post_send();
            for id in 0..3 {
                let at = RemoteAddress { address: remote.address + 8 * id, ..remote };
                batch.post(&SendWr::write(id, &eight, at).signaled()).unwrap();
            }
            let local = [SendOpcode::LocalInv.code(), SendOpcode::BindMw.code()].contains(&code);
            let wqe = SendWqe {
                opcode: code,
                signaled: true,
                num_sge: u8::from(!local),
                remote_va: remote.address + 1024,
                rkey: remote.rkey,
                compare_add: 0,
                swap: 9,
                sge0_addr: from.address() + 2048,
                sge0_lkey: from.lkey(),
                sge0_len: 8,
                ..SendWqe::default()
            };
            ring.write(WQE_UNIT, &wqe.to_bytes().unwrap());
            batch.ring().unwrap();
            let what = format!("opcode {code}, the functions are there: {there}");
            let done = pair.a.wait(&pair.world, 3, LIMIT);
            let done = done.unwrap_or_else(|error| panic!("{what}: {error}{}", pair.diagnose()));
            let ids: Vec<u64> = done.iter().map(|done| done.wr_id()).collect();
            assert_eq!((ids, done[0].status().known()), (vec![0, 1, 2], Some(WcStatus::Success)), "{what}");
            let refused = (Some(WcStatus::LocQpOpErr), Some(LocalCause::WqeOpcode));
            let said = (done[1].status().known(), done[1].cause());
            if there && code != unknown {
                assert_ne!(said, refused, "{what}");
                continue;
            }
            assert_eq!(said, refused, "{what}: {done:?}");
            assert_eq!(done[2].status().known(), Some(WcStatus::WrFlushErr), "{what}");
            assert_eq!(qp.query().unwrap().state, QpState::Err, "{what}");
            assert_eq!(peer.query().unwrap().state, QpState::Rts, "{what}: the peer heard of nothing");
            pair.world.lock().run(2_000);
            assert_eq!(pair.world.lock().link(0).frames(), frames + 1, "{what}: it sent something");
            assert_eq!(bytes(to.memory())[..16], [[0x5a; 8], [0; 8]].concat(), "{what}");
            assert_eq!(bytes(to.memory())[1024..1040], [0; 16], "{what}");

            // Others have all of RC.
            let mut batch = others_peer.start_post_recv();
            batch.post(&RecvWr::new(1, &[to.sge(3000, 100)])).unwrap();
            batch.ring().unwrap();
            let back = [from.sge(2048, 64)];
            post(
                &mut other,
                &[
                    SendWr::send_imm(1, &[from.sge(64, 100)], 7),
                    SendWr::write(2, &[from.sge(64, 64)], to.remote(512)),
                    SendWr::read(3, &back, to.remote(512)),
                ],
            );
            let done = pair.a.wait(&pair.world, 3, LIMIT).unwrap();
            assert!(
                done.iter().all(|done| done.is_success() && done.qpn() == other.number()),
                "{what}: {done:?}"
            );
            let done = pair.b.wait(&pair.world, 1, LIMIT).unwrap();
            assert_eq!((done[0].is_success(), done[0].imm()), (true, Some(7)), "{what}");
            assert_eq!(bytes(to.memory())[3000..3100], [0x5a; 100], "{what}");
            assert_eq!(bytes(to.memory())[512..576], [0x5a; 64], "{what}");
        }
    }
}
