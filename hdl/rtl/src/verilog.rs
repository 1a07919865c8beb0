// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints a netlist as Verilog-2005 that a person can read: one module a distinct definition, names from the source,
//! the source's place behind each declaration.

use crate::bits::words;
use crate::eval;
use crate::netlist::*;
use crate::Bits;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

/// Inline expressions longer than this get a wire of their own.
const LINE: usize = 90;

impl Netlist {
    /// The whole design as one text, children before their parents.
    pub fn verilog(&self) -> String {
        let modules: Vec<String> = self.verilog_modules().into_iter().map(|(_, text)| text).collect();
        modules.join("\n")
    }

    /// Each distinct module: its name and its text, children before their parents, the top last.
    pub fn verilog_modules(&self) -> Vec<(String, String)> {
        let (modules, _) = self.print();
        modules
    }

    /// The modules, and for each scope the module that it is an instance of.
    pub(crate) fn print(&self) -> (Vec<(String, String)>, Vec<String>) {
        let live = self.live();
        let usage = self.usage(&live);
        let mut by_scope: Vec<Vec<NodeId>> = vec![Vec::new(); self.scopes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            if live[id] {
                by_scope[node.scope as usize].push(id as NodeId);
            }
        }
        let mut names: Vec<String> = vec![String::new(); self.scopes.len()];
        let mut known: HashMap<(String, String), String> = HashMap::new();
        let mut taken: HashSet<String> = HashSet::new();
        // The top and modules that are not ours keep their names whatever its children are called.
        taken.insert(self.scopes[0].module.clone());
        taken.extend(self.boxes.iter().map(|b| b.module.clone()));
        taken.extend(KEYWORDS.iter().map(|k| k.to_string()));
        let mut modules = Vec::new();
        for scope in (0..self.scopes.len()).rev() {
            let base = self.scopes[scope].module.clone();
            let body = Printer::new(self, scope as ScopeId, &by_scope, &names, &usage).module();
            let key = (base.clone(), body);
            if let Some(name) = known.get(&key) {
                names[scope] = name.clone();
                continue;
            }
            let mut name = base.clone();
            let mut n = 1;
            while scope != 0 && !taken.insert(name.clone()) {
                name = format!("{base}_{n}");
                n += 1;
            }
            let loc = self.scopes[scope].loc;
            let comment = format!("// {}:{}\n", loc.file(), loc.line());
            modules.push((name.clone(), format!("{comment}module {name} {}", key.1)));
            known.insert(key, name.clone());
            names[scope] = name;
        }
        (modules, names)
    }

    /// Which nodes are printed: all that something visible depends on, and every module's outputs.
    pub(crate) fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.nodes.len()];
        let mut work: Vec<NodeId> = self.outputs.iter().map(|(_, id)| *id).collect();
        work.extend(&self.inputs);
        work.extend(self.properties.iter().map(|p| p.cond));
        work.extend(self.boxes.iter().flat_map(|b| b.inputs.iter().chain(&b.outputs).map(|(_, id)| *id)));
        for (id, node) in self.nodes.iter().enumerate() {
            if let Op::Port(source, _) = &node.op {
                if self.scopes[self.nodes[*source as usize].scope as usize].parent == Some(node.scope) {
                    work.push(id as NodeId);
                }
            }
        }
        let mut mems = vec![false; self.mems.len()];
        while let Some(id) = work.pop() {
            if std::mem::replace(&mut live[id as usize], true) {
                continue;
            }
            let op = &self.nodes[id as usize].op;
            op.operands(&mut |n| work.push(n));
            let assigns: &[Assign] = match op {
                Op::Reg(r) => &self.regs[*r as usize].assigns,
                Op::Wire(w) => &self.wires[*w as usize].assigns,
                Op::MemRead(mem, port) => {
                    let mem_index = *mem as usize;
                    let read = &self.mems[mem_index].reads[*port as usize];
                    work.push(read.addr);
                    if read.clocked {
                        work.push(read.en);
                    }
                    if !std::mem::replace(&mut mems[mem_index], true) {
                        for w in &self.mems[mem_index].writes {
                            work.extend([w.en, w.addr, w.data]);
                            work.extend(w.lanes.iter().map(|(l, _)| *l));
                        }
                    }
                    &[]
                }
                _ => &[],
            };
            for (cond, value) in assigns {
                work.extend(cond);
                work.push(*value);
            }
        }
        live
    }
}

impl Netlist {
    /// Verilog modules that stand in for the black boxes, their outputs zero, for simulation and lint.
    pub fn black_box_stubs(&self) -> String {
        let mut units: BTreeMap<&str, Vec<&BlackBox>> = BTreeMap::new();
        for unit in &self.boxes {
            units.entry(&unit.module).or_default().push(unit);
        }
        let mut text = String::new();
        for (module, instances) in units {
            // Instances may differ in parameters and widths: each name once, with its greatest width.
            let mut pins: BTreeMap<&str, (bool, u32)> = BTreeMap::new();
            let mut params: BTreeMap<&str, &str> = BTreeMap::new();
            for unit in instances {
                params.extend(unit.params.iter().map(|(k, v)| (k.as_str(), v.as_str())));
                let clocks = unit.clocks.iter().map(|(pin, _)| (pin, true, 1));
                let width = |id: &NodeId| self.nodes[*id as usize].width;
                let inputs = unit.inputs.iter().map(|(pin, id)| (pin, true, width(id)));
                let outputs = unit.outputs.iter().map(|(pin, id)| (pin, false, width(id)));
                for (pin, input, width) in clocks.chain(inputs).chain(outputs) {
                    let known = pins.entry(pin).or_insert((input, width));
                    known.1 = known.1.max(width);
                }
            }
            let params: Vec<String> = params.iter().map(|(k, v)| format!("parameter {k} = {v}")).collect();
            let head = if params.is_empty() { String::new() } else { format!(" #({})", params.join(", ")) };
            let ports: Vec<String> = pins
                .iter()
                .map(|(pin, (input, width))| {
                    format!("{} wire {}{pin}", if *input { "input " } else { "output" }, range(*width))
                })
                .collect();
            let _ = writeln!(text, "/* verilator lint_off UNUSED */");
            let _ = writeln!(text, "module {module}{head} (\n    {}\n);", ports.join(",\n    "));
            for (pin, (_, width)) in pins.iter().filter(|(_, (input, _))| !input) {
                let _ = writeln!(text, "    assign {pin} = {};", literal(&Bits::zero(*width)));
            }
            let _ = writeln!(text, "endmodule\n/* verilator lint_on UNUSED */");
        }
        text
    }
}

struct Printer<'a> {
    net: &'a Netlist,
    scope: ScopeId,
    nodes: &'a [NodeId],
    modules: &'a [String],
    /// Names of the nodes that have a declaration.
    names: HashMap<NodeId, String>,
    taken: HashSet<String>,
    uses: HashMap<NodeId, u32>,
    /// Bits read outside properties, of declared nodes.
    read: HashMap<NodeId, Vec<(u32, u32)>>,
    /// Named constants: enum and variant, width and value, with their names here.
    constants: BTreeMap<(String, u32, String), String>,
    counting: bool,
    /// Nodes that are output ports themselves.
    as_port: HashSet<NodeId>,
    /// An expression is only tried: nothing of it is noted.
    trying: bool,
    by_scope: &'a [Vec<NodeId>],
    usage: &'a [Usage],
}

/// Words that no name can be.
#[rustfmt::skip]
pub(crate) const KEYWORDS: &[&str] = &[
    "accept_on", "alias", "always", "always_comb", "always_ff", "always_latch", "and", "assert", "assign",
    "assume", "automatic", "before", "begin", "bind", "bins", "binsof", "bit", "break", "buf", "bufif0",
    "bufif1", "byte", "case", "casex", "casez", "cell", "chandle", "checker", "class", "clocking", "cmos",
    "config", "const", "constraint", "context", "continue", "cover", "covergroup", "coverpoint", "cross",
    "deassign", "default", "defparam", "design", "disable", "dist", "do", "edge", "else", "end", "endcase",
    "endchecker", "endclass", "endclocking", "endconfig", "endfunction", "endgenerate", "endgroup",
    "endinterface", "endmodule", "endpackage", "endprimitive", "endprogram", "endproperty", "endspecify",
    "endsequence", "endtable", "endtask", "enum", "event", "eventually", "expect", "export", "extends",
    "extern", "final", "first_match", "for", "force", "foreach", "forever", "fork", "forkjoin", "function",
    "generate", "genvar", "global", "highz0", "highz1", "if", "iff", "ifnone", "ignore_bins",
    "illegal_bins", "implements", "implies", "import", "incdir", "include", "initial", "inout", "input",
    "inside", "instance", "int", "integer", "interconnect", "interface", "intersect", "join", "join_any",
    "join_none", "large", "let", "liblist", "library", "local", "localparam", "logic", "longint",
    "macromodule", "matches", "medium", "modport", "module", "nand", "negedge", "nettype", "new",
    "nexttime", "nmos", "nor", "noshowcancelled", "not", "notif0", "notif1", "null", "or", "output",
    "package", "packed", "parameter", "pmos", "posedge", "primitive", "priority", "program", "property",
    "protected", "pull0", "pull1", "pulldown", "pullup", "pulsestyle_ondetect", "pulsestyle_onevent",
    "pure", "rand", "randc", "randcase", "randsequence", "rcmos", "real", "realtime", "ref", "reg",
    "reject_on", "release", "repeat", "restrict", "return", "rnmos", "rpmos", "rtran", "rtranif0",
    "rtranif1", "s_always", "s_eventually", "s_nexttime", "s_until", "s_until_with", "scalared", "sequence",
    "shortint", "shortreal", "showcancelled", "signed", "small", "soft", "solve", "specify", "specparam",
    "static", "string", "strong", "strong0", "strong1", "struct", "super", "supply0", "supply1",
    "sync_accept_on", "sync_reject_on", "table", "tagged", "task", "this", "throughout", "time",
    "timeprecision", "timeunit", "tran", "tranif0", "tranif1", "tri", "tri0", "tri1", "triand", "trior",
    "trireg", "type", "typedef", "union", "unique", "unique0", "unsigned", "until", "until_with", "untyped",
    "use", "uwire", "var", "vectored", "virtual", "void", "wait", "wait_order", "wand", "weak", "weak0",
    "weak1", "while", "wildcard", "wire", "with", "within", "wor", "xnor", "xor",
];

impl<'a> Printer<'a> {
    fn new(
        net: &'a Netlist,
        scope: ScopeId,
        by_scope: &'a [Vec<NodeId>],
        modules: &'a [String],
        usage: &'a [Usage],
    ) -> Self {
        Printer {
            net,
            scope,
            nodes: &by_scope[scope as usize],
            modules,
            names: HashMap::new(),
            taken: KEYWORDS.iter().map(|k| k.to_string()).collect(),
            uses: HashMap::new(),
            read: HashMap::new(),
            constants: BTreeMap::new(),
            counting: true,
            as_port: HashSet::new(),
            trying: false,
            by_scope,
            usage,
        }
    }

    fn node(&self, id: NodeId) -> &'a Node {
        &self.net.nodes[id as usize]
    }

    fn claim(&mut self, base: &str) -> String {
        let clean: String =
            base.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
        let clean = if clean.starts_with(|c: char| c.is_ascii_digit()) { format!("n{clean}") } else { clean };
        let mut name = clean.clone();
        let mut n = 1;
        while !self.taken.insert(name.clone()) {
            name = format!("{clean}_{n}");
            n += 1;
        }
        name
    }

    fn declare(&mut self, id: NodeId, base: &str) {
        let name = self.claim(base);
        self.names.insert(id, name);
    }

    /// Whether it is declared as a `reg`.
    fn is_reg(&self, id: NodeId) -> bool {
        match &self.node(id).op {
            Op::Reg(_) => true,
            Op::MemRead(mem, port) => self.net.mems[*mem as usize].reads[*port as usize].clocked,
            _ => false,
        }
    }

    /// Where a node comes from; what came through the module's boundary does so from wherever the module is used.
    fn place(&self, loc: &std::panic::Location<'_>) -> String {
        match *loc == *self.net.scopes[self.scope as usize].loc && self.scope != 0 {
            true => String::new(),
            false => format!(" // {}:{}", loc.file(), loc.line()),
        }
    }

    fn source(&self, id: NodeId) -> Option<(&'a str, NodeId, bool)> {
        match &self.node(id).op {
            Op::Port(source, port) => {
                let inward = self.net.scopes[self.scope as usize].parent == Some(self.node(*source).scope);
                Some((port, *source, inward))
            }
            _ => None,
        }
    }

    /// The nodes of other modules that read one of this module, as outputs: port name and our node.
    fn outputs(&self) -> Vec<(String, NodeId)> {
        if self.scope == 0 {
            return self.net.outputs.clone();
        }
        let parent = self.net.scopes[self.scope as usize].parent.expect("only the top has none");
        let mut outputs = Vec::new();
        for id in &self.by_scope[parent as usize] {
            if let Op::Port(source, port) = &self.net.nodes[*id as usize].op {
                if self.net.nodes[*source as usize].scope == self.scope {
                    outputs.push((port.clone(), *source));
                }
            }
        }
        outputs
    }

    fn module(mut self) -> String {
        let mut text = String::new();
        let net = self.net;
        let domains: Vec<(DomainId, (bool, bool))> = (0..net.domains.len() as DomainId)
            .map(|d| (d, self.usage[self.scope as usize].ports(d)))
            .filter(|(_, used)| used.0 || used.1)
            .collect();
        let outputs = self.outputs();
        let mut ports: Vec<String> = Vec::new();
        for (id, (clock, reset)) in &domains {
            let domain = &net.domains[*id as usize];
            for (name, used) in [(&domain.clock, clock), (&domain.reset, reset)] {
                if *used {
                    self.taken.insert(name.clone());
                    ports.push(format!("input  wire {name}"));
                }
            }
        }
        let inputs: Vec<NodeId> = self
            .nodes
            .iter()
            .copied()
            .filter(|id| matches!(self.node(*id).op, Op::Input(_)) || self.source(*id).is_some_and(|s| s.2))
            .collect();
        for id in &inputs {
            let base = match self.source(*id) {
                Some((port, ..)) => port.to_string(),
                None => self.node(*id).name.clone().unwrap_or_default(),
            };
            self.declare(*id, &base);
            let way = if net.inouts.contains(id) { "inout " } else { "input " };
            ports.push(format!("{way} wire {}{}", range(self.node(*id).width), self.names[id]));
        }
        let mut driven = Vec::new();
        for (port, id) in &outputs {
            let node = self.node(*id);
            let name = self.claim(port);
            // A signal called like its port is the port.
            let same = node.name.as_deref() == Some(port)
                && match node.op {
                    Op::Const(..) => false,
                    Op::Reg(r) => !self.net.regs[r as usize].crossing,
                    _ => true,
                };
            let kind = if same && !self.names.contains_key(id) {
                self.names.insert(*id, name.clone());
                self.as_port.insert(*id);
                self.note(*id, 0, node.width);
                if self.is_reg(*id) {
                    "reg "
                } else {
                    "wire"
                }
            } else {
                driven.push((name.clone(), *id));
                "wire"
            };
            ports.push(format!("output {kind} {}{name}", range(node.width)));
        }
        let list = ports.join(",\n    ");
        let _ = writeln!(text, "(\n    {list}\n);");

        self.choose_names(&outputs);
        self.declarations(&mut text);
        let mut body = String::new();
        self.expressions(&mut body);
        self.wires(&mut body);
        self.registers(&mut body);
        self.memories(&mut body);
        self.instances(&mut body);
        self.boxes(&mut body);
        for (name, id) in driven {
            let value = self.value(id);
            let _ = writeln!(body, "    assign {name} = {value};");
        }
        self.properties(&mut body);
        self.unused(&mut body);
        for ((_, width, value), name) in &self.constants {
            let _ = writeln!(text, "    localparam {}{name} = {value};", range(*width));
        }
        text.push_str(&body);
        text.push_str("endmodule\n");
        text
    }

    /// Decides which nodes get a declaration.
    fn choose_names(&mut self, outputs: &[(String, NodeId)]) {
        let mut sliced: HashSet<NodeId> = HashSet::new();
        let mut uses: HashMap<NodeId, u32> = HashMap::new();
        let mut count = |id: NodeId| *uses.entry(id).or_insert(0) += 1;
        for id in self.nodes {
            let op = &self.net.nodes[*id as usize].op;
            if !matches!(op, Op::Port(..)) {
                op.operands(&mut count);
            }
            match op {
                Op::Slice(a, _) => {
                    sliced.insert(*a);
                }
                Op::Reg(r) => self.net.regs[*r as usize].assigns.iter().for_each(|(c, v)| {
                    c.iter().for_each(|c| count(*c));
                    count(*v)
                }),
                Op::Wire(w) => self.net.wires[*w as usize].assigns.iter().for_each(|(c, v)| {
                    c.iter().for_each(|c| count(*c));
                    count(*v)
                }),
                _ => {}
            }
        }
        for mem in self.net.mems.iter().filter(|m| m.scope == self.scope) {
            for r in &mem.reads {
                [r.en, r.addr].into_iter().for_each(&mut count);
            }
            for w in &mem.writes {
                [w.en, w.addr, w.data].into_iter().for_each(&mut count);
                if let Some((lanes, _)) = w.lanes {
                    sliced.extend([w.data, lanes]);
                    count(lanes);
                }
            }
        }
        for property in self.net.properties.iter().filter(|p| p.scope == self.scope) {
            count(property.cond);
        }
        for (_, id) in outputs {
            count(*id);
        }
        for id in self.crossing_inputs().into_iter().map(|(_, _, id)| id) {
            count(id);
        }
        for unit in self.net.boxes.iter().filter(|b| b.scope == self.scope) {
            unit.inputs.iter().for_each(|(_, id)| count(*id));
        }
        self.uses = uses;
        // Names from the source first, so that they stay as written.
        for weak in [false, true] {
            for id in self.nodes {
                let node = self.node(*id);
                if self.names.contains_key(id) || matches!(node.op, Op::Const(..)) {
                    continue;
                }
                match (&node.name, node.weak == weak) {
                    (Some(name), true) => {
                        let state = matches!(
                            node.op,
                            Op::Reg(_) | Op::Wire(_) | Op::MemRead(..) | Op::BlackBox(..) | Op::Port(..)
                        );
                        let trivial = matches!(node.op, Op::Slice(..)) && !sliced.contains(id);
                        if state || !trivial {
                            self.declare(*id, name)
                        }
                    }
                    (None, false) if weak => {
                        let uses = self.uses.get(id).copied().unwrap_or(0);
                        let simple = match &node.op {
                            Op::Slice(..) => true,
                            Op::Unary(_, a) => self.names.contains_key(a),
                            _ => false,
                        };
                        let state = matches!(node.op, Op::Reg(_) | Op::Wire(_) | Op::Port(..));
                        if state || sliced.contains(id) || (uses > 1 && !simple) {
                            let base = format!("{}_{}", node.op.word(), node.loc.line());
                            self.declare(*id, &base);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// What children take from this module: child, port, our node.
    fn crossing_inputs(&self) -> Vec<(ScopeId, String, NodeId)> {
        let mut found = Vec::new();
        for (child, info) in self.net.scopes.iter().enumerate() {
            if info.parent != Some(self.scope) {
                continue;
            }
            for id in &self.by_scope[child] {
                if let Op::Port(source, port) = &self.net.nodes[*id as usize].op {
                    if self.net.nodes[*source as usize].scope == self.scope {
                        found.push((child as ScopeId, port.clone(), *source));
                    }
                }
            }
        }
        found
    }

    fn declarations(&mut self, text: &mut String) {
        for id in self.nodes {
            let node = self.node(*id);
            let Some(name) = self.names.get(id).filter(|_| !self.as_port.contains(id)) else { continue };
            let kind = match &node.op {
                Op::Reg(r) if self.net.regs[*r as usize].crossing => "(* async_reg = \"true\" *) reg ",
                _ if self.is_reg(*id) => "reg ",
                Op::MemRead(..) | Op::Wire(_) | Op::BlackBox(..) => "wire",
                Op::Port(..) if !self.source(*id).is_some_and(|s| s.2) => "wire",
                _ => continue,
            };
            let _ = writeln!(text, "    {kind} {}{name};{}", range(node.width), self.place(node.loc));
        }
    }

    fn expressions(&mut self, text: &mut String) {
        for id in self.nodes {
            let node = self.node(*id);
            let free = matches!(
                node.op,
                Op::Const(..)
                    | Op::Input(_)
                    | Op::Port(..)
                    | Op::Reg(_)
                    | Op::Wire(_)
                    | Op::MemRead(..)
                    | Op::BlackBox(..)
            );
            if free {
                continue;
            }
            if let Some(name) = self.names.get(id).cloned() {
                let value = self.expression(*id);
                let value = value.replace(" :\n", " :\n        ");
                let head = match self.as_port.contains(id) {
                    true => "assign ".to_string(),
                    false => format!("wire {}", range(node.width)),
                };
                let _ = writeln!(text, "    {head}{name} = {value};{}", self.place(node.loc));
            } else {
                // An expression that would grow too long on its reader's line gets a wire after all.
                self.trying = true;
                let long = self.expression(*id).len() > LINE;
                self.trying = false;
                if long && self.uses.get(id).copied().unwrap_or(0) > 0 {
                    let inline = self.expression(*id).replace(" :\n", " :\n        ");
                    let base = format!("{}_{}", node.op.word(), node.loc.line());
                    self.declare(*id, &base);
                    let name = &self.names[id];
                    let _ = writeln!(
                        text,
                        "    wire {}{name} = {inline};{}",
                        range(node.width),
                        self.place(node.loc)
                    );
                }
            }
        }
    }

    fn note(&mut self, id: NodeId, low: u32, width: u32) {
        if self.counting && !self.trying {
            self.read.entry(id).or_default().push((low, width));
        }
    }

    /// Some bits of a node that is declared or a constant.
    fn part(&mut self, id: NodeId, low: u32, width: u32) -> String {
        if let Op::Const(bits, _) = &self.node(id).op {
            let mut out = vec![0; words(width)];
            eval::slice(bits.words(), low, &mut out, width);
            return literal(&Bits::from_words(width, &out));
        }
        self.note(id, low, width);
        let name = &self.names[&id];
        match width == self.node(id).width {
            true => name.clone(),
            false => format!("{name}{}", select(low, width)),
        }
    }

    /// The node as an operand: a name, a constant, or an expression in brackets.
    fn atom(&mut self, id: NodeId) -> String {
        let node = self.node(id);
        if let Some(name) = self.names.get(&id).cloned() {
            self.note(id, 0, node.width);
            return name;
        }
        match &node.op {
            Op::Const(bits, label) => match label {
                Some((of, variant)) => {
                    let base = format!("{}_{}", screaming(of), screaming(variant));
                    let key = (base.clone(), node.width, literal(bits));
                    match self.constants.get(&key) {
                        Some(name) => name.clone(),
                        None if self.trying => base,
                        None => {
                            let name = self.claim(&base);
                            self.constants.insert(key, name.clone());
                            name
                        }
                    }
                }
                None => literal(bits),
            },
            Op::Slice(..) | Op::Cat(_) => self.expression(id),
            Op::Unary(..) => self.expression(id),
            _ => format!("({})", self.expression(id)),
        }
    }

    /// The node where nothing binds around it.
    fn value(&mut self, id: NodeId) -> String {
        let plain = self.names.contains_key(&id) || matches!(self.node(id).op, Op::Const(..));
        match plain {
            true => self.atom(id),
            false => self.expression(id).replace(" :\n", " :\n        "),
        }
    }

    fn expression(&mut self, id: NodeId) -> String {
        match &self.node(id).op {
            Op::Unary(op, a) => {
                let sign = match op {
                    Unary::Not => "~",
                    Unary::All => "&",
                    Unary::Any => "|",
                    Unary::Parity => "^",
                };
                match self.names.contains_key(a) || matches!(self.node(*a).op, Op::Slice(..)) {
                    true => format!("{sign}{}", self.atom(*a)),
                    false => format!("({sign}({}))", self.expression(*a)),
                }
            }
            Op::Binary(op, a, b) => {
                let (x, y) = (self.atom(*a), self.atom(*b));
                let sign = match op {
                    Binary::And => "&",
                    Binary::Or => "|",
                    Binary::Xor => "^",
                    Binary::Add => "+",
                    Binary::Sub => "-",
                    Binary::Eq => "==",
                    Binary::Ne => "!=",
                    Binary::Lt => "<",
                    Binary::Le => "<=",
                    Binary::Shl => "<<",
                    Binary::Shr => ">>",
                    Binary::Slt => return format!("$signed({x}) < $signed({y})"),
                    Binary::Mul => {
                        let (wa, wb) = (self.node(*a).width, self.node(*b).width);
                        return format!("{{{wb}'b0, {x}}} * {{{wa}'b0, {y}}}");
                    }
                };
                format!("{x} {sign} {y}")
            }
            Op::Mux(c, a, b) => {
                let (c, a) = (self.atom(*c), self.atom(*a));
                let chain = !self.names.contains_key(b) && matches!(self.node(*b).op, Op::Mux(..));
                match chain {
                    true => format!("{c} ? {a} :\n{}", self.expression(*b)),
                    false => format!("{c} ? {a} : {}", self.atom(*b)),
                }
            }
            Op::Slice(a, low) => self.part(*a, *low, self.node(id).width),
            Op::Cat(parts) => {
                let mut shown: Vec<(String, u32)> = Vec::new();
                for part in parts.iter().rev() {
                    let text = self.atom(*part);
                    match shown.last_mut() {
                        Some((last, n)) if *last == text => *n += 1,
                        _ => shown.push((text, 1)),
                    }
                }
                if let [(text, n)] = &shown[..] {
                    return if *n == 1 { format!("{{{text}}}") } else { format!("{{{n}{{{text}}}}}") };
                }
                let shown: Vec<String> = shown
                    .into_iter()
                    .map(|(text, n)| if n == 1 { text } else { format!("{{{n}{{{text}}}}}") })
                    .collect();
                format!("{{{}}}", shown.join(", "))
            }
            _ => self.atom(id),
        }
    }

    fn wires(&mut self, text: &mut String) {
        for id in self.nodes {
            let node = self.node(*id);
            let Op::Wire(index) = node.op else { continue };
            let assigns = &self.net.wires[index as usize].assigns;
            let mut lines = Vec::new();
            for (i, (cond, value)) in assigns.iter().enumerate().rev() {
                let last = cond.is_none() || i == 0;
                let value = if last { self.value(*value) } else { self.atom(*value) };
                match cond {
                    Some(cond) if i > 0 => lines.push(format!("{} ? {value} :", self.atom(*cond))),
                    _ => lines.push(value),
                }
            }
            let name = &self.names[id];
            let _ =
                writeln!(text, "    assign {name} = {};{}", lines.join("\n        "), self.place(node.loc));
        }
    }

    fn registers(&mut self, text: &mut String) {
        type Shape = (DomainId, bool, Vec<Option<NodeId>>);
        let mut groups: Vec<(Shape, Vec<NodeId>)> = Vec::new();
        for id in self.nodes {
            let Op::Reg(index) = self.node(*id).op else { continue };
            let reg = &self.net.regs[index as usize];
            let shape = (reg.domain, reg.reset.is_some(), reg.assigns.iter().map(|a| a.0).collect());
            match groups.last_mut() {
                Some((last, members)) if *last == shape => members.push(*id),
                _ => groups.push((shape, vec![*id])),
            }
        }
        for ((domain, reset, conds), members) in groups {
            let domain = &self.net.domains[domain as usize];
            let _ = writeln!(text, "    always @(posedge {}) begin", domain.clock);
            if !reset && conds == [None] {
                for id in &members {
                    let Op::Reg(index) = self.node(*id).op else { unreachable!("grouped registers") };
                    let value = self.value(self.net.regs[index as usize].assigns[0].1);
                    let _ = writeln!(text, "        {} <= {value};", self.names[id]);
                }
                text.push_str("    end\n");
                continue;
            }
            let mut first = true;
            let mut open = |text: &mut String, cond: Option<String>| {
                let word = match (first, cond) {
                    (true, Some(cond)) => format!("        if ({cond}) begin"),
                    (false, Some(cond)) => format!(" else if ({cond}) begin"),
                    (_, None) => " else begin".to_string(),
                };
                first = false;
                text.push_str(&word);
                text.push('\n');
            };
            let regs: Vec<(String, &Reg)> = members
                .iter()
                .map(|id| {
                    let Op::Reg(index) = self.node(*id).op else { unreachable!("grouped registers") };
                    (self.names[id].clone(), &self.net.regs[index as usize])
                })
                .collect();
            if reset {
                open(text, Some(domain.reset.clone()));
                for (name, reg) in &regs {
                    let value = literal(reg.reset.as_ref().expect("grouped by reset"));
                    let _ = writeln!(text, "            {name} <= {value};");
                }
                text.push_str("        end");
            }
            for (i, cond) in conds.iter().enumerate().rev() {
                let cond = cond.map(|c| self.value(c));
                open(text, cond);
                for (name, reg) in &regs {
                    let value = self.value(reg.assigns[i].1);
                    let _ = writeln!(text, "            {name} <= {value};");
                }
                text.push_str("        end");
            }
            text.push_str("\n    end\n");
        }
    }

    /// The initial contents of a memory: a loop for each run of equal words that is longer than a few.
    fn contents(&mut self, text: &mut String, name: &str, init: &[Bits], width: u32, depth: usize) {
        const FEW: usize = 4;
        let zero = Bits::zero(width);
        let word = |i: usize| init.get(i).unwrap_or(&zero);
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for i in 0..depth {
            match runs.last_mut() {
                Some((begin, end)) if word(*begin) == word(i) => *end = i + 1,
                _ => runs.push((i, i + 1)),
            }
        }
        let looped = |(begin, end): (usize, usize)| end - begin > FEW;
        let index = match runs.iter().any(|run| looped(*run)) {
            true => {
                let index = self.claim(&format!("{name}_at"));
                let _ = writeln!(text, "    integer {index};");
                index
            }
            false => String::new(),
        };
        let _ = writeln!(text, "    initial begin");
        for run in runs {
            let value = literal(word(run.0));
            if looped(run) {
                let (begin, end) = run;
                let _ = writeln!(
                    text,
                    "        for ({index} = {begin}; {index} < {end}; {index} = {index} + 1) {name}[{index}] = {value};"
                );
            } else {
                for i in run.0..run.1 {
                    let _ = writeln!(text, "        {name}[{i}] = {value};");
                }
            }
        }
        let _ = writeln!(text, "    end");
    }

    fn memories(&mut self, text: &mut String) {
        for mem in &self.net.mems {
            let read = mem.reads.iter().any(|r| self.names.contains_key(&r.node));
            if mem.scope != self.scope || !read {
                continue;
            }
            let name = self.claim(&mem.name);
            let mut attributes = Vec::new();
            match mem.built_as() {
                Style::Auto => {}
                Style::Block => attributes.push("ram_style = \"block\""),
                Style::Distributed => attributes.push("ram_style = \"distributed\""),
                Style::Ultra => attributes.push("ram_style = \"ultra\""),
            }
            let mut clocked =
                mem.reads.iter().filter(|r| r.clocked && self.names.contains_key(&r.node)).peekable();
            if clocked.peek().is_some() && clocked.all(|r| r.collision != Collision::Old) {
                attributes.push("no_rw_check");
            }
            if !attributes.is_empty() {
                let _ = writeln!(text, "    (* {} *)", attributes.join(", "));
            }
            let _ = writeln!(
                text,
                "    reg {}{name} [0:{}];{}",
                range(mem.width),
                mem.depth - 1,
                self.place(mem.loc)
            );
            if let Some(init) = &mem.init {
                self.contents(text, &name, init, mem.width, mem.depth as usize);
            }
            for w in &mem.writes {
                let clock = &self.net.domains[w.domain as usize].clock;
                let (en, addr) = (self.value(w.en), self.value(w.addr));
                let _ = writeln!(text, "    always @(posedge {clock}) begin");
                match w.lanes {
                    None => {
                        let data = self.value(w.data);
                        let _ = writeln!(text, "        {}{name}[{addr}] <= {data};", guard(&en));
                    }
                    Some((lanes, lane)) => {
                        let count = self.node(lanes).width;
                        let _ = writeln!(text, "        if ({en}) begin");
                        for i in 0..count {
                            let part = if count == 1 { String::new() } else { select(i * lane, lane) };
                            let (bit, data) = (self.part(lanes, i, 1), self.part(w.data, i * lane, lane));
                            if bit != "1'b0" {
                                let guard = guard(&bit);
                                let _ = writeln!(text, "            {guard}{name}[{addr}]{part} <= {data};");
                            }
                        }
                        let _ = writeln!(text, "        end");
                    }
                }
                let _ = writeln!(text, "    end");
            }
            for r in &mem.reads {
                let Some(q) = self.names.get(&r.node).cloned() else { continue };
                let addr = self.value(r.addr);
                if r.clocked {
                    let en = self.value(r.en);
                    let clock = &self.net.domains[r.domain as usize].clock;
                    let _ = writeln!(text, "    always @(posedge {clock}) begin");
                    let _ = writeln!(text, "        {}{q} <= {name}[{addr}];\n    end", guard(&en));
                } else {
                    let _ = writeln!(text, "    assign {q} = {name}[{addr}];");
                }
            }
        }
    }

    fn instances(&mut self, text: &mut String) {
        let inputs = self.crossing_inputs();
        for (child, info) in self.net.scopes.iter().enumerate() {
            if info.parent != Some(self.scope) {
                continue;
            }
            let mut pins = Vec::new();
            for (id, domain) in self.net.domains.iter().enumerate() {
                let (clock, reset) = self.usage[child].ports(id as DomainId);
                if clock {
                    pins.push(format!(".{0}({0})", domain.clock));
                }
                if reset {
                    pins.push(format!(".{0}({0})", domain.reset));
                }
            }
            for (_, port, id) in inputs.iter().filter(|(c, ..)| *c == child as ScopeId) {
                let value = self.value(*id);
                pins.push(format!(".{port}({value})"));
            }
            for id in self.nodes {
                if let Op::Port(source, port) = &self.node(*id).op {
                    if self.node(*source).scope == child as ScopeId {
                        pins.push(format!(".{port}({})", self.names[id]));
                    }
                }
            }
            let name = self.claim(&info.instance);
            let module = &self.modules[child];
            let pins = pins.join(",\n        ");
            let _ = writeln!(text, "    {module} {name} (\n        {pins}\n    );{}", self.place(info.loc));
        }
    }

    fn boxes(&mut self, text: &mut String) {
        let (net, scope) = (self.net, self.scope);
        for unit in net.boxes.iter().filter(|b| b.scope == scope) {
            let mut pins = Vec::new();
            for (pin, domain) in &unit.clocks {
                pins.push(format!(".{pin}({})", self.net.domains[*domain as usize].clock));
            }
            for (pin, id) in &unit.inputs {
                let value = self.value(*id);
                pins.push(format!(".{pin}({value})"));
            }
            for (pin, id) in &unit.outputs {
                pins.push(format!(".{pin}({})", self.names[id]));
            }
            let params: Vec<String> = unit.params.iter().map(|(k, v)| format!(".{k}({v})")).collect();
            let params = if params.is_empty() { String::new() } else { format!(" #({})", params.join(", ")) };
            let pins = pins.join(",\n        ");
            let name = self.claim(&unit.name);
            let attributes: Vec<String> =
                unit.attributes.iter().map(|(k, v)| format!("{k} = {}", quoted(v))).collect();
            if !attributes.is_empty() {
                let _ = writeln!(text, "    (* {} *)", attributes.join(", "));
            }
            let _ = writeln!(
                text,
                "    {}{params} {name} (\n        {pins}\n    );{}",
                unit.module,
                self.place(unit.loc)
            );
        }
    }

    fn properties(&mut self, text: &mut String) {
        let here: Vec<&Property> = self.net.properties.iter().filter(|p| p.scope == self.scope).collect();
        if here.is_empty() {
            return;
        }
        self.counting = false;
        let (mut formal, mut checked) = (String::new(), String::new());
        for property in here {
            let domain = &self.net.domains[property.domain as usize];
            let cond = self.atom(property.cond);
            let word = match property.kind {
                PropertyKind::Assert => "assert",
                PropertyKind::Assume => "assume",
                PropertyKind::Cover => "cover",
            };
            let at = format!("{}:{}", property.loc.file(), property.loc.line());
            let head = format!("    always @(posedge {}) if (!{}", domain.clock, domain.reset);
            let _ = writeln!(formal, "{head}) {word} ({cond}); // {at} {}", property.message);
            if property.kind != PropertyKind::Cover {
                let _ = writeln!(
                    checked,
                    "{head} && !({cond})) begin $display(\"%m: {} ({at})\"); $stop; end // {at}",
                    property.message.replace('"', "'")
                );
            }
        }
        self.counting = true;
        let _ = writeln!(text, "`ifdef FORMAL\n{formal}`elsif FERROWIRE_ASSERT\n{checked}`endif");
    }

    /// Names what nobody reads, so that lint tools know that it is on purpose.
    fn unused(&mut self, text: &mut String) {
        let mut ids: Vec<NodeId> = self.names.keys().copied().collect();
        ids.sort_unstable();
        let mut parts = Vec::new();
        for id in ids {
            let node = self.node(id);
            let mut seen = vec![false; node.width as usize];
            for (low, width) in self.read.get(&id).into_iter().flatten() {
                seen[*low as usize..(low + width) as usize].fill(true);
            }
            let name = &self.names[&id];
            let mut at = 0;
            while at < seen.len() {
                if seen[at] {
                    at += 1;
                    continue;
                }
                let end = (at..seen.len()).find(|i| seen[*i]).unwrap_or(seen.len());
                parts.push(match (at, end - at) {
                    (0, n) if n == seen.len() => name.clone(),
                    (at, 1) => format!("{name}[{at}]"),
                    (at, n) => format!("{name}[{}:{at}]", at + n - 1),
                });
                at = end;
            }
        }
        let usage = self.usage[self.scope as usize];
        for (id, domain) in self.net.domains.iter().enumerate() {
            for (name, read) in [(&domain.clock, usage.clocks), (&domain.reset, usage.resets)] {
                if (usage.checked & !read) >> id & 1 == 1 {
                    parts.push(name.clone());
                }
            }
        }
        if parts.is_empty() {
            return;
        }
        // A name with `unused` in it tells Verilator that nobody reads it either.
        let name = self.claim("_unused_ok");
        let _ = writeln!(text, "    wire {name} = &{{1'b0,\n        {}}};", parts.join(",\n        "));
    }
}

/// A string as Verilog has it (IEEE 1364-2005 3.6).
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        '\n' => "\\n".into(),
        '\t' => "\\t".into(),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

fn range(width: u32) -> String {
    match width {
        1 => String::new(),
        _ => format!("[{}:0] ", width - 1),
    }
}

/// What stands before a statement that runs where `en` holds.
fn guard(en: &str) -> String {
    match en {
        "1'b1" => String::new(),
        en => format!("if ({en}) "),
    }
}

/// A part select.
fn select(low: u32, width: u32) -> String {
    match width {
        1 => format!("[{low}]"),
        _ => format!("[{}:{low}]", low + width - 1),
    }
}

fn literal(bits: &Bits) -> String {
    match bits.width() {
        1 => format!("1'b{}", bits.to_u64()),
        width if width <= 8 => format!("{width}'d{}", bits.to_u64()),
        width => format!("{width}'h{bits:x}"),
    }
}

/// `RxParse` as `RX_PARSE`.
fn screaming(name: &str) -> String {
    let mut out = String::new();
    let mut small = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && small {
            out.push('_');
        }
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
        out.push(c.to_ascii_uppercase());
    }
    out
}
