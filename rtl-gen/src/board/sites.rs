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

    /// The column of one of the first row's sites, counted from the left, and its name.
    fn site(i: usize) -> (usize, String) {
        let column = nextpnr::MEMORY_COLUMNS[i / 4] as usize + 2 * (i % 4);
        (column, format!("X{column}/Y22/EBR{}", i % 4))
    }

    /// A flip-flop above each of a row's sites from the left, each with a wire to a block RAM; these stand in the opposite order, all on one clock.
    fn opposite(memories: usize) -> String {
        let cells = (0..memories).flat_map(|i| {
            let (far, to) = (site(memories - 1 - i).1, i + 2);
            let near = format!("X{}/Y21/SLICEA.FF0", site(i).0);
            [
                cell(&format!("flop{i}"), "TRELLIS_FF", &near, &[("Q", to), ("CLK", 1)]),
                cell(&format!("a.memory{i}"), "DP16KD", &far, &[("DIA0", to), ("DIB0", to), ("CLKA", 1)]),
            ]
        });
        design(&cells.collect::<Vec<_>>())
    }

    /// The two lengths that it tells: before and behind.
    fn lengths(said: &str) -> [usize; 2] {
        let numbers = said.split(' ').filter_map(|word| word.parse().ok()).collect::<Vec<usize>>();
        numbers.try_into().unwrap_or_else(|_| panic!("{said}"))
    }

    #[test]
    fn block_rams_go_to_their_flops_no_two_to_one_site() {
        let (sites, said) = sites("opposite", &opposite(40));
        assert_eq!(sites.unwrap().values().collect::<BTreeSet<_>>().len(), 40);
        // The wires of each end beside its flip-flop, and were on average twenty columns of sites away.
        let [before, behind] = lengths(&said);
        assert!(before >= 1_000 && behind * 20 <= before * 2, "{said}");
        assert!(said.starts_with("wires of block RAMs: "), "{said}");
    }

    /// A net: the tiles of its flip-flops, and its block RAMs.
    type Net = (Vec<(usize, usize)>, Vec<String>);

    /// Half the perimeters of the boxes round all pins of the nets, with block RAMs on these sites.
    fn perimeters(nets: &[Net], sites: &BTreeMap<String, String>) -> usize {
        let at = |site: &String| {
            let mut numbers = site.split('/').map(|part| part[1..].parse().unwrap_or(0));
            (numbers.next().unwrap(), numbers.next().unwrap())
        };
        let of = |(flops, memories): &Net| {
            let all: Vec<(usize, usize)> =
                flops.iter().copied().chain(memories.iter().map(|name| at(&sites[name]))).collect();
            let span = |axis: fn(&(usize, usize)) -> usize| {
                all.iter().map(axis).max().unwrap() - all.iter().map(axis).min().unwrap()
            };
            span(|at| at.0) + span(|at| at.1)
        };
        nets.iter().map(of).sum()
    }

    #[test]
    fn the_lengths_that_it_tells_are_those_of_the_nets_on_these_sites() {
        let name = |i: usize| format!(r"with\\escape.{i}");
        let from: BTreeMap<String, String> = (0..48).map(|i| (name(i), site(i).1)).collect();
        // Of one net several block RAMs, in part without anything else; and all with flip-flops somewhere.
        let mut nets: Vec<Net> = vec![];
        for i in 0..48 {
            nets.push((vec![(3 + 37 * i % 120, 2 + 17 * i % 90)], vec![name(i), name((i * 7 + 5) % 48)]));
            nets.push((vec![], [1, 9, 30].map(|step| name((i + step) % 48)).into()));
            nets.push((vec![(60, 2 + i), (70, 90 - i)], vec![name(i)]));
        }
        // A net to so many pins is of no account, nor is a clock or a net with one pin.
        let many = nextpnr::ANNEALING.most_pins;
        let mut flops: Vec<String> = (0..many)
            .map(|i| {
                cell(
                    &format!("many{i}"),
                    "TRELLIS_FF",
                    &format!("X{}/Y3/SLICEA.FF0", 2 + i % 120),
                    &[("Q", 2)],
                )
            })
            .collect();
        let mut pins: BTreeMap<String, Vec<(String, usize)>> = BTreeMap::new();
        for (number, (flop, memories)) in nets.iter().enumerate() {
            for (i, (x, y)) in flop.iter().enumerate() {
                let site = format!("X{x}/Y{y}/SLICEB.FF1");
                flops.push(cell(&format!("flop{number}_{i}"), "TRELLIS_FF", &site, &[("DI", number + 10)]));
            }
            for name in memories {
                let pins = pins.entry(name.clone()).or_default();
                // Twice to the same block RAM, too.
                pins.push((format!("DIA{}", pins.len()), number + 10));
                pins.push((format!("DIA{}", pins.len()), number + 10));
            }
        }
        for (i, (name, site)) in from.iter().enumerate() {
            let mut pins: Vec<(&str, usize)> =
                pins[name].iter().map(|(port, net)| (port.as_str(), *net)).collect();
            pins.extend([("ADA5", 2), ("CLKA", 3), ("CLKB", 3), ("DOB0", 1_000 + i)]);
            flops.push(cell(name, "DP16KD", site, &pins));
        }
        flops.push(cell("clocked", "TRELLIS_FF", "X2/Y90/SLICEA.FF0", &[("CLK", 3)]));
        let (sites, said) = sites("lengths", &design(&flops));
        let sites = sites.unwrap();
        assert_eq!(lengths(&said), [perimeters(&nets, &from), perimeters(&nets, &sites)]);
        assert_ne!(from, sites);
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
    fn a_block_ram_that_stands_nowhere_is_refused() {
        let nowhere = opposite(8).replace("X4/Y22/EBR0", "nowhere");
        let (sites, said) = sites("nowhere", &nowhere);
        assert_eq!((sites, said.as_str()), (None, "block RAM a.memory7 has no site\n"));
    }

    #[test]
    fn a_design_without_block_rams_has_no_sites() {
        let flop = cell("flop", "TRELLIS_FF", "X4/Y21/SLICEA.FF0", &[("Q", 2)]);
        assert_eq!(sites("none", &design(&[flop])), (Some(BTreeMap::new()), String::new()));
    }
}
