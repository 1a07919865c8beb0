// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every transport engine passes the build-time checks at every width.

use crate::config::RnicConfig;
use crate::context::congestion::Gate;
use crate::memory::{Done, Lookup, Translation};
use crate::types::*;
use ferrowire_rtl::{bits, build, Bundle, Scope};

fn broadcast(m: &Scope, cfg: &RnicConfig) -> QpBroadcast {
    m.input_of("broadcast", &QpBroadcast::of(cfg))
}

fn translation() -> Translation {
    Translation::of()
}

fn each(name: &str, body: impl Fn(&Scope, &RnicConfig)) {
    for beat_bytes in [8, 16, 32, 64] {
        let mut cfg = RnicConfig::named("generic-8b").unwrap();
        cfg.beat_bytes = beat_bytes;
        if let Err(errors) = build(name, |m| body(m, &cfg)) {
            panic!("{name} at {beat_bytes} bytes a beat:\n{errors}");
        }
    }
    let _ = Lookup::of();
}

#[test]
fn schedule_elaborates() {
    use crate::requester::*;
    each("bench", |m, cfg| {
        let out = schedule(
            m,
            cfg,
            broadcast(m, cfg),
            m.stream_in("start", &SqStart::of(cfg)),
            m.input("started", 1),
            m.stream_in("doorbell", &SqDoorbell::of(cfg)),
            m.stream_in("resume", &Resume::of(cfg)),
            m.stream_in("kick", &Kick::of(cfg)),
            m.stream_in("eased", &Eased::of(cfg)),
            m.input_of("oldest", &Oldest::write_of(cfg)),
            m.input_of("reads_done", &crate::types::reads_done_of(cfg)),
            m.input("returned", 1),
            m.input("plenty", 1),
            m.input("another", 1),
            m.input_of("gate", &Gate::write_of(cfg)),
            m.input("paused", 8),
            crate::types::Pushes::of(cfg).zeros(),
            Freed::of(cfg).zeros(),
            cfg.selective.then(|| (m.stream_in("asks", &Ask::of(cfg)), m.input("again_returned", 1))),
        );
        if let Some((grants, kinds)) = out.again {
            m.stream_out("again_grants", grants);
            m.stream_out("kinds", kinds);
        }
        m.output("asked", &out.asked);
        let data = m.stream_in("data", &DmaReadData::of(cfg));
        m.stream_out("read", out.read);
        m.stream_out("flush", out.flush);
        m.stream_out("overrun", out.overruns);
        m.output("waiting", &out.waiting);
        let fetched = fetch(m, cfg, grain(cfg), out.grants, data, vec![]).0;
        let forgotten = m.input_of("forgotten", &Released::of());
        let listed = list(m, cfg, fetched, forgotten, m.input("released", BANKS));
        m.stream_out("wqe", listed.wqes);
        m.output("stored", &listed.stored);
        m.output("unit_returned", &listed.returned);
    });
}

#[test]
fn segment_and_commit_elaborate() {
    use crate::requester::*;
    each("bench", |m, cfg| {
        let b = broadcast(m, cfg);
        let wqes = m.stream_in("wqes", &Wqe::of(cfg));
        let s = segment(
            m,
            cfg,
            b.clone(),
            m.input_of("starting", &SqStart::of(cfg)),
            wqes,
            m.stream_in("restarts", &Restart::of(cfg)),
            m.input_of("oldest", &Oldest::write_of(cfg)),
            m.input_of("reads_done", &crate::types::reads_done_of(cfg)),
            m.input_of("waiting", &Waiting::of(cfg)),
            m.input_of("gate", &Gate::write_of(cfg)),
            m.input("paused", 8),
            m.input_of("handles", &crate::host::AhEntry::write_of(cfg)),
            m.input_of("withdrawals", &crate::memory::Withdrawals::write_of(cfg)),
            cfg.selective.then(|| m.stream_in("repeats", &Wqe::of(cfg))),
        );
        m.output("charge", &s.charge);
        m.output("another", &s.another);
        m.stream_out("resume", s.resume);
        m.output("forgotten", &s.forgotten);
        let stored = stored_of(cfg);
        let g = gather(m, cfg, s.candidates, m.input_of("stored", &stored));
        m.output("released", &g.released);
        m.output("kept", &g.kept);
        let c = commit(
            m,
            cfg,
            b,
            m.input_of("handles2", &crate::host::AhEntry::write_of(cfg)),
            m.stream_in("init2", &QpInit::of(cfg)),
            m.stream_in("barred", &Bar::of(cfg)),
            m.input_of("oldest2", &Oldest::write_of(cfg)),
            g.parts,
            s.operands,
            m.input_of("answer", &translation()),
            m.input_of("operated", &Done::of()),
            m.input("taken", 1),
            m.input("credits", 2),
        );
        m.stream_out("lookup", c.lookup);
        m.stream_out("operation", c.operations);
        m.output("taken_back", &c.taken_back);
        m.stream_out("read", c.read);
        let data = m.stream_in("data", &DmaReadData::of(cfg));
        let p = payload(m, cfg, data, c.ends, m.stream_in("init3", &QpInit::of(cfg)));
        m.output("payload_taken", &p.taken);
        let l = launch(
            m,
            cfg,
            m.input_of("starting2", &SqStart::of(cfg)),
            c.reports,
            c.packets,
            p.verdicts,
            m.stream_in("flush", &Flush::of(cfg)),
        );
        let sources = Sources { read: p.payload, inline: g.inline, verdicts: l.inline };
        m.stream_out("payload", take_turns(m, c.turns, sources));
        m.output("plenty", &c.plenty);
        m.output("again", &c.again);
        m.stream_out("packets", l.packets);
        m.stream_out("sent", l.sent);
        m.stream_out("flushed", l.flush);
        m.stream_out("bars", l.barred);
        for (i, started) in l.started.into_iter().enumerate() {
            m.stream_out(&format!("started{i}"), started);
        }
        m.output("credit", &l.credit);
        m.output("done", &l.done);
        m.output("late", &l.late);
    });
}

#[test]
fn completer_elaborates() {
    each("bench", |m, cfg| {
        let input = crate::completer::Input {
            init: m.stream_in("init", &SqStart::of(cfg)),
            sent: m.stream_in("sent", &crate::requester::Sent::of(cfg)),
            departed: m.stream_in("departed", &crate::context::timer::Departed::of(cfg)),
            answers: m.stream_in("answers", &Headers::of()),
            flush: m.stream_in("flush", &crate::requester::Flush::of(cfg)),
            outcomes: m.stream_in("outcome", &crate::responder::Outcome::of()),
            kept: m.input_of("kept", &crate::requester::KeptSge::of(cfg)),
            data: m.stream_in("recalled", &DmaReadData::of(cfg)),
            late: m.input("late", 1),
            tick: m.input("tick", 1),
            probe: m.input("probe_time", crate::context::timer::PROBE_BITS),
            withdrawals: m.input_of("withdrawals", &crate::memory::Withdrawals::write_of(cfg)),
            over: m.stream_in("over", &bits(cfg.qp_bits())),
            query: m.input("query", cfg.qp_bits()),
        };
        let t = crate::completer::completer(m, cfg, broadcast(m, cfg), input);
        m.stream_out("completions", t.completions);
        for (i, faults) in t.faults.into_iter().enumerate() {
            m.stream_out(&format!("faults{i}"), faults);
        }
        m.stream_out("runs", t.runs);
        m.stream_out("values", t.values);
        m.stream_out("recall", t.read);
        for (i, kicks) in t.kicks.into_iter().enumerate() {
            m.stream_out(&format!("kicks{i}"), kicks);
        }
        m.stream_out("eased", t.eased);
        if let Some(probe) = t.probe {
            m.stream_out("probe", probe);
        }
        m.output("reads_done", &t.reads_done);
        m.output("oldest", &t.oldest);
        m.stream_out("restarts", t.restarts);
        m.output("freed", &t.freed);
        m.output("recovered", &t.recovered);
        m.output("credit", &t.credit);
        m.output("marked", &t.marked);
        m.output("next_psn", &t.next_psn);
        m.output("counts", &t.counts);
    });
}

#[test]
fn responder_elaborates() {
    each("bench", |m, cfg| {
        let input = crate::responder::Input {
            init: m.stream_in("init", &QpInit::of(cfg)),
            shared: m.input_of("shared", &crate::host::SrqControl::of(cfg)),
            doorbell: m.stream_in("doorbell", &crate::responder::RqDoorbell::of(cfg)),
            data: m.stream_in("data", &DmaReadData::of(cfg)),
            requests: m.stream_in("requests", &Headers::of()),
            frames: m.stream_in("frames", &crate::stream::Beat::of(cfg.beat_bytes)),
            arrivals: m.stream_in("arrivals", &bits(1)),
            runs: m.stream_in("runs", &crate::responder::Run::of(cfg)),
            values: m.stream_in("values", &bits(64)),
            answer: m.input_of("answer", &translation()),
            reply_answer: m.input_of("reply_answer", &translation()),
            operated: m.input_of("operated", &Done::of()),
            changed: m.input("changed", 1),
            reply_data: m.stream_in("reply_data", &DmaReadData::of(cfg)),
            gate: m.input_of("gate", &Gate::write_of(cfg)),
            paused: m.input("paused", 8),
            may_loop: m.input("may_loop", 1),
            query: m.input("query", cfg.qp_bits()),
        };
        let r = crate::responder::responder(m, cfg, broadcast(m, cfg), input);
        m.stream_out("lookup", r.lookup);
        m.stream_out("outcomes", r.outcomes);
        m.stream_out("read", r.read);
        m.stream_out("write", r.write);
        m.stream_out("packets", r.source.packet);
        m.stream_out("payload", r.source.payload.expect("payload of responses"));
        m.stream_out("reply_lookup", r.reply_lookup);
        m.stream_out("operation", r.operations);
        m.stream_out("reply_read", r.reply_read);
        m.stream_out("atomic_write", r.atomic_write);
        for (i, completions) in r.completions.into_iter().enumerate() {
            m.stream_out(&format!("completions{i}"), completions);
        }
        for (i, faults) in r.faults.into_iter().enumerate() {
            m.stream_out(&format!("faults{i}"), faults);
        }
        m.stream_out("report", r.reports);
        m.stream_out("overrun", r.overruns);
        m.output("status", &r.status);
        m.output("busy", &r.busy);
        m.output("marked", &r.marked);
        m.output("expected_psn", &r.expected_psn);
        m.stream_out("charges", r.charges);
        m.output("reserves", &r.reserves);
        m.output("unspent", &r.unspent);
        m.output("counts", &r.counts);
        m.output("reply_counts", &r.reply_counts);
    });
}
