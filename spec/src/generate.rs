// SPDX-License-Identifier: MIT OR Apache-2.0
//! Print the tables: pages for people, a header for C.

use crate::{Block, Codes, Field, Layout, Order, ALL_BLOCKS, ALL_CODES, ALL_LAYOUTS, LAYOUT_HASH};
use core::fmt::{self, Write};

/// A doc comment as one line, safe inside a table cell.
struct OneLine(&'static str);

impl fmt::Display for OneLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.0.split_whitespace().enumerate() {
            if i > 0 {
                f.write_char(' ')?;
            }
            for c in word.chars() {
                match c {
                    // Links of the source documentation, and cell borders.
                    '[' | ']' => {}
                    '|' => f.write_str("\\|")?,
                    c => f.write_char(c)?,
                }
            }
        }
        Ok(())
    }
}

/// Upper case.
struct Upper(&'static str);

impl fmt::Display for Upper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| f.write_char(c.to_ascii_uppercase()))
    }
}

/// Bits as the order draws them: `7:4` for Little, `0..3` for Network.
struct BitsOf<'a>(&'a Field, Order);

impl fmt::Display for BitsOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.0.offset as usize, self.0.end() - 1);
        match (self.1, first == last) {
            (_, true) => write!(f, "{first}"),
            (Order::Little, _) => write!(f, "{last}:{first}"),
            (Order::Network, _) => write!(f, "{first}..{last}"),
        }
    }
}

fn layout_md(out: &mut impl Write, layout: &Layout) -> fmt::Result {
    writeln!(out, "### `{}`\n\n{}", layout.name, OneLine(layout.doc))?;
    let order = match layout.order {
        Order::Network => "big-endian; bit 0 is the most significant bit of byte 0",
        Order::Little => "little-endian; bit 0 is the least significant bit of byte 0",
    };
    writeln!(out, "\n{} bytes, {order}.\n", layout.bytes)?;
    writeln!(out, "| bits | byte | width | name | access | value | clause | meaning |")?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    for field in layout.fields {
        writeln!(
            out,
            "| {} | {} | {} | `{}` | {} | {:#x} | {} | {} |",
            BitsOf(field, layout.order),
            field.offset / 8,
            field.width,
            field.name,
            field.access.name(),
            field.reset,
            field.clause,
            OneLine(field.doc),
        )?;
    }
    writeln!(out)
}

fn block_md(out: &mut impl Write, block: &Block) -> fmt::Result {
    writeln!(out, "### `{}` at {:#06x}\n\n{}\n", block.name, block.base, OneLine(block.doc))?;
    writeln!(out, "| address | register | bits | field | access | reset | meaning |")?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for register in block.registers {
        let address = block.address(register);
        if let [field] = register.fields {
            writeln!(
                out,
                "| {address:#06x} | `{}` | {} | `{}` | {} | {:#x} | {} {} |",
                register.name,
                BitsOf(field, Order::Little),
                field.name,
                field.access.name(),
                field.reset,
                OneLine(register.doc),
                OneLine(field.doc),
            )?;
            continue;
        }
        let reset = register.reset();
        writeln!(
            out,
            "| {address:#06x} | `{}` | | | | {reset:#x} | {} |",
            register.name,
            OneLine(register.doc)
        )?;
        for field in register.fields {
            writeln!(
                out,
                "| | | {} | `{}` | {} | {:#x} | {} |",
                BitsOf(field, Order::Little),
                field.name,
                field.access.name(),
                field.reset,
                OneLine(field.doc),
            )?;
        }
    }
    writeln!(out)
}

fn codes_md(out: &mut impl Write, codes: &Codes) -> fmt::Result {
    writeln!(out, "### `{}`\n\n{}\n", codes.name, OneLine(codes.doc))?;
    writeln!(out, "| value | name | meaning |\n|---|---|---|")?;
    for code in codes.codes {
        writeln!(out, "| {:#04x} | `{}` | {} |", code.value, code.name, OneLine(code.doc))?;
    }
    writeln!(out)
}

/// All tables as a page of markdown.
///
/// # Errors
/// Those of `out`.
pub fn registers_md(out: &mut impl Write) -> fmt::Result {
    writeln!(out, "# Registers, queue entries and headers\n")?;
    writeln!(out, "Printed from the tables of `spec/`; do not edit. Layout hash: `{LAYOUT_HASH:#018x}`.\n")?;
    writeln!(out, "## Registers of BAR 0\n")?;
    ALL_BLOCKS.iter().try_for_each(|b| block_md(out, b))?;
    writeln!(out, "## Queue entries and doorbells\n")?;
    let mut host = ALL_LAYOUTS.iter().filter(|l| l.order == Order::Little);
    host.try_for_each(|l| layout_md(out, l))?;
    writeln!(out, "## Wire headers\n")?;
    let mut wire = ALL_LAYOUTS.iter().filter(|l| l.order == Order::Network);
    wire.try_for_each(|l| layout_md(out, l))?;
    writeln!(out, "## Codes\n")?;
    ALL_CODES.iter().try_for_each(|c| codes_md(out, c))
}

/// Position of a field for C: a byte, and a shift and mask in the integer that begins there.
fn field_c(out: &mut impl Write, prefix: &'static str, field: &Field, order: Order) -> fmt::Result {
    let (p, n) = (Upper(prefix), Upper(field.name));
    if field.width == 128 {
        return writeln!(out, "#define FW_{p}_{n}_BYTE {}u /* 16 bytes */", field.offset / 8);
    }
    let (first, last) = (field.offset as usize, field.end() - 1);
    // Aligned if one exists; otherwise just the bytes that the field touches.
    let (base, size) = [8, 16, 32, 64]
        .into_iter()
        .find(|s| first / s == last / s)
        .map_or((first / 8 * 8, (last / 8 - first / 8 + 1) * 8), |s| (first / s * s, s));
    let shift = match order {
        Order::Little => first - base,
        Order::Network => base + size - 1 - last,
    };
    writeln!(out, "#define FW_{p}_{n}_BYTE {}u", base / 8)?;
    writeln!(out, "#define FW_{p}_{n}_SIZE {}u", size / 8)?;
    writeln!(out, "#define FW_{p}_{n}_SHIFT {shift}u")?;
    writeln!(out, "#define FW_{p}_{n}_WIDTH {}u", field.width)?;
    writeln!(out, "#define FW_{p}_{n}_MASK {:#x}ull", field.max() << shift)
}

/// All tables as a C header.
///
/// For a field, `_BYTE` is where an integer of `_SIZE` bytes begins, and `_SHIFT` and `_MASK` find the field in
/// it. The integer is big-endian in wire headers and little-endian elsewhere.
///
/// # Errors
/// Those of `out`.
pub fn c_header(out: &mut impl Write) -> fmt::Result {
    writeln!(out, "/* SPDX-License-Identifier: MIT OR Apache-2.0 */")?;
    writeln!(out, "/* Printed from the tables of spec/; do not edit. */")?;
    writeln!(out, "#ifndef FERROWIRE_REGS_H\n#define FERROWIRE_REGS_H\n")?;
    writeln!(out, "#define FW_LAYOUT_HASH {LAYOUT_HASH:#018x}ull\n")?;
    for block in ALL_BLOCKS {
        writeln!(out, "/* {} */", OneLine(block.doc))?;
        for register in block.registers {
            let (b, r) = (Upper(block.name), Upper(register.name));
            writeln!(out, "#define FW_CSR_{b}_{r} {:#x}u", block.address(register))?;
            for field in register.fields.iter().filter(|f| (f.width as usize) < register.bytes * 8) {
                let n = Upper(field.name);
                writeln!(out, "#define FW_CSR_{b}_{r}_{n}_SHIFT {}u", field.offset)?;
                writeln!(out, "#define FW_CSR_{b}_{r}_{n}_MASK {:#x}u", field.max() << field.offset)?;
            }
        }
        writeln!(out)?;
    }
    use crate::queue::doorbell;
    writeln!(out, "/* Doorbell pages. */")?;
    writeln!(out, "#define FW_DOORBELL_BASE {:#x}u", doorbell::BASE)?;
    writeln!(out, "#define FW_DOORBELL_PAGE_BYTES {:#x}u", doorbell::PAGE_BYTES)?;
    let offsets = [("SQ", doorbell::SQ), ("RQ", doorbell::RQ), ("CQ", doorbell::CQ), ("EQ", doorbell::EQ)];
    for (name, offset) in offsets {
        writeln!(out, "#define FW_DOORBELL_{name} {offset:#x}u")?;
    }
    writeln!(out, "/* Slots of a doorbell page to which WQEs of 64 bytes are pushed. */")?;
    writeln!(out, "#define FW_DOORBELL_PUSH {:#x}u", doorbell::PUSH)?;
    writeln!(out, "#define FW_DOORBELL_PUSH_SLOTS {}u", doorbell::PUSH_SLOTS)?;
    writeln!(out, "/* MSI-X table and pending bits in BAR 0. */")?;
    writeln!(out, "#define FW_MSIX_TABLE {:#x}u", crate::csr::MSIX_TABLE)?;
    writeln!(out, "#define FW_MSIX_PBA {:#x}u", crate::csr::MSIX_PBA)?;
    writeln!(out, "/* Table of the port's GIDs: its size, its slots, and the bits to which address and kind are folded. */")?;
    writeln!(out, "#define FW_GIDS {}u", crate::csr::port::GIDS)?;
    writeln!(out, "#define FW_GID_SLOTS {}u", crate::csr::port::GID_SLOTS)?;
    writeln!(out, "#define FW_GID_FOLD {}u", crate::csr::port::GID_FOLD)?;
    writeln!(out, "/* First byte of inline data in a send WQE. */")?;
    writeln!(out, "#define FW_SEND_WQE_INLINE_DATA_BYTE {}u", crate::queue::send_wqe::INLINE_AT)?;
    writeln!(out)?;
    for layout in ALL_LAYOUTS {
        writeln!(out, "/* {} */", OneLine(layout.doc))?;
        writeln!(out, "#define FW_{}_BYTES {}u", Upper(layout.name), layout.bytes)?;
        for field in layout.fields.iter().filter(|f| f.access != crate::Access::RSVD) {
            field_c(out, layout.name, field, layout.order)?;
        }
        writeln!(out)?;
    }
    for codes in ALL_CODES {
        writeln!(out, "/* {} */", OneLine(codes.doc))?;
        for code in codes.codes {
            let (table, name) = (Upper(codes.name), Upper(code.name));
            writeln!(out, "#define FW_{table}_{name} {:#04x}u", code.value)?;
        }
        writeln!(out)?;
    }
    writeln!(out, "#endif")
}
