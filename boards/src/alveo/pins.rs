// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything at which a card's device has a ball, by name.

use super::Alveo;
use crate::Direction;
use std::fmt::Write;

/// A port of a card's top module.
#[derive(Clone, Debug, PartialEq)]
pub struct Pin {
    /// Its name; of a vector with the bit in brackets.
    pub name: String,
    /// The ball.
    pub pin: String,
    /// Which way it goes, as the device sees it.
    pub direction: Direction,
    /// I/O standard; transceivers and their clocks have none.
    pub io: Option<String>,
    /// Further properties, each with its value.
    pub properties: Vec<(&'static str, &'static str)>,
    /// It brings a clock of so many MHz.
    pub mhz: Option<f64>,
}

impl Pin {
    /// Its name, of a vector without the bit.
    pub fn base(&self) -> &str {
        self.name.split('[').next().unwrap_or(&self.name)
    }
}

struct List(Vec<Pin>);

impl List {
    fn add(
        &mut self,
        name: impl Into<String>,
        pin: &str,
        direction: Direction,
        io: Option<&str>,
    ) -> &mut Pin {
        let (name, pin, io) = (name.into(), pin.into(), io.map(String::from));
        self.0.push(Pin { name, pin, direction, io, properties: Vec::new(), mhz: None });
        self.0.last_mut().expect("just pushed")
    }

    fn lanes(&mut self, name: &str, pins: &[String], direction: Direction) {
        for (i, pin) in pins.iter().enumerate() {
            self.add(format!("{name}[{i}]"), pin, direction, None);
        }
    }

    /// A differential clock.
    fn clock(&mut self, name: &str, pins: &[String; 2], io: Option<&str>, mhz: f64) {
        self.add(format!("{name}_p"), &pins[0], Direction::In, io).mhz = Some(mhz);
        self.add(format!("{name}_n"), &pins[1], Direction::In, io);
    }
}

impl Alveo {
    /// All ports.
    pub fn pins(&self) -> Vec<Pin> {
        let mut list = List(Vec::new());
        let (clock, pcie) = (&self.clock, &self.pcie);
        list.clock("clock", &clock.pins, Some(&clock.io), f64::from(clock.khz) / 1000.0);
        if clock.dqs_bias {
            list.0.iter_mut().for_each(|pin| pin.properties.push(("DQS_BIAS", "TRUE")));
        }
        list.clock("pcie_refclk", &pcie.refclk, None, 100.0);
        list.add("pcie_perst_n", &pcie.perst_n, Direction::In, Some(&pcie.io)).properties =
            vec![("PULLTYPE", "PULLUP")];
        for (name, pins, direction) in [
            ("rx_p", &pcie.rx_p, Direction::In),
            ("rx_n", &pcie.rx_n, Direction::In),
            ("tx_p", &pcie.tx_p, Direction::Out),
            ("tx_n", &pcie.tx_n, Direction::Out),
        ] {
            list.lanes(&format!("pcie_{name}"), pins, direction);
        }
        for (i, qsfp) in self.qsfp.iter().enumerate() {
            let name = |wire: &str| format!("qsfp{i}_{wire}");
            list.clock(&name("refclk"), &qsfp.refclk, None, qsfp.refclk_mhz.parse().unwrap_or(0.0));
            list.lanes(&name("rx_p"), &qsfp.rx_p, Direction::In);
            list.lanes(&name("rx_n"), &qsfp.rx_n, Direction::In);
            list.lanes(&name("tx_p"), &qsfp.tx_p, Direction::Out);
            list.lanes(&name("tx_n"), &qsfp.tx_n, Direction::Out);
            if let Some(control) = &qsfp.control {
                let io = Some(control.io.as_str());
                list.add(name("modsell"), &control.modsell, Direction::Out, io);
                list.add(name("resetl"), &control.resetl, Direction::Out, io);
                list.add(name("lpmode"), &control.lpmode, Direction::Out, io);
            }
        }
        if let Some(led) = &self.link_led {
            list.add("link_led", &led.pin, Direction::Out, Some(&led.io));
        }
        if let Some(trip) = &self.hbm_cattrip {
            // Until the device is configured, too.
            list.add("hbm_cattrip", &trip.pin, Direction::Out, Some(&trip.io)).properties =
                vec![("PULLTYPE", "PULLDOWN")];
        }
        // Slow wires; 8 mA is the most that LVCMOS12 has, and enough for all.
        let single = |pin: &&mut Pin| pin.io.as_ref().is_some_and(|io| io.starts_with("LVCMOS"));
        let outputs = list.0.iter_mut().filter(|pin| pin.direction == Direction::Out).filter(single);
        outputs.for_each(|pin| pin.properties.extend([("SLEW", "SLOW"), ("DRIVE", "8")]));
        list.0
    }

    /// Places, types and clocks of all ports, for Vivado.
    pub fn pins_xdc(&self) -> String {
        self.pins_xdc_of(|_| true)
    }

    /// The same of those whose names a design has: of a vector without its bits.
    pub fn pins_xdc_of(&self, has: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        let pins: Vec<Pin> = self.pins().into_iter().filter(|pin| has(pin.base())).collect();
        for Pin { name, pin, io, properties, mhz, .. } in &pins {
            let _ = writeln!(text, "set_property PACKAGE_PIN {pin} [get_ports {{{name}}}]");
            let io = io.as_ref().map(|io| ("IOSTANDARD", io.as_str()));
            for (property, value) in io.into_iter().chain(properties.iter().copied()) {
                let _ = writeln!(text, "set_property {property} {value} [get_ports {{{name}}}]");
            }
            if let Some(mhz) = mhz {
                let clock = name.trim_end_matches("_p");
                let _ = writeln!(
                    text,
                    "create_clock -name {clock} -period {:.3} [get_ports {{{name}}}]",
                    1000.0 / mhz
                );
            }
        }
        text
    }
}
