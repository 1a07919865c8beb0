// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cases `verbs`: every verb in both directions, with what goes wrong besides, which the pingpong tools do not show. On a wire that loses frames, all of RC, and streams of UC and
//! UD of which some is lost.
//!
//! The example `exercise` of ferrowire-cli has the card and knows the steps; `verbs.c`, compiled here against Debian's libibverbs, does in the guest what
//! that one tells it over TCP.

use std::path::Path;

use anyhow::Result;

use super::own::{port, Own, Place, CARD, OWN};
use super::pair::{self, Gid, Pair, Role, Waits, Wire};
use super::{Case, Setting, Suite, Tried};
use crate::peers::Files;
use crate::workspace;

/// The case.
struct Verbs {
    wire: Wire,
}

/// One for each kind of wire.
pub fn cases() -> Vec<Box<dyn Case>> {
    let of = |wire| Box::new(Verbs { wire }) as Box<dyn Case>;
    vec![of(Wire::Provoked), of(Wire::Lossy)]
}

impl Case for Verbs {
    fn suite(&self) -> Suite {
        Suite::of(Place::Here, self.wire)
    }

    fn name(&self) -> String {
        "verbs".into()
    }

    fn quick(&self) -> bool {
        false
    }

    fn run(&self, setting: &Setting, logs: &Path) -> Result<Tried> {
        let program = logs.join("verbs");
        setting.peers()?.compile(&workspace::root().join("xtask/src/interop/verbs.c"), &program)?;
        let port = port()?;
        let mut own = setting.program(&setting.example("exercise")?, logs);
        own.args([CARD, "--port", &port.to_string()]);
        let lossy = self.wire == Wire::Lossy;
        if lossy {
            own.arg("--lossy");
        }
        let mut files = Files::default();
        files.copy("verbs", &program)?;
        let run = format!("/verbs rxe0 $gid {OWN} {port}");
        files.text("case.sh", &pair::script(4096, Gid::default(), &run));
        let (waits, card) = (Waits::Says("waiting for the guest"), "10.0.0.1".into());
        let pair = Pair {
            role: Role::Client,
            port: Some(port),
            own: Own::Here(own),
            waits,
            card,
            files,
            wire: self.wire,
            // Its time-outs are a quarter of a second.
            slow: lossy,
        };
        Ok(pair.run(setting, logs, |_| Ok(())))
    }
}
