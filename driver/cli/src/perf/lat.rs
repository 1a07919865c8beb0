// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency: one message at a time, there and back where it takes two.

use std::time::{Duration, Instant};

use ferrowire::{Completion, WorkKind};

use super::bw;
use super::report::{Row, Sample};
use super::{Ends, Verb};
use crate::failure::Failure;
use crate::side::{Channel, PATIENCE};
use crate::twosided::Progress;

/// When a run is over: after so many messages, or when the client's time is.
struct End {
    iters: u64,
    until: Option<Instant>,
}

impl End {
    fn is_over(&self, done: u64) -> bool {
        match self.until {
            Some(until) => Instant::now() > until,
            None => done >= self.iters,
        }
    }
}

/// Measures; the server answers, or waits.
pub fn measure(ends: &mut Ends<'_>, channel: &mut Channel, size: u64) -> Result<Row, Failure> {
    let plan = ends.plan;
    if !ends.client {
        ends.region.memory().fill(ends.half, size as usize, 0);
    }
    if ends.client {
        ends.region.memory().fill(ends.half, size as usize, 0);
    }
    let (): () = channel.exchange("size", &())?;
    let end =
        End { iters: plan.iters, until: plan.duration.map(|s| Instant::now() + Duration::from_secs(s)) };
    let twice = matches!(plan.verb, Verb::Write | Verb::Send);
    let stamps = match (ends.client, twice) {
        (true, _) => client(ends, channel, size, &end)?,
        (false, true) => {
            server(ends, channel, size)?;
            Vec::new()
        }
        (false, false) => Vec::new(),
    };
    if ends.client {
        let sample = Sample::of(&stamps, if twice { 2 } else { 1 });
        channel.tell("sample", &sample)?;
        return Ok(Row::Lat { size, sample });
    }
    while !channel.has_word() {
        crate::stop::check()?;
        ends.card.context.progress()?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(Row::Lat { size, sample: channel.hear("sample", PATIENCE)? })
}

/// Puts message `number` into the queue. A WRITE's last byte tells it from the one before.
fn post(ends: &mut Ends<'_>, size: u64, number: u64) -> Result<(), Failure> {
    if size > 0 && ends.plan.verb == Verb::Write {
        ends.region.memory().write(size as usize - 1, &[mark(number)]);
    }
    let (plan, half) = (ends.plan, ends.half);
    bw::post(&mut ends.links[0], plan, &ends.peer, &ends.region, half, size, (number, 1), u64::MAX)
}

/// The last byte of message `number`: never 0, and never that of its neighbours.
fn mark(number: u64) -> u8 {
    (number % 255) as u8 + 1
}

/// What a side waits for.
#[derive(Default)]
struct Seen {
    sends: u64,
    receives: u64,
}

/// Takes completions, and posts a receive for each that was used.
fn take(ends: &mut Ends<'_>, channel: &mut Channel, seen: &mut Seen) -> Result<usize, Failure> {
    let mut some = [Completion::default(); 16];
    let taken = ends.completions.poll(&mut some, channel)?;
    for completion in &some[..taken] {
        match completion.kind() {
            WorkKind::Send => seen.sends += 1,
            WorkKind::Receive => {
                seen.receives += 1;
                ends.post_receive(0, 1)?;
            }
        }
    }
    Ok(taken)
}

/// Waits for message `number` of the peer. False: the peer has said something instead.
fn arrives(
    ends: &mut Ends<'_>,
    channel: &mut Channel,
    seen: &mut Seen,
    size: u64,
    number: u64,
) -> Result<bool, Failure> {
    let mut looks = 0u32;
    loop {
        let there = match ends.plan.verb {
            Verb::Write => {
                let mut byte = [0; 1];
                ends.region.memory().read(ends.half + size as usize - 1, &mut byte);
                byte[0] == mark(number)
            }
            _ => seen.receives > number,
        };
        if there {
            ends.completions.moved();
            return Ok(true);
        }
        // The card moves, and its completions are taken.
        take(ends, channel, seen)?;
        looks = looks.wrapping_add(1);
        if !ends.client && looks % 256 == 0 && channel.has_word() {
            return Ok(false);
        }
    }
}

fn client(ends: &mut Ends<'_>, channel: &mut Channel, size: u64, end: &End) -> Result<Vec<u64>, Failure> {
    let twice = matches!(ends.plan.verb, Verb::Write | Verb::Send);
    let mut progress = Progress::new(if ends.speaks && end.until.is_none() { end.iters } else { 0 });
    let mut seen = Seen::default();
    let mut stamps = vec![ends.card.now()?];
    let mut number = 0;
    while !end.is_over(number) {
        post(ends, size, number)?;
        if twice {
            arrives(ends, channel, &mut seen, size, number)?;
        }
        while seen.sends <= number {
            take(ends, channel, &mut seen)?;
        }
        stamps.push(ends.card.now()?);
        number += 1;
        progress.at(number);
    }
    Ok(stamps)
}

/// Answers each message, until the client says that it was the last.
fn server(ends: &mut Ends<'_>, channel: &mut Channel, size: u64) -> Result<(), Failure> {
    let mut seen = Seen::default();
    let mut number = 0;
    while (ends.plan.duration.is_some() || number < ends.plan.iters)
        && arrives(ends, channel, &mut seen, size, number)?
    {
        post(ends, size, number)?;
        while seen.sends <= number {
            take(ends, channel, &mut seen)?;
        }
        number += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_have_different_marks() {
        for number in 0..1000 {
            assert!(mark(number) != 0 && mark(number) != mark(number + 1));
        }
    }
}
