// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables as a whole: positions that others rely on, codes, hash and what is printed from them.

use ferrowire_spec::csr::{self, DropReason};
use ferrowire_spec::hash::hash_of;
use ferrowire_spec::qp_state::AttributeBit;
use ferrowire_spec::queue::command::{self, PathMtu};
use ferrowire_spec::queue::command_completion::CommandAttribute;
use ferrowire_spec::queue::{cqe, send_wqe, CqeOpcode, SendOpcode, WcStatus};
use ferrowire_spec::wire::opcode::{Ext, Opcode, Operation, PayloadRule, Position, Service};
use ferrowire_spec::wire::syndrome::{
    ack_timeout_ns, credit_code, credits, rnr_timer_us, NakCode, Syndrome, CREDITS,
};
use ferrowire_spec::{c_header, registers_md, Access, Field, Layout, Order};
use ferrowire_spec::{ALL_BLOCKS, ALL_CODES, ALL_LAYOUTS, LAYOUT_HASH};
use std::collections::BTreeSet;

#[test]
fn layouts_cover_every_bit_once_and_names_are_unique() {
    let mut names = BTreeSet::new();
    for layout in ALL_LAYOUTS {
        assert!(names.insert(layout.name), "{}", layout.name);
        let mut bits = vec![false; layout.bytes * 8];
        for field in layout.fields {
            assert!(
                !field.doc.trim().is_empty() && !field.clause.is_empty(),
                "{}.{}",
                layout.name,
                field.name
            );
            assert_eq!(layout.field(field.name), Some(field));
            for i in 0..field.width as usize {
                assert!(!std::mem::replace(&mut bits[field.bus_bit(layout.order, i)], true));
            }
        }
        assert!(bits.into_iter().all(|b| b), "{}", layout.name);
        assert_eq!(layout.field("no such field"), None);
    }
    for codes in ALL_CODES {
        let values: BTreeSet<u8> = codes.codes.iter().map(|c| c.value).collect();
        let names: BTreeSet<&str> = codes.codes.iter().map(|c| c.name).collect();
        assert_eq!((values.len(), names.len()), (codes.codes.len(), codes.codes.len()), "{}", codes.name);
    }
}

#[test]
fn commands_all_begin_with_the_same_header() {
    let header = &command::LAYOUT.fields[..4];
    let commands: Vec<&&Layout> = ALL_LAYOUTS
        .iter()
        .filter(|l| command::CommandOpcode::ALL.iter().any(|o| o.name().eq_ignore_ascii_case(l.name)))
        .collect();
    assert_eq!(commands.len(), 12);
    for layout in commands {
        for (a, b) in header.iter().zip(layout.fields) {
            assert_eq!((a.name, a.offset, a.width), (b.name, b.offset, b.width), "{}", layout.name);
        }
        let opcode = command::CommandOpcode::from_code(layout.fields[0].reset as u8).unwrap();
        assert!(opcode.name().eq_ignore_ascii_case(layout.name));
    }
    assert_eq!(command::create_qp::CreateQp::default().opcode, 0x05);
}

#[test]
fn the_attribute_of_a_command_completion_names_the_bit_of_the_mask() {
    for bit in AttributeBit::ALL {
        let attribute = CommandAttribute::from_code(bit.code() + 1).unwrap();
        assert!(attribute.name().ends_with(bit.name()), "{attribute} {bit}");
    }
}

#[test]
fn queue_entries_have_the_positions_of_the_host_interface() {
    let at = |f: Field| (f.offset / 8, f.offset % 8, f.width);
    assert_eq!(at(send_wqe::OPCODE), (0, 0, 8));
    assert_eq!(at(send_wqe::INLINE), (1, 3, 1));
    assert_eq!(at(send_wqe::REMOTE_VA), (8, 0, 64));
    assert_eq!(at(send_wqe::SWAP), (32, 0, 64));
    assert_eq!(at(send_wqe::SGE0_LEN), (60, 0, 32));
    assert_eq!(at(cqe::OPCODE), (3, 0, 8));
    assert_eq!(at(cqe::GRH), (15, 4, 1));
    assert_eq!(at(cqe::STATUS), (18, 0, 8));
    assert_eq!(at(cqe::PHASE), (31, 7, 1));
    for (sges, units) in [(0, 1), (1, 1), (2, 2), (5, 2), (6, 3)] {
        assert_eq!(send_wqe::units_for_sges(sges), units);
    }
    for (bytes, units) in [(0, 1), (16, 1), (17, 2), (80, 2), (81, 3)] {
        assert_eq!(send_wqe::units_for_inline(bytes), units);
    }
    // Every form of a send WQE has flags, size and first SGE in the same place.
    for field in send_wqe::LAYOUT.fields.iter().filter(|f| f.offset < 32 || f.offset >= 384) {
        assert_eq!(send_wqe::ud::LAYOUT.field(field.name).map(|f| f.offset), Some(field.offset));
        if field.offset < 32 {
            assert_eq!(send_wqe::bind::LAYOUT.field(field.name).map(|f| f.offset), Some(field.offset));
        }
    }
}

#[test]
fn completions_echo_the_send_opcode_or_mark_a_receive() {
    for &op in SendOpcode::ALL {
        let echoed = CqeOpcode::from_code(op.code()).unwrap();
        assert_eq!(echoed.name(), op.name());
        assert!(!echoed.is_receive());
    }
    for op in [SendOpcode::Send, SendOpcode::SendImm, SendOpcode::SendInv, SendOpcode::WriteImm] {
        assert!(CqeOpcode::from_code(0x80 | op.code()).unwrap().is_receive());
    }
    assert_eq!(WcStatus::RnrRetryExcErr.code(), 13);
    assert_eq!(WcStatus::ALL.len(), 24);
}

#[test]
fn path_mtus_are_256_to_4096() {
    let bytes: Vec<usize> = PathMtu::ALL.iter().map(|m| m.bytes()).collect();
    assert_eq!(bytes, [256, 512, 1024, 2048, 4096]);
}

#[test]
fn opcode_facts_agree_with_the_names() {
    for &op in Opcode::ALL {
        let name = op.name();
        let has = |part: &str| name.contains(part);
        assert_eq!(Opcode::try_from(op.code()), Ok(op));
        assert!(name.starts_with(op.service().name()));
        assert_eq!(op.has_immediate(), name.ends_with("_IMM"), "{name}");
        assert_eq!(op.has_invalidate(), name.ends_with("_INV"), "{name}");
        assert_eq!(op.position() == Position::First, has("FIRST"), "{name}");
        assert_eq!(op.position() == Position::Middle, has("MIDDLE"), "{name}");
        assert_eq!(op.position() == Position::Last, has("LAST"), "{name}");
        assert_eq!(op.is_response(), has("RESPONSE") || has("ACKNOWLEDGE"), "{name}");
        assert_eq!(op.operation() == Operation::Send, has("SEND"), "{name}");
        assert_eq!(op.operation() == Operation::Write, has("WRITE"), "{name}");
        assert_eq!(
            op.has(Ext::Reth),
            has("WRITE_FIRST") || has("WRITE_ONLY") || has("READ_REQUEST"),
            "{name}"
        );
        assert_eq!(op.has(Ext::Deth), op.service() == Service::Ud, "{name}");
        assert_eq!(op.has(Ext::Aeth), op.is_response() && !has("MIDDLE"), "{name}");
        assert_eq!(op.has(Ext::AtomicEth), has("SWAP") || has("FETCH"), "{name}");
        assert_eq!(op.has(Ext::AtomicAckEth), has("ATOMIC"), "{name}");
        assert_eq!(op.has(Ext::ImmDt), op.has_immediate(), "{name}");
        assert_eq!(op.has(Ext::Ieth), op.has_invalidate(), "{name}");
        assert_eq!(op.carries_payload(), has("SEND") || has("WRITE") || has("RESPONSE"), "{name}");
        let answered = op.service() == Service::Rc && !op.is_response() && op != Opcode::RcReport;
        assert_eq!(op.is_acknowledged(), answered, "{name}");
        let takes = op.has_immediate() && has("WRITE") || has("SEND_FIRST") || has("SEND_ONLY");
        assert_eq!(op.takes_receive(), takes, "{name}");
        assert_eq!(op.header_bytes(), 12 + op.extensions().iter().map(|e| e.bytes()).sum::<usize>());
    }
    let reserved = (0..=255u8).filter(|c| Opcode::try_from(*c).is_err()).count();
    assert_eq!(reserved, 256 - (23 + 12 + 2 + 1 + 1));
    assert!(PayloadRule::OneToMtu.allows(1, 256) && !PayloadRule::OneToMtu.allows(0, 256));
    assert!(PayloadRule::Mtu.allows(256, 256) && !PayloadRule::ZeroToMtu.allows(257, 256));
}

#[test]
fn every_syndrome_byte_survives_and_the_tables_have_their_ends() {
    for byte in 0..=255 {
        assert_eq!(Syndrome::decode(byte).encode(), byte);
    }
    assert_eq!(Syndrome::decode(0x1f), Syndrome::ACK);
    assert_eq!(Syndrome::decode(0x62), Syndrome::Nak(NakCode::RemoteAccess));
    assert_eq!(Syndrome::decode(0x64), Syndrome::Reserved(0x64));
    assert_eq!(Syndrome::decode(0x2e), Syndrome::Rnr { timer: 14 });
    assert_eq!((credits(0), credits(30), credits(31)), (Some(0), Some(32768), None));
    for receives in [0, 1, 5, 6, 7, 100, 32767, 32768, 1 << 24] {
        let code = credit_code(receives) as usize;
        assert!(u32::from(CREDITS[code]) <= receives);
        assert!(CREDITS.get(code + 1).is_none_or(|next| u32::from(*next) > receives));
    }
    assert_eq!(
        (rnr_timer_us(0), rnr_timer_us(1), rnr_timer_us(14), rnr_timer_us(31)),
        (655_360, 10, 1_280, 491_520)
    );
    assert_eq!(
        (ack_timeout_ns(0), ack_timeout_ns(14), ack_timeout_ns(31)),
        (None, Some(67_108_864), Some(4096 << 31))
    );
}

#[test]
fn registers_are_found_by_name_and_counters_by_reason() {
    assert_eq!(csr::identity::MAGIC.reset(), u64::from(u32::from_le_bytes(*b"FERW")));
    assert_eq!(csr::command_queue::BLOCK.address(&csr::command_queue::CMDQ_PRODUCER), 0x10c);
    for &reason in DropReason::ALL {
        let register = csr::drops::BLOCK.register(reason.name()).unwrap();
        assert_eq!(csr::drops::BLOCK.address(register), reason.address());
        assert_eq!((register.bytes, reason.address() % 8), (8, 0));
    }
    for block in ALL_BLOCKS {
        assert!(block.base + block.bytes <= csr::MSIX_TABLE);
        for register in block.registers {
            assert_eq!(block.register(register.name), Some(register));
            assert!(!register.fields.iter().any(|f| f.access == Access::RSVD));
        }
    }
}

#[test]
fn the_hash_moves_with_any_name_position_or_code() {
    assert_eq!(LAYOUT_HASH, hash_of(ALL_LAYOUTS, ALL_BLOCKS, ALL_CODES));
    let field = |name, offset, width| Field { name, offset, width, ..ferrowire_spec::wire::bth::PSN };
    let hash = |fields: Vec<Field>| {
        let layout = Layout { name: "x", doc: "", bytes: 2, order: Order::Little, fields: fields.leak() };
        hash_of(&[&layout], &[], &[])
    };
    let seen = BTreeSet::from([
        hash(vec![field("a", 0, 8), field("b", 8, 8)]),
        hash(vec![field("a", 0, 7), field("b", 7, 9)]),
        hash(vec![field("b", 0, 8), field("a", 8, 8)]),
        hash(vec![field("a", 0, 8), field("c", 8, 8)]),
        hash(vec![field("a", 0, 8)]),
    ]);
    assert_eq!(seen.len(), 5);
    assert_ne!(LAYOUT_HASH, hash_of(ALL_LAYOUTS, ALL_BLOCKS, &ALL_CODES[1..]));
}

#[test]
fn the_page_names_every_field_register_and_code() {
    let mut page = String::new();
    registers_md(&mut page).unwrap();
    for name in ALL_LAYOUTS.iter().flat_map(|l| l.fields.iter().map(|f| f.name)) {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    for name in ALL_BLOCKS.iter().flat_map(|b| b.registers.iter().map(|r| r.name)) {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    assert!(page.contains(&format!("{LAYOUT_HASH:#018x}")));
    assert!(page.lines().all(|l| l == l.trim_end() && !l.contains("[`")), "links or trailing blanks");
}

#[test]
fn the_c_header_finds_fields_where_the_tables_have_them() {
    let mut header = String::new();
    c_header(&mut header).unwrap();
    let value = |name: &str| {
        let line = header.lines().find(|l| l.split_whitespace().nth(1) == Some(name));
        let text = line.unwrap_or_else(|| panic!("{name}")).split_whitespace().nth(2).unwrap();
        let text = text.trim_end_matches(['u', 'l']);
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
            None => text.parse().unwrap(),
        }
    };
    assert_eq!(value("FW_LAYOUT_HASH"), LAYOUT_HASH);
    assert_eq!(value("FW_CSR_COMMAND_QUEUE_CMDQ_PRODUCER"), 0x10c);
    assert_eq!(value("FW_OPCODE_RC_READ_REQUEST"), 0x0c);
    let mut macros = BTreeSet::new();
    for line in header.lines().filter(|l| l.starts_with("#define")) {
        assert!(macros.insert(line.split_whitespace().nth(1).unwrap()), "{line} stands twice");
    }
    // Read every field of a pattern as C would.
    let data: Vec<u8> = (0..64u32).map(|i| (i * 151 + 7) as u8).collect();
    for layout in ALL_LAYOUTS {
        for field in layout.fields.iter().filter(|f| f.access != Access::RSVD && f.width < 128) {
            let of = |part: &str| {
                value(&format!("FW_{}_{}_{part}", layout.name.to_uppercase(), field.name.to_uppercase()))
            };
            let bytes = &data[of("BYTE") as usize..][..of("SIZE") as usize];
            let join = |acc: u64, b: &u8| acc << 8 | u64::from(*b);
            let word = match layout.order {
                Order::Network => bytes.iter().fold(0, join),
                Order::Little => bytes.iter().rev().fold(0, join),
            };
            let read = (word & of("MASK")) >> of("SHIFT");
            assert_eq!(u128::from(read), field.get(layout.order, &data), "{}.{}", layout.name, field.name);
        }
    }
}
