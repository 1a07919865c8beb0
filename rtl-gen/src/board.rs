// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boards: all that a bitstream is made of, in one folder.

use std::collections::BTreeMap;

use ferrowire_boards::Board;
use ferrowire_shell::Shell;

use crate::output::{print, Output};
use crate::{choose, Choice, Error};

/// The script that runs the open tools.
pub const SCRIPT: &str = "build.sh";

/// A board, and the card that its description names.
#[derive(Clone, Debug)]
pub struct OnBoard {
    /// Its top.
    pub shell: Shell,
    /// The card.
    pub choice: Choice,
}

/// Takes a built-in board's name, and sets fields of its card over what the description sets.
///
/// # Errors
/// An unknown name, and a board that has no card, or one that does not go with it; a field as of [`choose`].
pub fn choose_board(name: &str, set: &[String]) -> Result<OnBoard, Error> {
    let board = Board::named(name)?;
    let card = board.card.as_ref().ok_or_else(|| ferrowire_shell::ShellError::NoCard(name.into()))?;
    let field = |assignment: &str| assignment.split('=').next().map(|field| field.trim().to_string());
    let own = card.assignments().into_iter().filter(|own| !set.iter().any(|one| field(one) == field(own)));
    let all: Vec<String> = own.chain(set.iter().cloned()).collect();
    let choice = choose(&card.config, &all)?;
    Ok(OnBoard { shell: Shell::new(board, choice.values.clone())?, choice })
}

/// Builds the board's top and prints everything: the folder of a card, and constraints and a script besides.
///
/// # Errors
/// The description fails a check at this configuration.
pub fn generate_board(board: &OnBoard) -> Result<Output, Error> {
    let OnBoard { shell, choice } = board;
    let modules = shell.modules()?;
    let top = &modules.top;
    let name = top.top();
    let files = BTreeMap::from([
        (format!("{name}.lpf"), shell.lpf(top)),
        (SCRIPT.into(), script(name, &shell.board().part().nextpnr())),
    ]);
    Ok(print(choice, top, modules.verilog(), Some(shell.board().name.clone()), files))
}

fn script(top: &str, device: &[String]) -> String {
    format!(
        r#"#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes {top}.bit with Yosys, nextpnr and ecppack, or the programs that YOSYS, NEXTPNR and ECPPACK name:
#   sh {SCRIPT} [FOLDER]
# FOLDER is where everything goes; without it that is this folder's name with .build behind it. nextpnr fails where a clock is not reached.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${{1:-$here.build}}
mkdir -p "$out"
cd "$out"
files=$(sed "s|^|$here/|" "$here/files.f" | tr '\n' ' ')
"${{YOSYS:-yosys}}" -q -l yosys.log -p "read_verilog -noautowire $files; synth_ecp5 -top {top} -json {top}.json"
"${{NEXTPNR:-nextpnr-ecp5}}" {} --json {top}.json --lpf "$here/{top}.lpf" --textcfg {top}.config --report {top}.report.json --log nextpnr.log --quiet
"${{ECPPACK:-ecppack}}" --compress {top}.config {top}.bit
echo "$out/{top}.bit"
"#,
        device.join(" ")
    )
}
