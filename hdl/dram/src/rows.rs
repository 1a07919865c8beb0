// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines to commands of DRAM, with the times that lie between them, and refreshes.
//!
//! ```text
//!                   +--> its row is open? --> READ, WRITE
//!  line --> bank ---+--> another is ------> PRECHARGE
//!                   +--> none is ---------> ACTIVATE --> [ rows ]
//!  [ refresh ] --> PRECHARGE all --> REFRESH
//!                        |
//!                 [ timers ] <-- loaded by each command
//!                        v
//!  command <-- [ ]
//! ```
//!
//! One command a cycle at most. Each bank keeps its row open until another of its rows is wanted or the memory is refreshed. **Timers** count down to when a command of a kind may come next; they are those of all banks
//! together, which is later than the standards ask where banks differ, and never sooner. A refresh waits for the line before it, some thirty cycles at most.
//!
//! **Reset** closes all banks, and the start follows. Longest path: the line's bank to its open row, that against the line's row, the command.

use ferrowire_rtl::{bits, cat, lit, Bundle, Operand, Scope, Sig, Stream, Style};

/// A device: how it is divided, and its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// Bits of a bank's number.
    pub bank_bits: u32,
    /// Bits of a row's number.
    pub row_bits: u32,
    /// Bits of a column's number.
    pub column_bits: u32,
    /// Words of a burst.
    pub burst: u32,
    /// Times.
    pub times: Times,
}

/// Times of a device, in cycles of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// ACTIVATE to READ or WRITE.
    pub rcd: u32,
    /// PRECHARGE to ACTIVATE.
    pub rp: u32,
    /// ACTIVATE to PRECHARGE.
    pub ras: u32,
    /// ACTIVATE to ACTIVATE of a bank.
    pub rc: u32,
    /// REFRESH to whatever comes next.
    pub rfc: u32,
    /// WRITE to its last word.
    pub written: u32,
    /// Last word written to PRECHARGE.
    pub wr: u32,
    /// Last word written to READ.
    pub wtr: u32,
    /// READ to PRECHARGE.
    pub rtp: u32,
    /// READ to WRITE.
    pub rtw: u32,
    /// A burst's length on the wires, and from burst to burst.
    pub ccd: u32,
    /// ACTIVATE to ACTIVATE of another bank; four of them are longer than tFAW at these clocks.
    pub rrd: u32,
    /// Between refreshes.
    pub refi: u32,
}

/// A line of the memory, which is all that is ever read or written at once: a burst.
#[derive(Clone, Bundle)]
pub(crate) struct Access {
    /// Written; else read.
    pub write: Sig,
    /// Of its row, in lines.
    pub column: Sig,
    /// Its bank.
    pub bank: Sig,
    /// Its row.
    pub row: Sig,
}

impl Access {
    /// The shape.
    pub fn of(device: &Device) -> Self {
        let column = bits(device.column_bits - device.burst.trailing_zeros());
        Access { write: bits(1), column, bank: bits(device.bank_bits), row: bits(device.row_bits) }
    }

    /// Its place in memory, as a number of lines: neighbours lie in a row, and behind a row in the next bank.
    pub fn number(&self) -> Sig {
        bits(self.column.width() + self.bank.width() + self.row.width())
    }

    /// With the place of this number.
    pub fn numbered(&self, number: Sig) -> Self {
        let (column, bank) = (self.column.width(), self.bank.width());
        Access {
            column: number.slice(0, column),
            bank: number.slice(column, bank),
            row: number.slice(column + bank, self.row.width()),
            ..self.clone()
        }
    }
}

/// The wires of commands; a device's CS# is low throughout.
#[derive(Clone, Bundle)]
pub(crate) struct Command {
    pub ras_n: Sig,
    pub cas_n: Sig,
    pub we_n: Sig,
    pub ba: Sig,
    pub a: Sig,
}

impl Command {
    /// The shape.
    pub fn of(device: &Device) -> Self {
        let wire = || bits(1);
        // There are eleven at least: A10 tells of all banks.
        Command {
            ras_n: wire(),
            cas_n: wire(),
            we_n: wire(),
            ba: bits(device.bank_bits),
            a: bits(device.row_bits),
        }
    }

    /// The command with this code, to a bank and with an address.
    pub fn give(&self, m: &Scope, code: u32, bank: impl Operand, address: impl Operand) {
        let wires = [(self.we_n, code & 1), (self.cas_n, code >> 1 & 1), (self.ras_n, code >> 2)];
        wires.iter().for_each(|(to, level)| m.set(to, *level));
        m.set(&self.ba, bank);
        m.set(&self.a, address);
    }
}

/// Commands by RAS#, CAS# and WE# (JESD79-3F, command truth table; as in single data rate), bit 0 WE#.
pub(crate) mod code {
    pub const MODE: u32 = 0b000;
    pub const REFRESH: u32 = 0b001;
    pub const PRECHARGE: u32 = 0b010;
    pub const ACTIVATE: u32 = 0b011;
    pub const WRITE: u32 = 0b100;
    pub const READ: u32 = 0b101;
    pub const CALIBRATE: u32 = 0b110;
    pub const NOP: u32 = 0b111;
}

/// A10: all banks.
pub(crate) const ALL: u32 = 1 << 10;

/// A number of cycles until something may come, loaded with the later of two.
struct Timer {
    left: Sig,
    next: Sig,
}

impl Timer {
    fn new(m: &Scope, name: &str, most: u32) -> Self {
        let width = ferrowire_rtl::clog2(u64::from(most) + 1).max(1);
        let left = m.reg(name, width).reset(0);
        Self { left, next: left.any().then(left - 1, left) }
    }

    fn over(&self) -> Sig {
        !self.left.any()
    }

    /// The next of its kind comes so many cycles behind the command of this one, or later.
    fn load(&self, m: &Scope, cycles: u32) {
        let wanted = lit(self.left.width(), cycles - 1);
        m.set(&self.left, m.mux(self.next.lt(wanted), &wanted, &self.next));
    }
}

/// What leaves.
pub(crate) struct Chosen {
    /// On the wires in the next cycle.
    pub command: Command,
    /// A line is read by the command of this cycle, which is on the wires.
    pub read: Sig,
    /// A line's WRITE is chosen, which is on the wires in the next cycle.
    pub writes: Sig,
}

/// See the page's top. `start`: commands until `up`, from when lines are taken and the memory is refreshed.
pub(crate) fn rows(m: &Scope, device: &Device, up: Sig, start: Command, line: Stream<Access>) -> Chosen {
    let times = device.times;
    let activate = Timer::new(m, "to_activate", times.rfc);
    let column = Timer::new(m, "to_column", times.ccd.max(times.rcd));
    let read = Timer::new(m, "to_read", times.written + times.wtr);
    let write = Timer::new(m, "to_write", times.rtw);
    let precharge = Timer::new(m, "to_precharge", times.written + times.wr);
    for timer in [&activate, &column, &read, &write, &precharge] {
        m.set(&timer.left, timer.next);
    }

    let until = m.reg("until_refresh", ferrowire_rtl::clog2(u64::from(times.refi))).reset(times.refi - 1);
    let refresh = m.reg("refresh", 1).reset(0);
    m.set(&until, until.any().then(until - 1, lit(until.width(), times.refi - 1)));
    m.when(!until.any() & up, |m| m.set(&refresh, 1));

    let banks = 1 << device.bank_bits;
    let open = m.reg("open", banks).reset(0);
    let rows = m.mem("rows", banks, &line.row).style(Style::Distributed).build();
    let open_row = rows.read_now(line.bank);
    let is_open = open.bit_at(line.bank);
    let hit = (is_open & open_row.eq(line.row)).named("hit");

    let serves = up & !refresh & line.valid;
    let reads = (serves & hit & !line.write & column.over() & read.over()).named("reads");
    let writes = (serves & hit & line.write & column.over() & write.over()).named("writes");
    line.accept(up & !refresh & hit & column.over() & line.write.then(write.over(), read.over()));
    let activates = (serves & !is_open & activate.over()).named("activates");
    let closes = (serves & is_open & !hit & precharge.over()).named("closes");
    let closes_all = (refresh & open.any() & precharge.over()).named("closes_all");
    let refreshes = (refresh & !open.any() & activate.over()).named("refreshes");

    let shape = Command::of(device);
    let wire = m.wire_of("chosen", &shape);
    let bits_of_address = device.row_bits;
    let begins = cat(&[lit(device.burst.trailing_zeros(), 0), line.column]).zext(bits_of_address);
    wire.give(m, code::NOP, line.bank, begins);
    m.when(!up, |m| m.set_all(&wire, &start));
    m.when(reads, |m| {
        wire.give(m, code::READ, line.bank, begins);
        column.load(m, times.ccd);
        write.load(m, times.rtw);
        precharge.load(m, times.rtp);
    });
    m.when(writes, |m| {
        wire.give(m, code::WRITE, line.bank, begins);
        column.load(m, times.ccd);
        read.load(m, times.written + times.wtr);
        precharge.load(m, times.written + times.wr);
    });
    let this = lit(banks, 1).shl_by(line.bank);
    m.when(activates, |m| {
        wire.give(m, code::ACTIVATE, line.bank, line.row);
        m.set(&open, open | this);
        activate.load(m, times.rrd.max(times.rc));
        column.load(m, times.rcd);
        precharge.load(m, times.ras);
    });
    m.when(closes, |m| {
        wire.give(m, code::PRECHARGE, line.bank, 0);
        m.set(&open, open & !this);
        activate.load(m, times.rp);
    });
    m.when(closes_all, |m| {
        wire.give(m, code::PRECHARGE, 0, ALL);
        m.set(&open, 0);
        activate.load(m, times.rp);
    });
    m.when(refreshes, |m| {
        wire.give(m, code::REFRESH, 0, 0);
        m.set(&refresh, 0);
        activate.load(m, times.rfc);
    });
    rows.write(activates, line.bank, &line.row);

    let command = Command {
        ras_n: m.reg("ras_n", 1).reset(1),
        cas_n: m.reg("cas_n", 1).reset(1),
        we_n: m.reg("we_n", 1).reset(1),
        ba: m.reg("ba", device.bank_bits).no_reset(),
        a: m.reg("a", bits_of_address).no_reset(),
    };
    m.set_all(&command, &wire);
    let read = m.reg("read", 1).reset(0);
    m.set(&read, reads);
    Chosen { command, read, writes }
}
