// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests from the bytes of frames.
//!
//! ```text
//!  bytes --+--> count --> head, 8 bytes --> [ request ] ---> request
//!          +--> place ---------------------> data, two halves --> words
//!          +--> CRC --> whole? ------------> refused
//! ```
//!
//! A frame is looked at when its mark has come and its CRC is right, and not before. Its data are in a half of the buffer, each byte in the lane and the word that it has in its block, so nothing is
//! shifted later. While a request is on offer the next frame goes to the other half.
//!
//! A frame whose CRC is wrong, in which the line broke, or which is shorter than a head and a CRC, is dropped and told as [`Reason::Broken`]; a whole one that ends while the request before is still on offer as
//! [`Reason::Busy`]. Two marks with nothing between are nothing. A frame that is too long is read to its end, and what is too much of it is kept nowhere: its CRC says whether it was broken or meant.
//! Half a frame stays half until a mark comes: that of the next frame.
//!
//! A byte a cycle; a request is on offer in the second cycle behind its mark. Buffer: 64 words of 64 bits with strobes a byte, one port for writes and one for reads. Reset forgets what has come.
//!
//! Longest path: the CRC, or a byte's place, 9 bits, against the length.

use crate::protocol::{Reason, BLOCK, CHECK, HEAD};
use crate::slip::Decoded;
use ferrowire_parts::crc::{crc_step, RESIDUE};
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream};

/// Bits of a place in a block.
pub const PLACE: u32 = BLOCK.trailing_zeros();

/// Bits of a count of a frame's bytes.
pub const COUNT: u32 = 9;

/// A request whose frame is whole.
#[derive(Clone, Bundle)]
pub struct Request {
    /// As in [`Command`](crate::protocol::Command), or none.
    pub command: Sig,
    /// Its number.
    pub sequence: Sig,
    /// Bytes that it is about.
    pub length: Sig,
    /// Where.
    pub address: Sig,
    /// Bytes of data that came.
    pub came: Sig,
}

impl Request {
    /// The shape.
    pub fn of() -> Self {
        Request {
            command: bits(8),
            sequence: bits(8),
            length: bits(16),
            address: bits(32),
            came: bits(COUNT),
        }
    }
}

/// A frame was not carried out.
#[derive(Clone, Bundle)]
pub struct Refused {
    /// In this cycle.
    pub valid: Sig,
    /// Why: as in [`Reason`].
    pub reason: Sig,
}

impl Refused {
    /// The shape.
    pub fn of() -> Self {
        Refused { valid: bits(1), reason: bits(3) }
    }

    /// One.
    pub(crate) fn new(valid: Sig, reason: Sig) -> Self {
        Refused { valid, reason }
    }
}

/// Reads a word of the request's data.
#[derive(Clone, Bundle)]
pub struct Fetch {
    /// In this cycle; the word is there in the next, and stays.
    pub valid: Sig,
    /// Which word of the block.
    pub word: Sig,
}

impl Fetch {
    /// The shape.
    pub fn of() -> Self {
        Fetch { valid: bits(1), word: bits(PLACE - 3) }
    }
}

/// What comes of frames.
#[derive(Interface)]
pub struct Frames {
    /// Requests; one is taken when it has ended.
    pub request: Stream<Request>,
    /// The word that was fetched.
    pub word: Sig,
    /// A frame was dropped.
    pub refused: Refused,
}

/// Requests.
#[module]
pub fn frames(m: &Scope, line: Decoded, fetch: Fetch) -> Frames {
    // Bytes of the frame so far; the most that is counted is longer than any that is good.
    let count = m.reg("count", COUNT).reset(0);
    let broken = m.reg("broken", 1).reset(0);
    let state = m.reg("crc", 32).reset(u32::MAX);
    let head = m.reg("head", 8 * HEAD).no_reset();
    m.when(line.valid, |m| {
        m.when(!count.all(), |m| m.set(&count, count + 1));
        m.set(&state, crc_step(state, line.byte));
        m.when(count.lt(HEAD), |m| m.set(&head, cat(&[head.slice(8, 8 * HEAD - 8), line.byte])));
    });
    m.when(line.broken, |m| m.set(&broken, 1));
    m.when(line.mark, |m| {
        m.set(&count, 0);
        m.set(&state, u32::MAX);
        m.set(&broken, 0);
    });
    let (length, address) = (head.slice(16, 16), head.slice(32, 32));

    // Data go to the half that no request has.
    let half = m.reg("half", 1).reset(0);
    let behind = count - HEAD;
    let is_data = (count.ge(HEAD) & behind.zext(16).lt(length) & !behind.bit(COUNT - 1)).named("is_data");
    let place = address.trunc(PLACE) + behind.trunc(PLACE);
    let data = m.mem("data", 2 * BLOCK / 8, &bits(64)).build();
    let lane = lit(8, 1).shl_by(place.trunc(3));
    let at = cat(&[place.slice(3, PLACE - 3), half]);
    data.write_lanes(line.valid & is_data, at, &line.byte.repeat(8), lane, 8);
    // The halves differ, so reads and writes do not meet.
    let word = data.read(m, fetch.valid, cat(&[fetch.word, !half]), Collision::Any);

    // The frame's end.
    let ends = line.mark & (count.any() | broken);
    let least = HEAD + CHECK;
    let good = !broken & count.ge(least) & state.eq(RESIDUE);
    let (ended, whole) = (m.reg("ended", 1).reset(0), m.reg("whole", 1).no_reset());
    m.set(&ended, ends);
    m.set(&whole, good);
    let request = m.reg_of("request", &Request::of());
    let held = m.reg("held", 1).reset(0);
    let came = m.delay("came", &(count - least));
    let offer = Stream::new(m, "request", held, request.clone());
    m.when(offer.fire(), |m| m.set(&held, 0));
    // The next byte is many cycles away on a line; in a test it may come at once, and moves the head no earlier than this.
    let enters = ended & whole & !held;
    m.when(enters, |m| {
        m.set(&held, 1);
        m.set(&half, !half);
        let shape = Request::of();
        let widths = [&shape.command, &shape.sequence, &shape.length, &shape.address];
        let mut low = 0;
        let fields: Vec<Sig> = widths
            .iter()
            .map(|field| {
                low += field.width();
                head.slice(low - field.width(), field.width())
            })
            .collect();
        let [command, sequence, length, address] = fields[..] else { unreachable!("four fields") };
        m.set_all(&request, &Request { command, sequence, length, address, came });
    });
    let busy = ended & whole & held;
    let reason = whole.then(lit(3, Reason::Busy as u32), lit(3, Reason::Broken as u32));
    Frames { request: offer, word, refused: Refused::new((ended & !whole) | busy, reason) }
}
