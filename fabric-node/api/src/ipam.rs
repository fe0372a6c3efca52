//! Addresses: how many there are, and who has which.

use std::net::IpAddr;

use policy::{Family, World};
use serde::{Deserialize, Serialize};

/// Most claims on a page.
pub const CLAIMS_MOST: usize = 1_000;

/// The answer to `GET /v1/ipam`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ipam {
    /// By Network and family.
    pub pools: Vec<Pool>,
}

/// The addresses of one family of a Network.
///
/// A number of 2^64 or more is given as 2^64 - 1. What is pending, resting and disputed is so on the node that is asked, all
/// else in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// The Network.
    pub network: String,
    /// 4 or 6.
    pub family: u8,
    /// Addresses to hand out in all; 0 where the Network is not in force.
    pub size: u64,
    /// Addresses that containers have.
    pub claimed: u64,
    /// Addresses that are kept for the successors of pods that are away.
    pub retained: u64,
    /// Addresses whose claims are being made.
    pub pending: u64,
    /// Addresses given back a moment ago.
    pub resting: u64,
    /// Addresses that two containers say are theirs; the problems of the status name them.
    pub disputed: u64,
    /// Addresses to hand out that are none of the above.
    pub free: u64,
}

impl Pool {
    /// Every state of an address with its number, in a fixed order.
    #[must_use]
    pub fn by_state(&self) -> [(&'static str, u64); 6] {
        [
            ("claimed", self.claimed),
            ("retained", self.retained),
            ("pending", self.pending),
            ("resting", self.resting),
            ("disputed", self.disputed),
            ("free", self.free),
        ]
    }
}

/// A page of the answer to `GET /v1/claims`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimsPage {
    /// In the order of their addresses, IPv4 first.
    pub claims: Vec<Claim>,
    /// Where there are more: what `after` has to be for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<IpAddr>,
}

/// An address that is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The address.
    pub ip: IpAddr,
    /// Its Network; empty for an egress address.
    pub network: String,
    /// The pod, `NAMESPACE/NAME`, where the runtime named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The node that it lives on, or that keeps it.
    pub node: String,
    /// `CONTAINERID/IFNAME`; empty while it is kept for the pod's successor; `egress` for an egress address, which a node
    /// holds.
    pub owner: String,
    /// Since when the owner has it, or since when it is kept; of an egress address, when it was last renewed (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Whether it is kept when the pod goes, for the pod's successor of the same name.
    pub retain: bool,
}

/// The claims behind `after`, as many as a page holds.
#[must_use]
pub fn claims(world: &World, after: Option<IpAddr>) -> ClaimsPage {
    let mut egress = world.egress_claims().peekable();
    let mut containers = world.claims().peekable();
    // Both are in order, and no address is in both.
    let all = std::iter::from_fn(|| match (containers.peek(), egress.peek()) {
        (Some(container), Some(other)) if other.ip < container.ip => egress.next(),
        (Some(_), _) => containers.next(),
        (None, _) => egress.next(),
    });
    let mut behind = all.skip_while(|claim| after.is_some_and(|after| claim.ip <= after));
    let listed = |claim: &policy::IpClaim| Claim {
        ip: claim.ip,
        network: claim.network.to_string(),
        pod: claim.pod.as_ref().map(|pod| pod.reference().to_string()),
        node: claim.node.to_string(),
        owner: claim.owner.clone(),
        since: claim.since.map(|since| since.to_string()),
        retain: claim.retain,
    };
    let claims: Vec<_> = behind.by_ref().take(CLAIMS_MOST).map(listed).collect();
    let next = behind.next().and_then(|_| claims.last()).map(|last| last.ip);
    ClaimsPage { claims, next }
}

/// The number of a family, as the interface has it.
#[must_use]
pub fn number(family: Family) -> u8 {
    match family {
        Family::V4 => 4,
        Family::V6 => 6,
    }
}
