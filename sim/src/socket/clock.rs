// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Clock`]: when the cards move, so that a card that has nothing to do costs next to nothing.
//!
//! From outside a card is active when it takes a register access, reads or writes host memory, or has frames on its wire. Between such
//! signs it may be busy inside for some hundred cycles, and timers of its queue pairs may run for as long as they were set.
//!
//! | what is seen | state | how it moves |
//! |---|---|---|
//! | a sign in the last [`QUIET`] cycles | awake | all the time |
//! | none, but a card has its command queue enabled, or its tables are not clear yet | dozing | all the time for [`GRACE`], then [`SHARE`] of the time: a timer may run |
//! | none, and no command queue: then there is no object, no timer and no DMA | asleep | not at all, until something comes |
//!
//! Of a card on a board only frames are seen. It dozes and never sleeps; bytes on its serial line have it move all the time, and nobody waits for that.

use std::time::{Duration, Instant};

use ferrowire_spec::csr::command_queue as csr;
use ferrowire_spec::Register;

use crate::bus::World;
use crate::card::CsrAccess;

/// Cycles without a sign after which nothing is under way but timers: far more than any block of the card takes.
const QUIET: u64 = 1 << 14;
/// Cycles without a sign after which whatever waits for an answer of the card may go on to wait in its own time: some times what a packet takes from
/// one end of the card to the other.
const SETTLED: u64 = 1 << 12;
/// Cycles between two looks at the sockets.
const BATCH: u64 = 8;
/// A dozing card moves all the time for so long.
const GRACE: Duration = Duration::from_secs(1);
/// Then it moves so long, and rests `SHARE` times as long.
const BURST: Duration = Duration::from_millis(1);
/// See [`BURST`]: 5 % of a processor.
const SHARE: u32 = 19;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Awake,
    Dozing { since: Instant },
    Asleep,
}

/// Moves the cards of a world.
#[derive(Debug)]
pub struct Clock {
    state: State,
    /// Never dozes while a driver is there.
    eager: bool,
    /// What was done until now, and when that was last looked at.
    done: u64,
    sign: u64,
}

impl Clock {
    /// Awake. `eager`: cards that may have a timer running move all the time.
    pub fn new(eager: bool) -> Self {
        Self { state: State::Awake, eager, done: 0, sign: 0 }
    }

    /// Something has come: the cards move.
    pub fn wake(&mut self, world: &World) {
        self.state = State::Awake;
        self.sign = world.cycle();
    }

    /// Bytes have come on a board's serial line, or go there: it moves all the time for a while.
    pub fn stir(&mut self) {
        if self.state != State::Awake {
            self.state = State::Dozing { since: Instant::now() };
        }
    }

    /// Whether the cards do something that others see, or did just now.
    pub fn busy(&self, world: &World) -> bool {
        self.state == State::Awake && world.cycle() - self.sign < SETTLED
    }

    /// How long to wait for something to come before cards move again; `None`: for ever.
    pub fn rest(&self) -> Option<Duration> {
        match self.state {
            State::Awake => Some(Duration::ZERO),
            State::Dozing { since } if self.eager || since.elapsed() < GRACE => Some(Duration::ZERO),
            State::Dozing { .. } => Some(BURST * SHARE),
            State::Asleep => None,
        }
    }

    /// Moves the cards for a while, as it is due. `waits`: frames wait for a card. None can be looked into where there is only one on a board.
    pub fn run(&mut self, world: &mut World, cards: usize, waits: bool) {
        match self.state {
            State::Asleep if !waits => return,
            State::Dozing { since } if !self.eager && since.elapsed() >= GRACE => {
                let start = Instant::now();
                while start.elapsed() < BURST && !self.signs(world, cards) {
                    world.run(BATCH);
                }
            }
            _ => world.run(BATCH),
        }
        let cycle = world.cycle();
        if self.signs(world, cards) || waits || !world.wires_idle() {
            self.done = done(world, cards);
            self.wake(world);
        } else if cycle - self.sign >= QUIET {
            self.sign = cycle;
            let empty = cards > 0 && (0..cards).all(|card| is_empty(world, card));
            self.state = match (self.state, empty) {
                (_, true) => State::Asleep,
                (State::Dozing { since }, false) => State::Dozing { since },
                (_, false) => State::Dozing { since: Instant::now() },
            };
            // The look at its registers was no sign.
            self.done = done(world, cards);
        }
    }

    fn signs(&self, world: &World, cards: usize) -> bool {
        done(world, cards) != self.done
    }
}

/// A number that grows with every sign.
fn done(world: &World, cards: usize) -> u64 {
    let of = |card| {
        let card = world.card(card);
        let host = card.host().stats();
        card.csr_taken() + host.reads + host.read_bytes + host.writes + host.write_bytes
    };
    (0..cards).map(of).sum::<u64>() + world.frames()
}

/// Whether a card has its tables clear and no command queue.
fn is_empty(world: &mut World, card: usize) -> bool {
    let mut read = |register: &Register| {
        let address = csr::BLOCK.address(register);
        world.access(card, CsrAccess { address, write: false, wide: false, data: 0 })
    };
    let flag = |register: &Register, name: &str| register.field(name).map_or(0, |field| 1 << field.offset);
    let busy = flag(&csr::CONTROL, "enable") | flag(&csr::CONTROL, "reset");
    match (read(&csr::CONTROL), read(&csr::STATUS)) {
        (Ok(control), Ok(status)) => control & busy == 0 && status & flag(&csr::STATUS, "ready") != 0,
        // A card that does not answer does not move either; who asks it next is told.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::line::Plug;

    #[test]
    fn a_card_that_nobody_can_look_into_dozes_and_never_sleeps() {
        let mut world = World::peers(8, 50_000, 0, [Box::new(Plug::default()), Box::new(Plug::default())]);
        let mut clock = Clock::new(false);
        let mut run =
            |clock: &mut Clock| (0..3 * QUIET / BATCH).for_each(|_| clock.run(&mut world, 0, false));
        run(&mut clock);
        assert!(matches!(clock.state, State::Dozing { .. }) && clock.rest() == Some(Duration::ZERO));
        // Its program is there: all the time again.
        let since = Instant::now().checked_sub(2 * GRACE).unwrap();
        clock.state = State::Dozing { since };
        assert_eq!(clock.rest(), Some(BURST * SHARE));
        clock.stir();
        assert_eq!(clock.rest(), Some(Duration::ZERO));
        run(&mut clock);
        assert!(clock.state != State::Asleep);
    }
}
