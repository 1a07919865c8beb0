// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast a card for UltraScale+ is, estimated before placement.
//!
//! No free program places for UltraScale+. So each cell has a delay of the table in [`delays`], and each net one that grows with the
//! logarithm of its loads. The estimate compares cards; what Vivado makes of one is another matter. `xtask/tools/sta.py` computes
//! the same by other code, and a test compares them.

mod border;
mod delays;
mod netlist;
mod report;
mod source;
mod walk;

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::flow::blif::Blif;
pub use border::{Border, RNIC};
use delays::Delays;
use netlist::{Kind, Net, Netlist};
use report::Report;
pub use source::Sources;
use walk::{Crossing, Longest, Walk};

/// Periods of the clocks, in ns.
#[derive(Clone, Debug, Default)]
pub struct Periods {
    /// Of a clock that is not in the list.
    pub core: f64,
    /// By the clock's net.
    pub others: BTreeMap<String, f64>,
    /// What clocks are called, by the net.
    pub names: BTreeMap<String, String>,
}

impl Periods {
    /// Calls the clock that a cell's pin gives by a name, and gives it a period unless it has one.
    ///
    /// # Errors
    /// There is no such pin.
    pub fn name(&mut self, blif: &Blif<'_>, (cell, pin): (&str, &str), name: &str, ns: f64) -> Result<()> {
        let mut cells = blif.models.iter().flat_map(|model| &model.cells).filter(|known| known.kind == cell);
        let pins = &cells.next().with_context(|| format!("the netlist has no {cell}"))?.pins;
        let net = pins.iter().find(|(known, _)| *known == pin);
        let (_, net) = net.with_context(|| format!("{cell} has no pin {pin}"))?;
        self.others.entry(net.to_string()).or_insert(ns);
        self.names.insert(net.to_string(), name.into());
        Ok(())
    }

    /// What a clock is called: its net, unless it has a name.
    fn called<'s>(&'s self, netlist: &Netlist<'s>, clock: Option<Net>) -> &'s str {
        let Some(clock) = clock else { return "no clock" };
        let net = netlist.nets[clock as usize];
        self.names.get(net).map_or(net, String::as_str)
    }

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

/// How late the paths of one clock are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockLate {
    pub name: String,
    pub period_ns: f64,
    pub worst_ns: f64,
    pub endpoints: usize,
    pub endpoints_over_period: usize,
}

/// Paths from one clock into another, which are not among those of the clocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossingLate {
    pub from: String,
    pub to: String,
    /// The register, or the net at the input of a block.
    pub signal: String,
    pub endpoints: usize,
    pub worst_ns: f64,
    /// What `set_max_delay` of the constraints allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_ns: Option<f64>,
}

/// What is estimated of a netlist.
pub struct Estimate {
    pub late: Late,
    pub clocks: Vec<ClockLate>,
    pub crossings: Vec<CrossingLate>,
    /// Where crossings and constraints do not agree, if there are constraints.
    pub disagreements: Vec<String>,
    /// Worst paths and tables.
    pub text: String,
}

/// Estimates a flat netlist, the first module of the file.
///
/// # Errors
/// A cell that is not known, a loop.
pub fn estimate(
    title: &str,
    blif: &Blif<'_>,
    sources: &Sources,
    periods: &Periods,
    border: &Border,
) -> Result<Estimate> {
    let delays = Delays::read()?;
    let netlist = Netlist::read(blif.models.first().context("the netlist is empty")?, &delays, border)?;
    let walk = Walk::new(&netlist, delays)?;
    let mut ends = walk.endpoints();
    ends.sort_by(|a, b| b.ns.total_cmp(&a.ns).then(a.point.cmp(&b.point)));
    let (crossings, disagreements) = crossings(&walk, sources, periods, border);
    let text = Report { walk: &walk, sources, periods, ends: &ends, crossings: &crossings }.text(title);
    let over = ends.iter().filter(|end| periods.over(&netlist, end)).count();
    let late = Late { worst_ns: ends.first().map_or(0.0, |end| end.ns), endpoints: ends.len(), over };
    let clocks = by_clock(&netlist, periods, &ends);
    Ok(Estimate { late, clocks, crossings, disagreements, text })
}

/// The clocks in which paths end, by name.
fn by_clock(netlist: &Netlist<'_>, periods: &Periods, ends: &[Longest]) -> Vec<ClockLate> {
    let mut clocks: BTreeMap<&str, ClockLate> = BTreeMap::new();
    for end in ends {
        let clock = netlist.points[end.point as usize].clock;
        let name = periods.called(netlist, clock);
        let row = clocks.entry(name).or_insert_with(|| ClockLate {
            name: name.into(),
            period_ns: rounded(periods.of(netlist, clock)),
            worst_ns: 0.0,
            endpoints: 0,
            endpoints_over_period: 0,
        });
        row.worst_ns = row.worst_ns.max(rounded(end.ns));
        row.endpoints += 1;
        row.endpoints_over_period += usize::from(periods.over(netlist, end));
    }
    clocks.into_values().collect()
}

/// To a picosecond.
pub fn rounded(ns: f64) -> f64 {
    (ns * 1000.0).round() / 1000.0
}

/// Crossings by register, each beside the exception that the constraints make for it, and what is missing on either side.
fn crossings(
    walk: &Walk<'_, '_>,
    sources: &Sources,
    periods: &Periods,
    border: &Border,
) -> (Vec<CrossingLate>, Vec<String>) {
    let netlist = walk.netlist;
    let called = |clock| periods.called(netlist, clock).to_string();
    let mut aliases: HashMap<Net, Vec<Net>> = HashMap::new();
    for arc in netlist.arcs.iter().filter(|arc| arc.kind == Kind::Alias) {
        aliases.entry(arc.from).or_default().push(arc.to);
    }
    let mut used = vec![false; border.delays.len()];
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for Crossing { from, to, ends } in walk.crossings() {
        let own = |pin: &str| from.is_some() && netlist.clocks.get(pin).copied() == from;
        let exception =
            |signal: &str| border.delays.iter().position(|delay| delay.to == signal && own(&delay.from));
        let mut signals: BTreeMap<String, (usize, f64)> = BTreeMap::new();
        for (point, ns) in ends {
            let out = netlist.points[point as usize].out;
            // Of the names of a register's output Yosys takes any; the constraints have the register's own.
            let others = aliases.get(&out).into_iter().flatten();
            let mut names = others.map(|net| sources.signal(netlist.nets[*net as usize]));
            let own_name = sources.signal(netlist.nets[out as usize]);
            let named = exception(&own_name).is_some();
            let other = if named { None } else { names.find(|name| exception(name).is_some()) };
            let (count, worst) = signals.entry(other.unwrap_or(own_name)).or_insert((0, f64::NEG_INFINITY));
            *count += 1;
            *worst = worst.max(ns);
        }
        for (signal, (endpoints, worst_ns)) in signals {
            let exception = exception(&signal);
            let allowed_ns = exception.map(|number| border.delays[number].ns);
            exception.into_iter().for_each(|number| used[number] = true);
            let (from, to, worst_ns) = (called(from), called(to), rounded(worst_ns));
            match allowed_ns {
                None => wrong.push(format!("{signal}: from {from} to {to} without a set_max_delay")),
                Some(ns) if worst_ns > ns => {
                    wrong.push(format!(
                        "{signal}: from {from} to {to} in {worst_ns} ns, set_max_delay allows {ns}"
                    ));
                }
                Some(_) => {}
            }
            found.push(CrossingLate { from, to, signal, endpoints, worst_ns, allowed_ns });
        }
    }
    let idle = border.delays.iter().zip(used).filter(|(_, used)| !used);
    wrong.extend(idle.map(|(delay, _)| {
        format!("{}: set_max_delay from {}, but nothing crosses there", delay.to, delay.from)
    }));
    wrong.extend(border.uncut(netlist));
    // Without constraints there is nothing to agree with.
    if border.is_open() {
        wrong.clear();
    }
    (found, wrong)
}

#[cfg(test)]
mod tests;
