// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes of memory windows of type 2: one side lends parts of a region that is closed to peers, the other uses them and gives
//! them back (IBTA 10.6.7).
//!
//! ```text
//!  owner   BIND_MW --> (SEND) ....................................... receive, key  |  LOCAL_INV, BIND_MW of nothing, FREE_MW
//!  peer                       WRITE, READ, atomics by the new key --> SEND with invalidate
//! ```
//!
//! A lane has one to three windows. Each goes through rounds of its own, and those of all windows share the queues. A round binds the
//! window to other bytes with other rights and another tag; tells the peer, by a message behind the bind or when the bind
//! has ended; uses it; and takes it back: when all is done, or while it is in use. At most one thing in a life is wrong.
//! [`play`] lets it happen, [`ask`] makes the requests, [`judge`] says what must come of them.

mod ask;
pub(super) mod judge;
pub(super) mod play;

use ferrowire::PathMtu;
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::Psn;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::ends::{Region, Rights, Room};
use super::generate::region;
use super::program::{is_answered, is_atomic, Limits, LIFE_PSNS};
pub(super) use play::{Places, Run};

/// Lanes of a program, at most.
pub const LANES: usize = 2;

/// Lanes without windows that give up their keys for one with windows.
pub const COST: usize = 2;

/// Bytes of the region for each window.
const PART: usize = 6 << 10;

/// Bytes of the region to which only windows that are read may be bound.
pub const READ_ONLY: usize = 512;

/// Bytes of sources and answers behind what is used, for what is wrong.
const SPARE: usize = 8;

/// Of the seeds of these lanes: so the others are what they were.
const SALT: u64 = 0x57_494e_444f_5753;

/// What a window lets the peer do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// READ.
    pub read: bool,
    /// WRITE.
    pub write: bool,
    /// Atomics.
    pub atomic: bool,
}

impl Grant {
    /// Whether it is enough.
    pub fn has(self, verb: SendOpcode) -> bool {
        match verb {
            SendOpcode::Read => self.read,
            verb if is_atomic(verb) => self.atomic,
            _ => self.write,
        }
    }
}

/// Something that the peer does by the window.
#[derive(Clone, Debug)]
pub struct Use {
    /// WRITE, with immediate or without, READ, an atomic.
    pub verb: SendOpcode,
    /// From which byte of the window on.
    pub at: usize,
    /// Bytes.
    pub len: usize,
    /// Where they are in the source, or among the answers.
    pub from: usize,
    /// What an atomic adds or stores.
    pub operand: u64,
    /// Compare with what is there; else with something else.
    pub hits: bool,
    /// Begin only when all READs and atomics before are answered.
    pub fence: bool,
    /// Complete it on success too.
    pub signaled: bool,
}

/// How the peer gets to know the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// It is told when the bind has ended.
    Ended,
    /// By a message behind the bind, of so many bytes: when that has come, the window is bound.
    Message(usize, usize),
}

/// How the window is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// The peer's SEND with invalidate, of so many bytes of the source, behind all uses.
    SendInv(usize, usize),
    /// The owner's invalidation.
    LocalInv,
    /// The owner's bind to nothing.
    Unbind,
    /// The window is freed, and another takes its place.
    Free,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// The peer writes from a byte before the window on.
    Below,
    /// A byte behind it.
    Above,
    /// Something that it has no right to.
    Right,
    /// With the right index and another tag.
    Tag,
    /// It invalidates the window with another tag.
    InvTag,
    /// It invalidates the key of the region.
    InvRegion,
    /// It uses the window when it has been taken back.
    Gone,
    /// It invalidates it then.
    InvGone,
    /// The owner binds a window that is bound.
    BindBound,
    /// It sends from the window, as if that were a local key.
    AsLocal,
    /// It invalidates a window that is not bound.
    LocalInvGone,
    /// It invalidates the region's key.
    LocalInvRegion,
    /// It binds to more than the region.
    BindBeyond,
    /// To a region that takes no windows.
    BindForbidden,
    /// It lets peers write where it may not itself.
    BindReadOnly,
}

/// When that is done, in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In place of the bind.
    Unbound,
    /// When the window is bound, behind its uses.
    Bound,
    /// When it has been taken back.
    After,
}

impl Misuse {
    /// All of them.
    pub const ALL: [Misuse; 15] = [
        Misuse::Below,
        Misuse::Above,
        Misuse::Right,
        Misuse::Tag,
        Misuse::InvTag,
        Misuse::InvRegion,
        Misuse::Gone,
        Misuse::InvGone,
        Misuse::BindBound,
        Misuse::AsLocal,
        Misuse::LocalInvGone,
        Misuse::LocalInvRegion,
        Misuse::BindBeyond,
        Misuse::BindForbidden,
        Misuse::BindReadOnly,
    ];

    /// When it is done.
    pub fn when(self) -> When {
        use Misuse as M;
        match self {
            M::LocalInvGone | M::LocalInvRegion | M::BindBeyond | M::BindForbidden | M::BindReadOnly => {
                When::Unbound
            }
            M::Gone | M::InvGone => When::After,
            _ => When::Bound,
        }
    }

    /// Whether it is the peer who does it.
    pub fn is_of_peer(self) -> bool {
        use Misuse as M;
        !matches!(self, M::BindBound | M::AsLocal) && self.when() != When::Unbound
    }
}

/// A window, from bind to invalidation.
#[derive(Clone, Debug)]
pub struct Round {
    /// First byte of the window, counted in the part of the region that its windows have.
    pub at: usize,
    /// Bytes.
    pub len: usize,
    /// Rights.
    pub grant: Grant,
    /// The peer counts from the beginning of the window.
    pub zero_based: bool,
    /// The bind waits for READs and atomics of the owner.
    pub fence: bool,
    /// How the peer is told.
    pub tell: Tell,
    /// What it does.
    pub uses: Vec<Use>,
    /// How it ends.
    pub back: Back,
    /// It ends while the uses may be under way.
    pub early: bool,
    /// What is wrong with it.
    pub misuse: Option<Misuse>,
}

/// What else happens in a life, when so many requests have been posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// This side is moved to ERR.
    Error(usize, usize),
    /// Both are reset, this one first.
    Reset(usize, usize),
}

/// A connection from RESET to RESET.
#[derive(Clone, Debug)]
pub struct Life {
    /// First PSN of each side.
    pub psns: [u32; 2],
    /// Of each window.
    pub rounds: Vec<Vec<Round>>,
    /// What else happens.
    pub trouble: Trouble,
    /// At its end the queue pairs are destroyed, not reset.
    pub anew: bool,
}

/// A queue pair at each end.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its number in the program, also when it runs alone.
    pub number: usize,
    /// Who lends.
    pub owner: usize,
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
    /// What is lent.
    pub lent: Region,
    /// Where windows may only be read.
    pub read_only: Region,
    /// What each side sends from.
    pub sources: [Region; 2],
    /// Where what the peer asks for goes.
    pub answers: Region,
    /// Receives of each side, with a byte between any two.
    pub inboxes: [Region; 2],
    /// Bytes of a receive.
    pub slot: usize,
    /// One after the other.
    pub lives: Vec<Life>,
    /// Of when things happen.
    pub seed: u64,
}

impl Lane {
    /// Windows.
    pub fn windows(&self) -> usize {
        self.lives[0].rounds.len()
    }
}

/// The lanes of a program's seed.
pub(super) fn lanes(seed: u64, limits: &Limits) -> Vec<Lane> {
    let mut rng = SmallRng::seed_from_u64(seed ^ SALT);
    let count = rng.random_range(0..=limits.windows);
    (0..count).map(|_| lane(&mut SmallRng::seed_from_u64(rng.random()), limits)).collect()
}

/// With the numbers that are behind those of the other lanes.
pub(super) fn numbered(lanes: Vec<Lane>, before: usize) -> Vec<Lane> {
    lanes.into_iter().enumerate().map(|(i, lane)| Lane { number: before + i, ..lane }).collect()
}

/// Bytes that are given out of sources and answers.
#[derive(Default)]
struct Given {
    sources: [usize; 2],
    answers: usize,
}

fn take(used: &mut usize, rng: &mut SmallRng, len: usize) -> usize {
    let from = *used + rng.random_range(0..8);
    *used = from + len;
    from
}

fn lane(rng: &mut SmallRng, limits: &Limits) -> Lane {
    let (limits, push) = &limits.for_lane(rng);
    let mtu = PathMtu::ALL[rng.random_range(0..PathMtu::ALL.len())];
    let owner = rng.random_range(0..2);
    let room = Room {
        service: Service::Rc,
        sends: [4, 8, 16][rng.random_range(0..3)],
        send_pieces: limits.pieces as u8,
        inline: limits.inline as u16,
        receives: [2, 4, 8][rng.random_range(0..3)],
        receive_pieces: 4,
        shared: false,
        push: *push,
    };
    let windows = rng.random_range(1..=3);
    let slot = rng.random_range(8..=(2 * mtu.bytes() + 9).min(2200));
    let lent = region(rng, windows * PART, Rights::Lent, Some(0));
    let mut psns = [(); 2].map(|()| match rng.random_bool(0.4) {
        true => 0xff_ffff - rng.random_range(0..60),
        false => rng.random_range(0..1 << 24),
    });
    let mut given = Given::default();
    let count = rng.random_range(1..=3);
    let mut lives: Vec<Life> = Vec::new();
    for _ in 0..count {
        let rounds: Vec<Vec<Round>> = (0..windows)
            .map(|_| {
                let count = rng.random_range(1..=4);
                (0..count).map(|_| round(rng, &mut given, owner, mtu.bytes(), slot)).collect()
            })
            .collect();
        let posts: usize = rounds.iter().flatten().map(|round| 3 + round.uses.len()).sum();
        let mut life = Life { psns, rounds, trouble: Trouble::None, anew: rng.random_bool(0.25) };
        match rng.random_range(0..10) {
            0 => life.trouble = Trouble::Error(rng.random_range(0..2), rng.random_range(0..=posts)),
            1 => life.trouble = Trouble::Reset(rng.random_range(0..2), rng.random_range(0..=posts)),
            2..=5 => {
                let window = rng.random_range(0..windows);
                let at = rng.random_range(0..life.rounds[window].len());
                spoil(rng, &mut life.rounds[window][at]);
            }
            _ => {}
        }
        lives.push(life);
        psns = psns.map(|psn| Psn::new(psn).plus(LIFE_PSNS + rng.random_range(0..1000)).get());
    }
    let source = |rng: &mut SmallRng, used: usize| region(rng, used + SPARE, Rights::Closed, None);
    let sources = [source(rng, given.sources[0]), source(rng, given.sources[1])];
    let inbox = |rng: &mut SmallRng| region(rng, room.receives as usize * (slot + 1), Rights::Local, None);
    Lane {
        number: 0,
        owner,
        mtu,
        room,
        timeout: rng.random_range(7..=8),
        min_rnr_timer: rng.random_range(1..=7),
        rd_atomic: [1, 2, 4, 16][rng.random_range(0..4)],
        lent,
        read_only: region(rng, READ_ONLY, Rights::LentRead, None),
        sources,
        answers: region(rng, given.answers + SPARE, Rights::Local, None),
        inboxes: [inbox(rng), inbox(rng)],
        slot,
        lives,
        seed: rng.random(),
    }
}

fn round(rng: &mut SmallRng, given: &mut Given, owner: usize, mtu: usize, slot: usize) -> Round {
    let zero_based = rng.random_bool(0.25);
    let len = match rng.random_range(0..4) {
        0 => rng.random_range(1..=64),
        1 => rng.random_range(1..=PART),
        _ => rng.random_range(64..=2500),
    };
    // With a byte before it and one behind it, in its part.
    let len = len.min(PART - 2);
    let mut at = rng.random_range(1..PART - len);
    if zero_based {
        // The same alignment whether the peer counts from the region's beginning or the window's.
        at = (at & !7).max(8).min((PART - len - 1) & !7);
    }
    let len = len.min(PART - 1 - at);
    let grant = match rng.random_range(0..4) {
        0 => [(true, false, false), (false, true, false), (false, false, true)][rng.random_range(0..3)],
        1 => (true, true, false),
        _ => (true, true, true),
    };
    let grant = Grant { read: grant.0, write: grant.1, atomic: grant.2 };
    let mut uses: Vec<Use> = Vec::new();
    for _ in 0..rng.random_range(0..=5) {
        uses.extend(one_use(rng, given, owner, (at, len), grant, mtu, &uses));
    }
    if let Some(last) = uses.last_mut() {
        last.signaled = true;
    }
    let mut letter = |side: usize, rng: &mut SmallRng| {
        let len = if rng.random_bool(0.5) { 0 } else { rng.random_range(0..=slot) };
        (take(&mut given.sources[side], rng, len), len)
    };
    let tell = match rng.random_range(0..3) {
        0 => Tell::Ended,
        _ => {
            let (from, len) = letter(owner, rng);
            Tell::Message(from, len)
        }
    };
    let back = match rng.random_range(0..8) {
        0..=3 => {
            let (from, len) = letter(1 - owner, rng);
            Back::SendInv(from, len)
        }
        4 | 5 => Back::LocalInv,
        6 => Back::Unbind,
        _ => Back::Free,
    };
    let early = !matches!(back, Back::SendInv(..)) && rng.random_bool(0.3);
    Round { at, len, grant, zero_based, fence: rng.random_bool(0.1), tell, uses, back, early, misuse: None }
}

/// Something that the window allows, if there is anything.
fn one_use(
    rng: &mut SmallRng,
    given: &mut Given,
    owner: usize,
    (start, size): (usize, usize),
    grant: Grant,
    mtu: usize,
    before: &[Use],
) -> Option<Use> {
    use SendOpcode as S;
    let verb = [S::Write, S::Write, S::WriteImm, S::Read, S::Read, S::CmpSwap, S::FetchAdd];
    let verb = verb[rng.random_range(0..verb.len())];
    if !grant.has(verb) {
        return None;
    }
    let (at, len) = if is_atomic(verb) {
        // The region begins at a multiple of 8.
        let first = start.next_multiple_of(8) - start;
        let count = size.checked_sub(first)? / 8;
        (first + 8 * rng.random_range(0..count.max(1)), 8)
    } else {
        let len = match rng.random_range(0..8) {
            0 => 0,
            1 => size,
            2 | 3 => mtu * rng.random_range(1..=2) + rng.random_range(0..=1),
            _ => rng.random_range(1..=300),
        };
        let len = len.min(size);
        let at = [0, size - len, rng.random_range(0..=size - len)][rng.random_range(0..3)];
        (at, len)
    };
    if at + len > size {
        return None;
    }
    let from = match is_answered(verb) {
        true => take(&mut given.answers, rng, len),
        false => take(&mut given.sources[1 - owner], rng, len),
    };
    // What is read, or changed by an atomic, may be written by what is behind it before: then that waits (10.8.3.3).
    let races = !is_answered(verb) || is_atomic(verb);
    let answered = before.iter().any(|before| is_answered(before.verb));
    Some(Use {
        verb,
        at,
        len,
        from,
        operand: rng.random(),
        hits: rng.random_bool(0.7),
        fence: races && answered || rng.random_bool(0.05),
        signaled: rng.random_bool(0.6),
    })
}

/// Makes something of a round wrong.
fn spoil(rng: &mut SmallRng, round: &mut Round) {
    let misuse = Misuse::ALL[rng.random_range(0..Misuse::ALL.len())];
    let all = round.grant.read && round.grant.write && round.grant.atomic;
    if misuse == Misuse::Right && all {
        round.grant.write = false;
        round.uses.retain(|one| round.grant.has(one.verb));
        round.uses.iter_mut().for_each(|one| one.signaled = true);
    }
    if misuse == Misuse::AsLocal && round.len == 0 {
        return;
    }
    round.early = false;
    round.misuse = Some(misuse);
}
