// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receives of one side of a connection, and what must come of them.
//!
//! The messages that take a receive take them in order (IBTA 9.7.5.1.6, 10.8.3.2): the third one of a life the third one. So both
//! lists say how each of both must end, however late the receive is posted.

use ferrowire_spec::queue::cqe::{CqeOpcode, WcStatus};
use ferrowire_spec::queue::send_wqe::SendOpcode;

use super::compare::{by_itself, Fate};
use super::ends::Done;
use super::program::{sends, Buffer, Message};

/// Steps of the play after which a receive that was posted is there for sure: before, the end may still be fetching it.
pub const FETCHED: u64 = 120;

/// A message that takes a receive.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Of its request.
    pub id: u64,
    /// The message.
    pub message: Message,
    /// Its bytes.
    pub data: Vec<u8>,
    /// Posted in SQD, where nothing begins.
    pub held: bool,
    /// Step of the play in which it was posted.
    pub step: u64,
}

/// A receive that was posted.
#[derive(Clone, Debug)]
struct Slot {
    id: u64,
    buffer: Buffer,
    step: u64,
}

/// What a completion says of a receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The message that it is for, if there is one.
    pub sent: Option<usize>,
    /// It ended well.
    pub well: bool,
    /// What has been written: where, and what.
    pub wrote: Vec<(usize, Vec<u8>)>,
    /// The buffer's places, which the program has again.
    pub places: Vec<(usize, usize)>,
}

/// The receives of one side, in a life.
#[derive(Debug, Default)]
pub struct Inbox {
    /// All that were posted.
    slots: Vec<Slot>,
    /// Completed; those that ended well; how the first one failed that did not.
    ended: usize,
    well: usize,
    failed: Option<WcStatus>,
    /// They come from a shared queue: which one a message has taken is known with its completion.
    shared: bool,
}

impl Inbox {
    /// None yet, of a queue pair's own queue or of a shared one.
    pub fn of(shared: bool) -> Self {
        Self { shared, ..Self::default() }
    }

    /// Another receive.
    pub fn post(&mut self, id: u64, buffer: &Buffer, step: u64) {
        self.slots.push(Slot { id, buffer: buffer.clone(), step });
    }

    /// Receives posted.
    pub fn posted(&self) -> usize {
        self.slots.len()
    }

    /// Receives completed with success.
    pub fn well(&self) -> usize {
        self.well
    }

    /// How the first receive failed that did; flushed ones are no failures of theirs.
    pub fn refused(&self) -> Option<WcStatus> {
        self.failed.filter(|status| *status != WcStatus::WrFlushErr)
    }

    /// Whether one was flushed.
    pub fn is_flushed(&self) -> bool {
        self.failed == Some(WcStatus::WrFlushErr)
    }

    /// Ids of receives that have not ended.
    pub fn open(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots[self.ended..].iter().map(|slot| slot.id)
    }

    /// How message number `taken` must end, which takes a receive.
    pub fn fate(&self, sent: &[Sent], taken: usize) -> Fate {
        let Some(Sent { message, step, .. }) = sent.get(taken) else { return Fate::Well };
        match (by_itself(message), self.slots.get(taken)) {
            (Fate::Well, None) if self.shared => Fate::Tight,
            (Fate::Well, None) => Fate::Starved,
            (Fate::Well, Some(Slot { buffer, .. })) if sends(message.verb) && message.len > buffer.room() => {
                Fate::Invalid
            }
            (Fate::Well, Some(slot)) if sends(message.verb) && message.len > 0 && slot.buffer.spoilt => {
                Fate::Operation
            }
            (Fate::Well, Some(slot)) if slot.step + FETCHED > *step => Fate::Tight,
            (fate, _) => fate,
        }
    }

    /// Whether a message must be refused that was posted.
    pub fn refuses(&self, sent: &[Sent]) -> bool {
        (0..sent.len()).any(|taken| {
            by_itself(&sent[taken].message) == Fate::Well
                && matches!(self.fate(sent, taken), Fate::Invalid | Fate::Operation)
        })
    }

    /// Takes a completion, if it may come. `sent`: the messages that take the receives.
    ///
    /// # Errors
    /// Why it may not.
    pub fn take(&mut self, done: &Done, sent: &[Sent]) -> Result<Received, String> {
        let taken = self.ended;
        let Some(slot) = self.slots.get(taken).filter(|slot| slot.id == done.id) else {
            return Err(format!("completion of receive {}, whose turn it is not", done.id));
        };
        let Some(status) = done.status else {
            return Err(format!("receive {} ends with a status that does not exist", done.id));
        };
        let message = sent.get(taken).filter(|sent| !sent.held);
        let fate = message.map_or(Fate::Starved, |_| self.fate(sent, taken));
        let fine = match (self.failed, status) {
            (Some(_), WcStatus::WrFlushErr) | (None, WcStatus::WrFlushErr) => Ok(()),
            (Some(_), _) => Err("one before it has failed"),
            (None, WcStatus::Success) => match (message, fate) {
                (Some(sent), Fate::Well | Fate::Tight) => arrived(done, &sent.message),
                (Some(_), _) => Err("its message cannot succeed"),
                (None, _) => Err("nothing was sent for it"),
            },
            (None, WcStatus::LocLenErr) if fate == Fate::Invalid => Ok(()),
            (None, WcStatus::LocProtErr) if fate == Fate::Operation => Ok(()),
            // A WRITE that is denied with its last packet has taken its receive (IBTA 11.6.2), with an earlier one not.
            (None, WcStatus::LocAccessErr | WcStatus::RemAccessErr) if fate == Fate::Denied => Ok(()),
            _ => Err("nothing of that is wrong"),
        };
        fine.map_err(|why| format!("receive {} ends with {status}, but {why}", done.id))?;
        let well = status == WcStatus::Success;
        let first = self.failed.is_none();
        let wrote =
            if first && status != WcStatus::LocProtErr { self.writes(sent, taken) } else { Vec::new() };
        let places = slot.buffer.pieces.clone();
        self.ended += 1;
        self.well += usize::from(well);
        if !well {
            self.failed.get_or_insert(status);
        }
        Ok(Received { sent: message.map(|_| taken), well, wrote, places })
    }

    /// What a message writes into its receive, as far as it has room.
    fn writes(&self, sent: &[Sent], taken: usize) -> Vec<(usize, Vec<u8>)> {
        let (Some(sent), Some(slot)) = (sent.get(taken), self.slots.get(taken)) else { return Vec::new() };
        let sound = sends(sent.message.verb) && sent.message.mistake.is_none() && !sent.held;
        if !sound || slot.buffer.spoilt {
            return Vec::new();
        }
        let places = slot.buffer.places(sent.data.len().min(slot.buffer.room()));
        places.into_iter().map(|(from, at, len)| (at, sent.data[from..from + len].to_vec())).collect()
    }

    /// What may be written any time, and where.
    pub fn under_way(&self, sent: &[Sent]) -> Vec<(usize, Vec<u8>)> {
        (self.ended..self.slots.len()).flat_map(|taken| self.writes(sent, taken)).collect()
    }
}

/// Whether a receive says what its message was.
fn arrived(done: &Done, message: &Message) -> Result<(), &'static str> {
    let (opcode, imm) = match message.verb {
        SendOpcode::SendImm => (CqeOpcode::RecvImm, Some(message.imm)),
        SendOpcode::WriteImm => (CqeOpcode::RecvWriteImm, Some(message.imm)),
        _ => (CqeOpcode::Recv, None),
    };
    match () {
        () if done.opcode != Some(opcode) => Err("for another kind of message"),
        () if done.bytes as usize != message.len => Err("with another length"),
        () if done.imm != imm => Err("with another immediate"),
        () if done.invalidated.is_some() => Err("and has invalidated a key"),
        () if done.solicited != message.solicited => Err("with another solicited mark"),
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::Mistake;
    use super::*;

    fn sent(verb: SendOpcode, len: usize) -> Sent {
        let data = (1..=len as u8).collect();
        Sent { id: 1, message: Message { imm: 5, ..Message::of(verb, len) }, data, held: false, step: 1000 }
    }

    fn inbox(buffers: &[&[(usize, usize)]]) -> Inbox {
        let mut inbox = Inbox::default();
        for (i, pieces) in buffers.iter().enumerate() {
            inbox.post(10 + i as u64, &Buffer { pieces: pieces.to_vec(), spoilt: false }, 0);
        }
        inbox
    }

    fn done(id: u64, status: WcStatus) -> Done {
        let (status, opcode) = (Some(status), Some(CqeOpcode::Recv));
        Done { receive: true, status, opcode, bytes: 3, ..Done::of(2, id) }
    }

    const WELL: WcStatus = WcStatus::Success;

    #[test]
    fn a_receive_gets_the_bytes_of_its_message_piece_by_piece() {
        let mut inbox = inbox(&[&[(100, 2), (50, 0), (7, 9)]]);
        let all = [sent(SendOpcode::Send, 3)];
        assert_eq!(inbox.under_way(&all), [(100, vec![1, 2]), (7, vec![3])]);
        let got = inbox.take(&done(10, WELL), &all).unwrap();
        assert_eq!((got.wrote, got.sent, got.well), (vec![(100, vec![1, 2]), (7, vec![3])], Some(0), true));
        assert!(inbox.under_way(&all).is_empty() && inbox.open().next().is_none());
    }

    #[test]
    fn receives_end_in_order_and_only_for_what_was_sent() {
        let all = [sent(SendOpcode::Send, 3), sent(SendOpcode::SendImm, 0)];
        let room: &[(usize, usize)] = &[(0, 3)];
        let wrong = [
            (done(11, WELL), &all[..]),
            (done(10, WELL), &[]),
            (Done { bytes: 2, ..done(10, WELL) }, &all),
            (Done { opcode: Some(CqeOpcode::RecvImm), ..done(10, WELL) }, &all),
            (Done { imm: Some(5), ..done(10, WELL) }, &all),
            (Done { solicited: true, ..done(10, WELL) }, &all),
            (Done { status: None, ..done(10, WELL) }, &all),
            (done(10, WcStatus::LocLenErr), &all),
            (done(10, WcStatus::LocProtErr), &all),
        ];
        for (done, sent) in wrong {
            assert!(inbox(&[room, room]).take(&done, sent).is_err(), "{done:?}");
        }
        let mut inbox = inbox(&[room, room]);
        inbox.take(&done(10, WELL), &all).unwrap();
        let second = Done { opcode: Some(CqeOpcode::RecvImm), imm: Some(5), bytes: 0, ..done(11, WELL) };
        assert!(inbox.take(&Done { imm: Some(6), ..second }, &all).is_err());
        inbox.take(&second, &all).unwrap();
        assert_eq!(inbox.well(), 2);
    }

    #[test]
    fn what_does_not_fit_ends_both_and_may_have_written_what_did() {
        let mut inbox = inbox(&[&[(0, 2)], &[(9, 9)]]);
        let all = [sent(SendOpcode::Send, 3), sent(SendOpcode::Send, 3)];
        assert_eq!((inbox.fate(&all, 0), inbox.fate(&all, 1)), (Fate::Invalid, Fate::Well));
        assert!(inbox.refuses(&all));
        assert!(inbox.take(&done(10, WELL), &all).is_err());
        let got = inbox.take(&done(10, WcStatus::LocLenErr), &all).unwrap();
        assert_eq!((got.well, got.wrote), (false, vec![(0, vec![1, 2])]));
        assert!(inbox.take(&done(11, WELL), &all).is_err());
        assert!(inbox.take(&done(11, WcStatus::WrFlushErr), &all).unwrap().wrote.is_empty());
        assert_eq!((inbox.refused(), inbox.is_flushed()), (Some(WcStatus::LocLenErr), false));
    }

    #[test]
    fn a_wrong_key_writes_nothing_and_a_missing_receive_starves() {
        let mut spoilt = Inbox::default();
        spoilt.post(10, &Buffer { pieces: vec![(0, 9)], spoilt: true }, 0);
        let all = [sent(SendOpcode::Send, 3), sent(SendOpcode::WriteImm, 3)];
        assert_eq!(spoilt.fate(&all, 0), Fate::Operation);
        assert_eq!(spoilt.fate(&all, 1), Fate::Starved);
        assert_eq!(spoilt.fate(&all[1..], 0), Fate::Well, "a WRITE does not look at the buffer");
        assert!(spoilt.under_way(&all).is_empty());
        assert!(spoilt.take(&done(10, WcStatus::LocProtErr), &all).unwrap().wrote.is_empty());
    }

    #[test]
    fn a_receive_that_comes_late_may_be_missed_and_a_mistake_takes_none() {
        let mut late = Inbox::default();
        late.post(10, &Buffer { pieces: vec![(0, 9)], spoilt: false }, 1001 - FETCHED);
        let mut all = [sent(SendOpcode::Send, 3)];
        assert_eq!(late.fate(&all, 0), Fate::Tight);
        all[0].message.mistake = Some(Mistake::LocalKey);
        assert_eq!(late.fate(&all, 0), Fate::Local);
        assert!(late.under_way(&all).is_empty());
        assert!(late.take(&done(10, WELL), &all).is_err());
        assert_eq!(late.take(&done(10, WcStatus::WrFlushErr), &all).map(|got| got.well), Ok(false));
        assert!(late.is_flushed());
        // One that is denied may have taken it.
        let mut taken = inbox(&[&[(0, 9)]]);
        let mut write = [sent(SendOpcode::WriteImm, 3)];
        assert!(taken.take(&done(10, WcStatus::LocAccessErr), &write).is_err());
        write[0].message.mistake = Some(Mistake::RemoteKey);
        assert!(taken.take(&done(10, WcStatus::LocAccessErr), &write).unwrap().wrote.is_empty());
        assert!(taken.refused().is_some());
    }
}
