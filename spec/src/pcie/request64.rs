// SPDX-License-Identifier: MIT OR Apache-2.0
//! A memory request to an address from 4 GiB on.

crate::table::layout! {
    /// Header of a memory request to an address from 4 GiB on.
    struct Request64, "pcie_request64", Network, 16 bytes, "PCIe 2.2.7";
    /// Size of the header and whether data follows: bit 1 says data, bit 0 four double words.
    FMT fmt: u8 @ 0, 3, RW = 1, "PCIe 2.2.1";
    /// What the packet is, together with `fmt`: see [`super::kind`].
    TYPE kind: u8 @ 3, 5, RW, "PCIe 2.2.1";
    /// Tag, bit 9: of 10-bit tags.
    T9 t9: bool @ 8, 1, RW, "PCIe 2.2.6.2";
    /// Traffic class.
    TC tc: u8 @ 9, 3, RW, "PCIe 2.2.6.6";
    /// Tag, bit 8: of 10-bit tags.
    T8 t8: bool @ 12, 1, RW, "PCIe 2.2.6.2";
    /// Ordering is asked for within the requester alone.
    IDO ido: bool @ 13, 1, RW, "PCIe 2.2.6.4";
    /// Lightweight notification.
    LN ln: bool @ 14, 1, RW, "PCIe 2.2.1";
    /// Processing hints are there.
    TH th: bool @ 15, 1, RW, "PCIe 2.2.7.1";
    /// A digest follows.
    TD td: bool @ 16, 1, RW, "PCIe 2.2.3";
    /// The data is poisoned.
    EP ep: bool @ 17, 1, RW, "PCIe 2.7.2";
    /// Relaxed ordering.
    RO relaxed: bool @ 18, 1, RW, "PCIe 2.2.6.4";
    /// No snoop.
    NS no_snoop: bool @ 19, 1, RW, "PCIe 2.2.6.5";
    /// Address type: 0 is one that is still to be translated.
    AT at: u8 @ 20, 2, RW, "PCIe 2.2.4.1";
    /// Double words of data, or asked for; 0: 1,024.
    LENGTH length: u16 @ 22, 10, RW, "PCIe 2.2.2";
    /// Who asks: bus, device and function.
    REQUESTER requester: u16 @ 32, 16, RW, "PCIe 2.2.6.2";
    /// Which of the requester's reads it is; of a write nobody looks at it.
    TAG tag: u8 @ 48, 8, RW, "PCIe 2.2.6.2";
    /// Bytes of the last double word, lowest address in bit 0; 0 where there is one double word only.
    LAST_BE last_be: u8 @ 56, 4, RW, "PCIe 2.2.5";
    /// Bytes of the first double word; 0 with one double word: no byte at all.
    FIRST_BE first_be: u8 @ 60, 4, RW, "PCIe 2.2.5";
    /// The address of the first double word, without its lowest two bits.
    ADDRESS address: u64 @ 64, 62, RW, "PCIe 2.2.4.1";
    /// Processing hint.
    PH ph: u8 @ 126, 2, RW, "PCIe 2.2.7.1";
}
