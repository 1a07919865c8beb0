// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive queues, of queue pairs and shared ones.

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, AddressHandle, HostMemory, LocalCause, MemoryRegion, PageSize, ProtectionDomain, QpInitAttr,
    QpState, QueuePair, RecvWr, SendWr, SrqInitAttr, WcStatus,
};
use ferrowire_sim::pair::Connection;
use ferrowire_spec::queue::send_wqe::sge;
use ferrowire_spec::queue::WQE_UNIT;
use ferrowire_spec::wire::opcode::Service;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::rig::{all, any, connection, inside, said, Rig, CONFIGS};

/// Bytes of each region.
const SIZE: usize = 8192;

/// Bytes in front of a datagram.
const GRH: usize = 40;

/// The receive that is malformed, and those behind it.
const BAD: u64 = 100;
const BEHIND: u64 = 200;

const WELL: WcStatus = WcStatus::Success;
const FLUSHED: WcStatus = WcStatus::WrFlushErr;

/// Address, key, bytes.
type Element = (u64, u32, u32);

/// Why a receive fails, as the card may say; with nothing, it does not.
type Why = Vec<(WcStatus, LocalCause)>;

/// Memory of both sides.
struct Ground {
    from: MemoryRegion,
    /// For receives.
    inbox: MemoryRegion,
    /// For receives that are as they should be.
    beside: MemoryRegion,
    /// Nobody may write here.
    closed: MemoryRegion,
    /// Of another domain.
    foreign: MemoryRegion,
    handle: AddressHandle,
    _foreigners: ProtectionDomain,
}

impl Ground {
    fn new(rig: &mut Rig) -> Self {
        let (a, b) = (rig.node(0), rig.node(1));
        let foreigners = b.context.alloc_pd().unwrap();
        let memory = b.context.alloc(SIZE, 4096).unwrap();
        let ground = Ground {
            from: a.region(0, SIZE, AccessFlags::LOCAL_READ).unwrap(),
            inbox: b.region(0, SIZE, AccessFlags::LOCAL_WRITE).unwrap(),
            beside: b.region(0, SIZE, AccessFlags::LOCAL_WRITE).unwrap(),
            closed: b.region(0, SIZE, AccessFlags::LOCAL_READ).unwrap(),
            foreign: foreigners.register(&memory, all(), PageSize::Size4K).unwrap(),
            handle: a.pd.create_ah(&a.way(b, &Connection::default())).unwrap(),
            _foreigners: foreigners,
        };
        let mut data = vec![0; SIZE];
        SmallRng::seed_from_u64(5).fill_bytes(&mut data);
        ground.from.memory().write(0, &data);
        rig.lets_write(1, ground.inbox.memory());
        rig.lets_write(1, ground.beside.memory());
        rig.hides(1, ground.foreign.memory());
        ground
    }

    fn refused(&self, (address, key, bytes): Element) -> Option<LocalCause> {
        match key {
            key if key == self.foreign.lkey() => Some(LocalCause::KeyPd),
            key if key == self.closed.lkey() => Some(LocalCause::KeyAccess),
            key if key == self.inbox.lkey() => {
                (!inside(&self.inbox, address, bytes.into())).then_some(LocalCause::KeyBounds)
            }
            key if key >> 8 == self.inbox.lkey() >> 8 => Some(LocalCause::KeyTag),
            _ => Some(LocalCause::KeyIndex),
        }
    }

    /// Where a message goes by these elements: its pieces, and what may be wrong. The elements are looked at in their order, as far as they are
    /// needed, and each as a whole.
    fn judge(&self, elements: &[Element], length: usize) -> (Vec<(usize, usize)>, Why) {
        let (mut left, mut pieces, mut why) = (length, Vec::new(), Why::new());
        for element in elements.iter().filter(|element| element.2 > 0) {
            let bytes = left.min(element.2 as usize);
            if bytes == 0 {
                break;
            }
            if let Some(cause) = self.refused(*element) {
                why.push((WcStatus::LocProtErr, cause));
            }
            pieces.push((element.0.wrapping_sub(self.inbox.address()) as usize, bytes));
            left -= bytes;
        }
        // The first that is wrong counts; but a packet that does not fit is found out as a whole.
        why.truncate(1);
        if left > 0 {
            why.push((WcStatus::LocLenErr, LocalCause::Length));
        }
        (pieces, why)
    }

    fn of(&self, offset: i64, bytes: u32) -> Element {
        (self.inbox.address().wrapping_add_signed(offset), self.inbox.lkey(), bytes)
    }
}

fn bytes_of(elements: &[Element], units: usize) -> Vec<u8> {
    let mut all = vec![0; units * WQE_UNIT];
    for (at, (addr, lkey, len)) in all.chunks_mut(sge::BYTES).zip(elements) {
        sge::Sge { addr: *addr, lkey: *lkey, len: *len }.emit(at).unwrap();
    }
    all
}

/// How a test plays a receive.
struct Case {
    service: Service,
    units: usize,
    /// Bytes of each message.
    length: usize,
    many: usize,
}

fn send(ground: &Ground, qp: &mut QueuePair, peer: u32, id: u64, length: usize) {
    let sges = [ground.from.sge(0, length as u32)];
    let wr = SendWr::send(id, &sges).signaled();
    let wr = if qp.service() == Service::Ud { wr.to(&ground.handle, peer, 1 << 31) } else { wr };
    qp.start_post_send().post(&wr).unwrap();
}

/// Whether the message is there, in its pieces.
fn check(ground: &Ground, pieces: &[(usize, usize)], header: usize, length: usize, what: &str) {
    let (mut sent, mut got) = (vec![0; length], Vec::new());
    ground.from.memory().read(0, &mut sent);
    for (at, bytes) in pieces {
        let mut piece = vec![0; *bytes];
        ground.inbox.memory().read(*at, &mut piece);
        got.extend(piece);
    }
    assert!(got[header..] == sent, "{what}: other bytes were received");
}

/// One queue pair with such a receive among good ones; messages come for all of them.
fn play(rig: &mut Rig, ground: &Ground, case: &Case, elements: &[Element], what: &str) -> bool {
    let Case { service, units, length, many } = *case;
    let header = if service == Service::Ud { GRH } else { 0 };
    let (pieces, why) = ground.judge(elements, header + length);
    let what = format!("{what}: {service}, {length} bytes, {elements:x?}, {why:?}");
    let (a, b) = (rig.node(0), rig.node(1));
    let mut attr = QpInitAttr::rc(&a.cq, &a.cq);
    attr.service = service;
    let own = a.pd.create_qp(&attr).unwrap();
    let mut attr = QpInitAttr::rc(&b.cq, &b.cq);
    (attr.service, attr.max_recv_sge) = (service, 4 * units as u8);
    let (theirs, rings) = rig.rings_of(1, || b.pd.create_qp(&attr).unwrap());
    let (mut qp, mut peer) = rig.pair.bring_up(own, theirs, &connection()).unwrap();
    ground.inbox.memory().fill(0, SIZE, 0);
    let good = [ground.beside.sge(8, 4000)];
    let mut batch = peer.start_post_recv();
    (0..many).for_each(|i| batch.post(&RecvWr::new(i as u64, &good)).unwrap());
    batch.post(&RecvWr::new(BAD, &good)).unwrap();
    // Behind the ring of its send queue.
    rings[1].write(many * units * WQE_UNIT, &bytes_of(elements, units));
    (0..many).for_each(|i| batch.post(&RecvWr::new(BEHIND + i as u64, &good)).unwrap());
    batch.ring().unwrap();
    for i in 0..=2 * many {
        send(ground, &mut qp, peer.number(), i as u64, length);
    }
    let count = 2 * many + 1;
    let there = rig.ends(1, count);
    let here = rig.ends(0, count);
    assert!(there.iter().all(|done| done.qpn() == peer.number()), "{what}: {there:?}");
    let there: Vec<_> = there.iter().map(said).collect();
    assert!((0..).zip(&there[..many]).all(|(i, end)| *end == (i, WELL, 0)), "{what}: {there:?}");
    let (id, status, syndrome) = there[many];
    let ends: Vec<_> = why.iter().map(|(status, cause)| (*status, cause.code())).collect();
    let right = if why.is_empty() { status == WELL } else { ends.contains(&(status, syndrome)) };
    assert!(right && id == BAD, "{what}: {there:?}");
    let follows = if why.is_empty() { WELL } else { FLUSHED };
    assert!(
        (BEHIND..).zip(&there[many + 1..]).all(|(id, end)| *end == (id, follows, 0)),
        "{what}: {there:?}"
    );
    // The sender is told, if anybody tells it.
    for (i, done) in here.iter().enumerate() {
        let wanted = match i {
            _ if why.is_empty() || service != Service::Rc || i < many => WELL,
            _ if i > many => FLUSHED,
            _ if status == WcStatus::LocLenErr => WcStatus::RemInvReqErr,
            _ => WcStatus::RemOpErr,
        };
        assert_eq!((done.wr_id(), done.status().known()), (i as u64, Some(wanted)), "{what}: {there:?}");
    }
    let state = |fails: bool| if fails { QpState::Err } else { QpState::Rts };
    assert_eq!(peer.query().unwrap().state, state(!why.is_empty()), "{what}");
    assert_eq!(qp.query().unwrap().state, state(!why.is_empty() && service == Service::Rc), "{what}");
    if why.is_empty() {
        check(ground, &pieces, header, length, &what);
    }
    rig.others_go_on();
    why.is_empty()
}

/// Of a message of so many bytes: what is malformed, and the elements.
type Wrong = (&'static str, usize, fn(&Ground) -> Vec<Element>);

const WRONG: &[Wrong] = &[
    ("nothing for nothing", 0, |_| vec![]),
    ("nothing", 1, |_| vec![]),
    ("rubbish for nothing", 0, |_| vec![(!0, !0, !0)]),
    ("a byte too few", 1000, |g| vec![g.of(0, 999)]),
    ("a byte too few in four", 3000, |g| vec![g.of(0, 1), g.of(5, 2000), g.of(3000, 1), g.of(4000, 997)]),
    ("another tag", 700, |g| vec![(g.inbox.address(), g.inbox.lkey() ^ 1, 4096)]),
    ("a key behind the last", 700, |g| vec![(g.inbox.address(), g.inbox.lkey() | !0xff, 4096)]),
    ("another domain's key", 3000, |g| vec![(g.foreign.address(), g.foreign.lkey(), 4096)]),
    ("a key that grants nothing", 3000, |g| vec![(g.closed.address(), g.closed.lkey(), 4096)]),
    ("a byte before the region", 10, |g| vec![g.of(-1, 100)]),
    ("a byte behind the region", 10, |g| vec![g.of(8000, 193)]),
    ("behind the region", 10, |g| vec![g.of(8192, 10)]),
    ("round the end of all addresses", 3000, |g| vec![(!1000, g.inbox.lkey(), 4096)]),
    ("from the end of all addresses", 10, |g| vec![(g.inbox.address() | 1 << 63, g.inbox.lkey(), 16)]),
    ("half of all memory", 10, |g| vec![g.of(0, 1 << 31)]),
    ("more than there is, four times", 3000, |g| vec![g.of(0, !0); 4]),
    ("a good one and one of nobody", 900, |g| vec![g.of(0, 500), (0, 0xdead_be00, 500)]),
    ("a good packet and one of nobody", 3000, |g| vec![g.of(0, 1024), (0, 0xdead_be00, 4096)]),
    ("one of nobody that is not needed", 900, |g| vec![g.of(0, 900), (0, 0xdead_be00, 500)]),
    ("of nobody, and empty", 3000, |g| {
        vec![(!0, 0xdead_be00, 0), g.of(1, 2000), (7, 7, 0), g.of(4096, 1000)]
    }),
    ("the last byte", 3000, |g| vec![g.of(0, 2999), g.of(SIZE as i64 - 1, 1)]),
];

#[test]
fn a_malformed_receive_ends_with_its_cause_and_disturbs_nobody() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config);
        let ground = Ground::new(&mut rig);
        for (what, length, make) in WRONG {
            let case = Case { service: Service::Rc, units: 1, length: *length, many: 2 };
            play(&mut rig, &ground, &case, &make(&ground), &format!("{config}, {what}"));
        }
    }
}

#[test]
fn random_receives_end_as_they_should_and_disturb_nobody() {
    for (config, seed) in chosen!([("generic-8b", 1), ("generic-64b", 2)]) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut rig = Rig::new(config);
        let ground = Ground::new(&mut rig);
        let (mut well, mut round) = (0, 0);
        while round < 40 {
            let case = Case {
                service: any(&mut rng, &[Service::Rc, Service::Rc, Service::Uc, Service::Ud]),
                units: any(&mut rng, &[1, 2, 4]),
                length: any(&mut rng, &[0, 1, 100, 1024, 1025, 2500]),
                many: rng.random_range(1..4),
            };
            let mut at = 0;
            let mut elements: Vec<Element> = Vec::new();
            for _ in 0..4 * case.units {
                let bytes = any(&mut rng, &[0, 0, 1, 63, 500, 1100]).min((SIZE - at) as u32);
                elements.push(ground.of(at as i64, bytes));
                at += bytes as usize;
            }
            for _ in 0..rng.random_range(0..3) {
                let (address, key, bytes) = any(&mut rng, &elements);
                let other = match rng.random_range(0..5) {
                    0 => (rng.random(), rng.random(), rng.random()),
                    1 => (
                        address,
                        any(&mut rng, &[key ^ 1, !0, ground.closed.lkey(), ground.foreign.lkey()]),
                        bytes,
                    ),
                    2 => ground.of(any(&mut rng, &[-1, -4096, SIZE as i64 - 1, SIZE as i64]), bytes.max(2)),
                    3 => (address, key, any(&mut rng, &[1 << 13 | 1, 1 << 20, 1 << 31, !0])),
                    _ => (!rng.random_range(0..4000), key, 4096),
                };
                let i = rng.random_range(0..elements.len());
                elements[i] = other;
            }
            let header = if case.service == Service::Ud { GRH } else { 0 };
            let (_, why) = ground.judge(&elements, header + case.length);
            // What is too long for an unreliable receive leaves it where it is.
            if case.service != Service::Rc && why.iter().any(|(status, _)| *status == WcStatus::LocLenErr) {
                continue;
            }
            let what = format!("{config}, seed {seed}, round {round}");
            well += usize::from(play(&mut rig, &ground, &case, &elements, &what));
            round += 1;
        }
        assert!((8..32).contains(&well), "{config}, seed {seed}: {well} were well");
    }
}

/// A shared queue with good receives, the malformed one and good ones; others take from it as well.
fn share(rig: &mut Rig, ground: &Ground, elements: &[Element], what: &str) {
    const LENGTH: usize = 1500;
    let (pieces, why) = ground.judge(elements, LENGTH);
    let b = rig.node(1);
    let (mut srq, rings) = rig.rings_of(1, || b.pd.create_srq(&SrqInitAttr::default()).unwrap());
    let connect = |rig: &Rig| rig.pair.connect_sharing(&connection(), Some(&srq)).unwrap();
    let ((mut bad, peer), (mut friend, friends)) = (connect(rig), connect(rig));
    let ring: &HostMemory = &rings[0];
    let good = [ground.beside.sge(0, 4000)];
    let mut batch = srq.start_post_recv();
    for i in 0..9 {
        batch.post(&RecvWr::new(i, &good)).unwrap();
        if i == 2 {
            ring.write(2 * WQE_UNIT, &bytes_of(elements, 1));
        }
    }
    batch.ring().unwrap();
    (0..2).for_each(|i| send(ground, &mut friend, 0, i, LENGTH));
    let ends = rig.ends(1, 2);
    assert!(ends.iter().all(|done| done.qpn() == friends.number() && done.is_success()), "{what}: {ends:?}");
    // The third is the malformed one.
    send(ground, &mut bad, 0, 0, LENGTH);
    let mine = rig.ends(1, 1);
    let wanted = why.first().map_or((WELL, 0), |(status, cause)| (*status, cause.code()));
    assert_eq!(mine.iter().map(said).collect::<Vec<_>>(), [(2, wanted.0, wanted.1)], "{what}");
    assert_eq!(mine[0].qpn(), peer.number(), "{what}");
    if why.is_empty() {
        check(ground, &pieces, 0, LENGTH, what);
    }
    (0..6).for_each(|i| send(ground, &mut friend, 0, i, LENGTH));
    let ends = rig.ends(1, 6);
    let wanted: Vec<_> = (3..9).map(|id| (id, WELL, 0)).collect();
    assert!(ends.iter().all(|done| done.qpn() == friends.number()), "{what}: {ends:?}");
    assert_eq!(ends.iter().map(said).collect::<Vec<_>>(), wanted, "{what}");
    rig.ends(0, 9);
    assert_eq!(friends.query().unwrap().state, QpState::Rts, "{what}");
    rig.others_go_on();
}

#[test]
fn a_malformed_receive_of_a_shared_queue_ends_who_takes_it_alone() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config);
        let ground = Ground::new(&mut rig);
        let nobody = (0, 0xdead_be00, 4000);
        for elements in [
            vec![],
            vec![nobody],
            vec![ground.of(0, 1499)],
            vec![ground.of(0, 1024), nobody],
            vec![ground.of(0, !0)],
            vec![(ground.foreign.address(), ground.foreign.lkey(), 4000)],
            vec![ground.of(9, 1500), nobody],
        ] {
            share(&mut rig, &ground, &elements, &format!("{config}: {elements:x?}"));
        }
    }
}
