//! The agent's own deletions, so that the switch's late word of them is not taken for somebody else's.
//!
//! Only verdicts say that they go (`send_flow_rem`). A word that the agent waits for is
//! its own; any other says that the flow is gone, whoever did it, and the agent forgets it.

use std::collections::BTreeMap;

use openflow::{FlowKey, FlowMod, FlowModCommand};

use crate::pipeline::vocabulary::Table;

/// Deletions that the switch has not confirmed.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// How many words are awaited of a flow, and the round in which the last was.
    awaited: BTreeMap<FlowKey, (u32, u64)>,
    round: u64,
}

impl Deletions {
    /// Notes the verdicts that these changes delete.
    pub fn note(&mut self, flows: &[FlowMod]) {
        let verdicts = [Table::Egress.id(), Table::Ingress.id()];
        let deleted = flows
            .iter()
            .filter(|change| change.command == FlowModCommand::DeleteStrict)
            .filter(|change| verdicts.contains(&change.flow.table));
        for change in deleted {
            let entry = self.awaited.entry(change.flow.key()).or_default();
            *entry = (entry.0 + 1, self.round);
        }
    }

    /// Takes the switch's word that a flow was deleted: whether the agent did it.
    pub fn confirm(&mut self, key: &FlowKey) -> bool {
        let Some((count, _)) = self.awaited.get_mut(key) else { return false };
        *count -= 1;
        if *count == 0 {
            self.awaited.remove(key);
        }
        true
    }

    /// Ends a round, and gives up on words that did not come in the one before: those of flows that had timed out.
    pub fn next_round(&mut self) {
        let round = self.round;
        self.awaited.retain(|_, (_, noted)| *noted == round);
        self.round += 1;
    }

    /// The connection is gone, and every word that was under way with it.
    pub fn clear(&mut self) {
        self.awaited.clear();
    }
}
