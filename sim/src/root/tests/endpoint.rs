// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Endpoint`]: a card that asks, puts completions together byte by byte, and has some registers.

use std::collections::VecDeque;

use ferrowire::HostMemory;
use ferrowire_spec::pcie::{count, kind, Completion, CompletionStatus};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use crate::root::request::Request;
use crate::root::stream::{Collector, Sender};
use crate::root::{RootComplex, RootSettings};

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All bytes of a read: its tag, and these.
    Data(u8, Vec<u8>),
    /// A read was refused, after so many good bytes.
    Refused(u8, CompletionStatus, usize),
    Poisoned(u8),
    Unexpected(u8),
    ByteCount(u8),
    LowerAddress(u8),
    Length(u8),
}

/// A read that waits for its bytes.
struct Waiting {
    request: Request,
    data: Vec<u8>,
}

pub struct Endpoint {
    pub root: RootComplex,
    pub cycle: u64,
    pub events: Vec<Event>,
    /// Cycles in which a beat of `rc` was taken, and what packets came.
    pub rc_cycles: Vec<u64>,
    pub rc_packets: Vec<Vec<u8>>,
    /// Packets that wait for `rq` and `cc`.
    pub rq_queue: VecDeque<Vec<u8>>,
    pub cc_queue: VecDeque<Vec<u8>>,
    /// Registers.
    pub bar: Vec<u8>,
    /// Requests that came on `cq`, if nobody is to answer them here.
    pub silent: bool,
    pub cq_packets: Vec<Vec<u8>>,
    /// How probable it is that it stands still.
    pub stall: f64,
    pub random: SmallRng,
    waiting: Vec<Option<Waiting>>,
    rq: Sender,
    rc: Collector,
    cq: Collector,
    cc: Sender,
}

/// Bytes of memory that [`Endpoint::memory`] maps.
pub const MEMORY: usize = 1 << 16;

impl Endpoint {
    pub fn new(beat: usize, settings: RootSettings) -> Self {
        let seed = settings.seed;
        Self {
            root: RootComplex::new(beat, settings),
            cycle: 0,
            events: Vec::new(),
            rc_cycles: Vec::new(),
            rc_packets: Vec::new(),
            rq_queue: VecDeque::new(),
            cc_queue: VecDeque::new(),
            bar: vec![0; 1 << 16],
            silent: false,
            cq_packets: Vec::new(),
            stall: 0.0,
            random: SmallRng::seed_from_u64(seed ^ 0x5555),
            waiting: (0..256).map(|_| None).collect(),
            rq: Sender::new(beat),
            rc: Collector::new(beat),
            cq: Collector::new(beat),
            cc: Sender::new(beat),
        }
    }

    /// Maps random bytes at `at`.
    pub fn memory(&mut self, at: u64) -> Vec<u8> {
        let memory = HostMemory::zeroed(MEMORY, 4096).unwrap();
        let mut bytes = vec![0; MEMORY];
        self.random.fill(&mut bytes[..]);
        memory.write(0, &bytes);
        self.root.host_mut().map_mut().insert(at, memory).unwrap();
        bytes
    }

    pub fn is_free(&self, tag: u8) -> bool {
        self.waiting[usize::from(tag)].is_none()
    }

    /// Asks for bytes.
    pub fn read(&mut self, tag: u8, address: u64, bytes: usize) {
        self.read_request(tag, Request::of_bytes(false, address, bytes));
    }

    pub fn read_request(&mut self, tag: u8, mut request: Request) {
        request.header.tag = tag;
        request.header.requester = self.root.settings().requester;
        self.rq_queue.push_back(request.emit(&[]));
        self.waiting[usize::from(tag)] = Some(Waiting { request, data: Vec::new() });
    }

    /// Forgets a read.
    pub fn give_up(&mut self, tag: u8) {
        self.waiting[usize::from(tag)] = None;
    }

    /// Writes bytes.
    pub fn write(&mut self, address: u64, bytes: &[u8], relaxed: bool) {
        let mut request = Request::of_bytes(true, address, bytes.len());
        request.header.requester = self.root.settings().requester;
        request.header.relaxed = relaxed;
        let mut data = vec![0xee; 4 * request.dwords() as usize];
        let first = request.span().0 as usize;
        data[first..first + bytes.len()].copy_from_slice(bytes);
        self.rq_queue.push_back(request.emit(&data));
    }

    fn stalls(&mut self) -> bool {
        self.stall > 0.0 && self.random.random_bool(self.stall)
    }

    /// One cycle.
    pub fn step(&mut self) {
        let cycle = self.cycle;
        self.cycle += 1;
        if let Some(beat) = self.root.rc(cycle) {
            assert_eq!(self.root.rc(cycle), Some(beat), "an offer changes");
            if !self.stalls() {
                self.root.rc_taken(cycle);
                self.rc_cycles.push(cycle);
                let packet = self.rc.beat(cycle, &beat).unwrap().map(<[u8]>::to_vec);
                if let Some(packet) = packet {
                    let event = self.completion(&packet);
                    self.events.extend(event);
                    self.rc_packets.push(packet);
                }
            }
        }
        if let Some(beat) = self.root.cq(cycle) {
            if !self.stalls() {
                self.root.cq_taken(cycle);
                let packet = self.cq.beat(cycle, &beat).unwrap().map(<[u8]>::to_vec);
                if let Some(packet) = packet {
                    if !self.silent {
                        self.access(&packet);
                    }
                    self.cq_packets.push(packet);
                }
            }
        }
        if self.rq.free() {
            if let Some(packet) = self.rq_queue.pop_front() {
                self.rq.begin().extend_from_slice(&packet);
            }
        }
        let stall = self.stalls();
        if let Some(beat) = self.rq.offer(stall) {
            if self.root.rq_ready_for(cycle, &beat) {
                self.root.rq_beat(cycle, &beat);
                self.rq.taken();
            }
        }
        if self.cc.free() {
            if let Some(packet) = self.cc_queue.pop_front() {
                self.cc.begin().extend_from_slice(&packet);
            }
        }
        let stall = self.stalls();
        if let Some(beat) = self.cc.offer(stall) {
            if self.root.cc_ready(cycle) {
                self.root.cc_beat(cycle, &beat);
                self.cc.taken();
            }
        }
    }

    pub fn run(&mut self, cycles: u64) {
        (0..cycles).for_each(|_| self.step());
    }

    /// Whether nothing is under way on either side.
    pub fn is_idle(&self) -> bool {
        let queues = self.rq_queue.is_empty() && self.cc_queue.is_empty();
        let streams = self.rq.free() && self.cc.free() && !self.rc.open();
        self.root.idle() && queues && streams && self.waiting.iter().all(Option::is_none)
    }

    /// Until nothing is under way.
    pub fn finish(&mut self) {
        for _ in 0..1_000_000 {
            if self.is_idle() {
                return;
            }
            self.step();
        }
        panic!("it does not end: {:?}", self.root.violation());
    }

    fn completion(&mut self, packet: &[u8]) -> Option<Event> {
        let header = Completion::parse(packet).unwrap();
        let (tag, data) = (header.tag, &packet[12..]);
        let settings = self.root.settings().clone();
        assert_eq!((header.requester, header.completer), (settings.requester, settings.completer));
        assert!(!header.t8 && !header.t9 && !header.td && !header.bcm && !header.rsvd && header.at == 0);
        let place = &mut self.waiting[usize::from(tag)];
        let Some(waiting) = place else { return Some(Event::Unexpected(tag)) };
        let (first, bytes) = waiting.request.span();
        if header.status != 0 {
            assert_eq!((packet[0], data.len(), header.length), (kind::COMPLETION, 0, 0));
            let event = Event::Refused(tag, header.status.try_into().unwrap(), waiting.data.len());
            *place = None;
            return Some(event);
        }
        assert_eq!(packet[0], kind::COMPLETION_DATA);
        let (done, at) = (waiting.data.len(), waiting.request.address() + u64::from(first));
        let wrong = if header.ep {
            Some(Event::Poisoned(tag))
        } else if count(header.length, 10) as usize * 4 != data.len() {
            Some(Event::Length(tag))
        } else if count(header.byte_count, 12) as usize != bytes as usize - done {
            Some(Event::ByteCount(tag))
        } else if u64::from(header.lower_address) != (at + done as u64) % 128 {
            Some(Event::LowerAddress(tag))
        } else {
            None
        };
        if wrong.is_some() {
            *place = None;
            return wrong;
        }
        let skip = ((at + done as u64) % 4) as usize;
        let have = (data.len() - skip).min(bytes as usize - done);
        waiting.data.extend_from_slice(&data[skip..skip + have]);
        assert!(data.len() as u32 <= settings.max_payload);
        let end = at + waiting.data.len() as u64;
        if waiting.data.len() < bytes as usize {
            assert_eq!(end % u64::from(settings.read_completion_boundary), 0, "cut at {end:#x}");
            return None;
        }
        assert_eq!(data.len(), (skip + have).next_multiple_of(4), "more data than was asked for");
        place.take().map(|waiting| Event::Data(tag, waiting.data))
    }

    /// A request of the CPU: memory only, anything else is unsupported.
    fn access(&mut self, packet: &[u8]) {
        let request = Request::parse(packet).unwrap();
        let settings = self.root.settings().clone();
        let at = request.address().wrapping_sub(settings.bar0) as usize;
        let (first, bytes) = request.span();
        match request.kind {
            kind::WRITE32 | kind::WRITE64 => {
                for (i, byte) in packet[request.header_bytes()..].iter().enumerate() {
                    if request.enables(i as u32) {
                        self.bar[at + i] = *byte;
                    }
                }
            }
            kind::READ32 | kind::READ64 => {
                // Cut wherever an endpoint may.
                let (start, end) = (at, at + 4 * request.dwords() as usize);
                let mut from = start;
                while from < end {
                    let to = end.min((from / 128 + 1) * 128);
                    let byte = from.max(start + first as usize);
                    let left = start + (first + bytes) as usize - byte;
                    let mut header = answer(&request, &settings);
                    header.length = ((to - from) / 4) as u16;
                    header.byte_count = left as u16 % 4096;
                    header.lower_address = (byte % 128) as u8;
                    let mut packet = header.to_bytes().unwrap().to_vec();
                    packet.extend_from_slice(&self.bar[from..to]);
                    self.cc_queue.push_back(packet);
                    from = to;
                }
            }
            _ => {
                let mut header = answer(&request, &settings);
                (header.fmt, header.status) = (0, CompletionStatus::UnsupportedRequest.code());
                self.cc_queue.push_back(header.to_bytes().unwrap().to_vec());
            }
        }
    }
}

/// A completion with data for a request, but for its length, count and address.
pub fn answer(request: &Request, settings: &RootSettings) -> Completion {
    Completion {
        completer: settings.requester,
        requester: request.header.requester,
        tag: request.header.tag,
        tc: request.header.tc,
        relaxed: request.header.relaxed,
        no_snoop: request.header.no_snoop,
        ..Completion::default()
    }
}
