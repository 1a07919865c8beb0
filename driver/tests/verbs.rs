// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verbs against a card in plain Rust.

use std::collections::HashMap;
use std::time::Duration;

use crate::common::*;
use ferrowire::spec::csr::{capabilities as cap, identity, HwCounter};
use ferrowire::spec::qp_state::{AttributeBit, Attributes, TransitionError};
use ferrowire::spec::queue::cqe::{Cqe, LocalCause};
use ferrowire::spec::{Register, LAYOUT_HASH};
use ferrowire::*;

const RW: AccessFlags = AccessFlags::LOCAL_WRITE;

fn open_with(block: &ferrowire::spec::Block, register: &Register, value: u32) -> (Mock, Error) {
    let mock = Mock::new();
    mock.card().registers.insert(block.address(register), value);
    let error = Context::open(mock.clone()).unwrap_err();
    (mock, error)
}

#[test]
fn a_card_is_opened_and_reset_when_the_last_object_is_gone() {
    let mock = Mock::new();
    let context = mock.open();
    assert_eq!(mock.card().resets, 1);
    let capabilities = context.capabilities();
    assert_eq!((capabilities.max_qp, capabilities.max_send_sge, capabilities.max_inline), (16, 6, 200));
    assert_eq!(
        (capabilities.max_mtu, capabilities.rc, capabilities.uc),
        (Coded::Known(PathMtu::B4096), true, false)
    );
    let pd = context.alloc_pd().unwrap();
    drop(context);
    assert_eq!(mock.card().resets, 1);
    drop(pd);
    assert_eq!(mock.card().resets, 2);
    assert!(mock.card().map.is_empty());
}

#[test]
fn another_device_is_refused_and_not_written_to() {
    let (mock, error) = open_with(&identity::BLOCK, &identity::MAGIC, 0x1234_5678);
    assert_eq!(error, Error::NotFerrowire { found: 0x1234_5678, expected: identity::MAGIC_VALUE });
    assert_eq!(mock.card().resets, 0);
}

#[test]
fn another_major_version_is_refused() {
    let (_, error) = open_with(&identity::BLOCK, &identity::VERSION, 9 << 16);
    assert_eq!(error, Error::UnknownVersion { card: 9, driver: 0 });
}

#[test]
fn another_layout_hash_is_refused_naming_both() {
    let (mock, error) = open_with(&identity::BLOCK, &identity::LAYOUT_HASH_LO, 1);
    let card = LAYOUT_HASH >> 32 << 32 | 1;
    assert_eq!(error, Error::UnknownLayout { card, driver: LAYOUT_HASH });
    let text = error.to_string();
    assert!(
        text.contains(&format!("{card:#018x}")) && text.contains(&format!("{LAYOUT_HASH:#018x}")),
        "{text}"
    );
    assert_eq!(mock.card().resets, 0);
}

#[test]
fn a_doorbell_page_that_the_card_lacks_is_refused() {
    let options = ContextOptions { doorbell_page: 4, ..Default::default() };
    let error = Context::open_with(Mock::new(), options).unwrap_err();
    assert!(matches!(error, Error::Attribute { attribute: "doorbell_page", value: 4, .. }), "{error}");
}

#[test]
fn a_refused_command_names_operation_attribute_and_fix() {
    let mock = Mock::new();
    let context = mock.open();
    let answer = (CommandStatus::BadAttribute.code(), CommandAttribute::Eqn.code(), 0x77);
    mock.card().refuse.push_back(answer);
    let error = context.create_cq(8).unwrap_err();
    assert_eq!(
        error,
        Error::Command {
            operation: CommandOpcode::CreateCq,
            object: 0,
            status: Coded::Known(CommandStatus::BadAttribute),
            attribute: Coded::Known(CommandAttribute::Eqn),
            value: 0x77,
        }
    );
    let text = error.to_string();
    for part in ["CREATE_CQ", "BAD_ATTRIBUTE", "EQN", "0x77", "limits"] {
        assert!(text.contains(part), "{part} in: {text}");
    }
    // Its number comes back, and the next command works.
    for number in [1, 2, 3, 0] {
        assert_eq!(context.create_cq(8).map(|cq| cq.number()), Ok(number));
    }
}

#[test]
fn a_status_that_nobody_knows_is_an_error_and_no_panic() {
    let mock = Mock::new();
    let context = mock.open();
    mock.card().refuse.push_back((0xee, 0xdd, 0));
    let error = context.alloc_pd().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("unknown code 0xee"), "{error}");
    assert!(error.to_string().contains("unknown code 0xdd"), "{error}");
}

#[test]
fn a_deaf_card_times_out_and_keeps_the_memory_it_may_still_use() {
    let mock = Mock::new();
    let context = mock.open();
    mock.card().deaf = true;
    let mapped = mock.card().map.len();
    let error = context.create_cq(8).unwrap_err();
    assert!(matches!(error, Error::Timeout { operation: "CREATE_CQ", .. }), "{error}");
    assert_eq!(mock.card().map.len(), mapped + 1, "the queue's memory stays mapped");
    let error = context.create_cq(8).unwrap_err();
    assert_eq!(error, Error::CommandQueueFailed { operation: CommandOpcode::CreateCq });
    assert_eq!(mock.card().map.len(), mapped + 1, "the second was never given to the card");
    assert_eq!(mock.card().log.len(), 1);
}

#[test]
fn the_command_ring_wraps_many_times() {
    let mock = Mock::new();
    let context = mock.open();
    for _ in 0..40_000 {
        context.alloc_pd().unwrap().destroy().unwrap();
    }
    assert_eq!(mock.card().log.len(), 80_000);
}

#[test]
fn a_region_gets_the_page_list_of_its_memory() {
    let mock = Mock::new();
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    let memory = context.alloc(5 * 4096, 4096).unwrap().slice(100, 3 * 4096);
    let mr = pd.register(&memory, RW | AccessFlags::REMOTE_WRITE, PageSize::Size4K).unwrap();
    let card = mock.card();
    let region = &card.regions[&(mr.lkey() >> 8)];
    assert_eq!((region.pd, region.access, region.shift), (pd.number(), 3, 12));
    assert_eq!((region.va, region.length), (memory.address(), 3 * 4096));
    assert_eq!(region.tag, mr.rkey() as u8);
    let pages = &card.page_lists[0];
    assert_eq!(pages.len(), 4);
    assert!(pages.windows(2).all(|w| w[0] > w[1]), "scattered: {pages:x?}");
    // Byte 4096 - 100 of the memory is the first of the second page.
    memory.write(4096 - 100, &[0xa5]);
    let mut byte = [0];
    card.map.read(pages[1], &mut byte).unwrap();
    assert_eq!(byte, [0xa5]);
    card.map.read(pages[0] + 99, &mut byte).unwrap_err();
}

#[test]
fn larger_pages_take_fewer_entries_and_zero_based_regions_count_from_zero() {
    let mock = Mock::new();
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    let memory = context.alloc(3 << 20, 2 << 20).unwrap().slice(0x1234, (3 << 20) - 0x1234);
    let mr = pd.register(&memory, RW | AccessFlags::ZERO_BASED, PageSize::Size2M).unwrap();
    assert_eq!(mr.address(), 0x1234);
    assert_eq!(mock.card().page_lists[0].len(), 2);
    let mr = pd.register(&memory.slice(0, 8), RW, PageSize::Size1G).unwrap();
    assert_eq!(mock.card().page_lists[1][0] % (1 << 30), 0);
    assert_eq!(mr.address(), memory.address());
    mock.card().regions.values().for_each(|r| assert!(r.mtt.end <= 3));
}

#[test]
fn a_region_may_have_addresses_of_the_callers_choice() {
    const AT: u64 = 0x55b4_54d0_c064;
    let mock = Mock::new();
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    let memory = context.alloc(3 * 4096, 4096).unwrap().slice(0x64, 2 * 4096);
    let mr = pd.register_at(&memory, AT, RW | AccessFlags::REMOTE_WRITE, PageSize::Size4K).unwrap();
    assert_eq!((mr.address(), mr.sge(5, 1).address, mr.remote(7).address), (AT, AT + 5, AT + 7));
    {
        let card = mock.card();
        let region = &card.regions[&(mr.rkey() >> 8)];
        assert_eq!((region.va, region.length), (AT, 2 * 4096));
        // Byte 4096 - 0x64 of the memory is the first of the second page.
        memory.write(4096 - 0x64, &[0xa5]);
        let mut byte = [0];
        card.map.read(card.page_lists[0][1], &mut byte).unwrap();
        assert_eq!(byte, [0xa5]);
    }
    let commands = mock.card().log.len();
    let refused = |address, access, page| match pd.register_at(&memory, address, access, page).unwrap_err() {
        Error::Attribute { attribute, value, .. } => (attribute, value),
        other => panic!("{other}"),
    };
    assert_eq!(refused(AT + 1, RW, PageSize::Size4K), ("address", AT + 1));
    let last = 0u64.wrapping_sub(4096) + 0x64;
    assert_eq!(refused(last, RW, PageSize::Size4K), ("address", last));
    assert_eq!(refused(AT, RW | AccessFlags::ZERO_BASED, PageSize::Size4K).0, "access");
    assert_eq!(mock.card().log.len(), commands, "the card was not asked");
}

#[test]
fn a_region_that_cannot_be_is_refused_before_the_card() {
    let mock = Mock::new();
    let page_shifts = cap::BLOCK.address(&cap::PAGE_SHIFTS);
    mock.card().registers.insert(page_shifts, 1 << 12);
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    let memory = context.alloc(4096, 4096).unwrap();
    let attribute = |memory: &HostMemory, access, page| match pd.register(memory, access, page).unwrap_err() {
        Error::Attribute { attribute, .. } => attribute,
        other => panic!("{other}"),
    };
    assert_eq!(attribute(&memory, AccessFlags::REMOTE_WRITE, PageSize::Size4K), "access");
    assert_eq!(attribute(&memory, RW, PageSize::Size2M), "page_shift");
    assert_eq!(attribute(&memory.slice(0, 0), RW, PageSize::Size4K), "length");
    assert_eq!(mock.card().log.len(), 1);
}

#[test]
fn keys_and_page_table_entries_come_back() {
    let mock = Mock::new();
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    let memory = context.alloc(40 * 4096, 4096).unwrap();
    let mapped = mock.card().map.len();
    let mut keys = Vec::new();
    for i in 0..50 {
        let mr = pd.register(&memory, RW, PageSize::Size4K).unwrap();
        let error = pd.register(&memory, RW, PageSize::Size4K).unwrap_err();
        assert!(matches!(error, Error::NoResource { what: "page table entries", limit: 64, .. }), "{error}");
        if i % 2 == 0 {
            // Refused by the card: all is given back.
            let page = memory.slice(0, 4096);
            mock.card().refuse.push_back((CommandStatus::DmaError.code(), 0, 0));
            pd.register(&page, RW, PageSize::Size4K).unwrap_err();
        }
        keys.push(mr.lkey());
        mr.destroy().unwrap();
    }
    assert_eq!(mock.card().map.len(), mapped);
    let mut last = HashMap::new();
    for key in keys {
        assert_ne!(key >> 8, 0);
        assert_ne!(last.insert(key >> 8, key), Some(key), "an index never keeps its tag");
    }
    let small = context.alloc(1, 1).unwrap();
    let all: Vec<_> = (1..8).map(|_| pd.register(&small, RW, PageSize::Size4K).unwrap()).collect();
    let error = pd.register(&small, RW, PageSize::Size4K).unwrap_err();
    assert!(matches!(error, Error::NoResource { what: "memory keys", limit: 8, .. }), "{error}");
    drop(all);
}

#[test]
fn a_registration_costs_a_command_and_a_map() {
    let mock = Mock::new();
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    let memory = context.alloc(40 * 4096, 4096).unwrap();
    let spent = || {
        let card = mock.card();
        (card.maps, card.log.len())
    };
    for bytes in [1, 4096, 40 * 4096] {
        let (maps, commands) = spent();
        let region = pd.register(&memory.slice(0, bytes), RW, PageSize::Size4K).unwrap();
        assert_eq!(spent(), (maps + 1, commands + 1), "{bytes} bytes");
        let list = mock.card().page_lists.last().unwrap().clone();
        assert_eq!(list.len(), bytes.div_ceil(4096), "the list is that of this region");
        region.destroy().unwrap();
        assert_eq!(spent(), (maps + 1, commands + 2), "{bytes} bytes");
    }
}

#[test]
fn threads_that_register_at_once_have_page_lists_of_their_own() {
    let mock = Mock::new();
    let options =
        ContextOptions { command_timeout: Duration::from_secs(1 << 20), ..ContextOptions::default() };
    let context = Context::open_with(mock.clone(), options).unwrap();
    let pd = context.alloc_pd().unwrap();
    let memory = context.alloc(40 * 4096, 4096).unwrap();
    // The card reads no list before there are two.
    mock.card().together = 2;
    let regions: Vec<_> = std::thread::scope(|scope| {
        let register = |pages: usize| {
            let (pd, memory) = (&pd, memory.slice(0, pages * 4096));
            scope.spawn(move || pd.register(&memory, RW, PageSize::Size4K).unwrap())
        };
        [register(3), register(20)].into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut lists: Vec<usize> = mock.card().page_lists.iter().map(Vec::len).collect();
    lists.sort();
    assert_eq!(lists, [3, 20]);
    mock.card().together = 1;
    drop(regions);
}

/// A card that takes a command only when a second one is there answers neither if the first thread keeps the second from giving its own.
#[test]
fn commands_of_two_threads_are_in_progress_at_once() {
    let mock = Mock::new();
    let options =
        ContextOptions { command_timeout: Duration::from_secs(1 << 20), ..ContextOptions::default() };
    let context = Context::open_with(mock.clone(), options).unwrap();
    mock.card().together = 2;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| std::mem::forget(context.alloc_pd().unwrap()));
        }
    });
    assert_eq!(mock.card().pds.len(), 2);
    mock.card().together = 1;
}

#[test]
fn threads_share_a_command_ring_that_is_smaller_than_their_number() {
    let mock = Mock::new();
    let limits = cap::BLOCK.address(&cap::LOG_LIMITS);
    let slots = cap::LOG_LIMITS.field("max_cmdq_log2").unwrap().offset;
    let one = mock.card().registers[&limits] & !(0xff << slots) | 1 << slots;
    mock.card().registers.insert(limits, one);
    mock.card().registers.insert(cap::BLOCK.address(&cap::MAX_PD), 64);
    let options =
        ContextOptions { command_timeout: Duration::from_secs(1 << 20), ..ContextOptions::default() };
    let context = Context::open_with(mock.clone(), options).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let pd = context.alloc_pd().unwrap();
                    let number = pd.number();
                    assert!(mock.card().pds.contains(&number));
                    pd.destroy().unwrap();
                }
            });
        }
    });
    assert!(mock.card().pds.is_empty());
}

#[test]
fn tags_repeat_with_a_seed_and_differ_without() {
    let key = |context: &Context| {
        let pd = context.alloc_pd().unwrap();
        let memory = context.alloc(1, 1).unwrap();
        let keys: Vec<u32> =
            (0..20).map(|_| pd.register(&memory, RW, PageSize::Size4K).unwrap().lkey()).collect();
        (keys, context.random_psn().unwrap())
    };
    let seeded = || key(&Mock::new().open());
    let random = || key(&Context::open(Mock::new()).unwrap());
    assert_eq!(seeded(), seeded());
    assert_ne!(random(), random());
}

#[test]
fn a_queue_pair_is_brought_up_with_the_attributes_given() {
    let Bench { mock, qp, .. } = bench(16, 16);
    assert_eq!(qp.state(), QpState::Rts);
    let status = qp.query().unwrap();
    assert_eq!(status.state, QpState::Rts);
    assert_eq!((status.sq_psn, status.rq_psn), (Psn::new(0x654321), Psn::new(0x123456)));
    let card = mock.card();
    let pair = &card.qps[&qp.number()];
    let av = pair.av.unwrap();
    assert_eq!((av.dst_mac, av.src_mac), (0x0200_0000_0002, 0x0200_0000_0001));
    assert_eq!((av.dst_ip, av.src_ip, av.hop_limit, av.ipv6), (0x0a00_0002, 0x0a00_0001, 64, false));
    assert_eq!((pair.modify.dest_qpn, pair.modify.path_mtu), (qp.number(), PathMtu::B1024.code()));
    assert_eq!((pair.create.sq_log2, pair.create.doorbell_page), (4, 2));
}

#[test]
fn a_missing_attribute_is_named_before_the_card_is_asked() {
    let mock = Mock::new();
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(4).unwrap();
    let qp = pd.create_qp(&QpInitAttr::rc(&cq, &cq)).unwrap();
    let asked = mock.card().log.len();

    let step = qp.init(init().pkey(None)).unwrap_err();
    let (qpn, missing) = (step.qp.number(), TransitionError::Missing(Attributes::of(&[AttributeBit::Pkey])));
    let (from, to) = (QpState::Reset, QpState::Init);
    assert_eq!(step.error, Error::Transition { qpn, from, to, source: missing });
    assert!(step.to_string().contains("missing: PKEY; set these"), "{step}");
    let step = step.qp.init(init().qkey(1)).unwrap_err();
    assert!(step.to_string().contains("not allowed here: QKEY; leave"), "{step}");
    let step = step.qp.init(init().access(RW)).unwrap_err();
    assert!(matches!(step.error, Error::Attribute { attribute: "access", .. }), "{step}");
    assert_eq!(mock.card().log.len(), asked);

    let qp = step.qp.init(init()).unwrap();
    let asked = mock.card().log.len();
    let step = qp.rtr(rtr(2).av(None).rq_psn(None)).unwrap_err();
    assert!(step.to_string().contains("missing: AV, RQ_PSN"), "{step}");
    let step = step.qp.rtr(rtr(2).max_dest_rd_atomic(17)).unwrap_err();
    assert!(
        matches!(step.error, Error::Attribute { attribute: "max_dest_rd_atomic", value: 17, .. }),
        "{step}"
    );
    let step = step.qp.rtr(rtr(1 << 24)).unwrap_err();
    assert!(matches!(step.error, Error::Attribute { attribute: "dest_qpn", .. }), "{step}");
    let v6 = AddressVector { dst_ip: "fe80::1".parse().unwrap(), ..av(1, 2) };
    let step = step.qp.rtr(rtr(2).av(v6)).unwrap_err();
    assert!(matches!(step.error, Error::Attribute { attribute: "src_ip", .. }), "{step}");
    assert_eq!(mock.card().log.len(), asked);

    let qp = step.qp.rtr(rtr(2)).unwrap();
    let step = qp.rts(rts().timeout(32)).unwrap_err();
    assert!(matches!(step.error, Error::Attribute { attribute: "timeout", value: 32, .. }), "{step}");
    let step = step.qp.rts(rts().retry_cnt(None)).unwrap_err();
    assert!(step.to_string().contains("missing: RETRY_CNT"), "{step}");
    assert_eq!(step.qp.rts(rts()).unwrap().state(), QpState::Rts);
}

#[test]
fn a_service_or_size_that_is_not_there_is_refused() {
    let mock = Mock::new();
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(4).unwrap();
    let mut attr = QpInitAttr::rc(&cq, &cq);
    attr.max_send_wr = (1 << 15) + 1;
    let error = pd.create_qp(&attr).unwrap_err();
    assert!(matches!(error, Error::Attribute { attribute: "max_send_wr", .. }), "{error}");
    attr.max_send_wr = 1;
    type Change = fn(&mut QpInitAttr);
    let changes: [(Change, &str, u64); 3] = [
        (|attr| attr.max_send_sge = 7, "max_send_sge", 7),
        (|attr| attr.max_inline = 201, "max_inline", 201),
        (|attr| attr.max_recv_sge = 17, "max_recv_sge", 17),
    ];
    for (change, name, wrong) in changes {
        let mut attr = attr.clone();
        change(&mut attr);
        match pd.create_qp(&attr).unwrap_err() {
            Error::Attribute { attribute, value, .. } => assert_eq!((attribute, value), (name, wrong)),
            other => panic!("{other}"),
        }
    }
    attr.service = Service::Uc;
    let error = pd.create_qp(&attr).unwrap_err();
    assert!(matches!(error, Error::Attribute { attribute: "service", .. }), "{error}");
    let other = Mock::new().open().create_cq(4).unwrap();
    let error = pd.create_qp(&QpInitAttr::rc(&cq, &other)).unwrap_err();
    assert!(matches!(error, Error::Foreign { what: "recv_cq", of: "card", .. }), "{error}");
    assert!(context.create_cq(u32::MAX).is_err());
}

/// A queue pair may do without sends or receives, and gets the smallest queue. What holds nothing at all is of no use, and is refused.
#[test]
fn queue_pairs_without_sends_or_receives_are_made_and_other_things_of_no_size_are_not() {
    let mock = Mock::new().with("srq");
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(4).unwrap();
    for (sends, receives) in [(0, 0), (0, 4), (4, 0), (1, 1)] {
        let mut attr = QpInitAttr::rc(&cq, &cq);
        (attr.max_send_wr, attr.max_recv_wr) = (sends, receives);
        (attr.max_send_sge, attr.max_recv_sge) = (0, 0);
        let qp = pd.create_qp(&attr).unwrap().init(init()).unwrap().rtr(rtr(2)).unwrap().rts(rts()).unwrap();
        // At least as many as asked for, and one.
        let mut qp = qp;
        let mut count = 0;
        while qp.start_post_recv().post(&RecvWr::new(0, &[])).is_ok() {
            count += 1;
        }
        assert_eq!(count, receives.max(1));
    }
    let refused = |error: Error, name: &str| match error {
        Error::Attribute { attribute, value: 0, fix, .. } => {
            assert_eq!(attribute, name);
            assert!(fix.contains("1 to ") || fix.contains("at least"), "{fix}");
        }
        other => panic!("{other}"),
    };
    refused(context.create_cq(0).unwrap_err(), "entries");
    refused(context.create_eq(0).unwrap_err(), "entries");
    let mut none = SrqInitAttr::default();
    none.max_wr = 0;
    refused(pd.create_srq(&none).map(drop).unwrap_err(), "max_wr");
    let memory = context.alloc(4096, 4096).unwrap();
    let nothing = memory.slice(8, 0);
    refused(
        pd.register(&nothing, AccessFlags::LOCAL_READ, PageSize::Size4K).map(drop).unwrap_err(),
        "length",
    );
}

#[test]
fn a_write_lands_where_it_was_sent_and_nowhere_else() {
    let mut b = bench(16, 16);
    let data: Vec<u8> = (0..9000u32).map(|i| ((i * 7) >> 3) as u8).collect();
    b.source.memory().write(11, &data);
    b.target.memory().fill(0, REGION_BYTES, 0xee);
    let mut batch = b.qp.start_post_send();
    batch.post(&SendWr::write(0xabcd, &[b.source.sge(11, 9000)], b.target.remote(1001)).signaled()).unwrap();
    batch.ring().unwrap();
    let done = b.completions(1)[0];
    assert!(done.is_success());
    assert_eq!(
        (done.wr_id(), done.qpn(), done.opcode()),
        (0xabcd, b.qp.number(), Coded::Known(CqeOpcode::Write))
    );
    let mut expected = vec![0xee; REGION_BYTES];
    expected[1001..10001].copy_from_slice(&data);
    assert_eq!(bytes(b.target.memory(), 0, REGION_BYTES), expected);
}

#[test]
fn gathered_and_inline_data_wrap_with_the_ring() {
    let mut b = bench(8, 8);
    let data: Vec<u8> = (0..=255).collect();
    b.source.memory().write(0, &data);
    for round in 0..40usize {
        b.target.memory().fill(0, 1024, 0);
        let n = [0, 1, 16, 17, 80, 81, 200][round % 7];
        let sges: Vec<Sge> = (0..round % 7).map(|i| b.source.sge(i * 30 + round, 20 + i as u32)).collect();
        let mut batch = b.qp.start_post_send();
        batch.post(&SendWr::write(1, Payload::Inline(&data[..n]), b.target.remote(0)).signaled()).unwrap();
        batch.post(&SendWr::write(2, &sges[..], b.target.remote(512)).signaled()).unwrap();
        batch.ring().unwrap();
        let done = b.completions(2);
        assert_eq!(
            done.iter().map(|c| (c.wr_id(), c.is_success())).collect::<Vec<_>>(),
            [(1, true), (2, true)]
        );
        let gathered: Vec<u8> =
            (0..round % 7).flat_map(|i| data[i * 30 + round..][..20 + i].to_vec()).collect();
        let mut expected = vec![0; 1024];
        expected[..n].copy_from_slice(&data[..n]);
        expected[512..512 + gathered.len()].copy_from_slice(&gathered);
        assert_eq!(bytes(b.target.memory(), 0, 1024), expected, "round {round}");
        assert_eq!(b.qp.start_post_send().room(), 8, "all are retired");
    }
}

#[test]
fn requests_that_the_card_does_not_take_are_refused_and_not_posted() {
    let mut b = bench(8, 8);
    let sge = b.source.sge(0, 8);
    let remote = b.target.remote(0);
    let huge = Sge { bytes: 1 << 31, ..sge };
    let mut batch = b.qp.start_post_send();
    let mut attribute =
        |payload: Payload<'_>| match batch.post(&SendWr::write(1, payload, remote)).unwrap_err() {
            Error::Attribute { attribute, .. } => attribute,
            other => panic!("{other}"),
        };
    assert_eq!(attribute(Payload::Sges(&[sge; 7])), "num_sge");
    assert_eq!(attribute(Payload::Inline(&[0; 201])), "inline_len");
    assert_eq!(attribute(Payload::Sges(&[huge, sge])), "length");
    assert_eq!(batch.room(), 8);
    drop(batch);
    b.context.progress().unwrap();
    assert_eq!(b.mock.card().qps[&b.qp.number()].doorbells, 0, "nothing posted, no doorbell");
}

#[test]
fn a_batch_rings_once_and_a_full_queue_says_so() {
    let mut b = bench(8, 8);
    let number = b.qp.number();
    {
        let mut batch = b.qp.start_post_send();
        for i in 0..8 {
            let sges = [b.source.sge(0, 8)];
            let wr = SendWr::write(i, &sges, b.target.remote(0));
            batch.post(&if i == 7 { wr.signaled() } else { wr }).unwrap();
        }
        let error = batch.post(&SendWr::write(8, &[b.source.sge(0, 8)], b.target.remote(0))).unwrap_err();
        assert_eq!(error, Error::SendQueueFull { qpn: number, size: 8 });
        // Dropped, and so rung.
    }
    assert_eq!(b.completions(1)[0].wr_id(), 7);
    assert_eq!(b.mock.card().qps[&number].doorbells, 1);
    assert_eq!(b.qp.start_post_send().room(), 8, "those not signalled are retired with it");
}

#[test]
fn polling_while_a_batch_is_open_frees_places() {
    let mut b = bench(4, 4);
    let wr = |i| SendWr::write(i, Payload::Inline(&[]), RemoteAddress { address: 0, rkey: 0 }).signaled();
    let mut batch = b.qp.start_post_send();
    (0..4).for_each(|i| batch.post(&wr(i)).unwrap());
    batch.ring().unwrap();
    let mut batch = b.qp.start_post_send();
    assert!(batch.post(&wr(4)).is_err());
    let mut done = [Completion::default(); 4];
    while batch.room() < 4 {
        b.cq.poll(&mut done).unwrap();
    }
    batch.post(&wr(4)).unwrap();
}

#[test]
fn wr_ids_come_back_in_order_over_many_wraps_of_both_rings() {
    let seed = 0x5eed_u64;
    let mut random = seed;
    let mut next = move || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize
    };
    let mut b = bench(16, 16);
    b.mock.card().speed = 5;
    let mut expected = std::collections::VecDeque::new();
    let (mut posted, mut taken) = (0u64, 0u64);
    let mut some = [Completion::default(); 7];
    // More than 2^16: indices and producers wrap too.
    while taken < 70_000 {
        let mut batch = b.qp.start_post_send();
        for _ in 0..next() % 6 {
            let sges = [b.source.sge(0, 1); 6];
            let payload = Payload::Sges(&sges[..next() % 7]);
            let wr = SendWr::write(posted * 3, payload, b.target.remote(0));
            // The last that fits must be signalled, or nothing would be retired any more.
            let signaled = next() % 3 == 0 || batch.room() == 1;
            match batch.post(&if signaled { wr.signaled() } else { wr }) {
                Ok(()) if signaled => expected.push_back(posted * 3),
                Ok(()) => {}
                Err(Error::SendQueueFull { .. }) => break,
                Err(other) => panic!("{other}"),
            }
            posted += 1;
        }
        batch.ring().unwrap();
        let room = next() % 8;
        let n = b.cq.poll(&mut some[..room]).unwrap();
        for done in &some[..n] {
            assert!(done.is_success(), "seed {seed:#x}");
            assert_eq!(Some(done.wr_id()), expected.pop_front(), "seed {seed:#x}");
        }
        taken += n as u64;
    }
    let card = b.mock.card();
    assert!(posted > 65_536 && card.cqs[&b.cq.number()].producer >= 70_000, "{posted} posted");
}

#[test]
fn a_failed_write_takes_the_queue_pair_to_error_and_flushes_the_rest() {
    let mut b = bench(8, 8);
    b.target.memory().fill(0, REGION_BYTES, 0xee);
    let good = b.target.remote(0);
    let beyond = RemoteAddress { address: b.target.address() + REGION_BYTES as u64 - 7, ..good };
    let mut batch = b.qp.start_post_send();
    let sges = [b.source.sge(0, 8)];
    batch.post(&SendWr::write(1, &sges, good)).unwrap();
    batch.post(&SendWr::write(2, &sges, beyond)).unwrap();
    batch.post(&SendWr::write(3, &sges, good)).unwrap();
    batch.post(&SendWr::write(4, &sges, good)).unwrap();
    batch.ring().unwrap();
    let done = b.completions(3);
    let seen: Vec<_> = done.iter().map(|c| (c.wr_id(), c.status().known().unwrap(), c.syndrome())).collect();
    let flush = WcStatus::WrFlushErr;
    assert_eq!(seen, [(2, WcStatus::RemAccessErr, 0x62), (3, flush, 0), (4, flush, 0)]);
    assert_eq!(bytes(b.target.memory(), 8, REGION_BYTES - 8), vec![0xee; REGION_BYTES - 8]);
    assert_eq!(b.qp.state(), QpState::Err);
    assert_eq!(b.qp.query().unwrap().state, QpState::Err);
    // What is posted now is flushed as well.
    b.qp.start_post_send().post(&SendWr::write(5, &sges, good)).unwrap();
    assert_eq!(b.completions(1)[0].status(), WcStatus::WrFlushErr);
    // Up again by way of RESET.
    let number = b.qp.number();
    let qp = b.qp.reset().unwrap();
    b.qp = qp.init(init()).unwrap().rtr(rtr(number)).unwrap().rts(rts()).unwrap();
    b.qp.start_post_send().post(&SendWr::write(6, &sges, good).signaled()).unwrap();
    assert!(b.completions(1)[0].is_success());
    assert_eq!(b.qp.state(), QpState::Rts);
}

#[test]
fn a_key_given_back_or_of_another_domain_no_longer_works() {
    let mut b = bench(8, 8);
    let other = b.context.alloc_pd().unwrap();
    let memory = b.context.alloc(64, 64).unwrap();
    let foreign = other.register(&memory, RW, PageSize::Size4K).unwrap();
    let gone = b.pd.register(&memory, RW, PageSize::Size4K).unwrap();
    let old = gone.sge(0, 8);
    gone.destroy().unwrap();
    let causes = [(foreign.sge(0, 8), LocalCause::KeyPd), (old, LocalCause::KeyIndex)];
    let mut qp = b.qp;
    for (sge, cause) in causes {
        qp.start_post_send().post(&SendWr::write(1, &[sge], b.target.remote(0))).unwrap();
        let mut done = [Completion::default()];
        while b.cq.poll(&mut done).unwrap() == 0 {}
        assert_eq!(
            (done[0].status(), done[0].syndrome()),
            (Coded::Known(WcStatus::LocProtErr), cause.code())
        );
        let number = qp.number();
        qp = qp.reset().unwrap().init(init()).unwrap().rtr(rtr(number)).unwrap().rts(rts()).unwrap();
    }
}

#[test]
fn a_queue_pair_is_driven_to_error_and_through_sqd_by_hand() {
    let mut b = bench(8, 8);
    let none = QpAttributes::default();
    b.qp.modify(QpState::Sqd, &none).unwrap();
    b.qp.modify(QpState::Rts, &none.min_rnr_timer(3)).unwrap();
    let error = b.qp.modify(QpState::Rtr, &none).unwrap_err();
    assert!(error.to_string().contains("no transition from RTS to RTR; go through"), "{error}");
    assert!(matches!(b.qp.modify(QpState::Reset, &none), Err(Error::Attribute { attribute: "state", .. })));
    b.qp.modify(QpState::Err, &none).unwrap();
    assert_eq!(b.qp.query().unwrap().state, QpState::Err);
}

#[test]
fn completions_of_a_destroyed_queue_pair_are_passed_over_even_when_its_number_is_used_again() {
    let mut b = bench(8, 64);
    let mut attr = QpInitAttr::rc(&b.cq, &b.cq);
    attr.max_send_wr = 8;
    let first = b.qp.number();
    let mut qp = b.qp;
    // All other numbers are taken once, so that the first comes round again.
    for round in 0..14 {
        let mut batch = qp.start_post_send();
        for i in 0..3 {
            batch.post(&SendWr::write(i, &[b.source.sge(0, 8)], b.target.remote(0)).signaled()).unwrap();
        }
        batch.ring().unwrap();
        (0..5).for_each(|_| b.mock.step());
        qp.destroy().unwrap();
        let new = b.pd.create_qp(&attr).unwrap();
        let number = new.number();
        assert_eq!(number == first, round == 13);
        qp = new.init(init()).unwrap().rtr(rtr(number)).unwrap().rts(rts()).unwrap();
    }
    qp.start_post_send()
        .post(&SendWr::write(99, &[b.source.sge(0, 8)], b.target.remote(0)).signaled())
        .unwrap();
    let mut done = [Completion::default(); 64];
    let mut n = 0;
    for _ in 0..4 {
        n += b.cq.poll(&mut done[n..]).unwrap();
    }
    assert_eq!(done[..n].iter().map(|c| c.wr_id()).collect::<Vec<_>>(), [99]);
}

#[test]
fn a_completion_of_nothing_is_an_error_and_the_others_are_not_lost() {
    let mut b = bench(8, 8);
    let qpn = b.qp.number();
    b.qp.start_post_send()
        .post(&SendWr::write(1, &[b.source.sge(0, 8)], b.target.remote(0)).signaled())
        .unwrap();
    (0..3).for_each(|_| b.mock.step());
    let cqn = b.cq.number();
    b.mock.card().complete(cqn, Cqe { qpn, wqe_index: 5, ..Cqe::default() });
    b.mock.card().complete(cqn, Cqe { qpn: 0xffffff, wqe_index: 6, ..Cqe::default() });
    let mut done = [Completion::default(); 4];
    assert_eq!(b.cq.poll(&mut done), Ok(1));
    assert_eq!(done[0].wr_id(), 1);
    assert_eq!(b.cq.poll(&mut done), Err(Error::UnexpectedCompletion { qpn, wqe_index: 5 }));
    assert_eq!(b.cq.poll(&mut done), Err(Error::UnexpectedCompletion { qpn: 0xffffff, wqe_index: 6 }));
    assert_eq!(b.cq.poll(&mut done), Ok(0));
}

#[test]
fn slots_are_as_large_as_what_was_asked_for() {
    let mock = Mock::new();
    let wqe = cap::BLOCK.address(&cap::WQE_LIMITS);
    mock.card().registers.insert(wqe, 16 | 16 << 8 | 256 << 16);
    let context = mock.open();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(4).unwrap();
    for (send_sge, inline, recv_sge, sq_stride, rq_stride) in [
        (0, 0, 0, 0, 0),
        (1, 16, 4, 0, 0),
        (2, 0, 5, 1, 1),
        (1, 17, 8, 1, 1),
        (5, 80, 9, 1, 2),
        (6, 0, 16, 2, 2),
        (0, 81, 16, 2, 2),
        (13, 208, 1, 2, 0),
        (14, 0, 1, 3, 0),
        (0, 209, 1, 3, 0),
        (16, 256, 1, 3, 0),
    ] {
        let mut attr = QpInitAttr::rc(&cq, &cq);
        (attr.max_send_wr, attr.max_recv_wr) = (5, 3);
        (attr.max_send_sge, attr.max_inline, attr.max_recv_sge) = (send_sge, inline, recv_sge);
        let qp = pd.create_qp(&attr).unwrap();
        let create = mock.card().qps[&qp.number()].create;
        assert_eq!((create.sq_log2, create.rq_log2), (3, 2));
        assert_eq!((create.sq_stride, create.rq_stride), (sq_stride, rq_stride), "{attr:?}");
    }
}

#[test]
fn objects_in_use_are_busy_and_go_with_their_last_user() {
    let b = bench(8, 8);
    let mock = b.mock.clone();
    let (number, pdn) = (b.cq.number(), b.pd.number());
    let error = b.cq.destroy().unwrap_err();
    assert_eq!(error, Error::Busy { what: "completion queue", number, users: 2 });
    let error = b.pd.destroy().unwrap_err();
    assert_eq!(error, Error::Busy { what: "protection domain", number: pdn, users: 3 });
    assert!(mock.card().cqs.contains_key(&number) && mock.card().pds.contains(&pdn));
    drop(b.context);
    drop(b.qp);
    assert!(mock.card().cqs.is_empty());
    drop(b.source);
    assert!(mock.card().pds.contains(&pdn));
    drop(b.target);
    assert_eq!(mock.card().resets, 2, "the card is reset behind the last object");
    assert!(mock.card().map.is_empty(), "nothing stays mapped");
    let destroyed: Vec<CommandOpcode> = mock.card().log.iter().rev().take(5).map(|(op, _)| *op).collect();
    use CommandOpcode as C;
    assert_eq!(destroyed, [C::FreePd, C::DeregMr, C::DeregMr, C::DestroyCq, C::DestroyQp]);
}

#[test]
fn a_region_that_the_card_keeps_stays_mapped() {
    let b = bench(8, 8);
    let mapped = b.mock.card().map.len();
    b.mock.card().refuse.push_back((CommandStatus::Busy.code(), 0, 0));
    let error = b.target.destroy().unwrap_err();
    assert!(matches!(error, Error::Command { operation: CommandOpcode::DeregMr, .. }), "{error}");
    assert_eq!(b.mock.card().map.len(), mapped);
    // With the domain it is tried once more.
    let mock = b.mock.clone();
    drop((b.qp, b.source, b.cq, b.pd));
    let of = |card: &Card| card.log.iter().rev().take(2).map(|(op, _)| *op).collect::<Vec<_>>();
    assert_eq!(of(&mock.card()), [CommandOpcode::FreePd, CommandOpcode::DeregMr]);
}

#[test]
fn counters_are_read_whole_while_they_move() {
    /// A counter that carries between the reads of its words.
    struct Moving(Mock, u64);
    impl Bus for Moving {
        fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
            let address = HwCounter::RxReadRequests.address();
            let value = self.1;
            if offset == address {
                self.1 += 1;
                return Ok(value as u32);
            }
            if offset == address + 4 {
                self.1 += 1;
                return Ok((value >> 32) as u32);
            }
            self.0.csr_read32(offset)
        }
        fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
            self.0.csr_write32(offset, value)
        }
        fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
            self.0.doorbell(offset, value)
        }
        fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
            self.0.dma_alloc(bytes, align)
        }
        fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
            self.0.dma_free(buffer)
        }
        fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
            self.0.dma_map(memory, page_shift)
        }
        fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
            self.0.dma_unmap(mapping)
        }
        fn progress(&mut self) -> Result<(), BusError> {
            self.0.progress()
        }
        fn now(&self) -> std::time::Duration {
            self.0.now()
        }
    }
    for start in [0xffff_fffd_u64, 0xffff_fffe, 0xffff_ffff, 0x1_0000_0000] {
        let context = Context::open(Moving(Mock::new(), start)).unwrap();
        let read = context.hw_counter(HwCounter::RxReadRequests).unwrap();
        assert!((start..start + 8).contains(&read), "{read:#x} from {start:#x}");
    }
}

#[test]
fn one_thread_posts_while_another_polls() {
    const COUNT: u64 = 500;
    let Bench { mut qp, mut cq, source, target, .. } = bench(16, 16);
    std::thread::scope(|scope| {
        let poller = scope.spawn(move || {
            let mut done = [Completion::default(); 8];
            let mut next = 0;
            while next < COUNT {
                let n = cq.poll(&mut done).unwrap();
                for completion in &done[..n] {
                    assert!(completion.is_success());
                    assert_eq!(completion.wr_id(), next);
                    next += 1;
                }
            }
        });
        let sges = [source.sge(0, 8)];
        let mut posted = 0;
        while posted < COUNT && !poller.is_finished() {
            let mut batch = qp.start_post_send();
            while posted < COUNT {
                match batch.post(&SendWr::write(posted, &sges, target.remote(0)).signaled()) {
                    Ok(()) => posted += 1,
                    Err(Error::SendQueueFull { .. }) => break,
                    Err(other) => panic!("{other}"),
                }
            }
            batch.ring().unwrap();
        }
    });
}

#[test]
fn queue_pairs_come_and_go_while_another_thread_polls() {
    const LIVES: u64 = 200;
    let Bench { qp, mut cq, pd, source, target, .. } = bench(8, 64);
    let place = cq.target();
    drop(qp);
    let (told, tells) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let end = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let ended = std::sync::Arc::clone(&end);
        let poller = scope.spawn(move || {
            let mut done = [Completion::default(); 4];
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                let n = cq.poll(&mut done).unwrap();
                done[..n].iter().for_each(|completion| told.send(*completion).unwrap());
            }
        });
        let sges = [source.sge(0, 8)];
        for life in 0..LIVES {
            let qp = pd.create_qp(&QpInitAttr::rc(&place, &place)).unwrap();
            let number = qp.number();
            let mut qp = qp.init(init()).unwrap().rtr(rtr(number)).unwrap().rts(rts()).unwrap();
            let mut batch = qp.start_post_send();
            for i in 0..6 {
                batch.post(&SendWr::write(8 * life + i, &sges, target.remote(0)).signaled()).unwrap();
            }
            batch.ring().unwrap();
            // The rest may be polled, be passed over, or never be written: whichever comes first.
            for i in 0..life % 4 {
                let completion = loop {
                    assert!(!poller.is_finished(), "the poller has met what is none of its own");
                    match tells.recv_timeout(std::time::Duration::from_millis(100)) {
                        // Of lives before.
                        Ok(completion) if completion.wr_id() < 8 * life => {}
                        Ok(completion) => break completion,
                        Err(_) => {}
                    }
                };
                assert_eq!((completion.wr_id(), completion.qpn()), (8 * life + i, number));
            }
        }
        end.store(true, std::sync::atomic::Ordering::Relaxed);
        poller.join().unwrap();
    });
}

#[test]
fn objects_may_move_between_threads() {
    fn shared<T: Send + Sync>() {}
    fn moved<T: Send>() {}
    shared::<Context>();
    shared::<ProtectionDomain>();
    shared::<SharedReceiveQueue>();
    shared::<MemoryRegion>();
    shared::<HostMemory>();
    moved::<QueuePair>();
    moved::<CompletionQueue>();
    shared::<CompletionTarget>();
    moved::<MemoryMap>();
}

#[test]
fn congestion_control_is_read_and_written_as_the_registers_have_it() {
    use ferrowire::spec::csr::congestion::{BLOCK, INCREASE, LINE_RATE, PERIODS};
    let mock = Mock::new();
    let context = mock.open();
    let published = CongestionControl::default();
    assert_eq!((published.cnp_interval_us, published.line_rate_mbps, published.min_rate_mbps), (50, 0, 10));
    assert_eq!((published.alpha_us, published.rate_us, published.byte_counter), (55, 55, 10_000_000));
    assert_eq!((published.additive_mbps, published.hyper_mbps, published.gain_shift), (40, 400, 8));
    let control = CongestionControl { line_rate_mbps: 100_000, alpha_us: 7, hyper_mbps: 50_000, ..published };
    context.set_congestion_control(&control).unwrap();
    assert_eq!(context.congestion_control().unwrap(), control);
    let read = |register: &Register| mock.card().registers[&BLOCK.address(register)];
    assert_eq!(read(&LINE_RATE), 100_000);
    assert_eq!(read(&PERIODS), 55 << 16 | 7);
    assert_eq!(read(&INCREASE), 50_000 << 16 | 40);
    for (wrong, attribute) in [
        (CongestionControl { line_rate_mbps: 1 << 20, ..control }, "line_rate_mbps"),
        (CongestionControl { gain_shift: 16, ..control }, "gain_shift"),
        (CongestionControl { line_rate_mbps: 9, ..control }, "line_rate_mbps"),
    ] {
        let error = context.set_congestion_control(&wrong).unwrap_err();
        assert!(matches!(error, Error::Attribute { attribute: a, .. } if a == attribute), "{error}");
        assert_eq!(context.congestion_control().unwrap(), control);
    }
}

/// A quarter of the ring may end with an entry that is an error.
#[test]
fn the_card_hears_each_quarter_of_the_ring_however_many_completions_are_of_nothing() {
    let mut b = bench(8, 8);
    let (cqn, qpn) = (b.cq.number(), b.qp.number());
    let quarter = (1u32 << b.mock.card().cqs[&cqn].log2) / 4;
    let mut done = [Completion::default(); 4];
    for taken in 1..=200 {
        b.mock.card().complete(cqn, Cqe { qpn, wqe_index: 5, ..Cqe::default() });
        assert_eq!(b.cq.poll(&mut done), Err(Error::UnexpectedCompletion { qpn, wqe_index: 5 }));
        b.mock.step();
        assert_eq!(b.mock.card().cqs[&cqn].consumer, taken / quarter * quarter);
    }
}
