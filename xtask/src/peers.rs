// SPDX-License-Identifier: MIT OR Apache-2.0
//! `peers`: stock Linux to run against, in `target/peers`: a kernel, programs that others wrote, and the QEMU that runs both. All of it from Debian's packages.

pub mod debian;
mod initrd;
mod newer;
mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{bail, Context, Result};

use crate::workspace;
use debian::{Apt, Suites};
pub use initrd::Files;
pub use newer::Newer;
pub use programs::Programs;

/// Options of `peers`.
#[derive(clap::Args)]
pub struct Args {
    /// Fetch anew what is there, in the versions that Debian has today
    #[arg(long)]
    update: bool,
}

/// The release that guests are of.
const GUEST_SUITES: Suites = &["bookworm"];
/// Packages of a guest.
const GUEST: &[&str] = &[
    "linux-image-amd64",
    "busybox-static",
    "iproute2",
    "ibverbs-providers",
    "ibverbs-utils",
    "rdmacm-utils",
    "perftest",
];
/// What a guest has of them. The plugin is soft-RoCE's part of libibverbs, which finds it by the file of its name.
const PROGRAMS: &[&str] = &[
    "bin/busybox",
    "bin/ip",
    "usr/bin/rdma",
    "usr/bin/ibv_devinfo",
    "usr/bin/ibv_rc_pingpong",
    "usr/bin/ibv_srq_pingpong",
    "usr/bin/ibv_uc_pingpong",
    "usr/bin/ibv_ud_pingpong",
    "usr/bin/rping",
    // With which its threads end.
    "lib/x86_64-linux-gnu/libgcc_s.so.1",
    "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so",
];
/// Its modules: the network, soft-RoCE with the checksum that it asks for by name, and what programs reach it by; and what programs reach a card
/// on the bus by.
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_net",
    "crc32_generic",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
    "8021q",
    "vfio_iommu_type1",
    "vfio_pci",
];
/// The release that QEMU is of: `vfio-user-pci` is newer than that of the guests.
const QEMU_SUITES: Suites = &["trixie", "trixie-backports"];
/// What runs guests.
const QEMU: &[&str] = &["qemu-system-x86"];
/// What programs for guests are compiled with: headers and libraries of the guest, for the host's own may be newer.
const SYSROOT: &[&str] = &["libibverbs-dev", "libc6-dev"];

/// All packages, by the release that they are of: first those of guests, and what is compiled for them.
const PACKAGES: [(Suites, &[&[&str]]); 2] = [(GUEST_SUITES, &[GUEST, SYSROOT]), (QEMU_SUITES, &[QEMU])];

/// What is there.
pub struct Peers {
    folder: PathBuf,
}

/// Fetches what is missing.
pub fn run(args: &Args) -> Result<u8> {
    let peers = Peers::get(args.update)?;
    let packages = fs::read_to_string(peers.folder.join(STAMP)).context("reading what is there")?;
    print!("{packages}");
    println!("{}", peers.folder.display());
    Ok(0)
}

/// Names what all was made of; written last.
const STAMP: &str = "packages.txt";

impl Peers {
    /// What is there, made if it is not, or if another version of this program made it.
    pub fn get(update: bool) -> Result<Peers> {
        let folder = workspace::target().join("peers");
        let stamp = fs::read_to_string(folder.join(STAMP)).unwrap_or_default();
        if !update && stamp.starts_with(&recipe()) {
            return Ok(Peers { folder });
        }
        let partial = folder.with_file_name("peers.partial");
        workspace::remove_folder(&partial)?;
        let begin = Instant::now();
        eprintln!("peers: packages of Debian {} (some 90 MB) ...", GUEST_SUITES.join(", "));
        let apt = Apt::new(partial.join("apt"), GUEST_SUITES)?;
        let root = partial.join("guest");
        let mut packages = apt.unpack(GUEST, &root)?;
        let kernel = only(&root.join("boot"), "vmlinuz-")?;
        let version = kernel.file_name().unwrap_or_default().to_string_lossy().replace("vmlinuz-", "");
        eprintln!("peers: Linux {version} and its first files ...");
        let mut files = Files::default();
        files.programs(&root, PROGRAMS)?;
        files.modules(&root.join("lib/modules").join(&version), MODULES)?;
        files.text("etc/libibverbs.d/rxe.driver", "driver rxe\n");
        files.text("init", include_str!("peers/init.sh"));
        let initrd = partial.join("initrd");
        fs::write(&initrd, files.archive()?).with_context(|| format!("writing {}", initrd.display()))?;
        fs::rename(&kernel, partial.join("vmlinuz")).context("keeping the kernel")?;
        workspace::remove_folder(&root)?;
        packages.extend(apt.unpack(SYSROOT, &partial.join("sysroot"))?);
        workspace::remove_folder(&partial.join("apt"))?;
        eprintln!("peers: QEMU of Debian {} (some 40 MB) ...", QEMU_SUITES.join(", "));
        let apt = Apt::new(partial.join("apt"), QEMU_SUITES)?;
        packages.extend(apt.unpack(QEMU, &partial.join("qemu"))?);
        workspace::remove_folder(&partial.join("apt"))?;
        packages.sort();
        packages.dedup();
        let list = format!("{}linux {version}\n{}\n", recipe(), packages.join("\n"));
        workspace::write_whole(&partial.join(STAMP), &list)?;
        workspace::remove_folder(&folder)?;
        fs::rename(&partial, &folder).context("putting it in its place")?;
        let peers = Peers { folder };
        eprintln!("peers: {} s", begin.elapsed().as_secs());
        Ok(peers)
    }

    /// Compiles a program of verbs for guests, by the host's C compiler: `CC`, or `cc`.
    pub fn compile(&self, source: &Path, program: &Path) -> Result<()> {
        const FIX: &str = "install gcc, or set CC to a compiler for x86-64 that takes its options";
        let sysroot = self.folder.join("sysroot");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut words = compiler.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("cc"));
        command.args(words).args(["-O2", "-g", "-Wall", "-Wextra", "-o"]).arg(program).arg(source);
        command.arg(format!("--sysroot={}", sysroot.display()));
        // Other distributions' compilers look elsewhere.
        for folder in ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|folder| sysroot.join(folder))
        {
            command.arg("-B").arg(&folder).arg("-L").arg(&folder);
            command.arg(format!("-Wl,-rpath-link,{}", folder.display()));
        }
        command.arg("-isystem").arg(sysroot.join("usr/include/x86_64-linux-gnu")).arg("-libverbs");
        let status = command.status().with_context(|| format!("running {compiler}; {FIX}"))?;
        if !status.success() {
            bail!("{compiler} does not compile {}; {FIX}", source.display());
        }
        Ok(())
    }

    /// A guest whose first files have `more` besides; its serial line is the standard output. Without an accelerator: one that the host has need not be one that it lends.
    /// What it boots from is `NAME.initrd` of the folder.
    pub fn guest(&self, name: &str, more: &Files, folder: &Path) -> Result<Command> {
        let initrd = folder.join(format!("{name}.initrd"));
        // The kernel takes archives one behind the other.
        let first = self.folder.join("initrd");
        let mut all = fs::read(&first).with_context(|| format!("reading {}", first.display()))?;
        all.resize(all.len().next_multiple_of(512), 0);
        all.extend(more.archive()?);
        fs::write(&initrd, all).with_context(|| format!("writing {}", initrd.display()))?;
        let qemu = self.folder.join("qemu");
        let at = |place: &str| qemu.join(place);
        let folders = ["usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/pulseaudio"];
        let path = folders.map(|folder| at(folder).display().to_string()).join(":");
        // Its own loader: the host's may be older than its libraries.
        let mut command = Command::new(at("usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"));
        command.args(["--library-path", &path]).arg(at("usr/bin/qemu-system-x86_64"));
        command.env("QEMU_MODULE_DIR", at("usr/lib/x86_64-linux-gnu/qemu")).current_dir(folder);
        for data in ["usr/share/qemu", "usr/share/seabios"] {
            command.arg("-L").arg(at(data));
        }
        command.args([
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
            "-serial",
            "stdio",
        ]);
        command.args([
            "-machine",
            "q35",
            "-accel",
            "tcg",
            "-m",
            "512",
            "-append",
            // With an IOMMU, if the machine has one. Whether the timer ticks is not looked at: on a busy host it seems not to.
            "console=ttyS0 quiet panic=-1 no_timer_check intel_iommu=on",
        ]);
        command.arg("-kernel").arg(self.folder.join("vmlinuz")).arg("-initrd").arg(initrd);
        Ok(command)
    }
}

/// What all is made by, but the packages' versions.
fn recipe() -> String {
    let packages =
        PACKAGES.map(|(suites, lists)| format!("{}: {}", suites.join(" "), lists.concat().join(" ")));
    let files = [PROGRAMS, MODULES].map(|list| list.join(" "));
    let init = include_str!("peers/init.sh")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join("; ");
    format!("{}\n{}\n{init}\n", packages.join("\n"), files.join("\n"))
}

/// The file of a folder whose name begins so.
fn only(folder: &Path, begin: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin)) {
            return Ok(path);
        }
    }
    bail!("{} has no {begin}*", folder.display())
}
