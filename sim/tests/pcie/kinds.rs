// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that no register answers: of other kinds, too long, poisoned.

use ferrowire_sim::root::{ReadId, RootSettings};
use ferrowire_spec::pcie::{kind, CompletionStatus, Request32, Request64};
use rand::Rng as _;

use super::rig::Rig;
use super::setup::{seeds, settings, widths, widths_of};

/// A request of any kind to an offset of BAR 0, with data if that kind has some.
fn raw(rig: &mut Rig, first: u8, offset: u64, dwords: u16) -> Vec<u8> {
    raw_with(rig, first, offset, dwords, false)
}

fn raw_with(rig: &mut Rig, first: u8, offset: u64, dwords: u16, ep: bool) -> Vec<u8> {
    let (fmt, kind) = (first >> 5, first & 31);
    let RootSettings { bar0, completer: requester, .. } = *rig.root.settings();
    let (length, tag) = (dwords % 1024, rig.client.random.random());
    let last_be = if dwords == 1 { 0 } else { 15 };
    let address = (bar0 + offset) >> 2;
    let mut packet = if fmt & 1 == 1 {
        let header = Request64 {
            fmt,
            kind,
            ep,
            length,
            requester,
            tag,
            last_be,
            first_be: 15,
            address,
            ..Default::default()
        };
        header.to_bytes().unwrap().to_vec()
    } else {
        let address = address as u32 & 0x3fff_ffff;
        let header = Request32 {
            fmt,
            kind,
            ep,
            length,
            requester,
            tag,
            last_be,
            first_be: 15,
            address,
            ..Default::default()
        };
        header.to_bytes().unwrap().to_vec()
    };
    if fmt & 2 == 2 {
        let from = packet.len();
        packet.resize(from + 4 * usize::from(dwords), 0);
        rig.client.random.fill(&mut packet[from..]);
    }
    packet
}

/// The memory write or read of BAR 0, wherever it lies.
fn memory(rig: &Rig, write: bool) -> u8 {
    match (write, rig.root.settings().bar0 >> 32) {
        (false, 0) => kind::READ32,
        (false, _) => kind::READ64,
        (true, 0) => kind::WRITE32,
        (true, _) => kind::WRITE64,
    }
}

/// Registers work, and nothing but this has touched them.
fn assert_alive(rig: &mut Rig) {
    assert_eq!(rig.registers.log, [], "a request that must not touch a register");
    rig.root.cpu_write(0x80, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let id = rig.root.cpu_read(0x80, 8);
    rig.finish();
    assert_eq!(rig.answers.pop(), Some((id, Ok(vec![1, 2, 3, 4, 5, 6, 7, 8]))));
    rig.registers.log.clear();
}

fn refused(rig: &mut Rig, name: &str, id: Option<ReadId>, status: CompletionStatus) {
    let id = id.unwrap_or_else(|| panic!("{name} is to be answered"));
    rig.until(20_000, &format!("answered: {name}"), |rig| {
        !rig.answers.is_empty() || rig.root.violation().is_some()
    });
    assert_eq!(rig.root.violation(), None, "{name}");
    assert_eq!(rig.answers.pop(), Some((id, Err(status))), "{name}");
    assert_alive(rig);
}

#[test]
fn what_wants_an_answer_and_is_no_memory_read_is_unsupported() {
    seeds("what_wants_an_answer_and_is_no_memory_read_is_unsupported", 0..6, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            let (locked32, locked64) = (kind::READ_LOCKED32, 0x21);
            // Configuration requests of both types; atomic operations: fetch and add, swap, compare and swap.
            let all = [
                (kind::IO_READ, 1),
                (kind::IO_WRITE, 1),
                (locked32, 1),
                (locked64, 1),
                (locked64, 16),
                (0x04, 1),
                (0x44, 1),
                (0x05, 1),
                (0x45, 1),
                (0x4c, 1),
                (0x6c, 2),
                (0x4d, 1),
                (0x6d, 2),
                (0x4e, 2),
                (0x6e, 4),
            ];
            for (first, dwords) in all {
                let before = rig.events.refused;
                let packet = raw(&mut rig, first, 0x80, dwords);
                let id = rig.root.cpu_raw(packet);
                let name = format!("fmt and type {first:#04x}");
                refused(&mut rig, &name, id, CompletionStatus::UnsupportedRequest);
                assert_eq!(rig.events.refused, before + 1, "{name}");
            }
        }
    });
}

#[test]
fn reads_of_more_than_64_bytes_are_aborted() {
    seeds("reads_of_more_than_64_bytes_are_aborted", 0..4, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            for bytes in [68, 72, 128, 256, 1024, 4096] {
                let before = rig.events.refused;
                let id = rig.root.cpu_read(0, bytes);
                refused(&mut rig, &format!("{bytes} bytes"), Some(id), CompletionStatus::CompleterAbort);
                assert_eq!(rig.events.refused, before + 1, "{bytes} bytes");
            }
            let id = rig.root.cpu_read(0, 64);
            rig.finish();
            assert_eq!(rig.answers.pop(), Some((id, Ok(rig.registers.get(0, 64)))));
        }
    });
}

#[test]
fn long_and_poisoned_writes_are_dropped_and_counted() {
    seeds("long_and_poisoned_writes_are_dropped_and_counted", 0..4, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            let write = memory(&rig, true);
            let most = rig.root.settings().max_payload as u16 / 4;
            for (dwords, poisoned) in
                [(1, true), (2, true), (16, true), (17, false), (32, false), (most, true), (most, false)]
            {
                let before = rig.events.refused;
                let packet = raw_with(&mut rig, write, 0x80, dwords, poisoned);
                assert_eq!(rig.root.cpu_raw(packet), None);
                rig.finish();
                assert_alive(&mut rig);
                let name = format!("{dwords} double words, poisoned: {poisoned}");
                assert_eq!(rig.events.refused, before + 1, "{name}");
                assert_eq!(rig.answers, [], "{name}");
            }
        }
    });
}

#[test]
fn messages_are_dropped_without_an_answer() {
    seeds("messages_are_dropped_without_an_answer", 0..4, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            let most = rig.root.settings().max_payload as u16 / 4;
            for route in 0..8 {
                for (first, dwords) in [(0x30, 0), (0x70, 1), (0x70, 2), (0x70, 16), (0x70, most)] {
                    let packet = raw(&mut rig, first | route, 0x80, dwords);
                    assert_eq!(rig.root.cpu_raw(packet), None);
                }
            }
            rig.finish();
            assert_alive(&mut rig);
            assert_eq!(rig.answers, []);
        }
    });
}

/// Of kinds that the standard does not know, whether they are answered is left open.
#[test]
fn packets_of_unknown_kinds_change_nothing_and_do_no_harm() {
    seeds("packets_of_unknown_kinds_change_nothing_and_do_no_harm", 0..2, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            for first in 0..0x80 {
                let (fmt, kind) = (first >> 5, first & 31);
                let message = kind >> 3 == 2 && fmt & 1 == 1;
                if kind == 0 || message {
                    continue;
                }
                let dwords = [1, 2, 20][rig.client.random.random_range(0..3)];
                let packet = raw(&mut rig, first, 0x80, dwords);
                let id = rig.root.cpu_raw(packet);
                rig.run(600);
                if let Some(id) = id {
                    rig.root.forget(id);
                }
                rig.finish();
                let answers = std::mem::take(&mut rig.answers);
                assert!(answers.iter().all(|(_, answer)| answer.is_err()), "{first:#04x}: {answers:?}");
                assert_alive(&mut rig);
            }
        }
    });
}

#[test]
fn reads_keep_the_traffic_class_and_attributes_of_their_requests() {
    for cfg in widths() {
        let mut rig = Rig::new(&cfg, settings(9));
        let read = memory(&rig, false);
        for bits in 0..64u8 {
            let mut packet = raw(&mut rig, read, 0x80, 2);
            // Traffic class and ID-based ordering in byte 1, relaxed ordering and no snoop in byte 2.
            packet[1] |= (bits & 7) << 4 | (bits >> 3 & 1) << 2;
            packet[2] |= (bits >> 4) << 4;
            let id = rig.root.cpu_raw(packet).unwrap();
            rig.finish();
            assert_eq!(rig.answers.pop(), Some((id, Ok(rig.registers.get(0x80, 8)))));
        }
    }
}

#[test]
fn many_requests_of_all_kinds_come_one_behind_the_other() {
    seeds("many_requests_of_all_kinds_come_one_behind_the_other", 0..6, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            rig.stall([0.0, 0.4][seed as usize % 2]);
            let mut wanted = Vec::new();
            let (reads, writes) = (memory(&rig, false), memory(&rig, true));
            for _ in 0..300 {
                let unsupported = Err(CompletionStatus::UnsupportedRequest);
                let register = Ok(rig.registers.get(0x80, 8));
                let (first, dwords, poisoned, answer) = match rig.client.random.random_range(0..8) {
                    0 => (kind::IO_READ, 1, false, Some(unsupported)),
                    1 => (0x4e, 2, false, Some(unsupported)),
                    2 => (reads, 300, false, Some(Err(CompletionStatus::CompleterAbort))),
                    3 => (writes, 2, true, None),
                    4 => (writes, 32, false, None),
                    5 => (0x74, 20, false, None),
                    _ => (reads, 2, false, Some(register)),
                };
                let packet = raw_with(&mut rig, first, 0x80, dwords, poisoned);
                let id = rig.root.cpu_raw(packet);
                assert_eq!(id.is_some(), answer.is_some());
                wanted.extend(id.zip(answer));
            }
            rig.finish();
            rig.answers.sort_by_key(|(id, _)| *id);
            assert_eq!(rig.answers, wanted);
        }
    });
}
