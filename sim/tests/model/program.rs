// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs, and what must come of them.
//!
//! Each queue pair has two flows, one for each direction. A flow writes down what each of its work requests does to memory
//! when it is made; reliable connections must then end exactly so. What could end in more than one way is kept out of a
//! program: memory that an unanswered READ may still be asked for again is changed only behind a fence.

use std::collections::VecDeque;

use ferrowire_sim::model::{Bind, Completion, Error, QpAttr, RecvWr, RegionAttr, Rights, SendWr, WindowType};
use ferrowire_spec::queue::cqe::{CqeOpcode, WcStatus};
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::QpState;
use rand::rngs::SmallRng;
use rand::Rng as _;

use super::world::{Area, End, Kind, World, LONGEST, PD, QKEY, TARGET};

/// Windows over each target.
const WINDOWS: usize = 3;

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
    sends: VecDeque<SendWr>,
    recvs: VecDeque<RecvWr>,
    want_sent: Vec<(u64, CqeOpcode, usize)>,
    messages: Vec<Message>,
    sent: usize,
    received: Vec<Completion>,
    /// Where the n-th receive is: its number, area, offset.
    places: Vec<(u64, usize, usize)>,
    /// The queue pair is in SQD.
    paused: bool,
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
            paused: false,
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
            let av = world.vector(self.to.node);
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
        let wr = RecvWr::new(world.id(), &world.elements(rng, memory.inbox, at, room, 3));
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
            page: 1,
        };
        let lkey = engine.register(attr, None).unwrap();
        let key =
            engine.alloc_window(PD, WindowType::default(), None).unwrap() & !0xff | rng.random_range(0..256);
        let bind = Bind {
            key,
            lkey,
            addr: area.va,
            len: 16,
            rights: Rights::REMOTE_READ,
            kind: WindowType::default(),
        };
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
        self.sends.is_empty() && self.recvs.is_empty() && !self.paused
    }

    /// Drains the send queue now and then, and goes on later.
    pub fn pause_or_go_on(&mut self, rng: &mut SmallRng, world: &mut World) {
        if rng.random_range(0..if self.paused { 4 } else { 40 }) == 0 {
            self.paused = !self.paused && !self.sends.is_empty();
            let state = if self.paused { QpState::Sqd } else { QpState::Rts };
            world.network.engines[self.from.node].modify_qp(self.from.qpn, &QpAttr::to(state)).unwrap();
        }
    }

    /// Posts a WRITE with a key that is none, and more behind it.
    pub fn post_a_mistake(&self, world: &mut World, target: u64, key: u32) {
        for i in 0..4 {
            let wr = SendWr::write(i, &[], target, key).with_inline(&[i as u8; 8]).unsignaled();
            world.network.engines[self.from.node].post_send(self.from.qpn, wr).unwrap();
        }
    }

    /// What the mistake must have come to: an error, and the rest flushed.
    pub fn finish_mistake(&self, world: &mut World, done: &[Completion]) {
        let mine = done.iter().filter(|done| done.qpn == self.from.qpn && !done.opcode.is_receive());
        let mine: Vec<_> = mine.map(|done| (done.wr_id, done.status)).collect();
        let flushed = [1, 2, 3].map(|i| (i, WcStatus::WrFlushErr));
        // The NAK may be lost, and then a peer in error says no more.
        let first = [WcStatus::RemAccessErr, WcStatus::RetryExcErr].map(|status| (0, status));
        assert!(first.contains(&mine[0]) && mine[1..] == flushed, "{mine:?}");
        for end in [self.from, self.to] {
            assert_eq!(world.network.engines[end.node].state(end.qpn), Some(QpState::Err));
        }
    }

    /// Whether it is reliable.
    pub fn is_reliable(&self) -> bool {
        matches!(self.from.kind, Kind::Rc | Kind::RcSrq)
    }

    /// The engine that sends.
    pub fn node(&self) -> usize {
        self.from.node
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
                let version = world.bytes(area, at, 40);
                assert!(version[0] >> 4 == 6 || version[..21] == [[0; 20].as_slice(), &[0x45]].concat());
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
        let window = engine.alloc_window(PD, WindowType::default(), None).unwrap() & !0xff | tag;
        let rights = Rights::REMOTE;
        let bind = Bind {
            key: window,
            lkey: key,
            addr: va,
            len: TARGET as u64,
            rights,
            kind: WindowType::default(),
        };
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
