// SPDX-License-Identifier: MIT OR Apache-2.0
//! The channels of AXI4 and AXI4-Lite as streams, and as ports with the standard's names.
//!
//! Beats, responses and the registers' channels are those of the card ([`ferrowire_hdl::host::axi`]). All bursts are of increasing addresses in beats of the
//! whole width; `AxSIZE`, `AxBURST`, `AxCACHE` and `AxPROT` are constants of the ports.

pub use ferrowire_hdl::host::axi::{Lite, LiteWrite, ReadBeat, Response, WriteBeat};
use ferrowire_rtl::{bits, clog2, lit, Bundle, Scope, Sig, Stream};

/// `xRESP`: as asked for.
pub const OKAY: u32 = 0;
/// `xRESP`: who is there has failed.
pub const SLVERR: u32 = 2;
/// `xRESP`: nobody is there.
pub const DECERR: u32 = 3;

/// A burst on AW or AR.
#[derive(Clone, Bundle)]
pub struct Address {
    /// `AxID`.
    pub id: Sig,
    /// `AxADDR`.
    pub addr: Sig,
    /// `AxLEN`: beats behind the first.
    pub len: Sig,
}

/// What a subordinate of AXI4-Lite has read.
#[derive(Clone, Bundle)]
pub struct LiteRead {
    /// Eight bytes.
    pub data: Sig,
    /// `RRESP`.
    pub resp: Sig,
}

/// What a manager asks of memory.
pub struct Requests {
    /// AW.
    pub aw: Stream<Address>,
    /// W.
    pub w: Stream<WriteBeat>,
    /// AR.
    pub ar: Stream<Address>,
}

/// What memory answers.
pub struct Answers {
    /// B.
    pub b: Stream<Response>,
    /// R.
    pub r: Stream<ReadBeat>,
}

/// What a manager asks of registers.
pub struct LiteRequests {
    /// AW.
    pub aw: Stream<Lite>,
    /// W.
    pub w: Stream<LiteWrite>,
    /// AR.
    pub ar: Stream<Lite>,
}

/// What registers answer.
pub struct LiteAnswers {
    /// B.
    pub b: Stream<Sig>,
    /// R.
    pub r: Stream<LiteRead>,
}

/// The shape of a burst.
pub fn address(id_bits: u32) -> Address {
    Address { id: bits(id_bits), addr: bits(64), len: bits(8) }
}

/// The shape of a beat of W.
pub fn write_beat(bytes: u32) -> WriteBeat {
    WriteBeat { data: bits(8 * bytes), strb: bits(bytes), last: bits(1) }
}

/// The shape of a response.
pub fn response(id_bits: u32) -> Response {
    Response { id: bits(id_bits), resp: bits(2) }
}

/// The shape of a beat of R.
pub fn read_beat(id_bits: u32, bytes: u32) -> ReadBeat {
    ReadBeat { id: bits(id_bits), data: bits(8 * bytes), resp: bits(2), last: bits(1) }
}

/// The shape of what registers have read.
pub fn lite_read() -> LiteRead {
    LiteRead { data: bits(64), resp: bits(2) }
}

/// A channel into the module: ports `prefix` and the field.
fn takes<T: Bundle>(m: &Scope, prefix: &str, shape: &T) -> Stream<T> {
    let valid = m.input(&format!("{prefix}valid"), 1);
    let payload = shape.map("", &mut |path, sig| m.input(&format!("{prefix}{path}"), sig.width()));
    let stream = Stream::new(m, &format!("{prefix}_taken"), valid, payload);
    m.output(&format!("{prefix}ready"), &stream.ready);
    stream
}

/// A channel out of it.
fn gives<T: Bundle>(m: &Scope, prefix: &str, stream: Stream<T>) {
    m.output(&format!("{prefix}valid"), &stream.valid);
    for (path, sig) in stream.payload.fields() {
        m.output(&format!("{prefix}{path}"), &sig);
    }
    stream.accept(m.input(&format!("{prefix}ready"), 1));
}

/// AW or AR out of the module.
fn gives_address(m: &Scope, prefix: &str, bytes: u32, stream: Stream<Address>) {
    m.output(&format!("{prefix}size"), &lit(3, clog2(u64::from(bytes))));
    m.output(&format!("{prefix}burst"), &lit(2, 1));
    m.output(&format!("{prefix}cache"), &lit(4, 2));
    m.output(&format!("{prefix}prot"), &lit(3, 2));
    gives(m, prefix, stream);
}

/// Ports of a subordinate. What a manager says of size, burst, cache and protection is not looked at.
pub fn subordinate_in(m: &Scope, prefix: &str, id_bits: u32, bytes: u32) -> Requests {
    let channel = |name: &str| format!("{prefix}{name}");
    let addresses = |name: &str| {
        for (field, width) in [("size", 3), ("burst", 2), ("cache", 4), ("prot", 3)] {
            m.discard(&m.input(&format!("{prefix}{name}{field}"), width));
        }
        takes(m, &channel(name), &address(id_bits))
    };
    let aw = addresses("aw");
    let w = takes(m, &channel("w"), &write_beat(bytes));
    Requests { aw, w, ar: addresses("ar") }
}

/// The other ports of a subordinate.
pub fn subordinate_out(m: &Scope, prefix: &str, answers: Answers) {
    gives(m, &format!("{prefix}b"), answers.b);
    gives(m, &format!("{prefix}r"), answers.r);
}

/// Ports of a manager that bring answers.
pub fn manager_in(m: &Scope, prefix: &str, id_bits: u32, bytes: u32) -> Answers {
    let b = takes(m, &format!("{prefix}b"), &response(id_bits));
    Answers { b, r: takes(m, &format!("{prefix}r"), &read_beat(id_bits, bytes)) }
}

/// The other ports of a manager.
pub fn manager_out(m: &Scope, prefix: &str, bytes: u32, requests: Requests) {
    gives_address(m, &format!("{prefix}aw"), bytes, requests.aw);
    gives(m, &format!("{prefix}w"), requests.w);
    gives_address(m, &format!("{prefix}ar"), bytes, requests.ar);
}

/// Ports of a manager of registers that bring answers.
pub fn lite_in(m: &Scope, prefix: &str) -> LiteAnswers {
    let channel = format!("{prefix}b");
    let b = Stream::new(
        m,
        "b_taken",
        m.input(&format!("{channel}valid"), 1),
        m.input(&format!("{channel}resp"), 2),
    );
    m.output(&format!("{channel}ready"), &b.ready);
    LiteAnswers { b, r: takes(m, &format!("{prefix}r"), &lite_read()) }
}

/// The other ports of a manager of registers.
pub fn lite_out(m: &Scope, prefix: &str, requests: LiteRequests) {
    let lite = |name: &str, stream: Stream<Lite>| {
        let channel = format!("{prefix}{name}");
        m.output(&format!("{channel}valid"), &stream.valid);
        m.output(&format!("{channel}addr"), &stream.address);
        m.output(&format!("{channel}prot"), &stream.prot);
        stream.accept(m.input(&format!("{channel}ready"), 1));
    };
    lite("aw", requests.aw);
    lite("ar", requests.ar);
    gives(m, &format!("{prefix}w"), requests.w);
}
