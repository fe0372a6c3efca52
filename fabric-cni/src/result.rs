//! Results of ADD in the shape of each version (CNI 1.1.0, section 5, "ADD Success";
//! 0.4.0 and 0.3.1, "Result").
//!
//! Inside a chain the result of the earlier plugins is carried on with whatever it
//! holds; Fabric's interfaces, addresses and routes are added behind it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::address::{Cidr, Mac};
use crate::env::Target;
use crate::error::{Code, Error};
use crate::protocol::Attached;
use crate::version::Version;

/// What ADD returns, and `prevResult` carries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Success {
    /// The version of the request.
    #[serde(default)]
    pub cni_version: String,
    /// Interfaces, on the host and in the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Interface>,
    /// Addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<IpConfig>,
    /// Routes in the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// What `resolv.conf` is to say.
    #[serde(default, skip_serializing_if = "Dns::is_empty")]
    pub dns: Dns,
    /// What other plugins put there.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its hardware address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Its MTU, bytes; since 1.1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Path of its network namespace; none on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// What other plugins put there.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// An address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IpConfig {
    /// `4` or `6`; until 0.4.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The address with its prefix length.
    pub address: Cidr,
    /// The default gateway of this subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// Index into [`Success::interfaces`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<usize>,
    /// What other plugins put there.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Destination.
    pub dst: Cidr,
    /// Next hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gw: Option<IpAddr>,
    /// What other plugins put there.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// How names are looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    /// Addresses of name servers, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// The local domain.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Search domains, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// Options of the resolver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl Dns {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Dns::default()
    }
}

/// The result of ADD: what the earlier plugins made, and then the attachment.
pub fn of_add(
    version: Version,
    previous: Option<Success>,
    target: &Target,
    attached: &Attached,
    dns: Dns,
) -> Success {
    let mut result = previous.unwrap_or_default();
    result.cni_version = version.as_str().to_owned();
    result.interfaces.push(Interface { name: attached.host_name.clone(), ..Interface::default() });
    let inside = result.interfaces.len();
    result.interfaces.push(Interface {
        name: target.ifname.clone(),
        mac: Some(attached.mac.to_string()),
        mtu: Some(attached.mtu),
        sandbox: target.netns.clone(),
        other: Map::new(),
    });
    let gateway_of = |address: IpAddr| {
        attached.gateways.iter().copied().find(|gateway| gateway.is_ipv4() == address.is_ipv4())
    };
    result.ips.extend(attached.addresses.iter().map(|cidr| IpConfig {
        version: None,
        address: *cidr,
        gateway: gateway_of(cidr.address),
        interface: Some(inside),
        other: Map::new(),
    }));
    let defaults = attached.gateways.iter().map(|gateway| Route {
        dst: Cidr::default_route(*gateway),
        gw: Some(*gateway),
        other: Map::new(),
    });
    result.routes.extend(defaults);
    if result.dns.is_empty() {
        result.dns = dns;
    }
    shape(version, &mut result);
    result
}

/// Adds the routes that an IPAM plugin gave: everything leaves the container by the gateways of its Network, so the next
/// hop of a route has to be one of these, or not to be given.
pub fn add_routes(result: &mut Success, given: &Success, attached: &Attached) -> Result<(), Error> {
    for route in &given.routes {
        if let Some(gateway) = route.gw.filter(|gateway| !attached.gateways.contains(gateway)) {
            let known: Vec<String> = attached.gateways.iter().map(ToString::to_string).collect();
            let details = format!(
                "ipam: the route to {} has the next hop {gateway}, but the container's are {}: leave `gw` out, or let \
                 the Network have that gateway",
                route.dst,
                known.join(" and ")
            );
            return Err(Error::new(Code::UNSUPPORTED_FIELD, details));
        }
        if !result.routes.iter().any(|known| known.dst == route.dst) {
            result.routes.push(route.clone());
        }
    }
    Ok(())
}

/// Writes and leaves out what differs among the versions.
fn shape(version: Version, result: &mut Success) {
    for ip in &mut result.ips {
        let family = if ip.address.address.is_ipv4() { "4" } else { "6" };
        ip.version = (version < Version::V1_0_0).then(|| family.to_owned());
    }
    if version < Version::V1_1_0 {
        for interface in &mut result.interfaces {
            interface.mtu = None;
        }
    }
}

/// Refuses an ADD whose interface an earlier plugin of the chain made.
pub fn check_free(previous: &Success, target: &Target) -> Result<(), Error> {
    match inside(previous, target) {
        None => Ok(()),
        Some(_) => Err(Error::new(
            Code::CONFIG,
            format!(
                "prevResult: an earlier plugin of the chain made {} in {} already: Fabric makes an interface \
                 of its own, so it goes first in the chain, or alone under that name",
                target.ifname,
                target.netns.as_deref().unwrap_or_default()
            ),
        )),
    }
}

/// What CHECK expects of the container's interface: hardware address and addresses, as ADD returned them.
pub fn expected(previous: &Success, target: &Target) -> Result<(Option<Mac>, Vec<Cidr>), Error> {
    let Some((index, interface)) = inside(previous, target) else {
        let netns = target.netns.as_deref().unwrap_or_default();
        let details = format!("prevResult: there is no interface {} in sandbox {netns}", target.ifname);
        return Err(Error::new(Code::CONFIG, details));
    };
    let mac = interface.mac.as_deref().filter(|text| !text.is_empty()).map(str::parse).transpose();
    let mac = mac.map_err(|cause| Error::new(Code::CONFIG, format!("prevResult: {cause}")))?;
    let ours = previous.ips.iter().filter(|ip| ip.interface == Some(index));
    Ok((mac, ours.map(|ip| ip.address).collect()))
}

/// Name of the host's end, where `previous` names it: the interface before the container's.
pub fn host_end<'a>(previous: &'a Success, target: &Target) -> Option<&'a str> {
    let (index, _) = inside(previous, target)?;
    let host = previous.interfaces.get(index.checked_sub(1)?)?;
    host.sandbox.as_deref().unwrap_or_default().is_empty().then_some(host.name.as_str())
}

/// The container's interface, with its index. DEL may come without a namespace: then the name must do.
fn inside<'a>(previous: &'a Success, target: &Target) -> Option<(usize, &'a Interface)> {
    previous.interfaces.iter().enumerate().find(|(_, interface)| {
        let sandbox = interface.sandbox.as_deref().filter(|path| !path.is_empty());
        let here = sandbox.is_some() && (target.netns.is_none() || sandbox == target.netns.as_deref());
        interface.name == target.ifname && here
    })
}

#[cfg(test)]
mod tests;
