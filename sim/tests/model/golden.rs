// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captured conversations of two Linux machines, with the reference engine as either end.
//!
//! Frames are compared by the rules of the replay of cards, completions with the log, memory with the logged sums. Engine and
//! peer send at most one frame each in a slot of time, as on a wire with two directions; when neither has anything to send,
//! the time of the engine's next deadline comes.

use std::path::{Path, PathBuf};

use ferrowire_sim::model::{
    AddressVector, Bind, Completion, Config, Engine, QpAttr, QpInit, RecvWr, RegionAttr, Rights, SendWr, Sge,
    WindowType,
};
use ferrowire_sim::replay::compare::{self, Difference, Place};
use ferrowire_sim::replay::log::Line;
use ferrowire_sim::replay::memory;
use ferrowire_sim::replay::peer::Peer;
use ferrowire_sim::replay::play::{compare_completions, expected_completions};
use ferrowire_sim::replay::scenario::{Case, End, Role};
use ferrowire_sim::replay::trace::Trace;
use ferrowire_sim::replay::{load, Loaded, Roles};
use ferrowire_sim::wire::encoded;
use ferrowire_spec::queue::cqe::{Cqe, CqeOpcode};
use ferrowire_spec::wire::eth::mac_number;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::syndrome::Syndrome;
use ferrowire_spec::wire::Frame;
use ferrowire_spec::{Psn, QpState};

const PD: u32 = 1;
/// Where the host has the memory of the case.
const BASE: u64 = 0x10_0000;
const SLOT: u64 = 100;

struct Run<'a> {
    case: &'a Case,
    trace: &'a Trace,
    role: Role,
    engine: Engine,
    qpn: u32,
    cq: u32,
    key: u32,
    va: u64,
    frames: Vec<Vec<u8>>,
    completions: Vec<Completion>,
}

fn mac(end: &End) -> u64 {
    mac_number(end.mac)
}

fn vector(case: &Case, end: &End) -> AddressVector {
    AddressVector {
        mac: mac(end),
        ip: end.ip,
        traffic_class: case.traffic_class,
        hop_limit: case.hop_limit,
        flow_label: case.flow_label,
        vlan: case.vlan_tci,
        source: None,
    }
}

impl<'a> Run<'a> {
    fn new(case: &'a Case, trace: &'a Trace, role: Role) -> Self {
        let own = case.end(role);
        let peer = case.end(match role {
            Role::Responder => Role::Requester,
            Role::Requester => Role::Responder,
        });
        let mut engine = Engine::new(Config::new(mac(own), own.ip));
        let content = match role {
            Role::Responder => memory::responder(case.region.bytes),
            Role::Requester => memory::requester(memory::requester_bytes(case)),
        };
        let va = match role {
            Role::Responder => case.region.va.unwrap_or(BASE),
            Role::Requester => BASE,
        };
        let len = content.len() as u64;
        engine.memory_mut().map(BASE, content);
        let region = RegionAttr { pd: PD, base: BASE, va, len, rights: Rights::ALL, page: 1 };
        let key = match role {
            Role::Responder => case.region.rkey,
            Role::Requester => None,
        };
        let key = engine.register(region, key).unwrap();
        let cq = engine.create_cq(256);
        let service = match &case.service[..] {
            "RC" => Service::Rc,
            "UC" => Service::Uc,
            _ => Service::Ud,
        };
        let init = QpInit { qpn: Some(own.qpn), ..QpInit::new(service, PD, cq) };
        let qpn = engine.create_qp(init).unwrap();
        let (connected, reliable) = (service != Service::Ud, service == Service::Rc);
        let init = QpAttr {
            access: connected.then_some(Rights::REMOTE),
            pkey: Some(case.pkey),
            qkey: if connected { None } else { case.qkey },
            ..QpAttr::to(QpState::Init)
        };
        let rtr = match connected {
            false => QpAttr::to(QpState::Rtr),
            true => QpAttr {
                av: Some(vector(case, peer)),
                path_mtu: Some(case.path_mtu.bytes()),
                dest_qpn: Some(peer.qpn),
                rq_psn: Some(Psn::new(peer.first_psn)),
                max_dest_rd_atomic: reliable.then_some(case.max_rd_atomic),
                min_rnr_timer: reliable.then_some(case.min_rnr_timer),
                sport: own.udp_sport,
                ..QpAttr::to(QpState::Rtr)
            },
        };
        let rts = QpAttr {
            sq_psn: Some(Psn::new(own.first_psn)),
            timeout: reliable.then_some(case.ack_timeout),
            retry_cnt: reliable.then_some(case.retry_count),
            rnr_retry: reliable.then_some(case.rnr_retry),
            max_rd_atomic: reliable.then_some(case.max_rd_atomic),
            ..QpAttr::to(QpState::Rts)
        };
        for attr in [init, rtr, rts] {
            engine.modify_qp(qpn, &attr).unwrap();
        }
        let (frames, completions) = (Vec::new(), Vec::new());
        Self { case, trace, role, engine, qpn, cq, key, va, frames, completions }
    }

    /// What the responder had done before: the window that a SEND invalidates is bound.
    fn prepare(&mut self) {
        let Some(key) = self.case.work.invalidate_rkey else { return };
        self.engine.alloc_window(PD, WindowType::default(), Some(key)).unwrap();
        let bind = Bind {
            key,
            lkey: self.key,
            addr: self.va,
            len: 4096,
            rights: Rights::REMOTE_WRITE,
            kind: WindowType::default(),
        };
        self.engine.post_send(self.qpn, SendWr::bind(0, bind)).unwrap();
        assert_eq!(self.engine.poll_transmit(0), None);
        let done = self.engine.poll_cq(self.cq).unwrap();
        assert!(done.is_success() && done.opcode == CqeOpcode::BindMw, "{done:?}");
    }

    fn post_receives(&mut self) {
        for (i, receive) in self.case.receives.iter().enumerate() {
            let sge =
                Sge { addr: self.va + receive.offset as u64, lkey: self.key, len: receive.bytes as u32 };
            self.engine.post_recv(self.qpn, RecvWr::new(i as u64, &[sge])).unwrap();
        }
    }

    fn post_work(&mut self) {
        let (case, work) = (self.case, &self.case.work);
        let sge = Sge { addr: BASE + work.local_offset as u64, lkey: self.key, len: work.bytes as u32 };
        for i in 0..work.count as u64 {
            let va = work.remote_va.unwrap_or(0).wrapping_add(work.remote_stride.wrapping_mul(i));
            let rkey = work.rkey.unwrap_or(0);
            let (add, swap) = (work.compare_add.unwrap_or(0), work.swap.unwrap_or(0));
            let wr = match &work.verb[..] {
                "SEND" | "SEND_WITH_IMM" => SendWr::send(i, &[sge]),
                "SEND_WITH_INV" => SendWr::send_inv(i, &[sge], work.invalidate_rkey.unwrap()),
                "RDMA_WRITE" | "RDMA_WRITE_WITH_IMM" => SendWr::write(i, &[sge], va, rkey),
                "RDMA_READ" => SendWr::read(i, &[sge], va, rkey),
                "FETCH_AND_ADD" => SendWr::fetch_add(i, sge, va, rkey, add),
                "COMPARE_AND_SWAP" => SendWr::cmp_swap(i, sge, va, rkey, add, swap),
                other => panic!("{}: verb {other}", case.name),
            };
            let wr = match work.immediate {
                Some(imm) if work.verb.ends_with("IMM") => wr.with_imm(imm),
                _ => wr,
            };
            let wr = if work.solicited { wr.solicited() } else { wr };
            let wr = match case.service == "UD" {
                true => {
                    let ah = self.engine.create_ah(PD, vector(case, &case.responder));
                    wr.to(ah, case.responder.qpn, case.qkey.unwrap())
                }
                false => wr,
            };
            self.engine.post_send(self.qpn, wr).unwrap();
        }
    }

    fn drive(&mut self) {
        let mut peer = Peer::new(self.trace);
        // A receive that is posted late comes before the request that is answered with an acknowledgement.
        let refusals = self.trace.of_card().filter(|frame| is_rnr(&frame.bytes)).count();
        let mut late = self.role == Role::Responder && self.case.receive_posted_late;
        let mut now = 0;
        loop {
            if late && self.frames.len() == refusals {
                late = false;
                self.post_receives();
            }
            let incoming = peer.send();
            if let Some(bytes) = incoming {
                self.engine.handle_frame(now, bytes);
            }
            let outgoing = self.engine.poll_transmit(now);
            if let Some(frame) = &outgoing {
                self.frames.push(frame.clone());
                peer.card_sent();
            }
            while let Some(completion) = self.engine.poll_cq(self.cq) {
                self.completions.push(completion);
            }
            now += SLOT;
            if incoming.is_none() && outgoing.is_none() {
                // Until no deadline is left, which is when all is acknowledged or has failed.
                match self.engine.poll_timeout() {
                    Some(deadline) if self.frames.len() < 1000 => {
                        now = now.max(deadline);
                        self.engine.handle_timeout(now);
                    }
                    _ => return,
                }
            }
        }
    }

    fn lines(&self) -> Vec<Line> {
        self.case.log(self.role).iter().map(|line| Line::parse(&self.case.name, line)).collect()
    }

    fn compare(&self) -> Vec<Difference> {
        let case = self.case;
        let short_receive = case.receives.iter().any(|receive| receive.bytes < case.work.bytes);
        let context = compare::Context { flow_label: case.flow_label, short_receive };
        let expected: Vec<_> = self.trace.of_card().collect();
        let mut found = Vec::new();
        let all: Vec<&[u8]> = expected.iter().map(|frame| &frame.bytes[..]).collect();
        for (i, (captured, got)) in expected.iter().zip(&self.frames).enumerate() {
            let place = Place::Frame { captured: Some(captured.number), sent: Some(i + 1) };
            let specified = compare::specified(&captured.bytes, &all[..i]);
            found.extend(compare::frames(place, &specified, got, &context));
        }
        if expected.len() != self.frames.len() {
            let place = Place::Frame { captured: None, sent: None };
            let text = self.frames[expected.len().min(self.frames.len())..]
                .iter()
                .map(|bytes| Frame::parse(bytes).map(|f| format!(" {:#x}/{:#x}", f.bth.opcode, f.bth.psn)))
                .collect::<Result<String, _>>()
                .unwrap();
            let got = format!("{}:{text}", self.frames.len());
            found.push(Difference::new(place, "number of frames", expected.len().to_string(), got));
        }
        let lines = self.lines();
        let wcs = expected_completions(case, self.role, &lines);
        let refused = lines.iter().any(|line| matches!(line, Line::PostFailed(_)));
        let mut got: Vec<_> = self.completions.iter().map(driver_completion).collect();
        if refused {
            // The engine has no errors of posting for that; the work must have been refused without a frame.
            assert!(got.iter().all(|completion| !completion.is_success()));
            got.clear();
        }
        found.extend(compare_completions(&wcs, &got, case.service == "UD"));
        let bytes = self.engine.memory().get(BASE, self.region_bytes()).unwrap();
        found.extend(memory::check_sums(&lines, case, bytes));
        found
    }

    fn region_bytes(&self) -> u64 {
        match self.role {
            Role::Responder => self.case.region.bytes as u64,
            Role::Requester => memory::requester_bytes(self.case) as u64,
        }
    }
}

fn is_rnr(bytes: &[u8]) -> bool {
    let aeth = Frame::parse(bytes).ok().and_then(|frame| frame.ext.aeth);
    aeth.is_some_and(|aeth| matches!(Syndrome::decode(aeth.syndrome), Syndrome::Rnr { .. }))
}

fn driver_completion(completion: &Completion) -> ferrowire::Completion {
    let entry = Cqe {
        qpn: completion.qpn,
        receive: completion.opcode.is_receive(),
        status: completion.status.code(),
        syndrome: completion.syndrome,
        opcode: completion.opcode.code(),
        byte_len: completion.byte_len,
        imm: completion.imm.or(completion.invalidated).unwrap_or(0),
        imm_valid: completion.imm.is_some(),
        invalidated: completion.invalidated.is_some(),
        solicited: completion.solicited,
        grh: completion.grh,
        src_qpn: completion.src_qpn,
        ..Cqe::default()
    };
    ferrowire::Completion::of_entry(completion.wr_id, &entry).unwrap()
}

fn play(case: &Case, trace: &Trace, role: Role) -> Vec<Difference> {
    let mut run = Run::new(case, trace, role);
    match role {
        Role::Requester => run.post_work(),
        Role::Responder => {
            run.prepare();
            if !case.receive_posted_late {
                run.post_receives();
            }
        }
    }
    run.drive();
    run.compare()
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/v4")
}

#[test]
fn the_engine_agrees_with_linux_in_every_case_at_both_ends() {
    let mut failed = Vec::new();
    let mut played = 0;
    for Loaded { case, traces } in load(&golden(), None, Roles::Both).unwrap() {
        for (role, trace) in &traces {
            let found = play(&case, trace, *role);
            played += 1;
            if !found.is_empty() {
                let text: Vec<String> = found.iter().map(|difference| format!("    {difference}")).collect();
                failed.push(format!("{} as {role}:\n{}", case.name, text.join("\n")));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {played} failed\n{}", failed.len(), failed.join("\n"));
    assert_eq!(played, 96);
}

/// What differs in a case when each frame of the engine's end is changed in the capture.
fn differences_after(name: &str, role: Role, change: impl Fn(&mut Frame<'_>)) -> Vec<Difference> {
    let Loaded { case, traces } = load(&golden(), Some(name), Roles::Both).unwrap().remove(0);
    let (_, mut trace) = traces.into_iter().find(|(of, _)| *of == role).unwrap();
    for captured in trace.frames.iter_mut().filter(|frame| frame.of_card) {
        let mut frame = Frame::parse(&captured.bytes).unwrap();
        change(&mut frame);
        frame.seal().unwrap();
        let bytes = encoded(&frame).unwrap();
        captured.bytes = bytes;
    }
    play(&case, &trace, role)
}

#[test]
fn a_capture_that_says_something_else_is_found() {
    let fields = |found: Vec<Difference>| -> Vec<String> { found.into_iter().map(|d| d.field).collect() };
    let none = differences_after("send_multi", Role::Requester, |_| {});
    assert!(none.is_empty(), "{none:#?}");
    let found = differences_after("send_multi", Role::Requester, |frame| frame.bth.psn ^= 0x1000);
    assert_eq!(fields(found), ["bth.psn", "bth.psn", "bth.psn"]);
    let found = differences_after("send_multi", Role::Responder, |frame| {
        frame.ext.aeth.as_mut().unwrap().msn += 1;
    });
    assert_eq!(fields(found), ["aeth.msn"]);
    let found = differences_after("read_small", Role::Responder, |frame| frame.payload = &[0; 8]);
    assert_eq!(fields(found), ["payload byte 0, 8 in all"]);
}
