// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a responder counts, and what its peer does meanwhile. Card 1 answers.

use ferrowire::DropReason::{GhostAck, NoReceive, Pkey, Sequence};
use ferrowire::HwCounter::*;
use ferrowire::{SendWr, Service};
use ferrowire_sim::card::all_face_pcie;
use ferrowire_sim::pair::Connection;
use ferrowire_sim::wire::mark_congestion;
use ferrowire_spec::wire::Opcode;

use super::rig::Counter::{Drop, Hw};
use super::rig::{check, check_cards, delay, fail, post, receive, sealed, Case, MTU, PSNS, SHORT};

#[test]
fn what_befalls_a_responder_is_counted_and_nothing_else() {
    check(CASES);
    if !all_face_pcie() {
        check_cards(FULL);
    }
}

/// What fills places of which a bus holds some more.
pub const FULL: &[Case] = &[REPEATED_READS];

pub const CASES: &[Case] = &[
    Case {
        name: "WRITEs, READs and atomics that go well",
        // Packets of a WRITE, for each is a request; a READ is one, whatever its length.
        moves: &[(1, Hw(RxWriteRequests), 2 + 3), (1, Hw(RxReadRequests), 3), (1, Hw(RxAtomicRequests), 4)],
        run: |rig| {
            let (mut qp, mut peer) = rig.connect(&rig.connection());
            receive(&mut peer, &rig.regions[1], 1, 0);
            let to = rig.regions[1].remote(0);
            let [word, short, long] = [8, 64, 3 * MTU].map(|bytes| [rig.regions[0].sge(0, bytes)]);
            post(&mut qp, &[SendWr::write(1, &short, to), SendWr::write_imm(1, &short, to, 5)]);
            post(&mut qp, &[SendWr::write(1, &long, to)]);
            post(
                &mut qp,
                &[SendWr::read(1, &short, to), SendWr::read(1, &short, to), SendWr::read(1, &long, to)],
            );
            post(&mut qp, &[SendWr::fetch_add(1, &word, to, 1); 2]);
            post(&mut qp, &[SendWr::compare_swap(1, &word, to, 1, 2); 2]);
            rig.wait_well(0, 10);
            rig.wait_well(1, 1);
        },
    },
    Case {
        name: "SENDs that go well",
        moves: &[],
        run: |rig| {
            for service in [Service::Rc, Service::Uc] {
                let (mut qp, mut peer) = rig.connect(&Connection { service, ..rig.connection() });
                receive(&mut peer, &rig.regions[1], 3, 5 * MTU);
                rig.run(2_000);
                post(&mut qp, &[SendWr::send(1, &[rig.regions[0].sge(0, 5 * MTU)]); 3]);
                rig.wait_well(0, 3);
                rig.wait_well(1, 3);
            }
        },
    },
    Case {
        name: "SENDs that are longer than their receives, with more receives behind",
        moves: &[
            (0, Hw(ReqRemoteInvalidRequest), 2),
            (0, Hw(ReqCqeError), 2),
            (1, Hw(RespRemoteInvalidRequest), 2),
            (1, Hw(RespLocalLengthError), 2),
            (1, Hw(RespCqeError), 2),
            (1, Hw(RespCqeFlushError), 6),
        ],
        run: |rig| {
            for _ in 0..2 {
                let (mut qp, mut peer) = rig.connect(&rig.connection());
                receive(&mut peer, &rig.regions[1], 4, 60);
                post(&mut qp, &[SendWr::send(1, &[rig.regions[0].sge(0, 61)])]);
                rig.wait_ill(0, 1, 0);
                rig.wait_ill(1, 4, 0);
            }
        },
    },
    Case {
        name: "a WRITE in the middle of a SEND",
        // What the NAK is for was never sent.
        moves: &[(0, Drop(GhostAck), 1), (1, Hw(RespRemoteInvalidRequest), 1), (1, Hw(RespCqeError), 1)],
        run: |rig| {
            let (_qp, mut peer) = rig.connect(&rig.connection());
            receive(&mut peer, &rig.regions[1], 1, 5 * MTU);
            let mut first = rig.packet(1, Opcode::RcSendFirst, peer.number(), PSNS.0);
            first.payload = &[1; MTU as usize];
            rig.tell(1, 1, first);
            rig.tell(1, 1, rig.write(1, Opcode::RcWriteOnly, peer.number(), PSNS.0 + 1));
            rig.wait_ill(1, 1, 0);
            rig.settle();
        },
    },
    Case {
        name: "receives of a queue pair that is taken to ERR",
        moves: &[(1, Hw(RespCqeFlushError), 7)],
        run: |rig| {
            let (_qp, mut peer) = rig.connect(&rig.connection());
            receive(&mut peer, &rig.regions[1], 7, 60);
            fail(&mut peer);
            rig.wait_ill(1, 7, 0);
        },
    },
    Case {
        name: "packets behind one that is lost, while a NAK is pending",
        moves: &[
            (0, Hw(PacketSeqErr), 1),
            (0, Hw(Retransmitted), 5),
            (1, Hw(OutOfSequence), 4),
            (1, Hw(SeqNakSent), 1),
            (1, Hw(RxWriteRequests), 6),
        ],
        run: |rig| {
            // The NAK is on its way for longer than the packets take.
            let (mut qp, _peer) = rig.connect(&rig.connection());
            delay(rig, 1);
            rig.lose(0, |nth, _| nth == 1);
            post(&mut qp, &[SendWr::write(1, &[rig.regions[0].sge(0, 6 * MTU)], rig.regions[1].remote(0))]);
            rig.wait_well(0, 1);
        },
    },
    Case {
        name: "atomics and READs whose answers are lost",
        moves: &[
            (0, Hw(LocalAckTimeoutErr), 4),
            (0, Hw(Retransmitted), 4),
            (1, Hw(DuplicateRequest), 4),
            (1, Hw(RxAtomicRequests), 2),
            (1, Hw(RxReadRequests), 2),
        ],
        run: |rig| {
            let (mut qp, _peer) = rig.connect(&Connection { timeout: SHORT, ..rig.connection() });
            rig.lose(1, |nth, _| nth % 2 == 0);
            let (sge, to) = ([rig.regions[0].sge(0, 8)], rig.regions[1].remote(0));
            for wr in [SendWr::fetch_add(1, &sge, to, 1), SendWr::read(1, &sge, to)] {
                for _ in 0..2 {
                    post(&mut qp, &[wr]);
                    rig.wait_well(0, 1);
                }
            }
        },
    },
    Case {
        name: "unreliable messages of a packet that find no receive",
        moves: &[(1, Hw(OutOfBuffer), 3 + 2), (1, Drop(NoReceive), 3 + 2)],
        run: |rig| {
            let sge = [rig.regions[0].sge(0, 64)];
            let (mut qp, _peer) = rig.connect(&Connection { service: Service::Uc, ..rig.connection() });
            let to = rig.regions[1].remote(0);
            post(&mut qp, &[SendWr::send(1, &sge), SendWr::send(1, &sge), SendWr::write_imm(1, &sge, to, 1)]);
            rig.wait_well(0, 3);
            let connection = Connection { service: Service::Ud, ..rig.connection() };
            let (mut qp, peer) = rig.connect(&connection);
            let handle = rig.pair.a.pd.create_ah(&rig.pair.a.way(&rig.pair.b, &connection)).unwrap();
            post(&mut qp, &[SendWr::send(1, &sge).to(&handle, peer.number(), connection.qkey); 2]);
            rig.wait_well(0, 2);
            rig.settle();
        },
    },
    Case {
        name: "a message of UC of three packets that finds no receive",
        moves: &[(1, Hw(OutOfBuffer), 1), (1, Drop(NoReceive), 1), (1, Drop(Sequence), 2)],
        run: |rig| {
            let (mut qp, _peer) = rig.connect(&Connection { service: Service::Uc, ..rig.connection() });
            post(&mut qp, &[SendWr::send(1, &[rig.regions[0].sge(0, 3 * MTU)])]);
            rig.wait_well(0, 1);
            rig.settle();
        },
    },
    Case {
        name: "packets that met congestion, each some time behind the one before",
        moves: &[
            (0, Hw(RpCnpIgnored), 3),
            (1, Hw(NpEcnMarkedRocePackets), 3),
            (1, Hw(NpCnpSent), 3),
            (1, Hw(RxWriteRequests), 3),
        ],
        run: |rig| {
            let (mut qp, _peer) = rig.connect(&rig.connection());
            rig.filter(0, marked);
            let apart = u64::from(rig.node(0).context.clock_khz().unwrap()) * (CNP_US + 2) / 1000;
            for _ in 0..3 {
                post(&mut qp, &[SendWr::write(1, &[rig.regions[0].sge(0, 64)], rig.regions[1].remote(0))]);
                rig.wait_well(0, 1);
                rig.run(apart);
            }
        },
    },
    Case {
        name: "packets that met congestion one right behind the other",
        moves: &[
            (0, Hw(RpCnpIgnored), 1),
            (1, Hw(NpEcnMarkedRocePackets), 4),
            (1, Hw(NpCnpSent), 1),
            (1, Hw(RxWriteRequests), 4),
        ],
        run: |rig| {
            let (mut qp, _peer) = rig.connect(&rig.connection());
            rig.filter(0, marked);
            post(&mut qp, &[SendWr::write(1, &[rig.regions[0].sge(0, 4 * MTU)], rig.regions[1].remote(0))]);
            rig.wait_well(0, 1);
        },
    },
    Case {
        name: "READ responses that met congestion",
        moves: &[
            (0, Hw(NpEcnMarkedRocePackets), 3),
            (0, Hw(NpCnpSent), 1),
            (1, Hw(RpCnpIgnored), 1),
            (1, Hw(RxReadRequests), 1),
        ],
        run: |rig| {
            let (mut qp, _peer) = rig.connect(&rig.connection());
            rig.filter(1, marked);
            post(&mut qp, &[SendWr::read(1, &[rig.regions[0].sge(0, 3 * MTU)], rig.regions[1].remote(0))]);
            rig.wait_well(0, 1);
            rig.settle();
        },
    },
    Case {
        name: "packets that met congestion and are not the peer's",
        moves: &[(1, Drop(Pkey), 2)],
        run: |rig| {
            let (_qp, peer) = rig.connect(&rig.connection());
            let mut write = rig.write(1, Opcode::RcWriteOnly, peer.number(), PSNS.0);
            write.bth.pkey = 0x8001;
            rig.inject(1, 2, &marked(&sealed(write))[0]);
            rig.settle();
        },
    },
];

const REPEATED_READS: Case = Case {
    name: "repeated READs, of which more come than there are places while the host does not answer",
    // As many as may be pending are answered: nobody waits for that any more.
    moves: &[
        (0, Drop(GhostAck), REPETITIONS),
        (1, Drop(Sequence), 5),
        (1, Hw(DuplicateRequest), REPETITIONS + 5),
        (1, Hw(RxReadRequests), 1),
    ],
    run: |rig| {
        let (mut qp, peer) = rig.connect(&rig.connection());
        post(&mut qp, &[SendWr::read(1, &[rig.regions[0].sge(0, 64)], rig.regions[1].remote(0))]);
        rig.wait_well(0, 1);
        let latency = |cycles| rig.pair.world.lock().card_mut(1).host_mut().set_latency(cycles);
        latency(20_000);
        // Each is on its way to the host when the next one comes: a READ that is not is dropped for its repetition.
        for _ in 0..REPETITIONS + 5 {
            rig.tell(1, 1, rig.read(1, peer.number(), PSNS.0, 64));
            rig.run(100);
        }
        rig.run(5_000);
        latency(0);
        rig.run(20_000);
        rig.settle();
    },
};

/// Repeated READs and atomics of a queue pair that may wait for their answers.
const REPETITIONS: u64 = 48;

/// Shortest time between two CNPs of a queue pair after reset, in microseconds.
const CNP_US: u64 = 50;

fn marked(frame: &[u8]) -> Vec<Vec<u8>> {
    let mut frame = frame.to_vec();
    mark_congestion(&mut frame);
    vec![frame]
}
