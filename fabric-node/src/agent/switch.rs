//! The two OpenFlow connections of the agent: one for flows and packets, in order; one for reading.

use std::future::Future;
use std::path::Path;

use fabric_core::node::{Event, Outcome, SwitchCommand, SwitchEvent, Task};
use openflow::FlowMod;
use openflow::client::{Client, ClientError, ClientEvent, Config};
use openflow::message::{Body, FlowRequest, OfError, Resume};
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

/// The switch, as the loop speaks to it.
pub struct Switch {
    flows: Client,
    reads: Client,
}

impl Switch {
    /// Connects to the bridge's management socket, and again whenever the connection is lost.
    pub fn start(path: &Path, events: mpsc::Sender<ClientEvent>) -> Switch {
        let flows = Client::spawn(Config { port_status: false, ..Config::new(path) }, events);
        let (quiet, mut unheard) = mpsc::channel(64);
        tokio::spawn(async move { while unheard.recv().await.is_some() {} });
        Switch { flows, reads: Client::spawn(Config::quiet(path), quiet) }
    }

    /// The connection for reading.
    pub fn reads(&self) -> &Client {
        &self.reads
    }

    /// Sends flows and the packet that waits for them, without waiting; false where they did not go out.
    pub fn learn(&self, flows: Vec<FlowMod>, resume: Option<Resume>) -> bool {
        let resume = resume.map(Body::Resume);
        let bodies = flows.into_iter().map(Body::FlowMod).chain(resume).collect();
        let sent = self.flows.try_send(bodies);
        if let Err(error) = &sent {
            debug!(%error, "a packet goes without its answer; its sender retransmits");
        }
        sent.is_ok()
    }

    /// Carries out a command that has an outcome.
    pub fn carry_out(&self, command: SwitchCommand, events: &mpsc::Sender<Event>) {
        match command {
            SwitchCommand::Learn { flows, resume } => drop(self.learn(flows, resume)),
            SwitchCommand::Commit { task, meters, flows } => {
                let meters: Vec<Body> = meters.into_iter().map(Body::MeterMod).collect();
                if !meters.is_empty()
                    && let Err(error) = self.flows.try_send(meters)
                {
                    return report(events, task, async move { Err(error) });
                }
                match self.flows.start_commit(flows) {
                    Ok(outcome) => report(events, task, outcome),
                    Err(error) => report(events, task, async move { Err(error) }),
                }
            }
            SwitchCommand::FlushZone { task, zone } => {
                match self.flows.start_apply(vec![Body::CtFlushZone(zone)]) {
                    Ok(outcome) => report(events, task, outcome),
                    Err(error) => report(events, task, async move { Err(error) }),
                }
            }
            SwitchCommand::Send { packets } => {
                let sent = self.flows.try_send(packets.into_iter().map(Body::PacketOut).collect());
                sent.unwrap_or_else(|error| debug!(%error, "packets of the agent's own are lost"));
            }
            SwitchCommand::Dump { task } => self.dump(task, events.clone()),
            // For the connections room.
            SwitchCommand::ReadConnections { .. }
            | SwitchCommand::EndConnections { .. }
            | SwitchCommand::LimitConnections { .. }
            | SwitchCommand::Settle { .. } => {}
        }
    }

    fn dump(&self, task: Task, events: mpsc::Sender<Event>) {
        let reads = self.reads.clone();
        tokio::spawn(async move {
            let flows = reads.dump_flows(FlowRequest::default()).await.map_err(|error| error.to_string());
            let _ = events.send(Event::Done { task, outcome: Outcome::Dump(flows) }).await;
        });
    }
}

fn report(
    events: &mpsc::Sender<Event>,
    task: Task,
    outcome: impl Future<Output = Result<(), ClientError>> + Send + 'static,
) {
    let events = events.clone();
    tokio::spawn(async move {
        let outcome = outcome.await;
        if let Err(error) = &outcome {
            warn!(%error, "the switch did not take a change; it is read again");
        }
        let outcome = Outcome::Committed(outcome.map_err(|error| error.to_string()));
        let _ = events.send(Event::Done { task, outcome }).await;
    });
}

/// What an event of the connection means to the node; `None` for what only the log wants.
pub fn translate(event: ClientEvent) -> Option<SwitchEvent> {
    match event {
        ClientEvent::Connected(_) => {
            info!("the switch is connected");
            Some(SwitchEvent::Connected)
        }
        ClientEvent::Disconnected { reason } => {
            info!(%reason, "the switch is not connected");
            Some(SwitchEvent::Disconnected)
        }
        ClientEvent::PacketIn(packet_in) => Some(SwitchEvent::PacketIn(packet_in)),
        ClientEvent::FlowRemoved(removed) => Some(SwitchEvent::FlowRemoved(removed)),
        ClientEvent::Error { xid, error } => {
            debug!(xid, %error, "the switch refused a message");
            concerns_flow(&error).then_some(SwitchEvent::Refused)
        }
        ClientEvent::PortStatus(_) | ClientEvent::Other(_) => None,
    }
}

/// Whether a flow was refused: not a meter that exists already, nor a packet that has waited too long (OpenFlow 1.5
/// §7.5.4: types 2 to 5).
fn concerns_flow(error: &OfError) -> bool {
    error.vendor == 0 && (2..=5).contains(&error.kind)
}
