// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lane of the raw Ethernet queue pair: frames that are not RoCE, both ways, among all that is.
//!
//! Frames have a number in their source address, so each is another one. What must come of them:
//!
//! - each frame leaves as it was posted, in order; one that was wrong, and those behind it, do not leave, and the queue goes on from SQE;
//! - a receive that is completed holds a frame that the wire delivered, whole, and no byte more; receives end in their order;
//! - a frame came only if a filter of that time let it pass; so did what was a RoCE packet until the wire changed it;
//! - on a wire that keeps the order, frames come in theirs, and one is left out only when a filter kept it off, when it was longer than the receive
//!   that was next, or when there was none;
//! - a packet that was meant to be RoCE and is none (cut short, a wrong ICRC) never comes;
//! - the counters of frames that came and were sent say the same.
//!
//! What a wire spoils of a raw frame is lost: Ethernet's frame check sequence covers it.

pub mod frames;
mod play;
mod wire;

use ferrowire::RawFilter;
use ferrowire_spec::csr::port::multicast_hash;
use ferrowire_spec::wire::eth::mac_number;
use ferrowire_spec::wire::opcode::Service;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng, SeedableRng};

use super::ends::{mac, Region, Rights, Room, RECEIVE_PIECES};
use super::generate::region;
use super::program::{Limits, Pace};
pub(super) use play::Run;
pub use wire::{is_raw, Traffic};

/// Of the seeds of these lanes: so the others are what they were.
const SALT: u64 = 0x5241_5745_5448;

/// Bytes that the frames of a side have in one life, and bytes of its receives, at most: few pages are left.
const SOURCE: usize = 20 << 10;
const INBOX: usize = 24 << 10;

/// Everybody's address.
const BROADCAST: [u8; 6] = [0xff; 6];

/// Groups that frames go to; some of them are in filters.
const GROUPS: [[u8; 6]; 5] = [
    [0x33, 0x33, 0, 0, 0, 1],
    [0x33, 0x33, 0xff, 0, 0, 2],
    [1, 0, 0x5e, 0, 0, 1],
    [1, 0, 0x5e, 0, 0, 0xfb],
    [1, 0x80, 0xc2, 0, 0, 0x0e],
];

/// Which frames come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// As the driver sets it.
    pub raw: RawFilter,
    /// With those to this port, those to any address.
    pub promiscuous: bool,
}

impl Filter {
    /// Any.
    pub fn random(rng: &mut SmallRng) -> Self {
        if rng.random_bool(0.5) {
            return Self { raw: RawFilter::port(), promiscuous: rng.random_bool(0.2) };
        }
        let groups = GROUPS.iter().filter(|_| rng.random_bool(0.4)).copied().collect();
        let mut bit = |share| rng.random_bool(share);
        let raw = RawFilter { unicast: bit(0.8), broadcast: bit(0.5), multicast: bit(0.3), groups };
        Self { raw, promiscuous: bit(0.3) }
    }

    /// The bits of its groups.
    pub fn table(&self) -> u64 {
        self.raw.groups.iter().fold(0, |table, mac| table | 1 << multicast_hash(mac_number(*mac)))
    }

    /// Whether a frame to that address comes to a side.
    pub fn passes(&self, to: [u8; 6], side: usize) -> bool {
        let group = to[0] & 1 == 1;
        let as_group = match to {
            BROADCAST => self.raw.broadcast,
            _ => group && (self.raw.multicast || self.table() >> multicast_hash(mac_number(to)) & 1 == 1),
        };
        as_group || self.raw.unicast && (self.promiscuous || to == mac(side))
    }

    /// What passes while one takes the place of the other, at most: a few registers are written one after the other.
    fn or(&self, other: &Self) -> Self {
        let (a, b) = (&self.raw, &other.raw);
        Self {
            raw: RawFilter {
                unicast: a.unicast || b.unicast,
                broadcast: a.broadcast || b.broadcast,
                multicast: a.multicast || b.multicast,
                groups: [&a.groups[..], &b.groups].concat(),
            },
            promiscuous: self.promiscuous || other.promiscuous,
        }
    }
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A local key with another tag.
    Key,
    /// No SEND.
    Opcode,
}

/// A frame.
#[derive(Clone, Debug)]
pub struct Message {
    /// From the destination address on.
    pub data: Vec<u8>,
    /// Its place in the source.
    pub at: usize,
    /// Pieces of local memory that hold it.
    pub pieces: usize,
    /// It stands in the request.
    pub inline: bool,
    /// Complete it on success too.
    pub signaled: bool,
    /// What is wrong with it.
    pub mistake: Option<Mistake>,
}

/// Another filter.
#[derive(Clone, Debug)]
pub struct Change {
    /// When the peer has posted so many frames.
    pub after: usize,
    /// When nothing is under way, for which the peer waits; else whatever is.
    pub calm: bool,
    /// From then on.
    pub filter: Filter,
}

/// From RESET to RESET.
#[derive(Clone, Debug)]
pub struct Life {
    /// Frames of each side.
    pub work: [Vec<Message>; 2],
    /// What each side does with its filter.
    pub changes: [Vec<Change>; 2],
    /// When each posts receives.
    pub pace: [Pace; 2],
    /// One of its receives has a key with another tag.
    pub spoilt: [bool; 2],
    /// When so many frames have been posted, both are reset, whatever is under way.
    pub reset: Option<usize>,
    /// At its end the queue pairs are destroyed, and made anew.
    pub anew: bool,
}

/// The raw Ethernet queue pair of each end.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its number in the program, also when it runs alone.
    pub number: usize,
    /// What the queues have room for.
    pub room: Room,
    /// One after the other.
    pub lives: Vec<Life>,
    /// Bytes of a receive, at most.
    pub slot: usize,
    /// For each side, what it sends from, and behind that its receives with a byte between any two.
    pub memory: [Region; 2],
    /// Of when things happen.
    pub seed: u64,
}

/// The lanes of a program's seed, one or none; the others are before it.
pub(super) fn lanes(seed: u64, limits: &Limits, before: usize) -> Vec<Lane> {
    let mut rng = SmallRng::seed_from_u64(seed ^ SALT);
    let some = limits.raw && rng.random_bool(0.5);
    some.then(|| lane(&mut rng, limits, before)).into_iter().collect()
}

fn lane(rng: &mut SmallRng, limits: &Limits, number: usize) -> Lane {
    let (limits, push) = &limits.for_lane(rng);
    let room = Room {
        service: Service::Raw,
        sends: [2, 4, 8][rng.random_range(0..3)],
        send_pieces: limits.pieces as u8,
        inline: limits.inline as u16,
        receives: [2, 4, 8][rng.random_range(0..3)],
        receive_pieces: [1, 4, RECEIVE_PIECES as u8][rng.random_range(0..3)],
        shared: false,
        push: *push,
    };
    let most = (INBOX / room.receives as usize - 1).min(4096);
    let slot = if rng.random_bool(0.5) { most } else { rng.random_range(100..=most) };
    let mut count = 0;
    let lives = (0..[1, 1, 2, 3][rng.random_range(0..4)]).map(|_| life(rng, limits, &mut count)).collect();
    let bytes = SOURCE + room.receives as usize * (slot + 1);
    let memory = [(); 2].map(|()| region(rng, bytes, Rights::Local, None));
    Lane { number, room, lives, slot, memory, seed: rng.random() }
}

fn life(rng: &mut SmallRng, limits: &Limits, count: &mut u32) -> Life {
    let senders: &[usize] = [&[0][..], &[1], &[0, 1], &[0, 1]][rng.random_range(0..4)];
    let mut work = [Vec::new(), Vec::new()];
    for side in senders {
        let (mut at, mut silent) = (0, 0);
        for _ in 0..rng.random_range(1..=16) {
            *count += 1;
            let data = frames::random(rng, [*side, 1 - side], *count);
            if at + data.len() > SOURCE {
                break;
            }
            let mistake = [Mistake::Key, Mistake::Opcode].choose(rng).copied();
            let mistake = mistake.filter(|_| rng.random_bool(0.03));
            let inline = data.len() <= limits.inline && mistake.is_none() && rng.random_bool(0.3);
            // Without a completion now and then, a queue never has room again.
            silent += 1;
            let signaled = silent == 2 || rng.random_bool(0.7);
            silent = if signaled { 0 } else { silent };
            let pieces = rng.random_range(1..=limits.pieces.min(data.len()));
            work[*side].push(Message { at, pieces, inline, signaled, mistake, data });
            at += work[*side].last().map_or(0, |message| message.data.len()) + rng.random_range(0..8);
        }
        if let Some(last) = work[*side].last_mut() {
            last.signaled = true;
        }
    }
    let changes = [1, 0].map(|peer: usize| {
        let mut after: Vec<usize> =
            (0..rng.random_range(0..3)).map(|_| rng.random_range(0..=work[peer].len())).collect();
        after.sort_unstable();
        // The first thing is to let something pass.
        let first = Change { after: 0, calm: true, filter: Filter::random(rng) };
        let change = |after| Change { after, calm: rng.random_bool(0.5), filter: Filter::random(rng) };
        [first].into_iter().chain(after.into_iter().map(change)).collect()
    });
    let all: usize = work.iter().map(Vec::len).sum();
    Life {
        changes,
        pace: [(); 2].map(|()| [Pace::Ahead, Pace::Ahead, Pace::Steady, Pace::Late][rng.random_range(0..4)]),
        spoilt: [(); 2].map(|()| rng.random_bool(0.05)),
        reset: rng.random_bool(0.2).then(|| rng.random_range(0..=all)),
        anew: rng.random_bool(0.3),
        work,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ferrowire_spec::wire::Frame;

    use super::super::{limits, Mode};
    use super::*;

    /// What its name says of a frame: why it is no RoCE packet.
    fn why(data: &[u8]) -> &'static str {
        let error = Frame::parse(data).expect_err("no frame of these is a RoCE packet");
        error.drop_reason().expect("a reason to drop it").name()
    }

    #[test]
    fn frames_are_of_every_kind_and_none_is_a_roce_packet() {
        let limits = limits("generic-8b", Mode::RtlModel).unwrap();
        let (mut kinds, mut lengths, mut tagged) = (BTreeMap::<_, usize>::new(), [0; 3], 0);
        for lane in (0..400).flat_map(|seed| lanes(seed, &limits, 0)) {
            for message in lane.lives.iter().flat_map(|life| life.work.iter().flatten()) {
                let data = &message.data;
                assert!((14..=4096).contains(&data.len()), "{}", data.len());
                *kinds.entry(why(data)).or_default() += 1;
                lengths[(data.len() / 60).min(2)] += 1;
                tagged += usize::from(data[12..14] == [0x81, 0]);
            }
        }
        let wanted =
            ["drop_not_roce", "drop_ip_fragment", "drop_length", "drop_icrc", "drop_runt", "drop_ip_header"];
        assert!(wanted.iter().all(|kind| kinds.get(kind).is_some_and(|n| *n > 20)), "{kinds:?}");
        assert!(lengths.iter().all(|n| *n > 50) && tagged > 50, "{lengths:?}, {tagged}");
    }

    #[test]
    fn a_filter_lets_pass_what_it_says() {
        let own = mac(1);
        let to = [own, mac(0), BROADCAST, GROUPS[0], GROUPS[3]];
        let passes = |filter: &Filter| to.map(|to| filter.passes(to, 1));
        let port = Filter { raw: RawFilter::port(), promiscuous: false };
        let group = RawFilter { groups: vec![GROUPS[0]], ..RawFilter::default() };
        let group = Filter { raw: group, promiscuous: true };
        assert_eq!(passes(&port), [true, false, true, true, true]);
        assert_eq!(passes(&group), [false, false, false, true, false]);
        assert_eq!(passes(&port.or(&group)), [true; 5]);
        let all = RawFilter { unicast: true, ..RawFilter::default() };
        assert_eq!(passes(&Filter { raw: all, promiscuous: true }), [true; 5]);
    }
}
