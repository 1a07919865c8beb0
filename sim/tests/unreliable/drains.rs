// SPDX-License-Identifier: MIT OR Apache-2.0
//! Send queues of UC and UD that drain and go on.

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, AddressHandle, Coded, Completion, Event, EventKind, EventQueue, MemoryRegion, Psn,
    QpAttributes, QpState, QueuePair, RecvWr, SendWr,
};
use ferrowire_sim::pair::{Connection, Pair, PairOptions};
use ferrowire_spec::wire::opcode::Service;

use super::rig::{part, state, LIMIT};

/// Bytes of a message, and of what is put before a datagram.
const SIZE: usize = 1200;
const GRH: usize = 40;

/// Work requests of a queue, and the place of each.
const DEPTH: u64 = 256;
const PLACE: usize = 2048;

/// Messages of a round, more than are fetched at once.
const COUNTS: [(&str, u64); 2] = [("generic-8b", 50), ("generic-64b", 240)];

/// First PSN of the sender: it comes round.
const PSN: u32 = 0xff_fff0;

struct Bench {
    pair: Pair,
    events: EventQueue,
    qp: QueuePair,
    peer: QueuePair,
    handle: Option<AddressHandle>,
    from: MemoryRegion,
    to: MemoryRegion,
    posted: u64,
    done: u64,
    received: u64,
}

impl Bench {
    fn new(config: &str, service: Service, latency: u64) -> Self {
        let pair =
            Pair::named(config, &PairOptions { host_latency: latency, ..PairOptions::default() }).unwrap();
        let events = pair.a.context.create_async_eq(8).unwrap();
        let connection = Connection {
            service,
            psns: Some((PSN, 0)),
            send_wr: DEPTH as u32,
            recv_wr: DEPTH as u32,
            ..Connection::default()
        };
        let (qp, peer) = pair.connect(&connection).unwrap();
        let way = pair.a.way(&pair.b, &connection);
        let handle = (service == Service::Ud).then(|| pair.a.pd.create_ah(&way).unwrap());
        let from = pair.a.region(0, 4 * SIZE, AccessFlags::LOCAL_READ).unwrap();
        let data: Vec<u8> = (0..4 * SIZE).map(|i| (i * 7 + i / 251) as u8).collect();
        from.memory().write(0, &data);
        let to = pair.b.region(0, DEPTH as usize * PLACE, AccessFlags::LOCAL_WRITE).unwrap();
        Bench { pair, events, qp, peer, handle, from, to, posted: 0, done: 0, received: 0 }
    }

    /// Where in the sender's memory message `n` begins: no two neighbours are alike.
    fn text(n: u64) -> usize {
        n as usize * 131 % (3 * SIZE)
    }

    fn post(&mut self, count: u64) {
        let numbers = self.posted..self.posted + count;
        let mut batch = self.peer.start_post_recv();
        for n in numbers.clone() {
            batch.post(&RecvWr::new(n, &[self.to.sge((n % DEPTH) as usize * PLACE, PLACE as u32)])).unwrap();
        }
        batch.ring().unwrap();
        let peer = self.peer.number();
        let mut batch = self.qp.start_post_send();
        for n in numbers {
            let sges = [self.from.sge(Self::text(n), SIZE as u32)];
            let wr = SendWr::send_imm(n, &sges, n as u32).signaled();
            batch.post(&self.handle.as_ref().map_or(wr, |handle| wr.to(handle, peer, 1 << 31))).unwrap();
        }
        batch.ring().unwrap();
        self.posted += count;
    }

    /// What is there of what the sender was told: all well, in order. How many.
    fn told(&mut self) -> u64 {
        let mut some = [Completion::default(); DEPTH as usize];
        let n = self.pair.a.cq.poll(&mut some).unwrap();
        for done in &some[..n] {
            assert!(
                done.is_success() && done.wr_id() == self.done,
                "{done:?} instead of message {}",
                self.done
            );
            self.done += 1;
        }
        n as u64
    }

    /// Packets of a message.
    fn packets(&self) -> u64 {
        2 - u64::from(self.handle.is_some())
    }

    fn event(&self) -> Option<Event> {
        let mut some = [Event::default()];
        (self.events.poll(&mut some).unwrap() > 0).then_some(some[0])
    }

    /// Everything that was posted has been sent and received, in order and whole.
    fn finish(&mut self, what: &str) {
        let limit = self.pair.world.lock().cycle() + LIMIT;
        let header = if self.handle.is_some() { GRH } else { 0 };
        let mut some = [Completion::default(); 64];
        while (self.done, self.received) != (self.posted, self.posted) {
            self.told();
            let n = self.pair.b.cq.poll(&mut some).unwrap();
            for done in &some[..n] {
                let number = self.received;
                assert!(done.is_success() && done.wr_id() == number, "{what}: {done:?} instead of {number}");
                assert_eq!(
                    (done.imm(), done.byte_len() as usize),
                    (Some(number as u32), header + SIZE),
                    "{what}"
                );
                let got = part(&self.to, (number % DEPTH) as usize * PLACE + header, SIZE);
                assert!(
                    got == part(&self.from, Self::text(number), SIZE),
                    "{what}: message {number} is another"
                );
                self.received += 1;
            }
            let late = self.pair.world.lock().cycle() > limit;
            assert!(!late, "{what}: {} and {} of {}", self.done, self.received, self.posted);
        }
    }
}

#[test]
fn sends_in_progress_finish_and_later_ones_wait_until_the_queue_goes_on() {
    let cases = chosen!(COUNTS).into_iter().flat_map(|case| [(case, 0), (case, 100)]);
    let cases = cases.flat_map(|case| [(case, Service::Uc), (case, Service::Ud)]);
    for (((config, count), latency), service) in cases {
        let mut bench = Bench::new(config, service, latency);
        let (mut in_progress, mut waited) = (0, 0);
        for (cycles, wanted) in [(0, true), (40, false), (300, true), (1000, false), (20_000, true)] {
            let what = format!("{config}, latency {latency}, {service}, {cycles} cycles, event {wanted}");
            bench.post(count);
            bench.pair.world.lock().run(cycles);
            let wanted = QpAttributes::new().sqd_event(wanted);
            bench.qp.modify(QpState::Sqd, &wanted).unwrap();
            bench.told();
            let before = bench.done;
            let limit = bench.pair.world.lock().cycle() + LIMIT;
            if wanted.sqd_event == Some(true) {
                let event = loop {
                    if let Some(event) = bench.event() {
                        break event;
                    }
                    assert!(
                        bench.pair.world.lock().cycle() < limit,
                        "{what}: no event{}",
                        bench.pair.diagnose()
                    );
                };
                let drained = EventKind::SqDrained;
                let own =
                    Event { kind: Coded::Known(drained), object: bench.qp.number(), ..Event::default() };
                assert_eq!(event, Event { cause: 0, lost: false, ..own }, "{what}");
            } else {
                while bench.qp.query().unwrap().sq_draining {
                    assert!(bench.pair.world.lock().cycle() < limit, "{what}: it drains for ever");
                }
            }
            // All completions of what was in progress are there, and nothing comes behind.
            bench.told();
            in_progress += bench.done - before;
            let drained = bench.done;
            bench.post(3);
            bench.pair.world.lock().run(5000);
            let frames = bench.pair.world.lock().link(0).frames();
            assert_eq!(frames, drained * bench.packets(), "{what}: whole messages were sent, and no other");
            let status = bench.qp.query().unwrap();
            assert_eq!((status.state, status.sq_draining), (Coded::Known(QpState::Sqd), false), "{what}");
            let psn = PSN.wrapping_add((drained * bench.packets()) as u32) & 0xff_ffff;
            assert_eq!(status.sq_psn, Psn::new(psn), "{what}");
            assert_eq!((bench.told(), bench.event()), (0, None), "{what}");
            waited += bench.posted - drained;
            bench.qp.modify(QpState::Rts, &QpAttributes::default()).unwrap();
            bench.finish(&what);
            assert_eq!((state(&bench.qp), bench.event()), (QpState::Rts, None), "{what}");
        }
        assert!(
            in_progress > 0 && waited > 3 * 5,
            "{config}: {in_progress} were in progress, {waited} waited"
        );
    }
}
