// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deadlines of a queue pair: the acknowledgement that must come, and the wait after an RNR NAK (IBTA 9.7.6.1.3, 9.7.5.2.8).

use ferrowire_spec::csr::HwCounter;
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};
use ferrowire_spec::wire::syndrome;

use super::engine::Node;
use super::qp::Qp;
use super::types::Instant;

impl Qp {
    /// A packet that asks for an answer was sent: the oldest such one sets the deadline.
    pub(super) fn expect_answer(&mut self, node: &Node, now: Instant) {
        if self.sq.deadline.is_none() {
            let wait = syndrome::ack_timeout_ns(self.timeout);
            self.sq.deadline = wait.map(|wait| now.saturating_add(node.config.by_tick(wait)));
        }
    }

    /// After progress the time runs anew, for what is still outstanding.
    pub(super) fn expect_more(&mut self, node: &Node, now: Instant) {
        if self.sq.outstanding() > 0 && self.sq.rnr_until.is_none() {
            self.expect_answer(node, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let retry = self.sq.rnr_until.or(self.sq.deadline);
        retry.into_iter().chain(self.wake).chain(self.selective_deadline()).min()
    }

    pub(super) fn handle_timeout(&mut self, node: &mut Node, now: Instant) {
        if self.wake.is_some_and(|wake| wake <= now) {
            self.wake = None;
        }
        if self.sq.rnr_until.is_some_and(|until| until <= now) {
            self.sq.rnr_until = None;
        }
        if self.sq.rnr_until.is_none() && self.sq.deadline.is_some_and(|deadline| deadline <= now) {
            node.counters.count(HwCounter::LocalAckTimeoutErr);
            self.sq.deadline = None;
            self.sq.recovering = None;
            let una = self.sq.una;
            self.retry(node, una, LocalCause::Timeout);
        }
        self.selective_timeout(node, now);
    }

    /// Goes back, if a transport retry is left; else the WQE there fails (IBTA 9.9.2.1.1). What is before it has been
    /// acknowledged.
    pub(super) fn retry(&mut self, node: &mut Node, psn: ferrowire_spec::Psn, cause: LocalCause) {
        self.sq.deadline = None;
        if self.sq.retries == 0 {
            self.retire(node);
            self.fail_oldest(node, WcStatus::RetryExcErr, cause as u8);
            return;
        }
        self.sq.retries -= 1;
        self.gives_up_repetitions();
        self.sq.go_back(psn);
    }
}
