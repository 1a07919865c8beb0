// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Rust declarations have the layouts, values and functions of the C headers.

use std::collections::BTreeSet;
#[cfg(target_arch = "x86_64")]
use std::path::Path;
#[cfg(target_arch = "x86_64")]
use std::process::Command;

use crate::facts::{declared, measured, RELEASES, TABLES};

/// Differences of two lists, as text.
fn differences(declared: &[String], measured: &str) -> String {
    let rust: BTreeSet<&str> = declared.iter().map(String::as_str).collect();
    let c: BTreeSet<&str> = measured.lines().collect();
    let only_rust = rust.difference(&c).map(|line| format!("  Rust only: {line}\n"));
    let only_c = c.difference(&rust).map(|line| format!("  C only:    {line}\n"));
    only_rust.chain(only_c).collect()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn declarations_equal_the_headers_of_every_release() {
    for (name, table) in TABLES {
        for release in RELEASES {
            let facts = declared(table, release);
            let differ = differences(&facts, measured(name, release));
            assert!(differ.is_empty(), "{name} of rdma-core {release}:\n{differ}");
            assert_eq!(
                facts.len(),
                measured(name, release).lines().count(),
                "{name}-{release}: a line twice"
            );
        }
    }
}

/// Headers of rdma-core that are installed: their release and their folder, by `FERROWIRE_ABI_HEADERS=RELEASE=FOLDER` or by pkg-config.
#[cfg(target_arch = "x86_64")]
fn installed() -> Option<(u32, String)> {
    if let Ok(given) = std::env::var("FERROWIRE_ABI_HEADERS") {
        let (release, folder) = given.split_once('=').expect("FERROWIRE_ABI_HEADERS is RELEASE=FOLDER");
        return Some((release.parse().expect("a number of a release"), folder.into()));
    }
    let ask = |what: &str| {
        let said = Command::new("pkg-config").args([what, "libibverbs"]).output().ok()?;
        said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim().to_string())
    };
    // 1.14.44.0: the third number is that of the release.
    let release = ask("--modversion")?.split('.').nth(2)?.parse().ok()?;
    let folder = ask("--variable=includedir").filter(|folder| !folder.is_empty());
    Some((release, folder.unwrap_or_else(|| "/usr/include".into())))
}

#[test]
#[cfg(target_arch = "x86_64")]
fn declarations_equal_the_headers_that_are_installed() {
    let there =
        |folder: &str| ["verbs.h", "../rdma/rdma_cma.h"].map(|name| format!("{folder}/infiniband/{name}"));
    let found = installed().filter(|(_, folder)| there(folder).iter().all(|file| Path::new(file).is_file()));
    let Some((release, folder)) = found else {
        println!(
            "no headers of rdma-core are installed (libibverbs-dev, librdmacm-dev): nothing is compared"
        );
        return;
    };
    if release < RELEASES[0] {
        println!("the headers are of rdma-core {release}; the declarations begin with {}", RELEASES[0]);
        return;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("layout-{release}"));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut words = compiler.split_whitespace();
    let mut compile = Command::new(words.next().unwrap_or("cc"));
    compile.args(words).args([
        "-std=gnu11",
        &format!("-DRELEASE={release}"),
        "-isystem",
        &folder,
        "-w",
        "-o",
    ]);
    compile.arg(&program).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/abi/layout.c"));
    let said = compile.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    for (name, table) in TABLES {
        let said = Command::new(&program).arg(name).output().unwrap();
        let facts = declared(table, release);
        let differ = differences(&facts, &String::from_utf8_lossy(&said.stdout));
        assert!(said.status.success() && differ.is_empty(), "{name} of rdma-core {release}:\n{differ}");
    }
}

#[test]
fn each_release_adds_to_the_one_before_it() {
    for (name, _) in TABLES {
        let sizes = RELEASES.map(|release| measured(name, release).lines().count());
        assert!(sizes.is_sorted() && sizes[0] > 100, "{name}: {sizes:?}");
    }
}

/// Slots of `verbs_context` keep their distance from `context`; nothing else may move at all.
#[test]
fn members_never_move_between_releases() {
    for (name, _) in TABLES {
        let facts = RELEASES.map(|release| measured(name, release));
        let end = |text: &str| -> usize {
            let line = text.lines().find(|line| line.starts_with("verbs_context.context "));
            line.map_or(0, |line| line.split(' ').nth(1).unwrap().parse().unwrap())
        };
        let at = |text: &'static str| -> BTreeSet<(&'static str, isize)> {
            let members = text.lines().filter(|line| line.split(' ').next().unwrap().contains('.'));
            let members = members.map(|line| {
                let mut words = line.split(' ');
                let (member, offset) = (words.next().unwrap(), words.next().unwrap());
                let from = if member.starts_with("verbs_context.") { end(text) as isize } else { 0 };
                (member, offset.parse::<isize>().unwrap() - from)
            });
            members.collect()
        };
        assert!(at(facts[0]).is_subset(&at(facts[1])) && at(facts[1]).is_subset(&at(facts[2])), "{name}");
    }
}
