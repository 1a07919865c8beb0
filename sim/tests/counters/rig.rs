// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two cards, all of whose counters are looked at after each case.

use std::net::IpAddr;

use ferrowire::{
    AccessFlags, Completion, DropReason, HwCounter, MemoryRegion, PathMtu, QpAttributes, QpState, QueuePair,
    RecvWr,
};
use ferrowire_sim::hostile::forge::between;
pub use ferrowire_sim::pair::post;
use ferrowire_sim::pair::{Connection, Node, Pair, PairOptions, EMULATED};
use ferrowire_sim::wire::{encoded, Delivery};
use ferrowire_spec::wire::eth::mac_number;
use ferrowire_spec::wire::{Bth, Cnp, Eth, Extensions, Frame, Opcode, Reth};

pub const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];
pub const CARDS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cycles for what a case waits for.
pub const LIMIT: u64 = 400_000;

/// What the card counts is behind by so much.
pub const SWEEP: u64 = 1_000;

/// Unit of time-outs, in cycles.
const TICK: u32 = 16;

/// A time-out of 1,024 to 4,096 cycles.
pub const SHORT: u8 = 6;

/// Bytes a packet of a connection.
pub const MTU: u32 = 256;

/// Bytes of each region.
pub const ROOM: usize = 64 * 1024;

/// First PSNs of both ways.
pub const PSNS: (u32, u32) = (0x1000, 0x2000);

/// A counter of errors or drops, or of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    Hw(HwCounter),
    Drop(DropReason),
}

/// Of which card, which counter and by how much.
pub type Move = (usize, Counter, u64);

/// Something that happens, and all that counts it.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub moves: &'static [Move],
    pub run: fn(&mut Rig),
}

fn all() -> impl Iterator<Item = Counter> {
    let hw = HwCounter::ALL.iter().map(|counter| Counter::Hw(*counter));
    hw.chain(DropReason::ALL.iter().map(|reason| Counter::Drop(*reason)))
}

/// Runs all cases of a table, one after the other, over cards of both configurations and over emulated ones.
#[track_caller]
pub fn check(cases: &[Case]) {
    check_over(&CONFIGS, cases);
}

/// Those of what only a card has: buffers, and work that is under way while more comes.
#[track_caller]
pub fn check_cards(cases: &[Case]) {
    check_over(&CARDS, cases);
}

#[track_caller]
fn check_over(configs: &[&str], cases: &[Case]) {
    let mut wrong = Vec::new();
    for config in configs {
        let mut rig = Rig::new(config);
        let mut before = rig.snapshot();
        for case in cases {
            (case.run)(&mut rig);
            rig.settle();
            (0..2).for_each(|link| rig.pair.world.lock().link_mut(link).set_filter(None));
            let now = rig.snapshot();
            for card in 0..2 {
                for (counter, (now, before)) in all().zip(now[card].iter().zip(&before[card])) {
                    let found = now - before;
                    let of = |m: &&Move| (m.0, m.1) == (card, counter);
                    let wanted: u64 = case.moves.iter().filter(of).map(|m| m.2).sum();
                    if found != wanted {
                        wrong.push(format!(
                            "{config}, {}: card {card}: {counter:?} rose by {found}, not {wanted}",
                            case.name
                        ));
                    }
                }
            }
            before = now;
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Two cards with a region each.
pub struct Rig {
    pub pair: Pair,
    pub regions: [MemoryRegion; 2],
    /// What the cards are.
    pub config: String,
}

impl Rig {
    fn new(config: &str) -> Self {
        let pair = Pair::named(config, &PairOptions::default()).unwrap();
        let all = AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
        let regions = [&pair.a, &pair.b].map(|node| {
            node.context.set_timer_tick(TICK).unwrap();
            // A second address, that no queue pair has.
            node.context.add_gid(other_ip(node.card), None).unwrap();
            node.region(0, ROOM, all).unwrap()
        });
        Self { pair, regions, config: config.into() }
    }

    pub fn node(&self, card: usize) -> &Node {
        [&self.pair.a, &self.pair.b][card]
    }

    fn snapshot(&self) -> [Vec<u64>; 2] {
        [0, 1].map(|card| all().map(|counter| self.counter(card, counter)).collect())
    }

    /// A counter of a card.
    pub fn counter(&self, card: usize, counter: Counter) -> u64 {
        match counter {
            Counter::Hw(counter) => self.node(card).context.hw_counter(counter).unwrap(),
            Counter::Drop(reason) => self.node(card).context.drop_counter(reason).unwrap(),
        }
    }

    /// How queue pairs of packets of 256 bytes are connected, with all rights and long time-outs.
    pub fn connection(&self) -> Connection {
        Connection {
            mtu: PathMtu::B256,
            access: AccessFlags::REMOTE,
            signal_all: true,
            psns: Some(PSNS),
            rd_atomic: 4,
            min_rnr_timer: 1,
            ..Connection::default()
        }
    }

    /// Queue pairs that are connected like this.
    pub fn connect(&self, connection: &Connection) -> (QueuePair, QueuePair) {
        self.pair.connect(connection).unwrap()
    }

    /// Runs until nothing is on the wire and what happened has been counted.
    pub fn settle(&self) {
        let mut world = self.pair.world.lock();
        for _ in 0..2 {
            assert!(world.run_until(LIMIT, |world| (0..2).all(|link| world.link(link).idle())));
            world.run(SWEEP);
        }
        world.check().unwrap();
    }

    pub fn run(&self, cycles: u64) {
        self.pair.world.lock().run(cycles);
    }

    /// As many completions of a card.
    #[track_caller]
    pub fn wait(&self, card: usize, count: usize) -> Vec<Completion> {
        match self.node(card).wait(&self.pair.world, count, LIMIT) {
            Ok(done) => done,
            Err(error) => panic!("{error}{}", self.pair.diagnose()),
        }
    }

    /// As many completions of a card, which went well.
    #[track_caller]
    pub fn wait_well(&self, card: usize, count: usize) {
        let done = self.wait(card, count);
        assert!(done.iter().all(Completion::is_success), "{done:?}{}", self.pair.diagnose());
    }

    /// As many completions of a card, of which so many went well, and those first.
    #[track_caller]
    pub fn wait_ill(&self, card: usize, count: usize, well: usize) {
        let done = self.wait(card, count);
        let found = done.iter().take_while(|done| done.is_success()).count();
        let all = done.iter().filter(|done| done.is_success()).count();
        assert_eq!((found, all), (well, well), "{done:?}{}", self.pair.diagnose());
    }

    /// Loses the frames of a link that `loses` says, of those from now on.
    pub fn lose(&self, link: usize, mut loses: impl FnMut(usize, &Frame<'_>) -> bool + Send + 'static) {
        let mut nth = 0;
        self.filter(link, move |bytes| {
            let frame = Frame::parse(bytes).expect("a card sends sound frames");
            nth += 1;
            if loses(nth - 1, &frame) {
                vec![]
            } else {
                vec![bytes.to_vec()]
            }
        });
    }

    pub fn filter(&self, link: usize, filter: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static) {
        self.pair.world.lock().link_mut(link).set_filter(Some(Box::new(filter)));
    }

    /// A packet of the other card to a queue pair of `card`.
    pub fn packet(&self, card: usize, opcode: Opcode, qpn: u32, psn: u32) -> Frame<'static> {
        let (from, to) = (self.node(1 - card), self.node(card));
        let bth = Bth { opcode: opcode.code(), psn, destqp: qpn, pkey: 0xffff, ..Bth::default() };
        let eth = Eth { dst: mac_number(to.mac()), src: mac_number(from.mac()), ..Eth::default() };
        Frame { eth, ip: between(from.ip(false), to.ip(false)), bth, ..Frame::default() }
    }

    /// A WRITE of 16 bytes to a queue pair of `card`.
    pub fn write(&self, card: usize, opcode: Opcode, qpn: u32, psn: u32) -> Frame<'static> {
        let to = self.regions[card].remote(0);
        let reth = Some(Reth { va: to.address, rkey: to.rkey, len: 16 });
        let ext = Extensions { reth, ..Extensions::default() };
        Frame { ext, payload: &[7; 16], ..self.packet(card, opcode, qpn, psn) }
    }

    /// A READ to a queue pair of `card`.
    pub fn read(&self, card: usize, qpn: u32, psn: u32, len: u32) -> Frame<'static> {
        let from = self.regions[card].remote(0);
        let reth = Some(Reth { va: from.address, rkey: from.rkey, len });
        let ext = Extensions { reth, ..Extensions::default() };
        Frame { ext, ..self.packet(card, Opcode::RcReadRequest, qpn, psn) }
    }

    /// A CNP to a queue pair of `card`.
    pub fn cnp(&self, card: usize, qpn: u32) -> Frame<'static> {
        let mut frame = self.packet(card, Opcode::Cnp, qpn, 0);
        frame.bth.becn = true;
        frame.ext.cnp = Some(Cnp::default());
        frame
    }

    /// Delivers a frame to a card, so many times.
    pub fn inject(&self, card: usize, times: usize, bytes: &[u8]) {
        let mut world = self.pair.world.lock();
        (0..times).for_each(|_| world.inject(1 - card, bytes.to_vec()));
    }

    /// The same for a packet that is sound.
    pub fn tell(&self, card: usize, times: usize, frame: Frame<'_>) {
        self.inject(card, times, &sealed(frame));
    }
}

/// Card's address that no queue pair has.
pub fn other_ip(card: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, 77 + card as u8])
}

/// The bytes of a packet, with all that follows from the rest.
pub fn sealed(mut frame: Frame<'_>) -> Vec<u8> {
    frame.seal().unwrap();
    encoded(&frame).unwrap()
}

/// Posts so many receives of `bytes` each, of the region of its card.
pub fn receive(qp: &mut QueuePair, to: &MemoryRegion, count: usize, bytes: u32) {
    let mut batch = qp.start_post_recv();
    for id in 0..count {
        batch.post(&RecvWr::new(id as u64, &[to.sge(0, bytes)])).unwrap();
    }
    batch.ring().unwrap();
}

/// Takes a queue pair to ERR.
pub fn fail(qp: &mut QueuePair) {
    qp.modify(QpState::Err, &QpAttributes::default()).unwrap();
}

/// What passes a link is 2,000 cycles late from now on.
pub fn delay(rig: &Rig, link: usize) {
    let late = |frame: &[u8]| vec![Delivery { delay: 2_000, ..Delivery::at_once(frame.to_vec()) }];
    rig.pair.world.lock().link_mut(link).set_timed_filter(Some(Box::new(late)));
}
