// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns a configuration into files: Verilog, register pages, C header and a manifest over them; or a board into what its bitstream is made of.
//!
//! ```text
//!   choose --> Choice --> generate --> Output --> write    (whole or not at all)
//!                                            +--> stale    (what a folder has otherwise)
//! ```
//!
//! The same configuration gives the same bytes on every machine: no file holds a date, a path of this machine or
//! the version of a tool.
#![forbid(unsafe_code)]

pub mod board;
pub mod folder;
pub mod lint;
pub mod output;
pub mod proofs;
pub mod repository;

pub use board::{choose_board, generate_board, OnBoard, Top};
pub use ferrowire_hdl::choice::{self, choose, Choice};
pub use folder::{stale, write, Stale};
pub use output::{checked_in, generate, Manifest, Output, Port};

use std::path::PathBuf;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The board's name or description.
    #[error(transparent)]
    Board(#[from] ferrowire_boards::BoardError),
    /// The board and its card do not go together.
    #[error(transparent)]
    Shell(#[from] ferrowire_shell::ShellError),
    /// The configuration's name, text or a value in it.
    #[error(transparent)]
    Choice(#[from] ferrowire_hdl::choice::ChoiceError),
    /// A value of the configuration that a folder's manifest holds.
    #[error(transparent)]
    Config(#[from] ferrowire_hdl::config::ConfigError),
    /// The description does not build at this configuration.
    #[error("the design does not build at this configuration, which is a fault of Ferrowire:\n{0}")]
    Build(#[from] ferrowire_rtl::BuildErrors),
    /// The folder holds what this program did not write.
    #[error("{path}: is not an earlier output ({why}): remove it or choose another folder")]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// How that shows.
        why: String,
    },
    /// A manifest that cannot be read.
    #[error("{path}: not a manifest of this program: {why}")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The parser's words.
        why: String,
    },
    /// The file system.
    #[error("{doing} {path}: {source}")]
    Io {
        /// As in "writing".
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

impl Error {
    /// For `map_err`.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { doing, path, source }
    }
}
