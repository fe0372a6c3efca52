//! Requests from the container runtime: at once where the agent can, held for a moment where it cannot yet.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::book::{self, Stage};
use super::{
    AttachRequest, AttachmentKey, Command, Errand, Node, Reply, Request, RequestError, RequestId,
    WireCommand, WireSpec,
};

/// How long a request waits for the agent to be able to serve it.
const HELD_FOR: Duration = Duration::from_secs(10);
/// How long a request waits for its pod to become known: the runtime may be quicker than the watch.
const UNKNOWN_FOR: Duration = Duration::from_secs(3);

/// A request that waits.
#[derive(Debug)]
pub(super) struct Held {
    pub id: RequestId,
    pub request: Request,
    pub until: Instant,
}

impl Node {
    pub(super) fn handle_request(&mut self, id: RequestId, request: Request, now: Instant) {
        if let Request::Detach(key) = &request {
            self.withdraw(key);
        }
        match &request {
            Request::Ready => {
                let reply = match self.lacks() {
                    None => Ok(Reply::Done),
                    Some(lack) => Err(RequestError::NotReady(lack)),
                };
                self.reply(id, reply);
            }
            _ if !self.can_serve(&request) => {
                let patience = if self.lacks().is_none() { UNKNOWN_FOR } else { HELD_FOR };
                self.held_requests.push(Held { id, request, until: now + patience });
            }
            _ => self.serve(id, request, now),
        }
    }

    /// What is missing before containers can be attached; `None` if nothing is.
    #[must_use]
    pub fn lacks(&self) -> Option<String> {
        if !self.world_synced {
            return Some("the store has not delivered its first full list".into());
        }
        if self.world.node(&self.config.node).is_none() {
            return Some(format!("the cluster has no Node object named {}", self.config.node));
        }
        if !self.ports_ready {
            return Some("the database of Open vSwitch is not reachable".into());
        }
        if !self.switch_connected {
            return Some(format!("the OpenFlow connection to {} is down", self.config.bridge));
        }
        (!self.up).then(|| format!("the flows of {} are not compared yet", self.config.bridge))
    }

    /// Attaching needs everything; the rest needs the book alone.
    fn can_serve(&self, request: &Request) -> bool {
        match request {
            Request::Attach(request) | Request::Prepare(request) | Request::Complete { request, .. } => {
                self.lacks().is_none() && self.knows_pod(request)
            }
            _ => self.book_read,
        }
    }

    fn knows_pod(&self, request: &AttachRequest) -> bool {
        request.pod.as_ref().is_none_or(|pod| self.world.pod(&pod.reference()).is_some())
    }

    fn serve(&mut self, id: RequestId, request: Request, now: Instant) {
        match request {
            Request::Attach(request) => self.attach(id, request, now),
            Request::Prepare(request) => self.prepare_lease(id, &request, now),
            Request::Complete { request, routers } => self.complete(id, &request, &routers, now),
            Request::Detach(key) => self.detach(id, &key),
            Request::Check { key, netns } => self.check(id, &key, &netns),
            Request::Collect { network, valid } => self.collect(id, &network, &valid),
            Request::Ready => self.handle_request(id, Request::Ready, now),
        }
    }

    /// Serves what has waited and can be served.
    pub(super) fn serve_held(&mut self, now: Instant) {
        for held in std::mem::take(&mut self.held_requests) {
            if self.can_serve(&held.request) {
                self.serve(held.id, held.request, now);
            } else {
                self.held_requests.push(held);
            }
        }
    }

    /// Requests to attach what is to be detached are not served any more.
    fn withdraw(&mut self, key: &AttachmentKey) {
        for held in std::mem::take(&mut self.held_requests) {
            match &held.request {
                Request::Attach(request) | Request::Prepare(request) | Request::Complete { request, .. }
                    if request.key == *key =>
                {
                    self.reply(held.id, Err(RequestError::TryAgain("removed meanwhile".into())));
                }
                _ => self.held_requests.push(held),
            }
        }
    }

    pub(super) fn expire_held(&mut self, now: Instant) {
        for held in std::mem::take(&mut self.held_requests) {
            if held.until > now {
                self.held_requests.push(held);
                continue;
            }
            let lack = self.lacks().unwrap_or_else(|| "the agent is starting".into());
            match held.request {
                // Says what is not known.
                Request::Attach(request) if self.lacks().is_none() => self.attach(held.id, request, now),
                Request::Prepare(request) if self.lacks().is_none() => {
                    self.prepare_lease(held.id, &request, now)
                }
                // Without the book, the interface itself can still go; the port follows when its device is missed.
                Request::Detach(key) => self.forget_stranger(held.id, &key),
                _ => self.reply(held.id, Err(RequestError::TryAgain(lack))),
            }
        }
    }

    pub(super) fn forget_stranger(&mut self, id: RequestId, key: &AttachmentKey) {
        let task = self.errand(Errand::ForgetStranger { id });
        let host_name = book::host_name(key);
        self.forget_damaged(&host_name);
        self.command(Command::Wire { task, command: WireCommand::Remove { host_name } });
    }

    fn check(&mut self, id: RequestId, key: &AttachmentKey, netns: &str) {
        let Some(attachment) = self.book.get(key) else {
            let what = format!("container {} has no interface {} here", key.container_id, key.ifname);
            return self.reply(id, Err(RequestError::Unknown(what)));
        };
        if attachment.stage != Stage::Ready || self.book_port(key).is_none() {
            let what = format!("interface {} of container {} is not ready", key.ifname, key.container_id);
            return self.reply(id, Err(RequestError::Failed(what)));
        }
        let spec = WireSpec { netns: netns.to_owned(), ..self.wire_spec(attachment) };
        let task = self.errand(Errand::Check { id });
        self.command(Command::Wire { task, command: WireCommand::Check(spec) });
    }

    /// Every attachment of a network configuration that is not listed goes; the answer comes behind the last one.
    fn collect(&mut self, id: RequestId, configuration: &str, valid: &BTreeSet<AttachmentKey>) {
        let stale: BTreeSet<AttachmentKey> = self
            .book
            .iter()
            .filter(|a| a.configuration == configuration && !valid.contains(&a.key))
            .map(|a| a.key.clone())
            .collect();
        if stale.is_empty() {
            return self.reply(id, Ok(Reply::Done));
        }
        self.collecting.push((id, stale.clone()));
        for key in stale {
            self.fail(&key, RequestError::TryAgain("removed as unused meanwhile".into()));
        }
    }

    /// An attachment is gone, which a collection may have waited for.
    pub(super) fn collected(&mut self, key: &AttachmentKey) {
        for (id, mut stale) in std::mem::take(&mut self.collecting) {
            stale.remove(key);
            if stale.is_empty() {
                self.reply(id, Ok(Reply::Done));
            } else {
                self.collecting.push((id, stale));
            }
        }
    }
}
