// SPDX-License-Identifier: MIT OR Apache-2.0
//! `synth`: what a card costs and how fast it is, with free tools.
//!
//! Two targets: `xcup`, UltraScale+, where Yosys maps and no free program places, so that the time of the paths is estimated
//! before placement ([`timing`]); and `ecp5`, an LFE5UM5G-85F, where nextpnr places, twice ([`place`]), routes, and reports the clock.
//!
//! Totals come from a flattened run, the blocks from a second one that keeps modules, which is some per cent larger:
//! there the tools cannot simplify across the modules' borders. For place-and-route the design sits in a shell of shift
//! registers ([`shell`]), which the totals do not contain.

mod budget;
mod cells;
mod memories;
mod order;
mod path;
mod shell;
mod timing;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::Path;

use anyhow::{bail, Context, Result};
use ferrowire_boards::{Alveo, Part, ALVEOS, BUILT_IN};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::flow::blif::Blif;
use crate::flow::place::{self, Design, Placed, Wishes};
use crate::flow::stat::{Block, Cost, Stat};
use crate::flow::{slowest, Critical, Flow, Manifest};
use crate::{setup, workspace};
use timing::{ClockLate, CrossingLate};

/// Options of `synth`.
#[derive(clap::Args)]
pub struct Args {
    /// A built-in configuration's name, or the path of a TOML file
    #[arg(long, value_name = "NAME|PATH.toml", required_unless_present = "board")]
    config: Option<String>,
    /// In place of a configuration, an Alveo card: all of its logic between AMD's blocks, each clock with its period
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    board: Option<String>,
    /// Give a field of the configuration another value; may be repeated
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// With a board: leave the RNIC out, which takes most of the time, and see the adapter's clocks and all crossings
    #[arg(long, requires = "board")]
    adapter: bool,
    /// What to map to; an Alveo card is xcup
    #[arg(long, value_enum, required_unless_present = "board")]
    target: Option<Target>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Leave the second run out, which gives the figures of each block; a board has none
    #[arg(long)]
    no_blocks: bool,
    /// Take the netlist of the run before, if neither the Verilog nor the way of mapping has changed since
    #[arg(long)]
    again: bool,
    /// With xcup: the period of another clock than the core's; may be repeated
    #[arg(long, value_name = "CLOCK=NS", value_parser = period)]
    period: Vec<(String, f64)>,
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
    /// UltraScale+: cells, and the time of the paths as estimated before placement
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
    /// longer paths the mapper has time enough to build it of twice the LUTs. Yosys puts an inverter before each pin that wants
    /// one, where an FPGA needs one for all pins of a net.
    fn synth(self, flow: &Flow, top: &str, flat: bool) -> Result<String> {
        if self == Target::Ecp5 {
            return flow.ecp5(top, flat);
        }
        let modules = flow.modules()?;
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
        Ok(format!(
            "{apart}synth_xilinx {options} {flatten}-run begin:map_luts\nopt_expr -mux_undef -noclkinv\nabc -lut 6\nclean\n\
             xilinx_srl -fixed -minlen 3\n\
             techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6\nxilinx_dffopt\n{together}\
             opt_lut_ins -tech xilinx\nsynth_xilinx {options} -run finalize:\n\
             opt_merge -share_all t:INV\nautoname"
        ))
    }
}

/// Modules that move bytes of a beat to other lanes: the names that `ferrowire-rtl-gen` gives them, with or without a number.
const ROTATORS: [&str; 5] = ["rotate", "blend", "realign", "join", "grh"];

fn is_rotator(module: &str) -> bool {
    let stem = module.trim_end_matches(|c: char| c.is_ascii_digit());
    ROTATORS.contains(&stem.trim_end_matches('_'))
}

/// The file that comes out.
#[derive(Serialize, Deserialize)]
pub struct Report {
    pub config: String,
    pub set: Vec<String>,
    pub commit: String,
    pub version: String,
    pub layout_hash: String,
    pub target: String,
    pub tool: String,
    #[serde(flatten)]
    pub total: Cost,
    pub longest_lut_path: u32,
    pub path: path::Path,
    /// The longest path in ns, estimated before placement; of `xcup` alone, as the two below.
    pub worst_ns: Option<f64>,
    /// Cells at which paths end.
    pub endpoints: Option<usize>,
    /// Of these, those later than the period.
    pub endpoints_over_period: Option<usize>,
    /// The same, clock by clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<ClockLate>,
    /// Paths from one clock into another, which are not among these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossings: Vec<CrossingLate>,
    pub wanted_mhz: f64,
    /// What placed it.
    pub placer: Option<String>,
    /// With which seed.
    pub seed: Option<u32>,
    /// The clock, as estimated when the design has been placed.
    pub placed_mhz: Option<f64>,
    /// Wires that more than one net wanted, in the round of the router with the fewest: none when it has been routed.
    pub contested_wires: Option<u64>,
    /// The clock when it has been routed.
    pub fmax_mhz: Option<f64>,
    pub critical_path: Option<Critical>,
    /// Why the design is of no use on the device: it does not fit, or is too slow. The program ends with 1 then.
    pub failure: Option<String>,
    pub blocks: Vec<Block>,
}

/// Which Verilog and script the netlist `flat.blif` is of, and what mapped it.
const KEY: &str = "flat.key";
/// The report of the estimate.
const TIMING: &str = "timing.txt";
/// The list of the memories.
const MEMORIES: &str = "memories.txt";
/// Empty modules with the ports of AMD's blocks, for the top of a board.
const STUBS: &str = "rtl/stubs.v";
/// The period of the Ethernet block's clock: 322.265625 MHz, 512 bits of it are 165 Gb/s (PG203, Clocking).
const CMAC_NS: f64 = 1e3 / 322.265_625;

/// A clock and its period.
fn period(text: &str) -> Result<(String, f64), String> {
    let (clock, ns) =
        text.split_once('=').ok_or("a clock's net and its period in ns are wanted: rx_clk=3.103")?;
    let ns: f64 = ns.parse().map_err(|error| format!("`{ns}` ns: {error}"))?;
    if !(ns > 0.0 && ns.is_finite()) {
        return Err(format!("a period of {ns} ns; it must be more than 0"));
    }
    Ok((clock.into(), ns))
}

/// What `ecp5` places into.
const DEVICE: &str = "LFE5UM5G-85F-8BG756C";

/// Generates, maps, places and reports.
pub fn run(args: &Args) -> Result<u8> {
    let (subject, target) = subject(args)?;
    let subject = if args.adapter { format!("{subject}-adapter") } else { subject.to_string() };
    let name = name(&subject, &args.set);
    let out = workspace::target().join("synth");
    let flow = Flow::new(out.join(format!("{name}-{}", target.name())))?;
    let job = Job { flow, target, adapter: args.adapter };
    let result = out.join(format!("{name}-{}.json", target.name()));
    workspace::remove_old(&result)?;

    // What is wrong with the configuration is said before anything is fetched.
    let manifest = job.generate(args)?;
    setup::run(&setup::Args { synth: true, ..setup::Args::default() })?;
    let flat = job.flat(&name, &manifest, args)?;
    let estimate = flat.estimate;
    let late = estimate.as_ref().map(|estimate| estimate.late);
    let blocks = if args.no_blocks || args.board.is_some() { Vec::new() } else { job.blocks(&manifest.top)? };
    let wanted_mhz = f64::from(manifest.values.clock_khz) / 1000.0;
    let part = Part::parse(DEVICE).context("an unknown part")?;
    let misfit = (target == Target::Ecp5).then(|| flat.cost.too_large(&part)).flatten();
    let placed = match (target, args.no_place, &misfit) {
        (Target::Ecp5, false, None) => Some(job.place(&manifest, &part, wanted_mhz, args)?),
        _ => None,
    };
    let placed_clock = placed.as_ref().and_then(|placed| slowest(&placed.clocks)).cloned();
    let placed_mhz = placed_clock.as_ref().map(|clock| clock.mhz);
    let seed = placed.as_ref().map(|placed| placed.seed);
    let rounds = placed.as_ref().and_then(|placed| placed.rounds);
    let stuck = rounds.and_then(|rounds| rounds.unrouted());
    let contested_wires = rounds.map(|rounds| rounds.least);
    let (placer, routed) = placed.map(|placed| (placed.placer, placed.routed)).unzip();
    let routed = routed.flatten();
    let clock = routed.as_ref().and_then(|routed| slowest(&routed.clocks)).cloned();
    let fmax_mhz = clock.as_ref().map(|clock| clock.mhz);
    let critical_path = routed.map(|routed| routed.critical);
    let clocks = [placed_mhz, fmax_mhz];
    let mut figures =
        budget::figures(&name, target.name(), &flat.cost, flat.path.luts, late, clocks, wanted_mhz);
    figures.extend(contested_wires.map(budget::contested));
    let slow = || clock.or(placed_clock).filter(|clock| clock.missed()).map(|clock| clock.to_string());
    let over = || figures.iter().find_map(budget::Figure::missed);
    let (clocks, crossings, disagreements) = estimate
        .map(|estimate| (estimate.clocks, estimate.crossings, estimate.disagreements))
        .unwrap_or_default();
    let unconstrained = || (!disagreements.is_empty()).then(|| disagreements.join("\n"));
    let failure = misfit.or(stuck).or_else(slow).or_else(over).or_else(unconstrained);
    let report = Report {
        config: subject,
        set: args.set.clone(),
        commit: workspace::commit(),
        version: manifest.version,
        layout_hash: manifest.layout_hash,
        target: target.name().into(),
        tool: flat.tool,
        total: flat.cost,
        longest_lut_path: flat.path.luts,
        path: flat.path,
        worst_ns: late.map(|late| timing::rounded(late.worst_ns)),
        endpoints: late.map(|late| late.endpoints),
        endpoints_over_period: late.map(|late| late.over),
        clocks,
        crossings,
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
    workspace::write_whole(&result, &text)?;
    let mut stdout = std::io::stdout();
    let _ = if args.json { stdout.write_all(text.as_bytes()) } else { table(&mut stdout, &report) };
    let shared = budget::report(&name, target.name(), &figures)?;
    eprintln!("{}\n{}", result.display(), shared.display());
    if let Some(failure) = &report.failure {
        eprintln!("failed: {failure}");
    }
    Ok(u8::from(report.failure.is_some()))
}

/// The configuration or the board, and what it is mapped to.
fn subject(args: &Args) -> Result<(&str, Target)> {
    match (&args.board, &args.config, args.target) {
        (Some(board), _, None | Some(Target::Xcup)) if ALVEOS.iter().any(|(name, _)| name == board) => {
            Ok((board, Target::Xcup))
        }
        (Some(board), ..) if BUILT_IN.iter().any(|(name, _)| name == board) => {
            bail!("`{board}` has an ECP5, and its clocks are those that nextpnr reports: `cargo xtask bitstream {board}`")
        }
        (Some(board), _, Some(Target::Ecp5)) => bail!("`{board}` is an Alveo card: --target is xcup"),
        (Some(board), ..) => {
            let all: Vec<&str> = ALVEOS.iter().map(|(name, _)| *name).collect();
            bail!("no board `{board}`; there are {}", all.join(", "))
        }
        (None, Some(config), Some(target)) => Ok((config, target)),
        (None, ..) => bail!("--config and --target, or --board"),
    }
}

/// A name for files: the configuration's, and what is set over it.
fn name(config: &str, set: &[String]) -> String {
    let stem = Path::new(config).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let set: String = set.iter().map(|s| format!("+{}", s.replace(' ', ""))).collect();
    // File systems take no names of more than 255 bytes.
    if set.len() > 150 {
        let mut hasher = DefaultHasher::new();
        set.hash(&mut hasher);
        return format!("{stem}+{:016x}", hasher.finish());
    }
    format!("{stem}{set}")
}

struct Job {
    flow: Flow,
    target: Target,
    /// Without the RNIC.
    adapter: bool,
}

struct Flat {
    tool: String,
    cost: Cost,
    path: path::Path,
    /// Of a target without a placer.
    estimate: Option<timing::Estimate>,
}

impl Job {
    fn generate(&self, args: &Args) -> Result<Manifest> {
        let (kind, subject) = match (&args.board, &args.config) {
            (Some(board), _) => ("--board", board.clone()),
            // `cargo` runs in the root.
            (None, Some(config)) if config.contains('/') || config.ends_with(".toml") => {
                ("--config", std::path::absolute(config)?.to_string_lossy().into_owned())
            }
            (None, config) => ("--config", config.clone().unwrap_or_default()),
        };
        let sets = args.set.iter().flat_map(|set| ["--set", set.as_str()]);
        let options: Vec<&str> = [kind, subject.as_str()].into_iter().chain(sets).collect();
        self.flow.generate(&options)
    }

    /// Yosys commands that read the design and map it.
    fn map(&self, top: &str, flat: bool) -> Result<String> {
        let synth = self.target.synth(&self.flow, top, flat)?;
        let mut read = self.flow.read_verilog()?;
        if self.flow.work.join(STUBS).exists() {
            read = format!("{} {STUBS}\n", read.trim_end());
        }
        if self.adapter {
            read += &format!("blackbox {}\n", timing::RNIC);
        }
        Ok(format!("{read}hierarchy -check -top {top}\n{synth}\n"))
    }

    fn flat(&self, name: &str, manifest: &Manifest, args: &Args) -> Result<Flat> {
        let top = &manifest.top;
        let mut script = self.map(top, true)?;
        // Parameters say which registers a block RAM has, and names of cells which memory they are of.
        let params = if self.target == Target::Xcup { "-param -cname " } else { "" };
        script += &format!("tee -q -o flat-stat.json stat -json\nwrite_blif {params}flat.blif\n");
        if self.target == Target::Ecp5 && !args.no_place {
            script += "write_json flat.json\n";
        }
        let key = self.key(&script)?;
        let tool = match self.mapped(&key).filter(|_| args.again) {
            Some(tool) => {
                eprintln!("the netlist is that of the run before");
                tool
            }
            None => {
                workspace::remove_old(&self.flow.work.join(KEY))?;
                let tool = self.flow.yosys("flat", "mapping, flattened", &script)?;
                self.flow.write(KEY, &format!("{key}\n{tool}\n"))?;
                tool
            }
        };
        let netlist = self.flow.read_netlist("flat.blif")?;
        let blif = Blif::read(&netlist)?;
        let cost = Stat::read(&self.flow.read("flat-stat.json")?, &blif)?.total(top)?;
        let estimate = match self.target {
            Target::Xcup => Some(self.estimate(name, manifest, &blif, args)?),
            Target::Ecp5 => None,
        };
        Ok(Flat { tool, cost, path: path::longest(&blif)?, estimate })
    }

    /// What a netlist depends on: the script and the Verilog.
    fn key(&self, script: &str) -> Result<String> {
        let mut hasher = Sha256::new();
        hasher.update(script);
        for module in self.flow.modules()? {
            hasher.update(self.flow.read(&format!("rtl/{module}.v"))?);
        }
        if self.flow.work.join(STUBS).exists() {
            hasher.update(self.flow.read(STUBS)?);
        }
        Ok(format!("{:x}", hasher.finalize()))
    }

    /// What has mapped the netlist that is there, if that is of this key.
    fn mapped(&self, key: &str) -> Option<String> {
        let known = self.flow.read(KEY).ok()?;
        let (of, tool) = known.trim_end().split_once('\n')?;
        (of == key).then(|| tool.to_string())
    }

    /// The time of the paths and the list of the memories; their reports go beside the netlist.
    fn estimate(
        &self,
        name: &str,
        manifest: &Manifest,
        blif: &Blif<'_>,
        args: &Args,
    ) -> Result<timing::Estimate> {
        eprintln!("estimating the time of the paths ...");
        let mut verilog = Vec::new();
        for module in self.flow.modules()? {
            verilog.push(self.flow.read(&format!("rtl/{module}.v"))?);
        }
        let sources = timing::Sources::read(&manifest.top, verilog.iter().map(String::as_str));
        let core = 1e6 / f64::from(manifest.values.clock_khz); // no clock is wanted of a card with 0
        let others = args.period.iter().cloned().collect();
        let mut periods = timing::Periods { core, others, ..timing::Periods::default() };
        let mut border = timing::Border::default();
        if let Some(name) = &args.board {
            let board = Alveo::named(name)?;
            for (pin, name, ns) in [
                (("pcie_block", "user_clk"), "core", core),
                (("cmac_block", "gt_txusrclk2"), "cmac", CMAC_NS),
                (("BUFGCE_DIV", "O"), "init", 1e6 / f64::from(board.clock.divided_khz())),
            ] {
                periods.name(blif, pin, name, ns)?;
            }
            let xdc = self.flow.read(&format!("rtl/{}.xdc", manifest.top))?;
            border = timing::Border::read(&self.flow.read(STUBS)?, &xdc)?;
        }
        let title = format!("{name} on {}", self.target.name());
        self.flow.write(MEMORIES, &memories::report(&title, blif, &sources)?)?;
        eprintln!("{}", self.flow.work.join(MEMORIES).display());
        let estimate = timing::estimate(&title, blif, &sources, &periods, &border)?;
        self.flow.write(TIMING, &estimate.text)?;
        eprintln!("{}", self.flow.work.join(TIMING).display());
        Ok(estimate)
    }

    fn blocks(&self, top: &str) -> Result<Vec<Block>> {
        let mut script = self.map(top, false)?;
        script += "tee -q -o blocks-stat.json stat -json\nwrite_blif blocks.blif\n";
        self.flow.yosys("blocks", "mapping, block by block", &script)?;
        let netlist = self.flow.read_netlist("blocks.blif")?;
        let blif = Blif::read(&netlist)?;
        let mut blocks = Stat::read(&self.flow.read("blocks-stat.json")?, &blif)?.blocks(top)?;
        let paths = path::by_block(&blif)?;
        for block in &mut blocks {
            let below = block.name.strip_prefix(top).unwrap_or(&block.name).trim_start_matches('/');
            block.longest_lut_path = paths.get(below).map(|path| path.luts);
        }
        Ok(blocks)
    }

    /// Places the flattened design in its shell, and routes it where that is wanted.
    fn place(&self, manifest: &Manifest, part: &Part, mhz: f64, args: &Args) -> Result<Placed> {
        let (name, ports) = (shell::NAME, &manifest.ports);
        self.flow.write("shell.v", &shell::shell(&manifest.top, ports))?;
        self.flow.write("shell.lpf", &shell::pins(ports)?)?;
        let script = format!(
            "read_json flat.json\nread_verilog -lib +/ecp5/cells_sim.v +/ecp5/cells_bb.v\nread_verilog shell.v\n\
             hierarchy -check -purge_lib -top {name}\nblackbox =A:whitebox\nflatten\nopt_clean -purge\n\
             write_json shell.json\n"
        );
        self.flow.yosys("shell", "wrapping", &script)?;
        let device = part.nextpnr();
        let design =
            Design { json: "shell.json", lpf: "shell.lpf", device: &device, mhz: Some(mhz), crowded: true };
        let wishes =
            Wishes { seed: args.seed, tries: args.tries, route: !args.no_route, spread: None, config: None };
        place::place(&self.flow, &design, &wishes)
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
    if let (Some(ns), Some(all), Some(over)) =
        (report.worst_ns, report.endpoints, report.endpoints_over_period)
    {
        let period = 1000.0 / report.wanted_mhz;
        writeln!(
            out,
            "estimated before placement: {ns:.2} ns, wanted {period:.2} ns; {over} of {all} endpoints over their period"
        )?;
    }
    for ClockLate { name, period_ns, worst_ns, endpoints, endpoints_over_period } in &report.clocks {
        writeln!(
            out,
            "  {name}: {worst_ns:.2} ns, wanted {period_ns:.2} ns; {endpoints_over_period} of {endpoints} endpoints over it"
        )?;
    }
    for CrossingLate { from, to, signal, endpoints, worst_ns, allowed_ns } in &report.crossings {
        let allowed = allowed_ns.map_or("no set_max_delay".into(), |ns| format!("set_max_delay {ns} ns"));
        writeln!(
            out,
            "  {from} -> {to}, not among them: {signal}, {endpoints} endpoints, {worst_ns:.2} ns, {allowed}"
        )?;
    }
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
    fn results_are_named_after_the_configuration_and_what_is_set() {
        assert_eq!(name("hdl/configs/my.toml", &["qps=64".into()]), "my+qps=64");
        assert_eq!(name("generic-8b", &[]), "generic-8b");
    }

    #[test]
    fn a_board_is_an_alveo_card_and_is_mapped_to_its_device() {
        let of = |board: &str, target| {
            let args = Args {
                board: Some(board.into()),
                adapter: false,
                target,
                config: None,
                set: Vec::new(),
                json: false,
                no_blocks: false,
                again: false,
                period: Vec::new(),
                no_route: false,
                no_place: false,
                seed: 1,
                tries: 1,
            };
            subject(&args).map(|(name, target)| (name.to_string(), target.name())).map_err(|e| e.to_string())
        };
        assert_eq!(of("u50", None), Ok(("u50".into(), "xcup")));
        assert_eq!(of("u50", Some(Target::Xcup)), Ok(("u50".into(), "xcup")));
        assert_eq!(of("u50", Some(Target::Ecp5)), Err("`u50` is an Alveo card: --target is xcup".into()));
        assert!(of("ecpix5", None).unwrap_err().ends_with("`cargo xtask bitstream ecpix5`"));
        assert!(of("u51", None).unwrap_err().starts_with("no board `u51`; there are u200, "));
    }

    #[test]
    fn a_netlist_is_taken_again_while_verilog_and_script_are_the_same() {
        let work = workspace::target().join(format!("tmp/again-{}", std::process::id()));
        let job = Job { flow: Flow::new(work.join("flow")).unwrap(), target: Target::Xcup, adapter: false };
        std::fs::create_dir_all(job.flow.work.join("rtl")).unwrap();
        job.flow.write("rtl/files.f", "a.v\n").unwrap();
        job.flow.write("rtl/a.v", "module a;").unwrap();
        let key = job.key("map").unwrap();
        assert_eq!(job.mapped(&key), None);
        job.flow.write(KEY, &format!("{key}\nYosys 0.70\n")).unwrap();
        assert_eq!(job.mapped(&job.key("map").unwrap()).as_deref(), Some("Yosys 0.70"));
        assert_eq!(job.mapped(&job.key("map otherwise").unwrap()), None);
        job.flow.write("rtl/a.v", "module a; wire b;").unwrap();
        assert_eq!(job.mapped(&job.key("map").unwrap()), None);
        workspace::remove_folder(&work).unwrap();
    }

    #[test]
    fn a_period_has_a_clock_and_a_positive_number() {
        assert_eq!(period("rx_clk=3.103"), Ok(("rx_clk".to_string(), 3.103)));
        for wrong in ["rx_clk", "rx_clk=fast", "rx_clk=0", "rx_clk=-1", "rx_clk=inf"] {
            assert!(period(wrong).is_err(), "{wrong}");
        }
    }
}
