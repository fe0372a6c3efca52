//! The room, and what a test does with it.

use std::collections::BTreeMap;

use fabric_core::node::{Event, Outcome, PortRow, PortSpec, PortsCommand, PortsEvent, Task};
use fabric_node::ports::{Handle, PortsConfig, Tunnel, start};
use tokio::sync::mpsc;

use crate::support::{Ovs, PATIENCE, run};

/// A room and what it says.
pub struct Room {
    /// The room.
    pub handle: Handle,
    events: mpsc::Receiver<Event>,
    /// What [`Room::done`] passed over.
    pub ports: Vec<PortsEvent>,
    next: u64,
}

impl Room {
    pub fn new(config: PortsConfig) -> Self {
        let (sender, events) = mpsc::channel(16);
        Self { handle: start(config, sender), events, ports: Vec::new(), next: 0 }
    }

    pub fn on(ovs: &Ovs) -> Self {
        Self::new(config(ovs))
    }

    async fn event(&mut self) -> Event {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        event
            .unwrap_or_else(|_| panic!("no event; problems: {:?}", self.handle.problems()))
            .expect("the room lives")
    }

    /// The next news of the ports.
    pub async fn news(&mut self) -> PortsEvent {
        if !self.ports.is_empty() {
            return self.ports.remove(0);
        }
        loop {
            if let Event::Ports(news) = self.event().await {
                return news;
            }
        }
    }

    pub async fn ready(&mut self) -> Vec<PortRow> {
        loop {
            if let PortsEvent::Ready(rows) = self.news().await {
                return rows;
            }
        }
    }

    pub async fn down(&mut self) {
        while !matches!(self.news().await, PortsEvent::Down) {}
    }

    pub async fn send(&mut self, command: PortsCommand) -> Task {
        self.next += 1;
        self.handle.send(Task(self.next), command).await;
        Task(self.next)
    }

    pub async fn add(&mut self, name: &str, number: u16) -> Task {
        self.send(PortsCommand::Add(spec(name, number))).await
    }

    pub async fn remove(&mut self, name: &str) -> Task {
        self.send(PortsCommand::Remove { name: name.to_owned() }).await
    }

    /// The outcome of the next command that is done.
    pub async fn any(&mut self) -> (Task, Result<Option<PortRow>, String>) {
        loop {
            match self.event().await {
                Event::Ports(news) => self.ports.push(news),
                Event::Done { task, outcome: Outcome::Port(result) } => return (task, result),
                other => panic!("{other:?} is not of this room"),
            }
        }
    }

    pub async fn done(&mut self, task: Task) -> Result<Option<PortRow>, String> {
        let (found, result) = self.any().await;
        assert_eq!(found, task);
        result
    }
}

pub fn config(ovs: &Ovs) -> PortsConfig {
    PortsConfig { database: ovs.socket(), tunnels: vec![Tunnel::Vxlan], ..PortsConfig::new("n1") }
}

pub fn spec(name: &str, number: u16) -> PortSpec {
    let external_ids = [("fabric.container", name), ("fabric.ifname", "eth0")];
    PortSpec { name: name.to_owned(), ofport_request: number, external_ids: owned(&external_ids) }
}

pub fn owned(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub fn veth(name: &str) {
    run("ip", &["link", "add", name, "type", "veth", "peer", "name", &format!("p{name}")]);
    run("ip", &["link", "set", name, "up"]);
}
