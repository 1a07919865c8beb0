// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of a card's netlist makes its clock slow. `cargo xtask lint` compares it with a budget.

use ferrowire_rtl::Finding;

use crate::{Choice, Error};

/// Modules that only connect blocks, as the top does.
pub const WIRING: &[&str] = &["transport"];

/// All findings of a card.
///
/// # Errors
/// The description fails a check at this configuration.
pub fn lint(choice: &Choice) -> Result<Vec<Finding>, Error> {
    Ok(ferrowire_hdl::top::rnic(&choice.values)?.lint(WIRING))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_only_connect_blocks_are_in_the_card() {
        let choice = crate::choose("generic-8b", &[]).unwrap();
        let instances = ferrowire_hdl::top::rnic(&choice.values).unwrap().instances();
        for module in WIRING {
            let inside = instances.iter().filter(|path| path.split('.').nth(1) == Some(module));
            assert!(inside.count() > 30, "{module}");
        }
    }
}
