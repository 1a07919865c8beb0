// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire regs`: the registers, with what the tables say of them.

use clap::Args;
use ferrowire::spec::{Access, Block, Field, Register, ALL_BLOCKS};
use ferrowire::{Bus, Monitor};
use serde_json::{json, Value};

use crate::args::Common;
use crate::failure::Failure;
use crate::out;

/// Reads registers, with their fields and meaning; writes one on request
///
/// A name is `block.register` or `register`; `*` stands for anything and `?` for a character. Without names it is every register but the counters,
/// which `counters` shows. Reading does not disturb the card. Writing needs the card for itself, and a card is as after power-on when
/// its program leaves: what was written is read back before that.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    ferrowire -d sim:ferrowire0.sock regs\n  \
    ferrowire -d sim:ferrowire0.sock regs 'port.mac_*' tick\n  \
    ferrowire -d sim:ferrowire0.sock regs --write timers.tick=1000")]
pub struct RegsArgs {
    /// Which registers
    #[arg(value_name = "NAME|PATTERN")]
    names: Vec<String>,
    /// Write a register, and read it back. Bits that cannot be written must be as they are
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "names")]
    write: Option<String>,
}

/// A register of the tables.
#[derive(Clone, Copy)]
struct Place {
    block: &'static Block,
    register: &'static Register,
}

impl Place {
    /// The name with its block, as the tables write both.
    fn name(self) -> String {
        format!("{}.{}", self.block.name, self.register.name)
    }

    fn address(self) -> u32 {
        self.block.address(self.register)
    }

    /// Whether the card tells anything when it is read.
    fn is_readable(self) -> bool {
        self.register.fields.iter().any(|field| !matches!(field.access, Access::WO | Access::RSVD))
    }
}

fn every() -> impl Iterator<Item = Place> {
    ALL_BLOCKS.iter().flat_map(|block| block.registers.iter().map(|register| Place { block, register }))
}

/// Whether `text` is like `pattern`, where `*` is anything and `?` a character; small and capital letters are the same.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => is_like(rest, text) || (!text.is_empty() && is_like(pattern, &text[1..])),
        (Some((b'?', rest)), Some((_, text))) => is_like(rest, text),
        (Some((p, rest)), Some((t, text))) => p.eq_ignore_ascii_case(t) && is_like(rest, text),
        _ => false,
    }
}

/// The registers that a name or pattern means.
fn find(pattern: &str) -> Result<Vec<Place>, Failure> {
    let like = |text: &str| is_like(pattern.as_bytes(), text.as_bytes());
    let found: Vec<Place> =
        every().filter(|place| like(&place.name()) || like(place.register.name)).collect();
    match found.is_empty() {
        true => Err(Failure::usage(
            format!("no register is like `{pattern}`"),
            "`ferrowire regs` lists them; quote patterns, so that the shell leaves them alone",
        )),
        false => Ok(found),
    }
}

fn field_value(field: &Field, value: u64) -> u64 {
    value >> field.offset & field.max() as u64
}

/// Carries it out.
pub fn run(common: &Common, args: &RegsArgs) -> Result<(), Failure> {
    let device = common.device()?;
    if let Some(what) = &args.write {
        let (place, value) = parse_write(what)?;
        let mut bus = device.open()?;
        write(bus.as_mut(), place, value)?;
        return show(common, &mut Monitor::open(bus)?, &[place]);
    }
    let places: Vec<Place> = match args.names.is_empty() {
        // Counters are the registers of 8 bytes.
        true => every().filter(|place| place.register.bytes == 4).collect(),
        false => {
            let mut all = Vec::new();
            for name in &args.names {
                all.extend(find(name)?);
            }
            all
        }
    };
    show(common, &mut device.observe()?, &places)
}

fn show(common: &Common, monitor: &mut Monitor, places: &[Place]) -> Result<(), Failure> {
    let mut text = String::new();
    let mut list: Vec<Value> = Vec::new();
    for place in places {
        let register = place.register;
        let value = match place.is_readable() {
            true => Some(monitor.register(place.block, register)?),
            false => None,
        };
        let digits = 2 * register.bytes;
        let shown = value.map_or("write only".into(), |value| format!("{value:#0w$x}", w = digits + 2));
        text += &format!("{:#06x}  {:<32}{shown}  {}\n", place.address(), place.name(), brief(register.doc));
        let mut fields = Vec::new();
        for field in register.fields {
            let part =
                value.filter(|_| !matches!(field.access, Access::WO)).map(|value| field_value(field, value));
            let last = field.end() - 1;
            let bits = if field.width == 1 { format!("{last}") } else { format!("{last}:{}", field.offset) };
            let shown = part.map_or("-".into(), |part| format!("{part:#x}"));
            let access = field.access.name();
            text += &format!(
                "          {:<7}{access:<6}{:<24}{shown:<14}{}\n",
                bits,
                field.name,
                brief(field.doc)
            );
            fields.push(json!({
                "name": field.name, "bits": bits, "access": access, "value": part, "meaning": brief(field.doc),
            }));
        }
        list.push(json!({
            "name": place.name(),
            "address": place.address(),
            "value": value,
            "meaning": brief(register.doc),
            "fields": fields,
        }));
    }
    match common.json {
        true => out::json(&json!({ "device": common.device()?.to_string(), "registers": list })),
        false => out::text(&text),
    }
}

/// A text of the tables in a line.
fn brief(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn parse_write(text: &str) -> Result<(Place, u64), Failure> {
    let usage = |what: String, fix: &str| Failure::usage(what, fix);
    let Some((name, number)) = text.split_once('=') else {
        return Err(usage(format!("`{text}` has no `=`"), "give NAME=VALUE, as timers.tick=1000"));
    };
    let number = number.trim();
    let value = match number.strip_prefix("0x").or_else(|| number.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => number.parse(),
    };
    let value = value
        .map_err(|_| usage(format!("`{number}` is no number"), "give a decimal one, or one behind 0x"))?;
    let found = find(name)?;
    let [place] = found[..] else {
        let names: Vec<String> = found.iter().map(|place| place.name()).collect();
        return Err(usage(format!("`{name}` is {}", names.join(", ")), "name one register"));
    };
    let fields = place.register.fields;
    if !fields.iter().any(|field| matches!(field.access, Access::RW | Access::WO | Access::W1C)) {
        let fix = "`ferrowire regs` says which are RW, WO or W1C";
        return Err(usage(format!("{} is read only", place.name()), fix));
    }
    let all = fields.iter().fold(0, |mask, field| mask | (field.max() as u64) << field.offset);
    if value & !all != 0 {
        return Err(usage(
            format!("{value:#x} sets bits that {} does not have", place.name()),
            &format!("its bits are {all:#x}"),
        ));
    }
    Ok((place, value))
}

fn write(bus: &mut dyn Bus, place: Place, value: u64) -> Result<(), Failure> {
    let fixed = |access| matches!(access, Access::RO | Access::RSVD);
    let fields = place.register.fields.iter().filter(|field| fixed(field.access));
    let mask = fields.fold(0, |mask, field| mask | (field.max() as u64) << field.offset);
    let now = u64::from(bus.csr_read32(place.address())?);
    // A one where the card has a zero, or the other way round, would be ignored: that is not what was asked for.
    if (now ^ value) & mask != 0 && value & mask != 0 {
        return Err(Failure::usage(
            format!("{value:#x} changes read-only bits of {}, which is {now:#x}", place.name()),
            format!("leave the bits {mask:#x} as they are, or zero"),
        ));
    }
    Ok(bus.csr_write32(place.address(), value as u32)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_find_registers() {
        let names =
            |pattern: &str| find(pattern).unwrap().iter().map(|place| place.name()).collect::<Vec<_>>();
        assert_eq!(names("tick"), ["timers.tick"]);
        assert_eq!(names("PORT.mac_?O").len(), 1);
        assert_eq!(names("port.mac_*").len(), 2);
        assert_eq!(names("*").len(), every().count());
        assert!(find("nothing*").is_err());
    }

    #[test]
    fn only_what_can_be_written_is() {
        assert!(parse_write("timers.tick=0x10").is_ok());
        for bad in
            ["timers.tick", "timers.tick=x", "timers.tick=0x1000000", "magic=1", "port.mac_*=1", "no=1"]
        {
            assert!(parse_write(bad).is_err(), "{bad}");
        }
    }
}
