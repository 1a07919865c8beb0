// SPDX-License-Identifier: MIT OR Apache-2.0
use std::process::Command;

use serde_json::Value;

use super::*;
use crate::flow::blif;
use crate::workspace;

fn estimate(title: &str, text: &str, sources: &Sources, periods: &Periods) -> Result<Estimate> {
    super::estimate(title, &Blif::read(&blif::join(text))?, sources, periods, &Border::default())
}

fn late(blif: &str, core: f64) -> Late {
    let periods = Periods { core, ..Periods::default() };
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
        let made =
            estimate("t", blif, &Sources::default(), &Periods { core: 0.5, others, ..Periods::default() })
                .unwrap();
        let line = "crossing fast -> slow: s: 1 ends, 0.66 ns";
        assert!(made.text.contains(line), "{}", made.text);
        made.late.over
    };
    assert_eq!((of(&[]), of(&[("slow", 0.7)]), of(&[("slow", 0.7), ("fast", 0.3)])), (1, 0, 1));
}

#[test]
fn a_port_is_of_every_clock() {
    let blif = ".model t\n.inputs p\n.outputs o\n.subckt FDRE C=c D=p Q=q\n.subckt FDRE C=d D=p Q=r\n.names q o\n1 1\n.end\n";
    let made =
        estimate("t", blif, &Sources::default(), &Periods { core: 4.0, ..Periods::default() }).unwrap();
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
    let text = estimate("t", blif, &sources, &Periods { core: 0.5, ..Periods::default() }).unwrap().text;
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
        let periods = Periods { core: 4.0, ..Periods::default() };
        estimate("t", blif, &Sources::default(), &periods).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(fails(".subckt NOVEL A=b\n"), "the cell NOVEL is not known to the estimate of time");
    assert!(
        fails(".subckt LUT1 I0=a O=b\n.subckt LUT1 I0=b O=a\n").starts_with("a combinational loop through ")
    );
}

const STUBS: &str = "(* blackbox *)\nmodule pcie_block (\n    input  wire sys_reset,\n    output wire user_clk,\n    output wire user_reset,\n\
    \x20   output wire [1:0] m_axis_rc_tdata,\n    input  wire m_axis_rc_tready\n);\nendmodule\n(* blackbox *)\nmodule cmac_block (\n\
    \x20   input  wire init_clk,\n    input  wire sys_reset,\n    output wire gt_txusrclk2,\n    output wire stat_rx_aligned,\n    input  wire tx_axis_tvalid\n);\nendmodule\n";

/// From the PCIe block through a LUT to a flip-flop and back; a synchroniser of the link; a pointer the other way; a reset.
const BOARD: &str = ".model top\n.inputs perst\n.outputs led\n\
    .subckt pcie_block sys_reset=perst user_clk=uclk user_reset=ureset m_axis_rc_tdata[0]=d0 m_axis_rc_tdata[1]=d1 m_axis_rc_tready=ready\n\
    .subckt LUT2 I0=d0 I1=d1 O=x\n.subckt FDRE C=uclk CE=$true D=x Q=ready R=$false\n\
    .subckt BUFGCE_DIV I=$false O=iclk\n.subckt SRLC32E A[0]=$true CE=$true CLK=iclk D=$false Q=up\n\
    .subckt cmac_block init_clk=iclk sys_reset=up gt_txusrclk2=cclk stat_rx_aligned=aligned tx_axis_tvalid=head_meta[1]\n\
    .subckt FDRE C=uclk CE=$true D=aligned Q=link_meta R=$false\n\
    .subckt FDRE C=cclk CE=$true D=ready Q=head_meta[0] R=$false\n\
    .subckt FDRE C=cclk CE=$true D=$true Q=head_meta[1] R=$false\n\
    .subckt FDPE C=cclk CE=$true D=$false PRE=ureset Q=reset_Q\n.end\n";

const XDC: &str = "# Comment\nset_false_path -to [get_ports {led}]\n\
    set_max_delay -datapath_only -from [get_clocks -of_objects [get_pins {ethernet/gt_txusrclk2}]] -to [get_cells {link_meta_reg}] 3.103\n\
    set_max_delay -datapath_only -from [get_clocks -of_objects [get_pins {pcie/user_clk}]] -to [get_cells {head_meta_reg[*]}] 3.103\n\
    set_false_path -to [get_pins {reset/PRE}]\n";

fn board(blif: &str, xdc: &str) -> Estimate {
    let text = blif::join(blif);
    let blif = Blif::read(&text).unwrap();
    let mut periods = Periods { core: 4.0, ..Periods::default() };
    for (pin, name, ns) in [
        (("pcie_block", "user_clk"), "core", 1.5),
        (("cmac_block", "gt_txusrclk2"), "cmac", 3.1),
        (("BUFGCE_DIV", "O"), "init", 10.0),
    ] {
        periods.name(&blif, pin, name, ns).unwrap();
    }
    super::estimate("t", &blif, &Sources::default(), &periods, &Border::read(STUBS, xdc).unwrap()).unwrap()
}

#[test]
fn amds_blocks_are_the_border_of_a_board_and_each_clock_has_its_figures() {
    let made = board(BOARD, XDC);
    let of = |name: &str| made.clocks.iter().find(|clock| clock.name == name).unwrap();
    // Out of the block, a LUT and a flip-flop; the block's own input comes sooner.
    let core = 0.83 + 0.22 + 0.09 + 0.22 - 0.025 + 0.035;
    assert!(is(of("core").worst_ns, rounded(core)), "{:?}", made.clocks);
    // The flip-flop and the pin; the flip-flop of the link has only a crossing.
    assert_eq!((of("core").endpoints, of("core").endpoints_over_period), (2, 0));
    assert!(is(of("cmac").worst_ns, rounded(0.079 + 0.22 + 0.36 + 0.035)), "{:?}", made.clocks);
    assert_eq!((of("cmac").period_ns, of("init").endpoints), (3.1, 1));
    assert!(is(made.late.worst_ns, core), "{}", made.late.worst_ns);
    for line in [
        "core  ",
        "  1.500     1.370         2         0",
        "no clock times PRE of reset, says set_false_path",
    ] {
        assert!(made.text.contains(line), "{line} is not in\n{}", made.text);
    }
    // Other code says the same.
    let folder = workspace::target().join("tmp");
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(format!("border-{}-{name}", std::process::id()));
    let files = [("b.blif", BOARD), ("stubs.v", STUBS), ("b.xdc", XDC)];
    files.iter().for_each(|(name, text)| std::fs::write(path(name), text).unwrap());
    let mut command = Command::new("python3");
    command.arg(workspace::root().join("xtask/tools/sta.py")).arg(path("b.blif")).arg("--json");
    command.arg("--stubs").arg(path("stubs.v")).arg("--constraints").arg(path("b.xdc"));
    let said = command.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    files.iter().for_each(|(name, _)| std::fs::remove_file(path(name)).unwrap());
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let other: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert!(is(other["worst_ns"].as_f64().unwrap(), made.late.worst_ns), "{other}");
    assert_eq!(other["endpoints"], made.late.endpoints);
    let crossings: Vec<(&str, &str, u64)> = other["crossings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c[0].as_str().unwrap(), c[1].as_str().unwrap(), c[2].as_u64().unwrap()))
        .collect();
    assert_eq!(crossings, [("cclk", "uclk", 1), ("uclk", "cclk", 1)]);
}

#[test]
fn crossings_and_constraints_name_each_other() {
    let made = board(BOARD, XDC);
    let found: Vec<String> = made
        .crossings
        .iter()
        .map(|c| format!("{} {} {} {} {:?}", c.from, c.to, c.signal, c.endpoints, c.allowed_ns))
        .collect();
    assert_eq!(found, ["core cmac head_meta 1 Some(3.103)", "cmac core link_meta 1 Some(3.103)"]);
    assert_eq!(made.disagreements, [""; 0]);
    let without = |line: &str| {
        let kept: Vec<&str> = XDC.lines().filter(|known| !known.contains(line)).collect();
        board(BOARD, &kept.join("\n")).disagreements
    };
    assert_eq!(without("link_meta"), ["link_meta: from cmac to core without a set_max_delay"]);
    assert_eq!(without("head_meta"), ["head_meta: from core to cmac without a set_max_delay"]);
    // A reset that no exception names is a path like others.
    assert_eq!(without("reset/PRE"), ["reset: from core to cmac without a set_max_delay"]);
    // The other clock's exception is no exception for this one.
    let other = board(BOARD, &XDC.replace("pcie/user_clk", "ethernet/gt_txusrclk2")).disagreements;
    assert_eq!(other.len(), 2, "{other:?}");
    let idle = format!(
        "{XDC}set_max_delay -datapath_only -from [get_clocks -of_objects [get_pins {{pcie/user_clk}}]] -to [get_cells {{a/gone_reg}}] 1.0\n\
         set_false_path -to [get_pins {{gone/PRE}}]\n"
    );
    assert_eq!(
        board(BOARD, &idle).disagreements,
        [
            "a.gone: set_max_delay from user_clk, but nothing crosses there",
            "gone/PRE: set_false_path, but there is no such pin"
        ]
    );
    // Yosys calls one bit of the register by the name of what it drives.
    let renamed =
        BOARD.replace("Q=head_meta[0]", "Q=beat").replace(".end\n", ".names beat head_meta[0]\n1 1\n.end\n");
    let renamed = board(&renamed, XDC);
    assert_eq!(renamed.disagreements, [""; 0]);
    assert_eq!(renamed.crossings[0].signal, "head_meta");
    let short = board(BOARD, &XDC.replace("[*]}] 3.103", "[*]}] 0.3")).disagreements;
    assert_eq!(short, ["head_meta: from core to cmac in 0.354 ns, set_max_delay allows 0.3"]);
    assert!(Border::read("", "set_max_delay -from [get_ports {a}] 1.0").is_err());
}

#[test]
fn an_rnic_that_is_left_out_ends_paths_and_begins_them_as_ports_do() {
    let card = BOARD.replace(
        ".end\n",
        ".subckt card rx=head_meta[1] tx=told\n.subckt FDRE C=uclk CE=$true D=told Q=held R=$false\n.end\n",
    );
    let (with, without) = (board(&card, XDC), board(BOARD, XDC));
    assert_eq!(with.late.endpoints, without.late.endpoints + 1);
    assert_eq!(with.crossings, without.crossings);
    // One load more at the Ethernet block's input: 0.045.
    let cmac = |made: &Estimate| made.clocks.iter().find(|clock| clock.name == "cmac").unwrap().worst_ns;
    assert!(is(cmac(&with), rounded(cmac(&without) + 0.045)), "{} {}", cmac(&with), cmac(&without));
    // In a card without a board it is not known.
    let alone = estimate("t", ".subckt card rx=a\n", &Sources::default(), &Periods::default());
    assert_eq!(
        alone.map(|_| ()).unwrap_err().to_string(),
        "the cell card is not known to the estimate of time"
    );
}

#[test]
fn the_constraints_of_a_shipped_board_are_read_whole() {
    let xdc = std::fs::read_to_string(workspace::root().join("constraints/u50/u50.xdc")).unwrap();
    let border = Border::read(STUBS, &xdc).unwrap();
    assert_eq!(border.delays.len(), xdc.matches("\nset_max_delay").count());
    assert!(border.delays.iter().all(|delay| delay.to.starts_with("nic.cmac.") && delay.ns == 3.103));
    for cell in ["core_reset_meta", "core_reset", "cmac_reset_meta", "cmac_reset"] {
        assert!(
            border.cuts(&format!("{cell}_Q"), "PRE") && !border.cuts(&format!("{cell}_Q"), "D"),
            "{cell}"
        );
    }
}
