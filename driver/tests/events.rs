// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event queues and armed completion queues against a card in plain Rust.

use crate::common::*;
use ferrowire::spec::queue::cqe::Cqe;
use ferrowire::spec::queue::event;
use ferrowire::spec::queue::{CommandAttribute, CommandOpcode, CommandStatus};
use ferrowire::*;

fn events(queue: &EventQueue) -> Vec<(EventKind, u32)> {
    let mut some = [Event::default(); 3];
    let mut all = Vec::new();
    for _ in 0..6 {
        let n = queue.poll(&mut some).unwrap();
        all.extend(some[..n].iter().map(|event| (event.kind.known().unwrap(), event.object)));
    }
    all
}

fn complete(mock: &Mock, cqn: u32, qpn: u32, solicited: bool) {
    mock.card().complete(cqn, Cqe { qpn, solicited, ..Cqe::default() });
}

/// A card with a queue pair in RESET whose completions, made by hand, nobody waits for.
fn card() -> (Mock, Context, ProtectionDomain) {
    let mock = Mock::new();
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    (mock, context, pd)
}

#[test]
fn an_armed_queue_tells_once_of_its_next_completion() {
    let (mock, context, pd) = card();
    let eq = context.create_eq(4).unwrap();
    assert_eq!((eq.number(), eq.capacity()), (1, 4));
    let mut cq = context.create_cq_with_events(16, &eq).unwrap();
    let qp = pd.create_qp(&QpInitAttr::rc(&cq, &cq)).unwrap();
    let qpn = qp.number();
    complete(&mock, cq.number(), qpn, false);
    assert_eq!(events(&eq), []);
    // There is one already.
    cq.request_notify(false).unwrap();
    assert_eq!(events(&eq), [(EventKind::Completion, cq.number())]);
    complete(&mock, cq.number(), qpn, true);
    assert_eq!(events(&eq), []);
    // Nobody posted these: they are handed to nobody.
    while cq.poll(&mut [Completion::default()]).is_err() {}
    for (solicited_only, solicited, told) in
        [(false, false, 1), (true, false, 0), (true, true, 1), (false, true, 1)]
    {
        cq.request_notify(solicited_only).unwrap();
        mock.step();
        complete(&mock, cq.number(), qpn, solicited);
        assert_eq!(events(&eq).len(), told, "{solicited_only}, {solicited}");
        while cq.poll(&mut [Completion::default()]).is_err() {}
    }
}

#[test]
fn events_wrap_round_their_queue() {
    let (mock, context, _pd) = card();
    let eq = context.create_async_eq(4).unwrap();
    for i in 0..50u32 {
        let kind = if i % 2 == 0 { EventKind::PortUp } else { EventKind::QpFatal };
        let entry =
            event::Event { kind: kind.code(), object: i, cause: i as u8, lost: i == 7, ..Default::default() };
        mock.card().tell(eq.number(), entry);
        if i % 3 == 2 {
            let mut some = [Event::default(); 8];
            assert_eq!(eq.poll(&mut some).unwrap(), 3);
            mock.step();
            for (event, i) in some[..3].iter().zip(i - 2..) {
                assert_eq!((event.object, event.cause, event.lost), (i, i as u8, i == 7));
                assert_eq!(event.kind, if i % 2 == 0 { EventKind::PortUp } else { EventKind::QpFatal });
            }
        }
    }
    mock.card().tell(eq.number(), event::Event { kind: 0xee, ..Default::default() });
    let mut some = [Event::default(); 8];
    assert_eq!(eq.poll(&mut some).unwrap(), 3);
    assert_eq!(some[2].kind, Coded::Unknown(0xee));
}

/// Puts a failed write into the registers of a card.
fn fail_write(mock: &Mock, low: u32, high: u32) {
    use ferrowire::spec::csr::host_memory::{BLOCK, WRITE_FAULT, WRITE_FAULT_HI};
    let mut card = mock.card();
    card.registers.insert(BLOCK.address(&WRITE_FAULT), low);
    card.registers.insert(BLOCK.address(&WRITE_FAULT_HI), high);
}

#[test]
fn a_write_that_host_memory_refused_is_an_event_that_names_it_and_what_to_do() {
    let (mock, context, _pd) = card();
    let eq = context.create_async_eq(4).unwrap();
    assert_eq!(context.write_fault(), Ok(None));
    let fatal = event::Event {
        kind: EventKind::DeviceFatal.code(),
        cause: LocalCause::Dma.code(),
        ..Default::default()
    };
    for (code, kind, words) in [
        (0, Coded::Known(WriteKind::Payload), "payload"),
        (1, Coded::Known(WriteKind::Completion), "completion queue entry"),
        (2, Coded::Known(WriteKind::Event), "answer to a command"),
        (3, Coded::Unknown(3), "unknown"),
    ] {
        fail_write(&mock, 0x89ab_c001 | code << 1, 0x1234_5678);
        mock.card().tell(eq.number(), fatal);
        let mut some = [Event::default(); 2];
        assert_eq!(eq.poll(&mut some).unwrap(), 1);
        mock.step();
        let fault = WriteFault { kind, page: 0x1234_5678_89ab_c000 };
        assert_eq!((some[0].kind, some[0].fault), (Coded::Known(EventKind::DeviceFatal), Some(fault)));
        assert_eq!(context.write_fault(), Ok(Some(fault)));
        let text = some[0].to_string();
        for part in ["DEVICE_FATAL", "refused", words, "0x1234567889abc000", "open the card again"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }
}

#[test]
fn a_command_whose_answer_host_memory_refused_says_so() {
    let (mock, context, _pd) = card();
    mock.card().deaf = true;
    fail_write(&mock, 0x5005, 0);
    let mapped = mock.card().map.len();
    let error = context.create_cq(8).unwrap_err();
    assert!(matches!(error, Error::WriteFault { operation: "CREATE_CQ", .. }), "{error}");
    assert!(error.to_string().contains("0x5000"), "{error}");
    assert_eq!(mock.card().map.len(), mapped + 1, "the card may still use the memory");
}

#[test]
fn a_queue_without_events_cannot_be_armed() {
    let (_mock, context, _pd) = card();
    let mut cq = context.create_cq(4).unwrap();
    let error = cq.request_notify(false).unwrap_err();
    assert!(matches!(error, Error::Attribute { operation: "request_notify", .. }), "{error}");
    assert!(error.to_string().contains("create_cq_with_events"), "{error}");
}

#[test]
fn an_event_queue_lives_as_long_as_its_completion_queues() {
    let (mock, context, _pd) = card();
    let eq = context.create_eq(8).unwrap();
    let cq = context.create_cq_with_events(4, &eq).unwrap();
    let number = u32::from(eq.number());
    assert_eq!(eq.destroy().unwrap_err(), Error::Busy { what: "event queue", number, users: 1 });
    assert_eq!(mock.card().eqs.len(), 1);
    cq.destroy().unwrap();
    assert!(mock.card().eqs.is_empty());
    // All numbers but 0.
    let all: Vec<_> = (0..3).map(|_| context.create_eq(1).unwrap()).collect();
    let error = context.create_eq(1).unwrap_err();
    assert!(matches!(error, Error::NoResource { operation: "create_eq", limit: 4, .. }), "{error}");
    drop(all);
    let error = context.create_async_eq(0).unwrap_err();
    assert!(matches!(error, Error::Attribute { attribute: "entries", .. }), "{error}");
}

#[test]
fn an_event_queue_of_another_card_is_refused() {
    let (_mock, context, _pd) = card();
    let (_other, elsewhere, _) = card();
    let eq = elsewhere.create_eq(8).unwrap();
    let error = context.create_cq_with_events(4, &eq).unwrap_err();
    assert_eq!(error, Error::Foreign { operation: "create_cq_with_events", what: "event queue", of: "card" });
}

#[test]
fn an_overrun_is_told_as_an_event_and_by_the_next_poll() {
    for with_events in [true, false] {
        let (mock, context, pd) = card();
        mock.card().may_overrun = true;
        let eq = context.create_async_eq(8).unwrap();
        let mut cq = match with_events {
            true => context.create_cq_with_events(2, &eq).unwrap(),
            false => context.create_cq(2).unwrap(),
        };
        let qp = pd.create_qp(&QpInitAttr::rc(&cq, &cq)).unwrap();
        let mut some = [Completion::default(); 4];
        let room = cq.capacity();
        let ring = 1 << mock.card().cqs[&cq.number()].log2;
        (0..ring + 2).for_each(|_| complete(&mock, cq.number(), qp.number(), false));
        assert_eq!(events(&eq), [(EventKind::CqOverrun, cq.number())]);
        // What is there comes first.
        for _ in 0..ring {
            let error = cq.poll(&mut some).unwrap_err();
            assert!(matches!(error, Error::UnexpectedCompletion { .. }), "{error}");
        }
        let error = cq.poll(&mut some).unwrap_err();
        assert_eq!(error, Error::CqOverrun { cqn: cq.number(), entries: room });
        assert!(error.to_string().contains("make one with room"), "{error}");
        // The number's next life knows nothing of it.
        let number = cq.number();
        drop(qp);
        cq.destroy().unwrap();
        let mut cqs: Vec<_> = (0..4).map(|_| context.create_cq(2).unwrap()).collect();
        let again = cqs.iter_mut().find(|cq| cq.number() == number).unwrap();
        assert_eq!(again.poll(&mut some), Ok(0));
    }
}

/// The card takes a queue for full by the last doorbell, and is told of what was taken each quarter of the ring only.
#[test]
fn a_completion_queue_that_is_kept_full_to_its_limit_is_not_overrun() {
    for entries in [1, 2, 3, 16, 24, 25, 48] {
        let mut b = bench(128, entries);
        b.mock.card().speed = 128;
        let room = b.cq.capacity();
        assert!(room >= entries);
        let sges = [b.source.sge(0, 8)];
        let (mut posted, mut taken) = (0, 0);
        let mut done = [Completion::default(); 64];
        while taken < 3000 {
            let mut batch = b.qp.start_post_send();
            while posted - taken < u64::from(room) {
                batch.post(&SendWr::write(posted, &sges, b.target.remote(0)).signaled()).unwrap();
                posted += 1;
            }
            batch.ring().unwrap();
            // All that is posted completes; the mock does not let a queue run over.
            b.mock.step();
            let most = 1 + (taken * 7 % u64::from(room)) as usize;
            let n = b.cq.poll(&mut done[..most]).unwrap();
            assert_eq!(n, most, "{entries}: as many as there are");
            for (i, done) in done[..n].iter().enumerate() {
                assert_eq!((done.wr_id(), done.is_success()), (taken + i as u64, true));
            }
            taken += n as u64;
            b.mock.step();
            let card = b.mock.card();
            let cq = &card.cqs[&b.cq.number()];
            let quarter = ((1 << cq.log2) / 4).max(1);
            assert_eq!(u64::from(cq.consumer), taken / quarter * quarter, "{entries}: each quarter");
            assert_eq!(cq.doorbells as u64, taken / quarter, "{entries}: not more often");
        }
    }
}

#[test]
fn events_of_a_queue_that_is_gone_are_passed_over() {
    let (mock, context, pd) = card();
    let eq = context.create_eq(16).unwrap();
    let mut cqs: Vec<_> = (0..4).map(|_| context.create_cq_with_events(2, &eq).unwrap()).collect();
    let qp = pd.create_qp(&QpInitAttr::rc(&cqs[0], &cqs[0])).unwrap();
    let qpn = qp.number();
    for cq in &mut cqs {
        cq.request_notify(false).unwrap();
    }
    mock.step();
    cqs.iter().for_each(|cq| complete(&mock, cq.number(), qpn, false));
    drop(qp);
    let mut cqs = cqs.into_iter();
    cqs.next().unwrap().destroy().unwrap();
    // The same number, and events of the new life.
    let mut again = context.create_cq_with_events(2, &eq).unwrap();
    assert_eq!(again.number(), 0);
    let qp = pd.create_qp(&QpInitAttr::rc(&again, &again)).unwrap();
    again.request_notify(false).unwrap();
    mock.step();
    complete(&mock, 0, qp.number(), false);
    let told: Vec<u32> = events(&eq).into_iter().map(|(_, cqn)| cqn).collect();
    assert_eq!(told, [1, 2, 3, 0]);
}

/// Sends that complete, and their completions, which follow those before.
fn goes_on(b: &mut Bench, count: u64, next: &mut u64) {
    let mut batch = b.qp.start_post_send();
    for wr_id in *next..*next + count {
        batch.post(&SendWr::write(wr_id, &[], b.target.remote(0)).signaled()).unwrap();
    }
    batch.ring().unwrap();
    for done in b.completions(count as usize) {
        assert_eq!(done.wr_id(), *next);
        *next += 1;
    }
}

#[test]
fn a_resize_that_is_refused_leaves_the_queue_as_it_was_and_one_that_is_not_gives_the_old_memory_back() {
    let mut b = bench(8, 16);
    let mut next = 0;
    goes_on(&mut b, 5, &mut next);
    let (mapped, room) = (b.mock.card().map.len(), b.cq.capacity());
    b.mock.card().refuse.push_back((CommandStatus::BadSize.code(), CommandAttribute::Log2Entries.code(), 0));
    let error = b.cq.resize(40).unwrap_err();
    assert!(matches!(error, Error::Command { operation: CommandOpcode::ResizeCq, .. }), "{error}");
    assert!(matches!(b.cq.resize(0), Err(Error::Attribute { attribute: "entries", value: 0, .. })));
    assert_eq!((b.mock.card().map.len(), b.cq.capacity()), (mapped, room));
    (0..8).for_each(|_| goes_on(&mut b, 7, &mut next));
    // Nothing is in the old ring.
    b.cq.resize(40).unwrap();
    assert_eq!(b.mock.card().map.len(), mapped);
    (0..20).for_each(|_| goes_on(&mut b, 7, &mut next));
    // Some is, then less, then nothing.
    let mut batch = b.qp.start_post_send();
    for i in 0..3 {
        batch.post(&SendWr::write(next + i, &[], b.target.remote(0)).signaled()).unwrap();
    }
    batch.ring().unwrap();
    (0..4).for_each(|_| b.mock.step());
    b.cq.resize(9).unwrap();
    let mut some = [Completion::default(); 2];
    for (taken, rings) in [(2, 2), (1, 2), (0, 1)] {
        assert_eq!(b.mock.card().map.len(), mapped - 1 + rings);
        assert_eq!(b.cq.poll(&mut some), Ok(taken));
    }
    assert_eq!(b.mock.card().map.len(), mapped);
    next += 3;
    (0..20).for_each(|_| goes_on(&mut b, 7, &mut next));
    // A card that does not answer may have either.
    b.mock.card().deaf = true;
    let error = b.cq.resize(20).unwrap_err();
    assert!(matches!(error, Error::Timeout { operation: "RESIZE_CQ", .. }), "{error}");
    assert_eq!(b.mock.card().map.len(), mapped + 1);
}
