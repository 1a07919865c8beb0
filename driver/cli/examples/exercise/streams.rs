// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many messages of UC or UD on a wire that loses frames. Nobody acknowledges them, so how many come is the wire's affair; of those that come each is whole, and in a receive
//! that no other one has touched (IBTA 9.8.2.2, 9.8.3.2): a message that broke off leaves its receive to the next one.

use ferrowire::{CqeOpcode, Service};

use crate::plan::{gather, immediate, range, scatter, Plan, GRH, RECEIVES};
use crate::run::{self, bytes, completions, datagram_header, Addresses};
use crate::side::{pattern, Done, Result, Side, Success, BYTES};
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
pub fn run(stream: &Step, number: u32, mut sides: [&mut dyn Side; 2], at: &Addresses) -> Result<Came> {
    let guest_asks = sides[0].is_guest();
    let plan = Plan::new(stream, guest_asks)?;
    let places = run::connect(stream, number, &mut sides)?;
    let [sender, receiver] = &mut sides;
    let before = [guest_asks, !guest_asks]
        .map(|guest| (0..BYTES).map(|at| pattern(number, guest, at)).collect::<Vec<u8>>());
    let receives: Vec<_> = (RECEIVES..).zip(plan.receives.iter().cloned()).collect();
    receiver.receive(&receives)?;
    let requests = (0..stream.asks.len()).map(|at| plan.request(at, places[1], None, &before[1]));
    sender.post(&requests.collect::<Result<Vec<_>>>()?)?;
    let mut wrong = Vec::new();
    // They end when they have been sent.
    let done = (0..stream.asks.len() as u64).zip(&stream.asks).map(|(wr_id, ask)| Done {
        wr_id,
        result: Ok(Success::of(
            if ask.what.is_send() { CqeOpcode::Send } else { CqeOpcode::Write },
            ask.bytes(),
        )),
    });
    let done: Vec<Done> = done.collect();
    completions("requester", &sender.poll(done.len())?, &done, &mut wrong);
    let mut came = Vec::new();
    let mut silent = 0;
    while silent < SILENT {
        receiver.pause()?;
        let more = receiver.poll(0)?;
        silent = if more.is_empty() { silent + 1 } else { 0 };
        came.extend(more);
    }
    let [from, to] = match guest_asks {
        true => [at.guest, at.card],
        false => [at.card, at.guest],
    };
    let mut ends = Vec::new();
    for (side, who) in sides.iter_mut().zip(["requester", "responder"]) {
        let end = side.end()?;
        completions(who, &end.more, &[], &mut wrong);
        if end.in_error {
            wrong.push(format!("the {who}'s queue pair is in error"));
        }
        ends.push(end);
    }
    bytes("requester", &ends[0].memory, &before[0], &mut wrong);
    let (found, [sent, there]) = (&ends[1].memory, before);
    let wanted = arrived(&plan, &came, places[0].qpn, &sent, there, found, &mut wrong);
    for (at, payload) in wanted.headers {
        if let Err(why) = datagram_header(&found[at..at + GRH], from, to, payload) {
            wrong.push(format!("the header before a datagram: {why}"));
        }
    }
    bytes("responder", found, &wanted.memory, &mut wrong);
    Ok(Came { messages: came.len(), wrong })
}

/// What the receiver must have.
struct Arrived {
    memory: Vec<u8>,
    /// Headers before datagrams, with the bytes behind each.
    headers: Vec<(usize, u32)>,
}

/// Puts what came where it belongs. What is not complete may be there in part: that is taken from what was `found`.
fn arrived(
    plan: &Plan<'_>,
    came: &[Done],
    qpn: u32,
    sent: &[u8],
    mut memory: Vec<u8>,
    found: &[u8],
    wrong: &mut Vec<String>,
) -> Arrived {
    let (asks, datagram) = (&plan.step.asks, plan.step.service == Service::Ud);
    // The next receive may have begun, and targets may have been written to in part.
    let next = plan.receives.get(came.len()).into_iter().flatten().map(range);
    let open = next.chain((0..asks.len()).map(|at| plan.target(at)));
    open.for_each(|part| memory[part.clone()].copy_from_slice(&found[part]));
    let mut headers = Vec::new();
    for (n, done) in came.iter().enumerate() {
        let imm = done.result.ok().and_then(|success| success.imm);
        let Some(at) = (0..asks.len()).find(|at| imm == Some(immediate(*at))) else {
            wrong.push(format!("completion {n} of the responder is {done}, which was not sent"));
            continue;
        };
        let (length, is_send) = (asks[at].bytes(), asks[at].what.is_send());
        let message = gather(sent, plan.pieces(at));
        let success = Success {
            imm,
            from: datagram.then_some(qpn),
            ..Success::of(
                if is_send { CqeOpcode::RecvImm } else { CqeOpcode::RecvWriteImm },
                length + if datagram { GRH as u32 } else { 0 },
            )
        };
        completions(
            "responder",
            &[*done],
            &[Done { wr_id: RECEIVES + n as u64, result: Ok(success) }],
            wrong,
        );
        let Some(buffers) = plan.receives.get(n) else { continue };
        if !is_send {
            memory[plan.target(at)].copy_from_slice(&message);
            continue;
        }
        let header = if datagram { &found[range(&buffers[0])] } else { &[] };
        if datagram {
            headers.push((buffers[0].offset, length + 4));
        }
        scatter(&mut memory, buffers, &[header, &message].concat());
    }
    Arrived { memory, headers }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memories of both before, and the receiver's after the messages with these numbers have come one behind the other.
    fn received(plan: &Plan<'_>, order: &[usize]) -> (Vec<u8>, Vec<u8>, Vec<u8>, Vec<Done>) {
        let [sent, there] = [true, false].map(|guest| (0..BYTES).map(|at| pattern(3, guest, at)).collect());
        let (sent, there): (Vec<u8>, Vec<u8>) = (sent, there);
        let mut found = there.clone();
        let mut came = Vec::new();
        for (n, at) in order.iter().enumerate() {
            scatter(&mut found, &plan.receives[n], &gather(&sent, plan.pieces(*at)));
            let success = Success { imm: Some(immediate(*at)), ..Success::of(CqeOpcode::RecvImm, 520) };
            came.push(Done { wr_id: RECEIVES + n as u64, result: Ok(success) });
        }
        (sent, there, found, came)
    }

    #[test]
    fn any_that_come_may_come_and_each_must_be_whole() {
        let stream = streams().remove(0);
        let plan = Plan::new(&stream, true).unwrap();
        let (sent, there, found, came) = received(&plan, &[0, 2, 1, 2, 59]);
        let told = |found: &[u8], came: &[Done]| {
            let mut wrong = Vec::new();
            let wanted = arrived(&plan, came, 7, &sent, there.clone(), found, &mut wrong);
            bytes("responder", found, &wanted.memory, &mut wrong);
            wrong
        };
        assert_eq!(told(&found, &came), Vec::<String>::new());
        // A message that broke off has left something in the next receive.
        let mut torn = found.clone();
        torn[plan.receives[5][0].offset] ^= 1;
        assert_eq!(told(&torn, &came), Vec::<String>::new());
        // And in none behind that.
        torn[plan.receives[6][0].offset] ^= 1;
        assert_eq!(told(&torn, &came).len(), 1);
        torn[plan.receives[6][0].offset] ^= 1;
        // One that is complete is not what was sent.
        torn[plan.receives[3][0].offset + 519] ^= 1;
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
