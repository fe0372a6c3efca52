//! A cluster of switches on one machine.
//!
//! A lab is some nodes as network namespaces, each with an Open vSwitch of its own in
//! the userspace datapath and a real agent, joined by a wire; pods are namespaces,
//! attached by the real `fabric-cni`. It needs root and Debian's packages, and neither
//! Kubernetes nor a kernel module. The host's own Open vSwitch is never touched.
//!
//! Tests hold a [`Lab`], which takes everything down when it is dropped, after a panic
//! too; `fabric-lab` keeps one up in the background. What a killed test leaves behind
//! is removed by the next lab that is made.

pub mod agent;
mod background;
pub mod cli;
pub mod cni;
pub mod command;
mod control;
mod error;
pub mod flows;
pub mod interrupt;
pub mod names;
pub mod netns;
pub mod node;
pub mod office;
pub mod pods;
pub mod process;
mod programs;
pub mod record;
pub mod supervisor;
pub mod switch;
pub mod teardown;
pub mod wire;
mod wiring;
pub mod world;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

pub use error::LabError;
pub use names::{LabName, Layout};
pub use node::Node;
pub use programs::{Programs, find as find_program};
use record::{Owner, PodRecord, Record};
pub use wiring::Wiring;
use world::{Mirror, Pod};

/// What lab to make.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Its name; another lab of this name is replaced.
    pub name: LabName,
    /// Nodes n1 to nN.
    pub nodes: usize,
    /// A folder of manifests to mirror, or nothing: then the lab's own folder is the user's.
    pub source: Option<PathBuf>,
    /// Whether agents run. Without them the nodes are bare switches.
    pub agents: bool,
    /// The office to make beside it.
    pub office: Option<Wiring>,
    /// Whether the lab is removed as an orphan once the process that makes it is gone.
    pub owned: bool,
    /// Fields for every agent's configuration, beside those that the lab sets.
    pub config: Map<String, Value>,
}

impl Spec {
    /// A lab for a test, with a name that no other process has.
    ///
    /// # Errors
    /// [`LabError::BadName`] where `purpose` cannot be part of a name (at most 8 of a-z, 0-9).
    pub fn for_test(purpose: &str, nodes: usize) -> Result<Self, LabError> {
        let name = format!("{purpose}-{}", std::process::id()).parse()?;
        Ok(Self { name, nodes, source: None, agents: true, office: None, owned: true, config: Map::new() })
    }
}

/// A lab that is up.
#[derive(Debug)]
pub struct Lab {
    layout: Layout,
    nodes: Vec<Node>,
    programs: Option<Programs>,
    pods: BTreeMap<String, PodRecord>,
    owned: bool,
}

impl Lab {
    /// Makes the wire, the switches and the agents, and returns when every agent would
    /// serve. No pod is attached yet. Whatever carried the name before is removed, and so
    /// is what was made so far when this fails.
    ///
    /// # Errors
    /// With what is missing, refused or late; the message names the log to look at.
    pub fn up(spec: &Spec) -> Result<Self, LabError> {
        let lab = Self::up_without_agents(spec)?;
        if spec.agents {
            lab.start_agents()?;
        }
        Ok(lab)
    }

    /// As [`Lab::up`], without starting the agents.
    ///
    /// # Errors
    /// As [`Lab::up`].
    pub fn up_without_agents(spec: &Spec) -> Result<Self, LabError> {
        let layout = Self::check(spec)?;
        let programs = if spec.agents { Some(Programs::find()?) } else { None };
        teardown::remove_orphans();
        let nodes = (1..=spec.nodes).map(|index| Node::new(&layout, index, spec.office)).collect();
        let mut lab = Self { layout, nodes, programs, pods: BTreeMap::new(), owned: false };
        // Locals go in reverse order: the lock is free when a failure takes the lab down.
        let _lock = teardown::lock(&lab.layout)?;
        teardown::remove(&lab.layout)?;
        lab.owned = true;
        lab.make_folders(spec)?;
        wire::lay(&lab.layout.name, &lab.nodes)?;
        if spec.office.is_some() {
            office::lay(&lab.layout, &lab.nodes)?;
        }
        lab.each_node(switch::start)?;
        let world = lab.layout.world();
        lab.nodes.iter().try_for_each(|node| agent::configure(node, &world, &spec.config))?;
        Ok(lab)
    }

    /// A lab that another process made; it stays up when this value is dropped.
    ///
    /// # Errors
    /// [`LabError::NoSuchLab`], or [`LabError::BadFile`] where its record is unreadable.
    pub fn open(name: &LabName) -> Result<Self, LabError> {
        let layout = Layout::new(name)?;
        if !layout.record().exists() {
            return Err(LabError::NoSuchLab(name.to_string()));
        }
        let record: Record = record::load(&layout.record())?;
        let nodes = (1..=record.nodes).map(|index| Node::new(&layout, index, record.office)).collect();
        let pods: Vec<PodRecord> = record::load(&layout.pods()).unwrap_or_default();
        let pods = pods.into_iter().map(|pod| (pod.pod.clone(), pod)).collect();
        let programs = if record.agents { Some(Programs::find()?) } else { None };
        Ok(Self { layout, nodes, programs, pods, owned: false })
    }

    /// Takes the lab down; dropping the value does so as well, unless [`Lab::keep`] was called.
    ///
    /// # Errors
    /// With what could not be removed.
    pub fn down(mut self) -> Result<(), LabError> {
        self.owned = false;
        let _lock = teardown::lock(&self.layout)?;
        teardown::remove(&self.layout).map(drop)
    }

    /// Lets the lab stay up when this value is dropped.
    pub fn keep(&mut self) {
        self.owned = false;
    }

    /// Its folders.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its nodes, n1 first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node by its name, `n1`.
    ///
    /// # Errors
    /// [`LabError::NoSuchPlace`].
    pub fn node(&self, name: &str) -> Result<&Node, LabError> {
        let found = self.nodes.iter().find(|node| node.name == name);
        found.ok_or_else(|| self.no_place(format!("node/{name}")))
    }

    /// A pod by `NS/NAME`: of those attached by this value, or by the lab's supervisor
    /// when [`Lab::open`] looked.
    ///
    /// # Errors
    /// [`LabError::NoSuchPlace`].
    pub fn pod(&self, name: &str) -> Result<&PodRecord, LabError> {
        self.pods.get(name).ok_or_else(|| self.no_place(format!("pod/{name}")))
    }

    /// All pods that [`Lab::pod`] knows, by name.
    pub fn pods(&self) -> impl Iterator<Item = &PodRecord> {
        self.pods.values()
    }

    /// Runs a command in a pod's network namespace to its end.
    ///
    /// # Errors
    /// [`LabError::NoSuchPlace`], or where the command cannot start.
    pub fn exec_pod(&self, name: &str, command: &mut Command) -> Result<Output, LabError> {
        netns::output_in(&self.pod(name)?.netns, command, &[])
    }

    /// Runs a command in a node's network namespace to its end, with the environment in
    /// which OVS's programs find the node's switch.
    ///
    /// # Errors
    /// As [`Lab::exec_pod`].
    pub fn exec_node(&self, name: &str, command: &mut Command) -> Result<Output, LabError> {
        let node = self.node(name)?;
        netns::output_in(&node.namespace, command.envs(switch::environment(node)), &[])
    }

    /// Writes a manifest into the folder that the agents read, whole.
    ///
    /// # Errors
    /// [`LabError::Io`].
    pub fn write_manifest(&self, file: &str, text: &str) -> Result<(), LabError> {
        let (aside, target) =
            (self.layout.directory.join(format!(".manifest-{file}")), self.layout.world().join(file));
        fs::write(&aside, text)
            .and_then(|()| fs::rename(&aside, &target))
            .map_err(LabError::io(format!("write {}", target.display())))
    }

    /// Removes a manifest from the folder that the agents read.
    ///
    /// # Errors
    /// [`LabError::Io`].
    pub fn remove_manifest(&self, file: &str) -> Result<(), LabError> {
        let target = self.layout.world().join(file);
        fs::remove_file(&target).map_err(LabError::io(format!("remove {}", target.display())))
    }

    /// Attaches a pod directly, as its kubelet's runtime would; returns the CNI result.
    ///
    /// # Errors
    /// [`LabError::Cni`] with the plugin's error.
    pub fn add_pod(&mut self, pod: &Pod) -> Result<Value, LabError> {
        let node = self.node(&pod.node)?;
        let (record, result) = pods::attach(&self.layout.name, node, self.programs()?, pod)?;
        self.pods.insert(record.pod.clone(), record);
        Ok(result)
    }

    /// Attaches a pod as a runtime does: again for as long as the agent asks for that, for `patience` at most.
    ///
    /// # Errors
    /// As [`Lab::add_pod`].
    pub fn attach(&mut self, pod: &Pod, patience: Duration) -> Result<Value, LabError> {
        let until = Instant::now() + patience;
        loop {
            match self.add_pod(pod) {
                Err(LabError::Cni { code: 11, .. }) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                added => return added,
            }
        }
    }

    /// Detaches a pod that [`Lab::add_pod`] attached.
    ///
    /// # Errors
    /// [`LabError::NoSuchPlace`], or [`LabError::Cni`] with the plugin's error.
    pub fn remove_pod(&mut self, name: &str) -> Result<(), LabError> {
        let record = self.pods.remove(name).ok_or_else(|| self.no_place(format!("pod/{name}")))?;
        pods::detach(self.node(&record.node)?, self.programs()?, &record)
    }

    /// The programs that run in it.
    ///
    /// # Errors
    /// [`LabError::NotReady`] for a lab without agents.
    pub fn programs(&self) -> Result<&Programs, LabError> {
        let none = || LabError::NotReady("this lab was made without agents".to_owned());
        self.programs.as_ref().ok_or_else(none)
    }

    fn check(spec: &Spec) -> Result<Layout, LabError> {
        if !nix::unistd::geteuid().is_root() {
            return Err(LabError::NotRoot);
        }
        if !(1..=99).contains(&spec.nodes) {
            return Err(LabError::BadNodes(spec.nodes));
        }
        command::require_tools()?;
        Layout::new(&spec.name)
    }

    fn make_folders(&self, spec: &Spec) -> Result<(), LabError> {
        let nodes = self.nodes.iter().map(Node::agent);
        let office = spec.office.map(|_| self.layout.office());
        for folder in nodes.chain([self.layout.world()]).chain(office) {
            fs::create_dir_all(&folder).map_err(LabError::io(format!("make {}", folder.display())))?;
        }
        let record = Record {
            name: spec.name.to_string(),
            nodes: spec.nodes,
            source: spec.source.clone(),
            agents: spec.agents,
            office: spec.office,
            owner: if spec.owned { Owner::this() } else { None },
        };
        record::save(&self.layout.record(), &record)?;
        Mirror::new(spec.source.as_deref(), &self.layout.world(), spec.nodes)?.refresh().map(drop)
    }

    fn no_place(&self, place: String) -> LabError {
        LabError::NoSuchPlace { lab: self.layout.name.to_string(), place }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.owned {
            let removed = teardown::lock(&self.layout).and_then(|_lock| teardown::remove(&self.layout));
            if let Err(error) = removed {
                eprintln!("lab {}: {error}", self.layout.name);
            }
        }
    }
}

/// Whether a folder holds manifests; the error of a `--world` that does not.
///
/// # Errors
/// [`LabError::BadFile`].
pub fn require_folder(folder: &Path) -> Result<(), LabError> {
    if folder.is_dir() {
        return Ok(());
    }
    Err(LabError::BadFile { path: folder.to_owned(), reason: "not a folder of manifests".to_owned() })
}
