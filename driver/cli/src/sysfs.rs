// SPDX-License-Identifier: MIT OR Apache-2.0
//! PCI devices and their drivers, as Linux shows them in sysfs (Documentation/ABI/testing/sysfs-bus-pci).

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Longest wait for a driver to come or go: the kernel may probe behind the write.
const PROBE: Duration = Duration::from_secs(5);

/// sysfs.
#[derive(Debug)]
pub struct Sysfs(pub PathBuf);

/// A device, as it is now.
#[derive(Debug)]
pub struct PciDevice {
    /// Domain, bus, device and function.
    pub address: String,
    /// Vendor and device.
    pub ids: (u16, u16),
    /// The driver that has it.
    pub driver: Option<String>,
    /// Number of its IOMMU group; `None`: no IOMMU is in use.
    pub group: Option<String>,
    /// The only driver that may have it, if that was said.
    pub driver_override: Option<String>,
}

impl Sysfs {
    fn bus(&self) -> PathBuf {
        self.0.join("bus/pci")
    }

    fn folder(&self, address: &str) -> PathBuf {
        self.bus().join("devices").join(address)
    }

    /// Addresses of all devices, in order; none without a PCI bus.
    pub fn addresses(&self) -> Vec<String> {
        let entries = fs::read_dir(self.bus().join("devices")).into_iter().flatten().flatten();
        let mut all: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        all.sort();
        all
    }

    /// A device.
    ///
    /// # Errors
    /// It is not there.
    pub fn device(&self, address: &str) -> Result<PciDevice, Failure> {
        let folder = self.folder(address);
        if !folder.is_dir() {
            return Err(Failure::failed(
                format!("there is no PCI device {address}"),
                "`lspci -D` lists those that are",
            ));
        }
        let name = |link: &str| {
            let target = fs::read_link(folder.join(link)).ok()?;
            Some(target.file_name()?.to_string_lossy().into_owned())
        };
        let id = |file: &str| -> Result<u16, Failure> {
            let path = folder.join(file);
            let text = fs::read_to_string(&path);
            let text = text.map_err(Failure::os(format!("read {}", path.display()), "is this a sysfs?"))?;
            let digits = text.trim().trim_start_matches("0x");
            u16::from_str_radix(digits, 16).map_err(|_| {
                Failure::failed(format!("{} holds `{}`", path.display(), text.trim()), "is this a sysfs?")
            })
        };
        let forced = fs::read_to_string(folder.join("driver_override")).unwrap_or_default();
        let forced = forced.trim();
        Ok(PciDevice {
            address: address.into(),
            ids: (id("vendor")?, id("device")?),
            driver: name("driver"),
            group: name("iommu_group"),
            driver_override: (!forced.is_empty() && forced != "(null)").then(|| forced.into()),
        })
    }

    /// The other devices of a device's IOMMU group.
    ///
    /// # Errors
    /// The group cannot be read.
    pub fn neighbours(&self, device: &PciDevice) -> Result<Vec<PciDevice>, Failure> {
        if device.group.is_none() {
            return Ok(Vec::new());
        }
        let path = self.folder(&device.address).join("iommu_group/devices");
        let failed = || Failure::os(format!("list {}", path.display()), "is this a sysfs?");
        let mut others = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed())? {
            let address = entry.map_err(failed())?.file_name().to_string_lossy().into_owned();
            if address != device.address {
                others.push(self.device(&address)?);
            }
        }
        others.sort_by(|a, b| a.address.cmp(&b.address));
        Ok(others)
    }

    /// Whether a driver is loaded.
    pub fn has_driver(&self, driver: &str) -> bool {
        self.bus().join("drivers").join(driver).is_dir()
    }

    /// Takes the device from its driver.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn unbind(&self, device: &PciDevice) -> Result<(), Failure> {
        let Some(driver) = &device.driver else { return Ok(()) };
        let path = self.bus().join("drivers").join(driver).join("unbind");
        self.write(&path, &device.address)?;
        self.await_driver(&device.address, |now| now.is_none())
    }

    /// Says which driver alone may have the device; none takes that back.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn force_driver(&self, address: &str, driver: Option<&str>) -> Result<(), Failure> {
        self.write(&self.folder(address).join("driver_override"), driver.unwrap_or("\n"))
    }

    /// Lets the drivers look at the device.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn probe(&self, address: &str) -> Result<(), Failure> {
        self.write(&self.bus().join("drivers_probe"), address)
    }

    /// Waits until the device's driver is as it should be.
    ///
    /// # Errors
    /// It does not become so.
    pub fn await_driver(&self, address: &str, right: impl Fn(Option<&str>) -> bool) -> Result<(), Failure> {
        let end = Instant::now() + PROBE;
        loop {
            let driver = self.device(address)?.driver;
            if right(driver.as_deref()) {
                return Ok(());
            }
            if Instant::now() > end {
                let driver = driver.as_deref().unwrap_or("no driver");
                return Err(Failure::failed(
                    format!("{address} is with {driver} still"),
                    "see `dmesg` for the reason",
                ));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), Failure> {
        let written = fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|source| {
            let fix = match source.kind() {
                ErrorKind::PermissionDenied => "run it as root: only root changes drivers",
                ErrorKind::NotFound => "load the driver, or give another address",
                _ => "see `dmesg` for the reason",
            };
            Failure::Os { operation: format!("write `{}` to {}", text.trim(), path.display()), source, fix }
        })
    }
}
