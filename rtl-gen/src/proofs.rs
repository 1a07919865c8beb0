// SPDX-License-Identifier: MIT OR Apache-2.0
//! The circuits of [`ferrowire_hdl::proof`] as files, for a prover: `NAME.v` of each, `NAME-FAULT.v` of each with a fault in it, and their list.

use std::fs;
use std::path::Path;

use ferrowire_hdl::proof::{self, Way};
use serde_json::{json, Value};

use crate::Error;

/// Writes them into a folder.
///
/// # Errors
/// The file system.
pub fn write(out: &Path) -> Result<(), Error> {
    fs::create_dir_all(out).map_err(Error::io("creating", out))?;
    let put = |name: &str, text: &str| {
        let path = out.join(name);
        fs::write(&path, text).map_err(Error::io("writing", path))
    };
    let mut list = Vec::new();
    for proof in proof::all() {
        let name = &proof.name;
        let file = format!("{name}.v");
        put(&file, &proof.verilog())?;
        let mut faults = Vec::new();
        for fault in &proof.faults {
            let file = format!("{name}-{}.v", fault.name.replace(' ', "-"));
            put(&file, &proof.faulty(fault))?;
            faults.push(json!({ "name": fault.name, "file": file }));
        }
        list.push(json!({ "name": name, "about": proof.about, "file": file, "way": way(proof.way), "faults": faults }));
    }
    put("proofs.json", &format!("{:#}\n", Value::from(list)))
}

fn way(way: Way) -> Value {
    match way {
        Way::Invariant => json!("invariant"),
        Way::Induction(cycles) => json!({ "induction": cycles }),
        Way::Bounded(cycles) => json!({ "bounded": cycles }),
    }
}
