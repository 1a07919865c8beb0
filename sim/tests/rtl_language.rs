// SPDX-License-Identifier: MIT OR Apache-2.0
//! State, memories, modules, streams, clock domains and black boxes of the RTL language: a design with all of them, the
//! whole and each module by itself, gives the same in both simulators, and its Verilog lints clean.

use ferrowire_rtl::{
    async_fifo, build, circuit, lit, module, Bits, Bundle, Collision, Fsm, Interface, Netlist, Scope, Sig,
    Stream, Style,
};
use ferrowire_sim::lockstep::{self, Lockstep, Rng};

#[derive(Clone, Bundle)]
struct Beat {
    data: Sig,
    last: Sig,
}

#[derive(Clone, Bundle)]
struct Tagged<T> {
    tag: Sig,
    body: T,
}

#[derive(Interface)]
struct Sides {
    even: Stream<Tagged<Beat>>,
    odd: Stream<Tagged<Beat>>,
    count: Sig,
}

fn beat() -> Beat {
    Beat { data: ferrowire_rtl::bits(16), last: ferrowire_rtl::bits(1) }
}

#[module]
fn counter(m: &Scope, step: Sig, #[param] width: u32) -> Sig {
    let count = m.reg("count", width).reset(3);
    m.when(step, |m| m.set(&count, count + 1));
    count
}

/// Later assignments win, nesting, and wires with and without defaults.
#[module]
fn priorities(m: &Scope, a: Sig, b: Sig, c: Sig, x: Sig, y: Sig) -> (Sig, Sig, Sig, Sig) {
    let held = m.reg("held", 8).no_reset();
    m.when(a, |m| {
        m.set(&held, x);
        m.when(b, |m| m.set(&held, y)).otherwise_when(c, |m| m.set(&held, x + y));
    })
    .otherwise_when(b, |m| m.set(&held, held + 1))
    .otherwise(|m| m.when(c, |m| m.set(&held, 0)).otherwise(|_| {}));

    let last_wins = m.reg("last_wins", 8).reset(7);
    m.when(a, |m| m.set(&last_wins, 1));
    m.set(&last_wins, x);
    m.when(b, |m| m.set(&last_wins, 2));
    m.when(c, |m| m.set(&last_wins, y));

    let full = m.wire("full", 8);
    m.when(a, |m| m.when(b, |m| m.set(&full, x)).otherwise(|m| m.set(&full, y)))
        .otherwise_when(c, |m| m.set(&full, x ^ y))
        .otherwise(|m| {
            m.set(&full, 9);
            m.when(b, |m| m.set(&full, !x));
        });
    m.when(a & b & c, |m| m.set(&full, 0));

    let defaulted = m.wire("defaulted", 8);
    m.set(&defaulted, 5);
    m.when(a, |m| m.set(&defaulted, x));
    m.when(b, |m| {
        m.when(c, |m| m.set(&defaulted, y));
    });
    (held, last_wins, full, defaulted)
}

#[derive(Clone, Copy, Fsm)]
enum Walk {
    Idle,
    Fetch,
    Done,
}

mod other {
    /// The same names in another order: their constants must not mix.
    #[derive(Clone, Copy, ferrowire_rtl::Fsm)]
    pub enum Walk {
        Done,
        Idle,
        Fetch,
        Rest,
        More,
    }
}

#[module]
fn machine(m: &Scope, go: Sig, stop: Sig) -> (Sig, Sig, Sig) {
    let state = m.fsm("state", Walk::Idle);
    m.when(state.is(Walk::Idle) & go, |m| m.set(&state, Walk::Fetch))
        .otherwise_when(state.is(Walk::Fetch) & stop, |m| m.set(&state, Walk::Done))
        .otherwise_when(state.is(Walk::Done), |m| m.set(&state, Walk::Idle));
    let twin = m.fsm("twin", other::Walk::More);
    m.when(twin.is(other::Walk::More), |m| m.set(&twin, other::Walk::Idle))
        .otherwise_when(twin.is(other::Walk::Idle) & go, |m| m.set(&twin, other::Walk::Done))
        .otherwise_when(twin.is_any(&[other::Walk::Done, other::Walk::Fetch]), |m| {
            m.set(&twin, other::Walk::Rest)
        })
        .otherwise_when(stop, |m| m.set(&twin, other::Walk::More));
    let busy = state.is_any(&[Walk::Fetch, Walk::Done]);
    (state.code(), twin.code(), busy)
}

#[module]
fn memories(m: &Scope, we: Sig, re: Sig, wa: Sig, ra: Sig, data: Sig, lanes: Sig) -> (Vec<Sig>, Sig) {
    let shape = ferrowire_rtl::bits(72);
    let init: Vec<Bits> = (0..5).map(|i| Bits::new(72, 0x1_2345_6789_abcd_ef01_u128 * (i + 1))).collect();
    let lanewise = m.mem("lanewise", 8, &shape).init(init).style(Style::Block).build();
    lanewise.write_lanes(we, wa, &data, lanes, 24);
    let by_lane = lanewise.read(m, re, ra, Collision::Old);

    let fresh = m.mem("fresh", 8, &shape).build();
    fresh.write(we, wa, &data);
    let new = fresh.read(m, re, ra, Collision::New);
    // Where the address differs, the promise holds.
    let promised = fresh.read(m, re & wa.ne(ra), ra, Collision::Never);

    // Two writers, the later one wins, and three readers.
    let shared = m.mem("shared", 8, &ferrowire_rtl::bits(8)).style(Style::Distributed).build();
    shared.write(we, wa, &data.slice(0, 8));
    m.when(re, |m| shared.write(lanes.bit(0) & m.mux(we, &wa.ne(ra), &lit(1, 1)), ra, &data.slice(8, 8)));
    let newest = shared.read(m, lit(1, 1), wa, Collision::New);
    let at_once = shared.read_now(ra);
    let m_re = m;
    let when_read = {
        let mut word = None;
        m.when(lanes.bit(1), |m| word = Some(shared.read(m, re, wa, Collision::New)));
        word.unwrap()
    };

    // Corners of printing: one-bit words, one lane, constant data and enables.
    let bits = m_re.mem("bits", 4, &ferrowire_rtl::bits(1)).build();
    bits.write_lanes(we, wa.trunc(2), &data.bit(5), lanes.bit(2), 1);
    let bit = bits.read(m, re, ra.trunc(2), Collision::Old);
    let steady = m.mem("steady", 4, &ferrowire_rtl::bits(16)).init(vec![Bits::new(16, 1)]).build();
    steady.write_lanes(we, wa.trunc(2), &lit(16, 0xa55a), lit(2, 0b01), 8);
    steady.write_lanes(re, wa.trunc(2), &data.slice(3, 16), lanes.trunc(2), 8);
    let still = steady.read_now(ra.trunc(2));
    let all = vec![by_lane, new, promised, newest.zext(72), at_once.zext(72), when_read.zext(72)];
    (all, bit & still.parity())
}

/// A two-deep buffer from registers.
#[module]
fn buffer<T: Bundle + Interface>(m: &Scope, input: Stream<T>) -> Stream<T> {
    let full = m.reg("full", 1).reset(0);
    let word = m.reg_of("word", &input.payload);
    let output = Stream::new(m, "output", full, word.clone());
    input.accept(!full | output.ready);
    m.when(input.fire(), |m| {
        m.set_all(&word, &input.payload);
        m.set(&full, 1);
    })
    .otherwise_when(output.ready, |m| m.set(&full, 0));
    output
}

/// A buffer that takes no beat while it holds one, so that no ready depends on another.
#[module]
fn pause<T: Bundle + Interface>(m: &Scope, input: Stream<T>) -> Stream<T> {
    let full = m.reg("full", 1).reset(0);
    let word = m.reg_zero("word", &input.payload);
    m.when(input.fire(), |m| m.set_all(&word, &input.payload));
    input.accept(!full);
    let output = Stream::new(m, "output", full, word);
    m.set(&full, input.valid & !full | full & !output.ready);
    output
}

/// Tuples, vectors, arrays, options and nested bundles across a boundary.
#[module]
fn shapes(
    m: &Scope,
    pair: (Sig, Sig),
    many: Vec<Tagged<Sig>>,
    two: [Sig; 2],
    some: Option<Sig>,
    none: Option<Sig>,
    output: Sig,
) -> ((Sig, Sig), Vec<Sig>, Option<Sig>) {
    assert!(none.is_none());
    let sums: Vec<Sig> = many.iter().map(|t| t.tag.zext(8) + t.body).collect();
    let swapped = (pair.1, pair.0 ^ output);
    let packed = many[0].pack();
    let back = many[0].unpack(packed);
    let some = some.map(|s| m.mux(two[0].bit(0), &s, &back.body) ^ two[1]);
    (swapped, sums, some)
}

#[module]
fn route(m: &Scope, input: Stream<Tagged<Beat>>) -> Sides {
    let odd_now = input.payload.tag.bit(0);
    let even = Stream::new(m, "even", input.valid & !odd_now, input.payload.clone());
    let odd = Stream::new(m, "odd", input.valid & odd_now, input.payload.clone());
    input.accept(m.mux(odd_now, &odd.ready, &even.ready));
    let count = counter(m, input.fire(), 5);
    let even = buffer(m, even);
    Sides { even, odd, count }
}

/// Feedback: beats whose tag is not spent go round again.
#[module]
fn around(m: &Scope, input: Stream<Tagged<Beat>>) -> Stream<Tagged<Beat>> {
    let (again, later) = m.later("again", &input.payload);
    let again = pause(m, again);
    let valid = again.valid | input.valid;
    let payload = m.mux(again.valid, &again.payload, &input.payload);
    let merged = Stream::new(m, "merged", valid, payload);
    again.accept(merged.ready);
    input.accept(merged.ready & !again.valid);
    let merged = buffer(&m.label("joined"), merged);
    let spent = merged.payload.tag.lt(2);
    let back = merged.valid & !spent;
    let mut less = merged.payload.clone();
    less.tag = less.tag - 2;
    let back = Stream::new(m, "back", back, less);
    let out = Stream::new(m, "out", merged.valid & spent, merged.payload.clone());
    merged.accept(m.mux(spent, &out.ready, &back.ready));
    later.connect(back);
    let out = out.map(|p| Tagged { tag: !p.tag, body: p.body.clone() });
    let never = out.payload.body.data.eq(0xdead);
    out.discard_if(m, never)
}

#[module]
fn properties(m: &Scope, a: Sig, b: Sig) -> Sig {
    m.assert(a | !b | a.eq(b), "a or not b");
    m.assume(a.ne(b), "they differ");
    m.when(a, |m| m.cover(b, "both"));
    a ^ b
}

#[module]
fn words_of_verilog(m: &Scope, input: Sig, reg: Sig, r#type: Sig) -> (Sig, Sig) {
    let output = input & reg;
    let wire = m.reg("always", 1).reset(0);
    m.set(&wire, output ^ r#type);
    (output, wire)
}

#[module]
fn boxed(m: &Scope, a: Sig) -> Sig {
    let here = m.current_domain();
    let made = m.label("first").black_box(
        "VENDOR_RAM",
        &[("DEPTH", "4"), ("NAME", "\"x\"")],
        &[("CK", here)],
        &[("A", a), ("EN", a.any())],
        &[("Q", 9), ("OK", 1)],
    );
    let others = m.black_box("VENDOR_PLL", &[], &[], &[], &[("LOCKED", 1)]);
    made[0].trunc(8) ^ a ^ made[1].repeat(8) ^ others[0].zext(8)
}

#[circuit]
fn average(a: Sig, b: Sig) -> Sig {
    let sum = a.zext(a.width() + 1) + b.zext(a.width() + 1);
    sum.slice(1, a.width())
}

fn menagerie() -> Netlist {
    build("menagerie", |m| {
        let bit: Vec<Sig> = (0..4).map(|i| m.input(&format!("bit{i}"), 1)).collect();
        let byte: Vec<Sig> = (0..4).map(|i| m.input(&format!("byte{i}"), 8)).collect();
        let wide = m.input("wide", 72);
        let addr = m.input_of("addr", &(ferrowire_rtl::bits(3), ferrowire_rtl::bits(3)));

        let first = counter(m, bit[0], 8);
        let second = counter(&m.label("again"), bit[1], 8);
        let narrow = counter(m, bit[0], 3);
        m.output("counts", &vec![first, second, narrow.zext(8)]);
        m.output("priorities", &priorities(m, bit[0], bit[1], bit[2], byte[0], byte[1]));
        m.output("machine", &machine(m, bit[0], bit[1]));
        let (words, one) = memories(m, bit[0], bit[1], addr.0, addr.1, wide, byte[0].trunc(3));
        m.output("words", &words);
        m.output("one", &one);
        let many = vec![
            Tagged { tag: byte[0].trunc(2), body: byte[1] },
            Tagged { tag: byte[1].trunc(3), body: byte[2] },
        ];
        let (pair, sums, some) =
            shapes(m, (bit[0], bit[1]), many, [byte[0], byte[3]], Some(byte[2]), None, bit[2]);
        m.output("pair", &pair);
        m.output("sums", &sums);
        m.output("some", &some.unwrap());
        m.output("average", &average(byte[0], byte[1]));
        m.output("select", &m.select(byte[0].trunc(2), &byte[..3]));

        let tagged = Tagged { tag: ferrowire_rtl::bits(4), body: beat() };
        let sides = route(m, m.stream_in("in", &tagged));
        m.stream_out("even", sides.even);
        m.stream_out("odd", around(m, sides.odd));
        m.output("routed", &sides.count);

        m.output("odd_one", &properties(m, bit[2], bit[3]));
        m.output("verilog", &words_of_verilog(m, bit[0], bit[1], bit[2]));
        m.output("boxed", &boxed(m, byte[3]));

        let here = m.current_domain();
        let mac = m.domain("mac");
        let incoming = m.stream_in("to_mac", &beat());
        let outgoing = async_fifo(m, 8, here, mac, incoming);
        m.in_domain(mac, |m| m.stream_out("from_core", outgoing));
        let incoming = m.in_domain(mac, |m| m.stream_in("from_mac", &beat()));
        m.stream_out("to_core", async_fifo(m, 2, mac, here, incoming));
        let flag = m.in_domain(mac, |m| counter(m, lit(1, 1), 4)).msb();
        let flag = m.in_domain(mac, |m| m.delay("flag", &flag));
        m.output("seen", &m.synchronise("seen", flag));
    })
    .unwrap()
}

#[test]
fn the_whole_design_gives_the_same_in_both_simulators() {
    let both = Lockstep::new(&menagerie()).unwrap();
    for seed in 0..6 {
        both.run(seed, 1500);
    }
}

#[test]
fn each_module_by_itself_gives_the_same_in_both_simulators() {
    let zoo = menagerie().zoo();
    let both = Lockstep::new(&zoo).unwrap();
    for seed in 10..16 {
        both.run(seed, 1500);
    }
}

#[test]
fn design_and_zoo_lint_clean() {
    let netlist = menagerie();
    lockstep::lint(&netlist).unwrap();
    lockstep::lint(&netlist.zoo()).unwrap();
    let mut checked = lockstep::source(&netlist);
    checked.defines.push("FERROWIRE_ASSERT".into());
    ferrowire_verilator::lint(&checked).unwrap();
}

#[test]
fn equal_modules_are_printed_once() {
    let modules: Vec<String> = menagerie().verilog_modules().into_iter().map(|(name, _)| name).collect();
    let of = |base: &str| {
        modules
            .iter()
            .filter(|n| n.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('_')))
            .count()
    };
    // Counters of 8, 3 and 5 bits and one in the other clock domain; one buffer, for all payloads are alike.
    assert_eq!((of("counter"), of("buffer"), of("async_fifo")), (4, 1, 2), "{modules:?}");
    let mut unique = modules.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), modules.len());
}

#[test]
fn a_failing_assertion_stops_the_verilated_model() {
    let netlist = build("checked", |m| {
        let a = m.input("a", 1);
        let seen = m.reg("seen", 1).reset(0);
        m.set(&seen, a);
        m.assert(!seen, "a is never seen");
        m.output("b", &seen);
    })
    .unwrap();
    let mut source = lockstep::source(&netlist);
    source.defines.push("FERROWIRE_ASSERT".into());
    let mut model = ferrowire_verilator::build(&source, &Default::default()).unwrap().instantiate();
    model.panic_on_stop(false);
    let (clk, rst, a) = (model.port("clk").unwrap(), model.port("rst").unwrap(), model.port("a").unwrap());
    model.set_u64(rst, 1);
    model.ticks(clk, 2);
    model.set_u64(rst, 0);
    model.ticks(clk, 2);
    assert_eq!(model.stopped(), None);
    model.set_u64(a, 1);
    model.ticks(clk, 2);
    let said = model.stopped().expect("the assertion fails");
    assert!(said.contains("rtl_language.rs"), "{said}");
}

/// Sends numbers through an asynchronous FIFO in both simulators, with random periods, phases and stalls.
#[test]
fn an_asynchronous_fifo_loses_nothing_between_unrelated_clocks() {
    let netlist = build("crossing", |m| {
        let (tx, rx) = (m.domain("tx"), m.domain("rx"));
        let input = m.in_domain(tx, |m| m.stream_in("in", &ferrowire_rtl::bits(20)));
        let output = async_fifo(m, 8, tx, rx, input);
        m.in_domain(rx, |m| m.stream_out("out", output));
    })
    .unwrap();
    let both = Lockstep::new(&netlist).unwrap();
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let (mut sim, mut model) = (both.sim(), both.model());
        let port = |name: &str| both.model().port(name).unwrap();
        let (tx, rx) = (port("tx_clk"), port("rx_clk"));
        let (in_ready, out_valid, out) = (port("in_ready"), port("out_valid"), port("out"));
        let periods = [1000 + rng.below(3000), 1000 + rng.below(if seed % 3 == 0 { 20_000 } else { 3000 })];
        let mut next = [1 + rng.below(periods[0]), 1 + rng.below(periods[1])];
        let (offer, take) = (1 + rng.below(8), 1 + rng.below(8));
        macro_rules! set {
            ($name:literal, $value:expr) => {{
                let value: u64 = $value;
                sim.set($name, value);
                model.set_u64(port($name), value);
            }};
        }
        set!("tx_rst", 1);
        set!("rx_rst", 1);
        let (mut sent, mut received, mut cycles) = (0u64, 0u64, [0u64; 2]);
        let (mut offered, mut waiting) = (false, None);
        while received < 400 {
            assert!(cycles[0] + cycles[1] < 40_000, "seed {seed}: stuck after {received} of {sent}");
            let now = next[0].min(next[1]);
            let rising = [next[0] == now, next[1] == now];
            if cycles[0] >= 3 && cycles[1] >= 3 {
                set!("tx_rst", 0);
                set!("rx_rst", 0);
            }
            let running = cycles[0] > 3 && cycles[1] > 3;
            if rising[0] {
                offered = running && (offered || rng.below(8) < offer);
                set!("in_valid", offered.into());
                set!("in", if offered { sent } else { rng.below(1 << 20) });
            }
            let ready = rising[1] && running && rng.below(8) < take;
            if rising[1] {
                set!("out_ready", ready.into());
            }
            model.set_time(now);
            model.eval();
            for (name, id) in [("in_ready", in_ready), ("out_valid", out_valid), ("out", out)] {
                assert_eq!(sim.get(name), model.get_u64(id), "seed {seed}: {name} at {now} ps");
            }
            if rising[0] && offered && sim.get("in_ready") == 1 {
                sent += 1;
                offered = false;
            }
            if rising[1] && running && sim.get("out_valid") == 1 {
                let word = sim.get("out");
                assert_eq!(*waiting.get_or_insert(word), word, "seed {seed}: an offer changed");
                if ready {
                    assert_eq!(word, received, "seed {seed}: out of order");
                    received += 1;
                    waiting = None;
                }
            }
            let mut on = Vec::new();
            for (i, (name, id)) in [("tx_clk", tx), ("rx_clk", rx)].into_iter().enumerate() {
                if rising[i] {
                    model.set_u64(id, 1);
                    on.push(name);
                    cycles[i] += 1;
                    next[i] += periods[i];
                }
            }
            model.eval();
            sim.tick_clocks(&on);
            model.set_u64(tx, 0);
            model.set_u64(rx, 0);
            model.eval();
        }
        assert!(sent >= received);
    }
}
