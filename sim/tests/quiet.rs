// SPDX-License-Identifier: MIT OR Apache-2.0
//! UC and UD at the receiving side: what a peer sends, sound, lost and forged, goes to a card and to the reference engine, and both must
//! have done the same with it.

use crate::tier::chosen;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use ferrowire::{
    AccessFlags, AddressVector, Completion, CompletionQueue, Context, ContextOptions, DropReason,
    InitAttributes, MemoryRegion, PageSize, PathMtu, PostRecv, Psn, QpInitAttr, QpState, QueuePair, RecvWr,
    RtrAttributes, RtsAttributes, Service, SharedReceiveQueue, SrqInitAttr, WcStatus,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::bus::{SharedWorld, World};
use ferrowire_sim::card::CardModel;
use ferrowire_sim::model;
use ferrowire_sim::pair::bytes;
use ferrowire_sim::wire::encoded;
use ferrowire_spec::wire::frame::{Extensions, Frame};
use ferrowire_spec::wire::{Bth, Deth, Eth, ImmDt, Ip, Ipv4, Ipv6, Opcode, Reth};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const CONFIGS: [&str; 2] = ["generic-8b", "generic-64b"];

const CARD: u64 = 0x02fe_0000_0001;
const PEER: u64 = 0x02fe_0000_0002;
const QKEY: u32 = 0x0bad_cafe;
const MTU: usize = 256;
/// Where the region lies: for its owner, and in the engine's memory.
const VA: u64 = 0x7000_0000_0000;
const BASE: u64 = 0x10_0000;
const AREA: usize = 64 << 10;
const PD: u32 = 3;

fn mac(number: u64) -> [u8; 6] {
    number.to_be_bytes()[2..].try_into().unwrap()
}

fn address(number: u64, v6: bool) -> IpAddr {
    let host = number as u8;
    match v6 {
        false => Ipv4Addr::new(10, 0, 0, host).into(),
        true => IpAddr::from([0xfd, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]),
    }
}

/// A card, and the engine beside it: with one queue pair each of UC and UD, and the same memory.
struct Bench {
    v6: bool,
    world: SharedWorld,
    context: Context,
    cq: CompletionQueue,
    region: MemoryRegion,
    srq: Option<SharedReceiveQueue>,
    qps: [QueuePair; 2],
    engine: model::Engine,
    engine_cq: u32,
    engine_srq: Option<u32>,
    now: u64,
}

const UC: usize = 0;
const UD: usize = 1;

/// First PSN of the connection.
const FIRST: u32 = 0xff_fff0;

fn bench(config: &str, v6: bool, shared: bool) -> Bench {
    let card = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
    let mut world = World::single(&card, 0).unwrap();
    world.link_mut(0).keep_frames(true);
    let world = world.share();
    let options = ContextOptions {
        command_timeout: Duration::from_millis(20),
        seed: Some(1),
        ..ContextOptions::default()
    };
    let context = Context::open_with(world.bus(0), options).unwrap();
    context.set_mac(mac(CARD)).unwrap();
    context.add_gid(address(CARD, v6), None).unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(1024).unwrap();
    let memory = context.alloc(AREA, 4096).unwrap();
    let content: Vec<u8> = (0..AREA).map(|i| (i * 7 + i / 256) as u8).collect();
    memory.write(0, &content);
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let region = pd.register_at(&memory, VA, access, PageSize::Size4K).unwrap();
    let mut attr = SrqInitAttr::default();
    (attr.max_wr, attr.max_sge) = (64, 4);
    let srq = shared.then(|| pd.create_srq(&attr).unwrap());

    let peer = address(PEER, v6);
    let config = model::Config::new(CARD, address(CARD, v6));
    let mut engine = model::Engine::new(config);
    engine.memory_mut().map(BASE, content);
    let rights = model::Rights::LOCAL_WRITE | model::Rights::REMOTE_WRITE;
    let attr = model::RegionAttr { pd: PD, base: BASE, va: VA, len: AREA as u64, rights, page: 1 };
    assert_eq!(engine.register(attr, Some(region.rkey())), Ok(region.rkey()));
    let engine_cq = engine.create_cq(1024);
    let engine_srq = shared.then(|| engine.create_srq(PD, 64));

    let qps = [Service::Uc, Service::Ud].map(|service| {
        let mut attr = match service {
            Service::Uc => QpInitAttr::uc(&cq, &cq),
            _ => QpInitAttr::ud(&cq, &cq),
        };
        (attr.max_recv_sge, attr.srq) = (4, srq.as_ref());
        let qp = pd.create_qp(&attr).unwrap();
        let init = model::QpInit {
            qpn: Some(qp.number()),
            srq: engine_srq,
            ..model::QpInit::new(service, PD, engine_cq)
        };
        let qpn = engine.create_qp(init).unwrap();
        assert_eq!(qpn, qp.number());
        let to = model::QpAttr::to;
        let connected = service == Service::Uc;
        let (init, rtr) = match connected {
            true => (
                InitAttributes::new().access(AccessFlags::REMOTE_WRITE).pkey(0xffff),
                RtrAttributes::new()
                    .av(AddressVector::new(mac(CARD), address(CARD, v6), mac(PEER), peer))
                    .path_mtu(PathMtu::B256)
                    .dest_qpn(9)
                    .rq_psn(Psn::new(FIRST)),
            ),
            false => (InitAttributes::new().pkey(0xffff).qkey(QKEY), RtrAttributes::default()),
        };
        let qp = qp.init(init).map_err(|step| step.error).unwrap();
        let qp = qp.rtr(rtr).map_err(|step| step.error).unwrap();
        let rts = RtsAttributes::new().sq_psn(Psn::new(5));
        let qp = qp.rts(rts).map_err(|step| step.error).unwrap();
        let av = model::AddressVector {
            mac: PEER,
            ip: peer,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            vlan: None,
            source: None,
        };
        let init = match connected {
            true => model::QpAttr { access: Some(model::Rights::REMOTE_WRITE), ..to(QpState::Init) },
            false => model::QpAttr { qkey: Some(QKEY), ..to(QpState::Init) },
        };
        let rtr = match connected {
            true => model::QpAttr {
                av: Some(av),
                path_mtu: Some(MTU),
                dest_qpn: Some(9),
                rq_psn: Some(Psn::new(FIRST)),
                ..to(QpState::Rtr)
            },
            false => to(QpState::Rtr),
        };
        let rts = model::QpAttr { sq_psn: Some(Psn::new(5)), ..to(QpState::Rts) };
        for attr in [model::QpAttr { pkey: Some(0xffff), ..init }, rtr, rts] {
            engine.modify_qp(qpn, &attr).unwrap();
        }
        qp
    });
    Bench { v6, world, context, cq, region, srq, qps, engine, engine_cq, engine_srq, now: 0 }
}

impl Bench {
    fn qpn(&self, which: usize) -> u32 {
        self.qps[which].number()
    }

    /// Posts a receive of these places to both. What has been sent before finds none of it.
    fn receive(&mut self, which: usize, wr_id: u64, places: &[(usize, usize)]) {
        assert!(self.world.lock().run_until(100_000, |world| world.link(1).idle()));
        self.run(600);
        let sges: Vec<_> = places.iter().map(|(at, len)| self.region.sge(*at, *len as u32)).collect();
        let post = |mut batch: PostRecv<'_>| {
            batch.post(&RecvWr::new(wr_id, &sges)).unwrap();
            batch.ring().unwrap();
        };
        match &mut self.srq {
            Some(srq) => post(srq.start_post_recv()),
            None => post(self.qps[which].start_post_recv()),
        }
        let of = |sge: &ferrowire::Sge| model::Sge { addr: sge.address, lkey: sge.lkey, len: sge.bytes };
        let wr = model::RecvWr::new(wr_id, &sges.iter().map(of).collect::<Vec<_>>());
        match self.engine_srq {
            Some(srq) => self.engine.post_srq_recv(srq, wr).unwrap(),
            None => self.engine.post_recv(self.qps[which].number(), wr).unwrap(),
        }
        self.run(200);
    }

    /// A frame of the peer to a queue pair, changed before its checksums are made.
    fn frame<'a>(
        &self,
        which: usize,
        opcode: Opcode,
        psn: u32,
        payload: &'a [u8],
        change: impl FnOnce(&mut Frame<'a>),
    ) -> Vec<u8> {
        let ip = match (address(PEER, self.v6), address(CARD, self.v6)) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                Ip::V4(Ipv4 { src: src.into(), dst: dst.into(), ttl: 61, id: psn as u16, ..Ipv4::default() })
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ip::V6(Ipv6 {
                src: src.into(),
                dst: dst.into(),
                flow_label: psn & 0xfffff,
                ..Ipv6::default()
            }),
            _ => unreachable!("of one family"),
        };
        let mut frame = Frame {
            eth: Eth { dst: CARD, src: PEER, ethertype: 0 },
            ip,
            bth: Bth {
                opcode: opcode.code(),
                destqp: self.qpn(which),
                psn: psn & 0xff_ffff,
                pkey: 0xffff,
                ackreq: psn % 3 == 0,
                se: psn % 2 == 0,
                ..Bth::default()
            },
            ext: Extensions {
                deth: Some(Deth { qkey: QKEY, srcqp: 0xab_0000 | psn & 0xffff, ..Deth::default() }),
                reth: Some(Reth { va: VA, rkey: self.region.rkey(), len: payload.len() as u32 }),
                imm: Some(ImmDt { imm: psn.wrapping_mul(0x9e37_79b9) }),
                ..Extensions::default()
            },
            payload,
            ..Frame::default()
        };
        change(&mut frame);
        // Of the headers those that its opcode has.
        let has = |ext| Opcode::from_code(frame.bth.opcode).is_some_and(|opcode| opcode.has(ext));
        use ferrowire_spec::wire::opcode::Ext;
        frame.ext.deth = frame.ext.deth.filter(|_| has(Ext::Deth));
        frame.ext.reth = frame.ext.reth.filter(|_| has(Ext::Reth));
        frame.ext.imm = frame.ext.imm.filter(|_| has(Ext::ImmDt));
        frame.seal().unwrap();
        encoded(&frame).unwrap()
    }

    /// To both.
    fn send(&mut self, frame: &[u8]) {
        self.now += 10_000;
        self.engine.handle_frame(self.now, frame);
        self.world.lock().inject(1, frame.to_vec());
    }

    fn run(&mut self, cycles: u64) {
        self.world.lock().run(cycles);
    }

    fn completions(&mut self) -> (Vec<Done>, Vec<Done>) {
        self.run(4_000);
        let mut some = [Completion::default(); 1024];
        let n = self.cq.poll(&mut some).unwrap();
        let of_card = some[..n].iter().map(of_card).collect();
        let of_engine = std::iter::from_fn(|| self.engine.poll_cq(self.engine_cq));
        (of_card, of_engine.map(|done| of_model(&done)).collect())
    }

    /// Both have done the same.
    fn compare(&mut self, what: &str) -> Vec<Done> {
        let (card, engine) = self.completions();
        for (i, (card, engine)) in card.iter().zip(&engine).enumerate() {
            assert_eq!(card, engine, "{what}: completion {i}");
        }
        assert_eq!(card.len(), engine.len(), "{what}");
        let (got, want) = (bytes(self.region.memory()), self.engine.memory().get(BASE, AREA as u64).unwrap());
        let wrong = got.iter().zip(want).position(|(got, want)| got != want);
        assert_eq!(wrong, None, "{what}: memory");
        for reason in DropReason::ALL {
            let (card, engine) = (self.context.drop_counter(*reason).unwrap(), self.engine.dropped(*reason));
            assert_eq!(card, engine, "{what}: {}", reason.name());
        }
        for qp in &self.qps {
            let state = qp.query().unwrap().state.known();
            assert_eq!(state, self.engine.state(qp.number()), "{what}");
        }
        let mut world = self.world.lock();
        world.check().unwrap();
        assert_eq!(world.link_mut(0).take_frames().len(), 0, "{what}: nobody is answered");
        let stats = world.card(0).host().stats();
        assert_eq!((stats.reads_refused, stats.writes_refused), (0, 0), "{what}");
        card
    }
}

/// What a completion says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    wr_id: u64,
    qpn: u32,
    status: WcStatus,
    /// Nothing when it failed.
    well: Option<Said>,
}

/// What one says that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    opcode: u8,
    bytes: u32,
    imm: Option<u32>,
    /// Of a datagram, the queue pair that sent it, and whether its packet was of IPv4.
    source: Option<(u32, bool)>,
    solicited: bool,
}

fn of_card(done: &Completion) -> Done {
    let opcode = done.opcode().known().map_or(0xff, |opcode| opcode.code());
    let said = Said {
        opcode,
        bytes: done.byte_len(),
        imm: done.imm(),
        source: done.src_qpn().zip(done.is_ipv4()),
        solicited: done.solicited(),
    };
    let status = done.status().known().unwrap();
    Done { wr_id: done.wr_id(), qpn: done.qpn(), status, well: done.is_success().then_some(said) }
}

fn of_model(done: &model::Completion) -> Done {
    let source = done.grh.then_some((done.src_qpn, done.ipv4));
    let said = Said {
        opcode: done.opcode.code(),
        bytes: done.byte_len,
        imm: done.imm,
        source,
        solicited: done.solicited,
    };
    Done { wr_id: done.wr_id, qpn: done.qpn, status: done.status, well: done.is_success().then_some(said) }
}

/// A peer that sends messages over the connection, and datagrams, as a program would; the test takes packets away.
struct Sender {
    rng: SmallRng,
    psn: u32,
    /// What is left of a message, its operation, immediate, and where it goes.
    message: Option<Message>,
}

#[derive(Clone, Copy)]
struct Message {
    send: bool,
    imm: bool,
    begins: bool,
    at: usize,
    total: usize,
    left: usize,
}

impl Sender {
    fn payload(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.rng.random()).collect()
    }

    /// The next packet of the connection: opcode, PSN, payload, and a WRITE's place and length.
    fn next(&mut self) -> (Opcode, u32, Vec<u8>, (usize, usize)) {
        let rng = &mut self.rng;
        let mut message = self.message.take().unwrap_or_else(|| {
            let total = [0, 1, 63, 100, MTU, MTU + 1, 3 * MTU, 700][rng.random_range(0..8)];
            let at = rng.random_range(0..AREA - total);
            Message { send: rng.random(), imm: rng.random(), begins: true, at, total, left: total }
        });
        let len = message.left.min(MTU);
        let ends = message.left <= MTU;
        use Opcode::*;
        let opcode = match (message.send, message.begins, ends, message.imm) {
            (true, true, false, _) => UcSendFirst,
            (true, false, false, _) => UcSendMiddle,
            (true, false, true, false) => UcSendLast,
            (true, false, true, true) => UcSendLastImm,
            (true, true, true, false) => UcSendOnly,
            (true, true, true, true) => UcSendOnlyImm,
            (false, true, false, _) => UcWriteFirst,
            (false, false, false, _) => UcWriteMiddle,
            (false, false, true, false) => UcWriteLast,
            (false, false, true, true) => UcWriteLastImm,
            (false, true, true, false) => UcWriteOnly,
            (false, true, true, true) => UcWriteOnlyImm,
        };
        let to = (message.at, message.total);
        (message.left, message.begins) = (message.left - len, false);
        self.message = (!ends).then_some(message);
        let psn = self.psn;
        self.psn = (self.psn + 1) & 0xff_ffff;
        (opcode, psn, self.payload(len), to)
    }
}

/// Sends, posts, loses and forges at random.
fn play(config: &str, v6: bool, shared: bool, seed: u64, steps: usize) {
    let mut bench = bench(config, v6, shared);
    let mut sender = Sender { rng: SmallRng::seed_from_u64(seed), psn: FIRST, message: None };
    let (mut posted, mut burst) = (0u64, 0);
    for _ in 0..steps {
        let rng = &mut sender.rng;
        if rng.random_bool(0.3) && posted < 60 {
            let mut places = Vec::new();
            for _ in 0..rng.random_range(1..=3) {
                let len = [40, 41, 100, MTU, 700][rng.random_range(0..5)];
                places.push((rng.random_range(0..AREA - len), len));
            }
            let which = rng.random_range(0..2);
            bench.receive(which, posted, &places);
            (posted, burst) = (posted + 1, 0);
            continue;
        }
        let key = bench.region.rkey();
        let frame = if rng.random_bool(0.4) {
            let len = [0, 1, 60, MTU, 657, 900, 4096][rng.random_range(0..7)];
            let opcode = [Opcode::UdSendOnly, Opcode::UdSendOnlyImm][rng.random_range(0..2)];
            let (psn, spoil) = (rng.random_range(0..1 << 24), rng.random_range(0..24));
            let bit = 1u32 << rng.random_range(0..32);
            let payload = sender.payload(len);
            bench.frame(UD, opcode, psn, &payload, |frame| match spoil {
                0 => frame.ext.deth.as_mut().unwrap().qkey ^= bit,
                1 => frame.bth.pkey ^= 1,
                // Forged for a connection.
                2 => frame.bth.opcode = Opcode::UcSendOnly.code(),
                3 => frame.bth.opcode = Opcode::RcSendOnly.code(),
                4 => frame.payload = &payload[..0],
                _ => {}
            })
        } else {
            let (opcode, psn, payload, (at, total)) = sender.next();
            let rng = &mut sender.rng;
            let spoil = match rng.random_range(0..30) {
                // For a message of a wrong length the engine takes a receive of the shared queue and keeps it for the next, the card takes
                // none: either may be.
                5 | 9 if shared => 30,
                spoil => spoil,
            };
            match spoil {
                // Lost; begun anew; a jump.
                0 => continue,
                1 => sender.message = None,
                2 => sender.psn = (sender.psn + rng.random_range(1..1 << 23)) & 0xff_ffff,
                _ => {}
            }
            bench.frame(UC, opcode, psn, &payload, |frame| {
                let reth = frame.ext.reth.as_mut().unwrap();
                (reth.va, reth.len) = (VA + at as u64, total as u32);
                match spoil {
                    3 => reth.rkey = key ^ 1,
                    4 => reth.va = VA - 1,
                    5 => reth.len += 1,
                    6 => frame.bth.pkey = 0x7ffe,
                    7 => frame.bth.opcode = Opcode::UdSendOnly.code(),
                    8 => frame.bth.opcode &= 0x1f,
                    9 => frame.payload = &payload[..payload.len() / 2],
                    10 => match &mut frame.ip {
                        Ip::V4(ip) => ip.src ^= 4,
                        Ip::V6(ip) => ip.src ^= 4,
                    },
                    11 => frame.bth.destqp = 0xff_fff0,
                    _ => {}
                }
            })
        };
        bench.send(&frame);
        burst += 1;
        if burst == 5 {
            bench.run(1_500);
            burst = 0;
        }
    }
    let what = format!("{config}, IPv6 {v6}, shared {shared}, seed {seed}");
    let done = bench.compare(&what);
    assert!(done.len() > 10, "{what}: {} completions", done.len());
    assert!(
        done.iter().any(|done| done.qpn == bench.qpn(UD))
            && done.iter().any(|done| done.qpn == bench.qpn(UC))
    );
}

#[test]
fn card_and_engine_take_and_drop_the_same_packets() {
    for config in chosen!(CONFIGS) {
        for (i, (v6, shared)) in
            [(false, false), (true, false), (false, true), (true, true)].into_iter().enumerate()
        {
            play(config, v6, shared, 1 + i as u64, 400);
        }
    }
}

#[test]
fn a_datagram_of_the_largest_path_mtu_fills_pieces_over_pages() {
    for config in chosen!(CONFIGS) {
        for v6 in [false, true] {
            let mut bench = bench(config, v6, false);
            bench.receive(UD, 1, &[(4090, 4136)]);
            bench.receive(UD, 2, &[(12_000, 39), (12_285, 1), (16_383, 2), (20_000, 5000)]);
            for (i, len) in [4096, 4096].into_iter().enumerate() {
                let payload: Vec<u8> = (0..len).map(|b| (b * 3 + i) as u8).collect();
                let frame = bench.frame(UD, Opcode::UdSendOnly, i as u32, &payload, |_| {});
                bench.send(&frame);
                bench.run(2_000);
            }
            let done = bench.compare(config);
            assert_eq!(done.len(), 2);
            assert_eq!(done[0].well.map(|well| well.bytes), Some(4136));
        }
    }
}

#[test]
fn a_receive_with_a_wrong_key_takes_its_queue_pair_to_the_error_state_in_silence() {
    for config in chosen!(CONFIGS) {
        for which in [UC, UD] {
            let mut bench = bench(config, false, false);
            let mut sge = bench.region.sge(0, 200);
            sge.lkey ^= 1;
            let mut batch = bench.qps[which].start_post_recv();
            batch.post(&RecvWr::new(7, &[sge])).unwrap();
            batch.ring().unwrap();
            let wr =
                model::RecvWr::new(7, &[model::Sge { addr: sge.address, lkey: sge.lkey, len: sge.bytes }]);
            bench.engine.post_recv(bench.qps[which].number(), wr).unwrap();
            bench.receive(which, 8, &[(0, 100)]);
            let opcode = [Opcode::UcSendOnly, Opcode::UdSendOnly][which];
            let frame = bench.frame(which, opcode, FIRST, &[1; 50], |_| {});
            bench.send(&frame);
            bench.run(2_000);
            let done = bench.compare(config);
            let ends: Vec<_> = done.iter().map(|done| (done.wr_id, done.status)).collect();
            assert_eq!(ends, [(7, WcStatus::LocProtErr), (8, WcStatus::WrFlushErr)]);
        }
    }
}
