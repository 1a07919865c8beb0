// SPDX-License-Identifier: MIT OR Apache-2.0
//! The version scripts export what programs import and what the declarations name.

use std::collections::BTreeSet;

use crate::facts::RELEASES;
use ferrowire_verbs::abi::{Table, CMA, UNDECLARED, VERBS};

/// Names that private.S gives every private version.
const PRIVATE: [&str; 2] = ["ibv_query_gid_type", "ibv_wr_opcode_str"];

/// `NAME@VERSION` for each name of a version script.
fn script(text: &str) -> BTreeSet<String> {
    let mut exported = BTreeSet::new();
    let (mut node, mut global) = ("", false);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix(" {") {
            node = name;
        } else if line == "global:" || line == "local:" {
            global = line == "global:";
        } else if let Some(name) = line.strip_suffix(';').filter(|_| global && !line.starts_with('}')) {
            assert!(exported.insert(format!("{name}@{node}")), "{name} is in {node} twice");
        } else if line.starts_with('}') {
            global = false;
        }
    }
    exported
}

/// First words of a list.
fn first_words(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split(' ').next().map(str::to_string)).collect()
}

/// Everything that our libraries and the stubs export.
fn exports() -> BTreeSet<String> {
    [
        include_str!("../abi/libibverbs.map"),
        include_str!("../abi/librdmacm.map"),
        include_str!("../abi/libmlx5.map"),
        include_str!("../abi/libefa.map"),
        include_str!("../abi/libhns.map"),
    ]
    .into_iter()
    .flat_map(script)
    .collect()
}

#[test]
fn every_import_of_the_stock_programs_is_exported() {
    let exports = exports();
    for (package, text) in [
        ("ibverbs-utils", include_str!("../abi/symbols/imports/ibverbs-utils.txt")),
        ("libfabric1", include_str!("../abi/symbols/imports/libfabric1.txt")),
        ("librdmacm1", include_str!("../abi/symbols/imports/librdmacm1.txt")),
        ("libucx0", include_str!("../abi/symbols/imports/libucx0.txt")),
        ("perftest", include_str!("../abi/symbols/imports/perftest.txt")),
        ("python3-pyverbs", include_str!("../abi/symbols/imports/python3-pyverbs.txt")),
        ("qperf", include_str!("../abi/symbols/imports/qperf.txt")),
        ("rdmacm-utils", include_str!("../abi/symbols/imports/rdmacm-utils.txt")),
    ] {
        let imports = first_words(text);
        assert!(imports.len() > 30, "{package} imports {} names", imports.len());
        for symbol in imports {
            let (name, version) = symbol.split_once('@').unwrap();
            let private = version.starts_with("IBVERBS_PRIVATE_") && PRIVATE.contains(&name);
            assert!(private || exports.contains(&symbol), "{package} imports {symbol}");
        }
    }
}

/// Default versions of a list of `nm`: `@@` marks them.
fn defaults(text: &str) -> BTreeSet<String> {
    first_words(text).iter().filter(|symbol| symbol.contains("@@")).map(|s| s.replace("@@", "@")).collect()
}

/// Programs linked before 2007 bind names of IBVERBS_1.0, whose structures had other layouts. The library leaves these names out.
#[test]
fn names_that_are_left_out_have_a_version_that_programs_since_2007_bind() {
    for (release, text) in [
        (33, include_str!("../abi/symbols/libibverbs-33.txt")),
        (39, include_str!("../abi/symbols/libibverbs-39.txt")),
        (44, include_str!("../abi/symbols/libibverbs-44.txt")),
        (50, include_str!("../abi/symbols/libibverbs-50.txt")),
        (56, include_str!("../abi/symbols/libibverbs-56.txt")),
        (65, include_str!("../abi/symbols/libibverbs-65.txt")),
    ] {
        let all = first_words(text);
        let (exports, defaults) = (exports(), defaults(text));
        let others =
            all.iter().filter(|symbol| !symbol.contains("@@") && !symbol.starts_with("ibv_register_driver@"));
        let left_out: Vec<&String> = others.collect();
        assert_eq!(left_out.len(), 33, "{release}");
        for symbol in left_out {
            let (name, version) = symbol.split_once('@').unwrap();
            let later = format!("{name}@IBVERBS_1.1");
            assert_eq!(version, "IBVERBS_1.0", "{release}: {symbol}");
            assert!(defaults.contains(&later) && exports.contains(&later), "{release}: {symbol}");
        }
    }
}

#[test]
fn version_scripts_name_what_rdma_core_65_exports() {
    let mut verbs = script(include_str!("../abi/libibverbs.map"));
    verbs.retain(|symbol| !symbol.contains("PRIVATE") && !symbol.starts_with("ibv_register_driver@"));
    assert_eq!(verbs, defaults(include_str!("../abi/symbols/libibverbs-65.txt")));
    let cma = script(include_str!("../abi/librdmacm.map"));
    assert_eq!(cma, defaults(include_str!("../abi/symbols/librdmacm-65.txt")));
}

/// Names of the functions that the headers of a release declare.
fn functions(table: &Table, release: u32) -> BTreeSet<String> {
    let found = table.functions.iter().filter(|function| function.since <= release);
    found.map(|function| function.name.to_string()).collect()
}

/// Names without their versions.
fn names(symbols: &BTreeSet<String>) -> BTreeSet<String> {
    symbols.iter().map(|symbol| symbol.split('@').next().unwrap().to_string()).collect()
}

#[test]
fn each_release_exports_what_its_headers_declare() {
    let verbs = [
        include_str!("../abi/symbols/libibverbs-44.txt"),
        include_str!("../abi/symbols/libibverbs-56.txt"),
        include_str!("../abi/symbols/libibverbs-65.txt"),
    ];
    let cma = [
        include_str!("../abi/symbols/librdmacm-44.txt"),
        include_str!("../abi/symbols/librdmacm-56.txt"),
        include_str!("../abi/symbols/librdmacm-65.txt"),
    ];
    for (at, release) in RELEASES.into_iter().enumerate() {
        let mut declared = functions(&VERBS, release);
        // The headers declare it, the library exports it with a private version.
        declared.remove("ibv_wr_opcode_str");
        let exported = names(&first_words(verbs[at]));
        let mut undeclared = functions(&UNDECLARED, release);
        undeclared.retain(|name| !PRIVATE.contains(&name.as_str()));
        assert!(exported.difference(&declared).eq(&undeclared), "libibverbs {release}");
        assert!(declared.is_subset(&exported), "libibverbs {release}");
        assert_eq!(functions(&CMA, release), names(&first_words(cma[at])), "librdmacm {release}");
    }
}

#[test]
fn version_scripts_export_each_declared_function() {
    let exported = names(&script(include_str!("../abi/libibverbs.map")));
    let mut declared = functions(&VERBS, u32::MAX);
    declared.extend(functions(&UNDECLARED, u32::MAX));
    assert_eq!(exported, declared);
}
