// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two managers on a network that loses, doubles and delays messages.

use proptest::prelude::*;

use super::*;
use crate::mad::rdma_service_id;

const SERVICE: u64 = 0x0106_1234;

/// What becomes of a message: when each copy arrives.
type Fate = Vec<Duration>;

/// Two managers and what is on the way between them.
struct Pair {
    sides: [Manager<u8>; 2],
    now: Duration,
    way: BTreeMap<(Duration, u32), (usize, Mad)>,
    sent: u32,
    events: [Vec<(u32, Event)>; 2],
    /// Names of the messages sent, with their senders.
    log: Vec<(usize, &'static str)>,
}

impl Pair {
    fn new(timing: Timing) -> Self {
        let sides = [Manager::new(0xffff_fffe, timing), Manager::new(70, timing)];
        let events = [Vec::new(), Vec::new()];
        Self { sides, now: Duration::ZERO, way: BTreeMap::new(), sent: 0, events, log: Vec::new() }
    }

    fn req() -> Req {
        Req { service_id: SERVICE, local_qpn: 17, starting_psn: 5, ..Req::default() }
    }

    /// Sends what the managers have, and carries out what programs do: say yes, and become ready.
    fn turn(&mut self, fate: &mut impl FnMut(usize, &Mad) -> Fate) {
        for side in 0..2 {
            while let Some((id, event)) = self.sides[side].poll_event() {
                self.events[side].push((id, event.clone()));
                match event {
                    Event::Requested(req) => {
                        let rep = Rep { local_qpn: 40, starting_psn: req.starting_psn + 1, ..Rep::default() };
                        assert!(self.sides[side].accept(self.now, id, rep));
                    }
                    Event::Replied(_) => assert!(self.sides[side].ready(self.now, id)),
                    _ => {}
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
            let timeouts = self.sides.iter().filter_map(Manager::poll_timeout);
            match timeouts.chain(arrival).min() {
                Some(next) if next <= until => self.now = self.now.max(next),
                _ => return,
            }
            while let Some(entry) = self.way.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, mad) = entry.remove();
                // As bytes, as on the wire.
                let mad = Mad::parse(&mad.to_bytes()).unwrap();
                self.sides[to].receive(self.now, &(1 - to as u8), &mad);
            }
            self.sides.iter_mut().for_each(|side| side.tick(self.now));
        }
    }

    fn told(&self, side: usize, what: fn(&Event) -> bool) -> usize {
        self.events[side].iter().filter(|(_, event)| what(event)).count()
    }

    fn count(&self, side: usize, name: &str) -> usize {
        self.log.iter().filter(|entry| **entry == (side, name)).count()
    }
}

const SOON: Duration = Duration::from_micros(10);
const LATER: Duration = Duration::from_secs(3600);

fn established(event: &Event) -> bool {
    *event == Event::Established
}

fn disconnected(event: &Event) -> bool {
    *event == Event::Disconnected
}

#[test]
fn a_connection_takes_three_messages_and_its_end_two() {
    let mut pair = Pair::new(Timing::default());
    pair.sides[1].listen(SERVICE);
    let id = pair.sides[0].connect(pair.now, 1, Pair::req());
    pair.run(SOON * 100, |_, _| vec![SOON]);
    assert_eq!(pair.log, [(0, "Req"), (1, "Rep"), (0, "Rtu")]);
    let (theirs, asked) = &pair.events[1][0];
    assert!(matches!(asked, Event::Requested(req) if req.local_comm_id == id && req.local_qpn == 17));
    assert!(
        matches!(pair.events[0][0].1, Event::Replied(rep) if (rep.local_qpn, rep.starting_psn) == (40, 6))
    );
    assert_eq!((pair.told(1, established), pair.sides[0].state(id)), (1, Some(State::Established)));
    let theirs = *theirs;
    assert!(pair.sides[1].disconnect(pair.now, theirs));
    pair.run(SOON * 200, |_, _| vec![SOON]);
    assert_eq!(pair.log[3..], [(1, "Dreq"), (0, "Drep")]);
    assert_eq!([0, 1].map(|side| pair.told(side, disconnected)), [1, 1]);
    assert_eq!(pair.sides[1].state(theirs), Some(State::TimeWait));
    assert!(!pair.sides[0].disconnect(pair.now, id), "it has ended");
    pair.run(LATER, |_, _| vec![SOON]);
    assert_eq!([0, 1].map(|side| pair.sides[side].connections()), [0, 0]);
}

#[test]
fn who_asks_for_what_nobody_serves_is_told_why() {
    let mut pair = Pair::new(Timing::default());
    pair.sides[1].listen(rdma_service_id(0x1235));
    let id = pair.sides[0].connect(pair.now, 1, Pair::req());
    pair.run(LATER, |_, _| vec![SOON]);
    assert_eq!(pair.log, [(0, "Req"), (1, "Rej")]);
    let rejected =
        |e: &Event| matches!(e, Event::Rejected(rej) if rej.reason == RejectReason::InvalidServiceId.code());
    assert_eq!((pair.told(0, rejected), pair.events[0].len(), pair.events[1].len()), (1, 1, 0));
    assert_eq!(pair.sides[0].state(id), None);
}

#[test]
fn a_program_that_refuses_gives_its_reason_and_its_bytes() {
    let mut manager = Manager::new(1, Timing::default());
    manager.listen(SERVICE);
    let mad = |message: Message| Mad { transaction_id: 9, message };
    manager.receive(SOON, &3, &mad(Req { local_comm_id: 55, ..Pair::req() }.into()));
    let Some((id, Event::Requested(_))) = manager.poll_event() else { panic!("asked") };
    manager.reject(id, RejectReason::Consumer, [7; 148]);
    let Some((3, Mad { transaction_id: 9, message: Message::Rej(rej) })) = manager.poll_transmit() else {
        panic!("refused")
    };
    assert_eq!((rej.remote_comm_id, rej.message, rej.reason, rej.private_data), (55, 0, 28, [7; 148]));
    assert_eq!(manager.connections(), 0);
}

#[test]
fn a_request_that_comes_twice_is_answered_twice_with_the_same() {
    let mut pair = Pair::new(Timing::default());
    pair.sides[1].listen(SERVICE);
    pair.sides[0].connect(pair.now, 1, Pair::req());
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
    let id = pair.sides[0].connect(pair.now, 1, Pair::req());
    pair.run(LATER, |_, _| Vec::new());
    // At the end it says that nobody need answer any more.
    assert_eq!((pair.count(0, "Req"), pair.count(0, "Rej")), (5, 1));
    assert_eq!(pair.events[0], [(id, Event::TimedOut)]);
    assert_eq!(pair.now, timeout(timing.response) * 5);
}

#[test]
fn who_needs_longer_is_waited_for() {
    let mut manager = Manager::new(1, Timing { retries: 0, ..Timing::default() });
    let id = manager.connect(Duration::ZERO, 3u8, Pair::req());
    let mra =
        crate::mad::Mra { local_comm_id: 8, remote_comm_id: id, service_timeout: 22, ..Default::default() };
    manager.receive(SOON, &3, &Mad { transaction_id: 0, message: mra.into() });
    manager.tick(timeout(22));
    assert_eq!(manager.state(id), Some(State::ReqSent));
    manager.tick(timeout(22) + timeout(14) + SOON);
    assert_eq!(manager.state(id), None);
}

#[test]
fn messages_of_others_change_nothing() {
    let mut pair = Pair::new(Timing::default());
    pair.sides[1].listen(SERVICE);
    let id = pair.sides[0].connect(pair.now, 1, Pair::req());
    pair.run(SOON * 100, |_, _| vec![SOON]);
    let theirs = pair.events[1][0].0;
    let manager = &mut pair.sides[0];
    let dreq = |local_comm_id| Dreq { local_comm_id, remote_comm_id: id, ..Dreq::default() };
    // From somewhere else, and of another connection.
    manager.receive(pair.now, &9, &Mad { transaction_id: 0, message: dreq(theirs).into() });
    manager.receive(pair.now, &1, &Mad { transaction_id: 0, message: dreq(theirs + 1).into() });
    assert_eq!((manager.state(id), manager.poll_event()), (Some(State::Established), None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever the network does, each side is told each thing once, connections that both sides have work at both, and all end.
    #[test]
    fn on_any_network_both_sides_agree_in_the_end(
        fates in proptest::collection::vec((0u8..100, 0u64..300_000, 0u64..300_000), 0..200),
        loss in 0u8..70,
        doubling in 0u8..40,
        who_ends in 0usize..2,
    ) {
        let mut pair = Pair::new(Timing { retries: 8, ..Timing::default() });
        pair.sides[1].listen(SERVICE);
        let id = pair.sides[0].connect(pair.now, 1, Pair::req());
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
        let asked = pair.events[1].first().map(|event| event.0);
        let up = [pair.sides[0].state(id), asked.and_then(|id| pair.sides[1].state(id))];
        if up == [Some(State::Established); 2] {
            // Nobody was told that anything failed.
            prop_assert_eq!((pair.events[0].len(), pair.events[1].len()), (1, 2));
            prop_assert_eq!(pair.told(1, established), 1);
            let ids = [id, asked.unwrap()];
            let now = pair.now;
            prop_assert!(pair.sides[who_ends].disconnect(now, ids[who_ends]));
            pair.run(LATER * 2, &mut fate);
            let other = pair.told(1 - who_ends, disconnected);
            prop_assert_eq!(pair.told(who_ends, disconnected), 1);
            // Every DREQ may have been lost; then the other side has not heard of the end.
            prop_assert!(other == 1 || pair.count(who_ends, "Dreq") == 9);
        } else {
            // Somebody gave up, after as many tries as told, or was told so.
            let gave_up = |e: &Event| matches!(e, Event::TimedOut | Event::Rejected(_) | Event::Disconnected);
            prop_assert!(pair.told(0, gave_up) + pair.told(1, gave_up) > 0, "{:?}", up);
        }
        for side in 0..2 {
            for (i, (id, event)) in pair.events[side].iter().enumerate() {
                let same = |e: &(u32, Event)| e.0 == *id && std::mem::discriminant(&e.1) == std::mem::discriminant(event);
                prop_assert!(!pair.events[side][..i].iter().any(same), "told twice: {:?}", event);
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
        pair.sides[1].listen(SERVICE);
        let id = pair.sides[0].connect(pair.now, 1, Pair::req());
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

    /// Whoever sends whatever, nothing is told that does not belong to a connection, and all that nobody answers ends.
    #[test]
    fn whatever_messages_come_the_manager_goes_on(
        steps in proptest::collection::vec((0u8..10, any::<u8>(), 0u32..6, 0u32..6, any::<u16>()), 0..80),
    ) {
        let mut manager = Manager::new(1, Timing { retries: 2, ..Timing::default() });
        manager.listen(SERVICE);
        let mut now = Duration::ZERO;
        for (what, peer, local_comm_id, remote_comm_id, bits) in steps {
            let peer = peer % 3;
            let mut give = |message: Message| manager.receive(now, &peer, &Mad { transaction_id: 1, message });
            match what {
                0 => give(Req { local_comm_id, ..Pair::req() }.into()),
                1 => give(Rep { local_comm_id, remote_comm_id, ..Rep::default() }.into()),
                2 => give(Rtu { local_comm_id, remote_comm_id, ..Rtu::default() }.into()),
                3 => give(Rej { local_comm_id, remote_comm_id, reason: bits, ..Rej::default() }.into()),
                4 => give(Dreq { local_comm_id, remote_comm_id, ..Dreq::default() }.into()),
                5 => give(Drep { local_comm_id, remote_comm_id, ..Drep::default() }.into()),
                6 => give(crate::mad::Mra { local_comm_id, remote_comm_id, service_timeout: bits as u8 & 31, ..Default::default() }.into()),
                7 => drop(manager.connect(now, peer, Pair::req())),
                8 => {
                    manager.accept(now, local_comm_id, Rep::default());
                    manager.ready(now, local_comm_id);
                }
                _ => {
                    now += Duration::from_millis(bits.into());
                    manager.tick(now);
                }
            }
            while let Some((to, mad)) = manager.poll_transmit() {
                prop_assert!(to < 3);
                Mad::parse(&mad.to_bytes()).unwrap();
            }
            while let Some((id, event)) = manager.poll_event() {
                let gone = matches!(event, Event::TimedOut | Event::Rejected(_));
                prop_assert_eq!(manager.state(id).is_none(), gone, "{:?}", event);
            }
        }
        // What waits for the program stays; all else ends, once time passes.
        while let Some(next) = manager.poll_timeout() {
            manager.tick(next);
        }
        for id in manager.connections.keys() {
            let waits = [State::ReqReceived, State::RepReceived, State::Established];
            prop_assert!(waits.contains(&manager.state(*id).unwrap()));
        }
    }
}
