// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folders, locks and the hash that names a model.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fs4::fs_std::FileExt;
use sha2::{Digest, Sha256};

use crate::error::BuildError;

/// The workspace's target folder: `CARGO_TARGET_DIR`, or else `target` beside the `Cargo.lock` above the running
/// package, or else the one the running program lies in.
pub fn target_dir() -> PathBuf {
    target_dirs().into_iter().next().unwrap_or_else(|| env::temp_dir().join("ferrowire"))
}

/// All of these that apply, best first.
pub(crate) fn target_dirs() -> Vec<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let start = package.or_else(|| env::current_dir().ok());
    let root =
        start.and_then(|p| p.ancestors().find(|a| a.join("Cargo.lock").exists()).map(Path::to_path_buf));
    let mut dirs = Vec::new();
    if let Some(dir) = env::var_os("CARGO_TARGET_DIR").filter(|d| !d.is_empty()).map(PathBuf::from) {
        dirs.push(match &root {
            Some(root) => root.join(dir),
            None => dir,
        });
    }
    dirs.extend(root.map(|r| r.join("target")));
    if let Ok(program) = env::current_exe() {
        dirs.extend(target_of(&program));
    }
    dirs
}

/// Where models are kept.
pub(crate) fn cache_dir(chosen: Option<&Path>) -> PathBuf {
    if let Some(dir) = chosen {
        return dir.to_path_buf();
    }
    let of_cargo = || env::var_os("CARGO_MANIFEST_DIR").is_some().then(target_dir);
    let built = || env::current_exe().ok().and_then(|program| target_of(&program));
    default_cache(|name| env::var_os(name).filter(|value| !value.is_empty()), || of_cargo().or_else(built))
}

/// `FERROWIRE_CACHE`; or the target folder of a program that cargo runs, or has built there; or the cache folder of the user, who has installed the program: the
/// folder that it is started in has nothing to do with it.
fn default_cache(
    set: impl Fn(&str) -> Option<OsString>,
    target: impl FnOnce() -> Option<PathBuf>,
) -> PathBuf {
    if let Some(dir) = set("FERROWIRE_CACHE") {
        return dir.into();
    }
    if let Some(target) = target() {
        return target.join("verilated");
    }
    // The XDG Base Directory Specification: relative paths do not count.
    let base = set("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")));
    base.unwrap_or_else(env::temp_dir).join("ferrowire")
}

/// The target folder that a program was built into.
fn target_of(program: &Path) -> Option<PathBuf> {
    program.ancestors().find(|a| a.join("CACHEDIR.TAG").exists()).map(Path::to_path_buf)
}

/// The first `length` hexadecimal digits of the SHA-256 of `fields`, each preceded by its length.
pub(crate) fn hash<'a>(fields: impl IntoIterator<Item = &'a str>, length: usize) -> String {
    let mut state = Sha256::new();
    for field in fields {
        state.update((field.len() as u64).to_le_bytes());
        state.update(field);
    }
    let mut hex: String = state.finalize().iter().map(|b| format!("{b:02x}")).collect();
    hex.truncate(length);
    hex
}

/// An exclusive lock, between threads and between processes, until dropped. The system drops it with a process that dies.
pub(crate) struct Lock(#[allow(dead_code, reason = "holding it is its use")] File);

/// Waits for the lock called `name`.
pub(crate) fn lock(cache: &Path, name: &str) -> Result<Lock, BuildError> {
    let (file, path) = lock_file(cache, name)?;
    file.lock_exclusive().map_err(BuildError::io("locking", path))?;
    Ok(Lock(file))
}

/// Waits for one of `slots` places to run a compiler, shared by every process that uses this cache.
pub(crate) fn compiler_slot(cache: &Path, slots: usize) -> Result<Lock, BuildError> {
    loop {
        for slot in 0..slots.max(1) {
            let (file, path) = lock_file(cache, &format!("compiler-{slot}"))?;
            if file.try_lock_exclusive().map_err(BuildError::io("locking", path))? {
                return Ok(Lock(file));
            }
        }
        thread::sleep(Duration::from_millis(15));
    }
}

fn lock_file(cache: &Path, name: &str) -> Result<(File, PathBuf), BuildError> {
    let folder = cache.join("locks");
    fs::create_dir_all(&folder).map_err(BuildError::io("creating", &folder))?;
    let path = folder.join(name);
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    Ok((file.map_err(BuildError::io("opening", &path))?, path))
}

/// A folder that is removed when dropped, for work that is moved into place once complete.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A new folder in `cache`.
    pub(crate) fn new(cache: &Path, name: &str) -> Result<Self, BuildError> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let tmp = cache.join("tmp");
        sweep(&tmp);
        let path = tmp.join(format!("{name}-{}-{unique}", std::process::id()));
        if path.exists() {
            fs::remove_dir_all(&path).map_err(BuildError::io("removing", &path))?;
        }
        fs::create_dir_all(&path).map_err(BuildError::io("creating", &path))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-overs are harmless: nothing is read from here.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes what killed processes left more than a day ago. Nothing depends on it, so errors do not matter.
fn sweep(tmp: &Path) {
    for entry in fs::read_dir(tmp).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|m| m.modified()).ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > Duration::from_secs(24 * 3600)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_program_keeps_models_in_the_cache_folder_of_its_user() {
        let cache = |set: &[(&str, &str)], target: Option<&str>| {
            let set: Vec<(String, OsString)> = set.iter().map(|(n, v)| (n.to_string(), v.into())).collect();
            let of = |name: &str| set.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
            default_cache(of, || target.map(PathBuf::from))
        };
        let home = ("HOME", "/home/user");
        assert_eq!(cache(&[home], None), Path::new("/home/user/.cache/ferrowire"));
        assert_eq!(cache(&[home, ("XDG_CACHE_HOME", "/var/c")], None), Path::new("/var/c/ferrowire"));
        assert_eq!(cache(&[home, ("XDG_CACHE_HOME", "c")], None), Path::new("/home/user/.cache/ferrowire"));
        assert_eq!(cache(&[home], Some("/clone/target")), Path::new("/clone/target/verilated"));
        assert_eq!(cache(&[("FERROWIRE_CACHE", "/models"), home], Some("/t")), Path::new("/models"));
    }
}
