// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads of host memory as bursts.
//!
//! ```text
//!  read --> behind the payload written before --> bursts --+--> AR
//!                                                          +--> is it the read's last one?
//!                                                                        |
//!  data <---------------------------------------------------- last, error -------- R
//! ```
//!
//! All reads have one ID, so that their data comes in order (AMBA AXI4, A5.3.1). A beat a cycle; four cycles from a read to its address, none from R to
//! the data. `RREADY` falls only while nobody has asked for anything.
//!
//! A burst has whole beats: bytes around those that were asked for are read, and mean nothing.
//!
//! A beat with an error response spoils its read from there on.

use super::barrier::{barrier, Bursts};
use super::bursts::{bursts, Burst, Run};
use super::{ReadBeat, DATA, ID_BITS};
use crate::config::RnicConfig;
use crate::stream::{fifo, fork};
use crate::types::{DmaReadData, DmaReadRequest};
use ferrowire_rtl::{lit, module, Interface, Scope, Sig, Stream};

/// Reads that wait for writes before them.
const WAITING: u32 = 16;

/// Bursts under way.
const UNDER_WAY: u32 = 256;

/// What comes of reads.
#[derive(Interface)]
pub struct Reads {
    /// Bursts that are asked for.
    pub address: Stream<Burst>,
    /// What was read.
    pub data: Stream<DmaReadData>,
    /// A read fails in this cycle.
    pub error: Sig,
}

/// Reads host memory. `payload`: what was written there.
#[module]
pub fn reads(
    m: &Scope,
    cfg: &RnicConfig,
    read: Stream<DmaReadRequest>,
    payload: Bursts,
    came: Stream<ReadBeat>,
) -> Reads {
    let free = barrier(m, WAITING, vec![payload], read);
    let runs = free.map(|read| Run { address: read.address, length: read.length, id: lit(ID_BITS, DATA) });
    let mut parts = fork(m, 2, bursts(m, cfg, runs)).into_iter();
    let mut part = || parts.next().expect("two parts");
    let address = part();
    let ends = fifo(m, UNDER_WAY, part().map(|burst| burst.last));

    m.discard(&came.id);
    let failed = m.reg("failed", 1).reset(0);
    let last = (came.last & ends.payload).named("is_last");
    let error = (failed | came.resp.bit(1)).named("is_error");
    let data = DmaReadData { data: came.data, last, error };
    let data = Stream::new(m, "data", came.valid & ends.valid, data);
    came.accept(data.ready & ends.valid);
    ends.accept(came.fire() & came.last);
    m.when(data.fire(), |m| m.set(&failed, error & !last));
    let error = data.fire() & came.resp.bit(1) & !failed;
    Reads { address, data, error }
}
