// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`End`]: what a program needs of a card or of the reference engine.

use std::net::IpAddr;

use anyhow::Result;
use ferrowire::PathMtu;
use ferrowire_spec::queue::cqe::{CqeOpcode, WcStatus};
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::QpState;

/// Bytes of a page of the cards' regions.
pub const PAGE: usize = 4096;

/// What peers may do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Nothing.
    Closed,
    /// WRITE.
    Write,
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

/// A connection, as one of its ends is told of it.
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
}

/// A request, with keys and addresses as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Comes back in the completion; no other request of the case has it.
    pub id: u64,
    /// What to do.
    pub opcode: SendOpcode,
    /// Local memory: address, key, bytes.
    pub local: (u64, u32, u32),
    /// Remote memory: address, key.
    pub remote: (u64, u32),
    /// Complete it on success too.
    pub signaled: bool,
    /// Solicited event bit.
    pub solicited: bool,
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Queue pair.
    pub qpn: u32,
    /// Of the request.
    pub id: u64,
    /// How it ended; `None`: in no way that has a name.
    pub status: Option<WcStatus>,
    /// What ended.
    pub opcode: Option<CqeOpcode>,
}

/// One end of the wire. Queue pairs and regions are numbered in the order in which they were made.
pub trait End {
    /// Requests that it can send and take.
    fn verbs(&self) -> &[SendOpcode];

    /// Registers memory that holds `pages`. Gives the key.
    ///
    /// # Errors
    /// The end has no room.
    fn region(&mut self, region: &Region, pages: &[u8]) -> Result<u32>;

    /// The bytes of a region's pages.
    fn read(&self, region: usize) -> Vec<u8>;

    /// The program's own write to a region: from that byte of its pages on.
    fn write(&mut self, region: usize, at: usize, bytes: &[u8]);

    /// Makes a queue pair with room for so many requests. Gives its number.
    ///
    /// # Errors
    /// The end has no room.
    fn create(&mut self, requests: u32) -> Result<u32>;

    /// Takes a queue pair from RESET to RTS.
    ///
    /// # Errors
    /// The end refuses.
    fn connect(&mut self, qp: usize, path: &Path) -> Result<()>;

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

/// MAC address of an end.
pub fn mac(side: usize) -> [u8; 6] {
    [2, 0xfe, 0, 0, 0, 1 + side as u8]
}

/// IP address of an end.
pub fn ip(side: usize, ipv6: bool) -> IpAddr {
    let host = 1 + side as u8;
    match ipv6 {
        false => IpAddr::from([10, 0, 0, host]),
        true => IpAddr::from([0xfd, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]),
    }
}
