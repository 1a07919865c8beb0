// SPDX-License-Identifier: MIT OR Apache-2.0
//! The listing "From reset to a first WRITE" of the book's page of the host interface: the test runs these steps on a card, and the page
//! must show the same steps. `FERROWIRE_WRITE_LISTING=1` puts them into the page.

use std::fmt::Write as _;
use std::path::Path;

use ferrowire::{Bus, DmaBuffer};
use ferrowire_sim::bus::World;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::config::resolve;
use ferrowire_sim::emulated::EngineWorld;
use ferrowire_sim::pair::EMULATED;
use ferrowire_spec::csr::port::GidEntry;
use ferrowire_spec::csr::{command_queue as cmdq, identity, port};
use ferrowire_spec::qp_state::{AttributeBit, QpState};
use ferrowire_spec::queue::command::{
    self, create_cq, create_qp, modify_qp, reg_mr, set_av, Access, CommandOpcode, PathMtu,
};
use ferrowire_spec::queue::command_completion::{self as completion, CommandCompletion};
use ferrowire_spec::queue::cqe::{self, Cqe, CqeOpcode};
use ferrowire_spec::queue::doorbell;
use ferrowire_spec::queue::send_wqe::{self, SendOpcode, SendWqe};
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::{Block, Layout, Register, LAYOUT_HASH};

use crate::tier;

/// The host's memory: one page for each of these, in this order.
const MEMORY: u64 = 0x10_0000_0000;
const COMMANDS: u64 = MEMORY;
const COMPLETIONS: u64 = MEMORY + 0x1000;
const CQ: u64 = MEMORY + 0x2000;
const SQ: u64 = MEMORY + 0x3000;
const RQ: u64 = MEMORY + 0x4000;
const PAGE_LIST: u64 = MEMORY + 0x5000;
const DATA: u64 = MEMORY + 0x6000;
const MEMORY_BYTES: usize = 0x7000;

/// Entries of each ring, as a power of two.
const LOG2: u8 = 4;
const PD: u32 = 1;
const CQN: u32 = 1;
const DOORBELL_PAGE: u16 = 1;
/// Where the WRITE takes its bytes from, in the own page of data, and where they go in that of the peer.
const FROM: u64 = DATA;
const TO: u64 = DATA + 0x100;
const TEXT: &[u8] = b"first WRITE";

/// What differs between the two ends of the connection.
#[derive(Clone, Copy)]
struct End {
    mac: u64,
    ip: u32,
    qpn: u32,
    psn: u32,
    key: u32,
}

const OWN: End = End { mac: 0x0200_0000_0001, ip: 0x0a00_0001, qpn: 2, psn: 0x12_3456, key: 3 << 8 | 0x5a };
const PEER: End = End { mac: 0x0200_0000_0002, ip: 0x0a00_0002, qpn: 3, psn: 0x65_4321, key: 4 << 8 | 0xc3 };

enum Step {
    Title(&'static str),
    /// The register has this value.
    Read(&'static Block, &'static Register, u32),
    /// The register has the low or high word of the layout hash, which the page does not repeat.
    Hash(&'static Register, u32, &'static str),
    Write(&'static Block, &'static Register, u32),
    /// Read until the bits of the mask have this value.
    Until(&'static Block, &'static Register, u32, u32),
    /// Put bytes into host memory.
    Store(u64, String, Vec<u8>),
    /// Read host memory until the last bit of the entry is 1; then it is this entry.
    Await(u64, String, Vec<u8>),
    Ring(u32, &'static str, String, u64),
}

/// Names and values of the fields that are not zero.
fn fields(layout: &Layout, bytes: &[u8]) -> String {
    let mut text = layout.name.to_owned();
    for field in layout.fields {
        let value = field.get(layout.order, bytes);
        if value != 0 {
            write!(text, " {}={value:#x}", field.name).unwrap();
        }
    }
    text
}

/// The steps of one end.
struct Listing {
    steps: Vec<Step>,
    commands: u16,
}

impl Listing {
    fn title(&mut self, text: &'static str) {
        self.steps.push(Step::Title(text));
    }

    fn write(&mut self, block: &'static Block, register: &'static Register, value: u32) {
        self.steps.push(Step::Write(block, register, value));
    }

    fn write_pair(
        &mut self,
        block: &'static Block,
        (lo, hi): (&'static Register, &'static Register),
        value: u64,
    ) {
        self.write(block, lo, value as u32);
        self.write(block, hi, (value >> 32) as u32);
    }

    /// Posts a command, made for this token, and waits for its completion.
    fn command(&mut self, opcode: CommandOpcode, entry: impl FnOnce(u16) -> Vec<u8>) {
        let token = self.commands;
        let bytes = entry(token);
        let slot = u64::from(token % (1 << LOG2));
        let at = COMMANDS + slot * command::BYTES as u64;
        self.steps.push(Step::Store(at, fields(opcode.layout(), &bytes), bytes));
        self.commands += 1;
        self.write(&cmdq::BLOCK, &cmdq::CMDQ_PRODUCER, self.commands.into());
        let done = CommandCompletion { token, opcode: opcode.code(), phase: true, ..Default::default() };
        let done = done.to_bytes().unwrap().to_vec();
        let at = COMPLETIONS + slot * completion::BYTES as u64;
        self.steps.push(Step::Await(at, fields(&completion::LAYOUT, &done), done));
    }

    fn modify(&mut self, own: End, state: QpState, given: &[AttributeBit], values: modify_qp::ModifyQp) {
        let attr_mask = given.iter().map(|bit| 1 << bit.code()).sum();
        self.command(CommandOpcode::ModifyQp, |token| {
            let state = state.code();
            // Attributes that are not given are ignored, and zero here.
            let entry = modify_qp::ModifyQp { token, object: own.qpn, attr_mask, state, ..values };
            entry.to_bytes().unwrap().to_vec()
        });
    }

    fn reset(&mut self) {
        self.title("1. Check that the card and the tables are of one version, and reset the card.");
        self.steps.push(Step::Read(&identity::BLOCK, &identity::MAGIC, identity::MAGIC_VALUE));
        let (lo, hi) = (&identity::LAYOUT_HASH_LO, &identity::LAYOUT_HASH_HI);
        self.steps.push(Step::Hash(lo, LAYOUT_HASH as u32, "FW_LAYOUT_HASH, bits 31:0"));
        self.steps.push(Step::Hash(hi, (LAYOUT_HASH >> 32) as u32, "FW_LAYOUT_HASH, bits 63:32"));
        let reset = mask(&cmdq::CONTROL, "reset");
        let ready = mask(&cmdq::STATUS, "ready");
        self.write(&cmdq::BLOCK, &cmdq::CONTROL, reset);
        self.steps.push(Step::Until(&cmdq::BLOCK, &cmdq::CONTROL, reset, 0));
        self.steps.push(Step::Until(&cmdq::BLOCK, &cmdq::STATUS, ready, ready));
    }

    fn command_queue(&mut self) {
        self.title("2. Give the card the command queue and its completions, 16 entries each, zeroed.");
        self.write_pair(&cmdq::BLOCK, (&cmdq::CMDQ_BASE_LO, &cmdq::CMDQ_BASE_HI), COMMANDS);
        self.write(&cmdq::BLOCK, &cmdq::CMDQ_LOG2, LOG2.into());
        self.write_pair(&cmdq::BLOCK, (&cmdq::COMPL_BASE_LO, &cmdq::COMPL_BASE_HI), COMPLETIONS);
        self.write(&cmdq::BLOCK, &cmdq::COMPL_LOG2, LOG2.into());
        self.write(&cmdq::BLOCK, &cmdq::CONTROL, mask(&cmdq::CONTROL, "enable"));
    }

    fn addresses(&mut self, own: End) {
        self.title(
            "3. Set the port's MAC address, and its IP address as GID 0 (slot: see \"Slot of a GID\").",
        );
        self.write_pair(&port::BLOCK, (&port::MAC_LO, &port::MAC_HI), own.mac);
        let salt = port::GID_SALT.reset();
        self.steps.push(Step::Read(&port::BLOCK, &port::GID_SALT, salt as u32));
        self.write(&port::BLOCK, &port::GID_IP0, own.ip);
        for register in [&port::GID_IP1, &port::GID_IP2, &port::GID_IP3, &port::GID_KIND] {
            self.write(&port::BLOCK, register, 0);
        }
        let slot = GidEntry { ip: own.ip.into(), ipv6: false, vid: None }.slot(salt as u16);
        let slot = u32::from(slot) << port::GID_WRITE.field("slot").unwrap().offset;
        self.write(&port::BLOCK, &port::GID_WRITE, slot | mask(&port::GID_WRITE, "valid"));
    }

    fn objects(&mut self, own: End) {
        self.title(
            "4. Create a protection domain, a region of one page, a completion queue and a queue pair.",
        );
        self.command(CommandOpcode::AllocPd, |token| {
            let opcode = CommandOpcode::AllocPd.code();
            command::Command { opcode, token, object: PD, ..Default::default() }.to_bytes().unwrap().to_vec()
        });
        self.steps.push(Step::Store(PAGE_LIST, "page list of the region".into(), DATA.to_le_bytes().into()));
        self.command(CommandOpcode::RegMr, |token| {
            let access = Access::LocalWrite.code() | Access::RemoteWrite.code();
            let entry = reg_mr::RegMr {
                token,
                object: own.key,
                pd: PD,
                access,
                va: DATA,
                length: 0x1000,
                page_list_addr: PAGE_LIST,
                page_count: 1,
                ..Default::default()
            };
            entry.to_bytes().unwrap().to_vec()
        });
        self.command(CommandOpcode::CreateCq, |token| {
            let (base, log2_entries, doorbell_page) = (CQ, LOG2, DOORBELL_PAGE);
            let entry = create_cq::CreateCq {
                token,
                object: CQN,
                base,
                log2_entries,
                doorbell_page,
                ..Default::default()
            };
            entry.to_bytes().unwrap().to_vec()
        });
        self.command(CommandOpcode::CreateQp, |token| {
            let entry = create_qp::CreateQp {
                token,
                object: own.qpn,
                pd: PD,
                service: Service::Rc as u8,
                doorbell_page: DOORBELL_PAGE,
                sq_base: SQ,
                sq_log2: LOG2,
                send_cqn: CQN,
                rq_base: RQ,
                rq_log2: LOG2,
                recv_cqn: CQN,
                ..Default::default()
            };
            entry.to_bytes().unwrap().to_vec()
        });
    }

    fn connect(&mut self, own: End, peer: End) {
        use AttributeBit as A;
        // Fields with a usual value have it by default; here only what is given is not zero.
        let none = modify_qp::ModifyQp { pkey: 0, sport: 0, ..Default::default() };
        self.title("5. Connect it: RESET to INIT, the address vector, INIT to RTR, RTR to RTS.");
        let init = modify_qp::ModifyQp { pkey: 0xffff, access: Access::RemoteWrite.code(), ..none };
        self.modify(own, QpState::Init, &[A::Access, A::Pkey], init);
        self.command(CommandOpcode::SetAv, |token| {
            let entry = set_av::SetAv {
                token,
                object: own.qpn,
                dst_mac: peer.mac,
                src_mac: own.mac,
                dst_ip: peer.ip.into(),
                src_ip: own.ip.into(),
                ..Default::default()
            };
            entry.to_bytes().unwrap().to_vec()
        });
        let rtr = modify_qp::ModifyQp {
            path_mtu: PathMtu::B1024.code(),
            dest_qpn: peer.qpn,
            rq_psn: peer.psn,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            ..none
        };
        let given = [A::Av, A::PathMtu, A::DestQpn, A::RqPsn, A::MaxDestRdAtomic, A::MinRnrTimer];
        self.modify(own, QpState::Rtr, &given, rtr);
        let rts = modify_qp::ModifyQp {
            sq_psn: own.psn,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: 1,
            ..none
        };
        let given = [A::SqPsn, A::Timeout, A::RetryCnt, A::RnrRetry, A::MaxRdAtomic];
        self.modify(own, QpState::Rts, &given, rts);
    }

    fn first_write(&mut self, own: End, peer: End) {
        self.title(
            "6. WRITE 11 bytes into the peer's memory. The peer has brought up its end in the same way.",
        );
        self.steps.push(Step::Store(FROM, format!("{:?}", std::str::from_utf8(TEXT).unwrap()), TEXT.into()));
        let wqe = SendWqe {
            opcode: SendOpcode::Write.code(),
            signaled: true,
            num_sge: 1,
            remote_va: TO,
            rkey: peer.key,
            sge0_addr: FROM,
            sge0_lkey: own.key,
            sge0_len: TEXT.len() as u32,
            ..Default::default()
        };
        let wqe = wqe.to_bytes().unwrap().to_vec();
        self.steps.push(Step::Store(SQ, fields(&send_wqe::LAYOUT, &wqe), wqe));
        let bell = doorbell::sq::SqDoorbell { qpn: own.qpn, producer: 1, ..Default::default() };
        self.ring("DOORBELL_SQ", doorbell::SQ, &doorbell::sq::LAYOUT, &bell.to_bytes().unwrap());
        let (opcode, byte_len) = (CqeOpcode::Write.code(), TEXT.len() as u32);
        let done = Cqe { qpn: own.qpn, opcode, byte_len, phase: true, ..Default::default() };
        let done = done.to_bytes().unwrap().to_vec();
        self.steps.push(Step::Await(CQ, fields(&cqe::LAYOUT, &done), done));
        let bell = doorbell::cq::CqDoorbell { cqn: CQN, consumer: 1, ..Default::default() };
        self.ring("DOORBELL_CQ", doorbell::CQ, &doorbell::cq::LAYOUT, &bell.to_bytes().unwrap());
    }

    fn ring(&mut self, name: &'static str, at: u32, layout: &Layout, bytes: &[u8]) {
        let value = u64::from_le_bytes(bytes.try_into().unwrap());
        self.steps.push(Step::Ring(doorbell::address(DOORBELL_PAGE, at), name, fields(layout, bytes), value));
    }

    /// From reset to RTS.
    fn bring_up(own: End, peer: End) -> Self {
        let mut all = Self { steps: Vec::new(), commands: 0 };
        all.reset();
        all.command_queue();
        all.addresses(own);
        all.objects(own);
        all.connect(own, peer);
        all
    }

    fn run(&self, bus: &mut dyn Bus, memory: &DmaBuffer) {
        for step in &self.steps {
            run(step, bus, memory);
        }
    }

    /// As the page shows it.
    fn page(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            let name = |block: &Block, register: &Register| {
                let name = format!("{}_{}", block.name, register.name).to_uppercase();
                format!("{:#06x} {name}", block.address(register))
            };
            match step {
                Step::Title(title) if text.is_empty() => writeln!(text, "# {title}"),
                Step::Title(title) => writeln!(text, "\n# {title}"),
                Step::Read(block, register, value) => {
                    writeln!(text, "read  {} = {value:#010x}", name(block, register))
                }
                Step::Hash(register, _, symbol) => {
                    writeln!(text, "read  {} = {symbol}", name(&identity::BLOCK, register))
                }
                Step::Write(block, register, value) => {
                    writeln!(text, "write {} = {value:#010x}", name(block, register))
                }
                Step::Until(block, register, mask, value) => {
                    writeln!(text, "until {} & {mask:#x} = {value:#x}", name(block, register))
                }
                Step::Store(at, what, bytes) => {
                    write!(text, "{}", entry("store", *at, what, bytes)).unwrap();
                    Ok(())
                }
                Step::Await(at, what, bytes) => {
                    write!(text, "{}", entry("await", *at, what, bytes)).unwrap();
                    Ok(())
                }
                Step::Ring(at, name, what, value) => {
                    writeln!(text, "ring  {at:#07x} {name} = {value:#018x}\n      {what}")
                }
            }
            .unwrap();
        }
        text
    }
}

fn mask(register: &Register, field: &str) -> u32 {
    let field = register.field(field).expect("a field of the register");
    (field.max() << field.offset) as u32
}

/// Bytes in host memory, 16 a line, without the lines of zeros at the end.
fn entry(verb: &str, at: u64, what: &str, bytes: &[u8]) -> String {
    let mut text = format!("{verb} {at:#x}");
    let mut column = text.len();
    for word in what.split(' ') {
        if column + 1 + word.len() > 96 {
            text.push_str("\n     ");
            column = 5;
        }
        write!(text, " {word}").unwrap();
        column += 1 + word.len();
    }
    text.push('\n');
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at / 16 + 1);
    for (line, row) in bytes.chunks(16).enumerate().take(used) {
        let row: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "      {:02x}: {}", 16 * line, row.join(" ")).unwrap();
    }
    if bytes.len() > 16 * used {
        writeln!(text, "      {:02x}: zeros, {} bytes", 16 * used, bytes.len() - 16 * used).unwrap();
    }
    text
}

/// So often a register or an entry is looked at.
const LOOKS: usize = 1_000_000;

fn run(step: &Step, bus: &mut dyn Bus, memory: &DmaBuffer) {
    let place = |at: u64| (at - MEMORY) as usize;
    match step {
        Step::Title(_) => {}
        Step::Read(block, register, value) => {
            assert_eq!(bus.csr_read32(block.address(register)), Ok(*value), "{}", register.name);
        }
        Step::Hash(register, value, _) => {
            assert_eq!(bus.csr_read32(identity::BLOCK.address(register)), Ok(*value), "{}", register.name);
        }
        Step::Write(block, register, value) => bus.csr_write32(block.address(register), *value).unwrap(),
        Step::Until(block, register, mask, value) => {
            let is = |bus: &mut dyn Bus| bus.csr_read32(block.address(register)).unwrap() & mask == *value;
            let found = (0..LOOKS).any(|_| is(bus) || bus.progress().is_err());
            assert!(found, "{} & {mask:#x} is never {value:#x}", register.name);
        }
        Step::Store(at, _, bytes) => memory.memory().write(place(*at), bytes),
        Step::Await(at, what, bytes) => {
            let mut entry = vec![0; bytes.len()];
            let found = (0..LOOKS).any(|_| {
                bus.progress().unwrap();
                memory.memory().read(place(*at), &mut entry);
                entry.last().is_some_and(|last| last & 0x80 != 0)
            });
            assert!(found, "no entry at {at:#x}: {what}");
            assert_eq!(entry, *bytes, "the entry at {at:#x}: {what}");
        }
        Step::Ring(at, _, _, value) => bus.doorbell(*at, *value).unwrap(),
    }
}

/// The buses of two cards on a wire.
fn cards(config: &str) -> [Box<dyn Bus>; 2] {
    if config == EMULATED {
        let world = EngineWorld::pair();
        return [0, 1].map(|card| Box::new(world.bus(card)) as Box<dyn Bus>);
    }
    let model = CardModel::rnic(&resolve(config).unwrap(), false).unwrap();
    let world = World::pair(&model, 0, 0).unwrap().share();
    [0, 1].map(|card| Box::new(world.bus(card)) as Box<dyn Bus>)
}

fn listing() -> Listing {
    let mut all = Listing::bring_up(OWN, PEER);
    all.first_write(OWN, PEER);
    all
}

#[test]
fn the_listing_of_the_page_brings_up_a_card_and_writes() {
    for config in tier::chosen!(["generic-8b", "generic-64b", EMULATED]) {
        let [mut own, mut peer] = cards(config);
        let memories = [&mut own, &mut peer].map(|bus| {
            let memory = bus.dma_alloc(MEMORY_BYTES, 4096).unwrap();
            assert_eq!(memory.bus_address(), MEMORY, "the addresses of the listing are those of the memory");
            memory
        });
        Listing::bring_up(PEER, OWN).run(&mut peer, &memories[1]);
        listing().run(&mut own, &memories[0]);
        let mut there = vec![0; TEXT.len()];
        let arrived = (0..LOOKS).any(|_| {
            memories[1].memory().read((TO - MEMORY) as usize, &mut there);
            there == TEXT || own.progress().is_err()
        });
        assert!(arrived && there == TEXT, "{config}: {there:x?}");
    }
}

#[test]
fn the_page_shows_the_listing_that_runs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/host-interface.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("```listing\n", "```\n");
    let from = page.find(begin).expect("the page has a listing") + begin.len();
    let to = from + page[from..].find(end).expect("the listing ends");
    let listing = listing().page();
    if std::env::var_os("FERROWIRE_WRITE_LISTING").is_some() {
        std::fs::write(&path, format!("{}{listing}{}", &page[..from], &page[to..])).unwrap();
        return;
    }
    assert!(listing.lines().all(|line| line.len() <= 100), "lines fit into 100 columns");
    assert_eq!(
        page[from..to],
        listing,
        "run this test with FERROWIRE_WRITE_LISTING=1 and look at the change"
    );
}
