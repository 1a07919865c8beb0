// SPDX-License-Identifier: MIT OR Apache-2.0
//! The communication manager as a service on cards that have interrupts: its thread sleeps.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ferrowire::{QpInitAttr, QpState, SendWr};
use ferrowire_net::mad::PortSpace;
use ferrowire_net::rdma::{Channel, ConnParam, Event, EventKind, Id, Service, ServiceConfig, StagedQp};
use ferrowire_sim::pair::bytes;

use super::rig::{Folder, Node, Server, PATIENCE};

const PORT: u16 = 7174;

/// Processor time of the threads of services, in ticks of the system, by thread.
fn threads() -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        // One may end meanwhile.
        let Ok(text) = std::fs::read_to_string(task.path().join("stat")) else { continue };
        let (name, rest) = text.rsplit_once(')').unwrap();
        if name.ends_with("(ferrowire-cm") {
            let fields: Vec<u64> =
                rest.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
            let number = task.file_name().to_string_lossy().parse().unwrap();
            all.push((number, fields[10] + fields[11]));
        }
    }
    all
}

struct Host {
    service: Service,
    channel: Channel,
    node: Node,
}

impl Host {
    fn new(server: &Server, card: usize) -> Self {
        let node = Node::open(&server.sockets[card], 1 + card as u8);
        let service = Service::new(&node.context, &node.pd, ServiceConfig::default()).unwrap();
        Self { service, channel: Channel::new().unwrap(), node }
    }

    fn id(&self) -> Id {
        self.service.create_id(&self.channel, PortSpace::Tcp, 0).unwrap()
    }

    #[track_caller]
    fn expect(&self, kind: EventKind) -> Event {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(event) = self.channel.try_next() {
                assert_eq!(event.kind(), kind, "{event:?}");
                return event;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{kind:?} does not come");
    }

    fn queue_pair(&self, id: &Id) -> Option<StagedQp> {
        let attr = QpInitAttr::rc(&self.node.cq, &self.node.cq);
        let mut qp = Some(StagedQp::from(self.node.pd.create_qp(&attr).unwrap()));
        id.init_qp(&mut qp).unwrap();
        qp
    }
}

fn param(qp: &Option<StagedQp>) -> ConnParam {
    let qp_num = qp.as_ref().unwrap().number();
    ConnParam { qp_num, retry_count: 7, rnr_retry_count: 7, ..ConnParam::default() }
}

#[test]
fn a_service_sleeps_until_an_interrupt_and_hears_of_the_end_of_its_card() {
    let folder = Folder::new("service");
    let server = Server::up(&folder, &[]);
    let before: BTreeSet<u64> = threads().into_iter().map(|thread| thread.0).collect();
    let (a, b) = (Host::new(&server, 0), Host::new(&server, 1));
    let limit = Duration::from_secs(20);
    // The answers are of the other thread, which would find them a second later without interrupts.
    let echo = || {
        let start = Instant::now();
        a.service.net().ping([10, 0, 0, 2].into(), 56, limit).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        start.elapsed()
    };
    assert!((0..5).map(|_| echo()).min().unwrap() < Duration::from_millis(800));

    let listener = b.id();
    listener.bind(([10, 0, 0, 2], PORT).into()).unwrap();
    listener.listen(0).unwrap();
    let id = a.id();
    id.resolve_address(None, ([10, 0, 0, 2], PORT).into(), limit).unwrap();
    a.expect(EventKind::AddressResolved);
    id.resolve_route().unwrap();
    a.expect(EventKind::RouteResolved);
    let mut near = a.queue_pair(&id);
    id.connect(&param(&near)).unwrap();
    let other = b.expect(EventKind::ConnectRequest).take_request().unwrap();
    let mut far = b.queue_pair(&other);
    other.accept(&param(&far), Some(&mut far)).unwrap();
    let mut event = a.expect(EventKind::ConnectResponse);
    id.complete(&mut event, &mut near);
    assert_eq!(event.kind(), EventKind::Established);
    drop(event);
    b.expect(EventKind::Established);
    let (from, to) = (a.node.region(4096), b.node.region(4096));
    from.memory().fill(0, 4096, 0x5a);
    let Some(StagedQp::Rts(qp)) = &mut near else { panic!("{near:?}") };
    let mut batch = qp.start_post_send();
    batch.post(&SendWr::write(1, &[from.sge(0, 4096)], to.remote(0)).signaled()).unwrap();
    batch.ring().unwrap();
    a.node.completions(1);
    assert!(bytes(to.memory()) == bytes(from.memory()));
    id.disconnect(&[], Some(&mut near)).unwrap();
    b.expect(EventKind::Disconnected);
    a.expect(EventKind::Disconnected);
    assert_eq!(near.as_ref().unwrap().state(), QpState::Err);
    // What is left to do is the wait for late messages.
    a.expect(EventKind::TimeWaitExit);
    b.expect(EventKind::TimeWaitExit);

    // Threads of other tests may be among the new ones, and those look often.
    let used = || threads().into_iter().filter(|thread| !before.contains(&thread.0));
    let start: Vec<(u64, u64)> = used().collect();
    std::thread::sleep(Duration::from_secs(1));
    let idle = used()
        .filter(|(number, ticks)| start.iter().any(|(same, earlier)| same == number && ticks - earlier <= 1));
    assert!(idle.count() >= 2, "{start:?}");

    drop(server);
    let event = a.expect(EventKind::DeviceRemoval);
    assert_eq!(event.status(), -19);
    assert!(a.service.failure().is_some());
}
