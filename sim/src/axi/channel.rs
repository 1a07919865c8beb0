// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the channels carry, and the judge of a channel's handshake.

use std::fmt::Debug;

use crate::wire::MAX_BEAT;

/// Bursts of increasing addresses.
pub const INCR: u8 = 1;

/// RRESP and BRESP (AXI4 A3.4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// OKAY.
    Okay = 0,
    /// EXOKAY: of exclusive accesses alone.
    ExclusiveOkay = 1,
    /// SLVERR.
    SubordinateError = 2,
    /// DECERR: nobody is at that address.
    DecodeError = 3,
}

impl Response {
    /// From its two bits.
    pub fn from_code(code: u64) -> Self {
        match code & 3 {
            0 => Response::Okay,
            1 => Response::ExclusiveOkay,
            2 => Response::SubordinateError,
            _ => Response::DecodeError,
        }
    }
}

/// A transfer on AW or AR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// AxID.
    pub id: u8,
    /// AxADDR.
    pub address: u64,
    /// AxLEN: beats less one.
    pub len: u8,
    /// AxSIZE: bytes a beat as a power of two.
    pub size: u8,
    /// AxBURST.
    pub burst: u8,
    /// AxCACHE.
    pub cache: u8,
    /// AxPROT.
    pub prot: u8,
}

impl Address {
    /// A burst of increasing addresses in beats of `width` bytes that has all of `bytes` bytes.
    ///
    /// # Panics
    /// More than 256 beats, or none.
    pub fn of(id: u8, address: u64, bytes: usize, width: usize) -> Self {
        let beats = (address as usize % width + bytes).div_ceil(width);
        let len = beats.checked_sub(1).and_then(|len| u8::try_from(len).ok()).expect("1 to 256 beats");
        Self { id, address, len, size: width.trailing_zeros() as u8, burst: INCR, cache: 0b0010, prot: 0 }
    }

    /// Beats.
    pub fn beats(&self) -> usize {
        usize::from(self.len) + 1
    }

    /// Bytes of a beat.
    pub fn bytes(&self) -> u64 {
        1 << self.size
    }

    /// Address of a beat: the first one need not be aligned, the others are (AXI4 A3.4.1).
    pub fn beat(&self, beat: usize) -> u64 {
        match beat {
            0 => self.address,
            _ => (self.address & !(self.bytes() - 1)).wrapping_add(beat as u64 * self.bytes()),
        }
    }

    /// First and last lane of a beat on a bus of `width` bytes (AXI4 A3.4.2).
    pub fn lanes(&self, beat: usize, width: usize) -> (usize, usize) {
        let at = self.beat(beat);
        let end = (at & !(self.bytes() - 1)) % width as u64 + self.bytes();
        ((at % width as u64) as usize, end as usize)
    }

    /// Bytes from the first one to the end of the last beat.
    pub fn length(&self) -> u64 {
        self.bytes() * self.beats() as u64 - self.address % self.bytes()
    }
}

/// A transfer on W.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBeat {
    /// WDATA, byte 0 in bits 7:0.
    pub data: [u8; MAX_BEAT],
    /// WSTRB.
    pub strobe: u64,
    /// WLAST.
    pub last: bool,
}

/// A transfer on R.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadBeat {
    /// RID.
    pub id: u8,
    /// RDATA.
    pub data: [u8; MAX_BEAT],
    /// RRESP.
    pub response: Response,
    /// RLAST.
    pub last: bool,
}

/// A transfer on B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteResponse {
    /// BID.
    pub id: u8,
    /// BRESP.
    pub response: Response,
}

/// The judge of who drives a channel's VALID: what is on offer stays, as it is, until it is taken (AXI4 A3.2.1).
#[derive(Debug)]
pub(crate) struct Watch<T> {
    waiting: Option<T>,
    /// Cycles for which it has waited.
    pub waited: u64,
}

impl<T> Default for Watch<T> {
    fn default() -> Self {
        Self { waiting: None, waited: 0 }
    }
}

impl<T: Copy + PartialEq + Debug> Watch<T> {
    /// A cycle: what is on offer, and whether it is taken. What passes.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn cycle(&mut self, offer: Option<T>, ready: bool) -> Result<Option<T>, String> {
        let before = self.waiting.take();
        let Some(now) = offer else {
            self.waited = 0;
            return match before {
                Some(_) => Err("VALID falls before READY has come (AXI4 A3.2.1)".into()),
                None => Ok(None),
            };
        };
        let changed = before.is_some_and(|before| before != now);
        self.waiting = (!ready).then_some(now);
        self.waited = if ready { 0 } else { self.waited + 1 };
        if changed {
            return Err("what is on offer changes before READY has come (AXI4 A3.2.1)".into());
        }
        Ok(Some(now).filter(|_| ready))
    }

    /// Whether something waits.
    pub fn waits(&self) -> bool {
        self.waiting.is_some()
    }
}
