// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory at the balls of an ECP5: its DDR cells (FPGA-TN-02035), all in the core's clock.
//!
//! ```text
//!  0, 1 ----------> ODDRX1F --------> CLK
//!  commands ======> ODDRX1F --------> RAS#, CAS#, WE#, BA, A
//!  dq ------------> ODDRX1F --> BB <-> DQ
//!  drive --> [ ] --> [ ] --> not, a flop a wire -^
//!  caught <======== IDDRX1F <------+
//! ```
//!
//! All wires leave through the same kind of cell, so that the clock, low in the first half of a cycle, rises half a cycle behind where the others change. `BB` is of the top, for it has the ball.
//!
//! **Enables.** `ODDRX1F` has three registers in a row, as Lattice's own model of it says and others measured (amaranth-lang/amaranth, pull request 1668), the flop at an enable is one, so two more come before it. Each wire has its own, which may stand near the ball. Drivers are on for a cycle more on either
//! side of the words: a cell that has a register less is no matter.

use ferrowire_rtl::{cat, lit, module, Bundle, Interface, Scope, Sig};

use super::{Sent, WORD_BITS};
use crate::cells::{catch, off, send, send_all};

/// What the balls are given, and for those that go both ways, what `BB` is.
#[derive(Clone, Bundle)]
pub struct Out {
    /// CLK.
    pub ck: Sig,
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
    /// DQ.
    pub dq: Sig,
    /// High: DQ is not driven.
    pub dq_off: Sig,
}

/// What leaves.
#[derive(Interface)]
pub struct Pads {
    /// To the balls.
    pub out: Out,
    /// What was caught at the falling edge.
    pub caught: Sig,
}

/// The cells; `dq`: what `BB` reads. `address`: balls of A, of which those above the device's rows are low.
#[module]
pub fn pads(m: &Scope, #[param] address: u32, sent: Sent, dq: Sig) -> Pads {
    let drive = m.delay("drive_late", &m.delay("drive_waits", &sent.drive));
    let out = Out {
        ck: send(m, "ck", lit(1, 0), lit(1, 1)),
        ras_n: send(m, "ras_n", sent.ras_n, sent.ras_n),
        cas_n: send(m, "cas_n", sent.cas_n, sent.cas_n),
        we_n: send(m, "we_n", sent.we_n, sent.we_n),
        ba: send_all(m, "ba", sent.ba),
        a: send_all(m, "a", sent.a.zext(address)),
        dq: send_all(m, "dq", sent.dq),
        dq_off: off(m, "dq", drive, WORD_BITS),
    };
    let caught: Vec<Sig> = (0..WORD_BITS)
        .map(|i| {
            let (rise, fall) = catch(m, &format!("dq{i}_in"), dq.bit(i));
            m.discard(&rise);
            fall
        })
        .collect();
    Pads { out, caught: cat(&caught) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowire_rtl::{bits, build, Sim};

    #[test]
    fn the_clock_rises_half_a_cycle_behind_all_else() {
        let netlist = build("bench", |m| {
            let wire = || bits(1);
            let sent = Sent {
                ras_n: wire(),
                cas_n: wire(),
                we_n: wire(),
                ba: bits(2),
                a: bits(11),
                drive: wire(),
                dq: bits(WORD_BITS),
            };
            let pads = pads(m, 13, m.input_of("sent", &sent), m.input("dq", WORD_BITS));
            m.output("out", &pads.out);
            m.output("caught", &pads.caught);
        })
        .unwrap();
        let mut sim = Sim::new(&netlist);
        for (port, value) in [("ba", 0b10), ("a", 0x400), ("dq", 1 << 31), ("we_n", 1)] {
            sim.set(&format!("sent_{port}"), value);
        }
        let mut at = |cell: &str| ["D0", "D1"].map(|pin| sim.get(&format!("bench.pads.{cell}.{pin}")));
        assert_eq!(["ck", "ba0", "ba1", "we_n"].map(&mut at), [[0, 1], [0, 0], [1, 1], [1, 1]]);
        assert_eq!(["a10", "a12", "dq31", "dq0"].map(&mut at), [[1, 1], [0, 0], [1, 1], [0, 0]]);
        for (pin, caught) in [("Q0", 0), ("Q1", 1 << 7)] {
            sim.set("bench.pads.dq7_in.Q0", 0);
            sim.set(&format!("bench.pads.dq7_in.{pin}"), 1);
            assert_eq!(sim.get("caught"), caught, "{pin}");
        }
        sim.tick_clock("clk");
        sim.tick_clock("clk");
        for drives in [1, 0] {
            sim.set("sent_drive", drives);
            // As late as the words, which have two registers more.
            for cycle in 0..4 {
                let known = if cycle < 2 { drives } else { 1 - drives };
                assert_eq!(sim.get("bench.pads.dq3_off.D"), known, "{drives} for {cycle} cycles");
                sim.tick_clock("clk");
            }
        }
    }
}
