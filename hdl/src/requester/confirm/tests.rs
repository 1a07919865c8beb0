// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random reports, flushes and starts, in the order of `launch`, against what becomes of each.

use super::*;
use crate::requester::FirstSge;
use crate::testing::{item, step, Item, Random, Sink, Source};
use ferrowire_rtl::{bits, build};
use rand::Rng;

const RAW: u64 = RAW_QPN as u64;
const REPORTS: usize = 0;
const FLUSHES: usize = 1;
const STARTS: usize = 2;
const BARS: usize = 3;

/// What leaves, by stream.
type Seen = (usize, Item);

#[test]
fn each_report_of_a_raw_frame_waits_for_its_verdict_and_others_for_nothing() {
    for seed in 1..6 {
        let cfg = RnicConfig::named("generic-8b").unwrap();
        let netlist = build("bench", |m| {
            let sent = m.stream_in("sent", &Sent::of(&cfg));
            let flush = m.stream_in("flush", &Flush::of(&cfg));
            let start = m.stream_in("start", &SqStart::of(&cfg));
            let verdicts = m.stream_in("verdict", &bits(1));
            let anew = m.wire("anew", 1);
            let out = confirm(m, &cfg, sent, flush, vec![start], verdicts, anew);
            // The SGE of what has no answer means nothing.
            let known = |sent: &Sent| Sent {
                sge: m.mux(sent.answered, &sent.sge, &FirstSge::of().zeros()),
                ..sent.clone()
            };
            m.stream_out("out", out.sent.map(known));
            m.stream_out("flushed", out.flush);
            let started = out.started.into_iter().next().expect("one");
            m.drive(&anew, started.fire() & started.qp.eq(RAW_QPN));
            m.stream_out("started", started);
            m.stream_out("barred", out.barred);
            let credits = m.reg("credits", 16).reset(0);
            m.set(&credits, credits + out.credit.zext(16));
            m.output("credits", &credits);
        });
        let mut sim = ferrowire_rtl::Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let mut sources = [
            Source::new("sent", &Sent::of(&cfg)),
            Source::new("flush", &Flush::of(&cfg)),
            Source::new("start", &SqStart::of(&cfg)),
            Source::new("verdict", &bits(1)),
        ];
        let mut sinks = [
            Sink::new("out", &Sent::of(&cfg)),
            Sink::new("flushed", &Flush::of(&cfg)),
            Sink::new("started", &SqStart::of(&cfg)),
            Sink::new("barred", &Bar::of(&cfg)),
        ];
        let mut random = Random::new(seed);
        let (mut of_raw, mut others): (Vec<Seen>, Vec<Seen>) = Default::default();
        // Verdicts that are still to come, and what is known of the raw queue pair.
        let (mut verdicts, mut barred, mut credits) = (std::collections::VecDeque::new(), false, 0);
        let (mut refused, mut starts, mut given) = (0, 0, 0u32);
        for index in 0..3000u32 {
            let qp = if random.chance(0.6) { RAW } else { random.rng.random_range(1..8) };
            let own = qp == RAW;
            let kind = random.rng.random_range(0..40);
            let (to, stream, beat) = match kind {
                0 => (1, FLUSHES, item(&Flush::of(&cfg), &[("qp", qp.into()), ("producer", index.into())])),
                1..=3 => (2, STARTS, item(&SqStart::of(&cfg), &[("qp", qp.into()), ("index", index.into())])),
                _ => {
                    let framed = kind > 5;
                    let mut values = vec![
                        ("qp", u128::from(qp)),
                        ("index", index.into()),
                        ("psn", (7 * index).into()),
                        ("length", random.rng.random_range(14..4097)),
                        ("signaled", random.rng.random_range(0..2)),
                        ("last", 1),
                        ("fresh", 1),
                        ("wqe_opcode", SendOpcode::Send.code().into()),
                    ];
                    if !framed {
                        values.push(("status", WcStatus::LocProtErr.code().into()));
                    }
                    (0, REPORTS, item(&Sent::of(&cfg), &values))
                }
            };
            sources[to].push(beat.clone());
            let mut seen = Some(beat.clone());
            if own && stream == REPORTS && beat["status"].is_zero() {
                let stops = barred || random.chance(0.05);
                verdicts.push_back(stops);
                credits += u64::from(stops);
                if stops {
                    let mut failed = beat;
                    let fields =
                        [("status", WcStatus::LocQpOpErr.code()), ("cause", LocalCause::RawRoce.code())];
                    for (field, value) in fields {
                        failed.insert(field.into(), ferrowire_rtl::Bits::new(8, value.into()));
                    }
                    seen = (!barred).then_some(failed);
                    refused += u64::from(!barred);
                    barred = true;
                }
            } else if own && stream == REPORTS && barred {
                seen = None;
            } else if own && stream == STARTS {
                barred = false;
                starts += 1;
            }
            let order = if own { &mut of_raw } else { &mut others };
            order.extend(seen.map(|seen| (stream, seen)));
            // Verdicts come when they like. Behind a raw frame, a start or the like waits for them.
            let stall = [0.0, 0.4][seed as usize % 2];
            let mut cycles = 0;
            while sources[to].left() > 0 {
                if !verdicts.is_empty() && sources[3].left() == 0 && random.chance(0.3) {
                    given += 1;
                    sources[3].push_values(&[("", verdicts.pop_front().expect("one").into())]);
                }
                step(&mut sim, &mut sources, &mut sinks, &mut random, stall);
                cycles += 1;
                assert!(cycles < 10_000, "seed {seed}: it is not taken");
            }
        }
        while !verdicts.is_empty() || sources[3].left() > 0 {
            if let Some(verdict) = verdicts.pop_front() {
                sources[3].push_values(&[("", verdict.into())]);
            }
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
        }
        (0..20).for_each(|_| step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0));
        // What came, in the order in which it came.
        let mut came: Vec<(u64, usize, Item)> = Vec::new();
        for (stream, sink) in sinks[..BARS].iter().enumerate() {
            came.extend(sink.cycles.iter().zip(&sink.items).map(|(c, item)| (*c, stream, item.clone())));
        }
        came.sort_by_key(|(cycle, stream, _)| (*cycle, *stream));
        let of = |own: bool| {
            let came = came.iter().filter(move |(_, _, item)| (item["qp"].to_u64() == RAW) == own);
            came.map(|(_, stream, item)| (*stream, item.clone())).collect::<Vec<Seen>>()
        };
        assert!(of(true) == of_raw, "seed {seed}: the raw queue pair");
        assert!(of(false) == others, "seed {seed}: others");
        let bars: Vec<u64> = sinks[BARS].values("index");
        let failed = of_raw.iter().filter(|(stream, item)| {
            *stream == REPORTS && item["cause"].to_u64() == u64::from(LocalCause::RawRoce.code())
        });
        assert_eq!(bars, failed.map(|(_, item)| item["index"].to_u64()).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(sim.get("credits"), credits, "seed {seed}");
        assert!(refused > 20 && starts > 20 && given > 500, "{refused}, {starts}, {given}");
    }
}

#[test]
fn reports_of_others_pass_at_once_while_raw_frames_wait() {
    let cfg = RnicConfig::named("generic-8b").unwrap();
    let netlist = build("bench", |m| {
        let sent = m.stream_in("sent", &Sent::of(&cfg));
        let none = |name: &str| m.stream_in(name, &bits(1));
        let flush = m.stream_in("flush", &Flush::of(&cfg));
        let out = confirm(m, &cfg, sent, flush, vec![], none("verdict"), m.input("anew", 1));
        m.stream_out("out", out.sent);
        m.stream_out("flushed", out.flush);
        m.stream_out("barred", out.barred);
        m.output("credit", &out.credit);
    });
    let mut sim = ferrowire_rtl::Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
    sim.reset();
    let mut sources = [Source::new("sent", &Sent::of(&cfg))];
    let mut sinks = [Sink::new("out", &Sent::of(&cfg))];
    let mut random = Random::new(1);
    for i in 0..100u128 {
        let qp = if i % 2 == 0 { u128::from(RAW) } else { 3 };
        sources[0].push_values(&[("qp", qp), ("index", i), ("last", 1), ("fresh", 1)]);
    }
    for _ in 0..200 {
        step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
    }
    assert_eq!(sources[0].left(), 0, "a report in two cycles, whatever it is");
    assert_eq!(sinks[0].values("qp"), vec![3; 50], "no raw frame without a verdict");
}

#[test]
fn a_flush_or_a_start_does_not_pass_the_report_before_it() {
    let cfg = RnicConfig::named("generic-8b").unwrap();
    let netlist = build("bench", |m| {
        let (sent, flush) = (m.stream_in("sent", &Sent::of(&cfg)), m.stream_in("flush", &Flush::of(&cfg)));
        let (start, verdicts) = (m.stream_in("start", &SqStart::of(&cfg)), m.stream_in("verdict", &bits(1)));
        let out = confirm(m, &cfg, sent, flush, vec![start], verdicts, m.input("anew", 1));
        m.stream_out("out", out.sent);
        m.stream_out("flushed", out.flush);
        m.stream_out("started", out.started.into_iter().next().expect("one"));
        m.stream_out("barred", out.barred);
        m.output("credit", &out.credit);
    });
    let mut sim = ferrowire_rtl::Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
    sim.reset();
    let shapes = (Sent::of(&cfg), Flush::of(&cfg), SqStart::of(&cfg));
    let mut sources =
        [Source::new("sent", &shapes.0), Source::new("flush", &shapes.1), Source::new("start", &shapes.2)];
    let mut sinks =
        [Sink::new("out", &shapes.0), Sink::new("flushed", &shapes.1), Sink::new("started", &shapes.2)];
    let mut random = Random::new(1);
    for round in 1..40 {
        // As `launch` does: what is behind a report is offered when that has been taken.
        sinks[0].stall = Some(1.0);
        sources[0].push_values(&[("qp", 3), ("index", round as u128)]);
        while sources[0].left() > 0 {
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
        }
        sources[1 + round % 2].push_values(&[("qp", 3)]);
        for _ in 0..round % 5 {
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
        }
        let behind = |sinks: &[Sink]| sinks[1].items.len() + sinks[2].items.len();
        assert_eq!(behind(&sinks), round - 1, "it waits for the report");
        sinks[0].stall = None;
        while behind(&sinks) < round {
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
        }
        let (report, after) = (sinks[0].cycles.last(), sinks[1 + round % 2].cycles.last());
        assert!(sinks[0].items.len() == round && report < after, "{report:?}, {after:?}");
    }
}
