// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command processor: takes commands from their ring, refuses what cannot be, and completes them in order.
//!
//! What is wrong is found in the order of the hardware's command processor: opcode, reserved bits, objects, attributes. A refused command changes
//! nothing.

mod memory;
mod pairs;
mod queues;

use ferrowire_spec::csr::command_queue as csr;
use ferrowire_spec::queue::command::{
    self, alloc_mw, create_ah, create_cq, create_eq, create_qp, create_srq, modify_cq, modify_qp, modify_srq,
    reg_mr, resize_cq, set_av, Command,
};
use ferrowire_spec::queue::command_completion::{self as completion, CommandCompletion};
use ferrowire_spec::queue::{CommandAttribute as Attribute, CommandOpcode as Op, CommandStatus as Status};
use ferrowire_spec::Access;

use super::card::Card;
use super::limits;
use crate::model::Instant;

/// Commands that are carried out at once. One may read a list of 2^18 pages, so more of them would keep all other cards of a server waiting.
const AT_ONCE: usize = 4;
/// Time between these and the next ones, in nanoseconds: what the hardware takes for as many, roughly.
const PAUSE: Instant = 10_000;

/// Why a command is refused: status, the attribute that offends, and what the completion says besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusal {
    status: Status,
    attribute: u8,
    value: u64,
}

fn refusal(status: Status, attribute: Attribute) -> Refusal {
    Refusal { status, attribute: attribute.code(), value: 0 }
}

/// Refuses where that does not hold.
fn need(holds: bool, status: Status, attribute: Attribute) -> Result<(), Refusal> {
    match holds {
        true => Ok(()),
        false => Err(refusal(status, attribute)),
    }
}

/// An object that is to be made has a number that is in range and free, another one exists.
fn object(number: u32, limit: u32, exists: bool, wanted: bool) -> Result<(), Refusal> {
    need(number < limit && exists == wanted, Status::BadObject, Attribute::Object)
}

/// Queues are aligned, and none may run over the end of the address space.
fn base(address: u64, attribute: Attribute) -> Result<(), Refusal> {
    need(address % 4096 == 0 && address >> 27 != u64::MAX >> 27, Status::BadAddress, attribute)
}

fn page(number: u16) -> Result<(), Refusal> {
    need(u32::from(number) < limits::DOORBELL_PAGES, Status::BadAttribute, Attribute::DoorbellPage)
}

/// A command has as many bytes as its layout, so this does not fail.
fn parsed<T>(command: Result<T, ferrowire_spec::Error>) -> Result<T, Refusal> {
    command.map_err(|_| refusal(Status::BadSize, Attribute::None))
}

/// The place in a ring of `1 << log2` entries of `bytes`, and the phase of that pass. Sizes that indices do not fill are as good as larger ones.
fn place(base: u64, log2: u32, index: u16, bytes: usize) -> (u64, bool) {
    let index = u32::from(index);
    let slot = index & 1u32.checked_shl(log2).unwrap_or(0).wrapping_sub(1);
    let pass = index.checked_shr(log2).unwrap_or(0);
    (base.wrapping_add(u64::from(slot) * bytes as u64), pass & 1 == 0)
}

impl Card {
    /// Takes commands up to the producer: [`AT_ONCE`] of them, and those that are left after [`PAUSE`].
    pub(super) fn take_commands(&mut self) {
        self.next_commands = None;
        let get = |card: &Card, register, name| card.registers.get(&csr::BLOCK, register, name);
        let mut taken = 0;
        while self.is_enabled() && get(self, &csr::STATUS, "fatal") == 0 {
            let consumer = get(self, &csr::CMDQ_CONSUMER, "value") as u16;
            if consumer == get(self, &csr::CMDQ_PRODUCER, "value") as u16 {
                return;
            }
            if taken == AT_ONCE {
                self.next_commands = Some(self.now.saturating_add(PAUSE));
                return;
            }
            taken += 1;
            let base = self.registers.pair(&csr::BLOCK, &csr::CMDQ_BASE_LO, &csr::CMDQ_BASE_HI);
            let (at, _) = place(base, get(self, &csr::CMDQ_LOG2, "value"), consumer, command::BYTES);
            let mut bytes = [0; command::BYTES];
            if !self.host.read(at, &mut bytes) {
                self.registers.put(&csr::BLOCK, &csr::STATUS, "fatal", 1);
                return;
            }
            self.registers.put(&csr::BLOCK, &csr::CMDQ_CONSUMER, "value", consumer.wrapping_add(1).into());
            self.counts.commands += 1;
            let Ok(head) = Command::parse(&bytes) else { return };
            let answer = self.execute(&head, &bytes);
            // Behind what the command has brought about: completions that it flushed, events.
            self.tell();
            let ended = |status: Status, attribute, value| (status.code(), attribute, value);
            let (status, attribute, value) = match answer {
                Ok(value) => ended(Status::Ok, Attribute::None.code(), value),
                Err(refusal) => ended(refusal.status, refusal.attribute, refusal.value),
            };
            let base = self.registers.pair(&csr::BLOCK, &csr::COMPL_BASE_LO, &csr::COMPL_BASE_HI);
            let log2 = get(self, &csr::COMPL_LOG2, "value");
            let (at, phase) = place(base, log2, consumer, completion::BYTES);
            let entry = CommandCompletion {
                token: head.token,
                opcode: head.opcode,
                status,
                attribute,
                value,
                phase,
                ..CommandCompletion::default()
            };
            // Values are of 63 bits.
            if let Ok(entry) = entry.to_bytes() {
                self.host.write_entry(at, &entry);
            }
        }
    }

    fn execute(&mut self, head: &Command, bytes: &[u8]) -> Result<u64, Refusal> {
        let opcode = Op::from_code(head.opcode).ok_or(refusal(Status::BadOpcode, Attribute::Opcode))?;
        need(head.flags == 0, Status::BadReserved, Attribute::Flags)?;
        let layout = opcode.layout();
        let mut reserved = layout.fields.iter().filter(|field| field.access == Access::RSVD);
        need(
            reserved.all(|field| field.get(layout.order, bytes) == 0),
            Status::BadReserved,
            Attribute::None,
        )?;
        let number = head.object;
        match opcode {
            Op::CreateCq => self.create_cq(&parsed(create_cq::CreateCq::parse(bytes))?),
            Op::ModifyCq => self.modify_cq(&parsed(modify_cq::ModifyCq::parse(bytes))?),
            Op::ResizeCq => return self.resize_cq(&parsed(resize_cq::ResizeCq::parse(bytes))?),
            Op::DestroyCq => self.destroy_cq(number),
            Op::CreateEq => self.create_eq(&parsed(create_eq::CreateEq::parse(bytes))?),
            Op::DestroyEq => self.destroy_eq(number),
            Op::CreateSrq => self.create_srq(&parsed(create_srq::CreateSrq::parse(bytes))?),
            Op::ModifySrq => self.modify_srq(&parsed(modify_srq::ModifySrq::parse(bytes))?),
            Op::QuerySrq => return self.query_srq(number),
            Op::DestroySrq => self.destroy_srq(number),
            Op::AllocPd => self.alloc_pd(number),
            Op::FreePd => self.free_pd(number),
            Op::RegMr => self.reg_mr(&parsed(reg_mr::RegMr::parse(bytes))?),
            Op::DeregMr => self.dereg_mr(number),
            Op::AllocMw => self.alloc_mw(&parsed(alloc_mw::AllocMw::parse(bytes))?),
            Op::FreeMw => self.free_mw(number),
            Op::CreateAh => self.create_ah(&parsed(create_ah::CreateAh::parse(bytes))?),
            Op::DestroyAh => self.destroy_ah(number),
            Op::CreateQp => self.create_qp(&parsed(create_qp::CreateQp::parse(bytes))?),
            Op::SetAv => self.set_av(&parsed(set_av::SetAv::parse(bytes))?),
            Op::ModifyQp => self.modify_qp(&parsed(modify_qp::ModifyQp::parse(bytes))?),
            Op::QueryQp => return self.query_qp(number),
            Op::DestroyQp => self.destroy_qp(number),
            Op::ResetAll => {
                self.reclaim();
                Ok(())
            }
        }
        .map(|()| 0)
    }

    /// What belongs to a protection domain names one that there is.
    fn need_pd(&self, pd: u32) -> Result<(), Refusal> {
        need(self.objects.pds.contains(&pd), Status::BadAttribute, Attribute::Pd)
    }
}
