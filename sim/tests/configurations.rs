// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--config` and `--set` of every command of `ferrowire-sim`, and what is said before anything is built.

use std::process::Command;

/// Each command with all that it cannot be without.
const COMMANDS: [&[&str]; 8] = [
    &["demo"],
    &["bench"],
    &["bench", "--loss"],
    &["soak", "--cases", "1"],
    &["hostile"],
    &["replay", "."],
    &["up"],
    &["board", "--port", "never.tty"],
];

fn run(arguments: &[&str], more: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrowire-sim"));
    // So that whatever is built fails at once, and says so.
    let output = command.args(arguments).args(more).env("CXX", "/no/such/compiler").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_command_refuses_fields_and_files_that_are_not_there_before_it_builds_anything() {
    let cards = COMMANDS.iter().copied().chain([&["card", "--socket", "never.sock"][..]]);
    for command in cards {
        for (more, word) in [
            (&["--set", "qsp=8"][..], "--set qsp: no such field; there are ahs"),
            (&["--set", "qps=100"], "qps = 100: must be a power of two"),
            (&["--config", "none/such.toml"], "reading none/such.toml"),
            (&["--config", "generic-9b"], "generic-64b, generic-8b"),
        ] {
            let (good, _, err) = run(command, more);
            assert!(!good && err.contains(word), "{command:?} {more:?}: {err}");
        }
    }
}

#[test]
fn a_file_with_values_set_over_it_is_what_a_soak_plays() {
    let (_, text) = ferrowire_hdl::config::BUILT_IN.iter().find(|(name, _)| *name == "generic-8b").unwrap();
    let file = std::env::temp_dir().join(format!("ferrowire-mine-{}.toml", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let small = ["--set", "qps=8", "--set", "keys=32"];
    let lanes = |more: &[&str]| {
        let (good, out, err) = run(&["soak", "--show", "--config", path], more);
        assert!(good, "{err}");
        out.matches("Lane {").count()
    };
    assert!(lanes(&small) < lanes(&[]), "a card of 8 queue pairs has room for fewer lanes");
    let models = ["soak", "--cases", "1", "--mode", "model-model", "--config", path];
    let (good, out, err) = run(&models, &small);
    assert!(good && out.contains("1 cases"), "{out}{err}");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn without_a_compiler_the_first_thing_said_is_how_to_install_one() {
    for command in [&["demo"][..], &["up"], &["hostile", "--packets", "10"]] {
        let (good, out, err) = run(command, &[]);
        assert!(!good && out.is_empty(), "{command:?}: {out}");
        let first = err.lines().next().unwrap_or_default();
        assert!(first.starts_with("error: no C++ compiler: `/no/such/compiler`"), "{command:?}: {err}");
        assert!(first.contains("apt install g++") && !err.contains("nothing yet"), "{command:?}: {err}");
    }
}

/// `cargo xtask demo` and its like name the program that installs Verilator. Here it leaves a file, and fails.
#[test]
fn verilator_is_installed_after_the_arguments_are_checked() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = std::env::temp_dir().join(format!("ferrowire-setup-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (setup, marker) = (folder.join("setup.sh"), folder.join("marker"));
    std::fs::write(&setup, format!("#!/bin/sh\necho \"$1\" > '{}'\nexit 3\n", marker.display())).unwrap();
    std::fs::set_permissions(&setup, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrowire-sim"));
        command.args(arguments).env("FERROWIRE_SETUP", &setup);
        let output = command.env("FERROWIRE_VERILATOR_ROOT", "/no/such/verilator").output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for arguments in COMMANDS {
        for bad in [&["--no-such-option"][..], &["--config", "generic-9b"], &["--set", "qps=100"]] {
            run(&[arguments, bad].concat());
            assert!(!marker.exists(), "{arguments:?} {bad:?}: Verilator is installed");
        }
    }
    let said = run(&["demo"]);
    assert!(said.contains("installing Verilator failed"), "{said}");
    assert_eq!(std::fs::read_to_string(&marker).unwrap().trim(), "setup");
    std::fs::remove_dir_all(&folder).unwrap();
}
