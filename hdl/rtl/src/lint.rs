// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Netlist::lint`]: forms of a netlist that make its clock slow, found before any tool maps it.
//!
//! | rule | what it reports |
//! |---|---|
//! | [`Rule::Handshake`] | a `ready` or `valid` that comes to a block combinationally through more than [`PASSED`] others |
//! | [`Rule::BlockRam`] | the output of a block RAM or UltraRAM that comes to another block without a register |
//! | [`Rule::Loads`] | a net with more than [`LOADS`] loads: of a register that is not replicated, or of no register at all |
//!
//! A block is an instance in the top, or in a module that only connects blocks, with all that is in it. Loads are an estimate: a multiplexer and a
//! register with an enable load its condition once a bit, an inverter belongs to the LUT that it leads to, and LUT RAM has LUTs of 64 rows and 1 bit.

use crate::netlist::{Binary, Mem, Netlist, NodeId, Op, ScopeId, Style, Unary};
use crate::sim::depends;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// So many blocks a `ready` or `valid` may pass through.
pub const PASSED: u32 = 2;
/// So many loads a net may have.
pub const LOADS: u32 = 512;

/// Rows and bits of a LUT RAM primitive, bits of a block RAM and the most it has at one address, rows and bits of an UltraRAM.
const LUT_ROWS: u32 = 64;
const LUT_BITS: u32 = 7;
const BLOCK_BITS: u32 = 36 * 1024;
const BLOCK_WIDTH: u32 = 72;
const ULTRA_ROWS: u32 = 4096;

/// What a finding is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// A `ready` or `valid` through too many blocks.
    Handshake,
    /// A block RAM's output that leaves its block.
    BlockRam,
    /// A net with too many loads.
    Loads,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 3] = [Rule::Handshake, Rule::BlockRam, Rule::Loads];

    /// A word for files.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Handshake => "handshake",
            Rule::BlockRam => "block_ram",
            Rule::Loads => "loads",
        }
    }
}

/// What the lint has found.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The block that the signal leaves.
    pub from: String,
    /// The block that it comes to; of [`Rule::Loads`] the one with the most of its loads.
    pub to: String,
    /// The signal's name there: of a port in `to`, of a memory or a net in `from`.
    pub signal: String,
    /// File and line of what drives it.
    pub place: String,
    /// What is wrong with it.
    pub text: String,
}

impl Netlist {
    /// All findings. `wiring` are the modules that only connect blocks; the top is one.
    pub fn lint(&self, wiring: &[&str]) -> Vec<Finding> {
        let lint = Lint::new(self, wiring);
        let mut found = lint.handshakes();
        found.extend(lint.block_rams());
        found.extend(lint.loads());
        found.sort();
        found
    }
}

struct Lint<'n> {
    net: &'n Netlist,
    /// Of each scope, the instance that is its block, or itself if it only connects blocks.
    block: Vec<ScopeId>,
    wiring: Vec<bool>,
    /// What outputs of the top depend on.
    live: Vec<bool>,
    /// Nodes that a register, a memory or a black box in a scope reads, with that scope.
    kept: HashMap<NodeId, BTreeSet<ScopeId>>,
}

/// A way of a `ready` or `valid` to a node.
#[derive(Clone, Copy)]
struct Way {
    /// Blocks that it has passed through.
    passed: u32,
    /// The node before.
    by: Option<NodeId>,
}

/// A net, or a constant.
enum Driver {
    Net(NodeId, u32),
    Constant,
}

/// What loads a net.
struct Load {
    scope: ScopeId,
    node: NodeId,
    bit: u32,
    count: u32,
}

impl<'n> Lint<'n> {
    fn new(net: &'n Netlist, names: &[&str]) -> Self {
        let mut block: Vec<ScopeId> = Vec::new();
        let mut wiring: Vec<bool> = Vec::new();
        // Children come after their parents.
        for (scope, info) in net.scopes.iter().enumerate() {
            let above = info.parent.map(|parent| parent as usize);
            let inside = above.filter(|parent| !wiring[*parent]);
            wiring.push(above.is_none() || inside.is_none() && names.contains(&info.module.as_str()));
            block.push(inside.map_or(scope as ScopeId, |parent| block[parent]));
        }
        let mut lint = Lint { net, block, wiring, live: Vec::new(), kept: HashMap::new() };
        lint.mark();
        lint
    }

    /// Finds what is live, and what is kept. Properties keep nothing: no tool maps them.
    fn mark(&mut self) {
        let net = self.net;
        let mut live = vec![false; net.nodes.len()];
        let mut work: Vec<NodeId> = net.outputs.iter().map(|(_, id)| *id).collect();
        let mut mems = vec![false; net.mems.len()];
        let boxes =
            net.boxes.iter().flat_map(|unit| unit.inputs.iter().map(move |(_, id)| (*id, unit.scope)));
        for (id, scope) in boxes {
            work.push(id);
            self.kept.entry(id).or_default().insert(scope);
        }
        while let Some(id) = work.pop() {
            if std::mem::replace(&mut live[id as usize], true) {
                continue;
            }
            depends(net, id, &mut |on| work.push(on));
            let mut keeps = |id: NodeId, scope: ScopeId| {
                work.push(id);
                self.kept.entry(id).or_default().insert(scope);
            };
            match &net.nodes[id as usize].op {
                Op::Reg(reg) => {
                    let read = net.regs[*reg as usize].assigns.iter();
                    let scope = net.nodes[id as usize].scope;
                    read.flat_map(|(cond, value)| cond.iter().chain([value]))
                        .for_each(|id| keeps(*id, scope));
                }
                Op::MemRead(index, port) => {
                    let mem = &net.mems[*index as usize];
                    let read = &mem.reads[*port as usize];
                    if read.clocked {
                        [read.en, read.addr].into_iter().for_each(|id| keeps(id, mem.scope));
                    }
                    if !std::mem::replace(&mut mems[*index as usize], true) {
                        for write in &mem.writes {
                            let lanes = write.lanes.map(|(enables, _)| enables);
                            let all = [write.en, write.addr, write.data].into_iter().chain(lanes);
                            all.for_each(|id| keeps(id, mem.scope));
                        }
                    }
                }
                _ => {}
            }
        }
        self.live = live;
    }

    fn live(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.net.nodes.len() as NodeId).filter(|id| self.live[*id as usize])
    }

    fn block_of(&self, id: NodeId) -> ScopeId {
        self.block[self.net.nodes[id as usize].scope as usize]
    }

    fn is_wiring(&self, block: ScopeId) -> bool {
        self.wiring[block as usize]
    }

    /// Instances from below the top.
    fn name(&self, block: ScopeId) -> String {
        match self.net.path(block).split_once('.') {
            Some((_, below)) => below.into(),
            None => "(top)".into(),
        }
    }

    /// File and line of what computes a node, or a part of it.
    fn place(&self, id: NodeId) -> String {
        let at = match self.driver(id, 0, false) {
            Driver::Net(id, _) => id,
            Driver::Constant => id,
        };
        let loc = self.net.nodes[at as usize].loc;
        format!("{}:{}", loc.file(), loc.line())
    }

    fn signal(&self, id: NodeId) -> String {
        let node = &self.net.nodes[id as usize];
        match &node.op {
            Op::Port(_, port) => port.clone(),
            op => node.name.clone().unwrap_or_else(|| op.word().into()),
        }
    }

    /// Live nodes, each after those that it depends on. The build-time checks have found that there is no loop.
    fn order(&self) -> Vec<NodeId> {
        let mut order = Vec::new();
        let mut seen = vec![false; self.net.nodes.len()];
        let mut calls: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
        let dependencies = |id: NodeId| {
            let mut on = Vec::new();
            depends(self.net, id, &mut |id| on.push(id));
            on
        };
        for root in self.live() {
            if std::mem::replace(&mut seen[root as usize], true) {
                continue;
            }
            calls.push((root, dependencies(root)));
            while let Some((id, pending)) = calls.last_mut() {
                match pending.pop() {
                    Some(on) if std::mem::replace(&mut seen[on as usize], true) => {}
                    Some(on) => calls.push((on, dependencies(on))),
                    None => {
                        order.push(*id);
                        calls.pop();
                    }
                }
            }
        }
        order
    }

    /// A way comes from port to port, all of them a `ready` or `valid`. It passes through a block if it comes in and goes out in one cycle.
    fn ways(&self) -> Vec<Option<Way>> {
        let mut ways: Vec<Option<Way>> = vec![None; self.net.nodes.len()];
        for id in self.order() {
            let Op::Port(source, port) = &self.net.nodes[id as usize].op else {
                let mut best: Option<Way> = None;
                depends(self.net, id, &mut |on| {
                    let way = ways[on as usize].map(|way| Way { by: Some(on), ..way });
                    if way.is_some_and(|way| best.is_none_or(|best| way.passed > best.passed)) {
                        best = way;
                    }
                });
                ways[id as usize] = best;
                continue;
            };
            let (from, to) = (self.block_of(*source), self.block_of(id));
            let border = from != to && !(self.is_wiring(from) && self.is_wiring(to));
            let before = ways[*source as usize].map(|way| Way { by: Some(*source), ..way });
            ways[id as usize] = match before {
                before if !border => before,
                _ if !is_handshake(port) => None,
                None => Some(Way { passed: 0, by: None }),
                Some(way) => Some(Way { passed: way.passed + u32::from(!self.is_wiring(from)), ..way }),
            };
        }
        ways
    }

    fn handshakes(&self) -> Vec<Finding> {
        let ways = self.ways();
        let long = |id: NodeId| ways[id as usize].filter(|way| way.passed > PASSED);
        let mut found = Vec::new();
        // Ends are blocks, and what only connects them: registers there, and the top's ports.
        let mut end = |id: NodeId, way: Way, to: String| {
            let blocks = self.passed(&ways, id);
            let from = blocks.last().map(|(block, _)| block.clone()).unwrap_or_default();
            let shown: Vec<String> =
                blocks.iter().map(|(block, place)| format!("{block} ({place})")).collect();
            found.push(Finding {
                rule: Rule::Handshake,
                from,
                to,
                signal: self.signal(id),
                place: self.place(id),
                text: format!(
                    "passes combinationally through {} blocks, at most {PASSED} are allowed: {}",
                    way.passed,
                    shown.join(", ")
                ),
            });
        };
        for id in self.live() {
            let Some(way) = long(id) else { continue };
            let to = self.block_of(id);
            match &self.net.nodes[id as usize].op {
                Op::Port(source, _) if !self.is_wiring(to) && self.block_of(*source) != to => {
                    end(id, way, self.name(to));
                }
                _ => self
                    .kept
                    .get(&id)
                    .into_iter()
                    .flatten()
                    .filter(|scope| self.is_wiring(self.block[**scope as usize]))
                    .for_each(|scope| end(id, way, self.name(*scope))),
            }
        }
        let outputs: BTreeSet<NodeId> = self.net.outputs.iter().map(|(_, id)| *id).collect();
        for id in outputs {
            if let Some(way) = long(id) {
                end(id, way, "(port)".into());
            }
        }
        found
    }

    /// The blocks that a way has passed through, the first one first, each with the place of what drives the port.
    fn passed(&self, ways: &[Option<Way>], id: NodeId) -> Vec<(String, String)> {
        let mut blocks = Vec::new();
        let mut at = Some(id);
        while let Some(id) = at {
            let before = ways[id as usize].and_then(|way| way.by);
            if let (Some(before), Op::Port(..)) = (before, &self.net.nodes[id as usize].op) {
                let block = self.block_of(before);
                if !self.is_wiring(block) && block != self.block_of(id) {
                    blocks.push((self.name(block), self.place(before)));
                }
            }
            at = before;
        }
        blocks.reverse();
        blocks
    }

    fn block_rams(&self) -> Vec<Finding> {
        let mut users: Vec<Vec<NodeId>> = vec![Vec::new(); self.net.nodes.len()];
        self.live().for_each(|id| depends(self.net, id, &mut |on| users[on as usize].push(id)));
        let outputs: HashSet<NodeId> = self.net.outputs.iter().map(|(_, id)| *id).collect();
        let mut found = Vec::new();
        for mem in self.net.mems.iter().filter(|mem| is_block_ram(mem)) {
            let reads = mem.reads.iter().filter(|read| read.clocked && self.live[read.node as usize]);
            for read in reads {
                let from = self.block_of(read.node);
                for (to, (port, ports)) in self.reached(read.node, &users, &outputs) {
                    let loc = self.net.nodes[read.node as usize].loc;
                    found.push(Finding {
                        rule: Rule::BlockRam,
                        from: self.name(from),
                        to,
                        signal: mem.name.clone(),
                        place: format!("{}:{}", loc.file(), loc.line()),
                        text: format!("a block RAM's output without a register; signals that it comes to there: {ports}, `{port}` first"),
                    });
                }
            }
        }
        found
    }

    /// The blocks that a signal comes to in the same cycle: for each a port, and how many there are.
    fn reached(
        &self,
        begin: NodeId,
        users: &[Vec<NodeId>],
        outputs: &HashSet<NodeId>,
    ) -> BTreeMap<String, (String, usize)> {
        let mut reached: BTreeMap<String, (String, usize)> = BTreeMap::new();
        let mut reach = |to: String, id: NodeId| {
            reached.entry(to).or_insert_with(|| (self.signal(id), 0)).1 += 1;
        };
        let mut seen = HashSet::from([begin]);
        let mut work = vec![begin];
        while let Some(id) = work.pop() {
            let from = self.block_of(id);
            if outputs.contains(&id) {
                reach("(port)".into(), id);
            }
            if self.is_wiring(from) && id != begin {
                let kept = self.kept.get(&id).into_iter().flatten();
                kept.filter(|scope| self.is_wiring(self.block[**scope as usize]))
                    .for_each(|scope| reach(self.name(*scope), id));
            }
            for user in users[id as usize].iter().filter(|user| seen.insert(**user)) {
                let to = self.block_of(*user);
                match to == from || self.is_wiring(to) {
                    true => work.push(*user),
                    false => reach(self.name(to), *user),
                }
            }
        }
        reached
    }

    fn loads(&self) -> Vec<Finding> {
        let net = self.net;
        let mut first = Vec::with_capacity(net.nodes.len());
        let mut bits = 0usize;
        for node in &net.nodes {
            first.push(bits);
            bits += node.width as usize;
        }
        let mut loads = vec![0u32; bits];
        self.each_load(&mut |load| loads[first[load.node as usize] + load.bit as usize] += load.count);
        let worst = |id: NodeId| {
            let width = net.nodes[id as usize].width as usize;
            loads[first[id as usize]..][..width].iter().copied().max().unwrap_or(0)
        };
        let heavy: HashSet<NodeId> = self.live().filter(|id| worst(*id) > LOADS).collect();
        let mut blocks: HashMap<NodeId, BTreeMap<ScopeId, u32>> = HashMap::new();
        self.each_load(&mut |load| {
            if heavy.contains(&load.node) {
                let block = self.block[load.scope as usize];
                *blocks.entry(load.node).or_default().entry(block).or_default() += load.count;
            }
        });
        let mut found: Vec<Finding> = heavy
            .iter()
            .map(|id| {
                let node = &net.nodes[*id as usize];
                let why = match node.op {
                    Op::Reg(_) => "the register is not replicated",
                    _ => "no register drives it",
                };
                let place = format!("{}:{}", node.loc.file(), node.loc.line());
                self.heavy(
                    self.name(self.block_of(*id)),
                    self.signal(*id),
                    place,
                    worst(*id),
                    why,
                    &blocks[id],
                )
            })
            .collect();
        for (index, domain) in net.domains.iter().enumerate() {
            let mut blocks: BTreeMap<ScopeId, u32> = BTreeMap::new();
            let own = |reg: &&crate::netlist::Reg| {
                reg.domain as usize == index && reg.reset.is_some() && self.live[reg.node as usize]
            };
            for reg in net.regs.iter().filter(own) {
                *blocks.entry(self.block_of(reg.node)).or_default() += net.nodes[reg.node as usize].width;
            }
            let count = blocks.values().sum();
            if count > LOADS {
                let top = net.scopes[0].loc;
                let place = format!("{}:{}", top.file(), top.line());
                found.push(self.heavy(
                    "(top)".into(),
                    domain.reset.clone(),
                    place,
                    count,
                    "a port drives it",
                    &blocks,
                ));
            }
        }
        found
    }

    fn heavy(
        &self,
        from: String,
        signal: String,
        place: String,
        count: u32,
        why: &str,
        blocks: &BTreeMap<ScopeId, u32>,
    ) -> Finding {
        let mut most: Vec<(String, u32)> = blocks.iter().map(|(block, n)| (self.name(*block), *n)).collect();
        most.sort_by(|(a, x), (b, y)| y.cmp(x).then(a.cmp(b)));
        let to = most.first().map(|(block, _)| block.clone()).unwrap_or_default();
        let blocks = if most.len() == 1 { "block" } else { "blocks" };
        let text =
            format!("some {count} loads in {} {blocks}, at most {LOADS} are allowed; {why}", most.len());
        Finding { rule: Rule::Loads, from, to, signal, place, text }
    }

    /// What drives a bit, or with `inverters` its inverse.
    fn driver(&self, mut id: NodeId, mut bit: u32, inverters: bool) -> Driver {
        loop {
            match &self.net.nodes[id as usize].op {
                Op::Const(..) => return Driver::Constant,
                Op::Slice(of, low) => (id, bit) = (*of, bit + low),
                Op::Port(of, _) => id = *of,
                Op::Unary(Unary::Not, of) if inverters => id = *of,
                Op::Cat(parts) => {
                    for part in parts {
                        let width = self.net.nodes[*part as usize].width;
                        if bit < width {
                            id = *part;
                            break;
                        }
                        bit -= width;
                    }
                }
                Op::Wire(wire) => match self.net.wires[*wire as usize].assigns[..] {
                    [(None, value)] => id = value,
                    _ => return Driver::Net(id, bit),
                },
                // Between two constants a multiplexer is its condition, or a constant.
                Op::Mux(cond, yes, no) if inverters => {
                    let constant = |id: &NodeId| match &self.net.nodes[*id as usize].op {
                        Op::Const(bits, _) => Some(bits.words()[bit as usize / 64] >> (bit % 64) & 1),
                        _ => None,
                    };
                    match (constant(yes), constant(no)) {
                        (Some(yes), Some(no)) if yes == no => return Driver::Constant,
                        (Some(_), Some(_)) => (id, bit) = (*cond, 0),
                        _ => return Driver::Net(id, bit),
                    }
                }
                _ => return Driver::Net(id, bit),
            }
        }
    }

    /// Each load of each net that is not a constant.
    fn each_load(&self, f: &mut dyn FnMut(Load)) {
        let net = self.net;
        let width = |id: NodeId| net.nodes[id as usize].width;
        let mut bit = |scope: ScopeId, id: NodeId, bit: u32, count: u32| {
            if let Driver::Net(node, bit) = self.driver(id, bit, true) {
                f(Load { scope, node, bit, count });
            }
        };
        for id in self.live() {
            let node = &net.nodes[id as usize];
            let scope = node.scope;
            let mut all = |id: NodeId, count: u32| (0..width(id)).for_each(|at| bit(scope, id, at, count));
            match &node.op {
                Op::Unary(Unary::All | Unary::Any | Unary::Parity, of) => all(*of, 1),
                Op::Binary(Binary::Shl | Binary::Shr, of, by) => {
                    all(*of, 1);
                    all(*by, node.width);
                }
                Op::Binary(_, a, b) => [a, b].into_iter().for_each(|of| all(*of, 1)),
                Op::Mux(cond, yes, no) => {
                    let own = (0..node.width).filter(
                        |at| matches!(self.driver(id, *at, true), Driver::Net(driver, _) if driver == id),
                    );
                    let own: Vec<u32> = own.collect();
                    all(*cond, own.len() as u32);
                    for at in own {
                        bit(scope, *yes, at, 1);
                        bit(scope, *no, at, 1);
                    }
                }
                Op::Wire(wire) => match &net.wires[*wire as usize].assigns[..] {
                    [(None, _)] => {}
                    assigns => assigns.iter().for_each(|(cond, value)| {
                        cond.iter().for_each(|cond| all(*cond, node.width));
                        all(*value, 1);
                    }),
                },
                Op::Reg(reg) => net.regs[*reg as usize].assigns.iter().for_each(|(cond, value)| {
                    cond.iter().for_each(|cond| all(*cond, node.width));
                    all(*value, 1);
                }),
                _ => {}
            }
        }
        for mem in net.mems.iter().filter(|mem| mem.reads.iter().any(|read| self.live[read.node as usize])) {
            let mut all =
                |id: NodeId, count: u32| (0..width(id)).for_each(|at| bit(mem.scope, id, at, count));
            let (read_loads, write_loads) = primitives(mem);
            for read in mem.reads.iter().filter(|read| self.live[read.node as usize]) {
                all(read.addr, read_loads);
                if read.clocked {
                    all(read.en, write_loads.max(if is_block_ram(mem) { 0 } else { mem.width }));
                }
            }
            for write in &mem.writes {
                all(write.addr, write_loads);
                all(write.data, 1);
                all(write.en, write_loads);
                write.lanes.iter().for_each(|(enables, _)| all(*enables, 1));
            }
        }
        for unit in &net.boxes {
            let pins = unit.inputs.iter();
            pins.for_each(|(_, id)| (0..width(*id)).for_each(|at| bit(unit.scope, *id, at, 1)));
        }
        net.outputs.iter().for_each(|(_, id)| (0..width(*id)).for_each(|at| bit(0, *id, at, 1)));
    }
}

/// Whether a port's name, with or without a number, ends with `ready` or `valid`.
fn is_handshake(port: &str) -> bool {
    let stem = port.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    matches!(stem.rsplit('_').next(), Some("ready" | "valid"))
}

/// Whether the tools build it of block RAM or UltraRAM. What is left to them becomes LUT RAM where one row of that suffices.
fn is_block_ram(mem: &Mem) -> bool {
    match mem.built_as() {
        Style::Block | Style::Ultra => true,
        Style::Distributed => false,
        Style::Auto => mem.depth > LUT_ROWS,
    }
}

/// Loads of an address bit where it is read, and of an address bit and an enable where it is written.
fn primitives(mem: &Mem) -> (u32, u32) {
    let (depth, width) = (mem.depth, mem.width);
    if !is_block_ram(mem) {
        let rows = depth.div_ceil(LUT_ROWS);
        return (width * rows, width.div_ceil(LUT_BITS) * rows);
    }
    let units = match mem.style {
        Style::Ultra => width.div_ceil(BLOCK_WIDTH) * depth.div_ceil(ULTRA_ROWS),
        _ => width.div_ceil(BLOCK_WIDTH).max((depth.saturating_mul(width)).div_ceil(BLOCK_BITS)),
    };
    (units, units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bits, build, lit, module, Collision, Scope, Sig, Stream};

    fn lint(body: impl FnOnce(&Scope)) -> Vec<Finding> {
        lint_in(&[], body)
    }

    fn lint_in(wiring: &[&str], body: impl FnOnce(&Scope)) -> Vec<Finding> {
        build("top", body).unwrap_or_else(|errors| panic!("{errors}")).lint(wiring)
    }

    fn pairs(found: &[Finding], rule: Rule) -> Vec<(&str, &str, &str)> {
        let own = found.iter().filter(|finding| finding.rule == rule);
        own.map(|f| (f.from.as_str(), f.to.as_str(), f.signal.as_str())).collect()
    }

    /// A beat and its `ready` pass at once.
    #[module]
    fn open(m: &Scope, input: Stream<Sig>) -> Stream<Sig> {
        let output = Stream::new(m, "output", input.valid, !input.payload);
        input.accept(output.ready);
        output
    }

    /// Likewise, through another module.
    #[module]
    fn twice(m: &Scope, input: Stream<Sig>) -> Stream<Sig> {
        open(m, open(m, input))
    }

    /// `valid` and payload pass through registers, `ready` does not.
    #[module]
    fn half(m: &Scope, input: Stream<Sig>) -> Stream<Sig> {
        let full = m.reg("full", 1).reset(0);
        let held = m.reg("held", 8).no_reset();
        let output = Stream::new(m, "output", full, held);
        let ready = !full | output.ready;
        m.when(ready, |m| {
            m.set(&full, input.valid);
            m.set(&held, input.payload);
        });
        input.accept(ready);
        output
    }

    /// Nothing passes at once.
    #[module]
    fn closed(m: &Scope, input: Stream<Sig>) -> Stream<Sig> {
        let full = m.reg("full", 1).reset(0);
        let held = m.reg("held", 8).no_reset();
        let output = Stream::new(m, "output", full, held);
        m.when(!full, |m| {
            m.set(&full, input.valid);
            m.set(&held, input.payload);
        })
        .otherwise_when(output.ready, |m| m.set(&full, 0));
        input.accept(!full);
        output
    }

    /// The first and the last of each chain.
    fn ends(m: &Scope, between: impl FnOnce(&Scope, Stream<Sig>) -> Stream<Sig>) {
        let first = closed(&m.label("first"), m.stream_in("in", &bits(8)));
        let last = between(m, first);
        m.stream_out("out", closed(&m.label("last"), last));
    }

    #[test]
    fn a_ready_or_valid_through_three_blocks_is_found_and_one_through_two_is_not() {
        let found = lint(|m| ends(m, |m, s| open(m, open(m, s))));
        assert_eq!(found, []);
        let found = lint(|m| ends(m, |m, s| open(m, open(m, open(m, s)))));
        let wanted = [("open", "first_closed", "output_ready"), ("open_2", "last_closed", "input_valid")];
        assert_eq!(pairs(&found, Rule::Handshake), wanted);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|f| f.place.contains("lint.rs:")), "{found:?}");
        let text = &found[1].text;
        assert!(
            text.starts_with("passes combinationally through 3 blocks, at most 2 are allowed: open ("),
            "{text}"
        );
        let at: Vec<usize> =
            ["open (", "open_1 (", "open_2 ("].iter().map(|b| text.find(b).unwrap()).collect();
        assert!(at.is_sorted(), "{text}");
    }

    #[test]
    fn a_ready_through_logic_is_found_while_the_valid_beside_it_is_registered() {
        let found = lint(|m| ends(m, |m, s| half(m, half(m, half(m, s)))));
        assert_eq!(pairs(&found, Rule::Handshake), [("half", "first_closed", "output_ready")]);
        // A register in any of them ends the way.
        let found = lint(|m| ends(m, |m, s| half(m, closed(m, half(m, half(m, s))))));
        assert_eq!(found, []);
    }

    #[test]
    fn the_tops_ports_end_ways_too() {
        let found = lint(|m| {
            let input = m.stream_in("in", &bits(8));
            m.stream_out("out", open(m, open(m, open(m, input))));
        });
        let wanted = [("open", "(port)", "in_ready_i"), ("open_2", "(port)", "output_valid")];
        let found = pairs(&found, Rule::Handshake);
        assert_eq!(
            found.iter().map(|(from, to, _)| (*from, *to)).collect::<Vec<_>>(),
            wanted.map(|w| (w.0, w.1))
        );
    }

    #[test]
    fn modules_in_a_block_are_no_blocks_and_those_in_one_that_only_connects_are() {
        // Six in a row, in three blocks or in two.
        let three = |m: &Scope| ends(m, |m, s| twice(m, twice(m, twice(m, s))));
        let found = lint(three);
        assert_eq!(
            pairs(&found, Rule::Handshake),
            [("twice", "first_closed", "output_ready"), ("twice_2", "last_closed", "input_valid")]
        );
        let two = |m: &Scope| ends(m, |m, s| twice(m, twice(m, s)));
        assert_eq!(lint(two), []);
        let found = lint_in(&["twice"], two);
        let ready: Vec<_> =
            pairs(&found, Rule::Handshake).into_iter().filter(|f| f.2.ends_with("ready")).collect();
        assert!(ready.contains(&("twice.open", "first_closed", "output_ready")), "{ready:?}");
        assert!(found.iter().any(|f| f.text.contains("through 4 blocks")), "{found:?}");
    }

    #[test]
    fn what_has_another_name_ends_a_way() {
        assert!(["ready", "valid", "input_ready", "cut_2_valid", "ready_1"].into_iter().all(is_handshake));
        assert!(!["already", "readyness", "go", "", "valid_bytes", "1"].into_iter().any(is_handshake));
    }

    /// Block RAM whose output leaves as `form` says.
    #[module]
    fn table(m: &Scope, #[param] style: Style, #[param] depth: u32, #[param] held: bool, at: Sig) -> Sig {
        let mem = m.mem("rows", depth, &bits(16)).style(style).build();
        mem.write(lit(1, 1), at, &at.zext(16));
        let row = mem.read(m, lit(1, 1), at, Collision::Old);
        let sum = row + 1;
        if held {
            m.delay("sum", &sum)
        } else {
            sum
        }
    }

    #[module]
    fn user(m: &Scope, row: Sig) -> Sig {
        m.delay("row", &row)
    }

    fn from_table(style: Style, depth: u32, held: bool) -> Vec<Finding> {
        lint(|m| {
            let at = m.input("at", crate::clog2(depth.into()));
            m.output("row", &user(m, table(m, style, depth, held, at)));
        })
    }

    #[test]
    fn a_block_rams_output_that_comes_to_another_block_is_found_unless_a_register_is_between() {
        let found = from_table(Style::Block, 1024, false);
        assert_eq!(pairs(&found, Rule::BlockRam), [("table", "user", "rows")]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].text,
            "a block RAM's output without a register; signals that it comes to there: 1, `row` first"
        );
        assert!(found[0].place.contains("lint.rs:"), "{}", found[0].place);
        assert_eq!(from_table(Style::Block, 1024, true), []);
        assert_eq!(pairs(&from_table(Style::Ultra, 4096, false), Rule::BlockRam).len(), 1);
        assert_eq!(pairs(&from_table(Style::Auto, 128, false), Rule::BlockRam).len(), 1);
        // LUT RAM has its register at the output.
        for (style, depth) in [(Style::Distributed, 1024), (Style::Auto, 64), (Style::Block, 16)] {
            assert_eq!(from_table(style, depth, false), [], "{style:?}");
        }
    }

    #[test]
    fn a_block_rams_output_at_a_port_of_the_top_or_in_a_register_beside_the_blocks_is_found() {
        let found = lint(|m| {
            let at = m.input("at", 10);
            let row = table(m, Style::Block, 1024, false, at);
            m.output("row", &row);
            m.output("later", &m.delay("later", &row));
        });
        let to: Vec<&str> = found.iter().map(|f| f.to.as_str()).collect();
        assert_eq!(to, ["(port)", "(top)"]);
    }

    /// `copies` registers of one bit, each of which chooses between words of so many bits.
    fn chooses(width: u32, copies: u32, registered: bool) -> Vec<Finding> {
        lint(|m| {
            let choice = m.input("choice", 2);
            let choice = choice.bit(0) & choice.bit(1);
            for copy in 0..copies {
                let held = m.reg(&format!("choice{copy}"), 1).no_reset();
                m.set(&held, choice);
                let (a, b) = (m.input(&format!("a{copy}"), width), m.input(&format!("b{copy}"), width));
                let choice = if registered { held } else { choice };
                m.output(&format!("out{copy}"), &m.mux(!choice, &a, &b));
                m.output(&format!("held{copy}"), &held);
            }
        })
    }

    #[test]
    fn a_net_with_too_many_loads_is_found_whether_or_not_a_register_drives_it() {
        let found = chooses(600, 1, true);
        assert_eq!(pairs(&found, Rule::Loads), [("(top)", "(top)", "choice0")]);
        // The output port is one more.
        let text = "some 601 loads in 1 block, at most 512 are allowed; the register is not replicated";
        assert_eq!(found[0].text, text);
        let found = chooses(600, 1, false);
        assert_eq!(pairs(&found, Rule::Loads).len(), 1);
        assert!(found[0].text.ends_with("; no register drives it"), "{}", found[0].text);
        assert_eq!(chooses(500, 1, true), []);
        assert_eq!(chooses(500, 1, false), []);
    }

    #[test]
    fn a_replicated_register_is_allowed_and_logic_with_the_same_users_is_not() {
        assert_eq!(chooses(300, 4, true), []);
        assert_eq!(pairs(&chooses(300, 4, false), Rule::Loads).len(), 1);
    }

    #[test]
    fn enables_resets_and_addresses_are_loads() {
        let enabled = |width: u32| {
            lint(|m| {
                let (go, word) = (m.input("go", 1), m.input("word", width));
                let held = m.reg("held", width).no_reset();
                m.when(go, |m| m.set(&held, word));
                m.output("held", &held);
            })
        };
        assert_eq!(pairs(&enabled(513), Rule::Loads), [("(top)", "(top)", "go")]);
        assert_eq!(enabled(512), []);
        let reset = |width: u32| {
            lint(|m| {
                let held = m.reg("held", width).reset(0);
                m.set(&held, m.input("word", width));
                m.output("held", &held);
            })
        };
        assert_eq!(pairs(&reset(513), Rule::Loads), [("(top)", "(top)", "rst")]);
        assert_eq!(reset(512), []);
        let address = |depth: u32| {
            lint(|m| {
                let at = m.input("at", crate::clog2(depth.into()));
                let mem = m.mem("rows", depth, &bits(100)).style(Style::Distributed).build();
                mem.write(lit(1, 1), at, &at.zext(100));
                m.output("row", &mem.read_now(at));
            })
        };
        assert_eq!(pairs(&address(512), Rule::Loads), [("(top)", "(top)", "at")]);
        assert_eq!(address(64), []);
    }

    #[test]
    fn what_no_output_depends_on_is_no_load() {
        let found = lint(|m| {
            let (go, word) = (m.input("go", 1), m.input("word", 600));
            let held = m.reg("held", 600).no_reset();
            m.when(go, |m| m.set(&held, word));
            m.discard(&held);
            m.output("go_on", &!go);
        });
        assert_eq!(found, []);
    }

    #[test]
    fn a_multiplexer_between_constants_is_its_condition() {
        let choice = |width: u32| {
            lint(|m| {
                let (go, word) = (m.input("go", 1), m.input("word", width));
                let mask = m.mux(
                    go,
                    &crate::lit_bits(&crate::Bits::ones(width)),
                    &crate::lit_bits(&crate::Bits::zero(width)),
                );
                m.output("masked", &(word & mask));
            })
        };
        assert_eq!(pairs(&choice(600), Rule::Loads), [("(top)", "(top)", "go")]);
        assert_eq!(choice(512), []);
    }
}
