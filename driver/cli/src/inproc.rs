// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two cards in this process, wired together: `-d inproc`, and `-d inproc:engine` for such as are no cards.

use ferrowire::Bus;

use crate::failure::Failure;

/// The ways to the two cards.
pub type Pair = (Box<dyn Bus>, Box<dyn Bus>);

/// What they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Simulated cards.
    Cards,
    /// The reference engine behind a card's registers and rings: no hardware is simulated, and its time is its own.
    Engine,
}

impl Kind {
    /// As `-d` names it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Cards => "inproc",
            Kind::Engine => "inproc:engine",
        }
    }
}

/// Two of a kind. Cards are of the configuration `generic-64b`, or of the one that `FERROWIRE_CONFIG` names.
///
/// # Errors
/// There is no such configuration, or its model cannot be built.
#[cfg(feature = "inproc")]
pub fn pair(kind: Kind) -> Result<Pair, Failure> {
    match kind {
        Kind::Cards => cards(),
        Kind::Engine => {
            let world = ferrowire_sim::emulated::EngineWorld::pair();
            Ok((Box::new(world.bus(0)), Box::new(world.bus(1))))
        }
    }
}

#[cfg(feature = "inproc")]
fn cards() -> Result<Pair, Failure> {
    use ferrowire::spec::csr::port;
    use ferrowire_hdl::config::RnicConfig;
    use ferrowire_sim::bus::World;
    use ferrowire_sim::card::CardModel;
    use ferrowire_sim::measure;

    let name = std::env::var("FERROWIRE_CONFIG").unwrap_or_else(|_| "generic-64b".into());
    let failed = |error: String| {
        let fix = "run `cargo xtask setup`, or set FERROWIRE_CONFIG to a built-in configuration";
        Failure::failed(format!("inproc: {error}"), fix)
    };
    let config = RnicConfig::named(&name).map_err(|error| failed(format!("{name}: {error}")))?;
    let model = CardModel::rnic(&config, false).map_err(|error| failed(format!("{error:#}")))?;
    let mut world = World::pair(&model, 0, 0).map_err(|error| failed(format!("{error:#}")))?;
    world.set_line_rate(Some(measure::line_gbps(config.beat_bytes, config.clock_khz)));
    let world = world.share();
    let card = |card: usize| -> Result<Box<dyn Bus>, Failure> {
        let mut bus = world.bus(card);
        // As from a board's memory; of a range that is nobody's.
        bus.csr_write32(port::BLOCK.address(&port::MAC_LO), 1 + card as u32)?;
        bus.csr_write32(port::BLOCK.address(&port::MAC_HI), 0x02fe)?;
        Ok(Box::new(bus))
    };
    Ok((card(0)?, card(1)?))
}

/// This command was built without them.
///
/// # Errors
/// That.
#[cfg(not(feature = "inproc"))]
pub fn pair(kind: Kind) -> Result<Pair, Failure> {
    Err(Failure::failed(
        format!("{}: this command was built without cards of its own", kind.name()),
        "build it with `cargo build -p ferrowire-cli --features inproc`, or start cards with `ferrowire sim up`",
    ))
}
