// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock, when wires change, and who has DQ: each rule just met and just broken.
use super::*;

type PlainChange = (&'static str, fn(&mut Pins));

/// `script` is fine with one number and breaks `rule` with the other.
fn either(rule: &str, fine: u64, bad: u64, script: impl Fn(u64)) {
    script(fine);
    breaks(rule, || script(bad));
}

#[test]
fn the_clock_suits_the_latency() {
    let at = |tck, cl| {
        let t = Timing { startup_divisor: 1_000, ..Timing::m12l64322a_7() };
        Bench::ready(t, tck, 1, mode(2, cl));
    };
    either("tCK: CLK's period is 9998 ps, at CL 2 no less than 10000", 10_000, 9_998, |tck| at(tck, 2));
    either("tCK: CLK's period is 6998 ps, at CL 3 no less than 7000", 7_000, 6_998, |tck| at(tck, 3));
    either("tCK: CLK's period is 8000 ps, at CL 2", 10_000, 8_000, |tck| {
        let mut b = Bench::ready(Timing { ck_ps: [10_000, 7_000], ..timing() }, 10_000, 1, mode(2, 2));
        (b.tck, b.high) = (tck, tck / 2);
        b.edges(3);
    });
    either("tCK: no edge of CLK for more than 1000000 ps", 1_000_000, 1_000_010, |tck| {
        let mut b = ready();
        b.edges(1);
        b.next = b.next - b.tck + tck;
        b.tck = tck;
        b.high = 5_000;
        b.edges(1);
    });
}

#[test]
fn the_clock_is_high_and_low_for_long_enough() {
    either("tCH: CLK is high for less than 2750 ps", 2_750, 2_748, |high| {
        let mut b = ready();
        b.high = high;
        b.edges(3);
    });
    either("tCL: CLK is low for less than 2750 ps", 2_750, 2_748, |low| {
        let mut b = ready();
        b.high = b.tck - low;
        b.edges(3);
    });
}

#[test]
fn commands_are_steady_around_the_edge() {
    let changes: [PlainChange; 5] = [
        ("RAS#, CAS# or WE#", |p| p.ras_n = !p.ras_n),
        ("RAS#, CAS# or WE#", |p| p.cas_n = !p.cas_n),
        ("RAS#, CAS# or WE#", |p| p.we_n = !p.we_n),
        ("BA", |p| p.ba ^= 1),
        ("A", |p| p.a ^= 1),
    ];
    for (name, change) in changes {
        // Changes back are those of the bench, half a cycle off; 2 ns before and 1 ns behind are the limits.
        let before = |ps| {
            let mut b = ready();
            // The wire is wrong until then.
            let edge = b.next;
            b.at(edge - 5_000, move |p| (p.ras_n, p.cas_n, p.we_n, p.ba, p.a) = (false, true, true, 1, 1));
            b.at(edge - 5_000, change);
            b.at(edge - ps, change);
            b.at(edge + 5_000, |p| (p.ras_n, p.cas_n, p.we_n) = (true, true, true));
            b.edges(2);
        };
        either(&format!("tIS: {name} changes"), 2_000, 1_998, before);
        breaks(&format!("tIS: {name} changes"), || before(0));
        either(&format!("tIH: {name} changes"), 1_000, 998, |ps| {
            let mut b = ready();
            let edge = b.next;
            b.at(edge + ps, change);
            b.at(edge + ps + 100, |p| (p.ras_n, p.cas_n, p.we_n) = (true, true, true));
            b.act(1, 0);
            b.edges(1);
        });
    }
    // RAS#, CAS# and WE# are always taken.
    either("tIS: RAS#", 2_000, 1_998, |ps| {
        let mut b = ready();
        b.at(b.next - 4_000, |p| p.we_n = false);
        b.at(b.next - ps, |p| p.we_n = true);
        b.edges(1);
    });
    either("tIH: RAS#", 1_000, 998, |ps| {
        let mut b = ready();
        b.at(b.next + ps, |p| p.we_n = false);
        b.at(b.next + 5_000, |p| p.we_n = true);
        b.edges(2);
    });
}

#[test]
fn addresses_that_mean_nothing_may_change_at_any_time() {
    let mut b = ready();
    for offset in [-100_i64, 0, 100] {
        let edge = b.next;
        b.at(edge.checked_add_signed(offset).unwrap(), |p| (p.a, p.ba) = (p.a ^ 7, p.ba ^ 3));
        b.edges(2);
    }
    for offset in [-100_i64, 0, 100] {
        let edge = b.next;
        b.at(edge.checked_add_signed(offset).unwrap(), |p| (p.a, p.ba) = (p.a ^ 7, p.ba ^ 3));
        b.refresh();
        b.edges(9);
    }
}

#[test]
fn written_words_are_steady_around_the_edge() {
    // Word 2 of a WRITE, 2 ns before and 1 ns behind its edge.
    let script = |offset: i64, change: fn(&mut Pins)| {
        let mut b = open();
        let at = (b.next + 20_000).checked_add_signed(offset).unwrap();
        b.at(at, change);
        b.write(0, 0, &[0; 4]);
        b.edges(5);
    };
    either("tDS: DQ changes within it of word 2 of a WRITE of bank 0", 2_000, 1_998, |ps| {
        script(-(ps as i64), |p| p.dq ^= 1 << 31);
    });
    either("tDH: DQ changes", 1_000, 998, |ps| script(ps as i64, |p| p.dq ^= 1));
    either("tDS: DQ changes within it of word 0", 2_000, 1_998, |ps| {
        let mut b = open();
        let edge = b.next;
        b.at(edge - 5_000, |p| p.drive = 0x7fff_ffff);
        b.at(edge - ps, |p| p.drive = u32::MAX);
        b.write(0, 0, &[0; 4]);
    });
    // The last word's hold, to where its wires are let go.
    either("tDH: DQ changes", 1_000, 998, |ps| script(10_000 + ps as i64, |p| p.drive = 0));
    breaks("DQ is not all driven (0xfffffffe) at word 2 of a WRITE of bank 0", || {
        script(-4_000, |p| p.drive = 0xffff_fffe);
    });
    // No word, no rule.
    script(21_000, |p| p.dq ^= 1);
}

#[test]
fn the_controller_keeps_off_the_bus_of_a_read() {
    // CL 3: the device drives from 20 ns behind the READ to 60 ns and tHZ, which is 5.5 ns.
    let drive = |from: u64, to: u64| {
        let mut b = open();
        let taken = b.read(0, 0);
        b.dq.insert(taken + from, Some(0));
        b.dq.insert(taken + to, None);
        b.edges(12);
    };
    drive(10_000, 20_000);
    drive(65_500, 70_000);
    for (from, to) in
        [(10_000, 20_002), (65_498, 70_000), (30_000, 30_100), (10_000, 90_000), (25_000, 26_000)]
    {
        breaks("bus contention: DQ (0xffffffff) is driven", || drive(from, to));
    }
    breaks("bus contention: DQ (0x100) is driven", || {
        let mut b = open();
        let taken = b.read(0, 0);
        b.at(taken + 41_000, |p| p.drive = 0x100);
        b.edges(12);
    });
    // tLZ and tHZ are the device's, and CL's.
    let mut b = opened(with(|t| (t.lz_ps, t.hz_ps) = (1_000, [0, 7_000])));
    let taken = b.read(0, 0);
    b.dq.insert(taken + 19_000, Some(0));
    b.dq.insert(taken + 21_000, None);
    b.dq.insert(taken + 67_000, Some(0));
    b.edges(12);
    // A burst of one at CL 2 is valid two edges behind the READ.
    either("bus contention", 28_000, 27_998, |ps| {
        let mut b = opened(Bench::ready(timing(), 10_000, 1, mode(0, 2)));
        let taken = b.read(0, 0);
        b.dq.insert(taken + ps, Some(0));
        b.edges(12);
    });
}

#[test]
fn access_is_within_the_limits_of_the_latency() {
    either("tAC: access_ps is 5502, but at CL 3 no more than 5500", 5_500, 5_502, |ps| {
        let mut b = open();
        b.dev.drift(ps);
        b.read(0, 0);
    });
    let mut b = opened(Bench::ready(timing(), 10_000, 1, mode(2, 2)));
    b.dev.drift(8_000);
    b.read(0, 0);
    for ps in [1_999, 8_001] {
        let drifts = catch_unwind(|| Sdr::new(timing(), 1).drift(ps));
        assert!(drifts.is_err());
        let fresh = catch_unwind(|| Sdr::new(Timing { access_ps: ps, ..timing() }, 1));
        assert!(fresh.is_err());
    }
    Sdr::new(timing(), 1).drift(2_000);
}

#[test]
fn arguments_are_checked() {
    let fails = |f: fn()| assert!(catch_unwind(f).is_err());
    fails(|| _ = Sdr::new(Timing { startup_divisor: 0, ..timing() }, 1));
    fails(|| _ = Sdr::new(Timing { rows: 0, ..timing() }, 1));
    fails(|| _ = Sdr::new(timing(), 1).word(4, 0, 0));
    fails(|| _ = Sdr::new(timing(), 1).word(0, 2_048, 0));
    fails(|| _ = Sdr::new(timing(), 1).word(0, 0, 256));
    _ = Sdr::new(timing(), 1).word(3, 2_047, 255);
}
