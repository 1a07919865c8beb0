// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program by which a board's script finds sites for block RAMs.

use ferrowire_boards::{nextpnr, Part};

use super::script::filled;

/// Its file.
pub const NAME: &str = "sites.awk";

/// The program for an FPGA. It finds none where the rows of block RAMs are not known.
pub fn of(part: &Part) -> String {
    let words = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let free = nextpnr::MEMORY_FREE.map(|free| free.to_string()).join(" ");
    let nextpnr::Annealing { most_pins, tries } = nextpnr::ANNEALING;
    filled(
        include_str!("sites.awk"),
        &[
            ("ROWS", words(nextpnr::memory_rows(part))),
            ("COLUMNS", words(&nextpnr::MEMORY_COLUMNS)),
            ("GROUP", nextpnr::MEMORY_GROUP.to_string()),
            ("FREE", free),
            ("MOST_PINS", most_pins.to_string()),
            ("TRIES", tries.to_string()),
        ],
    )
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::process::Command;

    use super::*;

    /// What `sites.awk` makes of a placed design: each block RAM's site, and what it says; nothing where it fails.
    fn sites(test: &str, placed: &str) -> (Option<BTreeMap<String, String>>, String) {
        let folder = std::env::temp_dir().join(format!("ferrowire-{NAME}-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(NAME), of(&Part::parse("LFE5UM5G-85F-8BG381C").unwrap())).unwrap();
        fs::write(folder.join("placed.json"), placed).unwrap();
        let mut awk = Command::new("awk");
        awk.current_dir(&folder).args(["-v", "seed=7", "-f", NAME, "placed.json"]);
        let output = awk.output().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let pair = |line: &str| line.split_once(' ').map(|(name, site)| (name.into(), site.into()));
        let sites = output.status.success().then(|| lines.lines().map(|line| pair(line).unwrap()).collect());
        (sites, String::from_utf8(output.stderr).unwrap())
    }

    /// A cell as nextpnr writes it.
    fn cell(name: &str, kind: &str, site: &str, pins: &[(&str, usize)]) -> String {
        let pins: Vec<String> =
            pins.iter().map(|(port, net)| format!("            \"{port}\": [ {net} ]")).collect();
        format!(
            "        \"{name}\": {{\n          \"hide_name\": 0,\n          \"type\": \"{kind}\",\n          \"parameters\": {{\n          }},\n          \
             \"attributes\": {{\n            \"NEXTPNR_BEL\": \"{site}\"\n          }},\n          \"port_directions\": {{\n          }},\n          \
             \"connections\": {{\n{}\n          }}\n        }}",
            pins.join(",\n")
        )
    }

    fn design(cells: &[String]) -> String {
        format!(
            "{{\n  \"modules\": {{\n    \"top\": {{\n      \"settings\": {{\n        \"seed\": \"1\"\n      }},\n      \"cells\": {{\n{}\n      }},\n      \
             \"netnames\": {{\n        \"wire\": {{\n          \"bits\": [ 2 ]\n        }}\n      }}\n    }}\n  }}\n}}\n",
            cells.join(",\n")
        )
    }

    /// A flip-flop above each of a row's sites from the left, each with a wire to a block RAM; these stand in the opposite order, all on one clock.
    fn opposite(memories: usize) -> String {
        let column = |i: usize| nextpnr::MEMORY_COLUMNS[i / 4] as usize + 2 * (i % 4);
        let cells = (0..memories).flat_map(|i| {
            let (far, to) =
                (format!("X{}/Y22/EBR{}", column(memories - 1 - i), (memories - 1 - i) % 4), i + 2);
            let near = format!("X{}/Y21/SLICEA.FF0", column(i));
            [
                cell(&format!("flop{i}"), "TRELLIS_FF", &near, &[("Q", to), ("CLK", 1)]),
                cell(&format!("a.memory{i}"), "DP16KD", &far, &[("DIA0", to), ("DIB0", to), ("CLKA", 1)]),
            ]
        });
        design(&cells.collect::<Vec<_>>())
    }

    #[test]
    fn block_rams_go_to_their_flops_no_two_to_one_site() {
        let (sites, said) = sites("opposite", &opposite(40));
        let sites = sites.unwrap();
        assert_eq!(sites.values().collect::<BTreeSet<_>>().len(), 40);
        // The wires of each end beside its flip-flop, and were on average twenty columns of sites away.
        let numbers: Vec<i32> =
            said.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
        assert!(numbers[0] >= 1_000 && numbers[1] * 20 <= numbers[0] * 2, "{said}");
        assert!(said.starts_with("wires of block RAMs: "), "{said}");
    }

    #[test]
    fn sites_of_the_lower_rows_stay_free_while_the_others_are_enough() {
        let rows = |memories: usize| {
            let cells: Vec<String> = (0..memories)
                .map(|i| cell(&format!("m{i}"), "DP16KD", "X4/Y22/EBR0", &[("DIA0", i + 2)]))
                .collect();
            let sites = sites(&format!("rows{memories}"), &design(&cells)).0?;
            let mut rows: BTreeMap<String, usize> = BTreeMap::new();
            for site in sites.into_values().collect::<BTreeSet<_>>() {
                *rows.entry(site.split('/').nth(1).unwrap().into()).or_default() += 1;
            }
            Some(rows.into_values().collect::<Vec<_>>())
        };
        for (memories, most) in [(163, [52, 46, 38, 38]), (180, [52, 49, 45, 45])] {
            let rows = rows(memories).unwrap();
            assert_eq!(rows.iter().sum::<usize>(), memories);
            assert!(rows.iter().zip(most).all(|(row, most)| *row <= most), "{rows:?}");
        }
        assert_eq!(rows(208), Some(vec![52; 4]));
        assert_eq!(rows(209), None);
    }

    #[test]
    fn a_design_without_block_rams_has_no_sites() {
        let flop = cell("flop", "TRELLIS_FF", "X4/Y21/SLICEA.FF0", &[("Q", 2)]);
        assert_eq!(sites("none", &design(&[flop])), (Some(BTreeMap::new()), String::new()));
    }
}
