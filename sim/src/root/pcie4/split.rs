// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Outstanding`]: the table in which the block keeps what the card has asked for, and what it says of completions.

use std::collections::VecDeque;

use ferrowire_spec::pcie::pcie4::{ErrorCode, RcDescriptor};
use ferrowire_spec::pcie::{completion, count, kind, Completion, Request64};

use super::axis::Packet;
use crate::root::request::Request;

/// A read under way.
#[derive(Default)]
struct Entry {
    busy: bool,
    /// Its last completion, or the end of its time, is on its way.
    ended: bool,
    /// Which read of all it is.
    number: u64,
    header: Request64,
    /// Address of the next byte, and bytes that are left.
    next: u64,
    left: u32,
}

pub(super) struct Outstanding {
    entries: Vec<Entry>,
    timeout: Option<u64>,
    /// When, which tag, which read: the first to end is the first.
    deadlines: VecDeque<(u64, u8, u64)>,
    count: u64,
    busy: u32,
}

impl Outstanding {
    pub fn new(timeout: Option<u64>) -> Self {
        let entries = (0..256).map(|_| Entry::default()).collect();
        Self { entries, timeout, deadlines: VecDeque::new(), count: 0, busy: 0 }
    }

    pub fn idle(&self) -> bool {
        self.busy == 0
    }

    pub fn is_busy(&self, tag: u8) -> bool {
        self.entries[usize::from(tag)].busy
    }

    /// A read was sent.
    pub fn add(&mut self, cycle: u64, request: &Request) {
        let tag = request.header.tag;
        let (first, bytes) = request.span();
        self.count += 1;
        self.busy += 1;
        self.entries[usize::from(tag)] = Entry {
            busy: true,
            ended: false,
            number: self.count,
            header: request.header,
            next: request.address() + u64::from(first),
            left: bytes,
        };
        if let Some(timeout) = self.timeout {
            self.deadlines.push_back((cycle + timeout, tag, self.count));
        }
    }

    /// The tag is free.
    pub fn remove(&mut self, tag: u8) {
        self.entries[usize::from(tag)].busy = false;
        self.busy -= 1;
    }

    /// What the card is told of a completion; nothing where the packet is malformed.
    pub fn describe(&mut self, packet: &[u8]) -> Option<Packet> {
        let header = Completion::parse(packet).ok()?;
        let data = &packet[completion::BYTES..];
        let dwords = if packet[0] == kind::COMPLETION_DATA { count(header.length, 10) } else { 0 };
        if data.len() != 4 * dwords as usize {
            return None;
        }
        let entry = &mut self.entries[usize::from(header.tag)];
        let bytes_left = count(header.byte_count, 12);
        let same = entry.header.requester == header.requester
            && (entry.header.tc, entry.header.relaxed, entry.header.no_snoop, entry.header.ido)
                == (header.tc, header.relaxed, header.no_snoop, header.ido);
        let lower = (entry.next % 128) as u8;
        let error = if !entry.busy || entry.ended {
            ErrorCode::Tag
        } else if !same {
            ErrorCode::Mismatch
        } else if header.status != 0 {
            ErrorCode::Status
        } else if data.is_empty() || bytes_left != entry.left {
            ErrorCode::ByteCount
        } else if lower != header.lower_address {
            ErrorCode::Address
        } else if header.ep {
            ErrorCode::Poisoned
        } else {
            ErrorCode::None
        };
        let skip = usize::from(header.lower_address) % 4;
        let valid = data.len().saturating_sub(skip).min(bytes_left as usize);
        let mut lower_address = u16::from(header.lower_address);
        match error {
            ErrorCode::None | ErrorCode::Poisoned => {
                if error == ErrorCode::None {
                    lower_address = (entry.next % 4096) as u16;
                }
                let bytes = (valid as u32).min(entry.left);
                entry.next += u64::from(bytes);
                entry.left -= bytes;
                entry.ended = entry.left == 0;
            }
            ErrorCode::Status | ErrorCode::ByteCount => entry.ended = true,
            _ => {}
        }
        let known = !matches!(error, ErrorCode::Tag | ErrorCode::Mismatch | ErrorCode::Address);
        let completed = known && entry.ended;
        let descriptor = RcDescriptor {
            lower_address,
            error: error.code(),
            byte_count: bytes_left as u16,
            completed,
            dwords: dwords as u16,
            status: header.status,
            poisoned: header.ep,
            requester: header.requester,
            tag: header.tag,
            completer: header.completer,
            tc: header.tc,
            no_snoop: header.no_snoop,
            relaxed: header.relaxed,
            ido: header.ido,
            ..RcDescriptor::default()
        };
        Some(made(&descriptor, data, skip, valid, completed.then_some(header.tag)))
    }

    /// What the card is told of a read whose time is over.
    pub fn expired(&mut self, cycle: u64) -> Option<Packet> {
        while let Some((due, tag, number)) = self.deadlines.front().copied() {
            let entry = &mut self.entries[usize::from(tag)];
            let over = !entry.busy || entry.ended || entry.number != number;
            if !over && due > cycle {
                return None;
            }
            self.deadlines.pop_front();
            if over {
                continue;
            }
            entry.ended = true;
            let error = ErrorCode::Timeout.code();
            let descriptor = RcDescriptor { tag, error, completed: true, ..RcDescriptor::default() };
            return Some(made(&descriptor, &[], 0, 0, Some(tag)));
        }
        None
    }
}

/// The packet: its data's bytes from `skip` on, `valid` of them, were asked for.
fn made(descriptor: &RcDescriptor, data: &[u8], skip: usize, valid: usize, ends: Option<u8>) -> Packet {
    let mut bytes = descriptor.to_bytes().expect("a descriptor whose values fit").to_vec();
    let from = bytes.len() + skip;
    bytes.extend_from_slice(data);
    let valid = Box::new(move |byte| (from..from + valid).contains(&byte));
    Packet { bytes, valid, enables: (0, 0), ends, write: false }
}
