// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports for peers (`docs/src/selective.md`, "Report"): what is missing of their requests.
//!
//! ```text
//!  gaps, eight parts each --> [ 256 marks, how far ] --> packet, payload of 40 bytes
//! ```
//!
//! A report that comes while the one before it has not left is dropped: the next one tells more. So what is received never waits for what is sent.
//!
//! **Latency:** 2 cycles after the last part. **Reset:** there is none to send.

use crate::config::RnicConfig;
use crate::fields::assemble;
use crate::rx::keep::report::Gap;
use crate::tx::arbitrate::TxSource;
use crate::tx::Payload;
use crate::types::{QpBroadcast, TxPacket};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Scope, Sig, Stream, Style};
use ferrowire_spec::wire::{report, Opcode};

/// Sends reports; see the page's top.
#[module]
pub fn report(m: &Scope, cfg: &RnicConfig, broadcast: QpBroadcast, gaps: Stream<Gap>) -> TxSource {
    let there = m.reg("there", 1).reset(0);
    gaps.accept(1);
    // Its first part came while another one was there.
    let within = m.reg("within", 1).reset(0);
    let passes = m.reg("passes", 1).no_reset();
    let skips = within.then(passes, there);
    m.when(gaps.fire(), |m| {
        m.set(&within, !gaps.last);
        m.set(&passes, skips);
    });
    let marks = m.reg("marks", 256).no_reset();
    let of = m.reg_of("of", &Gap { word: bits(1), last: bits(1), ..Gap::of(cfg) });
    m.discard(&(of.word, of.last));
    // The first bit on the wire is the highest of its byte.
    let word: Vec<Sig> = (0..32).map(|i| gaps.word.bit((i & !7) + 7 - (i & 7))).collect();
    m.when(gaps.fire() & !skips, |m| {
        m.set(&marks, cat(&[marks.slice(32, 224), cat(&word)]));
        m.set_all(&of, &Gap { word: lit(1, 0), last: lit(1, 0), ..gaps.payload.clone() });
    });
    let comes = gaps.fire() & gaps.last & !skips;

    let given = &broadcast.attributes;
    let looping = m.mem("looping", cfg.qps, &bits(1)).style(Style::Block).build();
    looping.write(given.enable, given.index, &given.entry.loops);
    m.discard(&(given.entry.clone(), broadcast.state.clone()));
    let qp = of.flow.trunc(cfg.qp_bits());
    let loops = looping.read(m, there, qp, Collision::New);
    let looked = m.delay_zero("looked", &there);
    let half = |at: u32| marks.slice(128 * at, 128).swap_bytes();
    let bytes = assemble(
        &report::LAYOUT,
        &[
            (report::BASE, of.base),
            (report::HEARD, of.heard.zext(16)),
            (report::LOST, of.lost.zext(16)),
            (report::ARRIVED_LOW, half(0)),
            (report::ARRIVED_HIGH, half(1)),
        ],
    );
    let told = m.reg("told", 1).reset(0);
    let packet = TxPacket {
        qp,
        opcode: lit(8, Opcode::RcReport.code()),
        psn: of.base,
        payload_bytes: lit(13, report::BYTES),
        loops: cfg.only(cfg.loopback, loops),
        ..TxPacket::of(cfg).zeros()
    };
    let packet = Stream::new(m, "packet", there & looked & !told, packet);
    m.when(packet.fire(), |m| m.set(&told, 1));

    let beats = (report::BYTES as u32).div_ceil(cfg.beat_bytes);
    let padded = bytes.zext(8 * cfg.beat_bytes * beats);
    let parts: Vec<Sig> =
        (0..beats).map(|i| padded.slice(8 * cfg.beat_bytes * i, 8 * cfg.beat_bytes)).collect();
    let at = m.reg("at", clog2(u64::from(beats) + 1)).reset(0);
    let data = match beats {
        1 => parts[0],
        _ => m.select(at.trunc(clog2(beats.into())), &parts),
    };
    let last = at.eq(beats - 1);
    let payload = Stream::new(m, "payload", told, Payload::of_one_piece(data, last, lit(1, 0)));
    m.when(payload.fire(), |m| {
        m.set(&at, at + 1);
        m.when(last, |m| {
            m.set(&at, 0);
            m.set(&told, 0);
        });
    });
    m.when(comes, |m| m.set(&there, 1)).otherwise_when(payload.fire() & last, |m| m.set(&there, 0));
    TxSource { packet, payload: Some(payload) }
}
