// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Netlist::zoo`]: every module of a design side by side.

use crate::netlist::*;
use std::collections::{HashMap, HashSet};

impl Netlist {
    /// One instance of each distinct module below the top side by side, in a new top `zoo` with all their ports as `MODULE__PORT`.
    ///
    /// An instance brings the modules below it along. The top, which is every module once more, is run by itself. With
    /// random input on every port, one Verilated model and one native [`Sim`](crate::Sim) of the zoo run each module by
    /// itself. Properties are left out, for random input breaks what they assume. Clocks and resets are shared and keep
    /// their names.
    pub fn zoo(&self) -> Netlist {
        let (_, modules) = self.print();
        let mut net = Netlist { domains: self.domains.clone(), ..Netlist::default() };
        net.scopes.push(ScopeInfo {
            module: "zoo".into(),
            instance: "zoo".into(),
            parent: None,
            loc: self.scopes[0].loc,
        });
        let mut by_scope: Vec<Vec<NodeId>> = vec![Vec::new(); self.scopes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            by_scope[node.scope as usize].push(id as NodeId);
        }
        let mut children: Vec<Vec<ScopeId>> = vec![Vec::new(); self.scopes.len()];
        for (id, scope) in self.scopes.iter().enumerate() {
            if let Some(parent) = scope.parent {
                children[parent as usize].push(id as ScopeId);
            }
        }
        let mut seen = HashSet::new();
        let mut taken = HashSet::new();
        for (id, module) in modules.iter().enumerate().skip(1) {
            if seen.insert(module) {
                let tree = Tree { from: self, by_scope: &by_scope, children: &children, root: id as ScopeId };
                tree.copy_into(&mut net, module, &mut taken);
            }
        }
        net
    }
}

/// A module instance and all below it.
struct Tree<'n> {
    from: &'n Netlist,
    by_scope: &'n [Vec<NodeId>],
    children: &'n [Vec<ScopeId>],
    root: ScopeId,
}

impl Tree<'_> {
    fn copy_into(&self, net: &mut Netlist, module: &str, taken: &mut HashSet<String>) {
        let from = self.from;
        let loc = from.scopes[self.root as usize].loc;
        let mut port_name = |port: &str| {
            let base = format!("{module}__{port}");
            let mut name = base.clone();
            let mut n = 1;
            while !taken.insert(name.clone()) {
                name = format!("{base}_{n}");
                n += 1;
            }
            name
        };

        let mut old_scopes = vec![self.root];
        let mut at = 0;
        while at < old_scopes.len() {
            old_scopes.extend(&self.children[old_scopes[at] as usize]);
            at += 1;
        }
        // Children after their parents, as the printer expects.
        old_scopes.sort_unstable();
        let mut scopes: HashMap<ScopeId, ScopeId> = HashMap::new();
        for id in &old_scopes {
            scopes.insert(*id, net.scopes.len() as ScopeId);
            let mut info = from.scopes[*id as usize].clone();
            if *id == self.root {
                (info.instance, info.parent) = (module.to_string(), Some(0));
            } else {
                info.parent = info.parent.map(|p| scopes[&p]);
            }
            net.scopes.push(info);
        }

        let mut old_nodes: Vec<NodeId> =
            old_scopes.iter().flat_map(|s| self.by_scope[*s as usize].iter().copied()).collect();
        old_nodes.sort_unstable();

        // The root's inputs become inputs of the zoo.
        let mut nodes: HashMap<NodeId, NodeId> = HashMap::new();
        let mut inputs: HashMap<NodeId, (NodeId, String)> = HashMap::new();
        for id in &old_nodes {
            let node = &from.nodes[*id as usize];
            let port = match &node.op {
                Op::Input(_) => node.name.clone().unwrap_or_default(),
                Op::Port(source, port) if !scopes.contains_key(&from.nodes[*source as usize].scope) => {
                    port.clone()
                }
                _ => continue,
            };
            let name = Some(port_name(&port));
            net.nodes.push(Node { op: Op::Input(0), width: node.width, scope: 0, loc, name, weak: false });
            let input = net.nodes.len() as NodeId - 1;
            net.inputs.push(input);
            inputs.insert(*id, (input, port));
        }

        let is_input: HashSet<NodeId> = inputs.keys().copied().collect();
        for id in &old_nodes {
            nodes.insert(*id, net.nodes.len() as NodeId);
            let mut node = from.nodes[*id as usize].clone();
            node.scope = scopes[&node.scope];
            if let Some((input, port)) = inputs.remove(id) {
                node.op = Op::Port(input, port);
            }
            net.nodes.push(node);
        }
        let map = |id: NodeId| nodes[&id];
        let map_assigns = |assigns: &[Assign]| assigns.iter().map(|(c, v)| (c.map(map), map(*v))).collect();

        let mut mems: HashMap<MemId, MemId> = HashMap::new();
        for (index, mem) in from.mems.iter().enumerate().filter(|(_, m)| scopes.contains_key(&m.scope)) {
            let mut mem = mem.clone();
            mem.scope = scopes[&mem.scope];
            for read in &mut mem.reads {
                (read.node, read.en, read.addr) = (map(read.node), map(read.en), map(read.addr));
            }
            for write in &mut mem.writes {
                (write.en, write.addr, write.data) = (map(write.en), map(write.addr), map(write.data));
                write.lanes = write.lanes.map(|(enables, lane)| (map(enables), lane));
            }
            mems.insert(index as MemId, net.mems.len() as MemId);
            net.mems.push(mem);
        }
        let mut boxes: HashMap<u32, u32> = HashMap::new();
        for (index, unit) in from.boxes.iter().enumerate().filter(|(_, b)| scopes.contains_key(&b.scope)) {
            let mut unit = unit.clone();
            unit.scope = scopes[&unit.scope];
            unit.inputs.iter_mut().chain(&mut unit.outputs).for_each(|(_, id)| *id = map(*id));
            boxes.insert(index as u32, net.boxes.len() as u32);
            net.boxes.push(unit);
        }
        for id in &old_nodes {
            let new = map(*id);
            // The root's inputs are there already.
            let op = match net.nodes[new as usize].op.clone() {
                Op::Port(..) if is_input.contains(id) => continue,
                Op::Port(source, port) => Op::Port(map(source), port),
                Op::Unary(op, a) => Op::Unary(op, map(a)),
                Op::Binary(op, a, b) => Op::Binary(op, map(a), map(b)),
                Op::Mux(c, a, b) => Op::Mux(map(c), map(a), map(b)),
                Op::Slice(a, low) => Op::Slice(map(a), low),
                Op::Cat(parts) => Op::Cat(parts.into_iter().map(map).collect()),
                Op::Reg(index) => {
                    let mut reg = from.regs[index as usize].clone();
                    (reg.node, reg.assigns) = (new, map_assigns(&reg.assigns));
                    net.regs.push(reg);
                    Op::Reg(net.regs.len() as u32 - 1)
                }
                Op::Wire(index) => {
                    let mut wire = from.wires[index as usize].clone();
                    (wire.node, wire.assigns) = (new, map_assigns(&wire.assigns));
                    net.wires.push(wire);
                    Op::Wire(net.wires.len() as u32 - 1)
                }
                Op::MemRead(mem, port) => Op::MemRead(mems[&mem], port),
                Op::BlackBox(unit, pin) => Op::BlackBox(boxes[&unit], pin),
                op @ (Op::Const(..) | Op::Input(_)) => op,
            };
            net.nodes[new as usize].op = op;
        }

        // The root's outputs, in the order in which they were declared or first taken out.
        let outputs: Vec<(String, NodeId)> = match from.scopes[self.root as usize].parent {
            None => from.outputs.clone(),
            Some(parent) => {
                let taken_out = self.by_scope[parent as usize].iter().filter_map(|id| {
                    match &from.nodes[*id as usize].op {
                        Op::Port(source, port) if from.nodes[*source as usize].scope == self.root => {
                            Some((port.clone(), *source))
                        }
                        _ => None,
                    }
                });
                taken_out.collect()
            }
        };
        for (port, source) in outputs {
            let name = port_name(&port);
            let source = map(source);
            let width = net.nodes[source as usize].width;
            let label = Some(name.clone());
            net.nodes.push(Node {
                op: Op::Port(source, port),
                width,
                scope: 0,
                loc,
                name: label,
                weak: true,
            });
            net.outputs.push((name, net.nodes.len() as NodeId - 1));
        }
    }
}
