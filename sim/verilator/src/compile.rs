// SPDX-License-Identifier: MIT OR Apache-2.0
//! From Verilog to a shared object, through the cache.
//!
//! ```text
//!  <cache>/<top>-<hash>/     model.so, <top>.v, shim.cpp: complete, or not there at all
//!  <cache>/runtime-<hash>/   Verilator's own objects, shared by every model of one compiler, version and set of flags
//!  <cache>/headers-<hash>/   its headers as the compiler has read them, shared likewise
//!  <cache>/rejected/         Verilog that did not pass, for a look
//!  <cache>/tmp/, locks/      work in progress
//! ```
//!
//! Everything is made in `tmp/` and renamed into place, under a lock a key, so that threads and processes that want the
//! same model at once build it once. At most two compilers run at a time, over all of them (`FERROWIRE_JOBS` changes
//! that).

use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

use crate::cache::{cache_dir, compiler_slot, hash, lock, Scratch};
use crate::error::{diagnose, BuildError};
use crate::find::{find, Verilator};
use crate::sys::Library;
use crate::{shim, OptLevel, Options, Source};

/// File of a model that is loaded.
const OBJECT: &str = "model.so";

static VERILATOR_RUNS: AtomicU64 = AtomicU64::new(0);

/// How often this process has run Verilator to build a model: a cache hit does not count it up.
pub fn verilator_runs() -> u64 {
    VERILATOR_RUNS.load(Ordering::Relaxed)
}

/// Builds a model, or finds it in the cache.
///
/// The key is a hash of the Verilog, ports, defines, options, and the versions of Verilator, of the compiler and of this
/// binding. Verilator's warnings do not fail a build: [`lint`] is for that.
pub fn build(source: &Source, options: &Options) -> Result<Library, BuildError> {
    check_ports(source)?;
    compiler_runs()?;
    let verilator = find()?;
    let cache = cache_dir(options.cache_dir.as_deref());
    fs::create_dir_all(&cache).map_err(BuildError::io("creating", &cache))?;
    let compiler = Compiler::detect(source, &verilator, options)?;
    let flags = flags(source, options);
    let ports: Vec<String> =
        source.ports.iter().map(|p| format!("{} {} {}", p.name, p.width, p.input)).collect();
    let ports = ports.join("\n");
    let identity = compiler.identity(options.opt);
    let key = [&source.top, &source.verilog, &ports, &flags.join("\n"), &verilator.version, &identity];
    let key = key.into_iter().map(String::as_str).chain(shim::TEMPLATE);
    let name = format!("{}-{}", source.top, hash(key, 20));
    let folder = cache.join(&name);
    let object = folder.join(OBJECT);

    let load = |cached| Library::load(&object, source, options.trace, cached);
    if object.exists() {
        return load(true);
    }
    let _lock = lock(&cache, &name)?;
    if object.exists() {
        return load(true);
    }
    let job = Job { source, options, verilator: &verilator, compiler: &compiler, cache: &cache };
    job.build(&name, &flags, &folder)?;
    load(false)
}

/// Runs `verilator --lint-only -Wall`; a warning is an error. The one left out is DECLFILENAME, for a design is one file.
pub fn lint(source: &Source) -> Result<(), BuildError> {
    let verilator = find()?;
    let cache = cache_dir(None);
    let scratch = Scratch::new(&cache, &source.top)?;
    let file = write(scratch.path(), &format!("{}.v", source.top), &source.verilog)?;
    let mut command = verilator.command();
    command.current_dir(scratch.path()).args(["--lint-only", "-Wall", "-Wno-DECLFILENAME", "--quiet-exit"]);
    command
        .args(defines(source))
        .args(["--top-module", &source.top])
        .arg(file.file_name().unwrap_or_default());
    let (ok, output) = said(run(command)?);
    if ok && !output.contains('%') {
        return Ok(());
    }
    let diagnostics = diagnose(&output, &source.verilog, &file);
    Err(BuildError::Lint { top: source.top.clone(), verilog: keep(&cache, source)?, diagnostics })
}

fn check_ports(source: &Source) -> Result<(), BuildError> {
    let mut seen = std::collections::HashSet::new();
    for port in &source.ports {
        let problem = match () {
            () if port.width == 0 => "is 0 bits wide",
            () if !seen.insert(&port.name) => "is listed twice",
            () => continue,
        };
        return Err(port_error(source, &port.name, problem));
    }
    Ok(())
}

fn port_error(source: &Source, port: &str, problem: impl Into<String>) -> BuildError {
    BuildError::Port { top: source.top.clone(), port: port.into(), problem: problem.into() }
}

fn defines(source: &Source) -> impl Iterator<Item = String> + '_ {
    source.defines.iter().map(|d| format!("+define+{d}"))
}

/// Verilator's flags, without file names.
fn flags(source: &Source, options: &Options) -> Vec<String> {
    let mut flags: Vec<String> = [
        "--cc",
        "-O3",
        "--x-assign",
        "fast",
        "--x-initial",
        "fast",
        "--timescale-override",
        "1ps/1ps",
        // Bounds the C++ compiler's memory, and lets two of them share a model.
        "--output-split",
        "20000",
        "--output-split-cfuncs",
        "5000",
        "-Wno-fatal",
        "--quiet-exit",
    ]
    .map(String::from)
    .to_vec();
    flags.push(if options.assertions { "--assert" } else { "--no-assert" }.into());
    if options.trace {
        // Structs and memories whole; buses wider than the default limit of 256 bits are ordinary here.
        flags.extend(
            ["--trace-fst", "--trace-max-width", "8192", "--trace-max-array", "64"].map(String::from),
        );
    }
    flags.extend(defines(source));
    flags.extend(["--top-module".into(), source.top.clone()]);
    flags
}

struct Job<'a> {
    source: &'a Source,
    options: &'a Options,
    verilator: &'a Verilator,
    compiler: &'a Compiler,
    cache: &'a Path,
}

impl Job<'_> {
    fn build(&self, name: &str, flags: &[String], folder: &Path) -> Result<(), BuildError> {
        let source = self.source;
        let scratch = Scratch::new(self.cache, name)?;
        let class =
            format!("V{}", name.replace(|c: char| !c.is_ascii_alphanumeric(), "_").replace("__", "_"));
        let work = scratch.path().join("cpp");
        let verilog = format!("{}.v", source.top);
        self.verilate(scratch.path(), &class, flags, &verilog)?;

        let header = read(&work.join(format!("{class}.h")))?;
        let shim =
            shim::text(&class, &source.ports, &self.members(&shim::members(&header))?, self.options.trace);
        write(&work, "shim.cpp", &shim)?;
        let exports = write(&work, "exports.map", shim::EXPORTS)?;

        let sources = units(&work)?;
        let globals = globals(&read(&work.join(format!("{class}_classes.mk")))?);
        let mut objects = self.runtime(&globals)?;
        let levels = sources.iter().map(|source| level_of(source, self.options.opt));
        for level in levels.collect::<BTreeSet<_>>() {
            self.headers(level)?;
        }
        objects.extend(self.compile_all(&sources, &work, self.options.opt)?);

        let made = scratch.path().join("done");
        fs::create_dir(&made).map_err(BuildError::io("creating", &made))?;
        self.link(&objects, &exports, &made.join(OBJECT))?;
        fs::copy(work.join("shim.cpp"), made.join("shim.cpp")).map_err(BuildError::io("writing", &made))?;
        fs::copy(scratch.path().join(&verilog), made.join(&verilog))
            .map_err(BuildError::io("writing", &made))?;
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(BuildError::io("removing", folder))?;
        }
        fs::rename(&made, folder).map_err(BuildError::io("creating", folder))
    }

    fn verilate(
        &self,
        folder: &Path,
        class: &str,
        flags: &[String],
        verilog: &str,
    ) -> Result<(), BuildError> {
        let source = self.source;
        let file = write(folder, verilog, &source.verilog)?;
        VERILATOR_RUNS.fetch_add(1, Ordering::Relaxed);
        let mut command = self.verilator.command();
        command.current_dir(folder).args(flags).args(["--prefix", class, "--Mdir", "cpp", verilog]);
        let (ok, output) = said(run(command)?);
        if ok {
            return Ok(());
        }
        let diagnostics = diagnose(&output, &source.verilog, &file);
        Err(BuildError::Verilator {
            top: source.top.clone(),
            verilog: keep(self.cache, source)?,
            diagnostics,
        })
    }

    /// The class member of each port, both ways checked.
    fn members<'m>(&self, members: &'m [shim::Member]) -> Result<Vec<&'m str>, BuildError> {
        let source = self.source;
        if let Some(extra) = members.iter().find(|m| source.ports.iter().all(|p| p.name != m.port)) {
            return Err(port_error(source, &extra.port, "is in the Verilog but not in the list of ports"));
        }
        let of_port = |port: &crate::PortSpec| {
            let found = members.iter().find(|m| m.port == port.name);
            let found = found.ok_or_else(|| port_error(source, &port.name, "is not in the Verilog"))?;
            if (found.width, found.input) != (port.width, port.input) {
                let said =
                    |width, input| format!("an {} of {width} bits", if input { "input" } else { "output" });
                let (verilog, listed) = (said(found.width, found.input), said(port.width, port.input));
                return Err(port_error(
                    source,
                    &port.name,
                    format!("is {verilog} in the Verilog, listed as {listed}"),
                ));
            }
            Ok(found.member.as_str())
        };
        source.ports.iter().map(of_port).collect()
    }

    /// Verilator's own objects, compiled once and always optimised.
    fn runtime(&self, globals: &[String]) -> Result<Vec<PathBuf>, BuildError> {
        let identity = self.compiler.identity(OptLevel::O2);
        let root = self.verilator.root.to_string_lossy();
        let key = [&self.verilator.version, &*root, &identity, &globals.join(" ")];
        let name = format!("runtime-{}", hash(key, 20));
        let folder = self.cache.join(&name);
        let objects = || globals.iter().map(|g| folder.join(format!("{g}.o"))).collect();
        if folder.exists() {
            return Ok(objects());
        }
        let _lock = lock(self.cache, &name)?;
        if !folder.exists() {
            let scratch = Scratch::new(self.cache, &name)?;
            let include = self.verilator.root.join("include");
            let sources: Vec<PathBuf> = globals.iter().map(|g| include.join(format!("{g}.cpp"))).collect();
            let made = scratch.path().join("done");
            fs::create_dir(&made).map_err(BuildError::io("creating", &made))?;
            self.compile_all(&sources, &made, OptLevel::O2)?;
            fs::rename(&made, &folder).map_err(BuildError::io("creating", &folder))?;
        }
        Ok(objects())
    }

    /// Has Verilator's headers read once for all units of an optimisation, which takes as long as some four units save. Who has chosen a cache is about
    /// to build few models there, so it is not done then; nor with Clang, which does it in another way.
    fn headers(&self, opt: OptLevel) -> Result<(), BuildError> {
        let Some(folder) = self.headers_folder(opt).filter(|folder| !folder.exists()) else {
            return Ok(());
        };
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let _lock = lock(self.cache, &name)?;
        if folder.exists() {
            return Ok(());
        }
        let scratch = Scratch::new(self.cache, &name)?;
        let made = scratch.path().join("done");
        let header = write(&made, HEADERS, "#include \"verilated.h\"\n")?;
        let mut command = self.compiler.command(opt);
        command.args(["-x", "c++-header"]).arg(header).arg("-o").arg(made.join(format!("{HEADERS}.gch")));
        let _slot = compiler_slot(self.cache, slots())?;
        self.compiled(command, OsStr::new(HEADERS))?;
        fs::rename(&made, &folder).map_err(BuildError::io("creating", &folder))
    }

    /// Where these are, if they are used.
    fn headers_folder(&self, opt: OptLevel) -> Option<PathBuf> {
        if self.options.cache_dir.is_some() || !self.compiler.is_gnu() {
            return None;
        }
        let identity = self.compiler.identity(opt);
        let root = self.verilator.root.to_string_lossy();
        let key = [&self.verilator.version, &*root, &identity];
        Some(self.cache.join(format!("headers-{}", hash(key, 20))))
    }

    fn compile_all(
        &self,
        sources: &[PathBuf],
        out: &Path,
        opt: OptLevel,
    ) -> Result<Vec<PathBuf>, BuildError> {
        let slots = slots();
        let queue: Mutex<VecDeque<&PathBuf>> = Mutex::new(sources.iter().collect());
        let failure = Mutex::new(None);
        let worker = || loop {
            let next = queue.lock().expect("no worker panics").pop_front();
            let Some(file) = next else { return };
            let compiled = compiler_slot(self.cache, slots).and_then(|_slot| self.compile(file, out, opt));
            if let Err(e) = compiled {
                queue.lock().expect("no worker panics").clear();
                failure.lock().expect("no worker panics").get_or_insert(e);
            }
        };
        thread::scope(|scope| {
            for _ in 0..slots.min(sources.len()) {
                scope.spawn(worker);
            }
        });
        match failure.into_inner().expect("no worker panics") {
            Some(e) => Err(e),
            None => Ok(sources.iter().map(|s| object_of(s, out)).collect()),
        }
    }

    fn compile(&self, file: &Path, out: &Path, opt: OptLevel) -> Result<(), BuildError> {
        let level = level_of(file, opt);
        let mut command = self.compiler.command(level);
        // The runtime's own sources say how they want the headers read.
        let unit = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(UNIT));
        if let Some(folder) = self.headers_folder(level).filter(|folder| unit && folder.exists()) {
            command.arg("-include").arg(folder.join(HEADERS));
        }
        command.arg("-c").arg(file).arg("-o").arg(object_of(file, out));
        self.compiled(command, file.file_name().unwrap_or_default())
    }

    fn link(&self, objects: &[PathBuf], exports: &Path, out: &Path) -> Result<(), BuildError> {
        let mut command = self.compiler.command(OptLevel::O0);
        command.arg("-shared").args(objects);
        if self.options.trace {
            command.args([env!("FERROWIRE_Z_ARCHIVE"), env!("FERROWIRE_LZ4_ARCHIVE")]);
        }
        if env!("FERROWIRE_TARGET").contains("linux") {
            // Several models, each with its own copy of the runtime, must not see each other's symbols.
            let mut script = OsString::from("-Wl,-Bsymbolic,--version-script=");
            script.push(exports);
            command.arg(script);
        }
        command.args(["-pthread", "-o"]).arg(out);
        self.compiled(command, OsStr::new("linking"))
    }

    fn compiled(&self, command: Command, what: &OsStr) -> Result<(), BuildError> {
        let (ok, message) = said(run(command)?);
        if ok {
            return Ok(());
        }
        Err(BuildError::Compile {
            top: self.source.top.clone(),
            file: what.to_string_lossy().into_owned(),
            compiler: self.compiler.tool.path().display().to_string(),
            message,
        })
    }
}

/// Bytes of C++ up to which files are compiled as one. Each unit reads the headers of Verilator and of the model, which takes the compiler as long as half
/// a megabyte of the model; one of this size needs it some 400 MB of memory.
const UNIT_BYTES: u64 = 2_000_000;

/// Bytes of C++ up to which a design is one unit, with what runs once. In a larger one that is kept apart, to be compiled faster.
const WHOLE_BYTES: u64 = 400_000;

/// The files to compile, the longest first: all generated ones, small ones gathered by `#include`.
fn units(work: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let mut files: Vec<(u64, String)> = Vec::new();
    for entry in fs::read_dir(work).map_err(BuildError::io("reading", work))? {
        let entry = entry.map_err(BuildError::io("reading", work))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".cpp") {
            files.push((entry.metadata().map_or(0, |m| m.len()), name));
        }
    }
    files.sort_by(|a, b| b.cmp(a));
    let whole = files.iter().map(|(bytes, _)| bytes).sum::<u64>() <= WHOLE_BYTES;
    let mut units: Vec<(u64, bool, Vec<String>)> = Vec::new();
    for (bytes, name) in files {
        let slow = !whole && name.ends_with(SLOW);
        match units.iter_mut().find(|(sum, s, _)| *s == slow && *sum + bytes <= UNIT_BYTES) {
            Some((sum, _, names)) => {
                *sum += bytes;
                names.push(name);
            }
            None => units.push((bytes, slow, vec![name])),
        }
    }
    units.sort_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
    let unit = |(index, (_, slow, names)): (usize, &(u64, bool, Vec<String>))| {
        let text: String = names.iter().map(|n| format!("#include \"{n}\"\n")).collect();
        write(work, &format!("{UNIT}{index}{}", if *slow { SLOW } else { ".cpp" }), &text)
    };
    units.iter().enumerate().map(unit).collect()
}

/// How Verilator ends the name of a file with code that runs once, at the start, or to name the signals of a wave.
const SLOW: &str = "__Slow.cpp";

/// How the name of a file that we gather begins.
const UNIT: &str = "unit_";

/// What is compiled to the headers as the compiler has read them.
const HEADERS: &str = "headers.h";

/// How many compilers may run at a time.
fn slots() -> usize {
    env::var("FERROWIRE_JOBS").ok().and_then(|j| j.parse().ok()).unwrap_or(2)
}

/// How a file is optimised.
fn level_of(file: &Path, opt: OptLevel) -> OptLevel {
    match file.to_string_lossy().ends_with(SLOW) {
        true => OptLevel::O0,
        false => opt,
    }
}

fn object_of(source: &Path, out: &Path) -> PathBuf {
    out.join(source.file_stem().unwrap_or_default()).with_extension("o")
}

/// The runtime's sources that a model needs, from the `VM_GLOBAL_FAST += \` list of its makefile.
fn globals(makefile: &str) -> Vec<String> {
    let mut found = vec!["verilated".to_string(), "verilated_threads".to_string()];
    let mut inside = false;
    for line in makefile.lines() {
        if line.starts_with("VM_GLOBAL_") {
            inside = true;
        } else if line.trim().is_empty() {
            inside = false;
        } else if inside {
            found.push(line.trim().trim_end_matches('\\').trim().to_string());
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Whether there is a C++ compiler: to be asked before anything that takes long.
///
/// # Errors
/// There is none; the message says how to install one.
pub fn compiler_runs() -> Result<(), BuildError> {
    static RUNS: OnceLock<()> = OnceLock::new();
    if RUNS.get().is_some() {
        return Ok(());
    }
    let none = |compiler: &str, why: String| BuildError::NoCompiler { compiler: compiler.into(), why };
    let tool = quiet().try_get_compiler().map_err(|error| none("c++", error.to_string()))?;
    let name = tool.path().display().to_string();
    let asked = Command::new(tool.path()).arg("--version").output();
    let asked = asked.map_err(|error| none(&name, error.to_string()))?;
    if !asked.status.success() {
        return Err(none(&name, format!("`{name} --version` ends with {}", asked.status)));
    }
    RUNS.get_or_init(|| ());
    Ok(())
}

/// What `cc` is asked with, outside of a build script.
fn quiet() -> cc::Build {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .target(env!("FERROWIRE_TARGET"))
        .host(env!("FERROWIRE_HOST"))
        .opt_level(0) // replaced a file
        .debug(false)
        .warnings(false)
        .cargo_metadata(false)
        .cargo_warnings(false)
        .cargo_debug(false)
        .cargo_output(false)
        .out_dir(env::temp_dir());
    build
}

/// The C++ compiler as the `cc` crate finds it: `CXX`, `CXXFLAGS` and the like count.
struct Compiler {
    tool: cc::Tool,
    version: String,
}

impl Compiler {
    fn detect(source: &Source, verilator: &Verilator, options: &Options) -> Result<Self, BuildError> {
        let failed = |message: String| BuildError::Compile {
            top: source.top.clone(),
            file: "a test of flags".into(),
            compiler: "the C++ compiler (package g++)".into(),
            message,
        };
        let include = verilator.root.join("include");
        let mut build = quiet();
        build
            .pic(true)
            .include(&include)
            .include(include.join("vltstd"))
            .flag("-w")
            .flag("-fvisibility=hidden")
            .flag("-fno-strict-aliasing")
            .flag("-pthread");
        for name in shim::DEFINES {
            build.define(name, None);
        }
        let traced = if options.trace { "1" } else { "0" };
        let values = [
            ("VL_TIME_CONTEXT", "1"),
            ("VM_COVERAGE", "0"),
            ("VM_SC", "0"),
            ("VM_TRACE", traced),
            ("VM_TRACE_FST", traced),
            ("VM_TRACE_VCD", "0"),
            ("VM_TRACE_SAIF", "0"),
        ];
        for (name, value) in values {
            build.define(name, value);
        }
        if options.trace {
            build.include(env!("FERROWIRE_Z_INCLUDE")).include(env!("FERROWIRE_LZ4_INCLUDE"));
        }
        let tool = build.try_get_compiler().map_err(|e| failed(e.to_string()))?;
        if is_gnu(&tool) {
            // Otherwise inline statics of the runtime are one for all models of the process.
            build.flag("-fno-gnu-unique");
            // A cycle is thousands of assignments in a row: asking of each which others it may meet takes long and finds nothing.
            build.flag("-fno-tree-dse").flag("--param=sccvn-max-alias-queries-per-access=50");
        }
        let tool = build.try_get_compiler().map_err(|e| failed(e.to_string()))?;
        static VERSIONS: OnceLock<Mutex<Vec<(PathBuf, String)>>> = OnceLock::new();
        let mut versions = VERSIONS.get_or_init(Mutex::default).lock().unwrap_or_else(|e| e.into_inner());
        let known = versions.iter().find(|(path, _)| path == tool.path()).map(|(_, v)| v.clone());
        let version = match known {
            Some(version) => version,
            None => {
                let mut command = tool.to_command();
                command.arg("--version");
                let version = said(run(command).map_err(|e| failed(e.to_string()))?).1;
                versions.push((tool.path().to_path_buf(), version.clone()));
                version
            }
        };
        Ok(Self { tool, version })
    }

    fn is_gnu(&self) -> bool {
        is_gnu(&self.tool)
    }

    fn command(&self, opt: OptLevel) -> Command {
        let mut command = self.tool.to_command();
        command.arg(format!("-{opt:?}"));
        command
    }

    /// All that decides what the compiler makes: not the environment, which `cc` puts into the command and which is another one in each shell.
    fn identity(&self, opt: OptLevel) -> String {
        let command = self.command(opt);
        format!("{:?} {:?} {}", command.get_program(), command.get_args().collect::<Vec<_>>(), self.version)
    }
}

fn is_gnu(tool: &cc::Tool) -> bool {
    tool.is_like_gnu() && !tool.is_like_clang()
}

fn run(mut command: Command) -> Result<Output, BuildError> {
    let program = PathBuf::from(command.get_program());
    command.output().map_err(BuildError::io("running", program))
}

fn said(output: Output) -> (bool, String) {
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// A copy of rejected Verilog that outlives the scratch folder.
fn keep(cache: &Path, source: &Source) -> Result<PathBuf, BuildError> {
    write(&cache.join("rejected"), &format!("{}.v", source.top), &source.verilog)
}

fn read(path: &Path) -> Result<String, BuildError> {
    fs::read_to_string(path).map_err(BuildError::io("reading", path))
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf, BuildError> {
    let path = folder.join(name);
    fs::create_dir_all(folder).map_err(BuildError::io("creating", folder))?;
    fs::write(&path, text).map_err(BuildError::io("writing", &path))?;
    Ok(path)
}
