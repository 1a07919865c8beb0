// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Link`]: requests over a line that loses and breaks bytes, each answered once.
//!
//! It has no line and no clock: bytes go in and out, and time is told. As many requests are under way as the board keeps answers for. An answer that is missing is asked for again with the same number, which
//! does nothing twice: when a notice says so, when a later answer comes before it, or when time has passed.

use std::collections::VecDeque;
use std::time::Duration;

use super::frame::{Decoder, Request, Said};
use crate::spec::serial::{Command, Reason, Status, HELLO_BYTES, MAGIC, VERSION, WINDOW};

/// Why a line is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// No answer.
    #[error("request {command:?}: no answer after {tries} tries, {what}; check that the board has power, and the name and baud of the line")]
    Silent {
        /// What was asked for.
        command: Command,
        /// How often.
        tries: u32,
        /// What was heard instead.
        what: String,
    },
    /// The board has forgotten the session.
    #[error("the board was reset, or another program has opened it; open it again")]
    Reset,
    /// The board speaks otherwise.
    #[error("the board says {found}, and this driver knows version {VERSION} of the protocol; load a bitstream of the same release")]
    Protocol {
        /// What it says.
        found: String,
    },
}

/// What a board says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Bytes of on-board memory.
    pub memory_bytes: u64,
    /// Bus address of the first.
    pub memory_base: u64,
    /// The board's clock, in kHz.
    pub clock_khz: u32,
    /// Cycles since reset.
    pub cycles: u64,
}

/// An answer: what was read, or why not.
pub type Answer = Result<Vec<u8>, Status>;

struct Pending {
    sequence: u8,
    command: Command,
    frame: Vec<u8>,
    /// To be sent.
    due: bool,
    answer: Option<Answer>,
}

/// One end of a line, the PC's.
pub struct Link {
    /// For how long an answer is waited for.
    patience: Duration,
    tries: u32,
    nonce: u32,
    hello: Option<Hello>,
    next: u8,
    waiting: VecDeque<Request>,
    under_way: VecDeque<Pending>,
    answers: VecDeque<Answer>,
    decoder: Decoder,
    /// When something was last sent, or an answer came.
    moved: Duration,
    /// Tries since an answer came.
    tried: u32,
    /// A notice or a later answer has led to a resend since.
    again: bool,
    interrupts: bool,
    /// Requests that were sent again.
    resent: u64,
    last_notice: Option<Reason>,
    error: Option<LinkError>,
}

impl Link {
    /// Begins a session at once. `random` tells it from others; an answer is waited for during `patience`, which is more than the line needs for a window of requests and their answers, and a
    /// request is given up after so many `tries`.
    pub fn new(random: u64, patience: Duration, tries: u32, now: Duration) -> Self {
        let nonce = random as u32;
        let mut link = Self {
            patience,
            tries,
            nonce,
            hello: None,
            next: (random >> 32) as u8,
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
            answers: VecDeque::new(),
            decoder: Decoder::default(),
            moved: now,
            tried: 0,
            again: false,
            interrupts: false,
            resent: 0,
            last_notice: None,
            error: None,
        };
        link.begin(Request::read(Command::Hello, nonce, 0));
        link
    }

    /// What the board said of itself, once it has.
    pub fn hello(&self) -> Option<Hello> {
        self.hello
    }

    /// Why nothing will come any more.
    pub fn error(&self) -> Option<&LinkError> {
        self.error.as_ref()
    }

    /// Asks for something. Answers come in the order of requests.
    pub fn ask(&mut self, request: Request) {
        self.waiting.push_back(request);
    }

    /// The next answer.
    pub fn answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Requests without answer.
    pub fn unanswered(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }

    /// Whether the board said that interrupts wait since this was asked last.
    pub fn interrupts(&mut self) -> bool {
        std::mem::take(&mut self.interrupts)
    }

    /// Requests that were sent again, and frames that were dropped.
    pub fn losses(&self) -> (u64, u64) {
        (self.resent, self.decoder.dropped)
    }

    fn begin(&mut self, request: Request) {
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        let frame = request.frame(sequence);
        self.under_way.push_back(Pending {
            sequence,
            command: request.command,
            frame,
            due: true,
            answer: None,
        });
    }

    /// Bytes for the line: one frame, if something is to be sent.
    pub fn send(&mut self, now: Duration) -> Option<&[u8]> {
        if self.error.is_some() {
            return None;
        }
        while self.hello.is_some() && self.under_way.len() < WINDOW as usize {
            let Some(request) = self.waiting.pop_front() else { break };
            self.begin(request);
        }
        let at = self.under_way.iter().position(|pending| pending.due)?;
        self.moved = now;
        let pending = &mut self.under_way[at];
        pending.due = false;
        Some(&pending.frame)
    }

    /// Asks again for what is missing.
    fn ask_again(&mut self, missing: impl Fn(usize, &Pending) -> bool) {
        for (at, pending) in self.under_way.iter_mut().enumerate() {
            if pending.answer.is_none() && !pending.due && missing(at, pending) {
                pending.due = true;
                self.resent += 1;
            }
        }
    }

    /// Time has passed. When the next such call is needed, if no byte comes before.
    pub fn tick(&mut self, now: Duration) -> Option<Duration> {
        let first = self.under_way.front()?;
        if self.error.is_some() {
            return None;
        }
        if now < self.moved + self.patience {
            return Some(self.moved + self.patience);
        }
        self.tried += 1;
        if self.tried >= self.tries {
            let what = match (self.last_notice, self.decoder.dropped) {
                (Some(Reason::Busy), _) => "the board's bus does not answer it".into(),
                (Some(reason), _) => format!("the last notice was {reason:?}"),
                (None, 0) => "nothing was heard".into(),
                (None, dropped) => format!("{dropped} frames were broken"),
            };
            self.error = Some(LinkError::Silent { command: first.command, tries: self.tried, what });
            return None;
        }
        (self.moved, self.again) = (now, false);
        self.ask_again(|_, _| true);
        Some(now + self.patience)
    }

    /// Bytes of the line.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) {
        for byte in bytes {
            match self.decoder.byte(*byte) {
                Some(Said::Answer { command, sequence, status, data, interrupts }) => {
                    self.interrupts |= interrupts;
                    self.answered(command, sequence, status, data, now);
                }
                Some(Said::Notice { expected, reason, interrupts }) => {
                    self.interrupts |= interrupts;
                    self.noticed(expected, reason);
                }
                None => {}
            }
        }
    }

    fn noticed(&mut self, expected: u8, reason: Result<Reason, u8>) {
        let Ok(reason) = reason else { return };
        if reason == Reason::Interrupt {
            return;
        }
        self.last_notice = Some(reason);
        if reason == Reason::NoSession && self.hello.is_some() {
            self.error = Some(LinkError::Reset);
            return;
        }
        // The same loss is told for each request behind it.
        let known = self.under_way.iter().any(|pending| pending.sequence == expected);
        if !self.again && (known || expected == self.next) {
            self.again = true;
            self.ask_again(|_, _| true);
        }
    }

    fn answered(
        &mut self,
        command: u8,
        sequence: u8,
        status: Result<Status, u8>,
        data: Vec<u8>,
        now: Duration,
    ) {
        let found = self.under_way.iter().position(|pending| pending.sequence == sequence);
        let Some(at) = found.filter(|at| self.under_way[*at].command as u8 == command) else { return };
        if self.under_way[at].answer.is_some() {
            return;
        }
        let status = match status {
            Ok(status) => status,
            Err(code) => {
                self.error = Some(LinkError::Protocol { found: format!("status {code}") });
                return;
            }
        };
        if self.hello.is_none() && !self.greeted(&data) {
            return;
        }
        (self.moved, self.tried, self.last_notice) = (now, 0, None);
        let pending = &mut self.under_way[at];
        pending.due = false;
        pending.answer = Some(if status == Status::Okay { Ok(data) } else { Err(status) });
        if at == 0 {
            self.again = false;
        } else if !self.again {
            // A line keeps the order, so those before are lost.
            self.again = true;
            self.ask_again(|before, _| before < at);
        }
        while self.under_way.front().is_some_and(|pending| pending.answer.is_some()) {
            let pending = self.under_way.pop_front().expect("looked at");
            if pending.command != Command::Hello {
                self.answers.push_back(pending.answer.expect("looked at"));
            }
        }
    }

    /// Whether this is an answer to this session's beginning, and not to that of another before.
    fn greeted(&mut self, data: &[u8]) -> bool {
        let word = |at: usize| {
            data.get(8 * at..8 * at + 8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        };
        let (Some(what), Some(memory_bytes), Some(memory_base), Some(clock), Some(cycles)) =
            (word(0), word(1), word(2), word(3), word(4))
        else {
            let found = format!("{} bytes of itself, not {HELLO_BYTES}", data.len());
            self.error = Some(LinkError::Protocol { found });
            return false;
        };
        if (clock >> 32) as u32 != self.nonce {
            return false;
        }
        if what as u32 != MAGIC || (what >> 32) as u8 != VERSION {
            let found = format!("magic {:#010x} and version {}", what as u32, (what >> 32) as u8);
            self.error = Some(LinkError::Protocol { found });
            return false;
        }
        self.hello = Some(Hello { memory_bytes, memory_base, clock_khz: clock as u32, cycles });
        true
    }
}
