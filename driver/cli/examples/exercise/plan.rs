// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a step's bytes are, its requests in numbers, and what must come of them.

use std::ops::Range;

use ferrowire::{CqeOpcode, RemoteAddress, SendOp, Service, WcStatus};

use crate::side::{Done, Piece, Place, Request, Result, Success, BYTES};
use crate::steps::{Ask, Ending, Failure, Step, What, Wrong};

/// What is behind this place is for the peer's one-sided requests, what is before it for pieces of one's own.
pub const TARGETS: usize = BYTES / 2;
/// Between two pieces: what is written behind one shows.
const GAP: usize = 3;
/// Bytes before a datagram (IBTA A17.4.5.2).
pub const GRH: usize = 40;
/// Number of the first receive; requests count from 0.
pub const RECEIVES: u64 = 1000;
/// What an atomic adds, or stores.
const OPERAND: u64 = 0x1122_3344_5566_7788;

/// Takes places of memory, one behind the other.
struct Layout {
    next: usize,
}

impl Layout {
    fn take(&mut self, bytes: u32, align: usize) -> usize {
        let at = (self.next + GAP).next_multiple_of(align);
        self.next = at + bytes as usize;
        at
    }

    fn pieces(&mut self, all: &[u32]) -> Vec<Piece> {
        all.iter().map(|bytes| Piece { offset: self.take(*bytes, 1), bytes: *bytes }).collect()
    }
}

/// Where a step's bytes are.
pub struct Plan<'a> {
    /// The step.
    pub step: &'a Step,
    /// Of each request, its pieces of the requester's memory, and its place in the responder's.
    asks: Vec<(Vec<Piece>, usize)>,
    /// Of each receive, by its number.
    pub receives: Vec<(u64, Vec<Piece>)>,
    /// So many requests are posted: the next one is refused.
    pub posted: usize,
}

impl<'a> Plan<'a> {
    /// Gives each piece its place.
    pub fn new(step: &'a Step, linux_asks: bool) -> Result<Self> {
        let (mut own, mut targets, mut buffers) =
            (Layout { next: 0 }, Layout { next: TARGETS }, Layout { next: 0 });
        let mut asks: Vec<(Vec<Piece>, usize)> = Vec::new();
        for ask in &step.asks {
            let pieces = match asks.last() {
                Some((before, _)) if ask.same => before.clone(),
                _ => own.pieces(&ask.pieces),
            };
            let target = match ask.what {
                What::CompareSwap { .. } | What::FetchAdd => targets.take(8, 8),
                what if what.is_send() => TARGETS,
                _ => targets.take(ask.bytes(), 1),
            };
            asks.push((pieces, target));
        }
        let header: &[u32] = if step.service == Service::Ud { &[GRH as u32] } else { &[] };
        let receives = step.receives.iter().map(|pieces| buffers.pieces(&[header, pieces].concat()));
        let receives = (RECEIVES..).zip(receives).collect();
        let posted = match step.ending {
            Ending::NotPostedByLinux(failure) if linux_asks => failure.at,
            _ => step.asks.len(),
        };
        match own.next.max(buffers.next) > TARGETS || targets.next > BYTES {
            true => Err("the step has more bytes than there is memory".into()),
            false => Ok(Plan { step, asks, receives, posted }),
        }
    }

    /// Of a request, its pieces of the requester's memory.
    pub fn pieces(&self, at: usize) -> &[Piece] {
        &self.asks[at].0
    }

    /// And its place in the responder's: nothing, of one that has none.
    pub fn target(&self, at: usize) -> Range<usize> {
        let (ask, start) = (&self.step.asks[at], self.asks[at].1);
        start..start + if ask.what.is_send() { 0 } else { ask.bytes() as usize }
    }

    /// All requests, in numbers.
    pub fn requests(&self, memory: Place, window: Option<u32>, before: &[u8]) -> Result<Vec<Request>> {
        (0..self.step.asks.len()).map(|at| self.request(at, memory, window, before)).collect()
    }

    /// The request with its address, in numbers.
    fn request(&self, at: usize, memory: Place, window: Option<u32>, before: &[u8]) -> Result<Request> {
        let (ask, (pieces, target)) = (&self.step.asks[at], &self.asks[at]);
        let key = if ask.window { window.ok_or("the step has no window")? } else { memory.rkey };
        let place = match ask.wrong {
            Wrong::Nothing | Wrong::Key => *target as u64,
            Wrong::Bounds => (BYTES - ask.bytes() as usize + 1).next_multiple_of(8) as u64,
            Wrong::Unaligned => *target as u64 + 1,
        };
        let rkey = if ask.wrong == Wrong::Key { key ^ 1 } else { key };
        let remote = RemoteAddress { address: memory.address + place, rkey };
        let imm = immediate(at);
        let op = match ask.what {
            What::Send => SendOp::Send,
            What::SendImm => SendOp::SendImm { imm },
            What::SendInv => SendOp::SendInv { key: window.ok_or("the step has no window")? },
            What::Write => SendOp::Write { remote },
            What::WriteImm => SendOp::WriteImm { remote, imm },
            What::Read => SendOp::Read { remote },
            What::CompareSwap { hits } => {
                let there = word(before, *target);
                SendOp::CompareSwap { remote, compare: if hits { there } else { !there }, swap: OPERAND }
            }
            What::FetchAdd => SendOp::FetchAdd { remote, add: OPERAND },
        };
        let Ask { inline, signaled, solicited, fence, .. } = *ask;
        Ok(Request { wr_id: at as u64, op, pieces: pieces.clone(), inline, signaled, solicited, fence })
    }
}

/// The immediate of a request.
pub fn immediate(at: usize) -> u32 {
    0xfe00_0000 | (at as u32) << 8 | 0xa5
}

fn word(memory: &[u8], at: usize) -> u64 {
    memory[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The bytes of pieces, one behind the other.
pub fn gather(memory: &[u8], pieces: &[Piece]) -> Vec<u8> {
    pieces.iter().flat_map(|piece| &memory[range(piece)]).copied().collect()
}

/// Puts bytes into pieces, as far as there are any.
pub fn scatter(memory: &mut [u8], pieces: &[Piece], mut bytes: &[u8]) {
    for piece in pieces {
        let (here, rest) = bytes.split_at(bytes.len().min(piece.bytes as usize));
        memory[piece.offset..piece.offset + here.len()].copy_from_slice(here);
        bytes = rest;
    }
}

/// Where a piece is.
pub fn range(piece: &Piece) -> Range<usize> {
    piece.offset..piece.offset + piece.bytes as usize
}

/// What must be seen in the end.
pub struct Expected {
    /// Of the requester, and of the responder.
    pub memory: [Vec<u8>; 2],
    /// Likewise.
    pub done: [Vec<Done>; 2],
    /// Headers before datagrams, in the responder's memory.
    pub headers: Vec<(usize, u32)>,
    /// What may have changed in the responder's memory: a message that was too long.
    pub open: Vec<Range<usize>>,
    /// What ends the step, if anything does.
    pub failure: Option<Failure>,
}

/// Carries the step out on the bytes that there are before it.
pub fn expected(
    plan: &Plan<'_>,
    memory: [Vec<u8>; 2],
    qpn: u32,
    window: Option<u32>,
    linux: bool,
) -> Expected {
    let step = plan.step;
    let failure = match step.ending {
        Ending::Well => None,
        Ending::NotPostedByLinux(_) if plan.posted < step.asks.len() => None,
        Ending::Fails(failure) | Ending::NotPostedByLinux(failure) => Some(failure),
        Ending::FailsOtherwiseByLinux(usual, by_linux) => Some(if linux { by_linux } else { usual }),
    };
    let [mut own, mut peers] = memory;
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let (mut headers, mut open) = (Vec::new(), Vec::new());
    let mut receives = plan.receives.iter();
    let datagram = step.service == Service::Ud;
    for (at, (ask, (pieces, target))) in step.asks.iter().zip(&plan.asks).enumerate().take(plan.posted) {
        let wr_id = at as u64;
        if let Some(failure) = failure.filter(|failure| failure.at <= at) {
            let status = if failure.at == at { failure.status } else { WcStatus::WrFlushErr };
            sent.push(Done { wr_id, result: Err(status) });
            continue;
        }
        let bytes = ask.bytes();
        let place = *target..*target + bytes as usize;
        let answer = |own: &mut [u8], bytes: &[u8]| scatter(own, pieces, bytes);
        let opcode = match ask.what {
            What::Send | What::SendImm | What::SendInv => CqeOpcode::Send,
            What::Write | What::WriteImm => {
                peers[place].copy_from_slice(&gather(&own, pieces));
                CqeOpcode::Write
            }
            What::Read => {
                answer(&mut own, &peers[place]);
                CqeOpcode::Read
            }
            What::CompareSwap { hits } => {
                answer(&mut own, &peers[place.clone()]);
                if hits {
                    peers[place].copy_from_slice(&OPERAND.to_le_bytes());
                }
                CqeOpcode::CmpSwap
            }
            What::FetchAdd => {
                let sum = word(&peers, *target).wrapping_add(OPERAND);
                answer(&mut own, &peers[place.clone()]);
                peers[place].copy_from_slice(&sum.to_le_bytes());
                CqeOpcode::FetchAdd
            }
        };
        if ask.signaled {
            sent.push(Done { wr_id, result: Ok(Success::of(opcode, bytes)) });
        }
        if !ask.what.takes_receive() {
            continue;
        }
        let opcode = match ask.what {
            What::SendImm => CqeOpcode::RecvImm,
            What::SendInv => CqeOpcode::RecvInv,
            What::WriteImm => CqeOpcode::RecvWriteImm,
            _ => CqeOpcode::Recv,
        };
        let Some((wr_id, buffers)) = receives.next() else { continue };
        let mut message = Vec::new();
        if datagram {
            headers.push((buffers[0].offset, bytes + if ask.what == What::SendImm { 4 } else { 0 }));
            message.extend(&peers[range(&buffers[0])]);
        }
        if ask.what.is_send() {
            message.extend(gather(&own, pieces));
            scatter(&mut peers, buffers, &message);
        }
        let all = if ask.what == What::WriteImm { bytes } else { message.len() as u32 };
        let with_imm = matches!(ask.what, What::SendImm | What::WriteImm);
        let success = Success {
            imm: with_imm.then(|| immediate(at)),
            invalidated: window.filter(|_| ask.what == What::SendInv),
            from: datagram.then_some(qpn),
            ..Success::of(opcode, all)
        };
        received.push(Done { wr_id: *wr_id, result: Ok(success) });
    }
    if let Some(failure) = failure.filter(|failure| failure.both) {
        for (i, (wr_id, buffers)) in receives.enumerate() {
            let status = if i == 0 { failure.receive } else { WcStatus::WrFlushErr };
            if status != WcStatus::WrFlushErr {
                open.extend(buffers.iter().map(range));
            }
            received.push(Done { wr_id: *wr_id, result: Err(status) });
        }
    }
    Expected { memory: [own, peers], done: [sent, received], headers, open, failure }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ferrowire::AccessFlags;

    use super::*;
    use crate::side::{pattern, INLINE, PIECES};
    use crate::steps::steps;
    use crate::streams::streams;

    fn memory() -> [Vec<u8>; 2] {
        [false, true].map(|guest| (0..BYTES).map(|at| pattern(1, guest, at)).collect())
    }

    #[test]
    fn each_step_has_a_name_of_its_own_and_what_both_sides_can_do() {
        let all: Vec<Step> = steps().into_iter().chain(streams()).collect();
        assert_eq!(all.iter().map(|step| &step.name).collect::<BTreeSet<_>>().len(), all.len());
        for step in &all {
            let plan = Plan::new(step, false).unwrap();
            let expected = expected(&plan, memory(), 7, Some(0x100), false);
            assert!(!expected.done[0].is_empty(), "{}: nothing is seen of it", step.name);
            for (at, ask) in step.asks.iter().enumerate() {
                assert!(
                    ask.pieces.len() <= PIECES && (!ask.inline || ask.bytes() <= INLINE as u32),
                    "{}",
                    step.name
                );
                plan.request(at, Place::default(), Some(0x100), &memory()[1]).unwrap();
            }
            // Where one alone ends, nothing tells when the other one's memory is as it must be.
            let takes = step.asks.last().is_some_and(|ask| ask.what.takes_receive());
            assert!(takes, "{}: the last request tells its peer nothing", step.name);
        }
    }

    #[test]
    fn what_is_sent_behind_a_read_is_what_was_read() {
        let all = steps();
        let step = all.iter().find(|step| step.name == "rc-fence").unwrap();
        let plan = Plan::new(step, false).unwrap();
        let [own, peers] = memory();
        let place = plan.asks[0].1;
        let wanted = peers[place..place + 2000].to_vec();
        let expected = expected(&plan, [own, peers], 7, None, false);
        assert_eq!(gather(&expected.memory[0], &plan.asks[0].0), wanted);
        assert_eq!(gather(&expected.memory[1], &plan.receives[0].1), wanted);
    }

    #[test]
    fn a_request_that_fails_changes_nothing_and_takes_what_is_behind_it_along() {
        let all = steps();
        let step = all.iter().find(|step| step.name == "rc-write-closed-memory").unwrap();
        assert!(!step.mr_rights.contains(AccessFlags::REMOTE_WRITE));
        let plan = Plan::new(step, false).unwrap();
        let expected = expected(&plan, memory(), 7, None, false);
        let failed = |done: &Done| done.result.err();
        let (sent, received) = (&expected.done[0], &expected.done[1]);
        let ends = [None, Some(WcStatus::RemAccessErr), Some(WcStatus::WrFlushErr)];
        assert_eq!(sent.iter().map(failed).collect::<Vec<_>>(), ends);
        assert_eq!(received.iter().map(failed).collect::<Vec<_>>(), [None, Some(WcStatus::WrFlushErr)]);
        assert_eq!(expected.memory[1][TARGETS..], memory()[1][TARGETS..]);
    }
}
