// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each fault is seen, and leaves the other reads alone.

use ferrowire_spec::pcie::CompletionStatus;

use super::endpoint::{Endpoint, Event};
use crate::root::{Fault, FaultKind, RootSettings, Split};

const HIGH: u64 = 0x12_3456_0000;

/// Three reads, the middle one with that fault; what came of all.
fn events(fault: Fault, settings: RootSettings) -> Endpoint {
    let mut card = Endpoint::new(32, settings);
    card.memory(HIGH);
    card.root.set_fault_predicate(Some(Box::new(move |read| {
        assert_eq!((read.address, read.bytes), (HIGH + 512 * u64::from(read.tag), 400));
        (read.index == 1).then_some(fault)
    })));
    (0..3).for_each(|tag| card.read(tag, HIGH + 512 * u64::from(tag), 400));
    card.run(500);
    assert_eq!(card.root.faults(fault.kind()), 1);
    assert!(card.root.idle());
    assert_eq!(card.root.violation(), None);
    let good = card.events.iter().filter(|event| matches!(event, Event::Data(0 | 2, _))).count();
    assert_eq!(good, 2, "{fault:?}: {:?}", card.events);
    card
}

/// What came of the middle one.
fn others(card: &Endpoint) -> Vec<Event> {
    card.events.iter().filter(|event| !matches!(event, Event::Data(0 | 2, _))).cloned().collect()
}

fn small() -> RootSettings {
    RootSettings { chunk: Split::Fixed(64), ..RootSettings::default() }
}

#[test]
fn refusals_have_a_status_and_no_data() {
    for (fault, status) in [
        (Fault::UnsupportedRequest, CompletionStatus::UnsupportedRequest),
        (Fault::CompleterAbort, CompletionStatus::CompleterAbort),
    ] {
        assert_eq!(others(&events(fault, small())), [Event::Refused(1, status, 0)]);
    }
    for seed in 0..20 {
        let card = events(Fault::StatusInTheMiddle, RootSettings { seed, ..RootSettings::default() });
        let said = others(&card);
        let [Event::Refused(1, CompletionStatus::UnsupportedRequest, good)] = said[..] else {
            panic!("{said:?}")
        };
        assert!(good > 0 && good < 400 && good % 64 == 0);
    }
}

#[test]
fn wrong_fields_are_wrong_in_one_completion() {
    for seed in 0..20 {
        let settings = RootSettings { seed, ..RootSettings::default() };
        assert_eq!(others(&events(Fault::Poisoned, settings.clone())), [Event::Poisoned(1)]);
        assert_eq!(others(&events(Fault::WrongByteCount, settings.clone())), [Event::ByteCount(1)]);
        assert_eq!(others(&events(Fault::WrongLowerAddress, settings.clone())), [Event::LowerAddress(1)]);
        assert_eq!(others(&events(Fault::WrongLength, settings)), [Event::Length(1)]);
    }
}

#[test]
fn what_is_lost_never_comes_and_its_tag_may_be_used_again() {
    let mut card = events(Fault::Lost, small());
    assert_eq!(others(&card), []);
    card.root.set_fault_predicate(None);
    card.give_up(1);
    card.read(1, HIGH, 4);
    card.finish();
    assert_eq!(card.root.violation(), None);
    assert_eq!(card.root.host().stats().reads, 4);
}

#[test]
fn unexpected_completions_are_for_nobody_and_harm_no_answer() {
    let card = events(Fault::Unexpected, small());
    let said = others(&card);
    assert!(matches!(said[..], [Event::Unexpected(3..), Event::Data(1, _)]), "{said:?}");
}

#[test]
fn the_last_completion_comes_twice() {
    let card = events(Fault::Twice, small());
    let said = others(&card);
    assert!(matches!(said[..], [Event::Data(1, _), Event::Unexpected(1)]), "{said:?}");
    let twice = card.rc_packets.windows(2).filter(|two| two[0] == two[1]).count();
    assert_eq!(twice, 1);
}

#[test]
fn a_late_answer_holds_up_no_other() {
    let card = events(Fault::Late(300), small());
    assert!(matches!(card.events[..], [Event::Data(0, _), Event::Data(2, _), Event::Data(1, _)]));
    assert!(card.rc_cycles.last().is_some_and(|cycle| *cycle > 300));
}

#[test]
fn faults_come_as_often_as_they_are_asked_for() {
    let mut card = Endpoint::new(64, small());
    card.memory(HIGH);
    card.root.set_fault_rate(Fault::Poisoned, 0.2);
    card.root.set_fault_rate(Fault::CompleterAbort, 0.2);
    for i in 0..1000 {
        card.read((i % 256) as u8, HIGH, 64);
        card.run(4);
    }
    card.finish();
    let poisoned = card.events.iter().filter(|event| matches!(event, Event::Poisoned(_))).count() as u64;
    assert_eq!(poisoned, card.root.faults(FaultKind::Poisoned));
    assert!((120..280).contains(&poisoned), "{poisoned}");
    assert!((100..240).contains(&card.root.faults(FaultKind::CompleterAbort)));
    assert_eq!(
        card.root.stats().faults.iter().sum::<u64>(),
        poisoned + card.root.faults(FaultKind::CompleterAbort)
    );
}
