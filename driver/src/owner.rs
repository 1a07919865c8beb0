// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose a file is, for errors that say so.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// User and group that own a file, by name if this machine's files have one, with the rights of all: `root:vfio (mode 660)`.
pub fn owner(path: &Path) -> String {
    let Ok(file) = std::fs::metadata(path) else { return "another user".into() };
    let (user, group) = (named("/etc/passwd", file.uid()), named("/etc/group", file.gid()));
    format!("{user}:{group} (mode {:o})", file.mode() & 0o777)
}

/// The name behind a number (passwd(5), group(5)), or the number.
fn named(table: &str, id: u32) -> String {
    let text = std::fs::read_to_string(table).unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then_some(name)
    });
    name.map_or_else(|| id.to_string(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_folder_is_roots() {
        assert!(owner(Path::new("/")).starts_with("root:root (mode "), "{}", owner(Path::new("/")));
        assert_eq!(owner(Path::new("/no/such/file")), "another user");
        assert_eq!(named("/etc/passwd", 4_000_000_000), "4000000000");
    }
}
