// SPDX-License-Identifier: MIT OR Apache-2.0
//! The case `verbs` of the suite `wire`: every verb in both directions, with what goes wrong besides, which the pingpong tools do not show.
//!
//! The example `exercise` of ferrowire-cli has the card and knows the steps; `verbs.c`, compiled here against Debian's libibverbs, does in the guest what
//! that one tells it over TCP.

use std::path::Path;

use anyhow::Result;

use super::pair::{self, Gid, Pair, Role, Wire};
use super::{Case, Setting, Suite, Tried};
use crate::peers::Files;
use crate::workspace;

/// The case.
pub struct Verbs;

impl Case for Verbs {
    fn suite(&self) -> Suite {
        Suite::Wire
    }

    fn name(&self) -> String {
        "verbs".into()
    }

    fn quick(&self) -> bool {
        false
    }

    fn run(&self, setting: &Setting, logs: &Path) -> Result<Tried> {
        let program = logs.join("verbs");
        setting.peers.compile(&workspace::root().join("xtask/src/interop/verbs.c"), &program)?;
        let port = pair::port()?;
        let mut own = setting.program(&setting.example("ferrowire-cli", "exercise")?, logs);
        own.args(["a.sock", "--port", &port.to_string()]);
        let mut files = Files::default();
        files.copy("verbs", &program)?;
        let run = format!("/verbs rxe0 $gid 10.0.2.100 {port}");
        files.text("case.sh", &pair::script(4096, Gid::default(), &run));
        let (waits, card) = ("waiting for the guest", "10.0.0.1".into());
        let pair =
            Pair { role: Role::Client, port: Some(port), own, waits, card, files, wire: Wire::Provoked };
        Ok(pair.run(setting, logs, |_| Ok(())))
    }
}
