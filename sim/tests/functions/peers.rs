// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers that ask for what is not there.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ferrowire::{
    AccessFlags, AddressVector, Bus, Completion, Context, ContextOptions, DropReason, Event, EventKind,
    EventQueue, HwCounter, InitAttributes, MemoryRegion, PageSize, PathMtu, ProtectionDomain, Psn, Qp,
    QpInitAttr, QpState, RecvWr, Rtr, RtrAttributes, TrafficCounter,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::bus::{SharedWorld, World};
use ferrowire_sim::hostile::forge::{between, Packet, CARD, FOE};
use ferrowire_sim::pair::bytes;
use ferrowire_sim::shared_cq::SharedCq;
use ferrowire_sim::soak::ends::{ip, mac};
use ferrowire_spec::csr::port;
use ferrowire_spec::qp_state::GSI_QPN;
use ferrowire_spec::wire::opcode::Ext;
use ferrowire_spec::wire::{Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Extensions, Frame, Ieth, Opcode, Reth};

use super::{full, model, rights, small};

const OWN: u32 = 0x40_0000;
const PSN: u32 = 0xff_fffe;

/// A card without a peer, whose frames are made here.
struct Alone {
    world: SharedWorld,
    context: Context,
    pd: ProtectionDomain,
    cq: SharedCq,
    events: EventQueue,
    region: MemoryRegion,
}

/// A packet that a queue pair sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    opcode: Option<Opcode>,
    psn: u32,
    syndrome: Option<u8>,
}

/// An acknowledgement, or a NAK.
fn answer(psn: u32, syndrome: u8) -> Answer {
    Answer { opcode: Some(Opcode::RcAcknowledge), psn: psn & 0xff_ffff, syndrome: Some(syndrome) }
}

/// NAKs: of a gap, and invalid request (IBTA 9.7.5.2.8).
const GAP: u8 = 0x60;
const INVALID: u8 = 0x61;

impl Alone {
    fn new(config: &RnicConfig) -> Self {
        let mut world = World::single(&model(config), 0).unwrap();
        world.link_mut(0).keep_frames(true);
        let world = world.share();
        let options = ContextOptions { seed: Some(1), ..ContextOptions::default() };
        let context = Context::open_with(world.bus(0), options).unwrap();
        context.set_mac(mac(CARD)).unwrap();
        context.add_gid(ip(CARD, false), None).unwrap();
        let events = context.create_async_eq(16).unwrap();
        let (pd, cq) = (context.alloc_pd().unwrap(), SharedCq::from(context.create_cq(256).unwrap()));
        let memory = context.alloc(8192, 4096).unwrap();
        let atomics = context.capabilities().atomics;
        let extra = if atomics { AccessFlags::REMOTE_ATOMIC } else { AccessFlags::LOCAL_READ };
        let access = AccessFlags::LOCAL_WRITE | rights() | extra;
        let region = pd.register(&memory, access, PageSize::Size4K).unwrap();
        Self { world, context, pd, cq, events, region }
    }

    /// A queue pair that answers the foe, with two receives.
    fn answers(&self) -> Qp<Rtr> {
        let atomics = self.context.capabilities().atomics;
        let extra = if atomics { AccessFlags::REMOTE_ATOMIC } else { AccessFlags::LOCAL_READ };
        let init = InitAttributes::new().access(rights() | extra).pkey(0xffff);
        let rtr = RtrAttributes::new()
            .av(AddressVector::new(mac(CARD), ip(CARD, false), mac(FOE), ip(FOE, false)))
            .path_mtu(PathMtu::B256)
            .dest_qpn(OWN)
            .rq_psn(Psn::new(PSN))
            .max_dest_rd_atomic(4)
            .min_rnr_timer(1);
        let qp = self.pd.create_qp(&QpInitAttr::rc(&self.cq, &self.cq)).unwrap();
        let mut qp = qp.init(init).unwrap().rtr(rtr).unwrap();
        let mut batch = qp.start_post_recv();
        (0..2).for_each(|id| batch.post(&RecvWr::new(id, &[self.region.sge(4096, 1024)])).unwrap());
        batch.ring().unwrap();
        qp
    }

    /// Gives the card a frame; what it sends then.
    fn tell(&self, frame: Vec<u8>) -> Vec<Answer> {
        assert!(!frame.is_empty());
        let mut world = self.world.lock();
        world.link_mut(0).take_frames();
        world.inject(1, frame);
        world.run(3_000);
        world.check().unwrap();
        let sent = world.link_mut(0).take_frames();
        let parsed = sent.iter().map(|sent| Frame::parse(&sent.bytes).unwrap());
        let answers = parsed.map(|frame| Answer {
            opcode: frame.opcode().ok(),
            psn: frame.bth.psn,
            syndrome: frame.ext.aeth.map(|aeth| aeth.syndrome),
        });
        answers.collect()
    }

    fn packet(&self, qp: &Qp<Rtr>, opcode: Opcode, psn: u32, ext: &Extensions, payload: &[u8]) -> Packet {
        let (destqp, psn) = (qp.number(), psn & 0xff_ffff);
        let bth = Bth { opcode: opcode.code(), psn, destqp, pkey: 0xffff, ackreq: true, ..Bth::default() };
        Packet::new(false, bth).with(ext, payload)
    }

    /// A request with all that its opcode has.
    fn request(&self, qp: &Qp<Rtr>, opcode: Opcode, psn: u32, payload: &[u8]) -> Packet {
        let to = self.region.remote(64);
        let len = if opcode == Opcode::RcReadRequest { 16 } else { payload.len() as u32 };
        let has = |ext| opcode.has(ext);
        let ext = Extensions {
            deth: has(Ext::Deth).then(|| Deth { qkey: 0x1234, srcqp: OWN, ..Deth::default() }),
            reth: has(Ext::Reth).then_some(Reth { va: to.address, rkey: to.rkey, len }),
            atomic: has(Ext::AtomicEth).then_some(AtomicEth {
                va: to.address,
                rkey: to.rkey,
                swap: 1,
                compare: 0,
            }),
            aeth: has(Ext::Aeth).then(|| Aeth { syndrome: 0x1f, ..Aeth::default() }),
            atomic_ack: has(Ext::AtomicAckEth).then(AtomicAckEth::default),
            ieth: has(Ext::Ieth).then_some(Ieth { rkey: to.rkey }),
            ..Extensions::default()
        };
        self.packet(qp, opcode, psn, &ext, payload)
    }

    fn drops(&self) -> BTreeMap<&'static str, u64> {
        let counted = |reason: &DropReason| (reason.name(), self.context.drop_counter(*reason).unwrap());
        DropReason::ALL.iter().map(counted).filter(|(_, n)| *n > 0).collect()
    }

    fn count(&self, counter: HwCounter) -> u64 {
        self.context.hw_counter(counter).unwrap()
    }

    /// WRITE, READ and SEND of another queue pair are carried out.
    #[track_caller]
    fn goes_on(&self, what: &str) {
        let qp = self.answers();
        self.region.memory().fill(0, 8192, 0);
        self.serves(&qp, PSN, what);
    }

    /// The same of this one, which expects that PSN.
    #[track_caller]
    fn serves(&self, qp: &Qp<Rtr>, psn: u32, what: &str) {
        let ack = |answers: Vec<Answer>, psn: u32, opcode| {
            let found: Vec<_> = answers.iter().map(|answer| (answer.opcode, answer.psn)).collect();
            assert_eq!(found, [(Some(opcode), psn & 0xff_ffff)], "{what}: {answers:x?}");
            assert!(answers[0].syndrome.unwrap() < 0x20, "{what}: {answers:x?}");
        };
        let tell = |opcode, psn, payload: &[u8]| self.tell(self.request(qp, opcode, psn, payload).frame());
        ack(tell(Opcode::RcWriteOnly, psn, &[7; 16]), psn, Opcode::RcAcknowledge);
        assert_eq!(bytes(self.region.memory())[64..80], [7; 16], "{what}");
        ack(tell(Opcode::RcReadRequest, psn + 1, &[]), psn + 1, Opcode::RcReadResponseOnly);
        ack(tell(Opcode::RcSendOnly, psn + 2, &[8; 100]), psn + 2, Opcode::RcAcknowledge);
        assert_eq!(bytes(self.region.memory())[4096..4196], [8; 100], "{what}");
        let mut some = [Completion::default(); 4];
        let n = self.cq.poll(&mut some).unwrap();
        let ends: Vec<_> =
            some[..n].iter().map(|done| (done.qpn(), done.wr_id(), done.is_success())).collect();
        assert_eq!(ends, [(qp.number(), 0, true)], "{what}");
    }
}

/// IBTA 9.9.3, responders, class C: who does not support what a request asks for says NAK invalid request, and the queue pair is in error.
#[test]
fn requests_of_peers_for_what_is_not_there_get_nak_invalid_request() {
    use Opcode::*;
    let card = Alone::new(&small());
    // What comes before it on its queue pair, and goes well.
    let cases: [(Opcode, &[u8], Option<Opcode>); 5] = [
        (RcCompareSwap, &[], None),
        (RcFetchAdd, &[], Some(RcWriteOnly)),
        (RcSendOnlyInv, &[9; 16], None),
        (RcSendOnlyInv, &[], Some(RcReadRequest)),
        (RcSendLastInv, &[9; 16], Some(RcSendFirst)),
    ];
    for (nth, (opcode, payload, before)) in cases.into_iter().enumerate() {
        let what = format!("{opcode}");
        card.region.memory().fill(0, 8192, 0);
        let (qp, mut psn) = (card.answers(), PSN);
        if let Some(before) = before {
            let first = [6; 256];
            let payload = match before {
                RcReadRequest => &[][..],
                RcSendFirst => &first,
                _ => &[7; 16],
            };
            let answers = card.tell(card.request(&qp, before, psn, payload).frame());
            assert_eq!(answers.len(), 1, "{what}: {answers:x?}");
            assert!(answers[0].psn == psn && answers[0].syndrome.unwrap() < 0x20, "{what}: {answers:x?}");
            psn += 1;
        }
        let (memory, drops) = (bytes(card.region.memory()), card.drops());
        let answers = card.tell(card.request(&qp, opcode, psn, payload).frame());
        assert_eq!(answers, [answer(psn, INVALID)], "{what}");
        assert_eq!(card.count(HwCounter::RespRemoteInvalidRequest), 1 + nth as u64, "{what}");
        assert_eq!(card.count(HwCounter::RxAtomicRequests), 0, "{what}");
        assert_eq!(card.drops(), drops, "{what}: it is answered, not dropped");
        assert!(bytes(card.region.memory()) == memory, "{what}: something was carried out");
        assert_eq!(qp.query().unwrap().state, QpState::Err, "{what}");
        let (mut event, mut done) = ([Event::default(); 4], [Completion::default(); 4]);
        let n = card.events.poll(&mut event).unwrap();
        // Those that tell that the first packet came are of another kind.
        let told: Vec<_> = event[..n]
            .iter()
            .filter(|event| event.kind != EventKind::CommEstablished)
            .map(|event| (event.kind.known(), event.object, event.cause))
            .collect();
        assert_eq!(told, [(Some(EventKind::QpRequestError), qp.number(), INVALID)], "{what}");
        // No receive has its message; all come back.
        let n = card.cq.poll(&mut done).unwrap();
        let ends: Vec<_> =
            done[..n].iter().map(|done| (done.qpn(), done.wr_id(), done.is_success())).collect();
        assert_eq!(ends, [(qp.number(), 0, false), (qp.number(), 1, false)], "{what}: {done:?}");
        // It hears nothing any more.
        let answers = card.tell(card.request(&qp, RcWriteOnly, psn, &[7; 16]).frame());
        assert_eq!(answers, [], "{what}");
        card.goes_on(&what);
        qp.destroy().unwrap();
    }
}

/// Where the card has the functions, the same packets are carried out: so they are sound.
#[test]
fn the_card_with_all_functions_carries_the_same_requests_out() {
    let card = Alone::new(&full());
    let qp = card.answers();
    for (nth, opcode) in [Opcode::RcCompareSwap, Opcode::RcFetchAdd].into_iter().enumerate() {
        let answers = card.tell(card.request(&qp, opcode, PSN + nth as u32, &[]).frame());
        assert_eq!(answers.len(), 1, "{answers:x?}");
        assert_eq!(answers[0].opcode, Some(Opcode::RcAtomicAcknowledge), "{answers:x?}");
    }
    assert_eq!(card.count(HwCounter::RxAtomicRequests), 2);
    card.goes_on("behind them");
}

/// A packet behind a gap is not looked at further (IBTA 9.7.4.1.2, 9.7.5.1.1), and one that was answered before does nothing.
#[test]
fn requests_for_what_is_not_there_that_are_out_of_sequence_end_nothing() {
    let card = Alone::new(&small());
    for opcode in [Opcode::RcFetchAdd, Opcode::RcCompareSwap, Opcode::RcSendOnlyInv] {
        let what = format!("{opcode}");
        card.region.memory().fill(0, 8192, 0);
        let qp = card.answers();
        let ahead = card.tell(card.request(&qp, opcode, PSN + 5, &[]).frame());
        assert_eq!(ahead, [answer(PSN, GAP)], "{what}");
        // Of the same number as one that was carried out.
        card.tell(card.request(&qp, Opcode::RcWriteOnly, PSN, &[3; 8]).frame());
        let repeated = card.tell(card.request(&qp, opcode, PSN, &[]).frame());
        let fatal = |answer: &Answer| answer.syndrome.is_some_and(|syndrome| syndrome > GAP);
        assert!(!repeated.iter().any(fatal), "{what}: {repeated:x?}");
        let atomic = |answer: &Answer| answer.opcode == Some(Opcode::RcAtomicAcknowledge);
        assert!(!repeated.iter().any(atomic), "{what}: {repeated:x?}");
        assert_eq!(bytes(card.region.memory())[64..80], [[3; 8], [0; 8]].concat(), "{what}");
        assert_eq!(qp.query().unwrap().state, QpState::Rtr, "{what}");
        card.serves(&qp, PSN + 1, &what);
        qp.destroy().unwrap();
    }
}

/// Addresses of IPv6 whose lower 32 bits are those of IPv4.
fn long(ip: IpAddr) -> IpAddr {
    let IpAddr::V4(short) = ip else { panic!("{ip} is of IPv6") };
    let mut octets = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    octets[12..].copy_from_slice(&short.octets());
    octets.into()
}

#[test]
fn packets_of_services_and_frames_of_kinds_that_are_not_there_are_dropped_and_counted() {
    use Opcode::*;
    let card = Alone::new(&small());
    // Nobody else has told the card to let frames through, and this one has nobody to give them to.
    let raw = port::BLOCK.address(&port::RAW);
    card.world.bus(0).csr_write32(raw, 7).unwrap();
    let qp = card.answers();
    let of = |opcode, payload: &[u8]| card.request(&qp, opcode, PSN, payload).frame();
    let tagged = |tci: u16| {
        let mut bytes = of(RcWriteOnly, &[9; 16]);
        let [high, low] = tci.to_be_bytes();
        // The tag stands before the ethertype, which is then its own.
        bytes.splice(12..12, [0x81, 0x00, high, low]);
        bytes
    };
    let v6 = |to: IpAddr| {
        let mut packet = card.request(&qp, RcWriteOnly, PSN, &[9; 16]);
        packet.ip = between(long(ip(FOE, false)), to);
        packet.frame()
    };
    let datagram = |qpn: u32| {
        let mut packet = card.request(&qp, UdSendOnly, PSN, &[9; 16]);
        packet.bth.destqp = qpn;
        packet.frame()
    };
    let mut broadcast = vec![0xff; 60];
    broadcast[6..12].copy_from_slice(&mac(FOE));
    broadcast[12..14].copy_from_slice(&[0x88, 0xb5]);
    let cases = [
        ("a SEND of UC", of(UcSendOnly, &[9; 16]), DropReason::ReservedOpcode),
        ("a WRITE of UC", of(UcWriteOnly, &[9; 16]), DropReason::ReservedOpcode),
        ("a datagram", datagram(qp.number()), DropReason::ReservedOpcode),
        ("a datagram for QP1", datagram(GSI_QPN), DropReason::ReservedOpcode),
        ("an answer of an atomic", of(RcAtomicAcknowledge, &[]), DropReason::ReservedOpcode),
        ("IPv6", v6(long(ip(CARD, false))), DropReason::NotRoce),
        ("a tag", tagged(7), DropReason::NotRoce),
        ("a tag that is a priority alone", tagged(3 << 13), DropReason::NotRoce),
        ("no RoCE, though the filter lets it pass", broadcast, DropReason::NotRoce),
    ];
    let mut wrong = Vec::new();
    for (what, frame, reason) in cases {
        let mut expected = card.drops();
        *expected.entry(reason.name()).or_default() += 1;
        let answers = card.tell(frame);
        if (card.drops(), answers.len()) != (expected.clone(), 0) {
            wrong.push(format!("{what}: {answers:x?}, drops {:?}, not {expected:?}", card.drops()));
        }
        assert!(bytes(card.region.memory()) == [0; 8192], "{what}: something was carried out");
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(card.context.traffic_counter(TrafficCounter::RxRaw).unwrap(), 0);
    // The queue pair that they were for expects what it did.
    card.serves(&qp, PSN, "behind all of them");
    card.goes_on("another");
}

/// RFC 826. For boards without a host: they have no raw Ethernet either.
#[test]
fn a_card_without_raw_ethernet_answers_arp_itself_where_it_is_told_to() {
    let card = Alone::new(&small());
    let IpAddr::V4(own) = ip(CARD, false) else { unreachable!("IPv4") };
    let IpAddr::V4(foe) = ip(FOE, false) else { unreachable!("IPv4") };
    let arp = |to: [u8; 6], from: [u8; 6], rest: [&[u8]; 5]| {
        let kind = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4];
        let mut bytes = [&to[..], &from, &kind, &rest.concat()].concat();
        bytes.resize(60, 0);
        bytes
    };
    let rest = [&[0, 1][..], &mac(FOE), &foe.octets(), &[0; 6], &own.octets()];
    let question = arp([0xff; 6], mac(FOE), rest);
    let rest = [&[0, 2][..], &mac(CARD), &own.octets(), &mac(FOE), &foe.octets()];
    // The MAC makes it as long as a frame is.
    let reply = arp(mac(FOE), mac(CARD), rest)[..42].to_vec();
    for responds in [false, true] {
        card.context.set_neighbour_responder(responds).unwrap();
        let mut world = card.world.lock();
        world.link_mut(0).take_frames();
        world.inject(1, question.clone());
        world.run(3_000);
        let sent: Vec<_> = world.link_mut(0).take_frames().into_iter().map(|sent| sent.bytes).collect();
        let expected = if responds { vec![reply.clone()] } else { vec![] };
        assert_eq!(sent, expected, "it responds: {responds}");
    }
}
