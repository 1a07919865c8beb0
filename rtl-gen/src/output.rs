// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files' contents, in memory.

use ferrowire_hdl::config::RnicConfig;
use ferrowire_rtl::Netlist;
use ferrowire_spec::LAYOUT_HASH;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

use crate::repository::HOW;
use crate::{Choice, Error};

/// Whose manifests these are.
pub(crate) const PROJECT: &str = "ferrowire";

/// The manifest's name.
pub const MANIFEST: &str = "manifest.json";

/// The file that names the design's modules, children before their parents.
const LIST: &str = "files.f";

/// What a folder gets: contents by name, the manifest among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Contents by name.
    pub files: BTreeMap<String, String>,
    /// The manifest, which `files` has as text.
    pub manifest: Manifest,
}

impl Output {
    /// The Verilog of the design's modules. Stubs, and what tools are told, may be Verilog as well and are none.
    pub fn modules(&self) -> impl Iterator<Item = &String> {
        let names = self.files.get(LIST).map_or("", String::as_str).lines();
        names.filter_map(|name| self.files.get(name))
    }
}

/// What a folder holds, and of which card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always `ferrowire`.
    pub project: String,
    /// The project's version.
    pub version: String,
    /// The board, if it is the top of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<String>,
    /// Name of the configuration.
    pub configuration: String,
    /// What was set over it, as `field=value`.
    pub set: Vec<String>,
    /// All values.
    pub values: RnicConfig,
    /// Hash of the host interface, as the identity registers show it.
    pub layout_hash: String,
    /// The top module.
    pub top: String,
    /// The top module's ports in their order.
    pub ports: Vec<Port>,
    /// SHA-256 of each file but this one, by name.
    pub files: BTreeMap<String, String>,
}

/// A port of the top module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Bits.
    pub width: u32,
    /// `clock`, `input` or `output`.
    pub kind: String,
}

/// Builds the card and prints everything.
///
/// # Errors
/// The description fails a check at this configuration.
pub fn generate(choice: &Choice) -> Result<Output, Error> {
    let netlist = ferrowire_hdl::top::rnic(&choice.values)?;
    Ok(print(choice, &netlist, netlist.verilog_modules(), None, BTreeMap::new()))
}

/// `files`: what there is beside that, by name.
pub(crate) fn print(
    choice: &Choice,
    netlist: &Netlist,
    modules: Vec<(String, String)>,
    board: Option<String>,
    mut files: BTreeMap<String, String>,
) -> Output {
    let mut list = String::new();
    for (module, text) in modules {
        let name = format!("{module}.v");
        list.push_str(&name);
        list.push('\n');
        files.insert(name, format!("// SPDX-License-Identifier: MIT OR Apache-2.0\n{text}"));
    }
    files.insert(LIST.into(), list);
    files.extend(checked_in().into_iter().map(|(path, text)| {
        let name = path.rsplit('/').next().unwrap_or(path);
        (name.to_string(), text)
    }));
    let ports = netlist.ports().into_iter().map(|port| {
        let kind = match (port.clock, port.input) {
            (true, _) => "clock",
            (_, true) => "input",
            _ => "output",
        };
        Port { name: port.name, width: port.width, kind: kind.into() }
    });
    let manifest = Manifest {
        project: PROJECT.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        board,
        configuration: choice.name.clone(),
        set: choice.set.clone(),
        values: choice.values.clone(),
        layout_hash: format!("{LAYOUT_HASH:#018x}"),
        top: netlist.top().into(),
        ports: ports.collect(),
        files: files.iter().map(|(name, text)| (name.clone(), sha256(text))).collect(),
    };
    let mut text = serde_json::to_string_pretty(&manifest).expect("a manifest is plain data");
    text.push('\n');
    files.insert(MANIFEST.into(), text);
    Output { files, manifest }
}

/// The generated files that the repository and each folder hold: path from the repository's root, and contents.
pub fn checked_in() -> Vec<(&'static str, String)> {
    let (mut page, mut header) = (String::new(), String::new());
    ferrowire_spec::registers_md(&mut page).expect("a string takes everything");
    ferrowire_spec::c_header(&mut header).expect("a string takes everything");
    let page = format!("<!-- {HOW} -->\n\n{page}");
    let (licence, rest) = header.split_once('\n').unwrap_or_default();
    let header = format!("{licence}\n/* {HOW} */\n{rest}");
    // One empty line at the end is one too many.
    let trimmed = |text: String| format!("{}\n", text.trim_end());
    vec![("docs/src/registers.md", trimmed(page)), ("driver/include/ferrowire_regs.h", trimmed(header))]
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
