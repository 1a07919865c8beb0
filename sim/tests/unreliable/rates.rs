// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast messages that nobody answers leave.

use crate::tier::{here, one_of};
use ferrowire::{PathMtu, SendOpcode};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::measure::{unanswered, Load};
use ferrowire_sim::pair::{Pair, PairOptions};
use ferrowire_spec::wire::opcode::Service;

/// The budget of a 64-byte message is 4 cycles at 64 bytes a beat, whatever the latency of the host.
#[test]
fn small_messages_that_nobody_answers_leave_as_fast_as_others() {
    let model = CardModel::rnic(&RnicConfig::named("generic-64b").unwrap(), false).unwrap();
    for host_latency in [0, 250] {
        for qps in one_of(here!(), vec![1, 8]) {
            for (service, verb) in [
                (Service::Uc, SendOpcode::Send),
                (Service::Uc, SendOpcode::Write),
                (Service::Ud, SendOpcode::Send),
            ] {
                let pair =
                    Pair::new(&model, &PairOptions { host_latency, ..PairOptions::default() }).unwrap();
                let load = Load { verb, bytes: 64, mtu: PathMtu::B1024, qps, messages: 2048, shared: false };
                let cycles = unanswered(&pair, service, &load).unwrap().cycles_per_message;
                let what = format!("{service} {verb}, {qps} queue pairs, host latency {host_latency}");
                println!("{what}: {cycles:.3} cycles a message");
                assert!(cycles <= 4.0, "{what}: {cycles} cycles a message");
            }
        }
    }
}
