// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of a connection: as they should be, forged, out of sequence, of all opcodes and lengths.

use super::*;

impl Attacker {
    /// A message as it should be, for a queue pair and from the PSN that it expects: so that there is something to disturb.
    pub(super) fn good(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, 0)?;
        let mark = sight.marks[at].clone();
        let verb = self.rng.random_range(0..5);
        let right = [REMOTE_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, 0][verb];
        if mark.rights & right != right {
            return None;
        }
        let len = if verb == 3 { 8 } else { self.length(mark.mtu) };
        let key = match right {
            0 => None,
            _ => Some(self.key(sight, &mark, right, len as u64)?),
        };
        let (va, rkey) = match key {
            Some(key) => {
                let va = key.va.wrapping_add(self.rng.random_range(0..=key.len - len as u64));
                (if verb == 3 { va & !7 } else { va }, key.key)
            }
            None => (0, 0),
        };
        if key.is_some_and(|key| va < key.va) {
            return None;
        }
        let imm = self.rng.random_bool(0.2);
        let mark = &mut sight.marks[at];
        let first = mark.expect;
        let opcode = match verb {
            2 => Opcode::RcReadRequest,
            3 if imm => Opcode::RcCompareSwap,
            3 => Opcode::RcFetchAdd,
            _ => {
                let before = mark.clone();
                let count = len.div_ceil(mark.mtu).max(1);
                mark.expect = Psn::new(first).plus(count as u32).get();
                self.message(&before, (va, rkey), len, verb < 2, imm);
                return self.pending.pop_front();
            }
        };
        let packets = if verb == 2 { len.div_ceil(mark.mtu).max(1) } else { 1 };
        mark.expect = Psn::new(first).plus(packets as u32).get();
        mark.past.push_back((opcode, first, va, rkey, len as u32));
        if mark.past.len() > 24 {
            mark.past.pop_front();
        }
        let mark = mark.clone();
        let ext = self.ext(opcode, va, rkey, len as u32);
        let bytes = self.packet(&mark, opcode, first, &ext, &[]).frame();
        Some(Shot { bytes, what: "good" })
    }

    /// Queues the packets of a WRITE or SEND.
    pub(super) fn message(
        &mut self,
        mark: &Mark,
        (va, rkey): (u64, u32),
        len: usize,
        write: bool,
        imm: bool,
    ) {
        use Opcode as O;
        let (first, count) = (mark.expect, len.div_ceil(mark.mtu).max(1));
        for i in 0..count {
            let opcode = match (write, i == 0, i + 1 == count, imm) {
                (true, true, true, false) => O::RcWriteOnly,
                (true, true, true, true) => O::RcWriteOnlyImm,
                (true, true, false, _) => O::RcWriteFirst,
                (true, false, true, false) => O::RcWriteLast,
                (true, false, true, true) => O::RcWriteLastImm,
                (true, false, false, _) => O::RcWriteMiddle,
                (false, true, true, false) => O::RcSendOnly,
                (false, true, true, true) => O::RcSendOnlyImm,
                (false, true, false, _) => O::RcSendFirst,
                (false, false, true, false) => O::RcSendLast,
                (false, false, true, true) => O::RcSendLastImm,
                (false, false, false, _) => O::RcSendMiddle,
            };
            let ext = self.ext(opcode, va, rkey, len as u32);
            let payload = self.bytes((len - i * mark.mtu).min(mark.mtu));
            let bytes = self.packet(mark, opcode, first.wrapping_add(i as u32), &ext, &payload).frame();
            self.pending.push_back(Shot { bytes, what: "good" });
        }
    }

    /// A request in sequence whose key, address or length is not granted.
    pub(super) fn keys(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, 0)?;
        let opcodes = [
            Opcode::RcWriteOnly,
            Opcode::RcWriteFirst,
            Opcode::RcReadRequest,
            Opcode::RcFetchAdd,
            Opcode::RcCompareSwap,
            Opcode::RcSendOnlyInv,
        ];
        let opcode = *opcodes.choose(&mut self.rng)?;
        let key = *sight.keys.choose(&mut self.rng)?;
        let mark = sight.marks[at].clone();
        let len = self.rng.random_range(1..=64u64).min(key.len);
        let inside = key.va.wrapping_add(self.rng.random_range(0..=key.len - len));
        let end = key.va.wrapping_add(key.len);
        let rng = &mut self.rng;
        let (va, rkey, len) = match rng.random_range(0..13) {
            0 => (inside, key.key ^ 1 << rng.random_range(0..8), len),
            1 => (inside, key.key & !0xff | rng.random_range(0..256), len),
            2 => (inside, key.key ^ 0x100 << rng.random_range(0..8), len),
            3 => (inside, rng.random(), len),
            4 => (inside, (sight.key_count + rng.random_range(0..4)) << 8 | key.key & 0xff, len),
            5 => (key.va.wrapping_sub(1), key.key, len),
            6 => (end.wrapping_sub(len).wrapping_add(1), key.key, len),
            7 => (end, key.key, len),
            8 => (u64::MAX - rng.random_range(0..len), key.key, len),
            9 => (inside, key.key, key.len + rng.random_range(1..10)),
            10 => {
                (inside, key.key, [1 << 31, (1 << 31) + 1, u32::MAX.into(), 1 << 24][rng.random_range(0..4)])
            }
            // Nothing of nowhere is granted to everybody.
            11 => (rng.random(), rng.random(), 0),
            _ => (inside, key.key, len),
        };
        let payload = match opcode {
            Opcode::RcWriteOnly => self.bytes(len.min(mark.mtu as u64) as usize),
            Opcode::RcWriteFirst => self.bytes(mark.mtu),
            Opcode::RcSendOnlyInv => self.bytes(8),
            _ => Vec::new(),
        };
        let ext = self.ext(opcode, va, rkey, len.min(u32::MAX.into()) as u32);
        let bytes = self.packet(&mark, opcode, mark.expect, &ext, &payload).frame();
        sight.marks[at].doomed = true;
        Some(Shot { bytes, what: "forged key" })
    }

    /// What would be granted, at PSNs where it is not, and what was there before, changed.
    pub(super) fn psns(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, 0)?;
        let mark = sight.marks[at].clone();
        let old = mark.past.iter().copied().collect::<Vec<_>>().choose(&mut self.rng).copied();
        if let Some((opcode, psn, va, rkey, len)) = old.filter(|_| self.rng.random_bool(0.5)) {
            // A copy, or a tail, or more than before, or something else altogether.
            let rng = &mut self.rng;
            let (psn, va, len) = match (opcode, rng.random_range(0..4)) {
                (Opcode::RcReadRequest, 0) => (psn, va, len.saturating_add(rng.random_range(1..5000))),
                (Opcode::RcReadRequest, 1) if len as usize > mark.mtu => {
                    (psn + 1, va.wrapping_add(mark.mtu as u64), len - mark.mtu as u32)
                }
                (_, 2) => (psn.wrapping_add(rng.random_range(0..3)), va, len),
                _ => (psn, va, len),
            };
            let key = if self.rng.random_bool(0.1) { rkey ^ 1 } else { rkey };
            let ext = self.ext(opcode, va, key, len);
            let bytes = self.packet(&mark, opcode, psn, &ext, &[]).frame();
            return Some(Shot { bytes, what: "duplicate READ or atomic" });
        }
        let rng = &mut self.rng;
        let psn = match rng.random_range(0..8) {
            0 => rng.random(),
            1 | 2 => mark.expect.wrapping_sub(rng.random_range(1..20)),
            3 | 4 => mark.expect.wrapping_add(rng.random_range(1..20)),
            5 => mark.expect.wrapping_add((1 << 23) - rng.random_range(0..3)),
            6 => mark.expect.wrapping_sub((1 << 23) - rng.random_range(0..3)),
            _ => mark.expect.wrapping_add(1 << 23),
        };
        let opcodes = [
            Opcode::RcWriteOnly,
            Opcode::RcSendOnly,
            Opcode::RcReadRequest,
            Opcode::RcFetchAdd,
            Opcode::RcWriteMiddle,
            Opcode::RcSendLast,
        ];
        let opcode = *opcodes.choose(&mut self.rng)?;
        let right = match opcode {
            Opcode::RcReadRequest => REMOTE_READ,
            Opcode::RcFetchAdd => REMOTE_ATOMIC,
            _ => REMOTE_WRITE,
        };
        let len = self.rng.random_range(1..=100usize);
        let key = self.key(sight, &mark, right, 108)?;
        let va = key.va.wrapping_add(self.rng.random_range(0..=key.len - 108)) & !7;
        let payload = match opcode {
            Opcode::RcWriteMiddle => self.bytes(mark.mtu),
            Opcode::RcReadRequest | Opcode::RcFetchAdd => Vec::new(),
            _ => self.bytes(len),
        };
        let ext = self.ext(opcode, va, key.key, len as u32);
        let bytes = self.packet(&mark, opcode, psn, &ext, &payload).frame();
        Some(Shot { bytes, what: "PSN" })
    }

    /// Any of the 256 opcodes, in sequence or not.
    pub(super) fn opcodes(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, 0)?;
        let mark = sight.marks[at].clone();
        let code = if self.rng.random_bool(0.4) { self.rng.random_range(0..0x18) } else { self.rng.random() };
        let key = *sight.keys.choose(&mut self.rng)?;
        let psn = if self.rng.random_bool(0.8) { mark.expect } else { self.rng.random() };
        let bth = self.bth(&mark, code, psn);
        let len = self.length(mark.mtu).min(mark.mtu);
        let packet = Packet::new(mark.v6, bth);
        let packet = match Opcode::from_code(code) {
            // A report is of selective retransmission, which these queue pairs have not agreed on.
            Some(opcode) if opcode != Opcode::RcReport => {
                let ext = self.ext(opcode, key.va, key.key, len as u32);
                let payload = match opcode.payload() {
                    ferrowire_spec::wire::opcode::PayloadRule::None => Vec::new(),
                    ferrowire_spec::wire::opcode::PayloadRule::Mtu => self.bytes(mark.mtu),
                    _ => self.bytes(len),
                };
                packet.with(&ext, &payload)
            }
            _ => {
                let body = self.bytes(len & !3);
                Packet { body, ..packet }
            }
        };
        sight.marks[at].doomed |= code < 0x20;
        Some(Shot { bytes: packet.frame(), what: "opcode" })
    }

    /// Lengths that contradict each other, in sequence.
    pub(super) fn lengths(&mut self, sight: &mut Sight) -> Option<Shot> {
        use Opcode as O;
        let at = self.pick(sight, REMOTE_WRITE)?;
        let mark = sight.marks[at].clone();
        let key = self.key(sight, &mark, REMOTE_WRITE, 256)?;
        let (mtu, rng) = (mark.mtu, &mut self.rng);
        // Opcode, bytes of payload, what the RETH says, PSN.
        let (opcode, bytes, len) = match rng.random_range(0..12) {
            0 => (O::RcWriteOnly, 100, 99),
            1 => (O::RcWriteOnly, 100, 101),
            2 => (O::RcWriteOnly, mtu + 4, mtu + 4),
            3 => (O::RcSendOnly, mtu + rng.random_range(1..64), 0),
            4 => (O::RcWriteFirst, mtu - rng.random_range(1..mtu), mtu + 9),
            5 => (O::RcWriteFirst, mtu, mtu),
            6 => (O::RcWriteFirst, mtu, rng.random_range(0..mtu)),
            7 => (O::RcSendFirst, 0, 0),
            8 => (O::RcSendMiddle, 0, 0),
            9 => (O::RcWriteMiddle, 0, 0),
            10 => (O::RcSendLast, 0, 0),
            _ => (O::RcReadRequest, rng.random_range(1..64), 64),
        };
        let spoilt = self.rng.random_bool(0.25);
        let payload = self.bytes(bytes);
        let ext = self.ext(opcode, key.va, key.key, len as u32);
        let mut packet = self.packet(&mark, opcode, mark.expect, &ext, &payload);
        if spoilt {
            // The pad says something else, or there are too many or too few bytes for it.
            match self.rng.random_range(0..3) {
                0 => packet.bth.pad = (packet.bth.pad + self.rng.random_range(1..4)) & 3,
                1 => packet
                    .body
                    .truncate(packet.body.len() - packet.body.len().min(self.rng.random_range(1..4))),
                _ => packet.body.resize(packet.body.len() + self.rng.random_range(1..8), 0x77),
            }
        }
        sight.marks[at].doomed = true;
        Some(Shot { bytes: packet.frame(), what: "length" })
    }

    /// READs and atomics, more than may be outstanding.
    pub(super) fn reads(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, REMOTE_READ)?;
        let many = self.rng.random_bool(0.05);
        if self.rng.random_bool(0.3) && !many {
            return self.psns(sight);
        }
        let mark = sight.marks[at].clone();
        let len = if self.rng.random_bool(0.1) { 3 * mark.mtu } else { self.rng.random_range(1..64) };
        let key = self.key(sight, &mark, REMOTE_READ, len as u64)?;
        let count = if many { mark.reads + 2 } else { self.rng.random_range(1..=mark.reads.clamp(1, 4)) };
        let mut psn = mark.expect;
        for _ in 0..count {
            let va = key.va.wrapping_add(self.rng.random_range(0..=key.len - len as u64));
            let ext = self.ext(Opcode::RcReadRequest, va, key.key, len as u32);
            let bytes = self.packet(&mark, Opcode::RcReadRequest, psn, &ext, &[]).frame();
            self.pending.push_back(Shot { bytes, what: "flood of READs" });
            sight.marks[at].past.push_back((Opcode::RcReadRequest, psn, va, key.key, len as u32));
            psn = Psn::new(psn).plus(len.div_ceil(mark.mtu) as u32).get();
        }
        let mark = &mut sight.marks[at];
        mark.past.truncate(24);
        mark.expect = psn;
        mark.doomed |= many;
        self.pending.pop_front()
    }

    /// The smallest packets that there are.
    pub(super) fn tiny(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, 0)?;
        let mark = sight.marks[at].clone();
        let behind = mark.expect.wrapping_sub(1);
        let (opcode, psn) = match self.rng.random_range(0..4) {
            0 => (Opcode::RcWriteOnly, mark.expect),
            1 => (Opcode::RcWriteOnly, behind),
            2 => (Opcode::RcSendOnly, behind),
            _ => (Opcode::RcAcknowledge, behind),
        };
        if psn == mark.expect && mark.rights & REMOTE_WRITE != 0 {
            sight.marks[at].expect = Psn::new(psn).next().get();
        }
        let mut ext = self.ext(opcode, 0, 0, 0);
        if let Some(aeth) = &mut ext.aeth {
            aeth.syndrome = 0x1f;
        }
        let bytes = self.packet(&mark, opcode, psn, &ext, &[]).frame();
        Some(Shot { bytes, what: "flood of tiny packets" })
    }
}
