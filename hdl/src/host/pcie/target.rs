// SPDX-License-Identifier: MIT OR Apache-2.0
//! The target: reads and writes of BAR 0 by the CPU.
//!
//! ```text
//!  cq --> whole request, 80 bytes --> a word after the other --> access --> (registers, MSI-X table)
//!                                             ^                               |
//!                                             +------- response <-------------+
//!                                             v
//!  cc <-- beats <-- header, up to 64 bytes <-- answer
//! ```
//!
//! One request at a time. A write of 8 aligned bytes is taken in three cycles at 64 bytes a beat, and hands on one wide access; a request of up to
//! 64 bytes becomes as many accesses of 8 bytes as it can, and of 4 else. Of a word of which not all bytes are written the rest is read
//! before. A write-combined burst into a doorbell page so rings one doorbell after the other.
//!
//! A completion leaves when all writes have left that the card had taken when it answered, so that who reads a register finds in memory what the
//! card wrote before (PCIe 2.4.1, table 2-40, D2). While the card is no bus master there is nothing to wait for.
//!
//! | request | what becomes of it |
//! |---|---|
//! | read of no byte (2.2.5) | four bytes of zero; no register is read |
//! | read of more than 64 bytes | completer abort: no register is so long (2.3.1) |
//! | write of more than 64 bytes, write with the EP bit (2.7.2.2), anything of another length than its header says | dropped, counted |
//! | I/O, locked read, atomic operation, anything else that wants a completion | unsupported request |
//! | message | dropped |
//!
//! AMD's PCIe4 block does not pass the EP bit on, so a card with [`pcie4`](crate::host::pcie4) executes poisoned writes.

use super::writes::{Taken, COUNT};
use super::PcieSettings;
use crate::config::RnicConfig;
use crate::fields::{assemble, field};
use crate::host::csr::{CsrRequest, CsrResponse};
use crate::stream::{byte_mask, Beat};
use ferrowire_rtl::{cat, clog2, lit, module, Bundle, Fsm, Interface, Scope, Sig, Stream};
use ferrowire_spec::csr::{MSIX_PBA, MSIX_TABLE};
use ferrowire_spec::pcie::{completion, kind, request32, request64, CompletionStatus};

/// Longest payload.
const DATA: u32 = 64;
/// The same in double words.
const WORDS: u32 = DATA / 4;
/// Longest header.
const HEADER: u32 = request64::BYTES as u32;
/// Shortest.
const SHORT: u32 = request32::BYTES as u32;
/// Bytes that the MSI-X table and its pending bits take, from [`MSIX_TABLE`] on.
const MSIX_BYTES: u32 = 0x1000;
const _: () = assert!(MSIX_TABLE % MSIX_BYTES == 0 && MSIX_PBA == MSIX_TABLE + MSIX_BYTES / 2);

/// What the target does.
#[derive(Interface)]
pub struct Target {
    /// Accesses, one at a time.
    pub access: Stream<CsrRequest>,
    /// Completions.
    pub cc: Stream<Beat>,
    /// A request was refused or dropped in this cycle.
    pub refused: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    /// The request comes.
    Take,
    /// It is there, and is looked at.
    Look,
    /// A word is accessed.
    Access,
    /// A word that is read is waited for.
    Wait,
    /// The rest of a word is put to the bytes that are written.
    Merge,
    /// The completion leaves once the writes before it have.
    Answer,
}

/// What is asked for.
#[derive(Clone, Bundle)]
struct Job {
    /// A write.
    write: Sig,
    /// The request as the completion repeats it.
    requester: Sig,
    tag: Sig,
    class: Sig,
    attributes: Sig,
    status: Sig,
    first_be: Sig,
    last_be: Sig,
    /// The first double word.
    address: Sig,
    /// Double words.
    words: Sig,
}

/// Bytes before the first that is enabled; 0 where none is.
fn leading(be: Sig) -> Sig {
    be.bit(0).then(
        lit(2, 0),
        be.bit(1).then(lit(2, 1), be.bit(2).then(lit(2, 2), be.bit(3).then(lit(2, 3), lit(2, 0)))),
    )
}

/// Bytes behind the last that is enabled; 3 where none is: a read of no byte has a byte count of 1 (PCIe table 2-38).
fn trailing(be: Sig) -> Sig {
    be.bit(3).then(lit(2, 0), be.bit(2).then(lit(2, 1), be.bit(1).then(lit(2, 2), lit(2, 3))))
}

/// Sends accesses of the MSI-X table to `.1`, others to `.0`.
pub fn route(m: &Scope, access: Stream<CsrRequest>) -> (Stream<CsrRequest>, Stream<CsrRequest>) {
    let shift = MSIX_BYTES.trailing_zeros();
    let msix = (access.address >> shift).eq(MSIX_TABLE >> shift).named("for_msix");
    let csr = Stream::new(m, "csr_access", access.valid & !msix, access.payload.clone());
    let table = Stream::new(m, "msix_access", access.valid & msix, access.payload.clone());
    access.accept(m.mux(msix, &table.ready, &csr.ready));
    (csr, table)
}

/// The target. `taken` and `departed`: writes of the card that were taken, and that have left.
#[module]
pub fn target(
    m: &Scope,
    cfg: &RnicConfig,
    settings: PcieSettings,
    cq: Stream<Beat>,
    response: Stream<CsrResponse>,
    taken: Taken,
    departed: Sig,
) -> Target {
    let bytes = cfg.beat_bytes;
    m.discard(&settings);
    let state = m.fsm("state", State::Take);

    // The request, as it comes.
    let beats = (HEADER + DATA).div_ceil(bytes);
    let at = m.reg("at", clog2(u64::from(beats) + 1)).reset(0);
    let taking = state.is(State::Take);
    cq.accept(taking);
    let parts: Vec<Sig> = (0..beats)
        .map(|i| {
            let width = 8 * bytes.min(HEADER + DATA - i * bytes);
            let part = m.reg(&format!("part{i}"), width).no_reset();
            m.when(cq.fire() & at.eq(i), |m| m.set(&part, cq.data.trunc(width)));
            part
        })
        .collect();
    let whole = cat(&parts);
    let long_one = m.reg("too_long", 1).reset(0);
    let beyond = at.eq(beats);
    // Double words of the request after a short header and after a long one, and whether it ends within a double word.
    let words_behind = [SHORT, HEADER].map(|header| m.reg(&format!("words_behind_{header}"), 6).no_reset());
    let uneven = m.reg("uneven", 1).no_reset();
    m.when(cq.fire(), |m| {
        let lanes = cfg.lane_bits();
        let end = (at.zext(8) << lanes) + bytes - cq.empty.zext(8);
        for (words, header) in words_behind.iter().zip([SHORT, HEADER]) {
            m.set(words, (end - header).slice(2, 6));
        }
        m.set(&uneven, end.trunc(2).any());
        m.set(&at, cq.last.then(lit(at.width(), 0), beyond.then(at, at + 1)));
        m.set(&long_one, beyond);
        m.when(cq.last, |m| m.set(&state, State::Look));
    });

    // What it says. Both kinds of header have these fields in the same places.
    use request32::{EP, FIRST_BE, FMT, IDO, LAST_BE, LAYOUT, LENGTH, NS, REQUESTER, RO, TAG, TC, TYPE};
    let of = |which| field(&LAYOUT, which, whole);
    let first = cat(&[of(&TYPE), of(&FMT)]);
    let is = |code: u8| first.eq(code);
    let long = of(&FMT).bit(0);
    let read = is(kind::READ32) | is(kind::READ64);
    let write = is(kind::WRITE32) | is(kind::WRITE64);
    // Messages have a type of 10xxx, and nobody waits for these (PCIe 2.2.8).
    let message = of(&TYPE).slice(3, 2).eq(2);
    let length = of(&LENGTH);
    const _: () = assert!(WORDS == 16);
    let fits = (!length.slice(5, 5).any() & (length.bit(4) ^ length.trunc(4).any())).named("length_fits");
    let short_address = field(&LAYOUT, &request32::ADDRESS, whole).trunc(22);
    let long_address = field(&request64::LAYOUT, &request64::ADDRESS, whole).trunc(22);
    // A request that is not as long as it says, or was spoiled on its way, is thrown away.
    let data_words = (of(&FMT).bit(1).repeat(5) & length.trunc(5)).zext(6);
    let [short, long_too] = words_behind.map(|words| words.ne(data_words));
    let wrong_size = ((uneven | long.then(long_too, short)) & (fits | !of(&FMT).bit(1))).named("wrong_size");
    let drops = (write & (!fits | long_one | of(&EP))) | message | wrong_size;
    let status = |status: CompletionStatus| lit(3, status.code());
    let refusal = fits.then(status(CompletionStatus::Success), status(CompletionStatus::CompleterAbort));
    let seen = Job {
        write,
        requester: of(&REQUESTER),
        tag: of(&TAG),
        class: of(&TC),
        attributes: cat(&[of(&NS), of(&RO), of(&IDO)]),
        status: read.then(refusal, status(CompletionStatus::UnsupportedRequest)),
        first_be: of(&FIRST_BE),
        last_be: of(&LAST_BE),
        address: long.then(long_address, short_address),
        words: length.trunc(5),
    };
    let job = m.reg_of("job", &seen);
    let looks = state.is(State::Look);
    let works = (!drops & ((read & fits) | write)).named("works");
    // The next double word, those left, and the data from there on.
    let word = m.reg("word", 22).no_reset();
    let left = m.reg("left", 5).no_reset();
    let (one_left, two_left) = (m.reg("one_left", 1).no_reset(), m.reg("two_left", 1).no_reset());
    // Bytes of the next one.
    let here = m.reg("here", 4).no_reset();
    let data = m.reg("data", 8 * DATA).no_reset();
    let stamp = m.reg("stamp", COUNT).no_reset();
    let index = m.reg("index", 4).no_reset();
    m.when(looks, |m| {
        m.set_all(&job, &seen);
        m.set(&word, seen.address);
        m.set(&left, seen.words);
        m.set(&one_left, seen.words.eq(1));
        m.set(&two_left, seen.words.eq(2));
        m.set(&here, seen.first_be);
        m.set(&index, 0);
        m.set(&data, long.then(whole.slice(8 * HEADER, 8 * DATA), whole.slice(8 * SHORT, 8 * DATA)));
        m.set(&stamp, taken.count);
        m.when(works, |m| m.set(&state, State::Access))
            .otherwise_when(drops, |m| m.set(&state, State::Take))
            .otherwise(|m| m.set(&state, State::Answer));
    });
    let refused = looks & !works & !message;

    // A double word, or two of them where both are whole.
    let next = two_left.then(job.last_be, lit(4, 0xf));
    let wide = (!word.bit(0) & !one_left & here.all() & next.all()).named("wide");
    let nothing = here.eq(0).named("nothing");
    let part = (job.write & !here.all() & !nothing).named("part");
    let (accessing, merging) = (state.is(State::Access), state.is(State::Merge));
    let rest = m.reg("rest", 32).no_reset();
    let mask = byte_mask(here);
    let merged = (data.trunc(32) & mask) | (rest & !mask);
    let access = Stream::new(
        m,
        "access",
        (accessing & !nothing) | merging,
        CsrRequest {
            address: cat(&[lit(2, 0), word]),
            write: merging | (job.write & !part),
            wide,
            data: merging.then(merged.zext(64), data.trunc(64)),
        },
    );
    response.accept(state.is(State::Wait));
    let answered = response.fire();
    // Words are over: at once what is written or skipped, with the response what is read.
    let passes =
        ((accessing & nothing) | (access.fire() & access.write) | (answered & !job.write)).named("passes");
    m.when(access.fire() & !access.write, |m| m.set(&state, State::Wait));
    m.when(answered & job.write, |m| {
        m.set(&rest, response.data.trunc(32));
        m.set(&state, State::Merge);
    });
    let step = wide.then(lit(5, 2), lit(5, 1));
    let over = wide.then(two_left, one_left);
    m.assert(state.is(State::Take) | looks | one_left.eq(left.eq(1)) & two_left.eq(left.eq(2)), "words left");
    m.when(passes, |m| {
        m.set(&word, m.mux(wide, &(word + 2), &(word + 1)));
        m.set(&left, left - step);
        let one = wide.then(left.eq(3), two_left);
        m.set(&one_left, one);
        m.set(&two_left, wide.then(left.eq(4), left.eq(3)));
        m.set(&here, one.then(job.last_be, lit(4, 0xf)));
        m.set(&index, index + step.trunc(4));
        m.set(&data, wide.then(data >> 64, data >> 32));
        m.set(&stamp, taken.count);
        m.when(!over, |m| m.set(&state, State::Access))
            .otherwise_when(job.write, |m| m.set(&state, State::Take))
            .otherwise(|m| m.set(&state, State::Answer));
    });
    // What was read, by its place in the request. What it is before its word is over does not matter.
    let reads = ((accessing | state.is(State::Wait)) & !job.write).named("reads");
    let words: Vec<Sig> = (0..WORDS)
        .map(|i| {
            let got = m.reg(&format!("got{i}"), 32).no_reset();
            let high = wide & index.eq(lit(4, i) - 1);
            let value = high.then(response.data.slice(32, 32), response.data.trunc(32));
            m.when(reads & (index.eq(i) | high), |m| {
                m.set(&got, (!nothing).repeat(32) & value);
            });
            got
        })
        .collect();

    // The completion.
    let success = job.status.eq(CompletionStatus::Success.code());
    let one = job.words.eq(1);
    let end = trailing(one.then(job.first_be, job.last_be));
    let start = leading(job.first_be);
    let count = cat(&[lit(2, 0), job.words]).zext(12) - start.zext(12) - end.zext(12);
    let header = {
        use completion::*;
        let first = |with: u8| lit(8, with);
        let first = success.then(first(kind::COMPLETION_DATA), first(kind::COMPLETION));
        assemble(
            &LAYOUT,
            &[
                (FMT, first.slice(5, 3)),
                (TYPE, first.trunc(5)),
                (TC, job.class),
                (NS, job.attributes.bit(0)),
                (RO, job.attributes.bit(1)),
                (IDO, job.attributes.bit(2)),
                (LENGTH, success.repeat(10) & job.words.zext(10)),
                (COMPLETER, settings.requester),
                (STATUS, job.status),
                // Without data it is that of the whole request, and means nothing.
                (BYTE_COUNT, success.then(count, lit(12, 4))),
                (REQUESTER, job.requester),
                (TAG, job.tag),
                (LOWER_ADDRESS, success.repeat(7) & cat(&[start, job.address.trunc(5)])),
            ],
        )
    };
    let size = completion::BYTES as u32 + DATA;
    let out_beats = size.div_ceil(bytes);
    let all = cat(&[header, cat(&words)]).zext(8 * bytes * out_beats).chunks(8 * bytes);
    let shown = m.reg("shown", clog2(u64::from(out_beats)).max(1)).reset(0);
    let lanes = cfg.lane_bits();
    let data_bytes = success.repeat(7) & cat(&[lit(2, 0), job.words]);
    let total = (data_bytes + completion::BYTES as u32).named("total");
    let final_beat = (total - 1).zext(8) >> lanes;
    let last = shown.zext(8).eq(final_beat);
    // Without a bus master's right no write leaves, and none is before it.
    let left_behind = !(departed - stamp).msb() | !settings.bus_master;
    // Once it may leave it does.
    let may = m.reg("may", 1).reset(0);
    let beat = Beat {
        data: m.select(shown, &all),
        last,
        empty: last.then(lit(lanes, 0) - total.zext(8).trunc(lanes), lit(lanes, 0)),
    };
    let answering = state.is(State::Answer);
    m.when(answering & left_behind, |m| m.set(&may, 1));
    let cc = Stream::new(m, "cc", answering & may, beat);
    m.when(cc.fire(), |m| {
        m.when(last, |m| m.set(&may, 0));
        m.set(&shown, last.then(lit(shown.width(), 0), shown + 1));
        m.when(last, |m| m.set(&state, State::Take));
    });
    Target { access, cc, refused }
}
