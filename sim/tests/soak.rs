// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs on random networks: a few seeds of `cargo xtask soak`, and that it finds what it is there to find.

use crate::tier::{chosen, here, number, one_of};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::soak::ends::RECEIVE_PIECES;
use ferrowire_sim::soak::generate::POOL_BUFFER;
use ferrowire_sim::soak::program::{
    consumes, is_answered, is_atomic, sends, Life, Message, Mistake, Program, Trouble, VERBS,
};
use ferrowire_sim::soak::windows::Misuse;
use ferrowire_sim::soak::{limits, program, run_case, run_program, Case, Mode, Outcome, Tally};
use ferrowire_sim::wire::{encoded, Delivery, TimedFilter};
use ferrowire_spec::queue::SendOpcode;
use ferrowire_spec::wire::frame::Frame;
use ferrowire_spec::wire::opcode::Operation;

const CONFIGS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cases of each configuration and mode with cards, and of one without.
const CASES: u64 = 2;
const CASES_WITHOUT: u64 = 40;

/// Of the cards, if there is one.
fn model(config: &str, mode: Mode) -> Option<CardModel> {
    mode.has_card().then(|| CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap())
}

fn with_cards() -> Vec<Mode> {
    Mode::ALL.iter().copied().filter(|mode| mode.has_card()).collect()
}

fn case(seed: u64, config: &str, mode: Mode) -> Case {
    Case { seed, config: config.into(), mode, lane: None }
}

/// Completions and their order, states, every byte of both memories: as plain Rust says, whatever the wire does and whoever the
/// ends are (IBTA 9.7.5, 9.7.6, 10.3.1, 10.8.5).
#[test]
fn random_programs_on_random_networks_end_as_plain_rust_says() {
    let seed = std::env::var("FERROWIRE_SEED").ok().map(|text| text.parse::<u64>().expect("a number"));
    let first = seed.unwrap_or(1);
    let (mut all, mut frames) = (Tally::new(), 0);
    let mut next = first;
    for mode in Mode::ALL.iter().copied().filter(|mode| !mode.has_emulated()) {
        let cases = match mode.has_card() {
            true => number(1, CASES * CONFIGS.len() as u64),
            false => CASES_WITHOUT,
        };
        for _ in 0..if seed.is_some() { 1 } else { cases } {
            let config = CONFIGS[next as usize % CONFIGS.len()];
            let case = case(next, config, mode);
            println!("seed {next}: FERROWIRE_SEED={next} repeats it with all ends; {}", case.rerun());
            let outcome = run_case(model(config, mode).as_ref(), &case, None).unwrap();
            let Outcome { difference, diagnosis, .. } = &outcome;
            let rerun = case.rerun();
            assert_eq!(*difference, None, "{diagnosis:#?}\nwaves, frames: {rerun}");
            outcome.tally.into_iter().for_each(|(what, n)| *all.entry(what).or_default() += n);
            frames += outcome.counts.frames;
            next += u64::from(seed.is_none());
        }
    }
    println!("{frames} frames; {all:?}");
    if seed.is_none() {
        for what in ["SUCCESS", "WR_FLUSH_ERR", "LOC_PROT_ERR", "REM_ACCESS_ERR", "RETRY_EXC_ERR"]
            .into_iter()
            .chain(["REM_INV_REQ_ERR", "REM_OP_ERR", "RNR_RETRY_EXC_ERR"])
            .chain(["receive: SUCCESS", "receive: WR_FLUSH_ERR"])
            .chain(["receive: LOC_LEN_ERR", "receive: LOC_PROT_ERR"])
        {
            assert!(all.contains_key(what), "nothing ends with {what}");
        }
        for what in ["drained", "moved to ERR", "reset under way"] {
            assert!(all.contains_key(what), "no queue pair was {what}");
        }
    }
}

/// The same with the engine behind the registers and rings of a card, and the driver before it.
#[test]
fn random_programs_over_emulated_cards_end_as_plain_rust_says() {
    let seed = std::env::var("FERROWIRE_SEED").ok().map(|text| text.parse::<u64>().expect("a number"));
    let mut next = seed.unwrap_or(301);
    let mut all = Tally::new();
    for mode in Mode::ALL.iter().copied().filter(|mode| mode.has_emulated()) {
        for _ in 0..if seed.is_some() { 1 } else { number(CASES_WITHOUT / 2, CASES_WITHOUT) } {
            let case = case(next, "generic-64b", mode);
            let outcome = run_case(None, &case, None).unwrap();
            let (diagnosis, rerun) = (&outcome.diagnosis, case.rerun());
            assert_eq!(outcome.difference, None, "seed {next}: {diagnosis:#?}\n{rerun}");
            outcome.tally.into_iter().for_each(|(what, n)| *all.entry(what).or_default() += n);
            next += u64::from(seed.is_none());
        }
    }
    println!("{all:?}");
    for what in ["SUCCESS", "WR_FLUSH_ERR", "REM_ACCESS_ERR", "drained", "moved to ERR", "reset under way"] {
        assert!(seed.is_some() || all.contains_key(what), "nothing ends with {what}");
    }
}

/// The same over PCIe, before root complexes of every temper, as plain packets and through AMD's block.
#[test]
fn random_programs_over_pcie_end_as_plain_rust_says() {
    let seed = std::env::var("FERROWIRE_SEED").ok().map(|text| text.parse::<u64>().expect("a number"));
    let mut next = seed.unwrap_or(101);
    for config in chosen!(["pcie-8b", "pcie4-64b"]) {
        for mode in one_of(here!(), with_cards()) {
            let case = case(next, config, mode);
            println!("seed {next}: FERROWIRE_SEED={next} repeats it with all ends; {}", case.rerun());
            let outcome = run_case(model(config, mode).as_ref(), &case, None).unwrap();
            let (diagnosis, rerun) = (&outcome.diagnosis, case.rerun());
            assert_eq!(outcome.difference, None, "{diagnosis:#?}\nwaves, frames: {rerun}");
            next += u64::from(seed.is_none());
        }
    }
}

/// The same over AXI4, before subordinates of every temper.
#[test]
fn random_programs_over_axi_end_as_plain_rust_says() {
    let seed = std::env::var("FERROWIRE_SEED").ok().map(|text| text.parse::<u64>().expect("a number"));
    let mut next = seed.unwrap_or(201);
    for config in chosen!(["axi-8b", "axi-64b"]) {
        for mode in one_of(here!(), with_cards()) {
            let case = case(next, config, mode);
            println!("seed {next}: FERROWIRE_SEED={next} repeats it with all ends; {}", case.rerun());
            let outcome = run_case(model(config, mode).as_ref(), &case, None).unwrap();
            let (diagnosis, rerun) = (&outcome.diagnosis, case.rerun());
            assert_eq!(outcome.difference, None, "{diagnosis:#?}\nwaves, frames: {rerun}");
            next += u64::from(seed.is_none());
        }
    }
}

/// On a wire that loses nothing, connections without a time-out end, whatever comes again when it is long past, and however slow memory is. A card that lets
/// an acknowledgement take the place of a NAK that waits for a READ's response stops at one of these seeds (IBTA 9.7.5.2.8).
#[test]
fn where_nothing_is_lost_no_time_out_is_needed() {
    let config = "generic-8b";
    let mut stale = 0;
    for seed in 23..number(30, 200) {
        let case = case(seed, config, Mode::RtlRtl);
        if !program(&case).unwrap().faults.iter().all(|faults| faults.stale > 0.0 && faults.drop == 0.0) {
            continue;
        }
        let outcome = run_case(model(config, case.mode).as_ref(), &case, None).unwrap();
        assert_eq!(outcome.difference, None, "{:#?} {}", outcome.diagnosis, case.rerun());
        let stands = outcome.tally.keys().find(|what| what.starts_with("stands"));
        assert_eq!(stands, None, "two equal cards lose nothing; {}", case.rerun());
        stale += 1;
    }
    assert!(stale > number(1, 4), "{stale} wires with stale copies");
}

/// With the same seed everything happens in the same cycle.
#[test]
fn a_seed_repeats_its_case() {
    let without = Mode::ALL.iter().copied().filter(|mode| !mode.has_card());
    for mode in without.chain(one_of(here!(), with_cards())) {
        let model = model("generic-64b", mode);
        let case = Case { lane: Some(0), ..case(2, "generic-64b", mode) };
        let runs = [(); 2].map(|()| run_case(model.as_ref(), &case, None).unwrap());
        let what = runs.each_ref().map(|o| (o.cycles, o.counts, o.tally.clone()));
        assert_eq!(what[0], what[1], "{mode}");
    }
}

/// A lane alone is what it is among the others.
#[test]
fn a_program_is_of_its_seed_alone() {
    let all = program(&case(11, "generic-8b", Mode::RtlRtl)).unwrap();
    for lane in &all.lanes {
        let alone = Case { lane: Some(lane.number), ..case(11, "generic-8b", Mode::RtlRtl) };
        let alone = program(&alone).unwrap();
        assert_eq!(format!("{:?}", alone.lanes), format!("{:?}", [lane]));
    }
    let other = program(&case(12, "generic-8b", Mode::RtlRtl)).unwrap();
    assert_ne!(format!("{all:?}"), format!("{other:?}"));
    let wrong = Case { lane: Some(99), ..case(11, "generic-8b", Mode::RtlRtl) };
    assert!(program(&wrong).unwrap_err().to_string().contains("no lane 99"));
}

/// Runs some of the lanes of each seed's program, each alone between two engines, and counts what happens.
fn alone(seeds: std::ops::RangeInclusive<u64>, lanes: impl Fn(&Program) -> Vec<usize>) -> Tally {
    let mut all = Tally::default();
    for seed in seeds {
        let mut case = case(seed, "generic-64b", Mode::ModelModel);
        for lane in lanes(&program(&case).unwrap()) {
            case.lane = Some(lane);
            let outcome = run_case(None, &case, None).unwrap();
            assert_eq!(outcome.difference, None, "{}", case.rerun());
            outcome.tally.into_iter().for_each(|(what, n)| *all.entry(what).or_default() += n);
        }
    }
    all
}

/// Lanes of UC and UD on wires of all kinds, between two engines: what is said of them is right.
#[test]
fn what_is_lost_without_an_answer_is_all_that_is_missing() {
    let all = alone(1..=60, |program| program.quiet.iter().map(|lane| lane.number).collect());
    let came: u64 = all.iter().filter(|(what, _)| what.ends_with("a message came")).map(|(_, n)| n).sum();
    println!("{all:?}");
    assert!(came > 300 && came < all["SUCCESS"], "some are lost, most are not: {all:?}");
}

/// Lanes of raw Ethernet on wires of all kinds, between two engines: what is said of them is right, and all of it happens.
#[test]
fn raw_frames_come_as_they_were_sent_or_are_left_out_for_a_reason() {
    let all = alone(1..=200, |program| program.raw.iter().map(|lane| lane.number).collect());
    println!("{all:?}");
    let often = |what: &str| all.get(what).copied().unwrap_or_default();
    for what in [
        "raw: lives",
        "raw: filters",
        "raw: reset under way",
        "raw: SQE and back",
        "raw: receives that failed",
    ] {
        assert!(often(what) > 3, "{what}: {all:?}");
    }
    let (came, sent) = (often("raw: a frame came"), often("SUCCESS"));
    assert!(came > 200 && came < sent, "some are left out, many are not: {all:?}");
}

/// Lanes of windows between two engines: what is said of them is right, and all of it happens.
#[test]
fn windows_give_what_they_are_bound_to_give_until_they_are_taken_back() {
    let all = alone(1..=400, |program| program.windows.iter().map(|lane| lane.number).collect());
    println!("{all:?}");
    let misuses = Misuse::ALL.map(|misuse| format!("{misuse:?}"));
    let ways = ["bound", "taken back", "taken back in use", "SEND with invalidate", "freed"];
    let troubles = ["moved to ERR", "reset under way"].into_iter();
    for what in misuses.iter().map(|misuse| &misuse[..]).chain(ways).chain(troubles) {
        assert!(all.contains_key(&format!("windows: {what}")), "never {what}: {all:?}");
    }
}

/// Programs have everything that they are said to have.
#[test]
fn programs_have_every_mistake_every_trouble_and_messages_of_all_lengths() {
    let limits = limits("generic-64b", Mode::ModelModel).unwrap();
    let (mut mistakes, mut troubles, mut lengths) = (Vec::<Mistake>::new(), [0; 4], [0; 3]);
    let (mut verbs, mut paces, mut pieces) = (Vec::new(), Vec::new(), [0; RECEIVE_PIECES + 1]);
    let (mut spoilt, mut short, mut few, mut pooled) = (0, 0, 0, 0);
    for seed in 0..200 {
        let program = Program::of(seed, &limits);
        let lives =
            program.lanes.iter().flat_map(|lane| lane.lives.iter().map(|life| (lane.room.shared, life)));
        for (shared, life) in lives {
            troubles[match life.trouble {
                Trouble::None => 0,
                Trouble::Drain(..) => 1,
                Trouble::Error(..) => 2,
                Trouble::Reset(..) => 3,
            }] += 1;
            for buffer in life.buffers.iter().flatten() {
                pieces[buffer.pieces.len()] += 1;
                spoilt += usize::from(buffer.spoilt);
            }
            for side in 0..2 {
                let taken: Vec<_> = life.work[side].iter().filter(|message| consumes(message.verb)).collect();
                let buffers = &life.buffers[1 - side];
                if shared {
                    // They are posted again and again, for whoever sends.
                    pooled += taken.len();
                    assert!(buffers.is_empty() && taken.iter().all(|message| message.len <= POOL_BUFFER));
                    continue;
                }
                few += usize::from(buffers.len() < taken.len());
                assert!(
                    buffers.len() >= taken.len() || life.rnr_retry < 7,
                    "seed {seed} would wait for ever"
                );
                let pairs = taken.iter().zip(buffers);
                short += pairs.filter(|(m, buffer)| sends(m.verb) && m.len > buffer.room()).count();
                paces.extend(Some(life.pace[side]).filter(|pace| !paces.contains(pace)));
            }
            for message in life.work.iter().flatten() {
                verbs.extend(Some(message.verb).filter(|verb| !verbs.contains(verb)));
                mistakes.extend(message.mistake.filter(|mistake| !mistakes.contains(mistake)));
                lengths[match message.len {
                    0 => 0,
                    1..=32_768 => 1,
                    _ => 2,
                }] += 1;
            }
        }
    }
    assert_eq!(mistakes.len(), 5, "{mistakes:?}");
    assert!(troubles.iter().chain(&lengths).all(|n| *n > 10), "{troubles:?} {lengths:?}");
    assert_eq!((verbs.len(), paces.len()), (VERBS.len(), 3), "{verbs:?} {paces:?}");
    assert!(pieces.iter().all(|n| *n > 10), "{pieces:?}");
    assert!([spoilt, short, few, pooled].iter().all(|n| *n > 5), "{spoilt} {short} {few} {pooled}");
}

/// Nothing reads or changes what something behind it may write before.
#[test]
fn programs_have_no_races() {
    let limits = limits("generic-64b", Mode::ModelModel).unwrap();
    let mut reads = 0;
    for seed in 0..300 {
        let program = Program::of(seed, &limits);
        for work in program.lanes.iter().flat_map(|lane| &lane.lives).flat_map(|life| &life.work) {
            for (i, message) in work.iter().enumerate().filter(|(_, message)| is_answered(message.verb)) {
                reads += 1;
                let place = message.to..message.to + message.len;
                let later = work[i + 1..].iter().filter(|later| match later.verb {
                    SendOpcode::Write | SendOpcode::WriteImm => true,
                    verb => is_atomic(verb) && message.verb == SendOpcode::Read,
                });
                let overlaps = |later: &Message| later.to < place.end && place.start < later.to + later.len;
                assert!(!later.into_iter().any(overlaps), "seed {seed}, message {i}: {message:?}");
            }
        }
    }
    assert!(reads > 1000, "{reads}");
}

/// A calm case of a few messages, with a wire that lies: `lie` makes something else of a frame that side 0 sends. Whether it
/// has, and what differs.
fn lied_to(
    case: &Case,
    lie: impl Fn(usize, Frame<'_>) -> Option<Vec<u8>> + Send + Sync + Copy + 'static,
) -> (bool, Option<String>) {
    let mut program = program(case).unwrap();
    program.faults = Default::default();
    program.windows.clear();
    for life in program.lanes.iter_mut().flat_map(|lane| &mut lane.lives) {
        life.trouble = Trouble::None;
        life.work.iter_mut().flatten().for_each(|message| message.mistake = None);
    }
    let has_lied = Arc::new(AtomicBool::new(false));
    let wire = |side: usize, mut filter: TimedFilter| -> TimedFilter {
        let (mut n, has_lied) = (0, Arc::clone(&has_lied));
        Box::new(move |bytes| {
            let delivered = filter(bytes);
            n += 1;
            let told = Frame::parse(bytes).ok().and_then(|frame| lie(n, frame)).filter(|_| side == 0);
            has_lied.fetch_or(told.is_some(), Ordering::SeqCst);
            told.map_or(delivered, |frame| vec![Delivery::at_once(frame)])
        })
    };
    let model = model(&case.config, case.mode);
    let outcome = run_program(model.as_ref(), case, &program, None, wire).unwrap();
    (has_lied.load(Ordering::SeqCst), outcome.difference)
}

fn sealed(mut frame: Frame<'_>) -> Option<Vec<u8>> {
    frame.seal().ok()?;
    encoded(&frame).ok()
}

/// Ends that err are found: other bytes, bytes elsewhere, success for what never arrived, silence.
#[test]
fn what_is_wrong_is_found() {
    let cards = case(3, "generic-64b", Mode::RtlRtl);
    let case = &case(3, "generic-64b", number(Mode::ModelModel, Mode::RtlRtl));
    assert_eq!(lied_to(case, |_, _| None), (false, None));
    // What cards have placed is read from the memory of their hosts.
    let (_, other) = lied_to(&cards, |n, frame| {
        let mut payload = frame.payload.to_vec();
        *payload.first_mut().filter(|_| n > 9 && is(&frame, Operation::Write))? ^= 1;
        sealed(Frame { payload: &payload, ..frame })
    });
    assert!(other.is_some_and(|why| why.contains("in the target: byte")));
    let (_, elsewhere) = lied_to(case, |n, mut frame| {
        frame.ext.reth.as_mut().filter(|reth| n > 9 && reth.len > 0)?.va += 1;
        sealed(frame)
    });
    assert!(
        elsewhere.is_some_and(|why| why.contains("in the target: byte") || why.contains("REM_ACCESS_ERR"))
    );
    let (_, unheard) = lied_to(case, |n, mut frame| {
        (n > 9).then(|| frame.bth.destqp ^= 0x40_0000);
        sealed(frame)
    });
    assert!(unheard.is_some_and(|why| why.contains("RETRY_EXC_ERR")));
    let (_, untrue) = lied_to(case, |n, mut frame| {
        let aeth = frame.ext.aeth.as_mut().filter(|_| n > 9)?;
        aeth.syndrome = 0x62;
        sealed(frame)
    });
    let untrue = untrue.expect("a forged NAK is seen");
    assert!(untrue.contains("ends with REM_ACCESS_ERR, but "), "{untrue}");
}

/// What a lie about receives, READs and atomics is found by.
#[test]
fn what_is_wrong_with_messages_and_answers_is_found() {
    type Lie = fn(usize, Frame<'_>) -> Option<Vec<u8>>;
    fn changed(frame: Frame<'_>) -> Option<Vec<u8>> {
        let mut payload = frame.payload.to_vec();
        *payload.last_mut()? ^= 1;
        sealed(Frame { payload: &payload, ..frame })
    }
    let lies: [(Lie, &str); 7] = [
        (|_, frame| is(&frame, Operation::Send).then(|| changed(frame))?, "in the inbox: byte"),
        (
            |_, mut frame| {
                frame.ext.imm.as_mut()?.imm ^= 1;
                sealed(frame)
            },
            "with another immediate",
        ),
        (
            |_, mut frame| {
                frame.bth.se ^= is(&frame, Operation::Send) && frame.opcode().ok()?.position().ends();
                is(&frame, Operation::Send).then(|| sealed(frame))?
            },
            "with another solicited mark",
        ),
        (|_, frame| is(&frame, Operation::ReadResponse).then(|| changed(frame))?, "in the answers: byte"),
        (
            |_, mut frame| {
                frame.ext.atomic_ack.as_mut()?.orig ^= 1 << 63;
                sealed(frame)
            },
            "in the answers: byte",
        ),
        (
            |_, mut frame| {
                let atomic = frame.ext.atomic.as_mut()?;
                (atomic.swap, atomic.compare) = (atomic.swap ^ 1 << 40, atomic.compare ^ 1 << 40);
                sealed(frame)
            },
            "in the target: byte",
        ),
        (
            |_, mut frame| {
                let aeth = frame.ext.aeth.as_mut().filter(|_| frame.payload.is_empty())?;
                aeth.syndrome = 0x61;
                sealed(frame)
            },
            "REM_INV_REQ_ERR, but",
        ),
    ];
    for (i, (lie, found_by)) in lies.into_iter().enumerate() {
        let mut found = 0;
        for seed in 1..=10 {
            let case = case(seed, "generic-64b", Mode::ModelModel);
            let (lied, difference) = lied_to(&case, lie);
            assert_eq!(lied, difference.is_some(), "lie {i}, seed {seed}: {difference:?}");
            found += usize::from(difference.is_some_and(|difference| difference.contains(found_by)));
        }
        assert!(found > 0, "lie {i} was never found by `{found_by}`");
    }
}

/// What is wrong with windows is found: the frames of side 0 are changed, whoever has lent what.
#[test]
fn what_is_wrong_with_windows_is_found() {
    type Lie = fn(Frame<'_>) -> Option<Vec<u8>>;
    let lies: [(Lie, &str); 4] = [
        // A WRITE goes to the byte before, and an invalidation to another key.
        (
            |mut frame| {
                let reth = frame.ext.reth.as_mut().filter(|reth| reth.len > 0)?;
                reth.va = reth.va.wrapping_sub(1);
                sealed(frame)
            },
            "in what is lent: byte",
        ),
        (
            |mut frame| {
                frame.ext.ieth.as_mut()?.rkey ^= 1;
                sealed(frame)
            },
            "it must end Well",
        ),
        // A denial that never was, and one that is kept secret.
        (
            |mut frame| {
                frame.ext.aeth.as_mut().filter(|_| frame.payload.is_empty())?.syndrome = 0x62;
                sealed(frame)
            },
            "it must end Well",
        ),
        (
            |mut frame| {
                frame.ext.aeth.as_mut().filter(|aeth| aeth.syndrome == 0x62)?.syndrome = 0x1f;
                sealed(frame)
            },
            "it must end Denied",
        ),
    ];
    for (i, (lie, found_by)) in lies.into_iter().enumerate() {
        let mut found = 0;
        for seed in 1..=60 {
            let mut case = case(seed, "generic-64b", Mode::ModelModel);
            let all = program(&case).unwrap();
            let Some(lane) = all.windows.first() else { continue };
            case.lane = Some(lane.number);
            let mut program = program(&case).unwrap();
            program.faults = Default::default();
            let wire = |side: usize, mut filter: TimedFilter| -> TimedFilter {
                Box::new(move |bytes| {
                    let told = Frame::parse(bytes).ok().and_then(lie).filter(|_| side == 0);
                    told.map_or_else(|| filter(bytes), |frame| vec![Delivery::at_once(frame)])
                })
            };
            let outcome = run_program(None, &case, &program, None, wire).unwrap();
            found += usize::from(outcome.difference.is_some_and(|why| why.contains(found_by)));
        }
        assert!(found > 0, "lie {i} was never found by `{found_by}`");
    }
}

/// Cards tell of congestion, and are slowed down by what they are told, and nothing is lost by that.
#[test]
fn slowed_queue_pairs_finish_too() {
    for config in chosen!(CONFIGS) {
        let (mut marked, mut cnps, mut next) = (0, 0, 0);
        for _ in 0..number(1, 2) {
            let marks = |seed: u64| {
                let program = program(&case(seed, config, Mode::RtlRtl)).unwrap();
                program.marks.is_some_and(|marks| marks.shares.iter().all(|share| *share > 0.05))
            };
            next = (next + 1..).find(|seed| marks(*seed)).unwrap();
            let case = case(next, config, Mode::RtlRtl);
            let outcome = run_case(model(config, case.mode).as_ref(), &case, None).unwrap();
            assert_eq!(outcome.difference, None, "{:#?} {}", outcome.diagnosis, case.rerun());
            (marked, cnps) = (marked + outcome.counts.marked, cnps + outcome.counts.cnps);
        }
        println!("{config}: {marked} marked, {cnps} CNPs");
        assert!(marked > 0 && cnps > 0, "{config}: {marked} marked, {cnps} CNPs");
    }
}

fn is(frame: &Frame<'_>, operation: Operation) -> bool {
    frame.opcode().is_ok_and(|opcode| opcode.operation() == operation)
}

/// With the answer to RESET the old life is over: no completion of it comes any more (IBTA 10.2.4.2, 10.3.1.2). A wire without
/// faults; on every lane RESET comes while completions do, and a new life follows.
#[test]
fn after_reset_no_completion_of_the_old_life_comes() {
    let config = "generic-8b";
    let mut bad = Vec::new();
    for seed in 1..=number(1, 12) {
        let case = case(seed, config, Mode::RtlRtl);
        let mut program = program(&case).unwrap();
        program.faults = Default::default();
        for lane in &mut program.lanes {
            lane.room.sends = 8;
            let mut life = lane.lives.swap_remove(0);
            for message in life.work.iter_mut().flatten() {
                (message.signaled, message.mistake, message.len) = (true, None, message.len.min(100));
            }
            let all: usize = life.work.iter().map(Vec::len).sum();
            (life.anew, life.retry_cnt, life.trouble) = (false, 7, Trouble::Reset(0, all / 2));
            let psns = |i: u32| life.psns.map(|psn| psn.wrapping_add(i << 20) & 0xff_ffff);
            lane.lives = (0..6).map(|i| Life { psns: psns(i), ..life.clone() }).collect();
        }
        let outcome =
            run_program(model(config, case.mode).as_ref(), &case, &program, None, |_, filter| filter)
                .unwrap();
        bad.extend(outcome.difference.map(|why| format!("seed {seed}: {why}")));
    }
    assert!(bad.is_empty(), "{} of them: {bad:#?}", bad.len());
}
