// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every operator of the RTL language, alone and nested, at widths from one bit to 4,096, against big integers: in the
//! native simulator, in Verilator, and folded from constants.

use ferrowire_rtl::{build, cat, lit, lit_bits, Bits, Netlist, Sig, Sim};
use ferrowire_sim::lockstep::{self, Lockstep, Rng};
use num_bigint::BigUint;

const WIDTHS: [u32; 6] = [1, 7, 64, 65, 512, 4096];
/// Width of the shift amount.
const AMOUNT: u32 = 13;

/// Operands as signals.
#[derive(Clone, Copy)]
struct Hw {
    w: u32,
    a: Sig,
    b: Sig,
    c: Sig,
    /// A shift amount.
    s: Sig,
    /// One bit.
    k: Sig,
}

/// The same as integers.
#[derive(Clone)]
struct Sw {
    w: u32,
    a: BigUint,
    b: BigUint,
    c: BigUint,
    s: u64,
    k: bool,
}

fn one() -> BigUint {
    BigUint::from(1u32)
}

fn cut(value: BigUint, w: u32) -> BigUint {
    value % (one() << w)
}

fn flag(value: bool) -> BigUint {
    BigUint::from(u32::from(value))
}

impl Sw {
    fn add(&self, x: &BigUint, y: &BigUint) -> BigUint {
        cut(x + y, self.w)
    }

    fn sub(&self, x: &BigUint, y: &BigUint) -> BigUint {
        cut((one() << self.w) + x - y, self.w)
    }

    fn not(&self, x: &BigUint) -> BigUint {
        (one() << self.w) - one() - x
    }

    fn sext(&self, x: &BigUint, w: u32) -> BigUint {
        match x.bit(u64::from(self.w) - 1) {
            true => (one() << w) - (one() << self.w) + x,
            false => x.clone(),
        }
    }

    fn slt(&self, x: &BigUint, y: &BigUint) -> bool {
        let flip = one() << (self.w - 1);
        (x ^ &flip) < (y ^ &flip)
    }

    fn shl(&self, x: &BigUint, by: u64) -> BigUint {
        cut(x << by.min(u64::from(self.w)), self.w)
    }

    fn shr(&self, x: &BigUint, by: u64) -> BigUint {
        x >> by.min(u64::from(self.w))
    }

    /// A shift amount as wide as the operands.
    fn amount(&self, x: &BigUint) -> u64 {
        u64::try_from(x).unwrap_or(u64::MAX)
    }

    fn slice(&self, x: &BigUint, low: u32, width: u32) -> BigUint {
        cut(x >> low, width)
    }
}

fn parity(x: &BigUint) -> bool {
    x.count_ones() % 2 == 1
}

fn swap(x: &BigUint, bytes: usize) -> BigUint {
    let mut le = x.to_bytes_le();
    le.resize(bytes, 0);
    BigUint::from_bytes_be(&le)
}

type Case = (&'static str, fn(&Hw) -> Sig, fn(&Sw) -> BigUint);

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("add", |h| h.a + h.b, |s| s.add(&s.a, &s.b)),
    ("sub", |h| h.a - h.b, |s| s.sub(&s.a, &s.b)),
    ("mul", |h| h.a * h.b, |s| &s.a * &s.b),
    ("and", |h| h.a & h.b, |s| &s.a & &s.b),
    ("or", |h| h.a | h.b, |s| &s.a | &s.b),
    ("xor", |h| h.a ^ h.b, |s| &s.a ^ &s.b),
    ("not", |h| !h.a, |s| s.not(&s.a)),
    ("not_not", |h| !!h.a, |s| s.a.clone()),
    ("eq", |h| h.a.eq(h.b), |s| flag(s.a == s.b)),
    ("ne", |h| h.a.ne(h.b), |s| flag(s.a != s.b)),
    ("lt", |h| h.a.lt(h.b), |s| flag(s.a < s.b)),
    ("le", |h| h.a.le(h.b), |s| flag(s.a <= s.b)),
    ("gt", |h| h.a.gt(h.b), |s| flag(s.a > s.b)),
    ("ge", |h| h.a.ge(h.b), |s| flag(s.a >= s.b)),
    ("slt", |h| h.a.slt(h.b), |s| flag(s.slt(&s.a, &s.b))),
    ("all", |h| h.a.all(), |s| flag(s.a.count_ones() == u64::from(s.w))),
    ("any", |h| h.a.any(), |s| flag(s.a.count_ones() > 0)),
    ("parity", |h| h.a.parity(), |s| flag(parity(&s.a))),
    ("msb", |h| h.a.msb(), |s| flag(s.a.bit(u64::from(s.w) - 1))),
    ("shl_const", |h| h.a << (h.w / 2), |s| s.shl(&s.a, u64::from(s.w / 2))),
    ("shr_const", |h| h.a >> (h.w / 2), |s| s.shr(&s.a, u64::from(s.w / 2))),
    ("shl_most", |h| h.a << (h.w - 1), |s| s.shl(&s.a, u64::from(s.w - 1))),
    ("shr_most", |h| h.a >> (h.w - 1), |s| s.shr(&s.a, u64::from(s.w - 1))),
    ("shl_by", |h| h.a.shl_by(h.s), |s| s.shl(&s.a, s.s)),
    ("shr_by", |h| h.a.shr_by(h.s), |s| s.shr(&s.a, s.s)),
    ("shl_by_low", |h| h.a.shl_by(h.s.trunc(3)), |s| s.shl(&s.a, s.s % 8)),
    ("shr_by_low", |h| h.a.shr_by(h.s.trunc(3)), |s| s.shr(&s.a, s.s % 8)),
    ("shl_by_wide", |h| h.a.shl_by(h.b), |s| s.shl(&s.a, s.amount(&s.b))),
    ("shr_by_wide", |h| h.a.shr_by(h.b), |s| s.shr(&s.a, s.amount(&s.b))),
    ("shl_by_lit", |h| h.a.shl_by(lit(4, 9)), |s| s.shl(&s.a, 9)),
    ("shr_by_lit", |h| h.a.shr_by(lit(4, 9)), |s| s.shr(&s.a, 9)),
    ("slice_high", |h| h.a.slice(h.w / 3, h.w - h.w / 3), |s| s.slice(&s.a, s.w / 3, s.w - s.w / 3)),
    ("slice_mid", |h| h.a.slice(h.w / 3, h.w.div_ceil(2)), |s| s.slice(&s.a, s.w / 3, s.w.div_ceil(2))),
    ("trunc", |h| h.a.trunc(h.w.div_ceil(2)), |s| s.slice(&s.a, 0, s.w.div_ceil(2))),
    ("bit", |h| h.a.bit(h.w / 2), |s| flag(s.a.bit(u64::from(s.w / 2)))),
    ("bit_at", |h| h.a.bit_at(h.s), |s| flag(s.a.bit(s.s))),
    ("cat", |h| cat(&[h.a, h.b]), |s| &s.a | &s.b << s.w),
    ("cat_mixed", |h| cat(&[h.k, h.a, lit(3, 5), h.b, h.k]), |s| {
        flag(s.k) | &s.a << 1u32 | BigUint::from(5u32) << (s.w + 1) | &s.b << (s.w + 4) | flag(s.k) << (2 * s.w + 4)
    }),
    ("zext", |h| h.a.zext(h.w + 5), |s| s.a.clone()),
    ("sext", |h| h.a.sext(h.w + 5), |s| s.sext(&s.a, s.w + 5)),
    ("sext_twice", |h| h.a.sext(2 * h.w), |s| s.sext(&s.a, 2 * s.w)),
    ("mux", |h| h.k.then(h.a, h.b), |s| if s.k { s.a.clone() } else { s.b.clone() }),
    ("repeat", |h| h.a.repeat(3), |s| &s.a | &s.a << s.w | &s.a << (2 * s.w)),
    ("swap_bytes", |h| h.a.zext(h.w.next_multiple_of(8)).swap_bytes(), |s| swap(&s.a, s.w.div_ceil(8) as usize)),
    ("inc", |h| h.a + 1, |s| s.add(&s.a, &one())),
    ("dec", |h| h.a - 1, |s| s.sub(&s.a, &one())),
    ("neg", |h| lit(h.w, 0) - h.a, |s| s.sub(&BigUint::ZERO, &s.a)),
    ("eq_one", |h| h.a.eq(1), |s| flag(s.a == one())),
    ("lt_one", |h| h.a.lt(1), |s| flag(s.a < one())),
    ("ge_zero", |h| h.a.ge(0), |_| one()),
    ("le_ones", |h| h.a.le(&Bits::ones(h.w)), |_| one()),
    ("gt_ones", |h| h.a.gt(&Bits::ones(h.w)), |_| flag(false)),
    // What Verilog's widths, which depend on the context, could break.
    ("sum_shr", |h| (h.a + h.b).shr_by(lit(1, 1)), |s| s.add(&s.a, &s.b) >> 1u32),
    ("sum_shr_const", |h| if h.w > 1 { (h.a + h.b) >> 1 } else { lit(1, 0) }, |s| s.add(&s.a, &s.b) >> 1u32),
    ("sum_shr_by", |h| (h.a + h.b).shr_by(h.s), |s| s.shr(&s.add(&s.a, &s.b), s.s)),
    ("diff_shr_by", |h| (h.a - h.b).shr_by(h.c), |s| s.shr(&s.sub(&s.a, &s.b), s.amount(&s.c))),
    ("shr_by_sum", |h| h.a.shr_by(h.b + h.c), |s| s.shr(&s.a, s.amount(&s.add(&s.b, &s.c)))),
    ("cat_sum", |h| cat(&[h.a + h.b, h.a - h.b]), |s| s.add(&s.a, &s.b) | s.sub(&s.a, &s.b) << s.w),
    ("cat_not", |h| cat(&[!h.a, h.k, !h.b]), |s| s.not(&s.a) | flag(s.k) << s.w | s.not(&s.b) << (s.w + 1)),
    ("diff_lt", |h| (h.a - h.b).lt(h.c), |s| flag(s.sub(&s.a, &s.b) < s.c)),
    ("diff_le_diff", |h| (h.a - h.b).le(h.b - h.a), |s| flag(s.sub(&s.a, &s.b) <= s.sub(&s.b, &s.a))),
    ("diff_slt", |h| (h.a - h.b).slt(h.c + 1), |s| flag(s.slt(&s.sub(&s.a, &s.b), &s.add(&s.c, &one())))),
    ("not_eq", |h| (!h.a).eq(h.b), |s| flag(s.not(&s.a) == s.b)),
    ("inc_eq", |h| (h.a + 1).eq(h.b), |s| flag(s.add(&s.a, &one()) == s.b)),
    ("and_eq", |h| (h.a & h.b).eq(h.c), |s| flag(&s.a & &s.b == s.c)),
    ("and_of_eq", |h| h.k & h.b.eq(h.c), |s| flag(s.k && s.b == s.c)),
    ("lt_eq_bit", |h| h.a.lt(h.b).eq(h.k), |s| flag((s.a < s.b) == s.k)),
    ("not_lt", |h| !h.a.lt(h.b), |s| flag(s.a >= s.b)),
    ("not_any", |h| !(h.a & h.b).any(), |s| flag((&s.a & &s.b).count_ones() == 0)),
    ("not_sum_any", |h| (!(h.a + h.b)).any(), |s| flag(s.add(&s.a, &s.b).count_ones() != u64::from(s.w))),
    ("sum_all", |h| (h.a + h.b).all(), |s| flag(s.add(&s.a, &s.b).count_ones() == u64::from(s.w))),
    ("sum_parity", |h| (h.a + h.b).parity() ^ h.k, |s| flag(parity(&s.add(&s.a, &s.b)) != s.k)),
    ("sum_mul", |h| (h.a + h.b) * (h.a - h.c), |s| s.add(&s.a, &s.b) * s.sub(&s.a, &s.c)),
    ("mul_cut", |h| (h.a * h.b).trunc(h.w) + h.c, |s| s.add(&cut(&s.a * &s.b, s.w), &s.c)),
    ("mul_narrow", |h| h.a * h.k, |s| &s.a * flag(s.k)),
    ("diff_zext", |h| (h.a - h.b).zext(h.w + 1) + h.c.zext(h.w + 1), |s| s.sub(&s.a, &s.b) + &s.c),
    ("carry", |h| (h.a.zext(h.w + 1) + h.b.zext(h.w + 1)).msb(), |s| flag((&s.a + &s.b).bit(s.w.into()))),
    ("not_zext", |h| (!h.a).zext(2 * h.w) + h.b.zext(2 * h.w), |s| cut(s.not(&s.a) + &s.b, 2 * s.w)),
    ("sum_sext", |h| (h.a + h.b).sext(h.w + 3), |s| s.sext(&s.add(&s.a, &s.b), s.w + 3)),
    ("sum_slice", |h| (h.a + h.b).slice(h.w / 2, h.w - h.w / 2), |s| s.add(&s.a, &s.b) >> (s.w / 2)),
    ("sum_bit_at", |h| (h.a + h.b).bit_at(h.s), |s| flag(s.add(&s.a, &s.b).bit(s.s))),
    ("mux_sum", |h| h.k.then(h.a, h.b) + h.c, |s| s.add(if s.k { &s.a } else { &s.b }, &s.c)),
    ("mux_chain", |h| h.k.then(h.a + h.b, h.a.lt(h.b).then(h.c, h.s.bit(0).then(!h.a, h.b))), |s| match s.k {
        true => s.add(&s.a, &s.b),
        false if s.a < s.b => s.c.clone(),
        false if s.s % 2 == 1 => s.not(&s.a),
        false => s.b.clone(),
    }),
    ("mux_of_lt", |h| (h.a + h.b).lt(h.c).then(h.a - h.c, h.b), |s| match s.add(&s.a, &s.b) < s.c {
        true => s.sub(&s.a, &s.c),
        false => s.b.clone(),
    }),
    ("shl_sum", |h| (h.a.shl_by(h.s) + h.b).shr_by(lit(1, 1)), |s| s.add(&s.shl(&s.a, s.s), &s.b) >> 1u32),
    ("not_shr", |h| (!h.a).shr_by(h.s), |s| s.shr(&s.not(&s.a), s.s)),
    ("repeat_sum", |h| (h.a + h.b).repeat(2), |s| { let x = s.add(&s.a, &s.b); &x | &x << s.w }),
    ("slice_cat", |h| cat(&[h.a, h.b]).slice(h.w / 2, h.w), |s| s.slice(&(&s.a | &s.b << s.w), s.w / 2, s.w)),
    ("slice_zext", |h| h.a.zext(2 * h.w + 70).slice(h.w / 2, h.w + 1), |s| s.slice(&s.a, s.w / 2, s.w + 1)),
];

fn all_cases() -> Netlist {
    build("ops", |m| {
        let (s, k) = (m.input("s", AMOUNT), m.input("k", 1));
        for w in WIDTHS {
            let input = |name: &str| m.input(&format!("{name}{w}"), w);
            let hw = Hw { w, a: input("a"), b: input("b"), c: input("c"), s, k };
            for (name, circuit, _) in CASES {
                m.output(&format!("{name}_{w}"), &circuit(&hw));
            }
        }
    })
    .unwrap()
}

fn big(bits: &Bits) -> BigUint {
    BigUint::from_bytes_le(&bits.to_bytes())
}

fn operands(rng: &mut Rng, round: u64, w: u32) -> [Bits; 3] {
    let zero = Bits::zero(w);
    let ones = Bits::ones(w);
    let one = Bits::new(w, 1);
    match round {
        0 => [zero.clone(), zero.clone(), zero],
        1 => [ones.clone(), ones.clone(), ones],
        2 => [ones, one, zero],
        3 => [zero, one, ones],
        4 => [one, ones.clone(), ones],
        5 => [ones.clone(), zero, ones],
        _ => {
            let mut pick = || if rng.below(2) == 0 { rng.edge(w) } else { rng.bits(w) };
            let (a, b, mut c) = (pick(), pick(), pick());
            if round % 8 == 7 {
                c = a.clone();
            }
            if round % 8 == 6 {
                return [a.clone(), a, c];
            }
            [a, b, c]
        }
    }
}

/// Shift amounts around the widths, and any.
fn amount(rng: &mut Rng) -> u64 {
    let near =
        [0, 1, 2, 6, 7, 8, 31, 32, 33, 63, 64, 65, 66, 127, 128, 511, 512, 513, 4095, 4096, 4097, 8191];
    match rng.below(3) {
        0 => rng.below(1 << AMOUNT),
        1 => rng.below(80),
        _ => near[rng.below(near.len() as u64) as usize],
    }
}

#[test]
fn operators_agree_with_big_integers_in_both_simulators() {
    let netlist = all_cases();
    let both = Lockstep::new(&netlist).unwrap();
    let (mut sim, mut model) = (both.sim(), both.model());
    let seed = 11;
    let mut rng = Rng::new(seed);
    for round in 0..400 {
        let (s, k) = (amount(&mut rng), rng.below(2));
        for (port, value) in [("s", s), ("k", k)] {
            sim.set(port, value);
            model.set_u64(model.port(port).unwrap(), value);
        }
        let mut expected = Vec::new();
        for w in WIDTHS {
            let values = operands(&mut rng, round, w);
            for (port, value) in ["a", "b", "c"].into_iter().zip(&values) {
                let port = format!("{port}{w}");
                sim.set_bits(&port, value);
                model.set_words(model.port(&port).unwrap(), value.words());
            }
            let [a, b, c] = values.each_ref().map(big);
            let sw = Sw { w, a, b, c, s, k: k == 1 };
            expected.extend(CASES.iter().map(|(name, _, plain)| (format!("{name}_{w}"), plain(&sw))));
        }
        model.eval();
        for (port, expected) in expected {
            let native = sim.get_bits(&port);
            let mut words = vec![0; native.words().len()];
            model.get_words(model.port(&port).unwrap(), &mut words);
            let verilated = Bits::from_words(native.width(), &words);
            assert!(
                big(&native) == expected,
                "seed {seed}, round {round}: {port} is {native:?} natively, not {expected:x}"
            );
            assert!(
                big(&verilated) == expected,
                "seed {seed}, round {round}: {port} is {verilated:?} in Verilator, not {expected:x}"
            );
        }
    }
}

#[test]
fn constants_fold_to_the_same_values() {
    let seed = 12;
    let mut rng = Rng::new(seed);
    for round in 0..12 {
        let (s, k) = (amount(&mut rng), rng.below(2));
        let values: Vec<[Bits; 3]> = WIDTHS.iter().map(|w| operands(&mut rng, round, *w)).collect();
        // All constant, and each operand constant beside inputs: the simplifications of one constant operand.
        for constant in 0..8u32 {
            let netlist = build("folded", |m| {
                for (w, values) in WIDTHS.into_iter().zip(&values) {
                    let operand = |i: usize, name: &str| match constant >> i & 1 {
                        1 => lit_bits(&values[i]),
                        _ => m.input(&format!("{name}{w}"), w),
                    };
                    let (a, b, c) = (operand(0, "a"), operand(1, "b"), operand(2, "c"));
                    let hw = Hw { w, a, b, c, s: lit(AMOUNT, s), k: lit(1, k) };
                    for (name, circuit, _) in CASES {
                        m.output(&format!("{name}_{w}"), &circuit(&hw));
                    }
                }
            })
            .unwrap();
            let mut sim = Sim::new(&netlist);
            for (w, values) in WIDTHS.into_iter().zip(&values) {
                for (i, name) in
                    ["a", "b", "c"].into_iter().enumerate().filter(|(i, _)| constant >> i & 1 == 0)
                {
                    sim.set_bits(&format!("{name}{w}"), &values[i]);
                }
                let [a, b, c] = values.each_ref().map(big);
                let sw = Sw { w, a, b, c, s, k: k == 1 };
                for (name, _, plain) in CASES {
                    let (is, must) = (sim.get_bits(&format!("{name}_{w}")), plain(&sw));
                    assert!(
                        big(&is) == must,
                        "seed {seed}, round {round}, constants {constant:03b}: {name}_{w} is {is:?}, not {must:x}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_operators_lint_clean() {
    lockstep::lint(&all_cases()).unwrap();
}
