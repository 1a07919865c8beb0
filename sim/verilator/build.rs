// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes on where `libz-sys` and `lz4-sys` put their headers and archives, and which target the crate is built for:
//! models are compiled at run time, when Cargo no longer tells.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    for (links, archive) in [("Z", "libz.a"), ("LZ4", "liblz4.a")] {
        let include =
            env::var(format!("DEP_{links}_INCLUDE")).expect("the -sys crate names its include folder");
        let root = env::var(format!("DEP_{links}_ROOT")).expect("the -sys crate names its output folder");
        println!("cargo::rustc-env=FERROWIRE_{links}_INCLUDE={include}");
        println!(
            "cargo::rustc-env=FERROWIRE_{links}_ARCHIVE={}",
            archive_in(Path::new(&root), archive).display()
        );
    }
    for name in ["TARGET", "HOST"] {
        println!("cargo::rustc-env=FERROWIRE_{name}={}", env::var(name).expect("set by Cargo"));
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// zlib sits in `lib/`, lz4 at the top.
fn archive_in(root: &Path, archive: &str) -> PathBuf {
    let nested = root.join("lib").join(archive);
    if nested.exists() {
        nested
    } else {
        root.join(archive)
    }
}
