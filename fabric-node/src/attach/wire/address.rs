//! Addresses and routes for a pair that was made without.

use fabric_core::node::WireSpec;

use super::create::check_ipv6;
use super::{WireError, is_pair, place, request};
use crate::attach::netns::Netns;
use crate::attach::sysctl;
use crate::netlink::Netlink;

/// Gives the container's side of a pair its addresses and routes; what it has of them already stays. The calling thread
/// ends up in the container's namespace.
///
/// # Errors
/// Where an end of the pair is missing, or the kernel refuses; what was set until then stays.
pub fn address(spec: &WireSpec) -> Result<(), WireError> {
    let place = || place(&spec.ifname, &spec.netns);
    let failed = |cause: String| WireError::Failed { place: place(), cause };
    let io = |cause: std::io::Error| failed(cause.to_string());
    let netns = Netns::open(&spec.netns)?;
    check_ipv6(spec)?;
    let mut host = Netlink::open().map_err(io)?;
    let outside = host.link(&spec.host_name).map_err(io)?.filter(is_pair);
    outside.ok_or_else(|| failed(format!("the host's end {} is missing", spec.host_name)))?;
    netns.enter()?;
    let mut container = Netlink::open().map_err(io)?;
    let inside = container.link(&spec.ifname).map_err(io)?;
    let index = inside.ok_or_else(|| failed("the interface is missing".to_owned()))?.header.index;
    if spec.addresses.iter().any(|address| address.addr().is_ipv6()) {
        sysctl::write(&spec.ifname, &sysctl::IPV6_ON).map_err(failed)?;
    }
    container.apply(request::inside(spec, index)).map_err(|source| WireError::Step { place: place(), source })
}
