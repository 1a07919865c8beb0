// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Netlist::clock_crossings`]: every register that takes what another clock's registers hold, for constraints that name it.

use crate::netlist::{DomainId, Netlist, NodeId, Op, ScopeId};
use std::collections::BTreeSet;

/// A register that another clock's register or memory feeds: the first flop of a synchroniser, or what a memory is read into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockCrossing {
    /// Its instance, with slashes from below the top; empty for the top itself.
    pub instance: String,
    /// Its name in the Verilog.
    pub register: String,
    /// Its width.
    pub width: u32,
    /// The clock that feeds it.
    pub from: String,
    /// Its own.
    pub to: String,
}

impl Netlist {
    /// All crossings: the build-time checks let nothing else pass from one clock to another. An input of the top counts as of its domain.
    pub fn clock_crossings(&self) -> Vec<ClockCrossing> {
        let mut found = BTreeSet::new();
        for reg in self.regs.iter().filter(|reg| reg.crossing) {
            let mut from = BTreeSet::new();
            let mut seen = BTreeSet::new();
            reg.assigns.iter().for_each(|(_, value)| self.feeds(*value, &mut seen, &mut from));
            self.crossing(&mut found, reg.node, reg.domain, &from);
        }
        for mem in self.mems.iter().filter(|mem| mem.crossing) {
            let from: BTreeSet<DomainId> = mem.writes.iter().map(|write| write.domain).collect();
            mem.reads
                .iter()
                .filter(|read| read.clocked)
                .for_each(|read| self.crossing(&mut found, read.node, read.domain, &from));
        }
        found.into_iter().collect()
    }

    fn crossing(
        &self,
        found: &mut BTreeSet<ClockCrossing>,
        node: NodeId,
        to: DomainId,
        from: &BTreeSet<DomainId>,
    ) {
        let clock = |domain: DomainId| self.domains[domain as usize].clock.clone();
        let node = &self.nodes[node as usize];
        for other in from.iter().filter(|from| **from != to) {
            found.insert(ClockCrossing {
                instance: self.below_top(node.scope),
                register: node.name.clone().unwrap_or_default(),
                width: node.width,
                from: clock(*other),
                to: clock(to),
            });
        }
    }

    fn below_top(&self, scope: ScopeId) -> String {
        let path = self.path(scope);
        path.split('.').skip(1).collect::<Vec<_>>().join("/")
    }

    /// The domains of what a node depends on in the same instant.
    fn feeds(&self, id: NodeId, seen: &mut BTreeSet<NodeId>, found: &mut BTreeSet<DomainId>) {
        if !seen.insert(id) {
            return;
        }
        match &self.nodes[id as usize].op {
            Op::Input(domain) => {
                found.insert(*domain);
            }
            Op::Reg(index) => {
                found.insert(self.regs[*index as usize].domain);
            }
            Op::MemRead(index, port) => {
                found.insert(self.mems[*index as usize].reads[*port as usize].domain);
            }
            Op::Wire(index) => {
                for (cond, value) in &self.wires[*index as usize].assigns {
                    cond.iter().chain([value]).for_each(|on| self.feeds(*on, seen, found));
                }
            }
            op => op.operands(&mut |on| self.feeds(on, seen, found)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{async_fifo, bits, build};

    #[test]
    fn every_register_that_another_clock_feeds_is_named() {
        let netlist = build("top", |m| {
            let (core, far) = (m.current_domain(), m.domain("far"));
            let beats = m.in_domain(far, |m| m.stream_in("in", &bits(8)));
            m.stream_out("out", async_fifo(&m.label("cross"), 4, far, core, beats));
            let flag = m.in_domain(far, |m| m.input("flag", 1));
            m.output("seen", &m.synchronise("flag", !flag));
        });
        let netlist = netlist.unwrap();
        let found: Vec<String> = netlist
            .clock_crossings()
            .into_iter()
            .map(|c| format!("{}/{}:{} {} {}", c.instance, c.register, c.width, c.from, c.to))
            .collect();
        let wanted = [
            "/flag_meta:1 far_clk clk",
            "cross_async_fifo/head_meta:3 far_clk clk",
            "cross_async_fifo/payload:8 far_clk clk",
            "cross_async_fifo/tail_meta:3 clk far_clk",
        ];
        assert_eq!(found, wanted);
        // They are called so in the Verilog.
        let verilog = netlist.verilog();
        for name in ["flag_meta;", "] head_meta;", "] tail_meta;", "] payload;"] {
            assert!(verilog.contains(name), "{name}");
        }
    }
}
