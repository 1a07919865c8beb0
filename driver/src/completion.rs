// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Completion`]: how a work request ended.

use std::fmt;

use ferrowire_spec::queue::cqe::{self, Cqe, LocalCause};
use ferrowire_spec::queue::{CqeOpcode, WcStatus};

use crate::error::Coded;

/// Queue of a queue pair that a work request was posted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// The send queue.
    Send,
    /// The receive queue.
    Receive,
}

/// Words of an entry that say something; the last one holds the phase alone.
const WORDS: usize = cqe::WORDS - 1;

/// A field of an entry, which is in one of its words.
macro_rules! field {
    ($words:expr, $FIELD:ident) => {
        cqe::$FIELD.of_word($words[cqe::$FIELD.word()])
    };
}
pub(crate) use field;

/// How a work request ended.
///
/// It is what the card wrote, in 32 bytes with the number of the work request; each method reads what it is asked for.
#[derive(Clone, Copy)]
pub struct Completion {
    wr_id: u64,
    words: [u64; WORDS],
}

impl Completion {
    /// Of the entry with these words.
    #[inline]
    pub(crate) fn of_words(wr_id: u64, [first, second, third, _]: [u64; cqe::WORDS]) -> Self {
        Self { wr_id, words: [first, second, third] }
    }

    /// What the driver makes of an entry that a card writes: for tests of programs.
    ///
    /// # Errors
    /// A value does not fit its field.
    pub fn of_entry(wr_id: u64, entry: &Cqe) -> Result<Self, ferrowire_spec::Error> {
        Ok(Self::of_words(wr_id, entry.to_words()?))
    }

    /// The caller's number of the work request.
    #[inline]
    pub fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// Queue pair.
    #[inline]
    pub fn qpn(&self) -> u32 {
        field!(self.words, QPN) as u32
    }

    /// A send or a receive.
    #[inline]
    pub fn kind(&self) -> WorkKind {
        match field!(self.words, RECEIVE) {
            0 => WorkKind::Send,
            _ => WorkKind::Receive,
        }
    }

    /// Success, or why it failed. With anything but success, only [`wr_id`](Self::wr_id), [`qpn`](Self::qpn), [`kind`](Self::kind) and
    /// [`syndrome`](Self::syndrome) mean something beside it.
    #[inline]
    pub fn status(&self) -> Coded<WcStatus> {
        Coded::from(field!(self.words, STATUS) as u8)
    }

    /// Whether it ended well.
    #[inline]
    pub fn is_success(&self) -> bool {
        field!(self.words, STATUS) == WcStatus::Success as u64
    }

    /// Cause of a failure: the AETH syndrome of the peer, or a [`LocalCause`]; see [`cause`](Self::cause).
    #[inline]
    pub fn syndrome(&self) -> u8 {
        field!(self.words, SYNDROME) as u8
    }

    /// Why it failed, when that is known on this side; `None`: it did not, or `syndrome` is the peer's.
    pub fn cause(&self) -> Option<LocalCause> {
        LocalCause::from_code(self.syndrome()).filter(|cause| *cause != LocalCause::None)
    }

    /// What was completed.
    #[inline]
    pub fn opcode(&self) -> Coded<CqeOpcode> {
        Coded::from(self.opcode_code())
    }

    /// The same as its number in the tables.
    #[inline]
    pub fn opcode_code(&self) -> u8 {
        field!(self.words, OPCODE) as u8
    }

    /// Bytes received, the 40 before a datagram included, or asked for by a READ or atomic.
    #[inline]
    pub fn byte_len(&self) -> u32 {
        field!(self.words, BYTE_LEN) as u32
    }

    /// Immediate of the message received.
    #[inline]
    pub fn imm(&self) -> Option<u32> {
        (field!(self.words, IMM_VALID) == 1).then_some(field!(self.words, IMM) as u32)
    }

    /// Key that the message received invalidated.
    #[inline]
    pub fn invalidated(&self) -> Option<u32> {
        (field!(self.words, INVALIDATED) == 1).then_some(field!(self.words, IMM) as u32)
    }

    /// The message was solicited.
    #[inline]
    pub fn solicited(&self) -> bool {
        field!(self.words, SOLICITED) == 1
    }

    /// Whether it has neither an [immediate](Self::imm) nor a key [invalidated](Self::invalidated) nor a [queue pair](Self::src_qpn) that
    /// sent a datagram: one look for all three.
    #[inline]
    pub fn is_bare(&self) -> bool {
        const EXTRAS: u64 = cqe::IMM_VALID.to_word(1) | cqe::INVALIDATED.to_word(1) | cqe::GRH.to_word(1);
        const WORD: usize = cqe::GRH.word();
        const { assert!(cqe::IMM_VALID.word() == WORD && cqe::INVALIDATED.word() == WORD) };
        self.words[WORD] & EXTRAS == 0
    }

    /// Queue pair that sent the datagram received; `None`: it was none. The first 40 bytes of the buffer are then the IPv6 header that it
    /// came with, or 20 zeros and the IPv4 header (IBTA A17.4.5.2).
    #[inline]
    pub fn src_qpn(&self) -> Option<u32> {
        (field!(self.words, GRH) == 1).then_some(field!(self.words, SRC_QPN) as u32)
    }

    /// Of a datagram received, whether its packet was of IPv4, so that the IPv4 header is in bytes 20 to 39 of the buffer; otherwise bytes
    /// 0 to 39 are the IPv6 header (IBTA A17.4.5.1). `None`: it was none.
    #[inline]
    pub fn is_ipv4(&self) -> Option<bool> {
        (field!(self.words, GRH) == 1).then_some(field!(self.words, IPV4) == 1)
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("wr_id", &self.wr_id())
            .field("qpn", &self.qpn())
            .field("kind", &self.kind())
            .field("status", &self.status())
            .field("syndrome", &self.syndrome())
            .field("opcode", &self.opcode())
            .field("byte_len", &self.byte_len())
            .field("imm", &self.imm())
            .field("invalidated", &self.invalidated())
            .field("solicited", &self.solicited())
            .field("src_qpn", &self.src_qpn())
            .finish()
    }
}

/// Whether all methods say the same: where in the queue the entry or its WQE was does not count.
impl PartialEq for Completion {
    fn eq(&self, other: &Self) -> bool {
        let all = |of: &Self| {
            let ended = (of.wr_id(), of.qpn(), of.kind(), of.status(), of.syndrome(), of.opcode());
            (ended, of.byte_len(), of.imm(), of.invalidated(), of.solicited(), of.src_qpn())
        };
        all(self) == all(other)
    }
}

impl Eq for Completion {}

/// For arrays that [`CompletionQueue::poll`](crate::CompletionQueue::poll) fills: of no queue pair.
impl Default for Completion {
    fn default() -> Self {
        const STATUS: u64 = cqe::STATUS.to_word(WcStatus::GeneralErr as u64);
        const OPCODE: u64 = cqe::OPCODE.to_word(0xff);
        let mut words = [0; WORDS];
        words[const { cqe::STATUS.word() }] |= STATUS;
        words[const { cqe::OPCODE.word() }] |= OPCODE;
        Self { wr_id: 0, words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_says_what_its_entry_says() {
        let entry = Cqe {
            qpn: 0xabcdef,
            opcode: CqeOpcode::RecvImm.code(),
            byte_len: 0x8000_0001,
            imm: 0x1234_5678,
            src_qpn: 0x00_5a5a,
            imm_valid: true,
            solicited: true,
            receive: true,
            grh: true,
            wqe_index: 0xffff,
            phase: true,
            ..Cqe::default()
        };
        let done = Completion::of_entry(7, &entry).unwrap();
        assert!(done.is_success());
        assert_eq!((done.wr_id(), done.qpn(), done.kind()), (7, 0xabcdef, WorkKind::Receive));
        assert_eq!((done.byte_len(), done.imm(), done.invalidated()), (0x8000_0001, Some(0x1234_5678), None));
        assert_eq!((done.solicited(), done.src_qpn(), done.cause()), (true, Some(0x5a5a), None));
        assert_eq!(done.opcode(), CqeOpcode::RecvImm);
        assert!(!done.is_bare());
        assert_eq!(done.is_ipv4(), Some(false));
        let of = |grh, ipv4| Completion::of_entry(7, &Cqe { grh, ipv4, ..entry }).unwrap().is_ipv4();
        assert_eq!([of(true, true), of(false, true)], [Some(true), None]);
        for (imm_valid, invalidated, grh) in
            [(true, false, false), (false, true, false), (false, false, true), (false, false, false)]
        {
            let entry = Cqe { imm_valid, invalidated, grh, ..entry };
            let bare = !(imm_valid || invalidated || grh);
            assert_eq!(Completion::of_entry(7, &entry).unwrap().is_bare(), bare);
        }
        let elsewhere = Cqe { wqe_index: 3, phase: false, ..entry };
        assert_eq!(Completion::of_entry(7, &elsewhere), Ok(done));
        assert_ne!(Completion::of_entry(8, &entry), Ok(done));

        let syndrome = LocalCause::Timeout.code();
        let entry =
            Cqe { status: WcStatus::RetryExcErr.code(), syndrome, invalidated: true, ..Cqe::default() };
        let done = Completion::of_entry(0, &entry).unwrap();
        assert_eq!(
            (done.kind(), done.is_success(), done.cause()),
            (WorkKind::Send, false, Some(LocalCause::Timeout))
        );
        assert_eq!((done.status(), done.invalidated()), (Coded::Known(WcStatus::RetryExcErr), Some(0)));
        assert_eq!(
            Completion::of_entry(0, &Cqe { status: 0xee, ..entry }).unwrap().status(),
            Coded::Unknown(0xee)
        );
    }

    #[test]
    fn a_default_completion_is_of_no_queue_pair() {
        let none = Completion::default();
        assert_eq!(
            (none.status(), none.opcode()),
            (Coded::Known(WcStatus::GeneralErr), Coded::Unknown(0xff))
        );
        assert_eq!((none.qpn(), none.imm(), none.src_qpn()), (0, None, None));
        assert_eq!(size_of::<Completion>(), 32);
        assert!(format!("{none:?}").contains("GeneralErr"));
    }
}
