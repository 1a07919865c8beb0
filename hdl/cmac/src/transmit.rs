// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the block is to send.
//!
//! ```text
//!   frame --+--> `empty` becomes tkeep, 60 bytes at least --> skid --> tx_axis
//!           +--> no link, or the block in reset: nowhere
//!           +--> a beat is missing: a last one with `tuser`, and the rest nowhere
//! ```
//!
//! The block adds preamble and FCS, and no padding: a frame of less than 60 bytes gets zeros up to there (IEEE 802.3 4.2.3.3). It is in one beat.
//!
//! Whether a frame is sent is decided with its first beat: without a link it is lost, as an RS that sends idles loses what its MAC gives it (IEEE 802.3 81.3.4.1), so nothing piles up, and no frame is late by as long as the link was down. One
//! that has begun is given to its end, since the block wants that of a frame under way when `ctl_tx_enable` falls (PG203). Only the block's reset ends it, and what is left of it is lost.
//!
//! **Bad input:** a frame in which a beat is late, or of which beats are lost (`cut`), ends with `tuser`: the peer drops it, and the block goes on.
//!
//! **Reset** of the domain, at any time: the block goes on, and must not run dry. A frame that it has been offered is [ended](finish) by a beat with `tuser`, so the peer drops it.
//!
//! **Latency** 1, a beat a cycle; a frame that comes without a gap leaves without one. `tx_axis` is from registers, with a gate after all but the data.

use crate::receive::masked;
use crate::{keep_bits, BYTES};
use ferrowire_hdl::stream::skid;
use ferrowire_mac::{FCS_BYTES, MIN_FRAME};
use ferrowire_parts::Beat;
use ferrowire_rtl::{bits, lit, module, Bits, Bundle, Interface, Scope, Sig, Stream};

/// A beat for the block: `tx_axis_*`.
#[derive(Clone, Bundle)]
pub struct Axis {
    /// `tdata`: byte 0 lowest.
    pub data: Sig,
    /// `tkeep`: a bit a byte.
    pub keep: Sig,
    /// `tlast`.
    pub last: Sig,
    /// `tuser`, with `tlast`: to be sent as a bad frame.
    pub user: Sig,
}

impl Axis {
    /// The shape.
    pub fn of() -> Axis {
        Axis { data: bits(8 * BYTES), keep: keep_bits(), last: bits(1), user: bits(1) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Sent {
    /// To the block.
    pub axis: Stream<Axis>,
    /// A frame has left to its end.
    pub good: Sig,
    /// A frame is lost.
    pub lost: Sig,
    /// A frame has ended as a bad one, for a beat was late.
    pub dry: Sig,
}

/// Bytes of a beat that the frame has; as many ones from the lowest lane on.
fn own(empty: Sig) -> Sig {
    lit_ones().shr_by(empty)
}

/// A beat with zeros where the frame has no bytes, as [`transmit`] wants it: made in the core's clock, where there is time.
pub fn padded(beat: &Beat) -> Beat {
    Beat { data: masked(beat.data, own(beat.empty)), ..beat.clone() }
}

/// See the page's top. `frame`: its beats are [`padded`].
#[module]
pub fn transmit(m: &Scope, sends: Sig, tx_reset: Sig, frame: Stream<Beat>, cut: Sig) -> Sent {
    let first = m.reg("first", 1).reset(1);
    let losing = m.reg("losing", 1).reset(0);
    let drops = (tx_reset | first.then(!sends, losing)).named("drops");

    // As many ones as the frame has bytes here; and what it is filled up to.
    let own = own(frame.empty);
    let floor = lit(BYTES, (1u64 << (MIN_FRAME - FCS_BYTES)) - 1);
    let keep = own | ((first & frame.last).repeat(BYTES) & floor);
    // What the lanes hold while no beat is there does not matter.
    let runs_dry = (!first & !frame.valid).named("runs_dry");
    let axis = Axis { data: frame.data, keep, last: frame.last | runs_dry, user: cut | runs_dry };
    // An offer may be taken back here, before anybody has taken it: what the block sees is behind the slice.
    let offer = Stream::new(m, "offer", (frame.valid | runs_dry) & !drops, axis);
    frame.accept(drops | offer.ready);
    let fire = frame.fire().named("fire");
    let ends_dry = runs_dry & offer.fire();
    m.when(fire, |m| {
        m.set(&first, frame.last);
        m.set(&losing, drops & !frame.last);
    })
    // A reset of the block within a frame may come while no beat of it is there.
    .otherwise_when(ends_dry | (tx_reset & !first), |m| m.set(&losing, 1));

    let good = m.reg("good", 1).reset(0);
    m.set(&good, fire & frame.last & !drops & !cut);
    let (lost, dry) = (m.reg("lost", 1).reset(0), m.reg("dry", 1).reset(0));
    let was_dry = m.reg("was_dry", 1).reset(0);
    m.when(ends_dry, |m| m.set(&was_dry, 1)).otherwise_when(fire & frame.last, |m| m.set(&was_dry, 0));
    m.set(&lost, fire & frame.last & drops & !was_dry);
    m.set(&dry, ends_dry);
    // What the slice holds when the block is reset is of a frame that the block has lost.
    let axis = m.restarted(tx_reset, |m| skid(m, offer));
    Sent { axis: finish(m, tx_reset, axis), good, lost, dry }
}

/// Ends a frame that a reset of the domain cuts. What it knows of the block has no reset of the domain, but that of the block, which always comes first.
#[module]
fn finish(m: &Scope, tx_reset: Sig, axis: Stream<Axis>) -> Stream<Axis> {
    // Low in a reset and in the cycle after it, when nothing is offered yet.
    let alive = m.reg("alive", 1).reset(0);
    m.set(&alive, 1);
    // The block has been offered a frame's beginning, and has not taken its end.
    let open = m.reg("open", 1).no_reset();
    let owed = m.reg("owed", 1).no_reset();
    let ends = (open & (!alive | owed)).named("ends");
    let Axis { data, keep, last, user } = axis.payload.clone();
    // What the bytes are does not matter, but that there are some: they are whatever is in the slice.
    let payload = Axis { data, keep: keep | ends.repeat(BYTES), last: last | ends, user: user | ends };
    let out = Stream::new(m, "out", axis.valid | ends, payload);
    axis.accept(out.ready & !ends);
    m.set(&open, (out.valid & !(out.ready & out.payload.last) | (open & !out.valid)) & !tx_reset);
    m.set(&owed, ends & !out.ready & !tx_reset);
    out
}

fn lit_ones() -> Sig {
    ferrowire_rtl::lit_bits(&Bits::ones(BYTES))
}
