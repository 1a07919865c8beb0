// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite `bus`: two simulated cards on a guest's PCI bus, behind its IOMMU, and the command `ferrowire` in the guest.
//!
//! ```text
//!  ferrowire-sim up --- ferrowire0.sock --- vfio-user-pci --- IOMMU --- vfio-pci --- ferrowire
//!     cards' wire                             of QEMU                                   | TCP, in the guest
//!                   --- ferrowire1.sock --- vfio-user-pci --- IOMMU --- vfio-pci --- ferrowire
//! ```

use std::path::Path;
use std::time::Instant;

use anyhow::{bail, Context as _, Result};

use super::process::{last, read, wait, Process, LIMIT};
use super::{Case, Setting, Suite};
use crate::peers::Files;
use crate::workspace;

/// Where the cards are on the guest's bus.
const CARDS: [&str; 2] = ["0000:00:10.0", "0000:00:11.0"];

/// What the guest does.
struct Bus {
    name: &'static str,
    quick: bool,
    script: String,
}

/// All cases.
pub fn cases() -> Vec<Box<dyn Case>> {
    let all = vec![Bus {
        name: "info",
        quick: true,
        script: "ferrowire bind --yes $A\nferrowire -d $A info\ndmesg\n".into(),
    }];
    all.into_iter().map(|case| Box::new(case) as Box<dyn Case>).collect()
}

impl Case for Bus {
    fn suite(&self) -> Suite {
        Suite::Bus
    }

    fn name(&self) -> String {
        self.name.into()
    }

    fn quick(&self) -> bool {
        self.quick
    }

    fn run(&self, setting: &Setting, logs: &Path) -> Result<()> {
        let limit = Instant::now() + LIMIT;
        let mut cards = setting.program("ferrowire-sim", logs);
        cards.args(["up", "--eager", "--verbose", "--config", &setting.config]);
        let mut cards = Process::start("the cards", cards, &logs.join("cards.log"))?;
        while !logs.join("ferrowire1.sock").exists() {
            cards.lives()?;
            wait(limit, "the cards' beginning")?;
        }
        let mut files = Files::default();
        files.own_program(&workspace::target().join("debug/ferrowire"), logs)?;
        files.text("case.sh", &format!("A={}\nB={}\n{}", CARDS[0], CARDS[1], self.script));
        let mut guest = setting.peers.guest(&files, logs)?;
        guest.args(["-object", "memory-backend-memfd,id=memory,size=512M,share=on"]);
        guest.args(["-machine", "memory-backend=memory"]);
        guest.args(["-device", "intel-iommu,intremap=on,caching-mode=on"]);
        for card in 0..2 {
            let device = serde_json::json!({
                "driver": "vfio-user-pci",
                "socket": { "type": "unix", "path": format!("ferrowire{card}.sock") },
                "addr": format!("{:#x}", 0x10 + card),
                "x-msg-timeout": 60000,
            });
            guest.args(["-device", &device.to_string()]);
        }
        let log = logs.join("guest.log");
        let mut guest = Process::start("the guest", guest, &log)?;
        guest.end(limit).with_context(|| last(&log))?;
        cards.lives()?;
        if !read(&log).contains("guest: case ended with 0") {
            bail!("{}", last(&log));
        }
        Ok(())
    }
}
