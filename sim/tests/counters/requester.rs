// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a requester counts, and what its peer does meanwhile. Card 0 asks.

use ferrowire::DropReason::{NoReceive, QpState};
use ferrowire::HwCounter::*;
use ferrowire::{AccessFlags, CongestionControl, RemoteAddress, SendWr, Service, Sge, SrqInitAttr};
use ferrowire_sim::pair::Connection;
use ferrowire_spec::wire::{Aeth, Opcode};

use super::rig::Counter::{Drop, Hw};
use super::rig::{check, delay, fail, post, receive, Case, Rig, MTU, PSNS, SHORT};

/// Nobody's key.
const NO_KEY: u32 = 0x77;

#[test]
fn what_befalls_a_requester_is_counted_and_nothing_else() {
    check(CASES);
}

pub const CASES: &[Case] = &[
    Case {
        name: "WRITEs that lose a packet before their last, and are asked for it",
        moves: &[
            (0, Hw(PacketSeqErr), 3),
            (0, Hw(Retransmitted), 12),
            (1, Hw(OutOfSequence), 3),
            (1, Hw(SeqNakSent), 3),
            (1, Hw(RxWriteRequests), 15),
        ],
        run: |rig| {
            let (mut qp, _peer) = rig.connect(&rig.connection());
            // Of 5 packets the middle ones; the last is answered when all have been sent.
            rig.lose(0, |nth, _| (1..4).contains(&(nth % 9)));
            write_each(rig, &mut qp, 3, 5 * MTU);
        },
    },
    Case {
        name: "WRITEs whose acknowledgements are lost",
        moves: &[
            (0, Hw(LocalAckTimeoutErr), 3),
            (0, Hw(Retransmitted), 3),
            (1, Hw(DuplicateRequest), 3),
            (1, Hw(RxWriteRequests), 3),
        ],
        run: |rig| {
            let (mut qp, _peer) = rig.connect(&Connection { timeout: SHORT, ..rig.connection() });
            rig.lose(1, |nth, _| nth % 2 == 0);
            write_each(rig, &mut qp, 3, 64);
        },
    },
    Case {
        name: "WRITEs that nobody answers, with more behind them",
        moves: &[
            (0, Hw(LocalAckTimeoutErr), 6),
            (0, Hw(Retransmitted), 16),
            (0, Hw(RetryExceededErr), 2),
            (0, Hw(ReqCqeError), 2),
            (0, Hw(ReqCqeFlushError), 6),
        ],
        run: |rig| {
            let connection = Connection { timeout: SHORT, retry_cnt: 2, ..rig.connection() };
            rig.lose(0, |_, _| true);
            for _ in 0..2 {
                let (mut qp, _peer) = rig.connect(&connection);
                post(&mut qp, &[write(rig, &[rig.regions[0].sge(0, 64)]); 4]);
                rig.wait_ill(0, 4, 0);
            }
        },
    },
    Case {
        name: "a WRITE that may not be sent again and loses a packet",
        moves: &[
            (0, Hw(PacketSeqErr), 1),
            (0, Hw(RetryExceededErr), 1),
            (0, Hw(ReqCqeError), 1),
            (1, Hw(OutOfSequence), 1),
            (1, Hw(SeqNakSent), 1),
            (1, Hw(RxWriteRequests), 1),
        ],
        run: |rig| {
            let (mut qp, _peer) = rig.connect(&Connection { retry_cnt: 0, ..rig.connection() });
            rig.lose(0, |nth, _| nth == 1);
            post(&mut qp, &[write(rig, &[rig.regions[0].sge(0, 3 * MTU)])]);
            rig.wait_ill(0, 1, 0);
        },
    },
    Case {
        name: "SENDs that find no receive until they are given up",
        moves: &[
            (0, Hw(RcvdRnrErr), 6),
            (0, Hw(RnrNakRetryErr), 2),
            (0, Hw(Retransmitted), 4),
            (0, Hw(ReqCqeError), 2),
            (1, Hw(SendRnrErr), 6),
            (1, Hw(OutOfBuffer), 6),
        ],
        run: |rig| {
            for _ in 0..2 {
                let (mut qp, _peer) = rig.connect(&Connection { rnr_retry: 2, ..rig.connection() });
                post(&mut qp, &[SendWr::send(1, &[rig.regions[0].sge(0, 64)])]);
                rig.wait_ill(0, 1, 0);
            }
        },
    },
    Case {
        name: "a SEND that finds a receive the second time",
        moves: &[
            (0, Hw(RcvdRnrErr), 1),
            (0, Hw(Retransmitted), 1),
            (1, Hw(SendRnrErr), 1),
            (1, Hw(OutOfBuffer), 1),
        ],
        run: |rig| {
            let (mut qp, mut peer) = rig.connect(&Connection { min_rnr_timer: 16, ..rig.connection() });
            let before = rig.pair.world.lock().link(1).frames();
            post(&mut qp, &[SendWr::send(1, &[rig.regions[0].sge(0, 64)])]);
            assert!(rig.pair.world.lock().run_until(5_000, |world| world.link(1).frames() > before));
            receive(&mut peer, &rig.regions[1], 1, 64);
            rig.wait_well(0, 1);
            rig.wait_well(1, 1);
        },
    },
    Case {
        name: "READs whose responses are lost, and WRITEs behind them that are acknowledged",
        moves: &[
            (0, Hw(ImpliedNakSeqErr), 3),
            (0, Hw(Retransmitted), 6),
            (1, Hw(DuplicateRequest), 6),
            (1, Hw(RxReadRequests), 3),
            (1, Hw(RxWriteRequests), 3),
        ],
        run: |rig| {
            let (mut qp, _peer) = rig.connect(&rig.connection());
            // Response, acknowledgement, and both again.
            rig.lose(1, |nth, _| nth % 4 == 0);
            for _ in 0..3 {
                let sge = [rig.regions[0].sge(0, 64)];
                post(&mut qp, &[SendWr::read(1, &sge, rig.regions[1].remote(0)), write(rig, &sge)]);
                rig.wait_well(0, 2);
            }
        },
    },
    Case {
        name: "a READ that may not be sent again, whose response is lost",
        moves: &[
            (0, Hw(ImpliedNakSeqErr), 1),
            (0, Hw(RetryExceededErr), 1),
            (0, Hw(ReqCqeError), 1),
            (0, Hw(ReqCqeFlushError), 1),
            (1, Hw(RxReadRequests), 1),
            (1, Hw(RxWriteRequests), 1),
        ],
        run: |rig| {
            let (mut qp, _peer) = rig.connect(&Connection { retry_cnt: 0, ..rig.connection() });
            rig.lose(1, |nth, _| nth == 0);
            let sge = [rig.regions[0].sge(0, 64)];
            post(&mut qp, &[SendWr::read(1, &sge, rig.regions[1].remote(0)), write(rig, &sge)]);
            rig.wait_ill(0, 2, 0);
        },
    },
    Case {
        name: "requests that the peer does not offer",
        moves: &[
            (0, Hw(ReqRemoteInvalidRequest), 3),
            (0, Hw(ReqCqeError), 3),
            (1, Hw(RespRemoteInvalidRequest), 3),
        ],
        run: |rig| {
            let sge = [rig.regions[0].sge(0, 8)];
            for kind in KINDS {
                let (mut qp, _peer) =
                    rig.connect(&Connection { access: AccessFlags::default(), ..rig.connection() });
                post(&mut qp, &[kind(&sge, rig.regions[1].remote(0))]);
                rig.wait_ill(0, 1, 0);
            }
        },
    },
    Case {
        name: "WRITEs with a key of nobody's",
        moves: &[
            (0, Hw(ReqRemoteAccessErrors), 2),
            (0, Hw(ReqCqeError), 2),
            (1, Hw(RespRemoteAccessErrors), 2),
        ],
        run: |rig| (0..2).for_each(|_| ask_with_no_key(rig, KINDS[0])),
    },
    Case {
        name: "READs with a key of nobody's",
        moves: &[
            (0, Hw(ReqRemoteAccessErrors), 2),
            (0, Hw(ReqCqeError), 2),
            (1, Hw(RespRemoteAccessErrors), 2),
        ],
        run: |rig| (0..2).for_each(|_| ask_with_no_key(rig, KINDS[1])),
    },
    Case {
        name: "atomics with a key of nobody's",
        moves: &[
            (0, Hw(ReqRemoteAccessErrors), 2),
            (0, Hw(ReqCqeError), 2),
            (1, Hw(RespRemoteAccessErrors), 2),
        ],
        run: |rig| (0..2).for_each(|_| ask_with_no_key(rig, KINDS[2])),
    },
    Case {
        name: "SENDs that the peer cannot place",
        moves: &[
            (0, Hw(ReqRemoteOperationErrors), 2),
            (0, Hw(ReqCqeError), 2),
            (1, Hw(RespRemoteOperationErrors), 2),
            (1, Hw(RespCqeError), 2),
        ],
        run: |rig| {
            for _ in 0..2 {
                let (mut qp, mut peer) = rig.connect(&rig.connection());
                let bad = Sge { lkey: NO_KEY, ..rig.regions[1].sge(0, 64) };
                let mut batch = peer.start_post_recv();
                batch.post(&ferrowire::RecvWr::new(1, &[bad])).unwrap();
                batch.ring().unwrap();
                post(&mut qp, &[SendWr::send(1, &[rig.regions[0].sge(0, 64)])]);
                rig.wait_ill(0, 1, 0);
                rig.wait_ill(1, 1, 0);
            }
        },
    },
    Case {
        name: "a WRITE with a key of nobody's and three that are on their way behind it",
        moves: &[
            (0, Hw(ReqRemoteAccessErrors), 1),
            (0, Hw(ReqCqeError), 1),
            (0, Hw(ReqCqeFlushError), 3),
            (1, Hw(RespRemoteAccessErrors), 1),
            (1, Drop(QpState), 3),
        ],
        run: |rig| {
            let (mut qp, _peer) = rig.connect(&rig.connection());
            delay(rig, 1);
            let sge = [rig.regions[0].sge(0, 64)];
            let bad = SendWr::write(1, &sge, RemoteAddress { rkey: NO_KEY, ..rig.regions[1].remote(0) });
            post(&mut qp, &[bad, write(rig, &sge), write(rig, &sge), write(rig, &sge)]);
            rig.wait_ill(0, 4, 0);
        },
    },
    Case {
        name: "SENDs that ask to invalidate a key of nobody's",
        moves: &[
            (0, Hw(ReqRemoteAccessErrors), 2),
            (0, Hw(ReqCqeError), 2),
            (1, Hw(RespRemoteAccessErrors), 2),
            (1, Hw(RespCqeError), 2),
        ],
        run: |rig| {
            for _ in 0..2 {
                let (mut qp, mut peer) = rig.connect(&rig.connection());
                receive(&mut peer, &rig.regions[1], 1, 64);
                post(&mut qp, &[SendWr::send_inv(1, &[rig.regions[0].sge(0, 64)], NO_KEY)]);
                rig.wait_ill(0, 1, 0);
                rig.wait_ill(1, 1, 0);
            }
        },
    },
    Case {
        name: "SENDs to a shared receive queue that is empty",
        moves: &[
            (0, Hw(RcvdRnrErr), 2),
            (0, Hw(Retransmitted), 1),
            (0, Hw(RnrNakRetryErr), 1),
            (0, Hw(ReqCqeError), 1),
            (1, Hw(SendRnrErr), 2),
            (1, Hw(OutOfBuffer), 2 + 3),
            (1, Drop(NoReceive), 3),
        ],
        run: |rig| {
            let srq = rig.pair.b.pd.create_srq(&SrqInitAttr::default()).unwrap();
            let sge = [rig.regions[0].sge(0, 64)];
            let reliable = Connection { rnr_retry: 1, ..rig.connection() };
            let (mut qp, _peer) = rig.pair.connect_sharing(&reliable, Some(&srq)).unwrap();
            post(&mut qp, &[SendWr::send(1, &sge)]);
            rig.wait_ill(0, 1, 0);
            let unreliable = Connection { service: Service::Uc, ..rig.connection() };
            let (mut qp, _other) = rig.pair.connect_sharing(&unreliable, Some(&srq)).unwrap();
            post(&mut qp, &[SendWr::send(1, &sge); 3]);
            rig.wait_well(0, 3);
            rig.settle();
        },
    },
    Case {
        name: "READ responses of another length than was asked for",
        moves: &[(0, Hw(ReqCqeError), 2), (1, Hw(RxReadRequests), 2)],
        run: |rig| {
            rig.lose(1, |_, _| true);
            for _ in 0..2 {
                let (mut qp, _peer) = rig.connect(&rig.connection());
                post(&mut qp, &[SendWr::read(1, &[rig.regions[0].sge(0, 64)], rig.regions[1].remote(0))]);
                rig.settle();
                let mut response = rig.packet(0, Opcode::RcReadResponseOnly, qp.number(), PSNS.0);
                response.ext.aeth = Some(Aeth { syndrome: 0x1f, ..Aeth::default() });
                response.payload = &[1; 32];
                rig.tell(0, 1, response);
                rig.wait_ill(0, 1, 0);
            }
        },
    },
    Case {
        name: "sends of what is not ours, with more behind them, and of memory that does not answer",
        moves: &[(0, Hw(ReqCqeError), 3), (0, Hw(ReqCqeFlushError), 4)],
        run: |rig| {
            let sge = [rig.regions[0].sge(0, 64)];
            let bad = [Sge { lkey: NO_KEY, ..sge[0] }];
            for service in [Service::Rc, Service::Uc] {
                let (mut qp, _peer) = rig.connect(&Connection { service, ..rig.connection() });
                post(&mut qp, &[write(rig, &bad), write(rig, &sge), write(rig, &sge)]);
                rig.wait_ill(0, 3, 0);
            }
            let broken = rig.pair.a.region(0, 4096, AccessFlags::LOCAL_READ).unwrap();
            rig.pair.unmap(0, broken.memory().address());
            let (mut qp, _peer) = rig.connect(&rig.connection());
            post(&mut qp, &[write(rig, &[broken.sge(0, 64)])]);
            rig.wait_ill(0, 1, 0);
        },
    },
    Case {
        // They are not sent.
        name: "READs into what is not ours",
        moves: &[(0, Hw(ReqCqeError), 2)],
        run: |rig| {
            for _ in 0..2 {
                let (mut qp, _peer) = rig.connect(&rig.connection());
                let bad = [Sge { lkey: NO_KEY, ..rig.regions[0].sge(0, 64) }];
                post(&mut qp, &[SendWr::read(1, &bad, rig.regions[1].remote(0))]);
                rig.wait_ill(0, 1, 0);
            }
        },
    },
    Case {
        name: "sends that are posted to a queue pair in error",
        moves: &[(0, Hw(ReqCqeFlushError), 5)],
        run: |rig| {
            let (mut qp, _peer) = rig.connect(&rig.connection());
            fail(&mut qp);
            post(&mut qp, &[write(rig, &[rig.regions[0].sge(0, 64)]); 5]);
            rig.wait_ill(0, 5, 0);
        },
    },
    Case {
        name: "CNPs without a line rate",
        moves: &[(0, Hw(RpCnpIgnored), 3)],
        run: |rig| {
            let (qp, _peer) = rig.connect(&rig.connection());
            for _ in 0..3 {
                rig.tell(0, 1, rig.cnp(0, qp.number()));
                rig.run(500);
            }
        },
    },
    Case {
        name: "CNPs that slow a queue pair down",
        moves: &[(0, Hw(RpCnpHandled), 3)],
        run: |rig| {
            let (qp, _peer) = rig.connect(&rig.connection());
            let control = CongestionControl { line_rate_mbps: 10_000, ..CongestionControl::default() };
            rig.pair.a.context.set_congestion_control(&control).unwrap();
            for _ in 0..3 {
                rig.tell(0, 1, rig.cnp(0, qp.number()));
                rig.run(500);
            }
            rig.pair.a.context.set_congestion_control(&CongestionControl::default()).unwrap();
        },
    },
];

/// A request that the peer executes by itself.
type Kind = for<'a> fn(&'a [Sge], RemoteAddress) -> SendWr<'a>;

/// WRITE, READ and atomic.
const KINDS: [Kind; 3] = [
    |sges, to| SendWr::write(1, sges, to),
    |sges, to| SendWr::read(1, sges, to),
    |sges, to| SendWr::fetch_add(1, sges, to, 1),
];

fn write<'a>(rig: &Rig, sges: &'a [Sge]) -> SendWr<'a> {
    SendWr::write(1, sges, rig.regions[1].remote(0))
}

/// So many WRITEs, one after the other.
fn write_each(rig: &Rig, qp: &mut ferrowire::QueuePair, count: usize, bytes: u32) {
    for _ in 0..count {
        post(qp, &[write(rig, &[rig.regions[0].sge(0, bytes)])]);
        rig.wait_well(0, 1);
    }
}

fn ask_with_no_key(rig: &Rig, kind: Kind) {
    let (mut qp, _peer) = rig.connect(&rig.connection());
    let sge = [rig.regions[0].sge(0, 8)];
    post(&mut qp, &[kind(&sge, RemoteAddress { rkey: NO_KEY, ..rig.regions[1].remote(0) })]);
    rig.wait_ill(0, 1, 0);
}
