// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs of the suite `verbs` must have printed. An exit code alone says little: perftest prints its headings before any traffic, and
//! `ibv_rc_pingpong` ends well with wrong data.

use std::fmt::Debug;

use anyhow::{bail, ensure, Context as _, Result};

use super::pyverbs;

/// What a program must have said.
#[derive(Debug)]
pub enum Expect {
    /// Each of these.
    Words(&'static [&'static str]),
    /// Both sides sent messages of this size to each other.
    Pingpong {
        /// Size of a message.
        bytes: u64,
        /// Messages each way.
        rounds: u64,
    },
    /// A line of figures for each size.
    Perftest {
        /// Bytes of a message.
        sizes: Vec<u64>,
        /// As its second column has them.
        iterations: u64,
    },
    /// A positive figure for each test.
    Qperf(Vec<&'static str>),
    /// A last line of figures, over this transport.
    Ucx {
        /// As UCX calls it.
        transport: &'static str,
        /// Iterations of the last line.
        rounds: u64,
    },
    /// A line of figures of `fi_pingpong` for each of so many sizes.
    Fabric {
        /// Iterations of each.
        rounds: u64,
    },
    /// `rping` showed the data of each round.
    Rping {
        /// Rounds.
        rounds: usize,
    },
    /// The tests of a module came out as `docs/src/verbs.md` says.
    Pyverbs(&'static str),
    /// Each rank said that all it got is right.
    Mpi {
        /// Processes.
        ranks: usize,
    },
}

impl Expect {
    /// Both sides say it.
    pub fn of_both(&self) -> bool {
        matches!(self, Expect::Pingpong { .. })
    }

    /// Compares with the standard output and the standard error.
    ///
    /// # Errors
    /// Something was not said, or is not as it should be.
    pub fn check(&self, said: &str, errors: &str) -> Result<()> {
        match self {
            Expect::Words(words) => {
                let missing = words.iter().find(|word| !said.contains(**word));
                missing.map_or(Ok(()), |word| bail!("it did not say `{word}`"))
            }
            Expect::Pingpong { bytes, rounds } => pingpong(said, *bytes, *rounds),
            Expect::Perftest { sizes, iterations } => perftest(said, sizes, *iterations),
            Expect::Qperf(tests) => qperf(said, tests),
            Expect::Ucx { transport, rounds } => ucx(said, transport, *rounds),
            Expect::Fabric { rounds } => fabric(said, *rounds),
            Expect::Rping { rounds } => {
                let shown = said.lines().filter(|line| line.trim_start().starts_with("ping data: ")).count();
                ensure!(shown == *rounds, "it shows the data of {shown} rounds, expected {rounds}");
                Ok(())
            }
            Expect::Pyverbs(module) => pyverbs::check(module, errors),
            Expect::Mpi { ranks } => mpi(said, errors, *ranks),
        }
    }
}

/// `N bytes in T seconds`, and `N iters in T seconds`.
fn pingpong(said: &str, bytes: u64, rounds: u64) -> Result<()> {
    if let Some(line) = said.lines().find(|line| line.contains("invalid data")) {
        bail!("`{}`", line.trim());
    }
    let number = |unit: &str| -> Result<u64> {
        let line = said.lines().find(|line| line.contains(unit));
        let word = line.and_then(|line| line.split_whitespace().next());
        word.and_then(|word| word.parse().ok()).with_context(|| format!("it said nothing of `{unit}`"))
    };
    let (all, iters) = (number(" bytes in ")?, number(" iters in ")?);
    // Both ways.
    let expected = 2 * bytes * rounds;
    ensure!(all == expected, "it transferred {all} bytes, expected {expected}");
    ensure!(iters == rounds, "it made {iters} iterations, expected {rounds}");
    Ok(())
}

/// The words of a line, each as a number; none if one is not.
fn numbers(line: &str) -> Option<Vec<f64>> {
    line.split_whitespace()
        .map(|word| word.parse::<f64>().ok().filter(|value| !value.is_infinite()))
        .collect()
}

/// Lines of figures after the heading: bytes, iterations, and figures of which one at least is not 0.
fn perftest(said: &str, sizes: &[u64], iterations: u64) -> Result<()> {
    let after = said.lines().skip_while(|line| !line.trim_start().starts_with("#bytes"));
    let rows = after.skip(1).filter_map(numbers).filter(|row| row.len() >= 4);
    let rows: Vec<Vec<f64>> = rows.collect();
    same("sizes", &rows.iter().map(|row| row[0] as u64).collect::<Vec<_>>(), sizes)?;
    for row in rows {
        let (made, figures) = (row[1] as u64, &row[2..]);
        ensure!(made == iterations, "{} bytes: {made} iterations, expected {iterations}", row[0]);
        // The deviation alone may be no number: perftest takes the root of a difference, which rounding can make negative.
        let strange = figures.iter().filter(|figure| figure.is_nan()).count();
        let measured = strange <= 1
            && figures.iter().all(|figure| figure.is_nan() || *figure >= 0.0)
            && figures.iter().any(|figure| *figure > 0.0);
        ensure!(measured, "{} bytes: its figures are {figures:?}", row[0]);
    }
    Ok(())
}

fn same<T: PartialEq + Debug>(what: &str, found: &[T], expected: &[T]) -> Result<()> {
    ensure!(found == expected, "it measured {what} {found:?}, expected {expected:?}");
    Ok(())
}

/// `TEST:`, and below it `NAME = FIGURE UNIT`.
fn qperf(said: &str, tests: &[&str]) -> Result<()> {
    let mut measured = Vec::new();
    let mut test = None;
    for line in said.lines() {
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.contains(' ')) {
            test = Some(name);
        } else if let (Some(name), Some((_, value))) = (test, line.split_once('=')) {
            let figure = value.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
            ensure!(figure.is_some_and(|figure| figure > 0.0), "{name}: `{}`", line.trim());
            if measured.last() != Some(&name) {
                measured.push(name);
            }
        }
    }
    same("tests", &measured, tests)
}

/// The line `Final:`, and the transport of the lane that UCX made.
fn ucx(said: &str, transport: &str, rounds: u64) -> Result<()> {
    let lane = said.lines().find(|line| line.contains("ep_cfg[")).context("UCX said nothing of a lane")?;
    ensure!(lane.contains(&format!("({transport}/")), "UCX took another way: `{}`", lane.trim());
    let last =
        said.lines().find_map(|line| line.strip_prefix("Final:")).context("there is no line `Final:`")?;
    let row = numbers(last).with_context(|| format!("`{last}` has other things than numbers"))?;
    ensure!(row.first() == Some(&(rounds as f64)), "iterations are {:?}, expected {rounds}", row.first());
    ensure!(row[1..].iter().any(|figure| *figure > 0.0), "its figures are {:?}", &row[1..]);
    Ok(())
}

/// Lines of `bytes #sent #ack ...`, of which the second column is the iterations.
fn fabric(said: &str, rounds: u64) -> Result<()> {
    let after = said.lines().skip_while(|line| !line.trim_start().starts_with("bytes"));
    let mut rows = 0;
    for line in after.skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(sent) = words.get(1).and_then(|word| word.parse::<u64>().ok()) else { continue };
        ensure!(sent == rounds, "`{}`: {sent} iterations, expected {rounds}", line.trim());
        ensure!(
            words.get(2) == Some(&format!("={rounds}").as_str()),
            "`{}`: not all was acknowledged",
            line.trim()
        );
        rows += 1;
    }
    ensure!(rows > 0, "it printed no figures");
    Ok(())
}

/// A line of each rank for each part.
fn mpi(said: &str, errors: &str, ranks: usize) -> Result<()> {
    for part in ["ping-pong", "allreduce"] {
        for rank in 0..ranks {
            let line = format!("rank {rank}: {part} right");
            ensure!(said.lines().any(|said| said.trim() == line), "it did not say `{line}`");
        }
    }
    let lanes = |text: &str| {
        text.lines().filter(|line| line.contains("ep_cfg[") && line.contains("(rc_verbs/")).count()
    };
    let lanes = lanes(said) + lanes(errors);
    ensure!(lanes >= ranks, "{lanes} of {ranks} processes made a lane over rc_verbs");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERFTEST: &str = "\
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 2          5                0.04               0.04   \t\t   0.019024
 4          5                0.00               0.00   \t\t   0.000633
---------------------------------------------------------------------------------------
";

    #[test]
    fn headings_without_figures_are_no_result() {
        let expect =
            |sizes: &[u64], iterations| perftest(PERFTEST, sizes, iterations).map_err(|e| e.to_string());
        expect(&[2, 4], 5).unwrap();
        assert!(expect(&[2, 4, 8], 5).unwrap_err().contains("sizes [2, 4]"));
        assert!(expect(&[2, 4], 6).unwrap_err().contains("5 iterations"));
        let heading = PERFTEST.lines().next().unwrap();
        assert!(perftest(heading, &[2], 5).is_err());
        let row = |figures: &str| perftest(&format!("{heading}\n 2 5 {figures}\n"), &[2], 5);
        row("966.21 546002.69 -nan 546002.69").unwrap();
        assert!(row("966.21 -nan nan 1.0").is_err() && row("966.21 -3.0").is_err());
        let nothing = format!("{heading}\n 2 5 0.00 0.00 0.000000\n");
        assert!(perftest(&nothing, &[2], 5).unwrap_err().to_string().contains("figures"));
    }

    #[test]
    fn a_pingpong_with_wrong_data_or_too_few_rounds_fails() {
        let good = "  local address: x\n819200 bytes in 0.08 seconds = 790.23 Mbit/sec\n100 iters in 0.08 seconds = 82.93 usec/iter\n";
        pingpong(good, 4096, 100).unwrap();
        assert!(pingpong(good, 4096, 200).is_err() && pingpong(good, 2048, 100).is_err());
        let wrong = format!("{good}invalid data in page 3\n");
        assert!(pingpong(&wrong, 4096, 100).unwrap_err().to_string().contains("page 3"));
        assert!(pingpong("", 1, 1).is_err());
    }

    #[test]
    fn each_test_of_qperf_has_a_figure() {
        let said = "rc_bw:\n    bw  =  2.5 MB/sec\nver_rc_fetch_add:\n    msg_rate  =  1 K/sec\n";
        qperf(said, &["rc_bw", "ver_rc_fetch_add"]).unwrap();
        assert!(qperf(said, &["rc_bw"]).is_err() && qperf("rc_bw:\nfailed\n", &["rc_bw"]).is_err());
        assert!(qperf("rc_bw:\n    bw  =  0 bytes/sec\n", &["rc_bw"]).is_err());
    }

    #[test]
    fn ucx_has_to_take_the_transport_that_was_asked_for() {
        let lane = "[1.0] [vm:1:0]  ucp_worker.c:1763 UCX  INFO    ep_cfg[0]: tag(rc_verbs/ferrowire0:1)\n";
        let last = "Final:                  1000   4158.306  4920.640  4218.906        0.00       0.00         203         237\n";
        let said = format!("{lane}{last}");
        ucx(&said, "rc_verbs", 1000).unwrap();
        assert!(ucx(&said, "ud_verbs", 1000).is_err() && ucx(&said, "rc_verbs", 10).is_err());
        assert!(ucx(lane, "rc_verbs", 1000).is_err() && ucx(last, "rc_verbs", 1000).is_err());
    }

    #[test]
    fn each_rank_has_to_have_the_right_sums() {
        let lanes = "ep_cfg[0]: tag(rc_verbs/ferrowire0:1)\n".repeat(2);
        let said = "rank 0: ping-pong right\nrank 0: allreduce right\nrank 1: ping-pong right\n";
        assert!(mpi(said, &lanes, 2).unwrap_err().to_string().contains("rank 1: allreduce"));
        let said = format!("{said}rank 1: allreduce right\n");
        mpi(&said, &lanes, 2).unwrap();
        assert!(mpi(&said, "", 2).unwrap_err().to_string().contains("rc_verbs"));
    }

    #[test]
    fn libfabric_has_to_have_acknowledged_all() {
        let said = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n64      10      =10      1.2k        0.00s    54.10       1.18       0.85\n";
        fabric(said, 10).unwrap();
        assert!(fabric(said, 11).is_err() && fabric("bytes #sent\n", 10).is_err());
        assert!(fabric(&said.replace("=10", "9"), 10).is_err());
    }
}
