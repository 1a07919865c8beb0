// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server as a process of its own, and programs that use its cards.

use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferrowire::{
    AccessFlags, AddressVector, Bus, BusError, Completion, Context, ContextOptions, DmaBuffer, DmaMapping,
    Event, EventQueue, HostMemory, InitAttributes, MemoryRegion, PageSize, PathMtu, ProtectionDomain, Psn,
    QpInitAttr, QueuePair, RtrAttributes, RtsAttributes, VfioUserBus,
};
use ferrowire_sim::shared_cq::SharedCq;
use ferrowire_spec::wire::{Frame, Opcode};

/// Cards that a test of the server is about: the small Verilated one, and an emulated one.
pub const KINDS: [&[&str]; 2] = [&[], &["--engine"]];

/// For what a test waits for: machines differ.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of its own, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fw-{name}-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a capture has of selective retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selective {
    /// Packets that are marked as sent again.
    pub again: usize,
    /// Reports of what is missing.
    pub reports: usize,
}

impl Selective {
    /// Of queue pairs that use go-back-N.
    pub const NONE: Self = Self { again: 0, reports: 0 };

    /// Counts them.
    #[track_caller]
    pub fn of(capture: &Path) -> Self {
        let frames = ferrowire_sim::wire::read_frames(capture).unwrap();
        let parsed: Vec<Frame<'_>> =
            frames.iter().filter_map(|frame| Frame::parse(&frame.bytes).ok()).collect();
        assert!(!parsed.is_empty(), "no packet in {}", capture.display());
        let count = |is: fn(&Frame<'_>) -> bool| parsed.iter().filter(|frame| is(frame)).count();
        Self {
            again: count(|frame| !frame.bth.migreq),
            reports: count(|frame| frame.bth.opcode == Opcode::RcReport.code()),
        }
    }
}

/// `ferrowire-sim` at work; it is killed at the end.
pub struct Server {
    process: Child,
    /// The sockets of its cards, or a board's port.
    pub sockets: Vec<PathBuf>,
}

/// Arguments with the small card, if they choose none and no emulated one.
fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let chosen = more.contains(&"--config") || more.contains(&"--engine");
    let config: &[&str] = if chosen { &[] } else { &["--config", "generic-8b"] };
    [more, config].concat()
}

/// How many cards `up` serves with these arguments.
fn cards_of(arguments: &[&str]) -> usize {
    let cards = arguments.iter().skip_while(|word| **word != "--cards").nth(1);
    cards.map_or(2, |cards| cards.parse().unwrap())
}

impl Server {
    /// Starts it, and waits until its cards can be opened.
    pub fn start(arguments: &[&str], cards: usize) -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_ferrowire-sim")).args(arguments), cards)
    }

    fn run(command: &mut Command, cards: usize) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let socket = |line: std::io::Result<String>| {
            let line = line.unwrap();
            let path = line.split_whitespace().find_map(|word| {
                word.strip_prefix("sim:").or_else(|| word.strip_prefix("serial:")?.strip_suffix("@1200"))
            });
            PathBuf::from(path.unwrap_or_else(|| panic!("no socket in `{line}`")))
        };
        let sockets: Vec<PathBuf> = lines.take(cards).map(socket).collect();
        assert_eq!(sockets.len(), cards, "the server ended");
        Self { process, sockets }
    }

    /// A card on a socket.
    pub fn card(socket: &Path, more: &[&str]) -> Self {
        Self::start(&[&["card", "--socket", socket.to_str().unwrap()], &small(more)[..]].concat(), 1)
    }

    /// Two cards on a wire, or as many on a switch as `--cards` says.
    pub fn up(folder: &Folder, more: &[&str]) -> Self {
        let path = folder.0.to_str().unwrap();
        Self::start(&[&["up", path], &small(more)[..]].concat(), cards_of(more))
    }

    /// Cards of a server that may open no more than `files` files.
    pub fn with_files(files: usize, folder: &Folder, more: &[&str]) -> Self {
        let limited = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_ferrowire-sim"), "up"]).arg(&folder.0).args(more);
        Self::run(&mut command, cards_of(more))
    }

    /// Emulated cards.
    pub fn engines(folder: &Folder, cards: usize, more: &[&str]) -> Self {
        Self::up(folder, &[&["--engine", "--cards", &cards.to_string()], more].concat())
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Asserts that it is there still.
    #[track_caller]
    pub fn lives(&mut self) {
        assert_eq!(self.process.try_wait().unwrap(), None, "the server ended");
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.process.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// SIGINT; whether it ended well.
    pub fn interrupt(mut self) -> bool {
        self.signal(rustix::process::Signal::INT);
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("it does not end");
    }

    /// The processor time that it has used.
    pub fn used(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        // The system counts hundredths of a second.
        Duration::from_millis(ticks * 10)
    }

    /// The files that it has open.
    pub fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }

    /// Its mappings of shared memory.
    pub fn mappings(&self) -> usize {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.id())).unwrap();
        maps.lines().filter(|line| line.contains("/memfd:")).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Connects.
pub fn connect(path: &Path) -> VfioUserBus {
    VfioUserBus::connect(path).unwrap_or_else(|error| panic!("{error}"))
}

/// A bus that ends when its line is cut, as that of a program that dies: nothing is given back.
pub struct Mortal(Arc<Mutex<Option<VfioUserBus>>>);

impl Mortal {
    /// The bus, and its end.
    pub fn of(bus: VfioUserBus) -> (Self, Mortal) {
        let shared = Arc::new(Mutex::new(Some(bus)));
        (Self(Arc::clone(&shared)), Self(shared))
    }

    /// Resets the card.
    pub fn reset(&self) {
        let mut bus = self.0.lock().unwrap();
        bus.as_mut().expect("not cut").reset().unwrap();
    }

    /// Ends it.
    pub fn cut(self) {
        *self.0.lock().unwrap() = None;
    }

    fn with<T>(&self, f: impl FnOnce(&mut VfioUserBus) -> Result<T, BusError>) -> Result<T, BusError> {
        self.0.lock().unwrap().as_mut().map_or(Err(BusError::Gone("cut".into())), f)
    }
}

impl Bus for Mortal {
    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
        self.with(|bus| bus.csr_read32(offset))
    }
    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        self.with(|bus| bus.csr_write32(offset, value))
    }
    fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
        self.with(|bus| bus.doorbell(offset, value))
    }
    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        self.with(|bus| bus.dma_alloc(bytes, align))
    }
    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
        self.with(|bus| bus.dma_free(buffer))
    }
    fn host_alloc(&mut self, bytes: usize, align: usize) -> Result<HostMemory, BusError> {
        self.with(|bus| bus.host_alloc(bytes, align))
    }
    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        self.with(|bus| bus.dma_map(memory, page_shift))
    }
    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
        self.with(|bus| bus.dma_unmap(mapping))
    }
    fn interrupt(&mut self, vector: u16) -> Result<Option<OwnedFd>, BusError> {
        self.with(|bus| bus.interrupt(vector))
    }
    fn needs_progress(&self) -> bool {
        true
    }
    fn progress(&mut self) -> Result<(), BusError> {
        self.with(|bus| bus.progress())
    }
}

/// The first PSN of queue pairs that are given none.
const PSN: u32 = 0x1000;

/// A card, opened as a program does.
pub struct Node {
    pub number: u8,
    /// Path MTU of the queue pairs that this node makes.
    pub mtu: PathMtu,
    /// Of these, too: the pause that it asks of a peer when it is not ready, and how often it makes one itself, as the codes of IBTA 9.7.5.2.8.
    pub not_ready: (u8, u8),
    pub events: EventQueue,
    pub cq: SharedCq,
    pub pd: ProtectionDomain,
    pub context: Context,
}

impl Node {
    pub fn open(path: &Path, number: u8) -> Self {
        Self::of(connect(path), number)
    }

    pub fn of(bus: impl Bus + 'static, number: u8) -> Self {
        let options = ContextOptions { command_timeout: PATIENCE, ..ContextOptions::default() };
        let context = Context::open_with(bus, options).unwrap();
        if context.mac() != mac(number) {
            context.set_mac(mac(number)).unwrap();
        }
        context.add_gid([10, 0, 0, number].into(), None).unwrap();
        let pd = context.alloc_pd().unwrap();
        let events = context.create_eq(16).unwrap();
        let cq = SharedCq::from(context.create_cq_with_events(64, &events).unwrap());
        Self { number, mtu: PathMtu::B1024, not_ready: (1, 7), events, cq, pd, context }
    }

    pub fn region(&self, bytes: usize) -> MemoryRegion {
        let memory = self.context.alloc(bytes, 4096).unwrap();
        self.pd.register(&memory, rights(), PageSize::Size4K).unwrap()
    }

    /// A queue pair that is connected with one of another card, or would be: to a number of a peer.
    pub fn queue_pair(&self, peer: u8, connect: impl FnOnce(u32) -> u32) -> QueuePair {
        self.queue_pair_at(peer, PSN, |own| (connect(own), PSN))
    }

    /// The same from a PSN on; `connect` gives the peer's, too.
    pub fn queue_pair_at(&self, peer: u8, psn: u32, connect: impl FnOnce(u32) -> (u32, u32)) -> QueuePair {
        let mut attr = QpInitAttr::rc(&self.cq, &self.cq);
        (attr.max_send_wr, attr.max_recv_wr) = (16, 16);
        let qp = self.pd.create_qp(&attr).unwrap();
        let (dest_qpn, rq_psn) = connect(qp.number());
        let access = AccessFlags::REMOTE;
        let init = InitAttributes::new().access(access).pkey(0xffff);
        let rtr = RtrAttributes::new()
            .av(self.way_to(peer))
            .path_mtu(self.mtu)
            .dest_qpn(dest_qpn)
            .rq_psn(Psn::new(rq_psn))
            .max_dest_rd_atomic(4)
            .min_rnr_timer(self.not_ready.0);
        let rts = RtsAttributes::new()
            .sq_psn(Psn::new(psn))
            .timeout(14)
            .retry_cnt(7)
            .rnr_retry(self.not_ready.1)
            .max_rd_atomic(4);
        let qp = qp.init(init).map_err(|step| step.error).unwrap();
        let qp = qp.rtr(rtr).map_err(|step| step.error).unwrap();
        qp.rts(rts).map_err(|step| step.error).unwrap()
    }

    /// A queue pair of UC.
    pub fn unreliable(&self, peer: u8, connect: impl FnOnce(u32) -> u32) -> QueuePair {
        let qp = self.pd.create_qp(&QpInitAttr::uc(&self.cq, &self.cq)).unwrap();
        let dest_qpn = connect(qp.number());
        let init = InitAttributes::new().access(AccessFlags::REMOTE).pkey(0xffff);
        let rtr = RtrAttributes::new().av(self.way_to(peer)).path_mtu(self.mtu);
        let rtr = rtr.dest_qpn(dest_qpn).rq_psn(Psn::new(PSN));
        let qp = qp.init(init).map_err(|step| step.error).unwrap();
        let qp = qp.rtr(rtr).map_err(|step| step.error).unwrap();
        qp.rts(RtsAttributes::new().sq_psn(Psn::new(PSN))).map_err(|step| step.error).unwrap()
    }

    fn way_to(&self, peer: u8) -> AddressVector {
        let [own, other] = [self.number, peer].map(|number| [10, 0, 0, number].into());
        AddressVector::new(mac(self.number), own, mac(peer), other)
    }

    /// Sleeps until there are completions; all of them were good.
    #[track_caller]
    pub fn completions(&self, count: usize) -> Vec<Completion> {
        let mut all = Vec::new();
        let mut some = [Completion::default(); 16];
        let end = Instant::now() + PATIENCE;
        loop {
            let n = self.cq.poll(&mut some).unwrap();
            assert!(some[..n].iter().all(Completion::is_success), "{:?}", &some[..n]);
            all.extend_from_slice(&some[..n]);
            if all.len() >= count {
                return all;
            }
            assert!(Instant::now() < end, "{} of {count} completions", all.len());
            self.cq.request_notify(false).unwrap();
            self.events.wait(&mut [Event::default(); 4], Duration::from_secs(1)).unwrap();
        }
    }
}

pub fn mac(number: u8) -> [u8; 6] {
    [2, 0xfe, 0, 0, 0, number]
}

pub fn rights() -> AccessFlags {
    AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE
}

/// Two queue pairs, connected with each other.
pub fn pair(a: &Node, b: &Node) -> (QueuePair, QueuePair) {
    let mut second = None;
    let first = a.queue_pair(b.number, |own| {
        let qp = b.queue_pair(a.number, |_| own);
        let number = qp.number();
        second = Some(qp);
        number
    });
    (first, second.unwrap())
}

/// Takes every queue pair, key and page table entry of the card.
pub fn take_everything(node: &Node) {
    let limits = node.context.capabilities().clone();
    // Two numbers of queue pairs are not for everyone.
    let qps: Vec<_> = (2..limits.max_qp).map(|_| node.queue_pair(9, |_| 5)).collect();
    assert_eq!(qps.len(), limits.max_qp as usize - 2);
    // Key 0 is nobody's.
    let each = (limits.mtt_entries / (limits.max_mr - 1)) as usize;
    let regions: Vec<_> = (1..limits.max_mr).map(|_| node.region(each * 4096)).collect();
    let memory = node.context.alloc(4096, 4096).unwrap();
    let more = node.pd.register(&memory, rights(), PageSize::Size4K);
    assert!(more.is_err(), "the card has more than it says");
    drop((qps, regions));
}
