// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random designs of several hundred nodes, modules and memories among them, in both simulators.
//!
//! `FERROWIRE_FUZZ=n` runs `n` designs instead of the usual few, `FERROWIRE_FUZZ_FROM=s` begins with design `s`.

use ferrowire_rtl::{build, cat, lit_bits, module, Bits, Collision, Netlist, Scope, Sig};
use ferrowire_sim::lockstep::{self, Lockstep, Rng};
use ferrowire_verilator::BuildError;

const NODES: usize = 350;

struct Fuzz {
    rng: Rng,
    pool: Vec<Sig>,
    names: u32,
}

impl Fuzz {
    fn width(&mut self) -> u32 {
        match self.rng.below(4) {
            0 => 1,
            1 => 1 + self.rng.below(8) as u32,
            _ => 1 + self.rng.below(130) as u32,
        }
    }

    /// Mostly a recent node, so that expressions grow deep.
    fn any(&mut self) -> Sig {
        let n = self.pool.len() as u64;
        let back = if self.rng.below(3) == 0 { self.rng.below(n) } else { self.rng.below(n.min(12)) };
        self.pool[(n - 1 - back) as usize]
    }

    fn of(&mut self, width: u32) -> Sig {
        if self.rng.below(8) == 0 {
            let value = if self.rng.below(2) == 0 { self.rng.edge(width) } else { self.rng.bits(width) };
            return lit_bits(&value);
        }
        let sig = self.any();
        match (sig.width() < width, self.rng.below(3)) {
            (true, 0) => sig.sext(width),
            (true, 1) => cat(&[sig, lit_bits(&Bits::ones(width - sig.width()))]),
            (true, _) => sig.zext(width),
            (false, _) => sig.slice(self.rng.below(u64::from(sig.width() - width) + 1) as u32, width),
        }
    }

    fn bit(&mut self) -> Sig {
        let sig = self.any();
        match self.rng.below(4) {
            0 => sig.any(),
            1 => sig.parity(),
            2 => sig.all(),
            _ => sig.bit(self.rng.below(sig.width().into()) as u32),
        }
    }

    fn name(&mut self, base: &str) -> String {
        self.names += 1;
        format!("{base}{}", self.names)
    }

    fn node(&mut self, m: &Scope, deep: bool) -> Sig {
        let a = self.any();
        let w = a.width();
        let b = self.of(w);
        match self.rng.below(if deep { 33 } else { 31 }) {
            0 => a + b,
            1 => a - b,
            2 => b - a,
            3 => a & b,
            4 => a | b,
            5 => a ^ b,
            6 => !a,
            7 => a.eq(b),
            8 => a.ne(b),
            9 => a.lt(b),
            10 => a.le(b),
            11 => b.lt(a),
            12 => a.slt(b),
            13 => a.all(),
            14 => a.any(),
            15 => a.parity(),
            16 => {
                let other = self.any();
                a.trunc(w.min(65)) * other.trunc(other.width().min(65))
            }
            17 => {
                let by = self.any();
                a.shl_by(by)
            }
            18 => {
                let by = self.any();
                a.shr_by(by)
            }
            19 => {
                let by = self.of(7);
                a.shr_by(by)
            }
            20 => a << self.rng.below(w.into()) as u32,
            21 => a >> self.rng.below(w.into()) as u32,
            22 => {
                let by = self.any();
                a.bit_at(by)
            }
            23 | 24 => {
                let c = self.bit();
                c.then(a, b)
            }
            25 => {
                let low = self.rng.below(w.into()) as u32;
                let width = 1 + self.rng.below(u64::from(w - low)) as u32;
                a.slice(low, width)
            }
            26 => {
                let (x, y) = (self.any(), self.bit());
                cat(&[a.trunc(w.min(60)), x.trunc(x.width().min(60)), y, y])
            }
            27 => {
                let width = self.width();
                self.of(width)
            }
            28 => a.trunc(w.min(40)).repeat(1 + self.rng.below(3) as u32),
            29 => {
                let wire = m.wire(&self.name("wire"), w);
                let (c, d, e) = (self.bit(), self.bit(), self.of(w));
                m.when(c, |m| {
                    m.set(&wire, b);
                    m.when(d, |m| m.set(&wire, e));
                })
                .otherwise_when(d, |m| m.set(&wire, !a))
                .otherwise(|m| m.set(&wire, a));
                wire
            }
            30 => {
                let reg = m.reg(&self.name("reg"), w);
                let reg = if self.rng.below(2) == 0 { reg.no_reset() } else { reg.reset(&self.rng.bits(w)) };
                let (c, d) = (self.bit(), self.bit());
                m.when(c, |m| m.set(&reg, a)).otherwise_when(d, |m| m.set(&reg, !reg));
                reg
            }
            31 => {
                let mem = m.mem(&self.name("mem"), 8, &ferrowire_rtl::bits(w)).build();
                let (we, wa, re, ra) = (self.bit(), self.of(3), self.bit(), self.of(3));
                let collision = if self.rng.below(2) == 0 { Collision::Old } else { Collision::New };
                mem.write(we, wa, &b);
                match self.rng.below(3) {
                    0 => mem.read_now(ra),
                    _ => mem.read(m, re, ra, collision),
                }
            }
            _ => {
                let inputs: Vec<Sig> = (0..1 + self.rng.below(4)).map(|_| self.any()).collect();
                let seed = self.rng.next();
                let results = inner(m, seed, inputs);
                self.pool.extend(&results[1..]);
                results[0]
            }
        }
    }
}

/// A random module.
#[module]
fn inner(m: &Scope, #[param] seed: u64, x: Vec<Sig>) -> Vec<Sig> {
    let mut fuzz = Fuzz { rng: Rng::new(seed), pool: x, names: 0 };
    for _ in 0..20 {
        let node = fuzz.node(m, false);
        fuzz.pool.push(node);
    }
    let n = fuzz.pool.len();
    let results: Vec<Sig> = (0..3).map(|i| fuzz.pool[n - 1 - 4 * i]).collect();
    fuzz.pool.iter().for_each(|s| m.discard(s));
    results
}

fn design(seed: u64) -> Netlist {
    build(&format!("fuzz{seed}"), |m| {
        let mut fuzz = Fuzz { rng: Rng::new(seed), pool: Vec::new(), names: 0 };
        for i in 0..16 {
            let width = if i == 0 { 130 } else { fuzz.width() };
            let input = m.input(&format!("in{i}"), width);
            fuzz.pool.push(input);
        }
        for i in 0..NODES {
            let mut node = fuzz.node(m, true);
            if fuzz.rng.below(6) == 0 {
                node = node.named(&format!("named{i}"));
            }
            fuzz.pool.push(node);
        }
        // Not each one: what nobody looks at is printed inline.
        for (i, sig) in fuzz.pool.clone().iter().enumerate().skip(16) {
            m.discard(sig);
            if fuzz.rng.below(3) == 0 || i + 30 > fuzz.pool.len() {
                m.output(&format!("out{i}"), sig);
            }
        }
    })
    .unwrap()
}

/// Verilator folds deeper than the builder: a random comparison may turn out constant for it. All else must be clean.
fn lint(netlist: &Netlist) {
    match lockstep::lint(netlist) {
        Err(BuildError::Lint { diagnostics, .. })
            if diagnostics.iter().all(|d| d.text.contains("-UNSIGNED") || d.text.contains("-CMPCONST")) => {}
        result => result.unwrap(),
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn random_designs_give_the_same_in_both_simulators_and_lint_clean() {
    let from = number("FERROWIRE_FUZZ_FROM").unwrap_or(0);
    for seed in from..from + number("FERROWIRE_FUZZ").unwrap_or(4) {
        let netlist = design(seed);
        lint(&netlist);
        let both = Lockstep::new(&netlist).unwrap();
        for run in 0..3 {
            both.run(run, 400);
        }
    }
}

/// Many more designs, printed only: no name is declared twice, and the same design prints the same.
#[test]
fn random_designs_print_the_same_twice() {
    for seed in 100..130 {
        assert_eq!(design(seed).verilog(), design(seed).verilog(), "seed {seed}");
    }
}
