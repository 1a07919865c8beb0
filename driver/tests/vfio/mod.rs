// SPDX-License-Identifier: MIT OR Apache-2.0
//! `VfioBus` on a kernel that is a model: what is asked of it, what the card reaches, and what is said when something is not there.

mod kernel;

use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::ptr::{null_mut, NonNull};
use std::time::{Duration, Instant};

use crate::common::{bytes, init, rtr, rts};
use ferrowire::vfio::uapi::request;
use ferrowire::vfio::VfioError;
use ferrowire::vfio_user::simulation;
use ferrowire::*;
use kernel::{Machine, ADDRESS, GROUP};
use rustix::io::Errno;
use rustix::mm::{mmap_anonymous, MapFlags, ProtFlags};

/// Some memory of this process that nobody asked the bus for: not at the start of a page.
fn foreign(len: usize) -> HostMemory {
    let memory: &'static mut [u8] = Vec::leak(vec![0; len + 100]);
    let start = NonNull::from(&mut memory[99]);
    // SAFETY: it is leaked, so valid for ever, and reached through this value alone.
    unsafe { HostMemory::from_raw(start, len, Box::new(())) }
}

/// Opens the card, and lets it carry data between memory of all kinds.
fn carry(machine: &Machine, name: &str) {
    let bus = machine.open(name).unwrap();
    assert_eq!(bus.address(), ADDRESS);
    assert_eq!(
        machine.with(|state| (state.resets, state.config[4] & 6)),
        (1, 6),
        "reset, and master of the bus"
    );
    let context = Context::open(bus).unwrap();
    context.set_mac([2, 0, 0, 0, 0, 1]).unwrap();
    context.add_gid([10, 0, 0, 1].into(), None).unwrap();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(16).unwrap();
    let qp = pd.create_qp(&QpInitAttr::rc(&cq, &cq)).unwrap();
    let number = qp.number();
    let mut qp = qp.init(init()).unwrap().rtr(rtr(number)).unwrap().rts(rts()).unwrap();
    let (own, all) = (context.alloc(3 << 20, 1).unwrap(), AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE);
    let strange = foreign(9000);
    let small = pd.register(&own, AccessFlags::LOCAL_READ, PageSize::Size4K);
    assert!(
        matches!(small, Err(Error::NoResource { .. })),
        "the model of the card has 64 page table entries"
    );
    let page = |bytes| context.capabilities().page_size(bytes);
    assert_eq!(
        [page(1), page((2 << 20) - 1), page(2 << 20), page(2 << 30)].map(PageSize::shift),
        [12, 12, 21, 30]
    );
    let source = pd.register(&own, AccessFlags::LOCAL_READ, page(own.len())).unwrap();
    // Twice the same memory, in part, with pages that it is not made of.
    let target = pd.register(&strange, all, PageSize::Size4K).unwrap();
    let again = pd.register(&strange.slice(1000, 5000), all, PageSize::Size2M).unwrap();
    let data: Vec<u8> = (0..9000).map(|i| (i * 7 % 251) as u8).collect();
    own.write(2_000_000, &data);
    let mut done = [Completion::default(); 4];
    for (id, remote, at, len) in [(1, target.remote(0), 0, 9000), (2, again.remote(0), 1000, 5000)] {
        strange.fill(0, 9000, 0xee);
        let mut batch = qp.start_post_send();
        batch.post(&SendWr::write(id, &[source.sge(2_000_000, len)], remote).signaled()).unwrap();
        batch.ring().unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while cq.poll(&mut done).unwrap() == 0 {
            assert!(Instant::now() < end, "no completion");
        }
        assert!(done[0].is_success(), "{}", done[0].status());
        assert_eq!(done[0].wr_id(), id);
        assert_eq!(bytes(&strange, at, len as usize), data[..len as usize]);
    }
    let mapped = machine.with(|state| state.mapped.len());
    drop(again);
    assert_eq!(machine.with(|state| state.mapped.len()), mapped - 1, "taken back, while the other stays");
    drop((source, target, qp, cq, pd, context));
    machine.with(|state| {
        assert!(state.mapped.is_empty(), "{:x?}", state.mapped);
        assert_eq!(state.config[4] & 4, 0, "not master of the bus any more");
    });
}

#[test]
fn a_card_is_opened_by_its_group_and_reaches_any_memory() {
    carry(&Machine::new(), ADDRESS);
    carry(&Machine::new(), "01:00.0");
}

#[test]
fn a_card_is_opened_by_its_own_file_where_there_is_an_iommu_file() {
    carry(&Machine::new().with_iommufd(), ADDRESS);
    carry(&Machine::new().with_iommufd(), "/dev/vfio/devices/vfio3");
    // Who may open the group alone uses that.
    let machine = Machine::new().with_iommufd();
    machine.with(|state| state.refuse.push(("devices/vfio3", Errno::ACCESS)));
    carry(&machine, ADDRESS);
}

/// What is changed, and what is said then.
type Case<'a> = (&'a dyn Fn(&Machine), &'a str);

#[test]
fn each_reason_has_its_own_error_with_what_to_do() {
    let refused = |change: &dyn Fn(&Machine)| {
        let machine = Machine::new();
        change(&machine);
        machine.refusal()
    };
    let device = |machine: &Machine, driver: Option<&str>, ids| {
        std::fs::remove_dir_all(machine.root.join("sys")).unwrap();
        machine.device(ADDRESS, GROUP, driver, ids);
    };
    let card = (0x1af4, 0x10f0);
    let cases: &[Case<'_>] = &[
        (
            &|m| {
                std::fs::remove_dir_all(m.root.join("sys")).unwrap();
                m.device("0000:02:00.0", "9", None, card);
            },
            "open 0000:01:00.0: no such PCI device; choose of 0000:02:00.0",
        ),
        (&|m| device(m, None, (0x8086, 0x1521)), "device 8086:1521, a Ferrowire card is 1af4:10f0; there is no Ferrowire card"),
        (&|m| device(m, Some("e1000e"), card), "bound to e1000e, not to vfio-pci; run `ferrowire bind 0000:01:00.0`"),
        (&|m| device(m, None, card), "bound to no driver, not to vfio-pci; run `ferrowire bind 0000:01:00.0`"),
        (
            &|m| {
                std::fs::remove_dir_all(m.root.join("sys/kernel")).unwrap();
                std::fs::remove_file(m.root.join("sys/bus/pci/devices").join(ADDRESS).join("iommu_group")).unwrap();
            },
            "no IOMMU (/sys/kernel/iommu_groups is empty); turn it on in the firmware (VT-d, AMD-Vi), and boot with intel_iommu=on",
        ),
        (
            &|m| std::fs::remove_file(m.root.join("sys/bus/pci/devices").join(ADDRESS).join("iommu_group")).unwrap(),
            "the device is in no IOMMU group",
        ),
        (
            &|m| {
                m.device("0000:01:00.1", GROUP, Some("snd_hda_intel"), (0x8086, 1));
                m.device("0000:00:01.0", GROUP, Some("pcieport"), (0x8086, 2));
                m.with(|state| state.viable = false);
            },
            "IOMMU group 17 has devices that the kernel uses: 0000:01:00.1 (snd_hda_intel); bind them to vfio-pci too",
        ),
        (&|m| std::fs::remove_file(m.root.join("dev/vfio/17")).unwrap(), "open /dev/vfio/17: no such file; load the module: `modprobe vfio-pci`"),
        (
            &|m| m.with(|state| state.refuse.push(("vfio/17", Errno::ACCESS))),
            "give it to your user: `sudo chown $USER /dev/vfio/17`, or for good by a udev rule",
        ),
        (&|m| m.with(|state| state.refuse.push(("vfio/17", Errno::BUSY))), "open /dev/vfio/17: in use by a program of another user; end that program"),
        (
            &|m| {
                m.file("proc/self/fd/3");
                m.file("proc/4711/comm");
                std::fs::write(m.root.join("proc/4711/comm"), "ib_write_bw\n").unwrap();
                std::fs::create_dir_all(m.root.join("proc/4711/fd")).unwrap();
                symlink(m.root.join("dev/vfio/17"), m.root.join("proc/4711/fd/5")).unwrap();
                m.with(|state| state.refuse.push(("vfio/17", Errno::BUSY)));
            },
            "in use by ib_write_bw (process 4711); end that program, or take another card",
        ),
        (&|m| m.fail(request::GROUP_GET_DEVICE_FD, Errno::BUSY), "open /dev/vfio/17: in use"),
        (&|m| m.fail(request::SET_IOMMU, Errno::PERM), "set the IOMMU (EPERM: the machine cannot remap interrupts) of 0000:01:00.0"),
        (&|m| m.with(|state| state.region.size = 0x8000), "BAR 0 has 32768 bytes, the registers need 69632; load the bitstream"),
        (&|m| m.with(|state| state.region.flags = 3), "the kernel does not map BAR 0 up to the doorbells"),
        (&|m| m.with(|state| state.sparse = Some(vec![(0, 0x4000), (0x5000, 0xf000)])), "the kernel does not map BAR 0 up to the doorbells"),
        (&|m| m.with(|state| state.vectors = 0), "the device has no MSI-X"),
        (&|m| m.fail(request::CHECK_EXTENSION, Errno::INVAL), "ask for the IOMMU of 0000:01:00.0: Invalid argument"),
    ];
    for (change, expected) in cases {
        let said = refused(change);
        assert!(said.contains(expected), "`{said}` does not say `{expected}`");
    }
    let machine = Machine::new();
    for name in
        ["", "eth0", "1:2:3.4", "0000:01:00", "0000:01:00:0", "/dev/vfio/devices/vfio9", "0000:0g:00.0"]
    {
        assert!(matches!(machine.open(name), Err(VfioError::Name { .. })), "{name}");
    }
}

#[test]
fn a_device_that_is_bound_by_another_program_is_busy() {
    let machine = Machine::new().with_iommufd();
    machine.fail(request::DEVICE_BIND_IOMMUFD, Errno::INVAL);
    assert!(machine.refusal().starts_with("open /dev/vfio/devices/vfio3: in use"));
}

#[test]
fn the_limit_of_locked_memory_is_named() {
    let machine = Machine::new();
    machine.with(|state| state.limit = 8192);
    let mut bus = machine.open(ADDRESS).unwrap();
    let first = bus.dma_alloc(5000, 4096).unwrap();
    let error = bus.dma_alloc(1, 4096).unwrap_err();
    assert_eq!(error, BusError::LockedMemory { bytes: 4096, limit: Some(8192) });
    let said = error.to_string();
    assert!(
        said.contains("map 4096 bytes") && said.contains("limit of this process is 8192 bytes"),
        "{said}"
    );
    assert!(said.contains("ulimit -l"), "{said}");
    bus.dma_free(first).unwrap();
    let second = bus.dma_alloc(8192, 1 << 21).unwrap();
    assert_eq!(second.bus_address() % (1 << 21), 0);
    assert!(bus.dma_unmap(DmaMapping { id: 0x5000, pages: vec![] }).is_err(), "nothing is there");
}

const GIB: usize = 1 << 30;

/// Addresses of this process without memory: `len` bytes that begin `within` a page of 1 GiB.
fn reserved(len: usize, within: usize) -> HostMemory {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel chooses the place.
    let all = unsafe { mmap_anonymous(null_mut(), len + 2 * GIB, ProtFlags::READ | ProtFlags::WRITE, flags) };
    let all = all.unwrap().cast::<u8>();
    let skip = all.align_offset(GIB) + within;
    // SAFETY: this is inside, for there are 2 GiB more. They are never given back, so valid for ever, and reached through this value alone.
    unsafe { HostMemory::from_raw(NonNull::new(all.add(skip)).unwrap(), len, Box::new(())) }
}

#[test]
fn a_region_of_64_gib_takes_64_page_table_entries_and_one_map_and_65_entries_if_it_begins_inside_a_page() {
    let machine = Machine::new();
    machine.with(|state| state.limit = u64::MAX);
    let context = Context::open(machine.open(ADDRESS).unwrap()).unwrap();
    assert_eq!(context.capabilities().mtt_entries, 64);
    let pd = context.alloc_pd().unwrap();
    let page = context.capabilities().page_size(64 * GIB);
    let spent = || machine.with(|state| (state.maps, state.mock.card().log.len()));
    // The list of pages has its memory from the first registration on.
    drop(pd.register(&context.alloc(1, 1).unwrap(), AccessFlags::LOCAL_READ, PageSize::Size4K).unwrap());
    for (len, page, entries) in [(64 * GIB, page, 64), (4096, PageSize::Size4K, 1)] {
        let memory = reserved(len, 0);
        let (maps, commands) = spent();
        let region = pd.register(&memory, AccessFlags::LOCAL_READ, page).unwrap();
        assert_eq!(spent(), (maps + 1, commands + 1), "{len} bytes");
        machine.with(|state| {
            let card = state.mock.card();
            let region = &card.regions[&(region.lkey() >> 8)];
            assert_eq!((region.mtt.len(), region.pages.len()), (entries, entries), "{len} bytes");
            assert!(region.pages.windows(2).all(|two| two[1] == two[0] + page.bytes()));
        });
        assert_eq!(region.len(), len);
        region.destroy().unwrap();
    }
    // From inside a page on, it reaches into one page more than the card has.
    let (maps, commands) = spent();
    let inside = reserved(64 * GIB, 4096);
    let error = pd.register(&inside, AccessFlags::LOCAL_READ, page).unwrap_err();
    assert!(matches!(error, Error::NoResource { what: "page table entries", limit: 64, .. }), "{error}");
    assert_eq!(spent(), (maps + 1, commands), "it was mapped, and is not any more");
    let region = pd.register(&inside.slice(0, 63 * GIB), AccessFlags::LOCAL_READ, page).unwrap();
    machine.with(|state| assert_eq!(state.mock.card().regions[&(region.lkey() >> 8)].pages.len(), 64));
    drop((region, pd, context));
    machine.with(|state| assert!(state.mapped.is_empty(), "{:x?}", state.mapped));
}

#[test]
fn a_simulated_card_in_a_virtual_machine_tells_its_clock() {
    let machine = Machine::new();
    assert_eq!(machine.open(ADDRESS).unwrap().card_cycles(), Ok(None));
    let clock = |cycles: u64| {
        let at = simulation::AT as usize;
        let bytes = simulation::to_bytes(cycles, false);
        machine.with(|state| state.config[at..at + bytes.len()].copy_from_slice(&bytes));
    };
    clock(7);
    let mut bus = machine.open(ADDRESS).unwrap();
    assert_eq!(bus.card_cycles(), Ok(Some(7)));
    clock(1 << 40);
    assert_eq!(bus.card_cycles(), Ok(Some(1 << 40)));
}

#[test]
fn an_emulated_card_in_a_virtual_machine_says_that_it_is_one() {
    let machine = Machine::new();
    assert!(!machine.open(ADDRESS).unwrap().is_engine());
    for engine in [false, true] {
        let at = simulation::AT as usize;
        let bytes = simulation::to_bytes(7, engine);
        machine.with(|state| state.config[at..at + bytes.len()].copy_from_slice(&bytes));
        let context = Context::open(machine.open(ADDRESS).unwrap()).unwrap();
        assert_eq!((context.is_engine(), context.card_cycles().unwrap()), (engine, Some(7)));
    }
}

#[test]
fn interrupts_are_event_files_as_many_as_the_machine_has() {
    for (left, vectors) in [(100, 4), (3, 2), (1, 1)] {
        let machine = Machine::new();
        machine.with(|state| state.vectors_left = left);
        let mut bus = machine.open(ADDRESS).unwrap();
        let file = bus.interrupt(0).unwrap().unwrap();
        assert_eq!(machine.with(|state| state.irqs.len()), vectors);
        assert!(bus.interrupt(vectors as u16 - 1).unwrap().is_some());
        assert!(bus.interrupt(vectors as u16).unwrap().is_none());
        assert!(!sys::wait_readable(file.as_fd(), Duration::ZERO).unwrap());
        machine.with(|state| rustix::io::write(&state.irqs[0], &1u64.to_ne_bytes()).map(drop)).unwrap();
        assert!(sys::wait_readable(file.as_fd(), Duration::from_secs(10)).unwrap());
    }
}

#[test]
fn interrupts_that_could_not_be_enabled_are_enabled_with_the_next_queue() {
    let machine = Machine::new();
    let mut bus = machine.open(ADDRESS).unwrap();
    machine.fail(request::DEVICE_SET_IRQS, Errno::NOMEM);
    for _ in 0..2 {
        assert!(bus.interrupt(0).is_err(), "nothing would come to the file");
    }
    machine.with(|state| state.fail.clear());
    assert!(bus.interrupt(0).unwrap().is_some());
    assert_eq!(machine.with(|state| state.irqs.len()), 4);
}

#[test]
fn part_of_a_bar_is_enough_when_the_doorbells_are_in_it() {
    let machine = Machine::new();
    machine.with(|state| state.sparse = Some(vec![(0, 0x11000)]));
    let mut bus = machine.open(ADDRESS).unwrap();
    assert!(bus.csr_read32(0).is_ok() && bus.doorbell(0x10ff8, 0).is_ok());
    assert_eq!(bus.doorbell(0x11000, 0), Err(BusError::BadOffset { offset: 0x11000 }));
}
