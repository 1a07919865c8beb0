// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of the protocol of a serial line to a board, once: see the page "The serial line" of the book.

/// Version of the protocol.
pub const VERSION: u8 = 1;

/// First four bytes of what a bridge says of itself: "FWSB".
pub const MAGIC: u32 = u32::from_le_bytes(*b"FWSB");

/// Requests that may be without answer, and answers that are kept.
pub const WINDOW: u32 = 8;

/// Bytes of a block of memory: no access crosses a multiple of it.
pub const BLOCK: u32 = 256;

/// Bytes of a request before its data.
pub const HEAD: u32 = 8;

/// Bytes of an answer before its data.
pub const ANSWER_HEAD: u32 = 4;

/// Bytes of a frame's check.
pub const CHECK: u32 = 4;

/// Bytes that the answer to [`Command::Hello`] has.
pub const HELLO_BYTES: u32 = 40;

/// Bytes that the answer to [`Command::Status`] has.
pub const STATUS_BYTES: u32 = 16;

/// The most bytes that the answer to [`Command::Dirty`] has: a bit for each block.
pub const DIRTY_BYTES: u32 = 32;

/// Bit of a command that an answer has.
pub const ANSWER: u8 = 0x80;

/// First byte of a notice: it is an answer to no request, and has not the bit of one.
pub const NOTICE: u8 = 0;

/// Flag of an answer: an event queue has raised an interrupt.
pub const INTERRUPTS: u8 = 1;

/// The mark before and behind a frame (SLIP, RFC 1055).
pub const END: u8 = 0xc0;
/// Within a frame: the next byte stands for another.
pub const ESC: u8 = 0xdb;
/// Stands for [`END`] behind [`ESC`].
pub const ESC_END: u8 = 0xdc;
/// Stands for [`ESC`] behind [`ESC`].
pub const ESC_ESC: u8 = 0xdd;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins a session: what the board is.
    Hello = 1,
    /// Reads 4 or 8 bytes of BAR 0.
    CsrRead = 2,
    /// Writes 4 or 8 bytes of BAR 0.
    CsrWrite = 3,
    /// Reads memory.
    Read = 4,
    /// Writes memory.
    Write = 5,
    /// Interrupts since the last time, and the clock.
    Status = 6,
    /// Blocks that the card has written since the last time, a bit each.
    Dirty = 7,
    /// Writes zeros to memory.
    Clear = 8,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is done.
    Okay = 0,
    /// No such command.
    Command = 1,
    /// The length is none of the command, or not that of the data.
    Length = 2,
    /// Nothing is there, or it is not aligned, or it crosses a block.
    Address = 3,
    /// The bus answered with SLVERR or DECERR.
    Bus = 4,
}

/// Why there is a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An interrupt.
    Interrupt = 0,
    /// A frame was not as it was sent.
    Broken = 1,
    /// A request is missing: the number is that of the one that is expected.
    Gap = 2,
    /// There was no [`Command::Hello`] since reset.
    NoSession = 3,
    /// The request before is still under way.
    Busy = 4,
}

impl Status {
    /// From its code.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Okay, Self::Command, Self::Length, Self::Address, Self::Bus]
            .into_iter()
            .find(|known| *known as u8 == code)
    }
}

impl Reason {
    /// From its code.
    pub fn from_code(code: u8) -> Option<Self> {
        let all = [Self::Interrupt, Self::Broken, Self::Gap, Self::NoSession, Self::Busy];
        all.into_iter().find(|known| *known as u8 == code)
    }
}
