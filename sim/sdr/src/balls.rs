// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device's balls: the clock, when wires change, and who has DQ.

use crate::*;

impl Sdr {
    /// The balls have these levels from `ps` on. Called in order of time, whenever a level changes (or more often).
    pub fn drive(&mut self, ps: u64, pins: Pins) {
        never!(self, ps < self.now, "drive() is called for the earlier {ps} ps");
        if !self.started {
            (self.started, self.now, self.pins) = (true, ps, pins);
            (self.changed, self.fell) = ([ps; 4], ps);
            return;
        }
        self.check_contention(ps);
        let old = std::mem::replace(&mut self.pins, pins);
        self.now = ps;
        self.check_overdue();
        self.note_changes(old);
        if pins.clk && !old.clk {
            self.rising();
        }
        if !pins.clk && old.clk {
            let short = self.rise.is_some_and(|(rise, _)| ps + SLACK < rise.ps + self.timing.ch_ps);
            never!(self, short, "tCH: CLK is high for less than {} ps", self.timing.ch_ps);
            self.fell = ps;
        }
    }

    /// What each DQ ball has at `ps` while the device drives it; random bits where it does not or its data are not
    /// valid. `ps` may be up to 1 us in the past or the present, never later than the last drive.
    pub fn sample(&mut self, ps: u64) -> u32 {
        never!(self, ps > self.now, "sample() is called for {ps} ps, which drive() has not reached");
        let noise = self.rng.random();
        let oh = self.timing.oh_ps;
        let valid = |o: &&Output| ps >= o.from + o.access_ps && o.till.is_none_or(|till| ps < till + oh);
        self.outputs.iter().find(valid).map_or(noise, |output| output.word)
    }

    /// Whether the controller has driven DQ between the last call and `ps` against the device.
    fn check_contention(&self, ps: u64) {
        if self.pins.drive == 0 {
            return;
        }
        for output in &self.outputs {
            let start = output.from + self.timing.lz_ps;
            let end = output.till.map_or(u64::MAX, |till| till + output.hz_ps);
            let meets = self.now + SLACK < end && ps > start + SLACK;
            let (now, drive) = (self.now, self.pins.drive);
            never!(
                self,
                meets,
                "bus contention: DQ ({drive:#x}) is driven {now} to {ps} ps, by the device from {start} ps (tLZ) on until {} (tHZ)",
                if end == u64::MAX { "the next edge and more".into() } else { format!("{end} ps") }
            );
        }
    }

    /// What should have come by now.
    fn check_overdue(&self) {
        let Some((rise, _)) = self.rise else { return };
        let most = self.timing.ck_max_ps;
        never!(self, self.now > rise.ps + most + SLACK, "tCK: no edge of CLK for more than {most} ps");
        for (i, bank) in self.banks.iter().enumerate() {
            let (Some(_), Some(since)) = (bank.row, bank.activate) else { continue };
            let late = self.now > since.at.ps + self.timing.ras_max_ps + SLACK;
            never!(self, late, "tRAS max: bank {i} is open since {} ps", since.at.ps);
        }
        if !matches!(self.phase, Phase::Ready) {
            return;
        }
        let Timing { rows, ref_ps, postponed, .. } = self.timing;
        let few = self.now > self.refreshed_to + (postponed + 1) * (ref_ps / rows) + SLACK;
        never!(self, few, "refresh: more than {postponed} AUTO REFRESHes are postponed");
        // The row that the next one would refresh.
        let all = self.refreshes.len() as u64 == rows;
        let oldest = self.refreshes.front().copied().filter(|_| all).unwrap_or(self.ready);
        let lost = self.now > oldest + ref_ps + SLACK;
        never!(self, lost, "tREF: a row that was refreshed at {oldest} ps is not again within {ref_ps} ps");
    }

    /// Takes down what has changed, and checks that nothing changes behind an edge that takes it.
    fn note_changes(&mut self, old: Pins) {
        let (before, after) = (groups(&old), groups(&self.pins));
        for i in (0..GROUPS.len()).filter(|&i| before[i] != after[i]) {
            self.changed[i] = self.now;
            let Some((rise, taken)) = self.rise else { continue };
            let (rule, hold) = if i < 3 { ("tIH", self.timing.ih_ps) } else { ("tDH", self.timing.dh_ps) };
            let early = taken[i] && self.now + SLACK < rise.ps + hold;
            let name = GROUPS[i];
            never!(self, early, "{rule}: {name} changes within it of the rising edge at {} ps", rise.ps);
        }
    }

    /// A rising edge of CLK: its period, the words on DQ, what begins by itself, the command, and the word of a WRITE.
    fn rising(&mut self) {
        let now = self.now;
        let at = Stamp { ps: now, cycle: self.rise.map_or(0, |(rise, _)| rise.cycle + 1) };
        if let Some((rise, _)) = self.rise {
            self.tck = now - rise.ps;
            let short = now + SLACK < self.fell + self.timing.cl_ps;
            never!(self, short, "tCL: CLK is low for less than {} ps", self.timing.cl_ps);
            self.check_period();
        }
        self.first = self.first.or(Some(now));
        let Pins { ras_n, cas_n, we_n, .. } = self.pins;
        let code = usize::from(ras_n) << 2 | usize::from(cas_n) << 1 | usize::from(we_n);
        // BA and A mean nothing with NOP, BURST TERMINATE and AUTO REFRESH.
        let addressed = !matches!(code, 7 | 6 | 1);
        self.rise = Some((at, [true, addressed, addressed, false]));
        for (changed, name) in self.changed.iter().zip(GROUPS).take(if addressed { 3 } else { 1 }) {
            let late = now + SLACK < changed + self.timing.is_ps;
            never!(self, late, "tIS: {name} changes within it of the rising edge");
        }
        if let Some(output) = self.outputs.back_mut().filter(|output| output.till.is_none()) {
            output.till = Some(now);
        }
        self.outputs.retain(|output| output.till.is_none_or(|till| till + PAST_PS > now));
        self.close_banks(at);
        if code != 7 {
            self.command(code, at);
        }
        self.take_word(at);
        self.put_word(at);
    }

    /// tCK of a CAS latency, or of the quicker while none is set.
    fn check_period(&self) {
        let Timing { ck_ps: [slow, quick], .. } = self.timing;
        let cl = self.cl();
        let least = if cl == 2 { slow } else { quick };
        let tck = self.tck;
        never!(self, tck + SLACK < least, "tCK: CLK's period is {tck} ps, at CL {cl} no less than {least}");
    }

    /// A word of a WRITE is taken.
    fn take_word(&mut self, at: Stamp) {
        let Some(mut write) = self.write else { return };
        let Write { bank, row, column, taken, length, .. } = write;
        let drive = self.pins.drive;
        never!(
            self,
            drive != u32::MAX,
            "DQ is not all driven ({drive:#x}) at word {taken} of a WRITE of bank {bank}"
        );
        let late = self.now + SLACK < self.changed[3] + self.timing.ds_ps;
        never!(self, late, "tDS: DQ changes within it of word {taken} of a WRITE of bank {bank}");
        let around = column & !(length as u32 - 1);
        let within = (column + taken as u32) & (length as u32 - 1);
        self.memory.insert(address(bank, row, around + within), self.pins.dq);
        self.banks[usize::from(bank)].written = Some(Since { at, what: "the last word of its WRITE" });
        if let Some((_, groups)) = &mut self.rise {
            groups[3] = true;
        }
        write.taken += 1;
        self.write = (write.taken < length).then_some(write);
    }

    /// CAS latency; 3 while it is not set, when no data come.
    pub(crate) fn cl(&self) -> u64 {
        self.mode.map_or(3, |mode| mode.cl)
    }

    /// The word that is to be valid at the next edge goes on its way.
    fn put_word(&mut self, at: Stamp) {
        let Some(next) = self.due.front().filter(|due| due.cycle == at.cycle + 1) else { return };
        let Timing { access_ps, hz_ps, .. } = self.timing;
        let hz_ps = hz_ps[usize::from(self.cl() == 3)];
        let Due { bank, word, .. } = *next;
        self.outputs.push_back(Output { bank, from: at.ps, access_ps, hz_ps, till: None, word });
        self.due.pop_front();
    }
}

/// What CLK samples, as `GROUPS` names it. To be driven or not is a level of DQ, too.
fn groups(pins: &Pins) -> [u64; 4] {
    let command = u64::from(pins.ras_n) << 2 | u64::from(pins.cas_n) << 1 | u64::from(pins.we_n);
    let dq = u64::from(pins.drive) << 32 | u64::from(pins.dq & pins.drive);
    [command, pins.ba.into(), pins.a.into(), dq]
}
