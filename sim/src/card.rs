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
//! ```
//!
//! A cycle: the inputs are set and the model settles; every stream whose valid and ready are both high passes; the
//! clock rises and falls. `tx` is looked at before the inputs are set, so that another card can have the beat in the same
//! cycle: it must come from registers.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_rtl::Netlist;
use ferrowire_verilator::{build, Library, Model, OptLevel, Options, PortError, PortId};

use crate::host::Host;
use crate::wire::{Beat, MAX_BEAT};

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
}

impl CardModel {
    /// The RNIC of a configuration. It is compiled once in a process, and found in the cache by the next one.
    ///
    /// # Errors
    /// The netlist is wrong, or Verilator or the C++ compiler refuse it.
    pub fn rnic(config: &RnicConfig, trace: bool) -> Result<Self> {
        static BUILT: Mutex<Option<HashMap<(String, bool), CardModel>>> = Mutex::new(None);
        let key = (format!("{config:?}"), trace);
        // Held while it is built: a second one would only wait for the cache's lock.
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        let built = built.get_or_insert_with(HashMap::new);
        if let Some(model) = built.get(&key) {
            return Ok(model.clone());
        }
        let netlist = ferrowire_hdl::top::rnic(config)?;
        let model = Self::of(&netlist, config.beat_bytes, config.clock_khz, trace)?;
        built.insert(key, model.clone());
        Ok(model)
    }

    /// Any design with the ports of a card.
    ///
    /// # Errors
    /// Verilator or the C++ compiler refuse it.
    pub fn of(netlist: &Netlist, beat_bytes: u32, clock_khz: u32, trace: bool) -> Result<Self> {
        let options = Options { trace, opt: OptLevel::O2, ..Options::default() };
        let library =
            build(&crate::lockstep::source(netlist), &options).context("building the card's model")?;
        Ok(Self { library, beat: beat_bytes as usize, clock_khz })
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

/// A stream's handshake.
#[derive(Clone, Copy)]
struct Handshake {
    valid: PortId,
    ready: PortId,
}

/// Every port, looked up once.
#[derive(Clone, Copy)]
struct Ports {
    clk: PortId,
    rst: PortId,
    csr: Handshake,
    csr_address: PortId,
    csr_write: PortId,
    csr_wide: PortId,
    csr_data: PortId,
    csr_response: Handshake,
    csr_response_data: PortId,
    rx: Handshake,
    rx_data: PortId,
    rx_last: PortId,
    rx_empty: PortId,
    tx: Handshake,
    tx_data: PortId,
    tx_last: PortId,
    tx_empty: PortId,
    dma_read: Handshake,
    dma_read_address: PortId,
    dma_read_length: PortId,
    dma_data: Handshake,
    dma_data_data: PortId,
    dma_data_last: PortId,
    dma_data_error: PortId,
    dma_write: Handshake,
    dma_write_address: PortId,
    dma_write_length: PortId,
    dma_write_data: PortId,
    dma_write_strobe: PortId,
    dma_write_last: PortId,
    /// Valid, EQN and vector, where the design has interrupts.
    interrupt: Option<[PortId; 3]>,
}

impl Ports {
    fn of(library: &Library) -> Result<Self, PortError> {
        let port = |name: &str| library.port(name);
        let stream = |name: &str| -> Result<Handshake, PortError> {
            Ok(Handshake { valid: port(&format!("{name}_valid"))?, ready: port(&format!("{name}_ready"))? })
        };
        Ok(Self {
            clk: port("clk")?,
            rst: port("rst")?,
            csr: stream("csr")?,
            csr_address: port("csr_address")?,
            csr_write: port("csr_write")?,
            csr_wide: port("csr_wide")?,
            csr_data: port("csr_data")?,
            csr_response: stream("csr_response")?,
            csr_response_data: port("csr_response_data")?,
            rx: stream("rx")?,
            rx_data: port("rx_data")?,
            rx_last: port("rx_last")?,
            rx_empty: port("rx_empty")?,
            tx: stream("tx")?,
            tx_data: port("tx_data")?,
            tx_last: port("tx_last")?,
            tx_empty: port("tx_empty")?,
            dma_read: stream("dma_read")?,
            dma_read_address: port("dma_read_address")?,
            dma_read_length: port("dma_read_length")?,
            dma_data: stream("dma_data")?,
            dma_data_data: port("dma_data_data")?,
            dma_data_last: port("dma_data_last")?,
            dma_data_error: port("dma_data_error")?,
            dma_write: stream("dma_write")?,
            dma_write_address: port("dma_write_address")?,
            dma_write_length: port("dma_write_length")?,
            dma_write_data: port("dma_write_data")?,
            dma_write_strobe: port("dma_write_strobe")?,
            dma_write_last: port("dma_write_last")?,
            interrupt: match port("interrupt_valid") {
                Ok(valid) => Some([valid, port("interrupt_eqn")?, port("interrupt_vector")?]),
                Err(_) => None,
            },
        })
    }
}

/// A card and its host's memory.
pub struct Card {
    model: Model,
    ports: Ports,
    beat: usize,
    cycle: u64,
    host: Host,
    csr: VecDeque<CsrAccess>,
    csr_taken: u64,
    csr_taken_at: u64,
    responses: VecDeque<u64>,
    interrupts: VecDeque<Interrupt>,
    /// Whether the input's valid is set in the model: csr, rx, dma_data.
    driven: [bool; 3],
}

impl Card {
    /// A card out of reset, and a host whose reads take `latency` cycles more than the one they take at least.
    ///
    /// # Errors
    /// The model lacks a port.
    pub fn new(model: &CardModel, latency: u64) -> Result<Self> {
        let ports = Ports::of(&model.library).context("the model is not a card")?;
        let mut card = Self {
            model: model.library.instantiate(),
            ports,
            beat: model.beat,
            cycle: 0,
            host: Host::new(model.beat, latency),
            csr: VecDeque::new(),
            csr_taken: 0,
            csr_taken_at: 0,
            responses: VecDeque::new(),
            interrupts: VecDeque::new(),
            driven: [false; 3],
        };
        card.model.set_half_period(500_000_000 / u64::from(model.clock_khz));
        card.model.set_u64(ports.rst, 1);
        card.model.ticks(ports.clk, RESET_CYCLES);
        card.model.set_u64(ports.rst, 0);
        for ready in [ports.csr_response.ready, ports.dma_read.ready, ports.dma_write.ready, ports.tx.ready] {
            card.model.set_u64(ready, 1);
        }
        card.model.eval();
        Ok(card)
    }

    /// Writes waves to `path` from now on; the model must have been built with `trace`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open_wave(&mut self, path: &Path) -> Result<()> {
        Ok(self.model.open_fst(path)?)
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
        &self.host
    }

    /// Its host's memory.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Queues a register access.
    pub fn csr(&mut self, access: CsrAccess) {
        self.csr.push_back(access);
    }

    /// Register accesses that the card has taken.
    pub fn csr_taken(&self) -> u64 {
        self.csr_taken
    }

    /// The cycle in which the card took the last of these.
    pub fn csr_taken_at(&self) -> u64 {
        self.csr_taken_at
    }

    /// The next answer to a read.
    pub fn csr_response(&mut self) -> Option<u64> {
        self.responses.pop_front()
    }

    /// The next interrupt that nobody has looked at.
    pub fn interrupt(&mut self) -> Option<Interrupt> {
        self.interrupts.pop_front()
    }

    /// The beat that the card offers to the wire in the cycle to come.
    #[inline]
    pub fn tx(&self) -> Option<Beat> {
        let (model, ports) = (&self.model, &self.ports);
        (model.get_u64(ports.tx.valid) == 1).then(|| {
            let mut beat = Beat::EMPTY;
            model.get_bytes(ports.tx_data, &mut beat.data[..self.beat]);
            beat.last = model.get_u64(ports.tx_last) == 1;
            beat.empty = model.get_u64(ports.tx_empty) as u8;
            beat
        })
    }

    /// One clock, with a beat from the wire on offer, and a wire that takes one or does not. Whether the beat was taken.
    ///
    /// # Panics
    /// If `tx` depends on inputs of the same cycle, or an assertion of the design fails.
    pub fn step(&mut self, rx: Option<&Beat>, tx_ready: bool) -> bool {
        let ports = self.ports;
        let model = &mut self.model;
        let offered = model.get_u64(ports.tx.valid);

        let csr = self.csr.front();
        if let Some(access) = csr {
            model.set_u64(ports.csr_address, access.address.into());
            model.set_u64(ports.csr_write, access.write.into());
            model.set_u64(ports.csr_wide, access.wide.into());
            model.set_u64(ports.csr_data, access.data);
        }
        if let Some(beat) = rx {
            model.set_bytes(ports.rx_data, &beat.data[..self.beat]);
            model.set_u64(ports.rx_last, beat.last.into());
            model.set_u64(ports.rx_empty, beat.empty.into());
        }
        let data = self.host.read_data(self.cycle);
        if let Some((bytes, last, error)) = data {
            model.set_bytes(ports.dma_data_data, bytes);
            model.set_u64(ports.dma_data_last, last.into());
            model.set_u64(ports.dma_data_error, error.into());
        }
        let driven = [csr.is_some(), rx.is_some(), data.is_some()];
        if driven != self.driven {
            self.driven = driven;
            for (stream, valid) in [ports.csr, ports.rx, ports.dma_data].into_iter().zip(driven) {
                model.set_u64(stream.valid, valid.into());
            }
        }
        model.set_u64(ports.tx.ready, tx_ready.into());
        model.eval();

        assert_eq!(model.get_u64(ports.tx.valid), offered, "tx depends on inputs of the same cycle");
        if csr.is_some() && model.get_u64(ports.csr.ready) == 1 {
            self.csr.pop_front();
            self.csr_taken += 1;
            self.csr_taken_at = self.cycle;
        }
        if model.get_u64(ports.csr_response.valid) == 1 {
            self.responses.push_back(model.get_u64(ports.csr_response_data));
        }
        if let Some([valid, eqn, vector]) = ports.interrupt {
            if model.get_u64(valid) == 1 {
                let (eqn, vector) = (model.get_u64(eqn) as u8, model.get_u64(vector) as u8);
                self.interrupts.push_back(Interrupt { cycle: self.cycle, eqn, vector });
            }
        }
        if driven[2] && model.get_u64(ports.dma_data.ready) == 1 {
            self.host.read_data_taken();
        }
        if model.get_u64(ports.dma_write.valid) == 1 {
            let mut data = [0; MAX_BEAT];
            model.get_bytes(ports.dma_write_data, &mut data[..self.beat]);
            self.host.write_beat(
                self.cycle,
                model.get_u64(ports.dma_write_address),
                model.get_u64(ports.dma_write_length),
                &data[..self.beat],
                model.get_u64(ports.dma_write_strobe),
                model.get_u64(ports.dma_write_last) == 1,
            );
        }
        // Behind the write: a read sees what was written before it.
        if model.get_u64(ports.dma_read.valid) == 1 {
            let (address, length) = (ports.dma_read_address, ports.dma_read_length);
            self.host.read_request(self.cycle, model.get_u64(address), model.get_u64(length));
        }
        let taken = rx.is_some() && model.get_u64(ports.rx.ready) == 1;
        model.tick(ports.clk);
        self.cycle += 1;
        taken
    }
}
