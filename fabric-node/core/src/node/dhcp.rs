//! Attachments whose address a DHCP server of their VLAN gives: the IPAM plugin `dhcp` has a daemon ask on the container's
//! own interface, so that comes first, and the address later.
//!
//! ```text
//!   Prepare: Network, devices, flows, port        Complete: claim, a look at the wire, addresses, flows
//!   -----------------------------------------> Waiting -----------------------------------------------> Ready
//!                                               |  ^                        |
//!                               nobody came for |  |     the address cannot |
//!                                   `WAITS_FOR` |  '------------------------'  be had
//!                                               v
//!                                          the way out
//! ```
//!
//! While it waits, nothing passes but what its DHCP client says and hears (`pipeline/statics/dhcp.rs`). An address that
//! cannot be had leads back to waiting: only from the interface can the plugin tell the server that nobody uses it. The
//! row of the interface says by the plugin's name, and by the addresses that it has not, what an earlier agent left
//! waiting.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use policy::Family;

use super::attach::attached;
use super::book::{Attachment, Stage, leases};
use super::{AttachRequest, AttachmentKey, Node, Reply, RequestError, RequestId};

/// How long an interface waits for its lease: longer than a plugin may take to get one.
const WAITS_FOR: Duration = Duration::from_secs(120);

impl Node {
    /// Makes an interface on which a lease can be asked for.
    pub(super) fn prepare_lease(&mut self, id: RequestId, request: &AttachRequest, now: Instant) {
        let key = &request.key;
        if !leases(request.ipam.as_ref()) {
            let what = "an interface without addresses is for the IPAM plugin dhcp alone";
            return self.reply(id, Err(RequestError::Invalid(what.into())));
        }
        let Some(attachment) = self.book.get_mut(key) else {
            if self.enter(id, request)
                && let Err(error) = self.join_to_lease(request, now)
            {
                self.fail(key, error);
            }
            return;
        };
        if let Err(error) = can_be_asked(attachment) {
            return self.reply(id, Err(error));
        }
        match attachment.stage {
            Stage::Waiting | Stage::Ready => {
                attachment.netns.clone_from(&request.netns);
                self.recheck(key, id);
            }
            _ if attachment.completing => {
                self.reply(id, Err(under_way(key)));
            }
            _ => attachment.attaching.push(id),
        }
    }

    fn join_to_lease(&mut self, request: &AttachRequest, now: Instant) -> Result<(), RequestError> {
        let network = self.network_of(request)?;
        let segment = self.segment_for(&network)?;
        self.mac_is_free(request, &network)?;
        if segment.is_none() {
            return Err(RequestError::Invalid(format!(
                "ipam.type \"dhcp\" asks a DHCP server in a VLAN, and Network {} is an overlay, where there is none: \
                 choose an underlay Network (fabric.io/network), or leave `ipam` out",
                network.name
            )));
        }
        self.join(&request.key, &network, segment, now);
        self.wire(&request.key);
        Ok(())
    }

    /// It has devices, port and flows: whoever asked for it may ask the server.
    pub(super) fn wait_for_lease(&mut self, key: &AttachmentKey, now: Instant) {
        let Some(attachment) = self.book.get_mut(key) else { return };
        attachment.stage = Stage::Waiting;
        let reply = Reply::Attached(attached(attachment));
        for id in std::mem::take(&mut attachment.attaching) {
            self.reply(id, Ok(reply.clone()));
        }
        self.wait_until(key, now + WAITS_FOR);
    }

    fn wait_until(&mut self, key: &AttachmentKey, until: Instant) {
        self.waiting.retain(|(other, _)| other != key);
        self.waiting.push((key.clone(), until));
    }

    /// An attachment was found in the database, which may wait for its lease since an earlier run.
    pub(super) fn note_waiting(&mut self, attachment: &Attachment, now: Instant) {
        if attachment.stage == Stage::Waiting {
            self.wait_until(&attachment.key, now + WAITS_FOR);
        }
    }

    /// Removes interfaces whose lease nobody has brought: whoever asked for it is gone.
    pub(super) fn expire_waiting(&mut self, now: Instant) {
        let (over, wait) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(_, until)| *until <= now);
        self.waiting = wait;
        for (key, _) in over {
            if self.book.get(&key).is_some_and(|attachment| attachment.stage == Stage::Waiting) {
                let what = format!("no address came for interface {} in time", key.ifname);
                self.fail(&key, RequestError::TryAgain(what));
            }
        }
    }

    /// The address that an interface waits for has come.
    pub(super) fn complete(
        &mut self,
        id: RequestId,
        request: &AttachRequest,
        routers: &[IpAddr],
        now: Instant,
    ) {
        let key = &request.key;
        let Some(attachment) = self.book.get_mut(key) else {
            let what = format!("interface {} is gone that was to have the lease: begin anew", key.ifname);
            return self.reply(id, Err(RequestError::TryAgain(what)));
        };
        if let Err(error) = can_be_asked(attachment) {
            return self.reply(id, Err(error));
        }
        match attachment.stage {
            Stage::Ready if sorted(&attachment.addresses) != sorted(&request.ips) => {
                let error = another_address(attachment, &request.ips);
                self.reply(id, Err(error));
            }
            Stage::Ready => self.recheck(key, id),
            Stage::Waiting => {
                attachment.completing = true;
                attachment.attaching.push(id);
                attachment.netns.clone_from(&request.netns);
                if let Err(error) = self.take_lease(request, routers, now) {
                    self.fail(key, error);
                }
            }
            _ if attachment.completing && sorted(&attachment.fixed) == sorted(&request.ips) => {
                attachment.attaching.push(id);
            }
            _ => self.reply(id, Err(under_way(key))),
        }
    }

    fn take_lease(
        &mut self,
        request: &AttachRequest,
        routers: &[IpAddr],
        now: Instant,
    ) -> Result<(), RequestError> {
        let network = self.network_of(request)?;
        let joined = self.book.get(&request.key).map(|a| (a.network.clone(), a.segment.clone()));
        if joined != Some((network.name.clone(), self.segment_for(&network)?)) {
            let what = format!("the pod is to be in Network {} by now: begin anew", network.name);
            return Err(RequestError::TryAgain(what));
        }
        let wish = self.wish(request, &network)?;
        if wish.fixed.is_empty() {
            return Err(RequestError::NoAddress("the IPAM plugin dhcp gave no address".into()));
        }
        let addresses = self.choose_addresses(&network, &wish, now)?;
        // What an earlier agent claimed for another answer.
        let owner = super::book::owner(&request.key);
        for ip in self.claims_of(&owner, &addresses) {
            self.release(ip, &owner);
        }
        // The Network's own word, then the server's, then what Networks have without either.
        let named = network.gateway.iter().chain(routers);
        let gateway = |family: Family| {
            let first = named.clone().copied().find(|ip| Family::of(*ip) == family);
            first.or_else(|| network.gateway(family))
        };
        let gateways = addresses.iter().filter_map(|ip| gateway(Family::of(*ip))).collect();
        self.claim_chosen(&request.key, gateways, wish.fixed, addresses);
        Ok(())
    }

    /// Leads an attachment that cannot have its address back to waiting, so that the plugin can give the lease back from
    /// its interface; false for any other.
    pub(super) fn refuse_lease(&mut self, key: &AttachmentKey) -> bool {
        if self.collecting.iter().any(|(_, stale)| stale.contains(key)) {
            return false;
        }
        let Some(attachment) = self.book.get_mut(key) else { return false };
        let before_devices =
            matches!(attachment.stage, Stage::Waiting | Stage::Claiming { open: 0 } | Stage::Probing);
        if !attachment.completing || !attachment.detaching.is_empty() || !before_devices {
            return false;
        }
        let Some(fault) = attachment.fault.take() else { return false };
        attachment.completing = false;
        attachment.stage = Stage::Waiting;
        attachment.fixed.clear();
        attachment.gateways.clear();
        attachment.clear.clear();
        let (owner, addresses) = (attachment.owner(), std::mem::take(&mut attachment.addresses));
        let asked = std::mem::take(&mut attachment.attaching);
        for ip in addresses {
            self.release(ip, &owner);
        }
        for id in asked {
            self.reply(id, Err(fault.clone()));
        }
        self.wait_until(key, self.clock.at + WAITS_FOR);
        true
    }

    /// Claims of an attachment whose addresses it does not know of: an earlier agent made them, and was ended.
    pub(super) fn other_claims(&self, attachment: &Attachment) -> Vec<IpAddr> {
        if !attachment.leases() {
            return Vec::new();
        }
        self.claims_of(&attachment.owner(), &attachment.addresses)
    }
}

/// Whether a request about a lease fits an interface that there is.
fn can_be_asked(attachment: &Attachment) -> Result<(), RequestError> {
    let ifname = &attachment.key.ifname;
    if attachment.is_leaving() {
        return Err(RequestError::TryAgain(format!("interface {ifname} is just being removed")));
    }
    if !attachment.leases() {
        let what = format!("interface {ifname} has addresses that are no lease: remove it first (DEL)");
        return Err(RequestError::Invalid(what));
    }
    Ok(())
}

fn under_way(key: &AttachmentKey) -> RequestError {
    RequestError::TryAgain(format!("another request for interface {} is under way", key.ifname))
}

fn another_address(attachment: &Attachment, given: &[IpAddr]) -> RequestError {
    let list = |ips: &[IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    RequestError::Invalid(format!(
        "interface {} has {}, but the DHCP server has given {} meanwhile: remove it (DEL), and add it anew",
        attachment.key.ifname,
        list(&attachment.addresses),
        list(given)
    ))
}

fn sorted(ips: &[IpAddr]) -> Vec<IpAddr> {
    let mut ips = ips.to_vec();
    ips.sort();
    ips
}
