// SPDX-License-Identifier: MIT OR Apache-2.0
//! Send queues.

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, AddressHandle, HostMemory, LocalCause, MemoryRegion, PageSize, ProtectionDomain, QpInitAttr,
    QpState, QueuePair, RecvWr, SendOpcode, SendWr, WcStatus,
};
use ferrowire_sim::pair::Connection;
use ferrowire_spec::queue::send_wqe::{self, ud::SendWqeUd, SendWqe, INLINE_AT};
use ferrowire_spec::queue::WQE_UNIT;
use ferrowire_spec::wire::opcode::Service;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::rig::{all, any, connection, inside, said, Rig, CONFIGS};

/// Bytes of each region.
const SIZE: usize = 8192;

/// The work request that is malformed, and those behind it.
const BAD: u64 = 100;
const BEHIND: u64 = 200;

const WELL: WcStatus = WcStatus::Success;
const FLUSHED: WcStatus = WcStatus::WrFlushErr;

/// How a work request ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Well,
    /// On this side, for one of these causes.
    Here(WcStatus, &'static [LocalCause]),
    /// By the peer's word, one of these.
    There(&'static [WcStatus]),
}

use End::{Here, There, Well};

const UNKNOWN: End = Here(WcStatus::LocQpOpErr, &[LocalCause::WqeOpcode]);
const MISFITS: End = Here(WcStatus::LocQpOpErr, &[LocalCause::WqeSize]);
const TOO_LARGE: End = Here(WcStatus::LocLenErr, &[LocalCause::WqeSize]);
const TOO_LONG: End = Here(WcStatus::LocLenErr, &[LocalCause::Length]);
const NO_WORD: End = Here(WcStatus::LocQpOpErr, &[LocalCause::Alignment]);
const NO_DEPTH: End = Here(WcStatus::LocQpOpErr, &[LocalCause::ReadDepth]);
const NO_HANDLE: End = Here(WcStatus::LocQpOpErr, &[LocalCause::AddressHandle]);
const NO_KEY: End = Here(WcStatus::LocProtErr, &[LocalCause::KeyIndex, LocalCause::KeyTag]);
const NO_DOMAIN: End = Here(WcStatus::LocProtErr, &[LocalCause::KeyPd]);
const NO_RIGHT: End = Here(WcStatus::LocProtErr, &[LocalCause::KeyAccess]);
const OUTSIDE: End = Here(WcStatus::LocProtErr, &[LocalCause::KeyBounds]);
const NO_WINDOW: End = Here(
    WcStatus::MwBindErr,
    &[
        LocalCause::KeyIndex,
        LocalCause::KeyTag,
        LocalCause::KeyPd,
        LocalCause::KeyAccess,
        LocalCause::KeyBounds,
    ],
);

/// A WQE as the card finds it: all its units.
#[derive(Clone, PartialEq)]
pub struct Wqe(pub Vec<u8>);

impl std::fmt::Debug for Wqe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units =
            self.0.chunks(16).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        write!(f, "{}", units.collect::<Vec<_>>().join(" "))
    }
}

impl Wqe {
    fn of(units: usize, first: SendWqe) -> Self {
        let mut all = vec![0; units * WQE_UNIT];
        all[..WQE_UNIT].copy_from_slice(&first.to_bytes().unwrap());
        Wqe(all)
    }

    fn first(&self) -> SendWqe {
        SendWqe::parse(&self.0).unwrap()
    }

    /// SGE `i`: they lie one behind the other.
    pub fn sge(&self, i: usize) -> (u64, u32, u32) {
        let at = &self.0[INLINE_AT + 16 * i..];
        let number = |at: &[u8]| at.iter().rev().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
        (number(&at[..8]), number(&at[8..12]) as u32, number(&at[12..16]) as u32)
    }

    pub fn with_sge(mut self, i: usize, (address, key, bytes): (u64, u32, u32)) -> Self {
        let at = INLINE_AT + 16 * i;
        self.0[at..at + 8].copy_from_slice(&address.to_le_bytes());
        self.0[at + 8..at + 12].copy_from_slice(&key.to_le_bytes());
        self.0[at + 12..at + 16].copy_from_slice(&bytes.to_le_bytes());
        self
    }

    fn change(&self, change: impl FnOnce(&mut SendWqe)) -> Self {
        let (mut wqe, mut first) = (self.clone(), self.first());
        change(&mut first);
        first.emit(&mut wqe.0).unwrap();
        wqe
    }

    fn units(&self) -> usize {
        self.0.len() / WQE_UNIT
    }

    fn total(&self) -> u64 {
        let wqe = self.first();
        match wqe.inline {
            true => wqe.inline_len.into(),
            false => {
                let fits = (1 + 4 * (self.units() - 1)).min(wqe.num_sge.into());
                (0..fits).map(|i| u64::from(self.sge(i).2)).sum()
            }
        }
    }
}

/// Memory of both sides that work requests name.
pub struct Ground {
    /// To send from.
    pub from: MemoryRegion,
    /// For answers.
    sink: MemoryRegion,
    /// Of another domain.
    foreign: MemoryRegion,
    /// The peer's, for everything.
    pub to: MemoryRegion,
    /// The peer's, for receives.
    pub inbox: MemoryRegion,
    pub handle: AddressHandle,
    theirs: AddressHandle,
    _foreigners: ProtectionDomain,
}

impl Ground {
    pub fn new(rig: &mut Rig) -> Self {
        let foreigners = rig.node(0).context.alloc_pd().unwrap();
        let memory = rig.node(0).context.alloc(SIZE, 4096).unwrap();
        let (a, b) = (rig.node(0), rig.node(1));
        let way = a.way(b, &Connection::default());
        let ground = Ground {
            from: a.region(0, SIZE, AccessFlags::LOCAL_READ).unwrap(),
            sink: a.region(0, SIZE, all()).unwrap(),
            foreign: foreigners.register(&memory, all(), PageSize::Size4K).unwrap(),
            to: b.region(0, SIZE, all()).unwrap(),
            inbox: b.region(0, SIZE, AccessFlags::LOCAL_WRITE).unwrap(),
            handle: a.pd.create_ah(&way).unwrap(),
            theirs: foreigners.create_ah(&way).unwrap(),
            _foreigners: foreigners,
        };
        let mut data = vec![0; SIZE];
        SmallRng::seed_from_u64(3).fill_bytes(&mut data);
        ground.from.memory().write(0, &data);
        rig.lets_write(0, ground.sink.memory());
        rig.lets_write(1, ground.to.memory());
        rig.lets_write(1, ground.inbox.memory());
        rig.hides(0, ground.foreign.memory());
        ground
    }

    /// Why an SGE cannot be used, if it cannot.
    fn local(&self, (address, key, bytes): (u64, u32, u32), writes: bool) -> Option<End> {
        let regions = [&self.from, &self.sink, &self.foreign];
        let Some(region) = regions.into_iter().find(|region| region.lkey() == key) else {
            return Some(NO_KEY);
        };
        if key == self.foreign.lkey() {
            return Some(NO_DOMAIN);
        }
        if writes && key == self.from.lkey() {
            return Some(NO_RIGHT);
        }
        (!inside(region, address, bytes.into())).then_some(OUTSIDE)
    }

    /// How a work request ends, as `spec` and the host interface say. `depth`: READs and atomics may be outstanding.
    fn judge(&self, service: Service, depth: bool, wqe: &Wqe) -> End {
        use SendOpcode::*;
        let (first, units) = (wqe.first(), wqe.units());
        let Some(opcode) = SendOpcode::from_code(first.opcode) else { return UNKNOWN };
        let (read, atomic) = (opcode == Read, matches!(opcode, CmpSwap | FetchAdd));
        let local = matches!(opcode, LocalInv | BindMw);
        let has = match service {
            Service::Ud => matches!(opcode, Send | SendImm),
            Service::Uc => !read && !atomic && opcode != SendInv,
            _ => true,
        };
        if !has {
            return UNKNOWN;
        }
        if ((read || atomic) && first.inline) || (local && (first.inline || first.num_sge > 0)) {
            return MISFITS;
        }
        let (sges, bytes) =
            ((4 * units - 3).min(send_wqe::MAX_SGES), (units * WQE_UNIT - INLINE_AT).min(256));
        let fits = match first.inline {
            true => usize::from(first.inline_len) <= bytes,
            false => usize::from(first.num_sge) <= sges,
        };
        if !fits {
            return TOO_LARGE;
        }
        let total = wqe.total();
        if total > if service == Service::Ud { 4096 } else { 1 << 31 } {
            return TOO_LONG;
        }
        if local {
            return NO_WINDOW;
        }
        if atomic && (total != 8 || first.remote_va % 8 != 0) {
            return NO_WORD;
        }
        if (read || atomic) && !depth {
            return NO_DEPTH;
        }
        if service == Service::Ud && SendWqeUd::parse(&wqe.0).unwrap().ah != self.handle.number() {
            return NO_HANDLE;
        }
        let used = if first.inline { 0 } else { usize::from(first.num_sge) };
        let refused = (0..used).map(|i| wqe.sge(i)).filter(|sge| sge.2 > 0);
        if let Some(end) = refused.filter_map(|sge| self.local(sge, read || atomic)).next() {
            return end;
        }
        if service != Service::Rc {
            return Well;
        }
        let granted =
            total == 0 || (first.rkey == self.to.rkey() && inside(&self.to, first.remote_va, total));
        match opcode {
            Send | SendImm if total > SIZE as u64 => There(&[WcStatus::RemInvReqErr]),
            SendInv => There(&[WcStatus::RemInvReqErr, WcStatus::RemAccessErr, WcStatus::RemOpErr]),
            Write | WriteImm | Read | CmpSwap | FetchAdd if !granted => There(&[WcStatus::RemAccessErr]),
            _ => Well,
        }
    }

    /// The bytes that a work request sends.
    fn gathered(&self, wqe: &Wqe) -> Vec<u8> {
        let first = wqe.first();
        if first.inline {
            return wqe.0[INLINE_AT..INLINE_AT + usize::from(first.inline_len)].to_vec();
        }
        let mut data = Vec::new();
        for (address, key, bytes) in (0..first.num_sge.into()).map(|i| wqe.sge(i)).filter(|sge| sge.2 > 0) {
            let region = if key == self.from.lkey() { &self.from } else { &self.sink };
            let mut part = vec![0; bytes as usize];
            region.memory().read((address - region.address()) as usize, &mut part);
            data.extend(part);
        }
        data
    }
}

/// A queue pair with a peer, and its send queue.
pub struct Victim {
    pub qp: QueuePair,
    pub peer: QueuePair,
    pub ring: HostMemory,
    pub units: usize,
}

impl Victim {
    fn new(rig: &Rig, ground: &Ground, case: &Case) -> Self {
        let connection = Connection {
            service: case.service,
            signal_all: case.signal_all,
            rd_atomic: if case.depth { 4 } else { 0 },
            ..connection()
        };
        Self::of(rig, ground, case.units, &connection)
    }

    pub fn of(rig: &Rig, ground: &Ground, units: usize, connection: &Connection) -> Self {
        let (a, b) = (rig.node(0), rig.node(1));
        let mut attr = QpInitAttr::rc(&a.cq, &a.cq);
        (attr.service, attr.sq_sig_all) = (connection.service, connection.signal_all);
        attr.max_send_sge = (4 * units - 3).min(16) as u8;
        let (own, rings) = rig.rings_of(0, || a.pd.create_qp(&attr).unwrap());
        let mut attr = QpInitAttr::rc(&b.cq, &b.cq);
        attr.service = connection.service;
        let theirs = b.pd.create_qp(&attr).unwrap();
        let (qp, mut peer) = rig.pair.bring_up(own, theirs, connection).unwrap();
        let mut batch = peer.start_post_recv();
        (0..8).for_each(|i| batch.post(&RecvWr::new(i, &[ground.inbox.sge(0, SIZE as u32)])).unwrap());
        batch.ring().unwrap();
        Victim { qp, peer, ring: rings[0].clone(), units }
    }

    /// A WQE that is as it should be.
    pub fn sound(&self, ground: &Ground, opcode: SendOpcode) -> Wqe {
        let (datagram, answered) = (
            self.qp.service() == Service::Ud,
            matches!(opcode, SendOpcode::Read | SendOpcode::CmpSwap | SendOpcode::FetchAdd),
        );
        let local = matches!(opcode, SendOpcode::LocalInv | SendOpcode::BindMw);
        let (region, bytes) = match opcode {
            SendOpcode::CmpSwap | SendOpcode::FetchAdd => (&ground.sink, 8),
            _ if answered => (&ground.sink, 1500),
            _ => (&ground.from, 1500),
        };
        let sge = region.sge(512, bytes);
        let way = u64::from(ground.handle.number()) << 32 | u64::from(self.peer.number());
        let first = SendWqe {
            opcode: opcode.code(),
            signaled: true,
            num_sge: u8::from(!local),
            remote_va: if datagram { way } else { ground.to.remote(1024).address },
            rkey: if datagram { 1 << 31 } else { ground.to.rkey() },
            ..SendWqe::default()
        };
        Wqe::of(self.units, first).with_sge(0, (sge.address, sge.lkey, sge.bytes))
    }

    /// Posts `many` sound work requests, the WQE in their middle, and as many behind it.
    fn post(&mut self, ground: &Ground, wqe: &Wqe, many: usize) {
        let datagram = self.qp.service() == Service::Ud;
        let (peer, sges) = (self.peer.number(), [ground.from.sge(64, 100)]);
        let good = |id: u64| match datagram {
            true => SendWr::send(id, &sges).to(&ground.handle, peer, 1 << 31).signaled(),
            false => SendWr::write(id, &sges, ground.to.remote(8000)).signaled(),
        };
        let mut batch = self.qp.start_post_send();
        (0..many).for_each(|i| batch.post(&good(i as u64)).unwrap());
        batch.post(&good(BAD)).unwrap();
        self.ring.write(many * self.units * WQE_UNIT, &wqe.0);
        (0..many).for_each(|i| batch.post(&good(BEHIND + i as u64)).unwrap());
        batch.ring().unwrap();
    }
}

/// How a test plays a WQE.
struct Case {
    service: Service,
    units: usize,
    depth: bool,
    signal_all: bool,
    many: usize,
}

/// One queue pair with one such WQE: it ends as it should, whatever it is, and nobody else finds out.
fn play(rig: &mut Rig, ground: &Ground, case: &Case, what: &str, make: impl FnOnce(&Victim) -> Wqe) -> End {
    let Case { service, depth, signal_all, many, .. } = *case;
    let mut victim = Victim::new(rig, ground, case);
    let wqe = make(&victim);
    let end = ground.judge(service, depth, &wqe);
    let (first, opcode) = (wqe.first(), SendOpcode::from_code(wqe.first().opcode));
    let sent = (end == Well).then(|| ground.gathered(&wqe));
    ground.inbox.memory().fill(0, SIZE, 0);
    victim.post(ground, &wqe, many);
    let silent = end == Well && !signal_all && !first.signaled;
    let ends = rig.ends(0, 2 * many + usize::from(!silent));
    let what = format!("{what}: {service}, {wqe:?}, {end:?}");
    assert!(ends.iter().all(|done| done.qpn() == victim.qp.number()), "{what}: {ends:?}");
    let ends: Vec<_> = ends.iter().map(said).collect();
    let (before, rest) = ends.split_at(many);
    assert!((0..).zip(before).all(|(i, end)| *end == (i, WELL, 0)), "{what}: {ends:?}");
    let (own, behind) = rest.split_at(usize::from(!silent));
    if let Some((id, status, syndrome)) = own.first() {
        let right = match end {
            Well => *status == WELL,
            Here(wanted, causes) => *status == wanted && causes.iter().any(|cause| cause.code() == *syndrome),
            There(wanted) => wanted.contains(status),
        };
        assert!(right && *id == BAD, "{what}: {ends:?}");
    }
    let follows = if end == Well { WELL } else { FLUSHED };
    assert!((BEHIND..).zip(behind).all(|(id, end)| *end == (id, follows, 0)), "{what}: {ends:?}");
    let state = match (end, service) {
        (Well, _) => QpState::Rts,
        (_, Service::Rc) => QpState::Err,
        _ => QpState::Sqe,
    };
    assert_eq!(victim.qp.query().unwrap().state, state, "{what}");
    rig.others_go_on();
    if let Some(sent) = sent.filter(|_| service != Service::Ud) {
        use SendOpcode::*;
        let (mut got, bytes) = (vec![0; sent.len()], sent.len() as u64);
        match opcode.unwrap() {
            Write | WriteImm
                if first.rkey == ground.to.rkey() && inside(&ground.to, first.remote_va, bytes) =>
            {
                ground.to.memory().read((first.remote_va - ground.to.address()) as usize, &mut got);
                assert!(got == sent, "{what}: other bytes were written");
            }
            Send | SendImm | SendInv if sent.len() <= SIZE => {
                ground.inbox.memory().read(0, &mut got);
                assert!(got == sent, "{what}: other bytes were received");
            }
            _ => {}
        }
    }
    drop(victim);
    rig.ends = Default::default();
    end
}

/// What is wrong with it, how it ends, and the WQE.
type Wrong = (&'static str, End, fn(&Ground, &Victim) -> Wqe);

const RC: Case = Case { service: Service::Rc, units: 2, depth: true, signal_all: false, many: 3 };

fn send(ground: &Ground, victim: &Victim) -> Wqe {
    victim.sound(ground, SendOpcode::Send)
}

fn write(ground: &Ground, victim: &Victim) -> Wqe {
    victim.sound(ground, SendOpcode::Write)
}

fn read(ground: &Ground, victim: &Victim) -> Wqe {
    victim.sound(ground, SendOpcode::Read)
}

fn add(ground: &Ground, victim: &Victim) -> Wqe {
    victim.sound(ground, SendOpcode::FetchAdd)
}

/// Its SGE is another.
fn at(wqe: Wqe, sge: (u64, u32, u32)) -> Wqe {
    wqe.with_sge(0, sge)
}

fn of(region: &MemoryRegion, offset: i64, bytes: u32) -> (u64, u32, u32) {
    (region.address().wrapping_add_signed(offset), region.lkey(), bytes)
}

/// Of slots of two units.
const WRONG: &[Wrong] = &[
    ("an opcode behind the last", UNKNOWN, |g, v| send(g, v).change(|w| w.opcode = 10)),
    ("no opcode", UNKNOWN, |g, v| send(g, v).change(|w| w.opcode = 0xff)),
    ("an opcode of receives", UNKNOWN, |g, v| send(g, v).change(|w| w.opcode = 0x80)),
    ("an opcode with a bit more", UNKNOWN, |g, v| write(g, v).change(|w| w.opcode |= 0x40)),
    ("one SGE too many", TOO_LARGE, |g, v| send(g, v).change(|w| w.num_sge = 6)),
    ("all SGEs there can be", TOO_LARGE, |g, v| write(g, v).change(|w| w.num_sge = 16)),
    ("more SGEs than there can be", TOO_LARGE, |g, v| write(g, v).change(|w| w.num_sge = 17)),
    ("SGEs that are few modulo 16", TOO_LARGE, |g, v| read(g, v).change(|w| w.num_sge = 0x21)),
    ("SGEs that are one modulo 128", TOO_LARGE, |g, v| write(g, v).change(|w| w.num_sge = 0x81)),
    ("SGEs without end", TOO_LARGE, |g, v| write(g, v).change(|w| w.num_sge = 0xff)),
    ("a byte too many inline", TOO_LARGE, |g, v| {
        write(g, v).change(|w| (w.inline, w.num_sge, w.inline_len) = (true, 0, 81))
    }),
    ("more inline than any slot has", TOO_LARGE, |g, v| {
        send(g, v).change(|w| (w.inline, w.num_sge, w.inline_len) = (true, 0, 257))
    }),
    ("inline data without end", TOO_LARGE, |g, v| {
        send(g, v).change(|w| (w.inline, w.num_sge, w.inline_len) = (true, 0, 0xffff))
    }),
    ("inline data that are few modulo 256", TOO_LARGE, |g, v| {
        write(g, v).change(|w| (w.inline, w.num_sge, w.inline_len) = (true, 0, 0x1010))
    }),
    ("an inline READ", MISFITS, |g, v| read(g, v).change(|w| (w.inline, w.inline_len) = (true, 16))),
    ("an inline atomic", MISFITS, |g, v| add(g, v).change(|w| (w.inline, w.inline_len) = (true, 8))),
    ("an atomic of 7 bytes", NO_WORD, |g, v| at(add(g, v), of(&g.sink, 0, 7))),
    ("an atomic of 16 bytes", NO_WORD, |g, v| at(add(g, v), of(&g.sink, 0, 16))),
    ("an atomic of nothing", NO_WORD, |g, v| add(g, v).change(|w| w.num_sge = 0)),
    ("an atomic between two words", NO_WORD, |g, v| add(g, v).change(|w| w.remote_va += 4)),
    ("an invalidation of nothing that is bound", NO_WINDOW, |g, v| {
        v.sound(g, SendOpcode::LocalInv).change(|w| w.imm = g.sink.lkey())
    }),
    ("an invalidation with an SGE", MISFITS, |g, v| {
        v.sound(g, SendOpcode::LocalInv).change(|w| w.num_sge = 1)
    }),
    ("a bind of no window", NO_WINDOW, |g, v| v.sound(g, SendOpcode::BindMw)),
    ("a bind of a region", NO_WINDOW, |g, v| {
        v.sound(g, SendOpcode::BindMw).change(|w| w.imm = g.from.lkey())
    }),
    ("an inline bind", MISFITS, |g, v| v.sound(g, SendOpcode::BindMw).change(|w| w.inline = true)),
    ("another tag", NO_KEY, |g, v| at(write(g, v), (g.from.address(), g.from.lkey() ^ 1, 8))),
    ("a key behind the last", NO_KEY, |g, v| at(send(g, v), (g.from.address(), !0xff | g.from.lkey(), 8))),
    ("another domain's key", NO_DOMAIN, |g, v| at(write(g, v), of(&g.foreign, 0, 8))),
    ("another domain's key for an answer", NO_DOMAIN, |g, v| at(read(g, v), of(&g.foreign, 0, 8))),
    ("an answer where nothing may be written", NO_RIGHT, |g, v| at(read(g, v), of(&g.from, 0, 8))),
    ("a byte before the region", OUTSIDE, |g, v| at(write(g, v), of(&g.from, -1, 2))),
    ("a byte behind the region", OUTSIDE, |g, v| at(write(g, v), of(&g.from, SIZE as i64 - 1, 2))),
    ("an answer a byte behind the region", OUTSIDE, |g, v| at(read(g, v), of(&g.sink, SIZE as i64 - 1, 2))),
    ("an SGE round the end of all addresses", OUTSIDE, |g, v| at(write(g, v), (!7, g.from.lkey(), 16))),
    ("an SGE from the end of all addresses", OUTSIDE, |g, v| {
        let (address, key, _) = of(&g.from, 0, 0);
        at(write(g, v), (address | 1 << 63, key, 8))
    }),
    ("the longest SGE", OUTSIDE, |g, v| at(write(g, v), of(&g.from, 0, 1 << 31))),
    ("the longest answer", OUTSIDE, |g, v| at(read(g, v), of(&g.sink, 0, 1 << 31))),
    ("its fifth SGE of nobody", NO_KEY, |g, v| {
        let wqe = write(g, v).change(|w| w.num_sge = 5);
        let wqe = (1..4).fold(wqe, |wqe, i| wqe.with_sge(i, of(&g.from, 0, 300)));
        wqe.with_sge(4, (0, 0xdead_be00, 8))
    }),
    ("SGEs of nobody that hold nothing", Well, |g, v| {
        let wqe = write(g, v).change(|w| w.num_sge = 5);
        (1..5).fold(wqe, |wqe, i| wqe.with_sge(i, (!0, 0xdead_be00, 0)))
    }),
    ("reserved bits", Well, |g, v| {
        write(g, v).change(|w| {
            (w.rsvd_flags, w.rsvd_size, w.rsvd0, w.rsvd1) = (0xf, 0xff, !0, (1 << 48) - 1);
        })
    }),
    ("operands of an atomic in a WRITE", Well, |g, v| {
        write(g, v).change(|w| (w.compare_add, w.swap, w.inline_len) = (!0, !0, !0))
    }),
    ("a peer's key of nobody", There(&[WcStatus::RemAccessErr]), |g, v| write(g, v).change(|w| w.rkey ^= 1)),
    ("a byte behind the peer's region", There(&[WcStatus::RemAccessErr]), |g, v| {
        read(g, v).change(|w| w.remote_va = g.to.address() + SIZE as u64 - 1499)
    }),
    ("round the end of the peer's addresses", There(&[WcStatus::RemAccessErr]), |g, v| {
        write(g, v).change(|w| w.remote_va = !99)
    }),
];

#[test]
fn a_malformed_send_ends_with_its_cause_and_disturbs_nobody() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config);
        let ground = Ground::new(&mut rig);
        for (what, end, make) in WRONG {
            let what = format!("{config}, {what}");
            let judged = play(&mut rig, &ground, &RC, &what, |victim| make(&ground, victim));
            assert_eq!(judged, *end, "{what}: the test contradicts itself");
        }
        // The only ones that need another queue pair.
        let no_depth = Case { depth: false, ..RC };
        for opcode in [SendOpcode::Read, SendOpcode::CmpSwap, SendOpcode::FetchAdd] {
            let end = play(&mut rig, &ground, &no_depth, config, |victim| victim.sound(&ground, opcode));
            assert_eq!(end, NO_DEPTH, "{config}: {opcode}");
        }
        let ud = Case { service: Service::Ud, ..RC };
        for (number, end) in [
            (ground.handle.number(), Well),
            (ground.theirs.number(), NO_HANDLE),
            (ground.handle.number() | 1 << 16, NO_HANDLE),
            (!0, NO_HANDLE),
        ] {
            let found = play(&mut rig, &ground, &ud, config, |victim| {
                let way = u64::from(number) << 32 | u64::from(victim.peer.number());
                send(&ground, victim).change(|w| w.remote_va = way)
            });
            assert_eq!(found, end, "{config}: handle {number:#x}");
        }
        println!("{config}: {} messages of others", rig.others());
    }
}

/// A sound WQE of which some fields are others.
pub fn mutant(rng: &mut SmallRng, ground: &Ground, victim: &Victim) -> Wqe {
    let room = 4 * victim.units - 3;
    loop {
        let mut wqe = victim.sound(ground, any(rng, SendOpcode::ALL));
        if rng.random_bool(0.5) {
            let local = wqe.first().num_sge == 0;
            let count = rng.random_range(1..=room.min(16));
            if !local && wqe.first().opcode < SendOpcode::CmpSwap.code() {
                wqe = wqe.change(|w| w.num_sge = count as u8);
                let (address, key, bytes) = wqe.sge(0);
                wqe = (0..count).fold(wqe, |wqe, i| wqe.with_sge(i, (address, key, bytes / count as u32)));
            }
        }
        for _ in 0..rng.random_range(1..4) {
            let i = rng.random_range(0..room.min(16));
            let (address, key, bytes) = wqe.sge(i);
            let region = any(rng, &[&ground.from, &ground.sink, &ground.foreign]);
            wqe = match rng.random_range(0..12) {
                0 => wqe.change(|w| w.opcode = rng.random_range(0..12)),
                1 => wqe.change(|w| w.opcode = rng.random()),
                2 => wqe.change(|w| {
                    w.num_sge = any(rng, &[0, 1, 2, 4, 5, 6, 13, 14, 16, 17, 32, 33, 0x80, 0xff])
                }),
                3 => wqe.change(|w| (w.inline, w.num_sge) = (true, 0)),
                4 => wqe.change(|w| {
                    w.inline_len = any(rng, &[0, 1, 16, 17, 80, 81, 208, 209, 256, 257, 0x100f, !0])
                }),
                5 => wqe.change(|w| (w.signaled, w.solicited, w.fence) = rng.random()),
                6 => wqe.change(|w| {
                    (w.rsvd_flags, w.rsvd_size) = (rng.random_range(0..16), rng.random());
                    (w.rsvd0, w.rsvd1) = (rng.random(), rng.random::<u64>() >> 16);
                }),
                7 => wqe.change(|w| {
                    let near = ground.to.address().wrapping_add_signed(rng.random_range(-9..SIZE as i64 + 9));
                    w.remote_va = any(rng, &[0, near, near & !7, !0, w.remote_va ^ 1 << 40]);
                }),
                8 => wqe.change(|w| w.rkey = any(rng, &[w.rkey ^ 1, w.rkey ^ 0x300, ground.inbox.rkey()])),
                9 => {
                    let offset = any(rng, &[-1, 0, 1, 4000, SIZE as i64 - 8, SIZE as i64 - 1, SIZE as i64]);
                    wqe.with_sge(i, (region.address().wrapping_add_signed(offset), region.lkey(), bytes))
                }
                10 => wqe.with_sge(i, (address, any(rng, &[key ^ 1, !0, region.lkey()]), bytes)),
                _ => wqe
                    .with_sge(i, (address, key, any(rng, &[0, 1, 7, 8, 4096, 8192, 8193, 1 << 20, 1 << 27]))),
            };
        }
        // As anybody's peer the queue pair number is not known to be nobody's.
        let astray =
            victim.qp.service() == Service::Ud && wqe.first().remote_va as u32 != victim.peer.number();
        if !astray {
            return wqe;
        }
    }
}

#[test]
fn a_message_longer_than_two_to_the_31_bytes_is_too_long() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config);
        let ground = Ground::new(&mut rig);
        // The second and the third come to nothing, or to little, modulo 2^32.
        for lengths in [[1 << 31, 1, 0], [1 << 31, 1 << 31, 0], [1 << 31, 1 << 31, 100], [!0, !0, !0]] {
            for opcode in [SendOpcode::Send, SendOpcode::Write, SendOpcode::Read] {
                let end = play(&mut rig, &ground, &RC, config, |victim| {
                    let wqe = victim.sound(&ground, opcode).change(|w| w.num_sge = 3);
                    let (address, key, _) = wqe.sge(0);
                    (0..3).fold(wqe, |wqe, i| wqe.with_sge(i, (address, key, lengths[i])))
                });
                assert_eq!(end, TOO_LONG, "{config}: {lengths:?}");
            }
        }
    }
}

#[test]
fn random_malformations_end_as_they_should_and_disturb_nobody() {
    for (config, seed) in chosen!([("generic-8b", 1), ("generic-64b", 2)]) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut rig = Rig::new(config);
        let ground = Ground::new(&mut rig);
        let mut bad = 0;
        for round in 0..80 {
            let case = Case {
                service: any(&mut rng, &[Service::Rc, Service::Rc, Service::Uc, Service::Ud]),
                units: any(&mut rng, &[1, 2, 4, 8]),
                depth: rng.random_bool(0.8),
                signal_all: rng.random(),
                many: rng.random_range(1..6),
            };
            let what = format!("{config}, seed {seed}, round {round}");
            let make = |victim: &Victim| mutant(&mut rng, &ground, victim);
            bad += usize::from(play(&mut rig, &ground, &case, &what, make) != Well);
        }
        assert!((30..75).contains(&bad), "{config}, seed {seed}: {bad} were bad");
    }
}

#[test]
fn random_bytes_end_their_queue_pair_and_disturb_nobody() {
    for (config, seed) in chosen!([("generic-8b", 3), ("generic-64b", 4)]) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut rig = Rig::new(config);
        let ground = Ground::new(&mut rig);
        for round in 0..30 {
            let service = any(&mut rng, &[Service::Rc, Service::Uc, Service::Ud]);
            let case = Case { service, units: any(&mut rng, &[1, 2, 4, 8]), many: 2, ..RC };
            let what = format!("{config}, seed {seed}, round {round}");
            play(&mut rig, &ground, &case, &what, |victim| loop {
                let mut wqe = Wqe(vec![0; victim.units * WQE_UNIT]);
                rng.fill_bytes(&mut wqe.0);
                // Most opcodes are none.
                if round % 3 > 0 {
                    wqe.0[0] %= 10;
                }
                if round % 3 > 1 {
                    wqe.0[2] %= 17;
                }
                // What could go anywhere may not be what this test has the judgement for.
                let end = ground.judge(service, true, &wqe);
                if end != Well && wqe.total() <= 1 << 31 {
                    return wqe;
                }
            });
        }
    }
}
