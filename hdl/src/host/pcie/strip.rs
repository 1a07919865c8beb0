// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes a completion apart: its header, and its data.
//!
//! ```text
//!            +--> header, 12 bytes -----------------> head
//!  rc beat --+--> beats with data in them ----------> data    as many as the header's length says
//!            +--> whether it was as long as that ---> bad     one for each that has data
//! ```
//!
//! The data begins in lane `12 mod B` of the first beat of `data`. Latency 0, a beat a cycle. The head and the first beat of the data leave
//! when each of them is taken; the packet's beat passes with the slower.
//!
//! Bad input: a packet that ends too early gets beats of noise, what is too long is thrown away, and `bad` says so with the last beat of
//! the data; whoever takes `bad` must have room for it, which is asserted. Whether it is a completion at all is not looked at here.

use crate::fields::field;
use crate::stream::Beat;
use ferrowire_rtl::{cat, clog2, lit, module, Interface, Scope, Sig, Stream};
use ferrowire_spec::pcie::completion;

/// Bytes of the header.
pub const HEADER: u32 = completion::BYTES as u32;

/// The parts of a completion.
#[derive(Interface)]
pub struct Parts {
    /// The header.
    pub head: Stream<Sig>,
    /// Beats with data.
    pub data: Stream<Sig>,
}

/// Takes completions apart.
#[module]
pub fn strip(m: &Scope, rc: Stream<Beat>) -> (Parts, Stream<Sig>) {
    let beat_bytes = rc.bytes();
    let lanes = clog2(u64::from(beat_bytes));
    let flag = |name: &str| m.reg(name, 1).reset(0);
    // Of a narrow beat the header is more than one: then the packet has ended within it, or a beat of it is passed.
    let (header, at_data, short) = match HEADER / beat_bytes {
        0 => (rc.data.trunc(8 * HEADER), rc.valid, lit(1, 0)),
        _ => {
            let (held, first) = (flag("held"), m.reg("first", 8 * beat_bytes).no_reset());
            let rest = rc.data.trunc(8 * (HEADER - beat_bytes));
            m.when(rc.fire(), |m| m.set(&held, !rc.last));
            m.when(rc.fire() & !held, |m| m.set(&first, rc.data));
            let short = (!held & rc.last).named("short");
            (cat(&[short.then(rc.data, first), rest]), rc.valid & (held | rc.last), short)
        }
    };

    // In the middle of the packet; its head has gone, a beat of its data has gone.
    let (within, headed, given) = (flag("within"), flag("headed"), flag("given"));
    // Beats of data wanted behind the one that is there, none but to be thrown away, something was wrong.
    let (left, full, wrong) = (m.reg("left", 13 - lanes).no_reset(), flag("full"), flag("wrong"));

    let of = |which| field(&completion::LAYOUT, which, header);
    let has_data = of(&completion::FMT).bit(1);
    let length = of(&completion::LENGTH);
    let dwords = cat(&[length, length.eq(0)]);
    // The place behind the last byte, counted from lane 0 of the first beat that has data.
    let from = lit(14, HEADER % beat_bytes);
    let end = (cat(&[lit(2, 0), dwords]).zext(14) + from).named("end");
    let behind = (end - 1).slice(lanes, 13 - lanes);
    let fill = m.reg("fill", lanes).no_reset();
    let (need, wants) = (within.then(left, behind), within.then(!full, has_data));
    let ends_in = within.then(fill, end.trunc(lanes));

    let head = Stream::new(m, "head", at_data & !within & !headed, header);
    let data = Stream::new(m, "data", at_data & wants & !given, rc.data);
    let gone = within | headed | head.ready;
    let handed = !wants | given | data.ready;
    let step = (at_data & gone & handed).named("step");
    // More is wanted than this beat has; then one that is the packet's last stays.
    let more = wants & need.ne(0);
    let consumed = !(more & rc.last);
    rc.accept((step & consumed) | (rc.valid & !at_data));

    let odd = !more & (!rc.last | rc.empty.ne(lit(lanes, 0) - ends_in)) | short;
    m.when(step, |m| {
        m.set(&headed, 0);
        m.set(&given, 0);
        m.set(&within, !rc.last | more);
        m.set(&full, !more);
        m.set(&left, need - 1);
        m.set(&fill, ends_in);
        m.set(&wrong, more & rc.last);
    })
    .otherwise_when(at_data, |m| {
        m.set(&headed, headed | (head.ready & !within));
        m.set(&given, given | (data.ready & wants));
    });
    let bad = Stream::new(m, "bad", step & wants & !more, wrong | odd);
    m.assert(!bad.valid | bad.ready, "the length's verdict finds room");
    (Parts { head, data }, bad)
}
