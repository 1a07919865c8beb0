// SPDX-License-Identifier: MIT OR Apache-2.0
//! A counterexample: the assertion that does not hold, and a table of cycles from the waveform.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The time between two edges of the clock, in the waveforms of Yosys's simulator.
const PERIOD: u64 = 10;

/// A run that breaks an assertion.
#[derive(Debug, Serialize)]
pub struct Counterexample {
    /// In which cycle, the first being that of the reset.
    pub cycle: u64,
    /// What it says, and where it is in the source.
    pub assertion: String,
    /// The ports of the bench and what they are in each cycle.
    pub signals: Vec<Signal>,
}

/// A port.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Signal {
    pub name: String,
    /// In each cycle, in hexadecimal.
    pub values: Vec<String>,
}

/// What Yosys's simulator says of a run.
#[derive(Deserialize)]
struct Summary {
    assertions: Vec<Broken>,
}

#[derive(Deserialize)]
struct Broken {
    step: u64,
    src: String,
}

impl Counterexample {
    /// From the simulator's summary, the waveform, and the Verilog.
    pub fn read(summary: &Path, waveform: &Path, verilog: &Path) -> Result<Counterexample> {
        let read = |path: &Path| {
            fs::read_to_string(path).with_context(|| format!("the counterexample lacks {}", path.display()))
        };
        let told: Summary = serde_json::from_str(&read(summary)?)
            .with_context(|| format!("reading {}", summary.display()))?;
        let broken = told.assertions.first().context("the run of the counterexample breaks no assertion")?;
        Ok(Counterexample {
            cycle: broken.step,
            assertion: assertion(&broken.src, &read(verilog)?),
            signals: signals(&read(waveform)?, broken.step + 1),
        })
    }

    /// A line a signal, a column a cycle.
    pub fn table(&self) -> String {
        let name_width = self.signals.iter().map(|signal| signal.name.len()).max().unwrap_or(0).max(5);
        let cycles: Vec<String> = (0..=self.cycle).map(|cycle| cycle.to_string()).collect();
        let values = self.signals.iter().flat_map(|signal| &signal.values);
        let width = values.chain(&cycles).map(String::len).max().unwrap_or(1);
        let line = |name: &str, values: &[String]| {
            let values: Vec<String> = values.iter().map(|value| format!("{value:>width$}")).collect();
            format!("        {name:<name_width$}  {}\n", values.join(" ").trim_end())
        };
        let mut table = line("cycle", &cycles);
        self.signals.iter().for_each(|signal| table += &line(&signal.name, &signal.values));
        table
    }
}

/// What the comment after an assertion says: `place message`. The assertion is at `FILE:LINE.COLUMN-...`.
fn assertion(src: &str, verilog: &str) -> String {
    let line = src.rsplit_once(':').and_then(|(_, at)| at.split('.').next()?.parse::<usize>().ok());
    let text = line.and_then(|line| verilog.lines().nth(line.checked_sub(1)?));
    match text.and_then(|text| text.rsplit_once(" // ")?.1.split_once(' ')) {
        Some((place, message)) => format!("{message} ({place})"),
        None => src.to_string(),
    }
}

/// The ports of `bench` in so many cycles; each stands before the clock's edge as it is at it (IEEE 1364-2005, 18.2).
fn signals(vcd: &str, cycles: u64) -> Vec<Signal> {
    let (mut depth, mut names, mut now) = (Vec::new(), Vec::new(), HashMap::<String, String>::new());
    let mut values: Vec<Vec<String>> = Vec::new();
    let mut snapshot = |names: &[(String, String)], now: &HashMap<String, String>| {
        values.resize_with(names.len(), Vec::new);
        for (of, (_, id)) in values.iter_mut().zip(names) {
            of.push(now.get(id).map_or("x".into(), |bits| hexadecimal(bits)));
        }
    };
    let mut seen = 0;
    for line in vcd.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["$scope", _, name, ..] => depth.push(name.to_string()),
            ["$upscope", ..] => drop(depth.pop()),
            ["$var", _, _, id, name, ..] if depth.len() == 1 => {
                names.push((name.to_string(), id.to_string()))
            }
            [time] if time.starts_with('#') => {
                // A cycle's values are those before the next one begins.
                let time: u64 = time[1..].parse().unwrap_or(0);
                while seen < (time / PERIOD).min(cycles) {
                    snapshot(&names, &now);
                    seen += 1;
                }
            }
            [bits, id] if bits.starts_with('b') => drop(now.insert(id.into(), bits[1..].into())),
            [bit] if bit.len() > 1 && bit.starts_with(['0', '1', 'x', 'z']) => {
                now.insert(bit[1..].into(), bit[..1].into());
            }
            _ => {}
        }
    }
    while seen < cycles {
        snapshot(&names, &now);
        seen += 1;
    }
    let named = names.into_iter().zip(values).map(|((name, _), values)| Signal { name, values });
    named.filter(|signal| !["clk", "first"].contains(&signal.name.as_str())).collect()
}

/// Binary digits as hexadecimal ones.
fn hexadecimal(bits: &str) -> String {
    if bits.contains(['x', 'z']) {
        return "x".into();
    }
    match u128::from_str_radix(bits, 2) {
        Ok(value) => format!("{value:x}"),
        Err(_) => format!("b{bits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VCD: &str = "$scope module bench $end\n$var wire 1 ! clk $end\n$var wire 1 \" valid $end\n$var wire 6 # key $end\n\
        $scope module circuit $end\n$var wire 1 $ inner $end\n$upscope $end\n$upscope $end\n$enddefinitions $end\n\
        #0\n0!\n1\"\nb000011 #\n0$\n#5\n1!\n#10\n0!\nb111110 #\n#15\n1!\n#20\n0!\n0\"\nbxxxxxx #\n#25\n1!\n#30\n";

    #[test]
    fn the_table_has_a_line_for_each_port_and_a_column_for_each_cycle() {
        let signals = signals(VCD, 3);
        let counterexample = Counterexample { cycle: 2, assertion: String::new(), signals };
        assert_eq!(
            counterexample.table(),
            "        cycle   0  1  2\n        valid   1  1  0\n        key     3 3e  x\n"
        );
    }

    #[test]
    fn an_assertion_is_named_by_its_message_and_its_place() {
        let verilog =
            "module a;\n    always @(posedge clk) if (!rst) assert (b); // src/x.rs:3 it is b: always\n";
        assert_eq!(assertion("a.v:2.37-2.50", verilog), "it is b: always (src/x.rs:3)");
        assert_eq!(assertion("a.v:9.1-9.2", verilog), "a.v:9.1-9.2");
    }
}
