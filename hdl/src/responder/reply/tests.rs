// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reply engine as a whole, before a host whose reads and tables take their time.
//!
//! Every QP has memory of its own, which only its atomics change, and all share a few words. What leaves is compared
//! with what each QP's replies ask for, in their order; atomics with the order in which they were written.

mod again;
mod model;

use self::model::{Expect, Life, Operation, Sent};
use super::*;
use crate::testing::{step, Random, Sink, Source};
use crate::tx::Payload;
use ferrowire_rtl::{build, Bits, Netlist, Sim};
use rand::Rng;
use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;

const PAGE: u64 = 4096;
/// Pages of a QP: one has a private word, the others are only read.
const PAGES: u64 = 12;
/// Words that all QPs may change, from this bus address on.
const SHARED: u64 = 0x77_0000_0ff0;
const SHARED_WORDS: u64 = 4;
const SHARED_KEY: u32 = 0x5a00;
const MODULUS: u32 = 1 << 24;

const REPLY: usize = 0;
const DATA: usize = 1;
const PACKET: usize = 0;
const PAYLOAD: usize = 1;
const LOOKUP: usize = 2;
const READ: usize = 3;
const WRITE: usize = 4;
const FAULT: usize = 5;
const ENDED: usize = 6;
const CHARGE: usize = 7;

/// Cycles between two changes of gates, as `react` takes them at least.
const GATES: u64 = 5;

/// What memory that nobody changes holds.
fn byte(address: u64) -> u8 {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8
}

/// A READ of host memory under way.
struct Fetch {
    due: u64,
    address: u64,
    length: u64,
    /// What it found if it was looked at early.
    early: Option<Vec<u8>>,
    error: bool,
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: [Source; 2],
    sinks: [Sink; 8],
    random: Random,
    stall: f64,
    /// How often gates change, who is held back, and when the last change was.
    gates: f64,
    /// How often it is known where a READ begins.
    known: f64,
    shut: Vec<bool>,
    gate_at: u64,
    /// Who is held back until all is drained, and nobody else is.
    held: Option<usize>,
    /// Words that have been written.
    memory: HashMap<u64, u64>,
    /// Address, what was there, and what is now.
    writes: Vec<(u64, u64, u64)>,
    /// Compares that failed.
    failed: u32,
    answers: VecDeque<(u64, Option<u64>)>,
    fetches: VecDeque<Fetch>,
    host: RangeInclusive<u64>,
    tables: RangeInclusive<u64>,
    /// Probabilities that a page is refused, and that a read fails.
    refusals: f64,
    errors: f64,
    lives: Vec<Vec<Life>>,
    packets: Vec<Sent>,
    /// Packets whose payload is to come, and beats that came: payload may be ahead of its packet.
    incomplete: VecDeque<usize>,
    beats: VecDeque<crate::testing::Item>,
    served: Vec<u64>,
    handed: Vec<u64>,
    /// Each PSN that a READ asks for: its QP, and how many packets had come before.
    asked: Vec<(u32, u32, usize)>,
    counts: [u64; 4],
    /// What is inside each stage of the way to memory.
    inside: [i64; 3],
    seen: [usize; 8],
}

/// The engine and its ports.
fn netlist(cfg: &RnicConfig) -> Netlist {
    let netlist = build("bench", |m| {
        let out = reply(
            m,
            cfg,
            m.input_of("broadcast", &QpBroadcast::of(cfg)),
            m.stream_in("reply", &Reply::of(cfg)),
            (!cfg.unhurried()).then(|| m.input_of("known", &Known::of(cfg))),
            m.input_of("answer", &Translation::of()),
            m.stream_in("data", &DmaReadData::of(cfg)),
            m.input_of("gate", &Gate::write_of(cfg)),
            m.input("paused", 8),
            m.input("may_loop", 1),
        );
        m.output("reserves", &m.delay("reserves_late", &out.reserves));
        m.output("unspent", &m.delay("unspent_late", &out.unspent));
        m.stream_out("packet", out.source.packet);
        m.stream_out("payload", out.source.payload.unwrap());
        m.stream_out("lookup", out.lookup);
        m.stream_out("read", out.read);
        m.stream_out("write", out.write);
        m.stream_out("fault", out.faults);
        m.stream_out("ended", out.ended);
        m.stream_out("charge", out.charges);
        m.output("served", &m.delay("served_late", &out.served));
        m.output("counts", &m.delay("counts_late", &out.counts));
        for (i, stage) in out.accesses.iter().enumerate() {
            m.output(&format!("accesses_{i}"), &m.delay(&format!("accesses_late_{i}"), stage));
        }
    });
    netlist.unwrap_or_else(|e| panic!("{e}"))
}

impl Bench {
    fn new(beat_bytes: u32, qps: u32, seed: u64, stall: f64) -> Bench {
        let cfg = RnicConfig {
            beat_bytes,
            qps,
            outstanding: 256,
            payload_buffer_bytes: 512 * beat_bytes.max(16),
            ..RnicConfig::named("generic-8b").unwrap()
        };
        let mut sim = Sim::new(&netlist(&cfg));
        sim.reset();
        let qp = bits(cfg.qp_bits());
        let mut bench = Bench {
            sources: [Source::new("reply", &Reply::of(&cfg)), Source::new("data", &DmaReadData::of(&cfg))],
            sinks: [
                Sink::new("packet", &TxPacket::of(&cfg)),
                Sink::new("payload", &Payload::of(&cfg)),
                Sink::new("lookup", &Lookup::of()),
                Sink::new("read", &DmaReadRequest::of()),
                Sink::new("write", &DmaWrite::of(&cfg)),
                Sink::new("fault", &QpFault::of(&cfg)),
                Sink::new("ended", &qp),
                Sink::new("charge", &Charge::of(&cfg)),
            ],
            cfg,
            sim,
            random: Random::new(seed),
            stall,
            gates: 0.0,
            known: 0.0,
            shut: vec![false; qps as usize],
            gate_at: 0,
            held: None,
            memory: HashMap::new(),
            writes: Vec::new(),
            failed: 0,
            answers: VecDeque::new(),
            fetches: VecDeque::new(),
            host: 1..=1,
            tables: 4..=4,
            refusals: 0.0,
            errors: 0.0,
            lives: (0..qps).map(|_| Vec::new()).collect(),
            packets: Vec::new(),
            incomplete: VecDeque::new(),
            beats: VecDeque::new(),
            served: vec![0; qps as usize],
            handed: vec![0; qps as usize],
            asked: Vec::new(),
            counts: [0; 4],
            inside: [0; 3],
            seen: [0; 8],
        };
        (0..qps).for_each(|qp| bench.start(qp, 256));
        bench
    }

    /// A QP's new life. Its protection domain is its number and 100.
    fn start(&mut self, qp: u32, mtu: u32) {
        let psn = match self.random.chance(0.3) {
            true => MODULUS - self.random.rng.random_range(1..20),
            false => self.random.rng.random_range(0..MODULUS),
        };
        for (name, value) in [("mtu", mtu.trailing_zeros() - 7), ("pd", qp + 100)] {
            self.sim.set(&format!("broadcast_attributes_entry_{name}"), value.into());
        }
        self.sim.set("broadcast_attributes_index", qp.into());
        self.sim.set("broadcast_attributes_enable", 1);
        self.step();
        self.sim.set("broadcast_attributes_enable", 0);
        let private = self.word(self.address(qp, 0));
        self.lives[qp as usize].push(Life::new(psn, mtu, private));
    }

    /// Bus address of a byte of a QP's memory; its pages lie apart.
    fn address(&self, qp: u32, at: u64) -> u64 {
        (u64::from(qp) << 28) + (at / PAGE) * 0x11_3000 + at % PAGE
    }

    /// Its virtual address: the first page begins at a page.
    fn va(&self, qp: u32, at: u64) -> u64 {
        0x7f00_0000_0000 + (u64::from(qp) << 20) + at
    }

    fn key(qp: u32) -> u32 {
        (qp + 7) << 8 | 0x33
    }

    fn word(&self, address: u64) -> u64 {
        let still = u64::from_le_bytes(std::array::from_fn(|i| byte(address + i as u64)));
        self.memory.get(&address).copied().unwrap_or(still)
    }

    fn bytes(&self, address: u64, length: u64) -> Vec<u8> {
        (address..address + length).map(|a| (self.word(a & !7) >> (8 * (a & 7))) as u8).collect()
    }

    /// What the tables say.
    fn translate(&self, key: u32, pd: u32, access: u32, va: u64, length: u64) -> Option<(u32, u64)> {
        let qp = pd.checked_sub(100).filter(|qp| *qp < self.cfg.qps)?;
        if key == SHARED_KEY {
            let within = va.checked_sub(SHARED).filter(|at| at + length <= 8 * SHARED_WORDS)?;
            return (access == 8).then_some((qp, SHARED + within));
        }
        let at = va.checked_sub(self.va(qp, 0)).filter(|at| at + length <= PAGES * PAGE)?;
        (key == Self::key(qp) && [4, 8].contains(&access)).then(|| (qp, self.address(qp, at)))
    }

    fn life(&mut self, qp: u32) -> &mut Life {
        self.lives[qp as usize].last_mut().unwrap()
    }

    fn step(&mut self) {
        let now = self.sim.cycles();
        let answer = self.answers.front().is_some_and(|(due, _)| *due <= now);
        self.sim.set("answer_valid", answer.into());
        let answer = if answer { self.answers.pop_front().unwrap().1 } else { None };
        self.sim.set("answer_ok", answer.is_some().into());
        self.sim.set("answer_address", answer.unwrap_or_else(|| self.random.rng.random()));
        if self.fetches.front().is_some_and(|f| f.due <= now) && self.sources[DATA].left() == 0 {
            let fetch = self.fetches.pop_front().unwrap();
            self.deliver(fetch);
        }
        self.change_gates(now);
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        self.observe(now);
    }

    /// Holds back some QP, or lets one go; none is held back any more where gates do not change any more.
    fn change_gates(&mut self, now: u64) {
        self.sim.set("gate_enable", 0);
        let changes = match self.held {
            Some(qp) => (!self.shut[qp]).then_some(qp),
            None if self.gates > 0.0 => {
                self.random.chance(self.gates).then(|| self.random.rng.random_range(0..self.shut.len()))
            }
            None => self.shut.iter().position(|shut| *shut),
        };
        let Some(qp) = changes.filter(|_| now >= self.gate_at + GATES) else { return };
        self.shut[qp] = !self.shut[qp];
        self.sim.set("gate_enable", 1);
        self.sim.set("gate_index", qp as u64);
        self.sim.set("gate_entry_shut", self.shut[qp].into());
        self.gate_at = now;
    }

    /// Each READ response has been charged, in the order of each QP.
    fn check_charges(&self) {
        let charges = self.sinks[CHARGE].values("qp").into_iter().zip(self.sinks[CHARGE].values("bytes"));
        let charges: Vec<(u64, u64)> = charges.collect();
        for qp in 0..self.cfg.qps {
            let is_response = |sent: &&Sent| sent.qp == qp && sent.is_response();
            let sent = self.packets.iter().filter(is_response).map(|sent| sent.bytes as u64);
            let charged = charges.iter().filter(|charge| charge.0 == qp.into()).map(|charge| charge.1);
            assert!(sent.eq(charged), "seed {}: QP {qp} is charged for other packets", self.random.seed);
        }
    }

    fn deliver(&mut self, fetch: Fetch) {
        let (lanes, bytes) = (
            u64::from(self.cfg.beat_bytes),
            fetch.early.unwrap_or_else(|| self.bytes(fetch.address, fetch.length)),
        );
        let first = fetch.address / lanes * lanes;
        let beats = (fetch.address + fetch.length - first).div_ceil(lanes);
        for beat in 0..beats {
            let mut data = self.random.bytes(lanes as usize);
            for (lane, data) in data.iter_mut().enumerate() {
                let at = (first + beat * lanes + lane as u64).wrapping_sub(fetch.address);
                if at < fetch.length && !fetch.error {
                    *data = bytes[at as usize];
                }
            }
            let mut item = crate::testing::item(
                &DmaReadData::of(&self.cfg),
                &[("last", (beat + 1 == beats).into()), ("error", (fetch.error && beat + 1 == beats).into())],
            );
            item.insert("data".into(), Bits::from_bytes(8 * self.cfg.beat_bytes, &data));
            self.sources[DATA].push(item);
        }
    }

    /// What came in this cycle.
    fn observe(&mut self, now: u64) {
        let new = |sinks: &[Sink; 8], seen: &mut [usize; 8], sink: usize| {
            let from = std::mem::replace(&mut seen[sink], sinks[sink].items.len());
            sinks[sink].items[from..].to_vec()
        };
        for item in new(&self.sinks, &mut self.seen, LOOKUP) {
            let field = |name: &str| item[name].to_u64() as u32;
            let (va, length) = (item["va"].to_u64(), item["length"].to_u64());
            let mut found = self.translate(field("key"), field("pd"), field("access"), va, length);
            assert!(found.is_some(), "seed {}: a lookup of nobody's", self.random.seed);
            if self.random.chance(self.refusals) {
                self.life(found.unwrap().0).injected[0] = true;
                found = None;
            }
            let wait = self.random.rng.random_range(self.tables.clone());
            // As many cycles behind the question, which was taken in this one.
            self.answers.push_back((now + wait, found.map(|f| f.1)));
        }
        for item in new(&self.sinks, &mut self.seen, READ) {
            let (address, length) = (item["address"].to_u64(), item["length"].to_u64());
            assert!(address % PAGE + length <= PAGE && length > 0);
            let error = address < SHARED && self.random.chance(self.errors);
            if error {
                self.life((address >> 28) as u32).injected[1] = true;
            }
            let due = now + self.random.rng.random_range(self.host.clone());
            let early = self.random.chance(0.5).then(|| self.bytes(address, length));
            self.fetches.push_back(Fetch { due, address, length, early, error });
        }
        for item in new(&self.sinks, &mut self.seen, WRITE) {
            let (address, lanes) = (item["address"].to_u64(), u64::from(self.cfg.beat_bytes));
            let lane = address % lanes;
            assert_eq!((address % 8, item["length"].to_u64(), item["last"].to_u64()), (0, 8, 1));
            assert_eq!(item["strobe"].to_u64(), 0xff << lane);
            let value =
                item["data"].to_bytes()[lane as usize..][..8].try_into().map(u64::from_le_bytes).unwrap();
            self.writes.push((address, self.word(address), value));
            self.memory.insert(address, value);
        }
        for item in new(&self.sinks, &mut self.seen, PACKET) {
            let field = |name: &str| item[name].to_u64() as u32;
            let sent = Sent {
                qp: field("qp"),
                life: self.lives[field("qp") as usize].len() - 1,
                opcode: field("opcode") as u8,
                psn: field("psn"),
                syndrome: field("syndrome") as u8,
                msn: field("msn"),
                original: item["va"].to_u64(),
                bytes: field("payload_bytes") as usize,
                lane: field("payload_lane") as usize,
                payload: Vec::new(),
                poisoned: false,
            };
            if sent.bytes > 0 {
                self.incomplete.push_back(self.packets.len());
            }
            self.packets.push(sent);
        }
        self.beats.extend(new(&self.sinks, &mut self.seen, PAYLOAD));
        while let Some(packet) = self.incomplete.front() {
            let Some(item) = self.beats.pop_front() else { break };
            let packet = &mut self.packets[*packet];
            packet.payload.extend(item["data"].to_bytes());
            if item["last"].to_u64() == 1 {
                packet.poisoned = item["poisoned"].to_u64() == 1;
                let used = packet.lane + packet.bytes;
                assert!(
                    used <= packet.payload.len()
                        && used + self.cfg.beat_bytes as usize > packet.payload.len()
                );
                packet.payload.drain(..packet.lane);
                packet.payload.truncate(packet.bytes);
                self.incomplete.pop_front();
            }
        }
        for item in new(&self.sinks, &mut self.seen, FAULT) {
            let qp = item["qp"].to_u64() as u32;
            self.life(qp).faults += 1;
        }
        for item in new(&self.sinks, &mut self.seen, ENDED) {
            let qp = item[""].to_u64() as u32;
            let due = self.handed[qp as usize];
            assert_eq!(self.served[qp as usize], due, "seed {}: QP {qp} has ended", self.random.seed);
            let life = self.life(qp);
            assert!(life.ending && !life.ended);
            life.ended = true;
        }
        if self.sim.get("served_valid") == 1 {
            self.served[self.sim.get("served_qp") as usize] += 1;
        }
        for (i, inside) in self.inside.iter_mut().enumerate() {
            *inside += self.sim.get(&format!("accesses_{i}_enters")) as i64;
            *inside -= self.sim.get(&format!("accesses_{i}_leaves")) as i64;
            assert!(*inside >= 0, "what leaves has entered");
        }
        for (count, name) in self.counts.iter_mut().zip(["reads", "atomics", "crowded", "forgotten"]) {
            *count += self.sim.get(&format!("counts_{name}"));
        }
    }

    /// Hands over a reply, and says what must come of it.
    fn push(&mut self, qp: u32, kind: Kind, expect: &Expect, va: u64, rkey: u32) {
        let operation = expect.operation.unwrap_or(Operation::Add(0));
        let (compares, swap, compare) = operation.operands();
        let new = !expect.again && matches!(kind, Kind::Read | Kind::Atomic);
        if kind == Kind::Read && !expect.refused {
            let packets = expect.length.div_ceil(self.life(qp).mtu).max(1);
            let from = self.packets.len();
            self.asked.extend((0..packets).map(|n| (qp, (expect.psn + n) % MODULUS, from)));
        }
        self.handed[qp as usize] += u64::from(new);
        if new && kind == Kind::Read && !self.cfg.unhurried() {
            // Where the newest one begins may be known.
            let known = self.random.chance(self.known);
            let fields = [("valid", known.into()), ("qp", qp.into()), ("psn", expect.psn.into())];
            for (name, value) in fields.into_iter().chain([("address", self.address(qp, expect.at))]) {
                self.sim.set(&format!("known_{name}"), value);
            }
        }
        self.sources[REPLY].push_values(&[
            ("qp", qp.into()),
            ("kind", kind.code().into()),
            ("psn", expect.psn.into()),
            ("syndrome", expect.syndrome.into()),
            ("msn", expect.msn.into()),
            ("va", va.into()),
            ("rkey", rkey.into()),
            ("length", expect.length.into()),
            ("swap", swap.into()),
            ("compare", compare.into()),
            ("compares", compares.into()),
            ("again", expect.again.into()),
            ("refused", expect.refused.into()),
        ]);
        if kind != Kind::End && !expect.refused {
            self.life(qp).expected.push(expect.clone());
        }
    }

    fn next(&mut self, qp: u32, psns: u32) -> Expect {
        let syndrome = [0x1f, 0, 7][self.random.rng.random_range(0..3)];
        let life = self.life(qp);
        let psn = life.psn;
        life.psn = (life.psn + psns) % MODULUS;
        life.msn = (life.msn + 1) % MODULUS;
        Expect { psn, msn: life.msn, syndrome, ..Expect::default() }
    }

    fn acknowledge(&mut self, qp: u32) {
        let expect = self.next(qp, 1);
        self.push(qp, Kind::Acknowledge, &expect, 0, 0);
    }

    /// A READ of memory that nobody changes, or from offset 0 of the private word.
    fn read(&mut self, qp: u32, at: u64, length: u32) {
        let mtu = self.life(qp).mtu;
        let mut expect = self.next(qp, length.div_ceil(mtu).max(1));
        (expect.length, expect.empty) = (length, length == 0);
        expect.at = at;
        expect.data = (0..u64::from(length)).map(|i| byte(self.address(qp, at + i))).collect();
        if at == 0 {
            let private = self.life(qp).private.to_le_bytes();
            expect.data[..8].copy_from_slice(&private);
        }
        self.push(qp, Kind::Read, &expect, self.va(qp, at), Self::key(qp));
    }

    /// An atomic on the private word, or on a shared one.
    fn atomic(&mut self, qp: u32, shared: Option<u64>) {
        let add = self.random.chance(0.5);
        let near = self.word(SHARED + 8 * shared.unwrap_or(0));
        let random = self.random.rng.random();
        let life = self.life(qp);
        let operation = match (add, shared) {
            (true, _) => Operation::Add(random),
            (_, None) => Operation::Swap(if random % 3 == 0 { random } else { life.private }, random),
            (_, Some(_)) => Operation::Swap(near, random),
        };
        if shared.is_none() {
            life.private = operation.apply(life.private);
        }
        let mut expect = self.next(qp, 1);
        (expect.operation, expect.length) = (Some(operation), 8);
        expect.at = shared.map_or(self.address(qp, 0), |word| SHARED + 8 * word);
        let (va, key) = match shared {
            Some(word) => (SHARED + 8 * word, SHARED_KEY),
            None => (self.va(qp, 0), Self::key(qp)),
        };
        self.push(qp, Kind::Atomic, &expect, va, key);
    }

    fn end(&mut self, qp: u32) {
        self.life(qp).ending = true;
        self.push(qp, Kind::End, &Expect::default(), 0, 0);
    }

    /// New entries that have not been served.
    fn pending(&self, qp: u32) -> u64 {
        self.handed[qp as usize] - self.served[qp as usize]
    }

    fn drain(&mut self) {
        (self.gates, self.held) = (0.0, None);
        let mut waited = 0;
        let busy = |b: &Bench| {
            b.sources[REPLY].left() > 0
                || (0..b.cfg.qps).any(|qp| b.pending(qp) > 0)
                || b.lives.iter().any(|l| l.last().is_some_and(|l| l.ending && !l.ended))
        };
        while busy(self) {
            self.step();
            waited += 1;
            let left = self.sources[REPLY].left();
            let pending: Vec<u64> = (0..self.cfg.qps).map(|qp| self.pending(qp)).collect();
            assert!(
                waited < 50_000,
                "seed {}: {left} replies not taken; {pending:?} not served",
                self.random.seed
            );
        }
        // Repetitions may still be pending. Payload is a sign of life, too: the largest takes more cycles than that.
        let mut still = 0;
        while still < 600 {
            let before = (self.packets.len(), self.sinks[PAYLOAD].items.len());
            self.step();
            still =
                if (self.packets.len(), self.sinks[PAYLOAD].items.len()) == before { still + 1 } else { 0 };
        }
        assert!(
            self.fetches.is_empty()
                && self.incomplete.is_empty()
                && self.beats.is_empty()
                && self.answers.is_empty()
        );
        assert_eq!(self.inside, [0; 3], "whatever was looked up is done with");
    }

    /// All that came against all that had to come; gives how many repetitions were not answered, how many of them could
    /// not be, and how many need not be.
    fn compare(&mut self) -> [u64; 3] {
        self.drain();
        let seed = self.random.seed;
        let mut missing = [0; 3];
        for qp in 0..self.cfg.qps {
            for (number, life) in self.lives[qp as usize].iter().enumerate() {
                let sent = self.packets.iter().filter(|s| s.qp == qp && s.life == number && !s.poisoned);
                let sent: Vec<&Sent> = sent.collect();
                let here = life.check(&sent);
                let here = here.unwrap_or_else(|e| panic!("seed {seed}, QP {qp}, life {number}: {e}"));
                (0..3).for_each(|i| missing[i] += here[i]);
                assert!(self.served[qp as usize] == self.handed[qp as usize]);
            }
        }
        // Executed atomics answer in the order in which they wrote; one whose compare failed writes nothing.
        let mut words: HashMap<u64, u64> = HashMap::new();
        for (address, before, _) in &self.writes {
            words.entry(*address).or_insert(*before);
        }
        let mut writes = self.writes.iter();
        let mut answered: HashMap<(u32, usize, u32), u64> = HashMap::new();
        let mut failed = 0;
        for sent in self.packets.iter().filter(|s| s.opcode == 0x12) {
            let name = (sent.qp, sent.life, sent.psn);
            if let Some(first) = answered.get(&name) {
                assert_eq!(*first, sent.original, "seed {seed}: a repetition has another answer");
                continue;
            }
            let life = &self.lives[sent.qp as usize][sent.life];
            let expect = life.expected.iter().find(|e| e.psn == sent.psn && e.operation.is_some()).unwrap();
            let operation = expect.operation.unwrap();
            let word = words.get(&expect.at).copied().unwrap_or_else(|| self.word(expect.at));
            assert_eq!(sent.original, word, "seed {seed}: not atomic");
            answered.insert(name, word);
            if matches!(operation, Operation::Swap(compare, _) if compare != word) {
                failed += 1;
                continue;
            }
            let (address, before, after) = *writes.next().expect("an answer without a write");
            assert_eq!((address, before), (expect.at, word), "seed {seed}");
            assert_eq!(after, operation.apply(before), "seed {seed}");
            words.insert(address, after);
        }
        self.failed += failed;
        assert!(writes.next().is_none(), "seed {seed}: a write without an answer");
        missing
    }

    /// Replies come in bursts, or one by one.
    fn pace(&mut self, i: u32) {
        let pause = if i % 200 < 80 { 0 } else { 30 };
        (0..self.random.rng.random_range(0..=pause)).for_each(|_| self.step());
        let mut waited = 0;
        while self.sources[REPLY].left() > 8 {
            self.step();
            waited += 1;
            assert!(waited < 20_000, "seed {}: replies are not taken", self.random.seed);
        }
    }

    /// Something for a QP, at random.
    fn something(&mut self, qp: u32, repeats: f64) {
        if self.random.chance(repeats) {
            return if self.random.chance(0.3) { self.go_back(qp) } else { self.repeat(qp) };
        }
        let mtu = self.life(qp).mtu;
        let pick = self.random.rng.random_range(0..10);
        if pick < 3 || self.pending(qp) >= 16 {
            return self.acknowledge(qp);
        }
        match pick {
            3 => self.read(qp, 0, 8),
            4 => self.atomic(qp, None),
            5 => {
                let word = self.random.rng.random_range(0..SHARED_WORDS);
                self.atomic(qp, Some(word));
            }
            6 => {
                let length = [0, mtu, 2 * mtu, 4 * mtu + 1][self.random.rng.random_range(0..4)];
                self.read(qp, PAGE, length);
            }
            _ => {
                let length = self.random.rng.random_range(1..=3 * mtu);
                let room = PAGES * PAGE - u64::from(length);
                let end = PAGE * self.random.rng.random_range(2..PAGES);
                let at = match self.random.chance(0.5) {
                    true => self.random.rng.random_range(8..=room),
                    false => (end - self.random.rng.random_range(1..300)).min(room),
                };
                self.read(qp, at, length);
            }
        }
    }
}

#[test]
fn replies_leave_in_the_order_of_each_queue_pair_with_the_right_bytes() {
    let mut totals = [0; 4];
    for (beat_bytes, stall, host, seed) in [
        (8, 0.0, 1..=1, 1),
        (64, 0.0, 1..=1, 2),
        (8, 0.3, 1..=40, 3),
        (64, 0.3, 100..=300, 4),
        (64, 0.6, 1..=10, 5),
    ] {
        let mut bench = Bench::new(beat_bytes, 8, seed, stall);
        bench.host = host;
        bench.tables = 4..=9;
        bench.gates = if seed > 2 { 0.02 } else { 0.0 };
        bench.known = 0.5;
        for i in 0..1500 {
            let qp = bench.random.rng.random_range(0..8u32).min(bench.random.rng.random_range(0..8));
            bench.something(qp, 0.15);
            bench.pace(i);
        }
        let [missing, unknown, needless] = bench.compare();
        bench.check_charges();
        let [_, _, crowded, forgotten] = bench.counts;
        let dropped = crowded + forgotten;
        assert!(
            (missing - needless..=missing).contains(&dropped),
            "seed {seed}: {dropped}, {missing} {needless}"
        );
        assert!(forgotten <= unknown, "seed {seed}: {forgotten} of {unknown} atomics");
        println!("{beat_bytes}: {} cycles, {:?}", bench.sim.cycles(), bench.counts);
        totals.iter_mut().zip(bench.counts).for_each(|(t, c)| *t += c);
        assert!(bench.sinks[FAULT].items.is_empty());
    }
    assert!(totals.iter().all(|n| *n > 0), "every way is taken: {totals:?}");
}

#[test]
fn failures_and_ends_concern_one_queue_pair_and_nothing_of_a_former_life_comes_later() {
    let mut totals = [0; 3];
    for (beat_bytes, stall, host, seed) in [
        (8, 0.0, 1..=1, 11),
        (64, 0.0, 1..=30, 12),
        (64, 0.3, 1..=100, 13),
        (8, 0.5, 1..=5, 14),
        (64, 0.0, 250..=250, 15),
    ] {
        let mut bench = Bench::new(beat_bytes, 8, seed, stall);
        (bench.host, bench.tables) = (host, 4..=9);
        (bench.refusals, bench.errors) = (0.03, 0.03);
        bench.gates = if seed > 12 { 0.02 } else { 0.0 };
        bench.known = 0.3;
        for i in 0..2000 {
            let qp = bench.random.rng.random_range(0..8u32);
            let life = bench.life(qp);
            let ends = if life.faults > 0 { 0.2 } else { 0.02 };
            if life.ended {
                let mtu = [256, 512, 1024, 4096][bench.random.rng.random_range(0..4)];
                bench.start(qp, mtu);
            } else if bench.life(qp).ending {
                bench.step();
            } else if bench.random.chance(ends) {
                bench.end(qp);
            } else {
                bench.something(qp, 0.1);
            }
            bench.pace(i);
        }
        bench.compare();
        let lives: Vec<&Life> = bench.lives.iter().flatten().collect();
        let count = |f: &dyn Fn(&&&Life) -> bool| lives.iter().filter(f).count();
        let kinds = [count(&|l| l.injected[0]), count(&|l| l.injected[1]), count(&|l| l.ended)];
        println!("{beat_bytes}: {} cycles, refused, failed, ended: {kinds:?}", bench.sim.cycles());
        totals.iter_mut().zip(kinds).for_each(|(t, k)| *t += k);
    }
    assert!(totals.iter().all(|n| *n > 20), "{totals:?}");
}

#[test]
fn ends_of_all_queue_pairs_at_once_are_told_whether_they_did_anything_or_not() {
    let mut bench = Bench::new(64, 16, 21, 0.0);
    bench.host = 50..=50;
    for qp in 0..8 {
        (0..6).for_each(|i| bench.read(qp, PAGE, 256 * i));
        bench.acknowledge(qp);
    }
    (0..16).for_each(|qp| bench.end(qp));
    bench.compare();
    assert_eq!(bench.sinks[ENDED].items.len(), 16);
    // And again, with nothing in between.
    (0..16).for_each(|qp| bench.start(qp, 256));
    (0..16).for_each(|qp| bench.end(qp));
    bench.compare();
    assert_eq!(bench.sinks[ENDED].items.len(), 32);
}

#[test]
fn a_long_read_keeps_nobody_waiting() {
    let mut bench = Bench::new(64, 16, 31, 0.0);
    bench.read(0, PAGE, 10 * 4096);
    (0..40).for_each(|_| bench.step());
    for qp in 1..4 {
        bench.read(qp, PAGE, 64);
    }
    bench.compare();
    let order: Vec<u64> = bench.sinks[PACKET].values("qp");
    let last = order.iter().rposition(|qp| *qp != 0).unwrap();
    assert!(last < 30, "{order:?}");
    assert_eq!(order.len(), 160 + 3);
}

#[test]
fn an_acknowledgement_passes_in_five_cycles_while_others_read() {
    let mut bench = Bench::new(64, 16, 32, 0.0);
    bench.host = 250..=250;
    (0..40).for_each(|_| bench.step());
    bench.acknowledge(3);
    (0..10).for_each(|_| bench.step());
    assert_eq!(bench.sinks[PACKET].cycles[0] - bench.sources[REPLY].cycles[0], 5);
    for _ in 0..16 {
        bench.read(1, PAGE, 256);
    }
    (0..60).for_each(|_| bench.step());
    bench.acknowledge(3);
    (0..10).for_each(|_| bench.step());
    let at = |cycles: &[u64]| cycles[cycles.len() - 1];
    assert_eq!(bench.sinks[PACKET].values("qp"), [3, 3]);
    assert_eq!(at(&bench.sinks[PACKET].cycles) - at(&bench.sources[REPLY].cycles), 5);
    bench.compare();
}

#[test]
fn what_the_first_lookup_of_a_read_found_is_not_asked_for_again() {
    // Lookups, and cycles until memory is asked: of a READ in two packets, and one whose first packet goes on to another page.
    let ask = |known: f64, at: u64| {
        let mut bench = Bench::new(64, 4, 1, 0.0);
        bench.known = known;
        (0..20).for_each(|_| bench.step());
        let from = bench.sim.cycles();
        bench.read(1, at, 300);
        while bench.sinks[READ].items.is_empty() {
            bench.step();
        }
        let waited = bench.sim.cycles() - from;
        bench.compare();
        (bench.sinks[LOOKUP].items.len(), waited)
    };
    let [asked, known] = [0.0, 1.0].map(|known| ask(known, 0));
    assert_eq!((asked.0, known.0), (2, 1));
    assert_eq!(asked.1 - known.1, 3, "the tables answer in 4 cycles, what is known comes in one");
    let [asked, known] = [0.0, 1.0].map(|known| ask(known, 2 * PAGE - 8));
    assert_eq!(asked, known);
}

#[test]
fn acknowledgements_and_responses_take_turns_where_the_wire_is_slow() {
    for beat_bytes in [8, 64] {
        let mut bench = Bench::new(beat_bytes, 16, 33, 0.0);
        // A response waits whenever a packet is taken.
        bench.sinks[PACKET].stall = Some(0.97);
        for qp in 1..3 {
            (0..16).for_each(|_| bench.read(qp, PAGE, 64));
        }
        (0..200).for_each(|_| bench.step());
        (0..6).for_each(|_| bench.acknowledge(3));
        bench.compare();
        let order = bench.sinks[PACKET].values("qp");
        let at: Vec<usize> = (0..order.len()).filter(|i| order[*i] == 3).collect();
        assert!(at.len() == 6 && at[5] - at[0] <= 10 && at[5] < 30, "{beat_bytes} bytes a beat: {order:?}");
    }
}

/// Cycles from one to the next in the middle of a run of many.
fn steady(cycles: &[u64]) -> f64 {
    let (from, to) = (cycles.len() / 4, cycles.len() * 3 / 4);
    (cycles[to] - cycles[from]) as f64 / (to - from) as f64
}

#[test]
fn reads_and_atomics_take_the_cycles_that_they_may() {
    // Payload goes at a beat a cycle, as to the wire.
    for host in [0, 250] {
        for qps in [1, 16] {
            let mut bench = Bench::new(64, 16, 41, 0.0);
            bench.host = host..=host;
            for i in 0..600 {
                bench.read(i % qps, PAGE, 64);
                while bench.pending(i % qps) >= if qps == 1 { 100 } else { 16 } {
                    bench.step();
                }
            }
            bench.compare();
            let cycles = steady(&bench.sinks[PACKET].cycles);
            println!("READ of 64 bytes, {qps} QPs, {host} cycles of host latency: {cycles} cycles");
            assert!(cycles <= 4.0);
        }
        for (mtu, most) in [(1024, 17.5), (4096, 66.0)] {
            let mut bench = Bench::new(64, 16, 42, 0.0);
            bench.host = host..=host;
            for qp in 0..2 {
                bench.end(qp);
                bench.drain();
                bench.start(qp, mtu);
            }
            (0..12).for_each(|i| bench.read(i % 2, PAGE + 20, 40_000));
            bench.compare();
            let cycles = steady(&bench.sinks[PACKET].cycles);
            println!("READ response of {mtu} bytes, {host} cycles of host latency: {cycles} cycles");
            assert!(cycles <= most);
        }
        for (words, qps) in [(1, 4), (4, 16)] {
            let mut bench = Bench::new(64, 16, 43, 0.0);
            bench.host = host..=host;
            for i in 0..300 {
                bench.atomic(i % qps, Some(u64::from(i) % words));
                while bench.pending(i % qps) > 15 {
                    bench.step();
                }
            }
            bench.compare();
            let cycles = steady(&bench.sinks[PACKET].cycles);
            println!("atomic on {words} words, {qps} QPs, {host} cycles of host latency: {cycles} cycles");
            assert!(cycles <= 16.0);
        }
        let mut bench = Bench::new(64, 16, 44, 0.0);
        (0..40).for_each(|_| bench.step());
        bench.host = host..=host;
        bench.read(5, PAGE, 64);
        bench.compare();
        let latency = bench.sinks[PACKET].cycles[0] - bench.sources[REPLY].cycles[0] - host.max(1);
        println!("from a reply to its READ response: {latency} cycles and the host's");
        assert!(latency <= 15);
    }
}

#[test]
fn the_engine_passes_the_build_time_checks_at_every_configuration() {
    for (name, _) in crate::config::BUILT_IN {
        let net = netlist(&RnicConfig::named(name).unwrap());
        if let Ok(dir) = std::env::var("DUMP") {
            std::fs::write(format!("{dir}/{name}.v"), net.verilog()).unwrap();
        }
    }
}
