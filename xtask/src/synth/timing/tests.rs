// SPDX-License-Identifier: MIT OR Apache-2.0
use std::process::Command;

use serde_json::Value;

use super::*;
use crate::flow::blif;
use crate::workspace;

fn estimate(title: &str, text: &str, sources: &Sources, periods: &Periods) -> Result<Estimate> {
    super::estimate(title, &Blif::read(&blif::join(text))?, sources, periods)
}

fn late(blif: &str, core: f64) -> Late {
    let periods = Periods { core, others: BTreeMap::new() };
    estimate("t", blif, &Sources::default(), &periods).unwrap().late
}

fn worst(blif: &str) -> f64 {
    late(blif, 4.0).worst_ns
}

fn is(ns: f64, wanted: f64) -> bool {
    (ns - wanted).abs() < 1e-9
}

/// What `sta.py` says of a netlist.
fn other(blif: &str, name: &str, limits: &[f64]) -> Value {
    let folder = workspace::target().join("tmp");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("sta-{name}-{}.blif", std::process::id()));
    std::fs::write(&path, blif).unwrap();
    let mut command = Command::new("python3");
    command.arg(workspace::root().join("xtask/tools/sta.py")).arg(&path).arg("--json");
    limits.iter().for_each(|limit| {
        command.args(["--limit", &limit.to_string()]);
    });
    let said = command.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).unwrap()
}

/// Both programs say the same.
fn agree(blif: &str, name: &str) -> Value {
    let limits = [0.5, 0.7, 0.9, 1.1, 1.3, 2.0, 3.1, 3.5, 4.0];
    let other = other(blif, name, &limits);
    let ours = late(blif, 4.0);
    let theirs = other["worst_ns"].as_f64().unwrap();
    assert!((ours.worst_ns - theirs).abs() < 1e-6, "{} and {theirs} ns", ours.worst_ns);
    assert_eq!(other["endpoints"], ours.endpoints);
    let over: Vec<Value> = limits.iter().map(|limit| late(blif, *limit).over.into()).collect();
    assert_eq!(other["over"], Value::Array(over));
    other
}

const MAPPED: &str = include_str!("fixtures/mapped.blif");

#[test]
fn a_netlist_of_yosys_has_the_same_times_by_other_code() {
    let other = agree(MAPPED, "mapped");
    // All kinds of cells are in it, or the two agree about nothing.
    let kinds = ["LUT6", "MUXF7", "CARRY", "FDRE", "SRL16E", "RAM32M16", "RAMB36E2", "URAM288", "DSP48E2"];
    for kind in kinds {
        assert!(MAPPED.contains(&format!(".subckt {kind}")), "{kind}");
    }
    assert_eq!(other["crossings"].as_array().unwrap().len(), 1, "{other}");
}

#[test]
fn a_path_is_the_sum_of_its_cells_and_nets() {
    // 0.079 + 0.22 + 0.09 + 0.22 - 0.025 + 0.035
    let blif = ".subckt FDRE C=clk D=d Q=q\n.subckt LUT1 I0=q O=x\n.subckt FDRE C=clk D=x Q=y\n";
    assert!(is(worst(blif), 0.619), "{}", worst(blif));
    // Two loads more of q: 0.045 for each doubling.
    let loads = ".subckt LUT2 I0=q I1=q O=z\n.subckt LUT1 I0=q O=w\n";
    assert!(is(worst(&format!("{blif}{loads}")), 0.709), "{}", worst(&format!("{blif}{loads}")));
    // A clock enable is slower than D, and no path begins at a constant.
    let blif = ".subckt LUT1 I0=$true O=x\n.subckt FDRE C=clk CE=q D=x Q=q R=$false\n";
    assert!(is(worst(blif), 0.079 + 0.22 + 0.07 + 0.035), "{}", worst(blif));
}

#[test]
fn a_cell_is_one_endpoint_whatever_input_is_late() {
    let blif =
        ".subckt FDRE C=c CE=a D=b Q=q R=$false\n.subckt FDRE C=c D=q Q=a\n.subckt FDRE C=c D=$true Q=b\n";
    // The last one has no path to it.
    assert_eq!(late(blif, 0.35), Late { worst_ns: worst(blif), endpoints: 2, over: 1 });
}

#[test]
fn a_block_ram_with_output_registers_is_sooner_there_port_by_port() {
    let blif = |a: u32, b: u32| {
        format!(
            ".subckt RAMB18E2 CLKARDCLK=c CLKBWRCLK=c ENARDEN=e DOUTADOUT[0]=x DOUTBDOUT[0]=y\n.param DOA_REG {a}\n.param DOB_REG {b}\n\
             .subckt FDRE C=c D=x Q=q\n.subckt FDRE C=c D=y Q=r\n"
        )
    };
    let rest = 0.22 - 0.025 + 0.035;
    let of = |a, b| {
        agree(&blif(a, b), &format!("bram-{a}-{b}"));
        worst(&blif(a, b))
    };
    for (a, b, out) in [(0, 0, 0.83), (1, 0, 0.83), (0, 1, 0.83), (1, 1, 0.40)] {
        assert!(is(of(a, b), out + rest), "{a} {b}: {}", of(a, b));
    }
    // A wide one is read by the first clock and written by the second.
    let wide = ".subckt RAMB36E2 CLKARDCLK=c CLKBWRCLK=w DINADIN[0]=d DINBDIN[0]=d DOUTADOUT[0]=x DOUTBDOUT[0]=y\n.param READ_WIDTH_A 1001000\n\
        .subckt FDRE C=c D=y Q=q\n.subckt FDRE C=w D=q Q=d\n";
    let other = agree(wide, "bram-wide");
    assert_eq!(other["crossings"].as_array().unwrap().len(), 1, "{other}");
}

#[test]
fn a_cascade_goes_on_unless_a_register_is_between() {
    let blif = |a: u32| {
        format!(
            ".subckt RAMB36E2 CLKARDCLK=c ENARDEN=e CASDOUTA[0]=x\n.subckt RAMB36E2 CLKARDCLK=c ENARDEN=e CASDINA[0]=x DOUTADOUT[0]=y DOUTADOUT[1]=z\n\
             .param DOA_REG {a}\n.subckt FDRE C=c D=y Q=q\n.subckt FDRE C=c D=z Q=r\n"
        )
    };
    let rest = 0.22 - 0.025 + 0.035;
    for (a, wanted) in [(0, 0.83 + 0.01 + 0.30 + rest), (1, 0.83 + 0.22 + 0.24 + 0.035)] {
        agree(&blif(a), &format!("cascade-{a}"));
        assert!(is(worst(&blif(a)), wanted), "{a}: {}", worst(&blif(a)));
    }
}

#[test]
fn an_ultraram_has_an_output_register_a_port_and_its_cascade_one_as_well() {
    let blif = |params: &str| {
        format!(
            ".subckt URAM288 CLK=c EN_A=e CAS_IN_DOUT_A[3]=in DOUT_A[3]=x DOUT_B[3]=y\n{params}.subckt FDRE C=c D=x Q=q\n.subckt FDRE C=c D=y Q=in\n"
        )
    };
    let rest = 0.22 - 0.025 + 0.035;
    let cases = [
        ("", 1.20 + rest),
        (".param OREG_A \"TRUE\"\n", 1.20 + rest),
        (".param OREG_A \"TRUE\"\n.param OREG_B \"TRUE\"\n.param REG_CAS_A \"TRUE\"\n", 0.40 + rest),
    ];
    for (at, (params, wanted)) in cases.into_iter().enumerate() {
        agree(&blif(params), &format!("uram-{at}"));
        assert!(is(worst(&blif(params)), wanted), "{params}: {}", worst(&blif(params)));
    }
}

#[test]
fn a_multiplier_without_registers_is_passed_through() {
    let blif = |params: &str| {
        format!(".subckt FDRE C=c D=p Q=a\n.subckt DSP48E2 CLK=c A[0]=a B[0]=a P[0]=p\n{params}")
    };
    // The net has two loads.
    let net = 0.22 + 0.045;
    let cases = [
        ("", 0.079 + net + 1.65 + 0.22 - 0.025 + 0.035),
        (".param PREG 1\n", 0.079 + net + 1.50 + 0.035),
        (".param MREG 1\n", 0.079 + net + 0.85 + 0.035),
        (".param AREG 1\n.param BREG 1\n", 1.65 + 0.22 - 0.025 + 0.035),
    ];
    for (at, (params, wanted)) in cases.into_iter().enumerate() {
        agree(&blif(params), &format!("dsp-{at}"));
        let ns = worst(&blif(params));
        assert!(is(ns, wanted), "{params}: {ns} and {wanted}");
    }
}

#[test]
fn a_path_into_another_clock_is_a_crossing_and_each_clock_has_its_period() {
    let blif = ".subckt FDRE C=fast D=f Q=f\n.subckt LUT2 I0=f I1=s O=x\n.subckt FDRE C=slow D=x Q=s\n";
    let other = agree(blif, "clocks");
    let own = 0.079 + 0.22 + 0.09 + 0.22 - 0.025 + 0.035;
    // f has two loads.
    let crossing = own + 0.045;
    let told = &other["crossings"][0];
    assert_eq!((&told[0], &told[1], &told[2]), (&"fast".into(), &"slow".into(), &1.into()));
    assert!(is(told[3].as_f64().unwrap(), crossing), "{told}");
    assert!(is(worst(blif), own), "{}", worst(blif));
    let of = |others: &[(&str, f64)]| {
        let others = others.iter().map(|(clock, ns)| (clock.to_string(), *ns)).collect();
        let made = estimate("t", blif, &Sources::default(), &Periods { core: 0.5, others }).unwrap();
        let line = "crossing fast -> slow: 1 ends, 0.66 ns";
        assert!(made.text.contains(line), "{}", made.text);
        made.late.over
    };
    assert_eq!((of(&[]), of(&[("slow", 0.7)]), of(&[("slow", 0.7), ("fast", 0.3)])), (1, 0, 1));
}

#[test]
fn a_port_is_of_every_clock() {
    let blif = ".model t\n.inputs p\n.outputs o\n.subckt FDRE C=c D=p Q=q\n.subckt FDRE C=d D=p Q=r\n.names q o\n1 1\n.end\n";
    let made =
        estimate("t", blif, &Sources::default(), &Periods { core: 4.0, others: BTreeMap::new() }).unwrap();
    assert_eq!((made.late.endpoints, made.text.contains("crossing")), (2, false));
    assert!(made.text.contains("longest path to an output port: 0.09 ns"), "{}", made.text);
}

#[test]
fn the_report_names_each_step_with_its_block_and_line() {
    let verilog = "// top.rs:1\nmodule top (\n);\n    reg  a; // top.rs:2\n    low low_1 (\n    );\nendmodule\n\
        // low.rs:1\nmodule low (\n);\n    reg  b; // low.rs:5\n    wire both = a & b; // low.rs:6\nendmodule\n";
    let blif = ".model top\n.subckt FDRE C=clk D=a Q=a\n.subckt LUT2 I0=a I1=low_1.b O=low_1.both\n\
        .subckt LUT1 I0=low_1.both O=low_1.b_FDRE_Q_D\n.subckt FDRE C=clk D=low_1.b_FDRE_Q_D Q=low_1.b\n.end\n";
    let sources = Sources::read("top", [verilog]);
    let text = estimate("t", blif, &sources, &Periods { core: 0.5, others: BTreeMap::new() }).unwrap().text;
    assert!(text.contains("ns, 2 LUTs: a -> low_1.b (FF D)"), "{text}");
    let steps = ["a  top.rs:2", "low_1.both  low.rs:6", "low_1.b  low.rs:5"];
    let at: Vec<usize> = steps
        .iter()
        .map(|step| text.find(step).unwrap_or_else(|| panic!("{step} is not in\n{text}")))
        .collect();
    assert!(at.is_sorted(), "{text}");
    for part in
        ["0.75 to  1.00 ns       1 ####", "(top) -> low_1 ", "      1 FF       a\n", "      2 FF       a\n"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn unknown_cells_and_loops_are_errors() {
    let fails = |blif: &str| {
        let periods = Periods { core: 4.0, others: BTreeMap::new() };
        estimate("t", blif, &Sources::default(), &periods).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(fails(".subckt NOVEL A=b\n"), "the cell NOVEL is not known to the estimate of time");
    assert!(
        fails(".subckt LUT1 I0=a O=b\n.subckt LUT1 I0=b O=a\n").starts_with("a combinational loop through ")
    );
}
