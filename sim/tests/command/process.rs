// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `ferrowire` as a process: this program, which becomes the command when it is told so. The module is `process` at the test program's root.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// For the end of a command.
const PATIENCE: Duration = Duration::from_secs(240);

/// Where the output of a program begins, behind what the test harness prints.
pub const MARK: &str = "---- ferrowire ----";
/// Between the arguments.
pub const BETWEEN: char = '\u{1f}';

/// The command: this program begins again as this test alone.
#[test]
#[ignore = "a process of its own, which other tests start"]
fn the_command() {
    let Ok(arguments) = std::env::var("FERROWIRE_TEST_COMMAND") else { return };
    println!("\n{MARK}");
    let arguments = ["ferrowire"].into_iter().chain(arguments.split(BETWEEN)).map(Into::into);
    let code = ferrowire_cli::run(arguments);
    std::process::exit(code.into());
}

/// What a run of the command left.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Asserts that all went well.
    #[track_caller]
    pub fn good(self) -> String {
        assert_eq!(self.code, 0, "{}\n{}", self.out, self.err);
        self.out
    }

    /// The same, as JSON.
    #[track_caller]
    pub fn json(self) -> Value {
        let text = self.good();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// A run of the command that goes on.
pub struct Running {
    pub process: Child,
    out: BufReader<ChildStdout>,
    before: String,
}

impl Running {
    /// Waits for a line that contains `word`.
    #[track_caller]
    pub fn until(mut self, word: &str) -> Self {
        loop {
            let mut line = String::new();
            let read = self.out.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended without `{word}`: {}", self.before);
            self.before += &line;
            if line.contains(word) {
                return self;
            }
        }
    }

    /// SIGINT.
    pub fn interrupt(&self) {
        let pid = rustix::process::Pid::from_raw(self.process.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(self) -> Said {
        self.end_within(PATIENCE)
    }

    /// Waits so long for its end.
    #[track_caller]
    pub fn end_within(mut self, patience: Duration) -> Said {
        let end = Instant::now() + patience;
        // What it says fits the pipes.
        while !self.has_ended() {
            if Instant::now() > end {
                let before = self.before.clone();
                self.kill();
                panic!("it does not end: {before}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut out = self.before;
        self.out.read_to_string(&mut out).unwrap();
        let mut err = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let code = self.process.wait().unwrap().code().unwrap_or(-1);
        let out = out.split_once(&format!("{MARK}\n")).map_or(String::new(), |(_, out)| out.to_string());
        Said { code, out, err }
    }
}

/// Starts the command with its settings in a folder.
pub fn run_in(settings: &Path, arguments: &[&str]) -> Running {
    begin("command::process::the_command", "FERROWIRE_TEST_COMMAND", settings, arguments)
}

/// Starts this program again as a test that is to be ignored, which finds its arguments in a variable.
pub fn begin(test: &str, variable: &str, settings: &Path, arguments: &[&str]) -> Running {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", test])
        .env(variable, arguments.join(&BETWEEN.to_string()))
        .env("XDG_CONFIG_HOME", settings)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(process.stdout.take().unwrap());
    Running { process, out, before: String::new() }
}

/// A TCP port that nobody has.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port()
}
