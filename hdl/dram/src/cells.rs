// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells of an ECP5 at the balls of a memory (FPGA-TN-02035), in the clock of the scope.

use ferrowire_rtl::{cat, lit, Scope, Sig};

/// `ODDRX1F`: one bit behind each edge of the clock.
pub(crate) fn send(m: &Scope, name: &str, first: Sig, second: Sig) -> Sig {
    let clocks = [("SCLK", m.current_domain())];
    let inputs = [("D0", first), ("D1", second), ("RST", lit(1, 0))];
    m.label(name).black_box("ODDRX1F", &[], &clocks, &inputs, &[("Q", 1)])[0]
}

/// A wire with one value a cycle sends it behind both edges, so that it changes when those with two do.
pub(crate) fn send_all(m: &Scope, name: &str, word: Sig) -> Sig {
    let bits: Vec<Sig> =
        (0..word.width()).map(|i| send(m, &format!("{name}{i}"), word.bit(i), word.bit(i))).collect();
    cat(&bits)
}

/// High where nothing is driven: of each wire a flop of its own, which may stand near the ball; a `DFF` that Yosys leaves alone, or they would be one.
pub(crate) fn off(m: &Scope, name: &str, drive: Sig, wires: u32) -> Sig {
    let flops: Vec<Sig> = (0..wires)
        .map(|i| {
            let inputs = [("D", !drive), ("PD", lit(1, 0))];
            let params = [("GSR", "\"DISABLED\"")];
            let flop = [("CK", m.current_domain())];
            m.label(&format!("{name}{i}_off")).black_box("FD1S3BX", &params, &flop, &inputs, &[("Q", 1)])[0]
        })
        .collect();
    cat(&flops)
}

/// `IDDRX1F`: what was there at the rising edge, and at the falling one behind it.
pub(crate) fn catch(m: &Scope, name: &str, wire: Sig) -> (Sig, Sig) {
    let clocks = [("SCLK", m.current_domain())];
    let inputs = [("D", wire), ("RST", lit(1, 0))];
    let caught = m.label(name).black_box("IDDRX1F", &[], &clocks, &inputs, &[("Q0", 1), ("Q1", 1)]);
    (caught[0], caught[1])
}
