//! The hands: the pair of devices that joins a container to the switch.
//!
//! These functions block for as long as the kernel works, and leave their thread in
//! the container's namespace: each call has a thread of its own, which ends with it.

mod address;
mod check;
mod create;
mod request;
mod resize;

pub use address::address;
pub use check::{Observed, check, observe};
pub use create::create;
pub use resize::resize;

use nix::errno::Errno;
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};

use super::netns::NetnsError;
use crate::netlink::{Netlink, StepError};

/// Why the pair is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The container's namespace cannot be entered.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The kernel refused a step.
    #[error("{place}: {source}")]
    Step {
        /// Which interface, and where.
        place: String,
        /// The step, and what the kernel said.
        source: StepError,
    },
    /// The name is in use by something that Fabric did not make.
    #[error(
        "{place}: the name is in use by an interface that Fabric did not make; remove it, or ask for another name"
    )]
    Taken {
        /// Which interface, and where.
        place: String,
    },
    /// Anything else that failed.
    #[error("{place}: {cause}")]
    Failed {
        /// Which interface, and where.
        place: String,
        /// What failed.
        cause: String,
    },
    /// The container's side differs from what it should be.
    #[error("{place}: {}", .differences.join("; "))]
    Differs {
        /// Which interface, and where.
        place: String,
        /// One sentence a difference.
        differences: Vec<String>,
    },
}

/// Removes the pair by its host's end; one that is gone is no error. Only a pair is removed, whatever has the name.
pub fn remove(host_name: &str) -> Result<(), WireError> {
    let failed =
        |cause: std::io::Error| WireError::Failed { place: host_name.to_owned(), cause: cause.to_string() };
    let mut host = Netlink::open().map_err(failed)?;
    remove_with(&mut host, host_name)
}

fn remove_with(host: &mut Netlink, host_name: &str) -> Result<(), WireError> {
    let place = || host_name.to_owned();
    let link = host
        .link(host_name)
        .map_err(|cause| WireError::Failed { place: place(), cause: cause.to_string() })?;
    let Some(link) = link else { return Ok(()) };
    if !is_pair(&link) {
        return Err(WireError::Taken { place: place() });
    }
    match host.apply(vec![request::delete(host_name)]) {
        Err(error) if !error.is(Errno::ENODEV) => Err(WireError::Step { place: place(), source: error }),
        _ => Ok(()),
    }
}

fn is_pair(link: &LinkMessage) -> bool {
    link.attributes.iter().any(|attribute| {
        matches!(attribute, LinkAttribute::LinkInfo(infos)
            if infos.iter().any(|info| matches!(info, LinkInfo::Kind(InfoKind::Veth))))
    })
}

fn place(ifname: &str, netns: &str) -> String {
    format!("{ifname} in {netns}")
}
