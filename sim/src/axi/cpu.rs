// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Cpu`]: the manager of a card's registers on AXI4-Lite with data of 64 bits, and the judge of the card as its subordinate.
//!
//! ```text
//!  accesses --> order --+--> aw, w   each at a moment of its own
//!                       \--> ar
//!               b, r --> judge --> answers
//! ```
//!
//! Accesses are in order as those of a CPU to device memory are: a read begins when all writes before it are answered, and a write when all reads
//! are; between those of one kind several may be under way. Addresses and data of four bytes are in the half of the bus that is theirs.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::channel::{Response, Watch};
use super::AxiSettings;
use crate::card::CsrAccess;

/// What the CPU drives in a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiteOffers {
    /// AWADDR, where AWVALID is high.
    pub aw: Option<u32>,
    /// WDATA and WSTRB.
    pub w: Option<(u64, u8)>,
    /// ARADDR.
    pub ar: Option<u32>,
    /// BREADY.
    pub b_ready: bool,
    /// RREADY.
    pub r_ready: bool,
}

/// What the card drives in a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiteSubordinate {
    /// AWREADY.
    pub aw_ready: bool,
    /// WREADY.
    pub w_ready: bool,
    /// ARREADY.
    pub ar_ready: bool,
    /// BRESP, where BVALID is high.
    pub b: Option<Response>,
    /// RDATA and RRESP.
    pub r: Option<(u64, Response)>,
}

/// Something for a channel, and from when on it is on offer.
type Timed<T> = VecDeque<(u64, T)>;

/// The manager.
pub struct Cpu {
    pub(super) settings: AxiSettings,
    next: u64,
    random: SmallRng,
    queue: VecDeque<CsrAccess>,
    aw: Timed<u32>,
    w: Timed<(u64, u8)>,
    ar: Timed<u32>,
    /// Reads whose data has not come.
    reads: VecDeque<CsrAccess>,
    /// Writes that have begun, addresses and data that were taken, responses.
    writes: u64,
    addresses: u64,
    data: u64,
    responses: u64,
    /// Reads whose address was taken, and that were answered.
    asked: u64,
    answered: u64,
    taken_at: u64,
    errors: u64,
    offers: LiteOffers,
    b: Watch<Response>,
    r: Watch<(u64, Response)>,
    answers: VecDeque<u64>,
    violations: u64,
    violation: Option<String>,
}

impl Cpu {
    /// One that has nothing to do.
    pub fn new(settings: AxiSettings) -> Self {
        settings.check();
        Self {
            next: 0,
            random: SmallRng::seed_from_u64(settings.seed ^ 0x0c70),
            queue: VecDeque::new(),
            aw: VecDeque::new(),
            w: VecDeque::new(),
            ar: VecDeque::new(),
            reads: VecDeque::new(),
            writes: 0,
            addresses: 0,
            data: 0,
            responses: 0,
            asked: 0,
            answered: 0,
            taken_at: 0,
            errors: 0,
            offers: LiteOffers::default(),
            b: Watch::default(),
            r: Watch::default(),
            answers: VecDeque::new(),
            violations: 0,
            violation: None,
            settings,
        }
    }

    /// Queues an access.
    pub fn access(&mut self, access: CsrAccess) {
        self.queue.push_back(access);
    }

    /// The next answer to a read.
    pub fn answer(&mut self) -> Option<u64> {
        self.answers.pop_front()
    }

    /// Writes of which the card has taken both address and data.
    pub fn writes_taken(&self) -> u64 {
        self.addresses.min(self.data)
    }

    /// The cycle in which it took the last of these.
    pub fn writes_taken_at(&self) -> u64 {
        self.taken_at
    }

    /// Accesses that were answered with an error.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// How the card broke a rule, the first time: cycle, channel, rule and clause.
    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// How often it did.
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// Whether nothing waits and nothing is under way.
    pub fn idle(&self) -> bool {
        self.queue.is_empty() && self.reads.is_empty() && self.writes == self.responses
    }

    fn stalls(&mut self) -> bool {
        self.settings.cpu_stall > 0.0 && self.random.random_bool(self.settings.cpu_stall)
    }

    fn later(&mut self, cycle: u64) -> u64 {
        cycle
            + if self.settings.cpu_skew > 0 {
                self.random.random_range(0..=self.settings.cpu_skew)
            } else {
                0
            }
    }

    /// Begins accesses that may.
    fn begin(&mut self, cycle: u64) {
        while let Some(access) = self.queue.front().copied() {
            let writes = self.writes - self.responses;
            let (others, own) = match access.write {
                true => (self.reads.len() as u64, writes),
                false => (writes, self.reads.len() as u64),
            };
            if others > 0 || own >= self.settings.cpu_most.into() {
                return;
            }
            self.queue.pop_front();
            let address = if self.settings.cpu_aligned { access.address & !7 } else { access.address };
            if access.write {
                self.writes += 1;
                let high = !access.wide && access.address & 4 != 0;
                let data = if high { access.data << 32 } else { access.data };
                // Lanes without a strobe may hold anything.
                let (strobe, other) = match (access.wide, high) {
                    (true, _) => (0xff, 0),
                    (false, false) => (0x0f, !0 << 32),
                    (false, true) => (0xf0, !0 >> 32),
                };
                let noise = self.random.random::<u64>() & other;
                let address = (self.later(cycle), address);
                let data = (self.later(cycle), ((data & !other) | noise, strobe));
                self.aw.push_back(address);
                self.w.push_back(data);
            } else {
                self.reads.push_back(access);
                self.ar.push_back((cycle, address));
            }
        }
    }

    /// What it drives in this cycle.
    pub fn offers(&mut self, cycle: u64) -> LiteOffers {
        if cycle < self.next {
            return self.offers;
        }
        self.next = cycle + 1;
        self.begin(cycle);
        let stalls: [bool; 5] = std::array::from_fn(|_| self.stalls());
        fn due<T: Copy>(queue: &Timed<T>, cycle: u64) -> Option<T> {
            queue.front().filter(|(from, _)| *from <= cycle).map(|(_, what)| *what)
        }
        // What is on offer stays until it is taken.
        let offers = &mut self.offers;
        if offers.aw.is_none() && !stalls[0] {
            offers.aw = due(&self.aw, cycle);
        }
        if offers.w.is_none() && !stalls[1] {
            offers.w = due(&self.w, cycle);
        }
        if offers.ar.is_none() && !stalls[2] {
            offers.ar = due(&self.ar, cycle);
        }
        (offers.b_ready, offers.r_ready) = (!stalls[3], !stalls[4]);
        self.offers
    }

    /// What the card drives in this cycle: takes what passes, and judges it.
    pub fn take(&mut self, cycle: u64, card: &LiteSubordinate) {
        let offers = self.offers(cycle);
        // What was taken before this cycle is what a response may be for: the card's outputs come from registers.
        let complete = self.addresses.min(self.data);
        let asked = self.asked;
        if card.b.is_some() && self.responses >= complete {
            let (addresses, data) = (self.addresses, self.data);
            let why = format!(
                "BVALID for write {} when {addresses} addresses and {data} data were taken (AXI4 A3.3.1)",
                self.responses + 1
            );
            self.break_rule(cycle, "B", why);
        }
        if card.r.is_some() && self.answered >= asked {
            let why = format!("RVALID for read {} when {asked} were taken (AXI4 A3.3.1)", self.answered + 1);
            self.break_rule(cycle, "R", why);
        }
        for (channel, response) in [("B", card.b), ("R", card.r.map(|(_, response)| response))] {
            if response == Some(Response::ExclusiveOkay) {
                self.break_rule(cycle, channel, "EXOKAY is not of AXI4-Lite (AXI4 B1.1.1)".into());
            }
        }
        let b = self.b.cycle(card.b, offers.b_ready);
        let r = self.r.cycle(card.r, offers.r_ready);
        match b {
            Ok(Some(response)) if self.responses < complete => {
                self.responses += 1;
                self.errors += u64::from(response != Response::Okay);
            }
            Ok(_) => {}
            Err(why) => self.break_rule(cycle, "B", why),
        }
        match r {
            Ok(Some((data, response))) if self.answered < asked => self.answered(data, response),
            Ok(_) => {}
            Err(why) => self.break_rule(cycle, "R", why),
        }
        if offers.aw.is_some() && card.aw_ready {
            self.offers.aw = None;
            self.aw.pop_front();
            self.addresses += 1;
        }
        if offers.w.is_some() && card.w_ready {
            self.offers.w = None;
            self.w.pop_front();
            self.data += 1;
        }
        if self.addresses.min(self.data) > complete {
            self.taken_at = cycle;
        }
        if offers.ar.is_some() && card.ar_ready {
            self.offers.ar = None;
            self.ar.pop_front();
            self.asked += 1;
        }
    }

    /// A read is answered.
    fn answered(&mut self, data: u64, response: Response) {
        let Some(access) = self.reads.pop_front() else { return };
        self.answered += 1;
        // What is not answered as it should be shows as a card that is gone.
        let data = if response == Response::Okay { data } else { u64::MAX };
        self.errors += u64::from(response != Response::Okay);
        self.answers.push_back(match (access.wide, access.address & 4) {
            (true, _) => data,
            (false, 0) => data & 0xffff_ffff,
            (false, _) => data >> 32,
        });
    }

    /// Judges a card during its reset (AXI4 A3.1.2).
    pub fn in_reset(&mut self, card: &LiteSubordinate) {
        for (channel, valid) in [("B", card.b.is_some()), ("R", card.r.is_some())] {
            if valid {
                self.break_rule(0, channel, "VALID is high during reset (AXI4 A3.1.2)".into());
            }
        }
    }

    /// A card's output that depends on inputs of the same cycle (AXI4 A3.1.1).
    pub fn depends(&mut self, cycle: u64) {
        self.break_rule(cycle, "card", "an output depends on inputs of the same cycle (AXI4 A3.1.1)".into());
    }

    fn break_rule(&mut self, cycle: u64, channel: &str, why: String) {
        self.violations += 1;
        self.violation.get_or_insert_with(|| format!("cycle {cycle}, s_axil {channel}: {why}"));
    }
}
