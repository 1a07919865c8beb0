// SPDX-License-Identifier: MIT OR Apache-2.0
//! A C header with what the Rust declarations say, for tests in C on machines without rdma-core's headers.
//!
//! Anonymous unions have the names that they have in Rust, nested types names of their own. The functions that are inline in rdma-core's headers are not
//! there: a test calls the slots.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use ferrowire_verbs::abi::layout::Layout;
use ferrowire_verbs::abi::{CMA, UNDECLARED, VERBS};

use crate::c_source::{list, Names};
use crate::facts::member;

/// Structures that the system's headers have: they come first.
fn system() -> &'static [Layout] {
    VERBS.layouts[0]
}

fn is_system(layout: &Layout) -> bool {
    system().iter().any(|own| own.name == layout.name)
}

/// Structures and unions of all tables.
fn layouts() -> Vec<&'static Layout> {
    [&VERBS, &CMA].iter().flat_map(|table| table.layouts.iter().copied().flatten()).collect()
}

/// The type's name, if it is a structure that is a part and not behind a pointer.
fn parts(ty: &str) -> Option<&str> {
    let inner = ty.strip_prefix('[').map_or(ty, |array| array.split(';').next().unwrap_or(array));
    let plain = !inner.starts_with('*') && !inner.starts_with("Option");
    plain.then(|| inner.trim())
}

fn source() -> String {
    let own = layouts().into_iter().filter(|layout| !is_system(layout));
    let opaques = [&VERBS, &CMA, &UNDECLARED];
    let opaques: Vec<_> = opaques.iter().flat_map(|table| table.opaques.iter().copied().flatten()).collect();
    let enumerations: Vec<_> =
        [&VERBS, &CMA].iter().flat_map(|table| table.enumerations.iter().copied().flatten()).collect();
    let system = system()
        .iter()
        .map(|layout| (layout.name, layout.c.map_or(format!("struct {}", layout.name), str::to_string)));
    let names = Names::own(
        own.clone()
            .map(|layout| (layout.name, layout.name.to_string()))
            .chain(opaques.iter().map(|opaque| {
                (opaque.name, opaque.c.map_or(format!("struct {}", opaque.name), str::to_string))
            }))
            .chain(enumerations.iter().map(|found| (found.name, found.name.to_string())))
            .chain(system)
            // The only one that no header has.
            .chain([("ibv_gid_type_sysfs", "unsigned int".to_string())]),
    );
    let mut text = String::from(
        "/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n\
         /* Written from the Rust declarations by tests/c_header.rs; see measure.sh. */\n\
         #include <netinet/in.h>\n#include <poll.h>\n#include <pthread.h>\n#include <stddef.h>\n#include <stdint.h>\n\
         #include <sys/socket.h>\n#include <sys/types.h>\n#include <time.h>\n#include <linux/types.h>\n\n",
    );
    for found in &enumerations {
        let sign = if found.signed { "int" } else { "unsigned int" };
        writeln!(text, "typedef {sign} {};", found.name).unwrap();
    }
    for table in [&VERBS, &CMA] {
        for constant in table.constants.iter().copied().flatten() {
            let suffix = match constant.value {
                value if value > i128::from(i64::MAX) => "ULL",
                value if value > i128::from(u32::MAX) => "LL",
                value if value > i128::from(i32::MAX) => "U",
                _ => "",
            };
            writeln!(text, "#define {} {}{suffix}", constant.name, constant.value).unwrap();
        }
    }
    for layout in own.clone() {
        let keyword = if layout.union { "union" } else { "struct" };
        writeln!(text, "typedef {keyword} {0} {0};", layout.name).unwrap();
    }
    for opaque in opaques.iter().filter(|opaque| opaque.c.is_none()) {
        writeln!(text, "struct {};", opaque.name).unwrap();
    }
    // A structure comes after those that are parts of it.
    let mut left: Vec<&Layout> = own.collect();
    let mut defined = BTreeSet::new();
    while !left.is_empty() {
        let known: BTreeSet<&str> = left.iter().map(|layout| layout.name).collect();
        let (ready, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|layout| {
            layout.fields.iter().all(|field| parts(field.ty).is_none_or(|part| !known.contains(part)))
        });
        assert!(!ready.is_empty(), "structures that contain each other: {known:?}");
        for layout in ready {
            let keyword = if layout.union { "union" } else { "struct" };
            writeln!(text, "{keyword} {} {{", layout.name).unwrap();
            for field in layout.fields {
                writeln!(text, "\t{} {};", names.c(field.ty), member(field)).unwrap();
            }
            writeln!(text, "}};").unwrap();
            defined.insert(layout.name);
        }
        left = later;
    }
    for layout in layouts().into_iter().filter(|layout| defined.contains(layout.name)) {
        writeln!(text, "_Static_assert(sizeof({0}) == {1}, \"{0}\");", layout.name, layout.size).unwrap();
    }
    for function in [VERBS.functions, UNDECLARED.functions, CMA.functions].into_iter().flatten() {
        let mut parameters: Vec<String> = function.parameters.iter().map(|ty| names.c(ty)).collect();
        if function.variadic {
            *parameters.last_mut().unwrap() = "...".into();
        }
        let result = if function.result.is_empty() { "void".into() } else { names.c(function.result) };
        writeln!(text, "extern {result} {}({});", function.name, list(&parameters)).unwrap();
    }
    text
}

#[test]
fn the_header_is_the_one_that_the_declarations_give() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/declarations.h");
    let text = source();
    if std::env::var_os("FERROWIRE_ABI_WRITE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "abi/declarations.h differs from the declarations: run abi/measure.sh");
}
