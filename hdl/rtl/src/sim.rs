// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Sim`]: the native simulator.
//!
//! A netlist becomes a list of instructions in topological order over one arena of words. Only what may have
//! changed is evaluated: each instruction has a dirty bit, and one whose result changes marks its readers, which
//! all come later in the list. Module ports, wires with one driver and slices at word boundaries cost nothing:
//! they share the words of what they stand for.

use crate::bits::{words, Bits};
use crate::eval;
use crate::netlist::*;
use std::collections::HashMap;
use std::panic::Location;

/// Arena offset of a constant one.
const ONE: u32 = 0;
/// Not produced by anything: a constant.
const NEVER: u32 = u32::MAX;
/// Marks a producer that is a source (input, register, clocked read, pin) and no instruction.
const SOURCE: u32 = 1 << 31;

/// A port looked up once: see [`Sim::port`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortIndex(u32);

/// One instruction. `d`, `a`, `b`, `c` are arena offsets; `cut` is 64 less the width of the result. All values up to
/// the wide ones at the end fit into one word.
#[rustfmt::skip]
#[derive(Clone, Copy, Debug)]
enum Instr {
    Nop,
    Not { d: u32, a: u32, cut: u8 },
    All { d: u32, a: u32, cut: u8 },
    Any { d: u32, a: u32 },
    Parity { d: u32, a: u32 },
    And { d: u32, a: u32, b: u32 },
    Or { d: u32, a: u32, b: u32 },
    Xor { d: u32, a: u32, b: u32 },
    Add { d: u32, a: u32, b: u32, cut: u8 },
    Sub { d: u32, a: u32, b: u32, cut: u8 },
    Mul { d: u32, a: u32, b: u32 },
    Eq { d: u32, a: u32, b: u32 },
    Ne { d: u32, a: u32, b: u32 },
    Lt { d: u32, a: u32, b: u32 },
    Le { d: u32, a: u32, b: u32 },
    Slt { d: u32, a: u32, b: u32, cut: u8 },
    Shl { d: u32, a: u32, b: u32, cut: u8 },
    Shr { d: u32, a: u32, b: u32 },
    Mux { d: u32, c: u32, a: u32, b: u32 },
    /// Bits of one word.
    Bits { d: u32, a: u32, low: u8, cut: u8 },
    /// Bits of the words at `a` and after it.
    Across { d: u32, a: u32, low: u8, cut: u8 },
    Join { d: u32, a: u32, b: u32, at: u8 },
    Cat { d: u32, parts: u32, n: u32 },
    /// The first of the picks from `picks` on whose condition holds; the last one always does.
    Pick { d: u32, picks: u32 },
    Read { d: u32, a: u32, mem: u32 },
    MuxWide { d: u32, c: u32, a: u32, b: u32, n: u16 },
    PickWide { d: u32, picks: u32, n: u32 },
    ReadWide { d: u32, a: u32, mem: u32 },
    EqWide { d: u32, a: u32, b: u32, n: u16, not: bool },
    Wide { d: u32, index: u32 },
}

/// An instruction by way of [`eval`]: result width and what to do.
#[derive(Clone, Debug)]
struct Wide {
    width: u32,
    op: WideOp,
}

#[derive(Clone, Debug)]
enum WideOp {
    Unary { op: Unary, a: u32, width: u32 },
    Binary { op: Binary, a: u32, width: u32, b: u32, b_width: u32 },
    Slice { a: u32, width: u32, low: u32 },
    Cat { parts: u32, n: u32 },
}

/// What instructions refer to and evaluation does not change.
#[derive(Clone, Debug, Default)]
struct Tables {
    instrs: Vec<Instr>,
    /// Condition and value.
    picks: Vec<(u32, u32)>,
    /// Value, its width, position in the result.
    parts: Vec<(u32, u32, u32)>,
    wide: Vec<Wide>,
    /// For each instruction, then each source, where its readers begin in `readers`.
    begins: Vec<u32>,
    readers: Vec<u32>,
    /// From this instruction on, a multiple of 64, they compute the registers' next values in order.
    next: usize,
}

#[derive(Clone, Debug)]
struct RegState {
    now: u32,
    next: u32,
    n: u32,
    domain: DomainId,
    source: u32,
}

#[derive(Clone, Debug)]
struct MemState {
    data: Vec<u64>,
    n: usize,
    /// Instructions that read it immediately.
    immediate: Vec<u32>,
}

#[derive(Clone, Debug)]
struct ReadState {
    mem: u32,
    domain: DomainId,
    en: u32,
    addr: u32,
    d: u32,
    source: u32,
    /// Writes of the memory that spoil the word where they meet it, and the bits of its last 64.
    spoilers: Vec<u32>,
    last: u64,
}

#[derive(Clone, Debug)]
struct WriteState {
    mem: u32,
    domain: DomainId,
    en: u32,
    addr: u32,
    data: u32,
    lanes: Option<(u32, u32, u32)>,
}

#[derive(Clone, Debug)]
struct PropertyState {
    kind: PropertyKind,
    domain: DomainId,
    cond: u32,
    path: String,
    message: String,
    loc: &'static Location<'static>,
    seen: u64,
}

#[derive(Clone, Debug)]
struct PortState {
    name: String,
    at: u32,
    width: u32,
    /// The source that it is, if it can be set.
    source: Option<u32>,
}

#[derive(Clone, Debug)]
struct DomainState {
    clock: String,
    reset: u32,
    reset_source: u32,
    /// Registers whose next value may differ from the present one.
    pending: Vec<u32>,
}

/// A cycle simulator of a [`Netlist`].
///
/// All state starts at zero, memories at their initial contents. Inputs are set, outputs read by name; outputs follow
/// inputs at once, state changes with [`Sim::tick`]. Pins of black boxes are ports too, named by their path:
/// `top.instance.pin`; what a black box drives is zero until it is set.
#[derive(Clone, Debug)]
pub struct Sim {
    tables: Tables,
    vals: Vec<u64>,
    dirty: Vec<u64>,
    stale: bool,
    scratch: Vec<u64>,
    regs: Vec<RegState>,
    in_pending: Vec<bool>,
    domains: Vec<DomainState>,
    mems: Vec<MemState>,
    reads: Vec<ReadState>,
    writes: Vec<WriteState>,
    staged: Vec<u32>,
    staged_words: Vec<u64>,
    properties: Vec<PropertyState>,
    check: bool,
    cycles: u64,
    ports: Vec<PortState>,
    by_name: HashMap<String, u32>,
    /// Instance path, name, offset, width of each named node.
    names: Vec<(ScopeId, String, u32, u32)>,
    paths: Vec<String>,
    peeks: Option<HashMap<String, (u32, u32)>>,
}

struct Compiler<'n> {
    net: &'n Netlist,
    tables: Tables,
    vals: Vec<u64>,
    /// Arena offset and producer of each node, once it has them.
    at: Vec<u32>,
    producer: Vec<u32>,
    sources: u32,
    /// Producer and reading instruction.
    edges: Vec<(u32, u32)>,
    /// Memory and instruction.
    immediate: Vec<(u32, u32)>,
}

/// The assignments that can matter: from the last unconditional one on.
fn effective(assigns: &[Assign]) -> &[Assign] {
    let from = assigns.iter().rposition(|(cond, _)| cond.is_none()).unwrap_or(0);
    &assigns[from..]
}

/// Calls `f` with each node on which the value of `id` depends in the same instant, through wires and immediate
/// memory reads.
pub(crate) fn depends(net: &Netlist, id: NodeId, f: &mut dyn FnMut(NodeId)) {
    match &net.nodes[id as usize].op {
        Op::Wire(index) => {
            for (cond, value) in &net.wires[*index as usize].assigns {
                if let Some(cond) = cond {
                    f(*cond);
                }
                f(*value);
            }
        }
        Op::MemRead(mem, port) => {
            let port = &net.mems[*mem as usize].reads[*port as usize];
            if !port.clocked {
                f(port.addr);
            }
        }
        op => op.operands(f),
    }
}

fn cut(width: u32) -> u8 {
    (64 - width) as u8
}

impl<'n> Compiler<'n> {
    fn new(net: &'n Netlist) -> Self {
        let count = net.nodes.len();
        let mut compiler = Compiler {
            net,
            tables: Tables::default(),
            vals: vec![1],
            at: vec![0; count],
            producer: vec![NEVER; count],
            sources: 0,
            edges: Vec::new(),
            immediate: Vec::new(),
        };
        for (id, node) in net.nodes.iter().enumerate() {
            match &node.op {
                Op::Const(bits, _) => compiler.at[id] = compiler.constant(bits),
                Op::Input(_) | Op::Reg(_) | Op::BlackBox(..) => {
                    (compiler.at[id], compiler.producer[id]) = compiler.source(node.width);
                }
                Op::MemRead(mem, port) if net.mems[*mem as usize].reads[*port as usize].clocked => {
                    (compiler.at[id], compiler.producer[id]) = compiler.source(node.width);
                }
                _ => {}
            }
        }
        compiler
    }

    fn alloc(&mut self, width: u32) -> u32 {
        let at = self.vals.len();
        self.vals.resize(at + words(width), 0);
        u32::try_from(at).expect("a design of less than 32 GiB")
    }

    fn constant(&mut self, bits: &Bits) -> u32 {
        let at = self.vals.len() as u32;
        self.vals.extend_from_slice(bits.words());
        at
    }

    fn source(&mut self, width: u32) -> (u32, u32) {
        let source = self.sources | SOURCE;
        self.sources += 1;
        (self.alloc(width), source)
    }

    fn width(&self, id: NodeId) -> u32 {
        self.net.nodes[id as usize].width
    }

    fn offset(&self, id: NodeId) -> u32 {
        self.at[id as usize]
    }

    /// Everything that somebody looks at.
    fn roots(&self) -> Vec<NodeId> {
        let net = self.net;
        let mut roots = Vec::new();
        for reg in &net.regs {
            for (cond, value) in &reg.assigns {
                roots.extend(cond);
                roots.push(*value);
            }
        }
        for mem in &net.mems {
            for read in &mem.reads {
                roots.extend([read.en, read.addr, read.node]);
            }
            for write in &mem.writes {
                roots.extend([write.en, write.addr, write.data]);
                roots.extend(write.lanes.map(|(enables, _)| enables));
            }
        }
        roots.extend(net.properties.iter().map(|p| p.cond));
        roots.extend(net.boxes.iter().flat_map(|b| b.inputs.iter().map(|(_, id)| *id)));
        roots.extend(net.outputs.iter().map(|(_, id)| *id));
        roots.extend((0..net.nodes.len() as NodeId).filter(|id| net.nodes[*id as usize].name.is_some()));
        roots
    }

    /// Emits all combinational nodes in topological order.
    fn comb(&mut self) {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let net = self.net;
        let mut state = vec![State::New; net.nodes.len()];
        let mut stack = Vec::new();
        for root in self.roots() {
            stack.push(root);
            while let Some(id) = stack.pop() {
                match state[id as usize] {
                    State::Done => {}
                    State::Open => {
                        state[id as usize] = State::Done;
                        self.emit(id);
                    }
                    State::New => {
                        state[id as usize] = State::Open;
                        stack.push(id);
                        depends(net, id, &mut |on| match state[on as usize] {
                            State::New => stack.push(on),
                            State::Done => {}
                            State::Open => {
                                let node = &net.nodes[on as usize];
                                let name = node.name.as_deref().unwrap_or("unnamed");
                                panic!("combinational loop through `{name}` ({})", node.loc)
                            }
                        });
                    }
                }
            }
        }
    }

    fn alias(&mut self, id: NodeId, of: NodeId, word: u32) {
        self.at[id as usize] = self.at[of as usize] + word;
        self.producer[id as usize] = self.producer[of as usize];
    }

    fn wide(&mut self, d: u32, width: u32, op: WideOp) -> Instr {
        self.tables.wide.push(Wide { width, op });
        Instr::Wide { d, index: self.tables.wide.len() as u32 - 1 }
    }

    /// Appends an instruction that reads the nodes `from`.
    fn push(&mut self, instr: Instr, from: impl IntoIterator<Item = u32>) -> u32 {
        let index = self.tables.instrs.len() as u32;
        self.tables.instrs.push(instr);
        self.edges.extend(from.into_iter().filter(|p| *p != NEVER).map(|p| (p, index)));
        index
    }

    fn emit(&mut self, id: NodeId) {
        let node = &self.net.nodes[id as usize];
        let width = node.width;
        match &node.op {
            Op::Const(..) | Op::Input(_) | Op::Reg(_) | Op::BlackBox(..) => return,
            Op::Port(of, _) => return self.alias(id, *of, 0),
            Op::Wire(index) => {
                if let [(_, only)] = effective(&self.net.wires[*index as usize].assigns) {
                    return self.alias(id, *only, 0);
                }
            }
            Op::Slice(of, low) if low % 64 == 0 && (width % 64 == 0 || low + width == self.width(*of)) => {
                return self.alias(id, *of, low / 64);
            }
            Op::MemRead(mem, port) if self.net.mems[*mem as usize].reads[*port as usize].clocked => return,
            _ => {}
        }
        let d = self.alloc(width);
        let one_word = width <= 64;
        let instr = match &node.op {
            Op::Unary(op, a) => self.unary(*op, d, *a),
            Op::Binary(op, a, b) => self.binary(*op, d, *a, *b, width),
            Op::Mux(c, a, b) => {
                let (c, a, b) = (self.offset(*c), self.offset(*a), self.offset(*b));
                match words(width) {
                    1 => Instr::Mux { d, c, a, b },
                    n => Instr::MuxWide { d, c, a, b, n: u16::try_from(n).expect("a signal of sane width") },
                }
            }
            Op::Slice(of, low) => {
                let (low, a) = (*low, self.offset(*of));
                if one_word {
                    let (a, shift, cut) = (a + low / 64, (low % 64) as u8, cut(width));
                    if low / 64 == (low + width - 1) / 64 {
                        Instr::Bits { d, a, low: shift, cut }
                    } else {
                        Instr::Across { d, a, low: shift, cut }
                    }
                } else {
                    let from = self.width(*of);
                    self.wide(d, width, WideOp::Slice { a, width: from, low })
                }
            }
            Op::Cat(parts) => match parts[..] {
                [a, b] if one_word => {
                    Instr::Join { d, a: self.offset(a), b: self.offset(b), at: self.width(a) as u8 }
                }
                _ => {
                    let (first, n) = (self.tables.parts.len() as u32, parts.len() as u32);
                    let mut low = 0;
                    for part in parts {
                        let part_width = self.width(*part);
                        self.tables.parts.push((self.at[*part as usize], part_width, low));
                        low += part_width;
                    }
                    match one_word {
                        true => Instr::Cat { d, parts: first, n },
                        false => self.wide(d, width, WideOp::Cat { parts: first, n }),
                    }
                }
            },
            Op::Wire(index) => {
                let assigns = effective(&self.net.wires[*index as usize].assigns);
                let picks = self.tables.picks.len() as u32;
                for (i, (cond, value)) in assigns.iter().enumerate().rev() {
                    let cond = cond.filter(|_| i > 0).map_or(ONE, |c| self.offset(c));
                    self.tables.picks.push((cond, self.at[*value as usize]));
                }
                assert!(!assigns.is_empty(), "wire `{:?}` ({}) has no driver", node.name, node.loc);
                match words(width) as u32 {
                    1 => Instr::Pick { d, picks },
                    n => Instr::PickWide { d, picks, n },
                }
            }
            Op::MemRead(mem, port) => {
                let a = self.offset(self.net.mems[*mem as usize].reads[*port as usize].addr);
                self.immediate.push((*mem, self.tables.instrs.len() as u32));
                match one_word {
                    true => Instr::Read { d, a, mem: *mem },
                    false => Instr::ReadWide { d, a, mem: *mem },
                }
            }
            Op::Const(..) | Op::Input(_) | Op::Reg(_) | Op::BlackBox(..) | Op::Port(..) => Instr::Nop,
        };
        let mut from = Vec::new();
        depends(self.net, id, &mut |on| from.push(self.producer[on as usize]));
        let index = self.push(instr, from);
        (self.at[id as usize], self.producer[id as usize]) = (d, index);
    }

    fn unary(&mut self, op: Unary, d: u32, operand: NodeId) -> Instr {
        let (a, width) = (self.offset(operand), self.width(operand));
        if width > 64 {
            let out = if op == Unary::Not { width } else { 1 };
            return self.wide(d, out, WideOp::Unary { op, a, width });
        }
        match op {
            Unary::Not => Instr::Not { d, a, cut: cut(width) },
            Unary::All => Instr::All { d, a, cut: cut(width) },
            Unary::Any => Instr::Any { d, a },
            Unary::Parity => Instr::Parity { d, a },
        }
    }

    fn binary(&mut self, op: Binary, d: u32, x: NodeId, y: NodeId, out: u32) -> Instr {
        let (a, b) = (self.offset(x), self.offset(y));
        let (width, b_width) = (self.width(x), self.width(y));
        if width > 64 && matches!(op, Binary::Eq | Binary::Ne) {
            let n = u16::try_from(words(width)).expect("a signal of sane width");
            return Instr::EqWide { d, a, b, n, not: op == Binary::Ne };
        }
        if width > 64 || b_width > 64 || out > 64 {
            return self.wide(d, out, WideOp::Binary { op, a, width, b, b_width });
        }
        let cut = cut(width);
        match op {
            Binary::And => Instr::And { d, a, b },
            Binary::Or => Instr::Or { d, a, b },
            Binary::Xor => Instr::Xor { d, a, b },
            Binary::Add => Instr::Add { d, a, b, cut },
            Binary::Sub => Instr::Sub { d, a, b, cut },
            Binary::Mul => Instr::Mul { d, a, b },
            Binary::Eq => Instr::Eq { d, a, b },
            Binary::Ne => Instr::Ne { d, a, b },
            Binary::Lt => Instr::Lt { d, a, b },
            Binary::Le => Instr::Le { d, a, b },
            Binary::Slt => Instr::Slt { d, a, b, cut },
            Binary::Shl => Instr::Shl { d, a, b, cut },
            Binary::Shr => Instr::Shr { d, a, b },
        }
    }

    /// Emits the registers' next values; `resets` is the offset and producer of each domain's reset.
    fn registers(&mut self, resets: &[(u32, u32)]) -> Vec<RegState> {
        self.tables.next = self.tables.instrs.len().next_multiple_of(64);
        self.tables.instrs.resize(self.tables.next, Instr::Nop);
        let mut states = Vec::new();
        for reg in &self.net.regs {
            let width = self.width(reg.node);
            let (now, source) = (self.offset(reg.node), self.producer[reg.node as usize]);
            let mut picks = Vec::new();
            let mut from = Vec::new();
            if let Some(value) = &reg.reset {
                let (at, producer) = resets[reg.domain as usize];
                picks.push((at, self.constant(value)));
                from.push(producer);
            }
            for (cond, value) in effective(&reg.assigns).iter().rev() {
                picks.push((cond.map_or(ONE, |c| self.offset(c)), self.offset(*value)));
                from.extend(cond.iter().chain([value]).map(|id| self.producer[*id as usize]));
            }
            if picks.last().is_none_or(|(cond, _)| *cond != ONE) {
                picks.push((ONE, now));
                from.push(source);
            }
            let next = self.alloc(width);
            let first = self.tables.picks.len() as u32;
            self.tables.picks.extend(picks);
            let n = words(width) as u32;
            let instr = match n {
                1 => Instr::Pick { d: next, picks: first },
                _ => Instr::PickWide { d: next, picks: first, n },
            };
            self.push(instr, from);
            states.push(RegState { now, next, n, domain: reg.domain, source: source & !SOURCE });
        }
        states
    }

    /// Sorts who reads what.
    fn link(&mut self) {
        let instrs = self.tables.instrs.len() as u32;
        let mut edges = std::mem::take(&mut self.edges);
        for (producer, _) in &mut edges {
            if *producer & SOURCE != 0 {
                *producer = (*producer & !SOURCE) + instrs;
            }
        }
        edges.sort_unstable();
        edges.dedup();
        let mut begins = vec![0u32; (instrs + self.sources) as usize + 1];
        for (producer, _) in &edges {
            begins[*producer as usize + 1] += 1;
        }
        for i in 1..begins.len() {
            begins[i] += begins[i - 1];
        }
        self.tables.begins = begins;
        self.tables.readers = edges.into_iter().map(|(_, reader)| reader).collect();
    }
}

/// Copies `n` words and says whether anything changed.
fn copy(vals: &mut [u64], from: u32, to: u32, n: usize) -> bool {
    let (from, to) = (from as usize, to as usize);
    if vals[from..from + n] == vals[to..to + n] {
        return false;
    }
    vals.copy_within(from..from + n, to);
    true
}

/// Stores words and says whether anything changed.
fn store(vals: &mut [u64], to: u32, source: &[u64]) -> bool {
    let target = &mut vals[to as usize..][..source.len()];
    if target == source {
        return false;
    }
    target.copy_from_slice(source);
    true
}

fn wide(op: &Wide, parts: &[(u32, u32, u32)], vals: &[u64], out: &mut Vec<u64>) {
    let value = |at: u32, width: u32| &vals[at as usize..][..words(width)];
    out.clear();
    out.resize(words(op.width), 0);
    match &op.op {
        WideOp::Unary { op, a, width } => eval::unary(*op, value(*a, *width), *width, out),
        WideOp::Binary { op: which, a, width, b, b_width } => {
            eval::binary(*which, value(*a, *width), value(*b, *b_width), *width, out, op.width);
        }
        WideOp::Slice { a, width, low } => eval::slice(value(*a, *width), *low, out, op.width),
        WideOp::Cat { parts: first, n } => {
            for (at, width, low) in &parts[*first as usize..][..*n as usize] {
                eval::place(value(*at, *width), *width, *low, out);
            }
        }
    }
}

/// Executes one instruction and says whether its result changed.
#[inline(always)]
fn execute(
    instr: Instr,
    tables: &Tables,
    mems: &[MemState],
    vals: &mut [u64],
    scratch: &mut Vec<u64>,
) -> bool {
    let v = |at: u32| vals[at as usize];
    let (d, new) = match instr {
        Instr::Nop => return false,
        Instr::Not { d, a, cut } => (d, v(a) ^ (u64::MAX >> cut)),
        Instr::All { d, a, cut } => (d, u64::from(v(a) == u64::MAX >> cut)),
        Instr::Any { d, a } => (d, u64::from(v(a) != 0)),
        Instr::Parity { d, a } => (d, u64::from(v(a).count_ones() & 1)),
        Instr::And { d, a, b } => (d, v(a) & v(b)),
        Instr::Or { d, a, b } => (d, v(a) | v(b)),
        Instr::Xor { d, a, b } => (d, v(a) ^ v(b)),
        Instr::Add { d, a, b, cut } => (d, v(a).wrapping_add(v(b)) & (u64::MAX >> cut)),
        Instr::Sub { d, a, b, cut } => (d, v(a).wrapping_sub(v(b)) & (u64::MAX >> cut)),
        Instr::Mul { d, a, b } => (d, v(a).wrapping_mul(v(b))),
        Instr::Eq { d, a, b } => (d, u64::from(v(a) == v(b))),
        Instr::Ne { d, a, b } => (d, u64::from(v(a) != v(b))),
        Instr::Lt { d, a, b } => (d, u64::from(v(a) < v(b))),
        Instr::Le { d, a, b } => (d, u64::from(v(a) <= v(b))),
        Instr::Slt { d, a, b, cut } => (d, u64::from(((v(a) << cut) as i64) < (v(b) << cut) as i64)),
        Instr::Shl { d, a, b, cut } => {
            let by = v(b);
            (d, if by < 64 { v(a) << by & (u64::MAX >> cut) } else { 0 })
        }
        Instr::Shr { d, a, b } => {
            let by = v(b);
            (d, if by < 64 { v(a) >> by } else { 0 })
        }
        Instr::Mux { d, c, a, b } => (d, if v(c) != 0 { v(a) } else { v(b) }),
        Instr::Bits { d, a, low, cut } => (d, v(a) >> low & (u64::MAX >> cut)),
        Instr::Across { d, a, low, cut } => (d, (v(a) >> low | v(a + 1) << (64 - low)) & (u64::MAX >> cut)),
        Instr::Join { d, a, b, at } => (d, v(a) | v(b) << at),
        Instr::Cat { d, parts, n } => {
            let parts = &tables.parts[parts as usize..][..n as usize];
            (d, parts.iter().fold(0, |all, (at, _, low)| all | v(*at) << low))
        }
        Instr::Pick { d, picks } => (d, v(pick(tables, vals, picks))),
        Instr::Read { d, a, mem } => (d, mems[mem as usize].data[v(a) as usize]),
        Instr::MuxWide { d, c, a, b, n } => {
            let from = if v(c) != 0 { a } else { b };
            return copy(vals, from, d, usize::from(n));
        }
        Instr::PickWide { d, picks, n } => {
            let from = pick(tables, vals, picks);
            return copy(vals, from, d, n as usize);
        }
        Instr::ReadWide { d, a, mem } => {
            let mem = &mems[mem as usize];
            let at = v(a) as usize * mem.n;
            return store(vals, d, &mem.data[at..at + mem.n]);
        }
        Instr::EqWide { d, a, b, n, not } => {
            let n = usize::from(n);
            (d, u64::from((vals[a as usize..][..n] == vals[b as usize..][..n]) != not))
        }
        Instr::Wide { d, index } => {
            wide(&tables.wide[index as usize], &tables.parts, vals, scratch);
            return store(vals, d, scratch);
        }
    };
    let old = &mut vals[d as usize];
    let changed = *old != new;
    *old = new;
    changed
}

#[inline(always)]
fn pick(tables: &Tables, vals: &[u64], mut at: u32) -> u32 {
    loop {
        let (cond, value) = tables.picks[at as usize];
        if vals[cond as usize] != 0 {
            return value;
        }
        at += 1;
    }
}

/// Writes the lanes of `data` whose enables are high into `word`.
fn write_lanes(word: &mut [u64], data: &[u64], enables: &[u64], width: u32, lane: u32) {
    for i in 0..width / lane {
        if enables[(i / 64) as usize] >> (i % 64) & 1 == 0 {
            continue;
        }
        let (mut low, high) = (i * lane, (i + 1) * lane);
        while low < high {
            let end = high.min((low / 64 + 1) * 64);
            let mask = u64::MAX >> (64 - (end - low)) << (low % 64);
            let at = (low / 64) as usize;
            word[at] = word[at] & !mask | data[at] & mask;
            low = end;
        }
    }
}

impl Sim {
    /// Words of which nothing is promised ([`crate::Collision::Any`]) are the old ones, as in simulators of the Verilog.
    #[must_use]
    pub fn unspoiled(mut self) -> Sim {
        self.reads.iter_mut().for_each(|read| read.spoilers.clear());
        self
    }

    /// Compiles a netlist; the simulator owns what it needs.
    pub fn new(net: &Netlist) -> Sim {
        assert!(net.domains.len() <= 64, "more than 64 clock domains");
        let mut compiler = Compiler::new(net);
        compiler.comb();
        let resets: Vec<_> = net.domains.iter().map(|_| compiler.source(1)).collect();
        let regs = compiler.registers(&resets);
        compiler.link();

        let paths: Vec<String> = (0..net.scopes.len() as ScopeId).map(|s| net.path(s)).collect();
        let at = |id: NodeId| compiler.at[id as usize];
        let width = |id: NodeId| net.nodes[id as usize].width;
        let source = |id: NodeId| compiler.producer[id as usize] & !SOURCE;

        let mut mems = Vec::new();
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for (index, mem) in net.mems.iter().enumerate() {
            let n = words(mem.width);
            let mut data = vec![0; n * mem.depth as usize];
            for (word, bits) in data.chunks_mut(n).zip(mem.init.iter().flatten()) {
                word.copy_from_slice(bits.words());
            }
            let immediate =
                compiler.immediate.iter().filter(|(m, _)| *m as usize == index).map(|(_, i)| *i).collect();
            mems.push(MemState { data, n, immediate });
            let mem_index = index as u32;
            for read in mem.reads.iter().filter(|r| r.clocked) {
                reads.push(ReadState {
                    mem: mem_index,
                    domain: read.domain,
                    en: at(read.en),
                    addr: at(read.addr),
                    d: at(read.node),
                    source: source(read.node),
                    spoilers: match read.collision {
                        Collision::Any => {
                            (writes.len()..writes.len() + mem.writes.len()).map(|w| w as u32).collect()
                        }
                        _ => Vec::new(),
                    },
                    last: u64::MAX >> ((64 - mem.width % 64) % 64),
                });
            }
            for write in &mem.writes {
                writes.push(WriteState {
                    mem: mem_index,
                    domain: write.domain,
                    en: at(write.en),
                    addr: at(write.addr),
                    data: at(write.data),
                    lanes: write.lanes.map(|(enables, lane)| (at(enables), width(enables), lane)),
                });
            }
        }
        let properties = net.properties.iter().map(|p| PropertyState {
            kind: p.kind,
            domain: p.domain,
            cond: at(p.cond),
            path: paths[p.scope as usize].clone(),
            message: p.message.clone(),
            loc: p.loc,
            seen: 0,
        });
        let domains = net.domains.iter().zip(&resets).map(|(domain, (at, source))| DomainState {
            clock: domain.clock.clone(),
            reset: *at,
            reset_source: *source & !SOURCE,
            pending: Vec::new(),
        });

        let mut ports = Vec::new();
        for (domain, (at, source)) in net.domains.iter().zip(&resets) {
            let (name, source) = (domain.reset.clone(), Some(*source & !SOURCE));
            ports.push(PortState { name, at: *at, width: 1, source });
        }
        for id in &net.inputs {
            let name = net.nodes[*id as usize].name.clone().unwrap_or_default();
            ports.push(PortState { name, at: at(*id), width: width(*id), source: Some(source(*id)) });
        }
        for (name, id) in &net.outputs {
            ports.push(PortState { name: name.clone(), at: at(*id), width: width(*id), source: None });
        }
        for unit in &net.boxes {
            let path = format!("{}.{}", paths[unit.scope as usize], unit.name);
            for (pin, id) in &unit.outputs {
                let name = format!("{path}.{pin}");
                ports.push(PortState { name, at: at(*id), width: width(*id), source: Some(source(*id)) });
            }
            for (pin, id) in &unit.inputs {
                ports.push(PortState {
                    name: format!("{path}.{pin}"),
                    at: at(*id),
                    width: width(*id),
                    source: None,
                });
            }
        }
        let by_name = ports.iter().enumerate().rev().map(|(i, p)| (p.name.clone(), i as u32)).collect();

        let named =
            net.nodes.iter().enumerate().filter_map(|(id, node)| Some((id, node, node.name.clone()?)));
        // Names from the source come first: the first of several gets the path.
        let (weak, strong): (Vec<_>, Vec<_>) = named.partition(|(_, node, _)| node.weak);
        let names = strong
            .into_iter()
            .chain(weak)
            .map(|(id, node, name)| (node.scope, name, at(id as NodeId), node.width))
            .collect();

        let mut sim = Sim {
            dirty: vec![0; compiler.tables.instrs.len().div_ceil(64)],
            stale: true,
            scratch: Vec::new(),
            in_pending: vec![true; regs.len()],
            domains: domains.collect(),
            regs,
            mems,
            reads,
            writes,
            staged: Vec::new(),
            staged_words: Vec::new(),
            properties: properties.collect(),
            check: true,
            cycles: 0,
            ports,
            by_name,
            names,
            paths,
            peeks: None,
            tables: compiler.tables,
            vals: compiler.vals,
        };
        for i in 0..sim.tables.instrs.len() {
            sim.dirty[i / 64] |= 1 << (i % 64);
        }
        for (i, reg) in sim.regs.iter().enumerate() {
            sim.domains[reg.domain as usize].pending.push(i as u32);
        }
        sim
    }

    /// Looks a port up, for the `_at` variants of access.
    #[track_caller]
    pub fn port(&self, name: &str) -> PortIndex {
        if let Some(index) = self.by_name.get(name) {
            return PortIndex(*index);
        }
        if self.domains.iter().any(|d| d.clock == name) {
            panic!("`{name}` is a clock: use `tick`, `tick_clock` or `tick_clocks`");
        }
        let all: Vec<&str> = self.ports.iter().map(|p| p.name.as_str()).collect();
        panic!("no port `{name}`; there are: {}", all.join(", "))
    }

    /// Sets an input, a reset or an output pin of a black box. The value must fit.
    #[track_caller]
    pub fn set(&mut self, port: &str, value: u64) {
        let port = self.port(port);
        self.set_at(port, value);
    }

    /// Like [`Sim::set`], without the lookup.
    #[track_caller]
    pub fn set_at(&mut self, port: PortIndex, value: u64) {
        let state = &self.ports[port.0 as usize];
        assert!(
            state.width >= 64 || value >> state.width == 0,
            "value {value:#x} does not fit port `{}` of {} bits",
            state.name,
            state.width
        );
        self.put(port, &[value]);
    }

    /// Sets a port of any width.
    #[track_caller]
    pub fn set_bits(&mut self, port: &str, value: &Bits) {
        let port = self.port(port);
        self.set_bits_at(port, value);
    }

    /// Like [`Sim::set_bits`], without the lookup.
    #[track_caller]
    pub fn set_bits_at(&mut self, port: PortIndex, value: &Bits) {
        let state = &self.ports[port.0 as usize];
        assert!(
            state.width == value.width(),
            "a value of {} bits for port `{}` of {}",
            value.width(),
            state.name,
            state.width
        );
        self.put(port, value.words());
    }

    /// Stores into a port; missing words are zero.
    #[track_caller]
    fn put(&mut self, port: PortIndex, value: &[u64]) {
        let state = &self.ports[port.0 as usize];
        let Some(source) = state.source else {
            panic!("port `{}` is an output of the design and cannot be set", state.name)
        };
        let target = &mut self.vals[state.at as usize..][..words(state.width)];
        let mut changed = false;
        for (i, word) in target.iter_mut().enumerate() {
            let new = value.get(i).copied().unwrap_or(0);
            changed |= *word != new;
            *word = new;
        }
        if changed {
            self.touch(source);
        }
    }

    /// Reads a port of up to 64 bits, as it follows from the inputs and the state now.
    #[track_caller]
    pub fn get(&mut self, port: &str) -> u64 {
        let port = self.port(port);
        self.get_at(port)
    }

    /// Like [`Sim::get`], without the lookup.
    #[track_caller]
    pub fn get_at(&mut self, port: PortIndex) -> u64 {
        self.eval();
        let state = &self.ports[port.0 as usize];
        assert!(state.width <= 64, "port `{}` has {} bits: use `get_bits`", state.name, state.width);
        self.vals[state.at as usize]
    }

    /// Reads a port of any width.
    #[track_caller]
    pub fn get_bits(&mut self, port: &str) -> Bits {
        let port = self.port(port);
        self.get_bits_at(port)
    }

    /// Like [`Sim::get_bits`], without the lookup.
    pub fn get_bits_at(&mut self, port: PortIndex) -> Bits {
        self.eval();
        let state = &self.ports[port.0 as usize];
        Bits::from_words(state.width, &self.vals[state.at as usize..][..words(state.width)])
    }

    /// The value of any named signal, by its instance's path and its name in the source: `top.instance.name`.
    pub fn peek(&mut self, path: &str) -> Option<Bits> {
        self.eval();
        let (names, paths) = (&self.names, &self.paths);
        let peeks = self.peeks.get_or_insert_with(|| {
            let mut all = HashMap::new();
            for (scope, name, at, width) in names {
                all.entry(format!("{}.{name}", paths[*scope as usize])).or_insert((*at, *width));
            }
            all
        });
        let (at, width) = *peeks.get(path)?;
        Some(Bits::from_words(width, &self.vals[at as usize..][..words(width)]))
    }

    /// A rising edge of the first clock.
    #[track_caller]
    pub fn tick(&mut self) {
        self.edge(1);
    }

    /// A rising edge of `clock`.
    #[track_caller]
    pub fn tick_clock(&mut self, clock: &str) {
        self.tick_clocks(&[clock]);
    }

    /// Rising edges of several clocks in the same instant.
    #[track_caller]
    pub fn tick_clocks(&mut self, clocks: &[&str]) {
        let mut on = 0;
        for clock in clocks {
            let Some(index) = self.domains.iter().position(|d| d.clock == *clock) else {
                let all: Vec<&str> = self.domains.iter().map(|d| d.clock.as_str()).collect();
                panic!("no clock `{clock}`; there are: {}", all.join(", "))
            };
            on |= 1 << index;
        }
        self.edge(on);
    }

    /// Rising edges of the first clock so far, resets included.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Whether a failed assertion or assumption panics; it does unless told otherwise.
    pub fn check_asserts(&mut self, on: bool) {
        self.check = on;
    }

    /// How often each cover property was seen at an edge, under `path: message`.
    pub fn covers(&self) -> Vec<(String, u64)> {
        let covers = self.properties.iter().filter(|p| p.kind == PropertyKind::Cover);
        covers.map(|p| (format!("{}: {}", p.path, p.message), p.seen)).collect()
    }

    /// All resets high for two edges of every clock, then low.
    pub fn reset(&mut self) {
        self.all_resets(1);
        let all = (0..self.domains.len()).fold(0, |on, i| on | 1 << i);
        self.edge(all);
        self.edge(all);
        self.all_resets(0);
    }

    fn all_resets(&mut self, level: u64) {
        for i in 0..self.domains.len() {
            let (at, source) = (self.domains[i].reset, self.domains[i].reset_source);
            if self.vals[at as usize] != level {
                self.vals[at as usize] = level;
                self.touch(source);
            }
        }
    }

    /// Marks what reads a source.
    fn touch(&mut self, source: u32) {
        let at = self.tables.instrs.len() + source as usize;
        let (from, to) = (self.tables.begins[at] as usize, self.tables.begins[at + 1] as usize);
        for reader in &self.tables.readers[from..to] {
            self.dirty[(*reader / 64) as usize] |= 1 << (*reader % 64);
        }
        self.stale |= from != to;
    }

    /// Brings everything up to date.
    fn eval(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let (tables, mems) = (&self.tables, &self.mems);
        let (vals, dirty, scratch) = (&mut self.vals[..], &mut self.dirty[..], &mut self.scratch);
        let split = tables.next / 64;
        for block in 0..split {
            while dirty[block] != 0 {
                let index = block * 64 + dirty[block].trailing_zeros() as usize;
                dirty[block] &= dirty[block] - 1;
                if execute(tables.instrs[index], tables, mems, vals, scratch) {
                    let (from, to) = (tables.begins[index] as usize, tables.begins[index + 1] as usize);
                    for reader in &tables.readers[from..to] {
                        dirty[(*reader / 64) as usize] |= 1 << (*reader % 64);
                    }
                }
            }
        }
        for (block, bits) in dirty.iter_mut().enumerate().skip(split) {
            let mut bits = std::mem::take(bits);
            while bits != 0 {
                let index = block * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if execute(tables.instrs[index], tables, mems, vals, scratch) {
                    let reg = index - tables.next;
                    if !std::mem::replace(&mut self.in_pending[reg], true) {
                        self.domains[self.regs[reg].domain as usize].pending.push(reg as u32);
                    }
                }
            }
        }
    }

    /// Rising edges of the clocks in `on`, one bit a domain.
    #[track_caller]
    fn edge(&mut self, on: u64) {
        self.eval();
        self.check_properties(on);
        // Words are read before any write of the same edge, and seen after it.
        self.staged.clear();
        self.staged_words.clear();
        for (index, read) in self.reads.iter().enumerate() {
            if on >> read.domain & 1 == 0 || self.vals[read.en as usize] == 0 {
                continue;
            }
            let mem = &self.mems[read.mem as usize];
            let at = self.vals[read.addr as usize];
            let word = &mem.data[at as usize * mem.n..][..mem.n];
            // What such a read gives there is nobody's word.
            let spoils = |write: &WriteState| {
                on >> write.domain & self.vals[write.en as usize] & 1 == 1
                    && self.vals[write.addr as usize] == at
            };
            if read.spoilers.iter().any(|w| spoils(&self.writes[*w as usize])) {
                self.staged.push(index as u32);
                self.staged_words.extend(word.iter().map(|part| !part));
                *self.staged_words.last_mut().expect("a word has bits") &= read.last;
                continue;
            }
            if *word != self.vals[read.d as usize..][..mem.n] {
                self.staged.push(index as u32);
                self.staged_words.extend_from_slice(word);
            }
        }
        for write in &self.writes {
            if on >> write.domain & 1 == 0 || self.vals[write.en as usize] == 0 {
                continue;
            }
            let mem = &mut self.mems[write.mem as usize];
            let word = &mut mem.data[self.vals[write.addr as usize] as usize * mem.n..][..mem.n];
            let data = &self.vals[write.data as usize..][..mem.n];
            match write.lanes {
                None => word.copy_from_slice(data),
                Some((enables, width, lane)) => {
                    let enables = &self.vals[enables as usize..][..words(width)];
                    write_lanes(word, data, enables, width * lane, lane);
                }
            }
            for reader in &mem.immediate {
                self.dirty[(*reader / 64) as usize] |= 1 << (*reader % 64);
                self.stale = true;
            }
        }
        let staged = std::mem::take(&mut self.staged);
        let mut from = 0;
        for index in &staged {
            let read = &self.reads[*index as usize];
            let (n, source) = (self.mems[read.mem as usize].n, read.source);
            store(&mut self.vals, read.d, &self.staged_words[from..from + n]);
            from += n;
            self.touch(source);
        }
        self.staged = staged;
        for domain in 0..self.domains.len() {
            if on >> domain & 1 == 0 {
                continue;
            }
            let mut pending = std::mem::take(&mut self.domains[domain].pending);
            for index in pending.drain(..) {
                self.in_pending[index as usize] = false;
                let reg = &self.regs[index as usize];
                let source = reg.source;
                if copy(&mut self.vals, reg.next, reg.now, reg.n as usize) {
                    self.touch(source);
                }
            }
            self.domains[domain].pending = pending;
        }
        self.cycles += on & 1;
    }

    #[track_caller]
    fn check_properties(&mut self, on: u64) {
        for property in &mut self.properties {
            let domain = &self.domains[property.domain as usize];
            if on >> property.domain & 1 == 0 || self.vals[domain.reset as usize] != 0 {
                continue;
            }
            let holds = self.vals[property.cond as usize] != 0;
            let what = match property.kind {
                PropertyKind::Cover => {
                    property.seen += u64::from(holds);
                    continue;
                }
                PropertyKind::Assert => "assertion failed",
                PropertyKind::Assume => "assumption broken",
            };
            if !holds && self.check {
                panic!(
                    "{what} in `{}` after {} cycles: {} ({})",
                    property.path, self.cycles, property.message, property.loc
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{build, cat, lit, Collision, Scope, Sig};

    /// A small random generator.
    struct Rng(u64);

    impl Rng {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
        }

        fn below(&mut self, n: u64) -> u64 {
            (self.next() >> 8) % n
        }

        /// A value with many zeros, ones and small numbers.
        fn bits(&mut self, width: u32) -> Bits {
            let source: Vec<u64> = (0..words(width))
                .map(|_| match self.below(4) {
                    0 => 0,
                    1 => u64::MAX,
                    2 => self.below(width.into()),
                    _ => self.next(),
                })
                .collect();
            Bits::from_words(width, &source)
        }
    }

    /// The plain meaning of a netlist: every node computed anew, recursively.
    struct Reference<'n> {
        net: &'n Netlist,
        inputs: HashMap<NodeId, Bits>,
        regs: Vec<Bits>,
        reset: bool,
    }

    impl Reference<'_> {
        fn value(&self, id: NodeId, known: &mut HashMap<NodeId, Bits>) -> Bits {
            if let Some(bits) = known.get(&id) {
                return bits.clone();
            }
            let node = &self.net.nodes[id as usize];
            let mut out = vec![0; words(node.width)];
            let mut v = |id: NodeId| self.value(id, known);
            match &node.op {
                Op::Const(bits, _) => out.copy_from_slice(bits.words()),
                Op::Input(_) => out.copy_from_slice(self.inputs[&id].words()),
                Op::Unary(op, a) => {
                    let a = v(*a);
                    eval::unary(*op, a.words(), a.width(), &mut out);
                }
                Op::Binary(op, a, b) => {
                    let (a, b) = (v(*a), v(*b));
                    eval::binary(*op, a.words(), b.words(), a.width(), &mut out, node.width);
                }
                Op::Mux(c, a, b) => out.copy_from_slice(if v(*c).is_zero() { v(*b) } else { v(*a) }.words()),
                Op::Slice(a, low) => eval::slice(v(*a).words(), *low, &mut out, node.width),
                Op::Cat(parts) => {
                    let mut low = 0;
                    for part in parts {
                        let part = v(*part);
                        eval::place(part.words(), part.width(), low, &mut out);
                        low += part.width();
                    }
                }
                Op::Port(a, _) => out.copy_from_slice(v(*a).words()),
                Op::Reg(index) => out.copy_from_slice(self.regs[*index as usize].words()),
                Op::Wire(index) => {
                    let mut acc = None;
                    for (cond, value) in &self.net.wires[*index as usize].assigns {
                        if acc.is_none() || cond.is_none_or(|c| !v(c).is_zero()) {
                            acc = Some(v(*value));
                        }
                    }
                    out.copy_from_slice(acc.expect("driven").words());
                }
                Op::MemRead(..) | Op::BlackBox(..) => unreachable!("not in these tests"),
            }
            let bits = Bits::from_words(node.width, &out);
            known.insert(id, bits.clone());
            bits
        }

        fn tick(&mut self) {
            let mut known = HashMap::new();
            let next = self.net.regs.iter().enumerate().map(|(i, reg)| {
                let mut next = self.regs[i].clone();
                for (cond, value) in &reg.assigns {
                    if cond.is_none_or(|c| !self.value(c, &mut known).is_zero()) {
                        next = self.value(*value, &mut known);
                    }
                }
                reg.reset.clone().filter(|_| self.reset).unwrap_or(next)
            });
            self.regs = next.collect();
        }
    }

    fn resize(rng: &mut Rng, sig: Sig, width: u32) -> Sig {
        match (sig.width() < width, rng.below(2)) {
            (true, 0) => sig.sext(width),
            (true, _) => sig.zext(width),
            (false, _) => sig.slice(rng.below(u64::from(sig.width() - width) + 1) as u32, width),
        }
    }

    fn random_design(seed: u64) -> Netlist {
        let rng = &mut Rng(seed);
        let widths = [1, 1, 2, 7, 8, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 192, 200, 512];
        build("random", |m| {
            let mut pool: Vec<Sig> = Vec::new();
            for (i, width) in widths.iter().enumerate() {
                pool.push(m.input(&format!("i{i}"), *width));
            }
            let mut regs = Vec::new();
            for i in 0..12 {
                let width = widths[rng.below(widths.len() as u64) as usize];
                let reg = m.reg(&format!("r{i}"), width);
                let reg = if i % 3 == 0 { reg.no_reset() } else { reg.reset(&rng.bits(width)) };
                regs.push(reg);
                pool.push(reg);
            }
            let pick = |rng: &mut Rng, pool: &[Sig]| pool[rng.below(pool.len() as u64) as usize];
            for i in 0..150 {
                let a = pick(rng, &pool);
                let b = pick(rng, &pool);
                let b = resize(rng, b, a.width());
                let bit = pick(rng, &pool);
                let c = match rng.below(3) {
                    0 => bit.any(),
                    1 => bit.parity(),
                    _ => bit.msb(),
                };
                let new = match rng.below(22) {
                    0 => !a,
                    1 => a.all(),
                    2 => a.any(),
                    3 => a.parity(),
                    4 => a & b,
                    5 => a | b,
                    6 => a ^ b,
                    7 => a + b,
                    8 => a - b,
                    9 => a.slice(0, a.width().min(80)) * bit.slice(0, bit.width().min(80)),
                    10 => a.eq(b),
                    11 => a.ne(b),
                    12 => a.lt(b),
                    13 => a.le(b),
                    14 => a.slt(b),
                    15 => a.shl_by(bit.trunc(bit.width().min(9))),
                    16 => a.shr_by(bit.trunc(bit.width().min(9))),
                    17 => c.then(a, b),
                    18 => cat(&[a.trunc(a.width().min(150)), bit.trunc(bit.width().min(150)), c]),
                    19 => a.shl_by(bit),
                    20 => {
                        let wire = m.wire(&format!("w{i}"), a.width());
                        m.when(c, |m| {
                            m.set(&wire, a);
                            m.when(bit.parity(), |m| m.set(&wire, b));
                        })
                        .otherwise(|m| m.set(&wire, !b));
                        wire
                    }
                    _ => {
                        let width = widths[rng.below(widths.len() as u64) as usize];
                        resize(rng, a, width)
                    }
                };
                pool.push(new);
            }
            for reg in &regs {
                let (a, b, c) = (pick(rng, &pool), pick(rng, &pool), pick(rng, &pool).parity());
                let (a, b) = (resize(rng, a, reg.width()), resize(rng, b, reg.width()));
                if rng.below(3) == 0 {
                    m.set(reg, b);
                }
                m.when(c, |m| m.set(reg, a)).otherwise_when(b.msb(), |m| m.set(reg, b));
            }
            for (i, sig) in pool.iter().enumerate() {
                m.output(&format!("o{i}"), sig);
            }
        })
        .unwrap()
    }

    #[test]
    fn random_designs_follow_the_plain_meaning() {
        for seed in 1..60u64 {
            let net = random_design(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut sim = Sim::new(&net);
            let inputs =
                net.inputs.iter().map(|id| (*id, Bits::zero(net.nodes[*id as usize].width))).collect();
            let regs = net.regs.iter().map(|r| Bits::zero(net.nodes[r.node as usize].width)).collect();
            let mut reference = Reference { net: &net, inputs, regs, reset: false };
            let mut rng = Rng(seed);
            for cycle in 0..40 {
                if cycle % 13 == 0 {
                    reference.reset = rng.below(2) == 0;
                    sim.set("rst", reference.reset.into());
                }
                for id in &net.inputs {
                    let node = &net.nodes[*id as usize];
                    if rng.below(3) == 0 {
                        let value = rng.bits(node.width);
                        sim.set_bits(node.name.as_deref().unwrap(), &value);
                        reference.inputs.insert(*id, value);
                    }
                }
                if rng.below(4) != 0 {
                    let mut known = HashMap::new();
                    for (name, id) in &net.outputs {
                        let (is, must) = (sim.get_bits(name), reference.value(*id, &mut known));
                        assert_eq!(
                            is, must,
                            "{name} in cycle {cycle} of seed {seed}: {:?}",
                            net.nodes[*id as usize].op
                        );
                    }
                }
                sim.tick();
                reference.tick();
            }
        }
    }

    fn memory(m: &Scope) {
        let (en, addr, data, lanes) =
            (m.input("en", 1), m.input("addr", 3), m.input("data", 72), m.input("lanes", 3));
        let init = (0..8).map(|i| Bits::new(72, 100 + i)).collect();
        let mem = m.mem("words", 8, &crate::bits(72)).init(init).build();
        mem.write_lanes(en, addr, &data, lanes, 24);
        m.output("old", &mem.read(m, lit(1, 1), addr, Collision::Old));
        m.output("held", &mem.read(m, !en, addr, Collision::Old));
        m.output("now", &mem.read_now(addr));
    }

    #[test]
    fn a_word_of_which_nobody_promises_anything_is_neither_the_old_nor_the_new_one() {
        let any = |m: &Scope| {
            let (en, addr, data) = (m.input("en", 1), m.input("addr", 2), m.input("data", 70));
            let mem = m.mem("words", 4, &crate::bits(70)).init(vec![]).build();
            mem.write(en, addr, &data);
            m.output("any", &mem.read(m, lit(1, 1), lit(2, 1), Collision::Any));
        };
        let mut sim = Sim::new(&build("top", any).unwrap());
        let written = Bits::new(70, 0x12_3456_789a_bcde_f012);
        sim.set("en", 1);
        sim.set_bits("data", &written);
        for (addr, before) in [(1, Bits::new(70, 0)), (1, written.clone())] {
            sim.set("addr", addr);
            sim.tick();
            let found = sim.get_bits("any");
            assert!(found != before && found != written, "{found:?}");
        }
        sim.set("addr", 2);
        sim.tick();
        assert_eq!(sim.get_bits("any"), written, "nothing meets it");
        let mut sim = sim.unspoiled();
        sim.set("addr", 1);
        sim.set_bits("data", &Bits::new(70, 5));
        sim.tick();
        assert_eq!(sim.get_bits("any"), written);
    }

    #[test]
    fn memories_read_the_old_word_and_write_lanes() {
        let mut sim = Sim::new(&build("top", memory).unwrap());
        let ones = Bits::ones(72);
        sim.set("addr", 3);
        assert_eq!((sim.get_bits("now").to_u64(), sim.get_bits("old").to_u64()), (103, 0));
        sim.set("en", 1);
        sim.set("lanes", 0b100);
        sim.set_bits("data", &ones);
        sim.tick();
        let written = Bits::new(72, 0xff_ffff << 48 | 103);
        assert_eq!(sim.get_bits("old").to_u64(), 103);
        assert_eq!(sim.get_bits("now"), written);
        assert!(sim.get_bits("held").is_zero());
        sim.set("en", 0);
        sim.tick();
        assert_eq!((sim.get_bits("old"), sim.get_bits("held")), (written.clone(), written.clone()));
        sim.set("en", 1);
        sim.set("lanes", 0b011);
        sim.set("addr", 4);
        sim.tick();
        assert_eq!(sim.get_bits("now").to_u128(), 0xffff_ffff_ffff);
        assert_eq!(sim.get_bits("held"), written);
    }

    #[test]
    fn edges_of_several_clocks_are_simultaneous() {
        let net = build("top", |m| {
            let other = m.domain("rx");
            let a = m.reg("a", 8).reset(1);
            m.set(&a, a + 1);
            let first = m.in_domain(other, |m| m.synchronise("a", a));
            m.output("a", &a);
            m.output("b", &first);
        })
        .unwrap();
        let mut sim = Sim::new(&net);
        sim.reset();
        assert_eq!((sim.get("a"), sim.get("b")), (1, 0));
        sim.tick_clocks(&["clk", "rx_clk"]);
        sim.tick_clock("rx_clk");
        assert_eq!((sim.get("a"), sim.get("b")), (2, 1));
        sim.tick();
        sim.tick_clock("rx_clk");
        assert_eq!((sim.get("a"), sim.get("b")), (3, 2));
        assert_eq!(sim.peek("top.a_meta").unwrap().to_u64(), 3);
        assert_eq!(sim.cycles(), 4);
    }

    #[test]
    fn black_box_pins_are_ports() {
        let net = build("top", |m| {
            let a = m.input("a", 4);
            let pins = m.black_box("THING", &[], &[], &[("I", a)], &[("O", 100)]);
            m.output("o", &pins[0].trunc(4));
        })
        .unwrap();
        let mut sim = Sim::new(&net);
        sim.set("a", 9);
        assert_eq!((sim.get("top.thing.I"), sim.get("o")), (9, 0));
        sim.set("top.thing.O", 5);
        assert_eq!(sim.get("o"), 5);
    }

    fn property(m: &Scope) {
        let a = m.input("a", 1);
        m.cover(a, "a is seen");
        m.assert(!a, "a is low");
    }

    #[test]
    #[should_panic(expected = "assertion failed in `top` after 2 cycles: a is low (")]
    fn a_failed_assertion_panics() {
        let mut sim = Sim::new(&build("top", property).unwrap());
        sim.set("a", 1);
        sim.reset();
        sim.tick();
    }

    #[test]
    fn covers_count_outside_reset() {
        let mut sim = Sim::new(&build("top", property).unwrap());
        sim.check_asserts(false);
        sim.set("a", 1);
        sim.reset();
        sim.tick();
        sim.tick();
        assert_eq!(sim.covers(), [("top: a is seen".to_string(), 2)]);
    }

    #[test]
    #[should_panic(expected = "a constant has at least one bit")]
    fn a_constant_of_no_bits_is_refused() {
        let _ = build("top", |m| m.output("q", &crate::cat(&[crate::lit(0, 0), m.input("a", 2)])));
    }

    #[test]
    #[should_panic(expected = "no port `b`; there are: rst, a")]
    fn an_unknown_port_lists_the_ports() {
        Sim::new(&build("top", property).unwrap()).set("b", 1);
    }
}
