// SPDX-License-Identifier: MIT OR Apache-2.0
//! The key table with its owner: random operations of three clients between lookups, against a model that does one after the other.

use super::*;
use crate::memory::{memory, Lookup, Tables};
use crate::testing::{step, Random, Sink, Source};
use ferrowire_rtl::{build, Sim};
use ferrowire_spec::QpState;
use rand::Rng;
use std::collections::VecDeque;

const QPS: u64 = 4;
const LOCAL_WRITE: u64 = Access::LocalWrite as u64;
const REMOTE_WRITE: u64 = Access::RemoteWrite as u64;
const REMOTE_READ: u64 = Access::RemoteRead as u64;
const REMOTE_ATOMIC: u64 = Access::RemoteAtomic as u64;
const MW_BIND: u64 = Access::MwBind as u64;
const ZERO_BASED: u64 = Access::ZeroBased as u64;

/// What a key is in the model.
#[derive(Clone, Copy, Debug)]
struct Key {
    tag: u64,
    pd: u64,
    access: u64,
    page_shift: u32,
    va: u64,
    length: u64,
    /// Bus address of the byte at `va`.
    base: u64,
    /// Of a window: whether it is bound, by which QP, or by one that is [`GONE`], to which region.
    window: Option<Option<(u64, usize)>>,
    /// It is a window of type 1.
    type_1: bool,
}

#[derive(Clone, Copy, Debug)]
struct Work {
    kind: OperationKind,
    qp: u64,
    key: u64,
    region: u64,
    va: u64,
    length: u64,
    access: u64,
}

/// Indices of windows.
const WINDOWS: std::ops::Range<usize> = 8..20;

/// Stands for a QP whose life has ended.
const GONE: u64 = 99;

fn domain(qp: u64) -> u64 {
    10 + qp / 2
}

fn find(keys: &[Option<Key>], key: u64) -> Result<(usize, Key), LocalCause> {
    let index = (key >> 8) as usize;
    let found = keys.get(index).copied().flatten().ok_or(LocalCause::KeyIndex)?;
    Ok((index, found))
}

/// What an operation does.
fn operate_on(keys: &mut [Option<Key>], w: &Work) -> Result<(), LocalCause> {
    let (at, key) = find(keys, w.key)?;
    let tag = w.key & 0xff;
    let bound = key.window.flatten();
    match w.kind {
        OperationKind::Bind | OperationKind::Rebind => {
            let Some(window) = key.window else { return Err(LocalCause::KeyAccess) };
            if key.type_1 != (w.kind == OperationKind::Rebind) {
                return Err(LocalCause::KeyAccess);
            }
            let unbinds = w.length == 0;
            // What a QP has left bound is as if it were not, and one of type 1 may be bound.
            let held = |(qp, _)| qp != GONE && (!unbinds || qp != w.qp);
            if !key.type_1 && window.is_some_and(held) {
                return Err(LocalCause::KeyAccess);
            }
            if unbinds {
                if key.pd != domain(w.qp) {
                    return Err(LocalCause::KeyPd);
                }
                keys[at] = Some(Key { tag, window: Some(None), ..key });
                return Ok(());
            }
            let (parent, region) = find(keys, w.region)?;
            if region.tag != w.region & 0xff {
                return Err(LocalCause::KeyTag);
            }
            if region.window.is_some() {
                return Err(LocalCause::KeyAccess);
            }
            if key.pd != domain(w.qp) || region.pd != domain(w.qp) {
                return Err(LocalCause::KeyPd);
            }
            let writes = w.access & (REMOTE_WRITE | REMOTE_ATOMIC) != 0;
            if region.access & MW_BIND == 0 || writes && region.access & LOCAL_WRITE == 0 {
                return Err(LocalCause::KeyAccess);
            }
            let end = u128::from(w.va) + u128::from(w.length);
            if w.va < region.va || end > u128::from(region.va) + u128::from(region.length) {
                return Err(LocalCause::KeyBounds);
            }
            let in_page = w.va & ((1 << region.page_shift) - 1);
            keys[at] = Some(Key {
                tag,
                access: w.access,
                page_shift: region.page_shift,
                va: if w.access & ZERO_BASED == 0 { w.va } else { in_page },
                length: w.length,
                base: region.base + (w.va - region.va),
                window: Some(Some((w.qp, parent))),
                ..key
            });
        }
        OperationKind::Invalidate => {
            if key.tag != tag {
                return Err(LocalCause::KeyTag);
            }
            if key.window.is_some() && key.pd != domain(w.qp) {
                return Err(LocalCause::KeyPd);
            }
            if key.type_1 || bound.is_none_or(|(qp, _)| qp != w.qp) {
                return Err(LocalCause::KeyAccess);
            }
            keys[at] = Some(Key { window: Some(None), ..key });
        }
        OperationKind::Remove => {
            if keys.iter().flatten().any(|k| k.window.flatten().is_some_and(|(_, parent)| parent == at)) {
                return Err(LocalCause::KeyAccess);
            }
            keys[at] = None;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
struct Question {
    key: u64,
    qp: u64,
    access: u64,
    va: u64,
    length: u64,
}

fn look_up(keys: &[Option<Key>], q: &Question) -> Result<u64, LocalCause> {
    let (_, key) = find(keys, q.key)?;
    if key.tag != q.key & 0xff {
        return Err(LocalCause::KeyTag);
    }
    let remote = q.access & (REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC) != 0;
    // One of type 1 serves all QPs of its domain.
    let serves = |(qp, _)| key.type_1 || qp == q.qp;
    if key.window.is_some_and(|bound| !remote || !bound.is_some_and(serves)) {
        return Err(LocalCause::KeyAccess);
    }
    if key.pd != domain(q.qp) {
        return Err(LocalCause::KeyPd);
    }
    if key.access & q.access != q.access {
        return Err(LocalCause::KeyAccess);
    }
    let end = u128::from(q.va) + u128::from(q.length);
    if q.va < key.va || end > u128::from(key.va) + u128::from(key.length) {
        return Err(LocalCause::KeyBounds);
    }
    Ok(key.base + (q.va - key.va))
}

struct Bench {
    sim: Sim,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    random: Random,
    keys: Vec<Option<Key>>,
    /// Operations that are asked for, by client, and what each must give.
    under_way: [VecDeque<Work>; 3],
    asked: VecDeque<Result<u64, LocalCause>>,
    done: usize,
    bound: usize,
    /// Of these, how many had been left bound by a QP, and how many of type 1 were bound.
    inherited: usize,
    rebound: usize,
    /// Lookups that a window of type 1 grants to another QP than the one that bound it.
    shared: usize,
    answered: usize,
}

impl Bench {
    fn new(seed: u64) -> Bench {
        // A question a cycle.
        let cfg = RnicConfig { qps: QPS as u32, beat_bytes: 64, ..RnicConfig::named("generic-8b").unwrap() };
        let netlist = build("bench", |m| {
            let tables = Tables {
                keys: TableWrite {
                    enable: m.input("kw", 1),
                    index: m.input("ki", 5),
                    entry: m.input_of("ke", &KeyEntry::of(&cfg)),
                },
                pages: TableWrite {
                    enable: m.input("pw", 1),
                    index: m.input("pi", clog2(u64::from(cfg.page_entries))),
                    entry: m.input("pe", 52),
                },
                domains: TableWrite {
                    enable: m.input("dw", 1),
                    index: m.input("di", 2),
                    entry: m.input("de", 24),
                },
                states: TableWrite {
                    enable: m.input("sw", 1),
                    index: m.input("si", 2),
                    entry: m.input("se", 3),
                },
            };
            let questions = vec![m.stream_in("ask", &Lookup::of()), m.stream_in("other", &Lookup::of())];
            let operations = (0..3).map(|i| m.stream_in(&format!("op{i}"), &Operation::of(&cfg))).collect();
            let out = memory(m, &cfg, tables, questions, operations);
            // What a cycle brings, seen behind its edge.
            m.output("answer", &m.delay("answered", &out.answers[0]));
            m.output("other_answer", &out.answers[1]);
            m.output("changed", &out.changed);
            for (i, done) in out.done.iter().enumerate() {
                m.output(&format!("done{i}"), &m.delay(&format!("done_{i}"), done));
            }
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let mut sources: Vec<Source> =
            (0..3).map(|i| Source::new(&format!("op{i}"), &Operation::of(&cfg))).collect();
        sources.push(Source::new("ask", &Lookup::of()));
        let mut bench = Bench {
            sim,
            sources,
            sinks: Vec::new(),
            random: Random::new(seed),
            keys: vec![None; 32],
            under_way: Default::default(),
            asked: VecDeque::new(),
            done: 0,
            bound: 0,
            inherited: 0,
            rebound: 0,
            shared: 0,
            answered: 0,
        };
        for qp in 0..QPS {
            bench.sim.set("di", qp);
            bench.sim.set("de", domain(qp));
            bench.sim.set("dw", 1);
            bench.step(0.0);
        }
        bench.sim.set("dw", 0);
        bench
    }

    /// A cycle; what ends is done in the model then.
    fn step(&mut self, stall: f64) {
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, stall);
        for client in 0..3 {
            if self.sim.get(&format!("done{client}_valid")) == 1 {
                let work = self.under_way[client].pop_front().expect("nobody asked");
                let before = find(&self.keys, work.key).ok().map(|(_, key)| key);
                let held = before.and_then(|key| Some((key, key.window.flatten()?)));
                let left = held.is_some_and(|(key, (qp, _))| qp == GONE && !key.type_1);
                let held = held.is_some_and(|(key, _)| key.type_1);
                let expected = operate_on(&mut self.keys, &work);
                let ok = self.sim.get(&format!("done{client}_ok")) == 1;
                let cause =
                    LocalCause::from_code(self.sim.get(&format!("done{client}_cause")) as u8).unwrap();
                let got = if ok { Ok(()) } else { Err(cause) };
                assert_eq!(got, expected, "seed {}: {work:x?}", self.random.seed);
                self.done += 1;
                let bound = ok && matches!(work.kind, OperationKind::Bind | OperationKind::Rebind);
                let bound = bound && work.length > 0;
                self.bound += usize::from(bound);
                self.inherited += usize::from(bound && left);
                self.rebound += usize::from(bound && held);
            }
        }
        if self.sim.get("answer_valid") == 1 {
            let ok = self.sim.get("answer_ok") == 1;
            let cause = LocalCause::from_code(self.sim.get("answer_cause") as u8).unwrap();
            let got = if ok { Ok(self.sim.get("answer_address")) } else { Err(cause) };
            let expected = self.asked.pop_front().expect("nobody asked");
            assert_eq!(got, expected, "seed {}", self.random.seed);
            self.answered += 1;
        }
    }

    fn write(&mut self, index: usize, key: Option<Key>, first_entry: u64) {
        let fields = match key {
            Some(k) => vec![
                ("valid", 1),
                ("tag", k.tag),
                ("pd", k.pd),
                ("access", k.access),
                ("page_size", u64::from((k.page_shift - 12) / 9)),
                ("va", k.va),
                ("length", k.length),
                ("first_entry", first_entry),
                ("window", k.window.is_some().into()),
                ("type_1", k.type_1.into()),
                ("link", 0),
            ],
            None => vec![("valid", 0)],
        };
        for (name, value) in fields {
            self.sim.set(&format!("ke_{name}"), value);
        }
        self.sim.set("ki", index as u64);
        self.sim.set("kw", 1);
        self.step(0.0);
        self.sim.set("kw", 0);
        self.keys[index] = key;
    }

    /// Regions 1 to 6 of two domains, the last with large pages, and windows: of type 2B 8 to 15, of type 1 16 to 19.
    fn populate(&mut self) {
        let rights = [MW_BIND | LOCAL_WRITE, MW_BIND, LOCAL_WRITE | REMOTE_WRITE, MW_BIND | LOCAL_WRITE];
        for i in 1..=6usize {
            let shift = if i == 6 { 21 } else { 12 };
            let within = self.random.rng.random_range(0..1u64 << shift);
            let va = if i == 1 { 0u64.wrapping_sub(4 * 4096) + within } else { (i as u64) << 40 | within };
            let length = if i == 1 { 4 * 4096 - within } else { (4 << shift) - within };
            let pages = self.random.rng.random_range(1..1u64 << 20) << 9;
            for page in 0..4 {
                self.sim.set("pi", 16 * i as u64 + page);
                self.sim.set("pe", pages + (page << (shift - 12)));
                self.sim.set("pw", 1);
                self.step(0.0);
                self.sim.set("pw", 0);
            }
            let key = Key {
                tag: self.random.rng.random_range(0..256),
                pd: 10 + (i as u64 & 1),
                access: rights[i % 4],
                page_shift: shift,
                va,
                length,
                base: (pages << 12) + within,
                window: None,
                type_1: false,
            };
            self.write(i, Some(key), 16 * i as u64);
        }
        for i in WINDOWS {
            self.window(i);
        }
    }

    fn window(&mut self, i: usize) {
        let tag = self.random.rng.random_range(0..256);
        let pd = 10 + (i as u64 & 1);
        let bare = Key {
            tag,
            pd,
            access: 0,
            page_shift: 12,
            va: 0,
            length: 0,
            base: 0,
            window: Some(None),
            type_1: i >= 16,
        };
        self.write(i, Some(bare), 0);
    }

    fn some_key(&mut self, range: std::ops::Range<usize>) -> u64 {
        let i = self.random.rng.random_range(range);
        let known = self.keys[i].map_or(0, |k| k.tag);
        let tag = if self.random.chance(0.1) { self.random.rng.random_range(0..256) } else { known };
        let beyond = if self.random.chance(0.02) { 32 } else { 0 };
        (i as u64 + beyond) << 8 | tag
    }

    fn some_work(&mut self) -> Work {
        let region_key = self.some_key(0..WINDOWS.end);
        let region_key = if self.random.chance(0.9) { self.some_key(1..7) } else { region_key };
        let region = self.keys.get((region_key >> 8) as usize).copied().flatten();
        let (va, room) = region.map_or((0, 1), |r| (r.va, r.length.max(1)));
        let offset = self.random.rng.random_range(0..room);
        let most = (room - offset).min(1 << 20);
        let length = match self.random.rng.random_range(0..8) {
            0 => 0,
            1 => room - offset,
            2 => room - offset + 1,
            _ => self.random.rng.random_range(1..=most),
        };
        let start = if self.random.chance(0.03) { va.wrapping_sub(1) } else { va.wrapping_add(offset) };
        let remote = [REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC];
        let mut access: u64 = remote.iter().filter(|_| self.random.chance(0.6)).sum();
        access |= if self.random.chance(0.3) { ZERO_BASED } else { 0 };
        let bind = self.random.chance(0.5);
        let key = if bind {
            self.some_key(WINDOWS) & !0xff | (0x40 + offset % 7)
        } else {
            self.some_key(7..WINDOWS.end)
        };
        let qp = self.random.rng.random_range(0..QPS);
        // Mostly what might be allowed.
        let owner = self.keys.get((key >> 8) as usize).copied().flatten();
        let right_type = !self.random.chance(0.05);
        let kind = match (bind, owner.is_some_and(|k| k.type_1) == right_type) {
            (false, _) => OperationKind::Invalidate,
            (true, true) => OperationKind::Rebind,
            (true, false) => OperationKind::Bind,
        };
        let owner = owner.and_then(|k| {
            let binder = k.window.flatten().map(|b| b.0).filter(|&qp| qp != GONE);
            binder.or(Some(2 * (k.pd - 10)))
        });
        let qp = owner.filter(|_| self.random.chance(0.7)).unwrap_or(qp);
        Work { kind, qp, key, region: region_key, va: start, length, access }
    }

    fn ask_for(&mut self, client: usize, work: Work) {
        self.sources[client].push_values(&[
            ("kind", work.kind.code().into()),
            ("qp", work.qp.into()),
            ("key", work.key.into()),
            ("region", work.region.into()),
            ("va", work.va.into()),
            ("length", work.length.into()),
            ("access", work.access.into()),
        ]);
        self.under_way[client].push_back(work);
    }

    fn look(&mut self) {
        let key = self.some_key(1..WINDOWS.end);
        let found = self.keys.get((key >> 8) as usize).copied().flatten();
        let (va, length) = found.map_or((0, 1), |k| (k.va, k.length.max(1)));
        let offset = self.random.rng.random_range(0..length.min(1 << 20));
        let most = (length - offset).min(1 << 16);
        let wanted = [0, LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC];
        let access = wanted[self.random.rng.random_range(0..wanted.len())];
        let owner = found.and_then(|k| k.window.flatten().map(|b| b.0).or(Some(2 * (k.pd - 10))));
        let any = self.random.rng.random_range(0..QPS);
        let qp = owner.filter(|&qp| qp != GONE && self.random.chance(0.7)).unwrap_or(any);
        let beyond = u64::from(self.random.chance(0.1));
        let length = self.random.rng.random_range(0..=most) + beyond * most;
        let question = Question { key, qp, access, va: va.wrapping_add(offset), length };
        self.sources[3].push_values(&[
            ("key", key.into()),
            ("pd", domain(qp).into()),
            ("qpn", qp.into()),
            ("access", access.into()),
            ("va", question.va.into()),
            ("length", question.length.into()),
        ]);
        // It is answered for the keys as they are now: nothing is under way.
        let answer = look_up(&self.keys, &question);
        let others = found.is_some_and(|k| k.type_1 && k.window.flatten().is_some_and(|b| b.0 != qp));
        self.shared += usize::from(answer.is_ok() && others);
        self.asked.push_back(answer);
    }

    /// A QP changes its state; in RESET its life ends, and nobody can use what it has bound.
    fn enter(&mut self, qp: u64, state: QpState) {
        let fields = [("si", qp), ("se", state.code().into()), ("sw", 1)];
        fields.iter().for_each(|(name, value)| self.sim.set(name, *value));
        self.step(0.0);
        self.sim.set("sw", 0);
        if state == QpState::Reset {
            let windows = self.keys.iter_mut().flatten().filter_map(|key| key.window.as_mut()?.as_mut());
            windows.filter(|(owner, _)| *owner == qp).for_each(|(owner, _)| *owner = GONE);
        }
    }

    fn drain(&mut self) {
        for _ in 0..200 {
            self.step(0.3);
        }
        assert!(self.under_way.iter().all(VecDeque::is_empty) && self.asked.is_empty());
    }
}

#[test]
fn operations_and_lookups_give_what_one_after_the_other_gives() {
    for seed in 1..=6 {
        let mut b = Bench::new(seed);
        b.populate();
        for round in 0..1200 {
            for _ in 0..b.random.rng.random_range(1..6) {
                let client = b.random.rng.random_range(0..2);
                let work = b.some_work();
                b.ask_for(client, work);
            }
            if round % 8 == 7 {
                let key = b.some_key(1..WINDOWS.end);
                let zero =
                    Work { kind: OperationKind::Remove, qp: 0, key, region: 0, va: 0, length: 0, access: 0 };
                if WINDOWS.contains(&(key as usize >> 8)) || b.keys[1..7].iter().flatten().count() == 6 {
                    b.ask_for(2, zero);
                }
            }
            b.drain();
            for _ in 0..10 {
                b.look();
            }
            b.drain();
            for i in WINDOWS {
                if b.keys[i].is_none() {
                    b.window(i);
                }
            }
            let binders = b.keys.iter().flatten().filter_map(|key| key.window.flatten()).map(|(qp, _)| qp);
            let binders: Vec<u64> = binders.filter(|&qp| qp != GONE).collect();
            let some = b.random.rng.random_range(0..QPS);
            let qp = if binders.is_empty() || b.random.chance(0.5) { some } else { binders[0] };
            let state = if b.random.chance(0.3) { QpState::Reset } else { QpState::Rts };
            b.enter(qp, state);
            if round % 100 == 99 {
                // All anew, as a reset does; an operation under way finds nothing.
                for i in 0..32 {
                    b.write(i, None, 0);
                }
                b.populate();
            }
        }
        println!(
            "{} operations, {} lookups, {} windows bound, {} of them anew, {} bound already; {} lookups by others",
            b.done, b.answered, b.bound, b.inherited, b.rebound, b.shared
        );
        assert!(b.bound > 20, "seed {seed}: {} windows bound", b.bound);
        assert!(b.inherited > 3, "seed {seed}: {} windows bound that a QP had left bound", b.inherited);
        assert!(b.rebound > 1, "seed {seed}: {} windows bound that were bound", b.rebound);
        assert!(b.shared > 10, "seed {seed}: {} lookups by QPs that had not bound the window", b.shared);
    }
}

#[test]
fn a_lookup_meets_an_operation_before_it_or_after_it_and_never_between() {
    let mut b = Bench::new(7);
    b.populate();
    let region = b.keys[3].unwrap();
    assert_eq!((region.pd, region.access & (MW_BIND | LOCAL_WRITE)), (11, MW_BIND | LOCAL_WRITE));
    let bind = Work {
        kind: OperationKind::Bind,
        qp: 2,
        key: 0x9a5,
        region: 3 << 8 | region.tag,
        va: region.va + 100,
        length: 200,
        access: REMOTE_WRITE,
    };
    b.ask_for(0, bind);
    // As many questions as are taken, all the while; refused ones come first, then only granted ones.
    let mut answers = Vec::new();
    let question = [
        ("key", 0x9a5),
        ("pd", 11),
        ("qpn", 2),
        ("access", u128::from(REMOTE_WRITE)),
        ("va", u128::from(region.va + 150)),
        ("length", 8),
    ];
    for _ in 0..60 {
        b.sources[3].push_values(&question);
    }
    for _ in 0..140 {
        step(&mut b.sim, &mut b.sources, &mut b.sinks, &mut b.random, 0.0);
        if b.sim.get("answer_valid") == 1 {
            let address = b.sim.get("answer_address");
            answers.push(if b.sim.get("answer_ok") == 1 { Some(address) } else { None });
        }
    }
    let first = answers.iter().position(Option::is_some).expect("it is bound");
    assert!(first > 0 && answers[first..].iter().all(|a| *a == Some(region.base + 150)), "{answers:?}");
    assert_eq!(answers.len(), 60, "each has its answer");
}

#[test]
fn an_operation_takes_nine_cycles_and_two_of_the_lookups() {
    let mut b = Bench::new(1);
    b.populate();
    for _ in 0..10 {
        let work = Work {
            kind: OperationKind::Invalidate,
            qp: 0,
            key: 0x800,
            region: 0,
            va: 0,
            length: 0,
            access: 0,
        };
        b.ask_for(1, work);
    }
    let mut ends = Vec::new();
    for cycle in 0..200 {
        b.step(0.0);
        if b.sim.get("done1_valid") == 1 {
            ends.push(cycle);
        }
    }
    assert_eq!(ends.len(), 10);
    assert!(ends.windows(2).all(|w| w[1] - w[0] == 9), "{ends:?}");
}

#[test]
fn a_bind_of_a_window_that_a_queue_pair_left_bound_takes_13_cycles_more_and_moves_it_whole() {
    let mut b = Bench::new(1);
    b.populate();
    let bind = |region: u64, b: &Bench, tag: u64| {
        let of = b.keys[region as usize].unwrap();
        Work {
            kind: OperationKind::Bind,
            qp: 2,
            key: 0x900 | tag,
            region: region << 8 | of.tag,
            va: of.va,
            length: 10,
            access: REMOTE_READ,
        }
    };
    let remove = |region: u64| Work {
        kind: OperationKind::Remove,
        qp: 0,
        key: region << 8,
        region: 0,
        va: 0,
        length: 0,
        access: 0,
    };
    let cycles = |b: &mut Bench, work| {
        b.ask_for(0, work);
        let mut cycles = 0;
        while !b.under_way[0].is_empty() {
            b.step(0.0);
            cycles += 1;
            assert!(cycles < 100, "it never ends");
        }
        cycles
    };
    let first = bind(3, &b, 1);
    let plain = cycles(&mut b, first);
    b.enter(2, QpState::Reset);
    let second = bind(5, &b, 2);
    assert_eq!(cycles(&mut b, second), plain + 13);
    assert_eq!(b.inherited, 1);
    // The old region is free, the new one is not.
    for region in [5, 3, 5] {
        b.ask_for(2, remove(region));
        b.drain();
    }
    assert!(b.keys[3].is_none() && b.keys[5].is_some());
}

/// The peer writes by the old key, and by the new one, in every cycle of a bind of a window that is bound: each is granted where it is in
/// force, never both, and the old one not any more when the bind has ended.
#[test]
fn a_bind_of_a_bound_window_of_type_1_ends_the_old_key_and_begins_the_new_one() {
    for asks_new in [false, true] {
        let mut b = Bench::new(8);
        b.populate();
        let region = b.keys[3].unwrap();
        let bind = |tag: u64, offset: u64, qp: u64| Work {
            kind: OperationKind::Rebind,
            qp,
            key: 0x1100 | tag,
            region: 3 << 8 | region.tag,
            va: region.va + offset,
            length: 200,
            access: REMOTE_WRITE,
        };
        b.ask_for(0, bind(0x21, 100, 2));
        b.drain();
        assert_eq!((b.bound, b.keys[17].unwrap().window), (1, Some(Some((2, 3)))));
        // By another QP of the domain.
        b.ask_for(0, bind(0x22, 150, 3));
        let key = if asks_new { 0x1122 } else { 0x1121 };
        let question = [
            ("key", key),
            ("pd", 11),
            ("qpn", 2),
            ("access", u128::from(REMOTE_WRITE)),
            ("va", u128::from(region.va + 200)),
            ("length", 8),
        ];
        let mut answers = Vec::new();
        (0..80).for_each(|_| b.sources[3].push_values(&question));
        let (mut ended, mut cycle) = (None, 0);
        while answers.len() < 80 {
            step(&mut b.sim, &mut b.sources, &mut b.sinks, &mut b.random, 0.0);
            if b.sim.get("answer_valid") == 1 {
                answers.push((cycle, b.sim.get("answer_ok") == 1));
                assert!(!answers.last().unwrap().1 || b.sim.get("answer_address") == region.base + 200);
            }
            if b.sim.get("done0_valid") == 1 {
                assert_eq!(b.sim.get("done0_ok"), 1);
                ended = Some(cycle);
            }
            cycle += 1;
            assert!(cycle < 200, "lookups wait for ever");
        }
        let ended = ended.expect("the bind ends");
        let turn = answers.iter().position(|(_, ok)| *ok == asks_new).expect("the key's state changes");
        assert!(turn > 0 && answers[turn..].iter().all(|(_, ok)| *ok == asks_new), "{answers:?}");
        // A lookup is answered 5 cycles after its entry was read; none is read while one is written, as the region's in the last cycle.
        assert!(answers.iter().all(|(at, ok)| *at < ended + 5 || *ok == asks_new), "{ended}: {answers:?}");
        // The region counts one window.
        b.keys[17] = Some(Key { tag: 0x22, window: Some(Some((3, 3))), ..b.keys[17].unwrap() });
        b.under_way[0].clear();
        let remove = |b: &mut Bench, key: u64| {
            let zero =
                Work { kind: OperationKind::Remove, qp: 0, key, region: 0, va: 0, length: 0, access: 0 };
            b.ask_for(2, zero);
            b.drain();
        };
        remove(&mut b, 0x300);
        assert!(b.keys[3].is_some(), "a window is bound to it");
        b.ask_for(1, Work { length: 0, ..bind(0x23, 0, 2) });
        b.drain();
        remove(&mut b, 0x300);
        assert!(b.keys[3].is_none());
    }
}

#[test]
fn a_reset_of_all_keys_takes_what_an_operation_is_about_to_write() {
    for delay in 0..14 {
        let mut b = Bench::new(3);
        b.populate();
        let region = b.keys[3].unwrap();
        let bind = Work {
            kind: OperationKind::Bind,
            qp: 2,
            key: 0x9a5,
            region: 3 << 8 | region.tag,
            va: region.va,
            length: 10,
            access: REMOTE_WRITE,
        };
        b.sources[0].push_values(&[
            ("kind", 0),
            ("qp", 2),
            ("key", bind.key.into()),
            ("region", bind.region.into()),
            ("va", bind.va.into()),
            ("length", bind.length.into()),
            ("access", bind.access.into()),
        ]);
        let tick = |b: &mut Bench| step(&mut b.sim, &mut b.sources, &mut b.sinks, &mut b.random, 0.0);
        (0..delay).for_each(|_| tick(&mut b));
        b.sim.set("ke_valid", 0);
        b.sim.set("kw", 1);
        for i in 0..32 {
            b.sim.set("ki", i);
            tick(&mut b);
        }
        b.sim.set("kw", 0);
        (0..30).for_each(|_| tick(&mut b));
        b.keys = vec![None; 32];
        // Nothing is there, whatever the moment.
        for (key, access) in [(0x9a5, REMOTE_WRITE), (bind.region, 0)] {
            let va = u128::from(bind.va);
            b.sources[3].push_values(&[
                ("key", key.into()),
                ("pd", 11),
                ("qpn", 2),
                ("access", access.into()),
                ("va", va),
            ]);
            b.asked.push_back(Err(LocalCause::KeyIndex));
        }
        (0..10).for_each(|_| b.step(0.0));
        assert!(b.asked.is_empty(), "delay {delay}");
    }
}
