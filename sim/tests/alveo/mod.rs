// SPDX-License-Identifier: MIT OR Apache-2.0
//! Alveo cards: their tops in lint and synthesis, and all logic of one in simulation, before AMD's PCIe block and its Ethernet block.

mod demo;
mod lint;
mod synth;
pub mod yosys;

use ferrowire_boards::{Alveo, ALVEOS};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_shell::{AlveoModules, AlveoShell};

/// A card with the RNIC that its description names.
fn shell(name: &str) -> AlveoShell {
    of(Alveo::named(name).unwrap_or_else(|error| panic!("{error}")))
}

fn of(board: Alveo) -> AlveoShell {
    let card = RnicConfig::named(&board.card.config).unwrap_or_else(|error| panic!("{error}"));
    assert!(board.card.set.is_empty(), "{} sets fields over its configuration", board.name);
    AlveoShell::new(board, card).unwrap_or_else(|error| panic!("{error}"))
}

/// Every card, by name.
fn shells() -> Vec<(String, AlveoShell)> {
    ALVEOS.iter().map(|(name, _)| (name.to_string(), shell(name))).collect()
}

fn modules(shell: &AlveoShell) -> AlveoModules {
    shell.modules().unwrap_or_else(|errors| panic!("{errors}"))
}
