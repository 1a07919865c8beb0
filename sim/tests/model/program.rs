// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs, and what must come of them.
//!
//! Each queue pair has two flows, one for each direction. A flow writes down what each of its work requests does to memory
//! when it is made; reliable connections must then end exactly so. What could end in more than one way is kept out of a
//! program: memory that an unanswered READ may still be asked for again is changed only behind a fence.

use std::collections::BTreeMap;

use ferrowire_sim::model::network::Network;
use ferrowire_sim::model::{
    Bind, Completion, Error, QpAttr, QpInit, RecvWr, RegionAttr, Rights, SendWr, Sge,
};
use ferrowire_spec::queue::cqe::CqeOpcode;
use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::{Bth, Frame};
use ferrowire_spec::{Psn, QpState};
use rand::rngs::SmallRng;
use rand::Rng as _;

use super::soak::vector;

const PD: u32 = 7;
const QKEY: u32 = 0x1234_5678;
/// Bytes of the memory that peers use, and of each source of data.
const TARGET: usize = 32 * 1024;
/// Longest message.
const LONGEST: usize = 12 * 1024;
/// Windows over each target.
const WINDOWS: usize = 3;

/// Frames that a failure shows.
const LAST: usize = 100;

/// What connects two engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rc,
    /// RC with shared receive queues.
    RcSrq,
    Uc,
    Ud,
}

/// A region and what its bytes must be.
#[derive(Clone, Debug)]
struct Area {
    node: usize,
    base: u64,
    va: u64,
    key: u32,
    /// Bytes that need not be anything: what lies there is checked elsewhere, or may be either.
    free: Vec<(usize, usize)>,
    want: Vec<u8>,
}

/// A queue pair at one end.
#[derive(Clone, Copy, Debug)]
struct End {
    node: usize,
    qpn: u32,
    mtu: usize,
    kind: Kind,
    peer: u32,
    srq: Option<u32>,
}

pub struct World {
    pub network: Network,
    ends: Vec<End>,
    areas: Vec<Area>,
    cqs: [u32; 2],
    srqs: [Option<u32>; 2],
    /// Receives in shared queues: node and number, area and offset.
    shared: BTreeMap<(usize, u64), (usize, usize)>,
    next_id: u64,
    /// Completions not yet looked at, by node and queue pair.
    done: BTreeMap<(usize, u32), Vec<Completion>>,
    next_base: u64,
}

impl World {
    pub fn new(mut network: Network) -> Self {
        let cqs = [0, 1].map(|node: usize| network.engines[node].create_cq(1 << 20));
        Self {
            network,
            ends: Vec::new(),
            areas: Vec::new(),
            cqs,
            srqs: [None; 2],
            shared: BTreeMap::new(),
            next_id: 0,
            done: BTreeMap::new(),
            next_base: 1 << 24,
        }
    }

    /// A region with random bytes; some count from zero, some are near the end of all addresses.
    fn area(&mut self, rng: &mut SmallRng, node: usize, len: usize, rights: Rights) -> usize {
        let base = self.next_base;
        self.next_base += 1 << 24;
        let (va, rights) = match rng.random_range(0..4) {
            0 => (0, rights | Rights::ZERO_BASED),
            1 => (u64::MAX - len as u64 + 1 - 8 * rng.random_range(0..100), rights),
            _ => (rng.random::<u64>() >> 8 & !7, rights),
        };
        let want: Vec<u8> = (0..len).map(|_| rng.random()).collect();
        let engine = &mut self.network.engines[node];
        engine.memory_mut().map(base, want.clone());
        let attr = RegionAttr { pd: PD, base, va, len: len as u64, rights };
        let key = engine.register(attr, None).unwrap();
        self.areas.push(Area { node, base, va, key, free: Vec::new(), want });
        self.areas.len() - 1
    }

    /// Two queue pairs, one at each engine.
    pub fn connect(&mut self, rng: &mut SmallRng, kind: Kind) {
        let mtu = [256, 512, 1024, 4096][rng.random_range(0..4)];
        // Near the wrap more often than not.
        let psns = [0; 2].map(|_| Psn::new(rng.random_range(0..60u32).wrapping_sub(40)));
        let service = match kind {
            Kind::Uc => Service::Uc,
            Kind::Ud => Service::Ud,
            _ => Service::Rc,
        };
        let configs = [0, 1].map(|node: usize| *self.network.engines[node].config());
        let srqs = [0, 1].map(|node| (kind == Kind::RcSrq).then(|| self.shared_queue(node)));
        let qpns = [0, 1].map(|node: usize| {
            let (srq, cq) = (srqs[node], self.cqs[node]);
            let init = QpInit { srq, max_send: 24, max_recv: 1024, ..QpInit::new(service, PD, cq) };
            self.network.engines[node].create_qp(init).unwrap()
        });
        let (connected, reliable) = (service != Service::Ud, service == Service::Rc);
        let depth = rng.random_range(1..6);
        for node in 0..2 {
            let init = QpAttr {
                access: connected.then_some(Rights::REMOTE),
                pkey: Some(0xffff),
                qkey: (!connected).then_some(QKEY),
                ..QpAttr::to(QpState::Init)
            };
            let rtr = QpAttr {
                av: connected.then_some(vector(&configs[1 - node])),
                path_mtu: connected.then_some(mtu),
                dest_qpn: connected.then_some(qpns[1 - node]),
                rq_psn: connected.then_some(psns[1 - node]),
                max_dest_rd_atomic: reliable.then_some(depth),
                min_rnr_timer: reliable.then_some(1),
                ..QpAttr::to(QpState::Rtr)
            };
            let rts = QpAttr {
                sq_psn: Some(psns[node]),
                timeout: reliable.then_some(9),
                retry_cnt: reliable.then_some(7),
                rnr_retry: reliable.then_some(7),
                max_rd_atomic: reliable.then_some(rng.random_range(1..=depth)),
                ..QpAttr::to(QpState::Rts)
            };
            for attr in [init, rtr, rts] {
                self.network.engines[node].modify_qp(qpns[node], &attr).unwrap();
            }
            let (qpn, peer, srq) = (qpns[node], qpns[1 - node], srqs[node]);
            self.ends.push(End { node, qpn, mtu, kind, peer, srq });
        }
    }

    fn shared_queue(&mut self, node: usize) -> u32 {
        *self.srqs[node].get_or_insert_with(|| self.network.engines[node].create_srq(PD, 4096))
    }

    /// Lets what was posted so far come to an end.
    pub fn set_up(&mut self) {
        assert!(self.network.run(100_000));
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn poll(&mut self) {
        for node in 0..2 {
            while let Some(done) = self.network.engines[node].poll_cq(self.cqs[node]) {
                assert!(done.is_success(), "{done:?}, after\n{}", self.last_frames());
                self.done.entry((node, done.qpn)).or_default().push(done);
            }
        }
    }

    /// What was sent last.
    fn last_frames(&self) -> String {
        let sent = self.network.sent();
        let text = |(when, node, bytes): &(u64, usize, Vec<u8>)| {
            let frame = Frame::parse(bytes).unwrap();
            let opcode = frame.opcode().unwrap();
            let syndrome = frame.ext.aeth.map(|aeth| (aeth.syndrome, aeth.msn));
            let Bth { destqp, psn, .. } = frame.bth;
            format!("{when} ns: node {node} to qp {destqp:#x}: {opcode} {psn:#x} {syndrome:x?}\n")
        };
        sent[sent.len().saturating_sub(LAST)..].iter().map(text).collect()
    }

    fn bytes(&self, area: usize, at: usize, len: usize) -> &[u8] {
        let Area { node, base, .. } = self.areas[area];
        self.network.engines[node].memory().get(base + at as u64, len as u64).unwrap()
    }

    /// Elements for `len` bytes from `at` on: one or several.
    fn elements(&self, rng: &mut SmallRng, area: usize, at: usize, len: usize, most: usize) -> Vec<Sge> {
        let Area { va, key, .. } = self.areas[area];
        let mut cuts: Vec<usize> =
            (1..rng.random_range(1..=most)).map(|_| rng.random_range(0..=len)).collect();
        cuts.extend([0, len]);
        cuts.sort_unstable();
        cuts.windows(2)
            .map(|w| Sge { addr: va.wrapping_add((at + w[0]) as u64), lkey: key, len: (w[1] - w[0]) as u32 })
            .collect()
    }

    pub fn check_events(&mut self) {
        for engine in &mut self.network.engines {
            while let Some(event) = engine.poll_event() {
                let fine = matches!(event.kind, EventKind::CommEstablished | EventKind::SrqLimit);
                assert!(fine, "{event:?}");
            }
        }
    }

    pub fn compare_memory(&self) {
        for (index, area) in self.areas.iter().enumerate() {
            let got = self.bytes(index, 0, area.want.len());
            let free = |at: usize| area.free.iter().any(|(from, len)| at >= *from && at < from + len);
            let bad = (0..got.len()).find(|at| got[*at] != area.want[*at] && !free(*at));
            assert!(bad.is_none(), "area {index} of node {}: byte {bad:?} differs", area.node);
        }
    }
}

/// A message that must arrive.
#[derive(Clone, Debug)]
struct Message {
    opcode: CqeOpcode,
    data: Vec<u8>,
    /// Bytes told by the completion; those of a WRITE are not in the receive.
    len: usize,
    imm: Option<u32>,
    invalidated: Option<u32>,
    solicited: bool,
}

/// One direction of a queue pair.
pub struct Flow {
    from: End,
    to: End,
    sends: std::collections::VecDeque<SendWr>,
    recvs: std::collections::VecDeque<RecvWr>,
    want_sent: Vec<(u64, CqeOpcode, usize)>,
    messages: Vec<Message>,
    sent: usize,
    received: Vec<Completion>,
    /// Where the n-th receive is: its number, area, offset.
    places: Vec<(u64, usize, usize)>,
}

/// What generation knows of memory.
struct Memory {
    source: usize,
    sink: usize,
    sink_at: usize,
    target: usize,
    inbox: usize,
    inbox_at: usize,
    windows: Vec<u32>,
    /// What READs without a fence behind them were asked for.
    pending: Vec<(usize, usize)>,
}

impl Flow {
    /// Flow `index` of the world: from one end of its queue pair to the other.
    pub fn generate(rng: &mut SmallRng, world: &mut World, index: usize, ops: usize) -> Self {
        let (from, to) = (world.ends[index], world.ends[index ^ 1]);
        let big = ops * (LONGEST + 64);
        let local = Rights::LOCAL_WRITE;
        let mut memory = Memory {
            source: world.area(rng, from.node, TARGET, Rights::NONE),
            sink: world.area(rng, from.node, big, local),
            sink_at: 0,
            target: world.area(rng, to.node, TARGET, local | Rights::REMOTE | Rights::MW_BIND),
            inbox: world.area(rng, to.node, big, local),
            inbox_at: 0,
            windows: Vec::new(),
            pending: Vec::new(),
        };
        if matches!(from.kind, Kind::Rc | Kind::RcSrq) {
            memory.windows = bind_windows(world, &to, memory.target);
        }
        let mut flow = Flow {
            from,
            to,
            sends: Default::default(),
            recvs: Default::default(),
            want_sent: Vec::new(),
            messages: Vec::new(),
            sent: 0,
            received: Vec::new(),
            places: Vec::new(),
        };
        for _ in 0..ops {
            flow.add(rng, world, &mut memory);
        }
        if to.srq.is_some() {
            // Whose message gets which receive is open, so each has room for any.
            for _ in 0..flow.messages.len() {
                flow.receive(rng, world, &mut memory, LONGEST);
            }
        }
        flow
    }

    fn add(&mut self, rng: &mut SmallRng, world: &mut World, memory: &mut Memory) {
        use SendOpcode as O;
        let choices: &[O] = match self.from.kind {
            Kind::Ud => &[O::Send, O::SendImm],
            Kind::Uc => &[O::Send, O::SendImm, O::Write, O::WriteImm],
            _ => &[
                O::Send,
                O::SendImm,
                O::SendInv,
                O::Write,
                O::WriteImm,
                O::Read,
                O::Read,
                O::CmpSwap,
                O::FetchAdd,
                O::BindMw,
            ],
        };
        let opcode = match choices[rng.random_range(0..choices.len())] {
            O::SendInv if memory.windows.is_empty() => O::Send,
            other => other,
        };
        if opcode == O::BindMw {
            return self.bind_and_invalidate(rng, world, memory);
        }
        let mtu = self.from.mtu;
        let atomic = matches!(opcode, O::CmpSwap | O::FetchAdd);
        let longest = if self.from.kind == Kind::Ud { mtu.min(1024) } else { LONGEST };
        let len = if atomic { 8 } else { length(rng, mtu).min(longest) };
        let mut wr = SendWr::new(opcode, world.id(), &[]);
        let from = rng.random_range(0..=TARGET - len);
        let mut data = world.areas[memory.source].want[from..from + len].to_vec();
        if matches!(opcode, O::Read | O::CmpSwap | O::FetchAdd) {
            wr.sges = world.elements(rng, memory.sink, memory.sink_at, len, 16);
        } else if rng.random_range(0..8) == 0 && len <= 256 {
            data.iter_mut().for_each(|byte| *byte = rng.random());
            wr.inline = Some(data.clone());
        } else {
            wr.sges = world.elements(rng, memory.source, from, len, 16);
        }
        self.remote(rng, world, memory, &mut wr, len, &data);
        wr.signaled = rng.random_range(0..4) != 0;
        wr.solicited = rng.random_range(0..4) == 0;
        wr.fence |= rng.random_range(0..10) == 0;
        if wr.fence {
            memory.pending.clear();
        }
        if opcode == O::Read && len > 0 {
            memory.pending.push((self.place(world, memory, &wr), len));
        }
        if self.from.kind == Kind::Ud {
            let av = vector(world.network.engines[self.to.node].config());
            let ah = world.network.engines[self.from.node].create_ah(PD, av);
            wr = wr.to(ah, self.to.qpn, QKEY);
        }
        if matches!(opcode, O::Send | O::SendImm | O::SendInv | O::WriteImm) {
            self.expect_message(rng, world, memory, &wr, data);
        }
        if wr.signaled {
            self.want_sent.push((wr.wr_id, echoed(opcode), len));
        }
        self.sends.push_back(wr);
    }

    /// Where in the target the request's remote address is.
    fn place(&self, world: &World, memory: &Memory, wr: &SendWr) -> usize {
        wr.remote_va.wrapping_sub(world.areas[memory.target].va) as usize
    }

    /// The remote part of a request, and what it does to memory.
    fn remote(
        &mut self,
        rng: &mut SmallRng,
        world: &mut World,
        memory: &mut Memory,
        wr: &mut SendWr,
        len: usize,
        data: &[u8],
    ) {
        use SendOpcode as O;
        let atomic = matches!(wr.opcode, O::CmpSwap | O::FetchAdd);
        let step = if atomic { 8 } else { 1 };
        let at = rng.random_range(0..=(TARGET - len) / step) * step;
        let target = &mut world.areas[memory.target];
        wr.remote_va = target.va.wrapping_add(at as u64);
        wr.rkey = target.key;
        if !memory.windows.is_empty() && rng.random_range(0..3) == 0 {
            wr.rkey = memory.windows[rng.random_range(0..memory.windows.len())];
        }
        let changes = matches!(wr.opcode, O::Write | O::WriteImm) || atomic;
        if changes && memory.pending.iter().any(|(from, size)| at < from + size && *from < at + len) {
            wr.fence = true;
        }
        match wr.opcode {
            O::Write | O::WriteImm if self.from.kind == Kind::Uc => target.free.push((at, len)),
            O::Write | O::WriteImm => target.want[at..at + len].copy_from_slice(data),
            O::Read => {
                let read = target.want[at..at + len].to_vec();
                world.areas[memory.sink].want[memory.sink_at..][..len].copy_from_slice(&read);
                memory.sink_at += len;
            }
            O::CmpSwap | O::FetchAdd => {
                let bytes: [u8; 8] = target.want[at..at + 8].try_into().unwrap();
                let old = u64::from_le_bytes(bytes);
                wr.compare_add = if rng.random() { old } else { rng.random() };
                wr.swap = rng.random();
                let new = match wr.opcode {
                    O::FetchAdd => old.wrapping_add(wr.compare_add),
                    _ if old == wr.compare_add => wr.swap,
                    _ => old,
                };
                target.want[at..at + 8].copy_from_slice(&new.to_le_bytes());
                world.areas[memory.sink].want[memory.sink_at..][..8].copy_from_slice(&bytes);
                memory.sink_at += 8;
            }
            O::SendInv => {
                // A READ through the window may be asked for again until it is answered.
                wr.imm = memory.windows.remove(rng.random_range(0..memory.windows.len()));
                wr.fence = true;
            }
            _ => {}
        }
        if matches!(wr.opcode, O::SendImm | O::WriteImm) {
            wr.imm = rng.random();
        }
    }

    fn expect_message(
        &mut self,
        rng: &mut SmallRng,
        world: &mut World,
        memory: &mut Memory,
        wr: &SendWr,
        data: Vec<u8>,
    ) {
        use SendOpcode as O;
        let (opcode, imm, invalidated) = match wr.opcode {
            O::SendImm => (CqeOpcode::RecvImm, Some(wr.imm), None),
            O::SendInv => (CqeOpcode::RecvInv, None, Some(wr.imm)),
            O::WriteImm => (CqeOpcode::RecvWriteImm, Some(wr.imm), None),
            _ => (CqeOpcode::Recv, None, None),
        };
        let len = data.len();
        let data = if opcode == CqeOpcode::RecvWriteImm { Vec::new() } else { data };
        if self.to.srq.is_none() {
            let room = match self.from.kind {
                Kind::Rc | Kind::RcSrq => data.len() + rng.random_range(0..20),
                _ => LONGEST,
            };
            let at = memory.inbox_at;
            self.receive(rng, world, memory, room);
            if self.from.kind == Kind::Rc {
                world.areas[memory.inbox].want[at..at + data.len()].copy_from_slice(&data);
            }
        }
        self.messages.push(Message { opcode, data, len, imm, invalidated, solicited: wr.solicited });
    }

    fn receive(&mut self, rng: &mut SmallRng, world: &mut World, memory: &mut Memory, room: usize) {
        let at = memory.inbox_at;
        memory.inbox_at += room;
        let wr = RecvWr { wr_id: world.id(), sges: world.elements(rng, memory.inbox, at, room, 3) };
        self.places.push((wr.wr_id, memory.inbox, at));
        if self.from.kind != Kind::Rc {
            world.areas[memory.inbox].free.push((at, room));
        }
        if self.to.srq.is_some() {
            world.shared.insert((self.to.node, wr.wr_id), (memory.inbox, at));
        }
        self.recvs.push_back(wr);
    }

    /// A window of this end, bound and invalidated again: what nobody uses changes nothing.
    fn bind_and_invalidate(&mut self, rng: &mut SmallRng, world: &mut World, memory: &mut Memory) {
        let area = world.areas[memory.sink].clone();
        let engine = &mut world.network.engines[self.from.node];
        let attr = RegionAttr {
            pd: PD,
            base: area.base,
            va: area.va,
            len: area.want.len() as u64,
            rights: Rights::ALL,
        };
        let lkey = engine.register(attr, None).unwrap();
        let key = engine.alloc_window(PD, None).unwrap() & !0xff | rng.random_range(0..256);
        let bind = Bind { key, lkey, addr: area.va, len: 16, rights: Rights::REMOTE_READ };
        let ids = [world.id(), world.id()];
        self.sends.push_back(SendWr::bind(ids[0], bind));
        self.sends.push_back(SendWr::local_inv(ids[1], key));
        self.want_sent.push((ids[0], CqeOpcode::BindMw, 0));
        self.want_sent.push((ids[1], CqeOpcode::LocalInv, 0));
    }

    /// Posts some of what is left; receives come late now and then, so that peers are told to wait.
    pub fn post_some(&mut self, rng: &mut SmallRng, world: &mut World) {
        let (from, to) = (self.from, self.to);
        for _ in 0..rng.random_range(0..6) {
            let Some(wr) = self.recvs.front().cloned() else { break };
            let engine = &mut world.network.engines[to.node];
            match to.srq {
                Some(srq) => engine.post_srq_recv(srq, wr).unwrap(),
                None => engine.post_recv(to.qpn, wr).unwrap(),
            }
            self.recvs.pop_front();
        }
        // Nobody waits for receives of unreliable services.
        if matches!(from.kind, Kind::Uc | Kind::Ud) && !self.recvs.is_empty() {
            return;
        }
        for _ in 0..rng.random_range(0..8) {
            let Some(wr) = self.sends.front().cloned() else { break };
            match world.network.engines[from.node].post_send(from.qpn, wr) {
                Ok(()) => self.sends.pop_front(),
                Err(Error::Full) => break,
                Err(error) => panic!("{error}"),
            };
        }
    }

    pub fn is_posted(&self) -> bool {
        self.sends.is_empty() && self.recvs.is_empty()
    }

    /// Looks at completions: those of sends at once, in order.
    pub fn collect(&mut self, world: &mut World) {
        world.poll();
        let mine = world.done.entry((self.from.node, self.from.qpn)).or_default();
        let (received, sent) = mine.drain(..).partition::<Vec<_>, _>(|done| done.opcode.is_receive());
        *mine = received;
        for done in sent {
            let want = self.want_sent.get(self.sent);
            let got = (done.wr_id, done.opcode, done.byte_len as usize);
            assert_eq!(want, Some(&got), "send {} of qp {:#x}", self.sent, self.from.qpn);
            self.sent += 1;
        }
        let theirs = world.done.entry((self.to.node, self.to.qpn)).or_default();
        let (received, sent) = theirs.drain(..).partition::<Vec<_>, _>(|done| done.opcode.is_receive());
        *theirs = sent;
        for done in received {
            let n = self.received.len();
            if self.to.srq.is_none() {
                assert_eq!(done.wr_id, self.places[n].0, "receive {n} of qp {:#x}", self.to.qpn);
            }
            self.received.push(done);
        }
    }

    /// When everything is over: all completions are there, and the messages are those that were sent.
    pub fn finish(&mut self, world: &mut World) {
        self.collect(world);
        assert_eq!(self.sent, self.want_sent.len(), "sends of qp {:#x}", self.from.qpn);
        let reliable = matches!(self.from.kind, Kind::Rc | Kind::RcSrq);
        let mut next = 0;
        for (n, done) in self.received.iter().enumerate() {
            let header = if self.from.kind == Kind::Ud { 40 } else { 0 };
            let (area, at) = match self.to.srq {
                None => (self.places[n].1, self.places[n].2),
                // Each receive is used once.
                Some(_) => world.shared.remove(&(self.to.node, done.wr_id)).unwrap(),
            };
            let fits = |message: &Message| {
                let data = world.bytes(area, at + header, message.data.len());
                (done.opcode, done.imm, done.invalidated, done.solicited)
                    == (message.opcode, message.imm, message.invalidated, message.solicited)
                    && done.byte_len as usize == message.len + header
                    && data == message.data
            };
            // What was lost is left out; nothing comes twice or out of order.
            let skip = self.messages[next..].iter().position(fits);
            let Some(skip) = skip else {
                panic!("receive {n} of qp {:#x}: {done:?} is none of the messages left", self.to.qpn)
            };
            assert!(!reliable || skip == 0, "receive {n} of qp {:#x}: {skip} lost", self.to.qpn);
            if header > 0 {
                assert_eq!((done.src_qpn, done.grh), (self.from.qpn, true));
                assert_eq!(world.bytes(area, at, 21)[..], [[0; 20].as_slice(), &[0x45]].concat());
            }
            next += skip + 1;
        }
        assert!(!reliable || next == self.messages.len(), "messages to qp {:#x}", self.to.qpn);
        assert!(self.from.peer == self.to.qpn);
    }
}

/// Windows over all of a target, bound by its owner.
fn bind_windows(world: &mut World, owner: &End, target: usize) -> Vec<u32> {
    let Area { va, key, .. } = world.areas[target];
    let mut keys = Vec::new();
    for tag in 0..WINDOWS as u32 {
        let engine = &mut world.network.engines[owner.node];
        let window = engine.alloc_window(PD, None).unwrap() & !0xff | tag;
        let rights = Rights::REMOTE;
        let bind = Bind { key: window, lkey: key, addr: va, len: TARGET as u64, rights };
        engine.post_send(owner.qpn, SendWr::bind(0, bind).unsignaled()).unwrap();
        keys.push(window);
    }
    world.set_up();
    keys
}

/// Lengths around those where something changes.
fn length(rng: &mut SmallRng, mtu: usize) -> usize {
    match rng.random_range(0..10) {
        0 => 0,
        1 => 1,
        2 => mtu - 1,
        3 => mtu,
        4 => mtu + 1,
        5 => 2 * mtu,
        6 => rng.random_range(0..8),
        7 => rng.random_range(0..5 * mtu),
        _ => rng.random_range(0..2 * mtu),
    }
}

fn echoed(opcode: SendOpcode) -> CqeOpcode {
    CqeOpcode::from_code(opcode.code()).unwrap()
}
