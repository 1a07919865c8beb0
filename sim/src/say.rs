// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines that a server writes while it runs. What reads them may be gone, as a terminal or a pipe: then they are lost, and the server goes on, where
//! `println!` and `eprintln!` panic.

use std::fmt::Display;
use std::io::{stderr, stdout, Write};

/// Writes a line for people.
pub(crate) fn say(text: impl Display) {
    line(&mut stderr(), text);
}

/// Writes a line for programs.
pub(crate) fn print(text: impl Display) {
    line(&mut stdout(), text);
}

fn line(to: &mut impl Write, text: impl Display) {
    let _ = writeln!(to, "{text}");
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_line_for_a_reader_that_is_gone_is_lost_and_nothing_else_happens() {
        let (mut to, from) = UnixStream::pair().unwrap();
        line(&mut to, "heard");
        drop(from);
        line(&mut to, "lost");
        assert!(writeln!(to, "it fails").is_err());
    }
}
