// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Part`]: an ECP5, from its ordering number.

/// An FPGA of Lattice's ECP5 family (FPGA-DS-02012).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Thousands of LUTs, as in its name.
    pub size: u32,
    /// With transceivers: none, of 3.2 Gb/s, of 5 Gb/s.
    pub series: Series,
    /// Speed grade: 6, 7 or 8; 8 is the fastest.
    pub speed: u32,
    /// Balls of the package.
    pub balls: u32,
    /// LUTs, and as many flip-flops.
    pub luts: u32,
    /// Block RAMs of 18 Kib.
    pub ebr: u32,
    /// Multipliers of 18 by 18 bits.
    pub dsp: u32,
}

/// Which transceivers it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// LFE5U: none.
    U,
    /// LFE5UM: of 3.2 Gb/s.
    Um,
    /// LFE5UM5G: of 5 Gb/s.
    Um5g,
}

/// Letters of the rows of balls (JEDEC 95).
const ROWS: &str = "ABCDEFGHJKLMNPRTUVWY";

impl Part {
    /// From an ordering number, such as `LFE5U-45F-6BG381C`.
    pub fn parse(number: &str) -> Option<Part> {
        let mut parts = number.split('-');
        let series = match parts.next()? {
            "LFE5U" => Series::U,
            "LFE5UM" => Series::Um,
            "LFE5UM5G" => Series::Um5g,
            _ => return None,
        };
        let (size, luts, ebr, dsp) = match parts.next()? {
            "25F" => (25, 24_288, 56, 28),
            "45F" => (45, 43_848, 108, 72),
            "85F" => (85, 83_640, 208, 156),
            _ => return None,
        };
        let (speed, package) = parts.next()?.split_once("BG")?;
        let speed = speed.parse().ok().filter(|speed| (6..=8).contains(speed))?;
        let balls = package.strip_suffix(['C', 'I'])?.parse().ok()?;
        let part = Part { size, series, speed, balls, luts, ebr, dsp };
        (parts.next().is_none() && part.side().is_some()).then_some(part)
    }

    /// Rows and columns of balls of its package.
    fn side(&self) -> Option<u32> {
        [(256, 16), (381, 20), (554, 26), (756, 32)]
            .into_iter()
            .find(|(n, _)| *n == self.balls)
            .map(|(_, n)| n)
    }

    /// Whether a ball of this name can be there. Which of them are inputs and outputs is for the tools to say.
    pub fn has_ball(&self, name: &str) -> bool {
        ball(name, self.side().expect("a known package"))
    }

    /// Its name without speed and package.
    pub fn device(&self) -> String {
        let series = match self.series {
            Series::U => "U",
            Series::Um => "UM",
            Series::Um5g => "UM5G",
        };
        format!("LFE5{series}-{}F", self.size)
    }

    /// Options of `nextpnr-ecp5`.
    pub fn nextpnr(&self) -> [String; 5] {
        let series = match self.series {
            Series::U => "",
            Series::Um => "um-",
            Series::Um5g => "um5g-",
        };
        let device = format!("--{series}{}k", self.size);
        [device, "--package".into(), format!("CABGA{}", self.balls), "--speed".into(), self.speed.to_string()]
    }
}

/// Whether a package with so many rows and columns can have a ball of this name.
pub(crate) fn ball(name: &str, side: u32) -> bool {
    let rows: Vec<char> = ROWS.chars().collect();
    let letters: String = name.chars().take_while(char::is_ascii_uppercase).collect();
    let row = |letter: char| rows.iter().position(|known| *known == letter);
    let row = match letters.chars().collect::<Vec<_>>()[..] {
        [one] => row(one),
        ['A', two] => row(two).map(|place| place + rows.len()),
        ['B', two] => row(two).map(|place| place + 2 * rows.len()),
        _ => None,
    };
    let digits = &name[letters.len()..];
    let column: Option<u32> = digits.parse().ok().filter(|_| !digits.starts_with(['0', '+']));
    row.is_some_and(|row| (row as u32) < side) && column.is_some_and(|column| (1..=side).contains(&column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordering_numbers_are_taken_apart_or_refused() {
        let part = Part::parse("LFE5U-45F-6BG381C").unwrap();
        assert_eq!((part.luts, part.ebr, part.dsp, part.speed), (43_848, 108, 72, 6));
        assert_eq!(part.device(), "LFE5U-45F");
        assert_eq!(part.nextpnr(), ["--45k", "--package", "CABGA381", "--speed", "6"]);
        for wrong in [
            "",
            "LFE5U",
            "LFE5X-45F-6BG381C",
            "LFE5U-46F-6BG381C",
            "LFE5U-45F-9BG381C",
            "LFE5U-45F-6BG380C",
            "LFE5U-45F-6BG381",
            "LFE5U-45F-6BG381C-X",
        ] {
            assert_eq!(Part::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn balls_are_those_of_the_package() {
        let part = Part::parse("LFE5U-45F-6BG381C").unwrap();
        assert!(["A1", "A20", "Y20", "J19"].iter().all(|ball| part.has_ball(ball)));
        let wrong = ["", "A", "1", "A0", "A01", "A21", "I3", "O3", "AA1", "a1", "A+1", "Y 1"];
        assert!(!wrong.iter().any(|ball| part.has_ball(ball)));
        let large = Part::parse("LFE5UM5G-85F-8BG554I").unwrap();
        assert!(["AF26", "AA2", "A26"].iter().all(|ball| large.has_ball(ball)));
        assert!(!["AG1", "BA1", "A27", "AAA1"].iter().any(|ball| large.has_ball(ball)));
    }
}
