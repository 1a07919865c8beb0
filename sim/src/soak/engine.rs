// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`EngineEnd`]: the reference engine, on the wire of a card.

use anyhow::{bail, ensure, Result};
use ferrowire::DropReason;
use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::wire::eth::mac_number;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::{Psn, QpState};

use super::ends::{ip, mac, Bind, Done, End, Path, Piece, Receive, Region, Request, Rights, Room, QKEY};
use super::raw::Filter;
use crate::bus::Peer;
use crate::model;
use crate::on_wire::OnWire;

/// What the engine posts, and answers: all that there is.
pub const VERBS: &[SendOpcode] = SendOpcode::ALL;

/// Protection domain of everything.
const PD: u32 = 7;

/// The reference engine as an end.
pub struct EngineEnd {
    core: OnWire<model::Engine>,
    side: usize,
    ipv6: bool,
    cq: u32,
    /// The shared receive queue, its size, and receives in it or taken from it.
    srq: Option<u32>,
    shared: (usize, usize),
    /// Number, room, requests under way, whether it has said that it is drained.
    qps: Vec<Queue>,
    /// Host address and bytes of each region's pages.
    regions: Vec<(u64, u64)>,
    offence: Option<String>,
}

struct Queue {
    qpn: u32,
    room: Room,
    /// Ids in order, those that wait for one behind them too.
    posted: Vec<u64>,
    /// Receives that have not been completed.
    receives: usize,
    drained: bool,
    /// Where its datagrams go: address handle and queue pair.
    to: Option<(u32, u32)>,
}

impl Queue {
    fn new(qpn: u32, room: Room) -> Self {
        Self { qpn, room, posted: Vec::new(), receives: 0, drained: false, to: None }
    }
}

impl EngineEnd {
    /// An engine as one side, and its end of the wire. `tick` is the unit of its time-outs in cycles.
    pub fn new(side: usize, seed: u64, ipv6: bool, tick: u32) -> (Self, Box<dyn Peer>) {
        let address = mac_number(mac(side));
        let config = model::Config { seed, selective: true, ..model::Config::new(address, ip(side, ipv6)) };
        let mut engine = model::Engine::new(config);
        let cq = engine.create_cq(1 << 16);
        let shared = OnWire::new(engine, tick.into());
        let peer = Box::new(shared.clone());
        let (qps, regions) = (Vec::new(), Vec::new());
        (Self { core: shared, side, ipv6, cq, srq: None, shared: (0, 0), qps, regions, offence: None }, peer)
    }

    fn queue_pair(&mut self, room: Room) -> Result<u32> {
        let (max_send, max_recv) = (room.sends as usize, room.receives as usize);
        let srq = self.srq.filter(|_| room.shared);
        let init = model::QpInit { max_send, max_recv, srq, ..model::QpInit::new(room.service, PD, self.cq) };
        self.core.lock().station.create_qp(init).map_err(|error| anyhow::anyhow!("{error}"))
    }

    fn modify_to(&mut self, qp: usize, attr: &model::QpAttr) -> Result<()> {
        let mut core = self.core.lock();
        core.station.modify_qp(self.qps[qp].qpn, attr).map_err(|error| anyhow::anyhow!("{error}"))?;
        core.touched();
        Ok(())
    }

    /// Takes note of what the engine tells beside completions.
    fn events(&mut self) {
        let mut core = self.core.lock();
        while let Some(event) = core.station.poll_event() {
            match event.kind {
                EventKind::SqDrained => {
                    let mut qps = self.qps.iter_mut();
                    if let Some(queue) = qps.find(|queue| queue.qpn == event.object) {
                        queue.drained = true;
                    }
                }
                EventKind::CqOverrun => self.offence = Some("its completion queue ran over".into()),
                _ => {}
            }
        }
    }
}

impl End for EngineEnd {
    fn verbs(&self) -> &[SendOpcode] {
        VERBS
    }

    fn region(&mut self, region: &Region, pages: &[u8]) -> Result<u32> {
        let base = (1 + self.regions.len() as u64) << 32;
        let mut core = self.core.lock();
        core.station.memory_mut().map(base, pages.to_vec());
        let rights = match region.rights {
            Rights::Closed => model::Rights::NONE,
            Rights::Local => model::Rights::LOCAL_WRITE,
            Rights::Write => model::Rights::LOCAL_WRITE | model::Rights::REMOTE_WRITE,
            Rights::Shared => model::Rights::LOCAL_WRITE | model::Rights::REMOTE,
            Rights::Lent => model::Rights::LOCAL_WRITE | model::Rights::MW_BIND,
            Rights::LentRead => model::Rights::MW_BIND,
        };
        let attr = model::RegionAttr {
            pd: PD,
            base: base + region.front() as u64,
            va: region.address,
            len: region.len as u64,
            rights,
            page: 1,
        };
        let key = core.station.register(attr, None).map_err(|error| anyhow::anyhow!("{error}"))?;
        self.regions.push((base, pages.len() as u64));
        Ok(key)
    }

    fn read(&self, region: usize) -> Vec<u8> {
        let (base, len) = self.regions[region];
        self.core.lock().station.memory().get(base, len).unwrap_or_default().to_vec()
    }

    fn write(&mut self, region: usize, at: usize, bytes: &[u8]) {
        let (base, _) = self.regions[region];
        let mut core = self.core.lock();
        if let Some(place) = core.station.memory_mut().get_mut(base + at as u64, bytes.len() as u64) {
            place.copy_from_slice(bytes);
        }
    }

    fn share(&mut self, receives: u32) -> Result<()> {
        self.srq = Some(self.core.lock().station.create_srq(PD, receives as usize));
        self.shared.0 = receives as usize;
        Ok(())
    }

    fn free_shared(&mut self) -> usize {
        self.shared.0 - self.shared.1
    }

    fn post_shared(&mut self, receives: &[Receive]) -> Result<()> {
        let srq = self.srq.ok_or_else(|| anyhow::anyhow!("no shared receive queue"))?;
        let mut core = self.core.lock();
        for receive in receives {
            let wr = model::RecvWr::new(receive.id, &sges(&receive.local));
            if let Err(error) = core.station.post_srq_recv(srq, wr) {
                bail!("posting a receive to the shared queue: {error}");
            }
            self.shared.1 += 1;
        }
        core.touched();
        Ok(())
    }

    fn window(&mut self) -> Result<u32> {
        let window = self.core.lock().station.alloc_window(PD, model::WindowType::Type2B, None);
        window.map_err(|error| anyhow::anyhow!("{error}"))
    }

    fn free_window(&mut self, key: u32) -> Result<()> {
        self.core.lock().station.deregister(key).map_err(|error| anyhow::anyhow!("{error}"))
    }

    fn zero_base(&self, _: u64) -> u64 {
        0
    }

    fn create(&mut self, room: Room) -> Result<u32> {
        let qpn = self.queue_pair(room)?;
        self.qps.push(Queue::new(qpn, room));
        Ok(qpn)
    }

    fn connect(&mut self, qp: usize, path: &Path, receives: &[Receive]) -> Result<()> {
        ensure!(path.ipv6 == self.ipv6, "an engine has one address");
        let far = 1 - self.side;
        let address = mac_number(mac(far));
        let init = model::QpAttr {
            access: Some(if path.rd_atomic > 0 {
                model::Rights::REMOTE
            } else {
                model::Rights::REMOTE_WRITE
            }),
            pkey: Some(0xffff),
            ..model::QpAttr::to(QpState::Init)
        };
        let av = model::AddressVector::new(address, ip(far, path.ipv6));
        let service = self.qps[qp].room.service;
        if service == Service::Ud {
            self.qps[qp].to = Some((self.core.lock().station.create_ah(PD, av), path.peer));
        }
        let rtr = model::QpAttr {
            av: Some(av),
            path_mtu: Some(path.mtu.bytes()),
            dest_qpn: Some(path.peer),
            rq_psn: Some(Psn::new(path.rq_psn)),
            max_dest_rd_atomic: Some(path.rd_atomic),
            min_rnr_timer: Some(path.min_rnr_timer),
            selective: path.selective.then_some(true),
            ..model::QpAttr::to(QpState::Rtr)
        };
        let rts = model::QpAttr {
            sq_psn: Some(Psn::new(path.sq_psn)),
            timeout: Some(path.timeout),
            retry_cnt: Some(path.retry_cnt),
            rnr_retry: Some(path.rnr_retry),
            max_rd_atomic: Some(path.rd_atomic),
            ..model::QpAttr::to(QpState::Rts)
        };
        // Each service has attributes of its own.
        let to = model::QpAttr::to;
        let sends = model::QpAttr { sq_psn: rts.sq_psn, ..to(QpState::Rts) };
        let (init, rtr, rts) = match service {
            Service::Uc => {
                (init, model::QpAttr { max_dest_rd_atomic: None, min_rnr_timer: None, ..rtr }, sends)
            }
            Service::Ud => {
                (model::QpAttr { access: None, qkey: Some(QKEY), ..init }, to(QpState::Rtr), sends)
            }
            Service::Raw => (to(QpState::Init), to(QpState::Rtr), to(QpState::Rts)),
            _ => (init, rtr, rts),
        };
        self.modify_to(qp, &init)?;
        self.post_receives(qp, receives)?;
        [rtr, rts].iter().try_for_each(|attr| self.modify_to(qp, attr))
    }

    fn reset(&mut self, qp: usize) -> Result<()> {
        let Queue { qpn, room, .. } = self.qps[qp];
        self.qps[qp] = Queue::new(qpn, room);
        self.modify_to(qp, &model::QpAttr::to(QpState::Reset))
    }

    fn renew(&mut self, qp: usize) -> Result<u32> {
        let Queue { qpn, room, .. } = self.qps[qp];
        let mut core = self.core.lock();
        core.station.destroy_qp(qpn).map_err(|error| anyhow::anyhow!("{error}"))?;
        core.touched();
        drop(core);
        let qpn = self.queue_pair(room)?;
        self.qps[qp] = Queue::new(qpn, room);
        Ok(qpn)
    }

    fn modify(&mut self, qp: usize, to: QpState) -> Result<()> {
        self.qps[qp].drained = false;
        let sqd_event = (to == QpState::Sqd).then_some(true);
        self.modify_to(qp, &model::QpAttr { sqd_event, ..model::QpAttr::to(to) })
    }

    fn state(&mut self, qp: usize) -> Result<Option<QpState>> {
        Ok(self.core.lock().station.state(self.qps[qp].qpn))
    }

    fn is_drained(&mut self, qp: usize) -> Result<bool> {
        self.events();
        Ok(self.qps[qp].drained)
    }

    fn free(&mut self, qp: usize) -> usize {
        let queue = &self.qps[qp];
        queue.room.sends as usize - queue.posted.len()
    }

    fn post(&mut self, qp: usize, requests: &[Request]) -> Result<()> {
        let queue = &mut self.qps[qp];
        let mut core = self.core.lock();
        for request in requests {
            let mut wr = model::SendWr::new(request.opcode, request.id, &sges(&request.local));
            (wr.remote_va, wr.rkey) = request.remote;
            (wr.signaled, wr.solicited, wr.fence) = (request.signaled, request.solicited, request.fence);
            (wr.compare_add, wr.swap) = request.operands;
            (wr.imm, wr.inline) = (request.imm, request.inline.clone());
            if matches!(request.opcode, SendOpcode::SendInv | SendOpcode::LocalInv) {
                wr.imm = request.key;
            }
            wr.bind = request.bind.map_or(wr.bind, bind);
            if let Some((ah, qpn)) = queue.to {
                wr = wr.to(ah, qpn, QKEY);
            }
            if let Err(error) = core.station.post_send(queue.qpn, wr) {
                bail!("posting to queue pair {qp}: {error}");
            }
            queue.posted.push(request.id);
        }
        core.touched();
        Ok(())
    }

    fn free_receives(&mut self, qp: usize) -> usize {
        let queue = &self.qps[qp];
        queue.room.receives as usize - queue.receives
    }

    fn post_receives(&mut self, qp: usize, receives: &[Receive]) -> Result<()> {
        let queue = &mut self.qps[qp];
        let mut core = self.core.lock();
        for receive in receives {
            let wr = model::RecvWr::new(receive.id, &sges(&receive.local));
            if let Err(error) = core.station.post_recv(queue.qpn, wr) {
                bail!("posting a receive to queue pair {qp}: {error}");
            }
            queue.receives += 1;
        }
        core.touched();
        Ok(())
    }

    fn filter(&mut self, filter: &Filter) -> Result<()> {
        let Filter { raw, promiscuous } = filter;
        let (unicast, broadcast, multicast) = (raw.unicast, raw.broadcast, raw.multicast);
        let (groups, promiscuous) = (filter.table(), *promiscuous);
        let raw = model::RawFilter { unicast, broadcast, multicast, groups, promiscuous };
        let station = &mut self.core.lock().station;
        station.set_raw_filter(raw);
        station.set_raw_roce(true);
        Ok(())
    }

    fn raw_frames(&mut self) -> Result<[u64; 2]> {
        Ok(self.core.lock().station.raw_frames())
    }

    fn has_lost(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn poll(&mut self) -> Result<Vec<Done>> {
        self.events();
        let mut core = self.core.lock();
        let mut all = Vec::new();
        while let Some(done) = core.station.poll_cq(self.cq) {
            if let Some(queue) = self.qps.iter_mut().find(|queue| queue.qpn == done.qpn) {
                if done.opcode.is_receive() && queue.room.shared {
                    self.shared.1 -= 1;
                } else if done.opcode.is_receive() {
                    queue.receives -= 1;
                } else if let Some(at) = queue.posted.iter().position(|id| *id == done.wr_id) {
                    queue.posted.drain(..=at);
                }
            }
            all.push(Done {
                qpn: done.qpn,
                id: done.wr_id,
                receive: done.opcode.is_receive(),
                status: Some(done.status),
                opcode: Some(done.opcode),
                bytes: done.byte_len,
                imm: done.imm,
                solicited: done.solicited,
                source: done.grh.then_some((done.src_qpn, done.ipv4)),
                invalidated: done.invalidated,
            });
        }
        Ok(all)
    }

    fn offence(&self) -> Option<String> {
        self.offence.clone()
    }

    fn diagnose(&self) -> String {
        let core = self.core.lock();
        let drops = DropReason::ALL.iter().map(|reason| (reason.name(), core.station.dropped(*reason)));
        let drops: Vec<_> = drops.filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
        drops.join(", ")
    }
}

fn bind(bind: Bind) -> model::Bind {
    let all = [model::Rights::REMOTE_READ, model::Rights::REMOTE_WRITE, model::Rights::REMOTE_ATOMIC];
    let some = all.into_iter().zip(bind.rights).filter(|(_, given)| *given).map(|(right, _)| right);
    let base = if bind.zero_based { model::Rights::ZERO_BASED } else { model::Rights::NONE };
    model::Bind {
        key: bind.key,
        lkey: bind.region,
        addr: bind.address,
        len: bind.bytes,
        rights: some.fold(base, |all, right| all | right),
        kind: model::WindowType::Type2B,
    }
}

fn sges(pieces: &[Piece]) -> Vec<model::Sge> {
    pieces.iter().map(|&(addr, lkey, len)| model::Sge { addr, lkey, len }).collect()
}
