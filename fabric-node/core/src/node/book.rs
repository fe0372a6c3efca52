//! The book of attachments: what is attached here, and how far each has come.
//!
//! The book is written into `external_ids` of the interfaces, so that the database of
//! Open vSwitch gives it back after a restart ([`Attachment::external_ids`], [`Attachment::read`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use openflow::Mac;
use policy::{Family, Name, PodIdent};

use super::{AttachRequest, AttachmentKey, PortRow, RequestId};
use crate::pipeline::learned::Pods;
use crate::pipeline::site::{LocalPod, Rates, Segment};
use crate::pipeline::vocabulary::stable_id;

/// How far an attachment has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its pod is not known yet.
    Unknown,
    /// Claims are being made.
    Claiming {
        /// Claims without an outcome.
        open: usize,
    },
    /// Its addresses are being looked for in its VLAN, whether somebody has them already.
    Probing,
    /// The pair of devices is being made.
    Wiring,
    /// The port is being added.
    Porting,
    /// The flows are being installed.
    Installing,
    /// It has devices and a port, and a DHCP server is being asked for its address.
    Waiting,
    /// It carries traffic.
    Ready,
    /// Flows and port are going; then the devices, then the claims.
    Leaving {
        /// Steps without an outcome.
        open: usize,
    },
}

/// One interface of one container.
#[derive(Debug, Clone)]
pub(super) struct Attachment {
    pub key: AttachmentKey,
    pub netns: String,
    /// Name of the network configuration that asked.
    pub configuration: String,
    pub pod: Option<PodIdent>,
    pub network: Name,
    /// The VLAN that it was attached in, whatever has become of its Network since.
    pub segment: Option<Segment>,
    pub host_name: String,
    pub zone: u16,
    pub mac: Mac,
    pub mtu: u32,
    /// MTU that the runtime asked for, bytes.
    pub asked_mtu: Option<u32>,
    /// MTU that the devices are being given.
    pub resizing: Option<u32>,
    pub addresses: Vec<IpAddr>,
    /// Prefixes that it reaches without a router: those of its Network, in a VLAN.
    pub on_link: Vec<IpNet>,
    pub gateways: Vec<IpAddr>,
    /// Limits that the runtime asked for.
    pub asked_rates: Rates,
    /// Limits in force.
    pub rates: Rates,
    /// Families in which it leaves the cluster under an egress address, or not at all.
    pub exits: BTreeSet<Family>,
    pub stage: Stage,
    /// Whether an errand is under way whose outcome must come before the next step.
    pub busy: bool,
    /// Fixed addresses, which may not be replaced by others.
    pub fixed: Vec<IpAddr>,
    /// The IPAM plugin that gave the addresses, where one did.
    pub ipam: Option<String>,
    /// Whether the address that it waited for has come, and is being made its own.
    pub completing: bool,
    /// Addresses that nobody else has in its VLAN.
    pub clear: Vec<IpAddr>,
    /// Addresses tried for this attachment and found taken.
    pub refused: u32,
    /// Requests to attach that wait for it.
    pub attaching: Vec<RequestId>,
    /// Requests to detach that wait for it.
    pub detaching: Vec<RequestId>,
    /// Why it is going, where that is a fault.
    pub fault: Option<super::RequestError>,
}

impl Attachment {
    pub fn new(request: &AttachRequest, zone: u16) -> Attachment {
        Attachment {
            key: request.key.clone(),
            netns: request.netns.clone(),
            configuration: request.network.clone(),
            pod: request.pod.clone(),
            network: Name::default(),
            segment: None,
            host_name: host_name(&request.key),
            zone,
            mac: request.mac.unwrap_or_else(|| made_mac(&request.key)),
            mtu: 0,
            asked_mtu: request.mtu,
            resizing: None,
            addresses: Vec::new(),
            on_link: Vec::new(),
            gateways: Vec::new(),
            asked_rates: request.rates,
            rates: request.rates,
            exits: BTreeSet::new(),
            stage: Stage::Unknown,
            busy: false,
            fixed: Vec::new(),
            ipam: request.ipam.clone(),
            completing: false,
            clear: Vec::new(),
            refused: 0,
            attaching: Vec::new(),
            detaching: Vec::new(),
            fault: None,
        }
    }

    /// `owner` of its claims.
    pub fn owner(&self) -> String {
        owner(&self.key)
    }

    /// Whose it is, in words.
    pub fn holder(&self) -> String {
        match &self.pod {
            Some(pod) => format!("pod {}", pod.reference()),
            None => format!("container {}", self.key.container_id),
        }
    }

    pub fn is_leaving(&self) -> bool {
        !self.detaching.is_empty() || self.fault.is_some() || matches!(self.stage, Stage::Leaving { .. })
    }

    /// Whether a DHCP server gives its address.
    pub fn leases(&self) -> bool {
        leases(self.ipam.as_ref())
    }

    /// Its addresses with the lengths of their prefixes.
    pub fn nets(&self) -> Vec<IpNet> {
        let net = |ip: &IpAddr| {
            let length = self.on_link.iter().find(|net| net.contains(ip)).map(IpNet::prefix_len);
            length.and_then(|length| IpNet::new(*ip, length).ok()).unwrap_or_else(|| IpNet::from(*ip))
        };
        self.addresses.iter().map(net).collect()
    }

    /// What the interface's row remembers.
    pub fn external_ids(&self) -> BTreeMap<String, String> {
        let mut ids = vec![
            (CONTAINER, self.key.container_id.clone()),
            (IFNAME, self.key.ifname.clone()),
            (NETNS, self.netns.clone()),
            (CONFIGURATION, self.configuration.clone()),
            (NETWORK, self.network.to_string()),
            (ZONE, self.zone.to_string()),
            (MAC, self.mac.to_string()),
            (MTU, self.mtu.to_string()),
            (ADDRESSES, list(&self.addresses)),
            (GATEWAYS, list(&self.gateways)),
        ];
        let bits = |rate: Option<u64>| rate.map(|rate| rate.to_string());
        let optional = [
            (SEGMENT, self.segment.as_ref().map(segment_text)),
            (IPAM, self.ipam.clone()),
            (FIXED, (!self.fixed.is_empty()).then(|| list(&self.fixed))),
            (ON_LINK, (!self.on_link.is_empty()).then(|| list(&self.on_link))),
            (MTU_ASKED, self.asked_mtu.map(|mtu| mtu.to_string())),
            (RATE_OUT, bits(self.asked_rates.out)),
            (RATE_INTO, bits(self.asked_rates.into)),
        ];
        ids.extend(optional.into_iter().filter_map(|(key, value)| Some((key, value?))));
        if let Some(pod) = &self.pod {
            ids.push((POD, pod.reference().to_string()));
            ids.push((POD_UID, pod.uid.to_string()));
        }
        ids.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
    }

    /// Reads the row of an interface; `None` for one that is no pod's, or that is
    /// damaged beyond use.
    pub fn read(row: &PortRow) -> Option<Attachment> {
        let get = |key: &str| row.external_ids.get(key);
        let key = AttachmentKey { container_id: get(CONTAINER)?.clone(), ifname: get(IFNAME)?.clone() };
        let pod = get(POD).and_then(|pod| pod.split_once('/')).map(|(namespace, name)| PodIdent {
            namespace: namespace.into(),
            name: name.into(),
            uid: get(POD_UID).map_or_else(Name::default, |uid| uid.as_str().into()),
        });
        let rates = Rates { out: given(row, RATE_OUT, number)?, into: given(row, RATE_INTO, number)? };
        let addresses: Vec<IpAddr> = read_list(get(ADDRESSES)?)?;
        Some(Attachment {
            netns: get(NETNS)?.clone(),
            configuration: get(CONFIGURATION).cloned().unwrap_or_default(),
            pod,
            network: get(NETWORK)?.as_str().into(),
            segment: given(row, SEGMENT, read_segment)?,
            host_name: row.name.clone(),
            zone: get(ZONE)?.parse().ok().filter(|zone| (1..=LAST_ZONE).contains(zone))?,
            mac: get(MAC)?.parse().ok()?,
            mtu: get(MTU)?.parse().ok()?,
            asked_mtu: given(row, MTU_ASKED, number)?,
            resizing: None,
            on_link: given(row, ON_LINK, read_list)?.unwrap_or_default(),
            gateways: read_list(get(GATEWAYS)?)?,
            asked_rates: rates,
            rates,
            exits: BTreeSet::new(),
            stage: if leases(get(IPAM)) && addresses.is_empty() { Stage::Waiting } else { Stage::Ready },
            addresses,
            busy: false,
            fixed: given(row, FIXED, read_list)?.unwrap_or_default(),
            ipam: get(IPAM).cloned(),
            completing: false,
            clear: Vec::new(),
            refused: 0,
            attaching: Vec::new(),
            detaching: Vec::new(),
            fault: None,
            key,
        })
    }
}

/// Whether an IPAM plugin is the one that asks a DHCP server on the container's own interface.
pub(super) fn leases(ipam: Option<&String>) -> bool {
    ipam.is_some_and(|plugin| plugin == "dhcp")
}

/// Whose interface a row is, where it says so: whether or not the rest can be read.
pub(super) fn container_of(row: &PortRow) -> Option<&str> {
    row.external_ids.get(CONTAINER).map(String::as_str)
}

const CONTAINER: &str = "fabric.container";
const IFNAME: &str = "fabric.ifname";
const NETNS: &str = "fabric.netns";
const CONFIGURATION: &str = "fabric.configuration";
const POD: &str = "fabric.pod";
const POD_UID: &str = "fabric.pod-uid";
const NETWORK: &str = "fabric.network";
const ZONE: &str = "fabric.zone";
const MAC: &str = "fabric.mac";
const MTU: &str = "fabric.mtu";
const ADDRESSES: &str = "fabric.addresses";
const FIXED: &str = "fabric.fixed";
const IPAM: &str = "fabric.ipam";
const GATEWAYS: &str = "fabric.gateways";
/// `PHYSICAL/VLAN`, or `PHYSICAL` without a tag; the slash is in no name.
const SEGMENT: &str = "fabric.segment";
const ON_LINK: &str = "fabric.on-link";
const MTU_ASKED: &str = "fabric.mtu-asked";
const RATE_OUT: &str = "fabric.rate-out";
const RATE_INTO: &str = "fabric.rate-into";

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn read_list<T: FromStr>(text: &str) -> Option<Vec<T>> {
    text.split(',').filter(|item| !item.is_empty()).map(|item| item.parse().ok()).collect()
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// What a row has under a key; `None` where that cannot be read.
fn given<T>(row: &PortRow, key: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    match row.external_ids.get(key) {
        Some(text) => read(text).map(Some),
        None => Some(None),
    }
}

fn segment_text(segment: &Segment) -> String {
    match segment.vlan {
        Some(vlan) => format!("{}/{vlan}", segment.physical),
        None => segment.physical.to_string(),
    }
}

fn read_segment(text: &str) -> Option<Segment> {
    let (physical, vlan) = match text.split_once('/') {
        Some((physical, vlan)) => (physical, Some(vlan.parse().ok()?)),
        None => (text, None),
    };
    Some(Segment { physical: physical.into(), vlan })
}

/// `owner` of the claims of an attachment.
pub(super) fn owner(key: &AttachmentKey) -> String {
    format!("{}/{}", key.container_id, key.ifname)
}

/// Name of the host's end: the same for the same attachment, always.
pub(super) fn host_name(key: &AttachmentKey) -> String {
    let id = stable_id(&[b"host", key.container_id.as_bytes(), key.ifname.as_bytes()]);
    format!("fab{:011x}", id & 0xfff_ffff_ffff)
}

/// A locally administered unicast address: the same for the same attachment, always.
fn made_mac(key: &AttachmentKey) -> Mac {
    let id = stable_id(&[b"mac", key.container_id.as_bytes(), key.ifname.as_bytes()]);
    let [_, _, _, a, b, c, d, e] = id.to_be_bytes();
    Mac([0x0e, a, b, c, d, e])
}

/// All attachments, with the local pods that have a port.
#[derive(Debug, Default)]
pub(super) struct Book {
    attachments: BTreeMap<AttachmentKey, Attachment>,
    pods: BTreeMap<u16, LocalPod>,
    ports: BTreeMap<u32, u16>,
    addresses: BTreeMap<IpAddr, u16>,
    zones: BTreeMap<u16, AttachmentKey>,
    host_names: BTreeMap<String, AttachmentKey>,
    last_zone: u16,
}

/// Highest conntrack zone that is used: meters are numbered after zones.
const LAST_ZONE: u16 = 32_000;

impl Book {
    pub fn get(&self, key: &AttachmentKey) -> Option<&Attachment> {
        self.attachments.get(key)
    }

    pub fn get_mut(&mut self, key: &AttachmentKey) -> Option<&mut Attachment> {
        self.attachments.get_mut(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Attachment> {
        self.attachments.values()
    }

    pub fn keys(&self) -> Vec<AttachmentKey> {
        self.attachments.keys().cloned().collect()
    }

    pub fn pods(&self) -> impl Iterator<Item = &LocalPod> {
        self.pods.values()
    }

    pub fn by_host_name(&self, name: &str) -> Option<&Attachment> {
        self.attachments.get(self.host_names.get(name)?)
    }

    pub fn holds(&self, owner_of_claim: &str) -> bool {
        owner_of_claim.split_once('/').is_some_and(|(container_id, ifname)| {
            let key = AttachmentKey { container_id: container_id.to_owned(), ifname: ifname.to_owned() };
            self.attachments.contains_key(&key)
        })
    }

    /// The next zone that nobody has, the longest unused first.
    pub fn free_zone(&mut self) -> Option<u16> {
        let after = self.last_zone;
        let zone = (after + 1..=LAST_ZONE).chain(1..=after).find(|z| !self.zones.contains_key(z))?;
        self.last_zone = zone;
        Some(zone)
    }

    pub fn insert(&mut self, attachment: Attachment) {
        self.zones.insert(attachment.zone, attachment.key.clone());
        self.host_names.insert(attachment.host_name.clone(), attachment.key.clone());
        self.last_zone = self.last_zone.max(attachment.zone);
        self.attachments.insert(attachment.key.clone(), attachment);
    }

    /// The attachment of a zone.
    pub fn of_zone(&self, zone: u16) -> Option<&AttachmentKey> {
        self.zones.get(&zone)
    }

    /// Notes the port that the switch gave to an attachment, which nobody else has any more; false if that was known.
    pub fn set_port(&mut self, key: &AttachmentKey, port: Option<u32>) -> bool {
        let Some(attachment) = self.attachments.get(key) else { return false };
        let zone = attachment.zone;
        let had = self.pods.get(&zone).map(|pod| pod.port);
        if had == port {
            return false;
        }
        let pod = |port| LocalPod {
            zone,
            port,
            mac: attachment.mac,
            addresses: attachment.addresses.clone(),
            leases: attachment.leases(),
            segment: attachment.segment.clone(),
            rates: attachment.rates,
            mtu: attachment.mtu,
            exits: attachment.exits.clone(),
        };
        let pod = port.map(pod);
        self.forget_pod(zone);
        if let Some(pod) = pod {
            self.ports.insert(pod.port, zone);
            for address in &pod.addresses {
                self.addresses.insert(*address, zone);
            }
            self.pods.insert(zone, pod);
        }
        true
    }

    /// An attachment with a port has its addresses, which it has waited for.
    pub fn set_addresses(&mut self, key: &AttachmentKey) {
        let port = self.attachments.get(key).and_then(|a| self.pods.get(&a.zone)).map(|pod| pod.port);
        self.set_port(key, None);
        self.set_port(key, port);
    }

    /// Gives an attachment another MTU.
    pub fn set_mtu(&mut self, key: &AttachmentKey, mtu: u32) {
        let Some(attachment) = self.attachments.get_mut(key) else { return };
        attachment.mtu = mtu;
        if let Some(pod) = self.pods.get_mut(&attachment.zone) {
            pod.mtu = mtu;
        }
    }

    /// Gives an attachment other limits.
    pub fn set_rates(&mut self, key: &AttachmentKey, rates: Rates) {
        let Some(attachment) = self.attachments.get_mut(key) else { return };
        attachment.rates = rates;
        if let Some(pod) = self.pods.get_mut(&attachment.zone) {
            pod.rates = rates;
        }
    }

    /// Has an attachment leave the cluster otherwise in some families.
    pub fn set_exits(&mut self, key: &AttachmentKey, exits: BTreeSet<Family>) {
        let Some(attachment) = self.attachments.get_mut(key) else { return };
        if let Some(pod) = self.pods.get_mut(&attachment.zone) {
            pod.exits.clone_from(&exits);
        }
        attachment.exits = exits;
    }

    fn forget_pod(&mut self, zone: u16) {
        let Some(pod) = self.pods.remove(&zone) else { return };
        if self.ports.get(&pod.port) == Some(&zone) {
            self.ports.remove(&pod.port);
        }
        for address in pod.addresses {
            if self.addresses.get(&address) == Some(&zone) {
                self.addresses.remove(&address);
            }
        }
    }

    pub fn remove(&mut self, key: &AttachmentKey) -> Option<Attachment> {
        let attachment = self.attachments.remove(key)?;
        self.forget_pod(attachment.zone);
        self.zones.remove(&attachment.zone);
        self.host_names.remove(&attachment.host_name);
        Some(attachment)
    }
}

impl Pods for Book {
    fn by_zone(&self, zone: u16) -> Option<&LocalPod> {
        self.pods.get(&zone)
    }

    fn by_port(&self, port: u32) -> Option<&LocalPod> {
        self.pods.get(self.ports.get(&port)?)
    }

    fn by_address(&self, address: IpAddr) -> Option<&LocalPod> {
        self.pods.get(self.addresses.get(&address)?)
    }
}
