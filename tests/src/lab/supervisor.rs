//! Keeps a lab as its folder says: mirrors the folder, attaches the pods that appear
//! and detaches those that go.
//!
//! Each round compares the pods of the folder with those attached. A pod is the same
//! while its node, uid and wanted addresses stay; else it is detached and attached
//! again. What fails is tried again with growing pauses, as a kubelet does.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::error::LabError;
use super::names::Layout;
use super::node::Node;
use super::pods;
use super::programs::Programs;
use super::record::{self, PodRecord, State};
use super::world::{Mirror, Pod, pods_of};

/// Pause between two looks at the folder.
pub const PERIOD: Duration = Duration::from_millis(50);
/// First and longest pause before a failed pod is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Pods attached at the same time.
const WORKERS: usize = 4;

/// The pods of a lab, held against its folder.
#[derive(Debug)]
pub struct Supervisor {
    layout: Layout,
    nodes: Vec<Node>,
    programs: Option<Programs>,
    mirror: Mirror,
    wanted: BTreeMap<String, Pod>,
    held: BTreeMap<String, Held>,
    /// Whether `pods.json` tells the present state.
    told: bool,
}

#[derive(Debug)]
struct Held {
    pod: Pod,
    record: PodRecord,
    retry: Option<(Instant, Duration)>,
}

/// One errand of a round.
enum Errand {
    Attach(Pod, Duration),
    Detach(Held),
}

impl Supervisor {
    /// A supervisor that holds nothing yet. Without programs it only mirrors the folder.
    pub fn new(layout: &Layout, nodes: &[Node], programs: Option<&Programs>, mirror: Mirror) -> Self {
        Self {
            layout: layout.clone(),
            nodes: nodes.to_vec(),
            programs: programs.cloned(),
            mirror,
            wanted: BTreeMap::new(),
            held: BTreeMap::new(),
            told: false,
        }
    }

    /// One round: looks at the folder, attaches and detaches, writes `pods.json`.
    ///
    /// # Errors
    /// [`LabError::Io`] where the lab's own folder cannot be read or written. A pod that
    /// fails is told by its record.
    pub fn round(&mut self, now: Instant) -> Result<(), LabError> {
        if self.mirror.refresh()? {
            let pods = pods_of(&self.layout.world()).into_iter();
            if self.programs.is_some() {
                self.wanted = pods.map(|pod| (pod.reference.clone(), pod)).collect();
            }
        }
        let errands = self.errands(now);
        if !errands.is_empty() {
            self.told = false;
            self.run(errands, now);
        }
        if !self.told {
            let records: Vec<&PodRecord> = self.records().collect();
            record::save(&self.layout.pods(), &records)?;
            self.told = true;
        }
        Ok(())
    }

    /// Whether every pod of the folder is attached, with what keeps the others.
    ///
    /// # Errors
    /// [`LabError::NotReady`] lists the pods that are not attached and why.
    pub fn settled(&self) -> Result<(), LabError> {
        let failed = self.held.values().filter(|held| held.record.state == State::Failed);
        let reasons: Vec<&str> = failed.filter_map(|held| held.record.error.as_deref()).collect();
        let missing = self.wanted.keys().filter(|pod| !self.held.contains_key(*pod)).count();
        if reasons.is_empty() && missing == 0 {
            return Ok(());
        }
        Err(LabError::NotReady(format!(
            "{} pods are not attached\n{}",
            reasons.len() + missing,
            reasons.join("\n")
        )))
    }

    /// What became of each pod.
    pub fn records(&self) -> impl Iterator<Item = &PodRecord> {
        self.held.values().map(|held| &held.record)
    }

    /// Departures come first, so that their addresses are free.
    fn errands(&mut self, now: Instant) -> Vec<Errand> {
        let stale = |held: &Held| self.wanted.get(&held.pod.reference) != Some(&held.pod);
        let going: Vec<String> =
            self.held.iter().filter(|(_, held)| stale(held)).map(|(name, _)| name.clone()).collect();
        let departures: Vec<Errand> =
            going.iter().filter_map(|name| self.held.remove(name)).map(Errand::Detach).collect();
        if !departures.is_empty() {
            return departures;
        }
        self.wanted.values().filter_map(|pod| self.arrival(pod, now)).collect()
    }

    fn arrival(&self, pod: &Pod, now: Instant) -> Option<Errand> {
        match self.held.get(&pod.reference) {
            None => Some(Errand::Attach(pod.clone(), RETRY.0)),
            Some(Held { retry: Some((due, pause)), .. }) if now >= *due => {
                Some(Errand::Attach(pod.clone(), (*pause * 2).min(RETRY.1)))
            }
            Some(_) => None,
        }
    }

    fn run(&mut self, errands: Vec<Errand>, now: Instant) {
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..WORKERS.min(errands.len()) {
                scope.spawn(|| {
                    while let Some(errand) = errands.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Some(held) = self.work(errand, now) {
                            results.lock().unwrap_or_else(|e| e.into_inner()).push(held);
                        }
                    }
                });
            }
        });
        let results = results.into_inner().unwrap_or_else(|e| e.into_inner());
        self.held.extend(results.into_iter().map(|held| (held.pod.reference.clone(), held)));
    }

    fn work(&self, errand: &Errand, now: Instant) -> Option<Held> {
        match errand {
            Errand::Attach(pod, pause) => self.attach(pod, *pause, now),
            Errand::Detach(held) => {
                if held.record.state == State::Attached {
                    let (node, programs) = (self.node(&held.pod.node)?, self.programs.as_ref()?);
                    if let Err(error) = pods::detach(node, programs, &held.record) {
                        eprintln!("detach {}: {error}", held.pod.reference);
                    }
                }
                None
            }
        }
    }

    fn attach(&self, pod: &Pod, pause: Duration, now: Instant) -> Option<Held> {
        let (lab, programs) = (&self.layout.name, self.programs.as_ref()?);
        let Some(node) = self.node(&pod.node) else {
            let record = pods::unplaced(lab, pod);
            return Some(Held { pod: pod.clone(), record, retry: None });
        };
        let (record, retry) = if pod.host_network {
            (pods::on_host(node, pod), None)
        } else {
            match pods::attach(lab, node, programs, pod) {
                Ok((record, _)) => (record, None),
                Err(error) => {
                    eprintln!("attach {}: {error}", pod.reference);
                    (pods::failed(lab, pod, &error), Some((now + pause, pause)))
                }
            }
        };
        Some(Held { pod: pod.clone(), record, retry })
    }

    fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }
}
