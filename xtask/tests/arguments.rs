// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with a command line is said before anything is fetched.

use std::process::Command;

#[test]
fn wrong_arguments_are_refused_before_anything_is_fetched() {
    for (arguments, word) in [
        (&["synth", "--target", "ecp5", "--config", "none/such.toml"][..], "none/such.toml"),
        (&["synth", "--target", "ecp5", "--config", "generic-8b", "--set", "qsp=1"], "no such field"),
        (&["bitstream", "ecpix5", "--set", "qsp=1"], "no such field"),
        (&["interop", "--config", "generic-9b"], "generic-64b, generic-8b"),
        (&["interop", "--only", "nonsense"], "no case is like that"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        // With this, the first step of every set-up fails.
        let output = command.args(arguments).env("FERROWIRE_VERILATOR_ROOT", "/nowhere").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(word), "{arguments:?}: {said}");
        assert!(!said.contains("/nowhere"), "{arguments:?}: {said}");
    }
}
