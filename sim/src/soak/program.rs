// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Program`]: what both ends do in a case, and what the wire between them does, all from one seed.
//!
//! ```text
//!  Program --+-- wire: faults of each direction, latencies
//!            +-- Lane: a queue pair at each end --+-- Life --+-- work of each side: messages
//!                                                 |          +-- trouble: what else happens to the connection
//!                                                 +-- Life (after RESET, with other PSNs)
//! ```
//!
//! A program names neither keys nor what is under the ends. Each lane has random numbers of its own, so it is the same when it
//! runs alone.

use ferrowire::PathMtu;
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::Psn;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::ends::{Region, Rights, PAGE};
use crate::wire::Faults;

/// Longest message.
pub const LONGEST: usize = 64 << 10;

/// Most bytes that a source holds, for all messages of its flow.
const SOURCE: usize = 112 << 10;

/// How far the PSNs of a life are from those of the life before: what is late of that is no packet of this.
pub const LIFE_PSNS: u32 = 1 << 21;

/// Retries that are enough on any wire that [`super::network`] makes.
pub const ENOUGH: u8 = 7;

/// Lanes of most programs, at most.
const FEW: usize = 6;

/// Verbs that programs are made of: those whose effect [`super::compare`] knows.
pub const VERBS: &[SendOpcode] = &[SendOpcode::Write];

/// What the ends have in common.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Verbs that both ends have.
    pub verbs: Vec<SendOpcode>,
    /// Queue pairs.
    pub lanes: usize,
    /// Bytes that an end sends in a cycle.
    pub beat: usize,
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
    /// A remote key of a region that peers may not write.
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
    /// Where its bytes are in the source.
    pub from: usize,
    /// Where they go in the target.
    pub to: usize,
    /// Bytes.
    pub len: usize,
    /// Complete it on success too.
    pub signaled: bool,
    /// Solicited event bit.
    pub solicited: bool,
    /// What is wrong with it.
    pub mistake: Option<Mistake>,
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
    /// Messages of each side.
    pub work: [Vec<Message>; 2],
    /// What else happens.
    pub trouble: Trouble,
    /// At its end the queue pairs are destroyed, not reset, and others take their place.
    pub anew: bool,
}

/// A queue pair at each end.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its number in the program, also when it runs alone.
    pub number: usize,
    /// Path MTU.
    pub mtu: PathMtu,
    /// Requests that the send queues have room for.
    pub room: u32,
    /// Time-out code.
    pub timeout: u8,
    /// Source and target of each side's messages.
    pub memory: [Option<(Region, Region)>; 2],
    /// One after the other.
    pub lives: Vec<Life>,
    /// Of when things happen.
    pub seed: u64,
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
    /// The queue pairs.
    pub lanes: Vec<Lane>,
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
        let kind = rng.random_range(0..12);
        let faults = [(); 2].map(|()| {
            let mut share = |which: u32| match kind {
                0 => 0.0,
                1..=5 if which != kind => 0.0,
                _ => rng.random_range(0.0..0.1),
            };
            let (drop, duplicate, reorder, corrupt) = (share(1), share(2), share(3), share(4));
            let delay = share(5);
            Faults { drop, duplicate, corrupt, reorder, delay, hold: rng.random_range(least / 16..least) }
        });
        let lossless = matches!(kind, 0 | 2);
        let mut big = rng.random_range(0..3) == 0;
        let ipv6 = rng.random_bool(0.25);
        let host_latency = [0, 20, 250, 1000][rng.random_range(0..4)];
        let wire_latency = [0, 3, 100][rng.random_range(0..3)];
        let fault_seeds = [rng.random(), rng.random()];
        let lanes = (0..count)
            .map(|number| {
                let mut rng = SmallRng::seed_from_u64(rng.random());
                let big = std::mem::take(&mut big);
                lane(&mut rng, limits, number, big, lossless)
            })
            .collect();
        Self { ipv6, host_latency, wire_latency, tick, faults, fault_seeds, lanes }
    }

    /// Longest of the shortest time-outs, in cycles.
    pub fn timeout(&self) -> u64 {
        self.lanes.iter().map(|lane| u64::from(self.tick) << lane.timeout).max().unwrap_or(0)
    }

    /// Shortest of them.
    pub fn patience(&self) -> u64 {
        self.lanes.iter().map(|lane| u64::from(self.tick) << lane.timeout).min().unwrap_or(0)
    }
}

/// What generation knows of a flow.
struct Flow {
    used: usize,
    longest: usize,
    mtu: usize,
}

fn lane(rng: &mut SmallRng, limits: &Limits, number: usize, big: bool, lossless: bool) -> Lane {
    let mtu = PathMtu::ALL[rng.random_range(0..PathMtu::ALL.len())];
    let room = [2, 4, 8][rng.random_range(0..3)];
    let senders: &[usize] = [&[0][..], &[0], &[0], &[1], &[0, 1]][rng.random_range(0..5)];
    let lives = [1, 1, 2, 3][rng.random_range(0..4)];
    let near_wrap = rng.random_bool(0.4);
    let mut psns = [(); 2].map(|()| match near_wrap {
        true => 0xff_ffff - rng.random_range(0..60),
        false => rng.random_range(0..1 << 24),
    });
    let onwards = rng.random_bool(0.5);
    let longest = if big { LONGEST } else { 12 << 10 };
    let mut flows = [(); 2].map(|()| Flow { used: 0, longest, mtu: mtu.bytes() });
    let target = longest + rng.random_range(0..PAGE);
    let lives = (0..lives)
        .map(|i| {
            if i > 0 {
                let step = LIFE_PSNS + rng.random_range(0..1000);
                psns = psns.map(|psn| match onwards {
                    true => Psn::new(psn).plus(step).get(),
                    false => Psn::new(psn.wrapping_sub(step)).get(),
                });
            }
            let mut work = [Vec::new(), Vec::new()];
            for side in senders {
                work[*side] = messages(rng, limits, &mut flows[*side], target, room);
            }
            life(rng, work, psns, lossless)
        })
        .collect();
    let memory = [0, 1].map(|side: usize| {
        senders.contains(&side).then(|| {
            let len = flows[side].used.max(1) + rng.random_range(0..64);
            (region(rng, len, Rights::Closed), region(rng, target, Rights::Write))
        })
    });
    let timeout = rng.random_range(7..=8);
    Lane { number, mtu, room, timeout, memory, lives, seed: rng.random() }
}

fn life(rng: &mut SmallRng, mut work: [Vec<Message>; 2], psns: [u32; 2], lossless: bool) -> Life {
    let all: usize = work.iter().map(Vec::len).sum();
    let side = rng.random_range(0..2);
    let trouble = match rng.random_range(0..10) {
        0 | 1 => {
            let times = rng.random_range(1..=2);
            let mut when: Vec<usize> = (0..times).map(|_| rng.random_range(0..=all)).collect();
            when.sort_unstable();
            Trouble::Drain(side, when)
        }
        2 => Trouble::Error(side, rng.random_range(0..=all)),
        3 => Trouble::Reset(side, rng.random_range(0..=all)),
        4 | 5 => {
            spoil(rng, &mut work);
            Trouble::None
        }
        _ => Trouble::None,
    };
    // On a wire that loses nothing, few retries must do; on another one they may or may not, which is no trouble's companion.
    let retry_cnt = match trouble {
        _ if lossless => rng.random_range(3..=ENOUGH),
        Trouble::None if rng.random_bool(0.2) => rng.random_range(0..=3),
        _ => ENOUGH,
    };
    Life { psns, retry_cnt, work, trouble, anew: rng.random_bool(0.25) }
}

/// Makes a mistake in one of the messages.
fn spoil(rng: &mut SmallRng, work: &mut [Vec<Message>; 2]) {
    use Mistake as M;
    let mistakes = [M::LocalKey, M::LocalBounds, M::RemoteKey, M::RemoteBounds, M::RemoteRights];
    let mistake = mistakes[rng.random_range(0..mistakes.len())];
    // Key and address of nothing are not looked at.
    let mut all: Vec<&mut Message> = work.iter_mut().flatten().filter(|message| message.len > 0).collect();
    if !all.is_empty() {
        let at = rng.random_range(0..all.len());
        all[at].mistake = Some(mistake);
    }
}

fn messages(rng: &mut SmallRng, limits: &Limits, flow: &mut Flow, target: usize, room: u32) -> Vec<Message> {
    let mut all = Vec::new();
    let mut silent = 0;
    let count = rng.random_range(1..=16);
    for i in 0..count {
        let len = length(rng, flow);
        let from = flow.used + rng.random_range(0..16);
        if from + len > SOURCE {
            break;
        }
        flow.used = from + len;
        silent += 1;
        // Without a completion now and then, a queue never has room again.
        let signaled = i + 1 == count || silent == room || rng.random_bool(0.6);
        if signaled {
            silent = 0;
        }
        let verb = limits.verbs[rng.random_range(0..limits.verbs.len())];
        let to = rng.random_range(0..=target - len);
        let solicited = rng.random_bool(0.1);
        all.push(Message { verb, from, to, len, signaled, solicited, mistake: None });
    }
    if let Some(last) = all.last_mut() {
        last.signaled = true;
    }
    all
}

fn length(rng: &mut SmallRng, flow: &mut Flow) -> usize {
    let longest = flow.longest;
    let len = match rng.random_range(0..20) {
        0 => 0,
        1 => {
            // One of the longest is enough.
            flow.longest = 12 << 10;
            longest - rng.random_range(0..longest / 4)
        }
        2..=6 => rng.random_range(1..=64),
        7..=11 => (flow.mtu * rng.random_range(1..=3) + 1).saturating_sub(rng.random_range(0..=2)),
        _ => rng.random_range(1..=2500),
    };
    len.min(longest)
}

fn region(rng: &mut SmallRng, len: usize, rights: Rights) -> Region {
    let place = rng.random_range(0..PAGE) as u64;
    let page = match rng.random_range(0..3) {
        0 => u64::MAX / PAGE as u64 - 1 - rng.random_range(100..200),
        _ => rng.random_range(1..u64::MAX / PAGE as u64 - 100),
    };
    Region { address: page * PAGE as u64 + place, len, rights }
}
