// SPDX-License-Identifier: MIT OR Apache-2.0
//! Between the core's clock and twice that: what goes to the device in a cycle, in two halves, and what its data wires had in the four quarters of one.
//!
//! ```text
//!  entry --> [ asynchronous FIFO ] --> first half: CK 0 1, the first word    --> cells
//!                                      second half: CK 1 0, the second word
//!
//!  samples <-- [ asynchronous FIFO ] <-- [ two halves of two quarters ] <------- cells
//! ```
//!
//! A cycle's quarters of the clock wire are 0, 1, 1, 0: its rising edge lies a quarter behind where commands and data change, its falling one a quarter behind the second word; the strobe's likewise while it is asked for.
//!
//! **Steady.** An entry is taken every second edge and another made: the FIFO is as full as it was. The first waits for [`SLACK`] edges more, so that none is missing where the clocks' edges lie close and one is seen late. The same on the way back.
//!
//! Reset of both domains together, and its end in either first, by whatever time: nothing is handed on before both run. The device sees RESET# low and no command. Longest path: the FIFO's word to a register.

use ferrowire_rtl::{bits, cat, lit, module, Bundle, Interface, Scope, Sig, Stream};

use crate::capture::Samples;
use crate::commands::Written;
use crate::config::WORD_BITS;
use crate::rows::Command;

/// Edges, of the clock that takes, by which the first entry is late.
const SLACK: u32 = 4;

/// What goes to the device in a cycle.
#[derive(Clone, Bundle)]
pub(crate) struct Entry {
    pub reset_n: Sig,
    pub cke: Sig,
    pub command: Command,
    pub written: Written,
}

/// What the cells send in a half of a cycle. Where there are two bits of a wire, they are its two quarters, the first lowest.
#[derive(Clone, Bundle)]
pub struct Halves {
    /// RESET#.
    pub reset_n: Sig,
    /// CKE.
    pub cke: Sig,
    /// CK: two quarters.
    pub ck: Sig,
    /// RAS#.
    pub ras_n: Sig,
    /// CAS#.
    pub cas_n: Sig,
    /// WE#.
    pub we_n: Sig,
    /// Bank.
    pub ba: Sig,
    /// Address.
    pub a: Sig,
    /// Data and strobes are driven.
    pub drive: Sig,
    /// DQS, all alike: two quarters.
    pub dqs: Sig,
    /// DQ.
    pub dq: Sig,
    /// DM.
    pub dm: Sig,
}

/// What the cells caught in a half of a cycle, of all data wires.
#[derive(Clone, Bundle)]
pub struct Sampled {
    /// At the rising edge.
    pub rise: Sig,
    /// At the falling edge behind it.
    pub fall: Sig,
}

impl Sampled {
    /// The shape.
    pub fn of() -> Self {
        Sampled { rise: bits(WORD_BITS), fall: bits(WORD_BITS) }
    }
}

/// What leaves.
#[derive(Interface)]
pub(crate) struct Geared {
    pub halves: Halves,
    pub samples: Stream<Samples>,
}

/// Something that comes as often as it is taken: from when it has come for the first time and a little has gathered. One is taken where `takes`.
pub(crate) fn steady<T: Bundle>(m: &Scope, name: &str, takes: Sig, input: Stream<T>) -> (Sig, T) {
    let late = m.reg(&format!("{name}_late"), 3).reset(SLACK);
    let steady = !late.any();
    m.when(input.valid & !steady, |m| m.set(&late, late - 1));
    input.accept(steady & takes);
    m.assert(!(steady & takes) | input.valid, "the other side is as fast");
    (steady, input.payload)
}

/// See the page's top; in twice the core's clock.
#[module]
pub(crate) fn gear(m: &Scope, input: Stream<Entry>, sampled: Sampled) -> Geared {
    let second = m.reg("second", 1).reset(0);
    m.set(&second, !second);
    let (running, entry) = steady(m, "entry", second, input);
    let now = m.reg_of("now", &entry);
    m.when(second, |m| m.set_all(&now, &entry));
    let known = m.reg("known", 1).reset(0);
    m.when(second & running, |m| m.set(&known, 1));

    // `second` is the half behind that of `now`'s coming.
    let clocked = |first: Sig| m.mux(second, &cat(&[first, lit(1, 0)]), &cat(&[lit(1, 0), first]));
    let kept = |name: &str, sig: Sig, idle: u64| {
        let wire = m.reg(name, sig.width()).reset(idle);
        m.set(&wire, known.then(sig, lit(sig.width(), idle)));
        wire
    };
    let word = |sig: Sig| {
        let width = sig.width() / 2;
        m.mux(second, &sig.slice(width, width), &sig.trunc(width))
    };
    let free = |name: &str, sig: Sig| m.delay(name, &sig);
    let Entry { reset_n, cke, command, written } = now;
    let halves = Halves {
        reset_n: kept("reset_n", reset_n, 0),
        cke: kept("cke", cke, 0),
        ck: free("ck", clocked(lit(1, 1))),
        ras_n: kept("ras_n", command.ras_n, 1),
        cas_n: kept("cas_n", command.cas_n, 1),
        we_n: kept("we_n", command.we_n, 1),
        ba: free("ba", command.ba),
        a: free("a", command.a),
        drive: kept("drive", written.drive, 0),
        dqs: free("dqs", clocked(written.strobe)),
        dq: free("dq", word(written.data)),
        dm: free("dm", word(written.mask)),
    };

    // Two halves of samples are a cycle's. They begin once the core's side runs, which has sent something then.
    let earlier = m.reg_of("earlier", &sampled);
    m.set_all(&earlier, &sampled);
    let quarters = vec![earlier.rise, earlier.fall, sampled.rise, sampled.fall];
    let samples = Stream::new(m, "samples", second & known, Samples { quarters });
    m.discard(&samples.ready);
    Geared { halves, samples }
}
