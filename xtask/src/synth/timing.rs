// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast a card for UltraScale+ is, estimated before placement.
//!
//! No free program places for UltraScale+. So each cell has a delay of the table in [`delays`], and each net one that grows with the
//! logarithm of its loads. The estimate compares cards; what Vivado makes of one is another matter. `xtask/tools/sta.py` computes
//! the same by other code, and a test compares them.

mod delays;
mod netlist;
mod report;
mod source;
mod walk;

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::flow::blif::Blif;
use delays::Delays;
use netlist::{Net, Netlist};
use report::Report;
pub use source::Sources;
use walk::{Longest, Walk};

/// Periods of the clocks, in ns.
#[derive(Clone, Debug, Default)]
pub struct Periods {
    /// Of a clock that is not in the list.
    pub core: f64,
    /// By the clock's net.
    pub others: BTreeMap<String, f64>,
}

impl Periods {
    fn of(&self, netlist: &Netlist<'_>, clock: Option<Net>) -> f64 {
        let name = clock.map(|net| netlist.nets[net as usize]);
        name.and_then(|name| self.others.get(name).copied()).unwrap_or(self.core)
    }

    fn over(&self, netlist: &Netlist<'_>, end: &Longest) -> bool {
        end.ns > self.of(netlist, netlist.points[end.point as usize].clock)
    }
}

/// How late paths are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Late {
    /// The longest path that begins and ends in the same clock.
    pub worst_ns: f64,
    /// Cells at which paths end; one with two clocks counts twice.
    pub endpoints: usize,
    /// Of these, those later than their clock's period.
    pub over: usize,
}

/// What is estimated of a netlist.
pub struct Estimate {
    pub late: Late,
    /// Worst paths and tables.
    pub text: String,
}

/// Estimates a flat netlist, the first module of the file.
///
/// # Errors
/// A cell that is not known, a loop.
pub fn estimate(title: &str, blif: &Blif<'_>, sources: &Sources, periods: &Periods) -> Result<Estimate> {
    let delays = Delays::read()?;
    let netlist = Netlist::read(blif.models.first().context("the netlist is empty")?, &delays)?;
    let walk = Walk::new(&netlist, delays)?;
    let mut ends = walk.endpoints();
    ends.sort_by(|a, b| b.ns.total_cmp(&a.ns).then(a.point.cmp(&b.point)));
    let text = Report { walk: &walk, sources, periods, ends: &ends }.text(title);
    let over = ends.iter().filter(|end| periods.over(&netlist, end)).count();
    let late = Late { worst_ns: ends.first().map_or(0.0, |end| end.ns), endpoints: ends.len(), over };
    Ok(Estimate { late, text })
}

#[cfg(test)]
mod tests;
