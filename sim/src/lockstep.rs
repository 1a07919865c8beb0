// SPDX-License-Identifier: MIT OR Apache-2.0
//! One netlist in two simulators: the native [`Sim`] and a Verilated [`Model`] of the Verilog printed from it get the
//! same random input; every output is compared in every cycle, before and after the clocks' edges.
//!
//! ```no_run
//! # fn example(netlist: &ferrowire_rtl::Netlist) -> Result<(), ferrowire_verilator::BuildError> {
//! use ferrowire_sim::lockstep;
//!
//! lockstep::lint(netlist)?; // the Verilog passes `verilator -Wall`
//! lockstep::lockstep(netlist, 1, 1000); // one run
//! lockstep::Lockstep::new(&netlist.zoo())?.run(2, 1000); // every module by itself
//! # Ok(()) }
//! ```
//!
//! Input comes in phases: within one, a bit has a fixed probability, often 0 or 1, so that streams stall and run; a
//! wider port is held, or takes edge values, small numbers or random ones. Resets are pulsed now and then. Of several
//! clocks any set rises in a cycle. Assertions and assumptions are off, for random input breaks them.

use ferrowire_rtl::{Bits, Netlist, Sim};
use ferrowire_verilator::{build, BuildError, Library, Model, OptLevel, Options, PortId, PortSpec, Source};
use std::fmt;

/// How models of whole cards are optimised: one is compiled once for all that use it. With `O2` the compiler takes a fifth longer, and cards are as fast.
pub const CARD: OptLevel = OptLevel::O1;

/// The Verilog of a netlist, for Verilator: every port, clocks and resets among them. Black boxes are replaced by
/// stubs whose outputs are zero, as they are in the native simulator.
pub fn source(netlist: &Netlist) -> Source {
    let mut verilog = netlist.verilog();
    verilog.push_str(&netlist.black_box_stubs());
    let ports =
        netlist.ports().into_iter().map(|p| PortSpec { name: p.name, width: p.width, input: p.input });
    Source::new(netlist.top(), verilog, ports.collect())
}

/// Runs `verilator --lint-only -Wall` on the netlist's Verilog.
///
/// # Errors
/// Any warning, with the Rust line behind it.
pub fn lint(netlist: &Netlist) -> Result<(), BuildError> {
    ferrowire_verilator::lint(&source(netlist))
}

/// Builds the model and runs one lockstep of `cycles` cycles.
///
/// # Panics
/// Where the simulators differ, with the seed, the cycle, the port and both values; if the model does not build.
#[track_caller]
pub fn lockstep(netlist: &Netlist, seed: u64, cycles: u64) {
    match Lockstep::new(netlist) {
        Ok(lockstep) => lockstep.run(seed, cycles),
        Err(error) => panic!("{error}"),
    }
}

/// Where two simulators disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Seed of the run.
    pub seed: u64,
    /// Cycle, from 0.
    pub cycle: u64,
    /// The output.
    pub port: String,
    /// What the native simulator says.
    pub native: Bits,
    /// What Verilator says.
    pub verilated: Bits,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { seed, cycle, port, native, verilated } = self;
        write!(
            f,
            "seed {seed}, cycle {cycle}: `{port}` is {native:?} natively but {verilated:?} in Verilator"
        )
    }
}

impl std::error::Error for Difference {}

/// Both simulators of one netlist, built once for any number of runs.
pub struct Lockstep {
    sim: Sim,
    library: Library,
    clocks: Vec<String>,
    resets: Vec<String>,
    inputs: Vec<(String, u32)>,
    outputs: Vec<(String, u32)>,
}

/// One output in both simulators.
struct Watched<'l> {
    name: &'l str,
    width: u32,
    native: ferrowire_rtl::PortIndex,
    verilated: PortId,
}

impl Lockstep {
    /// Compiles both, for some hundreds of cycles: compiling costs more than running them, so nothing is optimised.
    ///
    /// # Errors
    /// If Verilator or the C++ compiler rejects the model.
    pub fn new(netlist: &Netlist) -> Result<Lockstep, BuildError> {
        Self::compiled(netlist, OptLevel::O0)
    }

    /// The same with the optimised model of a whole card, which other tests have built or will want.
    ///
    /// # Errors
    /// If Verilator or the C++ compiler rejects the model.
    pub fn of_card(netlist: &Netlist) -> Result<Lockstep, BuildError> {
        Self::compiled(netlist, CARD)
    }

    fn compiled(netlist: &Netlist, opt: OptLevel) -> Result<Lockstep, BuildError> {
        let library = build(&source(netlist), &Options { opt, ..Options::default() })?;
        let mut sim = Sim::new(netlist).unspoiled();
        sim.check_asserts(false);
        let ports = netlist.ports();
        let clocks: Vec<String> = ports.iter().filter(|p| p.clock).map(|p| p.name.clone()).collect();
        // Resets stand before the inputs, behind their clocks.
        let all_resets: Vec<String> = netlist.resets();
        let (mut resets, mut inputs, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
        for port in ports.into_iter().filter(|p| !p.clock) {
            match () {
                () if !port.input => outputs.push((port.name, port.width)),
                () if all_resets.contains(&port.name) => resets.push(port.name),
                // What takes registers back inside a card is as rare as a reset, or nothing else is ever seen.
                () if port.name.ends_with("__restart") => resets.push(port.name),
                () => inputs.push((port.name, port.width)),
            }
        }
        Ok(Lockstep { sim, library, clocks, resets, inputs, outputs })
    }

    /// A fresh Verilated model.
    pub fn model(&self) -> Model {
        self.library.instantiate()
    }

    /// A fresh native simulator.
    pub fn sim(&self) -> Sim {
        self.sim.clone()
    }

    /// Runs both from their initial state. `FERROWIRE_SEED` replaces the seed.
    ///
    /// # Panics
    /// Where the simulators differ.
    #[track_caller]
    pub fn run(&self, seed: u64, cycles: u64) {
        let seed = std::env::var("FERROWIRE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(seed);
        if let Err(difference) = self.check(seed, cycles) {
            panic!("{}: {difference}", self.library.top());
        }
    }

    /// Runs both from their initial state.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, seed: u64, cycles: u64) -> Result<(), Box<Difference>> {
        let (mut sim, mut model) = (self.sim(), self.model());
        let port = |name: &str| self.library.port(name).expect("a port of the netlist is one of the model");
        let mut rng = Rng::new(seed);
        let watched: Vec<Watched> = self
            .outputs
            .iter()
            .map(|(name, width)| Watched {
                name,
                width: *width,
                native: sim.port(name),
                verilated: port(name),
            })
            .collect();
        let clocks: Vec<(&str, PortId)> = self.clocks.iter().map(|c| (c.as_str(), port(c))).collect();
        let mut inputs: Vec<Input> = Vec::new();
        for (name, width, reset) in self
            .resets
            .iter()
            .map(|name| (name, 1, true))
            .chain(self.inputs.iter().map(|(name, width)| (name, *width, false)))
        {
            inputs.push(Input {
                native: sim.port(name),
                verilated: port(name),
                width,
                reset,
                mode: Mode::Zero,
                left: 0,
            });
        }

        let mut native = vec![0u64; 1];
        let mut compare = |sim: &mut Sim, model: &Model, cycle: u64| -> Result<(), Box<Difference>> {
            for output in &watched {
                let words = output.width.div_ceil(64) as usize;
                native.resize(words, 0);
                model.get_words(output.verilated, &mut native);
                let here = sim.get_bits_at(output.native);
                if here.words() != &native[..] {
                    return Err(Box::new(Difference {
                        seed,
                        cycle,
                        port: output.name.to_string(),
                        native: here,
                        verilated: Bits::from_words(output.width, &native),
                    }));
                }
            }
            Ok(())
        };

        for cycle in 0..cycles {
            for input in &mut inputs {
                if let Some(value) = input.next(&mut rng, cycle) {
                    sim.set_bits_at(input.native, &value);
                    model.set_words(input.verilated, value.words());
                }
            }
            model.eval();
            compare(&mut sim, &model, cycle)?;
            if clocks.is_empty() {
                continue;
            }
            // Mostly all clocks at once, else any of them: all relations between unrelated clocks come up.
            let all = (1u64 << clocks.len()) - 1;
            let rising = match rng.below(3) {
                0 => all,
                _ => Some(rng.next() & all).filter(|set| *set != 0).unwrap_or(all),
            };
            let names: Vec<&str> = selected(&clocks, rising).map(|(name, _)| name).collect();
            sim.tick_clocks(&names);
            for level in [1, 0] {
                model.advance(500);
                selected(&clocks, rising).for_each(|(_, clock)| model.set_u64(clock, level));
                model.eval();
                compare(&mut sim, &model, cycle)?;
            }
        }
        Ok(())
    }
}

fn selected<'c>(clocks: &'c [(&'c str, PortId)], set: u64) -> impl Iterator<Item = (&'c str, PortId)> {
    clocks.iter().enumerate().filter(move |(i, _)| set >> i & 1 == 1).map(|(_, c)| *c)
}

/// How an input behaves for a while.
#[derive(Clone, Copy)]
enum Mode {
    Zero,
    Ones,
    Held,
    /// New edge values and small numbers.
    Edges,
    Random,
    /// A bit that is high in so many of 16 cycles.
    Chance(u64),
}

struct Input {
    native: ferrowire_rtl::PortIndex,
    verilated: PortId,
    width: u32,
    reset: bool,
    mode: Mode,
    left: u64,
}

impl Input {
    /// Its new value in this cycle, if it takes one.
    fn next(&mut self, rng: &mut Rng, cycle: u64) -> Option<Bits> {
        if self.reset {
            if self.left > 0 {
                self.left -= 1;
                return None;
            }
            // High at first, then for some cycles once in a while.
            let high = cycle == 0 || (matches!(self.mode, Mode::Zero) && rng.below(3) == 0);
            self.mode = if high { Mode::Ones } else { Mode::Zero };
            self.left = if high { 1 + rng.below(3) } else { 20 + rng.below(300) };
            return Some(Bits::new(1, high.into()));
        }
        let fresh = self.left == 0;
        if fresh {
            let longest = if rng.below(4) == 0 { 100 } else { 12 };
            self.left = 1 + rng.below(longest);
            self.mode = match (self.width, rng.below(8)) {
                (_, 0) => Mode::Zero,
                (_, 1) => Mode::Ones,
                (1, 2) => Mode::Chance(1),
                (1, 3) => Mode::Chance(15),
                (1, _) => Mode::Chance(8),
                (_, 2) => Mode::Held,
                (_, 3 | 4) => Mode::Edges,
                _ => Mode::Random,
            };
        }
        self.left -= 1;
        match self.mode {
            Mode::Zero => fresh.then(|| Bits::zero(self.width)),
            Mode::Ones => fresh.then(|| Bits::ones(self.width)),
            Mode::Held => fresh.then(|| rng.bits(self.width)),
            Mode::Edges => Some(rng.edge(self.width)),
            Mode::Random => Some(rng.bits(self.width)),
            Mode::Chance(of) => Some(Bits::new(1, (rng.below(16) < of).into())),
        }
    }
}

/// A small random generator (xorshift64*): the same numbers from a seed for ever.
pub struct Rng(u64);

impl Rng {
    /// From a seed; any will do.
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// 64 random bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }

    /// A random value.
    pub fn bits(&mut self, width: u32) -> Bits {
        let words: Vec<u64> = (0..width.div_ceil(64)).map(|_| self.next()).collect();
        Bits::from_words(width, &words)
    }

    /// A value near the ends of its range, a power of two, or a small number.
    pub fn edge(&mut self, width: u32) -> Bits {
        let n = width.div_ceil(64) as usize;
        let mut words = vec![0; n];
        let bit = self.below(width.into()) as usize;
        match self.below(8) {
            0 => {}
            1 => words.fill(u64::MAX),
            2 => {
                words.fill(u64::MAX);
                words[0] -= 1;
            }
            3 => words[0] = 1,
            4 => words[bit / 64] = 1 << (bit % 64),
            5 => {
                words.fill(u64::MAX);
                words[bit / 64] ^= 1 << (bit % 64);
            }
            6 => words[(width as usize - 1) / 64] = 1 << ((width - 1) % 64),
            _ => words[0] = self.below(u64::from(width) + 2),
        }
        Bits::from_words(width, &words)
    }
}
