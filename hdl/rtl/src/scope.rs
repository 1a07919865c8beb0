// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Scope`]: the open module, and everything that is declared in one: registers, wires, memories, conditions,
//! instances, properties, clock domains.

use crate::bits::Bits;
use crate::bundle::{zip, Bundle, Crossing, Interface, Value};
use crate::design::{with, Block, Loc};
use crate::mem::MemBuilder;
use crate::netlist::{self, BlackBox, Node, Op, Property, PropertyKind, Reg, ScopeId, ScopeInfo, Style};
use crate::sig::{make, mux_sig, Operand, Sig};
use crate::stream::{Later, Stream};
use std::collections::HashSet;
use std::panic::Location;

/// A clock domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainId(pub(crate) netlist::DomainId);

/// The module that is open, handed to every circuit.
#[derive(Clone, Debug)]
pub struct Scope {
    pub(crate) id: ScopeId,
    label: Option<String>,
}

/// A register that still needs its reset told.
#[must_use = "a register needs `.reset(value)`, `.reset_once(value)` or `.no_reset()`"]
pub struct RegBuilder {
    scope: ScopeId,
    name: String,
    width: u32,
    loc: Loc,
}

impl RegBuilder {
    /// Synchronous reset to `value`.
    #[track_caller]
    pub fn reset(self, value: impl Operand) -> Sig {
        let bits = self.reset_value(value, Location::caller());
        self.declare(Some(bits), false)
    }

    /// The same, but no [restart](Scope::restarted) takes it back: for what outlives one.
    #[track_caller]
    pub fn reset_once(self, value: impl Operand) -> Sig {
        let bits = self.reset_value(value, Location::caller());
        self.declare(Some(bits), true)
    }

    /// No reset: for data that a valid bit guards.
    pub fn no_reset(self) -> Sig {
        self.declare(None, false)
    }

    fn reset_value(&self, value: impl Operand, loc: Loc) -> Bits {
        let value = value.operand(self.width, loc);
        assert!(
            value.width() == self.width,
            "{loc}: reset value of {} bits for a register of {}",
            value.width(),
            self.width
        );
        let bits = make_with(loc, |d| d.resolve(value, loc).map(|id| d.constant(id).cloned()));
        bits.unwrap_or_else(|| panic!("{loc}: a reset value must be a constant"))
    }

    fn declare(self, reset: Option<Bits>, outlives: bool) -> Sig {
        make(self.loc, |d| {
            let index = d.net.regs.len() as u32;
            let (op, name) = (Op::Reg(index), Some(self.name));
            let node =
                d.push(Node { op, width: self.width, scope: self.scope, loc: self.loc, name, weak: false });
            let domain = d.domain;
            d.net.regs.push(Reg { node, reset, domain, assigns: Vec::new(), crossing: false, outlives });
            Ok(node)
        })
    }
}

/// Runs `f` on the open design; what it complains of panics.
fn make_with<R>(loc: Loc, f: impl FnOnce(&mut crate::design::Design) -> Result<R, String>) -> R {
    crate::design::with_at(loc, f).unwrap_or_else(|message| panic!("{message}"))
}

pub(crate) fn drive_at(target: Sig, value: Sig, loc: Loc) {
    assert!(
        target.width() == value.width(),
        "{loc}: width mismatch: a value of {} bits drives a signal of {}",
        value.width(),
        target.width()
    );
    make(loc, |d| {
        let (target, value) = (d.resolve(target, loc)?, d.resolve(value, loc)?);
        let Op::Wire(index) = d.net.nodes[target as usize].op else {
            return Err(format!("{loc}: only a wire or a stream's ready can be driven; a register is `set`"));
        };
        if d.path().is_some() {
            return Err(format!("{loc}: `drive` inside a `when`: use `set`, with a default before it"));
        }
        let wire = &mut d.net.wires[index as usize];
        if !wire.assigns.is_empty() {
            let node = &d.net.nodes[target as usize];
            let name = node.name.as_deref().unwrap_or("unnamed");
            return Err(format!("{loc}: `{name}` ({}) is driven twice", node.loc));
        }
        wire.assigns.push((None, value));
        (wire.driven, wire.once) = (true, true);
        Ok(target)
    });
}

/// The rest of a `when`.
pub struct When<'m> {
    m: &'m Scope,
    outer: Option<netlist::NodeId>,
    /// Conjunction of the negated conditions so far.
    none: Sig,
    full: Option<HashSet<u32>>,
    loc: Loc,
}

impl<'m> When<'m> {
    fn branch(mut self, cond: Sig, body: impl FnOnce(&Scope), loc: Loc) -> Self {
        assert!(cond.width() == 1, "{loc}: a condition has one bit, not {}", cond.width());
        let outer = self.outer;
        let taken = self.none;
        let path = make(loc, |d| {
            let cond = d.resolve(cond, loc)?;
            let here = d.binary(netlist::Binary::And, taken.id, cond, loc);
            let path = match outer {
                Some(outer) => d.binary(netlist::Binary::And, outer, here, loc),
                None => here,
            };
            d.name(path, &format!("when_{}", loc.line()), true);
            Ok(path)
        });
        with(|d| {
            let block = Block { path: Some(path.id), full: HashSet::new() };
            d.blocks.last_mut().expect("open").push(block)
        });
        body(self.m);
        let block = with(|d| d.blocks.last_mut().and_then(Vec::pop)).expect("the branch's block");
        self.full = Some(match self.full.take() {
            None => block.full,
            Some(full) => full.intersection(&block.full).copied().collect(),
        });
        self.none = make(loc, |d| {
            let cond = d.resolve(cond, loc)?;
            let not = d.unary(netlist::Unary::Not, cond, loc);
            Ok(d.binary(netlist::Binary::And, taken.id, not, loc))
        });
        self
    }

    /// Where no earlier condition holds and this one does.
    #[track_caller]
    pub fn otherwise_when(self, cond: Sig, body: impl FnOnce(&Scope)) -> Self {
        self.branch(cond, body, Location::caller())
    }

    /// Where no condition holds.
    #[track_caller]
    pub fn otherwise(self, body: impl FnOnce(&Scope)) {
        let loc = Location::caller();
        let always = crate::lit(1, 1);
        let mut done = self.branch(always, body, loc);
        let full = done.full.take().unwrap_or_default();
        with(|d| {
            for index in &full {
                d.net.wires[*index as usize].driven |= done.outer.is_none();
            }
            d.block().full.extend(full);
        });
        let _ = done.loc;
    }
}

impl Scope {
    /// The same module, where the next instance is called `label`.
    pub fn label(&self, label: &str) -> Scope {
        Scope { id: self.id, label: Some(label.into()) }
    }

    #[track_caller]
    pub(crate) fn check_open(&self, loc: Loc) {
        let open = with(|d| d.scope());
        assert!(open == self.id, "{loc}: this scope is not the module that is open: use the innermost `m`");
    }

    /// Declares a register.
    #[track_caller]
    pub fn reg(&self, name: &str, width: u32) -> RegBuilder {
        self.reg_at(name, width, Location::caller())
    }

    fn reg_at(&self, name: &str, width: u32, loc: Loc) -> RegBuilder {
        assert!(width > 0, "{loc}: register `{name}` has no bits");
        self.check_open(loc);
        RegBuilder { scope: self.id, name: name.into(), width, loc }
    }

    /// A register of `value`'s shape without reset.
    #[track_caller]
    pub fn reg_of<T: Bundle>(&self, name: &str, shape: &T) -> T {
        let loc = Location::caller();
        shape.map(name, &mut |path, sig| self.reg_at(path, sig.width(), loc).no_reset())
    }

    /// A register of `value`'s shape that resets to zeros.
    #[track_caller]
    pub fn reg_zero<T: Bundle>(&self, name: &str, shape: &T) -> T {
        let loc = Location::caller();
        shape.map(name, &mut |path, sig| self.reg_at(path, sig.width(), loc).reset(0))
    }

    /// `value` one cycle later, without reset.
    #[track_caller]
    pub fn delay<T: Bundle + Value<T>>(&self, name: &str, value: &T) -> T {
        let reg = self.reg_of(name, value);
        self.set_all(&reg, value);
        reg
    }

    /// `value` one cycle later, zeros after a reset.
    #[track_caller]
    pub fn delay_zero<T: Bundle + Value<T>>(&self, name: &str, value: &T) -> T {
        let reg = self.reg_zero(name, value);
        self.set_all(&reg, value);
        reg
    }

    /// Declares a wire, to be `set` on every path.
    #[track_caller]
    pub fn wire(&self, name: &str, width: u32) -> Sig {
        self.wire_at(name, width, Location::caller())
    }

    fn wire_at(&self, name: &str, width: u32, loc: Loc) -> Sig {
        assert!(width > 0, "{loc}: wire `{name}` has no bits");
        self.check_open(loc);
        make(loc, |d| Ok(d.new_wire(name, width, false, loc)))
    }

    #[track_caller]
    pub(crate) fn wire_weak(&self, name: &str, width: u32) -> Sig {
        let loc = Location::caller();
        self.check_open(loc);
        make(loc, |d| Ok(d.new_wire(name, width, true, loc)))
    }

    /// A wire of `value`'s shape.
    #[track_caller]
    pub fn wire_of<T: Bundle>(&self, name: &str, shape: &T) -> T {
        let loc = Location::caller();
        shape.map(name, &mut |path, sig| self.wire_at(path, sig.width(), loc))
    }

    /// Drives a wire declared before, once and always.
    #[track_caller]
    pub fn drive<T: Bundle>(&self, target: &T, value: impl Value<T>) {
        let loc = Location::caller();
        let value = value.value(target, loc);
        zip(target, &value, loc, |target, value| {
            drive_at(target, value, loc);
            target
        });
    }

    /// Assigns a register (from the next cycle on) or a wire. Within a `when` it holds there only; the last
    /// assignment wins.
    #[track_caller]
    pub fn set<T: Bundle>(&self, target: &T, value: impl Value<T>) {
        let loc = Location::caller();
        self.check_open(loc);
        let value = value.value(target, loc);
        zip(target, &value, loc, |target, value| {
            self.assign(target, value, loc);
            target
        });
    }

    /// Assigns a whole bundle.
    #[track_caller]
    pub fn set_all<T: Bundle>(&self, target: &T, value: &T) {
        let loc = Location::caller();
        self.check_open(loc);
        zip(target, value, loc, |target, value| {
            self.assign(target, value, loc);
            target
        });
    }

    fn assign(&self, target: Sig, value: Sig, loc: Loc) {
        assert!(
            target.width() == value.width(),
            "{loc}: width mismatch: a value of {} bits for a target of {}",
            value.width(),
            target.width()
        );
        make(loc, |d| {
            let (target, value) = (d.resolve(target, loc)?, d.resolve(value, loc)?);
            // What always holds is no condition.
            let path = d.path().filter(|path| !d.constant(*path).is_some_and(Bits::is_ones));
            match d.net.nodes[target as usize].op {
                Op::Reg(index) => {
                    let assigns = &mut d.net.regs[index as usize].assigns;
                    if path.is_none() {
                        assigns.clear();
                    }
                    assigns.push((path, value));
                }
                Op::Wire(index) => {
                    d.block().full.insert(index);
                    let wire = &mut d.net.wires[index as usize];
                    if wire.once {
                        let node = &d.net.nodes[target as usize];
                        let name = node.name.as_deref().unwrap_or("unnamed");
                        return Err(format!("{loc}: `{name}` ({}) is driven twice", node.loc));
                    }
                    if path.is_none() {
                        wire.assigns.clear();
                        wire.driven = true;
                    }
                    wire.assigns.push((path, value));
                }
                _ => {
                    let node = &d.net.nodes[target as usize];
                    let name = node.name.as_deref().unwrap_or("unnamed");
                    return Err(format!(
                        "{loc}: `{name}` ({}) is neither a register nor a wire and cannot be set",
                        node.loc
                    ));
                }
            }
            Ok(target)
        });
    }

    /// Assignments in `body` hold where `cond` does.
    #[track_caller]
    pub fn when(&self, cond: Sig, body: impl FnOnce(&Scope)) -> When<'_> {
        let loc = Location::caller();
        self.check_open(loc);
        let outer = with(|d| d.path());
        When { m: self, outer, none: crate::lit(1, 1), full: None, loc }.branch(cond, body, loc)
    }

    /// `yes` where `cond` holds, else `no`.
    #[track_caller]
    pub fn mux<T: Bundle>(&self, cond: Sig, yes: &T, no: &T) -> T {
        let loc = Location::caller();
        zip(yes, no, loc, |yes, no| mux_sig(cond, yes, no, loc))
    }

    /// The entry of `table` that `index` tells; the last one past the end.
    #[track_caller]
    pub fn select<T: Bundle>(&self, index: Sig, table: &[T]) -> T {
        let loc = Location::caller();
        assert!(!table.is_empty(), "{loc}: a selection from nothing");
        let mut picked: Vec<T> = table.to_vec();
        for bit in 0..index.width() {
            if picked.len() == 1 {
                break;
            }
            let cond = index.bit(bit);
            picked = picked
                .chunks(2)
                .map(|pair| match pair {
                    [no, yes] => zip(yes, no, loc, |yes, no| mux_sig(cond, yes, no, loc)),
                    [only] => only.clone(),
                    _ => unreachable!("chunks of two"),
                })
                .collect();
        }
        picked.swap_remove(0)
    }

    /// Declares a memory of `depth` words.
    pub fn mem<T: Bundle>(&self, name: &str, depth: u32, shape: &T) -> MemBuilder<'_, T> {
        MemBuilder { m: self, name: name.into(), depth, shape: shape.clone(), style: Style::Auto, init: None }
    }

    /// Declares that a register, wire or bundle may stay unread.
    pub fn discard<T: Bundle>(&self, value: &T) {
        with(|d| d.discarded.extend(value.fields().iter().map(|(_, s)| s.id)));
    }

    /// A stream to be connected later: feedback.
    #[track_caller]
    pub fn later<T: Bundle>(&self, name: &str, shape: &T) -> (Stream<T>, Later<T>) {
        let valid = self.wire(&crate::join(name, "valid"), 1);
        let ready = self.wire(&crate::join(name, "ready"), 1);
        let payload = self.wire_of(name, shape);
        with(|d| d.discarded.extend(payload.fields().iter().map(|(_, s)| s.id)));
        (Stream { valid, ready, payload: payload.clone() }, Later { valid, ready, payload })
    }

    #[track_caller]
    fn property(&self, kind: PropertyKind, cond: Sig, message: &str) {
        let loc = Location::caller();
        assert!(cond.width() == 1, "{loc}: a property has one bit, not {}", cond.width());
        make(loc, |d| {
            let mut cond = d.resolve(cond, loc)?;
            if let Some(path) = d.path() {
                cond = match kind {
                    PropertyKind::Cover => d.binary(netlist::Binary::And, path, cond, loc),
                    _ => {
                        let not = d.unary(netlist::Unary::Not, path, loc);
                        d.binary(netlist::Binary::Or, not, cond, loc)
                    }
                };
            }
            let (scope, domain) = (d.scope(), d.domain);
            if kind == PropertyKind::Assert && !d.restarts.is_empty() {
                let restart = d.restart_in(scope, loc);
                cond = d.binary(netlist::Binary::Or, restart, cond, loc);
            }
            d.net.properties.push(Property { kind, scope, domain, cond, message: message.into(), loc });
            Ok(cond)
        });
    }

    /// `cond` holds at every clock edge outside reset and [`restarted`](Scope::restarted)'s restart; within a `when`, where that holds.
    #[track_caller]
    pub fn assert(&self, cond: Sig, message: &str) {
        self.property(PropertyKind::Assert, cond, message);
    }

    /// What the surroundings promise.
    #[track_caller]
    pub fn assume(&self, cond: Sig, message: &str) {
        self.property(PropertyKind::Assume, cond, message);
    }

    /// Something that should be seen to happen.
    #[track_caller]
    pub fn cover(&self, cond: Sig, message: &str) {
        self.property(PropertyKind::Cover, cond, message);
    }

    /// Declares a clock domain with ports `NAME_clk` and `NAME_rst`.
    #[track_caller]
    pub fn domain(&self, name: &str) -> DomainId {
        let loc = Location::caller();
        let clock = format!("{name}_clk");
        let known = with(|d| d.net.domains.iter().any(|domain| domain.clock == clock));
        assert!(!known, "{loc}: clock domain `{name}` is declared twice");
        with(|d| {
            d.net.domains.push(netlist::Domain { clock, reset: format!("{name}_rst") });
            DomainId(d.net.domains.len() as u32 - 1)
        })
    }

    /// The domain in which `self` declares registers now.
    pub fn current_domain(&self) -> DomainId {
        with(|d| DomainId(d.domain))
    }

    /// What `body` declares belongs to `domain`.
    pub fn in_domain<R>(&self, domain: DomainId, body: impl FnOnce(&Scope) -> R) -> R {
        let before = with(|d| std::mem::replace(&mut d.domain, domain.0));
        let result = body(self);
        with(|d| d.domain = before);
        result
    }

    /// What `body` declares, and all modules in it, goes back to its reset values where `restart` holds, as with its domain's reset: registers without a
    /// reset, those of [`reset_once`](RegBuilder::reset_once) and memories stay. What is assigned to these registers is assigned within `body`. Each module that needs it has a port `restart`.
    /// If `restart` is a register that the domain's reset sets to 1, it stands for that reset too: one net, from a flip-flop, takes these registers back.
    /// They then begin one cycle after the others of the domain, so a reset lasts a cycle longer.
    #[track_caller]
    pub fn restarted<R>(&self, restart: Sig, body: impl FnOnce(&Scope) -> R) -> R {
        let loc = Location::caller();
        self.check_open(loc);
        assert!(restart.width() == 1, "{loc}: a restart has one bit, not {}", restart.width());
        make(loc, |d| {
            let node = d.resolve(restart, loc)?;
            let (scope, first) = (d.scope(), d.net.regs.len());
            d.restarts.push(crate::design::Restart { scope, node, below: Default::default(), first });
            Ok(node)
        });
        let result = body(self);
        with(|d| {
            d.restart(0, loc);
            d.restarts.pop();
        });
        result
    }

    /// A two-flop synchroniser of one bit, or of a Gray-coded value, into the current domain.
    #[track_caller]
    pub fn synchronise(&self, name: &str, value: Sig) -> Sig {
        let first = self.reg(&format!("{name}_meta"), value.width()).reset(0);
        let second = self.reg(&format!("{name}_sync"), value.width()).reset(0);
        with(|d| {
            for flop in [first, second] {
                let Op::Reg(index) = d.net.nodes[flop.id as usize].op else { unreachable!("just declared") };
                d.net.regs[index as usize].crossing = true;
            }
        });
        self.set(&first, value);
        self.set(&second, first);
        second
    }

    /// An input of the top module.
    #[track_caller]
    pub fn input(&self, name: &str, width: u32) -> Sig {
        self.input_at(name, width, Location::caller())
    }

    fn input_at(&self, name: &str, width: u32, loc: Loc) -> Sig {
        assert!(width > 0, "{loc}: input `{name}` has no bits");
        make(loc, |d| {
            let scope = d.scope();
            if d.pins.last().is_some_and(|pins| pins.scope == scope) {
                let id = d.new_wire(name, width, false, loc);
                d.pins.last_mut().expect("looked at").inputs.push((name.into(), id));
                return Ok(id);
            }
            if scope != 0 {
                return Err(format!("{loc}: inputs belong to the top module; pass `{name}` as an argument"));
            }
            let op = Op::Input(d.domain);
            let id = d.push(Node { op, width, scope: 0, loc, name: Some(name.into()), weak: false });
            d.net.inputs.push(id);
            Ok(id)
        })
    }

    /// A port of the top module that goes both ways: its bits are for pins of [black boxes](Self::black_box) alone, which drive and read it.
    #[track_caller]
    pub fn inout(&self, name: &str, width: u32) -> Sig {
        let loc = Location::caller();
        let sig = self.input_at(name, width, loc);
        make(loc, |d| {
            let id = d.resolve(sig, loc)?;
            if d.scope() != 0 || !d.pins.is_empty() {
                return Err(format!(
                    "{loc}: `{name}` goes both ways: only the top module itself has such ports"
                ));
            }
            d.net.inouts.push(id);
            Ok(id)
        })
    }

    /// Inputs of the top module in `shape`.
    #[track_caller]
    pub fn input_of<T: Bundle>(&self, name: &str, shape: &T) -> T {
        let loc = Location::caller();
        shape.map(name, &mut |path, sig| self.input_at(path, sig.width(), loc))
    }

    /// Outputs of the top module.
    #[track_caller]
    pub fn output<T: Bundle>(&self, name: &str, value: &T) {
        let loc = Location::caller();
        for (path, sig) in value.fields() {
            let port = crate::join(name, &path);
            make(loc, |d| {
                let (id, scope) = (d.resolve(sig, loc)?, d.scope());
                if let Some(pins) = d.pins.last_mut().filter(|pins| pins.scope == scope) {
                    pins.outputs.push((port.clone(), id));
                    return Ok(id);
                }
                if scope != 0 {
                    return Err(format!("{loc}: outputs belong to the top module; return `{port}` instead"));
                }
                d.net.outputs.push((port.clone(), id));
                Ok(id)
            });
        }
    }

    /// A stream into the top module.
    #[track_caller]
    pub fn stream_in<T: Bundle>(&self, name: &str, shape: &T) -> Stream<T> {
        let valid = self.input(&crate::join(name, "valid"), 1);
        let payload = self.input_of(name, shape);
        let ready = self.wire_weak(&format!("{name}_ready_i"), 1);
        self.output(&crate::join(name, "ready"), &ready);
        Stream { valid, ready, payload }
    }

    /// A stream out of the top module.
    #[track_caller]
    pub fn stream_out<T: Bundle>(&self, name: &str, stream: Stream<T>) {
        self.output(&crate::join(name, "valid"), &stream.valid);
        self.output(name, &stream.payload);
        stream.accept(self.input(&crate::join(name, "ready"), 1));
    }

    /// An instance of a module that is not ours: its inputs, clocks and the widths of its outputs.
    #[track_caller]
    pub fn black_box(
        &self,
        module: &str,
        params: &[(&str, &str)],
        clocks: &[(&str, DomainId)],
        inputs: &[(&str, Sig)],
        outputs: &[(&str, u32)],
    ) -> Vec<Sig> {
        self.black_box_with(module, &[], params, clocks, inputs, outputs)
    }

    /// A [black box](Self::black_box) with attributes, which are strings: tools read some settings of a cell there.
    /// They are printed in their order, as `(* NAME = "value" *)` before the instance.
    ///
    /// # Panics
    /// If an attribute's name is no Verilog identifier.
    #[track_caller]
    pub fn black_box_with(
        &self,
        module: &str,
        attributes: &[(&str, &str)],
        params: &[(&str, &str)],
        clocks: &[(&str, DomainId)],
        inputs: &[(&str, Sig)],
        outputs: &[(&str, u32)],
    ) -> Vec<Sig> {
        let loc = Location::caller();
        self.check_open(loc);
        for (name, _) in attributes {
            assert!(
                is_identifier(name),
                "{loc}: the attribute `{name}` of `{module}` must be named by a Verilog identifier"
            );
        }
        let owned =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let made = with(|d| {
            let name = d.unique(&self.label.clone().unwrap_or_else(|| module.to_lowercase()));
            let index = d.net.boxes.len() as u32;
            let scope = d.scope();
            let mut pins = Vec::new();
            for (i, (pin, width)) in outputs.iter().enumerate() {
                let op = Op::BlackBox(index, i as u32);
                let label = Some(format!("{name}_{pin}"));
                let id = d.push(Node { op, width: *width, scope, loc, name: label, weak: true });
                pins.push((pin.to_string(), id));
            }
            let mut wired = Vec::new();
            for (pin, sig) in inputs {
                wired.push((pin.to_string(), d.resolve(*sig, loc)?));
            }
            let sigs = pins.iter().map(|(_, id)| d.sig(*id)).collect();
            d.net.boxes.push(BlackBox {
                module: module.into(),
                name,
                scope,
                loc,
                attributes: owned(attributes),
                params: owned(params),
                inputs: wired,
                clocks: clocks.iter().map(|(p, c)| (p.to_string(), c.0)).collect(),
                outputs: pins,
            });
            Ok::<Vec<Sig>, String>(sigs)
        });
        made.unwrap_or_else(|message| panic!("{message}"))
    }
}

/// A module being filled; what `#[module]` expands to.
#[doc(hidden)]
pub struct Instance {
    parent: ScopeId,
    scope: Scope,
    loc: Loc,
    /// Registers that were there before.
    first_reg: usize,
}

impl Instance {
    /// Opens a module below the one that is open.
    pub fn enter(m: &Scope, module: &str, loc: Loc) -> Instance {
        m.check_open(loc);
        let (id, first_reg) = with(|d| {
            let base = match &m.label {
                Some(label) => format!("{label}_{module}"),
                None => module.to_string(),
            };
            let instance = d.unique(&base);
            let (module, parent) = (module.to_string(), Some(m.id));
            d.net.scopes.push(ScopeInfo { module, instance, parent, loc });
            let id = d.net.scopes.len() as ScopeId - 1;
            d.scopes.push(id);
            d.blocks.push(vec![Block::default()]);
            (id, d.net.regs.len())
        });
        Instance { parent: m.id, scope: Scope { id, label: None }, loc, first_reg }
    }

    /// The scope inside.
    pub fn scope(&self) -> Scope {
        self.scope.clone()
    }

    /// Takes an argument in.
    pub fn input<T: Interface>(&self, name: &str, value: T) -> T {
        value.cross(&mut Crossing { from: self.parent, to: self.scope.id, loc: self.loc }, name)
    }

    /// Closes the module and takes its results out.
    pub fn finish<T: Interface>(self, result: T, names: &str) -> T {
        with(|d| {
            d.restart(self.first_reg, self.loc);
            d.scopes.pop();
            d.blocks.pop();
        });
        result.cross(&mut Crossing { from: self.scope.id, to: self.parent, loc: self.loc }, names)
    }
}

/// Whether tools take it as a name without escaping it (IEEE 1364-2005 3.7).
fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Opens a design, runs `body`, checks the result.
///
/// # Errors
/// Everything that the checks find, one message each: undriven or never-read signals, wires that are not assigned on
/// every path, combinational loops, unguarded clock crossings.
///
/// # Panics
/// Misuse that has a place in the source (widths, signals of another module) panics there.
#[track_caller]
pub fn build(top: &str, body: impl FnOnce(&Scope)) -> Result<crate::Netlist, crate::BuildErrors> {
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            crate::design::close();
        }
    }
    crate::design::open(top, Location::caller());
    let guard = Guard;
    body(&Scope { id: 0, label: None });
    let design = crate::design::close().expect("the design that was opened");
    std::mem::forget(guard);
    let errors = crate::check::check(&design);
    if errors.is_empty() {
        Ok(design.net)
    } else {
        Err(crate::BuildErrors(errors))
    }
}
