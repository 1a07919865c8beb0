// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two managers on a network that loses, doubles and delays messages, with programs that take their time.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::mad::{PortSpace, SidrStatus};

const PORT: u16 = 0x1234;

fn service() -> u64 {
    PortSpace::Tcp.service_id(PORT)
}

fn datagrams() -> u64 {
    PortSpace::Udp.service_id(PORT)
}

/// What becomes of a message: when each copy arrives.
type Fate = Vec<Duration>;

/// Two managers and what is on the way between them.
struct Pair {
    sides: [Manager<u8>; 2],
    now: Duration,
    way: BTreeMap<(Duration, u32), (usize, Mad)>,
    /// What programs will do.
    plans: BTreeMap<(Duration, u32), (usize, u32, Event)>,
    sent: u32,
    events: [Vec<(u32, Event)>; 2],
    /// Names of the messages sent, with their senders.
    log: Vec<(usize, &'static str)>,
    /// How long each side's program thinks.
    think: [Duration; 2],
    /// Programs that are asked say no.
    refuse: bool,
}

impl Pair {
    fn new(timing: Timing) -> Self {
        let sides = [Manager::new(0xffff_fffe, 0xaa, timing), Manager::new(70, 0xbb, timing)];
        Self {
            sides,
            now: Duration::ZERO,
            way: BTreeMap::new(),
            plans: BTreeMap::new(),
            sent: 0,
            events: [Vec::new(), Vec::new()],
            log: Vec::new(),
            think: [Duration::ZERO; 2],
            refuse: false,
        }
    }

    fn req() -> Req {
        Req { service_id: service(), local_qpn: 17, local_ca_guid: 0xaa, starting_psn: 5, ..Req::default() }
    }

    fn connect(&mut self) -> u32 {
        self.sides[0].connect(self.now, 1, Pair::req())
    }

    fn disconnect(&mut self, side: usize, id: u32) -> bool {
        self.sides[side].disconnect(self.now, id, [side as u8; Dreq::PRIVATE])
    }

    /// What a program does about an event.
    fn act(&mut self, side: usize, id: u32, event: Event) {
        let (manager, now) = (&mut self.sides[side], self.now);
        match event {
            Event::Requested(_) if self.refuse => {
                manager.reject(now, id, RejectReason::Consumer, [7; Rej::PRIVATE]);
            }
            Event::Requested(req) => {
                let rep = Rep {
                    local_qpn: 40,
                    local_ca_guid: 0xbb,
                    starting_psn: req.starting_psn + 1,
                    ..Rep::default()
                };
                manager.accept(now, id, rep);
            }
            Event::Replied(_) => drop(manager.ready(now, id)),
            Event::Disconnected(End::Dreq(_)) => drop(self.disconnect(side, id)),
            Event::SidrRequested(_) => {
                let status = if self.refuse { SidrStatus::Rejected } else { SidrStatus::Valid }.code();
                manager.answer(now, id, SidrRep { status, qpn: 40, qkey: 9, ..SidrRep::default() });
            }
            _ => {}
        }
    }

    /// Sends what the managers have, and carries out what programs do without thinking.
    fn turn(&mut self, fate: &mut impl FnMut(usize, &Mad) -> Fate) {
        for side in 0..2 {
            while let Some((id, event)) = self.sides[side].poll_event() {
                self.events[side].push((id, event.clone()));
                match self.think[side] {
                    Duration::ZERO => self.act(side, id, event),
                    think => {
                        self.sent += 1;
                        self.plans.insert((self.now + think, self.sent), (side, id, event));
                    }
                }
            }
            while let Some((to, mad)) = self.sides[side].poll_transmit() {
                assert_eq!(to, 1 - side as u8);
                self.log.push((side, mad.message.name()));
                for delay in fate(side, &mad) {
                    self.way.insert((self.now + delay, self.sent), (1 - side, mad));
                    self.sent += 1;
                }
            }
        }
    }

    /// Until nothing happens any more, or `until`.
    fn run(&mut self, until: Duration, mut fate: impl FnMut(usize, &Mad) -> Fate) {
        loop {
            self.turn(&mut fate);
            let arrival = self.way.keys().next().map(|key| key.0);
            let plan = self.plans.keys().next().map(|key| key.0);
            let timeouts = self.sides.iter().filter_map(Manager::poll_timeout);
            match timeouts.chain(arrival).chain(plan).min() {
                Some(next) if next <= until => self.now = self.now.max(next),
                _ => return,
            }
            while let Some(entry) = self.plans.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (side, id, event) = entry.remove();
                self.act(side, id, event);
            }
            while let Some(entry) = self.way.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, mad) = entry.remove();
                // As bytes, as on the wire.
                let mad = Mad::parse(&mad.to_bytes()).unwrap();
                self.sides[to].receive(self.now, &(1 - to as u8), &mad);
            }
            self.sides.iter_mut().for_each(|side| side.tick(self.now));
            self.sides.iter().for_each(|side| side.connections.check());
        }
    }

    fn told(&self, side: usize, what: fn(&Event) -> bool) -> usize {
        self.events[side].iter().filter(|(_, event)| what(event)).count()
    }

    fn count(&self, side: usize, name: &str) -> usize {
        self.log.iter().filter(|entry| **entry == (side, name)).count()
    }

    /// A connection that works; both numbers.
    fn connected(timing: Timing) -> (Pair, [u32; 2]) {
        let mut pair = Pair::new(timing);
        pair.sides[1].listen(service());
        let id = pair.connect();
        pair.run(SOON * 100, |_, _| vec![SOON]);
        let ids = [id, pair.events[1][0].0];
        assert_eq!([0, 1].map(|side| pair.sides[side].state(ids[side])), [Some(State::Established); 2]);
        pair.log.clear();
        pair.events = [Vec::new(), Vec::new()];
        (pair, ids)
    }
}

const SOON: Duration = Duration::from_micros(10);
const LATER: Duration = Duration::from_secs(3600);

fn established(event: &Event) -> bool {
    matches!(event, Event::Established(_))
}

fn disconnected(event: &Event) -> bool {
    matches!(event, Event::Disconnected(_))
}

fn rejected(event: &Event, with: RejectReason) -> bool {
    matches!(event, Event::Rejected(rej) if rej.reason == with.code())
}

#[test]
fn a_connection_takes_three_messages_and_its_end_two() {
    let mut pair = Pair::new(Timing::default());
    pair.sides[1].listen(service());
    let id = pair.connect();
    pair.run(SOON * 100, |_, _| vec![SOON]);
    assert_eq!(pair.log, [(0, "Req"), (1, "Rep"), (0, "Rtu")]);
    let (theirs, asked) = &pair.events[1][0];
    assert!(matches!(asked, Event::Requested(req) if req.local_comm_id == id && req.local_qpn == 17));
    assert!(
        matches!(pair.events[0][0].1, Event::Replied(rep) if (rep.local_qpn, rep.starting_psn) == (40, 6))
    );
    assert!(matches!(pair.events[1][1].1, Event::Established(Some(rtu)) if rtu.local_comm_id == id));
    assert_eq!(pair.sides[0].state(id), Some(State::Established));
    let theirs = *theirs;
    assert!(pair.disconnect(1, theirs));
    pair.run(SOON * 200, |_, _| vec![SOON]);
    assert_eq!(pair.log[3..], [(1, "Dreq"), (0, "Drep")]);
    // Each has the other's bytes.
    let dreq = |event: &Event| matches!(event, Event::Disconnected(End::Dreq(m)) if m.private_data == [1; Dreq::PRIVATE]);
    let drep = |event: &Event| matches!(event, Event::Disconnected(End::Drep(m)) if m.private_data[..Dreq::PRIVATE] == [0; Dreq::PRIVATE]);
    assert_eq!((pair.told(0, dreq), pair.told(1, drep)), (1, 1));
    assert_eq!(pair.sides[1].state(theirs), Some(State::TimeWait));
    assert!(!pair.disconnect(0, id), "it has ended");
    pair.run(LATER, |_, _| vec![SOON]);
    assert_eq!([0, 1].map(|side| pair.sides[side].connections()), [0, 0]);
    assert_eq!([0, 1].map(|side| pair.told(side, |event| *event == Event::TimeWaitOver)), [1, 1]);
}

#[test]
fn a_request_for_a_service_that_is_not_there_is_refused_with_the_reason() {
    let mut pair = Pair::new(Timing::default());
    pair.sides[1].listen(PortSpace::Tcp.service_id(PORT + 1));
    // Another space has ports of its own.
    pair.sides[1].listen(datagrams());
    let id = pair.connect();
    pair.run(LATER, |_, _| vec![SOON]);
    assert_eq!(pair.log, [(0, "Req"), (1, "Rej")]);
    let refused = pair.told(0, |event| rejected(event, RejectReason::InvalidServiceId));
    assert_eq!((refused, pair.events[0].len(), pair.events[1].len()), (1, 1, 0));
    assert_eq!(pair.sides[0].state(id), None);
}

#[test]
fn a_service_that_is_not_of_connections_is_refused() {
    let mut manager = Manager::new(1, 0xaa, Timing::default());
    manager.listen(service());
    for (transport_service, extended_transport) in [(2, 0), (3, 1)] {
        let req = Req { local_comm_id: 5, transport_service, extended_transport, ..Pair::req() };
        manager.receive(SOON, &3, &Mad { transaction_id: 9, message: req.into() });
        let Some((3, Mad { message: Message::Rej(rej), .. })) = manager.poll_transmit() else { panic!() };
        assert_eq!((rej.reason, rej.remote_comm_id), (RejectReason::InvalidTransport.code(), 5));
    }
    // UC is one.
    let req = Req { local_comm_id: 6, transport_service: 1, ..Pair::req() };
    manager.receive(SOON, &3, &Mad { transaction_id: 9, message: req.into() });
    assert!(matches!(manager.poll_event(), Some((_, Event::Requested(_)))));
}

/// The asker's manager names `asked`, and the answer on the wire `answered`; what the program hears.
fn answered(asked: u8, transport_service: u8, answered: u8) -> u8 {
    let mut manager = Manager::new(1, 0xaa, Timing::default());
    let req = Req { selective: asked, transport_service, ..Pair::req() };
    let id = manager.connect(SOON, 3, req);
    let Some((3, Mad { message: Message::Req(sent), .. })) = manager.poll_transmit() else { panic!() };
    assert_eq!(sent.selective, asked);
    let rep = Rep { local_comm_id: 9, remote_comm_id: id, selective: answered, ..Rep::default() };
    manager.receive(SOON, &3, &Mad { transaction_id: 9, message: rep.into() });
    let Some((_, Event::Replied(rep))) = manager.poll_event() else { panic!() };
    rep.selective
}

#[test]
fn an_answer_agrees_to_the_version_that_was_asked_for_and_to_no_other() {
    for (asked, said, heard) in [(1, 1, 1), (1, 0, 0), (0, 1, 0), (1, 2, 0), (2, 1, 0), (0, 0, 0), (0, 15, 0)]
    {
        assert_eq!(answered(asked, 0, said), heard, "{asked} asked for, {said} answered");
    }
    assert_eq!(answered(1, 1, 1), 0, "UC has none");
}

#[test]
fn a_program_cannot_agree_to_a_version_that_was_not_asked_for() {
    for (asked, transport_service, wished, sent) in
        [(1, 0, 1, 1), (1, 0, 0, 0), (0, 0, 1, 0), (2, 0, 1, 0), (0xff, 0, 1, 0), (1, 1, 1, 0)]
    {
        let mut manager = Manager::new(1, 0xaa, Timing::default());
        manager.listen(service());
        let req = Req { local_comm_id: 5, selective: asked, transport_service, ..Pair::req() };
        manager.receive(SOON, &3, &Mad { transaction_id: 9, message: req.into() });
        let Some((id, Event::Requested(heard))) = manager.poll_event() else { panic!() };
        assert_eq!(heard.selective, asked);
        assert!(manager.accept(SOON, id, Rep { selective: wished, ..Rep::default() }));
        let Some((3, Mad { message: Message::Rep(rep), .. })) = manager.poll_transmit() else { panic!() };
        assert_eq!(rep.selective, sent, "{asked} asked for");
    }
}

#[test]
fn a_program_that_refuses_gives_its_reason_and_its_bytes() {
    let mut manager = Manager::new(1, 0xaa, Timing::default());
    manager.listen(service());
    let mad = |message: Message| Mad { transaction_id: 9, message };
    let req = mad(Req { local_comm_id: 55, ..Pair::req() }.into());
    manager.receive(SOON, &3, &req);
    let Some((id, Event::Requested(_))) = manager.poll_event() else { panic!("asked") };
    assert!(manager.reject(SOON, id, RejectReason::Consumer, [7; Rej::PRIVATE]));
    // The refusal was lost: the asker hears it again, and the program does not hear the asker.
    manager.receive(SOON, &3, &req);
    for _ in 0..2 {
        let Some((3, Mad { transaction_id: 9, message: Message::Rej(rej) })) = manager.poll_transmit() else {
            panic!("refused")
        };
        assert_eq!(
            (rej.remote_comm_id, rej.message, rej.reason, rej.private_data),
            (55, 0, 28, [7; Rej::PRIVATE])
        );
    }
    assert_eq!((manager.poll_event(), manager.state(id)), (None, Some(State::Refused)));
    manager.tick(LATER);
    assert_eq!(manager.connections(), 0);
}

/// A request by its asker's number, from a queue pair of that number.
fn asked(n: u32) -> Mad {
    let req = Req { local_comm_id: n, local_qpn: n, remote_cm_response_timeout: 31, ..Pair::req() };
    Mad { transaction_id: n.into(), message: req.into() }
}

#[test]
fn refusals_are_kept_up_to_a_limit_and_for_a_limited_time() {
    let mut manager = Manager::new(1, 0xaa, Timing::default());
    manager.listen(service());
    let count = 2 * MAX_WAITING as u32;
    for n in 1..=count {
        manager.receive(SOON * n, &3, &asked(n));
        let Some((id, Event::Requested(_))) = manager.poll_event() else { panic!("asked") };
        assert!(manager.reject(SOON * n, id, RejectReason::Consumer, [7; Rej::PRIVATE]));
        let Some((3, Mad { message: Message::Rej(_), .. })) = manager.poll_transmit() else { panic!() };
    }
    assert_eq!(manager.connections(), MAX_WAITING);
    // The youngest are refused again; the oldest is a new request.
    manager.receive(SOON * count, &3, &asked(count));
    assert!(matches!(manager.poll_transmit(), Some((3, Mad { message: Message::Rej(_), .. }))));
    assert_eq!(manager.poll_event(), None);
    manager.receive(SOON * count, &3, &asked(1));
    assert!(matches!(manager.poll_event(), Some((_, Event::Requested(_)))));
    // Whatever time-out the asker names, for twice that of Linux.
    manager.tick(SOON * count + 2 * timeout(KEPT));
    assert_eq!(manager.connections(), 1);
    manager.connections.check();
}

#[test]
fn a_refusal_of_the_manager_itself_is_forgotten_and_the_same_each_time() {
    let mut manager = Manager::new(1, 0xaa, Timing::default());
    manager.listen(service());
    let mut refusals = Vec::new();
    for _ in 0..2 {
        manager.receive(SOON, &3, &asked(5));
        let Some((id, Event::Requested(_))) = manager.poll_event() else { panic!("asked") };
        assert!(
            manager.refuse(id, RejectReason::InvalidMtu) && !manager.refuse(id, RejectReason::InvalidMtu)
        );
        refusals.push(sent(&mut manager).unwrap());
        assert_eq!((manager.connections(), manager.poll_timeout()), (0, None));
    }
    assert_eq!(refusals[0], refusals[1]);
    let Message::Rej(rej) = refusals[0].message else { panic!("refused") };
    assert_eq!((rej.local_comm_id, rej.remote_comm_id, rej.message, rej.reason), (0, 5, 0, 26));
}

#[test]
fn every_reason_reaches_the_program_of_the_asker() {
    for reason in RejectReason::ALL {
        let mut manager = Manager::new(1, 0xaa, Timing { retries: 0, ..Timing::default() });
        let id = manager.connect(Duration::ZERO, 3u8, Pair::req());
        let rej = Rej { remote_comm_id: id, reason: reason.code(), ..Rej::default() };
        manager.receive(SOON, &3, &Mad { transaction_id: 0, message: rej.into() });
        // One of these is of an older connection: it is repeated as often as `retries` says, which is not at all.
        manager.tick(LATER);
        let Some((told, event)) = manager.poll_event() else { panic!("{reason}") };
        assert!(told == id && rejected(&event, *reason), "{event:?}");
        assert_eq!(manager.poll_event(), None);
    }
}

#[test]
fn an_answer_is_refused_too() {
    let mut pair = Pair::new(Timing::default());
    pair.sides[1].listen(service());
    pair.think[0] = SOON;
    let id = pair.connect();
    pair.run(SOON * 2, |_, _| vec![SOON]);
    assert_eq!(pair.sides[0].state(id), Some(State::RepReceived));
    assert!(pair.sides[0].reject(pair.now, id, RejectReason::InsufficientResponderResources, [3; 148]));
    pair.run(LATER, |_, _| vec![SOON]);
    let refused = |event: &Event| {
        rejected(event, RejectReason::InsufficientResponderResources)
            && matches!(event, Event::Rejected(rej) if rej.message == 1 && rej.private_data == [3; 148])
    };
    assert_eq!((pair.told(1, refused), pair.told(1, established)), (1, 0));
    assert_eq!([0, 1].map(|side| pair.sides[side].connections()), [0, 0]);
}

#[test]
fn a_request_that_comes_twice_is_answered_twice_with_the_same() {
    let mut pair = Pair::new(Timing::default());
    pair.sides[1].listen(service());
    pair.connect();
    let mut replies = Vec::new();
    pair.run(SOON * 4, |_, mad| match mad.message {
        // The second copy comes when the answer has gone.
        Message::Req(_) => vec![SOON, SOON * 2],
        Message::Rep(rep) => {
            replies.push(rep);
            vec![SOON * 9]
        }
        _ => vec![SOON],
    });
    assert_eq!(replies.len(), 2);
    assert_eq!(replies[0], replies[1]);
    assert_eq!(pair.told(1, |e| matches!(e, Event::Requested(_))), 1);
}

#[test]
fn who_is_never_answered_asks_as_often_as_told_and_gives_up() {
    let timing = Timing { retries: 4, ..Timing::default() };
    let mut pair = Pair::new(timing);
    let id = pair.connect();
    pair.run(LATER, |_, _| Vec::new());
    // At the end it says that nobody need answer any more.
    assert_eq!((pair.count(0, "Req"), pair.count(0, "Rej")), (5, 1));
    assert_eq!(pair.events[0], [(id, Event::TimedOut)]);
    assert_eq!(pair.now, timeout(timing.response) * 5);
}

#[test]
fn a_side_that_gives_up_is_heard_and_names_its_adapter() {
    // The asked side thinks, or its answers are lost and the asker's last word is heard by its own number alone; the asked side gives up an answer.
    for (think, lost) in [(LATER * 2, ""), (Duration::ZERO, "Rep")] {
        let mut pair = Pair::new(Timing { retries: 0, ..Timing::default() });
        pair.sides[1].listen(service());
        pair.think[1] = think;
        pair.connect();
        let mut words = Vec::new();
        // The MRA of the asked side does not come, for nothing comes twice.
        pair.run(LATER, |side, mad| {
            if let Message::Rej(rej) = mad.message {
                words.push((side, rej.reason, rej.info_length, rej.info));
            }
            if mad.message.name() == lost {
                Vec::new()
            } else {
                vec![SOON]
            }
        });
        assert_eq!(pair.told(0, |event| *event == Event::TimedOut), 1);
        let gone = |event: &Event| *event == Event::TimedOut || rejected(event, RejectReason::Timeout);
        assert_eq!(pair.told(1, gone), 1);
        assert_eq!([0, 1].map(|side| pair.sides[side].connections()), [0, 0]);
        // Linux finds the connection by the GUID (IBTA 12.6.7.2, reason 4).
        assert_eq!(words[0], (0, RejectReason::Timeout.code(), 8, 0xaa << 64));
    }
}

/// A refusal for another reason says nothing of the adapter.
#[test]
fn an_answer_that_is_never_confirmed_is_given_up_with_the_adapters_number() {
    let mut manager = Manager::new(1, 0xbb, Timing::default());
    manager.listen(service());
    for local_comm_id in [5, 6] {
        manager.receive(Duration::ZERO, &3, &asked(local_comm_id));
    }
    assert!(manager.accept(Duration::ZERO, 1, Rep::default()));
    assert!(manager.reject(Duration::ZERO, 2, RejectReason::Consumer, [0; Rej::PRIVATE]));
    manager.tick(LATER);
    let rejections = std::iter::from_fn(|| sent(&mut manager)).filter_map(|mad| match mad.message {
        Message::Rej(rej) => Some((rej.remote_comm_id, rej.message, rej.reason, rej.info_length, rej.info)),
        _ => None,
    });
    assert_eq!(rejections.collect::<Vec<_>>(), [(6, 0, 28, 0, 0), (5, 2, 4, 8, 0xbb << 64)]);
}

/// IBTA 12.9.8.2: an asker's time is not over while the other side says that its program thinks.
#[test]
fn a_slow_program_on_either_side_is_waited_for() {
    let timing = Timing { retries: 2, service: 18, ..Timing::default() };
    let mut pair = Pair::new(timing);
    pair.sides[1].listen(service());
    // More than all tries of either side.
    pair.think = [timeout(timing.response) * 9; 2];
    let id = pair.connect();
    pair.run(LATER, |_, _| vec![SOON]);
    assert!(pair.count(1, "Mra") > 0 && pair.count(0, "Mra") > 0, "{:?}", pair.log);
    assert_eq!(pair.sides[0].state(id), Some(State::Established));
    assert_eq!((pair.told(1, established), pair.told(1, |e| matches!(e, Event::Requested(_)))), (1, 1));
}

#[test]
fn an_mra_that_never_ends_is_given_up_with_the_tries() {
    let mut manager = Manager::new(1, 0xaa, Timing { retries: 0, ..Timing::default() });
    let id = manager.connect(Duration::ZERO, 3u8, Pair::req());
    let mra = |service_timeout| {
        let mra = Mra { local_comm_id: 8, remote_comm_id: id, service_timeout, ..Mra::default() };
        Mad { transaction_id: 0, message: mra.into() }
    };
    manager.receive(SOON, &3, &mra(22));
    manager.tick(timeout(22));
    assert_eq!(manager.state(id), Some(State::ReqSent));
    // A peer can ask for a minute at most.
    manager.receive(timeout(22), &3, &mra(31));
    assert_eq!(manager.poll_timeout(), Some(timeout(22) + timeout(LONGEST) + timeout(14)));
    manager.tick(timeout(22) + timeout(LONGEST) + timeout(14));
    assert_eq!(manager.state(id), None);
}

/// The time-outs of an answer are those that the request names (IBTA 12.7, "Local CM Response Timeout").
#[test]
fn an_answer_waits_as_long_as_the_asker_says() {
    let mut manager = Manager::new(1, 0xaa, Timing::default());
    manager.listen(service());
    let req = Req { local_comm_id: 5, local_cm_response_timeout: 20, max_cm_retries: 3, ..Pair::req() };
    manager.receive(Duration::ZERO, &3, &Mad { transaction_id: 9, message: req.into() });
    let Some((id, Event::Requested(_))) = manager.poll_event() else { panic!("asked") };
    assert!(manager.accept(Duration::ZERO, id, Rep::default()));
    let mut reps = 0;
    while let Some(next) = manager.poll_timeout() {
        manager.tick(next);
        while let Some((_, mad)) = manager.poll_transmit() {
            reps += u32::from(matches!(mad.message, Message::Rep(_)));
        }
        if manager.poll_event().is_some_and(|(_, event)| event == Event::TimedOut) {
            assert_eq!(next, timeout(20) * 4);
        }
    }
    assert_eq!(reps, 4);
}

#[test]
fn messages_of_others_change_nothing() {
    let (mut pair, [id, theirs]) = Pair::connected(Timing::default());
    let manager = &mut pair.sides[0];
    let dreq =
        |local_comm_id, remote_qpn| Dreq { local_comm_id, remote_comm_id: id, remote_qpn, ..Dreq::default() };
    // From somewhere else, of another connection, and of another queue pair.
    manager.receive(pair.now, &9, &Mad { transaction_id: 0, message: dreq(theirs, 17).into() });
    manager.receive(pair.now, &1, &Mad { transaction_id: 0, message: dreq(theirs + 1, 17).into() });
    manager.receive(pair.now, &1, &Mad { transaction_id: 0, message: dreq(theirs, 18).into() });
    // A refusal names both numbers, or that of its sender where that is all it knows.
    let rej =
        |local_comm_id, remote_comm_id| Rej { local_comm_id, remote_comm_id, reason: 28, ..Rej::default() };
    for (local, remote) in [(theirs + 1, id), (0, id), (theirs, id + 1), (theirs, 0)] {
        manager.receive(pair.now, &1, &Mad { transaction_id: 0, message: rej(local, remote).into() });
    }
    assert_eq!((manager.state(id), manager.poll_event()), (Some(State::Established), None));
    manager.receive(pair.now, &1, &Mad { transaction_id: 0, message: dreq(theirs, 17).into() });
    assert_eq!(manager.state(id), Some(State::DreqReceived));
}

#[test]
fn a_refusal_ends_an_answered_request_only_with_both_numbers() {
    // The asked side has said yes; the asker has heard it.
    for side in [1, 0] {
        let mut pair = Pair::new(Timing::default());
        pair.sides[1].listen(service());
        pair.think = [SOON * 50, Duration::ZERO];
        let id = pair.connect();
        pair.run(SOON * 4, |_, _| vec![SOON]);
        let theirs = pair.events[1][0].0;
        let (own, other) = if side == 0 { (id, theirs) } else { (theirs, id) };
        let state = if side == 0 { State::RepReceived } else { State::RepSent };
        for (local_comm_id, gone) in [(0, false), (other + 1, false), (other, true)] {
            assert_eq!(pair.sides[side].state(own), Some(state));
            let rej = Rej { local_comm_id, remote_comm_id: own, reason: 28, ..Rej::default() };
            let mad = Mad { transaction_id: 0, message: rej.into() };
            pair.sides[side].receive(pair.now, &(1 - side as u8), &mad);
            assert_eq!(pair.sides[side].state(own).is_none(), gone);
        }
    }
}

/// IBTA 12.9.8.3.1: the other side has restarted and has the same queue pair again.
#[test]
fn a_connection_whose_other_side_has_restarted_ends_and_the_new_one_comes_up() {
    let (mut pair, [_, theirs]) = Pair::connected(Timing::default());
    pair.sides[0] = Manager::new(5000, 0xaa, Timing::default());
    let id = pair.connect();
    pair.run(LATER, |_, _| vec![SOON]);
    assert_eq!(pair.log[..5], [(0, "Req"), (1, "Dreq"), (1, "Rej"), (0, "Drep"), (0, "Req")]);
    assert_eq!(pair.sides[0].state(id), Some(State::Established));
    assert_eq!((pair.told(0, |e| matches!(e, Event::Replied(_))), pair.events[0].len()), (1, 1));
    let old: Vec<_> = pair.events[1].iter().filter(|(id, _)| *id == theirs).map(|(_, event)| event).collect();
    assert!(matches!(old[..], [Event::Disconnected(End::Drep(_)), Event::TimeWaitOver]), "{old:?}");
    assert_eq!(pair.told(1, established), 1);
}

#[test]
fn a_request_that_is_refused_for_an_older_connection_is_repeated_a_few_times() {
    let (mut pair, _) = Pair::connected(Timing::default());
    // After the first refusal no message arrives.
    pair.connect();
    let mut refused = false;
    pair.run(timeout(14) * 5, |_, mad| match mad.message {
        _ if refused => Vec::new(),
        Message::Rej(_) => {
            refused = true;
            vec![SOON]
        }
        _ => vec![SOON],
    });
    assert_eq!(pair.told(0, |event| rejected(event, RejectReason::StaleConnection)), 1);
    assert_eq!(pair.count(0, "Req"), 1 + usize::from(STALE_TRIES));
}

#[test]
fn a_request_that_its_asker_has_forgotten_is_replaced_by_its_next_one() {
    let mut manager = Manager::new(1, 0xaa, Timing::default());
    manager.listen(service());
    for local_comm_id in [5, 6] {
        let req = Req { local_comm_id, ..Pair::req() };
        manager.receive(SOON, &3, &Mad { transaction_id: 9, message: req.into() });
    }
    let events: Vec<_> = std::iter::from_fn(|| manager.poll_event()).collect();
    assert!(
        matches!(events[..], [(1, Event::Requested(_)), (1, Event::Rejected(_)), (2, Event::Requested(_))]),
        "{events:?}"
    );
}

#[test]
fn a_program_that_leaves_ends_what_it_has_and_hears_no_more() {
    // In each state of the asker, then of the asked side.
    for (side, steps, says) in [
        (0, 1, &["Rej"][..]),
        (0, 2, &["Rej"]),
        (0, 3, &["Dreq"]),
        (1, 1, &["Rej"]),
        (1, 2, &["Rej"]),
        (1, 3, &["Dreq"]),
    ] {
        let mut pair = Pair::new(Timing::default());
        pair.sides[1].listen(service());
        // Time for the other side to look at each state.
        pair.think = [SOON * 10; 2];
        let id = pair.connect();
        let until = [SOON * 5, SOON * 15, SOON * 100][steps - 1];
        pair.run(until, |_, _| vec![SOON]);
        let own = if side == 0 { id } else { pair.events[1][0].0 };
        let state = pair.sides[side].state(own).unwrap();
        let (before, heard) = (pair.log.len(), pair.events[side].len());
        pair.sides[side].abandon(pair.now, own);
        pair.plans.clear();
        pair.run(LATER, |_, _| vec![SOON]);
        let said: Vec<_> = pair.log[before..].iter().filter(|(by, _)| *by == side).map(|(_, m)| *m).collect();
        assert_eq!(said, says, "{state:?}");
        assert_eq!(pair.events[side].len(), heard, "{state:?}");
        let ends = |e: &Event| matches!(e, Event::Rejected(_) | Event::Disconnected(_));
        assert_eq!(pair.told(1 - side, ends), 1, "{state:?}");
        assert_eq!([0, 1].map(|side| pair.sides[side].connections()), [0, 0], "{state:?}");
    }
}

#[test]
fn a_dreq_that_nobody_answers_ends_all_the_same() {
    let timing = Timing { retries: 3, ..Timing::default() };
    let (mut pair, [id, _]) = Pair::connected(timing);
    let start = pair.now;
    assert!(pair.disconnect(0, id));
    pair.run(LATER, |_, _| Vec::new());
    assert_eq!(pair.count(0, "Dreq"), 4);
    assert_eq!(pair.events[0], [(id, Event::Disconnected(End::TimedOut)), (id, Event::TimeWaitOver)]);
    assert_eq!(pair.now - start, timeout(timing.response) * 4 + timeout(timing.time_wait));
}

/// The asked side's answers are lost, and it gives up before the asker does.
#[test]
fn a_request_that_comes_after_the_last_try_of_its_answer_is_refused_again() {
    let mut manager = Manager::new(1, 0xbb, Timing::default());
    manager.listen(service());
    manager.receive(Duration::ZERO, &3, &asked(5));
    assert!(manager.accept(Duration::ZERO, 1, Rep::default()));
    let end = timeout(14);
    manager.tick(end);
    let events: Vec<_> = std::iter::from_fn(|| manager.poll_event()).collect();
    assert!(matches!(events[..], [(1, Event::Requested(_)), (1, Event::TimedOut)]), "{events:?}");
    while manager.poll_transmit().is_some() {}
    manager.receive(end + SOON, &3, &asked(5));
    let Some(Mad { message: Message::Rej(rej), .. }) = sent(&mut manager) else { panic!("refused") };
    assert_eq!((rej.remote_comm_id, rej.reason), (5, 4));
    assert_eq!((manager.poll_event(), sent(&mut manager)), (None, None));
    manager.tick(LATER);
    assert_eq!((manager.poll_event(), manager.connections()), (None, 0));
}

/// The asked program leaves while the asker's RTU is on the way, and its refusal is lost.
#[test]
fn an_asker_that_takes_itself_for_connected_is_refused_again() {
    let mut pair = Pair::new(Timing::default());
    pair.sides[1].listen(service());
    let id = pair.connect();
    let mut lost = false;
    pair.run(SOON * 2, |_, _| vec![SOON]);
    assert_eq!(pair.sides[0].state(id), Some(State::Established));
    let theirs = pair.events[1][0].0;
    assert_eq!(pair.sides[1].state(theirs), Some(State::RepSent), "the RTU is on the way");
    pair.sides[1].abandon(pair.now, theirs);
    pair.run(LATER, |_, mad| match mad.message {
        Message::Rej(_) if !std::mem::replace(&mut lost, true) => Vec::new(),
        _ => vec![SOON],
    });
    assert_eq!(pair.count(1, "Rej"), 2);
    assert_eq!(pair.told(0, |event| matches!(event, Event::Disconnected(End::Rejected(_)))), 1);
    assert_eq!([0, 1].map(|side| pair.sides[side].connections()), [0, 0]);
}

/// The answer is lost, and the asked program disconnects. The asker gets that by the DREQ, or when it asks again, or says that it gives up.
#[test]
fn an_asked_side_that_ends_before_its_answer_arrives_refuses() {
    for lost in [&["Rep"][..], &["Rep", "Dreq"], &["Rep", "Dreq", "Rej"]] {
        let timing = Timing { retries: 4, ..Timing::default() };
        let mut pair = Pair::new(timing);
        pair.sides[1].listen(service());
        let id = pair.connect();
        let fate = |side: usize, mad: &Mad| match side == 1 && lost.contains(&mad.message.name()) {
            true => Vec::new(),
            false => vec![SOON],
        };
        pair.run(SOON * 5, fate);
        let theirs = pair.events[1][0].0;
        assert_eq!(pair.sides[1].state(theirs), Some(State::RepSent));
        assert!(pair.disconnect(1, theirs));
        let start = pair.now;
        pair.run(start + timeout(14) * 3, fate);
        let refused = pair.told(0, |event| rejected(event, RejectReason::Consumer));
        assert_eq!(refused, usize::from(lost.len() < 3), "{lost:?}");
        // Not later than the second time that it asks.
        assert_eq!(pair.count(0, "Req"), [1, 2, 4][lost.len() - 1], "{lost:?}");
        pair.run(LATER, fate);
        assert_eq!(
            pair.told(0, |event| matches!(event, Event::Rejected(_) | Event::TimedOut)),
            1,
            "{lost:?}"
        );
        assert_eq!(pair.events[0].len(), 1, "{:?}", pair.events[0]);
        // The asked side has the same story whatever arrives: one request, and its end.
        assert_eq!(pair.told(1, disconnected), 1, "{lost:?}");
        assert_eq!(pair.sides[0].state(id), None);
        assert_eq!([0, 1].map(|side| pair.sides[side].connections()), [0, 0]);
    }
}

/// All that the asked side says is lost, and it has ended the connection: the asker's last word ends it here.
#[test]
fn an_asker_that_gives_up_ends_a_connection_that_this_side_is_ending() {
    let mut manager = Manager::new(1, 0xbb, Timing::default());
    manager.listen(service());
    let req = Req { max_cm_retries: 15, local_cm_response_timeout: 20, ..Pair::req() };
    let req = Mad { transaction_id: 9, message: Req { local_comm_id: 5, ..req }.into() };
    manager.receive(SOON, &3, &req);
    assert!(manager.accept(SOON, 1, Rep::default()) && manager.disconnect(SOON, 1, [0; Dreq::PRIVATE]));
    let rej = Rej { local_comm_id: 5, message: 2, reason: 4, ..Rej::default() };
    manager.receive(SOON, &3, &Mad { transaction_id: 9, message: rej.into() });
    assert_eq!(manager.state(1), Some(State::TimeWait));
    let events: Vec<_> = std::iter::from_fn(|| manager.poll_event()).collect();
    assert!(matches!(events[..], [_, (1, Event::Disconnected(End::Rejected(_)))]), "{events:?}");
}

#[test]
fn both_sides_may_end_at_once() {
    let (mut pair, ids) = Pair::connected(Timing::default());
    assert!(pair.disconnect(0, ids[0]) && pair.disconnect(1, ids[1]));
    pair.run(LATER, |_, _| vec![SOON]);
    assert_eq!([0, 1].map(|side| pair.told(side, disconnected)), [1, 1]);
    assert_eq!([0, 1].map(|side| pair.sides[side].connections()), [0, 0]);
}

/// The conversations of `ib_write_bw` and `rping` on Linux, a list of messages each.
fn conversations() -> Vec<Vec<Mad>> {
    let mads: Vec<Mad> =
        crate::mad::tests::captured().iter().map(|bytes| Mad::parse(bytes).unwrap()).collect();
    let asked = mads.iter().filter(|mad| matches!(mad.message, Message::Req(_)));
    let of = |id: u64| mads.iter().filter(|mad| mad.transaction_id == id).copied().collect();
    asked.map(|mad| of(mad.transaction_id)).collect()
}

fn sent<P: Clone + Ord>(manager: &mut Manager<P>) -> Option<Mad> {
    manager.poll_transmit().map(|(_, mad)| mad)
}

#[test]
fn the_manager_says_to_linux_what_linux_says_to_itself() {
    let conversations = conversations();
    assert_eq!(conversations.len(), 3);
    for mads in conversations {
        let [req, rep, rtu, dreq, drep] = mads[..] else { panic!("{mads:?}") };
        let (Message::Req(request), Message::Rep(reply)) = (req.message, rep.message) else { panic!() };
        // As the asked side: the same bytes.
        let mut manager = Manager::new(reply.local_comm_id, reply.local_ca_guid, Timing::default());
        manager.listen(request.service_id);
        manager.receive(SOON, &0u8, &req);
        let Some((id, Event::Requested(_))) = manager.poll_event() else { panic!("asked") };
        assert!(manager.accept(SOON, id, Rep { remote_comm_id: 0, local_comm_id: 0, ..reply }));
        assert_eq!(sent(&mut manager), Some(rep));
        manager.receive(SOON, &0, &rtu);
        assert!(matches!(manager.poll_event(), Some((_, Event::Established(Some(_))))));
        manager.receive(SOON, &0, &dreq);
        assert!(matches!(manager.poll_event(), Some((_, Event::Disconnected(End::Dreq(_))))));
        assert!(manager.disconnect(SOON, id, [0; Dreq::PRIVATE]));
        assert_eq!(sent(&mut manager), Some(drep));
        // As the asker: the same but for the transaction, which is its own.
        let timing = Timing { response: 20, ..Timing::default() };
        let mut manager = Manager::new(request.local_comm_id, request.local_ca_guid, timing);
        let id = manager.connect(SOON, 0u8, Req { local_comm_id: 0, max_cm_retries: 0, ..request });
        assert_eq!(sent(&mut manager).unwrap().message, req.message);
        manager.receive(SOON, &0, &rep);
        assert!(matches!(manager.poll_event(), Some((_, Event::Replied(got))) if got == reply));
        assert!(manager.ready(SOON, id));
        assert_eq!(sent(&mut manager).unwrap().message, rtu.message);
        assert!(manager.disconnect(SOON, id, [0; Dreq::PRIVATE]));
        assert_eq!(sent(&mut manager).unwrap().message, dreq.message);
        manager.receive(SOON, &0, &drep);
        assert!(matches!(manager.poll_event(), Some((_, Event::Disconnected(End::Drep(_))))));
    }
}

/// The answer is of the transaction of its question (IBTA 13.4.6.4), also if the other side takes another one for its DREQ.
#[test]
fn an_answer_has_the_transaction_of_its_question() {
    let (mut pair, [id, theirs]) = Pair::connected(Timing::default());
    let dreq = Dreq { local_comm_id: theirs, remote_comm_id: id, remote_qpn: 17, ..Dreq::default() };
    let dreq = Mad { transaction_id: 0xabc, message: dreq.into() };
    pair.sides[0].receive(pair.now, &1, &dreq);
    assert!(pair.disconnect(0, id));
    // And once more.
    pair.sides[0].receive(pair.now, &1, &dreq);
    for _ in 0..2 {
        let drep = sent(&mut pair.sides[0]).unwrap();
        assert!(matches!(drep.message, Message::Drep(_)) && drep.transaction_id == 0xabc, "{drep:?}");
    }
}

#[test]
fn a_datagram_service_is_found_with_two_messages() {
    let mut pair = Pair::new(Timing::default());
    pair.sides[1].listen(datagrams());
    let req = SidrReq { service_id: datagrams(), private_data: [4; SidrReq::PRIVATE], ..SidrReq::default() };
    let id = pair.sides[0].resolve(pair.now, 1, req);
    // The request comes twice.
    pair.run(LATER, |_, mad| match mad.message {
        Message::SidrReq(_) => vec![SOON, SOON * 3],
        _ => vec![SOON],
    });
    assert_eq!(pair.log, [(0, "SidrReq"), (1, "SidrRep"), (1, "SidrRep")]);
    let [(told, Event::SidrReplied(rep))] = &pair.events[0][..] else { panic!("{:?}", pair.events[0]) };
    assert_eq!((*told, rep.request_id, rep.status, rep.qpn, rep.qkey), (id, id, 0, 40, 9));
    assert_eq!(rep.service_id, datagrams());
    let [(_, Event::SidrRequested(req))] = &pair.events[1][..] else { panic!("{:?}", pair.events[1]) };
    assert_eq!((req.request_id, req.private_data), (id, [4; SidrReq::PRIVATE]));
    assert_eq!([0, 1].map(|side| pair.sides[side].connections()), [0, 0]);
}

#[test]
fn a_datagram_service_that_is_not_there_or_refuses_says_so() {
    for (listens, status) in [(false, SidrStatus::Unsupported), (true, SidrStatus::Rejected)] {
        let mut pair = Pair::new(Timing::default());
        pair.refuse = true;
        if listens {
            pair.sides[1].listen(datagrams());
        }
        let req = SidrReq { service_id: datagrams(), ..SidrReq::default() };
        pair.sides[0].resolve(pair.now, 1, req);
        pair.run(LATER, |_, _| vec![SOON]);
        let [(_, Event::SidrReplied(rep))] = &pair.events[0][..] else { panic!("{:?}", pair.events[0]) };
        assert_eq!(SidrStatus::from(rep.status), status);
    }
}

#[test]
fn a_lookup_that_nobody_answers_is_given_up() {
    let timing = Timing { retries: 2, ..Timing::default() };
    let mut pair = Pair::new(timing);
    let req = SidrReq { service_id: datagrams(), ..SidrReq::default() };
    let id = pair.sides[0].resolve(pair.now, 1, req);
    pair.run(LATER, |_, _| Vec::new());
    assert_eq!((pair.count(0, "SidrReq"), pair.now), (3, timeout(timing.response) * 3));
    assert_eq!((&pair.events[0][..], pair.sides[0].connections()), (&[(id, Event::TimedOut)][..], 0));
    // One that its program has given up has no event, and the answer to it is ignored.
    let id = pair.sides[0].resolve(pair.now, 1, req);
    pair.sides[0].abandon(pair.now, id);
    let rep = SidrRep { request_id: id, service_id: datagrams(), ..SidrRep::default() };
    pair.sides[0].receive(pair.now, &1, &Mad { transaction_id: 0, message: rep.into() });
    assert_eq!((pair.sides[0].poll_event(), pair.sides[0].connections()), (None, 0));
}

#[test]
fn answers_to_lookups_are_kept_up_to_a_limit() {
    let mut manager = Manager::new(1, 0xbb, Timing::default());
    manager.listen(datagrams());
    let lookup = |request_id| {
        let req = SidrReq { request_id, service_id: datagrams(), ..SidrReq::default() };
        Mad { transaction_id: 1, message: req.into() }
    };
    let count = MAX_WAITING as u32 + 10;
    for n in 1..=count {
        manager.receive(SOON * n, &3, &lookup(n));
        let Some((id, Event::SidrRequested(_))) = manager.poll_event() else { panic!("asked") };
        assert!(manager.answer(SOON * n, id, SidrRep::default()));
    }
    assert_eq!(manager.connections(), MAX_WAITING);
    while manager.poll_transmit().is_some() {}
    // The youngest is answered again; the oldest is a new one.
    manager.receive(SOON * count, &3, &lookup(count));
    assert!(sent(&mut manager).is_some() && manager.poll_event().is_none());
    manager.receive(SOON * count, &3, &lookup(1));
    assert!(sent(&mut manager).is_none() && manager.poll_event().is_some());
    // Lookups that the program has not answered are not given up for others.
    let mut manager = Manager::new(1, 0xbb, Timing::default());
    manager.listen(datagrams());
    (1..=count).for_each(|n| manager.receive(SOON, &3, &lookup(n)));
    assert_eq!((manager.connections(), manager.poll_timeout()), (MAX_WAITING, None));
}

/// What a program may hear of one connection, and in which order. Whether that is all.
fn is_story(events: &[&Event]) -> bool {
    // After the end comes nothing but the end of the time-wait.
    let end = |rest: &[&Event]| matches!(rest, [] | [Event::TimeWaitOver]);
    let over = |rest: &[&Event]| matches!(rest, [] | [Event::Rejected(_) | Event::TimedOut]);
    match events {
        [Event::Requested(_), Event::Established(_), Event::Disconnected(_), rest @ ..]
        | [Event::Requested(_) | Event::Replied(_), Event::Disconnected(_), rest @ ..] => end(rest),
        [Event::Requested(_), Event::Established(_)] => true,
        [Event::Requested(_) | Event::Replied(_), rest @ ..] => over(rest),
        [Event::SidrRequested(_) | Event::SidrReplied(_)] => true,
        rest => over(rest),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// On any network and with slow programs, each side gets each event once and in order, connections that both sides have
    /// work at both, and all end.
    #[test]
    fn on_any_network_both_sides_agree_in_the_end(
        fates in proptest::collection::vec((0u8..100, 0u64..300_000, 0u64..300_000), 0..200),
        loss in 0u8..70,
        doubling in 0u8..40,
        who_ends in 0usize..2,
        think in [0u64..1_000_000, 0u64..1_000_000],
        refuse in 0u8..5,
        lookup in any::<bool>(),
    ) {
        let mut pair = Pair::new(Timing { retries: 8, service: 16, ..Timing::default() });
        pair.sides[1].listen(service());
        pair.sides[1].listen(datagrams());
        // Half of the programs do not think at all.
        pair.think = think.map(|us| Duration::from_micros(us.saturating_sub(500_000)));
        pair.refuse = refuse == 0;
        let id = pair.connect();
        if lookup {
            pair.sides[0].resolve(pair.now, 1, SidrReq { service_id: datagrams(), ..SidrReq::default() });
        }
        let mut fates = fates.into_iter().chain(std::iter::repeat((99, 10, 10)));
        let mut fate = |_: usize, _: &Mad| {
            let (dice, one, two) = fates.next().unwrap();
            match dice {
                dice if dice < loss => Vec::new(),
                dice if dice < loss + doubling => vec![Duration::from_micros(one), Duration::from_micros(two)],
                _ => vec![Duration::from_micros(one)],
            }
        };
        pair.run(LATER, &mut fate);
        let asked = pair.events[1].iter().find(|(_, event)| matches!(event, Event::Requested(_))).map(|event| event.0);
        let up = [pair.sides[0].state(id), asked.and_then(|id| pair.sides[1].state(id))];
        if up == [Some(State::Established); 2] {
            // No program has an event of a failure.
            prop_assert!(!pair.refuse);
            prop_assert_eq!(pair.told(0, |event| matches!(event, Event::Replied(_))), 1);
            prop_assert_eq!(pair.told(1, established), 1);
            let ids = [id, asked.unwrap()];
            prop_assert!(pair.disconnect(who_ends, ids[who_ends]));
            pair.run(LATER * 2, &mut fate);
            let other = pair.told(1 - who_ends, disconnected);
            prop_assert_eq!(pair.told(who_ends, disconnected), 1);
            // Every DREQ may have been lost; then the other side has not heard of the end.
            prop_assert!(other == 1 || pair.count(who_ends, "Dreq") == 9);
        } else {
            // A side gave up after all tries, or the other one did and said so.
            let gave_up = |e: &Event| matches!(e, Event::TimedOut | Event::Rejected(_) | Event::Disconnected(_));
            prop_assert!(pair.told(0, gave_up) + pair.told(1, gave_up) > 0, "{:?}", up);
        }
        if lookup {
            let found = |event: &Event| matches!(event, Event::SidrReplied(rep) if SidrStatus::from(rep.status) == SidrStatus::Valid);
            let answered = pair.told(0, |event| matches!(event, Event::SidrReplied(_)));
            prop_assert_eq!(answered == 1 && !pair.refuse, pair.told(0, found) == 1);
        }
        // A side that still has its half ends it, and hears so.
        for (side, id) in [(0, Some(id)), (1, asked)] {
            if let Some(id) = id.filter(|id| pair.sides[side].state(*id) == Some(State::Established)) {
                prop_assert!(pair.disconnect(side, id));
                pair.run(LATER * 3, &mut fate);
                prop_assert_eq!(pair.told(side, disconnected), 1);
            }
        }
        for side in 0..2 {
            prop_assert_eq!(pair.sides[side].connections(), 0, "{:?}", pair.sides[side]);
            let mut ids: Vec<u32> = pair.events[side].iter().map(|(id, _)| *id).collect();
            ids.sort_unstable();
            ids.dedup();
            for id in ids {
                let story: Vec<&Event> = pair.events[side].iter().filter(|(of, _)| *of == id).map(|(_, event)| event).collect();
                prop_assert!(is_story(&story), "{:?}", story);
            }
        }
    }

    /// Without loss beyond the retries, a connection comes up and ends at both sides.
    #[test]
    fn a_network_that_is_not_worse_than_the_retries_connects(
        lost in proptest::collection::vec(any::<bool>(), 0..8),
        delays in proptest::collection::vec(0u64..60_000, 64),
    ) {
        let mut pair = Pair::new(Timing::default());
        pair.sides[1].listen(service());
        let id = pair.connect();
        let (mut lost, mut delays) = (lost.into_iter(), delays.into_iter().cycle());
        pair.run(LATER, |_, _| match lost.next() {
            Some(true) => Vec::new(),
            _ => vec![Duration::from_micros(delays.next().unwrap())],
        });
        prop_assert_eq!(pair.sides[0].state(id), Some(State::Established));
        let theirs = pair.events[1][0].0;
        prop_assert_eq!(pair.sides[1].state(theirs), Some(State::Established));
        prop_assert_eq!((pair.events[0].len(), pair.events[1].len()), (1, 2));
    }

    /// Whatever peers send, each event belongs to a connection, and what is not answered ends.
    #[test]
    fn whatever_messages_come_the_manager_goes_on(
        steps in proptest::collection::vec((0u8..16, any::<u8>(), 0u32..6, 0u32..6, any::<u16>()), 0..80),
    ) {
        let mut manager = Manager::new(1, 0xaa, Timing { retries: 2, ..Timing::default() });
        manager.listen(service());
        manager.listen(datagrams());
        let mut now = Duration::ZERO;
        for (what, peer, local_comm_id, remote_comm_id, bits) in steps {
            let peer = peer % 3;
            let local_qpn = u32::from(bits % 3);
            let mut give = |message: Message| manager.receive(now, &peer, &Mad { transaction_id: 1, message });
            match what {
                0 => give(Req { local_comm_id, local_qpn, ..Pair::req() }.into()),
                1 => give(Rep { local_comm_id, remote_comm_id, local_qpn, ..Rep::default() }.into()),
                2 => give(Rtu { local_comm_id, remote_comm_id, ..Rtu::default() }.into()),
                3 => give(Rej { local_comm_id, remote_comm_id, reason: bits % 40, ..Rej::default() }.into()),
                4 => give(Dreq { local_comm_id, remote_comm_id, remote_qpn: local_qpn, ..Dreq::default() }.into()),
                5 => give(Drep { local_comm_id, remote_comm_id, ..Drep::default() }.into()),
                6 => give(Mra { local_comm_id, remote_comm_id, service_timeout: bits as u8 & 31, ..Default::default() }.into()),
                7 => give(SidrReq { request_id: local_comm_id, service_id: datagrams(), ..SidrReq::default() }.into()),
                8 => give(SidrRep { request_id: local_comm_id, service_id: datagrams(), status: bits as u8, ..SidrRep::default() }.into()),
                9 => drop(manager.connect(now, peer, Req { local_qpn, ..Pair::req() })),
                10 => drop(manager.resolve(now, peer, SidrReq { service_id: datagrams(), ..SidrReq::default() })),
                11 => {
                    manager.accept(now, local_comm_id, Rep { local_qpn, ..Rep::default() });
                    manager.ready(now, local_comm_id);
                }
                12 => {
                    manager.answer(now, local_comm_id, SidrRep::default());
                    manager.disconnect(now, remote_comm_id, [0; Dreq::PRIVATE]);
                }
                13 => drop(manager.reject(now, local_comm_id, bits.into(), [0; Rej::PRIVATE])),
                14 => manager.abandon(now, local_comm_id),
                _ => {
                    now += Duration::from_millis(bits.into());
                    manager.tick(now);
                }
            }
            while let Some((to, mad)) = manager.poll_transmit() {
                prop_assert!(to < 3);
                Mad::parse(&mad.to_bytes()).unwrap();
            }
            while manager.poll_event().is_some() {}
            manager.connections.check();
        }
        // What waits for the program stays; all else ends, once time passes.
        while let Some(next) = manager.poll_timeout() {
            manager.tick(next);
        }
        for id in manager.connections.ids() {
            let waits = [State::ReqReceived, State::RepReceived, State::Established, State::DreqReceived];
            prop_assert!(waits.contains(&manager.state(id).unwrap()));
        }
        for id in manager.connections.ids().collect::<Vec<_>>() {
            manager.abandon(now, id);
        }
        for id in manager.lookups.ids().collect::<Vec<_>>() {
            manager.abandon(now, id);
        }
        while let Some(next) = manager.poll_timeout() {
            manager.tick(next);
        }
        prop_assert_eq!(manager.connections(), 0);
    }
}
