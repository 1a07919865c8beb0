// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Board`]: a board in plain Rust, made from the protocol's page: a card of the tests, memory, and the other end of the line.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ferrowire::serial::frame::frame;
use ferrowire::serial::{Line, Patience};
use ferrowire::spec::serial::{
    Command, Reason, Status, ANSWER, BLOCK, END, ESC, ESC_END, ESC_ESC, HEAD, MAGIC, NOTICE, VERSION, WINDOW,
};
use ferrowire::{Bus, HostMemory};

use crate::common::Mock;

pub const BASE: u32 = 0x2_0000;
pub const BYTES: usize = 128 << 10;

/// By the line's clock, a microsecond a byte.
pub const PATIENCE: Patience = Patience { wait: Duration::from_millis(20), tries: 30 };

/// What is wrong with a board, or its line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// One byte of so many is broken or lost, in each direction.
    pub noise: Option<u32>,
    /// The card moves between any two requests, and not only when nothing comes.
    pub hurried: bool,
    /// Nothing is heard of it.
    pub silent: bool,
    /// What it says of its protocol.
    pub version: Option<u8>,
}

/// Where in memory, and what.
pub type Write = (usize, Vec<u8>);

pub struct State {
    pub mock: Mock,
    pub memory: HostMemory,
    /// As the card and the PC left it: what differs now, the card has written.
    seen: Vec<u8>,
    dirty: Vec<bool>,
    pub faults: Faults,
    session: bool,
    expected: u8,
    kept: VecDeque<(u8, Vec<u8>)>,
    body: Vec<u8>,
    escaped: bool,
    broken: bool,
    out: VecDeque<u8>,
    clock: Duration,
    random: u64,
    /// What the card writes, behind so many requests more.
    pub later: Option<(usize, Vec<Write>)>,
    /// Requests that were carried out: command, address and length.
    pub done: Vec<(u8, u32, u16)>,
}

/// A board, and as a [`Line`] the PC's way to it.
#[derive(Clone)]
pub struct Board(Arc<Mutex<State>>);

impl Board {
    pub fn new(faults: Faults, seed: u64) -> Self {
        let (mock, memory) = (Mock::new(), HostMemory::zeroed(BYTES, 4096).unwrap());
        // What was there before is nobody's.
        memory.fill(0, BYTES, 0x5a);
        mock.card().map.insert(BASE.into(), memory.clone()).unwrap();
        Self(Arc::new(Mutex::new(State {
            mock,
            memory,
            seen: vec![0x5a; BYTES],
            dirty: vec![false; BYTES / BLOCK as usize],
            faults,
            session: false,
            expected: 0,
            kept: VecDeque::new(),
            body: Vec::new(),
            escaped: false,
            broken: false,
            out: VecDeque::new(),
            clock: Duration::ZERO,
            random: seed,
            later: None,
            done: Vec::new(),
        })))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl State {
    fn random(&mut self, below: u32) -> u32 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) as u32 % below
    }

    /// The card moves; what it has written is noted.
    pub fn step(&mut self) {
        self.mock.step();
        let mut now = vec![0; BYTES];
        self.memory.read(0, &mut now);
        let blocks = now.chunks(BLOCK as usize).zip(self.seen.chunks(BLOCK as usize));
        for (dirty, (now, seen)) in self.dirty.iter_mut().zip(blocks) {
            *dirty |= now != seen;
        }
        self.seen = now;
    }

    /// The card writes to memory.
    pub fn card_writes(&mut self, at: usize, bytes: &[u8]) {
        self.memory.write(at, bytes);
        self.step();
    }

    /// The power was away for a moment: of its logic, not of the card's.
    pub fn reset(&mut self) {
        (self.session, self.kept) = (false, VecDeque::new());
        self.body.clear();
    }

    fn noisy(&mut self, byte: u8) -> Option<u8> {
        let Some(one_of) = self.faults.noise else { return Some(byte) };
        match (self.random(one_of), self.random(2)) {
            (0, 0) => None,
            (0, _) => Some(byte ^ 1 << self.random(8)),
            _ => Some(byte),
        }
    }

    fn tell(&mut self, line: &[u8]) {
        for byte in line {
            let byte = self.noisy(*byte);
            self.out.extend(byte);
        }
    }

    fn notice(&mut self, reason: Reason) {
        let expected = self.expected;
        self.tell(&frame(vec![NOTICE, expected, reason as u8, 0]));
    }

    pub fn take(&mut self, byte: u8) {
        match (std::mem::take(&mut self.escaped), byte) {
            (escaped, END) => {
                let (body, broken) =
                    (std::mem::take(&mut self.body), std::mem::take(&mut self.broken) || escaped);
                if broken || !body.is_empty() {
                    self.ended(&body, broken);
                }
            }
            (false, ESC) => self.escaped = true,
            (true, ESC_END) => self.body.push(END),
            (true, ESC_ESC) => self.body.push(ESC),
            (true, _) => self.broken = true,
            (false, byte) => self.body.push(byte),
        }
    }

    fn ended(&mut self, body: &[u8], broken: bool) {
        let whole = body.split_last_chunk::<4>().filter(|(body, check)| {
            body.len() >= HEAD as usize && frame(body.to_vec()) == line(body, u32::from_le_bytes(**check))
        });
        let Some((body, _)) = whole.filter(|_| !broken) else { return self.notice(Reason::Broken) };
        let (head, data) = body.split_at(HEAD as usize);
        let (command, number) = (head[0], head[1]);
        let hello = command == Command::Hello as u8;
        if !hello && !self.session {
            return self.notice(Reason::NoSession);
        }
        if !hello && number != self.expected {
            let kept = self.kept.iter().find(|(kept, _)| *kept == number).map(|(_, line)| line.clone());
            return match kept {
                Some(line) => self.tell(&line),
                None => self.notice(Reason::Gap),
            };
        }
        if hello {
            self.reset();
            self.session = true;
        }
        let length = u16::from_le_bytes([head[2], head[3]]);
        let address = u32::from_le_bytes(head[4..8].try_into().unwrap());
        self.done.push((command, address, length));
        let (status, answer) = match self.carry_out(command, address, length, data) {
            Ok(answer) => (Status::Okay, answer),
            Err(status) => (status, vec![]),
        };
        let line = frame([&[command | ANSWER, number, status as u8, 0], &answer[..]].concat());
        self.expected = number.wrapping_add(1);
        self.kept.push_back((number, line.clone()));
        if self.kept.len() > WINDOW as usize {
            self.kept.pop_front();
        }
        self.tell(&line);
        if self.faults.hurried {
            self.step();
        }
        if let Some((left, writes)) = self.later.take() {
            match left.checked_sub(1) {
                Some(left) => self.later = Some((left, writes)),
                None => writes.iter().for_each(|(at, bytes)| self.card_writes(*at, bytes)),
            }
        }
    }

    fn carry_out(&mut self, command: u8, address: u32, length: u16, data: &[u8]) -> Result<Vec<u8>, Status> {
        let n = usize::from(length);
        let fits = address % BLOCK + u32::from(length) <= BLOCK && (1..=BLOCK as usize).contains(&n);
        let at = (address as usize).wrapping_sub(BASE as usize);
        let inside = fits && at < BYTES;
        let bus = |_| Status::Bus;
        match command {
            c if c == Command::Hello as u8 => {
                let version = self.faults.version.unwrap_or(VERSION);
                let what = [&MAGIC.to_le_bytes()[..], &[version, WINDOW as u8, 8, 0]].concat();
                let words = [BYTES as u64, BASE.into(), u64::from(address) << 32 | 50_000, 0];
                Ok([what, words.iter().flat_map(|word| word.to_le_bytes()).collect()].concat())
            }
            c if c == Command::CsrRead as u8 => {
                assert_eq!(length, 4);
                Ok(self.mock.csr_read32(address).map_err(bus)?.to_le_bytes().to_vec())
            }
            c if c == Command::CsrWrite as u8 => {
                match *data {
                    [a, b, c, d] => self.mock.csr_write32(address, u32::from_le_bytes([a, b, c, d])),
                    _ => self.mock.doorbell(address, u64::from_le_bytes(data.try_into().unwrap())),
                }
                .map_err(bus)?;
                Ok(vec![])
            }
            c if c == Command::Read as u8 && inside => {
                let mut out = vec![0; n];
                self.memory.read(at, &mut out);
                Ok(out)
            }
            c if (c == Command::Write as u8 || c == Command::Clear as u8) && inside => {
                let zeros = vec![0; n];
                let data = if c == Command::Clear as u8 { &zeros[..] } else { data };
                assert_eq!(data.len(), n);
                self.memory.write(at, data);
                self.seen[at..at + n].copy_from_slice(data);
                Ok(vec![])
            }
            c if c == Command::Status as u8 => Ok(vec![0; 16]),
            c if c == Command::Dirty as u8 => {
                let first = address as usize;
                assert!(first % 64 == 0 && n % 8 == 0 && (1..=32).contains(&n), "{first}, {n}");
                assert!(first + 8 * n <= self.dirty.len());
                let blocks = &mut self.dirty[first..first + 8 * n];
                let bits =
                    blocks.chunks(8).map(|bits| (0..8).fold(0, |byte, i| byte | u8::from(bits[i]) << i));
                let bits = bits.collect();
                blocks.fill(false);
                Ok(bits)
            }
            _ => Err(Status::Address),
        }
    }
}

/// A frame with any check.
fn line(body: &[u8], check: u32) -> Vec<u8> {
    let mut line = vec![END];
    for byte in body.iter().chain(&check.to_le_bytes()) {
        match *byte {
            END => line.extend([ESC, ESC_END]),
            ESC => line.extend([ESC, ESC_ESC]),
            byte => line.push(byte),
        }
    }
    line.push(END);
    line
}

impl Line for Board {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        for byte in bytes {
            state.clock += Duration::from_micros(1);
            if let Some(byte) = state.noisy(*byte) {
                state.take(byte);
            }
        }
        Ok(())
    }

    fn receive(&mut self, out: &mut [u8], within: Duration) -> io::Result<usize> {
        let mut state = self.state();
        state.step();
        if state.out.is_empty() || state.faults.silent {
            state.out.clear();
            state.clock += within.min(Duration::from_millis(1));
            return Ok(0);
        }
        // Not all at once.
        let n = state.out.len().min(out.len()).min(1 + state.random(100) as usize);
        out.iter_mut().zip(state.out.drain(..n)).for_each(|(to, byte)| *to = byte);
        state.clock += Duration::from_micros(n as u64);
        Ok(n)
    }

    fn now(&self) -> Duration {
        self.state().clock
    }
}
