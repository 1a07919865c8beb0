// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selective retransmission: verbs have no attribute for it, so the environment says whether a process wishes it.
//!
//! With `FERROWIRE_SELECTIVE=1`, which `ferrowire run --selective` sets, a queue pair of RC gets the driver's attribute when it goes from INIT to RTR:
//!
//! | the peer's queue pair | it retransmits selectively if |
//! |---|---|
//! | is that of a connection of librdmacm | both sides have agreed, by REQ and REP |
//! | is known to the program alone | the own card has the feature: the peer must be run so, too |

use std::net::IpAddr;

use ferrowire::{QpAttributes, QpState, Service};

use crate::card::Card;
use crate::log;
use crate::qp::Qp;

/// The environment variable: any text but `0`.
pub const VARIABLE: &str = "FERROWIRE_SELECTIVE";

/// Whether this process wishes it.
pub fn wanted() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Whether queue pairs of a card that is being opened ask for it. A wish that the card cannot fulfil is a line on the standard error, with the log off, too: the
/// process opens its card once.
pub fn begin(wish: bool, card: bool, name: impl std::fmt::Display) -> bool {
    if wish && !card {
        log::line(format_args!(
            "{VARIABLE}: {name} does not have the feature `selective`; going on with go-back-N"
        ));
    }
    wish && card
}

/// The attribute of a queue pair whose card and process have it or not, and whose connection of librdmacm, if there is one, has agreed or not.
fn attribute(own: bool, connection: impl FnOnce() -> Option<bool>) -> Option<bool> {
    match own {
        true => connection().unwrap_or(true).then_some(true),
        false => None,
    }
}

/// Completes the attributes with which the program takes a queue pair to a state.
pub fn complete(card: &Card, service: Service, (from, to): (QpState, QpState), new: &mut QpAttributes) {
    if (service, from, to) == (Service::Rc, QpState::Init, QpState::Rtr) {
        let peer: Option<(IpAddr, u32)> = new.av.map(|way| way.dst_ip).zip(new.dest_qpn);
        let connection = || card.cm.selective_with(peer?);
        new.selective = attribute(card.selective, connection);
    }
}

/// Whether the connection manager may agree for a queue pair of the program: RC, and either not brought up yet or brought up with the attribute. Without an object of
/// that number the program connects something else.
pub fn may_agree(card: &Card, number: u32) -> bool {
    let objects = card.objects();
    objects.qps.get(&number).is_some_and(|qp| {
        // SAFETY: it is in the table, whose lock this thread has.
        let qp: &Qp = unsafe { &**qp };
        qp.is_rc() && (qp.is_selective() || matches!(qp.shown_state(), Some(QpState::Reset | QpState::Init)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_decides_and_without_one_the_environment_and_the_card_do() {
        for (own, connection, expected) in [
            (true, None, Some(true)),
            (true, Some(true), Some(true)),
            (true, Some(false), None),
            (false, None, None),
            (false, Some(true), None),
        ] {
            assert_eq!(attribute(own, || connection), expected, "{own} {connection:?}");
        }
        assert_eq!(attribute(false, || panic!("nothing is looked up without the wish")), None);
    }

    #[test]
    fn a_card_without_the_feature_is_used_without_it() {
        for (wish, card, expected) in [(true, true, true), (true, false, false), (false, true, false)] {
            assert_eq!(begin(wish, card, "sim:a.sock"), expected);
        }
    }
}
