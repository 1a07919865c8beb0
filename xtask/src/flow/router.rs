// SPDX-License-Identifier: MIT OR Apache-2.0
//! nextpnr's router: what it is told, how far it comes, and the clock behind it.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result};
use ferrowire_boards::nextpnr::PATIENCE;
use serde::{Deserialize, Serialize};

/// A design that nextpnr has written, with more settings.
pub fn with_settings(design: &str, settings: &[(&str, &str)]) -> Result<String> {
    const HERE: &str = "\"settings\": {";
    let at = design.find(HERE).context("to-route.json has no settings")? + HERE.len();
    let added: String = settings.iter().map(|(name, value)| format!("\n\"{name}\": \"{value}\",")).collect();
    Ok([&design[..at], &added, &design[at..]].concat())
}

/// How far `router2` has come. In each round it routes anew what wants a wire that others want too, until no such wire is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// The last round.
    pub round: u64,
    /// Wires that more than one net wanted, in the round with the fewest.
    pub least: u64,
    /// That round, and all wires in use then.
    best: u64,
    wires: u64,
}

impl Rounds {
    /// Takes a line of nextpnr's log; tells whether the router does not come to an end any more.
    pub fn stalls(&mut self, line: &str) -> bool {
        let field =
            |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.parse().ok());
        let (Some(round), Some(wires), Some(overused)) =
            (field("iter="), field("wires="), field("overused="))
        else {
            return false;
        };
        if round <= self.round {
            // Another run.
            *self = Rounds::default();
        }
        self.round = round;
        if self.best == 0 || overused < self.least {
            (self.least, self.best, self.wires) = (overused, round, wires);
        }
        if self.least >= PATIENCE.few {
            return round >= self.best + PATIENCE.rounds;
        }
        // Once many are wanted twice again, it gets worse from round to round.
        overused >= PATIENCE.few || round >= self.best + PATIENCE.last
    }

    /// Why there are no wires, if there are none.
    pub fn unrouted(&self) -> Option<String> {
        let Rounds { round, least, best, wires } = self;
        (*least > 0).then(|| {
            format!(
                "the router left {least} of {wires} wires wanted by more than one net in round {best}, and no fewer up to \
                 round {round}; other placements may do better (--seed, --tries), and --no-route leaves it out"
            )
        })
    }
}

/// A clock, and how fast it can be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Its net.
    pub name: String,
    /// What it reaches.
    pub mhz: f64,
    /// What it is to reach.
    pub wanted_mhz: f64,
}

impl Clock {
    fn new(net: &str, mhz: f64, wanted_mhz: f64) -> Clock {
        // What nextpnr adds to the names of nets on global wires, and behind input buffers.
        let name = net.trim_start_matches("$glbnet$").trim_end_matches("$TRELLIS_IO_IN");
        Clock { name: name.into(), mhz, wanted_mhz }
    }

    /// Of what it reaches and what is wanted.
    fn ratio(&self) -> f64 {
        self.mhz / self.wanted_mhz
    }

    /// Whether it is too slow.
    pub fn missed(&self) -> bool {
        self.mhz < self.wanted_mhz
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clock {} reaches {:.1} MHz, wanted are {:.1} MHz", self.name, self.mhz, self.wanted_mhz)
    }
}

/// The clock that falls shortest of what is wanted of it.
pub fn slowest(clocks: &[Clock]) -> Option<&Clock> {
    clocks.iter().min_by(|a, b| a.ratio().total_cmp(&b.ratio()))
}

/// The clocks that nextpnr's log tells of first, which is when the design has been placed.
pub fn estimates(log: &str) -> Vec<Clock> {
    let clocks = log.lines().skip_while(|line| !line.contains("Max frequency for clock"));
    let clocks = clocks.take_while(|line| line.contains("Max frequency for clock"));
    let of = |line: &str| {
        let (net, figures) = line.split_once("for clock")?.1.split_once(": ")?;
        let mhz = figures.split(" MHz").next()?.trim().parse().ok()?;
        let wanted = figures.split_once(" at ")?.1.split(" MHz").next()?.trim().parse().ok()?;
        Some(Clock::new(net.trim().trim_matches('\''), mhz, wanted))
    };
    clocks.filter_map(of).collect()
}

/// The slowest way from register to register after place-and-route.
#[derive(Debug, Serialize, Deserialize)]
pub struct Critical {
    /// The nets or cells where it begins and ends.
    pub from: String,
    pub to: String,
    /// Of its time, what is spent in cells; the rest is wires.
    pub logic_ns: f64,
    pub wires_ns: f64,
}

/// Cells of a kind that a design takes, and that the device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub used: u64,
    pub available: u64,
}

/// What nextpnr reports of a design that has been routed.
#[derive(Debug)]
pub struct Routed {
    /// All clocks.
    pub clocks: Vec<Clock>,
    /// The critical path of the slowest.
    pub critical: Critical,
    /// By kind of cell.
    pub utilization: BTreeMap<String, Usage>,
}

/// Reads nextpnr's report of a design with these clocks.
pub fn routed(report: &str, placed: &[Clock]) -> Result<Routed> {
    #[derive(Deserialize)]
    struct Route {
        fmax: BTreeMap<String, Fmax>,
        critical_paths: Vec<Way>,
        #[serde(default)]
        utilization: BTreeMap<String, Usage>,
    }
    #[derive(Deserialize)]
    struct Fmax {
        achieved: f64,
        constraint: f64,
    }
    #[derive(Deserialize)]
    struct Way {
        from: String,
        to: String,
        path: Vec<Step>,
    }
    #[derive(Deserialize)]
    struct Step {
        delay: f64,
        #[serde(rename = "type")]
        kind: String,
        from: Place,
        to: Place,
        #[serde(default)]
        net: String,
    }
    #[derive(Deserialize)]
    struct Place {
        cell: String,
    }
    let report: Route = serde_json::from_str(report)?;
    // Of a clock that a PLL makes nextpnr knows only where it packs what it is to reach, and that was before it placed.
    let clock = |(net, fmax): (&String, &Fmax)| {
        let clock = Clock::new(net, fmax.achieved, fmax.constraint);
        let wanted_mhz = placed.iter().find(|known| known.name == clock.name).map(|known| known.wanted_mhz);
        (net.clone(), Clock { wanted_mhz: wanted_mhz.unwrap_or(clock.wanted_mhz), ..clock })
    };
    let clocks: BTreeMap<String, Clock> = report.fmax.iter().map(clock).collect();
    let slowest = clocks.iter().min_by(|a, b| a.1.ratio().total_cmp(&b.1.ratio())).context("no clock")?.0;
    // Edges of the same clock: `posedge clk`.
    let own = |edge: &str| edge.split_whitespace().last() == Some(slowest.as_str());
    let way = report.critical_paths.iter().find(|way| own(&way.from) && own(&way.to));
    let way = way.context("no critical path")?;
    let sum = |wires: bool| way.path.iter().filter(|s| (s.kind == "routing") == wires).map(|s| s.delay).sum();
    let begin = way.path.iter().find(|step| !step.net.is_empty());
    let critical = Critical {
        from: begin
            .map(|step| step.net.clone())
            .or(way.path.first().map(|s| s.from.cell.clone()))
            .unwrap_or_default(),
        to: way.path.last().map(|step| step.to.cell.clone()).unwrap_or_default(),
        logic_ns: sum(false),
        wires_ns: sum(true),
    };
    Ok(Routed { clocks: clocks.into_values().collect(), critical, utilization: report.utilization })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_that_gets_no_further_is_stopped() {
        let line = |round: u32, overused: u64| {
            format!("Info:     iter={round} wires=1323511 overused={overused} overuse={overused} archfail=NA")
        };
        let mut rounds = Rounds::default();
        for (round, overused) in [(1, 96_000), (2, 40_000), (3, 1_955), (4, 2_100)] {
            assert!(!rounds.stalls(&line(round, overused)));
        }
        assert!(!rounds.stalls("Info: routing clock net clk using global 0"));
        assert!((5..23).all(|round| !rounds.stalls(&line(round, 1_955))));
        let mut better = rounds;
        assert!(rounds.stalls(&line(23, 1_955)));
        let why = rounds.unrouted().unwrap();
        assert!(why.contains("1955 of 1323511 wires") && why.contains("round 3,"), "{why}");
        assert!(!better.stalls(&line(23, 7)) && better.least == 7);
        assert!((24..123).all(|round| !better.stalls(&line(round, 8))));
        assert!({ better }.stalls(&line(123, 8)));
        assert!(!better.stalls(&line(101, 499)) && { better }.stalls(&line(102, 500)));
        assert!(!better.stalls(&line(123, 0)));
        assert_eq!(better.unrouted(), None);
    }

    #[test]
    fn a_router_that_begins_anew_has_its_own_rounds() {
        let mut rounds = Rounds::default();
        for (round, overused) in [(1, 900), (2, 3), (3, 4), (1, 950)] {
            assert!(!rounds.stalls(&format!("Info:     iter={round} wires=1000 overused={overused}")));
        }
        assert_eq!((rounds.least, rounds.best), (950, 1));
    }

    #[test]
    fn settings_are_added_to_those_that_are_there() {
        let design = r#"{ "modules": { "top": { "settings": { "seed": "1" } } } }"#;
        let more = with_settings(design, &[("a/b", "2")]).unwrap();
        let more: serde_json::Value = serde_json::from_str(&more).unwrap();
        assert_eq!(more["modules"]["top"]["settings"], serde_json::json!({ "a/b": "2", "seed": "1" }));
        assert!(with_settings("{}", &[]).is_err());
    }

    #[test]
    fn clocks_their_slowest_and_its_limit_are_read_from_the_report() {
        let report = r#"{ "fmax": { "$glbnet$clk": { "achieved": 70.5, "constraint": 62.5 }, "$glbnet$rx$TRELLIS_IO_IN": { "achieved": 200.0, "constraint": 125.0 } },
            "utilization": { "DP16KD": { "used": 3, "available": 208 } }, "critical_paths": [
            { "from": "<async>", "to": "posedge $glbnet$clk", "path": [] },
            { "from": "posedge $glbnet$clk", "to": "posedge $glbnet$clk", "path": [
                { "type": "clk-to-q", "delay": 0.5, "from": { "cell": "a" }, "to": { "cell": "a" } },
                { "type": "routing", "delay": 2.5, "net": "q", "from": { "cell": "a" }, "to": { "cell": "b" } },
                { "type": "setup", "delay": 0.25, "from": { "cell": "b" }, "to": { "cell": "b" } } ] } ] }"#;
        let routed = routed(report, &[]).unwrap();
        let clock = slowest(&routed.clocks).unwrap();
        assert_eq!(clock.to_string(), "clock clk reaches 70.5 MHz, wanted are 62.5 MHz");
        assert_eq!(routed.clocks[1], Clock { name: "rx".into(), mhz: 200.0, wanted_mhz: 125.0 });
        let limit = routed.critical;
        assert_eq!((limit.logic_ns, limit.wires_ns, &limit.from[..], &limit.to[..]), (0.75, 2.5, "q", "b"));
        assert_eq!(routed.utilization["DP16KD"], Usage { used: 3, available: 208 });
        assert!(!clock.missed() && Clock { mhz: 62.4, ..clock.clone() }.missed());
    }

    #[test]
    fn what_a_clock_behind_a_pll_is_to_reach_is_known_from_placing() {
        let way = |clock: &str| {
            format!(
                r#"{{ "from": "posedge {clock}", "to": "posedge {clock}", "path": [
                {{ "type": "setup", "delay": 1.0, "from": {{ "cell": "{clock}" }}, "to": {{ "cell": "{clock}" }} }} ] }}"#
            )
        };
        let report = format!(
            r#"{{ "fmax": {{ "a": {{ "achieved": 60.0, "constraint": 12 }}, "$glbnet$b": {{ "achieved": 120.0, "constraint": 12 }} }},
            "critical_paths": [ {}, {} ] }}"#,
            way("a"),
            way("$glbnet$b")
        );
        let placed = [Clock { name: "b".into(), mhz: 140.0, wanted_mhz: 125.0 }];
        let routed = routed(&report, &placed).unwrap();
        let slow = slowest(&routed.clocks).unwrap();
        assert_eq!(slow, &Clock { name: "b".into(), mhz: 120.0, wanted_mhz: 125.0 });
        assert!(slow.missed() && routed.critical.to == "$glbnet$b");
    }

    #[test]
    fn the_clocks_behind_placing_are_the_first_that_the_log_tells() {
        let told = |clock: &str, mhz: &str| {
            format!("Info: Max frequency for clock '{clock}': {mhz} MHz (PASS at 62.50 MHz)\n")
        };
        let placed = told("$glbnet$clk", "64.20") + &told("$glbnet$mac", "71.00");
        let log = format!(
            "Info: Device utilisation:\n{placed}\nInfo: Running router2...\n{}",
            told("$glbnet$clk", "60.0")
        );
        let clocks = estimates(&log);
        assert_eq!(slowest(&clocks), Some(&Clock { name: "clk".into(), mhz: 64.2, wanted_mhz: 62.5 }));
        assert_eq!((clocks.len(), estimates("Info: nothing\n").len()), (2, 0));
    }
}
