// SPDX-License-Identifier: MIT OR Apache-2.0
//! The card: transport core, host blocks and the ports of the top module. Wiring only.
//!
//! | port | direction | what |
//! |---|---|---|
//! | `csr`, `csr_response` | in, out | register reads and writes of BAR0 |
//! | `rx`, `tx` | in, out | frames from and to the MAC, without preamble and FCS |
//! | `dma_read`, `dma_data` | out, in | reads of host memory and what they bring, in order |
//! | `dma_write` | out | writes to host memory |
//! | `interrupt` | out | a pulse for an armed event queue: its number and MSI-X vector; what it is about has left `dma_write` |
//!
//! Of a card that faces PCIe (`RnicConfig::pcie_tags`) [`pcie`](crate::host::pcie) stands behind all of these but `rx` and `tx`:
//!
//! | port | direction | what |
//! |---|---|---|
//! | `rq`, `rc` | out, in | the card's requests, and their completions: TLPs |
//! | `cq`, `cc` | in, out | the CPU's requests, and their completions: TLPs |
//! | `pcie` | in | what configuration software has set |
//! | `pcie_flr`, `pcie_flr_done` | in, out | a function level reset is asked for, until it is done: the second stays until the first has fallen |
//!
//! Before AMD's PCIe4 block (`RnicConfig::pcie4`) these four have its descriptors instead, see [`pcie4`](crate::host::pcie4), `rq_seq` brings the sequence
//! numbers back, and `tfc_nph_av` says how many reads the host takes.
//!
//! Of a card on AXI4 (`RnicConfig::axi`) [`axi`](crate::host::axi) stands there, with the ports `m_axi_*` and `s_axil_*` of the standard, and `interrupt`
//! as without it.
//!
//! A [`reset`](crate::host::reset) by the host restarts the core alone: all but the registers, what stands behind `dma_read` and `dma_write`, and the gates between.

use crate::config::RnicConfig;
use crate::context::qp::{qp, QpFound};
use crate::host::command::command;
use crate::host::cq::cq;
use crate::host::csr::{csr, Csr, CsrReset, DropEvent, Events, Link, Phy};
use crate::host::dma;
use crate::host::doorbell::doorbell;
use crate::host::event::{event, first_fault, link_changes, Interrupt, WritePort};
use crate::host::pcie::ToHost;
use crate::host::ports::{HostEvents, HostPorts};
use crate::host::reset;
use crate::host::{CommandProgress, SrqControl, SrqStatus};
use crate::memory::Done;
use crate::stream::{fifo, half, through_fifo, Beat};
use crate::transport::{byte_bits, transport, Control, ReadData};
use crate::tx::pause::PRIORITIES;
use crate::types::{Completion, DmaReadData, DmaReadRequest, DmaWrite, Drained, Mark, OfQp, QpFault, QpPsns};
use ferrowire_rtl::{bits, build, lit, BuildErrors, Netlist, Scope, Sig, Stream};
use ferrowire_spec::csr::drops::DropReason;
use ferrowire_spec::csr::hw_counters::HwCounter;
use ferrowire_spec::csr::traffic::TrafficCounter;

/// The whole card.
///
/// # Errors
/// What the build-time checks find; none for a valid configuration.
pub fn rnic(cfg: &RnicConfig) -> Result<Netlist, BuildErrors> {
    build("rnic", |m| card(m, cfg))
}

/// The core between registers, wire and host memory.
struct Core {
    wire: Stream<Beat>,
    read: Stream<DmaReadRequest>,
    write: Stream<DmaWrite>,
    interrupt: Interrupt,
    /// A command takes everything back.
    reclaims: Sig,
}

/// The same between ports of the module that is open, which is the top, or [encloses](Scope::enclosed) it.
pub fn card(m: &Scope, cfg: &RnicConfig) {
    let rx = m.stream_in("rx", &Beat::of(cfg.beat_bytes));
    let (host, csr_request, dma_data) = HostPorts::of(m, cfg);
    let progress = m.wire_of("progress", &CommandProgress::of());
    let counted = counted(cfg);
    let widths = counted.iter().map(|counter| match counter {
        Counter::Traffic(
            TrafficCounter::RxBytes | TrafficCounter::TxBytes | TrafficCounter::LoopbackBytes,
        ) => bits(byte_bits(cfg.beat_bytes)),
        // Of requests that are refused at once, and of those that are being answered.
        Counter::Hw(HwCounter::RespRemoteAccessErrors | HwCounter::RespRemoteOperationErrors) => bits(2),
        _ => bits(1),
    });
    let pulses = m.wire_of("pulses", &widths.collect::<Vec<_>>());
    let drops = m.wire_of("drops", &vec![DropEvent::of(); DROPS]);
    let events = counters(&counted, &pulses, &drops);
    let paused = m.wire("paused", PRIORITIES);
    // Of the core's clock, as all ports are.
    let link = m.delay("link_state", &m.input_of("link", &Link::of()));
    let link_up = link.up;
    // Ports of cards before AMD's blocks alone.
    let phy = cfg.pcie4.then(|| m.delay("phy_state", &m.input_of("phy", &Phy::of())));
    let resets = m.wire_of("resets", &CsrReset::of());
    let fault = cfg.axi.then(|| host.events.axi.fault.clone());
    let registers =
        csr(m, cfg, csr_request, progress.clone(), resets.clone(), link, phy, paused, fault, events);

    // A reset by the host, and what it does not restart.
    let state = m.wire_of("reset_progress", &reset::Progress::of());
    let reclaims = m.wire("reclaims", 1);
    let reset::Reset { stops, quiesce, restart, done, by_command, flr_done } =
        reset::reset(m, registers.reset, host.flr, reclaims, state.clone());
    m.drive(&resets, &CsrReset { done, under_way: quiesce.shut, wipe: quiesce.wipe });
    let response = registers.response.clone();
    let rx = crate::rx::door::door(m, progress.ready, restart, rx);
    let read_ends = dma_data.fire() & dma_data.last;
    let core = m.restarted(restart, |m| {
        let of_host = (link_up, &host.events, by_command);
        core(m, cfg, rx, dma_data, registers, &progress, &paused, of_host, &pulses, &drops)
    });
    m.drive(&reclaims, core.reclaims);
    let frames = reset::frames(m, stops, restart, core.wire);
    m.stream_out("tx", frames.wire);
    let reads = reset::reads(m, quiesce.shut, core.read, read_ends);
    let writes = reset::writes(m, quiesce.shut, core.write);
    let quiet = reads.quiet & writes.quiet & host.idle;
    m.drive(
        &state,
        &reset::Progress { wire_shut: frames.shut, wire_moves: frames.moves, quiet, clear: progress.ready },
    );
    let interrupt = reset::interrupts(quiesce.shut, core.interrupt);
    let to_host = ToHost { read: reads.request, write: writes.write, response, interrupt, quiesce };
    host.connect(m, cfg, to_host, flr_done);
}

#[allow(clippy::too_many_arguments)]
fn core(
    m: &Scope,
    cfg: &RnicConfig,
    rx: Stream<Beat>,
    dma_data: Stream<DmaReadData>,
    registers: Csr,
    progress: &CommandProgress,
    paused: &Sig,
    (link_up, of_host, reclaimed): (Sig, &HostEvents, Sig),
    pulses: &[Sig],
    drops: &[DropEvent],
) -> Core {
    // Read data comes back in the order of this list.
    let (command_read, command_reads) = m.later("command_read", &crate::types::DmaReadRequest::of());
    let (wqe_read, wqe_reads) = m.later("wqe_read", &crate::types::DmaReadRequest::of());
    let (payload_read, payload_reads) = m.later("payload_read", &crate::types::DmaReadRequest::of());
    let (receive_read, receive_reads) = m.later("receive_read", &crate::types::DmaReadRequest::of());
    let (reply_read, reply_reads) = m.later("reply_read", &crate::types::DmaReadRequest::of());
    let (recall_read, recall_reads) = m.later("recall_read", &crate::types::DmaReadRequest::of());
    let readers = vec![command_read, wqe_read, payload_read, receive_read, reply_read, recall_read];
    let (read, data) = dma::read(m, cfg.unhurried(), readers, dma_data);
    let mut data = data.into_iter();
    let mut data = || data.next().expect("six readers");
    let command_data = data();
    let data =
        ReadData { wqes: data(), payload: data(), receives: data(), replies: data(), recalled: data() };

    // Host: commands, QP context, doorbells.
    let (reply, replies) = m.later("reply", &QpFound::of(cfg));
    let (fault_s, send_faults) = m.later("send_fault", &bits(cfg.qp_bits()));
    let (fault_e, engine_faults) = m.later("engine_fault", &QpFault::of(cfg));
    let (fault_q, writer_faults) = m.later("writer_fault", &bits(cfg.qp_bits()));
    let events_busy = m.wire("events_busy", 1);
    let removed = m.wire_of("removed", &Done::of());
    let psns = m.wire_of("psns", &QpPsns::of());
    let (fenced, produced) = (m.wire("fenced", 1), m.wire("produced", 32));
    let (status, srqs_busy) = (m.wire_of("srq_status", &SrqStatus::of()), m.wire("srqs_busy", 1));
    let commands = command(
        m,
        cfg,
        registers.commands,
        command_data,
        reply,
        removed.clone(),
        events_busy,
        status.clone(),
        srqs_busy,
        fenced,
        produced,
        psns.clone(),
        reclaimed,
        registers.port.mac,
    );
    m.drive(progress, &commands.progress);
    command_reads.connect(half(&m.label("command_read"), commands.read));
    let drained = m.wire_of("drained", &Drained::of(cfg));
    let faults = vec![fault_e, fault_q.map(QpFault::silent)];
    let (mark, marks) = m.later("mark", &Mark::of(cfg));
    let unread = m.wire_of("unread", &OfQp::of(cfg));
    let (query, update) = (commands.query, commands.update);
    let context = qp(m, cfg, query, update, fault_s, faults, drained.clone(), unread.clone(), mark);
    let broadcast = m.delay("broadcast", &context.broadcast);
    replies.connect(context.reply);
    // Tables that commands write. Where that is a cycle later, who waits for what is gone to be quiet waits as long.
    let (cqs, eqs) = (m.delay("cqs", &commands.cqs), m.delay("eqs", &commands.eqs));
    let cq_limits = m.delay("cq_limits", &commands.cq_limits);
    let srqs = SrqControl {
        entry: m.delay("srqs", &commands.srqs.entry),
        limit: m.delay("srq_limits", &commands.srqs.limit),
        query: commands.srqs.query,
    };
    let (eqs_written, srqs_written) = (eqs.enable, srqs.entry.enable);
    let bells = doorbell(
        m,
        cfg,
        registers.doorbells,
        broadcast.clone(),
        cqs.clone(),
        eqs.clone(),
        srqs.entry.clone(),
        commands.fences,
    );
    m.drive(&fenced, bells.fenced);

    // The transport.
    let control = Control {
        broadcast,
        addresses: commands.vectors,
        peers: commands.peers,
        handles: m.delay("handles", &commands.ahs),
        keys: m.delay("keys", &commands.keys),
        pages: m.delay("pages", &commands.pages),
        removals: half(&m.label("removals"), commands.removals),
        responder: context.responder,
        requester: context.requester,
        doorbell: bells.sq,
        pushes: bells.pushes,
        shared: srqs,
        receive: half(&m.label("receive_bells"), bells.rq),
        kick: context.kick,
        tick: registers.tick,
        congestion: registers.congestion,
        port: registers.port,
        flow: registers.flow,
        raw_roce: registers.raw_roce,
        query: commands.asked_qp,
    };
    let core = transport(m, cfg, rx, data, control);
    m.set_all(&removed, &core.removed);
    m.drive(paused, core.paused);
    m.drive(&status, &core.status);
    m.drive(&psns, &core.psns);
    m.drive(&srqs_busy, core.busy | srqs_written);
    m.set_all(&unread, &m.delay("unread_now", &core.unread));
    let mut reads = core.reads.into_iter();
    wqe_reads.connect(reads.next().expect("reads of WQEs"));
    payload_reads.connect(reads.next().expect("reads of payload"));
    receive_reads.connect(reads.next().expect("reads of receive WQEs"));
    reply_reads.connect(reads.next().expect("reads for responses"));
    recall_reads.connect(reads.next().expect("reads of WQEs that are answered"));
    send_faults.connect(crate::stream::arbiter(m, &|_: &Sig| lit(1, 1), core.send_faults));
    engine_faults.connect(crate::stream::arbiter(m, &|_: &QpFault| lit(1, 1), core.faults));
    let completions = crate::stream::arbiter_held(m, &|_: &Completion| lit(1, 1), core.completions);
    // One that comes while none waits reaches the writer in the same cycle, where that has time for it.
    let completions = match cfg.unhurried() {
        true => fifo(&m.label("completions"), 2, completions),
        false => through_fifo(&m.label("completions"), 2, completions),
    };
    let writer = cq(m, cfg, completions, cqs.clone(), cq_limits, commands.resize, bells.cq);
    m.drive(&produced, writer.produced);
    writer_faults.connect(writer.faults);
    marks.connect(half(&m.label("marks"), writer.marks));
    m.drive(&drained, m.delay("drained_now", &writer.drained));
    // What belongs to no CQ.
    let of_cqs = half(&m.label("overruns"), writer.reports);
    let mut reports = vec![link_changes(m, link_up), of_cqs, context.reports];
    reports.extend(cfg.axi.then(|| first_fault(m, of_host.axi.fault.valid)));
    reports.extend(core.reports);
    let notices = half(&m.label("notices"), writer.notices);
    let port = m.wire_of("port", &WritePort { valid: bits(1), fire: bits(1) });
    let events = event(m, cfg, notices, reports, cqs, eqs, bells.eq, port.clone());
    m.drive(&events_busy, events.busy | eqs_written | writer.changing);
    let mut writers = core.writes;
    writers.extend([writer.write, commands.write, events.write]);
    let write = dma::write(m, 1, writers);
    m.drive(&port, &WritePort { valid: write.valid, fire: write.fire() });

    // Counters.
    let seen = &core.events;
    let (responder, completer, congestion) = (&seen.responder, &seen.completer, &seen.congestion);
    let starved = responder.dropped.valid & responder.dropped.reason.eq(DropReason::NoReceive.code());
    let values = [
        seen.rx_frame,
        seen.rx_bytes,
        seen.rx_roce,
        seen.rx_raw,
        seen.tx_frame,
        seen.tx_bytes,
        seen.tx_roce,
        seen.tx_raw,
        seen.loop_frame,
        seen.loop_bytes,
        seen.tx_raw_refused,
        seen.dropped.valid & seen.dropped.reason.eq(DropReason::Icrc.code()),
        commands.taken,
        writer.written,
        bells.taken,
        bells.ignored,
        responder.writes,
        responder.duplicate,
        responder.out_of_sequence,
        responder.sequence_naks,
        responder.rnr_naks,
        responder.rnr_naks | starved,
        responder.operation.zext(2) + seen.replies.operation.zext(2),
        responder.length,
        responder.errors,
        responder.flushed,
        responder.invalid,
        responder.access.zext(2) + seen.replies.access.zext(2),
        completer.sequence_naks,
        completer.implied_naks,
        completer.timeouts,
        completer.rnr_naks,
        completer.rnr_exceeded,
        completer.retry_exceeded,
        completer.invalid_requests,
        completer.access_errors,
        completer.operation_errors,
        completer.errors,
        completer.flushed,
        seen.again,
        seen.replies.reads,
        seen.replies.atomics,
        writer.dropped,
        events.written,
        events.lost,
        congestion.marked,
        congestion.told,
        congestion.handled,
        congestion.ignored,
        seen.pause,
        seen.pfc,
        seen.stands,
    ];
    let (pcie, axi) = (&of_host.pcie, &of_host.axi);
    let of_host = match cfg.axi {
        true => vec![axi.read_error, axi.write_error],
        false => vec![pcie.unexpected, pcie.timeout, pcie.refused],
    };
    // Registers before these have no reset and settle while the core is restarted: nothing is counted meanwhile.
    for (i, (pulse, value)) in pulses.iter().zip(values.into_iter().chain(of_host)).enumerate() {
        m.drive(pulse, m.delay_zero(&format!("pulse_{i}"), &value));
    }
    let code = |reason: DropReason| lit(DropEvent::of().code.width(), reason.code());
    let reasons = [
        (seen.dropped.valid, seen.dropped.reason),
        (responder.dropped.valid, responder.dropped.reason),
        (completer.dropped.valid, completer.dropped.reason),
        (seen.replies.forgotten, code(DropReason::DuplicateAtomic)),
        (seen.replies.crowded, code(DropReason::Sequence)),
        (congestion.dropped.valid, congestion.dropped.reason),
    ];
    for (i, (drop, (pulse, code))) in drops.iter().zip(reasons).enumerate() {
        m.drive(&drop.pulse, m.delay_zero(&format!("drop_{i}"), &pulse));
        m.drive(&drop.code, m.delay(&format!("drop_code_{i}"), &code));
    }

    Core { wire: core.wire, read, write, interrupt: events.interrupt, reclaims: commands.reclaims }
}

/// Sources of drops.
const DROPS: usize = 6;

#[derive(Clone, Copy)]
enum Counter {
    Traffic(TrafficCounter),
    Hw(HwCounter),
}

/// What a card counts.
fn counted(cfg: &RnicConfig) -> Vec<Counter> {
    let of_host = match (cfg.axi, cfg.has_pcie()) {
        (true, _) => &OF_AXI[..],
        (_, true) => &OF_PCIE[..],
        _ => &[],
    };
    [&PULSES[..], of_host].concat()
}

/// Counters of a card that faces PCIe.
const OF_PCIE: [Counter; 3] = [
    Counter::Traffic(TrafficCounter::PcieUnexpected),
    Counter::Traffic(TrafficCounter::PcieTimeouts),
    Counter::Traffic(TrafficCounter::PcieRefused),
];

/// Counters of a card on AXI.
const OF_AXI: [Counter; 2] =
    [Counter::Traffic(TrafficCounter::AxiReadErrors), Counter::Traffic(TrafficCounter::AxiWriteErrors)];

/// What is counted one by one, or in bytes.
const PULSES: [Counter; 52] = [
    Counter::Traffic(TrafficCounter::RxFrames),
    Counter::Traffic(TrafficCounter::RxBytes),
    Counter::Traffic(TrafficCounter::RxRoce),
    Counter::Traffic(TrafficCounter::RxRaw),
    Counter::Traffic(TrafficCounter::TxFrames),
    Counter::Traffic(TrafficCounter::TxBytes),
    Counter::Traffic(TrafficCounter::TxRoce),
    Counter::Traffic(TrafficCounter::TxRaw),
    Counter::Traffic(TrafficCounter::LoopbackFrames),
    Counter::Traffic(TrafficCounter::LoopbackBytes),
    Counter::Traffic(TrafficCounter::TxRawRefused),
    Counter::Hw(HwCounter::RxIcrcEncapsulated),
    Counter::Traffic(TrafficCounter::Commands),
    Counter::Traffic(TrafficCounter::Completions),
    Counter::Traffic(TrafficCounter::Doorbells),
    Counter::Traffic(TrafficCounter::DoorbellsIgnored),
    Counter::Hw(HwCounter::RxWriteRequests),
    Counter::Hw(HwCounter::DuplicateRequest),
    Counter::Hw(HwCounter::OutOfSequence),
    Counter::Hw(HwCounter::SeqNakSent),
    Counter::Hw(HwCounter::SendRnrErr),
    Counter::Hw(HwCounter::OutOfBuffer),
    Counter::Hw(HwCounter::RespRemoteOperationErrors),
    Counter::Hw(HwCounter::RespLocalLengthError),
    Counter::Hw(HwCounter::RespCqeError),
    Counter::Hw(HwCounter::RespCqeFlushError),
    Counter::Hw(HwCounter::RespRemoteInvalidRequest),
    Counter::Hw(HwCounter::RespRemoteAccessErrors),
    Counter::Hw(HwCounter::PacketSeqErr),
    Counter::Hw(HwCounter::ImpliedNakSeqErr),
    Counter::Hw(HwCounter::LocalAckTimeoutErr),
    Counter::Hw(HwCounter::RcvdRnrErr),
    Counter::Hw(HwCounter::RnrNakRetryErr),
    Counter::Hw(HwCounter::RetryExceededErr),
    Counter::Hw(HwCounter::ReqRemoteInvalidRequest),
    Counter::Hw(HwCounter::ReqRemoteAccessErrors),
    Counter::Hw(HwCounter::ReqRemoteOperationErrors),
    Counter::Hw(HwCounter::ReqCqeError),
    Counter::Hw(HwCounter::ReqCqeFlushError),
    Counter::Hw(HwCounter::Retransmitted),
    Counter::Hw(HwCounter::RxReadRequests),
    Counter::Hw(HwCounter::RxAtomicRequests),
    Counter::Traffic(TrafficCounter::CompletionsLost),
    Counter::Traffic(TrafficCounter::Events),
    Counter::Traffic(TrafficCounter::EventsLost),
    Counter::Hw(HwCounter::NpEcnMarkedRocePackets),
    Counter::Hw(HwCounter::NpCnpSent),
    Counter::Hw(HwCounter::RpCnpHandled),
    Counter::Hw(HwCounter::RpCnpIgnored),
    Counter::Traffic(TrafficCounter::RxPause),
    Counter::Traffic(TrafficCounter::RxPfc),
    Counter::Traffic(TrafficCounter::PauseDuration),
];

fn counters(counted: &[Counter], pulses: &[Sig], drops: &[DropEvent]) -> Events {
    let mut events = Events::default();
    for (counter, pulse) in counted.iter().zip(pulses) {
        events = match counter {
            Counter::Traffic(counter) => events.traffic(*counter, *pulse),
            Counter::Hw(counter) => events.hw(*counter, *pulse),
        };
    }
    drops.iter().fold(events, |events, drop| events.drops(drop.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_passes_the_build_time_checks_at_every_configuration() {
        for (name, _) in crate::config::BUILT_IN {
            let cfg = RnicConfig::named(name).unwrap();
            let net = rnic(&cfg).unwrap_or_else(|e| panic!("{name}:\n{e}"));
            assert_eq!(net.top(), "rnic");
            if let Ok(dir) = std::env::var("DUMP") {
                std::fs::write(format!("{dir}/{name}.v"), net.verilog()).unwrap();
            }
        }
    }

    #[test]
    fn the_card_can_be_built_at_both_ends_of_every_range() {
        type Field = fn(&mut RnicConfig) -> &mut u32;
        let fields: [(Field, u32, u32); 14] = [
            (|c| &mut c.beat_bytes, 8, 64),
            (|c| &mut c.qps, 8, 16384),
            (|c| &mut c.cqs, 4, 16384),
            (|c| &mut c.srqs, 2, 16),
            (|c| &mut c.ahs, 2, 16384),
            (|c| &mut c.eqs, 2, 128),
            (|c| &mut c.keys, 4, 65536),
            (|c| &mut c.page_entries, 16, 1 << 20),
            (|c| &mut c.outstanding, 32, 65536),
            (|c| &mut c.outstanding_per_qp, 4, 64),
            (|c| &mut c.fetch_batch, 1, 64),
            (|c| &mut c.rx_buffer_bytes, 16384, 1 << 20),
            (|c| &mut c.payload_buffer_bytes, 8192, 1 << 20),
            (|c| &mut c.doorbell_pages, 1, 4096),
        ];
        for (field, low, high) in fields {
            for value in [low, high] {
                let mut cfg = RnicConfig::named("generic-8b").unwrap();
                *field(&mut cfg) = value;
                cfg.validate().unwrap();
                rnic(&cfg).unwrap_or_else(|e| panic!("{cfg:?}:\n{e}"));
            }
        }
        // Functions that it can be built without: each alone, and all of them.
        let congestion: fn(&mut RnicConfig) = |c| c.congestion = false;
        let without = RnicConfig::WITHOUT.into_iter().chain([congestion]);
        for name in ["generic-8b", "generic-64b"] {
            let plain = RnicConfig::named(name).unwrap().plain();
            plain.validate().unwrap();
            for take in without.clone() {
                let mut cfg = RnicConfig::named(name).unwrap();
                take(&mut cfg);
                cfg.validate().unwrap();
                rnic(&cfg).unwrap_or_else(|e| panic!("{cfg:?}:\n{e}"));
            }
            rnic(&plain).unwrap_or_else(|e| panic!("{plain:?}:\n{e}"));
        }
        let many = RnicConfig { qps: 4096, ..RnicConfig::named("generic-64b").unwrap() };
        assert!(rnic(&many).is_ok());
    }
}
