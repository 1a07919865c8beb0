// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields of the tables in `ferrowire-spec` as signals, so that no block counts bits itself.
//!
//! A structure travels as one signal whose bits 7:0 are its byte 0, as beats carry it. Both orders of bits work:
//! wire headers in network order, queue entries in little-endian order.

use ferrowire_rtl::{cat, lit, Sig};
use ferrowire_spec::{Field, Layout};
use std::panic::Location;

/// Bits that lie side by side in the structure as they do in the value: place in the value, place on the bus, length.
fn runs(layout: &Layout, field: &Field) -> Vec<(u32, u32, u32)> {
    let mut runs: Vec<(u32, u32, u32)> = Vec::new();
    for i in 0..u32::from(field.width) {
        let bus = field.bus_bit(layout.order, i as usize) as u32;
        match runs.last_mut() {
            Some((_, from, length)) if *from + *length == bus => *length += 1,
            _ => runs.push((i, bus, 1)),
        }
    }
    runs
}

#[track_caller]
fn check_member(layout: &Layout, field: &Field) {
    let loc = Location::caller();
    assert!(layout.fields.contains(field), "{loc}: `{}` has no field `{}`", layout.name, field.name);
}

/// The value of `field` in the structure that `bytes` begins with; what follows it in `bytes` is not looked at.
///
/// # Panics
/// When the field is not the layout's, or `bytes` ends before the structure does.
#[track_caller]
pub fn field(layout: &Layout, field: &Field, bytes: Sig) -> Sig {
    let loc = Location::caller();
    check_member(layout, field);
    assert!(
        bytes.width() as usize >= 8 * layout.bytes,
        "{loc}: `{}` has {} bits, the signal {}",
        layout.name,
        8 * layout.bytes,
        bytes.width()
    );
    let parts: Vec<Sig> =
        runs(layout, field).iter().map(|(_, bus, length)| bytes.slice(*bus, *length)).collect();
    cat(&parts)
}

/// The structure that holds these values; fields without one hold their reset value.
///
/// # Panics
/// When a field is not the layout's or is given twice, or a value is not as wide as its field.
#[track_caller]
pub fn assemble(layout: &Layout, values: &[(Field, Sig)]) -> Sig {
    let loc = Location::caller();
    for (i, (field, value)) in values.iter().enumerate() {
        check_member(layout, field);
        assert!(
            value.width() == u32::from(field.width),
            "{loc}: `{}.{}` has {} bits, its value {}",
            layout.name,
            field.name,
            field.width,
            value.width()
        );
        let twice = values[..i].iter().any(|(other, _)| other == field);
        assert!(!twice, "{loc}: `{}.{}` is given twice", layout.name, field.name);
    }
    let mut parts: Vec<(u32, Sig)> = Vec::new();
    for field in layout.fields {
        let given = values.iter().find(|(other, _)| other == field).map(|(_, value)| *value);
        // A reset value has at most 64 bits, a field up to 128.
        let value = given.unwrap_or_else(|| match u32::from(field.width) {
            width @ ..=64 => lit(width, field.reset),
            width => lit(64, field.reset).zext(width),
        });
        parts.extend(runs(layout, field).iter().map(|(at, bus, length)| (*bus, value.slice(*at, *length))));
    }
    parts.sort_by_key(|(bus, _)| *bus);
    cat(parts.iter().map(|(_, part)| part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowire_rtl::{build, Bits, Sim};
    use ferrowire_spec::wire;
    use rand::{rngs::SmallRng, Rng, SeedableRng};

    /// Takes a structure apart and puts it together again.
    fn both_ways(layout: &'static Layout) -> Sim {
        let netlist = build(layout.name, |m| {
            let bytes = m.input("bytes", 8 * layout.bytes as u32);
            let values: Vec<(Field, Sig)> =
                layout.fields.iter().map(|f| (*f, field(layout, f, bytes).named(f.name))).collect();
            for (field, value) in &values {
                m.output(&format!("field_{}", field.name), value);
            }
            m.output("again", &assemble(layout, &values));
            m.output("reset", &assemble(layout, &[]));
        })
        .unwrap();
        Sim::new(&netlist)
    }

    #[test]
    fn every_field_of_every_layout_reads_as_the_specification_does() {
        let mut rng = SmallRng::seed_from_u64(1);
        for layout in ferrowire_spec::ALL_LAYOUTS {
            let mut sim = both_ways(layout);
            for _ in 0..20 {
                let mut bytes = vec![0u8; layout.bytes];
                rng.fill(&mut bytes[..]);
                let value = Bits::from_bytes(8 * layout.bytes as u32, &bytes);
                sim.set_bits("bytes", &value);
                for field in layout.fields {
                    let got = sim.get_bits(&format!("field_{}", field.name)).to_u128();
                    assert_eq!(got, field.get(layout.order, &bytes), "{}.{}", layout.name, field.name);
                }
                assert_eq!(sim.get_bits("again"), value, "{}", layout.name);
            }
            let mut reset = vec![0u8; layout.bytes];
            for field in layout.fields {
                field.set(layout.order, &mut reset, u128::from(field.reset));
            }
            assert_eq!(sim.get_bits("reset").to_bytes(), reset, "{}", layout.name);
        }
    }

    #[test]
    fn a_base_transport_header_reads_as_parse_gives_it() {
        let mut sim = both_ways(&wire::bth::LAYOUT);
        let bth = wire::Bth { opcode: 0x0a, pad: 2, destqp: 0x123456, psn: 0xabcdef, ..Default::default() };
        sim.set_bits("bytes", &Bits::from_bytes(96, &bth.to_bytes().unwrap()));
        assert_eq!(sim.get("field_opcode"), 0x0a);
        assert_eq!(sim.get("field_pad"), 2);
        assert_eq!(sim.get("field_destqp"), 0x123456);
        assert_eq!(sim.get("field_psn"), 0xabcdef);
        assert_eq!(sim.get("field_pkey"), 0xffff);
    }

    #[test]
    #[should_panic(expected = "`bth.psn` has 24 bits, its value 23")]
    fn a_value_of_the_wrong_width_is_refused() {
        let _ = build("top", |m| {
            let psn = m.input("psn", 23);
            m.output("bth", &assemble(&wire::bth::LAYOUT, &[(wire::bth::PSN, psn)]));
        });
    }

    #[test]
    #[should_panic(expected = "`bth` has no field `msn`")]
    fn a_field_of_another_layout_is_refused() {
        let _ = build("top", |m| {
            let bytes = m.input("bytes", 96);
            m.output("msn", &field(&wire::bth::LAYOUT, &wire::aeth::MSN, bytes));
        });
    }
}
