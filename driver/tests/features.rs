// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards that were built without some of the functions: what needs these is refused before the card is asked, and the error says so.

use crate::common::*;
use ferrowire::spec::wire::opcode::Service;
use ferrowire::*;

/// What is wrong, and how it is put right.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>) -> (&'static str, String) {
    match result {
        Err(Error::Attribute { attribute, fix, .. }) => (attribute, fix),
        other => panic!("{other:?}"),
    }
}

/// A card, and how many commands it was given.
fn commands(mock: &Mock) -> usize {
    mock.card().log.len()
}

/// A queue pair with these rights, and itself as its peer.
fn connected(pd: &ProtectionDomain, cq: &CompletionQueue, access: AccessFlags) -> QueuePair {
    let qp = pd.create_qp(&QpInitAttr::rc(cq, cq)).unwrap();
    let (number, init) = (qp.number(), init().access(access));
    qp.init(init).unwrap().rtr(rtr(number)).unwrap().rts(rts()).unwrap()
}

#[test]
fn rights_of_regions_to_what_the_card_does_not_have_are_refused_before_the_card() {
    let cases = [
        ("atomics", AccessFlags::REMOTE_ATOMIC, "leave REMOTE_ATOMIC out"),
        ("memory_windows", AccessFlags::MW_BIND, "leave MW_BIND out"),
    ];
    for (feature, right, says) in cases {
        let mock = Mock::new().without(feature);
        let context = mock.open();
        let pd = context.alloc_pd().unwrap();
        let memory = context.alloc(4096, 4096).unwrap();
        let before = commands(&mock);
        let register = |access| pd.register(&memory, access, PageSize::Size4K);
        let (attribute, fix) = refused(register(AccessFlags::LOCAL_WRITE | right));
        assert!(attribute == "access" && fix.contains(says), "{fix}");
        assert_eq!(commands(&mock), before, "the card was not asked");
        // All others are given, the right to the other function among them.
        let others = [AccessFlags::REMOTE, AccessFlags::MW_BIND, AccessFlags::RELAXED_ORDERING];
        let all = others.into_iter().fold(AccessFlags::LOCAL_WRITE, |all, some| all | some);
        assert_eq!(register(all.without(right)).unwrap().access(), all.without(right));
    }
}

#[test]
fn a_queue_pair_of_a_card_without_atomics_cannot_let_its_peer_use_them() {
    let mock = Mock::new().without("atomics");
    let context = mock.open();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(16).unwrap());
    let qp = pd.create_qp(&QpInitAttr::rc(&cq, &cq)).unwrap();
    let before = commands(&mock);
    let step = qp.init(init()).unwrap_err();
    let (attribute, fix) = refused(Err::<(), _>(step.error));
    assert!(attribute == "access" && fix.contains("no atomics"), "{fix}");
    assert_eq!((commands(&mock), step.qp.state()), (before, QpState::Reset), "the card was not asked");
    let rights = AccessFlags::REMOTE.without(AccessFlags::REMOTE_ATOMIC);
    let mut qp = connected(&pd, &cq, rights);
    let before = commands(&mock);
    let attributes = QpAttributes::new().access(AccessFlags::REMOTE_ATOMIC);
    assert_eq!(refused(qp.modify(QpState::Rts, &attributes)).0, "access");
    assert_eq!(commands(&mock), before, "the card was not asked");
    qp.modify(QpState::Rts, &attributes.access(rights)).unwrap();
}

#[test]
fn objects_that_the_card_does_not_have_are_refused_before_the_card() {
    // As a card says it that has none of them: not even one is left.
    let mock = Mock::new().without("memory_windows");
    let context = mock.open();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(16).unwrap());
    let before = commands(&mock);
    let (attribute, fix) = refused(pd.alloc_window());
    assert!(attribute == "memory_windows" && fix.contains("register a region"), "{fix}");
    let (attribute, fix) = refused(pd.create_srq(&SrqInitAttr::default()));
    assert!(attribute == "srq" && fix.contains("no shared receive queues"), "{fix}");
    let (attribute, fix) = refused(pd.create_ah(&av(1, 2)));
    assert!(attribute == "ud" && fix.contains("no address handles"), "{fix}");
    for service in [Service::Uc, Service::Ud, Service::Raw] {
        let mut attr = QpInitAttr::rc(&cq, &cq);
        attr.service = service;
        let (attribute, fix) = refused(pd.create_qp(&attr));
        assert!(attribute == "service" && fix.contains("the card's features"), "{service}: {fix}");
    }
    assert_eq!(refused(context.set_raw_filter(&RawFilter::port())).0, "raw_ethernet");
    assert_eq!(commands(&mock), before, "the card was not asked");

    // One that has the functions is asked, and gives what it has: here none.
    let context = Mock::new().with("srq").with("ud").open();
    let pd = context.alloc_pd().unwrap();
    let srq = pd.create_srq(&SrqInitAttr::default()).unwrap_err();
    assert!(matches!(srq, Error::NoResource { operation: "create_srq", limit: 0, .. }), "{srq}");
    let ah = pd.create_ah(&av(1, 2)).unwrap_err();
    assert!(matches!(ah, Error::NoResource { operation: "create_ah", limit: 0, .. }), "{ah}");
}

#[test]
fn addresses_that_the_card_cannot_have_are_refused() {
    let six = |n| std::net::IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n]);
    let mock = Mock::new();
    let context = mock.open();
    let before = context.gids();
    let (attribute, fix) = refused(context.add_gid(six(1), None));
    assert_eq!((attribute, fix.as_str()), ("ip", "the card has IPv4 only"));
    let (attribute, fix) = refused(context.add_gid([10, 0, 0, 1].into(), Some(7)));
    assert_eq!((attribute, fix.contains("no VLAN tags")), ("vlan", true), "{fix}");
    assert_eq!(context.gids(), before);

    let context = Mock::new().with("ipv6").with("vlan").open();
    context.add_gid(six(1), None).unwrap();
    context.add_gid([10, 0, 0, 1].into(), Some(7)).unwrap();
    assert_eq!(context.gids().len(), before.len() + 2);
}

#[test]
fn work_requests_that_the_card_does_not_have_are_not_posted() {
    type Wanted = (&'static str, &'static str);
    const ATOMICS: Wanted = ("atomics", "the card has no atomics");
    const WINDOWS: Wanted = ("memory_windows", "the card has no memory windows");
    for (without, _) in [ATOMICS, WINDOWS, ("wqe_push", "")] {
        let mock = Mock::new().without(without);
        let context = mock.open();
        let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(16).unwrap());
        let rights = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let mut qp = connected(&pd, &cq, rights);
        let memory = context.alloc(4096, 4096).unwrap();
        let region = pd.register(&memory, AccessFlags::LOCAL_WRITE | rights, PageSize::Size4K).unwrap();
        let (eight, remote) = ([region.sge(0, 8)], region.remote(64));
        let bind = SendOp::BindMw {
            key: region.rkey() ^ 1,
            lkey: region.lkey(),
            address: region.address(),
            bytes: 64,
            access: AccessFlags::REMOTE_READ,
            kind: WindowType::Type2B,
        };
        let all: [(SendWr<'_>, Option<Wanted>); 8] = [
            (SendWr::write(1, &eight, remote), None),
            (SendWr::send(2, &eight), None),
            (SendWr::read(3, &eight, remote), None),
            (SendWr::fetch_add(4, &eight, remote, 1), Some(ATOMICS)),
            (SendWr::compare_swap(5, &eight, remote, 1, 2), Some(ATOMICS)),
            (SendWr::send_inv(6, &eight, region.rkey()), Some(WINDOWS)),
            (SendWr::local_inv(7, region.rkey()), Some(WINDOWS)),
            (SendWr::new(8, bind, &[]), Some(WINDOWS)),
        ];
        let mut batch = qp.start_post_send();
        for (wr, needs) in all {
            let (room, result) = (batch.room(), batch.post(&wr));
            match needs.filter(|(feature, _)| *feature == without) {
                Some((_, says)) => {
                    let (attribute, fix) = refused(result);
                    assert!(attribute == "opcode" && fix.starts_with(says), "{fix}");
                    assert_eq!(batch.room(), room, "nothing was posted");
                }
                None => {
                    result.unwrap();
                    assert_eq!(batch.room(), room - 1);
                }
            }
        }
    }
}

#[test]
fn a_window_of_a_card_without_atomics_cannot_give_the_right_to_them() {
    let mock = Mock::new().without("atomics");
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    let memory = context.alloc(4096, 4096).unwrap();
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND;
    let region = pd.register(&memory, access, PageSize::Size4K).unwrap();
    let mut window = pd.alloc_window().unwrap();
    let key = window.rkey();
    let (attribute, fix) = refused(window.bind(1, &region, 0, 64, AccessFlags::REMOTE));
    assert!(attribute == "access" && fix.contains("no atomics"), "{fix}");
    assert_eq!(window.rkey(), key, "as it was");
    window.bind(1, &region, 0, 64, AccessFlags::REMOTE_WRITE).unwrap();
    assert_ne!(window.rkey(), key);
}
