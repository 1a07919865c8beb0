// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bind` and `unbind` before a folder that looks like sysfs, with a thread that does the kernel's part.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const CARD: &str = "0000:03:00.0";
const NEIGHBOUR: &str = "0000:03:00.1";

/// Something like sysfs, with a card that `dummy` has and a neighbour in its IOMMU group that `nvme` has.
struct Tree {
    root: PathBuf,
    end: Arc<AtomicBool>,
    kernel: Option<JoinHandle<()>>,
}

fn relink(root: &Path, driver: Option<&str>) {
    let link = root.join("bus/pci/devices").join(CARD).join("driver");
    let _ = fs::remove_file(&link);
    if let Some(driver) = driver {
        symlink(root.join("bus/pci/drivers").join(driver), link).unwrap();
    }
}

/// What the kernel does with what is written.
fn kernel(root: &Path, end: &AtomicBool) {
    let bus = root.join("bus/pci");
    let taken = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let asked = text.trim() == CARD;
        if asked {
            fs::write(path, "").unwrap();
        }
        asked
    };
    while !end.load(Ordering::Relaxed) {
        for driver in ["dummy", "vfio-pci"] {
            if taken(&bus.join("drivers").join(driver).join("unbind")) {
                relink(root, None);
            }
        }
        if taken(&bus.join("drivers_probe")) {
            let forced = fs::read_to_string(bus.join("devices").join(CARD).join("driver_override")).unwrap();
            relink(root, Some(if forced.trim() == "vfio-pci" { "vfio-pci" } else { "dummy" }));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Tree {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("ferrowire-sysfs-{name}-{}", std::process::id()));
        let bus = root.join("bus/pci");
        for driver in ["dummy", "vfio-pci", "nvme"] {
            fs::create_dir_all(bus.join("drivers").join(driver)).unwrap();
            fs::write(bus.join("drivers").join(driver).join("unbind"), "").unwrap();
        }
        fs::write(bus.join("drivers_probe"), "").unwrap();
        let group = root.join("kernel/iommu_groups/17");
        fs::create_dir_all(group.join("devices")).unwrap();
        for (address, ids, driver) in
            [(CARD, ("0x1af4", "0x10f0"), "dummy"), (NEIGHBOUR, ("0x144d", "0xa808"), "nvme")]
        {
            let folder = bus.join("devices").join(address);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("vendor"), format!("{}\n", ids.0)).unwrap();
            fs::write(folder.join("device"), format!("{}\n", ids.1)).unwrap();
            fs::write(folder.join("driver_override"), "(null)\n").unwrap();
            symlink(bus.join("drivers").join(driver), folder.join("driver")).unwrap();
            symlink(&group, folder.join("iommu_group")).unwrap();
            symlink(&folder, group.join("devices").join(address)).unwrap();
        }
        let end = Arc::new(AtomicBool::new(false));
        let (at, ending) = (root.clone(), Arc::clone(&end));
        Self { root, end, kernel: Some(std::thread::spawn(move || kernel(&at, &ending))) }
    }

    fn driver(&self) -> Option<String> {
        let link = fs::read_link(self.root.join("bus/pci/devices").join(CARD).join("driver")).ok()?;
        Some(link.file_name().unwrap().to_str().unwrap().into())
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrowire"));
        let output = command.args(arguments).args(["--sysfs", self.root.to_str().unwrap()]).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = self.kernel.take().map(JoinHandle::join);
        let _ = fs::remove_dir_all(&self.root);
    }
}

#[test]
fn a_card_goes_to_vfio_and_back() {
    let tree = Tree::new("there");
    let (code, said) = tree.run(&["bind", CARD, "--dry-run"]);
    assert!(code == 0 && said.contains("take it from dummy") && said.contains("IOMMU group 17"), "{said}");
    assert!(said.contains("warning: 0000:03:00.1") && said.contains("nvme"), "{said}");
    assert_eq!(tree.driver().as_deref(), Some("dummy"), "nothing was done");
    let (code, said) = tree.run(&["bind", CARD, "--yes"]);
    assert!(code == 0 && said.contains("/dev/vfio/17"), "{said}");
    assert_eq!(tree.driver().as_deref(), Some("vfio-pci"));
    let (code, said) = tree.run(&["bind", "03:00.0", "--yes"]);
    assert!(code == 0 && said.contains("nothing is to be done"), "{said}");
    let (code, said) = tree.run(&["--json", "unbind", CARD, "--yes"]);
    let json: serde_json::Value =
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!((code, &json["done"]), (0, &serde_json::Value::Bool(true)));
    tree_settles(&tree, "dummy");
    let forced =
        fs::read_to_string(tree.root.join("bus/pci/devices").join(CARD).join("driver_override")).unwrap();
    assert_ne!(forced.trim(), "vfio-pci", "nothing is left behind");
}

/// The thread that plays the kernel is behind the command.
fn tree_settles(tree: &Tree, driver: &str) {
    for _ in 0..1000 {
        if tree.driver().as_deref() == Some(driver) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the card is with {:?}", tree.driver());
}

#[test]
fn it_refuses_what_would_not_work_and_asks_before_it_works() {
    let tree = Tree::new("refuses");
    for (code, arguments, word) in [
        (1, &["bind", "0000:99:00.0"][..], "lspci"),
        (1, &["bind", NEIGHBOUR, "--yes"], "--force"),
        (2, &["bind", CARD], "--yes"),
        (1, &["unbind", CARD, "--yes"], "nothing to be undone"),
        (2, &["-d", "sim:x", "bind"], "no PCI bus"),
        (2, &["bind"], "no PCI address is given"),
    ] {
        let (found, said) = tree.run(arguments);
        assert!(found == code && said.contains(word), "{arguments:?}: {found}: {said}");
    }
    assert_eq!(tree.driver().as_deref(), Some("dummy"));
    fs::remove_file(tree.root.join("bus/pci/devices").join(CARD).join("iommu_group")).unwrap();
    let (code, said) = tree.run(&["bind", CARD, "--yes"]);
    assert!(code == 1 && said.contains("intel_iommu=on"), "{said}");
    fs::remove_dir_all(tree.root.join("bus/pci/drivers/vfio-pci")).unwrap();
    let (code, said) = tree.run(&["bind", CARD, "--yes"]);
    assert!(code == 1 && said.contains("modprobe vfio-pci"), "{said}");
}

#[test]
fn cards_on_a_bus_are_listed_with_what_to_do() {
    let tree = Tree::new("list");
    let (code, said) = tree.run(&["list"]);
    assert_eq!(code, 0, "{said}");
    let line = said.lines().find(|line| line.starts_with(CARD)).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("driver dummy") && line.contains(&format!("ferrowire bind {CARD}")), "{line}");
    assert!(!said.contains(NEIGHBOUR), "{said}");
    assert_eq!(tree.run(&["bind", CARD, "--yes"]).0, 0);
    let (_, said) = tree.run(&["list"]);
    let line = said.lines().find(|line| line.starts_with(CARD)).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("driver vfio-pci") && !line.contains("ferrowire bind"), "{line}");
}
