// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pair states and transitions.

use ferrowire_spec::qp_state::{
    check, transition, AttributeBit as A, Attributes, TransitionError, TRANSITIONS,
};
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::QpState::{self, Err as Error, Init, Reset, Rtr, Rts, Sqd, Sqe};

const SERVICES: [Service; 3] = [Service::Rc, Service::Uc, Service::Ud];

#[test]
fn states_have_the_codes_of_the_host_interface() {
    let codes: Vec<u8> = QpState::ALL.iter().map(|s| s.code()).collect();
    assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(QpState::try_from(7).unwrap_err().to_string(), "qp_state: no meaning for code 0x07");
}

#[test]
fn only_the_transitions_of_the_standard_are_legal() {
    let legal = |service, from: QpState, to: QpState| match (from, to) {
        (_, Reset) => true,
        (Reset, Error) => false,
        (_, Error) => true,
        (Reset, Init) | (Init, Init) | (Init, Rtr) | (Rtr, Rts) | (Rts, Rts) => true,
        (Rts, Sqd) | (Sqd, Rts) | (Sqd, Sqd) => true,
        (Sqe, Rts) => service != Service::Rc,
        _ => false,
    };
    for service in SERVICES {
        for &from in QpState::ALL {
            for &to in QpState::ALL {
                let found = transition(service, from, to);
                assert_eq!(found.is_some(), legal(service, from, to), "{service} {from} -> {to}");
                let result = check(service, from, to, found.map_or(Attributes::NONE, |t| t.required));
                match found {
                    Some(t) => assert_eq!(result, Ok(t)),
                    None => assert_eq!(result, Err(TransitionError::Illegal { from, to })),
                }
            }
        }
    }
    assert_eq!(transition(Service::Cnp, Reset, Init), None);
}

#[test]
fn a_missing_attribute_is_named() {
    for t in TRANSITIONS {
        for &bit in A::ALL.iter().filter(|b| t.required.contains(**b)) {
            let given = t.required.without(Attributes::of(&[bit]));
            let error = check(t.service, t.from, t.to, given).unwrap_err();
            assert_eq!(error, TransitionError::Missing(Attributes::of(&[bit])));
            assert_eq!(error.to_string(), format!("missing: {bit}"));
        }
    }
}

#[test]
fn an_attribute_that_does_not_belong_is_named() {
    for t in TRANSITIONS {
        for &bit in A::ALL {
            let given = t.required.with(Attributes::of(&[bit]));
            let allowed = t.required.contains(bit) || t.optional.contains(bit);
            let result = check(t.service, t.from, t.to, given);
            if allowed {
                assert_eq!(result, Ok(*t));
            } else {
                assert_eq!(result, Err(TransitionError::NotAllowed(Attributes::of(&[bit]))));
            }
        }
        assert!(check(t.service, t.from, t.to, t.required.with(Attributes(1 << 31))).is_err());
    }
}

#[test]
fn no_attribute_is_both_required_and_optional_and_no_transition_stands_twice() {
    for (i, t) in TRANSITIONS.iter().enumerate() {
        assert_eq!(t.required.0 & t.optional.0, 0);
        assert!(TRANSITIONS[..i].iter().all(|o| (o.service, o.from, o.to) != (t.service, t.from, t.to)));
        let reliable =
            [A::Timeout, A::RetryCnt, A::RnrRetry, A::MinRnrTimer, A::MaxRdAtomic, A::MaxDestRdAtomic];
        let uses = reliable.iter().any(|b| t.required.with(t.optional).contains(*b));
        assert!(!uses || t.service == Service::Rc, "{t:?}");
    }
}

#[test]
fn a_reliable_connection_comes_up_with_exactly_these_attributes() {
    let of = Attributes::of;
    let up = [
        (Reset, Init, of(&[A::Pkey, A::Access])),
        (Init, Rtr, of(&[A::Av, A::PathMtu, A::DestQpn, A::RqPsn, A::MaxDestRdAtomic, A::MinRnrTimer])),
        (Rtr, Rts, of(&[A::SqPsn, A::Timeout, A::RetryCnt, A::RnrRetry, A::MaxRdAtomic])),
    ];
    for (from, to, required) in up {
        assert_eq!(check(Service::Rc, from, to, required).unwrap().required, required);
    }
}

#[test]
fn what_a_state_lets_through_grows_from_reset_to_rts() {
    let facts = |s: QpState| (s.takes_receives(), s.responds(), s.requests(), s.takes_responses());
    assert_eq!(facts(Reset), (false, false, false, false));
    assert_eq!(facts(Init), (true, false, false, false));
    assert_eq!(facts(Rtr), (true, true, false, false));
    assert_eq!(facts(Rts), (true, true, true, true));
    assert_eq!(facts(Sqd), (true, true, false, true));
    assert_eq!(facts(Sqe), (true, true, false, false));
    assert_eq!(facts(Error), (false, false, false, false));
}
