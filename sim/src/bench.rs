// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire-sim bench`: the figures that the design has budgets for, in clock cycles.
//!
//! [`crate::measure`] says what each of them counts; with `--loss`, [`crate::goodput`].

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use ferrowire::{PathMtu, SendOpcode, Service};
use ferrowire_hdl::config::RnicConfig;
use serde::Serialize;

use crate::goodput::{self, Goodput, Run};
use crate::measure::{self, Load};
use crate::pair::{Pair, PairOptions};

/// Options of the bench.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// Configurations, each with its own model
    #[arg(long, value_delimiter = ',', default_value = "generic-64b")]
    config: Vec<String>,
    /// Cycles that a read of host memory takes beyond the least
    #[arg(long, value_delimiter = ',', default_values_t = [0, 250], value_name = "CYCLES")]
    host_latency: Vec<u64>,
    /// Queue pairs of the rates
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8])]
    qps: Vec<usize>,
    /// Measure goodput on a wire that loses frames instead, to target/bench/loss.json: 1 us of host latency at 250 MHz and 1 us
    /// of wire each way, one queue pair, the mean of some runs
    #[arg(long, conflicts_with_all = ["host_latency", "qps"])]
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
}

/// All of them.
#[derive(Serialize)]
struct Report {
    commit: String,
    results: Vec<Figure>,
}

/// A rate: name, verb, bytes a message, path MTU, messages; per packet rather than per message; from one shared receive queue.
const RATES: &[(&str, SendOpcode, usize, PathMtu, usize, bool, bool)] = &[
    ("write_64_cycles_per_message", SendOpcode::Write, 64, PathMtu::B1024, 2048, false, false),
    ("write_1024_cycles_per_packet", SendOpcode::Write, 64 << 10, PathMtu::B1024, 32, true, false),
    ("write_4096_cycles_per_packet", SendOpcode::Write, 64 << 10, PathMtu::B4096, 64, true, false),
    ("send_64_cycles_per_message", SendOpcode::Send, 64, PathMtu::B1024, 2048, false, false),
    ("send_64_shared_cycles_per_message", SendOpcode::Send, 64, PathMtu::B1024, 2048, false, true),
    ("read_64_cycles_per_message", SendOpcode::Read, 64, PathMtu::B1024, 2048, false, false),
    ("read_1024_cycles_per_packet", SendOpcode::Read, 64 << 10, PathMtu::B1024, 32, true, false),
    ("read_4096_cycles_per_packet", SendOpcode::Read, 64 << 10, PathMtu::B4096, 64, true, false),
    ("atomic_cycles_per_message", SendOpcode::FetchAdd, 8, PathMtu::B1024, 2048, false, false),
];

/// Rates of 64-byte messages that nobody answers: name, service, verb.
const UNANSWERED: &[(&str, Service, SendOpcode)] = &[
    ("uc_send_64_cycles_per_message", Service::Uc, SendOpcode::Send),
    ("uc_write_64_cycles_per_message", Service::Uc, SendOpcode::Write),
    ("ud_send_64_cycles_per_message", Service::Ud, SendOpcode::Send),
];

/// What the design allows `generic-64b` without host latency, and with it for the rates.
fn budget(figure: &Figure) -> Option<f64> {
    let (budget, rate) = match figure.name.as_str() {
        "write_64_cycles_per_message" => (4.0, true),
        "write_1024_cycles_per_packet" => (17.5, true),
        "write_4096_cycles_per_packet" => (66.0, true),
        "send_64_cycles_per_message" | "read_64_cycles_per_message" => (4.0, true),
        "read_1024_cycles_per_packet" => (17.5, true),
        "read_4096_cycles_per_packet" => (66.0, true),
        name if UNANSWERED.iter().any(|rate| rate.0 == name) => (4.0, true),
        "atomic_cycles_per_message" => (16.0, true),
        "read_64_doorbell_to_cqe_cycles" => (180.0, false),
        "doorbell_to_wire_cycles" => (40.0, false),
        "doorbell_to_remote_cycles" => (85.0, false),
        _ => return None,
    };
    (figure.config == "generic-64b" && (rate || figure.host_latency_cycles == 0)).then_some(budget)
}

/// Runs the bench.
///
/// # Errors
/// Anything that goes wrong.
pub fn run(args: &BenchArgs) -> Result<()> {
    if args.loss {
        return loss(args);
    }
    let (mut results, mut failed) = (Vec::new(), Vec::new());
    let each = (RATES.len() + UNANSWERED.len()) * args.qps.len() + 1;
    let bar = crate::demo::bar(
        (args.config.len() * args.host_latency.len() * each) as u64,
        "{msg:48} {wide_bar} {pos}/{len}",
    );
    for name in &args.config {
        let config = RnicConfig::named(name)?;
        let model = crate::demo::build(name, &config, false)?;
        for &host_latency in &args.host_latency {
            let options = PairOptions { host_latency, ..PairOptions::default() };
            let figure = |name_of: &'static str, qps: usize, value: f64, unit: &'static str| Figure {
                name: name_of.into(),
                config: name.clone(),
                host_latency_cycles: host_latency,
                qps,
                value: (value * 1000.0).round() / 1000.0,
                unit,
            };
            let (start, mut cycles) = (Instant::now(), 0);
            for &qps in &args.qps {
                for &(rate_name, verb, bytes, mtu, messages, per_packet, shared) in RATES {
                    bar.set_message(format!("{name}, {rate_name}, {qps} QPs"));
                    let load = Load { verb, bytes, mtu, qps, messages, shared };
                    // Cards of its own: a figure that fails leaves them in no good state.
                    let pair = Pair::new(&model, &options)?;
                    let measured = measure::rate(&pair, &load);
                    cycles += pair.world.lock().cycle();
                    bar.inc(1);
                    let rate = match measured {
                        Ok(rate) => rate,
                        Err(error) => {
                            failed.push(format!(
                                "{rate_name}, {name}, host latency {host_latency}, {qps} QPs: {error:#}"
                            ));
                            continue;
                        }
                    };
                    let (value, unit) = match per_packet {
                        true => (rate.cycles_per_packet, "cycles/packet"),
                        false => (rate.cycles_per_message, "cycles/message"),
                    };
                    results.push(figure(rate_name, qps, value, unit));
                }
                for &(rate_name, service, verb) in UNANSWERED {
                    bar.set_message(format!("{name}, {rate_name}, {qps} QPs"));
                    let (bytes, mtu, messages, shared) = (64, PathMtu::B1024, 2048, false);
                    let load = Load { verb, bytes, mtu, qps, messages, shared };
                    let pair = Pair::new(&model, &options)?;
                    let measured = measure::unanswered(&pair, service, &load);
                    cycles += pair.world.lock().cycle();
                    bar.inc(1);
                    match measured {
                        Ok(rate) => {
                            results.push(figure(rate_name, qps, rate.cycles_per_message, "cycles/message"));
                        }
                        Err(error) => failed.push(format!(
                            "{rate_name}, {name}, host latency {host_latency}, {qps} QPs: {error:#}"
                        )),
                    }
                }
            }
            let speed = cycles as f64 * 2.0 / start.elapsed().as_secs_f64();
            bar.set_message(format!("{name}, one message"));
            let pair = Pair::new(&model, &options)?;
            let latency = measure::latency(&pair, 64, PathMtu::B1024)
                .with_context(|| format!("{name}: one message"))?;
            results.push(figure("doorbell_to_wire_cycles", 1, latency.wire as f64, "cycles"));
            results.push(figure("doorbell_to_remote_cycles", 1, latency.memory as f64, "cycles"));
            let pair = Pair::new(&model, &options)?;
            let read = measure::read_latency(&pair, 64, PathMtu::B1024)
                .with_context(|| format!("{name}: one READ"))?;
            results.push(figure("read_64_doorbell_to_cqe_cycles", 1, read as f64, "cycles"));
            results.push(figure(
                "simulated_cycles_per_second",
                1,
                speed.round(),
                "card cycles/s of this machine",
            ));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();

    let report = Report { commit: commit(), results };
    let (path, text) = write(&report, "report.json")?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{text}")?;
        return verdict(&failed);
    }
    writeln!(
        out,
        "{:<34} {:<12} {:>8} {:>4} {:>12} {:>8}  unit",
        "name", "config", "latency", "QPs", "value", "budget"
    )?;
    for figure in &report.results {
        let budget = budget(figure).map_or_else(String::new, |budget| budget.to_string());
        writeln!(
            out,
            "{:<34} {:<12} {:>8} {:>4} {:>12} {:>8}  {}",
            figure.name,
            figure.config,
            figure.host_latency_cycles,
            figure.qps,
            figure.value,
            budget,
            figure.unit
        )?;
    }
    writeln!(out, "\nReport: {}", path.display())?;
    verdict(&failed)
}

/// Writes a report below `target/bench`.
fn write(report: &Report, name: &str) -> Result<(PathBuf, String)> {
    let path = ferrowire_verilator::target_dir().join("bench").join(name);
    let text = serde_json::to_string_pretty(report)?;
    let writing = || format!("writing {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(&path)).with_context(writing)?;
    fs::write(&path, &text).with_context(writing)?;
    Ok((path, text))
}

/// Goodput under loss.
fn loss(args: &BenchArgs) -> Result<()> {
    let mtus = [PathMtu::B1024, PathMtu::B4096];
    let runs = (args.config.len() * mtus.len() * LOSSES.len()) as u64 * (1 + LOSS_RUNS);
    let bar = crate::demo::bar(runs, "{msg:48} {wide_bar} {pos}/{len}");
    let mut results = Vec::new();
    let mut table = Vec::new();
    for name in &args.config {
        let model = crate::demo::build(name, &RnicConfig::named(name)?, false)?;
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
                results.push(Figure {
                    name: format!("write_{}_goodput_at_{percent}_percent_loss", mtu.bytes()),
                    config: name.clone(),
                    host_latency_cycles: LOSS_LATENCY,
                    qps: 1,
                    value: (share * 10_000.0).round() / 10_000.0,
                    unit: "share of the rate without loss",
                });
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
    let report = Report { commit: commit(), results };
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

/// Fails when a figure did.
fn verdict(failed: &[String]) -> Result<()> {
    anyhow::ensure!(failed.is_empty(), "{} figures are missing:\n{}", failed.len(), failed.join("\n"));
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
