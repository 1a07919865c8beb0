// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire top`: what a card does now.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use clap::Args;
use ferrowire::Monitor;
use serde_json::json;

use crate::args::Common;
use crate::counters::{self, Counter};
use crate::failure::Failure;
use crate::{out, stop};

/// Shows what a card's counters do, live, beside the program that uses it
///
/// On a terminal the picture is drawn anew, elsewhere one follows the other. A simulated card has a clock of its own: rates are then by that clock.
/// Counters that begin again at zero have been reset, by a program that came or went. Ctrl-C ends it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    ferrowire -d sim:ferrowire0.sock top\n  \
    ferrowire -d sim:ferrowire0.sock top --interval 0.5 --count 10 --json")]
pub struct TopArgs {
    /// Seconds between two looks, by the clock of the wall
    #[arg(short, long, default_value = "1", value_name = "SECONDS", value_parser = parse_interval)]
    interval: Duration,
    /// End after so many pictures
    #[arg(short = 'n', long, value_name = "PICTURES")]
    count: Option<u64>,
    /// One picture, and the end
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Show counters that are zero, too
    #[arg(long)]
    all: bool,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.01..=86400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("`{text}`: give 0.01 to 86400 seconds"))
}

/// All counters at a moment.
struct Look {
    at: Instant,
    /// On the card's clock, if it is simulated.
    cycles: Option<u64>,
    counters: Vec<Counter>,
}

impl Look {
    fn take(monitor: &mut Monitor) -> Result<Self, Failure> {
        Ok(Self { at: Instant::now(), cycles: monitor.card_cycles()?, counters: counters::all(monitor)? })
    }
}

/// What lies between two looks.
struct Picture<'a> {
    seconds: f64,
    clock: &'static str,
    /// Counter, and by how much it rose; `None` when it was reset.
    rows: Vec<(&'a Counter, Option<u64>)>,
}

impl<'a> Picture<'a> {
    fn between(before: &Look, now: &'a Look, khz: u32) -> Self {
        let (seconds, clock) = match (before.cycles, now.cycles) {
            (Some(a), Some(b)) if khz > 0 => (b.saturating_sub(a) as f64 / (f64::from(khz) * 1e3), "card"),
            _ => ((now.at - before.at).as_secs_f64(), "wall"),
        };
        let rows = before.counters.iter().zip(&now.counters);
        let rows = rows.map(|(old, new)| (new, new.value.checked_sub(old.value))).collect();
        Self { seconds, clock, rows }
    }

    /// By how much a counter rises in a second.
    fn rate(&self, rise: Option<u64>) -> Option<f64> {
        rise.filter(|_| self.seconds > 0.0).map(|rise| rise as f64 / self.seconds)
    }

    fn bits(&self, name: &str) -> String {
        let row = self.rows.iter().find(|(counter, _)| counter.name == name);
        let rate = row.and_then(|(_, rise)| self.rate(*rise));
        rate.map_or("-".into(), |rate| format!("{:.3} Gb/s", rate * 8e-9))
    }

    fn text(&self, title: &str, all: bool) -> String {
        let time = match self.clock {
            "card" => format!("{:.6} s of the card's clock", self.seconds),
            _ => format!("{:.3} s", self.seconds),
        };
        let mut text =
            format!("{title}   {time}   rx {}   tx {}\n", self.bits("rx_bytes"), self.bits("tx_bytes"));
        text += &format!("{:<34}{:>20}{:>16}{:>18}\n", "counter", "value", "rise", "per second");
        for (counter, rise) in self.rows.iter().filter(|(counter, _)| all || counter.value != 0) {
            let rose = rise.map_or("reset".into(), |rise| rise.to_string());
            let rate = self.rate(*rise).map_or("-".into(), |rate| format!("{rate:.1}"));
            text += &format!("{:<34}{:>20}{rose:>16}{rate:>18}\n", counter.name, counter.value);
        }
        text
    }
}

/// Carries it out.
pub fn run(common: &Common, args: &TopArgs) -> Result<(), Failure> {
    stop::listen();
    let device = common.device()?;
    let mut monitor = device.observe()?;
    let khz = monitor.identity()?.clock_khz;
    let count = if args.once { Some(1) } else { args.count };
    let live = std::io::stdout().is_terminal() && !common.json && !args.once;
    let mut before = Look::take(&mut monitor)?;
    let mut shown = 0;
    while count.is_none_or(|count| shown < count) {
        let due = before.at + args.interval;
        // Looked for at least once, also where a look takes longer than the interval.
        loop {
            if stop::stopped() {
                return Ok(());
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        let now = Look::take(&mut monitor)?;
        let picture = Picture::between(&before, &now, khz);
        if common.json {
            let rates: serde_json::Map<String, serde_json::Value> =
                picture.rows.iter().map(|(c, rise)| (c.name.into(), picture.rate(*rise).into())).collect();
            out::json_line(&json!({
                "device": device.to_string(),
                "clock": picture.clock,
                "seconds": picture.seconds,
                "counters": counters::to_json(&now.counters),
                "per_second": rates,
            }))?;
        } else {
            // Up to the left corner, and what is below goes.
            let clear = if live { "\x1b[H\x1b[J" } else { "" };
            let end = if live || count.is_some_and(|count| shown + 1 == count) { "" } else { "\n" };
            out::text(&format!("{clear}{}{end}", picture.text(&device.to_string(), args.all)))?;
        }
        before = now;
        shown += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_was_reset_has_no_rate() {
        let look = |cycles, value| Look {
            at: Instant::now(),
            cycles: Some(cycles),
            counters: vec![Counter { group: "traffic", name: "rx_bytes", value }],
        };
        let (a, b, c) = (look(1000, 50), look(3000, 150), look(5000, 10));
        let picture = Picture::between(&a, &b, 1000);
        assert_eq!((picture.seconds, picture.clock), (0.002, "card"));
        assert_eq!(picture.rate(picture.rows[0].1), Some(50_000.0));
        assert_eq!(picture.bits("rx_bytes"), "0.000 Gb/s");
        let picture = Picture::between(&b, &c, 1000);
        assert_eq!(picture.rate(picture.rows[0].1), None);
        assert!(picture.text("x", true).contains("reset"));
    }

    #[test]
    fn an_interval_is_a_time_that_passes() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "x", "NaN", "inf", "1e9"] {
            assert!(parse_interval(bad).is_err(), "{bad}");
        }
    }
}
