// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs on random networks: a few seeds of `cargo xtask soak`, and that it finds what it is there to find.

use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::soak::program::{Life, Mistake, Program, Trouble};
use ferrowire_sim::soak::{limits, program, run_case, run_program, Case, Mode, Outcome, Tally};
use ferrowire_sim::wire::{Delivery, TimedFilter};
use ferrowire_spec::wire::frame::Frame;

const CONFIGS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cases of each configuration and mode.
const CASES: u64 = 2;

fn model(config: &str) -> CardModel {
    CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap()
}

fn case(seed: u64, config: &str, mode: Mode) -> Case {
    Case { seed, config: config.into(), mode, lane: None }
}

/// Completions and their order, states, every byte of both memories: as plain Rust says, whatever the wire does and whoever the
/// ends are (IBTA 9.7.5, 9.7.6, 10.3.1, 10.8.5).
#[test]
fn random_programs_on_random_networks_end_as_plain_rust_says() {
    let seed = std::env::var("FERROWIRE_SEED").ok().map(|text| text.parse::<u64>().expect("a number"));
    let (first, cases) = seed.map_or((1, CASES), |seed| (seed, 1));
    let (mut all, mut frames) = (Tally::new(), 0);
    let mut next = first;
    for config in CONFIGS {
        for mode in Mode::ALL {
            for _ in 0..cases {
                let case = case(next, config, mode);
                println!("seed {next}: FERROWIRE_SEED={next} repeats it with all ends; {}", case.rerun());
                let outcome = run_case(&model(config), &case, None).unwrap();
                let Outcome { difference, diagnosis, .. } = &outcome;
                let rerun = case.rerun();
                assert_eq!(*difference, None, "{diagnosis:#?}\nwaves, frames: {rerun}");
                outcome.tally.into_iter().for_each(|(what, n)| *all.entry(what).or_default() += n);
                frames += outcome.counts.frames;
                next += u64::from(seed.is_none());
            }
        }
    }
    println!("{frames} frames; {all:?}");
    if seed.is_none() {
        for what in ["SUCCESS", "WR_FLUSH_ERR", "LOC_PROT_ERR", "REM_ACCESS_ERR", "RETRY_EXC_ERR"] {
            assert!(all.contains_key(what), "no request ends with {what}");
        }
        for what in ["drained", "moved to ERR", "reset under way"] {
            assert!(all.contains_key(what), "no queue pair was {what}");
        }
    }
}

/// With the same seed everything happens in the same cycle.
#[test]
fn a_seed_repeats_its_case() {
    let model = model("generic-64b");
    for mode in Mode::ALL {
        let case = Case { lane: Some(0), ..case(2, "generic-64b", mode) };
        let runs = [(); 2].map(|()| run_case(&model, &case, None).unwrap());
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

/// Programs have everything that they are said to have.
#[test]
fn programs_have_every_mistake_every_trouble_and_messages_of_all_lengths() {
    let limits = limits("generic-64b").unwrap();
    let (mut mistakes, mut troubles, mut lengths) = (Vec::<Mistake>::new(), [0; 4], [0; 3]);
    for seed in 0..200 {
        let program = Program::of(seed, &limits);
        for life in program.lanes.iter().flat_map(|lane| &lane.lives) {
            troubles[match life.trouble {
                Trouble::None => 0,
                Trouble::Drain(..) => 1,
                Trouble::Error(..) => 2,
                Trouble::Reset(..) => 3,
            }] += 1;
            for message in life.work.iter().flatten() {
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
}

/// A calm case of a few messages, with a wire that lies: `lie` makes something else of a frame that side 0 sends.
fn lied_to(
    lie: impl Fn(usize, Frame<'_>) -> Option<Vec<u8>> + Send + Sync + Copy + 'static,
) -> Option<String> {
    let case = case(3, "generic-64b", Mode::RtlRtl);
    let mut program = program(&case).unwrap();
    program.faults = Default::default();
    for life in program.lanes.iter_mut().flat_map(|lane| &mut lane.lives) {
        life.trouble = Trouble::None;
        life.work.iter_mut().flatten().for_each(|message| message.mistake = None);
    }
    let wire = move |side: usize, mut filter: TimedFilter| -> TimedFilter {
        let mut n = 0;
        Box::new(move |bytes| {
            let delivered = filter(bytes);
            n += 1;
            let told = Frame::parse(bytes).ok().and_then(|frame| lie(n, frame));
            told.filter(|_| side == 0).map_or(delivered, |frame| vec![Delivery::at_once(frame)])
        })
    };
    run_program(&model("generic-64b"), &case, &program, None, wire).unwrap().difference
}

fn sealed(mut frame: Frame<'_>) -> Option<Vec<u8>> {
    frame.seal().ok()?;
    let mut bytes = vec![0; frame.len()];
    frame.emit(&mut bytes).ok()?;
    Some(bytes)
}

/// Ends that err are found: other bytes, bytes elsewhere, success for what never arrived, silence.
#[test]
fn what_is_wrong_is_found() {
    assert_eq!(lied_to(|_, _| None), None);
    let other = lied_to(|n, frame| {
        let mut payload = frame.payload.to_vec();
        *payload.first_mut().filter(|_| n > 9)? ^= 1;
        sealed(Frame { payload: &payload, ..frame })
    });
    assert!(other.is_some_and(|why| why.contains("in the target: byte")));
    let elsewhere = lied_to(|n, mut frame| {
        frame.ext.reth.as_mut().filter(|reth| n > 9 && reth.len > 0)?.va += 1;
        sealed(frame)
    });
    assert!(
        elsewhere.is_some_and(|why| why.contains("in the target: byte") || why.contains("REM_ACCESS_ERR"))
    );
    let unheard = lied_to(|n, mut frame| {
        (n > 9).then(|| frame.bth.destqp ^= 0x40_0000);
        sealed(frame)
    });
    assert!(unheard.is_some_and(|why| why.contains("RETRY_EXC_ERR")));
    let untrue = lied_to(|n, mut frame| {
        let aeth = frame.ext.aeth.as_mut().filter(|_| n > 9)?;
        aeth.syndrome = 0x62;
        sealed(frame)
    });
    assert!(untrue.is_some_and(|why| why.contains("REM_ACCESS_ERR, but nothing is wrong with it")));
}

/// With the answer to RESET the old life is over: no completion of it comes any more (IBTA 10.2.4.2, 10.3.1.2). A wire without
/// faults; on every lane RESET comes while completions do, and a new life follows.
#[test]
fn after_reset_no_completion_of_the_old_life_comes() {
    let config = "generic-8b";
    let mut bad = Vec::new();
    for seed in 1..=40 {
        let case = case(seed, config, Mode::RtlRtl);
        let mut program = program(&case).unwrap();
        program.faults = Default::default();
        for lane in &mut program.lanes {
            lane.room = 8;
            let mut life = lane.lives.swap_remove(0);
            for message in life.work.iter_mut().flatten() {
                (message.signaled, message.mistake, message.len) = (true, None, message.len.min(100));
            }
            let all: usize = life.work.iter().map(Vec::len).sum();
            (life.anew, life.retry_cnt, life.trouble) = (false, 7, Trouble::Reset(0, all / 2));
            let psns = |i: u32| life.psns.map(|psn| psn.wrapping_add(i << 20) & 0xff_ffff);
            lane.lives = (0..6).map(|i| Life { psns: psns(i), ..life.clone() }).collect();
        }
        let outcome = run_program(&model(config), &case, &program, None, |_, filter| filter).unwrap();
        bad.extend(outcome.difference.map(|why| format!("seed {seed}: {why}")));
    }
    assert!(bad.is_empty(), "{} of 40: {bad:#?}", bad.len());
}
