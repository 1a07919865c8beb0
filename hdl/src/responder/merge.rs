// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests and answers that bring something, in the order of their frames.
//!
//! ```text
//!  arrivals: answer or request? --+
//!  runs past the walk ------------+
//!  runs of walk ------------------+--> runs --> cut
//!  runs of scatter ---------------+
//! ```
//!
//! What a peer sends to be placed comes by two ways, through the responder's checks and through the completer, and is placed
//! by one block, for its frames come from one buffer. Starts and ends of lives have no frame and pass in their place among the requests.
//!
//! A run a cycle, no latency. One way waits for the other, but for nothing behind the other's own packets. Reset: nothing is kept.

use crate::responder::cut::first_length;
use crate::responder::order::{Class, Run};
use ferrowire_rtl::{module, Interface, Scope, Sig, Stream};

/// What comes out.
#[derive(Interface)]
pub struct Merged {
    /// The runs.
    pub runs: Stream<Run>,
    /// Bytes of the first piece of the one on offer: known of each way's beside the choice, which is late.
    pub length: Sig,
}

/// Joins both; `arrivals`: for each frame, whether it is an answer; `direct`: requests that come when none is in the walk, and before all that
/// come there since.
#[module]
pub fn merge(
    m: &Scope,
    arrivals: Stream<Sig>,
    direct: Stream<Run>,
    walked: Stream<Run>,
    answers: Stream<Run>,
) -> Merged {
    // What goes past the walk came before whatever is there now.
    let run = m.mux(direct.valid, &direct.payload, &walked.payload);
    let requests = Stream::new(m, "requests", direct.valid | walked.valid, run);
    direct.accept(requests.ready);
    walked.accept(requests.ready & !direct.valid);
    let class = requests.facts.class;
    let bare = (Class::Start.is(class) | Class::End.is(class) | Class::Last.is(class)).named("bare");
    let is_answer = arrivals.payload;
    // The runs of a packet stay together, though those of an answer may come with the host's latency between them.
    let inside = m.reg("inside", 1).reset(0);
    let passes = requests.valid & !inside & (bare | (arrivals.valid & !is_answer));
    let follows = answers.valid & arrivals.valid & is_answer;
    // What has no frame comes first: it may be all that a request waits for.
    let prefers_request = !inside & ((requests.valid & bare) | !follows);
    // What is on offer stays.
    let (waits, kept) = (m.reg("waits", 1).reset(0), m.reg("kept", 1).no_reset());
    let takes_request = m.mux(waits, &kept, &prefers_request);
    let run = m.mux(takes_request, &requests.payload, &answers.payload);
    let [of_request, of_answer] = [&requests.payload, &answers.payload].map(|run| first_length(m, run));
    let length = m.mux(takes_request, &of_request, &of_answer);
    let out = Stream::new(m, "run", passes | follows, run);
    let goes = out.fire();
    m.when(goes & !takes_request, |m| m.set(&inside, !out.last));
    m.set(&waits, out.valid & !goes);
    m.set(&kept, takes_request);
    requests.accept(goes & takes_request);
    answers.accept(goes & !takes_request);
    arrivals.accept(goes & !(takes_request & bare) & out.last);
    Merged { runs: out, length }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RnicConfig;
    use crate::testing::{run, Random, Sink, Source};
    use ferrowire_rtl::{bits, build, Sim};
    use rand::Rng;

    #[test]
    fn packets_come_whole_in_the_order_of_their_frames_and_what_has_none_in_that_of_the_requests() {
        let cfg = RnicConfig::named("generic-8b").unwrap();
        let shape = Run::of(&cfg);
        let netlist = build("bench", |m| {
            let [requests, answers] = ["requests", "answers"].map(|name| m.stream_in(name, &shape));
            let direct = m.stream_in("direct", &shape);
            let merged = merge(m, m.stream_in("arrivals", &bits(1)), direct, requests, answers);
            m.discard(&merged.length);
            m.stream_out("run", merged.runs);
        });
        let netlist = netlist.unwrap_or_else(|e| panic!("{e}"));
        for seed in 1..=6 {
            let mut sim = Sim::new(&netlist);
            sim.reset();
            let mut random = Random::new(seed);
            let (arrivals, shapes) = (Source::new("arrivals", &bits(1)), [&shape; 2]);
            let [requests, answers] = ["requests", "answers"].map(|name| Source::new(name, shapes[0]));
            let mut sources = [arrivals, requests, answers];
            let mut sinks = [Sink::new("run", &shape)];
            // Packets with their runs, each with a number of its own; those without a frame stand among the requests.
            let (mut framed, mut requested, mut runs) = (Vec::new(), Vec::new(), 0);
            for packet in 0..400u128 {
                let (answer, bare) = (random.chance(0.5), random.chance(0.2));
                let (class, source) = match (answer, bare) {
                    (_, true) => (if answer { Class::Start } else { Class::End }, 1),
                    (true, false) => (Class::Answer, 2),
                    (false, false) => (Class::Execute, 1),
                };
                let pieces = if bare { 1 } else { random.rng.random_range(1..4) };
                for piece in 0..pieces {
                    let last = u128::from(piece + 1 == pieces);
                    let fields = [("facts_class", class.code().into()), ("va", packet), ("last", last)];
                    sources[source].push_values(&fields);
                    runs += 1;
                }
                if !bare {
                    sources[0].push_values(&[("", u128::from(source == 2))]);
                    framed.push(packet as u64);
                }
                requested.extend((source == 1).then_some(packet as u64));
            }
            // Answers come slowly, in the middle of their packets too.
            sources[2].stall = Some(0.6);
            run(&mut sim, &mut sources, &mut sinks, &mut random, 0.2, 20_000, |s| s[0].items.len() == runs);
            let mut packets = sinks[0].values("va");
            packets.dedup();
            let of = |all: &[u64]| packets.iter().filter(|p| all.contains(p)).copied().collect::<Vec<_>>();
            assert_eq!(of(&framed), framed, "seed {seed}: the order of the frames");
            assert_eq!(of(&requested), requested, "seed {seed}: the order of the requests");
        }
    }
}
