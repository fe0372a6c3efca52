//! Limits of pods: those of the pod's annotations, else those that the runtime asked for.

use openflow::{FlowMod, FlowTable};

use super::book::{Attachment, Book};
use super::{AttachmentKey, Command, Errand, Node, SwitchCommand};
use crate::pipeline::site::{LocalPod, Rates};
use crate::pipeline::statics::{forget_rates, pod_flows, pod_meters};

impl Node {
    /// The limits that an attachment should have. Those of a pod that is not known are as they were.
    pub(super) fn wanted_rates(&self, attachment: &Attachment) -> Rates {
        let Some(ident) = &attachment.pod else { return attachment.asked_rates };
        let Some(pod) = self.world.pod(&ident.reference()).filter(|pod| ident.is_uid(&pod.uid)) else {
            return attachment.rates;
        };
        let asked = attachment.asked_rates;
        Rates {
            out: pod.annotations.egress_bandwidth.or(asked.out),
            into: pod.annotations.ingress_bandwidth.or(asked.into),
        }
    }

    /// Gives every pod the limits that it should have.
    pub(super) fn refresh_rates(&mut self) {
        let changed: Vec<(AttachmentKey, Rates)> = self
            .book
            .iter()
            .map(|attachment| (attachment, self.wanted_rates(attachment)))
            .filter(|(attachment, wanted)| attachment.rates != *wanted)
            .map(|(attachment, wanted)| (attachment.key.clone(), wanted))
            .collect();
        for (key, rates) in changed {
            self.set_rates(&key, rates);
        }
    }

    /// Changes what the book has of an attachment: its pod before and after, where it has one, and what has to change in
    /// the pod's flows.
    pub(super) fn change_pod(
        &mut self,
        key: &AttachmentKey,
        change: impl FnOnce(&mut Book),
    ) -> Option<(LocalPod, LocalPod, Vec<FlowMod>)> {
        let zone = self.book.get(key)?.zone;
        let before = self.pod_of_zone(zone);
        change(&mut self.book);
        let (before, after) = (before?, self.pod_of_zone(zone)?);
        let had: FlowTable = pod_flows(&self.site, &before).into_iter().collect();
        let wanted: FlowTable = pod_flows(&self.site, &after).into_iter().collect();
        let flows = FlowTable::diff(&had, &wanted);
        Some((before, after, flows))
    }

    fn set_rates(&mut self, key: &AttachmentKey, rates: Rates) {
        let changed = self.change_pod(key, |book| book.set_rates(key, rates));
        let Some((before, after, flows)) = changed.filter(|_| self.up) else { return };
        let meters = pod_meters(&after, self.config.punts_per_second);
        let task = self.errand(Errand::Commit);
        self.command(Command::Switch(SwitchCommand::Commit { task, meters, flows }));
        // With a meter go the flows that use it.
        let unused = forget_rates(&before, &after);
        if !unused.is_empty() {
            let task = self.errand(Errand::Commit);
            self.command(Command::Switch(SwitchCommand::Commit { task, meters: unused, flows: vec![] }));
        }
    }
}
