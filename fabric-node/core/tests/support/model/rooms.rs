//! The rooms of make-believe: what becomes of each command.

use fabric_core::node::*;
use openflow::message::{FlowRemoved, RemovedReason};
use openflow::{Flow, FlowFlags, FlowMod, FlowModCommand, FlowStats};
use policy::{Edit, IpClaim, Kind, Object, ObjectRef};

use super::super::tracked;
use super::{Model, Room, own_row};

impl Model {
    pub(super) fn is_silent(&self, command: &Command) -> bool {
        let room = match command {
            Command::Ports { .. } => Room::Ports,
            Command::Claim { .. } => Room::Store,
            Command::Wire { .. } => Room::Wire,
            Command::Switch(SwitchCommand::ReadConnections { .. }) => Room::Reads,
            Command::Switch(SwitchCommand::EndConnections { .. }) => Room::Ends,
            Command::Switch(SwitchCommand::Settle { .. }) => Room::Settling,
            Command::Switch(_)
            | Command::Host(_)
            | Command::Readdress(_)
            | Command::PathsInUse(_)
            | Command::Uplinks(_)
            | Command::Reply { .. }
            | Command::Report(_) => {
                return false;
            }
        };
        self.silent.contains(&room)
    }

    pub(super) fn carry_out(&mut self, command: Command) {
        match command {
            Command::Switch(command) => self.switch(command),
            Command::Ports { task, command } => {
                let outcome = Outcome::Port(Ok(self.port(command)));
                self.node.handle(Event::Done { task, outcome }, self.now);
            }
            Command::Claim { task, command } => {
                let outcome = Outcome::Claim(self.claim(command));
                self.node.handle(Event::Done { task, outcome }, self.now);
            }
            Command::Wire { task, command } => {
                let mut result = Ok(());
                match command {
                    WireCommand::Create(spec) => drop(self.wires.insert(spec.host_name)),
                    WireCommand::Remove { host_name } => drop(self.wires.remove(&host_name)),
                    WireCommand::Check(_) => {}
                    WireCommand::Address(spec) => {
                        assert!(
                            self.wires.contains(&spec.host_name),
                            "addresses for a device that is not there"
                        );
                        match self.refuse_changes {
                            true => result = Err("the kernel does not like it".into()),
                            false => self.addressed.push((spec.host_name, spec.addresses)),
                        }
                    }
                    WireCommand::Resize { host_name, mtu, .. } => {
                        assert!(self.wires.contains(&host_name), "an MTU for a device that is not there");
                        match self.refuse_changes {
                            true => result = Err("the kernel does not like it".into()),
                            false => self.resized.push((host_name, mtu)),
                        }
                    }
                }
                self.node.handle(Event::Done { task, outcome: Outcome::Wire(result) }, self.now);
            }
            Command::Host(state) => {
                let peers = state.peers.clone();
                self.host = state;
                self.node.handle(Event::PeersSettled(peers), self.now);
            }
            Command::Readdress(pods) => self.readdressed.push(pods),
            Command::PathsInUse(peers) => self.paths_in_use = peers,
            Command::Uplinks(vlans) => self.uplinks = vlans,
            Command::Report(denial) => self.denials.push(denial),
            Command::Reply { id, reply } => {
                assert!(self.replies.insert(id, reply).is_none(), "two replies to one request");
            }
        }
    }

    fn port(&mut self, command: PortsCommand) -> Option<PortRow> {
        match command {
            PortsCommand::Add(spec) => {
                assert!(self.wires.contains(&spec.name), "a port for a device that is not there");
                let asked = spec.ofport_request;
                let row = PortRow {
                    ofport: Some(self.other_numbers.get(&asked).copied().unwrap_or(u32::from(asked))),
                    external_ids: spec.external_ids,
                    ..own_row(&spec.name, "", 0)
                };
                self.rows.insert(row.name.clone(), row.clone());
                Some(row)
            }
            PortsCommand::Remove { name } => {
                self.rows.remove(&name);
                None
            }
        }
    }

    fn claim(&mut self, command: ClaimCommand) -> Result<(), ClaimError> {
        let mut store = self.store.borrow_mut();
        match command {
            ClaimCommand::Create(claim) => {
                if self.refuse_claims {
                    let other = IpClaim { owner: "other/eth0".into(), node: "n9".into(), ..claim };
                    return Err(ClaimError::Taken(Box::new(other)));
                }
                if let Some(holder) = store.get(&claim.ip) {
                    return Err(ClaimError::Taken(Box::new(holder.clone())));
                }
                store.insert(claim.ip, claim.clone());
                self.news.push_back(Edit::Put(Object::IpClaim(claim)));
            }
            ClaimCommand::Release { ip, owner } => {
                if store.get(&ip).is_some_and(|claim| claim.owner == owner) {
                    store.remove(&ip);
                    let name = policy::claim_name(ip).as_str().into();
                    self.news.push_back(Edit::Remove(ObjectRef {
                        kind: Kind::IpClaim,
                        namespace: None,
                        name,
                    }));
                }
            }
            ClaimCommand::Exchange { from, to } => {
                if let Some(holder) = store.get(&from.ip).filter(|holder| **holder != *from) {
                    return Err(ClaimError::Taken(Box::new(holder.clone())));
                }
                let reference = Object::IpClaim((*from).clone()).reference();
                if store.remove(&from.ip).is_some() && to.is_none() {
                    self.news.push_back(Edit::Remove(reference));
                }
                if let Some(claim) = to {
                    store.insert(claim.ip, (*claim).clone());
                    self.news.push_back(Edit::Put(Object::IpClaim(*claim)));
                }
            }
        }
        Ok(())
    }

    fn switch(&mut self, command: SwitchCommand) {
        fn lost<T>() -> Result<T, String> {
            Err("the connection is down".into())
        }
        let (task, outcome) = match command {
            SwitchCommand::Learn { flows, resume } => {
                if self.connected {
                    self.apply(flows);
                    self.resumed += usize::from(resume.is_some());
                }
                return;
            }
            SwitchCommand::Commit { task, meters, flows } => {
                if self.connected && !self.stubborn {
                    self.meters.apply(meters, &mut self.flows);
                    self.apply(flows);
                }
                (task, Outcome::Committed(if self.connected && !self.stubborn { Ok(()) } else { lost() }))
            }
            SwitchCommand::FlushZone { task, zone } => {
                self.flushed.push(zone);
                self.connections.flush(zone);
                (task, Outcome::Committed(if self.connected { Ok(()) } else { lost() }))
            }
            SwitchCommand::LimitConnections { task, zones, most } => {
                let set = match &mut self.limitless {
                    Some(asked) => {
                        *asked += 1;
                        Err("ovs-vswitchd does not answer".to_owned())
                    }
                    None => {
                        self.limits.extend(zones.into_iter().map(|zone| (zone, most)));
                        Ok(())
                    }
                };
                (task, Outcome::Committed(set))
            }
            SwitchCommand::Send { packets } => {
                self.sent.extend(packets);
                return;
            }
            SwitchCommand::Dump { task } => {
                self.dumps += 1;
                let flows = self.flows.iter().map(|flow| FlowStats {
                    flow: flow.clone(),
                    packets: self.took.get(&flow.key()).copied().unwrap_or_default(),
                    ..FlowStats::default()
                });
                (task, Outcome::Dump(if self.connected { Ok(flows.collect()) } else { lost() }))
            }
            SwitchCommand::ReadConnections { task, zones } => {
                self.reads += 1;
                let listed = zones.iter().flat_map(|zone| {
                    self.connections.zone(*zone).iter().map(|found| tracked::listed(*zone, found))
                });
                let deaf = || Err("the control socket does not answer".to_owned());
                (task, Outcome::Connections(if self.deaf { deaf() } else { Ok(listed.collect()) }))
            }
            SwitchCommand::EndConnections { task, connections } => {
                for connection in &connections {
                    self.connections.forget(connection.zone, tracked::tuple(&connection.original));
                }
                self.ended.extend(connections);
                (task, Outcome::Committed(Ok(())))
            }
            SwitchCommand::Settle { task } => (task, Outcome::Committed(Ok(()))),
        };
        self.node.handle(Event::Done { task, outcome }, self.now);
    }

    fn apply(&mut self, flows: Vec<FlowMod>) {
        for flow_mod in flows {
            match flow_mod.command {
                FlowModCommand::Add => {
                    assert!(
                        self.meters.serve(&flow_mod.flow),
                        "a meter that there is not: {}",
                        flow_mod.flow
                    );
                    drop(self.flows.insert(flow_mod.flow.clone()));
                }
                FlowModCommand::DeleteStrict => {
                    let gone = self.flows.remove(&flow_mod.flow.key());
                    let told = gone.filter(|flow| flow.flags.contains(FlowFlags::SEND_FLOW_REM));
                    self.removed.extend(told.map(|flow| removed(&flow, RemovedReason::Delete)));
                }
                other => panic!("the agent sends no {other:?}"),
            }
            self.flow_mods.push(flow_mod);
        }
    }
}

/// What the switch says of a flow that is gone.
pub(super) fn removed(flow: &Flow, reason: RemovedReason) -> FlowRemoved {
    FlowRemoved {
        table: flow.table,
        reason,
        priority: flow.priority,
        cookie: flow.cookie,
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        matches: flow.matches.clone(),
        duration_sec: 0,
        duration_nsec: 0,
        packets: 0,
        bytes: 0,
    }
}
