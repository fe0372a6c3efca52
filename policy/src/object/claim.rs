//! IPClaims: the lock on an address, and where it lives.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use crate::address::{Mac, format_mac};
use crate::name::{Kind, Name, PodRef};
use crate::timestamp::Timestamp;

/// Owner of the claim of an egress address: no container's, whose owners have a `/`.
pub const EGRESS: &str = "egress";

/// A claimed address. The object's name follows from the address, so that an address has one claim at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpClaim {
    /// The address.
    pub ip: IpAddr,
    /// The Network it is taken from; empty for an egress address, which is of none.
    pub network: Name,
    /// The hardware address that answers for it; zero for an egress address: its node's interface does.
    pub mac: Mac,
    /// The node it lives on.
    pub node: Name,
    /// The pod it belongs to; None for a container that no pod is known for.
    pub pod: Option<PodIdent>,
    /// `CONTAINERID/IFNAME`; empty while a retained claim waits for the successor of its pod; [`EGRESS`] for an egress
    /// address.
    pub owner: String,
    /// Whether it stays when the pod goes, for the pod's successor of the same name.
    pub retain: bool,
    /// Since when the owner has it; without an owner, since when it waits; of an egress address, when its node last said
    /// that it is there.
    pub since: Option<Timestamp>,
}

impl IpClaim {
    /// The claim of a node for an egress address, as of a moment.
    pub fn for_egress(ip: IpAddr, node: Name, at: Timestamp) -> IpClaim {
        IpClaim {
            ip,
            network: Name::default(),
            mac: Mac::default(),
            node,
            pod: None,
            owner: EGRESS.to_owned(),
            retain: false,
            since: Some(at),
        }
    }

    /// Whether a node holds the address for what leaves the cluster (`fabric.io/egress-ip`): it is no container's.
    pub fn is_egress(&self) -> bool {
        self.owner == EGRESS
    }

    /// Whether it waits for the successor of its pod: nobody has the address, and nobody else gets it.
    pub fn is_idle(&self) -> bool {
        self.owner.is_empty()
    }

    /// Whoever has the address, in words.
    pub fn holder(&self) -> String {
        match &self.pod {
            Some(pod) if self.is_idle() => format!("kept for pod {}", pod.reference()),
            Some(pod) => format!("held by pod {} on node {}", pod.reference(), self.node),
            None if self.is_egress() => format!("an egress address on node {}", self.node),
            None => format!("held by container {} on node {}", self.owner, self.node),
        }
    }
}

/// One pod, told apart from others of the same name by its uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIdent {
    /// The pod's namespace.
    pub namespace: Name,
    /// The pod's name.
    pub name: Name,
    /// `metadata.uid`; empty where it was not known when the address was claimed.
    pub uid: Name,
}

impl PodIdent {
    /// Namespace and name.
    pub fn reference(&self) -> PodRef {
        PodRef { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// Whether a pod of this name with that uid is this one; an unknown uid on either side is not held
    /// against it.
    pub fn is_uid(&self, uid: &str) -> bool {
        self.uid.is_empty() || uid.is_empty() || self.uid.as_str() == uid
    }
}

/// The name of an address's claim: the address in hexadecimal, 8 digits for IPv4 (`0af40105`), 32 for IPv6.
pub fn claim_name(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(v4) => format!("{:08x}", u32::from(v4)),
        IpAddr::V6(v6) => format!("{:032x}", u128::from(v6)),
    }
}

/// The address of a claim by its name: the inverse of [`claim_name`], None for any other text.
pub fn claim_address(name: &str) -> Option<IpAddr> {
    if !name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    match name.len() {
        8 => u32::from_str_radix(name, 16).ok().map(|n| IpAddr::V4(Ipv4Addr::from(n))),
        32 => u128::from_str_radix(name, 16).ok().map(|n| IpAddr::V6(Ipv6Addr::from(n))),
        _ => None,
    }
}

/// The manifest of a claim, as stores write it and [`crate::manifest::admit`] reads it.
pub fn to_manifest(claim: &IpClaim) -> Value {
    let IpClaim { ip, network, mac, node, pod, owner, retain, since } = claim;
    let mut spec = json!({ "ip": ip.to_string(), "node": node.as_str(), "owner": owner });
    if let Some(fields) = spec.as_object_mut().filter(|_| !claim.is_egress()) {
        fields.insert("network".to_owned(), network.as_str().into());
        fields.insert("mac".to_owned(), format_mac(*mac).into());
        fields.insert("retain".to_owned(), (*retain).into());
    }
    if let (Some(PodIdent { namespace, name, uid }), Some(fields)) = (pod, spec.as_object_mut()) {
        let pod = json!({"namespace": namespace.as_str(), "name": name.as_str(), "uid": uid.as_str()});
        fields.insert("pod".to_owned(), pod);
    }
    if let (Some(since), Some(fields)) = (since, spec.as_object_mut()) {
        fields.insert("since".to_owned(), since.to_string().into());
    }
    json!({
        "apiVersion": Kind::IpClaim.api_version(),
        "kind": Kind::IpClaim.as_str(),
        "metadata": {"name": claim_name(*ip)},
        "spec": spec,
    })
}
