// SPDX-License-Identifier: MIT OR Apache-2.0
//! A requester's memory of what is under way: a list of messages for each QP, its retries and its timer.

use super::{MODULUS, TICK};
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};
use ferrowire_spec::wire::syndrome::rnr_timer_us;
use std::collections::VecDeque;

/// What the host sees: opcode, bytes, WQE, status, syndrome.
pub type Done = (u8, u32, u16, u8, u8);

#[derive(Clone, Debug)]
pub struct Message {
    pub last: u32,
    pub signaled: bool,
    pub opcode: u8,
    pub length: u32,
}

impl Message {
    /// A bind or an invalidation, without a packet.
    pub fn is_silent(&self) -> bool {
        matches!(self.opcode, 8 | 9)
    }
}

/// A report of `sent`, on its way to the recorder.
#[derive(Clone, Debug)]
pub enum Report {
    /// A packet, new or sent again, and the message that ends with it.
    Packet(u32, bool, Option<Message>),
    /// WQE, status, cause.
    Failure(u16, u8, u8),
}

/// What the timer does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Timer {
    #[default]
    Off,
    /// It runs from this cycle on.
    Since(u64),
    /// It may have expired for nothing.
    Vague,
}

#[derive(Clone, Debug, Default)]
pub struct Requester {
    pub runs: bool,
    /// Reports count: it runs, or did until it went to the error state.
    pub remembers: bool,
    pub dead: bool,
    pub peer: u64,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,

    // As the sender sees it.
    /// The PSN of the next new packet, and the index of the next WQE.
    pub to_send: u32,
    pub sent_index: u16,
    /// A message of which some packets are sent.
    pub open: bool,
    pub failures: usize,
    /// It stands at its limit until the next kick.
    pub blocked: bool,
    /// What the scheduler has been told: index and PSN.
    pub told: u16,
    pub told_psn: u32,
    /// No answer before this cycle: a failure settles.
    pub quiet_until: u64,

    // As the completer sees it.
    pub messages: VecDeque<Message>,
    /// The first PSN of each WQE of this life, the next one's included.
    pub firsts: Vec<u32>,
    pub next_psn: u32,
    pub oldest_psn: u32,
    pub oldest_index: u16,
    pub failed: Option<(u16, u8, u8)>,
    pub asked: bool,
    pub paused: Option<(u64, u8)>,
    pub tries: u8,
    pub rnr_tries: u8,
    pub timer: Timer,
    /// Timers that were changed lately, and when: an expiry of theirs may come until the change is seen, and wait.
    pub changed: VecDeque<(u64, Timer)>,
    /// The last packet, or progress: it starts a timer that has expired, though that is seen only later.
    pub stirred_at: u64,

    // What must come.
    pub restarts: VecDeque<bool>,
    pub fails: Option<(u8, u8)>,
    pub done: Vec<Done>,
    pub faults: usize,
}

impl Requester {
    /// Distance from the oldest unacknowledged PSN.
    pub fn ahead(&self, psn: u32) -> u32 {
        psn.wrapping_sub(self.oldest_psn) % MODULUS
    }

    pub fn outstanding(&self) -> bool {
        self.oldest_psn != self.next_psn
    }

    fn to_failed(&self) -> Option<i16> {
        self.failed.map(|(index, ..)| index.wrapping_sub(self.oldest_index) as i16)
    }

    /// A WQE that failed here is the oldest.
    pub fn local(&self) -> bool {
        self.to_failed() == Some(0)
    }

    /// A WQE that failed here was acknowledged nevertheless.
    pub fn overtaken(&self) -> bool {
        self.to_failed().is_some_and(|n| n < 0)
    }

    /// The recorder has taken a report in a state in which it counts.
    pub fn record(&mut self, report: Report, cycle: u64) {
        match report {
            Report::Packet(psn, fresh, message) => {
                if fresh {
                    self.next_psn = (psn + 1) % MODULUS;
                    let silent = message.as_ref().is_some_and(Message::is_silent);
                    if let Some(message) = message {
                        self.firsts.push(self.next_psn);
                        self.messages.push_back(message);
                    }
                    if silent {
                        // Nothing is sent; where nothing is before it, it is done.
                        if !self.dead && self.runs {
                            self.acknowledge(self.oldest_psn);
                        }
                        return;
                    }
                }
                self.stirred_at = cycle;
                if self.paused.is_none() && self.timer == Timer::Off {
                    self.timer = Timer::Since(cycle);
                }
            }
            Report::Failure(index, status, cause) => {
                if self.failed.is_none_or(|(old, ..)| (index.wrapping_sub(old) as i16) < 0) {
                    self.failed = Some((index, status, cause));
                }
            }
        }
    }

    /// Everything before `upto` has arrived (IBTA volume 1, 9.7.5.1).
    fn acknowledge(&mut self, upto: u32) {
        while let Some(message) = self.messages.front() {
            if self.local() || (!message.is_silent() && self.ahead(message.last) >= self.ahead(upto)) {
                break;
            }
            let m = self.messages.pop_front().unwrap();
            if m.signaled {
                self.done.push((m.opcode, m.length, self.oldest_index, 0, 0));
            }
            self.oldest_index = self.oldest_index.wrapping_add(1);
        }
        self.oldest_psn = upto;
    }

    /// The oldest WQE has ended with an error.
    pub fn fail(&mut self, seed: u64) {
        let local = self.failed.filter(|_| self.local()).map(|(_, status, cause)| (status, cause));
        let cause = self.fails.take().or(local);
        let (status, cause) = cause.unwrap_or_else(|| panic!("seed {seed}: nothing has failed: {self:?}"));
        self.done.push((0, 0, self.oldest_index, status, cause));
        self.oldest_index = self.oldest_index.wrapping_add(1);
        self.die();
    }

    pub fn die(&mut self) {
        self.dead = true;
        self.faults += 1;
        self.timer = Timer::Off;
        self.paused = None;
    }

    fn set_timer(&mut self, timer: Timer, cycle: u64) {
        self.changed.push_back((cycle, self.timer));
        self.timer = timer;
    }

    /// One more transport retry.
    fn retry(&mut self, cause: LocalCause) {
        if self.tries >= self.retry_cnt {
            self.fails = Some((WcStatus::RetryExcErr.code(), cause.code()));
            return;
        }
        self.tries += 1;
        self.restarts.push_back(false);
    }

    /// Returns whether the answer is dropped.
    pub fn answer(&mut self, psn: u32, syndrome: u8, cycle: u64) -> bool {
        let unsent = self.ahead(psn) >= self.ahead(self.next_psn);
        let reserved = !matches!(syndrome, 0..0x40 | 0x60..0x64);
        if self.dead || !self.runs || unsent || reserved {
            return true;
        }
        let is_ack = syndrome < 0x20;
        let upto = if is_ack { (psn + 1) % MODULUS } else { psn };
        if upto != self.oldest_psn {
            (self.tries, self.rnr_tries, self.asked) = (0, 0, false);
            self.stirred_at = cycle;
            if self.paused.is_none() {
                let next = if upto == self.next_psn { Timer::Off } else { Timer::Since(cycle) };
                self.set_timer(next, cycle);
            }
        }
        self.acknowledge(upto);
        if self.local() {
            return false;
        }
        if self.overtaken() {
            self.die();
            return false;
        }
        match syndrome {
            0..0x20 => {}
            0x20..0x40 if self.paused.is_some() => {}
            0x20..0x40 if self.rnr_retry != 7 && self.rnr_tries >= self.rnr_retry => {
                self.fails = Some((WcStatus::RnrRetryExcErr.code(), syndrome));
            }
            0x20..0x40 => {
                self.rnr_tries = (self.rnr_tries + 1).min(7);
                (self.tries, self.asked, self.timer) = (0, false, Timer::Off);
                self.paused = Some((cycle, syndrome & 0x1f));
                self.restarts.push_back(true);
            }
            0x60 if self.paused.is_some() || self.asked => {}
            0x60 => {
                self.retry(LocalCause::Sequence);
                self.asked = true;
                self.set_timer(Timer::Since(cycle), cycle);
            }
            _ => {
                let status = [WcStatus::RemInvReqErr, WcStatus::RemAccessErr, WcStatus::RemOpErr];
                self.fails = Some((status[usize::from(syndrome) - 0x61].code(), syndrome));
            }
        }
        false
    }

    /// The time for an acknowledgement is out.
    pub fn time_out(&mut self, cycle: u64, wait: u64, seed: u64) {
        if self.overtaken() {
            return;
        }
        assert!(self.paused.is_none(), "seed {seed}: a time-out while the peer is not ready: {self:?}");
        assert!(self.outstanding(), "seed {seed}: a time-out with nothing outstanding: {self:?}");
        assert_ne!(self.timeout, 0, "seed {seed}: a time-out that never is: {self:?}");
        let over = |timer: Timer| match timer {
            Timer::Off => false,
            Timer::Since(since) => cycle - since >= TICK << self.timeout,
            Timer::Vague => true,
        };
        let lately = self.changed.iter().any(|(at, timer)| cycle - at < wait && over(*timer));
        assert!(over(self.timer) || lately, "seed {seed}: {cycle}: too early: {self:?}");
        self.changed.clear();
        self.stops(cycle, wait);
        self.asked = false;
        self.retry(LocalCause::Timeout);
    }

    /// A restart was seen.
    pub fn restart(&mut self, hold: bool, cycle: u64, wait: u64, seed: u64) {
        if let Some(due) = self.restarts.pop_front() {
            assert_eq!(hold, due, "seed {seed}: {self:?}");
            return;
        }
        let Some((since, code)) = self.paused.take().filter(|_| !hold) else {
            panic!("seed {seed}, cycle {cycle}: nobody asked for a restart: {self:?}");
        };
        let least = u64::from(rnr_timer_us(code)) * 1000 / 4096 * TICK;
        assert!(cycle - since >= least, "seed {seed}: the peer is not ready yet: {self:?}");
        self.asked = false;
        self.stops(cycle, wait);
    }

    /// The timer has expired; what came since then, but before that was seen, may have started it again.
    fn stops(&mut self, cycle: u64, wait: u64) {
        self.timer = if self.stirred_at + wait > cycle { Timer::Vague } else { Timer::Off };
    }

    /// What must come has come.
    pub fn watch(&mut self, cycle: u64, slack: u64, seed: u64) {
        if self.dead || !self.runs {
            return;
        }
        if let Some((since, code)) = self.paused {
            let most = (u64::from(rnr_timer_us(code)) * 1000 / 4096 + 3) * TICK + slack;
            assert!(cycle - since <= most, "seed {seed}: a pause does not end: {self:?}");
        }
        if let Timer::Since(since) = self.timer {
            let passed = cycle - since;
            if self.timeout == 0 || self.paused.is_some() {
            } else if !self.outstanding() && passed >= TICK << self.timeout {
                self.timer = Timer::Vague;
            } else {
                let most = ((1 << self.timeout) + 2) * TICK + slack;
                assert!(passed <= most, "seed {seed}, cycle {cycle}: no time-out comes: {self:?}");
            }
        }
    }
}
