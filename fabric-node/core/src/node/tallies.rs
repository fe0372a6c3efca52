//! Packets by the reason for which they were denied, or would be if audit counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use policy::Because;

use super::memory::Reasons;
use crate::pipeline::learned::Decision;

/// Reasons that are told apart; what there is above has one name.
const MOST: usize = 10_000;
/// Name of all reasons that will not last: they name addresses, of which there is no end.
const PROVISIONAL: &str = "not known yet";
/// Name of reasons beyond those told apart.
const OTHER: &str = "other reasons";

/// Numbers that never go back, by reason.
#[derive(Debug, Default)]
pub struct Tallies {
    /// The reasons of flows, each once.
    shared: BTreeSet<Arc<Because>>,
    /// As many as there were when those without a flow were last let go.
    kept: usize,
    denied: BTreeMap<String, u64>,
    audited: BTreeMap<String, u64>,
}

impl Tallies {
    /// Packets that were denied, by reason, in order.
    pub fn denied(&self) -> impl Iterator<Item = (&str, u64)> {
        self.denied.iter().map(|(because, packets)| (because.as_str(), *packets))
    }

    /// New conversations that were allowed although policies in audit mode would deny them, by reason, in order.
    pub fn audited(&self) -> impl Iterator<Item = (&str, u64)> {
        self.audited.iter().map(|(because, packets)| (because.as_str(), *packets))
    }

    /// The reasons of a decision, shared with all that have the same.
    pub(super) fn reasons(&mut self, decision: &Decision) -> Reasons {
        Reasons {
            allows: decision.allows,
            because: decision.because.as_ref().map(|because| self.share(because)),
            audit: decision.audit.as_ref().map(|because| self.share(because)),
        }
    }

    fn share(&mut self, because: &Because) -> Arc<Because> {
        if let Some(known) = self.shared.get(because) {
            return Arc::clone(known);
        }
        if self.shared.len() > 2 * self.kept + 64 {
            self.shared.retain(|because| Arc::strong_count(because) > 1);
            self.kept = self.shared.len();
        }
        let because = Arc::new(because.clone());
        self.shared.insert(Arc::clone(&because));
        because
    }

    /// Counts packets for the reasons of the flow that took them.
    pub(super) fn count(&mut self, reasons: &Reasons, packets: u64) {
        match (&reasons.because, &reasons.audit) {
            _ if packets == 0 => {}
            (Some(because), _) if !reasons.allows => add(&mut self.denied, because, packets),
            (_, Some(audit)) => add(&mut self.audited, audit, packets),
            _ => {}
        }
    }
}

fn add(tally: &mut BTreeMap<String, u64>, because: &Because, packets: u64) {
    let name = if because.is_provisional() { PROVISIONAL.to_owned() } else { because.to_string() };
    let full = tally.len() >= MOST && !tally.contains_key(&name);
    let name = if full { OTHER.to_owned() } else { name };
    let count = tally.entry(name).or_default();
    *count = count.saturating_add(packets);
}
