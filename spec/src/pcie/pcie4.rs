// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the PCIe4 integrated block of AMD's UltraScale+ devices has in place of headers: descriptors, and signals beside the data
//! (product guide PG213, "UltraScale+ Devices Integrated Block for PCI Express", version 1.3).
//!
//! ```text
//!  card --- RQ: requests of the card -------> block      card <-- CQ: requests of the CPU --- block
//!  card <-- RC: completions for these ------- block      card --- CC: completions for these -> block
//! ```
//!
//! A packet begins with a descriptor of 16 bytes (requests) or 12 bytes (completions), and its data follows at once (the
//! "DWORD-aligned" mode). The `tuser` tables are those of 512 bits of data. Where they have two or four of a kind, packets may share a
//! beat (the "straddle" option); else all but the first is 0.
//!
//! Bit 0 is the lowest of byte 0 or wire 0.

crate::table::codes! {
    /// What a request asks for (PG213, "Requester Request Descriptor Formats", table of request types).
    enum RequestType, "pcie4_request_type";
    /// Memory is read.
    MemoryRead = 0, "MEMORY_READ";
    /// Memory is written.
    MemoryWrite = 1, "MEMORY_WRITE";
    /// I/O is read.
    IoRead = 2, "IO_READ";
    /// I/O is written.
    IoWrite = 3, "IO_WRITE";
    /// Atomic fetch and add.
    FetchAdd = 4, "FETCH_ADD";
    /// Atomic unconditional swap.
    Swap = 5, "SWAP";
    /// Atomic compare and swap.
    CompareSwap = 6, "COMPARE_SWAP";
    /// Memory is read and locked; only on CQ.
    LockedRead = 7, "LOCKED_READ";
    /// Configuration space is read, type 0.
    ConfigurationRead0 = 8, "CONFIGURATION_READ0";
    /// Configuration space is read, type 1.
    ConfigurationRead1 = 9, "CONFIGURATION_READ1";
    /// Configuration space is written, type 0.
    ConfigurationWrite0 = 10, "CONFIGURATION_WRITE0";
    /// Configuration space is written, type 1.
    ConfigurationWrite1 = 11, "CONFIGURATION_WRITE1";
    /// A message that is none of those below.
    Message = 12, "MESSAGE";
    /// A message that the vendor defines.
    VendorMessage = 13, "VENDOR_MESSAGE";
    /// A message about translated addresses.
    TranslationMessage = 14, "TRANSLATION_MESSAGE";
}

crate::table::codes! {
    /// What the block found when it compared a completion with its request (PG213, "Requester Completion Descriptor Format").
    enum ErrorCode, "pcie4_error_code";
    /// Nothing is wrong.
    None = 0, "NONE";
    /// The data is poisoned.
    Poisoned = 1, "POISONED";
    /// It has another status than success, and ends the request.
    Status = 2, "STATUS";
    /// It has no data, or a byte count that is not what is left; it ends the request.
    ByteCount = 3, "BYTE_COUNT";
    /// Requester, traffic class or attributes are not those of the request.
    Mismatch = 4, "MISMATCH";
    /// The lower address is not that of the next byte.
    Address = 5, "ADDRESS";
    /// No request has that tag.
    Tag = 6, "TAG";
    /// The function was reset, and that ended the request; of the descriptor only the tag counts.
    FunctionReset = 8, "FUNCTION_RESET";
    /// Nothing came for too long, and that ended the request; of the descriptor only the tag counts.
    Timeout = 9, "TIMEOUT";
}

crate::table::layout! {
    /// What a request of the card begins with: memory, I/O and atomic ones.
    mod rq;
    struct RqDescriptor, "pcie4_rq", Little, 16 bytes, "PG213, Requester Request Descriptor Formats";
    /// Address type: 0 is one that is still to be translated.
    AT at: u8 @ 0, 2, RW;
    /// Address of the first double word, without its lowest two bits.
    ADDRESS address: u64 @ 2, 62, RW;
    /// Double words of data, or asked for; 0 where a completion has none.
    DWORDS dwords: u16 @ 64, 11, RW;
    /// What is asked for: see [`super::RequestType`].
    REQUEST_TYPE request_type: u8 @ 75, 4, RW;
    /// The data is poisoned.
    POISONED poisoned: bool @ 79, 1, RW;
    /// Who asks: bus, device and function. The block looks at the bus and device only with `requester_enable`.
    REQUESTER requester: u16 @ 80, 16, RW;
    /// Which of the requester's requests it is; where the block chooses tags it is not looked at.
    TAG tag: u8 @ 96, 8, RW;
    /// Whom it is for: bus, device and function. Nothing for memory, which has addresses.
    COMPLETER completer: u16 @ 104, 16, RW;
    /// The bus and device of `requester` are to be taken, and not those that the block knows; only of a root port.
    REQUESTER_ENABLE requester_enable: bool @ 120, 1, RW;
    /// Traffic class.
    TC tc: u8 @ 121, 3, RW;
    /// No snoop.
    NO_SNOOP no_snoop: bool @ 124, 1, RW;
    /// Relaxed ordering.
    RELAXED relaxed: bool @ 125, 1, RW;
    /// Ordering is asked for within the requester alone.
    IDO ido: bool @ 126, 1, RW;
    /// A digest is to be sent behind it.
    FORCE_ECRC force_ecrc: bool @ 127, 1, RW;
}

crate::table::layout! {
    /// What a completion for the card begins with.
    mod rc;
    struct RcDescriptor, "pcie4_rc", Little, 12 bytes, "PG213, Requester Completion Descriptor Format";
    /// The lowest bits of the address of its first byte; only 7 of them where `error` is not 0.
    LOWER_ADDRESS lower_address: u16 @ 0, 12, RW;
    /// How it is: see [`super::ErrorCode`].
    ERROR error: u8 @ 12, 4, RW;
    /// Bytes that are still to come for the request, these included.
    BYTE_COUNT byte_count: u16 @ 16, 13, RW;
    /// It answers a locked read.
    LOCKED locked: bool @ 29, 1, RW;
    /// It is the last one for its request.
    COMPLETED completed: bool @ 30, 1, RW;
    /// Reserved.
    RSVD0 rsvd0: bool @ 31, 1, RSVD;
    /// Double words of data, or asked for; 0 where a completion has none.
    DWORDS dwords: u16 @ 32, 11, RW;
    /// How the request ended: see [`super::super::CompletionStatus`].
    STATUS status: u8 @ 43, 3, RW;
    /// The data is poisoned.
    POISONED poisoned: bool @ 46, 1, RW;
    /// Reserved.
    RSVD1 rsvd1: bool @ 47, 1, RSVD;
    /// Who asked.
    REQUESTER requester: u16 @ 48, 16, RW;
    /// The request's tag.
    TAG tag: u8 @ 64, 8, RW;
    /// Who answers.
    COMPLETER completer: u16 @ 72, 16, RW;
    /// Reserved.
    RSVD2 rsvd2: bool @ 88, 1, RSVD;
    /// Traffic class.
    TC tc: u8 @ 89, 3, RW;
    /// No snoop.
    NO_SNOOP no_snoop: bool @ 92, 1, RW;
    /// Relaxed ordering.
    RELAXED relaxed: bool @ 93, 1, RW;
    /// Ordering is asked for within the requester alone.
    IDO ido: bool @ 94, 1, RW;
    /// Reserved.
    RSVD3 rsvd3: bool @ 95, 1, RSVD;
}

crate::table::layout! {
    /// What a request of the CPU begins with: memory, I/O and atomic ones.
    mod cq;
    struct CqDescriptor, "pcie4_cq", Little, 16 bytes, "PG213, Completer Request Descriptor Formats";
    /// Address type: 0 is one that is still to be translated.
    AT at: u8 @ 0, 2, RW;
    /// Address of the first double word, without its lowest two bits.
    ADDRESS address: u64 @ 2, 62, RW;
    /// Double words of data, or asked for; 0 where a completion has none.
    DWORDS dwords: u16 @ 64, 11, RW;
    /// What is asked for: see [`super::RequestType`].
    REQUEST_TYPE request_type: u8 @ 75, 4, RW;
    /// Reserved.
    RSVD0 rsvd0: bool @ 79, 1, RSVD;
    /// Who asks: bus, device and function.
    REQUESTER requester: u16 @ 80, 16, RW;
    /// Which of the requester's requests it is.
    TAG tag: u8 @ 96, 8, RW;
    /// The function that it is for.
    FUNCTION function: u8 @ 104, 8, RW;
    /// The base address register that it hit; of a pair of 64 bits the lower one.
    BAR bar: u8 @ 112, 3, RW;
    /// Address bits of that register's range: so many of the address are an offset in it.
    APERTURE aperture: u8 @ 115, 6, RW;
    /// Traffic class.
    TC tc: u8 @ 121, 3, RW;
    /// No snoop.
    NO_SNOOP no_snoop: bool @ 124, 1, RW;
    /// Relaxed ordering.
    RELAXED relaxed: bool @ 125, 1, RW;
    /// Ordering is asked for within the requester alone.
    IDO ido: bool @ 126, 1, RW;
    /// Reserved.
    RSVD1 rsvd1: bool @ 127, 1, RSVD;
}

crate::table::layout! {
    /// What a completion of the card begins with.
    mod cc;
    struct CcDescriptor, "pcie4_cc", Little, 12 bytes, "PG213, Completer Completion Descriptor Format";
    /// The lowest bits of the address of its first byte; 0 where it answers no memory read.
    LOWER_ADDRESS lower_address: u8 @ 0, 7, RW;
    /// Reserved.
    RSVD0 rsvd0: bool @ 7, 1, RSVD;
    /// Address type, of a request for a translation.
    AT at: u8 @ 8, 2, RW;
    /// Reserved.
    RSVD1 rsvd1: u8 @ 10, 6, RSVD;
    /// Bytes that are still to come for the request, these included.
    BYTE_COUNT byte_count: u16 @ 16, 13, RW;
    /// It answers a locked read.
    LOCKED locked: bool @ 29, 1, RW;
    /// Reserved.
    RSVD2 rsvd2: u8 @ 30, 2, RSVD;
    /// Double words of data, or asked for; 0 where a completion has none.
    DWORDS dwords: u16 @ 32, 11, RW;
    /// How the request ended: see [`super::super::CompletionStatus`].
    STATUS status: u8 @ 43, 3, RW;
    /// The data is poisoned.
    POISONED poisoned: bool @ 46, 1, RW;
    /// Reserved.
    RSVD3 rsvd3: bool @ 47, 1, RSVD;
    /// Who asked.
    REQUESTER requester: u16 @ 48, 16, RW;
    /// The request's tag.
    TAG tag: u8 @ 64, 8, RW;
    /// Who answers: bus, device and function. The block looks at the bus and device only with `completer_enable`.
    COMPLETER completer: u16 @ 72, 16, RW;
    /// The bus and device of `completer` are to be taken, and not those that the block knows.
    COMPLETER_ENABLE completer_enable: bool @ 88, 1, RW;
    /// Traffic class.
    TC tc: u8 @ 89, 3, RW;
    /// No snoop.
    NO_SNOOP no_snoop: bool @ 92, 1, RW;
    /// Relaxed ordering.
    RELAXED relaxed: bool @ 93, 1, RW;
    /// Ordering is asked for within the requester alone.
    IDO ido: bool @ 94, 1, RW;
    /// A digest is to be sent behind it.
    FORCE_ECRC force_ecrc: bool @ 95, 1, RW;
}

crate::table::layout! {
    /// Beside the data of RQ: `s_axis_rq_tuser`, 137 wires.
    mod rq_user;
    struct RqUser, "pcie4_rq_user", Little, 18 bytes wires, "PG213, Requester Request Interface, s_axis_rq_tuser (512 bits)";
    /// Bytes of the first double word: 3:0 of the packet that begins first in the beat, 7:4 of the other.
    FIRST_BE first_be: u8 @ 0, 8, RW;
    /// Bytes of the last double word, in the same way; 0 where there is one double word only.
    LAST_BE last_be: u8 @ 8, 8, RW;
    /// Where data begins in its beat, in the address-aligned mode; else 0.
    ADDR_OFFSET addr_offset: u8 @ 16, 4, RW;
    /// Packets that begin in the beat, as many ones from bit 0 on.
    IS_SOP is_sop: u8 @ 20, 2, RW;
    /// Where packet 0 of these begins: 16 bytes a step.
    SOP0_PTR sop0_ptr: u8 @ 22, 2, RW;
    /// Where packet 1 of these begins: 16 bytes a step.
    SOP1_PTR sop1_ptr: u8 @ 24, 2, RW;
    /// Packets that end in the beat, as many ones from bit 0 on.
    IS_EOP is_eop: u8 @ 26, 2, RW;
    /// The last double word of packet 0 of these.
    EOP0_PTR eop0_ptr: u8 @ 28, 4, RW;
    /// The last double word of packet 1 of these.
    EOP1_PTR eop1_ptr: u8 @ 32, 4, RW;
    /// The packet is to be thrown away.
    DISCONTINUE discontinue: bool @ 36, 1, RW;
    /// There are processing hints.
    TPH_PRESENT tph_present: u8 @ 37, 2, RW;
    /// Processing hints.
    TPH_TYPE tph_type: u8 @ 39, 4, RW;
    /// A steering tag is to be looked up in a table.
    TPH_INDIRECT_TAG_EN tph_indirect_tag_en: u8 @ 43, 2, RW;
    /// Steering tags.
    TPH_ST_TAG tph_st_tag: u16 @ 45, 16, RW;
    /// A number that comes back when packet 0 is on its way.
    SEQ_NUM0 seq_num0: u8 @ 61, 6, RW;
    /// The same for packet 1.
    SEQ_NUM1 seq_num1: u8 @ 67, 6, RW;
    /// Odd parity of each byte of data.
    PARITY parity: u64 @ 73, 64, RW;
    /// Not there: fills the last byte.
    ABSENT absent: u8 @ 137, 7, RSVD;
}

crate::table::layout! {
    /// Beside the data of RC: `m_axis_rc_tuser`, 161 wires.
    mod rc_user;
    struct RcUser, "pcie4_rc_user", Little, 21 bytes wires, "PG213, Requester Completion Interface, m_axis_rc_tuser (512 bits)";
    /// Bytes of data in the beat, one bit each.
    BYTE_EN byte_en: u64 @ 0, 64, RW;
    /// Packets that begin in the beat, as many ones from bit 0 on.
    IS_SOP is_sop: u8 @ 64, 4, RW;
    /// Where packet 0 of these begins: 16 bytes a step.
    SOP0_PTR sop0_ptr: u8 @ 68, 2, RW;
    /// Where packet 1 of these begins: 16 bytes a step.
    SOP1_PTR sop1_ptr: u8 @ 70, 2, RW;
    /// Where packet 2 of these begins: 16 bytes a step.
    SOP2_PTR sop2_ptr: u8 @ 72, 2, RW;
    /// Where packet 3 of these begins: 16 bytes a step.
    SOP3_PTR sop3_ptr: u8 @ 74, 2, RW;
    /// Packets that end in the beat, as many ones from bit 0 on.
    IS_EOP is_eop: u8 @ 76, 4, RW;
    /// The last double word of packet 0 of these.
    EOP0_PTR eop0_ptr: u8 @ 80, 4, RW;
    /// The last double word of packet 1 of these.
    EOP1_PTR eop1_ptr: u8 @ 84, 4, RW;
    /// The last double word of packet 2 of these.
    EOP2_PTR eop2_ptr: u8 @ 88, 4, RW;
    /// The last double word of packet 3 of these.
    EOP3_PTR eop3_ptr: u8 @ 92, 4, RW;
    /// An error in the block's memory spoiled the packet.
    DISCONTINUE discontinue: bool @ 96, 1, RW;
    /// Odd parity of each byte of data.
    PARITY parity: u64 @ 97, 64, RW;
    /// Not there: fills the last byte.
    ABSENT absent: u8 @ 161, 7, RSVD;
}

crate::table::layout! {
    /// Beside the data of CQ: `m_axis_cq_tuser`, 183 wires.
    mod cq_user;
    struct CqUser, "pcie4_cq_user", Little, 23 bytes wires, "PG213, Completer Request Interface, m_axis_cq_tuser (512 bits)";
    /// Bytes of the first double word: 3:0 of the packet that begins first in the beat, 7:4 of the other.
    FIRST_BE first_be: u8 @ 0, 8, RW;
    /// Bytes of the last double word, in the same way; 0 where there is one double word only.
    LAST_BE last_be: u8 @ 8, 8, RW;
    /// Bytes of data in the beat, one bit each.
    BYTE_EN byte_en: u64 @ 16, 64, RW;
    /// Packets that begin in the beat, as many ones from bit 0 on.
    IS_SOP is_sop: u8 @ 80, 2, RW;
    /// Where packet 0 of these begins: 16 bytes a step.
    SOP0_PTR sop0_ptr: u8 @ 82, 2, RW;
    /// Where packet 1 of these begins: 16 bytes a step.
    SOP1_PTR sop1_ptr: u8 @ 84, 2, RW;
    /// Packets that end in the beat, as many ones from bit 0 on.
    IS_EOP is_eop: u8 @ 86, 2, RW;
    /// The last double word of packet 0 of these.
    EOP0_PTR eop0_ptr: u8 @ 88, 4, RW;
    /// The last double word of packet 1 of these.
    EOP1_PTR eop1_ptr: u8 @ 92, 4, RW;
    /// An error in the block's memory spoiled the packet.
    DISCONTINUE discontinue: bool @ 96, 1, RW;
    /// There are processing hints.
    TPH_PRESENT tph_present: u8 @ 97, 2, RW;
    /// Processing hints.
    TPH_TYPE tph_type: u8 @ 99, 4, RW;
    /// Steering tags.
    TPH_ST_TAG tph_st_tag: u16 @ 103, 16, RW;
    /// Odd parity of each byte of data.
    PARITY parity: u64 @ 119, 64, RW;
    /// Not there: fills the last byte.
    ABSENT absent: bool @ 183, 1, RSVD;
}

crate::table::layout! {
    /// Beside the data of CC: `s_axis_cc_tuser`, 81 wires.
    mod cc_user;
    struct CcUser, "pcie4_cc_user", Little, 11 bytes wires, "PG213, Completer Completion Interface, s_axis_cc_tuser (512 bits)";
    /// Packets that begin in the beat, as many ones from bit 0 on.
    IS_SOP is_sop: u8 @ 0, 2, RW;
    /// Where packet 0 of these begins: 16 bytes a step.
    SOP0_PTR sop0_ptr: u8 @ 2, 2, RW;
    /// Where packet 1 of these begins: 16 bytes a step.
    SOP1_PTR sop1_ptr: u8 @ 4, 2, RW;
    /// Packets that end in the beat, as many ones from bit 0 on.
    IS_EOP is_eop: u8 @ 6, 2, RW;
    /// The last double word of packet 0 of these.
    EOP0_PTR eop0_ptr: u8 @ 8, 4, RW;
    /// The last double word of packet 1 of these.
    EOP1_PTR eop1_ptr: u8 @ 12, 4, RW;
    /// The packet is to be thrown away.
    DISCONTINUE discontinue: bool @ 16, 1, RW;
    /// Odd parity of each byte of data.
    PARITY parity: u64 @ 17, 64, RW;
    /// Not there: fills the last byte.
    ABSENT absent: u8 @ 81, 7, RSVD;
}

pub use cc::CcDescriptor;
pub use cc_user::CcUser;
pub use cq::CqDescriptor;
pub use cq_user::CqUser;
pub use rc::RcDescriptor;
pub use rc_user::RcUser;
pub use rq::RqDescriptor;
pub use rq_user::RqUser;

/// Bytes of data in a beat.
pub const BEAT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wires_beside_the_data_are_as_many_as_the_guide_says() {
        let wires = |layout: crate::Layout| layout.fields.last().map(|absent| absent.offset);
        let all = [rq_user::LAYOUT, rc_user::LAYOUT, cq_user::LAYOUT, cc_user::LAYOUT];
        assert_eq!(all.map(wires), [Some(137), Some(161), Some(183), Some(81)]);
        let user = RqUser { seq_num0: 0x2a, parity: u64::MAX, ..RqUser::default() };
        let bytes = user.to_bytes().unwrap();
        assert_eq!(RqUser::parse(&bytes), Ok(user));
        assert_eq!((bytes[7] >> 5, bytes[8] & 7), (0x2a & 7, 0x2a >> 3));
    }

    #[test]
    fn descriptors_lie_where_the_guide_draws_them() {
        // A write of 4 double words to 0x1_2345_6788 by 02:01.0, tag 0x33, with relaxed ordering.
        let mut bytes = 0x1_2345_6788u128 | 4 << 64 | 1 << 75 | 0x0208 << 80 | 0x33 << 96 | 1 << 125;
        let rq = RqDescriptor::parse(&bytes.to_le_bytes()).unwrap();
        assert_eq!(
            (rq.address << 2, rq.dwords, rq.request_type),
            (0x1_2345_6788, 4, RequestType::MemoryWrite.code())
        );
        assert_eq!((rq.requester, rq.tag, rq.relaxed, rq.no_snoop), (0x0208, 0x33, true, false));
        bytes = 0x42
            | 0x46 << 16
            | 1 << 30
            | 16 << 32
            | 1 << 46
            | 0x0208 << 48
            | 0x33 << 64
            | 0x0010 << 72
            | 1 << 92;
        let rc = RcDescriptor::parse(&bytes.to_le_bytes()).unwrap();
        assert_eq!((rc.lower_address, rc.byte_count, rc.completed, rc.dwords), (0x42, 0x46, true, 16));
        assert_eq!(
            (rc.poisoned, rc.requester, rc.tag, rc.completer, rc.no_snoop),
            (true, 0x0208, 0x33, 0x10, true)
        );
    }
}
