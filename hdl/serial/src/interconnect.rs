// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two managers of AXI4 before one memory.
//!
//! ```text
//!  AW 0 --> [ ] --+--> turns --> [ ] --> AW, the manager's number above its ID
//!  AW 1 --> [ ] --+      |
//!                        v whose
//!  W 0, W 1 --------> in the order of AW --> W
//!  AR 0, AR 1 --> as AW -----------------> AR
//!  B 0, B 1 <-------- by the number ------ B
//!  R 0, R 1 <-------- by the number ------ R
//! ```
//!
//! **Order.** Each channel is passed on as it is, so who waits for a response waits for memory's, and bursts of one manager stay in order. Data are passed in the order of their addresses
//! (AXI4 has no WID). There is no order between the managers, as in the standard (A6).
//!
//! **Rates.** A burst in two cycles and a beat a cycle; an address is 2 cycles under way, data, responses and reads 0. Both managers are served in turns, burst by burst: one waits for one burst of the other at most.
//! Data may be on offer before their address: they wait. [`BURSTS`] addresses are ahead of their data.
//!
//! **Backpressure.** READY of B and R is that of the manager whose beat it is: one that does not take its answers holds up the other. Both of a board always take theirs. READY of W is that of memory.
//!
//! Reset forgets what is under way, with memory and managers. Bad input: none. Longest path: memory's WREADY to a manager's.

use crate::axi::{Address, Answers, ReadBeat, Requests, Response, WriteBeat};
use ferrowire_hdl::stream::{arbiter_from, fifo, fork, half, Chosen};
use ferrowire_rtl::{build, cat, lit, module, BuildErrors, Interface, Netlist, Scope, Sig, Stream};

/// Bursts of writes whose addresses are ahead of their data.
pub const BURSTS: u32 = 4;

/// What is asked of memory.
#[derive(Interface)]
struct Joined {
    aw: Stream<Address>,
    w: Stream<WriteBeat>,
    ar: Stream<Address>,
}

/// The interconnect alone, between ports `s0_axi_*`, `s1_axi_*` and `m_axi_*`.
///
/// # Errors
/// What the build-time checks find.
pub fn engine(id_bits: u32, bytes: u32) -> Result<Netlist, BuildErrors> {
    build("interconnect", |m| {
        let managers = [0, 1].map(|k| crate::axi::subordinate_in(m, &format!("s{k}_axi_"), id_bits, bytes));
        let answers = crate::axi::manager_in(m, "m_axi_", id_bits + 1, bytes);
        let (requests, [first, second]) = interconnect(m, managers, answers);
        crate::axi::manager_out(m, "m_axi_", bytes, requests);
        crate::axi::subordinate_out(m, "s0_axi_", first);
        crate::axi::subordinate_out(m, "s1_axi_", second);
    })
}

/// Two managers, whose IDs have the same width, before a memory whose IDs have one bit more.
pub fn interconnect(m: &Scope, managers: [Requests; 2], answers: Answers) -> (Requests, [Answers; 2]) {
    let [first, second] = managers;
    let Joined { aw, w, ar } = join(m, first.aw, second.aw, first.w, second.w, first.ar, second.ar);
    let [b0, b1] = split(m, answers.b, |b: &Response| (b.id, Response { id: below(b.id), ..b.clone() }));
    let [r0, r1] = split(m, answers.r, |r: &ReadBeat| (r.id, ReadBeat { id: below(r.id), ..r.clone() }));
    (Requests { aw, w, ar }, [Answers { b: b0, r: r0 }, Answers { b: b1, r: r1 }])
}

/// An ID without the manager's number.
fn below(id: Sig) -> Sig {
    id.trunc(id.width() - 1)
}

/// Each answer to its manager.
fn split<T: ferrowire_rtl::Bundle>(
    m: &Scope,
    answer: Stream<T>,
    parts: impl Fn(&T) -> (Sig, T),
) -> [Stream<T>; 2] {
    let (id, payload) = parts(&answer.payload);
    let second = id.msb();
    let to = [!second, second].map(|is| Stream::new(m, "answer", answer.valid & is, payload.clone()));
    answer.accept(second.then(to[1].ready, to[0].ready));
    to
}

/// Addresses of both, in turns.
fn turns(m: &Scope, name: &str, inputs: [Stream<Address>; 2]) -> Stream<Chosen<Address>> {
    let inputs = inputs.into_iter().enumerate();
    let held = inputs.map(|(k, input)| half(&m.label(&format!("{name}{k}")), input)).collect();
    arbiter_from(m, &|_: &Address| lit(1, 1), held)
}

/// A burst with its manager's number.
fn numbered(chosen: &Chosen<Address>) -> Address {
    Address { id: cat(&[chosen.item.id, chosen.source]), ..chosen.item.clone() }
}

#[module]
fn join(
    m: &Scope,
    aw0: Stream<Address>,
    aw1: Stream<Address>,
    w0: Stream<WriteBeat>,
    w1: Stream<WriteBeat>,
    ar0: Stream<Address>,
    ar1: Stream<Address>,
) -> Joined {
    let reads = turns(m, "ar", [ar0, ar1]).map(numbered);
    let ar = half(&m.label("ar"), reads);

    let mut writes = fork(m, 2, turns(m, "aw", [aw0, aw1])).into_iter();
    let mut next = || writes.next().expect("two parts");
    let aw = half(&m.label("aw"), next().map(numbered));
    let whose = fifo(&m.label("whose"), BURSTS, next().map(|chosen| chosen.source));

    let second = whose.payload;
    let beat = m.mux(second, &w1.payload, &w0.payload);
    let w = Stream::new(m, "w", whose.valid & second.then(w1.valid, w0.valid), beat);
    let passes = w.ready & whose.valid;
    w0.accept(passes & !second);
    w1.accept(passes & second);
    whose.accept(w.fire() & w.last);
    Joined { aw, w, ar }
}
