// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each rule that a manager can break, broken once.

use super::manager::{Script, AT};
use crate::axi::{Address, AxiSettings, Manager, Subordinate, WriteBeat, WriteOrder};
use crate::wire::MAX_BEAT;

const WIDTH: usize = 16;

fn beat(last: bool) -> WriteBeat {
    WriteBeat { data: [3; MAX_BEAT], strobe: 0xffff, last }
}

/// What is said of these addresses, and of writes with so many beats of data.
fn said(addresses: &[(bool, Address)], data: &[WriteBeat]) -> Option<String> {
    let mut said = Vec::new();
    // Whatever comes first.
    for write_order in [WriteOrder::Any, WriteOrder::AddressFirst, WriteOrder::DataFirst] {
        let mut script = Script::new(WIDTH, AxiSettings { write_order, ..AxiSettings::default() });
        script.memory();
        for (write, address) in addresses {
            if *write { &mut script.aw } else { &mut script.ar }.push_back(*address);
        }
        script.w.extend(data);
        script.run(400);
        let violation = script.axi.violation().map(str::to_string);
        assert_eq!(violation.is_some(), script.axi.stats().violations > 0);
        said.push(violation);
    }
    assert!(said.iter().all(|what| what.is_some() == said[0].is_some()), "{said:?}");
    said.swap_remove(0)
}

#[track_caller]
fn found(said: Option<String>, channel: &str, expected: &str) {
    let Some(said) = said else { panic!("{expected}: nothing was said") };
    assert!(said.starts_with("cycle ") && said.contains(&format!(", {channel}: ")), "{said}");
    assert!(said.contains(expected), "{said}");
}

/// An address with one thing changed breaks a rule, on both channels.
#[track_caller]
fn broken(change: impl Fn(&mut Address), expected: &str) {
    for write in [false, true] {
        let mut address = Address::of(0, AT, 64, WIDTH);
        change(&mut address);
        let beats = address.beats();
        let data: Vec<_> = (1..=beats).map(|at| WriteBeat { strobe: 0, ..beat(at == beats) }).collect();
        let data = if write { &data[..] } else { &[] };
        found(said(&[(write, address)], data), if write { "AW" } else { "AR" }, expected);
    }
}

#[test]
fn lawful_bursts_are_no_violations() {
    let mut data = vec![beat(false); 4];
    data[0].strobe = 0xfff0;
    data[3].last = true;
    let write = Address { id: 2, ..Address::of(2, AT + 4, 60, WIDTH) };
    let read = Address::of(0, AT + 4095, 1, WIDTH);
    assert_eq!(said(&[(true, write), (false, read)], &data), None);
    let longest = Address::of(0, AT, 4096, WIDTH);
    assert_eq!(said(&[(false, longest)], &[]), None);
}

#[test]
fn addresses_length_size_and_type_are_lawful() {
    broken(|a| a.burst = 3, "burst type 3 is reserved (AXI4 A3.4.1)");
    broken(|a| a.size = 5, "size 5 is more than the bus of 16 bytes (AXI4 A3.4.1)");
    broken(|a| (a.burst, a.len) = (0, 16), "a fixed burst of more than 16 beats (AXI4 A3.4.1)");
    broken(|a| (a.burst, a.len) = (2, 2), "2, 4, 8 or 16 beats (AXI4 A3.4.1)");
    broken(|a| (a.burst, a.address) = (2, AT + 8), "not aligned (AXI4 A3.4.1)");
    broken(|a| a.address = AT + 4096 - 48, "it crosses 4 KiB (AXI4 A3.4.1)");
    broken(|a| (a.address, a.len) = (AT + 16, 255), "256 beats at 0x1234560010: it crosses 4 KiB");
    for cache in [0b0100, 0b0101, 0b1000, 0b1001, 0b1100, 0b1101] {
        broken(|a| a.cache = cache, "is reserved (AXI4 A4.4)");
    }
}

#[test]
fn what_the_card_promises_beyond_the_standard_is_kept() {
    broken(|a| (a.burst, a.len) = (0, 3), "the card promises bursts of increasing addresses");
    broken(|a| (a.burst, a.len) = (2, 3), "the card promises bursts of increasing addresses");
    broken(|a| a.size = 3, "the card promises beats of the whole width");
    broken(|a| a.id = 3, "the card promises IDs below");
    let read = Address::of(1, AT, 16, WIDTH);
    found(said(&[(false, read)], &[]), "AR", "the card promises IDs below 1");
}

#[test]
fn the_last_beat_and_no_other_has_wlast() {
    let write = Address::of(0, AT, 64, WIDTH);
    let early = [beat(false), beat(true)];
    let said_early = said(&[(true, write)], &early);
    assert!(
        said_early.as_ref().is_some_and(|said| said.contains("WLAST with beat 1 of 4")),
        "{said_early:?}"
    );
    let late = [beat(false), beat(false), beat(false), beat(false), beat(true)];
    let said_late = said(&[(true, write)], &late);
    assert!(said_late.as_ref().is_some_and(|said| said.contains("beat 3 of 4")), "{said_late:?}");
    // The next write is judged by its own data.
    let good = Address::of(0, AT + 4096, 16, WIDTH);
    let mut script = Script::new(WIDTH, AxiSettings::default());
    script.memory();
    script.aw.extend([write, good]);
    script.w.extend([beat(true), beat(true)]);
    script.finish();
    assert_eq!((script.axi.stats().violations, script.responses.len()), (1, 2));
    assert_eq!(script.now()[4096..4112], [3; 16]);
    assert_ne!(script.now()[..16], [3; 16]);
}

#[test]
fn data_that_goes_on_for_ever_is_found_without_an_address() {
    let mut script = Script::new(WIDTH, AxiSettings::default());
    script.w.extend([beat(false); 300]);
    script.run(400);
    found(script.axi.violation().map(str::to_string), "W", "more than 256 beats without WLAST (AXI4 A3.4.1)");
}

#[test]
fn strobes_stay_in_what_is_addressed() {
    let write = Address::of(1, AT + 5, 32, WIDTH);
    let mut data = [beat(false), beat(false), beat(true)];
    data[0].strobe = 0xffe0;
    assert_eq!(said(&[(true, write)], &data), None);
    data[0].strobe = 0xfff0;
    let said = said(&[(true, write)], &data);
    let expected = "ID 1: beat 0 of 3 at 0x1234560005 has strobes 0xfff0: only lanes 5 to 15 are addressed (AXI4 A3.4.3)";
    assert!(said.as_ref().is_some_and(|said| said.contains(expected)), "{said:?}");
}

/// Cycles of a manager before a subordinate that takes nothing.
fn held(cycles: &[Manager]) -> Option<String> {
    // It stands still in nearly all cycles.
    let mut axi = Subordinate::new(WIDTH, AxiSettings { stalls: [0.999_999; 5], ..AxiSettings::default() });
    for (cycle, manager) in (0..).zip(cycles) {
        axi.take(cycle, manager);
    }
    assert_eq!(axi.stats().violations > 0, axi.violation().is_some());
    axi.violation().map(str::to_string)
}

#[test]
fn what_is_on_offer_stays_as_it_is_until_it_is_taken() {
    let address = Address::of(0, AT, 16, WIDTH);
    let other = Address { prot: 2, ..address };
    let none = Manager::default();
    let aw = |aw| Manager { aw: Some(aw), ..none };
    let ar = |ar| Manager { ar: Some(ar), ..none };
    let w = |w| Manager { w: Some(w), ..none };
    assert_eq!(held(&[none, aw(address), aw(address), aw(address)]), None);
    let (falls, changes) =
        ("VALID falls before READY has come (AXI4 A3.2.1)", "changes before READY has come (AXI4 A3.2.1)");
    found(held(&[aw(address), none]), "AW", falls);
    found(held(&[ar(address), none]), "AR", falls);
    found(held(&[w(beat(true)), none]), "W", falls);
    found(held(&[aw(address), aw(other)]), "AW", changes);
    found(held(&[ar(address), ar(other)]), "AR", changes);
    found(held(&[w(beat(true)), w(beat(false))]), "W", changes);
    // Bytes without a strobe too.
    let mut noise = WriteBeat { strobe: 1, ..beat(true) };
    let first = w(noise);
    noise.data[9] = 1;
    found(held(&[first, w(noise)]), "W", changes);
}

#[test]
fn valids_are_low_during_reset() {
    let address = Address::of(0, AT, 16, WIDTH);
    let none = Manager::default();
    for (channel, manager) in [
        ("AW", Manager { aw: Some(address), ..none }),
        ("W", Manager { w: Some(beat(true)), ..none }),
        ("AR", Manager { ar: Some(address), ..none }),
    ] {
        let mut axi = Subordinate::new(WIDTH, AxiSettings::default());
        axi.in_reset(&none);
        assert_eq!(axi.violation(), None);
        axi.in_reset(&manager);
        found(axi.violation().map(str::to_string), channel, "high during reset (AXI4 A3.1.2)");
    }
}

#[test]
fn data_that_waits_for_the_address_to_be_taken_is_found() {
    for write_order in [WriteOrder::DataFirst, WriteOrder::AllDataFirst] {
        let mut script = Script::new(WIDTH, AxiSettings { write_order, ..AxiSettings::default() });
        script.memory();
        script.aw.push_back(Address::of(0, AT, 16, WIDTH));
        script.run(20_010);
        found(
            script.axi.violation().map(str::to_string),
            "W",
            "WVALID may not wait for AWREADY (AXI4 A3.3.1)",
        );
    }
}

#[test]
fn outputs_that_depend_on_inputs_are_found() {
    let mut axi = Subordinate::new(WIDTH, AxiSettings::default());
    axi.depends(7);
    assert_eq!(
        axi.violation(),
        Some("cycle 7, manager: an output depends on inputs of the same cycle (AXI4 A3.1.1)")
    );
}
