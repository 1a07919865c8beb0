// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory windows: used as they may be, used by others, invalidated by whoever may and may not.

use super::*;

impl Attacker {
    /// Something with a window: its peer's own, somebody else's, or one that is gone.
    pub(super) fn windows(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, 0)?;
        let mark = sight.marks[at].clone();
        let windows: Vec<Key> = sight.keys.iter().filter(|key| key.owner.is_some()).copied().collect();
        let own = windows.iter().find(|key| key.owner == Some(mark.qpn) && !key.dead).copied();
        let other = windows.choose(&mut self.rng).copied();
        let rng = &mut self.rng;
        // Its own as a rule, so that there is something to take back.
        let own = own.filter(|_| rng.random_bool(0.85));
        let key = own.or(other)?;
        if own.is_some() && rng.random_bool(0.08) {
            // The peer gives it back: from here on it is of no use.
            for key in sight.keys.iter_mut().filter(|other| other.key == key.key) {
                key.dead = true;
            }
            return self.invalidate(sight, at, key.key, "a window is given back");
        }
        let rng = &mut self.rng;
        let wrong = own.is_none() || rng.random_bool(0.06);
        if wrong && rng.random_bool(0.3) {
            // Any window, any region, any other tag.
            let any = sight.keys.choose(rng)?.key;
            let any = [key.key, any, any ^ 1, key.key ^ 1 << rng.random_range(0..8)][rng.random_range(0..4)];
            sight.marks[at].doomed = true;
            return self.invalidate(sight, at, any, "an invalidation of another's");
        }
        let opcodes = [Opcode::RcWriteOnly, Opcode::RcReadRequest, Opcode::RcFetchAdd];
        let opcode = *opcodes.choose(rng)?;
        let right = match opcode {
            Opcode::RcReadRequest => REMOTE_READ,
            Opcode::RcFetchAdd => REMOTE_ATOMIC,
            _ => REMOTE_WRITE,
        };
        if !wrong && (key.rights & right == 0 || mark.rights & right == 0) {
            return None;
        }
        let len = if opcode == Opcode::RcFetchAdd { 8 } else { rng.random_range(1..=key.len.min(64)) };
        let inside = key.va.wrapping_add(rng.random_range(0..=key.len.saturating_sub(len)));
        let (va, rkey) = match rng.random_range(0..6) {
            0 if wrong => (key.va.wrapping_sub(1), key.key),
            1 if wrong => (key.va.wrapping_add(key.len).wrapping_sub(len).wrapping_add(1), key.key),
            2 if wrong => (inside, key.key ^ 1 << rng.random_range(0..8)),
            _ => (inside, key.key),
        };
        let va = if opcode == Opcode::RcFetchAdd { va & !7 } else { va };
        if !wrong && va < key.va {
            return None;
        }
        let payload = if opcode == Opcode::RcWriteOnly { self.bytes(len as usize) } else { Vec::new() };
        let ext = self.ext(opcode, va, rkey, len as u32);
        let bytes = self.packet(&mark, opcode, mark.expect, &ext, &payload).frame();
        let mark = &mut sight.marks[at];
        match wrong {
            true => mark.doomed = true,
            false => mark.expect = Psn::new(mark.expect).next().get(),
        }
        Some(Shot { bytes, what: if wrong { "a window misused" } else { "a window used" } })
    }

    /// A SEND with invalidate, in sequence.
    fn invalidate(&mut self, sight: &mut Sight, at: usize, key: u32, what: &'static str) -> Option<Shot> {
        let mark = sight.marks[at].clone();
        let len = self.rng.random_range(0..=32);
        let payload = self.bytes(len);
        let ext = self.ext(Opcode::RcSendOnlyInv, 0, key, 0);
        let bytes = self.packet(&mark, Opcode::RcSendOnlyInv, mark.expect, &ext, &payload).frame();
        if !mark.doomed {
            sight.marks[at].expect = Psn::new(mark.expect).next().get();
        }
        Some(Shot { bytes, what })
    }
}
