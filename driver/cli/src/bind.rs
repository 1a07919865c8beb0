// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire bind` and `ferrowire unbind`: gives a card on a PCI bus to user space, and back.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use clap::{Args, ValueHint};
use ferrowire::spec::pci;
use ferrowire_cards::{pci_address, Place};
use serde_json::json;

use crate::args::Common;
use crate::device::Device;
use crate::failure::Failure;
use crate::out;
use crate::sysfs::{PciDevice, Sysfs};

/// The driver that gives devices to user space.
const VFIO: &str = "vfio-pci";

/// Gives a PCI device to vfio-pci, so that programs can open it
///
/// It says what it will do and asks first. It takes root; afterwards the file in /dev/vfio can be given to a user. `unbind` takes
/// it back; so does a restart, for nothing is remembered.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    ferrowire bind 0000:03:00.0 --dry-run\n  \
    sudo ferrowire bind 0000:03:00.0 --yes")]
pub struct BindArgs {
    #[command(flatten)]
    which: Which,
    /// Also for a device that is no Ferrowire card
    #[arg(long)]
    force: bool,
}

/// Takes a PCI device from vfio-pci and lets the system choose its driver again
///
/// It says what it will do and asks first. It takes root.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sudo ferrowire unbind 0000:03:00.0")]
pub struct UnbindArgs {
    #[command(flatten)]
    which: Which,
}

#[derive(Args, Debug)]
struct Which {
    /// PCI address; `-d` does as well
    #[arg(value_parser = parse_address)]
    address: Option<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Where sysfs is
    #[arg(long, hide = true, default_value = "/sys", value_hint = ValueHint::DirPath)]
    sysfs: PathBuf,
}

fn parse_address(text: &str) -> Result<String, String> {
    pci_address(text).ok_or_else(|| format!("`{text}`: give a PCI address, as 0000:03:00.0"))
}

impl Which {
    fn device(&self, command: &str, common: &Common) -> Result<(Sysfs, PciDevice), Failure> {
        let address = match &self.address {
            Some(address) => address.clone(),
            // What changes the machine is named where it is asked for, not by the environment.
            None => match common.given_device() {
                Some(Device::At(Place::Pci(address))) => address.clone(),
                None => {
                    let fix = format!("give it: `ferrowire {command} 0000:03:00.0`; `ferrowire list` lists the cards that are there");
                    return Err(Failure::usage(format!("{command}: no PCI address is given"), fix));
                }
                Some(other) => {
                    let what = format!("{other} is on no PCI bus");
                    return Err(Failure::usage(what, "give a PCI address; other cards need no driver"));
                }
            },
        };
        let sysfs = Sysfs(self.sysfs.clone());
        let device = sysfs.device(&address)?;
        Ok((sysfs, device))
    }

    /// Says what is going to be done, and asks. Whether to go on.
    fn agreed(&self, common: &Common, plan: &Plan) -> Result<bool, Failure> {
        if common.json && self.dry_run {
            out::json(&plan.to_json(false, plan.driver.as_deref()))?;
        } else if !common.json {
            out::text(&plan.to_text())?;
        }
        if self.dry_run {
            return Ok(false);
        }
        if self.yes {
            return Ok(true);
        }
        let stdin = std::io::stdin();
        if common.json || !stdin.is_terminal() {
            return Err(Failure::usage(
                "nobody is there to be asked",
                "give --yes to do it, or --dry-run to see it alone",
            ));
        }
        out::text("Do it? [y/N] ")?;
        let mut line = String::new();
        let read = stdin.lock().read_line(&mut line);
        read.map_err(Failure::os("read the answer", "give --yes"))?;
        match matches!(line.trim(), "y" | "Y" | "yes") {
            true => Ok(true),
            false => Err(Failure::failed("nothing was done", "answer `y`, or give --yes")),
        }
    }
}

/// What is going to be done.
struct Plan {
    address: String,
    driver: Option<String>,
    group: Option<String>,
    steps: Vec<String>,
    warnings: Vec<String>,
}

impl Plan {
    fn to_text(&self) -> String {
        let mut text = format!(
            "{}: driver {}, IOMMU group {}\n",
            self.address,
            self.driver.as_deref().unwrap_or("none"),
            self.group.as_deref().unwrap_or("none")
        );
        text += &self.steps.iter().map(|step| format!("  {step}\n")).collect::<String>();
        if self.steps.is_empty() {
            text += "  nothing is to be done\n";
        }
        text + &self.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect::<String>()
    }

    fn to_json(&self, done: bool, driver: Option<&str>) -> serde_json::Value {
        json!({
            "device": self.address,
            "iommu_group": self.group,
            "steps": self.steps,
            "warnings": self.warnings,
            "done": done,
            "driver": driver,
        })
    }
}

/// Gives it away.
pub fn bind(common: &Common, args: &BindArgs) -> Result<(), Failure> {
    let (sysfs, device) = args.which.device("bind", common)?;
    let PciDevice { address, ids, driver, group, .. } = &device;
    if *ids != (pci::VENDOR, pci::DEVICE) && !args.force {
        return Err(Failure::failed(
            format!(
                "{address} is {:04x}:{:04x}, a Ferrowire card is {:04x}:{:04x}",
                ids.0,
                ids.1,
                pci::VENDOR,
                pci::DEVICE
            ),
            "give the address of a card, or --force",
        ));
    }
    let bound = driver.as_deref() == Some(VFIO);
    if !bound && !sysfs.has_driver(VFIO) {
        return Err(Failure::failed(
            format!("the driver {VFIO} is not loaded"),
            format!("`modprobe {VFIO}`"),
        ));
    }
    let Some(number) = group else {
        return Err(Failure::failed(
            format!("{address} is in no IOMMU group, so nothing would keep it from any memory"),
            "turn the IOMMU on: in the firmware, and with `intel_iommu=on` or `amd_iommu=on` for the kernel",
        ));
    };
    let mut steps = Vec::new();
    if !bound {
        steps.extend(driver.iter().map(|driver| format!("take it from {driver}")));
        steps.push(format!("let {VFIO} alone have it (driver_override)"));
        steps.push("let the drivers look at it (drivers_probe)".into());
    }
    let mut warnings = Vec::new();
    for other in sysfs.neighbours(&device)? {
        // Bridges do not count: the kernel leaves a group usable that they are in.
        let driver = other.driver.as_deref();
        if driver.is_some_and(|driver| driver != VFIO && driver != "pcieport") {
            let driver = driver.unwrap_or_default();
            warnings.push(format!(
                "{} is in the same IOMMU group, and {driver} has it: the group cannot be opened until it is with {VFIO} or without a driver",
                other.address
            ));
        }
    }
    let (driver, group) = (driver.clone(), group.clone());
    let plan = Plan { address: address.clone(), driver, group, steps, warnings };
    if !args.which.agreed(common, &plan)? {
        return Ok(());
    }
    if !bound {
        sysfs.unbind(&device)?;
        sysfs.force_driver(address, Some(VFIO))?;
        sysfs.probe(address)?;
        sysfs.await_driver(address, |now| now == Some(VFIO))?;
    }
    match common.json {
        true => out::json(&plan.to_json(true, Some(VFIO))),
        false => out::text(&format!(
            "{address} is with {VFIO}. /dev/vfio/{number} is its group: `chown $USER /dev/vfio/{number}` lets you open it without root, \
             `ferrowire unbind {address}` takes it back.\n"
        )),
    }
}

/// Takes it back.
pub fn unbind(common: &Common, args: &UnbindArgs) -> Result<(), Failure> {
    let (sysfs, device) = args.which.device("unbind", common)?;
    let PciDevice { address, driver, group, driver_override, .. } = &device;
    let bound = driver.as_deref() == Some(VFIO);
    if !bound && driver_override.is_none() {
        let driver = driver.as_deref().unwrap_or("no driver");
        return Err(Failure::failed(
            format!("{address} is with {driver}, and free to be"),
            "there is nothing to be undone",
        ));
    }
    let mut steps = Vec::new();
    if bound {
        steps.push(format!("take it from {VFIO}; a program that has it open is waited for"));
    }
    steps.push("let any driver have it (driver_override)".into());
    steps.push("let the drivers look at it (drivers_probe)".into());
    let (driver, group) = (driver.clone(), group.clone());
    let plan = Plan { address: address.clone(), driver, group, steps, warnings: Vec::new() };
    if !args.which.agreed(common, &plan)? {
        return Ok(());
    }
    if bound {
        sysfs.unbind(&device)?;
    }
    sysfs.force_driver(address, None)?;
    sysfs.probe(address)?;
    let now = sysfs.device(address)?.driver;
    match common.json {
        true => out::json(&plan.to_json(true, now.as_deref())),
        false => out::text(&format!("{address} is with {}.\n", now.as_deref().unwrap_or("no driver"))),
    }
}
