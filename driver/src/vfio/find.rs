// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which device a name means, and whether it can be had: what `/sys` says, before anything is opened.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::VfioError;
use crate::spec::pci;

/// Where the kernel's folders are: a test has others.
#[derive(Debug, Clone)]
pub struct Roots {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/dev`.
    pub dev: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self::below(Path::new("/"))
    }
}

impl Roots {
    /// Those of another tree.
    pub fn below(root: &Path) -> Self {
        Self { sys: root.join("sys"), dev: root.join("dev"), proc: root.join("proc") }
    }

    pub(super) fn device(&self, address: &str) -> PathBuf {
        self.sys.join("bus/pci/devices").join(address)
    }

    /// Addresses of our cards.
    pub fn cards(&self) -> Vec<String> {
        let mut cards = names(&self.sys.join("bus/pci/devices"));
        cards.retain(|address| self.ids(address) == (Some(pci::VENDOR), Some(pci::DEVICE)));
        cards
    }

    fn ids(&self, address: &str) -> (Option<u16>, Option<u16>) {
        let number = |name: &str| {
            let text = fs::read_to_string(self.device(address).join(name)).ok()?;
            u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
        };
        (number("vendor"), number("device"))
    }

    fn driver(&self, address: &str) -> Option<String> {
        target(&self.device(address).join("driver"))
    }

    /// Devices of a group that the kernel uses, with their drivers. Bridges and those without a driver do no harm.
    pub(super) fn used(&self, group: &str) -> Vec<String> {
        let devices = names(&self.sys.join("kernel/iommu_groups").join(group).join("devices"));
        let used = devices.into_iter().filter_map(|address| {
            let driver = self.driver(&address)?;
            let harmless = driver.starts_with("vfio") || driver == "pcieport" || driver == "pci-stub";
            (!harmless).then(|| format!("{address} ({driver})"))
        });
        used.collect()
    }

    /// Programs that have a file open, by name and number, as far as `/proc` lets this user see.
    pub(super) fn holders(&self, file: &Path) -> Vec<String> {
        let numbers = names(&self.proc).into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
        let has = |number: &String| {
            let files = self.proc.join(number).join("fd");
            names(&files).iter().any(|name| fs::read_link(files.join(name)).is_ok_and(|to| to == file))
        };
        let name = |number: String| {
            let name = fs::read_to_string(self.proc.join(&number).join("comm")).unwrap_or_default();
            format!("{} (process {number})", name.trim())
        };
        numbers.filter(has).map(name).collect()
    }
}

/// Names in a folder, in order; none if it is not there.
fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Last part of what a link leads to.
fn target(link: &Path) -> Option<String> {
    fs::read_link(link).ok()?.file_name()?.to_str().map(String::from)
}

/// A device that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) address: String,
    /// IOMMU group.
    pub(super) group: String,
    /// Name of its own file, where the kernel has such.
    pub(super) cdev: Option<String>,
}

/// The address that a name means, in full: domain, bus, device and function.
fn address_of(roots: &Roots, name: &str) -> Result<String, VfioError> {
    let wrong = || VfioError::Name { given: name.into() };
    if name.contains('/') {
        let file = Path::new(name).file_name().and_then(|file| file.to_str()).ok_or_else(wrong)?;
        let device = roots.sys.join("class/vfio-dev").join(file).join("device");
        return target(&device).ok_or_else(wrong);
    }
    let short = name.bytes().filter(|byte| *byte == b':').count() == 1;
    let full = if short { format!("0000:{name}") } else { name.to_string() }.to_ascii_lowercase();
    let parts: Vec<&str> = full.split([':', '.']).collect();
    let hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let whole = matches!(&parts[..], [domain, bus, device, function]
        if domain.len() >= 4 && bus.len() == 2 && device.len() == 2 && function.len() == 1)
        && parts.iter().all(|part| hex(part))
        && full.bytes().nth_back(1) == Some(b'.');
    if whole {
        Ok(full)
    } else {
        Err(wrong())
    }
}

/// The device of that name, if it is a card that programs may have.
pub(super) fn find(roots: &Roots, name: &str) -> Result<Found, VfioError> {
    let address = address_of(roots, name)?;
    let folder = roots.device(&address);
    if !folder.exists() {
        return Err(VfioError::NoDevice { address, cards: roots.cards() });
    }
    let (vendor, device) = roots.ids(&address);
    let (vendor, device) = (vendor.unwrap_or(0xffff), device.unwrap_or(0xffff));
    if (vendor, device) != (pci::VENDOR, pci::DEVICE) {
        return Err(VfioError::WrongDevice { address, vendor, device, cards: roots.cards() });
    }
    let Some(group) = target(&folder.join("iommu_group")) else {
        return Err(match names(&roots.sys.join("kernel/iommu_groups")).is_empty() {
            true => VfioError::NoIommu { address },
            false => VfioError::NoGroup { address },
        });
    };
    match roots.driver(&address) {
        Some(driver) if driver.starts_with("vfio") => {}
        driver => return Err(VfioError::NotBound { address, driver }),
    }
    let cdev = names(&folder.join("vfio-dev")).into_iter().next();
    Ok(Found { address, group, cdev })
}
