// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory at the balls of an ECP5: its DDR cells and delays (FPGA-TN-02035), all in twice the core's clock.
//!
//! ```text
//!  CK, commands ==> ODDRX1F --------> CK, RAS#, CAS#, WE#, BA, A, DM
//!  CKE, RESET# ----> flop ----------> CKE, RESET#
//!  DQS, DQ -------> ODDRX1F --> BB <-> DQS, DQ
//!  drive, not --> a flop a wire -^ |
//!  sampled <== IDDRX1F <-- DELAYF -+
//! ```
//!
//! Wires with one value a half send it at both edges, so that they change when data do. `BB` is of the top, for it has the ball. Each wire has its own flop for its enable, which may stand near the ball; it is early by a half of a cycle or so, and two cycles of enable surround
//! what is driven.
//!
//! `DELAYF` moves by 25 ps at each falling edge of its MOVE; all move together. **Latency**: that of the cells.

use ferrowire_rtl::{cat, lit, module, Bundle, Interface, Scope, Sig};

use crate::cells::{catch, off, send, send_all};
use crate::config::WORD_BITS;
use crate::{Delay, Halves, Sampled};

/// What the balls are given, and for those that go both ways, what `BB` is.
#[derive(Clone, Bundle)]
pub struct Out {
    /// CK, all alike.
    pub ck: Sig,
    /// RESET#.
    pub reset_n: Sig,
    /// CKE.
    pub cke: Sig,
    /// RAS#.
    pub ras_n: Sig,
    /// CAS#.
    pub cas_n: Sig,
    /// WE#.
    pub we_n: Sig,
    /// Bank.
    pub ba: Sig,
    /// Address.
    pub a: Sig,
    /// DM.
    pub dm: Sig,
    /// DQS, both alike.
    pub dqs: Sig,
    /// DQ.
    pub dq: Sig,
    /// High: DQS is not driven.
    pub dqs_off: Sig,
    /// High: DQ is not driven.
    pub dq_off: Sig,
}

/// What leaves.
#[derive(Interface)]
pub struct Pads {
    /// To the balls.
    pub out: Out,
    /// What was caught.
    pub sampled: Sampled,
}

/// Bytes of the data wires.
const LANES: u32 = WORD_BITS / 8;

/// The cells; `dq`: what `BB` reads. In twice the core's clock. `clock_pairs`: those of CK; `address`: balls of A, of which those above the device's rows are low.
#[module]
pub fn pads(
    m: &Scope,
    #[param] clock_pairs: u32,
    #[param] address: u32,
    halves: Halves,
    delay: Delay,
    dq: Sig,
) -> Pads {
    let both = |name: &str, quarters: Sig| send(m, name, quarters.bit(0), quarters.bit(1));
    let strobes: Vec<Sig> = (0..LANES).map(|i| both(&format!("dqs{i}"), halves.dqs)).collect();
    let out = Out {
        ck: cat(&(0..clock_pairs).map(|i| both(&format!("ck{i}"), halves.ck)).collect::<Vec<_>>()),
        reset_n: m.delay("reset_n_out", &halves.reset_n),
        cke: m.delay("cke_out", &halves.cke),
        ras_n: send(m, "ras_n", halves.ras_n, halves.ras_n),
        cas_n: send(m, "cas_n", halves.cas_n, halves.cas_n),
        we_n: send(m, "we_n", halves.we_n, halves.we_n),
        ba: send_all(m, "ba", halves.ba),
        a: send_all(m, "a", halves.a.zext(address)),
        dm: send_all(m, "dm", halves.dm),
        dqs: cat(&strobes),
        dq: send_all(m, "dq", halves.dq),
        dqs_off: off(m, "dqs", halves.drive, LANES),
        dq_off: off(m, "dq", halves.drive, WORD_BITS),
    };
    let caught: Vec<(Sig, Sig)> = (0..WORD_BITS)
        .map(|i| {
            let params = [("DEL_MODE", "\"USER_DEFINED\""), ("DEL_VALUE", "0")];
            let moves =
                [("A", dq.bit(i)), ("LOADN", delay.load_n), ("MOVE", delay.step), ("DIRECTION", lit(1, 0))];
            let late =
                m.label(&format!("dq{i}_delay")).black_box("DELAYF", &params, &[], &moves, &[("Z", 1)])[0];
            catch(m, &format!("dq{i}_in"), late)
        })
        .collect();
    let (rise, fall): (Vec<Sig>, Vec<Sig>) = caught.into_iter().unzip();
    Pads { out, sampled: Sampled { rise: cat(&rise), fall: cat(&fall) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowire_rtl::{bits, build, Sim};

    fn halves() -> Halves {
        let wire = || bits(1);
        Halves {
            reset_n: wire(),
            cke: wire(),
            ck: bits(2),
            ras_n: wire(),
            cas_n: wire(),
            we_n: wire(),
            ba: bits(3),
            a: bits(15),
            drive: wire(),
            dqs: bits(2),
            dq: bits(WORD_BITS),
            dm: bits(2),
        }
    }

    #[test]
    fn each_wire_has_its_cell_and_each_edge_its_bit() {
        let netlist = build("bench", |m| {
            let delay = m.input_of("delay", &Delay { load_n: bits(1), step: bits(1) });
            let pads = pads(m, 2, 16, m.input_of("sent", &halves()), delay, m.input("dq", WORD_BITS));
            m.output("out", &pads.out);
            m.output("sampled", &pads.sampled);
        })
        .unwrap();
        let mut sim = Sim::new(&netlist);
        for (port, value) in
            [("ck", 0b10), ("dqs", 0b01), ("dq", 0x8001), ("ba", 0b100), ("a", 0x4000), ("we_n", 1)]
        {
            sim.set(&format!("sent_{port}"), value);
        }
        let mut at = |cell: &str| ["D0", "D1"].map(|pin| sim.get(&format!("bench.pads.{cell}.{pin}")));
        // The clock and the strobes differ at both edges, and nothing else does.
        assert_eq!(["ck0", "ck1", "dqs0", "dqs1"].map(&mut at), [[0, 1], [0, 1], [1, 0], [1, 0]]);
        assert_eq!(["dq0", "dq1", "dq15"].map(&mut at), [[1, 1], [0, 0], [1, 1]]);
        assert_eq!(["ba2", "a14", "a15", "we_n"].map(&mut at), [[1, 1], [1, 1], [0, 0], [1, 1]]);
        for (pin, port) in [("Q0", "sampled_rise"), ("Q1", "sampled_fall")] {
            sim.set(&format!("bench.pads.dq7_in.{pin}"), 1);
            assert_eq!(sim.get(port), 1 << 7);
        }
        for (pin, drives) in [("dq3_off", 0), ("dqs1_off", 1)] {
            sim.set("sent_drive", drives);
            assert_eq!(sim.get(&format!("bench.pads.{pin}.D")), 1 - drives, "{pin}");
        }
        sim.set("dq", 1 << 4);
        sim.set("delay_step", 1);
        assert_eq!(
            ["A", "LOADN", "MOVE"].map(|pin| sim.get(&format!("bench.pads.dq4_delay.{pin}"))),
            [1, 0, 1]
        );
    }
}
