//! Making the pair.

use fabric_core::node::WireSpec;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;

use super::{WireError, place, remove_with, request};
use crate::attach::netns::Netns;
use crate::attach::{ethtool, sysctl};
use crate::netlink::{Netlink, StepError};

/// RFC 8200, section 5; bytes.
pub(super) const IPV6_LEAST_MTU: u32 = 1280;

/// Makes the pair and sets the container's side up. What an earlier try left under the
/// same host's name is replaced; after a failure nothing is left. The calling thread
/// ends up in the container's namespace.
pub fn create(spec: &WireSpec) -> Result<(), WireError> {
    let netns = Netns::open(&spec.netns)?;
    check_ipv6(spec)?;
    let mut host = Netlink::open().map_err(|cause| failed(spec, cause.to_string()))?;
    make_pair(spec, &netns, &mut host)?;
    let outcome = set_up(spec, &netns, &mut host);
    if outcome.is_err()
        && let Err(error) = remove_with(&mut host, &spec.host_name)
    {
        tracing::warn!(device = spec.host_name, %error, "a pair that was not finished stays behind");
    }
    outcome
}

/// What the kernel would refuse with an error number only.
pub(super) fn check_ipv6(spec: &WireSpec) -> Result<(), WireError> {
    if !spec.addresses.iter().any(|address| address.addr().is_ipv6()) {
        return Ok(());
    }
    if !sysctl::has_ipv6() {
        let cause = "an IPv6 address is wanted, and IPv6 is switched off in this node's kernel \
                     (ipv6.disable=1 on its command line)";
        return Err(failed(spec, cause.to_owned()));
    }
    if spec.mtu < IPV6_LEAST_MTU {
        let cause =
            format!("an IPv6 address needs an MTU of {IPV6_LEAST_MTU} at least (RFC 8200), not {}", spec.mtu);
        return Err(failed(spec, cause));
    }
    Ok(())
}

/// The kernel makes both ends or none. A name that is taken may be a leftover of an earlier try for the same
/// attachment: then it goes with its host's end.
fn make_pair(spec: &WireSpec, netns: &Netns, host: &mut Netlink) -> Result<(), WireError> {
    match host.apply(vec![request::create(spec, netns)]) {
        Ok(()) => return Ok(()),
        Err(error) if error.is(Errno::EEXIST) => {}
        Err(error) => {
            // A namespace of another kind is refused without a word: entering it tells.
            netns.enter()?;
            return Err(step(spec, error));
        }
    }
    remove_with(host, &spec.host_name)?;
    host.apply(vec![request::create(spec, netns)]).map_err(|error| match error.is(Errno::EEXIST) {
        true => WireError::Taken { place: place(&spec.ifname, &spec.netns) },
        false => step(spec, error),
    })
}

fn set_up(spec: &WireSpec, netns: &Netns, host: &mut Netlink) -> Result<(), WireError> {
    let written = |outcome: Result<(), String>| outcome.map_err(|cause| failed(spec, cause));
    written(sysctl::write(&spec.host_name, &sysctl::HOST))?;
    host.apply(vec![request::host_up(&spec.host_name)]).map_err(|error| step(spec, error))?;
    netns.enter()?;
    let index = if_nametoindex(spec.ifname.as_str()).map_err(|cause| failed(spec, cause.to_string()))?;
    written(sysctl::write(&spec.ifname, &sysctl::CONTAINER))?;
    if spec.addresses.iter().any(|address| address.addr().is_ipv6()) {
        written(sysctl::write(&spec.ifname, &sysctl::IPV6_ON))?;
    }
    if spec.software_checksums {
        ethtool::compute_checksums(index)
            .map_err(|cause| failed(spec, format!("cannot switch checksum offload off: {cause}")))?;
    }
    let mut container = Netlink::open().map_err(|cause| failed(spec, cause.to_string()))?;
    container.apply(request::inside(spec, index)).map_err(|error| step(spec, error))
}

fn failed(spec: &WireSpec, cause: String) -> WireError {
    WireError::Failed { place: place(&spec.ifname, &spec.netns), cause }
}

fn step(spec: &WireSpec, source: StepError) -> WireError {
    WireError::Step { place: place(&spec.ifname, &spec.netns), source }
}
