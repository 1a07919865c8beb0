// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debian's packages without the host's package state: `apt-get` with a folder of its own, in which nothing is installed, so that it fetches all that a package needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{bail, Context, Result};

/// Releases, the one that is preferred last.
pub type Suites = &'static [&'static str];
/// Where from, unless `FERROWIRE_DEBIAN_MIRROR` names another place.
const MIRROR: &str = "http://deb.debian.org/debian";
/// Whose signatures count.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Such a folder.
pub struct Apt {
    folder: PathBuf,
    suites: Suites,
}

impl Apt {
    /// In a folder that it makes; fetches the lists of packages of these releases.
    ///
    /// # Errors
    /// The host has no apt; the mirror is not to be reached.
    pub fn new(folder: PathBuf, suites: Suites) -> Result<Apt> {
        const FIX: &str = "Debian's packages are needed: install apt, dpkg and debian-archive-keyring, which other distributions have too, or run this in a container of Debian";
        for program in ["apt-get", "dpkg-deb"] {
            if Command::new(program).arg("--version").stdout(Stdio::null()).status().is_err() {
                bail!("there is no {program}; {FIX}");
            }
        }
        if !Path::new(KEYS).exists() {
            bail!("there is no {KEYS}; {FIX}");
        }
        for part in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part))
                .with_context(|| format!("creating {}", folder.display()))?;
        }
        let mirror = std::env::var("FERROWIRE_DEBIAN_MIRROR").unwrap_or_else(|_| MIRROR.into());
        let apt = Apt { folder, suites };
        let sources = suites.iter().map(|suite| format!("deb [signed-by={KEYS}] {mirror} {suite} main\n"));
        apt.write("sources.list", &sources.collect::<String>())?;
        // What is installed: nothing.
        apt.write("status", "")?;
        apt.run("fetching the lists of packages", &["update"])?;
        Ok(apt)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Downloads packages alone, as `NAME=VERSION`, into a folder.
    ///
    /// # Errors
    /// There is no such package, or it cannot be fetched.
    pub fn download(&self, packages: &[String], into: &Path) -> Result<()> {
        fs::create_dir_all(into).with_context(|| format!("creating {}", into.display()))?;
        let packages = packages.iter().map(String::as_str);
        let arguments: Vec<&str> = std::iter::once("download").chain(packages).collect();
        self.run_in(into, "fetching packages", &arguments)
    }

    fn run(&self, doing: &str, arguments: &[&str]) -> Result<()> {
        self.run_in(&self.folder, doing, arguments)
    }

    fn run_in(&self, folder: &Path, doing: &str, arguments: &[&str]) -> Result<()> {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let mut apt = Command::new("apt-get");
        for (name, value) in [
            ("Dir::State", at("state")),
            ("Dir::State::status", at("status")),
            ("Dir::Cache", at("cache")),
            ("Dir::Etc::sourcelist", at("sources.list")),
            ("Dir::Etc::sourceparts", "-".into()),
            ("APT::Install-Recommends", "false".into()),
            ("APT::Architecture", "amd64".into()),
            ("APT::Default-Release", self.suites.last().copied().unwrap_or_default().into()),
            // Its own user could not write here.
            ("APT::Sandbox::User", "root".into()),
        ] {
            apt.args(["-o", &format!("{name}={value}")]);
        }
        let said = apt
            .args(["-qq", "-y"])
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()
            .context("running apt-get")?;
        if !said.status.success() {
            bail!("{doing}: {}", String::from_utf8_lossy(&said.stderr).trim());
        }
        Ok(())
    }

    /// Unpacks packages, and all that they need, below `into`. Gives their files' names, which have the versions.
    ///
    /// # Errors
    /// There is no such package, or it cannot be fetched.
    pub fn unpack(&self, packages: &[&str], into: &Path) -> Result<Vec<String>> {
        fs::create_dir_all(into).with_context(|| format!("creating {}", into.display()))?;
        self.run("fetching packages", &[&["--download-only", "install"], packages].concat())?;
        let archives = self.folder.join("cache/archives");
        let mut names = Vec::new();
        for entry in fs::read_dir(&archives).with_context(|| format!("reading {}", archives.display()))? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "deb") {
                continue;
            }
            let done = Command::new("dpkg-deb")
                .arg("-x")
                .arg(&path)
                .arg(into)
                .output()
                .context("running dpkg-deb")?;
            if !done.status.success() {
                bail!("unpacking {}: {}", path.display(), String::from_utf8_lossy(&done.stderr).trim());
            }
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
            // The next call's are others.
            fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        }
        names.sort();
        Ok(names)
    }
}
