// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of SymbiYosys.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{kill_process_group, Pid, Signal};

use super::cex::Counterexample;
use super::{program, Outcome, Proof, Way};
use crate::workspace;

/// A fault is to show in so many cycles from reset: the sweep, two rounds of a ring, and the stages.
const CYCLES_OF_A_FAULT: u32 = 30;

/// Something to prove, or a fault to find.
pub struct Job {
    proof: Proof,
    fault: Option<String>,
    file: String,
}

impl Job {
    pub fn new(proof: &Proof, fault: Option<&super::Fault>) -> Job {
        let file = fault.map_or(&proof.file, |fault| &fault.file).clone();
        Job { proof: proof.clone(), fault: fault.map(|fault| fault.name.clone()), file }
    }

    pub fn title(&self) -> String {
        self.file.trim_end_matches(".v").to_string()
    }

    /// The file that SymbiYosys reads.
    fn sby(&self, rtl: &Path) -> String {
        let (mode, depth, engine) = match (&self.fault, self.proof.way) {
            (Some(_), _) => ("bmc", CYCLES_OF_A_FAULT, "abc bmc3"),
            (None, Way::Invariant) => ("prove", 1, "abc pdr"),
            (None, Way::Induction(cycles)) => ("prove", cycles, "smtbmc yices"),
            (None, Way::Bounded(cycles)) => ("bmc", cycles, "abc bmc3"),
        };
        format!(
            "[options]\nmode {mode}\ndepth {depth}\nvcd_sim on\n[engines]\n{engine}\n\
             [script]\nread_verilog -formal {file}\nprep -top bench\n[files]\n{path}\n",
            file = self.file,
            path = rtl.join(&self.file).display()
        )
    }

    /// Begins.
    pub fn start(self, folder: &Path, tool: &Path) -> Result<Running> {
        let title = self.title();
        let (script, work) = (folder.join(format!("{title}.sby")), folder.join(&title));
        workspace::remove_folder(&work)?;
        fs::write(&script, self.sby(&folder.join("rtl")))
            .with_context(|| format!("writing {}", script.display()))?;
        let log = folder.join(format!("{title}.log"));
        let file = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let mut command = program(tool, "sby");
        command.arg("-f").arg("-d").arg(&work).arg(&script).current_dir(folder);
        // A group of its own, so that what it starts ends with it.
        command.process_group(0).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().context("running SymbiYosys")?;
        Ok(Running { job: self, work, log, child, began: Instant::now() })
    }
}

/// A job that runs. It ends with this.
pub struct Running {
    pub job: Job,
    pub began: Instant,
    work: PathBuf,
    log: PathBuf,
    child: Child,
}

/// How long SymbiYosys may take to stop what it runs.
const FAREWELL: Duration = Duration::from_secs(5);

impl Drop for Running {
    /// What SymbiYosys runs has groups of its own, which it stops when it is asked to end.
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let limit = Instant::now() + FAREWELL;
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(group, Signal::TERM);
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < limit {
                sleep(Duration::from_millis(20));
            }
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

impl Running {
    /// Whether it has come to its end.
    pub fn ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("waiting for SymbiYosys")?.is_some())
    }

    /// What came of it. `late`: it has not ended in time.
    pub fn outcome(self, late: bool) -> Result<Outcome> {
        let seconds = self.began.elapsed().as_secs_f64();
        let said = fs::read_to_string(self.work.join("status")).unwrap_or_default();
        let status = if late { "LATE" } else { said.split_whitespace().next().unwrap_or("ERROR") };
        let trace = self.work.join("engine_0/trace");
        let (json, waveform) = (trace.with_extension("json"), trace.with_extension("vcd"));
        let counterexample = match status {
            "FAIL" => {
                Some(Counterexample::read(&json, &waveform, &self.work.join("src").join(&self.job.file))?)
            }
            _ => None,
        };
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let (good, verdict) = verdict(&self.job, status, counterexample.as_ref(), seconds, &log);
        Ok(Outcome {
            name: self.job.proof.name.clone(),
            about: self.job.proof.about.clone(),
            way: self.job.proof.way,
            fault: self.job.fault.clone(),
            good,
            verdict,
            seconds,
            waveform: counterexample.is_some().then_some(waveform),
            counterexample,
            log: self.log.clone(),
        })
    }
}

/// Whether it is as it should be, and in words.
fn verdict(
    job: &Job,
    status: &str,
    counterexample: Option<&Counterexample>,
    seconds: f64,
    log: &str,
) -> (bool, String) {
    let broken = |cex: &Counterexample| format!("in cycle {} not so: {}", cex.cycle, cex.assertion);
    match (status, &job.fault, counterexample) {
        ("FAIL", fault, Some(counterexample)) => (fault.is_some(), broken(counterexample)),
        ("PASS", None, _) => (true, job.proof.way.to_string()),
        ("PASS", Some(_), _) => {
            (false, format!("no assertion fails in {CYCLES_OF_A_FAULT} cycles: nothing here sees the fault"))
        }
        ("UNKNOWN", _, _) => {
            let way = "the induction does not close, and no run of as many cycles breaks it: more cycles, or a lemma";
            (false, way.into())
        }
        ("LATE", _, _) => {
            (false, format!("stopped after {seconds:.0} s, with neither a proof nor a counterexample"))
        }
        _ => {
            let telling = |line: &&str| line.contains("ERROR") || line.contains("Error");
            let line = log.lines().find(telling).or_else(|| log.lines().last()).unwrap_or("no message");
            (false, format!("SymbiYosys did not come to an end: {}", line.trim()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Fault;
    use super::*;

    fn job(fault: bool) -> Job {
        let fault = fault.then(|| Fault { name: "it is late".into(), file: "some-it-is-late.v".into() });
        let (name, about, file) = ("some".into(), "something".into(), "some.v".into());
        let proof = Proof { name, about, file, way: Way::Induction(4), faults: Vec::new() };
        Job::new(&proof, fault.as_ref())
    }

    #[test]
    fn a_proof_is_good_where_it_passes_and_a_fault_where_it_is_found() {
        let cex = Counterexample { cycle: 7, assertion: "a is b (x.rs:3)".into(), signals: Vec::new() };
        let of = |fault, status| {
            let cex = (status == "FAIL").then_some(&cex);
            verdict(&job(fault), status, cex, 3.0, "ERROR: no solver\nlast line\n")
        };
        assert_eq!(of(false, "PASS"), (true, Way::Induction(4).to_string()));
        assert_eq!(of(true, "FAIL"), (true, "in cycle 7 not so: a is b (x.rs:3)".into()));
        for (fault, status) in
            [(false, "FAIL"), (true, "PASS"), (false, "LATE"), (true, "LATE"), (false, "UNKNOWN")]
        {
            assert!(!of(fault, status).0, "{status}");
        }
        let (good, why) = of(true, "ERROR");
        assert!(!good && why.contains("ERROR: no solver"), "{why}");
    }

    #[test]
    fn what_is_bounded_does_not_call_itself_proven() {
        assert!(!Way::Bounded(20).to_string().contains("proven"));
        assert!(Way::Bounded(20).to_string().contains("20 cycles"));
    }
}
