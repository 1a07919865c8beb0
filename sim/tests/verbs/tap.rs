// SPDX-License-Identifier: MIT OR Apache-2.0
//! A TAP interface on a card's port: the kernel of this machine on one side, in a network namespace of its own, and the IP stack of `ferrowire-net` on the
//! other. `driver/verbs/tests/c/tap.c` says what each case does.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferrowire::{Context, ContextOptions};
use ferrowire_net::{Config, Net, TcpStream};

use super::{Program, Rig};
use crate::socket::rig::{connect, PATIENCE};

/// `unshare` with what this user needs for interfaces of a namespace.
fn apart() -> Command {
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.args(["--net", "--"]);
    unshare
}

/// Starts a case, with the second card; `None`, and a line that says why: this machine lets this user make no TAP interface.
fn start(rig: &Rig, case: &str) -> Option<Program> {
    let tried = apart().args(["sh", "-c", "exec 3<>/dev/net/tun"]).stdout(Stdio::null()).output();
    let why = match tried {
        Ok(said) if said.status.success() => None,
        Ok(said) => Some(String::from_utf8_lossy(&said.stderr).trim().to_string()),
        Err(error) => Some(format!("unshare: {error}")),
    };
    if let Some(why) = why {
        println!("skipped: no TAP interface can be made in a network namespace: {why}");
        return None;
    }
    let mut command = apart();
    command.arg(&rig.program).arg(case).arg(format!("sim:{}", rig.server.sockets[1].display()));
    Some(Program::start(command))
}

/// Runs a case; what the library logged.
#[track_caller]
fn run(case: &str) -> Option<String> {
    let mut rig = Rig::of("tap", case);
    let (good, said) = start(&rig, case)?.end();
    assert!(good, "{case}: {said}");
    rig.server.lives();
    Some(said)
}

/// The other side: a card with a stack, and one address, from which it asks for both of this side's.
fn other(rig: &Rig) -> Net {
    let options = ContextOptions { command_timeout: PATIENCE, ..ContextOptions::default() };
    let context = Context::open_with(connect(&rig.server.sockets[0]), options).unwrap();
    context.add_gid([10, 9, 0, 1].into(), None).unwrap();
    let pd = context.alloc_pd().unwrap();
    Net::new(&context, &pd, Config { prefix_v4: 0, ..Config::default() }).unwrap()
}

/// Pings both of the first side's addresses, and sends bytes to a program there, which sends them back.
fn talk(net: &Net) {
    // The kernel's, and that of the library's stack.
    for ip in [[10, 9, 0, 2], [10, 7, 0, 2]] {
        for bytes in [0, 56, 1400] {
            net.ping(ip.into(), bytes, PATIENCE).unwrap();
        }
    }
    let sent: Vec<u8> = (0..300_000u32).map(|i| (i ^ i >> 8) as u8).collect();
    let mut stream = TcpStream::connect(net, ([10, 9, 0, 2], 5000).into(), PATIENCE).unwrap();
    let mut back = vec![0; 50_000];
    for part in sent.chunks(back.len()) {
        stream.write_all(part).unwrap();
        stream.read_exact(&mut back).unwrap();
        assert!(back == part, "other bytes came back");
    }
}

#[test]
fn the_kernel_and_the_library_share_the_port_of_a_card() {
    let rig = Rig::of("tap", "traffic");
    let net = other(&rig);
    let Some(mut program) = start(&rig, "traffic") else { return };
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // It answers while the program asks.
        let answers = scope.spawn(|| {
            while !ended.load(Ordering::Acquire) {
                net.poll().unwrap();
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        let talked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            program.says("ready");
            talk(&net);
        }));
        if talked.is_err() {
            let _ = program.process.kill();
        }
        let (good, said) = program.end();
        ended.store(true, Ordering::Release);
        answers.join().unwrap();
        assert!(talked.is_ok() && good, "{said}");
        for word in ["fw0: the TAP interface has no address yet", "that may be RoCE", "[10.9.0.2]"] {
            assert!(said.contains(word), "{word}: {said}");
        }
    });
}

#[test]
fn a_program_leaves_no_interface_but_one_that_was_there() {
    let Some(said) = run("traces") else { return };
    assert!(said.contains("fw1: the TAP interface has 10.9.0.2"), "{said}");
}

#[test]
fn a_program_goes_on_when_its_interface_is_removed() {
    let Some(said) = run("removed") else { return };
    assert!(said.contains("fw0: the TAP interface was removed"), "{said}");
}

#[test]
fn a_card_whose_server_was_started_again_gets_its_interface_again() {
    let mut rig = Rig::of("tap", "returns");
    let Some(mut program) = start(&rig, "returns") else { return };
    program.says("ready");
    rig.replace_server(&mut program);
    let (good, said) = program.end();
    assert!(good, "{said}");
}

#[test]
fn a_card_is_not_opened_without_its_interface_and_the_log_says_what_to_do() {
    let Some(said) = run("errors") else { return };
    for reason in [
        "ibv_open_device: ENAMETOOLONG: FERROWIRE_TAP: `a-name-of-16-byt` has more than 15 bytes",
        "ibv_open_device: EINVAL: FERROWIRE_TAP: `fw/0` is no name of an interface",
        "ibv_open_device: EINVAL: TAP interface lo: there is one of another kind",
        "ibv_open_device: EBUSY: TAP interface fw9: another process has it",
    ] {
        assert!(said.contains(reason), "{reason}: {said}");
    }
}
