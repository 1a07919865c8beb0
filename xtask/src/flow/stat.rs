// SPDX-License-Identifier: MIT OR Apache-2.0
//! Yosys's count of cells, as LUTs, flip-flops and block RAMs.
//!
//! LUT RAMs of several outputs (`RAM64M8`, ...) are macros: of their LUTs those count whose output goes somewhere, and the one whose
//! address writes. The others are not there when the macro has been taken apart.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, Context, Result};
use ferrowire_boards::nextpnr::CROWDED;
use ferrowire_boards::Part;
use serde::{Deserialize, Serialize};

use super::blif::{Blif, Cell};

/// What `stat -json` writes.
#[derive(Deserialize)]
pub struct Stat {
    modules: BTreeMap<String, Module>,
    /// Of each module, LUTs of its LUT RAMs that have nothing to do.
    #[serde(skip)]
    idle: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Module {
    #[serde(default)]
    num_cells_by_type: BTreeMap<String, u64>,
    #[serde(default)]
    num_submodules_by_type: BTreeMap<String, u64>,
}

/// What a design or a part of it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// LUTs: of six inputs on `xcup`, of four on `ecp5`; those of carry chains and LUT RAMs among them.
    pub lut: u64,
    /// Of these, LUTs that are memory.
    pub lutram: u64,
    /// Flip-flops.
    pub ff: u64,
    /// Block RAMs of 18 Kb; one of 36 Kb counts two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bram18: Option<u64>,
    /// Block RAMs of ECP5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ebr: Option<u64>,
    /// UltraRAMs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uram: Option<u64>,
    /// Multipliers.
    pub dsp: u64,
}

impl Cost {
    /// What it takes, what the part has, by name.
    pub fn of(&self, part: &Part) -> [(&'static str, u64, u64); 4] {
        [
            ("LUTs", self.lut, part.luts.into()),
            ("flip-flops", self.ff, part.luts.into()),
            ("block RAMs", self.ebr.unwrap_or_default(), part.ebr.into()),
            ("multipliers", self.dsp, part.dsp.into()),
        ]
    }

    /// What it takes more than the part has, if anything.
    pub fn too_large(&self, part: &Part) -> Option<String> {
        let short = self.of(part).into_iter().filter(|(_, needed, there)| needed > there);
        let short: Vec<String> = short
            .map(|(what, needed, there)| format!("has {there} {what}, the design takes {needed}"))
            .collect();
        (!short.is_empty()).then(|| format!("the {} {}", part.device(), short.join("; ")))
    }

    /// Whether so many of the block RAMs are in use that the router lacks wires round them.
    pub fn crowds(&self, part: &Part) -> bool {
        let (share, of) = CROWDED;
        u64::from(of) * self.ebr.unwrap_or_default() > u64::from(share * part.ebr)
    }
}

/// A module below the top, with all below it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Module names from the top down.
    pub name: String,
    /// The module.
    #[serde(skip)]
    pub module: String,
    /// How far below the top.
    #[serde(skip)]
    pub depth: usize,
    /// Instances of it in the module above; the figures are for all of them.
    pub instances: u64,
    #[serde(flatten)]
    pub cost: Cost,
    /// LUTs on the longest path that ends in it; none where it keeps nothing.
    pub longest_lut_path: Option<u32>,
}

impl Stat {
    /// Yosys's statistics, of the netlist `blif`.
    pub fn read(text: &str, blif: &Blif<'_>) -> Result<Stat> {
        let mut stat = Self::parse(text).context("reading Yosys's statistics")?;
        stat.idle = idle(blif);
        Ok(stat)
    }

    fn parse(text: &str) -> Result<Stat> {
        let mut stat: Stat = serde_json::from_str(text)?;
        // Names of the source have a backslash in front; parametrised ones do not.
        stat.modules =
            stat.modules.into_iter().map(|(n, m)| (n.trim_start_matches('\\').to_string(), m)).collect();
        Ok(stat)
    }

    /// All of the design.
    pub fn total(&self, top: &str) -> Result<Cost> {
        let mut cost = Cost::default();
        self.add(top, 1, &mut cost)?;
        Ok(cost)
    }

    /// The top and everything below it, parents first.
    pub fn blocks(&self, top: &str) -> Result<Vec<Block>> {
        let mut blocks = Vec::new();
        self.tree(top, top, 0, 1, &mut blocks)?;
        Ok(blocks)
    }

    fn tree(
        &self,
        name: &str,
        module: &str,
        depth: usize,
        times: u64,
        blocks: &mut Vec<Block>,
    ) -> Result<()> {
        let mut cost = Cost::default();
        self.add(module, times, &mut cost)?;
        blocks.push(Block {
            name: name.into(),
            module: module.into(),
            depth,
            instances: times,
            cost,
            longest_lut_path: None,
        });
        for (child, count) in self.children(module) {
            self.tree(&format!("{name}/{child}"), child, depth + 1, times * count, blocks)?;
        }
        Ok(())
    }

    /// Older versions of Yosys count submodules among the cells.
    fn children(&self, module: &str) -> impl Iterator<Item = (&str, u64)> {
        let module = self.modules.get(module);
        let counts =
            module.into_iter().flat_map(|m| m.num_cells_by_type.iter().chain(&m.num_submodules_by_type));
        counts.map(|(n, c)| (n.trim_start_matches('\\'), *c)).filter(|(n, _)| self.modules.contains_key(*n))
    }

    fn add(&self, module: &str, times: u64, cost: &mut Cost) -> Result<()> {
        let Some(here) = self.modules.get(module) else { bail!("no module {module} in the statistics") };
        let idle = times * self.idle.get(module).copied().unwrap_or(0);
        for (cell, count) in &here.num_cells_by_type {
            if !self.modules.contains_key(cell.trim_start_matches('\\')) {
                self.cell(cell, times * count, cost).with_context(|| format!("in module {module}"))?;
            }
        }
        cost.lut -= idle;
        cost.lutram -= idle;
        for (child, count) in self.children(module) {
            self.add(child, times * count, cost)?;
        }
        Ok(())
    }

    fn cell(&self, cell: &str, count: u64, cost: &mut Cost) -> Result<()> {
        let tally = |place: &mut Option<u64>, n: u64| *place = Some(place.unwrap_or(0) + n);
        let lutram = match cell {
            "TRELLIS_DPR16X4" => 6, // four, and the two of the slice that becomes its write port
            "SRL16E" | "SRLC16E" | "SRLC32E" | "RAM32X1S" | "RAM64X1S" => 1,
            "RAM32X1D" | "RAM64X1D" | "RAM128X1S" => 2,
            "RAM32M" | "RAM64M" | "RAM128X1D" | "RAM256X1S" => 4,
            "RAM32M16" | "RAM64M8" | "RAM64X8SW" | "RAM256X1D" | "RAM512X1S" => 8,
            _ => 0,
        };
        cost.lut += lutram * count;
        cost.lutram += lutram * count;
        match cell {
            _ if lutram > 0 => {}
            "LUT1" | "LUT2" | "LUT3" | "LUT4" | "LUT5" | "LUT6" | "INV" => cost.lut += count,
            "CCU2C" => cost.lut += 2 * count,
            "FDRE" | "FDSE" | "FDCE" | "FDPE" | "FDRE_1" | "FDSE_1" | "FDCE_1" | "FDPE_1" | "TRELLIS_FF" => {
                cost.ff += count;
            }
            "RAMB18E2" | "RAMB18E1" => tally(&mut cost.bram18, count),
            "RAMB36E2" | "RAMB36E1" => tally(&mut cost.bram18, 2 * count),
            "DP16KD" | "PDPW16KD" => tally(&mut cost.ebr, count),
            "URAM288" => tally(&mut cost.uram, count),
            "DSP48E2" | "DSP48E1" | "MULT18X18D" => cost.dsp += count,
            // Of a board's top: clocks, resets and what is at the balls.
            "EHXPLLL" | "DCCA" | "FD1S3BX" | "DELAYG" | "DELAYF" | "IDDRX1F" | "ODDRX1F" | "TRELLIS_IO" => {}
            // Likewise, with AMD's blocks, and the RNIC if it is left out.
            "IBUFDS" | "IBUFDS_GTE4" | "BUFGCE_DIV" | "pcie_block" | "cmac_block" | "card" => {}
            "MUXF7" | "MUXF8" | "MUXF9" | "CARRY4" | "CARRY8" | "PFUMX" | "L6MUX21" | "VCC" | "GND" => {}
            "$scopeinfo" => {}
            _ if cell.starts_with("LD") || cell.to_lowercase().contains("latch") => {
                bail!("{count} latch(es) ({cell})");
            }
            _ => bail!("the cell {cell} is not known to the count"),
        }
        Ok(())
    }
}

/// Of each module in a netlist, the LUTs of its LUT RAMs whose outputs go nowhere. Outputs are `DOA` to `DOH`, of one bit or two; the
/// last port's address is that of the write.
fn idle(blif: &Blif<'_>) -> BTreeMap<String, u64> {
    let luts = |cell: &Cell<'_>| match cell.kind {
        "RAM32M" | "RAM64M" => 4,
        "RAM32M16" | "RAM64M8" => 8,
        _ => 0,
    };
    let is_output = |pin: &str| pin.starts_with("DO");
    let idle = blif.models.iter().map(|model| {
        let mut used: BTreeSet<&str> = model.outputs.iter().copied().collect();
        used.extend(model.aliases.iter().map(|(from, _)| *from));
        for cell in &model.cells {
            // Outputs of other cells are among these: that a net is driven elsewhere as well is no matter.
            let pins = cell.pins.iter().filter(|(pin, _)| luts(cell) == 0 || !is_output(pin));
            used.extend(pins.map(|(_, net)| *net));
        }
        let spare = model.cells.iter().filter(|cell| luts(cell) > 0).map(|cell| {
            let last = if luts(cell) == 8 { "DOH" } else { "DOD" };
            let ports: BTreeSet<&str> = cell
                .pins
                .iter()
                .filter(|(pin, net)| is_output(pin) && used.contains(net))
                .map(|(pin, _)| pin.split('[').next().unwrap_or(pin))
                .filter(|port| *port != last)
                .collect();
            luts(cell) - 1 - ports.len() as u64
        });
        (model.name.to_string(), spare.sum())
    });
    idle.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_lut_ram_the_ports_in_use_count_and_the_one_that_writes() {
        let blif = ".model top\n.inputs a\n.outputs x\n\
            .subckt RAM64M8 ADDRA[0]=a DIA=a DOA=x DOB=b DOC=c DOH=h\n\
            .subckt LUT2 I0=b I1=a O=y\n\
            .subckt RAM32M16 DOA[0]=p DOA[1]=q DOB[0]=r DOB[1]=s\n.names q z\n1 1\n.end\n";
        // A and B of the first, A of the second.
        assert_eq!(idle(&Blif::read(blif).unwrap()), BTreeMap::from([("top".to_string(), 5 + 6)]));
    }

    const STAT: &str = r#"{ "modules": {
        "\\top": { "num_cells_by_type": { "LUT6": 2, "FDRE": 1, "RAM64M8": 1 }, "num_submodules_by_type": { "\\sub": 2 } },
        "\\sub": { "num_cells_by_type": { "RAMB36E2": 1, "RAMB18E2": 1, "LUT2": 3 } } } }"#;

    #[test]
    fn submodules_count_as_often_as_they_are_there() {
        let stat = Stat::parse(STAT).unwrap();
        let total = stat.total("top").unwrap();
        assert_eq!((total.lut, total.lutram, total.ff, total.bram18), (2 + 8 + 6, 8, 1, Some(6)));
        let blocks = stat.blocks("top").unwrap();
        assert_eq!((blocks[1].name.as_str(), blocks[1].instances, blocks[1].cost.lut), ("top/sub", 2, 6));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let part = Part::parse("LFE5UM5G-85F-8BG756C").unwrap();
        let cost = Cost { lut: 90_000, ebr: Some(300), ..Cost::default() };
        let why = cost.too_large(&part).unwrap();
        assert_eq!(
            why,
            "the LFE5UM5G-85F has 83640 LUTs, the design takes 90000; has 208 block RAMs, the design takes 300"
        );
        assert_eq!(Cost::default().too_large(&part), None);
        assert!(cost.crowds(&part) && !Cost { lut: 55_000, ..Cost::default() }.crowds(&part));
    }

    #[test]
    fn latches_and_unknown_cells_are_errors() {
        let with = |cell: &str| format!(r#"{{"modules":{{"t":{{"num_cells_by_type":{{"{cell}":1}}}}}}}}"#);
        for cell in ["LDCE", "$_DLATCH_P_"] {
            let error = format!("{:#}", Stat::parse(&with(cell)).unwrap().total("t").unwrap_err());
            assert!(error.contains("1 latch(es)"), "{error}");
        }
        assert!(Stat::parse(&with("NOVEL")).unwrap().total("t").is_err());
    }
}
