// SPDX-License-Identifier: MIT OR Apache-2.0
//! What queue pairs of UC and UD may make of packets. They answer nothing, and what is wrong leaves no trace.
//!
//! - UC: FIRST and ONLY begin a message at whatever PSN; MIDDLE and LAST go on with one that has just that PSN behind it. All
//!   else is dropped, with the message that it would have been of (IBTA 9.8.2.2). Key, rights and bounds as for RC.
//! - Raw Ethernet: a frame that is no RoCE packet and passes the filter needs a receive with room for all of it.
//! - UD: a datagram needs the queue key, and a receive with room for all of it and the 40 bytes before it (9.8.3, A17.4.5.2).

use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::{ipv6, Frame, Ip, Opcode};

use super::ground::Ground;
use super::life::{Effect, Final, Life, Progress, What};

/// Largest payload of a datagram.
const DATAGRAM: usize = 4096;

impl Life {
    /// Takes a packet that has passed all checks before the service's own.
    pub(super) fn take_unanswered(&mut self, ground: &Ground, frame: &Frame<'_>, opcode: Opcode) {
        match self.service {
            Service::Uc => self.take_connected(ground, frame, opcode),
            _ => self.take_datagram(frame, opcode),
        }
    }

    /// Takes a frame that has passed the filter, whole.
    pub(super) fn take_raw(&mut self, frame: &[u8]) {
        let len = frame.len() as u64;
        self.finals.push(Final { imm: None, len, write: false, invalidated: None, source: None });
        self.effects.push(Effect { psn: 0, key: 0, void: false, what: What::Send(0, frame.to_vec()) });
    }

    fn take_connected(&mut self, ground: &Ground, frame: &Frame<'_>, opcode: Opcode) {
        let here: Vec<Progress> = match opcode.position().begins() {
            true => vec![Progress::None],
            false => self.states.iter().filter(|s| s.psn == frame.bth.psn).map(|s| s.progress).collect(),
        };
        for progress in here {
            if let Some((state, effect)) = self.execute(ground, frame, opcode, progress) {
                if state.progress != Progress::None {
                    self.states.insert(state);
                }
                self.effects.extend(effect);
            }
        }
    }

    fn take_datagram(&mut self, frame: &Frame<'_>, opcode: Opcode) {
        let Some(deth) = frame.ext.deth else { return };
        if opcode.service() != Service::Ud || deth.qkey != self.qkey || frame.payload.len() > DATAGRAM {
            return;
        }
        // An IPv4 header stands behind 20 zeros.
        let mut bytes = vec![0; ipv6::BYTES];
        let emitted = match &frame.ip {
            Ip::V4(header) => header.emit(&mut bytes[ipv6::BYTES - frame.ip.bytes()..]),
            Ip::V6(header) => header.emit(&mut bytes),
        };
        if emitted.is_err() {
            return;
        }
        bytes.extend_from_slice(frame.payload);
        let len = bytes.len() as u64;
        let (imm, source) = (frame.ext.imm.map(|h| h.imm), Some(deth.srcqp));
        self.finals.push(Final { imm, len, write: false, invalidated: None, source });
        self.effects.push(Effect { psn: frame.bth.psn, key: 0, void: false, what: What::Send(0, bytes) });
    }
}

#[cfg(test)]
mod tests {
    use ferrowire_spec::wire::{Bth, Deth, Extensions};

    use super::*;

    fn life(service: Service) -> Life {
        let mut life = Life::new(5, 9, 0, 0xe, 256, false);
        (life.service, life.qkey) = (service, 77);
        life
    }

    fn give(life: &mut Life, opcode: Opcode, psn: u32, payload: &[u8]) {
        let bth = Bth { opcode: opcode as u8, psn, ..Bth::default() };
        life.take(&Ground::default(), &Frame { bth, payload, ..Frame::default() }, opcode);
    }

    #[test]
    fn a_message_without_one_of_its_packets_is_none() {
        use Opcode as O;
        for missing in 0..4 {
            let mut life = life(Service::Uc);
            let all = [O::UcSendFirst, O::UcSendMiddle, O::UcSendLast];
            for (i, opcode) in all.into_iter().enumerate().filter(|(i, _)| *i != missing) {
                let payload = vec![i as u8; if opcode == O::UcSendLast { 9 } else { 256 }];
                give(&mut life, opcode, (0xff_ffff + i as u32) & 0xff_ffff, &payload);
            }
            assert_eq!(life.finals.len(), usize::from(missing == 3), "without {missing}");
            assert_eq!(life.effects.len(), [0, 1, 2, 3][missing]);
        }
    }

    #[test]
    fn a_message_begins_at_any_psn_and_goes_on_with_its_own_kind() {
        let mut life = life(Service::Uc);
        give(&mut life, Opcode::UcSendOnly, 1000, &[1]);
        give(&mut life, Opcode::UcSendOnly, 5, &[2]);
        give(&mut life, Opcode::UcSendFirst, 900, &[0; 256]);
        give(&mut life, Opcode::UcWriteLast, 901, &[1]);
        give(&mut life, Opcode::UcSendLast, 902, &[1]);
        assert_eq!((life.finals.len(), life.effects.len()), (2, 3));
    }

    #[test]
    fn a_datagram_needs_its_queue_key_and_brings_its_header() {
        for (qkey, taken) in [(77, true), (78, false), (0x8000_004d, false)] {
            let mut life = life(Service::Ud);
            let ext = Extensions {
                deth: Some(Deth { qkey, srcqp: 3, ..Deth::default() }),
                ..Extensions::default()
            };
            let bth = Bth { opcode: Opcode::UdSendOnly as u8, ..Bth::default() };
            let frame = Frame { bth, ext, payload: &[1, 2, 3], ..Frame::default() };
            life.take(&Ground::default(), &frame, Opcode::UdSendOnly);
            assert_eq!(life.finals.len(), usize::from(taken));
            if let Some(Effect { what: What::Send(0, bytes), .. }) = life.effects.first() {
                assert_eq!((bytes.len(), &bytes[40..], life.finals[0].source), (43, &[1, 2, 3][..], Some(3)));
            }
        }
    }
}
