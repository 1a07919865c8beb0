// SPDX-License-Identifier: MIT OR Apache-2.0
//! Yosys and nextpnr, as `cargo xtask setup --synth` installs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs Yosys in a folder of its own with these files.
pub fn yosys(name: &str, files: &[(&str, &str)], script: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    files.iter().for_each(|(file, text)| fs::write(folder.join(file), text).unwrap());
    run("yosys", &folder, &["-q", "-l", "yosys.log", "-p", script]);
    folder
}

/// Runs one of the tools in a folder.
pub fn run(tool: &str, folder: &Path, arguments: &[&str]) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder");
    let tools = target.join("tools/synth");
    assert!(
        tools.join("installed").exists(),
        "no {tool} in {}: run `cargo xtask setup --synth`",
        tools.display()
    );
    let mut command = Command::new("python3");
    command.arg(tools.join("bin").join(tool)).env("PYTHONPATH", &tools);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("YOWASP_CACHE_DIR", target.join("tools/yowasp-cache"));
    let done = command.current_dir(folder).args(arguments).output().unwrap();
    assert!(
        done.status.success(),
        "{tool} in {}\n{}",
        folder.display(),
        String::from_utf8_lossy(&done.stderr)
    );
}
