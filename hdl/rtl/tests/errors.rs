// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the checks of a finished design say, word for word, and what misuse says where it happens.

use ferrowire_rtl::{bits, build, cat, lit, module, Bits, Bundle, Collision, Scope, Sig, Stream, Style};
use std::panic::{catch_unwind, AssertUnwindSafe};

const FILE: &str = file!();

/// What `build` complains of; `@` stands for `FILE:LINE:COLUMN`, as lines move.
#[track_caller]
fn complains(body: impl FnOnce(&Scope), expected: &[&str]) {
    let errors = build("top", body).expect_err("the design has errors").0;
    let errors: Vec<String> = errors.iter().map(|e| without_places(e)).collect();
    assert_eq!(errors, expected);
}

fn without_places(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(FILE) {
        out.push_str(&rest[..at]);
        out.push('@');
        let tail = &rest[at + FILE.len()..];
        let end = tail.find(|c: char| c != ':' && !c.is_ascii_digit()).unwrap_or(tail.len());
        // The colon that ends the place stays.
        let end = if tail[..end].ends_with(':') { end - 1 } else { end };
        rest = &tail[end..];
    }
    out + rest
}

/// What misuse panics with, and that it does so with this file and the line of the call.
#[track_caller]
fn refuses(line: u32, expected: &str, body: impl FnOnce(&Scope)) {
    let said = panic_of(|| {
        let _ = build("top", body);
    });
    let place = format!("{FILE}:{line}:");
    assert!(said.starts_with(&place), "expected {place}\n     got {said}");
    assert_eq!(without_places(&said), format!("@: {expected}"));
}

fn panic_of(body: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(body)).expect_err("it panics");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().expect("a message").to_string(),
    }
}

#[test]
fn an_undriven_wire_is_named() {
    complains(
        |m| m.output("o", &m.wire("w", 4)),
        &["@: wire `w` in `top` has no driver: `drive` it, `set` it, or `accept` its stream"],
    );
}

#[test]
fn a_stream_that_nobody_takes_is_named() {
    complains(
        |m| {
            let input = m.stream_in("in", &bits(4));
            m.output("o", &(input.valid, input.payload));
        },
        &["@: wire `in_ready_i` in `top` has no driver: `drive` it, `set` it, or `accept` its stream"],
    );
}

#[test]
fn a_wire_set_on_some_paths_only_is_named() {
    let message =
        "@: wire `w` in `top` is not assigned on every path: give it a default before the `when` or add \
                   `otherwise`";
    complains(
        |m| {
            let (a, w) = (m.input("a", 1), m.wire("w", 4));
            m.when(a, |m| m.set(&w, 3));
            m.output("o", &w);
        },
        &[message],
    );
    complains(
        |m| {
            let (a, b, w) = (m.input("a", 1), m.input("b", 1), m.wire("w", 4));
            m.when(a, |m| m.set(&w, 3)).otherwise(|m| {
                m.when(b, |m| m.set(&w, 1)).otherwise_when(a, |m| m.set(&w, 2));
            });
            m.output("o", &w);
        },
        &[message],
    );
}

#[test]
fn what_nobody_reads_is_named_unless_it_is_discarded() {
    complains(
        |m| {
            let a = m.input("a", 3);
            let (r, w) = (m.reg("r", 3).reset(0), m.wire("w", 3));
            m.set(&r, a);
            m.drive(&w, a);
            let mem = m.mem("store", 8, &bits(3)).build();
            mem.write(a.bit(0), a, &a);
        },
        &[
            "@: register `r` in `top` is never read: remove it or `discard` it",
            "@: wire `w` in `top` is never read: remove it or `discard` it",
            "@: memory `store` in `top` is never read: remove it or `discard` it",
        ],
    );
    let fine = build("top", |m| {
        let a = m.input("a", 3);
        let r = m.delay("r", &a);
        m.discard(&r);
        let mem = m.mem("store", 8, &bits(3)).build();
        mem.write(a.bit(0), a, &a);
        mem.discard();
    });
    assert!(fine.is_ok());
}

#[test]
fn a_register_that_is_never_assigned_is_named() {
    complains(
        |m| m.output("o", &m.reg("r", 2).reset(1)),
        &["@: register `r` in `top` is never assigned: use a literal, or `set` it"],
    );
}

#[module]
fn pass(m: &Scope, x: Sig) -> Sig {
    let passed = m.wire("passed", x.width());
    m.drive(&passed, x + 1);
    passed
}

#[test]
fn a_combinational_loop_is_named_node_by_node() {
    complains(
        |m| {
            let w = m.wire("w", 4);
            let back = pass(m, w & m.input("a", 4));
            m.drive(&w, !back);
            m.output("o", &back);
        },
        &["@: combinational loop: `w` in `top` (@) -> an unnamed `and` in `top` (@) -> `x` in `top.pass` (@) -> an \
           unnamed `sum` in `top.pass` (@) -> `passed` in `top.pass` (@) -> `pass_passed` in `top` (@) -> an unnamed \
           `not` in `top` (@) -> `w` in `top` (@): break it with a register"],
    );
}

#[test]
fn a_clock_crossing_is_named_with_both_clocks() {
    complains(
        |m| {
            let a = m.input("a", 4);
            let mac = m.domain("mac");
            let caught = m.in_domain(mac, |m| m.delay("caught", &a));
            m.output("o", &caught);
        },
        &["@: register `caught` in `top` (@) runs on clock `mac_clk` but depends on `a` in `top` (@) of clock `clk`: \
           take it across with `synchronise` or an asynchronous FIFO"],
    );
    let fine = build("top", |m| {
        let a = m.input("a", 1);
        let mac = m.domain("mac");
        m.output("o", &m.in_domain(mac, |m| m.synchronise("a", a)));
    });
    assert!(fine.is_ok());
}

#[test]
fn a_memory_on_two_clocks_is_named() {
    complains(
        |m| {
            let (a, en) = (m.input("a", 3), m.input("en", 1));
            let mac = m.domain("mac");
            let there = m.in_domain(mac, |m| m.input("there", 3));
            let mem = m.mem("store", 8, &bits(3)).build();
            mem.write(en, a, &a);
            m.output("o", &m.in_domain(mac, |m| mem.read(m, lit(1, 1), there, Collision::Old)));
        },
        &["@: memory `store` in `top` (@) is written on clock `clk` but read on clock `mac_clk`: use an asynchronous \
           FIFO"],
    );
}

#[test]
fn clashing_ports_are_named() {
    complains(
        |m| {
            let a = m.input("a", 1);
            m.output("a", &a);
            m.output("rst", &a);
            m.output("reg", &a);
        },
        &[
            "@: port `a` of `top` is declared twice: give it another name",
            "@: port `rst` of `top` is declared twice: give it another name",
            "@: port `reg` of `top` is a word of Verilog: give it another name",
        ],
    );
}

#[test]
fn ports_that_go_both_ways_are_for_cells_alone() {
    complains(
        |m| {
            let pads = m.inout("pads", 2);
            let read = m.black_box("BB", &[], &[], &[("B", pads.bit(0))], &[("O", 1)]);
            m.output("o", &(read[0] ^ pads.bit(1)));
        },
        &["@: port `pads` in `top` goes both ways: connect it to pins of black boxes alone, and read what they give"],
    );
}

#[module]
fn takes_a_clock(_m: &Scope, clk: Sig) -> Sig {
    !clk
}

#[test]
fn a_port_called_like_a_clock_is_named() {
    complains(
        |m| m.output("o", &takes_a_clock(m, m.input("a", 1))),
        &["@: port `clk` of `takes_a_clock` has the name of a clock or reset: give it another name"],
    );
}

#[test]
fn a_width_mismatch_names_both_widths_and_the_line() {
    let two = |m: &Scope| (m.input("a", 8), m.input("b", 9));
    for (sign, operator) in [
        ("`+`", (|a, b| a + b) as fn(Sig, Sig) -> Sig),
        ("`-`", |a, b| a - b),
        ("`&`", |a, b| a & b),
        ("`|`", |a, b| a | b),
        ("`^`", |a, b| a ^ b),
        ("`eq`", |a, b| a.eq(b)),
        ("`ne`", |a, b| a.ne(b)),
        ("`lt`", |a, b| a.lt(b)),
        ("`le`", |a, b| a.le(b)),
        ("`slt`", |a, b| a.slt(b)),
    ] {
        let said = panic_of(|| {
            let _ = build("top", |m| {
                let (a, b) = two(m);
                m.output("o", &operator(a, b));
            });
        });
        let expected = format!("@: width mismatch in {sign}: 8 bits on the left, 9 bits on the right");
        assert_eq!(without_places(&said), expected);
    }
    refuses(line!() + 2, "width mismatch in `+`: 8 bits on the left, 9 bits on the right", |m| {
        let (a, b) = two(m);
        m.output("o", &(a + b));
    });
    refuses(line!() + 2, "mux of different widths: 8 bits where the condition holds, 9 where not", |m| {
        let (a, b) = two(m);
        m.output("o", &a.bit(0).then(a, b));
    });
    refuses(line!() + 3, "width mismatch: a value of 9 bits for a target of 8", |m| {
        let (a, b) = two(m);
        let r = m.delay("r", &a);
        m.set(&r, b);
    });
    refuses(line!() + 3, "width mismatch: a value of 9 bits drives a signal of 8", |m| {
        let (_, b) = two(m);
        let w = m.wire("w", 8);
        m.drive(&w, b);
    });
    refuses(line!() + 2, "a condition has one bit, not 8", |m| {
        let (a, _) = two(m);
        m.when(a, |_| {});
    });
    refuses(line!() + 2, "reset value of 9 bits for a register of 8", |m| {
        two(m);
        m.reg("r", 8).reset(lit(9, 1));
    });
}

#[test]
fn literals_must_fit_and_be_positive() {
    refuses(line!() + 1, "literal 256 needs 9 bits but the signal has 8", |m| {
        let _ = m.input("a", 8) + 256;
    });
    refuses(line!() + 1, "literal -1 is negative; signals are unsigned", |m| {
        let _ = m.input("a", 8).eq(-1);
    });
    refuses(line!() + 1, "literal 4 needs 3 bits but the signal has 2", |_| {
        lit(2, 4);
    });
    refuses(line!() + 1, "literal 9 needs 4 bits but the signal has 3", |m| {
        m.reg("r", 3).reset(9);
    });
    refuses(line!() + 1, "a reset value must be a constant", |m| {
        m.reg("r", 3).reset(m.input("a", 3));
    });
    refuses(line!() + 1, "width mismatch in `+`: 8 bits on the left, 9 bits on the right", |m| {
        let _ = m.input("a", 8) + &Bits::new(9, 1);
    });
}

#[test]
fn ranges_must_lie_inside() {
    refuses(line!() + 1, "slice of 4 bits from bit 5 of a signal of 8 bits", |m| {
        m.input("a", 8).slice(5, 4);
    });
    refuses(line!() + 1, "slice of 4294967295 bits from bit 4294967295 of a signal of 8 bits", |m| {
        m.input("a", 8).slice(u32::MAX, u32::MAX);
    });
    refuses(line!() + 1, "slice of 0 bits from bit 0 of a signal of 8 bits", |m| {
        m.input("a", 8).slice(0, 0);
    });
    refuses(line!() + 1, "bit 8 of a signal of 8 bits", |m| {
        m.input("a", 8).bit(8);
    });
    refuses(line!() + 1, "trunc to 9 bits of a signal of 8 bits", |m| {
        m.input("a", 8).trunc(9);
    });
    refuses(line!() + 1, "zext to 7 bits of a signal of 8 bits", |m| {
        m.input("a", 8).zext(7);
    });
    refuses(line!() + 1, "sext to 7 bits of a signal of 8 bits", |m| {
        m.input("a", 8).sext(7);
    });
    refuses(line!() + 1, "shift by 8 of a signal of 8 bits", |m| {
        let _ = m.input("a", 8) << 8;
    });
    refuses(line!() + 1, "shift by 8 of a signal of 8 bits", |m| {
        let _ = m.input("a", 8) >> 8;
    });
    refuses(line!() + 1, "8 bits do not split into parts of 3", |m| {
        m.input("a", 8).chunks(3);
    });
    refuses(line!() + 1, "8 bits do not split into parts of 0", |m| {
        m.input("a", 8).chunks(0);
    });
    refuses(line!() + 1, "a concatenation of nothing", |_| {
        cat(&[]);
    });
    refuses(line!() + 1, "input `a` has no bits", |m| {
        m.input("a", 0);
    });
    refuses(line!() + 1, "wire `w` has no bits", |m| {
        m.wire("w", 0);
    });
    refuses(line!() + 1, "register `r` has no bits", |m| {
        let _ = m.reg("r", 0);
    });
}

#[test]
fn memories_are_checked_where_they_are_declared_and_used() {
    for depth in [0, 1, 3, 12] {
        let expected =
            format!("memory `store` has {depth} words; the depth must be a power of two, at least 2");
        refuses(line!() + 1, &expected, |m| {
            m.mem("store", depth, &bits(4)).build();
        });
    }
    refuses(line!() + 2, "the initial contents of `store` must be at most 4 words of 4 bits", |m| {
        let words = vec![Bits::new(5, 0)];
        m.mem("store", 4, &bits(4)).init(words).build();
    });
    refuses(line!() + 2, "an address of 3 bits where 2 are needed", |m| {
        let mem = m.mem("store", 4, &bits(4)).build();
        mem.read_now(m.input("a", 3));
    });
    refuses(line!() + 2, "2 enables of 3 bits do not cover a word of 4", |m| {
        let mem = m.mem("store", 4, &bits(4)).build();
        mem.write_lanes(lit(1, 1), lit(2, 0), &lit(4, 0), lit(2, 0), 3);
    });
    refuses(line!() + 2, "`store`: declare its write ports before a read that looks at them", |m| {
        let mem = m.mem("store", 4, &bits(4)).build();
        mem.read(m, lit(1, 1), lit(2, 0), Collision::New);
    });
    refuses(line!() + 3, "`store`: a read that gives what is written meets no port with lanes", |m| {
        let mem = m.mem("store", 4, &bits(4)).build();
        mem.write_lanes(lit(1, 1), lit(2, 0), &lit(4, 0), lit(2, 0), 2);
        mem.read(m, lit(1, 1), lit(2, 0), Collision::New);
    });
    refuses(line!() + 1, "`store` is in UltraRAM, which has no initial contents", |m| {
        m.mem("store", 4, &bits(4)).style(Style::Ultra).init(vec![]).build();
    });
    refuses(line!() + 2, "`store` is in UltraRAM, which has no immediate reads", |m| {
        let mem = m.mem("store", 4, &bits(4)).style(Style::Ultra).build();
        mem.read_now(lit(2, 0));
    });
}

#[test]
fn a_shape_is_no_value() {
    refuses(line!() + 1, "a 8-bit shape has no value: it only tells a width", |m| {
        let _ = m.input("a", 8) + bits(8);
    });
    refuses(line!() + 1, "a 8-bit shape has no value: it only tells a width", |m| {
        m.output("o", &bits(8));
    });
    refuses(line!() + 1, "a 8-bit shape has no value: it only tells a width", |m| {
        m.reg("r", 8).reset(bits(8));
    });
}

#[test]
fn a_signal_of_another_design_is_refused() {
    let mut stolen = None;
    let _ = build("other", |m| stolen = Some(m.input("a", 8)));
    let stolen = stolen.unwrap();
    refuses(line!() + 1, "this signal belongs to another design", |m| {
        let _ = m.input("a", 8) + stolen;
    });
    let said = panic_of(|| {
        let _ = stolen + stolen;
    });
    let expected = "@: signals exist only inside `build`: no design is open on this thread";
    assert_eq!(without_places(&said), expected);
}

#[module]
fn thief(_m: &Scope, #[param] stolen: Sig, a: Sig) -> Sig {
    a + stolen
}

#[module]
fn leaks(m: &Scope, a: Sig, #[param] out: &mut Option<Sig>) -> Sig {
    let inner = m.delay("inner", &a);
    *out = Some(inner);
    inner
}

#[test]
fn a_signal_of_another_module_is_refused_with_both_modules() {
    let said = panic_of(|| {
        let _ = build("top", |m| {
            let (a, b) = (m.input("a", 8), m.input("b", 8));
            m.output("o", &thief(m, b, a));
        });
    });
    let expected =
        "@: signal `b` (@) belongs to module `top` but is used in `top.thief`: pass it through the \
                    module's arguments or results";
    assert_eq!(without_places(&said), expected);
    let expected =
        "signal `inner` (@) belongs to module `top.leaks` but is used in `top`: pass it through the \
                    module's arguments or results";
    refuses(line!() + 4, expected, |m| {
        let mut inner = None;
        let out = leaks(m, m.input("a", 8), &mut inner);
        m.output("o", &out);
        m.output("p", &(out + inner.unwrap()));
    });
}

#[test]
fn driving_has_rules() {
    refuses(line!() + 3, "`w` (@) is driven twice", |m| {
        let w = m.wire("w", 1);
        m.drive(&w, 0);
        m.drive(&w, 1);
    });
    refuses(line!() + 3, "`w` (@) is driven twice", |m| {
        let w = m.wire("w", 1);
        m.drive(&w, 0);
        m.set(&w, 1);
    });
    refuses(line!() + 3, "`w` (@) is driven twice", |m| {
        let w = m.wire("w", 1);
        m.set(&w, 0);
        m.drive(&w, 1);
    });
    refuses(line!() + 3, "`in_ready_i` (@) is driven twice", |m| {
        let input = m.stream_in("in", &bits(4));
        input.accept(1);
        input.accept(0);
    });
    refuses(line!() + 2, "`drive` inside a `when`: use `set`, with a default before it", |m| {
        let (a, w) = (m.input("a", 1), m.wire("w", 1));
        m.when(a, |m| m.drive(&w, 1));
    });
    refuses(line!() + 2, "only a wire or a stream's ready can be driven; a register is `set`", |m| {
        let r = m.reg("r", 1).reset(0);
        m.drive(&r, 1);
    });
    refuses(line!() + 2, "`a` (@) is neither a register nor a wire and cannot be set", |m| {
        let a = m.input("a", 1);
        m.set(&a, 1);
    });
}

#[derive(Clone, Bundle)]
struct Pair {
    left: Sig,
    right: Sig,
}

#[test]
fn bundles_must_have_one_shape() {
    let pair =
        |m: &Scope, name: &str, right: u32| m.input_of(name, &Pair { left: bits(4), right: bits(right) });
    refuses(line!() + 2, "bundles of different shapes: `right` of 5 bits beside `right` of 6 bits", |m| {
        let (x, y) = (pair(m, "x", 5), pair(m, "y", 6));
        m.mux(lit(1, 1), &x, &y);
    });
    refuses(line!() + 2, "unpack of 10 bits into a bundle of 9", |m| {
        let shape = pair(m, "x", 5);
        shape.unpack(m.input("packed", 10));
    });
    refuses(line!() + 2, "bundles of different shapes: one has 1 fields more", |m| {
        let x = m.input("x", 4);
        m.mux(lit(1, 1), &vec![x], &vec![x, x]);
    });
}

#[module]
fn opens(m: &Scope, #[param] outer: &Scope, a: Sig) -> Sig {
    let _ = m;
    outer.delay("r", &a)
}

#[test]
fn scopes_are_used_where_they_are_open() {
    let said = panic_of(|| {
        let _ = build("top", |m| m.output("o", &opens(m, m, m.input("a", 1))));
    });
    assert_eq!(without_places(&said), "@: this scope is not the module that is open: use the innermost `m`");
    refuses(line!() + 2, "clock domain `mac` is declared twice", |m| {
        m.domain("mac");
        m.domain("mac");
    });
    let said = panic_of(|| {
        let _ = build("top", |_| {
            let _ = build("inner", |_| {});
        });
    });
    assert_eq!(said, "a design is already being built on this thread");
}

#[module]
fn asks(m: &Scope, a: Sig) -> Stream<Sig> {
    m.input("b", 1);
    Stream::new(m, "out", a, a)
}

#[test]
fn inputs_and_outputs_belong_to_the_top() {
    let said = panic_of(|| {
        let _ = build("top", |m| asks(m, m.input("a", 1)).accept(1));
    });
    assert_eq!(without_places(&said), "@: inputs belong to the top module; pass `b` as an argument");
}
