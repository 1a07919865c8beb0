// SPDX-License-Identifier: MIT OR Apache-2.0
//! Yosys's BLIF, read once for all measures of a netlist: the count of cells, levels of logic, and the estimate of time.

use std::collections::HashMap;

use anyhow::{Context, Result};

/// A file: modules, the top first. It borrows the text, whose continued lines [`join`] has joined.
pub struct Blif<'a> {
    pub models: Vec<Model<'a>>,
}

/// A module. What stands outside of any is the top's.
#[derive(Default)]
pub struct Model<'a> {
    pub name: &'a str,
    pub inputs: Vec<&'a str>,
    pub outputs: Vec<&'a str>,
    /// Aliases: a net, and the one that it drives.
    pub aliases: Vec<(&'a str, &'a str)>,
    pub cells: Vec<Cell<'a>>,
}

/// A cell, or an instance of a module.
pub struct Cell<'a> {
    pub kind: &'a str,
    /// Its name, which `write_blif -cname` writes; empty without.
    pub name: &'a str,
    /// Pins with their nets.
    pub pins: Vec<(&'a str, &'a str)>,
    /// What `write_blif -param` writes: strings in quotes, numbers in binary.
    pub params: Vec<(&'a str, &'a str)>,
}

/// A text without continued lines.
pub fn join(text: &str) -> String {
    text.replace("\\\n", " ")
}

/// Whether a net is a constant. Nothing begins there.
pub fn is_constant(net: &str) -> bool {
    matches!(net, "$false" | "$true" | "$undef")
}

impl<'a> Blif<'a> {
    /// Reads a joined text.
    ///
    /// # Errors
    /// What is not BLIF as Yosys writes it.
    pub fn read(text: &'a str) -> Result<Blif<'a>> {
        let mut models: Vec<Model<'a>> = Vec::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let Some(kind) = words.next().filter(|word| word.starts_with('.')) else { continue };
            if kind == ".model" {
                models.push(Model { name: words.next().unwrap_or(""), ..Model::default() });
                continue;
            }
            if models.is_empty() {
                models.push(Model::default());
            }
            let Some(model) = models.last_mut() else { continue };
            match kind {
                ".inputs" => model.inputs.extend(words),
                ".outputs" => model.outputs.extend(words),
                ".names" | ".conn" => {
                    if let (Some(from), Some(to)) = (words.next(), words.next()) {
                        model.aliases.push((from, to));
                    }
                }
                ".subckt" | ".gate" => {
                    let kind = words.next().context("a cell without a type")?;
                    let pin =
                        |word: &'a str| word.split_once('=').with_context(|| format!("cell {kind}: {word}"));
                    let pins = words.map(pin).collect::<Result<_>>()?;
                    model.cells.push(Cell { kind, name: "", pins, params: Vec::new() });
                }
                ".cname" => {
                    if let (Some(name), Some(cell)) = (words.next(), model.cells.last_mut()) {
                        cell.name = name;
                    }
                }
                ".param" => {
                    if let (Some(name), Some(value), Some(cell)) =
                        (words.next(), words.next(), model.cells.last_mut())
                    {
                        cell.params.push((name, value));
                    }
                }
                _ => {}
            }
        }
        Ok(Blif { models })
    }

    /// Modules by name.
    pub fn by_name(&self) -> HashMap<&'a str, &Model<'a>> {
        self.models.iter().map(|model| (model.name, model)).collect()
    }
}

impl Cell<'_> {
    /// A parameter as a number; `"TRUE"` and `"FALSE"` are one and none. None if it is not there.
    pub fn number(&self, name: &str) -> Option<u64> {
        let (_, value) = self.params.iter().find(|(param, _)| *param == name)?;
        match *value {
            "\"TRUE\"" => Some(1),
            "\"FALSE\"" => Some(0),
            _ => u64::from_str_radix(value, 2).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_pins_and_parameters_and_lines_go_on_after_a_backslash() {
        let text = join(
            ".model top\n.inputs a \\\nb\n.outputs y\n.subckt RAMB36E2 CLKARDCLK=a \\\nDOUTADOUT[0]=y\n\
             .cname low.store.0.0\n.param DOA_REG 00000000000000000000000000000001\n.param DOB_REG 0\n.param OREG_A \"TRUE\"\n\
             .names $false z\n1 1\n.end\n.model low\n.end\n",
        );
        let blif = Blif::read(&text).unwrap();
        let top = &blif.models[0];
        assert_eq!((top.name, &top.inputs[..], &top.outputs[..]), ("top", &["a", "b"][..], &["y"][..]));
        assert_eq!(top.aliases, [("$false", "z")]);
        let cell = &top.cells[0];
        assert_eq!((cell.kind, cell.name, cell.pins.len()), ("RAMB36E2", "low.store.0.0", 2));
        let numbers = ["DOA_REG", "DOB_REG", "OREG_A", "READ_WIDTH_A"].map(|name| cell.number(name));
        assert_eq!(numbers, [Some(1), Some(0), Some(1), None]);
        assert_eq!(blif.by_name().len(), 2);
        assert!(Blif::read(".subckt LUT1 I0\n").is_err());
    }
}
