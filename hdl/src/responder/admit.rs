// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of a request packet: executed, acknowledged again, refused, or dropped.
//!
//! ```text
//!  pending --------------------+--> decision --> place (in order)
//!  translate --> answers FIFO -+       |  +----> counted
//!                                      +-------> fault: QP to error
//!                dead bits <-----------+
//! ```
//!
//! Here a packet meets what its lookups found. All answers leave through `place`, in the order of the requests and
//! behind the data that they confirm. After a NAK that ends the QP its bit is set, and what `check` has let pass since
//! then goes nowhere: that is what allows `check` not to wait.
//!
//! One packet a cycle, two where it lies on two pages. Faults have a place for each QP, so that a start of another never
//! waits for them. Reset: nothing under way; a QP's bit is cleared when it starts.

use crate::config::RnicConfig;
use crate::memory::Translation;
use crate::responder::place::Place;
use crate::stream::{deep_fifo, fifo};
use crate::types::TableWrite;
use ferrowire_rtl::{bits, module, Bundle, Interface, Scope, Sig, Stream, Style};

/// What `check` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The next of its sequence, and valid.
    Execute,
    /// Seen before.
    Duplicate,
    /// Behind a gap, the first since the sequence was whole.
    FirstGap,
    /// Behind a gap that has been reported.
    Gap,
    /// Invalid request.
    Invalid,
    /// No such QP, or one whose state or service takes nothing.
    NoQp,
    /// Partition key.
    Pkey,
    /// Not from the peer's address.
    Source,
}

impl Class {
    /// Its number between the two blocks.
    pub fn code(self) -> u32 {
        self as u32
    }
}

/// A packet on its way from `check`.
#[derive(Clone, Bundle)]
pub struct Pending {
    /// A [`Class`].
    pub class: Sig,
    /// Lookups that it waits for.
    pub lookups: Sig,
    /// Place of the payload in the frame.
    pub offset: Sig,
    /// Its length.
    pub bytes: Sig,
    /// The peer wants an acknowledgement.
    pub ack_req: Sig,
    /// Which QP.
    pub qp: Sig,
    /// PSN of an answer.
    pub psn: Sig,
    /// Messages completed before this packet.
    pub msn: Sig,
    /// It ends its message.
    pub ends: Sig,
}

impl Pending {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Pending {
            class: bits(4),
            lookups: bits(2),
            offset: bits(7),
            bytes: bits(13),
            ack_req: bits(1),
            qp: bits(cfg.qp_bits()),
            psn: bits(24),
            msn: bits(24),
            ends: bits(1),
        }
    }
}

/// Pulses for the counters.
#[derive(Clone, Bundle)]
pub struct Counts {
    /// Dropped: no such QP, or one whose state takes nothing.
    pub no_qp: Sig,
    /// Dropped: partition key.
    pub pkey: Sig,
    /// Dropped: not from the peer's address.
    pub source: Sig,
    /// Duplicate requests.
    pub duplicate: Sig,
    /// Gaps.
    pub out_of_sequence: Sig,
    /// Sequence NAKs sent.
    pub sequence_naks: Sig,
    /// Requests refused as invalid.
    pub invalid: Sig,
    /// Requests refused for key, domain, access or bounds.
    pub access: Sig,
    /// WRITE packets executed.
    pub writes: Sig,
}

/// What comes out.
#[derive(Interface)]
pub struct Admitted {
    /// What to do with each packet, in order.
    pub place: Stream<Place>,
    /// QPs that go to the error state.
    pub faults: Stream<Sig>,
    /// Counted events.
    pub counts: Counts,
}

#[derive(Clone, Bundle)]
struct Answer {
    ok: Sig,
    address: Sig,
}

/// Syndromes: ACK without credit count, NAKs (IBTA volume 1, 9.7.5.2).
const ACK: u32 = 0x1f;
const NAK_SEQUENCE: u32 = 0x60;
const NAK_INVALID: u32 = 0x61;
const NAK_ACCESS: u32 = 0x62;

/// Answers that may wait: two for each packet that `check` has let pass and one more.
const ANSWERS: u32 = 32;

/// The decision.
#[module]
pub fn admit(
    m: &Scope,
    cfg: &RnicConfig,
    pending: Stream<Pending>,
    answer: Translation,
    started: TableWrite<Sig>,
) -> Admitted {
    let answered =
        Stream::new(m, "answered", answer.valid, Answer { ok: answer.ok, address: answer.address });
    m.assert(!answered.valid | answered.ready, "an answer finds its place");
    let answers = fifo(&m.label("answers"), ANSWERS, answered);

    // The first of two answers is kept.
    let kept = m.reg("kept", 1).reset(0);
    let kept_answer = m.reg_of("kept_answer", &answers.payload);
    let two = pending.lookups.eq(2);
    let none = pending.lookups.eq(0);
    let keeps = pending.valid & two & !kept & answers.valid;
    let known = pending.valid & (none | (answers.valid & (!two | kept)));
    // Without payload no key is looked at (IBTA volume 1, 9.7.4.1.5).
    let granted = none | (answers.ok & (!two | kept_answer.ok));

    // The first page's answer is the older one.
    let dead_bits = m.mem("dead", cfg.qps, &bits(1)).style(Style::Distributed).build();
    let is = |c: Class| pending.class.eq(c.code());
    let foreign = is(Class::NoQp) | is(Class::Pkey) | is(Class::Source);
    let dead = dead_bits.read_now(pending.qp) & !foreign;
    let lives = !foreign & !dead;
    let executes = lives & is(Class::Execute) & granted;
    let refused_access = lives & is(Class::Execute) & !granted;
    let refused_invalid = lives & is(Class::Invalid);
    let again = lives & is(Class::Duplicate);
    let naks_gap = lives & is(Class::FirstGap);
    let ends_qp = refused_access | refused_invalid;
    let syndrome = m.wire("syndrome", 8);
    m.set(&syndrome, ACK);
    m.when(naks_gap, |m| m.set(&syndrome, NAK_SEQUENCE));
    m.when(refused_invalid, |m| m.set(&syndrome, NAK_INVALID));
    m.when(refused_access, |m| m.set(&syndrome, NAK_ACCESS));
    let (place_room, fault_room) = (m.wire("place_room", 1), m.wire("fault_room", 1));
    let can = known & fault_room;
    let go = can & place_room;
    let place = Place {
        write: executes & pending.bytes.ne(0),
        offset: pending.offset,
        bytes: pending.bytes,
        address: m.mux(two, &kept_answer.address, &answers.address),
        second_address: answers.address,
        answer: (executes & pending.ack_req) | again | naks_gap | ends_qp,
        qp: pending.qp,
        psn: pending.psn,
        syndrome,
        msn: pending.msn + (executes & pending.ends).zext(24),
    };
    let place = Stream::new(m, "place", can, place);
    m.drive(&place_room, place.ready);
    let place = fifo(&m.label("place"), 2, place);
    let fault = Stream::new(m, "fault", go & ends_qp, pending.qp);
    m.drive(&fault_room, fault.ready);
    // The QP context takes no fault while a start waits here for what is pending: a QP has at most one, and all have
    // their place.
    let faults = deep_fifo(&m.label("faults"), cfg.qps, fault);

    pending.accept(go);
    answers.accept(keeps | (go & !none));
    m.when(keeps, |m| {
        m.set(&kept, 1);
        m.set_all(&kept_answer, &answers.payload);
    })
    .otherwise_when(go, |m| m.set(&kept, 0));

    // A QP starts only when nothing is pending: one write port serves both.
    m.assert(!(started.enable & go), "a responder starts only when nothing is pending");
    m.discard(&started.entry);
    let bar_at = m.mux(started.enable, &started.index, &pending.qp);
    dead_bits.write(started.enable | (go & ends_qp), bar_at, &!started.enable);

    let counts = Counts {
        no_qp: go & (is(Class::NoQp) | dead),
        pkey: go & is(Class::Pkey),
        source: go & is(Class::Source),
        duplicate: go & again,
        out_of_sequence: go & lives & (is(Class::FirstGap) | is(Class::Gap)),
        sequence_naks: go & naks_gap,
        invalid: go & refused_invalid,
        access: go & refused_access,
        writes: go & executes,
    };
    Admitted { place, faults, counts }
}
