//! The loop that ties the rooms to the node.
//!
//! One task owns the [`Node`]. It takes what the rooms and the switch report, asks the
//! node what to do, and hands that out; it waits for nothing but room in a queue. No source of events can starve another: who is
//! served next is drawn by chance. Everything runs on one thread, so that a packet's way
//! through the agent crosses no processor.

mod carrier;
mod denials;
mod report;
mod switch;

use std::cell::RefCell;
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fabric_core::node::{
    Clock, Command, Event, Node, NodeConfig as CoreConfig, PortsEvent, SwitchCommand, SwitchEvent,
};
use fabric_node::config::NodeConfig;
use fabric_node::serve::{self, ServeConfig};
use fabric_node::{attach, connections, host, intake, ports, uplinks};
use openflow::client::ClientEvent;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::info;

use denials::Denials;
use report::Reporter;
use switch::Switch;

/// Events that may wait for the node.
const EVENTS: usize = 4096;
/// Events taken before commands go out and others get a turn.
const BATCH: usize = 64;
/// Bytes that VXLAN over IPv4 takes from a packet: what the host sends to pods must fit as well.
const VXLAN_OVERHEAD: u32 = 50;

/// Logs to standard error what the directives let through.
pub fn log(directives: &str) {
    let filter = tracing_subscriber::EnvFilter::try_new(directives).unwrap_or_default();
    let colours = io::IsTerminal::is_terminal(&io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colours).init();
}

/// The rooms, as the loop speaks to them.
struct Rooms {
    intake: intake::Handle,
    attach: attach::Handle,
    host: host::Handle,
    ports: ports::Handle,
    connections: connections::Handle,
    uplinks: uplinks::Handle,
    switch: Switch,
    denials: RefCell<Denials>,
}

/// Runs the agent until it is told to end.
///
/// # Errors
/// Where a socket or a thread cannot be had at the start; later failures are reported and waited out.
pub async fn run(config: NodeConfig) -> io::Result<()> {
    let (events, mut inbox) = mpsc::channel(EVENTS);
    let (asks, mut questions) = mpsc::channel(16);
    let (switch_events, mut switch_inbox) = mpsc::channel(EVENTS);
    let rooms = start_rooms(&config, &events, switch_events)?;
    let serving = ServeConfig { socket: config.agent_socket() };
    let _serve = serve::start(&serving, asks).map_err(io::Error::other)?;
    let mut node = Node::new(core_config(&config, &rooms));
    let mut reporter = Reporter::new(&config);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    info!(node = %config.node, "agent starts");
    loop {
        let due = node.poll_timeout().into_iter().chain(reporter.due(&node)).min();
        let due = due.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        tokio::select! {
            Some(event) = switch_inbox.recv() => take_switch(&mut node, event, &mut switch_inbox),
            Some(event) = inbox.recv() => take(&mut node, event, &mut inbox, &rooms),
            Some(question) = questions.recv() => reporter.answer(question, &node, &rooms),
            () = tokio::time::sleep_until(due.into()) => node.handle_timeout(Instant::now()),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
        reporter.watch(&node);
        while let Some(command) = node.poll_command() {
            rooms.carry_out(command, &events).await;
        }
    }
    info!(node = %config.node, "agent ends; what is in the switch stays");
    Ok(())
}

fn start_rooms(
    config: &NodeConfig,
    events: &mpsc::Sender<Event>,
    switch_events: mpsc::Sender<ClientEvent>,
) -> io::Result<Rooms> {
    let directory = intake::directory::DirectoryConfig {
        directory: config.store.directory.clone(),
        node: config.node.clone(),
    };
    let attach = attach::AttachConfig { socket: config.cni_socket() };
    Ok(Rooms {
        intake: intake::directory::start(&directory, events.clone())?,
        attach: attach::start(attach, events.clone()).map_err(io::Error::other)?,
        host: host::start(
            host::HostConfig { carrier_mtu: carrier::mtu(config), ..host::HostConfig::default() },
            events.clone(),
        ),
        ports: ports::start(ports_config(config), events.clone()),
        connections: connections::start(
            connections::ConnectionsConfig::new(&config.ovs.run_dir),
            events.clone(),
        ),
        uplinks: uplinks::start(uplinks_config(config)),
        switch: Switch::start(&config.ovs.run_dir.join(format!("{}.mgmt", config.bridge)), switch_events),
        denials: RefCell::new(Denials::new(Instant::now())),
    })
}

/// Settings of the ports room.
pub fn ports_config(config: &NodeConfig) -> ports::PortsConfig {
    ports::PortsConfig {
        database: config.ovs.database.clone(),
        bridge: config.bridge.clone(),
        datapath: config.ovs.datapath,
        physical: config.physical_networks.keys().cloned().collect(),
        mtu: Some(carrier::mtu(config).saturating_sub(VXLAN_OVERHEAD)),
        ..ports::PortsConfig::new(&config.node)
    }
}

/// Settings of the uplinks room.
pub fn uplinks_config(config: &NodeConfig) -> uplinks::UplinksConfig {
    uplinks::UplinksConfig {
        database: config.ovs.database.clone(),
        bridge: config.bridge.clone(),
        networks: config.physical_networks.clone(),
        ..uplinks::UplinksConfig::new(&config.node)
    }
}

fn core_config(config: &NodeConfig, rooms: &Rooms) -> CoreConfig {
    let limits = &config.limits;
    CoreConfig {
        node: config.node.as_str().into(),
        bridge: config.bridge.clone(),
        carrier_mtu: carrier::mtu(config),
        physical: carrier::physical(config),
        software_checksums: rooms.ports.is_userspace(),
        punts_per_second: limits.conversations_per_second,
        connections_per_pod: limits.connections_per_pod,
        learned_per_pod: usize::try_from(limits.learned_flows_per_pod).unwrap_or(usize::MAX),
        shared_namespaces: config.shared_namespaces.iter().map(|name| name.as_str().into()).collect(),
        claim_rest: config.claim_rest(),
        claim_retention: config.claim_retention(),
        reconcile_every: config.reconcile(),
        egress: config.egress,
        seed: u64::from(since_epoch().subsec_nanos()) << 32 | u64::from(std::process::id()),
        clock: Clock::new(Instant::now(), since_epoch()),
    }
}

/// Time since the Unix epoch.
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn take(node: &mut Node, event: Event, inbox: &mut mpsc::Receiver<Event>, rooms: &Rooms) {
    let now = Instant::now();
    let mut next = Some(event);
    for _ in 0..BATCH {
        let Some(event) = next.take().or_else(|| inbox.try_recv().ok()) else { break };
        if matches!(event, Event::Ports(PortsEvent::Ready(_))) {
            node.set_software_checksums(rooms.ports.is_userspace());
        }
        node.handle(event, now);
    }
}

fn take_switch(node: &mut Node, event: ClientEvent, inbox: &mut mpsc::Receiver<ClientEvent>) {
    let now = Instant::now();
    let mut next = Some(event);
    for _ in 0..BATCH {
        let Some(event) = next.or_else(|| inbox.try_recv().ok()) else { break };
        if let Some(event) = switch::translate(event) {
            node.handle(Event::Switch(event), now);
        }
        next = None;
    }
}

impl Rooms {
    async fn carry_out(&self, command: Command, events: &mpsc::Sender<Event>) {
        match command {
            Command::Switch(SwitchCommand::Learn { flows, resume }) => {
                if !self.switch.learn(flows, resume) {
                    // A full queue of events is as good a reason to look again later.
                    let _ = events.try_send(Event::Switch(SwitchEvent::Refused));
                }
            }
            Command::Switch(
                command @ (SwitchCommand::ReadConnections { .. }
                | SwitchCommand::EndConnections { .. }
                | SwitchCommand::LimitConnections { .. }
                | SwitchCommand::Settle { .. }),
            ) => self.connections.send(command).await,
            Command::Switch(command) => self.switch.carry_out(command, events),
            Command::Ports { task, command } => self.ports.send(task, command).await,
            Command::Claim { task, command } => self.intake.send(task, command).await,
            Command::Wire { task, command } => self.attach.wire(task, command).await,
            Command::Host(state) => {
                self.ports.set_mtu(state.mtu);
                self.host.apply(state);
            }
            Command::Readdress(pods) => self.host.readdress(pods).await,
            Command::PathsInUse(peers) => self.host.look_after(peers),
            Command::Uplinks(vlans) => self.uplinks.apply(vlans),
            Command::Reply { id, reply } => self.attach.reply(id, reply).await,
            Command::Report(denial) => self.denials.borrow_mut().log(&denial, Instant::now()),
        }
    }
}
