// SPDX-License-Identifier: MIT OR Apache-2.0
//! The design that is printed: the transport core, its neighbours' channels as ports.

use ferrowire_hdl::config::RnicConfig;
use ferrowire_hdl::stream::Beat;
use ferrowire_hdl::transport::{transport, Control};
use ferrowire_hdl::types::*;
use ferrowire_rtl::{bits, build, clog2, BuildErrors, Netlist};

/// Builds it.
pub fn card(cfg: &RnicConfig) -> Result<Netlist, BuildErrors> {
    build("core", |m| {
        let wire = m.stream_in("rx", &Beat::of(cfg.beat_bytes));
        let wqe = m.stream_in("wqe", &DmaReadData::of(cfg));
        let payload = m.stream_in("payload", &DmaReadData::of(cfg));
        let index = bits(cfg.qp_bits());
        let key_bits = bits(clog2(u64::from(cfg.keys)));
        let page_bits = bits(clog2(u64::from(cfg.page_entries)));
        let control = Control {
            broadcast: m.input_of("broadcast", &QpBroadcast::of(cfg)),
            addresses: m
                .input_of("addresses", &TableWrite { enable: bits(1), index, entry: AddressVector::of() }),
            keys: m
                .input_of("keys", &TableWrite { enable: bits(1), index: key_bits, entry: KeyEntry::of(cfg) }),
            pages: m.input_of("pages", &TableWrite { enable: bits(1), index: page_bits, entry: bits(52) }),
            responder: m.stream_in("start_responder", &QpInit::of(cfg)),
            requester: m.stream_in("start_requester", &QpInit::of(cfg)),
            completer: m.stream_in("start_completer", &QpInit::of(cfg)),
            doorbell: m.stream_in("doorbell", &SqDoorbell::of(cfg)),
            kick: m.stream_in("kick", &index),
        };
        let out = transport(m, cfg, wire, wqe, payload, control);
        m.stream_out("tx", out.wire);
        for (i, read) in out.reads.into_iter().enumerate() {
            m.stream_out(&format!("read{i}"), read);
        }
        m.stream_out("write", out.write);
        m.stream_out("completion", out.completions);
        for (i, fault) in out.faults.into_iter().enumerate() {
            m.stream_out(&format!("fault{i}"), fault);
        }
        m.output("events", &out.events);
    })
}
