// SPDX-License-Identifier: MIT OR Apache-2.0
//! The areas of `test --only`: each crate, and each module of the simulator's tests, belongs to one.

use super::programs::Program;

/// A part of the project that is tested alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Area {
    /// Wire headers, queue entries, registers
    Spec,
    /// The RTL builder, its Verilog, both simulators
    Rtl,
    /// Blocks of the card in the native simulator, lockstep with Verilator
    Hdl,
    /// RC, UC and UD over whole cards: order, loss, errors, congestion
    Transport,
    /// Registers, counters, commands, events, PCIe, AXI, reset, queue pairs that begin again
    Host,
    /// Cards on sockets, and the commands that use them; replay of captured frames
    Socket,
    /// The driver and its command, against cards in plain Rust
    Driver,
    /// IP stack and connection manager
    Net,
    /// Boards, MACs, memory controllers, the serial line
    Boards,
    /// Stock Linux in a guest
    Interop,
}

/// The simulator, whose tests are of many areas.
const SIM: &str = "ferrowire_sim";

/// Crates other than the simulator.
const CRATES: &[(&str, Area)] = &[
    ("ferrowire", Area::Driver),
    ("ferrowire_boards", Area::Boards),
    ("ferrowire_cards", Area::Driver),
    ("ferrowire_cli", Area::Driver),
    ("ferrowire_cmac", Area::Boards),
    ("ferrowire_ddr3", Area::Boards),
    ("ferrowire_dram", Area::Boards),
    ("ferrowire_hdl", Area::Hdl),
    ("ferrowire_loom", Area::Driver),
    ("ferrowire_mac", Area::Boards),
    ("ferrowire_net", Area::Net),
    ("ferrowire_parts", Area::Hdl),
    ("ferrowire_rtl", Area::Rtl),
    ("ferrowire_rtl_gen", Area::Hdl),
    ("ferrowire_rtl_macros", Area::Rtl),
    ("ferrowire_serial", Area::Boards),
    ("ferrowire_shell", Area::Boards),
    ("ferrowire_spec", Area::Spec),
    ("ferrowire_testing", Area::Hdl),
    ("ferrowire_verbs", Area::Driver),
    ("ferrowire_verilator", Area::Rtl),
    (EVIDENCE, Area::Rtl),
    ("xtask", Area::Boards),
];

/// Tests of another project's crate: no default member of the workspace, and of the full tier.
const EVIDENCE: &str = "rust_hdl_cases";

/// Modules of the simulator's tests.
const MODULES: &[(&str, Area)] = &[
    ("alveo", Area::Boards),
    ("axi", Area::Host),
    ("bench_wave", Area::Socket),
    ("board", Area::Boards),
    ("bring_up", Area::Host),
    ("card", Area::Host),
    ("classes", Area::Transport),
    ("cmac", Area::Boards),
    ("command", Area::Socket),
    ("configurations", Area::Socket),
    ("congestion", Area::Transport),
    ("counters", Area::Host),
    ("credits", Area::Transport),
    ("deep", Area::Transport),
    ("emulated", Area::Host),
    ("events", Area::Host),
    ("examples", Area::Socket),
    ("fairness", Area::Transport),
    ("functions", Area::Hdl),
    ("hostile", Area::Transport),
    ("large", Area::Transport),
    ("lives", Area::Host),
    ("lockstep", Area::Hdl),
    ("loopback", Area::Transport),
    ("loss", Area::Transport),
    ("mac", Area::Boards),
    ("malformed", Area::Transport),
    ("messages", Area::Transport),
    ("model", Area::Transport),
    ("net", Area::Net),
    ("pages", Area::Host),
    ("pause", Area::Transport),
    ("payload_errors", Area::Host),
    ("pcie", Area::Host),
    ("push", Area::Host),
    ("qp_events", Area::Host),
    ("quiet", Area::Transport),
    ("raw", Area::Net),
    ("rdma", Area::Net),
    ("reads", Area::Transport),
    ("replay", Area::Socket),
    ("replay_cli", Area::Socket),
    ("reset", Area::Host),
    ("resize", Area::Host),
    ("rtl_fuzz", Area::Rtl),
    ("rtl_language", Area::Rtl),
    ("rtl_ops", Area::Rtl),
    ("serial", Area::Boards),
    ("soak", Area::Transport),
    ("socket", Area::Socket),
    ("srq", Area::Transport),
    ("tier", Area::Transport),
    ("unreliable", Area::Transport),
    ("verbs", Area::Driver),
    ("windows", Area::Transport),
    ("write", Area::Transport),
];

impl Area {
    /// Which one a program belongs to; the simulator's own unit tests are of the transport, of which the reference engine is the largest part.
    pub fn of(program: &Program) -> Area {
        let (table, name) = match (program.package(), program.module()) {
            (SIM, Some(module)) => (MODULES, module),
            (SIM, None) => return Area::Transport,
            (package, _) => (CRATES, package),
        };
        table.iter().find(|(entry, _)| *entry == name).map_or(Area::Transport, |(_, area)| *area)
    }

    /// What cargo builds for some of them.
    pub fn packages(areas: &[Area], full: bool) -> Vec<String> {
        let own = CRATES.iter().filter(|(_, area)| areas.contains(area)).map(|(name, _)| *name);
        let own = own.filter(|name| full || *name != EVIDENCE);
        let sim = MODULES.iter().any(|(_, area)| areas.contains(area)).then_some(SIM);
        own.chain(sim).map(|name| name.replace('_', "-")).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::workspace;

    #[test]
    fn each_module_of_the_simulators_tests_has_an_area_and_each_entry_a_module() {
        let main = fs::read_to_string(workspace::root().join("sim/tests/main.rs")).unwrap();
        let declared = main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        let listed = MODULES.iter().map(|(name, _)| *name);
        assert_eq!(declared.collect::<BTreeSet<_>>(), listed.collect::<BTreeSet<_>>());
    }

    #[test]
    fn each_crate_of_the_workspace_has_an_area_and_each_entry_a_crate() {
        let root = workspace::root();
        let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml")).unwrap().parse().unwrap();
        let members = manifest["workspace"]["members"].as_array().unwrap();
        let name = |member: &toml::Value| {
            let manifest = root.join(member.as_str().unwrap()).join("Cargo.toml");
            let manifest: toml::Table = fs::read_to_string(manifest).unwrap().parse().unwrap();
            manifest["package"]["name"].as_str().unwrap().replace('-', "_")
        };
        let listed = CRATES.iter().map(|(name, _)| name.to_string()).chain([SIM.to_string()]);
        assert_eq!(members.iter().map(name).collect::<BTreeSet<_>>(), listed.collect::<BTreeSet<_>>());
    }
}
