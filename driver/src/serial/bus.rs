// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`SerialBus`]: the driver's way to a card on a board, over a line.
//!
//! The card reaches on-board memory alone. What the driver and programs have is a copy:
//!
//! - before a register or a doorbell is written, what has changed in the copies is written to the board, so the card finds it;
//! - [`progress`](Bus::progress), which the driver calls whenever it waits or finds nothing, brings what the card has written, then does the same.
//!
//! Data are brought before they are written, for where both have written the card is believed: a program fills its memory and then tells a peer to write there.
//!
//! A completion is seen behind the data that it tells of: blocks of queues are read first and kept, then it is asked again what the card has written, then data are read and shown, then the blocks of queues.
//!
//! Every call returns when the board has answered: what was asked is done then. There are no interrupts: who waits for events polls.

use std::os::fd::RawFd;
use std::path::Path;
use std::time::Duration;

use super::copies::{Copies, Kind, PAGE};
use super::error::SerialError;
use super::frame::Request;
use super::line::{Line, Tty};
use super::link::{Answer, Hello, Link, LinkError};
use crate::bus::{Bus, BusError, DmaBuffer, DmaMapping};
use crate::random::Random;
use crate::spec::serial::{Command, BLOCK, CHECK, HEAD, WINDOW};
use crate::sys::HostMemory;

/// Bits a second, where nothing else is said: what a board has that is built without another `baud`.
pub const BAUD: u32 = 1_000_000;

/// Bytes of BAR 0 that a request can name.
const BAR_BYTES: u32 = 1 << 24;

/// The largest memory that is believed in.
const MOST_MEMORY: u64 = 1 << 30;

/// How long is waited for an answer, and how often it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// More than the line needs for a window of requests and their answers, by its clock.
    pub wait: Duration,
    /// Then the board is taken to be gone.
    pub tries: u32,
}

impl Patience {
    /// What an adapter holds back.
    const ADAPTER: Duration = Duration::from_millis(100);

    /// For a line of so many bits a second: both directions at once, each byte escaped.
    pub fn of_baud(baud: u32) -> Self {
        let bits = WINDOW * (2 * (HEAD + BLOCK + CHECK) + 2) * 10;
        let line = Duration::from_secs(bits.into()) / baud.max(1);
        Self { wait: line + Self::ADAPTER, tries: 8 }
    }
}

/// The way to a card on a board, over a serial line.
pub struct SerialBus {
    line: Box<dyn Line>,
    link: Link,
    copies: Copies,
    hello: Hello,
    /// Why nothing goes any more.
    failed: Option<String>,
}

impl std::fmt::Debug for SerialBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SerialBus").field("hello", &self.hello).finish_non_exhaustive()
    }
}

impl SerialBus {
    /// Opens the serial port at `path`, which is this program's alone from then on, and begins a session with the board.
    ///
    /// # Errors
    /// There is no such port, it is another's, nobody answers, or the board speaks another version of the protocol.
    pub fn open(path: impl AsRef<Path>, baud: u32) -> Result<Self, SerialError> {
        Self::over(Tty::open(path.as_ref(), baud)?, Patience::of_baud(baud))
    }

    /// Begins a session over any line.
    ///
    /// # Errors
    /// Nobody answers, or the board speaks another version of the protocol.
    pub fn over(line: impl Line + 'static, patience: Patience) -> Result<Self, SerialError> {
        let mut random = Random::Os;
        let mut next = || random.next_u32().map_err(|error| SerialError::Random(error.to_string()));
        let random = u64::from(next()?) << 32 | u64::from(next()?);
        let mut line: Box<dyn Line> = Box::new(line);
        let mut link = Link::new(random, patience.wait, patience.tries, line.now());
        let hello = loop {
            match link.hello() {
                Some(hello) => break hello,
                None => turn(line.as_mut(), &mut link)?,
            }
        };
        let Hello { memory_bytes, memory_base, .. } = hello;
        let whole = memory_bytes % PAGE as u64 == 0 && memory_base % PAGE as u64 == 0 && memory_bytes > 0;
        if !whole || memory_bytes > MOST_MEMORY || memory_base + memory_bytes > 1 << 32 {
            let found = format!("that it has {memory_bytes} bytes of memory at {memory_base:#x}");
            return Err(LinkError::Protocol { found }.into());
        }
        let copies = Copies::new(memory_base as u32, memory_bytes as usize);
        Ok(Self { line, link, copies, hello, failed: None })
    }

    /// What the board says of itself.
    pub fn hello(&self) -> Hello {
        self.hello
    }

    /// Requests that were sent again, and frames of the board that were dropped.
    pub fn losses(&self) -> (u64, u64) {
        self.link.losses()
    }

    /// Asks for all of it, and waits for the answers.
    fn ask(&mut self, requests: &[Request]) -> Result<Vec<Answer>, BusError> {
        if let Some(why) = &self.failed {
            return Err(BusError::Gone(why.clone()));
        }
        requests.iter().for_each(|request| self.link.ask(request.clone()));
        let mut answers = Vec::with_capacity(requests.len());
        while answers.len() < requests.len() {
            match self.link.answer() {
                Some(answer) => answers.push(answer),
                None => turn(self.line.as_mut(), &mut self.link).map_err(|error| self.fail(error))?,
            }
        }
        Ok(answers)
    }

    /// What is in the copies is not known to be on the board any more.
    fn fail(&mut self, error: SerialError) -> BusError {
        self.failed = Some(error.to_string());
        error.into()
    }

    /// The same for what a board of this driver cannot refuse.
    fn expect(&mut self, requests: &[Request]) -> Result<Vec<Vec<u8>>, BusError> {
        let answers = self.ask(requests)?;
        self.granted(requests, answers)
    }

    /// What was read.
    fn granted(&mut self, requests: &[Request], answers: Vec<Answer>) -> Result<Vec<Vec<u8>>, BusError> {
        let all = answers.into_iter().zip(requests).map(|(answer, request)| {
            let Request { command, length: bytes, address, .. } = *request;
            answer.map_err(|status| SerialError::Refused { command, bytes, address, status })
        });
        all.collect::<Result<_, _>>().map_err(|error| self.fail(error))
    }

    /// An access of BAR 0, behind what the copies have to tell.
    fn access(&mut self, mut requests: Vec<Request>, access: Request) -> Result<Vec<u8>, BusError> {
        let (offset, bytes) = (access.address, u32::from(access.length));
        if offset % bytes != 0 || offset >= BAR_BYTES {
            return Err(BusError::BadOffset { offset });
        }
        requests.push(access);
        let mut answers = self.ask(&requests)?;
        let last = answers.pop();
        requests.truncate(answers.len());
        self.granted(&requests, answers)?;
        match last {
            Some(Ok(data)) => Ok(data),
            // Of a read or write of BAR 0, the bus says so, too.
            _ => Err(BusError::BadOffset { offset }),
        }
    }

    fn csr_write(&mut self, offset: u32, data: &[u8]) -> Result<(), BusError> {
        if self.copies.changed(Kind::Data) {
            self.bring()?;
        }
        let changes = self.copies.changes();
        self.access(changes, Request::write(Command::CsrWrite, offset, data)).map(|_| ())
    }

    /// Asks which blocks the card has written.
    fn scan(&mut self) -> Result<(), BusError> {
        let (scans, blocks): (Vec<_>, Vec<_>) = self.copies.scans().into_iter().unzip();
        for (bits, block) in self.expect(&scans)?.iter().zip(blocks) {
            self.copies.scanned(block, bits);
        }
        Ok(())
    }

    /// Reads blocks.
    fn read(&mut self, blocks: Vec<usize>) -> Result<Vec<(usize, Vec<u8>)>, BusError> {
        let requests: Vec<_> = blocks.iter().map(|block| self.copies.read(*block)).collect();
        Ok(blocks.into_iter().zip(self.expect(&requests)?).collect())
    }

    /// Brings what the card has written.
    fn bring(&mut self) -> Result<(), BusError> {
        self.scan()?;
        let queues = self.copies.take_dirty(Kind::Queue);
        let mut queues = self.read(queues)?;
        queues.retain(|(block, bytes)| self.copies.differs(*block, bytes));
        if !queues.is_empty() {
            // What these tell of was written before, so it is told now at the latest.
            self.scan()?;
        }
        let data = self.copies.take_dirty(Kind::Data);
        let data = self.read(data)?;
        for (block, bytes) in data.iter().chain(&queues) {
            self.copies.merge(*block, bytes);
        }
        Ok(())
    }

    /// Lets the card find what is in a new region.
    fn fill(&mut self, id: u64) -> Result<(), BusError> {
        // The card may have written there in the region's life before.
        let filled = self.scan().and_then(|()| {
            let requests = self.copies.fill(id);
            self.expect(&requests)
        });
        if filled.is_err() {
            self.copies.give_back(id);
        }
        filled.map(|_| ())
    }
}

/// Sends what is to be sent, and takes what has come.
fn turn(line: &mut dyn Line, link: &mut Link) -> Result<(), SerialError> {
    let failed = |error: std::io::Error| SerialError::Line(error.to_string());
    let told = |link: &Link| link.error().map_or(Ok(()), |error| Err(error.clone().into()));
    let now = line.now();
    link.tick(now);
    told(link)?;
    while let Some(frame) = link.send(now) {
        line.send(frame).map_err(failed)?;
    }
    let until = link.tick(now).unwrap_or(now);
    let mut bytes = [0; 512];
    let n = line.receive(&mut bytes, until.saturating_sub(now)).map_err(failed)?;
    link.receive(&bytes[..n], line.now());
    told(link)
}

impl Bus for SerialBus {
    fn files(&self) -> Vec<RawFd> {
        self.line.file().into_iter().collect()
    }

    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
        let data = self.access(Vec::new(), Request::read(Command::CsrRead, offset, 4))?;
        let bytes = data.try_into().map_err(|data: Vec<u8>| {
            let found = format!("{} bytes in answer to a read of 4", data.len());
            self.fail(LinkError::Protocol { found }.into())
        })?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        self.csr_write(offset, &value.to_le_bytes())
    }

    fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
        self.csr_write(offset, &value.to_le_bytes())
    }

    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        let none = BusError::NoMemory { bytes: bytes as u64, align: align as u64 };
        let memory = HostMemory::zeroed(bytes, PAGE).ok_or(none)?;
        let (id, address) = self.copies.take_queue(memory.clone(), align)?;
        self.fill(id)?;
        Ok(DmaBuffer::new(address, memory))
    }

    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
        let iova = buffer.bus_address();
        match self.copies.queue_at(iova) {
            Some(id) if self.copies.give_back(id) => Ok(()),
            _ => Err(BusError::Map { iova, bytes: 0, why: "no buffer begins there" }),
        }
    }

    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        if 1usize.checked_shl(page_shift.into()) != Some(PAGE) {
            let why = "on-board memory has pages of 4 KiB; register with PageSize::Size4K";
            return Err(BusError::Map { iova: 0, bytes: memory.len() as u64, why });
        }
        let (id, pages) = self.copies.take_data(memory.clone())?;
        self.fill(id)?;
        Ok(DmaMapping { id, pages })
    }

    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
        // What the card has written before it lost its rights.
        let brought = self.bring();
        match self.copies.give_back(mapping.id) {
            true => brought,
            false => Err(BusError::Map { iova: mapping.id, bytes: 0, why: "there is no such mapping" }),
        }
    }

    fn needs_progress(&self) -> bool {
        true
    }

    fn progress(&mut self) -> Result<(), BusError> {
        if self.copies.is_empty() {
            // Nothing to carry; a simulated board moves by it, and one that is gone is found out.
            return self.expect(&[Request::read(Command::Status, 0, 0)]).map(|_| ());
        }
        self.bring()?;
        let changes = self.copies.changes();
        self.expect(&changes).map(|_| ())
    }

    fn card_cycles(&mut self) -> Result<Option<u64>, BusError> {
        Ok(self.line.cycles())
    }

    fn now(&self) -> Duration {
        self.line.now()
    }
}
