// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`SerialLine`]: the driver's [`Line`] to a card on a board in a world of this process.

use std::io;
use std::time::Duration;

use ferrowire::serial::Line;

use crate::bus::SharedWorld;

/// Cycles between two looks at what has come.
const QUANTUM: u64 = 64;

/// The serial line of a card of a world; the world moves while something is waited for.
pub struct SerialLine {
    world: SharedWorld,
    card: usize,
}

impl SerialLine {
    /// That of `card`, which is on a board.
    pub fn new(world: SharedWorld, card: usize) -> Self {
        Self { world, card }
    }
}

impl Line for SerialLine {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world.lock();
        let (to_board, _) = world.card_mut(self.card).serial().ok_or_else(no_board)?;
        to_board.push(bytes);
        Ok(())
    }

    fn receive(&mut self, out: &mut [u8], within: Duration) -> io::Result<usize> {
        let until = self.now() + within;
        loop {
            // Given up between two looks, so that other cards' programs go on.
            let mut world = self.world.lock();
            world.check().map_err(io::Error::other)?;
            let (_, to_pc) = world.card_mut(self.card).serial().ok_or_else(no_board)?;
            if !to_pc.bytes.is_empty() {
                let n = to_pc.bytes.len().min(out.len());
                out[..n].copy_from_slice(&to_pc.bytes[..n]);
                to_pc.bytes.drain(..n);
                return Ok(n);
            }
            if world.time() >= until {
                return Ok(0);
            }
            world.run(QUANTUM);
        }
    }

    fn now(&self) -> Duration {
        self.world.lock().time()
    }

    fn cycles(&mut self) -> Option<u64> {
        Some(self.world.lock().cycle())
    }
}

fn no_board() -> io::Error {
    io::Error::other("the card is on no board; make its model with `CardModel::on_a_board`")
}
