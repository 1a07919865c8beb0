// SPDX-License-Identifier: MIT OR Apache-2.0
//! The netlist: what running the Rust leaves behind, and what the printer, the checks and the simulator read.
//!
//! It is flat. Every node knows the module instance (scope) in which it was made; an operand always lies in the
//! same scope, except behind [`Op::Port`], which carries a signal across one module boundary.

use crate::bits::Bits;
use std::panic::Location;

pub(crate) type NodeId = u32;
pub(crate) type ScopeId = u32;
pub(crate) type DomainId = u32;
pub(crate) type MemId = u32;

/// One-operand operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Unary {
    Not,
    All,
    Any,
    Parity,
}

/// Two-operand operators. Both operands have the width of the result, except that comparisons give one bit,
/// products are as wide as both operands together, and a shift amount has any width.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Binary {
    And,
    Or,
    Xor,
    Add,
    Sub,
    Mul,
    Eq,
    Ne,
    Lt,
    Le,
    Slt,
    Shl,
    Shr,
}

/// What a node computes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Op {
    /// A constant, with the name of the enum and variant that it stands for.
    Const(Bits, Option<(&'static str, &'static str)>),
    /// An input of the top module, in a clock domain.
    Input(DomainId),
    Unary(Unary, NodeId),
    Binary(Binary, NodeId, NodeId),
    Mux(NodeId, NodeId, NodeId),
    Slice(NodeId, u32),
    /// Least significant part first.
    Cat(Vec<NodeId>),
    /// The same signal on the other side of a module boundary.
    Port(NodeId, String),
    Reg(u32),
    Wire(u32),
    MemRead(MemId, u32),
    BlackBox(u32, u32),
}

impl Op {
    /// Calls `f` with each node that this one reads in the same instant. A register and a clocked memory read
    /// have none.
    pub(crate) fn operands(&self, f: &mut dyn FnMut(NodeId)) {
        match self {
            Op::Unary(_, a) | Op::Slice(a, _) | Op::Port(a, _) => f(*a),
            Op::Binary(_, a, b) => [a, b].into_iter().for_each(|n| f(*n)),
            Op::Mux(c, a, b) => [c, a, b].into_iter().for_each(|n| f(*n)),
            Op::Cat(parts) => parts.iter().for_each(|n| f(*n)),
            Op::Const(..) | Op::Input(_) | Op::Reg(_) | Op::Wire(_) | Op::MemRead(..) | Op::BlackBox(..) => {}
        }
    }

    /// A short word for generated names.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Op::Const(..) => "const",
            Op::Input(_) => "in",
            Op::Unary(Unary::Not, _) => "not",
            Op::Unary(Unary::All, _) => "all",
            Op::Unary(Unary::Any, _) => "any",
            Op::Unary(Unary::Parity, _) => "parity",
            Op::Binary(op, ..) => match op {
                Binary::And => "and",
                Binary::Or => "or",
                Binary::Xor => "xor",
                Binary::Add => "sum",
                Binary::Sub => "diff",
                Binary::Mul => "product",
                Binary::Eq => "eq",
                Binary::Ne => "ne",
                Binary::Lt | Binary::Slt => "lt",
                Binary::Le => "le",
                Binary::Shl | Binary::Shr => "shifted",
            },
            Op::Mux(..) => "mux",
            Op::Slice(..) => "bits",
            Op::Cat(_) => "cat",
            Op::Port(..) => "port",
            Op::Reg(_) => "reg",
            Op::Wire(_) => "wire",
            Op::MemRead(..) => "read",
            Op::BlackBox(..) => "pin",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub op: Op,
    pub width: u32,
    pub scope: ScopeId,
    pub loc: &'static Location<'static>,
    pub name: Option<String>,
    /// The name was made up and gives way to one from the source.
    pub weak: bool,
}

/// A value assigned under a condition (`None`: always). The last one that holds wins.
pub(crate) type Assign = (Option<NodeId>, NodeId);

#[derive(Clone, Debug)]
pub(crate) struct Reg {
    pub node: NodeId,
    pub reset: Option<Bits>,
    pub domain: DomainId,
    pub assigns: Vec<Assign>,
    /// Flop of a synchroniser: the first one reads another domain.
    pub crossing: bool,
    /// No restart takes it back.
    pub outlives: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub node: NodeId,
    pub assigns: Vec<Assign>,
    /// It has a value on every path.
    pub driven: bool,
    /// It is driven, not set: this one driver is all there may be.
    pub once: bool,
}

/// How the tools should build a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// The tool's choice.
    Auto,
    /// Block RAM: only clocked reads. One of few rows and bits becomes LUT RAM with an output register, which behaves alike:
    /// a table whose rows follow a configuration need not look how many there are.
    Block,
    /// LUT RAM.
    Distributed,
    /// UltraRAM where the part has it: only clocked reads, no initial contents.
    Ultra,
}

/// What a clocked read gives that meets a write to the same word in the same cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collision {
    /// The word before the write. Costs logic on parts whose RAM has no such mode.
    Old,
    /// The word after the write, by a bypass register.
    New,
    /// The design promises that it does not happen; simulation and formal tools check it.
    Never,
    /// Anything: the design finds out by itself, and makes no use of the word.
    Any,
}

#[derive(Clone, Debug)]
pub(crate) struct ReadPort {
    pub node: NodeId,
    pub domain: DomainId,
    pub en: NodeId,
    pub addr: NodeId,
    pub clocked: bool,
    pub collision: Collision,
}

#[derive(Clone, Debug)]
pub(crate) struct WritePort {
    pub domain: DomainId,
    pub en: NodeId,
    pub addr: NodeId,
    pub data: NodeId,
    /// Enables, one for each `lane` bits.
    pub lanes: Option<(NodeId, u32)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Mem {
    pub name: String,
    pub scope: ScopeId,
    pub loc: &'static Location<'static>,
    pub depth: u32,
    pub width: u32,
    pub style: Style,
    pub init: Option<Vec<Bits>>,
    pub reads: Vec<ReadPort>,
    pub writes: Vec<WritePort>,
    /// Read from another domain than it is written in.
    pub crossing: bool,
}

/// Rows that LUT RAM of all parts has: some have 16, others 32. A block RAM of common parts has 512 of 36 bits. Bits that a quarter of one
/// holds; a table of so few rows takes several.
const FEW_ROWS: u32 = 16;
const FEW_BITS: u32 = 18 * 1024 / 4;

impl Mem {
    /// How the Verilog asks the tools to build it: block RAM that would stay all but empty is LUT RAM. LUT RAM has one
    /// write port, which writes whole words.
    pub fn built_as(&self) -> Style {
        let small = self.depth <= FEW_ROWS && self.depth * self.width <= FEW_BITS;
        let simple = matches!(self.writes.as_slice(), [write] if write.lanes.is_none());
        if self.style == Style::Block && small && simple {
            return Style::Distributed;
        }
        self.style
    }
}

/// What a property asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PropertyKind {
    Assert,
    Assume,
    Cover,
}

#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub kind: PropertyKind,
    pub scope: ScopeId,
    pub domain: DomainId,
    pub cond: NodeId,
    pub message: String,
    pub loc: &'static Location<'static>,
}

#[derive(Clone, Debug)]
pub(crate) struct BlackBox {
    pub module: String,
    pub name: String,
    pub scope: ScopeId,
    pub loc: &'static Location<'static>,
    pub attributes: Vec<(String, String)>,
    pub params: Vec<(String, String)>,
    pub inputs: Vec<(String, NodeId)>,
    pub clocks: Vec<(String, DomainId)>,
    pub outputs: Vec<(String, NodeId)>,
}

#[derive(Clone, Debug)]
pub(crate) struct ScopeInfo {
    pub module: String,
    pub instance: String,
    pub parent: Option<ScopeId>,
    pub loc: &'static Location<'static>,
}

#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub clock: String,
    pub reset: String,
}

/// A finished, checked design.
#[derive(Clone, Debug, Default)]
pub struct Netlist {
    pub(crate) nodes: Vec<Node>,
    pub(crate) regs: Vec<Reg>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) mems: Vec<Mem>,
    pub(crate) properties: Vec<Property>,
    pub(crate) boxes: Vec<BlackBox>,
    pub(crate) scopes: Vec<ScopeInfo>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) inputs: Vec<NodeId>,
    /// Those of them that go both ways.
    pub(crate) inouts: Vec<NodeId>,
    pub(crate) outputs: Vec<(String, NodeId)>,
}

/// A port of the top module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Name in the Verilog.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    /// Whether the design reads it.
    pub input: bool,
    /// Whether it goes both ways: an input, and what cells drive.
    pub inout: bool,
    /// Whether it is a clock.
    pub clock: bool,
}

impl Netlist {
    /// Name of the top module.
    pub fn top(&self) -> &str {
        &self.scopes[0].module
    }

    /// The top module's ports in the Verilog's order: clock and reset of each domain in use, then inputs and
    /// outputs as declared.
    pub fn ports(&self) -> Vec<Port> {
        let mut ports = Vec::new();
        let usage = self.usage(&self.live())[0];
        for (id, domain) in self.domains.iter().enumerate() {
            let (clock, reset) = usage.ports(id as DomainId);
            if clock {
                ports.push(Port {
                    name: domain.clock.clone(),
                    width: 1,
                    input: true,
                    inout: false,
                    clock: true,
                });
            }
            if reset {
                ports.push(Port {
                    name: domain.reset.clone(),
                    width: 1,
                    input: true,
                    inout: false,
                    clock: false,
                });
            }
        }
        for id in &self.inputs {
            let node = &self.nodes[*id as usize];
            let name = node.name.clone().unwrap_or_default();
            let inout = self.inouts.contains(id);
            ports.push(Port { name, width: node.width, input: true, inout, clock: false });
        }
        for (name, id) in &self.outputs {
            let width = self.nodes[*id as usize].width;
            ports.push(Port { name: name.clone(), width, input: false, inout: false, clock: false });
        }
        ports
    }

    /// The clock names, first the one in which the design started.
    pub fn clocks(&self) -> Vec<String> {
        self.domains.iter().map(|d| d.clock.clone()).collect()
    }

    /// The reset names, in the clocks' order.
    pub fn resets(&self) -> Vec<String> {
        self.domains.iter().map(|d| d.reset.clone()).collect()
    }

    /// Number of nodes, registers and memories: a measure of size.
    pub fn size(&self) -> (usize, usize, usize) {
        (self.nodes.len(), self.regs.len(), self.mems.len())
    }

    /// Names of all module definitions' instances, as paths from the top.
    pub fn instances(&self) -> Vec<String> {
        (0..self.scopes.len() as ScopeId).map(|s| self.path(s)).collect()
    }

    /// What an output of the top module depends on in the same cycle: inputs, registers, memories that are read at once, and pins of black boxes.
    ///
    /// # Panics
    /// There is no output of this name.
    pub fn sources_of(&self, output: &str) -> Vec<String> {
        let found = self.outputs.iter().find(|(name, _)| name == output);
        let mut work = vec![found.unwrap_or_else(|| panic!("no output `{output}`")).1];
        let (mut seen, mut sources) = (vec![false; self.nodes.len()], Vec::new());
        while let Some(id) = work.pop() {
            if std::mem::replace(&mut seen[id as usize], true) {
                continue;
            }
            let node = &self.nodes[id as usize];
            match &node.op {
                Op::Const(..) => {}
                Op::Wire(wire) => {
                    for (cond, value) in &self.wires[*wire as usize].assigns {
                        work.extend(cond.iter().chain([value]));
                    }
                }
                Op::MemRead(mem, port) if !self.mems[*mem as usize].reads[*port as usize].clocked => {
                    sources.push(self.mems[*mem as usize].name.clone());
                    work.push(self.mems[*mem as usize].reads[*port as usize].addr);
                }
                Op::Input(_) | Op::Reg(_) | Op::MemRead(..) | Op::BlackBox(..) => {
                    sources.push(node.name.clone().unwrap_or_default());
                }
                op => op.operands(&mut |operand| work.push(operand)),
            }
        }
        sources.sort();
        sources
    }

    pub(crate) fn path(&self, scope: ScopeId) -> String {
        let info = &self.scopes[scope as usize];
        match info.parent {
            None => info.module.clone(),
            Some(parent) => format!("{}.{}", self.path(parent), info.instance),
        }
    }

    /// Which clocks and resets each module instance uses; `live` tells which nodes are printed.
    pub(crate) fn usage(&self, live: &[bool]) -> Vec<Usage> {
        let mut all = vec![Usage::default(); self.scopes.len()];
        for reg in self.regs.iter().filter(|r| live[r.node as usize]) {
            let usage = &mut all[self.nodes[reg.node as usize].scope as usize];
            usage.clocks |= 1 << reg.domain;
            usage.resets |= u64::from(reg.reset.is_some()) << reg.domain;
        }
        for mem in &self.mems {
            let mut reads = mem.reads.iter().filter(|r| live[r.node as usize]).peekable();
            if reads.peek().is_some() {
                let usage = &mut all[mem.scope as usize];
                reads.filter(|r| r.clocked).for_each(|r| usage.clocks |= 1 << r.domain);
                mem.writes.iter().for_each(|w| usage.clocks |= 1 << w.domain);
            }
        }
        for unit in &self.boxes {
            unit.clocks.iter().for_each(|(_, d)| all[unit.scope as usize].clocks |= 1 << d);
        }
        for property in &self.properties {
            all[property.scope as usize].checked |= 1 << property.domain;
        }
        // Children come after their parents.
        for scope in (1..self.scopes.len()).rev() {
            let Usage { clocks, resets, checked } = all[scope];
            let parent = &mut all[self.scopes[scope].parent.unwrap_or(0) as usize];
            parent.clocks |= clocks | checked;
            parent.resets |= resets | checked;
        }
        all
    }
}

/// Clock domains that a module uses, one bit each.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Usage {
    /// Whose clock it uses, or a module in it.
    pub clocks: u64,
    /// Whose reset it uses, or a module in it.
    pub resets: u64,
    /// In which its own properties are.
    pub checked: u64,
}

impl Usage {
    /// Whether the module has a clock and a reset port for the domain.
    pub(crate) fn ports(&self, domain: DomainId) -> (bool, bool) {
        let has = |set: u64| (set | self.checked) >> domain & 1 == 1;
        (has(self.clocks), has(self.resets))
    }
}
