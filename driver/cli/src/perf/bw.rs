// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bandwidth: send queues are kept full, and the clock says how long that took.

use std::time::{Duration, Instant};

use ferrowire::{Completion, MemoryRegion, Payload, SendOp, SendWr, WorkKind};
use serde::{Deserialize, Serialize};

use super::report::Row;
use super::{AtomicType, Ends, Plan, Verb};
use crate::failure::Failure;
use crate::link::{Address, Link};
use crate::side::{Channel, PATIENCE};
use crate::twosided::Progress;

/// Messages up to which the peak is looked for: each is compared with each.
const PEAK: u64 = 20_000;

/// What a side has sent.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Sent {
    /// Messages, of all queue pairs.
    pub messages: u64,
    /// From the first post to the last completion, in seconds of the clock.
    pub seconds: f64,
    /// The same in its ticks.
    pub ticks: u64,
    /// The most messages a second between a post and a completion.
    pub peak: f64,
}

/// Work of one message.
fn operation(plan: &Plan, peer: &Address, half: usize, number: u64) -> SendOp {
    let remote = peer.remote(half as u64);
    match (plan.verb, plan.atomic) {
        (Verb::Write, _) => SendOp::Write { remote },
        (Verb::Send, _) => SendOp::Send,
        (Verb::Read, _) => SendOp::Read { remote },
        (Verb::Atomic, AtomicType::FetchAndAdd) => SendOp::FetchAdd { remote, add: 1 },
        (Verb::Atomic, AtomicType::CmpAndSwap) => {
            SendOp::CompareSwap { remote, compare: number, swap: number + 1 }
        }
    }
}

/// Posts `count` messages to a link with one doorbell; the number of each is how many were posted by then.
#[allow(clippy::too_many_arguments)]
pub(super) fn post(
    link: &mut Link,
    plan: &Plan,
    peer: &Address,
    region: &MemoryRegion,
    half: usize,
    size: u64,
    (posted, count): (u64, u64),
    last: u64,
) -> Result<(), Failure> {
    let inline = size <= u64::from(plan.wish.inline) && matches!(plan.verb, Verb::Write | Verb::Send);
    let mut bytes = Vec::new();
    if inline {
        bytes.resize(size as usize, 0);
        region.memory().read(0, &mut bytes);
    }
    let sges = [region.sge(0, size as u32)];
    let (qp, to) = link.parts();
    let mut batch = qp.start_post_send();
    for number in posted..posted + count {
        let payload = match (inline, size) {
            (true, _) => Payload::Inline(&bytes),
            (_, 0) => Payload::Sges(&[]),
            _ => Payload::Sges(&sges),
        };
        let wr = SendWr::new(number + 1, operation(plan, peer, half, number), payload);
        let signal = (number + 1) % u64::from(plan.cq_mod) == 0 || number + 1 == last;
        let wr = if signal { wr.signaled() } else { wr };
        batch.post(&Link::address(to, wr))?;
    }
    Ok(batch.ring()?)
}

/// What was posted and completed, and when.
struct Times {
    posted: Vec<u64>,
    completed: Vec<u64>,
}

impl Times {
    /// The most messages a tick between a post and a completion behind it, as perftest finds it.
    fn peak(&self) -> f64 {
        let mut best = 0.0f64;
        for (i, posted) in self.posted.iter().enumerate() {
            for (j, completed) in self.completed.iter().enumerate().skip(i) {
                if completed > posted {
                    best = best.max((j - i + 1) as f64 / (completed - posted) as f64);
                }
            }
        }
        best
    }
}

/// Sends, if this side does, and receives until the other has sent all.
pub fn measure(ends: &mut Ends<'_>, channel: &mut Channel, size: u64) -> Result<Row, Failure> {
    let (): () = channel.exchange("size", &())?;
    let plan = ends.plan;
    let sends = ends.client || plan.bidirectional;
    let own = if sends { send(ends, channel, size)? } else { Sent::default() };
    channel.tell("sent", &own)?;
    let mut some = [Completion::default(); 64];
    // While the peer sends, its messages need receives.
    while !channel.has_word() {
        if ends.receives() {
            take(ends, channel, &mut some, None)?;
        } else {
            crate::stop::check()?;
            std::thread::sleep(Duration::from_millis(1));
            ends.completions.moved();
            ends.card.context.progress()?;
        }
    }
    let peer: Sent = channel.hear("sent", PATIENCE)?;
    let rate = |sent: &Sent| if sent.seconds > 0.0 { sent.messages as f64 / sent.seconds } else { 0.0 };
    let qps = u64::from(plan.wish.qps);
    Ok(Row::Bw {
        size,
        // Of the side that sends, or of this one.
        iterations: if sends { own.messages } else { peer.messages } / qps,
        peak: (own.peak + peer.peak) * size as f64,
        average: (rate(&own) + rate(&peer)) * size as f64,
        rate: rate(&own) + rate(&peer),
        ticks: if sends { own.ticks } else { peer.ticks },
    })
}

/// Takes completions: receives are posted anew, and of sends `done` learns.
fn take(
    ends: &mut Ends<'_>,
    channel: &mut Channel,
    some: &mut [Completion],
    mut done: Option<&mut dyn FnMut(&Completion)>,
) -> Result<usize, Failure> {
    let taken = ends.completions.poll(some, channel)?;
    let mut received = 0;
    for completion in &some[..taken] {
        match (completion.kind(), &mut done) {
            (WorkKind::Receive, _) => received += 1,
            (WorkKind::Send, Some(done)) => done(completion),
            (WorkKind::Send, None) => {}
        }
    }
    if received > 0 {
        // Each to its queue, with one doorbell a queue.
        let mut counts = vec![0; ends.links.len()];
        let receives = some[..taken].iter().filter(|completion| completion.kind() == WorkKind::Receive);
        receives.for_each(|completion| counts[completion.wr_id() as usize] += 1);
        for (at, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            ends.post_receive(at, count)?;
        }
    }
    Ok(taken)
}

fn send(ends: &mut Ends<'_>, channel: &mut Channel, size: u64) -> Result<Sent, Failure> {
    let (plan, card) = (ends.plan, ends.card);
    let links = ends.links.len();
    let numbers: Vec<u32> = ends.links.iter().map(|link| link.qp.number()).collect();
    let depth = u64::from(plan.wish.send_wr);
    let until = plan.duration.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut limit = if until.is_some() { u64::MAX } else { plan.iters };
    let looks = plan.peak && plan.iters * links as u64 <= PEAK;
    let mut times = Times { posted: Vec::new(), completed: Vec::new() };
    let (mut posted, mut completed) = (vec![0; links], vec![0; links]);
    let mut progress =
        Progress::new(if ends.speaks && until.is_none() { plan.iters * links as u64 } else { 0 });
    let mut some = [Completion::default(); 64];
    let start = card.now()?;
    loop {
        if until.is_some_and(|until| Instant::now() > until) {
            limit = 0;
        }
        let now = if looks { card.now()? } else { 0 };
        for at in 0..links {
            // Half of the queue at once, so that a doorbell is for many.
            let room = (depth - (posted[at] - completed[at])).min(limit.saturating_sub(posted[at]));
            if room > 0
                && (room >= depth.div_ceil(2) || posted[at] + room == limit || posted[at] == completed[at])
            {
                let span = (posted[at], room);
                post(&mut ends.links[at], plan, &ends.peer, &ends.region, ends.half, size, span, limit)?;
                posted[at] += room;
                if looks {
                    times.posted.extend((0..room).map(|_| now));
                }
            }
        }
        if completed == posted && posted.iter().all(|posted| *posted >= limit) {
            break;
        }
        let mut fresh = 0;
        let mut done = |completion: &Completion| {
            let at = numbers.iter().position(|number| *number == completion.qpn()).unwrap_or(0);
            fresh += completion.wr_id() - completed[at];
            completed[at] = completion.wr_id();
        };
        take(ends, channel, &mut some, Some(&mut done))?;
        if looks && fresh > 0 {
            let now = card.now()?;
            times.completed.extend((0..fresh).map(|_| now));
        }
        progress.at(completed.iter().sum());
    }
    let ticks = card.now()? - start;
    let peak = times.peak() * card.clock.per_second();
    Ok(Sent { messages: completed.iter().sum(), seconds: card.clock.seconds(ticks), ticks, peak })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_best_run_of_messages() {
        let times = Times { posted: vec![0, 0, 100, 110], completed: vec![50, 60, 115, 120] };
        // The last two, 100 to 120.
        assert_eq!(times.peak(), 0.1);
        assert_eq!(Times { posted: Vec::new(), completed: Vec::new() }.peak(), 0.0);
    }
}
