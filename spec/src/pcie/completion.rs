// SPDX-License-Identifier: MIT OR Apache-2.0
//! A completion: what comes back for a request that is not posted.

crate::table::layout! {
    /// Header of a completion.
    struct Completion, "pcie_completion", Network, 12 bytes, "PCIe 2.2.9";
    /// Size of the header and whether data follows: bit 1 says data, bit 0 four double words.
    FMT fmt: u8 @ 0, 3, RW = 2, "PCIe 2.2.1";
    /// What the packet is, together with `fmt`: see [`super::kind`].
    TYPE kind: u8 @ 3, 5, RW = 10, "PCIe 2.2.1";
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
    /// Who answers.
    COMPLETER completer: u16 @ 32, 16, RW, "PCIe 2.2.9";
    /// How the request ended: see [`CompletionStatus`].
    STATUS status: u8 @ 48, 3, RW, "PCIe 2.2.9";
    /// The byte count was modified by a PCI-X completer.
    BCM bcm: bool @ 51, 1, RW, "PCIe 2.2.9";
    /// Bytes that are still to come for the request, these included; 0: 4,096. Of a completion without data it means nothing.
    BYTE_COUNT byte_count: u16 @ 52, 12, RW, "PCIe 2.3.1.1";
    /// Who asked.
    REQUESTER requester: u16 @ 64, 16, RW, "PCIe 2.2.9";
    /// The request's tag.
    TAG tag: u8 @ 80, 8, RW, "PCIe 2.2.9";
    /// Reserved.
    RSVD rsvd: bool @ 88, 1, RSVD;
    /// The lowest bits of the address of the first byte that was asked for and is in this completion.
    LOWER_ADDRESS lower_address: u8 @ 89, 7, RW, "PCIe 2.3.1.1";
}

crate::table::codes! {
    /// How a request ended (PCIe 2.2.9, table 2-34).
    enum CompletionStatus, "pcie_completion_status";
    /// Successfully.
    Success = 0, "SC";
    /// The completer does not support it: among others, nothing has that address.
    UnsupportedRequest = 1, "UR";
    /// It is to be asked for again; only of configuration requests.
    RequestRetry = 2, "RRS";
    /// The completer could not.
    CompleterAbort = 4, "CA";
}
