// SPDX-License-Identifier: MIT OR Apache-2.0
//! WQEs as they come from host memory: each with its QP and its index.
//!
//! A FIFO with a place for every WQE that the scheduler may ask for, so that read data is never held up; behind it,
//! beats narrower than a WQE are put together. One WQE every `64 / beat_bytes` cycles. A failed read marks each of its
//! WQEs.

use crate::config::RnicConfig;
use crate::requester::schedule::{wqe_places, Grant};
use crate::stream::deep_fifo;
use crate::types::DmaReadData;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Scope, Sig, Stream};

/// A WQE's first unit as it lay in the queue.
#[derive(Clone, Bundle)]
pub struct Fetched {
    /// Whose.
    pub qp: Sig,
    /// Its index, free-running.
    pub index: Sig,
    /// 64 bytes.
    pub unit: Sig,
    /// The read failed.
    pub error: Sig,
}

impl Fetched {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Fetched { qp: bits(cfg.qp_bits()), index: bits(16), unit: bits(512), error: bits(1) }
    }
}

/// Pairs grants with what their reads bring.
#[module]
pub fn fetch(
    m: &Scope,
    cfg: &RnicConfig,
    grants: Stream<Grant>,
    data: Stream<DmaReadData>,
) -> Stream<Fetched> {
    let beats = 64 / cfg.beat_bytes;
    m.discard(&data.payload);
    let data = deep_fifo(&m.label("wqe"), wqe_places(cfg) * beats, data);
    let (unit, error, whole) = match beats {
        1 => (data.data, data.error, lit(1, 1)),
        _ => {
            let part_bits = clog2(u64::from(beats));
            let part = m.reg("part", part_bits).reset(0);
            let held = m.reg("held", 512 - 8 * cfg.beat_bytes).no_reset();
            let failed = m.reg("failed", 1).reset(0);
            let whole = part.eq(beats - 1);
            m.when(data.fire(), |m| {
                m.set(&part, part + 1);
                m.set(&held, cat(&[held, data.data]).slice(8 * cfg.beat_bytes, 512 - 8 * cfg.beat_bytes));
                m.set(&failed, (failed | data.error) & !whole);
            });
            (cat(&[held, data.data]), data.error | failed, whole)
        }
    };
    let done = m.reg("done", 7).reset(0);
    let index = grants.index + done.zext(16);
    let valid = data.valid & grants.valid & whole;
    let out = Stream::new(m, "out", valid, Fetched { qp: grants.qp, index, unit, error });
    let last = (done + 1).eq(grants.count);
    data.accept(grants.valid & (out.ready | !whole));
    grants.accept(out.fire() & last);
    m.when(out.fire(), |m| m.set(&done, m.mux(last, &lit(7, 0), &(done + 1))));
    out
}
