//! A path between two nodes of a lab that leads by two routers, whose link can be made narrower while it is in use.
//!
//! ```text
//!  n1 -- wire (192.168.77.254) ==== link ==== router (192.168.77.253) -- n2
//! ```
//! The namespace of the wire becomes the first router: n2's end of the wire is taken off the bridge and given to the
//! second, a namespace of the lab's own. Nodes keep their addresses and find each other by host routes.

use crate::lab::command::command;
use crate::lab::node::{BRIDGE_PHYSICAL, OUTSIDE, ROUTER, addresses};
use crate::lab::wire::{MTU, plain_checksums, quiet};
use crate::lab::{Lab, LabError, netns};

/// The link's end in either router, and its addresses.
const LINK: &str = "middle";
const ENDS: [&str; 2] = ["10.99.0.1", "10.99.0.2"];

/// The routers between `n1` and `n2`, `n1`'s first.
#[derive(Debug, Clone)]
pub struct Passage {
    routers: [String; 2],
}

impl Passage {
    /// Lays the path in a lab without an office. It goes with the lab.
    ///
    /// # Errors
    /// With what the system refused.
    pub fn lay(lab: &Lab) -> Result<Passage, LabError> {
        let [near, far] = [lab.layout().name.wire(), lab.layout().name.office("router")];
        let [n1, n2] = [lab.node("n1")?, lab.node("n2")?];
        netns::add([far.as_str()])?;
        quiet(&far)?;
        let [[one, _], [two, _]] = [n1.addresses(), n2.addresses()];
        let [[hop1, _], [hop2, _]] = [addresses(OUTSIDE), addresses(ROUTER)];
        let [end1, end2] = ENDS;
        let end = &n2.name;
        netns::batch(
            &near,
            &format!(
                "link set {end} nomaster\nlink set {end} netns {far}\n\
                 link add {LINK} mtu {MTU} type veth peer name {LINK} mtu {MTU} netns {far}\n\
                 addr add {end1}/30 dev {LINK}\nlink set {LINK} up\nroute add {two}/32 via {end2}\n"
            ),
        )?;
        netns::batch(
            &far,
            &format!(
                "link set lo up\naddr add {end2}/30 dev {LINK}\nlink set {LINK} up\n\
                 addr add {hop2}/32 dev {end}\nlink set {end} up\nroute add {two}/32 dev {end}\n\
                 route add {one}/32 via {end1}\n"
            ),
        )?;
        for (node, other, hop) in [(n1, two, hop1), (n2, one, hop2)] {
            let route = format!("route add {other}/32 via {hop} dev {BRIDGE_PHYSICAL} onlink\n");
            netns::batch(&node.namespace, &route)?;
        }
        for (router, device) in [(&near, LINK), (&far, LINK), (&far, end.as_str())] {
            plain_checksums(router, device)?;
        }
        Ok(Passage { routers: [near, far] })
    }

    /// Gives the link another MTU, bytes.
    ///
    /// # Errors
    /// With what the system refused.
    pub fn narrow(&self, mtu: u32) -> Result<(), LabError> {
        self.routers
            .iter()
            .try_for_each(|router| netns::batch(router, &format!("link set {LINK} mtu {mtu}\n")))
    }

    /// Has the routers say nothing of packets that do not fit, or say it again.
    ///
    /// # Errors
    /// With what `nft` said.
    pub fn mute(&self, mute: bool) -> Result<(), LabError> {
        let rules: &[&str] = match mute {
            true => &[
                "add table ip mute",
                "add chain ip mute out { type filter hook output priority 0 ; }",
                "add rule ip mute out icmp type destination-unreachable drop",
            ],
            false => &["delete table ip mute"],
        };
        for router in &self.routers {
            for rule in rules {
                netns::run_in(router, command(["nft"]).args(rule.split(' ')))?;
            }
        }
        Ok(())
    }
}
