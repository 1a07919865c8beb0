// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Progress`]: how far a command is. A bar on a terminal, a line now and then anywhere else; on the standard error either way. [`waiting`] is for one step of unknown length.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between two lines that say how far it is, where there is no terminal.
pub const NEWS: Duration = Duration::from_secs(10);

/// How far a command is.
pub struct Progress {
    bar: ProgressBar,
    /// When the last line was written; `None`: there is a terminal.
    told: Option<Cell<Instant>>,
}

impl Progress {
    /// For so many steps.
    pub fn new(length: u64, template: &str) -> Self {
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let told = (!std::io::stderr().is_terminal()).then(|| Cell::new(Instant::now()));
        let bar = if told.is_some() { ProgressBar::hidden() } else { ProgressBar::no_length() };
        bar.set_length(length);
        Self { bar: bar.with_style(style), told }
    }

    /// What is being done now.
    pub fn set_message(&self, message: String) {
        self.bar.set_message(message);
        self.tell(NEWS, &mut std::io::stderr());
    }

    /// So many steps more are done.
    pub fn inc(&self, steps: u64) {
        self.bar.inc(steps);
        self.tell(NEWS, &mut std::io::stderr());
    }

    /// All is done.
    pub fn finish_and_clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Writes a line, if there is no terminal and the last one is so long ago.
    fn tell(&self, every: Duration, out: &mut impl Write) {
        let Some(told) = self.told.as_ref().filter(|told| told.get().elapsed() >= every) else { return };
        told.set(Instant::now());
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        // A closed standard error is no reason to stop.
        let _ = writeln!(out, "{}; {} of {all}, {} %", self.bar.message(), done, 100 * done / all.max(1));
    }
}

/// Does what may take minutes, and says now and then that it goes on.
pub fn waiting<T>(message: &str, work: impl FnOnce() -> T) -> T {
    let err = std::io::stderr();
    if err.is_terminal() {
        let spinner = ProgressBar::new_spinner();
        spinner.set_message(message.to_string());
        spinner.enable_steady_tick(Duration::from_millis(200));
        let done = work();
        spinner.finish_and_clear();
        return done;
    }
    telling(message, NEWS, err, work)
}

/// The same with a line after each such time.
fn telling<T>(message: &str, every: Duration, mut out: impl Write + Send, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    // Dropping the sender ends the thread, also when the work panics.
    let (works, done) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while done.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                // A closed standard error is no reason to stop.
                let _ = writeln!(out, "{message}; {:.0} s so far", start.elapsed().as_secs_f64());
            }
        });
        let _works = works;
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A standard error that a test sees into.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<u8>>>);

    impl Seen {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Seen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn off_a_terminal_a_long_step_says_now_and_then_that_it_goes_on() {
        let (seen, start) = (Seen::default(), Instant::now());
        let done = telling("building", Duration::from_millis(1), seen.clone(), || {
            while seen.text().lines().count() < 3 {
                assert!(start.elapsed() < Duration::from_secs(60), "{}", seen.text());
                std::thread::sleep(Duration::from_millis(1));
            }
            7
        });
        assert_eq!(done, 7);
        let text = seen.text();
        assert!(
            text.lines().all(|line| line.starts_with("building; ") && line.ends_with(" s so far")),
            "{text}"
        );
        let seen = Seen::default();
        telling("building", NEWS, seen.clone(), || ());
        assert_eq!(seen.text(), "");
    }

    #[test]
    fn off_a_terminal_a_line_says_now_and_then_how_far_it_is() {
        let bar = ProgressBar::hidden();
        bar.set_length(8);
        let progress = Progress { bar, told: Some(Cell::new(Instant::now())) };
        progress.set_message("1 % lost".into());
        progress.inc(2);
        let mut out = Vec::new();
        progress.tell(Duration::ZERO, &mut out);
        progress.tell(Duration::from_secs(3600), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "1 % lost; 2 of 8, 25 %\n");
    }
}
