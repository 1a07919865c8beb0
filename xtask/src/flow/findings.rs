// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a log of Yosys must not say.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Names of the memories that the design wants as block RAM.
pub fn block_memories(rtl: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(rtl).with_context(|| format!("reading {}", rtl.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "v") {
            names.extend(block_memories_of(&fs::read_to_string(&path)?));
        }
    }
    Ok(names)
}

fn block_memories_of(verilog: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = verilog.lines();
    while let Some(line) = lines.next() {
        if line.contains("ram_style = \"block\"") || line.contains("ram_style = \"ultra\"") {
            let declared = lines.next().and_then(|l| l.split(" [0:").next());
            found.extend(declared.and_then(|l| l.split_whitespace().last()).map(String::from));
        }
    }
    found
}

/// What must not be in a log of Yosys: warnings, latches, and block memories made of flip-flops. It refuses by itself
/// to make them of anything else.
pub fn of(log: &str, block: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for line in log.lines().filter(|l| !l.starts_with("ABC: ") && !library(l)) {
        let in_flops = line.trim().strip_prefix("using FF mapping for memory ");
        let lost = in_flops.filter(|memory| block.contains(memory.rsplit('.').next().unwrap_or(memory)));
        if let Some(memory) = lost {
            found.push(format!("{memory}: wanted as block RAM, became flip-flops"));
        } else if line.contains("Warning: ") || line.starts_with("Latch inferred") {
            found.push(line.trim().to_string());
        }
    }
    found.dedup();
    found
}

/// A warning about Yosys's own library, whose maps to RAMB18E2 and URAM288 give the ports other widths than its models of the cells,
/// for every such RAM. No port of ours is in capitals.
fn library(line: &str) -> bool {
    const PORTS: [&str; 13] = [
        "ADDRARDADDR",
        "ADDRBWRADDR",
        "BWE_A",
        "DINADIN",
        "DINBDIN",
        "DINPADINP",
        "DINPBDINP",
        "DOUTADOUT",
        "DOUTBDOUT",
        "DOUTPADOUTP",
        "DOUTPBDOUTP",
        "WEA",
        "WEBWE",
    ];
    let port = line.trim().strip_prefix("Warning: Resizing cell port ").and_then(|l| l.split(' ').next());
    port.and_then(|p| p.rsplit('.').next()).is_some_and(|p| PORTS.contains(&p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_latches_and_lost_memories_are_findings() {
        let block = BTreeSet::from(["store".to_string()]);
        let log = "Warnings: 1 unique messages, 1 total\n\
            ABC: Warning: The network is combinational.\n\
            Warning: Resizing cell port top.a.store.0.1.ADDRBWRADDR from 16 bits to 14 bits.\n\
            rtl/a.v:3: Warning: wire is used but has no driver.\n\
            using FF mapping for memory top.a.store\n\
            using FF mapping for memory top.a.small\n";
        let found = of(log, &block);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("rtl/a.v:3") && found[1].starts_with("top.a.store: wanted as block RAM")
        );
    }

    #[test]
    fn block_memories_are_found_in_the_verilog() {
        let text = "    (* ram_style = \"block\", no_rw_check *)\n    reg [63:0] store [0:511]; // a.rs:1\n\
                    \x20   (* ram_style = \"distributed\" *)\n    reg [1:0] small [0:15]; // a.rs:2\n";
        assert_eq!(block_memories_of(text), ["store"]);
    }
}
