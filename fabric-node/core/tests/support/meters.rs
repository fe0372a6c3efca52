//! The meters of a model of a switch.

use std::collections::BTreeMap;

use openflow::message::{MeterCommand, MeterConfig, MeterMod};
use openflow::{Action, Flow, FlowTable};

/// Meters by number.
#[derive(Default)]
pub struct Meters(BTreeMap<u32, MeterConfig>);

impl Meters {
    /// As the switch does it: what exists already is not added, and with a meter go the flows that use it.
    pub fn apply(&mut self, changes: Vec<MeterMod>, flows: &mut FlowTable) {
        for MeterMod { command, meter } in changes {
            match command {
                MeterCommand::Add => drop(self.0.entry(meter.id).or_insert(meter)),
                MeterCommand::Modify => drop(self.0.get_mut(&meter.id).map(|known| *known = meter)),
                MeterCommand::Delete => {
                    self.0.remove(&meter.id);
                    let using: Vec<Flow> =
                        flows.iter().filter(|flow| uses(flow, meter.id)).cloned().collect();
                    using.iter().for_each(|flow| drop(flows.remove(&flow.key())));
                }
            }
        }
    }

    /// Whether there is every meter that a flow uses.
    pub fn serve(&self, flow: &Flow) -> bool {
        flow.actions.iter().all(|action| !matches!(action, Action::Meter(id) if !self.0.contains_key(id)))
    }

    /// The rate and burst of a meter.
    pub fn band(&self, id: u32) -> Option<(u32, u32)> {
        self.0.get(&id).map(|meter| (meter.bands[0].rate, meter.bands[0].burst))
    }
}

fn uses(flow: &Flow, id: u32) -> bool {
    flow.actions.contains(&Action::Meter(id))
}
