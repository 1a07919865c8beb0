// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folders: written whole or not at all, and compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::output::{Manifest, Output, MANIFEST, PROJECT};
use crate::Error;

/// Writes the output as the folder `out`, in place of an earlier output there.
///
/// The files go into a folder beside it, which is then renamed: whoever looks sees the old files or the new.
///
/// # Errors
/// The file system's; and `out` holds a file that this program did not write, which stays.
pub fn write(output: &Output, out: &Path) -> Result<(), Error> {
    let out = std::path::absolute(out).map_err(Error::io("finding", out))?;
    let (Some(parent), Some(name)) = (out.parent(), out.file_name()) else {
        return Err(Error::Foreign { path: out, why: "it is the root".into() });
    };
    ours(&out)?;
    fs::create_dir_all(parent).map_err(Error::io("creating", parent))?;
    let beside =
        |what: &str| parent.join(format!(".{}.{what}-{}", name.to_string_lossy(), std::process::id()));
    let (new, old) = (beside("new"), beside("old"));
    let done = fill(output, &new).and_then(|()| replace(&new, &out, &old));
    if done.is_err() {
        let _ = fs::remove_dir_all(&new); // what went wrong first is what matters
    }
    done
}

fn fill(output: &Output, folder: &Path) -> Result<(), Error> {
    if folder.exists() {
        // Of a process with the same number that was killed.
        fs::remove_dir_all(folder).map_err(Error::io("removing", folder))?;
    }
    fs::create_dir(folder).map_err(Error::io("creating", folder))?;
    for (name, text) in &output.files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(Error::io("writing", &path))?;
    }
    Ok(())
}

/// Puts `new` at `out`; what was there goes by way of `old`, and comes back if `new` cannot take its place.
fn replace(new: &Path, out: &Path, old: &Path) -> Result<(), Error> {
    if !out.exists() {
        return fs::rename(new, out).map_err(Error::io("moving the new files to", out));
    }
    fs::rename(out, old).map_err(Error::io("moving away", out))?;
    if let Err(e) = fs::rename(new, out) {
        let _ = fs::rename(old, out);
        return Err(Error::io("moving the new files to", out)(e));
    }
    fs::remove_dir_all(old).map_err(Error::io("removing", old))
}

/// That nothing is lost when the folder is replaced.
fn ours(out: &Path) -> Result<(), Error> {
    let foreign = |why: String| Error::Foreign { path: out.into(), why };
    if !out.exists() {
        return Ok(());
    }
    if !out.is_dir() {
        return Err(foreign("it is a file".into()));
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(out).map_err(Error::io("reading", out))? {
        names.push(entry.map_err(Error::io("reading", out))?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    if names.is_empty() {
        return Ok(());
    }
    if !names.iter().any(|n| n == MANIFEST) {
        return Err(foreign(format!("it has no {MANIFEST}")));
    }
    let earlier: Earlier = read_manifest(out)?;
    if earlier.project != PROJECT {
        return Err(foreign(format!("its manifest is of {}", earlier.project)));
    }
    match names.iter().find(|n| *n != MANIFEST && !earlier.files.contains_key(*n)) {
        Some(name) => Err(foreign(format!("its manifest does not list {name}"))),
        None => Ok(()),
    }
}

/// What a manifest of any version says: configurations get new fields.
#[derive(serde::Deserialize)]
struct Earlier {
    project: String,
    files: BTreeMap<String, String>,
}

/// The manifest of an earlier output.
///
/// # Errors
/// It cannot be read, or is not one.
pub fn manifest(out: &Path) -> Result<Manifest, Error> {
    read_manifest(out)
}

fn read_manifest<T: serde::de::DeserializeOwned>(out: &Path) -> Result<T, Error> {
    let path = out.join(MANIFEST);
    let text = fs::read_to_string(&path).map_err(Error::io("reading", &path))?;
    serde_json::from_str(&text).map_err(|e| Error::Manifest { path, why: e.to_string() })
}

/// A file that is not what it would be if written now.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Stale {
    /// The file.
    pub path: PathBuf,
    /// `changed`, `missing`, or `unexpected` if it would not be there.
    pub state: &'static str,
}

/// Compares the files of a folder with what they should be; with `all`, other files there are findings too.
///
/// # Errors
/// The file system's, except that a file or the folder is missing.
pub fn stale(files: &BTreeMap<String, String>, folder: &Path, all: bool) -> Result<Vec<Stale>, Error> {
    let mut found = Vec::new();
    for (name, text) in files {
        let path = folder.join(name);
        match fs::read(&path) {
            Ok(bytes) if bytes == text.as_bytes() => {}
            Ok(_) => found.push(Stale { path, state: "changed" }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                found.push(Stale { path, state: "missing" })
            }
            Err(e) => return Err(Error::io("reading", path)(e)),
        }
    }
    if all && folder.is_dir() {
        for entry in fs::read_dir(folder).map_err(Error::io("reading", folder))? {
            let entry = entry.map_err(Error::io("reading", folder))?;
            if !files.contains_key(entry.file_name().to_string_lossy().as_ref()) {
                found.push(Stale { path: entry.path(), state: "unexpected" });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Writes one file, whole or not at all.
///
/// # Errors
/// The file system's.
pub fn write_file(path: &Path, text: &str) -> Result<(), Error> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(Error::io("creating", parent))?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.new-{}", std::process::id()));
    let done = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    done.map_err(|e| {
        let _ = fs::remove_file(&new);
        Error::io("writing", path)(e)
    })
}
