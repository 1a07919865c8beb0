// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command queue: one command at a time, with a bounded wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferrowire_spec::csr::command_queue as csr;
use ferrowire_spec::queue::command::{self, Command};
use ferrowire_spec::queue::command_completion::{self, CommandCompletion};
use ferrowire_spec::queue::{CommandAttribute, CommandOpcode, CommandStatus};
use ferrowire_spec::{Field, Register};

use crate::error::{Coded, Error, Result};
use crate::fault::WriteFault;
use crate::handle::{BusHandle, OwnedDma};
use crate::ring::EntryRing;

/// Commands and completions share a page each; more are never in progress.
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
    completions: EntryRing<{ command_completion::BYTES }>,
    log2: u8,
    producer: u16,
}

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
        let completions = EntryRing::alloc(bus, log2, command_completion::PHASE.offset)?;
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
            rings: Mutex::new(Rings { commands, completions, log2, producer: 0 }),
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
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        if self.failed.load(Ordering::Relaxed) {
            return Err(Error::CommandQueueFailed { operation });
        }
        // The producer is the token: it is another one for each command in progress.
        let token = rings.producer;
        let bytes = build(token).map_err(|e| Error::from_spec(operation.name(), e))?;
        let slot = usize::from(token) & ((1 << rings.log2) - 1);
        rings.commands.memory().write(slot * command::BYTES, &bytes);
        rings.producer = token.wrapping_add(1);
        crate::sys::before_doorbell();
        let answer = self.answer(operation, &mut rings);
        let completion = match answer {
            Ok(completion) if completion.token == token => completion,
            other => {
                self.failed.store(true, Ordering::Relaxed);
                let completion = other?;
                return Err(Error::CommandToken { operation, found: completion.token, expected: token });
            }
        };
        let status = Coded::<CommandStatus>::from(completion.status);
        if status == CommandStatus::Ok {
            return Ok(completion.value);
        }
        let attribute = Coded::<CommandAttribute>::from(completion.attribute);
        Err(Error::Command { operation, object, status, attribute, value: completion.value })
    }

    /// Rings for the commands up to the producer and takes the next completion.
    fn answer(&self, operation: CommandOpcode, rings: &mut Rings) -> Result<CommandCompletion> {
        let producer = u32::from(rings.producer);
        self.bus.with(|b| b.csr_write32(at(&csr::CMDQ_PRODUCER), producer))?;
        let bytes = match self.bus.wait(operation.name(), self.timeout, |_| Ok(rings.completions.take())) {
            Err(Error::Timeout { operation, after }) => {
                return Err(match self.bus.with(|bus| WriteFault::read(bus))? {
                    Some(fault) => Error::WriteFault { operation, after, fault },
                    None => Error::Timeout { operation, after },
                });
            }
            other => other?,
        };
        CommandCompletion::parse(&bytes).map_err(|e| Error::from_spec(operation.name(), e))
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
