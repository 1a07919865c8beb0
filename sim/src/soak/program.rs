// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Program`]: what both ends do in a case, and what the wire between them does, all from one seed.
//!
//! ```text
//!  Program --+-- wire: faults of each direction, latencies
//!            +-- Lane: a queue pair at each end --+-- Life --+-- work of each side: messages, and buffers for them
//!                                                 |          +-- trouble: what else happens to the connection
//!                                                 +-- Life (after RESET, with other PSNs)
//! ```
//!
//! A program names neither keys nor what is under the ends. Each lane has random numbers of its own, so it is the same when it
//! runs alone. [`super::generate`] makes the lanes.

use ferrowire::PathMtu;
use ferrowire_spec::queue::send_wqe::SendOpcode;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::ends::{Region, Room};
use super::generate::{lane, may_share, share};
use super::{quiet, raw, windows};
use crate::wire::Faults;

/// How far the PSNs of a life are from those of the life before: what is late of that is no packet of this.
pub const LIFE_PSNS: u32 = 1 << 21;

/// Retries that are enough on any wire that [`super::network`] makes.
pub const ENOUGH: u8 = 7;

/// Lanes that share receive queues, at most.
const SHARING: usize = 3;

/// Lanes of most programs, at most.
const FEW: usize = 6;

/// Verbs that programs are made of: those whose effect is known here.
pub const VERBS: &[SendOpcode] = &[
    SendOpcode::Write,
    SendOpcode::Send,
    SendOpcode::SendImm,
    SendOpcode::WriteImm,
    SendOpcode::Read,
    SendOpcode::CmpSwap,
    SendOpcode::FetchAdd,
];

/// Whether it takes a receive of the peer.
pub fn consumes(verb: SendOpcode) -> bool {
    matches!(verb, SendOpcode::Send | SendOpcode::SendImm | SendOpcode::SendInv | SendOpcode::WriteImm)
}

/// Whether its bytes go to a receive of the peer.
pub fn sends(verb: SendOpcode) -> bool {
    consumes(verb) && verb != SendOpcode::WriteImm
}

/// Whether it is an atomic.
pub fn is_atomic(verb: SendOpcode) -> bool {
    matches!(verb, SendOpcode::CmpSwap | SendOpcode::FetchAdd)
}

/// Whether it brings bytes of the peer's memory.
pub fn is_answered(verb: SendOpcode) -> bool {
    verb == SendOpcode::Read || is_atomic(verb)
}

/// What the ends can do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Verbs that each side posts.
    pub verbs: [Vec<SendOpcode>; 2],
    /// Pieces of memory that a request may have.
    pub pieces: usize,
    /// Bytes that a request may carry itself.
    pub inline: usize,
    /// Queue pairs of RC.
    pub lanes: usize,
    /// Those of UC and UD.
    pub quiet: usize,
    /// Those with windows.
    pub windows: usize,
    /// They may have the raw Ethernet queue pair, too.
    pub raw: bool,
    /// Bytes that an end sends in a cycle.
    pub beat: usize,
    /// Both ends have selective retransmission.
    pub selective: bool,
}

impl Limits {
    /// Those of one lane: of some, requests are as small as those that may be pushed; and whether they are, where the card has that.
    pub(super) fn for_lane(&self, rng: &mut SmallRng) -> (Self, bool) {
        match rng.random_bool(0.3) {
            true => (Self { pieces: 1, inline: self.inline.min(16), ..self.clone() }, rng.random_bool(0.8)),
            false => (self.clone(), false),
        }
    }
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A local key with another tag.
    LocalKey,
    /// Local memory that ends behind its region.
    LocalBounds,
    /// A remote key with another tag.
    RemoteKey,
    /// Remote memory that ends behind its region.
    RemoteBounds,
    /// A remote key of a region that is closed to peers.
    RemoteRights,
}

impl Mistake {
    /// Whether it is the sender who finds it.
    pub fn is_local(self) -> bool {
        matches!(self, Mistake::LocalKey | Mistake::LocalBounds)
    }
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// What to do.
    pub verb: SendOpcode,
    /// Where its bytes are in the source, or where those that it brings go among the answers.
    pub from: usize,
    /// Where they go in the target, or come from; nowhere for a SEND.
    pub to: usize,
    /// Bytes.
    pub len: usize,
    /// Pieces of local memory that hold them.
    pub pieces: usize,
    /// They stand in the request.
    pub inline: bool,
    /// Immediate.
    pub imm: u32,
    /// What an atomic adds or compares with, and what it stores. A compare that shall succeed is not known here: with
    /// `None`, it is with what is there.
    pub operands: (Option<u64>, u64),
    /// Begin only when all READs and atomics before are answered.
    pub fence: bool,
    /// Complete it on success too.
    pub signaled: bool,
    /// Solicited event bit.
    pub solicited: bool,
    /// What is wrong with it.
    pub mistake: Option<Mistake>,
}

#[cfg(test)]
impl Message {
    pub(super) fn of(verb: SendOpcode, len: usize) -> Self {
        Self {
            verb,
            from: 0,
            to: 0,
            len,
            pieces: 1,
            inline: false,
            imm: 0,
            operands: (None, 0),
            fence: false,
            signaled: true,
            solicited: false,
            mistake: None,
        }
    }
}

/// A buffer for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Places and bytes of its pieces in the inbox.
    pub pieces: Vec<(usize, usize)>,
    /// The key of the first piece with bytes has another tag.
    pub spoilt: bool,
}

impl Buffer {
    /// Bytes that it has room for.
    pub fn room(&self) -> usize {
        self.pieces.iter().map(|(_, len)| len).sum()
    }

    /// The places of the first `bytes` of a message: from where in it, to where, how many.
    pub fn places(&self, bytes: usize) -> Vec<(usize, usize, usize)> {
        let mut from = 0;
        let all = self.pieces.iter().map(|(at, len)| {
            let len = (*len).min(bytes - from);
            from += len;
            (from - len, *at, len)
        });
        all.filter(|(.., len)| *len > 0).collect()
    }
}

/// When receives are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// In INIT, as many as the queue has room for, and then as soon as may be.
    Ahead,
    /// Now and then.
    Steady,
    /// So late that messages find none.
    Late,
}

/// What happens to a connection beside its messages, when so many of them have been posted.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// Nothing.
    None,
    /// One side goes to SQD, and back to RTS when it is drained: once for each of these.
    Drain(usize, Vec<usize>),
    /// One side is moved to ERR.
    Error(usize, usize),
    /// Both sides are reset, this one first, whatever is under way.
    Reset(usize, usize),
}

/// A connection from RESET to RESET.
#[derive(Clone, Debug)]
pub struct Life {
    /// First PSN of each side.
    pub psns: [u32; 2],
    /// Retries.
    pub retry_cnt: u8,
    /// Retries when the peer has no receive; 7: without end.
    pub rnr_retry: u8,
    /// It has no time-out: whatever an end owes the other must come without being asked for again.
    pub patient: bool,
    /// Messages of each side.
    pub work: [Vec<Message>; 2],
    /// What each side has for those of the other.
    pub buffers: [Vec<Buffer>; 2],
    /// When it posts them.
    pub pace: [Pace; 2],
    /// What else happens.
    pub trouble: Trouble,
    /// At its end the queue pairs are destroyed, not reset, and others take their place.
    pub anew: bool,
}

/// Memory of the messages of a side.
#[derive(Clone, Debug)]
pub struct Memory {
    /// What it sends from.
    pub source: Region,
    /// Where what it asks for goes.
    pub answers: Option<Region>,
    /// The peer's, of WRITEs, READs and atomics.
    pub target: Region,
    /// The peer's buffers.
    pub inbox: Option<Region>,
}

/// A queue pair at each end.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its number in the program, also when it runs alone.
    pub number: usize,
    /// Path MTU.
    pub mtu: PathMtu,
    /// What the queues have room for.
    pub room: Room,
    /// Time-out code.
    pub timeout: u8,
    /// Timer code of who has no receive.
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding.
    pub rd_atomic: u8,
    /// Both ends have agreed on selective retransmission.
    pub selective: bool,
    /// Of each side's messages.
    pub memory: [Option<Memory>; 2],
    /// One after the other.
    pub lives: Vec<Life>,
    /// Of when things happen.
    pub seed: u64,
}

/// Marks of congestion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marks {
    /// The share of each side's frames that are marked.
    pub shares: [f64; 2],
    /// A queue pair of a card is slowed down to this part of the line's rate, at most.
    pub slowest: u32,
}

/// Of the seeds of marks: so the rest of a program is what it was.
const MARK_SALT: u64 = 0x4543_4e00;

impl Marks {
    /// On one of three wires.
    fn of(seed: u64) -> Option<Self> {
        let mut rng = SmallRng::seed_from_u64(seed ^ MARK_SALT);
        let mut share = || if rng.random_bool(0.75) { rng.random_range(0.0..0.2) } else { 0.0 };
        let shares = [share(), share()];
        let slowest = [2, 4, 8][rng.random_range(0..3)];
        rng.random_bool(1.0 / 3.0).then_some(Self { shares, slowest })
    }
}

/// What the connections on a wire must bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// Frames may be lost or late.
    Lossy,
    /// Frames come as they were sent, once or twice.
    Lossless,
    /// Frames come as they were sent, and a late copy of some of them follows.
    Stale,
}

/// All of a case.
#[derive(Clone, Debug)]
pub struct Program {
    /// IPv6 rather than IPv4.
    pub ipv6: bool,
    /// Cycles that a read of a card's host memory takes beyond the least.
    pub host_latency: u64,
    /// Cycles on the wire, each way.
    pub wire_latency: u64,
    /// Unit of time-outs in cycles.
    pub tick: u32,
    /// What the wire does to the frames of each side.
    pub faults: [Faults; 2],
    /// Of what it does.
    pub fault_seeds: [u64; 2],
    /// Switches that are congested mark some of them.
    pub marks: Option<Marks>,
    /// The queue pairs.
    pub lanes: Vec<Lane>,
    /// Those of UC and UD.
    pub quiet: Vec<quiet::Lane>,
    /// Those with windows.
    pub windows: Vec<windows::Lane>,
    /// That of raw Ethernet.
    pub raw: Vec<raw::Lane>,
}

impl Program {
    /// The program of a seed.
    pub fn of(seed: u64, limits: &Limits) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let most = limits.lanes.min(if rng.random_range(0..4) == 0 { usize::MAX } else { FEW });
        let count = rng.random_range(1..=most);
        // Over what all that is under way takes together, as a rule.
        let tick = (24 * 64 / limits.beat as u32).min(72) * (1 + count as u32 / 6);
        let least = u64::from(tick) << 7;
        // Most wires do everything, some nothing, some one thing.
        const NOTHING: u32 = 0;
        const DUPLICATE: u32 = 2;
        const STALE: u32 = 6;
        let kind = match rng.random_range(0..12) {
            7 => STALE,
            kind => kind,
        };
        let wire = match kind {
            NOTHING | DUPLICATE => Wire::Lossless,
            STALE => Wire::Stale,
            _ => Wire::Lossy,
        };
        let highest = if wire == Wire::Lossy { 0.1 } else { 0.4 };
        let mut faults = [(); 2].map(|()| {
            let mut share = |which: u32| match kind {
                NOTHING => 0.0,
                1..=STALE if which != kind => 0.0,
                _ => rng.random_range(0.0..highest),
            };
            let (drop, duplicate, reorder, corrupt) = (share(1), share(DUPLICATE), share(3), share(4));
            let (delay, stale) = (share(5), share(STALE));
            let hold = rng.random_range(least / 16..least);
            Faults { drop, duplicate, stale, corrupt, reorder, delay, hold }
        });
        let mut big = rng.random_range(0..3) == 0 && wire != Wire::Stale;
        let ipv6 = rng.random_bool(0.25);
        // While a READ waits for slow memory, answers wait after it: there stale copies come.
        let latencies = if wire == Wire::Stale { [250, 1000, 1000, 3000] } else { [0, 20, 250, 1000] };
        let host_latency = latencies[rng.random_range(0..4)];
        if wire == Wire::Stale {
            faults.iter_mut().for_each(|faults| faults.hold = host_latency * rng.random_range(1..=2));
        }
        let wire_latency = [0, 3, 100][rng.random_range(0..3)];
        let fault_seeds = [rng.random(), rng.random()];
        let mut lanes: Vec<Lane> = (0..count)
            .map(|number| {
                let mut rng = SmallRng::seed_from_u64(rng.random());
                let big = std::mem::take(&mut big);
                lane(&mut rng, limits, number, big, wire)
            })
            .collect();
        // A few of them share their receive queues, in one of three programs: each may lose a buffer with each of its lives.
        if rng.random_range(0..3) == 0 {
            lanes.iter_mut().filter(|lane| may_share(lane)).take(SHARING).for_each(share);
        }
        let windows = windows::lanes(seed, limits);
        // Those have more regions.
        lanes.truncate((limits.lanes - windows::COST * windows.len()).max(1));
        let quiet = quiet::lanes(seed, limits, lanes.len());
        let windows = windows::numbered(windows, lanes.len() + quiet.len());
        let raw = raw::lanes(seed, limits, lanes.len() + quiet.len() + windows.len());
        let marks = Marks::of(seed);
        Self {
            ipv6,
            host_latency,
            wire_latency,
            tick,
            faults,
            fault_seeds,
            marks,
            lanes,
            quiet,
            windows,
            raw,
        }
    }

    /// Longest of the shortest time-outs, in cycles.
    pub fn timeout(&self) -> u64 {
        self.timeouts().max().unwrap_or(0)
    }

    /// Shortest of them.
    pub fn patience(&self) -> u64 {
        self.timeouts().min().unwrap_or(0)
    }

    fn timeouts(&self) -> impl Iterator<Item = u64> + '_ {
        let codes = self.lanes.iter().map(|lane| lane.timeout);
        codes.chain(self.windows.iter().map(|lane| lane.timeout)).map(|code| u64::from(self.tick) << code)
    }
}
