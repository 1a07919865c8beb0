// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Tracer`]: frames and waves of cards that run, in numbered files, from one signal to the next.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::bus::World;

/// Where traces go.
pub struct Tracer {
    folder: PathBuf,
    /// Traces so far; the last one is being written.
    count: u32,
    running: bool,
}

impl Tracer {
    /// Into a folder, which is made.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        Ok(Self { folder: folder.to_path_buf(), count: 0, running: false })
    }

    /// Begins a trace, or ends the one that is being written. Waves of a card end when it is reset, too.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn toggle(&mut self, world: &mut World, cards: usize) -> Result<()> {
        self.running = !self.running;
        if !self.running {
            world.end_capture();
            (0..cards).for_each(|card| world.card_mut(card).close_wave());
            eprintln!("trace {} is in {}", self.count, self.folder.display());
            return Ok(());
        }
        self.count += 1;
        world.capture(&self.folder.join(format!("{}-wire.pcapng", self.count)))?;
        for card in 0..cards {
            let wave = self.folder.join(format!("{}-card{card}.fst", self.count));
            world.card_mut(card).open_wave(&wave)?;
        }
        eprintln!("trace {} begins", self.count);
        Ok(())
    }
}
