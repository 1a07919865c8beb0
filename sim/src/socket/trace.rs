// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Tracer`]: frames and waves of cards that run, in numbered files, from one signal to the next.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::cards::Cards;
use crate::say::say;

/// Where traces go.
pub struct Tracer {
    folder: PathBuf,
    /// Traces so far; the last one is being written.
    count: u32,
    /// Waves of each card in the trace that is being written; none is.
    waves: Option<Vec<u32>>,
}

impl Tracer {
    /// Into a folder, which is made.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        Ok(Self { folder: folder.to_path_buf(), count: 0, waves: None })
    }

    /// Begins a trace, or ends the one that is being written.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn toggle(&mut self, cards: &mut impl Cards) -> Result<()> {
        if self.end(cards) {
            say(format_args!("trace {} is in {}", self.count, self.folder.display()));
            return Ok(());
        }
        self.count += 1;
        cards.capture(&self.folder.join(format!("{}-wire.pcapng", self.count)))?;
        self.waves = Some(vec![0; cards.world().map_or(0, |world| world.cards())]);
        self.follow(cards)?;
        say(format_args!("trace {} begins", self.count));
        Ok(())
    }

    /// Ends the trace that is being written, if there is one. Whether there was.
    fn end(&mut self, cards: &mut impl Cards) -> bool {
        let Some(waves) = self.waves.take() else { return false };
        cards.end_capture();
        if let Some(world) = cards.world() {
            (0..waves.len()).for_each(|card| world.card_mut(card).close_wave());
        }
        true
    }

    /// A trace whose files cannot be written ends, and nothing else.
    pub fn or_end(&mut self, cards: &mut impl Cards, done: Result<()>) {
        if let Err(error) = done {
            say(format_args!("{error:#}; trace {} ends", self.count));
            // One that has not begun has no capture: another may go on.
            self.end(cards);
        }
    }

    /// Waves of a card end when another one takes its place, as a reset has it: the new one gets a file of its own. Emulated cards have none.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn follow(&mut self, cards: &mut impl Cards) -> Result<()> {
        let Some(world) = cards.world() else { return Ok(()) };
        for (number, waves) in self.waves.iter_mut().flatten().enumerate() {
            let card = world.card_mut(number);
            if card.has_wave() {
                continue;
            }
            *waves += 1;
            let part = if *waves > 1 { format!("-{waves}") } else { String::new() };
            card.open_wave(&self.folder.join(format!("{}-card{number}{part}.fst", self.count)))?;
        }
        Ok(())
    }
}
