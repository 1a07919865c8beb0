// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`End`]: what a program needs of a card or of the reference engine.

use anyhow::Result;
use ferrowire::PathMtu;
use ferrowire_spec::queue::cqe::{CqeOpcode, WcStatus};
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::QpState;

use super::raw::Filter;
pub use crate::node::{ip, mac};

/// Bytes of a page of the cards' regions.
pub const PAGE: usize = 4096;

/// What peers may do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Nothing.
    Closed,
    /// Nothing; the end itself may have it written, for its receives and answers.
    Local,
    /// WRITE.
    Write,
    /// WRITE, READ and atomics.
    Shared,
    /// Nothing, but windows may be bound to it, for all of that.
    Lent,
    /// Nothing, but windows may be bound to it, to be read.
    LentRead,
}

/// Memory to be registered: a run of bytes of whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Address of its first byte, as requests name it.
    pub address: u64,
    /// Bytes.
    pub len: usize,
    /// What peers may do.
    pub rights: Rights,
}

impl Region {
    /// Bytes of its first page that are before it.
    pub fn front(&self) -> usize {
        self.address as usize % PAGE
    }

    /// Bytes of all its pages: those before and behind it belong to nobody, and must stay as they are.
    pub fn pages(&self) -> usize {
        (self.front() + self.len).next_multiple_of(PAGE)
    }
}

/// Queue key of all datagrams.
pub const QKEY: u32 = 0x1234_5678;

/// A connection, as one of its ends is told of it. Of datagrams, where all of a queue pair go.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// IPv6 rather than IPv4.
    pub ipv6: bool,
    /// Path MTU.
    pub mtu: PathMtu,
    /// The peer's queue pair.
    pub peer: u32,
    /// First PSN to send.
    pub sq_psn: u32,
    /// First PSN expected.
    pub rq_psn: u32,
    /// Time-out code.
    pub timeout: u8,
    /// Retries.
    pub retry_cnt: u8,
    /// Retries when the peer has no receive; 7: without end.
    pub rnr_retry: u8,
    /// Timer code of the pause that it asks for when it has none itself.
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding, each way.
    pub rd_atomic: u8,
    /// Both ends have agreed on selective retransmission.
    pub selective: bool,
}

/// What a queue pair has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The service.
    pub service: Service,
    /// Requests.
    pub sends: u32,
    /// Pieces of memory of each.
    pub send_pieces: u8,
    /// Bytes of each that stand in the request.
    pub inline: u16,
    /// Receives.
    pub receives: u32,
    /// Pieces of memory of each.
    pub receive_pieces: u8,
    /// They come from the end's shared receive queue.
    pub shared: bool,
    /// Requests that are posted alone are pushed, where the card has that.
    pub push: bool,
}

/// Most pieces of memory of a receive.
pub const RECEIVE_PIECES: usize = 16;

/// A piece of local memory: address, key, bytes.
pub type Piece = (u64, u32, u32);

/// A request, with keys and addresses as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Comes back in the completion; no other request or receive of the case has it.
    pub id: u64,
    /// What to do.
    pub opcode: SendOpcode,
    /// Local memory.
    pub local: Vec<Piece>,
    /// The bytes themselves, in place of local memory.
    pub inline: Option<Vec<u8>>,
    /// Remote memory: address, key.
    pub remote: (u64, u32),
    /// Immediate.
    pub imm: u32,
    /// What an atomic compares with or adds, and what it stores.
    pub operands: (u64, u64),
    /// Complete it on success too.
    pub signaled: bool,
    /// Solicited event bit.
    pub solicited: bool,
    /// Begin only when all READs and atomics before are answered.
    pub fence: bool,
    /// Key that it invalidates, here or at the peer.
    pub key: u32,
    /// The window that it binds.
    pub bind: Option<Bind>,
}

/// What a window is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The window's key as it shall be.
    pub key: u32,
    /// The region's.
    pub region: u32,
    /// First address, as the region counts.
    pub address: u64,
    /// Bytes; 0 unbinds.
    pub bytes: u64,
    /// Peers may READ, WRITE, and do atomics.
    pub rights: [bool; 3],
    /// Peers count from [`End::zero_base`] on.
    pub zero_based: bool,
}

/// A receive, with keys and addresses as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    /// Comes back in the completion.
    pub id: u64,
    /// Local memory.
    pub local: Vec<Piece>,
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Queue pair.
    pub qpn: u32,
    /// Of the request or receive.
    pub id: u64,
    /// Of a receive.
    pub receive: bool,
    /// How it ended; `None`: in no way that has a name.
    pub status: Option<WcStatus>,
    /// What ended.
    pub opcode: Option<CqeOpcode>,
    /// Bytes that came.
    pub bytes: u32,
    /// Immediate that came.
    pub imm: Option<u32>,
    /// The message was solicited.
    pub solicited: bool,
    /// Queue pair that sent it, if it was a datagram, and whether its packet was of IPv4.
    pub source: Option<(u32, bool)>,
    /// Key that the message invalidated.
    pub invalidated: Option<u32>,
}

#[cfg(test)]
impl Done {
    pub(super) fn of(qpn: u32, id: u64) -> Self {
        let (receive, status, opcode, imm) = (false, None, None, None);
        let (solicited, source, invalidated) = (false, None, None);
        Self { qpn, id, receive, status, opcode, bytes: 0, imm, solicited, source, invalidated }
    }
}

/// One end of the wire. Queue pairs and regions are numbered in the order in which they were made.
pub trait End {
    /// Requests that it can post.
    fn verbs(&self) -> &[SendOpcode];

    /// Registers memory that holds `pages`. Gives the key.
    ///
    /// # Errors
    /// The end has no room.
    fn region(&mut self, region: &Region, pages: &[u8]) -> Result<u32>;

    /// The bytes of a region's pages.
    fn read(&self, region: usize) -> Vec<u8>;

    /// What the end has acknowledged may still be on its way to its memory: lets a little time pass. Whether it did.
    fn settle(&self) -> bool {
        false
    }

    /// The program's own write to a region: from that byte of its pages on.
    fn write(&mut self, region: usize, at: usize, bytes: &[u8]);

    /// Makes the end's shared receive queue, with room for so many.
    ///
    /// # Errors
    /// The end has no room.
    fn share(&mut self, receives: u32) -> Result<()>;

    /// Receives that the shared queue has room for.
    fn free_shared(&mut self) -> usize;

    /// Posts receives to the shared queue, all at once.
    ///
    /// # Errors
    /// The end refuses.
    fn post_shared(&mut self, receives: &[Receive]) -> Result<()>;

    /// Makes a window, not bound. Gives its key; binds choose the tag.
    ///
    /// # Errors
    /// The end has no room.
    fn window(&mut self) -> Result<u32>;

    /// Frees a window, bound or not. It is known by its index.
    ///
    /// # Errors
    /// The end refuses.
    fn free_window(&mut self, key: u32) -> Result<()>;

    /// The address by which peers name the first byte of a zero-based window that begins at `address` of its region.
    fn zero_base(&self, address: u64) -> u64;

    /// Makes a queue pair. Gives its number.
    ///
    /// # Errors
    /// The end has no room.
    fn create(&mut self, room: Room) -> Result<u32>;

    /// Takes a queue pair from RESET to RTS; the receives are posted in INIT.
    ///
    /// # Errors
    /// The end refuses.
    fn connect(&mut self, qp: usize, path: &Path, receives: &[Receive]) -> Result<()>;

    /// Takes it to RESET.
    ///
    /// # Errors
    /// The end refuses.
    fn reset(&mut self, qp: usize) -> Result<()>;

    /// Destroys it and makes another in its place, with as much room. Gives its number, which may be the same.
    ///
    /// # Errors
    /// The end refuses.
    fn renew(&mut self, qp: usize) -> Result<u32>;

    /// Takes it to ERR, to SQD, or back to RTS.
    ///
    /// # Errors
    /// The end refuses.
    fn modify(&mut self, qp: usize, to: QpState) -> Result<()>;

    /// Its state; `None`: none that has a name.
    ///
    /// # Errors
    /// The end does not say.
    fn state(&mut self, qp: usize) -> Result<Option<QpState>>;

    /// Whether nothing is in progress any more, in SQD.
    ///
    /// # Errors
    /// The end does not say.
    fn is_drained(&mut self, qp: usize) -> Result<bool>;

    /// Requests that it has room for.
    fn free(&mut self, qp: usize) -> usize;

    /// Posts requests, all at once.
    ///
    /// # Errors
    /// The end refuses.
    fn post(&mut self, qp: usize, requests: &[Request]) -> Result<()>;

    /// Receives that it has room for.
    fn free_receives(&mut self, qp: usize) -> usize;

    /// Posts receives, all at once.
    ///
    /// # Errors
    /// The end refuses.
    fn post_receives(&mut self, qp: usize, receives: &[Receive]) -> Result<()>;

    /// Sets which frames the raw Ethernet queue pair gets.
    ///
    /// # Errors
    /// The end refuses.
    fn filter(&mut self, filter: &Filter) -> Result<()>;

    /// Raw frames that came and passed the filter, and raw frames that were sent.
    ///
    /// # Errors
    /// The end does not say.
    fn raw_frames(&mut self) -> Result<[u64; 2]>;

    /// Whether it has dropped frames because its receive buffer was full. It sends no NAK for these.
    ///
    /// # Errors
    /// The end does not say.
    fn has_lost(&mut self) -> Result<bool>;

    /// Completions that have come.
    ///
    /// # Errors
    /// The end gives something that is none.
    fn poll(&mut self) -> Result<Vec<Done>>;

    /// What it did that no end may do.
    fn offence(&self) -> Option<String>;

    /// Its counters, for who looks for a fault.
    fn diagnose(&self) -> String;
}
