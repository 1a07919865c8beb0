// SPDX-License-Identifier: MIT OR Apache-2.0
//! On-board memory: block RAM as a subordinate of AXI4.
//!
//! ```text
//!  AW --> [ burst ] --> address +1 --+
//!  W  -------------------------------+--> write port --> RAM        [ ] --> B
//!  AR --> [ burst ] --> address +1 ------> read port <-- RAM --> [ two ] --> R
//! ```
//!
//! Bursts of increasing addresses in beats of the whole width (AXI4 A3.4.1), of 1 to 256 beats; the first address need not be aligned, strobes say what is written. Any ID comes back with its answer, and
//! all answers are in order.
//!
//! **Order.** A write's response comes when its last beat is in memory. A read looks when its beat is fetched, so it sees all writes that had their responses before its address was taken. One beat is written
//! or seen at once.
//!
//! **Rates.** A beat a cycle in each direction at once; a cycle is lost between bursts of writes. From an address to the first beat of R: 3 cycles. From the last beat of W to B: 1. A read that meets a write of the same word waits for a cycle.
//! Outputs come from registers, and READY of W depends on no input.
//!
//! **Memory ports**: one that writes with a strobe a byte, one that reads. `memory_bytes` / 2,048 block RAMs of 18 Kbit. Its contents are zeros at power-on, and survive reset.
//!
//! **Bad input.** A burst that begins outside of `memory_base` and `memory_bytes` is answered with DECERR, and changes nothing; one cannot run over the end, for none crosses 4 KiB. Reset forgets bursts.
//!
//! Longest path: address of the read against that of the write, then the RAM's enable.

use crate::axi::{Address, Answers, ReadBeat, Requests, Response, DECERR, OKAY};
use crate::dirty::Wrote;
use crate::protocol::BLOCK;
use crate::SerialConfig;
use ferrowire_hdl::stream::fifo;
use ferrowire_rtl::{
    bits, build, clog2, lit, module, BuildErrors, Collision, Interface, Netlist, Scope, Sig, Stream, Style,
};

/// Beats of R that wait for the manager.
const WAITING: u32 = 4;

#[derive(Interface)]
struct Parts {
    b: Stream<Response>,
    r: Stream<ReadBeat>,
    wrote: Wrote,
}

/// The memory alone, between its ports `s_axi_*`.
///
/// # Errors
/// What the build-time checks find; none for a valid configuration.
pub fn engine(cfg: &SerialConfig, id_bits: u32) -> Result<Netlist, BuildErrors> {
    build("memory", |m| {
        let requests = crate::axi::subordinate_in(m, "s_axi_", id_bits, cfg.beat_bytes);
        let (answers, wrote) = memory(m, cfg, requests);
        crate::axi::subordinate_out(m, "s_axi_", answers);
        m.output("wrote", &wrote);
    })
}

/// Memory, and what of it those have written whose IDs have no highest bit: the first manager of an [interconnect](crate::interconnect).
pub fn memory(m: &Scope, cfg: &SerialConfig, requests: Requests) -> (Answers, Wrote) {
    let Parts { b, r, wrote } = block_ram(m, cfg, requests.aw, requests.w, requests.ar);
    (Answers { b, r }, wrote)
}

/// Whether an address is in this memory.
pub(crate) fn within(cfg: &SerialConfig, addr: Sig) -> Sig {
    let low = cfg.memory_bytes.trailing_zeros();
    let high = addr.width() - low;
    addr.slice(low, high).eq(lit(high, cfg.memory_base >> low))
}

#[module]
fn block_ram(
    m: &Scope,
    cfg: &SerialConfig,
    aw: Stream<Address>,
    w: Stream<crate::axi::WriteBeat>,
    ar: Stream<Address>,
) -> Parts {
    let bytes = cfg.beat_bytes;
    let lanes = bytes.trailing_zeros();
    let words = u32::try_from(cfg.memory_bytes / u64::from(bytes)).expect("validated");
    let ram = m.mem("ram", words, &bits(8 * bytes)).style(Style::Block).build();
    let width = ram.addr_width();
    let word = |address: &Address| address.addr.slice(lanes, width);

    // Writes.
    let writing = m.reg("writing", 1).reset(0);
    let write_at = m.reg("write_at", width).no_reset();
    let write_outside = m.reg("write_outside", 1).no_reset();
    let write_id = m.reg("write_id", aw.id.width()).no_reset();
    let answered = m.reg("answered", 1).reset(0);
    let resp = m.reg("resp", 2).no_reset();
    let id = m.reg("id", aw.id.width()).no_reset();
    let b = Stream::new(m, "b", answered, Response { id, resp });
    // The response before has left when this one is made.
    w.accept(writing & !answered);
    aw.accept(!writing);
    m.discard(&aw.len);
    m.when(aw.fire(), |m| {
        m.set(&writing, 1);
        m.set(&write_at, word(&aw.payload));
        m.set(&write_outside, !within(cfg, aw.addr));
        m.set(&write_id, aw.id);
    });
    let writes = w.fire();
    m.when(b.fire(), |m| m.set(&answered, 0));
    m.when(writes, |m| {
        m.set(&write_at, write_at + 1);
        m.when(w.last, |m| {
            m.set(&writing, 0);
            m.set(&answered, 1);
            m.set(&resp, write_outside.then(lit(2, DECERR), lit(2, OKAY)));
            m.set(&id, write_id);
        });
    });
    let stored = writes & !write_outside;
    ram.write_lanes(stored, write_at, &w.data, w.strb, 8);
    // The last beat of a burst, or of a block: all before it is in memory, too.
    let in_block = clog2(u64::from(BLOCK / bytes));
    let ends_block = w.last | write_at.trunc(in_block).all();
    let shape = Wrote::of(cfg);
    let wrote = Wrote {
        valid: m.delay("wrote", &(stored & ends_block & !write_id.msb())),
        block: m.delay("block", &write_at.slice(in_block, width - in_block)).zext(shape.block.width()),
    };

    // Reads.
    let reading = m.reg("reading", 1).reset(0);
    let read_at = m.reg("read_at", width).no_reset();
    let read_outside = m.reg("read_outside", 1).no_reset();
    let read_id = m.reg("read_id", ar.id.width()).no_reset();
    let left = m.reg("left", 8).no_reset();
    // Places of the FIFO that are neither taken nor about to be.
    let room = m.reg("room", 3).reset(WAITING);
    let meets = (stored & write_at.eq(read_at)).named("meets");
    let fetch = (reading & room.any() & !meets).named("fetch");
    // They never meet, so what a meeting gives is not said.
    let data = ram.read(m, fetch, read_at, Collision::Any);
    let ends = fetch & !left.any();
    ar.accept(!reading | ends);
    m.when(fetch, |m| {
        m.set(&read_at, read_at + 1);
        m.set(&left, left - 1);
        m.set(&reading, left.any());
    });
    m.when(ar.fire(), |m| {
        m.set(&reading, 1);
        m.set(&read_at, word(&ar.payload));
        m.set(&left, ar.len);
        m.set(&read_outside, !within(cfg, ar.addr));
        m.set(&read_id, ar.id);
    });
    let came = m.reg("came", 1).reset(0);
    m.set(&came, fetch);
    let beat = ReadBeat {
        id: m.delay("came_id", &read_id),
        data,
        resp: m.delay("came_outside", &read_outside).repeat(2),
        last: m.delay("came_last", &!left.any()),
    };
    let arrives = Stream::new(m, "arrives", came, beat);
    let enters = arrives.ready;
    m.assert(!came | enters, "a beat of R finds its place");
    let r = fifo(m, WAITING, arrives);
    m.set(&room, room + r.fire().zext(3) - fetch.zext(3));
    Parts { b, r, wrote }
}
