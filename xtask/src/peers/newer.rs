// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of RDMA of a newer Debian than [`programs`](super::programs) has, with their own C library and loader: rdma-core 56 there, 44 here.
//!
//! The packages are those that Debian has today, as its signatures say: its C library gets a new version with each point release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::debian::{Apt, Suites};
use crate::workspace;

/// The release that they are of.
const SUITES: Suites = &["trixie"];

/// The packages that are asked for; others come with them.
const PACKAGES: &[&str] = &["ibverbs-utils", "rdmacm-utils", "perftest", "qperf"];

/// Form of the folder: another one when what is done with the packages changes.
const FORM: &str = "form 1";

/// Names what is there; written last.
const STAMP: &str = "packages.txt";

/// Where the release has its libraries.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// The programs.
pub struct Newer {
    folder: PathBuf,
}

impl Newer {
    /// Fetches them, unless they are there.
    ///
    /// # Errors
    /// Debian's packages cannot be had.
    pub fn get() -> Result<Newer> {
        let folder = workspace::target().join("programs-newer");
        if fs::read_to_string(folder.join(STAMP)).is_ok_and(|stamp| stamp.starts_with(FORM)) {
            return Ok(Newer { folder });
        }
        let partial = folder.with_file_name("programs-newer.partial");
        workspace::remove_folder(&partial)?;
        eprintln!("programs: packages of Debian {} (12 MB) ...", SUITES.join(", "));
        let apt = Apt::new(partial.join("apt"), SUITES)?;
        let names = apt.unpack(PACKAGES, &partial)?;
        workspace::remove_folder(&partial.join("apt"))?;
        workspace::write_whole(&partial.join(STAMP), &format!("{FORM}\n{}\n", names.join("\n")))?;
        workspace::remove_folder(&folder)?;
        fs::rename(&partial, &folder).context("putting the programs in their place")?;
        Ok(Newer { folder })
    }

    /// Adds to a command a program that the release's own loader runs, with the libraries of this project before its own.
    pub fn add(&self, command: &mut Command, program: &str, libraries: &Path) {
        let own = self.folder.join(LIBRARIES);
        let mut folders = libraries.as_os_str().to_owned();
        folders.push(":");
        folders.push(&own);
        command.arg(own.join("ld-linux-x86-64.so.2")).arg("--library-path").arg(folders);
        command.arg(self.folder.join("usr/bin").join(program));
    }
}
