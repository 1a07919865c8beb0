// SPDX-License-Identifier: MIT OR Apache-2.0
//! A card's side without a thread: messages of peers go in one by one.

use std::sync::{Arc, Mutex};

use super::*;
use crate::link::Link;
use crate::mad::{Message, BYTES};
use crate::rdma::Channel;
use crate::stack::Config;

/// The own address of all tests here.
pub(crate) const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// A link on which no frame comes, with a clock that the test moves, or that goes on by a step each time that it is read. It counts the frames that
/// are sent.
#[derive(Clone, Default)]
pub(crate) struct Still {
    pub(crate) now: Arc<Mutex<Duration>>,
    pub(crate) step: Duration,
    pub(crate) sent: Arc<Mutex<usize>>,
}

impl Link for Still {
    fn receive(&mut self, _: &mut [u8]) -> ferrowire::Result<Option<usize>> {
        Ok(None)
    }

    fn has_room(&mut self) -> ferrowire::Result<bool> {
        Ok(true)
    }

    fn send(&mut self, _: &[u8]) -> ferrowire::Result<()> {
        *self.sent.lock().unwrap() += 1;
        Ok(())
    }

    fn now(&self) -> Duration {
        let mut now = self.now.lock().unwrap();
        *now += self.step;
        *now
    }
}

/// A stack on a link.
pub(crate) fn stack(link: &Still, prefix_v4: u8) -> Net {
    let config = Config { prefix_v4, ..Config::default() };
    Net::over(Box::new(link.clone()), [2, 0, 0, 0, 0, 1], &[OWN], 1, config).unwrap()
}

/// A stack on a link where nothing happens.
pub(crate) fn quiet() -> Net {
    stack(&Still::default(), 24)
}

/// QP1: what the test gives it, and what it has sent.
#[derive(Clone, Default)]
pub(crate) struct Feed {
    pub(crate) inbox: Arc<Mutex<VecDeque<(Path, Mad)>>>,
    pub(crate) sent: Arc<Mutex<Vec<(IpAddr, Mad)>>>,
    random: u32,
}

impl Feed {
    /// A message from an address comes.
    pub(crate) fn give(&self, from: IpAddr, message: impl Into<Message>) {
        let mad = Mad { transaction_id: 1, message: message.into() };
        self.inbox.lock().unwrap().push_back((Path { local: OWN, remote: from }, mad));
    }
}

/// A request for port 1, by the asker's number and from a queue pair of that number.
pub(crate) fn request(source: IpAddr, destination: IpAddr, n: u32) -> Req {
    let ip = IpCm { source_port: 9, source, destination };
    let service_id = PortSpace::Tcp.service_id(1);
    let mut req = Req { service_id, local_comm_id: n, local_qpn: n, path_mtu: 3, ..Req::default() };
    req.private_data[..IpCm::BYTES].copy_from_slice(&ip.to_bytes());
    req
}

impl Gsi for Feed {
    fn receive(&mut self) -> ferrowire::Result<Option<(Path, [u8; BYTES])>> {
        Ok(self.inbox.lock().unwrap().pop_front().map(|(path, mad)| (path, mad.to_bytes())))
    }

    fn send(&mut self, way: &AddressVector, mad: &[u8; BYTES]) -> ferrowire::Result<bool> {
        self.sent.lock().unwrap().push((way.dst_ip, Mad::parse(mad).unwrap()));
        Ok(true)
    }

    fn is_idle(&mut self) -> ferrowire::Result<bool> {
        Ok(true)
    }

    fn random(&mut self) -> ferrowire::Result<u32> {
        self.random += 1;
        Ok(self.random)
    }

    fn limits(&self) -> Limits {
        Limits {
            max_rd_atomic: 16,
            max_dest_rd_atomic: 8,
            max_mtu: PathMtu::B4096,
            atomics: true,
            selective: false,
        }
    }
}

/// A listener with this backlog at port 1, its channel, and a card without a thread.
struct Card {
    shared: Arc<Shared>,
    channel: Channel,
    feed: Feed,
    link: Still,
    _listener: Id,
}

impl Card {
    fn listening(backlog: u32) -> Self {
        let (link, feed) = (Still::default(), Feed::default());
        let shared = Shared::new(&stack(&link, 16), Box::new(feed.clone()), Timing::default()).unwrap();
        let channel = Channel::new().unwrap();
        let listener = Id::create(&shared, &channel, PortSpace::Tcp, 0, Options::default()).unwrap();
        listener.bind(SocketAddr::new(OWN, 1)).unwrap();
        listener.listen(backlog).unwrap();
        Self { shared, channel, feed, link, _listener: listener }
    }

    /// A request for port 1.
    fn ask(&self, from: IpAddr, destination: IpAddr, n: u32) {
        self.feed.give(from, request(from, destination, n));
    }

    /// Until nothing is left to do.
    fn run(&self) {
        while self.shared.step().unwrap() {}
    }

    fn connections(&self) -> usize {
        self.shared.core().manager.connections()
    }
}

/// An address on the link that nobody has.
fn unknown(n: u32) -> IpAddr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 4, 0)) + n).into()
}

#[test]
fn a_slow_stack_waits_for_longer() {
    let took = |slowness| {
        let link = Still { step: Duration::from_millis(100), ..Still::default() };
        let config = Config { slowness, neighbour_tries: 2, ..Config::default() };
        let net = Net::over(Box::new(link.clone()), [2, 0, 0, 0, 0, 1], &[OWN], 1, config).unwrap();
        let start = link.now();
        net.resolve("10.0.0.9".parse().unwrap()).unwrap_err();
        assert_eq!(*link.sent.lock().unwrap(), 2, "as many questions");
        assert_eq!(net.of_card(Duration::from_millis(7)), slowness * Duration::from_millis(7));
        link.now() - start
    };
    let (one, twenty) = (took(1), took(20));
    assert!(one >= Duration::from_secs(1) && one < Duration::from_secs(3), "{one:?}");
    assert!(twenty >= Duration::from_secs(20) && twenty < Duration::from_secs(30), "{twenty:?}");
}

#[test]
fn requests_that_the_service_refuses_leave_nothing() {
    let card = Card::listening(0);
    for n in 1..=1000 {
        card.ask(OWN, unknown(0), n);
        card.run();
        assert_eq!(card.connections(), 0);
    }
    let sent = card.feed.sent.lock().unwrap();
    assert_eq!(sent.len(), 1000);
    assert!(sent.iter().all(|(_, mad)| matches!(mad.message, Message::Rej(rej) if rej.reason == 8)));
}

#[test]
fn requests_from_addresses_that_nobody_has_do_not_take_the_backlog() {
    let card = Card::listening(1);
    (1..=3).for_each(|n| card.ask(unknown(n), OWN, n));
    card.run();
    card.ask(OWN, OWN, 9);
    card.run();
    let event = card.channel.try_next().expect("a request from a known address is reported");
    assert_eq!(event.conn().unwrap().qp_num, 9);
    // Two requests have a way back, and one of them fits.
    (20..22).for_each(|n| card.ask(OWN, OWN, n));
    card.run();
    let told: Vec<_> = std::iter::from_fn(|| card.channel.try_next()).collect();
    assert_eq!(told.iter().map(|event| event.conn().unwrap().qp_num).collect::<Vec<_>>(), [20]);
}

#[test]
fn what_addresses_that_nobody_has_send_is_limited() {
    let card = Card::listening(0);
    for n in 1..=5000 {
        card.ask(unknown(n), OWN, n);
        card.feed.give(unknown(n), Dreq { local_comm_id: n, remote_comm_id: n, ..Dreq::default() });
    }
    card.run();
    {
        let core = card.shared.core();
        assert_eq!((core.pending.len(), core.answers.len(), core.waiting.len()), (PENDING, ANSWERS, 0));
    }
    assert_eq!(card.connections(), PENDING);
    // Each is asked for once, and not more than so many at once.
    assert!(*card.link.sent.lock().unwrap() <= 1024);
    *card.link.now.lock().unwrap() += PATIENCE;
    card.run();
    let core = card.shared.core();
    assert_eq!((core.manager.connections(), core.pending.len(), core.answers.len()), (0, 0, 0));
}
