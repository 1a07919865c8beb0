// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the device does with its commands, and when it may be given them.

use crate::*;

/// By RAS#, CAS# and WE#, which are bits 2, 1 and 0 ("Truth table: commands").
const COMMANDS: [&str; 8] =
    ["MODE", "AUTO REFRESH", "PRECHARGE", "ACTIVATE", "WRITE", "READ", "BURST TERMINATE", "NOP"];

/// Which bits of the mode register must have what value, and why ("Mode register definition").
const MODE_RULES: [(u32, u32, &str); 5] = [
    (0x004, 0, "burst length is full page or reserved"),
    (0x008, 0, "burst type is not sequential"),
    (0x060, 0x20, "CL is not 2 or 3"),
    (0x180, 0, "test mode"),
    (0x400, 0, "reserved bits"),
];

/// What a wait is for.
enum Of {
    Bank(u8),
    All,
}

impl Display for Of {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Of::Bank(bank) => write!(f, " of bank {bank}"),
            Of::All => Ok(()),
        }
    }
}

impl Sdr {
    /// Fails if `span` has not yet passed since something.
    fn after(&self, since: Option<Since>, span: Span, rule: &str, command: &str, of: Of) {
        let (Some(Since { at: since, what }), Some((at, _))) = (since, self.rise) else { return };
        let early = at.ps + SLACK < since.ps + span.ps || at.cycle < since.cycle + span.ck;
        never!(
            self,
            early,
            "{rule}: {command}{of} at {} ps, {what} was at {} ps, {} ps and {} cycles are to be between",
            at.ps,
            since.ps,
            span.ps,
            span.ck
        );
    }

    pub(crate) fn command(&mut self, code: usize, at: Stamp) {
        let Pins { ba, a, .. } = self.pins;
        let name = COMMANDS[code];
        never!(self, ba > 3, "BA is {ba}, but has 2 bits");
        never!(self, a > 0x7ff, "A is {a:#x}, but has 11 bits");
        let all = a >> 10 & 1 == 1;
        match (code, self.phase) {
            (_, Phase::Ready) | (0..=2, Phase::Starting { .. }) => {}
            (2, Phase::Waiting) if all => self.end_wait(at),
            (_, Phase::Waiting) => self.fail(format_args!("{name} before PRECHARGE of all banks at power-up")),
            (_, Phase::Starting { refreshes }) => self.fail(format_args!(
                "{name} of bank {ba} before initialisation is complete: {refreshes} AUTO REFRESHes of {}, {} MODE",
                self.timing.power_up_refreshes,
                if self.mode.is_some() { "a" } else { "no" }
            )),
        }
        self.after(self.mode_write, self.timing.mrd, "tMRD", name, Of::All);
        self.after(self.refresh, self.timing.rfc, "tRFC", name, Of::All);
        match code {
            0 => self.load_mode(ba, a, at),
            1 => self.take_refresh(at),
            2 => self.take_precharge(ba, all, at),
            3 => self.take_activate(ba, a, at),
            4 => self.take_write(ba, a, at),
            5 => self.take_read(ba, a, at),
            _ => self.take_terminate(at),
        }
    }

    /// The first command.
    fn end_wait(&mut self, at: Stamp) {
        let least = self.timing.power_up_ps / self.timing.startup_divisor;
        let waited = at.ps - self.first.unwrap_or(at.ps);
        never!(self, waited + SLACK < least, "power-up: NOP was given for {waited} ps of CLK, not {least}");
        self.phase = Phase::Starting { refreshes: 0 };
    }

    /// Perhaps initialisation is complete: the order of MODE and the refreshes is free.
    fn start_up(&mut self, at: Stamp) {
        let Phase::Starting { refreshes } = self.phase else { return };
        if refreshes >= self.timing.power_up_refreshes && self.mode.is_some() {
            (self.phase, self.ready, self.refreshed_to) = (Phase::Ready, at.ps, at.ps);
        }
    }

    /// All banks are closed.
    fn check_idle(&self, name: &str) {
        for (bank, i) in self.banks.iter().zip(0..) {
            never!(self, bank.row.is_some(), "{name} while bank {i} is open");
            self.after(bank.precharge, self.timing.rp, "tRP", name, Of::Bank(i));
        }
    }

    fn load_mode(&mut self, ba: u8, value: u32, at: Stamp) {
        self.check_idle("MODE");
        never!(self, !self.due.is_empty(), "MODE before the end of a READ's data");
        never!(self, ba != 0, "MODE with BA = {ba}, which is reserved");
        for (mask, wanted, why) in MODE_RULES {
            never!(self, value & mask != wanted, "MODE = {value:#x}: {why}");
        }
        let burst = 1 << (value & 7);
        let write_burst = if value >> 9 & 1 == 1 { 1 } else { burst };
        // The next edge checks that CLK suits it.
        let mode = Mode { burst, write_burst, cl: u64::from(value >> 4 & 7) };
        self.mode = Some(mode);
        self.mode_write = Some(Since { at, what: "MODE" });
        self.counts.mode_writes += 1;
        self.start_up(at);
    }

    fn take_refresh(&mut self, at: Stamp) {
        self.check_idle("AUTO REFRESH");
        for (bank, i) in self.banks.iter().zip(0..) {
            self.after(bank.activate, self.timing.rc, "tRC", "AUTO REFRESH", Of::Bank(i));
        }
        self.refresh = Some(Since { at, what: "AUTO REFRESH" });
        self.counts.refreshes += 1;
        if let Phase::Starting { refreshes } = &mut self.phase {
            *refreshes += 1;
            self.start_up(at);
            return;
        }
        let Timing { rows, ref_ps, postponed, .. } = self.timing;
        let pace = ref_ps / rows;
        self.refreshed_to = (self.refreshed_to + pace).min(at.ps + postponed * pace);
        if self.refreshes.len() as u64 == rows {
            self.refreshes.pop_front();
        }
        self.refreshes.push_back(at.ps);
    }

    fn take_precharge(&mut self, ba: u8, all: bool, at: Stamp) {
        for i in (0..4).filter(|&i| all || i == ba) {
            let bank = self.banks[usize::from(i)];
            never!(self, bank.auto.is_some(), "PRECHARGE of bank {i}, whose auto precharge has not begun");
            if bank.row.is_some() {
                self.truncate_write(i);
                self.check_close("PRECHARGE", i);
                // Words that the edges up to this one have fetched still come ("PRECHARGE", CL - 1 words).
                let from = at.cycle + self.cl();
                self.due.retain(|due| due.bank != i || due.cycle < from);
            }
            // A bank that is closed already counts tRP anew: some data sheets have this as a NOP, others do not say.
            self.close(i, Since { at, what: "PRECHARGE" });
        }
        self.counts.precharges += 1;
    }

    fn check_close(&self, name: &str, i: u8) {
        let bank = self.banks[usize::from(i)];
        self.after(bank.activate, self.timing.ras, "tRAS", name, Of::Bank(i));
        self.after(bank.written, self.timing.wr, "tWR", name, Of::Bank(i));
    }

    fn close(&mut self, i: u8, since: Since) {
        let activate = self.banks[usize::from(i)].activate;
        self.banks[usize::from(i)] = Bank { activate, precharge: Some(since), ..Bank::default() };
    }

    /// Banks whose auto precharge is due at this edge: for a READ a burst behind it, for a WRITE tWR behind its last word.
    pub(crate) fn close_banks(&mut self, at: Stamp) {
        for i in 0..4 {
            let Bank { auto: Some(Auto { from, writes }), written, .. } = self.banks[usize::from(i)] else {
                continue;
            };
            let Span { ps, ck } = self.timing.wr;
            let recovered = |w: Since| at.ps + SLACK >= w.at.ps + ps && at.cycle >= w.at.cycle + ck;
            let writing = writes && self.write.is_some_and(|write| write.bank == i);
            if at.cycle < from || writing || writes && !written.is_some_and(recovered) {
                continue;
            }
            self.check_close("auto precharge", i);
            self.close(i, Since { at, what: "auto precharge" });
            self.counts.auto_precharges += 1;
        }
    }

    fn take_activate(&mut self, ba: u8, row: u32, at: Stamp) {
        let bank = self.banks[usize::from(ba)];
        never!(self, bank.row.is_some(), "ACTIVATE of bank {ba}, which is open");
        self.after(bank.precharge, self.timing.rp, "tRP", "ACTIVATE", Of::Bank(ba));
        self.after(bank.activate, self.timing.rc, "tRC", "ACTIVATE", Of::Bank(ba));
        self.after(self.activate, self.timing.rrd, "tRRD", "ACTIVATE", Of::Bank(ba));
        let since = Some(Since { at, what: "ACTIVATE" });
        self.activate = since;
        self.banks[usize::from(ba)] = Bank { row: Some(row), activate: since, ..Bank::default() };
        self.counts.activates += 1;
    }

    /// What READ and WRITE have in common: the row, the column and the mode. A8 and A9 mean nothing.
    fn check_column(&self, name: &str, ba: u8) -> (u32, u32, Mode) {
        let bank = self.banks[usize::from(ba)];
        let Some(row) = bank.row else { self.fail(format_args!("{name} of bank {ba}, which is closed")) };
        let Some(mode) = self.mode else { unreachable!("no bank is open before MODE") };
        never!(self, bank.auto.is_some(), "{name} of bank {ba}, which is to close itself (auto precharge)");
        self.after(bank.activate, self.timing.rcd, "tRCD", name, Of::Bank(ba));
        (row, self.pins.a & 0xff, mode)
    }

    /// A burst of words that was being written ends before this edge.
    fn cut_write(&mut self, name: &str) {
        if let Some(Write { bank, auto: true, .. }) = self.write {
            self.fail(format_args!("{name} interrupts a WRITE of bank {bank} with auto precharge"));
        }
        self.write = None;
    }

    fn truncate_write(&mut self, ba: u8) {
        self.write = self.write.filter(|write| write.bank != ba);
    }

    /// Words of READs do not come from this edge on.
    fn cut_read(&mut self, name: &str, cycle: u64) {
        let cut = self.due.iter().find(|due| due.auto && due.cycle >= cycle);
        if let Some(bank) = cut.map(|due| due.bank) {
            self.fail(format_args!("{name} interrupts a READ of bank {bank} with auto precharge"));
        }
        self.due.retain(|due| due.cycle < cycle);
    }

    fn take_read(&mut self, ba: u8, a: u32, at: Stamp) {
        let (row, column, mode) = self.check_column("READ", ba);
        let auto = a >> 10 & 1 == 1;
        let most = self.timing.ac_ps[usize::from(mode.cl == 3)];
        let slow = self.timing.access_ps;
        never!(self, slow > most, "tAC: access_ps is {slow}, but at CL {} no more than {most}", mode.cl);
        self.cut_write("READ");
        self.cut_read("READ", at.cycle + mode.cl);
        let around = column & !(mode.burst as u32 - 1);
        for i in 0..mode.burst {
            let within = (column + i as u32) & (mode.burst as u32 - 1);
            let word = self.at(address(ba, row, around + within));
            self.due.push_back(Due { cycle: at.cycle + mode.cl + i, bank: ba, word, auto });
        }
        self.banks[usize::from(ba)].auto =
            auto.then_some(Auto { from: at.cycle + mode.burst, writes: false });
        self.counts.reads += 1;
    }

    fn take_write(&mut self, ba: u8, a: u32, at: Stamp) {
        let (row, column, mode) = self.check_column("WRITE", ba);
        let auto = a >> 10 & 1 == 1;
        self.cut_write("WRITE");
        // Of words further on the WRITE itself disposes ("READ interrupted by a WRITE").
        let now = self.outputs.iter().filter(|output| output.till == Some(at.ps)).map(|output| output.bank);
        let next = self.due.iter().filter(|due| due.cycle == at.cycle + 1).map(|due| due.bank);
        if let Some(bank) = now.chain(next).next() {
            self.fail(format_args!(
                "READ to WRITE: WRITE of bank {ba} at {} ps, and a READ of bank {bank} has a word at this edge or the next, which takes DQM",
                at.ps
            ));
        }
        self.cut_read("WRITE", at.cycle);
        self.write = Some(Write { bank: ba, row, column, taken: 0, length: mode.write_burst, auto });
        self.banks[usize::from(ba)].auto = auto.then_some(Auto { from: at.cycle + 1, writes: true });
        self.counts.writes += 1;
    }

    fn take_terminate(&mut self, at: Stamp) {
        let end = at.cycle + self.cl();
        let reads = self.due.iter().any(|due| due.cycle >= end);
        never!(self, !reads && self.write.is_none(), "BURST TERMINATE while there is no burst");
        self.cut_write("BURST TERMINATE");
        self.cut_read("BURST TERMINATE", end);
        self.counts.terminates += 1;
    }
}
