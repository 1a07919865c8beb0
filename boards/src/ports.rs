// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything at which a board's FPGA has a ball, by name.

use crate::Board;
use std::fmt::Write;

/// Which way a wire goes, as the FPGA sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the FPGA.
    In,
    /// From it.
    Out,
    /// Either way.
    InOut,
}

/// A port of a board's top module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name; of a vector with the bit in brackets.
    pub name: String,
    /// The ball.
    pub pin: String,
    /// Which way it goes.
    pub direction: Direction,
    /// Type, as in `IO_TYPE`.
    pub io: String,
    /// Further attributes of `IOBUF`.
    pub attributes: String,
    /// It brings a clock of so many kHz.
    pub khz: Option<u32>,
}

impl Port {
    /// Its name, of a vector without the bit.
    pub fn base(&self) -> &str {
        self.name.split('[').next().unwrap_or(&self.name)
    }
}

/// Frequency of RGMII's clocks at 1 Gb/s.
const RGMII_KHZ: u32 = 125_000;

struct List(Vec<Port>);

impl List {
    fn add(&mut self, name: impl Into<String>, pin: &str, direction: Direction, io: &str) -> &mut Port {
        let (name, pin, io) = (name.into(), pin.into(), io.into());
        self.0.push(Port { name, pin, direction, io, attributes: String::new(), khz: None });
        self.0.last_mut().expect("just pushed")
    }

    fn all(&mut self, name: &str, pins: &[String], direction: Direction, io: &str, attributes: &str) {
        for (i, pin) in pins.iter().enumerate() {
            // A wire alone is no vector.
            let name = if pins.len() == 1 { name.into() } else { format!("{name}[{i}]") };
            self.add(name, pin, direction, io).attributes = attributes.into();
        }
    }
}

impl Board {
    /// All ports.
    pub fn ports(&self) -> Vec<Port> {
        let mut list = List(Vec::new());
        for clock in &self.clocks {
            list.add(&clock.name, &clock.pin, Direction::In, &clock.io).khz = Some(clock.khz);
        }
        for (i, led) in self.leds.iter().enumerate() {
            list.all(&format!("led{i}"), &led.pins, Direction::Out, &led.io, "");
        }
        if let Some(led) = &self.led_colours {
            list.all("led_colours", &led.pins, Direction::Out, &led.io, "");
        }
        if let Some(serial) = &self.serial {
            list.add("serial_tx", &serial.tx, Direction::Out, &serial.io);
            list.add("serial_rx", &serial.rx, Direction::In, &serial.io).attributes = "PULLMODE=UP".into();
        }
        if let Some(supplies) = &self.supplies {
            let pulses: Vec<String> = supplies.each.iter().map(|supply| supply.pulses.clone()).collect();
            list.add("supplies_enable", &supplies.enable, Direction::Out, &supplies.io);
            list.all("supplies_pulses", &pulses, Direction::Out, &supplies.io, "");
        }
        self.rgmii_ports(&mut list);
        self.memory_ports(&mut list);
        list.0
    }

    fn rgmii_ports(&self, list: &mut List) {
        for (i, phy) in self.rgmii.iter().enumerate() {
            let (io, fast) = (&phy.io, if phy.fast { "SLEWRATE=FAST" } else { "" });
            let name = |wire: &str| format!("rgmii{i}_{wire}");
            let pull = if phy.rx_pull_up { "PULLMODE=UP" } else { "" };
            list.add(name("tx_clk"), &phy.tx_clk, Direction::Out, io).attributes = fast.into();
            list.add(name("tx_ctl"), &phy.tx_ctl, Direction::Out, io).attributes = fast.into();
            list.all(&name("tx_data"), &phy.tx_data, Direction::Out, io, fast);
            list.add(name("rx_clk"), &phy.rx_clk, Direction::In, io).khz = Some(RGMII_KHZ);
            list.add(name("rx_ctl"), &phy.rx_ctl, Direction::In, io);
            list.all(&name("rx_data"), &phy.rx_data, Direction::In, io, pull);
            for (wire, pin, direction) in [
                ("mdc", &phy.mdc, Direction::Out),
                ("mdio", &phy.mdio, Direction::InOut),
                ("reset_n", &phy.reset_n, Direction::Out),
            ] {
                list.add(name(wire), pin, direction, io).attributes = fast.into();
            }
        }
    }

    fn memory_ports(&self, list: &mut List) {
        let Some(memory) = &self.memory else { return };
        let io = &memory.io;
        let fast = "SLEWRATE=FAST";
        let differential = io.replace("_I", "D_I");
        let out = Direction::Out;
        list.all("dram_clk", &memory.clk_p, out, &differential, fast);
        let vectors = [
            ("dram_cke", &memory.cke),
            ("dram_odt", &memory.odt),
            ("dram_cs_n", &memory.cs_n),
            ("dram_a", &memory.a),
            ("dram_ba", &memory.ba),
            ("dram_dm", &memory.dm),
        ];
        for (name, pins) in vectors {
            list.all(name, pins, out, io, fast);
        }
        let single = [("ras_n", &memory.ras_n), ("cas_n", &memory.cas_n), ("we_n", &memory.we_n)];
        for (name, pin) in single.into_iter().chain(memory.reset_n.as_ref().map(|pin| ("reset_n", pin))) {
            list.add(format!("dram_{name}"), pin, out, io).attributes = fast.into();
        }
        let strobe = "SLEWRATE=FAST TERMINATION=OFF DIFFRESISTOR=100";
        let data = "SLEWRATE=FAST TERMINATION=75";
        list.all("dram_dqs", &memory.dqs_p, Direction::InOut, &differential, strobe);
        list.all("dram_dq", &memory.dq, Direction::InOut, io, data);
    }

    /// Places, types and clocks of all ports, for nextpnr.
    pub fn lpf(&self) -> String {
        self.lpf_of(|_| true)
    }

    /// The same of those whose names a design has: of a vector without its bits.
    pub fn lpf_of(&self, has: impl Fn(&str) -> bool) -> String {
        let mut text = format!("# {}\n", self.title);
        let ports = self.ports().into_iter().filter(|port| has(port.base()));
        for Port { name, pin, io, attributes, khz, .. } in ports {
            let gap = if attributes.is_empty() { "" } else { " " };
            let _ = writeln!(text, "LOCATE COMP \"{name}\" SITE \"{pin}\";");
            let _ = writeln!(text, "IOBUF PORT \"{name}\" IO_TYPE={io}{gap}{attributes};");
            if let Some(khz) = khz {
                let _ = writeln!(text, "FREQUENCY PORT \"{name}\" {} MHZ;", f64::from(khz) / 1000.0);
            }
        }
        text
    }
}
