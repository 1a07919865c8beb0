// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the queue pairs do meanwhile that nobody attacks: a program of the soak, without end, trouble or mistake.

use anyhow::{ensure, Result};
use ferrowire_spec::Psn;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::soak::program::{consumes, sends, Life, Pace, Program, Trouble, ENOUGH, LIFE_PSNS};
use crate::soak::{limits, Mode};

/// Lives of a lane: more than fit any case.
const LIVES: u32 = 400;

/// Programs that are looked through for lanes.
const PROGRAMS: u64 = 200;

/// So many connections between the card and the engine, with messages both ways. Their time-outs are long enough for a line that is
/// shared with an attacker.
pub fn program(seed: u64, config: &str, lanes: usize) -> Result<Program> {
    let limits = limits(config, Mode::RtlModel)?;
    // Seeds near each other, and not by chance.
    let seed = seed >> 16;
    let mut program = Program::of(seed, &limits);
    program.lanes.clear();
    program.quiet.clear();
    program.windows.clear();
    program.raw.clear();
    program.faults = Default::default();
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut sides = [0; 2];
    for i in 0..PROGRAMS {
        for mut lane in Program::of(seed.wrapping_add(i), &limits).lanes {
            lane.lives.retain(calm);
            let busy = |side: usize| lane.lives.iter().any(|life| !life.work[side].is_empty());
            // Whoever has less to do is next.
            let new = (0..2).any(|side| busy(side) && sides[side] <= sides[1 - side]);
            if program.lanes.len() == lanes || lane.lives.is_empty() || !new {
                continue;
            }
            (0..2).for_each(|side| sides[side] += usize::from(busy(side)));
            let once = lane.lives.clone();
            let psns: [u32; 2] = [rng.random(), rng.random()];
            let life = |i: u32| Life {
                psns: psns.map(|psn| Psn::new(psn.wrapping_add(i * (LIFE_PSNS + 77))).get()),
                anew: false,
                retry_cnt: ENOUGH,
                patient: false,
                pace: [Pace::Ahead; 2],
                ..once[i as usize % once.len()].clone()
            };
            (lane.lives, lane.timeout, lane.number) =
                ((0..LIVES).map(life).collect(), 9, program.lanes.len());
            program.lanes.push(lane);
        }
        if program.lanes.len() == lanes {
            return Ok(program);
        }
    }
    ensure!(false, "no {lanes} calm connections in {PROGRAMS} programs from seed {seed} on");
    Ok(program)
}

/// Whether all of a life ends well.
fn calm(life: &Life) -> bool {
    let well = (0..2).all(|side| {
        let taken: Vec<_> = life.work[side].iter().filter(|message| consumes(message.verb)).collect();
        let buffers = &life.buffers[1 - side];
        let fits = taken.iter().zip(buffers).all(|(m, buffer)| !sends(m.verb) || m.len <= buffer.room());
        buffers.len() >= taken.len() && fits && buffers.iter().all(|buffer| !buffer.spoilt)
    });
    let sound = life.work.iter().flatten().all(|message| message.mistake.is_none());
    well && sound && matches!(life.trouble, Trouble::None) && life.rnr_retry == 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innocents_have_work_both_ways_and_nothing_goes_wrong_with_it() {
        for (config, lanes) in [("generic-8b", 2), ("generic-64b", 4)] {
            for seed in 0..20 {
                let program = program(seed, config, lanes).unwrap();
                assert_eq!(program.lanes.len(), lanes);
                for side in 0..2 {
                    let mut lives = program.lanes.iter().flat_map(|lane| &lane.lives[..2]);
                    assert!(lives.any(|life| !life.work[side].is_empty()), "seed {seed}, side {side}");
                }
                assert!(program.lanes.iter().flat_map(|lane| &lane.lives).all(calm));
            }
        }
    }
}
