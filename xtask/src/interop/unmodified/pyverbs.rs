// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of pyverbs, the Python binding of rdma-core, which Debian's package ships: a process for each module, by their own runner.
//!
//! The table of `docs/src/verbs.md` says how many pass, are skipped and fail, and names those that fail with the reason. A run has to come out as the table
//! says, so that the table is right.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{bail, ensure, Context as _, Result};

use crate::workspace;

/// Modules, and whether they are quick.
const MODULES: [(&str, bool); 21] = [
    ("test_addr", true),
    ("test_atomic", true),
    ("test_cq", false),
    ("test_cq_events", true),
    ("test_cqex", true),
    ("test_cuda_dmabuf", false),
    ("test_device", true),
    ("test_flow", false),
    ("test_fork", false),
    ("test_mr", true),
    ("test_odp", false),
    ("test_parent_domain", true),
    ("test_pd", true),
    ("test_qp", true),
    ("test_qpex", true),
    ("test_rdmacm", false),
    ("test_relaxed_ordering", false),
    ("test_rss_traffic", false),
    ("test_shared_pd", false),
    ("test_tag_matching", false),
    (VENDORS, false),
];

/// Modules of other vendors' devices, all in one process.
const VENDORS: &str = "test_efa_srd test_efadv test_mlx5_cq test_mlx5_crypto test_mlx5_cuda_umem test_mlx5_dc test_mlx5_devx \
    test_mlx5_dm_ops test_mlx5_dma_memcpy test_mlx5_dr test_mlx5_flow test_mlx5_huge_page test_mlx5_lag_affinity test_mlx5_mkey \
    test_mlx5_pp test_mlx5_query_port test_mlx5_raw_wqe test_mlx5_rdmacm test_mlx5_sched test_mlx5_timestamp test_mlx5_uar \
    test_mlx5_udp_sport test_mlx5_var test_mlx5_vfio";

/// What the row of these is called.
const VENDORS_ROW: &str = "test_mlx5_*";

/// A set of modules that are run together, its name, and whether it is quick.
pub struct Module {
    /// Words for the runner.
    pub modules: &'static str,
    /// Its row in the table.
    pub row: &'static str,
    /// One of the few.
    pub quick: bool,
}

/// All modules.
pub fn modules() -> impl Iterator<Item = Module> {
    MODULES.into_iter().map(|(modules, quick)| {
        let row = if modules == VENDORS { VENDORS_ROW } else { modules };
        Module { modules, row, quick }
    })
}

/// What came of a module's tests.
#[derive(Debug, PartialEq, Eq)]
struct Came {
    passed: u32,
    skipped: u32,
    /// Names of those that failed.
    failed: Vec<String>,
}

/// Compares what the runner said on its standard error with the table.
///
/// # Errors
/// The counts are others, a test fails that the table does not name, or the runner did not come to its end.
pub fn check(row: &str, said: &str) -> Result<()> {
    let path = workspace::root().join("docs/src/verbs.md");
    let page = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    compare(row, &table(&page)?, &came(said)?)
}

/// A row of the table: counts of passed, skipped and failed, and the notes.
type Row<'a> = ([u32; 3], &'a str);

/// A row of the table, if a line is one: its first cell is a module in backquotes, and its next ones are numbers.
fn row(line: &str) -> Option<(&str, Row<'_>)> {
    let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
    let module = cells.first()?.strip_prefix('`')?.strip_suffix('`')?;
    let count = |index: usize| cells.get(index)?.parse::<u32>().ok();
    Some((module, ([count(1)?, count(2)?, count(3)?], cells.get(4)?)))
}

/// The table of a page.
fn table(page: &str) -> Result<BTreeMap<&str, Row<'_>>> {
    let rows: BTreeMap<&str, Row<'_>> = page.lines().filter_map(row).collect();
    ensure!(!rows.is_empty(), "docs/src/verbs.md has no table of the tests of pyverbs");
    Ok(rows)
}

fn compare(row: &str, table: &BTreeMap<&str, Row<'_>>, came: &Came) -> Result<()> {
    let (counts, notes) = table.get(row).with_context(|| format!("docs/src/verbs.md has no row `{row}`"))?;
    let failed = came.failed.len() as u32;
    let found = [came.passed, came.skipped, failed];
    ensure!(
        found == *counts,
        "passed, skipped and failed are {found:?}, and {counts:?} in docs/src/verbs.md; failed: {}",
        came.failed.join(", ")
    );
    let unnamed = came.failed.iter().find(|name| !notes.contains(&format!("`{name}`")));
    unnamed.map_or(Ok(()), |name| bail!("{name} fails, and docs/src/verbs.md does not say why"))
}

/// What the runner says at its end.
fn came(said: &str) -> Result<Came> {
    let mut lines = said.lines().rev();
    let verdict = lines.find(|line| line.starts_with("OK") || line.starts_with("FAILED"));
    let verdict = verdict.context("the runner of the tests did not come to its end")?;
    let ran = lines.find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse::<u32>().ok());
    let ran = ran.context("the runner of the tests says of no tests that they ran")?;
    let count = |what: &str| -> u32 {
        let after = verdict.split_once(&format!("{what}=")).map_or("", |(_, rest)| rest);
        after.split(|c: char| !c.is_ascii_digit()).next().and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let name = |line: &str| -> Option<String> {
        let rest = line.strip_prefix("ERROR: ").or_else(|| line.strip_prefix("FAIL: "))?;
        Some(rest.split(' ').next()?.to_string())
    };
    let failed: Vec<String> = said.lines().filter_map(name).collect();
    let (skipped, counted) = (count("skipped"), count("failures") + count("errors"));
    ensure!(
        counted == failed.len() as u32,
        "the runner counts {counted} failures, and names {}",
        failed.join(", ")
    );
    let passed = ran.checked_sub(skipped + counted).context("the runner's counts do not fit")?;
    Ok(Came { passed, skipped, failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
test_create_cq (tests.test_cq.CQAPITest.test_create_cq) ... ferrowire[1]: this process has a card
ok
test_resize_cq (tests.test_cq.CQTest.test_resize_cq)
Test resize CQ ... ERROR

======================================================================
ERROR: test_resize_cq (tests.test_cq.CQTest.test_resize_cq)
----------------------------------------------------------------------
Ran 4 tests in 0.296s

FAILED (errors=1, skipped=2)
ferrowire[1]: event: LAST_WQE of 0x5
";

    #[test]
    fn the_runners_last_lines_say_what_came() {
        let failed = vec!["test_resize_cq".to_string()];
        assert_eq!(came(SAID).unwrap(), Came { passed: 1, skipped: 2, failed });
        let good = came("Ran 20 tests in 0.1s\n\nOK\n").unwrap();
        assert_eq!(good, Came { passed: 20, skipped: 0, failed: Vec::new() });
        assert!(came("Traceback\nImportError: no\n").is_err());
        assert!(came(&SAID.replace("errors=1", "errors=2")).is_err());
    }

    #[test]
    fn a_failure_that_the_table_does_not_name_is_one() {
        let page = "| module | passed | skipped | failed | notes |\n|---|---|---|---|---|\n| `test_cq` | 1 | 2 | 1 | `test_resize_cq`: why |\n";
        let rows = table(page).unwrap();
        assert_eq!(rows["test_cq"].0, [1, 2, 1]);
        compare("test_cq", &rows, &came(SAID).unwrap()).unwrap();
        assert!(compare("test_qp", &rows, &came(SAID).unwrap()).is_err());
        for other in [page.replace("| 1 | 2 | 1 |", "| 2 | 2 | 0 |"), page.replace("resize", "create")] {
            assert!(compare("test_cq", &table(&other).unwrap(), &came(SAID).unwrap()).is_err());
        }
    }

    #[test]
    fn the_page_has_a_row_for_each_module() {
        let path = workspace::root().join("docs/src/verbs.md");
        let page = fs::read_to_string(path).unwrap();
        let rows = table(&page).unwrap();
        for module in modules() {
            let (counts, _) = rows.get(module.row).unwrap_or_else(|| panic!("no row `{}`", module.row));
            assert!(counts.iter().sum::<u32>() > 0, "{}", module.row);
        }
    }
}
