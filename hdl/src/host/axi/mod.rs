// SPDX-License-Identifier: MIT OR Apache-2.0
//! The card on AXI4: a manager of host memory, and an AXI4-Lite subordinate for the registers, for boards without PCIe (AMBA AXI and ACE protocol
//! specification, IHI 0022).
//!
//! ```text
//!  dma_read ---> reads: behind payload --> bursts --------------------> AR
//!  dma_data <----------------------------------- last, error <--------- R
//!  dma_write --> writes: in order by kind ---> bursts ----------------> AW, W
//!                   ^  bursts that are done <-------------------------- B
//!  interrupt --> interrupts: behind events --> interrupt
//!  csr <-------- registers <------------------------------------------- s_axil
//! ```
//!
//! **Ports** have the names of the standard: `m_axi_*` with as many data bits as a beat and `s_axil_*` with 64. Interrupts are pulses as without AXI.
//!
//! **Order.** AXI promises that others see one write before another only if the other began behind the response of the one (A6.3). So each kind of write has
//! an ID and waits for what must be seen before it: see [`writes`](mod@writes). A read waits for the responses to all payload that was
//! taken before it, so it sees what was written. Nothing keeps a later write from passing an earlier read.
//!
//! **What goes wrong**: a response with SLVERR or DECERR ends a read as an error of the queue that asked. An error response to a write comes too late for the queue
//! pair, because its ACK may have left. The card counts each one. It keeps the page of the first one after a reset ([`faults`](mod@faults)), and sends the
//! event `DEVICE_FATAL`. A subordinate that never answers holds up all later accesses and a reset, because AXI has no time-out.
//!
//! **Reset** of the card by its host ([`reset`](crate::host::reset)) does not reset this part: it goes on until what was handed to it has ended (`idle`).

mod barrier;
mod bursts;
pub mod faults;
mod interrupts;
mod reads;
mod registers;
#[cfg(test)]
mod tests;
mod writes;

use crate::config::RnicConfig;
use crate::host::csr::CsrRequest;
use crate::host::event::Interrupt;
use crate::host::pcie::ToHost;
use crate::types::DmaReadData;
use bursts::Burst;
use faults::WriteFault;
use ferrowire_rtl::{bits, build, lit, BuildErrors, Bundle, Netlist, Scope, Sig, Stream};

/// Bits of an ID.
const ID_BITS: u32 = 2;

/// The ID of reads.
const DATA: u32 = 0;

/// `AxBURST` of an incrementing burst.
const INCR: u32 = 1;

/// `AxPROT`: data, not secure, not privileged.
const PROT: u32 = 0b010;

/// A beat of W.
#[derive(Clone, Bundle)]
pub struct WriteBeat {
    /// Data.
    pub data: Sig,
    /// Its bytes that are written.
    pub strb: Sig,
    /// The burst ends.
    pub last: Sig,
}

/// A response to a burst of writes.
#[derive(Clone, Bundle)]
pub struct Response {
    /// The burst's ID.
    pub id: Sig,
    /// OKAY, EXOKAY, SLVERR, DECERR.
    pub resp: Sig,
}

/// A beat of R.
#[derive(Clone, Bundle)]
pub struct ReadBeat {
    /// The burst's ID.
    pub id: Sig,
    /// Data.
    pub data: Sig,
    /// As of [`Response`].
    pub resp: Sig,
    /// The burst ends.
    pub last: Sig,
}

/// Where a CPU reads or writes.
#[derive(Clone, Bundle)]
pub struct Lite {
    /// Byte address in BAR 0.
    pub address: Sig,
    /// Not looked at.
    pub prot: Sig,
}

/// What a CPU writes.
#[derive(Clone, Bundle)]
pub struct LiteWrite {
    /// Eight bytes.
    pub data: Sig,
    /// Those that are written.
    pub strb: Sig,
}

/// What is counted.
#[derive(Clone, Bundle)]
pub struct AxiEvents {
    /// A read failed.
    pub read_error: Sig,
    /// A burst of writes failed.
    pub write_error: Sig,
    /// The first one that failed since the last reset.
    pub fault: WriteFault,
}

impl AxiEvents {
    /// The shape.
    pub fn of() -> Self {
        AxiEvents { read_error: bits(1), write_error: bits(1), fault: WriteFault::of() }
    }
}

/// What comes from here for the card.
pub struct FromAxi {
    /// What was read.
    pub data: Stream<DmaReadData>,
    /// Accesses of BAR 0.
    pub csr: Stream<CsrRequest>,
    /// What is counted.
    pub events: AxiEvents,
    /// Every write has its response.
    pub idle: Sig,
}

/// Streams with ports of the standard's names: `prefix` and the field.
struct Ports<'a> {
    m: &'a Scope,
    prefix: &'static str,
}

impl Ports<'_> {
    fn name(&self, field: &str) -> String {
        format!("{}{field}", self.prefix)
    }

    fn input(&self, field: &str, width: u32) -> Sig {
        self.m.input(&self.name(field), width)
    }

    fn output(&self, field: &str, value: Sig) {
        self.m.output(&self.name(field), &value);
    }

    /// A channel towards the card.
    fn takes<T: Bundle>(&self, payload: T) -> Stream<T> {
        let stream = Stream::new(self.m, &self.name("taken"), self.input("valid", 1), payload);
        self.output("ready", stream.ready);
        stream
    }

    /// A channel from the card; its payload's ports are made by `fields`.
    fn gives<T: Bundle>(&self, stream: Stream<T>, fields: impl FnOnce(&Self, &T)) {
        self.output("valid", stream.valid);
        fields(self, &stream.payload);
        stream.accept(self.input("ready", 1));
    }
}

/// Ports of AR or AW.
fn address(cfg: &RnicConfig) -> impl Fn(&Ports<'_>, &Burst) + '_ {
    move |ports, burst| {
        ports.output("id", burst.id);
        ports.output("addr", burst.address);
        ports.output("len", burst.len);
        ports.output("size", lit(3, cfg.lane_bits()));
        ports.output("burst", lit(2, INCR));
        ports.output("cache", lit(4, cfg.axi_cache));
        ports.output("prot", lit(3, PROT));
    }
}

/// The part alone, between its ports: `read`, `data`, `write`, `csr`, `csr_response`, `interrupt`, `quiesce` and `idle` towards the card; those of
/// AXI and `raised` interrupts towards the host; and `events`.
///
/// # Errors
/// What the build-time checks find; none for a valid configuration with AXI.
pub fn engine(cfg: &RnicConfig) -> Result<Netlist, BuildErrors> {
    build("engine", |m| {
        let (from, raised) = axi(m, cfg, ToHost::ports(m, cfg));
        m.stream_out("data", from.data);
        m.stream_out("csr", from.csr);
        m.output("events", &from.events);
        m.output("idle", &from.idle);
        m.output("raised", &raised);
    })
}

/// The host's side of a card on AXI, ports included, and its interrupts.
pub fn axi(m: &Scope, cfg: &RnicConfig, host: ToHost) -> (FromAxi, Interrupt) {
    let ports = |prefix| Ports { m, prefix };
    let width = 8 * cfg.beat_bytes;
    m.discard(&host.quiesce);

    // Host memory.
    let b = ports("m_axi_b");
    let response = b.takes(Response { id: b.input("id", ID_BITS), resp: b.input("resp", 2) });
    let r = ports("m_axi_r");
    let (id, data) = (r.input("id", ID_BITS), r.input("data", width));
    let came = r.takes(ReadBeat { id, data, resp: r.input("resp", 2), last: r.input("last", 1) });
    let written = writes::writes(m, cfg, host.write, response, host.quiesce.shut);
    let [payload, _, events] = &written.bursts[..] else { unreachable!("three kinds of writes") };
    let read = reads::reads(m, cfg, host.read, payload.clone(), came);
    ports("m_axi_aw").gives(written.address, address(cfg));
    ports("m_axi_w").gives(written.data, |ports, beat| {
        ports.output("data", beat.data);
        ports.output("strb", beat.strb);
        ports.output("last", beat.last);
    });
    ports("m_axi_ar").gives(read.address, address(cfg));

    // The CPU.
    let lite = |prefix| {
        let ports = ports(prefix);
        ports.takes(Lite { address: ports.input("addr", 24), prot: ports.input("prot", 3) })
    };
    let w = ports("s_axil_w");
    let w = w.takes(LiteWrite { data: w.input("data", 64), strb: w.input("strb", 8) });
    let registers = registers::registers(
        m,
        lite("s_axil_aw"),
        w,
        lite("s_axil_ar"),
        host.response,
        written.bursts.clone(),
    );
    ports("s_axil_b").gives(registers.b, |ports, resp| ports.output("resp", *resp));
    ports("s_axil_r").gives(registers.r, |ports, read| {
        ports.output("data", read.data);
        ports.output("resp", read.resp);
    });

    let interrupt = interrupts::interrupts(m, cfg, host.interrupt, events.clone(), host.quiesce.shut);
    let events = AxiEvents { read_error: read.error, write_error: written.error, fault: written.fault };
    let from = FromAxi { data: read.data, csr: registers.access, events, idle: written.idle };
    (from, interrupt)
}
