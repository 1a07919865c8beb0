// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an IOMMU is for: two cards in one program, which takes memory from them that they were told of. Nothing else is touched, and all goes on.
//!
//! ```text
//! cargo run -p ferrowire-sim -- up -v
//! cargo run -p ferrowire --example iommu -- sim:ferrowire0.sock sim:ferrowire1.sock
//! ```
//!
//! A driver cannot do that by itself: it keeps what a card may reach for as long as the card knows of it. So the program has a [`Bus`] of its own between the
//! driver and the card, by which it takes mappings back behind the driver's back.

pub mod common;

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::Result;
use ferrowire::spec::queue::cqe::LocalCause;
use ferrowire::sys::MappedBar;
use ferrowire::*;

/// Bytes of the large regions: many pages, and not a whole number.
const LARGE: usize = (16 << 20) + 100;
/// Bytes of a message.
const BYTES: usize = 10_000;
/// Longest wait for a completion.
const PATIENCE: Duration = Duration::from_secs(60);

/// Of a bus.
type OnBus<T> = std::result::Result<T, BusError>;

/// A bus that the program keeps an end of, to take mappings back.
#[derive(Clone)]
struct Forgetful(Arc<Mutex<Inner>>);

struct Inner {
    bus: Box<dyn Bus>,
    /// What was mapped last.
    last: Option<DmaMapping>,
    /// What the driver believes to be mapped.
    forgotten: Vec<u64>,
}

impl Forgetful {
    fn of(bus: Box<dyn Bus>) -> Self {
        Self(Arc::new(Mutex::new(Inner { bus, last: None, forgotten: Vec::new() })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a mapping back. Its addresses are free from here on: the next mapping may have them.
    fn forget(&self, mapping: DmaMapping) -> OnBus<()> {
        let mut inner = self.inner();
        inner.forgotten.push(mapping.id);
        inner.bus.dma_unmap(mapping)
    }
}

impl Bus for Forgetful {
    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> OnBus<DmaMapping> {
        let mut inner = self.inner();
        let mapping = inner.bus.dma_map(memory, page_shift)?;
        inner.last = Some(mapping.clone());
        Ok(mapping)
    }
    fn dma_unmap(&mut self, mapping: DmaMapping) -> OnBus<()> {
        let mut inner = self.inner();
        match inner.forgotten.iter().position(|id| *id == mapping.id) {
            Some(at) => {
                inner.forgotten.remove(at);
                Ok(())
            }
            None => inner.bus.dma_unmap(mapping),
        }
    }
    // All else is the bus's.
    fn csr_read32(&mut self, offset: u32) -> OnBus<u32> {
        self.inner().bus.csr_read32(offset)
    }
    fn csr_write32(&mut self, offset: u32, value: u32) -> OnBus<()> {
        self.inner().bus.csr_write32(offset, value)
    }
    fn doorbell(&mut self, offset: u32, value: u64) -> OnBus<()> {
        self.inner().bus.doorbell(offset, value)
    }
    fn mapped(&mut self) -> Option<MappedBar> {
        self.inner().bus.mapped()
    }
    fn dma_alloc(&mut self, bytes: usize, align: usize) -> OnBus<DmaBuffer> {
        self.inner().bus.dma_alloc(bytes, align)
    }
    fn dma_free(&mut self, buffer: DmaBuffer) -> OnBus<()> {
        self.inner().bus.dma_free(buffer)
    }
    fn host_alloc(&mut self, bytes: usize, align: usize) -> OnBus<HostMemory> {
        self.inner().bus.host_alloc(bytes, align)
    }
    fn interrupt(&mut self, vector: u16) -> OnBus<Option<OwnedFd>> {
        self.inner().bus.interrupt(vector)
    }
    fn progress(&mut self) -> OnBus<()> {
        self.inner().bus.progress()
    }
}

/// A card and what the program has of it.
struct Node {
    number: u8,
    bus: Forgetful,
    context: Context,
    pd: ProtectionDomain,
    cq: CompletionQueue,
}

/// Memory that a card is to lose.
struct Lost {
    bus: Forgetful,
    region: MemoryRegion,
    mapping: DmaMapping,
}

impl Node {
    fn open(device: &str, number: u8) -> Result<Self> {
        let bus = Forgetful::of(match device.strip_prefix("sim:") {
            Some(socket) => Box::new(VfioUserBus::connect(socket)?),
            None => Box::new(VfioBus::open(device)?),
        });
        let context = Context::open(bus.clone())?;
        context.add_gid([10, 0, 0, number].into(), None)?;
        let (pd, cq) = (context.alloc_pd()?, context.create_cq(16)?);
        Ok(Self { number, bus, context, pd, cq })
    }

    /// Memory of so many bytes, all of them `byte`.
    fn region(&self, bytes: usize, byte: u8) -> Result<MemoryRegion> {
        let memory = self.context.alloc(bytes, 4096)?;
        memory.fill(0, bytes, byte);
        let all = AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
        Ok(self.pd.register(&memory, all, self.context.capabilities().page_size(bytes))?)
    }

    /// A message's, to be lost.
    fn to_be_lost(&self, byte: u8) -> Result<Lost> {
        let region = self.region(BYTES, byte)?;
        let mapping = self.bus.inner().last.take().ok_or("the memory was not mapped")?;
        Ok(Lost { bus: self.bus.clone(), region, mapping })
    }

    fn create_qp(&self) -> Result<Qp<Reset>> {
        Ok(self.pd.create_qp(&QpInitAttr::rc(&self.cq, &self.cq))?)
    }

    /// Connects a queue pair with that of another card.
    fn connect(&self, qp: Qp<Reset>, peer: &Node, peer_qpn: u32) -> Result<QueuePair> {
        let (own, other) = ([10, 0, 0, self.number].into(), [10, 0, 0, peer.number].into());
        let av = AddressVector::new(self.context.mac(), own, peer.context.mac(), other);
        common::bring_up(qp, av, peer_qpn, [Psn::new(7); 2])
    }

    /// The next completion.
    fn completion(&mut self) -> Result<Completion> {
        let end = Instant::now() + PATIENCE;
        let mut done = [Completion::default(); 1];
        while self.cq.poll(&mut done)? == 0 {
            if Instant::now() > end {
                return Err(format!("no completion in {} s", PATIENCE.as_secs()).into());
            }
            std::thread::yield_now();
        }
        Ok(done[0])
    }
}

/// Two cards, of which the first one asks.
struct Two {
    a: Node,
    b: Node,
}

impl Two {
    /// Carries out a request over queue pairs of its own, for those end with an error. What is to be lost is lost just before: nothing is mapped behind that, which
    /// could get its addresses.
    fn ask(&mut self, request: &SendWr, lost: Option<&Lost>) -> Result<Completion> {
        let (a, b) = (self.a.create_qp()?, self.b.create_qp()?);
        let (an, bn) = (a.number(), b.number());
        let (mut a, _b) = (self.a.connect(a, &self.b, bn)?, self.b.connect(b, &self.a, an)?);
        if let Some(Lost { bus, mapping, .. }) = lost {
            bus.forget(mapping.clone())?;
        }
        let mut batch = a.start_post_send();
        batch.post(request)?;
        batch.ring()?;
        self.a.completion()
    }

    /// Writes from one region to another of the other card, reads back to a third, and compares.
    fn carry(&mut self, from: &MemoryRegion, to: &MemoryRegion, at: usize) -> Result<()> {
        let data: Vec<u8> = (0..BYTES).map(|i| ((i + at) * 7 % 251) as u8).collect();
        from.memory().write(at, &data);
        let (back, there) = (self.a.region(BYTES, 0)?, to.remote(at));
        let (out, home) = ([from.sge(at, BYTES as u32)], [back.sge(0, BYTES as u32)]);
        common::good(self.ask(&SendWr::write(1, &out, there).signaled(), None)?)?;
        common::good(self.ask(&SendWr::read(2, &home, there).signaled(), None)?)?;
        for (what, memory, at) in [("there", to.memory(), at), ("back", back.memory(), 0)] {
            let mut bytes = vec![0; BYTES];
            memory.read(at, &mut bytes);
            if bytes != data {
                return Err(format!("what came {what} is not what was sent").into());
            }
        }
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    common::start("CARD CARD", run)
}

/// Does all of it, and says what happened.
pub fn run(args: &[String]) -> Result<String> {
    let [a, b] = args else { return Err("give two cards on one wire: sim:SOCKET or PCI addresses".into()) };
    let mut two = Two { a: Node::open(a, 1)?, b: Node::open(b, 2)? };
    let mut out = Vec::new();

    // Memory of many pages, at its beginning, in its middle and at its end.
    let (from, to) = (two.a.region(LARGE, 0)?, two.b.region(LARGE, 0)?);
    for at in [0, LARGE / 2, LARGE - BYTES] {
        two.carry(&from, &to, at)?;
    }
    out.push(format!("{LARGE} bytes: reached from end to end"));

    // The card asks for what it may not read: the request ends with that cause, and nothing is sent.
    let (lost, target) = (two.a.to_be_lost(1)?, two.b.region(BYTES, 2)?);
    let sge = [lost.region.sge(0, BYTES as u32)];
    let done = two.ask(&SendWr::write(3, &sge, target.remote(0)).signaled(), Some(&lost))?;
    let said = format!("sending what is not mapped: {}, cause {:#04x}", done.status(), done.syndrome());
    if (done.status().known(), done.syndrome()) != (Some(WcStatus::LocQpOpErr), LocalCause::Dma.code()) {
        return Err(said.into());
    }
    out.push(said);
    untouched(&target, 2)?;

    // The peer asks for what the card may not read.
    let (lost, own) = (two.b.to_be_lost(3)?, two.a.region(BYTES, 4)?);
    let sge = [own.sge(0, BYTES as u32)];
    let done = two.ask(&SendWr::read(4, &sge, lost.region.remote(0)).signaled(), Some(&lost))?;
    let said = format!("reading what is not mapped: {}", done.status());
    if done.status().known() != Some(WcStatus::RemOpErr) {
        return Err(said.into());
    }
    out.push(said);
    untouched(&own, 4)?;

    // A write on PCI Express is not answered, so the card does not know that it went nowhere. The memory does.
    let lost = two.b.to_be_lost(5)?;
    let done = two.ask(&SendWr::write(5, &sge, lost.region.remote(0)).signaled(), Some(&lost))?;
    out.push(format!("writing to what is not mapped: {}", done.status()));
    untouched(&lost.region, 5)?;

    // And all goes on.
    two.carry(&from, &to, 12_345)?;
    out.push("afterwards: all as before".into());
    Ok(out.join("\n"))
}

/// Nothing was written there.
fn untouched(region: &MemoryRegion, byte: u8) -> Result<()> {
    let mut bytes = vec![0; region.memory().len()];
    region.memory().read(0, &mut bytes);
    match bytes.iter().position(|found| *found != byte) {
        None => Ok(()),
        Some(at) => Err(format!("byte {at} was written: {:#x} in the place of {byte:#x}", bytes[at]).into()),
    }
}
