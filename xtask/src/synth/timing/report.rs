// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of an estimate: worst paths step by step, how late how many ends are, and in which blocks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

use super::netlist::{Kind, Net};
use super::source::Sources;
use super::walk::{Longest, Walk};
use super::{CrossingLate, Periods};

/// Rows of each list.
const ROWS: usize = 40;
/// Paths that are shown step by step.
const PATHS: usize = 20;
/// A bar of the histogram has so many ns.
const BIN: f64 = 0.25;
/// Blocks of the tables are so many instances deep.
const DEPTH: usize = 2;

/// Writes a report.
pub struct Report<'r, 'n, 'a> {
    pub walk: &'r Walk<'n, 'a>,
    pub sources: &'r Sources,
    pub periods: &'r Periods,
    /// Longest first.
    pub ends: &'r [Longest],
    pub crossings: &'r [CrossingLate],
}

#[derive(Default)]
struct Row {
    worst: f64,
    ends: usize,
    over: usize,
}

impl Row {
    fn add(&mut self, ns: f64, over: bool) {
        self.worst = self.worst.max(ns);
        self.ends += 1;
        self.over += usize::from(over);
    }
}

impl Report<'_, '_, '_> {
    pub fn text(&self, title: &str) -> String {
        let mut text = format!("{title}: estimated before placement, see docs/src/synthesis.md\n\n");
        self.clocks(&mut text);
        self.paths(&mut text);
        self.histogram(&mut text);
        self.blocks(&mut text);
        self.pairs(&mut text);
        self.begins(&mut text);
        self.loads(&mut text);
        text
    }

    fn name(&self, net: Net) -> &str {
        self.walk.netlist.nets[net as usize]
    }

    fn clock(&self, net: Option<Net>) -> &str {
        self.periods.called(self.walk.netlist, net)
    }

    fn over(&self, end: &Longest) -> bool {
        self.periods.over(self.walk.netlist, end)
    }

    /// The block of a net, so many instances deep.
    fn block(&self, net: Net) -> String {
        let block = self.sources.place(self.name(net)).block;
        let block: Vec<&str> = block.split('.').take(DEPTH).collect();
        let block = block.join(".");
        if block.is_empty() {
            "(top)".into()
        } else {
            block
        }
    }

    /// Block and signal.
    fn signal(&self, net: Net) -> String {
        self.sources.signal(self.name(net))
    }

    fn kind(&self, kinds: &HashMap<Net, Kind>, net: Net) -> &'static str {
        kinds.get(&net).copied().unwrap_or(Kind::Port).name()
    }

    fn clocks(&self, text: &mut String) {
        let mut clocks: BTreeMap<&str, (f64, Row)> = BTreeMap::new();
        for end in self.ends {
            let clock = self.walk.netlist.points[end.point as usize].clock;
            let period = self.periods.of(self.walk.netlist, clock);
            let row = &mut clocks.entry(self.clock(clock)).or_insert_with(|| (period, Row::default())).1;
            row.add(end.ns, self.over(end));
        }
        let _ = writeln!(
            text,
            "{:<40} {:>9} {:>9} {:>9} {:>9}",
            "clock", "period ns", "worst ns", "ends", "over"
        );
        for (clock, (period, row)) in clocks {
            let _ = writeln!(
                text,
                "{clock:<40} {period:>9.3} {:>9.3} {:>9} {:>9}",
                row.worst, row.ends, row.over
            );
        }
        for crossing in self.crossings {
            let CrossingLate { from, to, signal, endpoints, worst_ns, allowed_ns } = crossing;
            let allowed = allowed_ns.map_or("".into(), |ns| format!(", set_max_delay {ns} ns"));
            let _ = writeln!(
                text,
                "crossing {from} -> {to}: {signal}: {endpoints} ends, {worst_ns:.2} ns{allowed}; not among the paths"
            );
        }
        for (net, pin) in &self.walk.netlist.cut {
            let _ = writeln!(text, "no clock times {pin} of {}, says set_false_path", self.signal(*net));
        }
        if let Some(ns) = self.walk.to_ports() {
            let _ = writeln!(text, "longest path to an output port: {ns:.2} ns; not among the paths");
        }
    }

    /// The worst path to each register.
    fn paths(&self, text: &mut String) {
        let _ = writeln!(text, "\nworst paths, one to a signal");
        let mut seen = HashSet::new();
        let ends = self.ends.iter().filter(|end| {
            let point = &self.walk.netlist.points[end.point as usize];
            seen.insert(self.signal(point.out))
        });
        for end in ends.take(PATHS) {
            self.path(text, end);
        }
    }

    fn path(&self, text: &mut String, end: &Longest) {
        let netlist = self.walk.netlist;
        let point = &netlist.points[end.point as usize];
        let steps = self.walk.path(end);
        let luts = steps.iter().filter(|step| step.by.is_some_and(|arc| arc.kind == Kind::Lut)).count();
        let pin = &netlist.ends[end.end as usize].pin;
        let _ = writeln!(
            text,
            "\n{:.2} ns, {luts} LUTs: {} -> {} ({} {pin})",
            end.ns,
            self.signal(steps[0].net),
            self.signal(point.out),
            point.kind.name()
        );
        let kinds = self.kinds(steps.iter().filter(|step| step.by.is_none()).map(|step| step.net));
        // Steps that bear the same signal are one line.
        let mut lines: Vec<(f64, f64, Vec<&str>, u32, Net)> = Vec::new();
        let mut last = 0.0;
        for step in &steps {
            let by = step.by.map_or_else(|| self.kind(&kinds, step.net), |arc| arc.kind.name());
            let loads = netlist.loads[step.net as usize];
            match lines.last_mut() {
                Some(line)
                    if self.name(step.net).starts_with('$')
                        || self.signal(line.4) == self.signal(step.net) =>
                {
                    line.0 = step.ns;
                    line.1 += step.ns - last;
                    line.2.push(by);
                    line.3 = loads;
                }
                _ => lines.push((step.ns, step.ns - last, vec![by], loads, step.net)),
            }
            last = step.ns;
        }
        for (ns, more, by, loads, net) in lines {
            let line = self.sources.place(self.name(net)).line;
            let _ = writeln!(
                text,
                "  {ns:>6.2} {more:>+6.2}  {:<24} loads {loads:<5} {}  {line}",
                by.join(" "),
                self.signal(net)
            );
        }
        let _ = writeln!(text, "  {:>6.2} {:>+6.2}  set-up", end.ns, end.ns - last);
    }

    fn kinds(&self, nets: impl Iterator<Item = Net>) -> HashMap<Net, Kind> {
        let wanted: HashSet<Net> = nets.collect();
        let starts = self.walk.netlist.starts.iter().filter(|start| wanted.contains(&start.net));
        starts.map(|start| (start.net, start.kind)).collect()
    }

    fn histogram(&self, text: &mut String) {
        let mut bins: BTreeMap<u32, usize> = BTreeMap::new();
        self.ends.iter().for_each(|end| *bins.entry((end.ns.max(0.0) / BIN) as u32).or_default() += 1);
        let most = bins.values().copied().max().unwrap_or(1);
        let _ = writeln!(text, "\nends by the length of their longest path");
        for (bin, ends) in bins {
            let (low, bar) = (f64::from(bin) * BIN, "#".repeat((60 * ends).div_ceil(most)));
            let _ = writeln!(text, "{low:>6.2} to {:>5.2} ns {ends:>7} {bar}", low + BIN);
        }
    }

    fn blocks(&self, text: &mut String) {
        let mut rows: HashMap<String, Row> = HashMap::new();
        for end in self.ends {
            let block = self.block(self.walk.netlist.points[end.point as usize].out);
            rows.entry(block).or_default().add(end.ns, self.over(end));
        }
        self.table(text, "block of the end", rows);
    }

    fn pairs(&self, text: &mut String) {
        let mut rows: HashMap<String, Row> = HashMap::new();
        for end in self.ends.iter().filter(|end| self.over(end)) {
            let to = self.block(self.walk.netlist.points[end.point as usize].out);
            let from = self.block(self.walk.begin(end));
            rows.entry(format!("{from} -> {to}")).or_default().add(end.ns, true);
        }
        self.table(text, "from block -> to block, of paths over the period", rows);
    }

    fn table(&self, text: &mut String, title: &str, rows: HashMap<String, Row>) {
        let mut rows: Vec<(String, Row)> = rows.into_iter().collect();
        rows.sort_by(|(a, x), (b, y)| y.over.cmp(&x.over).then(y.worst.total_cmp(&x.worst)).then(a.cmp(b)));
        let _ = writeln!(text, "\n{title:<64} {:>9} {:>9} {:>9}", "worst ns", "ends", "over");
        for (name, row) in rows.iter().take(ROWS) {
            let _ = writeln!(text, "{name:<64} {:>9.2} {:>9} {:>9}", row.worst, row.ends, row.over);
        }
        if rows.len() > ROWS {
            let over: usize = rows[ROWS..].iter().map(|(_, row)| row.over).sum();
            let _ = writeln!(text, "and {} more, {over} over", rows.len() - ROWS);
        }
    }

    fn begins(&self, text: &mut String) {
        let mut counts: HashMap<String, (usize, Net)> = HashMap::new();
        for end in self.ends.iter().filter(|end| self.over(end)) {
            let net = self.walk.begin(end);
            counts.entry(self.signal(net)).or_insert((0, net)).0 += 1;
        }
        let kinds = self.kinds(counts.values().map(|(_, net)| *net));
        let mut counts: Vec<(String, (usize, Net))> = counts.into_iter().collect();
        counts.sort_by(|(a, x), (b, y)| y.0.cmp(&x.0).then(a.cmp(b)));
        let _ = writeln!(text, "\nwhere the paths over the period begin");
        for (signal, (count, net)) in counts.iter().take(ROWS) {
            let _ = writeln!(text, "{count:>7} {:<8} {signal}", self.kind(&kinds, *net));
        }
    }

    fn loads(&self, text: &mut String) {
        let netlist = self.walk.netlist;
        let mut nets: Vec<Net> = (0..netlist.nets.len() as Net).collect();
        nets.sort_by_key(|net| std::cmp::Reverse(netlist.loads[*net as usize]));
        nets.truncate(ROWS / 2);
        let mut kinds = self.kinds(nets.iter().copied());
        // What a cell computes on the way is not registered.
        netlist.arcs.iter().filter(|arc| nets.contains(&arc.to)).for_each(|arc| {
            kinds.insert(arc.to, arc.kind);
        });
        let _ = writeln!(text, "\nnets with the most loads");
        for net in nets {
            let loads = netlist.loads[net as usize];
            let _ = writeln!(text, "{loads:>7} {:<8} {}", self.kind(&kinds, net), self.signal(net));
        }
    }
}
