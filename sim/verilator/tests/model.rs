// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models: values through ports, several at once, clocks, waves, checks.

use ferrowire_verilator::{build, Clocks, Library, Model, Options, PortSpec, Source};

/// Every storage class of Verilator, both sides of each boundary.
const WIDTHS: [u32; 13] = [1, 7, 8, 9, 16, 17, 32, 33, 64, 65, 128, 512, 4096];

fn made(source: &Source, options: &Options) -> Library {
    let _alone = crate::build::alone();
    build(source, options).unwrap_or_else(|e| panic!("{e}"))
}

/// A register of each width from `dN` to `qN`, and its complement at once at `cN`.
fn loopback() -> Source {
    let mut ports = vec![PortSpec::input("clk", 1)];
    let mut body = String::new();
    for w in WIDTHS {
        ports.push(PortSpec::input(format!("d{w}"), w));
        ports.push(PortSpec::output(format!("q{w}"), w));
        ports.push(PortSpec::output(format!("c{w}"), w));
        body += &format!("  always @(posedge clk) q{w} <= d{w};\n  assign c{w} = ~d{w};\n");
    }
    Source::new("loopback", module("loopback", &ports, &body), ports)
}

fn module(name: &str, ports: &[PortSpec], body: &str) -> String {
    let port = |p: &PortSpec| {
        let kind = match (p.input, p.name.starts_with('q')) {
            (true, _) => "input wire",
            (false, true) => "output reg",
            (false, false) => "output wire",
        };
        format!("  {kind} [{}:0] {}", p.width - 1, p.name)
    };
    let ports: Vec<String> = ports.iter().map(port).collect();
    format!("module {name}(\n{}\n);\n{body}endmodule\n", ports.join(",\n"))
}

fn counter(top: &str, step: u32) -> Source {
    let ports = vec![PortSpec::input("clk", 1), PortSpec::input("rst", 1), PortSpec::output("q", 32)];
    let body = format!("  always @(posedge clk) q <= rst ? 32'd0 : q + 32'd{step};\n");
    Source::new(top, module(top, &ports, &body), ports)
}

/// Bits that differ from word to word and from width to width.
fn pattern(width: u32, seed: u64) -> Vec<u64> {
    let mut state = seed ^ u64::from(width) << 32;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    std::iter::repeat_with(next).take(width.div_ceil(64) as usize).collect()
}

fn masked(words: &[u64], width: u32) -> Vec<u64> {
    let mut words = words.to_vec();
    if width % 64 != 0 {
        *words.last_mut().unwrap() &= (1 << (width % 64)) - 1;
    }
    words
}

#[test]
fn values_of_every_width_pass_through_a_register() {
    let mut model = made(&loopback(), &Options::default()).instantiate();
    let clk = model.port("clk").unwrap();
    for seed in 1..20 {
        for w in WIDTHS {
            let d = model.port(&format!("d{w}")).unwrap();
            model.set_words(d, &pattern(w, seed)); // with bits set above the width
        }
        model.tick(clk);
        for w in WIDTHS {
            let (q, c) = (model.port(&format!("q{w}")).unwrap(), model.port(&format!("c{w}")).unwrap());
            assert_eq!(model.width(q), w);
            let expected = masked(&pattern(w, seed), w);
            let mut got = vec![!0; expected.len() + 1];
            model.get_words(q, &mut got);
            assert_eq!(got[..expected.len()], expected, "{w} bits");
            assert_eq!(got[expected.len()], 0, "{w} bits: words beyond the port are cleared");
            assert_eq!(model.get_u64(q), expected[0], "{w} bits");

            let complement: Vec<u64> = expected.iter().map(|x| !x).collect();
            let bytes: Vec<u8> = masked(&complement, w).iter().flat_map(|x| x.to_le_bytes()).collect();
            let mut got = vec![0xa5; bytes.len()];
            model.get_bytes(c, &mut got);
            assert_eq!(got, bytes, "{w} bits");
        }
    }
}

#[test]
fn bytes_and_single_words_set_any_width() {
    let mut model = made(&loopback(), &Options::default()).instantiate();
    let clk = model.port("clk").unwrap();
    for w in WIDTHS {
        let (d, q) = (model.port(&format!("d{w}")).unwrap(), model.port(&format!("q{w}")).unwrap());
        let words = pattern(w, 77);
        let bytes: Vec<u8> = words.iter().flat_map(|x| x.to_le_bytes()).collect();
        model.set_bytes(d, &bytes);
        model.tick(clk);
        let mut got = vec![0; words.len()];
        model.get_words(q, &mut got);
        assert_eq!(got, masked(&words, w), "{w} bits from bytes");

        model.set_bytes(d, &bytes[..1]);
        model.tick(clk);
        model.get_words(q, &mut got);
        assert_eq!(got[0], masked(&[words[0] & 0xff], w.min(64))[0], "{w} bits from one byte");
        assert!(got[1..].iter().all(|x| *x == 0), "{w} bits: the rest is cleared");

        model.set_words(d, &words);
        model.set_u64(d, !0);
        model.tick(clk);
        model.get_words(q, &mut got);
        assert_eq!(got[0], if w < 64 { (1 << w) - 1 } else { !0 }, "{w} bits from one word");
        assert!(got[1..].iter().all(|x| *x == 0), "{w} bits: the rest is cleared");
        let mut short = [0; 3];
        model.get_bytes(q, &mut short);
        assert_eq!(short[0], if w < 8 { (1u16 << w) as u8 - 1 } else { 0xff });
    }
}

#[test]
fn models_of_equal_and_different_designs_live_side_by_side() {
    let (ones, threes) =
        (made(&counter("ones", 1), &Options::default()), made(&counter("threes", 3), &Options::default()));
    let mut models = [ones.instantiate(), ones.instantiate(), threes.instantiate(), threes.instantiate()];
    let (clk, q) = (ones.port("clk").unwrap(), ones.port("q").unwrap());
    for (model, n) in models.iter_mut().zip([10, 20, 30, 40]) {
        model.ticks(clk, n);
    }
    assert_eq!(models.each_ref().map(|m| m.get_u64(q)), [10, 20, 90, 120]);
    // A library may go before its models, a model before its library, and a model to another thread.
    drop((ones, threes));
    let [first, rest @ ..] = models;
    drop(first);
    let ticked = rest.map(|mut model: Model| {
        std::thread::spawn(move || {
            model.ticks(clk, 5);
            model.get_u64(q)
        })
    });
    assert_eq!(ticked.map(|t| t.join().unwrap()), [25, 105, 135]);
}

fn two_clocks() -> Source {
    let ports: Vec<PortSpec> = ["a", "b"]
        .into_iter()
        .flat_map(|c| [PortSpec::input(format!("clk_{c}"), 1), PortSpec::output(format!("q_{c}"), 16)])
        .collect();
    let body =
        "  always @(posedge clk_a) q_a <= q_a + 16'd1;\n  always @(posedge clk_b) q_b <= q_b + 16'd1;\n";
    Source::new("two_clocks", module("two_clocks", &ports, body), ports)
}

#[test]
fn clocks_step_from_edge_to_edge_in_order() {
    let mut model = made(&two_clocks(), &Options::default()).instantiate();
    let [a, b, q_a, q_b] = ["clk_a", "clk_b", "q_a", "q_b"].map(|p| model.port(p).unwrap());
    let mut clocks = Clocks::new();
    let a = clocks.add(a, 4_000, 0);
    let b = clocks.add(b, 3_001, 1_000);
    let mut seen = Vec::new();
    for _ in 0..6 {
        let edges = clocks.step(&mut model);
        assert_eq!(edges.time, model.time());
        seen.push((edges.time, edges.rising(a), edges.falling(a), edges.rising(b), edges.falling(b)));
    }
    let expected = [
        (0, true, false, false, false),
        (1_000, false, false, true, false),
        (2_000, false, true, false, false),
        (2_500, false, false, false, true),
        (4_000, true, false, false, false),
        (4_001, false, false, true, false),
    ];
    assert_eq!(seen, expected);
    assert_eq!((model.get_u64(q_a), model.get_u64(q_b)), (2, 2));
    clocks.run(&mut model, a, 3_000);
    assert_eq!((model.get_u64(q_a), model.get_u64(q_b)), (3_002, 1 + (model.time() - 1_000) / 3_001));
}

#[test]
fn edges_at_the_same_time_happen_together() {
    let ports = vec![
        PortSpec::input("x", 1),
        PortSpec::input("y", 1),
        PortSpec::output("q", 8),
        PortSpec::output("q_y", 8),
    ];
    // q_y takes q as it was before the common edge.
    let body = "  always @(posedge x) q <= q + 8'd1;\n  always @(posedge y) q_y <= q;\n";
    let source = Source::new("together", module("together", &ports, body), ports);
    let mut model = made(&source, &Options::default()).instantiate();
    let [x, y, q, q_y] = ["x", "y", "q", "q_y"].map(|p| model.port(p).unwrap());
    let mut clocks = Clocks::new();
    let x = clocks.add(x, 1_000, 0);
    let y = clocks.add(y, 1_000, 0);
    for n in 0..5 {
        let edges = clocks.step(&mut model);
        assert!(edges.rising(x) && edges.rising(y));
        assert_eq!((model.get_u64(q), model.get_u64(q_y)), (n + 1, n));
        clocks.step(&mut model);
    }
}

#[test]
fn waves_are_written_without_changing_the_run() {
    let options = Options { trace: true, ..Options::default() };
    let library = made(&loopback(), &options);
    let folder = std::env::temp_dir().join(format!("ferrowire-waves-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (mut traced, mut plain) = (library.instantiate(), library.instantiate());
    let [clk, d, q] = ["clk", "d512", "q512"].map(|p| library.port(p).unwrap());
    for file in ["first.fst", "second.fst"] {
        traced.open_fst(folder.join(file)).unwrap();
        for n in 0..200 {
            for model in [&mut traced, &mut plain] {
                model.set_words(d, &pattern(512, n));
                model.tick(clk);
            }
            let mut values = [[0; 8]; 2];
            traced.get_words(q, &mut values[0]);
            plain.get_words(q, &mut values[1]);
            assert_eq!(values[0], values[1]);
        }
        traced.flush_fst();
        assert_eq!(traced.time(), plain.time());
    }
    drop(traced);
    for file in ["first.fst", "second.fst"] {
        let bytes = std::fs::read(folder.join(file)).unwrap();
        // Header block: type 0, a length of 329, the first and the last time, all big-endian.
        assert_eq!(bytes[..9], [0, 0, 0, 0, 0, 0, 0, 1, 73], "{file}");
        let time = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
        let start = if file == "first.fst" { 0 } else { 200_000 };
        assert_eq!((time(9), time(17)), (start, start + 200_000), "{file}");
        assert!(
            bytes.len() > 10_000,
            "{file} has {} bytes: 200 random values of 512 bits do not fit",
            bytes.len()
        );
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn waves_need_a_model_built_for_them() {
    let mut model = made(&counter("ones", 1), &Options::default()).instantiate();
    let error = model.open_fst("never.fst").unwrap_err().to_string();
    assert!(error.contains("built without `Options::trace`"), "{error}");
    assert!(!std::path::Path::new("never.fst").exists());
}

fn checked() -> Source {
    let ports = vec![PortSpec::input("clk", 1), PortSpec::output("q", 8)];
    let body =
        "  // hdl/src/rx/parse.rs:42\n  always @(posedge clk) begin\n    q <= q + 8'd1;\n`ifdef CHECKS\n    \
                if (q == `CHECKS) $stop;\n`endif\n    if (q == 8'd200) $finish;\n  end\n";
    Source {
        defines: vec!["CHECKS=8'd9".into()],
        ..Source::new("checked", module("checked", &ports, body), ports)
    }
}

#[test]
fn a_failed_check_panics_with_its_rust_line() {
    let mut model = made(&checked(), &Options::default()).instantiate();
    let clk = model.port("clk").unwrap();
    model.ticks(clk, 9);
    assert_eq!(model.stopped(), None);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| model.tick(clk))).unwrap_err();
    let said = panic.downcast_ref::<String>().unwrap();
    assert!(said.contains("`checked` at 9500 ps") && said.contains("$stop"), "{said}");
    assert!(said.ends_with("generated by hdl/src/rx/parse.rs:42"), "{said}");
}

#[test]
fn stops_can_be_asked_for_and_finish_is_noted() {
    let mut model = made(&checked(), &Options::default()).instantiate();
    let [clk, q] = ["clk", "q"].map(|p| model.port(p).unwrap());
    model.panic_on_stop(false);
    model.ticks(clk, 10);
    assert!(model.stopped().unwrap().contains("checked.v:"));
    assert_eq!(model.get_u64(q), 10);
    assert!(!model.finished());
    model.ticks(clk, 191);
    assert!(model.finished());
}

#[test]
fn an_unknown_port_is_named_with_one_like_it() {
    let library = made(&counter("ones", 1), &Options::default());
    let error = library.port("clk_i").unwrap_err();
    assert_eq!(error.to_string(), "model `ones` has no port `clk_i`; there is `clk`");
    assert!(!format!("{:?}", library.instantiate().port("zzz").unwrap_err()).is_empty());
}
