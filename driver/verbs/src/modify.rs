// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ibv_modify_qp`: transitions and attributes in the manner of verbs (IBTA 11.2.5.2, `ibv_modify_qp(3)`).
//!
//! Which attributes a transition needs and allows is checked as the kernel of Linux does, so that programs meet the errors that they know. The driver
//! and the card then check their own tables.

use core::ffi::c_int;
use std::net::Ipv6Addr;

use ferrowire::{AccessFlags, AddressVector, Psn, QpAttributes, QpState, Service};
use ferrowire_cards::gids;
use rustix::io::Errno;

use crate::abi::*;
use crate::card::Card;
use crate::failure::{number, Failure, Result};
use crate::lids;
use crate::qp::{state_of, takes_sends, Qp};
use crate::query::{check_port, mtu_of, PKEY};
use crate::selective;

/// Bits of a mask.
type Mask = u32;

const AV: Mask = IBV_QP_AV;
const ACCESS: Mask = IBV_QP_ACCESS_FLAGS;
const ALT: Mask = IBV_QP_ALT_PATH;
const CUR: Mask = IBV_QP_CUR_STATE;
const MIG: Mask = IBV_QP_PATH_MIG_STATE;
const PKEY_INDEX: Mask = IBV_QP_PKEY_INDEX;
const PORT: Mask = IBV_QP_PORT;
const QKEY: Mask = IBV_QP_QKEY;
const RATE: Mask = IBV_QP_RATE_LIMIT;
const RNR_TIMER: Mask = IBV_QP_MIN_RNR_TIMER;

/// What a transition needs and what it allows besides; `None`: there is no such transition.
fn masks(service: Service, from: QpState, to: QpState) -> Option<(Mask, Mask)> {
    use QpState as S;
    use Service as T;
    let connected = matches!(service, T::Rc | T::Uc);
    // Of these services RC alone has it, in several transitions.
    let timer = if service == T::Rc { RNR_TIMER } else { 0 };
    let paths = if connected { ALT | MIG } else { 0 };
    // What peers may do, or the key with which they may.
    let rights = match service {
        T::Ud => QKEY,
        T::Raw => 0,
        _ => ACCESS,
    };
    let limit = if service == T::Ud { 0 } else { RATE };
    Some(match (from, to) {
        (_, S::Reset) => (0, 0),
        (S::Reset, S::Err) => return None,
        (_, S::Err) => (0, 0),
        (S::Reset, S::Init) => match service {
            T::Raw => (PORT, 0),
            _ => (PKEY_INDEX | PORT | rights, 0),
        },
        (S::Init, S::Init) => match service {
            T::Raw => (0, PORT),
            _ => (0, PKEY_INDEX | PORT | rights),
        },
        (S::Init, S::Rtr) => match service {
            T::Rc => (
                AV | IBV_QP_PATH_MTU
                    | IBV_QP_DEST_QPN
                    | IBV_QP_RQ_PSN
                    | IBV_QP_MAX_DEST_RD_ATOMIC
                    | RNR_TIMER,
                ALT | ACCESS | PKEY_INDEX,
            ),
            T::Uc => (AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, ALT | ACCESS | PKEY_INDEX),
            T::Ud => (0, PKEY_INDEX | QKEY),
            _ => (0, 0),
        },
        (S::Rtr, S::Rts) => match service {
            T::Rc => (
                IBV_QP_TIMEOUT
                    | IBV_QP_RETRY_CNT
                    | IBV_QP_RNR_RETRY
                    | IBV_QP_SQ_PSN
                    | IBV_QP_MAX_QP_RD_ATOMIC,
                CUR | ACCESS | timer | paths | limit,
            ),
            T::Raw => (0, limit),
            _ => (IBV_QP_SQ_PSN, CUR | rights | paths | limit),
        },
        (S::Rts, S::Rts) => (0, CUR | rights | timer | paths | limit),
        (S::Rts, S::Sqd) => (0, IBV_QP_EN_SQD_ASYNC_NOTIFY),
        (S::Sqd, S::Rts) => (0, CUR | rights | timer | paths),
        (S::Sqd, S::Sqd) => match service {
            T::Rc => (
                0,
                PORT | AV
                    | IBV_QP_TIMEOUT
                    | IBV_QP_RETRY_CNT
                    | IBV_QP_RNR_RETRY
                    | IBV_QP_MAX_QP_RD_ATOMIC
                    | IBV_QP_MAX_DEST_RD_ATOMIC
                    | ACCESS
                    | PKEY_INDEX
                    | timer
                    | paths,
            ),
            T::Uc => (0, PORT | AV | ACCESS | PKEY_INDEX | paths),
            T::Ud => (0, PKEY_INDEX | QKEY),
            _ => (0, 0),
        },
        (S::Sqe, S::Rts) if service != T::Rc => (0, CUR | rights),
        _ => return None,
    })
}

/// Names of attributes, for the log.
fn names(mask: Mask) -> String {
    const NAMES: [(Mask, &str); 22] = [
        (IBV_QP_STATE, "STATE"),
        (CUR, "CUR_STATE"),
        (IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY"),
        (ACCESS, "ACCESS_FLAGS"),
        (PKEY_INDEX, "PKEY_INDEX"),
        (PORT, "PORT"),
        (QKEY, "QKEY"),
        (AV, "AV"),
        (IBV_QP_PATH_MTU, "PATH_MTU"),
        (IBV_QP_TIMEOUT, "TIMEOUT"),
        (IBV_QP_RETRY_CNT, "RETRY_CNT"),
        (IBV_QP_RNR_RETRY, "RNR_RETRY"),
        (IBV_QP_RQ_PSN, "RQ_PSN"),
        (IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"),
        (ALT, "ALT_PATH"),
        (RNR_TIMER, "MIN_RNR_TIMER"),
        (IBV_QP_SQ_PSN, "SQ_PSN"),
        (IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"),
        (MIG, "PATH_MIG_STATE"),
        (IBV_QP_CAP, "CAP"),
        (IBV_QP_DEST_QPN, "DEST_QPN"),
        (RATE, "RATE_LIMIT"),
    ];
    let known = NAMES.iter().filter(|(bit, _)| mask & bit != 0).map(|(_, name)| *name);
    let rest = NAMES.iter().fold(mask, |rest, (bit, _)| rest & !bit);
    let unknown = (rest != 0).then(|| format!("{rest:#x}"));
    known.map(String::from).chain(unknown).collect::<Vec<_>>().join(" ")
}

/// Refuses a transition, or attributes, that verbs do not have.
fn check(service: Service, from: QpState, to: QpState, mask: Mask) -> Result<()> {
    let what = || format!("from {from} to {to}");
    let Some((required, optional)) = masks(service, from, to) else {
        return Err(Failure::text(Errno::INVAL, format!("no transition {}", what())));
    };
    let missing = required & !mask;
    if missing != 0 {
        return Err(Failure::text(Errno::INVAL, format!("{} needs {}", what(), names(missing))));
    }
    let extra = mask & !(required | optional | IBV_QP_STATE);
    if extra != 0 {
        return Err(Failure::text(Errno::INVAL, format!("{} does not allow {}", what(), names(extra))));
    }
    Ok(())
}

/// The UDP source port of a connection or of datagrams: that of the flow label, or one that follows from the numbers of both ends, so that connections
/// take different paths (IBTA A17.7.2, as Linux does it).
pub fn source_port(flow_label: u32, own: u32, peer: u32) -> u16 {
    let label = match flow_label & 0xf_ffff {
        0 => {
            let mixed = u64::from(own) * u64::from(peer);
            let folded = mixed ^ mixed >> 20 ^ mixed >> 40;
            folded as u32 & 0xf_ffff
        }
        label => label,
    };
    ((label & 0x3fff) ^ (label >> 14 & 0x3f)) as u16 | 0xc000
}

/// The way that an address of verbs names.
pub fn address_vector(card: &Card, attr: &ibv_ah_attr) -> Result<AddressVector> {
    let grh = &match attr.is_global {
        0 => lids::route(&card.gids().into_iter().map(gids::as_v6).collect::<Vec<_>>(), attr.dlid)?,
        _ => attr.grh,
    };
    check_port(attr.port_num.into())?;
    let own = card.gid(grh.sgid_index.into()).ok_or_else(|| {
        let why = format!("sgid_index {}: the port has {} GIDs", grh.sgid_index, card.gids().len());
        Failure::text(Errno::INVAL, why)
    })?;
    // SAFETY: all its bytes are numbers.
    let peer = Ipv6Addr::from(unsafe { grh.dgid.raw });
    let (src_ip, dst_ip) = (own.to_canonical(), peer.to_canonical());
    if src_ip.is_ipv4() != dst_ip.is_ipv4() {
        return Err(Failure::text(
            Errno::INVAL,
            format!(
                "sgid_index {} is {src_ip}, the peer is {dst_ip}; choose a GID of one family",
                grh.sgid_index
            ),
        ));
    }
    if dst_ip.is_multicast() || dst_ip.is_unspecified() {
        return Err(Failure::text(Errno::INVAL, format!("dgid {dst_ip} is of no single station")));
    }
    let dst_mac = card.neighbours.resolve(peer)?;
    let mut way = AddressVector::new(card.mac, src_ip, dst_mac, dst_ip);
    way.traffic_class = grh.traffic_class;
    if grh.hop_limit != 0 {
        way.hop_limit = grh.hop_limit;
    }
    if dst_ip.is_ipv6() {
        way.flow_label = grh.flow_label & 0xf_ffff;
    }
    Ok(way)
}

/// The driver's form of attributes.
fn translate(
    qp: &Qp,
    card: &Card,
    service: Service,
    attr: &ibv_qp_attr,
    mask: Mask,
    to: QpState,
) -> Result<QpAttributes> {
    let given = |bit: Mask| mask & bit != 0;
    if given(PORT) {
        check_port(attr.port_num.into())?;
    }
    if given(PKEY_INDEX) && attr.pkey_index != 0 {
        return Err(Failure::text(
            Errno::INVAL,
            format!("pkey_index {}: the port has index 0", attr.pkey_index),
        ));
    }
    if given(ALT) || given(MIG) && attr.path_mig_state != IBV_MIG_MIGRATED {
        return Err(Failure::unsupported("the card has no alternate paths"));
    }
    if given(RATE) && attr.rate_limit != 0 {
        return Err(Failure::unsupported("the card has no rate limits"));
    }
    let mut new = QpAttributes::default();
    // Its transitions need nothing on the card.
    if service == Service::Raw {
        return Ok(new);
    }
    if given(PKEY_INDEX) {
        new.pkey = Some(PKEY);
    }
    if given(ACCESS) {
        // Local rights mean nothing here, and the kernel passes them over.
        let known = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        let mut rights = AccessFlags::default();
        for (bit, right) in [
            (IBV_ACCESS_REMOTE_WRITE, AccessFlags::REMOTE_WRITE),
            (IBV_ACCESS_REMOTE_READ, AccessFlags::REMOTE_READ),
            (IBV_ACCESS_REMOTE_ATOMIC, AccessFlags::REMOTE_ATOMIC),
        ] {
            if attr.qp_access_flags & known & bit != 0 {
                rights |= right;
            }
        }
        new.access = Some(rights);
    }
    if given(QKEY) {
        new.qkey = Some(attr.qkey);
    }
    if given(AV) {
        new.av = Some(address_vector(card, &attr.ah_attr)?);
        let peer = if given(IBV_QP_DEST_QPN) { attr.dest_qp_num } else { qp.attributes().dest_qp_num };
        new.sport = Some(source_port(attr.ah_attr.grh.flow_label, qp.number(), peer));
    }
    if given(IBV_QP_PATH_MTU) {
        let mtu = mtu_of(attr.path_mtu);
        new.path_mtu = Some(mtu.ok_or_else(|| {
            Failure::text(Errno::INVAL, format!("path_mtu {} is no MTU of verbs", attr.path_mtu))
        })?);
    }
    if given(IBV_QP_DEST_QPN) {
        new.dest_qpn = Some(attr.dest_qp_num);
    }
    if given(IBV_QP_RQ_PSN) {
        new.rq_psn = Some(Psn::new(attr.rq_psn));
    }
    if given(IBV_QP_SQ_PSN) {
        new.sq_psn = Some(Psn::new(attr.sq_psn));
    }
    new.timeout = given(IBV_QP_TIMEOUT).then_some(attr.timeout);
    new.retry_cnt = given(IBV_QP_RETRY_CNT).then_some(attr.retry_cnt);
    new.rnr_retry = given(IBV_QP_RNR_RETRY).then_some(attr.rnr_retry);
    new.min_rnr_timer = given(RNR_TIMER).then_some(attr.min_rnr_timer);
    new.max_rd_atomic = given(IBV_QP_MAX_QP_RD_ATOMIC).then_some(attr.max_rd_atomic);
    new.max_dest_rd_atomic = given(IBV_QP_MAX_DEST_RD_ATOMIC).then_some(attr.max_dest_rd_atomic);
    new.sqd_event = given(IBV_QP_EN_SQD_ASYNC_NOTIFY).then_some(attr.en_sqd_async_notify != 0);
    if service == Service::Ud && to == QpState::Rts && given(IBV_QP_SQ_PSN) {
        new.sport = Some(source_port(0, qp.number(), 1));
    }
    Ok(new)
}

/// Keeps what was set, for `ibv_query_qp`.
fn remember(kept: &mut ibv_qp_attr, attr: &ibv_qp_attr, mask: Mask) {
    let given = |bit: Mask| mask & bit != 0;
    macro_rules! keep {
        ($($bit:expr => $($member:ident),+;)+) => {$(
            if given($bit) {
                $(kept.$member = attr.$member;)+
            }
        )+};
    }
    keep! {
        ACCESS => qp_access_flags;
        PKEY_INDEX => pkey_index;
        PORT => port_num;
        QKEY => qkey;
        AV => ah_attr;
        IBV_QP_PATH_MTU => path_mtu;
        IBV_QP_TIMEOUT => timeout;
        IBV_QP_RETRY_CNT => retry_cnt;
        IBV_QP_RNR_RETRY => rnr_retry;
        IBV_QP_RQ_PSN => rq_psn;
        IBV_QP_SQ_PSN => sq_psn;
        IBV_QP_MAX_QP_RD_ATOMIC => max_rd_atomic;
        IBV_QP_MAX_DEST_RD_ATOMIC => max_dest_rd_atomic;
        RNR_TIMER => min_rnr_timer;
        IBV_QP_DEST_QPN => dest_qp_num;
        IBV_QP_EN_SQD_ASYNC_NOTIFY => en_sqd_async_notify;
    }
}

fn modify(qp: &Qp, attr: &ibv_qp_attr, mask: Mask) -> Result<()> {
    let card = qp.context().card()?;
    if mask & IBV_QP_CAP != 0 {
        return Err(Failure::unsupported("the card cannot change the sizes of a queue pair"));
    }
    let (service, now) = qp.with(|inner| (inner.queue.service(), inner.queue.state()));
    let state =
        |code| state_of(code).ok_or_else(|| Failure::text(Errno::INVAL, format!("state {code} is unknown")));
    let from = if mask & CUR != 0 { state(attr.cur_qp_state)? } else { now };
    let to = if mask & IBV_QP_STATE != 0 { state(attr.qp_state)? } else { from };
    check(service, from, to, mask)?;
    // Without the lock: a neighbour may be asked meanwhile, which takes time.
    let mut new = translate(qp, card, service, attr, mask, to)?;
    if mask & CUR != 0 {
        new.cur_state = Some(from);
    }
    selective::complete(card, service, (from, to), &mut new);
    Ok(apply(qp, to, &new, attr, mask)?)
}

/// Takes a queue pair to a state, and keeps what was set of `attr`, which `mask` names, for `ibv_query_qp`.
pub fn apply(
    qp: &Qp,
    to: QpState,
    new: &QpAttributes,
    attr: &ibv_qp_attr,
    mask: Mask,
) -> ferrowire::Result<()> {
    qp.with(|inner| -> ferrowire::Result<()> {
        let mut receiver = qp.receiver();
        match to {
            QpState::Reset => {
                inner.reset(&mut receiver, new)?;
                inner.builder.clear();
            }
            _ => {
                // Receives are posted meanwhile.
                drop(receiver);
                inner.queue.modify(to, new)?;
                receiver = qp.receiver();
            }
        }
        inner.ready = takes_sends(to);
        receiver.ready = to != QpState::Reset;
        Ok(())
    })?;
    let mut kept = qp.attributes();
    if to == QpState::Reset {
        *kept = ibv_qp_attr { cap: kept.cap, ..ibv_qp_attr::zeroed() };
    }
    remember(&mut kept, attr, mask);
    drop(kept);
    qp.note_selective(to, new.selective);
    qp.show_state(to);
    Ok(())
}

/// Changes attributes or the state of a queue pair.
///
/// # Safety
/// The queue pair lives, `attr` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int {
    // SAFETY: as promised.
    number("ibv_modify_qp", modify(unsafe { Qp::of(qp) }, unsafe { &*attr }, attr_mask as u32))
}

const _: functions::ibv_modify_qp = ibv_modify_qp;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_comes_up_with_the_masks_that_programs_give() {
        use QpState as S;
        let init = IBV_QP_STATE | PKEY_INDEX | PORT | ACCESS;
        let rtr = IBV_QP_STATE
            | AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | RNR_TIMER;
        let rts = IBV_QP_STATE
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_SQ_PSN
            | IBV_QP_MAX_QP_RD_ATOMIC;
        check(Service::Rc, S::Reset, S::Init, init).unwrap();
        check(Service::Rc, S::Init, S::Rtr, rtr).unwrap();
        check(Service::Rc, S::Rtr, S::Rts, rts).unwrap();
        let ud = IBV_QP_STATE | PKEY_INDEX | PORT | QKEY;
        check(Service::Ud, S::Reset, S::Init, ud).unwrap();
        check(Service::Ud, S::Init, S::Rtr, IBV_QP_STATE).unwrap();
        check(Service::Ud, S::Rtr, S::Rts, IBV_QP_STATE | IBV_QP_SQ_PSN).unwrap();
        check(Service::Raw, S::Reset, S::Init, IBV_QP_STATE | PORT).unwrap();
        let missing = check(Service::Rc, S::Init, S::Rtr, rtr & !AV).unwrap_err();
        assert!(missing.to_string().contains("needs AV"), "{missing}");
        let extra = check(Service::Uc, S::Reset, S::Init, init | QKEY).unwrap_err();
        assert!(extra.to_string().contains("does not allow QKEY"), "{extra}");
    }

    #[test]
    fn states_are_left_in_the_ways_of_the_standard() {
        use QpState as S;
        for service in [Service::Rc, Service::Uc, Service::Ud, Service::Raw] {
            for from in S::ALL {
                check(service, *from, S::Reset, IBV_QP_STATE).unwrap();
                let to_error = check(service, *from, S::Err, IBV_QP_STATE);
                assert_eq!(to_error.is_ok(), *from != S::Reset, "{service} {from}");
                let straight = check(service, *from, S::Rts, u32::MAX >> 6);
                let legal = matches!(from, S::Rtr | S::Rts | S::Sqd | S::Sqe);
                assert!(straight.is_err() || legal, "{service} {from}");
            }
            assert_eq!(check(service, S::Sqe, S::Rts, IBV_QP_STATE).is_ok(), service != Service::Rc);
            assert!(check(service, S::Reset, S::Rtr, IBV_QP_STATE).is_err());
        }
    }

    #[test]
    fn what_the_kernel_allows_the_card_has_unless_it_is_of_paths_and_rates() {
        use ferrowire::spec::qp_state::transition;
        for service in [Service::Rc, Service::Uc, Service::Ud, Service::Raw] {
            for from in QpState::ALL {
                for to in QpState::ALL {
                    let known = masks(service, *from, *to).is_some();
                    assert_eq!(known, transition(service, *from, *to).is_some(), "{service} {from} {to}");
                }
            }
        }
    }

    #[test]
    fn connections_are_spread_over_source_ports() {
        let ports: std::collections::BTreeSet<u16> = (2..66).map(|own| source_port(0, own, 3)).collect();
        assert!(ports.len() > 48, "{}", ports.len());
        assert!(ports.iter().all(|port| *port >= 0xc000));
        assert_eq!(source_port(0x12345, 2, 3), source_port(0x12345, 9, 9));
        assert_eq!(source_port(5, 2, 3), 0xc005);
    }
}
