// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's side of a card that faces PCIe: a root complex, and what an operating system does before a driver comes.

use std::collections::VecDeque;
use std::ops::Range;

use ferrowire_spec::csr::MSIX_TABLE;
use ferrowire_verilator::{Library, Model, PortError, PortId};

use super::pcie4::Pcie4Ports;
use super::ports::BeatPorts;
use super::{Card, CsrAccess, Interrupt, Side};
use crate::root::pcie4::{Pcie4Block, Pcie4Settings};
use crate::root::{RootComplex, RootSettings};

/// Where interrupts of a card are sent: the address of vector 0.
const INTERRUPTS: u64 = 0xffff_fee0_0000;
/// Bytes from the message of one vector to that of the next.
const STRIDE: u64 = 16;
/// Bytes of an entry of the MSI-X table.
const ENTRY: u64 = 16;

/// The four streams of plain packets.
#[derive(Clone, Copy)]
struct PciePorts {
    rq: BeatPorts,
    rc: BeatPorts,
    cq: BeatPorts,
    cc: BeatPorts,
}

impl PciePorts {
    fn of(library: &Library) -> Result<Self, PortError> {
        let beats = |name| BeatPorts::of(library, name);
        Ok(Self { rq: beats("rq")?, rc: beats("rc")?, cq: beats("cq")?, cc: beats("cc")? })
    }

    /// Sets the inputs.
    fn drive(&self, model: &mut Model, root: &mut RootComplex, cycle: u64, beat: usize) {
        for (stream, offer) in [(self.rc, root.rc(cycle)), (self.cq, root.cq(cycle))] {
            if let Some(offer) = &offer {
                stream.set(model, offer, beat);
            }
            model.set_u64(stream.handshake.valid, offer.is_some().into());
        }
        model.set_u64(self.rq.handshake.ready, root.rq_ready(cycle).into());
        model.set_u64(self.cc.handshake.ready, root.cc_ready(cycle).into());
    }

    /// Takes what passes.
    fn take(&self, model: &Model, root: &mut RootComplex, cycle: u64, beat: usize) {
        if self.rc.passes(model) {
            root.rc_taken(cycle);
        }
        if self.cq.passes(model) {
            root.cq_taken(cycle);
        }
        if let Some(beat) = self.rq.get(model, beat).filter(|_| self.rq.passes(model)) {
            root.rq_beat(cycle, &beat);
        }
        if let Some(beat) = self.cc.get(model, beat).filter(|_| self.cc.passes(model)) {
            root.cc_beat(cycle, &beat);
        }
    }
}

/// What stands between the card and the root complex.
enum Link {
    Plain(PciePorts, Box<RootComplex>),
    Pcie4(Pcie4Ports, Box<Pcie4Block>),
}

/// Sets what configuration software sets.
fn configure(library: &Library, model: &mut Model, settings: &RootSettings) -> Result<(), PortError> {
    // The code of a size in the device control register.
    let code = |bytes: u32| u64::from(bytes.trailing_zeros() - 7);
    for (name, value) in [
        ("requester", settings.requester.into()),
        ("bus_master", 1),
        ("max_payload", code(settings.max_payload)),
        ("max_read_request", code(settings.max_read_request)),
        ("extended_tags", settings.extended_tags.into()),
        ("relaxed_ordering", settings.relaxed_ordering.into()),
        ("msix_enable", 1),
        ("msix_mask", 0),
    ] {
        model.set_u64(library.port(&format!("pcie_{name}"))?, value);
    }
    Ok(())
}

/// What a function level reset changes in the configuration space, and its handshake.
#[derive(Clone, Copy)]
struct Function {
    bus_master: PortId,
    msix_enable: PortId,
    msix_mask: PortId,
    flr: PortId,
    flr_done: PortId,
}

impl Function {
    fn of(library: &Library) -> Result<Self, PortError> {
        let port = |name: &str| library.port(&format!("pcie_{name}"));
        Ok(Self {
            bus_master: port("bus_master")?,
            msix_enable: port("msix_enable")?,
            msix_mask: port("msix_mask")?,
            flr: port("flr")?,
            flr_done: port("flr_done")?,
        })
    }
}

/// The root complex, and what of the CPU's accesses is known.
pub struct PcieSide {
    link: Link,
    beat: usize,
    vectors: u32,
    function: Function,
    pub responses: VecDeque<u64>,
}

impl PcieSide {
    pub fn new(
        library: &Library,
        beat: usize,
        settings: RootSettings,
        vectors: u32,
        model: &mut Model,
    ) -> Result<Self, PortError> {
        configure(library, model, &settings)?;
        let link = match library.port("rq_keep") {
            Ok(_) => {
                let block = Pcie4Settings { straddle: true, bar0_bits: 24, ..Pcie4Settings::default() };
                Link::Pcie4(Pcie4Ports::of(library)?, Box::new(Pcie4Block::new(block, settings)))
            }
            Err(_) => Link::Plain(PciePorts::of(library)?, Box::new(RootComplex::new(beat, settings))),
        };
        let function = Function::of(library)?;
        let mut side = Self { link, beat, vectors, function, responses: VecDeque::new() };
        let window = side.interrupt_window();
        side.root_mut().set_interrupt_window(window);
        side.write_messages();
        Ok(side)
    }

    /// Gives each vector its message.
    fn write_messages(&mut self) {
        for vector in 0..u64::from(self.vectors) {
            let at = u64::from(MSIX_TABLE) + ENTRY * vector;
            let root = self.root_mut();
            root.cpu_write(at, &(INTERRUPTS + STRIDE * vector).to_le_bytes());
            // The message in the low half; in the high half no mask.
            root.cpu_write(at + 8, &vector.to_le_bytes());
        }
    }

    /// Lets the card send requests, or not.
    pub fn set_bus_master(&self, model: &mut Model, may: bool) {
        model.set_u64(self.function.bus_master, may.into());
    }

    /// Lets the card send interrupts, or not; masks all vectors, or only those that the table does.
    pub fn set_interrupts(&self, model: &mut Model, enable: bool, mask: bool) {
        model.set_u64(self.function.msix_enable, enable.into());
        model.set_u64(self.function.msix_mask, mask.into());
    }

    /// The addresses at which interrupts are taken for what they are.
    pub fn interrupt_window(&self) -> Range<u64> {
        INTERRUPTS..INTERRUPTS + u64::from(self.vectors) * STRIDE
    }

    /// Begins a function level reset: the configuration space has lost what software set.
    pub fn begin_function_reset(&self, model: &mut Model) {
        for (port, value) in
            [(self.function.flr, 1), (self.function.bus_master, 0), (self.function.msix_enable, 0)]
        {
            model.set_u64(port, value);
        }
    }

    /// Whether the card says that it is done.
    pub fn function_reset_done(&self, model: &Model) -> bool {
        model.get_u64(self.function.flr_done) == 1
    }

    /// Ends it: software sets everything anew.
    pub fn end_function_reset(&mut self, model: &mut Model) {
        for (port, value) in
            [(self.function.flr, 0), (self.function.bus_master, 1), (self.function.msix_enable, 1)]
        {
            model.set_u64(port, value);
        }
        self.write_messages();
    }

    pub fn root(&self) -> &RootComplex {
        match &self.link {
            Link::Plain(_, root) => root,
            Link::Pcie4(_, block) => &block.root,
        }
    }

    pub fn root_mut(&mut self) -> &mut RootComplex {
        match &mut self.link {
            Link::Plain(_, root) => root,
            Link::Pcie4(_, block) => &mut block.root,
        }
    }

    /// Reads that came to AMD's block without a credit, and held up what was behind them.
    pub fn held_reads(&self) -> u64 {
        match &self.link {
            Link::Plain(..) => 0,
            Link::Pcie4(_, block) => block.held_reads(),
        }
    }

    /// Whether nothing is under way.
    pub fn idle(&self) -> bool {
        match &self.link {
            Link::Plain(_, root) => root.idle(),
            Link::Pcie4(_, block) => block.idle(),
        }
    }

    pub fn csr(&mut self, access: CsrAccess) {
        let bytes = if access.wide { 8 } else { 4 };
        match access.write {
            true => self.root_mut().cpu_write(access.address.into(), &access.data.to_le_bytes()[..bytes]),
            false => {
                self.root_mut().cpu_read(access.address.into(), bytes);
            }
        }
    }

    /// Sets the inputs.
    pub fn drive(&mut self, model: &mut Model, cycle: u64) {
        match &mut self.link {
            Link::Plain(ports, root) => ports.drive(model, root, cycle, self.beat),
            Link::Pcie4(ports, block) => ports.drive(model, block, cycle),
        }
    }

    /// Takes what passes.
    pub fn take(&mut self, model: &Model, cycle: u64, interrupts: &mut VecDeque<Interrupt>) {
        let root = match &mut self.link {
            Link::Plain(ports, root) => {
                ports.take(model, root, cycle, self.beat);
                root
            }
            Link::Pcie4(ports, block) => {
                ports.take(model, block, cycle);
                &mut block.root
            }
        };
        while let Some((_, answer)) = root.answer() {
            // What is not answered as it should be shows as a card that is gone.
            let bytes = answer.unwrap_or_else(|_| vec![0xff; 8]);
            let mut word = [0; 8];
            let length = bytes.len().min(word.len());
            word[..length].copy_from_slice(&bytes[..length]);
            self.responses.push_back(u64::from_le_bytes(word));
        }
        while let Some((cycle, address, data)) = root.interrupt() {
            let vector = ((address - INTERRUPTS) / STRIDE) as u8;
            // Each event queue has a vector of its own number: the driver makes it so.
            let data_fits = u64::from(data) == u64::from(vector);
            interrupts.push_back(Interrupt { cycle, eqn: if data_fits { vector } else { 0 }, vector });
        }
    }
}

/// What cards have that face PCIe.
impl Card {
    /// The root complex of a card that faces PCIe.
    pub fn root(&self) -> Option<&RootComplex> {
        match &self.side {
            Side::Pcie(pcie) => Some(pcie.root()),
            _ => None,
        }
    }

    /// The root complex of a card that faces PCIe.
    pub fn root_mut(&mut self) -> Option<&mut RootComplex> {
        match &mut self.side {
            Side::Pcie(pcie) => Some(pcie.root_mut()),
            _ => None,
        }
    }

    /// Reads of a card before AMD's block that came without a credit, and held up the writes behind them.
    pub fn held_reads(&self) -> u64 {
        match &self.side {
            Side::Pcie(pcie) => pcie.held_reads(),
            _ => 0,
        }
    }

    /// Lets a card that faces PCIe send requests from now on, or not, as software does by the command register. Whether the card has such a thing.
    pub fn set_bus_master(&mut self, may: bool) -> bool {
        let Side::Pcie(pcie) = &self.side else { return false };
        pcie.set_bus_master(&mut self.model, may);
        true
    }

    /// Lets a card that faces PCIe send interrupts, or not, and masks all its vectors, as software does by MSI-X message control (PCIe 7.7.2.2).
    /// Whether the card has such a thing.
    pub fn set_interrupts(&mut self, enable: bool, mask: bool) -> bool {
        let Side::Pcie(pcie) = &self.side else { return false };
        pcie.set_interrupts(&mut self.model, enable, mask);
        true
    }

    /// Addresses that are interrupts and no memory, for a card that faces PCIe.
    pub fn interrupt_window(&self) -> Range<u64> {
        match &self.side {
            Side::Pcie(pcie) => pcie.interrupt_window(),
            _ => 0..0,
        }
    }

    /// Begins a function level reset (PCIe 6.6.2) of a card that faces PCIe: from now on it is no bus master and may not interrupt. Whether the card has such
    /// a thing.
    pub fn begin_function_reset(&mut self) -> bool {
        let Side::Pcie(pcie) = &self.side else { return false };
        pcie.begin_function_reset(&mut self.model);
        true
    }

    /// Whether the card has done what a function level reset asks of it.
    pub fn function_reset_done(&self) -> bool {
        matches!(&self.side, Side::Pcie(pcie) if pcie.function_reset_done(&self.model))
    }

    /// Ends a function level reset: software makes the card a bus master, lets it interrupt, and queues what it writes to the MSI-X table.
    pub fn end_function_reset(&mut self) {
        if let Side::Pcie(pcie) = &mut self.side {
            pcie.end_function_reset(&mut self.model);
        }
    }

    /// Whether a card that faces PCIe has taken and answered all that it was asked, and asks nothing itself.
    pub fn pcie_idle(&self) -> bool {
        matches!(&self.side, Side::Pcie(pcie) if pcie.idle())
    }
}
