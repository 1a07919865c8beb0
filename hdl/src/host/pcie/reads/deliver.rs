// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delivers what was read, in the order in which it was asked for; gives up what does not come.
//!
//! ```text
//!  order --> head: over? too long under way? --> rows, one a cycle --> dma_data
//! departed --> times ----------^
//! ```
//!
//! A row a cycle, also from one request to the next. Latency 3 from when the request is over.

use super::issue::Order;
use super::{write, Sizes, Sweep, Tables};
use crate::config::RnicConfig;
use crate::stream::{deep_fifo, fifo, forward};
use crate::types::DmaReadData;
use ferrowire_rtl::{clog2, lit, Collision, Scope, Sig, Stream};

/// Parts of the time-out in which time is counted.
const PARTS: u32 = 16;
/// Bits of such a count; it wraps after four time-outs. What waits so long for the data before it to be taken may be given up a time-out late.
const TIME: u32 = 6;

pub struct Delivered {
    pub data: Stream<DmaReadData>,
    /// A row is free again.
    pub freed: Sig,
    pub timeout: Sig,
}

/// Cycles of a part of the time-out.
fn part_cycles(cfg: &RnicConfig) -> u64 {
    let cycles = u64::from(cfg.pcie_timeout_us) * u64::from(cfg.clock_khz) / 1000;
    cycles.div_ceil(u64::from(PARTS)).max(1)
}

pub fn deliver(
    m: &Scope,
    cfg: &RnicConfig,
    s: Sizes,
    tables: &Tables,
    sweep: &Sweep,
    order: Stream<Order>,
    departed: Sig,
) -> Delivered {
    // When each request left.
    let period = part_cycles(cfg);
    let count = m.reg("part", clog2(period).max(1)).reset(0);
    let now = m.reg("now", TIME).reset(0);
    let over = count.eq(period - 1);
    m.set(&count, over.then(lit(count.width(), 0), count + 1));
    m.when(over, |m| m.set(&now, now + 1));
    let times = Stream::new(m, "times", departed, now);
    m.assert(!times.valid | times.ready, "as many times as tags");
    let time = fifo(&m.label("times"), s.tags, times);

    let order = match s.tags {
        0..=64 => fifo(&m.label("order"), s.tags, order),
        // Block RAM is slow to read, and nothing comes of a request in the cycle in which it is asked for.
        _ => forward(&m.label("order_shown"), deep_fifo(&m.label("order"), s.tags, order)),
    };
    let ended = tables.ended.read_now(order.tag);
    let finished = (ended.phase.eq(order.phase) & !order.refused & time.valid).named("finished");
    // From a register, of the request whose time this is.
    let aged = m.reg("aged", 1).reset(0);
    let expired = (aged & time.valid & !order.refused & !finished).named("expired");

    // The request whose rows go out.
    let busy = m.reg("busy", 1).reset(0);
    let left = m.reg("rows_left", order.rows.width()).no_reset();
    let (last, failed) = (m.reg("is_last", 1).no_reset(), m.reg("is_failed", 1).no_reset());
    let row = m.reg("deliver_row", s.row).reset(0);
    let shown = m.reg("shown", 1).reset(0);
    let (shown_last, shown_failed) = (m.reg("shown_last", 1).no_reset(), m.reg("shown_failed", 1).no_reset());
    let ready = m.wire("ready", 1);
    let step = (busy & (!shown | ready)).named("step");
    let ends = step & left.eq(0);
    let loads = ((!busy | ends) & order.valid & (order.refused | finished | expired)).named("loads");
    order.accept((!busy | ends) & (order.refused | finished | expired));
    time.accept(loads & !order.refused);
    let age = (now - time.payload).named("age");
    m.set(&aged, time.valid & !time.ready & age.gt(PARTS));
    // A cycle later: what comes of it until then is put into its rows, as what came just before.
    let gone = m.delay_zero("gone", &(time.ready & time.valid));
    write(
        m,
        &tables.passed,
        sweep,
        gone,
        m.delay("gone_tag", &order.tag),
        &m.delay("gone_phase", &order.phase),
    );
    m.when(step, |m| {
        m.set(&row, row + 1);
        m.set(&left, left - 1);
        m.set(&shown_last, left.eq(0) & last);
        m.set(&shown_failed, failed);
    });
    m.when(loads, |m| {
        m.set(&left, order.rows);
        m.set(&last, order.last);
        m.set(&failed, order.refused | expired | ended.failed);
    });
    m.set(&busy, loads | (busy & !ends));
    m.set(&shown, step | (shown & !ready));
    // Data of a request that was given up may come while its rows go out, and nobody looks at these.
    let data = tables.rows.read(m, step, row, Collision::Any);
    let out = Stream::new(m, "data", shown, DmaReadData { data, last: shown_last, error: shown_failed });
    m.drive(&ready, out.ready);
    let timeout = loads & expired;
    Delivered { data: out, freed: step, timeout }
}
