// SPDX-License-Identifier: MIT OR Apache-2.0
//! What both sides can do: [`Side`], of which the steps are made.

use std::fmt;

use ferrowire::{AccessFlags, CqeOpcode, PathMtu, SendOp, Service, WcStatus};

/// Anything that ends a step before its end, or all of them.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Bytes of each side's memory; `verbs.c` has the same number.
pub const BYTES: usize = 65536;
/// Pieces of a request or receive, at most; `verbs.c` has the same number.
pub const PIECES: usize = 8;
/// Bytes of inline data, at most; `verbs.c` has the same number.
pub const INLINE: usize = 128;
/// Queue key of both sides' datagrams; `verbs.c` has the same number.
pub const QKEY: u32 = 0x1111_1111;

/// What a byte is before a step begins: each side has a pattern of its own, which the other one knows.
pub fn pattern(step: u32, guest: bool, at: usize) -> u8 {
    let x =
        (2 * step + u32::from(guest)).wrapping_mul(40503).wrapping_add(at as u32).wrapping_mul(2_654_435_761);
    ((x ^ x >> 16).wrapping_mul(2_654_435_761) >> 24) as u8
}

/// Where peers find a side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Of the first byte of its memory.
    pub address: u64,
    /// Key for it.
    pub rkey: u32,
    /// Its queue pair.
    pub qpn: u32,
    /// First PSN that it sends.
    pub psn: u32,
}

/// What is there at the end of a step.
pub struct End {
    /// Completions that nobody has asked for.
    pub more: Vec<Done>,
    /// Of the queue pair.
    pub in_error: bool,
    /// All of it.
    pub memory: Vec<u8>,
}

/// How queue pairs are connected.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Path MTU.
    pub mtu: PathMtu,
    /// ACK time-out: 4.096 us times 2 to that power.
    pub timeout: u8,
    /// Retries after time-outs.
    pub retry_cnt: u8,
    /// Retries after RNR NAKs; 7: for ever.
    pub rnr_retry: u8,
    /// Timer code of the RNR NAKs that it sends.
    pub min_rnr_timer: u8,
}

/// A part of a side's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Of its first byte.
    pub offset: usize,
    /// How many there are.
    pub bytes: u32,
}

/// A work request for a send queue.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its number.
    pub wr_id: u64,
    /// What it does.
    pub op: SendOp,
    /// Where its bytes are, or where the answer goes.
    pub pieces: Vec<Piece>,
    /// The bytes are copied when it is posted.
    pub inline: bool,
    /// It has a completion.
    pub signaled: bool,
    /// The peer's is solicited.
    pub solicited: bool,
    /// It begins when READs and atomics before it are answered.
    pub fence: bool,
}

/// A completion, with what both sides can say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Number of the work request.
    pub wr_id: u64,
    /// Of one that failed nothing else is known.
    pub result: std::result::Result<Success, WcStatus>,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Done { wr_id, result } = self;
        let Success { opcode, bytes, imm, invalidated, from } = match result {
            Ok(success) => success,
            Err(status) => return write!(f, "{wr_id}: {status}"),
        };
        write!(f, "{wr_id}: {opcode} {bytes}")?;
        for (what, value) in [("imm", imm), ("invalidated", invalidated), ("from", from)] {
            value.map_or(Ok(()), |value| write!(f, " {what} {value:#x}"))?;
        }
        Ok(())
    }
}

/// What else is said of work that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Success {
    /// With verbs, requests are SEND and WRITE whatever they carry besides.
    pub opcode: CqeOpcode,
    /// Of receives, READs and atomics.
    pub bytes: u32,
    /// Of receives.
    pub imm: Option<u32>,
    /// Key of this side that the message invalidated.
    pub invalidated: Option<u32>,
    /// Queue pair that a datagram is of.
    pub from: Option<u32>,
}

impl Success {
    /// With only that said of it which counts.
    pub fn of(opcode: CqeOpcode, bytes: u32) -> Success {
        let opcode = match opcode {
            CqeOpcode::SendImm | CqeOpcode::SendInv => CqeOpcode::Send,
            CqeOpcode::WriteImm => CqeOpcode::Write,
            other => other,
        };
        let counts = opcode.is_receive()
            || matches!(opcode, CqeOpcode::Read | CqeOpcode::CmpSwap | CqeOpcode::FetchAdd);
        Success { opcode, bytes: if counts { bytes } else { 0 }, imm: None, invalidated: None, from: None }
    }
}

/// One side: the card, or the guest. It has memory and a queue pair, both made anew for each step.
pub trait Side {
    /// Whose pattern its memory begins with.
    fn is_guest(&self) -> bool;
    /// Forgets the step before; memory with its pattern, and a queue pair in INIT.
    fn begin(
        &mut self,
        step: u32,
        service: Service,
        mr_rights: AccessFlags,
        qp_rights: AccessFlags,
    ) -> Result<Place>;
    /// Brings it to RTS.
    fn connect(&mut self, peer: Place, options: &Options) -> Result<()>;
    /// Posts receives, each with its number.
    fn receive(&mut self, all: &[(u64, Vec<Piece>)]) -> Result<()>;
    /// Posts requests, all at once.
    fn post(&mut self, requests: &[Request]) -> Result<()>;
    /// Posts a signalled bind of a window of type 2, and gives its key.
    fn bind(&mut self, wr_id: u64, window: Piece, rights: AccessFlags) -> Result<u32>;
    /// Completions: waits until there are so many, but not for ever; there may be more.
    fn poll(&mut self, count: usize) -> Result<Vec<Done>>;
    /// Asks for an event of the next solicited completion.
    fn arm(&mut self) -> Result<()>;
    /// Whether it comes.
    fn event(&mut self) -> Result<bool>;
    /// Looks at all that is there.
    fn end(&mut self) -> Result<End>;
    /// Waits a little.
    fn pause(&mut self) -> Result<()>;
}
