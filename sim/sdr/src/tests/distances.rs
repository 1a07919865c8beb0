// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far commands are from each other, what state they need, start-up and refresh: each rule just met and just broken.
use super::*;

/// `script` is fine with `least` idle edges and breaks `rule` with one fewer.
fn just(rule: &str, least: u64, script: impl Fn(u64)) {
    script(least);
    breaks(rule, || script(least - 1));
}

fn ck(ck: u64) -> Span {
    Span { ps: 0, ck }
}

#[test]
fn commands_keep_their_distance() {
    just("tRCD: READ of bank 0 at ", 2, |idle| {
        let mut b = with(|t| t.rcd.ps = 30_000);
        b.act(0, 5);
        b.edges(idle);
        b.read(0, 0);
    });
    just("tRCD: WRITE of bank 3 at ", 2, |idle| {
        let mut b = with(|t| t.rcd = ck(3));
        b.act(3, 5);
        b.edges(idle);
        b.write(3, 0, &[0; 4]);
    });
    just("tRAS: PRECHARGE of bank 0 at ", 7, |idle| {
        let mut b = with(|t| t.ras.ps = 80_000);
        b.act(0, 5);
        b.edges(idle);
        b.command(2, 3, 0x400);
    });
    just("tRP: ACTIVATE of bank 0 at ", 2, |idle| {
        let mut b = opened(with(|t| t.rp.ps = 30_000));
        b.edges(9);
        b.pre(0);
        b.edges(idle);
        b.act(0, 5);
    });
    just("tRP: ACTIVATE of bank 0 at ", 1, |idle| {
        let mut b = ready();
        b.pre(0);
        b.edges(idle);
        b.act(0, 5);
    });
    just("tRP: AUTO REFRESH of bank 3 at ", 1, |idle| {
        let mut b = ready();
        b.pre(3);
        b.edges(idle);
        b.refresh();
    });
    just("tRP: MODE of bank 3 at ", 1, |idle| {
        let mut b = ready();
        b.pre(3);
        b.edges(idle);
        b.set_mode(mode(2, 2));
    });
    just("tRC: ACTIVATE of bank 0 at ", 7, |idle| {
        let mut b = with(|t| t.rc.ps = 130_000);
        b.act(0, 5);
        b.edges(4);
        b.pre(0);
        b.edges(idle);
        b.act(0, 5);
    });
    just("tRC: AUTO REFRESH of bank 0 at ", 7, |idle| {
        let mut b = with(|t| t.rc.ps = 130_000);
        b.act(0, 5);
        b.edges(4);
        b.pre(0);
        b.edges(idle);
        b.refresh();
    });
    just("tRRD: ACTIVATE of bank 1 at ", 2, |idle| {
        let mut b = with(|t| t.rrd.ps = 30_000);
        b.act(0, 5);
        b.edges(idle);
        b.act(1, 5);
    });
    // From the edge that takes the last word, three behind the command.
    just("tWR: PRECHARGE of bank 0 at ", 5, |idle| {
        let mut b = opened(with(|t| t.wr = ck(3)));
        b.write(0, 0, &[0; 4]);
        b.edges(idle);
        b.pre(0);
    });
    just("tWR: PRECHARGE of bank 0 at ", 4, |idle| {
        let mut b = open();
        b.write(0, 0, &[0; 4]);
        b.edges(idle);
        b.command(2, 1, 0x400);
    });
    for code in [0, 1, 2, 3] {
        just("tMRD: ", 3, |idle| {
            let mut b = with(|t| t.mrd = ck(4));
            b.set_mode(mode(2, 2));
            b.edges(idle);
            b.command(code, 0, mode(2, 2));
        });
        just("tRFC: ", 9, |idle| {
            let mut b = with(|t| t.rfc.ps = 100_000);
            b.refresh();
            b.edges(idle);
            b.command(code, 0, mode(2, 2));
        });
    }
}

#[test]
fn a_picosecond_counts() {
    for (ps, fine) in [(30_001, true), (30_002, false)] {
        let script = || {
            let mut b = with(|t| t.rcd.ps = ps);
            b.act(1, 5);
            b.edges(2);
            b.read(1, 0);
        };
        if fine {
            script();
        } else {
            breaks("ACTIVATE was at ", script);
        }
    }
}

#[test]
fn auto_precharge_closes_its_bank_behind_the_burst() {
    // Four words of a READ, then tRP.
    just("tRP: ACTIVATE of bank 0 at ", 5, |idle| {
        let mut b = open();
        b.edges(9);
        b.read(0, 0x400);
        b.edges(idle);
        b.act(0, 5);
    });
    // A word of a WRITE at its own edge and three behind, tWR, tRP.
    just("tRP: ACTIVATE of bank 0 at ", 9, |idle| {
        let mut b = opened(with(|t| t.wr = ck(5)));
        b.edges(9);
        b.write(0, 0x400, &[0; 4]);
        b.edges(idle);
        b.act(0, 5);
    });
    just("ACTIVATE of bank 0, which is open", 6, |idle| {
        let mut b = opened(with(|t| (t.wr.ps, t.rp) = (40_000, Span::default())));
        b.edges(9);
        b.write(0, 0x400, &[0; 4]);
        b.edges(idle);
        b.act(0, 5);
    });
    // Even where tWR is nothing.
    just("ACTIVATE of bank 0, which is open", 3, |idle| {
        let mut b = opened(with(|t| (t.wr, t.rp) = (Span::default(), Span::default())));
        b.edges(9);
        b.write(0, 0x400, &[0; 4]);
        b.edges(idle);
        b.act(0, 5);
    });
    just("tRAS: auto precharge of bank 0 at ", 3, |idle| {
        let mut b = with(|t| t.ras.ps = 80_000);
        b.act(0, 5);
        b.edges(idle);
        b.read(0, 0x400);
        b.edges(6);
    });
    just("tWR: auto precharge of bank 0 at ", 4, |idle| {
        let mut b = opened(with(|t| t.wr = ck(6)));
        b.edges(9);
        b.write(0, 0, &[0; 4]);
        b.edges(idle);
        b.hush();
        b.read(0, 0x400);
        b.edges(6);
    });
    for (idle, rule) in
        [(2, "READ of bank 0, which is to close itself"), (3, "READ of bank 0, which is closed")]
    {
        breaks(rule, || {
            let mut b = open();
            b.edges(9);
            b.read(0, 0x400);
            b.edges(idle);
            b.read(0, 0);
        });
    }
    breaks("WRITE of bank 0, which is to close itself", || {
        let mut b = open();
        b.write(0, 0x400, &[0; 4]);
        b.edges(3);
        b.write(0, 0, &[0; 4]);
    });
}

#[test]
fn a_burst_with_auto_precharge_is_not_interrupted() {
    let two = || {
        let mut b = open();
        b.act(1, 5);
        b.edges(9);
        b
    };
    just("READ interrupts a READ of bank 0 with auto precharge", 3, |idle| {
        let mut b = two();
        b.read(0, 0x400);
        b.edges(idle);
        b.read(1, 0);
    });
    just("READ interrupts a WRITE of bank 0 with auto precharge", 3, |idle| {
        let mut b = two();
        b.write(0, 0x400, &[0; 4]);
        b.edges(idle);
        b.hush();
        b.read(1, 0);
    });
    just("WRITE interrupts a WRITE of bank 0 with auto precharge", 3, |idle| {
        let mut b = two();
        b.write(0, 0x400, &[0; 4]);
        b.edges(idle);
        b.write(1, 0, &[0; 4]);
    });
    breaks("WRITE interrupts a READ of bank 0 with auto precharge", || {
        let mut b = two();
        b.read(0, 0x400);
        b.write(1, 0, &[0; 4]);
    });
    breaks("BURST TERMINATE interrupts a READ of bank 0 with auto precharge", || {
        let mut b = two();
        b.read(0, 0x400);
        b.terminate();
    });
    breaks("BURST TERMINATE interrupts a WRITE of bank 0 with auto precharge", || {
        let mut b = two();
        b.write(0, 0x400, &[0; 4]);
        b.terminate();
    });
    for (ba, a) in [(0, 0), (1, 0x400)] {
        just("PRECHARGE of bank 0, whose auto precharge has not begun", 3, |idle| {
            let mut b = two();
            b.read(0, 0x400);
            b.edges(idle);
            b.command(2, ba, a);
        });
    }
}

#[test]
fn a_write_behind_a_read_waits_for_the_last_word() {
    // CL 3, bursts of 4: the last word is valid six edges behind the READ.
    for idle in 1..6 {
        breaks("READ to WRITE: WRITE of bank 0 at ", || {
            let mut b = open();
            b.read(0, 0);
            b.edges(idle);
            // Nothing is driven, so that this is not of the bus.
            b.command(4, 0, 0);
        });
    }
    breaks("DQ is not all driven", || {
        let mut b = open();
        b.read(0, 0);
        b.edges(6);
        b.command(4, 0, 0);
    });
    // For one that comes before any word see the bench of traffic.
    let mut b = open();
    b.read(0, 0);
    b.edges(7);
    b.write(0, 0, &[0; 4]);
}

#[test]
fn commands_need_a_fit_state() {
    breaks("ACTIVATE of bank 0, which is open", || open().act(0, 5));
    breaks("READ of bank 1, which is closed", || _ = open().read(1, 0));
    breaks("WRITE of bank 1, which is closed", || _ = open().write(1, 0, &[0; 4]));
    breaks("AUTO REFRESH while bank 0 is open", || open().refresh());
    breaks("MODE while bank 0 is open", || open().set_mode(mode(2, 3)));
    breaks("BA is 4", || ready().act(4, 0));
    breaks("A is 0x800", || ready().act(0, 0x800));
    breaks("drive() is called for the earlier 5 ps", || ready().dev.drive(5, Pins::default()));
    breaks("which drive() has not reached", || _ = ready().dev.sample(u64::MAX));
    breaks("BURST TERMINATE while there is no burst", || ready().terminate());
    just("MODE before the end of a READ's data", 2, |idle| {
        let mut b = opened(with(|t| t.rp = Span::default()));
        b.read(0, 0);
        b.edges(3);
        b.pre(0);
        b.edges(idle - 1);
        b.set_mode(mode(2, 3));
    });
    // A burst of 4 is over with the fourth edge.
    for writes in [false, true] {
        let script = |idle| {
            let mut b = open();
            if writes {
                b.write(0, 0, &[0; 4]);
            } else {
                b.read(0, 0);
            }
            b.edges(idle);
            b.terminate();
        };
        script(2);
        breaks("BURST TERMINATE while there is no burst", || script(3));
    }
}

#[test]
fn modes_are_of_the_standard() {
    for (value, why) in [
        (0x037, "burst length"),
        (0x034, "burst length"),
        (0x03a, "burst type"),
        (0x012, "CL is not 2 or 3"),
        (0x002, "CL is not 2 or 3"),
        (0x042, "CL is not 2 or 3"),
        (0x062, "CL is not 2 or 3"),
        (0x0b2, "test mode"),
        (0x132, "test mode"),
        (0x432, "reserved"),
    ] {
        breaks(why, || ready().set_mode(value));
    }
    breaks("MODE with BA = 2", || _ = ready().command(0, 2, 0x032));
    for value in [0x20, 0x21, 0x22, 0x23, 0x30, 0x31, 0x32, 0x33, 0x233] {
        ready().set_mode(value);
    }
}

#[test]
fn start_up_has_an_order() {
    let off = |edges| {
        let mut b = Bench::off(timing(), 10_000, 1);
        b.edges(edges);
        b
    };
    // The first edge is where the wait begins.
    just("power-up: NOP was given for 190000 ps of CLK, not 200000", 20, |edges| {
        off(edges).command(2, 0, 0x400);
    });
    breaks("PRECHARGE before PRECHARGE of all banks at power-up", || off(30).pre(0));
    breaks("ACTIVATE before PRECHARGE of all banks at power-up", || off(30).act(0, 0));
    breaks("MODE before PRECHARGE of all banks at power-up", || off(30).set_mode(mode(2, 3)));
    breaks("AUTO REFRESH before PRECHARGE of all banks at power-up", || off(30).refresh());
    let started = |refreshes: u64, modes: bool, first: bool| {
        let mut b = off(30);
        b.command(2, 0, 0x400);
        b.edges(9);
        if modes && first {
            b.set_mode(mode(2, 3));
            b.edges(9);
        }
        for _ in 0..refreshes {
            b.refresh();
            b.edges(9);
        }
        if modes && !first {
            b.set_mode(mode(2, 3));
            b.edges(9);
        }
        b.act(0, 0);
    };
    for first in [false, true] {
        started(8, true, first);
        breaks("7 AUTO REFRESHes of 8, a MODE", || started(7, true, first));
    }
    breaks("ACTIVATE of bank 0 before initialisation is complete: 8 AUTO REFRESHes of 8, no MODE", || {
        started(8, false, false);
    });
    breaks("BURST TERMINATE of bank 0 before initialisation is complete", || {
        let mut b = off(30);
        b.command(2, 0, 0x400);
        b.edges(9);
        b.terminate();
    });
}

#[test]
fn refreshes_come_in_time() {
    // A pace of 1 us, so that 9 us are the most between two; 16 rows are all there are, within 16 us.
    let paced = |postponed| {
        let mut b = with(|t| (t.rows, t.ref_ps, t.postponed) = (16, 16_000_000, postponed));
        let ready = b.dev.ready;
        b.run(ready);
        (b, ready)
    };
    let until = |b: &mut Bench, ps: u64| b.run(ps - b.tck);
    let (mut b, ready) = paced(8);
    until(&mut b, ready + 9_000_000);
    b.refresh();
    b.edges(99);
    b.refresh();
    breaks("refresh: more than 8 AUTO REFRESHes are postponed", || {
        let (mut b, ready) = paced(8);
        until(&mut b, ready + 9_010_000);
        b.refresh();
    });
    breaks("refresh: more than 8 AUTO REFRESHes are postponed", || {
        let (mut b, ready) = paced(8);
        until(&mut b, ready + 9_000_000);
        b.refresh();
        b.edges(100);
        b.refresh();
    });
    // No more than 8 count ahead.
    for (late, fine) in [(0, true), (10_000, false)] {
        let script = || {
            let (mut b, _) = paced(8);
            let last = (0..12).map(|_| (b.edges(9), b.next, b.refresh()).1).last().unwrap();
            until(&mut b, last + 17_000_000 + late);
            b.refresh();
        };
        // But all rows are due 16 us behind the first, which is earlier.
        breaks("tREF: a row that was refreshed at", script);
        let ahead = || {
            let mut b = with(|t| (t.rows, t.ref_ps) = (64, 64_000_000));
            let last = (0..12).map(|_| (b.edges(9), b.next, b.refresh()).1).last().unwrap();
            until(&mut b, last + 17_000_000 + late);
            b.refresh();
        };
        if fine {
            ahead();
        } else {
            breaks("refresh: more than 8 AUTO REFRESHes are postponed", ahead);
        }
    }
    // All in one go at the end, and all but one.
    for (count, rounds, fine) in [(16, 3, true), (15, 1, false)] {
        let script = || {
            let (mut b, ready) = paced(1_000);
            for round in 1..=rounds {
                until(&mut b, ready + round * 16_000_000 - 16 * 100_000);
                for _ in 0..count {
                    b.refresh();
                    b.edges(9);
                }
            }
            until(&mut b, ready + rounds * 16_000_000 + 20_000);
        };
        if fine {
            script();
        } else {
            breaks("tREF: a row that was refreshed at", script);
        }
    }
}

#[test]
fn a_row_is_not_open_for_ever() {
    just("tRAS max: bank 2 is open since ", 2, |early| {
        let mut b = with(|t| t.ras_max_ps = 5_000_000);
        b.act(2, 5);
        b.edges(501 - early);
        b.pre(2);
        b.edges(20);
    });
}
