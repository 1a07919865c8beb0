// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Rust declarations have the layouts, values and functions of the C headers.

use std::collections::BTreeSet;

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
