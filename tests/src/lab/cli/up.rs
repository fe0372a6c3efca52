//! `fabric-lab up` and the supervisor that it leaves in the background.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use crate::lab::names::LabName;
use crate::lab::record::{self, PodRecord, Record};
use crate::lab::supervisor::{PERIOD, Supervisor};
use crate::lab::world::{Mirror, nodes_asked_for};
use crate::lab::{Lab, LabError, Spec, Wiring, interrupt, require_folder};

/// Nodes of a lab that no manifest asks nodes of.
const NODES: usize = 2;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fabric-lab up --nodes 3                  bare nodes; put manifests into the folder it names
  fabric-lab up --world deploy/examples    nodes and pods as the manifests say; edits take effect
  fabric-lab up --office --world deploy/office
                                           pods in the VLANs of a company beside pods in the overlay
  fabric-lab up --name two --foreground    stays, and takes the lab down at Ctrl-C")]
pub struct UpArgs {
    #[command(flatten)]
    which: super::args::Which,
    /// How many nodes, n1 to nN (default: as many as the manifests' spec.nodeName ask for, else 2).
    #[arg(long, short = 'n', value_name = "N")]
    nodes: Option<usize>,
    /// Folder of manifests to keep the lab equal to.
    #[arg(long, short = 'w', value_name = "DIR")]
    world: Option<PathBuf>,
    /// Makes an office beside the nodes: a switch with VLANs, a router, and a server in VLAN 100 and in VLAN 200.
    #[arg(long, value_enum, value_name = "WIRING", num_args = 0..=1, require_equals = true,
        default_missing_value = "second-nic")]
    office: Option<Wiring>,
    /// Stays in the foreground and takes the lab down at Ctrl-C.
    #[arg(long)]
    foreground: bool,
    /// How long the pods may take to be attached before the command gives up waiting, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Makes switches and wire only.
    #[arg(long, hide = true)]
    no_agent: bool,
}

pub fn up(args: &UpArgs) -> Result<(), LabError> {
    interrupt::catch()?;
    let began = Instant::now();
    let spec = spec(args)?;
    println!("lab {}: {} switches", spec.name, spec.nodes);
    let mut lab = Lab::up_without_agents(&spec)?;
    interrupt::check()?;
    if spec.agents {
        say(began, "agents");
        lab.start_agents()?;
        say(began, "pods");
    }
    if args.foreground {
        return foreground(&lab, began);
    }
    lab.supervise()?;
    let patience = Duration::from_secs(args.timeout);
    let mut told = BTreeSet::new();
    let ready = if spec.agents { lab.watch_pods(patience, |pods| tell(pods, &mut told)) } else { Ok(()) };
    if matches!(ready, Err(LabError::Interrupted)) {
        return ready;
    }
    // Not ready is no reason to take away what the user needs to find out why.
    lab.keep();
    ready?;
    say(began, &format!("ready; manifests are read from {}", folder(&lab, &spec).display()));
    Ok(())
}

fn spec(args: &UpArgs) -> Result<Spec, LabError> {
    let source = args.world.as_deref().map(absolute).transpose()?;
    let asked = source.as_deref().map_or(0, nodes_asked_for);
    Ok(Spec {
        name: args.which.name.clone(),
        nodes: args.nodes.unwrap_or(if asked > 0 { asked } else { NODES }),
        source,
        agents: !args.no_agent,
        office: args.office,
        owned: args.foreground,
        config: serde_json::Map::new(),
    })
}

fn absolute(folder: &Path) -> Result<PathBuf, LabError> {
    require_folder(folder)?;
    folder.canonicalize().map_err(LabError::io(format!("find {}", folder.display())))
}

fn folder(lab: &Lab, spec: &Spec) -> PathBuf {
    spec.source.clone().unwrap_or_else(|| lab.layout().world())
}

/// Tells each reason why a pod is not attached once.
fn tell(pods: &[PodRecord], told: &mut BTreeSet<String>) {
    for error in pods.iter().filter_map(|pod| pod.error.as_ref()) {
        if told.insert(error.clone()) {
            eprintln!("         {error}");
        }
    }
}

fn say(began: Instant, what: &str) {
    println!("{:5.1} s  {what}", began.elapsed().as_secs_f64());
    let _ = std::io::stdout().flush();
}

/// The background process: keeps the lab as its folder says until it is told to end.
pub fn supervise(directory: &Path) -> Result<(), LabError> {
    interrupt::catch()?;
    let record: Record = record::load(&directory.join("lab.json"))?;
    let name: LabName = record.name.parse()?;
    let lab = Lab::open(&name)?;
    let mut supervisor = supervisor(&lab, &record)?;
    let mut last = String::new();
    while !interrupt::requested() {
        let error =
            supervisor.round(Instant::now()).map_or_else(|error| error.to_string(), |()| String::new());
        if error != last {
            eprintln!("{error}");
            last = error;
        }
        std::thread::sleep(PERIOD);
    }
    Ok(())
}

fn supervisor(lab: &Lab, record: &Record) -> Result<Supervisor, LabError> {
    let mirror = Mirror::new(record.source.as_deref(), &lab.layout().world(), record.nodes)?;
    Ok(Supervisor::new(lab.layout(), lab.nodes(), lab.programs().ok(), mirror))
}

fn foreground(lab: &Lab, began: Instant) -> Result<(), LabError> {
    let layout = lab.layout();
    let record: Record = record::load(&layout.record())?;
    let mut supervisor = supervisor(lab, &record)?;
    lab.note_supervisor(std::process::id())?;
    let (mut ready, mut told) = (false, BTreeSet::new());
    while !interrupt::requested() {
        supervisor.round(Instant::now())?;
        let records: Vec<PodRecord> = supervisor.records().cloned().collect();
        tell(&records, &mut told);
        if !ready && supervisor.settled().is_ok() {
            ready = true;
            say(began, "ready; Ctrl-C takes the lab down");
        }
        std::thread::sleep(PERIOD);
    }
    Ok(())
}
