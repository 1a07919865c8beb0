// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the lanes of a [`Program`](super::program::Program): messages, buffers, mistakes, troubles.
//!
//! What must come of a lane follows from it: a place that is read, or changed by an atomic, is written by nothing behind it, for
//! without a fence it is free whether such a WRITE comes first (IBTA 10.8.3.3).

use ferrowire::PathMtu;
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::Psn;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng, SeedableRng as _};

use super::ends::{Region, Rights, Room, PAGE, RECEIVE_PIECES};
use super::program::{
    consumes, is_answered, is_atomic, sends, Buffer, Lane, Life, Limits, Memory, Message, Mistake, Pace,
    Trouble, Wire, ENOUGH, LIFE_PSNS,
};

/// Longest message.
pub const LONGEST: usize = 64 << 10;

/// Most bytes that all messages of a flow have together.
const SOURCE: usize = 112 << 10;

/// Bytes at the beginning of a target where atomics are.
const CELLS: usize = 64;

/// Pages that the regions of a lane have at an end, at most.
pub const LANE_PAGES: u32 = 128;

/// Buffers in the shared receive queue of an end, and bytes of each.
pub const POOL: usize = 16;

/// Bytes of each of them: the longest of most messages.
pub const POOL_BUFFER: usize = 12 << 10;

/// What generation knows of a flow.
struct Flow {
    verbs: Vec<SendOpcode>,
    /// Bytes used so far of source, answers, inbox.
    source: usize,
    answers: usize,
    inbox: usize,
    longest: usize,
    mtu: usize,
    /// Bytes of the target, and the first one's place in a word.
    target: usize,
    skew: usize,
}

/// Of the seeds of agreements on selective retransmission.
const SELECTIVE_SALT: u64 = 0x5345_4c00;

pub(super) fn lane(rng: &mut SmallRng, limits: &Limits, number: usize, big: bool, wire: Wire) -> Lane {
    let (limits, push) = &limits.for_lane(rng);
    let mtu = PathMtu::ALL[rng.random_range(0..PathMtu::ALL.len())];
    let room = Room {
        service: Service::Rc,
        sends: [2, 4, 8][rng.random_range(if wire == Wire::Stale { 2 } else { 0 }..3)],
        send_pieces: limits.pieces as u8,
        inline: limits.inline as u16,
        receives: [1, 4, 16][rng.random_range(0..3)],
        receive_pieces: [1, 4, 4, RECEIVE_PIECES as u8][rng.random_range(0..4)],
        shared: false,
        push: *push,
    };
    let senders: &[usize] = [&[0][..], &[0], &[0], &[1], &[0, 1]][rng.random_range(0..5)];
    let lives = [1, 1, 2, 3][rng.random_range(0..4)];
    let near_wrap = rng.random_bool(0.4);
    let mut psns = [(); 2].map(|()| match near_wrap {
        true => 0xff_ffff - rng.random_range(0..60),
        false => rng.random_range(0..1 << 24),
    });
    let onwards = rng.random_bool(0.5);
    let longest = if big { LONGEST } else { 12 << 10 };
    let mut flows = [0, 1].map(|side: usize| {
        // Some have all verbs, some a few; where stale copies come, all: their answers wait for each other.
        let all = &limits.verbs[side];
        let few = rng.random_range(if wire == Wire::Stale { all.len() } else { 1 }..=all.len());
        let verbs: Vec<_> = all.choose_multiple(rng, few).copied().collect();
        let (target, skew) = (longest + rng.random_range(0..PAGE), rng.random_range(0..8));
        Flow { verbs, source: 0, answers: 0, inbox: 0, longest, mtu: mtu.bytes(), target, skew }
    });
    let lives = (0..lives)
        .map(|i| {
            if i > 0 {
                let step = LIFE_PSNS + rng.random_range(0..1000);
                psns = psns.map(|psn| match onwards {
                    true => Psn::new(psn).plus(step).get(),
                    false => Psn::new(psn.wrapping_sub(step)).get(),
                });
            }
            let (mut work, mut buffers) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
            for side in senders {
                work[*side] = messages(rng, limits, &mut flows[*side], room.sends);
                buffers[1 - side] =
                    buffers_for(rng, &mut flows[*side], &work[*side], room.receive_pieces.into());
            }
            life(rng, work, buffers, psns, wire)
        })
        .collect();
    let memory = [0, 1].map(|side: usize| {
        let flow = &flows[side];
        let shared =
            if flow.verbs.iter().any(|verb| is_answered(*verb)) { Rights::Shared } else { Rights::Write };
        let source = flow.source + 1 + rng.random_range(0..64);
        senders.contains(&side).then(|| Memory {
            source: region(rng, source, Rights::Closed, None),
            answers: (flow.answers > 0).then(|| region(rng, flow.answers, Rights::Local, None)),
            target: region(rng, flow.target, shared, Some(flow.skew)),
            inbox: (flow.inbox > 0).then(|| region(rng, flow.inbox, Rights::Local, None)),
        })
    });
    let any_answered = flows.iter().any(|flow| flow.verbs.iter().any(|verb| is_answered(*verb)));
    let (timeout, min_rnr_timer) = (rng.random_range(7..=8), rng.random_range(1..=7));
    let rd_atomic = if any_answered { [1, 2, 4, 16][rng.random_range(0..4)] } else { 0 };
    let seed = rng.random();
    Lane {
        number,
        mtu,
        room,
        timeout,
        min_rnr_timer,
        rd_atomic,
        // With a generator of its own: so the rest of a program is what it was.
        selective: limits.selective && SmallRng::seed_from_u64(seed ^ SELECTIVE_SALT).random(),
        memory,
        lives,
        seed,
    }
}

/// Lets the messages of a lane take their receives from the queues that both ends share.
pub(super) fn share(lane: &mut Lane) {
    lane.room.shared = true;
    lane.lives.iter_mut().for_each(|life| life.buffers = Default::default());
    lane.memory.iter_mut().flatten().for_each(|memory| memory.inbox = None);
}

/// Whether its messages fit the buffers of the shared queues.
pub(super) fn may_share(lane: &Lane) -> bool {
    let mut all = lane.lives.iter().flat_map(|life| life.work.iter().flatten());
    lane.lives.len() * 3 <= POOL && all.all(|message| message.len <= POOL_BUFFER)
}

fn life(
    rng: &mut SmallRng,
    mut work: [Vec<Message>; 2],
    mut buffers: [Vec<Buffer>; 2],
    psns: [u32; 2],
    wire: Wire,
) -> Life {
    let all: usize = work.iter().map(Vec::len).sum();
    let side = rng.random_range(0..2);
    let (mut starves, mut calm) = (false, false);
    let trouble = match rng.random_range(0..if wire == Wire::Stale { 30 } else { 10 }) {
        0 | 1 => {
            let times = rng.random_range(1..=2);
            let mut when: Vec<usize> = (0..times).map(|_| rng.random_range(0..=all)).collect();
            when.sort_unstable();
            Trouble::Drain(side, when)
        }
        2 => Trouble::Error(side, rng.random_range(0..=all)),
        3 => Trouble::Reset(side, rng.random_range(0..=all)),
        4 | 5 => {
            match rng.random_range(0..2) {
                0 => spoil(rng, &mut work),
                _ => starves = spoil_buffers(rng, &work, &mut buffers),
            }
            Trouble::None
        }
        _ => {
            calm = true;
            Trouble::None
        }
    };
    // On a wire that loses nothing, few retries must do; on another one they may or may not, which is no trouble's companion.
    let retry_cnt = match trouble {
        _ if wire != Wire::Lossy => rng.random_range(3..=ENOUGH),
        Trouble::None if rng.random_bool(0.2) => rng.random_range(0..=3),
        _ => ENOUGH,
    };
    let paces = match wire {
        Wire::Stale => [Pace::Late, Pace::Late, Pace::Steady],
        _ => [Pace::Ahead, Pace::Steady, Pace::Late],
    };
    let pace = [(); 2].map(|()| paces[rng.random_range(0..3)]);
    let limited = starves || calm && rng.random_bool(0.15);
    let rnr_retry = if limited { rng.random_range(0..=3) } else { 7 };
    // Where nothing is lost and no end fails, all must come without a time-out, too: so a NAK or an answer that an end forgets shows.
    let patient = wire != Wire::Lossy && calm && !limited;
    Life { psns, retry_cnt, rnr_retry, patient, work, buffers, pace, trouble, anew: rng.random_bool(0.25) }
}

/// Makes a mistake in one of the messages.
fn spoil(rng: &mut SmallRng, work: &mut [Vec<Message>; 2]) {
    use Mistake as M;
    // Key and address of nothing are not looked at.
    let mut all: Vec<&mut Message> = work.iter_mut().flatten().filter(|message| message.len > 0).collect();
    if all.is_empty() {
        return;
    }
    let at = rng.random_range(0..all.len());
    let message = &mut all[at];
    let mistakes: &[Mistake] = match message.verb {
        verb if sends(verb) => &[M::LocalKey, M::LocalBounds],
        // Behind its region there is no multiple of 8, as a rule.
        verb if is_atomic(verb) => &[M::LocalKey, M::LocalBounds, M::RemoteKey, M::RemoteRights],
        _ => &[M::LocalKey, M::LocalBounds, M::RemoteKey, M::RemoteBounds, M::RemoteRights],
    };
    message.mistake = Some(mistakes[rng.random_range(0..mistakes.len())]);
    // All of it is known to be wrong before anything of it is sent.
    (message.pieces, message.inline) = (1, false);
}

/// Makes a buffer too small or gives it a wrong key, or leaves some out: then the peer starves.
fn spoil_buffers(rng: &mut SmallRng, work: &[Vec<Message>; 2], buffers: &mut [Vec<Buffer>; 2]) -> bool {
    let sides: Vec<usize> = (0..2).filter(|side| work[*side].iter().any(|m| consumes(m.verb))).collect();
    let Some(side) = sides.choose(rng) else { return false };
    let taken: Vec<&Message> = work[*side].iter().filter(|m| consumes(m.verb)).collect();
    let buffers = &mut buffers[1 - side];
    let full: Vec<usize> = (0..taken.len()).filter(|i| sends(taken[*i].verb) && taken[*i].len > 0).collect();
    match (rng.random_range(0..3), full.choose(rng)) {
        (0, Some(at)) => {
            let mut left = rng.random_range(0..taken[*at].len);
            for (_, len) in &mut buffers[*at].pieces {
                *len = left.min(*len);
                left -= *len;
            }
        }
        (1, Some(at)) => buffers[*at].spoilt = true,
        _ => {
            buffers.truncate(rng.random_range(0..taken.len()));
            return true;
        }
    }
    false
}

fn overlap(one: &Message, other: &Message) -> bool {
    one.to < other.to + other.len && other.to < one.to + one.len
}

/// Whether it is not determined which of them is first at the peer's memory.
fn races(first: &Message, second: &Message) -> bool {
    let writes = |verb| matches!(verb, SendOpcode::Write | SendOpcode::WriteImm);
    let conflict = match first.verb {
        SendOpcode::Read => writes(second.verb) || is_atomic(second.verb),
        verb if is_atomic(verb) => writes(second.verb),
        _ => false,
    };
    conflict && overlap(first, second)
}

/// A place in the target for a message.
fn place(rng: &mut SmallRng, flow: &Flow, verb: SendOpcode, len: usize) -> usize {
    match verb {
        verb if is_atomic(verb) => (8 - flow.skew) % 8 + 8 * rng.random_range(0..CELLS / 8 - 1),
        _ if len + CELLS <= flow.target && rng.random_bool(0.9) => {
            rng.random_range(CELLS..=flow.target - len)
        }
        _ => rng.random_range(0..=flow.target - len),
    }
}

fn messages(rng: &mut SmallRng, limits: &Limits, flow: &mut Flow, room: u32) -> Vec<Message> {
    let count = rng.random_range(1..=16);
    let mut all: Vec<Message> = Vec::new();
    // From the last to the first, so that what follows is known.
    for _ in 0..count {
        let mut verb = flow.verbs[rng.random_range(0..flow.verbs.len())];
        let len = if is_atomic(verb) { 8 } else { length(rng, flow) };
        let fits = limits.inline > 0 && len <= limits.inline && !is_answered(verb);
        let mut message = Message {
            verb,
            from: 0,
            to: place(rng, flow, verb, len),
            len,
            pieces: rng.random_range(1..=limits.pieces),
            inline: fits && rng.random_bool(0.3),
            imm: rng.random(),
            operands: (rng.random_bool(0.5).then(|| rng.random()), rng.random()),
            fence: flow.verbs.iter().any(|verb| is_answered(*verb)) && rng.random_bool(0.1),
            signaled: false,
            solicited: rng.random_bool(0.1),
            mistake: None,
        };
        for _ in 0..8 {
            if all.iter().any(|behind| races(&message, behind)) {
                message.to = place(rng, flow, verb, len);
            }
        }
        if all.iter().any(|behind| races(&message, behind)) {
            verb = SendOpcode::Write;
            message.verb = verb;
        }
        all.push(message);
    }
    all.reverse();
    let mut silent = 0;
    let mut kept = 0;
    for message in &mut all {
        let answered = is_answered(message.verb);
        let used = if answered { &mut flow.answers } else { &mut flow.source };
        let from = *used + rng.random_range(0..16);
        if from + message.len > SOURCE {
            break;
        }
        *used = from + message.len;
        (message.from, kept) = (from, kept + 1);
        silent += 1;
        // Without a completion now and then, a queue never has room again.
        message.signaled = silent == room || rng.random_bool(0.6);
        if message.signaled {
            silent = 0;
        }
    }
    all.truncate(kept);
    if let Some(last) = all.last_mut() {
        last.signaled = true;
    }
    all
}

/// A buffer for each message that takes one, and some more.
fn buffers_for(rng: &mut SmallRng, flow: &mut Flow, work: &[Message], pieces: usize) -> Vec<Buffer> {
    let mut all = Vec::new();
    let taken: Vec<usize> =
        work.iter().filter(|m| consumes(m.verb)).map(|m| if sends(m.verb) { m.len } else { 0 }).collect();
    if taken.is_empty() {
        return all;
    }
    let more = rng.random_range(0..3);
    for len in taken.into_iter().chain([0].into_iter().cycle().take(more)) {
        let room = len + if rng.random_bool(0.5) { 0 } else { rng.random_range(0..100) };
        let count = rng.random_range(if room > 0 { 1 } else { 0 }..=pieces);
        let mut cuts: Vec<usize> = (1..count).map(|_| rng.random_range(0..=room)).collect();
        cuts.push(room);
        cuts.sort_unstable();
        let mut from = 0;
        let mut pieces = Vec::new();
        for cut in cuts.into_iter().take(count) {
            let at = flow.inbox + rng.random_range(0..16);
            pieces.push((at, cut - from));
            flow.inbox = at + cut - from;
            from = cut;
        }
        // Not in the order of their places.
        if rng.random_bool(0.5) {
            pieces.reverse();
        }
        all.push(Buffer { pieces, spoilt: false });
    }
    // So that a place behind the last piece is there too.
    flow.inbox += 1;
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

/// Somewhere, or with that place in a word.
pub(super) fn region(rng: &mut SmallRng, len: usize, rights: Rights, skew: Option<usize>) -> Region {
    let place = rng.random_range(0..PAGE) as u64;
    let place = skew.map_or(place, |skew| place & !7 | skew as u64);
    let page = match rng.random_range(0..3) {
        0 => u64::MAX / PAGE as u64 - 1 - rng.random_range(100..200),
        _ => rng.random_range(1..u64::MAX / PAGE as u64 - 100),
    };
    Region { address: page * PAGE as u64 + place, len, rights }
}
