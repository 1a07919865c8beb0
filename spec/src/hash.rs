// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tables in one place, and the hash over them by which a driver knows a card.

use crate::{csr, qp_state, queue, wire};
use crate::{Block, Codes, Field, Layout};

/// Every structure.
pub const ALL_LAYOUTS: &[&Layout] = &[
    &wire::eth::LAYOUT,
    &wire::vlan::LAYOUT,
    &wire::ipv4::LAYOUT,
    &wire::ipv6::LAYOUT,
    &wire::udp::LAYOUT,
    &wire::bth::LAYOUT,
    &wire::deth::LAYOUT,
    &wire::reth::LAYOUT,
    &wire::atomic_eth::LAYOUT,
    &wire::aeth::LAYOUT,
    &wire::atomic_ack_eth::LAYOUT,
    &wire::imm_dt::LAYOUT,
    &wire::ieth::LAYOUT,
    &wire::cnp::LAYOUT,
    &wire::report::LAYOUT,
    &wire::pause::LAYOUT,
    &wire::pfc::LAYOUT,
    &queue::send_wqe::LAYOUT,
    &queue::send_wqe::ud::LAYOUT,
    &queue::send_wqe::bind::LAYOUT,
    &queue::send_wqe::sges::LAYOUT,
    &queue::send_wqe::sge::LAYOUT,
    &queue::recv_wqe::LAYOUT,
    &queue::cqe::LAYOUT,
    &queue::event::LAYOUT,
    &queue::doorbell::sq::LAYOUT,
    &queue::doorbell::rq::LAYOUT,
    &queue::doorbell::cq::LAYOUT,
    &queue::doorbell::eq::LAYOUT,
    &queue::command::LAYOUT,
    &queue::command::create_cq::LAYOUT,
    &queue::command::modify_cq::LAYOUT,
    &queue::command::resize_cq::LAYOUT,
    &queue::command::reg_mr::LAYOUT,
    &queue::command::create_qp::LAYOUT,
    &queue::command::modify_qp::LAYOUT,
    &queue::command::set_av::LAYOUT,
    &queue::command::create_ah::LAYOUT,
    &queue::command::create_srq::LAYOUT,
    &queue::command::modify_srq::LAYOUT,
    &queue::command::alloc_mw::LAYOUT,
    &queue::command::create_eq::LAYOUT,
    &queue::command_completion::LAYOUT,
    &queue::command_completion::qp_summary::LAYOUT,
    &queue::command_completion::srq_summary::LAYOUT,
    &queue::command_completion::cq_summary::LAYOUT,
];

/// Every block of registers, in the order of their addresses.
pub const ALL_BLOCKS: &[&Block] = &[
    &csr::identity::BLOCK,
    &csr::capabilities::BLOCK,
    &csr::command_queue::BLOCK,
    &csr::port::BLOCK,
    &csr::timers::BLOCK,
    &csr::congestion::BLOCK,
    &csr::flow_control::BLOCK,
    &csr::host_memory::BLOCK,
    &csr::traffic::BLOCK,
    &csr::drops::BLOCK,
    &csr::hw_counters::BLOCK,
];

/// Every coded field's values.
pub const ALL_CODES: &[&Codes] = &[
    &wire::opcode::Opcode::CODES,
    &wire::opcode::Service::CODES,
    &wire::syndrome::NakCode::CODES,
    &queue::send_wqe::SendOpcode::CODES,
    &queue::cqe::CqeOpcode::CODES,
    &queue::cqe::WcStatus::CODES,
    &queue::cqe::LocalCause::CODES,
    &queue::event::EventKind::CODES,
    &queue::command::CommandOpcode::CODES,
    &queue::command::Access::CODES,
    &queue::command::PathMtu::CODES,
    &queue::command_completion::CommandStatus::CODES,
    &queue::command_completion::CommandAttribute::CODES,
    &qp_state::QpState::CODES,
    &qp_state::AttributeBit::CODES,
    &csr::drops::DropReason::CODES,
    &csr::host_memory::WriteKind::CODES,
];

/// Doorbell addresses that are not in a table, hashed with the tables.
const ADDRESSES: &[u32] = &[
    queue::doorbell::BASE,
    queue::doorbell::PAGE_BYTES,
    queue::doorbell::SQ,
    queue::doorbell::RQ,
    queue::doorbell::CQ,
    queue::doorbell::EQ,
    csr::MSIX_TABLE,
    csr::MSIX_PBA,
];

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

const fn bytes(mut hash: u64, data: &[u8]) -> u64 {
    let mut i = 0;
    while i < data.len() {
        hash = (hash ^ data[i] as u64).wrapping_mul(FNV_PRIME);
        i += 1;
    }
    hash
}

const fn number(hash: u64, n: u32) -> u64 {
    bytes(hash, &n.to_le_bytes())
}

/// A name and a zero byte, so that moving a letter from one name to the next shows.
const fn name(hash: u64, name: &str) -> u64 {
    bytes(bytes(hash, name.as_bytes()), &[0])
}

const fn fields(mut hash: u64, fields: &[Field]) -> u64 {
    let mut i = 0;
    while i < fields.len() {
        hash = name(hash, fields[i].name);
        hash = number(hash, (fields[i].offset as u32) << 16 | fields[i].width as u32);
        i += 1;
    }
    hash
}

/// FNV-1a over every table's names, offsets, widths and codes; meaning, access and reset values do not count.
pub const fn hash_of(layouts: &[&Layout], blocks: &[&Block], codes: &[&Codes]) -> u64 {
    let mut hash = FNV_OFFSET;
    let mut i = 0;
    while i < layouts.len() {
        hash = number(name(hash, layouts[i].name), layouts[i].bytes as u32);
        hash = fields(hash, layouts[i].fields);
        i += 1;
    }
    i = 0;
    while i < blocks.len() {
        hash = number(name(hash, blocks[i].name), blocks[i].base);
        let mut j = 0;
        while j < blocks[i].registers.len() {
            let register = &blocks[i].registers[j];
            hash = number(name(hash, register.name), register.offset);
            hash = fields(hash, register.fields);
            j += 1;
        }
        i += 1;
    }
    i = 0;
    while i < codes.len() {
        hash = name(hash, codes[i].name);
        let mut j = 0;
        while j < codes[i].codes.len() {
            hash = number(name(hash, codes[i].codes[j].name), codes[i].codes[j].value as u32);
            j += 1;
        }
        i += 1;
    }
    i = 0;
    while i < ADDRESSES.len() {
        hash = number(hash, ADDRESSES[i]);
        i += 1;
    }
    hash
}

/// The hash of the tables of this crate. The identity registers hold the card's.
pub const LAYOUT_HASH: u64 = hash_of(ALL_LAYOUTS, ALL_BLOCKS, ALL_CODES);

const _: () = {
    let mut i = 1;
    while i < ALL_BLOCKS.len() {
        assert!(ALL_BLOCKS[i - 1].base + ALL_BLOCKS[i - 1].bytes <= ALL_BLOCKS[i].base, "blocks overlap");
        i += 1;
    }
};
