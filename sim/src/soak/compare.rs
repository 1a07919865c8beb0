// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must come of a program, by plain Rust: what bytes may be, and how requests may end.
//!
//! Neither end is asked. A request that succeeded has had its effect when its completion is there. One that failed, was flushed
//! or was reset may have had all, a part, or nothing of it, unless it was itself a mistake: that has none. Nothing else changes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use ferrowire_spec::queue::cqe::{CqeOpcode, WcStatus};
use ferrowire_spec::queue::send_wqe::SendOpcode;

use super::ends::Done;
use super::program::{Message, Mistake};

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
        let mut bad = range.filter(|at| !fine(*at));
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
}

/// A request that was posted and has not ended.
#[derive(Clone, Debug)]
pub struct Open {
    /// Its number.
    pub id: u64,
    /// The message.
    pub message: Message,
    /// What it carries.
    pub data: Vec<u8>,
    /// Posted in SQD, where nothing begins.
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
    /// A request has failed: how the first one did.
    pub failed: Option<WcStatus>,
    /// One with such a mistake was posted.
    pub mistake: Option<Mistake>,
}

impl Flow {
    /// Takes a completion, if it may come.
    ///
    /// # Errors
    /// Why it may not.
    pub fn take(&mut self, done: &Done, dangers: Dangers) -> Result<Ended, String> {
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
        if let Some(wrong) = before.clone().find(|open| open.message.mistake.is_some()) {
            return Err(format!("request {} is passed over, though it cannot succeed", wrong.id));
        }
        let open = &self.open[place];
        if let Some(held) = self.open.iter().take(place + 1).find(|open| open.held) {
            return Err(format!("request {} ends with {status}, but was posted in SQD", held.id));
        }
        self.judge(open, status, done.opcode, dangers)
            .map_err(|why| format!("request {} ends with {status}, but {why}", done.id))?;
        let mut ended = Ended { well: self.open.drain(..place).collect(), badly: None };
        let Some(this) = self.open.pop_front() else { return Ok(ended) };
        if status == WcStatus::Success {
            ended.well.push(this);
        } else {
            self.failed.get_or_insert(status);
            ended.badly = Some(this);
        }
        Ok(ended)
    }

    fn judge(
        &self,
        open: &Open,
        status: WcStatus,
        opcode: Option<CqeOpcode>,
        dangers: Dangers,
    ) -> Result<(), &'static str> {
        use WcStatus as W;
        let mistake = open.message.mistake;
        let fine = match (self.failed, status, mistake) {
            (Some(_), W::WrFlushErr, _) => true,
            (Some(_), _, _) => return Err("one before it has failed"),
            (None, W::Success, Some(_)) => return Err("it cannot succeed"),
            (None, W::Success, None) if opcode != Some(completed_as(open.message.verb)) => {
                return Err("as another kind of request")
            }
            (None, W::Success, None) => true,
            (None, W::LocProtErr, Some(mistake)) => mistake.is_local(),
            (None, W::RemAccessErr, Some(mistake)) => !mistake.is_local(),
            (None, W::WrFlushErr, _) => dangers.own,
            (None, W::RetryExcErr, _) => dangers.peer,
            _ => false,
        };
        match (fine, mistake) {
            (true, _) => Ok(()),
            (false, None) => Err("nothing is wrong with it, and nothing happened to the queue pairs"),
            (false, Some(Mistake::LocalKey)) => Err("its local key is wrong"),
            (false, Some(Mistake::LocalBounds)) => Err("its local memory ends behind the region"),
            (false, Some(Mistake::RemoteKey)) => Err("its remote key is wrong"),
            (false, Some(Mistake::RemoteBounds)) => Err("its remote memory ends behind the region"),
            (false, Some(Mistake::RemoteRights)) => Err("its remote region is closed"),
        }
    }

    /// What may be written any time, and where in the target.
    pub fn under_way(&self) -> Vec<(usize, &[u8])> {
        let sound = self.open.iter().filter(|open| open.message.mistake.is_none() && !open.held);
        sound.map(|open| (open.message.to, &open.data[..])).collect()
    }
}

/// How a completion names a request.
fn completed_as(verb: SendOpcode) -> CqeOpcode {
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

    fn open(id: u64, signaled: bool, mistake: Option<Mistake>) -> Open {
        let verb = SendOpcode::Write;
        let message = Message { verb, from: 0, to: 0, len: 1, signaled, solicited: false, mistake };
        Open { id, message, data: vec![1], held: false }
    }

    fn done(id: u64, status: WcStatus) -> Done {
        Done { qpn: 2, id, status: Some(status), opcode: Some(CqeOpcode::Write) }
    }

    fn flow(all: impl IntoIterator<Item = Open>) -> Flow {
        Flow { open: all.into_iter().collect(), ..Flow::default() }
    }

    #[test]
    fn requests_end_in_order_and_silent_ones_with_the_next() {
        let mut flow = flow([open(1, true, None), open(2, false, None), open(3, true, None)]);
        let none = Dangers::default();
        assert!(flow.take(&done(3, WcStatus::Success), none).is_err());
        assert_eq!(flow.take(&done(1, WcStatus::Success), none).unwrap().well.len(), 1);
        assert!(flow.take(&done(1, WcStatus::Success), none).is_err());
        assert_eq!(flow.take(&done(3, WcStatus::Success), none).unwrap().well.len(), 2);
        assert!(flow.open.is_empty());
    }

    #[test]
    fn a_mistake_must_fail_as_it_should_and_flushes_what_is_behind_it() {
        let all = || [open(1, false, None), open(2, false, Some(Mistake::RemoteKey)), open(3, false, None)];
        let none = Dangers::default();
        for wrong in [WcStatus::Success, WcStatus::LocProtErr, WcStatus::WrFlushErr, WcStatus::RetryExcErr] {
            assert!(flow(all()).take(&done(2, wrong), none).is_err(), "{wrong}");
        }
        assert!(flow(all()).take(&done(3, WcStatus::Success), none).is_err());
        let mut flow = flow(all());
        let ended = flow.take(&done(2, WcStatus::RemAccessErr), none).unwrap();
        assert_eq!((ended.well.len(), ended.badly.map(|open| open.id)), (1, Some(2)));
        assert!(flow.take(&done(3, WcStatus::Success), none).is_err());
        assert!(flow.take(&done(3, WcStatus::WrFlushErr), none).unwrap().badly.is_some());
    }

    #[test]
    fn only_a_silent_peer_exhausts_retries_and_only_an_error_flushes() {
        for (status, dangers) in [
            (WcStatus::RetryExcErr, Dangers { peer: true, own: false }),
            (WcStatus::WrFlushErr, Dangers { peer: false, own: true }),
        ] {
            assert!(flow([open(1, true, None)]).take(&done(1, status), Dangers::default()).is_err());
            assert!(flow([open(1, true, None)]).take(&done(1, status), dangers).is_ok());
        }
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
        memory.set(3, &[5]);
        assert!(memory.wrong(&[0, 0, 1, 2, 2, 0, 0, 0], 0..8, &[]).unwrap().contains("byte 0x3"));
    }
}
