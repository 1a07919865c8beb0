// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page itself.

use maud::{html, Markup, PreEscaped, DOCTYPE};

use super::{Bench, Facts, Status, BENCH, BITSTREAM, LOSS, SYNTH, TEST};
use crate::flow::stat::{Block, Cost};
use crate::flow::{Clock, Critical};
use crate::{bitstream, synth};

/// All of it.
pub fn page(facts: &Facts) -> String {
    let sections: [(&str, &str, Markup); 4] = [
        ("synthesis", "Cells and paths", synthesis(facts)),
        ("bitstreams", "Bitstreams", bitstreams(facts)),
        ("cycles", "Cycles", cycles(facts)),
        ("plan", "Test plan", plan(facts)),
    ];
    let html = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Ferrowire at " (short(&facts.commit)) }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                h1 { "Ferrowire at " code { (short(&facts.commit)) } }
                (tiles(facts))
                p { nav { @for (id, name, _) in &sections { a href={ "#" (id) } { (name) } } } }
                @for (id, name, section) in &sections { h2 id=(id) { (name) } (section) }
            }
        }
    };
    html.into_string()
}

/// What is to be seen first.
fn tiles(facts: &Facts) -> Markup {
    let holds = facts.plan.iter().filter(|one| facts.status(one) == Status::Holds).count();
    let budgets = |bench: &Bench| bench.results.iter().filter_map(|figure| figure.met).collect::<Vec<_>>();
    let budgets = facts.bench.as_ref().map(budgets).unwrap_or_default();
    let met = budgets.iter().filter(|met| **met).count();
    let failures = facts.synth.iter().map(|one| &one.failure);
    let failures = failures.chain(facts.bitstreams.iter().map(|one| &one.failure));
    let (tools, bad) = (failures.clone().count(), failures.flatten().count());
    html! {
        div.tiles {
            @if facts.tests.is_some() { div { b { (holds) " of " (facts.plan.len()) } "requirements hold" } }
            @if !budgets.is_empty() { div { b { (met) " of " (budgets.len()) } "figures are within their budgets" } }
            @if tools > 0 { div { b { (tools - bad) " of " (tools) } "runs of the synthesis are as they should be" } }
        }
    }
}

/// A commit as people write it.
fn short(commit: &str) -> String {
    match commit.split_once('-') {
        Some((commit, more)) => format!("{}-{more}", &commit[..commit.len().min(12)]),
        None => commit.chars().take(12).collect(),
    }
}

/// Where figures are from, which may be another state of the sources.
fn origin(facts: &Facts, commit: &str) -> Markup {
    html! {
        @if commit != facts.commit {
            p.bad { "Of " code { (short(commit)) } ", not what is checked out." }
        }
    }
}

fn nothing(command: &str) -> Markup {
    html! { p.note { "Not measured here. " code { (command) } } }
}

fn failure(failure: &Option<String>) -> Markup {
    html! { @if let Some(why) = failure { p.bad { "Failed: " (why) } } }
}

fn synthesis(facts: &Facts) -> Markup {
    html! {
        @if facts.synth.is_empty() { (nothing(SYNTH)) }
        @for report in &facts.synth { (mapped(facts, report)) }
    }
}

fn mapped(facts: &Facts, report: &synth::Report) -> Markup {
    let name = std::iter::once(&report.config).chain(&report.set).cloned().collect::<Vec<_>>().join(", ");
    let tools =
        [Some(&report.tool), report.placer.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>();
    html! {
        h3 { (name) " on " (report.target) }
        (origin(facts, &report.commit))
        (failure(&report.failure))
        p {
            "Longest path: " b { (report.longest_lut_path) " LUTs" } ", " code { (report.path.from) } " to " code { (report.path.to) } ". "
            span.note { (tools.join(", ")) ", layout " code { (report.layout_hash) } }
        }
        @if let (Some(ns), Some(all), Some(over)) = (report.worst_ns, report.endpoints, report.endpoints_over_period) {
            p { "Estimated before placement: " b { (format!("{ns:.2} ns")) } ", " (over) " of " (all) " endpoints over the period." }
        }
        @if let Some(mhz) = report.fmax_mhz.or(report.placed_mhz) {
            @let when = if report.fmax_mhz.is_some() { "routed" } else { "placed" };
            (clocks(when, &[Clock { name: "clk".into(), mhz, wanted_mhz: report.wanted_mhz }]))
        }
        (critical(&report.critical_path))
        div {
            div.row.head { span { "block" } @for column in columns(report) { span.n { (column) } } }
            div.row { span.name { "all, flattened" } (figures(&report.total, Some(report.longest_lut_path))) }
            @for block in tree(&report.blocks) { (branch(&block, report.total.lut, 0)) }
        }
        @if report.blocks.is_empty() { p.note { "Mapped without its blocks (" code { "--no-blocks" } ")." } }
        @else { p.note { "Blocks are mapped each by itself, which takes some more than the whole. Bars: share of all LUTs." } }
    }
}

fn columns(report: &synth::Report) -> [&'static str; 6] {
    ["LUT", "of RAM", "FF", if report.total.ebr.is_some() { "EBR" } else { "BRAM18" }, "DSP", "path"]
}

/// A block and those in it.
struct Tree<'a> {
    block: &'a Block,
    below: Vec<Tree<'a>>,
}

/// Blocks by their names, which are those of the modules from the top down; parents come first.
fn tree(blocks: &[Block]) -> Vec<Tree<'_>> {
    let mut roots: Vec<Tree<'_>> = Vec::new();
    for block in blocks {
        let mut place = &mut roots;
        // Each is below the last one whose name it goes on with.
        while let Some(at) = place.iter().rposition(|tree| is_below(&block.name, &tree.block.name)) {
            place = &mut place[at].below;
        }
        place.push(Tree { block, below: Vec::new() });
    }
    roots
}

fn is_below(name: &str, above: &str) -> bool {
    name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

fn branch(tree: &Tree<'_>, all: u64, depth: usize) -> Markup {
    let block = tree.block;
    let name = block.name.rsplit('/').next().unwrap_or_default();
    let times = if block.instances > 1 { format!(" ×{}", block.instances) } else { String::new() };
    let share = format!("--share: {:.1}%; padding-left: {}em", percent(block.cost.lut, all), depth);
    let row = html! {
        span.name style=(share) { (name) (times) }
        (figures(&block.cost, block.longest_lut_path))
    };
    html! {
        @if tree.below.is_empty() { div.row.leaf { (row) } }
        @else {
            details open[depth == 0] {
                summary.row { (row) }
                @for below in &tree.below { (branch(below, all, depth + 1)) }
            }
        }
    }
}

fn percent(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

fn figures(cost: &Cost, path: Option<u32>) -> Markup {
    let memory = cost.bram18.or(cost.ebr).unwrap_or_default();
    html! {
        @for figure in [cost.lut, cost.lutram, cost.ff, memory, cost.dsp] { span.n { (figure) } }
        span.n { @if let Some(path) = path { (path) } }
    }
}

fn bitstreams(facts: &Facts) -> Markup {
    html! {
        @if facts.bitstreams.is_empty() { (nothing(BITSTREAM)) }
        @for report in &facts.bitstreams { (board(facts, report)) }
    }
}

fn board(facts: &Facts, report: &bitstream::Report) -> Markup {
    html! {
        h3 { (report.board) ", " (report.part) }
        (origin(facts, &report.commit))
        (failure(&report.failure))
        p.note {
            (report.tools.join(", ")) @if let Some(seed) = report.seed { ", seed " (seed) } ", layout " code { (report.layout_hash) }
        }
        @if report.utilization.is_empty() {
            p { (report.mapped.lut) " LUTs, " (report.mapped.ff) " flip-flops, " (report.mapped.ebr.unwrap_or_default()) " block RAMs as mapped." }
        } @else {
            table {
                tr { th { "cells" } th.n { "used" } th.n { "available" } th.n { "%" } }
                @for (kind, usage) in report.utilization.iter().filter(|(_, usage)| usage.used > 0) {
                    tr {
                        td { (kind) } td.n { (usage.used) } td.n { (usage.available) }
                        td.n { (format!("{:.1}", percent(usage.used, usage.available))) }
                    }
                }
            }
        }
        @if !report.clocks.is_empty() { (clocks(if report.routed { "routed" } else { "placed" }, &report.clocks)) }
        (critical(&report.critical_path))
    }
}

/// Clocks with what is left of their periods.
fn clocks(when: &str, clocks: &[Clock]) -> Markup {
    html! {
        table {
            tr { th { "clock, " (when) } th.n { "MHz" } th.n { "wanted" } th.n { "slack, ns" } }
            @for clock in clocks {
                @let slack = 1000.0 / clock.wanted_mhz - 1000.0 / clock.mhz;
                tr {
                    td { code { (clock.name) } } td.n { (format!("{:.1}", clock.mhz)) } td.n { (format!("{:.1}", clock.wanted_mhz)) }
                    td.n.bad[clock.missed()] { (format!("{slack:.2}")) }
                }
            }
        }
    }
}

fn critical(path: &Option<Critical>) -> Markup {
    html! {
        @if let Some(Critical { from, to, logic_ns, wires_ns }) = path {
            p {
                "Critical path: " code { (from) } " to " code { (to) } ", "
                (format!("{logic_ns:.1} ns in cells and {wires_ns:.1} ns in wires."))
            }
        }
    }
}

fn cycles(facts: &Facts) -> Markup {
    html! {
        @match facts.bench.as_ref().filter(|bench| !bench.results.is_empty()) {
            Some(bench) => (measured(facts, bench)),
            None => (nothing(BENCH)),
        }
        h3 { "Goodput on a wire that loses frames" }
        @match &facts.loss { Some(bench) => (measured(facts, bench)), None => (nothing(LOSS)) }
    }
}

fn measured(facts: &Facts, bench: &Bench) -> Markup {
    html! {
        (origin(facts, &bench.commit))
        table {
            tr { th { "figure" } th { "configuration" } th.n { "host latency" } th.n { "QPs" } th.n { "value" } th.n { "budget" } th { "unit" } }
            // How fast the simulation is tells of the machine, not of the card.
            @for figure in bench.results.iter().filter(|figure| !figure.unit.contains("of this machine")) {
                tr {
                    td { code { (figure.name) } } td { (figure.config) } td.n { (figure.host_latency_cycles) } td.n { (figure.qps) }
                    td.n.bad[figure.met == Some(false)] { (figure.value) }
                    td.n { @if let Some(budget) = figure.budget { (budget) } }
                    td { (figure.unit) @if let Some(why) = &figure.bound_by { "; " (why) } }
                }
            }
        }
        @for missing in &bench.missing {
            p.note { code { (missing.name) } ", " (missing.config) ": no figure: " (missing.why.lines().next().unwrap_or_default()) }
        }
    }
}

fn plan(facts: &Facts) -> Markup {
    let status = |status| match status {
        Status::Holds => ("good", "holds"),
        Status::Fails => ("bad", "fails"),
        Status::NotRun => ("note", "not run"),
    };
    html! {
        @match &facts.tests {
            Some(tests) => {
                (origin(facts, &tests.commit))
                @if !tests.whole { p.bad { "The run of the tests ended at a failure; what came behind was not run." } }
            }
            None => (nothing(TEST)),
        }
        table {
            tr { th { "requirement" } th {} th { "status" } th.n { "tests" } }
            @for one in &facts.plan {
                @let (class, name) = status(facts.status(one));
                tr {
                    td { code { (one.id) } } td { (one.text) } td class=(class) { (name) }
                    td.n { (one.tests.iter().filter(|test| facts.of_test(test) == Status::Holds).count()) "/" (one.tests.len()) }
                }
                @for test in one.tests.iter().filter(|_| facts.tests.is_some()) {
                    @let (class, name) = status(facts.of_test(test));
                    @if name != "holds" { tr { td {} td { code { (test) } } td class=(class) { (name) } td {} } }
                }
            }
        }
    }
}
