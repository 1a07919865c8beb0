// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scripts for Vivado, run by `tclsh` (Debian: `tcl`) with stand-ins for Vivado's commands. Without `tclsh` they are skipped, and fail where `CI` is `true`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ferrowire_boards::{Alveo, ALVEOS};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_shell::AlveoShell;

/// What Vivado says when all licences are there.
const BOUGHT: &str = "| cmac_block | cmac_usplus | Bought |";

fn has_tclsh() -> bool {
    let found = Command::new("tclsh").stdin(Stdio::null()).status().is_ok();
    if !found {
        assert!(!std::env::var("CI").is_ok_and(|ci| ci == "true"), "no tclsh (Debian: tcl)");
        eprintln!("skipped: no tclsh (Debian: tcl)");
    }
    found
}

struct Run {
    folder: PathBuf,
    shell: AlveoShell,
    answers: Vec<(&'static str, String)>,
}

impl Run {
    /// An empty folder with the board's scripts, and a Vivado to which all is right.
    fn new(board: &str, name: &str) -> Run {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tcl_{name}"));
        let mut built = folder.clone().into_os_string();
        built.push(".build");
        let _ = (fs::remove_dir_all(&folder), fs::remove_dir_all(built));
        fs::create_dir_all(&folder).unwrap();
        let card = RnicConfig::named("pcie4-64b").unwrap();
        let shell = AlveoShell::new(Alveo::named(board).unwrap(), card).unwrap();
        let script = shell.build_script();
        for (file, text) in [
            ("build.tcl", script.clone()),
            ("program.tcl", shell.program_script()),
            ("flash.tcl", shell.flash_script()),
            ("files.f", format!("{board}.v\n")),
        ] {
            fs::write(folder.join(file), text).unwrap();
        }
        let properties = script.lines().filter(|line| line.starts_with("    ") && line.ends_with('}'));
        let known = properties.filter_map(|line| line.trim().split_once(" {")).map(|(name, _)| name);
        let known: Vec<&str> = known.filter(|name| !name.contains(' ')).collect();
        let answers = vec![
            ("KNOWN", known.join(" ")),
            ("REFUSED", String::new()),
            ("LICENCE", BOUGHT.into()),
            ("SLACK", "0.012".into()),
            ("DEVICES", "xcu_0".into()),
        ];
        Run { folder, shell, answers }
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Run {
        let answer = self.answers.iter_mut().find(|(known, _)| *known == name).expect("an answer");
        answer.1 = value.into();
        self
    }

    /// What the script has called, or the error that ended it.
    fn run(&self, script: &str, args: &[&str]) -> Result<Vec<String>, String> {
        let stand_ins = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vivado.tcl");
        let mut tcl = Command::new("tclsh");
        tcl.current_dir(&self.folder).arg(stand_ins).arg(self.folder.join(script)).args(args);
        let output = tcl.envs(self.answers.iter().map(|(name, value)| (name, value))).output().unwrap();
        let calls = fs::read_to_string(self.folder.join("calls.txt")).unwrap();
        let calls = calls.lines().map(String::from).collect();
        match output.status.success() {
            true => Ok(calls),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn made(&self, file: &str) -> PathBuf {
        let mut folder = self.folder.clone().into_os_string();
        folder.push(".build");
        PathBuf::from(folder).join(file)
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.folder.join("calls.txt")).unwrap()
    }
}

#[test]
fn the_script_leaves_bitstream_image_and_summary_of_every_alveo() {
    if !has_tclsh() {
        return;
    }
    for (board, _) in ALVEOS {
        let run = Run::new(board, board);
        let calls = run.run("build.tcl", &[]).unwrap_or_else(|error| panic!("{board}: {error}"));
        let at = |start: &str| calls.iter().position(|call| call.starts_with(start)).expect(start);
        // What can be found at once is found before anything takes long.
        assert!(at("report_ip_status") < at("synth_ip") && at("synth_ip") < at("synth_design"));
        assert_eq!(calls.iter().filter(|call| call.starts_with("synth_ip")).count(), 2);
        for file in [format!("{board}.bit"), format!("{board}.mcs")] {
            assert!(run.made(&file).exists(), "{file}");
        }
        let part = &run.shell.board().part;
        let summary = fs::read_to_string(run.made("summary.txt")).unwrap();
        let wanted =
            format!("board {board}, part {part}, Vivado 2099.1\nmax: slack 0.012 ns\nmin: slack 0.012 ns\n");
        assert_eq!(summary, wanted);
        for report in ["report_utilization -file utilization.rpt", "report_timing_summary -file timing.rpt"] {
            assert!(calls.iter().any(|call| call == report), "{report}");
        }
    }
}

#[test]
fn a_property_that_does_not_take_ends_the_script_and_is_named() {
    if !has_tclsh() {
        return;
    }
    for (property, ip, told) in [
        ("RX_FORWARD_CONTROL_FRAMES", "cmac_usplus", "RX_FORWARD_CONTROL_FRAMES is 0, not 1"),
        ("axisten_if_enable_client_tag", "pcie4c_uscale_plus", "axisten_if_enable_client_tag is 0, not true"),
    ] {
        let run = Run::new("u50", property).with("REFUSED", property);
        let error = run.run("build.tcl", &[]).unwrap_err();
        assert!(error.contains(&format!("{ip} does not take what was set: {told}")), "{error}");
        assert!(!run.calls().contains("synth_") && !run.made("u50.bit").exists());
    }
    let run = Run::new("u50", "unknown_property");
    let without = run.answers[0].1.replace("INCLUDE_RS_FEC", "");
    let error = run.with("KNOWN", without).run("build.tcl", &[]).unwrap_err();
    assert!(error.contains("cmac_usplus has no property INCLUDE_RS_FEC in this Vivado"), "{error}");
}

#[test]
fn a_missing_licence_ends_the_script_before_anything_is_synthesised() {
    if !has_tclsh() {
        return;
    }
    let run =
        Run::new("u280", "licence").with("LICENCE", "| cmac_block |\n| Any | cmac_usplus | Design_Linking |");
    let error = run.run("build.tcl", &[]).unwrap_err();
    for told in ["no licence for the 100 Gb/s Ethernet block", "no-charge key", "xilinx.com/getlicense"] {
        assert!(error.contains(told), "{error}");
    }
    assert!(!run.calls().contains("synth_"));
}

#[test]
fn a_path_that_is_too_slow_leaves_reports_and_no_bitstream() {
    if !has_tclsh() {
        return;
    }
    let run = Run::new("u250", "slow").with("SLACK", "-0.3");
    let error = run.run("build.tcl", &[]).unwrap_err();
    assert!(error.contains("max: slack -0.3 ns; min: slack -0.3 ns"), "{error}");
    assert!(fs::read_to_string(run.made("summary.txt")).unwrap().contains("max: slack -0.3 ns"));
    assert!(run.calls().contains("report_utilization -file utilization.rpt"));
    assert!(!run.made("u250.bit").exists() && !run.calls().contains("write_bitstream"));
}

#[test]
fn jtag_scripts_take_the_one_device_and_only_what_build_has_made() {
    if !has_tclsh() {
        return;
    }
    for (board, _) in ALVEOS {
        let run = Run::new(board, &format!("jtag_{board}"));
        for script in ["program.tcl", "flash.tcl"] {
            let error = run.run(script, &[]).unwrap_err();
            assert!(error.contains("run build.tcl first"), "{script}: {error}");
        }
        run.run("build.tcl", &[]).unwrap_or_else(|error| panic!("{error}"));
        let bit = run.made(&format!("{board}.bit")).display().to_string();
        let loaded = run.run("program.tcl", &[]).unwrap_or_else(|error| panic!("{error}"));
        assert!(loaded.contains(&format!("set_property PROGRAM.FILE {bit} xcu_0")), "{loaded:?}");
        assert!(loaded.contains(&"program_hw_devices xcu_0".to_string()));
        let written = run.run("flash.tcl", &[]).unwrap_or_else(|error| panic!("{error}"));
        let part = &run.shell.board().flash.part;
        assert!(written.contains(&format!("create_hw_cfgmem -hw_device xcu_0 {part}")), "{written:?}");
        let last = written.iter().rev().find(|call| call.starts_with("program_hw_cfgmem"));
        assert!(last.is_some(), "{written:?}");
    }
    let run = Run::new("u50", "devices").with("DEVICES", "xcu_0 xcu_1");
    run.run("build.tcl", &[]).unwrap();
    let folder = run.made("").display().to_string();
    for script in ["program.tcl", "flash.tcl"] {
        let error = run.run(script, &[]).unwrap_err();
        assert!(error.contains("2 devices at the cable: xcu_0, xcu_1; name one"), "{error}");
        assert!(!run.calls().contains("program_hw"));
        let calls = run.run(script, &[&folder, "xcu_1"]).unwrap_or_else(|error| panic!("{error}"));
        assert!(calls.contains(&"program_hw_devices xcu_1".to_string()), "{calls:?}");
    }
}
