// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ports towards the host: DMA streams and register accesses as they are, or what stands before them. Wiring only.

use super::axi::{axi, AxiEvents};
use super::csr::CsrRequest;
use super::pcie::{pcie, FromHost, PcieEvents, PcieSettings, ToHost};
use super::pcie4::{pcie4, Axis, SeqNums, CREDITS};
use crate::config::RnicConfig;
use crate::stream::Beat;
use crate::types::DmaReadData;
use ferrowire_rtl::{lit, Bundle, Later, Scope, Sig, Stream};

/// What is counted of a card's host's side; zeros where there is no such side.
pub struct HostEvents {
    /// Of PCIe.
    pub pcie: PcieEvents,
    /// Of AXI.
    pub axi: AxiEvents,
}

/// What the host's blocks are connected to.
pub struct HostPorts {
    /// Accesses of BAR 0 and what was read, where they do not come from ports.
    before: Option<(Later<CsrRequest>, Later<DmaReadData>)>,
    /// What is counted.
    pub events: HostEvents,
    /// What was written has left the card.
    pub idle: Sig,
    /// A function level reset is asked for.
    pub flr: Sig,
}

impl HostPorts {
    /// The ports into the card, and accesses of BAR 0 and data of reads.
    pub fn of(m: &Scope, cfg: &RnicConfig) -> (Self, Stream<CsrRequest>, Stream<DmaReadData>) {
        let nothing = HostEvents { pcie: PcieEvents::of().zeros(), axi: AxiEvents::of().zeros() };
        if !cfg.has_pcie() && !cfg.axi {
            let data = m.stream_in("dma_data", &DmaReadData::of(cfg));
            let csr = m.stream_in("csr", &CsrRequest::of());
            let ports = HostPorts { before: None, events: nothing, idle: lit(1, 1), flr: lit(1, 0) };
            return (ports, csr, data);
        }
        let (csr, accesses) = m.later("csr", &CsrRequest::of());
        let (data, reads) = m.later("dma_data", &DmaReadData::of(cfg));
        let (events, flr) = match cfg.axi {
            true => (HostEvents { axi: m.wire_of("axi_events", &AxiEvents::of()), ..nothing }, lit(1, 0)),
            false => {
                let pcie = m.wire_of("pcie_events", &PcieEvents::of());
                (HostEvents { pcie, ..nothing }, m.input("pcie_flr", 1))
            }
        };
        let idle = m.wire("host_idle", 1);
        (HostPorts { before: Some((accesses, reads)), events, idle, flr }, csr, data)
    }

    /// The rest.
    pub fn connect(self, m: &Scope, cfg: &RnicConfig, host: ToHost, flr_done: Sig) {
        let HostPorts { before, events, idle: is_idle, .. } = self;
        let Some((accesses, reads)) = before else {
            m.stream_out("csr_response", host.response);
            m.stream_out("dma_read", host.read);
            m.stream_out("dma_write", host.write);
            m.output("interrupt", &host.interrupt);
            return;
        };
        let join = |data, csr, idle| {
            accesses.connect(csr);
            reads.connect(data);
            m.drive(&is_idle, idle);
        };
        if cfg.axi {
            let (from, interrupt) = axi(m, cfg, host);
            m.output("interrupt", &interrupt);
            m.drive(&events.axi, from.events);
            return join(from.data, from.csr, from.idle);
        }
        m.output("pcie_flr_done", &flr_done);
        let settings = m.delay("pcie_settings", &m.input_of("pcie", &PcieSettings::of()));
        if cfg.pcie4 {
            let (rc, cq) = (m.stream_in("rc", &Axis::rc()), m.stream_in("cq", &Axis::cq()));
            let (sent, credits) = (m.input_of("rq_seq", &SeqNums::of()), m.input("tfc_nph_av", CREDITS));
            let FromHost { data, csr, rq, cc, events: counted, idle } =
                pcie4(m, cfg, settings, rc, cq, sent, credits, host);
            m.drive(&events.pcie, counted);
            join(data, csr, idle);
            m.stream_out("rq", rq);
            m.stream_out("cc", cc);
        } else {
            let beat = Beat::of(cfg.beat_bytes);
            let (rc, cq) = (m.stream_in("rc", &beat), m.stream_in("cq", &beat));
            let FromHost { data, csr, rq, cc, events: counted, idle } = pcie(m, cfg, settings, rc, cq, host);
            m.drive(&events.pcie, counted);
            join(data, csr, idle);
            m.stream_out("rq", rq);
            m.stream_out("cc", cc);
        }
    }
}
