// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames by hand: each command, and everything that may be wrong with one.

use ferrowire::serial::frame::{frame, Decoder, Request, Said};
use ferrowire::spec::serial::{Command, Reason, Status, BLOCK, MAGIC};
use ferrowire_sim::axi::AxiSettings;

use super::bench::{Bench, BASE, BYTES, REFUSED};

const AT: u32 = BASE as u32;

/// A bench in which a session has begun with this number.
fn begun(sequence: u8) -> Bench {
    let mut bench = Bench::new(AxiSettings::default(), 0.0);
    let said = ask(&mut bench, &Request::read(Command::Hello, 0x1234_5678, 0).frame(sequence));
    let [Said::Answer { data, .. }] = &said[..] else { panic!("{said:?}") };
    let words: Vec<u64> = data.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words[0] as u32, MAGIC);
    assert_eq!(words[0] >> 32, 0x0008_0801, "version 1, a window of 8, blocks of 2^8 bytes");
    assert_eq!(words[1..4], [BYTES as u64, BASE, 0x1234_5678 << 32 | 8000]);
    bench
}

/// What a board says to these bytes, until it is quiet.
fn ask(bench: &mut Bench, bytes: &[u8]) -> Vec<Said> {
    bench.rx.push(bytes);
    let (mut quiet, mut said, mut decoder) = (0, Vec::new(), Decoder::default());
    while quiet < 2000 {
        bench.step();
        let heard = bench.heard();
        quiet = if bench.rx.idle() && heard.is_empty() { quiet + 1 } else { 0 };
        said.extend(heard.into_iter().filter_map(|byte| decoder.byte(byte)));
    }
    assert_eq!(decoder.dropped, 0);
    bench.check();
    said
}

fn answer(command: Command, sequence: u8, status: Status, data: &[u8]) -> Said {
    let status = Ok(status);
    Said::Answer { command: command as u8, sequence, status, data: data.to_vec(), interrupts: false }
}

fn notice(expected: u8, reason: Reason) -> Said {
    Said::Notice { expected, reason: Ok(reason), interrupts: false }
}

#[test]
fn blocks_of_any_length_and_place_are_written_and_read_and_nothing_beside_them() {
    let mut bench = begun(250);
    let mut wanted = vec![0; BYTES];
    let mut sequence = 250u8;
    for (at, length) in [
        (0, 1),
        (0, 256),
        (255, 1),
        (3, 1),
        (7, 2),
        (256, 8),
        (264, 256 - 8),
        (1027, 250),
        (65535, 1),
        (512, 5),
    ] {
        let data: Vec<u8> = (0..length).map(|i| (i * 7 + at + 0xb0) as u8).collect();
        wanted[at..at + length].copy_from_slice(&data);
        sequence = sequence.wrapping_add(1);
        let write = Request::write(Command::Write, AT + at as u32, &data).frame(sequence);
        assert_eq!(ask(&mut bench, &write), [answer(Command::Write, sequence, Status::Okay, &[])]);
        let mut now = vec![0; BYTES];
        bench.memory.read(0, &mut now);
        assert!(now == wanted, "{length} bytes at {at:#x}");
        sequence = sequence.wrapping_add(1);
        let read = Request::read(Command::Read, AT + at as u32, length as u16).frame(sequence);
        assert_eq!(ask(&mut bench, &read), [answer(Command::Read, sequence, Status::Okay, &data)]);
    }
}

#[test]
fn blocks_of_any_length_and_place_are_cleared_and_nothing_beside_them() {
    let mut bench = begun(0);
    bench.memory.fill(0, BYTES, 0xa5);
    let (mut wanted, mut sequence) = (vec![0xa5; BYTES], 0);
    for (at, length) in [(0, 256), (259, 1), (0x305, 9), (0x408, 240), (BYTES - 3, 3)] {
        wanted[at..at + length].fill(0);
        sequence += 1;
        let clear = Request::read(Command::Clear, AT + at as u32, length as u16).frame(sequence);
        assert_eq!(ask(&mut bench, &clear), [answer(Command::Clear, sequence, Status::Okay, &[])]);
        let mut now = vec![0; BYTES];
        bench.memory.read(0, &mut now);
        assert!(now == wanted, "{length} bytes at {at:#x}");
    }
}

#[test]
fn blocks_that_the_card_has_written_are_told_once() {
    let mut bench = begun(0);
    let mut wanted = [0; 32];
    for block in [0, 9, 63, 64, 200, 255, 9] {
        wanted[block / 8] |= 1 << (block % 8);
        bench.wrote = Some(block as u32);
        bench.run(2);
    }
    let dirty = |first, length, sequence| Request::read(Command::Dirty, first, length).frame(sequence);
    let told = |sequence, data: &[u8]| [answer(Command::Dirty, sequence, Status::Okay, data)];
    assert_eq!(ask(&mut bench, &dirty(64, 8, 1)), told(1, &wanted[8..16]));
    // The same request has the same answer; the next one has what came since.
    assert_eq!(ask(&mut bench, &dirty(64, 8, 1)), told(1, &wanted[8..16]));
    wanted[8..16].fill(0);
    assert_eq!(ask(&mut bench, &dirty(0, 32, 2)), told(2, &wanted));
    assert_eq!(ask(&mut bench, &dirty(0, 32, 3)), told(3, &[0; 32]));
    bench.wrote = Some(128);
    bench.run(2);
    let last = [&[1][..], &[0; 15]].concat();
    assert_eq!(ask(&mut bench, &dirty(128, 16, 4)), told(4, &last));
}

#[test]
fn registers_are_written_and_read_by_four_and_eight_bytes() {
    let mut bench = begun(0);
    let wide = 0x0102_0304_c0db_c0dbu64.to_le_bytes();
    let ask = |bench: &mut Bench, sequence, request: Request| {
        let said = ask(bench, &request.frame(sequence));
        let [Said::Answer { status: Ok(status), data, .. }] = &said[..] else { panic!("{said:?}") };
        (*status, data.clone())
    };
    let okay = |data: &[u8]| (Status::Okay, data.to_vec());
    assert_eq!(ask(&mut bench, 1, Request::write(Command::CsrWrite, 0x40, &wide)), okay(&[]));
    assert_eq!(ask(&mut bench, 2, Request::write(Command::CsrWrite, 0x44, &[9, 8, 7, 6])), okay(&[]));
    assert_eq!(ask(&mut bench, 3, Request::read(Command::CsrRead, 0x40, 4)), okay(&wide[..4]));
    assert_eq!(ask(&mut bench, 4, Request::read(Command::CsrRead, 0x44, 4)), okay(&[9, 8, 7, 6]));
    let both = [0xdb, 0xc0, 0xdb, 0xc0, 9, 8, 7, 6];
    assert_eq!(ask(&mut bench, 5, Request::read(Command::CsrRead, 0x40, 8)), okay(&both));
    let strobes: Vec<u8> = bench.registers.writes.iter().map(|(_, _, strobe)| *strobe).collect();
    assert_eq!(strobes, [0xff, 0xf0]);
    // The bus's error is told, and the session goes on.
    for (sequence, request) in [
        (6, Request::read(Command::CsrRead, REFUSED, 4)),
        (7, Request::write(Command::CsrWrite, REFUSED, &wide)),
    ] {
        assert_eq!(ask(&mut bench, sequence, request), (Status::Bus, vec![]));
    }
    assert_eq!(ask(&mut bench, 8, Request::read(Command::CsrRead, 0x40, 8)), okay(&both));
}

#[test]
fn each_error_has_its_answer_and_nothing_is_done() {
    let mut bench = begun(0);
    let (read, write) = (Request::read, Request::write);
    let long = |command: Command, length: u16, data: usize| Request {
        command,
        length,
        address: AT,
        data: vec![1; data],
    };
    let cases = [
        (Status::Length, read(Command::Read, AT, 0)),
        (Status::Length, read(Command::Read, AT, 257)),
        (Status::Length, read(Command::Read, AT, 0xffff)),
        (Status::Length, write(Command::Write, AT, &[])),
        // More or fewer data than the length says.
        (Status::Length, long(Command::Write, 8, 7)),
        (Status::Length, long(Command::Write, 8, 9)),
        (Status::Length, long(Command::Write, 256, 257)),
        (Status::Length, long(Command::Write, 8, 700)),
        (Status::Length, long(Command::Write, 0x108, 8)),
        (Status::Length, long(Command::Read, 8, 8)),
        (Status::Length, long(Command::Status, 0, 1)),
        (Status::Length, read(Command::Status, 0, 4)),
        (Status::Length, read(Command::Clear, AT, 0)),
        (Status::Length, read(Command::Clear, AT, 257)),
        (Status::Length, long(Command::Clear, 8, 8)),
        (Status::Length, read(Command::Dirty, 0, 0)),
        (Status::Length, read(Command::Dirty, 0, 9)),
        (Status::Length, read(Command::Dirty, 0, 40)),
        (Status::Length, long(Command::Dirty, 8, 8)),
        (Status::Length, read(Command::CsrRead, 0, 2)),
        (Status::Length, write(Command::CsrWrite, 0, &[1; 6])),
        (Status::Address, read(Command::CsrRead, 2, 4)),
        (Status::Address, read(Command::CsrRead, 4, 8)),
        (Status::Address, write(Command::CsrWrite, 0x0100_0000, &[1; 8])),
        (Status::Address, read(Command::Read, AT + 1, BLOCK as u16)),
        (Status::Address, write(Command::Write, AT + 0x1ff, &[1; 2])),
        (Status::Address, read(Command::Read, AT - 1, 1)),
        (Status::Address, write(Command::Write, AT + BYTES as u32, &[1; 8])),
        (Status::Address, write(Command::Write, 0, &[1; 8])),
        (Status::Address, read(Command::Clear, AT + 1, BLOCK as u16)),
        (Status::Address, read(Command::Clear, AT + BYTES as u32, 8)),
        (Status::Address, read(Command::Dirty, 1, 8)),
        (Status::Address, read(Command::Dirty, 192, 16)),
        (Status::Address, read(Command::Dirty, 256, 8)),
        (Status::Address, read(Command::Dirty, 0xffc0, 32)),
        (Status::Address, read(Command::Dirty, 1 << 31, 8)),
        (Status::Address, write(Command::Write, u32::MAX - 7, &[1; 8])),
    ];
    let mut sequence = 0;
    for (status, request) in cases {
        sequence += 1;
        let said = ask(&mut bench, &request.frame(sequence));
        assert_eq!(said, [answer(request.command, sequence, status, &[])], "{request:?}");
    }
    // Commands that there are not.
    for command in [0, 9, 0x7f, 0x84, 0xff] {
        sequence += 1;
        let said =
            ask(&mut bench, &frame([&[command, sequence, 4, 0], &AT.to_le_bytes()[..], &[1; 4]].concat()));
        let Said::Answer { sequence: got, status, .. } = &said[0] else { panic!("{said:?}") };
        assert_eq!((said.len(), *got, *status), (1, sequence, Ok(Status::Command)), "command {command}");
    }
    let mut now = vec![0; BYTES];
    bench.memory.read(0, &mut now);
    assert!(now.iter().all(|byte| *byte == 0), "something was written");
    assert_eq!((bench.registers.writes.len(), bench.registers.reads), (0, 0));
    assert_eq!((bench.axi.stats().writes, bench.axi.stats().reads), (0, 0));
}

#[test]
fn what_is_broken_is_told_and_what_is_half_waits_for_its_end() {
    let mut bench = begun(9);
    let whole = Request::write(Command::Write, AT, &[0xaa; 16]).frame(10);
    // Each byte of it broken in its turn; the marks break into two frames or one.
    for at in 1..whole.len() - 1 {
        let mut broken = whole.clone();
        broken[at] ^= 1;
        assert_eq!(ask(&mut bench, &broken), [notice(10, Reason::Broken)], "byte {at}");
    }
    // Half a frame and silence: nothing; the next frame ends it.
    for at in [2, 9, 15, whole.len() - 2] {
        assert_eq!(ask(&mut bench, &whole[..at]), [], "{at} bytes");
        bench.run(100_000);
        assert!(bench.heard().is_empty());
        assert_eq!(ask(&mut bench, &[0xc0]), [notice(10, Reason::Broken)], "{at} bytes");
    }
    // A break, a lone escape, marks alone, and a CRC of nothing.
    bench.rx.push_level(false, 50);
    bench.rx.push_level(true, 2);
    assert_eq!(ask(&mut bench, &[0xc0]), [notice(10, Reason::Broken)]);
    assert_eq!(ask(&mut bench, &[0xdb, 0x01, 0xc0]), [notice(10, Reason::Broken)]);
    assert_eq!(ask(&mut bench, &[0xc0; 20]), []);
    assert_eq!(ask(&mut bench, &frame(vec![])), [notice(10, Reason::Broken)]);
    assert_eq!(ask(&mut bench, &frame(vec![5, 10, 1, 0, 0, 0, 0x10])), [notice(10, Reason::Broken)]);
    assert_eq!(bench.axi.stats().writes, 0);
    assert_eq!(ask(&mut bench, &whole), [answer(Command::Write, 10, Status::Okay, &[])]);
}

#[test]
fn a_request_that_comes_again_is_answered_again_and_done_once() {
    let mut bench = begun(100);
    let write = |value: u8, sequence| Request::write(Command::CsrWrite, 8, &[value; 8]).frame(sequence);
    for sequence in 101..=120 {
        let okay = answer(Command::CsrWrite, sequence, Status::Okay, &[]);
        assert_eq!(ask(&mut bench, &write(sequence, sequence)), std::slice::from_ref(&okay));
        assert_eq!(ask(&mut bench, &write(sequence, sequence)), [okay]);
    }
    // The window's oldest is still known, the one before is not, nor is one that is not due.
    let okay = answer(Command::CsrWrite, 113, Status::Okay, &[]);
    assert_eq!(ask(&mut bench, &write(1, 113)), [okay]);
    for sequence in [112, 122, 200] {
        assert_eq!(ask(&mut bench, &write(2, sequence)), [notice(121, Reason::Gap)], "{sequence}");
    }
    let values: Vec<u64> = bench.registers.writes.iter().map(|(_, data, _)| data & 0xff).collect();
    assert_eq!(values, (101..=120).collect::<Vec<_>>());
}

#[test]
fn without_a_session_nothing_is_done() {
    let mut bench = Bench::new(AxiSettings::default(), 0.0);
    for sequence in [0, 1, 255] {
        let write = Request::write(Command::CsrWrite, 8, &[1; 8]).frame(sequence);
        assert_eq!(ask(&mut bench, &write), [notice(0, Reason::NoSession)]);
    }
    assert!(bench.registers.writes.is_empty());
}

#[test]
fn a_bus_that_does_not_answer_is_told() {
    let mut bench = begun(0);
    bench.registers.stuck = true;
    let read = |sequence| Request::read(Command::CsrRead, 8, 8).frame(sequence);
    assert_eq!(ask(&mut bench, &read(1)), []);
    for sequence in [2, 3, 2] {
        assert_eq!(ask(&mut bench, &read(sequence)), [notice(1, Reason::Busy)]);
    }
    bench.registers.stuck = false;
    assert_eq!(ask(&mut bench, &[0xc0]), [answer(Command::CsrRead, 1, Status::Okay, &[0; 8])]);
    assert_eq!(ask(&mut bench, &read(2)), [answer(Command::CsrRead, 2, Status::Okay, &[0; 8])]);
}

#[test]
fn interrupts_are_told_at_once_and_with_every_answer_until_they_are_read() {
    let mut bench = begun(0);
    bench.interrupt = Some(3);
    let told = Said::Notice { expected: 1, reason: Ok(Reason::Interrupt), interrupts: true };
    assert_eq!(ask(&mut bench, &[]), std::slice::from_ref(&told));
    bench.interrupt = Some(77);
    assert_eq!(ask(&mut bench, &[]), [], "a second one while the first waits");
    let read = ask(&mut bench, &Request::read(Command::CsrRead, 8, 4).frame(1));
    assert!(matches!(&read[..], [Said::Answer { interrupts: true, .. }]), "{read:?}");
    for (sequence, again) in [(2, false), (2, true), (3, false)] {
        let said = ask(&mut bench, &Request::read(Command::Status, 0, 0).frame(sequence));
        let [Said::Answer { data, interrupts: false, .. }] = &said[..] else { panic!("{said:?}") };
        let wanted: u32 = if sequence == 2 { 1 << 3 | 1 << 31 } else { 0 };
        assert_eq!(data[..4], wanted.to_le_bytes(), "request {sequence}, again: {again}");
        assert_eq!(data.len(), 16);
    }
    bench.interrupt = Some(0);
    assert_eq!(ask(&mut bench, &[]).len(), 1);
}
