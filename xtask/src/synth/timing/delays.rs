// SPDX-License-Identifier: MIT OR Apache-2.0
//! The delays: one table, [`TABLE`], which the book shows and `xtask/tools/sta.py` reads as well.

use anyhow::{Context, Result};

/// A row for each delay: its name, nanoseconds, what has it, and its source.
pub const TABLE: &str = include_str!("delays.md");

/// Nanoseconds of a row.
fn of(name: &str) -> Result<f64> {
    let cells = |row: &'static str| row.split('|').map(str::trim).collect::<Vec<_>>();
    let wanted = format!("`{name}`");
    let row = TABLE.lines().map(cells).find(|cells| cells.get(1) == Some(&wanted.as_str()));
    row.and_then(|cells| cells.get(2)?.parse().ok())
        .with_context(|| format!("the table of delays has no number for {name}"))
}

macro_rules! delays {
    ($($name:ident),* $(,)?) => {
        /// The table's nanoseconds, by name.
        #[derive(Clone, Copy)]
        pub struct Delays { $(pub $name: f64),* }

        impl Delays {
            /// # Errors
            /// A delay that the table has not.
            pub fn read() -> Result<Delays> {
                Ok(Delays { $($name: of(stringify!($name))?),* })
            }

            #[cfg(test)]
            const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];
        }
    };
}

delays![
    ff_out,
    ff_data,
    ff_control,
    lut,
    mux_data,
    mux_select,
    carry_sum,
    carry_across,
    carry_carry,
    carry_in_sum,
    lutram_out,
    lutram_read,
    lutram_write,
    srl_out,
    srl_write,
    bram_out,
    bram_register_out,
    bram_address,
    bram_enable,
    bram_data,
    bram_cascade,
    uram_out,
    uram_register_out,
    uram_address,
    uram_enable,
    uram_data,
    uram_cascade,
    dsp_out,
    dsp_sum_out,
    dsp_product_out,
    dsp_register,
    dsp_product,
    dsp_all,
    dsp_sum,
    dsp_through,
    dsp_sum_through,
    pcie_out,
    pcie_setup,
    cmac_out,
    cmac_setup,
    net,
    net_doubling,
    net_local,
    uncertainty,
];

impl Delays {
    /// A net with so many loads.
    pub fn net(&self, loads: u32) -> f64 {
        self.net + self.net_doubling * f64::from(loads.max(1)).log2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_the_table_is_used_and_has_a_source() {
        let delays = Delays::read().unwrap();
        let rows: Vec<Vec<&str>> =
            TABLE.lines().skip(2).map(|row| row.split('|').map(str::trim).collect()).collect();
        let names: Vec<&str> = rows.iter().map(|row| row[1].trim_matches('`')).collect();
        assert_eq!(names, Delays::NAMES);
        for row in &rows {
            assert!(
                row[2].parse::<f64>().unwrap().abs() < 2.0 && !row[3].is_empty() && !row[4].is_empty(),
                "{row:?}"
            );
        }
        assert!((delays.net(1) - 0.22).abs() < 1e-9 && (delays.net(4) - 0.31).abs() < 1e-9);
        assert!(of("novel").is_err());
    }
}
