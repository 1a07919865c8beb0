// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transport timers: one a queue pair, for the acknowledgement that it waits for or for the pause after an RNR NAK.
//!
//! ```text
//!  departed --> FIFO --+            +------------------+
//!  progress --> FIFO --+--> one a ->| kind and stamp   |
//!  pause    --> FIFO --+   cycle    | of each QP       |
//!  expiry, unless touched <-+       +------------------+
//!              |           |                 | read, one QP a cycle
//!              v           +-- suspects <-- compare <--+
//!          expired
//! ```
//!
//! A packet that leaves for the wire starts the QP's timer unless it runs; progress (an acknowledgement of something new)
//! starts it anew, and where nothing is left to wait for, the next new packet does. After progress the oldest packet may still
//! wait for the wire: the first that leaves afterwards, which is this one or a later one, starts the timer once more. An
//! expiry stops it. What has been acknowledged since is for the completer to see: an expiry that finds nothing outstanding
//! means nothing. Time is counted in ticks of 4.096 us; with code `n` a QP's acknowledgement timer expires after more than
//! `2^n` and less than `2^n + 2` ticks and one sweep, `qps` cycles (IBTA volume 1, 9.7.6.1.3: at least `4.096 us * 2^n`, at
//! most four times that); code 0 never. A pause lasts at least its code's time (IBTA volume 1, table 45).
//!
//! **Probes** (`docs/src/selective.md`): a QP with selective retransmission that waits for an acknowledgement is probed when its time has
//! not been started anew for `probe` microseconds, again after twice that, and so on, until the timer expires. Each start has the deadline
//! of the first probe written beside the stamp; a probe has that of the next, and leaves the stamp alone. A probe comes up to a microsecond and a sweep
//! after its deadline; one that finds no room waits for the next sweep. Repetitions of such a QP do not start the time anew: of what leaves after
//! progress only a new packet does. The first packet after an expiry does, whatever it is: then the QP goes back.
//!
//! One event a cycle, in the order of the picture, chosen in one cycle and done in the next; a sweep looks at one QP a cycle
//! and compares in the next; what is due is suspected in the one after, and counts unless something happens to the QP until it is taken up.
//! The longest path is the shift by the code and the comparison with the time that has passed, in a cycle of their own. Reset: no timer runs, once `qps` cycles have passed; until then
//! nothing is taken.

use crate::config::RnicConfig;
use crate::stream::{fifo, forward, half};
use crate::types::TableWrite;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::wire::syndrome::rnr_timer_us;

/// Microseconds a tick, times 1,000.
const TICK_NS: u64 = 4096;

/// Bits of the time until a QP is probed, in microseconds.
pub const PROBE_BITS: u32 = 11;

/// That time is doubled at most this often.
const MOST_DOUBLINGS: u32 = 12;

/// Bits of a deadline: the longest time, and which side of it now is.
const DEADLINE_BITS: u32 = PROBE_BITS + MOST_DOUBLINGS + 1;

/// A request that leaves for the wire.
#[derive(Clone, Bundle)]
pub struct Departed {
    /// Whose.
    pub qp: Sig,
    /// Its PSN has not been sent before.
    pub fresh: Sig,
}

impl Departed {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Departed { qp: bits(cfg.qp_bits()), fresh: bits(1) }
    }
}

/// A QP that has made progress.
#[derive(Clone, Bundle)]
pub struct Progress {
    /// Which QP.
    pub qp: Sig,
    /// Nothing is left to wait for.
    pub idle: Sig,
    /// The QP starts: a timer of its former life is stopped, and a pause ends.
    pub stop: Sig,
    /// It has selective retransmission: what it sends again does not start its time anew.
    pub selective: Sig,
}

impl Progress {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Progress { qp: bits(cfg.qp_bits()), idle: bits(1), stop: bits(1), selective: bits(1) }
    }
}

/// A QP that pauses, for a receiver that is not ready.
#[derive(Clone, Bundle)]
pub struct Pause {
    /// Which QP.
    pub qp: Sig,
    /// The RNR timer code of the NAK.
    pub code: Sig,
}

impl Pause {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Pause { qp: bits(cfg.qp_bits()), code: bits(5) }
    }
}

/// A timer that has expired.
#[derive(Clone, Bundle)]
pub struct Expired {
    /// Whose.
    pub qp: Sig,
    /// The pause is over, rather than the time for an acknowledgement.
    pub pause: Sig,
}

/// Attributes of a QP that count here.
#[derive(Clone, Bundle)]
pub struct Timeout {
    /// Its time-out code.
    pub code: Sig,
    /// It has selective retransmission.
    pub selective: Sig,
}

impl Timeout {
    /// The shape.
    pub fn of() -> Self {
        Timeout { code: bits(5), selective: bits(1) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Timers {
    /// Timers that have expired.
    pub expired: Stream<Expired>,
    /// QPs to probe, of a card with selective retransmission.
    pub probe: Option<Stream<Sig>>,
}

/// When a QP is probed.
#[derive(Clone, Bundle)]
struct Deadline {
    /// Microsecond, modulo 2^[`DEADLINE_BITS`].
    at: Sig,
    /// How often the time has been doubled.
    doublings: Sig,
}

/// What is known of a QP, beside the tick from which its time counts.
#[derive(Clone, Bundle)]
struct Kind {
    kind: Sig,
    /// The next packet that leaves starts it anew, though it runs.
    soft: Sig,
    /// But it must be a new one.
    new: Sig,
}

impl Kind {
    fn of() -> Self {
        Kind { kind: bits(2), soft: bits(1), new: bits(1) }
    }
}

/// Kinds: no timer; waiting for an acknowledgement; waiting for nothing, but not stopped; pausing until the stamp.
const OFF: u32 = 0;
const WAITS: u32 = 1;
const IDLE: u32 = 2;
const PAUSES: u32 = 3;

/// The timers. `tick` pulses every 4.096 us; `probe`: microseconds until a QP is probed for the first time, 0 for never.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn timer(
    m: &Scope,
    cfg: &RnicConfig,
    tick: Sig,
    timeouts: TableWrite<Timeout>,
    departed: Stream<Departed>,
    progress: Stream<Progress>,
    pause: Stream<Pause>,
    probe: Sig,
) -> Timers {
    let qp_bits = cfg.qp_bits();
    let now = m.reg("now", 32).reset(0);
    m.when(tick, |m| m.set(&now, now + 1));
    // What has come is taken up far from where it was sent. Packets leave in successive cycles, frames of one beat or one on the wire and one
    // inside the card, and neither waits for a timer.
    let (departed, progress, pause) = (
        forward(&m.label("departs_now"), departed),
        half(&m.label("progresses"), progress),
        half(&m.label("pauses"), pause),
    );
    let (departed, progress, pause) = (
        fifo(&m.label("departed"), 32, departed),
        half(&m.label("told"), fifo(&m.label("progress"), 8, progress)),
        half(&m.label("paused"), fifo(&m.label("pause"), 4, pause)),
    );

    // After reset every timer is stopped, one a cycle.
    let sweep = m.reg("sweep", qp_bits).reset(0);
    let ready = m.reg("ready", 1).reset(0);
    let stands = m.wire("stands", 1);
    m.when(!stands, |m| m.set(&sweep, sweep + 1));
    m.when(sweep.eq(cfg.qps - 1), |m| m.set(&ready, 1));

    // One event a cycle, chosen in one and done in the next.
    let (checked, suspect) = m.later("suspect", &bits(qp_bits));
    let expired_room = m.wire("expired_room", 1);
    let takes_pause = ready & pause.valid;
    let takes_progress = ready & progress.valid & !pause.valid;
    let takes_departed = ready & departed.valid & !progress.valid & !pause.valid;
    let is_check = m.reg("is_check", 1).reset(0);
    let none = !departed.valid & !progress.valid & !pause.valid;
    let takes_check = ready & checked.valid & !is_check & expired_room & none;
    pause.accept(takes_pause);
    progress.accept(takes_progress);
    departed.accept(takes_departed);
    checked.accept(takes_check);
    let mut chosen = checked.payload;
    chosen = m.mux(takes_departed, &departed.qp, &chosen);
    chosen = m.mux(takes_progress, &progress.qp, &chosen);
    chosen = m.mux(takes_pause, &pause.qp, &chosen);
    let qp = m.delay("qp", &chosen);
    m.set(&is_check, takes_check);
    let [is_pause, is_progress, departs] =
        [("is_pause", takes_pause), ("is_progress", takes_progress), ("departs", takes_departed)].map(
            |(name, takes)| {
                let is = m.reg(name, 1).reset(0);
                m.set(&is, takes);
                is
            },
        );
    let (idle, stop) = (m.delay("idle", &progress.idle), m.delay("stop", &progress.stop));
    let fresh = m.delay("fresh", &departed.fresh);
    let repeats = m.delay("repeats", &cfg.only(cfg.selective, progress.selective));
    let wait: Vec<Sig> = (0..32)
        .map(|code| {
            // One more, for the tick that has begun already.
            let ticks = (u64::from(rnr_timer_us(code)) * 1000).div_ceil(TICK_NS) + 1;
            lit(32, ticks as u32)
        })
        .collect();
    let pauses_for = m.delay("pauses_for", &m.select(pause.code, &wait));

    // The tables: a write, and two looks in a cycle, of which the sweep has a copy of its own and alone needs the stamp.
    let kinds = m.mem("kinds", cfg.qps, &Kind::of()).style(Style::Distributed).build();
    let stamps = m.mem("stamps", cfg.qps, &bits(32)).style(Style::Block).build();
    let Timeout { code, selective } = &timeouts.entry;
    m.discard(selective);
    let entry = if cfg.selective { cat(&[*code, *selective]) } else { *code };
    let codes = m.mem("codes", cfg.qps, &bits(entry.width())).style(Style::Block).build();
    codes.write(timeouts.enable, timeouts.index, &entry);
    let Kind { kind, soft, new } = kinds.read_now(qp);
    let next = m.wire_of("next", &Kind::of());
    m.set(&next.kind, OFF);
    m.set(&next.soft, is_progress);
    m.set(&next.new, is_progress & repeats);
    m.when(departs | is_progress, |m| m.set(&next.kind, WAITS));
    m.when(is_progress & idle, |m| m.set(&next.kind, IDLE));
    m.when(is_pause, |m| m.set(&next.kind, PAUSES));
    // What is sent again while nothing is left to wait for has been acknowledged meanwhile.
    let waits_anew = kind.eq(OFF) | (kind.eq(IDLE) & fresh);
    let starts = departs & (waits_anew | (kind.eq(WAITS) & soft & (fresh | !new)));
    // A pause ends by itself: neither what is still being sent nor an old acknowledgement shortens it.
    let goes_on = is_progress & (kind.ne(PAUSES) | stop);
    m.when(is_progress & stop, |m| m.set(&next.kind, OFF));
    // What the sweep suspects counts unless something has happened since to the QP.
    let holds = m.reg("holds", 1).reset(0);
    let suspect_qp = m.reg("suspect_qp", qp_bits).no_reset();
    let suspect_kind = m.reg("suspect_kind", 2).no_reset();
    // Of probes: without selective retransmission there are none.
    let [due_probe, is_probe] = ["due_probe", "is_probe"].map(|name| match cfg.selective {
        true => m.reg(name, 1).no_reset(),
        false => lit(1, 0),
    });
    let expires = is_check & holds & !is_probe;
    let probes = is_check & holds & is_probe;
    let writes = starts | goes_on | is_pause | expires;
    let (write, written) = (writes | !ready, m.mux(ready, &qp, &sweep));
    kinds.write(write, written, &next);
    stamps.write(write, written, &m.mux(is_pause, &(now + pauses_for), &now));

    // The sweep: read, then compare; what is suspected waits here until it is taken up.
    let looking = m.reg("looking", 1).reset(0);
    let looks = ready & !stands & !(writes & qp.eq(sweep));
    m.set(&looking, looks);
    let swept = m.mem("swept", cfg.qps, &bits(2)).style(Style::Block).build();
    swept.write(write, written, &next.kind);
    let looked = swept.read(m, lit(1, 1), sweep, Collision::Old);
    let stamp = stamps.read(m, looks, sweep, Collision::Never);
    let known = codes.read(m, ready, sweep, Collision::New);
    let code = known.trunc(5);
    let looked_qp = m.delay("looked_qp", &sweep);
    // Ticks that have passed, less one: so more than 2^n have where a bit from n on is set, and none where all are.
    let passed = (now + !stamp).named("passed");
    let none = now.eq(stamp);
    let beyond = (passed & lit(32, u32::MAX).shl_by(code)).any();
    let late = looked.eq(WAITS) & code.ne(0) & beyond & !none;
    let over = looked.eq(PAUSES) & (none | !passed.bit(31));
    // A QP that waits for nothing is stopped when its time is over, so that stamps never grow old.
    let stale = looked.eq(IDLE) & passed.slice(30, 2).any() & !none;
    let (waits, finds) = (m.wire("stays", 1), m.wire("finds", 1));
    let probe_room = m.wire("probe_room", 1);
    let probe_due = match cfg.selective {
        true => {
            let times = Times { starts: write, probes, at: written, looks, sweep, waits, finds };
            looked.eq(WAITS) & known.msb() & !late & probe_room & deadlines(m, cfg, probe, times)
        }
        false => lit(1, 0),
    };
    // Where one is suspected already, what is due waits for its turn.
    let (compared, counts) = (m.reg("compared", 1).reset(0), m.reg("counts", 1).no_reset());
    let due = compared & counts;
    let due_qp = m.reg("due_qp", qp_bits).no_reset();
    let due_kind = m.reg("due_kind", 2).no_reset();
    let was_touched = writes & qp.eq(due_qp);
    let busy = holds | is_check;
    m.drive(&waits, due & busy & !was_touched);
    m.assert(!(waits & looking), "the sweep stands while something is due");
    m.set(&compared, waits | (looking & !(writes & qp.eq(looked_qp))));
    m.when(!waits, |m| {
        m.set(&counts, late | over | stale | probe_due);
        m.set(&due_qp, looked_qp);
        m.set(&due_kind, looked);
    });
    m.drive(&finds, due & !busy & !was_touched);
    // It stands still meanwhile, so that one that expires does not cost the next a sweep.
    m.drive(&stands, due | busy);
    m.when(finds, |m| {
        m.set(&holds, 1);
        m.set(&suspect_qp, due_qp);
        m.set(&suspect_kind, due_kind);
    });
    m.when(is_check | (writes & qp.eq(suspect_qp)), |m| m.set(&holds, 0));
    if cfg.selective {
        m.when(!waits, |m| m.set(&due_probe, probe_due));
        m.when(finds, |m| m.set(&is_probe, due_probe));
    }
    suspect.connect(Stream::new(m, "suspects", holds, suspect_qp));

    let tells = expires & suspect_kind.ne(IDLE);
    let expired = Stream::new(m, "expiry", tells, Expired { qp, pause: suspect_kind.eq(PAUSES) });
    m.drive(&expired_room, expired.ready);
    let probe = Stream::new(m, "probing", probes, qp);
    m.drive(&probe_room, probe.ready);
    m.assert(!probe.valid | probe.ready, "a probe is due only where there is room for it");
    let probe = match cfg.selective {
        true => Some(fifo(&m.label("probes"), 4, probe)),
        false => {
            probe.accept(lit(1, 1));
            m.discard(&(probe.payload, probe_room));
            None
        }
    };
    Timers { expired: fifo(&m.label("expired"), 4, expired), probe }
}

/// What happens to deadlines.
struct Times {
    /// A QP's time starts anew.
    starts: Sig,
    /// Or it is probed.
    probes: Sig,
    /// Which QP.
    at: Sig,
    /// The sweep reads one.
    looks: Sig,
    /// Which.
    sweep: Sig,
    /// What it has found waits.
    waits: Sig,
    /// It is the suspect.
    finds: Sig,
}

/// The deadlines of probes. Returns whether that of the QP which the sweep has read has passed.
fn deadlines(m: &Scope, cfg: &RnicConfig, probe: Sig, times: Times) -> Sig {
    let Times { starts, probes, at, looks, sweep, waits, finds } = times;
    let now = m.reg("microseconds", DEADLINE_BITS).reset(0);
    let microsecond = cfg.microsecond(&m.label("deadline"));
    m.when(microsecond, |m| m.set(&now, now + 1));
    let number = bits(clog2(u64::from(MOST_DOUBLINGS) + 1));
    let width = number.width();
    let next = m.wire_of("next_deadline", &Deadline { at: bits(DEADLINE_BITS), doublings: number });
    let table = m.mem("deadlines", cfg.qps, &next).style(Style::Block).build();
    table.write(starts | probes, at, &next);
    let looked = table.read(m, looks, sweep, Collision::Never);

    // The times are ready before a suspect is looked at; one more is for the microsecond that has begun.
    let due = m.reg("due_doublings", width).no_reset();
    let suspect = m.reg("suspect_doublings", width).no_reset();
    m.when(!waits, |m| m.set(&due, looked.doublings));
    m.when(finds, |m| m.set(&suspect, due));
    let one_more = m.mux(suspect.eq(MOST_DOUBLINGS), &suspect, &(suspect + 1));
    let doublings = m.delay("doublings", &one_more);
    let time = probe.zext(DEADLINE_BITS);
    let first = m.delay("first_time", &(time + 1));
    let later = m.delay("later_time", &(time.shl_by(one_more) + 1));
    m.set(&next.at, now + m.mux(probes, &later, &first));
    m.set(&next.doublings, probes.then(doublings, lit(width, 0)));
    let asks = m.delay("asks", &probe.any());
    asks & !(now - looked.at).msb()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{drain, step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};

    struct Bench {
        sim: Sim,
        sources: Vec<Source>,
        sinks: Vec<Sink>,
        random: Random,
        cycle: u64,
        tick_cycles: u64,
    }

    const DEPARTED: usize = 0;
    const PROGRESS: usize = 1;
    const PAUSE: usize = 2;

    fn bench(seed: u64, tick_cycles: u64) -> Bench {
        bench_of("generic-8b", seed, tick_cycles)
    }

    fn bench_of(config: &str, seed: u64, tick_cycles: u64) -> Bench {
        bench_with(&RnicConfig::named(config).unwrap(), seed, tick_cycles)
    }

    fn bench_with(cfg: &RnicConfig, seed: u64, tick_cycles: u64) -> Bench {
        let qp = bits(cfg.qp_bits());
        let expired = Expired { qp, pause: bits(1) };
        let net = build("bench", |m| {
            let out = timer(
                m,
                cfg,
                m.input("tick", 1),
                m.input_of("timeouts", &TableWrite { enable: bits(1), index: qp, entry: Timeout::of() }),
                m.stream_in("departed", &Departed::of(cfg)),
                m.stream_in("progress", &Progress::of(cfg)),
                m.stream_in("pause", &Pause::of(cfg)),
                m.input("probe_time", PROBE_BITS),
            );
            m.stream_out("expired", out.expired);
            if let Some(probe) = out.probe {
                m.stream_out("probe", probe);
            }
        })
        .unwrap_or_else(|errors| panic!("{errors}"));
        let sources = vec![
            Source::new("departed", &Departed::of(cfg)),
            Source::new("progress", &Progress::of(cfg)),
            Source::new("pause", &Pause::of(cfg)),
        ];
        let mut sinks = vec![Sink::new("expired", &expired)];
        if cfg.selective {
            sinks.push(Sink::new("probe", &qp));
        }
        let mut sim = Sim::new(&net);
        sim.reset();
        Bench { sim, sources, sinks, random: Random::new(seed), cycle: 0, tick_cycles }
    }

    impl Bench {
        fn step(&mut self) {
            self.sim.set("tick", u64::from(self.cycle % self.tick_cycles == 0));
            step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, 0.0);
            self.cycle += 1;
        }

        fn code(&mut self, qp: u64, code: u64) {
            self.sim.set("timeouts_enable", 1);
            self.sim.set("timeouts_index", qp);
            self.sim.set("timeouts_entry_code", code);
            self.step();
            self.sim.set("timeouts_enable", 0);
        }

        /// Ticks until a timer expires.
        fn ticks(&mut self, most: u64) -> Option<u64> {
            let (start, seen) = (self.cycle, self.sinks[0].items.len());
            while self.sinks[0].items.len() == seen {
                self.step();
                if self.cycle - start > most * self.tick_cycles {
                    return None;
                }
            }
            Some((self.cycle - start) / self.tick_cycles)
        }
    }

    #[test]
    fn an_acknowledgement_is_waited_for_at_least_its_time_and_at_most_four_times_that() {
        let mut bench = bench(1, 64);
        for _ in 0..20 {
            bench.step();
        }
        for code in 1..9u32 {
            bench.code(3, u64::from(code));
            bench.sources[DEPARTED].push_values(&[("qp", 3), ("fresh", 1)]);
            let ticks = bench.ticks(2048).unwrap();
            let least = 1 << code;
            assert!(ticks >= least && ticks <= 4 * least, "code {code}: {ticks} ticks");
            assert_eq!(bench.sinks[0].values("pause"), vec![0; code as usize]);
            // Nothing runs until something is sent again.
            assert_eq!(bench.ticks(4 * least), None);
        }
    }

    #[test]
    fn code_zero_waits_for_ever() {
        let mut bench = bench(1, 4);
        bench.sources[DEPARTED].push_values(&[("qp", 5), ("fresh", 1)]);
        assert_eq!(bench.ticks(2000), None);
    }

    #[test]
    fn progress_starts_the_time_anew_and_a_packet_alone_does_not() {
        let mut bench = bench(1, 64);
        bench.code(2, 4);
        bench.sources[DEPARTED].push_values(&[("qp", 2), ("fresh", 1)]);
        for _ in 0..10 {
            assert_eq!(bench.ticks(10), None);
            bench.sources[PROGRESS].push_values(&[("qp", 2), ("idle", 0)]);
            bench.step();
            bench.sources[DEPARTED].push_values(&[("qp", 2), ("fresh", 1)]);
        }
        for _ in 0..12 * 64 {
            bench.step();
        }
        bench.sources[DEPARTED].push_values(&[("qp", 2), ("fresh", 1)]);
        assert!(bench.ticks(100).unwrap() <= 8);
    }

    #[test]
    fn a_packet_that_leaves_after_progress_starts_the_time_once_more() {
        let mut bench = bench(1, 64);
        bench.code(2, 4);
        bench.sources[DEPARTED].push_values(&[("qp", 2), ("fresh", 1)]);
        bench.ticks(1);
        bench.sources[PROGRESS].push_values(&[("qp", 2), ("idle", 0)]);
        for _ in 0..12 * 64 {
            bench.step();
        }
        // The oldest packet leaves only now, and one behind it later.
        bench.sources[DEPARTED].push_values(&[("qp", 2), ("fresh", 1)]);
        for _ in 0..10 * 64 {
            bench.step();
        }
        assert!(bench.sinks[0].items.is_empty());
        bench.sources[DEPARTED].push_values(&[("qp", 2), ("fresh", 1)]);
        let ticks = bench.ticks(100).unwrap();
        assert!((6..=9).contains(&ticks), "{ticks} ticks");
    }

    #[test]
    fn where_nothing_is_left_to_wait_for_the_next_packet_starts_the_time() {
        let mut bench = bench(1, 64);
        bench.code(2, 4);
        bench.sources[DEPARTED].push_values(&[("qp", 2), ("fresh", 1)]);
        bench.ticks(10);
        bench.sources[PROGRESS].push_values(&[("qp", 2), ("idle", 1)]);
        assert_eq!(bench.ticks(100), None);
        // A packet that is sent again, though it has been acknowledged by now, is not waited for.
        bench.sources[DEPARTED].push_values(&[("qp", 2), ("fresh", 0)]);
        assert_eq!(bench.ticks(100), None);
        bench.sources[DEPARTED].push_values(&[("qp", 2), ("fresh", 1)]);
        assert!(bench.ticks(100).unwrap() >= 16);
    }

    #[test]
    fn a_pause_lasts_at_least_its_code_and_nothing_shortens_it() {
        let mut bench = bench(1, 16);
        bench.code(1, 1);
        for code in [1u8, 2, 5, 9, 14] {
            bench.sources[PAUSE].push_values(&[("qp", 1), ("code", u128::from(code))]);
            bench.sources[DEPARTED].push_values(&[("qp", 1), ("fresh", 1)]);
            bench.sources[PROGRESS].push_values(&[("qp", 1), ("idle", 0)]);
            let ticks = bench.ticks(10_000).unwrap();
            let least = u64::from(rnr_timer_us(code)) * 1000 / TICK_NS;
            assert!(ticks >= least && ticks <= least + 5, "code {code}: {ticks} ticks, at least {least}");
            assert_eq!(*bench.sinks[0].values("pause").last().unwrap(), 1);
        }
    }

    #[test]
    fn a_start_stops_what_runs_and_ends_a_pause() {
        let mut bench = bench(1, 16);
        bench.code(4, 2);
        for source in [DEPARTED, PAUSE] {
            bench.sources[source].push_values(if source == DEPARTED {
                &[("qp", 4), ("fresh", 1)]
            } else {
                &[("qp", 4), ("code", 5)]
            });
            bench.ticks(2);
            bench.sources[PROGRESS].push_values(&[("qp", 4), ("idle", 1), ("stop", 1)]);
            assert_eq!(bench.ticks(200), None);
        }
        bench.sources[DEPARTED].push_values(&[("qp", 4), ("fresh", 1)]);
        assert!(bench.ticks(100).is_some());
    }

    /// Frames of one beat, or one on the wire and one inside the card: neither waits for a timer.
    #[test]
    fn packets_that_leave_in_successive_cycles_start_a_timer_each() {
        for config in ["generic-8b", "generic-64b"] {
            let mut bench = bench_of(config, 9, 64);
            (0..6).for_each(|qp| bench.code(qp, 1));
            (0..1100).for_each(|_| bench.step());
            bench.sim.set("departed_fresh", 1);
            for qp in 0..6 {
                bench.sim.set("departed_valid", 1);
                bench.sim.set("departed_qp", qp);
                assert_eq!(bench.sim.get("departed_ready"), 1, "{config}, packet {qp}");
                bench.sim.tick();
            }
            bench.sim.set("departed_valid", 0);
            (0..64 * 40).for_each(|_| bench.step());
            let mut expired = bench.sinks[0].values("qp");
            expired.sort_unstable();
            assert_eq!(expired, [0, 1, 2, 3, 4, 5], "{config}");
        }
    }

    /// Cycles of a microsecond.
    const MICROSECOND: u64 = 4;

    /// Not known: two things happened in an order that cannot be seen.
    const VAGUE: u32 = 4;

    /// What the timer of a QP does, since when, and since when its next probe is waited for.
    #[derive(Clone, Copy, Debug, Default)]
    struct Life {
        kind: u32,
        soft: bool,
        since: u64,
        last: u64,
        probes: u32,
    }

    impl Life {
        fn begin(&mut self, kind: u32, soft: bool, cycle: u64) {
            *self = Life { kind, soft, since: cycle, last: cycle, probes: 0 };
        }

        fn departs(&mut self, fresh: bool, agreed: bool, cycle: u64) {
            let anew = self.kind == OFF || (self.kind == IDLE && fresh);
            if anew || (self.kind == WAITS && self.soft && (fresh || !agreed)) {
                self.begin(WAITS, false, cycle);
            }
        }

        fn progress(&mut self, idle: bool, stop: bool, cycle: u64) {
            if self.kind != PAUSES || stop {
                let kind = [WAITS, IDLE][usize::from(idle)];
                self.begin(if stop { OFF } else { kind }, true, cycle);
            }
        }

        /// Cycles that have passed when the next probe is due.
        fn probed_after(&self, time: u64) -> u64 {
            (time << self.probes.min(MOST_DOUBLINGS)) * MICROSECOND
        }
    }

    #[derive(Default)]
    struct Seen {
        probes: u32,
        most: u32,
        expired: u32,
    }

    #[test]
    fn probes_come_at_their_times_until_the_timer_expires_and_only_to_who_has_agreed() {
        for (config, seed, time) in [("generic-8b", 31, 20), ("generic-8b", 32, 7), ("generic-64b", 33, 90)] {
            let cfg = RnicConfig {
                clock_khz: MICROSECOND as u32 * 1000,
                selective: true,
                ..RnicConfig::named(config).unwrap()
            };
            let mut bench = bench_with(&cfg, seed, 64);
            bench.sim.set("probe_time", time);
            // What has happened is known here before it is there.
            let (sweep, slack) = (u64::from(cfg.qps), 80);
            (0..sweep + 10).for_each(|_| bench.step());
            let agreed = |qp: usize| qp % 4 > 0;
            let code = |qp: usize| if qp % 3 == 0 { 0 } else { 4 + qp as u64 % 4 };
            for qp in 0..16 {
                bench.sim.set("timeouts_entry_selective", agreed(qp).into());
                bench.code(qp as u64, code(qp));
            }
            let mut lives = [Life::default(); 16];
            let (mut before, mut changed, mut told) = (lives, [0u64; 16], [0, 0]);
            let mut seen = Seen::default();
            for _ in 0..120_000 {
                let cycle = bench.cycle;
                use rand::Rng;
                let qp = bench.random.rng.random_range(0..16usize);
                let rare = if qp < 8 { 0.002 } else { 0.06 };
                if cycle - changed[qp] > 60 && bench.random.chance(rare) {
                    (before[qp], changed[qp]) = (lives[qp], cycle);
                    let (flag, other) = (bench.random.chance(0.7), bench.random.chance(0.2));
                    let (qp128, kind) = (qp as u128, bench.random.rng.random_range(0..20));
                    match kind {
                        _ if lives[qp].kind == VAGUE => {
                            let agreed = agreed(qp).into();
                            let fields = [("qp", qp128), ("stop", 1), ("selective", agreed)];
                            bench.sources[PROGRESS].push_values(&fields);
                            lives[qp].progress(false, true, cycle);
                        }
                        0..10 => {
                            let fields = [("qp", qp128), ("fresh", flag.into())];
                            bench.sources[DEPARTED].push_values(&fields);
                            lives[qp].departs(flag, agreed(qp), cycle);
                        }
                        10..19 => {
                            let stop = other && !flag;
                            let (idle, agreed) = (u128::from(!flag), u128::from(agreed(qp)));
                            let fields =
                                [("qp", qp128), ("idle", idle), ("stop", stop.into()), ("selective", agreed)];
                            bench.sources[PROGRESS].push_values(&fields);
                            lives[qp].progress(!flag, stop, cycle);
                        }
                        _ => {
                            bench.sources[PAUSE].push_values(&[("qp", qp128), ("code", 1)]);
                            lives[qp].begin(PAUSES, false, cycle);
                        }
                    }
                }
                bench.step();
                for item in &bench.sinks[0].items[told[0]..] {
                    let qp = item["qp"].to_u64() as usize;
                    let (life, lately) = (lives[qp], cycle - changed[qp] < slack);
                    let is_pause = item["pause"].to_u64() == 1;
                    let due = |life: &Life| {
                        let passed = cycle - life.since;
                        let is_time = life.kind == WAITS && passed + slack >= 64 << code(qp);
                        life.kind == VAGUE || if is_pause { life.kind == PAUSES } else { is_time }
                    };
                    assert!(due(&life) || (lately && due(&before[qp])), "seed {seed}: QP {qp}: {life:?}");
                    seen.expired += 1;
                    // What came in between may have been before it or after it.
                    lives[qp].begin(if lately { VAGUE } else { OFF }, false, cycle);
                }
                for item in &bench.sinks[1].items[told[1]..] {
                    let qp = item[""].to_u64() as usize;
                    let due = |life: &Life| {
                        let passed = cycle - life.last >= life.probed_after(time);
                        life.kind == VAGUE || (life.kind == WAITS && agreed(qp) && passed)
                    };
                    if due(&lives[qp]) {
                        lives[qp].probes += 1;
                        lives[qp].last = cycle;
                        seen.probes += 1;
                        seen.most = seen.most.max(lives[qp].probes);
                    } else {
                        let lately = cycle - changed[qp] < slack;
                        let what = format!("{:?} {:?}", lives[qp], before[qp]);
                        assert!(lately && due(&before[qp]), "seed {seed}: QP {qp} at {cycle}: {what}");
                    }
                }
                told = [bench.sinks[0].items.len(), bench.sinks[1].items.len()];
                for (qp, life) in lives.iter().enumerate() {
                    let most = life.probed_after(time) + MICROSECOND + sweep + slack;
                    let waits = life.kind == WAITS && agreed(qp);
                    assert!(
                        !waits || cycle - life.last <= most,
                        "seed {seed}: QP {qp} at {cycle} is not probed: {life:?}"
                    );
                    let most = ((1 << code(qp)) + 2) * 64 + 2 * sweep + slack;
                    let runs = life.kind == WAITS && code(qp) > 0;
                    assert!(!runs || cycle - life.since <= most, "seed {seed}: QP {qp} has no time-out");
                }
            }
            println!("{} probes, up to {} in a row, {} expired", seen.probes, seen.most, seen.expired);
            assert!(seen.probes > 300 && seen.most >= 5 && seen.expired > 50, "seed {seed}");
        }
    }

    #[test]
    fn random_timers_of_all_queue_pairs_follow_a_model() {
        let mut bench = bench(7, 32);
        for qp in 0..16 {
            bench.code(qp, 2 + qp % 4);
        }
        // Tick of the last start of each, while one runs.
        let mut started: [Option<u64>; 16] = [None; 16];
        let mut handled = 0;
        for _ in 0..3000 {
            use rand::Rng;
            let qp = bench.random.rng.random_range(0..16usize);
            let tick = bench.cycle / 32;
            // Only where the model knows for sure what the timer does: not when it may expire meanwhile.
            let limit = 1 << (2 + qp % 4);
            let sure = started[qp].is_none_or(|since| tick - since < limit);
            if sure && bench.random.chance(0.5) {
                bench.sources[DEPARTED].push_values(&[("qp", qp as u128), ("fresh", 1)]);
                started[qp] = started[qp].or(Some(tick));
            } else if sure && started[qp].is_some() {
                bench.sources[PROGRESS].push_values(&[("qp", qp as u128), ("idle", 0)]);
                started[qp] = Some(tick);
            }
            for _ in 0..40 {
                bench.step();
            }
            let now = bench.cycle / 32;
            let items = bench.sinks[0].values("qp");
            for qp in &items[handled..] {
                let qp = *qp as usize;
                let since = started[qp].take().expect("only what was started expires");
                assert!(now - since >= 1 << (2 + qp % 4), "seed {}", bench.random.seed);
            }
            handled = items.len();
            for (qp, since) in started.iter().enumerate() {
                let most = 4 << (2 + qp % 4);
                assert!(since.is_none_or(|since| now - since <= most), "seed {}: {qp}", bench.random.seed);
            }
        }
        assert!(handled > 100);
        let Bench { sim, sources, sinks, random, .. } = &mut bench;
        drain(sim, sources, sinks, random, 0.0, 100, 2);
    }
}
