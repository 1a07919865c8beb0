// SPDX-License-Identifier: MIT OR Apache-2.0
//! soft-RoCE's own counters, which [`script`](super::pair::script) has a guest tell at its end.

use anyhow::{bail, ensure, Result};

/// Those that go up when something is sent again, on either side: by a time-out or a NAK, as seen by who asks and by who answers, and for want of a receive.
const AGAIN: [&str; 8] = [
    "completer_retry_err",
    "duplicate_request",
    "out_of_seq_request",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "send_rnr_err",
];

/// What the guest has said of a counter.
fn counter(said: &str, name: &str) -> Option<u64> {
    let told = |line: &str| line.trim().strip_prefix("counter ")?.strip_prefix(name)?.trim().parse().ok();
    said.lines().find_map(told)
}

/// Whether all of them are 0.
pub fn nothing_was_sent_again(said: &str) -> Result<()> {
    let mut counted = Vec::new();
    for name in AGAIN {
        match counter(said, name) {
            Some(0) => {}
            Some(count) => counted.push(format!("{name} {count}")),
            None => bail!("the guest does not tell soft-RoCE's counter {name}"),
        }
    }
    ensure!(
        counted.is_empty(),
        "soft-RoCE has counted, on a wire that loses nothing: {}",
        counted.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(again: u32) -> String {
        let all = AGAIN.iter().map(|name| {
            let count = if *name == "rcvd_seq_err" { again } else { 0 };
            format!("counter {name} {count}\r\n")
        });
        all.collect::<String>() + "counter sent_pkts 20\r\nguest: case ended with 0\r\n"
    }

    #[test]
    fn each_counter_is_told_and_none_has_counted() {
        assert!(nothing_was_sent_again(&said(0)).is_ok());
        let counted = nothing_was_sent_again(&said(2)).unwrap_err().to_string();
        assert!(counted.ends_with("rcvd_seq_err 2"), "{counted}");
        let missing = said(0).replace("duplicate_request", "duplicates");
        let missing = nothing_was_sent_again(&missing).unwrap_err().to_string();
        assert!(missing.ends_with("duplicate_request"), "{missing}");
        assert!(nothing_was_sent_again("").is_err());
    }
}
