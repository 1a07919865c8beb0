// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random requests over a line that loses, breaks and inserts bytes, against a plain model: everything is done once and in order.

use crate::tier::number;
use std::time::Duration;

use ferrowire::serial::frame::Request;
use ferrowire::serial::Link;
use ferrowire::spec::serial::{Command, Status, DIRTY_BYTES};
use ferrowire_sim::axi::AxiSettings;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::bench::{Bench, BASE, BYTES, COUNTER, REFUSED};

/// What becomes of bytes on a line with so much probability that one is not what it was.
fn noisy(bytes: &[u8], noise: f64, rng: &mut SmallRng) -> Vec<u8> {
    let mut line = Vec::new();
    for byte in bytes {
        if noise == 0.0 || !rng.random_bool(noise) {
            line.push(*byte);
            continue;
        }
        match rng.random_range(0..5) {
            0 => {}
            1 => line.push(byte ^ 1 << rng.random_range(0..8)),
            2 => line.extend([*byte, rng.random()]),
            // What does most: marks and escapes.
            3 => line.extend([*byte, [0xc0, 0xdb][rng.random_range(0..2)]]),
            // Many at once.
            _ => line.extend((0..rng.random_range(1..40)).map(|_| rng.random::<u8>())),
        }
    }
    line
}

/// Requests, and the answers that a board without faults gives.
struct Model {
    memory: Vec<u8>,
    registers: std::collections::BTreeMap<u32, u64>,
    reads: u64,
    writes: usize,
}

impl Model {
    /// `None`: what the answer is depends on when the request comes.
    fn request(&mut self, rng: &mut SmallRng) -> (Request, Option<Result<Vec<u8>, Status>>) {
        if rng.random_bool(0.1) {
            return (Request::read(Command::Dirty, 0, DIRTY_BYTES as u16), None);
        }
        let (request, answer) = self.certain(rng);
        (request, Some(answer))
    }

    fn certain(&mut self, rng: &mut SmallRng) -> (Request, Result<Vec<u8>, Status>) {
        let at = rng.random_range(0..BYTES / 8);
        let length = [1, 8, 16, rng.random_range(1..=256)][rng.random_range(0..4)].min(256 - at % 256);
        let address = BASE as u32 + at as u32;
        match rng.random_range(0..9) {
            8 => {
                self.memory[at..at + length].fill(0);
                (Request::read(Command::Clear, address, length as u16), Ok(vec![]))
            }
            0..2 => {
                let data: Vec<u8> =
                    (0..length).map(|_| [0xc0, rng.random()][rng.random_range(0..2)]).collect();
                self.memory[at..at + length].copy_from_slice(&data);
                (Request::write(Command::Write, address, &data), Ok(vec![]))
            }
            2..4 => {
                let data = self.memory[at..at + length].to_vec();
                (Request::read(Command::Read, address, length as u16), Ok(data))
            }
            4 => {
                self.reads += 1;
                (Request::read(Command::CsrRead, COUNTER, 8), Ok(self.reads.to_le_bytes().to_vec()))
            }
            5 => {
                let (register, value) = (8 * rng.random_range(0..16), rng.random::<u64>());
                self.registers.insert(register, value);
                self.writes += 1;
                (Request::write(Command::CsrWrite, register, &value.to_le_bytes()), Ok(vec![]))
            }
            6 => {
                let register = 8 * rng.random_range(0..16);
                self.reads += 1;
                let value = self.registers.get(&register).copied().unwrap_or(0);
                (Request::read(Command::CsrRead, register, 8), Ok(value.to_le_bytes().to_vec()))
            }
            _ => match rng.random_range(0..3) {
                0 => (Request::read(Command::Read, address, 0), Err(Status::Length)),
                1 => (Request::read(Command::Read, 0, 8), Err(Status::Address)),
                _ => (Request::write(Command::CsrWrite, REFUSED, &[0; 4]), Err(Status::Bus)),
            },
        }
    }
}

/// Bytes that the PC has given to the line ahead of time; more wait in its system.
const AHEAD: usize = 300;

fn run(seed: u64, noise: f64, requests: usize, settings: AxiSettings, stall: f64) {
    println!("seed {seed}, noise {noise}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut bench = Bench::new(settings, stall);
    let mut model = Model { memory: vec![0; BYTES], registers: Default::default(), reads: 0, writes: 0 };
    let now = |bench: &Bench| Duration::from_nanos(bench.cycle);
    let mut link = Link::new(rng.random(), Duration::from_nanos(200_000), 60, now(&bench));
    let mut wanted = std::collections::VecDeque::new();
    // What was on the line before.
    bench.rx.push(&noisy(&[0x55; 30], noise * 10.0, &mut rng));
    let (mut asked, mut answers, mut ahead) = (0, 0, 0u64);
    // Blocks that the card has written, and those that the board has told.
    let (mut written, mut told) = ([0u8; DIRTY_BYTES as usize], [0u8; DIRTY_BYTES as usize]);
    while answers < requests {
        if asked < requests && wanted.len() < 12 {
            let (request, answer) = match asked + 1 < requests {
                true => model.request(&mut rng),
                // At last, all that has not been told yet.
                false => (Request::read(Command::Dirty, 0, DIRTY_BYTES as u16), None),
            };
            link.ask(request);
            wanted.push_back(answer);
            asked += 1;
        }
        link.tick(now(&bench));
        if ahead <= bench.cycle {
            let at = now(&bench);
            if let Some(frame) = link.send(at) {
                assert!(frame.len() <= 2 * AHEAD);
                let line = noisy(frame, noise, &mut rng);
                ahead = bench.cycle + 80 * line.len() as u64;
                bench.rx.push(&line);
            }
        }
        if asked < requests && rng.random_bool(0.05) {
            let block = rng.random_range(0..8 * written.len());
            written[block / 8] |= 1 << (block % 8);
            bench.wrote = Some(block as u32);
        }
        bench.run(40);
        let heard = bench.heard();
        link.receive(&noisy(&heard, noise, &mut rng), now(&bench));
        assert_eq!(link.error(), None, "seed {seed}");
        while let Some(answer) = link.answer() {
            match wanted.pop_front().expect("an answer to nothing") {
                Some(wanted) => assert_eq!(answer, wanted, "seed {seed}: answer {answers}"),
                None => told.iter_mut().zip(answer.unwrap()).for_each(|(told, now)| *told |= now),
            }
            answers += 1;
        }
        assert!(bench.cycle < 400_000_000, "seed {seed}: it does not end");
    }
    assert_eq!(told, written, "seed {seed}: blocks that were told, and written");
    let mut memory = vec![0; BYTES];
    bench.memory.read(0, &mut memory);
    assert!(memory == model.memory, "seed {seed}: memory is not what was written");
    assert_eq!(
        (bench.registers.writes.len(), bench.registers.reads),
        (model.writes, model.reads),
        "seed {seed}"
    );
    bench.check();
    println!("{} cycles, sent again and dropped: {:?}", bench.cycle, link.losses());
    assert!((noise > 0.0) == (link.losses().0 > 0), "losses: {:?}", link.losses());
}

#[test]
fn without_noise_nothing_is_sent_again_whatever_the_bus_does() {
    for seed in 0..6 {
        run(seed, 0.0, 150, AxiSettings::random(seed), [0.0, 0.5][seed as usize % 2]);
    }
}

#[test]
fn with_noise_everything_is_done_once_and_in_order() {
    for seed in 0..number(4, 12) {
        run(seed, [0.001, 0.004][seed as usize % 2], 100, AxiSettings::random(seed), 0.2);
    }
}

#[test]
fn a_second_program_begins_anew_whatever_the_first_left_on_the_line() {
    let mut rng = SmallRng::seed_from_u64(7);
    let mut bench = Bench::new(AxiSettings::default(), 0.0);
    let patience = Duration::from_nanos(200_000);
    for _ in 0..8 {
        let mut link = Link::new(rng.random(), patience, 20, Duration::from_nanos(bench.cycle));
        let some: u64 = rng.random();
        (0..20)
            .for_each(|i| link.ask(Request::write(Command::Write, BASE as u32 + 8 * i, &some.to_le_bytes())));
        link.ask(Request::read(Command::Read, BASE as u32, 160));
        // It is killed in the middle of something, with half a frame on the line.
        let end = bench.cycle + rng.random_range(20_000..120_000);
        let mut ahead = 0;
        let mut answers = Vec::new();
        while bench.cycle < end || answers.is_empty() {
            let at = Duration::from_nanos(bench.cycle);
            link.tick(at);
            if ahead <= bench.cycle {
                if let Some(frame) = link.send(at) {
                    ahead = bench.cycle + 80 * frame.len() as u64;
                    bench.rx.push(frame);
                }
            }
            bench.run(40);
            let heard = bench.heard();
            link.receive(&heard, Duration::from_nanos(bench.cycle));
            assert_eq!(link.error(), None);
            answers.extend(std::iter::from_fn(|| link.answer()));
        }
        assert!(answers.len() < 21 || answers[20] == Ok(some.to_le_bytes().repeat(20)));
        let half = Request::write(Command::Write, BASE as u32, &[1; 99]).frame(rng.random());
        bench.rx.push(&half[..rng.random_range(1..half.len() - 1)]);
    }
    bench.check();
}
