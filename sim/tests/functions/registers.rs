// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the registers say, and what the driver makes of it.

use ferrowire::{
    AccessFlags, AddressVector, Capabilities, Context, Error, PageSize, QpInitAttr, RawFilter, SrqInitAttr,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::bus::World;
use ferrowire_sim::hostile::forge::{CARD, FOE};
use ferrowire_sim::soak::ends::{ip, mac};
use ferrowire_spec::wire::opcode::Service;

use super::{full, model, rights, small};

#[test]
fn a_card_says_which_functions_it_was_built_without_and_its_driver_refuses_them() {
    let read = |config: &RnicConfig| {
        let world = World::single(&model(config), 0).unwrap().share();
        Context::open(world.bus(0)).unwrap()
    };
    let (with, context) = (read(&full()), read(&small()));
    let (all, few): (&Capabilities, &Capabilities) = (with.capabilities(), context.capabilities());
    let mut expected = all.clone();
    for there in [
        &mut expected.uc,
        &mut expected.ud,
        &mut expected.srq,
        &mut expected.raw_ethernet,
        &mut expected.atomics,
        &mut expected.memory_windows,
        &mut expected.ipv6,
        &mut expected.vlan,
    ] {
        assert!(std::mem::take(there), "the card with all functions says so");
    }
    assert!(all.max_srq > 0 && all.max_ah > 0);
    (expected.max_srq, expected.max_ah) = (0, 0);
    assert_eq!(few, &expected);

    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(16).unwrap());
    let memory = context.alloc(4096, 4096).unwrap();
    let way = AddressVector::new(mac(CARD), ip(CARD, false), mac(FOE), ip(FOE, false));
    context.add_gid(ip(CARD, false), None).unwrap();
    let service = |service| {
        let mut attr = QpInitAttr::rc(&cq, &cq);
        attr.service = service;
        pd.create_qp(&attr).map(drop)
    };
    let register = |access| pd.register(&memory, access, PageSize::Size4K).map(drop);
    let atomic = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC;
    let refused = [
        ("memory_windows", pd.alloc_window().map(drop)),
        ("srq", pd.create_srq(&SrqInitAttr::default()).map(drop)),
        ("ud", pd.create_ah(&way).map(drop)),
        ("service", service(Service::Uc)),
        ("service", service(Service::Ud)),
        ("service", service(Service::Raw)),
        ("access", register(atomic)),
        ("access", register(AccessFlags::MW_BIND)),
        ("raw_ethernet", context.set_raw_filter(&RawFilter::port())),
        ("ip", context.add_gid(ip(CARD, true), None)),
        ("vlan", context.add_gid(ip(CARD, false), Some(7))),
    ];
    for (what, result) in refused {
        match result {
            Err(Error::Attribute { attribute, .. }) => assert_eq!(attribute, what),
            other => panic!("{what}: {other:?}"),
        }
    }
    service(Service::Rc).unwrap();
    register(AccessFlags::LOCAL_WRITE | rights()).unwrap();
}
