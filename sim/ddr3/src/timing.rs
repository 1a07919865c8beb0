// SPDX-License-Identifier: MIT OR Apache-2.0
//! Balls, times and counts.

/// Levels at the device's balls from one change to the next.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Pins {
    pub reset_n: bool,
    pub ck: bool,
    pub cke: bool,
    pub cs_n: bool,
    pub ras_n: bool,
    pub cas_n: bool,
    pub we_n: bool,
    pub odt: bool,
    pub ba: u8,
    pub a: u32,
    /// LDM in bit 0, UDM in bit 1.
    pub dm: u8,
    /// LDQS in bit 0, UDQS in bit 1; `None` where the controller does not drive them.
    pub dqs: Option<u8>,
    /// `None` where the controller does not drive it.
    pub dq: Option<u16>,
}

/// The longer of a time and a number of clock cycles.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Span {
    /// Picoseconds.
    pub ps: u64,
    /// Rising edges of CK.
    pub ck: u64,
}

/// Limits of a device, under the standard's names without the `t`, and how it behaves within them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Timing {
    pub rcd: Span,
    pub rp: Span,
    pub ras: Span,
    pub rc: Span,
    pub rfc: Span,
    pub wr: Span,
    pub wtr: Span,
    pub rtp: Span,
    pub rrd: Span,
    pub faw: Span,
    pub ccd: Span,
    pub mrd: Span,
    pub mod_: Span,
    pub xpr: Span,
    pub zq_init: Span,
    pub zq_oper: Span,
    pub zq_cs: Span,
    pub refi_ps: u64,
    /// RESET# low from power-up.
    pub reset_low_ps: u64,
    /// CKE low behind RESET#.
    pub cke_low_ps: u64,
    /// What `reset_low_ps` and `cke_low_ps` are divided by, for short simulations; 1 for the real device.
    pub startup_divisor: u64,
    pub ds_ps: u64,
    pub dh_ps: u64,
    pub is_ps: u64,
    pub ih_ps: u64,
    /// Delay of read data behind the clock's edge, 1 to 10 ns.
    pub dqsck_ps: u64,
    /// Half the time around each change of a DQ ball in which a sample of it is random.
    pub uncertain_ps: u64,
    /// What each DQ ball is later by than `dqsck_ps`.
    pub skew_ps: [i32; 16],
}

impl Timing {
    /// A 4 Gb DDR3-1600 device, such as MT41K256M16.
    pub fn ddr3_1600_4gb() -> Self {
        let ps = |ps| Span { ps, ck: 0 };
        let ck = |ck| Span { ps: 0, ck };
        let four = Span { ps: 7_500, ck: 4 };
        Self {
            rcd: ps(13_750),
            rp: ps(13_750),
            ras: ps(35_000),
            rc: ps(48_750),
            rfc: ps(260_000),
            wr: ps(15_000),
            wtr: four,
            rtp: four,
            rrd: four,
            faw: ps(40_000),
            ccd: ck(4),
            mrd: ck(4),
            mod_: Span { ps: 15_000, ck: 12 },
            xpr: Span { ps: 270_000, ck: 5 },
            zq_init: Span { ps: 640_000, ck: 512 },
            zq_oper: Span { ps: 320_000, ck: 256 },
            zq_cs: Span { ps: 80_000, ck: 64 },
            refi_ps: 7_800_000,
            reset_low_ps: 200_000_000,
            cke_low_ps: 500_000_000,
            startup_divisor: 1,
            ds_ps: 500,
            dh_ps: 500,
            is_ps: 500,
            ih_ps: 500,
            dqsck_ps: 5_000,
            uncertain_ps: 500,
            skew_ps: [0; 16],
        }
    }
}

/// How many commands of each kind the device has taken.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Counts {
    pub activates: u64,
    /// PRE and PREA, one each.
    pub precharges: u64,
    pub reads: u64,
    pub writes: u64,
    pub refreshes: u64,
    pub mode_writes: u64,
}
