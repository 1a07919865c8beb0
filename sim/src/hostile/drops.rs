// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is on its way to the card: for what reasons it must or may be dropped, and what queue pairs may make of it if it is not.

use ferrowire::DropReason;
use ferrowire_spec::qp_state::RAW_QPN;
use ferrowire_spec::wire::checksum::Addresses;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::syndrome::Syndrome;
use ferrowire_spec::wire::{Frame, Ip, Opcode};
use ferrowire_spec::Psn;

use super::forge::{ip_between, mac_number, CARD, FOE, FRIEND};
use super::judge::Judge;
use super::life::Life;
use crate::soak::raw::is_raw;

impl Judge {
    /// A frame of the attacker is on its way to the card.
    pub fn sent(&mut self, bytes: &[u8]) {
        // No card under attack has selective retransmission.
        let frame = match Frame::parse_standard(bytes) {
            Ok(frame) => frame,
            Err(error) => {
                let reason = error.drop_reason().unwrap_or(DropReason::Malformed);
                if self.sent_raw(bytes) {
                    return;
                }
                let headers = [
                    DropReason::NoQp,
                    DropReason::Service,
                    DropReason::QpState,
                    DropReason::Pkey,
                    DropReason::SourceAddress,
                    DropReason::Destination,
                ];
                // Where the queue pair is in order, these two may be an invalid request.
                match reason {
                    DropReason::Malformed | DropReason::ReservedOpcode => {
                        self.may(&headers);
                        self.may(&[reason]);
                    }
                    _ => self.must(&[reason]),
                }
                return;
            }
        };
        let Ok(opcode) = frame.opcode() else { return };
        if congested(&frame.ip) {
            self.lives.values_mut().filter(|l| l.qpn == frame.bth.destqp).for_each(|l| l.marked = true);
            self.marked.extend(frame.ext.deth.map(|deth| deth.srcqp));
        }
        let reasons = self.reasons(&frame, opcode);
        match &reasons[..] {
            [] => {}
            _ if self.shut.contains(&frame.bth.destqp)
                && opcode.is_request()
                && self.of_qpn(frame.bth.destqp).is_none() =>
            {
                self.recent.entry(frame.bth.destqp).or_default().push(bytes.to_vec());
                return self.may(&reasons);
            }
            // Congestion control may be absent, and what it ignores has counters of its own.
            _ if opcode == Opcode::Cnp => return self.may(&reasons),
            _ => return self.must(&reasons),
        }
        if opcode.is_request() {
            self.recent.entry(frame.bth.destqp).or_default().push(bytes.to_vec());
        }
        if opcode.is_response() {
            *self.recent_answers.entry(frame.bth.destqp).or_default() += 1;
        }
        let ground = &self.ground;
        let life = self.lives.values_mut().find(|life| life.qpn == frame.bth.destqp && !life.over);
        let Some(life) = life else { return };
        life.take(ground, &frame, opcode);
        if let Some(aeth) = frame.ext.aeth {
            // What it acknowledges: all up to it, or all before it.
            let psn = Psn::new(frame.bth.psn);
            let psn = match Syndrome::decode(aeth.syndrome) {
                Syndrome::Ack { .. } => psn,
                _ => psn.previous(),
            };
            life.heard.push(psn.get());
        } else if opcode.is_response() {
            // A READ response in the middle has none, and acknowledges what is before it all the same (IBTA 9.7.5.1.3).
            life.heard.push(Psn::new(frame.bth.psn).previous().get());
        }
    }

    /// A frame that is no RoCE packet: whether the raw Ethernet queue pair may have it.
    fn sent_raw(&mut self, bytes: &[u8]) -> bool {
        let passes = bytes.first_chunk().is_some_and(|to| self.raw_filter.passes(*to, CARD));
        if !passes || !is_raw(bytes) {
            return false;
        }
        self.may(&[DropReason::NoQp, DropReason::QpState, DropReason::NoReceive, DropReason::TooLong]);
        self.recent.entry(RAW_QPN).or_default().push(bytes.to_vec());
        let life = self.lives.values_mut().find(|life| life.qpn == RAW_QPN && !life.over);
        life.into_iter().for_each(|life| life.take_raw(bytes));
        true
    }

    /// A life begins, with packets on their way that were meant for the one before.
    pub fn begin(&mut self, mut life: Life) {
        for bytes in self.recent.get(&life.qpn).into_iter().flatten() {
            if life.service == Service::Raw {
                life.take_raw(bytes);
                continue;
            }
            if let Ok((frame, Ok(opcode))) = Frame::parse(bytes).map(|frame| (frame, frame.opcode())) {
                life.take(&self.ground, &frame, opcode);
                // Or it is one of the peer that the queue pair had when it came: the card may count it as such when its turn comes.
                let (most, reason) = (&mut self.allowed.most, DropReason::SourceAddress);
                *most.entry(reason).or_default() += 1;
            }
        }
        // Neither are answers.
        let answers = self.recent_answers.get(&life.qpn).copied().unwrap_or(0);
        *self.allowed.most.entry(DropReason::SourceAddress).or_default() += answers;
        self.lives.insert(life.own, life);
    }

    /// Why a packet must be dropped whatever its queue pair does; nothing, when it may be taken.
    fn reasons(&self, frame: &Frame<'_>, opcode: Opcode) -> Vec<DropReason> {
        let qpn = frame.bth.destqp;
        let mut reasons = Vec::new();
        if frame.eth.dst != mac_number(CARD) {
            reasons.push(DropReason::Destination);
        }
        let (peer, v6, service) = match (self.innocents.contains(&qpn), self.of_qpn(qpn)) {
            (true, _) => (FRIEND, self.innocents_v6, Service::Rc),
            (_, Some(life)) => (FOE, life.v6, life.service),
            (false, None) if self.shut.contains(&qpn) => {
                // What it would be dropped for first depends on what it was given before.
                let more = [DropReason::QpState, DropReason::Service, DropReason::Pkey];
                reasons.extend(more.into_iter().chain([DropReason::SourceAddress, DropReason::Destination]));
                return reasons;
            }
            (false, None) => {
                // It may be there, and do nothing.
                reasons.extend([DropReason::NoQp, DropReason::QpState]);
                let v6 = matches!(frame.ip, Ip::V6(_));
                if !same_destination(ip_between(FOE, CARD, v6).addresses(), frame.ip.addresses())
                    || frame.vlan.is_some_and(|tag| tag.vid != 0)
                {
                    reasons.push(DropReason::Destination);
                }
                return reasons;
            }
        };
        if opcode.service() != service && opcode.service() != Service::Cnp {
            reasons.push(DropReason::Service);
        }
        let qkey = self.of_qpn(qpn).map(|life| life.qkey);
        if frame.ext.deth.is_some_and(|deth| service == Service::Ud && Some(deth.qkey) != qkey) {
            reasons.push(DropReason::Qkey);
        }
        if frame.bth.pkey != 0xffff && frame.bth.pkey != 0x7fff {
            reasons.push(DropReason::Pkey);
        }
        let want = ip_between(peer, CARD, v6).addresses();
        let to_card = [false, true].map(|v6| ip_between(peer, CARD, v6).addresses());
        if service == Service::Ud {
            // Datagrams come from anybody.
            if !to_card.iter().any(|want| same_destination(*want, frame.ip.addresses()))
                || frame.vlan.is_some_and(|tag| tag.vid != 0)
            {
                reasons.push(DropReason::Destination);
            }
        } else if !same_source(want, frame.ip.addresses()) {
            reasons.extend([DropReason::SourceAddress, DropReason::Destination]);
        } else if frame.ip.addresses() != want || frame.vlan.is_some_and(|tag| tag.vid != 0) {
            reasons.push(DropReason::Destination);
        }
        // A queue pair that is taken down and up again, or in error, may take nothing at all; and an answer that nobody waits for is
        // a ghost, whatever else it is.
        if !reasons.is_empty() {
            reasons.push(DropReason::QpState);
        }
        if !reasons.is_empty() && opcode.is_response() {
            reasons.push(DropReason::GhostAck);
        }
        reasons.sort_unstable();
        reasons.dedup();
        reasons
    }

    fn may(&mut self, reasons: &[DropReason]) {
        for reason in reasons {
            *self.allowed.most.entry(*reason).or_default() += 1;
        }
    }

    fn must(&mut self, reasons: &[DropReason]) {
        self.may(reasons);
        self.allowed.sure += 1;
        if let [reason] = reasons {
            *self.allowed.least.entry(*reason).or_default() += 1;
        }
    }
}

/// Whether a switch has marked it.
fn congested(ip: &Ip) -> bool {
    match ip {
        Ip::V4(header) => header.ecn == 3,
        Ip::V6(header) => header.ecn == 3,
    }
}

fn same_destination(one: Addresses, other: Addresses) -> bool {
    match (one, other) {
        (Addresses::V4(_, one), Addresses::V4(_, other)) => one == other,
        (Addresses::V6(_, one), Addresses::V6(_, other)) => one == other,
        _ => false,
    }
}

fn same_source(one: Addresses, other: Addresses) -> bool {
    match (one, other) {
        (Addresses::V4(one, _), Addresses::V4(other, _)) => one == other,
        (Addresses::V6(one, _), Addresses::V6(other, _)) => one == other,
        _ => false,
    }
}
