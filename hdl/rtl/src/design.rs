// SPDX-License-Identifier: MIT OR Apache-2.0
//! The design under construction: one a thread, so that signals are plain `Copy` handles and operators need no
//! context.

use crate::bits::{words, Bits};
use crate::eval;
use crate::netlist::*;
use crate::sig::Sig;
use crate::verilog::KEYWORDS;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) type Loc = &'static Location<'static>;

/// An open `when` block.
#[derive(Default)]
pub(crate) struct Block {
    /// The conjunction of all conditions down to here.
    pub path: Option<NodeId>,
    /// Wires assigned on every path through this block so far.
    pub full: HashSet<u32>,
}

/// A signal that takes registers back to their reset values.
pub(crate) struct Restart {
    /// The module in which it was given, and the signal there.
    pub scope: ScopeId,
    pub node: NodeId,
    /// The same signal in modules below.
    pub below: HashMap<ScopeId, NodeId>,
    /// Registers made before it do not follow it.
    pub first: usize,
}

pub(crate) struct Design {
    pub net: Netlist,
    pub serial: u32,
    /// Open modules, innermost last.
    pub scopes: Vec<ScopeId>,
    /// Open blocks of the innermost module; others are kept with their module.
    pub blocks: Vec<Vec<Block>>,
    pub domain: DomainId,
    pub discarded: HashSet<NodeId>,
    pub discarded_mems: HashSet<MemId>,
    /// What resets registers beside their domain's reset, innermost last.
    pub restarts: Vec<Restart>,
    /// Ports of what is enclosed, innermost last.
    pub pins: Vec<crate::pins::Declared>,
    cse: HashMap<(ScopeId, u32, Op), NodeId>,
    instance_names: HashSet<(ScopeId, String)>,
    port_names: HashSet<(ScopeId, String)>,
}

thread_local! {
    static CURRENT: RefCell<Option<Design>> = const { RefCell::new(None) };
}

static SERIAL: AtomicU32 = AtomicU32::new(1);

/// Opens a design on this thread.
pub(crate) fn open(top: &str, loc: Loc) {
    let mut net = Netlist::default();
    net.scopes.push(ScopeInfo { module: top.into(), instance: top.into(), parent: None, loc });
    net.domains.push(Domain { clock: "clk".into(), reset: "rst".into() });
    let design = Design {
        net,
        serial: SERIAL.fetch_add(1, Ordering::Relaxed),
        scopes: vec![0],
        blocks: vec![vec![Block::default()]],
        domain: 0,
        discarded: HashSet::new(),
        discarded_mems: HashSet::new(),
        restarts: Vec::new(),
        pins: Vec::new(),
        cse: HashMap::new(),
        instance_names: HashSet::new(),
        port_names: HashSet::new(),
    };
    CURRENT.with(|c| {
        let mut current = c.borrow_mut();
        assert!(current.is_none(), "a design is already being built on this thread");
        *current = Some(design);
    });
}

/// Closes it.
pub(crate) fn close() -> Option<Design> {
    CURRENT.with(|c| c.borrow_mut().take())
}

/// Runs `f` on the design under construction.
#[track_caller]
pub(crate) fn with<R>(f: impl FnOnce(&mut Design) -> R) -> R {
    with_at(Location::caller(), f)
}

/// Runs `f` on the design under construction, on behalf of the source's `loc`.
pub(crate) fn with_at<R>(loc: Loc, f: impl FnOnce(&mut Design) -> R) -> R {
    CURRENT.with(|c| {
        let mut current = c.borrow_mut();
        match current.as_mut() {
            Some(design) => f(design),
            None => {
                drop(current);
                panic!("{loc}: signals exist only inside `build`: no design is open on this thread")
            }
        }
    })
}

impl Design {
    pub(crate) fn scope(&self) -> ScopeId {
        *self.scopes.last().expect("the top is always open")
    }

    pub(crate) fn block(&mut self) -> &mut Block {
        self.blocks.last_mut().and_then(|b| b.last_mut()).expect("a module always has a block")
    }

    pub(crate) fn path(&self) -> Option<NodeId> {
        self.blocks.last().and_then(|b| b.last()).and_then(|b| b.path)
    }

    pub(crate) fn width(&self, id: NodeId) -> u32 {
        self.net.nodes[id as usize].width
    }

    pub(crate) fn sig(&self, id: NodeId) -> Sig {
        Sig { id, width: self.width(id), design: self.serial }
    }

    /// The node behind a handle, usable in the module that is open. Constants go anywhere.
    pub(crate) fn resolve(&mut self, sig: Sig, loc: Loc) -> Result<NodeId, String> {
        if sig.is_shape() {
            return Err(format!("{loc}: a {}-bit shape has no value: it only tells a width", sig.width));
        }
        if sig.design != self.serial {
            return Err(format!("{loc}: this signal belongs to another design"));
        }
        let scope = self.scope();
        let node = &self.net.nodes[sig.id as usize];
        if node.scope == scope {
            return Ok(sig.id);
        }
        if let Op::Const(..) = node.op {
            let (op, width) = (node.op.clone(), node.width);
            return Ok(self.add_in(scope, op, width, loc));
        }
        Err(format!(
            "{loc}: signal `{}` ({}) belongs to module `{}` but is used in `{}`: pass it through the module's \
             arguments or results",
            node.name.as_deref().unwrap_or("unnamed"),
            node.loc,
            self.net.path(node.scope),
            self.net.path(scope),
        ))
    }

    pub(crate) fn push(&mut self, node: Node) -> NodeId {
        self.net.nodes.push(node);
        (self.net.nodes.len() - 1) as NodeId
    }

    /// Adds a pure node to the open module, sharing an equal one.
    pub(crate) fn add(&mut self, op: Op, width: u32, loc: Loc) -> NodeId {
        self.add_in(self.scope(), op, width, loc)
    }

    fn add_in(&mut self, scope: ScopeId, op: Op, width: u32, loc: Loc) -> NodeId {
        let key = (scope, width, op);
        if let Some(id) = self.cse.get(&key) {
            return *id;
        }
        let id = self.push(Node { op: key.2.clone(), width, scope, loc, name: None, weak: false });
        self.cse.insert(key, id);
        id
    }

    pub(crate) fn constant(&self, id: NodeId) -> Option<&Bits> {
        match &self.net.nodes[id as usize].op {
            Op::Const(bits, _) => Some(bits),
            _ => None,
        }
    }

    pub(crate) fn literal(&mut self, bits: Bits, loc: Loc) -> NodeId {
        let width = bits.width();
        self.add(Op::Const(bits, None), width, loc)
    }

    pub(crate) fn unary(&mut self, op: Unary, a: NodeId, loc: Loc) -> NodeId {
        let a_width = self.width(a);
        let width = if op == Unary::Not { a_width } else { 1 };
        if width == a_width && op != Unary::Not {
            return a;
        }
        if let Some(value) = self.constant(a) {
            let mut out = vec![0; words(width)];
            eval::unary(op, value.words(), a_width, &mut out);
            return self.literal(Bits::from_words(width, &out), loc);
        }
        // A constant part may decide a reduction.
        if let Op::Cat(parts) = &self.net.nodes[a as usize].op {
            let mut constants = parts.iter().filter_map(|p| self.constant(*p));
            let decided = match op {
                Unary::All => constants.any(|c| !c.is_ones()).then(|| Bits::zero(1)),
                Unary::Any => constants.any(|c| !c.is_zero()).then(|| Bits::ones(1)),
                _ => None,
            };
            if let Some(value) = decided {
                return self.literal(value, loc);
            }
        }
        if let (Unary::Not, Op::Unary(Unary::Not, inner)) = (op, &self.net.nodes[a as usize].op) {
            return *inner;
        }
        self.add(Op::Unary(op, a), width, loc)
    }

    pub(crate) fn binary(&mut self, op: Binary, a: NodeId, b: NodeId, loc: Loc) -> NodeId {
        let (aw, bw) = (self.width(a), self.width(b));
        let width = match op {
            Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Slt => 1,
            Binary::Mul => aw + bw,
            _ => aw,
        };
        let (ca, cb) = (self.constant(a).cloned(), self.constant(b).cloned());
        if let (Some(x), Some(y)) = (&ca, &cb) {
            let mut out = vec![0; words(width)];
            eval::binary(op, x.words(), y.words(), aw, &mut out, width);
            return self.literal(Bits::from_words(width, &out), loc);
        }
        let zero = |c: &Option<Bits>| c.as_ref().is_some_and(Bits::is_zero);
        let ones = |c: &Option<Bits>| c.as_ref().is_some_and(Bits::is_ones);
        // What a constant decides has been asked for both.
        if ca.is_some() || cb.is_some() {
            self.discarded.extend([a, b]);
        }
        match op {
            Binary::And if zero(&ca) || ones(&cb) => return a,
            Binary::And if zero(&cb) || ones(&ca) => return b,
            Binary::Or if ones(&ca) || zero(&cb) => return a,
            Binary::Or if ones(&cb) || zero(&ca) => return b,
            Binary::And | Binary::Or if a == b => return a,
            Binary::And if self.is_and_of(b, a) => return b,
            Binary::And if self.is_and_of(a, b) => return a,
            Binary::Xor | Binary::Sub if a == b => return self.literal(Bits::zero(width), loc),
            Binary::Eq | Binary::Le if a == b => return self.literal(Bits::ones(1), loc),
            Binary::Ne | Binary::Lt | Binary::Slt if a == b => return self.literal(Bits::zero(1), loc),
            Binary::Xor | Binary::Add if zero(&ca) => return b,
            Binary::Xor | Binary::Add | Binary::Sub | Binary::Shl | Binary::Shr if zero(&cb) => return a,
            Binary::Eq if width == aw && ones(&cb) => return a,
            Binary::Eq if width == aw && zero(&cb) => return self.unary(Unary::Not, a, loc),
            Binary::Ne if width == aw && zero(&cb) => return a,
            Binary::Ne if width == aw && ones(&cb) => return self.unary(Unary::Not, a, loc),
            Binary::Mul | Binary::Shl | Binary::Shr if zero(&ca) => {
                return self.literal(Bits::zero(width), loc)
            }
            Binary::Mul if zero(&cb) => return self.literal(Bits::zero(width), loc),
            Binary::Shl | Binary::Shr if cb.is_some() => {
                let amount =
                    cb.as_ref().map_or(0, |c| if c.significant() > 32 { u64::MAX } else { c.to_u64() });
                return self.shift(op == Binary::Shl, a, amount, loc);
            }
            // Comparisons that a width decides; Verilog tools warn of them.
            Binary::Lt if zero(&cb) || ones(&ca) => return self.literal(Bits::zero(1), loc),
            Binary::Le if zero(&ca) || ones(&cb) => return self.literal(Bits::ones(1), loc),
            Binary::Lt if zero(&ca) => return self.binary(Binary::Ne, b, a, loc),
            Binary::Le if zero(&cb) => return self.binary(Binary::Eq, a, b, loc),
            _ => {}
        }
        self.add(Op::Binary(op, a, b), width, loc)
    }

    /// A shift by a constant.
    pub(crate) fn shift(&mut self, left: bool, a: NodeId, by: u64, loc: Loc) -> NodeId {
        let width = self.width(a);
        if by >= u64::from(width) {
            return self.literal(Bits::zero(width), loc);
        }
        let by = by as u32;
        if by == 0 {
            return a;
        }
        let kept = self.slice(a, if left { 0 } else { by }, width - by, loc);
        let zeros = self.literal(Bits::zero(by), loc);
        match left {
            true => self.cat(&[zeros, kept], loc),
            false => self.cat(&[kept, zeros], loc),
        }
    }

    /// Whether `id` is a conjunction of which `part` is a side.
    fn is_and_of(&self, id: NodeId, part: NodeId) -> bool {
        matches!(self.net.nodes[id as usize].op, Op::Binary(Binary::And, x, y) if x == part || y == part)
    }

    pub(crate) fn mux(&mut self, cond: NodeId, yes: NodeId, no: NodeId, loc: Loc) -> NodeId {
        if yes == no {
            return yes;
        }
        if let Some(value) = self.constant(cond) {
            let (taken, other) = if value.is_zero() { (no, yes) } else { (yes, no) };
            self.discarded.insert(other);
            return taken;
        }
        let width = self.width(yes);
        if width == 1 {
            match (self.constant(yes).map(Bits::is_zero), self.constant(no).map(Bits::is_zero)) {
                (Some(false), Some(true)) => return cond,
                (Some(true), Some(false)) => return self.unary(Unary::Not, cond, loc),
                _ => {}
            }
        }
        self.add(Op::Mux(cond, yes, no), width, loc)
    }

    pub(crate) fn slice(&mut self, a: NodeId, low: u32, width: u32, loc: Loc) -> NodeId {
        if width == self.width(a) {
            return a;
        }
        match self.net.nodes[a as usize].op.clone() {
            Op::Const(bits, _) => {
                let mut out = vec![0; words(width)];
                eval::slice(bits.words(), low, &mut out, width);
                self.literal(Bits::from_words(width, &out), loc)
            }
            Op::Slice(inner, at) => self.slice(inner, at + low, width, loc),
            Op::Cat(parts) => {
                let mut at = 0;
                let mut picked = Vec::new();
                for part in parts {
                    let w = self.width(part);
                    let (from, to) = (low.max(at), (low + width).min(at + w));
                    if from < to {
                        picked.push(self.slice(part, from - at, to - from, loc));
                    }
                    at += w;
                }
                self.cat(&picked, loc)
            }
            _ => self.add(Op::Slice(a, low), width, loc),
        }
    }

    pub(crate) fn cat(&mut self, parts: &[NodeId], loc: Loc) -> NodeId {
        let mut flat: Vec<NodeId> = Vec::new();
        for part in parts {
            let inner = match &self.net.nodes[*part as usize] {
                Node { op: Op::Cat(inner), name: None, .. } => inner.clone(),
                _ => vec![*part],
            };
            for id in inner {
                let joined = flat.last().and_then(|last| self.join(*last, id, loc));
                match joined {
                    Some(both) => *flat.last_mut().expect("there is a last one") = both,
                    None => flat.push(id),
                }
            }
        }
        if let [only] = flat[..] {
            return only;
        }
        let width = flat.iter().map(|p| self.width(*p)).sum();
        self.add(Op::Cat(flat), width, loc)
    }

    /// Two neighbours of a concatenation as one node, where they are constants or slices that touch.
    fn join(&mut self, low: NodeId, high: NodeId, loc: Loc) -> Option<NodeId> {
        let (lw, hw) = (self.width(low), self.width(high));
        match (&self.net.nodes[low as usize].op, &self.net.nodes[high as usize].op) {
            (Op::Const(a, _), Op::Const(b, _)) => {
                let mut out = vec![0; words(lw + hw)];
                eval::place(a.words(), lw, 0, &mut out);
                eval::place(b.words(), hw, lw, &mut out);
                Some(self.literal(Bits::from_words(lw + hw, &out), loc))
            }
            (Op::Slice(a, at), Op::Slice(b, bt)) if a == b && at + lw == *bt => {
                let (source, at) = (*a, *at);
                Some(self.slice(source, at, lw + hw, loc))
            }
            _ => None,
        }
    }

    /// Names a node; a name from the source replaces a made-up one, never another from the source.
    pub(crate) fn name(&mut self, id: NodeId, name: &str, weak: bool) {
        let node = &mut self.net.nodes[id as usize];
        if matches!(node.op, Op::Const(..)) {
            return;
        }
        if node.name.is_none() || (node.weak && !weak) {
            node.name = Some(name.into());
            node.weak = weak;
        }
    }

    /// A name for an instance or memory that is free in the open module.
    pub(crate) fn unique(&mut self, base: &str) -> String {
        let scope = self.scope();
        let mut name = base.to_string();
        let mut n = 1;
        while !self.instance_names.insert((scope, name.clone())) {
            name = format!("{base}_{n}");
            n += 1;
        }
        name
    }

    /// A name for a port of module `child` that is free there and is no word of Verilog's.
    pub(crate) fn port_name(&mut self, child: ScopeId, base: &str) -> String {
        let base = if KEYWORDS.contains(&base) { format!("{base}_") } else { base.to_string() };
        let mut name = base.clone();
        let mut n = 1;
        while !self.port_names.insert((child, name.clone())) {
            name = if n == 1 { format!("{base}_o") } else { format!("{base}_{n}") };
            n += 1;
        }
        name
    }

    /// The open module's registers that have a reset follow the innermost restart, if there is one. To be called when no more is assigned to them.
    /// Those before `from` are of others.
    pub(crate) fn restart(&mut self, from: usize, loc: Loc) {
        let Some(restart) = self.restarts.last() else { return };
        let (scope, from) = (self.scope(), from.max(restart.first));
        for index in from..self.net.regs.len() {
            let reg = &self.net.regs[index];
            let Some(value) = reg.reset.clone() else { continue };
            if self.net.nodes[reg.node as usize].scope != scope || reg.assigns.is_empty() || reg.outlives {
                continue;
            }
            let (value, restart) = (self.literal(value, loc), self.restart_in(scope, loc));
            let covers = self.covers_reset(self.net.regs[index].domain);
            let reg = &mut self.net.regs[index];
            reg.assigns.push((Some(restart), value));
            if covers {
                reg.reset = None;
            }
        }
    }

    /// Whether the innermost restart is a register that the reset of `domain` sets, so that it stands for that reset too.
    fn covers_reset(&self, domain: DomainId) -> bool {
        let mut node = self.restarts.last().expect("there is one").node;
        while let Op::Port(source, _) = self.net.nodes[node as usize].op {
            node = source;
        }
        let Op::Reg(index) = self.net.nodes[node as usize].op else { return false };
        let reg = &self.net.regs[index as usize];
        reg.domain == domain && reg.reset.as_ref().is_some_and(|value| value.bit(0))
    }

    /// The innermost restart in a module below the one in which it was given.
    pub(crate) fn restart_in(&mut self, scope: ScopeId, loc: Loc) -> NodeId {
        let restart = self.restarts.last().expect("there is one");
        if restart.scope == scope {
            return restart.node;
        }
        if let Some(node) = restart.below.get(&scope) {
            return *node;
        }
        let parent = self.net.scopes[scope as usize].parent.expect("only the top has none");
        let source = self.restart_in(parent, loc);
        let port = self.port_name(scope, "restart");
        let op = Op::Port(source, port.clone());
        let node = self.push(Node { op, width: 1, scope, loc, name: Some(port), weak: true });
        self.restarts.last_mut().expect("there is one").below.insert(scope, node);
        node
    }

    pub(crate) fn new_wire(&mut self, name: &str, width: u32, weak: bool, loc: Loc) -> NodeId {
        let index = self.net.wires.len() as u32;
        let scope = self.scope();
        let name = Some(name.to_string());
        let node = self.push(Node { op: Op::Wire(index), width, scope, loc, name, weak });
        self.net.wires.push(Wire { node, assigns: Vec::new(), driven: false, once: false });
        node
    }
}
