//! The supervisor in the background: `fabric-lab supervise`, a process of its own that
//! outlives the one that made the lab.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::command::{command, spawn};
use super::record::{self, PodRecord, State};
use super::world::pods_of;
use super::{Lab, LabError, interrupt, process, programs};

impl Lab {
    /// Starts the supervisor: the pods of the lab's folder are attached, and what is
    /// edited there takes effect.
    ///
    /// # Errors
    /// [`LabError::MissingProgram`] where `fabric-lab` is not built, or where it cannot start.
    pub fn supervise(&self) -> Result<(), LabError> {
        let layout = self.layout();
        let program = programs::find("fabric-lab", "fabric-tests")?;
        let log = layout.supervisor_log();
        let log = File::create(&log).map_err(LabError::io(format!("write {}", log.display())))?;
        let err = log.try_clone().map_err(LabError::io("share the supervisor's log"))?;
        let mut child = command([program.as_os_str(), "supervise".as_ref(), "--directory".as_ref()]);
        child.arg(&layout.directory).stdin(Stdio::null()).stdout(log).stderr(err).process_group(0);
        let mut child = spawn(&mut child)?;
        self.note_supervisor(child.id())?;
        // Takes note of its end, so that it leaves no zombie while this process lives.
        std::thread::spawn(move || child.wait());
        Ok(())
    }

    /// Writes down who supervises the lab.
    ///
    /// # Errors
    /// [`LabError::Io`].
    pub fn note_supervisor(&self, pid: u32) -> Result<(), LabError> {
        let file = self.layout().supervisor_pid();
        fs::write(&file, pid.to_string()).map_err(LabError::io(format!("write {}", file.display())))
    }

    /// Waits until every pod of the lab's folder is attached, and knows them from then on.
    ///
    /// # Errors
    /// [`LabError::NotReady`] with what keeps pods from being attached, or with the log of
    /// a supervisor that has ended.
    pub fn wait_pods(&mut self, patience: Duration) -> Result<(), LabError> {
        self.watch_pods(patience, |_| ())
    }

    /// As [`Lab::wait_pods`], and shows what became of the pods at every look.
    ///
    /// # Errors
    /// As [`Lab::wait_pods`].
    pub fn watch_pods(
        &mut self,
        patience: Duration,
        mut show: impl FnMut(&[PodRecord]),
    ) -> Result<(), LabError> {
        let until = Instant::now() + patience;
        loop {
            interrupt::check()?;
            let pods: Vec<PodRecord> = record::load(&self.layout().pods()).unwrap_or_default();
            show(&pods);
            if self.complete(&pods) {
                self.pods = pods.into_iter().map(|pod| (pod.pod.clone(), pod)).collect();
                return Ok(());
            }
            if process::find(&self.layout().supervisor_pid(), &self.layout().directory).is_none() {
                let log = fs::read_to_string(self.layout().supervisor_log()).unwrap_or_default();
                return Err(LabError::NotReady(format!("the supervisor has ended:\n{log}")));
            }
            if Instant::now() >= until {
                let failed = pods.iter().filter(|pod| pod.state == State::Failed);
                let errors: Vec<&str> = failed.filter_map(|pod| pod.error.as_deref()).collect();
                let what = format!("some pods are not attached:\n{}", errors.join("\n"));
                return Err(LabError::NotReady(what));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether these are the pods of the folder, all of them attached.
    fn complete(&self, pods: &[PodRecord]) -> bool {
        let wanted = pods_of(&self.layout().world()).into_iter();
        let wanted: Vec<_> = wanted.map(|pod| (pod.reference, pod.uid)).collect();
        let well = |pod: &&PodRecord| pod.state != State::Failed;
        let held: Vec<_> = pods.iter().filter(well).map(|pod| (pod.pod.clone(), pod.uid.clone())).collect();
        held.len() == wanted.len() && wanted.iter().all(|pod| held.contains(pod))
    }
}
