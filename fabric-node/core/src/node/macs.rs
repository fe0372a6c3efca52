//! Hardware addresses that the runtime asks for (CNI capability `mac`): in one Network or VLAN no two are the same.
//!
//! Those that the agent makes differ by themselves. What pods of other nodes have is known from their claims.

use openflow::Mac;
use policy::{IpClaim, Network, PodIdent};

use super::book::Attachment;
use super::{AttachRequest, Node, RequestError};
use crate::pipeline::site::Segment;

impl Node {
    /// Whether the hardware address that is asked for, if one is, is nobody's where the container is to be.
    ///
    /// # Errors
    /// With the other's name: for the moment, where the other is an earlier sandbox of the pod, or is about to go.
    pub(super) fn mac_is_free(&self, request: &AttachRequest, network: &Network) -> Result<(), RequestError> {
        let Some(mac) = request.mac else { return Ok(()) };
        let segment = Segment::of(network);
        let meets = |other: &Attachment| {
            other.network == network.name || segment.is_some() && other.segment == segment
        };
        let here =
            self.book.iter().find(|other| other.key != request.key && other.mac == mac && meets(other));
        if let Some(other) = here {
            let who = format!("{} on this node", other.holder());
            let goes = other.is_leaving() || is_same_pod(request, other.pod.as_ref());
            return Err(taken(mac, &who, network, goes));
        }
        let meets = |claim: &IpClaim| {
            claim.network == network.name
                || segment.is_some() && self.world.network(&claim.network).and_then(Segment::of) == segment
        };
        let elsewhere = |claim: &&IpClaim| !claim.is_idle() && claim.node != self.config.node;
        let claim = self.world.claims().filter(elsewhere).find(|c| Mac(c.mac) == mac && meets(c));
        let Some(claim) = claim else { return Ok(()) };
        let who = match &claim.pod {
            Some(pod) => format!("pod {} on node {}", pod.reference(), claim.node),
            None => format!("container {} on node {}", claim.owner, claim.node),
        };
        Err(taken(mac, &who, network, is_same_pod(request, claim.pod.as_ref())))
    }
}

fn is_same_pod(request: &AttachRequest, other: Option<&PodIdent>) -> bool {
    let own = request.pod.as_ref();
    own.zip(other).is_some_and(|(own, other)| own.reference() == other.reference())
}

fn taken(mac: Mac, who: &str, network: &Network, goes: bool) -> RequestError {
    let what = format!("the MAC {mac} that is asked for in Network {} is that of {who}", network.name);
    if goes {
        return RequestError::TryAgain(format!("{what}, whose container is not gone yet"));
    }
    RequestError::Invalid(format!("{what}: ask for another one"))
}
