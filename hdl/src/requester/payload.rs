// SPDX-License-Identifier: MIT OR Apache-2.0
//! Payload between host memory and the packets.
//!
//! A FIFO of `payload_buffer_bytes` in block RAM, for which `commit` has reserved room before it asked: read data is
//! never held up. A packet that lay on two pages came with two reads; here it becomes one run of beats again. One beat
//! a cycle.

use crate::config::RnicConfig;
use crate::stream::deep_fifo;
use crate::tx::Payload;
use crate::types::DmaReadData;
use ferrowire_rtl::{module, Interface, Scope, Sig, Stream};

/// What comes out.
#[derive(Interface)]
pub struct PayloadOut {
    /// The packets' payload, in order.
    pub payload: Stream<Payload>,
    /// A beat has left: its room is free.
    pub taken: Sig,
}

/// The payload buffer. `ends` tells for each read whether its packet ends with it.
#[module]
pub fn payload(m: &Scope, cfg: &RnicConfig, data: Stream<DmaReadData>, ends: Stream<Sig>) -> PayloadOut {
    m.discard(&data.error);
    let last = data.last & ends.payload;
    let beats = Stream::new(m, "beats", data.valid & ends.valid, Payload { data: data.data, last });
    data.accept(ends.valid & beats.ready);
    ends.accept(beats.fire() & data.last);
    let payload = deep_fifo(&m.label("payload"), cfg.payload_buffer_bytes / cfg.beat_bytes, beats);
    let taken = payload.fire();
    PayloadOut { payload, taken }
}
