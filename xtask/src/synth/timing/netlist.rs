// SPDX-License-Identifier: MIT OR Apache-2.0
//! A flat netlist of UltraScale+ as arcs that take time, and what paths begin and end at.
//!
//! Nothing begins at a constant. Carry chains are followed output by output. A cell is one end for each clock it has, whatever
//! input is late, so that ends can be counted as Vivado counts endpoints of cells. Inverted clocks count as their own clock.

use std::collections::HashMap;

use anyhow::{bail, Result};

use super::border::{is_clock_cell, Block, Border, RNIC};
use super::delays::Delays;
use crate::flow::blif::{is_constant, Cell, Model};
use crate::synth::cells::{carry, index, lut_ram};

/// A net by its number.
pub type Net = u32;

/// The way from a net to another one through a cell.
pub struct Arc {
    pub from: Net,
    pub to: Net,
    /// Of the cell.
    pub ns: f64,
    /// Whether the net in front of it stays inside a CLB.
    pub local: bool,
    pub kind: Kind,
}

/// What a path goes through, begins or ends at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Port,
    Flop,
    Lut,
    Mux,
    Carry,
    LutRam,
    Shift,
    Bram,
    Uram,
    Dsp,
    /// One of AMD's, which is not mapped.
    Block,
    Alias,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Port => "port",
            Kind::Flop => "FF",
            Kind::Lut => "LUT",
            Kind::Mux => "MUXF",
            Kind::Carry => "carry",
            Kind::LutRam => "LUT RAM",
            Kind::Shift => "SRL",
            Kind::Bram => "BRAM",
            Kind::Uram => "URAM",
            Kind::Dsp => "DSP",
            Kind::Block => "block",
            Kind::Alias => "alias",
        }
    }
}

/// Where paths begin.
pub struct Start {
    pub net: Net,
    /// From the clock's edge on.
    pub ns: f64,
    pub clock: Option<Net>,
    pub kind: Kind,
}

/// Where a path ends: an input of a cell.
pub struct End {
    pub net: Net,
    pub setup: f64,
    /// The endpoint by its number.
    pub point: u32,
    pub pin: String,
}

/// A cell that keeps something, in one of its clocks; or an input of one of AMD's blocks.
pub struct Point {
    /// Its first output, which names it; the net at the input of a block.
    pub out: Net,
    pub clock: Option<Net>,
    pub kind: Kind,
}

/// The netlist.
#[derive(Default)]
pub struct Netlist<'a> {
    pub nets: Vec<&'a str>,
    pub loads: Vec<u32>,
    pub arcs: Vec<Arc>,
    pub starts: Vec<Start>,
    pub ends: Vec<End>,
    pub points: Vec<Point>,
    /// Output ports of the top.
    pub outputs: Vec<Net>,
    /// Clocks that AMD's blocks give, by the pin.
    pub clocks: HashMap<&'static str, Net>,
    /// Pins that no clock times.
    pub cut: Vec<(Net, String)>,
    numbers: HashMap<&'a str, Net>,
}

/// A pin of a cell, without the number in brackets.
struct Pin<'a> {
    name: &'a str,
    base: &'a str,
    bit: u32,
    net: Net,
}

impl<'a> Netlist<'a> {
    /// Reads the top of a flat netlist.
    ///
    /// # Errors
    /// A cell that is not known here.
    pub fn read(model: &Model<'a>, delays: &Delays, border: &Border) -> Result<Netlist<'a>> {
        let mut all = Netlist::default();
        for (from, to) in model.aliases.iter().filter(|(from, _)| !is_constant(from)) {
            let (from, to) = (all.net(from), all.net(to));
            all.arc(from, to, 0.0, true, Kind::Alias);
        }
        for cell in &model.cells {
            let pins: Vec<Pin<'a>> = cell
                .pins
                .iter()
                .filter(|(_, net)| !is_constant(net))
                .map(|(name, net)| Pin {
                    name,
                    base: name.split('[').next().unwrap_or(name),
                    bit: index(name).unwrap_or(0),
                    net: all.net(net),
                })
                .collect();
            all.cell(cell, &pins, delays, border)?;
        }
        all.outputs = model.outputs.iter().filter_map(|name| all.numbers.get(name).copied()).collect();
        Ok(all)
    }

    fn net(&mut self, name: &'a str) -> Net {
        *self.numbers.entry(name).or_insert_with(|| {
            self.nets.push(name);
            self.loads.push(0);
            self.nets.len() as Net - 1
        })
    }

    fn arc(&mut self, from: Net, to: Net, ns: f64, local: bool, kind: Kind) {
        self.arcs.push(Arc { from, to, ns, local, kind });
    }

    fn load(&mut self, pin: &Pin<'_>) {
        self.loads[pin.net as usize] += 1;
    }

    fn start(&mut self, net: Net, ns: f64, clock: Option<Net>, kind: Kind) {
        self.starts.push(Start { net, ns, clock, kind });
    }

    fn cell(&mut self, cell: &Cell<'a>, pins: &[Pin<'a>], delays: &Delays, border: &Border) -> Result<()> {
        if let Some(block) = Block::of(cell.kind) {
            return self.block(block, pins, delays, border);
        }
        match cell.kind {
            "LUT1" | "LUT2" | "LUT3" | "LUT4" | "LUT5" | "LUT6" | "INV" => {
                let Some(out) = net_of(pins, "O") else { return Ok(()) };
                for pin in pins.iter().filter(|pin| pin.base != "O") {
                    self.arc(pin.net, out, delays.lut, false, Kind::Lut);
                    self.load(pin);
                }
            }
            "MUXF7" | "MUXF8" | "MUXF9" => {
                let Some(out) = net_of(pins, "O") else { return Ok(()) };
                for pin in pins.iter().filter(|pin| pin.base != "O") {
                    let selects = pin.base == "S";
                    let ns = if selects { delays.mux_select } else { delays.mux_data };
                    self.arc(pin.net, out, ns, !selects, Kind::Mux);
                    self.loads[pin.net as usize] += u32::from(selects);
                }
            }
            "CARRY4" | "CARRY8" => self.carry(pins, delays),
            "FDRE" | "FDSE" | "FDCE" | "FDPE" | "FDRE_1" | "FDSE_1" | "FDCE_1" | "FDPE_1" => {
                let Some(out) = net_of(pins, "Q") else { return Ok(()) };
                let clock = net_of(pins, "C");
                self.start(out, delays.ff_out, clock, Kind::Flop);
                let point = self.point(out, clock, Kind::Flop);
                for pin in pins.iter().filter(|pin| !matches!(pin.base, "Q" | "C")) {
                    if border.cuts(self.nets[out as usize], pin.base) {
                        self.load(pin);
                        self.cut.push((out, pin.base.into()));
                        continue;
                    }
                    let setup = if pin.base == "D" { delays.ff_data } else { delays.ff_control };
                    self.end(pin, setup, point);
                }
            }
            "SRL16E" | "SRLC16E" | "SRLC32E" => self.shift(pins, delays),
            "DSP48E2" => self.dsp(cell, pins, delays),
            "URAM288" | "URAM288_BASE" => self.uram(cell, pins, delays),
            "RAMB18E1" | "RAMB36E1" | "RAMB18E2" | "RAMB36E2" => self.bram(cell, pins, delays),
            _ if cell.kind.starts_with("RAM") => self.lut_ram(cell, pins, delays),
            "BUFG" | "BUFGCE" | "IBUF" | "OBUF" | "VCC" | "GND" => {}
            _ if is_clock_cell(cell.kind) => {}
            RNIC if !border.is_open() => pins.iter().for_each(|pin| self.load(pin)),
            _ => bail!("the cell {} is not known to the estimate of time", cell.kind),
        }
        Ok(())
    }

    fn point(&mut self, out: Net, clock: Option<Net>, kind: Kind) -> u32 {
        self.points.push(Point { out, clock, kind });
        self.points.len() as u32 - 1
    }

    fn end(&mut self, pin: &Pin<'_>, setup: f64, point: u32) {
        self.load(pin);
        self.ends.push(End { net: pin.net, setup, point, pin: pin.base.into() });
    }

    /// Paths begin at outputs of one of AMD's blocks and end at its inputs, each of which is an endpoint.
    fn block(&mut self, block: &Block, pins: &[Pin<'a>], delays: &Delays, border: &Border) -> Result<()> {
        let outputs = border.outputs(block)?;
        let (out_ns, setup) = block.delays(delays);
        if let Some(net) = net_of(pins, block.clock) {
            self.clocks.insert(block.clock, net);
        }
        for pin in pins {
            let clock = block.clock_of(pin.base).map(|clock| net_of(pins, clock));
            match (clock, outputs.contains(pin.base)) {
                (Some(clock), true) => self.start(pin.net, out_ns, clock, Kind::Block),
                (Some(clock), false) => {
                    let point = self.point(pin.net, clock, Kind::Block);
                    self.end(pin, setup, point);
                }
                (None, true) => {}
                (None, false) => self.load(pin),
            }
        }
        Ok(())
    }

    fn carry(&mut self, pins: &[Pin<'a>], delays: &Delays) {
        for out in pins.iter().filter(|pin| matches!(pin.base, "O" | "CO")) {
            for pin in pins.iter().filter(|pin| carry(pin.name, out.name)) {
                let (ns, local) = match (pin.base, out.base) {
                    ("S", "O") if pin.bit == out.bit => (delays.carry_sum, true),
                    ("S", _) => (delays.carry_across, true),
                    ("DI", _) => (delays.carry_across, false),
                    (_, "CO") => (delays.carry_carry, true),
                    _ => (delays.carry_in_sum, true),
                };
                self.arc(pin.net, out.net, ns, local, Kind::Carry);
            }
        }
        pins.iter().filter(|pin| pin.base == "DI").for_each(|pin| self.load(pin));
    }

    fn shift(&mut self, pins: &[Pin<'a>], delays: &Delays) {
        let clock = net_of(pins, "CLK");
        let outs: Vec<Net> = ["Q", "Q15", "Q31"].iter().filter_map(|name| net_of(pins, name)).collect();
        let Some(first) = outs.first() else { return };
        outs.iter().for_each(|out| self.start(*out, delays.srl_out, clock, Kind::Shift));
        let point = self.point(*first, clock, Kind::Shift);
        for pin in pins.iter().filter(|pin| !matches!(pin.base, "CLK" | "Q" | "Q15" | "Q31")) {
            if pin.base.starts_with('A') {
                self.load(pin);
                // The last bit of all does not depend on the address.
                if let Some(out) = net_of(pins, "Q") {
                    self.arc(pin.net, out, delays.lutram_read, false, Kind::Shift);
                }
            } else {
                self.end(pin, delays.srl_write, point);
            }
        }
    }

    fn lut_ram(&mut self, cell: &Cell<'a>, pins: &[Pin<'a>], delays: &Delays) {
        let is_out = |pin: &&Pin<'_>| ["DO", "DPO", "SPO", "O"].iter().any(|out| pin.base.starts_with(out));
        let clock = net_of(pins, "WCLK").or(net_of(pins, "CLK"));
        let outs: Vec<&Pin<'a>> = pins.iter().filter(is_out).collect();
        outs.iter().for_each(|out| self.start(out.net, delays.lutram_out, clock, Kind::LutRam));
        let point = outs.first().map(|first| self.point(first.net, clock, Kind::LutRam));
        let write = match cell.kind {
            "RAM32M" | "RAM64M" => "ADDRD",
            _ => "ADDRH",
        };
        for pin in pins.iter().filter(|pin| !is_out(pin) && !matches!(pin.base, "WCLK" | "CLK")) {
            for out in outs.iter().filter(|out| lut_ram(pin.name, out.name)) {
                self.arc(pin.net, out.net, delays.lutram_read, false, Kind::LutRam);
            }
            let plain = pin.base.trim_end_matches(|c: char| c.is_ascii_digit());
            let keeps = plain.starts_with("DI") || matches!(plain, "D" | "WE" | "A") || plain == write;
            match point.filter(|_| keeps) {
                Some(point) => self.end(pin, delays.lutram_write, point),
                None => self.load(pin),
            }
        }
    }

    /// A block RAM has two ports, of a clock each. Where it is wide, all data are read by one and written by the other
    /// (UG573, simple dual port).
    fn bram(&mut self, cell: &Cell<'a>, pins: &[Pin<'a>], delays: &Delays) {
        let narrow = if cell.kind.starts_with("RAMB18") { 18 } else { 36 };
        let wide = |name: &str| cell.number(name).is_some_and(|width| width > narrow);
        let simple = wide("READ_WIDTH_A") || wide("WRITE_WIDTH_B");
        let clocks = [net_of(pins, "CLKARDCLK"), net_of(pins, "CLKBWRCLK")];
        let is_b = |pin: &Pin<'_>| {
            let base = pin.base;
            let is = matches!(
                base,
                "ADDRBWRADDR" | "ENBWREN" | "WEBWE" | "RSTREGB" | "RSTRAMB" | "REGCEB" | "ADDRENB"
            );
            is || ["DINB", "DINPB", "DOUTB", "DOUTPB", "DIB", "DIPB", "DOB", "DOPB"]
                .iter()
                .any(|b| base.starts_with(b))
                || base.starts_with("CAS") && base.ends_with('B')
        };
        let is_out = |pin: &Pin<'_>| {
            ["DO", "CASDO", "CASOUT", "CASCADEOUT", "SBITERR", "DBITERR", "ECCPARITY", "RDADDRECC"]
                .iter()
                .any(|out| pin.base.starts_with(out))
                && !pin.base.starts_with("CASDOMUX")
        };
        let clock = |pin: &Pin<'_>| {
            let data = pin.base.starts_with("DIN") || pin.base.starts_with("DI");
            clocks[match simple {
                true if is_out(pin) => 0,
                true if data => 1,
                _ => usize::from(is_b(pin)),
            }]
        };
        let registered =
            |pin: &Pin<'_>| cell.number(if is_b(pin) { "DOB_REG" } else { "DOA_REG" }) == Some(1);
        let out_ns = |pin: &Pin<'_>| if registered(pin) { delays.bram_register_out } else { delays.bram_out };
        let setup = |pin: &Pin<'_>| match pin.base {
            base if base.starts_with("ADDR") && !base.starts_with("ADDREN") => delays.bram_address,
            base if base.starts_with("EN") || base.starts_with("WE") => delays.bram_enable,
            _ => delays.bram_data,
        };
        let cascades = |pin: &Pin<'_>, out: &Pin<'_>| {
            let Some(data) = pin.base.strip_prefix("CASDIN") else { return false };
            let goes = |prefix: &str| out.base.strip_prefix(prefix).is_some_and(|to| to.starts_with(data));
            !registered(pin) && pin.bit == out.bit && (goes("CASDOUT") || goes("DOUT"))
        };
        let memory = Memory { kind: Kind::Bram, cascade: delays.bram_cascade };
        self.memory(&memory, pins, &is_out, &clock, &out_ns, &setup, &cascades);
    }

    /// An UltraRAM has two ports of one clock.
    fn uram(&mut self, cell: &Cell<'a>, pins: &[Pin<'a>], delays: &Delays) {
        let own = net_of(pins, "CLK");
        let on = |name: &str, pin: &Pin<'_>| {
            let port = if pin.base.ends_with("_B") { "B" } else { "A" };
            cell.number(&format!("{name}_{port}")) == Some(1)
        };
        let is_out = |pin: &Pin<'_>| {
            ["DOUT", "CAS_OUT", "RDACCESS", "SBITERR", "DBITERR"].iter().any(|out| pin.base.starts_with(out))
        };
        let out_ns = |pin: &Pin<'_>| if on("OREG", pin) { delays.uram_register_out } else { delays.uram_out };
        let setup = |pin: &Pin<'_>| match pin.base {
            base if base.starts_with("ADDR") => delays.uram_address,
            base if ["EN", "BWE", "RDB_WR"].iter().any(|enable| base.starts_with(enable)) => {
                delays.uram_enable
            }
            _ => delays.uram_data,
        };
        let cascades = |pin: &Pin<'_>, out: &Pin<'_>| {
            let Some(rest) = pin.base.strip_prefix("CAS_IN_") else { return false };
            let on_way = out.base.strip_prefix("CAS_OUT_") == Some(rest);
            let out_of_it = rest == out.base && !on("OREG", pin);
            !on("REG_CAS", pin) && pin.bit == out.bit && (on_way || out_of_it)
        };
        let memory = Memory { kind: Kind::Uram, cascade: delays.uram_cascade };
        self.memory(&memory, pins, &is_out, &|_| own, &out_ns, &setup, &cascades);
    }

    #[allow(clippy::too_many_arguments)]
    fn memory(
        &mut self,
        memory: &Memory,
        pins: &[Pin<'a>],
        is_out: &dyn Fn(&Pin<'_>) -> bool,
        clock: &dyn Fn(&Pin<'_>) -> Option<Net>,
        out_ns: &dyn Fn(&Pin<'_>) -> f64,
        setup: &dyn Fn(&Pin<'_>) -> f64,
        cascades: &dyn Fn(&Pin<'_>, &Pin<'_>) -> bool,
    ) {
        let outs: Vec<&Pin<'a>> = pins.iter().filter(|pin| is_out(pin)).collect();
        outs.iter().for_each(|out| self.start(out.net, out_ns(out), clock(out), memory.kind));
        let mut points: Vec<(Option<Net>, u32)> = Vec::new();
        for pin in pins.iter().filter(|pin| !is_out(pin) && !pin.base.starts_with("CLK")) {
            let Some(first) = outs.first() else {
                self.load(pin);
                continue;
            };
            let passes: Vec<Net> = outs.iter().filter(|out| cascades(pin, out)).map(|out| out.net).collect();
            if !passes.is_empty() {
                passes.into_iter().for_each(|out| self.arc(pin.net, out, memory.cascade, true, memory.kind));
                continue;
            }
            let own = clock(pin);
            let point = match points.iter().find(|(clock, _)| *clock == own) {
                Some((_, point)) => *point,
                None => {
                    let point = self.point(first.net, own, memory.kind);
                    points.push((own, point));
                    point
                }
            };
            self.end(pin, setup(pin), point);
        }
    }

    /// A multiplier: registers at its inputs, after the product (M) and at its output (P), each there or not (UG579).
    fn dsp(&mut self, cell: &Cell<'a>, pins: &[Pin<'a>], delays: &Delays) {
        let on = |name: &str| cell.number(name).is_some_and(|registers| registers > 0);
        let (product, last) = (on("MREG"), on("PREG"));
        const OUTS: [&str; 12] = [
            "P",
            "PCOUT",
            "ACOUT",
            "BCOUT",
            "CARRYOUT",
            "CARRYCASCOUT",
            "MULTSIGNOUT",
            "OVERFLOW",
            "UNDERFLOW",
            "PATTERNDETECT",
            "PATTERNBDETECT",
            "XOROUT",
        ];
        let own_register = |pin: &Pin<'_>| match pin.base {
            "A" | "ACIN" => on("AREG"),
            "B" | "BCIN" => on("BREG"),
            "C" | "D" | "INMODE" | "OPMODE" | "ALUMODE" | "CARRYIN" | "CARRYINSEL" => {
                on(&format!("{}REG", pin.base))
            }
            base => base.starts_with("CE") || base.starts_with("RST"),
        };
        let is_factor = |pin: &Pin<'_>| matches!(pin.base, "A" | "B" | "D" | "ACIN" | "BCIN" | "INMODE");
        let outs: Vec<&Pin<'a>> = pins.iter().filter(|pin| OUTS.contains(&pin.base)).collect();
        let Some(first) = outs.first().map(|out| out.net) else { return };
        let clock = net_of(pins, "CLK");
        let inputs = || pins.iter().filter(|pin| !OUTS.contains(&pin.base) && pin.base != "CLK");
        let begins = if last {
            Some(delays.dsp_out)
        } else if product {
            Some(delays.dsp_sum_out)
        } else {
            inputs().any(own_register).then_some(delays.dsp_product_out)
        };
        if let Some(ns) = begins {
            outs.iter().for_each(|out| self.start(out.net, ns, clock, Kind::Dsp));
        }
        let mut point = None;
        for pin in inputs() {
            let setup = match (own_register(pin), is_factor(pin)) {
                (true, _) => Some(delays.dsp_register),
                (_, true) if product => Some(delays.dsp_product),
                (_, true) if last => Some(delays.dsp_all),
                (_, false) if last => Some(delays.dsp_sum),
                _ => None,
            };
            if let Some(setup) = setup {
                let point = *point.get_or_insert_with(|| self.point(first, clock, Kind::Dsp));
                self.end(pin, setup, point);
                continue;
            }
            self.load(pin);
            let ns = if is_factor(pin) { delays.dsp_through } else { delays.dsp_sum_through };
            outs.iter().for_each(|out| self.arc(pin.net, out.net, ns, false, Kind::Dsp));
        }
    }
}

/// What differs between memories.
struct Memory {
    kind: Kind,
    cascade: f64,
}

fn net_of(pins: &[Pin<'_>], name: &str) -> Option<Net> {
    pins.iter().find(|pin| pin.name == name).map(|pin| pin.net)
}
