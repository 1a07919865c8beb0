// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hands good packets to who deals with them: requests to the responder, answers to the completer, CNPs to congestion control.
//!
//! ```text
//!   headers --> which? --+--------------------------------> requests
//!                        +--------------------------------> answers
//!                        +--------------------------------> cnps
//!                        +--[fifo]------------------------> arrivals
//!                     [fifo]
//!                        v
//!   frame ------------> gate --> grh ---------------------> frames
//!                        +-----------------------------------------> questions
//!                        +--> nowhere              (frames of other answers and of CNPs)
//! ```
//!
//! Every request has its frame on `frames`, those without payload too, and so has every READ response, all in the order in
//! which they came; those of datagrams with a GRH before the payload. `arrivals` tells that order, with the atomic acknowledgements among them, which need no frame. What an opcode is follows from
//! [`Opcode`]. `dropped` and `pressed` pass through.
//!
//! **Latency:** none; **throughput:** one packet and one beat a cycle. Order is kept within each kind, and an answer
//! that is not taken holds up the requests behind it: the completer may wait with an
//! answer for what came before it to be placed, which waits for nothing that comes later, and who takes CNPs never waits. `ready` of the inputs follows that of the outputs in the same cycle; they come from FIFOs.
//!
//! **Bad input:** none comes this far: the opcode is known.

use crate::config::RnicConfig;
use crate::context::congestion::Notification;
use crate::rx::buffer::{Dropped, Received};
use crate::rx::grh::{grh, Datagram};
use crate::rx::parse::opcode_is;
use crate::rx::report::Notice;
use crate::stream::{breath, fifo, spare_fifo, Beat};
use crate::types::{is_raw, Headers, NEIGHBOUR_OPCODE};
use ferrowire_rtl::{lit, module, Bundle, Interface, Scope, Sig, Stream};
use ferrowire_spec::wire::opcode::{Operation, Service};
use ferrowire_spec::wire::Opcode;

/// Packets whose headers may be taken before their frame.
const AHEAD: u32 = 128;

/// Reports whose frames have not come by.
const NOTICES: u32 = 4;

/// Packets, sorted.
#[derive(Interface)]
pub struct Dispatched {
    /// For the responder.
    pub requests: Stream<Headers>,
    /// A frame for each of them, and for each READ response.
    pub frames: Stream<Beat>,
    /// For each request, READ response and atomic acknowledgement: whether it is an answer.
    pub arrivals: Stream<Sig>,
    /// For the completer.
    pub answers: Stream<Headers>,
    /// Congestion notifications.
    pub cnps: Stream<Notification>,
    /// Frames that ask for the port's address.
    pub questions: Stream<Beat>,
    /// Reports of selective retransmission, and their frames.
    pub reports: Option<(Stream<Notice>, Stream<Beat>)>,
    /// A RoCE packet passed all checks up to the ICRC.
    pub passed: Sig,
    /// A frame passed that is none.
    pub raw: Sig,
    /// A frame was dropped before.
    pub dropped: Dropped,
    /// How much has come that nobody has taken yet, as [`Received::pressed`].
    pub pressed: Sig,
}

/// What an opcode says of where its packet goes.
#[derive(Clone, Bundle)]
pub struct Sort {
    /// It is a request, or a frame that is not RoCE.
    request: Sig,
    /// It is a response or an acknowledgement.
    pub(crate) answer: Sig,
    /// A READ response.
    response: Sig,
    /// An atomic acknowledgement.
    atomic: Sig,
    /// It asks for the port's address.
    asks: Sig,
    /// A report of selective retransmission.
    report: Sig,
    /// It counts in a flow of a queue pair with selective retransmission.
    pub(crate) counts: Sig,
    /// It asks for memory.
    pub(crate) reads: Sig,
    /// No RoCE.
    foreign: Sig,
    datagram: Sig,
    imm: Sig,
}

/// It brings what was asked for.
fn brings(opcode: Opcode) -> bool {
    matches!(opcode.operation(), Operation::ReadResponse | Operation::AtomicAcknowledge)
}

impl Sort {
    /// Of an opcode.
    fn of(cfg: &RnicConfig, opcode: Sig) -> Self {
        let foreign = is_raw(opcode);
        let asks = opcode.eq(NEIGHBOUR_OPCODE);
        let is = |fact: fn(Opcode) -> bool| opcode_is(opcode, |o| cfg.hears(o) && fact(o));
        Sort {
            request: is(Opcode::is_request) | (foreign & !asks),
            answer: is(Opcode::is_response),
            response: is(|o| o.operation() == Operation::ReadResponse),
            atomic: is(|o| o.operation() == Operation::AtomicAcknowledge),
            asks,
            report: is(|o| o == Opcode::RcReport),
            counts: cfg
                .only(cfg.selective, is(|o| o.service() == Service::Rc && (o.is_request() || brings(o)))),
            reads: cfg.only(cfg.selective, is(|o| o == Opcode::RcReadRequest)),
            foreign,
            datagram: is(|o| o.service() == Service::Ud),
            imm: is(Opcode::has_immediate),
        }
    }
}

/// Headers, and where they go.
#[derive(Clone, Bundle)]
pub struct Sorted {
    /// What the parser found.
    pub headers: Headers,
    /// What the opcode says.
    pub sort: Sort,
}

impl Sorted {
    /// Of what the parser found: told before the headers are stored, for block RAM is slow to read.
    pub fn of(cfg: &RnicConfig, headers: &Headers) -> Self {
        let h = headers.clone();
        let headers = Headers {
            again: cfg.only(cfg.selective, h.again),
            distance: cfg.only(cfg.selective, h.distance),
            ..h
        };
        Sorted { sort: Sort::of(cfg, headers.opcode), headers }
    }
}

/// What becomes of a frame.
#[derive(Clone, Bundle)]
struct Kind {
    wanted: Sig,
    asks: Sig,
    report: Sig,
    datagram: Datagram,
}

/// Sorts packets; see the page's top.
#[module]
pub fn dispatch(m: &Scope, cfg: &RnicConfig, received: Received) -> Dispatched {
    let Received { headers, frame, dropped, pressed, .. } = received;
    let h = &headers.payload.headers;
    let sort = &headers.payload.sort;
    let (is_request, is_answer, asks, is_report) = (sort.request, sort.answer, sort.asks, sort.report);

    let room = m.wire("room", 1);
    let requests = Stream::new(m, "requests", headers.valid & is_request & room, h.clone());
    let answers = Stream::new(m, "answers", headers.valid & is_answer & room, h.clone());
    let cnp = Notification { qpn: h.dest_qpn, pkey: h.pkey, origin: h.origin.clone(), gid: h.gid };
    let is_cnp = !is_request & !is_answer & !asks & !is_report;
    let cnps = Stream::new(m, "cnps", headers.valid & is_cnp & room, cnp);
    // Without `fire`, which many wait for, and which comes late out of block RAM.
    let others = asks | is_report;
    let taken = (is_request & requests.ready) | (is_answer & answers.ready) | (is_cnp & cnps.ready) | others;
    headers.accept(room & taken);
    let passed = headers.fire() & !sort.foreign;
    let other = headers.fire() & sort.foreign;

    let datagram = Datagram::new(sort.datagram, sort.imm, h.payload_offset);
    // A report for which there is no place is dropped.
    let noticed = cfg.selective.then(|| {
        let notice = Stream::new(m, "notice", headers.fire() & is_report, Notice::new(cfg, h));
        (notice.ready, fifo(&m.label("notices"), NOTICES, notice))
    });
    let report = noticed.as_ref().map_or(lit(1, 0), |(has_place, _)| is_report & *has_place);
    let kind = Kind { wanted: is_request | sort.response, asks, report, datagram };
    let kind = Stream::new(m, "kind", headers.fire(), kind);
    let brings = sort.response | sort.atomic;
    let next = Stream::new(m, "arrival", headers.fire() & (is_request | brings), brings);
    m.drive(&room, kind.ready & next.ready);
    let kind = spare_fifo(&m.label("kind"), AHEAD, cfg.unhurried(), kind);
    let kind = breath(&m.label("next_kind"), cfg.unhurried(), kind);
    let arrivals = fifo(&m.label("arrivals"), AHEAD, next);
    let arrivals = breath(&m.label("next_arrival"), cfg.unhurried(), arrivals);
    let wanted = Stream::new(m, "wanted", frame.valid & kind.valid & kind.wanted, frame.payload.clone());
    let questions = Stream::new(m, "questions", frame.valid & kind.valid & kind.asks, frame.payload.clone());
    let frame_taken = kind.valid & (!kind.wanted | wanted.ready) & (!kind.asks | questions.ready);
    let reports = noticed.map(|(_, notices)| {
        let of_report = frame.valid & kind.valid & kind.report;
        (notices, Stream::new(m, "report", of_report, frame.payload.clone()))
    });
    let reports_taken = reports.as_ref().map_or(lit(1, 1), |(_, frames)| !kind.report | frames.ready);
    frame.accept(frame_taken & reports_taken);
    kind.accept(frame.fire() & frame.last);
    let frames = grh(m, wanted, kind.datagram.clone());
    Dispatched {
        requests,
        frames,
        arrivals,
        answers,
        cnps,
        questions,
        reports,
        passed,
        raw: other,
        dropped,
        pressed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rx::address::Addresses;
    use crate::rx::buffer::buffer;
    use crate::rx::frames::{
        captured, expected_item, expected_raw, mutated, other_frame, random_frame, random_frame_of,
        set_addresses, short_frame, verdict, with_grh, Filter,
    };
    use crate::rx::{icrc, parse::parse, peer::Peers};
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{bits, build, lit, Sim};
    use ferrowire_spec::csr::DropReason;

    /// The whole receive path.
    struct Bench {
        sim: Sim,
        filter: Filter,
        raw: usize,
        selective: bool,
        source: [Source; 1],
        /// Requests, frames, answers, arrivals, CNPs, questions, notices of reports, their frames.
        sinks: Vec<Sink>,
        drops: Vec<DropReason>,
    }

    fn bench(beat_bytes: u32, selective: bool) -> Bench {
        let cfg = RnicConfig { beat_bytes, selective, ..RnicConfig::named("generic-64b").unwrap() };
        let beat = Beat::of(beat_bytes);
        let netlist = build("top", |m| {
            let addresses = m.input_of("addresses", &Addresses::of());
            let peers = m.input_of("peers", &Peers::of(&cfg));
            let (frame, parsed, control) =
                parse(m, &cfg, addresses, peers, m.stream_in("mac", &beat), lit(1, 0));
            m.output("control", &control);
            let (frame, verdict) = icrc::check(m, &cfg, frame);
            let received = buffer(m, &cfg, frame, parsed, verdict, lit(1, 0));
            m.output("roomy", &received.roomy);
            let dispatched = dispatch(m, &cfg, received);
            m.stream_out("requests", dispatched.requests);
            m.stream_out("frames", dispatched.frames);
            m.stream_out("arrivals", dispatched.arrivals);
            m.stream_out("answers", dispatched.answers);
            m.stream_out("cnps", dispatched.cnps);
            m.stream_out("questions", dispatched.questions);
            if let Some((notices, reports)) = dispatched.reports {
                m.stream_out("notices", notices);
                m.stream_out("reports", reports);
            }
            m.output("passed", &dispatched.passed);
            m.output("raw", &m.delay("raw_now", &dispatched.raw));
            m.output("dropped", &dispatched.dropped);
            m.output("pressed", &dispatched.pressed);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        set_addresses(&mut sim);
        let headers = Headers::of();
        let mut sinks = vec![
            Sink::new("requests", &headers),
            Sink::new("frames", &beat),
            Sink::new("answers", &headers),
            Sink::new("arrivals", &bits(1)),
            Sink::new("cnps", &Notification::of()),
            Sink::new("questions", &beat),
        ];
        if selective {
            sinks.push(Sink::new("notices", &Notice::of(&cfg)));
            sinks.push(Sink::new("reports", &beat));
        }
        let (filter, source) = (Filter::default(), [Source::new("mac", &beat)]);
        Bench { sim, filter, raw: 0, selective, source, sinks, drops: Vec::new() }
    }

    impl Bench {
        fn step(&mut self, random: &mut Random, stall: f64) {
            // Pulses are looked at as the edge sees them: `step` sets the inputs first.
            step(&mut self.sim, &mut self.source, &mut self.sinks, random, stall);
            if self.sim.get("dropped_valid") == 1 {
                let code = self.sim.get("dropped_reason") as u8;
                self.drops.push(DropReason::from_code(code).expect("a reason"));
            }
            self.raw += self.sim.get("raw") as usize;
        }

        fn drain(&mut self, random: &mut Random, stall: f64) {
            let mut quiet = 0;
            let mut seen = 0;
            while self.source[0].left() > 0 || quiet < 200 {
                self.step(random, stall);
                let now = self.drops.len() + self.sinks.iter().map(|s| s.items.len()).sum::<usize>();
                quiet = if now == seen && self.source[0].left() == 0 { quiet + 1 } else { 0 };
                seen = now;
            }
        }

        /// What came out is what the specification says of these frames.
        fn check(&self, frames: &[Vec<u8>], random: &Random) {
            let (mut requests, mut answers, mut whole, mut drops, mut cnps) =
                (vec![], vec![], vec![], vec![], vec![]);
            let (mut sequence, mut questions, mut raw) = (Vec::new(), Vec::new(), 0);
            for bytes in frames {
                if self.filter.answers(bytes) {
                    questions.push(bytes.clone());
                    raw += 1;
                    continue;
                }
                if self.filter.takes(bytes) {
                    requests.push(expected_raw(bytes, false).to_vec());
                    whole.push((0, bytes.clone()));
                    sequence.push(0);
                    raw += 1;
                    continue;
                }
                match verdict(bytes).map(|f| f.opcode().expect("known")) {
                    Err(reason) => drops.push(reason),
                    Ok(opcode) if opcode.is_request() => {
                        requests.push(expected_item(bytes));
                        whole.push(with_grh(bytes));
                        sequence.push(0);
                    }
                    Ok(opcode) if opcode.is_response() => {
                        answers.push(expected_item(bytes));
                        match opcode.operation() {
                            Operation::ReadResponse => {
                                whole.push(with_grh(bytes));
                                sequence.push(1);
                            }
                            Operation::AtomicAcknowledge => sequence.push(1),
                            _ => {}
                        }
                    }
                    Ok(_) => cnps.push(expected_item(bytes)),
                }
            }
            assert_eq!(self.drops, drops, "seed {}", random.seed);
            assert_eq!(self.raw, raw, "seed {}", random.seed);
            assert!(self.sinks[5].frames() == questions, "seed {}", random.seed);
            assert_eq!(self.sinks[4].items.len(), cnps.len(), "seed {}", random.seed);
            for (got, wanted) in self.sinks[4].items.iter().zip(cnps) {
                for (field, of) in [("qpn", "dest_qpn"), ("pkey", "pkey"), ("gid", "gid")] {
                    let value =
                        wanted.iter().find(|(name, _)| *name == of).expect("a field of all packets").1;
                    assert_eq!(got[field].to_u128(), value, "seed {}: {field}", random.seed);
                }
            }
            for (sink, wanted) in [(&self.sinks[0], requests), (&self.sinks[2], answers)] {
                assert_eq!(sink.items.len(), wanted.len(), "seed {}", random.seed);
                for (n, (got, fields)) in sink.items.iter().zip(wanted).enumerate() {
                    for (field, value) in fields {
                        // They mean something in a card with selective retransmission alone.
                        let has = self.selective || !matches!(field, "again" | "distance");
                        let value = if has { value } else { 0 };
                        assert_eq!(
                            got[field].to_u128(),
                            value,
                            "seed {}: {field} of packet {n}",
                            random.seed
                        );
                    }
                }
            }
            let came = self.sinks[1].frames();
            assert_eq!(came.len(), whole.len(), "seed {}", random.seed);
            for (n, (frame, (from, wanted))) in came.iter().zip(whole).enumerate() {
                assert!(frame[from..] == wanted[from..], "seed {}: frame {n} as it came", random.seed);
            }
            let found: Vec<u64> = self.sinks[3].items.iter().map(|item| item[""].to_u64()).collect();
            assert_eq!(found, sequence, "seed {}: the order of what is placed", random.seed);
        }
    }

    #[test]
    fn captured_frames_go_where_they_belong() {
        let mut random = Random::new(1);
        let frames = captured();
        for beat_bytes in [8, 64] {
            let mut bench = bench(beat_bytes, false);
            frames.iter().for_each(|f| bench.source[0].push_frame(f));
            bench.drain(&mut random, 0.0);
            bench.check(&frames, &random);
        }
    }

    #[test]
    fn good_and_bad_frames_at_every_width_with_stalls() {
        let mut random = Random::new(2);
        for beat_bytes in [8, 16, 32, 64] {
            let mut bench = bench(beat_bytes, false);
            // The wire is slower than the consumers, for there is no room for all.
            bench.source[0].stall = Some(0.6);
            let mut frames = Vec::new();
            for _ in 0..300 {
                frames.push(match random.chance(0.5) {
                    true => random_frame(&mut random.rng),
                    false => mutated(&mut random.rng),
                });
            }
            frames.iter().for_each(|f| bench.source[0].push_frame(f));
            bench.drain(&mut random, 0.2);
            bench.check(&frames, &random);
        }
    }

    #[test]
    fn reports_of_selective_retransmission_have_their_own_way_and_others_have_theirs() {
        let mut random = Random::new(6);
        for beat_bytes in [8, 64] {
            let mut bench = bench(beat_bytes, true);
            bench.source[0].stall = Some(0.6);
            let (mut frames, mut reports) = (Vec::new(), Vec::new());
            for _ in 0..200 {
                let frame = random_frame(&mut random.rng);
                bench.source[0].push_frame(&frame);
                frames.push(frame);
                if random.chance(0.3) {
                    let report = random_frame_of(&mut random.rng, Opcode::RcReport);
                    bench.source[0].push_frame(&report);
                    reports.push(report);
                }
            }
            bench.drain(&mut random, 0.2);
            bench.check(&frames, &random);
            assert!(bench.sinks[7].frames() == reports);
            assert_eq!(bench.sinks[6].items.len(), reports.len());
        }
    }

    #[test]
    fn raw_frames_go_with_the_requests_as_they_came() {
        let mut random = Random::new(5);
        for beat_bytes in [8, 16, 32, 64] {
            let mut bench = bench(beat_bytes, false);
            bench.filter = Filter { unicast: true, broadcast: true, respond: true, ..Filter::default() };
            bench.filter.set(&mut bench.sim);
            bench.source[0].stall = Some(0.6);
            let frames: Vec<_> = (0..300)
                .map(|n| match n % 3 {
                    0 => random_frame(&mut random.rng),
                    1 => mutated(&mut random.rng),
                    _ => other_frame(&mut random.rng),
                })
                .collect();
            frames.iter().for_each(|f| bench.source[0].push_frame(f));
            bench.drain(&mut random, 0.2);
            bench.check(&frames, &random);
            assert!(bench.raw > 50);
        }
    }

    #[test]
    fn a_frame_that_ends_before_its_question_asks_nothing_whatever_came_before() {
        let mut random = Random::new(6);
        for beat_bytes in [8, 16, 32, 64] {
            let mut bench = bench(beat_bytes, false);
            bench.filter = Filter { unicast: true, respond: true, ..Filter::default() };
            bench.filter.set(&mut bench.sim);
            // An ARP request, and in the same places the beginning of another one.
            let mut request = crate::rx::frames::OWN_MAC.to_be_bytes()[2..].to_vec();
            request.extend([2, 0, 0, 0, 0, 9, 0x81, 0, 0x20, 0, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
            request.resize(60, 7);
            let frames: Vec<_> =
                (18..27).flat_map(|length| [request.clone(), request[..length].to_vec()]).collect();
            frames.iter().for_each(|f| bench.source[0].push_frame(f));
            bench.drain(&mut random, 0.0);
            bench.check(&frames, &random);
        }
    }

    #[test]
    fn after_any_garbage_the_next_good_frame_is_served() {
        let mut random = Random::new(3);
        for beat_bytes in [8, 64] {
            let mut bench = bench(beat_bytes, false);
            let mut frames = Vec::new();
            for n in 1..200 {
                frames.push(random.bytes(n));
                frames.push(random_frame_of(&mut random.rng, Opcode::RcWriteOnly));
            }
            frames.iter().for_each(|f| bench.source[0].push_frame(f));
            bench.drain(&mut random, 0.0);
            bench.check(&frames, &random);
        }
    }

    #[test]
    fn short_frames_pass_back_to_back() {
        let mut random = Random::new(4);
        for beat_bytes in [8, 16, 32, 64] {
            let mut bench = bench(beat_bytes, false);
            let frames: Vec<_> = (0..300).map(|_| short_frame(&mut random.rng)).collect();
            frames.iter().for_each(|f| bench.source[0].push_frame(f));
            bench.drain(&mut random, 0.0);
            bench.check(&frames, &random);
            let came = &bench.source[0].cycles;
            assert_eq!(came[came.len() - 1] - came[0], came.len() as u64 - 1, "the wire never waits");
        }
    }
}
