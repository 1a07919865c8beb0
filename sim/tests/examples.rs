// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's examples, as a newcomer starts them: two programs on two cards of `ferrowire-sim up`.
// Each example has the module `common` of its own, as it is built by itself.
#![allow(clippy::duplicate_mod)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ferrowire::{Monitor, TrafficCounter, VfioUserBus};

#[allow(dead_code)]
#[path = "../../driver/examples/async_wait.rs"]
mod async_wait;
#[allow(dead_code)]
#[path = "../../driver/examples/hello_write.rs"]
mod hello_write;
#[allow(dead_code)]
#[path = "../../driver/examples/iommu.rs"]
mod iommu;
#[allow(dead_code)]
#[path = "../../driver/examples/kv_store.rs"]
mod kv_store;
#[allow(dead_code)]
#[path = "../../driver/examples/ping_pong.rs"]
mod ping_pong;

/// `ferrowire-sim up` in a folder of its own; both end with it.
struct Cards {
    server: Child,
    folder: std::path::PathBuf,
    devices: Vec<String>,
}

impl Cards {
    fn up(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("fw-example-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut server = Command::new(env!("CARGO_BIN_EXE_ferrowire-sim"))
            .arg("up")
            .arg(&folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines().take(2);
        let device = |line: std::io::Result<String>| {
            let line = line.unwrap();
            let device = line.split_whitespace().find(|word| word.starts_with("sim:"));
            device.unwrap_or_else(|| panic!("no device in `{line}`")).to_string()
        };
        let devices: Vec<String> = lines.map(device).collect();
        assert_eq!(devices.len(), 2, "the server ended");
        Self { server, folder, devices }
    }
}

impl Drop for Cards {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

type Run = fn(&[String]) -> ping_pong::common::Result<String>;

/// Runs both programs, and gives what the listener and the other one say.
fn both(name: &str, runs: [Run; 2], listener: &[&str], other: &[&str]) -> [String; 2] {
    let cards = Cards::up(name);
    let place = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let args = |which: usize, more: &[&str]| {
        let role = ["listen", "connect"][which];
        let all = [cards.devices[which].as_str(), role, &place].into_iter().chain(more.iter().copied());
        all.map(String::from).collect::<Vec<_>>()
    };
    let (first, second) = (args(0, listener), args(1, other));
    std::thread::scope(|scope| {
        let first = scope.spawn(move || runs[0](&first).unwrap_or_else(|error| panic!("listener: {error}")));
        let second = runs[1](&second).unwrap_or_else(|error| panic!("the other: {error}"));
        [first.join().unwrap(), second]
    })
}

#[test]
fn hello_write_writes_into_the_other_programs_memory() {
    let [first, second] = both("hello", [hello_write::run; 2], &[], &[]);
    assert_eq!(first, "my memory says: hello from the other card");
    assert_eq!(second, "25 bytes written");
}

/// A queue pair that is not in RTR drops what arrives, and the card sends it again only after the ACK time-out.
#[test]
fn nothing_is_sent_before_the_other_program_can_receive() {
    let cards = Cards::up("early");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let args = [cards.devices[0].clone(), "connect".into(), listener.local_addr().unwrap().to_string()];
    let hello = std::thread::spawn(move || hello_write::run(&args).map_err(|error| error.to_string()));
    // The other program tells its numbers and does not get to RTR.
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"5 7 2 4096 9\n").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut lines = BufReader::new(&stream).lines();
    assert_eq!(lines.next().unwrap().unwrap().split(' ').count(), 5);
    assert_eq!(lines.next().expect("a line").expect("the other program is up"), "here");
    let card = cards.devices[0].strip_prefix("sim:").unwrap();
    let mut card = Monitor::open(VfioUserBus::observe(card).unwrap()).unwrap();
    assert_eq!(card.traffic_counter(TrafficCounter::TxFrames).unwrap(), 0);
    drop(lines);
    drop(stream);
    assert_eq!(hello.join().unwrap(), Err("the other program is gone".into()));
}

#[test]
fn ping_pong_sleeps_between_messages() {
    for said in both("ping", [ping_pong::run; 2], &["50"], &["50"]) {
        let sleeps = said.strip_prefix("50 rounds, slept ").and_then(|rest| rest.strip_suffix(" times"));
        assert!(sleeps.unwrap().parse::<u32>().unwrap() > 0, "{said}");
    }
}

#[test]
fn async_wait_waits_for_messages_in_a_runtime() {
    for said in both("async", [async_wait::run; 2], &["50"], &["50"]) {
        let waits = said.strip_prefix("50 rounds, waited ").and_then(|rest| rest.strip_suffix(" times"));
        assert!(waits.unwrap().parse::<u32>().unwrap() > 0, "{said}");
    }
}

/// It waits for a message that never comes, and for the other program at once.
#[test]
fn async_wait_ends_when_the_other_program_is_gone() {
    let cards = Cards::up("async-gone");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let args = [cards.devices[0].clone(), "connect".into(), place];
    let program = std::thread::spawn(move || async_wait::run(&args).map_err(|error| error.to_string()));
    // The other program gets to where it would answer, and is gone.
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"5 7 2 4096 9\nhere\nhere\n").unwrap();
    let mut lines = BufReader::new(&stream).lines();
    (0..3).for_each(|_| drop(lines.next().expect("a line").expect("the program is up")));
    drop(lines);
    drop(stream);
    assert_eq!(program.join().unwrap(), Err("the other program is gone".into()));
}

#[test]
fn kv_store_gives_back_what_was_put() {
    let commands = "put colour green put shape round get colour get shape get size put colour red get colour race counter 200";
    let commands: Vec<&str> = commands.split(' ').collect();
    let [server, client] = both("kv", [kv_store::run; 2], &[], &commands);
    assert_eq!(server, "203 PUTs");
    let lines: Vec<&str> = client.lines().collect();
    let last = format!("counter: {:032}", 200);
    assert_eq!(lines[..5], ["colour: green", "shape: round", "size: none", "colour: red", &last], "{client}");
    assert!(lines[5].ends_with("READs were torn and repeated"), "{client}");
}

#[test]
fn a_torn_slot_of_the_kv_store_is_seen() {
    let slot = |version, letter| kv_store::Slot { version, key: [b'k'; 16], value: [letter; 32] };
    let (old, new) = (slot(7, b'a'), slot(8, b'b'));
    assert_eq!(kv_store::Slot::parse(&old.to_bytes()), Some(old.clone()));
    // A word of the slot is never torn: each mixture of words of both.
    for mask in 0..256u32 {
        let (mut mixed, bytes) = (old.to_bytes(), new.to_bytes());
        for word in (0..8).filter(|word| mask >> word & 1 == 1) {
            mixed[word * 8..][..8].copy_from_slice(&bytes[word * 8..][..8]);
        }
        let seen = kv_store::Slot::parse(&mixed);
        let whole = [&old, &new].into_iter().find(|slot| slot.to_bytes() == mixed);
        assert_eq!(seen.as_ref(), whole, "{mask:#x}");
    }
}

#[test]
fn iommu_is_refused_what_is_not_mapped_and_goes_on() {
    let cards = Cards::up("iommu");
    let said = iommu::run(&cards.devices).unwrap_or_else(|error| panic!("{error}"));
    assert!(
        said.contains("sending what is not mapped: LOC_QP_OP_ERR") && said.ends_with("all as before"),
        "{said}"
    );
}

#[test]
fn every_example_says_how_it_is_used_when_it_is_asked() {
    use ping_pong::common::{answer, USAGE};
    for word in ["--help", "-h"] {
        let said = answer(USAGE, &[word.into()], kv_store::run).unwrap();
        let own = hello_write::run(&[word.into()]).unwrap();
        for said in [said, own] {
            assert!(
                said.starts_with(&format!("Usage: {USAGE}")) && said.contains("ferrowire sim up"),
                "{said}"
            );
        }
    }
    assert!(answer(USAGE, &["nonsense".into()], kv_store::run).unwrap_err().to_string().contains("listen"));
    assert!(hello_write::run(&["nonsense".into()]).unwrap_err().to_string().contains("listen"));
    // The programs themselves are not built here: each has to begin with what answers, but for the one that has all in one file.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver/examples");
    let mut programs = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let text = std::fs::read_to_string(&path).unwrap();
            let starts = text.contains("std::process::ExitCode {\n    common::start(");
            assert_eq!(starts, !path.ends_with("hello_write.rs"), "{}", path.display());
            programs += 1;
        }
    }
    assert!(programs >= 5, "{programs}");
}
