// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verbs`: builds `libibverbs.so.1` and `librdmacm.so.1` for programs of others, and stubs of the vendors' libraries that such programs link.
//!
//! | library | made of |
//! |---|---|
//! | `libibverbs.so.1` | the crate `ferrowire-verbs` as a static library, with the names and versions of `libibverbs.map` |
//! | `librdmacm.so.1` | a jump for each name, to a private name of `libibverbs.so.1` |
//! | `libmlx5.so.1`, `libefa.so.1`, `libhns.so.1` | functions that answer "not supported" |
//! | `libferrowire_paths.so` | functions of the C library for the paths that programs look at (`driver/verbs/abi/paths.c`) |
//!
//! A `cdylib` with a version script would export names without versions, so the C compiler links.

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use anyhow::{bail, Context, Result};

use crate::{cargo, workspace};

/// Options of `verbs`.
#[derive(clap::Args)]
pub struct Args {
    /// Compile without optimisation of the whole, which is quicker to build and slower to run
    #[arg(long)]
    debug: bool,
    /// Folder of the libraries; target/verbs without it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The libraries, in the order in which they are linked.
const LIBRARIES: [&str; 6] =
    ["libibverbs.so.1", "librdmacm.so.1", "libmlx5.so.1", "libefa.so.1", "libhns.so.1", PATHS];

/// The library that `ferrowire run` has programs load before all others.
const PATHS: &str = "libferrowire_paths.so";

/// Names what all was made of; written last.
const STAMP: &str = "stamp.txt";

/// Version of the names by which the libraries call each other.
const PRIVATE: &str = "FERROWIRE_1";

/// Builds what is not there, and prints the folder.
pub fn run(args: &Args) -> Result<u8> {
    let folder = build(args.debug, args.out.as_deref())?;
    println!("{}", folder.display());
    Ok(0)
}

/// The folder of the libraries, which are built if they are not there or are older than what they are made of.
pub fn build(debug: bool, out: Option<&Path>) -> Result<PathBuf> {
    let folder = out.map_or_else(|| workspace::target().join("verbs"), Path::to_path_buf);
    let profile = if debug { "dev" } else { "release" };
    let mut compile =
        cargo(["rustc", "--quiet", "--package", "ferrowire-verbs", "--lib", "--crate-type", "staticlib"]);
    compile.args(["--profile", profile]);
    if workspace::exit_code(compile)? != 0 {
        bail!("the crate ferrowire-verbs does not compile");
    }
    let archive =
        workspace::target().join(if debug { "debug" } else { "release" }).join("libferrowire_verbs.a");
    let abi = workspace::root().join("driver/verbs/abi");
    let stamp = stamp(&archive, &abi)?;
    let there = LIBRARIES.iter().all(|name| folder.join(name).is_file());
    if there && fs::read_to_string(folder.join(STAMP)).is_ok_and(|old| old == stamp) {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let partial = folder.join(format!("partial.{}", std::process::id()));
    workspace::remove_folder(&partial)?;
    fs::create_dir_all(&partial).with_context(|| format!("creating {}", partial.display()))?;
    let linked = link(&partial, &archive, &abi);
    if linked.is_err() {
        workspace::remove_folder(&partial)?;
    }
    linked?;
    workspace::remove_old(&folder.join(STAMP))?;
    for name in LIBRARIES {
        // Whole, or as it was: a program that runs keeps the old one.
        fs::rename(partial.join(name), folder.join(name))
            .with_context(|| format!("putting {name} in its place"))?;
    }
    workspace::write_whole(&folder.join(STAMP), &stamp)?;
    workspace::remove_folder(&partial)?;
    Ok(folder)
}

/// What the libraries are made of: this program, the C compiler's name, the crate as it was compiled last, and the facts of the ABI.
fn stamp(archive: &Path, abi: &Path) -> Result<String> {
    let compiler = std::env::var("CC").unwrap_or_default();
    let mut program = DefaultHasher::new();
    include_str!("verbs.rs").hash(&mut program);
    let mut text = format!("{PRIVATE}\n{:016x}\ncompiler {compiler}\n", program.finish());
    let mut add = |path: &Path| -> Result<()> {
        let about = fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
        let time = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        writeln!(text, "{} {} {}", path.display(), about.len(), time.as_nanos())?;
        Ok(())
    };
    add(archive)?;
    let maps = [
        "libibverbs.map",
        "librdmacm.map",
        "libmlx5.map",
        "libefa.map",
        "libhns.map",
        "private.S",
        "paths.c",
    ];
    let lists = ["symbols/libmlx5.txt", "symbols/libefa.txt", "symbols/libhns.txt"];
    maps.iter().chain(&lists).try_for_each(|name| add(&abi.join(name)))?;
    Ok(text)
}

/// A run of the C compiler: `CC`, or `cc`.
fn compiler() -> Command {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("cc"));
    command.args(words);
    command
}

fn finish(mut command: Command, library: &str) -> Result<()> {
    const FIX: &str = "install a C compiler with GNU ld or a linker that takes its options, or set CC";
    let said = command.output().with_context(|| format!("running the C compiler; {FIX}"))?;
    if !said.status.success() {
        bail!("{library} cannot be linked; {FIX}:\n{}", String::from_utf8_lossy(&said.stderr).trim());
    }
    Ok(())
}

/// Names of a version script.
fn names(script: &str) -> Vec<&str> {
    let lines = script.lines().map(str::trim).filter_map(|line| line.strip_suffix(';'));
    let is_name =
        |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    lines.filter(is_name).collect()
}

/// Links all libraries in a folder.
fn link(folder: &Path, archive: &Path, abi: &Path) -> Result<()> {
    let read = |name: &str| {
        let path = abi.join(name);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display())).map(|()| path)
    };
    let shared = |library: &str, script: &Path| {
        let mut command = compiler();
        command.args(["-shared", "-fPIC", "-O2", "-o"]).arg(folder.join(library));
        command.arg(format!("-Wl,-soname,{library}"));
        command.arg(format!("-Wl,--version-script={}", script.display()));
        // A thread of the library runs until the process ends, so the library stays.
        command.args([
            "-Wl,-z,nodelete",
            "-Wl,-z,now",
            "-Wl,-z,noexecstack",
            "-Wl,--no-undefined",
            "-Wl,-Bsymbolic-functions",
        ]);
        command
    };
    let mut verbs = read("libibverbs.map")?;
    let last =
        verbs.lines().filter_map(|line| line.strip_prefix("IBVERBS_1.")?.strip_suffix(" {")).next_back();
    let last = last.context("libibverbs.map has no versions")?.to_string();
    write!(verbs, "\n{PRIVATE} {{\n    global:\n        ferrowire_*;\n}} IBVERBS_1.{last};\n")?;
    let mut command = shared("libibverbs.so.1", &write("libibverbs.map", &verbs)?);
    command.arg(abi.join("private.S"));
    command.arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive").arg("-Wl,--gc-sections");
    command.args(["-lgcc_s", "-lpthread", "-ldl", "-lm", "-lc"]);
    finish(command, "libibverbs.so.1")?;

    let script = read("librdmacm.map")?;
    let mut jumps = String::from(JUMPS);
    for name in names(&script) {
        writeln!(jumps, "    .globl {name}\n    .type {name}, %function\n{name}:\n    JUMP({name})")?;
    }
    let mut command = shared("librdmacm.so.1", &write("librdmacm.map", &script)?);
    command.arg(write("librdmacm.S", &jumps)?).arg(folder.join("libibverbs.so.1"));
    command.arg("-Wl,-rpath,$ORIGIN");
    finish(command, "librdmacm.so.1")?;

    for stub in ["libmlx5", "libefa", "libhns"] {
        let script = read(&format!("{stub}.map"))?;
        let list = read(&format!("symbols/{stub}.txt"))?;
        let source = write(&format!("{stub}.c"), &stub_source(&list)?)?;
        let library = format!("{stub}.so.1");
        let mut command = shared(&library, &write(&format!("{stub}.map"), &script)?);
        command.arg(source).arg(folder.join("libibverbs.so.1")).arg("-Wl,-rpath,$ORIGIN");
        finish(command, &library)?;
    }

    let mut command = compiler();
    // It has functions of the C library, which fortified headers would define too.
    command.args(["-shared", "-fPIC", "-O2", "-U_FORTIFY_SOURCE", "-Wl,-z,now", "-Wl,-z,noexecstack", "-o"]);
    command.arg(folder.join(PATHS)).arg(abi.join("paths.c"));
    command.args([&format!("-Wl,-soname,{PATHS}"), "-ldl"]);
    finish(command, PATHS)
}

/// Before the jumps of `librdmacm.so.1`.
const JUMPS: &str = "\
#if defined(__x86_64__)
#define JUMP(name) jmp *ferrowire_##name@GOTPCREL(%rip)
#elif defined(__aarch64__)
#define JUMP(name) b ferrowire_##name
#elif defined(__riscv)
#define JUMP(name) tail ferrowire_##name@plt
#endif
    .section .note.GNU-stack, \"\", %progbits
    .text
";

/// A stub: each function says its name to the log and answers that it is not supported.
fn stub_source(list: &str) -> Result<String> {
    let mut text = String::from("#include <errno.h>\nextern void ferrowire_stub(const char *);\n");
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (Some(symbol), Some(result)) = (words.next(), words.next()) else {
            bail!("`{line}` is no line of a list of symbols");
        };
        let name = symbol.split('@').next().unwrap_or(symbol);
        let (ty, value) = match result {
            "void" => ("void", ""),
            "_Bool" => ("_Bool", "0"),
            "int" => ("int", "EOPNOTSUPP"),
            "ssize_t" => ("long", "-1"),
            // A pointer, or what is not known: null either way.
            _ => ("void *", "0"),
        };
        writeln!(text, "{ty} {name}(void) {{ ferrowire_stub(\"{name}\"); return {value}; }}")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_version_script_are_those_between_its_braces() {
        let script = "/* comment; */\nA_1.0 {\n    global:\n        one;\n        two_2;\n    local:\n        *;\n};\n\nA_1.1 {\n} A_1.0;\n";
        assert_eq!(names(script), ["one", "two_2"]);
        assert_eq!(names(include_str!("../../driver/verbs/abi/librdmacm.map")).len(), 74);
    }

    #[test]
    fn stubs_answer_by_the_types_of_their_results() {
        let source =
            stub_source("# head\na@X_1.0 pointer p\nb@X_1.0 int p\nc@X_1.0 void p\nd@X_1.0 _Bool p\n")
                .unwrap();
        for expected in
            ["void * a(void)", "int b(void)", "return EOPNOTSUPP;", "void c(void)", "_Bool d(void)"]
        {
            assert!(source.contains(expected), "{source}");
        }
        assert!(stub_source("nothing\n").is_err());
    }
}
