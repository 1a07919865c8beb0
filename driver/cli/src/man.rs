// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire completion` and `ferrowire man`: made from the command line's own description.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, ValueHint};
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::Failure;
use crate::out;

/// Prints the completions of a shell
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    ferrowire completion bash > ~/.local/share/bash-completion/completions/ferrowire\n  \
    ferrowire completion zsh > \"${fpath[1]}/_ferrowire\"\n  \
    ferrowire completion fish > ~/.config/fish/completions/ferrowire.fish")]
pub struct CompletionArgs {
    /// Which shell
    shell: Shell,
}

/// Prints the manual page, or writes it and those of all commands to a folder
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ferrowire man | man -l -\n  ferrowire man --dir ~/.local/share/man/man1"
)]
pub struct ManArgs {
    /// Folder for `ferrowire.1`, `ferrowire-info.1` and so on
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

/// The completions.
pub fn completion(args: &CompletionArgs) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ferrowire", &mut bytes);
    out::text(&String::from_utf8_lossy(&bytes))
}

/// The pages.
pub fn man(args: &ManArgs) -> Result<(), Failure> {
    let command = Cli::command();
    let Some(dir) = &args.dir else {
        let mut bytes = Vec::new();
        clap_mangen::Man::new(command).render(&mut bytes).map_err(Failure::Output)?;
        return out::text(&String::from_utf8_lossy(&bytes));
    };
    let failed = |operation: String| Failure::os(operation, "choose a folder that can be written");
    std::fs::create_dir_all(dir).map_err(failed(format!("make {}", dir.display())))?;
    clap_mangen::generate_to(command, dir).map_err(failed(format!("write pages to {}", dir.display())))
}
