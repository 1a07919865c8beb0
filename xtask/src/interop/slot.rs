// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest with cards on its PCI bus, through QEMU's `vfio-user-pci`, behind its IOMMU: what it has, and what QEMU is told.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::Setting;
use crate::peers::Files;
use crate::workspace;

/// The first card's slot; the others are behind it. `bus/common.sh` knows them, too.
const FIRST: u8 = 0x10;
/// What cases in such a guest have in common.
const COMMON: &str = include_str!("bus/common.sh");

/// Files of the guest: the command `ferrowire`, and a script behind what all have in common.
pub fn files(script: &str, logs: &Path) -> Result<Files> {
    let mut files = Files::default();
    files.own_program(&workspace::target().join("debug/ferrowire"), logs)?;
    files.text("common.sh", COMMON);
    files.text("case.sh", &format!(". /common.sh\n{script}"));
    Ok(files)
}

/// The machine with the cards that are served on `sockets`, which are relative to `logs`.
pub fn guest(setting: &Setting, files: &Files, logs: &Path, sockets: &[&str]) -> Result<Command> {
    let mut guest = setting.peers()?.guest("slot", files, logs)?;
    // Shared memory: the cards' server maps it. It has the size that a guest has.
    guest.args(["-object", "memory-backend-memfd,id=memory,size=512M,share=on"]);
    guest.args(["-machine", "memory-backend=memory"]);
    guest.args(["-device", "intel-iommu,intremap=on,caching-mode=on"]);
    for (slot, socket) in (FIRST..).zip(sockets) {
        let device = serde_json::json!({
            "driver": "vfio-user-pci",
            "socket": { "type": "unix", "path": socket },
            "addr": format!("{slot:#x}"),
            // Milliseconds: a card that is simulated takes its time for a reset.
            "x-msg-timeout": 60_000,
        });
        guest.args(["-device", &device.to_string()]);
    }
    Ok(guest)
}
