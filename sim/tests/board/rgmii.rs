// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two boards as their FPGAs have them, on one Ethernet cable: everything but clock generation and the cells at the balls. Each has its own clocks, off by as much as a cable's ends may be; the
//! driver's `SerialBus` is at the serial pins.

use crate::few_tables;
use crate::tier::{here, one_of};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrowire::serial::{Line, Patience, SerialBus};
use ferrowire::{Bus, PageSize, PathMtu, RecvWr, SendWr, TrafficCounter};
use ferrowire_boards::{Board, LINKS};
use ferrowire_ddr3::{Cells, Ddr3, Sent, Timing, Ways};
use ferrowire_dram::DramConfig;
use ferrowire_rtl::Sim;
use ferrowire_serial::line::{Driver, Reader};
use ferrowire_shell::Shell;
use ferrowire_sim::lockstep;
use ferrowire_sim::pair::{bytes, post};
use ferrowire_spec::csr::port;
use ferrowire_verilator::{build, Library, Model, Options, PortId};
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

use crate::socket::rig::{pair, rights, Node};

/// A described board with few tables and a fast serial line: a card is soon there.
pub fn shell(name: &str) -> Shell {
    shell_with(name, LINKS[0])
}

/// The same, with what says whether the link is up.
fn shell_with(name: &str, link: &str) -> Shell {
    let mut board = Board::named(name).unwrap();
    board.rgmii[0].link = link.into();
    let mut card = few_tables("axi-8b");
    (card.clock_khz, card.bus_bits, card.neighbour_responder) = (50_000, 32, false);
    board.card.as_mut().unwrap().baud = card.clock_khz * 125;
    Shell::new(board, card).unwrap()
}

/// The DDR3 of a board, with the cells before it; each board's is as late as it likes.
struct Dram {
    cells: Cells,
    clock: PortId,
    sent: [PortId; 12],
    delay: [PortId; 2],
    caught: [PortId; 2],
}

impl Dram {
    /// Of a board that has one.
    fn of(library: &Library, board: &Board, index: usize) -> Option<Self> {
        let clock = library.port("memory_clk").ok()?;
        let port = |name: &str| library.port(&format!("dram_{name}")).unwrap();
        let timing = Timing { dqsck_ps: [3_000, 7_500][index], ..Timing::ddr3_1600_4gb() };
        let rows = DramConfig::row_bits_of(board.memory.as_ref().unwrap().bytes);
        let device = Ddr3::new(timing, rows, index as u64);
        Some(Self {
            cells: Cells::new(device, Ways::default(), CORE / 2 / 1_000),
            clock,
            sent: Sent::WIRES.map(port),
            delay: ["delay_load_n", "delay_step"].map(port),
            caught: ["sampled_rise", "sampled_fall"].map(port),
        })
    }

    /// An edge of its clock, at a time in femtoseconds.
    fn edge(&mut self, model: &mut Model, now: u64) {
        let sent = Sent::of(self.sent.map(|port| model.get_u64(port)));
        let [load_n, step] = self.delay.map(|port| model.get_u64(port) == 1);
        self.cells.delay(load_n, step);
        let caught = self.cells.edge(now / 1_000, sent);
        model.tick(self.clock);
        self.caught.iter().zip(caught).for_each(|(port, word)| model.set_u64(*port, word.into()));
    }
}

/// Periods, in femtoseconds.
const CORE: u64 = 20_000_000;
const WIRE: u64 = 8_000_000;
/// A hundredth of a percent each way (IEEE 802.3 35.2.2.1), of each of a board's clocks.
const OFFSETS: [i64; 2] = [1, -1];

/// Data and control, at the rising and the falling edge.
const EDGES: [&str; 4] = ["data_rise", "data_fall", "ctl_rise", "ctl_fall"];
/// What a PHY says between frames: the link is up, at 1 Gb/s, of full duplex (RGMII 2.0, table 4).
const STATUS: u64 = 0b1101;
/// What a PHY has there that says nothing.
const SILENT: u64 = 0;

struct Card {
    model: Model,
    core: PortId,
    sends: PortId,
    hears: PortId,
    serial: [PortId; 2],
    inputs: [PortId; 4],
    outputs: [PortId; 4],
    /// Whose edge is next: of the core's clock, of that with which it sends, and of DRAM's.
    next: [u64; 3],
    periods: [u64; 3],
    dram: Option<Dram>,
    to_board: Driver,
    to_pc: Reader,
}

impl Card {
    fn new(library: &Library, board: &Board, index: usize) -> Self {
        let mut model = library.instantiate();
        let port = |name: &str| library.port(name).unwrap();
        let edges = |way: &str| EDGES.map(|edge| port(&format!("rgmii0_{way}_{edge}")));
        let clocks = ["clk", "rgmii_tx_clk", "rgmii_rx_clk"].map(port);
        let serial = ["serial_rx", "serial_tx"].map(port);
        model.set_u64(serial[0], 1);
        let dram = Dram::of(library, board, index);
        let more = |name: &str| dram.is_some().then(|| port(name));
        let resets = ["rst", "rgmii_tx_rst", "rgmii_rx_rst"].map(port).into_iter().chain(more("memory_rst"));
        let resets: Vec<PortId> = resets.collect();
        resets.iter().for_each(|reset| model.set_u64(*reset, 1));
        for _ in 0..8 {
            clocks.into_iter().chain(more("memory_clk")).for_each(|clock| model.tick(clock));
        }
        resets.iter().for_each(|reset| model.set_u64(*reset, 0));
        let period = |fs: u64| fs.checked_add_signed(OFFSETS[index] * fs as i64 / 10_000).unwrap();
        let bit = 8.0;
        Self {
            core: clocks[0],
            sends: clocks[1],
            hears: clocks[2],
            serial,
            inputs: edges("rx"),
            outputs: edges("tx"),
            next: [103_000_000, 101_000_000, if dram.is_some() { 104_000_000 } else { u64::MAX }],
            // Both of one PLL.
            periods: [period(CORE) / 2 * 2, period(WIRE), period(CORE) / 2],
            dram,
            to_board: Driver::new(bit),
            to_pc: Reader::new(bit),
            model,
        }
    }
}

struct Cable {
    cards: [Card; 2],
    /// What both PHYs say between frames.
    status: u64,
    /// Femtoseconds.
    now: u64,
}

impl Cable {
    /// The next edge of one of the clocks.
    fn step(&mut self) {
        let all = (0..2).flat_map(|card| (0..3).map(move |clock| (card, clock)));
        let (card, clock) = all.min_by_key(|(card, clock)| self.cards[*card].next[*clock]).unwrap();
        let own = &mut self.cards[card];
        self.now = own.next[clock];
        own.next[clock] += own.periods[clock];
        if clock == 2 {
            let dram = own.dram.as_mut().expect("it has a clock");
            dram.edge(&mut own.model, self.now);
            return;
        }
        if clock == 0 {
            let level = own.to_board.level();
            own.model.set_u64(own.serial[0], level.into());
            own.model.tick(own.core);
            own.to_pc.take(own.model.get_u64(own.serial[1]) == 1);
            return;
        }
        let mut wires = own.outputs.map(|port| own.model.get_u64(port));
        own.model.tick(own.sends);
        if wires[2..] == [0, 0] {
            wires[..2].fill(self.status);
        }
        // The other PHY's RXC is this one's clock.
        let other = &mut self.cards[1 - card];
        other.inputs.iter().zip(wires).for_each(|(port, value)| other.model.set_u64(*port, value));
        other.model.tick(other.hears);
    }
}

/// The serial line of a board.
struct Pins {
    cable: Arc<Mutex<Cable>>,
    card: usize,
}

impl Line for Pins {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.cable.lock().unwrap().cards[self.card].to_board.push(bytes);
        Ok(())
    }

    fn receive(&mut self, out: &mut [u8], within: Duration) -> io::Result<usize> {
        let mut cable = self.cable.lock().unwrap();
        let until = cable.now + within.as_nanos() as u64 * 1_000_000;
        loop {
            let bytes = &mut cable.cards[self.card].to_pc.bytes;
            if !bytes.is_empty() {
                let n = bytes.len().min(out.len());
                out[..n].copy_from_slice(&bytes[..n]);
                bytes.drain(..n);
                return Ok(n);
            }
            if cable.now >= until {
                return Ok(0);
            }
            (0..100).for_each(|_| cable.step());
        }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.cable.lock().unwrap().now / 1_000_000)
    }

    fn cycles(&mut self) -> Option<u64> {
        None
    }
}

fn open(cable: &Arc<Mutex<Cable>>, card: usize) -> Node {
    let patience = Patience { wait: Duration::from_millis(2), tries: 3 };
    let pins = Pins { cable: Arc::clone(cable), card };
    let mut bus = SerialBus::over(pins, patience).unwrap();
    // Up, at ten times 100 Mb/s.
    assert_eq!(bus.csr_read32(port::BLOCK.address(&port::LINK)).unwrap(), 10 << 16 | 1);
    Node { mtu: PathMtu::B256, ..Node::of(bus, 1 + card as u8) }
}

/// Of the last, the description says that the link is up, and the PHYs say nothing.
#[test]
fn two_boards_write_read_send_and_do_atomics_over_their_cable() {
    let [in_band, up] = LINKS;
    let cases = [("butterstick", in_band, STATUS), ("ecpix5", in_band, STATUS), ("ecpix5", up, SILENT)];
    for (board, link, status) in one_of(here!(), cases.to_vec()) {
        exchange(&shell_with(board, link), status);
    }
}

/// Whether a board takes its link as up, in the native simulator, before a PHY that says one after the other between frames.
fn takes_link_as_up(shell: &Shell, said: [u64; 3]) -> [bool; 3] {
    let netlist = shell.without_cells().unwrap_or_else(|errors| panic!("{errors}"));
    let mut sim = Sim::new(&netlist);
    let ports = netlist.ports();
    let clocks: Vec<&str> = ports.iter().filter(|port| port.clock).map(|port| &*port.name).collect();
    // The card is not looked at: it clears its tables all the while.
    sim.check_asserts(false);
    sim.set("serial_rx", 1);
    sim.reset();
    said.map(|status| {
        ["rgmii0_rx_data_rise", "rgmii0_rx_data_fall"].iter().for_each(|wires| sim.set(wires, status));
        (0..20).for_each(|_| sim.tick_clocks(&clocks));
        sim.get("link_up") == 1
    })
}

#[test]
fn a_link_is_up_without_a_status_of_the_phy_if_the_description_says_so() {
    let slow = 0b1011;
    let up = LINKS.map(|link| takes_link_as_up(&shell_with("ecpix5", link), [SILENT, STATUS, slow]));
    assert_eq!(up, [[false, true, false], [true; 3]]);
}

/// Every byte is compared, in memory of both programs.
fn exchange(shell: &Shell, status: u64) {
    let netlist = shell.without_cells().unwrap_or_else(|errors| panic!("{errors}"));
    let options = Options { opt: lockstep::CARD, ..Options::default() };
    let library = build(&lockstep::source(&netlist), &options).unwrap();
    let cards = [0, 1].map(|card| Card::new(&library, shell.board(), card));
    let cable = Arc::new(Mutex::new(Cable { cards, status, now: 0 }));
    let nodes = [0, 1].map(|card| open(&cable, card));
    let (mut qp, mut peer) = pair(&nodes[0], &nodes[1]);
    let mut rng = SmallRng::seed_from_u64(3);
    let (place, n) = (0x358, 750);
    let regions = nodes.each_ref().map(|node| {
        let memory = node.context.alloc(place + n, 4096).unwrap().slice(place, n);
        let region = node.pd.register(&memory, rights(), PageSize::Size4K).unwrap();
        let mut data = vec![0; n];
        rng.fill_bytes(&mut data);
        region.memory().write(0, &data);
        node.context.progress().unwrap();
        region
    });
    let bytes = |side: usize| bytes(regions[side].memory());
    let mut run = |wr: SendWr<'_>| {
        post(&mut qp, &[wr.signaled()]);
        nodes[0].completions(1);
    };
    let (mut own, mut peers) = (bytes(0), bytes(1));
    run(SendWr::write(1, &[regions[0].sge(5, 550)], regions[1].remote(100)));
    peers[100..650].copy_from_slice(&own[5..555]);
    nodes[1].context.progress().unwrap();
    assert!(bytes(1) == peers, "what was written");

    // The other program writes, and what it has written is READ. It rings no doorbell, so it says so.
    regions[1].memory().write(60, &[0x77; 75]);
    peers[60..135].fill(0x77);
    nodes[1].context.progress().unwrap();
    run(SendWr::read(2, &[regions[0].sge(100, 300)], regions[1].remote(50)));
    own[100..400].copy_from_slice(&peers[50..350]);
    assert!(bytes(0) == own, "what was read");

    // A message, whose receive completes after its data.
    let mut receives = peer.start_post_recv();
    receives.post(&RecvWr::new(7, &[regions[1].sge(100, 250)])).unwrap();
    receives.ring().unwrap();
    run(SendWr::send(3, &[regions[0].sge(0, 194)]));
    let done = nodes[1].completions(1);
    assert_eq!((done[0].wr_id(), done[0].byte_len()), (7, 194));
    peers[100..294].copy_from_slice(&own[..194]);
    assert!(bytes(1) == peers, "what was received");

    // An atomic in memory that the card alone has changed since.
    run(SendWr::fetch_add(4, &[regions[0].sge(104, 8)], regions[1].remote(104), 5));
    let before = u64::from_le_bytes(peers[104..112].try_into().unwrap());
    own[104..112].copy_from_slice(&before.to_le_bytes());
    peers[104..112].copy_from_slice(&before.wrapping_add(5).to_le_bytes());
    nodes[1].context.progress().unwrap();
    assert!(bytes(0) == own && bytes(1) == peers, "what an atomic has changed");
    for node in &nodes {
        let read = |counter| node.context.traffic_counter(counter).unwrap();
        assert_eq!((read(TrafficCounter::AxiReadErrors), read(TrafficCounter::AxiWriteErrors)), (0, 0));
    }
    println!("{} us", cable.lock().unwrap().now / 1_000_000_000);
}

#[test]
fn what_a_board_is_made_of_lints_without_a_warning() {
    let boards = vec![("ecpix5", LINKS[0]), ("ecpix5", LINKS[1]), ("butterstick", LINKS[0])];
    for (name, link) in one_of(here!(), boards) {
        let modules = shell_with(name, link).modules().unwrap_or_else(|errors| panic!("{name}: {errors}"));
        for netlist in [modules.logic, modules.top] {
            lockstep::lint(&netlist).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
