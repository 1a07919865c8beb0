// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each fault is seen, and leaves the other accesses alone.

use super::manager::{Script, AT};
use crate::axi::{AxiSettings, Fault, Response};

const BAD: [Response; 2] = [Response::SubordinateError, Response::DecodeError];

#[test]
fn a_read_fails_as_a_whole_or_in_one_beat() {
    for bad in BAD {
        for (fault, failed) in [
            (Fault::Whole(bad), vec![0, 1, 2, 3]),
            (Fault::Beat(0, bad), vec![0]),
            (Fault::Beat(2, bad), vec![2]),
            (Fault::Beat(99, bad), vec![3]),
        ] {
            let mut script = Script::new(16, AxiSettings::default());
            let memory = script.memory();
            script.axi.set_fault_predicate(Some(Box::new(move |access| {
                assert_eq!((access.write, access.bytes), (false, 64));
                (access.index == 1).then_some(fault)
            })));
            (0..3).for_each(|i| script.read(0, AT + 64 * i, 64));
            script.finish();
            for (i, (_, read)) in script.reads.iter().enumerate() {
                for (beat, response) in read.responses.iter().enumerate() {
                    let fails = i == 1 && failed.contains(&beat);
                    assert_eq!(*response, if fails { bad } else { Response::Okay }, "{fault:?}");
                    let data = &read.data[16 * beat..16 * beat + 16];
                    let good = &memory[64 * i + 16 * beat..][..16];
                    assert_eq!(data == good, !fails);
                }
            }
            assert_eq!((script.axi.stats().faults, script.axi.stats().read_errors), ([1, 0], 1));
            assert_eq!(script.axi.violation(), None);
        }
    }
}

#[test]
fn a_write_that_fails_is_not_done() {
    for bad in BAD {
        let mut script = Script::new(8, AxiSettings::default());
        let memory = script.memory();
        script.axi.set_fault_predicate(Some(Box::new(move |access| {
            (access.write && access.id == 1).then_some(Fault::Whole(bad))
        })));
        (0..3u8).for_each(|id| script.write(id, AT + 4096 * u64::from(id), &[id; 40]));
        script.finish();
        let responses: Vec<_> = script.responses.iter().map(|(_, b)| (b.id, b.response)).collect();
        assert_eq!(responses, [(0, Response::Okay), (1, bad), (2, Response::Okay)]);
        assert_eq!(script.now()[..40], [0; 40]);
        assert_eq!(script.now()[4096..4136], memory[4096..4136]);
        assert_eq!(script.now()[8192..8232], [2; 40]);
    }
}

#[test]
fn faults_come_as_often_as_they_are_asked_for() {
    let mut script = Script::new(64, AxiSettings::default());
    script.memory();
    script.axi.set_fault_rate(false, Fault::Whole(Response::DecodeError), 0.2);
    script.axi.set_fault_rate(true, Fault::Whole(Response::SubordinateError), 0.5);
    for _ in 0..1000 {
        script.read(0, AT, 64);
        script.write(0, AT + 4096, &[1; 64]);
    }
    script.finish();
    let reads = script.reads.iter().filter(|(_, read)| read.responses[0] != Response::Okay).count() as u64;
    let writes = script.responses.iter().filter(|(_, b)| b.response != Response::Okay).count() as u64;
    assert_eq!(script.axi.stats().faults, [reads, writes]);
    assert!((120..280).contains(&reads) && (400..600).contains(&writes), "{reads} {writes}");
}
