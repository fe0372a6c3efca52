//! IPClaims and Traces. A claim with anything wrong is refused as a whole.

use super::values::{boolean, ip, name, object_name, port, protocol, string, timestamp};
use super::walk::{At, Read};
use crate::address::{Family, parse_mac};
use crate::name::{Name, PodRef};
use crate::object::{EGRESS, IpClaim, PodIdent, Trace, claim_name};

pub(super) fn claim(root: &At<'_>, own: &Name) -> Read<IpClaim> {
    root.need("spec", |spec| {
        let known = spec.only(&["ip", "network", "mac", "node", "pod", "owner", "retain", "since"]);
        let ip = spec.need("ip", |at| {
            let ip = ip(at)?;
            let wanted = claim_name(ip);
            if *own == wanted.as_str() {
                Ok(ip)
            } else {
                Err(at.fail(format!("the claim of {ip} must be named {wanted}")))
            }
        });
        let owner = spec.need("owner", string);
        // An egress address is of no Network, and no container's.
        let is_egress = owner.as_ref().is_ok_and(|owner| owner == EGRESS);
        let mac = |at: &At<'_>| at.parsed("a MAC address such as 02:00:0a:f4:01:05", parse_mac);
        let (network, mac) = match is_egress {
            true => (Ok(Name::default()), Ok(Default::default())),
            false => (spec.need("network", object_name), spec.need("mac", mac)),
        };
        let node = spec.need("node", object_name);
        let pod = match is_egress {
            true => spec.optional("pod", |at| Err(at.fail("an egress address is no pod's"))),
            false => spec.optional("pod", pod),
        };
        let since = spec.optional("since", timestamp);
        let retain = spec.optional("retain", boolean);
        known?;
        Ok(IpClaim {
            ip: ip?,
            network: network?,
            mac: mac?,
            node: node?,
            pod: pod?,
            owner: owner?,
            retain: retain?.unwrap_or(false),
            since: since?,
        })
    })
}

fn pod(at: &At<'_>) -> Read<PodIdent> {
    let known = at.only(&["namespace", "name", "uid"]);
    let (namespace, own) = (at.need("namespace", object_name), at.need("name", object_name));
    let uid = at.optional("uid", name);
    known?;
    Ok(PodIdent { namespace: namespace?, name: own?, uid: uid?.unwrap_or_default() })
}

pub(super) fn trace(root: &At<'_>, own: Name) -> Read<Trace> {
    root.need("spec", |spec| {
        let known = spec.only(&["from", "to", "protocol", "port", "family"]);
        let from =
            spec.need("from", |at| at.parsed("a pod as NAMESPACE/NAME", |text| text.parse::<PodRef>().ok()));
        let to = spec.need("to", string);
        let protocol = spec.optional("protocol", protocol);
        let number = spec.optional("port", port);
        let family = spec.optional("family", |at| at.one_of(&[("IPv4", Family::V4), ("IPv6", Family::V6)]));
        known?;
        let (protocol, port) = (protocol?, number?);
        match (protocol, port) {
            (None, Some(_)) => {
                return Err(spec.fail("a port is given without a protocol: name TCP, UDP or SCTP"));
            }
            (Some(_), None) => return Err(spec.fail("a protocol is given without a port")),
            _ => {}
        }
        Ok(Trace { name: own, from: from?, to: to?, protocol, port, family: family? })
    })
}
