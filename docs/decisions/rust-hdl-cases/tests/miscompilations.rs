// SPDX-License-Identifier: MIT OR Apache-2.0
//! Six expressions whose Rust simulation and whose Verilog disagree, in rust-hdl 0.46.
//!
//! They are one ordinary [`LogicBlock`] that rust-hdl accepts: `check_all` passes and `generate_verilog` prints
//! it. The same inputs go through rust-hdl's own simulator and, with the printed Verilog, through Verilator.
//! Both values are asserted as they were recorded, so that a fixed rust-hdl fails the test.
//!
//! | output | printed as | what Verilog does with it |
//! |---|---|---|
//! | `cast_of_sum` | `((a + b) & 16'hffff)` | the mask widens the operands, so the carry survives |
//! | `cast_of_not` | `((~a) & 16'hffff)` | `a` is widened before it is inverted |
//! | `not_equals` | `(~a) == 32'hf` | likewise, to the 32 bits of the literal |
//! | `ring_full` | `a + 32'h1 == b` | a ring pointer never wraps |
//! | `ring_near` | `(a - b) < 32'h5` | a ring distance never wraps |
//! | `and_equals` | `p & q == r` | `==` binds tighter than `&`; in Rust it is the other way round |
//!
//! All operands of the last are one bit wide, so no width check and no lint sees it.

use ferrowire_verilator::{build, Options, PortSpec, Source};
use rust_hdl_core::prelude::*;

/// The expressions, and one (`sum`) on which both sides agree: what differs is not the test's own wiring.
#[derive(LogicBlock, Default)]
struct Kernels {
    pub a: Signal<In, Bits<8>>,
    pub b: Signal<In, Bits<8>>,
    pub p: Signal<In, Bit>,
    pub q: Signal<In, Bit>,
    pub r: Signal<In, Bit>,
    pub sum: Signal<Out, Bits<8>>,
    pub cast_of_sum: Signal<Out, Bits<16>>,
    pub cast_of_not: Signal<Out, Bits<16>>,
    pub not_equals: Signal<Out, Bit>,
    pub ring_full: Signal<Out, Bit>,
    pub ring_near: Signal<Out, Bit>,
    pub and_equals: Signal<Out, Bit>,
}

impl Logic for Kernels {
    #[hdl_gen]
    fn update(&mut self) {
        self.sum.next = self.a.val() + self.b.val();
        self.cast_of_sum.next = bit_cast::<16, 8>(self.a.val() + self.b.val());
        self.cast_of_not.next = bit_cast::<16, 8>(!self.a.val());
        self.not_equals.next = (!self.a.val()) == 0x0F;
        self.ring_full.next = self.a.val() + 1 == self.b.val();
        self.ring_near.next = (self.a.val() - self.b.val()) < 5;
        self.and_equals.next = self.p.val() & self.q.val() == self.r.val();
    }
}

/// Name, width and direction of each port of [`Kernels`].
const PORTS: [(&str, u32, bool); 12] = [
    ("a", 8, true),
    ("b", 8, true),
    ("p", 1, true),
    ("q", 1, true),
    ("r", 1, true),
    ("sum", 8, false),
    ("cast_of_sum", 16, false),
    ("cast_of_not", 16, false),
    ("not_equals", 1, false),
    ("ring_full", 1, false),
    ("ring_near", 1, false),
    ("and_equals", 1, false),
];

/// One expression with the inputs that show it, and the two values recorded with rust-hdl 0.46.0.
struct Case {
    output: &'static str,
    expression: &'static str,
    inputs: &'static [(&'static str, u64)],
    rust: u64,
    verilog: u64,
}

const CASES: [Case; 7] = [
    Case { output: "sum", expression: "a + b", inputs: &[("a", 0xff), ("b", 0x01)], rust: 0, verilog: 0 },
    Case {
        output: "cast_of_sum",
        expression: "bit_cast::<16, 8>(a + b)",
        inputs: &[("a", 0xff), ("b", 0x01)],
        rust: 0x0000,
        verilog: 0x0100,
    },
    Case {
        output: "cast_of_not",
        expression: "bit_cast::<16, 8>(!a)",
        inputs: &[("a", 0xf0)],
        rust: 0x000f,
        verilog: 0xff0f,
    },
    Case { output: "not_equals", expression: "(!a) == 0x0F", inputs: &[("a", 0xf0)], rust: 1, verilog: 0 },
    Case {
        output: "ring_full",
        expression: "a + 1 == b",
        inputs: &[("a", 0xff), ("b", 0x00)],
        rust: 1,
        verilog: 0,
    },
    Case {
        output: "ring_near",
        expression: "(a - b) < 5",
        inputs: &[("a", 0x01), ("b", 0xff)],
        rust: 1,
        verilog: 0,
    },
    Case {
        output: "and_equals",
        expression: "a & b == c",
        inputs: &[("p", 0), ("q", 1), ("r", 0)],
        rust: 1,
        verilog: 0,
    },
];

/// The output `case` names, by rust-hdl's own simulator.
fn in_rust(case: &Case) -> u64 {
    let mut kernels = Kernels::default();
    kernels.connect_all();
    for &(name, value) in case.inputs {
        match name {
            "a" => kernels.a.next = value.to_bits(),
            "b" => kernels.b.next = value.to_bits(),
            "p" => kernels.p.next = value != 0,
            "q" => kernels.q.next = value != 0,
            "r" => kernels.r.next = value != 0,
            _ => unreachable!("{name} is no input"),
        }
    }
    assert!(simulate(&mut kernels, 10), "the block does not settle");
    match case.output {
        "sum" => kernels.sum.val().to_u64(),
        "cast_of_sum" => kernels.cast_of_sum.val().to_u64(),
        "cast_of_not" => kernels.cast_of_not.val().to_u64(),
        "not_equals" => kernels.not_equals.val().into(),
        "ring_full" => kernels.ring_full.val().into(),
        "ring_near" => kernels.ring_near.val().into(),
        "and_equals" => kernels.and_equals.val().into(),
        name => unreachable!("{name} is no output"),
    }
}

#[test]
fn rust_hdl_prints_verilog_that_means_something_else() {
    let mut kernels = Kernels::default();
    kernels.connect_all();
    let verilog = generate_verilog(&kernels);
    println!("{verilog}");

    let ports = PORTS.map(|(name, width, input)| PortSpec { name: name.into(), width, input });
    let source = Source::new("top", verilog, ports.into());
    let library = build(&source, &Options::default()).unwrap_or_else(|error| panic!("{error}"));

    let mut failures = Vec::new();
    println!("{:<26} {:>6} {:>8}", "expression", "Rust", "Verilog");
    for case in &CASES {
        let mut model = library.instantiate();
        for &(name, value) in case.inputs {
            let port = model.port(name).expect("an input of the block");
            model.set_u64(port, value);
        }
        model.eval();
        let port = model.port(case.output).expect("an output of the block");
        let (rust, verilog) = (in_rust(case), model.get_u64(port));
        println!("{:<26} {rust:>6x} {verilog:>8x}", case.expression);

        if rust == verilog && case.rust != case.verilog {
            failures.push(format!("`{}`: rust-hdl now agrees; revisit decision 0001", case.expression));
        } else if (rust, verilog) != (case.rust, case.verilog) {
            failures.push(format!(
                "`{}`: recorded {:x} in Rust and {:x} in Verilog, now {rust:x} and {verilog:x}",
                case.expression, case.rust, case.verilog
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
