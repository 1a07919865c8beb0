// SPDX-License-Identifier: MIT OR Apache-2.0
//! The card's side.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use ferrowire::{
    AccessFlags, AddressHandle, Completion, CompletionQueue, Context, ContextOptions, Event, EventQueue,
    Init, InitAttributes, MemoryRegion, MemoryWindow, PageSize, Payload, ProtectionDomain, Psn, Qp,
    QpInitAttr, QpState, QueuePair, RecvWr, RtrAttributes, RtsAttributes, SendWr, Service, Sge, VfioUserBus,
    WcStatus, WorkKind,
};
use ferrowire_net::{Config, Net};

use crate::side::{
    pattern, Done, End, Options, Piece, Place, Request, Result, Side, Success, BYTES, INLINE, PIECES, QKEY,
};

/// Longest wait for completions and commands: a simulated card is slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long nothing must come where nothing may.
const SILENCE: Duration = Duration::from_millis(100);
/// Between two looks.
const LOOK: Duration = Duration::from_micros(100);
/// Work requests of each queue.
const REQUESTS: u32 = 64;

/// The card, and what a step has of it; dropped from the first to the last.
pub struct Card {
    windows: Vec<MemoryWindow>,
    raised: Option<Qp<Init>>,
    qp: Option<QueuePair>,
    /// Where datagrams go.
    to: Option<(AddressHandle, u32)>,
    region: Option<MemoryRegion>,
    psn: Psn,
    // Of all steps.
    cq: CompletionQueue,
    events: EventQueue,
    net: Net,
    pd: ProtectionDomain,
    context: Context,
    peer: IpAddr,
}

/// What comes before that was not there.
fn missing(what: &str) -> Box<dyn std::error::Error> {
    format!("the card has no {what} yet: a step is out of order").into()
}

impl Card {
    /// Opens the simulated card on a socket, with the address that it was given.
    pub fn open(socket: &Path, peer: IpAddr) -> Result<Card> {
        let options = ContextOptions { command_timeout: PATIENCE, ..ContextOptions::default() };
        let context = Context::open_with(VfioUserBus::connect(socket)?, options)?;
        for address in context.addresses() {
            context.add_gid(address, None)?;
        }
        let pd = context.alloc_pd()?;
        let net = Net::new(&context, &pd, Config::default())?;
        let events = context.create_eq(16)?;
        let cq = context.create_cq_with_events(4 * REQUESTS, &events)?;
        let (windows, raised, qp, to, region) = (Vec::new(), None, None, None, None);
        Ok(Card { windows, raised, qp, to, region, psn: Psn::new(0), cq, events, net, pd, context, peer })
    }

    /// Answers its neighbours; whoever waits must call it.
    pub fn net(&self) -> Net {
        self.net.clone()
    }

    /// Its address.
    pub fn address(&self) -> Result<IpAddr> {
        let family = |(ip, _): &(IpAddr, _)| ip.is_ipv6() == self.peer.is_ipv6();
        let found = self.context.gids().into_iter().find(family);
        Ok(found.ok_or("the card has no address like the guest's: start ferrowire-sim card with --ip")?.0)
    }

    fn region(&self) -> Result<&MemoryRegion> {
        self.region.as_ref().ok_or_else(|| missing("memory"))
    }

    fn sges(&self, pieces: &[Piece]) -> Result<Vec<Sge>> {
        let region = self.region()?;
        Ok(pieces.iter().map(|piece| region.sge(piece.offset, piece.bytes)).collect())
    }
}

/// What a completion says.
fn done(completion: &Completion) -> Result<Done> {
    let status = completion.status().known().ok_or("a completion has an unknown status")?;
    let result = match status {
        WcStatus::Success => {
            let opcode = completion.opcode().known().ok_or("a completion has an unknown opcode")?;
            if opcode.is_receive() != (completion.kind() == WorkKind::Receive) {
                return Err(format!("{opcode} does not belong to its queue").into());
            }
            let (imm, invalidated, from) = (completion.imm(), completion.invalidated(), completion.src_qpn());
            Ok(Success { imm, invalidated, from, ..Success::of(opcode, completion.byte_len()) })
        }
        status => Err(status),
    };
    Ok(Done { wr_id: completion.wr_id(), result })
}

impl Side for Card {
    fn is_guest(&self) -> bool {
        false
    }

    fn begin(
        &mut self,
        step: u32,
        service: Service,
        mr_rights: AccessFlags,
        qp_rights: AccessFlags,
    ) -> Result<Place> {
        self.windows.clear();
        (self.raised, self.qp, self.to) = (None, None, None);
        // Each command takes a simulation its time.
        if self.region.as_ref().is_none_or(|region| region.access() != mr_rights) {
            let memory = self.context.alloc(BYTES, PageSize::Size4K.bytes() as usize)?;
            self.region = Some(self.pd.register(&memory, mr_rights, PageSize::Size4K)?);
        }
        let region = self.region()?;
        let bytes: Vec<u8> = (0..BYTES).map(|at| pattern(step, false, at)).collect();
        region.memory().write(0, &bytes);
        let (address, rkey) = (region.address(), region.rkey());
        let cq = &self.cq;
        let mut attr = match service {
            Service::Uc => QpInitAttr::uc(cq, cq),
            Service::Ud => QpInitAttr::ud(cq, cq),
            _ => QpInitAttr::rc(cq, cq),
        };
        (attr.max_send_wr, attr.max_recv_wr) = (REQUESTS, REQUESTS);
        (attr.max_send_sge, attr.max_recv_sge) = (PIECES as u8, PIECES as u8);
        attr.max_inline = INLINE as u16;
        let (access, qkey) = match service {
            Service::Ud => (None, Some(QKEY)),
            _ => (Some(qp_rights), None),
        };
        let qp =
            self.pd.create_qp(&attr)?.init(InitAttributes::new().access(access).pkey(0xffff).qkey(qkey))?;
        self.psn = self.context.random_psn()?;
        let qpn = qp.number();
        self.raised = Some(qp);
        Ok(Place { address, rkey, qpn, psn: self.psn.get() })
    }

    fn connect(&mut self, peer: Place, options: &Options) -> Result<()> {
        let qp = self.raised.take().ok_or_else(|| missing("queue pair"))?;
        let (av, sq_psn) = (self.net.address_vector(self.peer)?, Some(self.psn));
        let (rtr, rts) = match qp.service() {
            Service::Ud => {
                self.to = Some((self.pd.create_ah(&av)?, peer.qpn));
                (RtrAttributes::default(), RtsAttributes::new().sq_psn(sq_psn))
            }
            service => {
                let only_rc = |value: u8| (service == Service::Rc).then_some(value);
                let rtr = RtrAttributes::new()
                    .av(av)
                    .path_mtu(options.mtu)
                    .dest_qpn(peer.qpn)
                    .rq_psn(Psn::new(peer.psn))
                    .max_dest_rd_atomic(only_rc(4))
                    .min_rnr_timer(only_rc(options.min_rnr_timer));
                let rts = RtsAttributes::new()
                    .sq_psn(sq_psn)
                    .timeout(only_rc(options.timeout))
                    .retry_cnt(only_rc(options.retry_cnt))
                    .rnr_retry(only_rc(options.rnr_retry))
                    .max_rd_atomic(only_rc(4));
                (rtr, rts)
            }
        };
        self.qp = Some(qp.rtr(rtr)?.rts(rts)?);
        Ok(())
    }

    fn receive(&mut self, all: &[(u64, Vec<Piece>)]) -> Result<()> {
        let sges = all.iter().map(|(_, pieces)| self.sges(pieces)).collect::<Result<Vec<_>>>()?;
        let mut batch = self.qp.as_mut().ok_or_else(|| missing("queue pair"))?.start_post_recv();
        for ((wr_id, _), sges) in all.iter().zip(&sges) {
            batch.post(&RecvWr::new(*wr_id, sges))?;
        }
        Ok(batch.ring()?)
    }

    fn post(&mut self, requests: &[Request]) -> Result<()> {
        let sges: Vec<Vec<Sge>> =
            requests.iter().map(|request| self.sges(&request.pieces)).collect::<Result<_>>()?;
        let region = self.region.as_ref().ok_or_else(|| missing("memory"))?;
        let gather = |request: &Request| {
            let mut bytes = Vec::new();
            for piece in &request.pieces {
                let mut part = vec![0; piece.bytes as usize];
                region.memory().read(piece.offset, &mut part);
                bytes.extend(part);
            }
            bytes
        };
        let qp = self.qp.as_mut().ok_or_else(|| missing("queue pair"))?;
        let mut batch = qp.start_post_send();
        for (request, sges) in requests.iter().zip(&sges) {
            let inline = if request.inline { gather(request) } else { Vec::new() };
            let payload = if request.inline { Payload::Inline(&inline) } else { Payload::Sges(sges) };
            let mut wr = SendWr::new(request.wr_id, request.op, payload);
            if request.signaled {
                wr = wr.signaled();
            }
            if request.solicited {
                wr = wr.solicited();
            }
            if request.fence {
                wr = wr.fenced();
            }
            if let Some((ah, qpn)) = &self.to {
                wr = wr.to(ah, *qpn, QKEY);
            }
            batch.post(&wr)?;
        }
        Ok(batch.ring()?)
    }

    fn bind(&mut self, wr_id: u64, place: Piece, rights: AccessFlags) -> Result<u32> {
        let mut window = self.pd.alloc_window()?;
        let bind = window.bind(wr_id, self.region()?, place.offset, place.bytes as usize, rights)?;
        let mut batch = self.qp.as_mut().ok_or_else(|| missing("queue pair"))?.start_post_send();
        batch.post(&bind.signaled())?;
        batch.ring()?;
        let key = window.rkey();
        self.windows.push(window);
        Ok(key)
    }

    fn poll(&mut self, count: usize) -> Result<Vec<Done>> {
        let (mut all, end) = (Vec::new(), Instant::now() + PATIENCE);
        loop {
            let mut some = [Completion::default(); 16];
            let taken = self.cq.poll(&mut some)?;
            for completion in &some[..taken] {
                all.push(done(completion)?);
            }
            if all.len() >= count || Instant::now() > end {
                return Ok(all);
            }
            self.net.poll()?;
            std::thread::sleep(LOOK);
        }
    }

    fn arm(&mut self) -> Result<()> {
        // Those of other steps.
        while self.events.poll(&mut [Event::default(); 4])? > 0 {}
        Ok(self.cq.request_notify(true)?)
    }

    fn event(&mut self) -> Result<bool> {
        Ok(self.events.wait(&mut [Event::default(); 4], SILENCE)? > 0)
    }

    fn end(&mut self) -> Result<End> {
        let more = self.poll(0)?;
        let mut memory = vec![0; BYTES];
        self.region()?.memory().read(0, &mut memory);
        let qp = self.qp.as_ref().ok_or_else(|| missing("queue pair"))?;
        Ok(End { more, in_error: qp.query()?.state == QpState::Err, memory })
    }

    fn pause(&mut self) -> Result<()> {
        let end = Instant::now() + SILENCE;
        while Instant::now() < end {
            self.net.poll()?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}
