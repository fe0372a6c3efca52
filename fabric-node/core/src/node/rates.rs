//! Limits of pods: those of the pod's annotations, else those that the runtime asked for.

use openflow::{FlowMod, FlowTable};

use super::book::Attachment;
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

    /// What has to change in the flows of a pod that is as it was but for what it may send and receive.
    pub(super) fn pod_flow_changes(&self, before: &LocalPod, after: &LocalPod) -> Vec<FlowMod> {
        let had: FlowTable = pod_flows(&self.site, before).into_iter().collect();
        let wanted: FlowTable = pod_flows(&self.site, after).into_iter().collect();
        FlowTable::diff(&had, &wanted)
    }

    fn set_rates(&mut self, key: &AttachmentKey, rates: Rates) {
        let Some(zone) = self.book.get(key).map(|a| a.zone) else { return };
        let before = self.pod_of_zone(zone);
        self.book.set_rates(key, rates);
        let (Some(before), Some(after)) = (before, self.pod_of_zone(zone)) else { return };
        if !self.up {
            return;
        }
        let flows = self.pod_flow_changes(&before, &after);
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
