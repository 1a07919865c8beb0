// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`InFlight`]: commands that the card has not answered yet, and answers that their threads have not fetched yet.

use std::time::Duration;

/// What a slot of the command ring holds.
#[derive(Debug, Clone, Copy)]
enum Slot {
    /// Nothing: the next command that comes round may take it.
    Free,
    /// A command.
    Given {
        token: u16,
        /// When it was given, by the clock of the bus.
        at: Duration,
        /// A thread waits for its answer.
        awaited: bool,
    },
}

/// Commands in progress, by their tokens: the producer when they were given, which is another one for each of them.
///
/// A slot is free as soon as the card has answered, so a thread that is slow to fetch its answer keeps no other thread waiting.
pub(crate) struct InFlight<T> {
    slots: Box<[Slot]>,
    producer: u16,
    /// Answers that were not fetched yet: at most one for each thread that waits.
    answers: Vec<(u16, T)>,
}

impl<T: Copy> InFlight<T> {
    /// Of a ring of `1 << log2` slots.
    pub(crate) fn new(log2: u8) -> Self {
        Self { slots: vec![Slot::Free; 1 << log2].into(), producer: 0, answers: Vec::new() }
    }

    /// Where in the ring a command is.
    pub(crate) fn index(&self, token: u16) -> usize {
        usize::from(token) & (self.slots.len() - 1)
    }

    fn slot(&mut self, token: u16) -> &mut Slot {
        let index = self.index(token);
        &mut self.slots[index]
    }

    /// The token of the next command; none while its slot is taken, or a thread has not fetched its answer to the same token since all others
    /// have gone round.
    pub(crate) fn next(&mut self) -> Option<u16> {
        let token = self.producer;
        let kept = self.answers.iter().any(|(answered, _)| *answered == token);
        (!kept && matches!(self.slot(token), Slot::Free)).then_some(token)
    }

    /// When the command was given whose slot the next one needs, if there is one.
    pub(crate) fn oldest(&mut self) -> Option<Duration> {
        match self.slot(self.producer) {
            Slot::Given { at, .. } => Some(*at),
            Slot::Free => None,
        }
    }

    /// The command with the [next](Self::next) token is in the ring. Returns the producer after it.
    pub(crate) fn give(&mut self, token: u16, at: Duration) -> u16 {
        *self.slot(token) = Slot::Given { token, at, awaited: true };
        self.producer = token.wrapping_add(1);
        self.producer
    }

    /// The card has answered. Whether that command was in progress.
    #[must_use]
    pub(crate) fn answer(&mut self, token: u16, answer: T) -> bool {
        let slot = self.slot(token);
        match *slot {
            Slot::Given { token: given, awaited, .. } if given == token => {
                *slot = Slot::Free;
                if awaited {
                    self.answers.push((token, answer));
                }
                true
            }
            _ => false,
        }
    }

    /// The answer to a command, if it is there: once.
    pub(crate) fn fetch(&mut self, token: u16) -> Option<T> {
        let at = self.answers.iter().position(|(answered, _)| *answered == token)?;
        Some(self.answers.swap_remove(at).1)
    }

    /// No thread waits for the answer to a command any more.
    pub(crate) fn abandon(&mut self, token: u16) {
        self.fetch(token);
        match self.slot(token) {
            Slot::Given { token: given, awaited, .. } if *given == token => *awaited = false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_gets_its_own_answer_whoever_takes_it_from_the_ring() {
        let mut flight = InFlight::new(2);
        // Round the tokens, too.
        for round in 0..20_000u16 {
            let tokens: [u16; 4] = std::array::from_fn(|_| {
                let token = flight.next().unwrap();
                assert_eq!(flight.give(token, Duration::ZERO), token.wrapping_add(1));
                token
            });
            assert_eq!(tokens[0], round.wrapping_mul(4));
            assert_eq!((flight.next(), flight.fetch(tokens[1])), (None, None));
            for token in tokens {
                assert!(flight.answer(token, token ^ 0xff));
                assert!(!flight.answer(token, 0), "twice");
            }
            assert!(!flight.answer(tokens[3].wrapping_add(1), 0), "not given");
            for token in [tokens[2], tokens[0], tokens[3], tokens[1]] {
                assert_eq!(flight.fetch(token), Some(token ^ 0xff));
                assert_eq!(flight.fetch(token), None);
            }
        }
    }

    #[test]
    fn a_slot_is_free_when_the_card_has_answered_and_a_token_when_its_answer_is_fetched() {
        let mut flight = InFlight::new(1);
        let time = Duration::from_secs;
        for (token, at) in [(0, 10), (1, 11)] {
            assert_eq!(flight.next(), Some(token));
            flight.give(token, time(at));
        }
        assert_eq!((flight.next(), flight.oldest()), (None, Some(time(10))));
        assert!(flight.answer(0, 'a') && flight.answer(1, 'b'));
        assert_eq!(flight.oldest(), None);
        assert_eq!(flight.fetch(1), Some('b'));
        // The other thread is slow: nothing waits for it, until its token comes round.
        for token in 2..=u16::MAX {
            assert_eq!(flight.next(), Some(token));
            flight.give(token, time(12));
            assert!(flight.answer(token, 'c'));
            assert_eq!(flight.fetch(token), Some('c'));
        }
        assert_eq!((flight.next(), flight.oldest()), (None, None));
        assert_eq!(flight.fetch(0), Some('a'));
        assert_eq!(flight.next(), Some(0));
    }

    #[test]
    fn the_answer_for_a_thread_that_is_gone_is_dropped() {
        let mut flight = InFlight::new(1);
        flight.give(0, Duration::ZERO);
        flight.give(1, Duration::ZERO);
        assert!(flight.answer(0, 'a'));
        flight.abandon(0);
        flight.abandon(1);
        assert_eq!(flight.next(), Some(2), "the token is free");
        flight.give(2, Duration::ZERO);
        assert_eq!(flight.next(), None, "the card has not answered the one before");
        assert!(flight.answer(1, 'b'));
        assert_eq!((flight.fetch(0), flight.fetch(1), flight.next()), (None, None, Some(3)));
    }
}
