// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random commands, of which some make sense, and a card's command queue without the driver.

use ferrowire::{Bus, DmaBuffer, QpState};
use ferrowire_spec::csr::command_queue as csr;
use ferrowire_spec::qp_state::{transition, GSI_QPN, RAW_QPN};
use ferrowire_spec::queue::command::alloc_mw::AllocMw;
use ferrowire_spec::queue::command::create_ah::CreateAh;
use ferrowire_spec::queue::command::create_cq::CreateCq;
use ferrowire_spec::queue::command::create_eq::CreateEq;
use ferrowire_spec::queue::command::create_qp::CreateQp;
use ferrowire_spec::queue::command::create_srq::CreateSrq;
use ferrowire_spec::queue::command::modify_qp::ModifyQp;
use ferrowire_spec::queue::command::modify_srq::ModifySrq;
use ferrowire_spec::queue::command::reg_mr::RegMr;
use ferrowire_spec::queue::command::resize_cq::ResizeCq;
use ferrowire_spec::queue::command::set_av::SetAv;
use ferrowire_spec::queue::command::{self, Command};
use ferrowire_spec::queue::command_completion::{self, CommandCompletion};
use ferrowire_spec::queue::CommandOpcode as Op;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::Register;
use rand::rngs::SmallRng;
use rand::Rng;

/// One of these.
fn one<T: Copy>(rng: &mut SmallRng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())]
}

/// A small number that is good, or seldom one that no card has.
fn number(rng: &mut SmallRng, most: u32, beyond: u32) -> u32 {
    if rng.random_bool(0.03) {
        beyond
    } else {
        rng.random_range(0..=most)
    }
}

/// A command about one of a few objects. Queues and page lists begin at `bases`, or seldom where nothing can begin.
pub fn command(rng: &mut SmallRng, bases: &[u64]) -> [u8; command::BYTES] {
    let base = |rng: &mut SmallRng| match rng.random_range(0..40) {
        0 => !0xfff,
        1 => bases[0] | 0x40,
        _ => one(rng, bases),
    };
    let page = |rng: &mut SmallRng| if rng.random_bool(0.03) { 0xffff } else { rng.random_range(0..4) };
    let pd = |rng: &mut SmallRng| number(rng, 2, 1 << 20 | 1);
    let qpn = |rng: &mut SmallRng| number(rng, 5, 1 << 23);
    let key = |rng: &mut SmallRng| number(rng, 5, 1 << 22) << 8 | rng.random_range(0..2);
    let token = rng.random();
    // Queue pairs have the most to say.
    let opcode = match rng.random_range(0..4) {
        0 => one(rng, &[Op::CreateQp, Op::ModifyQp, Op::ModifyQp, Op::SetAv]),
        // More is made than removed.
        1 => one(rng, &[Op::AllocPd, Op::CreateCq, Op::CreateEq, Op::CreateSrq, Op::RegMr, Op::AllocMw]),
        _ => one(rng, Op::ALL),
    };
    let bytes = match opcode {
        Op::CreateCq => CreateCq {
            token,
            object: number(rng, 4, 1 << 20),
            base: base(rng),
            log2_entries: one(rng, &[0, 2, 4, 23]),
            eqn: rng.random_range(0..4),
            doorbell_page: page(rng),
            ..CreateCq::default()
        }
        .to_bytes(),
        Op::ResizeCq => ResizeCq {
            token,
            object: number(rng, 4, 1 << 20),
            base: base(rng),
            log2_entries: one(rng, &[0, 2, 4, 23]),
            ..ResizeCq::default()
        }
        .to_bytes(),
        Op::CreateEq => CreateEq {
            token,
            object: number(rng, 3, 1 << 16 | 2),
            base: base(rng),
            log2_entries: one(rng, &[0, 2, 4, 23]),
            vector: rng.random_range(0..4),
            doorbell_page: page(rng),
            asynchronous: rng.random(),
            ..CreateEq::default()
        }
        .to_bytes(),
        Op::CreateSrq => CreateSrq {
            token,
            object: number(rng, 3, 1 << 20),
            pd: pd(rng),
            log2_entries: one(rng, &[2, 4, 16]),
            doorbell_page: page(rng),
            limit: one(rng, &[0, 0, 4, 17]),
            base: base(rng),
            rq_stride: rng.random_range(0..4),
            ..CreateSrq::default()
        }
        .to_bytes(),
        Op::ModifySrq => ModifySrq {
            token,
            object: number(rng, 3, 1 << 20),
            limit: one(rng, &[0, 4, 17]),
            ..ModifySrq::default()
        }
        .to_bytes(),
        Op::RegMr => {
            let shift = one(rng, &[12, 12, 12, 21, 30, 13]);
            let (va, length) = (rng.random_range(0..1 << 20), one(rng, &[1, 4096, 5000, 0, u64::MAX >> 1]));
            let within = va & ((1u64 << shift) - 1);
            let pages = (u128::from(within) + u128::from(length)).div_ceil(1 << shift);
            let page_count = if rng.random_bool(0.9) { pages as u32 } else { rng.random_range(0..4) };
            RegMr {
                token,
                object: key(rng),
                pd: pd(rng),
                access: one(rng, &[0, 1, 0x0f, 0x1f, 0x02, 0x20, 0x41, 0x80]),
                page_shift: shift,
                va: if rng.random_bool(0.03) { u64::MAX - 100 } else { va },
                length,
                page_list_addr: if rng.random_bool(0.9) {
                    bases[0]
                } else {
                    base(rng) | rng.random_range(0..8)
                },
                page_count,
                mtt_index: number(rng, 6, u32::MAX),
                ..RegMr::default()
            }
            .to_bytes()
        }
        Op::AllocMw => AllocMw { token, object: key(rng), pd: pd(rng), ..AllocMw::default() }.to_bytes(),
        Op::CreateQp => {
            let has_srq = rng.random_bool(0.3);
            let bare = has_srq && rng.random_bool(0.9);
            let object = qpn(rng);
            // Those of two are told.
            let service = match object {
                _ if rng.random_bool(0.1) => rng.random_range(0..8),
                RAW_QPN => Service::Raw.code(),
                GSI_QPN => Service::Ud.code(),
                _ => one(rng, &[Service::Rc, Service::Rc, Service::Uc, Service::Ud]).code(),
            };
            let log2 = |rng: &mut SmallRng| if rng.random_bool(0.03) { 16 } else { rng.random_range(0..5) };
            CreateQp {
                token,
                object,
                pd: pd(rng),
                service,
                doorbell_page: page(rng),
                sq_log2: log2(rng),
                rq_log2: if bare { 0 } else { log2(rng) },
                send_cqn: number(rng, 4, 1 << 20),
                recv_cqn: number(rng, 4, 1 << 20),
                sq_sig_all: rng.random(),
                has_srq,
                sq_stride: rng.random_range(0..4),
                rq_stride: if bare { 0 } else { one(rng, &[0, 0, 1, 2, 0, 1, 2, 3]) },
                sq_base: base(rng),
                rq_base: if bare { 0 } else { base(rng) },
                srqn: if has_srq || rng.random_bool(0.03) { number(rng, 3, 1 << 20) } else { 0 },
                ..CreateQp::default()
            }
            .to_bytes()
        }
        Op::ModifyQp => {
            // What one of the transitions needs, and sometimes something else.
            let service = one(rng, &[Service::Rc, Service::Uc, Service::Ud, Service::Raw]);
            let early = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts];
            let (from, to) = (one(rng, &early), one(rng, QpState::ALL));
            let to = if rng.random() { to } else { one(rng, &early[1..]) };
            let good = |rng: &mut SmallRng, good: u8, bad: u8| if rng.random_bool(0.05) { bad } else { good };
            let mut attr_mask = transition(service, from, to).map_or(0, |found| found.required.0);
            if rng.random_bool(0.2) {
                attr_mask ^= 1 << rng.random_range(0..20);
            }
            ModifyQp {
                token,
                object: qpn(rng),
                attr_mask,
                state: if rng.random_bool(0.02) { 7 } else { to.code() },
                path_mtu: good(rng, 3, 7),
                timeout: rng.random_range(0..32),
                dest_qpn: rng.random_range(0..8),
                rq_psn: rng.random_range(0..1 << 24),
                sq_psn: rng.random_range(0..1 << 24),
                max_rd_atomic: good(rng, 16, 17),
                max_dest_rd_atomic: good(rng, 4, 200),
                access: good(rng, 0x0e, 1),
                qkey: one(rng, &[1, 0x8001_0000]),
                cur_state: one(rng, QpState::ALL).code(),
                selective: rng.random(),
                ..ModifyQp::default()
            }
            .to_bytes()
        }
        Op::SetAv => SetAv {
            token,
            object: qpn(rng),
            dst_mac: one(rng, &[2, 2, 0]),
            src_mac: one(rng, &[0x0200_0000_0001, 0x0200_0000_0001, 0, 1 << 40]),
            ipv6: rng.random(),
            dst_ip: one(rng, &[1, 1, 1 << 40]),
            src_ip: one(rng, &[2, 2, 1 << 100]),
            ..SetAv::default()
        }
        .to_bytes(),
        Op::CreateAh => CreateAh {
            token,
            object: number(rng, 3, 1 << 20),
            pd: pd(rng),
            dst_mac: one(rng, &[2, 2, 0]),
            src_mac: 0x0200_0000_0001,
            dst_ip: one(rng, &[1, 1, 1 << 40]),
            src_ip: 2,
            ..CreateAh::default()
        }
        .to_bytes(),
        other => {
            let object = match other {
                Op::DeregMr | Op::FreeMw => key(rng),
                Op::AllocPd | Op::FreePd => pd(rng),
                Op::DestroyCq | Op::ModifyCq => number(rng, 4, 1 << 20),
                Op::DestroyEq | Op::DestroySrq | Op::QuerySrq | Op::DestroyAh => number(rng, 3, 1 << 20),
                _ => qpn(rng),
            };
            // Everything at once only now and then.
            let opcode = match other {
                Op::ResetAll if rng.random_bool(0.97) => 0x77,
                other => other.code(),
            };
            Command { opcode, token, object, ..Command::default() }.to_bytes()
        }
    };
    let mut bytes = bytes.expect("fields that fit");
    if rng.random_bool(0.02) {
        // What is reserved in most: of numbers, each kind of card has its own most.
        let bit = if rng.random() { rng.random_range(8..16) } else { rng.random_range(448..512) };
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    bytes
}

/// Entries of both rings, as a power of two.
const LOG2: u32 = 6;

/// A card's command queue, by registers and rings alone.
pub struct Queue<B> {
    pub bus: B,
    commands: DmaBuffer,
    completions: DmaBuffer,
    index: u32,
}

impl<B: Bus> Queue<B> {
    /// Resets the card and enables its command queue.
    pub fn new(mut bus: B) -> Self {
        let at = |register: &Register| csr::BLOCK.address(register);
        let reset = 1 << csr::CONTROL.field("reset").unwrap().offset;
        bus.csr_write32(at(&csr::CONTROL), reset).unwrap();
        while bus.csr_read32(at(&csr::CONTROL)).unwrap() & reset != 0
            || bus.csr_read32(at(&csr::STATUS)).unwrap() & 1 == 0
        {
            bus.progress().unwrap();
        }
        let (commands, completions) =
            (bus.dma_alloc(4096, 4096).unwrap(), bus.dma_alloc(4096, 4096).unwrap());
        for (register, value) in [
            (csr::CMDQ_BASE_LO, commands.bus_address() as u32),
            (csr::CMDQ_BASE_HI, (commands.bus_address() >> 32) as u32),
            (csr::CMDQ_LOG2, LOG2),
            (csr::COMPL_BASE_LO, completions.bus_address() as u32),
            (csr::COMPL_BASE_HI, (completions.bus_address() >> 32) as u32),
            (csr::COMPL_LOG2, LOG2),
            (csr::CONTROL, 1),
        ] {
            bus.csr_write32(at(&register), value).unwrap();
        }
        Self { bus, commands, completions, index: 0 }
    }

    /// Gives commands by one write of the register, each for the next slot of the ring, and does not wait.
    pub fn post(&mut self, all: &[[u8; command::BYTES]]) {
        for bytes in all {
            let slot = (self.index & ((1 << LOG2) - 1)) as usize;
            self.index += 1;
            self.commands.memory().write(slot * command::BYTES, bytes);
        }
        self.ring();
    }

    /// Writes the register again.
    pub fn ring(&mut self) {
        self.bus.csr_write32(csr::BLOCK.address(&csr::CMDQ_PRODUCER), self.index & 0xffff).unwrap();
    }

    /// Completions that are there, from the first slot on, in a ring that has gone round once at most.
    pub fn completed(&self) -> Vec<CommandCompletion> {
        let entry = |slot: usize| {
            let mut entry = [0; command_completion::BYTES];
            self.completions.memory().read(slot * entry.len(), &mut entry);
            CommandCompletion::parse(&entry).unwrap()
        };
        (0..1 << LOG2).map(entry).filter(|entry| entry.phase).collect()
    }

    /// Gives a command and waits for its completion.
    pub fn give(&mut self, bytes: &[u8; command::BYTES]) -> CommandCompletion {
        let slot = (self.index & ((1 << LOG2) - 1)) as usize;
        let phase = self.index >> LOG2 & 1 == 0;
        self.index += 1;
        self.commands.memory().write(slot * command::BYTES, bytes);
        let producer = csr::BLOCK.address(&csr::CMDQ_PRODUCER);
        self.bus.csr_write32(producer, self.index & 0xffff).unwrap();
        for _ in 0..100_000 {
            let mut entry = [0; command_completion::BYTES];
            self.completions.memory().read(slot * entry.len(), &mut entry);
            let completion = CommandCompletion::parse(&entry).unwrap();
            if completion.phase == phase {
                return completion;
            }
            self.bus.progress().unwrap();
        }
        panic!("no completion");
    }
}
