// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`missing`]: what a case needs that is not built yet.

use ferrowire::{Capabilities, Coded};

use super::log::Line;
use super::scenario::{Case, Role};

/// Verbs of cases that the card can ask for: when one is built, it is added here, and its cases are played and must pass.
pub const VERBS: &[&str] = &[
    "SEND",
    "SEND_WITH_IMM",
    "SEND_WITH_INV",
    "RDMA_WRITE",
    "RDMA_WRITE_WITH_IMM",
    "RDMA_READ",
    "COMPARE_AND_SWAP",
    "FETCH_AND_ADD",
];

/// What the case needs and card, driver or replay lack, for the end that the card plays; `None` when all is there. A case
/// that lacks something is never played.
pub fn missing(case: &Case, role: Role, can: &Capabilities) -> Option<String> {
    let service = match &case.service[..] {
        "RC" => can.rc,
        "UC" => can.uc,
        "UD" => can.ud,
        _ => false,
    };
    if !service {
        return Some(format!("service {}", case.service));
    }
    let verb = &case.work.verb[..];
    if !VERBS.contains(&verb) {
        return Some(format!("verb {}", case.work.verb));
    }
    if case.work.invalidate_rkey.is_some() && !can.memory_windows {
        return Some("memory windows".into());
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
        Line::PostFailed(_) => Some("a verb that refuses this work".into()),
        _ => None,
    });
    if unknown.is_some() {
        return unknown;
    }
    None
}
