// SPDX-License-Identifier: MIT OR Apache-2.0
//! Carries requests out, each of them once.
//!
//! ```text
//!  request --> number? --+--> new ------> check --> memory or registers or words --> answer --> send
//!                        +--> kept -----> sent again -------------------------------------------^
//!                        +--> none -----> refused ----------------------------------------------^
//! ```
//!
//! **Once.** Requests have numbers of eight bits that rise. The one that is expected is carried out, whatever becomes of it, and its answer kept; one of the last [`WINDOW`] is not carried out again, and its answer is sent once more;
//! with any other number something was lost, and a notice tells the number that is expected. [`Command::Hello`] begins anew with its own number.
//!
//! **Whole.** A write to memory is one burst, made when its frame has been checked from its first to its last byte. A request with an error does nothing.
//!
//! **Rates.** A request takes some 4 cycles, and those of the bus; a burst has a beat in two cycles. One at a time: a line of 8 cycles a bit brings a byte in 80. A write has ended when its response has come.
//!
//! **Ports.** AXI4 with 8 bytes a beat and ID 0, and AXI4-Lite with 64 bits of data. VALID of all channels comes from registers. Nothing waits for READY before VALID.
//!
//! **Backpressure, bad input.** A bus that never answers holds up the request, and each that follows is refused as [`Reason::Busy`](crate::protocol::Reason::Busy): the PC hears of it. Reset forgets the session.
//!
//! Longest path: the check of a request's length, place and address, from registers to registers.

use crate::axi::{
    Address, Answers, Lite, LiteAnswers, LiteRead, LiteRequests, LiteWrite, ReadBeat, Requests, Response,
    WriteBeat,
};
use crate::dirty::{dirty, words, Scan, Scanned, Wrote, WORD};
use crate::frame::{frames, Fetch, Frames, Refused, Request, COUNT, PLACE};
use crate::memory::within;
use crate::protocol::{
    Command, Reason, Status, BLOCK, DIRTY_BYTES, HELLO_BYTES, MAGIC, STATUS_BYTES, VERSION, WINDOW,
};
use crate::send::{send, Answer, Head, Sending, Store, SLOT};
use crate::slip::{decode, encode};
use crate::uart::{receive, transmit};
use crate::SerialConfig;
use ferrowire_hdl::host::event::Interrupt;
use ferrowire_rtl::{build, cat, lit, module, BuildErrors, Fsm, Interface, Netlist, Scope, Sig, Stream};

#[derive(Clone, Copy, Fsm)]
enum State {
    /// Looks at a request's number.
    Idle,
    /// Judges it.
    Check,
    /// Offers an address, and data of a write.
    Write,
    /// Waits for the response.
    Written,
    /// Offers the address of a read.
    Read,
    /// Takes its data.
    Take,
    /// The same three for registers.
    CsrWrite,
    CsrWritten,
    CsrRead,
    CsrTake,
    /// Tells of itself.
    Words,
    /// Takes words of the table of blocks that were written.
    Scan,
    /// Hands the answer over.
    Finish,
}

/// What the bridge does.
#[derive(Interface)]
struct Done {
    aw: Stream<Address>,
    w: Stream<WriteBeat>,
    ar: Stream<Address>,
    lite_aw: Stream<Lite>,
    lite_w: Stream<LiteWrite>,
    lite_ar: Stream<Lite>,
    scan: Scan,
    fetch: Fetch,
    store: Store,
    answer: Stream<Answer>,
    refused: Refused,
    expected: Sig,
    waiting: Sig,
    raised: Sig,
}

/// What it is told, beside requests.
#[derive(Interface)]
struct Told {
    word: Sig,
    sending: Sending,
    interrupt: Interrupt,
    dropped: Sig,
    b: Stream<Response>,
    r: Stream<ReadBeat>,
    lite_b: Stream<Sig>,
    lite_r: Stream<LiteRead>,
    scanned: Scanned,
}

/// The bridge and the table of blocks, between ports `rx`, `tx`, `interrupt_*`, `wrote_*`, `m_axi_*` and `m_axil_*`.
///
/// # Errors
/// What the build-time checks find; none for a valid configuration.
pub fn engine(cfg: &SerialConfig) -> Result<Netlist, BuildErrors> {
    build("bridge", |m| {
        let memory = crate::axi::manager_in(m, "m_axi_", crate::board::ID_BITS, cfg.beat_bytes);
        let registers = crate::axi::lite_in(m, "m_axil_");
        let interrupt = m.input_of("interrupt", &Interrupt::of());
        let scanned = m.wire_of("scanned", &Scanned::of());
        let rx = m.input("rx", 1);
        let Bridged { tx, requests, lite, scan } =
            bridge(m, cfg, rx, interrupt, memory, registers, scanned.clone());
        m.drive(&scanned, dirty(m, cfg, m.input_of("wrote", &Wrote::of(cfg)), scan));
        m.output("tx", &tx);
        crate::axi::manager_out(m, "m_axi_", cfg.beat_bytes, requests);
        crate::axi::lite_out(m, "m_axil_", lite);
    })
}

/// What a bridge drives.
pub struct Bridged {
    /// The pin.
    pub tx: Sig,
    /// What it asks of memory.
    pub requests: Requests,
    /// What it asks of registers.
    pub lite: LiteRequests,
    /// What it asks of the table of blocks.
    pub scan: Scan,
}

/// From the pin `rx` to the pin `tx`, with memory, registers and the table of blocks between.
pub fn bridge(
    m: &Scope,
    cfg: &SerialConfig,
    rx: Sig,
    interrupt: Interrupt,
    memory: Answers,
    registers: LiteAnswers,
    scanned: Scanned,
) -> Bridged {
    let fetch = m.wire_of("fetch", &Fetch::of());
    let Frames { request, word, refused: dropped } = frames(m, decode(m, receive(m, cfg, rx)), fetch.clone());
    let sending = m.wire_of("sending", &Sending::of());
    let Answers { b, r } = memory;
    let told = Told {
        word,
        sending: sending.clone(),
        interrupt,
        dropped: dropped.valid,
        b,
        r,
        lite_b: registers.b,
        lite_r: registers.r,
        scanned,
    };
    let done = execute(m, cfg, request, told);
    m.drive(&fetch, done.fetch);
    let refused = vec![dropped, done.refused];
    let sent = send(m, done.store, done.answer, refused, done.expected, done.waiting, done.raised);
    m.drive(&sending, sent.sending);
    let tx = transmit(m, cfg, encode(m, sent.symbol));
    let requests = Requests { aw: done.aw, w: done.w, ar: done.ar };
    let lite = LiteRequests { aw: done.lite_aw, w: done.lite_w, ar: done.lite_ar };
    Bridged { tx, requests, lite, scan: done.scan }
}

/// Whether a request can be carried out, and if not, why: an error's [`Status`].
fn judge(cfg: &SerialConfig, request: &Request) -> Sig {
    let is = |command: Command| request.command.eq(command as u32);
    let csr = is(Command::CsrRead) | is(Command::CsrWrite);
    let memory = is(Command::Read) | is(Command::Write) | is(Command::Clear);
    let table = is(Command::Dirty);
    let told = is(Command::Hello) | is(Command::Status);
    let writes = is(Command::CsrWrite) | is(Command::Write);
    let length = request.length;

    let small = length.eq(4) | length.eq(8);
    let fits = length.any() & length.le(BLOCK);
    let whole_words = length.any() & length.le(DIRTY_BYTES) & !length.trunc(3).any();
    let data = writes.then(length, lit(16, 0)).eq(request.came.zext(16));
    let right = data & csr.then(small, told.then(!length.any(), table.then(whole_words, fits)));

    let end = request.address.trunc(PLACE).zext(COUNT + 1) + length.trunc(COUNT).zext(COUNT + 1);
    let inside = end.le(BLOCK) & within(cfg, request.address);
    let aligned = !request.address.trunc(2).any() & !(request.address.bit(2) & length.bit(3));
    let register = aligned & !request.address.slice(24, 8).any();
    // The first of the table's words, and how many.
    let first = request.address.slice(WORD.trailing_zeros(), 10);
    let last = first.zext(11) + length.slice(3, 11);
    let beyond = request.address.slice(16, 16).any() | last.gt(words(cfg));
    let in_table = !request.address.trunc(WORD.trailing_zeros()).any() & !beyond;
    let there = told | csr.then(register, table.then(in_table, inside));

    let code = |status: Status| lit(3, status as u32);
    let found = there.then(code(Status::Okay), code(Status::Address));
    let sized = right.then(found, code(Status::Length));
    (csr | memory | told | table).then(sized, code(Status::Command))
}

/// Strobes of a word: what of it lies from `first` on and before `end`, places in the block.
fn strobes(word: Sig, first: Sig, end: Sig) -> Sig {
    let lanes: Vec<Sig> = (0..8u32)
        .map(|lane| {
            let place = cat(&[lit(3, lane), word]).zext(COUNT);
            place.ge(first.zext(COUNT)) & place.lt(end)
        })
        .collect();
    cat(&lanes)
}

#[module]
fn execute(m: &Scope, cfg: &SerialConfig, request: Stream<Request>, told: Told) -> Done {
    let state = m.fsm("state", State::Idle);
    let expected = m.reg("expected", 8).reset(0);
    // Answers that are kept: none before the first session.
    let kept = m.reg("kept", SLOT + 1).reset(0);
    let session = kept.any();
    let slot = request.sequence.trunc(SLOT);
    let is = |command: Command| request.command.eq(command as u32);

    // The number.
    let age = (expected - request.sequence).named("age");
    let hello = is(Command::Hello);
    let new = hello | (session & !age.any());
    let again = !new & age.any() & age.le(kept.zext(8));
    let idle = state.is(State::Idle) & request.valid;
    let refuses = idle & !new & !again;
    let reason = session.then(lit(3, Reason::Gap as u32), lit(3, Reason::NoSession as u32));
    let finish = state.is(State::Finish);

    // The judgement, in a cycle of its own.
    let status = m.reg("status", 3).no_reset();
    let place = request.address.trunc(PLACE);
    let end = (place.zext(COUNT) + request.length.trunc(COUNT)).named("end");
    let last_word = (end - 1).slice(3, PLACE - 3).named("last_word");
    let first_word = place.slice(3, PLACE - 3);
    let word = m.reg("word", PLACE - 3).no_reset();
    let failed = |resp: Sig| resp.bit(1).then(lit(3, Status::Bus as u32), status);
    let count = m.reg("count", PLACE - 3).no_reset();
    let address_valid = m.reg("address_valid", 1).reset(0);
    let data_valid = m.reg("data_valid", 1).reset(0);
    let data_came = m.reg("data_came", 1).reset(0);
    m.when(idle & new, |m| {
        m.set(&state, State::Check);
        m.set(&status, judge(cfg, &request.payload));
    });
    // The slot's old answer may still be on its way.
    let free = !(told.sending.valid & told.sending.slot.eq(slot));
    m.when(state.is(State::Check) & free, |m| {
        m.set(&word, first_word);
        m.set(&count, 0);
        m.set(&state, State::Finish);
        m.when(!status.any(), |m| {
            let goes = |command: Command, next: State| {
                m.when(is(command), |m| m.set(&state, next));
            };
            goes(Command::Write, State::Write);
            goes(Command::Clear, State::Write);
            goes(Command::Dirty, State::Scan);
            goes(Command::Read, State::Read);
            goes(Command::CsrWrite, State::CsrWrite);
            goes(Command::CsrRead, State::CsrRead);
            goes(Command::Hello, State::Words);
            goes(Command::Status, State::Words);
            m.set(&address_valid, !(hello | is(Command::Status) | is(Command::Dirty)));
            m.set(&data_came, is(Command::Write) | is(Command::Clear) | is(Command::CsrWrite));
        });
    });

    // Data of writes, a word at a time.
    let fetches = (data_came & !data_valid).named("fetches");
    let fetch = Fetch { valid: fetches, word };
    m.when(fetches, |m| m.set(&data_valid, 1));

    // Memory.
    let (to_memory, to_csr) = (state.is(State::Write), state.is(State::CsrWrite));
    let bus_address = cat(&[lit(3, 0), request.address.slice(3, 29), lit(32, 0)]);
    let burst = Address {
        id: lit(crate::board::ID_BITS, 0),
        addr: bus_address,
        len: (last_word - first_word).zext(8),
    };
    let aw = Stream::new(m, "aw", address_valid & to_memory, burst.clone());
    let ar = Stream::new(m, "ar", address_valid & state.is(State::Read), burst);
    let last = word.eq(last_word);
    let strobe = strobes(word, place, end);
    let data = is(Command::Clear).then(lit(64, 0), told.word);
    let beat = WriteBeat { data, strb: strobe, last };
    let w = Stream::new(m, "w", data_valid & to_memory, beat);
    m.when(w.fire(), |m| {
        m.set(&data_valid, 0);
        m.set(&data_came, !last);
        m.set(&word, word + 1);
    });
    let sent = |address: Sig, data: Sig| (!address_valid | address) & (!data_came | data);
    m.when(aw.fire() | ar.fire(), |m| m.set(&address_valid, 0));
    m.when(to_memory & sent(aw.fire(), w.fire() & last), |m| m.set(&state, State::Written));
    told.b.accept(state.is(State::Written));
    m.discard(&told.b.id);
    m.when(told.b.fire(), |m| {
        m.set(&status, failed(told.b.resp));
        m.set(&state, State::Finish);
    });
    m.when(ar.fire(), |m| m.set(&state, State::Take));
    told.r.accept(state.is(State::Take));
    m.discard(&told.r.id);
    m.when(told.r.fire(), |m| {
        m.set(&status, failed(told.r.resp));
        m.set(&word, word + 1);
        m.when(told.r.last, |m| m.set(&state, State::Finish));
    });

    // Registers.
    let lite = Lite { address: request.address.trunc(24), prot: lit(3, 0) };
    let lite_aw = Stream::new(m, "lite_aw", address_valid & to_csr, lite.clone());
    let lite_ar = Stream::new(m, "lite_ar", address_valid & state.is(State::CsrRead), lite);
    let lite_w = Stream::new(m, "lite_w", data_valid & to_csr, LiteWrite { data: told.word, strb: strobe });
    m.when(lite_aw.fire() | lite_ar.fire(), |m| m.set(&address_valid, 0));
    m.when(lite_w.fire(), |m| {
        m.set(&data_valid, 0);
        m.set(&data_came, 0);
    });
    m.when(to_csr & sent(lite_aw.fire(), lite_w.fire()), |m| m.set(&state, State::CsrWritten));
    told.lite_b.accept(state.is(State::CsrWritten));
    m.when(told.lite_b.fire(), |m| {
        m.set(&status, failed(told.lite_b.payload));
        m.set(&state, State::Finish);
    });
    m.when(lite_ar.fire(), |m| m.set(&state, State::CsrTake));
    told.lite_r.accept(state.is(State::CsrTake));
    m.when(told.lite_r.fire(), |m| {
        m.set(&status, failed(told.lite_r.resp));
        m.set(&state, State::Finish);
    });

    // Of itself.
    let cycles = m.reg("cycles", 64).reset(0);
    m.set(&cycles, cycles + 1);
    let pending = m.reg("pending", 32).reset(0);
    let losses = m.reg("losses", 32).reset(0);
    m.when(told.dropped | refuses, |m| m.set(&losses, losses + 1));
    let words = state.is(State::Words);
    let clears = words & !hello & !count.any();
    let queue = told.interrupt.eqn.slice(5, 3).any().then(lit(5, 31), told.interrupt.eqn.trunc(5));
    let raises = told.interrupt.valid.then(lit(32, 1).shl_by(queue), lit(32, 0)).named("raises");
    m.discard(&told.interrupt.vector);
    m.set(&pending, clears.then(lit(32, 0), pending) | raises);
    let what = cat(&[lit(32, MAGIC), lit(8, VERSION), lit(8, WINDOW), lit(8, PLACE), lit(8, 0)]);
    let clock = cat(&[lit(32, cfg.clock_khz), request.address]);
    let of_hello = [what, lit(64, cfg.memory_bytes), lit(64, cfg.memory_base), clock, cycles];
    let of_status = [cat(&[pending, losses]), cycles];
    let own = hello.then(m.select(count.trunc(3), &of_hello), m.select(count.trunc(1), &of_status));
    let most = hello.then(lit(PLACE - 3, HELLO_BYTES / 8 - 1), lit(PLACE - 3, STATUS_BYTES / 8 - 1));
    m.when(words, |m| {
        m.set(&count, count + 1);
        m.when(count.eq(most), |m| m.set(&state, State::Finish));
    });

    // Of blocks that were written.
    let scans = state.is(State::Scan);
    let number = (request.address.slice(WORD.trailing_zeros(), 10) + count.zext(10)).named("number");
    let scan = Scan { valid: scans, word: number.trunc(Scan::of(cfg).word.width()) };
    m.when(told.scanned.valid, |m| {
        m.set(&count, count + 1);
        m.when((count + 1).eq(request.length.slice(3, PLACE - 3)), |m| m.set(&state, State::Finish));
    });

    // The answer.
    let read = told.lite_r.fire().then(told.lite_r.data, told.r.data);
    let data = words.then(own, scans.then(told.scanned.bits, read));
    let stores = words | told.scanned.valid | told.r.fire() | told.lite_r.fire();
    let store = Store { valid: stores, slot, word: (words | scans).then(count, word), data };
    let own_bytes = hello.then(lit(COUNT, HELLO_BYTES), lit(COUNT, STATUS_BYTES));
    let reads = is(Command::Read) | is(Command::CsrRead) | is(Command::Dirty);
    let told_bytes = (hello | is(Command::Status)).then(own_bytes, lit(COUNT, 0));
    let length = status.any().then(lit(COUNT, 0), reads.then(request.length.trunc(COUNT), told_bytes));
    let head = Head {
        command: request.command,
        sequence: request.sequence,
        status,
        length,
        place: (reads & !is(Command::Dirty)).then(place, lit(PLACE, 0)),
    };
    let sends = idle & again;
    let answer = Stream::new(m, "answer", finish | sends, Answer { slot, fresh: finish, head });
    request.accept(answer.fire() | refuses);
    m.when(finish & answer.ready, |m| {
        m.set(&state, State::Idle);
        m.set(&expected, request.sequence + 1);
        m.when(hello, |m| m.set(&kept, 1)).otherwise_when(kept.ne(WINDOW), |m| m.set(&kept, kept + 1));
    });
    Done {
        aw,
        w,
        ar,
        lite_aw,
        lite_w,
        lite_ar,
        scan,
        fetch,
        store,
        answer,
        refused: Refused::new(refuses, reason),
        expected,
        waiting: pending.any(),
        raised: raises.any() & !pending.any(),
    }
}
