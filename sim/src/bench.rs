// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire-sim bench`: the figures that the design has budgets for, in clock cycles.
//!
//! [`crate::measure`] says what each of them counts.

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use ferrowire::PathMtu;
use ferrowire_hdl::config::RnicConfig;
use serde::Serialize;

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
    /// Print JSON on the standard output
    #[arg(long)]
    json: bool,
}

/// A figure.
#[derive(Clone, Debug, Serialize)]
struct Figure {
    name: &'static str,
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

/// A rate: name, bytes a message, path MTU, messages; per packet rather than per message.
const RATES: &[(&str, usize, PathMtu, usize, bool)] = &[
    ("write_64_cycles_per_message", 64, PathMtu::B1024, 2048, false),
    ("write_1024_cycles_per_packet", 64 << 10, PathMtu::B1024, 32, true),
    ("write_4096_cycles_per_packet", 64 << 10, PathMtu::B4096, 64, true),
];

/// What the design allows `generic-64b` without host latency, and with it for the rates.
fn budget(figure: &Figure) -> Option<f64> {
    let (budget, rate) = match figure.name {
        "write_64_cycles_per_message" => (4.0, true),
        "write_1024_cycles_per_packet" => (17.5, true),
        "write_4096_cycles_per_packet" => (66.0, true),
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
    let (mut results, mut failed) = (Vec::new(), Vec::new());
    let each = RATES.len() * args.qps.len() + 1;
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
                name: name_of,
                config: name.clone(),
                host_latency_cycles: host_latency,
                qps,
                value: (value * 1000.0).round() / 1000.0,
                unit,
            };
            let (start, mut cycles) = (Instant::now(), 0);
            for &qps in &args.qps {
                for &(rate_name, bytes, mtu, messages, per_packet) in RATES {
                    bar.set_message(format!("{name}, {rate_name}, {qps} QPs"));
                    let load = Load { bytes, mtu, qps, messages };
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
            }
            let speed = cycles as f64 * 2.0 / start.elapsed().as_secs_f64();
            bar.set_message(format!("{name}, one message"));
            let pair = Pair::new(&model, &options)?;
            let latency = measure::latency(&pair, 64, PathMtu::B1024)
                .with_context(|| format!("{name}: one message"))?;
            results.push(figure("doorbell_to_wire_cycles", 1, latency.wire as f64, "cycles"));
            results.push(figure("doorbell_to_remote_cycles", 1, latency.memory as f64, "cycles"));
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
    let path = ferrowire_verilator::target_dir().join("bench/report.json");
    let text = serde_json::to_string_pretty(&report)?;
    let writing = || format!("writing {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(&path)).with_context(writing)?;
    fs::write(&path, &text).with_context(writing)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{text}")?;
        return verdict(&failed);
    }
    writeln!(
        out,
        "{:<30} {:<12} {:>8} {:>4} {:>12} {:>8}  unit",
        "name", "config", "latency", "QPs", "value", "budget"
    )?;
    for figure in &report.results {
        let budget = budget(figure).map_or_else(String::new, |budget| budget.to_string());
        writeln!(
            out,
            "{:<30} {:<12} {:>8} {:>4} {:>12} {:>8}  {}",
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
