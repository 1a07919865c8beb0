// SPDX-License-Identifier: MIT OR Apache-2.0
//! A card in plain Rust, behind a [`Bus`]: it takes commands and doorbells as the tables say, and carries out what is posted
//! between queue pairs of its own ([`work`]). It moves only in `progress`.
#![allow(dead_code)]

pub mod mapped;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ferrowire::spec::csr::{capabilities as cap, command_queue as cmdq, identity};
use ferrowire::spec::qp_state::{self, AttributeBit, Attributes, TransitionError};
use ferrowire::spec::queue::command::{
    self, create_cq, create_eq, create_qp, modify_qp, reg_mr, resize_cq, set_av, Command,
};
use ferrowire::spec::queue::command_completion::{qp_summary, CommandCompletion};
use ferrowire::spec::queue::cqe::{self, Cqe, LocalCause};
use ferrowire::spec::queue::doorbell;
use ferrowire::spec::queue::event;
use ferrowire::spec::{Register, LAYOUT_HASH};
use ferrowire::*;

use CommandAttribute as A;
use CommandStatus as S;

pub struct Region {
    pub pd: u32,
    pub tag: u8,
    pub access: u8,
    pub shift: u8,
    pub va: u64,
    pub length: u64,
    pub pages: Vec<u64>,
    pub mtt: std::ops::Range<u32>,
}

pub struct Queue {
    pub base: u64,
    pub log2: u8,
    pub producer: u32,
    pub consumer: u32,
    pub page: u16,
    pub doorbells: usize,
    /// Of a completion queue: its event queue, whether it is armed for any and for a solicited entry, whether it was overrun.
    pub eqn: u8,
    pub armed: (bool, bool),
    pub overrun: bool,
}

impl Queue {
    fn new(base: u64, log2: u8, page: u16, eqn: u8) -> Self {
        let (producer, consumer, doorbells) = (0, 0, 0);
        Self { base, log2, producer, consumer, page, doorbells, eqn, armed: (false, false), overrun: false }
    }

    fn is_full(&self) -> bool {
        self.producer.wrapping_sub(self.consumer) >> self.log2 != 0
    }

    /// Where the next entry of `bytes` goes, and its phase.
    fn next(&mut self, bytes: usize) -> (u64, bool) {
        let index = self.producer;
        self.producer = index.wrapping_add(1);
        let slot = u64::from(index & ((1 << self.log2) - 1));
        (self.base + slot * bytes as u64, index >> self.log2 & 1 == 0)
    }
}

pub struct Pair {
    pub create: create_qp::CreateQp,
    pub modify: modify_qp::ModifyQp,
    pub av: Option<set_av::SetAv>,
    pub state: QpState,
    /// Sends carried out, and told of.
    pub head: u16,
    pub tail: u16,
    pub doorbells: usize,
    /// Doorbells whose newest WQE was pushed, each with its place.
    pub pushed: Vec<u8>,
    /// Receives used, and told of.
    pub recv_head: u16,
    pub recv_tail: u16,
    pub recv_doorbells: usize,
}

type Refusal = (S, A, u64);

/// The card's inside.
pub struct Card {
    pub map: MemoryMap,
    pub registers: BTreeMap<u32, u32>,
    pub log: Vec<(CommandOpcode, u32)>,
    /// Answers that the next commands get, whatever they are.
    pub refuse: VecDeque<(u8, u8, u64)>,
    /// Commands are taken, and never answered.
    pub deaf: bool,
    /// Commands are taken when so many are in the ring.
    pub together: u16,
    /// How often memory was mapped.
    pub maps: usize,
    /// WQEs a step, all queue pairs together.
    pub speed: usize,
    pub pds: BTreeSet<u32>,
    pub regions: BTreeMap<u32, Region>,
    pub cqs: BTreeMap<u32, Queue>,
    pub eqs: BTreeMap<u8, Queue>,
    /// The event queue of what belongs to no completion queue.
    pub asynchronous: u8,
    /// An overrun is what the test is about, and no fault of the driver.
    pub may_overrun: bool,
    pub qps: BTreeMap<u32, Pair>,
    pub page_lists: Vec<Vec<u64>>,
    pub resets: usize,
    clock: Duration,
    bells: VecDeque<(u32, u64)>,
    /// The words that were pushed last, and where to.
    words: VecDeque<(u32, u64)>,
    command_consumer: u16,
    mappings: BTreeMap<u64, Vec<u64>>,
    next_mapping: u64,
}

/// A handle on a card; as a [`Bus`] it is the driver's.
#[derive(Clone)]
pub struct Mock(Arc<Mutex<Card>>);

fn at(block: &ferrowire::spec::Block, register: &Register) -> u32 {
    block.address(register)
}

fn put(register: &Register, name: &str, value: u32) -> u32 {
    value << register.field(name).unwrap().offset
}

impl Default for Mock {
    fn default() -> Self {
        Self::new()
    }
}

impl Mock {
    pub fn new() -> Self {
        let mut r = BTreeMap::new();
        for block in ferrowire::spec::ALL_BLOCKS {
            for register in block.registers.iter().filter(|r| r.bytes == 4) {
                r.insert(at(block, register), register.reset() as u32);
            }
        }
        r.insert(at(&identity::BLOCK, &identity::LAYOUT_HASH_LO), LAYOUT_HASH as u32);
        r.insert(at(&identity::BLOCK, &identity::LAYOUT_HASH_HI), (LAYOUT_HASH >> 32) as u32);
        let sizes = [
            (cap::MAX_QP, 16),
            (cap::MAX_CQ, 4),
            (cap::MAX_EQ, 4),
            (cap::MAX_MR, 8),
            (cap::MTT_ENTRIES, 64),
            (cap::MAX_PD, 4),
            (cap::DOORBELL_PAGES, 4),
            (
                cap::READ_LIMITS,
                put(&cap::READ_LIMITS, "max_rd_atomic", 16)
                    | put(&cap::READ_LIMITS, "max_dest_rd_atomic", 16),
            ),
            (
                cap::FEATURES,
                ["rc", "atomics", "memory_windows", "congestion", "wqe_push"]
                    .iter()
                    .fold(0, |all, name| all | put(&cap::FEATURES, name, 1)),
            ),
        ];
        for (register, value) in sizes {
            r.insert(at(&cap::BLOCK, &register), value);
        }
        let wqe = r.get_mut(&at(&cap::BLOCK, &cap::WQE_LIMITS)).unwrap();
        *wqe |= put(&cap::WQE_LIMITS, "max_send_sge", 6) | put(&cap::WQE_LIMITS, "max_inline", 200);
        Self(Arc::new(Mutex::new(Card {
            map: MemoryMap::new(),
            registers: r,
            log: Vec::new(),
            refuse: VecDeque::new(),
            deaf: false,
            together: 1,
            maps: 0,
            speed: 3,
            pds: BTreeSet::new(),
            regions: BTreeMap::new(),
            cqs: BTreeMap::new(),
            eqs: BTreeMap::new(),
            asynchronous: 0,
            may_overrun: false,
            qps: BTreeMap::new(),
            page_lists: Vec::new(),
            resets: 0,
            clock: Duration::ZERO,
            bells: VecDeque::with_capacity(1024),
            words: VecDeque::with_capacity(16),
            command_consumer: 0,
            mappings: BTreeMap::new(),
            next_mapping: 1,
        })))
    }

    /// Without a feature.
    pub fn without(self, feature: &str) -> Self {
        *self.card().registers.get_mut(&at(&cap::BLOCK, &cap::FEATURES)).unwrap() &=
            !put(&cap::FEATURES, feature, 1);
        self
    }

    /// With one that nothing behind it carries out.
    pub fn with(self, feature: &str) -> Self {
        *self.card().registers.get_mut(&at(&cap::BLOCK, &cap::FEATURES)).unwrap() |=
            put(&cap::FEATURES, feature, 1);
        self
    }

    pub fn card(&self) -> MutexGuard<'_, Card> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn step(&self) {
        self.card().step();
    }

    /// Opens it with a seed.
    pub fn open(&self) -> Context {
        Self::open_over(self.clone())
    }

    /// The same by another way to it.
    pub fn open_over(bus: impl Bus + 'static) -> Context {
        let options = ContextOptions { seed: Some(7), doorbell_page: 2, ..ContextOptions::default() };
        let context = Context::open_with(bus, options).unwrap();
        context.set_mac([2, 0, 0, 0, 0, 1]).unwrap();
        context.add_gid([10, 0, 0, 1].into(), None).unwrap();
        context
    }
}

impl Bus for Mock {
    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
        self.card().registers.get(&offset).copied().ok_or(BusError::BadOffset { offset })
    }

    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        let mut card = self.card();
        *card.registers.get_mut(&offset).ok_or(BusError::BadOffset { offset })? = value;
        if offset == at(&cmdq::BLOCK, &cmdq::CONTROL) && value & put(&cmdq::CONTROL, "enable", 1) != 0 {
            card.command_consumer = 0;
        }
        Ok(())
    }

    fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
        self.card().bells.push_back((offset, value));
        Ok(())
    }

    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        let mut card = self.card();
        card.maps += 1;
        card.map.alloc(bytes, align)
    }

    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
        self.card().map.remove(buffer.bus_address()).map(|_| ())
    }

    /// Scatters the pages: the last one gets the lowest address.
    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        let mut card = self.card();
        card.maps += 1;
        let page = 1u64 << page_shift;
        let (start, end) = (memory.address(), memory.address() + memory.len() as u64);
        let mut starts = vec![start];
        starts.extend((start / page + 1..).map(|n| n * page).take_while(|at| *at < end));
        let mut pieces = Vec::new();
        for from in starts.iter().rev() {
            let to = ((from / page + 1) * page).min(end);
            let piece = memory.slice((from - start) as usize, (to - from) as usize);
            pieces.push(card.map.map(piece, page)?);
        }
        pieces.reverse();
        let id = card.next_mapping;
        card.next_mapping += 1;
        let pages = pieces.iter().map(|iova| iova & !(page - 1)).collect();
        card.mappings.insert(id, pieces);
        Ok(DmaMapping { id, pages })
    }

    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
        let mut card = self.card();
        let none = BusError::Map { iova: mapping.id, bytes: 0, why: "no such mapping" };
        for iova in card.mappings.remove(&mapping.id).ok_or(none)? {
            card.map.remove(iova)?;
        }
        Ok(())
    }

    fn needs_progress(&self) -> bool {
        true
    }

    fn progress(&mut self) -> Result<(), BusError> {
        self.step();
        Ok(())
    }

    fn now(&self) -> Duration {
        self.card().clock
    }
}

impl Card {
    fn register(&mut self, register: &Register) -> &mut u32 {
        self.registers.get_mut(&at(&cmdq::BLOCK, register)).unwrap()
    }

    fn step(&mut self) {
        self.clock += Duration::from_millis(1);
        if *self.register(&cmdq::CONTROL) & put(&cmdq::CONTROL, "reset", 1) != 0 {
            (self.pds, self.regions) = Default::default();
            (self.cqs, self.qps, self.eqs) = Default::default();
            self.bells.clear();
            self.resets += 1;
            *self.register(&cmdq::CONTROL) = 0;
            *self.register(&cmdq::STATUS) = put(&cmdq::STATUS, "ready", 1);
        }
        // The driver waits for each command, so what it rang came before.
        while let Some((offset, value)) = self.bells.pop_front() {
            self.ring(offset, value);
        }
        if *self.register(&cmdq::CONTROL) & put(&cmdq::CONTROL, "enable", 1) != 0 {
            let there = (*self.register(&cmdq::CMDQ_PRODUCER) as u16).wrapping_sub(self.command_consumer);
            if there >= self.together {
                (0..there).for_each(|_| self.take_command());
            }
        }
        let mut left = self.speed;
        let qpns: Vec<u32> = self.qps.keys().copied().collect();
        for qpn in qpns {
            while left > 0 && (self.send(qpn) || self.flush_receive(qpn)) {
                left -= 1;
            }
        }
    }

    fn take_command(&mut self) {
        let base = u64::from(*self.register(&cmdq::CMDQ_BASE_LO))
            | u64::from(*self.register(&cmdq::CMDQ_BASE_HI)) << 32;
        let compl = u64::from(*self.register(&cmdq::COMPL_BASE_LO))
            | u64::from(*self.register(&cmdq::COMPL_BASE_HI)) << 32;
        let log2 = *self.register(&cmdq::CMDQ_LOG2);
        let index = u64::from(self.command_consumer);
        self.command_consumer = self.command_consumer.wrapping_add(1);
        let mut bytes = [0; command::BYTES];
        self.map.read(base + (index & ((1 << log2) - 1)) * 64, &mut bytes).unwrap();
        let head = Command::parse(&bytes).unwrap();
        let opcode = CommandOpcode::from_code(head.opcode).unwrap();
        self.log.push((opcode, head.object));
        if self.deaf {
            return;
        }
        let (status, attribute, value) = match self.refuse.pop_front() {
            Some(answer) => answer,
            None => match self.execute(opcode, head.object, &bytes) {
                Ok(value) => (S::Ok.code(), 0, value),
                Err((status, attribute, value)) => (status.code(), attribute.code(), value),
            },
        };
        let log2 = *self.register(&cmdq::COMPL_LOG2);
        let entry = CommandCompletion {
            token: head.token,
            opcode: head.opcode,
            status,
            attribute,
            value,
            phase: index >> log2 & 1 == 0,
            ..CommandCompletion::default()
        };
        self.map.write(compl + (index & ((1 << log2) - 1)) * 16, &entry.to_bytes().unwrap()).unwrap();
    }

    fn execute(&mut self, opcode: CommandOpcode, object: u32, bytes: &[u8]) -> Result<u64, Refusal> {
        let bad = |status, attribute| Err((status, attribute, 0));
        let need = |there: bool| if there { Ok(()) } else { Err((S::BadObject, A::Object, 0)) };
        match opcode {
            CommandOpcode::AllocPd => need(object != 0 && self.pds.insert(object))?,
            CommandOpcode::FreePd => {
                let used = self.regions.values().any(|r| r.pd == object)
                    || self.qps.values().any(|q| q.create.pd == object);
                if used {
                    return bad(S::Busy, A::Object);
                }
                need(self.pds.remove(&object))?;
            }
            CommandOpcode::CreateCq => {
                let c = create_cq::CreateCq::parse(bytes).unwrap();
                if c.base % 4096 != 0 {
                    return bad(S::BadAddress, A::Base);
                }
                need(!self.cqs.contains_key(&object))?;
                if c.eqn != 0 && !self.eqs.contains_key(&c.eqn) {
                    return bad(S::BadAttribute, A::Eqn);
                }
                let queue = Queue::new(c.base, c.log2_entries, c.doorbell_page, c.eqn);
                self.cqs.insert(object, queue);
            }
            CommandOpcode::ResizeCq => {
                let c = resize_cq::ResizeCq::parse(bytes).unwrap();
                need(self.cqs.contains_key(&object))?;
                let cq = self.cqs.get_mut(&object).unwrap();
                (cq.base, cq.log2, cq.consumer) = (c.base, c.log2_entries, 0);
                return Ok(u64::from(std::mem::take(&mut cq.producer)));
            }
            CommandOpcode::CreateEq => {
                let c = create_eq::CreateEq::parse(bytes).unwrap();
                if c.base % 4096 != 0 {
                    return bad(S::BadAddress, A::Base);
                }
                let eqn = object as u8;
                need(eqn != 0 && !self.eqs.contains_key(&eqn))?;
                self.eqs.insert(eqn, Queue::new(c.base, c.log2_entries, c.doorbell_page, 0));
                if c.asynchronous {
                    self.asynchronous = eqn;
                }
            }
            CommandOpcode::DestroyEq => {
                if self.cqs.values().any(|cq| u32::from(cq.eqn) == object) {
                    return bad(S::Busy, A::Object);
                }
                need(self.eqs.remove(&(object as u8)).is_some())?;
            }
            CommandOpcode::DestroyCq => {
                if self.qps.values().any(|q| q.create.send_cqn == object || q.create.recv_cqn == object) {
                    return bad(S::Busy, A::Object);
                }
                need(self.cqs.remove(&object).is_some())?;
            }
            CommandOpcode::RegMr => {
                let c = reg_mr::RegMr::parse(bytes).unwrap();
                need(object >> 8 != 0 && !self.regions.contains_key(&(object >> 8)))?;
                if !self.pds.contains(&c.pd) {
                    return bad(S::BadAttribute, A::Pd);
                }
                let mtt = c.mtt_index..c.mtt_index + c.page_count;
                let taken = self.regions.values().any(|r| r.mtt.start < mtt.end && mtt.start < r.mtt.end);
                if taken || mtt.end > self.registers[&at(&cap::BLOCK, &cap::MTT_ENTRIES)] {
                    return bad(S::BadAttribute, A::MttIndex);
                }
                let page = 1u64 << c.page_shift;
                if u64::from(c.page_count) != ((c.va & (page - 1)) + c.length).div_ceil(page) {
                    return bad(S::BadSize, A::PageCount);
                }
                let mut list = vec![0; c.page_count as usize * 8];
                self.map.read(c.page_list_addr, &mut list).unwrap();
                let pages: Vec<u64> =
                    list.chunks(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
                self.page_lists.push(pages.clone());
                let region = Region {
                    pd: c.pd,
                    tag: object as u8,
                    access: c.access,
                    shift: c.page_shift,
                    va: c.va,
                    length: c.length,
                    pages,
                    mtt,
                };
                self.regions.insert(object >> 8, region);
            }
            CommandOpcode::DeregMr => match self.regions.get(&(object >> 8)) {
                Some(region) if region.tag == object as u8 => {
                    self.regions.remove(&(object >> 8));
                }
                _ => return bad(S::BadKey, A::Object),
            },
            // A window is no more than its key: nothing can be bound here.
            CommandOpcode::AllocMw => need(object >> 8 != 0 && !self.regions.contains_key(&(object >> 8)))?,
            CommandOpcode::FreeMw => {}
            CommandOpcode::CreateQp => {
                let create = create_qp::CreateQp::parse(bytes).unwrap();
                need(object > 1 && !self.qps.contains_key(&object))?;
                if !self.pds.contains(&create.pd) {
                    return bad(S::BadAttribute, A::Pd);
                }
                if !self.cqs.contains_key(&create.send_cqn) {
                    return bad(S::BadAttribute, A::SendCqn);
                }
                if create.sq_base % 4096 != 0 || create.rq_base % 4096 != 0 {
                    return bad(S::BadAddress, A::SqBase);
                }
                let pair = Pair {
                    create,
                    modify: Default::default(),
                    av: None,
                    state: QpState::Reset,
                    head: 0,
                    tail: 0,
                    doorbells: 0,
                    pushed: Vec::new(),
                    recv_head: 0,
                    recv_tail: 0,
                    recv_doorbells: 0,
                };
                self.qps.insert(object, pair);
            }
            CommandOpcode::SetAv => {
                let qp = self.qps.get_mut(&object).ok_or((S::BadObject, A::Object, 0))?;
                qp.av = Some(set_av::SetAv::parse(bytes).unwrap());
            }
            CommandOpcode::ModifyQp => {
                let modify = modify_qp::ModifyQp::parse(bytes).unwrap();
                let qp = self.qps.get_mut(&object).ok_or((S::BadObject, A::Object, 0))?;
                let to = QpState::from_code(modify.state).ok_or((S::BadAttribute, A::State, 0))?;
                let mask = Attributes(modify.attr_mask);
                let name = |bits: Attributes| A::from_code(bits.lowest().unwrap().code() + 1).unwrap();
                match qp_state::check(Service::Rc, qp.state, to, mask) {
                    Ok(_) => {}
                    Err(TransitionError::Illegal { .. }) => return bad(S::BadTransition, A::State),
                    Err(TransitionError::Missing(bits) | TransitionError::NotAllowed(bits)) => {
                        return bad(S::BadAttribute, name(bits));
                    }
                }
                if mask.contains(AttributeBit::Av) && qp.av.is_none() {
                    return bad(S::BadAttribute, A::Av);
                }
                if mask.contains(AttributeBit::Access) {
                    qp.modify.access = modify.access;
                }
                if mask.contains(AttributeBit::DestQpn) {
                    (qp.modify.dest_qpn, qp.modify.rq_psn) = (modify.dest_qpn, modify.rq_psn);
                    qp.modify.path_mtu = modify.path_mtu;
                }
                if mask.contains(AttributeBit::SqPsn) {
                    qp.modify.sq_psn = modify.sq_psn;
                }
                if to == QpState::Reset {
                    (qp.head, qp.tail, qp.recv_head, qp.recv_tail) = (0, 0, 0, 0);
                }
                qp.state = to;
            }
            CommandOpcode::QueryQp => {
                let qp = self.qps.get(&object).ok_or((S::BadObject, A::Object, 0))?;
                let summary = qp_summary::QpSummary {
                    state: qp.state.code(),
                    sq_psn: qp.modify.sq_psn,
                    rq_psn: qp.modify.rq_psn,
                    ..Default::default()
                };
                return Ok(u64::from_le_bytes(summary.to_bytes().unwrap()));
            }
            CommandOpcode::DestroyQp => need(self.qps.remove(&object).is_some())?,
            _ => return bad(S::BadOpcode, A::Opcode),
        }
        Ok(0)
    }

    fn ring(&mut self, offset: u32, value: u64) {
        let bytes = value.to_le_bytes();
        let page = ((offset - doorbell::BASE) / doorbell::PAGE_BYTES) as u16;
        match offset % doorbell::PAGE_BYTES {
            doorbell::SQ => {
                let bell = doorbell::sq::SqDoorbell::parse(&bytes).unwrap();
                if bell.pushed {
                    self.check_pushed(offset, bell);
                }
                let qp = self.qps.get_mut(&bell.qpn).expect("doorbell of a queue pair that is there");
                assert_eq!(page, qp.create.doorbell_page);
                assert!(bell.producer.wrapping_sub(qp.head) <= 1 << qp.create.sq_log2, "send queue overrun");
                qp.tail = bell.producer;
                qp.doorbells += 1;
                if bell.pushed {
                    qp.pushed.push(bell.push_slot);
                }
            }
            doorbell::RQ => {
                let bell = doorbell::rq::RqDoorbell::parse(&bytes).unwrap();
                let qp = self.qps.get_mut(&bell.qpn).expect("doorbell of a queue pair that is there");
                assert_eq!((page, bell.srq), (qp.create.doorbell_page, false));
                assert_ne!(qp.state, QpState::Reset);
                let used = bell.producer.wrapping_sub(qp.recv_head);
                assert!(used <= 1 << qp.create.rq_log2, "receive queue overrun");
                qp.recv_tail = bell.producer;
                qp.recv_doorbells += 1;
            }
            doorbell::CQ => {
                let bell = doorbell::cq::CqDoorbell::parse(&bytes).unwrap();
                let cq = self.cqs.get_mut(&bell.cqn).expect("doorbell of a completion queue that is there");
                assert_eq!(page, cq.page);
                assert!(bell.consumer.wrapping_sub(cq.consumer) <= cq.producer.wrapping_sub(cq.consumer));
                cq.consumer = bell.consumer;
                cq.doorbells += 1;
                cq.armed = (cq.armed.0 | bell.arm_next, cq.armed.1 | bell.arm_solicited);
                // A solicited entry that is there already is not looked for: the tests arm before.
                let tells = bell.arm_next && cq.producer != cq.consumer;
                if tells {
                    self.tell_of(bell.cqn, EventKind::Completion);
                }
            }
            doorbell::EQ => {
                let bell = doorbell::eq::EqDoorbell::parse(&bytes).unwrap();
                let eq = self.eqs.get_mut(&bell.eqn).expect("doorbell of an event queue that is there");
                assert_eq!(page, eq.page);
                assert!(bell.consumer.wrapping_sub(eq.consumer) <= eq.producer.wrapping_sub(eq.consumer));
                eq.consumer = bell.consumer;
                eq.doorbells += 1;
            }
            at if at >= doorbell::PUSH => {
                self.words.push_back((offset, value));
                if self.words.len() > 8 {
                    self.words.pop_front();
                }
            }
            other => panic!("no doorbell at {other:#x}"),
        }
    }

    /// The last eight words are those of the newest WQE of the queue, in order, at the place that the doorbell names.
    fn check_pushed(&self, at: u32, bell: doorbell::sq::SqDoorbell) {
        let create = &self.qps[&bell.qpn].create;
        assert_eq!(create.sq_stride, 0, "a WQE of 64 bytes");
        let slot = u64::from(bell.producer.wrapping_sub(1)) & ((1 << create.sq_log2) - 1);
        let mut wqe = [0; 64];
        self.map.read(create.sq_base + 64 * slot, &mut wqe).unwrap();
        let page = at - doorbell::SQ;
        let first = page + doorbell::PUSH + 64 * u32::from(bell.push_slot);
        let words = wqe.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        assert!(self.words.iter().copied().eq((first..).step_by(8).zip(words)), "{:x?}", self.words);
    }

    /// The bus addresses of a range of a region, if key, domain, rights and bounds allow it.
    fn translate(
        &self,
        key: u32,
        pd: u32,
        access: u8,
        va: u64,
        bytes: u64,
    ) -> Result<Vec<(u64, usize)>, LocalCause> {
        let region = self.regions.get(&(key >> 8)).ok_or(LocalCause::KeyIndex)?;
        if region.tag != key as u8 {
            return Err(LocalCause::KeyTag);
        }
        if region.pd != pd {
            return Err(LocalCause::KeyPd);
        }
        if region.access & access != access {
            return Err(LocalCause::KeyAccess);
        }
        let end = u128::from(va) + u128::from(bytes);
        if va < region.va || end > u128::from(region.va) + u128::from(region.length) {
            return Err(LocalCause::KeyBounds);
        }
        let page = 1u64 << region.shift;
        let mut offset = va - region.va + (region.va & (page - 1));
        let (mut left, mut out) = (bytes, Vec::new());
        while left > 0 {
            let now = left.min(page - offset % page);
            out.push((region.pages[(offset / page) as usize] + offset % page, now as usize));
            offset += now;
            left -= now;
        }
        Ok(out)
    }

    pub fn complete(&mut self, cqn: u32, entry: Cqe) {
        let cq = self.cqs.get_mut(&cqn).unwrap();
        if cq.is_full() || cq.overrun {
            assert!(self.may_overrun, "completion queue overrun");
            self.qps.get_mut(&entry.qpn).unwrap().state = QpState::Err;
            if !std::mem::replace(&mut cq.overrun, true) {
                self.tell_of(cqn, EventKind::CqOverrun);
            }
            return;
        }
        let (at, phase) = cq.next(cqe::BYTES);
        let notable = entry.solicited || entry.status != 0;
        let tells = cq.armed.0 || (cq.armed.1 && notable);
        self.map.write(at, &Cqe { phase, ..entry }.to_bytes().unwrap()).unwrap();
        if tells {
            self.tell_of(cqn, EventKind::Completion);
        }
    }

    /// An event of a completion queue.
    fn tell_of(&mut self, cqn: u32, kind: EventKind) {
        let cq = self.cqs.get_mut(&cqn).unwrap();
        let eqn = if kind == EventKind::CqOverrun && cq.eqn == 0 { self.asynchronous } else { cq.eqn };
        if kind == EventKind::Completion {
            cq.armed = (false, false);
        }
        self.tell(eqn, event::Event { object: cqn, kind: kind.code(), ..Default::default() });
    }

    /// Writes an event, if its queue is there.
    pub fn tell(&mut self, eqn: u8, entry: event::Event) {
        if let Some(eq) = self.eqs.get_mut(&eqn) {
            assert!(!eq.is_full(), "the mock holds no events back");
            let (at, phase) = eq.next(event::BYTES);
            self.map.write(at, &event::Event { phase, ..entry }.to_bytes().unwrap()).unwrap();
        }
    }
}

/// An address vector from host `from` to host `to`.
pub fn av(from: u8, to: u8) -> AddressVector {
    let ip = |n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
    AddressVector::new([2, 0, 0, 0, 0, from], ip(from), [2, 0, 0, 0, 0, to], ip(to))
}

pub fn init() -> InitAttributes {
    InitAttributes::new().access(AccessFlags::REMOTE).pkey(0xffff)
}

pub fn rtr(dest_qpn: u32) -> RtrAttributes {
    RtrAttributes::new()
        .av(av(1, 2))
        .path_mtu(PathMtu::B1024)
        .dest_qpn(dest_qpn)
        .rq_psn(Psn::new(0x123456))
        .max_dest_rd_atomic(4)
        .min_rnr_timer(12)
}

pub fn rts() -> RtsAttributes {
    RtsAttributes::new().sq_psn(Psn::new(0x654321)).timeout(14).retry_cnt(7).rnr_retry(7).max_rd_atomic(4)
}

/// A card with one domain, a queue pair connected to itself, and two regions.
pub struct Bench {
    pub mock: Mock,
    pub context: Context,
    pub pd: ProtectionDomain,
    pub cq: CompletionQueue,
    pub qp: QueuePair,
    pub source: MemoryRegion,
    pub target: MemoryRegion,
}

pub const REGION_BYTES: usize = 3 * 4096;

/// Queues of so many entries, with work requests as large as the card takes.
pub fn bench(send_wr: u32, cq_entries: u32) -> Bench {
    let mock = Mock::new();
    let context = mock.open();
    bench_of(mock, context, send_wr, cq_entries)
}

/// The same of a card that is open.
pub fn bench_of(mock: Mock, context: Context, send_wr: u32, cq_entries: u32) -> Bench {
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(cq_entries).unwrap();
    let mut attr = QpInitAttr::rc(&cq, &cq);
    (attr.max_send_wr, attr.max_recv_wr) = (send_wr, 8);
    (attr.max_send_sge, attr.max_inline, attr.max_recv_sge) = (6, 200, 6);
    let qp = pd.create_qp(&attr).unwrap();
    let number = qp.number();
    let qp = qp.init(init()).unwrap().rtr(rtr(number)).unwrap().rts(rts()).unwrap();
    // Not at the beginning of a page, so that the place in the page counts.
    let memory = || context.alloc(REGION_BYTES + 4096, 4096).unwrap().slice(0x340, REGION_BYTES);
    let source = pd.register(&memory(), AccessFlags::LOCAL_READ, PageSize::Size4K).unwrap();
    let writable = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
    let target = pd.register(&memory(), writable, PageSize::Size4K).unwrap();
    Bench { mock, context, pd, cq, qp, source, target }
}

impl Bench {
    /// Polls until there are `n` completions.
    pub fn completions(&mut self, n: usize) -> Vec<Completion> {
        let mut all = Vec::new();
        let mut some = [Completion::default(); 5];
        for _ in 0..10_000 {
            let taken = self.cq.poll(&mut some).unwrap();
            all.extend_from_slice(&some[..taken]);
            if all.len() >= n {
                break;
            }
        }
        assert_eq!(all.len(), n);
        all
    }
}

pub fn bytes(memory: &HostMemory, offset: usize, n: usize) -> Vec<u8> {
    let mut out = vec![0; n];
    memory.read(offset, &mut out);
    out
}
