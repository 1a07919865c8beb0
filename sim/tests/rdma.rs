// SPDX-License-Identifier: MIT OR Apache-2.0
//! The communication manager as a service on emulated cards: connections and datagrams that carry data, and what goes wrong. The stack's clock passes when
//! the test says so.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferrowire::{
    AccessFlags, Bus, BusError, Completion, Context, ContextOptions, DmaBuffer, DmaMapping, HostMemory,
    MemoryRegion, PageSize, ProtectionDomain, QpInitAttr, QueuePair, RecvWr, RemoteAddress, SendWr,
    Service as Transport, WorkKind,
};
use ferrowire_net::mad::{PortSpace, RejectReason};
use ferrowire_net::rdma::{
    Channel, ConnParam, Event, EventKind, Id, Phase, Service, ServiceConfig, StagedQp, QKEY,
};
use ferrowire_sim::emulated::{EngineBus, EngineWorld};
use ferrowire_sim::model::network::Faults;
use ferrowire_sim::node::{ip, mac};
use ferrowire_sim::shared_cq::SharedCq;

/// Longest wait for what comes soon on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);
const RESOLVE: Duration = Duration::from_secs(2);
const BYTES: usize = 3000;
/// Bytes before a datagram's own.
const GRH: usize = 40;

/// The way to an emulated card, with another clock.
struct Clocked {
    bus: EngineBus,
    now: Arc<AtomicU64>,
    /// What was mapped, with its bytes.
    maps: Maps,
}

type Maps = Arc<Mutex<Vec<(usize, DmaMapping)>>>;

impl Bus for Clocked {
    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
        self.bus.csr_read32(offset)
    }
    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        self.bus.csr_write32(offset, value)
    }
    fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
        self.bus.doorbell(offset, value)
    }
    fn push(&mut self, offset: u32, words: &[u64; 8]) -> Result<(), BusError> {
        self.bus.push(offset, words)
    }
    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        self.bus.dma_alloc(bytes, align)
    }
    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
        self.bus.dma_free(buffer)
    }
    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        let mapping = self.bus.dma_map(memory, page_shift)?;
        self.maps.lock().unwrap().push((memory.len(), mapping.clone()));
        Ok(mapping)
    }
    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
        self.bus.dma_unmap(mapping)
    }
    fn needs_progress(&self) -> bool {
        true
    }
    fn progress(&mut self) -> Result<(), BusError> {
        self.bus.progress()
    }
    fn now(&self) -> Duration {
        Duration::from_nanos(self.now.load(Ordering::Relaxed))
    }
}

/// Emulated cards on a wire, and the clock of their hosts.
struct World {
    world: EngineWorld,
    now: Arc<AtomicU64>,
}

impl World {
    fn new(cards: usize) -> Self {
        Self { world: EngineWorld::new(cards), now: Arc::default() }
    }

    fn host(&self, card: usize) -> Host {
        let maps = Maps::default();
        let bus = Clocked { bus: self.world.bus(card), now: Arc::clone(&self.now), maps: Arc::clone(&maps) };
        // The test's jumps of the clock are no time of a command.
        let command_timeout = Duration::from_secs(1 << 30);
        let options =
            ContextOptions { command_timeout, seed: Some(card as u64), ..ContextOptions::default() };
        let context = Context::open_with(bus, options).unwrap();
        context.set_mac(mac(card)).unwrap();
        [false, true].into_iter().for_each(|ipv6| context.add_gid(ip(card, ipv6), None).unwrap());
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(1024).unwrap();
        let memory = context.alloc(4 * BYTES, 4096).unwrap();
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let memory = pd.register(&memory, access, PageSize::Size4K).unwrap();
        let data: Vec<u8> = (0..BYTES).map(|i| (i * 7 + i / 251 + card) as u8).collect();
        memory.memory().write(0, &data);
        let service = Service::new(&context, &pd, ServiceConfig::default()).unwrap();
        let channel = Channel::new().unwrap();
        Host { service, channel, memory, cq: cq.into(), pd, maps, _context: context }
    }

    fn pair(&self) -> (Host, Host) {
        (self.host(0), self.host(1))
    }

    /// The next event, while the hosts' time passes.
    #[track_caller]
    fn next(&self, channel: &Channel, step: Duration) -> Event {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(event) = channel.try_next() {
                return event;
            }
            self.now.fetch_add(step.as_nanos() as u64, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("no event comes");
    }
}

/// A card, its service, and memory: a quarter to send from, one to receive into, one that the other side writes.
struct Host {
    service: Service,
    channel: Channel,
    memory: MemoryRegion,
    cq: SharedCq,
    pd: ProtectionDomain,
    maps: Maps,
    _context: Context,
}

impl Host {
    fn id(&self, space: PortSpace) -> Id {
        self.service.create_id(&self.channel, space, 0).unwrap()
    }

    fn listen(&self, space: PortSpace, port: u16) -> Id {
        let id = self.id(space);
        id.bind(SocketAddr::from(([0u16; 8], port))).unwrap();
        id.listen(0).unwrap();
        id
    }

    #[track_caller]
    fn next(&self) -> Event {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(event) = self.channel.try_next() {
                return event;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        panic!("no event comes");
    }

    #[track_caller]
    fn expect(&self, kind: EventKind) -> Event {
        let event = self.next();
        assert_eq!(event.kind(), kind, "{event:?}");
        event
    }

    #[track_caller]
    fn request(&self) -> Id {
        self.expect(EventKind::ConnectRequest).take_request().unwrap()
    }

    /// The request of an identifier. What is left of others that have ended may come before.
    #[track_caller]
    fn request_of(&self, asker: &Id) -> (Id, Event) {
        loop {
            let mut event = self.next();
            if let Some(id) = event.take_request().filter(|id| id.remote() == asker.local()) {
                return (id, event);
            }
        }
    }

    fn resolved(&self, space: PortSpace, to: (IpAddr, u16)) -> Id {
        let id = self.id(space);
        id.resolve_address(None, to.into(), RESOLVE).unwrap();
        self.expect(EventKind::AddressResolved);
        id.resolve_route().unwrap();
        self.expect(EventKind::RouteResolved);
        id
    }

    /// A queue pair for an identifier, with a receive where it can have one by then.
    fn queue_pair(&self, id: &Id) -> Option<StagedQp> {
        let mut attr = QpInitAttr::rc(&self.cq, &self.cq);
        (attr.service, attr.max_send_wr, attr.max_recv_wr) = (id.transport(), 4, 4);
        let mut qp = Some(StagedQp::from(self.pd.create_qp(&attr).unwrap()));
        id.init_qp(&mut qp).unwrap();
        let sges = [self.memory.sge(BYTES, BYTES as u32)];
        let receive = RecvWr::new(9, &sges);
        match &mut qp {
            Some(StagedQp::Init(qp)) => qp.start_post_recv().post(&receive).unwrap(),
            Some(StagedQp::Rts(qp)) => qp.start_post_recv().post(&receive).unwrap(),
            other => panic!("{other:?}"),
        }
        qp
    }

    fn remote(&self) -> RemoteAddress {
        RemoteAddress { address: self.memory.address() + 2 * BYTES as u64, rkey: self.memory.rkey() }
    }

    fn bytes(&self, quarter: usize, count: usize) -> Vec<u8> {
        let mut all = vec![0; count];
        self.memory.memory().read(quarter * BYTES, &mut all);
        all
    }

    /// So many completions, all of which succeed.
    #[track_caller]
    fn complete(&self, count: usize) -> Vec<Completion> {
        let (mut all, mut some) = (Vec::new(), [Completion::default(); 16]);
        let end = Instant::now() + PATIENCE;
        while all.len() < count {
            assert!(Instant::now() < end, "{} of {count} completions", all.len());
            let n = self.cq.poll(&mut some).unwrap();
            all.extend_from_slice(&some[..n]);
        }
        assert!(all.iter().all(Completion::is_success), "{all:?}");
        all
    }

    /// Parameters that tell where this host's memory is.
    fn param(&self, qp_num: u32) -> ConnParam {
        let RemoteAddress { address, rkey } = self.remote();
        ConnParam {
            private_data: [&address.to_be_bytes()[..], &rkey.to_be_bytes()].concat(),
            responder_resources: 4,
            initiator_depth: 4,
            retry_count: 7,
            rnr_retry_count: 7,
            qp_num,
            ..ConnParam::default()
        }
    }
}

/// What such parameters tell.
fn told(private_data: &[u8]) -> RemoteAddress {
    RemoteAddress {
        address: u64::from_be_bytes(private_data[..8].try_into().unwrap()),
        rkey: u32::from_be_bytes(private_data[8..12].try_into().unwrap()),
    }
}

fn number(qp: &Option<StagedQp>) -> u32 {
    qp.as_ref().unwrap().number()
}

/// The queue pair after its bring-up.
fn up(qp: &mut Option<StagedQp>) -> &mut QueuePair {
    match qp {
        Some(StagedQp::Rts(qp)) => qp,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn post(qp: &mut Option<StagedQp>, wr: &SendWr<'_>) {
    let mut batch = up(qp).start_post_send();
    batch.post(wr).unwrap();
    batch.ring().unwrap();
}

/// One end of a connection.
struct Side {
    id: Id,
    qp: Option<StagedQp>,
    remote: RemoteAddress,
}

/// A connection from the first host to the second, which listens.
fn connect(a: &Host, b: &Host, to: (IpAddr, u16), transport: Transport) -> (Side, Side) {
    let id = a.resolved(PortSpace::Tcp, to);
    id.set_transport(transport).unwrap();
    connect_by(a, b, id)
}

/// A connection by an identifier of the first host, which knows the way.
fn connect_by(a: &Host, b: &Host, id: Id) -> (Side, Side) {
    let mut near = a.queue_pair(&id);
    id.connect(&a.param(number(&near))).unwrap();
    let (other, event) = b.request_of(&id);
    let from = told(event.private_data());
    drop(event);
    assert_eq!((other.transport(), other.remote()), (id.transport(), id.local()));
    let mut far = b.queue_pair(&other);
    other.accept(&b.param(0), Some(&mut far)).unwrap();
    let mut event = a.expect(EventKind::ConnectResponse);
    let there = told(event.private_data());
    id.complete(&mut event, &mut near);
    assert_eq!((event.kind(), event.status()), (EventKind::Established, 0));
    b.expect(EventKind::Established);
    (Side { id, qp: near, remote: there }, Side { id: other, qp: far, remote: from })
}

/// Ends it from the first side.
fn disconnect(a: &Host, b: &Host, near: &mut Side, far: &mut Side) {
    near.id.disconnect(&[], Some(&mut near.qp)).unwrap();
    b.expect(EventKind::Disconnected);
    a.expect(EventKind::Disconnected);
    far.id.disconnect(&[], Some(&mut far.qp)).unwrap();
}

#[test]
fn connections_come_up_carry_data_both_ways_and_end_in_both_families() {
    let world = World::new(2);
    let (a, b) = world.pair();
    let _listener = b.listen(PortSpace::Tcp, 7174);
    for (ipv6, transport) in [(false, Transport::Rc), (true, Transport::Rc), (true, Transport::Uc)] {
        let (mut near, mut far) = connect(&a, &b, (ip(1, ipv6), 7174), transport);
        // Each writes into the other's memory and sends a message after it.
        for (from, to, side) in [(&a, &b, &mut near), (&b, &a, &mut far)] {
            let sges = [from.memory.sge(0, BYTES as u32)];
            to.memory.memory().fill(BYTES, 2 * BYTES, 0);
            post(&mut side.qp, &SendWr::write(1, &sges, side.remote).signaled());
            post(&mut side.qp, &SendWr::send(2, &sges).signaled());
            from.complete(2);
            let done = to.complete(1);
            assert_eq!((done[0].kind(), done[0].byte_len()), (WorkKind::Receive, BYTES as u32));
            assert!(to.bytes(1, BYTES) == from.bytes(0, BYTES) && to.bytes(2, BYTES) == from.bytes(0, BYTES));
        }
        disconnect(&a, &b, &mut near, &mut far);
    }
}

#[test]
fn datagrams_go_to_the_service_that_was_found() {
    let world = World::new(2);
    let (a, b) = world.pair();
    for (space, ipv6) in [(PortSpace::Udp, false), (PortSpace::Ipoib, true)] {
        let listener = b.listen(space, 7174);
        let id = a.resolved(space, (ip(1, ipv6), 7174));
        let mut near = a.queue_pair(&id);
        id.connect(&ConnParam { private_data: b"who are you".to_vec(), ..ConnParam::default() }).unwrap();
        let mut event = b.expect(EventKind::ConnectRequest);
        assert_eq!(&event.private_data()[..11], b"who are you");
        let other = event.take_request().unwrap();
        drop(event);
        let mut far = b.queue_pair(&other);
        other.accept(&b.param(0), Some(&mut far)).unwrap();
        let event = a.expect(EventKind::Established);
        let ud = event.ud().unwrap();
        assert_eq!((ud.qp_num, ud.qkey, told(event.private_data())), (number(&far), QKEY, b.remote()));
        let handle = a.pd.create_ah(&ud.way.unwrap()).unwrap();
        let sges = [a.memory.sge(0, 1000)];
        post(&mut near, &SendWr::send(1, &sges).to(&handle, ud.qp_num, ud.qkey).signaled());
        a.complete(1);
        let done = b.complete(1);
        assert_eq!((done[0].src_qpn(), done[0].byte_len() as usize), (Some(number(&near)), GRH + 1000));
        assert!(b.bytes(1, GRH + 1000)[GRH..] == a.bytes(0, 1000));
        drop(event);
        listener.destroy();
    }
}

#[test]
fn a_refusal_an_unused_port_and_an_unused_address_have_events_of_their_own() {
    let world = World::new(2);
    let (a, b) = world.pair();
    let _listener = b.listen(PortSpace::Tcp, 1);
    let _datagrams = b.listen(PortSpace::Udp, 1);
    let refused = |port: u16, reason: RejectReason| {
        let id = a.resolved(PortSpace::Tcp, (ip(1, false), port));
        let qp = a.queue_pair(&id);
        id.connect(&a.param(number(&qp))).unwrap();
        if port == 1 {
            b.request().reject(b"no").unwrap();
        }
        let event = a.expect(EventKind::Rejected);
        assert_eq!(event.status(), i32::from(reason.code()));
        event.private_data().to_vec()
    };
    assert_eq!(&refused(1, RejectReason::Consumer)[..2], b"no");
    refused(2, RejectReason::InvalidServiceId);
    for port in [1, 2] {
        let id = a.resolved(PortSpace::Udp, (ip(1, true), port));
        id.connect(&ConnParam::default()).unwrap();
        if port == 1 {
            b.request().reject(b"").unwrap();
        }
        assert_eq!(a.expect(EventKind::Unreachable).status(), if port == 1 { 2 } else { 1 });
    }
    for ipv6 in [false, true] {
        let id = a.id(PortSpace::Tcp);
        id.resolve_address(None, (ip(7, ipv6), 1).into(), RESOLVE).unwrap();
        let event = world.next(&a.channel, Duration::from_millis(100));
        assert_eq!((event.kind(), event.status()), (EventKind::AddressError, -110));
    }
}

#[test]
fn sixty_four_queue_pairs_connect_at_once_and_each_writes_into_its_own_place() {
    const COUNT: usize = 64;
    const EACH: usize = 32;
    let world = World::new(2);
    let (a, b) = world.pair();
    let _listener = b.listen(PortSpace::Tcp, 1);
    let mut near: Vec<(Id, Option<StagedQp>)> = Vec::new();
    for n in 0..COUNT {
        let id = a.resolved(PortSpace::Tcp, (ip(1, n % 2 == 1), 1));
        id.set_context(n);
        let qp = a.queue_pair(&id);
        near.push((id, qp));
    }
    for (id, qp) in &near {
        id.connect(&a.param(number(qp))).unwrap();
    }
    let mut far = Vec::new();
    for _ in 0..COUNT {
        let other = b.request();
        let mut qp = b.queue_pair(&other);
        other.accept(&b.param(0), Some(&mut qp)).unwrap();
        far.push((other, qp));
    }
    let there = b.remote();
    for _ in 0..COUNT {
        let mut event = a.expect(EventKind::ConnectResponse);
        let n = event.context();
        let (id, qp) = &mut near[n];
        id.complete(&mut event, qp);
        assert_eq!(event.kind(), EventKind::Established);
        let place = RemoteAddress { address: there.address + (n * EACH) as u64, ..there };
        post(qp, &SendWr::write(n as u64, &[a.memory.sge(n * EACH, EACH as u32)], place).signaled());
    }
    a.complete(COUNT);
    assert!(b.bytes(2, COUNT * EACH) == a.bytes(0, COUNT * EACH));
    (0..COUNT).for_each(|_| drop(b.expect(EventKind::Established)));
    for (id, qp) in &mut near {
        id.disconnect(&[], Some(qp)).unwrap();
    }
    for _ in 0..COUNT {
        a.expect(EventKind::Disconnected);
        b.expect(EventKind::Disconnected);
    }
}

/// The wire loses packets once the queue pairs are connected. The counters of the cards show what was agreed.
#[test]
fn queue_pairs_agree_on_selective_retransmission_if_both_cards_have_it_and_both_sides_wish_it() {
    for (wishes, has) in [
        ([true, true], [true, true]),
        ([true, false], [true, true]),
        ([false, true], [true, true]),
        ([true, true], [true, false]),
        ([true, true], [false, true]),
    ] {
        let world = World::new(2);
        for (card, has) in world.world.lock().engines.iter_mut().zip(has) {
            if !has {
                card.leave_out_selective();
            }
        }
        let (a, b) = world.pair();
        let listener = b.listen(PortSpace::Tcp, 7174);
        listener.set_options(|options| options.selective = wishes[1]);
        let id = a.resolved(PortSpace::Tcp, (ip(1, false), 7174));
        id.set_options(|options| options.selective = wishes[0]);
        let (mut near, mut far) = connect_by(&a, &b, id);
        let agreed = wishes == [true; 2] && has == [true; 2];
        assert_eq!([&near.id, &far.id].map(Id::selective), [agreed; 2], "{wishes:?} {has:?}");
        world.world.set_faults(Faults { drop: 100, ..Faults::none() });
        for _ in 0..30 {
            post(&mut near.qp, &SendWr::write(1, &[a.memory.sge(0, BYTES as u32)], near.remote).signaled());
            a.complete(1);
        }
        assert!(b.bytes(2, BYTES) == a.bytes(0, BYTES));
        let counters = world.world.lock().engines[0].selective_counters();
        assert_eq!(counters.repeats + counters.probes > 0, agreed, "{wishes:?} {has:?}: {counters:?}");
        world.world.set_faults(Faults::none());
        disconnect(&a, &b, &mut near, &mut far);
    }
}

/// The wire loses a fifth of all frames; those of the queue pairs have their own retries.
#[test]
fn a_bad_wire_costs_time_alone() {
    let world = World::new(2);
    let (a, b) = world.pair();
    let _listener = b.listen(PortSpace::Tcp, 1);
    world.world.set_faults(Faults { drop: 200, corrupt: 50, ..Faults::none() });
    let step = Duration::from_millis(50);
    for round in 0..8 {
        let id = a.id(PortSpace::Tcp);
        id.resolve_address(None, (ip(1, round % 2 == 0), 1).into(), 60 * RESOLVE).unwrap();
        assert_eq!(world.next(&a.channel, step).kind(), EventKind::AddressResolved);
        id.resolve_route().unwrap();
        a.expect(EventKind::RouteResolved);
        let mut near = a.queue_pair(&id);
        id.connect(&a.param(number(&near))).unwrap();
        let mut event = world.next(&b.channel, step);
        let other = event.take_request().unwrap();
        drop(event);
        let mut far = b.queue_pair(&other);
        other.accept(&b.param(0), Some(&mut far)).unwrap();
        let mut event = world.next(&a.channel, step);
        id.complete(&mut event, &mut near);
        assert_eq!(event.kind(), EventKind::Established);
        drop(event);
        assert_eq!(world.next(&b.channel, step).kind(), EventKind::Established);
        id.disconnect(&[], Some(&mut near)).unwrap();
        for host in [&a, &b] {
            let event = world.next(&host.channel, step);
            assert_eq!((event.kind(), event.status()), (EventKind::Disconnected, 0));
        }
        // Both ends end before their numbers are free: no event of them is left.
        id.destroy();
        other.destroy();
    }
}

#[test]
fn a_card_connects_with_itself() {
    let world = World::new(1);
    let a = world.host(0);
    let _listener = a.listen(PortSpace::Tcp, 1);
    let id = a.resolved(PortSpace::Tcp, ("127.0.0.1".parse().unwrap(), 1));
    let mut near = a.queue_pair(&id);
    id.connect(&a.param(number(&near))).unwrap();
    let other = a.request();
    let mut far = a.queue_pair(&other);
    other.accept(&a.param(0), Some(&mut far)).unwrap();
    let mut event = a.expect(EventKind::ConnectResponse);
    id.complete(&mut event, &mut near);
    drop(event);
    a.expect(EventKind::Established);
    post(&mut near, &SendWr::write(1, &[a.memory.sge(0, BYTES as u32)], a.remote()).signaled());
    a.complete(1);
    assert!(a.bytes(2, BYTES) == a.bytes(0, BYTES));
}

/// Of one that ends in the middle of something nothing is left: the next connection comes up.
#[test]
fn identifiers_may_end_in_the_middle_of_everything() {
    let world = World::new(2);
    let (a, b) = world.pair();
    let _listener = b.listen(PortSpace::Tcp, 1);
    for step in 0..7 {
        let id = a.id(PortSpace::Tcp);
        let (mut near, mut far): (Option<StagedQp>, Option<StagedQp>) = (None, None);
        let mut other: Option<Id> = None;
        for act in 0..=step {
            match act {
                0 => id.resolve_address(None, (ip(1, false), 1).into(), RESOLVE).unwrap(),
                1 => drop(a.expect(EventKind::AddressResolved)),
                2 => {
                    id.resolve_route().unwrap();
                    a.expect(EventKind::RouteResolved);
                    near = a.queue_pair(&id);
                    id.connect(&a.param(number(&near))).unwrap();
                }
                3 => other = Some(b.request()),
                4 => {
                    let other = other.as_ref().unwrap();
                    far = b.queue_pair(other);
                    other.accept(&b.param(0), Some(&mut far)).unwrap();
                }
                5 => {
                    let mut event = a.expect(EventKind::ConnectResponse);
                    id.complete(&mut event, &mut near);
                    b.expect(EventKind::Established);
                }
                _ => id.disconnect(&[], Some(&mut near)).unwrap(),
            }
        }
        id.destroy();
        drop((near, other, far));
        // Its request may be heard only now: the next one is told apart by its address.
        let (mut near, mut far) = connect(&a, &b, (ip(1, true), 1), Transport::Rc);
        post(&mut near.qp, &SendWr::write(1, &[a.memory.sge(0, 100)], near.remote).signaled());
        a.complete(1);
        disconnect(&a, &b, &mut near, &mut far);
        assert_eq!((near.id.phase(), far.id.phase()), (Phase::Disconnected, Phase::Disconnected));
    }
}

/// The memory of QP1's messages does not answer any more.
#[test]
fn a_service_whose_qp1_has_failed_says_so() {
    // Places of sends and of receives.
    const QP1: [usize; 2] = [64 * 512, 256 * 512];
    let world = World::new(2);
    let (a, b) = world.pair();
    let _listener = b.listen(PortSpace::Tcp, 1);
    let id = a.resolved(PortSpace::Tcp, (ip(1, false), 1));
    let mut bus = world.world.bus(1);
    let maps: Vec<_> = b.maps.lock().unwrap().iter().filter(|map| QP1.contains(&map.0)).cloned().collect();
    assert_eq!(maps.len(), 2, "one for each way");
    maps.into_iter().for_each(|(_, mapping)| bus.dma_unmap(mapping).unwrap());
    // The request ends QP1.
    id.connect(&a.param(17)).unwrap();
    assert_eq!(b.expect(EventKind::DeviceRemoval).status(), -19);
    assert!(b.service.failure().unwrap().contains("QP1"));
}
