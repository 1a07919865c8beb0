// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes a request's frame from the packet buffer, writes its payload to host memory, then answers and completes.
//!
//! ```text
//!  order --+--> beats of the payload -----> realign --> DMA write, one a piece
//!          |          ^                       ^              |
//!  frame --|----------+ the rest is forgotten |              v last of the packet
//!  piece --+----------------------------------+-----> answer, completion
//! ```
//!
//! A frame passes at one beat a cycle where its pieces let it; a piece that begins within a beat takes the beat again. Answer
//! and completion follow in the cycle after the last beat of the packet's last write, so they never overtake the data,
//! and the next packet's data do not wait for them. A packet that is not executed costs only the reading of its beats, and a
//! cycle for each of its pieces.
//!
//! An atomic's answer has no payload: its value comes as a number, and is placed as the host has numbers, least byte first (IBTA volume 1,
//! 9.4.5.1). What an answer brought is told to the completer in its place, as an outcome.
//!
//! Reset: idle.

use crate::config::RnicConfig;
use crate::host::dma::Order;
use crate::memory::Passage;
use crate::responder::order::{Operands, Outcome, Piece};
use crate::responder::reply::{Kind, Reply, Served};
use crate::stream::{breath, fifo, fork, half, realign, shown_fifo, Beat, Realign};
use crate::types::{Completion, DmaWrite};
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Interface, Scope, Sig, Stream};

/// What to do with a frame.
#[derive(Clone, Bundle)]
pub struct Place {
    /// There is a frame; otherwise there is only a completion.
    pub frame: Sig,
    /// Instead of a frame's payload, a value that waits for it is written.
    pub value: Sig,
    /// Its payload is written.
    pub write: Sig,
    /// Pieces that belong to it, written or not.
    pub pieces: Sig,
    /// Place of the payload in the frame.
    pub offset: Sig,
    /// Its length.
    pub bytes: Sig,
    /// An answer follows.
    pub answer: Sig,
    /// A `reply::Kind`.
    pub kind: Sig,
    /// Operands wait for it, and are taken, whether there is an answer or not.
    pub operands: Sig,
    /// It was asked for before.
    pub again: Sig,
    /// And is not granted any more.
    pub refused: Sig,
    /// A new READ or atomic, to which `check` has given a place.
    pub counted: Sig,
    /// From this QP.
    pub qp: Sig,
    /// The answer's PSN.
    pub psn: Sig,
    /// Its syndrome.
    pub syndrome: Sig,
    /// Its MSN.
    pub msn: Sig,
    /// It answers a READ or an atomic: status and cause of the completion are its outcome.
    pub result: Sig,
    /// A completion follows.
    pub completes: Sig,
    /// This one.
    pub completion: Completion,
}

impl Place {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Place {
            frame: bits(1),
            value: bits(1),
            write: bits(1),
            pieces: bits(6),
            offset: bits(7),
            bytes: bits(13),
            answer: bits(1),
            kind: bits(2),
            operands: bits(1),
            again: bits(1),
            refused: bits(1),
            counted: bits(1),
            qp: bits(cfg.qp_bits()),
            psn: bits(24),
            syndrome: bits(8),
            msn: bits(24),
            result: bits(1),
            completes: bits(1),
            completion: Completion::of(cfg),
        }
    }
}

/// Which beats of a frame hold payload that is to be written.
#[derive(Clone, Bundle)]
struct Span {
    value: Sig,
    write: Sig,
    first: Sig,
    last: Sig,
}

/// The pieces of a packet.
#[derive(Clone, Bundle)]
struct Pieces {
    write: Sig,
    count: Sig,
    lane: Sig,
}

/// A write.
#[derive(Clone, Bundle)]
struct Target {
    piece: Piece,
    /// The packet's last.
    last: Sig,
}

/// What follows the data.
#[derive(Clone, Bundle)]
struct Ending {
    steps: Steps,
    says: Says,
}

/// What is to be done.
#[derive(Clone, Bundle)]
struct Steps {
    write: Sig,
    answer: Sig,
    operands: Sig,
    /// A place that was counted is not used.
    unused: Sig,
    result: Sig,
    completes: Sig,
}

/// What is said.
#[derive(Clone, Bundle)]
struct Says {
    kind: Sig,
    again: Sig,
    refused: Sig,
    qp: Sig,
    psn: Sig,
    syndrome: Sig,
    msn: Sig,
    completion: Completion,
}

/// The queue of what follows. Registers show what is to be done: it decides who takes what is said.
fn queue(m: &Scope, cfg: &RnicConfig, endings: Stream<Ending>) -> Stream<Ending> {
    if cfg.unhurried() {
        return half(&m.label("ending"), fifo(&m.label("endings"), ENDINGS, endings));
    }
    let room = m.wire("endings_room", 1);
    let steps = Stream::new(m, "steps", endings.valid & room, endings.steps.clone());
    m.assert(!steps.valid | steps.ready, "its queue has a place more than that of what is said");
    let says = Stream::new(m, "says", endings.valid, endings.says.clone());
    m.drive(&room, says.ready);
    endings.accept(says.ready);
    let steps = shown_fifo(&m.label("steps"), ENDINGS, steps);
    let says = fifo(&m.label("endings"), ENDINGS, says);
    m.assert(steps.valid.eq(says.valid), "both come together");
    let ending = Ending { steps: steps.payload.clone(), says: says.payload.clone() };
    let out = Stream::new(m, "ending", steps.valid, ending);
    steps.accept(out.ready);
    says.accept(out.ready);
    out
}

/// Packets between their frames and their endings.
const ENDINGS: u32 = 8;

/// Beats in their lanes that the write channel has not taken.
const ELASTIC: u32 = 16;

/// What comes out.
#[derive(Interface)]
pub struct Placed {
    /// The payload.
    pub write: Stream<DmaWrite>,
    /// What is to be answered.
    pub replies: Stream<Reply>,
    /// A new READ or atomic was not executed.
    pub unused: Served,
    /// Receives that have ended.
    pub completions: Stream<Completion>,
    /// What became of each answer.
    pub outcomes: Stream<Outcome>,
    /// Pieces that are being written.
    pub writing: Passage,
}

/// The placer. `pieces`: those of all packets, in order.
#[module]
pub fn place(
    m: &Scope,
    cfg: &RnicConfig,
    orders: Stream<Place>,
    pieces: Stream<Piece>,
    frames: Stream<Beat>,
    operands: Stream<Operands>,
    values: Stream<Sig>,
) -> Placed {
    let lanes = cfg.lane_bits();
    m.discard(&frames.payload);
    // Who brings them need not know in the same cycle that they wait.
    let frames = fifo(&m.label("frames"), 2, frames);

    // An order goes three ways, each with a queue, so that the next one is checked while this one moves.
    let mut ways = fork(m, 3, orders).into_iter();
    let mut way = || ways.next().expect("three ways");
    let wide = |s: Sig| s.zext(14);
    let spans = way();
    let no_frame = !(spans.frame | spans.value);
    let spans = spans.discard_if(m, no_frame).map(|order| Span {
        value: order.value,
        write: order.write,
        first: wide(order.offset).slice(lanes, 14 - lanes),
        last: (wide(order.offset) + wide(order.bytes) - 1).slice(lanes, 14 - lanes),
    });
    let spans = fifo(&m.label("spans"), 4, spans);
    let spans = breath(&m.label("span"), cfg.unhurried(), spans);
    let cuts = way();
    let no_pieces = cuts.pieces.eq(0);
    let cuts = cuts.discard_if(m, no_pieces).map(|order| Pieces {
        write: order.write,
        count: order.pieces,
        lane: order.offset.trunc(lanes),
    });
    let cuts = fifo(&m.label("cuts"), 4, cuts);
    let endings = way();
    let silent = !(endings.write | endings.answer | endings.operands | endings.completes | endings.result);
    let endings = endings.discard_if(m, silent).map(|order| Ending {
        steps: Steps {
            write: order.write,
            answer: order.answer,
            operands: order.operands,
            unused: order.counted & !(order.answer & order.kind.ne(Kind::Acknowledge.code())),
            result: order.result,
            completes: order.completes,
        },
        says: Says {
            kind: order.kind,
            again: order.again,
            refused: order.refused,
            qp: order.qp,
            psn: order.psn,
            syndrome: order.syndrome,
            msn: order.msn,
            completion: order.completion.clone(),
        },
    });
    let endings = queue(m, cfg, endings);

    // In: the payload's beats go on, the others do not.
    let at = m.reg("at", 14 - lanes).reset(0);
    let payload = spans.write & (spans.value | (at.ge(spans.first) & at.le(spans.last)));
    // It leaves its queue a cycle later, for that the packet goes is known late.
    let value_used = m.reg("value_used", 1).reset(0);
    let moving = spans.valid & m.mux(spans.value, &!value_used, &frames.valid);
    m.assert(!(moving & spans.value) | values.valid, "values come before their packet");
    let beat = 8 * cfg.beat_bytes;
    // What is in the lanes above a value does not matter.
    let mut bytes = m.mux(spans.value, &values.payload, &frames.data.trunc(64));
    if beat > 64 {
        bytes = cat([&bytes, &frames.data.slice(64, beat - 64)]);
    }
    let data = Stream::new(m, "data", moving & payload, bytes);
    let passes = moving & (data.ready | !payload);
    frames.accept(spans.valid & !spans.value & (data.ready | !payload));
    let finished = passes & (frames.last | spans.value);
    spans.accept(finished);
    m.set(&value_used, finished & spans.value);
    values.accept(value_used);
    // Padding behind the packet may be longer than `at` counts.
    let beyond = m.mux(at.all(), &at, &(at + 1));
    m.when(passes & !spans.value, |m| m.set(&at, m.mux(frames.last, &lit(14 - lanes, 0), &beyond)));

    // A command and a target for each piece; those of a packet that is not executed are forgotten.
    let number = m.reg("number", 6).reset(0);
    let lane = m.reg("lane", lanes).no_reset();
    let from = m.mux(number.eq(0), &cuts.lane, &lane);
    let behind = (from + pieces.bytes.trunc(lanes)).named("behind");
    let last_piece = (number + 1).eq(cuts.count);
    let piece = pieces.payload.clone();
    let both = cuts.valid & pieces.valid;
    let (command_room, target_room) = (m.wire("command_room", 1), m.wire("target_room", 1));
    let command = Realign {
        from_lane: from,
        to_lane: piece.address.trunc(lanes),
        length: piece.bytes,
        keep: !last_piece & behind.ne(0),
    };
    let command = Stream::new(m, "command", both & cuts.write & target_room, command);
    m.drive(&command_room, command.ready);
    let target = Target { piece, last: last_piece };
    let target = Stream::new(m, "target", both & cuts.write & command_room, target);
    m.drive(&target_room, target.ready);
    let aimed = target.fire();
    let piece_goes = both & ((command_room & target_room) | !cuts.write);
    pieces.accept(piece_goes);
    cuts.accept(piece_goes & last_piece);
    m.when(piece_goes, |m| {
        m.set(&number, m.mux(last_piece, &lit(6, 0), &(number + 1)));
        m.set(&lane, behind);
    });
    let command = fifo(&m.label("command"), 4, command);
    // As many as are between a piece and its write.
    let targets = fifo(&m.label("targets"), 8, target);
    // Frames may fill the wire, and have a beat more than what is written of them: the cycles that the write channel gives to others in between
    // are made up for in those.
    let moved = fifo(&m.label("moved"), ELASTIC, realign(m, command, data));

    // Out: one write a piece.
    let write = DmaWrite {
        address: targets.piece.address,
        length: targets.piece.bytes,
        data: moved.data,
        strobe: moved.strobe,
        last: moved.last,
        order: targets.piece.relaxed.then(Order::Relaxed.code(), Order::Payload.code()),
    };
    let finished_bits = ENDINGS.ilog2() + 1;
    let ended = m.reg("ended", finished_bits).reset(0);
    // The next write does not pass the endings that may be counted.
    let write = Stream::new(m, "write", targets.valid & moved.valid, write);
    moved.accept(targets.valid & write.ready);
    let written = write.fire() & moved.last;
    targets.accept(written);
    let packet_written = written & targets.last;

    // Then the answer and the completion.
    let any_ended = m.reg("any_ended", 1).reset(0);
    let Ending { steps, says } = endings.payload.clone();
    let has_ended = !steps.write | any_ended;
    let done_with = |name: &str| m.reg(name, 1).reset(0);
    let (answered, completed, resulted) =
        (done_with("answered"), done_with("completed"), done_with("resulted"));
    m.assert(!(endings.valid & steps.operands) | operands.valid, "operands come with their packet");
    let reply = Reply {
        qp: says.qp,
        kind: says.kind,
        psn: says.psn,
        syndrome: says.syndrome,
        msn: says.msn,
        va: operands.va,
        rkey: operands.rkey,
        length: operands.length,
        swap: operands.swap,
        compare: operands.compare,
        compares: operands.compares,
        again: says.again,
        refused: says.refused,
    };
    let ready = endings.valid & has_ended;
    let answer = Stream::new(m, "reply", ready & steps.answer & !answered, reply);
    let completion =
        Stream::new(m, "completion", ready & steps.completes & !completed, says.completion.clone());
    let answer_done = !steps.answer | answered | answer.ready;
    let completion_done = !steps.completes | completed | completion.ready;
    let outcome = Outcome { status: says.completion.status, cause: says.completion.syndrome };
    let outcome = Stream::new(m, "outcome", ready & steps.result & !resulted, outcome);
    let result_done = !steps.result | resulted | outcome.ready;
    let all_done = answer_done & completion_done & result_done;
    let closes = ready & all_done;
    endings.accept(has_ended & all_done);
    operands.accept(closes & steps.operands);
    let unused = Served { valid: closes & steps.unused, qp: says.qp };
    m.set(&answered, ready & !closes & (answered | answer.fire()));
    m.set(&completed, ready & !closes & (completed | completion.fire()));
    m.set(&resulted, ready & !closes & (resulted | outcome.fire()));
    let uses_one = closes & steps.write;
    m.set(&ended, ended + packet_written.zext(finished_bits) - uses_one.zext(finished_bits));
    m.set(&any_ended, packet_written | (any_ended & !(uses_one & ended.eq(1))));
    m.assert(any_ended.eq(ended.ne(0)), "the flag tells whether a packet has been written");
    let outcomes = fifo(&m.label("outcomes"), 4, outcome);
    let writing = Passage { enters: aimed, leaves: written };
    Placed { write, replies: answer, unused, completions: completion, outcomes, writing }
}
