// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command, from the outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ferrowire-rtl-gen")).args(args).output().unwrap()
}

fn ok(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn fails(args: &[&str]) -> String {
    let output = run(args);
    assert!(!output.status.success(), "{args:?} succeeded");
    String::from_utf8(output.stderr).unwrap()
}

/// An empty folder of the test's own.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_folder_gets_everything_and_nothing_stays_beside_it() {
    let parent = folder("everything");
    let out = parent.join("rtl");
    let at = out.to_str().unwrap();
    ok(&["--config", "generic-8b", "--out", at]);
    let list = fs::read_to_string(out.join("files.f")).unwrap();
    for file in list.lines() {
        let text = fs::read_to_string(out.join(file)).unwrap();
        let module = file.strip_suffix(".v").unwrap();
        assert!(text.contains(&format!("\nmodule {module} ")), "{file} declares another module");
    }
    let manifest: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["configuration"], "generic-8b");
    assert_eq!(manifest["values"]["beat_bytes"], 8);
    assert_eq!(format!("{}.v", manifest["top"].as_str().unwrap()), list.lines().last().unwrap());
    let listed = manifest["files"].as_object().unwrap();
    assert_eq!(listed.len() + 1, fs::read_dir(&out).unwrap().count());
    assert!(["registers.md", "ferrowire_regs.h", "files.f"].iter().all(|f| listed.contains_key(*f)));
    assert_eq!(fs::read_dir(&parent).unwrap().count(), 1);
}

#[test]
fn check_names_stale_files_and_the_command_that_renews_them() {
    let out = folder("stale").join("rtl");
    let at = out.to_str().unwrap();
    ok(&["--config", "generic-8b", "--set", "qps=32", "--out", at]);
    ok(&["--check", "--out", at]);
    ok(&["--check", "--config", "generic-8b", "--set", "qps=32", "--out", at]);
    fs::write(out.join("ferrowire_regs.h"), "changed").unwrap();
    fs::remove_file(out.join("files.f")).unwrap();
    let said = fails(&["--check", "--out", at]);
    assert!(said.contains("ferrowire_regs.h: changed") && said.contains("files.f: missing"), "{said}");
    let renew = format!("--config generic-8b --set qps=32 --out {at}");
    assert!(said.contains(&renew), "{said}");
    ok(&["--config", "generic-8b", "--set", "qps=32", "--out", at]);
    ok(&["--check", "--out", at]);
    assert!(fails(&["--check", "--config", "generic-8b", "--out", at]).contains("manifest.json: changed"));
}

#[test]
fn an_earlier_output_of_a_configuration_with_fewer_fields_is_replaced() {
    let out = folder("earlier");
    let at = out.to_str().unwrap();
    ok(&["--config", "generic-8b", "--out", at]);
    let path = out.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    manifest["values"].as_object_mut().unwrap().remove("qps");
    fs::write(&path, manifest.to_string()).unwrap();
    ok(&["--config", "generic-8b", "--out", at]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    // Another program's is not ours.
    manifest["project"] = "thesis".into();
    fs::write(&path, manifest.to_string()).unwrap();
    assert!(fails(&["--config", "generic-8b", "--out", at]).contains("its manifest is of thesis"));
}

#[test]
fn a_folder_with_other_files_in_it_is_left_alone() {
    let out = folder("foreign");
    let at = out.to_str().unwrap();
    fs::write(out.join("thesis.tex"), "years of work").unwrap();
    assert!(fails(&["--config", "generic-8b", "--out", at]).contains("has no manifest.json"));
    fs::remove_file(out.join("thesis.tex")).unwrap();
    ok(&["--config", "generic-8b", "--out", at]);
    fs::write(out.join("notes.txt"), "mine").unwrap();
    assert!(fails(&["--config", "generic-8b", "--out", at]).contains("does not list notes.txt"));
    assert_eq!(fs::read_to_string(out.join("notes.txt")).unwrap(), "mine");
}

#[test]
fn a_configuration_may_be_a_file() {
    let folder = folder("file");
    let config = folder.join("mine.toml");
    let base = concat!(env!("CARGO_MANIFEST_DIR"), "/../hdl/configs/generic-8b.toml");
    fs::write(&config, fs::read_to_string(base).unwrap().replace("qps = 16", "qps = 8")).unwrap();
    let out = folder.join("rtl");
    let said = ok(&["--config", config.to_str().unwrap(), "--out", out.to_str().unwrap(), "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["manifest"]["configuration"], &said["manifest"]["values"]["qps"]),
        (&"mine".into(), &8.into())
    );
    fs::write(&config, "qps = 8").unwrap();
    let said = fails(&["--config", config.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(said.contains("mine.toml: configuration: missing field"), "{said}");
}

#[test]
fn list_shows_every_configuration_in_both_forms() {
    assert!(ok(&["--list"]).contains("generic-64b"));
    let list: serde_json::Value = serde_json::from_str(&ok(&["--list", "--json"])).unwrap();
    assert!(list["configurations"].as_array().unwrap().iter().any(|c| c["values"]["qps"] == 1024));
}

#[test]
fn errors_are_one_line_and_name_the_field() {
    let out = folder("errors").join("rtl");
    let args = ["--config", "generic-8b", "--set", "qps=100", "--out", out.to_str().unwrap()];
    assert_eq!(fails(&args), "error: qps = 100: must be a power of two from 4 to 16384\n");
    assert!(!out.exists());
    assert!(fails(&["--config", "generic-8b"]).contains("--config needs --out"));
}

#[test]
fn the_files_that_are_checked_in_are_fresh() {
    ok(&["--check"]);
}

#[test]
fn check_finds_constraints_that_are_stale_and_update_renews_them() {
    let root = folder("repository");
    let at_root = |what: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrowire-rtl-gen"));
        let output = command.arg(what).env("CARGO_MANIFEST_DIR", root.join("rtl-gen")).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(at_root("--update").0, Some(0));
    // The register page and the C header are the other two.
    let files = ferrowire_boards::names().len() + 2;
    assert_eq!(at_root("--check"), (Some(0), format!("{files} files, all fresh\n")));
    let lpf = root.join("constraints/ecpix5/ecpix5.lpf");
    let text = fs::read_to_string(&lpf).unwrap();
    fs::write(&lpf, text.replace("K23", "K24")).unwrap();
    fs::rename(root.join("constraints/u50"), root.join("constraints/u51")).unwrap();
    let wanted = "constraints/ecpix5/ecpix5.lpf: changed\nconstraints/u50/u50.xdc: missing\nconstraints/u51/u50.xdc: unexpected\n\
                  To renew: cargo run -p ferrowire-rtl-gen -- --update\n";
    assert_eq!(at_root("--check"), (Some(1), wanted.into()));
    assert_eq!(at_root("--update").0, Some(0));
    assert_eq!(at_root("--check").0, Some(0));
    assert_eq!(fs::read_to_string(&lpf).unwrap(), text);
}

#[test]
fn every_board_has_its_constraints_in_the_repository() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../constraints");
    for name in ferrowire_boards::names() {
        let own = folder.join(name);
        let mut files = fs::read_dir(&own).unwrap_or_else(|error| panic!("{}: {error}", own.display()));
        let text = fs::read_to_string(files.next().expect("a file").unwrap().path()).unwrap();
        assert!(text.contains(" PACKAGE_PIN ") || text.contains("LOCATE COMP"), "{name}: no places");
        assert!(files.next().is_none(), "{name}: more than one file");
    }
}

#[test]
fn a_board_gets_its_top_with_constraints_and_a_script() {
    let parent = folder("board");
    let out = parent.join("ecpix5");
    let at = out.to_str().unwrap();
    ok(&["--board", "ecpix5", "--out", at]);
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&read("manifest.json")).unwrap();
    assert_eq!((&manifest["board"], &manifest["top"]), (&"ecpix5".into(), &"ecpix5".into()));
    assert_eq!(read("files.f").lines().last(), Some("ecpix5.v"));
    assert!(read("ecpix5.lpf").contains("FREQUENCY PORT \"clk100\" 100 MHZ;"));
    let listed = manifest["files"].as_object().unwrap();
    assert!(["ecpix5.lpf", "build.sh", "sites.awk", "ecp5_map.v", "registers.md"]
        .iter()
        .all(|file| listed.contains_key(*file)));
    // It is a script, and its products are elsewhere.
    assert!(Command::new("sh")
        .args(["-n", out.join("build.sh").to_str().unwrap()])
        .status()
        .unwrap()
        .success());
    ok(&["--check", "--out", at]);
    fs::write(out.join("ecpix5.lpf"), "").unwrap();
    let stale = fails(&["--check", "--out", at]);
    assert!(stale.contains("ecpix5.lpf: changed") && stale.contains("--board ecpix5 --out"), "{stale}");
}

#[test]
fn an_alveo_gets_what_vivado_needs_and_stubs_that_its_script_does_not_read() {
    let parent = folder("alveo");
    let out = parent.join("u50");
    let at = out.to_str().unwrap();
    ok(&["--board", "u50", "--out", at]);
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&read("manifest.json")).unwrap();
    assert_eq!((&manifest["board"], &manifest["top"]), (&"u50".into(), &"u50".into()));
    let listed = manifest["files"].as_object().unwrap();
    assert!(["u50.xdc", "build.tcl", "program.tcl", "flash.tcl", "stubs.v", "README.md"]
        .iter()
        .all(|file| listed.contains_key(*file)));
    let (files, script) = (read("files.f"), read("build.tcl"));
    assert_eq!(files.lines().last(), Some("u50.v"));
    assert!(!files.contains("stubs.v") && !script.contains("stubs.v"));
    assert!(read("u50.xdc").contains("set_property PACKAGE_PIN AF9 [get_ports {pcie_refclk_p}]"));
    // Blocks that the top has are made by the script, and stand in the stubs.
    for block in ["pcie_block", "cmac_block"] {
        assert!(read("u50.v").contains(&format!("    {block} ")), "{block}");
        assert!(script.contains(&format!(" {block} {{\n")), "{block}");
        assert!(read("stubs.v").contains(&format!("module {block} (")), "{block}");
    }
    ok(&["--check", "--out", at]);
    assert!(ok(&["--list"]).contains("pcie4-64b on AMD Alveo U250"));
    // RS-FEC is part of what the folder was made with.
    assert!(read("u50.v").contains(".ctl_rx_rsfec_enable(1'b1)"));
    ok(&["--board", "u50", "--set", "rs_fec=false", "--set", "qps=64", "--out", at]);
    for port in ["ctl_tx_rsfec_enable", "ctl_rx_rsfec_enable", "ctl_rx_rsfec_enable_correction"] {
        assert!(read("u50.v").contains(&format!(".{port}(1'b0)")), "{port}");
    }
    assert!(read("README.md").contains("RS-FEC is off"));
    ok(&["--check", "--out", at]);
    assert!(fails(&["--board", "u200", "--set", "rs_fec=maybe", "--out", at])
        .contains("rs_fec = maybe: must be true or false"));
    for board in ["u50", "ecpix5"] {
        assert!(fails(&["--board", board, "--set", "pcie=gen4x8", "--out", at]).contains("pcie"));
    }
}

#[test]
fn a_board_that_cannot_be_built_leaves_nothing_behind() {
    let parent = folder("no_board");
    let at = parent.join("out");
    let fails = |name: &str| fails(&["--board", name, "--out", at.to_str().unwrap()]);
    assert!(fails("ecpix6").contains("no board `ecpix6`; there are butterstick, ecpix5"));
    assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
}
