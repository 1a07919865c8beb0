// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire-rtl-gen`: the command line over the library.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ferrowire_rtl_gen::{
    choice, choose, choose_board, folder, generate, generate_board, proofs, repository, stale, write, Choice,
    Error, Output, Stale,
};
use serde_json::json;

/// Write the Verilog of a Ferrowire card or board, its register pages and its C header.
///
/// The folder of --out gets one Verilog file a module, files.f (their names, children before their parents),
/// registers.md, ferrowire_regs.h, and manifest.json: version, configuration, hash of the host interface, the top module
/// with its ports, and the SHA-256 of every file. The folder is written beside its place and then renamed, so it is
/// never half-written; an earlier output is replaced, a folder with other files in it is left alone.
#[derive(Parser)]
#[command(name = "ferrowire-rtl-gen", version, max_term_width = 100)]
#[command(after_long_help = "\
Examples:
  ferrowire-rtl-gen --list
  ferrowire-rtl-gen --config generic-64b --out rtl
  ferrowire-rtl-gen --config generic-8b --set qps=64 --set keys=128 --out rtl
  ferrowire-rtl-gen --config my-card.toml --out rtl
  ferrowire-rtl-gen --board ecpix5 --out ecpix5; sh ecpix5/build.sh
  ferrowire-rtl-gen --board u50 --out u50; vivado -mode batch -source u50/build.tcl
  ferrowire-rtl-gen --check --out rtl      would the files come out the same now?
  ferrowire-rtl-gen --check                are the generated files of the repository fresh?
  ferrowire-rtl-gen --update               renew them

Read the files from the folder that they are in, for instance:
  cd rtl && verilator --lint-only -Wall -f files.f --top-module \"$(jq -r .top manifest.json)\"
In a clone, the Verilator of `cargo xtask setup` is: env $(cargo xtask setup --print-verilator)

Exit code: 0; 1 if a check finds a stale file or something fails; 2 for a wrong command line.")]
struct Cli {
    /// A built-in configuration's name (--list shows them) or the path of a TOML file
    ///
    /// What contains a slash or ends in .toml is a path. Start from a file in hdl/configs: every field must be given.
    #[arg(long, value_name = "NAME|PATH.toml")]
    config: Option<String>,

    /// A board's name (--list shows them): its top module, constraints, and a script that makes the bitstream, with open tools or, for Alveo cards, Vivado
    #[arg(long, value_name = "NAME", conflicts_with_all = ["config", "list", "update"])]
    board: Option<String>,

    /// The folder to write, or with --check to compare
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Give a field of the configuration, or of the board's card, another value; may be repeated
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,

    /// Compare instead of writing, and name each stale file
    ///
    /// With --out: whether the folder's files are what would be written now, by --config or else by the folder's own
    /// manifest. Without: whether the generated files that the repository holds are fresh.
    #[arg(long, conflicts_with_all = ["list", "update"])]
    check: bool,

    /// Renew the generated files that the repository holds
    #[arg(long, conflicts_with_all = ["config", "out", "set", "list"])]
    update: bool,

    /// List what of the configuration's netlist makes its clock slow: long handshakes, block RAM outputs without a register, nets with many loads
    ///
    /// Fails at nothing that it finds. `cargo xtask lint` compares it with a budget.
    #[arg(long, requires = "config", conflicts_with_all = ["out", "check", "update", "list"])]
    lint: bool,

    /// Show the built-in configurations and boards
    #[arg(long, conflicts_with_all = ["config", "out", "set"])]
    list: bool,

    /// Write the circuits that `cargo xtask formal` proves into the folder of --out, and proofs.json, their list
    #[arg(long, requires = "out", conflicts_with_all = ["config", "board", "set", "check", "update", "list"])]
    proofs: bool,

    /// Answer with one JSON object on standard output
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli {
        Cli { list: true, .. } => list(cli.json),
        Cli { update: true, .. } => update(cli.json),
        Cli { lint: true, config: Some(config), .. } => {
            choose(config, &cli.set).map_err(Error::from).and_then(|choice| lint(&choice, cli.json))
        }
        Cli { proofs: true, out: Some(out), .. } => proofs::write(out).map(|()| true),
        Cli { check: true, out: Some(out), .. } => check_folder(&cli, out),
        Cli { check: true, out: None, config: None, board: None, .. } => check_repository(cli.json),
        Cli { check: false, out: Some(out), config: Some(config), .. } => choose(config, &cli.set)
            .map_err(Error::from)
            .and_then(|choice| generate(&choice))
            .and_then(|made| write_folder(&cli, &made, out)),
        Cli { check: false, out: Some(out), board: Some(board), .. } => choose_board(board, &cli.set)
            .and_then(|board| generate_board(&board))
            .and_then(|made| write_folder(&cli, &made, out)),
        _ => wrong_usage(&cli),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            if cli.json {
                answer(&json!({ "error": e.to_string() }));
            }
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn wrong_usage(cli: &Cli) -> Result<bool, Error> {
    use clap::{error::ErrorKind, CommandFactory};
    let what = match cli {
        Cli { config: Some(_), .. } => "--config needs --out: the folder to write",
        Cli { board: Some(_), .. } => "--board needs --out: the folder to write",
        Cli { out: Some(_), .. } => {
            "--out needs --config or --board: what to write; --list shows the built-in ones"
        }
        _ => "nothing to do: give --config or --board and --out, or --list, --check or --update",
    };
    Cli::command().error(ErrorKind::MissingRequiredArgument, what).exit()
}

/// To standard output; whoever closed it does not want it.
fn answer(value: &serde_json::Value) {
    let _ = writeln!(std::io::stdout(), "{value:#}");
}

fn list(json: bool) -> Result<bool, Error> {
    let all = choice::built_in()?;
    if json {
        let all = all.iter().map(|c| json!({ "name": c.name, "values": c.values }));
        let boards = ferrowire_rtl_gen::board::boards()?
            .into_iter()
            .map(|(name, title, card)| json!({ "name": name, "title": title, "card": card }));
        let (all, boards) = (all.collect::<Vec<_>>(), boards.collect::<Vec<_>>());
        answer(&json!({ "configurations": all, "boards": boards }));
        return Ok(true);
    }
    let mut out = std::io::stdout();
    let _ = writeln!(
        out,
        "{:<14} {:>6} {:>8} {:>8} {:>6} {:>6} {:>6} {:>12} {:>11}",
        "configuration", "bytes", "MHz", "Gb/s", "QPs", "CQs", "keys", "page entries", "outstanding"
    );
    for Choice { name, values: v, .. } in &all {
        let mhz = f64::from(v.clock_khz) / 1000.0;
        let gbps = mhz * 8.0 * f64::from(v.beat_bytes) / 1000.0;
        let _ = writeln!(
            out,
            "{name:<14} {:>6} {mhz:>8.1} {gbps:>8.1} {:>6} {:>6} {:>6} {:>12} {:>11}",
            v.beat_bytes, v.qps, v.cqs, v.keys, v.page_entries, v.outstanding
        );
    }
    if let Some(Choice { name, values, .. }) = all.first() {
        let _ = writeln!(out, "\nFields for --set, with the bounds over {name}:");
        for field in choice::fields(values).keys() {
            let _ = writeln!(out, "  {field:<22} {}", choice::allowed(values, field));
        }
    }
    let _ = writeln!(out, "\n{:<14} card", "board");
    for (name, title, card) in ferrowire_rtl_gen::board::boards()? {
        let card = card.unwrap_or_else(|| "none that fits yet".into());
        let _ = writeln!(out, "{name:<14} {card} on {title}");
    }
    Ok(true)
}

fn lint(choice: &Choice, json: bool) -> Result<bool, Error> {
    let found = ferrowire_rtl_gen::lint::lint(choice)?;
    if json {
        let found: Vec<_> = found
            .iter()
            .map(|f| {
                json!({ "rule": f.rule.name(), "from": f.from, "to": f.to, "signal": f.signal, "place": f.place, "text": f.text })
            })
            .collect();
        answer(&json!({ "configuration": choice.name, "findings": found }));
        return Ok(true);
    }
    let mut out = std::io::stdout();
    for f in &found {
        let _ =
            writeln!(out, "{}: {} -> {}: {} {}: {}", f.place, f.from, f.to, f.rule.name(), f.signal, f.text);
    }
    Ok(true)
}

fn write_folder(cli: &Cli, output: &Output, out: &Path) -> Result<bool, Error> {
    write(output, out)?;
    if cli.json {
        answer(&json!({ "out": out, "manifest": output.manifest }));
    } else {
        let (modules, lines) = (output.modules().count(), output.modules().map(|text| text.lines().count()));
        let lines: usize = lines.sum();
        eprintln!(
            "wrote {}: top module {}, {modules} modules, {lines} lines of Verilog",
            out.display(),
            output.manifest.top
        );
    }
    Ok(true)
}

fn check_folder(cli: &Cli, out: &Path) -> Result<bool, Error> {
    let manifest = || folder::manifest(out);
    let board = match (&cli.board, &cli.config) {
        (Some(board), _) => Some((board.clone(), cli.set.clone())),
        (None, Some(_)) => None,
        (None, None) => manifest().map(|manifest| Some((manifest.board?, manifest.set)))?,
    };
    if let Some((board, set)) = board {
        let output = generate_board(&choose_board(&board, &set)?)?;
        let mut renew = format!("cargo run -p ferrowire-rtl-gen -- --board {board}");
        for set in &cli.set {
            renew.push_str(&format!(" --set {set}"));
        }
        renew.push_str(&format!(" --out {}", out.display()));
        return report(&stale(&output.files, out, true)?, output.files.len(), &renew, cli.json);
    }
    let choice = match &cli.config {
        Some(config) => choose(config, &cli.set)?,
        None => {
            let manifest = manifest()?;
            manifest.values.validate()?;
            Choice { name: manifest.configuration, set: manifest.set, values: manifest.values }
        }
    };
    let output = generate(&choice)?;
    // A configuration that is not built in was a file, whose path is not known any more.
    let config = cli.config.clone().unwrap_or_else(|| match choose(&choice.name, &[]) {
        Ok(_) => choice.name.clone(),
        Err(_) => format!("{}.toml", choice.name),
    });
    let mut renew = format!("cargo run -p ferrowire-rtl-gen -- --config {config}");
    for set in &choice.set {
        renew.push_str(&format!(" --set {set}"));
    }
    renew.push_str(&format!(" --out {}", out.display()));
    report(&stale(&output.files, out, true)?, output.files.len(), &renew, cli.json)
}

fn report(found: &[Stale], total: usize, renew: &str, json: bool) -> Result<bool, Error> {
    if json {
        answer(&json!({ "fresh": found.is_empty(), "stale": found, "renew": renew }));
    } else if found.is_empty() {
        eprintln!("{total} files, all fresh");
    }
    if !json && !found.is_empty() {
        for Stale { path, state } in found {
            eprintln!("{}: {state}", path.display());
        }
        eprintln!("To renew: {renew}");
    }
    Ok(found.is_empty())
}

/// The repository's root: `cargo run` says where, else it is where this was built.
fn root() -> PathBuf {
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or(env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    package.parent().map(Path::to_path_buf).unwrap_or(package)
}

fn check_repository(json: bool) -> Result<bool, Error> {
    let files = repository::files()?;
    let found = repository::stale(&files, &root())?;
    report(&found, files.len(), "cargo run -p ferrowire-rtl-gen -- --update", json)
}

fn update(json: bool) -> Result<bool, Error> {
    let files = repository::files()?;
    repository::update(&files, &root())?;
    let paths: Vec<&str> = files.keys().map(String::as_str).collect();
    if json {
        answer(&json!({ "wrote": paths }));
    } else {
        eprintln!("wrote {}", paths.join(", "));
    }
    Ok(true)
}
