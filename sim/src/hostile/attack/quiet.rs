// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams and unreliable connections: nobody answers, so what is wrong must leave no trace.

use ferrowire_spec::qp_state::GSI_QKEY;

use super::*;

/// Largest payload of a datagram.
const DATAGRAM: usize = 4096;

impl Attacker {
    /// A queue pair of a service.
    fn pick_of(&mut self, sight: &Sight, service: Service) -> Option<usize> {
        let all: Vec<usize> = (0..sight.marks.len()).filter(|i| sight.marks[*i].service == service).collect();
        all.choose(&mut self.rng).copied()
    }

    /// A datagram, with the right queue key or a forged one, of any length, from anybody, to a queue pair of any service.
    pub(super) fn datagram(&mut self, sight: &mut Sight) -> Option<Shot> {
        let service = if self.rng.random_bool(0.9) { Service::Ud } else { Service::Rc };
        let at = self.pick_of(sight, service)?;
        let mut mark = sight.marks[at].clone();
        let rng = &mut self.rng;
        // QP0 there is not, and QP1 only where somebody has made it.
        if rng.random_bool(0.06) {
            mark.qpn = rng.random_range(0..2);
        }
        let key = mark.qkey;
        let (qkey, forged) = match rng.random_range(0..12) {
            0 => (key ^ 1 << rng.random_range(0..32), true),
            1 => (0, key != 0),
            2 => (rng.random(), true),
            3 => (if key == GSI_QKEY { 0x8000_0000 } else { GSI_QKEY }, true),
            4 => (key | 0x8000_0000, key >> 31 == 0),
            5 => (key.swap_bytes(), key.swap_bytes() != key),
            _ => (key, false),
        };
        let len = match rng.random_range(0..12) {
            0 => 0,
            1 => DATAGRAM,
            2 => DATAGRAM + rng.random_range(1..=64),
            3 => rng.random_range(0..=DATAGRAM),
            4 => 1560 + rng.random_range(0..48),
            _ => rng.random_range(1..=200),
        };
        let imm = rng.random_bool(0.4);
        let opcode = if imm { Opcode::UdSendOnlyImm } else { Opcode::UdSendOnly };
        let (psn, source, v6) = (rng.random(), rng.random_range(0..1 << 24), rng.random_bool(0.4));
        let (from, far) = if rng.random_bool(0.2) { (FRIEND, true) } else { (FOE, false) };
        let pkey = if rng.random_bool(0.05) { rng.random_range(0..0x7fff) } else { 0xffff };
        let mut ext = self.ext(opcode, 0, 0, 0);
        ext.deth = Some(Deth { qkey, srcqp: source, ..Deth::default() });
        let payload = self.bytes(len);
        mark.v6 = v6;
        let mut packet = self.packet(&mark, opcode, psn, &ext, &payload);
        (packet.ip, packet.bth.pkey) = (ip_between(from, CARD, v6), pkey);
        if far {
            packet.eth.src = mac_number(from);
        }
        Some(Shot { bytes: packet.frame(), what: if forged { "forged Q_Key" } else { "datagram" } })
    }

    /// A message of an unreliable connection, or what somebody has made of it: packets are missing, come twice, in another
    /// order, of another operation, or ask for what is not granted.
    pub(super) fn unreliable(&mut self, sight: &mut Sight) -> Option<Shot> {
        use Opcode as O;
        let at = self.pick_of(sight, Service::Uc)?;
        let mark = sight.marks[at].clone();
        let write = self.rng.random();
        let count = self.rng.random_range(1..=4usize);
        let last = self.rng.random_range(if count > 1 { 1 } else { 0 }..=mark.mtu);
        let len = (count - 1) * mark.mtu + last;
        let imm = self.rng.random_bool(0.3);
        let key = match self.key(sight, &mark, REMOTE_WRITE, len as u64) {
            Some(key) if self.rng.random_bool(0.85) => key,
            _ => *sight.keys.choose(&mut self.rng)?,
        };
        let rng = &mut self.rng;
        let va = match rng.random_range(0..12) {
            0 => key.va.wrapping_sub(1),
            1 => key.va.wrapping_add(key.len).wrapping_sub(len as u64).wrapping_add(1),
            2 => rng.random(),
            _ => key.va.wrapping_add(rng.random_range(0..=key.len.saturating_sub(len as u64))),
        };
        let rkey = if rng.random_bool(0.05) { key.key ^ 1 << rng.random_range(0..16) } else { key.key };
        let told = if rng.random_bool(0.1) { rng.random_range(0..=2 * len as u32 + 1) } else { len as u32 };
        let mut psn = match rng.random_range(0..4) {
            0 => rng.random_range(0..1 << 24),
            _ => mark.expect,
        };
        let mut all = Vec::new();
        for i in 0..count {
            let opcode = match (write, i == 0, i + 1 == count, imm) {
                (true, true, true, false) => O::UcWriteOnly,
                (true, true, true, true) => O::UcWriteOnlyImm,
                (true, true, false, _) => O::UcWriteFirst,
                (true, false, true, false) => O::UcWriteLast,
                (true, false, true, true) => O::UcWriteLastImm,
                (true, false, false, _) => O::UcWriteMiddle,
                (false, true, true, false) => O::UcSendOnly,
                (false, true, true, true) => O::UcSendOnlyImm,
                (false, true, false, _) => O::UcSendFirst,
                (false, false, true, false) => O::UcSendLast,
                (false, false, true, true) => O::UcSendLastImm,
                (false, false, false, _) => O::UcSendMiddle,
            };
            let other = [O::UcSendMiddle, O::UcWriteMiddle, O::UcSendLast, O::UcWriteLast, O::UcSendFirst];
            let opcode = match self.rng.random_bool(0.04) {
                true => *other.choose(&mut self.rng)?,
                false => opcode,
            };
            let full =
                matches!(opcode, O::UcWriteFirst | O::UcWriteMiddle | O::UcSendFirst | O::UcSendMiddle);
            let bytes = if full { mark.mtu } else { last };
            let bytes =
                if self.rng.random_bool(0.03) { self.rng.random_range(0..=mark.mtu + 4) } else { bytes };
            let ext = self.ext(opcode, va, rkey, told);
            let payload = self.bytes(bytes);
            let bytes = self.packet(&mark, opcode, psn, &ext, &payload).frame();
            all.push(Shot { bytes, what: "unreliable message" });
            psn = psn.wrapping_add(1) & 0xff_ffff;
        }
        sight.marks[at].expect = psn;
        let rng = &mut self.rng;
        let some = rng.random_range(0..all.len());
        match rng.random_range(0..8) {
            0 => {
                all.remove(some);
            }
            1 => all.insert(some, all[some].clone()),
            2 => all.swap(0, some),
            3 => all.reverse(),
            _ => {}
        }
        self.pending.extend(all);
        self.pending.pop_front()
    }
}
