// SPDX-License-Identifier: MIT OR Apache-2.0
//! What changes while a packet is on its way, and room to the last place.

use super::*;

impl Bench {
    fn candidate(&mut self, values: &[(&str, u128)]) {
        let get = |name: &str| values.iter().rfind(|v| v.0 == name).map_or(0, |v| v.1 as u64);
        let whole = get("status") == 0 && get("start") == 0;
        let bytes = if whole { get("bytes") } else { 0 };
        let pieces = cut(9, get("local_va"), get("remaining").max(bytes), bytes);
        let packet: Vec<(&str, u128)> =
            values.iter().filter(|v| !["local_va", "remaining"].contains(&v.0)).copied().collect();
        self.packet(&packet, &pieces, false);
    }

    /// One byte of a page, and no end of a message.
    fn small(&mut self, qp: u128, psn: u128, index: u16) {
        let fields = [("qp", qp), ("psn", psn), ("bytes", 1), ("remaining", 9), ("index", index.into())];
        self.candidate(&fields);
        self.tables.push_back(Given { ok: true, address: 0 });
    }

    /// A message without payload.
    fn message(&mut self, values: &[(&str, u128)]) {
        self.candidate(&[&[("last", 1), ("fresh", 1)], values].concat());
    }

    fn steps(&mut self, n: u32) {
        (0..n).for_each(|_| self.step());
    }

    /// All room for payload is there: as many beats are asked for as leave less than the largest packet's.
    pub(super) fn room_is_whole(&mut self) {
        self.drain();
        self.sources[UNBARRED].push_values(&[("qp", 7)]);
        self.oldest(7, 0);
        self.state(7, QpState::Rts);
        self.drain();
        (self.stall, self.taking, self.delay) = (0.0, 0.0, (4, 4));
        let capacity = self.cfg.payload_buffer_bytes / self.cfg.beat_bytes;
        (0..capacity).for_each(|i| self.small(7, i.into(), 0));
        self.steps(6 * capacity);
        let fits = capacity - most_beats(&self.cfg) + 1;
        assert_eq!(self.beats, fits.into(), "seed {}", self.random.seed);
        self.taking = 1.0;
        self.drain();
    }

    /// Each packet has its report, its reads and a run of ends that closes. Returns how many lay in more than one piece.
    fn all_is_whole(&self) -> usize {
        let mut reads = self.sinks[READ].items.iter();
        let mut ends = self.sinks[ENDS].items.iter();
        let mut turns = self.sinks[TURNS_OUT].items.iter().filter(|turn| turn["skip"].is_zero());
        let mut reports = self.sinks[REPORTS].items.iter().filter(|r| r["packet"].to_u64() == 1);
        let mut several = 0;
        for packet in &self.sinks[PACKETS_OUT].items {
            let report = reports.next().expect("a report");
            let bytes = packet["payload_bytes"].to_u64();
            assert_eq!(report["sent_psn"], packet["psn"]);
            assert_eq!(report["sent_qp"], packet["qp"]);
            assert_eq!(report["payload"].to_u64() == 1, bytes > 0);
            let (mut sum, mut pieces) = (0, 0);
            let inline = !report["inline"].is_zero();
            if bytes > 0 {
                assert_eq!(turns.next().expect("its turn")["inline"], report["inline"]);
            }
            while sum < bytes && !inline {
                let end = ends.next().expect("the end of a piece");
                assert_eq!(end["qp"], packet["qp"]);
                assert_eq!(end["index"], report["sent_index"]);
                sum += reads.next().expect("a read")["length"].to_u64();
                assert_eq!(end["last"].to_u64() == 1, sum == bytes, "{sum} of {bytes} bytes");
                pieces += 1;
            }
            assert!(sum == bytes || inline);
            several += usize::from(pieces > 1);
        }
        assert!(reads.next().is_none() && ends.next().is_none() && reports.next().is_none());
        assert!(turns.next().is_none());
        several
    }
}

/// What happens to a QP between the two reads of its packet.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Error,
    /// From this WQE on.
    Bar(u16),
    Done,
    Start,
}

#[test]
fn a_packet_on_two_pages_that_was_begun_is_finished_whatever_becomes_of_its_qp() {
    let bars = [8, 9, 10, 11, 12].map(Change::Bar);
    let all = [&bars[..], &[Change::Error, Change::Done, Change::Start]].concat();
    for (change, fresh) in all.into_iter().flat_map(|change| [(change, true), (change, false)]) {
        let what = format!("{change:?}, fresh: {fresh}");
        let mut bench = Bench::new(5, 8);
        // Three reads, and the first of the packet on two pages, have a place behind a taker that stands still.
        bench.sinks[READ].stall = Some(1.0);
        (0..3).for_each(|psn| bench.small(1, psn, 0));
        let two = [("local_va", 4096 - 100), ("bytes", 300), ("remaining", 300), ("psn", 3), ("last", 1)];
        bench.candidate(&[&two[..], &[("qp", 2), ("index", 10), ("fresh", fresh.into())]].concat());
        bench.tables.push_back(Given { ok: true, address: 0x7000 - 100 });
        bench.tables.push_back(Given { ok: true, address: 0x1000 });
        bench.small(2, 4, 11);
        bench.small(2, 5, 9);
        bench.small(3, 6, 20);
        bench.steps(60);
        assert_eq!(bench.sinks[PACKETS_OUT].items.len(), 3, "{what}: it waits");
        assert_eq!(bench.sinks[ENDS].values("last"), [1, 1, 1, 0], "{what}");
        match change {
            Change::Error => bench.state(2, QpState::Err),
            Change::Bar(index) => bench.sources[BARRED].push_values(&[("qp", 2), ("index", index.into())]),
            Change::Done => bench.oldest(2, 12),
            // A claim on the write port makes the decision wait.
            Change::Start => (0..30).for_each(|_| bench.sources[UNBARRED].push_values(&[("qp", 2)])),
        }
        bench.steps(5);
        bench.sinks[READ].stall = None;
        bench.drain();

        let behind: &[u64] = match change {
            Change::Error | Change::Done | Change::Bar(..=9) => &[6],
            Change::Bar(10 | 11) => &[5, 6],
            Change::Bar(_) | Change::Start => &[4, 5, 6],
        };
        let expected = [&[0, 1, 2, 3], behind].concat();
        assert_eq!(bench.sinks[PACKETS_OUT].values("psn"), expected, "{what}");
        assert_eq!(bench.sinks[REPORTS].values("sent_psn"), expected, "{what}");
        assert_eq!(bench.sinks[REPORTS].values("sent_status"), vec![0; expected.len()], "{what}");
        assert_eq!(bench.sinks[READ].values("length")[3..5], [100, 200], "{what}");
        assert_eq!(bench.sinks[READ].values("address")[3..5], [0x7000 - 100, 0x1000], "{what}");
        assert_eq!(bench.all_is_whole(), 1, "{what}");
        bench.room_is_whole();
    }
}

#[test]
fn reads_ends_packets_and_reports_agree_while_queue_pairs_come_and_go() {
    for (seed, beat_bytes) in [(6, 32), (7, 64)] {
        let mut bench = Bench::new(seed, beat_bytes);
        let mut model = Model::default();
        for cycle in 0..20_000 {
            if cycle % 500 == 0 {
                bench.stall = [0.0, 0.3, 0.6][bench.random.rng.random_range(0..3)];
                bench.taking = [0.3, 1.0][bench.random.rng.random_range(0..2)];
            }
            if bench.sources[PARTS].left() < 4 {
                model.candidate(&mut bench);
            }
            let qp = bench.random.rng.random_range(0..QPS);
            match bench.random.rng.random_range(0..60) {
                0 => {
                    let index = model.oldest[qp].wrapping_add(bench.random.rng.random_range(0..0x8000));
                    bench.sources[BARRED].push_values(&[("qp", qp as u128), ("index", index.into())]);
                }
                1..=2 => bench.sources[UNBARRED].push_values(&[("qp", qp as u128)]),
                3 => bench.state(qp, [QpState::Err, QpState::Reset][cycle % 2]),
                4..=6 => bench.state(qp, [QpState::Rts, QpState::Sqd][cycle % 2]),
                7 => {
                    let ahead = bench.random.rng.random_range(0..0x4000);
                    model.oldest[qp] = model.oldest[qp].wrapping_add(ahead);
                    bench.oldest(qp, model.oldest[qp]);
                }
                _ => bench.step(),
            }
        }
        bench.stall = 0.0;
        bench.drain();
        let (crossing, packets) = (bench.all_is_whole(), bench.sinks[PACKETS_OUT].items.len());
        assert!(crossing > 50 && packets > 150, "seed {seed}: {crossing} of {packets}");
        bench.room_is_whole();
    }
}

#[test]
fn plenty_ends_where_only_the_first_message_of_each_queue_pair_has_a_place() {
    let mut bench = Bench::new(8, 8);
    bench.freeing = 0.0;
    let outstanding = bench.cfg.outstanding;
    let spent = |bench: &Bench| bench.messages;
    for _ in 0..outstanding {
        bench.message(&[]);
    }
    // What takes no place: sent again, not the last, a failure, what is done, a start.
    for _ in 0..3 * outstanding {
        bench.message(&[("fresh", 0)]);
        bench.message(&[("last", 0)]);
        bench.message(&[("index", 0x8000)]);
        bench.message(&[("start", 1)]);
    }
    bench.message(&[("qp", 1), ("status", 2)]);
    bench.message(&[("qp", 1)]);
    bench.drain();
    assert_eq!((spent(&bench), bench.sim.get("plenty")), (outstanding.into(), 1));
    bench.message(&[]);
    bench.drain();
    assert_eq!((spent(&bench), bench.sim.get("plenty")), (u64::from(outstanding) + 1, 0));
    // To the last place.
    for _ in outstanding + 1..messages(&bench.cfg) {
        bench.message(&[]);
    }
    bench.drain();
    assert_eq!((spent(&bench), bench.sim.get("plenty")), (messages(&bench.cfg).into(), 0));
    // It comes back with the place that was one too many.
    let mut plenty = Vec::new();
    while bench.messages > 0 {
        bench.messages -= 1;
        bench.sim.set("taken", 0);
        bench.sim.set("freed", 1);
        bench.sim.tick();
        bench.sim.set("freed", 0);
        bench.steps(2);
        plenty.push(bench.sim.get("plenty"));
    }
    let first = plenty.iter().position(|p| *p == 1).expect("it comes back");
    assert_eq!(first as u32 + 1, messages(&bench.cfg) - outstanding);
    assert!(plenty[first..].iter().all(|p| *p == 1));
}

#[test]
#[should_panic(expected = "the scheduler grants no more than the completer has room for")]
fn a_message_without_a_place_is_found() {
    let mut bench = Bench::new(9, 8);
    bench.freeing = 0.0;
    for _ in 0..=messages(&bench.cfg) {
        bench.message(&[]);
    }
    bench.drain();
}

#[test]
fn what_is_done_before_its_turn_vanishes_and_a_start_has_no_lookup() {
    let mut bench = Bench::new(10, 8);
    bench.oldest(4, 0xfff0);
    // The last before the oldest, the oldest itself, and on both sides of half the numbers.
    let indices = [0xffef, 0xfff0, 0x7fef, 0x7ff0, 0x0002];
    for ok in [true, false] {
        for (i, index) in indices.into_iter().enumerate() {
            let fields = [("qp", 4), ("index", index), ("psn", i as u128), ("bytes", 64), ("fresh", 1)];
            bench.candidate(&fields);
            bench.tables.push_back(Given { ok, address: 0 });
        }
        // Payload or not: nobody is asked.
        bench.candidate(&[("qp", 5), ("start", 1), ("bytes", 64), ("psn", 9), ("index", 0xffff)]);
    }
    bench.drain();
    assert_eq!(bench.sinks[LOOKUP].items.len(), 2 * indices.len());
    let sent = [1, 2, 4];
    assert_eq!(bench.sinks[PACKETS_OUT].values("psn"), sent);
    // The first that is refused is a failure; what is behind it is barred.
    assert_eq!(bench.sinks[REPORTS].values("sent_psn"), [1, 2, 4, 9, 1, 9]);
    assert_eq!(bench.sinks[REPORTS].values("start"), [0, 0, 0, 1, 0, 1]);
    assert_eq!(bench.sinks[REPORTS].values("packet"), [1, 1, 1, 0, 0, 0]);
    let refused = u64::from(WcStatus::LocProtErr.code());
    assert_eq!(bench.sinks[REPORTS].values("sent_status"), [0, 0, 0, 0, refused, 0]);
    assert_eq!(bench.again, 0);
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Sent,
    /// It is the first of its WQE that fails: a report, and a bar.
    Fails,
    /// Nobody hears of it.
    Stopped,
}

#[test]
fn a_bar_stops_its_wqe_and_later_ones_and_spares_what_is_before() {
    use Fate::{Fails, Sent, Stopped};
    // Offset of the index, sent for the first time, good, what becomes of it.
    let table = [
        (0, false, true, Sent),
        (1, false, true, Sent),
        (3, true, true, Sent),
        (2, false, true, Sent),
        (2, false, false, Fails),
        // The same WQE: no second report. Later ones: what was sent before the bar comes again, or is new.
        (2, false, true, Stopped),
        (2, false, false, Stopped),
        (3, false, true, Stopped),
        (3, false, false, Stopped),
        (4, true, true, Stopped),
        (4, true, false, Stopped),
        (0x7ffe, false, true, Stopped),
        (0x7fff, true, true, Stopped),
        // Earlier ones, whatever was tried.
        (1, false, true, Sent),
        (1, true, true, Sent),
        (0, false, true, Sent),
        // One that fails takes the place of the bar.
        (1, false, false, Fails),
        (1, false, false, Stopped),
        (1, false, true, Stopped),
        (2, true, true, Stopped),
        (0x7fff, false, false, Stopped),
        (0, false, true, Sent),
        (0, true, false, Fails),
        (0, false, true, Stopped),
        (1, true, true, Stopped),
        (0x7fff, false, true, Stopped),
    ];
    // By a bad WQE, or by a lookup that is refused; over the end of the numbers.
    for (broken, first) in [(true, 7), (false, 7), (true, 0xfffe), (false, 0xffff)] {
        let mut bench = Bench::new(11, 8);
        (bench.delay, bench.freeing) = ((1, 9), 0.0);
        bench.oldest(6, first);
        for (psn, (ahead, fresh, good, _)) in (0..).zip(table) {
            let status = if good || !broken { 0 } else { 2 };
            let fields = [("qp", 6), ("psn", psn), ("bytes", 64), ("status", status), ("last", 1)];
            let index = first.wrapping_add(ahead).into();
            bench.candidate(&[&fields[..], &[("index", index), ("fresh", fresh.into())]].concat());
            if status == 0 {
                bench.tables.push_back(Given { ok: good, address: 0 });
            }
            // Nobody else is barred, whatever his index.
            bench.message(&[("qp", psn % 6), ("psn", 100), ("index", psn), ("fresh", 0)]);
        }
        bench.drain();
        let mine = |sink: usize, psn: &str| {
            let psns = bench.sinks[sink].values(psn);
            assert_eq!(psns.iter().filter(|psn| **psn == 100).count(), table.len());
            psns.into_iter().filter(|psn| *psn != 100).collect::<Vec<u64>>()
        };
        let with = |fates: &[Fate]| -> Vec<u64> {
            (0..).zip(table).filter(|row| fates.contains(&row.1 .3)).map(|row| row.0).collect()
        };
        assert_eq!(mine(PACKETS_OUT, "psn"), with(&[Sent]));
        assert_eq!(mine(REPORTS, "sent_psn"), with(&[Sent, Fails]));
        let failed = bench.sinks[REPORTS].items.iter().filter(|r| !r["sent_status"].is_zero());
        assert_eq!(failed.map(|r| r["sent_psn"].to_u64()).collect::<Vec<_>>(), with(&[Fails]));
        // Only what is new and leaves takes a place.
        let (fresh, again): (Vec<_>, Vec<_>) =
            table.into_iter().filter(|row| row.3 == Sent).partition(|row| row.1);
        assert_eq!(bench.messages, fresh.len() as u64);
        assert_eq!(bench.again, again.len() + table.len());
        bench.freeing = 1.0;
        bench.sources[UNBARRED].push_values(&[("qp", 6)]);
        bench.drain();
        let before = bench.sinks[PACKETS_OUT].items.len();
        bench.message(&[("qp", 6), ("index", first.into())]);
        bench.message(&[("qp", 6), ("index", first.wrapping_add(2).into())]);
        bench.drain();
        assert_eq!(bench.sinks[PACKETS_OUT].items.len(), before + 2, "a start lifts it");
        bench.room_is_whole();
    }
}

#[test]
fn a_bar_from_outside_takes_the_place_of_later_ones_only() {
    // Bars that come one behind the other, and which counts.
    let cases: [(&[u16], u16); 6] = [
        (&[5], 5),
        (&[5, 3], 3),
        (&[3, 5], 3),
        (&[1, 0xffff, 2], 0xffff),
        (&[0xfffe, 1], 0xfffe),
        (&[5, 4, 4, 6], 4),
    ];
    for (bars, counts) in cases {
        // The first of them may be from here: a WQE that is refused.
        for here in [false, true] {
            let mut bench = Bench::new(12, 8);
            bench.oldest(3, 0xfff8);
            for (i, bar) in bars.iter().enumerate() {
                if here && i == 0 {
                    bench.message(&[("qp", 3), ("index", (*bar).into()), ("status", 2)]);
                    bench.drain();
                } else {
                    bench.sources[BARRED].push_values(&[("qp", 3), ("index", (*bar).into())]);
                }
            }
            bench.drain();
            let indices: Vec<u16> = (0..20).map(|i| 0xfff8u16.wrapping_add(i)).collect();
            for (psn, index) in (0..).zip(&indices) {
                bench.message(&[("qp", 3), ("psn", psn), ("index", (*index).into()), ("fresh", psn % 2)]);
            }
            bench.drain();
            let before = indices.iter().position(|index| *index == counts).unwrap() as u64;
            let sent = bench.sinks[PACKETS_OUT].values("psn");
            assert_eq!(sent, (0..before).collect::<Vec<_>>(), "{bars:?}, {here}");
        }
    }
}

/// A bar of the life before that comes with the start, or just before it, is no bar of the life that begins.
#[test]
fn a_bar_of_the_life_before_does_not_bar_the_next() {
    for (seed, bars_before) in [(70, 0), (71, 1), (72, 2), (73, 3)] {
        let mut bench = Bench::new(seed, 64);
        (bench.stall, bench.delay) = (0.0, (4, 4));
        [UNBARRED, BARRED].iter().for_each(|source| bench.sources[*source].stall = Some(0.0));
        for qp in 0..QPS as u128 {
            bench.sources[BARRED].push_values(&[("qp", qp), ("index", 0)]);
            bench.steps(bars_before);
            bench.sources[UNBARRED].push_values(&[("qp", qp)]);
            bench.drain();
            let before = bench.sinks[PACKETS_OUT].items.len();
            bench.small(qp, 5, 0);
            bench.drain();
            let came = bench.sinks[PACKETS_OUT].items.len() - before;
            assert_eq!(came, 1, "seed {seed}: QP {qp}, a bar {bars_before} cycles before its start");
        }
    }
}

/// The type of a window is in its WQE, and the owner of the keys compares it with the window's.
#[test]
fn a_bind_is_asked_for_as_one_of_the_window_s_type() {
    for (access, kind) in [(0x0e, OperationKind::Bind), (0x10e, OperationKind::Rebind)] {
        let mut bench = Bench::new(81, 64);
        bench.stall = 0.0;
        bench.message(&[("qp", 3), ("wqe_opcode", SendOpcode::BindMw.code().into())]);
        bench.sim.set("operands_valid", 1);
        bench.sim.set("operands_swap", access);
        bench.sim.set("operands_compare", 77);
        for _ in 0..50 {
            bench.step();
        }
        let asked = ["valid", "kind", "access", "length"].map(|f| bench.sim.get(&format!("operation_{f}")));
        assert_eq!(asked, [1, kind.code().into(), 0x0e, 77]);
    }
}

/// A window that is taken back is gone when its owner says so, and nobody behind waits for what is under way by it.
#[test]
fn what_takes_a_window_back_is_told_with_its_end_and_holds_up_nobody() {
    let mut bench = Bench::new(80, 64);
    bench.stall = 0.0;
    bench.sim.set("operation_ready", 1);
    let code = u128::from(SendOpcode::LocalInv.code());
    for (round, (withdraws, ok)) in [(1, true), (0, true), (1, false)].into_iter().enumerate() {
        let qp = 2 + round as u128;
        let local = [("qp", qp), ("wqe_opcode", code), ("withdraws", withdraws)];
        bench.message(&local);
        bench.sim.set("operands_valid", 1);
        bench.message(&[("qp", 1)]);
        let packets = bench.sinks[PACKETS_OUT].items.len();
        let mut begun = 0;
        while bench.sim.get("operation_valid") == 0 {
            bench.step();
            begun += 1;
            assert!(begun < 50, "it is asked for");
        }
        bench.steps(9);
        assert_eq!(
            bench.sinks[PACKETS_OUT].items.len(),
            packets,
            "what is behind finds the key as it was left"
        );
        bench.sim.set("operated_valid", 1);
        bench.sim.set("operated_ok", ok.into());
        let told = (bench.sim.get("taken_back_valid"), bench.sim.get("taken_back_qp"));
        assert_eq!(told.0, u64::from(ok && withdraws == 1), "round {round}");
        assert!(told.0 == 0 || u128::from(told.1) == qp);
        bench.step();
        bench.sim.set("operated_valid", 0);
        bench.step();
        bench.sim.set("operands_valid", 0);
        bench.steps(4);
        let report = bench.sinks[REPORTS].items.iter().rfind(|r| r["sent_qp"].to_u64() as u128 == qp);
        let report = report.expect("a report in 6 cycles");
        assert_eq!(report["sent_withdraws"].to_u64() as u128, withdraws);
        assert_eq!(report["sent_status"].is_zero(), ok);
        assert_eq!(bench.sinks[PACKETS_OUT].items.len(), packets + 1, "the next one follows");
    }
}
