// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must come of a program, by plain Rust: what bytes may be, and how requests may end. [`super::inbox`] does the same for
//! receives.
//!
//! Neither end is asked. A request that succeeded has had its effect when its completion is there, or that of the peer's
//! receive for it or for one behind it. One that failed, was flushed or was reset may have had all, a part, or nothing of it,
//! unless it was itself a mistake: that has none. Nothing else changes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use ferrowire_spec::queue::cqe::{CqeOpcode, WcStatus};
use ferrowire_spec::queue::send_wqe::SendOpcode;

use super::ends::Done;
use super::inbox::Sent;
use super::program::{is_answered, Message, Mistake};

/// What the bytes of a region's pages may be.
#[derive(Clone, Debug)]
pub struct Memory {
    want: Vec<u8>,
    /// What else a byte may be.
    others: BTreeMap<usize, Vec<u8>>,
}

impl Memory {
    /// Exactly these.
    pub fn new(want: Vec<u8>) -> Self {
        Self { want, others: BTreeMap::new() }
    }

    /// The bytes, where nothing else is possible.
    pub fn want(&self) -> &[u8] {
        &self.want
    }

    /// These are the bytes, which have been found right, and stay as they are; else they may still become what was possible.
    pub fn pin(&mut self, got: Vec<u8>, stay: bool) {
        self.want = got;
        if stay {
            self.others.clear();
        }
    }

    /// From now on these bytes are there.
    pub fn set(&mut self, at: usize, bytes: &[u8]) {
        self.want[at..at + bytes.len()].copy_from_slice(bytes);
        let settled: Vec<usize> = self.others.range(at..at + bytes.len()).map(|(place, _)| *place).collect();
        for place in settled {
            self.others.remove(&place);
        }
    }

    /// From now on these bytes may be there, each for itself.
    pub fn maybe(&mut self, at: usize, bytes: &[u8]) {
        for (place, byte) in (at..).zip(bytes) {
            if self.want[place] != *byte {
                self.others.entry(place).or_default().push(*byte);
            }
        }
    }

    /// The first byte of a range that is none of what it may be; `open` is what may come any time.
    pub fn wrong(&self, got: &[u8], range: Range<usize>, open: &[(usize, &[u8])]) -> Option<String> {
        if got.len() != self.want.len() {
            return Some(format!("{} bytes rather than {}", got.len(), self.want.len()));
        }
        let fine = |at: usize| {
            let byte = got[at];
            byte == self.want[at]
                || self.others.get(&at).is_some_and(|others| others.contains(&byte))
                || open.iter().any(|(from, bytes)| {
                    at.checked_sub(*from).and_then(|i| bytes.get(i)).is_some_and(|may| *may == byte)
                })
        };
        // Most bytes are as they must be: blocks that are equal need no look at each of them.
        const BLOCK: usize = 256;
        let blocks = range.clone().step_by(BLOCK).map(|from| from..range.end.min(from + BLOCK));
        let unequal = blocks.filter(|block| got[block.clone()] != self.want[block.clone()]);
        let mut bad = unequal.flatten().filter(|at| !fine(*at));
        let first = bad.next()?;
        let (is, was) = (got[first], self.want[first]);
        Some(format!("byte {first:#x} is {is:#04x}, not {was:#04x}; {} differ", 1 + bad.count()))
    }
}

/// What else than its own mistakes may end the requests of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dangers {
    /// Its queue pair may be in error for another reason than a request of it.
    pub own: bool,
    /// The peer's may be, and be silent.
    pub peer: bool,
    /// The peer must refuse a request. When the answer of a READ or atomic before it is late or lost, so is the refusal, and
    /// it does not come again.
    pub refused: bool,
}

/// How a request must end, by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Well.
    Well,
    /// Well, or without a receive in time: that was posted late.
    Tight,
    /// With a local key or bounds that are wrong.
    Local,
    /// Denied by the peer: key, bounds or rights.
    Denied,
    /// As an invalid request: too long for its receive.
    Invalid,
    /// With a receive that the peer cannot use.
    Operation,
    /// Without a receive: none was posted.
    Starved,
}

/// A request that was posted and has not ended.
#[derive(Clone, Debug)]
pub struct Open {
    /// Its number.
    pub id: u64,
    /// The message.
    pub message: Message,
    /// What it brings to the answers.
    pub answer: Vec<u8>,
    /// The receive that it takes, counted in the life.
    pub takes: Option<usize>,
    /// Posted in SQD, where nothing begins.
    pub held: bool,
}

/// What a request writes in the target.
#[derive(Clone, Debug)]
pub struct Effect {
    /// Of the request.
    pub id: u64,
    /// Where.
    pub to: usize,
    /// What.
    pub data: Vec<u8>,
    /// As that of the request.
    pub held: bool,
}

/// What a completion says of requests.
#[derive(Debug, Default)]
pub struct Ended {
    /// These have succeeded, the oldest first.
    pub well: Vec<Open>,
    /// This one has not.
    pub badly: Option<Open>,
}

/// The requests of one side of a connection, in a life.
#[derive(Debug, Default)]
pub struct Flow {
    /// Posted and not ended.
    pub open: VecDeque<Open>,
    /// Messages posted.
    pub posted: usize,
    /// Those that take a receive.
    pub sent: Vec<Sent>,
    /// How many of these have succeeded.
    pub sent_well: usize,
    /// What is written in the target by requests that nobody has heard the end of.
    pub effects: VecDeque<Effect>,
    /// The target as it is when all that was posted has succeeded.
    pub image: Vec<u8>,
    /// A READ or an atomic was posted.
    pub answered: bool,
    /// A request has failed: how the first one did.
    pub failed: Option<WcStatus>,
    /// One with such a mistake was posted.
    pub mistake: Option<Mistake>,
}

impl Flow {
    /// Takes a completion, if it may come. `fate` says how a request must end.
    ///
    /// # Errors
    /// Why it may not.
    pub fn take(
        &mut self,
        done: &Done,
        dangers: Dangers,
        fate: impl Fn(&Open) -> Fate,
    ) -> Result<Ended, String> {
        let place = self.open.iter().position(|open| open.id == done.id);
        let Some(place) = place else {
            return Err(format!("completion of request {}, which is not under way", done.id));
        };
        let Some(status) = done.status else {
            return Err(format!("request {} ends with a status that does not exist", done.id));
        };
        // In order; errors complete what is not signalled too (IBTA 10.8.5, 10.8.5.1, 10.3.1.7).
        let before = self.open.iter().take(place);
        if let Some(missing) = before.clone().find(|open| open.message.signaled || self.failed.is_some()) {
            return Err(format!("request {} ends with {status} before {}", done.id, missing.id));
        }
        if let Some(wrong) = before.clone().find(|open| !matches!(fate(open), Fate::Well | Fate::Tight)) {
            return Err(format!("request {} is passed over, though it cannot succeed", wrong.id));
        }
        let open = &self.open[place];
        if let Some(held) = self.open.iter().take(place + 1).find(|open| open.held) {
            return Err(format!("request {} ends with {status}, but was posted in SQD", held.id));
        }
        self.judge(open, done, status, dangers, fate(open))
            .map_err(|why| format!("request {} ends with {status}, but {why}", done.id))?;
        let mut ended = Ended { well: self.open.drain(..place).collect(), badly: None };
        let Some(this) = self.open.pop_front() else { return Ok(ended) };
        if status == WcStatus::Success {
            ended.well.push(this);
        } else {
            self.failed.get_or_insert(status);
            ended.badly = Some(this);
        }
        self.sent_well += ended.well.iter().filter(|open| open.takes.is_some()).count();
        Ok(ended)
    }

    fn judge(
        &self,
        open: &Open,
        done: &Done,
        status: WcStatus,
        dangers: Dangers,
        fate: Fate,
    ) -> Result<(), &'static str> {
        use {Fate as F, WcStatus as W};
        let message = &open.message;
        let fine = match (self.failed, status, fate) {
            (Some(_), W::WrFlushErr, _) => true,
            (Some(_), _, _) => return Err("one before it has failed"),
            (None, W::Success, F::Well | F::Tight) if done.opcode != Some(completed_as(message.verb)) => {
                return Err("as another kind of request")
            }
            (None, W::Success, F::Well | F::Tight) => {
                if is_answered(message.verb) && done.bytes as usize != message.len {
                    return Err("with another length");
                }
                true
            }
            (None, W::Success, _) => return Err("it cannot succeed"),
            (None, W::LocProtErr, F::Local)
            | (None, W::RemAccessErr, F::Denied)
            | (None, W::RemInvReqErr, F::Invalid)
            | (None, W::RemOpErr, F::Operation)
            | (None, W::RnrRetryExcErr, F::Starved | F::Tight) => true,
            (None, W::WrFlushErr, _) => dangers.own,
            (None, W::RetryExcErr, _) => dangers.peer || dangers.refused && self.answered,
            _ => false,
        };
        match (fine, fate) {
            (true, _) => Ok(()),
            (false, F::Well) => Err("nothing is wrong with it, and nothing happened to the queue pairs"),
            (false, F::Tight) => Err("its receive was posted, if late"),
            (false, F::Local) => Err("its local key or bounds are wrong"),
            (false, F::Denied) => Err("its remote key, bounds or rights are wrong"),
            (false, F::Invalid) => Err("it is longer than its receive"),
            (false, F::Operation) => Err("its receive has a wrong key"),
            (false, F::Starved) => Err("there is no receive for it"),
        }
    }

    /// Everything up to a request has been executed: its effects, in order.
    pub fn executed(&mut self, id: u64) -> Vec<Effect> {
        let count = self.effects.iter().take_while(|effect| effect.id <= id).count();
        self.effects.drain(..count).collect()
    }

    /// What may be written any time, and where in the target.
    pub fn under_way(&self) -> Vec<(usize, &[u8])> {
        self.effects.iter().filter(|effect| !effect.held).map(|e| (e.to, &e.data[..])).collect()
    }

    /// What may come any time, and where among the answers.
    pub fn answers(&self) -> Vec<(usize, &[u8])> {
        let sound = self.open.iter().filter(|open| open.message.mistake.is_none() && !open.held);
        sound.map(|open| (open.message.from, &open.answer[..])).collect()
    }

    /// What was posted in SQD goes on.
    pub fn release(&mut self) {
        self.open.iter_mut().for_each(|open| open.held = false);
        self.effects.iter_mut().for_each(|effect| effect.held = false);
        self.sent.iter_mut().for_each(|sent| sent.held = false);
    }
}

/// How a request must end that has a mistake, or none and a receive, if it takes one, that fits.
pub fn by_itself(message: &Message) -> Fate {
    match message.mistake {
        None => Fate::Well,
        Some(mistake) if mistake.is_local() => Fate::Local,
        Some(_) => Fate::Denied,
    }
}

/// How a completion names a request.
pub(super) fn completed_as(verb: SendOpcode) -> CqeOpcode {
    match verb {
        SendOpcode::Send => CqeOpcode::Send,
        SendOpcode::SendImm => CqeOpcode::SendImm,
        SendOpcode::SendInv => CqeOpcode::SendInv,
        SendOpcode::Write => CqeOpcode::Write,
        SendOpcode::WriteImm => CqeOpcode::WriteImm,
        SendOpcode::Read => CqeOpcode::Read,
        SendOpcode::CmpSwap => CqeOpcode::CmpSwap,
        SendOpcode::FetchAdd => CqeOpcode::FetchAdd,
        SendOpcode::LocalInv => CqeOpcode::LocalInv,
        SendOpcode::BindMw => CqeOpcode::BindMw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(id: u64, signaled: bool) -> Open {
        let message = Message { signaled, ..Message::of(SendOpcode::Write, 1) };
        Open { id, message, answer: Vec::new(), takes: None, held: false }
    }

    fn done(id: u64, status: WcStatus) -> Done {
        Done { status: Some(status), opcode: Some(CqeOpcode::Write), ..Done::of(2, id) }
    }

    fn flow(all: impl IntoIterator<Item = Open>) -> Flow {
        Flow { open: all.into_iter().collect(), ..Flow::default() }
    }

    const NONE: Dangers = Dangers { own: false, peer: false, refused: false };

    #[test]
    fn requests_end_in_order_and_silent_ones_with_the_next() {
        let mut flow = flow([open(1, true), open(2, false), open(3, true)]);
        let mut take = |id| flow.take(&done(id, WcStatus::Success), NONE, |_| Fate::Well);
        assert!(take(3).is_err());
        assert_eq!(take(1).unwrap().well.len(), 1);
        assert!(take(1).is_err());
        assert_eq!(take(3).unwrap().well.len(), 2);
        assert!(flow.open.is_empty());
    }

    #[test]
    fn what_cannot_succeed_must_fail_as_it_should_and_flushes_what_is_behind_it() {
        use WcStatus as W;
        for (fate, right) in [
            (Fate::Local, W::LocProtErr),
            (Fate::Denied, W::RemAccessErr),
            (Fate::Invalid, W::RemInvReqErr),
            (Fate::Operation, W::RemOpErr),
            (Fate::Starved, W::RnrRetryExcErr),
        ] {
            let all = || flow([open(1, false), open(2, false), open(3, false)]);
            let fate = |open: &Open| if open.id == 2 { fate } else { Fate::Well };
            let others = [W::Success, W::LocProtErr, W::RemAccessErr, W::RemInvReqErr, W::RemOpErr];
            let more = [W::WrFlushErr, W::RetryExcErr, W::RnrRetryExcErr, W::LocLenErr, W::GeneralErr];
            for wrong in others.into_iter().chain(more).filter(|status| *status != right) {
                assert!(all().take(&done(2, wrong), NONE, fate).is_err(), "{wrong}");
            }
            assert!(all().take(&done(3, W::Success), NONE, fate).is_err());
            let mut flow = all();
            let ended = flow.take(&done(2, right), NONE, fate).unwrap();
            assert_eq!((ended.well.len(), ended.badly.map(|open| open.id)), (1, Some(2)));
            assert!(flow.take(&done(3, W::Success), NONE, fate).is_err());
            assert!(flow.take(&done(3, W::WrFlushErr), NONE, fate).unwrap().badly.is_some());
        }
    }

    #[test]
    fn only_a_silent_peer_exhausts_retries_and_only_an_error_flushes() {
        for (status, dangers) in [
            (WcStatus::RetryExcErr, Dangers { peer: true, ..NONE }),
            (WcStatus::WrFlushErr, Dangers { own: true, ..NONE }),
        ] {
            let one = || flow([open(1, true)]);
            assert!(one().take(&done(1, status), NONE, |_| Fate::Well).is_err());
            assert!(one().take(&done(1, status), dangers, |_| Fate::Well).is_ok());
            // What the peer refuses it says, and acknowledges all before it, but for READs and atomics.
            let refused = Dangers { refused: true, ..NONE };
            assert!(one().take(&done(1, status), refused, |_| Fate::Well).is_err());
            let mut after_read = Flow { answered: true, ..one() };
            let silent = status == WcStatus::RetryExcErr;
            assert_eq!(after_read.take(&done(1, status), refused, |_| Fate::Well).is_ok(), silent);
        }
        let status = WcStatus::RnrRetryExcErr;
        assert!(flow([open(1, true)]).take(&done(1, status), NONE, |_| Fate::Tight).is_ok());
        assert!(flow([open(1, true)]).take(&done(1, status), NONE, |_| Fate::Well).is_err());
    }

    #[test]
    fn an_answer_has_the_length_that_was_asked_for() {
        let message = Message::of(SendOpcode::Read, 9);
        let mut flow = flow([Open { message, ..open(1, true) }]);
        let well = Done { opcode: Some(CqeOpcode::Read), ..done(1, WcStatus::Success) };
        assert!(flow.take(&Done { bytes: 8, ..well }, NONE, |_| Fate::Well).is_err());
        assert!(flow.take(&Done { bytes: 9, ..well }, NONE, |_| Fate::Well).is_ok());
    }

    #[test]
    fn bytes_are_what_was_written_or_what_may_have_been() {
        let mut memory = Memory::new(vec![0; 8]);
        memory.set(2, &[1, 1]);
        memory.maybe(3, &[2, 2]);
        assert_eq!(memory.wrong(&[0, 0, 1, 2, 0, 0, 0, 0], 0..8, &[]), None);
        assert_eq!(memory.wrong(&[0, 0, 1, 1, 2, 0, 0, 0], 0..8, &[]), None);
        assert!(memory.wrong(&[0, 0, 2, 1, 0, 0, 0, 0], 0..8, &[]).unwrap().contains("byte 0x2"));
        assert!(memory.wrong(&[0, 0, 1, 1, 0, 7, 0, 0], 0..8, &[(4, &[9, 7])]).is_none());
        assert!(memory.wrong(&[0, 0, 1, 1, 7, 0, 0, 0], 0..8, &[(4, &[9, 7])]).is_some());
        memory.pin(vec![0, 0, 1, 2, 0, 0, 0, 0], false);
        assert_eq!(memory.wrong(&[0, 0, 1, 2, 2, 0, 0, 0], 0..8, &[]), None);
        assert!(memory.wrong(&[0, 0, 1, 1, 0, 0, 0, 0], 0..8, &[]).is_some());
        memory.set(3, &[5]);
        assert!(memory.wrong(&[0, 0, 1, 2, 2, 0, 0, 0], 0..8, &[]).unwrap().contains("byte 0x3"));
    }
}
