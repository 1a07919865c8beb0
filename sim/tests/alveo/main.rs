// SPDX-License-Identifier: MIT OR Apache-2.0
//! Alveo cards: their tops in lint and synthesis, and all logic of one in simulation, before AMD's PCIe block and its Ethernet block.

mod demo;
mod lint;
mod synth;

use ferrowire_boards::Alveo;
use ferrowire_hdl::config::RnicConfig;
use ferrowire_shell::{AlveoModules, AlveoShell};

/// A card with the RNIC that its description names.
fn shell(name: &str) -> AlveoShell {
    let board = Alveo::named(name).unwrap_or_else(|error| panic!("{error}"));
    let card = RnicConfig::named(&board.card.config).unwrap_or_else(|error| panic!("{error}"));
    assert!(board.card.set.is_empty(), "{name} sets fields over its configuration");
    AlveoShell::new(board, card).unwrap_or_else(|error| panic!("{error}"))
}

fn modules(shell: &AlveoShell) -> AlveoModules {
    shell.modules().unwrap_or_else(|errors| panic!("{errors}"))
}
