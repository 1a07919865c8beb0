// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire-sim bench`: the figures that the design has budgets for, in clock cycles.
//!
//! [`crate::measure`] says what each of them counts; with `--loss`, [`crate::goodput`].

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use ferrowire::{PathMtu, SendOpcode, Service};
use serde::Serialize;

use crate::bus::World;
use crate::card::CardModel;
use crate::config::{resolve, SetArgs};
use crate::goodput::{self, Goodput, Run};
use crate::measure::{self, Load};
use crate::pair::{Connection, Pair, PairOptions};
use crate::progress::Progress;
use crate::root::{RootSettings, Split};

/// Options of the bench.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// Configurations, each with its own model, separated by commas: built-in names, TOML files, or `all`
    #[arg(long, value_delimiter = ',', default_value = "generic-64b", value_name = "NAME|FILE")]
    config: Vec<String>,
    #[command(flatten)]
    set: SetArgs,
    /// Cycles that a read of host memory takes beyond the least
    #[arg(long, value_delimiter = ',', default_values_t = [0, 250], value_name = "CYCLES")]
    host_latency: Vec<u64>,
    /// Queue pairs of the rates
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16])]
    qps: Vec<usize>,
    /// Only figures with one of these in their name
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<String>,
    /// Fail when a budget is missed, or a figure
    #[arg(long, conflicts_with = "loss")]
    check: bool,
    /// Write waves, as PATH.fst for card 0 and PATH.b.fst for card 1; of the last figure, so choose one with --only
    #[arg(long, value_name = "PATH", conflicts_with = "loss")]
    wave: Option<PathBuf>,
    /// Measure goodput on a wire that loses frames instead, to target/bench/loss.json: 1 us of host latency at 250 MHz and 1 us
    /// of wire each way, one queue pair, the mean of some runs
    #[arg(long, conflicts_with_all = ["host_latency", "qps", "only"])]
    loss: bool,
    /// Print JSON on the standard output
    #[arg(long)]
    json: bool,
}

/// Share of frames that get lost: in per cent, as a probability, and packets of each run, more where losses are rare.
const LOSSES: &[(&str, f64, usize)] =
    &[("0.01", 1e-4, 16384), ("0.1", 1e-3, 4096), ("1", 1e-2, 4096), ("5", 5e-2, 4096)];

/// Runs of each share.
const LOSS_RUNS: u64 = 4;

/// Host and wire latency of the loss runs, in cycles.
const LOSS_LATENCY: u64 = 250;

/// A figure.
#[derive(Clone, Debug, Serialize)]
struct Figure {
    name: String,
    config: String,
    host_latency_cycles: u64,
    qps: usize,
    value: f64,
    unit: &'static str,
    /// What the design allows at most.
    budget: Option<f64>,
    /// What nothing can go below, where that is more than the budget.
    bound: Option<f64>,
    bound_by: Option<String>,
    /// Whether the value is within the budget.
    met: Option<bool>,
}

/// A figure that could not be measured.
#[derive(Clone, Debug, Serialize)]
struct Missing {
    name: String,
    config: String,
    host_latency_cycles: u64,
    qps: usize,
    budget: Option<f64>,
    why: String,
}

/// All of them.
#[derive(Serialize)]
struct Report {
    commit: String,
    results: Vec<Figure>,
    missing: Vec<Missing>,
}

/// How a rate is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// Requests or responses on the wire.
    Wire,
    /// To one shared receive queue.
    Shared,
    /// Both directions at once.
    Both,
    /// What leaves, to nobody.
    Sent(Service),
    /// What a receiver takes.
    Received(Service),
}

/// A rate.
struct Rate {
    name: &'static str,
    how: How,
    verb: SendOpcode,
    /// Of a message; more than the path MTU: the figure is that of a packet.
    bytes: usize,
    mtu: PathMtu,
    /// Cycles a message or packet, at 64 bytes a beat and 250 MHz.
    budget: Option<f64>,
}

const fn small(name: &'static str, how: How, verb: SendOpcode, budget: Option<f64>) -> Rate {
    let bytes = if matches!(verb, SendOpcode::FetchAdd) { 8 } else { 64 };
    Rate { name, how, verb, bytes, mtu: PathMtu::B1024, budget }
}

const fn large(name: &'static str, how: How, verb: SendOpcode, mtu: PathMtu, budget: Option<f64>) -> Rate {
    Rate { name, how, verb, bytes: 64 << 10, mtu, budget }
}

const RATES: &[Rate] = {
    use How::*;
    use PathMtu::{B1024, B256, B4096};
    use SendOpcode::{FetchAdd, Read, Send, Write};
    use Service::{Uc, Ud};
    &[
        small("write_64_cycles_per_message", Wire, Write, Some(4.0)),
        large("write_1024_cycles_per_packet", Wire, Write, B1024, Some(17.5)),
        large("write_4096_cycles_per_packet", Wire, Write, B4096, Some(66.0)),
        small("send_64_cycles_per_message", Wire, Send, Some(4.0)),
        small("send_64_shared_cycles_per_message", Shared, Send, Some(4.0)),
        small("read_64_cycles_per_message", Wire, Read, Some(4.0)),
        large("read_1024_cycles_per_packet", Wire, Read, B1024, Some(17.5)),
        large("read_4096_cycles_per_packet", Wire, Read, B4096, Some(66.0)),
        small("atomic_cycles_per_message", Wire, FetchAdd, Some(16.0)),
        small("write_64_both_ways_cycles_per_message", Both, Write, None),
        small("send_64_both_ways_cycles_per_message", Both, Send, None),
        small("read_64_both_ways_cycles_per_message", Both, Read, None),
        large("write_1024_both_ways_cycles_per_packet", Both, Write, B1024, Some(17.5)),
        large("write_4096_both_ways_cycles_per_packet", Both, Write, B4096, Some(66.0)),
        large("read_1024_both_ways_cycles_per_packet", Both, Read, B1024, Some(17.5)),
        large("read_4096_both_ways_cycles_per_packet", Both, Read, B4096, Some(66.0)),
        small("uc_send_64_cycles_per_message", Sent(Uc), Send, Some(4.0)),
        small("uc_write_64_cycles_per_message", Sent(Uc), Write, Some(4.0)),
        small("ud_send_64_cycles_per_message", Sent(Ud), Send, Some(4.0)),
        small("uc_send_64_received_cycles_per_message", Received(Uc), Send, Some(4.0)),
        small("uc_write_64_received_cycles_per_message", Received(Uc), Write, Some(4.0)),
        small("ud_send_64_received_cycles_per_message", Received(Ud), Send, Some(4.0)),
        large("uc_write_256_received_cycles_per_packet", Received(Uc), Write, B256, None),
        large("uc_write_1024_received_cycles_per_packet", Received(Uc), Write, B1024, Some(17.5)),
    ]
};

/// Figures of single messages with idle cards: name, budget without host latency.
const LATENCIES: [(&str, f64); 3] = [
    ("doorbell_to_wire_cycles", 40.0),
    ("doorbell_to_remote_cycles", 85.0),
    ("read_64_doorbell_to_cqe_cycles", 180.0),
];

/// The first of them for a message that is one packet of 4,096 bytes.
const LONG: &str = "write_4096_doorbell_to_wire_cycles";

/// The first of them where the WQE is pushed, of cards that take such.
const PUSHED: &str = "doorbell_to_wire_pushed_cycles";

/// The configuration that has budgets.
const BUDGETS: &str = "generic-64b";

/// What a Gen3 link of 16 lanes brings: 8 GT/s, 128 of 130 bits, 20 bytes round each completion of 256 bytes (PCIe 2.2, 4.2.2), as cycles of
/// 250 MHz for 4,096 bytes.
const GEN3_X16: (&str, f64) = ("write_4096_cycles_per_packet", 70.1);

/// The root complex before a card that faces PCIe: completions of 256 bytes, writes and reads of 512.
fn root() -> RootSettings {
    RootSettings { chunk: Split::Fixed(256), ..RootSettings::default() }
}

/// READs and atomics that a queue pair has outstanding at most.
const OUTSTANDING: f64 = 16.0;

impl Rate {
    fn per_packet(&self) -> bool {
        self.bytes > self.mtu.bytes()
    }

    /// What of it makes a load for so many queue pairs: at least 16 small messages each, and 4 packets of large ones.
    fn load(&self, qps: usize) -> Load {
        let (bytes, messages) = match self.per_packet() {
            false => (self.bytes, (16 * qps).max(2048)),
            // With so many, 4 packets each are load enough.
            true if qps > 64 => (4 * self.mtu.bytes(), qps),
            true => (self.bytes, if self.mtu == PathMtu::B4096 { 64 } else { 32 }.max(qps)),
        };
        let shared = self.how == How::Shared;
        Load { verb: self.verb, bytes, mtu: self.mtu, qps, messages, shared }
    }

    /// Measures it, with cards of its own: a figure that fails leaves them in no good state.
    fn measure(&self, pair: &Pair, qps: usize) -> Result<f64> {
        let load = self.load(qps);
        let value = match self.how {
            How::Wire | How::Shared => measure::rate(pair, &load)?,
            How::Sent(service) => measure::unanswered(pair, service, &load)?,
            How::Both => return measure::both_ways(pair, &load),
            How::Received(service) => return Ok(measure::unreliable(pair, service, &load)?.cycles_per_packet),
        };
        Ok(if self.per_packet() { value.cycles_per_packet } else { value.cycles_per_message })
    }
}

/// Runs the bench.
///
/// # Errors
/// Anything that goes wrong.
pub fn run(args: &BenchArgs) -> Result<()> {
    // All that may be wrong with what was given is told before anything is built.
    let configs = args.set.over_all(&args.config)?;
    if args.loss {
        return loss(args, &configs);
    }
    let wanted =
        |name: &str| args.only.is_empty() || args.only.iter().any(|part| name.contains(part.as_str()));
    let rates: Vec<&Rate> = RATES.iter().filter(|rate| wanted(rate.name)).collect();
    let latencies = LATENCIES.iter().any(|latency| wanted(latency.0)) || wanted(PUSHED) || wanted(LONG);
    anyhow::ensure!(!rates.is_empty() || latencies, "no figure has {} in its name", args.only.join(" or "));
    let (mut results, mut missing) = (Vec::new(), Vec::new());
    let each = rates.len() * args.qps.len() + usize::from(latencies);
    let bar = Progress::new(
        (configs.len() * args.host_latency.len() * each) as u64,
        "{msg:60} {wide_bar} {pos}/{len}",
    );
    for name in &configs {
        let config = resolve(name)?;
        let model = crate::demo::build_unchecked(name, &config, args.wave.is_some())?.with_root(root());
        let has_budget = name == BUDGETS;
        for &host_latency in &args.host_latency {
            let (start, mut cycles) = (Instant::now(), 0);
            // The way there and back of a READ bounds those of few queue pairs.
            let mut round_trip = None;
            let mut found = Vec::new();
            if latencies || rates.iter().any(|rate| rate.bounded()) {
                bar.set_message(format!("{name}, {host_latency} cycles, one message"));
                let options = PairOptions { host_latency, ..PairOptions::default() };
                // A measurement without a figure that is wanted has no wave: it is there for the bound of others.
                let cards = |wanted| new_cards(&model, &options, args.wave.as_deref().filter(|_| wanted));
                let [on_wire, in_memory, answered] = LATENCIES.each_ref().map(|latency| wanted(latency.0));
                let latency = measure::latency(&cards(on_wire || in_memory)?, 64, PathMtu::B1024)
                    .with_context(|| format!("{name}: one message"))?;
                let read = measure::read_latency(&cards(answered)?, 64, PathMtu::B1024)
                    .with_context(|| format!("{name}: one READ"))?;
                // What comes before the request is done ahead of it.
                round_trip = Some((read.completion - read.wire) as f64);
                let read = read.completion;
                for (&(figure, budget), value) in LATENCIES.iter().zip([latency.wire, latency.memory, read]) {
                    let budget = (has_budget && host_latency == 0).then_some(budget);
                    if wanted(figure) {
                        found.push(Figure::new(
                            figure,
                            (name, host_latency, 1),
                            value as f64,
                            "cycles",
                            budget,
                        ));
                    }
                }
                if wanted(LONG) {
                    let latency = measure::latency(&cards(true)?, 4096, PathMtu::B4096)
                        .with_context(|| format!("{name}: one message of 4,096 bytes"))?;
                    let which = (name.as_str(), host_latency, 1);
                    found.push(Figure::new(LONG, which, latency.wire as f64, "cycles", None));
                }
                if config.push_slots > 0 && wanted(PUSHED) {
                    let pushed = Connection { push: true, ..Connection::default() };
                    let latency = measure::way(&cards(true)?, 64, &pushed)
                        .with_context(|| format!("{name}: one message that is pushed"))?;
                    let which = (name.as_str(), host_latency, 1);
                    found.push(Figure::new(PUSHED, which, latency.wire as f64, "cycles", None));
                }
                bar.inc(u64::from(latencies));
            }
            for &qps in &args.qps {
                // Number 0 is nobody's, and 1 is that of connection managers.
                let qps = qps.clamp(1, config.qps as usize - 2);
                for rate in &rates {
                    let message = format!("{name}, {host_latency} cycles, {qps} QPs: {}", rate.name);
                    bar.set_message(message);
                    let of_link = (config.pcie4 && qps == 1 && rate.name == GEN3_X16.0).then_some(GEN3_X16.1);
                    let budget = rate.budget.filter(|_| has_budget).or(of_link);
                    let measured =
                        rate.on_new_cards(&model, host_latency, qps, args.wave.as_deref(), &mut cycles);
                    bar.inc(1);
                    match measured {
                        Ok(value) => {
                            let unit = if rate.per_packet() { "cycles/packet" } else { "cycles/message" };
                            let mut figure =
                                Figure::new(rate.name, (name, host_latency, qps), value, unit, budget);
                            if let Some(trip) = round_trip.filter(|_| rate.bounded()) {
                                figure.bound_by_outstanding(trip);
                            }
                            results.push(figure);
                        }
                        Err(error) => missing.push(Missing {
                            name: rate.name.into(),
                            config: name.clone(),
                            host_latency_cycles: host_latency,
                            qps,
                            budget,
                            why: format!("{error:#}"),
                        }),
                    }
                }
            }
            results.append(&mut found);
            let speed = (cycles as f64 * 2.0 / start.elapsed().as_secs_f64()).round();
            let (name_of, unit) = ("simulated_cycles_per_second", "card cycles/s of this machine");
            results.push(Figure::new(name_of, (name, host_latency, 1), speed, unit, None));
        }
    }
    bar.finish_and_clear();

    let report = Report { commit: commit(), results, missing };
    let (path, text) = write(&report, "report.json")?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{text}")?;
        return report.verdict(args.check);
    }
    writeln!(
        out,
        "{:<40} {:<12} {:>7} {:>4} {:>9} {:>7} {:>6}  unit",
        "name", "config", "latency", "QPs", "value", "budget", "met"
    )?;
    for figure in &report.results {
        writeln!(
            out,
            "{:<40} {:<12} {:>7} {:>4} {:>9} {:>7} {:>6}  {}{}",
            figure.name,
            figure.config,
            figure.host_latency_cycles,
            figure.qps,
            figure.value,
            figure.budget.map_or_else(String::new, |budget| budget.to_string()),
            figure.met.map_or("", |met| if met { "yes" } else { "no" }),
            figure.unit,
            figure.bound_by.as_ref().map_or_else(String::new, |why| format!("; {why}"))
        )?;
    }
    for Missing { name, config, host_latency_cycles, qps, budget, why } in &report.missing {
        let budget = budget.map_or_else(String::new, |budget| budget.to_string());
        let why = why.lines().next().unwrap_or_default();
        writeln!(
            out,
            "{name:<40} {config:<12} {host_latency_cycles:>7} {qps:>4} {:>9} {budget:>7} {:>6}  {why}",
            "missing", ""
        )?;
    }
    writeln!(out, "\nReport: {}", path.display())?;
    report.verdict(args.check)
}

/// Two cards out of reset, which write waves to that path from there on.
fn new_cards(model: &CardModel, options: &PairOptions, wave: Option<&Path>) -> Result<Pair> {
    let mut world = World::pair(model, options.host_latency, options.wire_latency)?;
    if let Some(path) = wave {
        for (card, extension) in ["fst", "b.fst"].iter().enumerate() {
            world.card_mut(card).open_wave(&path.with_extension(extension))?;
        }
    }
    Pair::of(world.share(), options)
}

impl Rate {
    /// Whether it waits for answers of which a queue pair has few outstanding.
    fn bounded(&self) -> bool {
        matches!(self.verb, SendOpcode::Read | SendOpcode::FetchAdd) && !self.per_packet()
    }

    fn on_new_cards(
        &self,
        model: &CardModel,
        host_latency: u64,
        qps: usize,
        wave: Option<&Path>,
        cycles: &mut u64,
    ) -> Result<f64> {
        // A completion queue holds all that is completed.
        let cq_entries = (4 * self.load(qps).messages).next_power_of_two().clamp(4096, 1 << 16) as u32;
        let options = PairOptions { host_latency, cq_entries, ..PairOptions::default() };
        let pair = new_cards(model, &options, wave)?;
        let value = self.measure(&pair, qps);
        *cycles += pair.world.lock().cycle();
        value
    }
}

impl Figure {
    fn new(
        name: &str,
        (config, host_latency_cycles, qps): (&str, u64, usize),
        value: f64,
        unit: &'static str,
        budget: Option<f64>,
    ) -> Self {
        let value = (value * 1000.0).round() / 1000.0;
        let met = budget.map(|budget| value <= budget);
        let (bound, bound_by, config) = (None, None, config.into());
        Self {
            name: name.into(),
            config,
            host_latency_cycles,
            qps,
            value,
            unit,
            budget,
            bound,
            bound_by,
            met,
        }
    }

    /// A queue pair has so many READs and atomics outstanding, and each takes the way there and back.
    fn bound_by_outstanding(&mut self, round_trip: f64) {
        let bound = (round_trip / (OUTSTANDING * self.qps as f64) * 10.0).ceil() / 10.0;
        if self.budget.is_some_and(|budget| bound > budget) {
            self.bound = Some(bound);
            let why = format!("at least {bound}: {OUTSTANDING} outstanding of {round_trip} cycles each");
            self.bound_by = Some(why);
        }
    }
}

impl Report {
    /// Fails when a figure did, and for who wants it when a budget is missed that can be met.
    fn verdict(&self, check: bool) -> Result<()> {
        let mut wrong: Vec<String> = Vec::new();
        for figure in self.results.iter().filter(|figure| check && figure.met == Some(false)) {
            // What nobody can meet has its bound as budget, and a fourth of it for what is not the way there and back.
            if figure.bound.is_some_and(|bound| figure.value <= 1.25 * bound) {
                continue;
            }
            let Figure { name, config, host_latency_cycles, qps, value, .. } = figure;
            wrong.push(format!(
                "{name}, {config}, host latency {host_latency_cycles}, {qps} QPs: {value} is over {}",
                figure.bound.or(figure.budget).unwrap_or_default()
            ));
        }
        // What has no budget may be missing, where others have one: the table tells.
        let may_miss =
            |config: &str| config == BUDGETS || ["pcie", "axi"].iter().any(|bus| config.starts_with(bus));
        let missing =
            self.missing.iter().filter(|missing| missing.budget.is_some() || !may_miss(&missing.config));
        for Missing { name, config, host_latency_cycles, qps, why, .. } in missing {
            wrong.push(format!(
                "{name}, {config}, host latency {host_latency_cycles}, {qps} QPs: no figure: {why}"
            ));
        }
        anyhow::ensure!(wrong.is_empty(), "{} figures are missed:\n{}", wrong.len(), wrong.join("\n"));
        Ok(())
    }
}

/// Writes a report below `target/bench`.
fn write(report: &Report, name: &str) -> Result<(PathBuf, String)> {
    let path = ferrowire_verilator::target_dir().join("bench").join(name);
    let mut whole = serde_json::to_value(report)?;
    // The figures of `synth` stand in the same file, and stay.
    let before = fs::read_to_string(&path).ok();
    let before = before.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    if let Some(synthesis) = before.as_ref().and_then(|before| before.get("synthesis")) {
        whole["synthesis"] = synthesis.clone();
    }
    let text = serde_json::to_string_pretty(&whole)?;
    let writing = || format!("writing {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(&path)).with_context(writing)?;
    fs::write(&path, &text).with_context(writing)?;
    Ok((path, text))
}

/// Goodput under loss.
fn loss(args: &BenchArgs, configs: &[String]) -> Result<()> {
    let mtus = [PathMtu::B1024, PathMtu::B4096];
    let runs = (configs.len() * mtus.len() * LOSSES.len()) as u64 * (1 + LOSS_RUNS);
    let bar = Progress::new(runs, "{msg:48} {wide_bar} {pos}/{len}");
    let mut results = Vec::new();
    let mut table = Vec::new();
    for name in configs {
        let model = crate::demo::build_unchecked(name, &resolve(name)?, false)?;
        for mtu in mtus {
            let once = |packets: usize, loss: f64, seed: u64| {
                bar.set_message(format!("{name}, {} B, {} % lost", mtu.bytes(), 100.0 * loss));
                let options = PairOptions {
                    host_latency: LOSS_LATENCY,
                    wire_latency: LOSS_LATENCY,
                    ..PairOptions::default()
                };
                let messages = packets * mtu.bytes() / goodput::MESSAGE;
                let run = Run { mtu, messages, loss, seed };
                let result = goodput::goodput(&Pair::new(&model, &options)?, &run)
                    .with_context(|| format!("{name}, {} B, {loss} lost, seed {seed}", mtu.bytes()));
                bar.inc(1);
                result
            };
            for &(percent, loss, packets) in LOSSES {
                let whole = once(packets, 0.0, 0)?;
                let mut all = Vec::new();
                for seed in 1..=LOSS_RUNS {
                    all.push(once(packets, loss, seed)?);
                }
                let mean = |of: fn(&Goodput) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
                let share = whole.cycles as f64 / mean(|run| run.cycles as f64);
                let figure = format!("write_{}_goodput_at_{percent}_percent_loss", mtu.bytes());
                let (whose, unit) = ((name.as_str(), LOSS_LATENCY, 1), "share of the rate without loss");
                let mut figure = Figure::new(&figure, whose, share, unit, None);
                figure.value = (share * 10_000.0).round() / 10_000.0;
                results.push(figure);
                let again = mean(|run| run.again as f64) / packets as f64;
                table.push((
                    name.clone(),
                    mtu.bytes(),
                    percent,
                    whole.gbps,
                    share,
                    again,
                    mean(|run| run.timeouts as f64),
                ));
            }
        }
    }
    bar.finish_and_clear();
    let report = Report { commit: commit(), results, missing: Vec::new() };
    let (path, text) = write(&report, "loss.json")?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{text}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{:<12} {:>6} {:>7} {:>10} {:>9} {:>14} {:>10}",
        "config", "bytes", "lost", "without", "goodput", "packets again", "time-outs"
    )?;
    for (config, bytes, percent, gbps, share, again, timeouts) in table {
        writeln!(
            out,
            "{config:<12} {bytes:>6} {percent:>5} % {gbps:>5.1} Gb/s {:>7.1} % {:>12.1} % {timeouts:>10.1}",
            100.0 * share,
            100.0 * again
        )?;
    }
    writeln!(
        out,
        "\nWithout: payload at the card's clock when nothing gets lost. Goodput: the share of it that is left. Packets again: sent \
         more than once, of all. Time-outs: in a run. Means of {LOSS_RUNS} runs.\nReport: {}",
        path.display()
    )?;
    Ok(())
}

/// The commit of the tree, with a mark when files differ from it.
fn commit() -> String {
    let output =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]).output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_string(),
        _ => "unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, budget: f64) -> Figure {
        Figure::new(
            "read_64_cycles_per_message",
            ("generic-64b", 0, 1),
            value,
            "cycles/message",
            Some(budget),
        )
    }

    fn verdict(figure: Figure, check: bool) -> Result<()> {
        Report { commit: String::new(), results: vec![figure], missing: Vec::new() }.verdict(check)
    }

    #[test]
    fn a_missed_budget_fails_only_who_asks_for_a_check() {
        assert!(verdict(figure(4.0, 4.0), true).is_ok());
        assert!(verdict(figure(4.1, 4.0), false).is_ok());
        let why = verdict(figure(4.1, 4.0), true).unwrap_err().to_string();
        assert!(why.contains("read_64_cycles_per_message") && why.contains("4.1 is over 4"), "{why}");
    }

    #[test]
    fn what_the_outstanding_ones_bound_is_compared_with_that() {
        let mut bounded = figure(10.0, 4.0);
        bounded.bound_by_outstanding(142.0);
        assert_eq!((bounded.bound, bounded.met), (Some(8.9), Some(false)));
        assert!(verdict(bounded, true).is_ok());
        let mut slow = figure(19.1, 4.0);
        slow.bound_by_outstanding(142.0);
        assert!(verdict(slow, true).unwrap_err().to_string().contains("over 8.9"));
        let mut possible = figure(3.0, 4.0);
        possible.bound_by_outstanding(32.0);
        assert_eq!(possible.bound, None);
    }

    #[test]
    fn a_figure_that_is_missing_fails_where_it_has_a_budget() {
        for (budget, fails) in [(Some(4.0), true), (None, false)] {
            let (name, config, why) = ("figure".into(), BUDGETS.into(), "no luck".into());
            let missing = Missing { name, config, host_latency_cycles: 0, qps: 1, budget, why };
            let report = Report { commit: String::new(), results: Vec::new(), missing: vec![missing] };
            assert_eq!(report.verdict(false).is_err(), fails);
        }
    }

    #[test]
    fn no_two_figures_have_one_name() {
        let mut names: Vec<&str> = RATES.iter().map(|rate| rate.name).collect();
        names.extend(LATENCIES.iter().map(|latency| latency.0));
        names.extend([LONG, PUSHED]);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
