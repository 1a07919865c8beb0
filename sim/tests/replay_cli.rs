// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire-sim replay` with files that make no sense: a line that says what to do, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of its own, removed with all in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ferrowire-replay-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// With the golden case `write_small`, its text changed.
    fn golden(name: &str, change: impl FnOnce(&mut serde_json::Value)) -> Self {
        let folder = Self::new(name);
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/v4");
        let text = fs::read_to_string(golden.join("scenarios.json")).unwrap();
        let mut all: serde_json::Value = serde_json::from_str(&text).unwrap();
        let cases = all["cases"].as_array_mut().unwrap();
        cases.retain(|case| case["name"] == "write_small");
        change(&mut cases[0]);
        fs::write(folder.0.join("scenarios.json"), all.to_string()).unwrap();
        fs::copy(golden.join("write_small.pcap"), folder.0.join("write_small.pcap")).unwrap();
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The one line that the command fails with.
#[track_caller]
fn refused(folder: &Path, more: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ferrowire-sim"))
        .arg("replay")
        .arg(folder)
        .args(more)
        .output()
        .unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{out}{error}");
    assert_eq!(out, "", "nothing is half-written");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("error: "), "{error}");
    error
}

#[test]
fn a_folder_or_file_that_is_not_there_is_named() {
    let folder = Folder::new("absent");
    for more in [&[][..], &["--json"]] {
        let error = refused(&folder.0.join("none"), more);
        assert!(error.contains("none: no such folder; give one that holds scenarios.json"), "{error}");
        let error = refused(&folder.0, more);
        assert!(error.contains("scenarios.json: cannot be read; give a folder"), "{error}");
    }
}

#[test]
fn text_that_is_no_scenario_is_refused_with_its_place() {
    let folder = Folder::new("text");
    let refuse = |text: &str| {
        fs::write(folder.0.join("scenarios.json"), text).unwrap();
        refused(&folder.0, &[])
    };
    let error = refuse("{\"cases\": [");
    assert!(error.contains("line 1") && error.contains("correct the file"), "{error}");
    let error = refuse("{\"cases\": [{\"name\": \"x\"}]}");
    assert!(error.contains("missing field `capture`"), "{error}");
    assert!(refuse("{\"cases\": []}").contains("no cases; add some"));
}

#[test]
fn values_that_cannot_be_are_named() {
    type Change = fn(&mut serde_json::Value);
    let changes: [(&str, Change, &str); 9] = [
        ("mtu", |case| case["path_mtu"] = 1500.into(), "path_mtu 1500 is not"),
        ("mac", |case| case["requester"]["mac"] = "02:00".into(), "mac `02:00` is not six bytes"),
        ("ip", |case| case["requester"]["ip"] = "10.0.0".into(), "IP address"),
        ("qpn", |case| case["requester"]["qpn"] = (1 << 24).into(), "requester.qpn 0x1000000 has more than"),
        ("family", |case| case["requester"]["ip"] = "fd00::2".into(), "different families"),
        ("access", |case| case["region"]["access"] = "ALL".into(), "access `ALL` is unknown"),
        ("va", |case| case["work"]["remote_va"] = serde_json::Value::Null, "work.remote_va is missing"),
        ("end", |case| case["requester"]["ip"] = "10.0.0.9".into(), "neither end of the case"),
        ("path", |case| case["capture"] = "../write_small.pcap".into(), "is no plain file name"),
    ];
    for (name, change, expected) in changes {
        let folder = Folder::golden(name, change);
        let error = refused(&folder.0, &[]);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_capture_that_is_missing_or_cut_is_named() {
    let folder = Folder::golden("capture", |_| {});
    let path = folder.0.join("write_small.pcap");
    let whole = fs::read(&path).unwrap();
    for (what, bytes) in
        [("cut", &whole[..whole.len() - 9]), ("no pcap", &b"nothing of the kind, only text"[..])]
    {
        fs::write(&path, bytes).unwrap();
        let error = refused(&folder.0, &[]);
        assert!(
            error.contains("write_small.pcap") && error.contains("give the folder its capture"),
            "{what}: {error}"
        );
    }
    // Only the header of the file: no frame at all.
    fs::write(&path, &whole[..24]).unwrap();
    let error = refused(&folder.0, &[]);
    assert!(error.contains("holds no frame of the requester"), "{error}");
    fs::remove_file(&path).unwrap();
    let error = refused(&folder.0, &[]);
    assert!(error.contains("write_small.pcap") && error.contains("give the folder its capture"), "{error}");
}

#[test]
fn a_case_or_configuration_of_another_name_is_refused_with_those_there_are() {
    let folder = Folder::golden("name", |_| {});
    let error = refused(&folder.0, &["--case", "write_smal"]);
    assert!(error.contains("no case `write_smal`; choose one of write_small"), "{error}");
    let error = refused(&folder.0, &["--config", "generic-9b"]);
    assert!(error.contains("generic-9b") && error.contains("generic-8b"), "{error}");
}
