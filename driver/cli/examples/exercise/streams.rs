// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many messages of UC or UD on a wire that loses frames. Nobody acknowledges them, so how many come is the wire's affair; of those that come each is whole, and in a receive
//! that no other one has touched (IBTA 9.8.2.2, 9.8.3.2): a message that broke off leaves its receive to the next one.

use ferrowire::Service;

use crate::plan::{expected, gather, range, scatter, Expected, Plan};
use crate::run::{completions, connect, ends, memories, Addresses, NAMES};
use crate::side::{Done, Result, Side};
use crate::steps::{ask, step, Ask, Step, What};

/// Messages of a stream.
const MESSAGES: usize = 60;
/// Looks in a row that must find nothing before a stream is over.
const SILENT: u32 = 3;

/// The streams of one direction: each message has an immediate, by which it is known.
pub fn streams() -> Vec<Step> {
    let of = |name: &str, service, mtu, what, bytes| {
        let asks: Vec<Ask> = (0..MESSAGES).map(|_| ask(what, &[bytes])).collect();
        step(name, service, mtu, asks)
    };
    vec![
        // Three packets each.
        of("uc-stream-send", Service::Uc, 256, What::SendImm, 520),
        of("uc-stream-write", Service::Uc, 256, What::WriteImm, 520),
        of("uc-stream-send-short", Service::Uc, 1024, What::SendImm, 500),
        of("ud-stream-send", Service::Ud, 4096, What::SendImm, 480),
    ]
}

/// What came of a stream.
pub struct Came {
    /// Messages.
    pub messages: usize,
    /// What was wrong.
    pub wrong: Vec<String>,
}

/// Sends a stream from the first side to the second.
pub fn run(stream: &Step, number: u32, mut sides: [&mut dyn Side; 2], addresses: &Addresses) -> Result<Came> {
    let guest_asks = sides[0].is_guest();
    let plan = Plan::new(stream, guest_asks)?;
    let places = connect(stream, number, &mut sides)?;
    let before = memories(number, guest_asks);
    let there = before[1].clone();
    sides[1].receive(&plan.receives)?;
    sides[0].post(&plan.requests(places[1], None, &there)?)?;
    let all = expected(&plan, before, places[0].qpn, None, !guest_asks);
    let mut wrong = Vec::new();
    // They end when they have been sent.
    completions(NAMES[0], &sides[0].poll(all.done[0].len())?, &all.done[0], &mut wrong);
    let mut came = Vec::new();
    let mut silent = 0;
    while silent < SILENT {
        sides[1].pause()?;
        let more = sides[1].poll(0)?;
        silent = if more.is_empty() { silent + 1 } else { 0 };
        came.extend(more);
    }
    let arrived = arrived(&plan, all, &came, there, &mut wrong);
    ends(sides, arrived, addresses, &mut wrong)?;
    Ok(Came { messages: came.len(), wrong })
}

/// Of what there would be if `all` came, what there must be of what came, in the receiver's memory that was `there` before.
fn arrived(
    plan: &Plan<'_>,
    all: Expected,
    came: &[Done],
    mut there: Vec<u8>,
    wrong: &mut Vec<String>,
) -> Expected {
    let mut headers = Vec::new();
    let mut missing: Vec<bool> = vec![true; plan.step.asks.len()];
    for (done, (wr_id, buffers)) in came.iter().zip(&plan.receives) {
        let Some(at) = all.done[1].iter().position(|sent| sent.result == done.result) else {
            wrong.push(format!("a completion of the {} is {done}, which was not sent", NAMES[1]));
            continue;
        };
        completions(NAMES[1], &[*done], &[Done { wr_id: *wr_id, ..*done }], wrong);
        missing[at] = false;
        let mut message = Vec::new();
        if let Some((_, payload)) = all.headers.get(at) {
            headers.push((buffers[0].offset, *payload));
            message.extend(&there[range(&buffers[0])]);
        }
        message.extend(gather(&all.memory[0], plan.pieces(at)));
        if plan.step.asks[at].what.is_send() {
            scatter(&mut there, buffers, &message);
        } else {
            there[plan.target(at)].copy_from_slice(&message);
        }
    }
    // There are no more receives than that.
    completions(NAMES[1], came.get(plan.receives.len()..).unwrap_or_default(), &[], wrong);
    // The next receive may have begun, and targets may have been written to in part.
    let next = plan.receives.get(came.len()).into_iter().flat_map(|(_, buffers)| buffers).map(range);
    let targets = (0..missing.len()).filter(|at| missing[*at]).map(|at| plan.target(at));
    let open = next.chain(targets).collect();
    let [own, _] = all.memory;
    Expected { memory: [own, there], headers, open, ..all }
}

#[cfg(test)]
mod tests {
    use ferrowire::CqeOpcode;

    use super::*;
    use crate::plan::{immediate, RECEIVES};
    use crate::run::{bytes, leave_open};
    use crate::side::{Success, BYTES};

    /// The receiver's memory before, and after the messages with these numbers have come one behind the other.
    fn received(plan: &Plan<'_>, order: &[usize]) -> ([Vec<u8>; 2], Vec<Done>) {
        let [sent, there] = memories(3, true);
        let mut found = there.clone();
        let mut came = Vec::new();
        for (n, at) in order.iter().enumerate() {
            scatter(&mut found, &plan.receives[n].1, &gather(&sent, plan.pieces(*at)));
            let success = Success { imm: Some(immediate(*at)), ..Success::of(CqeOpcode::RecvImm, 520) };
            came.push(Done { wr_id: RECEIVES + n as u64, result: Ok(success) });
        }
        ([there, found], came)
    }

    #[test]
    fn any_that_come_may_come_and_each_must_be_whole() {
        let stream = streams().remove(0);
        let plan = Plan::new(&stream, true).unwrap();
        let ([there, found], came) = received(&plan, &[0, 2, 1, 2, 59]);
        let receive = |n: usize| plan.receives[n].1[0].offset;
        let told = |found: &[u8], came: &[Done]| {
            let mut wrong = Vec::new();
            let all = expected(&plan, memories(3, true), 7, None, false);
            let Expected { memory: [_, mut wanted], open, .. } =
                arrived(&plan, all, came, there.clone(), &mut wrong);
            leave_open(&mut wanted, &open, found);
            bytes("responder", found, &wanted, &mut wrong);
            wrong
        };
        assert_eq!(told(&found, &came), Vec::<String>::new());
        // A message that broke off has left something in the next receive.
        let mut torn = found.clone();
        torn[receive(5)] ^= 1;
        assert_eq!(told(&torn, &came), Vec::<String>::new());
        // And in none behind that.
        torn[receive(6)] ^= 1;
        assert_eq!(told(&torn, &came).len(), 1);
        torn[receive(6)] ^= 1;
        // One that is complete is not what was sent.
        torn[receive(3) + 519] ^= 1;
        assert!(told(&torn, &came)[0].starts_with("1 bytes of the responder's memory"));
        // Something else is overwritten.
        let mut beside = found.clone();
        beside[BYTES - 1] ^= 1;
        assert_eq!(told(&beside, &came).len(), 1);
        // A receive is left out, and one that nobody sent.
        let (mut skips, mut strange) = (came.clone(), came.clone());
        skips.remove(1);
        assert!(!told(&found, &skips).is_empty());
        strange[4].result = Ok(Success { imm: Some(5), ..Success::of(CqeOpcode::RecvImm, 520) });
        assert!(told(&found, &strange)[0].contains("which was not sent"));
    }
}
