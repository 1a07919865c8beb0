// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes a request's frame from the packet buffer, writes its payload to host memory, then answers.
//!
//! ```text
//!  place --+--> beats of the payload --> realign --> cut at the page --> DMA write
//!          |          ^                                    |
//!  frame --+----------+ the rest is forgotten              v
//!          +----------------------------------------> answer, once the write is out
//! ```
//!
//! A frame passes at one beat a cycle; the answer follows in the cycle after the last beat of its write, so it never
//! overtakes the data. A packet that is not executed costs only the reading of its beats.
//!
//! Reset: idle.

use crate::config::RnicConfig;
use crate::stream::{fifo, fork, realign, Beat, Realign};
use crate::types::{DmaWrite, TxPacket};
use ferrowire_rtl::{bits, lit, module, Bundle, Interface, Scope, Sig, Stream};
use ferrowire_spec::wire::opcode::Opcode;

/// What to do with a frame.
#[derive(Clone, Bundle)]
pub struct Place {
    /// There is payload to write.
    pub write: Sig,
    /// Place of the payload in the frame.
    pub offset: Sig,
    /// Its length.
    pub bytes: Sig,
    /// Bus address of its first byte.
    pub address: Sig,
    /// Bus address of its continuation on a second page.
    pub second_address: Sig,
    /// An answer follows.
    pub answer: Sig,
    /// From this QP.
    pub qp: Sig,
    /// The answer's PSN.
    pub psn: Sig,
    /// Its syndrome.
    pub syndrome: Sig,
    /// Its MSN.
    pub msn: Sig,
}

impl Place {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Place {
            write: bits(1),
            offset: bits(7),
            bytes: bits(13),
            address: bits(64),
            second_address: bits(64),
            answer: bits(1),
            qp: bits(cfg.qp_bits()),
            psn: bits(24),
            syndrome: bits(8),
            msn: bits(24),
        }
    }
}

/// Which beats of a frame hold payload that is to be written.
#[derive(Clone, Bundle)]
struct Span {
    write: Sig,
    first: Sig,
    last: Sig,
}

/// What comes out.
#[derive(Interface)]
pub struct Placed {
    /// The payload.
    pub write: Stream<DmaWrite>,
    /// ACKs and NAKs.
    pub answers: Stream<TxPacket>,
}

/// The placer.
#[module]
pub fn place(m: &Scope, cfg: &RnicConfig, orders: Stream<Place>, frames: Stream<Beat>) -> Placed {
    let lanes = cfg.lane_bits();
    m.discard(&frames.payload);

    // An order goes three ways, each with a queue, so that the next one is checked while this one moves.
    let mut ways = fork(m, 3, orders).into_iter();
    let mut way = || ways.next().expect("three ways");
    let wide = |s: Sig| s.zext(14);
    let orders = way().map(|order| Span {
        write: order.write,
        first: wide(order.offset).slice(lanes, 14 - lanes),
        last: (wide(order.offset) + wide(order.bytes) - 1).slice(lanes, 14 - lanes),
    });
    let orders = fifo(&m.label("orders"), 4, orders);
    // As many as are between the frame and its write.
    let meta = fifo(&m.label("meta"), 8, way());
    let command = way();
    let empty = !command.write;
    let command = command.discard_if(m, empty).map(|order| Realign {
        from_lane: order.offset.trunc(lanes),
        to_lane: order.address.trunc(lanes),
        length: order.bytes,
    });
    let command = fifo(&m.label("command"), 4, command);

    // In: the payload's beats go on, the others do not.
    let at = m.reg("at", 14 - lanes).reset(0);
    let payload = orders.write & at.ge(orders.first) & at.le(orders.last);
    let moving = frames.valid & orders.valid;
    let data = Stream::new(m, "data", moving & payload, frames.data);
    let passes = moving & (data.ready | !payload);
    frames.accept(orders.valid & (data.ready | !payload));
    let finished = passes & frames.last;
    orders.accept(finished);
    // Padding behind the packet may be longer than `at` counts.
    let beyond = m.mux(at.all(), &at, &(at + 1));
    m.when(passes, |m| m.set(&at, m.mux(frames.last, &lit(14 - lanes, 0), &beyond)));
    let moved = realign(m, command, data);

    // Out: one write, or two where a page ends.
    let to_page_end = lit(13, 4096) - meta.address.trunc(12).zext(13);
    let crosses = meta.bytes.gt(to_page_end);
    let second = m.reg("second", 1).reset(0);
    let page_end_beat = lit(12 - lanes, 0) - 1;
    let beat = m.reg("beat", 12 - lanes).no_reset();
    let fresh = m.reg("fresh", 1).reset(1);
    let here = m.mux(fresh, &meta.address.slice(lanes, 12 - lanes), &beat);
    let ends_page = crosses & !second & here.eq(page_end_beat);
    let length = m.select(
        ferrowire_rtl::cat(&[second, crosses]),
        &[meta.bytes, meta.bytes, to_page_end, meta.bytes - to_page_end],
    );
    let write = DmaWrite {
        address: m.mux(second, &meta.second_address, &meta.address),
        length,
        data: moved.data,
        strobe: moved.strobe,
        last: moved.last | ends_page,
    };
    let answering = m.reg("answering", 1).reset(0);
    let writing = meta.valid & meta.write & !answering;
    let write = Stream::new(m, "write", writing & moved.valid, write);
    moved.accept(writing & write.ready);
    m.when(write.fire(), |m| {
        m.set(&beat, here + 1);
        m.set(&fresh, moved.last);
        m.set(&second, (second | ends_page) & !moved.last);
    });
    let written = write.fire() & moved.last;

    // The answer.
    let packet = TxPacket {
        qp: meta.qp,
        opcode: lit(8, Opcode::RcAcknowledge.code()),
        solicited: lit(1, 0),
        ack_req: lit(1, 0),
        psn: meta.psn,
        fresh: lit(1, 0),
        va: lit(64, 0),
        rkey: lit(32, 0),
        dma_length: lit(32, 0),
        syndrome: meta.syndrome,
        msn: meta.msn,
        imm: lit(32, 0),
        payload_bytes: lit(13, 0),
        payload_lane: lit(lanes, 0),
    };
    let answers = meta.valid & meta.answer & (answering | !meta.write);
    let answer = Stream::new(m, "answer", answers, packet);
    m.when(written, |m| m.set(&answering, meta.answer))
        .otherwise_when(answer.fire(), |m| m.set(&answering, 0));
    meta.accept(answer.fire() | (!meta.answer & (written | !meta.write)));
    Placed { write, answers: answer }
}
