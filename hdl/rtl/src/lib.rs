// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hardware described in Rust: running the description builds a netlist, which is checked, printed as Verilog-2005
//! and simulated.
//!
//! A circuit is a function. It takes the open module (`m`), parameters by reference, and signals or streams by value,
//! and gives signals or streams; marked `#[module]`, it becomes a Verilog module of its own.
//!
//! ```
//! use ferrowire_rtl::{build, Scope, Sig, Sim};
//!
//! /// Counts the cycles in which `step` is high.
//! #[ferrowire_rtl::module]
//! fn counter(m: &Scope, step: Sig) -> Sig {
//!     let count = m.reg("count", 8).reset(0);
//!     m.when(step, |m| m.set(&count, count + 1));
//!     count
//! }
//!
//! let netlist = build("top", |m| {
//!     let step = m.input("step", 1);
//!     m.output("count", &counter(m, step));
//! })
//! .unwrap();
//! assert!(netlist.verilog().contains("module counter"));
//!
//! let mut sim = Sim::new(&netlist);
//! sim.reset();
//! sim.set("step", 1);
//! sim.tick();
//! assert_eq!(sim.get("count"), 1);
//! ```
#![forbid(unsafe_code)]

extern crate self as ferrowire_rtl;

mod bits;
mod bundle;
mod cdc;
mod check;
mod crossings;
mod design;
mod eval;
mod fsm;
mod lint;
mod mem;
mod netlist;
mod pins;
mod scope;
mod sig;
mod sim;
mod stream;
mod verilog;
mod zoo;

pub use bits::Bits;
pub use bundle::{join, Bundle, Crossing, Interface, Value};
pub use cdc::async_fifo;
pub use crossings::ClockCrossing;
pub use ferrowire_rtl_macros::{circuit, module, Bundle, Fsm, Interface};
pub use fsm::{Fsm, FsmState};
pub use lint::{Finding, Rule};
pub use mem::{Mem, MemBuilder};
pub use netlist::{Collision, Netlist, Port, Style};
pub use pins::Pins;
pub use scope::{build, DomainId, Instance, RegBuilder, Scope, When};
pub use sig::{bits, cat, clog2, lit, lit_bits, Operand, Sig};
pub use sim::{PortIndex, Sim};
pub use stream::{Later, Stream};

use std::fmt;

/// What the checks found, one message each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildErrors(pub Vec<String>);

impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.join("\n"))
    }
}

impl std::error::Error for BuildErrors {}

#[doc(hidden)]
pub mod naming {
    //! Names from `let`: bundles take them, everything else passes.
    use crate::bundle::Bundle;
    use crate::stream::Stream;

    pub struct Tag<'a, T>(pub &'a T);

    pub trait NameBundle {
        fn give_name(&self, name: &str);
    }

    impl<T: Bundle> NameBundle for Tag<'_, T> {
        fn give_name(&self, name: &str) {
            self.0.clone().named_as(name);
        }
    }

    impl<T: Bundle> NameBundle for Tag<'_, Stream<T>> {
        fn give_name(&self, name: &str) {
            self.0.valid.named_as(&crate::join(name, "valid"));
            self.0.ready.named_as(&crate::join(name, "ready"));
            self.0.payload.clone().named_as(name);
        }
    }

    pub trait NameNothing {
        fn give_name(&self, name: &str);
    }

    impl<T> NameNothing for &Tag<'_, T> {
        fn give_name(&self, _name: &str) {}
    }
}

/// Gives what a `let` bound its name, where it is a bundle.
#[doc(hidden)]
#[macro_export]
macro_rules! __name {
    ($x:ident) => {{
        #[allow(unused_imports)]
        use $crate::naming::{NameBundle as _, NameNothing as _};
        (&$crate::naming::Tag(&$x)).give_name(stringify!($x));
    }};
}

/// The book's page about the language, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/rtl-in-ten-minutes.md")]
struct RtlInTenMinutes;

/// What must not compile.
///
/// A bundle is a struct of signals:
/// ```compile_fail
/// #[derive(Clone, ferrowire_rtl::Bundle)]
/// enum Either { Left, Right }
/// ```
/// A module gets the open scope first:
/// ```compile_fail
/// use ferrowire_rtl::Sig;
/// #[ferrowire_rtl::module]
/// fn invert(a: Sig) -> Sig { !a }
/// ```
/// A state has no fields:
/// ```compile_fail
/// #[derive(Clone, Copy, ferrowire_rtl::Fsm)]
/// enum State { Idle, Busy(u8) }
/// ```
/// A number alone has no width:
/// ```compile_fail
/// use ferrowire_rtl::{build, cat};
/// let _ = build("top", |m| m.output("o", &cat(&[m.input("a", 1), 0])));
/// ```
#[cfg(doctest)]
struct Refused;
