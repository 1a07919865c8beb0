// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the language means, in the native simulator: priorities, memories, streams, states, clocks, names.

use ferrowire_rtl::{
    async_fifo, bits, build, lit, module, Bits, Bundle, Collision, Fsm, Interface, Netlist, Scope, Sig, Sim,
    Stream, Style,
};

fn sim(body: impl FnOnce(&Scope)) -> Sim {
    let mut sim = Sim::new(&build("top", body).unwrap());
    sim.reset();
    sim
}

#[test]
fn the_last_assignment_that_holds_wins() {
    let mut sim = sim(|m| {
        let (a, b, c) = (m.input("a", 1), m.input("b", 1), m.input("c", 1));
        let r = m.reg("r", 8).reset(0);
        m.when(a, |m| {
            m.set(&r, 1);
            m.when(b, |m| m.set(&r, 2)).otherwise_when(c, |m| m.set(&r, 3));
        })
        .otherwise_when(b, |m| m.set(&r, 4))
        .otherwise(|m| {
            m.when(c, |m| m.set(&r, 5));
        });
        m.when(a & b & c, |m| m.set(&r, 6));
        m.output("r", &r);
    });
    let mut held = 0;
    for step in 0..32u64 {
        let (a, b, c) = (step & 1, step >> 1 & 1, step >> 2 & 1);
        for (port, value) in [("a", a), ("b", b), ("c", c)] {
            sim.set(port, value);
        }
        sim.tick();
        held = match (a, b, c) {
            (1, 1, 1) => 6,
            (1, 1, _) => 2,
            (1, 0, 1) => 3,
            (1, 0, _) => 1,
            (_, 1, _) => 4,
            (_, _, 1) => 5,
            _ => held,
        };
        assert_eq!(sim.get("r"), held, "a {a}, b {b}, c {c}");
    }
}

#[test]
fn an_unconditional_assignment_drops_what_came_before() {
    let mut sim = sim(|m| {
        let a = m.input("a", 1);
        let w = m.wire("w", 4);
        m.when(a, |m| m.set(&w, 1));
        m.set(&w, 2);
        m.when(lit(1, 1), |m| m.set(&w, 3));
        m.when(lit(1, 0), |m| m.set(&w, 4));
        m.output("w", &w);
    });
    sim.set("a", 1);
    assert_eq!(sim.get("w"), 3);
}

fn collide(collision: Collision) -> Sim {
    sim(|m| {
        let (we, re, addr) = (m.input("we", 1), m.input("re", 1), m.input("addr", 2));
        let mem = m.mem("mem", 4, &bits(8)).init((0..4).map(|i| Bits::new(8, 10 + i)).collect()).build();
        mem.write(we, addr, &m.input("data", 8));
        m.output("q", &mem.read(m, re, addr, collision));
    })
}

#[test]
fn a_read_that_meets_a_write_gives_what_was_asked_for() {
    for (collision, expected) in [(Collision::Old, 12), (Collision::New, 99)] {
        let mut sim = collide(collision);
        for (port, value) in [("we", 1), ("re", 1), ("addr", 2), ("data", 99)] {
            sim.set(port, value);
        }
        sim.tick();
        assert_eq!(sim.get("q"), expected, "{collision:?}");
        // Held while no read is asked for, whatever is written.
        for (port, value) in [("re", 0), ("data", 55)] {
            sim.set(port, value);
        }
        sim.tick();
        assert_eq!(sim.get("q"), expected, "{collision:?}");
        for (port, value) in [("we", 0), ("re", 1)] {
            sim.set(port, value);
        }
        sim.tick();
        assert_eq!(sim.get("q"), 55, "{collision:?}");
    }
}

#[test]
#[should_panic(expected = "a read met a write of the same word in a memory that excludes it")]
fn a_promised_collision_is_caught() {
    let mut sim = collide(Collision::Never);
    sim.set("we", 1);
    sim.set("re", 1);
    sim.tick();
}

#[test]
fn a_read_within_a_when_happens_only_there() {
    for collision in [Collision::Old, Collision::New] {
        let mut sim = sim(|m| {
            let (now, we) = (m.input("now", 1), m.input("we", 1));
            let mem = m.mem("mem", 2, &bits(8)).init(vec![Bits::new(8, 7), Bits::new(8, 8)]).build();
            mem.write(we, lit(1, 0), &m.input("data", 8));
            let mut word = None;
            m.when(now, |m| word = Some(mem.read(m, lit(1, 1), lit(1, 0), collision)));
            m.output("q", &word.unwrap());
        });
        sim.set("now", 1);
        sim.tick();
        assert_eq!(sim.get("q"), 7);
        for (port, value) in [("now", 0), ("we", 1), ("data", 50)] {
            sim.set(port, value);
        }
        sim.tick();
        assert_eq!(sim.get("q"), 7, "{collision:?}");
        sim.set("now", 1);
        sim.set("data", 51);
        sim.tick();
        assert_eq!(sim.get("q"), if collision == Collision::New { 51 } else { 50 });
    }
}

#[test]
fn of_two_writers_of_one_word_the_later_declared_wins() {
    let mut sim = sim(|m| {
        let (both, addr) = (m.input("both", 1), m.input("addr", 2));
        let mem = m.mem("mem", 4, &bits(8)).build();
        mem.write(lit(1, 1), addr, &lit(8, 1));
        m.when(both, |m| {
            let _ = m;
            mem.write(lit(1, 1), addr, &lit(8, 2));
        });
        m.output("q", &mem.read_now(addr));
        m.output("fresh", &mem.read(m, lit(1, 1), addr, Collision::New));
    });
    sim.tick();
    assert_eq!((sim.get("q"), sim.get("fresh")), (1, 1));
    sim.set("both", 1);
    sim.tick();
    assert_eq!((sim.get("q"), sim.get("fresh")), (2, 2));
}

#[test]
fn block_ram_that_would_stay_all_but_empty_is_lut_ram_in_the_verilog() {
    let style = |depth: u32, width: u32, lanes: bool| {
        let netlist = build("top", |m| {
            let addr = m.input("addr", depth.trailing_zeros());
            let (data, enables) = (m.input("data", width), m.input("enables", 2));
            let mem = m.mem("mem", depth, &bits(width)).style(Style::Block).build();
            match lanes {
                true => mem.write_lanes(lit(1, 1), addr, &data, enables, width / 2),
                false => mem.write(enables.any(), addr, &data),
            }
            m.output("q", &mem.read(m, lit(1, 1), addr, Collision::Old));
        });
        let verilog = netlist.unwrap().verilog();
        ["block", "distributed"].into_iter().find(|s| verilog.contains(&format!("ram_style = \"{s}\"")))
    };
    assert_eq!(style(16, 288, false), Some("distributed"));
    assert_eq!(style(16, 290, false), Some("block"), "too many bits");
    assert_eq!(style(64, 2, false), Some("block"), "too many rows");
    assert_eq!(style(16, 72, true), Some("block"), "LUT RAM writes whole words");
}

#[test]
fn ultraram_is_asked_for_by_name() {
    let netlist = build("top", |m| {
        let mem = m.mem("mem", 4096, &bits(72)).style(Style::Ultra).build();
        mem.write(lit(1, 1), m.input("addr", 12), &m.input("data", 72));
        m.output("q", &mem.read(m, lit(1, 1), m.input("at", 12), Collision::New));
    });
    let verilog = netlist.unwrap().verilog();
    assert!(verilog.contains("(* ram_style = \"ultra\", no_rw_check *)"), "{verilog}");
}

/// A write of one lane is a write of its word.
#[test]
#[should_panic(expected = "a read met a write of the same word in a memory that excludes it")]
fn a_read_that_excludes_writes_meets_those_of_lanes_too() {
    let netlist = build("top", |m| {
        let mem = m.mem("mem", 4, &bits(8)).build();
        mem.write_lanes(lit(1, 1), lit(2, 1), &lit(8, 3), lit(2, 2), 4);
        m.output("q", &mem.read(m, lit(1, 1), lit(2, 1), Collision::Never));
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.reset();
    sim.tick();
}

#[derive(Clone, Copy, Fsm)]
enum Light {
    Red,
    Green,
    Amber,
}

#[test]
fn a_state_machine_walks_and_its_states_are_named_in_the_verilog() {
    let netlist = build("top", |m| {
        let state = m.fsm("state", Light::Red);
        m.when(state.is(Light::Red), |m| m.set(&state, Light::Green))
            .otherwise_when(state.is(Light::Green), |m| m.set(&state, Light::Amber))
            .otherwise(|m| m.set(&state, Light::Red));
        m.output("code", &state.code());
        m.output("go", &state.is_any(&[Light::Green]));
    })
    .unwrap();
    let mut sim = Sim::new(&netlist);
    sim.reset();
    let walk: Vec<u64> = (0..5)
        .map(|_| {
            sim.tick();
            sim.get("code")
        })
        .collect();
    assert_eq!(walk, [1, 2, 0, 1, 2]);
    let verilog = netlist.verilog();
    for line in ["localparam [1:0] LIGHT_AMBER = 2'd2;", "state <= LIGHT_GREEN;", "state == LIGHT_RED"] {
        assert!(verilog.contains(line), "{line} not in\n{verilog}");
    }
}

#[derive(Clone, Bundle)]
struct Header {
    kind: Sig,
    ports: (Sig, Sig),
}

#[derive(Clone, Bundle)]
struct Frame<T> {
    header: Header,
    words: Vec<T>,
}

#[derive(Interface)]
struct Split {
    head: Stream<Header>,
    sum: Option<Sig>,
    words: [Sig; 2],
}

#[module]
fn split(m: &Scope, frame: Stream<Frame<Sig>>, #[param] with_sum: bool) -> Split {
    let sum = with_sum.then(|| frame.words[0] + frame.words[1]);
    let words = [frame.words[0], frame.words[1]];
    let head = Stream::new(m, "head", frame.valid, frame.header.clone());
    frame.accept(head.ready);
    Split { head, sum, words }
}

fn frames(with_sum: bool) -> Netlist {
    build("top", |m| {
        let header = Header { kind: bits(3), ports: (bits(4), bits(5)) };
        let frame = m.stream_in("in", &Frame { header, words: vec![bits(6), bits(6)] });
        let split = split(m, frame, with_sum);
        m.stream_out("head", split.head);
        m.output("words", &split.words);
        m.output("sum", &split.sum.unwrap_or(lit(6, 0)));
    })
    .unwrap()
}

#[test]
fn bundles_cross_a_module_with_their_names_and_both_directions() {
    let netlist = frames(true);
    let module = &netlist.verilog_modules()[0];
    assert_eq!(module.0, "split");
    for port in [
        "input  wire frame_valid",
        "output wire frame_ready",
        "input  wire [2:0] frame_header_kind",
        "input  wire [4:0] frame_header_ports_1",
        "input  wire [5:0] frame_words_1",
        "output wire head_valid",
        "input  wire head_ready",
        "output wire [3:0] head_ports_0",
        "output wire [5:0] sum",
        "output wire [5:0] words_0",
    ] {
        assert!(module.1.contains(port), "{port} not in\n{}", module.1);
    }
    assert!(!frames(false).verilog_modules()[0].1.contains(" sum"));
    let mut sim = Sim::new(&netlist);
    for (port, value) in [("in_header_ports_1", 21), ("in_words_0", 60), ("in_words_1", 7), ("head_ready", 1)]
    {
        sim.set(port, value);
    }
    assert_eq!((sim.get("head_ports_1"), sim.get("sum"), sim.get("in_ready")), (21, 3, 1));
    assert_eq!(sim.peek("top.split_sum").unwrap().to_u64(), 3);
}

#[test]
fn pack_and_unpack_are_inverse_with_the_first_field_lowest() {
    let mut sim = sim(|m| {
        let header = m.input_of("h", &Header { kind: bits(3), ports: (bits(4), bits(5)) });
        let packed = header.pack();
        m.output("all", &packed);
        m.output("back", &header.unpack(packed));
        m.output("zero", &header.zeros());
    });
    for (port, value) in [("h_kind", 5), ("h_ports_0", 9), ("h_ports_1", 17)] {
        sim.set(port, value);
    }
    assert_eq!(sim.get("all"), 5 | 9 << 3 | 17 << 7);
    assert_eq!((sim.get("back_kind"), sim.get("back_ports_0"), sim.get("back_ports_1")), (5, 9, 17));
    assert_eq!(sim.get("zero_ports_1"), 0);
}

#[test]
fn a_black_box_is_printed_and_its_pins_are_ports_of_the_simulator() {
    let netlist = build("top", |m| {
        let here = m.current_domain();
        let a = m.input("a", 8);
        let outs = m.label("pll").black_box(
            "PLLE2",
            &[("MULT", "8"), ("MODE", "\"FAST\"")],
            &[("CLKIN", here)],
            &[("RST", a.bit(0)), ("CFG", a + 1)],
            &[("LOCKED", 1), ("STATUS", 4)],
        );
        m.output("locked", &outs[0]);
        m.output("status", &outs[1]);
    })
    .unwrap();
    let verilog = netlist.verilog();
    let expected =
        "    PLLE2 #(.MULT(8), .MODE(\"FAST\")) pll (\n        .CLKIN(clk),\n        .RST(a[0]),\n        \
                    .CFG(a + 8'd1),\n        .LOCKED(pll_LOCKED),\n        .STATUS(pll_STATUS)\n    );";
    assert!(verilog.contains(expected), "{verilog}");
    let mut sim = Sim::new(&netlist);
    sim.set("a", 4);
    assert_eq!((sim.get("top.pll.CFG"), sim.get("status")), (5, 0));
    sim.set("top.pll.STATUS", 9);
    assert_eq!(sim.get("status"), 9);
    let stubs = netlist.black_box_stubs();
    assert!(stubs.contains("module PLLE2 #(parameter MODE = \"FAST\", parameter MULT = 8)"), "{stubs}");
}

/// The instance of `PLL` as it is printed, from the line before it to its last pin.
fn with_attributes(attributes: &[(&str, &str)]) -> String {
    let netlist = build("top", |m| {
        let inputs = [("I", m.input("a", 1))];
        let o = m.label("pll").black_box_with("PLL", attributes, &[("MULT", "8")], &[], &inputs, &[("O", 1)]);
        m.output("o", &o[0]);
    })
    .unwrap();
    let verilog = netlist.verilog();
    let lines: Vec<&str> = verilog.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("    PLL #(")).expect("an instance");
    lines[at - 1..at + 3].join("\n")
}

#[test]
fn attributes_of_a_black_box_stand_before_it_in_their_order() {
    let instance = "    PLL #(.MULT(8)) pll (\n        .I(a),\n        .O(pll_O)";
    let printed = with_attributes(&[("LPF_RESISTOR", "8"), ("ICP_CURRENT", "12"), ("_a1", "")]);
    assert_eq!(
        printed,
        format!("    (* LPF_RESISTOR = \"8\", ICP_CURRENT = \"12\", _a1 = \"\" *)\n{instance}")
    );
    // A quote, a backslash and the end of a line stay within the string.
    let printed = with_attributes(&[("TEXT", "a \"b\" \\c\n\td *)")]);
    assert_eq!(printed, format!("    (* TEXT = \"a \\\"b\\\" \\\\c\\n\\td *)\" *)\n{instance}"));
}

#[test]
fn a_black_box_without_attributes_is_printed_as_before() {
    let printed = with_attributes(&[]);
    assert!(printed.starts_with("    wire pll_O;") && !printed.contains("(*"), "{printed}");
}

#[test]
#[should_panic(expected = "the attribute `2 x` of `PLL` must be named by a Verilog identifier")]
fn an_attribute_with_an_odd_name_is_refused() {
    with_attributes(&[("2 x", "1")]);
}

#[test]
fn a_port_that_goes_both_ways_is_an_inout_wired_to_cells() {
    let netlist = build("top", |m| {
        let (pads, out, off) = (m.inout("pads", 2), m.input("out", 2), m.input("off", 1));
        let read: Vec<Sig> = (0..2)
            .map(|i| {
                let inputs = [("B", pads.bit(i)), ("I", out.bit(i)), ("T", off)];
                m.label("pad").black_box("BB", &[], &[], &inputs, &[("O", 1)])[0]
            })
            .collect();
        m.output("read", &ferrowire_rtl::cat(&read));
    })
    .unwrap();
    let verilog = netlist.verilog();
    assert!(verilog.contains("    inout  wire [1:0] pads,"), "{verilog}");
    assert!(verilog.contains(".B(pads[0])") && verilog.contains(".B(pads[1])"), "{verilog}");
    let ports: Vec<(String, bool)> =
        netlist.ports().into_iter().map(|port| (port.name, port.inout)).collect();
    assert!(ports.contains(&("pads".into(), true)) && ports.contains(&("out".into(), false)), "{ports:?}");
}

#[module]
fn leaf(m: &Scope, a: Sig) -> Sig {
    m.assume(a.ne(3), "never three");
    m.delay("held", &a)
}

#[module]
fn branch(m: &Scope, a: Sig, output: Sig) -> Sig {
    leaf(m, a) ^ leaf(&m.label("other"), output)
}

#[test]
fn the_zoo_holds_each_module_once_with_its_ports() {
    let netlist = build("top", |m| {
        let (a, b) = (m.input("a", 4), m.input("b", 4));
        m.output("x", &branch(m, a, b));
        m.output("y", &branch(&m.label("again"), b, a));
        m.output("z", &leaf(m, a.trunc(2)));
    })
    .unwrap();
    let zoo = netlist.zoo();
    assert_eq!(zoo.top(), "zoo");
    let names: Vec<String> = zoo.ports().into_iter().map(|p| p.name).collect();
    for port in ["branch__a", "branch__output_", "branch__out", "leaf__a", "leaf__out", "leaf_1__a"] {
        assert!(names.iter().any(|n| n == port), "{port} not in {names:?}");
    }
    assert_eq!(names.iter().filter(|n| n.starts_with("leaf") && n.ends_with("__out")).count(), 2);
    assert!(names.iter().all(|n| !n.starts_with("top__")), "the top is run by itself: {names:?}");
    assert_eq!(zoo.verilog_modules().len(), netlist.verilog_modules().len());
    let mut sim = Sim::new(&zoo);
    sim.set("branch__a", 3); // the assumption is gone
    sim.set("leaf_1__a", 1);
    sim.tick();
    assert_eq!((sim.get("branch__out"), sim.get("leaf__out")), (3, 0));
}

fn crossing(depth: u32) -> Netlist {
    build("top", |m| {
        let (tx, rx) = (m.domain("tx"), m.domain("rx"));
        let input = m.in_domain(tx, |m| m.stream_in("in", &bits(8)));
        let output = async_fifo(m, depth, tx, rx, input);
        m.in_domain(rx, |m| m.stream_out("out", output));
    })
    .unwrap()
}

#[test]
fn an_asynchronous_fifo_has_the_latency_and_rate_it_promises() {
    let mut sim = Sim::new(&crossing(8));
    sim.reset();
    sim.set("in_valid", 1);
    sim.set("in", 77);
    sim.tick_clock("tx_clk");
    sim.set("in_valid", 0);
    let edges = (1..9).find(|_| {
        sim.tick_clock("rx_clk");
        sim.get("out_valid") == 1
    });
    assert_eq!((edges, sim.get("out")), (Some(3), 77));

    for (depth, full_rate) in [(4, false), (8, true), (16, true)] {
        let mut sim = Sim::new(&crossing(depth));
        sim.reset();
        sim.set("in_valid", 1);
        sim.set("out_ready", 1);
        let mut beats = 0;
        for cycle in 0..120 {
            beats += u64::from(cycle >= 20 && sim.get("out_valid") == 1);
            sim.tick_clocks(&["tx_clk", "rx_clk"]);
        }
        assert_eq!(beats == 100, full_rate, "depth {depth}: {beats} beats in 100 cycles");
    }
}

#[test]
fn an_asynchronous_fifo_keeps_order_and_loses_nothing() {
    for depth in [2, 4, 32] {
        let netlist = crossing(depth);
        let mut state = u64::from(depth);
        let mut random = |n: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % n
        };
        let mut sim = Sim::new(&netlist);
        sim.reset();
        let periods = [3 + random(20), 3 + random(20)];
        let mut next = [random(20), random(20)];
        let (mut sent, mut received, mut filled) = (0u64, 0u64, false);
        while received < 500 {
            let now = next[0].min(next[1]);
            let rising = [next[0] == now, next[1] == now];
            // The offer and what it carries stay until it is taken.
            let ready = random(if received % 100 < 50 { 2 } else { 8 }) == 0;
            sim.set("in_valid", 1);
            sim.set("in", sent % 251);
            sim.set("out_ready", ready.into());
            filled |= sim.get("in_ready") == 0;
            let (taken, given) = (sim.get("in_ready") == 1, sim.get("out_valid") == 1 && ready);
            if rising[1] && given {
                assert_eq!(sim.get("out"), received % 251, "depth {depth}");
                received += 1;
            }
            sent += u64::from(rising[0] && taken);
            let clocks = ["tx_clk", "rx_clk"];
            let on: Vec<&str> = (0..2).filter(|i| rising[*i]).map(|i| clocks[i]).collect();
            sim.tick_clocks(&on);
            (0..2).filter(|i| rising[*i]).for_each(|i| next[i] += periods[i]);
            assert!(sent <= received + u64::from(depth) + 1, "depth {depth} holds more than it has");
        }
        assert!(filled, "depth {depth}: the test never filled it");
    }
}

#[test]
fn the_flops_of_a_synchroniser_are_marked() {
    let verilog = crossing(4).verilog();
    assert_eq!(verilog.matches("(* async_reg = \"true\" *)").count(), 4, "{verilog}");
}

#[test]
fn reset_values_and_registers_without_reset() {
    let mut sim = sim(|m| {
        let a = m.input("a", 70);
        let wide = m.reg("wide", 70).reset(&Bits::new(70, 3 << 66));
        m.when(a.any(), |m| m.set(&wide, a));
        m.output("wide", &wide);
        m.output("later", &m.delay("later", &a));
    });
    assert_eq!(sim.get_bits("wide"), Bits::new(70, 3 << 66));
    sim.set_bits("a", &Bits::ones(70));
    sim.tick();
    assert!(sim.get_bits("wide").is_ones() && sim.get_bits("later").is_ones());
    sim.set("rst", 1);
    sim.tick();
    assert_eq!(sim.get_bits("wide"), Bits::new(70, 3 << 66));
    assert!(sim.get_bits("later").is_ones());
}

/// Counts up to itself, and so does what it instantiates; another counts the same without a reset.
#[module]
fn counters(m: &Scope, step: Sig, #[param] depth: u32) -> Vec<Sig> {
    let (count, free) = (m.reg("count", 8).reset(depth), m.reg("free", 8).no_reset());
    m.set(&count, count + step);
    m.when(step.eq(9), |m| m.set(&free, lit(8, 0))).otherwise(|m| m.set(&free, free + step));
    let mut all = vec![count, free];
    if depth > 0 {
        all.extend(counters(m, step, depth - 1));
    }
    all
}

/// Nothing but wires.
#[module]
fn bare(m: &Scope, step: Sig) -> Sig {
    m.discard(&step);
    step + 1
}

#[test]
fn an_assertion_holds_where_no_restart_does() {
    let net = build("top", |m| {
        let restart = m.input("restart", 1);
        let late = m.restarted(restart, |m| {
            let counted = m.reg("counted", 4).reset(0);
            m.set(&counted, counted | 1);
            let late = m.delay("late", &counted);
            m.assert(!late.any() | counted.any(), "what was counted stays");
            late
        });
        m.output("late", &late);
    });
    let net = net.unwrap();
    assert!(net.verilog().contains("restart |"), "{}", net.verilog());
    // A delay has no reset: two cycles clear it.
    for (cycles, holds) in [(1, false), (2, true)] {
        let mut sim = Sim::new(&net);
        sim.reset();
        let run = std::panic::AssertUnwindSafe(|| {
            for cycle in 0..12 {
                sim.set("restart", u64::from((5..5 + cycles).contains(&cycle)));
                sim.tick();
            }
        });
        assert_eq!(std::panic::catch_unwind(run).is_ok(), holds, "a restart of {cycles} cycles");
    }
}

#[test]
fn a_restart_that_the_reset_sets_stands_for_the_reset() {
    for first in [0, 1] {
        let net = build("top", |m| {
            let restart = m.reg("restart", 1).reset(first);
            m.set(&restart, m.input("again", 1));
            let counted = m.restarted(restart, |m| bare_count(m));
            m.output("counted", &counted);
        })
        .unwrap();
        let verilog = net.verilog();
        let (_, inner) = verilog.split_once("module bare_count").expect("a module");
        assert_eq!(
            inner.split_once("endmodule").expect("its end").0.contains("rst"),
            first == 0,
            "{verilog}"
        );
        let mut sim = Sim::new(&net);
        sim.reset();
        let mut seen = Vec::new();
        for cycle in 0..8 {
            sim.set("again", u64::from(cycle == 3));
            seen.push(sim.get("counted"));
            sim.tick();
        }
        // One cycle later than the others of the domain.
        let expected = if first == 0 { [3, 4, 5, 6, 7, 3, 4, 5] } else { [3, 3, 4, 5, 6, 3, 4, 5] };
        assert_eq!(seen, expected, "{first}");
    }
}

/// Counts.
#[module]
fn bare_count(m: &Scope) -> Sig {
    let counted = m.reg("counted", 4).reset(3);
    m.set(&counted, counted + 1);
    counted
}

#[test]
fn a_restart_takes_what_has_a_reset_in_all_modules_back_and_nothing_else() {
    let net = build("top", |m| {
        let (step, restart) = (m.input("step", 8), m.wire("again", 1));
        let outside = counters(m, step, 1);
        let inside = m.restarted(restart, |m| {
            let own = m.reg("own", 8).reset(77);
            m.set(&own, own + bare(m, step));
            let mut all = vec![own];
            all.extend(counters(m, step, 2));
            let outlives = m.reg("outlives", 8).reset_once(5);
            m.set(&outlives, outlives + step);
            all.push(outlives);
            all
        });
        m.drive(&restart, m.input("restart", 1) & inside[1].ne(0));
        m.output("outside", &outside);
        m.output("inside", &inside);
    })
    .unwrap();
    let verilog = net.verilog();
    let with_port = verilog.matches("input  wire restart").count();
    // Of the modules three, and the top's own input.
    assert_eq!(with_port, 4, "{verilog}");
    let mut sim = Sim::new(&net);
    sim.set("step", 9);
    sim.reset();
    let (names, mut held): (Vec<String>, Vec<u64>) = [
        ("outside_0", 1),
        ("outside_1", 0),
        ("outside_2", 0),
        ("outside_3", 0),
        ("inside_0", 77),
        ("inside_1", 2),
        ("inside_2", 0),
        ("inside_3", 1),
        ("inside_4", 0),
        ("inside_5", 0),
        ("inside_6", 0),
        ("inside_7", 5),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into_iter()
    .unzip();
    let resets = [None, None, None, None, Some(77), Some(2), None, Some(1), None, Some(0), None, None];
    for step in 0..60u64 {
        let now: Vec<u64> = names.iter().map(|name| sim.get(name)).collect();
        assert_eq!(now, held, "step {step}");
        let restart = step % 7 == 3;
        sim.set("step", step % 5);
        sim.set("restart", restart.into());
        let restart = restart && held[5] != 0;
        for (i, value) in held.iter_mut().enumerate() {
            let more = step % 5 + u64::from(i == 4);
            *value = match resets[i].filter(|_| restart) {
                Some(first) => first,
                None => (*value + more) % 256,
            };
        }
        sim.tick();
    }
}
