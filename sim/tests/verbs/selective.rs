// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selective retransmission of programs in C, which do not know of it: what the environment and `ferrowire run --selective` do.

use std::path::PathBuf;

use super::{libraries, Rig};
use crate::command::process::{run_in, Said};
use crate::socket::rig::{Folder, Selective};

/// Some packets of each program are lost, although it sends few.
const LOSSES: [&str; 2] = ["--faults", "drop=0.2,seed=5"];

/// Cards whose wire is captured.
struct Captured {
    rig: Rig,
    file: PathBuf,
    _folder: Folder,
}

impl Captured {
    fn new(program: &str, case: &str, more: &[&str]) -> Self {
        let folder = Folder::new("verbs-selective");
        let file = folder.join("wire.pcapng");
        let rig = Rig::with(program, case, &[&["--capture", file.to_str().unwrap()], more].concat());
        Self { rig, file, _folder: folder }
    }

    /// `ferrowire run` with a case of the program, which takes both cards itself.
    fn run(&self, option: &[&str], case: &str) -> Said {
        let cards: Vec<String> =
            self.rig.server.sockets.iter().map(|socket| format!("sim:{}", socket.display())).collect();
        let [folder, program] = [libraries(), &self.rig.program].map(|path| path.to_str().unwrap());
        let run = ["-d", &cards[0], "run", "--verbose", "--libraries", folder];
        let program = ["--", program, case, &cards[0], &cards[1]];
        run_in(&self.rig.folder.0, &[&run, option, &program].concat()).end()
    }

    /// Ends the cards; what was on the wire.
    #[track_caller]
    fn seen(self) -> Selective {
        assert!(self.rig.server.interrupt());
        Selective::of(&self.file)
    }
}

/// A card without it is used without it, and the process that has that card says so once.
#[test]
fn processes_that_wish_selective_retransmission_connect_with_any_card() {
    const CASES: [&str; 3] = ["rc", "attributes", "endpoints"];
    for (without, processes, cases) in [
        (&[][..], 0, &CASES[..]),
        (&["--without-selective", "1"], 1, &CASES[..1]),
        (&["--without-selective", "0,1"], 2, &CASES[..1]),
    ] {
        for case in cases {
            let cards = Captured::new("connections", case, &[&LOSSES[..], without].concat());
            let (good, said) = cards.rig.start_with(case, &[("FERROWIRE_SELECTIVE", "1")]).end();
            assert!(good, "{case}: {said}");
            let lines =
                said.matches("does not have the feature `selective`; going on with go-back-N").count();
            assert_eq!(lines, processes, "{case}: {said}");
            let seen = cards.seen();
            assert_eq!(seen.again > 0, without.is_empty(), "{case} {without:?}: {seen:?}");
        }
    }
}

#[test]
fn a_program_that_is_run_with_the_option_sends_lost_packets_alone_again() {
    for option in [&[][..], &["--selective"]] {
        let cards = Captured::new("traffic", "rc", &LOSSES);
        let said = cards.run(option, "rc");
        assert_eq!(said.code, 0, "{said:?}");
        let seen = cards.seen();
        assert_eq!(seen.again > 0, !option.is_empty(), "{option:?}: {seen:?}");
    }
}

#[test]
fn a_program_is_not_started_with_the_option_if_its_card_does_not_have_the_feature() {
    let cards = Captured::new("traffic", "rc", &["--without-selective", "0"]);
    let said = cards.run(&["--selective"], "rc");
    assert_eq!((said.code, &*said.out), (1, ""), "{said:?}");
    assert!(said.err.contains("does not have the feature `selective`; leave --selective out"), "{said:?}");
}
