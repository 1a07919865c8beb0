// SPDX-License-Identifier: MIT OR Apache-2.0
//! The script with which the open tools build a board.

use ferrowire_boards::{ecp5, nextpnr, Part};

/// Its file.
pub const NAME: &str = "build.sh";

/// Its text, but for what stands between two `@`.
const TEXT: &str = include_str!("build.sh");

/// The script for a top module and its FPGA.
pub fn of(top: &str, part: &Part) -> String {
    let rows: Vec<String> = nextpnr::memory_rows(part).iter().map(u32::to_string).collect();
    let settings = nextpnr::ROUTER.map(|(name, value)| format!("\"{name}\": \"{value}\", ")).concat();
    let (share, of) = nextpnr::CROWDED;
    let nextpnr::Patience { rounds, last, few } = nextpnr::PATIENCE;
    let spread = nextpnr::SPREAD;
    let values = [
        ("TOP", top.to_string()),
        ("MAP", ecp5::synth(top, true, &format!("\"$here/{}\"", ecp5::MAP.0))),
        ("ROWS", rows.join(" ")),
        ("FIRST", nextpnr::LUT_COLUMNS.start().to_string()),
        ("LAST", nextpnr::LUT_COLUMNS.end().to_string()),
        ("MEMORIES", part.ebr.to_string()),
        ("CROWDED", share.to_string()),
        ("CROWDED_OF", of.to_string()),
        ("DEVICE", part.nextpnr().join(" ")),
        ("SETTINGS", settings),
        ("SETTING", nextpnr::ROUTER[0].0.to_string()),
        ("PATIENCE", rounds.to_string()),
        ("LAST_PATIENCE", last.to_string()),
        ("LUTS", nextpnr::LUTS.len().to_string()),
        ("LUT_NAMES", nextpnr::LUTS.join(" ")),
        ("STEP", spread.step.to_string()),
        ("MOST", spread.most.to_string()),
        ("REACH", spread.reach.to_string()),
        ("SHARE", spread.share.0.to_string()),
        ("SHARE_OF", spread.share.1.to_string()),
        ("MAPS", spread.rounds.to_string()),
        ("AGAIN", spread.again.to_string()),
        ("FEW", few.to_string()),
    ];
    filled(TEXT, &values)
}

/// A text with values where their names stand between two `@`.
pub fn filled(text: &str, values: &[(&str, String)]) -> String {
    values.iter().fold(text.into(), |text, (name, value)| text.replace(&format!("@{name}@"), value))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use serde_json::Value;

    use super::super::sites;
    use super::*;

    /// In place of Yosys: a design with so many block RAMs, as it writes one.
    const YOSYS: &str = r#"
{
    printf '{\n  "modules": {\n    "DP16KD": {\n      "attributes": {\n        "blackbox": "1"\n      },\n      "cells": {\n      }\n    },\n'
    printf '    "top": {\n      "attributes": {\n        "top": "1"\n      },\n      "cells": {\n'
    for i in $(seq "$MEMORIES"); do
        printf '        "m\\\\%d": {\n          "type": "DP16KD",\n          "attributes": {\n' "$i"
        # Of every other one there are none.
        if [ $((i % 2)) = 0 ]; then printf '            "src": "top.v:%d.1-%d.5"\n' "$i" "$i"; fi
        printf '          }\n        },\n'
    done
    printf '        "flop": {\n          "type": "TRELLIS_FF"\n        }\n      }\n    }\n  }\n}\n'
} > mapped.json
"#;

    /// In place of nextpnr: it places what it gets, of two clocks, in a square of 40 tiles; and routes as `ROUTE` says.
    const NEXTPNR: &str = r#"
echo "$*" >> nextpnr.args
clock() { echo "Info: Max frequency for clock '\$glbnet\$$1': $2 MHz ($3 at $4 MHz)"; }
round() { echo "Info:     iter=$1 wires=1200000 overused=$2 overuse=$2 archfail=NA"; }
case "$*" in
*--no-route*)
    if [ "$ROUTE" = never ]; then echo $$ > placer; exec sleep 600; fi
    { clock core 61.5 PASS 50.00; clock rx 170.00 PASS 125.00; } > place.log
    {
        printf '{ "modules": { "top": { "settings": { "seed": "1" },\n      "cells": {\n'
        for x in $(seq 0 39); do for y in $(seq 0 39); do printf '"X%d_Y%d": { "NEXTPNR_BEL": "X%d/Y%d/SLICEA.FF0" },\n' "$x" "$y" "$x" "$y"; done; done
        for i in $(seq "${FIRST:-1}" "${PLACED:-$MEMORIES}"); do
            printf '        "m\\\\%d": {\n          "type": "DP16KD",\n            "NEXTPNR_BEL": "X4/Y46/EBR0"\n        },\n' "$i"
        done
        printf '"m": { "NEXTPNR_BEL": "X7/Y46/EBR2" } } } } }\n'
    } > placed.json
    exit 0 ;;
esac
case $ROUTE in
crash*)
    if [ "$ROUTE" = crash ] || [ ! -e crashed ]; then : > crashed; kill -SEGV $$; fi
    ROUTE=${ROUTE#crash} ;;
esac
case $ROUTE in
fails) echo "ERROR: no such ball" >&2; exit 1 ;;
stuck*)
    if [ "$ROUTE" = stuck ] || [ ! -e router ]; then
        # One tile at column 10 and row 8, or `HOT`, in the rounds that count; others before these and in the last.
        map() {
            for x in $(seq 0 41); do
                line=
                for y in $(seq 0 39); do if [ "$x $y" = "10 $1" ]; then line="${line}3,"; else line="${line}0,"; fi; done
                echo "$line"
            done
        }
        map "${HOT:-8}" > counts
        map 38 > other
        for i in $(seq 30); do cp counts "top.maps/heat_congestion_by_coordinate_$i.csv"; done
        for i in 9 30; do cp other "top.maps/heat_congestion_by_coordinate_$i.csv"; done
        echo $$ > router
        if [ "$ROUTE" = stuck ]; then
            { round 1 7000; for i in $(seq 2 "$ROUNDS"); do round "$i" 7001; done; } > route.log
        else
            { round 1 7000; round 2 3; round 3 499; round 4 500; } > route.log
        fi
        exec sleep 600
    fi
    ROUTE=${ROUTE#stuck} ;;
esac
{ round 1 7000; round 2 0; clock core "$ROUTE" PASS 12.00; [ "$ROUTE" = 51.0 ] || clock rx 130.00 PASS 125.00; } > route.log
echo config > top.config
"#;

    const ECPPACK: &str = r#"[ "$1" = --compress ] && cp "$2" "$3""#;

    struct Build(PathBuf);

    impl Build {
        fn new(test: &str) -> Build {
            let folder = std::env::temp_dir().join(format!("ferrowire-{NAME}-{test}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(folder.join("rtl")).unwrap();
            let part = Part::parse("LFE5UM5G-85F-8BG381C").unwrap();
            for (name, text) in [("yosys", YOSYS), ("nextpnr", NEXTPNR), ("ecppack", ECPPACK)] {
                let program = folder.join(name);
                fs::write(&program, format!("#!/bin/sh\nset -eu\n{text}")).unwrap();
                assert!(Command::new("chmod").arg("+x").arg(&program).status().unwrap().success());
            }
            fs::write(folder.join("rtl").join(NAME), of("top", &part)).unwrap();
            fs::write(folder.join("rtl").join(sites::NAME), sites::of(&part)).unwrap();
            fs::write(folder.join("rtl/files.f"), "child.v\ntop.v\n").unwrap();
            Build(folder)
        }

        /// Runs the script, which never places anew; what it says, and how it ended.
        fn run(&self, memories: u32, route: &str) -> (String, Option<i32>) {
            self.run_again(memories, route, 0)
        }

        fn run_again(&self, memories: u32, route: &str, again: u32) -> (String, Option<i32>) {
            let output = self.command(memories, route, again).output().unwrap();
            (String::from_utf8(output.stderr).unwrap(), output.status.code())
        }

        fn command(&self, memories: u32, route: &str, again: u32) -> Command {
            let mut sh = Command::new("sh");
            sh.arg(self.0.join("rtl").join(NAME)).env("MEMORIES", memories.to_string()).env("ROUTE", route);
            sh.env("ROUNDS", (1 + nextpnr::PATIENCE.rounds).to_string())
                .env("AGAIN", again.to_string())
                .env_remove("SEED");
            for (variable, program) in [("YOSYS", "yosys"), ("NEXTPNR", "nextpnr"), ("ECPPACK", "ecppack")] {
                sh.env(variable, self.0.join(program));
            }
            sh
        }

        fn out(&self) -> PathBuf {
            self.0.join("rtl.build")
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.out().join(name)).unwrap()
        }

        /// The block RAMs of what was placed last, and the LUTs that it leaves free.
        fn design(&self) -> (usize, BTreeSet<String>) {
            let design: Value = serde_json::from_str(&self.read("spread.json")).unwrap();
            assert_eq!(design["modules"]["DP16KD"]["cells"], serde_json::json!({}));
            let cells = design["modules"]["top"]["cells"].as_object().unwrap();
            let of = |kind: &str| cells.values().filter(|cell| cell["type"] == kind).collect::<Vec<_>>();
            let luts =
                of("LUT4").into_iter().map(|cell| cell["attributes"]["BEL"].as_str().unwrap().to_string());
            (of("DP16KD").len(), luts.collect())
        }

        /// Whether the program that wrote its number to this file is there.
        fn runs(&self, name: &str) -> bool {
            Path::new("/proc").join(self.read(name).trim()).exists()
        }

        fn bitstream(&self) -> bool {
            let rest = fs::read_dir(self.out()).unwrap().map(|entry| entry.unwrap().path());
            let bits: Vec<PathBuf> =
                rest.filter(|path| path.extension().is_some_and(|e| e == "bit")).collect();
            assert!(bits.iter().all(|bit| bit.file_name() == Path::new("top.bit").file_name()), "{bits:?}");
            !bits.is_empty()
        }
    }

    impl Drop for Build {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn luts_beside_block_rams_stay_free_and_the_router_gets_its_settings() {
        let build = Build::new("crowded");
        let (said, code) = build.run(125, "50.5");
        assert_eq!(code, Some(0), "{said}");
        assert!(
            build.bitstream() && said.contains("clock core reaches 50.5 MHz, wanted are 50.00 MHz\n"),
            "{said}"
        );
        let (memories, free) = build.design();
        assert_eq!((memories, free.len()), (125, 4 * 2 * 123 * 8));
        for bel in &["X2/Y21/SLICEA.K0", "X124/Y83/SLICED.K1", "X60/Y47/SLICEC.K0"] {
            assert!(free.contains(*bel), "{bel}");
        }
        // Each block RAM has a site, of those that the first placement was for.
        let sites = build.read("sites.txt");
        let sites: BTreeMap<&str, &str> = sites.lines().map(|line| line.split_once(' ').unwrap()).collect();
        assert_eq!((sites.len(), sites.values().collect::<BTreeSet<_>>().len()), (125, 125));
        let design: Value = serde_json::from_str(&build.read("spread.json")).unwrap();
        let cells = &design["modules"]["top"]["cells"];
        for (name, site) in sites {
            let attributes = &cells[name.replace(r"\\", r"\")]["attributes"];
            assert_eq!(attributes["BEL"], site, "{name}");
        }
        assert_eq!(cells[r"m\124"]["attributes"]["src"], "top.v:124.1-124.5");
        assert_eq!(cells["flop"]["attributes"]["BEL"], Value::Null);
        let args = build.read("nextpnr.args");
        let [first, second, _] = args.lines().collect::<Vec<_>>()[..] else { panic!("{args}") };
        assert!(
            first.contains("--json mapped.json --placer") && second.contains("--json spread.json --placer")
        );
        let routed: Value = serde_json::from_str(&build.read("to-route.json")).unwrap();
        let settings = routed["modules"]["top"]["settings"].as_object().unwrap();
        assert!(
            nextpnr::ROUTER.iter().all(|(name, value)| settings[*name] == *value) && settings["seed"] == "1"
        );
        assert!(build
            .read("nextpnr.args")
            .contains("--seed 1 --timing-allow-fail --quiet --json spread.json "));
        assert!(build.read("map.ys").contains("/rtl/child.v\" \"") && !build.read("map.ys").contains('@'));
    }

    #[test]
    fn a_device_with_few_block_rams_in_use_is_placed_as_it_is() {
        let build = Build::new("few");
        let (said, code) = build.run(124, "50.0");
        assert_eq!(code, Some(0), "{said}");
        assert!(build.bitstream() && build.read("spread.json") == build.read("mapped.json"));
        assert!(build.read("sites.txt").is_empty() && build.read("nextpnr.args").lines().count() == 2);
    }

    #[test]
    fn a_clock_that_is_too_slow_and_a_router_that_fails_leave_no_bitstream() {
        let build = Build::new("slow");
        assert_eq!(build.run(1, "50.0").1, Some(0));
        let (said, code) = build.run(1, "49.9");
        assert!(code == Some(1) && !build.bitstream(), "{said}");
        assert!(said.contains("clock core reaches 49.9 MHz, wanted are 50.00 MHz: too slow\n"), "{said}");
        assert!(
            said.ends_with("error: a clock is too slow; another placement may do better (SEED=2)\n"),
            "{said}"
        );
        // `rx` is not told.
        let (said, code) = build.run(1, "51.0");
        assert!(
            code == Some(1) && said.contains("error: nextpnr does not tell how fast each clock is"),
            "{said}"
        );
        let (said, code) = build.run(1, "fails");
        assert!(code == Some(1) && !build.bitstream(), "{said}");
        assert!(said.contains("ERROR: no such ball\nerror: it cannot be routed, see "), "{said}");
    }

    #[test]
    fn a_router_that_gets_no_further_is_stopped() {
        let build = Build::new("stuck");
        let begin = Instant::now();
        let (said, code) = build.run(1, "stuck");
        assert!(
            code == Some(1) && !build.bitstream() && begin.elapsed() < Duration::from_secs(300),
            "{said}"
        );
        assert!(said.ends_with("error: the router leaves 7000 wires wanted by more than one net; another placement may do better (SEED=2)\n"), "{said}");
        assert!(!build.runs("router") && !said.contains("Terminated"), "{said}");
    }

    #[test]
    fn who_ends_the_script_ends_what_it_runs() {
        let build = Build::new("ended");
        for (signal, code) in [("TERM", 143), ("HUP", 129)] {
            let mut sh = build.command(1, "never", 0).stderr(Stdio::null()).spawn().unwrap();
            let begins = Instant::now();
            while !fs::read_to_string(build.out().join("placer")).is_ok_and(|id| id.ends_with('\n')) {
                assert!(sh.try_wait().unwrap().is_none() && begins.elapsed() < Duration::from_secs(120));
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(build.runs("placer"));
            let id = sh.id().to_string();
            assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
            assert_eq!(sh.wait().unwrap().code(), Some(code));
            assert!(!build.runs("placer") && !build.bitstream());
            fs::remove_file(build.out().join("placer")).unwrap();
        }
    }

    #[test]
    fn a_router_that_crashes_is_run_again_once() {
        let build = Build::new("crash");
        let (said, code) = build.run(1, "crash60.0");
        assert!(code == Some(0) && build.bitstream(), "{said}");
        assert!(said.contains("it crashed (signal 11); once again"), "{said}");
        let (said, code) = build.run(1, "crash");
        assert!(
            code == Some(1) && !build.bitstream() && said.contains("error: it cannot be routed, see "),
            "{said}"
        );
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_done() {
        let build = Build::new("refused");
        for (seed, again) in [("one", "1"), ("08", "1"), ("1", "-1"), ("1", "1x")] {
            let output = build.command(1, "60.0", 0).env("SEED", seed).env("AGAIN", again).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(
                (said.as_str(), output.status.code()),
                ("error: SEED and AGAIN are numbers\n", Some(1))
            );
            assert!(!build.out().exists());
        }
        // Behind the placer there are others, as many or not.
        for (placed, first, told) in [
            ("126", "1", "/placed.json has other block RAMs than the 125 of "),
            ("126", "2", "error: block RAMs that were placed are not in "),
            ("0", "1", "/placed.json has other block RAMs than the 125 of "),
        ] {
            let mut sh = build.command(125, "60.0", 0);
            let output = sh.env("PLACED", placed).env("FIRST", first).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.code() == Some(1) && said.contains(told), "{said}");
            assert!(!build.bitstream());
        }
        // Of another top there is nothing to place.
        fs::write(build.0.join("yosys"), "#!/bin/sh\necho '{}' > mapped.json\n").unwrap();
        let (said, code) = build.run(1, "60.0");
        assert!(code == Some(1) && said.contains("error: there is no module top with cells in "), "{said}");
    }

    #[test]
    fn luts_stay_free_where_the_last_rounds_wanted_wires_twice_and_it_is_placed_anew() {
        let build = Build::new("again");
        let (said, code) = build.run_again(1, "stuck60.0", 1);
        assert!(code == Some(0) && build.bitstream(), "{said}");
        let near = |at: u32| at - nextpnr::SPREAD.reach..=at + nextpnr::SPREAD.reach;
        let tiles = near(10).flat_map(|x| near(8).map(move |y| (x, y)));
        let wanted: BTreeSet<String> = tiles
            .flat_map(|(x, y)| nextpnr::LUTS[..2].iter().map(move |lut| format!("X{x}/Y{y}/{lut}")))
            .collect();
        assert_eq!(build.design(), (1, wanted));
        assert!(
            said.contains("the router leaves 3 wires wanted by more than one net; more LUTs stay free"),
            "{said}"
        );
        assert!(said.contains("placing, with 338 LUTs left free"), "{said}");
        assert!(!build.out().join("top.maps").exists());

        // Those beside block RAMs stay, and get no fewer.
        let build = Build::new("more");
        let output = build.command(125, "stuck60.0", 1).env("HOT", "20").output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("placing, with 8158 LUTs left free"), "{said}");
        let free = build.design().1;
        assert!(nextpnr::LUTS.iter().all(|lut| free.contains(&format!("X10/Y21/{lut}"))));
        // Two more each time, up to six; then there are none.
        let build = Build::new("most");
        let (said, code) = build.run_again(1, "stuck", 9);
        assert!(code == Some(1) && said.contains("placing, with 1014 LUTs left free"), "{said}");
        assert!(said.contains(", and there are no more LUTs to leave free; "), "{said}");
    }
}
