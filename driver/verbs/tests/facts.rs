// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts: lines of text that a C program printed with the headers of a release.
//!
//! | line | from |
//! |---|---|
//! | `struct NAME size align` | a structure or union |
//! | `NAME.MEMBER offset size` | a member |
//! | `enum NAME size signed` or `unsigned` | an enumeration |
//! | `const NAME value` | an enumeration's constant or a macro |
//! | `function NAME` | a function whose type the compiler found equal |

use ferrowire_verbs::abi::layout::{Field, Layout};
use ferrowire_verbs::abi::{Table, CMA, VERBS};

/// Releases of rdma-core whose headers were measured.
pub const RELEASES: [u32; 3] = [44, 56, 65];

/// Both tables, with the first part of the names of their files.
pub const TABLES: [(&str, &Table); 2] = [("verbs", &VERBS), ("cma", &CMA)];

/// The facts of a table in a release.
pub fn measured(table: &str, release: u32) -> &'static str {
    match (table, release) {
        ("verbs", 44) => include_str!("../abi/verbs-44.txt"),
        ("verbs", 56) => include_str!("../abi/verbs-56.txt"),
        ("verbs", 65) => include_str!("../abi/verbs-65.txt"),
        ("cma", 44) => include_str!("../abi/cma-44.txt"),
        ("cma", 56) => include_str!("../abi/cma-56.txt"),
        ("cma", 65) => include_str!("../abi/cma-65.txt"),
        _ => panic!("there are no facts of {table} in release {release}"),
    }
}

/// A member's name in C.
pub fn member(field: &Field) -> &'static str {
    field.name.trim_start_matches("r#")
}

/// A structure's name in the facts: that of its type in C, without the keyword.
pub fn name(layout: &Layout) -> &'static str {
    match (layout.inside, layout.c) {
        (Some((outer, _)), _) => outer,
        (None, Some(c)) => c.trim_start_matches("struct ").trim_start_matches("union "),
        (None, None) => layout.name,
    }
}

/// The lines that the Rust declarations give for a release.
pub fn declared(table: &Table, release: u32) -> Vec<String> {
    let mut lines = Vec::new();
    let have = |since: u32| since <= release;
    for layout in table.layouts.iter().copied().flatten().filter(|layout| have(layout.since)) {
        let fields: Vec<&Field> = layout.fields.iter().filter(|field| have(field.since)).collect();
        // A structure grows at its end, verbs_context at its head.
        let head = fields.iter().map(|field| field.offset).min().unwrap_or(0);
        let name = name(layout);
        let base = layout.inside.map_or(0, |(_, offset)| offset);
        if layout.inside.is_none() {
            let size = if fields.len() == layout.fields.len() {
                layout.size
            } else {
                let end = fields.iter().map(|field| field.offset + field.size).max().unwrap_or(0);
                (end - head).next_multiple_of(layout.align)
            };
            lines.push(format!("struct {name} {size} {}", layout.align));
        }
        for field in fields.iter().filter(|field| !field.hidden) {
            let offset = base + field.offset - head;
            lines.push(format!("{name}.{} {offset} {}", member(field), field.size));
        }
    }
    for found in table.enumerations.iter().copied().flatten().filter(|found| have(found.since)) {
        let sign = if found.signed { "signed" } else { "unsigned" };
        lines.push(format!("enum {} {} {sign}", found.name, found.size));
    }
    for constant in table.constants.iter().copied().flatten().filter(|constant| have(constant.since)) {
        lines.push(format!("const {} {}", constant.name, constant.value));
    }
    for function in table.functions.iter().filter(|function| have(function.since)) {
        lines.push(format!("function {}", function.name));
    }
    lines
}
