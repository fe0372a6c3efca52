//! Which addresses an attachment is to claim: those asked for, those kept for its pod, and one picked for each family
//! that is left.

use std::net::IpAddr;
use std::time::Instant;

use policy::{Family, IpRange, Network};

use super::{AttachRequest, Node, RequestError};

/// What is wanted for an attachment.
#[derive(Debug)]
pub(super) struct Wish {
    /// Addresses that may not be replaced by others.
    pub fixed: Vec<IpAddr>,
    /// Addresses that are kept for the pod.
    kept: Vec<IpAddr>,
    /// Ranges of the workload's own.
    ranges: Vec<IpRange>,
    /// Whether there are to be no other addresses than the fixed ones.
    exact: bool,
}

impl Node {
    /// What the pod's annotations, the runtime and an IPAM plugin want, for an attachment to a Network.
    pub(super) fn wish(&self, request: &AttachRequest, network: &Network) -> Result<Wish, RequestError> {
        let pod = request.pod.as_ref().and_then(|pod| self.world.pod(&pod.reference()));
        let annotated = pod.map(|pod| pod.annotations.fixed_ips.as_slice()).unwrap_or_default();
        let ranges = pod.map(|pod| pod.annotations.ip_ranges.clone()).unwrap_or_default();
        let wish = match &request.ipam {
            Some(plugin) => {
                if let Some(other) = annotated.iter().find(|ip| !request.ips.contains(ip)) {
                    return Err(RequestError::Invalid(format!(
                        "the pod asks for {other} (fabric.io/ip), but the IPAM plugin {plugin} gave {}: let one of \
                         them decide",
                        list(&request.ips)
                    )));
                }
                Wish { fixed: request.ips.clone(), kept: Vec::new(), ranges, exact: true }
            }
            None => {
                let fixed = if annotated.is_empty() { request.ips.as_slice() } else { annotated };
                let kept = pod.map(|pod| self.kept_addresses(pod, network, &ranges)).unwrap_or_default();
                Wish { fixed: fixed.to_vec(), kept, ranges, exact: false }
            }
        };
        let outside = wish.ranges.iter().find_map(|range| outside(range, network));
        match outside.filter(|_| !wish.exact) {
            Some(why) => Err(RequestError::NoAddress(format!("fabric.io/ip-range of the pod: {why}"))),
            None => fits(&wish.fixed, network).map(|()| wish),
        }
    }

    /// Chooses the addresses and holds them as asked for.
    pub(super) fn choose_addresses(
        &mut self,
        network: &Network,
        wish: &Wish,
        now: Instant,
    ) -> Result<Vec<IpAddr>, RequestError> {
        let mut chosen = Vec::new();
        for family in network.families() {
            let given = wish.fixed.iter().chain(&wish.kept).copied().find(|ip| Family::of(*ip) == family);
            let ip = match given {
                Some(ip) => Some(self.leases.hold(ip)),
                None if wish.exact => continue,
                None => self.leases.pick(network, &wish.ranges, family, &self.world, now),
            };
            match ip {
                Some(ip) => chosen.push(ip),
                None => {
                    chosen.iter().for_each(|ip| self.leases.settle(*ip));
                    return Err(self.full(network, &wish.ranges, family));
                }
            }
        }
        Ok(chosen)
    }
}

/// Why a range is of no use in a Network, where it has nothing in common with its prefixes.
pub(super) fn outside(range: &IpRange, network: &Network) -> Option<String> {
    let meets = network.cidrs.iter().any(|cidr| range.common(&IpRange::from(*cidr)).is_some());
    (!meets).then(|| format!("{range} is not in {}", prefixes(network)))
}

fn prefixes(network: &Network) -> String {
    let cidrs: Vec<String> = network.cidrs.iter().map(ToString::to_string).collect();
    format!("Network {} ({})", network.name, cidrs.join(", "))
}

/// Whether fixed addresses can be an attachment's.
fn fits(fixed: &[IpAddr], network: &Network) -> Result<(), RequestError> {
    if let Some(alien) = fixed.iter().find(|ip| !network.contains(**ip)) {
        return Err(RequestError::NoAddress(format!("address {alien} is not in {}", prefixes(network))));
    }
    let reserved = fixed.iter().find_map(|ip| Some((ip, network.reserved(*ip)?)));
    if let Some((ip, purpose)) = reserved {
        let what = format!("address {ip} is {purpose} of Network {}; ask for another", network.name);
        return Err(RequestError::NoAddress(what));
    }
    let of = |family| fixed.iter().filter(|ip| Family::of(**ip) == family).count();
    if Family::ALL.into_iter().any(|family| of(family) > 1) {
        let what =
            format!("{} are asked for: one address of each family is what an interface has", list(fixed));
        return Err(RequestError::Invalid(what));
    }
    Ok(())
}

fn list(ips: &[IpAddr]) -> String {
    ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}
