// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is dropped, by its reason. Card 1 is where forged packets go, and card 0 where forged answers go.

use ferrowire::DropReason::{
    BthVersion, Destination, DuplicateAtomic, GhostAck, Icrc, IpChecksum, IpFragment, IpHeader, Length,
    MacControl, Malformed, NoQp, NoReceive, NotRoce, Overrun, Pkey, Qkey, QpState, ReservedOpcode, Runt,
    Sequence, Service as OtherService, SourceAddress, TooLong, UdpChecksum,
};
use ferrowire::HwCounter::{DuplicateRequest, OutOfBuffer, RxAtomicRequests, RxIcrcEncapsulated};
use ferrowire::{QpInitAttr, QueuePair, SendWr, Service};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::hostile::forge::{between, seal, sum};
use ferrowire_sim::pair::Connection;
use ferrowire_spec::wire::{
    eth, ipv4, udp, Aeth, AtomicAckEth, AtomicEth, Deth, Extensions, Frame, Opcode, Pause,
};

use super::rig::Counter::{Drop, Hw};
use super::rig::{
    check, check_cards, fail, other_ip, post, receive, sealed, Case, Rig, LIMIT, MTU, PSNS, SWEEP,
};

#[test]
fn a_frame_that_is_no_sound_packet_is_counted_by_its_reason_and_nowhere_else() {
    check(FRAMES);
}

#[test]
fn what_a_card_has_no_room_for_is_counted() {
    check_cards(FULL);
}

#[test]
fn a_request_that_is_dropped_is_counted_by_its_reason_and_nowhere_else() {
    check(REQUESTS);
}

#[test]
fn an_answer_and_a_cnp_that_are_dropped_are_counted_by_their_reason_and_nowhere_else() {
    check(ANSWERS);
}

/// Where the network header of a frame without a tag begins, and the IPv4 packet's others.
const IP: usize = eth::BYTES;
const UDP: usize = IP + ipv4::BYTES;
const BTH: usize = UDP + udp::BYTES;

/// What the parser drops, and the ICRC and the port's addresses.
pub const FRAMES: &[Case] = &[
    Case {
        name: "frames that end in the header of Ethernet, a tag, IP and UDP",
        moves: &[(1, Drop(Runt), 2 * 4)],
        run: |rig| {
            let in_tag = |bytes: &mut Vec<u8>| {
                bytes[12..14].copy_from_slice(&[0x81, 0x00]);
                bytes.truncate(16);
            };
            let ends = [10, 30, UDP + 7].map(|at| move |bytes: &mut Vec<u8>| bytes.truncate(at));
            damage(rig, &[&ends[0], &in_tag, &ends[1], &ends[2]]);
        },
    },
    Case {
        name: "frames of other protocols and ports",
        moves: &[(1, Drop(NotRoce), 2 * 3)],
        run: |rig| damage(rig, &[&put(12, 0x09), &summed(IP + 9, 6), &put(UDP + 3, 0xb6)]),
    },
    Case {
        name: "IP headers of another version, too short and with options",
        moves: &[(1, Drop(IpHeader), 2 * 3)],
        run: |rig| {
            let options = |bytes: &mut Vec<u8>| {
                bytes.splice(UDP..UDP, [1; 4]);
                bytes[IP] = 0x46;
            };
            damage(rig, &[&summed(IP, 0x55), &summed(IP, 0x44), &options]);
        },
    },
    Case {
        name: "fragments, the first and another",
        moves: &[(1, Drop(IpFragment), 2 * 2)],
        run: |rig| damage(rig, &[&summed(IP + 6, 0x20), &summed(IP + 7, 1)]),
    },
    Case {
        name: "IPv4 headers with a wrong checksum",
        moves: &[(1, Drop(IpChecksum), 2)],
        run: |rig| damage(rig, &[&|bytes| bytes[IP + 10] ^= 1]),
    },
    Case {
        name: "lengths of IP and UDP that are wrong, and a frame that is too short for them",
        moves: &[(1, Drop(Length), 2 * 3)],
        run: |rig| {
            let short = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 1);
            damage(rig, &[&summed(IP + 2, 1), &|bytes| bytes[UDP + 5] ^= 4, &short]);
        },
    },
    Case {
        name: "a wrong UDP checksum",
        moves: &[(1, Drop(UdpChecksum), 2)],
        run: |rig| damage(rig, &[&put(UDP + 7, 1)]),
    },
    Case {
        name: "a wrong ICRC, of what is sound else, of what would be dropped for another reason, of a CNP",
        moves: &[(1, Drop(Icrc), 2 * 2 + 3), (1, Hw(RxIcrcEncapsulated), 2 * 2 + 3)],
        run: |rig| {
            damage(rig, &[&|bytes| *bytes.last_mut().unwrap() ^= 1, &|bytes| bytes[BTH + 1] |= 1]);
            let mut cnp = sealed(rig.cnp(1, 0));
            *cnp.last_mut().unwrap() ^= 0x80;
            rig.inject(1, 3, &cnp);
        },
    },
    Case {
        name: "transport headers of another version",
        moves: &[(1, Drop(BthVersion), 2)],
        run: |rig| damage(rig, &[&resealed(BTH + 1, 0x41)]),
    },
    Case {
        name: "opcodes without a meaning",
        moves: &[(1, Drop(ReservedOpcode), 2 * 2)],
        run: |rig| damage(rig, &[&resealed(BTH, 0x18), &resealed(BTH, 0xe0)]),
    },
    Case {
        name: "payload that the opcode forbids, more than any MTU, and less than the headers of the opcode",
        moves: &[(1, Drop(Malformed), 2 * 4)],
        run: |rig| {
            let other = |opcode: Opcode| resealed(BTH, opcode.code());
            damage(rig, &[&other(Opcode::RcReadRequest), &other(Opcode::RcAcknowledge)]);
            let send = rig.packet(1, Opcode::RcSendOnly, 2, PSNS.0);
            rig.tell(1, 2, Frame { payload: &[1; 4100], ..send });
            let mut bytes = sealed(send);
            other(Opcode::RcWriteOnly)(&mut bytes);
            rig.inject(1, 2, &bytes);
        },
    },
    Case {
        name: "frames for another station, another address and another VLAN",
        moves: &[(1, Drop(Destination), 2 * 3)],
        run: |rig| {
            let address = |bytes: &mut Vec<u8>| {
                summed(UDP - 1, 99)(bytes);
                seal(bytes);
            };
            let vlan = |bytes: &mut Vec<u8>| drop(bytes.splice(12..12, [0x81, 0x00, 0x00, 0x07]));
            damage(rig, &[&put(5, 0x99), &address, &vlan]);
        },
    },
    Case {
        name: "MAC control frames that are none",
        moves: &[(1, Drop(MacControl), 2 * 2)],
        run: |rig| {
            let mut other = Pause::new(0xffff).frame(1).to_vec();
            other[eth::BYTES + 1] = 2;
            rig.inject(1, 2, &other);
            rig.inject(1, 2, &Pause::new(0xffff).frame(1)[..17]);
        },
    },
];

/// What finds no room in the card.
pub const FULL: &[Case] = &[Case {
    // How many the card takes before it is full is its own affair: frames come until three were lost.
    name: "more than the card has room for while the host does not answer",
    moves: &[(1, Drop(Overrun), 3)],
    run: flood,
}];

/// What the responder drops.
pub const REQUESTS: &[Case] = &[
    Case {
        name: "queue pairs that do not exist",
        moves: &[(1, Drop(NoQp), 2 * 3)],
        run: |rig| {
            let gone = rig.connect(&rig.connection()).1.number();
            for qpn in [gone, rig.node(1).context.capabilities().max_qp, 0xff_ffff] {
                rig.tell(1, 2, rig.write(1, Opcode::RcWriteOnly, qpn, PSNS.0));
            }
        },
    },
    Case {
        name: "queue pairs of another service",
        moves: &[(1, Drop(OtherService), 2 * 4)],
        run: |rig| {
            let (_a, rc) = rig.connect(&rig.connection());
            let (_b, uc) = rig.connect(&Connection { service: Service::Uc, ..rig.connection() });
            let (_c, ud) = rig.connect(&Connection { service: Service::Ud, ..rig.connection() });
            rig.tell(1, 2, rig.write(1, Opcode::UcWriteOnly, rc.number(), PSNS.0));
            rig.tell(1, 2, rig.write(1, Opcode::RcWriteOnly, uc.number(), PSNS.0));
            rig.tell(1, 2, rig.write(1, Opcode::RcWriteOnly, ud.number(), PSNS.0));
            rig.tell(1, 2, datagram(rig, &rc, QKEY, &[1; 16]));
            rig.settle();
        },
    },
    Case {
        name: "queue pairs in RESET and ERR",
        moves: &[(1, Drop(QpState), 2 * 2)],
        run: |rig| {
            let (_qp, mut peer) = rig.connect(&rig.connection());
            fail(&mut peer);
            let idle = rig.pair.b.pd.create_qp(&QpInitAttr::rc(&rig.pair.b.cq, &rig.pair.b.cq)).unwrap();
            rig.tell(1, 2, rig.write(1, Opcode::RcWriteOnly, peer.number(), PSNS.0));
            rig.tell(1, 2, rig.write(1, Opcode::RcWriteOnly, idle.number(), PSNS.0));
            rig.settle();
        },
    },
    Case {
        name: "another partition, of RC and UD",
        moves: &[(1, Drop(Pkey), 2 * 2)],
        run: |rig| {
            let (_a, rc) = rig.connect(&rig.connection());
            let (_b, ud) = rig.connect(&Connection { service: Service::Ud, ..rig.connection() });
            let mut write = rig.write(1, Opcode::RcWriteOnly, rc.number(), PSNS.0);
            write.bth.pkey = 0x8001;
            rig.tell(1, 2, write);
            let mut send = datagram(rig, &ud, QKEY, &[1; 16]);
            send.bth.pkey = 0x8001;
            rig.tell(1, 2, send);
            rig.settle();
        },
    },
    Case {
        name: "another source, of RC and UC",
        moves: &[(1, Drop(SourceAddress), 2 * 2)],
        run: |rig| {
            let (_a, rc) = rig.connect(&rig.connection());
            let (_b, uc) = rig.connect(&Connection { service: Service::Uc, ..rig.connection() });
            for (opcode, qp) in [(Opcode::RcWriteOnly, &rc), (Opcode::UcWriteOnly, &uc)] {
                let mut write = rig.write(1, opcode, qp.number(), PSNS.0);
                write.ip = between([10, 0, 0, 9].into(), rig.pair.b.ip(false));
                rig.tell(1, 2, write);
            }
            rig.settle();
        },
    },
    Case {
        name: "another address of the port",
        moves: &[(1, Drop(Destination), 2)],
        run: |rig| {
            let (_a, rc) = rig.connect(&rig.connection());
            let mut write = rig.write(1, Opcode::RcWriteOnly, rc.number(), PSNS.0);
            write.ip = between(rig.pair.a.ip(false), other_ip(1));
            rig.tell(1, 2, write);
            rig.settle();
        },
    },
    Case {
        name: "another queue key",
        moves: &[(1, Drop(Qkey), 3)],
        run: |rig| {
            let (_b, ud) = rig.connect(&Connection { service: Service::Ud, ..rig.connection() });
            rig.tell(1, 3, datagram(rig, &ud, QKEY ^ 1, &[1; 16]));
            rig.settle();
        },
    },
    Case {
        name: "no receive",
        moves: &[(1, Drop(NoReceive), 3), (1, Hw(OutOfBuffer), 3)],
        run: |rig| {
            let (_b, ud) = rig.connect(&Connection { service: Service::Ud, ..rig.connection() });
            rig.tell(1, 3, datagram(rig, &ud, QKEY, &[1; 16]));
            rig.settle();
        },
    },
    Case {
        name: "messages of UC and UD that are longer than their receive",
        moves: &[(1, Drop(TooLong), 2 + 3)],
        run: |rig| {
            let (mut qp, mut peer) = rig.connect(&Connection { service: Service::Uc, ..rig.connection() });
            receive(&mut peer, &rig.regions[1], 1, 60);
            rig.run(2_000);
            post(&mut qp, &[SendWr::send(1, &[rig.regions[0].sge(0, 61)]); 2]);
            rig.wait_well(0, 2);
            let (_b, mut ud) = rig.connect(&Connection { service: Service::Ud, ..rig.connection() });
            receive(&mut ud, &rig.regions[1], 1, 55);
            rig.run(2_000);
            rig.tell(1, 3, datagram(rig, &ud, QKEY, &[1; 16]));
            rig.settle();
        },
    },
    Case {
        name: "messages of UC without their first packet, and the rest of one behind a gap",
        moves: &[(1, Drop(Sequence), 2 + 3)],
        run: |rig| {
            let (mut qp, mut peer) = rig.connect(&Connection { service: Service::Uc, ..rig.connection() });
            receive(&mut peer, &rig.regions[1], 2, 5 * MTU);
            rig.run(2_000);
            // Of three packets the first, of five the second.
            rig.lose(0, |nth, _| nth == 0 || nth == 4);
            for packets in [3, 5] {
                post(&mut qp, &[SendWr::send(1, &[rig.regions[0].sge(0, packets * MTU)])]);
                rig.wait_well(0, 1);
            }
            rig.settle();
        },
    },
    Case {
        name: "WRITEs of UC of another length than they say, and with a key of nobody's",
        moves: &[(1, Drop(Malformed), 2 + 2)],
        run: |rig| {
            let (_a, uc) = rig.connect(&Connection { service: Service::Uc, ..rig.connection() });
            let mut write = rig.write(1, Opcode::UcWriteOnly, uc.number(), PSNS.0);
            write.payload = &[7; 12];
            rig.tell(1, 2, write);
            let mut write = rig.write(1, Opcode::UcWriteOnly, uc.number(), PSNS.0);
            write.ext.reth.as_mut().unwrap().rkey = 0x77;
            rig.tell(1, 2, write);
            rig.settle();
        },
    },
    Case {
        name: "an atomic that comes again when sixteen others have come",
        moves: &[(1, Drop(DuplicateAtomic), 3), (1, Hw(DuplicateRequest), 3), (1, Hw(RxAtomicRequests), 17)],
        run: |rig| {
            let (mut qp, peer) = rig.connect(&rig.connection());
            let (sge, to) = ([rig.regions[0].sge(0, 8)], rig.regions[1].remote(0));
            post(&mut qp, &[SendWr::fetch_add(1, &sge, to, 1); 17]);
            rig.wait_well(0, 17);
            let mut again = rig.packet(1, Opcode::RcFetchAdd, peer.number(), PSNS.0);
            again.ext.atomic = Some(AtomicEth { va: to.address, rkey: to.rkey, swap: 1, compare: 0 });
            rig.tell(1, 3, again);
            rig.settle();
        },
    },
];

/// What the requester drops, and CNPs.
pub const ANSWERS: &[Case] = &[
    Case {
        name: "answers for queue pairs that do not exist",
        moves: &[(0, Drop(NoQp), 2 * 3 * 3)],
        run: |rig| {
            let gone = rig.connect(&rig.connection()).0.number();
            for qpn in [gone, rig.node(1).context.capabilities().max_qp, 0xff_ffff] {
                answers(rig, 0, qpn).into_iter().for_each(|answer| rig.tell(0, 2, answer));
            }
        },
    },
    Case {
        name: "answers for a queue pair that asks nobody yet, and for one in error",
        moves: &[(1, Drop(QpState), 2 * 3), (0, Drop(QpState), 2 * 3)],
        run: |rig| {
            let make = |card: usize| {
                let node = rig.node(card);
                node.pd.create_qp(&QpInitAttr::rc(&node.cq, &node.cq)).unwrap()
            };
            let (mut qp, peer, _) = rig.pair.half_up(make(0), make(1), &rig.connection()).unwrap();
            answers(rig, 1, peer.number()).into_iter().for_each(|answer| rig.tell(1, 2, answer));
            fail(&mut qp);
            answers(rig, 0, qp.number()).into_iter().for_each(|answer| rig.tell(0, 2, answer));
            rig.settle();
        },
    },
    Case {
        name: "answers for queue pairs of another service",
        moves: &[(0, Drop(OtherService), 2 * 2 * 3)],
        run: |rig| {
            for service in [Service::Uc, Service::Ud] {
                let (qp, _peer) = rig.connect(&Connection { service, ..rig.connection() });
                answers(rig, 0, qp.number()).into_iter().for_each(|answer| rig.tell(0, 2, answer));
                rig.settle();
            }
        },
    },
    Case {
        name: "answers of another partition",
        moves: &[(0, Drop(Pkey), 2 * 3)],
        run: |rig| answer_with(rig, |_, answer| answer.bth.pkey = 0x8001),
    },
    Case {
        name: "answers of somebody else",
        moves: &[(0, Drop(SourceAddress), 2 * 3)],
        run: |rig| {
            answer_with(rig, |rig, frame| {
                frame.ip = between([10, 0, 0, 9].into(), rig.pair.a.ip(false));
            });
        },
    },
    Case {
        name: "answers to another address of the port",
        moves: &[(0, Drop(Destination), 2 * 3)],
        run: |rig| {
            answer_with(rig, |rig, frame| frame.ip = between(rig.pair.b.ip(false), other_ip(0)));
        },
    },
    Case {
        name: "acknowledgements with a syndrome that has no meaning",
        moves: &[(0, Drop(Malformed), 2 * 4)],
        run: |rig| {
            let (qp, _peer) = rig.connect(&rig.connection());
            for syndrome in [0x40, 0x64, 0x7f, 0x80] {
                rig.tell(0, 2, acknowledge(rig, 0, qp.number(), syndrome));
            }
            rig.settle();
        },
    },
    Case {
        name: "answers for what was never sent, and for what has been answered",
        moves: &[(0, Drop(GhostAck), 2 * (3 + 5)), (1, Hw(ferrowire::HwCounter::RxWriteRequests), 1)],
        run: |rig| {
            answer_with(rig, |_, _| ());
            let (mut qp, _peer) = rig.connect(&rig.connection());
            post(&mut qp, &[SendWr::write(1, &[rig.regions[0].sge(0, 64)], rig.regions[1].remote(0))]);
            rig.wait_well(0, 1);
            for syndrome in [0x1f, 0x20, 0x60, 0x61, 0x63] {
                rig.tell(0, 2, acknowledge(rig, 0, qp.number(), syndrome));
            }
            rig.settle();
        },
    },
    Case {
        name: "CNPs for queue pairs that do not exist",
        moves: &[(0, Drop(NoQp), 2 * 3)],
        run: |rig| {
            let gone = rig.connect(&rig.connection()).0.number();
            for qpn in [gone, rig.node(1).context.capabilities().max_qp, 0xff_ffff] {
                rig.tell(0, 2, rig.cnp(0, qpn));
            }
        },
    },
    Case {
        name: "CNPs for queue pairs in RESET and in error, and of UD, which have no peer",
        moves: &[(0, Drop(QpState), 2 * 3)],
        run: |rig| {
            let (mut failed, _peer) = rig.connect(&rig.connection());
            fail(&mut failed);
            let idle = rig.pair.a.pd.create_qp(&QpInitAttr::rc(&rig.pair.a.cq, &rig.pair.a.cq)).unwrap();
            let (ud, _other) = rig.connect(&Connection { service: Service::Ud, ..rig.connection() });
            for qpn in [failed.number(), idle.number(), ud.number()] {
                rig.tell(0, 2, rig.cnp(0, qpn));
            }
            rig.settle();
        },
    },
    Case {
        name: "CNPs of another partition, of somebody else, and to another address of the port",
        moves: &[(0, Drop(Pkey), 2), (0, Drop(SourceAddress), 2), (0, Drop(Destination), 2)],
        run: |rig| {
            let (qp, _peer) = rig.connect(&rig.connection());
            let mut cnp = rig.cnp(0, qp.number());
            cnp.bth.pkey = 0x8001;
            rig.tell(0, 2, cnp);
            for (from, to) in
                [([10, 0, 0, 9].into(), rig.pair.a.ip(false)), (rig.pair.b.ip(false), other_ip(0))]
            {
                rig.tell(0, 2, Frame { ip: between(from, to), ..rig.cnp(0, qp.number()) });
            }
            rig.settle();
        },
    },
];

/// Queue key of the datagrams' queue pairs.
const QKEY: u32 = 0x1357_9bdf;

/// Another byte.
fn put(at: usize, byte: u8) -> impl Fn(&mut Vec<u8>) {
    move |bytes| bytes[at] = byte
}

/// Another byte, and the IPv4 header checksum for it.
fn summed(at: usize, byte: u8) -> impl Fn(&mut Vec<u8>) {
    move |bytes| {
        bytes[at] = byte;
        sum(bytes);
    }
}

/// Another byte, and the ICRC for it.
fn resealed(at: usize, byte: u8) -> impl Fn(&mut Vec<u8>) {
    move |bytes| {
        bytes[at] = byte;
        seal(bytes);
    }
}

/// What is done to the bytes of a frame.
type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);

/// WRITEs to a queue pair of card 1, sound but for what each of these does to its bytes, twice each.
fn damage(rig: &mut Rig, damages: &[Damage<'_>]) {
    let (_qp, peer) = rig.connect(&rig.connection());
    for damage in damages {
        let mut bytes = sealed(rig.write(1, Opcode::RcWriteOnly, peer.number(), PSNS.0));
        damage(&mut bytes);
        rig.inject(1, 2, &bytes);
    }
    rig.settle();
}

/// A datagram to a queue pair of card 1.
fn datagram<'a>(rig: &Rig, to: &QueuePair, qkey: u32, payload: &'a [u8]) -> Frame<'a> {
    let deth = Some(Deth { qkey, srcqp: 5, ..Deth::default() });
    let ext = Extensions { deth, ..Extensions::default() };
    Frame { ext, payload, ..rig.packet(1, Opcode::UdSendOnly, to.number(), 0) }
}

/// First PSN that card `card` sends.
fn own(card: usize) -> u32 {
    [PSNS.0, PSNS.1][card]
}

fn acknowledge(rig: &Rig, card: usize, qpn: u32, syndrome: u8) -> Frame<'static> {
    let aeth = Some(Aeth { syndrome, ..Aeth::default() });
    let ext = Extensions { aeth, ..Extensions::default() };
    Frame { ext, ..rig.packet(card, Opcode::RcAcknowledge, qpn, own(card)) }
}

/// An acknowledgement, a READ response and an atomic's answer for a queue pair of `card`.
fn answers(rig: &Rig, card: usize, qpn: u32) -> [Frame<'static>; 3] {
    let aeth = Some(Aeth { syndrome: 0x1f, ..Aeth::default() });
    let response = Frame {
        ext: Extensions { aeth, ..Extensions::default() },
        payload: &[3; 16],
        ..rig.packet(card, Opcode::RcReadResponseOnly, qpn, own(card))
    };
    let atomic_ack = Some(AtomicAckEth::default());
    let atomic = Frame {
        ext: Extensions { aeth, atomic_ack, ..Extensions::default() },
        ..rig.packet(card, Opcode::RcAtomicAcknowledge, qpn, own(card))
    };
    [acknowledge(rig, card, qpn, 0x1f), response, atomic]
}

/// These for a queue pair of card 0 that has asked for nothing, changed, twice each.
fn answer_with(rig: &Rig, change: impl Fn(&Rig, &mut Frame<'_>)) {
    let (qp, _peer) = rig.connect(&rig.connection());
    for mut answer in answers(rig, 0, qp.number()) {
        change(rig, &mut answer);
        rig.tell(0, 2, answer);
    }
    rig.settle();
}

/// SENDs of UC whose receives the host of card 1 keeps back, until three have been lost; the others arrive.
fn flood(rig: &mut Rig) {
    let connection =
        Connection { service: Service::Uc, mtu: ferrowire::PathMtu::B4096, recv_wr: 256, ..rig.connection() };
    let (_qp, mut peer) = rig.connect(&connection);
    let latency = |cycles| rig.pair.world.lock().card_mut(1).host_mut().set_latency(cycles);
    latency(LIMIT / 2);
    receive(&mut peer, &rig.regions[1], 256, 4096);
    let begin = rig.counter(1, Drop(Overrun));
    let (mut sent, mut lost) = (0, 0);
    let payload = [9; 4096];
    while lost < 3 {
        let fit = RnicConfig::named(&rig.config).unwrap().rx_buffer_bytes / 4096;
        // What surely fits first, and then one by one.
        for _ in 0..if sent == 0 { fit - 1 } else { 1 } {
            let mut send = rig.packet(1, Opcode::UcSendOnly, peer.number(), PSNS.0 + sent);
            send.payload = &payload;
            rig.tell(1, 1, send);
            sent += 1;
        }
        assert!(rig.pair.world.lock().run_until(LIMIT, |world| world.link(0).idle()));
        rig.run(SWEEP);
        lost = rig.counter(1, Drop(Overrun)) - begin;
        assert!(sent < 256, "{}", rig.pair.diagnose());
    }
    latency(0);
    rig.wait_well(1, sent as usize - 3);
}
