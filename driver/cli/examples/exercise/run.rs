// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a step, and compares what came of it: completions and every byte of memory, of both sides.

use std::net::IpAddr;
use std::ops::Range;

use ferrowire::{AccessFlags, CqeOpcode, PathMtu, SendOp, WcStatus};

use crate::plan::{expected, Expected, Plan, GRH, TARGETS};
use crate::side::{pattern, Done, Options, Piece, Place, Request, Result, Side, Success, BYTES};
use crate::steps::{Step, What};

/// Numbers of a window's bind and of its end.
const BIND: u64 = 2000;
const UNBIND: u64 = 2001;
/// A queue pair number that neither side gives out in a run.
const NOBODY: u32 = 0xff_fff0;
/// Who is who among two sides.
pub const NAMES: [&str; 2] = ["requester", "responder"];

/// Who is who on the wire.
pub struct Addresses {
    /// Of the card.
    pub card: IpAddr,
    /// Of the guest.
    pub guest: IpAddr,
}

/// The card and the guest among two sides. While the card is busy the guest's clock stands, so the two have few turns.
fn turns(guest_asks: bool) -> [usize; 2] {
    if guest_asks {
        [1, 0]
    } else {
        [0, 1]
    }
}

/// What both sides' memory is before a step.
pub fn memories(number: u32, guest_asks: bool) -> [Vec<u8>; 2] {
    [guest_asks, !guest_asks].map(|guest| (0..BYTES).map(|at| pattern(number, guest, at)).collect())
}

/// Makes memory and queue pairs of a step, and connects them.
pub fn connect(step: &Step, number: u32, sides: &mut [&mut dyn Side; 2]) -> Result<[Place; 2]> {
    let [card, guest] = turns(sides[0].is_guest());
    let mut places = [Place::default(); 2];
    for side in [card, guest] {
        places[side] = sides[side].begin(number, step.service, step.mr_rights, step.qp_rights)?;
    }
    let options = Options {
        mtu: mtu(step.mtu)?,
        // 268 ms; where nobody answers 0.26, for a simulated card takes its time.
        timeout: if step.nobody { 6 } else { 16 },
        // Linux takes 7 for ever (docs/src/interop.md).
        retry_cnt: if step.nobody { 2 } else { 6 },
        rnr_retry: step.rnr_retry,
        // 0.06 ms.
        min_rnr_timer: 5,
    };
    for side in [guest, card] {
        let peer = places[1 - side];
        let qpn = if step.nobody && side == 0 { NOBODY } else { peer.qpn };
        sides[side].connect(Place { qpn, ..peer }, &options)?;
    }
    Ok(places)
}

/// Runs a step with the first side as the one who asks, on a wire that loses frames or on none such. What it gives is what was wrong.
pub fn run(
    step: &Step,
    number: u32,
    mut sides: [&mut dyn Side; 2],
    addresses: &Addresses,
    lossy: bool,
) -> Result<Vec<String>> {
    let guest_asks = sides[0].is_guest();
    let plan = Plan::new(step, guest_asks)?;
    let places = connect(step, number, &mut sides)?;
    let [requester, responder] = &mut sides;
    let mut wrong = Vec::new();
    let uses_window = step.asks.iter().any(|ask| ask.window || ask.what == What::SendInv);
    let window = match uses_window {
        true => Some(lend(step, *responder, &mut wrong)?),
        false => None,
    };
    if step.event {
        responder.arm()?;
    }
    let before = memories(number, guest_asks);
    let (requests, receives) = (plan.requests(places[1], window, &before[1])?, &plan.receives);
    if step.late {
        requester.post(&requests)?;
        requester.pause()?;
        responder.receive(receives)?;
    } else {
        responder.receive(receives)?;
        match (requester.post(&requests), plan.posted < step.asks.len()) {
            (Err(_), true) => {}
            (Ok(()), true) => wrong.push("the requester takes a request that makes no sense".into()),
            (posted, false) => posted?,
        }
    }
    let mut expected = expected(&plan, before, places[0].qpn, window, !guest_asks);
    let found = sides[0].poll(expected.done[0].len())?;
    if lossy && expected.failure.is_some_and(|failure| failure.both) {
        nobody_answers(&found, &mut expected.done[0]);
    }
    completions(NAMES[0], &found, &expected.done[0], &mut wrong);
    completions(NAMES[1], &sides[1].poll(expected.done[1].len())?, &expected.done[1], &mut wrong);
    if step.event {
        let (came, solicited) = (sides[1].event()?, step.asks.iter().any(|ask| ask.solicited));
        if came != solicited {
            wrong.push(format!("an event {}", if came { "came" } else { "did not come" }));
        }
    }
    ends(sides, expected, addresses, &mut wrong)?;
    Ok(wrong)
}

/// Compares what there is of both sides in the end.
pub fn ends(
    sides: [&mut dyn Side; 2],
    mut expected: Expected,
    addresses: &Addresses,
    wrong: &mut Vec<String>,
) -> Result<()> {
    let guest_asks = sides[0].is_guest();
    let [card, guest] = turns(guest_asks);
    let failed = expected.failure.is_some();
    let both = expected.failure.is_some_and(|failure| failure.both);
    let (from, to) = match guest_asks {
        true => (addresses.guest, addresses.card),
        false => (addresses.card, addresses.guest),
    };
    for side in [guest, card] {
        let (who, failed) = (NAMES[side], [failed, both][side]);
        let end = sides[side].end()?;
        completions(who, &end.more, &[], wrong);
        if end.in_error != failed {
            wrong.push(format!("the {who}'s queue pair is {}in error", if failed { "not " } else { "" }));
        }
        let wanted = &mut expected.memory[side];
        if side == 1 {
            for (at, payload) in std::mem::take(&mut expected.headers) {
                let header = &end.memory[at..at + GRH];
                if let Err(why) = datagram_header(header, from, to, payload) {
                    wrong.push(format!("the header before a datagram: {why}"));
                }
                wanted[at..at + GRH].copy_from_slice(header);
            }
            leave_open(wanted, &expected.open, &end.memory);
        }
        bytes(who, &end.memory, wanted, wrong);
    }
    Ok(())
}

/// What may have changed is as it was found.
pub fn leave_open(wanted: &mut [u8], open: &[Range<usize>], found: &[u8]) {
    open.iter().for_each(|range| wanted[range.clone()].copy_from_slice(&found[range.clone()]));
}

/// Compares memory.
pub fn bytes(who: &str, found: &[u8], wanted: &[u8], wrong: &mut Vec<String>) {
    let differing: Vec<usize> = (0..BYTES).filter(|at| found[*at] != wanted[*at]).collect();
    if let Some(first) = differing.first() {
        let (count, has, right) = (differing.len(), found[*first], wanted[*first]);
        wrong.push(format!(
            "{count} bytes of the {who}'s memory, the first at {first:#x}: {has:#04x}, not {right:#04x}"
        ));
    }
}

/// Lends the peer's part of memory by a window, and takes it back if the step is about that.
fn lend(step: &Step, owner: &mut dyn Side, wrong: &mut Vec<String>) -> Result<u32> {
    let place = Piece { offset: TARGETS, bytes: (BYTES - TARGETS) as u32 };
    let key = owner.bind(BIND, place, AccessFlags::REMOTE)?;
    let ended = |wr_id, opcode| Done { wr_id, result: Ok(Success::of(opcode, 0)) };
    completions("responder", &owner.poll(1)?, &[ended(BIND, CqeOpcode::BindMw)], wrong);
    if step.taken_back {
        owner.post(&[Request {
            wr_id: UNBIND,
            op: SendOp::LocalInv { key },
            pieces: Vec::new(),
            inline: false,
            signaled: true,
            solicited: false,
            fence: false,
        }])?;
        completions("responder", &owner.poll(1)?, &[ended(UNBIND, CqeOpcode::LocalInv)], wrong);
    }
    Ok(key)
}

/// Where a wire loses frames, a request may end as one that nobody has answered: who refuses one says so once, and is in error then (IBTA 9.9.3).
/// What is lost may be the answer to one before as well.
fn nobody_answers(found: &[Done], wanted: &mut [Done]) {
    let refused = wanted.iter().position(|done| done.result.is_err());
    let unanswered = found.iter().position(|done| done.result == Err(WcStatus::RetryExcErr));
    let (Some(refused), Some(unanswered)) = (refused, unanswered) else { return };
    if unanswered <= refused {
        wanted[unanswered].result = Err(WcStatus::RetryExcErr);
        wanted[unanswered + 1..].iter_mut().for_each(|done| done.result = Err(WcStatus::WrFlushErr));
    }
}

/// Compares completions. Those of the two queues of a queue pair are each in order; a step has those of one of them a side.
pub fn completions(who: &str, found: &[Done], wanted: &[Done], wrong: &mut Vec<String>) {
    let longest = found.len().max(wanted.len());
    for at in 0..longest {
        let say = |done: Option<&Done>| done.map_or("nothing".into(), Done::to_string);
        let (found, wanted) = (found.get(at), wanted.get(at));
        if found != wanted {
            wrong.push(format!("completion {at} of the {who} is {}, not {}", say(found), say(wanted)));
        }
    }
}

/// What stands before a datagram over IPv4: 20 bytes that mean nothing, and its header (IBTA A17.4.5.2).
fn datagram_header(header: &[u8], from: IpAddr, to: IpAddr, payload: u32) -> std::result::Result<(), String> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) else {
        return Err("this program knows IPv4 alone".into());
    };
    let ip = &header[20..];
    let sum = (0..10).map(|i| u32::from(ip[2 * i]) << 8 | u32::from(ip[2 * i + 1])).sum::<u32>();
    // UDP, BTH, DETH, and the ICRC behind the padding (A17.3).
    let length = 20 + 8 + 12 + 8 + payload.next_multiple_of(4) + 4;
    let all = [
        ("version and length of its header", u32::from(ip[0]), 0x45),
        ("length", u32::from(ip[2]) << 8 | u32::from(ip[3]), length),
        ("protocol", u32::from(ip[9]), 17),
        ("checksum", (sum & 0xffff) + (sum >> 16), 0xffff),
        ("source", u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]), u32::from(from)),
        ("destination", u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]), u32::from(to)),
    ];
    match all.into_iter().find(|(_, found, wanted)| found != wanted) {
        Some((what, found, wanted)) => Err(format!("{what} {found:#x}, not {wanted:#x}")),
        None => Ok(()),
    }
}

fn mtu(bytes: u32) -> Result<PathMtu> {
    let all = [PathMtu::B256, PathMtu::B512, PathMtu::B1024, PathMtu::B2048, PathMtu::B4096];
    let found = all.into_iter().zip(8..).find(|(_, shift)| 1 << shift == bytes);
    Ok(found.ok_or_else(|| format!("{bytes} is no path MTU"))?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before a SEND of 5 bytes from 10.0.0.1 to 10.0.0.2.
    fn header() -> [u8; GRH] {
        let mut header = [0; GRH];
        let ip = [0x45, 0, 0, 60, 0, 0, 0x40, 0, 64, 17, 0x26, 0xaf, 10, 0, 0, 1, 10, 0, 0, 2];
        header[20..].copy_from_slice(&ip);
        header
    }

    #[test]
    fn each_field_before_a_datagram_is_looked_at() {
        let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        assert_eq!(datagram_header(&header(), from, to, 5), Ok(()));
        assert!(datagram_header(&header(), from, to, 9).unwrap_err().starts_with("length"));
        assert!(datagram_header(&header(), to, from, 5).unwrap_err().starts_with("source"));
        for at in 20..GRH {
            let mut wrong = header();
            wrong[at] ^= 1;
            assert!(datagram_header(&wrong, from, to, 5).is_err(), "{at}");
        }
    }

    #[test]
    fn where_an_answer_is_lost_the_requests_end_unanswered() {
        let ok = Ok(Success::of(CqeOpcode::Send, 0));
        let of = |results: [std::result::Result<Success, WcStatus>; 3]| {
            (0..).zip(results).map(|(wr_id, result)| Done { wr_id, result }).collect::<Vec<_>>()
        };
        let (refused, unanswered) = (Err(WcStatus::RemAccessErr), Err(WcStatus::RetryExcErr));
        let flushed = Err(WcStatus::WrFlushErr);
        let after = |found: [_; 3]| {
            let mut wanted = of([ok, refused, flushed]);
            nobody_answers(&of(found), &mut wanted);
            wanted
        };
        let fine = [[ok, refused, flushed], [ok, unanswered, flushed], [unanswered, flushed, flushed]];
        fine.into_iter().for_each(|found| assert_eq!(after(found), of(found)));
        let usual = of([ok, refused, flushed]);
        let wrong = [[ok, ok, unanswered], [ok, flushed, flushed], [unanswered, ok, flushed]];
        wrong.into_iter().for_each(|found| assert_ne!(after(found), of(found)));
        assert_eq!(after([ok, ok, unanswered]), usual);
    }

    #[test]
    fn what_differs_is_told() {
        let done = |wr_id| Done { wr_id, result: Ok(Success::of(CqeOpcode::Recv, 7)) };
        let mut wrong = Vec::new();
        completions("responder", &[done(1000), done(1001)], &[done(1000), done(1001)], &mut wrong);
        bytes("responder", &[5; BYTES], &[5; BYTES], &mut wrong);
        assert_eq!(wrong, Vec::<String>::new());
        completions("responder", &[done(1000), done(1001)], &[done(1001)], &mut wrong);
        let mut found = [5; BYTES];
        (found[9], found[BYTES - 1]) = (4, 6);
        bytes("requester", &found, &[5; BYTES], &mut wrong);
        let told = [
            "completion 0 of the responder is 1000: RECV 7, not 1001: RECV 7",
            "completion 1 of the responder is 1001: RECV 7, not nothing",
            "2 bytes of the requester's memory, the first at 0x9: 0x04, not 0x05",
        ];
        assert_eq!(wrong, told);
    }
}
