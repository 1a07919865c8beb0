// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU's reads and writes, and each rule that a card can break on `cc`.

use ferrowire_spec::pcie::{kind, Completion, CompletionStatus};

use super::endpoint::{answer, Endpoint};
use super::traffic::any;
use crate::root::request::Request;
use crate::root::{ReadId, RootSettings};

#[test]
fn what_is_written_is_read_in_any_size_and_place() {
    for seed in 0..32 {
        let mut card = Endpoint::new([8, 16, 32, 64][seed as usize % 4], any(seed));
        card.stall = 0.2;
        let mut asked = Vec::new();
        for (i, bytes) in [1, 2, 4, 8, 64, 100, 3].into_iter().enumerate() {
            let at = 4096 * i as u64 + seed * 7;
            let data: Vec<u8> = (0..bytes).map(|byte| byte as u8 ^ seed as u8).collect();
            card.root.cpu_write(at, &data);
            asked.push((card.root.cpu_read(at, bytes), data));
        }
        card.finish();
        assert_eq!(card.root.violation(), None, "seed {seed}");
        for (id, data) in asked {
            assert_eq!(card.root.answer(), Some((id, Ok(data))), "seed {seed}");
        }
        assert_eq!(card.root.answer(), None);
        assert_eq!((card.root.cpu_writes_taken(), card.root.stats().cpu_reads), (7, 7));
        assert!(card.root.cpu_writes_taken_at() > 0);
    }
}

#[test]
fn enables_choose_bytes() {
    let mut card = Endpoint::new(16, RootSettings::default());
    card.root.cpu_write_enables(8, &[1, 2, 3, 4, 5, 6, 7, 8], 0b0101, 0b1010);
    let id = card.root.cpu_read_enables(8, 2, 15, 15);
    let none = card.root.cpu_read_enables(8, 1, 0, 0);
    card.finish();
    assert_eq!(card.root.answer(), Some((id, Ok(vec![1, 0, 3, 0, 0, 6, 0, 8]))));
    assert_eq!(card.root.answer().map(|(id, data)| (id, data.map(|data| data.len()))), Some((none, Ok(1))));
}

#[test]
fn more_reads_than_tags_wait_for_one() {
    let mut card = Endpoint::new(64, RootSettings::default());
    let ids: Vec<ReadId> = (0..600).map(|i| card.root.cpu_read(i * 4, 4)).collect();
    card.finish();
    assert_eq!(card.root.violation(), None);
    assert!(ids.iter().all(|id| card.root.answer() == Some((*id, Ok(vec![0; 4])))));
}

#[test]
fn raw_packets_go_as_they_are_and_are_answered_if_they_are_to_be() {
    let mut card = Endpoint::new(32, RootSettings::default());
    let read = Request::new(false, 0xf000_0000, 1, 15, 0);
    let mut io = Request { kind: kind::IO_READ, ..read };
    (io.header.kind, io.header.tag) = (2, 77);
    let id = card.root.cpu_raw(io.emit(&[]));
    assert_eq!(card.root.cpu_raw(vec![0x30; 16]), None);
    card.silent = true;
    card.run(5);
    assert_eq!(card.cq_packets[0], io.emit(&[]));
    card.silent = false;
    assert!(!card.root.idle());
    let mut refusal = answer(&io, &RootSettings::default());
    (refusal.fmt, refusal.status) = (0, CompletionStatus::UnsupportedRequest.code());
    card.cc_queue.push_back(refusal.to_bytes().unwrap().to_vec());
    card.finish();
    assert_eq!(card.root.violation(), None);
    assert_eq!(card.root.answer(), id.map(|id| (id, Err(CompletionStatus::UnsupportedRequest))));

    card.silent = true;
    let id = card.root.cpu_raw(read.emit(&[])).unwrap();
    card.run(5);
    assert!(!card.root.idle());
    card.root.forget(id);
    assert!(card.root.idle());
}

/// What is said to completions for a read of 300 bytes from offset 2 of BAR 0, tag 0: its data from `from` to `to`, counted in bytes
/// of BAR 0, with something changed.
fn said(parts: &[(u32, u32)], change: impl Fn(&mut Completion)) -> Option<String> {
    let settings = RootSettings { max_payload: 256, ..RootSettings::default() };
    let mut card = Endpoint::new(16, settings.clone());
    card.silent = true;
    card.root.cpu_read(2, 300);
    card.run(3);
    let request = Request::parse(&card.cq_packets[0]).unwrap();
    for (from, to) in parts {
        let byte = (*from).max(2);
        let mut header = answer(&request, &settings);
        header.length = ((to - from) / 4) as u16;
        header.byte_count = 302u32.saturating_sub(byte) as u16;
        header.lower_address = (byte % 128) as u8;
        change(&mut header);
        let data = if header.fmt == 0 { 0 } else { to - from };
        let packet = [&header.to_bytes().unwrap()[..], &vec![0; data as usize]].concat();
        card.cc_queue.push_back(packet);
        card.run(30);
    }
    card.root.violation().map(str::to_string)
}

#[track_caller]
fn broken(parts: &[(u32, u32)], change: impl Fn(&mut Completion), expected: &str, clause: &str) {
    let said = said(parts, change).unwrap_or_else(|| panic!("{expected}: nothing was said"));
    assert!(said.contains(" cc: ") && said.contains(expected), "{said}");
    assert!(said.contains(&format!("(PCIe {clause})")), "{said}");
}

const WHOLE: [(u32, u32); 2] = [(0, 256), (256, 304)];

#[test]
fn lawful_completions_are_no_violations() {
    assert_eq!(said(&WHOLE, |_| ()), None);
    assert_eq!(said(&[(0, 128), (128, 256), (256, 304)], |_| ()), None);
    assert_eq!(said(&WHOLE[..1], |c| (c.fmt, c.length, c.status) = (0, 0, 4)), None);
}

#[test]
fn fields_of_a_completion_are_what_the_request_wants() {
    broken(&WHOLE, |c| c.kind = 11, "fmt and type", "2.2.9");
    broken(&WHOLE, |c| c.length += 1, "bytes follow the header", "2.2.2");
    broken(&WHOLE, |c| c.t9 = true, "tag bit 9", "2.2.6.2");
    broken(&WHOLE, |c| c.t8 = true, "tag bit 8", "2.2.6.2");
    broken(&WHOLE, |c| c.ln = true, "LN", "2.2.1");
    broken(&WHOLE, |c| c.th = true, "TH", "2.2.1");
    broken(&WHOLE, |c| c.td = true, "TD", "2.2.3");
    broken(&WHOLE, |c| c.ep = true, "EP", "2.7.2");
    broken(&WHOLE, |c| c.at = 2, "AT", "2.2.1");
    broken(&WHOLE, |c| c.bcm = true, "BCM", "2.2.9");
    broken(&WHOLE, |c| c.rsvd = true, "reserved bit", "2.2.9");
    broken(&WHOLE, |c| c.completer = 3, "completer 0x0003", "2.2.9");
    broken(&WHOLE, |c| c.requester = 3, "requester 0x0003 did not ask", "2.3.2");
    broken(&WHOLE, |c| c.tag = 9, "nothing was asked", "2.3.2");
    broken(&WHOLE, |c| c.tc = 1, "traffic class or attributes", "2.2.9");
    broken(&WHOLE, |c| c.relaxed = true, "traffic class or attributes", "2.2.9");
    broken(&WHOLE, |c| c.status = 3, "status 3 is reserved", "2.2.9");
    broken(&WHOLE, |c| (c.status, c.fmt, c.length) = (2, 0, 0), "only a configuration request", "2.3.1");
    broken(&WHOLE, |c| c.status = 1, "status UR, and data", "2.3.1.1");
    broken(&WHOLE, |c| (c.status, c.fmt) = (1, 0), "though there is no data", "2.2.2");
    broken(&WHOLE, |c| c.byte_count -= 1, "byte count 299 where 300", "2.3.1.1");
    broken(&WHOLE, |c| c.lower_address += 2, "lower address 0x4, not 0x2", "2.3.1.1");
    broken(&WHOLE, |c| (c.fmt, c.length) = (0, 0), "0 bytes of data", "2.3.1.1");
}

#[test]
fn data_is_what_was_asked_for_and_cut_where_it_may_be() {
    broken(&[(0, 256), (256, 308)], |_| (), "52 bytes of data where 48 are left", "2.3.1.1");
    broken(&[(0, 304)], |_| (), "304 bytes: the largest payload is 256", "2.2.2");
    broken(&[(0, 64), (64, 304)], |_| (), "cut at 0xf0000040", "2.3.1.1");
    broken(&[(0, 128), (256, 304)], |_| (), "byte count", "2.3.1.1");
    broken(&[(0, 256), (256, 304), (256, 304)], |_| (), "nothing was asked", "2.3.2");
}

#[test]
fn a_completion_that_is_no_whole_header_or_does_not_end_is_a_violation() {
    let sent = |packet: Vec<u8>| {
        let mut card = Endpoint::new(8, RootSettings::default());
        card.cc_queue.push_back(packet);
        card.run(600);
        card.root.violation().unwrap_or_default().to_string()
    };
    assert!(sent(vec![0x4a; 8]).contains("a completion of 8 bytes (PCIe 2.2.9)"));
    assert!(sent(vec![0x4a; 4200]).contains("a packet does not end after 4120 bytes"));
}

#[test]
#[should_panic(expected = "max_payload is 200")]
fn settings_that_the_standard_does_not_know_are_refused() {
    Endpoint::new(8, RootSettings { max_payload: 200, ..RootSettings::default() });
}
