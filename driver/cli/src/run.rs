// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire run`: runs a program of others with the libraries of verbs of this project.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueHint};
use ferrowire_cards::{find, join_names, split_names, Place};

use crate::args::{Common, DEVICE};
use crate::card::no_selective;
use crate::device::Device;
use crate::failure::Failure;

/// Runs a program that uses libibverbs or librdmacm, unmodified, on a card
///
/// The program and all that it starts load libibverbs.so.1 and librdmacm.so.1 of this project, by LD_LIBRARY_PATH, and libferrowire_paths.so, by
/// LD_PRELOAD, which answers for the files of the kernel that UCX looks at. A process has one card: that of `-d`, or
/// the first that is free of those that `list` shows, so that several processes get a card each. A card has one process: another process that
/// opens it gets EBUSY. With --observe a program can query a card that another process has, as ibv_devinfo does.
///
/// The libraries are looked for beside this command, in ../lib/ferrowire, and in target/verbs of a build: `cargo xtask verbs` builds them.
#[derive(Args, Debug)]
#[command(after_help = "Examples, each on its side:\n  \
    ferrowire run -- ibv_devinfo -v\n  \
    ferrowire run -d sim:ferrowire0.sock -- ib_write_bw\n  \
    ferrowire run -d sim:ferrowire1.sock -v -- ib_write_bw localhost\n  \
    ferrowire run --observe -- ibv_devinfo\n  \
    ferrowire run --tap fw0 -- rping -s -a 10.9.0.2")]
pub struct RunArgs {
    /// Say on the standard error which card the program gets, and why a call fails
    #[arg(short, long)]
    verbose: bool,
    /// Only let the program query cards, also those that other processes have
    #[arg(long)]
    observe: bool,
    /// Give the kernel of this machine an interface on the card's port: this TAP interface, which is made if it is not there and that is allowed
    ///
    /// Its addresses are the card's, and its frames go over the card: ping, sockets, getifaddrs and routes of the kernel work on the port. One that
    /// root has made with `ip tuntap add NAME mode tap user USER` needs no rights; to make one takes CAP_NET_ADMIN. The program gets it when it opens
    /// the card, and no other process has it meanwhile.
    #[arg(long, value_name = "NAME", conflicts_with = "observe")]
    tap: Option<String>,
    /// Ask for selective retransmission of RC queue pairs, which the card must have; the program of the other side must be run so, too
    ///
    /// Connections of librdmacm agree on it, and use go-back-N if the other side does not. Queue pairs that programs connect by other means cannot
    /// agree: with the option on one side alone they may fail when packets are lost. It sets FERROWIRE_SELECTIVE=1.
    #[arg(long, conflicts_with = "observe")]
    selective: bool,
    /// Folder of the libraries, if none of those
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    libraries: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

/// The library by which a folder is known.
const LIBRARY: &str = "libibverbs.so.1";

/// The library that answers for paths of the kernel that a card does not have: UCX looks for these before it opens a device.
const PATHS: &str = "libferrowire_paths.so";

/// Becomes the program.
pub fn run(common: &Common, args: &RunArgs) -> Result<(), Failure> {
    let cards = cards(common)?;
    if args.selective {
        check_selective(&cards)?;
    }
    let folder = match &args.libraries {
        Some(folder) => given(folder)?,
        None => libraries()?,
    };
    let (program, arguments) = match args.program.split_first() {
        Some((program, arguments)) => (program, arguments),
        None => return Err(Failure::usage("run: no program is named", "name one after `--`")),
    };
    fits(program, &folder.join(LIBRARY))?;
    let path = std::env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
    let mut all = folder.clone().into_os_string();
    if let Some(path) = path {
        all.push(":");
        all.push(path);
    }
    let mut command = Command::new(program);
    command.args(arguments).env("LD_LIBRARY_PATH", all).env(DEVICE, cards);
    let paths = folder.join(PATHS);
    // The loader takes a list, which such a path would end.
    let fits_list = !paths.to_string_lossy().contains([' ', ':']);
    if fits_list && paths.is_file() {
        let mut preload = paths.into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        command.env("LD_PRELOAD", preload);
    }
    if args.verbose {
        command.env("FERROWIRE_LOG", "1");
    }
    if let Some(tap) = &args.tap {
        command.env("FERROWIRE_TAP", tap);
    }
    if args.selective {
        command.env("FERROWIRE_SELECTIVE", "1");
    }
    if args.observe {
        command.env("FERROWIRE_OBSERVE", "1");
    }
    let source = command.exec();
    let fix = match source.kind() {
        ErrorKind::NotFound => "install it, or give its path",
        ErrorKind::PermissionDenied => "is it a program?",
        _ => "see whether it runs without this command",
    };
    Err(Failure::Os { operation: format!("run {}", program.to_string_lossy()), source, fix })
}

/// The cards that the program may have, as the environment names them.
fn cards(common: &Common) -> Result<String, Failure> {
    let several = std::env::var(DEVICE).ok().filter(|named| named.contains(','));
    if let (None, Some(several)) = (common.given_device(), several) {
        return Ok(several);
    }
    match common.named_device()? {
        Some(Device::At(place)) => {
            // Of a card on a socket it is known without taking it whether it is there.
            if let Place::Socket(_) = place {
                match place.observe() {
                    // So many look at it that there is no room for one more.
                    Err(error) if error.is_in_use() => {}
                    seen => drop(seen?),
                }
            }
            Ok(join_names(&[place.absolute()]))
        }
        Some(device) => Err(Failure::usage(
            format!("run: {device} is in this process"),
            "name a card that a program can open: `ferrowire sim up --engine` starts two",
        )),
        None => found(),
    }
}

/// Refuses `--selective` if no card that the program may get has the feature. Cards that cannot be asked here are left to the libraries.
fn check_selective(cards: &str) -> Result<(), Failure> {
    let mut without = None;
    for name in split_names(cards) {
        let place = name.parse().ok().filter(|place| !matches!(place, Place::Serial(..)));
        match place.map(|place: Place| place.observe()) {
            Some(Ok(card)) if !card.capabilities().selective => without = Some(name),
            _ => return Ok(()),
        }
    }
    match without {
        Some(name) => Err(no_selective(name)),
        None => Ok(()),
    }
}

/// Those that `list` shows, by names that hold in each folder.
fn found() -> Result<String, Failure> {
    let (places, unread) = find::usable();
    if let Some((folder, source)) = unread.into_iter().next() {
        let operation = format!("list {}", folder.display());
        return Err(Failure::Os { operation, source, fix: "run it in a folder that can be read" });
    }
    if places.is_empty() {
        return Err(Failure::failed(
            "run: no cards are here",
            "`ferrowire sim up --engine` starts two emulated ones; or name a card with -d",
        ));
    }
    Ok(join_names(&places))
}

fn given(folder: &Path) -> Result<PathBuf, Failure> {
    match folder.join(LIBRARY).is_file() {
        true => Ok(std::path::absolute(folder).unwrap_or_else(|_| folder.into())),
        false => Err(Failure::failed(
            format!("run: {} has no {LIBRARY}", folder.display()),
            "`cargo xtask verbs` builds the libraries and prints their folder",
        )),
    }
}

/// The folder of the libraries.
fn libraries() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_path_buf()));
    let folders = own.iter().flat_map(|own| {
        [own.clone(), own.join("../lib/ferrowire"), own.join("../verbs")]
            .map(|folder| std::fs::canonicalize(&folder).unwrap_or(folder))
    });
    let folders: Vec<PathBuf> = folders.collect();
    match folders.iter().find(|folder| folder.join(LIBRARY).is_file()) {
        Some(folder) => Ok(folder.clone()),
        None => {
            let places: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
            Err(Failure::failed(
                format!("run: {LIBRARY} is in none of {}", places.join(", ")),
                "build it with `cargo xtask verbs`, or give its folder with --libraries",
            ))
        }
    }
}

/// What a file of code is for: class, byte order and machine of its ELF header.
fn machine(path: &Path) -> Option<(u8, u8, u16)> {
    let mut head = [0; 20];
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    let (magic, rest) = head.split_at(4);
    let machine = [head[18], head[19]];
    let big = rest[1] == 2;
    (magic == b"\x7fELF").then(|| {
        (rest[0], rest[1], if big { u16::from_be_bytes(machine) } else { u16::from_le_bytes(machine) })
    })
}

/// Where a program is.
fn find_program(program: &OsString) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Some(path.into());
    }
    let folders = std::env::var_os("PATH")?;
    let mut all = std::env::split_paths(&folders).map(|folder| folder.join(path));
    all.find(|path| path.is_file())
}

/// Refuses a program that cannot load the libraries. A script is let pass: what it starts is not known.
fn fits(program: &OsString, library: &Path) -> Result<(), Failure> {
    let Some(path) = find_program(program) else { return Ok(()) };
    if let (Some(program), Some(own)) = (machine(&path), machine(library)) {
        if program != own {
            return Err(Failure::failed(
                format!(
                    "run: {} is for another processor (ELF machine {}, class {}) than the libraries (machine {}, class {})",
                    path.display(), program.2, program.0, own.2, own.0
                ),
                "take the program of this machine's architecture, or build the libraries for the program's",
            ));
        }
    }
    let special = std::fs::metadata(&path).is_ok_and(|file| file.permissions().mode() & 0o6000 != 0);
    if special {
        return Err(Failure::failed(
            format!(
                "run: {} runs with the rights of its owner, so the system ignores LD_LIBRARY_PATH",
                path.display()
            ),
            "take a copy of it without these rights",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_machine_of_this_process_and_a_script_has_none() {
        let own = machine(&std::env::current_exe().unwrap()).unwrap();
        let program = find_program(&"sh".into()).unwrap();
        assert_eq!(machine(&program), Some(own));
        let folder = std::env::temp_dir().join(format!("ferrowire-run-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let script = folder.join("script");
        std::fs::write(&script, "#!/bin/sh\nexit 0 # and some more\n").unwrap();
        assert_eq!(machine(&script), None);
        // A machine that this one is not.
        let mut other = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        other.truncate(64);
        (other[18], other[19]) = (0x34, 0x12);
        let file = folder.join("other");
        std::fs::write(&file, other).unwrap();
        let refused = fits(&file.into_os_string(), &std::env::current_exe().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("another processor"), "{refused}");
        fits(&script.into_os_string(), &std::env::current_exe().unwrap()).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
