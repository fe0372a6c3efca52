//! Which of this node's pods leave the cluster otherwise than by the node itself: their static flows say so.

use std::collections::BTreeSet;

use policy::{Exit, Family};

use super::book::Attachment;
use super::{AttachmentKey, Node};

impl Node {
    /// The families in which an attachment does not leave by this node as others do.
    fn wanted_exits(&self, attachment: &Attachment) -> BTreeSet<Family> {
        let addresses = attachment.addresses.iter().filter(|_| attachment.segment.is_none());
        addresses.filter(|ip| self.world.exit(**ip) != Exit::OwnNode).map(|ip| Family::of(*ip)).collect()
    }

    /// Has every pod leave as its namespace says.
    pub(super) fn refresh_exits(&mut self) {
        let changed: Vec<(AttachmentKey, BTreeSet<Family>)> = self
            .book
            .iter()
            .map(|attachment| (attachment, self.wanted_exits(attachment)))
            .filter(|(attachment, wanted)| attachment.exits != *wanted)
            .map(|(attachment, wanted)| (attachment.key.clone(), wanted))
            .collect();
        let mut flows = Vec::new();
        for (key, exits) in changed {
            if let Some((_, _, changes)) = self.change_pod(&key, |book| book.set_exits(&key, exits)) {
                flows.extend(changes);
            }
        }
        self.commit(flows);
    }
}
