// SPDX-License-Identifier: MIT OR Apache-2.0
//! RGMII at the balls of an ECP5: its DDR cells and delays (FPGA-TN-02035).
//!
//! ```text
//!   RXD, RX_CTL --> DELAYG --> IDDRX1F ==> edges     RXC is the clock
//!
//!   edges ==> ODDRX1F --------------> TXD, TX_CTL
//!    1, 0 --> ODDRX1F --> DELAYG ---> TXC
//! ```
//!
//! RGMII wants its clocks some 2 ns behind the data (RGMII 2.0, table 1), by the board's wires, the PHY or here. TXC leaves late by `tx_clk_delay_ps`. RXC is a clock
//! of the FPGA and not delayed; RXD and RX_CTL are, by `rx_data_delay_ps`, so that the edge behind them catches them. A step of `DELAYG` is 25 ps, at most 127 steps.
//!
//! `Q0` and `D0` are those of the rising edge, `Q1` and `D1` of the falling one behind it. **Latency:** that of the cells.

use crate::rgmii::Edges;
use crate::{mac, Clocks, MacConfig};
use ferrowire_parts::Beat;
use ferrowire_rtl::{bits, build, cat, lit, module, BuildErrors, Bundle, Interface, Netlist, Scope, Sig};

/// Picoseconds of a step of `DELAYG`.
pub const DELAY_STEP_PS: u32 = 25;
/// The most steps.
pub const DELAY_STEPS: u32 = 127;

/// By how much the FPGA delays what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// RXD and RX_CTL, in picoseconds.
    pub rx_data_ps: u32,
    /// TXC, in picoseconds.
    pub tx_clk_ps: u32,
}

/// Data and control wires, as they are outside.
#[derive(Clone, Bundle)]
pub struct Pins {
    /// RXD or TXD.
    pub data: Sig,
    /// RX_CTL or TX_CTL.
    pub ctl: Sig,
}

impl Pins {
    /// The shape.
    pub fn of() -> Pins {
        Pins { data: bits(4), ctl: bits(1) }
    }
}

/// What is sent.
#[derive(Interface)]
pub struct Out {
    /// TXD and TX_CTL.
    pub pins: Pins,
    /// TXC.
    pub txc: Sig,
}

fn delay(m: &Scope, label: &str, ps: u32, wire: Sig) -> Sig {
    assert!(
        ps % DELAY_STEP_PS == 0 && ps / DELAY_STEP_PS <= DELAY_STEPS,
        "a delay of {ps} ps: must be a multiple of {DELAY_STEP_PS}, at most {}",
        DELAY_STEP_PS * DELAY_STEPS
    );
    if ps == 0 {
        return wire;
    }
    let steps = (ps / DELAY_STEP_PS).to_string();
    let params = [("DEL_MODE", "\"USER_DEFINED\""), ("DEL_VALUE", steps.as_str())];
    m.label(&format!("{label}_delay")).black_box("DELAYG", &params, &[], &[("A", wire)], &[("Z", 1)])[0]
}

/// Catches what comes, in the clock of the current domain, which is RXC.
#[module]
pub fn ecp5_rx(m: &Scope, #[param] rx_data_delay_ps: u32, pins: Pins) -> Edges {
    let wires: Vec<Sig> = (0..4).map(|i| pins.data.bit(i)).chain([pins.ctl]).collect();
    let caught: Vec<(Sig, Sig)> = wires
        .into_iter()
        .enumerate()
        .map(|(i, wire)| {
            let name = if i < 4 { format!("rxd{i}") } else { "rx_ctl".into() };
            let late = delay(m, &name, rx_data_delay_ps, wire);
            let (clocks, off) = ([("SCLK", m.current_domain())], lit(1, 0));
            let inputs = [("D", late), ("RST", off)];
            let q = m.label(&name).black_box("IDDRX1F", &[], &clocks, &inputs, &[("Q0", 1), ("Q1", 1)]);
            (q[0], q[1])
        })
        .collect();
    let (rise, fall): (Vec<Sig>, Vec<Sig>) = caught.into_iter().unzip();
    Edges { data_rise: cat(&rise[..4]), data_fall: cat(&fall[..4]), ctl_rise: rise[4], ctl_fall: fall[4] }
}

/// Sends, in the clock of the current domain, of which TXC is a copy.
#[module]
pub fn ecp5_tx(m: &Scope, #[param] tx_clk_delay_ps: u32, edges: Edges) -> Out {
    let cell = |name: &str, rise: Sig, fall: Sig| {
        let (clocks, off) = ([("SCLK", m.current_domain())], lit(1, 0));
        let inputs = [("D0", rise), ("D1", fall), ("RST", off)];
        m.label(name).black_box("ODDRX1F", &[], &clocks, &inputs, &[("Q", 1)])[0]
    };
    let data: Vec<Sig> =
        (0..4).map(|i| cell(&format!("txd{i}"), edges.data_rise.bit(i), edges.data_fall.bit(i))).collect();
    let ctl = cell("tx_ctl", edges.ctl_rise, edges.ctl_fall);
    let clk = cell("txc", lit(1, 1), lit(1, 0));
    Out { pins: Pins { data: cat(&data), ctl }, txc: delay(m, "txc", tx_clk_delay_ps, clk) }
}

/// A MAC by itself with its cells: as [`netlist`](crate::netlist), with the ports `rgmii_rx_data`, `rgmii_rx_ctl`, `rgmii_tx_data`, `rgmii_tx_ctl` and
/// `rgmii_tx_clk_out`, which are the board's wires.
///
/// # Errors
/// What the build-time checks find; none for a valid configuration.
///
/// # Panics
/// If the configuration is not [valid](MacConfig::validate), or a delay cannot be had.
pub fn netlist(cfg: &MacConfig, delays: Delays) -> Result<Netlist, BuildErrors> {
    cfg.validate().unwrap_or_else(|error| panic!("{error}"));
    build("mac_1g_ecp5", |m| {
        let clocks = Clocks { core: m.current_domain(), rx: m.domain("rgmii_rx"), tx: m.domain("rgmii_tx") };
        ports(m, cfg, clocks, delays);
    })
}

/// The same between ports of the module that is open, which is the top or [encloses](Scope::enclosed) it.
pub fn ports(m: &Scope, cfg: &MacConfig, clocks: Clocks, delays: Delays) {
    let wires = m.in_domain(clocks.rx, |m| {
        let pins = m.input_of("rgmii_rx", &Pins::of());
        ecp5_rx(m, delays.rx_data_ps, pins)
    });
    let tx = m.stream_in("tx", &Beat::of(cfg.beat_bytes));
    let mac = mac(m, cfg, clocks, wires, tx);
    m.in_domain(clocks.tx, |m| {
        let out = ecp5_tx(m, delays.tx_clk_ps, mac.wires);
        m.output("rgmii_tx", &out.pins);
        m.output("rgmii_tx_clk_out", &out.txc);
    });
    m.stream_out("rx", mac.rx);
    m.output("link", &mac.link);
    m.output("counts", &mac.counts);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowire_rtl::Sim;

    #[test]
    fn each_wire_has_its_cell_and_each_edge_its_bit() {
        let netlist = build("bench", |m| {
            let caught = ecp5_rx(m, 2000, m.input_of("rx", &Pins::of()));
            m.output("caught", &caught);
            let out = ecp5_tx(m, 0, m.input_of("edges", &Edges::of()));
            m.output("tx", &out.pins);
            m.output("txc", &out.txc);
        })
        .unwrap();
        let mut sim = Sim::new(&netlist);
        let cells = ["rxd0", "rxd1", "rxd2", "rxd3", "rx_ctl"];
        for (i, cell) in cells.iter().enumerate() {
            for (pin, (data, ctl)) in [
                ("Q0", ("caught_data_rise", "caught_ctl_rise")),
                ("Q1", ("caught_data_fall", "caught_ctl_fall")),
            ] {
                let port = format!("bench.ecp5_rx.{cell}.{pin}");
                sim.set(&port, 1);
                let want = if i < 4 { (1 << i, 0) } else { (0, 1) };
                assert_eq!((sim.get(data), sim.get(ctl)), want, "{port}");
                sim.set(&port, 0);
            }
        }
        for (pin, edge) in [("D0", "rise"), ("D1", "fall")] {
            sim.set(&format!("edges_data_{edge}"), 0b0110);
            sim.set(&format!("edges_ctl_{edge}"), 1);
            let at = |sim: &mut Sim, cell: &str| sim.get(&format!("bench.ecp5_tx.{cell}.{pin}"));
            let sent = ["txd0", "txd1", "txd2", "txd3", "tx_ctl", "txc"].map(|cell| at(&mut sim, cell));
            // TXC is high behind the rising edge.
            assert_eq!(sent, [0, 1, 1, 0, 1, u64::from(edge == "rise")], "{pin}");
        }
        let verilog = netlist.verilog();
        assert_eq!(verilog.matches("DELAYG #(").count(), 5);
        assert!(verilog.contains(".DEL_VALUE(80)"), "{verilog}");
    }

    #[test]
    #[should_panic(expected = "a delay of 3200 ps: must be a multiple of 25, at most 3175")]
    fn a_delay_that_cannot_be_had_is_refused() {
        let _ = netlist(&MacConfig::jumbo(8), Delays { rx_data_ps: 3200, tx_clk_ps: 0 });
    }
}
