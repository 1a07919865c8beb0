// SPDX-License-Identifier: MIT OR Apache-2.0
//! State machines: an enum as a signal.

use crate::bundle::{Bundle, Crossing, Interface, Value};
use crate::design::{with, Loc};
use crate::netlist::Op;
use crate::scope::Scope;
use crate::sig::{bits, clog2, Sig};
use crate::Bits;
use std::marker::PhantomData;
use std::panic::Location;

/// A fieldless enum whose variants are states. Derive it with `#[derive(Fsm)]`.
pub trait FsmState: Copy {
    /// The variants' names.
    const VARIANTS: &'static [&'static str];
    /// The enum's name.
    const NAME: &'static str;
    /// Position of this variant.
    fn index(self) -> u64;
}

/// A signal that holds a state.
#[derive(Clone, Copy, Debug)]
pub struct Fsm<S: FsmState> {
    sig: Sig,
    state: PhantomData<S>,
}

impl<S: FsmState> Fsm<S> {
    /// Bits of the state's code.
    pub fn width() -> u32 {
        clog2(S::VARIANTS.len() as u64)
    }

    /// A shape.
    pub fn of() -> Self {
        Fsm { sig: bits(Self::width()), state: PhantomData }
    }

    #[doc(hidden)]
    pub fn constant(state: S, _loc: Loc) -> Self {
        let value = Bits::new(Self::width(), u128::from(state.index()));
        let label = Some((S::NAME, S::VARIANTS[state.index() as usize]));
        let sig = with(|d| {
            let id = d.add(Op::Const(value, label), Self::width(), _loc);
            d.sig(id)
        });
        Fsm { sig, state: PhantomData }
    }

    /// Whether this is the state.
    #[track_caller]
    pub fn is(&self, state: S) -> Sig {
        let loc = Location::caller();
        self.sig.eq(Self::constant(state, loc).sig)
    }

    /// Whether this is one of the states.
    #[track_caller]
    pub fn is_any(&self, states: &[S]) -> Sig {
        let mut any = crate::lit(1, 0);
        for state in states {
            any = any | self.is(*state);
        }
        any
    }

    /// The code.
    pub fn code(&self) -> Sig {
        self.sig
    }
}

impl<S: FsmState> Bundle for Fsm<S> {
    fn map(&self, path: &str, f: &mut dyn FnMut(&str, &Sig) -> Sig) -> Self {
        Fsm { sig: f(path, &self.sig), state: PhantomData }
    }
}

impl<S: FsmState> Interface for Fsm<S> {
    fn cross(self, crossing: &mut Crossing, path: &str) -> Self {
        Fsm { sig: crossing.forward(path, self.sig), state: PhantomData }
    }
}

impl<S: FsmState> Value<Fsm<S>> for Fsm<S> {
    fn value(self, _target: &Fsm<S>, _loc: Loc) -> Fsm<S> {
        self
    }
}

impl Scope {
    /// A state register that resets to `first`.
    #[track_caller]
    pub fn fsm<S: FsmState>(&self, name: &str, first: S) -> Fsm<S> {
        Fsm { sig: self.reg(name, Fsm::<S>::width()).reset(first.index()), state: PhantomData }
    }
}
