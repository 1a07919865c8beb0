// SPDX-License-Identifier: MIT OR Apache-2.0
//! The block with a card that is written from the guide as well.

use std::collections::VecDeque;

use ferrowire::HostMemory;
use ferrowire_spec::pcie::pcie4::{cq, rc, ErrorCode, RcDescriptor, BEAT};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;
use crate::root::{Fault, Split};

const HIGH: u64 = 0x12_3456_0000;
const MEMORY: usize = 1 << 14;

struct Card {
    block: Pcie4Block,
    cycle: u64,
    random: SmallRng,
    rq: VecDeque<AxisBeat<RqUser>>,
    cc: VecDeque<AxisBeat<CcUser>>,
    /// What came on RC, and in how many beats.
    completions: Vec<(RcDescriptor, Vec<u8>)>,
    beats: Vec<u64>,
    rc_open: Vec<u8>,
    cq_open: Vec<u8>,
    requests: Vec<(CqDescriptor, Vec<u8>, u8, u8)>,
    enables: (u8, u8),
}

impl Card {
    fn new(settings: Pcie4Settings, root: RootSettings) -> (Self, Vec<u8>) {
        let random = SmallRng::seed_from_u64(root.seed);
        let mut block = Pcie4Block::new(settings, root);
        let memory = HostMemory::zeroed(MEMORY, 4096).unwrap();
        let bytes: Vec<u8> = (0..MEMORY).map(|i| (i * 7 % 253) as u8).collect();
        memory.write(0, &bytes);
        block.root.host_mut().map_mut().insert(HIGH, memory).unwrap();
        let (rq, cc, completions, beats) = (VecDeque::new(), VecDeque::new(), Vec::new(), Vec::new());
        let (rc_open, cq_open, requests) = (Vec::new(), Vec::new(), Vec::new());
        let card = Self {
            block,
            cycle: 0,
            random,
            rq,
            cc,
            completions,
            beats,
            rc_open,
            cq_open,
            requests,
            enables: (0, 0),
        };
        (card, bytes)
    }

    /// Queues a request for bytes, with something changed.
    fn ask(
        &mut self,
        tag: u8,
        at: u64,
        data: Option<&[u8]>,
        bytes: usize,
        change: impl Fn(&mut RqDescriptor, &mut RqUser),
    ) {
        let request = Request::of_bytes(data.is_some(), HIGH + at, bytes);
        let mut descriptor = RqDescriptor {
            address: request.header.address,
            dwords: request.dwords() as u16,
            request_type: u8::from(data.is_some()),
            tag,
            ..RqDescriptor::default()
        };
        let mut user = RqUser {
            first_be: request.header.first_be,
            last_be: request.header.last_be,
            seq_num0: tag % 64,
            ..RqUser::default()
        };
        change(&mut descriptor, &mut user);
        let mut packet = descriptor.to_bytes().unwrap().to_vec();
        if let Some(data) = data {
            packet.extend_from_slice(&vec![0; request.span().0 as usize]);
            packet.extend_from_slice(data);
            packet.resize(packet.len().next_multiple_of(4), 0);
        }
        self.rq.extend(beats(&packet, user));
    }

    fn read(&mut self, tag: u8, at: u64, bytes: usize) {
        self.ask(tag, at, None, bytes, |_, _| ());
    }

    fn step(&mut self) {
        let cycle = self.cycle;
        self.cycle += 1;
        if let Some(beat) = self.block.rc(cycle) {
            assert_eq!(self.block.rc(cycle), Some(beat), "an offer changes");
            if self.random.random_bool(0.8) || self.block.root.settings().stall == 0.0 {
                self.block.rc_taken(cycle);
                self.beats.push(cycle);
                self.completion(&beat);
            }
        }
        if let Some(beat) = self.block.cq(cycle) {
            self.block.cq_taken(cycle);
            if beat.user.is_sop == 1 {
                self.cq_open.clear();
                self.enables = (beat.user.first_be, beat.user.last_be);
            }
            self.cq_open.extend_from_slice(&beat.data[..4 * beat.keep.count_ones() as usize]);
            if beat.last {
                let descriptor = CqDescriptor::parse(&self.cq_open).unwrap();
                let (first_be, last_be) = self.enables;
                self.requests.push((descriptor, self.cq_open[cq::BYTES..].to_vec(), first_be, last_be));
            }
        }
        if let Some(beat) = self.rq.front() {
            if self.block.rq_ready(cycle) {
                self.block.rq_beat(cycle, beat);
                self.rq.pop_front();
            }
        }
        if let Some(beat) = self.cc.front() {
            if self.block.cc_ready(cycle) {
                self.block.cc_beat(cycle, beat);
                self.cc.pop_front();
            }
        }
    }

    /// Takes a beat of RC apart: by its pointers, whether packets straddle or not.
    fn completion(&mut self, beat: &AxisBeat<RcUser>) {
        let user = &beat.user;
        let mut sops: VecDeque<u8> = [user.sop0_ptr, user.sop1_ptr, user.sop2_ptr, user.sop3_ptr]
            [..user.is_sop.count_ones() as usize]
            .iter()
            .copied()
            .collect();
        let eops = [user.eop0_ptr, user.eop1_ptr, user.eop2_ptr, user.eop3_ptr];
        let mut at = if self.rc_open.is_empty() { None } else { Some(0) };
        for eop in &eops[..user.is_eop.count_ones() as usize] {
            let from = at.take().unwrap_or_else(|| 16 * usize::from(sops.pop_front().unwrap()));
            self.rc_open.extend_from_slice(&beat.data[from..4 * usize::from(*eop) + 4]);
            let packet = std::mem::take(&mut self.rc_open);
            let descriptor = RcDescriptor::parse(&packet).unwrap();
            assert_eq!(packet.len(), rc::BYTES + 4 * usize::from(descriptor.dwords));
            self.completions.push((descriptor, packet[rc::BYTES..].to_vec()));
        }
        let from = at.or_else(|| sops.pop_front().map(|sop| 16 * usize::from(sop)));
        if let Some(from) = from {
            self.rc_open.extend_from_slice(&beat.data[from..]);
        }
        let ended = user.is_eop != 0;
        assert_eq!(beat.last, ended && !self.block.settings.straddle);
        assert!(sops.is_empty());
    }

    fn finish(&mut self) {
        for _ in 0..100_000 {
            if self.block.idle() && self.rq.is_empty() && self.cc.is_empty() {
                return;
            }
            self.step();
        }
        panic!("it does not end: {:?}", self.block.root.violation());
    }
}

fn beats<U: Copy + Default>(packet: &[u8], user: U) -> Vec<AxisBeat<U>> {
    let count = packet.len().div_ceil(BEAT);
    let beat = |(i, part): (usize, &[u8])| {
        let mut data = [0; BEAT];
        data[..part.len()].copy_from_slice(part);
        let keep = ((1u32 << part.len().div_ceil(4)) - 1) as u16;
        AxisBeat { data, keep, last: i + 1 == count, user: if i == 0 { user } else { U::default() } }
    };
    packet.chunks(BEAT).enumerate().map(beat).collect()
}

fn straddle(straddle: bool) -> Pcie4Settings {
    Pcie4Settings { straddle, ..Pcie4Settings::default() }
}

#[test]
fn bytes_arrive_with_and_without_straddling() {
    for seed in 0..24 {
        let root = RootSettings {
            seed,
            chunk: [Split::Largest, Split::Random, Split::Fixed(64)][seed as usize % 3],
            reorder: seed % 2 == 1,
            late_reads: true,
            spread: 20,
            stall: [0.0, 0.3][seed as usize / 2 % 2],
            non_posted_credits: [None, Some(3)][seed as usize % 2],
            ..RootSettings::default()
        };
        let (mut card, memory) = Card::new(straddle(seed % 4 < 2), root);
        let mut asked = Vec::new();
        for tag in 0..100u8 {
            let bytes = card.random.random_range(1..=500);
            let at = card.random.random_range(0..4096 - bytes) + 4096 * usize::from(tag % 3);
            card.read(tag, at as u64, bytes);
            asked.push((at, bytes));
            // The last page is for writes.
            card.ask(0, 4096 * 3 + u64::from(tag), Some(&[tag]), 1, |_, _| ());
        }
        card.finish();
        assert_eq!(card.block.root.violation(), None, "seed {seed}");
        for (tag, (at, bytes)) in asked.into_iter().enumerate() {
            let mut data = Vec::new();
            let mine: Vec<_> = card.completions.iter().filter(|(d, _)| usize::from(d.tag) == tag).collect();
            for (i, (descriptor, part)) in mine.iter().enumerate() {
                assert_eq!(descriptor.error, ErrorCode::None.code());
                assert_eq!(usize::from(descriptor.byte_count), bytes - data.len());
                assert_eq!(usize::from(descriptor.lower_address), (at + data.len()) % 4096);
                assert_eq!(descriptor.completed, i + 1 == mine.len());
                let skip = usize::from(descriptor.lower_address) % 4;
                let have = (part.len() - skip).min(bytes - data.len());
                data.extend_from_slice(&part[skip..skip + have]);
            }
            assert!(data == memory[at..at + bytes], "seed {seed}, tag {tag}");
        }
        let mut written = [0; 100];
        card.block.root.host().map().read(HIGH + 4096 * 3, &mut written).unwrap();
        assert!(written.iter().enumerate().all(|(i, byte)| *byte == i as u8));
        let numbers: Vec<u8> = std::iter::from_fn(|| card.block.rq_seq_num()).collect();
        assert_eq!(numbers.len(), 200);
        assert_eq!(numbers[..4], [0, 0, 1, 0]);
    }
}

#[test]
fn straddling_fills_beats() {
    let count = |settings| {
        let root = RootSettings { chunk: Split::Fixed(256), ..RootSettings::default() };
        let (mut card, _) = Card::new(settings, root);
        (0..64).for_each(|tag| card.read(tag, 0, 256));
        card.finish();
        (card.beats.len(), card.beats[card.beats.len() - 1] - card.beats[0] + 1)
    };
    // 268 bytes take 5 beats, or 4 and a quarter.
    assert_eq!(count(straddle(false)), (320, 320));
    assert_eq!(count(straddle(true)).0, 64 * 17 / 4);
}

#[test]
fn byte_enables_say_which_bytes_were_asked_for() {
    let (mut card, memory) = Card::new(straddle(false), RootSettings::default());
    card.read(0, 6, 3);
    let beat = loop {
        if let Some(beat) = card.block.rc(card.cycle) {
            break beat;
        }
        card.step();
    };
    assert_eq!((beat.user.byte_en, beat.keep, beat.last), (0b111 << 14, 0b11111, true));
    assert_eq!(beat.data[14..17], memory[6..9]);
}

#[test]
fn faults_have_their_error_codes() {
    let codes = |fault: Fault, seed| {
        let settings = Pcie4Settings { completion_timeout: Some(200), ..Pcie4Settings::default() };
        let (mut card, _) = Card::new(settings, RootSettings { seed, ..RootSettings::default() });
        card.block.root.set_fault_predicate(Some(Box::new(move |read| (read.tag == 5).then_some(fault))));
        card.read(5, 0, 400);
        card.read(6, 0, 4);
        (0..300).for_each(|_| card.step());
        assert!(card.block.idle() && card.block.root.violation().is_none());
        let other = |(d, _): &&(RcDescriptor, Vec<u8>)| d.tag == 6;
        assert_eq!(card.completions.iter().filter(other).count(), 1);
        let told = |(d, _): &(RcDescriptor, Vec<u8>)| (d.tag != 6).then_some((d.error, d.completed));
        (card.completions.iter().filter_map(told).collect::<Vec<_>>(), card.block.malformed())
    };
    for seed in 0..10 {
        let told = |fault| codes(fault, seed).0;
        assert_eq!(told(Fault::Poisoned), [(1, true)]);
        assert_eq!(told(Fault::UnsupportedRequest), [(2, true)]);
        assert_eq!(told(Fault::CompleterAbort), [(2, true)]);
        assert_eq!(told(Fault::WrongByteCount), [(3, true)]);
        assert_eq!(told(Fault::StatusInTheMiddle).last(), Some(&(2, true)));
        assert_eq!(told(Fault::WrongLowerAddress), [(5, false), (9, true)]);
        assert_eq!(told(Fault::Unexpected), [(6, false), (0, true)]);
        assert_eq!(told(Fault::Twice), [(0, true), (6, false)]);
        assert_eq!(told(Fault::Lost), [(9, true)]);
        assert_eq!(told(Fault::Late(250)), [(9, true), (6, false)]);
        assert_eq!(codes(Fault::WrongLength, seed), (vec![(9, true)], 1));
    }
}

/// What is said when such a request is sent.
fn said(write: bool, change: impl Fn(&mut RqDescriptor, &mut RqUser)) -> Option<String> {
    let (mut card, _) = Card::new(straddle(false), RootSettings::default());
    card.ask(3, 0, write.then_some(&[1; 100]), 100, change);
    (0..40).for_each(|_| card.step());
    card.block.root.violation().map(str::to_string)
}

#[test]
fn requests_that_break_a_rule_are_violations() {
    let said = |write, change: fn(&mut RqDescriptor, &mut RqUser)| said(write, change).unwrap_or_default();
    assert_eq!(said(true, |_, _| ()), "");
    assert_eq!(said(false, |_, _| ()), "");
    assert!(said(false, |d, _| d.request_type = 4).contains("request type 4"));
    assert!(said(false, |d, _| d.dwords = 0).contains("0 double words"));
    assert!(said(true, |d, _| d.dwords = 24).contains("100 bytes follow the header where 96"));
    assert!(said(true, |d, _| d.requester_enable = true).contains("chooses its requester"));
    assert!(said(true, |d, _| d.requester = 1).contains("requester 0x0101"));
    assert!(said(true, |_, u| u.addr_offset = 1).contains("addr_offset 1"));
    assert!(said(true, |_, u| u.first_be = 5).contains("contiguous"));
    assert!(said(false, |_, u| u.last_be = 0).contains("neither is 0"));
    assert!(said(true, |d, _| d.poisoned = true).contains("EP"));
    assert!(said(true, |d, _| d.force_ecrc = true).contains("TD"));
    assert!(said(true, |d, _| d.tc = 1).contains("traffic class"));
    assert!(said(true, |d, _| d.relaxed = true).contains("relaxed ordering"));
    assert_eq!(said(true, |_, u| u.discontinue = true), "");
}

#[test]
fn beats_and_tags_that_break_a_rule_are_violations() {
    let sent = |change: fn(&mut VecDeque<AxisBeat<RqUser>>)| {
        let (mut card, _) = Card::new(straddle(false), RootSettings::default());
        card.ask(3, 0, Some(&[1; 200]), 200, |_, _| ());
        change(&mut card.rq);
        (0..40).for_each(|_| card.step());
        card.block.root.violation().unwrap_or_default().to_string()
    };
    assert_eq!(sent(|_| ()), "");
    assert!(sent(|beats| beats[0].keep = 0x7fff).contains("tkeep 0x7fff"));
    assert!(sent(|beats| beats[3].keep = 0x0005).contains("tkeep 0x0005"));
    assert!(sent(|beats| beats.truncate(2)).contains("tvalid falls"));
    let (mut card, _) = Card::new(straddle(false), RootSettings { latency: 50, ..RootSettings::default() });
    card.read(7, 0, 4);
    card.read(7, 0, 4);
    (0..9).for_each(|_| card.step());
    assert!(card.block.root.violation().is_some_and(|said| said.contains("the tag is in use")));
}

/// PG213 has no place for the EP bit on CQ: a card must not count on it.
#[test]
fn a_poisoned_write_of_the_cpu_looks_like_any_other() {
    let told = |poisoned: bool| {
        let (mut card, _) = Card::new(straddle(false), RootSettings::default());
        let mut write = Request::new(true, 0xf000_0104, 1, 15, 0);
        write.header.ep = poisoned;
        assert_eq!(card.block.root.cpu_raw(write.emit(&[7; 4])), None);
        (0..40).for_each(|_| card.step());
        card.requests
    };
    assert_eq!(told(false).len(), 1);
    assert_eq!(told(true), told(false));
}

#[test]
fn the_cpu_reads_and_writes_through_descriptors() {
    let (mut card, _) = Card::new(straddle(false), RootSettings { stall: 0.2, ..RootSettings::default() });
    card.block.root.cpu_write(0x106, &[9; 100]);
    let read = card.block.root.cpu_read(0x203, 70);
    let refused = card.block.root.cpu_read(0x300, 4);
    let short = card.block.root.cpu_read(0x400, 4);
    let mut io = Request::new(false, 0, 1, 15, 0);
    (io.kind, io.header.kind, io.header.tag) = (kind::IO_READ, 2, 200);
    let io = card.block.root.cpu_raw(io.emit(&[])).unwrap();
    (0..60).for_each(|_| card.step());
    let [(write, data, first_be, last_be), read_request, ..] = &card.requests[..] else { panic!() };
    assert_eq!((write.address << 2, write.dwords, write.request_type), (0xf000_0104, 26, 1));
    assert_eq!((*first_be, *last_be, data.len(), write.aperture), (0b1100, 0b0011, 104, 16));
    assert!(data[2..102].iter().all(|byte| *byte == 9));
    assert_eq!((read_request.0.dwords, read_request.2, read_request.3), (19, 0b1000, 1));
    assert_eq!((card.block.root.cpu_writes_taken(), card.requests.len()), (1, 4));
    assert_eq!(card.block.root.answer(), Some((io, Err(CompletionStatus::UnsupportedRequest))));

    let good = |d: &CqDescriptor, lower_address, byte_count, dwords| CcDescriptor {
        requester: d.requester,
        tag: d.tag,
        lower_address,
        byte_count,
        dwords,
        ..CcDescriptor::default()
    };
    let descriptor = good(&card.requests[1].0, 3, 70, 19);
    let packet = [&descriptor.to_bytes().unwrap()[..], &[0x77; 76]].concat();
    card.cc.extend(beats(&packet, CcUser::default()));
    for (request, more) in [(2, 20), (3, 0)] {
        let status = CompletionStatus::UnsupportedRequest.code();
        let descriptor = CcDescriptor { status, ..good(&card.requests[request].0, 0, 4, 0) };
        let packet = [&descriptor.to_bytes().unwrap()[..], &vec![0; more]].concat();
        card.cc.extend(beats(&packet, CcUser::default()));
    }
    card.finish();
    assert_eq!(card.block.root.violation(), None);
    assert_eq!(card.block.root.answer(), Some((read, Ok(vec![0x77; 70]))));
    for id in [refused, short] {
        assert_eq!(card.block.root.answer(), Some((id, Err(CompletionStatus::UnsupportedRequest))));
    }
}

#[test]
fn completions_that_break_a_rule_are_violations() {
    let said = |change: fn(&mut CcDescriptor)| {
        let (mut card, _) = Card::new(straddle(false), RootSettings::default());
        card.block.root.cpu_read(0x10, 4);
        (0..4).for_each(|_| card.step());
        let mut descriptor =
            CcDescriptor { lower_address: 0x10, byte_count: 4, dwords: 1, ..CcDescriptor::default() };
        change(&mut descriptor);
        let packet = [&descriptor.to_bytes().unwrap()[..], &[0; 4]].concat();
        card.cc.extend(beats(&packet, CcUser::default()));
        (0..4).for_each(|_| card.step());
        card.block.root.violation().unwrap_or_default().to_string()
    };
    assert_eq!(said(|_| ()), "");
    assert!(said(|d| d.rsvd1 = 1).contains("reserved bit"));
    assert!(said(|d| d.completer_enable = true).contains("chooses its completer"));
    assert!(said(|d| d.completer = 2).contains("completer 0x0102"));
    assert!(said(|d| d.status = 1).contains("status 1, and 1 double words"));
    assert!(said(|d| (d.status, d.dwords) = (1, 0)).contains("an error with 4 bytes behind it"));
    assert!(said(|d| d.dwords = 2).contains("4 bytes follow the header where 8"));
    assert!(said(|d| d.byte_count = 5).contains("byte count 5 where 4"));
    assert!(said(|d| d.locked = true).contains("fmt and type are 0x4b"));
    assert!(said(|d| d.tag = 9).contains("nothing was asked"));
}
