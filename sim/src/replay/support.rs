// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`missing`]: what a case needs that is not built yet.

use ferrowire::{Capabilities, Coded};
use ferrowire_spec::wire::bth;
use ferrowire_spec::Order;

use super::log::Line;
use super::packet::Parts;
use super::scenario::{Case, Role};
use super::trace::Trace;

/// Verbs that the driver has.
const VERBS: &[&str] = &["RDMA_WRITE"];

/// What the case needs and card, driver or replay lack, for the end that the card plays; `None` when all is there. A case
/// that lacks something is never played.
///
/// When a verb is built, it is added here and in [`super::play`]; its cases then must pass.
pub fn missing(case: &Case, trace: &Trace, role: Role, can: &Capabilities) -> Option<String> {
    let service = match &case.service[..] {
        "RC" => can.rc,
        _ => false,
    };
    if !service {
        return Some(format!("service {}", case.service));
    }
    if !VERBS.contains(&&case.work.verb[..]) {
        return Some(format!("verb {}", case.work.verb));
    }
    if !case.receives.is_empty() {
        return Some("receives".into());
    }
    if case.requester.ip.is_ipv6() && !can.ipv6 {
        return Some("IPv6".into());
    }
    if case.vlan_tci.is_some() && !can.vlan {
        return Some("VLAN tags".into());
    }
    if let Coded::Known(max) = can.max_mtu {
        if case.path_mtu.code() > max.code() {
            return Some(format!("path MTU {}", case.path_mtu.bytes()));
        }
    }
    let unknown = case.log(role).iter().find_map(|line| match Line::parse(&case.name, line) {
        Line::Unknown(text) => Some(format!("a meaning for the log line `{text}`")),
        Line::Bind(_) => Some("memory windows".into()),
        Line::PostFailed(_) => Some("a verb that refuses this work".into()),
        _ => None,
    });
    if unknown.is_some() {
        return unknown;
    }
    if role == Role::Requester && sends_again(trace) {
        return Some("retransmission".into());
    }
    None
}

/// Whether the card must send a PSN twice.
fn sends_again(trace: &Trace) -> bool {
    let mut seen = std::collections::HashSet::new();
    trace.of_card().any(|frame| {
        let psn = Parts::of(&frame.bytes)
            .map(|parts| bth::PSN.get(Order::Network, &frame.bytes[parts.transport()..]));
        !seen.insert(psn)
    })
}
