// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest's first files, as a cpio archive: programs with their libraries, kernel modules in the order of their needs, and what begins.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{bail, Context, Result};
use cpio::newc::{self, Builder};

/// Files by their names in the guest.
#[derive(Default)]
pub struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    /// One more, which can be run.
    pub fn text(&mut self, name: &str, text: &str) {
        self.0.insert(name.into(), text.into());
    }

    /// A copy of a file of the host, likewise.
    pub fn copy(&mut self, name: &str, from: &Path) -> Result<()> {
        let bytes = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
        self.0.insert(name.into(), bytes);
        Ok(())
    }

    /// Programs and plugins of the packages unpacked in `root`, by the places of these, and the libraries that they need.
    pub fn programs(&mut self, root: &Path, names: &[&str]) -> Result<()> {
        // As the guest's own loader finds them: the host's may be others.
        let loader = root.join("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2");
        let folders = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"].map(|folder| root.join(folder));
        let path = folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(":");
        self.copy("lib64/ld-linux-x86-64.so.2", &loader)?;
        for name in names {
            let from = root.join(name);
            self.copy(name, &from)?;
            let listed = Command::new(&loader).args(["--library-path", &path, "--list"]).arg(&from).output();
            let listed = listed.with_context(|| format!("running {}", loader.display()))?;
            for line in String::from_utf8_lossy(&listed.stdout).lines() {
                let Some((library, found)) = line.split_once(" => ") else { continue };
                let found = Path::new(found.split(" (").next().unwrap_or_default().trim());
                if !found.starts_with(root) {
                    bail!("{name} needs {}, which is not among the packages", library.trim());
                }
                let base = found.file_name().unwrap_or_default().to_string_lossy();
                self.copy(&format!("lib/x86_64-linux-gnu/{base}"), found)?;
            }
        }
        Ok(())
    }

    /// A program of this machine, with the libraries that it needs. They are in a folder of their own, for the guest's are another release's: a script of
    /// the program's name lets their loader run it. Symbols for debuggers are left out where `strip` is there.
    pub fn own_program(&mut self, program: &Path, scratch: &Path) -> Result<()> {
        self.program_with(program, OsStr::new(""), scratch)
    }

    /// The same of a program whose libraries are in a list of folders before the machine's own.
    pub fn program_with(&mut self, program: &Path, folders: &OsStr, scratch: &Path) -> Result<()> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stripped = scratch.join(format!("{name}.stripped"));
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(&stripped).arg(program).stdout(Stdio::null()).stderr(Stdio::null());
        if strip.status().is_ok_and(|status| status.success()) {
            self.copy(&format!("{OWN}/{name}"), &stripped)?;
            fs::remove_file(&stripped).with_context(|| format!("removing {}", stripped.display()))?;
        } else {
            self.copy(&format!("{OWN}/{name}"), program)?;
        }
        let mut ldd = Command::new("ldd");
        ldd.arg(program).env("LD_LIBRARY_PATH", folders);
        let listed = ldd.output().context("running ldd, which libc-bin has")?;
        let libraries = own_libraries(&String::from_utf8_lossy(&listed.stdout));
        let mut run = format!("/{OWN}/{name}");
        for path in &libraries {
            let base = path.file_name().unwrap_or_default().to_string_lossy();
            self.copy(&format!("{OWN}/{base}"), path)?;
            if base.starts_with("ld-") {
                run = format!("/{OWN}/{base} --library-path /{OWN} {run}");
            }
        }
        self.text(&format!("usr/bin/{name}"), &format!("#!/bin/sh\nexec {run} \"$@\"\n"));
        Ok(())
    }

    /// Kernel modules, those that they need before them; `modules/order` names them in the order of loading.
    pub fn modules(&mut self, kernel: &Path, wanted: &[&str]) -> Result<()> {
        let mut all = HashMap::new();
        find(kernel, &mut all)?;
        let mut order = Vec::new();
        for name in wanted {
            self.module(&all, name, &mut BTreeSet::new(), &mut order)?;
        }
        self.text("modules/order", &(order.join("\n") + "\n"));
        Ok(())
    }

    fn module(
        &mut self,
        all: &HashMap<String, PathBuf>,
        name: &str,
        above: &mut BTreeSet<String>,
        order: &mut Vec<String>,
    ) -> Result<()> {
        if order.iter().any(|known| known == name) {
            return Ok(());
        }
        let path = all.get(name).with_context(|| format!("the kernel has no module {name}"))?;
        if !above.insert(name.into()) {
            bail!("module {name} needs itself");
        }
        let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        for needed in needs(&bytes) {
            self.module(all, &needed, above, order)?;
        }
        self.0.insert(format!("modules/{name}.ko"), bytes);
        order.push(name.into());
        Ok(())
    }

    /// The archive.
    pub fn archive(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut folders = BTreeSet::new();
        let mut inode = 1;
        let mut entry = |out: &mut Vec<u8>, name: &str, mode: u32, bytes: &[u8]| -> std::io::Result<()> {
            inode += 1;
            let builder = Builder::new(name).ino(inode).mode(mode).nlink(1);
            let mut writer = builder.write(out, bytes.len() as u32);
            writer.write_all(bytes)?;
            writer.finish().map(drop)
        };
        for (name, bytes) in &self.0 {
            let above = name.match_indices('/').map(|(at, _)| &name[..at]);
            for folder in above.filter(|folder| folders.insert(folder.to_string())) {
                entry(&mut out, folder, FOLDER, &[])?;
            }
            entry(&mut out, name, PROGRAM, bytes)?;
        }
        newc::trailer(&mut out).context("writing an archive")?;
        Ok(out)
    }
}

/// Where a guest has what is of this machine.
const OWN: &str = "own";

/// Files that `ldd` names: libraries with what they are found as, and the loader. What has no file is the kernel's.
fn own_libraries(listed: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let place = line.split_once(" => ").map_or(line, |(_, place)| place).trim();
        let path = Path::new(place.split(" (").next()?);
        path.is_absolute().then(|| path.to_path_buf())
    };
    listed.lines().filter_map(path).collect()
}

/// Modes of folders, and of files that can be run.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// Modules below a folder, by their names.
fn find(folder: &Path, all: &mut HashMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, all)?;
        } else if path.extension().is_some_and(|extension| extension == "ko") {
            all.insert(module_name(&path.file_stem().unwrap_or_default().to_string_lossy()), path);
        }
    }
    Ok(())
}

/// The kernel takes `-` for `_` there.
fn module_name(name: &str) -> String {
    name.replace('-', "_")
}

/// Modules that a module needs, as its section `.modinfo` has them: strings `name=value`, each with a zero at its end.
fn needs(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let value = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let value = String::from_utf8_lossy(value).into_owned();
    value.split(',').filter(|name| !name.is_empty()).map(module_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn modules_come_behind_those_that_they_need() {
        let folder = workspace::target().join(format!("tmp/modules-{}", std::process::id()));
        fs::create_dir_all(folder.join("drivers")).unwrap();
        let module = |name: &str, needs: &str| {
            let text = format!("\x7fELF\0license=GPL\0depends={needs}\0name=x\0");
            fs::write(folder.join(name), text).unwrap();
        };
        module("drivers/rdma_rxe.ko", "ib-core,udp_tunnel");
        module("ib-core.ko", "");
        module("udp_tunnel.ko", "ib_core");
        let mut files = Files::default();
        let made = files.modules(&folder, &["udp_tunnel", "rdma_rxe"]);
        let missing = Files::default().modules(&folder, &["nvme"]).unwrap_err().to_string();
        module("ib-core.ko", "udp_tunnel");
        let ring = Files::default().modules(&folder, &["rdma_rxe"]).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        made.unwrap();
        assert_eq!(files.0["modules/order"], b"ib_core\nudp_tunnel\nrdma_rxe\n");
        assert!(files.0.contains_key("modules/rdma_rxe.ko"));
        assert_eq!(missing, "the kernel has no module nvme");
        assert!(ring.ends_with("needs itself"), "{ring}");
    }

    #[test]
    fn libraries_of_a_program_are_those_that_have_a_file() {
        let listed =
            "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f01)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f02)\n";
        let wanted = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(own_libraries(listed), wanted);
        assert!(own_libraries("\tstatically linked\n").is_empty());
    }

    #[test]
    fn an_archive_has_each_folder_once_and_before_what_is_in_it() {
        let mut files = Files::default();
        files.text("a/b/c", "one");
        files.text("a/d", "two");
        files.text("init", "three");
        let bytes = files.archive().unwrap();
        let mut left = &bytes[..];
        let mut names = Vec::new();
        loop {
            let reader = newc::Reader::new(left).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            names.push((reader.entry().name().to_string(), reader.entry().mode()));
            left = reader.finish().unwrap();
        }
        let of = |name: &str, mode| (name.to_string(), mode);
        let wanted = [
            of("a", FOLDER),
            of("a/b", FOLDER),
            of("a/b/c", PROGRAM),
            of("a/d", PROGRAM),
            of("init", PROGRAM),
        ];
        assert_eq!(names, wanted);
    }
}
