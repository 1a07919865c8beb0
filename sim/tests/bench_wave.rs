// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire-sim bench --wave`.

use std::process::Command;

#[test]
fn figures_of_single_messages_have_waves() {
    let folder = std::env::temp_dir().join(format!("ferrowire-bench-wave-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for figure in ["doorbell_to_remote_cycles", "read_64_doorbell_to_cqe_cycles"] {
        let path = folder.join(figure);
        let output = Command::new(env!("CARGO_BIN_EXE_ferrowire-sim"))
            .args(["bench", "--config", "generic-8b", "--host-latency", "0", "--only", figure, "--wave"])
            .arg(&path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for extension in ["fst", "b.fst"] {
            let wave = path.with_extension(extension);
            let bytes = std::fs::metadata(&wave).map_or(0, |file| file.len());
            assert!(bytes > 1000, "{}: {bytes} bytes", wave.display());
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
