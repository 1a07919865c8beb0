// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire counters`.

use clap::Args;
use ferrowire::{DropReason, HwCounter, Monitor, TrafficCounter};
use serde_json::{json, Map, Value};

use crate::args::Common;
use crate::failure::Failure;
use crate::out;

/// Prints the card's counters: frames and bytes, drops by their reason, and the transport's, by their names in Linux
///
/// The card is not disturbed. Counters begin at zero with each reset, so with each program that opens the card: look while it runs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    ferrowire -d sim:ferrowire0.sock counters --nonzero\n  \
    ferrowire -d sim:ferrowire0.sock counters --json")]
pub struct CountersArgs {
    /// Leave out those that are zero
    #[arg(long)]
    nonzero: bool,
}

/// A counter, as it stands.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    /// Which kind.
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it counts to.
    pub value: u64,
}

/// Every counter of a card.
pub fn all(monitor: &mut Monitor) -> Result<Vec<Counter>, Failure> {
    let mut all = Vec::new();
    for counter in TrafficCounter::ALL {
        let value = monitor.traffic_counter(*counter)?;
        all.push(Counter { group: "traffic", name: counter.name(), value });
    }
    for reason in DropReason::ALL {
        all.push(Counter { group: "drops", name: reason.name(), value: monitor.drop_counter(*reason)? });
    }
    for counter in HwCounter::ALL {
        all.push(Counter {
            group: "hw_counters",
            name: counter.name(),
            value: monitor.hw_counter(*counter)?,
        });
    }
    Ok(all)
}

/// As JSON: an object for each kind.
pub fn to_json(counters: &[Counter]) -> Value {
    let mut groups = Map::new();
    for counter in counters {
        let group = groups.entry(counter.group).or_insert_with(|| json!({}));
        group[counter.name] = counter.value.into();
    }
    groups.into()
}

/// Carries it out.
pub fn run(common: &Common, args: &CountersArgs) -> Result<(), Failure> {
    let device = common.device()?;
    let mut counters = all(&mut device.observe()?)?;
    counters.retain(|counter| !args.nonzero || counter.value != 0);
    if common.json {
        return out::json(&json!({ "device": device.to_string(), "counters": to_json(&counters) }));
    }
    let text: String = counters.iter().map(|c| format!("{:<34}{:>20}\n", c.name, c.value)).collect();
    out::text(&text)
}
