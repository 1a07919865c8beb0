// SPDX-License-Identifier: MIT OR Apache-2.0
//! One rule a test; the two ends and the wire between them are in the test's hands.

mod errors;
mod hostile;
mod loss;
mod queues;
mod raw;
mod rc;
mod reads;
mod selective;
mod selective_soak;
mod ud;
mod windows;

use std::net::IpAddr;

use ferrowire_spec::queue::cqe::{CqeOpcode, WcStatus};
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::{Aeth, Frame, Opcode};
use ferrowire_spec::{Psn, QpState};

use super::engine::{Config, Engine};
use super::keys::RegionAttr;
use super::qp::{QpAttr, QpInit};
use super::types::{AddressVector, Completion, Instant, RecvWr, Rights, Sge};

const PD: u32 = 3;
const MTU: usize = 256;
const AREA: u64 = 16 * 1024;
/// First PSN of each end.
const PSN: [u32; 2] = [0x100, 0x800];
const QKEY: u32 = 0x1122_3344;

/// An end: an engine, a queue pair, and a region with all rights.
struct End {
    engine: Engine,
    qpn: u32,
    cq: u32,
    key: u32,
    va: u64,
}

impl End {
    fn sge(&self, at: u64, len: usize) -> Sge {
        Sge { addr: self.va + at, lkey: self.key, len: len as u32 }
    }

    fn recv(&mut self, wr_id: u64, at: u64, len: usize) {
        let wr = RecvWr::new(wr_id, &[self.sge(at, len)]);
        self.engine.post_recv(self.qpn, wr).unwrap();
    }

    fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        self.engine.memory().get(0x10_0000 + at, len as u64).unwrap().to_vec()
    }

    fn fill(&mut self, at: u64, bytes: &[u8]) {
        let place = self.engine.memory_mut().get_mut(0x10_0000 + at, bytes.len() as u64);
        place.unwrap().copy_from_slice(bytes);
    }

    /// Another region over the same memory.
    fn region(&mut self, pd: u32, rights: Rights) -> u32 {
        let attr = RegionAttr { pd, base: 0x10_0000, va: self.va, len: AREA, rights, page: 1 };
        self.engine.register(attr, None).unwrap()
    }

    fn done(&mut self) -> Option<Completion> {
        self.engine.poll_cq(self.cq)
    }

    /// All completions: numbers and statuses.
    fn all_done(&mut self) -> Vec<(u64, WcStatus)> {
        std::iter::from_fn(|| self.done()).map(|done| (done.wr_id, done.status)).collect()
    }

    fn state(&self) -> QpState {
        self.engine.state(self.qpn).unwrap()
    }

    fn events(&mut self) -> Vec<ferrowire_spec::queue::event::EventKind> {
        std::iter::from_fn(|| self.engine.poll_event()).map(|event| event.kind).collect()
    }
}

/// What a pair is like, besides the usual.
#[derive(Clone, Copy)]
struct Options {
    service: Service,
    v6: bool,
    vlan: Option<u16>,
    timeout: u8,
    retries: u8,
    rnr_retries: u8,
    depth: u8,
    credits: bool,
    line_rate: Option<u64>,
    access: Rights,
    selective: bool,
    mtu: usize,
    reorder_buffer: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            service: Service::Rc,
            v6: false,
            vlan: None,
            timeout: 10,
            retries: 3,
            rnr_retries: 2,
            depth: 2,
            credits: false,
            line_rate: None,
            access: Rights::REMOTE,
            selective: false,
            mtu: MTU,
            reorder_buffer: 1 << 20,
        }
    }
}

/// Two ends. `a` asks, `b` answers, in most tests.
struct Pair {
    a: End,
    b: End,
    now: Instant,
}

fn address(n: u8, v6: bool) -> IpAddr {
    match v6 {
        true => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(n)]),
        false => IpAddr::from([10, 0, 0, n]),
    }
}

fn end(n: u8, options: &Options) -> End {
    let Options { credits, line_rate, selective, reorder_buffer, .. } = *options;
    let new = Config::new(u64::from(n), address(n, options.v6));
    let config = Config { credits, line_rate, selective, reorder_buffer, ..new };
    let mut engine = Engine::new(config);
    let bytes = (0..AREA).map(|i| (i * 7 + i / 256 + u64::from(n)) as u8).collect();
    engine.memory_mut().map(0x10_0000, bytes);
    let va = 0x7000_0000_0000;
    let attr = RegionAttr { pd: PD, base: 0x10_0000, va, len: AREA, rights: Rights::ALL, page: 1 };
    let key = engine.register(attr, None).unwrap();
    let cq = engine.create_cq(1024);
    let qpn = engine.create_qp(QpInit::new(options.service, PD, cq)).unwrap();
    End { engine, qpn, cq, key, va }
}

fn vector(n: u8, options: &Options) -> AddressVector {
    AddressVector { vlan: options.vlan, ..AddressVector::new(n.into(), address(n, options.v6)) }
}

/// Attributes for RTR and RTS of the end with number `n`, towards queue pair `peer` of the other.
fn steps(n: u8, peer: u32, options: &Options) -> [QpAttr; 3] {
    let (connected, reliable) = (options.service != Service::Ud, options.service == Service::Rc);
    let (own, other) = (PSN[usize::from(n) - 1], PSN[2 - usize::from(n)]);
    [
        QpAttr {
            access: connected.then_some(options.access),
            pkey: Some(0xffff),
            qkey: (!connected).then_some(QKEY),
            ..QpAttr::to(QpState::Init)
        },
        QpAttr {
            av: connected.then(|| vector(3 - n, options)),
            path_mtu: connected.then_some(options.mtu),
            dest_qpn: connected.then_some(peer),
            rq_psn: connected.then_some(Psn::new(other)),
            max_dest_rd_atomic: reliable.then_some(options.depth),
            min_rnr_timer: reliable.then_some(14),
            selective: options.selective.then_some(true),
            ..QpAttr::to(QpState::Rtr)
        },
        QpAttr {
            sq_psn: Some(Psn::new(own)),
            timeout: reliable.then_some(options.timeout),
            retry_cnt: reliable.then_some(options.retries),
            rnr_retry: reliable.then_some(options.rnr_retries),
            max_rd_atomic: reliable.then_some(options.depth),
            ..QpAttr::to(QpState::Rts)
        },
    ]
}

impl Pair {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn of(service: Service) -> Self {
        Self::with(Options { service, ..Options::default() })
    }

    fn with(options: Options) -> Self {
        let (mut a, mut b) = (end(1, &options), end(2, &options));
        for (n, end, peer) in [(1, &mut a, b.qpn), (2, &mut b, 0x10)] {
            for attr in steps(n, peer, &options) {
                end.engine.modify_qp(end.qpn, &attr).unwrap();
            }
        }
        Self { a, b, now: 0 }
    }

    /// All that `a` has to send now.
    fn a_sends(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.a.engine.poll_transmit(self.now)).collect()
    }

    /// All that `b` has to send now.
    fn b_sends(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.b.engine.poll_transmit(self.now)).collect()
    }

    fn a_gets(&mut self, frames: &[Vec<u8>]) {
        frames.iter().for_each(|frame| self.a.engine.handle_frame(self.now, frame));
    }

    fn b_gets(&mut self, frames: &[Vec<u8>]) {
        frames.iter().for_each(|frame| self.b.engine.handle_frame(self.now, frame));
    }

    /// Frames go to and fro until there are no more.
    fn run(&mut self) {
        loop {
            let (asked, answered) = (self.a_sends(), self.b_sends());
            if asked.is_empty() && answered.is_empty() {
                return;
            }
            self.b_gets(&asked);
            self.a_gets(&answered);
        }
    }

    /// The next deadline of `a` comes; gives how long it took.
    fn wait(&mut self) -> Option<Instant> {
        let deadline = self.a.engine.poll_timeout()?;
        let took = deadline - self.now;
        self.now = deadline;
        self.a.engine.handle_timeout(self.now);
        Some(took)
    }

    /// Sends what `a` has, and gives what `b` answers.
    fn answers(&mut self) -> Vec<Vec<u8>> {
        let asked = self.a_sends();
        self.b_gets(&asked);
        self.b_sends()
    }
}

/// Opcodes and PSNs.
fn packets(frames: &[Vec<u8>]) -> Vec<(Opcode, u32)> {
    let packet = |frame: &Vec<u8>| {
        let frame = Frame::parse(frame).unwrap();
        (frame.opcode().unwrap(), frame.bth.psn)
    };
    frames.iter().map(packet).collect()
}

/// PSN, syndrome and message number of an answer.
fn aeth(frame: &[u8]) -> (u32, u8, u32) {
    let frame = Frame::parse(frame).unwrap();
    let Aeth { syndrome, msn } = frame.ext.aeth.unwrap();
    (frame.bth.psn, syndrome, msn)
}

/// A frame, changed and sealed again.
fn changed(frame: &[u8], change: impl FnOnce(&mut Frame<'_>)) -> Vec<u8> {
    let mut frame = Frame::parse(frame).unwrap();
    change(&mut frame);
    frame.seal().unwrap();
    let mut bytes = vec![0; frame.len()];
    frame.emit(&mut bytes).unwrap();
    bytes
}

/// An answer of `b`'s queue pair to `a`'s, made up.
fn answer(pair: &Pair, template: &[u8], psn: u32, syndrome: u8, msn: u32) -> Vec<u8> {
    let _ = pair;
    changed(template, |frame| {
        frame.bth.psn = psn;
        frame.ext.aeth = Some(Aeth { syndrome, msn });
    })
}

fn ok(wr_id: u64) -> (u64, WcStatus) {
    (wr_id, WcStatus::Success)
}

fn flushed(wr_id: u64) -> (u64, WcStatus) {
    (wr_id, WcStatus::WrFlushErr)
}

/// The kind and length of a completion that went well.
fn good(done: Option<Completion>) -> (CqeOpcode, u32) {
    let done = done.unwrap();
    assert!(done.is_success(), "{done:?}");
    (done.opcode, done.byte_len)
}
