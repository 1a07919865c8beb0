// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each rule that a card can break on `rq`, broken once.

use super::endpoint::Endpoint;
use crate::root::request::Request;
use crate::root::RootSettings;
use crate::wire::Beat;

const HIGH: u64 = 0x12_3456_0000;
const CARD: u16 = 0x0100;

/// A lawful packet with one thing changed, and its data.
fn packet(mut request: Request, change: impl FnOnce(&mut Request)) -> Vec<u8> {
    request.header.requester = CARD;
    change(&mut request);
    let data = if request.has_data() { 4 * request.dwords() as usize } else { 0 };
    request.emit(&vec![0; data])
}

fn read(change: impl FnOnce(&mut Request)) -> Vec<u8> {
    packet(Request::new(false, HIGH, 4, 15, 15), change)
}

fn write(change: impl FnOnce(&mut Request)) -> Vec<u8> {
    packet(Request::new(true, HIGH, 4, 15, 15), change)
}

/// What is said when these packets are sent.
fn said(settings: RootSettings, packets: &[Vec<u8>]) -> Option<String> {
    let mut card = Endpoint::new(16, settings);
    card.memory(HIGH);
    card.root.set_interrupt_window(0xfee0_0000..0xfef0_0000);
    card.rq_queue.extend(packets.iter().cloned());
    card.run(400);
    let stats = card.root.stats();
    assert_eq!(card.root.violation().is_some(), stats.violations > 0);
    card.root.violation().map(str::to_string)
}

#[track_caller]
fn broken(packets: &[Vec<u8>], expected: &str, clause: &str) {
    let Some(said) = said(RootSettings::default(), packets) else { panic!("{expected}: nothing was said") };
    assert!(said.starts_with("cycle ") && said.contains(" rq: "), "{said}");
    assert!(said.contains(expected), "{said}");
    assert!(said.contains(&format!("(PCIe {clause})")), "{said}");
}

#[test]
fn lawful_packets_are_no_violations() {
    let interrupt = packet(Request::new(true, 0xfee0_1000, 1, 15, 0), |_| ());
    assert_eq!(said(RootSettings::default(), &[read(|_| ()), write(|_| ()), interrupt]), None);
    let enabled = RootSettings { relaxed_ordering: true, no_snoop: true, ..RootSettings::default() };
    let attributes = |r: &mut Request| (r.header.relaxed, r.header.no_snoop) = (true, true);
    assert_eq!(said(enabled, &[read(attributes), write(attributes)]), None);
}

#[test]
fn headers_and_data_must_be_whole() {
    broken(&[vec![0; 8]], "a packet of 8 bytes", "2.2.1");
    broken(&[read(|_| ())[..12].to_vec()], "a packet of 12 bytes", "2.2.1");
    broken(&[[0x34; 16].to_vec()], "fmt and type are 0x34", "2.2.1");
    broken(&[[read(|_| ()), vec![0; 4]].concat()], "4 bytes follow the header where 0", "2.2.2");
    let mut short = write(|_| ());
    short.truncate(28);
    broken(&[short], "12 bytes follow the header where 16", "2.2.2");
    broken(&[[write(|_| ()), vec![0; 3]].concat()], "19 bytes follow", "2.2.2");
}

#[test]
fn fields_that_are_to_be_zero_are_zero() {
    broken(&[read(|r| r.header.t9 = true)], "tag bit 9", "2.2.6.2");
    broken(&[read(|r| r.header.t8 = true)], "tag bit 8", "2.2.6.2");
    broken(&[read(|r| r.header.tc = 2)], "traffic class", "2.2.6.6");
    broken(&[read(|r| r.header.ido = true)], "ID-based", "2.2.6.4");
    broken(&[read(|r| r.header.ln = true)], "LN", "2.2.1");
    broken(&[read(|r| r.header.th = true)], "TH", "2.2.7.1");
    broken(&[write(|r| r.header.td = true)], "TD", "2.2.3");
    broken(&[write(|r| r.header.ep = true)], "EP", "2.7.2");
    broken(&[read(|r| r.header.at = 1)], "AT", "2.2.4.1");
    broken(&[read(|r| r.header.ph = 1)], "PH", "2.2.7.1");
    broken(&[write(|r| r.header.relaxed = true)], "relaxed ordering", "2.2.6.4");
    broken(&[write(|r| r.header.no_snoop = true)], "no snoop", "2.2.6.5");
}

#[test]
fn addresses_take_the_header_that_is_theirs() {
    broken(&[read(|r| r.header.address = 0x1000 >> 2)], "four double words", "2.2.4.1");
}

#[test]
fn requests_stay_in_a_page_and_below_the_sizes() {
    let at = |address: u64, dwords| packet(Request::new(false, HIGH + address, dwords, 15, 15), |_| ());
    broken(&[at(4096 - 12, 4)], "4 KiB", "2.2.7");
    broken(&[at(0, 129)], "the largest read is 512", "2.2.7");
    broken(&[packet(Request::new(true, HIGH, 129, 15, 15), |_| ())], "the largest payload is 512", "2.2.2");
    // 512 bytes that do not begin with a double word take 129.
    broken(&[packet(Request::of_bytes(false, HIGH + 1, 512), |_| ())], "the largest read", "2.2.7");
    assert_eq!(said(RootSettings::default(), &[at(4096 - 16, 4), at(0, 128)][..1]), None);
}

#[test]
fn byte_enables_are_those_that_the_standard_allows() {
    let with = |address: u64, dwords, first, last| {
        packet(Request::new(true, HIGH + address, dwords, first, last), |_| ())
    };
    broken(&[with(0, 1, 15, 1)], "last_be of one double word is 0", "2.2.5");
    broken(&[with(0, 2, 15, 0)], "neither is 0", "2.2.5");
    broken(&[with(0, 2, 0, 15)], "neither is 0", "2.2.5");
    broken(&[with(0, 3, 5, 15)], "contiguous", "2.2.5");
    broken(&[with(0, 3, 7, 15)], "contiguous", "2.2.5");
    broken(&[with(0, 3, 15, 14)], "contiguous", "2.2.5");
    broken(&[with(4, 2, 5, 15)], "contiguous", "2.2.5");
    for lawful in [with(0, 1, 5, 0), with(0, 1, 0, 0), with(8, 2, 5, 10), with(4, 2, 8, 1), with(0, 3, 12, 3)]
    {
        assert_eq!(said(RootSettings::default(), &[lawful]), None);
    }
}

#[test]
fn tags_and_requesters_are_the_cards_own() {
    broken(&[read(|r| r.header.requester = 0x0200)], "requester 0x0200", "2.2.6.2");
    broken(&[read(|r| r.header.tag = 7), read(|r| r.header.tag = 7)], "the tag is in use", "2.2.6.2");
    let narrow = RootSettings { extended_tags: false, ..RootSettings::default() };
    assert!(said(narrow.clone(), &[read(|r| r.header.tag = 32)]).is_some_and(|said| said.contains("32 tags")));
    assert_eq!(said(narrow, &[read(|r| r.header.tag = 31), write(|r| r.header.tag = 200)]), None);
}

#[test]
fn interrupts_are_whole_double_words_without_attributes() {
    let interrupt = |first_be| packet(Request::new(true, 0xfee0_0010, 1, first_be, 0), |_| ());
    broken(&[interrupt(3)], "one double word", "6.1.4");
    broken(&[packet(Request::new(true, 0xfee0_0010, 2, 15, 15), |_| ())], "one double word", "6.1.4");
    let enabled = RootSettings { relaxed_ordering: true, ..RootSettings::default() };
    let relaxed = packet(Request::new(true, 0xfee0_0010, 1, 15, 0), |r| r.header.relaxed = true);
    assert!(said(enabled, &[relaxed]).is_some_and(|said| said.contains("2.2.6.4")));
}

#[test]
fn a_write_that_breaks_a_rule_changes_nothing() {
    let mut card = Endpoint::new(16, RootSettings::default());
    let before = card.memory(HIGH);
    card.rq_queue.push_back(write(|r| r.header.ep = true));
    card.run(10);
    let mut now = vec![0; 64];
    card.root.host().map().read(HIGH, &mut now).unwrap();
    assert_eq!(now, before[..64]);
    assert_eq!(card.root.stats().writes, 0);
}

#[test]
fn beats_are_full_but_for_the_last_and_packets_end() {
    let mut card = Endpoint::new(16, RootSettings::default());
    card.root.rq_beat(0, &Beat { empty: 4, ..Beat::EMPTY });
    assert!(card.root.violation().is_some_and(|said| said.contains("not the last of its packet")));
    let mut card = Endpoint::new(16, RootSettings::default());
    (0..300).for_each(|cycle| card.root.rq_beat(cycle, &Beat::EMPTY));
    assert!(card.root.violation().is_some_and(|said| said.contains("does not end")));
    assert!(!card.root.idle());
}

#[test]
fn gaps_in_a_packet_are_violations_only_where_they_are_said_to_be() {
    for gapless in [false, true] {
        let said = |gap: bool, stall: f64| {
            let settings = RootSettings { gapless, stall, seed: 3, ..RootSettings::default() };
            let mut card = Endpoint::new(8, settings);
            card.memory(HIGH);
            card.stall = if gap { 0.5 } else { 0.0 };
            (0..20).for_each(|_| card.write(HIGH, &[7; 64], false));
            card.run(2000);
            card.root.violation().map(str::to_string)
        };
        assert_eq!(said(false, 0.0), None);
        assert_eq!(said(false, 0.4), None);
        assert_eq!(said(true, 0.4).is_some(), gapless);
        assert_eq!(said(true, 0.0).is_some(), gapless);
    }
}
