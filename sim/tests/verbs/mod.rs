// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of libibverbs, in C, over emulated cards: the libraries of `driver/verbs`, as `cargo xtask verbs` builds them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::socket::rig::{Folder, Server, PATIENCE};

mod connections;
mod limits;
mod selective;
mod tap;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// The folder of the libraries, built by the first test that wants it.
pub fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let folder = target.join("verbs-of-tests");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["run", "--quiet", "--bin", "xtask", "--", "verbs", "--debug", "--out"]).arg(&folder);
        let said = build.current_dir(root()).env("CARGO_TARGET_DIR", target).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        folder
    })
}

/// Compiles a program in C.
fn compile(folder: &Folder, name: &str) -> PathBuf {
    let verbs = root().join("driver/verbs");
    let program = folder.join(name);
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut words = compiler.split_whitespace();
    let mut compile = Command::new(words.next().unwrap());
    compile.args(words).args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"]);
    compile
        .arg(verbs.join("abi"))
        .arg("-o")
        .arg(&program)
        .arg(verbs.join("tests/c").join(format!("{name}.c")));
    compile.arg(libraries().join("libibverbs.so.1")).arg(libraries().join("librdmacm.so.1"));
    compile.args(["-ldl", "-lpthread"]);
    let said = compile.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    program
}

/// A program in C that runs; it is killed at the end.
struct Program {
    process: Child,
    out: BufReader<ChildStdout>,
}

impl Program {
    fn start(mut command: Command) -> Self {
        command.env("LD_LIBRARY_PATH", libraries()).env("FERROWIRE_LOG", "1");
        // Addresses in the settings of this user do not count.
        command.env("XDG_CONFIG_HOME", "/nowhere").env_remove("FERROWIRE_DEVICE");
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        Self { process, out }
    }

    /// Waits until it says a line, which must be this one.
    #[track_caller]
    fn says(&mut self, expected: &str) {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        if line.trim_end() != expected {
            panic!("it said `{line}`, and then {:?}", self.finish());
        }
    }

    /// Waits for its end; what it said on both outputs.
    #[track_caller]
    fn end(mut self) -> (bool, String) {
        self.finish()
    }

    #[track_caller]
    fn finish(&mut self) -> (bool, String) {
        let begin = Instant::now();
        let mut err = self.process.stderr.take().unwrap();
        let mut texts = [String::new(), String::new()];
        let [out_text, err_text] = &mut texts;
        let out = &mut self.out;
        let process = &mut self.process;
        let status = std::thread::scope(|scope| {
            scope.spawn(move || out.read_to_string(out_text));
            scope.spawn(move || err.read_to_string(err_text));
            loop {
                if let Some(status) = process.try_wait().unwrap() {
                    return status;
                }
                if begin.elapsed() > 2 * PATIENCE {
                    process.kill().unwrap();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        (status.success(), texts.concat())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two emulated cards, and the program of traffic between them.
struct Rig {
    server: Server,
    program: PathBuf,
    folder: Folder,
    /// Before any program ran.
    before: Held,
}

/// What is there of programs: files and mappings of the server, files in the folder, processes.
#[derive(Debug, PartialEq)]
struct Held {
    server: (usize, usize),
    folder: usize,
    processes: Vec<PathBuf>,
}

impl Held {
    fn now(server: &Server, folder: &Folder, program: &Path) -> Self {
        let entries = |path: &Path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let runs =
            |process: &PathBuf| std::fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program);
        Self {
            server: (server.files(), server.mappings()),
            folder: entries(&folder.0).count(),
            processes: entries(Path::new("/proc")).filter(runs).collect(),
        }
    }
}

fn engines(folder: &Folder) -> Server {
    Server::engines(folder, 2, &["--ip", "10.7.0.1"])
}

impl Rig {
    fn new(case: &str) -> Self {
        Self::of("traffic", case)
    }

    fn of(program: &str, case: &str) -> Self {
        Self::with(program, case, &[])
    }

    /// The same with more arguments of the cards.
    fn with(program: &str, case: &str, more: &[&str]) -> Self {
        let folder = Folder::new(&format!("verbs-{program}-{case}"));
        let program = compile(&folder, program);
        let server = Server::engines(&folder, 2, &[&["--ip", "10.7.0.1"], more].concat());
        let before = Held::now(&server, &folder, &program);
        Self { server, program, folder, before }
    }

    /// Kills the server, which the program notices, and starts another one.
    fn replace_server(&mut self, program: &mut Program) {
        self.server.signal(Signal::KILL);
        program.says("gone");
        self.server = engines(&self.folder);
    }

    /// Asserts that the server is there, and that programs that have ended have left nothing: the server sees their end soon.
    #[track_caller]
    fn is_clean(&mut self) {
        self.server.lives();
        let begin = Instant::now();
        loop {
            let now = Held::now(&self.server, &self.folder, &self.program);
            if now == self.before {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{now:?}, before {:?}", self.before);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn start(&self, case: &str) -> Program {
        self.start_with(case, &[])
    }

    /// The same with more in the environment.
    fn start_with(&self, case: &str, environment: &[(&str, &str)]) -> Program {
        let mut command = Command::new(&self.program);
        command.arg(case).env_remove("FERROWIRE_SELECTIVE").envs(environment.iter().copied());
        command.args(self.server.sockets.iter().map(|socket| format!("sim:{}", socket.display())));
        Program::start(command)
    }
}

/// Runs a case of traffic, which must end well; what the library logged.
#[track_caller]
fn run(case: &str) -> String {
    run_of("traffic", case)
}

/// The same of any program.
#[track_caller]
fn run_of(program: &str, case: &str) -> String {
    run_with(program, case, &[])
}

/// The same with more in the environment.
#[track_caller]
fn run_with(program: &str, case: &str, environment: &[(&str, &str)]) -> String {
    // Tests of the same case run at once.
    let names: String = environment.iter().map(|(name, _)| format!("-{name}")).collect();
    let mut rig = Rig::of(program, &format!("{case}{names}"));
    let (good, said) = rig.start_with(case, environment).end();
    assert!(good, "{case}: {said}");
    rig.is_clean();
    said
}

#[test]
fn a_connection_carries_messages_writes_reads_and_atomics_and_a_bad_request_is_named() {
    let log = run("rc");
    assert!(log.contains("ibv_post_send: EINVAL: num_sge is more than a work request has"), "{log}");
}

#[test]
fn unreliable_connections_carry_messages_and_writes() {
    run("uc");
}

#[test]
fn datagrams_go_there_and_their_headers_lead_back() {
    run("ud");
}

#[test]
fn queue_pairs_share_receives_and_events_tell_of_the_limit_and_the_last_one() {
    run("srq");
}

#[test]
fn a_channel_wakes_a_program_that_waits_in_each_way() {
    run("events");
}

#[test]
fn a_moderated_queue_wakes_a_program_at_its_count_or_after_its_period() {
    run("moderation");
}

#[test]
fn a_completion_queue_is_resized_by_one_thread_while_another_polls_and_posts() {
    run("resizes");
}

#[test]
fn a_completion_queue_is_destroyed_after_its_events_are_acknowledged() {
    run("acks");
}

#[test]
fn peers_are_found_by_their_ip_addresses() {
    run("rc-ip");
    run("ud-ip");
}

#[test]
fn a_program_borrows_the_raw_queue_pair_and_gives_it_back() {
    let log = run("raw");
    assert!(log.contains("ibv_create_qp: EBUSY: the card has one raw Ethernet queue pair"), "{log}");
}

#[test]
fn the_extended_interfaces_post_and_poll_in_a_parent_domain_of_one_thread() {
    run("extended");
}

#[test]
fn all_kinds_of_memory_are_registered_and_what_is_not_there_is_refused() {
    run("memory");
}

#[test]
fn a_device_is_opened_twice_and_events_go_to_the_context_of_their_object() {
    run("contexts");
}

#[test]
fn windows_of_both_types_are_bound_and_invalidated() {
    run("windows");
}

#[test]
fn a_window_of_type_1_is_bound_by_either_queue_pair_of_its_domain_while_the_peer_writes() {
    run("shared_window");
}

#[test]
fn what_is_wrong_has_the_error_number_of_the_manual_page_and_a_reason_in_the_log() {
    let log = run("errors");
    for reason in [
        "ibv_create_qp: EINVAL: max_send_sge is 1000; the card takes up to",
        "ibv_modify_qp: EINVAL: no transition from RESET to RTR",
        "ibv_modify_qp: EINVAL: is_global is 0",
        "ibv_destroy_cq: EBUSY: 2 objects use the completion queue",
        "close_xrcd: EOPNOTSUPP: the card has no XRC",
    ] {
        assert!(log.contains(reason), "{reason}: {log}");
    }
}

#[test]
fn a_forked_child_has_no_part_in_its_parents_card() {
    run("forks");
}

#[test]
fn a_card_is_free_when_its_program_has_ended_whatever_children_live() {
    run("orphans");
}

#[test]
fn threads_share_a_completion_queue_and_do_not_wait_for_one_that_only_looks() {
    run("threads");
}

#[test]
fn one_thread_posts_and_polls_while_another_one_polls_and_posts_receives() {
    run("shared");
}

#[test]
fn a_card_in_use_is_listed_and_can_be_observed_and_not_opened() {
    let log = run("busy");
    assert!(log.contains("ibv_open_device: EBUSY") && log.contains("in use by another program"), "{log}");
}

#[test]
fn a_program_whose_card_goes_away_gets_errors_and_does_not_wait() {
    let rig = Rig::new("gone");
    let mut program = rig.start("gone");
    program.says("ready");
    drop(rig.server);
    let (good, said) = program.end();
    assert!(good, "{said}");
    assert!(said.contains("the server of the card is gone"), "{said}");
}

#[test]
fn names_are_found_in_the_versions_of_all_releases() {
    let folder = Folder::new("verbs-symbols");
    let program = compile(&folder, "symbols");
    let lists = root().join("driver/verbs/abi/symbols");
    for (library, releases) in
        [("libibverbs", [33, 39, 44, 50, 56, 65]), ("librdmacm", [33, 39, 44, 50, 56, 65])]
    {
        for release in releases {
            let list = std::fs::read_to_string(lists.join(format!("{library}-{release}.txt"))).unwrap();
            let names: Vec<String> = list
                .lines()
                .filter(|line| !line.starts_with('#') && line.contains("@@"))
                .map(|line| line.split(' ').next().unwrap().replace("@@", "@"))
                .collect();
            assert!(names.len() > 60, "{library} {release}: {}", names.len());
            let mut look = Command::new(&program);
            look.arg(libraries().join(format!("{library}.so.1"))).args(&names);
            let (good, said) = Program::start(look).end();
            assert!(good, "{library} {release}: {said}");
        }
    }
    // Programs bind two private names in the version of their release.
    let private = [33, 34, 57, 59, 64, 65];
    let names = private.map(|version| {
        ["ibv_query_gid_type", "ibv_wr_opcode_str"].map(|name| format!("{name}@IBVERBS_PRIVATE_{version}"))
    });
    let mut look = Command::new(&program);
    look.arg(libraries().join("libibverbs.so.1")).args(names.concat());
    let (good, said) = Program::start(look).end();
    assert!(good, "{said}");
    for stub in ["libmlx5", "libefa", "libhns"] {
        let list = std::fs::read_to_string(lists.join(format!("{stub}.txt"))).unwrap();
        let lines = list.lines().filter(|line| !line.starts_with('#'));
        let names = lines.map(|line| line.split(' ').next().unwrap().to_string());
        let mut look = Command::new(&program);
        look.arg(libraries().join(format!("{stub}.so.1"))).args(names);
        let (good, said) = Program::start(look).end();
        assert!(good, "{stub}: {said}");
    }
}
