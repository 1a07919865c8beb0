// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of RDMA that Debian packages, unmodified, for this machine: they run with the libraries of `cargo xtask verbs`.
//!
//! Only the programs are fetched, and what they need that is no part of a small system; the C library is this machine's. Each package is of one version,
//! whose hash is known here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};
use sha2::{Digest, Sha256};

use super::debian::{Apt, Suites};
use crate::workspace;

/// The release that they are of.
const SUITES: Suites = &["bookworm"];

/// Package, version, and SHA-256 of its file.
const PACKAGES: [(&str, &str, &str); 4] = [
    ("ibverbs-utils", "44.0-2", "610423d011908d21d8bbda185af96d63cd8b3b8a90ab187e0992253eae249049"),
    ("perftest", "4.5+0.17-1", "d5bb8f968762295021e89548b983953787047676a406cc38f98559cc5332fcdb"),
    // perftest links these; it uses the first for multicast alone.
    ("libibumad3", "44.0-2", "0297f4f6a29d7870ea3c8c85b2b2bddce2b665a6e7b17114dce82a5087442a32"),
    ("libpci3", "1:3.9.0-4", "75519023eb1f0cdc556709b109765e2ea36f6e5c66b8ca94cec45843b3e3bee7"),
];

/// Names what all was made of; written last.
const STAMP: &str = "packages.txt";

/// The programs.
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Fetches them, unless they are there.
    ///
    /// # Errors
    /// Debian's packages cannot be had, or are others than those known here.
    pub fn get() -> Result<Programs> {
        let folder = workspace::target().join("programs");
        let recipe: String =
            PACKAGES.iter().map(|(name, version, hash)| format!("{name} {version} {hash}\n")).collect();
        if fs::read_to_string(folder.join(STAMP)).is_ok_and(|stamp| stamp == recipe) {
            return Ok(Programs { folder });
        }
        let partial = folder.with_file_name("programs.partial");
        workspace::remove_folder(&partial)?;
        eprintln!("programs: packages of Debian {} (half a megabyte) ...", SUITES.join(", "));
        let apt = Apt::new(partial.join("apt"), SUITES)?;
        let files = partial.join("files");
        let wanted: Vec<String> =
            PACKAGES.iter().map(|(name, version, _)| format!("{name}={version}")).collect();
        apt.download(&wanted, &files)?;
        for entry in fs::read_dir(&files).with_context(|| format!("reading {}", files.display()))? {
            let path = entry?.path();
            check(&path)?;
            let mut unpack = Command::new("dpkg-deb");
            unpack.arg("-x").arg(&path).arg(&partial);
            if workspace::exit_code(unpack)? != 0 {
                bail!("{} cannot be unpacked", path.display());
            }
        }
        workspace::remove_folder(&files)?;
        workspace::remove_folder(&partial.join("apt"))?;
        workspace::write_whole(&partial.join(STAMP), &recipe)?;
        workspace::remove_folder(&folder)?;
        fs::rename(&partial, &folder).context("putting the programs in their place")?;
        Ok(Programs { folder })
    }

    /// A program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join("usr/bin").join(name)
    }

    /// Where their libraries are, but those of RDMA.
    pub fn libraries(&self) -> PathBuf {
        self.folder.join("usr/lib/x86_64-linux-gnu")
    }
}

/// Refuses a package whose hash is another one.
fn check(path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (package, _) = name.split_once('_').with_context(|| format!("{name} is no name of a package"))?;
    let known = PACKAGES.iter().find(|(known, ..)| *known == package);
    let (_, version, wanted) = known.with_context(|| format!("{name} was not asked for"))?;
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != *wanted {
        bail!("{package} {version}: SHA-256 is {found}, expected {wanted}; if Debian has a new version, put both into xtask/src/peers/programs.rs");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_another_hash_is_refused() {
        let folder = std::env::temp_dir().join(format!("ferrowire-programs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("perftest_4.5+0.17-1_amd64.deb");
        fs::write(&file, "something else").unwrap();
        let refused = check(&file).unwrap_err().to_string();
        assert!(refused.contains("SHA-256 is") && refused.contains("d5bb8f96"), "{refused}");
        let other = folder.join("other_1_amd64.deb");
        fs::write(&other, "").unwrap();
        assert!(check(&other).unwrap_err().to_string().contains("was not asked for"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
