// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the sender reports and the peers answer.

use super::model::{Message, Report};
use super::*;
use ferrowire_spec::wire::opcode::Opcode;

impl Bench {
    pub fn push_report(&mut self, qp: usize, values: &[(&str, u128)], report: Report) {
        let all = [&[("qp", qp as u128)], values].concat();
        self.sources[SENT].push_values(&all);
        self.reports.push_back((qp, report));
    }

    /// Whether a message may be sent, as `commit` and the scheduler see it.
    pub fn may_send(&self, qp: usize) -> bool {
        let q = &self.qps[qp];
        let under_way = q.sent_index.wrapping_sub(q.told);
        let room = self.spent - self.freed - self.credited < self.room;
        q.runs && q.failures == 0 && !q.blocked && under_way < self.limit && room
    }

    /// One packet of a message that does not end with it.
    pub fn send_part(&mut self, qp: usize) {
        let q = &mut self.qps[qp];
        let psn = q.to_send;
        (q.open, q.to_send) = (true, (psn + 1) % MODULUS);
        let index = u128::from(q.sent_index);
        self.push_report(
            qp,
            &[("psn", psn.into()), ("index", index), ("fresh", 1)],
            Report::Packet(psn, true, None),
        );
    }

    /// The last packet of a message.
    pub fn send_end(&mut self, qp: usize, signaled: bool) {
        // Binds and invalidations have no packet.
        let (length, opcode) = (self.random.rng.random(), self.random.rng.random_range(0..8));
        let q = &mut self.qps[qp];
        let (psn, index) = (q.to_send, q.sent_index);
        (q.open, q.to_send, q.sent_index) = (false, (psn + 1) % MODULUS, index.wrapping_add(1));
        q.blocked = q.sent_index.wrapping_sub(q.told) == self.limit;
        self.spent += 1;
        let values = [
            ("psn", psn.into()),
            ("index", index.into()),
            ("fresh", 1),
            ("last", 1),
            ("signaled", signaled.into()),
            ("wqe_opcode", u128::from(opcode)),
            ("length", u128::from(length)),
        ];
        let message = Message { last: psn, signaled, opcode, length };
        self.push_report(qp, &values, Report::Packet(psn, true, Some(message)));
    }

    /// A bind or an invalidation: a message without a packet, done with what is before it.
    pub fn send_silent(&mut self, qp: usize, signaled: bool) {
        let opcode = self.random.rng.random_range(8..10);
        let q = &mut self.qps[qp];
        let (psn, index) = (q.to_send.wrapping_sub(1) % MODULUS, q.sent_index);
        q.sent_index = index.wrapping_add(1);
        q.blocked = q.sent_index.wrapping_sub(q.told) == self.limit;
        self.spent += 1;
        let values = [
            ("psn", psn.into()),
            ("index", index.into()),
            ("fresh", 1),
            ("last", 1),
            ("signaled", signaled.into()),
            ("wqe_opcode", u128::from(opcode)),
        ];
        let message = Message { last: psn, signaled, opcode, length: 0 };
        self.push_report(qp, &values, Report::Packet(psn, true, Some(message)));
    }

    /// A packet once more; what else its report says must not count.
    pub fn send_again(&mut self, qp: usize, psn: u32) {
        let rng = &mut self.random.rng;
        let values = [
            ("psn", psn.into()),
            ("index", u128::from(rng.random::<u16>())),
            ("last", rng.random::<bool>().into()),
            ("signaled", 1),
        ];
        self.push_report(qp, &values, Report::Packet(psn, false, None));
    }

    /// A WQE fails: the next one to be sent, or one that is sent again.
    pub fn send_failure(&mut self, qp: usize, index: u16, status: WcStatus) {
        let cause = self.random.rng.random();
        let q = &mut self.qps[qp];
        let new = index == q.sent_index;
        if new {
            (q.open, q.sent_index) = (false, index.wrapping_add(1));
        }
        (q.failures, q.quiet_until) = (q.failures + 1, u64::MAX);
        let values = [
            ("psn", q.to_send.into()),
            ("index", index.into()),
            ("last", 1),
            ("fresh", new.into()),
            ("status", u128::from(status.code())),
            ("cause", u128::from(cause)),
        ];
        self.push_report(qp, &values, Report::Failure(index, status.code(), cause));
    }

    /// So many messages of a packet each, recorded.
    pub fn send(&mut self, qp: usize, n: usize) {
        (0..n).for_each(|_| self.send_end(qp, true));
        self.taken(SENT);
        self.steps(6);
    }

    /// An answer from the QP's peer.
    pub fn answer(&mut self, qp: usize, psn: u32, syndrome: u8) {
        self.push_answer(qp, psn, syndrome, &[]);
        *self.answers.back_mut().unwrap() = Some((qp, psn, syndrome));
    }

    /// The oldest PSN, or so many behind it, is answered, and that is handled.
    pub fn answer_at(&mut self, qp: usize, ahead: u32, syndrome: u8) {
        let psn = (self.qps[qp].oldest_psn + ahead) % MODULUS;
        self.answer(qp, psn, syndrome);
        self.taken(ANSWER);
        self.steps(16);
    }

    /// One that is to be dropped.
    pub fn push_answer(&mut self, qp: usize, psn: u32, syndrome: u8, other: &[(&str, u128)]) {
        let q = &self.qps[qp % QPS];
        let mut values = vec![
            ("opcode", Opcode::RcAcknowledge.code().into()),
            ("dest_qpn", qp as u128),
            ("psn", psn.into()),
            ("syndrome", syndrome.into()),
            ("origin_from_peer", 1),
            ("origin_peer", q.peer.into()),
            ("gid", qp as u128 % 16),
            ("pkey", 0xffff),
            ("ecn", self.ecn.into()),
        ];
        for (name, value) in other {
            values.retain(|(n, _)| n != name);
            values.push((name, *value));
        }
        self.sources[ANSWER].push_values(&values);
        self.answers.push_back(None);
    }
}
