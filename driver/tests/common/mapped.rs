// SPDX-License-Identifier: MIT OR Apache-2.0
//! A card whose doorbells are mapped, and what it does on them: completions, written by whoever asks for them, without a lock, an
//! allocation or a system call.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use ferrowire::spec::queue::cqe::{self, Cqe};
use ferrowire::spec::queue::doorbell;
use ferrowire::sys::MappedBar;
use ferrowire::*;

use super::{init, rtr, rts, Mock};

/// Doorbell page of everything.
const PAGE: u16 = 1;

/// The card's address.
pub const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// The bus to such a card: commands are the mock's, doorbells are memory.
pub struct Mapped {
    mock: Mock,
    bar: HostMemory,
    /// While it is set, a read of a register does not come back, and says so in the other.
    hold: Arc<[AtomicBool; 2]>,
}

impl Mapped {
    /// The bus, and what the completer of a queue pair is made of.
    pub fn new() -> (Self, Doorbells) {
        let mock = Mock::new();
        let bytes = doorbell::address(PAGE + 1, 0) as usize;
        let bar = HostMemory::zeroed(bytes, 4096).unwrap();
        let doorbells = Doorbells { mock: mock.clone(), bar: bar.clone() };
        (Self { mock, bar, hold: Arc::default() }, doorbells)
    }
}

/// A card's doorbells in memory.
pub struct Doorbells {
    mock: Mock,
    bar: HostMemory,
}

impl Doorbells {
    /// What completes the work requests of a queue pair, into a completion queue, whose doorbells are on a page.
    pub fn completer(self, page: u16, qpn: u32, cqn: u32) -> Completer {
        let card = self.mock.card();
        let (base, cq_log2) = (card.cqs[&cqn].base, card.cqs[&cqn].log2);
        let cq = card.map.iter().find(|(iova, _)| *iova == base).unwrap().1.clone();
        Completer { page, bar: self.bar, cq, cq_log2, written: 0, qpn, heads: [0; 2] }
    }
}

impl Bus for Mapped {
    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
        while self.hold[0].load(Ordering::Acquire) {
            self.hold[1].store(true, Ordering::Release);
            std::thread::sleep(Duration::from_millis(1));
        }
        self.mock.csr_read32(offset)
    }
    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        self.mock.csr_write32(offset, value)
    }
    fn doorbell(&mut self, offset: u32, _: u64) -> Result<(), BusError> {
        panic!("the doorbell at {offset:#x} is mapped, and was rung through the bus")
    }
    fn mapped(&mut self) -> Option<MappedBar> {
        self.bar.as_bar()
    }
    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        self.mock.dma_alloc(bytes, align)
    }
    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
        self.mock.dma_free(buffer)
    }
    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        self.mock.dma_map(memory, page_shift)
    }
    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
        self.mock.dma_unmap(mapping)
    }
    fn progress(&mut self) -> Result<(), BusError> {
        self.mock.progress()
    }
    fn addresses(&self) -> Vec<IpAddr> {
        vec![ADDRESS]
    }
}

/// A card, opened, with a queue pair that is up.
pub struct Rig {
    pub card: Completer,
    pub qp: QueuePair,
    pub cq: CompletionQueue,
    pub region: MemoryRegion,
    pub context: Context,
    pub hold: Arc<[AtomicBool; 2]>,
}

/// The card's part of the data path: it takes what is told by doorbells for done.
pub struct Completer {
    page: u16,
    bar: HostMemory,
    cq: HostMemory,
    cq_log2: u8,
    written: u32,
    qpn: u32,
    /// Sends and receives that are completed.
    heads: [u16; 2],
}

/// So many entries in each queue.
pub fn rig(entries: u32) -> Rig {
    rig_of(entries, false)
}

/// The same with a queue pair that pushes.
pub fn pushing(entries: u32) -> Rig {
    rig_of(entries, true)
}

fn rig_of(entries: u32, push: bool) -> Rig {
    let (bus, doorbells) = Mapped::new();
    let hold = Arc::clone(&bus.hold);
    let options = ContextOptions { seed: Some(7), doorbell_page: PAGE, ..ContextOptions::default() };
    let context = Context::open_with(bus, options).unwrap();
    context.set_mac([2, 0, 0, 0, 0, 1]).unwrap();
    context.add_gid(ADDRESS, None).unwrap();
    let pd = context.alloc_pd().unwrap();
    let events = context.create_eq(16).unwrap();
    let cq = context.create_cq_with_events(entries, &events).unwrap();
    let mut attr = QpInitAttr::rc(&cq, &cq);
    (attr.max_send_wr, attr.max_recv_wr, attr.max_inline, attr.push) = (entries, entries, 16, push);
    let qp = pd.create_qp(&attr).unwrap();
    let number = qp.number();
    let qp = qp.init(init()).unwrap().rtr(rtr(number)).unwrap().rts(rts()).unwrap();
    let memory = context.alloc(4096, 4096).unwrap();
    let region = pd.register(&memory, AccessFlags::LOCAL_READ, PageSize::Size4K).unwrap();
    let card = doorbells.completer(PAGE, number, cq.number());
    Rig { card, qp, cq, region, context, hold }
}

impl Completer {
    /// The doorbell that was rung last.
    pub fn bell(&self, offset: u32) -> u64 {
        self.bar.load_word(doorbell::address(self.page, offset) as usize)
    }

    /// The WQE that was pushed last to the place that the send queue's doorbell names; `None` when that tells of none.
    pub fn pushed(&self) -> Option<[u8; 64]> {
        let bell = doorbell::sq::SqDoorbell::parse(&self.bell(doorbell::SQ).to_le_bytes()).unwrap();
        let mut wqe = [0; 64];
        let offset = doorbell::PUSH + 64 * u32::from(bell.push_slot);
        self.bar.read(doorbell::address(self.page, offset) as usize, &mut wqe);
        bell.pushed.then_some(wqe)
    }

    /// Completes all sends, or receives, that a doorbell told of, and says how many.
    pub fn complete(&mut self, receive: bool) -> usize {
        let offset = if receive { doorbell::RQ } else { doorbell::SQ };
        let bytes = self.bell(offset).to_le_bytes();
        let producer = match receive {
            true => doorbell::rq::RqDoorbell::parse(&bytes).unwrap().producer,
            false => doorbell::sq::SqDoorbell::parse(&bytes).unwrap().producer,
        };
        let head = &mut self.heads[usize::from(receive)];
        let count = producer.wrapping_sub(*head);
        let first = std::mem::replace(head, producer);
        for i in 0..count {
            let there = self.written.wrapping_sub(self.consumer());
            assert!(
                there < 1 << self.cq_log2,
                "completion queue overrun: {there} entries by the last doorbell"
            );
            let phase = self.written >> self.cq_log2 & 1 == 0;
            let wqe_index = first.wrapping_add(i);
            let entry = Cqe { qpn: self.qpn, wqe_index, receive, phase, ..Cqe::default() };
            let at = (self.written as usize & ((1 << self.cq_log2) - 1)) * cqe::BYTES;
            self.cq.write(at, &entry.to_bytes().unwrap());
            self.written = self.written.wrapping_add(1);
        }
        usize::from(count)
    }

    /// Entries of the ring of the completion queue.
    pub fn ring(&self) -> u32 {
        1 << self.cq_log2
    }

    /// Entries that the program said it has taken.
    pub fn consumer(&self) -> u32 {
        doorbell::cq::CqDoorbell::parse(&self.bell(doorbell::CQ).to_le_bytes()).unwrap().consumer
    }
}
