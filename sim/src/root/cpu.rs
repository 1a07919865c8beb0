// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Cpu`]: reads and writes of the card's registers, and what the card answers.
//!
//! ```text
//!  read  --> tag --> cq --> card --> cc --> checked against the read --> answer
//!  write ----------> cq --> card
//! ```

use std::collections::VecDeque;

use ferrowire_spec::pcie::{self, completion, kind, request32, Completion, CompletionStatus};
use ferrowire_spec::Order;

use super::request::Request;
use super::stream::Sender;
use super::RootSettings;

/// Where an endpoint may cut its completions (PCIe 2.3.1.1).
const ENDPOINT_BOUNDARY: u64 = 128;

/// A read of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub(super) u64);

/// How a read of the CPU ended: the bytes from the first one that was enabled to the last, or why there are none.
pub type Answer = (ReadId, Result<Vec<u8>, CompletionStatus>);

/// A request that is to be sent.
struct Outgoing {
    packet: Vec<u8>,
    /// It waits for an answer.
    id: Option<ReadId>,
    /// It keeps the tag that it has.
    own_tag: bool,
}

/// A request that waits for its answer.
struct Pending {
    id: ReadId,
    request: Request,
    data: Vec<u8>,
}

/// Requests that nobody answers: memory writes and messages (PCIe 2.4.1).
fn is_posted(kind: u8) -> bool {
    matches!(kind, kind::WRITE32 | kind::WRITE64) || matches!(kind >> 3, 0b00110 | 0b01110)
}

pub(super) struct Cpu {
    queue: VecDeque<Outgoing>,
    pending: Vec<Option<Pending>>,
    waiting: usize,
    answers: VecDeque<Answer>,
    next_id: u64,
    next_tag: u8,
    /// The packet on its way is a memory write.
    writing: bool,
    pub writes_taken: u64,
    pub writes_taken_at: u64,
    pub answered: u64,
}

impl Cpu {
    pub fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            pending: (0..256).map(|_| None).collect(),
            waiting: 0,
            answers: VecDeque::new(),
            next_id: 0,
            next_tag: 0,
            writing: false,
            writes_taken: 0,
            writes_taken_at: 0,
            answered: 0,
        }
    }

    /// Whether nothing is to be sent or waited for.
    pub fn idle(&self) -> bool {
        self.queue.is_empty() && self.waiting == 0
    }

    /// Queues a packet. Of one that is answered, what its answer will be called.
    pub fn send(&mut self, packet: Vec<u8>, own_tag: bool) -> Option<ReadId> {
        let whole = Request::parse(&packet).is_some();
        let id = packet.first().filter(|kind| whole && !is_posted(**kind)).map(|_| ReadId(self.next_id));
        self.next_id += u64::from(id.is_some());
        self.queue.push_back(Outgoing { packet, id, own_tag });
        id
    }

    /// Waits no more for an answer.
    pub fn forget(&mut self, id: ReadId) {
        for place in &mut self.pending {
            if place.take_if(|pending| pending.id == id).is_some() {
                self.waiting -= 1;
            }
        }
    }

    pub fn answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Begins the next packet, if it has a tag or needs none.
    pub fn begin(&mut self, sender: &mut Sender) {
        let Some(next) = self.queue.front_mut() else { return };
        if let Some(id) = next.id {
            let order = Order::Network;
            let tag = if next.own_tag {
                request32::TAG.get(order, &next.packet) as u8
            } else {
                let free = |tag: &u8| self.pending[usize::from(*tag)].is_none();
                let found = (0..=255u8).map(|i| self.next_tag.wrapping_add(i)).find(free);
                found.unwrap_or(self.next_tag)
            };
            if self.pending[usize::from(tag)].is_some() {
                return;
            }
            request32::TAG.set(order, &mut next.packet, tag.into());
            let Some(request) = Request::parse(&next.packet) else { return };
            self.pending[usize::from(tag)] = Some(Pending { id, request, data: Vec::new() });
            self.waiting += 1;
            self.next_tag = tag.wrapping_add(1);
        }
        self.writing = matches!(next.packet.first(), Some(&(kind::WRITE32 | kind::WRITE64)));
        sender.begin().extend_from_slice(&next.packet);
        self.queue.pop_front();
    }

    /// The packet on its way was taken.
    pub fn ended(&mut self, cycle: u64) {
        if self.writing {
            self.writes_taken += 1;
            self.writes_taken_at = cycle;
        }
    }

    /// Takes a completion. What is wrong is not looked at further, and leaves its read without an answer.
    ///
    /// # Errors
    /// The rule that it breaks, and the clause.
    pub fn completion(&mut self, packet: &[u8], settings: &RootSettings) -> Result<(), String> {
        let Ok(header) = Completion::parse(packet) else {
            return Err(format!("a completion of {} bytes (PCIe 2.2.9)", packet.len()));
        };
        let data = &packet[completion::BYTES..];
        let tag = header.tag;
        let broken =
            |what: String, clause: &str| Err(format!("completion, tag {tag:#x}: {what} (PCIe {clause})"));
        let kind = packet[0];
        if kind != kind::COMPLETION && kind != kind::COMPLETION_DATA {
            return broken(format!("fmt and type are {kind:#04x}"), "2.2.9");
        }
        let wanted = if kind == kind::COMPLETION { 0 } else { 4 * pcie::count(header.length, 10) as usize };
        if data.len() != wanted {
            return broken(format!("{} bytes follow the header where {wanted} should", data.len()), "2.2.2");
        }
        let zero = [
            ("tag bit 9", header.t9, "2.2.6.2"),
            ("tag bit 8", header.t8, "2.2.6.2"),
            ("LN", header.ln, "2.2.1"),
            ("TH", header.th, "2.2.1"),
            ("TD", header.td, "2.2.3"),
            ("EP", header.ep, "2.7.2"),
            ("AT", header.at != 0, "2.2.1"),
            ("BCM", header.bcm, "2.2.9"),
            ("a reserved bit", header.rsvd, "2.2.9"),
            ("the length, though there is no data,", data.is_empty() && header.length != 0, "2.2.2"),
        ];
        if let Some((field, _, clause)) = zero.iter().find(|(_, set, _)| *set) {
            return broken(format!("{field} is set"), clause);
        }
        if header.completer != settings.requester {
            let card = settings.requester;
            return broken(
                format!("completer {:#06x}, but the card is {card:#06x}", header.completer),
                "2.2.9",
            );
        }
        if header.requester != settings.completer {
            return broken(format!("requester {:#06x} did not ask", header.requester), "2.3.2");
        }
        let place = &mut self.pending[usize::from(tag)];
        let Some(pending) = place else { return broken("nothing was asked under that tag".into(), "2.3.2") };
        let asked = pending.request.header;
        let attributes = |tc: u8, bits: [bool; 3]| (tc, bits);
        if attributes(header.tc, [header.ido, header.relaxed, header.no_snoop])
            != attributes(asked.tc, [asked.ido, asked.relaxed, asked.no_snoop])
        {
            return broken("traffic class or attributes are not those of the request".into(), "2.2.9");
        }
        let Some(status) = CompletionStatus::from_code(header.status) else {
            return broken(format!("status {} is reserved", header.status), "2.2.9");
        };
        let configuration = matches!(pending.request.kind & 31, 4 | 5);
        if status == CompletionStatus::RequestRetry && !configuration {
            return broken("only a configuration request is to be tried again".into(), "2.3.1");
        }
        if status != CompletionStatus::Success && !data.is_empty() {
            return broken(format!("status {status}, and data"), "2.3.1.1");
        }
        if status == CompletionStatus::Success {
            if let Err((what, clause)) = pending.take(&header, data, settings) {
                return broken(what, clause);
            }
            if !pending.complete() {
                return Ok(());
            }
        }
        let Some(Pending { id, data, .. }) = place.take() else { return Ok(()) };
        self.waiting -= 1;
        self.answered += 1;
        let ended = if status == CompletionStatus::Success { Ok(data) } else { Err(status) };
        self.answers.push_back((id, ended));
        Ok(())
    }
}

impl Pending {
    fn is_memory_read(&self) -> bool {
        matches!(self.request.kind, kind::READ32 | kind::READ64)
    }

    /// Whether all bytes are there.
    fn complete(&self) -> bool {
        !self.is_memory_read() || self.data.len() == self.request.span().1 as usize
    }

    /// Appends the data of a successful completion.
    fn take(
        &mut self,
        header: &Completion,
        data: &[u8],
        settings: &RootSettings,
    ) -> Result<(), (String, &'static str)> {
        let (first, bytes) = self.request.span();
        let (mut left, mut address) = (4, 0);
        if self.is_memory_read() {
            left = bytes - self.data.len() as u32;
            address = self.request.address() + u64::from(first) + self.data.len() as u64;
        }
        if pcie::count(header.byte_count, 12) != left {
            return Err((format!("byte count {} where {left} are left", header.byte_count), "2.3.1.1"));
        }
        let lower = (address % 128) as u8;
        if header.lower_address != lower {
            return Err((format!("lower address {:#x}, not {lower:#x}", header.lower_address), "2.3.1.1"));
        }
        if !self.is_memory_read() {
            let writes = matches!(self.request.kind, kind::IO_WRITE | 0x44 | 0x45);
            if data.is_empty() != writes {
                return Err((format!("{} bytes of data", data.len()), "2.3.1"));
            }
            self.data.extend_from_slice(data);
            return Ok(());
        }
        let skip = (address % 4) as u32;
        let needed = (skip + left).div_ceil(4) * 4;
        if data.is_empty() || data.len() as u32 > needed {
            return Err((format!("{} bytes of data where {needed} are left", data.len()), "2.3.1.1"));
        }
        if data.len() as u32 > settings.max_payload {
            return Err((
                format!("{} bytes: the largest payload is {}", data.len(), settings.max_payload),
                "2.2.2",
            ));
        }
        let end = address - u64::from(skip) + data.len() as u64;
        if (data.len() as u32) < needed && end % ENDPOINT_BOUNDARY != 0 {
            return Err((format!("cut at {end:#x}, no multiple of {ENDPOINT_BOUNDARY}"), "2.3.1.1"));
        }
        let have = (data.len() as u32 - skip).min(left) as usize;
        self.data.extend_from_slice(&data[skip as usize..skip as usize + have]);
        Ok(())
    }
}
