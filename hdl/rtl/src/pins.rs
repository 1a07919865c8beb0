// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Pins`]: the ports of a top that stands in a larger one.

use crate::design::{with, Loc};
use crate::netlist::{NodeId, ScopeId};
use crate::scope::{drive_at, Scope};
use crate::sig::{Operand, Sig};
use std::panic::Location;

/// Ports that were declared and belong to no module: inputs as wires, outputs as what drives them.
pub(crate) struct Declared {
    pub scope: ScopeId,
    pub inputs: Vec<(String, NodeId)>,
    pub outputs: Vec<(String, NodeId)>,
}

/// What is called as the ports of a top would be: its inputs are to be driven, each once, and its outputs can be read.
#[must_use = "inputs have to be driven"]
pub struct Pins {
    inputs: Vec<(String, Sig)>,
    outputs: Vec<(String, Sig)>,
}

impl Scope {
    /// Runs a `body` that declares ports, as that of a [`build`](crate::build) does, but in this module: these ports are [`Pins`] here, for larger tops to connect them. What it
    /// declares belongs to this module and the current domain.
    #[track_caller]
    pub fn enclosed(&self, body: impl FnOnce(&Scope)) -> Pins {
        let loc = Location::caller();
        self.check_open(loc);
        let scope = self.id;
        with(|d| d.pins.push(Declared { scope, inputs: Vec::new(), outputs: Vec::new() }));
        body(self);
        with(|d| {
            let Declared { inputs, outputs, .. } = d.pins.pop().expect("pushed above");
            // A larger top need not look at all of them.
            d.discarded.extend(outputs.iter().map(|(_, id)| *id));
            let sigs =
                |ports: Vec<(String, NodeId)>| ports.into_iter().map(|(n, id)| (n, d.sig(id))).collect();
            Pins { inputs: sigs(inputs), outputs: sigs(outputs) }
        })
    }
}

impl Pins {
    #[track_caller]
    fn find<'a>(ports: &'a [(String, Sig)], name: &str, what: &str, loc: Loc) -> &'a Sig {
        match ports.iter().find(|(port, _)| port == name) {
            Some((_, sig)) => sig,
            None => panic!("{loc}: there is no {what} `{name}`"),
        }
    }

    /// Drives an input.
    #[track_caller]
    pub fn drive(&self, name: &str, value: impl Operand) {
        let loc = Location::caller();
        let pin = *Self::find(&self.inputs, name, "input", loc);
        drive_at(pin, value.operand(pin.width(), loc), loc);
    }

    /// Reads an output.
    #[track_caller]
    pub fn get(&self, name: &str) -> Sig {
        *Self::find(&self.outputs, name, "output", Location::caller())
    }

    /// Connects all pins whose names begin with `own` with those of `other` that begin with `others`, outputs of either with inputs of the other: a bus. An output that the other side has no input for
    /// stays open.
    ///
    /// # Panics
    /// An input finds no output, or one of another width.
    #[track_caller]
    pub fn connect(&self, own: &str, other: &Pins, others: &str) {
        let loc = Location::caller();
        for (to, into, from, out) in [(self, own, other, others), (other, others, self, own)] {
            for (name, pin) in &to.inputs {
                let Some(rest) = name.strip_prefix(into) else { continue };
                let source = *Self::find(&from.outputs, &format!("{out}{rest}"), "output", loc);
                drive_at(*pin, source, loc);
            }
        }
    }

    /// Makes ports of the module out of all pins whose names begin with `prefix`, with `name` in its place.
    #[track_caller]
    pub fn expose(&self, m: &Scope, prefix: &str, name: &str) {
        let loc = Location::caller();
        for (pin, sig) in &self.inputs {
            let Some(rest) = pin.strip_prefix(prefix) else { continue };
            drive_at(*sig, m.input(&format!("{name}{rest}"), sig.width()), loc);
        }
        for (pin, sig) in &self.outputs {
            let Some(rest) = pin.strip_prefix(prefix) else { continue };
            m.output(&format!("{name}{rest}"), sig);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{build, lit, Scope, Sim};

    /// Gives in the next cycle what it is given, and one more than that.
    fn part(m: &Scope) {
        let given = m.input("s_data", 8);
        let held = m.delay("held", &given);
        m.output("m_data", &held);
        m.output("m_next", &(held + 1));
        m.output("far", &m.input("near", 1));
    }

    #[test]
    fn parts_with_ports_of_the_same_names_are_joined_in_a_top() {
        let netlist = build("top", |m| {
            let (first, second) = (m.enclosed(part), m.enclosed(part));
            second.connect("s_", &first, "m_");
            first.expose(m, "s_", "in_");
            second.expose(m, "m_n", "out_n");
            second.expose(m, "far", "far");
            first.drive("near", lit(1, 1));
            second.drive("near", first.get("far"));
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.set("in_data", 41);
        (0..2).for_each(|_| sim.tick());
        assert_eq!((sim.get("out_next"), sim.get("far")), (42, 1));
    }

    #[test]
    fn an_input_that_is_forgotten_is_found() {
        let errors = build("top", |m| {
            let pins = m.enclosed(part);
            pins.drive("near", 1);
            pins.expose(m, "m_", "out_");
        });
        assert!(errors.unwrap_err().to_string().contains("s_data"));
    }

    #[test]
    #[should_panic(expected = "there is no output `m_nothing`")]
    fn a_pin_that_is_not_there_is_told() {
        let _ = build("top", |m| {
            let pins = m.enclosed(part);
            pins.get("m_nothing");
        });
    }
}
