// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reset of the card by its host, by the register or by a function level reset (PCIe 6.6.2), that first drains what is under way. The command RESET_ALL takes the same steps.
//!
//! ```text
//!  asked --> Stop: no frame begins on the wire, DMA goes on
//!              |  between frames, or nothing moves there any more
//!              v
//!            Drain: no read and no write begins; what has begun ends, wholly; nobody is interrupted
//!              |  nothing is under way
//!              v
//!            Restart: two cycles; what has a reset value in the card's core has it again
//!              |
//!              v
//!            Clear: the command processor goes through all tables
//!              |  they are clear
//!              v
//!            done
//! ```
//!
//! Three gates stand between the core and what outlives a reset: [`frames`] before the wire, [`reads`] and [`writes`] before host memory. What is
//! outside is not restarted: the registers, so that an access of the CPU is always answered; the PCIe engine, which knows the tags whose completions
//! may still come; and the wire's door.
//!
//! When a reset is done, no write is on its way and no read is without its end, and none begins before the host says so. So it lasts as long as
//! the slowest read: the time-out of the PCIe engine at most. A frame in which nothing moves for [`STILL`] cycles is cut off.
//!
//! What differs where a command asks: it goes on behind `Clear`, when everything is open again, and writes its completion; what the host has set stays, and no
//! register tells of a reset.
//!
//! **Bad input:** a reset asked for while another is under way is done with it; a function level reset, and any behind that of a command, behind it.

use super::event::Interrupt;
use crate::stream::Beat;
use crate::types::{DmaReadRequest, DmaWrite};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Fsm, Interface, Scope, Sig, Stream};

/// Cycles without a beat after which a frame under way is cut off.
pub const STILL: u32 = 1 << 16;

/// Bits of a count of reads under way.
const READS: u32 = 10;
const _: () = assert!(super::dma::READS < 1 << READS);

/// What a reset wants of those that it does not restart.
#[derive(Clone, Bundle)]
pub struct Quiesce {
    /// Requests that may not leave are thrown away: nobody waits for a host that took the right away.
    pub drops: Sig,
    /// Nothing begins; interrupts are forgotten.
    pub shut: Sig,
    /// A pulse: what the host has set is as after power-on.
    pub wipe: Sig,
}

impl Quiesce {
    /// The shape.
    pub fn of() -> Self {
        Quiesce { drops: bits(1), shut: bits(1), wipe: bits(1) }
    }
}

/// How far it is.
#[derive(Clone, Bundle)]
pub struct Progress {
    /// The wire is shut, between two frames.
    pub wire_shut: Sig,
    /// A beat has passed to the wire.
    pub wire_moves: Sig,
    /// Nothing is under way to or from host memory, and nothing begins.
    pub quiet: Sig,
    /// All tables are clear.
    pub clear: Sig,
}

impl Progress {
    /// The shape.
    pub fn of() -> Self {
        Progress { wire_shut: bits(1), wire_moves: bits(1), quiet: bits(1), clear: bits(1) }
    }
}

/// What becomes of a reset.
#[derive(Interface)]
pub struct Reset {
    /// No frame begins.
    pub stops: Sig,
    /// For those outside the core.
    pub quiesce: Quiesce,
    /// The core begins anew.
    pub restart: Sig,
    /// A pulse: the registers' reset is done.
    pub done: Sig,
    /// What is under way, or was last, was asked for by a command.
    pub by_command: Sig,
    /// The function level reset that is asked for is done; until it is asked for no more.
    pub flr_done: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    Run,
    Stop,
    Drain,
    Restart,
    RestartOn,
    Clear,
}

/// Takes a reset through its steps. `asked`: by the register; `flr`: a function level reset, until it is done; `reclaims`: by a command, which begins anew with the core.
#[module]
pub fn reset(m: &Scope, asked: Sig, flr: Sig, reclaims: Sig, progress: Progress) -> Reset {
    let state = m.fsm("state", State::Run);
    let flag = |name: &str| m.reg(name, 1).reset(0);
    let (stops, shut, wipe) = (flag("stops"), flag("shut"), flag("wipe"));
    // Set by the domain's reset, so that the core follows this one register alone.
    let restart = m.reg("restart_now", 1).reset(1);
    let (of_function, flr_done) = (flag("of_function"), flag("flr_is_done"));
    let by_command = flag("by_command");
    let flr = m.delay("flr_asked", &flr);
    let asks = (asked | (flr & !flr_done)).named("host_asks");
    let still = m.reg("still", clog2(u64::from(STILL)) + 1).reset(0);

    // Some registers between blocks have no reset, and take what the others have in a second cycle.
    m.set(&restart, state.is_any(&[State::Restart, State::RestartOn]));
    m.set(&wipe, state.is(State::Restart) & of_function);
    m.when(!flr, |m| m.set(&flr_done, 0));
    m.when(state.is(State::Run) & (asks | reclaims), |m| {
        m.set(&state, State::Stop);
        m.set(&stops, 1);
        m.set(&of_function, flr & !flr_done);
        m.set(&by_command, !asks);
        m.set(&still, 0);
    });
    m.when(state.is(State::Stop), |m| {
        m.set(&still, progress.wire_moves.then(lit(still.width(), 0), still + 1));
        m.when(progress.wire_shut | still.msb(), |m| {
            m.set(&state, State::Drain);
            m.set(&shut, 1);
        });
    });
    // What is quiet stays so: known from a register, of this state alone.
    let quiet = flag("is_quiet");
    m.set(&quiet, state.is(State::Drain) & progress.quiet);
    m.when(state.is(State::Drain) & quiet, |m| m.set(&state, State::Restart));
    m.when(state.is(State::Restart), |m| m.set(&state, State::RestartOn));
    m.when(state.is(State::RestartOn), |m| m.set(&state, State::Clear));
    let done = (state.is(State::Clear) & progress.clear).named("is_done");
    m.when(done, |m| {
        m.set(&state, State::Run);
        m.set(&stops, 0);
        m.set(&shut, 0);
        m.when(of_function, |m| m.set(&flr_done, 1));
    });
    // A command waits for the right to send, unless a reset waits for the command.
    let drops = stops & (!by_command | asks);
    let done = done & !by_command;
    Reset { stops, quiesce: Quiesce { drops, shut, wipe }, restart, done, by_command, flr_done }
}

/// What comes of the gate before the wire.
#[derive(Interface)]
pub struct Frames {
    /// Frames.
    pub wire: Stream<Beat>,
    /// None is under way, and none begins.
    pub shut: Sig,
    /// A beat passes.
    pub moves: Sig,
}

/// Lets frames out that begin while `stops` is low. One that is under way when the core restarts ends with one beat more, and is too short then: its receivers
/// throw it away. Latency 0.
#[module]
pub fn frames(m: &Scope, stops: Sig, restart: Sig, frame: Stream<Beat>) -> Frames {
    let (inside, cut) = (m.reg("inside", 1).reset(0), m.reg("cut", 1).reset(0));
    let passes = (!cut & (inside | !stops)).named("passes");
    let beat = Beat { last: frame.last | cut, ..frame.payload.clone() };
    let wire = Stream::new(m, "wire", (frame.valid & passes) | cut, beat);
    frame.accept(wire.ready & passes);
    // From the offer of the first beat on: what is on offer stays.
    m.when(wire.valid & !cut, |m| m.set(&inside, 1));
    m.when(wire.fire() & wire.last, |m| {
        m.set(&inside, 0);
        m.set(&cut, 0);
    });
    let open = (inside | wire.valid) & !(wire.fire() & wire.last);
    m.when(restart & open, |m| m.set(&cut, 1));
    let (shut, moves) = (stops & !inside & !cut, wire.fire());
    Frames { wire, shut, moves }
}

/// What comes of the gate before reads of host memory.
#[derive(Interface)]
pub struct Reads {
    /// Requests.
    pub request: Stream<DmaReadRequest>,
    /// None is under way, and none begins.
    pub quiet: Sig,
}

/// Lets reads begin while `shut` is low, and counts them. `ends`: the last beat of one is taken. Latency 0.
#[module]
pub fn reads(m: &Scope, shut: Sig, request: Stream<DmaReadRequest>, ends: Sig) -> Reads {
    let (closed, count) = (m.reg("closed", 1).reset(0), m.reg("under_way", READS).reset(0));
    let request = request.gate(m, !closed);
    // What is on offer stays until it is taken.
    m.set(&closed, shut & (closed | !request.valid | request.ready));
    m.set(&count, count + request.fire().zext(READS) - ends.zext(READS));
    let quiet = closed & count.eq(0);
    Reads { request, quiet }
}

/// What comes of the gate before writes to host memory.
#[derive(Interface)]
pub struct Writes {
    /// Writes.
    pub write: Stream<DmaWrite>,
    /// None is under way to here, and none begins.
    pub quiet: Sig,
}

/// Lets writes begin while `shut` is low; those that have begun end. Latency 0.
#[module]
pub fn writes(m: &Scope, shut: Sig, write: Stream<DmaWrite>) -> Writes {
    let (closed, within) = (m.reg("closed", 1).reset(0), m.reg("within", 1).reset(0));
    let write = write.gate(m, !closed);
    let goes_on = m.mux(write.fire(), &!write.last, &(within | write.valid)).named("goes_on");
    m.when(write.fire(), |m| m.set(&within, !write.last));
    m.set(&closed, shut & (closed | !goes_on));
    Writes { write, quiet: closed }
}

/// Interrupts of a card that is not being reset.
pub fn interrupts(shut: Sig, interrupt: Interrupt) -> Interrupt {
    Interrupt { valid: interrupt.valid & !shut, ..interrupt }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RnicConfig;
    use crate::testing::{frames_to_beats, step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    #[test]
    fn reads_under_way_end_and_no_other_begins_until_the_gate_opens() {
        let netlist = build("bench", |m| {
            let request = m.stream_in("request", &DmaReadRequest::of());
            let gate = reads(m, m.input("shut", 1), request, m.input("ends", 1));
            m.stream_out("out", gate.request);
            m.output("quiet", &gate.quiet);
        })
        .unwrap();
        for seed in 0..20 {
            let mut sim = Sim::new(&netlist);
            sim.reset();
            let mut random = Random::new(seed);
            let mut sources = [Source::new("request", &DmaReadRequest::of())];
            let mut sinks = [Sink::new("out", &DmaReadRequest::of())];
            (0..400).for_each(|i| sources[0].push_values(&[("address", i), ("length", 4)]));
            let (mut under_way, mut shut, mut waited) = (0u64, false, 0);
            while sources[0].left() > 0 {
                let ends = under_way > 0 && random.chance(0.3);
                sim.set("ends", ends.into());
                let flips = if shut { waited > 60 } else { random.chance(0.03) };
                (shut, waited) = if flips { (!shut, 0) } else { (shut, waited + 1) };
                sim.set("shut", shut.into());
                let before = sinks[0].items.len() as u64;
                let quiet = sim.get("quiet") == 1;
                // While it is shut it may be quiet, and must be in the end; it is not with a read under way.
                assert!(!quiet || under_way == 0, "seed {seed}");
                step(&mut sim, &mut sources, &mut sinks, &mut random, 0.4);
                let begun = sinks[0].items.len() as u64 - before;
                assert!(!quiet || begun == 0, "seed {seed}: a read begins while it is quiet");
                under_way = under_way + begun - u64::from(ends);
                if shut && waited > 55 && under_way == 0 {
                    assert_eq!(sim.get("quiet"), 1, "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn writes_pass_whole_or_not_at_all() {
        for beat_bytes in [8, 64] {
            let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
            let netlist = build("bench", |m| {
                let write = m.stream_in("write", &DmaWrite::of(&cfg));
                let gate = writes(m, m.input("shut", 1), write);
                m.stream_out("out", gate.write);
                m.output("quiet", &gate.quiet);
            })
            .unwrap();
            for seed in 0..20 {
                let mut sim = Sim::new(&netlist);
                sim.reset();
                let mut random = Random::new(seed);
                let mut sources = [Source::new("write", &DmaWrite::of(&cfg))];
                let mut sinks = [Sink::new("out", &DmaWrite::of(&cfg))];
                for i in 0..200u128 {
                    let beats = random.rng.random_range(1..5);
                    (1..=beats).for_each(|k| {
                        sources[0].push_values(&[("address", i << 12), ("last", u128::from(k == beats))]);
                    });
                }
                let (mut shut, mut waited, mut seen) = (false, 0, 0);
                while sources[0].left() > 0 {
                    let flips = if shut { waited > 40 } else { random.chance(0.05) };
                    (shut, waited) = if flips { (!shut, 0) } else { (shut, waited + 1) };
                    sim.set("shut", shut.into());
                    let (quiet, before) = (sim.get("quiet") == 1, sinks[0].items.len());
                    let whole = sinks[0].items.last().is_none_or(|beat| beat["last"].to_u64() == 1);
                    assert!(!quiet || whole, "seed {seed}: quiet in the middle of a write");
                    step(&mut sim, &mut sources, &mut sinks, &mut random, 0.3);
                    assert!(!quiet || sinks[0].items.len() == before, "seed {seed}: a write begins");
                    seen += u64::from(quiet);
                }
                assert!(seen > 100, "seed {seed}: quiet in {seen} cycles");
            }
        }
    }

    fn wire_bench() -> Sim {
        let netlist = build("bench", |m| {
            let frame = m.stream_in("frame", &Beat::of(8));
            let gate = frames(m, m.input("stops", 1), m.input("restart", 1), frame);
            m.stream_out("wire", gate.wire);
            m.output("shut", &gate.shut);
            m.output("moves", &gate.moves);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        sim
    }

    #[test]
    fn frames_that_have_begun_end_and_no_other_begins() {
        let mut sim = wire_bench();
        let mut random = Random::new(3);
        let mut sources = [Source::new("frame", &Beat::of(8))];
        let mut sinks = [Sink::new("wire", &Beat::of(8))];
        let frames: Vec<Vec<u8>> = (0..300).map(|i| vec![i as u8; 60 + i % 40]).collect();
        frames_to_beats(frames.iter().map(Vec::as_slice), 8)
            .into_iter()
            .for_each(|beat| sources[0].push(beat));
        let (mut stops, mut waited) = (false, 0);
        while sources[0].left() > 0 {
            let flips = if stops { waited > 60 } else { random.chance(0.03) };
            (stops, waited) = if flips { (!stops, 0) } else { (stops, waited + 1) };
            sim.set("stops", stops.into());
            let (shut, before) = (sim.get("shut") == 1, sinks[0].items.len());
            let whole = sinks[0].items.last().is_none_or(|beat| beat["last"].to_u64() == 1);
            assert!(!shut || whole, "shut in the middle of a frame");
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.2);
            assert!(!shut || sinks[0].items.len() == before, "a frame begins");
            assert!(!stops || waited < 60 || shut, "it does not shut");
        }
        assert_eq!(crate::testing::beats_to_frames(&sinks[0].items), frames);
    }

    #[test]
    fn a_frame_whose_core_begins_anew_ends_and_the_next_one_is_whole() {
        for beats in 1..6usize {
            let mut sim = wire_bench();
            let mut random = Random::new(4);
            let mut sources = [Source::new("frame", &Beat::of(8))];
            let mut sinks = [Sink::new("wire", &Beat::of(8))];
            sources[0].push_frame(&[7; 80]);
            while sinks[0].items.len() < beats {
                step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
            }
            // The core is gone, and what it offered with it.
            let mut sources = [Source::new("frame", &Beat::of(8))];
            sim.set("restart", 1);
            sim.set("frame_valid", 0);
            (0..2).for_each(|_| step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0));
            sim.set("restart", 0);
            sources[0].push_frame(&[9; 80]);
            (0..20).for_each(|_| step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0));
            let lasts: Vec<usize> =
                (0..sinks[0].items.len()).filter(|i| sinks[0].items[*i]["last"].to_u64() == 1).collect();
            assert_eq!(lasts, [beats, beats + 10], "{beats} beats had left");
        }
    }

    /// Names of outputs that are high.
    fn high(sim: &mut Sim) -> Vec<&'static str> {
        ["stops", "quiesce_drops", "quiesce_shut", "quiesce_wipe", "restart", "done", "flr_done"]
            .into_iter()
            .filter(|name| sim.get(name) == 1)
            .collect()
    }

    #[test]
    fn a_reset_goes_through_its_steps_and_waits_in_each() {
        let netlist = build("bench", |m| {
            let progress = m.input_of("progress", &Progress::of());
            let (asked, flr, reclaims) = (m.input("asked", 1), m.input("flr", 1), m.input("reclaims", 1));
            let out = reset(m, asked, flr, reclaims, progress);
            m.output("stops", &out.stops);
            m.output("quiesce", &out.quiesce);
            m.output("restart", &out.restart);
            m.output("done", &out.done);
            m.output("by_command", &out.by_command);
            m.output("flr_done", &out.flr_done);
        })
        .unwrap();
        for (flr, stuck) in [(false, false), (true, false), (false, true)] {
            let mut sim = Sim::new(&netlist);
            sim.reset();
            let run = |sim: &mut Sim, cycles: u32| (0..cycles).for_each(|_| sim.tick());
            sim.set("progress_clear", 1);
            run(&mut sim, 20);
            assert!(high(&mut sim).is_empty());
            sim.set(if flr { "flr" } else { "asked" }, 1);
            run(&mut sim, 20);
            assert_eq!(high(&mut sim), ["stops", "quiesce_drops"]);
            // While beats pass, a frame is waited for.
            sim.set("progress_wire_moves", 1);
            run(&mut sim, if stuck { 2 * STILL } else { 0 });
            sim.set("progress_wire_moves", 0);
            assert_eq!(high(&mut sim), ["stops", "quiesce_drops"]);
            match stuck {
                true => run(&mut sim, STILL + 10),
                false => sim.set("progress_wire_shut", 1),
            }
            run(&mut sim, 50);
            assert_eq!(high(&mut sim), ["stops", "quiesce_drops", "quiesce_shut"]);
            sim.set("progress_quiet", 1);
            let (mut restarts, mut wipes, mut done) = (0, 0, 0);
            for _ in 0..40 {
                (restarts, wipes) = (restarts + sim.get("restart"), wipes + sim.get("quiesce_wipe"));
                done += sim.get("done");
                if sim.get("restart") == 1 {
                    sim.set("progress_clear", 0);
                }
                sim.tick();
            }
            assert_eq!((restarts, wipes, done), (2, u64::from(flr), 0));
            assert_eq!(high(&mut sim), ["stops", "quiesce_drops", "quiesce_shut"]);
            sim.set("progress_clear", 1);
            for _ in 0..3 {
                done += sim.get("done");
                sim.tick();
                // The register knows it in the next cycle.
                sim.set("asked", 0);
            }
            assert_eq!((done, high(&mut sim)), (1, if flr { vec!["flr_done"] } else { vec![] }));
            run(&mut sim, 100);
            assert_eq!(high(&mut sim), if flr { vec!["flr_done"] } else { vec![] });
            // A reset by the register before the other one is asked for no more: what the host has set stays.
            if flr {
                sim.set("asked", 1);
                for _ in 0..40 {
                    assert_eq!((sim.get("quiesce_wipe"), sim.get("flr_done")), (0, 1));
                    let done = sim.get("done") == 1;
                    sim.tick();
                    if done {
                        sim.set("asked", 0);
                    }
                }
                assert_eq!(high(&mut sim), ["flr_done"]);
            }
            sim.set("flr", 0);
            run(&mut sim, 5);
            assert!(high(&mut sim).is_empty());
            // One of a command tells the registers nothing, and the next one of theirs comes behind it.
            sim.set("reclaims", 1);
            sim.set("progress_wire_shut", 1);
            sim.set("progress_quiet", 0);
            run(&mut sim, 50);
            assert_eq!(high(&mut sim), ["stops", "quiesce_shut"]);
            sim.set("asked", 1);
            run(&mut sim, 2);
            assert_eq!(high(&mut sim), ["stops", "quiesce_drops", "quiesce_shut"]);
            sim.set("progress_quiet", 1);
            let (mut restarts, mut done) = (0, Vec::new());
            for _ in 0..40 {
                restarts += sim.get("restart");
                if sim.get("restart") == 1 {
                    sim.set("reclaims", 0);
                }
                if sim.get("done") == 1 {
                    done.push((restarts, sim.get("by_command")));
                }
                sim.tick();
                sim.set("asked", u64::from(done.is_empty()));
            }
            assert_eq!((restarts, done, high(&mut sim)), (4, vec![(4, 0)], vec![]));
        }
    }
}
