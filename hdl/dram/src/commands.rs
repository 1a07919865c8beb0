// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines to commands of DDR3, with the times that lie between them, and refreshes.
//!
//! ```text
//!                   +--> its row is open? --> READ, WRITE
//!  line --> bank ---+--> another is ------> PRECHARGE
//!                   +--> none is ---------> ACTIVATE --> [ rows ]
//!  [ refresh ] --> PRECHARGE all --> REFRESH
//!                        |
//!                 [ timers ] <-- loaded by each command
//!                        v
//!  command <-- [ ]     data, mask --> [ ] --> [ ] --> [ 4 cycles of two words ] --> strobes and data, six cycles behind WRITE
//! ```
//!
//! One command a cycle at most. Each bank keeps its row open until another of its rows is wanted or the memory is refreshed. **Timers** count down to when a command of a kind may come next; they are those of all banks
//! together, which is later than the standard asks where banks differ, and never sooner. A refresh waits for the line before it, some thirty cycles at most.
//!
//! **Rates.** A line in four cycles in rows that are open; from READ to a line written there 10, from WRITE to one read 14; a row that is not open costs 2, one that must be closed first 2 or 11 more. A refresh takes 20 of 386 cycles at 50 MHz.
//!
//! **Reset** closes all banks, and the [start](crate::start) follows. Longest path: the line's bank to its open row, that against the line's row, the command.

use ferrowire_rtl::{bits, cat, lit, module, Bundle, Interface, Operand, Scope, Sig, Stream, Style};

use crate::config::{DramConfig, BANK_BITS, CCD, COLUMN_BITS, CWL, LINE_BYTES, RTW, WORD_BITS};

/// A line of the memory, to be read or written.
#[derive(Clone, Bundle)]
pub(crate) struct Line {
    /// Written; else read.
    pub write: Sig,
    /// Of its row, in lines.
    pub column: Sig,
    /// Its bank.
    pub bank: Sig,
    /// Its row.
    pub row: Sig,
    /// What is written.
    pub data: Sig,
    /// Which bytes are not.
    pub mask: Sig,
}

impl Line {
    /// The shape.
    pub fn of(cfg: &DramConfig) -> Self {
        let column = bits(COLUMN_BITS - 3);
        let (bank, row) = (bits(BANK_BITS), bits(cfg.row_bits));
        Line { write: bits(1), column, bank, row, data: bits(8 * LINE_BYTES), mask: bits(LINE_BYTES) }
    }

    /// Its place in memory, as a number of lines: neighbours lie in a row, and behind a row in the next bank.
    pub fn number(&self) -> Sig {
        bits(self.column.width() + self.bank.width() + self.row.width())
    }

    /// With the place of this number.
    pub fn numbered(&self, number: Sig) -> Self {
        let (column, bank) = (self.column.width(), self.bank.width());
        Line {
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
    pub fn of(cfg: &DramConfig) -> Self {
        let wire = || bits(1);
        // A10 is in every command's way, whatever the rows.
        Command { ras_n: wire(), cas_n: wire(), we_n: wire(), ba: bits(BANK_BITS), a: bits(cfg.row_bits) }
    }

    /// The command with this code, to a bank and with an address.
    pub fn give(&self, m: &Scope, code: u32, bank: impl Operand, address: impl Operand) {
        let wires = [(self.we_n, code & 1), (self.cas_n, code >> 1 & 1), (self.ras_n, code >> 2)];
        wires.iter().for_each(|(to, level)| m.set(to, *level));
        m.set(&self.ba, bank);
        m.set(&self.a, address);
    }
}

/// What is written in a cycle.
#[derive(Clone, Bundle)]
pub(crate) struct Written {
    /// The FPGA drives data and strobes.
    pub drive: Sig,
    /// A strobe rises and falls.
    pub strobe: Sig,
    /// The word at the rising and that at the falling edge.
    pub data: Sig,
    /// Which bytes of them are not written.
    pub mask: Sig,
}

/// What leaves.
#[derive(Interface)]
pub(crate) struct Issued {
    pub command: Command,
    /// A line is read by the command of this cycle.
    pub read: Sig,
    pub written: Written,
}

/// Commands by RAS#, CAS# and WE# (JESD79-3F, command truth table), bit 0 WE#.
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

/// See the page's top. `start`: commands until `up`, from when lines are taken and the memory is refreshed.
#[module]
pub(crate) fn commands(m: &Scope, cfg: &DramConfig, up: Sig, start: Command, line: Stream<Line>) -> Issued {
    let times = cfg.times();
    let written_for = CWL + CCD;
    let activate = Timer::new(m, "to_activate", times.rfc);
    let column = Timer::new(m, "to_column", CCD.max(times.rcd));
    let read = Timer::new(m, "to_read", written_for + times.wtr);
    let write = Timer::new(m, "to_write", RTW);
    let precharge = Timer::new(m, "to_precharge", written_for + times.wr);
    for timer in [&activate, &column, &read, &write, &precharge] {
        m.set(&timer.left, timer.next);
    }

    let until = m.reg("until_refresh", ferrowire_rtl::clog2(u64::from(times.refi))).reset(times.refi - 1);
    let refresh = m.reg("refresh", 1).reset(0);
    m.set(&until, until.any().then(until - 1, lit(until.width(), times.refi - 1)));
    m.when(!until.any() & up, |m| m.set(&refresh, 1));

    let banks = 1 << BANK_BITS;
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

    let shape = Command::of(cfg);
    let wire = m.wire_of("chosen", &shape);
    let bits_of_address = cfg.row_bits;
    let begins = cat(&[lit(3, 0), line.column]).zext(bits_of_address);
    wire.give(m, code::NOP, line.bank, begins);
    m.when(!up, |m| m.set_all(&wire, &start));
    m.when(reads, |m| {
        wire.give(m, code::READ, line.bank, begins);
        column.load(m, CCD);
        write.load(m, RTW);
        precharge.load(m, times.rtp);
    });
    m.when(writes, |m| {
        wire.give(m, code::WRITE, line.bank, begins);
        column.load(m, CCD);
        read.load(m, written_for + times.wtr);
        precharge.load(m, written_for + times.wr);
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
        ba: m.reg("ba", BANK_BITS).no_reset(),
        a: m.reg("a", bits_of_address).no_reset(),
    };
    m.set_all(&command, &wire);
    let read = m.reg("read", 1).reset(0);
    m.set(&read, reads);
    Issued { command, read, written: written(m, writes, &line.payload) }
}

/// Words and strobes behind a WRITE that is chosen in this cycle and on the wires in the next.
fn written(m: &Scope, writes: Sig, line: &Line) -> Written {
    // Bit k: a WRITE was on the wires k cycles ago.
    let ago = m.reg("ago", CWL + CCD + 2).reset(0);
    m.set(&ago, cat(&[writes, ago.trunc(CWL + CCD + 1)]));
    let both = cat(&[line.data, line.mask]);
    // The next WRITE may come four cycles behind; the words wait for six.
    let (first, second) = (m.reg("first", both.width()).no_reset(), m.reg("waits", both.width()).no_reset());
    m.when(writes, |m| m.set(&first, both));
    m.when(ago.bit(2), |m| m.set(&second, first));
    let words = m.reg("words", 8 * LINE_BYTES).no_reset();
    let masks = m.reg("masks", LINE_BYTES).no_reset();
    let (pair, pair_mask) = (2 * WORD_BITS, 2 * WORD_BITS / 8);
    m.set(&words, words >> pair);
    m.set(&masks, masks >> pair_mask);
    m.when(ago.bit(CWL - 1), |m| {
        m.set(&words, second.trunc(8 * LINE_BYTES));
        m.set(&masks, second.slice(8 * LINE_BYTES, LINE_BYTES));
    });
    Written {
        // Two cycles before the first edge, of which the last is the preamble, and two behind the last.
        drive: ago.slice(CWL - 2, CCD + 4).any(),
        strobe: ago.slice(CWL, CCD).any(),
        data: words.trunc(pair),
        mask: masks.trunc(pair_mask),
    }
}
