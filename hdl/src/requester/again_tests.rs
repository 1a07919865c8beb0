// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`again`](super::super::again) and [`resend`](super) together: between them and the network, what is missing is sent again, and nothing else.

use super::*;
use crate::testing::{item, step, Random, Sink, Source};
use ferrowire_rtl::{build, Bits, Sim};
use ferrowire_spec::queue::send_wqe::SendWqe;
use rand::Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const QPS: usize = 16;
const CIRCLE: u64 = 1 << 24;
const MTU: u64 = 256;

#[derive(Clone, Debug)]
struct Message {
    opcode: SendOpcode,
    length: u64,
    first: u64,
    /// PSNs that it takes.
    psns: u64,
}

impl Message {
    fn answered(&self) -> bool {
        matches!(self.opcode, SendOpcode::Read | SendOpcode::CmpSwap | SendOpcode::FetchAdd)
    }

    fn unit(&self) -> Vec<u8> {
        let wqe = SendWqe {
            opcode: self.opcode.code(),
            num_sge: u8::from(self.length > 0),
            sge0_len: self.length as u32,
            ..SendWqe::default()
        };
        let mut bytes = vec![0; 64];
        wqe.emit(&mut bytes).unwrap();
        bytes
    }
}

/// A flow of one queue pair: PSNs count from 0 here.
struct Flow {
    qp: usize,
    answer: bool,
    start: u64,
    messages: Vec<Message>,
    /// Messages that were sent.
    sent: usize,
    /// PSNs that have not come, and those of them that were sent again: with their stamp, and whether they are on their way.
    missing: BTreeMap<u64, Option<u64>>,
    /// Packets that have come, by their PSN, after the first one that is missing.
    arrived: BTreeSet<u64>,
    /// What a report has told so far: from PSN on, heard up to.
    heard: u64,
    /// Repetitions of responses that were asked for, and the newest that has come.
    asked: u64,
    answered: u64,
    repeats: u64,
    /// The oldest message, as it was told.
    told: usize,
}

impl Flow {
    fn new(random: &mut Random, qp: usize, answer: bool) -> Flow {
        let start = if random.chance(0.3) { CIRCLE - 50 } else { random.rng.random_range(0..CIRCLE) };
        let mut first = 0;
        let messages = (0..120)
            .map(|_| {
                let opcode = match random.rng.random_range(0..8) {
                    0 => SendOpcode::FetchAdd,
                    1 | 2 => SendOpcode::Read,
                    3 => SendOpcode::LocalInv,
                    4 => SendOpcode::Send,
                    _ if answer => SendOpcode::Read,
                    _ => SendOpcode::Write,
                };
                let length = match opcode {
                    SendOpcode::LocalInv => 0,
                    SendOpcode::FetchAdd => 8,
                    _ => random.rng.random_range(0..6 * MTU),
                };
                let psns = match opcode {
                    SendOpcode::LocalInv => 0,
                    _ => length.div_ceil(MTU).max(1),
                };
                let message = Message { opcode, length, first, psns };
                first += psns;
                message
            })
            .collect();
        Flow {
            qp,
            answer,
            start,
            messages,
            sent: 0,
            missing: BTreeMap::new(),
            arrived: BTreeSet::new(),
            heard: 0,
            asked: 0,
            answered: 0,
            repeats: 0,
            told: 0,
        }
    }

    /// The first PSNs of the packets of a message in this flow.
    fn packets(&self, message: &Message) -> Vec<u64> {
        match (self.answer, message.answered()) {
            (true, false) => vec![],
            (false, true) => vec![message.first],
            _ => (message.first..message.first + message.psns).collect(),
        }
    }

    fn high(&self) -> u64 {
        self.messages
            .get(self.sent)
            .map_or_else(|| self.messages.last().map_or(0, |m| m.first + m.psns), |message| message.first)
    }

    fn base(&self) -> u64 {
        self.missing.keys().next().copied().unwrap_or(self.high())
    }

    /// The oldest message that is not done.
    fn oldest(&self) -> usize {
        let base = self.base();
        self.messages[..self.sent].iter().position(|m| m.first + m.psns > base).unwrap_or(self.sent)
    }

    fn wire(&self, psn: u64) -> u64 {
        (self.start + psn) % CIRCLE
    }
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    /// Gaps, proofs, probes, WQEs.
    sources: [Source; 4],
    /// Asks, packets.
    sinks: [Sink; 2],
    random: Random,
    flows: Vec<Flow>,
    /// WQEs that are fetched: when they come.
    fetched: VecDeque<(u64, crate::testing::Item)>,
    now: u64,
    asks: usize,
    out: usize,
}

fn bench(seed: u64, flows: usize) -> Bench {
    let cfg = RnicConfig { qps: QPS as u32, ..RnicConfig::named("generic-64b").unwrap() };
    let netlist = build("bench", |m| {
        let broadcast = m.input_of("broadcast", &QpBroadcast::of(&cfg));
        let oldest = m.input_of("oldest", &Oldest::write_of(&cfg));
        let news = News {
            gaps: m.stream_in("gaps", &Gap::of(&cfg)),
            proofs: m.stream_in("proofs", &Proof::of(&cfg)),
            probes: m.stream_in("probes", &bits(cfg.qp_bits())),
        };
        let wqes = m.stream_in("wqes", &Fetched::of(&cfg, 64));
        let repeated = m.input_of("repeated", &Repeated::of(&cfg));
        let asked = m.input_of("asked", &Asked::of());
        let again = repair(m, &cfg, (broadcast, oldest), wqes, news, repeated, asked);
        m.stream_out("asks", again.asks);
        m.stream_out("out", again.wqes);
        m.stream_out("restarts", again.restarts);
        m.output("returned", &again.returned);
    });
    let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
    sim.reset();
    let mut random = Random::new(seed);
    let flows: Vec<Flow> = (0..flows).map(|qp| Flow::new(&mut random, qp, qp % 2 == 1)).collect();
    for qp in 0..QPS {
        sim.set("broadcast_attributes_enable", 1);
        sim.set("broadcast_attributes_index", qp as u64);
        sim.set("broadcast_attributes_entry_mtu", 1);
        sim.tick();
    }
    sim.set("broadcast_attributes_enable", 0);
    let sources = [
        Source::new("gaps", &Gap::of(&cfg)),
        Source::new("proofs", &Proof::of(&cfg)),
        Source::new("probes", &bits(cfg.qp_bits())),
        Source::new("wqes", &Fetched::of(&cfg, 64)),
    ];
    let sinks = [Sink::new("asks", &Ask::of(&cfg)), Sink::new("out", &Wqe::of(&cfg))];
    let mut bench =
        Bench { cfg, sim, sources, sinks, random, flows, fetched: VecDeque::new(), now: 0, asks: 0, out: 0 };
    (0..bench.flows.len()).for_each(|qp| bench.tell_oldest(qp));
    bench
}

impl Bench {
    fn tell_oldest(&mut self, qp: usize) {
        let flow = &mut self.flows[qp];
        flow.told = flow.oldest();
        let oldest = flow.told;
        let first = flow.messages.get(oldest).map_or(flow.high(), |m| m.first);
        self.sim.set("oldest_enable", 1);
        self.sim.set("oldest_index", qp as u64);
        self.sim.set("oldest_entry_index", oldest as u64);
        self.sim.set("oldest_entry_first_psn", flow.wire(first));
        self.sim.set("oldest_entry_psn", flow.wire(flow.base()));
        self.step();
        self.sim.set("oldest_enable", 0);
    }

    fn step(&mut self) {
        while self.fetched.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, wqe) = self.fetched.pop_front().expect("one");
            self.sources[3].push(wqe);
        }
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, 0.1);
        self.now += 1;
        self.sim.set("repeated_valid", 0);
        self.sim.set("asked_valid", 0);
        if self.asks < self.sinks[0].items.len() {
            self.fetch();
        } else if self.out < self.sinks[1].items.len() {
            self.send_again();
        }
    }

    /// The scheduler's part: WQEs come after a while, as they are in host memory then.
    fn fetch(&mut self) {
        let ask = self.sinks[0].items[self.asks].clone();
        self.asks += 1;
        let of = |name: &str| ask[name].to_u64();
        let (qp, context) = (of("qp") as usize, of("tag_context"));
        let flow = &self.flows[qp];
        let from = if of("oldest") == 1 { flow.told } else { of("index") as usize };
        let probe = of("tag_probe") == 1;
        let count = if probe { 1 } else { self.random.rng.random_range(1..=16) };
        let to = (from + count).min(flow.sent);
        self.sim.set("asked_valid", 1);
        self.sim.set("asked_tag_context", context);
        self.sim.set("asked_tag_probe", probe.into());
        self.sim.set("asked_none", (from >= to).into());
        let at = self.now + self.random.rng.random_range(1..300);
        let at = at.max(self.fetched.back().map_or(0, |(last, _)| *last));
        for index in from..to {
            // The host may have used the place of what is done for another message.
            let mut message = self.flows[qp].messages[index].clone();
            if index < self.flows[qp].told && self.random.chance(0.5) {
                message.length = self.random.rng.random_range(0..1 << 20);
            }
            let fields = [
                ("qp", qp as u128),
                ("index", index as u128),
                ("ends", 1),
                ("tag_again", 1),
                ("tag_probe", probe.into()),
                ("tag_context", context.into()),
                ("last", (index + 1 == to).into()),
            ];
            let mut wqe = item(&Fetched::of(&self.cfg, 64), &fields);
            wqe.insert("piece".into(), Bits::from_bytes(512, &message.unit()));
            self.fetched.push_back((at, wqe));
        }
    }

    /// The segmenter's part.
    fn send_again(&mut self) {
        let out = self.sinks[1].items[self.out].clone();
        self.out += 1;
        let of = |name: &str| out[name].to_u64();
        let seed = self.random.seed;
        assert_eq!(of("repeat_valid"), 1, "seed {seed}");
        if of("repeat_probe") == 1 {
            return;
        }
        let flows = self.flows.len();
        let flow = &mut self.flows[of("qp") as usize];
        let psn = (of("repeat_psn") + CIRCLE - flow.start) % CIRCLE;
        let old = psn > CIRCLE / 2 || psn < flow.base();
        let refused = self.random.chance(0.05);
        let stamp = if flow.answer { flow.asked } else { flow.high() };
        if !old {
            let message = &flow.messages[of("index") as usize];
            let what = format!("seed {seed}: flow {} sends {psn} of {message:?} again", flow.qp);
            assert!(psn >= message.first && psn < message.first + message.psns, "{what}");
            assert!(flow.packets(message).contains(&psn), "{what}");
            assert_eq!(of("repeat_offset"), (psn - message.first) * MTU, "{what}");
            assert_eq!(of("repeat_part"), flow.answer.into(), "{what}");
            // No PSN of an earlier READ that is not done lies within the distance.
            let reach = of("repeat_distance");
            let begins = message.answered() && psn == message.first;
            assert!(begins || reach == 0, "{what}");
            if begins {
                let before = flow.messages[flow.told..of("index") as usize].iter();
                let read = before.filter(|m| m.answered()).map(|m| m.first + m.psns).next_back();
                let wanted = read.map_or(127, |end| (message.first - end).min(127));
                // The completer may go on in the meantime.
                assert!(reach == wanted || read.is_none(), "{what}: {reach}, {wanted}");
            }
        }
        if !old && !refused {
            let what = format!("seed {seed}: flow {} sends {psn} again", flow.qp);
            flow.repeats += 1;
            match flow.missing.get(&psn) {
                Some(Some(stamp)) => {
                    let proof = if flow.answer { flow.answered } else { flow.heard };
                    // A flow whose context is another one's forgets what it has sent.
                    assert!(
                        proof > *stamp || flows > CONTEXTS as usize,
                        "{what}: it is on its way, {stamp}, {proof}"
                    );
                }
                Some(None) => {}
                // It has come since.
                None => {}
            }
            flow.asked += 1;
            if flow.missing.contains_key(&psn) {
                flow.missing.insert(psn, Some(stamp));
            }
        }
        let high = flow.wire(flow.high());
        for (name, value) in [
            ("valid", 1),
            ("qp", of("qp")),
            ("context", of("repeat_context")),
            ("psn", of("repeat_psn")),
            ("high", high),
            ("sent", u64::from(!old && !refused)),
            ("probe", 0),
        ] {
            self.sim.set(&format!("repeated_{name}"), value);
        }
    }

    /// Some repetitions arrive.
    fn arrive(&mut self, loss: f64) {
        for qp in 0..self.flows.len() {
            let flow = &mut self.flows[qp];
            let under_way: Vec<(u64, u64)> =
                flow.missing.iter().filter_map(|(psn, stamp)| stamp.map(|stamp| (*psn, stamp))).collect();
            for (psn, stamp) in under_way {
                if self.random.chance(loss) {
                    continue;
                }
                flow.missing.remove(&psn);
                flow.arrived.insert(psn);
                if flow.answer && stamp >= flow.answered {
                    flow.answered = flow.answered.max(stamp);
                    let psn = flow.wire(psn);
                    self.sources[1].push_values(&[("flow", (qp + QPS) as u128), ("psn", psn.into())]);
                }
            }
            let base = flow.base();
            flow.arrived.retain(|psn| *psn > base);
        }
    }

    fn report(&mut self, qp: usize) {
        let flow = &mut self.flows[qp];
        let base = flow.base();
        let Some(last) = flow.arrived.iter().next_back().copied() else { return };
        assert!(last > base && last - base < 256);
        let heard = last - base + 1;
        let lost = if self.random.chance(0.7) { heard } else { self.random.rng.random_range(1..=heard) };
        flow.heard = flow.heard.max(base + heard);
        let mut marks = [0u32; 8];
        for psn in &flow.arrived {
            let at = flow.wire(*psn) as usize % 256;
            marks[at / 32] |= 1 << (at % 32);
        }
        for (w, word) in marks.into_iter().enumerate() {
            self.sources[0].push_values(&[
                ("flow", (qp + if flow.answer { QPS } else { 0 }) as u128),
                ("base", flow.wire(base).into()),
                ("heard", heard.into()),
                ("lost", lost.into()),
                ("word", word.into()),
                ("last", u128::from(w == 7)),
            ]);
        }
    }
}

#[test]
fn what_is_missing_is_sent_again_until_it_has_come_and_nothing_else() {
    for (seed, loss, flows) in [(1, 0.05, 8), (2, 0.2, 8), (3, 0.4, 8), (4, 0.1, 16)] {
        let mut bench = bench(seed, flows);
        let mut quiet = 0;
        while bench.flows.iter().any(|f| f.sent < f.messages.len() || !f.missing.is_empty()) {
            let qp = bench.random.rng.random_range(0..flows);
            let flow = &mut bench.flows[qp];
            // Another message, within the window. The last ones are not lost, or nothing would tell of them.
            if flow.sent < flow.messages.len() && flow.high() + 8 - flow.base() < 250 {
                let message = flow.messages[flow.sent].clone();
                let safe = flow.sent + 12 > flow.messages.len();
                flow.sent += 1;
                for psn in flow.packets(&message) {
                    if !safe && bench.random.chance(loss) {
                        flow.missing.insert(psn, None);
                    } else {
                        flow.arrived.insert(psn);
                    }
                }
                let base = flow.base();
                flow.arrived.retain(|psn| *psn > base);
            }
            bench.tell_oldest(qp);
            if bench.random.chance(0.3) && bench.sources[0].left() == 0 {
                bench.report(qp);
            }
            if bench.random.chance(0.02) {
                bench.sources[2].push_values(&[("", qp as u128)]);
            }
            for _ in 0..bench.random.rng.random_range(1..60) {
                bench.step();
            }
            if bench.random.chance(0.02) {
                bench.arrive(loss);
            }
            quiet += 1;
            assert!(
                quiet < 40_000,
                "seed {seed}: {:?}",
                bench.flows.iter().map(|f| (f.sent, f.missing.len())).collect::<Vec<_>>()
            );
        }
        let repeats: u64 = bench.flows.iter().map(|f| f.repeats).sum();
        println!("seed {seed}: {repeats} sent again, {} asks, {quiet} rounds", bench.asks);
        assert!(repeats > 100);
    }
}
