// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selective retransmission over networks that lose, double, delay and overtake: results are those of a network that does not.

use std::net::IpAddr;

use ferrowire_spec::queue::send_wqe::SendOpcode;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::super::network::{Faults, Network};
use super::super::types::SendWr;
use super::*;

/// Bytes that a queue pair's program has at each end.
const ROOM: u64 = 1 << 18;
const LONGEST: u64 = 16 * 1024;
/// Where the bytes of READs, WRITEs and SENDs end, and those of receives begin.
const END: u64 = ROOM - LONGEST;

/// What a queue pair does.
struct Program {
    selective: bool,
    mtu: usize,
    shared: bool,
    depth: u8,
    sends: Vec<SendWr>,
    /// Receives, and messages that take them.
    receives: usize,
}

/// Each WRITE, SEND and READ has its own bytes, so that results do not depend on what comes when. Atomics add to one word.
fn program(rng: &mut SmallRng, selective: bool, count: usize) -> Program {
    let mtu = [256, 512, 1024, 2048, 4096][rng.random_range(0..5)];
    let (mut at, mut receives) = (64, 0);
    let sends = (0..count as u64)
        .map(|id| {
            let len = match rng.random_range(0..4) {
                0 => rng.random_range(0..LONGEST),
                1 => mtu as u64 * rng.random_range(0..4),
                _ => rng.random_range(0..300),
            };
            let kinds = [
                SendOpcode::Send,
                SendOpcode::Write,
                SendOpcode::Write,
                SendOpcode::WriteImm,
                SendOpcode::Read,
                SendOpcode::Read,
                SendOpcode::FetchAdd,
            ];
            let opcode = kinds[rng.random_range(0..kinds.len())];
            let atomic = opcode == SendOpcode::FetchAdd;
            let len = if atomic { 8 } else { len.min(END - at) };
            receives += usize::from(matches!(opcode, SendOpcode::Send | SendOpcode::WriteImm));
            let sge = Sge { addr: at, lkey: 0, len: len as u32 };
            let mut wr = SendWr { remote_va: at, imm: id as u32, ..SendWr::new(opcode, id, &[sge]) };
            if atomic {
                (wr.remote_va, wr.compare_add) = (0, 1 << (id % 48));
            }
            wr.signaled = rng.random_bool(0.8);
            wr.fence = rng.random_bool(0.05);
            at = (at + len).next_multiple_of(8).min(END - 8);
            wr
        })
        .collect();
    Program { selective, mtu, shared: rng.random_bool(0.3), depth: rng.random_range(1..8), sends, receives }
}

/// Memory of both ends and completions, by queue pair.
type Result = Vec<(Vec<u8>, Vec<u8>, Vec<(u64, WcStatus)>, Vec<(u32, Option<u32>)>)>;

struct Run {
    result: Result,
    network: Network,
}

fn config(n: u8, buffer: u64) -> Config {
    let (mac, ip) = (u64::from(n), IpAddr::from([10, 0, 0, n]));
    let line_rate = buffer.is_multiple_of(2).then_some(100_000_000_000);
    Config { selective: true, reorder_buffer: buffer, credits: false, line_rate, ..Config::new(mac, ip) }
}

fn run(programs: &[Program], faults: Faults, seed: u64, buffer: u64, late: bool) -> Run {
    let engines = vec![Engine::new(config(1, buffer)), Engine::new(config(2, buffer))];
    let mut network = Network::new(engines, Faults::none(), seed);
    network.keep_frames();
    let cqs = [0, 1].map(|node: usize| network.engines[node].create_cq(1 << 16));
    let mut ends = Vec::new();
    for (at, program) in programs.iter().enumerate() {
        let base = (at as u64 + 1) << 24;
        let qpn = 0x20 + at as u32;
        let mut keys = [0; 2];
        let mut srq = None;
        for node in 0..2 {
            let engine = &mut network.engines[node];
            let bytes = (0..ROOM).map(|i| (i * 7 + i / 251 + at as u64 + 77 * node as u64) as u8).collect();
            engine.memory_mut().map(base, bytes);
            let attr = RegionAttr { pd: PD, base, va: 0, len: ROOM, rights: Rights::ALL, page: 1 };
            keys[node] = engine.register(attr, None).unwrap();
            srq = program.shared.then(|| engine.create_srq(PD, 4096));
            let init = QpInit {
                qpn: Some(qpn),
                srq,
                max_recv: 4096,
                max_send: 4096,
                ..QpInit::new(Service::Rc, PD, cqs[node])
            };
            engine.create_qp(init).unwrap();
            let peer = 2 - node as u8;
            // Near the wrap.
            let psn = |node: usize| Psn::new(0xff_ffe0 + 7 * node as u32 + seed as u32 % 40);
            let steps = [
                QpAttr { access: Some(Rights::REMOTE), pkey: Some(0xffff), ..QpAttr::to(QpState::Init) },
                QpAttr {
                    av: Some(AddressVector {
                        traffic_class: 2,
                        ..AddressVector::new(peer.into(), [10, 0, 0, peer].into())
                    }),
                    path_mtu: Some(program.mtu),
                    dest_qpn: Some(qpn),
                    rq_psn: Some(psn(1 - node)),
                    max_dest_rd_atomic: Some(program.depth),
                    min_rnr_timer: Some(1),
                    selective: Some(program.selective),
                    ..QpAttr::to(QpState::Rtr)
                },
                QpAttr {
                    sq_psn: Some(psn(node)),
                    timeout: Some(9),
                    retry_cnt: Some(7),
                    rnr_retry: Some(7),
                    max_rd_atomic: Some(program.depth),
                    ..QpAttr::to(QpState::Rts)
                },
            ];
            steps.iter().for_each(|attr| engine.modify_qp(qpn, attr).unwrap());
        }
        ends.push((qpn, keys, srq, base));
    }
    network.faults = faults;
    for (program, (qpn, keys, ..)) in programs.iter().zip(&ends) {
        for wr in &program.sends {
            let mut wr = wr.clone();
            (wr.sges[0].lkey, wr.rkey) = (keys[0], keys[1]);
            network.engines[0].post_send(*qpn, wr).unwrap();
        }
    }
    if late {
        // Receivers that are not ready.
        network.run_until(30_000);
    }
    for (program, (qpn, keys, srq, _)) in programs.iter().zip(&ends) {
        for id in 0..program.receives as u64 {
            // All at one place, which nothing reads.
            let wr = RecvWr::new(id, &[Sge { addr: END, lkey: keys[1], len: LONGEST as u32 }]);
            let engine = &mut network.engines[1];
            match srq {
                Some(srq) => engine.post_srq_recv(*srq, wr).unwrap(),
                None => engine.post_recv(*qpn, wr).unwrap(),
            }
        }
    }
    assert!(network.run(3_000_000), "seed {seed}: it still moves at {} ns", network.now());
    let done = [0, 1].map(|node: usize| {
        std::iter::from_fn(|| network.engines[node].poll_cq(cqs[node])).collect::<Vec<Completion>>()
    });
    let mut result = Vec::new();
    for (qpn, _, _, base) in &ends {
        let sent = done[0].iter().filter(|done| done.qpn == *qpn).map(|done| (done.wr_id, done.status));
        let got = done[1].iter().filter(|done| done.qpn == *qpn).inspect(|done| assert!(done.is_success()));
        let got = got.map(|done| (done.byte_len, done.imm)).collect();
        let bytes = |node: usize| network.engines[node].memory().get(*base, ROOM).unwrap().to_vec();
        result.push((bytes(0), bytes(1), sent.collect(), got));
    }
    Run { result, network }
}

fn faults(rng: &mut SmallRng) -> Faults {
    let mut share = |most: u32| if rng.random_bool(0.3) { 0 } else { rng.random_range(0..=most) };
    let (drop, duplicate, reorder, corrupt, mark) = (share(60), share(60), share(150), share(20), share(20));
    let hold = if rng.random_range(0..4) == 0 { 5_000_000 } else { rng.random_range(1..30_000) };
    Faults { drop, duplicate, reorder, corrupt, mark, delay: rng.random_range(200..5_000), hold }
}

/// Without agreement nothing of it is on the wire.
fn check_frames(programs: &[Program], network: &Network) {
    for (_, _, bytes) in network.sent() {
        let frame = Frame::parse(bytes).unwrap();
        let program = &programs[frame.bth.destqp as usize - 0x20];
        let plain = frame.bth.migreq && frame.bth.resv7 == 0 && frame.ext.report.is_none();
        assert!(program.selective || plain, "{:?}", frame.bth);
        let sequence = frame.opcode().unwrap();
        if matches!(sequence, Opcode::RcAcknowledge | Opcode::RcReport) {
            assert!(plain || sequence == Opcode::RcReport && frame.bth.migreq && frame.bth.resv7 == 0);
        }
    }
}

fn soak(seeds: std::ops::Range<u64>, on: impl Fn(usize) -> bool) {
    let mut sum = super::super::SelectiveCounters::default();
    for seed in seeds {
        let mut rng = SmallRng::seed_from_u64(seed);
        let count = rng.random_range(5..60);
        let programs: Vec<Program> =
            (0..rng.random_range(1..5)).map(|at| program(&mut rng, on(at), count)).collect();
        let bad = faults(&mut rng);
        let buffer = [1 << 20, 1 << 20, 20_001, 1_000][rng.random_range(0..4)];
        let late = rng.random_bool(0.3);
        let wanted = run(&programs, Faults::none(), 1, 1 << 20, false);
        let found = run(&programs, bad, seed, buffer, late);
        for (at, (wanted, found)) in wanted.result.iter().zip(&found.result).enumerate() {
            assert_eq!(found.2, wanted.2, "seed {seed}: completions of sends of {at}");
            assert_eq!(found.3, wanted.3, "seed {seed}: completions of receives of {at}");
            assert!(found.0 == wanted.0, "seed {seed}: memory of the requester of {at}");
            assert!(found.1 == wanted.1, "seed {seed}: memory of the responder of {at}");
        }
        check_frames(&programs, &found.network);
        for engine in &found.network.engines {
            let more = engine.counters().selective();
            sum.repeats += more.repeats;
            sum.reports_sent += more.reports_sent;
            sum.reports_received += more.reports_received;
            sum.reports_dropped += more.reports_dropped;
            sum.kept += more.kept;
            sum.probes += more.probes;
            sum.reorder_buffer_full += more.reorder_buffer_full;
        }
    }
    println!("{sum:?}");
}

fn seeds() -> std::ops::Range<u64> {
    let number =
        |name: &str, plain: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(plain);
    let first = number("FERROWIRE_SOAK_SEED", 1);
    first..first + number("FERROWIRE_SOAK_CASES", 40)
}

#[test]
fn with_selective_retransmission_results_are_those_without_loss() {
    soak(seeds(), |_| true);
}

#[test]
fn without_it_too() {
    soak(seeds(), |_| false);
}

#[test]
fn queue_pairs_with_it_and_without_it_live_beside_each_other() {
    soak(seeds(), |at| at % 2 == 0);
}
