// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much the tests do, by tier.
//!
//! In the full tier (`cargo xtask test --full`, which sets `FERROWIRE_FULL=1`) a test that holds for every configuration runs over all of them. In the
//! default tier it takes one, by its name: so every configuration has its tests, and a test takes the same one each time.
//! `FERROWIRE_ROTATE=N` moves each test on by N configurations.

use ferrowire_sim::pair::EMULATED;

/// Whether this is the full tier.
pub fn full() -> bool {
    std::env::var_os("FERROWIRE_FULL").is_some_and(|value| value == "1")
}

/// A number of cases or cycles: that of the default tier, or of the full one.
pub fn number<T>(default: T, full_tier: T) -> T {
    if full() {
        full_tier
    } else {
        default
    }
}

/// Which of so many a test takes in the default tier.
pub fn turn(test: &str, of: usize) -> usize {
    let moved =
        std::env::var("FERROWIRE_ROTATE").ok().map(|text| text.parse().expect("FERROWIRE_ROTATE: a number"));
    // Any sum that spreads names will do, but it must stay the same with every Rust.
    let sum = test.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    (sum as usize / 7 + moved.unwrap_or(0)) % of
}

/// A configuration, by itself or with what a test does with it.
pub trait Configured: Copy {
    /// It is of cards in plain Rust, which take next to no time.
    fn is_emulated(self) -> bool;
}

impl Configured for &str {
    fn is_emulated(self) -> bool {
        self == EMULATED
    }
}

impl<T: Copy> Configured for (&str, T) {
    fn is_emulated(self) -> bool {
        self.0 == EMULATED
    }
}

/// All of these in the full tier; in the default one, one that a Verilated card has, and the emulated ones.
pub fn choose<T: Configured>(test: &str, all: &[T]) -> Vec<T> {
    if full() {
        return all.to_vec();
    }
    let (mut emulated, verilated): (Vec<T>, Vec<T>) = all.iter().partition(|config| config.is_emulated());
    emulated.extend(verilated.get(turn(test, verilated.len().max(1))));
    emulated
}

/// All of these in the full tier, and one in the default tier, by the test's name.
pub fn one_of<T>(test: &str, mut all: Vec<T>) -> Vec<T> {
    match full() {
        true => all,
        false => vec![all.swap_remove(turn(test, all.len()))],
    }
}

/// The name of the function it stands in, with its modules.
macro_rules! here {
    () => {{
        fn here() {}
        std::any::type_name_of_val(&here)
    }};
}
pub(crate) use here;

/// The configurations of these that the test runs over: see [`choose`].
macro_rules! chosen {
    ($all:expr) => {
        crate::tier::choose(crate::tier::here!(), &$all)
    };
}
pub(crate) use chosen;

#[test]
fn tests_take_turns_and_a_test_takes_the_same_each_time() {
    let names: Vec<String> = (0..64).map(|n| format!("all::subject::test_{n}")).collect();
    let turns: Vec<usize> = names.iter().map(|name| turn(name, 3)).collect();
    assert_eq!(turns, names.iter().map(|name| turn(name, 3)).collect::<Vec<_>>());
    for which in 0..3 {
        assert!(turns.iter().filter(|turn| **turn == which).count() > 8, "{turns:?}");
    }
    let all = ["small", EMULATED, "wide"];
    let some = choose(here!(), &all);
    assert_eq!(some.len(), if full() { 3 } else { 2 });
    assert!(some.contains(&EMULATED) && here!().contains("tests_take_turns"), "{some:?} {}", here!());
}
