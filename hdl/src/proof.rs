// SPDX-License-Identifier: MIT OR Apache-2.0
//! Circuits whose assertions hold in every run: `cargo xtask formal` hands them to a prover.
//!
//! A proof is a top module. Its inputs are free: the prover tries all values in each cycle. What must hold is [asserted](Scope::assert). The reset is on in
//! the first cycle, and may come again in any other. A fault is a change of the Verilog that breaks what is proven; the prover has to find it, which shows that the
//! assertions say something.

use ferrowire_rtl::{build, Bundle, Netlist, Scope, Sig, Value};

/// Something to be proven.
pub struct Proof {
    /// As `--only` has it.
    pub name: String,
    /// What is proven, in one line.
    pub about: String,
    /// How it is.
    pub way: Way,
    /// The circuit.
    pub netlist: Netlist,
    /// Changes of it that the prover has to find.
    pub faults: Vec<Fault>,
}

/// How something is proven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// For runs of any length, by an invariant that the prover finds: property directed reachability.
    Invariant,
    /// For runs of any length, by induction over so many cycles: what is asserted is strong enough.
    Induction(u32),
    /// For the first cycles of a run alone, so many.
    Bounded(u32),
}

/// A deliberate fault: a signal has another value.
pub struct Fault {
    /// What is wrong with it, in a few words.
    pub name: &'static str,
    /// The signal, as in the Verilog.
    pub signal: &'static str,
    /// What it is in place of its own value, in Verilog.
    pub value: &'static str,
}

impl Proof {
    /// A circuit to be proven. One that does not build is a fault of its description.
    pub fn new(
        name: impl Into<String>,
        about: impl Into<String>,
        way: Way,
        circuit: impl FnOnce(&Scope),
    ) -> Proof {
        let netlist = build("proof", circuit).unwrap_or_else(|errors| panic!("{errors}"));
        Proof { name: name.into(), about: about.into(), way, netlist, faults: Vec::new() }
    }

    /// With faults: of each its name, the signal, and its value.
    pub fn with_faults(mut self, faults: &[(&'static str, &'static str, &'static str)]) -> Proof {
        self.faults.extend(faults.iter().map(|&(name, signal, value)| Fault { name, signal, value }));
        self
    }

    /// The Verilog of the circuit, and of the module `bench` around it, which holds the reset in the first cycle.
    pub fn verilog(&self) -> String {
        let (mut ports, mut pins) = (Vec::new(), Vec::new());
        for port in self.netlist.ports() {
            let width = format!("[{}:0]", port.width - 1);
            let kind = if port.input { "input wire" } else { "output wire" };
            ports.push(format!("    {kind} {width} {}", port.name));
            let reset = self.netlist.resets().contains(&port.name);
            let value = if reset { format!("{} | first", port.name) } else { port.name.clone() };
            pins.push(format!("        .{}({value})", port.name));
        }
        let clock = &self.netlist.clocks()[0];
        format!(
            "{}\nmodule bench (\n{}\n);\n    reg first = 1'b1;\n    always @(posedge {clock}) first <= 1'b0;\n    {} circuit (\n{}\n    );\nendmodule\n",
            self.netlist.verilog(),
            ports.join(",\n"),
            self.netlist.top(),
            pins.join(",\n")
        )
    }

    /// The Verilog with one of the faults in it.
    ///
    /// # Panics
    /// The Verilog does not give the signal its value in exactly one line.
    pub fn faulty(&self, fault: &Fault) -> String {
        let text = self.verilog();
        let mut times = 0;
        let lines: Vec<String> = text
            .lines()
            .map(|line| match line.split_once(" = ") {
                Some((head, _))
                    if head.split(' ').next_back() == Some(fault.signal) && !line.contains("<=") =>
                {
                    times += 1;
                    format!("{head} = {};", fault.value)
                }
                _ => line.to_string(),
            })
            .collect();
        let Fault { name, signal, .. } = fault;
        assert_eq!(times, 1, "{}, {name}: `{signal}` gets its value in {times} lines", self.name);
        lines.join("\n") + "\n"
    }
}

/// All proofs.
pub fn all() -> Vec<Proof> {
    let mut all = crate::engine::table_proofs();
    all.extend(crate::stream::proofs());
    all
}

/// A value that is free, and does not change after the first cycle without reset.
pub fn constant<T: Bundle + Value<T>>(m: &Scope, name: &str, shape: &T) -> T {
    let free = m.input_of(name, shape);
    let chosen = m.reg(&format!("{name}_chosen"), 1).reset(0);
    let value = m.reg_of(&format!("{name}_kept"), shape);
    m.set(&chosen, 1);
    m.when(!chosen, |m| m.set_all(&value, &free));
    value
}

/// What comes out of something is what went in, each once and in its order.
///
/// One of those that go in is watched, any of them; of how many that are within are before it is counted, so it is known when it must be the next one out.
pub struct Order<T: Bundle> {
    /// So many are within.
    pub within: Sig,
    /// The one that goes in is watched from now on.
    pub chooses: Sig,
    /// The one that is watched is within.
    pub waits: Sig,
    /// After how many.
    pub ahead: Sig,
    /// The one that is watched is the next one out.
    pub due: Sig,
    /// What it is.
    pub watched: T,
}

impl<T: Bundle> Order<T> {
    /// `enters`: one goes in; `leaves`: one comes out. There are never more than `most` within.
    #[track_caller]
    pub fn new(m: &Scope, name: &str, most: u32, enters: Sig, payload: &T, leaves: Sig) -> Order<T> {
        let bits = ferrowire_rtl::clog2(u64::from(most) + 1) + 1;
        let step = |yes: Sig| yes.zext(bits);
        let watches = m.input(&format!("{name}_watches"), 1);
        let flag = |part: &str| m.reg(&format!("{name}_{part}"), 1).reset(0);
        let count = |part: &str| m.reg(&format!("{name}_{part}"), bits).reset(0);
        let (chosen, gone) = (flag("chosen"), flag("gone"));
        let (within, ahead) = (count("within"), count("ahead"));
        let watched = m.reg_of(&format!("{name}_watched"), payload);
        let waits = (chosen & !gone).named(&format!("{name}_waits"));
        let due = (waits & ahead.eq(0)).named(&format!("{name}_due"));
        let chooses = enters & watches & !chosen;
        m.set(&within, within + step(enters) - step(leaves));
        m.when(chooses, |m| {
            m.set(&chosen, 1);
            m.set_all(&watched, payload);
            m.set(&ahead, within - step(leaves));
        });
        m.when(waits & leaves, |m| {
            m.set(&ahead, ahead - 1);
            m.set(&gone, ahead.eq(0));
        });
        m.assert(within.lt(most + 1), "there are never more within than there are places");
        m.assert(!waits | ahead.lt(within), "the one that is watched is within");
        Order { within, chooses, waits, ahead, due, watched }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_have_names_of_their_own_and_faults_change_one_signal_each() {
        let all = all();
        let mut names: Vec<String> = all.iter().map(|proof| proof.name.clone()).collect();
        for proof in &all {
            for fault in &proof.faults {
                assert_ne!(proof.faulty(fault), proof.verilog(), "{}: {}", proof.name, fault.name);
                names.push(format!("{}: {}", proof.name, fault.name));
            }
        }
        let some = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), some);
        assert!(names
            .iter()
            .all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b" :0123456789-".contains(&b))));
    }
}
