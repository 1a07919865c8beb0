// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire-sim demo`: a file goes from one card's host to the other's, and a table says how fast that is.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{bail, ensure, Context as _, Result};
use clap::Args;
use ferrowire::{AccessFlags, Completion, PathMtu, SendOpcode, SendWr};
use ferrowire_hdl::config::RnicConfig;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use serde::Serialize;

use crate::bus::World;
use crate::card::CardModel;
use crate::config::{resolve, SetArgs};
use crate::measure::{self, Load};
use crate::pair::{Connection, Pair, PairOptions};
use crate::progress::{waiting, Progress};
use crate::say::say;

/// Bytes of the file that are registered at once.
const PIECE: usize = 1 << 20;

/// Bytes a WRITE of the file.
const CHUNK: usize = 64 << 10;

/// Bytes of the generated file.
const GENERATED: usize = 1 << 20;

/// Cycles for a chunk to complete, at most.
const PATIENCE: u64 = 2_000_000;

/// Options of the demo.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// File to send; 1 MiB of random bytes without
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Configuration of both cards: a built-in name, or a TOML file
    #[arg(long, default_value = "generic-64b", value_name = "NAME|FILE")]
    config: String,
    #[command(flatten)]
    set: SetArgs,
    /// Path MTU: 256, 512, 1024, 2048 or 4096
    #[arg(long, default_value = "1024", value_parser = parse_mtu)]
    mtu: PathMtu,
    /// Cycles that a read of host memory takes beyond the least
    #[arg(long, default_value_t = 0, value_name = "CYCLES")]
    host_latency: u64,
    /// Let the wire take a beat a cycle, which may be faster than its Ethernet rate
    #[arg(long)]
    unpaced: bool,
    /// Waves of the first message, in FST: of card A, and of card B beside it
    #[arg(long, value_name = "PATH")]
    wave: Option<PathBuf>,
    /// Print JSON on the standard output
    #[arg(long)]
    json: bool,
}

/// A path MTU from its bytes.
fn parse_mtu(text: &str) -> Result<PathMtu, String> {
    PathMtu::ALL
        .iter()
        .copied()
        .find(|mtu| mtu.bytes().to_string() == text)
        .ok_or_else(|| format!("`{text}` is not 256, 512, 1024, 2048 or 4096"))
}

/// The file's way.
#[derive(Serialize)]
struct FileReport {
    name: String,
    bytes: usize,
    cycles: u64,
    gbps: f64,
}

/// A line of the table.
#[derive(Serialize)]
struct Row {
    bytes: usize,
    cycles_per_message: f64,
    gbps: f64,
    wire_limit_gbps: f64,
    share_of_wire_limit: f64,
    doorbell_to_memory_cycles: u64,
}

/// All that the demo finds out.
#[derive(Serialize)]
struct Report {
    config: String,
    beat_bytes: u32,
    clock_khz: u32,
    line_gbps: f64,
    mtu: usize,
    host_latency_cycles: u64,
    paced: bool,
    file: FileReport,
    writes: Vec<Row>,
    capture: PathBuf,
    waves: Vec<PathBuf>,
}

/// Runs the demo.
///
/// # Errors
/// Anything that goes wrong, bytes that differ above all.
pub fn run(args: &DemoArgs) -> Result<()> {
    let config_name = args.set.over(&args.config);
    let config = resolve(&config_name)?;
    let name =
        args.file.as_ref().map_or_else(|| "1 MiB of random bytes".into(), |path| path.display().to_string());
    let data = match &args.file {
        Some(path) => std::fs::read(path).with_context(|| format!("reading {}", path.display()))?,
        None => {
            let mut data = vec![0; GENERATED];
            SmallRng::seed_from_u64(1).fill_bytes(&mut data);
            data
        }
    };
    ensure!(!data.is_empty(), "{name}: the file is empty; choose one with bytes");

    let model = build(&config_name, &config, args.wave.is_some())?;
    let mut world = World::pair(&model, args.host_latency, 0)?;
    let capture = ferrowire_verilator::target_dir().join("demo/wire.pcapng");
    world.capture(&capture)?;
    let mut waves = Vec::new();
    if let Some(path) = &args.wave {
        waves = vec![path.clone(), beside(path)];
        for (card, path) in waves.iter().enumerate() {
            world.card_mut(card).open_wave(path)?;
        }
    }
    let line = measure::line_gbps(config.beat_bytes, config.clock_khz);
    let line = (!args.unpaced).then_some(line);
    world.set_line_rate(line);
    let options = PairOptions { host_latency: args.host_latency, ..PairOptions::default() };
    let pair = Pair::of(world.share(), &options)?;
    let file = send(&pair, &data, args, name)?;
    pair.world.lock().end_capture();

    // Waves of all the table would be gigabytes.
    let pair = if waves.is_empty() {
        pair
    } else {
        drop(pair);
        let pair = Pair::new(&build(&config_name, &config, false)?, &options)?;
        pair.world.lock().set_line_rate(line);
        pair
    };
    let sizes: Vec<usize> = (3..=16).map(|log2| 1 << log2).collect();
    let bar = Progress::new(sizes.len() as u64, "{msg:24} {wide_bar} {pos}/{len}");
    let mut writes = Vec::new();
    for size in sizes {
        bar.set_message(format!("WRITE of {size} bytes"));
        let messages = ((512 << 10) / size).clamp(16, 512);
        let load =
            Load { verb: SendOpcode::Write, bytes: size, mtu: args.mtu, qps: 1, messages, shared: false };
        let rate = measure::rate(&pair, &load).with_context(|| format!("WRITE of {size} bytes"))?;
        let latency =
            measure::latency(&pair, size, args.mtu).with_context(|| format!("WRITE of {size} bytes"))?;
        writes.push(Row {
            bytes: size,
            cycles_per_message: rate.cycles_per_message,
            gbps: rate.gbps,
            wire_limit_gbps: rate.limit_gbps,
            share_of_wire_limit: rate.gbps / rate.limit_gbps,
            doorbell_to_memory_cycles: latency.memory,
        });
        bar.inc(1);
    }
    bar.finish_and_clear();

    let report = Report {
        config: config_name,
        beat_bytes: config.beat_bytes,
        clock_khz: config.clock_khz,
        line_gbps: measure::line_gbps(config.beat_bytes, config.clock_khz),
        mtu: args.mtu.bytes(),
        host_latency_cycles: args.host_latency,
        paced: !args.unpaced,
        file,
        writes,
        capture,
        waves,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        print(&mut out, &report)?;
    }
    Ok(())
}

/// The model, with a word to who waits for it.
pub(crate) fn build(name: &str, config: &RnicConfig, trace: bool) -> Result<CardModel> {
    built(name, || CardModel::rnic(config, trace))
}

/// The same of a card without assertions.
pub(crate) fn build_unchecked(name: &str, config: &RnicConfig, trace: bool) -> Result<CardModel> {
    built(name, || CardModel::unchecked(config, trace))
}

/// The same of any model.
pub(crate) fn built(name: &str, model: impl FnOnce() -> Result<CardModel>) -> Result<CardModel> {
    // What is missing is told before anybody waits.
    ferrowire_verilator::compiler_runs()?;
    install_verilator()?;
    let message = format!("building the model of {name}; the first time takes minutes, later it is kept");
    let start = Instant::now();
    let model = waiting(&message, model)?;
    if !model.cached() {
        say(format_args!("model of {name} built in {:.0} s", start.elapsed().as_secs_f64()));
    }
    Ok(model)
}

/// Installs Verilator if it is missing and `cargo xtask` has named the program that can: `FERROWIRE_SETUP`. Only commands with good
/// arguments come here.
fn install_verilator() -> Result<()> {
    let Some(program) = std::env::var_os("FERROWIRE_SETUP") else { return Ok(()) };
    if ferrowire_verilator::find().is_ok() {
        return Ok(());
    }
    let status = Command::new(&program).arg("setup").status();
    let status = status.with_context(|| format!("running {} setup", program.to_string_lossy()))?;
    ensure!(status.success(), "installing Verilator failed: {status}; run `cargo xtask setup`");
    Ok(())
}

/// Where card B's waves go: `b` before the extension.
fn beside(path: &Path) -> PathBuf {
    let extension = path.extension().map_or_else(String::new, |e| format!(".{}", e.to_string_lossy()));
    path.with_extension(format!("b{extension}"))
}

/// Sends the file from card 0's host to card 1's, piece by piece, and compares.
fn send(pair: &Pair, data: &[u8], args: &DemoArgs, name: String) -> Result<FileReport> {
    let connection = Connection { mtu: args.mtu, signal_all: true, ..Connection::default() };
    let (mut qp, _peer) = pair.connect(&connection)?;
    let size = data.len().min(PIECE);
    let source = pair.a.region(0, size, AccessFlags::LOCAL_READ)?;
    let target = pair.b.region(0, size, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE)?;
    let bar = Progress::new(data.len() as u64, "{msg:24} {wide_bar} {binary_bytes}/{binary_total_bytes}");
    bar.set_message("sending the file".into());
    let mut cycles = 0;
    for (index, piece) in data.chunks(size).enumerate() {
        source.memory().write(0, piece);
        target.memory().fill(0, piece.len(), 0);
        let start = pair.world.lock().cycle();
        let mut batch = qp.start_post_send();
        let chunks = piece.len().div_ceil(CHUNK);
        for i in 0..chunks {
            let at = i * CHUNK;
            let bytes = (piece.len() - at).min(CHUNK) as u32;
            batch.post(&SendWr::write(i as u64, &[source.sge(at, bytes)], target.remote(at)))?;
        }
        batch.ring()?;
        let mut some = [Completion::default(); 16];
        let (mut done, mut limit) = (0, start + PATIENCE);
        while done < chunks {
            let n = pair.a.cq.poll(&mut some)?;
            if let Some(bad) = some[..n].iter().find(|completion| !completion.is_success()) {
                let at = index * size + bad.wr_id() as usize * CHUNK;
                bail!("the WRITE of bytes {at:#x} and on ended with {}{}", bad.status(), pair.diagnose());
            }
            done += n;
            bar.inc((n * CHUNK).min(data.len()) as u64);
            let now = pair.world.lock().cycle();
            if n > 0 {
                limit = now + PATIENCE;
            } else if now > limit {
                let cycles = now - start;
                bail!(
                    "the card stands still: {done} of {chunks} WRITEs done after {cycles} cycles{}",
                    pair.diagnose()
                );
            }
        }
        cycles += pair.world.lock().cycle() - start;
        let arrived = crate::pair::bytes(target.memory());
        if let Some(at) = piece.iter().zip(&arrived).position(|(sent, got)| sent != got) {
            let (sent, got) = (piece[at], arrived[at]);
            bail!(
                "byte {:#x} of the file is {got:#04x} in B's memory, {sent:#04x} in A's",
                index * size + at
            );
        }
    }
    bar.finish_and_clear();
    let clock_khz = pair.world.lock().clock_khz();
    let gbps = data.len() as f64 * 8.0 * f64::from(clock_khz) / cycles as f64 / 1e6;
    Ok(FileReport { name, bytes: data.len(), cycles, gbps })
}

fn print(out: &mut impl std::io::Write, report: &Report) -> Result<()> {
    let Report { file, config, .. } = report;
    writeln!(
        out,
        "{}: {} bytes went from A's memory to B's in {} cycles, {:.2} Gb/s; every byte is the same.",
        file.name, file.bytes, file.cycles, file.gbps
    )?;
    writeln!(
        out,
        "\nRDMA WRITE, {config} ({} bytes a beat at {} MHz), path MTU {}, host latency {} cycles, wire of {} Gb/s\n",
        report.beat_bytes,
        f64::from(report.clock_khz) / 1e3,
        report.mtu,
        report.host_latency_cycles,
        report.line_gbps
    )?;
    writeln!(
        out,
        "{:>8} {:>16} {:>10} {:>13} {:>20}",
        "bytes", "cycles/message", "Gb/s", "of the wire", "doorbell to memory"
    )?;
    for row in &report.writes {
        writeln!(
            out,
            "{:>8} {:>16.1} {:>10.3} {:>12.1}% {:>13} cycles",
            row.bytes,
            row.cycles_per_message,
            row.gbps,
            100.0 * row.share_of_wire_limit,
            row.doorbell_to_memory_cycles
        )?;
    }
    writeln!(
        out,
        "\nOf the wire: the share of the payload rate that Ethernet at {} Gb/s allows with all headers, preamble, FCS and gap.",
        report.line_gbps
    )?;
    writeln!(out, "Frames of the file: {}", report.capture.display())?;
    for path in &report.waves {
        writeln!(out, "Waves: {}", path.display())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_card_has_its_waves_beside_the_first_ones() {
        assert_eq!(beside(Path::new("x/wave.fst")), Path::new("x/wave.b.fst"));
        assert_eq!(beside(Path::new("wave")), Path::new("wave.b"));
    }

    #[test]
    fn an_mtu_is_named_by_its_bytes() {
        assert_eq!(parse_mtu("4096"), Ok(PathMtu::B4096));
        assert!(parse_mtu("1500").unwrap_err().contains("1500"));
    }
}
