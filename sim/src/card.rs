// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Card`]: a Verilated RNIC with its host memory and its registers, stepped a clock at a time.
//!
//! ```text
//!            +-------------------------------+
//!  CSR ----->| csr            dma_read       |----->  +------+
//!      <-----| csr_response   dma_data       |<-----  | Host |
//!  link ---->| rx             dma_write      |----->  +------+
//!      <-----| tx                  interrupt |----->  counted
//!            +-------------------------------+
//!
//!            +-------------------------------+
//!  link ---->| rx                        rq  |----->  +-------------+
//!      <-----| tx                        rc  |<-----  | RootComplex |  with its Host and CPU
//!            |                           cq  |<-----  |             |
//!            |                           cc  |----->  +-------------+
//!            +-------------------------------+
//!
//!            +-------------------------------+
//!  link ---->| rx             m_axi aw, w, b |<---->  +-------------+
//!      <-----| tx             m_axi ar, r    |<---->  | Subordinate |  with its Host
//!  CPU <---->| s_axil              interrupt |----->  +-------------+
//!            +-------------------------------+
//!
//!            +-------------------------------+
//!  link ---->| rx_axis   as before the block |----->  RootComplex
//!      <-----| tx_axis                       |<-----  with a clock of their own, of an Alveo card
//!            +-------------------------------+
//!
//!            +-------------------------------+
//!  link ---->| rx, serial_rx                 |<-----  a serial line, see [`Line`](crate::line)
//!      <-----| tx, serial_tx    with memory  |----->
//!            +-------------------------------+
//! ```
//!
//! A cycle: the inputs are set and the model settles; every stream whose valid and ready are both high passes; the
//! clock rises and falls. `tx` is looked at before the inputs are set, so that another card can have the beat in the same
//! cycle: it must come from registers.
//!
//! A card that faces PCIe is brought up as an operating system would: its BAR has a place, and each vector of its MSI-X table a message and no
//! mask. Register accesses are then reads and writes of the CPU.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use axi::AxiSide;
use cmac::CmacSide;
use dma::{DmaPorts, DmaSide};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_rtl::Netlist;
use ferrowire_serial::board::serial_card;
use ferrowire_serial::line::{Driver, Reader};
use ferrowire_serial::SerialConfig;
use ferrowire_verilator::{build, Library, Model, Options, PortError, PortId};
use pcie::PcieSide;
use ports::BeatPorts;
use serial::SerialSide;

use crate::axi::{AxiSettings, Subordinate};
use crate::host::Host;
use crate::measure;
use crate::root::RootSettings;
use crate::wire::Beat;

mod axi;
mod cmac;
mod dma;
mod pcie;
mod pcie4;
mod ports;
mod serial;

/// What a datapath carries with a beat in each cycle, in Gb/s.
pub fn datapath_gbps(beat_bytes: u32, clock_khz: u32) -> f64 {
    f64::from(beat_bytes) * 8.0 * f64::from(clock_khz) / 1e6
}

/// Cycles of reset before the first.
const RESET_CYCLES: u64 = 8;

/// A compiled card design, from which any number of cards is made.
#[derive(Clone)]
pub struct CardModel {
    library: Library,
    beat: usize,
    clock_khz: u32,
    vectors: u32,
    root: RootSettings,
    axi: AxiSettings,
    /// Of the serial line, on a board.
    baud: u32,
}

impl CardModel {
    /// The RNIC of a configuration. It is compiled once in a process, and found in the cache by the next one. It stops at an assertion of a
    /// block that does not hold: a card that goes on may hang much later.
    ///
    /// # Errors
    /// The netlist is wrong, or Verilator or the C++ compiler refuse it.
    pub fn rnic(config: &RnicConfig, trace: bool) -> Result<Self> {
        Self::with(config, trace, true)
    }

    /// The same without the assertions, which take a twentieth of the time.
    ///
    /// # Errors
    /// As [`rnic`](Self::rnic).
    pub fn unchecked(config: &RnicConfig, trace: bool) -> Result<Self> {
        Self::with(config, trace, false)
    }

    fn with(config: &RnicConfig, trace: bool, checks: bool) -> Result<Self> {
        let config = &on_axi(&on_pcie(config));
        static BUILT: Mutex<Option<HashMap<String, CardModel>>> = Mutex::new(None);
        let key = format!("{config:?}, {trace}, {checks}");
        // Held while it is built: a second one would only wait for the cache's lock.
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        let built = built.get_or_insert_with(HashMap::new);
        if let Some(model) = built.get(&key) {
            return Ok(model.clone());
        }
        let netlist = ferrowire_hdl::top::rnic(config)?;
        let model = Self::compiled(&netlist, config.beat_bytes, config.clock_khz, trace, checks)?;
        let model = Self { vectors: config.eqs, ..model };
        built.insert(key, model.clone());
        Ok(model)
    }

    /// The RNIC of a configuration on AXI4, on a board with a serial line and memory.
    ///
    /// # Errors
    /// As [`rnic`](Self::rnic).
    pub fn on_a_board(config: &RnicConfig, serial: &SerialConfig, trace: bool) -> Result<Self> {
        serial.validate()?;
        let netlist = serial_card(config, serial)?;
        let model = Self::of(&netlist, config.beat_bytes, config.clock_khz, trace)?;
        Ok(Self { baud: serial.baud, ..model })
    }

    /// All logic of an Alveo card with this RNIC, as `AlveoShell::without_blocks` has it: before AMD's PCIe block and its Ethernet block, each in its clock.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn on_an_alveo(netlist: &Netlist, config: &RnicConfig, trace: bool) -> Result<Self> {
        let model = Self::of(netlist, config.beat_bytes, config.clock_khz, trace)?;
        Ok(Self { vectors: config.eqs, ..model })
    }

    /// Any design with the ports of a card.
    ///
    /// # Errors
    /// Verilator or the C++ compiler refuse it.
    pub fn of(netlist: &Netlist, beat_bytes: u32, clock_khz: u32, trace: bool) -> Result<Self> {
        Self::compiled(netlist, beat_bytes, clock_khz, trace, true)
    }

    fn compiled(
        netlist: &Netlist,
        beat_bytes: u32,
        clock_khz: u32,
        trace: bool,
        checks: bool,
    ) -> Result<Self> {
        let options = Options { trace, opt: crate::lockstep::CARD, ..Options::default() };
        let mut source = crate::lockstep::source(netlist);
        if checks {
            source.defines.push("FERROWIRE_ASSERT".into());
        }
        let library = build(&source, &options).context("building the card's model")?;
        let (root, axi) = (RootSettings::default(), AxiSettings::default());
        Ok(Self { library, beat: beat_bytes as usize, clock_khz, vectors: 0, root, axi, baud: 1 })
    }

    /// The same design before another root complex; the latency is the host's, see [`Card::new`].
    pub fn with_root(self, root: RootSettings) -> Self {
        Self { root, ..self }
    }

    /// The same design before another subordinate; the latency of reads is the host's, see [`Card::new`].
    pub fn with_axi(self, axi: AxiSettings) -> Self {
        Self { axi, ..self }
    }

    /// The same design before a root complex or a subordinate of which a seed decides; nothing else, if it faces neither PCIe nor AXI4.
    pub fn with_random_host(self, seed: u64) -> Self {
        self.with_root(RootSettings::random(seed)).with_axi(AxiSettings::random(seed))
    }

    /// Whether the card faces PCIe.
    pub fn has_pcie(&self) -> bool {
        self.library.port("rq_valid").is_ok()
    }

    /// Whether the card is on a board, behind a serial line.
    pub fn on_board(&self) -> bool {
        self.library.port("serial_rx").is_ok()
    }

    /// Whether the card is before AMD's Ethernet block.
    pub fn has_cmac(&self) -> bool {
        self.library.port("tx_axis_valid").is_ok()
    }

    /// Whether the card faces AXI4.
    pub fn has_axi(&self) -> bool {
        self.library.port("m_axi_awvalid").is_ok()
    }

    /// Bytes a beat.
    pub fn beat_bytes(&self) -> usize {
        self.beat
    }

    /// Clock of the card.
    pub fn clock_khz(&self) -> u32 {
        self.clock_khz
    }

    /// Whether nothing had to be compiled.
    pub fn cached(&self) -> bool {
        self.library.cached()
    }
}

/// With `FERROWIRE_PCIE=1`, any configuration faces PCIe: so all tests run through the whole card.
pub fn all_face_pcie() -> bool {
    std::env::var_os("FERROWIRE_PCIE").is_some_and(|value| value == "1")
}

fn on_pcie(config: &RnicConfig) -> RnicConfig {
    if !all_face_pcie() || config.has_pcie() || config.axi {
        return config.clone();
    }
    let pcie = RnicConfig::named(if config.beat_bytes < 64 { "pcie-8b" } else { "pcie-64b" });
    match pcie {
        Ok(RnicConfig { pcie_tags, pcie_read_bytes, pcie_timeout_us, .. }) => {
            RnicConfig { pcie_tags, pcie_read_bytes, pcie_timeout_us, ..config.clone() }
        }
        Err(_) => config.clone(),
    }
}

/// With `FERROWIRE_AXI=1`, any configuration faces AXI4.
pub fn all_face_axi() -> bool {
    std::env::var_os("FERROWIRE_AXI").is_some_and(|value| value == "1")
}

fn on_axi(config: &RnicConfig) -> RnicConfig {
    if !all_face_axi() || config.axi || config.has_pcie() {
        return config.clone();
    }
    match RnicConfig::named(if config.beat_bytes < 64 { "axi-8b" } else { "axi-64b" }) {
        Ok(RnicConfig { axi, axi_burst_beats, axi_cache, .. }) => {
            RnicConfig { axi, axi_burst_beats, axi_cache, ..config.clone() }
        }
        Err(_) => config.clone(),
    }
}

/// A register access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsrAccess {
    /// Byte offset in BAR 0.
    pub address: u32,
    /// A write rather than a read.
    pub write: bool,
    /// Eight bytes rather than four.
    pub wide: bool,
    /// What is written.
    pub data: u64,
}

/// An interrupt that the card raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// The cycle.
    pub cycle: u64,
    /// The event queue that has something new.
    pub eqn: u8,
    /// Its MSI-X vector.
    pub vector: u8,
}

/// Clock and reset, and what a MAC says of the link where the model has none.
#[derive(Clone, Copy)]
struct Ports {
    clk: PortId,
    rst: PortId,
    /// Up, and its speed.
    link: Option<[PortId; 2]>,
}

impl Ports {
    fn of(library: &Library) -> Result<Self, PortError> {
        let link = library.port("link_speed").and_then(|speed| Ok([library.port("link_up")?, speed])).ok();
        Ok(Self { clk: library.port("clk")?, rst: library.port("rst")?, link })
    }
}

/// What the card's wire is.
enum WireSide {
    /// Beats, in the card's clock.
    Beats { rx: BeatPorts, tx: BeatPorts },
    /// AMD's Ethernet block.
    Cmac(Box<CmacSide>),
}

/// What the card's host is.
enum Side {
    Dma(Box<DmaSide>),
    Pcie(Box<PcieSide>),
    Axi(Box<AxiSide>),
    Serial(Box<SerialSide>),
}

/// A card and its host's memory.
pub struct Card {
    model: Model,
    ports: Ports,
    wire: WireSide,
    beat: usize,
    cycle: u64,
    side: Side,
    interrupts: VecDeque<Interrupt>,
    /// Whether the valid of `rx` is set in the model.
    driven: bool,
}

/// Longest wait for the MSI-X table to be written.
const BRING_UP: u64 = 10_000;

impl Card {
    /// A card out of reset, and a host whose reads take `latency` cycles more than the one they take at least.
    ///
    /// # Errors
    /// The model lacks a port.
    pub fn new(model: &CardModel, latency: u64) -> Result<Self> {
        let (library, beat) = (&model.library, model.beat);
        let ports = Ports::of(library).context("the model is not a card")?;
        let mut instance = library.instantiate();
        instance.set_half_period(500_000_000 / u64::from(model.clock_khz));
        let side = if model.on_board() {
            let bit = f64::from(model.clock_khz) * 1000.0 / f64::from(model.baud);
            let serial = SerialSide::new(library, bit, &mut instance);
            Side::Serial(Box::new(serial.context("the model is not a card on a board")?))
        } else if model.has_axi() {
            let axi = AxiSide::new(library, beat, AxiSettings { latency, ..model.axi.clone() });
            Side::Axi(Box::new(axi.context("the model is not a card that faces AXI4")?))
        } else if model.has_pcie() {
            let settings = RootSettings { latency, ..model.root.clone() };
            let pcie = PcieSide::new(library, beat, settings, model.vectors, &mut instance);
            Side::Pcie(Box::new(pcie.context("the model is not a card that faces PCIe")?))
        } else {
            let dma = DmaPorts::of(library).context("the model is not a card")?;
            Side::Dma(Box::new(DmaSide::new(dma, beat, latency, &mut instance)))
        };
        let interrupts = VecDeque::new();
        instance.set_u64(ports.rst, 1);
        if let Some([up, speed]) = ports.link {
            // In units of 100 Mb/s.
            let line = (measure::line_gbps(beat as u32, model.clock_khz) * 10.0).round();
            instance.set_u64(up, 1);
            instance.set_u64(speed, line as u64);
        }
        instance.ticks(ports.clk, RESET_CYCLES);
        let wire = if model.has_cmac() {
            let cmac = CmacSide::new(library, model.clock_khz, &mut instance);
            WireSide::Cmac(Box::new(cmac.context("the model is not an Alveo card")?))
        } else {
            let beats = |name| BeatPorts::of(library, name).context("the model is not a card");
            WireSide::Beats { rx: beats("rx")?, tx: beats("tx")? }
        };
        let mut card = Self { model: instance, ports, wire, beat, cycle: 0, side, interrupts, driven: false };
        if let Side::Axi(axi) = &mut card.side {
            axi.in_reset(&card.model);
        }
        card.model.set_u64(ports.rst, 0);
        if let WireSide::Beats { tx, .. } = card.wire {
            card.model.set_u64(tx.handshake.ready, 1);
        }
        card.model.eval();
        card.bring_up()?;
        Ok(card)
    }

    /// Until the card has taken what the operating system writes.
    fn bring_up(&mut self) -> Result<()> {
        while matches!(&self.side, Side::Pcie(pcie) if !pcie.idle()) {
            self.step(None, true);
            anyhow::ensure!(self.cycle < BRING_UP, "the card does not take writes of its MSI-X table");
        }
        Ok(())
    }

    /// The subordinate of a card that faces AXI4.
    pub fn axi(&self) -> Option<&Subordinate> {
        match &self.side {
            Side::Axi(axi) => Some(&axi.memory),
            _ => None,
        }
    }

    /// The subordinate of a card that faces AXI4.
    pub fn axi_mut(&mut self) -> Option<&mut Subordinate> {
        match &mut self.side {
            Side::Axi(axi) => Some(&mut axi.memory),
            _ => None,
        }
    }

    /// Whether what a card says may come before what it wrote: who looks at memory of a host behind PCIe or AXI4 may have to wait.
    pub fn writes_late(&self) -> bool {
        !matches!(self.side, Side::Dma(_))
    }

    /// Whether the card has asked the host for memory that has not come.
    pub fn reading(&self) -> bool {
        match &self.side {
            Side::Dma(dma) => dma.host.reading(),
            Side::Pcie(pcie) => pcie.root().reading(),
            Side::Axi(axi) => axi.memory.reading(),
            Side::Serial(_) => false,
        }
    }

    /// How the card broke a rule of its host's side, or of its Ethernet block, the first time.
    pub fn violation(&self) -> Option<&str> {
        if let WireSide::Cmac(cmac) = &self.wire {
            if cmac.violation().is_some() {
                return cmac.violation();
            }
        }
        match &self.side {
            Side::Dma(dma) => dma.host.violation(),
            Side::Pcie(pcie) => pcie.root().violation(),
            Side::Axi(axi) => axi.violation(),
            Side::Serial(_) => None,
        }
    }

    /// Whether the link is up from now on: the MAC says so, or the Ethernet block of an Alveo card hears its peer. Frames go on where there is no such block.
    pub fn set_link(&mut self, up: bool) {
        if let WireSide::Cmac(cmac) = &mut self.wire {
            cmac.set_hears(up);
        }
        if let Some([port, _]) = self.ports.link {
            self.model.set_u64(port, up.into());
        }
    }

    /// Writes waves to `path` from now on; the model must have been built with `trace`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open_wave(&mut self, path: &Path) -> Result<()> {
        Ok(self.model.open_fst(path)?)
    }

    /// Whether waves are being written.
    pub fn has_wave(&self) -> bool {
        self.model.has_fst()
    }

    /// Ends the waves, if there are any.
    pub fn close_wave(&mut self) {
        self.model.close_fst();
    }

    /// Cycles since reset.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// Bytes a beat.
    pub fn beat_bytes(&self) -> usize {
        self.beat
    }

    /// Its host's memory.
    pub fn host(&self) -> &Host {
        match &self.side {
            Side::Dma(dma) => &dma.host,
            Side::Pcie(pcie) => pcie.root().host(),
            Side::Axi(axi) => axi.memory.host(),
            Side::Serial(serial) => &serial.host,
        }
    }

    /// Its host's memory.
    pub fn host_mut(&mut self) -> &mut Host {
        match &mut self.side {
            Side::Dma(dma) => &mut dma.host,
            Side::Pcie(pcie) => pcie.root_mut().host_mut(),
            Side::Axi(axi) => axi.memory.host_mut(),
            Side::Serial(serial) => &mut serial.host,
        }
    }

    /// Queues a register access.
    pub fn csr(&mut self, access: CsrAccess) {
        match &mut self.side {
            Side::Dma(dma) => dma.csr.push_back(access),
            Side::Pcie(pcie) => pcie.csr(access),
            Side::Axi(axi) => axi.csr(access),
            Side::Serial(_) => {
                panic!("registers of a card on a board are behind its serial line: {access:?}")
            }
        }
    }

    /// Register accesses that the card has taken; of one that faces PCIe or AXI4, writes alone.
    pub fn csr_taken(&self) -> u64 {
        match &self.side {
            Side::Dma(dma) => dma.csr_taken,
            Side::Pcie(pcie) => pcie.root().cpu_writes_taken(),
            Side::Axi(axi) => axi.cpu.writes_taken(),
            Side::Serial(_) => 0,
        }
    }

    /// The cycle in which the card took the last of these.
    pub fn csr_taken_at(&self) -> u64 {
        match &self.side {
            Side::Dma(dma) => dma.csr_taken_at,
            Side::Pcie(pcie) => pcie.root().cpu_writes_taken_at(),
            Side::Axi(axi) => axi.cpu.writes_taken_at(),
            Side::Serial(_) => 0,
        }
    }

    /// The next answer to a read.
    pub fn csr_response(&mut self) -> Option<u64> {
        match &mut self.side {
            Side::Dma(dma) => dma.responses.pop_front(),
            Side::Pcie(pcie) => pcie.responses.pop_front(),
            Side::Axi(axi) => axi.cpu.answer(),
            Side::Serial(_) => None,
        }
    }

    /// The serial line of a card on a board, as the PC sees it: bytes to send, and bytes that have come.
    pub fn serial(&mut self) -> Option<(&mut Driver, &mut Reader)> {
        match &mut self.side {
            Side::Serial(serial) => Some((&mut serial.to_board, &mut serial.to_pc)),
            _ => None,
        }
    }

    /// The next interrupt that nobody has looked at.
    pub fn interrupt(&mut self) -> Option<Interrupt> {
        self.interrupts.pop_front()
    }

    /// The beat that the card offers to the wire in the cycle to come.
    #[inline]
    pub fn tx(&self) -> Option<Beat> {
        match &self.wire {
            WireSide::Beats { tx, .. } => tx.get(&self.model, self.beat),
            WireSide::Cmac(cmac) => cmac.tx(),
        }
    }

    /// One clock, with a beat from the wire on offer, and a wire that takes one or does not. Whether the beat was taken.
    ///
    /// # Panics
    /// If `tx` depends on inputs of the same cycle, or an assertion of the design fails.
    pub fn step(&mut self, rx: Option<&Beat>, tx_ready: bool) -> bool {
        let ports = self.ports;
        let model = &mut self.model;
        let offered = match &self.wire {
            WireSide::Beats { tx, .. } => model.get_u64(tx.handshake.valid),
            WireSide::Cmac(_) => 0,
        };
        if let WireSide::Beats { rx: port, .. } = &self.wire {
            if let Some(beat) = rx {
                port.set(model, beat, self.beat);
            }
            if rx.is_some() != self.driven {
                self.driven = rx.is_some();
                model.set_u64(port.handshake.valid, rx.is_some().into());
            }
        }
        match &mut self.side {
            Side::Dma(dma) => dma.drive(model, self.cycle),
            Side::Pcie(pcie) => pcie.drive(model, self.cycle),
            Side::Axi(axi) => axi.drive(model, self.cycle),
            Side::Serial(serial) => serial.drive(model),
        }
        if let WireSide::Beats { tx, .. } = &self.wire {
            model.set_u64(tx.handshake.ready, tx_ready.into());
        }
        model.eval();

        if let WireSide::Beats { tx, .. } = &self.wire {
            let now = model.get_u64(tx.handshake.valid);
            assert_eq!(now, offered, "tx depends on inputs of the same cycle");
        }
        match &mut self.side {
            Side::Dma(dma) => dma.take(model, self.cycle, &mut self.interrupts),
            Side::Pcie(pcie) => pcie.take(model, self.cycle, &mut self.interrupts),
            Side::Axi(axi) => axi.take(model, self.cycle, &mut self.interrupts),
            Side::Serial(serial) => serial.take(model),
        }
        let taken = match &mut self.wire {
            WireSide::Beats { rx: port, .. } => rx.is_some() && model.get_u64(port.handshake.ready) == 1,
            WireSide::Cmac(cmac) => {
                if tx_ready {
                    cmac.tx_taken();
                }
                rx.is_some_and(|beat| cmac.offer(beat))
            }
        };
        model.tick(ports.clk);
        if let WireSide::Cmac(cmac) = &mut self.wire {
            cmac.core_cycle(model);
        }
        self.cycle += 1;
        taken
    }
}
