// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plays a case: a card is set up as one end, the other end's frames come from the capture, and all that can be seen of
//! the card is compared.
//!
//! Each case gets a card out of reset. Frames come to it no faster than Ethernet of the configuration's line rate brings
//! them.

use std::time::Duration;

use anyhow::{bail, Context as _, Result};
use ferrowire::{
    AccessFlags, AddressHandle, AddressVector, Capabilities, Completion, CompletionQueue, Context,
    ContextOptions, CqeOpcode, InitAttributes, MemoryRegion, MemoryWindow, PageSize, PostRecv,
    ProtectionDomain, Psn, Qp, QpInitAttr, QueuePair, RecvWr, RemoteAddress, Reset, RtrAttributes,
    RtsAttributes, SendWr, WcStatus,
};
use ferrowire_spec::wire::syndrome::Syndrome;
use ferrowire_spec::wire::Frame;

use super::compare::{self, Difference, Place};
use super::log::{Line, Wc};
use super::memory;
use super::packet::{Numbers, Own};
use super::peer::Peer;
use super::scenario::{Case, End, Role};
use super::trace::{Captured, Trace};
use crate::bus::{SharedWorld, World};
use crate::card::CardModel;
use crate::measure::line_gbps;
use crate::pair::bytes;
use crate::wire::wire_bytes;

/// Cycles without anything new after which nothing more is waited for.
const QUIET: u64 = 50_000;

/// Cycles after all that was awaited, in which anything more would be too much.
const SETTLE: u64 = 3_000;

/// Unit of the card's time-outs, in cycles: the captured ones of tens of milliseconds would take long.
const TICK: u64 = 2;

/// Cycles between two polls.
const STRIDE: u64 = 64;

/// Pages of the regions.
const PAGE: u64 = 4096;

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// All that differs; empty when the case passes.
    pub differences: Vec<Difference>,
    /// Frames of the card that were compared.
    pub frames: usize,
    /// Clock cycles it took.
    pub cycles: u64,
}

/// What the cards of a model can do.
///
/// # Errors
/// The card does not come up.
pub fn capabilities(model: &CardModel) -> Result<Capabilities> {
    let world = World::single(model, 0)?.share();
    Ok(open(&world)?.capabilities().clone())
}

/// Plays a case for which nothing is [`missing`](super::support::missing).
///
/// # Errors
/// The model is not that of a card. What the card itself gets wrong is a difference.
pub fn play(model: &CardModel, case: &Case, trace: &Trace, role: Role) -> Result<Played> {
    let mut world = World::single(model, 0)?;
    world.link_mut(0).keep_frames(true);
    let world = world.share();
    let mut run = Run { model, case, trace, role, world, frames: Vec::new(), completions: Vec::new() };
    let differences = match run.all() {
        Ok(differences) => differences,
        Err(error) => {
            vec![Difference::new(Place::Card, "outcome", "that it takes the case", format!("{error:#}"))]
        }
    };
    let cycles = run.world.lock().cycle();
    Ok(Played { differences, frames: run.frames.len(), cycles })
}

fn open(world: &SharedWorld) -> Result<Context> {
    let options = ContextOptions {
        command_timeout: Duration::from_millis(20),
        seed: Some(1),
        ..ContextOptions::default()
    };
    let context = Context::open_with(world.bus(0), options).context("opening the card")?;
    context.set_timer_tick(TICK as u32)?;
    Ok(context)
}

struct Run<'a> {
    model: &'a CardModel,
    case: &'a Case,
    trace: &'a Trace,
    role: Role,
    world: SharedWorld,
    /// What the card sent, with the capture's numbers.
    frames: Vec<Vec<u8>>,
    completions: Vec<Completion>,
}

impl Run<'_> {
    fn all(&mut self) -> Result<Vec<Difference>> {
        let (case, role) = (self.case, self.role);
        let context = open(&self.world)?;
        let own = self.address();
        context.set_mac(own.src_mac)?;
        context.add_gid(own.src_ip, own.vlan)?;
        let pd = context.alloc_pd()?;
        let mut cq = context.create_cq((2 * case.work.count as u32).max(16))?;
        let region = self.region(&context, &pd)?;
        let qp = self.queue_pair(context.capabilities(), &pd, &cq)?;
        let mut qp = self.connect(context.capabilities(), qp, &region)?;
        let window = self.window(&pd, &mut qp, &region)?;
        let numbers = Numbers {
            qpn: Some(Own { captured: case.end(role).qpn, card: qp.number() }),
            rkey: match (role, case.region.rkey) {
                (Role::Responder, Some(captured)) => Some(Own { captured, card: region.rkey() }),
                _ => None,
            },
            window: match (&window, case.work.invalidate_rkey) {
                (Some(window), Some(captured)) => Some(Own { captured, card: window.rkey() }),
                _ => None,
            },
        };
        let mut handle = None;
        if role == Role::Requester {
            let ah = if case.service == "UD" { Some(pd.create_ah(&self.address())?) } else { None };
            self.post(&mut qp, &region, ah.as_ref())?;
            // It is there until the work is done.
            handle = ah;
        }
        let lines: Vec<Line> = case.log(role).iter().map(|line| Line::parse(&case.name, line)).collect();
        let expected = expected_completions(case, role, &lines);
        let late = (role == Role::Responder && case.receive_posted_late).then_some(&region);
        self.drive(&mut cq, &numbers, expected.len(), &mut qp, late)?;
        drop(handle);

        let mut found = self.compare_frames();
        found.extend(compare_completions(&expected, &self.completions, case.service == "UD"));
        let got = bytes(region.memory());
        found.extend(memory::check_sums(&lines, case, &got));
        found.extend(self.compare_bytes(&got));
        let stats = self.world.lock().card(0).host().stats();
        for (what, count) in [("reads", stats.reads_refused), ("writes", stats.writes_refused)] {
            if count > 0 {
                let field = format!("{what} of memory that it was not given");
                found.push(Difference::new(Place::Card, &field, "0", count.to_string()));
            }
        }
        Ok(found)
    }

    /// The memory of the card's end, filled as before the case.
    fn region(&self, context: &Context, pd: &ProtectionDomain) -> Result<MemoryRegion> {
        let case = self.case;
        let (content, va, access) = match self.role {
            Role::Responder => {
                let binds = match case.work.invalidate_rkey {
                    Some(_) => AccessFlags::MW_BIND,
                    None => AccessFlags::LOCAL_READ,
                };
                (memory::responder(case.region.bytes), case.region.va, case.region.access | binds)
            }
            Role::Requester => {
                (memory::requester(memory::requester_bytes(case)), None, AccessFlags::LOCAL_WRITE)
            }
        };
        let within = va.map_or(0, |va| va % PAGE) as usize;
        let memory = context.alloc(within + content.len(), PAGE as usize)?.slice(within, content.len());
        memory.write(0, &content);
        let region = match va {
            Some(va) => pd.register_at(&memory, va, access, PageSize::Size4K),
            None => pd.register(&memory, access, PageSize::Size4K),
        };
        region.context("registering the memory")
    }

    fn queue_pair(
        &self,
        can: &Capabilities,
        pd: &ProtectionDomain,
        cq: &CompletionQueue,
    ) -> Result<Qp<Reset>> {
        let mut attr = match &self.case.service[..] {
            "UC" => QpInitAttr::uc(cq, cq),
            "UD" => QpInitAttr::ud(cq, cq),
            _ => QpInitAttr::rc(cq, cq),
        };
        let room = u32::try_from(self.case.work.count)?.next_power_of_two().max(16);
        attr.max_send_wr = room.min(1 << can.max_sq_log2);
        attr.max_recv_wr = u32::try_from(self.case.receives.len())?.max(1);
        pd.create_qp(&attr).context("making the queue pair")
    }

    /// The window that the peer invalidates, bound by the card's queue pair to all of the region.
    fn window(
        &self,
        pd: &ProtectionDomain,
        qp: &mut QueuePair,
        region: &MemoryRegion,
    ) -> Result<Option<MemoryWindow>> {
        if self.role != Role::Responder || self.case.work.invalidate_rkey.is_none() {
            return Ok(None);
        }
        let mut window = pd.alloc_window()?;
        let mut batch = qp.start_post_send();
        batch.post(&window.bind(0, region, 0, region.len(), AccessFlags::REMOTE)?)?;
        batch.ring()?;
        self.world.lock().run(SETTLE);
        Ok(Some(window))
    }

    /// The other end.
    fn peer(&self) -> &End {
        self.case.end(match self.role {
            Role::Responder => Role::Requester,
            Role::Requester => Role::Responder,
        })
    }

    /// The way there.
    fn address(&self) -> AddressVector {
        let (case, own, peer) = (self.case, self.case.end(self.role), self.peer());
        AddressVector {
            traffic_class: case.traffic_class,
            hop_limit: case.hop_limit,
            flow_label: case.flow_label,
            vlan: case.vlan_tci,
            ..AddressVector::new(own.mac, own.ip, peer.mac, peer.ip)
        }
    }

    /// What a service has of its own is given to no other.
    fn connect(&self, can: &Capabilities, qp: Qp<Reset>, region: &MemoryRegion) -> Result<QueuePair> {
        let (case, own, peer) = (self.case, self.case.end(self.role), self.peer());
        let (connected, reliable) = (case.service != "UD", case.service == "RC");
        let remote = AccessFlags::REMOTE;
        let local = case.region.access.without(remote);
        let init = InitAttributes::new()
            .access(connected.then_some(case.region.access.without(local)))
            .pkey(case.pkey)
            .qkey(case.qkey.filter(|_| !connected));
        let rtr = RtrAttributes::new()
            .av(self.address())
            .path_mtu(case.path_mtu)
            .dest_qpn(peer.qpn)
            .rq_psn(Psn::new(peer.first_psn))
            .max_dest_rd_atomic(case.max_rd_atomic.min(can.max_dest_rd_atomic))
            .min_rnr_timer(case.min_rnr_timer)
            .sport(own.udp_sport);
        let rtr = match (connected, reliable) {
            (true, true) => rtr,
            (true, false) => rtr.max_dest_rd_atomic(None).min_rnr_timer(None),
            (false, _) => RtrAttributes::default(),
        };
        let rts = RtsAttributes::new()
            .sq_psn(Psn::new(own.first_psn))
            .timeout(case.ack_timeout)
            .retry_cnt(case.retry_count)
            .rnr_retry(case.rnr_retry)
            .max_rd_atomic(case.max_rd_atomic.min(can.max_rd_atomic));
        let quiet = RtsAttributes::new().sq_psn(rts.sq_psn);
        let rts = match (connected, reliable) {
            (true, true) => rts,
            (true, false) => quiet,
            (false, _) => quiet.sport(own.udp_sport),
        };
        let mut qp = qp.init(init).map_err(|step| step.error)?;
        if self.role == Role::Responder && !case.receive_posted_late {
            self.give(qp.start_post_recv(), region)?;
        }
        let qp = qp.rtr(rtr).map_err(|step| step.error)?;
        Ok(qp.rts(rts).map_err(|step| step.error)?)
    }

    /// Posts the receives, with one doorbell.
    fn give(&self, mut batch: PostRecv<'_>, region: &MemoryRegion) -> Result<()> {
        for (i, receive) in self.case.receives.iter().enumerate() {
            let sges = [region.sge(receive.offset, u32::try_from(receive.bytes)?)];
            batch.post(&RecvWr::new(i as u64, &sges))?;
        }
        Ok(batch.ring()?)
    }

    /// Posts the work, with one doorbell.
    fn post(&self, qp: &mut QueuePair, region: &MemoryRegion, ah: Option<&AddressHandle>) -> Result<()> {
        let work = &self.case.work;
        let sges = [region.sge(work.local_offset, work.bytes as u32)];
        let mut batch = qp.start_post_send();
        for i in 0..work.count as u64 {
            let remote = RemoteAddress {
                address: work.remote_va.unwrap_or(0).wrapping_add(work.remote_stride.wrapping_mul(i)),
                rkey: work.rkey.unwrap_or(0),
            };
            let imm = work.immediate.unwrap_or(0);
            let (first, swap) = (work.compare_add.unwrap_or(0), work.swap.unwrap_or(0));
            let wr = match &work.verb[..] {
                "SEND" => SendWr::send(i, &sges),
                "SEND_WITH_IMM" => SendWr::send_imm(i, &sges, imm),
                "SEND_WITH_INV" => SendWr::send_inv(i, &sges, work.invalidate_rkey.unwrap_or(0)),
                "RDMA_WRITE" => SendWr::write(i, &sges, remote),
                "RDMA_WRITE_WITH_IMM" => SendWr::write_imm(i, &sges, remote, imm),
                "RDMA_READ" => SendWr::read(i, &sges, remote),
                "COMPARE_AND_SWAP" => SendWr::compare_swap(i, &sges, remote, first, swap),
                "FETCH_AND_ADD" => SendWr::fetch_add(i, &sges, remote, first),
                other => bail!("the replayer does not know verb {other}"),
            };
            let wr = match ah {
                Some(ah) => wr.to(ah, self.peer().qpn, self.case.qkey.unwrap_or(0)),
                None => wr,
            };
            let wr = wr.signaled();
            batch.post(&if work.solicited { wr.solicited() } else { wr })?;
        }
        Ok(batch.ring()?)
    }

    /// Lets card and peer run until all that is awaited has come and a while more, or until nothing comes any more. `late`:
    /// receives are posted in that region when the last captured request has been refused for want of one.
    fn drive(
        &mut self,
        cq: &mut CompletionQueue,
        numbers: &Numbers,
        completions: usize,
        qp: &mut QueuePair,
        mut late: Option<&MemoryRegion>,
    ) -> Result<()> {
        let needed = self.trace.needed();
        let mut peer = Peer::new(&needed);
        let refusals = self.trace.of_card().filter(|frame| is_rnr(&frame.bytes)).count();
        // Longer than any pause of the card's own.
        let quiet = QUIET.max((8 * TICK) << self.case.ack_timeout);
        let mut some = [Completion::default(); 16];
        let mut news = self.world.lock().cycle();
        let mut free_at = 0.0;
        let mut next = None;
        loop {
            if let Some(region) = late.filter(|_| self.frames.len() >= refusals) {
                late = None;
                self.give(qp.start_post_recv(), region)?;
                self.world.lock().run(SETTLE);
            }
            let mut world = self.world.lock();
            let rate = line_gbps(self.model.beat_bytes() as u32, world.clock_khz()) * 1e6
                / 8.0
                / f64::from(world.clock_khz());
            for _ in 0..STRIDE {
                for frame in world.link_mut(0).take_frames() {
                    self.frames.push(numbers.from_card(&frame.bytes));
                    peer.card_sent();
                    news = world.cycle();
                }
                if late.is_some() && self.frames.len() >= refusals {
                    break;
                }
                next = next.or_else(|| peer.send());
                if let Some(frame) = next.filter(|_| world.cycle() as f64 >= free_at) {
                    let now = world.cycle();
                    free_at = now as f64 + wire_bytes(frame.len() as u64) as f64 / rate;
                    world.inject(1, numbers.to_card(frame));
                    news = now;
                    next = None;
                }
                world.step();
            }
            world.check()?;
            let (now, arrived) = (world.cycle(), world.link(1).idle());
            drop(world);
            let n = cq.poll(&mut some)?;
            if n > 0 {
                self.completions.extend_from_slice(&some[..n]);
                news = now;
            }
            let all = next.is_none() && peer.is_done() && arrived && self.completions.len() >= completions;
            if now - news > if all { SETTLE } else { quiet } {
                return Ok(());
            }
        }
    }

    fn compare_frames(&self) -> Vec<Difference> {
        let case = self.case;
        let context = compare::Context { flow_label: case.flow_label, short_receive: is_short(case) };
        let mut found = Vec::new();
        // What the peer had acknowledged may be sent again or not.
        let needed = self.trace.needed();
        let mut expected: Vec<&Captured> = Vec::new();
        for frame in self.trace.of_card() {
            let must = needed.frames.iter().any(|f| f.number == frame.number);
            let psn = |bytes: &[u8]| Frame::parse(bytes).map(|frame| frame.bth.psn).ok();
            let sent = self.frames.get(expected.len());
            if must || sent.is_some_and(|sent| psn(sent) == psn(&frame.bytes)) {
                expected.push(frame);
            }
        }
        let captured: Vec<&[u8]> = expected.iter().map(|frame| &frame.bytes[..]).collect();
        for (i, (expected, got)) in expected.iter().zip(&self.frames).enumerate() {
            let place = Place::Frame { captured: Some(expected.number), sent: Some(i + 1) };
            let specified = compare::specified(&expected.bytes, &captured[..i]);
            found.extend(compare::frames(place, &specified, got, &context));
        }
        let what = |frame: &[u8]| match Frame::parse(frame) {
            Ok(frame) => format!(
                "{}, PSN {:#x}",
                frame.opcode().map_or("reserved opcode".into(), |opcode| opcode.to_string()),
                frame.bth.psn
            ),
            Err(error) => error.to_string(),
        };
        for missing in expected.iter().skip(self.frames.len()) {
            let place = Place::Frame { captured: Some(missing.number), sent: None };
            found.push(Difference::new(place, "sent", what(&missing.bytes), "nothing"));
        }
        // Each NAK lets it go back; how far it had come when the next one is there is a matter of time.
        let naks = self.trace.frames.iter().filter(|frame| !frame.of_card && is_sequence_nak(&frame.bytes));
        let goes_back_again = naks.count() > 1;
        for (i, more) in self.frames.iter().enumerate().skip(expected.len()) {
            if goes_back_again && self.frames[..i].iter().any(|earlier| repeats(earlier, more)) {
                continue;
            }
            let place = Place::Frame { captured: None, sent: Some(i + 1) };
            found.push(Difference::new(place, "sent", "nothing more", what(more)));
        }
        found
    }

    /// Every byte of the memory, where the case says what each must be.
    fn compare_bytes(&self, got: &[u8]) -> Option<Difference> {
        let case = self.case;
        let lines = case.log(Role::Requester).iter().map(|line| Line::parse(&case.name, line));
        let well: Vec<bool> = lines
            .filter_map(|line| match line {
                Line::Completion(wc) => Some(wc.status == 0),
                _ => None,
            })
            .collect();
        // What ends in the middle may have written a part.
        let expected = match (well.iter().any(|well| *well), well.iter().all(|well| *well)) {
            (true, true) if well.len() == case.work.count => {
                memory::after(case, self.role, &memory::headers(self.trace))?
            }
            (false, false) if self.role == Role::Responder => memory::responder(got.len()),
            (false, false) => memory::requester(got.len()),
            _ => return None,
        };
        memory::check_bytes("of the region", &expected, got)
    }
}

/// Whether a message is longer than its receive.
fn is_short(case: &Case) -> bool {
    case.receives.iter().any(|receive| receive.bytes < case.work.bytes)
}

/// Whether a request is sent once more.
fn repeats(earlier: &[u8], frame: &[u8]) -> bool {
    let (Ok(earlier), Ok(frame)) = (Frame::parse(earlier), Frame::parse(frame)) else { return false };
    earlier.bth == frame.bth && earlier.ext == frame.ext && earlier.payload == frame.payload
}

fn is_sequence_nak(bytes: &[u8]) -> bool {
    Frame::parse(bytes).is_ok_and(|frame| frame.ext.aeth.is_some_and(|aeth| aeth.syndrome == 0x60))
}

fn is_rnr(bytes: &[u8]) -> bool {
    let aeth = Frame::parse(bytes).ok().and_then(|frame| frame.ext.aeth);
    aeth.is_some_and(|aeth| matches!(Syndrome::decode(aeth.syndrome), Syndrome::Rnr { .. }))
}

/// The completions that an end must have: those of its log, but for a message that is longer than its receive. That is a length
/// error of the receive (IBTA 9.9.3.1, 11.6.2); Linux says that the queue pair failed. The requester's follows from the NAK that it
/// is sent, which in a capture is that of Linux.
pub fn expected_completions(case: &Case, role: Role, lines: &[Line]) -> Vec<Wc> {
    let short = is_short(case) && !case.work.verb.starts_with("RDMA_");
    let logged = lines.iter().filter_map(|line| match line {
        Line::Completion(wc) => Some(*wc),
        _ => None,
    });
    let status = WcStatus::LocLenErr.code();
    logged.map(|wc| if short && role == Role::Responder { Wc { status, ..wc } } else { wc }).collect()
}

/// Compares completions with the logged ones. With any status but success, opcode and length mean nothing (IBTA 11.4.2.1).
pub fn compare_completions(expected: &[Wc], got: &[Completion], datagrams: bool) -> Vec<Difference> {
    let mut found = Vec::new();
    for (i, (expected, got)) in expected.iter().zip(got).enumerate() {
        let mut differ = |field: &str, expected: String, got: String| {
            if expected != got {
                found.push(Difference::new(Place::Completion(i + 1), field, expected, got));
            }
        };
        let status = WcStatus::from_code(expected.status);
        let name = status.map_or_else(|| expected.status.to_string(), |status| status.to_string());
        differ("status", name, got.status().to_string());
        if expected.status != WcStatus::Success.code() || !got.is_success() {
            continue;
        }
        let opcode = got.opcode().known().map(verbs_opcode);
        let text = opcode.map_or_else(|| got.opcode().to_string(), |opcode| opcode.to_string());
        differ("opcode", expected.opcode.to_string(), text);
        differ("byte_len", expected.len.to_string(), got.byte_len().to_string());
        // On the sender's side Linux sets flags that verbs give no meaning there.
        if expected.opcode >= 128 {
            // Linux says of every receive that a GRH is there.
            let source = datagrams.then_some(expected.src_qp);
            differ("src_qpn", format!("{source:x?}"), format!("{:x?}", got.src_qpn()));
            let imm = (expected.flags & 2 != 0).then_some(expected.imm);
            differ("imm", format!("{imm:x?}"), format!("{:x?}", got.imm()));
            differ(
                "invalidated",
                (expected.flags & 4 != 0).to_string(),
                got.invalidated().is_some().to_string(),
            );
        }
    }
    if expected.len() != got.len() {
        let last: Vec<String> =
            got.iter().skip(expected.len()).map(|c| format!("{} of {}", c.status(), c.opcode())).collect();
        let more = if last.is_empty() { String::new() } else { format!(": {}", last.join(", ")) };
        let place = Place::Completion(expected.len().min(got.len()) + 1);
        found.push(Difference::new(
            place,
            "number of completions",
            expected.len().to_string(),
            format!("{}{more}", got.len()),
        ));
    }
    found
}

/// The number of `ibv_wc_opcode`.
fn verbs_opcode(opcode: CqeOpcode) -> u32 {
    use CqeOpcode as C;
    match opcode {
        C::Send | C::SendImm | C::SendInv => 0,
        C::Write | C::WriteImm => 1,
        C::Read => 2,
        C::CmpSwap => 3,
        C::FetchAdd => 4,
        C::BindMw => 5,
        C::LocalInv => 6,
        C::Recv | C::RecvImm | C::RecvInv => 128,
        C::RecvWriteImm => 129,
    }
}
