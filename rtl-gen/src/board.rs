// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boards: all that a bitstream is made of, in one folder.

mod script;
mod sites;

use std::collections::BTreeMap;

use ferrowire_boards::{ecp5, Alveo, Board, ALVEOS, RS_FEC};
use ferrowire_rtl::Netlist;
use ferrowire_shell::{AlveoModules, AlveoShell, Shell};

use crate::output::{print, Output};
use crate::{choose, Choice, Error};

/// The script that runs Vivado.
pub const VIVADO: &str = "build.tcl";

/// The script that loads a bitstream by JTAG.
pub const PROGRAM: &str = "program.tcl";

/// The script that writes the flash.
pub const FLASH: &str = "flash.tcl";

/// The stubs' file, which no script reads.
pub const STUBS: &str = "stubs.v";

/// A board, and the card that its description names.
#[derive(Clone, Debug)]
pub struct OnBoard {
    /// Its top.
    pub shell: Top,
    /// The card.
    pub choice: Choice,
}

/// The top of a board.
#[derive(Clone, Debug)]
pub enum Top {
    /// With an ECP5, for the open tools.
    Ecp5(Box<Shell>),
    /// An Alveo card, for Vivado.
    Alveo(Box<AlveoShell>),
}

impl Top {
    /// Places, types and clocks of its ports, and what else the tool must be told: the file, and its contents.
    ///
    /// # Errors
    /// The description fails a check at this configuration.
    pub fn constraints(&self) -> Result<(String, String), Error> {
        match self {
            Top::Ecp5(shell) => Ok(lpf(shell, &shell.modules()?.top)),
            Top::Alveo(shell) => Ok(xdc(shell, &shell.modules()?)),
        }
    }
}

const LICENCE: &str = "SPDX-License-Identifier: MIT OR Apache-2.0";

fn lpf(shell: &Shell, top: &Netlist) -> (String, String) {
    (format!("{}.lpf", top.top()), format!("# {LICENCE}\n{}", shell.lpf(top)))
}

fn xdc(shell: &AlveoShell, modules: &AlveoModules) -> (String, String) {
    (format!("{}.xdc", modules.top.top()), format!("# {LICENCE}\n{}", shell.xdc(modules)))
}

/// Takes a built-in board's name, and sets fields of its card over what the description sets; of an Alveo card also [`rs_fec`](RS_FEC).
///
/// # Errors
/// An unknown name, and a board that has no card, or one that does not go with it; a field as of [`choose`].
pub fn choose_board(name: &str, set: &[String]) -> Result<OnBoard, Error> {
    let field = |assignment: &str| assignment.split('=').next().map(|field| field.trim().to_string());
    let over = |own: Vec<String>| -> Vec<String> {
        let own = own.into_iter().filter(|own| !set.iter().any(|one| field(one) == field(own)));
        own.chain(set.iter().cloned()).collect()
    };
    if ALVEOS.iter().any(|(known, _)| *known == name) {
        let mut board = Alveo::named(name)?;
        let (of_board, own): (Vec<_>, Vec<_>) =
            over(board.card.assignments()).into_iter().partition(|one| field(one).as_deref() == Some(RS_FEC));
        let mut choice = choose(&board.card.config, &own)?;
        for assignment in of_board {
            let (_, value) = assignment.split_once('=').unwrap_or_default();
            board = board.set(RS_FEC, value.trim())?;
            choice.set.push(assignment);
        }
        let shell = Top::Alveo(Box::new(AlveoShell::new(board, choice.values.clone())?));
        return Ok(OnBoard { shell, choice });
    }
    let board = Board::named(name)?;
    let card = board.card.as_ref().ok_or_else(|| ferrowire_shell::ShellError::NoCard(name.into()))?;
    let choice = choose(&card.config, &over(card.assignments()))?;
    let shell = Top::Ecp5(Box::new(Shell::new(board, choice.values.clone())?));
    Ok(OnBoard { shell, choice })
}

/// Name, title and card of each board.
///
/// # Errors
/// None, unless a description is broken.
pub fn boards() -> Result<Vec<(String, String, Option<String>)>, Error> {
    let ecp5 = ferrowire_boards::BUILT_IN.iter().map(|(name, _)| {
        let board = Board::named(name)?;
        Ok((board.name, board.title, board.card.map(|card| card.config)))
    });
    let alveos = ALVEOS.iter().map(|(name, _)| {
        let board = Alveo::named(name)?;
        Ok((board.name, board.title, Some(board.card.config)))
    });
    ecp5.chain(alveos).collect()
}

/// Builds the board's top and prints everything: the folder of a card, and constraints and a script besides.
///
/// # Errors
/// The description fails a check at this configuration.
pub fn generate_board(board: &OnBoard) -> Result<Output, Error> {
    let choice = &board.choice;
    match &board.shell {
        Top::Ecp5(shell) => {
            let modules = shell.modules()?;
            let top = &modules.top;
            let name = top.top();
            let files = BTreeMap::from([
                lpf(shell, top),
                (script::NAME.into(), script::of(name, &shell.board().part())),
                (sites::NAME.into(), sites::of(&shell.board().part())),
                (ecp5::MAP.0.into(), ecp5::MAP.1.into()),
            ]);
            Ok(print(choice, top, modules.verilog(), Some(shell.board().name.clone()), files))
        }
        Top::Alveo(shell) => {
            let modules = shell.modules()?;
            let name = modules.top.top();
            let files = BTreeMap::from([
                xdc(shell, &modules),
                (VIVADO.into(), shell.build_script()),
                (PROGRAM.into(), shell.program_script()),
                (FLASH.into(), shell.flash_script()),
                (STUBS.into(), format!("// {LICENCE}\n// In place of AMD's blocks and cells, for lint: files.f does not name it.\n{}", shell.stubs())),
                ("README.md".into(), alveo_readme(shell)),
            ]);
            Ok(print(choice, &modules.top, modules.verilog(), Some(name.into()), files))
        }
    }
}

fn alveo_readme(shell: &AlveoShell) -> String {
    let board = shell.board();
    let name = &board.name;
    format!(
        r#"# {title}, top module `{name}`

Everything that Vivado needs, made by `ferrowire-rtl-gen --board {name}`; manifest.json has the configuration and the SHA-256 of each file.

| file | |
|---|---|
| `files.f` | the Verilog, children before their parents |
| `{name}.xdc` | places, clocks, what passes between clocks, dies |
| `{VIVADO}` | AMD's blocks as IP, then synthesis to flash image: `vivado -mode batch -source {VIVADO}` |
| `{PROGRAM}` | loads the bitstream by JTAG: `vivado -mode batch -source {PROGRAM}` |
| `{FLASH}` | writes the flash image by JTAG: `vivado -mode batch -source {FLASH}` |
| `{STUBS}` | AMD's blocks without anything in them, for lint alone: `verilator --lint-only -Wall -f files.f {STUBS} --top-module {name}` |

The flash image begins at {offset:#010x}. The Ethernet block needs a licence key of AMD's, "UltraScale+ Integrated 100G Ethernet", which costs nothing: `{VIVADO}` looks for it first.
RS-FEC is {fec}; the peer has to have the same.
"#,
        title = board.title,
        offset = board.flash.offset,
        fec = if board.rs_fec { "on" } else { "off" },
    )
}
