// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of frames and bytes.

crate::table::counters! {
    /// Frames and bytes, from the MAC's side.
    enum TrafficCounter, "traffic", 0x0800, 0x100 bytes;
    /// Frames from the MAC.
    RxFrames = 0, "rx_frames";
    /// Bytes of these.
    RxBytes = 1, "rx_bytes";
    /// Frames to UDP port 4791 that passed every check up to the ICRC, those returned inside the card included.
    RxRoce = 2, "rx_roce";
    /// Frames to the MAC.
    TxFrames = 3, "tx_frames";
    /// Bytes of these.
    TxBytes = 4, "tx_bytes";
    /// RoCE frames to the MAC.
    TxRoce = 5, "tx_roce";
    /// Frames handed to the raw Ethernet queue pair, or answered by the card, those returned inside the card included.
    RxRaw = 6, "rx_raw";
    /// Frames sent by the raw Ethernet queue pair, or by the card as an answer.
    TxRaw = 7, "tx_raw";
    /// Commands taken.
    Commands = 8, "commands";
    /// CQEs written.
    Completions = 9, "completions";
    /// Events written.
    Events = 10, "events";
    /// Doorbells taken.
    Doorbells = 11, "doorbells";
    /// Doorbells ignored: wrong page, unknown queue, index out of reach.
    DoorbellsIgnored = 12, "doorbells_ignored";
    /// Completions that found no room in their CQ, or one that was overrun before.
    CompletionsLost = 13, "completions_lost";
    /// Events that found no room in their event queue: the next one there is marked. Events of CQs are never lost.
    EventsLost = 14, "events_lost";
    /// PAUSE frames from the MAC, obeyed or not.
    RxPause = 15, "rx_pause";
    /// PFC frames from the MAC, obeyed or not.
    RxPfc = 16, "rx_pfc";
    /// Cycles of the pipeline's clock in which a priority stood still.
    PauseDuration = 17, "rx_pause_duration";
    /// PCIe completions that fit nothing that was asked.
    PcieUnexpected = 18, "pcie_unexpected_completions";
    /// Reads of host memory that were given up after the completion time-out.
    PcieTimeouts = 19, "pcie_completion_timeouts";
    /// PCIe requests to BAR 0 that were refused or dropped.
    PcieRefused = 20, "pcie_refused_requests";
    /// Reads of host memory that AXI answered with an error.
    AxiReadErrors = 21, "axi_read_errors";
    /// Bursts of writes to host memory that AXI answered with an error. The first one raises `DEVICE_FATAL`, and the block `host_memory` has its address.
    AxiWriteErrors = 22, "axi_write_errors";
    /// Frames to the card's own MAC address that were returned inside the card. They are neither `tx_frames` nor `rx_frames`.
    LoopbackFrames = 23, "loopback_frames";
    /// Bytes of these.
    LoopbackBytes = 24, "loopback_bytes";
    /// Frames of the raw Ethernet queue pair that were not sent because a receiver could take them for RoCE: see `RAW_ROCE` of `local_cause`.
    TxRawRefused = 25, "tx_raw_refused";
}
