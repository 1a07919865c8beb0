// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged frames, answers that nobody asked for, and packets to or from others.

use super::*;
use crate::soak::raw::frames;

impl Attacker {
    /// A good packet, damaged.
    pub(super) fn mangled(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, REMOTE_WRITE)?;
        let mark = sight.marks[at].clone();
        let len = self.rng.random_range(0..=mark.mtu.min(100));
        let key = self.key(sight, &mark, REMOTE_WRITE, len as u64)?;
        let va = key.va.wrapping_add(self.rng.random_range(0..=key.len - len as u64));
        let opcode = if self.rng.random_bool(0.5) { Opcode::RcWriteOnly } else { Opcode::RcReadRequest };
        let payload = if opcode == Opcode::RcWriteOnly { self.bytes(len) } else { Vec::new() };
        let ext = self.ext(opcode, va, key.key, len as u32);
        let bytes = self.packet(&mark, opcode, mark.expect, &ext, &payload).frame();
        let which = self.rng.random_range(0..DAMAGES);
        let (what, bytes) = damage(&mut self.rng, which, bytes);
        sight.marks[at].doomed |= what == "bits of the transport";
        Some(Shot { bytes, what })
    }

    /// What is no RoCE packet, or was meant to be one: for the raw Ethernet queue pair, or for nobody.
    pub(super) fn raw(&mut self) -> Option<Shot> {
        let number = self.rng.random();
        let mut bytes = frames::random(&mut self.rng, [FOE, CARD], number);
        match self.rng.random_range(0..30) {
            0 => bytes.truncate(self.rng.random_range(1..14)),
            1 => bytes.resize(self.rng.random_range(4000..9000), 0x5a),
            _ => {}
        }
        // Cut or made longer, it may have become one.
        Frame::parse(&bytes).is_err().then_some(Shot { bytes, what: "raw frames" })
    }

    /// What only who has asked should get.
    pub(super) fn answers(&mut self, sight: &mut Sight) -> Option<Shot> {
        use Opcode as O;
        let at = self.pick(sight, 0)?;
        let mark = sight.marks[at].clone();
        let rng = &mut self.rng;
        let near = mark.asked.unwrap_or(mark.expect);
        let psn = match rng.random_range(0..10) {
            0..=5 => near.wrapping_sub(rng.random_range(0..4)),
            6 | 7 => near.wrapping_add(rng.random_range(1..9)),
            8 => near.wrapping_add(1 << 23),
            _ => rng.random(),
        };
        let (opcode, syndrome, what) = match rng.random_range(0..16) {
            0..=2 => {
                let timer =
                    if rng.random_bool(0.01) { rng.random_range(0..32) } else { rng.random_range(1..=8) };
                sight.marks[at].stalled |= timer == 0 || timer > 8;
                (O::RcAcknowledge, Syndrome::Rnr { timer }.encode(), "RNR NAK")
            }
            3 | 4 => (O::RcAcknowledge, 0x60, "sequence NAK"),
            // These end its requests.
            5 if rng.random_bool(0.2) => (O::RcAcknowledge, rng.random_range(0x61..0x64), "NAK"),
            6 => (O::RcAcknowledge, rng.random_range(0x64..0x80), "reserved NAK"),
            7 => (O::RcAcknowledge, rng.random_range(0x80..=0xff), "reserved syndrome"),
            8 => (O::RcAcknowledge, 0x40 | rng.random_range(0..32), "reserved syndrome"),
            9 => (O::RcReadResponseOnly, 0x1f, "READ response"),
            10 => (O::RcReadResponseFirst, 0x1f, "READ response"),
            11 => (O::RcReadResponseMiddle, 0x1f, "READ response"),
            12 => (O::RcReadResponseLast, 0x1f, "READ response"),
            13 => (O::RcAtomicAcknowledge, 0x1f, "atomic acknowledgement"),
            14 => (O::Cnp, 0, "CNP"),
            _ => (O::RcAcknowledge, rng.random_range(0..32), "ACK"),
        };
        let mut ext = self.ext(opcode, 0, 0, 0);
        if let Some(aeth) = &mut ext.aeth {
            aeth.syndrome = syndrome;
        }
        let len = match opcode {
            O::RcReadResponseFirst | O::RcReadResponseMiddle => mark.mtu,
            O::RcReadResponseOnly | O::RcReadResponseLast => self.rng.random_range(1..=mark.mtu),
            _ => 0,
        };
        let payload = self.bytes(len);
        let mut packet = self.packet(&mark, opcode, psn, &ext, &payload);
        packet.bth.becn = opcode == O::Cnp;
        Some(Shot { bytes: packet.frame(), what })
    }

    /// To a queue pair that there is not.
    pub(super) fn absent(&mut self, sight: &mut Sight) -> Option<Shot> {
        let v6 = self.rng.random_bool(0.3);
        let qpn = if self.rng.random_bool(0.5) {
            sight.qps + self.rng.random_range(0..4)
        } else {
            self.rng.random_range(sight.qps..1 << 24)
        };
        let mark = Mark::new(qpn, 0, v6, 256, 0, 0, 0);
        let len = self.length(256).min(256);
        let codes = [
            Opcode::RcWriteOnly,
            Opcode::RcAcknowledge,
            Opcode::RcReadRequest,
            Opcode::Cnp,
            Opcode::UdSendOnly,
        ];
        let opcode = *codes.choose(&mut self.rng)?;
        let payload = if opcode.carries_payload() { self.bytes(len) } else { Vec::new() };
        let (psn, va, rkey) = (self.rng.random(), self.rng.random(), self.rng.random());
        let ext = self.ext(opcode, va, rkey, payload.len() as u32);
        let bytes = self.packet(&mark, opcode, psn, &ext, &payload).frame();
        Some(Shot { bytes, what: "flood to nobody" })
    }

    /// To an innocent queue pair, or in the name of its peer to another: with the wrong address, and all else of the best.
    pub(super) fn spoof(&mut self, sight: &mut Sight) -> Option<Shot> {
        let (innocent, v6) = (*sight.innocents.choose(&mut self.rng)?, sight.v6);
        let at = self.pick(sight, 0)?;
        let to_innocent = self.rng.random_bool(0.7);
        let mark = if to_innocent {
            Mark::new(innocent.qpn, 0, v6, 1024, 0, 0xe, 1)
        } else {
            sight.marks[at].clone()
        };
        let opcodes = [
            Opcode::RcWriteOnly,
            Opcode::RcSendOnly,
            Opcode::RcAcknowledge,
            Opcode::RcReadRequest,
            Opcode::RcFetchAdd,
            Opcode::Cnp,
            Opcode::RcReadResponseOnly,
        ];
        let opcode = *opcodes.choose(&mut self.rng)?;
        let len = self.rng.random_range(1..64usize);
        let key = *sight.keys.choose(&mut self.rng)?;
        let payload = if opcode.carries_payload() { self.bytes(len) } else { Vec::new() };
        let mut ext = self.ext(opcode, key.va, key.key, len as u32);
        if let Some(aeth) = ext.aeth.as_mut().filter(|_| self.rng.random()) {
            aeth.syndrome = [0x1f, 0x60, 0x62, 0x21][self.rng.random_range(0..4)];
        }
        let psn = match (to_innocent, opcode.is_response()) {
            (false, _) => mark.expect,
            (true, true) => innocent.asked,
            (true, false) => innocent.expect,
        };
        let near = if self.rng.random() { 0 } else { self.rng.random_range(0..4) };
        let psn = psn.wrapping_add(near).wrapping_sub(self.rng.random_range(0..=near));
        let mut packet = self.packet(&mark, opcode, psn, &ext, &payload);
        if !to_innocent {
            packet.ip = ip_between(FRIEND, CARD, mark.v6);
            packet.eth.src = mac_number(FRIEND);
        } else {
            match self.rng.random_range(0..5) {
                // In its peer's name, but of another partition, to another address, or of another service.
                0 => {
                    packet.ip = ip_between(FRIEND, CARD, v6);
                    packet.bth.pkey = self.rng.random_range(0..0x7fff);
                }
                1 => packet.ip = ip_between(FRIEND, FOE, v6),
                2 => {
                    packet.ip = ip_between(FRIEND, CARD, v6);
                    packet.eth.dst = mac_number(FOE);
                }
                3 => {
                    packet.ip = ip_between(FRIEND, CARD, !v6);
                }
                _ => {}
            }
        }
        Some(Shot { bytes: packet.frame(), what: "spoofed source" })
    }

    /// RNR NAKs for what a queue pair waits for, one after the other, with short pauses.
    pub(super) fn not_ready(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, 0)?;
        let mark = sight.marks[at].clone();
        let near = mark.asked.unwrap_or(mark.expect);
        for _ in 0..self.rng.random_range(1..=12) {
            let psn = near.wrapping_sub(self.rng.random_range(0..2));
            let timer = self.rng.random_range(1..=4);
            let aeth =
                Some(Aeth { syndrome: Syndrome::Rnr { timer }.encode(), msn: self.rng.random_range(0..99) });
            let ext = Extensions { aeth, ..Extensions::default() };
            let bytes = self.packet(&mark, Opcode::RcAcknowledge, psn, &ext, &[]).frame();
            self.pending.push_back(Shot { bytes, what: "flood of RNR NAKs" });
        }
        self.pending.pop_front()
    }

    /// CNPs, to queue pairs of all services, to the innocents too.
    pub(super) fn notify(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.rng.random_range(0..sight.marks.len().max(1));
        let mark = sight.marks.get(at)?.clone();
        let mark = match sight.innocents.choose(&mut self.rng) {
            Some(innocent) if self.rng.random_bool(0.1) => {
                Mark::new(innocent.qpn, 0, sight.v6, 1024, 0, 0xe, 1)
            }
            _ => mark,
        };
        let ext = self.ext(Opcode::Cnp, 0, 0, 0);
        for _ in 0..self.rng.random_range(1..=12) {
            let mut packet = self.packet(&mark, Opcode::Cnp, 0, &ext, &[]);
            packet.bth.becn = self.rng.random_bool(0.95);
            self.pending.push_back(Shot { bytes: packet.frame(), what: "flood of CNPs" });
        }
        self.pending.pop_front()
    }
}
