// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a finished design is checked for: every signal driven on every path, everything declared read, no
//! combinational loop, no unguarded crossing between clocks.

use crate::design::{Design, Loc};
use crate::netlist::*;
use crate::sim::depends;
use std::collections::{HashMap, HashSet, VecDeque};

/// All errors of a design, one message each, in the order of declaration within each kind of error.
pub(crate) fn check(design: &Design) -> Vec<String> {
    let mut checker = Checker { design, net: &design.net, errors: Vec::new() };
    checker.ports();
    checker.inouts();
    checker.driven();
    checker.read();
    let components = checker.components();
    checker.loops(&components);
    if design.net.domains.len() > 1 {
        checker.crossings(&components);
    }
    checker.errors
}

struct Checker<'d> {
    design: &'d Design,
    net: &'d Netlist,
    errors: Vec<String>,
}

/// A set of clock domains.
type Domains = u64;

impl Checker<'_> {
    fn node(&self, id: NodeId) -> &Node {
        &self.net.nodes[id as usize]
    }

    /// The node's name, module and place.
    fn describe(&self, id: NodeId) -> String {
        let node = self.node(id);
        let path = self.net.path(node.scope);
        match &node.name {
            Some(name) => format!("`{name}` in `{path}` ({})", node.loc),
            None => format!("an unnamed `{}` in `{path}` ({})", node.op.word(), node.loc),
        }
    }

    /// An error about a declared node.
    fn fault(&mut self, id: NodeId, kind: &str, what: &str) {
        let node = self.node(id);
        let name = node.name.as_deref().unwrap_or("unnamed");
        let message = format!("{}: {kind} `{name}` in `{}` {what}", node.loc, self.net.path(node.scope));
        self.errors.push(message);
    }

    fn ports(&mut self) {
        let mut seen = HashSet::new();
        for domain in &self.net.domains {
            seen.extend([domain.clock.as_str(), domain.reset.as_str()]);
        }
        let inputs =
            self.net.inputs.iter().map(|id| (self.node(*id).name.as_deref().unwrap_or_default(), *id));
        let outputs = self.net.outputs.iter().map(|(name, id)| (name.as_str(), *id));
        let mut errors = Vec::new();
        for (name, id) in inputs.chain(outputs) {
            if crate::verilog::KEYWORDS.contains(&name) {
                errors.push(format!(
                    "{}: port `{name}` of `{}` is a word of Verilog: give it another name",
                    self.node(id).loc,
                    self.net.top()
                ));
            }
            if !seen.insert(name) {
                errors.push(format!(
                    "{}: port `{name}` of `{}` is declared twice: give it another name",
                    self.node(id).loc,
                    self.net.top()
                ));
            }
        }
        let clocks: HashSet<&str> =
            self.net.domains.iter().flat_map(|d| [d.clock.as_str(), d.reset.as_str()]).collect();
        let mut reported = HashSet::new();
        for node in &self.net.nodes {
            let Op::Port(source, port) = &node.op else { continue };
            if !clocks.contains(port.as_str()) {
                continue;
            }
            let inward = self.net.scopes[node.scope as usize].parent == Some(self.node(*source).scope);
            let child = if inward { node.scope } else { self.node(*source).scope };
            let child = &self.net.scopes[child as usize];
            if reported.insert((&child.module, port)) {
                errors.push(format!(
                    "{}: port `{port}` of `{}` has the name of a clock or reset: give it another name",
                    node.loc, child.module
                ));
            }
        }
        self.errors.extend(errors);
    }

    fn driven(&mut self) {
        for wire in &self.net.wires {
            if wire.assigns.is_empty() {
                self.fault(wire.node, "wire", "has no driver: `drive` it, `set` it, or `accept` its stream");
            } else if !wire.driven {
                self.fault(
                    wire.node,
                    "wire",
                    "is not assigned on every path: give it a default before the `when` or add `otherwise`",
                );
            }
        }
        for reg in &self.net.regs {
            if reg.assigns.iter().all(|(_, value)| *value == reg.node) {
                self.fault(reg.node, "register", "is never assigned: use a literal, or `set` it");
            }
        }
    }

    /// Which nodes something refers to.
    fn references(&self) -> Vec<bool> {
        let mut read = self.references_of(|_| true);
        self.net.boxes.iter().flat_map(|b| &b.inputs).for_each(|(_, id)| read[*id as usize] = true);
        read
    }

    /// Likewise, without black boxes and operations of another kind.
    fn references_of(&self, kind: impl Fn(&Op) -> bool) -> Vec<bool> {
        let net = self.net;
        let mut read = vec![false; net.nodes.len()];
        let mut mark = |id: NodeId| read[id as usize] = true;
        for node in net.nodes.iter().filter(|node| kind(&node.op)) {
            node.op.operands(&mut mark);
        }
        let regs = net.regs.iter().map(|r| (r.node, &r.assigns));
        for (target, assigns) in regs.chain(net.wires.iter().map(|w| (w.node, &w.assigns))) {
            for (cond, value) in assigns {
                cond.iter().chain([value]).filter(|id| **id != target).for_each(|id| mark(*id));
            }
        }
        for mem in &net.mems {
            for read in &mem.reads {
                [read.en, read.addr].into_iter().for_each(&mut mark);
            }
            for write in &mem.writes {
                [write.en, write.addr, write.data].into_iter().for_each(&mut mark);
                write.lanes.iter().for_each(|(enables, _)| mark(*enables));
            }
        }
        net.properties.iter().for_each(|p| mark(p.cond));
        net.outputs.iter().for_each(|(_, id)| mark(*id));
        read
    }

    /// What goes both ways, and parts of it, belong to black boxes.
    fn inouts(&mut self) {
        if self.net.inouts.is_empty() {
            return;
        }
        let read = self.references_of(|op| !matches!(op, Op::Slice(..)));
        let part = |id: NodeId| match self.node(id).op {
            Op::Slice(of, _) => of,
            _ => id,
        };
        let wrong: Vec<NodeId> = (0..self.net.nodes.len() as NodeId)
            .filter(|id| read[*id as usize] && self.net.inouts.contains(&part(*id)))
            .map(part)
            .collect();
        for id in wrong {
            self.fault(
                id,
                "port",
                "goes both ways: connect it to pins of black boxes alone, and read what they give",
            );
        }
    }

    fn read(&mut self) {
        let mut read = self.references();
        self.design.discarded.iter().for_each(|id| read[*id as usize] = true);
        let regs = self.net.regs.iter().map(|r| (r.node, "register"));
        let wires = self.net.wires.iter().map(|w| (w.node, "wire"));
        for (id, kind) in regs.chain(wires) {
            if !read[id as usize] && !self.node(id).weak {
                self.fault(id, kind, "is never read: remove it or `discard` it");
            }
        }
        for (index, mem) in self.net.mems.iter().enumerate() {
            let used = mem.reads.iter().any(|port| read[port.node as usize]);
            if !used && !self.design.discarded_mems.contains(&(index as MemId)) {
                self.errors.push(format!(
                    "{}: memory `{}` in `{}` is never read: remove it or `discard` it",
                    mem.loc,
                    mem.name,
                    self.net.path(mem.scope)
                ));
            }
        }
    }

    fn dependencies(&self, id: NodeId) -> Vec<NodeId> {
        let mut on = Vec::new();
        depends(self.net, id, &mut |n| on.push(n));
        on
    }

    /// The strongly connected components of the combinational graph, each after those on which it depends
    /// (Tarjan's algorithm without recursion).
    fn components(&self) -> Vec<Vec<NodeId>> {
        const NEW: u32 = u32::MAX;
        let count = self.net.nodes.len();
        let mut order = vec![NEW; count];
        let mut lowest = vec![0u32; count];
        let mut open = vec![false; count];
        let mut stack = Vec::new();
        let mut next = 0;
        let mut components = Vec::new();
        let mut calls: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
        for root in 0..count as NodeId {
            if order[root as usize] != NEW {
                continue;
            }
            calls.push((root, self.dependencies(root)));
            while let Some((id, pending)) = calls.last_mut() {
                let (id, here) = (*id, *id as usize);
                if order[here] == NEW {
                    (order[here], lowest[here], open[here]) = (next, next, true);
                    next += 1;
                    stack.push(id);
                }
                if let Some(on) = pending.pop() {
                    let there = on as usize;
                    if order[there] == NEW {
                        let dependencies = self.dependencies(on);
                        calls.push((on, dependencies));
                    } else if open[there] {
                        lowest[here] = lowest[here].min(order[there]);
                    }
                    continue;
                }
                calls.pop();
                if let Some((caller, _)) = calls.last() {
                    let caller = *caller as usize;
                    lowest[caller] = lowest[caller].min(lowest[here]);
                }
                if lowest[here] == order[here] {
                    let from = stack.iter().rposition(|n| *n == id).expect("it is on the stack");
                    let component = stack.split_off(from);
                    component.iter().for_each(|n| open[*n as usize] = false);
                    components.push(component);
                }
            }
        }
        components
    }

    fn loops(&mut self, components: &[Vec<NodeId>]) {
        let looped = |c: &Vec<NodeId>| c.len() > 1 || self.dependencies(c[0]).contains(&c[0]);
        let mut cycles: Vec<Vec<NodeId>> =
            components.iter().filter(|c| looped(c)).map(|c| self.shortest(c)).collect();
        cycles.sort();
        for cycle in cycles {
            // From what is read to what reads it, and back to the first.
            let steps: Vec<String> = cycle.iter().chain(&cycle[..1]).map(|id| self.describe(*id)).collect();
            self.errors.push(format!(
                "{}: combinational loop: {}: break it with a register",
                self.node(cycle[0]).loc,
                steps.join(" -> ")
            ));
        }
    }

    /// The shortest cycle through the component's first declared node, from what is read to what reads it.
    fn shortest(&self, component: &[NodeId]) -> Vec<NodeId> {
        let inside: HashSet<NodeId> = component.iter().copied().collect();
        // Better one with a name from the source.
        let rank = |id: &&NodeId| (self.node(**id).name.is_none() || self.node(**id).weak, **id);
        let start = *component.iter().min_by_key(rank).expect("components are not empty");
        let mut reader = HashMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(id) = queue.pop_front() {
            for on in self.dependencies(id) {
                if on == start {
                    let mut cycle = vec![start];
                    let mut at = id;
                    while at != start {
                        cycle.push(at);
                        at = reader[&at];
                    }
                    return cycle;
                }
                if inside.contains(&on) && !reader.contains_key(&on) {
                    reader.insert(on, id);
                    queue.push_back(on);
                }
            }
        }
        vec![start]
    }

    /// The domain that a node brings in by itself, if any.
    fn own_domains(&self, id: NodeId) -> Domains {
        let net = self.net;
        match &net.nodes[id as usize].op {
            Op::Input(domain) => 1 << domain,
            Op::Reg(index) => 1 << net.regs[*index as usize].domain,
            Op::MemRead(index, port) => {
                let mem = &net.mems[*index as usize];
                let port = &mem.reads[*port as usize];
                if port.clocked || mem.crossing {
                    1 << port.domain
                } else {
                    mem.writes.iter().fold(0, |all, write| all | 1 << write.domain)
                }
            }
            _ => 0,
        }
    }

    /// Whether a node's domain is its own only, whatever it is computed from: the check is at its address.
    fn sealed(&self, id: NodeId) -> bool {
        match self.node(id).op {
            Op::MemRead(index, _) => self.net.mems[index as usize].crossing,
            _ => false,
        }
    }

    fn crossings(&mut self, components: &[Vec<NodeId>]) {
        let net = self.net;
        if net.domains.len() > Domains::BITS as usize {
            self.errors.push(format!(
                "{} clock domains; at most {} can be",
                net.domains.len(),
                Domains::BITS
            ));
            return;
        }
        let mut domains: Vec<Domains> = vec![0; net.nodes.len()];
        for component in components {
            let mut all = 0;
            for id in component {
                all |= self.own_domains(*id);
                if !self.sealed(*id) {
                    depends(net, *id, &mut |on| all |= domains[on as usize]);
                }
            }
            component.iter().for_each(|id| domains[*id as usize] = all);
        }

        for reg in net.regs.iter().filter(|r| !r.crossing) {
            let read = reg.assigns.iter().flat_map(|(cond, value)| cond.iter().chain([value])).copied();
            let node = self.node(reg.node);
            let what = format!("register {}", self.describe(reg.node));
            self.reads_only(&domains, node.loc, &what, reg.domain, read.collect());
        }
        for mem in &net.mems {
            let name = format!("memory `{}` in `{}` ({})", mem.name, net.path(mem.scope), mem.loc);
            for port in &mem.reads {
                let what = format!("a read port of {name}");
                let loc = self.node(port.node).loc;
                if port.clocked {
                    self.reads_only(&domains, loc, &what, port.domain, vec![port.en, port.addr]);
                } else if mem.crossing {
                    self.reads_only(&domains, loc, &what, port.domain, vec![port.addr]);
                }
            }
            for port in &mem.writes {
                let what = format!("a write port of {name}");
                let mut read = vec![port.en, port.addr, port.data];
                read.extend(port.lanes.map(|(enables, _)| enables));
                self.reads_only(&domains, mem.loc, &what, port.domain, read);
            }
            self.one_clock(mem, &name);
        }
        for property in &net.properties {
            let what = format!("the property \"{}\" in `{}`", property.message, net.path(property.scope));
            self.reads_only(&domains, property.loc, &what, property.domain, vec![property.cond]);
        }
    }

    /// All ports of a memory that is not made for crossing are on the clock on which it is written.
    fn one_clock(&mut self, mem: &Mem, name: &str) {
        let Some(first) = mem.writes.first().filter(|_| !mem.crossing) else {
            return;
        };
        let reads = mem.reads.iter().map(|r| (r.domain, "read", self.node(r.node).loc));
        let writes = mem.writes.iter().map(|w| (w.domain, "also written", mem.loc));
        let others: Vec<_> = reads.chain(writes).filter(|(domain, ..)| *domain != first.domain).collect();
        let clock = |domain: DomainId| &self.net.domains[domain as usize].clock;
        let errors: Vec<String> = others
            .into_iter()
            .map(|(domain, how, loc)| {
                format!(
                    "{loc}: {name} is written on clock `{}` but {how} on clock `{}`: use an asynchronous FIFO",
                    clock(first.domain),
                    clock(domain)
                )
            })
            .collect();
        self.errors.extend(errors);
    }

    /// Complains of each foreign domain on which `read` depends.
    fn reads_only(&mut self, domains: &[Domains], loc: Loc, what: &str, domain: DomainId, read: Vec<NodeId>) {
        let all = read.iter().fold(0, |all, id| all | domains[*id as usize]);
        let foreign = all & !(1 << domain);
        for other in (0..Domains::BITS).filter(|d| foreign >> d & 1 == 1) {
            let source = self.source(domains, &read, other).map(|id| self.describe(id)).unwrap_or_default();
            let (here, there) = (&self.net.domains[domain as usize], &self.net.domains[other as usize]);
            self.errors.push(format!(
                "{loc}: {what} runs on clock `{}` but depends on {source} of clock `{}`: take it across with \
                 `synchronise` or an asynchronous FIFO",
                here.clock, there.clock
            ));
        }
    }

    /// The nearest signal that brings in a domain.
    fn source(&self, domains: &[Domains], read: &[NodeId], domain: DomainId) -> Option<NodeId> {
        let mut seen: HashSet<NodeId> = HashSet::new();
        let mut queue: VecDeque<NodeId> = read.iter().copied().collect();
        while let Some(id) = queue.pop_front() {
            if domains[id as usize] >> domain & 1 == 0 || !seen.insert(id) {
                continue;
            }
            if self.own_domains(id) >> domain & 1 == 1 {
                return Some(id);
            }
            queue.extend(self.dependencies(id));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::{build, clog2, Collision, Scope};

    #[track_caller]
    fn errors(body: impl FnOnce(&Scope)) -> Vec<String> {
        match build("top", body) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.0,
        }
    }

    /// The only error holds all of `parts` and a place in this file.
    #[track_caller]
    fn one(errors: &[String], parts: &[&str]) {
        assert!(errors.len() == 1, "{errors:#?}");
        for part in parts.iter().chain(&["check.rs:"]) {
            assert!(errors[0].contains(part), "no `{part}` in: {}", errors[0]);
        }
    }

    #[test]
    fn undriven_and_partly_driven_wires() {
        let found = errors(|m| {
            let w = m.wire("w", 4);
            m.output("o", &w);
        });
        one(&found, &["wire `w` in `top` has no driver"]);
        let found = errors(|m| {
            let a = m.input("a", 1);
            let w = m.wire("w", 4);
            m.when(a, |m| m.set(&w, 3));
            m.output("o", &w);
        });
        one(&found, &["wire `w` in `top` is not assigned on every path", "`otherwise`"]);
    }

    #[test]
    fn what_is_never_read() {
        let found = errors(|m| {
            let a = m.input("a", 1);
            let r = m.reg("r", 1).reset(0);
            m.when(a, |m| m.set(&r, r)).otherwise(|m| m.set(&r, 1));
        });
        one(&found, &["register `r` in `top` is never read"]);
        let found = errors(|m| {
            let a = m.input("a", 4);
            let mem = m.mem("table", 16, &a).build();
            mem.write(crate::lit(1, 1), a, &a);
        });
        one(&found, &["memory `table` in `top` is never read"]);
        let found = errors(|m| {
            let a = m.input("a", 4);
            let mem = m.mem("table", 16, &a).build();
            mem.write(crate::lit(1, 1), a, &a);
            mem.discard();
            let w = m.wire("w", 4);
            m.drive(&w, a);
            m.discard(&w);
        });
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn a_register_that_is_never_assigned() {
        let found = errors(|m| {
            let r = m.reg("r", 3).reset(5);
            m.output("o", &r);
        });
        one(&found, &["register `r` in `top` is never assigned", "literal"]);
    }

    #[test]
    fn a_port_declared_twice() {
        let found = errors(|m| {
            let a = m.input("a", 3);
            m.output("a", &a);
        });
        one(&found, &["port `a` of `top` is declared twice"]);
    }

    #[test]
    fn combinational_loops_are_named() {
        let found = errors(|m| {
            let a = m.input("a", 4);
            let w = m.wire("w", 4);
            let sum = (w + a).named("sum");
            m.drive(&w, sum);
            m.output("o", &w);
        });
        one(&found, &["combinational loop: `w` in `top` (", ") -> `sum` in `top` (", ") -> `w` in `top` ("]);
        let found = errors(|m| {
            let a = m.input("a", 4);
            let mem = m.mem("next", 16, &a).build();
            mem.write(crate::lit(1, 1), a, &a);
            let at = m.wire("at", clog2(16));
            m.drive(&at, mem.read_now(at));
            m.output("o", &at);
        });
        one(&found, &["combinational loop: `at`", "`next_q`"]);
    }

    #[test]
    fn a_clocked_read_breaks_a_loop() {
        let found = errors(|m| {
            let a = m.input("a", 4);
            let mem = m.mem("next", 16, &a).build();
            mem.write(crate::lit(1, 1), a, &a);
            let at = m.wire("at", clog2(16));
            m.drive(&at, mem.read(m, crate::lit(1, 1), at, Collision::Old));
            m.output("o", &at);
        });
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn crossings_name_both_clocks_and_signals() {
        let found = errors(|m| {
            let rx = m.domain("rx");
            let a = m.input("a", 1);
            let r = m.in_domain(rx, |m| {
                let r = m.reg("r", 1).reset(0);
                m.set(&r, !a);
                r
            });
            m.output("o", &r);
        });
        one(
            &found,
            &["register `r` in `top`", "runs on clock `rx_clk`", "depends on `a` in `top`", "clock `clk`"],
        );
        let found = errors(|m| {
            let rx = m.domain("rx");
            let a = m.input("a", 4);
            let mem = m.mem("shared", 16, &a).build();
            mem.write(crate::lit(1, 1), a, &a);
            m.in_domain(rx, |m| {
                let at = m.input("at", 4);
                m.output("o", &mem.read_now(at));
            });
        });
        one(&found, &["memory `shared`", "written on clock `clk` but read on clock `rx_clk`"]);
        let found = errors(|m| {
            let rx = m.domain("rx");
            let a = m.input("a", 1);
            m.in_domain(rx, |m| {
                m.assert(a, "never mind");
            });
        });
        one(&found, &["the property \"never mind\"", "`rx_clk`", "`a`", "`clk`"]);
    }

    #[test]
    fn guarded_crossings_pass() {
        let found = errors(|m| {
            let rx = m.domain("rx");
            let a = m.input("a", 4);
            let held = m.delay("held", &a);
            let mem = m.mem("shared", 16, &a).build();
            mem.allow_crossing();
            mem.write(crate::lit(1, 1), a, &a);
            m.in_domain(rx, |m| {
                let at = m.synchronise("at", held);
                let word = mem.read_now(at);
                m.output("o", &m.delay("word", &word));
            });
        });
        assert!(found.is_empty(), "{found:#?}");
    }
}
