// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selective retransmission, version 1 of its contract (`docs/src/selective.md`): what a queue pair does that has agreed on it.
//!
//! ```text
//!  requests  --> Flow --> rc_request  --> answers        poll_transmit
//!                 | holes                                   |   |
//!                 +-------> report -------------------------+   |
//!  responses --> Flow --> rc_response                           |
//!                 | holes                                       |
//!  reports ------ + ------> again (repetitions, by PSN) --------+
//!  probe timer ------------/
//! ```

use std::collections::{BTreeMap, VecDeque};

use ferrowire_spec::csr::DropReason;
use ferrowire_spec::wire::opcode::{Operation, Position};
use ferrowire_spec::wire::report::{self, REACH};
use ferrowire_spec::wire::{Aeth, Bth, Extensions, Frame, Opcode, Report, Syndrome};
use ferrowire_spec::{Psn, QpState};

use super::engine::Node;
use super::flow::{Flow, Loss, Place};
use super::packet;
use super::qp::Qp;
use super::types::{Instant, MAX_MESSAGE};

/// Time in nanoseconds after which a flow of which nothing was handed on gives up what it keeps.
const PATIENCE: Instant = 1_000_000;

/// A flow takes more as long as it has less than so many times what is free.
const SHARE: u64 = 7;

/// What is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The packet of a request that begins with the PSN.
    Packet,
    /// A request for this one response.
    Response,
    /// The packet, or a request for all responses of a READ from the PSN on.
    Rest,
}

/// A repetition that is to be sent.
#[derive(Clone, Copy, Debug)]
struct Repetition {
    psn: Psn,
    what: What,
    probe: bool,
}

/// The last repetition of a packet, or of the request for a response.
#[derive(Clone, Copy, Debug)]
struct Repeated {
    at: Instant,
    /// One past the newest PSN sent then.
    top: Psn,
    /// Number of the request for the response.
    ask: Option<u64>,
}

/// What a queue pair has for selective retransmission.
#[derive(Debug, Default)]
pub(super) struct Selective {
    requests: Flow,
    responses: Flow,
    /// A report is due.
    report: Option<Loss>,
    /// By PSN.
    again: VecDeque<Repetition>,
    repeated: BTreeMap<u32, Repeated>,
    /// Number of the last request for a response, and the newest of which the response has come.
    asked: u64,
    answered: u64,
    /// The newest acknowledgement or NAK that waits for missing responses.
    waiting: Option<(Psn, Aeth)>,
    probe_at: Option<Instant>,
    /// Probes since something was acknowledged.
    probes: u32,
}

impl Selective {
    fn flow(&mut self, request: bool) -> &mut Flow {
        match request {
            true => &mut self.requests,
            false => &mut self.responses,
        }
    }

    fn flows(&self) -> [&Flow; 2] {
        [&self.requests, &self.responses]
    }
}

impl Qp {
    /// How many PSNs may be under way; `None`: it has not agreed.
    pub(super) fn selective_window(&self) -> Option<u32> {
        self.selective.as_ref().map(|_| report::window(self.mtu as u32))
    }

    /// The first PSN of the requests, or of the responses.
    pub(super) fn start_flow(&mut self, node: &mut Node, request: bool, psn: Psn) {
        if let Some(selective) = &mut self.selective {
            node.kept_bytes -= selective.flow(request).move_to(psn);
        }
    }

    /// Gives up all that is kept and is to be sent again: its state takes no packets any more.
    pub(super) fn stop_selective(&mut self, node: &mut Node) {
        if let Some(selective) = &mut self.selective {
            node.kept_bytes -= selective.requests.give_up() + selective.responses.give_up();
            (selective.report, selective.waiting, selective.probe_at) = (None, None, None);
            selective.again.clear();
        }
    }

    /// The PSNs that a packet covers.
    fn covers(&self, frame: &Frame<'_>, opcode: Opcode) -> (Psn, Psn) {
        let psn = Psn::new(frame.bth.psn);
        match (opcode.operation(), opcode.position()) {
            (Operation::ReadRequest, _) => {
                let len = frame.ext.reth.map_or(0, |reth| u64::from(reth.len).min(MAX_MESSAGE));
                (psn, psn + (len.div_ceil(self.mtu as u64).max(1) - 1) as u32)
            }
            (Operation::AtomicAcknowledge, _)
            | (Operation::ReadResponse, Position::First | Position::Only) => {
                (Psn::new(frame.bth.psn.wrapping_sub(frame.bth.resv7.into()) & 0xff_ffff), psn)
            }
            _ => (psn, psn),
        }
    }

    /// A packet of one of the flows.
    pub(super) fn flow_packet(
        &mut self,
        node: &mut Node,
        now: Instant,
        frame: &Frame<'_>,
        opcode: Opcode,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        let (first, last) = self.covers(frame, opcode);
        let (request, first_time) = (opcode.is_request(), frame.bth.migreq);
        let Some(selective) = &mut self.selective else { return Ok(()) };
        if !request && !first_time {
            let ask = selective.repeated.get(&frame.bth.psn).and_then(|repeated| repeated.ask);
            selective.answered = selective.answered.max(ask.unwrap_or(0));
        }
        let flow = selective.flow(request);
        let place = flow.place(first, last);
        let mut repeated = false;
        match place {
            Place::Duplicate => {
                repeated = !first_time;
                flow.pass_duplicate(now, first_time);
                self.hand_on(node, now, frame, opcode);
            }
            Place::Next => {
                repeated = !first_time;
                flow.pass(now, last, first_time);
                self.hand_on(node, now, frame, opcode);
                while let Some(kept) = self.take_kept(node, now, request) {
                    let Ok(frame) = Frame::parse(&kept) else { continue };
                    if let Ok(opcode) = frame.opcode() {
                        self.hand_on(node, now, &frame, opcode);
                    }
                }
            }
            Place::Early => {
                let free = node.config.reorder_buffer.saturating_sub(node.kept_bytes);
                let len = bytes.len() as u64;
                if flow.bytes >= free.saturating_mul(SHARE) || len > free {
                    node.counters.selective.reorder_buffer_full += 1;
                    return Err(DropReason::Overrun);
                }
                flow.keep(now, first, last, bytes);
                node.kept_bytes += len;
                node.counters.selective.kept += 1;
            }
            Place::Copy => {}
            Place::Beyond => return Err(DropReason::Sequence),
        }
        self.look_for_loss(node, now, request, repeated);
        if place == Place::Copy {
            return Err(DropReason::Sequence);
        }
        Ok(())
    }

    fn take_kept(&mut self, node: &mut Node, now: Instant, request: bool) -> Option<Vec<u8>> {
        let flow = self.selective.as_mut()?.flow(request);
        let before = flow.bytes;
        let kept = flow.take(now);
        node.kept_bytes -= before - flow.bytes;
        kept
    }

    /// Hands a packet on to the responder or requester of the specification.
    fn hand_on(&mut self, node: &mut Node, now: Instant, frame: &Frame<'_>, opcode: Opcode) {
        if opcode.is_request() {
            if self.state.responds() {
                self.rc_request(node, frame, opcode);
            }
        } else if self.state.takes_responses() {
            self.rc_response(node, now, frame, opcode);
            self.catch_up(node, now);
        }
    }

    /// Looks for loss when a packet has arrived: reports it to the peer, or asks for responses again.
    fn look_for_loss(&mut self, node: &Node, now: Instant, request: bool, repeated: bool) {
        let Some(selective) = &mut self.selective else { return };
        let Some(loss) = selective.flow(request).report_is_due(repeated) else { return };
        if request {
            selective.report = selective.report.max(Some(loss));
            return;
        }
        if self.is_held_back(now) {
            return;
        }
        let Some(selective) = &self.selective else { return };
        let missing = selective.responses.missing(selective.responses.lost(loss));
        let answered = |psn: &Psn| {
            let entry = self.sq.find(*psn).map(|at| &self.sq.entries[at]);
            psn.is_before(self.sq.top) && entry.is_some_and(|entry| entry.is_answered())
        };
        let lost = |psn: &Psn| match selective.repeated.get(&psn.get()) {
            Some(Repeated { at, ask, .. }) => {
                ask.is_none_or(|ask| ask < selective.answered) && now >= at.saturating_add(quarter(node))
            }
            None => true,
        };
        let lost: Vec<Psn> = missing.into_iter().filter(answered).filter(lost).collect();
        for psn in lost {
            self.send_again(Repetition { psn, what: What::Response, probe: false });
        }
    }

    /// Neither reports nor missing responses lead to repetitions in a pause after an RNR NAK and while it goes back.
    fn is_held_back(&self, now: Instant) -> bool {
        self.sq.rnr_until.is_some_and(|until| now < until) || self.sq.next.is_before(self.sq.top)
    }

    /// Puts a repetition in its place among those that are to be sent.
    fn send_again(&mut self, new: Repetition) {
        let una = self.sq.una;
        let Some(selective) = &mut self.selective else { return };
        let again = &mut selective.again;
        again.retain(|old| !old.psn.is_before(una));
        if again.iter().any(|old| old.psn == new.psn && (old.what == new.what || old.what == What::Rest)) {
            return;
        }
        let at = again.partition_point(|old| !new.psn.is_before(old.psn));
        again.insert(at, new);
    }

    /// A report. It acknowledges nothing; what is wrong with it is the reason to drop it.
    pub(super) fn take_report(
        &mut self,
        node: &mut Node,
        now: Instant,
        report: &Report,
    ) -> Result<(), DropReason> {
        let base = Psn::new(report.base);
        let (heard, lost) = (u32::from(report.heard), u32::from(report.lost));
        if report.version != report::CURRENT || !(2..=REACH).contains(&heard) || lost > heard {
            return Err(DropReason::Malformed);
        }
        let sent = self.sq.top.distance_from(self.sq.una);
        if base.is_before(self.sq.una) {
            // The network may have delayed it.
            node.counters.selective.reports_received += 1;
            return Ok(());
        }
        let before = base.distance_from(self.sq.una);
        if before >= sent || before + heard > sent {
            return Err(DropReason::Sequence);
        }
        node.counters.selective.reports_received += 1;
        if self.is_held_back(now) {
            return Ok(());
        }
        let last = base + (heard - 1);
        let mut missing = Vec::new();
        if let Some(selective) = &self.selective {
            for psn in (0..lost).map(|at| base + at).filter(|psn| !report.has(psn.get())) {
                let Some(at) = self.sq.find(psn) else { continue };
                // A READ is one packet, whatever PSNs it has.
                if self.sq.entries[at].is_read() && self.sq.entries[at].first != psn {
                    continue;
                }
                let lost = match selective.repeated.get(&psn.get()) {
                    Some(Repeated { at, top, .. }) => {
                        !last.is_before(*top) && now >= at.saturating_add(quarter(node))
                    }
                    None => true,
                };
                if lost {
                    missing.push(psn);
                }
            }
        }
        for psn in missing {
            self.send_again(Repetition { psn, what: What::Packet, probe: false });
        }
        Ok(())
    }

    /// The report that is due.
    pub(super) fn due_report(&self) -> Option<Report> {
        let selective = self.selective.as_ref()?;
        selective.requests.report(selective.report?)
    }

    /// The frame of the report that is due.
    pub(super) fn next_report(&mut self, node: &mut Node) -> Option<Vec<u8>> {
        let report = self.due_report();
        self.selective.as_mut()?.report = None;
        let report = report?;
        node.counters.selective.reports_sent += 1;
        let bth = Bth {
            opcode: Opcode::RcReport as u8,
            pkey: self.pkey,
            destqp: self.dest_qpn,
            psn: report.base,
            ..Bth::default()
        };
        let ext = Extensions { report: Some(report), ..Extensions::default() };
        Some(packet::build(&node.config, &self.av?, self.sport, bth, ext, &[]))
    }

    /// An acknowledgement or NAK comes after a missing response: the newest one counts later.
    pub(super) fn waits_for_responses(&mut self, psn: Psn, aeth: Aeth) {
        if let Some(selective) = &mut self.selective {
            if selective.waiting.is_none_or(|(newest, _)| !psn.is_before(newest)) {
                selective.waiting = Some((psn, aeth));
            }
        }
    }

    /// A response was handed on: what waited for it counts.
    fn catch_up(&mut self, node: &mut Node, now: Instant) {
        let Some(selective) = &mut self.selective else { return };
        let Some((psn, aeth)) = selective.waiting.take() else { return };
        if psn.is_within(self.sq.una, self.sq.outstanding()) {
            self.late_acknowledgement(node, now, &aeth, psn);
        }
    }

    /// It goes back: what was to be sent again is sent anyway, and the peer says again what made it go back.
    pub(super) fn gives_up_repetitions(&mut self) {
        let Some(selective) = &mut self.selective else { return };
        selective.again.clear();
        (selective.probe_at, selective.probes) = (None, 0);
        let passing = |(_, aeth): &(Psn, Aeth)| {
            use ferrowire_spec::wire::syndrome::NakCode;
            let syndrome = Syndrome::decode(aeth.syndrome);
            matches!(syndrome, Syndrome::Rnr { .. } | Syndrome::Nak(NakCode::SequenceError))
        };
        if selective.waiting.as_ref().is_some_and(passing) {
            selective.waiting = None;
        }
    }

    /// A READ or atomic is sent for the first time, and all before it are answered.
    pub(super) fn begins_responses(&mut self, node: &mut Node, psn: Psn) {
        self.start_flow(node, false, psn);
    }

    /// Something was acknowledged.
    pub(super) fn was_acknowledged(&mut self, node: &Node, now: Instant) {
        let (una, outstanding) = (self.sq.una, self.sq.top != self.sq.una);
        let Some(selective) = &mut self.selective else { return };
        selective.repeated.retain(|psn, _| !Psn::new(*psn).is_before(una));
        selective.probes = 0;
        selective.probe_at = outstanding.then(|| now.saturating_add(node.config.selective_probe.max(1)));
    }

    /// A packet of a request was sent: all of them take part in the time to the next probe, and repetitions are remembered.
    pub(super) fn was_sent(&mut self, node: &Node, now: Instant, psn: Psn, packets: u32, again: bool) {
        let top = self.sq.top;
        let answered = self.sq.find(psn).is_some_and(|at| self.sq.entries[at].is_answered());
        let Some(selective) = &mut self.selective else { return };
        if selective.probe_at.is_none() {
            selective.probe_at = Some(now.saturating_add(node.config.selective_probe.max(1)));
        }
        if again {
            for at in 0..packets.min(REACH) {
                selective.asked += u64::from(answered);
                let ask = answered.then_some(selective.asked);
                selective.repeated.insert((psn + at).get(), Repeated { at: now, top, ask });
            }
        }
    }

    /// The next packet that is sent again.
    pub(super) fn next_repetition(&mut self, node: &mut Node, now: Instant) -> Option<Vec<u8>> {
        loop {
            let selective = self.selective.as_mut()?;
            let Repetition { psn, what, probe } = selective.again.pop_front()?;
            let here = what == What::Response && !selective.responses.is_missing(psn);
            let Some(at) = self.sq.find(psn) else { continue };
            if here || psn.is_before(self.sq.una) || self.sq.entries[at].failed.is_some() {
                continue;
            }
            match self.build_request(node, at, psn, what, true) {
                Ok(made) => {
                    node.counters.count(ferrowire_spec::csr::HwCounter::Retransmitted);
                    node.counters.selective.repeats += 1;
                    node.counters.selective.probes += u64::from(probe);
                    self.was_sent(node, now, psn, made.packets, true);
                    return Some(made.frame);
                }
                Err(failed) => {
                    // As if it went back to it: what is before it ends first.
                    self.sq.entries[at].failed = Some(failed);
                    self.gives_up_repetitions();
                    self.sq.go_back(psn);
                    return None;
                }
            }
        }
    }

    /// When something is to be done for selective retransmission.
    pub(super) fn selective_deadline(&self) -> Option<Instant> {
        let selective = self.selective.as_ref()?;
        let flows = selective.flows().into_iter().filter_map(Flow::waits_since);
        flows.map(|since| since.saturating_add(PATIENCE)).chain(selective.probe_at).min()
    }

    /// Gives up what has waited too long, and probes.
    pub(super) fn selective_timeout(&mut self, node: &mut Node, now: Instant) {
        let Some(selective) = &mut self.selective else { return };
        for flow in [&mut selective.requests, &mut selective.responses] {
            if flow.waits_since().is_some_and(|since| since.saturating_add(PATIENCE) <= now) {
                node.kept_bytes -= flow.give_up();
            }
        }
        if selective.probe_at.is_none_or(|probe| probe > now) {
            return;
        }
        let una = self.sq.una;
        let idle = self.sq.top == una || !matches!(self.state, QpState::Rts | QpState::Sqd);
        let wait = self.must_wait(now) || self.is_held_back(now);
        let period = node.config.selective_probe.max(1);
        let Some(selective) = &mut self.selective else { return };
        let free = selective.repeated.get(&una.get()).map(|last| last.at.saturating_add(quarter(node)));
        selective.probe_at = match (idle, wait, free.filter(|free| *free > now)) {
            (true, ..) => None,
            // Not now, which is no probe.
            (_, true, _) => Some(now.saturating_add(period)),
            (.., Some(free)) => Some(free),
            _ => {
                selective.probes += 1;
                let period = period.saturating_mul(1 << selective.probes.min(40));
                Some(now.saturating_add(period))
            }
        };
        if !idle && !wait && free.is_none_or(|free| free <= now) {
            self.send_again(Repetition { psn: una, what: What::Rest, probe: true });
        }
    }
}

/// No packet is sent again twice within this time.
fn quarter(node: &Node) -> Instant {
    node.config.selective_probe / 4
}
