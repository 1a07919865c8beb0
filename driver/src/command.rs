// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command queue: commands of several threads at once, each with a bounded wait.
//!
//! A command is written into the ring and its doorbell is rung under a lock. The wait for its answer holds none: each look takes all new answers
//! from the ring, and stores each for the thread that gave its command.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrowire_spec::csr::command_queue as csr;
use ferrowire_spec::queue::command::{self, Command};
use ferrowire_spec::queue::command_completion::{self, CommandCompletion};
use ferrowire_spec::queue::{CommandAttribute, CommandOpcode, CommandStatus};
use ferrowire_spec::{Field, Register};

use crate::error::{Coded, Error, Result};
use crate::fault::WriteFault;
use crate::handle::{BusHandle, OwnedDma};
use crate::inflight::InFlight;
use crate::ring::EntryRing;

/// Commands and completions have a page each at most; a thread that finds all slots taken waits for one.
const MAX_LOG2: u8 = 6;

/// The command queue of an open card.
pub(crate) struct CommandQueue {
    bus: Arc<BusHandle>,
    timeout: Duration,
    failed: AtomicBool,
    rings: Mutex<Rings>,
}

struct Rings {
    commands: OwnedDma,
    completions: EntryRing<{ command_completion::WORDS }>,
    flight: InFlight<CommandCompletion>,
}

/// A thread that waits for the card.
struct Wait {
    start: Duration,
    looks: u32,
}

/// A thread that waits for the answer to its command. Dropping it, also in a panic of the bus, gives the answer up.
struct Waiter<'a> {
    queue: &'a CommandQueue,
    token: u16,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.queue.rings().flight.abandon(self.token);
    }
}

/// Looks without a pause; then other threads go first.
const EAGER: u32 = 256;

/// Address in BAR 0 of a register of the command queue.
const fn at(register: &Register) -> u32 {
    csr::BLOCK.address(register)
}

const ENABLE: Field = crate::csr::field(&csr::CONTROL, "enable");
const RESET: Field = crate::csr::field(&csr::CONTROL, "reset");
const READY: Field = crate::csr::field(&csr::STATUS, "ready");
const FATAL: Field = crate::csr::field(&csr::STATUS, "fatal");

/// Resets the card: it forgets every object and stops all DMA.
pub(crate) fn reset(bus: &BusHandle, timeout: Duration) -> Result<()> {
    bus.with(|b| b.csr_write32(at(&csr::CONTROL), crate::csr::put(&RESET, 1)))?;
    bus.wait("reset", timeout, |b| {
        let control = b.csr_read32(at(&csr::CONTROL))?;
        let status = b.csr_read32(at(&csr::STATUS))?;
        Ok((crate::csr::get(&RESET, control) == 0 && crate::csr::get(&READY, status) == 1).then_some(()))
    })
}

impl CommandQueue {
    /// Gives the card, which was reset, its rings, and enables it.
    pub(crate) fn open(bus: &Arc<BusHandle>, max_log2: u8, timeout: Duration) -> Result<Self> {
        let log2 = max_log2.min(MAX_LOG2);
        let commands = OwnedDma::alloc(bus, command::BYTES << log2)?;
        let completions = EntryRing::alloc(bus, log2, &command_completion::PHASE)?;
        let words = [
            (csr::CMDQ_BASE_LO, commands.bus_address() as u32),
            (csr::CMDQ_BASE_HI, (commands.bus_address() >> 32) as u32),
            (csr::CMDQ_LOG2, u32::from(log2)),
            (csr::CMDQ_PRODUCER, 0),
            (csr::COMPL_BASE_LO, completions.bus_address() as u32),
            (csr::COMPL_BASE_HI, (completions.bus_address() >> 32) as u32),
            (csr::COMPL_LOG2, u32::from(log2)),
            (csr::CONTROL, crate::csr::put(&ENABLE, 1)),
        ];
        crate::sys::before_doorbell();
        bus.with(|b| words.iter().try_for_each(|(register, value)| b.csr_write32(at(register), *value)))?;
        Ok(Self {
            bus: Arc::clone(bus),
            timeout,
            failed: AtomicBool::new(false),
            rings: Mutex::new(Rings { commands, completions, flight: InFlight::new(log2) }),
        })
    }

    /// Gives a command that has no layout of its own.
    pub(crate) fn simple(&self, operation: CommandOpcode, object: u32) -> Result<u64> {
        self.run(operation, object, |token| {
            Command { opcode: operation.code(), token, object, ..Command::default() }.to_bytes()
        })
    }

    /// Gives the command that `build` makes with the token it gets, and waits for it. Returns the completion's value.
    pub(crate) fn run(
        &self,
        operation: CommandOpcode,
        object: u32,
        build: impl FnOnce(u16) -> Result<[u8; command::BYTES], ferrowire_spec::Error>,
    ) -> Result<u64> {
        let token = self.give(operation, build)?;
        let waiter = Waiter { queue: self, token };
        let completion = self.answer(operation, token)?;
        drop(waiter);
        let status = Coded::<CommandStatus>::from(completion.status);
        if status == CommandStatus::Ok {
            return Ok(completion.value);
        }
        let attribute = Coded::<CommandAttribute>::from(completion.attribute);
        Err(Error::Command { operation, object, status, attribute, value: completion.value })
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No command is given any more.
    fn fail(&self, error: Error) -> Error {
        self.failed.store(true, Ordering::Relaxed);
        error
    }

    /// Writes a command into the ring when it has room, and rings.
    fn give(
        &self,
        operation: CommandOpcode,
        build: impl FnOnce(u16) -> Result<[u8; command::BYTES], ferrowire_spec::Error>,
    ) -> Result<u16> {
        let mut wait = self.wait();
        loop {
            let mut rings = self.rings();
            if self.failed.load(Ordering::Relaxed) {
                return Err(Error::CommandQueueFailed { operation });
            }
            self.collect(operation, &mut rings)?;
            if let Some(token) = rings.flight.next() {
                let bytes = build(token).map_err(|e| Error::from_spec(operation.name(), e))?;
                rings.commands.memory().write(rings.flight.index(token) * command::BYTES, &bytes);
                let producer = u32::from(rings.flight.give(token, self.bus.with(|b| b.now())));
                crate::sys::before_doorbell();
                // Under the lock: the producer must not go back.
                let rung = self.bus.with(|b| b.csr_write32(at(&csr::CMDQ_PRODUCER), producer));
                return rung.map(|()| token).map_err(|error| self.fail(error.into()));
            }
            // The card has failed only if a command in the ring waits too long. Many threads can also be slow to get their turn.
            let oldest = rings.flight.oldest();
            drop(rings);
            if oldest.is_some_and(|given| self.is_late(given)) {
                return Err(self.late(operation)?);
            }
            if self.is_late(wait.start) {
                return Err(Error::CommandQueueBusy { operation, after: self.timeout });
            }
            self.pause(&mut wait)?;
        }
    }

    /// Waits for the answer to a command.
    fn answer(&self, operation: CommandOpcode, token: u16) -> Result<CommandCompletion> {
        let mut wait = self.wait();
        loop {
            // The time is taken before the look: an answer just in time is not missed after a long pause.
            let late = self.is_late(wait.start);
            if let Some(completion) = self.look(operation, token)? {
                return Ok(completion);
            }
            if late {
                return Err(self.late(operation)?);
            }
            self.pause(&mut wait).map_err(|error| self.fail(error))?;
        }
    }

    /// The answer to `token`, if it is there.
    fn look(&self, operation: CommandOpcode, token: u16) -> Result<Option<CommandCompletion>> {
        let mut rings = self.rings();
        self.collect(operation, &mut rings)?;
        Ok(rings.flight.fetch(token))
    }

    /// Takes the card's answers from the ring.
    fn collect(&self, operation: CommandOpcode, rings: &mut Rings) -> Result<()> {
        while let Some(words) = rings.completions.take() {
            let completion = CommandCompletion::from_words(&words);
            let found = completion.token;
            if !rings.flight.answer(found, completion) {
                return Err(self.fail(Error::CommandToken { operation, found }));
            }
        }
        Ok(())
    }

    fn wait(&self) -> Wait {
        Wait { start: self.bus.with(|b| b.now()), looks: 0 }
    }

    fn is_late(&self, start: Duration) -> bool {
        self.bus.with(|b| b.now()).saturating_sub(start) > self.timeout
    }

    /// Lets a simulated card run, and other threads.
    fn pause(&self, wait: &mut Wait) -> Result<()> {
        self.bus.step()?;
        wait.looks = wait.looks.saturating_add(1);
        match wait.looks > EAGER {
            true => std::thread::yield_now(),
            false => std::hint::spin_loop(),
        }
        Ok(())
    }

    /// The card does not answer.
    fn late(&self, operation: CommandOpcode) -> Result<Error> {
        let (operation, after) = (operation.name(), self.timeout);
        let fault = self.bus.with(|bus| WriteFault::read(bus)).map_err(|error| self.fail(error.into()))?;
        Ok(self.fail(match fault {
            Some(fault) => Error::WriteFault { operation, after, fault },
            None => Error::Timeout { operation, after },
        }))
    }

    /// Whether the card says that its command ring failed.
    pub(crate) fn is_fatal(&self) -> Result<bool> {
        let status = self.bus.with(|b| b.csr_read32(at(&csr::STATUS)))?;
        Ok(crate::csr::get(&FATAL, status) == 1)
    }

    /// Keeps the rings mapped for as long as the bus lives: the card could not be stopped.
    pub(crate) fn leak(&mut self) {
        let rings = self.rings.get_mut().unwrap_or_else(PoisonError::into_inner);
        rings.commands.leak();
        rings.completions.leak();
    }
}
