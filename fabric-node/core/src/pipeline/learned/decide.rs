//! One query to one flow.

use super::decision::Decision;
use super::exits::{exit, returned};
use super::verdict::{egress, ended, ingress, peer, related};
use super::ways::{gate, route, tunnel_source, vacant, wire};
use super::{Context, Pods, Query};

/// Answers a query; `None` where nothing can be said: the pod is gone, the address is delivered by static flows, or
/// there is no flow that would take such packets and no others.
#[must_use]
pub fn decide<P: Pods>(query: &Query, context: &Context<'_, P>) -> Option<Decision> {
    match query {
        Query::TunnelSource { tunnel, source } => Some(tunnel_source(*tunnel, *source, context)),
        Query::Egress { zone, question, part } => egress(*zone, question, *part, context),
        Query::Ingress { zone, question, part } => ingress(*zone, question, *part, context),
        Query::Peer { zone, question, part } => peer(*zone, question, *part, context),
        Query::Route { destination } => route(*destination, context),
        Query::Exit { source, destination, by_tunnel } => exit(*source, *destination, *by_tunnel, context),
        Query::Return { tunnel, source, pod } => returned(*tunnel, *source, *pod, context),
        Query::Wire { segment, destination } => wire(*segment, *destination, context),
        Query::Gate { destination } => gate(*destination, context),
        Query::Vacant { port, destination } => vacant(*port, *destination, context),
        Query::Related { zone, direction } => related(*zone, *direction, context),
        Query::Ended { zone, question, source_port } => ended(*zone, question, *source_port, context),
    }
}
