// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command as its users see it, where that takes no card.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs it.
fn ferrowire(arguments: &[&str]) -> Output {
    ferrowire_with("", arguments)
}

/// The same, where the environment names a card.
fn ferrowire_with(device: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrowire"));
    command.args(arguments).env("FERROWIRE_DEVICE", device).output().unwrap()
}

fn said(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_command_has_help_and_the_commands_a_newcomer_needs_have_examples() {
    let (code, all, _) = said(&ferrowire(&["--help"]));
    assert_eq!(code, 0);
    let commands = [
        "list",
        "info",
        "counters",
        "regs",
        "top",
        "gids",
        "ping",
        "pingpong",
        "rping",
        "bw",
        "lat",
        "run",
        "reset",
        "bind",
        "unbind",
        "sim",
        "completion",
        "man",
    ];
    for command in commands {
        assert!(all.contains(&format!("  {command} ")), "{command}: {all}");
        for arguments in [[command, "--help"], ["help", command]] {
            let (code, text, _) = said(&ferrowire(&arguments));
            assert!(code == 0 && text.contains("Example"), "{command}: {text}");
        }
    }
    let (_, text, _) = said(&ferrowire(&["bw", "--help"]));
    for option in [
        "--size",
        "--all",
        "--iters",
        "--duration",
        "--mtu",
        "--qp",
        "--tx-depth",
        "--bidirectional",
        "--inline_size",
        "--push",
        "--connection",
        "--selective",
        "--gid-index",
        "--report_gbits",
        "--port",
    ] {
        assert!(text.contains(option), "{option}");
    }
}

#[test]
fn a_command_line_without_sense_ends_with_2_and_a_failure_with_1() {
    for (code, arguments, word) in [
        (2, &["nonsense"][..], "nonsense"),
        (2, &["info"], "no card is named"),
        (2, &["info"], "FERROWIRE_DEVICE"),
        (2, &["bind"], "`ferrowire bind 0000:03:00.0`"),
        (2, &["unbind"], "`ferrowire unbind 0000:03:00.0`"),
        (2, &["-d", "sim:x", "bw", "write", "-i", "2"], "1..=1"),
        (2, &["-d", "mlx5_0", "info"], "PCI address"),
        (2, &["-d", "sim:x", "bw", "read", "-c", "UD"], "SEND alone"),
        (2, &["-d", "sim:x", "bw", "write", "-m", "1000"], "256, 512"),
        (2, &["-d", "sim:x", "bw", "atomic", "-s", "16"], "8 bytes"),
        (2, &["-d", "sim:x", "lat", "write", "-b"], "leave -b out"),
        (2, &["-d", "sim:x", "lat", "write", "--push", "-I", "17"], "-I up to 16"),
        (2, &["-d", "sim:x", "pingpong", "--transport", "UD", "-s", "2000"], "larger -m"),
        (2, &["-d", "sim:x", "bw", "write", "-c", "UC", "--selective"], "--selective is of RC, not of UC"),
        (2, &["-d", "sim:x", "lat", "send", "-c", "UD", "--selective"], "not of UD; leave --selective out"),
        (2, &["-d", "sim:x", "pingpong", "--transport", "UC", "--selective"], "or take RC"),
        (2, &["-d", "sim:x", "pingpong", "linux", "--stock", "--selective"], "the server is of rdma-core"),
        (2, &["-d", "sim:x", "rping", "-S", "64K"], "rping takes 26 to 65535"),
        (2, &["-d", "sim:x", "rping", "localhost"], "invalid IP address"),
        (2, &["-d", "inproc", "bw", "write", "localhost"], "leave the host out"),
        (1, &["-d", "sim:/nowhere/at/all", "info"], "ferrowire-sim up"),
        (1, &["-d", "sim:/etc/passwd", "info"], "it is a file and no socket"),
        (1, &["-d", "sim:/tmp", "info"], "it is a folder"),
        // As perftest's command lines have them.
        (1, &["-d", "sim:/nowhere", "bw", "write", "-F", "-i", "1", "localhost"], "/nowhere"),
        (1, &["-d", "sim:/nowhere", "pingpong", "-i", "1"], "/nowhere"),
        (1, &["-d", "0000:00:00.0", "reset"], "0000:00:00.0"),
    ] {
        let (found, out, err) = said(&ferrowire(arguments));
        assert_eq!(found, code, "{arguments:?}: {err}");
        assert!(out.is_empty() && err.contains(word), "{arguments:?}: {err}");
    }
}

#[cfg(not(feature = "inproc"))]
#[test]
fn without_cards_of_its_own_it_says_how_to_get_them() {
    for device in ["inproc", "inproc:engine"] {
        let (code, _, err) = said(&ferrowire(&["-d", device, "info"]));
        assert!(code == 1 && err.contains(device) && err.contains("--features inproc"), "{err}");
    }
}

#[test]
fn without_the_simulator_it_says_how_to_build_it() {
    // Copied to where nothing is beside it.
    let folder = std::env::temp_dir().join(format!("ferrowire-alone-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let alone = folder.join("ferrowire");
    std::fs::copy(env!("CARGO_BIN_EXE_ferrowire"), &alone).unwrap();
    let output = Command::new(&alone).args(["sim", "up"]).env("PATH", &folder).output().unwrap();
    let (code, _, err) = said(&output);
    assert!(code == 1 && err.contains("cargo build -p ferrowire-sim"), "{err}");
    for (code, arguments) in [(0, ["sim", "--help"]), (0, ["help", "sim"]), (1, ["sim", "board"])] {
        let output = Command::new(&alone).args(arguments).env("PATH", &folder).output().unwrap();
        let (found, out, err) = said(&output);
        assert_eq!(found, code, "{arguments:?}: {err}");
        assert!((out + &err).contains("cargo build -p ferrowire-sim"), "{arguments:?}");
    }
    // One that is beside it is run, with what follows.
    std::fs::write(folder.join("ferrowire-sim"), "#!/bin/sh\necho \"$@\"\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.join("ferrowire-sim"), executable).unwrap();
    let output = Command::new(&alone).args(["sim", "up", "--config", "generic-64b", "-v"]).output().unwrap();
    assert_eq!(said(&output).1, "up --config generic-64b -v\n");
    let output = Command::new(&alone).args(["sim", "up", "--help"]).output().unwrap();
    assert_eq!(said(&output).1, "up --help\n");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn shells_and_the_manual_are_served() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, text, _) = said(&ferrowire(&["completion", shell]));
        assert!(code == 0 && text.contains("pingpong") && text.contains("report_gbits"), "{shell}");
    }
    let (code, page, _) = said(&ferrowire(&["man"]));
    assert!(code == 0 && page.contains(".TH ferrowire 1") && page.contains("pingpong"), "{page}");
    let folder: PathBuf = std::env::temp_dir().join(format!("ferrowire-man-{}", std::process::id()));
    let (code, _, err) = said(&ferrowire(&["man", "--dir", folder.to_str().unwrap()]));
    assert_eq!(code, 0, "{err}");
    for page in ["ferrowire.1", "ferrowire-bw.1", "ferrowire-info.1", "ferrowire-gids-add.1"] {
        assert!(folder.join(page).is_file(), "{page}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let script = format!(
        "'{}' completion bash | head -c 10 >&2; exit ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_ferrowire")
    );
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    let (code, _, err) = said(&output);
    assert!(code == 0 && !err.contains("panic"), "{code}: {err}");
}

#[test]
fn the_environment_names_a_card_where_the_command_line_does_not() {
    let err = |device: &str, arguments: &[&str]| {
        let (code, _, err) = said(&ferrowire_with(device, arguments));
        (code, err)
    };
    let (code, said) = err("sim:/nowhere/a.sock", &["info"]);
    assert!(code == 1 && said.contains("/nowhere/a.sock"), "{said}");
    let (code, said) = err("sim:/nowhere/a.sock", &["-d", "sim:/nowhere/b.sock", "info"]);
    assert!(code == 1 && said.contains("/nowhere/b.sock") && !said.contains("a.sock"), "{said}");
    let (code, said) = err("mlx5_0", &["info"]);
    assert!(code == 2 && said.contains("FERROWIRE_DEVICE") && said.contains("mlx5_0"), "{said}");
    // What changes the machine is not taken from there, and what needs no card does not look.
    let (code, said) = err("0000:03:00.0", &["unbind"]);
    assert!(code == 2 && said.contains("no PCI address is given"), "{said}");
    assert_eq!(err("mlx5_0", &["completion", "bash"]).0, 0);
}

#[test]
fn only_cards_are_listed() {
    let folder = std::env::temp_dir().join(format!("ferrowire-list-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("dev")).unwrap();
    // Nobody listens to one, and what listens to the other says nothing.
    drop(std::os::unix::net::UnixListener::bind(folder.join("dead.sock")).unwrap());
    let _other = std::os::unix::net::UnixListener::bind(folder.join("other.sock")).unwrap();
    std::fs::write(folder.join("file"), "").unwrap();
    for port in ["ttyUSB1", "ttyACM0", "ttyS0"] {
        std::fs::write(folder.join("dev").join(port), "").unwrap();
    }
    let list = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrowire"));
        let dev = folder.join("dev");
        command.args(["list", "--sysfs", "/nowhere", "--dev", dev.to_str().unwrap()]).args(more);
        said(&command.current_dir(&folder).env("XDG_RUNTIME_DIR", "").output().unwrap())
    };
    let (code, out, err) = list(&[]);
    assert!(code == 0 && out.is_empty() && err.contains("ferrowire sim up"), "{out}{err}");
    let (_, out, _) = list(&["--json", "--serial"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
    let cards = json["cards"].as_array().unwrap();
    let devices: Vec<&str> = cards.iter().map(|card| card["device"].as_str().unwrap()).collect();
    let port = |name: &str| format!("serial:{}", folder.join("dev").join(name).display());
    assert_eq!(devices, [port("ttyACM0"), port("ttyUSB1")]);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The header of a file of code: class, machine.
fn elf(class: u8, machine: u16) -> Vec<u8> {
    let mut head = vec![0; 64];
    head[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
    // A program, in the first version of the format.
    head[16] = 2;
    head[18..20].copy_from_slice(&machine.to_le_bytes());
    head[20] = 1;
    head
}

#[test]
fn run_refuses_a_program_of_another_architecture_before_it_starts() {
    use std::os::unix::fs::PermissionsExt as _;
    const X86: (u8, u16) = (2, 62);
    let folder = std::env::temp_dir().join(format!("ferrowire-elf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("libibverbs.so.1"), elf(X86.0, X86.1)).unwrap();
    let program = folder.join("program");
    for (name, class, machine) in
        [("x86 of 32 bits", 1, 3), ("ARM of 32 bits", 1, 40), ("ARM of 64 bits", 2, 183)]
    {
        std::fs::write(&program, elf(class, machine)).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let [libraries, path] = [&folder, &program].map(|path| path.to_str().unwrap());
        // A card on the PCI bus is looked for by the program alone.
        let refused =
            ferrowire_with("0000:01:00.0", &["run", "--libraries", libraries, "--", path, "--option"]);
        let (code, out, err) = said(&refused);
        assert_eq!((code, out.as_str()), (1, ""), "{name}: {err}");
        let expected = format!(
            "run: {path} is for another processor (ELF machine {machine}, class {class}) than the libraries \
             (machine {}, class {})",
            X86.1, X86.0
        );
        assert!(err.contains(&expected), "{name}: {err}");
        let fix = "take the program of this machine's architecture, or build the libraries for the program's";
        assert!(err.contains(fix), "{name}: {err}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_program_is_told_that_selective_retransmission_is_wished() {
    let folder = std::env::temp_dir().join(format!("ferrowire-selective-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("libibverbs.so.1"), "").unwrap();
    let run = |more: &[&str]| {
        let folder = folder.to_str().unwrap();
        let program = ["--", "sh", "-c", "echo \"<$FERROWIRE_SELECTIVE>\""];
        // Nothing listens there, so the cards cannot be asked.
        let cards = "sim:/nowhere/a,sim:/nowhere/b";
        said(&ferrowire_with(cards, &[&["run", "--libraries", folder], more, &program].concat()))
    };
    let (code, out, err) = run(&["--selective"]);
    assert_eq!((code, out.as_str()), (0, "<1>\n"), "{err}");
    assert_eq!(run(&[]).1, "<>\n");
    // A card that is only observed has no queue pairs.
    let (code, _, err) = run(&["--selective", "--observe"]);
    assert!(code == 2 && err.contains("--observe"), "{err}");
    let (_, help, _) = said(&ferrowire(&["run", "--help"]));
    assert!(help.contains("the other side must be run so, too"), "{help}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_program_is_told_which_tap_interface_it_gets() {
    let folder = std::env::temp_dir().join(format!("ferrowire-tap-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("libibverbs.so.1"), "").unwrap();
    let run = |more: &[&str]| {
        let folder = folder.to_str().unwrap();
        let program = ["--", "sh", "-c", "echo \"<$FERROWIRE_TAP>\""];
        said(&ferrowire_with("sim:a,sim:b", &[&["run", "--libraries", folder], more, &program].concat()))
    };
    let (code, out, err) = run(&["--tap", "fw7"]);
    assert_eq!((code, out.as_str()), (0, "<fw7>\n"), "{err}");
    assert_eq!(run(&[]).1, "<>\n");
    // A card that is only observed has no frames for it.
    let (code, _, err) = run(&["--tap", "fw7", "--observe"]);
    assert!(code == 2 && err.contains("--observe"), "{err}");
    std::fs::remove_dir_all(&folder).unwrap();
}
