// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`InFlight`]: commands that the card has not answered yet, and answers that nobody has fetched yet.

/// What a slot of the command ring holds.
#[derive(Debug, Clone, Copy)]
enum Slot<T> {
    /// Nothing: the next command that comes round may take it.
    Free,
    /// The command with this token.
    Given(u16),
    /// Its answer, for the thread that gave it.
    Answered(u16, T),
}

/// Commands in progress, by their tokens: the producer when they were given, which is another one for each of them.
pub(crate) struct InFlight<T> {
    slots: Box<[Slot<T>]>,
    producer: u16,
}

impl<T: Copy> InFlight<T> {
    /// Of a ring of `1 << log2` slots.
    pub(crate) fn new(log2: u8) -> Self {
        Self { slots: vec![Slot::Free; 1 << log2].into(), producer: 0 }
    }

    fn slot(&mut self, token: u16) -> &mut Slot<T> {
        let mask = self.slots.len() - 1;
        &mut self.slots[usize::from(token) & mask]
    }

    /// Where in the ring a command is.
    pub(crate) fn index(&self, token: u16) -> usize {
        usize::from(token) & (self.slots.len() - 1)
    }

    /// The token of the next command; none while its slot is taken.
    pub(crate) fn next(&mut self) -> Option<u16> {
        let token = self.producer;
        matches!(self.slot(token), Slot::Free).then_some(token)
    }

    /// The command with the [next](Self::next) token is in the ring. The producer behind it.
    pub(crate) fn give(&mut self, token: u16) -> u16 {
        *self.slot(token) = Slot::Given(token);
        self.producer = token.wrapping_add(1);
        self.producer
    }

    /// The card has answered. Whether that command was in progress.
    #[must_use]
    pub(crate) fn answer(&mut self, token: u16, answer: T) -> bool {
        let slot = self.slot(token);
        let given = matches!(slot, Slot::Given(given) if *given == token);
        if given {
            *slot = Slot::Answered(token, answer);
        }
        given
    }

    /// The answer to a command, if it is there: once.
    pub(crate) fn fetch(&mut self, token: u16) -> Option<T> {
        let slot = self.slot(token);
        match *slot {
            Slot::Answered(answered, answer) if answered == token => {
                *slot = Slot::Free;
                Some(answer)
            }
            _ => None,
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
                assert_eq!(flight.give(token), token.wrapping_add(1));
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
    fn a_slot_is_taken_until_its_answer_is_fetched() {
        let mut flight = InFlight::new(1);
        let first = flight.next().unwrap();
        flight.give(first);
        let second = flight.next().unwrap();
        flight.give(second);
        assert!(flight.answer(first, ()) && flight.answer(second, ()));
        assert!(flight.fetch(second).is_some());
        assert_eq!(flight.next(), None, "the first one's");
        assert!(flight.fetch(first).is_some());
        assert_eq!(flight.next(), Some(2));
    }
}
