// SPDX-License-Identifier: MIT OR Apache-2.0
//! What perftest prints, and its JSON.

use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};

use super::{AtomicType, Plan, Test, Verb};
use crate::card::{Card, Clock};
use crate::link::Address;

/// Samples of the time that a message takes, in ticks of the clock, and what follows from them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// How many.
    pub count: u64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// The median.
    pub typical: f64,
    /// The mean.
    pub avg: f64,
    /// The standard deviation.
    pub stdev: f64,
    /// 99 of 100 are no longer.
    pub p99: f64,
    /// 999 of 1000 are no longer.
    pub p999: f64,
}

impl Sample {
    /// Of the times between stamps, each of so many messages.
    pub fn of(stamps: &[u64], messages: u64) -> Self {
        let mut all: Vec<u64> = stamps.windows(2).map(|two| two[1] - two[0]).collect();
        if all.is_empty() {
            return Self::default();
        }
        all.sort_unstable();
        let count = all.len();
        let each = |ticks: u64| ticks as f64 / messages as f64;
        // The least value that so large a share does not exceed.
        let share = |share: f64| each(all[((count as f64 * share).ceil() as usize).clamp(1, count) - 1]);
        let avg = all.iter().map(|ticks| each(*ticks)).sum::<f64>() / count as f64;
        let square = all.iter().map(|ticks| (each(*ticks) - avg).powi(2)).sum::<f64>() / count as f64;
        Self {
            count: count as u64,
            min: each(all[0]),
            max: each(all[count - 1]),
            typical: share(0.5),
            avg,
            stdev: square.sqrt(),
            p99: share(0.99),
            p999: share(0.999),
        }
    }
}

/// A line of the table.
#[derive(Debug, Clone, Copy)]
pub enum Row {
    /// Of bandwidth.
    Bw {
        /// Bytes of a message.
        size: u64,
        /// Messages of each queue pair.
        iterations: u64,
        /// Bytes a second at best.
        peak: f64,
        /// Bytes a second.
        average: f64,
        /// Messages a second.
        rate: f64,
        /// How long it took.
        ticks: u64,
    },
    /// Of latency.
    Lat {
        /// Bytes of a message.
        size: u64,
        /// Times, in ticks.
        sample: Sample,
    },
}

/// Prints them.
pub struct Report<'a> {
    /// What is measured.
    pub plan: &'a Plan,
    /// On which card.
    pub card: &'a Card,
    /// Gb/sec.
    pub gbits: bool,
    /// Cycles.
    pub cycles: bool,
    /// Both sides have agreed on selective retransmission.
    pub selective: bool,
}

const RULE: &str = "---------------------------------------------------------------------------------------";

impl Report<'_> {
    fn title(&self) -> String {
        let verb = match (self.plan.verb, self.plan.atomic) {
            (Verb::Write, _) => "RDMA_Write",
            (Verb::Send, _) => "Send",
            (Verb::Read, _) => "RDMA_Read",
            (Verb::Atomic, AtomicType::FetchAndAdd) => "Atomic FETCH_AND_ADD",
            (Verb::Atomic, AtomicType::CmpAndSwap) => "Atomic CMP_AND_SWAP",
        };
        let test = match (self.plan.test, self.plan.bidirectional) {
            (Test::Bw, true) => "Bidirectional BW Test",
            (Test::Bw, false) => "BW Test",
            (Test::Lat, _) => "Latency Test",
        };
        format!("{verb} {test}")
    }

    fn clock(&self) -> String {
        match self.card.clock {
            Clock::Card { .. } if self.card.engine => {
                "the model's own: this is no card, and no measurement".into()
            }
            Clock::Card { khz } => {
                format!(
                    "that of the simulated card, {:.3} MHz; not the time of this machine",
                    f64::from(khz) / 1e3
                )
            }
            Clock::Host if self.card.simulated => {
                "of this machine, which says nothing of a simulated card".into()
            }
            Clock::Host => "of this machine".into(),
        }
    }

    /// What stands above the table.
    pub fn heading(&self, own: &Address, peer: &Address) -> String {
        let (plan, wish) = (self.plan, &self.plan.wish);
        let memory = plan.verb != Verb::Send;
        let mut text = format!("{RULE}\n                    {}\n", self.title());
        text += &format!(" Dual-port       : OFF\t\tDevice         : {}\n", self.card.name);
        text += &format!(" Number of qps   : {}\t\tTransport type : IB\n", wish.qps);
        text += &format!(" Connection type : {}\t\tUsing SRQ      : OFF\n", wish.service);
        text += &format!(" TX depth        : {}\n", wish.send_wr);
        text += &format!(" CQ Moderation   : {}\n", plan.cq_mod);
        text += &format!(" Mtu             : {}[B]\n", wish.mtu);
        text += " Link type       : Ethernet\n";
        text += &format!(" GID index       : {}\n", self.card.gid_index);
        if matches!(plan.verb, Verb::Read | Verb::Atomic) {
            text += &format!(" Outstand reads  : {}\n", self.outstanding());
        }
        text += &format!(" Max inline data : {}[B]\n", wish.inline);
        text += " rdma_cm QPs\t : OFF\n Data ex. method : Ethernet\n";
        if wish.selective {
            text +=
                &format!(" Retransmission  : {}\n", if self.selective { "selective" } else { "go-back-N" });
        }
        let kind = match (self.card.engine, self.card.simulated) {
            (true, _) => "none; the reference engine in the place of one",
            (false, true) => "simulation",
            (false, false) => "hardware",
        };
        text += &format!(" Card            : {kind}\n");
        text += &format!(" Clock           : {}\n{RULE}\n", self.clock());
        text += &own.perftest_lines("local", memory);
        text += &peer.perftest_lines("remote", memory);
        text + RULE + "\n" + self.columns()
    }

    fn outstanding(&self) -> u8 {
        self.plan.wish.outstanding.min(self.card.context.capabilities().max_rd_atomic)
    }

    fn columns(&self) -> &'static str {
        match (self.plan.test, self.gbits, self.cycles) {
            (Test::Bw, false, _) => " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n",
            (Test::Bw, true, _) => " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n",
            (Test::Lat, _, false) => {
                " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
            }
            (Test::Lat, _, true) => {
                " #bytes #iterations    t_min[cycles]    t_max[cycles]  t_typical[cycles]    t_avg[cycles]    t_stdev[cycles]   99% percentile[cycles]   99.9% percentile[cycles] \n"
            }
        }
    }

    /// Bandwidth in the unit of the table: perftest's MB is 2^20 bytes.
    fn bandwidth(&self, bytes: f64) -> f64 {
        match self.gbits {
            true => bytes * 8.0 / 1e9,
            false => bytes / f64::from(1 << 20),
        }
    }

    /// Time in the unit of the table.
    fn time(&self, ticks: f64) -> f64 {
        match self.cycles {
            true => ticks,
            false => ticks / self.card.clock.per_second() * 1e6,
        }
    }

    /// A line.
    pub fn row(&self, row: &Row) -> String {
        match row {
            Row::Bw { size, iterations, peak, average, rate, .. } => format!(
                " {size:<10} {iterations:<15}  {:<7.2}            {:<7.2}\t\t   {:<7.6}\n",
                self.bandwidth(*peak),
                self.bandwidth(*average),
                rate / 1e6
            ),
            Row::Lat { size, sample } => {
                let t = |ticks| self.time(ticks);
                format!(
                    " {size:<7} {:<10}     {:<7.2}        {:<7.2}      {:<7.2}  \t       {:<7.2}     \t{:<7.2}\t\t{:<7.2} \t\t{:<7.2}\n",
                    sample.count,
                    t(sample.min),
                    t(sample.max),
                    t(sample.typical),
                    t(sample.avg),
                    t(sample.stdev),
                    t(sample.p99),
                    t(sample.p999)
                )
            }
        }
    }

    /// What stands below it.
    pub fn end(&self) -> String {
        format!("{RULE}\n")
    }

    fn result(&self, row: &Row) -> Value {
        let cycles = |ticks: u64| (self.card.clock != Clock::Host).then_some(ticks);
        match row {
            Row::Bw { size, iterations, peak, average, rate, ticks } => json!({
                "MsgSize": size,
                "n_iterations": iterations,
                "BW_peak": self.bandwidth(*peak),
                "BW_average": self.bandwidth(*average),
                "MsgRate": rate / 1e6,
                "cycles": cycles(*ticks),
            }),
            Row::Lat { size, sample } => json!({
                "MsgSize": size,
                "n_iterations": sample.count,
                "t_min": self.time(sample.min),
                "t_max": self.time(sample.max),
                "t_typical": self.time(sample.typical),
                "t_avg": self.time(sample.avg),
                "t_stdev": self.time(sample.stdev),
                "percentile_99": self.time(sample.p99),
                "percentile_99.9": self.time(sample.p999),
            }),
        }
    }

    /// The same for programs, with perftest's keys. Of several sizes, `results` is a list.
    pub fn json(&self, rows: &[Row]) -> Value {
        let (plan, wish) = (self.plan, &self.plan.wish);
        let mut info = Map::new();
        let mut put = |key: &str, value: Value| drop(info.insert(key.into(), value));
        put("test", self.title().replace(' ', "_").into());
        put("Dual_port", "OFF".into());
        put("Device", self.card.name.clone().into());
        put("Number_of_qps", wish.qps.into());
        put("Transport_type", "IB".into());
        put("Connection_type", wish.service.clone().into());
        put("Using_SRQ", "OFF".into());
        put("TX_depth", wish.send_wr.into());
        put("CQ_Moderation", plan.cq_mod.into());
        put("Mtu", wish.mtu.into());
        put("Link_type", "Ethernet".into());
        put("GID_index", self.card.gid_index.into());
        if matches!(plan.verb, Verb::Read | Verb::Atomic) {
            put("Outstand_reads", self.outstanding().into());
        }
        put("Max_inline_data", wish.inline.into());
        put("rdma_cm_QPs", "OFF".into());
        put("Data_ex_method", "Ethernet".into());
        put("selective", self.selective.into());
        put("simulated", self.card.simulated.into());
        let khz = match self.card.clock {
            Clock::Card { khz } => Some(khz),
            Clock::Host => None,
        };
        put("clock", json!({ "of": self.card.clock_name(), "khz": khz }));
        put("BW_unit", if self.gbits { "Gb/sec" } else { "MB/sec" }.into());
        put("time_unit", if self.cycles { "cycles" } else { "usec" }.into());
        let results = match rows {
            [row] => self.result(row),
            rows => rows.iter().map(|row| self.result(row)).collect(),
        };
        json!({ "test_info": info, "results": results })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_tells_the_middle_and_the_tail() {
        let mut stamps = vec![0];
        // 1, 2, ... 1000 ticks.
        (1..=1000).for_each(|ticks| stamps.push(stamps[stamps.len() - 1] + ticks));
        let sample = Sample::of(&stamps, 1);
        assert_eq!((sample.count, sample.min, sample.max), (1000, 1.0, 1000.0));
        assert_eq!((sample.typical, sample.p99, sample.p999, sample.avg), (500.0, 990.0, 999.0, 500.5));
        assert!((sample.stdev - 288.675).abs() < 0.001);
        assert_eq!(Sample::of(&stamps, 2).max, 500.0);
        assert_eq!(Sample::of(&[5], 1), Sample::default());
    }
}
