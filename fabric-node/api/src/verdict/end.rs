//! The ends of a conversation, and the addresses that they have.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use policy::{Family, Pod, PodRef, Resident, World};
use serde::{Deserialize, Serialize};

/// One end of a conversation. Its text is `NAMESPACE/NAME` of a pod, or an address; an address that a running
/// pod has means that pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum End {
    /// A pod by its name.
    Pod(PodRef),
    /// Whoever has an address.
    Address(IpAddr),
}

/// The text names no end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is neither a pod nor an address: NAMESPACE/NAME, 10.0.0.1 or fd00::1 is wanted")]
pub struct ParseEndError(pub String);

impl FromStr for End {
    type Err = ParseEndError;

    fn from_str(text: &str) -> Result<End, ParseEndError> {
        let pod = text.parse().map(End::Pod).ok();
        pod.or_else(|| text.parse().map(End::Address).ok()).ok_or_else(|| ParseEndError(text.to_owned()))
    }
}

impl TryFrom<String> for End {
    type Error = ParseEndError;

    fn try_from(text: String) -> Result<End, ParseEndError> {
        text.parse()
    }
}

impl From<End> for String {
    fn from(end: End) -> String {
        end.to_string()
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Pod(pod) => f.pad(&pod.to_string()),
            End::Address(address) => f.pad(&address.to_string()),
        }
    }
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No such pod.
    #[error("there is no pod {0}")]
    UnknownPod(PodRef),
    /// The pod has ended.
    #[error("pod {0} has finished and has no address any more")]
    Finished(PodRef),
    /// Nothing gives the pod an address.
    #[error(
        "pod {0} has no address: neither a claim nor, once spec.nodeName is set, status.podIPs gives it one"
    )]
    NoAddress(PodRef),
    /// The ends have no family of addresses in common.
    #[error("{from} and {to} {}: they cannot talk", lacking(*family))]
    NoFamily {
        /// One end.
        from: End,
        /// The other.
        to: End,
        /// The family that was asked for.
        family: Option<Family>,
    },
    /// More was asked at once than is answered at once.
    #[error("{asked} conversations in one question: at most {most} are answered at once")]
    TooMany {
        /// How many were asked.
        asked: usize,
        /// How many may be.
        most: usize,
    },
}

fn lacking(family: Option<Family>) -> &'static str {
    match family {
        None => "have no addresses of the same family",
        Some(Family::V4) => "do not both have an IPv4 address",
        Some(Family::V6) => "do not both have an IPv6 address",
    }
}

/// The addresses at which a pod is asked, in order: those of its claims and of its status that are its own. A
/// pod of the host's network has those of its node. None where the pod has finished.
pub fn addresses(world: &World, pod: &Pod) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = if pod.finished {
        Vec::new()
    } else if pod.host_network {
        let node = pod.node.as_ref().and_then(|node| world.node(node));
        if pod.ips.is_empty() {
            node.map(|node| node.addresses.clone()).unwrap_or_default()
        } else {
            pod.ips.clone()
        }
    } else {
        let claimed = world.claims_of(&pod.reference).map(|claim| claim.ip);
        claimed.chain(pod.ips.iter().copied()).filter(|ip| is_of(world, *ip, pod)).collect()
    };
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether an address that is said to be the pod's is; where the pod's namespace is not known, nobody can tell.
fn is_of(world: &World, ip: IpAddr, pod: &Pod) -> bool {
    match world.resident(ip) {
        Resident::Pod(resident, _) => resident.reference == pod.reference,
        Resident::Unknown => world.namespace(&pod.reference.namespace).is_none(),
        _ => false,
    }
}

/// The addresses at which two ends meet: of the family that is wanted, else of the first that both have.
pub fn meet(from: &[IpAddr], to: &[IpAddr], family: Option<Family>) -> Option<(IpAddr, IpAddr)> {
    let first = |of: &[IpAddr], family| of.iter().copied().find(|ip| Family::of(*ip) == family);
    let wanted = Family::ALL.into_iter().filter(|known| family.is_none_or(|family| family == *known));
    wanted.into_iter().find_map(|family| Some((first(from, family)?, first(to, family)?)))
}

impl End {
    /// The addresses at which the end is asked, at least one.
    ///
    /// # Errors
    /// Where it names a pod that is not there, has finished or has no address.
    pub fn addresses(&self, world: &World) -> Result<Vec<IpAddr>, AskError> {
        let reference = match self {
            End::Address(address) => return Ok(vec![*address]),
            End::Pod(reference) => reference,
        };
        let pod = world.pod(reference).ok_or_else(|| AskError::UnknownPod(reference.clone()))?;
        if pod.finished {
            return Err(AskError::Finished(reference.clone()));
        }
        let found = addresses(world, pod);
        if found.is_empty() { Err(AskError::NoAddress(reference.clone())) } else { Ok(found) }
    }
}
