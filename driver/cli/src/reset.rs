// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire reset`.

use clap::Args;
use ferrowire::Context;
use serde_json::json;

use crate::args::Common;
use crate::failure::Failure;
use crate::out;

/// Resets a card: every object that is left on it is gone
///
/// It is refused while another program has the card. A program that dies leaves nothing behind, so this is for a card that does not
/// come up. Addresses, counters and registers are as after power-on.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ferrowire -d sim:ferrowire0.sock reset")]
pub struct ResetArgs {}

/// Carries it out.
pub fn run(common: &Common, ResetArgs {}: &ResetArgs) -> Result<(), Failure> {
    let device = common.device()?;
    // Opening resets the card, waits until its tables are clear and gives it a command queue; closing resets it again.
    let context = Context::open(device.open()?)?;
    if context.is_fatal()? {
        return Err(Failure::failed(
            format!("reset {device}: the card gave up its new command queue"),
            "map memory for it: see the IOMMU's log; or load the bitstream again",
        ));
    }
    drop(context);
    match common.json {
        true => out::json(&json!({ "device": device.to_string(), "reset": true })),
        false => out::line(&format!("{device}: reset")),
    }
}
