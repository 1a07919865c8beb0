// SPDX-License-Identifier: MIT OR Apache-2.0
//! Balls, times and counts.

/// Levels at the device's balls from one change to the next. CKE is high, CS# and DQM are low.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Pins {
    pub clk: bool,
    pub ras_n: bool,
    pub cas_n: bool,
    pub we_n: bool,
    pub ba: u8,
    pub a: u32,
    /// What the controller puts on DQ, where it drives it.
    pub dq: u32,
    /// A bit for each wire of DQ: whether the controller drives it.
    pub drive: u32,
}

impl Default for Pins {
    /// NOP, with CLK low and nothing on DQ.
    fn default() -> Self {
        Self { clk: false, ras_n: true, cas_n: true, we_n: true, ba: 0, a: 0, dq: 0, drive: 0 }
    }
}

/// The longer of a time and a number of clock cycles.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Span {
    /// Picoseconds.
    pub ps: u64,
    /// Rising edges of CLK.
    pub ck: u64,
}

/// Limits of a device, under the standard's names without the `t`, and how it behaves within them. Where there are
/// two of a limit, the first is for a CAS latency of 2 and the other for 3.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Timing {
    /// The shortest period of CLK.
    pub ck_ps: [u64; 2],
    /// The longest: while CKE is high CLK may not stop.
    pub ck_max_ps: u64,
    /// CLK is high and low for no less.
    pub ch_ps: u64,
    pub cl_ps: u64,
    /// ACTIVATE to READ or WRITE.
    pub rcd: Span,
    /// PRECHARGE to ACTIVATE, AUTO REFRESH or MODE.
    pub rp: Span,
    /// ACTIVATE to PRECHARGE.
    pub ras: Span,
    /// ACTIVATE to PRECHARGE at the most.
    pub ras_max_ps: u64,
    /// ACTIVATE to ACTIVATE of a bank, and to AUTO REFRESH.
    pub rc: Span,
    /// AUTO REFRESH to any command.
    pub rfc: Span,
    /// ACTIVATE of a bank to ACTIVATE of another.
    pub rrd: Span,
    /// The edge that takes the last word of a WRITE to PRECHARGE: tWR, tDPL or tRDL.
    pub wr: Span,
    /// MODE to any command: tMRD or tRSC.
    pub mrd: Span,
    /// Read data come no later than this behind an edge.
    pub ac_ps: [u64; 2],
    /// Read data hold no shorter than this behind the next.
    pub oh_ps: u64,
    /// The device drives DQ no earlier than this behind the edge that read data follow.
    pub lz_ps: u64,
    /// And no later than this behind the edge at which the last of them are valid.
    pub hz_ps: [u64; 2],
    pub ds_ps: u64,
    pub dh_ps: u64,
    pub is_ps: u64,
    pub ih_ps: u64,
    /// So many AUTO REFRESHes refresh every row once.
    pub rows: u64,
    /// Within which each row is to be refreshed.
    pub ref_ps: u64,
    /// How many AUTO REFRESHes may be owed to an even pace of them, or be ahead of it.
    ///
    /// A device itself would be content with all [`rows`](Self::rows) of them in one go every
    /// [`ref_ps`](Self::ref_ps), which is checked besides. But a simulation is shorter than that, and would then
    /// never find a controller that forgets to refresh. Hence the 8 of the standards behind it (JESD79 and on), whose
    /// cells are alike, and which cost a row no more than an eighth of a millisecond of its 64.
    pub postponed: u64,
    /// NOP from the first edge of CLK to the first command.
    pub power_up_ps: u64,
    /// AUTO REFRESHes between that and the first ACTIVATE.
    pub power_up_refreshes: u64,
    /// What `power_up_ps` is divided by, for short simulations; 1 for the real device.
    pub startup_divisor: u64,
    /// When read data do come behind an edge: from [`oh_ps`](Self::oh_ps) to [`ac_ps`](Self::ac_ps).
    pub access_ps: u64,
}

impl Timing {
    /// M12L64322A-6 (166 MHz), by the harder of what two devices of its kind and grade have for each limit:
    /// W9864G2JH-6 ("AC Characteristics and Operating Condition"), which is its equal, and MT48LC4M32B2-6 ("AC
    /// Operating Conditions"), which has twice the rows. tWR is the tRDL of its own data sheet's revision 1.7, with the two cycles
    /// of W9864G2. So are the eight AUTO REFRESHes at the start ("Power Up and Initialization"), where JEDEC has 2;
    /// tRAS max is the 100 us of ESMT's devices and W9864G2, not the 120 of others.
    pub fn m12l64322a_6() -> Self {
        let ps = |ps| Span { ps, ck: 0 };
        Self {
            ck_ps: [10_000, 6_000],
            ck_max_ps: 1_000_000,
            ch_ps: 2_500,
            cl_ps: 2_500,
            rcd: ps(18_000),
            rp: ps(18_000),
            ras: ps(42_000),
            ras_max_ps: 100_000_000,
            rc: ps(60_000),
            rfc: ps(60_000),
            rrd: ps(12_000),
            wr: Span { ps: 12_000, ck: 2 },
            mrd: Span { ps: 0, ck: 2 },
            ac_ps: [7_500, 5_500],
            oh_ps: 2_000,
            lz_ps: 0,
            hz_ps: [7_500, 5_500],
            ds_ps: 1_500,
            dh_ps: 1_000,
            is_ps: 1_500,
            ih_ps: 1_000,
            rows: 4_096,
            ref_ps: 64_000_000_000,
            postponed: 8,
            power_up_ps: 200_000_000,
            power_up_refreshes: 8,
            startup_divisor: 1,
            access_ps: 5_500,
        }
    }

    /// M12L64322A-7 (143 MHz), likewise from W9864G2JH-7 and MT48LC4M32B2-7.
    pub fn m12l64322a_7() -> Self {
        let ps = |ps| Span { ps, ck: 0 };
        Self {
            ck_ps: [10_000, 7_000],
            ch_ps: 2_750,
            cl_ps: 2_750,
            rcd: ps(20_000),
            rp: ps(20_000),
            ras: ps(45_000),
            rc: ps(70_000),
            rfc: ps(70_000),
            rrd: ps(14_000),
            wr: Span { ps: 14_000, ck: 2 },
            ac_ps: [8_000, 5_500],
            hz_ps: [8_000, 5_500],
            ds_ps: 2_000,
            is_ps: 2_000,
            ..Self::m12l64322a_6()
        }
    }

    /// What suits devices of other makers of 143 MHz and better, too: as the last, but with tRCD and tRP of
    /// AS4C32M16SB-7, the hold without load (tOHn) of MT48LC4M32B2, and half a nanosecond more for read data.
    pub fn slowest() -> Self {
        let ps = |ps| Span { ps, ck: 0 };
        Self {
            rcd: ps(21_000),
            rp: ps(21_000),
            wr: Span { ps: 15_000, ck: 2 },
            ac_ps: [8_000, 6_000],
            hz_ps: [8_000, 6_000],
            oh_ps: 1_800,
            access_ps: 6_000,
            ..Self::m12l64322a_7()
        }
    }
}

/// How many commands of each kind the device has taken.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Counts {
    pub activates: u64,
    /// PRECHARGE of one bank and of all, one each.
    pub precharges: u64,
    /// Banks that were closed by A10 of a READ or WRITE.
    pub auto_precharges: u64,
    pub reads: u64,
    pub writes: u64,
    pub terminates: u64,
    pub refreshes: u64,
    pub mode_writes: u64,
}
