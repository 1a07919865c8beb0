// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program needs beside the tables is in the C header and in the book's page of the host interface.

use ferrowire_spec::qp_state::{AttributeBit, Attributes, TRANSITIONS};
use ferrowire_spec::queue::CommandOpcode;

#[test]
fn the_header_has_the_offsets_outside_of_tables() {
    let mut header = String::new();
    ferrowire_spec::c_header(&mut header).expect("a string takes everything");
    for line in [
        "#define FW_DOORBELL_PUSH 0x800u",
        "#define FW_DOORBELL_PUSH_SLOTS 32u",
        "#define FW_MSIX_TABLE 0x4000u",
        "#define FW_MSIX_PBA 0x4800u",
        "#define FW_GIDS 16u",
        "#define FW_GID_SLOTS 256u",
        "#define FW_GID_FOLD 26u",
        "#define FW_SEND_WQE_INLINE_DATA_BYTE 48u",
    ] {
        assert!(header.lines().any(|l| l == line), "the header lacks `{line}`");
    }
}

#[test]
fn the_page_lists_the_attributes_of_each_transition() {
    let page = include_str!("../../docs/src/host-interface.md");
    let names = |set: Attributes| {
        let names: Vec<_> =
            AttributeBit::ALL.iter().filter(|b| set.contains(**b)).map(|b| format!("`{b}`")).collect();
        if names.is_empty() {
            vec!["none".to_owned()]
        } else {
            names
        }
    };
    let sorted = |cell: &str| {
        let mut parts: Vec<_> = cell.split(", ").map(str::to_owned).collect();
        parts.sort();
        parts
    };
    let rows: Vec<Vec<&str>> =
        page.lines().map(|l| l.trim_matches('|').split('|').map(str::trim).collect()).collect();
    for t in TRANSITIONS {
        let (service, change) =
            (format!("{:?}", t.service).to_lowercase(), format!("{} to {}", t.from, t.to));
        let row = rows.iter().find(|r| r.len() == 4 && r[0].to_lowercase() == service && r[1] == change);
        let row = row.unwrap_or_else(|| panic!("the page lacks {service}, {change}"));
        for (cell, set) in [(row[2], t.required), (row[3], t.optional)] {
            let mut want = names(set);
            want.sort();
            assert_eq!(sorted(cell), want, "{service}, {change}");
        }
    }
}

#[test]
fn the_page_lists_the_object_and_the_entry_of_each_command() {
    let page = include_str!("../../docs/src/host-interface.md");
    let rows: Vec<Vec<&str>> =
        page.lines().map(|l| l.trim_matches('|').split('|').map(str::trim).collect()).collect();
    for command in CommandOpcode::ALL {
        let name = format!("`{command}`");
        let found = rows.iter().filter(|r| r.len() == 3).find_map(|row| {
            let at = row[0].split(", ").position(|n| n == name)?;
            Some((row[1], row[2].split(", ").nth(at).unwrap_or_default()))
        });
        let (object, entry) = found.unwrap_or_else(|| panic!("the page lacks {command}"));
        assert_eq!(entry, format!("`{}`", command.layout().name), "{command}");
        assert!(!object.is_empty(), "{command}: what is its object?");
    }
}
