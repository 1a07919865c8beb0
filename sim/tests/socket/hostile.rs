// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that send garbage, and clients that know the protocol and mean ill. Whatever they do, a good one can work afterwards.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ferrowire::vfio_user::message::{
    capabilities, command, pci, DmaMap, DmaUnmap, Header, IrqSet, RegionAccess, MAX_BODY,
};
use ferrowire::HostMemory;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use rustix::event::{eventfd, EventfdFlags};
use rustix::fs::{ftruncate, memfd_create, MemfdFlags};
use rustix::process::Signal;

use super::raw::Raw;
use super::rig::{Folder, Node, Server, KINDS};
use super::work::exchange;

/// How long garbage goes on, for each kind of card.
const LONG: Duration = Duration::from_secs(2);

/// Errors by their numbers.
const EINVAL: i32 = 22;
const EMFILE: i32 = 24;
const EPERM: i32 = 1;

fn files(rng: &mut SmallRng) -> Vec<OwnedFd> {
    let file = |rng: &mut SmallRng| -> OwnedFd {
        match rng.random_range(0..6) {
            0 => eventfd(0, EventfdFlags::CLOEXEC).unwrap(),
            1 => UnixStream::pair().unwrap().0.into(),
            2 => std::fs::File::open("/dev/zero").unwrap().into(),
            3 => std::fs::File::open("/").unwrap().into(),
            4 => memfd_create("empty", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap(),
            _ => {
                let file = memfd_create("short", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
                ftruncate(&file, 4096 * rng.random_range(1..20)).unwrap();
                file
            }
        }
    };
    (0..rng.random_range(0..9)).map(|_| file(rng)).collect()
}

fn number(rng: &mut SmallRng) -> u64 {
    match rng.random_range(0..5) {
        0 => rng.random_range(0..64),
        1 => 1u64.checked_shl(rng.random_range(0..66)).unwrap_or(u64::MAX),
        2 => u64::MAX - rng.random_range(0..9000),
        3 => rng.random_range(0..64) * 4096,
        _ => rng.next_u64(),
    }
}

/// A message of the protocol with numbers of no sense.
fn nonsense(rng: &mut SmallRng) -> (u16, Vec<u8>) {
    let which = rng.random_range(0..17);
    let body = match which {
        command::DMA_MAP => {
            let flags = rng.random_range(0..8);
            let (offset, address, size) = (number(rng), number(rng), number(rng));
            DmaMap { argsz: 32, flags, offset, address, size }.to_bytes().to_vec()
        }
        command::DMA_UNMAP => {
            let flags = rng.random_range(0..4);
            DmaUnmap { argsz: 24, flags, address: number(rng), size: number(rng) }.to_bytes().to_vec()
        }
        command::DEVICE_SET_IRQS => {
            let (start, count) = (number(rng) as u32, number(rng) as u32);
            let flags = rng.random_range(0..64);
            let set = IrqSet { argsz: 20, flags, index: rng.random_range(0..6), start, count };
            let mut body = set.to_bytes().to_vec();
            body.resize(20 + rng.random_range(0..9), 1);
            body
        }
        command::REGION_READ | command::REGION_WRITE => {
            let region = if rng.random_bool(0.5) { 0 } else { rng.random_range(0..10) };
            let offset = if rng.random_bool(0.8) { rng.random_range(0..0x2_0000) } else { number(rng) };
            let count = if rng.random_bool(0.9) { rng.random_range(0..40) } else { number(rng) as u32 };
            let mut body = RegionAccess { offset, region, count }.to_bytes().to_vec();
            if which == command::REGION_WRITE {
                let bytes = (count as usize).min(MAX_BODY - 16);
                let mut data = vec![0; if rng.random_bool(0.9) { bytes } else { rng.random_range(0..99) }];
                rng.fill_bytes(&mut data);
                body.extend(data);
            }
            body
        }
        _ => {
            let mut body = vec![0; rng.random_range(0..64)];
            rng.fill_bytes(&mut body);
            body
        }
    };
    (which, body)
}

#[test]
fn after_garbage_of_every_kind_a_good_client_works() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("garbage");
        let mut server = Server::up(&folder, kind);
        let b = Node::open(&server.sockets[1], 2);
        let seed = 1;
        println!("seed {seed}");
        let mut rng = SmallRng::seed_from_u64(seed);

        // Bytes of any kind.
        let end = Instant::now() + LONG / 2;
        while Instant::now() < end {
            let Ok(mut socket) = UnixStream::connect(&server.sockets[0]) else { continue };
            let mut bytes = vec![0; rng.random_range(0..5000)];
            rng.fill_bytes(&mut bytes);
            if rng.random_bool(0.5) && bytes.len() >= 16 {
                // A length that can be, and a command.
                let header = Header::of(1, rng.random_range(0..16), rng.random_range(0..5000));
                bytes[..16].copy_from_slice(&header.to_bytes());
            }
            let _ = socket.write_all(&bytes);
        }
        server.lives();

        // Messages with nonsense in them, with files and without; some clients leave without a word, in the middle of a message.
        let (begin, mut asked, mut refused) = (Instant::now(), 0, 0);
        while begin.elapsed() < LONG || asked <= 500 {
            assert!(begin.elapsed() < 30 * LONG, "{asked} answers in a minute");
            let mut raw = Raw::begin(&server.sockets[0]);
            for _ in 0..rng.random_range(0..200) {
                let (which, body) = nonsense(&mut rng);
                let files = files(&mut rng);
                let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
                match raw.ask(which, &body, &files) {
                    Some(answer) => {
                        asked += 1;
                        refused += u32::from(answer.is_err());
                    }
                    None => break,
                }
            }
            let _ = raw.0.send(&Header::of(1, command::REGION_WRITE, 4000), &[&[1; 77]], &[]);
        }
        server.lives();
        assert!(refused > 100 && refused < asked, "{refused} of {asked} refused");

        let a = Node::open(&server.sockets[0], 1);
        exchange(&a, &b);
    }
}

#[test]
fn a_good_client_comes_in_behind_a_crowd_that_has_left() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("crowd");
        let server = Server::up(&folder, kind);
        // They come and go while the server looks elsewhere.
        server.signal(Signal::STOP);
        for length in 0..60 {
            let mut socket = UnixStream::connect(&server.sockets[0]).unwrap();
            socket.write_all(&vec![7; length]).unwrap();
        }
        let mut good = Raw::connect(&server.sockets[0]);
        server.signal(Signal::CONT);
        good.agree(&capabilities());
        drop(good);
        let (a, b) = (Node::open(&server.sockets[0], 1), Node::open(&server.sockets[1], 2));
        exchange(&a, &b);
    }
}

#[test]
fn a_client_that_takes_no_answers_stops_nobody_else() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("deaf");
        let server = Server::up(&folder, kind);
        let mut deaf = UnixStream::connect(&server.sockets[0]).unwrap();
        drop(Raw::begin(&server.sockets[1]));
        let version = [&[0, 0, 1, 0][..], b"{}\0"].concat();
        deaf.write_all(&Header::of(1, command::VERSION, version.len()).to_bytes()).unwrap();
        deaf.write_all(&version).unwrap();
        deaf.set_nonblocking(true).unwrap();
        let body = RegionAccess { offset: 0, region: pci::CONFIG, count: 4096 }.to_bytes();
        let ask = [&Header::of(2, command::REGION_READ, body.len()).to_bytes()[..], &body].concat();
        // Until neither way has room.
        let (mut full, mut at) = (Instant::now(), 0);
        while full.elapsed() < Duration::from_millis(300) {
            match deaf.write(&ask[at..]) {
                Ok(bytes) => (full, at) = (Instant::now(), (at + bytes) % ask.len()),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        let b = Node::open(&server.sockets[1], 2);
        drop(deaf);
        let a = Node::open(&server.sockets[0], 1);
        exchange(&a, &b);
    }
}

#[test]
fn a_client_that_says_nothing_keeps_the_card_for_seconds_only() {
    let folder = Folder::new("silent");
    let server = Server::up(&folder, &[]);
    let silent = UnixStream::connect(&server.sockets[0]).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while let Err(error) = ferrowire::VfioUserBus::connect(&server.sockets[0]) {
        assert!(Instant::now() < end, "{error}");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(silent);
}

/// Maps a file, and what the server says.
fn map(raw: &mut Raw, file: &OwnedFd, address: u64, size: u64, offset: u64) -> Result<(), i32> {
    let ask = DmaMap { argsz: 32, flags: 3, offset, address, size };
    raw.ask(command::DMA_MAP, &ask.to_bytes(), &[file.as_fd()]).unwrap().map(|_| ())
}

#[test]
fn memory_that_can_go_away_is_never_mapped() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("memory");
        let mut server = Server::up(&folder, kind);
        let mut raw = Raw::begin(&server.sockets[0]);
        let loose = memfd_create("loose", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&loose, 8192).unwrap();
        assert_eq!(map(&mut raw, &loose, 0, 8192, 0), Err(EPERM));
        let on_disk: OwnedFd = std::fs::File::create_new(folder.join("file")).unwrap().into();
        ftruncate(&on_disk, 8192).unwrap();
        assert_eq!(map(&mut raw, &on_disk, 0, 8192, 0), Err(EPERM));
        let file = memfd_create("sealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 8192).unwrap();
        assert_eq!(map(&mut raw, &file, 0, 12288, 0), Err(EINVAL));
        assert_eq!(map(&mut raw, &file, 0, 4096, 8192), Err(EINVAL));
        assert_eq!(map(&mut raw, &file, 0, 8192, 0), Ok(()));
        assert!(ftruncate(&file, 0).is_err(), "it was sealed by the server");
        server.lives();
    }
}

#[test]
fn the_card_reaches_what_is_mapped_and_nothing_beside_it() {
    for kind in KINDS {
        println!("{kind:?}");
        use ferrowire::spec::csr::command_queue as csr;
        let folder = Folder::new("reach");
        let server = Server::up(&folder, kind);
        let memory = HostMemory::shared(3 * 4096, 4096).unwrap();
        memory.fill(0, 3 * 4096, 0x5a);
        let (file, _) = memory.shared_file().unwrap();
        let mut raw = Raw::begin(&server.sockets[0]);
        // The middle page alone: commands are read there, and completions go to the pages around it.
        let file = file.try_clone_to_owned().unwrap();
        let request =
            ferrowire::spec::queue::command::Command { opcode: 0xff, token: 9, ..Default::default() };
        let request = request.to_bytes().unwrap();
        assert_eq!(map(&mut raw, &file, 0x10_0000, 4096, 4096), Ok(()));
        for (completions, seen) in [(0x0f_f000, false), (0x10_1000, false), (0x10_0000, true)] {
            memory.write(4096, &request);
            assert_eq!(raw.ask(command::DEVICE_RESET, &[], &[]).unwrap().map(|_| ()), Ok(()));
            let ready =
                RegionAccess { offset: csr::BLOCK.address(&csr::STATUS).into(), region: pci::BAR0, count: 4 };
            let limit = Instant::now() + super::rig::PATIENCE;
            while raw.ask(command::REGION_READ, &ready.to_bytes(), &[]).unwrap().unwrap().body[16] & 1 == 0 {
                assert!(Instant::now() < limit, "the card is not ready");
            }
            // A card that faces PCIe asks for nothing before it is a bus master.
            let master = RegionAccess { offset: 4, region: pci::CONFIG, count: 2 };
            let master = [&master.to_bytes()[..], &[6, 0]].concat();
            assert!(raw.ask(command::REGION_WRITE, &master, &[]).unwrap().is_ok());
            let mut write = |register: &ferrowire::spec::Register, value: u32| {
                let access =
                    RegionAccess { offset: csr::BLOCK.address(register).into(), region: pci::BAR0, count: 4 };
                let body = [&access.to_bytes()[..], &value.to_le_bytes()].concat();
                raw.ask(command::REGION_WRITE, &body, &[]).unwrap().unwrap();
            };
            write(&csr::CMDQ_BASE_LO, 0x10_0000);
            write(&csr::CMDQ_BASE_HI, 0);
            write(&csr::CMDQ_LOG2, 0);
            write(&csr::COMPL_BASE_LO, completions);
            write(&csr::COMPL_BASE_HI, 0);
            write(&csr::COMPL_LOG2, 0);
            write(&csr::CONTROL, 1);
            write(&csr::CMDQ_PRODUCER, 1);
            // What is to come, comes in the end; what is not to come is waited for a while.
            let end = Instant::now() + if seen { super::rig::PATIENCE } else { Duration::from_millis(500) };
            let mut all = vec![0; 3 * 4096];
            let changed = loop {
                memory.read(0, &mut all);
                let changed = all[4096..][..64] != request;
                if Instant::now() > end || seen && changed {
                    break changed;
                }
                std::thread::sleep(Duration::from_millis(10));
            };
            assert!(all[..4096].iter().chain(&all[8192..]).all(|byte| *byte == 0x5a), "beside it");
            assert_eq!(changed, seen, "completions at {completions:#x}");
        }
    }
}

/// Cards and clients share the files of one process.
#[test]
fn a_server_without_files_left_refuses_what_needs_one_and_does_not_spin() {
    const CROWD: usize = 60;
    let folder = Folder::new("files");
    let mut server = Server::with_files(48, &folder, &["--engine", "--cards", "4"]);
    let mut early = Raw::begin(&server.sockets[0]);
    let memory = HostMemory::shared(4096, 4096).unwrap();
    let file = memory.shared_file().unwrap().0.try_clone_to_owned().unwrap();
    let crowd: Vec<UnixStream> =
        (0..CROWD).map(|i| UnixStream::connect(&server.sockets[i % 4]).unwrap()).collect();
    // Those for whom there is no file are shown out, and nobody is left waiting at the door.
    let (mut shown_out, end) = (0, Instant::now() + super::rig::PATIENCE);
    while shown_out < CROWD - 48 {
        let gone = |client: &&UnixStream| {
            client.set_nonblocking(true).unwrap();
            matches!(std::io::Read::read(&mut &**client, &mut [0]), Ok(0))
        };
        shown_out = crowd.iter().filter(gone).count();
        assert!(Instant::now() < end, "{shown_out} of {CROWD} are shown out");
    }
    let used = server.used();
    std::thread::sleep(Duration::from_millis(500));
    let used = server.used() - used;
    assert!(used <= Duration::from_millis(200), "{used:?} of half a second");
    // Memory without its file would be mapped, and not reached.
    assert_eq!(map(&mut early, &file, 0, 4096, 0), Err(EMFILE));
    drop(crowd);
    let end = Instant::now() + super::rig::PATIENCE;
    while map(&mut early, &file, 0, 4096, 0).is_err() {
        assert!(Instant::now() < end, "files are free again");
        std::thread::sleep(Duration::from_millis(5));
    }
    server.lives();
}
