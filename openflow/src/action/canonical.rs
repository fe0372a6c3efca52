//! One form for actions that say the same, so that a flow compares equal to what a switch shows
//! of it.

use super::{Action, port};
use crate::field::Value;

impl Action {
    /// The form in which a switch that speaks OpenFlow 1.5 shows the action: loads are masked
    /// `set_field`s, a plain `controller` is an output, notes are padded, and arguments without
    /// effect have fixed values.
    #[must_use]
    pub fn canonical(self) -> Action {
        match self {
            Action::Output { port, .. } if port != port::CONTROLLER => Action::Output { port, max_len: 0 },
            Action::Controller(c) if c.is_plain() => {
                Action::Output { port: port::CONTROLLER, max_len: c.max_len }
            }
            Action::Load { dst, value } => {
                set_field(dst.field, Value(dst.place(value.into())), Some(Value(dst.mask())))
            }
            Action::SetField { field, value, mask } => set_field(field, value, mask),
            Action::Resubmit { in_port, table, ct } => Action::Resubmit {
                in_port: in_port.filter(|port| *port != 0xfff8),
                table: table.filter(|table| *table != 0xff),
                ct,
            },
            Action::Note(mut bytes) => {
                // Ten bytes of header, the whole a multiple of eight.
                let length = (bytes.len() + 10).next_multiple_of(8) - 10;
                bytes.resize(length, 0);
                Action::Note(bytes)
            }
            Action::Ct(mut ct) => {
                ct.exec = canonical_actions(ct.exec);
                Action::Ct(ct)
            }
            Action::Clone(actions) => Action::Clone(canonical_actions(actions)),
            Action::WriteActions(actions) => Action::WriteActions(canonical_actions(actions)),
            other => other,
        }
    }

    /// Where the action stands in a flow: OpenFlow 1.5.1 §5.5 applies the list first.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Action::ClearActions => 1,
            Action::WriteActions(_) => 2,
            Action::WriteMetadata { .. } => 3,
            Action::Raw(raw) if raw.instruction => 4,
            Action::GotoTable(_) => 5,
            _ => 0,
        }
    }
}

fn set_field(field: crate::Field, value: Value, mask: Option<Value>) -> Action {
    let mask = mask.filter(|mask| mask.0 & field.full_mask() != field.full_mask());
    let value = Value(value.0 & mask.map_or(field.full_mask(), |mask| mask.0));
    Action::SetField { field, value, mask }
}

/// The canonical form of a flow's actions, in the order in which they take effect.
#[must_use]
pub fn canonical_actions(actions: Vec<Action>) -> Vec<Action> {
    let mut actions: Vec<Action> = actions.into_iter().map(Action::canonical).collect();
    actions.sort_by_key(Action::rank);
    actions
}

/// Whether two lists of actions do the same, as far as their canonical forms tell.
#[must_use]
pub fn same_actions(a: &[Action], b: &[Action]) -> bool {
    a == b || canonical_actions(a.to_vec()) == canonical_actions(b.to_vec())
}
