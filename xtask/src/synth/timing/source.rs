// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which block and which line a net of a flat netlist comes from.
//!
//! Yosys joins the names of the instances and of the signal by dots. `autoname` names a net that has no name: it takes the name of a
//! neighbour, and appends the cells and pins between the two, in capitals. No name of ours has capitals. The Verilog says where each
//! signal was declared.

use std::collections::HashMap;

/// The modules of the generated Verilog.
#[derive(Default)]
pub struct Sources {
    top: String,
    modules: HashMap<String, Module>,
}

#[derive(Default)]
struct Module {
    /// Where the module is described.
    line: String,
    signals: HashMap<String, String>,
    /// Rows and bits of memories.
    memories: HashMap<String, (u64, u64)>,
    /// Modules by names of instances.
    instances: HashMap<String, String>,
}

/// A net's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<'s> {
    /// Instances from the top down, joined by dots; empty in the top.
    pub block: String,
    pub signal: String,
    /// File and line; empty where they are not known.
    pub line: &'s str,
    /// Rows and bits, if it is a memory.
    pub memory: Option<(u64, u64)>,
}

impl Sources {
    /// Of all files of a design.
    pub fn read<'v>(top: &str, verilog: impl IntoIterator<Item = &'v str>) -> Sources {
        let mut sources = Sources { top: top.into(), modules: HashMap::new() };
        verilog.into_iter().for_each(|text| sources.file(text));
        sources
    }

    fn file(&mut self, text: &str) {
        let mut comment = "";
        let mut module: Option<(&str, Module)> = None;
        // A declaration whose end, with its comment, comes on a line further down.
        let mut open: Option<&str> = None;
        for line in text.lines() {
            let (code, said) = match line.split_once("//") {
                Some((code, said)) => (code.trim(), said.trim()),
                None => (line.trim(), ""),
            };
            let words: Vec<&str> = code.split_whitespace().collect();
            match (&mut module, &words[..]) {
                (_, ["module", name, "("]) => {
                    module = Some((name, Module { line: comment.into(), ..Module::default() }));
                }
                (_, ["endmodule"]) => {
                    if let Some((name, module)) = module.take() {
                        self.modules.insert(name.into(), module);
                    }
                }
                (None, _) if !said.is_empty() => comment = said,
                (Some((_, module)), [of, name, "("]) if !of.ends_with(')') => {
                    module.instances.insert((*name).into(), (*of).into());
                }
                (Some((_, module)), _) => {
                    if let Some((name, size)) = memory(&words) {
                        module.memories.insert(name.into(), size);
                    }
                    open = declared(&words).or(open);
                    let Some(name) = open.filter(|_| code.ends_with(';')) else { continue };
                    open = None;
                    if !said.is_empty() {
                        module.signals.insert(name.into(), said.into());
                    }
                }
                (None, _) => {}
            }
        }
    }

    /// Block and signal of a net, joined by a dot.
    pub fn signal(&self, net: &str) -> String {
        let place = self.place(net);
        if place.block.is_empty() {
            place.signal
        } else {
            format!("{}.{}", place.block, place.signal)
        }
    }

    /// A net's place.
    pub fn place(&self, net: &str) -> Place<'_> {
        let mut module = self.modules.get(&self.top);
        let mut rest = net.split('[').next().unwrap_or(net);
        let mut block = String::new();
        while let Some((name, inner)) = rest.split_once('.') {
            let Some(of) = module.and_then(|module| module.instances.get(name)) else { break };
            if !block.is_empty() {
                block.push('.');
            }
            block += name;
            (module, rest) = (self.modules.get(of), inner);
        }
        let signal = plain(rest.split('.').next().unwrap_or(rest));
        let line = module.map_or("", |module| module.signals.get(signal).unwrap_or(&module.line));
        let memory = module.and_then(|module| module.memories.get(signal)).copied();
        Place { block, signal: signal.into(), line, memory }
    }
}

/// The name that a line declares.
fn declared<'l>(words: &[&'l str]) -> Option<&'l str> {
    let rest = match words {
        ["wire" | "reg", rest @ ..] => rest,
        _ => return None,
    };
    let name = rest.iter().find(|word| !word.starts_with('[') && **word != "signed")?;
    Some(name.trim_end_matches(';'))
}

/// The memory that a line declares, its rows and bits: `reg [71:0] store [0:1023];`.
fn memory<'l>(words: &[&'l str]) -> Option<(&'l str, (u64, u64))> {
    let (bits, name, rows) = match words {
        ["reg", bits, name, rows] => (bits.strip_prefix('[')?.strip_suffix(":0]")?.parse().ok()?, name, rows),
        ["reg", name, rows] => (0, name, rows),
        _ => return None,
    };
    let rows: u64 = rows.strip_prefix("[0:")?.strip_suffix("];")?.parse().ok()?;
    Some((name, (rows + 1, bits + 1)))
}

/// A name without what `autoname` has appended.
fn plain(name: &str) -> &str {
    let mut end = 0;
    for part in name.split('_') {
        if end > 0 && part.starts_with(|c: char| c.is_ascii_uppercase()) {
            break;
        }
        end += part.len() + usize::from(end > 0);
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERILOG: &str = "\
// SPDX-License-Identifier: MIT OR Apache-2.0
// hdl/src/top.rs:10
module top (
    input  wire clk,
    output wire out
);
    wire a; // hdl/src/top.rs:12
    inner first (
        .clk(clk)
    );
    wire [9:0] at = a ? 1 :
        2; // hdl/src/top.rs:14
    always @(posedge clk) begin
        if (a) begin
        end
    end
endmodule
// SPDX-License-Identifier: MIT OR Apache-2.0
// hdl/src/inner.rs:5
module inner (
    input  wire clk
);
    reg  [63:0] store [0:511]; // hdl/src/inner.rs:7
    reg  held_1; // hdl/src/inner.rs:8
endmodule
";

    #[test]
    fn a_net_has_its_block_its_signal_and_the_line_that_declares_it() {
        let sources = Sources::read("top", [VERILOG]);
        let place = |net: &str| {
            let Place { block, signal, line, .. } = sources.place(net);
            format!("{block}|{signal}|{line}")
        };
        for (net, wanted) in [
            ("a", "|a|hdl/src/top.rs:12"),
            ("at[3]", "|at|hdl/src/top.rs:14"),
            ("clk", "|clk|hdl/src/top.rs:10"),
            ("first.held_1_LUT6_I2_O_LUT5_I0_O[4]", "first|held_1|hdl/src/inner.rs:8"),
            ("first.store.0.1_DOUTADOUT[7]", "first|store|hdl/src/inner.rs:7"),
            ("first.novel", "first|novel|hdl/src/inner.rs:5"),
        ] {
            assert_eq!(place(net), wanted, "{net}");
        }
        assert_eq!(Sources::default().place("a.b_Q[1]").line, "");
        assert_eq!(sources.place("first.store.0.1").memory, Some((512, 64)));
        assert_eq!(sources.place("first.held_1").memory, None);
    }
}
