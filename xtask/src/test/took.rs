// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the time of the tests goes: seconds of processors, by step and by program.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use anyhow::Result;

use crate::workspace;

/// What something has used when it ended.
pub struct Took {
    /// A step, or a test program.
    pub title: String,
    /// Seconds of the processors.
    pub processor: f64,
}

/// How many programs the table has.
const ROWS: usize = 16;

/// The sum of some fields of proc_pid_stat(5), which count clock ticks, in seconds; 0 is the field after the command's name.
pub fn seconds(process: &str, fields: Range<usize>) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let all = stat.rsplit_once(')')?.1.split_whitespace();
    let ticks = all.skip(fields.start).take(fields.len()).map_while(|field| field.parse::<u64>().ok());
    Some(ticks.sum::<u64>() as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Seconds that this process and the children it has waited for have used: `utime` to `cstime`.
pub fn all() -> f64 {
    seconds("self", 11..15).unwrap_or_default()
}

fn path() -> PathBuf {
    workspace::target().join("tests-took.json")
}

/// What each program used in an earlier run; empty without one.
pub fn earlier() -> BTreeMap<String, f64> {
    workspace::read_json(&path()).ok().flatten().unwrap_or_default()
}

/// Keeps what each program used, by which the next run orders them.
pub fn keep(programs: &[Took]) -> Result<()> {
    let mut all = earlier();
    all.extend(programs.iter().map(|Took { title, processor }| (title.clone(), *processor)));
    workspace::write_whole(&path(), &(serde_json::to_string_pretty(&all)? + "\n"))
}

/// The table that ends a run: every step in its order, and the programs that used most.
pub fn table(steps: &[Took], programs: &mut [Took]) -> String {
    programs.sort_by(|a, b| b.processor.total_cmp(&a.processor));
    let row = |Took { title, processor }: &Took| format!("{processor:8.0}  {title}\n");
    let mut text = String::from("processor seconds\n");
    text.extend(steps.iter().map(row));
    if !programs.is_empty() {
        let sum: f64 = programs.iter().map(|took| took.processor).sum();
        text += &format!("{sum:8.0}  all {} test programs, of which most is by\n", programs.len());
        text.extend(programs.iter().take(ROWS).map(row));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted() {
        let before = all();
        let mut sum = 0u64;
        while all() < before + 0.05 {
            sum = (0..1_000_000).fold(sum, |sum, n| std::hint::black_box(sum ^ n));
        }
        assert!(seconds("self", 11..13).is_some_and(|own| own >= 0.05));
        assert_eq!(seconds("no such process", 11..15), None);
    }

    #[test]
    fn the_table_has_steps_in_order_and_the_longest_programs_first() {
        let took = |title: &str, processor| Took { title: title.into(), processor };
        let mut programs: Vec<Took> = (0..20).map(|n| took(&format!("p{n}"), f64::from(n))).collect();
        let table = table(&[took("fmt", 1.0), took("tests", 200.0)], &mut programs);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[1..4],
            ["       1  fmt", "     200  tests", "     190  all 20 test programs, of which most is by"]
        );
        assert_eq!((lines[4], lines.len()), ("      19  p19", 4 + ROWS));
    }
}
