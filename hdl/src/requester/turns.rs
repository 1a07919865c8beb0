// SPDX-License-Identifier: MIT OR Apache-2.0
//! Payload that was read and payload that stood in the WQE, in the order of the packets.
//!
//! ```text
//!  turns of commit ------> whose turn? --+
//!                                        v
//!  payload that was read ------------> choose --> payload of the packets
//!  inline data ----------------------->  ^
//!  launch: sent or not -----------------+
//! ```
//!
//! Read data are never held up, so inline data cannot wait among them in the payload buffer: they come in here. A packet of
//! inline data waits for `launch`, which has heard of everything before it by then: where its QP is barred, the packet is
//! poisoned like one whose payload could not be read, and nobody hears of it. Inline data of packets that `commit` did not
//! send are passed over.
//!
//! Latency 0, a beat a cycle, and a cycle for each beat that is passed over. There is a path from the output's `ready` to that of the beats;
//! turns and verdicts are caught. Reset forgets them.

use crate::requester::gather::Inline;
use crate::stream::catch;
use crate::tx::Payload;
use ferrowire_rtl::{bits, module, Bundle, Interface, Scope, Sig, Stream};

/// Whence the next payload comes.
#[derive(Clone, Bundle)]
pub struct Turn {
    /// It stood in the WQE.
    pub inline: Sig,
    /// And is not sent.
    pub skip: Sig,
}

impl Turn {
    /// The shape.
    pub fn of() -> Self {
        Turn { inline: bits(1), skip: bits(1) }
    }
}

/// What may come.
#[derive(Interface)]
pub struct Sources {
    /// Payload that was read.
    pub read: Stream<Payload>,
    /// Inline data.
    pub inline: Stream<Inline>,
    /// For each packet of inline data that `commit` sent, in order: it must not be sent.
    pub verdicts: Stream<Sig>,
}

/// Chooses.
#[module]
pub fn take_turns(m: &Scope, turns: Stream<Turn>, sources: Sources) -> Stream<Payload> {
    let Sources { read, inline, verdicts } = sources;
    let turns = catch(&m.label("turn"), turns);
    let verdicts = catch(&m.label("verdict"), verdicts);
    let skips = turns.valid & turns.inline & turns.skip;
    let sends = turns.valid & turns.inline & !turns.skip & verdicts.valid;
    let reads = turns.valid & !turns.inline;
    let from_wqe = Payload::of_one_piece(inline.data, inline.last, inline.last & verdicts.payload);
    let payload = m.mux(turns.inline, &from_wqe, &read.payload);
    let valid = m.mux(turns.inline, &(sends & inline.valid), &(reads & read.valid));
    let out = Stream::new(m, "out", valid, payload);
    read.accept(reads & out.ready);
    inline.accept(skips | (sends & out.ready));
    let over = (out.fire() & out.last) | (skips & inline.valid & inline.last);
    turns.accept(over);
    verdicts.accept(out.fire() & out.last & turns.inline);
    out
}

#[cfg(test)]
mod tests;
