//! An attachment's way in: Network, claims, a look at the wire, devices, flows, port, answer.
//!
//! Each step starts when the one before has its outcome. What fails, or is no longer
//! wanted, turns round and takes the way out ([`super::detach`]).

use std::net::IpAddr;
use std::time::{Duration, Instant};

use openflow::FlowMod;
use policy::{Family, IpClaim, Network};

use super::book::{Attachment, Stage, leases};
use super::wires::{Resize, port_request};
use super::{
    AttachRequest, Attached, AttachmentKey, ClaimError, Command, Errand, Node, PortRow, PortsCommand, Reply,
    RequestError, RequestId, SwitchCommand, Task, WireCommand,
};
use crate::pipeline::learned::Pods;
use crate::pipeline::site::Segment;
use crate::pipeline::statics::{pod_flows, pod_meters};

/// Addresses that may turn out to be somebody else's before an attachment gives up.
pub(super) const CLAIM_TRIES: u32 = 64;
/// How long an attachment waits for the neighbours of the tunnels.
const WARM_FOR: Duration = Duration::from_secs(1);
/// What a container is told that finds no conntrack zone.
const NO_ZONE: &str = "this node has 32,000 interfaces of containers, and takes no more: detach some (`fabric-node status` \
                       lists them), or use another node";

impl Node {
    pub(super) fn attach(&mut self, id: RequestId, request: AttachRequest, now: Instant) {
        if leases(request.ipam.as_ref()) {
            let what = "an address from the IPAM plugin dhcp needs an interface that was prepared for it";
            return self.reply(id, Err(RequestError::Invalid(what.into())));
        }
        if let Some(attachment) = self.book.get_mut(&request.key) {
            if attachment.is_leaving() {
                let what = format!("interface {} is just being removed", request.key.ifname);
                return self.reply(id, Err(RequestError::TryAgain(what)));
            }
            if attachment.stage != Stage::Ready {
                return attachment.attaching.push(id);
            }
            attachment.netns.clone_from(&request.netns);
            return self.recheck(&request.key, id);
        }
        if self.enter(id, &request)
            && let Err(error) = self.choose(&request, now)
        {
            self.fail(&request.key, error);
        }
    }

    /// Enters an attachment into the book, which the request waits for; false where there is no room.
    pub(super) fn enter(&mut self, id: RequestId, request: &AttachRequest) -> bool {
        let Some(zone) = self.book.free_zone() else {
            self.reply(id, Err(RequestError::Failed(NO_ZONE.into())));
            return false;
        };
        let mut attachment = Attachment::new(request, zone);
        attachment.attaching.push(id);
        self.book.insert(attachment);
        self.leave_gone();
        true
    }

    /// An attachment that is ready already: the same answer, if its devices are as they were made.
    pub(super) fn recheck(&mut self, key: &AttachmentKey, id: RequestId) {
        let Some(spec) = self.book.get(key).map(|a| self.wire_spec(a)) else { return };
        let task = self.errand(Errand::Recheck { key: key.clone(), id });
        self.command(Command::Wire { task, command: WireCommand::Check(spec) });
    }

    pub(super) fn rechecked(&mut self, key: &AttachmentKey, id: RequestId, result: Result<(), String>) {
        let reply = match (result, self.book.get(key)) {
            (Ok(()), Some(attachment)) => Ok(Reply::Attached(attached(attachment))),
            (Err(error), _) => {
                Err(RequestError::Failed(format!("the interface exists, but is not as made: {error}")))
            }
            (_, None) => Err(RequestError::TryAgain("the interface went meanwhile".into())),
        };
        self.reply(id, reply);
    }

    /// Network and addresses, and the claims for them.
    fn choose(&mut self, request: &AttachRequest, now: Instant) -> Result<(), RequestError> {
        let network = self.network_of(request)?;
        let wish = self.wish(request, &network)?;
        let segment = self.segment_for(&network)?;
        self.mac_is_free(request, &network)?;
        let addresses = self.choose_addresses(&network, &wish, now)?;
        self.join(&request.key, &network, segment, now);
        let gateways = addresses.iter().filter_map(|ip| network.gateway(Family::of(*ip))).collect();
        self.claim_chosen(&request.key, gateways, wish.fixed, addresses);
        Ok(())
    }

    /// The Network that is asked for, by the pod's annotation or otherwise.
    pub(super) fn network_of(&self, request: &AttachRequest) -> Result<Network, RequestError> {
        let reference = request.pod.as_ref().map(policy::PodIdent::reference);
        if let Some(reference) = reference.as_ref().filter(|reference| self.world.pod(reference).is_none()) {
            return Err(RequestError::TryAgain(format!(
                "pod {reference} is not known here: put it into the store, or wait until this node has read it"
            )));
        }
        let network = self.world.network_for(reference.as_ref());
        network.cloned().map_err(|error| RequestError::Invalid(error.to_string()))
    }

    /// What an attachment has of its Network, but for addresses.
    pub(super) fn join(
        &mut self,
        key: &AttachmentKey,
        network: &Network,
        segment: Option<Segment>,
        now: Instant,
    ) {
        let fitting = self.pod_mtu(network).unwrap_or(self.config.carrier_mtu);
        let rates = self.book.get(key).map(|a| self.wanted_rates(a)).unwrap_or_default();
        if let Some(attachment) = self.book.get_mut(key) {
            attachment.network = network.name.clone();
            attachment.on_link = if segment.is_some() { network.cidrs.clone() } else { Vec::new() };
            attachment.segment = segment;
            attachment.mtu = attachment.asked_mtu.or(network.mtu).unwrap_or(fitting);
            attachment.rates = rates;
        }
        self.refresh_uplinks();
        self.refresh_largest(now);
    }

    /// Asks for the claims of the addresses that were chosen.
    pub(super) fn claim_chosen(
        &mut self,
        key: &AttachmentKey,
        gateways: Vec<IpAddr>,
        fixed: Vec<IpAddr>,
        addresses: Vec<IpAddr>,
    ) {
        if let Some(attachment) = self.book.get_mut(key) {
            attachment.gateways = gateways;
            attachment.fixed = fixed;
            attachment.stage = Stage::Claiming { open: addresses.len() };
        }
        for ip in addresses {
            self.claim(key, ip);
        }
    }

    pub(super) fn claimed(
        &mut self,
        key: &AttachmentKey,
        ip: IpAddr,
        result: Result<(), ClaimError>,
        now: Instant,
    ) {
        self.leases.settle(ip);
        let Some(attachment) = self.book.get(key) else {
            if result.is_ok() {
                self.release(ip, &super::book::owner(key));
            }
            return;
        };
        let fixed = attachment.fixed.contains(&ip);
        let may_try = attachment.refused < CLAIM_TRIES && !attachment.is_leaving();
        let own = |holder: &IpClaim| holder.owner == attachment.owner() && holder.node == self.config.node;
        let fault = match result {
            Ok(()) => None,
            Err(ClaimError::Taken(holder)) if own(&holder) => None,
            Err(ClaimError::Taken(holder)) if may_try && self.may_take_over(&holder, key) => {
                self.refused(key);
                self.leases.hold(ip);
                return self.take_over(key, *holder, Errand::Claim { key: key.clone(), ip });
            }
            Err(ClaimError::Taken(holder)) if may_try && !fixed && !self.waits_for(&holder, key) => {
                self.refused(key);
                return self.claim_another(key, ip, now);
            }
            Err(ClaimError::Taken(holder)) => Some(self.taken(&holder, key)),
            Err(ClaimError::Store(error)) => Some(RequestError::TryAgain(format!("claim store: {error}"))),
        };
        if let Some(attachment) = self.book.get_mut(key) {
            match fault {
                None => attachment.addresses.push(ip),
                Some(fault) => attachment.fault = attachment.fault.take().or(Some(fault)),
            }
        }
        self.claim_settled(key, now);
    }

    pub(super) fn refused(&mut self, key: &AttachmentKey) {
        if let Some(attachment) = self.book.get_mut(key) {
            attachment.refused += 1;
        }
    }

    pub(super) fn claim_another(&mut self, key: &AttachmentKey, refused: IpAddr, now: Instant) {
        let Some(attachment) = self.book.get(key) else { return };
        let pod = attachment.pod.as_ref().and_then(|pod| self.world.pod(&pod.reference()));
        let ranges = pod.map(|pod| pod.annotations.ip_ranges.clone()).unwrap_or_default();
        let family = Family::of(refused);
        let network = self.world.network(&attachment.network).cloned();
        let gone = || RequestError::TryAgain(format!("Network {} is no longer there", attachment.network));
        let picked = match network {
            None => Err(gone()),
            Some(network) => self
                .leases
                .pick(&network, &ranges, family, &self.world, now)
                .ok_or_else(|| self.full(&network, &ranges, family)),
        };
        match picked {
            Ok(ip) => self.claim(key, ip),
            Err(fault) => {
                if let Some(attachment) = self.book.get_mut(key) {
                    attachment.fault = attachment.fault.take().or(Some(fault));
                }
                self.claim_settled(key, now);
            }
        }
    }

    /// One claim of an attachment has its last outcome.
    fn claim_settled(&mut self, key: &AttachmentKey, now: Instant) {
        let Some(attachment) = self.book.get_mut(key) else { return };
        let Stage::Claiming { open } = &mut attachment.stage else { return };
        *open = open.saturating_sub(1);
        if *open > 0 {
            return;
        }
        if attachment.is_leaving() {
            return self.turn_round(key);
        }
        attachment.addresses.sort();
        self.refresh_exits();
        self.probe_or_wire(key, now);
    }

    /// The addresses are the attachment's: the devices come next.
    pub(super) fn wire(&mut self, key: &AttachmentKey) {
        let Some(attachment) = self.book.get_mut(key) else { return };
        attachment.stage = Stage::Wiring;
        attachment.busy = true;
        let attachment = attachment.clone();
        let spec = self.wire_spec(&attachment);
        let task = self.errand(Errand::Wire { key: key.clone() });
        let command =
            if attachment.completing { WireCommand::Address(spec) } else { WireCommand::Create(spec) };
        self.command(Command::Wire { task, command });
    }

    pub(super) fn wired(&mut self, key: &AttachmentKey, result: Result<(), String>) {
        self.idle(key);
        if let Err(error) = result {
            return self.fail(key, RequestError::Failed(error));
        }
        let Some(attachment) = self.book.get_mut(key) else { return };
        if attachment.is_leaving() {
            return self.leave(key);
        }
        attachment.stage = Stage::Porting;
        match attachment.completing {
            true => self.prepare_again(key),
            false => self.prepare(key),
        }
    }

    /// Flows first, under the number that the port will ask for: the switch remembers for a moment what it did with a
    /// port's first packets, and a drop that it remembers would outlive the barrier behind the flows.
    fn prepare(&mut self, key: &AttachmentKey) {
        let Some(zone) = self.book.get(key).map(|a| a.zone) else { return };
        let port = u32::from(port_request(zone));
        let taken =
            self.ports.values().any(|row| row.ofport == Some(port)) || self.book.by_port(port).is_some();
        if !self.up || taken {
            return self.add_port(key);
        }
        self.assign_port(key, Some(port));
        self.send_prepared(key);
    }

    /// The same for an attachment that has its port, and by now its addresses.
    fn prepare_again(&mut self, key: &AttachmentKey) {
        self.book.set_addresses(key);
        match self.up && self.book_port(key).is_some() {
            true => self.send_prepared(key),
            false => self.add_port(key),
        }
    }

    fn send_prepared(&mut self, key: &AttachmentKey) {
        if let Some(attachment) = self.book.get_mut(key) {
            attachment.busy = true;
        }
        let task = self.errand(Errand::Prepare { key: key.clone() });
        self.send_flows(key, task);
    }

    pub(super) fn prepared(&mut self, key: &AttachmentKey, result: Result<(), String>, now: Instant) {
        self.idle(key);
        if result.is_err() {
            self.book.set_port(key, None);
            self.doubt(now);
        }
        if !self.leave_if_asked(key) {
            self.add_port(key);
        }
    }

    pub(super) fn add_port(&mut self, key: &AttachmentKey) {
        let Some(attachment) = self.book.get_mut(key) else { return };
        attachment.busy = true;
        let spec = Node::port_spec(attachment);
        let task = self.errand(Errand::AddPort { key: key.clone() });
        self.command(Command::Ports { task, command: PortsCommand::Add(spec) });
    }

    pub(super) fn ported(
        &mut self,
        key: &AttachmentKey,
        result: Result<Option<PortRow>, String>,
        now: Instant,
    ) {
        self.idle(key);
        let row = match result.and_then(|row| row.ok_or_else(|| "the switch gave no port".into())) {
            Ok(row) => row,
            Err(error) if self.is_fresh(key) => return self.fail(key, RequestError::TryAgain(error)),
            // A port that was put back: its container counts as gone only when the device stays missing.
            Err(_) => {
                self.leave_if_asked(key);
                return;
            }
        };
        let (name, port) = (row.name.clone(), row.ofport);
        self.missing_since.remove(&name);
        self.ports.insert(name, row);
        if self.is_fresh(key)
            && let Some(attachment) = self.book.get_mut(key)
        {
            attachment.stage = Stage::Installing;
        }
        if self.leave_if_asked(key) {
            return;
        }
        self.refresh_host();
        match self.book_port(key) {
            Some(prepared) if Some(prepared) == port && self.up => self.installed(key, Ok(()), now),
            Some(prepared) if Some(prepared) != port => self.renumber(key, port),
            _ => {
                self.assign_port(key, port);
                self.install(key);
            }
        }
    }

    fn is_fresh(&self, key: &AttachmentKey) -> bool {
        self.book.get(key).is_some_and(|attachment| attachment.stage == Stage::Porting)
    }

    /// Takes the way out if somebody asked for it meanwhile.
    fn leave_if_asked(&mut self, key: &AttachmentKey) -> bool {
        let asked = self.book.get(key).is_some_and(Attachment::is_leaving);
        if asked {
            self.leave(key);
        }
        asked
    }

    /// Sends an attachment's flows; while the switch is away, the compare that follows will.
    pub(super) fn install(&mut self, key: &AttachmentKey) {
        if self.up && self.book_port(key).is_some() {
            let task = self.errand(Errand::Install { key: key.clone() });
            self.send_flows(key, task);
        }
    }

    /// Sends the flows and meters of an attachment that has a port: into an empty zone, unless it carries traffic already.
    fn send_flows(&mut self, key: &AttachmentKey, task: Task) {
        let Some(pod) = self.book.get(key).and_then(|a| self.pod_of_zone(a.zone)) else { return };
        self.limit_connections([pod.zone]);
        let mut flows = if self.is_in_node_flows(&pod) { self.node_flow_changes() } else { Vec::new() };
        flows.extend(pod_flows(&self.site, &pod).into_iter().map(FlowMod::add));
        let meters = pod_meters(&pod, self.config.punts_per_second);
        if self.book.get(key).is_some_and(|a| a.stage != Stage::Ready) {
            let flush = self.errand(Errand::Flush);
            self.command(Command::Switch(SwitchCommand::FlushZone { task: flush, zone: pod.zone }));
        }
        self.command(Command::Switch(SwitchCommand::Commit { task, meters, flows }));
    }

    pub(super) fn installed(&mut self, key: &AttachmentKey, result: Result<(), String>, now: Instant) {
        if result.is_err() {
            return self.doubt(now);
        }
        let Some(attachment) = self.book.get_mut(key) else { return };
        if attachment.stage != Stage::Installing {
            return;
        }
        if attachment.is_leaving() {
            return self.leave(key);
        }
        if attachment.leases() && !attachment.completing {
            return self.wait_for_lease(key, now);
        }
        self.warming.push((key.clone(), now + WARM_FOR));
        self.finish_warm(now);
    }

    /// Answers for attachments whose flows are in place, once the tunnels' neighbours are known.
    pub(super) fn finish_warm(&mut self, now: Instant) {
        for (key, until) in std::mem::take(&mut self.warming) {
            if !self.peers_settled && until > now {
                self.warming.push((key, until));
                continue;
            }
            self.make_ready(&key, now);
        }
    }

    /// The end of the way in. What became of the port meanwhile counts from here on.
    fn make_ready(&mut self, key: &AttachmentKey, now: Instant) {
        let Some(attachment) = self.book.get_mut(key) else { return };
        if attachment.stage != Stage::Installing {
            return;
        }
        attachment.stage = Stage::Ready;
        attachment.completing = false;
        let reply = Reply::Attached(attached(attachment));
        let addresses = attachment.addresses.clone();
        for id in std::mem::take(&mut attachment.attaching) {
            self.reply(id, Ok(reply.clone()));
        }
        for address in addresses {
            self.identities.insert(address, self.identity(address));
        }
        self.announce(key, false, now);
        self.send_announcements(now);
        // Its Network may have been edited meanwhile.
        self.resize(key, Resize::All, now);
    }

    /// The errand under way has its outcome.
    fn idle(&mut self, key: &AttachmentKey) {
        if let Some(attachment) = self.book.get_mut(key) {
            attachment.busy = false;
        }
    }

    /// Turns an attachment round.
    pub(super) fn fail(&mut self, key: &AttachmentKey, error: RequestError) {
        if let Some(attachment) = self.book.get_mut(key) {
            attachment.fault = attachment.fault.take().or(Some(error));
        }
        self.turn_round(key);
    }

    /// The way out; for one whose lease cannot be had, back to where it can be given up properly.
    fn turn_round(&mut self, key: &AttachmentKey) {
        if !self.refuse_lease(key) {
            self.leave(key);
        }
    }
}

pub(super) fn attached(attachment: &Attachment) -> Attached {
    Attached {
        host_name: attachment.host_name.clone(),
        mac: attachment.mac,
        mtu: attachment.mtu,
        addresses: attachment.nets(),
        gateways: attachment.gateways.clone(),
        network: attachment.network.clone(),
    }
}
